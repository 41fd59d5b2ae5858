//! The tests of all backends that need neither an RDMA device nor an MPI, in one program: of many programs, each would
//! build the conformance suite again. Virtual time has its own program, `engines.rs`: it would keep the processor from
//! threads that wait for each other.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers and ranks included")]

mod conformance;
mod processes;
mod registered;
mod registration;
mod subsets;
mod suite;
mod threads;
mod wrappers;

/// A file that is no module would not run.
#[test]
fn every_file_is_a_module() {
    let main = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_source = path.extension().is_some_and(|end| end == "rs");
        if is_source && !["main", "engines", "mpi", "sim", "verbs", "verbs_faults"].contains(&name) {
            assert!(main.contains(&format!("mod {name};\n")), "tests/main.rs has no line `mod {name};`");
        }
    }
}
