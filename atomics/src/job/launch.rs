//! Starts a world's ranks as processes, on this host or on several, and supervises them until they end.

mod hosts;
mod lines;
mod part;
mod signals;
mod supervisor;

use std::ffi::{OsStr, OsString};
use std::io::PipeWriter;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use supervisor::Ended;

pub use hosts::{Host, Hosts};
pub use part::part;

use crate::backend::mapped::{Layout, Mapping};
use crate::backend::shm;
use crate::join::bootstrap::{Hub, Invitation};
use crate::join::{environment, limits};
use crate::{Error, Rank, Result, SEGMENT_BYTES, Topology};

/// The time in which the remaining ranks may end by themselves after one has failed.
const GRACE: Duration = Duration::from_secs(5);

/// One of the two streams that a rank writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A line that a rank has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// The rank.
    pub rank: Rank,
    /// The stream.
    pub stream: Stream,
    /// The text, without the line's end. Lines of more than 64 KiB come in pieces.
    pub bytes: &'a [u8],
}

/// The destination of the ranks' output.
#[non_exhaustive]
pub enum Output {
    /// Line by line to this process's streams, after the rank's number: `[3] text`. Lines never mix.
    Prefixed,
    /// The ranks write to this process's streams themselves.
    Inherit,
    /// Discarded.
    Discard,
    /// Each line to a function, which a thread of the launcher calls.
    Lines(Box<dyn FnMut(Line<'_>) + Send>),
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Output::Prefixed => "Prefixed",
            Output::Inherit => "Inherit",
            Output::Discard => "Discard",
            Output::Lines(_) => "Lines(..)",
        })
    }
}

/// The placement of the ranks.
#[derive(Clone, Debug)]
enum Placement {
    Machine,
    PerNode(u32),
    Given(Topology),
}

/// Starts a program as the ranks of one world.
///
/// The ranks share an anonymous memory file, which disappears when they have ended, however they end. A rank joins it with
/// [`shm::attach`](crate::backend::shm::attach). Each rank is the leader of its own process group. So a Ctrl-C at the terminal reaches it
/// once, through the launcher, and processes that a rank leaves in its group end with it. No rank outlives the launcher, even if SIGKILL ends
/// the launcher. (A rank is the program itself: a wrapper between launcher and program has to `exec` it.) The standard input of ranks is
/// `/dev/null`.
///
/// ```no_run
/// use rmalab_atomics::Launcher;
///
/// let outcome = Launcher::new(4).command("./program", ["--locks", "3"]).spawn()?.wait()?;
/// std::process::exit(outcome.exit_code());
/// # Ok::<(), rmalab_atomics::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before `spawn`"]
pub struct Launcher {
    size: u32,
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    segment_bytes: Option<u64>,
    hub: bool,
    placement: Placement,
    output: Output,
    grace: Duration,
    time_limit: Option<Duration>,
    forward_signals: bool,
    part: Option<JobPart>,
}

/// The data of a launcher that starts only some of a job's ranks.
struct JobPart {
    /// The number of the first of them.
    first: u32,
    /// The number of ranks of the job.
    size: u32,
    /// The meeting point of all ranks.
    invitation: Invitation,
    /// The function to call for each rank that has ended, with its process id.
    ended: Box<dyn FnMut(Rank, u32, ExitStatus) + Send>,
}

impl std::fmt::Debug for JobPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobPart").field("first", &self.first).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Launcher {
    /// Makes a launcher of `size` ranks.
    pub fn new(size: u32) -> Launcher {
        Launcher {
            size,
            program: OsString::new(),
            args: Vec::new(),
            env: Vec::new(),
            segment_bytes: None,
            hub: false,
            placement: Placement::Machine,
            output: Output::Prefixed,
            grace: GRACE,
            time_limit: None,
            forward_signals: true,
            part: None,
        }
    }

    /// Makes the launcher start a part of the ranks of a job on several hosts, which share no memory.
    fn part(mut self, part: JobPart) -> Launcher {
        self.part = Some(part);
        self
    }

    /// Sets the program and its arguments. A program without a slash is searched for in `PATH`.
    pub fn command<A: AsRef<OsStr>>(
        mut self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Launcher {
        self.program = program.as_ref().to_os_string();
        self.args = args.into_iter().map(|arg| arg.as_ref().to_os_string()).collect();
        self
    }

    /// Sets a variable in the environment of every rank.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Launcher {
        self.env.push((name.as_ref().to_os_string(), value.as_ref().to_os_string()));
        self
    }

    /// Sets the length of every rank's segment, in bytes; by default [`SHARED_SEGMENT_BYTES`](crate::SHARED_SEGMENT_BYTES),
    /// and [`SEGMENT_BYTES`] for ranks that join a network.
    pub fn segment_bytes(mut self, bytes: u64) -> Launcher {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Sets whether the ranks can meet through a [`Hub`], as ranks of networks do. By default they cannot.
    ///
    /// The hub listens on the loopback interface, and ends with the job.
    pub fn hub(mut self, hub: bool) -> Launcher {
        self.hub = hub;
        self
    }

    /// Places blocks of `ranks` ranks on nodes; by default the machine's NUMA nodes are the nodes.
    pub fn ranks_per_node(mut self, ranks: u32) -> Launcher {
        self.placement = Placement::PerNode(ranks);
        self
    }

    /// Sets the topology of the ranks.
    pub fn topology(mut self, topology: Topology) -> Launcher {
        self.placement = Placement::Given(topology);
        self
    }

    /// Sets the destination of the ranks' output; [`Output::Prefixed`] by default.
    ///
    /// With `Prefixed` and `Inherit`, failures of ranks are reported on standard error, except for ranks that end by the signal that this
    /// process has passed on. A slow reader of the output slows only the ranks'
    /// writes: the launcher still handles signals, ends of ranks and the time limit. The job ends once its output has been read, or a second
    /// after a second signal or the time limit.
    pub fn output(mut self, output: Output) -> Launcher {
        self.output = output;
        self
    }

    /// Sets the time in which other ranks may end after one rank has failed; 5 seconds by default.
    ///
    /// Their waits return [`PeerFailed`](Error::PeerFailed), so most end by themselves. The others get a SIGTERM, and a SIGCONT in case they
    /// are stopped. After the same time again, they get a SIGKILL.
    pub fn grace(mut self, grace: Duration) -> Launcher {
        self.grace = grace;
        self
    }

    /// Kills all ranks when the job has taken this long; by default there is no limit.
    pub fn time_limit(mut self, limit: Duration) -> Launcher {
        self.time_limit = Some(limit);
        self
    }

    /// Sets whether this process passes SIGINT, SIGTERM and SIGHUP on to the ranks; by default it does.
    ///
    /// A second signal kills the ranks. While a job runs, these signals do not end this process. A program that handles them itself installs
    /// its handlers (through `signal-hook`) before its first job, and they are called, too.
    pub fn forward_signals(mut self, forward: bool) -> Launcher {
        self.forward_signals = forward;
        self
    }

    /// Returns the caller's placement of the ranks, if there is one.
    pub(crate) fn placed(&self) -> Result<Option<Topology>> {
        match &self.placement {
            Placement::Machine => Ok(None),
            Placement::PerNode(ranks) => Topology::blocks(self.size, *ranks, 1).map(Some),
            Placement::Given(topology) if !topology.is_blocks() => Err(Error::world(
                "the ranks of the topology do not form blocks, and a launcher places ranks in blocks only",
            )),
            Placement::Given(topology) if topology.size() == self.size => Ok(Some(topology.clone())),
            Placement::Given(topology) => Err(Error::world(format!(
                "the topology has {} ranks, but the world has {}",
                topology.size(),
                self.size
            ))),
        }
    }

    /// Starts the ranks.
    ///
    /// May raise this process's soft limit on open files. The ranks get the old limit.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when the world is empty, or needs more memory, processes or descriptors than there are. [`Error::Program`] when the
    /// program is missing or cannot be executed. [`Error::System`] when a system call fails. After an error no rank is running.
    pub fn spawn(self) -> Result<Job> {
        let topology = self.placed()?.unwrap_or_else(|| Topology::of_machine(self.size));
        let program = limits::program(&self.program)?;
        limits::processes(self.size)?;
        let open_files = limits::descriptors(self.size)?;
        let mut all = self.env;
        let mut set = |name: &str, value: String| all.push((name.into(), value.into()));
        if let Some(bytes) = self.segment_bytes {
            set(environment::SEGMENT_BYTES, bytes.to_string());
        }
        let (first, memory, told) = match self.part {
            Some(JobPart { first, size, invitation, ended }) => {
                set(environment::SIZE, size.to_string());
                set(environment::HUB, invitation.to_text());
                (first, None, Ended::Whole(ended))
            }
            None => {
                let (memory, mapping) = shared_memory(self.size, self.segment_bytes)?;
                let mapping = Arc::new(mapping);
                set(environment::SHM_SEGMENT_BYTES, mapping.layout().segment_bytes().to_string());
                set(environment::SIZE, self.size.to_string());
                set(environment::SHM_FD, memory.as_raw_fd().to_string());
                set(environment::TOPOLOGY, environment::topology_text(&topology));
                let ended = if self.hub {
                    let hub = Hub::open(IpAddr::V4(Ipv4Addr::LOCALHOST), self.size)?;
                    set(environment::HUB, hub.invitation().to_text());
                    Ended::Hub(hub)
                } else {
                    Ended::Untold
                };
                (0, Some((memory, mapping)), ended)
            }
        };
        let arrivals = if self.forward_signals { Some(signals::Arrivals::new()?) } else { None };
        let (lifeline, control) =
            std::io::pipe().map_err(|error| Error::system("making a pipe to the launcher's thread", error))?;
        let plan = supervisor::Plan {
            first,
            size: self.size,
            program,
            args: self.args,
            env: all,
            output: self.output,
            grace: self.grace,
            time_limit: self.time_limit,
            memory,
            ended: told,
            open_files,
            arrivals,
            lifeline,
        };
        let (started, start) = mpsc::sync_channel(1);
        // The kernel kills a rank when the *thread* that has started it ends. So this thread stays until the ranks have
        // gone.
        let thread = std::thread::Builder::new()
            .name("rmalab-launcher".into())
            .spawn(move || supervisor::run(plan, &started))
            .map_err(|error| Error::system("starting the launcher's thread", error))?;
        match start.recv() {
            Ok(ranks) => Ok(Job { ranks, control: Some(control), thread: Some(thread) }),
            // The thread has ended without having started the ranks, and returns the reason.
            Err(mpsc::RecvError) => Err(match ended(thread) {
                Err(error) => error,
                Ok(_) => unreachable!("a job that has ended has started"),
            }),
        }
    }
}

/// Makes the memory that `size` ranks share, and maps it.
fn shared_memory(size: u32, segment_bytes: Option<u64>) -> Result<(OwnedFd, Mapping)> {
    let map = |layout| {
        let memory = shm::create(layout)?;
        // SAFETY: a new sealed file, which only the ranks of this job get. They map it in the same way.
        let mapping = unsafe { Mapping::shared(memory.as_fd(), layout, true)? };
        Ok((memory, mapping))
    };
    map(shm::layout(size, segment_bytes)?).or_else(|error| match segment_bytes {
        // Address space is limited.
        None => map(Layout::new(size, SEGMENT_BYTES)?),
        Some(_) => Err(error),
    })
}

fn ended(thread: JoinHandle<Result<Outcome>>) -> Result<Outcome> {
    // Only the caller's output function can panic in that thread.
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// One rank's process, for the job's owner.
#[derive(Debug)]
struct Handle {
    pid: u32,
    /// A descriptor that becomes readable when the process has ended; `None` where the system refuses it.
    pidfd: Option<OwnedFd>,
    /// True if the process has been reaped. After that its number may belong to another process.
    reaped: Mutex<bool>,
}

/// Running ranks. Dropping this value kills them.
#[derive(Debug)]
#[must_use = "a job that is dropped is killed"]
pub struct Job {
    ranks: Arc<[Handle]>,
    /// The supervisor kills the ranks when this closes.
    control: Option<PipeWriter>,
    thread: Option<JoinHandle<Result<Outcome>>>,
}

impl Job {
    /// Returns the process id of `rank`.
    ///
    /// # Panics
    ///
    /// When there is no such rank.
    pub fn pid(&self, rank: Rank) -> u32 {
        self.ranks[rank.index()].pid
    }

    /// Sends a signal to `rank`, and to no other process, even if the rank has ended.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the rank has ended.
    ///
    /// # Panics
    ///
    /// When there is no such rank.
    pub fn signal(&self, rank: Rank, signal: Signal) -> Result<()> {
        let handle = &self.ranks[rank.index()];
        let reaped = handle.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = i32::try_from(handle.pid).ok().and_then(rustix::process::Pid::from_raw).filter(|_| !*reaped);
        pid.ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| rustix::process::kill_process(pid, signal))
            .map_err(|error| Error::system(format!("sending a signal to {rank}"), error))
    }

    /// Waits until all ranks have ended.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when the job has reached its time limit, and [`Error::System`] when the system refuses
    /// something. The ranks have ended then as well. The failure of a rank is not an error here; see [`Outcome`].
    ///
    /// # Panics
    ///
    /// When the function of [`Output::Lines`] has panicked.
    pub fn wait(mut self) -> Result<Outcome> {
        let thread = self.thread.take().expect("only `wait` and the drop take it");
        ended(thread)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        drop(self.control.take());
        if let Some(thread) = self.thread.take() {
            // The result is not needed.
            let _ = thread.join();
        }
    }
}

/// The ends of the ranks of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The exit status of each rank.
    pub statuses: Vec<ExitStatus>,
    /// The result of each rank (see [`Processes`](crate::Processes)), empty for most.
    pub results: Vec<Vec<u8>>,
    /// The rank that was the first to fail, if one has: by a signal, by an exit code other than 0, or by an exit with 0
    /// without leaving the world. Over shared memory, a rank counts as failed from its own report on, even if its
    /// process ends after the others.
    pub first_failure: Option<Rank>,
    /// The ranks that have exited with 0 without leaving the world that they had joined: by `std::process::exit`, or with
    /// a handle that was forgotten. The others may have waited for them.
    pub stayed: Vec<Rank>,
    /// The process ids of the ranks.
    pub pids: Vec<u32>,
}

impl Outcome {
    /// Returns whether every rank has ended with success.
    pub fn success(&self) -> bool {
        self.first_failure.is_none()
    }

    /// Returns the first failure like a shell: its exit code, or 128 plus the signal's number. The code is 1 for a rank
    /// that has exited with 0 without leaving its world, and 0 if there is no failure.
    pub fn exit_code(&self) -> i32 {
        self.first_failure.map_or(0, |rank| exit_code(self.statuses[rank.index()]))
    }

    /// Returns a description of the end of `rank`: `rank 3 (pid 1234) was killed by signal 9 (SIGKILL)`.
    ///
    /// # Panics
    ///
    /// When there is no such rank.
    pub fn describe(&self, rank: Rank) -> String {
        describe(rank, self.pids[rank.index()], self.statuses[rank.index()], self.stayed.contains(&rank))
    }
}

/// Returns the exit code of a job whose first failure ended with `status`.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().map_or_else(|| 128 + status.signal().unwrap_or(0), |code| if code == 0 { 1 } else { code })
}

/// Returns whether a rank has ended by this signal, or with the exit code by which a program reports that it has.
fn is_by_signal(status: ExitStatus, signal: Option<i32>) -> bool {
    signal.is_some_and(|signal| status.signal() == Some(signal) || status.code() == Some(128 + signal))
}

/// Describes the end of a rank. `stayed` is true if it did not leave the world that it had joined.
fn describe(rank: Rank, pid: u32, status: ExitStatus, stayed: bool) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) if stayed => format!(
            "{rank} (pid {pid}) exited with code {code} without leaving its world: other ranks may have waited for it (return from the program instead of std::process::exit, and drop the rank's handle)"
        ),
        (Some(code), _) => format!("{rank} (pid {pid}) exited with code {code}"),
        (None, Some(signal)) => format!("{rank} (pid {pid}) was killed by signal {signal} ({})", signals::name(signal)),
        (None, None) => format!("{rank} (pid {pid}) ended with status {status}"),
    }
}
