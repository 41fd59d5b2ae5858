//! The reader of traces.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rmalab_atomics::{Rank, Topology};

use super::TraceError;
use super::blocks::{Blocks, Next};
use super::events::Events;
use super::files::{files_of, windows_of};
use super::format::{BlockKind, Head, Header, Kind, Last, MAGIC, PREFIX, VERSION, take_varint};
use super::meetings::{Meetings, Misfit};
use super::rules::{Parts, Rules};
use super::steps::Steps;
use crate::replay::Shape;
use crate::{Flavor, Info, Result};

/// The advice for a file that ends within its header.
const AGAIN: &str = "record the program again, and let it end normally";

/// The end of a rank's trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The window was freed or dropped.
    Complete {
        /// The time from the window's making to the end of its last call.
        elapsed: Duration,
    },
    /// The file ends early: the rank was killed, or its disk was full. Its calls after the last whole block are lost.
    Early {
        /// The number of events that are known to be lost: the events of a block that ends early. There may be more.
        lost: u64,
        /// The offset of the end of the last whole block.
        offset: u64,
    },
}

/// One rank's part of a trace.
#[derive(Clone, Debug)]
pub struct RankTrace {
    path: PathBuf,
    /// The offset of the first event.
    first: u64,
    /// The offset of their end.
    end: u64,
    /// Bytes of the file.
    len: u64,
    events: u64,
    /// The number of barriers and fences.
    meetings: u64,
    ending: Ending,
}

impl RankTrace {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of its events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes of the events.
    pub fn bytes(&self) -> u64 {
        self.end - self.first
    }

    /// How it ends.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Returns the place where the file ends early, and the loss, in one line; `None` if the file is complete.
    pub fn cut(&self) -> Option<String> {
        let Ending::Early { lost, offset } = self.ending else { return None };
        let block = match lost {
            0 => "the block".to_owned(),
            lost => format!("the block of {lost} calls"),
        };
        let place = if self.len == offset {
            "before the end that freeing the window writes".to_owned()
        } else {
            format!("in the middle of {block} that begins at byte {offset}")
        };
        Some(format!(
            "{}: the file ends at byte {}, {place}, and {} whole calls are left",
            self.path.display(),
            self.len,
            self.events
        ))
    }
}

/// A trace: the calls of all ranks of a program on one window.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics, World};
/// use rmalab_windows::replay::Step;
/// use rmalab_windows::trace::Trace;
/// use rmalab_windows::{LockKind, Team, Window, WindowDisp};
///
/// let dir = tempfile::tempdir()?;
/// World::threads(2).try_run(|ra| {
///     let team = Team::new(ra)?;
///     let window = Window::builder(&team).name("table").record(dir.path()).allocate(64)?;
///     let epoch = window.lock(LockKind::Exclusive, Rank(0))?;
///     epoch.put(WindowDisp(8), &[1_u64, 2])?;
///     epoch.unlock()?;
///     window.free()
/// })?;
///
/// let trace = Trace::open(dir.path())?;
/// assert_eq!((trace.window(), trace.ranks()), ("table", 2));
/// let steps = trace.steps(Rank(1)).collect::<Result<Vec<Step>, _>>()?;
/// let calls: Vec<&Step> = steps.iter().filter(|step| !matches!(step, Step::Compute(_))).collect();
/// assert_eq!(calls[1], &Step::Put { target: Rank(0), disp: WindowDisp(8), bytes: 16 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trace {
    header: Header,
    info: Info,
    shape: Shape,
    parts: Vec<RankTrace>,
    /// The number of barriers and fences that all ranks have.
    meetings: u64,
    /// The number of common epochs of an origin and a target, where one of their files lacks some.
    matched: Arc<BTreeMap<(Rank, Rank), u64>>,
}

impl Trace {
    /// Returns a path for [`open`](Self::open) for each window in a folder of traces. Windows of one name are in the order in
    /// which the program made them. The path of a single window is returned as it is.
    ///
    /// # Errors
    ///
    /// A [`TraceError`] if the folder cannot be read or has no trace.
    pub fn windows(path: impl AsRef<Path>) -> Result<Vec<PathBuf>, TraceError> {
        windows_of(path.as_ref())
    }

    /// Opens the trace in a folder, or `FOLDER/WINDOW` where the folder has several. Reads and checks all of it.
    ///
    /// # Errors
    ///
    /// A [`TraceError`] for files that are missing, do not agree or are damaged, and for calls that do not fit each other.
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, TraceError> {
        let path = path.as_ref();
        let files = files_of(path)?;
        let headers = (0..).zip(&files).map(|(rank, file)| open_file(file, rank)).collect::<Result<Vec<_>, _>>()?;
        let (Some((header, _)), Some(file)) = (headers.first(), files.first()) else {
            return Err(TraceError::set(path, "there is no trace here"));
        };
        if header.ranks as usize != files.len() {
            return Err(miscounted(path, file, header.ranks, files.len()));
        }
        for ((own, _), own_file) in headers.iter().zip(&files) {
            let differs = [
                ("ranks", own.ranks == header.ranks),
                ("topology", own.topology == header.topology),
                ("window", own.window == header.window),
                ("flavor", own.flavor == header.flavor),
                ("info", own.info == header.info),
                ("clock", own.clock == header.clock),
            ];
            if let Some((what, _)) = differs.into_iter().find(|&(_, same)| !same) {
                let what = format!(
                    "the {what} differs from the one in {}; the files are of different programs",
                    file.display()
                );
                return Err(TraceError::set(own_file, what));
            }
        }
        let damaged = |what: String| TraceError::damaged(file, PREFIX, what);
        let info = header.info.parse().map_err(|error| damaged(format!("{error}")))?;
        let flavor = [Flavor::Create, Flavor::Allocate, Flavor::Shared, Flavor::Dynamic]
            .into_iter()
            .find(|flavor| flavor.to_string() == header.flavor)
            .ok_or_else(|| damaged(format!("the header: there is no window of flavor {:?}", header.flavor)))?;
        let sizes: Parts =
            (flavor != Flavor::Dynamic).then(|| headers.iter().map(|(own, _)| (own.bytes, own.unit)).collect());
        let mut meetings = Meetings::default();
        let (mut parts, mut regions) = (Vec::new(), Vec::new());
        for ((rank, file), (_, first)) in (0..).map(Rank).zip(&files).zip(&headers) {
            let (part, own) = scan(file, rank, (*first, header.ranks), &sizes, &mut meetings)?;
            parts.push(part);
            regions.push(own);
        }
        let early = |rank: Rank| matches!(parts[rank.index()].ending, Ending::Early { .. });
        let matched = meetings.matched(early).map_err(|misfit| misfit_error(&parts, header.ranks, misfit))?;
        let shape = match sizes {
            Some(sizes) => Shape::fixed(flavor, sizes),
            None => Shape::dynamic(regions),
        };
        let header = header.clone();
        Ok(Trace { header, info, shape, parts, meetings: meetings.common(), matched: Arc::new(matched) })
    }

    /// Returns the number of ranks of the window.
    pub fn ranks(&self) -> u32 {
        self.header.ranks
    }

    /// Returns the topology of the ranks.
    pub fn topology(&self) -> &Topology {
        &self.header.topology
    }

    /// Returns the window's name, which is empty if it had none when it was made.
    pub fn window(&self) -> &str {
        &self.header.window
    }

    /// Returns the window's hints, including the lock policy of the recorded run.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the window's memory.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the clock of the times.
    pub fn clock(&self) -> &str {
        &self.header.clock
    }

    /// Returns the properties of each rank's file.
    pub fn parts(&self) -> &[RankTrace] {
        &self.parts
    }

    /// Returns the number of events of all ranks.
    pub fn events(&self) -> u64 {
        self.parts.iter().map(RankTrace::events).sum()
    }

    /// Returns remarks for the user of the trace, one line each: files that end early, and calls that a replay leaves
    /// out.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for part in &self.parts {
            let path = part.path.display();
            remarks.extend(part.cut());
            if part.meetings > self.meetings {
                let more = part.meetings - self.meetings;
                remarks
                    .push(format!("{path}: {more} barriers or fences that not all ranks have are left out of replays"));
            }
        }
        for (&(origin, target), common) in &*self.matched {
            remarks.push(format!(
                "{}: of the epochs of post and start of {origin} with {target}, only the first {common} are in both files; \
                 the others are left out of replays",
                self.parts[origin.index()].path.display()
            ));
        }
        remarks
    }

    /// Returns the steps of `rank`, which are read on demand: its calls, and the time between them as
    /// [`Step::Compute`].
    ///
    /// If some files end early, the steps that other ranks lack are left out, so that a replay ends. These are barriers
    /// that not all ranks have, and everything from the first such fence on. Ranks of a group without an epoch for it
    /// are left out, too, with the operations on them. Tests that found an epoch open are left out, too.
    ///
    /// If the file has changed since it was opened, the last item is an error. A rank that does not exist has no steps.
    ///
    /// [`Step::Compute`]: crate::replay::Step::Compute
    pub fn steps(&self, rank: Rank) -> Steps {
        let events = self.parts.get(rank.index()).map(|part| part.read(self.header.ranks));
        Steps::new(events, rank, self.meetings, Arc::clone(&self.matched))
    }
}

impl RankTrace {
    fn read(&self, ranks: u32) -> Events {
        Events::new(Blocks::new(&self.path, self.first, self.end), ranks)
    }
}

/// Returns the error of a trace with files of more or fewer ranks than the program had. `first` is rank 0's file.
fn miscounted(path: &Path, first: &Path, ranks: u32, there: usize) -> TraceError {
    let what = if there < ranks as usize {
        let name =
            first.file_name().unwrap_or_default().to_string_lossy().replace("-rank-0.", &format!("-rank-{there}."));
        format!("{name} is missing; copy the files of all ranks into one folder, or record the program again")
    } else {
        "the files are of different programs".to_owned()
    };
    TraceError::set(
        path,
        format!("files of {there} rank{}, but the program had {ranks}: {what}", if there == 1 { "" } else { "s" }),
    )
}

/// Reads a file's header, and returns the offset of the first event.
fn open_file(path: &Path, rank: u32) -> Result<(Header, u64), TraceError> {
    let failed = |error| TraceError::io(path, "reading a trace", error);
    let mut file = File::open(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    let mut prefix = [0; PREFIX as usize];
    if len < PREFIX {
        let what = match len {
            0 => "the file is empty".to_owned(),
            len => format!("the file ends at byte {len}, in the middle of the format's name and version"),
        };
        return Err(TraceError::damaged(path, 0, format!("{what}; {AGAIN}")));
    }
    file.read_exact(&mut prefix).map_err(failed)?;
    let (magic, version) = prefix.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(TraceError::damaged(path, 0, "this is not a trace: its first bytes differ from a trace's"));
    }
    if version != VERSION.to_le_bytes() {
        let version = version.iter().rev().fold(0u32, |sum, &byte| sum << 8 | u32::from(byte));
        let what = if version < VERSION {
            format!(
                "version {version} of the format, which lacks data that a replay needs; this program reads version {VERSION}: \
                 record the program again"
            )
        } else {
            format!("version {version} of the format; this program reads version {VERSION}: use the newer program")
        };
        return Err(TraceError::damaged(path, MAGIC.len() as u64, what));
    }
    let mut blocks = Blocks::new(path, PREFIX, len);
    let mut body = Vec::new();
    match blocks.next(&mut body)? {
        Next::Block(Head { kind: BlockKind::Header, .. }) => {
            let header = header(&body, rank).map_err(|what| TraceError::damaged(path, PREFIX, what))?;
            Ok((header, blocks.at))
        }
        Next::Block(_) => Err(TraceError::damaged(path, PREFIX, "the first block is not a header")),
        Next::Over { .. } => {
            let what = format!("the file ends at byte {len}, in the middle of its header; {AGAIN}");
            Err(TraceError::damaged(path, PREFIX, what))
        }
    }
}

/// Memory that was attached to a dynamic window: first address, bytes.
type Regions = Vec<(i64, u64)>;

/// Reads the events of a file from `first` on, and checks them.
fn scan(
    path: &Path,
    rank: Rank,
    (first, ranks): (u64, u32),
    sizes: &Parts,
    meetings: &mut Meetings,
) -> Result<(RankTrace, Regions), TraceError> {
    let failed = |error| TraceError::io(path, "reading a trace", error);
    let len = std::fs::metadata(path).map_err(failed)?.len();
    let mut blocks = Blocks::new(path, first, len);
    let mut body = Vec::new();
    let mut part = RankTrace {
        path: path.to_owned(),
        first,
        end: first,
        len,
        events: 0,
        meetings: 0,
        ending: Ending::Early { lost: 0, offset: first },
    };
    let mut rules = Rules::default();
    loop {
        let start = blocks.at;
        let damaged = |what| TraceError::damaged(path, start, what);
        match blocks.next(&mut body)? {
            Next::Over { lost } => {
                part.ending = Ending::Early { lost, offset: start };
                break;
            }
            Next::Block(Head { kind: BlockKind::Events, events, .. }) => {
                let (mut left, mut before) = (&body[..], Last::default());
                for _ in 0..events {
                    let (event, _) = before.decode(&mut left, ranks).map_err(damaged)?;
                    part.events += 1;
                    let fits = rules.check(event, || before.group(), sizes);
                    let fits = fits.and_then(|()| meetings.check(rank, event, || before.group()));
                    fits.map_err(|what| TraceError::epochs(path, rank, part.events, what))?;
                }
                if !left.is_empty() {
                    return Err(damaged(format!("{} bytes follow the {events} events of the block", left.len())));
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
                    return Err(damaged(format!("the end states {events} events, but the file has {}", part.events)));
                }
                if blocks.at != len {
                    return Err(damaged(format!("{} bytes follow the end", len - blocks.at)));
                }
                part.ending = Ending::Complete { elapsed: Duration::from_nanos(elapsed) };
                break;
            }
            Next::Block(Head { kind: BlockKind::Header, .. }) => {
                return Err(damaged("a second header".to_owned()));
            }
        }
    }
    part.meetings = meetings.end_rank();
    Ok((part, rules.regions))
}

fn header(body: &[u8], rank: u32) -> std::result::Result<Header, String> {
    let header: Header = serde_json::from_slice(body).map_err(|error| format!("the header: {error}"))?;
    if header.rank != rank {
        return Err(format!("the header is of rank {}, but the file's name is of rank {rank}", header.rank));
    }
    if header.topology.size() != header.ranks {
        return Err(format!("a topology of {} ranks, but there are {}", header.topology.size(), header.ranks));
    }
    if header.unit == 0 {
        return Err("the header: a unit of displacement of 0 bytes".to_owned());
    }
    Ok(header)
}

/// Looks for the event that does not fit, and reports it.
fn misfit_error(parts: &[RankTrace], ranks: u32, misfit: Misfit) -> TraceError {
    let Misfit { rank, kind, partner, after } = misfit;
    let other = if kind == Kind::Start { Kind::Post } else { Kind::Start };
    let epochs = |rank: Rank, kind: Kind, partner: Rank| {
        let mut events = parts[rank.index()].read(ranks);
        let mut number = 0;
        std::iter::from_fn(move || {
            loop {
                // The file was read before without an error.
                let (event, _) = events.next().ok().flatten()?;
                number += 1;
                if event.kind == kind && events.group().contains(&partner) {
                    return Some((number, event.asserts & 1 != 0));
                }
            }
        })
    };
    let mut own = epochs(rank, kind, partner);
    let name = |kind| if kind == Kind::Start { "start" } else { "post" };
    let (event, what) = match after {
        Some(after) => (
            own.nth(after as usize).map_or(0, |(event, _)| event),
            format!("a {} with {partner} in its group, for which {partner} has no {}", name(kind), name(other)),
        ),
        None => (
            own.zip(epochs(partner, other, rank)).find(|(own, other)| own.1 != other.1).map_or(0, |(own, _)| own.0),
            format!(
                "a {} that asserts nocheck and a {} of {partner} that does not, or the reverse",
                name(kind),
                name(other)
            ),
        ),
    };
    TraceError::epochs(&parts[rank.index()].path, rank, event, what)
}
