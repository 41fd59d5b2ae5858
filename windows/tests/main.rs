//! All tests of windows in one program: of many programs, each would build what is generic again.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

mod costs;
mod environment;
mod epochs;
mod errors;
mod examples;
mod flavors;
mod global;
mod guards;
mod handlers;
mod hints;
mod memory;
mod messages;
mod model;
mod names;
mod operations;
mod progress;
mod raw;
mod readme;
mod requests;
mod soundness;
mod support;
mod teams;
mod touching;
mod trace;
mod trace_fuzz;
mod two_sided;

/// A file that is no module would not run.
#[test]
fn every_file_is_a_module() {
    let main = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_source = path.extension().is_some_and(|end| end == "rs");
        if is_source && !["main", "compile_fail"].contains(&name) {
            assert!(main.contains(&format!("mod {name};\n")), "tests/main.rs has no line `mod {name};`");
        }
    }
}
