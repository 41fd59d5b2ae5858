//! Errors of jobs, studies, reports and checks.

use std::path::PathBuf;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a command: wrong options, or a failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option whose value makes no sense; the sentence names it and the reason.
    #[error("{0}")]
    Usage(String),
    /// The world of ranks failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
    /// A lock failed.
    #[error("{}", of_lock(lock, source))]
    Lock {
        /// The lock's name.
        lock: String,
        /// Its error.
        source: rmalab_locks::Error,
    },
    /// A window failed.
    #[error(transparent)]
    Window(#[from] rmalab_windows::Error),
    /// The result of an application differs from the sequential computation; the sentence has the difference and its
    /// place.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// The user ended it early.
    #[error("interrupted")]
    Interrupted,
    /// A check cannot be made as requested, or a saved one cannot be read.
    #[error("{source}")]
    Check {
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// True if the options are the cause.
        usage: bool,
    },
    /// The ranks of the process backend failed, or sent an invalid message.
    #[error("{0}")]
    Ranks(String),
    /// The report's folder cannot be written.
    #[error("report folder {}: {why}", path.display())]
    Report {
        /// The folder.
        path: PathBuf,
        /// The reason, and a remedy.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {}", path.display(), rmalab_report::describe_io(source))]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// The error of a lock, with the lock's name at its start, where many errors have it already.
fn of_lock(lock: &str, error: &rmalab_locks::Error) -> String {
    let (name, text) = (format!("{lock}: "), error.to_string());
    if text.starts_with(&name) { text } else { name + &text }
}

impl Error {
    /// An [`Error::Usage`] with that sentence.
    pub fn usage(what: impl Into<String>) -> Error {
        Error::Usage(what.into())
    }

    /// Returns whether the cause is a failure of another rank.
    pub fn is_peer_failure(&self) -> bool {
        let error = match self {
            Error::Atomics(error) => error,
            Error::Lock { source: rmalab_locks::Error::Atomics(error), .. } => error,
            Error::Window(rmalab_windows::Error::Atomics(error)) => error,
            _ => return false,
        };
        matches!(error, rmalab_atomics::Error::PeerFailed { .. })
    }

    /// Returns the exit code of a command that ends with this error: 2 if the options are the cause. As in shells, 127 if the program to start
    /// does not exist, and 126 if it cannot be executed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Atomics(rmalab_atomics::Error::Program { missing: true, .. }) => 127,
            Error::Atomics(rmalab_atomics::Error::Program { missing: false, .. }) => 126,
            error if error.is_usage() => 2,
            _ => 1,
        }
    }

    /// Returns whether the options are the cause: the command then ends with exit code 2 and not 1.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_name_of_its_lock_once() {
        let told = |lock: &str| {
            let source = rmalab_locks::Error::TooManyRanks { lock: "anderson", size: 20, limit: 16 };
            Error::Lock { lock: lock.to_owned(), source }.to_string()
        };
        assert!(told("anderson").starts_with("anderson: 20 ranks"), "{}", told("anderson"));
        assert!(told("anderson/wide").starts_with("anderson/wide: anderson: 20 ranks"), "{}", told("anderson/wide"));
    }
}
