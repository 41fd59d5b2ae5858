//! What can go wrong with a window.

use rmalab_atomics::Rank;

use crate::WindowDisp;

/// The result of a window's operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The operation that an error speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// A put of bytes.
    Put,
    /// A get of bytes.
    Get,
    /// A put of one word.
    PutWord,
    /// A get of one word.
    GetWord,
    /// A fetch-and-add on one word.
    FetchAdd,
    /// A compare-and-swap on one word.
    CompareAndSwap,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Operation::Put => "put",
            Operation::Get => "get",
            Operation::PutWord => "put_word",
            Operation::GetWord => "get_word",
            Operation::FetchAdd => "fetch_add",
            Operation::CompareAndSwap => "compare_and_swap",
        })
    }
}

/// A window that could not be made, or that was used against the rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation that would reach outside the target's part of the window (`MPI_ERR_RMA_RANGE`).
    #[error("{operation} of {len} bytes at {disp} of {target}: the window has {bytes} bytes there")]
    OutOfWindow {
        /// The operation that was refused.
        operation: Operation,
        /// The target that it named.
        target: Rank,
        /// Where in the window.
        disp: WindowDisp,
        /// How many bytes it would have touched.
        len: u64,
        /// How many bytes the target's part of the window has.
        bytes: u64,
    },
    /// A word operation at a displacement that is not a multiple of 8 bytes.
    #[error("{operation} at {disp} of {target}: words are 8 bytes and must be 8-byte aligned")]
    Misaligned {
        /// The operation that was refused.
        operation: Operation,
        /// The target that it named.
        target: Rank,
        /// Where in the window.
        disp: WindowDisp,
    },
    /// The window's locks failed, or were used against MPI's rules.
    #[error(transparent)]
    Locks(#[from] rmalab_locks::Error),
    /// The network operations below failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
}
