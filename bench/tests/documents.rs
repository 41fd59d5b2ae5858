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
fn a_crate_outside_of_the_workspace_can_depend_on_windows() {
    let readme = std::fs::read_to_string(root().join("windows/README.md")).unwrap();
    let block =
        readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of dependencies");
    let at = tempfile::tempdir().unwrap();
    let clone = root().canonicalize().unwrap();
    let package = "[workspace]\n[package]\nname = \"outside\"\nedition = \"2024\"\n";
    let manifest = format!("{package}{}", block.replace("\"../rmalab/", &format!("\"{}/", clone.display())));
    std::fs::write(at.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::create_dir(at.path().join("src")).unwrap();
    std::fs::write(at.path().join("src/main.rs"), "fn main() {}").unwrap();
    std::fs::copy(clone.join("Cargo.lock"), at.path().join("Cargo.lock")).unwrap();
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Unlike `cargo metadata`, it does without the crates for other systems, which a build does not download.
    let output = cargo.args(["tree", "--offline", "--prefix", "none"]).current_dir(at.path()).output().unwrap();
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(found.contains("\nrmalab-windows v") && found.contains("\nrmalab-atomics v"), "{found}");
}

#[test]
fn the_readme_shows_the_example_that_is_run() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let example = std::fs::read_to_string(root().join("locks/examples/counter.rs")).unwrap();
    let code = &example[example.find("use std::process").unwrap()..];
    assert!(readme.contains(&format!("```rust\n{code}```")), "README.md's example is not locks/examples/counter.rs");
}
