//! The launcher of a job's ranks on one of its hosts, on behalf of the launcher of the whole job.
//!
//! A remote shell starts it, and it communicates only through its standard streams. So no secret is on a command line,
//! and its standard input ends when the connection or the other launcher is gone.
//!
//! Standard input: one line of JSON, the [`Orders`]; then single bytes: a signal's number to pass on, [`END`], [`ALIVE`],
//! or [`MORE`]. Standard output: [`GREETING`], and then lines:
//!
//! ```text
//! O3 text              rank 3 has written this line to its standard output
//! E3 text              ... to its standard error
//! X3 1234 9            rank 3 has ended, process 1234 with the wait status 9
//! .                    all is well
//! ```
//!
//! Each side treats the other one as lost after ten seconds of silence.
//!
//! Output and supervision share a stream, so the launcher always reads it. Credit bounds the output: a part sends at most
//! [`CREDIT`] bytes of lines that the launcher has not written yet. Each [`MORE`] reports that the launcher has written
//! [`GRANT`] bytes of them. So a slow reader slows down only the ranks.

use std::fs::File;
use std::io::{PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};

use super::supervisor::END;
use super::{JobPart, Launcher, Line, Output, Stream};
use crate::{Error, Rank, Result};

/// The first line of a part, after which all output has the defined form. Shells may print other lines before it.
pub(super) const GREETING: &str = "rmalab part 2";

/// Shows only that the sender is alive. No forwarded signal has this number.
pub(super) const ALIVE: u8 = b'.';

/// Reports that the launcher has written [`GRANT`] bytes of this part's lines. No forwarded signal has this number.
pub(super) const MORE: u8 = b'+';

/// The number of bytes of lines that a part may send and the launcher has not written yet: at least the longest line.
pub(super) const CREDIT: usize = 4 * GRANT;

/// The number of bytes of one [`MORE`].
pub(super) const GRANT: usize = 64 << 10;

/// The interval at which each side sends a sign of life.
pub(super) const BEAT: Duration = Duration::from_secs(1);

/// The length of a silence after which the other side counts as lost.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// The time in which the ranks may end once the other launcher is gone. Then this process ends, and the kernel ends
/// them.
const LAST: Duration = Duration::from_secs(2);

/// The longest orders, in bytes.
const LONGEST: usize = 4 << 20;

/// The orders for a part.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(super) struct Orders {
    /// The meeting point of the ranks, and the secret.
    pub(super) invitation: String,
    /// The number of the part's first rank.
    pub(super) first: u32,
    /// The number of its ranks.
    pub(super) count: u32,
    /// The number of ranks of the job.
    pub(super) size: u32,
    pub(super) segment_bytes: u64,
    /// Variables that the ranks get in addition to their host's variables.
    pub(super) env: Vec<(String, String)>,
    /// The working directory.
    pub(super) folder: PathBuf,
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) grace: Duration,
}

/// A message of a part.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Said<'a> {
    Line(Line<'a>),
    Ended { rank: Rank, pid: u32, status: ExitStatus },
    Alive,
}

impl<'a> Said<'a> {
    /// Reads a line; `None` for a line that no part sends.
    pub(super) fn read(line: &'a [u8]) -> Option<Said<'a>> {
        let (&kind, rest) = line.split_first()?;
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u32>().ok();
        let mut parts = rest.splitn(2, |&byte| byte == b' ');
        let mut next = || parts.next();
        let stream = match kind {
            b'.' => return Some(Said::Alive),
            b'X' => {
                let rank = Rank(number(next()?)?);
                let (pid, status) = std::str::from_utf8(next()?).ok()?.split_once(' ')?;
                let status = ExitStatus::from_raw(status.parse().ok()?);
                return Some(Said::Ended { rank, pid: pid.parse().ok()?, status });
            }
            b'O' => Stream::Out,
            b'E' => Stream::Err,
            _ => return None,
        };
        Some(Said::Line(Line { rank: Rank(number(next()?)?), stream, bytes: next()? }))
    }

    fn to_line(&self) -> Vec<u8> {
        let mut line = match self {
            Said::Alive => b".".to_vec(),
            Said::Ended { rank, pid, status } => format!("X{} {pid} {}", rank.0, status.into_raw()).into_bytes(),
            Said::Line(Line { rank, stream, bytes }) => {
                let kind = if *stream == Stream::Out { 'O' } else { 'E' };
                let mut line = format!("{kind}{} ", rank.0).into_bytes();
                line.extend_from_slice(bytes);
                line
            }
        };
        line.push(b'\n');
        line
    }

    /// Writes the message to standard output, as a whole.
    fn say(&self) {
        let mut out = std::io::stdout().lock();
        // When the reader is gone, the standard input ends as well, and that ends the part.
        let _ = out.write_all(&self.to_line()).and_then(|()| out.flush());
    }
}

/// The number of bytes of lines that may still be sent.
pub(super) struct Credit {
    bytes: Mutex<usize>,
    granted: Condvar,
}

impl Credit {
    pub(super) fn new() -> Credit {
        Credit { bytes: Mutex::new(CREDIT), granted: Condvar::new() }
    }

    /// Waits until there is credit for `bytes`.
    pub(super) fn take(&self, bytes: usize) {
        let left = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.granted.wait_while(left, |left| *left < bytes);
        *wait.unwrap_or_else(PoisonError::into_inner) -= bytes;
    }

    pub(super) fn grant(&self, bytes: usize) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        self.granted.notify_all();
    }
}

/// Runs the part that the orders on standard input define, until its ranks have ended. Returns the exit code, which is
/// 1 if a rank has failed.
///
/// This is the other end of [`Hosts`](super::Hosts), for `rmalab launch --part`.
///
/// # Errors
///
/// [`Error::World`] for invalid orders, and when the ranks cannot be started; see [`Launcher::spawn`].
pub fn part() -> Result<i32> {
    println!("{GREETING}");
    let failed = |error| Error::system("reading the orders of the job's launcher", error);
    // This does not read through the standard library's buffer, whose contents other code could not read.
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let mut line = Vec::new();
    let end = loop {
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            break end;
        }
        let mut chunk = [0; 16 << 10];
        match input.read(&mut chunk) {
            Ok(count @ 1..) if line.len() <= LONGEST => line.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
            _ => break line.len(),
        }
    };
    // The bytes that have arrived after the orders, if any.
    let ahead = line.split_off(end);
    let orders: Orders = serde_json::from_slice(&line).map_err(|_| {
        Error::world("`rmalab launch --part` is for `rmalab launch --hosts` alone: its standard input has no orders")
    })?;
    std::env::set_current_dir(&orders.folder)
        .map_err(|error| Error::system(format!("going to {}", orders.folder.display()), error))?;
    let part = JobPart {
        first: orders.first,
        size: orders.size,
        invitation: orders.invitation.parse()?,
        ended: Box::new(|rank, pid, status| Said::Ended { rank, pid, status }.say()),
    };
    let credit = Arc::new(Credit::new());
    let lines = {
        let credit = Arc::clone(&credit);
        // This runs on a separate thread, and only that thread waits for credit.
        move |line: Line<'_>| {
            credit.take(cost(line.bytes));
            Said::Line(line).say();
        }
    };
    let mut launcher = Launcher::new(orders.count)
        .command(&orders.program, &orders.args)
        .segment_bytes(orders.segment_bytes)
        .grace(orders.grace)
        .output(Output::Lines(Box::new(lines)))
        .part(part);
    for (name, value) in &orders.env {
        launcher = launcher.env(name, value);
    }
    let mut job = launcher.spawn()?;
    let control = job.control.take();
    let start = |name: &str, body: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new()
            .name(name.into())
            .spawn(body)
            .map_err(|error| Error::system("starting the threads of a part", error))
    };
    start("rmalab-orders", Box::new(move || obey(control, input, ahead.get(1..).unwrap_or_default(), &credit)))?;
    start(
        "rmalab-beat",
        Box::new(|| {
            loop {
                Said::Alive.say();
                std::thread::sleep(BEAT);
            }
        }),
    )?;
    // The end of each rank was reported already.
    Ok(i32::from(!job.wait()?.success()))
}

/// Passes the commands of the standard input on to the ranks' supervisor, until the input ends or falls silent.
fn obey(control: Option<PipeWriter>, mut input: File, ahead: &[u8], credit: &Credit) {
    let Some(mut control) = control else { return };
    let mut pass_on = |bytes: &[u8]| {
        credit.grant(bytes.iter().filter(|&&byte| byte == MORE).count() * GRANT);
        let commands: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != ALIVE && byte != MORE).collect();
        // If this fails, the supervisor is gone, and there are no ranks.
        let _ = control.write_all(&commands);
    };
    pass_on(ahead);
    let silence = Timespec { tv_sec: SILENCE.as_secs() as i64, tv_nsec: 0 };
    loop {
        match rustix::event::poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&silence)) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
        let mut bytes = [0; 64];
        match input.read(&mut bytes) {
            Ok(count @ 1..) => pass_on(&bytes[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    // The other launcher is gone: this kills the ranks.
    drop(control);
    std::thread::sleep(LAST);
    // The supervisor has not ended by itself, for instance since it waits for a reader. The kernel ends the ranks with
    // this process.
    std::process::exit(1);
}

/// Returns the credit that a line takes. Both sides count alike.
pub(super) fn cost(line: &[u8]) -> usize {
    /// The line's kind and number, and the launcher's memory for the line.
    const BESIDE: usize = 64;
    (line.len() + BESIDE).min(CREDIT)
}

/// Returns the byte that passes a signal on, which differs from [`END`], [`ALIVE`] and [`MORE`].
pub(super) fn byte_of(signal: i32) -> Option<u8> {
    u8::try_from(signal).ok().filter(|byte| ![END, ALIVE, MORE].contains(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_read_back() {
        for said in [
            Said::Alive,
            Said::Ended { rank: Rank(7), pid: 99, status: ExitStatus::from_raw(9) },
            Said::Line(Line { rank: Rank(0), stream: Stream::Out, bytes: b"" }),
            Said::Line(Line { rank: Rank(12), stream: Stream::Err, bytes: b" two  words \xff" }),
        ] {
            let line = said.to_line();
            assert_eq!(Said::read(line.strip_suffix(b"\n").unwrap()), Some(said));
        }
        for wrong in ["", "hello", "O", "O1", "Ox y", "X1", "X1 2", "X1 2 x", "X-1 2 3"] {
            assert_eq!(Said::read(wrong.as_bytes()), None, "{wrong}");
        }
        for signal in super::super::signals::FORWARDED {
            assert!(byte_of(signal).is_some());
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_said_makes_a_launcher_panic(line in prop::collection::vec(any::<u8>(), 0..40), kind in "[OEX]?[0-9]{0,11} ?[0-9]{0,11} ?") {
            Said::read(&line);
            Said::read(kind.as_bytes());
        }
    }
}
