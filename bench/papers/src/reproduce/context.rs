//! The context in which experiments run their jobs.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Experiment, Extent, Journal};
use rmalab_job::{self as job, Job, Ran, Ranks};
use rmalab_job::{Error, Result};
use rmalab_report::statistics::median;
use serde_json::Value;

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// Its index among the experiments of this run, from 0.
    pub place: usize,
    /// Its present step.
    pub what: &'a str,
    /// The remaining time, by the experiments' estimates and this machine's speed.
    pub left: Duration,
}

/// The context of experiments: it keeps and finds results, reports the progress, and ends the run on request.
pub struct Context<'a> {
    extent: Extent,
    experiments: Vec<&'static Experiment>,
    stop: &'a AtomicBool,
    journal: RefCell<Option<Journal>>,
    report: Box<dyn Fn(&Progress<'_>) + 'a>,
    place: Cell<usize>,
    began: Cell<Instant>,
    /// Time of completed experiments, and their estimates.
    past: Cell<(f64, f64)>,
    entered: Cell<bool>,
}

impl<'a> Context<'a> {
    /// A context for those experiments. `report` gets the progress.
    pub fn new(
        extent: Extent,
        experiments: &[&'static Experiment],
        stop: &'a AtomicBool,
        journal: Option<Journal>,
        report: impl Fn(&Progress<'_>) + 'a,
    ) -> Context<'a> {
        Context {
            extent,
            experiments: experiments.to_vec(),
            stop,
            journal: RefCell::new(journal),
            report: Box::new(report),
            place: Cell::new(0),
            began: Cell::new(Instant::now()),
            past: Cell::new((0.0, 0.0)),
            entered: Cell::new(false),
        }
    }

    /// Quick or long.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// One of two values: the quick one, or the long one.
    pub fn pick<T>(&self, quick: T, long: T) -> T {
        self.extent.pick(quick, long)
    }

    /// Begins an experiment.
    pub(super) fn enter(&self, experiment: &'static Experiment) {
        let place = self.experiments.iter().position(|other| other.id == experiment.id).unwrap_or(0);
        if self.entered.replace(true) {
            let (took, estimated) = self.past.get();
            let before = self.experiments[self.place.get()].estimate(self.extent).as_secs_f64();
            self.past.set((took + self.began.get().elapsed().as_secs_f64(), estimated + before));
        }
        self.place.set(place);
        self.began.set(Instant::now());
        self.report("");
    }

    fn report(&self, what: &str) {
        let place = self.place.get();
        let Some(experiment) = self.experiments.get(place) else { return };
        let (took, estimated) = self.past.get();
        let pace = if estimated > 0.0 { (took / estimated).clamp(0.05, 20.0) } else { 1.0 };
        let rest: f64 = self.experiments[place..].iter().map(|each| each.estimate(self.extent).as_secs_f64()).sum();
        let left = (rest * pace - self.began.get().elapsed().as_secs_f64()).max(0.0);
        (self.report)(&Progress { experiment, place, what, left: Duration::from_secs_f64(left) });
    }

    /// Runs a job, or takes its result from the journal.
    ///
    /// # Errors
    ///
    /// Errors of [`job::run`]; [`Error::Interrupted`] when the run is to end.
    pub fn run<J: Job>(&self, job: &J, world: &Ranks) -> Result<Ran<J::Out>> {
        self.repetition(job, world, 0)
    }

    /// Runs several jobs `times` times in turn, so that changes on the machine affect all of them; returns the runs of
    /// each job.
    ///
    /// # Errors
    ///
    /// Errors of [`run`](Self::run).
    pub fn in_turn<J: Job>(&self, times: u32, jobs: &[(J, Ranks)]) -> Result<Vec<Vec<Ran<J::Out>>>> {
        let mut runs: Vec<Vec<Ran<J::Out>>> = jobs.iter().map(|_| Vec::new()).collect();
        for repetition in 0..times {
            for ((job, world), runs) in jobs.iter().zip(&mut runs) {
                runs.push(self.repetition(job, world, repetition)?);
            }
        }
        Ok(runs)
    }

    /// For each job, the median of `figure` over `times` runs in turn with the other jobs.
    ///
    /// # Errors
    ///
    /// Errors of [`run`](Self::run).
    pub fn medians<J: Job>(
        &self,
        times: u32,
        jobs: &[(J, Ranks)],
        figure: impl Fn(&Ran<J::Out>) -> f64,
    ) -> Result<Vec<f64>> {
        let runs = self.in_turn(times, jobs)?;
        Ok(runs.iter().map(|runs| median(runs.iter().map(&figure))).collect())
    }

    /// Runs `work`, or takes its result from the journal; `key` has its name and all data on which it depends.
    ///
    /// # Errors
    ///
    /// Errors of `work`; [`Error::Interrupted`] when the run is to end.
    pub fn keep<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        key: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let key = self.key(key);
        if let Some(kept) = self.kept(&key).and_then(|kept| serde_json::from_value(kept).ok()) {
            return Ok(kept);
        }
        self.goes_on()?;
        let result = work().map_err(|error| self.goes_on().err().unwrap_or(error))?;
        self.store(&key, &|| serde_json::to_value(&result).expect("a result is JSON"))?;
        Ok(result)
    }

    /// The key in the journal.
    fn key(&self, key: &str) -> String {
        let id = self.experiments.get(self.place.get()).map_or("", |experiment| experiment.id);
        format!("{id} {key}")
    }

    /// Returns the journal's result with that key.
    fn kept(&self, key: &str) -> Option<Value> {
        self.journal.borrow().as_ref().and_then(|journal| journal.value(key).cloned())
    }

    /// Writes a result to the journal, if there is one.
    fn store(&self, key: &str, result: &dyn Fn() -> Value) -> Result<()> {
        self.journal.borrow_mut().as_mut().map_or(Ok(()), |journal| journal.put(key, result()))
    }

    /// [`Error::Interrupted`] when the run is to end.
    fn goes_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn repetition<J: Job>(&self, job: &J, world: &Ranks, repetition: u32) -> Result<Ran<J::Out>> {
        // Processes get the job as a value, too. Writing it directly as text would need a second serializer for each
        // job.
        let of = serde_json::to_value(job).expect("a job is JSON");
        let text = self.begin(J::NAME, of, world, repetition);
        self.keep(&text, || job::run(job, world, self.stop))
    }

    /// Reports a job that begins, and returns its key.
    fn begin(&self, name: &str, job: Value, world: &Ranks, repetition: u32) -> String {
        self.report(&format!("{name}, {world}"));
        serde_json::to_string(&(name, job, world, repetition)).expect("a job is JSON")
    }

    /// The flag that ends the run.
    pub fn stop(&self) -> &'a AtomicBool {
        self.stop
    }

    /// Removes the journal's file at the end of a run.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn finish(self) -> Result<()> {
        self.journal.into_inner().map_or(Ok(()), Journal::finish)
    }
}
