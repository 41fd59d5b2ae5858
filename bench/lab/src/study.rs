//! The study: every lock under every load, on every backend, at every number of ranks.
//!
//! It generalizes the experiment of M. Hatanaka, A. Hori and Y. Ishikawa on the FX100 (in Japanese; section 5): there,
//! 4 to 4,096 ranks at the same time acquire and release one lock 1,000 times for reading. The result is the slowest
//! rank's mean. Here some acquisitions may be exclusive, and the lock may be any. The results are throughput, latency,
//! fairness, order of service and the number of remote operations.

mod document;
mod options;
mod outcome;
mod processes;
mod rank;
mod verdict;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

pub use options::{BUDGET, MAX_RANKS, MAX_REPETITIONS, Options};
use outcome::Message;
pub use outcome::{Cell, Key, Outcome, Side, Values};
pub use processes::serve;
pub use rmalab_atomics::Backend;
use rmalab_atomics::{Mapped, Rank, Topology, World, started_as};

use crate::Registry;
use crate::simulate::{available_memory, gib};
pub use crate::subject::passes::Target;
use crate::subject::{Info, Subject};
use rmalab_job::{Error, Result};
use rmalab_report::numbers::{counted, nanoseconds};
use rmalab_report::others::Others;
pub use rmalab_report::statistics::Quantiles;
use rmalab_report::{Machine, Run};

/// A study with checked options.
pub struct Study<'a> {
    registry: &'a Registry,
    options: Options,
    /// This process's rank and the number of ranks, if a launcher started the program as all ranks of one world.
    job: Option<(Rank, u32)>,
    stop: Arc<AtomicBool>,
    progress: Box<dyn FnMut(&Progress) + 'a>,
}

/// The progress of a study.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Completed measurements.
    pub done: usize,
    /// The number of measurements.
    pub of: usize,
    /// The last measurement, and its throughput in acquisitions per second; none before the first.
    pub last: Option<(Key, f64)>,
}

/// Runs a study from beginning to end, without output.
///
/// With processes as ranks, the calling program is started again as each rank. It must get here, or call
/// [`serve`], before it does anything that may happen only once.
///
/// # Errors
///
/// [`Error::Usage`] for options that make no sense; otherwise errors of the ranks.
pub fn run(registry: &Registry, options: &Options) -> Result<Outcome> {
    Study::new(registry, options.clone())?.run()
}

impl<'a> Study<'a> {
    /// Prepares a study.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for options that make no sense.
    pub fn new(registry: &'a Registry, options: Options) -> Result<Study<'a>> {
        let options = options.checked(registry)?;
        let job = job(&options)?;
        Ok(Study { registry, options, job, stop: Arc::default(), progress: Box::new(|_| ()) })
    }

    /// Returns whether this process receives the results. In a job (of `mpirun`, say) only the first rank does.
    pub fn receives_results(&self) -> bool {
        self.job.is_none_or(|(rank, _)| rank.0 == 0)
    }

    /// The options, with every name and number filled in.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The locks that the study measures, in the order of its options.
    pub fn subjects(&self) -> impl Iterator<Item = &Info> {
        let known = self.options.locks.iter().filter_map(|name| self.registry.find(name).ok());
        known.map(Subject::info)
    }

    /// Reports to `progress` after every measurement, and once before the first.
    pub fn on_progress(mut self, progress: impl FnMut(&Progress) + 'a) -> Study<'a> {
        self.progress = Box::new(progress);
        self
    }

    /// A flag that ends the study once set. The cell under measurement does not count.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The number of measurements: cells times repetitions.
    pub fn measurements(&self) -> usize {
        self.options.cells() * self.options.repetitions as usize
    }

    /// The estimated duration of the study.
    pub fn estimate(&self) -> Duration {
        let measurements = u32::try_from(self.measurements()).unwrap_or(u32::MAX);
        let worlds = u32::try_from(self.options.ranks.len() * self.options.locks_of_worlds().len()).unwrap_or(u32::MAX);
        let start: Duration = self.options.backends.iter().map(|&backend| start(backend) * worlds).sum();
        // Ranks wait for a processor at each barrier of a cell.
        self.options.cell_duration().saturating_mul(measurements) * 103 / 100 + start
    }

    /// Runs it.
    ///
    /// In the ranks of a job that do not [receive results](Self::receives_results), the outcome has no cells. A
    /// rank of a job that fails prints the error on standard error and ends the process.
    ///
    /// # Errors
    ///
    /// Errors of the ranks: [`Error::Lock`], [`Error::Atomics`], [`Error::Ranks`].
    pub fn run(mut self) -> Result<Outcome> {
        serve(self.registry)?;
        let mut run = Run::begin();
        // One rank of a job: parallel ranks of a process would compete for the processors that they time.
        let machine = if self.receives_results() { Machine::describe() } else { Machine::default() };
        // Ranks that a launcher has started would count as other programs.
        let others = Others::begin().filter(|_| self.job.is_none());
        let of = self.measurements();
        let mut samples = Vec::new();
        let mut interrupted = false;
        let mut progress = std::mem::replace(&mut self.progress, Box::new(|_| ()));
        progress(&Progress { done: 0, of, last: None });
        let mut receive = |message| match message {
            Message::Sample(sample) => {
                let last = Some((sample.key.clone(), sample.values.throughput));
                samples.push(*sample);
                progress(&Progress { done: samples.len(), of, last });
            }
            Message::Interrupted => interrupted = true,
            Message::Failed(_) => (),
        };
        match self.job {
            Some((_, size)) => self.job(size, &self.stop, &mut receive)?,
            None => self.worlds(&mut receive)?,
        }
        drop(progress);
        let mut cells = outcome::cells(&self.options, &samples);
        for cell in &mut cells {
            if !self.registry.find(&cell.key.lock)?.info().excludes {
                cell.values.violations = 0;
            }
        }
        run.complete = !interrupted && (samples.len() == of || !self.receives_results());
        run.seed = Some(self.options.seed);
        Ok(Outcome {
            run,
            others: others.and_then(|others| others.processors()),
            cell_ns: nanoseconds(self.options.cell_duration()),
            machine,
            subjects: self.subjects().cloned().collect(),
            cells,
            options: self.options,
        })
    }
}

/// Time to start and end one world.
fn start(backend: Backend) -> Duration {
    Duration::from_millis(match backend {
        Backend::Local => 20,
        Backend::Shm => 150,
        _ => 500,
    })
}

/// Returns this process's rank and the number of ranks, if a launcher started the program as all ranks of the world.
fn job(options: &Options) -> Result<Option<(Rank, u32)>> {
    let started_by = |&backend: &Backend| backend.started_by().map(|how| (backend, how));
    let started = started_as().map_err(|error| Error::usage(error.to_string()))?;
    let foreign = options.backends.iter().find_map(started_by);
    match (started, foreign) {
        (None, Some((backend, how))) => {
            Err(Error::usage(format!("--backend {backend}: no launcher has started this process as a rank: {how}")))
        }
        // A process that a launcher started alone is no rank.
        (None, None) | (Some((_, 1)), None) => Ok(None),
        (Some(_), _) if options.table.is_some() => {
            Err(Error::usage("--table: a study over a table starts its ranks itself; run it without a launcher"))
        }
        (Some((rank, size)), _) => {
            let [Backend::Shm | Backend::Verbs | Backend::Mpi] = options.backends[..] else {
                return Err(Error::usage(format!(
                    "this process is one of {size} ranks of one world, started by a launcher: \
                     name their backend with --backend shm, verbs or mpi"
                )));
            };
            match options.ranks.iter().find(|&&ranks| ranks > size) {
                Some(ranks) => Err(Error::usage(format!(
                    "ranks: {ranks} is more than the {size} that a launcher started; start {ranks}, or ask for fewer"
                ))),
                None => Ok(Some((rank, size))),
            }
        }
    }
}

/// One world of a study: one backend and one number of ranks.
struct WorldOfStudy<'a> {
    registry: &'a Registry,
    options: &'a Options,
    backend: Backend,
    ranks: u32,
    /// Bytes of each rank's segment for the table of locks; 0 without one.
    table_bytes: u64,
}

impl Study<'_> {
    /// Starts and measures one world after the other; `receive` gets the messages of each world's rank 0.
    fn worlds(&self, receive: &mut dyn FnMut(Message)) -> Result<()> {
        for &backend in &self.options.backends {
            for &ranks in &self.options.ranks {
                for locks in self.options.locks_of_worlds() {
                    if self.stop.load(Ordering::Relaxed) {
                        receive(Message::Interrupted);
                        return Ok(());
                    }
                    let options = &Options { locks, ..self.options.clone() };
                    let mut world = WorldOfStudy { registry: self.registry, options, backend, ranks, table_bytes: 0 };
                    world.table_bytes = world.bytes_of_table()?;
                    match backend {
                        Backend::Local => world.threads(&self.stop, receive)?,
                        _ => world.processes(&self.stop, receive)?,
                    }
                }
            }
        }
        Ok(())
    }
}

impl WorldOfStudy<'_> {
    fn topology(&self) -> Result<Topology> {
        Ok(match self.options.ranks_per_node {
            Some(ranks) => Topology::blocks(self.ranks, ranks, 1)?,
            None => Topology::of_machine(self.ranks),
        })
    }

    /// Bytes of each rank's segment.
    fn segment_bytes(&self) -> u64 {
        rank::SEGMENT_BYTES + self.table_bytes
    }

    /// Bytes of each rank's segment that the table of locks takes, measured with one lock in a world like this one; 0 without a table.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for a table larger than the memory: a segment takes memory where it is touched, and popular locks are all over it.
    fn bytes_of_table(&self) -> Result<u64> {
        let Some(table) = self.options.table()? else { return Ok(0) };
        let world = World::threads(self.ranks).segment_bytes(rank::SEGMENT_BYTES).topology(self.topology()?);
        let bytes = world.run(|ra| {
            let each = self.options.locks.iter().map(|name| self.registry.find(name)?.table_bytes(ra, table.locks));
            each.sum::<Result<u64>>()
        })?;
        let bytes = bytes.into_iter().collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0);
        let all = (rank::SEGMENT_BYTES + bytes).saturating_mul(self.ranks.into());
        let available = available_memory();
        if all > available {
            return Err(Error::usage(format!(
                "a table of {} of {} takes {} of memory at {}, and {} are available",
                counted(table.locks.into(), "lock"),
                self.options.locks.join(", "),
                gib(all),
                counted(self.ranks.into(), "rank"),
                gib(available)
            )));
        }
        Ok(bytes)
    }

    /// Runs the world as threads; `receive` gets the messages of rank 0.
    fn threads(&self, stop: &AtomicBool, receive: &mut dyn FnMut(Message)) -> Result<()> {
        let world = World::threads(self.ranks).segment_bytes(self.segment_bytes()).topology(self.topology()?);
        let (report, messages) = mpsc::channel();
        std::thread::scope(|scope| {
            let ranks = move || {
                let body = |ra: &Mapped| {
                    let report = report.clone();
                    let report = |message| drop(report.send(message));
                    let done = rank::measure(ra, Some(ra), self.registry, self.backend, self.options, stop, &report);
                    if let Err(error) = done {
                        // Other ranks may be waiting for this rank: its panic makes their waits fail.
                        resume_unwind(Box::new(error));
                    }
                };
                catch_unwind(AssertUnwindSafe(|| world.run(body)))
            };
            let ranks = std::thread::Builder::new().name("ranks".into()).spawn_scoped(scope, ranks);
            let ranks = ranks.map_err(|error| {
                rmalab_atomics::Error::system(
                    "starting the thread that starts the ranks (ulimit -u says how many this user may have)",
                    error,
                )
            })?;
            messages.iter().for_each(&mut *receive);
            match ranks.join().expect("the panics of ranks are caught") {
                Ok(done) => done.map(drop).map_err(Error::from),
                Err(panic) => match panic.downcast::<Error>() {
                    Ok(error) => Err(*error),
                    Err(panic) => resume_unwind(panic),
                },
            }
        })
    }
}
