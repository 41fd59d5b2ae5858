//! The errors of traces.

use std::path::{Path, PathBuf};

use rmalab_atomics::Rank;

/// The longest text of a message, for any content of a file.
const LONGEST: usize = 200;

/// A trace that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system has returned an error.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The action that failed.
        doing: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file that is not a trace, or a damaged trace.
    #[error("{}: byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset of the damaged block, counted from 0.
        offset: u64,
        /// The fault.
        what: String,
    },
    /// Calls that do not fit each other: calls of one rank, by the rules of epochs, or calls of ranks that meet.
    #[error("{}: {rank}, event {event}: {what}", path.display())]
    Epochs {
        /// The rank's file.
        path: PathBuf,
        /// The rank.
        rank: Rank,
        /// The number of the event in its file, counted from 1.
        event: u64,
        /// The call that does not fit.
        what: String,
    },
    /// Files that do not make one trace together.
    #[error("{}: {what}", path.display())]
    Set {
        /// The folder, or the file that does not fit.
        path: PathBuf,
        /// The reason, and what to do.
        what: String,
    },
}

impl TraceError {
    pub(super) fn io(path: &Path, doing: &'static str, source: std::io::Error) -> TraceError {
        TraceError::Io { path: path.to_owned(), doing, source }
    }

    pub(super) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> TraceError {
        // The message is one line, for any content of the file.
        let what = what.into().chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
        TraceError::Damaged { path: path.to_owned(), offset, what }
    }

    pub(super) fn epochs(path: &Path, rank: Rank, event: u64, what: impl Into<String>) -> TraceError {
        TraceError::Epochs { path: path.to_owned(), rank, event, what: what.into() }
    }

    pub(super) fn set(path: &Path, what: impl Into<String>) -> TraceError {
        TraceError::Set { path: path.to_owned(), what: what.into() }
    }
}
