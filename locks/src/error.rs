//! Errors of locks.

use std::ops::RangeInclusive;

use rmalab_atomics::Rank;

/// The result of an operation on a lock.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A lock could not be made, or was used against the rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation of the network failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
    /// The world has more ranks than the lock's words can count.
    #[error("{lock}: {size} ranks are more than its words can count, which is {limit}")]
    TooManyRanks {
        /// The algorithm's name.
        lock: &'static str,
        /// The number of ranks.
        size: u32,
        /// The largest number of ranks that the lock can count.
        limit: u32,
    },
    /// A rank failed inside, and the rank that got `OwnerDead` has released the lock without declaring the data
    /// consistent.
    #[error(
        "{lock}: a rank failed inside, and the next one released the lock without declaring the data consistent; no rank can acquire it any longer, so make a new lock"
    )]
    NotRecoverable {
        /// The algorithm's name.
        lock: &'static str,
    },
    /// A rank asked for a second lock. Its first one returned `OwnerDead`, and it has not declared the data consistent.
    #[error(
        "{rank}: lock of {target}, while the data under its lock may be half written, since a holder has failed; repair them and call consistent first"
    )]
    Inconsistent {
        /// The rank that called.
        rank: Rank,
        /// The target that the call named.
        target: Rank,
    },
    /// A rank declared data consistent, but holds no lock that returned `OwnerDead`.
    #[error(
        "{rank}: consistent, but this rank holds no lock that returned OwnerDead; call it once, after a lock that returned it and before the unlock"
    )]
    NothingToDeclare {
        /// The rank that called.
        rank: Rank,
    },
    /// The lease has passed. Another rank has taken the lock over, or has written with a later token.
    #[error(
        "{lock}: {token} has expired: another rank has taken the lock over; acquire it again, and look at the data first"
    )]
    Expired {
        /// The algorithm's name.
        lock: &'static str,
        /// The token of the grant that has passed.
        token: crate::lease::Token,
    },
    /// The lease has been granted as many times as its word can count.
    #[error("{lock}: all of its 2^40 tokens are used up; make a new lock")]
    OutOfTokens {
        /// The algorithm's name.
        lock: &'static str,
    },
    /// A parameter of the lock has a value that it cannot have.
    #[error("{lock}: {parameter}: {why}")]
    Parameter {
        /// The algorithm's name.
        lock: &'static str,
        /// The name of the parameter.
        parameter: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A home or target is not a rank of this world.
    #[error("{rank}: {target} does not exist in a world of {size} rank{}", if *size == 1 { "" } else { "s" })]
    NoSuchTarget {
        /// The rank that called.
        rank: Rank,
        /// The home or target that the call named.
        target: Rank,
        /// The number of ranks.
        size: u32,
    },
    /// A rank locked a target that it had locked already, by a lock or by lock_all.
    #[error("{rank}: {call} of {target}, which it has locked already ({held}); unlock it first")]
    AlreadyLocked {
        /// The rank that called.
        rank: Rank,
        /// The call that was refused.
        call: &'static str,
        /// The target that the call named.
        target: Rank,
        /// The lock that the rank holds: "shared", "exclusive" or "lock_all".
        held: &'static str,
    },
    /// A rank unlocked a target that it had not locked.
    #[error("{rank}: unlock of {target}, which it has not locked")]
    NotLocked {
        /// The rank that called.
        rank: Rank,
        /// The target that the call named.
        target: Rank,
    },
    /// A rank called lock_all while it held a lock or a lock_all.
    #[error("{rank}: lock_all while it holds {held}; unlock first")]
    LockAllWhileLocked {
        /// The rank that called.
        rank: Rank,
        /// The locks that the rank holds.
        held: String,
    },
    /// A rank called unlock_all without lock_all.
    #[error("{rank}: unlock_all without a lock_all")]
    NotLockedAll {
        /// The rank that called.
        rank: Rank,
    },
    /// A rank that held shared locks asked for an exclusive one, under a policy that has one lock for all targets.
    #[error(
        "{rank}: exclusive lock of {target} while it holds {held} in shared mode: {policy} cannot upgrade; lock {target} first, unlock the others, or use a policy with a lock for each target"
    )]
    Upgrade {
        /// The rank that called.
        rank: Rank,
        /// The policy's name.
        policy: &'static str,
        /// The target that the call named.
        target: Rank,
        /// The targets that the rank has locked.
        held: String,
    },
}

/// Checks a threshold or bound, which has to be at least 1.
///
/// # Errors
///
/// [`Error::Parameter`] for 0.
pub(crate) fn at_least_one(lock: &'static str, parameter: &'static str, value: u32) -> Result<u32> {
    if value == 0 {
        return Err(Error::Parameter { lock, parameter, why: "it is 0, but it has to be at least 1".to_owned() });
    }
    Ok(value)
}

/// Checks a number that has a range, for instance since it has to fit in a word of the lock.
///
/// # Errors
///
/// [`Error::Parameter`] for a value outside `range`.
pub(crate) fn within(
    lock: &'static str,
    parameter: &'static str,
    value: u32,
    range: RangeInclusive<u32>,
) -> Result<u32> {
    if !range.contains(&value) {
        let why = format!("it is {value}, but it has to be from {} to {}", range.start(), range.end());
        return Err(Error::Parameter { lock, parameter, why });
    }
    Ok(value)
}
