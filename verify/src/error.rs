//! What can keep a check from being made.

use rmalab_atomics::Rank;

/// The result of running a check.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A check that could not be made; what a check *found* is in its verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario has more ranks than the world.
    #[error("{rank}: scenario {scenario} needs {needed} ranks, and the world has {size}")]
    TooFewRanks {
        /// Who called.
        rank: Rank,
        /// The scenario.
        scenario: String,
        /// How many ranks it has.
        needed: u32,
        /// How many ranks the world has.
        size: u32,
    },
    /// The lock under test returned an error.
    #[error(transparent)]
    Locks(#[from] rmalab_locks::Error),
    /// The network operations of the check failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
}
