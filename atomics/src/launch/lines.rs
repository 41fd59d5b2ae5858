//! The output of many ranks on one stream, line by line.

use std::io::{PipeReader, Read, Write};

use super::{Line, Stream};
use crate::{Rank, Result};

/// Lines longer than this are cut, so that a rank that never ends one cannot fill the launcher's memory.
const LONGEST: usize = 64 * 1024;

/// Where the lines go.
pub(super) enum Sink {
    /// To this process's own streams, behind a prefix.
    Prefixed(Vec<u8>),
    /// To the caller.
    Lines(Box<dyn FnMut(Line<'_>) + Send>),
}

impl Sink {
    fn line(&mut self, rank: Rank, stream: Stream, line: &[u8]) {
        match self {
            Sink::Prefixed(batch) => {
                batch.extend_from_slice(format!("[{}] ", rank.0).as_bytes());
                batch.extend_from_slice(line);
                batch.push(b'\n');
            }
            Sink::Lines(take) => take(Line { rank, stream, bytes: line }),
        }
    }

    /// Hands a line on that has come whole.
    pub(super) fn one(&mut self, line: Line<'_>) {
        self.line(line.rank, line.stream, line.bytes);
        // When nobody reads the output any more, the ranks still have work to do.
        let _ = self.flush(line.stream);
    }

    /// Hands on what has been collected: lines leave whole, whatever else this process prints.
    fn flush(&mut self, stream: Stream) -> std::io::Result<()> {
        let Sink::Prefixed(batch) = self else { return Ok(()) };
        let written = match stream {
            Stream::Out => {
                let mut out = std::io::stdout().lock();
                out.write_all(batch).and_then(|()| out.flush())
            }
            Stream::Err => std::io::stderr().lock().write_all(batch),
        };
        batch.clear();
        written
    }
}

/// How a pipe was left.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Pumped {
    /// There may be more now.
    More,
    /// There is nothing now.
    Dry,
    /// There will be nothing more.
    Ended,
    /// There may be more, but nobody reads the stream that it should go to.
    Unread,
}

/// One stream of one rank.
pub(super) struct Lines {
    pub(super) pipe: PipeReader,
    rank: Rank,
    stream: Stream,
    /// What has come of the line that has not ended yet.
    begun: Vec<u8>,
}

impl Lines {
    /// The reader must not block.
    pub(super) fn new(pipe: PipeReader, rank: Rank, stream: Stream) -> Lines {
        Lines { pipe, rank, stream, begun: Vec::new() }
    }

    pub(super) fn stream(&self) -> Stream {
        self.stream
    }

    /// Reads once, and passes on every line that has ended.
    pub(super) fn pump(&mut self, sink: &mut Sink) -> Result<Pumped> {
        let mut chunk = [0; 16 * 1024];
        let len = match self.pipe.read(&mut chunk) {
            Ok(0) => return Ok(self.end(sink)),
            Ok(len) => len,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(Pumped::Dry),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(Pumped::More),
            Err(error) => return Err(crate::Error::system(format!("reading the output of {}", self.rank), error)),
        };
        let mut parts = chunk[..len].split(|&byte| byte == b'\n');
        let mut part = parts.next().unwrap_or_default();
        for next in parts {
            self.begun.extend_from_slice(part);
            sink.line(self.rank, self.stream, &self.begun);
            self.begun.clear();
            part = next;
        }
        self.begun.extend_from_slice(part);
        if self.begun.len() >= LONGEST {
            sink.line(self.rank, self.stream, &self.begun);
            self.begun.clear();
        }
        Ok(if sink.flush(self.stream).is_ok() { Pumped::More } else { Pumped::Unread })
    }

    /// Passes on a last line that nothing has ended.
    pub(super) fn end(&mut self, sink: &mut Sink) -> Pumped {
        if !self.begun.is_empty() {
            sink.line(self.rank, self.stream, &self.begun);
            self.begun.clear();
            // The stream is at its end in either case.
            let _ = sink.flush(self.stream);
        }
        Pumped::Ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn lines_are_whole_and_anything_may_be_in_them() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&lines);
        let mut sink = Sink::Lines(Box::new(move |line: Line<'_>| taken.lock().unwrap().push(line.bytes.to_vec())));
        let mut source = Lines::new(reader, Rank(3), Stream::Out);
        let take = || std::mem::take(&mut *lines.lock().unwrap());

        assert_eq!(source.pump(&mut sink).unwrap(), Pumped::Dry);
        writer.write_all(b"a").unwrap();
        assert_eq!(source.pump(&mut sink).unwrap(), Pumped::More);
        assert!(take().is_empty(), "a line that has not ended");
        writer.write_all(b"b\n\n\xff\0\nlast").unwrap();
        source.pump(&mut sink).unwrap();
        assert_eq!(take(), [b"ab".to_vec(), b"".to_vec(), b"\xff\0".to_vec()]);
        drop(writer);
        assert_eq!(source.pump(&mut sink).unwrap(), Pumped::Ended);
        assert_eq!(take(), [b"last".to_vec()]);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let longest = Arc::new(Mutex::new((0, 0)));
        let seen = Arc::clone(&longest);
        let mut sink = Sink::Lines(Box::new(move |line: Line<'_>| {
            let mut seen = seen.lock().unwrap();
            *seen = (seen.0 + line.bytes.len(), seen.1.max(line.bytes.len()));
        }));
        let mut source = Lines::new(reader, Rank(0), Stream::Err);
        let block = [b'x'; 8 * 1024];
        for _ in 0..40 {
            writer.write_all(&block).unwrap();
            source.pump(&mut sink).unwrap();
        }
        source.end(&mut sink);
        let (total, longest) = *longest.lock().unwrap();
        assert_eq!(total, 40 * block.len());
        assert!(longest < 2 * LONGEST);
    }
}
