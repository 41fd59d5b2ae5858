//! What can go wrong with an operation, a world or an allocation.

use crate::model::registered::RegisteredKey;
use crate::{Address, Disp, Rank};

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Writes a line to standard error, in one piece: several ranks may have something to say at a time. Whoever does not listen
/// misses it.
pub(crate) fn tell(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The operation that an error speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// [`RemoteAtomics::fetch_add`](crate::RemoteAtomics::fetch_add)
    FetchAdd,
    /// [`RemoteAtomics::compare_and_swap`](crate::RemoteAtomics::compare_and_swap)
    CompareAndSwap,
    /// [`RemoteAtomics::fetch_store`](crate::RemoteAtomics::fetch_store)
    FetchStore,
    /// [`RemoteAtomics::get`](crate::RemoteAtomics::get)
    Get,
    /// [`RemoteAtomics::put`](crate::RemoteAtomics::put)
    Put,
    /// A bulk get of bytes
    GetBytes,
    /// A bulk put of bytes
    PutBytes,
    /// [`RemoteAtomics::flush`](crate::RemoteAtomics::flush)
    Flush,
    /// [`RemoteAtomics::wait_until`](crate::RemoteAtomics::wait_until)
    WaitUntil,
    /// [`RemoteAtomics::pin`](crate::RemoteAtomics::pin)
    Pin,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Operation::FetchAdd => "fetch_add",
            Operation::CompareAndSwap => "compare_and_swap",
            Operation::FetchStore => "fetch_store",
            Operation::Get => "get",
            Operation::Put => "put",
            Operation::GetBytes => "get_bytes",
            Operation::PutBytes => "put_bytes",
            Operation::Flush => "flush",
            Operation::WaitUntil => "wait_until",
            Operation::Pin => "pin",
        })
    }
}

/// An operation, an allocation or a world that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target is not a rank of this world.
    #[error("{operation}: {rank} does not exist in a world of {size} ranks")]
    RankOutOfRange {
        /// The operation that was refused.
        operation: Operation,
        /// The rank that it named.
        rank: Rank,
        /// How many ranks there are.
        size: u32,
    },
    /// A word operation on a displacement that is not a multiple of 8 bytes.
    #[error("{operation} on {at}: words are 8 bytes and must be 8-byte aligned")]
    Misaligned {
        /// The operation that was refused.
        operation: Operation,
        /// The address that it named.
        at: Address,
    },
    /// An operation that would reach past the end of the target's segment.
    #[error("{operation} of {len} bytes on {at}: the segment ends at {segment:#x}")]
    OutOfSegment {
        /// The operation that was refused.
        operation: Operation,
        /// The address that it named.
        at: Address,
        /// How many bytes it would have touched.
        len: u64,
        /// The segment's length in bytes.
        segment: u64,
    },
    /// The symmetric heap has no free range that is large enough.
    #[error(
        "symmetric heap: no room for {requested} bytes aligned to {align}: {free} of {capacity} bytes are free, the largest range has {largest}; give the world larger segments (segment_bytes of World::threads and World::processes)"
    )]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Alignment asked for, in bytes.
        align: u64,
        /// Bytes free in all.
        free: u64,
        /// Bytes in the largest free range.
        largest: u64,
        /// Bytes of the whole heap.
        capacity: u64,
    },
    /// A free of a displacement that no allocation starts at.
    #[error("symmetric heap: nothing is allocated at {disp}")]
    NotAllocated {
        /// The displacement that was to be freed.
        disp: Disp,
    },
    /// Access to memory that its owner has not registered, or has deregistered.
    #[error("{rank} registers no memory under {key}, or not any more")]
    NotRegistered {
        /// The owner.
        rank: Rank,
        /// The key that was asked for.
        key: RegisteredKey,
    },
    /// Access past the end of registered memory.
    #[error("{len} bytes at {offset:#x} of memory that {rank} has registered: it has {bytes} bytes")]
    OutOfRegistered {
        /// The owner.
        rank: Rank,
        /// Where in the memory.
        offset: u64,
        /// How many bytes it would have touched.
        len: u64,
        /// How many bytes the memory has.
        bytes: u64,
    },
    /// A fixed number of places for registered memory, or for pins of it, which are all taken.
    #[error("{rank} has no place for {what} any more: all {limit} are in use; deregister memory or drop pins first")]
    RegistrationFull {
        /// The rank whose places they are.
        rank: Rank,
        /// What there was no place for.
        what: &'static str,
        /// How many places there are.
        limit: u64,
    },
    /// A rank of this world has died (or panicked, or left with an error), so that whoever waits may wait for ever.
    #[error("{rank} has failed")]
    PeerFailed {
        /// The first rank that failed.
        rank: Rank,
    },
    /// A rank of this world has left in good order, and this rank waits for what only that rank could still do.
    #[error(
        "{rank} has left, and this rank waits for it; before a rank leaves, it has to make all calls that others wait for"
    )]
    PeerLeft {
        /// The rank that has left.
        rank: Rank,
    },
    /// No rank has come further for a while: a lock that is never released, or a lost wake-up. From
    /// [`Probed`](crate::Probed).
    #[error("{what}")]
    Stuck {
        /// The rank that waits.
        rank: Rank,
        /// What waits: lock, rank, operation and word, and for how long.
        what: Box<str>,
    },
    /// A rank's process has failed: the error of whoever has started the ranks.
    #[error("{how}")]
    RankEnded {
        /// The first rank that failed.
        rank: Rank,
        /// How it ended, its name and process id included.
        how: Box<str>,
    },
    /// The backend, or the machine, cannot do this.
    #[error("{what} is not supported: {why}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// Why it cannot be had, and what to do.
        why: &'static str,
    },
    /// A world that cannot be made as asked for.
    #[error("{0}")]
    World(Box<str>),
    /// Settings (a machine's profile, a workload) that cannot be read: one line, with file, line and key, of what is
    /// wrong and what to write instead.
    #[error("{0}")]
    Settings(Box<str>),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: Box<str>,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// An [`Error::System`] that says `what` was being done.
    pub fn system(what: impl Into<Box<str>>, source: impl Into<std::io::Error>) -> Error {
        Error::System { what: what.into(), source: source.into() }
    }

    /// An [`Error::Settings`] from a sentence, of which control characters are left out.
    pub fn settings(what: impl Into<String>) -> Error {
        let what: String = what.into();
        Error::Settings(what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }

    /// An [`Error::World`] from a sentence.
    pub fn world(what: impl Into<Box<str>>) -> Error {
        Error::World(what.into())
    }
}
