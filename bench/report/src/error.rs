//! Errors of reports.

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
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// An invalid document, or two that cannot be compared.
    #[error("{why}")]
    Document {
        /// The reason, with the file's name if there is one.
        why: String,
    },
}
