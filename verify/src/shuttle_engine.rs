//! shuttle: executions of a check in orders drawn at random, by priorities, or one after the other, for many ranks.
//!
//! Shuttle chooses which rank makes its next call; the memory is sequentially consistent, as all of shuttle's own is.
//! So this engine finds what an order of the calls can do, and nothing that needs a weaker memory or a late network. A
//! flush, which has nothing to do in such a memory, is no decision of its own. A rank that waits is offered to the
//! scheduler only once it can go on (see `concurrent`), so that no execution is spent on looks in vain.
//!
//! Executions drawn at random that find nothing prove nothing: such a run ends as [`Finding::Incomplete`]. Only
//! [`Method::Exhaustive`] can end as [`Finding::Holds`].
//!
//! # Counterexamples
//! The order of the calls that broke something is the schedule of a [`Counterexample`], with all that the check
//! consists of: saved, it is a file that replays by itself, by [`replay`] under shuttle and by
//! [`replay`](crate::replay) without it.
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

/// How the order of the calls is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    /// Each call's rank at random, all of those that can go on being equally likely.
    Random {
        /// Where the random numbers start.
        seed: u64,
    },
    /// Probabilistic concurrency testing: ranks have random priorities, and one loses its own at `depth - 1` random
    /// moments. S. Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS
    /// 2010, DOI 10.1145/1736020.1736040.
    Pct {
        /// Where the random numbers start.
        seed: u64,
        /// How many orderings of two calls a bug may need; at least 1.
        depth: u32,
    },
    /// One order after the other, until all have been made.
    Exhaustive,
}

/// How far a run goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How the order of the calls is chosen.
    pub method: Method,
    /// How many executions there are; of [`Method::Exhaustive`], the most.
    pub executions: u64,
    /// The most calls of an execution; it is cut there.
    pub max_steps: u64,
    /// Of [`Method::Exhaustive`]: how often a rank may poll in one acquisition by operations that write; an execution
    /// in which one polls more often is cut. Polls that only read need no bound.
    pub polls: u32,
    /// The longest time.
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

/// Makes executions of `check`.
///
/// The same options give the same executions, unless the environment has `SHUTTLE_RANDOM_SEED`, which shuttle puts in
/// the place of the seed.
///
/// # Errors
///
/// When the check makes no sense, [`Error::Unsupported`] for another network than the consistent one and for a PCT of
/// depth 0, and [`Error::Unsound`] when shuttle fails.
pub fn run(check: &Check, options: &Options, watch: Watch<'_>) -> Result<Outcome> {
    let most = usize::try_from(options.executions).unwrap_or(usize::MAX);
    let (inner, polls): (Inner, _) = match options.method {
        Method::Random { seed } => (Inner::Random(seed), None),
        Method::Pct { depth: 0, .. } => {
            return Err(Error::Unsupported { engine: "shuttle", why: "a PCT needs a depth of 1 at least".to_owned() });
        }
        Method::Pct { seed, depth } => {
            (Inner::One(Box::new(PctScheduler::new_from_seed(seed, depth as usize, most))), None)
        }
        Method::Exhaustive => (Inner::One(Box::new(DfsScheduler::new(None, false))), Some(options.polls)),
    };
    execute(check, inner, polls, options, watch).map(|(outcome, _)| outcome)
}

/// Makes the calls of `check` in the order of `schedule`, under shuttle; returns what it breaks.
///
/// # Errors
///
/// [`Error::Schedule`] when a rank cannot go on at its step, and those of [`run`].
pub fn replay(check: &Check, schedule: &[Choice]) -> Result<Option<Violation>> {
    let mut ranks = Vec::new();
    for (step, choice) in schedule.iter().enumerate() {
        match *choice {
            Choice::Step(rank) => ranks.push(rank),
            Choice::Arrive { .. } => {
                return Err(Error::Schedule { step, why: "shuttle's memory has no puts that arrive".to_owned() });
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

/// A step of a recorded schedule that could not be taken, and why.
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

/// The stack of a rank, in bytes: enough for a panic's text.
const STACK: usize = 256 << 10;

/// What shuttle's threads and the scheduler share.
struct World {
    run: Arc<Run>,
    polls: Option<u32>,
    current: Mutex<Option<Arc<Execution>>>,
    mismatch: Mutex<Mismatch>,
}

/// One execution.
struct Execution {
    observer: Observer,
    /// Whether also those calls are decisions that change nothing, as in recorded schedules.
    every_call: bool,
}

impl World {
    fn current(&self) -> Arc<Execution> {
        Arc::clone(lock(&self.current).as_ref().expect("the director makes it before anything runs"))
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
            Call::Flush { .. } | Call::FenceEverywhere | Call::Now if !self.execution.every_call => {}
            Call::Pause { .. } => shuttle::thread::yield_now(),
            // Shuttle knows no time: to sleep is to let the director choose.
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

/// What chooses among the ranks that can go on.
enum Inner {
    /// A new scheduler for each execution, from this seed on: shuttle's prints its seed when it is dropped too early.
    Random(u64),
    /// The random scheduler of one execution, and the next one's seed.
    Drawing(RandomScheduler, u64),
    /// One scheduler for all.
    One(Box<dyn Scheduler + Send>),
    /// A recorded order.
    Recorded(Vec<Rank>),
}

/// A scheduler that lets all ranks begin, then offers those that can go on to the one inside, until something is
/// broken.
struct Director {
    inner: Inner,
    world: Arc<World>,
    options: Options,
    /// How many ranks have begun, in this execution.
    started: u32,
    /// How many calls have been chosen, in this execution.
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
            // It was made for one execution, and puts its seed away.
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
            Inner::Drawing(..) => unreachable!("it was put away above"),
            Inner::One(one) => one.new_execution(),
            Inner::Recorded(_) => Some(Schedule::new(0)),
        };
        // A scheduler that has nothing left has made all executions, or as many as were asked for.
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
        let observer = Observer::new(&self.world.run.check, self.world.polls, Network::Sc);
        let every_call = matches!(self.inner, Inner::Recorded(_));
        *lock(&self.world.current) = Some(Arc::new(Execution { observer, every_call }));
        Some(schedule)
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        let execution = self.world.current();
        let observer = &execution.observer;
        // The run is over for other reasons than this execution when its time is up.
        if observer.stopped() || observer.cut() || self.world.run.over() {
            return None;
        }
        let ranks = self.world.run.check.active();
        // First the main thread starts all ranks, then each of them comes to its first call.
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
            Inner::Random(_) => unreachable!("a new execution draws"),
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
