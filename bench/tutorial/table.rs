//! A window whose lock policy is the tutorial's lock.

use rmalab_atomics::{Rank, RemoteAtomics, World};
use rmalab_locks::{Exclusive, Global, GlobalParams, LockKind};
use rmalab_windows::{Result, Team, Window, WindowDisp};

use super::gate::Gate;

/// Each of `ranks` threads adds its rank to an entry of rank 0, under an exclusive lock; returns the threads' results.
pub(crate) fn fill(ranks: u32) -> std::result::Result<Vec<u64>, Box<dyn std::error::Error>> {
    let seen = World::threads(ranks).run(|ra| -> Result<u64> {
        let team = Team::new(ra)?;
        let window = Window::builder(&team)
            .policy::<Global<Exclusive<Gate>>>(GlobalParams::default())
            .disp_unit(8)
            .allocate(8)?;
        let epoch = window.lock(LockKind::Exclusive, Rank(0))?;
        let sum = epoch.get_value::<u64>(WindowDisp(0))? + u64::from(ra.rank().0);
        epoch.put(WindowDisp(0), &[sum])?;
        epoch.unlock()?;
        window.free()?;
        Ok(sum)
    })?;
    Ok(seen.into_iter().collect::<Result<Vec<u64>>>()?)
}
