//! The blocks of a file, read one after the other.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::TraceError;
use super::format::{HEAD, Head};

/// The blocks of a file from an offset on. The file is closed between two blocks, so that a replay of many ranks needs
/// few descriptors.
#[derive(Debug)]
pub(super) struct Blocks {
    path: PathBuf,
    /// The offset of the next block.
    pub(super) at: u64,
    end: u64,
}

/// The next content of a file.
pub(super) enum Next {
    Block(Head),
    /// The end of the file; this many events of a block were lost.
    Over {
        lost: u64,
    },
}

impl Blocks {
    pub(super) fn new(path: &Path, at: u64, end: u64) -> Blocks {
        Blocks { path: path.to_owned(), at, end }
    }

    /// Makes the error of a damaged block at the current offset.
    pub(super) fn damaged(&self, what: impl Into<String>) -> TraceError {
        TraceError::damaged(&self.path, self.at, what)
    }

    fn read(&self, file: &mut File, into: &mut [u8]) -> Result<bool, TraceError> {
        match file.read_exact(into) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(TraceError::io(&self.path, "reading a trace", error)),
        }
    }

    /// Reads the next block's body into `body`.
    pub(super) fn next(&mut self, body: &mut Vec<u8>) -> Result<Next, TraceError> {
        let failed = |error| TraceError::io(&self.path, "reading a trace", error);
        let mut file = File::open(&self.path).map_err(failed)?;
        let left = self.end.saturating_sub(self.at);
        if left < HEAD as u64 {
            return Ok(Next::Over { lost: 0 });
        }
        file.seek(SeekFrom::Start(self.at)).map_err(failed)?;
        let mut bytes = [0; HEAD];
        if !self.read(&mut file, &mut bytes)? {
            return Err(self.damaged("the file has become shorter"));
        }
        let head = Head::parse(&bytes).map_err(|what| self.damaged(what))?;
        if left - (HEAD as u64) < u64::from(head.len) {
            return Ok(Next::Over { lost: u64::from(head.events) });
        }
        body.resize(head.len as usize, 0);
        if !self.read(&mut file, body)? {
            return Err(self.damaged("the file has become shorter"));
        }
        head.check(body).map_err(|what| self.damaged(what))?;
        self.at += HEAD as u64 + u64::from(head.len);
        Ok(Next::Block(head))
    }
}
