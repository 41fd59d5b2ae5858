//! docs/architecture.md names files and functions; this test checks that they exist.

use std::path::Path;

#[test]
fn the_walks_name_functions_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let mut names = 0;
    for quoted in page.split('`').skip(1).step_by(2) {
        let Some((file, function)) = quoted.split_once(".rs::") else { continue };
        let file = format!("{file}.rs");
        let source = std::fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let defined = source.contains(&format!("fn {function}(")) || source.contains(&format!("fn {function}<"));
        assert!(defined, "{file} has no function {function}");
        names += 1;
    }
    assert!(names >= 14, "the walks of a fetch_add and of a put have 13 steps in files, and there are only {names}");
}
