//! `cargo xtask`: pages of the repository's documents that are results of the program.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rmalab::maintenance::xtask()
}
