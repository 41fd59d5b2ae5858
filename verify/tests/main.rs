//! The tests of engines that compute, in one program, so that long ones run side by side.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

mod caught;
mod diagram;
mod litmus;
mod loom;
mod mutants;
mod placement;
mod planted;
mod shuttle;
mod store_buffers;
mod windows;

/// A file that is no module would not run.
#[test]
fn every_file_is_a_module() {
    let main = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_source = path.extension().is_some_and(|end| end == "rs");
        if is_source && !["main", "all_locks", "faults", "stress"].contains(&name) {
            assert!(main.contains(&format!("mod {name};\n")), "tests/main.rs has no line `mod {name};`");
        }
    }
}
