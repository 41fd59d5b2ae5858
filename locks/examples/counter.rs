//! A reader-writer lock that lives at rank 0, used by four ranks.
//!
//! `cargo run --release -p rmalab-locks --example counter`

use rmalab_atomics::{Rank, RemoteAtomics, World};
use rmalab_locks::{McsRwRp, RwLock};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seen = World::threads(4).run(|ra| -> rmalab_locks::Result<u64> {
        let counter = Rank(0).at(ra.heap().alloc(8, 8)?); // the same place on every rank, without communication
        let mut lock = RwLock::<_, McsRwRp>::create(ra, Rank(0), ())?;
        let guard = lock.acquire_write()?;
        let old = ra.get(counter)?;
        ra.fetch_store(counter, old + 1)?;
        guard.release()?;
        Ok(old)
    })?;
    let mut seen = seen.into_iter().collect::<Result<Vec<_>, _>>()?;
    seen.sort();
    println!("{seen:?}");
    Ok(())
}
