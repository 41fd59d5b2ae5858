//! Standard output: what a command prints, and what it does when it cannot.

use std::io::{self, Write};

use crate::{Error, Result};

/// Prints `text` on standard output.
///
/// A reader that has gone away has seen what it wanted, and is no error.
///
/// # Errors
///
/// [`Error::File`] when the text cannot be written, as on a full disk.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::File { path: "standard output".into(), source: error })
        }
        _ => Ok(()),
    }
}

/// A text of a message: what a file or an argument has put into it does not control the terminal.
pub(crate) fn plain(text: &str) -> String {
    let escaped = |c: char| if c.is_control() && c != '\n' { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}
