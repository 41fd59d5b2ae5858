//! The recorder of one rank's part of a window.

use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rmalab_atomics::{Rank, RemoteAtomics, Time, Topology};

use super::TraceError;
use super::format::{BlockKind, Head, Header, Last, MAGIC, VERSION, push_varint};
pub(crate) use super::format::{Event, Kind};
use super::steps::event_of;
use crate::replay::Step;
use crate::{Error, Flavor, Info, Result, Team};

/// A block of this many bytes is written as soon as no lock is held.
const FULL: usize = 4 << 10;
/// A block of this many bytes is written even if a lock is held.
const FULL_AND_LOCKED: usize = 16 << 10;
/// A block this many nanoseconds old is written as soon as no lock is held.
const OLD: u64 = 1_000_000_000;

/// The longest part of a window's name in a file's name.
const MAX_STEM: usize = 64;

/// Writes a rank's calls on a window to a file.
///
/// Each recorded [`Window`](crate::Window) has its own recorder. A library that calls windows of another library, such as an MPI, makes a
/// recorder for each window and [`record`](Self::record)s its calls.
///
/// ```
/// use rmalab_atomics::{Rank, Time, Topology};
/// use rmalab_windows::replay::Step;
/// use rmalab_windows::trace::{Description, Recorder, Trace};
/// use rmalab_windows::{Assert, Error, Flavor, Info};
///
/// let dir = tempfile::tempdir()?;
/// let what = Description {
///     rank: Rank(0),
///     topology: Topology::one_node(1),
///     window: "table".to_owned(),
///     flavor: Flavor::Allocate,
///     bytes: 64,
///     unit: 8,
///     info: Info::new(),
///     clock: "nanoseconds of an example".to_owned(),
/// };
/// // One rank has nothing to exchange.
/// let recorder = Recorder::new::<Error>(dir.path(), &what, || Time(100), Ok, |number| Ok(vec![number]))?;
/// let (lock, unlock) = (Step::LockAll { assert: Assert::None }, Step::UnlockAll);
/// recorder.record(&lock, Time(150), || Time(160)); // 50 ns after the window was made
/// recorder.record(&unlock, Time(160), || Time(170));
/// recorder.finish()?;
///
/// let steps = Trace::open(dir.path())?.steps(Rank(0)).collect::<Result<Vec<Step>, _>>()?;
/// assert_eq!(steps, [Step::Compute(50), lock, unlock]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    state: RefCell<RecorderState>,
    /// The transfer under way, and the time at which it began.
    transfer: Cell<Option<(Event, Time)>>,
}

#[derive(Debug)]
struct RecorderState {
    file: File,
    /// The events that were not written yet.
    body: Vec<u8>,
    /// The number of these events.
    events: u32,
    /// The time at which the first of them was recorded.
    since: u64,
    before: Last,
    /// The number of all events.
    all: u64,
    /// The number of locks that are held.
    held: u32,
    /// The time at which the recording began.
    began: u64,
    /// The time at which the last call ended.
    ended: u64,
    /// The first error of the file. Nothing is recorded after it.
    failed: Option<io::Error>,
    /// True if the end was written.
    done: bool,
}

/// A window and one rank's part of it, as the header of its trace describes them.
#[derive(Clone, PartialEq, Debug)]
pub struct Description {
    /// This rank.
    pub rank: Rank,
    /// The places of all ranks.
    pub topology: Topology,
    /// The window's name; empty if it has none.
    pub window: String,
    /// The flavor of the window.
    pub flavor: Flavor,
    /// Bytes of the rank's part; 0 if the window is dynamic.
    pub bytes: u64,
    /// Bytes of the displacement unit of that part.
    pub unit: u32,
    /// The window's hints. Windows of an MPI have the hint `rmalab_mode`. Their `rmalab_lock_policy` is the policy of the recorded
    /// run, if this library had its locks.
    pub info: Info,
    /// The name of the clock of the times.
    pub clock: String,
}

/// A rank's part of a window of this crate.
#[derive(Clone, Copy)]
pub(crate) struct RecordedPart {
    pub(crate) flavor: Flavor,
    pub(crate) bytes: u64,
    pub(crate) unit: u32,
}

/// A call under way.
pub(crate) struct Started<'r> {
    recorder: &'r Recorder,
    at: Time,
}

impl Recorder {
    /// Makes the recorder of a window of the team.
    pub(crate) fn of_team<A: RemoteAtomics + ?Sized>(
        team: &Team<'_, A>,
        dir: &Path,
        window: &str,
        info: Info,
        part: RecordedPart,
    ) -> Result<Recorder> {
        let ra = team.ra();
        let what = Description {
            rank: ra.rank(),
            topology: ra.topology().clone(),
            window: window.to_owned(),
            flavor: part.flavor,
            bytes: part.bytes,
            unit: part.unit,
            info,
            clock: format!("nanoseconds of {}", ra.capabilities().backend),
        };
        let of_first = |number| {
            let mut number = [number];
            team.collectives().broadcast(Rank(0), &mut number)?;
            Ok(number[0])
        };
        let of_all = |number| Ok(team.collectives().allgather(&[number])?);
        Recorder::new::<Error>(dir, &what, || ra.now(), of_first, of_all)
    }

    /// Makes the file of this rank in `dir`, with its header. The recording begins at the time that `now` returns, once the files are
    /// made.
    ///
    /// Collective: the ranks agree on the file's name, and on whether all of them have their files. If a rank has no file, all files
    /// are removed. `of_first` returns rank 0's number to all ranks, and `of_all` the numbers of all ranks. Each is called once, in
    /// this order.
    ///
    /// # Errors
    ///
    /// [`Error::Trace`] at the first rank that cannot make its file, [`Error::NotMade`] with this rank at all others, and the errors of
    /// the two functions.
    pub fn new<E: From<Error>>(
        dir: &Path,
        what: &Description,
        now: impl FnOnce() -> Time,
        of_first: impl FnOnce(u64) -> Result<u64, E>,
        of_all: impl FnOnce(u64) -> Result<Vec<u64>, E>,
    ) -> Result<Recorder, E> {
        let (stem, rank) = (stem(&what.window), what.rank);
        let header = Header {
            ranks: what.topology.size(),
            rank: rank.0,
            topology: what.topology.clone(),
            window: what.window.clone(),
            flavor: what.flavor.to_string(),
            bytes: what.bytes,
            unit: what.unit,
            info: what.info.to_string(),
            clock: what.clock.clone(),
        };
        // Rank 0 finds a free name and takes it. The value 0 shows that it could not.
        let mut number = 0;
        let mut made = None;
        if rank == Rank(0) {
            let (found, result) = claim(dir, &stem);
            number = if result.is_ok() { found } else { 0 };
            made = Some(result);
        }
        number = of_first(number)?;
        if rank != Rank(0) && number != 0 {
            made = Some(create(dir, file_name(&stem, number, rank)));
        }
        let made = made.map(|made| {
            made.and_then(|(path, file)| {
                write_header(&file, &header).map_err(|error| {
                    // A file without a header must not look like a trace.
                    let _ = std::fs::remove_file(&path);
                    TraceError::io(&path, "writing the trace", error)
                })?;
                Ok((path, file))
            })
        });
        let all = of_all(u64::from(matches!(made, Some(Ok(_)))))?;
        let missing = (0..).zip(&all).find(|&(_, &made)| made == 0).map(|(rank, _)| Rank(rank));
        match (made, missing) {
            (Some(Ok((path, file))), None) => {
                let now = now();
                let state = RecorderState {
                    file,
                    body: Vec::with_capacity(FULL_AND_LOCKED + 32),
                    events: 0,
                    since: now.0,
                    before: Last::default(),
                    all: 0,
                    held: 0,
                    began: now.0,
                    ended: now.0,
                    failed: None,
                    done: false,
                };
                Ok(Recorder { path, state: RefCell::new(state), transfer: Cell::new(None) })
            }
            (Some(Ok((path, _))), Some(rank)) => {
                // The error below is the error to report.
                let _ = std::fs::remove_file(path);
                Err(Error::NotMade { rank }.into())
            }
            (Some(Err(error)), Some(first)) if first == rank => Err(Error::from(error).into()),
            (_, missing) => Err(Error::NotMade { rank: missing.unwrap_or(Rank(0)) }.into()),
        }
    }

    /// Records a call that began at `began` and has ended, without error. A computation is not a call, and is not
    /// recorded.
    ///
    /// `now` is called once the call is written, since the recorder's own time does not count as time between calls.
    pub fn record(&self, step: &Step, began: Time, now: impl FnOnce() -> Time) {
        if let Some((event, group)) = event_of(step) {
            self.write(event, group, began, now);
        }
    }

    /// Records an attach of memory to a dynamic window, or a detach, like [`record`](Self::record). `bytes` is `None` for a detach.
    pub fn record_region(&self, address: u64, bytes: Option<u64>, began: Time, now: impl FnOnce() -> Time) {
        let kind = if bytes.is_some() { Kind::Attach } else { Kind::Detach };
        let event = Event::of(kind).moving(address as i64, bytes.unwrap_or(0));
        self.write(event, &[], began, now);
    }

    #[inline]
    fn write(&self, event: Event, group: &[Rank], began: Time, now: impl FnOnce() -> Time) {
        let mut state = self.state.borrow_mut();
        if state.failed.is_some() || state.done {
            return;
        }
        let RecorderState { body, before, ended, .. } = &mut *state;
        before.encode(body, event, group, began.0.saturating_sub(*ended));
        if state.events == 0 {
            state.since = began.0;
        }
        state.events += 1;
        match event.kind {
            Kind::LockAll | Kind::Shared | Kind::Exclusive => state.held += 1,
            Kind::Unlock | Kind::UnlockAll => state.held = state.held.saturating_sub(1),
            _ => {}
        }
        let len = state.body.len();
        let ripe = len >= FULL || began.0.saturating_sub(state.since) >= OLD;
        if len >= FULL_AND_LOCKED || ripe && state.held == 0 {
            state.write();
        }
        state.ended = now().0;
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Begins a call.
    #[cold]
    #[inline(never)]
    pub(crate) fn start<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Started<'_> {
        Started { recorder: self, at: ra.now() }
    }

    /// Begins a transfer.
    pub(crate) fn begin_transfer<A: RemoteAtomics + ?Sized>(&self, ra: &A, event: Event) {
        self.transfer.set(Some((event, ra.now())));
    }

    /// Ends the transfer that has begun, without error.
    pub(crate) fn end_transfer<A: RemoteAtomics + ?Sized>(&self, ra: &A) {
        if let Some((event, at)) = self.transfer.take() {
            Started { recorder: self, at }.end(ra, event, &[]);
        }
    }

    /// Writes the remaining events and the end, once. Nothing is recorded after it.
    ///
    /// # Errors
    ///
    /// [`Error::Trace`] if the file could not be written, now or before. The trace then ends early.
    pub fn finish(&self) -> Result<()> {
        let mut state = self.state.borrow_mut();
        if state.done {
            return Ok(());
        }
        state.write();
        let mut body = Vec::new();
        push_varint(&mut body, state.all);
        push_varint(&mut body, state.ended.saturating_sub(state.began));
        state.append(&Head::block(BlockKind::End, 0, &body));
        state.done = true;
        match state.failed.take() {
            None => Ok(()),
            Some(error) => Err(TraceError::io(&self.path, "writing the trace, which ends early", error).into()),
        }
    }
}

impl Drop for Recorder {
    /// Writes the remaining events if the window was not freed, and the end unless the thread panics.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.state.get_mut().write();
        } else {
            // No caller is left to take the error.
            let _ = self.finish();
        }
    }
}

impl Started<'_> {
    /// Ends the call, without error. `group` is the group of a post or a start, otherwise empty.
    #[cold]
    #[inline(never)]
    pub(crate) fn end<A: RemoteAtomics + ?Sized>(self, ra: &A, event: Event, group: &[Rank]) {
        self.recorder.write(event, group, self.at, || ra.now());
    }
}

impl RecorderState {
    /// Writes the block.
    fn write(&mut self) {
        if self.events > 0 {
            let block = Head::block(BlockKind::Events, self.events, &self.body);
            self.append(&block);
            self.all += u64::from(self.events);
            self.events = 0;
            self.body.clear();
            self.before = Last::default();
        }
    }

    fn append(&mut self, block: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(block).err();
        }
    }
}

/// Returns the window's name as the start of a file's name.
fn stem(window: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let stem: String = window.chars().map(plain).take(MAX_STEM).collect();
    if stem.is_empty() { "window".to_owned() } else { stem }
}

fn file_name(stem: &str, number: u64, rank: Rank) -> String {
    match number {
        1 => format!("{stem}-rank-{}.trace", rank.0),
        number => format!("{stem}-{number}-rank-{}.trace", rank.0),
    }
}

/// Makes the file of rank 0 under the first free number.
fn claim(dir: &Path, stem: &str) -> (u64, Result<(PathBuf, File), TraceError>) {
    let mut number = 1;
    loop {
        match create(dir, file_name(stem, number, Rank(0))) {
            Err(TraceError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => number += 1,
            result => return (number, result),
        }
    }
}

fn create(dir: &Path, name: String) -> Result<(PathBuf, File), TraceError> {
    if !dir.is_dir() {
        std::fs::create_dir_all(dir).map_err(|error| TraceError::Io {
            path: dir.to_owned(),
            doing: "making the folder of the trace",
            // If a file has the folder's name, the system returns `AlreadyExists`, which `claim` would take for a
            // trace.
            source: io::Error::other(error),
        })?;
    }
    let path = dir.join(name);
    match OpenOptions::new().append(true).create_new(true).open(&path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(TraceError::io(&path, "making the trace", error)),
    }
}

fn write_header(mut file: &File, header: &Header) -> io::Result<()> {
    let json = serde_json::to_vec(header)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(Head::block(BlockKind::Header, 0, &json));
    file.write_all(&bytes)
}
