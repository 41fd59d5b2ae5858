//! Worlds: the number of ranks, the memory of each, and their places.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Error, Rank, Result};

/// Makes worlds: [`World::threads`] or [`World::processes`](World::processes).
#[derive(Debug)]
pub struct World;

/// Default number of bytes of a rank's segment on a real or simulated network.
///
/// An adapter keeps the whole segment in memory. This is enough for the words of a few hundred locks.
pub const SEGMENT_BYTES: u64 = 1 << 20;

/// Default number of bytes of a rank's segment if ranks share memory.
///
/// A page takes memory once it is touched, so unused pages cost only address space. If that is limited (`ulimit -v`), segments have
/// [`SEGMENT_BYTES`].
pub const SHARED_SEGMENT_BYTES: u64 = 64 << 20;

/// Binds the calling thread to one of the cores that it may run on. Ranks take these cores in turn.
///
/// Bind ranks that are measured, as MPI's launchers do. Otherwise the scheduler may keep two ranks on one core, where they never contend. A
/// rank calls this first.
///
/// # Errors
///
/// [`Error::System`] when the system call fails. Do not go on with an unbound rank: its measurements depend on the scheduler.
pub fn bind_to_core(rank: Rank) -> Result<()> {
    let failed = |error| {
        Error::system(
            format!(
                "binding {rank} to a core (in a container, allow sched_setaffinity in its seccomp profile; or leave the ranks unbound, as by `rmalab study --no-bind`)"
            ),
            error,
        )
    };
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let mut one = CpuSet::new();
    one.set(cores[rank.index() % cores.len().max(1)]);
    sched_setaffinity(None, &one).map_err(failed)
}
