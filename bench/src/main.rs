//! The `rmalab` command.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    rmalab::main_with(rmalab::Registry::standard())
}
