//! All jobs that a process of this program can be a rank of.

use crate::{Error, Result, job};

/// Is a rank and ends the process, if this process was started as a rank of one of the jobs.
macro_rules! serve {
    ($($job:ty),* $(,)?) => {
        /// Does the work of a rank of a [`Job`](crate::job::Job) and ends the process, if this process was started as one;
        /// otherwise nothing.
        ///
        /// # Errors
        ///
        /// [`Error::Ranks`] in a process that was told nonsense; those of the world.
        pub fn serve() -> Result<()> {
            let Some((name, task)) = job::told()? else { return Ok(()) };
            match name.as_str() {
                $(<$job as job::Job>::NAME => job::rank::<$job>(task),)*
                _ => Err(Error::Ranks(format!("there is no job '{name}': ranks are started by the program itself"))),
            }
        }
    };
}

// One line each, by name.
serve! {
    crate::compare::locks::LocalLock,
    crate::compare::ours::Operations,
    crate::reproduce::fompi_fence::Fences,
}
