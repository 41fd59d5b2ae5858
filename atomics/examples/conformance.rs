//! Runs the conformance suite on any backend, in one world. It makes every check that suits the number of ranks, and
//! prints one line for each.
//!
//! `cargo run -p rmalab-atomics --example conformance -- --backend shm --ranks 4`; `mpirun -n 4` and `rmalab launch -n
//! 4` can start the ranks, too. The exit code is 1 if a check fails on any rank. With `RMALAB_CONFORMANCE_SHARE=10`
//! each check runs a tenth of its rounds.

use std::error::Error;
use std::process::ExitCode;

use rmalab_atomics::conformance::checks;
use rmalab_atomics::{Backend, Rank, RemoteAtomics, started_as};

fn main() -> ExitCode {
    let (backend, ranks) = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("conformance: {error}; the options are --backend local|shm|verbs|mpi and --ranks N");
            return ExitCode::from(2);
        }
    };
    match backend.try_run(ranks, rank) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all checks in order on a rank, up to the first that fails.
fn rank(ra: &dyn RemoteAtomics) -> Result<u64, String> {
    let mut passed = 0;
    for check in checks::<dyn RemoteAtomics>().iter().filter(|check| check.suits(ra.size())) {
        (check.run)(ra).map_err(|failure| match &failure.source {
            Some(source) => format!("{failure}: {source}"),
            None => failure.to_string(),
        })?;
        passed += 1;
        if ra.rank() == Rank(0) {
            println!("{} ok", check.name);
        }
    }
    if ra.rank() == Rank(0) {
        println!("{passed} checks on {} ranks of {}", ra.size(), ra.capabilities().backend);
    }
    Ok(passed)
}

fn arguments() -> Result<(Backend, u32), Box<dyn Error>> {
    let (mut backend, mut ranks) = (Backend::Local, started_as()?.map_or(4, |(_, size)| size));
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option}: unknown, or without its value"))?;
        match option.as_str() {
            "--backend" => backend = value.parse()?,
            "--ranks" => ranks = value.parse().map_err(|_| format!("--ranks {value}: not a number"))?,
            _ => return Err(format!("{option}: unknown").into()),
        }
    }
    Ok((backend, ranks))
}
