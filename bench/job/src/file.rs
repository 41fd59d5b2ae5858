//! Reads files that the command line names, of any kind, with a limit on their length.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The bytes of a file.
///
/// # Errors
///
/// The operating system's errors, and [`io::ErrorKind::FileTooLarge`] when there are more than `most` bytes: a pipe or
/// a device may never end.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let what = format!("it has more than {most} bytes, the limit for such a file");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// The text of a UTF-8 file.
///
/// # Errors
///
/// Errors of [`read`], and [`io::ErrorKind::InvalidData`] for other encodings.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read_text(Path::new("/dev/zero"), 4096).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("more than 4096 bytes"), "{error}");
        assert!(read(Path::new("/dev/null"), 0).unwrap().is_empty());
    }
}
