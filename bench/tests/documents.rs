//! The documents: their links lead to files, and the README's first example is the one that is built and run.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository is there")
}

/// README.md and the other documents of the repository.
fn documents() -> Vec<PathBuf> {
    let root = root();
    let pages = std::fs::read_dir(root.join("docs")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut documents: Vec<PathBuf> = pages.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    let others = ["README.md", "CONTRIBUTING.md", "windows/README.md", "verify/README.md", "bench/README.md"];
    documents.extend(others.map(|name| root.join(name)));
    documents
}

#[test]
fn links_lead_to_files() {
    let mut wrong = Vec::new();
    let mut links = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for (_, rest) in text.match_indices("](").map(|(at, mark)| text.split_at(at + mark.len())) {
            let target = &rest[..rest.find(')').expect("a link ends")];
            let file = target.split('#').next().unwrap();
            if target.contains("://") || file.is_empty() {
                continue;
            }
            links += 1;
            if !document.parent().unwrap().join(file).exists() {
                wrong.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links to files that do not exist:\n{}", wrong.join("\n"));
    assert!(links > 30, "only {links} links were found");
}

#[test]
fn the_first_example_of_the_readme_is_the_one_that_is_run() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let example = std::fs::read_to_string(root().join("locks/examples/counter.rs")).unwrap();
    let code = &example[example.find("use rmalab_atomics").unwrap()..];
    assert!(readme.contains(&format!("```rust\n{code}```")), "README.md's example is not locks/examples/counter.rs");
}
