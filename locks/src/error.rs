//! What can go wrong with a lock.

use rmalab_atomics::Rank;

/// The result of a lock's operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A lock that could not be made, or that was used against the rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The network operations below failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
    /// The world has more ranks than the lock's words can count.
    #[error("{lock}: {size} ranks are more than its words can count, which is {limit}")]
    TooManyRanks {
        /// The algorithm's name.
        lock: &'static str,
        /// How many ranks the world has.
        size: u32,
        /// How many it can serve.
        limit: u32,
    },
    /// A parameter of the lock that makes no sense.
    #[error("{lock}: {parameter}: {why}")]
    Parameter {
        /// The algorithm's name.
        lock: &'static str,
        /// The parameter, by the name that it has among the lock's parameters.
        parameter: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A home or target that is not a rank of this world.
    #[error("{rank}: {target} does not exist in a world of {size} ranks")]
    NoSuchTarget {
        /// Who called.
        rank: Rank,
        /// The rank that it named.
        target: Rank,
        /// How many ranks there are.
        size: u32,
    },
    /// A second lock of one target by one rank, or a lock beside lock_all.
    #[error("{rank}: {call} of {target}, which it has locked already ({held}); unlock it first")]
    AlreadyLocked {
        /// Who called.
        rank: Rank,
        /// The call that was refused.
        call: &'static str,
        /// The target that it named.
        target: Rank,
        /// What is held: "shared", "exclusive" or "lock_all".
        held: &'static str,
    },
    /// An unlock of a target that this rank has not locked.
    #[error("{rank}: unlock of {target}, which it has not locked")]
    NotLocked {
        /// Who called.
        rank: Rank,
        /// The target that it named.
        target: Rank,
    },
    /// A lock_all while this rank holds locks, or a second one.
    #[error("{rank}: lock_all while it holds {held}; unlock first")]
    LockAllWhileLocked {
        /// Who called.
        rank: Rank,
        /// What is held.
        held: String,
    },
    /// An unlock_all without a lock_all.
    #[error("{rank}: unlock_all without a lock_all")]
    NotLockedAll {
        /// Who called.
        rank: Rank,
    },
    /// An exclusive lock while this rank holds shared ones, under a policy that has one lock for all targets.
    #[error(
        "{rank}: exclusive lock of {target} while it holds {held} in shared mode: {policy} cannot upgrade; lock {target} first, unlock the others, or use a policy with a lock for each target"
    )]
    Upgrade {
        /// Who called.
        rank: Rank,
        /// The policy's name.
        policy: &'static str,
        /// The target that it named.
        target: Rank,
        /// The targets that it has locked.
        held: String,
    },
}
