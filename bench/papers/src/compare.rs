//! Compares our windows and locks with MPIs and other locks, in one interleaved run.
//!
//! Each repetition runs every implementation once, one after the other. The first one changes from repetition to
//! repetition. So other load on the machine affects all of them. Results are medians over the repetitions. A
//! [journal](Journal) keeps all measurements, so that a stopped run can resume.

mod batches;
mod document;
pub(crate) mod locks;
mod operations;
pub(crate) mod ours;
mod peers;
mod summary;

use std::collections::HashMap;
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use locks::{Group, Lock, locks};
use operations::Worlds;
pub use operations::{OPERATIONS, Operation, named};
pub use peers::{Peer, Preload, Took};
pub use summary::{Summary, slow_build};

use crate::reproduce::Journal;
use rmalab_job::{self as job, Ranks};
use rmalab_job::{Error, Result};
use rmalab_report::Machine;

/// The numbers of ranks for windows. Only the first one has a core for each rank on small machines.
pub const RANKS: [u32; 3] = [2, 4, 8];

/// The numbers of threads for locks.
pub const THREADS: [u32; 3] = [1, 2, 8];

/// The shares of writers, in percent.
pub const WRITERS: [u32; 4] = [0, 10, 50, 100];

/// Factor on the budget with more ranks than cores, since a turn of a rank then takes milliseconds.
const CROWDED: f64 = 5.0;

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct Options {
    /// Operations of windows.
    pub operations: Vec<Operation>,
    /// Numbers of ranks of windows, of [`RANKS`].
    pub ranks: Vec<u32>,
    /// True if locks are compared.
    pub locks: bool,
    /// The number of repetitions.
    pub repetitions: u32,
    /// Duration of each operation and each lock in a repetition.
    pub budget: Duration,
    /// The libraries that programs of an MPI preload, at most one for each MPI.
    pub preloads: Vec<Preload>,
}

impl Options {
    /// The least duration of a measurement.
    pub const LEAST_BUDGET: Duration = Duration::from_millis(1);

    fn budget_ns(&self, ranks: u32) -> f64 {
        let crowded = ranks as usize > cores();
        self.budget.as_nanos() as f64 * if crowded { CROWDED } else { 1.0 }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The other implementations on this machine; dropping this value removes their programs.
#[derive(Debug)]
pub struct Peers {
    mpis: Vec<Peer>,
    kit: Option<Peer>,
    /// A sentence for each missing one, with a remedy.
    pub skipped: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Peers {
    /// Searches for the implementations that the options need, and builds their programs.
    ///
    /// # Errors
    ///
    /// [`Error::File`] when temporary files are impossible, [`Error::Interrupted`]. A missing or faulty implementation is no
    /// error: it is [skipped](Self::skipped).
    pub fn find(options: &Options, stop: &AtomicBool) -> Result<Peers> {
        let folder = tempfile::tempdir().map_err(|source| Error::File { path: env::temp_dir(), source })?;
        let path = env::var_os("PATH").unwrap_or_default();
        let mut peers = Peers { mpis: Vec::new(), kit: None, skipped: Vec::new(), _folder: folder };
        if !options.operations.is_empty() {
            let found = peers::mpis(&path, peers._folder.path(), &options.preloads, stop)?;
            peers.mpis = found.peers;
            peers.skipped.extend(found.skipped);
        }
        if options.locks {
            let mut found = peers::concurrency_kit(&path, peers._folder.path(), stop)?;
            peers.kit = found.peers.pop();
            peers.skipped.extend(found.skipped);
        }
        Ok(peers)
    }

    /// The implementations found.
    pub fn found(&self) -> impl Iterator<Item = &Peer> {
        self.mpis.iter().chain(&self.kit)
    }

    /// The data on which results depend besides the options, in a line.
    pub fn versions(&self) -> String {
        self.found().map(|peer| format!("{} {}", peer.name, peer.version)).collect::<Vec<_>>().join(", ")
    }
}

/// The subject of a measurement.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// An operation of a window, with a number of ranks.
    Operation {
        /// Its name.
        name: String,
        /// The number of ranks.
        ranks: u32,
    },
    /// A lock, with a number of threads.
    Lock {
        /// The number of threads.
        threads: u32,
        /// The percentage of writers among acquisitions.
        writers: u32,
    },
}

/// The times of one implementation for one subject, in all repetitions.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// The subject.
    pub what: What,
    /// The implementation.
    pub who: String,
    /// Nanoseconds, in the order of the repetitions.
    pub ns: Vec<f64>,
    /// The error, if it failed.
    pub failures: Vec<String>,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command of the run, and whether all repetitions were made.
    pub run: rmalab_report::Run,
    /// The number of repetitions.
    pub repetitions: u32,
    /// The machine.
    pub machine: Machine,
    /// The round trip of a cache line between the first and the last core, in nanoseconds, ahead of each repetition.
    pub ping_pong_ns: Vec<f64>,
    /// The other implementations, with their versions; locks of crates have the versions of this program's build.
    pub peers: Vec<Peer>,
    /// A sentence for each missing one.
    pub skipped: Vec<String>,
    /// All measurements.
    pub cells: Vec<Cell>,
    /// The summary of the measurements.
    pub summary: Summary,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The number of completed steps.
    pub done: usize,
    /// All steps.
    pub of: usize,
    /// The step under way.
    pub what: &'a str,
    /// The remaining time, from completed steps; a guess for the others.
    pub left: Duration,
}

/// The name of our implementation.
pub const OURS: &str = "rmalab";

/// A part of a repetition: one implementation, one number of ranks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Step {
    PingPong,
    /// The operations of one implementation; ours is the first, MPIs follow.
    Operations {
        who: usize,
        ranks: u32,
    },
    Locks {
        group: Group,
        threads: u32,
        writers: u32,
    },
}

impl Step {
    /// A guess of the duration in seconds, ahead of the first measurement.
    fn guess(&self, budget: f64) -> f64 {
        match self {
            Step::PingPong => 0.1,
            // Starts take about a second; MPICH's ranks wait a scheduler's turn for each other.
            Step::Operations { ranks: 2, .. } => 1.0 + 40.0 * budget,
            Step::Operations { who, ranks } => 1.0 + 60.0 * budget + if *who == 1 { f64::from(*ranks) } else { 0.0 },
            Step::Locks { threads, .. } => 12.0 * budget * if *threads > 2 { CROWDED } else { 1.0 },
        }
    }
}

/// A run.
struct Run<'a> {
    options: &'a Options,
    peers: &'a Peers,
    stop: &'a AtomicBool,
}

/// The rows of a step, by name.
type Rows = Vec<(String, Took)>;

impl Run<'_> {
    /// The steps of a repetition, in its order.
    fn steps(&self, repetition: u32) -> Vec<Step> {
        let mut steps = vec![Step::PingPong];
        let turn = |count: usize| (0..count).map(move |place| (place + repetition as usize) % count);
        for &ranks in &self.options.ranks {
            if self.operations(ranks).next().is_some() {
                steps.extend(turn(1 + self.peers.mpis.len()).map(|who| Step::Operations { who, ranks }));
            }
        }
        if self.options.locks {
            let mut all = vec![Group::Ours, Group::Rust];
            all.extend(self.peers.kit.is_some().then_some(Group::C));
            for threads in THREADS {
                for writers in WRITERS {
                    steps.extend(turn(all.len()).map(|who| Step::Locks { group: all[who], threads, writers }));
                }
            }
        }
        steps
    }

    /// The operations for that many ranks.
    fn operations(&self, ranks: u32) -> impl Iterator<Item = &Operation> {
        self.options.operations.iter().filter(move |operation| operation.has(ranks))
    }

    fn who(&self, step: &Step) -> &str {
        match step {
            Step::PingPong => "cache line",
            Step::Operations { who: 0, .. } | Step::Locks { group: Group::Ours, .. } => OURS,
            Step::Operations { who, .. } => &self.peers.mpis[who - 1].name,
            Step::Locks { group: Group::Rust, .. } => "locks of crates",
            Step::Locks { group: Group::C, .. } => self.peers.kit.as_ref().map_or("", |kit| &kit.name),
        }
    }

    fn describe(&self, step: &Step) -> String {
        let who = self.who(step);
        match step {
            Step::PingPong => who.to_owned(),
            Step::Operations { ranks, .. } => format!("{who}, {ranks} ranks"),
            Step::Locks { threads, writers, .. } => {
                format!("{who}, {threads} thread{}, {writers} % writers", if *threads == 1 { "" } else { "s" })
            }
        }
    }

    /// The data on which the result of a step depends.
    fn key(&self, step: &Step, repetition: u32) -> String {
        let names = self.names(step).join(",");
        format!("{repetition}: {}: {names}: {} ns", self.describe(step), self.options.budget.as_nanos())
    }

    fn names(&self, step: &Step) -> Vec<String> {
        match *step {
            Step::PingPong => Vec::new(),
            Step::Operations { ranks, .. } => self.operations(ranks).map(|one| one.name.to_owned()).collect(),
            Step::Locks { group, writers, .. } => locks::of(group, writers).map(|one| one.name.to_owned()).collect(),
        }
    }

    fn take(&self, step: &Step) -> Result<Rows> {
        let names = self.names(step);
        let took = match *step {
            Step::PingPong => {
                let time = rmalab_report::machine::ping_pong();
                return Ok(time.map(|time| ("ping-pong".to_owned(), Took::Time(time))).into_iter().collect());
            }
            Step::Operations { who: 0, ranks } => {
                let job = ours::Operations { names: names.clone(), budget: self.options.budget_ns(ranks) };
                let ran = job::run(&job, &Ranks::processes(ranks), self.stop)?;
                ran.ranks.into_iter().next().unwrap_or_default().into_iter().map(Took::Time).collect()
            }
            Step::Operations { who, ranks } => {
                let budget = self.options.budget_ns(ranks);
                self.peers.mpis[who - 1].measure_operations(ranks, budget, &names, self.stop)?
            }
            Step::Locks { group: Group::C, threads, writers } => match &self.peers.kit {
                Some(kit) => kit.measure_locks(threads, writers, self.options.budget_ns(threads), &names, self.stop)?,
                None => Vec::new(),
            },
            Step::Locks { group, threads, writers } => {
                let budget = self.options.budget_ns(threads);
                names.iter().map(|name| self.lock(group, name, threads, writers, budget)).collect::<Result<_>>()?
            }
        };
        Ok(names.into_iter().zip(took).collect())
    }

    fn lock(&self, group: Group, name: &str, threads: u32, writers: u32, budget: f64) -> Result<Took> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if group == Group::Rust {
            return locks::theirs(name, threads, writers, budget).map(Took::Time);
        }
        let job = locks::LocalLock { lock: name.to_owned(), writers, budget };
        let ran = job::run(&job, &Ranks::threads(threads), self.stop)?;
        Ok(Took::Time(ran.ranks.into_iter().next().unwrap_or_default()))
    }

    /// The subject and the implementation of each row of a step.
    fn place(&self, step: &Step, name: String) -> Option<(What, String)> {
        Some(match *step {
            Step::PingPong => return None,
            Step::Operations { ranks, .. } => (What::Operation { name, ranks }, self.who(step).to_owned()),
            Step::Locks { threads, writers, .. } => (What::Lock { threads, writers }, name),
        })
    }
}

/// Runs the comparison; after an interrupt, returns the measurements made so far.
///
/// # Errors
///
/// Errors of our ranks, [`Error::Ranks`] when our memory is wrong at the end, and errors of the journal. The outcome has
/// the errors of other implementations.
pub fn run(
    options: &Options,
    peers: &Peers,
    stop: &AtomicBool,
    mut journal: Option<&mut Journal>,
    report: impl Fn(&Progress<'_>),
) -> Result<Outcome> {
    let mut begun = rmalab_report::Run::begin();
    let machine = Machine::describe();
    let run = Run { options, peers, stop };
    let steps: Vec<(u32, Step)> = (0..options.repetitions)
        .flat_map(|repetition| run.steps(repetition).into_iter().map(move |step| (repetition, step)))
        .collect();
    let mut pace = Pace { took: HashMap::new(), budget: options.budget.as_secs_f64() };
    let (mut cells, mut places, mut ping_pong_ns) = (Vec::<Cell>::new(), HashMap::new(), Vec::new());
    for (done, (repetition, step)) in steps.iter().enumerate() {
        let key = run.key(step, *repetition);
        let kept = journal.as_ref().and_then(|journal| journal.value(&key).cloned());
        let rows: Rows = match kept.and_then(|kept| serde_json::from_value(kept).ok()) {
            Some(rows) => rows,
            None => {
                let left = steps[done..].iter().map(|(_, step)| pace.of(step)).sum();
                let what = format!("{}, repetition {}", run.describe(step), repetition + 1);
                report(&Progress { done, of: steps.len(), what: &what, left: Duration::from_secs_f64(left) });
                let begin = Instant::now();
                let rows = match run.take(step) {
                    _ if stop.load(Ordering::Relaxed) => Err(Error::Interrupted),
                    rows => rows,
                };
                let rows = match rows {
                    Err(Error::Interrupted) => {
                        begun.complete = false;
                        break;
                    }
                    rows => rows?,
                };
                pace.took.insert(step.clone(), begin.elapsed().as_secs_f64());
                if let Some(journal) = &mut journal {
                    journal.put(&key, serde_json::to_value(&rows).expect("rows are JSON"))?;
                }
                rows
            }
        };
        for (name, took) in rows {
            let Some(place) = run.place(step, name) else {
                ping_pong_ns.extend(match took {
                    Took::Time(time) => Some(time),
                    Took::Failed(_) => None,
                });
                continue;
            };
            let index = *places.entry(place.clone()).or_insert_with(|| {
                let (what, who) = place;
                cells.push(Cell { what, who, ns: Vec::new(), failures: Vec::new() });
                cells.len() - 1
            });
            match took {
                Took::Time(time) => cells[index].ns.push(time),
                Took::Failed(how) => cells[index].failures.push(how),
            }
        }
    }
    let summary = Summary::of(options, peers, &machine, &ping_pong_ns, &cells);
    Ok(Outcome {
        run: begun,
        repetitions: options.repetitions,
        machine,
        ping_pong_ns,
        peers: peers.found().cloned().collect(),
        skipped: peers.skipped.clone(),
        cells,
        summary,
    })
}

/// Durations of steps.
struct Pace {
    took: HashMap<Step, f64>,
    budget: f64,
}

impl Pace {
    fn of(&self, step: &Step) -> f64 {
        self.took.get(step).copied().unwrap_or_else(|| step.guess(self.budget) * self.slowness())
    }

    /// The factor by which the steps so far took longer than guessed.
    fn slowness(&self) -> f64 {
        let guessed: f64 = self.took.keys().map(|step| step.guess(self.budget)).sum();
        if guessed > 0.0 { self.took.values().sum::<f64>() / guessed } else { 1.0 }
    }
}

#[cfg(test)]
mod tests;
