//! Errors of operations, worlds and allocations.

use crate::model::registered::RegisteredKey;
use crate::{Address, Disp, Rank};

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Writes a line to standard error, in one piece, since several ranks may write at a time. Errors are ignored.
pub(crate) fn tell(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Formats an error of a rank, with the rank at its start. Many errors already begin with their rank.
pub(crate) fn of_rank(rank: Rank, error: &dyn std::fmt::Display) -> String {
    let (name, text) = (format!("{rank}: "), error.to_string());
    if text.starts_with(&name) { text } else { name + &text }
}

/// The operation that an error names.
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
    /// [`RemoteAtomics::order`](crate::RemoteAtomics::order)
    Order,
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
            Operation::Order => "order",
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
    #[error("{operation}: {rank} does not exist in a world of {size} rank{}", if *size == 1 { "" } else { "s" })]
    RankOutOfRange {
        /// The operation.
        operation: Operation,
        /// The target.
        rank: Rank,
        /// The number of ranks.
        size: u32,
    },
    /// The displacement of a word operation is not a multiple of 8 bytes.
    #[error("{operation} on {at}: words are 8 bytes and must be 8-byte aligned")]
    Misaligned {
        /// The operation.
        operation: Operation,
        /// The address.
        at: Address,
    },
    /// An operation would reach past the end of the target's segment.
    #[error("{operation} of {len} bytes on {at}: the segment ends at {segment:#x}")]
    OutOfSegment {
        /// The operation.
        operation: Operation,
        /// The address.
        at: Address,
        /// The number of bytes of the operation.
        len: u64,
        /// The segment's length in bytes.
        segment: u64,
    },
    /// The symmetric heap has no free range that is large enough.
    #[error(
        "symmetric heap: no room for {requested} bytes aligned to {align}: {free} of {capacity} bytes are free, the largest range has {largest}; give the world larger segments (segment_bytes of World::threads and World::processes)"
    )]
    OutOfMemory {
        /// The number of requested bytes.
        requested: u64,
        /// The requested alignment, in bytes.
        align: u64,
        /// The number of free bytes in all ranges.
        free: u64,
        /// The number of bytes of the largest free range.
        largest: u64,
        /// The number of bytes of the whole heap.
        capacity: u64,
    },
    /// No allocation starts at the displacement to free.
    #[error("symmetric heap: nothing is allocated at {disp}")]
    NotAllocated {
        /// The displacement.
        disp: Disp,
    },
    /// The owner of the memory has not registered it, or has deregistered it.
    #[error("{rank} has no memory registered under {key}, or has deregistered it")]
    NotRegistered {
        /// The owner.
        rank: Rank,
        /// The key.
        key: RegisteredKey,
    },
    /// An operation would reach past the end of registered memory.
    #[error("{len} bytes at {offset:#x} of memory that {rank} has registered: it has {bytes} bytes")]
    OutOfRegistered {
        /// The owner.
        rank: Rank,
        /// The offset in the memory.
        offset: u64,
        /// The number of bytes of the operation.
        len: u64,
        /// The number of bytes of the memory.
        bytes: u64,
    },
    /// All places for registered memory, or for pins of it, are taken; their number is fixed.
    #[error("{rank} has no place left for {what}: all {limit} are in use; deregister memory or drop pins first")]
    RegistrationFull {
        /// The rank that has these places.
        rank: Rank,
        /// The thing that got no place.
        what: &'static str,
        /// The number of places.
        limit: u64,
    },
    /// A rank of this world has died, panicked, or left with an error, so a wait might never end.
    #[error("{rank} has failed")]
    PeerFailed {
        /// The first rank that failed. After [acknowledged](crate::RemoteAtomics::acknowledge) failures it is a rank whose failure this rank
        /// has not acknowledged.
        rank: Rank,
    },
    /// Another rank has [expelled](crate::RemoteAtomics::expel) this rank, which counts as failed from then on.
    #[error("this rank was expelled: the other ranks count it as failed and go on without it, so it has to end")]
    Expelled,
    /// A rank has [revoked](crate::Survivors::revoke) this world, so a wait in it might never end.
    #[error(
        "a rank has revoked this world, so no rank waits in it any more; call Survivors::shrink, as the other ranks do"
    )]
    Revoked,
    /// A rank acknowledged or silenced a rank that is not known here to have failed.
    #[error("{rank} is not known to have failed; pass on only ranks that failed() has returned on this rank")]
    NotFailed {
        /// The rank.
        rank: Rank,
    },
    /// A rank of this world has left in good order, but this rank waits for a call of it.
    #[error(
        "{rank} has left, and this rank waits for it; before a rank leaves, it has to make all calls that others wait for"
    )]
    PeerLeft {
        /// The rank that has left.
        rank: Rank,
    },
    /// No rank has made progress for a while: a lock that is never released, or a lost wake-up. From
    /// [`Probed`](crate::Probed).
    #[error("{what}")]
    Stuck {
        /// The rank that waits.
        rank: Rank,
        /// The waiting operation: lock, rank, operation and word, and the length of the wait.
        what: Box<str>,
    },
    /// A rank's process has failed: the error of the process that started the ranks.
    #[error("{how}")]
    RankEnded {
        /// The first rank that failed.
        rank: Rank,
        /// A description of its end, with its name and process id.
        how: Box<str>,
    },
    /// The backend, or the machine, cannot do this.
    #[error("{what} is not supported: {why}")]
    Unsupported {
        /// The thing that the backend or the machine cannot do.
        what: &'static str,
        /// The reason, and what to do.
        why: &'static str,
    },
    /// A world cannot be made as requested.
    #[error("{0}")]
    World(Box<str>),
    /// The program of the ranks does not exist, or cannot be executed.
    #[error("{why}")]
    Program {
        /// The program's name, and the reason.
        why: Box<str>,
        /// True if there is no such program; false if there is one that cannot be executed.
        missing: bool,
    },
    /// Settings (a machine's profile, a workload) cannot be read. One line names the file, the line and the key, the fault, and what to
    /// write instead.
    #[error("{0}")]
    Settings(Box<str>),
    /// A call of the operating system failed.
    #[error("{what}: {source}")]
    System {
        /// The action that failed.
        what: Box<str>,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// Makes an [`Error::System`], with `what` the rank was doing.
    pub fn system(what: impl Into<Box<str>>, source: impl Into<std::io::Error>) -> Error {
        Error::System { what: what.into(), source: source.into() }
    }

    /// Makes an [`Error::Program`] from the system's answer to the start of a program.
    pub fn program(what: impl std::fmt::Display, source: &std::io::Error) -> Error {
        Error::Program {
            why: format!("{what}: {source}").into(),
            missing: source.kind() == std::io::ErrorKind::NotFound,
        }
    }

    /// Makes an [`Error::Settings`] from a sentence, without its control characters.
    pub fn settings(what: impl Into<String>) -> Error {
        let what: String = what.into();
        Error::Settings(what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }

    /// Makes an [`Error::World`] from a sentence.
    pub fn world(what: impl Into<Box<str>>) -> Error {
        Error::World(what.into())
    }
}
