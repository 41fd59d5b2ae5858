//! What can keep a check from being made.

use rmalab_atomics::Rank;

use crate::Property;

/// The result of running a check.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A check that could not be made; what a check *found* is in its verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario has more ranks than the world.
    #[error("{rank}: scenario {scenario} needs {needed} ranks, and the world has {size}")]
    TooFewRanks {
        /// The rank that called.
        rank: Rank,
        /// The scenario.
        scenario: String,
        /// How many ranks it has.
        needed: u32,
        /// How many ranks the world has.
        size: u32,
    },
    /// A lock was given a role that only windows have.
    #[error("scenario {scenario}: {lock} is no window, and knows no role {role}; give it R, W or M")]
    Scenario {
        /// The scenario.
        scenario: String,
        /// The lock.
        lock: &'static str,
        /// The role.
        role: String,
    },
    /// A mutant is of another lock.
    #[error("mutant {mutant} is not one of {lock}, but of {of}")]
    Mutant {
        /// The mutant.
        mutant: &'static str,
        /// The lock.
        lock: &'static str,
        /// The locks that it is of.
        of: String,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A file that is not a counterexample.
    #[error("{path} is no counterexample: {why}", path = path.display())]
    Format {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A schedule that does not fit the lock: it was made for another version of it.
    #[error(
        "step {step} of the schedule cannot be taken: {why}; the lock, or the mutant, is not the one that it was made for"
    )]
    Schedule {
        /// The number of the step, counted from 0.
        step: usize,
        /// Why not.
        why: String,
    },
    /// The engine has no way to make this check.
    #[error("{engine}: {why}")]
    Unsupported {
        /// The engine.
        engine: &'static str,
        /// What it cannot do.
        why: String,
    },
    /// The engine cannot vouch for its result.
    #[error("{0}")]
    Unsound(String),
    /// The lock under test returned an error.
    #[error(transparent)]
    Locks(#[from] rmalab_locks::Error),
    /// The network operations of the check failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
    /// The window under test returned an error.
    #[error(transparent)]
    Windows(#[from] rmalab_windows::Error),
    /// A program has seen what it must not see.
    #[error("{property}: {seen}")]
    Seen {
        /// What is broken by that.
        property: Property,
        /// What it saw, values included.
        seen: String,
    },
}

impl Error {
    /// What is broken when a rank's code ends with this error, and how a report says so.
    pub(crate) fn breaks(&self) -> (Property, String) {
        match self {
            Error::Seen { property, seen } => (*property, seen.clone()),
            error => (Property::Invariant, format!("a call failed: {error}")),
        }
    }
}
