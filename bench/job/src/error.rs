//! What can go wrong with a job, a study, its report, or a check.

use std::path::PathBuf;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A study that cannot be made as asked for, or that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option whose value makes no sense; the sentence says which and why.
    #[error("{0}")]
    Usage(String),
    /// The world of ranks failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
    /// A lock failed.
    #[error("{lock}: {source}")]
    Lock {
        /// The lock's name.
        lock: String,
        /// What it said.
        source: rmalab_locks::Error,
    },
    /// A window failed.
    #[error(transparent)]
    Window(#[from] rmalab_windows::Error),
    /// An application has computed something else than the sequential computation; the sentence says what, and where.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// It was asked to end before it was done.
    #[error("interrupted")]
    Interrupted,
    /// A check cannot be made as asked for, or a saved one cannot be read.
    #[error("{source}")]
    Check {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// Whether the options are at fault.
        usage: bool,
    },
    /// The ranks of the process backend failed, or said something that cannot be read.
    #[error("{0}")]
    Ranks(String),
    /// The report's folder cannot be written.
    #[error("report folder {}: {why}", path.display())]
    Report {
        /// The folder.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// An [`Error::Usage`] from a sentence.
    pub fn usage(what: impl Into<String>) -> Error {
        Error::Usage(what.into())
    }

    /// Whether another rank has failed, and not this one.
    pub fn is_peer_failure(&self) -> bool {
        let error = match self {
            Error::Atomics(error) => error,
            Error::Lock { source: rmalab_locks::Error::Atomics(error), .. } => error,
            Error::Window(rmalab_windows::Error::Atomics(error)) => error,
            _ => return false,
        };
        matches!(error, rmalab_atomics::Error::PeerFailed { .. })
    }

    /// Whether the fault is in the options: the command then ends with exit code 2 and not 1.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Usage(_) | Error::Report { .. } => true,
            Error::Atomics(error) => matches!(error, rmalab_atomics::Error::Settings(_)),
            Error::Check { usage, .. } => *usage,
            _ => false,
        }
    }
}

impl From<rmalab_report::Error> for Error {
    fn from(error: rmalab_report::Error) -> Error {
        match error {
            rmalab_report::Error::Folder { path, why } => Error::Report { path, why },
            rmalab_report::Error::File { path, source } => Error::File { path, source },
            rmalab_report::Error::Document { why } => Error::Usage(why),
            error => Error::Ranks(error.to_string()),
        }
    }
}
