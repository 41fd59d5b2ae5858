//! The launcher of a job on several hosts: one [part](super::part) for each host, which a remote shell starts.
//!
//! ```text
//! rmalab launch ──┬── rmalab launch --part ── ranks 0, 1          this host: a child
//!      hub        └── ssh b rmalab launch --part ── ranks 2, 3    stdin: orders, stdout: lines
//! ```
//!
//! The hub is in this process: the parts' ranks connect to it directly. A part reports output and the ends of ranks. The
//! first failure, of a rank or of a part, goes to all parts, which end their ranks like a [`Launcher`] of one host: some
//! time to end by themselves, then SIGTERM, then SIGKILL. A part that has become silent has failed.
//!
//! Separate threads write the output, so that a slow reader slows down the ranks' writes, and not the supervision.
//! [Credit](super::part) limits the output that a part may send ahead.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::GRACE;
use super::lines::Sink;
use super::part::{BEAT, Credit, GRANT, GREETING, MORE, Orders, SILENCE, Said, byte_of, cost};
use super::signals::Arrivals;
use super::supervisor::END;
use super::{Line, Stream};
use crate::join::bootstrap::{Hub, Presence, address_of};
use crate::join::environment;
use crate::{Error, Rank, Result, SEGMENT_BYTES};

/// The interval at which the launcher looks for events without a message: signals, the clock, processes that have
/// ended.
const TICK: Duration = Duration::from_millis(50);

/// The time that a part may take to end after its ranks.
const BESIDE: Duration = Duration::from_secs(5);

/// The time for which the launcher waits for a part that has ended while its standard error is still open. After a
/// second signal, it is the wait for the last output after the ranks have ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The largest number of unhandled messages of the parts. With more, the threads that read them wait.
const WAITING: usize = 1024;

/// Lines of parts are cut at this length, which is longer than any line of a part.
const LONGEST: u64 = 256 << 10;

/// A host, with the number of ranks for which it has room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The name for the remote shell. This host is its own name, `localhost`, or one of its addresses.
    pub name: String,
    /// The largest number of its ranks.
    pub ranks: u32,
}

impl Host {
    /// Reads `a:2,b:4,c`: names with the largest number of ranks of each host, by default 1.
    ///
    /// # Errors
    ///
    /// [`Error::World`] that names the part that cannot be read.
    pub fn list(text: &str) -> Result<Vec<Host>> {
        text.split(',').map(|part| Host::read(part.trim())).collect()
    }

    /// Reads a file of hosts: one on each line, `name`, `name:4` or `name slots=4`. From `#` on, a line is a comment.
    ///
    /// # Errors
    ///
    /// [`Error::World`] with the line that cannot be read, or when there is no line.
    pub fn file(text: &str) -> Result<Vec<Host>> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let hosts: Vec<Host> = lines
            .filter(|line| !line.is_empty())
            .map(|line| Host::read(&line.replace(" slots=", ":")))
            .collect::<Result<_>>()?;
        if hosts.is_empty() { Err(Error::world("the file of hosts names none")) } else { Ok(hosts) }
    }

    fn read(text: &str) -> Result<Host> {
        let (name, ranks) = match text.split_once(':') {
            None => (text, Some(1)),
            Some((name, ranks)) => (name.trim_end(), ranks.trim().parse().ok()),
        };
        // A name that starts with a hyphen would be an option of the remote shell.
        let good = |c: char| c.is_ascii_alphanumeric() || ".-_@%".contains(c);
        match ranks {
            Some(ranks @ 1..) if !name.is_empty() && !name.starts_with('-') && name.chars().all(good) => {
                Ok(Host { name: name.to_owned(), ranks })
            }
            _ => Err(Error::world(format!("{text:?} is no host: a name, or a name and a number of ranks, as node1:4"))),
        }
    }

    fn is_here(&self) -> bool {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        self.name == "localhost"
            || self.name == own.trim()
            || self.name.parse::<IpAddr>().is_ok_and(|_| address_of(&self.name).is_ok())
    }
}

/// Starts a program as the ranks of one job on several hosts.
///
/// The ranks meet through a hub of this process and share no memory, so they need a backend of a network. Their output
/// comes line by line with the ranks' numbers as prefixes.
#[derive(Debug)]
#[must_use = "nothing happens before `run`"]
pub struct Hosts {
    hosts: Vec<Host>,
    size: u32,
    remote_shell: Vec<OsString>,
    remote_program: Option<OsString>,
    interface: Option<String>,
    env: Vec<(String, String)>,
    segment_bytes: u64,
    program: OsString,
    args: Vec<OsString>,
    grace: Duration,
}

impl Hosts {
    /// Makes a job of `size` ranks, which fill the hosts in their order, or by default of as many ranks as the hosts
    /// have room for.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when the hosts do not have room for them, or when there are no ranks.
    pub fn new(hosts: Vec<Host>, size: Option<u32>) -> Result<Hosts> {
        let room: u64 = hosts.iter().map(|host| u64::from(host.ranks)).sum();
        let size = size.map_or(room, u64::from);
        if size > room || size == 0 {
            return Err(Error::world(format!(
                "{size} ranks on hosts that have room for {room}; name more, as node1:4"
            )));
        }
        let size = u32::try_from(size).map_err(|_| Error::world(format!("{size} ranks are too many")))?;
        let mut left = size;
        let mut taken = hosts;
        for host in &mut taken {
            host.ranks = host.ranks.min(left);
            left -= host.ranks;
        }
        taken.retain(|host| host.ranks > 0);
        Ok(Hosts {
            hosts: taken,
            size,
            remote_shell: vec!["ssh".into()],
            remote_program: None,
            interface: None,
            env: Vec::new(),
            segment_bytes: SEGMENT_BYTES,
            program: OsString::new(),
            args: Vec::new(),
            grace: GRACE,
        })
    }

    /// Sets the program, which each host looks for in its `PATH` unless it has a slash, and its arguments.
    pub fn command<A: AsRef<OsStr>>(mut self, program: impl AsRef<OsStr>, args: impl IntoIterator<Item = A>) -> Hosts {
        self.program = program.as_ref().to_os_string();
        self.args = args.into_iter().map(|arg| arg.as_ref().to_os_string()).collect();
        self
    }

    /// Sets the remote shell and its options, `ssh` by default. It gets a host's name and a command line for that host's
    /// shell.
    pub fn remote_shell(mut self, words: Vec<OsString>) -> Hosts {
        self.remote_shell = words;
        self
    }

    /// Sets the path of `rmalab` on the other hosts; by default its path on this host.
    pub fn remote_program(mut self, path: impl AsRef<OsStr>) -> Hosts {
        self.remote_program = Some(path.as_ref().to_os_string());
        self
    }

    /// Sets the network interface of this host, or its address, that all hosts can reach. The hub listens only there.
    pub fn interface(mut self, interface: impl Into<String>) -> Hosts {
        self.interface = Some(interface.into());
        self
    }

    /// Sets a variable in the environment of every rank.
    ///
    /// From this process's environment, ranks on other hosts get the variables that start with `RMALAB_` or `RUST_`.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Hosts {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets the length of every rank's segment, in bytes.
    pub fn segment_bytes(mut self, bytes: u64) -> Hosts {
        self.segment_bytes = bytes;
        self
    }

    /// Sets the time in which the others may end after one rank has failed; see
    /// [`Launcher::grace`](super::Launcher::grace).
    pub fn grace(mut self, grace: Duration) -> Hosts {
        self.grace = grace;
        self
    }

    /// Starts the ranks and waits until all have ended. Returns the exit code of the first that has failed, like a shell.
    ///
    /// SIGINT, SIGTERM and SIGHUP are passed on to the ranks. A second signal kills them.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when no interface is named and a host is not this one, and for arguments that are not text;
    /// [`Error::System`] when the system refuses something. No rank is running then.
    pub fn run(self) -> Result<i32> {
        let address = match &self.interface {
            Some(interface) => address_of(interface)?,
            None if self.hosts.iter().all(Host::is_here) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            None => {
                return Err(Error::world(
                    "--interface is missing: the network interface of this host (its name, or an address) that the other hosts can reach",
                ));
            }
        };
        let hub = Hub::open(address, self.size)?;
        let arrivals = Arrivals::new()?;
        let (tell, told) = mpsc::sync_channel(WAITING);
        let mut job = Running {
            hub,
            parts: Vec::new(),
            grace: self.grace,
            ending: None,
            exit_code: None,
            passed_on: None,
            reported: false,
            unreported: 0,
            undecided: Vec::new(),
            out: Writer::start(&tell)?,
            err: Writer::start(&tell)?,
        };
        let mut first = 0;
        for (at, host) in self.hosts.iter().enumerate() {
            let orders = self.orders(first, host.ranks, &job.hub)?;
            // Dropping `job` ends the processes that were started.
            let started = self.start(host, first, &orders, |part| reader(part, at, &tell))?;
            job.parts.push(started);
            first += host.ranks;
        }
        drop(tell);
        let mut beat = Instant::now();
        let mut signals = 0;
        let mut give_up = None;
        loop {
            match told.recv_timeout(TICK) {
                Ok((at, what)) => job.hear(at, what),
                Err(RecvTimeoutError::Timeout) => {}
                // All have closed their streams, and end.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
            }
            for signal in arrivals.take() {
                signals += 1;
                job.passed_on.get_or_insert(signal);
                job.say_to_all(byte_of(signal).as_slice());
            }
            if beat.elapsed() >= BEAT {
                beat = Instant::now();
                job.say_to_all(&[super::part::ALIVE]);
            }
            job.see_to_the_clock();
            if !job.over() {
                continue;
            }
            // The last messages of the parts. They have ended, so this does not wait.
            while let Ok((at, what)) = told.try_recv() {
                job.hear(at, what);
            }
            job.close_output();
            if signals > 1 && give_up.is_none() {
                give_up = Some(Instant::now() + LAST_WORDS);
            }
            if job.out.is_done() && job.err.is_done() {
                break;
            }
            if give_up.is_some_and(|at| Instant::now() >= at) {
                // A second signal, and no process reads: the rest of the output is lost.
                job.exit_code.get_or_insert(1);
                break;
            }
        }
        Ok(job.exit_code.unwrap_or(0))
    }

    fn orders(&self, first: u32, count: u32, hub: &Hub) -> Result<String> {
        let text = |what: &OsStr| {
            what.to_str().map(str::to_owned).ok_or_else(|| {
                Error::world(format!("{:?} is not text, and cannot be sent to other hosts", what.to_string_lossy()))
            })
        };
        let passes = |name: &str| {
            (name.starts_with("RMALAB_") || name.starts_with("RUST_")) && !environment::OF_ONE_RANK.contains(&name)
        };
        let own =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut env: Vec<(String, String)> = own.filter(|(name, _)| passes(name)).collect();
        env.extend(self.env.iter().cloned());
        let folder = std::env::current_dir().map_err(|error| Error::system("asking where this process is", error))?;
        let orders = Orders {
            invitation: hub.invitation().to_text(),
            first,
            count,
            size: self.size,
            segment_bytes: self.segment_bytes,
            env,
            folder,
            program: text(&self.program)?,
            args: self.args.iter().map(|arg| text(arg)).collect::<Result<_>>()?,
            grace: self.grace,
        };
        serde_json::to_string(&orders).map_err(|error| Error::system("writing the orders of a part", error))
    }

    fn start(
        &self,
        host: &Host,
        first: u32,
        orders: &str,
        read: impl FnOnce(&mut Child) -> Result<()>,
    ) -> Result<PartProcess> {
        let failed = |error| Error::system(format!("starting the ranks of {}", host.name), error);
        let own = std::env::current_exe().map_err(failed)?;
        let mut command = if host.is_here() {
            let mut command = Command::new(own);
            command.args(["launch", "--part"]);
            command
        } else {
            let (shell, options) =
                self.remote_shell.split_first().ok_or_else(|| Error::world("no remote shell is named"))?;
            let program = self.remote_program.clone().unwrap_or_else(|| own.into_os_string());
            let program =
                program.to_str().ok_or_else(|| Error::world("the path of rmalab is not text; name one that is"))?;
            let mut command = Command::new(shell);
            command.args(options).arg(&host.name).arg(format!("exec {} launch --part", quoted(program)));
            command
        };
        // A separate group: only this process gets a Ctrl-C at the terminal, and passes it on.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn().map_err(failed)?;
        let mut part = PartProcess {
            name: host.name.clone(),
            first,
            ended: vec![false; host.ranks as usize],
            input: None,
            child,
            greeted: false,
            closed: false,
            quiet: false,
            heard: Instant::now(),
            written: 0,
            status: None,
        };
        read(&mut part.child)?;
        part.input = part.child.stdin.take();
        if let Some(input) = &mut part.input {
            // If this fails, the part reports the reason, or ends.
            let _ = input.write_all(format!("{orders}\n").as_bytes());
        }
        Ok(part)
    }
}

/// Returns `text` as one word of a shell's command line.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A message from a part.
enum Came {
    Out(Vec<u8>),
    /// A line of its standard error, and the credit to return once the line has been written.
    Err(Vec<u8>, Arc<Credit>),
    /// The part has closed its standard output, or its standard error.
    End {
        is_out: bool,
    },
    /// Lines of the part that count for this much have been written.
    Written(usize),
}

/// A piece of output for a writer.
enum Piece {
    /// A line of a rank of a part.
    Line { part: usize, rank: Rank, stream: Stream, bytes: Vec<u8> },
    /// A line of the launcher itself, to standard error.
    Notice(String),
    /// A line of a part's standard error, and the credit to return.
    Err { name: String, line: Vec<u8>, credit: Arc<Credit> },
}

/// A thread that writes to one of this process's streams, and waits for the process that reads it.
///
/// The parts' credit limits the output that waits to be written.
struct Writer {
    pieces: Option<Sender<Piece>>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(tell: &SyncSender<(usize, Came)>) -> Result<Writer> {
        let (pieces, written) = mpsc::channel();
        let tell = tell.clone();
        let thread = std::thread::Builder::new()
            .name("rmalab-output".into())
            .spawn(move || write(&written, &tell))
            .map_err(|error| Error::system("starting the threads that write the ranks' output", error))?;
        Ok(Writer { pieces: Some(pieces), thread })
    }

    fn write(&self, piece: Piece) {
        if let Some(pieces) = &self.pieces {
            // The thread ends only once there are no more pieces.
            let _ = pieces.send(piece);
        }
    }

    fn is_done(&self) -> bool {
        self.thread.is_finished()
    }
}

fn write(pieces: &Receiver<Piece>, tell: &SyncSender<(usize, Came)>) {
    let mut sink = Sink::Prefixed(Vec::new());
    for piece in pieces {
        match piece {
            Piece::Notice(line) => crate::model::error::tell(format_args!("{line}")),
            Piece::Err { name, line, credit } => {
                crate::model::error::tell(format_args!("{name}: {}", String::from_utf8_lossy(&line)));
                credit.grant(cost(&line));
            }
            Piece::Line { part, rank, stream, bytes } => {
                sink.one(Line { rank, stream, bytes: &bytes });
                // At the end of the job the receiver no longer exists.
                let _ = tell.send((part, Came::Written(cost(&bytes))));
            }
        }
    }
}

/// Starts the threads that read the output of a part.
fn reader(child: &mut Child, at: usize, tell: &SyncSender<(usize, Came)>) -> Result<()> {
    let start = |stream: Box<dyn Read + Send>, is_out: bool| {
        let tell = tell.clone();
        let read = move || {
            let mut stream = BufReader::new(stream);
            // The credit of the standard error. A part does not wait for it.
            let credit = Arc::new(Credit::new());
            loop {
                let mut line = Vec::new();
                let read = stream.by_ref().take(LONGEST).read_until(b'\n', &mut line);
                if !matches!(read, Ok(1..)) {
                    break;
                }
                line.pop_if(|last| *last == b'\n');
                let came = if is_out {
                    Came::Out(line)
                } else {
                    credit.take(cost(&line));
                    Came::Err(line, Arc::clone(&credit))
                };
                if tell.send((at, came)).is_err() {
                    return;
                }
            }
            // The receiver no longer exists when the job is over.
            let _ = tell.send((at, Came::End { is_out }));
        };
        std::thread::Builder::new()
            .name("rmalab-host".into())
            .spawn(read)
            .map(drop)
            .map_err(|error| Error::system("starting the threads that listen to a host", error))
    };
    if let Some(out) = child.stdout.take() {
        start(Box::new(out), true)?;
    }
    if let Some(err) = child.stderr.take() {
        start(Box::new(err), false)?;
    }
    Ok(())
}

/// A running part.
struct PartProcess {
    name: String,
    first: u32,
    /// The ended ranks of the part.
    ended: Vec<bool>,
    input: Option<ChildStdin>,
    child: Child,
    greeted: bool,
    /// True if its standard output has ended.
    closed: bool,
    /// True if its standard error has ended.
    quiet: bool,
    heard: Instant,
    /// The number of bytes of its lines that have been written, and for which no credit has been returned yet.
    written: usize,
    status: Option<ExitStatus>,
}

impl PartProcess {
    fn say(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            // If this fails, the part's silence or its end is detected.
            let _ = input.write_all(bytes);
        }
    }

    fn kill(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group.filter(|_| self.status.is_none()) {
            // It can only fail because the group has ended.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for PartProcess {
    fn drop(&mut self) {
        self.input = None;
        if self.status.is_none() {
            self.kill();
            // It has been killed, so this wait ends. The exit status is not needed.
            let _ = self.child.wait();
        }
    }
}

/// A running job.
struct Running {
    hub: Hub,
    parts: Vec<PartProcess>,
    grace: Duration,
    /// The time at which the parts are killed, once one has failed.
    ending: Option<Instant>,
    /// The exit code of the first failure.
    exit_code: Option<i32>,
    /// The signal that was passed on to the ranks, if one was.
    passed_on: Option<i32>,
    /// True if a failure was reported.
    reported: bool,
    /// The number of failures that were not reported, without the ends by the signal that was passed on.
    unreported: u32,
    /// The ranks that have exited with 0, and whose connections to the hub have not ended yet: the part, the process
    /// and the time.
    undecided: Vec<(usize, Rank, u32, Instant)>,
    out: Writer,
    err: Writer,
}

impl Running {
    fn hear(&mut self, at: usize, came: Came) {
        let part = &mut self.parts[at];
        if let Came::Written(bytes) = came {
            part.written += bytes;
            if part.written >= GRANT {
                let grants = part.written / GRANT;
                part.written %= GRANT;
                part.say(&vec![MORE; grants]);
            }
            return;
        }
        part.heard = Instant::now();
        let name = part.name.clone();
        match came {
            Came::Out(line) if !part.greeted => {
                part.greeted = line == GREETING.as_bytes();
                if !part.greeted {
                    self.report(format!("{name}: {}", String::from_utf8_lossy(&line)));
                }
            }
            Came::Err(line, credit) => self.err.write(Piece::Err { name, line, credit }),
            Came::Out(line) => match Said::read(&line) {
                Some(Said::Line(Line { rank, stream, bytes })) => {
                    let writer = if stream == Stream::Out { &self.out } else { &self.err };
                    writer.write(Piece::Line { part: at, rank, stream, bytes: bytes.to_vec() });
                }
                Some(Said::Ended { rank, pid, status }) => self.ended(at, rank, pid, status),
                Some(Said::Alive) => {}
                None => self.fail(1, &format!("{name}: the other end is not `rmalab launch --part` of this version")),
            },
            Came::End { is_out: true } => {
                part.closed = true;
                part.input = None;
            }
            Came::End { is_out: false } => part.quiet = true,
            Came::Written(_) => {}
        }
    }

    fn ended(&mut self, at: usize, rank: Rank, pid: u32, status: ExitStatus) {
        let part = &mut self.parts[at];
        let place = rank.0.checked_sub(part.first).and_then(|place| part.ended.get_mut(place as usize));
        let Some(ended) = place else { return };
        *ended = true;
        let presence = self.hub.ended(rank);
        if !status.success() {
            self.rank_failed(at, rank, pid, status, false);
        } else if presence == Presence::Failed {
            self.rank_failed(at, rank, pid, status, true);
        } else if presence == Presence::Joined {
            // Its farewell, or the end of its connection, arrives on another connection than the report of its end.
            self.undecided.push((at, rank, pid, Instant::now()));
        }
    }

    /// Checks again whether the ranks that have exited with 0 have left the world.
    fn decide(&mut self) {
        for (at, rank, pid, since) in std::mem::take(&mut self.undecided) {
            match self.hub.ended(rank) {
                Presence::Joined if since.elapsed() < SILENCE => self.undecided.push((at, rank, pid, since)),
                Presence::Joined | Presence::Failed => {
                    self.rank_failed(at, rank, pid, ExitStatus::default(), true);
                }
                Presence::Absent | Presence::Departed => {}
            }
        }
    }

    fn rank_failed(&mut self, at: usize, rank: Rank, pid: u32, status: ExitStatus, stayed: bool) {
        let code = super::exit_code(status);
        if super::is_by_signal(status, self.passed_on) {
            // The user who sent the signal needs no report of that.
            self.begin_to_end(code);
        } else if self.reported {
            self.unreported += 1;
        } else {
            let how = format!("{}: {}", self.parts[at].name, super::describe(rank, pid, status, stayed));
            self.fail(code, &how);
        }
    }

    /// Reports the first failure.
    fn fail(&mut self, code: i32, how: &str) {
        if !self.reported {
            self.reported = true;
            self.report(how.to_owned());
        }
        self.begin_to_end(code);
    }

    /// Ends the ranks. The first failure decides the exit code.
    fn begin_to_end(&mut self, code: i32) {
        if self.exit_code.is_none() {
            self.exit_code = Some(code);
            self.ending = Some(Instant::now() + 2 * self.grace + BESIDE);
            self.say_to_all(&[END]);
        }
    }

    /// Queues a line for standard error.
    fn report(&self, line: String) {
        self.err.write(Piece::Notice(line));
    }

    /// Returns whether all parts have ended, and the ends of all ranks are known.
    fn over(&self) -> bool {
        self.parts.iter().all(|part| part.status.is_some()) && self.undecided.is_empty()
    }

    /// Writes the last messages, and lets the writers end when they have written everything.
    fn close_output(&mut self) {
        if self.err.pieces.is_some() && self.unreported > 0 {
            let others = self.unreported;
            self.report(format!("{others} other rank{} failed after that", if others == 1 { "" } else { "s" }));
        }
        self.out.pieces = None;
        self.err.pieces = None;
    }

    fn say_to_all(&mut self, bytes: &[u8]) {
        for part in &mut self.parts {
            part.say(bytes);
        }
    }

    fn see_to_the_clock(&mut self) {
        self.decide();
        let late = self.ending.is_some_and(|ending| Instant::now() >= ending);
        for at in 0..self.parts.len() {
            let part = &mut self.parts[at];
            // A part whose ranks have ended may still wait for a process that reads their output.
            let over = late && part.ended.contains(&false);
            if part.status.is_some() {
                continue;
            }
            // A part that has closed its output sends nothing more, and must end as well.
            let silent = (part.greeted || part.closed) && part.heard.elapsed() >= SILENCE;
            if over || silent {
                part.kill();
            }
            // Messages from before its end count first.
            if !(part.closed || over || silent) {
                continue;
            }
            // An error could only mean that it is not a child of this process, but it is.
            let Ok(Some(status)) = part.child.try_wait() else { continue };
            // Its last output has the reason of its end. A process that a remote shell has left may keep that stream
            // open.
            if !(part.quiet || over || part.heard.elapsed() >= LAST_WORDS) {
                continue;
            }
            part.status = Some(status);
            let missing: Vec<Rank> =
                (part.first..).zip(&part.ended).filter(|(_, ended)| !**ended).map(|(rank, _)| Rank(rank)).collect();
            let Some(first) = missing.first() else { continue };
            let why = match status.code() {
                _ if silent => format!("it has been silent for {SILENCE:?}"),
                Some(code) => format!("it has ended with exit code {code}"),
                None => format!("it has ended with {status}"),
            };
            let how = format!(
                "{}: the launcher on this host has not reported the end of {first} (and {} others): {why}",
                part.name,
                missing.len() - 1
            );
            let code = status.code().filter(|code| *code != 0).unwrap_or(1);
            for rank in missing {
                self.hub.ended(rank);
            }
            self.fail(code, &how);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, ranks: u32) -> Host {
        Host { name: name.to_owned(), ranks }
    }

    #[test]
    fn hosts_are_read_from_lists_and_files() {
        assert_eq!(Host::list("a:2, b,c.d-e:16").unwrap(), [host("a", 2), host("b", 1), host("c.d-e", 16)]);
        let file = "# ours\n a:2 # big\n\nb slots=3\nme@c\n";
        assert_eq!(Host::file(file).unwrap(), [host("a", 2), host("b", 3), host("me@c", 1)]);
        for wrong in ["", "a:", "a:0", "a:-1", ":2", "a:x", "a,,b", "-oProxyCommand=x", "a b", "$(x)", "a:1:2"] {
            let words = Host::list(wrong).unwrap_err().to_string();
            assert!(words.contains("is no host"), "{words}");
        }
        assert!(Host::file("# nobody\n").is_err());
    }

    #[test]
    fn ranks_fill_the_hosts_in_their_order() {
        let hosts = || Host::list("a:2,b:2,c:4").unwrap();
        let placed = |size| Hosts::new(hosts(), size).unwrap();
        assert_eq!((placed(None).size, placed(None).hosts), (8, hosts()));
        assert_eq!(placed(Some(3)).hosts, [host("a", 2), host("b", 1)]);
        for wrong in [0, 9] {
            assert!(Hosts::new(hosts(), Some(wrong)).unwrap_err().to_string().contains("room for 8"));
        }
        assert!(Hosts::new(Vec::new(), None).is_err());
    }

    #[test]
    fn other_hosts_need_an_interface_that_is_named() {
        let run = |hosts: Hosts| hosts.command("true", [""; 0]).run().unwrap_err().to_string();
        let elsewhere = || Hosts::new(Host::list("rmalab-elsewhere").unwrap(), None).unwrap();
        assert!(run(elsewhere()).contains("--interface is missing"));
        assert!(run(elsewhere().interface("no-such")).contains("no-such"));
        let words = run(elsewhere().interface("lo").remote_shell(vec!["/no/such/shell".into()]));
        assert!(words.contains("rmalab-elsewhere"), "{words}");
        assert!(host("localhost", 1).is_here() && host("127.0.0.1", 1).is_here() && !host("192.0.2.1", 1).is_here());
    }

    #[test]
    fn words_for_a_shell_stay_whole() {
        let word = "a 'b' $c \"d\"";
        let output = Command::new("sh").arg("-c").arg(format!("printf %s {}", quoted(word))).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
    }
}
