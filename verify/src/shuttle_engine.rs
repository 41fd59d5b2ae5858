//! shuttle: executions of a check for many ranks, in orders that are random, by priorities, or exhaustive.
//!
//! Shuttle chooses the rank that makes the next call. Its memory is sequentially consistent. So this engine finds
//! violations by the order of calls, and none that need a weaker memory or a late network. A flush has no effect in
//! such a memory, so it is no separate decision. The scheduler sees a waiting rank only once the rank can continue (see
//! `concurrent`), so that no execution is spent on failed polls.
//!
//! A random run that finds nothing proves nothing: it ends as [`Finding::Incomplete`]. Only [`Method::Exhaustive`] can
//! end as [`Finding::Holds`].
//!
//! # Counterexamples
//! The schedule of a [`Counterexample`] is the order of the calls that broke the property. Together with the parameters
//! of the check, it is a complete file. [`replay`] repeats it under shuttle, and [`replay`](crate::replay) without
//! shuttle.
//!
//! [`Counterexample`]: crate::Counterexample
//! [`Finding::Holds`]: crate::Finding::Holds
//! [`Finding::Incomplete`]: crate::Finding::Incomplete

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::{Answer, Call, Executor};
use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};

use crate::check::Check;
use crate::concurrent::{Observer, Run};
use crate::counterexample::Choice;
use crate::network::Network;
use crate::outcome::{Limit, Outcome, Watch};
use crate::panics::{Exit, lock};
use crate::play::{Event, Player};
use crate::{Error, Result, Violation};

/// The method that chooses the order of the calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    /// A random rank for each call; all enabled ranks are equally likely.
    Random {
        /// The seed of the random numbers.
        seed: u64,
    },
    /// Probabilistic concurrency testing: ranks have random priorities, and a rank loses its priority at `depth - 1`
    /// random moments. S. Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs",
    /// ASPLOS 2010, DOI 10.1145/1736020.1736040.
    Pct {
        /// The seed of the random numbers.
        seed: u64,
        /// The number of orderings of two calls that a bug may need; at least 1.
        depth: u32,
    },
    /// Every order once.
    Exhaustive,
}

/// The limits of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The method that chooses the order of the calls.
    pub method: Method,
    /// The number of executions; for [`Method::Exhaustive`], the limit.
    pub executions: u64,
    /// The limit for calls of an execution, which is cut there.
    pub max_steps: u64,
    /// For [`Method::Exhaustive`]: the number of polls by writes of a rank in one acquisition. An execution with more
    /// polls is cut there. Polls that only read need no bound.
    pub polls: u32,
    /// The limit for the time.
    pub max_time: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            method: Method::Random { seed: 0 },
            executions: 10_000,
            max_steps: 1_000_000,
            polls: 1,
            max_time: None,
        }
    }
}

/// Runs executions of `check`.
///
/// The same options give the same executions, unless the environment variable `SHUTTLE_RANDOM_SEED` replaces the seed.
///
/// # Errors
///
/// Returns an error if the check is invalid, and [`Error::Unsound`] if shuttle fails. [`Error::Unsupported`] for other
/// networks than the consistent one, and for PCT of depth 0.
pub fn run(check: &Check, options: &Options, watch: Watch<'_>) -> Result<Outcome> {
    let most = usize::try_from(options.executions).unwrap_or(usize::MAX);
    let (inner, polls): (Inner, _) = match options.method {
        Method::Random { seed } => (Inner::Random(seed), None),
        Method::Pct { depth: 0, .. } => {
            return Err(Error::Unsupported { engine: "shuttle", why: "PCT needs a depth of at least 1".to_owned() });
        }
        Method::Pct { seed, depth } => {
            (Inner::One(Box::new(PctScheduler::new_from_seed(seed, depth as usize, most))), None)
        }
        Method::Exhaustive => (Inner::One(Box::new(DfsScheduler::new(None, false))), Some(options.polls)),
    };
    execute(check, inner, polls, options, watch).map(|(outcome, _)| outcome)
}

/// Runs `check` along `schedule` under shuttle, and returns the violation, if any.
///
/// # Errors
///
/// [`Error::Schedule`] if a rank cannot continue at its step, and the errors of [`run`].
pub fn replay(check: &Check, schedule: &[Choice]) -> Result<Option<Violation>> {
    let mut ranks = Vec::new();
    for (step, choice) in schedule.iter().enumerate() {
        match *choice {
            Choice::Step(rank) => ranks.push(rank),
            Choice::Deadline(_) | Choice::Lapse(_) => {
                return Err(Error::Schedule { step, why: "time stands still under shuttle".to_owned() });
            }
            Choice::Crash(_) | Choice::CrashAmid(_) | Choice::Restart(_) | Choice::Notice { .. } => {
                return Err(Error::Schedule { step, why: "no rank fails under shuttle".to_owned() });
            }
            Choice::Arrive { .. } => {
                return Err(Error::Schedule { step, why: "shuttle's memory has no late puts".to_owned() });
            }
        }
    }
    let options = Options { executions: 1, ..Options::default() };
    let (outcome, mismatch) = execute(check, Inner::Recorded(ranks), None, &options, &|_| true)?;
    match (outcome.violation(), mismatch) {
        (Some(counterexample), _) => Ok(Some(counterexample.violation.clone())),
        (None, Some((step, why))) => Err(Error::Schedule { step, why }),
        (None, None) => Ok(None),
    }
}

/// A step of a recorded schedule that was not possible, and the reason.
type Mismatch = Option<(usize, String)>;

fn execute(
    check: &Check,
    inner: Inner,
    polls: Option<u32>,
    options: &Options,
    watch: Watch<'_>,
) -> Result<(Outcome, Mismatch)> {
    let run = Run::new("shuttle", check)?;
    let world = Arc::new(World { run: Arc::clone(&run), polls, current: Mutex::default(), mismatch: Mutex::default() });
    let director = Director { inner, world: Arc::clone(&world), options: options.clone(), started: 0, steps: 0 };
    let shared = Arc::clone(&world);
    let outcome = run.conduct(options.max_time, false, watch, move || {
        let ranks = director.world.run.check.active();
        let mut config = shuttle::Config::new();
        config.stack_size = STACK;
        config.failure_persistence = shuttle::FailurePersistence::None;
        config.max_steps = shuttle::MaxSteps::None;
        config.silence_warnings = true;
        shuttle::Runner::new(director, config).run(move || shared.play(ranks));
        Ok(())
    })?;
    let mismatch = lock(&world.mismatch).take();
    Ok((outcome, mismatch))
}

/// More rounds than a lock usually polls before it does something else.
const RETRIES: u32 = 300;

/// The stack of a rank in bytes: enough for the text of a panic.
const STACK: usize = 256 << 10;

/// The data that shuttle's threads and the scheduler share.
struct World {
    run: Arc<Run>,
    polls: Option<u32>,
    current: Mutex<Option<Arc<Execution>>>,
    mismatch: Mutex<Mismatch>,
}

/// One execution.
struct Execution {
    observer: Observer,
    /// True if calls without an effect are decisions, too, as in recorded schedules.
    every_call: bool,
}

impl World {
    fn current(&self) -> Arc<Execution> {
        Arc::clone(lock(&self.current).as_ref().expect("the director creates it first"))
    }

    /// The main thread of an execution.
    fn play(&self, ranks: u32) {
        let execution = self.current();
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let one = One { execution: Arc::clone(&execution), rank: Rank(rank), exit: Exit::default() };
                let check = Arc::clone(&self.run.check);
                shuttle::thread::spawn(move || one.play(&check))
            })
            .collect();
        for thread in threads {
            // A rank that panics reports to the observer, and its thread ends normally.
            let _ = thread.join();
        }
    }
}

/// One rank of an execution.
struct One {
    execution: Arc<Execution>,
    rank: Rank,
    exit: Exit,
}

impl One {
    fn play(&self, check: &Check) {
        self.execution.observer.plays(self.rank, &self.exit, || check.play(self.rank, self));
    }
}

impl Executor for One {
    fn call(&self, call: Call) -> Answer {
        let observer = &self.execution.observer;
        observer.issues(self.rank, call);
        self.exit.guard(|| match call {
            // These change nothing, and nothing changes them.
            Call::Flush { .. } | Call::Order { .. } | Call::FenceEverywhere | Call::Now
                if !self.execution.every_call => {}
            Call::Pause { .. } => shuttle::thread::yield_now(),
            // Shuttle has no time: a sleep only lets the director choose.
            _ => shuttle::thread::sleep(Duration::ZERO),
        });
        observer.carry_out(self.rank, call)
    }
}

impl Player for One {
    fn event(&self, event: Event, _handle: &dyn Debug) {
        self.execution.observer.event(self.rank, event);
    }
}

/// The choice among the ranks that can continue.
enum Inner {
    /// A new scheduler for each execution, from this seed on. Shuttle's scheduler prints its seed if it is dropped too
    /// early.
    Random(u64),
    /// The random scheduler of one execution, and the seed of the next one.
    Drawing(RandomScheduler, u64),
    /// One scheduler for all executions.
    One(Box<dyn Scheduler + Send>),
    /// A recorded order.
    Recorded(Vec<Rank>),
}

/// A scheduler that lets all ranks begin. Then it offers the ranks that can continue to the inner scheduler, until a
/// property is broken.
struct Director {
    inner: Inner,
    world: Arc<World>,
    options: Options,
    /// The number of ranks that have begun in this execution.
    started: u32,
    /// The number of calls chosen in this execution.
    steps: u64,
}

impl Director {
    /// Adds the last execution to the results.
    fn close(&mut self) {
        if let Some(execution) = lock(&self.world.current).take() {
            let cut = self.steps > self.options.max_steps;
            self.world.run.ends(&execution.observer, cut);
        }
    }
}

impl Scheduler for Director {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.close();
        if let Inner::Drawing(used, seed) = &mut self.inner {
            // It served one execution, and must drop its seed.
            let none = used.new_execution();
            debug_assert!(none.is_none());
            self.inner = Inner::Random(*seed);
        }
        if self.world.run.over() {
            return None;
        }
        let schedule = match &mut self.inner {
            Inner::Random(seed) => {
                let (seed, next) = (*seed, seed.wrapping_add(1));
                let mut random = RandomScheduler::new_from_seed(seed, 1);
                let schedule = random.new_execution();
                self.inner = Inner::Drawing(random, next);
                schedule
            }
            Inner::Drawing(..) => unreachable!("it was replaced above"),
            Inner::One(one) => one.new_execution(),
            Inner::Recorded(_) => Some(Schedule::new(0)),
        };
        // The scheduler has run all executions, or the requested number.
        if schedule.is_none() && self.options.method != Method::Exhaustive {
            self.world.run.reaches(Limit::Executions);
        }
        let schedule = schedule?;
        if !self.world.run.begins(Some(self.options.executions)) {
            if let Inner::Drawing(used, _) = &mut self.inner {
                used.new_execution();
            }
            return None;
        }
        (self.started, self.steps) = (0, 0);
        let observer = Observer::new(&self.world.run.check, self.world.polls, RETRIES, Network::Sc);
        let every_call = matches!(self.inner, Inner::Recorded(_));
        *lock(&self.world.current) = Some(Arc::new(Execution { observer, every_call }));
        Some(schedule)
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        let execution = self.world.current();
        let observer = &execution.observer;
        // The time limit can end the run, too.
        if observer.stopped() || observer.cut() || self.world.run.over() {
            return None;
        }
        let ranks = self.world.run.check.active();
        // First the main thread starts all ranks, then each rank runs to its first call.
        let of = |rank: u32| runnable.iter().find(|task| usize::from(task.id()) == rank as usize + 1);
        if self.started < ranks {
            let main = runnable.iter().find(|task| usize::from(task.id()) == 0);
            if let (Some(task), None) = (main, of(ranks - 1)) {
                return Some(task.id());
            }
            self.started += 1;
            return of(self.started - 1).map(|task| task.id());
        }
        let able: Vec<&Task> = runnable
            .iter()
            .copied()
            .filter(|task| {
                let id = usize::from(task.id());
                id > 0 && observer.ready(Rank(id as u32 - 1))
            })
            .collect();
        if able.is_empty() {
            // All ranks have ended; a deadlock would have stopped the execution.
            return runnable.first().map(|task| task.id());
        }
        self.steps += 1;
        if self.steps > self.options.max_steps {
            return None;
        }
        match &mut self.inner {
            Inner::Random(_) => unreachable!("a new execution replaces it"),
            Inner::Drawing(random, _) => random.next_task(&able, current, is_yielding),
            Inner::One(one) => one.next_task(&able, current, is_yielding),
            Inner::Recorded(ranks) => {
                let step = self.steps as usize - 1;
                // A schedule may end before the ranks do.
                let rank = *ranks.get(step)?;
                let task = able.iter().find(|task| usize::from(task.id()) == rank.index() + 1);
                if task.is_none() {
                    lock(&self.world.mismatch).get_or_insert((step, format!("{rank} cannot go on")));
                }
                task.map(|task| task.id())
            }
        }
    }

    fn next_u64(&mut self) -> u64 {
        // Nothing here asks shuttle for random data.
        0
    }
}
