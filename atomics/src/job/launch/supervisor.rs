//! The launcher's thread. It starts the ranks, and then runs one loop over all events that concern them.
//!
//! The loop never waits for a process that reads output: separate threads write it (lines.rs).

use std::ffi::OsString;
use std::io::{PipeReader, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions};

use super::lines::{Carrier, Lines, Sink};
use super::signals::{self, Arrivals};
use super::{Handle, Outcome, Output, Stream};
use crate::backend::mapped::Mapping;
use crate::join::bootstrap::{Hub, Presence};
use crate::join::environment;
use crate::{Error, Rank, Result};

/// The job's owner sends this when a rank has failed elsewhere; no signal has this number.
pub(super) const END: u8 = 0;

/// The time to wait for the last output once the ranks must end at once: after a second signal, the time limit, or the
/// loss of the owner.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The interval at which the loop looks for ranks that have ended, where the system refuses the descriptors that would
/// report it.
const LOOK: Duration = Duration::from_millis(10);

/// The system's answers by which the program, not the system, is the cause of a start that fails.
const OF_THE_PROGRAM: [Errno; 7] =
    [Errno::NOENT, Errno::ACCESS, Errno::NOEXEC, Errno::NOTDIR, Errno::LOOP, Errno::TXTBSY, Errno::TOOBIG];

/// The receiver of the report that a rank has ended.
pub(super) enum Ended {
    /// No receiver.
    Untold,
    /// The hub of this launcher. If a rank ends that has not joined, the hub reports that to the others.
    Hub(Hub),
    /// The launcher for which this one starts a part of the ranks.
    Whole(Box<dyn FnMut(Rank, u32, ExitStatus) + Send>),
}

/// A job that was checked and is ready to start.
pub(super) struct Plan {
    /// The number of its first rank.
    pub(super) first: u32,
    /// The number of ranks that it starts.
    pub(super) size: u32,
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) output: Output,
    pub(super) grace: Duration,
    pub(super) time_limit: Option<Duration>,
    /// The memory that the ranks share, unless they are on several hosts.
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
    status: Option<ExitStatus>,
}

/// The meaning of a descriptor in the poll.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    Lifeline,
    /// The thread with this number that carries output has ended.
    Carried(usize),
    Result(usize),
    End(usize),
}

/// The progress of the end of the job.
#[derive(Clone, Copy)]
enum Ending {
    /// All is well.
    No,
    /// A rank has failed. The others may end by themselves until this time.
    Grace(Instant),
    /// They have been asked to end, and have time until then.
    Asked(Instant),
    /// They have been killed.
    Killed,
}

struct Supervisor {
    first: u32,
    ranks: Vec<Process>,
    handles: Arc<[Handle]>,
    /// The threads that write output, as long as they run. The last one writes the notices, if the launcher writes any.
    carriers: Vec<Option<Carrier>>,
    /// True if failures are reported on standard error.
    tells: bool,
    mapping: Option<Arc<Mapping>>,
    ended: Ended,
    arrivals: Option<Arrivals>,
    lifeline: Option<PipeReader>,
    grace: Duration,
    time_limit: Option<(Duration, Instant)>,
    ending: Ending,
    /// The signal that was passed on to the ranks, if one was.
    passed_on: Option<Signal>,
    /// True if everything has to end at once, including the output.
    at_once: bool,
    /// The time at which unread output is given up.
    give_up: Option<Instant>,
    /// True if output was given up.
    gave_up: bool,
    first_failure: Option<Rank>,
    /// True if a failure was reported.
    reported: bool,
    /// The number of failures that were not reported, without the ends by the signal that was passed on.
    unreported: usize,
    /// For each rank, true if it has exited with 0 without leaving its world.
    stayed: Vec<Rank>,
    timed_out: Option<Duration>,
}

/// Starts the ranks, sends their handles, and returns when all have ended.
pub(super) fn run(plan: Plan, started: &SyncSender<Arc<[Handle]>>) -> Result<Outcome> {
    // The other threads take signals. This thread gets them through a pipe, and its children start without pending
    // signals.
    let mask = block_signals();
    let mut ranks = Vec::with_capacity(plan.size as usize);
    let mut handles = Vec::with_capacity(plan.size as usize);
    let mut lines = Vec::new();
    for rank in plan.first..plan.first + plan.size {
        match start(&plan, Rank(rank), mask) {
            Ok((process, handle, both)) => {
                ranks.push(process);
                handles.push(handle);
                lines.extend(both);
            }
            Err(error) => {
                ranks.iter_mut().for_each(Process::kill_and_reap);
                return Err(error);
            }
        }
    }
    let handles: Arc<[Handle]> = handles.into();
    // The receiver waits for exactly this.
    let _ = started.send(Arc::clone(&handles));
    let tells = matches!(plan.output, Output::Prefixed | Output::Inherit);
    let carriers = match carriers(plan.output, lines) {
        Ok(carriers) => carriers,
        Err(error) => {
            ranks.iter_mut().for_each(Process::kill_and_reap);
            return Err(error);
        }
    };
    let mut supervisor = Supervisor {
        first: plan.first,
        ranks,
        handles,
        carriers: carriers.into_iter().map(Some).collect(),
        tells,
        // The mapping keeps the memory, so there is one descriptor less to leak.
        mapping: plan.memory.map(|(_, mapping)| mapping),
        ended: plan.ended,
        arrivals: plan.arrivals,
        lifeline: Some(plan.lifeline),
        grace: plan.grace,
        time_limit: plan.time_limit.map(|limit| (limit, Instant::now() + limit)),
        ending: Ending::No,
        passed_on: None,
        at_once: false,
        give_up: None,
        gave_up: false,
        first_failure: None,
        reported: false,
        unreported: 0,
        stayed: Vec::new(),
        timed_out: None,
    };
    let watched = supervisor.watch();
    if watched.is_err() {
        supervisor.kill_all();
    }
    watched?;
    supervisor.outcome()
}

/// Starts the threads that carry `lines`, and the launcher's notices if it writes any. Each of this process's streams
/// has a thread, so that neither waits for the other's reader. The caller's function has one thread.
fn carriers(output: Output, lines: Vec<Lines>) -> Result<Vec<Carrier>> {
    let plain = || Sink::Prefixed(Vec::new());
    Ok(match output {
        Output::Prefixed => {
            let (out, err) = lines.into_iter().partition(|lines| lines.stream() == Stream::Out);
            vec![Carrier::start(out, plain())?, Carrier::start(err, plain())?]
        }
        Output::Inherit => vec![Carrier::start(lines, plain())?],
        Output::Lines(take) => vec![Carrier::start(lines, Sink::Lines(take))?],
        Output::Discard => Vec::new(),
    })
}

fn start(plan: &Plan, rank: Rank, mask: libc::sigset_t) -> Result<(Process, Handle, Vec<Lines>)> {
    let what = || format!("starting {rank} ({})", plan.program.display());
    let failed = |error: std::io::Error| Error::system(what(), error);
    let piped = matches!(plan.output, Output::Prefixed | Output::Lines(_));
    let mut command = Command::new(&plan.program);
    command.args(&plan.args).stdin(Stdio::null()).process_group(0);
    let mut lines = Vec::new();
    if piped {
        let (out, out_end) = pipe().map_err(failed)?;
        let (err, err_end) = pipe().map_err(failed)?;
        command.stdout(out_end).stderr(err_end);
        lines = vec![Lines::new(out, rank, Stream::Out), Lines::new(err, rank, Stream::Err)];
    } else if matches!(plan.output, Output::Discard) {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let (result, result_end) = pipe().map_err(failed)?;
    // Another launcher's variables for this process must not reach its ranks.
    command
        .env_remove(environment::CALL)
        .env_remove(environment::HUB)
        .env_remove(environment::SHM_FD)
        .env_remove(environment::SHM_SEGMENT_BYTES)
        .env_remove(environment::SEGMENT_BYTES)
        .env_remove(environment::TOPOLOGY)
        .envs(plan.env.iter().map(|(name, value)| (name, value)));
    command.env(environment::RANK, rank.0.to_string());
    command.env(environment::RESULT_FD, result_end.as_raw_fd().to_string());

    let launcher = rustix::process::getpid();
    let kept = [plan.memory.as_ref().map(|(memory, _)| memory.as_raw_fd()), Some(result_end.as_raw_fd())];
    let open_files = plan.open_files;
    let prepare = move || in_child(launcher, kept, open_files, &mask);
    // SAFETY: `in_child` only makes system calls. It takes no lock and allocates nothing, which a process forked from one
    // of several threads must not do.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn().map_err(|error| match Errno::from_io_error(&error) {
        Some(errno) if OF_THE_PROGRAM.contains(&errno) => Error::program(what(), &error),
        _ => failed(error),
    })?;
    // A sandbox may refuse it. Then the loop looks for the end of the rank at intervals.
    let pidfd = rustix::process::pidfd_open(pid(&child), PidfdFlags::empty()).ok();
    let handle = Handle { pid: child.id(), pidfd, reaped: Mutex::new(false) };
    Ok((Process { child, result: Some(result), bytes: Vec::new(), status: None }, handle, lines))
}

/// A pipe whose reader does not block.
fn pipe() -> std::io::Result<(PipeReader, std::io::PipeWriter)> {
    let (reader, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

/// Runs in a rank's process between fork and exec.
fn in_child(launcher: Pid, kept: [Option<RawFd>; 2], open_files: Rlimit, mask: &libc::sigset_t) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // A launcher that has died before the call above no longer sends a signal.
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
        // SAFETY: the call only changes this process's table of signals. A handler of the launcher would report this
        // process's signals to the launcher; an ignored signal stays ignored (as under `nohup`).
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

impl Process {
    /// Sends a signal to a rank that has not been reaped, and to all processes that it has started in its group.
    ///
    /// The rank's number cannot belong to another process before this thread, its parent, reaps it. A rank that has
    /// left its group gets the signal separately; in its group it must not get it twice.
    fn signal(&self, signal: Signal) {
        let pid = pid(&self.child);
        let in_group = rustix::process::getpgid(Some(pid)).is_ok_and(|group| group == pid);
        // Each can only fail because its target has ended.
        let _ = rustix::process::kill_process_group(pid, signal);
        if !in_group || signal == Signal::KILL {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Asks a rank to end with `signal`. A stopped rank is continued, so that it can end.
    fn ask(&self, signal: Signal) {
        self.signal(signal);
        self.signal(Signal::CONT);
    }

    /// Returns whether the rank has ended. It is not reaped: it keeps its number.
    fn has_ended(&self) -> std::io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(rustix::process::waitid(WaitId::Pid(pid(&self.child)), options)?.is_some())
    }

    fn kill_and_reap(&mut self) {
        if self.status.is_none() {
            self.signal(Signal::KILL);
            // It has been killed, so this wait ends. The exit status is not needed.
            let _ = self.child.wait();
        }
    }
}

impl Supervisor {
    /// Runs the loop until every rank has ended and has been reaped, and all output was passed on.
    fn watch(&mut self) -> Result<()> {
        let mut ended = false;
        loop {
            if !ended && self.ranks.iter().all(|rank| rank.status.is_some()) {
                ended = true;
                self.report_the_rest();
                self.carriers.iter_mut().flatten().for_each(Carrier::finish);
            }
            if ended {
                if self.at_once && self.give_up.is_none() {
                    self.give_up = Some(Instant::now() + LAST_WORDS);
                }
                let read = self.carriers.iter().all(Option::is_none);
                self.gave_up = !read && self.give_up.is_some_and(|at| Instant::now() >= at);
                if read || self.gave_up {
                    break;
                }
            }
            for source in self.poll()? {
                match source {
                    Source::Signals => self.pass_on(),
                    Source::Lifeline => self.listen_to_owner(),
                    Source::Carried(at) => {
                        // It ends early only by an error or a panic.
                        if let Some(carrier) = self.carriers[at].take() {
                            carrier.join()?;
                        }
                    }
                    Source::Result(rank) => {
                        self.take_result(rank)?;
                    }
                    Source::End(rank) => self.reap(rank)?,
                }
            }
            self.see_to_the_clock();
        }
        // The last results of the ranks. A process that a rank has started may hold a pipe open: this does not wait for
        // it.
        for rank in 0..self.ranks.len() {
            while self.take_result(rank)? {}
        }
        Ok(())
    }

    /// Waits for an event, or for the next deadline.
    fn poll(&self) -> Result<Vec<Source>> {
        let readable = PollFlags::IN;
        let mut watched = Vec::with_capacity(4 + 2 * self.ranks.len());
        if let Some(arrivals) = &self.arrivals {
            watched.push((Source::Signals, PollFd::new(arrivals.reader(), readable)));
        }
        if let Some(lifeline) = &self.lifeline {
            watched.push((Source::Lifeline, PollFd::new(lifeline, readable)));
        }
        for (at, carrier) in self.carriers.iter().enumerate() {
            if let Some(carrier) = carrier {
                watched.push((Source::Carried(at), PollFd::new(carrier.running(), readable)));
            }
        }
        let mut unwatched = Vec::new();
        for (at, rank) in self.ranks.iter().enumerate() {
            if let Some(result) = &rank.result {
                watched.push((Source::Result(at), PollFd::new(result, readable)));
            }
            if rank.status.is_none() {
                match &self.handles[at].pidfd {
                    Some(pidfd) => watched.push((Source::End(at), PollFd::new(pidfd, readable))),
                    None => unwatched.push(Source::End(at)),
                }
            }
        }
        let (sources, mut polled): (Vec<Source>, Vec<PollFd<'_>>) = watched.into_iter().unzip();
        let now = Instant::now();
        let due = self.due().map(|due| due.saturating_duration_since(now));
        let due = if unwatched.is_empty() { due } else { Some(due.map_or(LOOK, |due| due.min(LOOK))) };
        let due =
            due.map(|due| rustix::time::Timespec { tv_sec: due.as_secs() as i64, tv_nsec: due.subsec_nanos().into() });
        match rustix::event::poll(&mut polled, due.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::system("watching the ranks", error)),
        }
        let happened = polled.iter().map(|polled| !polled.revents().is_empty());
        let watched = sources.iter().zip(happened).filter(|(_, happened)| *happened).map(|(source, _)| *source);
        Ok(watched.chain(unwatched).collect())
    }

    /// Returns the time of the next event that only the clock triggers.
    fn due(&self) -> Option<Instant> {
        let limit = self.time_limit.map(|(_, at)| at);
        let ending = match self.ending {
            Ending::Grace(at) | Ending::Asked(at) => Some(at),
            Ending::No | Ending::Killed => None,
        };
        [limit, ending, self.give_up].into_iter().flatten().min()
    }

    fn see_to_the_clock(&mut self) {
        let now = Instant::now();
        if let Some((limit, at)) = self.time_limit
            && now >= at
        {
            self.time_limit = None;
            self.timed_out = Some(limit);
            self.end_at_once();
        }
        match self.ending {
            Ending::Grace(at) if now >= at => {
                self.ask_all(Signal::TERM);
                self.ending = Ending::Asked(now + self.grace);
            }
            Ending::Asked(at) if now >= at => self.kill_all(),
            _ => {}
        }
    }

    fn alive(&self) -> impl Iterator<Item = &Process> {
        self.ranks.iter().filter(|rank| rank.status.is_none())
    }

    fn ask_all(&self, signal: Signal) {
        self.alive().for_each(|rank| rank.ask(signal));
    }

    fn kill_all(&mut self) {
        self.alive().for_each(|rank| rank.signal(Signal::KILL));
        self.ending = Ending::Killed;
    }

    /// Kills the ranks, and waits only for a limited time for the process that reads their output.
    fn end_at_once(&mut self) {
        self.at_once = true;
        self.kill_all();
    }

    fn pass_on(&mut self) {
        let arrived = self.arrivals.as_ref().map(Arrivals::take).unwrap_or_default();
        for signal in arrived {
            self.pass_on_one(signal);
        }
    }

    fn pass_on_one(&mut self, signal: i32) {
        if self.passed_on.is_some() {
            self.end_at_once();
        } else if let Some(signal) = Signal::from_named_raw(signal) {
            self.passed_on = Some(signal);
            self.ask_all(signal);
        }
    }

    /// Obeys the job's owner: a signal's number to pass on, or [`END`]. When the owner's stream ends, the job ends.
    fn listen_to_owner(&mut self) {
        let Some(lifeline) = &mut self.lifeline else { return };
        let mut said = [0];
        match lifeline.read(&mut said) {
            Ok(1) if said[0] == END => self.begin_to_end(),
            Ok(1) => self.pass_on_one(said[0].into()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => {
                self.lifeline = None;
                self.end_at_once();
            }
        }
    }

    /// Notes that a rank has failed. The others have some time to end by themselves.
    fn begin_to_end(&mut self) {
        if matches!(self.ending, Ending::No) {
            self.ending = Ending::Grace(Instant::now() + self.grace);
        }
    }

    /// Reads a rank's result once; returns whether there may be more.
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
        // From here on the rank's number may belong to another process, which the job's owner must not signal.
        let mut reaped = self.handles[at].reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = process.has_ended();
        let ended = ended.map_err(|error| Error::system(format!("waiting for {rank}"), error))?;
        if !ended {
            return Ok(());
        }
        // It has ended but still keeps its number, so this reaches the processes that it has left running, and no
        // others.
        process.signal(Signal::KILL);
        let status = process.child.wait();
        let status = status.map_err(|error| Error::system(format!("waiting for {rank}"), error))?;
        process.status = Some(status);
        *reaped = true;
        drop(reaped);
        let mut stayed = false;
        if let Some(mapping) = &self.mapping {
            stayed = mapping.is_attached(rank) || mapping.has_failed(rank);
            // For the others, a rank that has not left in good order has failed, with any exit code. So has a rank
            // whose exit code reports a failure.
            if !status.success() || !mapping.has_departed(rank) {
                mapping.mark_failed(rank);
            }
        }
        match &mut self.ended {
            Ended::Untold => {}
            // The rank has ended, so it can no longer leave the world.
            Ended::Hub(hub) => stayed |= matches!(hub.ended(rank), Presence::Joined | Presence::Failed),
            Ended::Whole(tell) => tell(rank, self.handles[at].pid, status),
        }
        stayed &= status.success();
        if status.success() && !stayed {
            return Ok(());
        }
        if stayed {
            self.stayed.push(rank);
        }
        let first = *self.first_failure.get_or_insert(self.first_marked().unwrap_or(rank));
        self.begin_to_end();
        if self.is_by_signal(rank) {
            return Ok(());
        }
        if !self.reported && (first == rank || self.is_by_signal(first)) {
            self.reported = true;
            self.report(&super::describe(rank, self.handles[at].pid, status, stayed));
        } else {
            self.unreported += 1;
        }
        Ok(())
    }

    /// Returns the rank that the shared memory names as the first to fail, if it has not ended yet. Ranks that fail because of it
    /// can end before it.
    fn first_marked(&self) -> Option<Rank> {
        let first = self.mapping.as_ref()?.failed()?;
        self.ranks.get(first.index()).filter(|process| process.status.is_none()).map(|_| first)
    }

    /// Returns whether the signal that was passed on has ended a rank. The user who sent it needs no report of that.
    fn is_by_signal(&self, rank: Rank) -> bool {
        let status = self.ranks.get((rank.0 - self.first) as usize).and_then(|process| process.status);
        status.is_some_and(|status| super::is_by_signal(status, self.passed_on.map(Signal::as_raw)))
    }

    /// Queues a line for standard error, if failures are reported there.
    fn report(&self, line: &str) {
        if self.tells
            && let Some(carrier) = self.carriers.last().and_then(Option::as_ref)
        {
            carrier.notice(line);
        }
    }

    fn report_the_rest(&self) {
        if self.unreported > 0 {
            let others = self.unreported;
            self.report(&format!("{others} other rank{} failed after that", if others == 1 { "" } else { "s" }));
        }
    }

    fn outcome(mut self) -> Result<Outcome> {
        if let Some(limit) = self.timed_out {
            return Err(Error::world(format!("the job did not end within {limit:?}, and was killed")));
        }
        if self.gave_up && self.first_failure.is_none() {
            return Err(Error::world("the job was to end before a process had read all of its output"));
        }
        let ranks = std::mem::take(&mut self.ranks);
        Ok(Outcome {
            statuses: ranks.iter().map(|rank| rank.status.expect("every rank has been reaped")).collect(),
            first_failure: self.first_failure,
            stayed: std::mem::take(&mut self.stayed),
            pids: self.handles.iter().map(|handle| handle.pid).collect(),
            results: ranks.into_iter().map(|rank| rank.bytes).collect(),
        })
    }
}

impl Drop for Supervisor {
    /// Ends all ranks when the loop has ended with an error or a panic.
    fn drop(&mut self) {
        self.ranks.iter_mut().for_each(Process::kill_and_reap);
    }
}
