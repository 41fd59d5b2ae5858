//! The context in which experiments run their jobs.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Experiment, Extent, Journal};
use rmalab_job::{self as job, Job, Ran, Ranks};
use rmalab_job::{Error, Result};
use rmalab_report::statistics::median;

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
        let id = self.experiments.get(self.place.get()).map_or("", |experiment| experiment.id);
        let key = format!("{id} {key}");
        if let Some(journal) = &*self.journal.borrow()
            && let Some(kept) = journal.get(&key)
        {
            return Ok(kept);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let result = match work() {
            Err(_) if self.stop.load(Ordering::Relaxed) => return Err(Error::Interrupted),
            result => result?,
        };
        if let Some(journal) = &mut *self.journal.borrow_mut() {
            journal.put(&key, &result)?;
        }
        Ok(result)
    }

    fn repetition<J: Job>(&self, job: &J, world: &Ranks, repetition: u32) -> Result<Ran<J::Out>> {
        // Processes get the job as a value, too. Writing it directly as text would need a second serializer for each
        // job.
        let of = serde_json::to_value(job).expect("a job is JSON");
        let text = serde_json::to_string(&(J::NAME, of, world, repetition)).expect("a job is JSON");
        self.report(&format!("{}, {world}", J::NAME));
        self.keep(&text, || job::run(job, world, self.stop))
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
