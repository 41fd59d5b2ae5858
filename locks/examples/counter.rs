//! A reader-writer lock that lives at rank 0, used by four ranks.
//!
//! `cargo run --release -p rmalab-locks --example counter`: threads, or `-- shm` for processes. With `--features verbs`
//! and `-- verbs` they are processes over RDMA; with `--features mpi` and `-- mpi` under `mpirun -n 4`, over MPI.

use std::process::ExitCode;

use rmalab_atomics::{Backend, Collectives, Rank, RemoteAtomics};
use rmalab_locks::{McsRwRp, Result, RwLock};

fn count(ra: &dyn RemoteAtomics) -> Result<()> {
    // The same place on every rank, without communication.
    let counter = Rank(0).at(ra.heap().alloc(8, 8)?);
    let mut lock = RwLock::<_, McsRwRp>::create(ra, Rank(0), ())?;
    let guard = lock.acquire_write()?;
    let old = ra.get(counter)?;
    ra.fetch_store(counter, old + 1)?;
    guard.release()?;
    let mut seen = Collectives::new(ra)?.allgather(&[old])?;
    seen.sort_unstable();
    if ra.rank() == Rank(0) {
        println!("{seen:?}");
    }
    Ok(())
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or("local".into());
    match name.parse::<Backend>().and_then(|backend| backend.try_run(4, count)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
