//! The output of many ranks on one stream, line by line, written by a separate thread.
//!
//! A process that reads the launcher's output slowly, or not at all, slows down this thread, and through full pipes the
//! writing ranks. Supervision never waits for it. So the launcher still obeys signals, and detects the ends of ranks.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::{Line, Stream};
use crate::{Error, Rank, Result};

/// Lines longer than this are cut, so that a rank that never ends one cannot fill the launcher's memory.
const LONGEST: usize = 64 * 1024;

/// The destination of the lines.
pub(super) enum Sink {
    /// To this process's own streams, with a prefix.
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

    /// Passes on a complete line.
    pub(super) fn one(&mut self, line: Line<'_>) {
        self.line(line.rank, line.stream, line.bytes);
        // The ranks still have work to do even if no process reads the output any longer.
        let _ = self.flush(line.stream);
    }

    /// Passes on the collected output. Lines stay whole, even if this process prints other output.
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

/// The state of a pipe after a read.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Pumped {
    /// This many bytes were read, and there may be more now.
    More(usize),
    /// There is nothing now.
    Dry,
    /// There will be nothing more.
    Ended,
    /// There may be more, but no process reads the destination.
    Unread,
}

/// One stream of one rank.
pub(super) struct Lines {
    pipe: PipeReader,
    rank: Rank,
    stream: Stream,
    /// The first part of an unfinished line.
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
    fn pump(&mut self, sink: &mut Sink) -> Result<Pumped> {
        let mut chunk = [0; 16 * 1024];
        let len = match self.pipe.read(&mut chunk) {
            Ok(0) => return Ok(self.end(sink)),
            Ok(len) => len,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(Pumped::Dry),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(Pumped::More(0)),
            Err(error) => return Err(Error::system(format!("reading the output of {}", self.rank), error)),
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
        Ok(if sink.flush(self.stream).is_ok() { Pumped::More(len) } else { Pumped::Unread })
    }

    /// Passes on the content of the pipe, and a last line without an end.
    ///
    /// A process that the rank has started may hold the pipe open, and continue to write. The carrier does not wait for
    /// that.
    fn drain(&mut self, sink: &mut Sink) -> Result<()> {
        let waiting = rustix::io::ioctl_fionread(&self.pipe)
            .map_err(|error| Error::system(format!("looking at the output of {}", self.rank), error))?;
        let mut left = usize::try_from(waiting).unwrap_or(usize::MAX);
        while left > 0 {
            match self.pump(sink)? {
                Pumped::More(len) => left = left.saturating_sub(len),
                Pumped::Dry => break,
                Pumped::Ended | Pumped::Unread => return Ok(()),
            }
        }
        self.end(sink);
        Ok(())
    }

    /// Passes on an unfinished last line.
    fn end(&mut self, sink: &mut Sink) -> Pumped {
        if !self.begun.is_empty() {
            sink.line(self.rank, self.stream, &self.begun);
            self.begun.clear();
            // The stream is at its end in either case.
            let _ = sink.flush(self.stream);
        }
        Pumped::Ended
    }
}

/// A thread that carries the output of ranks, and the launcher's own notices.
#[derive(Debug)]
pub(super) struct Carrier {
    /// Takes the notices. When it closes, the carrier passes on the content of the pipes, and ends.
    notices: Option<PipeWriter>,
    /// A pipe that closes when the thread ends.
    running: PipeReader,
    thread: JoinHandle<Result<()>>,
}

impl Carrier {
    /// Starts to carry `pipes` to `sink`, and notices to standard error. The signals that the caller blocks stay blocked.
    pub(super) fn start(pipes: Vec<Lines>, sink: Sink) -> Result<Carrier> {
        let failed = |error| Error::system("starting the thread that carries the ranks' output", error);
        let (reader, notices) = std::io::pipe().map_err(failed)?;
        for end in [rustix::io::ioctl_fionbio(&reader, true), rustix::io::ioctl_fionbio(&notices, true)] {
            end.map_err(|error| failed(error.into()))?;
        }
        let (running, ended) = std::io::pipe().map_err(failed)?;
        let carry = move || {
            // Closes when the thread ends, by a panic as well.
            let _ended = ended;
            carry(pipes, reader, sink)
        };
        let thread = std::thread::Builder::new().name("rmalab-output".into()).spawn(carry).map_err(failed)?;
        Ok(Carrier { notices: Some(notices), running, thread })
    }

    /// A pipe that becomes readable when the thread has ended.
    pub(super) fn running(&self) -> &PipeReader {
        &self.running
    }

    /// Queues a line for standard error. It is lost if the pipe is full, but the launcher writes few lines.
    pub(super) fn notice(&self, line: &str) {
        if let Some(mut notices) = self.notices.as_ref() {
            let _ = notices.write(format!("{line}\n").as_bytes());
        }
    }

    /// Notes that the ranks have ended, so that the thread ends once it has passed on their output.
    pub(super) fn finish(&mut self) {
        self.notices = None;
    }

    /// Returns the result of the thread, which has ended or ends at once.
    ///
    /// # Panics
    ///
    /// With the panic of the caller's output function, if there was one.
    pub(super) fn join(self) -> Result<()> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn carry(mut pipes: Vec<Lines>, mut notices: PipeReader, mut sink: Sink) -> Result<()> {
    loop {
        let mut polled = vec![PollFd::new(&notices, PollFlags::IN)];
        polled.extend(pipes.iter().map(|lines| PollFd::new(&lines.pipe, PollFlags::IN)));
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::system("waiting for the output of the ranks", error)),
        }
        let happened: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        drop(polled);
        if happened[0] {
            let mut chunk = [0; 4096];
            match notices.read(&mut chunk) {
                Ok(0) => {
                    return pipes.iter_mut().try_for_each(|lines| lines.drain(&mut sink));
                }
                // Unread output is lost, as for every program that writes to standard error.
                Ok(len) => drop(std::io::stderr().write_all(&chunk[..len])),
                Err(_) => {}
            }
        }
        let mut unread = None;
        let mut ready = happened[1..].iter();
        let mut failed = Ok(());
        pipes.retain_mut(|lines| {
            let ready = *ready.next().expect("one for each pipe") && unread.is_none() && failed.is_ok();
            match if ready { lines.pump(&mut sink) } else { Ok(Pumped::Dry) } {
                Ok(Pumped::More(_) | Pumped::Dry) => true,
                Ok(Pumped::Ended) => false,
                // Like in a pipeline, a rank that writes to a stream without a reader gets a broken pipe.
                Ok(Pumped::Unread) => {
                    unread = Some(lines.stream);
                    false
                }
                Err(error) => {
                    failed = Err(error);
                    false
                }
            }
        });
        failed?;
        pipes.retain(|lines| Some(lines.stream) != unread);
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
        assert_eq!(source.pump(&mut sink).unwrap(), Pumped::More(1));
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
