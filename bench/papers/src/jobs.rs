//! All jobs of which a process of this program can be a rank.

use rmalab_job as job;
use rmalab_job::{Error, Result};

/// Runs as a rank and ends the process, if it was started as a rank of one of the jobs.
macro_rules! serve {
    ($($job:ty),* $(,)?) => {
        /// Runs the task of a rank of a [`Job`](rmalab_job::Job) and ends the process, if it was started as one;
        /// otherwise does nothing.
        ///
        /// # Errors
        ///
        /// [`Error::Ranks`] for an invalid task; errors of the world.
        pub fn serve() -> Result<()> {
            let Some((name, task)) = job::told()? else { return Ok(()) };
            match name.as_str() {
                $(<$job as job::Job>::NAME => job::rank::<$job>(task),)*
                _ => Err(Error::Ranks(format!("there is no job '{name}': only the program itself starts ranks"))),
            }
        }
    };
}

// One line each, by name.
serve! {
    crate::reproduce::fompi_atomics::Accumulates,
    rmalab_apps::Fft,
    rmalab_apps::Ghost,
    rmalab_apps::RandomAccess,
    rmalab_apps::HashTable,
    rmalab_apps::Ycsb,
    rmalab_apps::Dsde,
    rmalab_apps::Lattice,
    rmalab_apps::Stencil,
    crate::reproduce::dart_distance::Distances,
    crate::reproduce::dart_latency::Latency,
    crate::compare::locks::LocalLock,
    crate::compare::ours::Operations,
    crate::reproduce::fompi_fence::Fences,
    crate::reproduce::infiniband::Epochs,
    crate::reproduce::mpich2_ops::Messages,
    crate::reproduce::fompi_latency::Transfers,
    crate::reproduce::fompi_locks::LockCalls,
    crate::reproduce::fompi_pscw::Neighbours,
    crate::reproduce::fompi_windows::Creations,
    crate::reproduce::fx100_lockall::LockAlls,
    crate::reproduce::fx10_software::SoftwareLocks,
}
