//! Errors of reports.

use std::io;
use std::path::PathBuf;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A report that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The report's folder cannot be written.
    #[error("report folder {}: {why}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason, and a remedy.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {}", path.display(), describe_io(source))]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// An invalid document, or two that cannot be compared.
    #[error("{why}")]
    Document {
        /// The reason, with the file's name if there is one.
        why: String,
    },
}

/// Describes a failed read or write: for a full disk, with what to do.
pub fn describe_io(error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full",
        io::ErrorKind::QuotaExceeded => "the disk quota is used up",
        _ => return error.to_string(),
    };
    format!("{what}: {error}; free some space or name a place on another disk, and run the command again")
}
