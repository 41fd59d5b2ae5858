//! Simulations: the real lock code, with as many ranks as memory holds, on simulated machines.
//!
//! A point is one lock under one load at one number of ranks. For each seed, it is one run of
//! [`rmalab_atomics::sim::Simulator`] in one thread. Points run in parallel. Counters are outside the simulated machine,
//! and take no virtual time.

pub mod arena;
mod document;
pub mod machine;
mod options;
mod parameters;
mod point;
mod rank;
pub mod rma_rw;
pub mod scale;
pub mod validate;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

pub use options::{Load, MAX_EVENTS, MAX_RANKS, Mix, Options, Override, Section, Target, auto_pairs, ranks, share};
pub use parameters::Parameters;
pub use point::{Key, LeftOut, Machine, Operations, Outcome, Point, Side};
pub(crate) use rank::gib;
use rank::{Guard, Shared, Task, Times};
use rmalab_atomics::Rank;
use rmalab_atomics::sim::{Options as World, Profile, Simulator};

use crate::workload::Table;
use crate::{Registry, Subject};
use rmalab_job::Result;

/// Simulations with checked options.
pub struct Simulation<'a> {
    registry: &'a Registry,
    options: Options,
    stop: Arc<AtomicBool>,
}

/// The progress of the simulations.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Acquisitions that were simulated or dropped.
    pub done: u64,
    /// The number of acquisitions.
    pub of: u64,
    /// The simulation that has just ended, if any.
    pub ended: Option<Ended>,
}

/// The fate of a simulation.
#[derive(Clone, Debug)]
pub enum Ended {
    /// It was simulated, with this number of events and seconds.
    Point(Key, u64, f64),
    /// It was left out.
    LeftOut(LeftOut),
}

/// One simulation.
struct Job {
    /// Index of its point, in the order of the outcome.
    point: usize,
    key: Key,
    profile: usize,
    seed: u64,
    pairs: u32,
    warm_up: u32,
    /// Its memory in bytes.
    bytes: u64,
}

impl Job {
    fn acquisitions(&self) -> u64 {
        u64::from(self.key.ranks) * u64::from(self.pairs + self.warm_up)
    }
}

/// Messages from a worker thread.
enum Message {
    /// A job has made this many more acquisitions.
    More(u64),
    Ended(usize, Box<Result<Point, String>>),
    Interrupted,
}

/// Bytes of a simulated rank: its stack, its share of page tables, its state and its lines, as measured at 663,552
/// ranks.
const BYTES_PER_RANK: u64 = 6 << 10;

/// Bytes of a rank for each target, if its lock has state for each: a lock's handle, and the line of its queue node.
const BYTES_PER_TARGET: u64 = 200;

/// Bytes that a rank's first acquisition of a table's lock takes: its handle, and the lines of its words and nodes.
const BYTES_PER_USE: u64 = 700;

/// Bytes of the locks of a table that `ranks` ranks use, and of their counts of grants.
fn table_bytes(table: &Table, ranks: u32, acquisitions: u32) -> u64 {
    u64::from(ranks) * u64::from(acquisitions.min(table.locks)) * BYTES_PER_USE + u64::from(table.locks) * 8
}

/// The share of available memory that simulations may take.
const MEMORY: f64 = 0.85;

impl<'a> Simulation<'a> {
    /// Prepares simulations.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`](rmalab_job::Error::Usage) for options that make no sense.
    pub fn new(registry: &'a Registry, options: Options) -> Result<Simulation<'a>> {
        Ok(Simulation { registry, options: options.checked(registry)?, stop: Arc::default() })
    }

    /// The options, with every name filled in.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// A flag that ends the simulations once set; unfinished points do not count.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Acquisitions of all simulations, unmeasured ones included.
    pub(crate) fn acquisitions(&self) -> u64 {
        let of = |&ranks: &u32| u64::from(ranks) * u64::from(self.options.pairs(ranks) + self.options.warm_up(ranks));
        let each = (self.options.simulations() / self.options.ranks.len().max(1)) as u64;
        self.options.ranks.iter().map(of).sum::<u64>() * each
    }

    /// Uses `stop` as the flag that ends them.
    pub fn stopped_by(self, stop: &Arc<AtomicBool>) -> Simulation<'a> {
        Simulation { stop: Arc::clone(stop), ..self }
    }

    /// Runs the simulations, and reports to `progress` a few times a second.
    ///
    /// A point that cannot be simulated is no error: [`Outcome::left_out`] has it, with the reason.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`](rmalab_job::Error::Usage) for a lock that is not registered.
    pub fn run(self, mut progress: impl FnMut(&Progress)) -> Result<Outcome> {
        self.run_with(&mut progress)
    }

    fn run_with(self, progress: &mut dyn FnMut(&Progress)) -> Result<Outcome> {
        let options = &self.options;
        let subjects = options.locks.iter().map(|name| self.registry.find(name)).collect::<Result<Vec<_>>>()?;
        let mut outcome = Outcome::begin(options, subjects.iter().map(|subject| subject.info().clone()).collect());
        let mut jobs = self.jobs(&subjects);
        let points = jobs.iter().map(|job| job.point + 1).max().unwrap_or(0);
        let of = jobs.iter().map(Job::acquisitions).sum();
        // The largest first, so that none runs alone at the end.
        jobs.sort_by_key(|job| std::cmp::Reverse(job.key.ranks));
        let budget = (available_memory() as f64 * MEMORY) as u64;
        let pool = Pool { next: Mutex::new((0, 0)), freed: Condvar::new(), budget };
        let threads = options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
        let mut found: Vec<Vec<Point>> = (0..points).map(|_| Vec::new()).collect();
        let mut left_out: Vec<(usize, LeftOut)> = Vec::new();
        let mut done = 0;
        progress(&Progress { done, of, ended: None });
        let (sender, messages) = mpsc::channel();
        std::thread::scope(|scope| {
            for number in 0..threads.min(jobs.len()) {
                let (pool, jobs, sender, subjects, stop) = (&pool, &jobs, sender.clone(), &subjects, &self.stop);
                let work = move || {
                    while let Some((number, job)) = pool.take(jobs, stop) {
                        let subject = subjects.iter().find(|subject| subject.info().name == job.key.lock);
                        let subject = subject.expect("jobs are of subjects");
                        let setting =
                            Setting { options, profile: &options.profiles[job.profile], most: pool.budget, stop };
                        let came = setting.run(job, subject, &|more| drop(sender.send(Message::More(more))));
                        pool.give_back(job);
                        let _ = sender.send(match came {
                            Ok(Some(point)) => Message::Ended(number, Box::new(Ok(point))),
                            Ok(None) => Message::Interrupted,
                            Err(why) => Message::Ended(number, Box::new(Err(why))),
                        });
                    }
                };
                // The existing threads do the work of one that the system refuses.
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, work)
                    && number == 0
                {
                    return Err(rmalab_atomics::Error::system("starting a thread for simulations", error));
                }
            }
            drop(sender);
            for message in messages {
                let ended = match message {
                    Message::More(more) => {
                        done = (done + more).min(of);
                        None
                    }
                    Message::Interrupted => {
                        outcome.run.complete = false;
                        None
                    }
                    Message::Ended(number, came) => {
                        let job = &jobs[number];
                        Some(match *came {
                            Ok(point) => {
                                let ended = Ended::Point(point.key.clone(), point.events, point.wall_s);
                                found[job.point].push(point);
                                ended
                            }
                            Err(why) => {
                                let left = LeftOut { key: job.key.clone(), why };
                                left_out.push((job.point, left.clone()));
                                Ended::LeftOut(left)
                            }
                        })
                    }
                };
                progress(&Progress { done, of, ended });
            }
            Ok(())
        })?;
        outcome.run.complete &= !self.stop.load(Ordering::Relaxed);
        outcome.points = found.iter().filter(|points| !points.is_empty()).map(|points| Point::median(points)).collect();
        left_out.sort_by_key(|(point, _)| *point);
        left_out.dedup_by_key(|(point, _)| *point);
        outcome.left_out = left_out.into_iter().map(|(_, left)| left).collect();
        Ok(outcome)
    }

    /// All simulations; the simulations of one point follow each other.
    fn jobs(&self, subjects: &[&Subject]) -> Vec<Job> {
        let options = &self.options;
        let mut jobs = Vec::new();
        let mut point = 0;
        for (profile, machine) in options.profiles.iter().enumerate() {
            for load in &options.loads {
                for info in subjects.iter().map(|subject| subject.info()) {
                    for &ranks in &options.ranks {
                        let key =
                            Key { profile: machine.name.clone(), load: load.clone(), lock: info.name.clone(), ranks };
                        let each = if info.square { u64::from(ranks) * BYTES_PER_TARGET } else { 0 };
                        let (pairs, warm_up) = (options.pairs(ranks), options.warm_up(ranks));
                        jobs.extend((0..options.seeds).map(|number| Job {
                            point,
                            key: key.clone(),
                            profile,
                            seed: options.seed.wrapping_add(u64::from(number)),
                            pairs,
                            warm_up,
                            bytes: u64::from(ranks) * (BYTES_PER_RANK + each)
                                + load.table.as_ref().map_or(0, |table| table_bytes(table, ranks, pairs + warm_up)),
                        }));
                        point += 1;
                    }
                }
            }
        }
        jobs
    }
}

/// Assigns jobs so that all running ones fit into memory.
struct Pool {
    /// The next job, and the bytes in use.
    next: Mutex<(usize, u64)>,
    freed: Condvar,
    budget: u64,
}

impl Pool {
    /// Returns the next job once there is memory for it; none after the last one or an interrupt.
    fn take<'j>(&self, jobs: &'j [Job], stop: &AtomicBool) -> Option<(usize, &'j Job)> {
        let mut next = self.next.lock().expect("no thread panics while it holds the lock");
        loop {
            let number = next.0;
            let job = jobs.get(number).filter(|_| !stop.load(Ordering::Relaxed))?;
            let bytes = job.bytes;
            // A job too large for the memory runs alone: the simulator reports why it fails.
            if next.1 == 0 || next.1 + bytes <= self.budget {
                *next = (number + 1, next.1 + bytes);
                return Some((number, job));
            }
            next = self.freed.wait(next).expect("no thread panics while it holds the lock");
        }
    }

    fn give_back(&self, job: &Job) {
        self.next.lock().expect("no thread panics while it holds the lock").1 -= job.bytes;
        self.freed.notify_all();
    }
}

/// Common data of all jobs of one profile.
struct Setting<'a> {
    options: &'a Options,
    profile: &'a Profile,
    /// Limit on the bytes of this process.
    most: u64,
    stop: &'a AtomicBool,
}

impl Setting<'_> {
    /// Runs one simulation. Returns a point, nothing after an interrupt, or a reason. Reports acquisitions to `more`.
    fn run(&self, job: &Job, subject: &Subject, more: &dyn Fn(u64)) -> Result<Option<Point>, String> {
        let options = self.options;
        let ranks = job.key.ranks;
        let begin = Instant::now();
        if job.bytes > self.most {
            let [needed, there] = [job.bytes, self.most].map(gib);
            return Err(format!("it takes about {needed} of memory, and {there} are available"));
        }
        let world = World {
            ranks_per_node: options.machine.ranks_per_node,
            placement: options.machine.placement,
            engines: options.machine.engines,
            local_atomics: options.machine.local_atomics,
            seed: job.seed,
            segment_bytes: SEGMENT_BYTES,
            ..World::new(ranks)
        };
        let simulator = Simulator::new(self.profile, &world).map_err(|error| error.to_string())?;
        let task = Task {
            load: job.key.load.clone(),
            target: options.target,
            home: Rank(options.home),
            exclusive_ranks: options.exclusive_ranks,
            excludes: subject.info().excludes,
            seed: job.seed,
            warm_up: job.warm_up,
            pairs: job.pairs,
        };
        let shared = Rc::new(Shared::new(task, simulator.topology(), Guard::new(self.most)));
        let (body, make) = (Rc::clone(&shared), subject.maker());
        let (mut reported, mut last) = (0, Instant::now());
        let mut report = |done: u64| {
            let done = done.min(job.acquisitions());
            more(done - reported);
            reported = done;
        };
        let (mut stopped, mut latest) = (None, Latest::default());
        let ran = simulator.run_with(
            move |ra| {
                let rank = rmalab_atomics::RemoteAtomics::rank(ra);
                if rank.0.is_multiple_of(16) && !body.guard.goes_on() {
                    return None;
                }
                match rank::run(&*make, ra, &body) {
                    Ok(times) => Some(times),
                    Err(error) => {
                        body.error.borrow_mut().get_or_insert(error);
                        None
                    }
                }
            },
            &mut |progress| {
                if last.elapsed() >= REPORT_INTERVAL {
                    last = Instant::now();
                    report(shared.acquisitions.get());
                    if !shared.guard.goes_on() {
                        return false;
                    }
                }
                if shared.guard.has_ended() {
                    return false;
                }
                shared.hurry.set(progress.events > options.max_events / 2);
                latest.note(progress.events, shared.acquisitions.get());
                stopped = self.too_many(job, progress.events, &latest);
                stopped.is_none() && shared.error.borrow().is_none() && !self.stop.load(Ordering::Relaxed)
            },
        );
        report(u64::MAX);
        if let Some(why) = shared.guard.why.take().or(stopped) {
            return Err(why);
        }
        if let Some(error) = shared.error.take() {
            return Err(error.to_string());
        }
        if self.stop.load(Ordering::Relaxed) && ran.is_err() {
            return Ok(None);
        }
        let ran = ran.map_err(|error| error.to_string())?;
        latest.note(ran.stats.events, job.acquisitions());
        if let Some(why) = self.too_many(job, ran.stats.events, &latest) {
            return Err(why);
        }
        let times: Vec<Times> = ran.results.into_iter().flatten().collect();
        Ok(Some(Point::of(job.key.clone(), &times, &shared, &ran.stats, begin.elapsed())))
    }

    /// Returns the reason to stop a simulation after this many events, if there is one.
    fn too_many(&self, job: &Job, events: u64, latest: &Latest) -> Option<String> {
        let most = self.options.max_events;
        let (acquisitions, since) = (latest.acquisitions, events - latest.events);
        if events > most {
            return Some(format!("it takes more than {most} events; --max-events allows more"));
        }
        // With a table, half of the events end the measurement, and the rest is for the ranks that wait then.
        if job.key.load.table.is_some() {
            return None;
        }
        // The first tenth of a simulation predicts one that will not end.
        let expected = events as f64 * job.acquisitions() as f64 / acquisitions.max(1) as f64;
        let begun = (most / 10).max(START * u64::from(job.key.ranks));
        (events > begun && expected > 4.0 * most as f64).then(|| {
            let mut why = format!(
                "it would take {expected:.0e} events, and {most} are allowed; use fewer --pairs or more --max-events"
            );
            if since > events / 2 {
                why += &format!(
                    ". No rank was done with an acquisition in the last {since} events: `verify --lock {}` shows \
                     whether ranks wait for ever",
                    job.key.lock
                );
            }
            why
        })
    }
}

/// The acquisitions of a simulation, and its events when their number last grew.
#[derive(Default)]
struct Latest {
    acquisitions: u64,
    events: u64,
}

impl Latest {
    fn note(&mut self, events: u64, acquisitions: u64) {
        if acquisitions > self.acquisitions {
            *self = Latest { acquisitions, events };
        }
    }
}

/// Events of a rank ahead of the first prediction from its acquisitions.
const START: u64 = 20;

/// Bytes of a rank's segment; only touched pages take memory.
const SEGMENT_BYTES: u64 = 1 << 36;

/// Time between two reports of a simulation's progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of memory that the kernel could give without swapping, including the memory of this process.
pub(crate) fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    free.map_or(u64::MAX >> 1, |kib| kib << 10).saturating_add(rank::resident().unwrap_or(0))
}
