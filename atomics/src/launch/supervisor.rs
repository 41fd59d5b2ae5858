//! The launcher's thread: starts the ranks, and then is one loop over everything that can happen to them.

use std::ffi::OsString;
use std::io::{PipeReader, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};

use super::lines::{Lines, Pumped, Sink};
use super::signals::{self, Arrivals};
use super::{Handle, Outcome, Output, Stream};
use crate::bootstrap::Hub;
use crate::mapped::Mapping;
use crate::shm::environment;
use crate::{Error, Rank, Result};

/// By this the job's owner says that a rank has failed elsewhere; no signal has this number.
pub(super) const END: u8 = 0;

/// Who is to hear that a rank has ended.
pub(super) enum Ended {
    /// Nobody.
    Untold,
    /// The hub of this launcher, by which the others of a rank hear of it that has not joined.
    Hub(Hub),
    /// The launcher of which this one starts a part of the ranks.
    Whole(Box<dyn FnMut(Rank, u32, ExitStatus) + Send>),
}

/// A job, checked and ready to start.
pub(super) struct Plan {
    /// The number of the first of its ranks.
    pub(super) first: u32,
    /// How many ranks it starts.
    pub(super) size: u32,
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) output: Output,
    pub(super) grace: Duration,
    pub(super) time_limit: Option<Duration>,
    /// What the ranks share, unless they are on several hosts.
    pub(super) memory: Option<(OwnedFd, Arc<Mapping>)>,
    pub(super) ended: Ended,
    pub(super) open_files: Rlimit,
    pub(super) arrivals: Option<Arrivals>,
    pub(super) lifeline: PipeReader,
}

/// One rank.
struct Process {
    child: Child,
    result: Option<PipeReader>,
    bytes: Vec<u8>,
    lines: [Option<Lines>; 2],
    status: Option<ExitStatus>,
}

/// What a descriptor in the poll stands for.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    Lifeline,
    Lines(usize, usize),
    Result(usize),
    End(usize),
}

/// How far the ending of the job has gone.
#[derive(Clone, Copy)]
enum Ending {
    /// All is well.
    No,
    /// A rank has failed; the others have until then to end by themselves.
    Grace(Instant),
    /// They have been asked to end, and have until then.
    Asked(Instant),
    /// They have been killed.
    Killed,
}

struct Supervisor {
    first: u32,
    ranks: Vec<Process>,
    handles: Arc<[Handle]>,
    sink: Option<Sink>,
    /// Whether failures are told on standard error.
    tells: bool,
    mapping: Option<Arc<Mapping>>,
    ended: Ended,
    arrivals: Option<Arrivals>,
    lifeline: Option<PipeReader>,
    grace: Duration,
    time_limit: Option<(Duration, Instant)>,
    ending: Ending,
    signalled: bool,
    first_failure: Option<Rank>,
    failures: usize,
    timed_out: Option<Duration>,
}

/// Starts the ranks, says so by sending their handles, and returns when all have ended.
pub(super) fn run(plan: Plan, started: &SyncSender<Arc<[Handle]>>) -> Result<Outcome> {
    // Signals are for the other threads: this one reads of them in a pipe, and its children start with none pending.
    let mask = block_signals();
    let mut ranks = Vec::with_capacity(plan.size as usize);
    let mut handles = Vec::with_capacity(plan.size as usize);
    for rank in plan.first..plan.first + plan.size {
        match start(&plan, Rank(rank), mask) {
            Ok((process, handle)) => {
                ranks.push(process);
                handles.push(handle);
            }
            Err(error) => {
                for process in &mut ranks {
                    kill_group(&process.child, Signal::KILL);
                    // It has been killed, so this ends; how is of no interest.
                    let _ = process.child.wait();
                }
                return Err(error);
            }
        }
    }
    let handles: Arc<[Handle]> = handles.into();
    // The receiver waits for exactly this.
    let _ = started.send(Arc::clone(&handles));
    let tells = matches!(plan.output, Output::Prefixed | Output::Inherit);
    let sink = match plan.output {
        Output::Prefixed => Some(Sink::Prefixed(Vec::new())),
        Output::Lines(take) => Some(Sink::Lines(take)),
        Output::Inherit | Output::Discard => None,
    };
    let mut supervisor = Supervisor {
        first: plan.first,
        ranks,
        handles,
        sink,
        tells,
        // It keeps the memory: a descriptor less to leak.
        mapping: plan.memory.map(|(_, mapping)| mapping),
        ended: plan.ended,
        arrivals: plan.arrivals,
        lifeline: Some(plan.lifeline),
        grace: plan.grace,
        time_limit: plan.time_limit.map(|limit| (limit, Instant::now() + limit)),
        ending: Ending::No,
        signalled: false,
        first_failure: None,
        failures: 0,
        timed_out: None,
    };
    let watched = supervisor.watch();
    if watched.is_err() {
        supervisor.kill_all();
    }
    watched?;
    supervisor.outcome()
}

fn start(plan: &Plan, rank: Rank, mask: libc::sigset_t) -> Result<(Process, Handle)> {
    let failed = |error: std::io::Error| Error::system(format!("starting {rank} ({})", plan.program.display()), error);
    let piped = matches!(plan.output, Output::Prefixed | Output::Lines(_));
    let mut command = Command::new(&plan.program);
    command.args(&plan.args).stdin(Stdio::null()).process_group(0);
    let mut lines = [None, None];
    if piped {
        let (out, out_end) = pipe().map_err(failed)?;
        let (err, err_end) = pipe().map_err(failed)?;
        command.stdout(out_end).stderr(err_end);
        lines = [Some(Lines::new(out, rank, Stream::Out)), Some(Lines::new(err, rank, Stream::Err))];
    } else if matches!(plan.output, Output::Discard) {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let (result, result_end) = pipe().map_err(failed)?;
    // Another launcher's word for who this process is must not reach its ranks.
    command
        .env_remove(environment::CALL)
        .env_remove(environment::HUB)
        .env_remove(environment::SHM_FD)
        .env_remove(environment::TOPOLOGY)
        .envs(plan.env.iter().map(|(name, value)| (name, value)));
    command.env(environment::RANK, rank.0.to_string());
    command.env(environment::RESULT_FD, result_end.as_raw_fd().to_string());

    let launcher = rustix::process::getpid();
    let kept = [plan.memory.as_ref().map(|(memory, _)| memory.as_raw_fd()), Some(result_end.as_raw_fd())];
    let open_files = plan.open_files;
    let prepare = move || in_child(launcher, kept, open_files, &mask);
    // SAFETY: `in_child` makes system calls only: it takes no lock and allocates nothing, which a process forked from one
    // of several threads must not.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn().map_err(failed)?;
    let mut process = Process { child, result: Some(result), bytes: Vec::new(), lines, status: None };
    let pid = pid(&process.child);
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => {
            let handle = Handle { pid: process.child.id(), pidfd };
            Ok((process, handle))
        }
        Err(error) => {
            kill_group(&process.child, Signal::KILL);
            // It has been killed, so this ends; how is of no interest.
            let _ = process.child.wait();
            Err(Error::system(format!("watching {rank}"), error))
        }
    }
}

/// A pipe whose reader does not block.
fn pipe() -> std::io::Result<(PipeReader, std::io::PipeWriter)> {
    let (reader, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

/// What a rank's process does between fork and exec.
fn in_child(launcher: Pid, kept: [Option<RawFd>; 2], open_files: Rlimit, mask: &libc::sigset_t) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // A launcher that has died before the line above sends no signal any more.
    if rustix::process::getppid() != Some(launcher) {
        return Err(Errno::SRCH.into());
    }
    for fd in kept.into_iter().flatten() {
        // SAFETY: the launcher keeps these open until the start is over, and this process has copies of them.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
    }
    rustix::process::setrlimit(Resource::Nofile, open_files)?;
    for signal in signals::FORWARDED {
        // SAFETY: the call only changes this process's table of signals. A handler of the launcher's would tell the
        // launcher of this process's signals; one that is ignored stays so (as under `nohup`).
        unsafe {
            if libc::signal(signal, libc::SIG_DFL) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
    // SAFETY: the mask was filled in by the kernel, and the call only reads it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
    Ok(())
}

/// Blocks all signals for this thread, and returns the mask as it was.
fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are local, the first is filled by the first call, and the second written by the second.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

fn pid(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("the kernel's process ids are positive")
}

/// Sends a signal to a rank that has not been waited for, and to all that it has started in its group.
fn kill_group(child: &Child, signal: Signal) {
    // It can only fail because the group has ended.
    let _ = rustix::process::kill_process_group(pid(child), signal);
}

impl Supervisor {
    /// The loop: until every rank has ended and has been reaped.
    fn watch(&mut self) -> Result<()> {
        while self.ranks.iter().any(|rank| rank.status.is_none()) {
            for source in self.poll()? {
                match source {
                    Source::Signals => self.pass_on(),
                    Source::Lifeline => self.hear_owner(),
                    Source::Lines(rank, stream) => {
                        self.pump(rank, stream)?;
                    }
                    Source::Result(rank) => {
                        self.take_result(rank)?;
                    }
                    Source::End(rank) => self.reap(rank)?,
                }
            }
            self.see_to_the_clock();
        }
        // What they wrote last. Somebody whom a rank has started may hold a pipe open: nobody waits for that.
        for rank in 0..self.ranks.len() {
            for stream in 0..2 {
                while self.pump(rank, stream)? {}
                if let (Some(lines), Some(sink)) = (&mut self.ranks[rank].lines[stream], &mut self.sink) {
                    lines.end(sink);
                }
            }
            while self.take_result(rank)? {}
        }
        Ok(())
    }

    /// Waits until something has happened, or it is time to do something.
    fn poll(&self) -> Result<Vec<Source>> {
        let readable = PollFlags::IN;
        let mut watched = Vec::with_capacity(2 + 4 * self.ranks.len());
        if let Some(arrivals) = &self.arrivals {
            watched.push((Source::Signals, PollFd::new(arrivals.reader(), readable)));
        }
        if let Some(lifeline) = &self.lifeline {
            watched.push((Source::Lifeline, PollFd::new(lifeline, readable)));
        }
        for (at, rank) in self.ranks.iter().enumerate() {
            for (stream, lines) in rank.lines.iter().enumerate() {
                if let Some(lines) = lines {
                    watched.push((Source::Lines(at, stream), PollFd::new(&lines.pipe, readable)));
                }
            }
            if let Some(result) = &rank.result {
                watched.push((Source::Result(at), PollFd::new(result, readable)));
            }
            if rank.status.is_none() {
                watched.push((Source::End(at), PollFd::new(&self.handles[at].pidfd, readable)));
            }
        }
        let (sources, mut polled): (Vec<Source>, Vec<PollFd<'_>>) = watched.into_iter().unzip();
        let now = Instant::now();
        let due = self.due().map(|due| due.saturating_duration_since(now));
        let due =
            due.map(|due| rustix::time::Timespec { tv_sec: due.as_secs() as i64, tv_nsec: due.subsec_nanos().into() });
        match rustix::event::poll(&mut polled, due.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::system("watching the ranks", error)),
        }
        let happened = polled.iter().map(|polled| !polled.revents().is_empty());
        Ok(sources.iter().zip(happened).filter(|(_, happened)| *happened).map(|(source, _)| *source).collect())
    }

    /// When the clock alone will make something happen.
    fn due(&self) -> Option<Instant> {
        let limit = self.time_limit.map(|(_, at)| at);
        match self.ending {
            Ending::No => limit,
            Ending::Grace(at) | Ending::Asked(at) => Some(limit.map_or(at, |limit| limit.min(at))),
            Ending::Killed => None,
        }
    }

    fn see_to_the_clock(&mut self) {
        let now = Instant::now();
        if let Some((limit, at)) = self.time_limit
            && now >= at
        {
            self.time_limit = None;
            self.timed_out = Some(limit);
            self.kill_all();
        }
        match self.ending {
            Ending::Grace(at) if now >= at => {
                self.signal_all(Signal::TERM);
                self.ending = Ending::Asked(now + self.grace);
            }
            Ending::Asked(at) if now >= at => self.kill_all(),
            _ => {}
        }
    }

    fn signal_all(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| rank.status.is_none()) {
            kill_group(&rank.child, signal);
        }
    }

    fn kill_all(&mut self) {
        self.signal_all(Signal::KILL);
        self.ending = Ending::Killed;
    }

    fn pass_on(&mut self) {
        let arrived = self.arrivals.as_ref().map(Arrivals::take).unwrap_or_default();
        for signal in arrived {
            self.pass_on_one(signal);
        }
    }

    fn pass_on_one(&mut self, signal: i32) {
        if self.signalled {
            self.kill_all();
        } else if let Some(signal) = Signal::from_named_raw(signal) {
            self.signalled = true;
            self.signal_all(signal);
        }
    }

    /// Does what the job's owner says: a signal's number to pass on, or [`END`]; when it says no more, all is over.
    fn hear_owner(&mut self) {
        let Some(lifeline) = &mut self.lifeline else { return };
        let mut said = [0];
        match lifeline.read(&mut said) {
            Ok(1) if said[0] == END => self.begin_to_end(),
            Ok(1) => self.pass_on_one(said[0].into()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => {
                self.lifeline = None;
                self.kill_all();
            }
        }
    }

    /// A rank has failed: the others have some time to end by themselves.
    fn begin_to_end(&mut self) {
        if matches!(self.ending, Ending::No) {
            self.ending = Ending::Grace(Instant::now() + self.grace);
        }
    }

    /// Reads a rank's output once; whether there may be more.
    fn pump(&mut self, rank: usize, stream: usize) -> Result<bool> {
        let (Some(lines), Some(sink)) = (&mut self.ranks[rank].lines[stream], &mut self.sink) else {
            return Ok(false);
        };
        let pumped = lines.pump(sink)?;
        match pumped {
            Pumped::More => return Ok(true),
            Pumped::Dry => {}
            Pumped::Ended => self.ranks[rank].lines[stream] = None,
            // As in a pipeline: who writes to nobody is told by a broken pipe.
            Pumped::Unread => {
                let stream = lines.stream();
                for lines in self.ranks.iter_mut().flat_map(|rank| &mut rank.lines) {
                    lines.take_if(|lines| lines.stream() == stream);
                }
            }
        }
        Ok(false)
    }

    /// Reads what a rank hands back, once; whether there may be more.
    fn take_result(&mut self, rank: usize) -> Result<bool> {
        let process = &mut self.ranks[rank];
        let Some(result) = &mut process.result else { return Ok(false) };
        let mut chunk = [0; 16 * 1024];
        match result.read(&mut chunk) {
            Ok(0) => {
                process.result = None;
                Ok(false)
            }
            Ok(len) => {
                process.bytes.extend_from_slice(&chunk[..len]);
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(Error::system(format!("reading the result of rank {rank}"), error)),
        }
    }

    fn reap(&mut self, at: usize) -> Result<()> {
        let (rank, process) = (Rank(self.first + at as u32), &mut self.ranks[at]);
        // It has ended but still keeps its number, so this reaches what it has left running, and nobody else.
        kill_group(&process.child, Signal::KILL);
        let ended = process.child.try_wait();
        let ended = ended.map_err(|error| Error::system(format!("waiting for {rank}"), error))?;
        let Some(status) = ended else { return Ok(()) };
        process.status = Some(status);
        // Who has not left in good order is missing to the others, whatever its exit code says; and who says that it has
        // failed, has.
        if let Some(mapping) = &self.mapping
            && (!status.success() || !mapping.has_departed(rank))
        {
            mapping.mark_failed(rank);
        }
        match &mut self.ended {
            Ended::Untold => {}
            Ended::Hub(hub) => hub.ended(rank),
            Ended::Whole(tell) => tell(rank, self.handles[at].pid, status),
        }
        if status.success() {
            return Ok(());
        }
        self.failures += 1;
        if self.first_failure.is_none() {
            self.first_failure = Some(rank);
            if self.tells {
                crate::error::tell(format_args!("{}", super::describe(rank, self.handles[at].pid, status)));
            }
        }
        self.begin_to_end();
        Ok(())
    }

    fn outcome(mut self) -> Result<Outcome> {
        if let Some(limit) = self.timed_out {
            return Err(Error::world(format!("the job did not end within {limit:?}, and was killed")));
        }
        if self.tells && self.failures > 1 {
            let others = self.failures - 1;
            crate::error::tell(format_args!(
                "{others} other rank{} failed after that",
                if others == 1 { "" } else { "s" }
            ));
        }
        let ranks = std::mem::take(&mut self.ranks);
        Ok(Outcome {
            statuses: ranks.iter().map(|rank| rank.status.expect("every rank has been reaped")).collect(),
            first_failure: self.first_failure,
            pids: self.handles.iter().map(|handle| handle.pid).collect(),
            results: ranks.into_iter().map(|rank| rank.bytes).collect(),
        })
    }
}

impl Drop for Supervisor {
    /// Leaves no rank behind when the loop has ended by an error or a panic.
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            if rank.status.is_none() {
                kill_group(&rank.child, Signal::KILL);
                // It has been killed, so this ends; how is of no interest.
                let _ = rank.child.wait();
            }
        }
    }
}
