//! Measurements on this machine: processes run the same steps under one candidate after the other, repeatedly.
//!
//! The ranks are processes of this program, and an environment variable has their task.

use std::path::PathBuf;
use std::time::Duration;

use rmalab_atomics::{RemoteAtomics, Topology, World, bind_to_core};
use rmalab_job::{Error, Result};
use rmalab_report::statistics::{histogram, jain, median};
use rmalab_windows::Team;
use rmalab_windows::replay::Step;
use serde::{Deserialize, Serialize};

use super::candidates;
use super::rank::{Done, drive, rates, throughput, window};
use super::source::Source;
use crate::Registry;

/// The environment variable with the task of a rank.
const TASK: &str = "RMALAB_ADVISE_TASK";

/// The number of runs of each candidate; the first does not count.
pub const ROUNDS: u32 = 81;

/// Duration of a run. It is long compared with a barrier of the ranks. It is short compared with the scheduler's slices,
/// so that in most runs no rank loses a processor.
pub(super) const RUN: Duration = Duration::from_millis(1);

/// One in this number of runs counts. They are the runs with the most throughput, since other load can only make a run
/// longer.
const UNDISTURBED: usize = 4;

/// The allowed time of the ranks beyond the expected one.
const GRACE: Duration = Duration::from_secs(60);

/// The results of a candidate: medians of the quarter of its runs with the most throughput.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// Acquisitions per second, of all ranks together.
    pub throughput: f64,
    /// The median time of acquire and release together, in nanoseconds.
    pub p50: f64,
    /// Its 99th percentile, in nanoseconds.
    pub p99: f64,
    /// Jain's index of the ranks' rates.
    pub fairness: f64,
}

/// The task of a rank.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) workload: Option<PathBuf>,
    pub(super) trace: Option<PathBuf>,
    pub(super) ranks: u32,
    pub(super) acquisitions: Option<u64>,
    pub(super) labels: Vec<String>,
    pub(super) seeds: u32,
    /// The number of times that a run repeats its steps.
    pub(super) passes: u32,
}

impl Task {
    fn source(&self) -> Result<Source> {
        match (&self.workload, &self.trace) {
            (Some(path), _) => Source::workload(path, Some(self.ranks), self.acquisitions),
            (None, Some(path)) => Source::trace(path),
            (None, None) => Err(Error::Ranks("there is nothing to do".to_owned())),
        }
    }
}

/// One run of one rank: its work, and how often each time of acquire and release occurred.
type Ran = (Done, Vec<(u64, u64)>);

/// Runs the task of a rank and ends the process, if it was started as a rank; otherwise does nothing. Candidates are
/// the workspace's own policies, and the locks of `registry`.
///
/// # Errors
///
/// [`Error::Ranks`] for an invalid task; errors of the world.
pub fn serve(registry: &Registry) -> Result<()> {
    let Some(task) = std::env::var_os(TASK) else { return Ok(()) };
    let task: Task = serde_json::from_slice(task.as_encoded_bytes())
        .map_err(|error| Error::Ranks(format!("{TASK}: {error}; only the program itself sets it, for its ranks")))?;
    world(registry, &task, None).map(drop)
}

/// Starts the ranks, or runs as one of them.
fn world(registry: &Registry, task: &Task, expected: Option<Duration>) -> Result<Vec<Vec<Ran>>> {
    let source = task.source()?;
    let topology = match &source {
        Source::Workload(workload) => Topology::blocks(workload.ranks, workload.ranks_per_node, 1)?,
        Source::Trace(trace) => trace.topology.clone(),
    };
    let segment = source.segment_bytes(task.labels.len() as u64);
    let mut processes = World::processes(task.ranks).topology(topology).segment_bytes(segment);
    if let Some(expected) = expected {
        let program = std::env::current_exe()
            .map_err(|error| Error::Ranks(format!("cannot find this program's file, which its ranks run: {error}")))?;
        let text = serde_json::to_string(task).expect("a task is JSON");
        processes = processes.command(program, [] as [&str; 0]).env(TASK, text).time_limit(GRACE + 20 * expected);
    }
    Ok(processes.try_run(|ra| rank(ra, registry, task, &source))?)
}

/// Measures the candidates, and returns the results in order.
///
/// # Errors
///
/// Errors of the world and of the locks.
pub(super) fn measure(registry: &Registry, task: &Task, expected: Duration) -> Result<Vec<Measured>> {
    let ranks = world(registry, task, Some(expected))?;
    let candidates = task.labels.len();
    let of = |candidate: usize| {
        let rounds = (0..ROUNDS as usize - 1).map(|round| round * candidates + candidate);
        let mut runs: Vec<Measured> = rounds.map(|at| run(ranks.iter().map(|rank| &rank[at]))).collect();
        runs.sort_by(|a, b| b.throughput.total_cmp(&a.throughput));
        runs.truncate(runs.len().div_ceil(UNDISTURBED));
        let median = |part: fn(&Measured) -> f64| median(runs.iter().map(part));
        Measured {
            throughput: median(|run| run.throughput),
            p50: median(|run| run.p50),
            p99: median(|run| run.p99),
            fairness: median(|run| run.fairness),
        }
    };
    Ok((0..candidates).map(of).collect())
}

/// One run of all ranks.
fn run<'a>(ranks: impl Iterator<Item = &'a Ran>) -> Measured {
    let mut latency = histogram();
    let mut done = Vec::new();
    for (rank, recorded) in ranks {
        done.push(*rank);
        for &(value, count) in recorded {
            latency.saturating_record_n(value, count);
        }
    }
    Measured {
        throughput: throughput(&done),
        p50: latency.value_at_quantile(0.5) as f64,
        p99: latency.value_at_quantile(0.99) as f64,
        fairness: jain(&rates(&done)),
    }
}

/// A rank's code: all rounds, each with all candidates. Each round begins with another candidate.
fn rank(ra: &dyn RemoteAtomics, registry: &Registry, task: &Task, source: &Source) -> Result<Vec<Ran>> {
    bind_to_core(ra.rank())?;
    let failed = |source: rmalab_windows::Error| Error::Ranks(source.to_string());
    let team = Team::new(ra).map_err(failed)?;
    let mut windows = Vec::new();
    for label in &task.labels {
        let mut found = candidates::chosen(registry, std::slice::from_ref(label), false, false)?;
        found.retain(|tried| tried.label() == label);
        let tried = found.first().ok_or_else(|| Error::Ranks(format!("{label} is not a candidate")))?;
        windows.push(window(&team, source, tried.maker()).map_err(failed)?);
    }
    let mut ran: Vec<Option<Ran>> = Vec::new();
    let mut latency = histogram();
    for round in 0..ROUNDS as usize {
        let seed = 1 + (round as u64) % u64::from(task.seeds.max(1));
        let steps: Vec<Step> = source.steps(seed, ra.rank()).collect();
        let first = ran.len();
        ran.resize(first + windows.len(), None);
        for turn in 0..windows.len() {
            let candidate = (turn + round) % windows.len();
            latency.reset();
            team.collectives().barrier()?;
            let mut all = std::iter::repeat_n(&steps, task.passes as usize).flatten().cloned();
            let mut record = |ns| latency.saturating_record(ns);
            let done = drive(&mut windows[candidate], &mut all, &mut record).map_err(failed)?;
            let recorded =
                latency.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect();
            ran[first + candidate] = Some((done, recorded));
        }
        if round == 0 {
            ran.clear();
        }
    }
    Ok(ran.into_iter().map(|ran| ran.expect("every candidate ran in every round")).collect())
}
