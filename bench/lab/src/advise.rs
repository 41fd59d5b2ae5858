//! Advice on a window's lock policy. It simulates a workload under every policy, with the parameters that matter, and
//! ranks the policies by the user's objective.
//!
//! The workload comes from a [description](crate::workload) or from a recorded [trace](rmalab_windows::trace). Each
//! [candidate] does the same steps under the same seeds; a run ends when the last rank ends. Results are means over
//! the seeds with 95 % confidence intervals (Student's t). An interval covers the seeds, not the difference between the
//! machine and its profile; [`Options::measure`] checks that on this machine.
//!
//! [candidate]: Candidate
//!
//! # Limits
//!
//! * The simulator has a processor for each rank. It does not model ranks that wait for the scheduler.
//! * Times in a description are times of the program without its locks. So are times of a trace, except that they
//!   include waiting for other ranks outside the window.
//! * The order of ranks under contention depends on times that no profile has. Differences of a few percent between
//!   policies mean nothing.

mod candidates;
mod document;
mod epochs;
mod limit;
mod measured;
mod program;
mod rank;
mod simulated;
mod source;
mod statistics;

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use candidates::Advised;
use candidates::Tried;
pub use candidates::{ALL, Candidate};
pub use epochs::Epochs;
pub use limit::Limit;
use measured::Task;
pub use measured::{Measured, ROUNDS, serve};
pub use program::Program;
use rmalab_atomics::sim::profile::Profile;
use serde::Serialize;
use simulated::{Failure, Machine, Sample};
pub use source::{ACQUISITIONS, Recorded, Source};
pub use statistics::Estimate;

use crate::Registry;
pub use crate::workload::Objective;
use rmalab_job::{Error, Result};
use rmalab_report::Run;

/// Candidates that differ from the best one by less than this are equally good: no profile is more exact.
pub const ALIKE: f64 = 0.02;

/// A choice is right if it is within this of the best measured one.
pub const RIGHT: f64 = 0.1;

/// A candidate whose first run is worse than the best one by this factor is not run again.
const HOPELESS: f64 = 10.0;

/// From this number of ranks on, simulations run one at a time, because of their memory.
const MANY: u32 = 100_000;

/// Options of advice.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The description of the workload.
    pub workload: Option<PathBuf>,
    /// The folder of the trace, if there is no description.
    pub trace: Option<PathBuf>,
    /// The machine: a profile's name or file; by default a node, if one is enough.
    pub profile: Option<String>,
    /// The objective; by default the description's.
    pub objective: Option<Objective>,
    /// The number of ranks; by default the description's.
    pub ranks: Option<u32>,
    /// Acquisitions of each rank; by default the description's, but at most [`ACQUISITIONS`] in all.
    pub acquisitions: Option<u64>,
    /// Names of policies or candidates. By default all except nocheck, and except mutexes if the program takes shared
    /// locks.
    pub policies: Vec<String>,
    /// The number of seeds, from 1 on.
    pub seeds: u32,
    /// True to measure on this machine, too.
    pub measure: bool,
    /// True if the ranking has a row for each candidate, also if `policies` is empty.
    pub all: bool,
}

impl Options {
    /// Reads the work of the ranks.
    fn source(&self) -> Result<Source> {
        match (&self.workload, &self.trace) {
            (Some(path), None) => Source::workload(path, self.ranks, self.acquisitions),
            (None, Some(path)) => {
                if self.ranks.is_some() || self.acquisitions.is_some() {
                    return Err(Error::usage(
                        "a trace has its own ranks and acquisitions: leave out --ranks and --acquisitions",
                    ));
                }
                Source::trace(path)
            }
            _ => Err(Error::usage("name either a workload's file, or a trace's folder with --trace")),
        }
    }
}

/// The progress of advice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Completed simulations.
    pub done: usize,
    /// The number of simulations, as an estimate.
    pub of: usize,
    /// The time of the measurements that follow or are under way.
    pub measuring: Option<Duration>,
}

/// The comparison of a candidate with the first one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It is the first one.
    Winner,
    /// The intervals overlap, or the difference is below [`ALIKE`].
    AsGood,
    /// It is worse, by this share of the first one's value.
    Worse(f64),
}

/// A candidate in the ranking.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The candidate's name.
    pub candidate: &'static str,
    /// Its comparison with the first one.
    pub standing: Standing,
    /// Acquisitions per second, of all ranks together.
    pub throughput: Estimate,
    /// The median time of acquire and release together, in nanoseconds.
    pub p50: Estimate,
    /// Its 99th percentile, in nanoseconds.
    pub p99: Estimate,
    /// Jain's index of the ranks' rates, 1 when all are alike.
    pub fairness: Estimate,
    /// Operations of the lock per acquisition: on the rank's own memory, in its node, and in other nodes.
    pub operations: [f64; 3],
    /// Its limit.
    pub limit: Limit,
    /// The info string that chooses the policy, with its defaults.
    pub info: String,
    /// The builder that chooses the candidate.
    pub builder: String,
    /// True if the info string alone selects it, since the parameters are the defaults.
    pub is_default: bool,
    /// The measurement on this machine.
    pub measured: Option<Measured>,
}

/// A candidate without a place in the ranking.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LeftOut {
    /// The candidate's name.
    pub candidate: &'static str,
    /// The reason.
    pub why: String,
}

/// The comparison of the choice with measurements.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The best measured one.
    pub best: &'static str,
    /// The share of its value by which the choice is worse.
    pub worse_by: f64,
    /// True if that is within [`RIGHT`].
    pub right: bool,
    /// The system's load average at the start of the measurements.
    pub load: String,
}

/// The advice, with its evidence.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Advice {
    /// The command and its completion.
    pub run: Run,
    /// The machine that ran it.
    pub machine: rmalab_report::Machine,
    /// The workload, in a line.
    pub source: String,
    /// The name of the window, if the program has several.
    pub window: Option<String>,
    /// The number of the trace's files that end early.
    pub cut: usize,
    /// The machine's profile.
    pub profile: String,
    /// The objective of the ranking.
    pub objective: Objective,
    /// The number of ranks.
    pub ranks: u32,
    /// The number of seeds.
    pub seeds: u32,
    /// Remarks for the reader, a line each.
    pub remarks: Vec<String>,
    /// Acquisitions per second without any lock: an upper bound for all policies.
    pub unlocked: f64,
    /// The candidates, the best one first.
    pub rows: Vec<Row>,
    /// True if the ranking shows all candidates, and not only the ones that matter.
    pub all: bool,
    /// The present policy of the window: the trace's, or the default of windows.
    pub current: &'static str,
    /// True if the window has that policy now. Windows with the locks of an MPI have none.
    pub has_current: bool,
    /// True if the calls were recorded from a program, and not described.
    pub is_recorded: bool,
    /// True if the program is one on windows of an MPI, which its user starts with `rmalab preload`.
    pub is_mpi: bool,
    /// The candidate to choose: the first one, unless others are equally good. Among those, it is the present one, or
    /// else the best one under which no rank starves.
    pub choice: &'static str,
    /// Candidates without a place in the ranking.
    pub left_out: Vec<LeftOut>,
    /// The comparison of the choice with measurements.
    pub verdict: Option<Verdict>,
}

/// An objective's name on the command line.
pub fn name(objective: Objective) -> &'static str {
    match objective {
        Objective::Throughput => "throughput",
        Objective::P99 => "p99",
        Objective::Fairness => "fairness",
    }
}

/// Advice with checked options.
#[derive(Debug)]
pub struct Advise<'a> {
    registry: &'a Registry,
    options: Options,
    source: Arc<Source>,
    profile: Profile,
    candidates: Vec<Tried>,
    stop: Arc<AtomicBool>,
}

impl<'a> Advise<'a> {
    /// Reads and checks the input of advice. Locks that only `registry` has are candidates, too.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for options and files that are missing, wrong, or contradict each other.
    pub fn new(registry: &'a Registry, options: Options) -> Result<Advise<'a>> {
        let source = options.source()?;
        if let Some(epochs) = Epochs::of(&source) {
            return Err(Error::usage(format!("{}: no rank takes a lock, so no lock policy applies", epochs.source)));
        }
        Advise::of(registry, options, source)
    }

    /// Checks the options for a source with locks.
    fn of(registry: &'a Registry, options: Options, source: Source) -> Result<Advise<'a>> {
        let profile = source.profile(options.profile.as_deref())?;
        let candidates = candidates::chosen(registry, &options.policies, source.shares(), source.is_mpi())?;
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        if options.measure && source.ranks() as usize > cores {
            return Err(Error::usage(format!(
                "--measure: {} ranks on {cores} processors would measure the scheduler, which is not simulated; {}",
                source.ranks(),
                match source {
                    Source::Workload(_) => format!("give --ranks {cores}"),
                    Source::Trace(_) => format!("record the trace with {cores} ranks"),
                }
            )));
        }
        // Checks now that the simulator can build the world.
        let fits = rmalab_atomics::sim::Options {
            ranks_per_node: Some(source.ranks_per_node()),
            segment_bytes: source.segment_bytes(1),
            ..rmalab_atomics::sim::Options::new(source.ranks())
        };
        rmalab_atomics::sim::Simulator::new(&profile, &fits).map_err(|error| Error::usage(error.to_string()))?;
        let options = Options { seeds: options.seeds.max(1), ..options };
        Ok(Advise { registry, options, source: Arc::new(source), profile, candidates, stop: Arc::default() })
    }

    /// A flag that ends the advice once set.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The workload, in a line.
    pub fn describe(&self) -> String {
        self.source.describe()
    }

    /// Simulates and ranks the candidates, and measures them if requested. Returns `None` if it was stopped.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when no candidate can be ranked; errors of the measurements.
    pub fn run(&self, progress: &(dyn Fn(&Progress) + Sync)) -> Result<Option<Advice>> {
        let run = Run::begin();
        let seeds: Vec<u64> = (1..=u64::from(self.options.seeds)).collect();
        let machine = |events| Machine { profile: &self.profile, source: &self.source, stop: &self.stop, events };
        let count = self.candidates.len();
        let reporter =
            Reporter { done: AtomicUsize::new(0), of: AtomicUsize::new((count + 1) * seeds.len()), progress };
        reporter.report(None);
        // The first run has no lock, and shows the size of the simulations. Each candidate then runs once. The
        // remaining seeds follow for candidates that are not hopeless.
        let baseline = candidates::baseline();
        let free: Vec<(&Tried, u64)> = seeds.iter().map(|&seed| (&baseline, seed)).collect();
        let mut unlocked = Vec::new();
        for sample in self.simulate(&machine(None), &free, &reporter) {
            match sample {
                Ok(sample) => unlocked.push(sample),
                Err(Failure::Interrupted) => return Ok(None),
                Err(Failure::Failed(why)) => return Err(Error::Ranks(format!("without any lock: {why}"))),
                Err(Failure::Long(events)) => {
                    return Err(Error::Ranks(format!("without any lock: more than {events} events")));
                }
            }
        }
        let machine = machine(unlocked.iter().map(|sample| sample.stats.events).max());
        let once: Vec<(&Tried, u64)> = self.candidates.iter().map(|candidate| (candidate, 1)).collect();
        let mut left_out = Vec::new();
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); count];
        for (at, sample) in self.simulate(&machine, &once, &reporter).into_iter().enumerate() {
            match sample {
                Ok(sample) => samples[at].push(sample),
                Err(Failure::Interrupted) => return Ok(None),
                Err(failure) => left_out.push(LeftOut { candidate: once[at].0.label(), why: why(&failure) }),
            }
        }
        let most = samples.iter().flatten().map(|sample| sample.throughput).fold(0.0, f64::max);
        let again: Vec<(usize, u64)> = (0..count)
            .filter(|&at| samples[at].iter().any(|sample| sample.throughput * HOPELESS > most))
            .flat_map(|at| seeds[1..].iter().map(move |&seed| (at, seed)))
            .collect();
        reporter.of.store(seeds.len() + count + again.len(), Ordering::Relaxed);
        let jobs: Vec<(&Tried, u64)> = again.iter().map(|&(at, seed)| (&self.candidates[at], seed)).collect();
        for (&(at, seed), sample) in again.iter().zip(self.simulate(&machine, &jobs, &reporter)) {
            match sample {
                Ok(sample) => samples[at].push(sample),
                Err(Failure::Interrupted) => return Ok(None),
                Err(failure) => {
                    let candidate = self.candidates[at].label();
                    if left_out.iter().all(|left| left.candidate != candidate) {
                        left_out.push(LeftOut { candidate, why: format!("seed {seed}: {}", why(&failure)) });
                    }
                }
            }
        }
        let costs = machine.operations();
        let mut rows: Vec<Row> = (self.candidates.iter().zip(&samples))
            .filter(|(candidate, samples)| {
                !samples.is_empty() && left_out.iter().all(|left| left.candidate != candidate.label())
            })
            .map(|(candidate, samples)| row(candidate, samples, &unlocked, costs))
            .collect();
        let objective = self.options.objective.unwrap_or(self.source.objective());
        sort(&mut rows, objective);
        let Some(first) = rows.first() else {
            let why = left_out.first().map_or(String::new(), |left| format!("; {}: {}", left.candidate, left.why));
            return Err(Error::usage(format!("no policy can run {}{why}", self.source.describe())));
        };
        let first = first.clone();
        for row in &mut rows {
            row.standing = standing(row, &first, objective);
        }
        let current = self.source.policy().name();
        let choice = self.choose(&rows, current);
        let mut advice = Advice {
            run,
            machine: rmalab_report::Machine::describe(),
            source: self.source.describe(),
            window: None,
            cut: if let Source::Trace(trace) = &*self.source { trace.cut } else { 0 },
            profile: self.profile.name.clone(),
            objective,
            ranks: self.source.ranks(),
            seeds: self.options.seeds,
            remarks: self.remarks(),
            unlocked: Estimate::of(&values(&unlocked, |sample| sample.throughput)).mean,
            rows,
            all: self.options.all || !self.options.policies.is_empty(),
            current,
            has_current: !self.source.has_other_locks(),
            is_recorded: self.source.is_recorded(),
            is_mpi: self.source.is_mpi(),
            choice,
            left_out,
            verdict: None,
        };
        if self.options.measure {
            self.measure(&mut advice, &reporter)?;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
        Ok(Some(advice))
    }

    /// Runs `jobs` in parallel, and returns their results in order.
    fn simulate(
        &self,
        machine: &Machine<'_>,
        jobs: &[(&Tried, u64)],
        reporter: &Reporter<'_>,
    ) -> Vec<Result<Sample, Failure>> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
        let threads = if self.source.ranks() >= MANY { 1 } else { threads };
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<Result<Sample, Failure>>>> = Mutex::new(vec![None; jobs.len()]);
        std::thread::scope(|scope| {
            let work = || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(tried, seed)) = jobs.get(at) else { break };
                    let sample = if self.stop.load(Ordering::Relaxed) {
                        Err(Failure::Interrupted)
                    } else {
                        tried.simulate(machine, seed)
                    };
                    results.lock().expect("no thread panics while it holds the lock")[at] = Some(sample);
                    reporter.done.fetch_add(1, Ordering::Relaxed);
                    reporter.report(None);
                }
            };
            // This thread does the work of threads that the system refuses.
            for _ in 1..threads {
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let results = results.into_inner().expect("no thread panicked");
        results.into_iter().map(|result| result.expect("every job was done")).collect()
    }

    fn measure(&self, advice: &mut Advice, reporter: &Reporter<'_>) -> Result<()> {
        // The expected time is the time of the simulated candidate in the middle.
        let mut throughputs: Vec<f64> = advice.rows.iter().map(|row| row.throughput.mean).collect();
        throughputs.sort_by(f64::total_cmp);
        let middle = throughputs[throughputs.len() / 2];
        let acquisitions = self.source.acquisitions();
        let pass = (acquisitions as f64 / middle).max(1e-9);
        let passes = (measured::RUN.as_secs_f64() / pass).ceil().clamp(1.0, 1e6) as u32;
        let seconds: f64 = throughputs.iter().map(|throughput| acquisitions as f64 / throughput).sum();
        let expected = Duration::from_secs_f64((seconds * f64::from(passes) * f64::from(ROUNDS)).min(86_400.0));
        reporter.report(Some(expected));
        let task = Task {
            workload: self.options.workload.clone(),
            trace: self.options.trace.clone(),
            ranks: self.source.ranks(),
            acquisitions: match &*self.source {
                Source::Workload(workload) => Some(workload.acquisitions),
                Source::Trace(_) => None,
            },
            labels: advice.rows.iter().map(|row| row.candidate.to_owned()).collect(),
            seeds: self.options.seeds,
            passes,
        };
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        let measured = match measured::measure(self.registry, &task, expected) {
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(()),
            measured => measured?,
        };
        for (row, measured) in advice.rows.iter_mut().zip(measured) {
            row.measured = Some(measured);
        }
        let objective = advice.objective;
        let value = |row: &Row| row.measured.map_or(0.0, |measured| measured.value(objective));
        let better = |a: &&Row, b: &&Row| badness(value(a), objective).total_cmp(&badness(value(b), objective));
        let chosen = advice.rows.iter().find(|row| row.candidate == advice.choice);
        if let (Some(chosen), Some(best)) = (chosen, advice.rows.iter().min_by(better)) {
            let worse_by = worse(value(chosen), value(best), objective);
            let right = worse_by <= RIGHT;
            advice.verdict = Some(Verdict { best: best.candidate, worse_by, right, load });
        }
        Ok(())
    }

    /// Chooses a candidate from ranked `rows`, see [`Advice::choice`].
    fn choose(&self, rows: &[Row], current: &str) -> &'static str {
        let tied: Vec<&'static str> =
            rows.iter().filter(|row| !matches!(row.standing, Standing::Worse(_))).map(|row| row.candidate).collect();
        let kept = tied.iter().find(|&&candidate| candidate == current);
        let fair =
            || tied.iter().find(|&&label| self.candidates.iter().any(|one| one.label() == label && !one.lets_starve()));
        kept.or_else(fair).or(tied.first()).copied().unwrap_or_default()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.source.shares() {
            let mutexes: Vec<&str> = self.candidates.iter().filter(|one| !one.shares()).map(Tried::label).collect();
            if !mutexes.is_empty() {
                remarks.push(format!(
                    "mutexes make shared locks and lock_all exclusive, and a program with holders that wait for each \
                     other hangs: {}",
                    mutexes.join(", ")
                ));
            } else if self.options.policies.is_empty() {
                remarks.push(
                    "the program shares locks (shared, lock_all), so mutexes are left out; name one with --lock to try it"
                        .to_owned(),
                );
            }
        }
        if let Source::Trace(trace) = &*self.source {
            remarks.extend(trace.remarks.iter().cloned());
            if trace.topology.nodes() > 1 && !trace.topology.is_blocks() {
                remarks.push("the trace's nodes are not blocks of ranks, but the simulated ones are".to_owned());
            }
        }
        remarks
    }
}

/// Reports the progress.
struct Reporter<'a> {
    done: AtomicUsize,
    of: AtomicUsize,
    progress: &'a (dyn Fn(&Progress) + Sync),
}

impl Reporter<'_> {
    fn report(&self, measuring: Option<Duration>) {
        let [done, of] = [&self.done, &self.of].map(|number| number.load(Ordering::Relaxed));
        (self.progress)(&Progress { done, of, measuring });
    }
}

impl Measured {
    fn value(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Throughput => self.throughput,
            Objective::P99 => self.p99,
            Objective::Fairness => self.fairness,
        }
    }
}

impl Row {
    /// The value of the objective.
    pub fn value(&self, objective: Objective) -> &Estimate {
        match objective {
            Objective::Throughput => &self.throughput,
            Objective::P99 => &self.p99,
            Objective::Fairness => &self.fairness,
        }
    }
}

fn why(failure: &Failure) -> String {
    match failure {
        Failure::Interrupted => "interrupted".to_owned(),
        Failure::Long(events) => format!("it did not end within {} million events", events / 1_000_000),
        Failure::Failed(why) => why.clone(),
    }
}

fn values(samples: &[Sample], part: impl Fn(&Sample) -> f64) -> Vec<f64> {
    samples.iter().map(part).collect()
}

fn row(candidate: &Tried, samples: &[Sample], unlocked: &[Sample], costs: [f64; 3]) -> Row {
    let estimate = |part: fn(&Sample) -> f64| Estimate::of(&values(samples, part));
    let (operations, limit) = limit::of(samples, unlocked, costs);
    Row {
        candidate: candidate.label(),
        standing: Standing::Winner,
        throughput: estimate(|sample| sample.throughput),
        p50: estimate(|sample| sample.p50),
        p99: estimate(|sample| sample.p99),
        fairness: estimate(|sample| sample.fairness),
        operations,
        limit,
        info: candidate.info(),
        builder: candidate.builder(),
        is_default: candidate.is_default(),
        measured: None,
    }
}

/// A value as a number that is smaller if it is better.
fn badness(value: f64, objective: Objective) -> f64 {
    match objective {
        Objective::Throughput | Objective::Fairness => -value,
        Objective::P99 => value,
    }
}

/// The share by which `value` is worse than `best`.
fn worse(value: f64, best: f64, objective: Objective) -> f64 {
    if best == 0.0 {
        return 0.0;
    }
    match objective {
        Objective::Throughput | Objective::Fairness => 1.0 - value / best,
        Objective::P99 => value / best - 1.0,
    }
}

/// Orders the best first. The throughput decides between values that are equal to three digits, and then the order of
/// the list.
fn sort(rows: &mut [Row], objective: Objective) {
    let key = |row: &Row| {
        let value = badness(row.value(objective).mean, objective);
        let digits = 10f64.powf(3.0 - value.abs().max(f64::MIN_POSITIVE).log10().ceil());
        ((value * digits).round() / digits, -row.throughput.mean)
    };
    rows.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
}

fn standing(row: &Row, first: &Row, objective: Objective) -> Standing {
    if row.candidate == first.candidate {
        return Standing::Winner;
    }
    let (own, best) = (row.value(objective), first.value(objective));
    let worse = worse(own.mean, best.mean, objective);
    if worse < ALIKE || own.overlaps(best) { Standing::AsGood } else { Standing::Worse(worse) }
}
