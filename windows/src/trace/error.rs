//! What is wrong with a trace.

use std::path::{Path, PathBuf};

use rmalab_atomics::Rank;

/// The longest text of a message, whatever a file has in it.
const LONGEST: usize = 200;

/// A trace that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refuses.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A file that is no trace, or a damaged one.
    #[error("{}: byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the block begins that is wrong, counted from 0.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Calls that do not fit each other: of one rank by the rules of epochs, or of ranks that meet.
    #[error("{}: {rank}, event {event}: {what}", path.display())]
    Epochs {
        /// The rank's file.
        path: PathBuf,
        /// The rank.
        rank: Rank,
        /// Which of its events it is, counted from 1.
        event: u64,
        /// What does not fit.
        what: String,
    },
    /// Files that do not make one trace together.
    #[error("{}: {what}", path.display())]
    Set {
        /// The folder, or the file that does not fit.
        path: PathBuf,
        /// Why not, and what to do.
        what: String,
    },
}

impl TraceError {
    pub(super) fn io(path: &Path, doing: &'static str, source: std::io::Error) -> TraceError {
        TraceError::Io { path: path.to_owned(), doing, source }
    }

    pub(super) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> TraceError {
        // One line, whatever the file has in it.
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
