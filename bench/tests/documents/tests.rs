//! Tests that pages name exist.

use crate::page::{book, others, read, root};

/// The texts between backquotes that are `FILE.rs::FUNCTION`, of a file with tests; a path from the repository's root.
fn named(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter_map(|name| name.split_once(".rs::")).filter(|(file, _)| file.contains("tests")).collect()
}

#[test]
fn tests_that_pages_name_exist() {
    let mut count = 0;
    for page in book().into_iter().chain(others()) {
        for (file, function) in named(&read(&page)) {
            let source = read(&root().join(format!("{file}.rs")));
            // Its attributes end just before it.
            let is_there = source.contains(&format!("]\nfn {function}("));
            assert!(is_there, "{}: there is no test {function} in {file}.rs", page.display());
            count += 1;
        }
    }
    assert!(count > 20, "only {count} tests are named");
}
