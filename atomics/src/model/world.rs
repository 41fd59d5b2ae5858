//! Worlds: how many ranks, how much memory each, and where they run.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Error, Rank, Result};

/// The start of everything: [`World::threads`] or [`World::processes`](World::processes).
#[derive(Debug)]
pub struct World;

/// Bytes of a rank's segment on a network or a simulated one, unless the world is told otherwise.
///
/// An adapter keeps all of it in memory. This holds the words of a few hundred locks.
pub const SEGMENT_BYTES: u64 = 1 << 20;

/// Bytes of a rank's segment where ranks share memory, unless the world is told otherwise.
///
/// A page takes memory once it is touched, so what a program does not use costs address space only. Where that is limited
/// (`ulimit -v`), the segments are of [`SEGMENT_BYTES`].
pub const SHARED_SEGMENT_BYTES: u64 = 64 << 20;

/// Binds the calling thread to one core: those that it may run on now, in turn by rank.
///
/// Ranks that are measured are bound, as MPI's launchers bind theirs; otherwise the scheduler may well keep two ranks on
/// one core, where they never contend. Call it as the first thing that a rank does.
///
/// # Errors
///
/// [`Error::System`] when the system refuses. An unbound rank is no substitute: what it measures depends on where the
/// scheduler puts it.
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
