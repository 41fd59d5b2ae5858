//! The documents: links, generated pages, examples and commands of README.md, of the book in `docs` and of the other
//! pages.

#[path = "documents/commands.rs"]
mod commands;
#[path = "documents/contributing.rs"]
mod contributing;
#[path = "documents/environment.rs"]
mod environment;
#[path = "documents/generated.rs"]
mod generated;
#[path = "documents/links.rs"]
mod links;
#[path = "documents/page.rs"]
mod page;
#[path = "documents/results.rs"]
mod results;
#[path = "documents/tests.rs"]
mod tests;
#[path = "documents/tutorial.rs"]
mod tutorial;

use page::root;

#[test]
fn the_readme_shows_the_example_that_is_run() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let example = std::fs::read_to_string(root().join("locks/examples/counter.rs")).unwrap();
    let code = &example[example.find("use std::process").unwrap()..];
    assert!(readme.contains(&format!("```rust\n{code}```")), "README.md's example is not locks/examples/counter.rs");
}
