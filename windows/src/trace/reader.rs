//! Traces, read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rmalab_atomics::{Rank, Topology};

use super::TraceError;
use super::format::{BlockKind, Event, HEAD, Head, Header, Kind, Last, MAGIC, PREFIX, VERSION, take_varint};
use crate::replay::Step;
use crate::{Info, Result};

type Read_<T> = std::result::Result<T, TraceError>;

/// How a rank's trace ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// With the window.
    Complete {
        /// The time from the window's making to the end of its last call.
        elapsed: Duration,
    },
    /// Before the window did: the rank was killed, or its disk was full. What it did after the last whole block is lost.
    Early {
        /// How many events are known to be lost: those of a block that ends early. There may be more.
        lost: u64,
        /// Where the last whole block ends.
        offset: u64,
    },
}

/// One rank's part of a trace.
#[derive(Clone, Debug)]
pub struct RankTrace {
    path: PathBuf,
    /// Where the events begin, and where they end.
    first: u64,
    end: u64,
    events: u64,
    barriers: u64,
    left_out: u64,
    ending: Ending,
}

impl RankTrace {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many events it has.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes of the events.
    pub fn bytes(&self) -> u64 {
        self.end - self.first
    }

    /// How many of the events are post, start, complete or wait, which a replay leaves out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// How it ends.
    pub fn ending(&self) -> Ending {
        self.ending
    }
}

/// A trace: what all ranks of a program did on one window.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics, World};
/// use rmalab_windows::replay::Step;
/// use rmalab_windows::trace::Trace;
/// use rmalab_windows::{LockKind, Team, Window, WindowDisp};
///
/// let dir = tempfile::tempdir()?;
/// World::threads(2).run(|ra| {
///     let team = Team::new(ra)?;
///     let window = Window::builder(&team).name("table").record(dir.path()).allocate(64)?;
///     let epoch = window.lock(LockKind::Exclusive, Rank(0))?;
///     epoch.put(WindowDisp(0), &[1_u64, 2])?;
///     epoch.unlock()?;
///     window.free()
/// })?.into_iter().collect::<Result<(), _>>()?;
///
/// let trace = Trace::open(dir.path())?;
/// assert_eq!((trace.window(), trace.ranks()), ("table", 2));
/// let steps = trace.steps(Rank(1)).collect::<Result<Vec<Step>, _>>()?;
/// let calls: Vec<&Step> = steps.iter().filter(|step| !matches!(step, Step::Compute(_))).collect();
/// assert_eq!(calls[1], &Step::Put { target: Rank(0), bytes: 16 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trace {
    header: Header,
    info: Info,
    parts: Vec<RankTrace>,
    barriers: u64,
}

impl Trace {
    /// Opens the trace in a folder, or, where the folder has several, `FOLDER/WINDOW`; reads and checks all of it.
    ///
    /// # Errors
    ///
    /// Files that are missing, that do not agree, or that are damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, TraceError> {
        let path = path.as_ref();
        let files = files_of(path)?;
        let mut parts = Vec::new();
        let mut header: Option<(Header, &Path)> = None;
        for (rank, file) in (0..).zip(&files) {
            let (own, part) = scan(file, rank)?;
            match &header {
                None => {
                    if own.ranks as usize != files.len() {
                        return Err(missing(path, own.ranks, files.len()));
                    }
                    header = Some((own, file));
                }
                Some((first, of)) => {
                    let differs = [
                        ("ranks", own.ranks == first.ranks),
                        ("topology", own.topology == first.topology),
                        ("window", own.window == first.window),
                        ("info", own.info == first.info),
                        ("clock", own.clock == first.clock),
                    ];
                    if let Some((what, _)) = differs.into_iter().find(|&(_, same)| !same) {
                        let what = format!("another {what} than {} has; they are of different programs", of.display());
                        return Err(TraceError::set(file, what));
                    }
                }
            }
            parts.push(part);
        }
        let Some((header, file)) = header else {
            return Err(missing(path, 1, 0));
        };
        let info = header.info.parse().map_err(|error| TraceError::damaged(file, PREFIX, format!("{error}")))?;
        let barriers = parts.iter().map(|part| part.barriers).min().unwrap_or(0);
        Ok(Trace { header, info, parts, barriers })
    }

    /// How many ranks the window had.
    pub fn ranks(&self) -> u32 {
        self.header.ranks
    }

    /// Where they were.
    pub fn topology(&self) -> &Topology {
        &self.header.topology
    }

    /// The window's name; empty if it had none when it was made.
    pub fn window(&self) -> &str {
        &self.header.window
    }

    /// The window's hints, among them the lock policy that it was recorded with.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What the times were measured with.
    pub fn clock(&self) -> &str {
        &self.header.clock
    }

    /// What each rank's file is like.
    pub fn parts(&self) -> &[RankTrace] {
        &self.parts
    }

    /// How many events there are.
    pub fn events(&self) -> u64 {
        self.parts.iter().map(RankTrace::events).sum()
    }

    /// What a user has to know before using the trace, a line each: files that end early, what a replay leaves out.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for part in &self.parts {
            let path = part.path.display();
            if let Ending::Early { lost, offset } = part.ending {
                let lost = if lost == 0 { String::new() } else { format!(": {lost} events lost") };
                remarks.push(format!("{path}: byte {offset}: ends before the window was freed{lost}"));
            }
            if part.left_out > 0 {
                let calls = part.left_out;
                remarks
                    .push(format!("{path}: {calls} calls of post, start, complete and wait are left out of replays"));
            }
            if part.barriers > self.barriers {
                let more = part.barriers - self.barriers;
                remarks.push(format!("{path}: {more} barriers that not all ranks have are left out of replays"));
            }
        }
        remarks
    }

    /// What `rank` did, read as it is asked for: the time between calls as [`Step::Compute`], and the calls.
    ///
    /// Barriers that not all ranks have, since some files end early, are left out, so that a replay ends.
    ///
    /// An error, if the file has changed since it was opened, is the last item. There is nothing for a rank that does not
    /// exist.
    pub fn steps(&self, rank: Rank) -> Steps {
        let part = self.parts.get(rank.index());
        Steps {
            blocks: part.map(|part| Blocks::new(&part.path, part.first, part.end)),
            ranks: self.header.ranks,
            body: Vec::new(),
            at: 0,
            events: 0,
            before: Last::default(),
            barriers: self.barriers,
            next: None,
        }
    }
}

fn missing(path: &Path, ranks: u32, there: usize) -> TraceError {
    let what =
        format!("files of {there} ranks, where the program had {ranks}; copy those of all ranks into one folder");
    TraceError::set(path, what)
}

/// The files of a trace, by rank.
fn files_of(path: &Path) -> Read_<Vec<PathBuf>> {
    let (dir, stem) = if path.is_dir() {
        (path, None)
    } else {
        let stem = path.file_name().map(|name| name.to_string_lossy().into_owned());
        (path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")), stem)
    };
    let failed = |error| TraceError::io(dir, "reading the folder of a trace", error);
    let mut windows: BTreeMap<String, BTreeMap<u32, PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let Some((window, rank)) = name.strip_suffix(".trace").and_then(|name| name.rsplit_once("-rank-")) else {
            continue;
        };
        if let Ok(number) = rank.parse()
            && stem.as_ref().is_none_or(|stem| stem == window)
        {
            windows.entry(window.to_owned()).or_default().insert(number, file.clone());
        }
    }
    let names: Vec<&String> = windows.keys().collect();
    if names.len() > 1 {
        let names = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        let what = format!("traces of several windows ({names}); name one, as {}/WINDOW", dir.display());
        return Err(TraceError::set(path, what));
    }
    let Some((window, files)) = windows.pop_first() else {
        return Err(TraceError::set(path, "no trace is here; its files are called WINDOW-rank-N.trace"));
    };
    if let Some((rank, _)) = (0..).zip(files.keys()).find(|(rank, there)| rank != *there) {
        return Err(TraceError::set(
            &dir.join(format!("{window}-rank-{rank}.trace")),
            "this file of the trace is missing",
        ));
    }
    Ok(files.into_values().collect())
}

/// The blocks of a file from a place on. No file stays open between two of them, so that a replay of many ranks needs
/// few descriptors.
#[derive(Debug)]
struct Blocks {
    path: PathBuf,
    at: u64,
    end: u64,
}

/// What comes next in a file.
enum Next {
    Block(Head),
    /// The file is over; so many events of a block were lost.
    Over {
        lost: u64,
    },
}

impl Blocks {
    fn new(path: &Path, at: u64, end: u64) -> Blocks {
        Blocks { path: path.to_owned(), at, end }
    }

    fn damaged(&self, what: impl Into<String>) -> TraceError {
        TraceError::damaged(&self.path, self.at, what)
    }

    fn read(&self, file: &mut File, into: &mut [u8]) -> Read_<bool> {
        match file.read_exact(into) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(TraceError::io(&self.path, "reading a trace", error)),
        }
    }

    /// Reads the next block's body into `body`.
    fn next(&mut self, body: &mut Vec<u8>) -> Read_<Next> {
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

/// Reads all of a file, and checks it.
fn scan(path: &Path, rank: u32) -> Read_<(Header, RankTrace)> {
    let failed = |error| TraceError::io(path, "reading a trace", error);
    let mut file = File::open(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    let mut prefix = [0; PREFIX as usize];
    if len < PREFIX {
        return Err(TraceError::damaged(path, 0, format!("{len} bytes are too few for a trace")));
    }
    file.read_exact(&mut prefix).map_err(failed)?;
    let (magic, version) = prefix.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(TraceError::damaged(path, 0, "this is no trace: it does not begin as one"));
    }
    if version != VERSION.to_le_bytes() {
        let version = version.iter().rev().fold(0u32, |sum, &byte| sum << 8 | u32::from(byte));
        let what = format!("version {version} of the format; this program reads version {VERSION}");
        return Err(TraceError::damaged(path, MAGIC.len() as u64, what));
    }
    let mut blocks = Blocks::new(path, PREFIX, len);
    let mut body = Vec::new();
    let header = match blocks.next(&mut body)? {
        Next::Block(Head { kind: BlockKind::Header, .. }) => {
            header(&body, rank).map_err(|what| TraceError::damaged(path, PREFIX, what))?
        }
        Next::Block(_) => return Err(TraceError::damaged(path, PREFIX, "the first block is no header")),
        Next::Over { .. } => return Err(TraceError::damaged(path, PREFIX, "the file ends within its header")),
    };
    let first = blocks.at;
    let mut part = RankTrace {
        path: path.to_owned(),
        first,
        end: first,
        events: 0,
        barriers: 0,
        left_out: 0,
        ending: Ending::Early { lost: 0, offset: first },
    };
    let mut rules = Rules::default();
    loop {
        let start = blocks.at;
        let damaged = |what| TraceError::damaged(path, start, what);
        match blocks.next(&mut body)? {
            Next::Over { lost } => {
                part.ending = Ending::Early { lost, offset: start };
                return Ok((header, part));
            }
            Next::Block(Head { kind: BlockKind::Events, events, .. }) => {
                let (mut left, mut before) = (&body[..], Last::default());
                for _ in 0..events {
                    let (event, _) = before.decode(&mut left, header.ranks).map_err(damaged)?;
                    rules.check(event).map_err(damaged)?;
                    part.events += 1;
                    part.barriers += u64::from(event.kind == Kind::Barrier);
                    part.left_out += u64::from(event.kind == Kind::Pscw);
                }
                if !left.is_empty() {
                    return Err(damaged(format!("{} bytes behind the {events} events of the block", left.len())));
                }
                part.end = blocks.at;
            }
            Next::Block(Head { kind: BlockKind::End, .. }) => {
                let mut left = &body[..];
                let (Some(events), Some(elapsed), true) =
                    (take_varint(&mut left), take_varint(&mut left), left.is_empty())
                else {
                    return Err(damaged("an end that is not two numbers".to_owned()));
                };
                if events != part.events {
                    return Err(damaged(format!("the end speaks of {events} events, the file has {}", part.events)));
                }
                if blocks.at != len {
                    return Err(damaged(format!("{} bytes behind the end", len - blocks.at)));
                }
                part.ending = Ending::Complete { elapsed: Duration::from_nanos(elapsed) };
                return Ok((header, part));
            }
            Next::Block(Head { kind: BlockKind::Header, .. }) => {
                return Err(damaged("a second header".to_owned()));
            }
        }
    }
}

fn header(body: &[u8], rank: u32) -> std::result::Result<Header, String> {
    let header: Header = serde_json::from_slice(body).map_err(|error| format!("the header: {error}"))?;
    if header.rank != rank {
        return Err(format!("the header is of rank {}, the file's name of rank {rank}", header.rank));
    }
    if header.topology.size() != header.ranks {
        return Err(format!("a topology of {} ranks, where there are {}", header.topology.size(), header.ranks));
    }
    Ok(header)
}

/// Which locks a rank holds, by MPI's rules.
#[derive(Default)]
struct Rules {
    all: bool,
    held: Vec<Rank>,
}

impl Rules {
    fn check(&mut self, event: Event) -> std::result::Result<(), String> {
        let target = event.target;
        let at = self.held.iter().position(|&held| held == target);
        match event.kind {
            Kind::LockAll if self.all || !self.held.is_empty() => Err("a lock_all beside a lock".to_owned()),
            Kind::LockAll => {
                self.all = true;
                Ok(())
            }
            Kind::UnlockAll if !self.all => Err("an unlock_all without a lock_all".to_owned()),
            Kind::UnlockAll => {
                self.all = false;
                Ok(())
            }
            Kind::Shared | Kind::Exclusive if self.all || at.is_some() => {
                Err(format!("a lock of {target}, which is locked already"))
            }
            Kind::Shared | Kind::Exclusive => {
                self.held.push(target);
                Ok(())
            }
            Kind::Unlock => match at {
                Some(at) => {
                    self.held.swap_remove(at);
                    Ok(())
                }
                None => Err(format!("an unlock of {target}, which is not locked")),
            },
            _ => Ok(()),
        }
    }
}

/// What a rank did; from [`Trace::steps`].
#[derive(Debug)]
pub struct Steps {
    /// `None` when there is no more.
    blocks: Option<Blocks>,
    ranks: u32,
    body: Vec<u8>,
    /// Where in the body the next event is, and how many there still are.
    at: usize,
    events: u32,
    before: Last,
    /// How many more barriers all ranks have.
    barriers: u64,
    /// The call behind the time before it.
    next: Option<Step>,
}

impl Steps {
    /// The next event, and the nanoseconds before it.
    fn event(&mut self) -> Read_<Option<(Event, u64)>> {
        let Some(blocks) = &mut self.blocks else { return Ok(None) };
        while self.events == 0 {
            match blocks.next(&mut self.body)? {
                Next::Block(head) => (self.at, self.events, self.before) = (0, head.events, Last::default()),
                Next::Over { .. } => return Ok(None),
            }
        }
        let mut left = self.body.get(self.at..).unwrap_or_default();
        let event = self.before.decode(&mut left, self.ranks).map_err(|what| blocks.damaged(what))?;
        self.at = self.body.len() - left.len();
        self.events -= 1;
        Ok(Some(event))
    }
}

impl Iterator for Steps {
    type Item = Result<Step>;

    fn next(&mut self) -> Option<Result<Step>> {
        if let Some(step) = self.next.take() {
            return Some(Ok(step));
        }
        loop {
            let (event, gap) = match self.event() {
                Ok(event) => event?,
                Err(error) => {
                    self.blocks = None;
                    return Some(Err(error.into()));
                }
            };
            let mut step = event.step();
            if step == Some(Step::Barrier) {
                match self.barriers.checked_sub(1) {
                    Some(left) => self.barriers = left,
                    None => step = None,
                }
            }
            if gap > 0 {
                self.next = step;
                return Some(Ok(Step::Compute(gap)));
            }
            if let Some(step) = step {
                return Some(Ok(step));
            }
        }
    }
}
