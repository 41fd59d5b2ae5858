//! loom: every execution of a check under (most of) the C11 memory model, with the memory orderings of the local backend.
//!
//! The words are loom's atomics. A fetch_add, a compare_and_swap, a fetch_store, a get and a wait's look are what the
//! backends over shared memory make of them (`atomics/src/mapped.rs`): the processor's atomics, sequentially consistent;
//! a put is a swap there, and so here. Their flush has nothing to do, and neither has this one.
//!
//! # What loom adds to the explorer
//! Whether two sections that exclude each other are also *ordered*: loom follows which call synchronizes with which, and
//! a section that is not ordered after another one that it excludes is a data race, in whatever order the two were run.
//! Each target has a cell of loom's, which a writer writes and a reader reads as it enters and as it leaves; each word of
//! data has another, which bulk operations write and read. Nothing is kept in the cells: loom looks at the accesses
//! alone, and where there is no race, the value is that of the last write. Bulk operations are relaxed, as those of the
//! backends are; the fences there, which serve waiting ranks, are left out, so that they cannot hide a race.
//!
//! # What loom does not do
//! Its limit is 5 threads, of which one only starts the others: 4 ranks at the most. It merges no states, so that the
//! number of executions grows much faster than the explorer's number of states. It does not reorder a thread's own
//! operations, nor does it know the models of a network that is late.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use rmalab_atomics::controlled::{Answer, Call, Executor};
use rmalab_atomics::{Address, Rank};

use crate::check::Check;
use crate::concurrent::{Limit, Observer, Outcome, Progress, Run, quietly};
use crate::play::{Event, Player};
use crate::{Access, Error, Property, Result};

/// The most ranks: loom's threads without the one that starts them.
pub const MAX_RANKS: u32 = loom::MAX_THREADS as u32 - 1;

/// The memory orderings that calls are carried out with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Orderings {
    /// Those of the backends over shared memory: sequentially consistent.
    #[default]
    SeqCst,
    /// Those of a backend that acquires and releases, and gives no order of all operations beyond that. Loom leaves out
    /// executions here: it may find something, and proves nothing.
    AcquireRelease,
    /// None at all: a backend that is broken, on which every lock has to fail.
    Relaxed,
}

impl Orderings {
    const fn update(self) -> Ordering {
        match self {
            Orderings::SeqCst => Ordering::SeqCst,
            Orderings::AcquireRelease => Ordering::AcqRel,
            Orderings::Relaxed => Ordering::Relaxed,
        }
    }

    const fn load(self) -> Ordering {
        match self {
            Orderings::SeqCst => Ordering::SeqCst,
            Orderings::AcquireRelease => Ordering::Acquire,
            Orderings::Relaxed => Ordering::Relaxed,
        }
    }
}

/// How far a run goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The most preemptions of an execution: switches from a rank that could go on; any number if nothing is said.
    pub preemptions: Option<u32>,
    /// How often a rank may poll in one acquisition by operations that write; later polls are carried out in one order
    /// only. Polls that only read need no bound.
    pub polls: u32,
    /// The most branches of an execution: calls, and switches between ranks.
    pub max_branches: usize,
    /// The most executions.
    pub max_executions: Option<u64>,
    /// The longest time.
    pub max_time: Option<Duration>,
    /// The memory orderings.
    pub orderings: Orderings,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            preemptions: None,
            polls: 1,
            max_branches: 2_000,
            max_executions: None,
            max_time: None,
            orderings: Orderings::SeqCst,
        }
    }
}

/// The words that executions have named so far: loom wants all atomics to be there before the ranks start.
type Known = Arc<Mutex<Vec<Address>>>;

/// Makes every execution of `check`.
///
/// `watch` is told of the progress some times a second, and ends the run by returning `false`.
///
/// The schedule of a counterexample is the order of the calls. [`replay`](crate::replay) finds the same violation along
/// it, unless it is a race of sections that did not overlap in time, or the orderings are weaker than
/// [`Orderings::SeqCst`].
///
/// # Errors
///
/// When the check makes no sense, [`Error::Unsupported`] when it has more ranks than [`MAX_RANKS`] or another network
/// than the consistent one, and [`Error::Unsound`] when loom fails.
pub fn run(check: &Check, options: &Options, watch: &dyn Fn(&Progress) -> bool) -> Result<Outcome> {
    if check.active() > MAX_RANKS {
        let why = format!("it runs {MAX_RANKS} ranks at the most, and {} has {}", check.scenario, check.active());
        return Err(Error::Unsupported { engine: "loom", why });
    }
    let run = Run::new("loom", check)?;
    let (shared, own) = (Arc::clone(&run), options.clone());
    let bounded = options.preemptions.is_some() || options.orderings != Orderings::SeqCst;
    run.conduct(options.max_time, bounded, watch, move || explore(&shared, &own))
}

fn explore(run: &Arc<Run>, options: &Options) -> Result<()> {
    let known = Known::default();
    loop {
        let before = lock(&known).len();
        let ended = quietly(|| model(run, options, &known));
        if lock(&known).len() > before {
            run.again();
            continue;
        }
        return match ended {
            Ok(()) => Ok(()),
            Err(_) if run.over() => Ok(()),
            Err(panicked) if panicked.text.starts_with("Model exceeded maximum number of branches") => {
                run.reaches(Limit::Branches);
                Ok(())
            }
            Err(panicked) => Err(Error::Unsound(format!("loom failed: {}", panicked.text))),
        };
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the executions, by the only way that loom has; the reason has been put down before.
fn abandon() -> ! {
    panic!("the run is over")
}

fn model(run: &Arc<Run>, options: &Options, known: &Known) {
    // What loom reads from the environment does not apply here: every field is set.
    let mut builder = loom::model::Builder::new();
    builder.max_threads = loom::MAX_THREADS;
    builder.max_branches = options.max_branches;
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.preemption_bound = options.preemptions.map(|most| most.min(u32::from(u8::MAX)) as usize);
    builder.checkpoint_file = None;
    builder.checkpoint_interval = usize::MAX;
    builder.expect_explicit_explore = false;
    builder.location = false;
    builder.log = false;
    let (run, options, known) = (Arc::clone(run), options.clone(), Arc::clone(known));
    builder.check(move || {
        if !run.begins(options.max_executions) {
            abandon();
        }
        let world = Arc::new(World::new(&run, &options, &known));
        for rank in (0..run.check.active()).map(Rank) {
            let world = Arc::clone(&world);
            let thread = loom::thread::Builder::new().stack_size(STACK);
            thread.spawn(move || world.play(rank)).expect("loom's threads are made of memory alone");
        }
    });
}

/// The stack of a rank, in loom's unit, words: enough for a panic's text.
const STACK: usize = (256 << 10) / size_of::<usize>();

/// One execution.
struct World {
    run: Arc<Run>,
    observer: Observer,
    options: Options,
    known: Known,
    words: BTreeMap<Address, AtomicU64>,
    /// The data of bulk operations, word by word.
    data: BTreeMap<Address, Mutex<UnsafeCell<()>>>,
    /// What the lock protects, target by target. Loom's cells are not `Sync`; the mutexes, which are, never wait.
    sections: Vec<Mutex<UnsafeCell<()>>>,
    /// The ranks that are blocked.
    parked: Mutex<Vec<Option<Parked>>>,
    /// A panic is on its way out, which ends the execution.
    given_up: AtomicBool,
}

impl World {
    fn new(run: &Arc<Run>, options: &Options, known: &Known) -> World {
        let addresses = lock(known).clone();
        World {
            run: Arc::clone(run),
            observer: Observer::new(&run.check, Some(options.polls)),
            options: options.clone(),
            known: Arc::clone(known),
            words: addresses.iter().map(|&at| (at, AtomicU64::new(0))).collect(),
            data: addresses.iter().map(|&at| (at, Mutex::new(UnsafeCell::new(())))).collect(),
            sections: (0..run.check.scenario.targets()).map(|_| Mutex::new(UnsafeCell::new(()))).collect(),
            parked: Mutex::new((0..run.check.active()).map(|_| None).collect()),
            given_up: AtomicBool::new(false),
        }
    }

    fn play(&self, rank: Rank) {
        let one = One { world: self, rank, access: Cell::new(None) };
        let wrong = match quietly(|| self.run.check.play(rank, &one)) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.breaks()),
            Err(panicked) if self.given_up.load(Ordering::Relaxed) || panicked.is_of("loom-") => {
                // Those of the other ranks that loom now unwinds are no findings.
                self.given_up.store(true, Ordering::Relaxed);
                resume_unwind(panicked.payload)
            }
            Err(panicked) => Some((Property::Invariant, format!("panicked: {}", panicked.text))),
        };
        self.observer.ended(rank, wrong);
        self.go_on();
        if self.observer.finished() {
            self.run.ends(&self.observer, false);
        }
    }

    /// Goes on, unless something is broken.
    fn go_on(&self) {
        if self.observer.stopped() {
            self.run.ends(&self.observer, false);
            self.give_up();
        }
    }

    /// Lets those ranks go on that the last call concerns.
    fn unpark(&self) {
        for (rank, place) in (0..).map(Rank).zip(lock(&self.parked).iter_mut()) {
            let concerned = |parked: &mut Parked| match parked.version {
                Some(version) => self.observer.awaited_version(rank) != version,
                None => self.observer.ready(rank),
            };
            if let Some(parked) = place.take_if(concerned) {
                parked.thread.unpark();
            }
        }
    }

    fn give_up(&self) -> ! {
        self.given_up.store(true, Ordering::Relaxed);
        abandon()
    }

    /// The place of the word at `address`; one that no execution has named before ends this one.
    fn place<'p, T>(&self, places: &'p BTreeMap<Address, T>, address: Address) -> &'p T {
        let address = address.unwatched();
        places.get(&address).unwrap_or_else(|| {
            lock(&self.known).push(address);
            self.give_up()
        })
    }
}

/// A rank that is blocked.
struct Parked {
    thread: loom::thread::Thread,
    /// The version of the word that it waits for; none if it polls.
    version: Option<u64>,
}

/// One rank of an execution.
struct One<'w> {
    world: &'w World,
    rank: Rank,
    /// What it acquires.
    access: Cell<Option<Access>>,
}

impl One<'_> {
    fn word(&self, address: Address) -> &AtomicU64 {
        self.world.place(&self.world.words, address)
    }

    /// The word at `at`, as the orderings let this rank see it.
    ///
    /// A sequentially consistent load gives the latest value and acquires, and so does an addition of nothing that
    /// releases nothing. Loom carries out the second one better. Its load can give the value that the atomic was made with
    /// after that was overwritten. And of several loads before a write, its search compares the last one only with the
    /// write, so that it leaves out orders of the others and the write.
    fn load(&self, at: Address) -> u64 {
        let word = self.word(at);
        match self.world.options.orderings {
            Orderings::SeqCst => word.fetch_add(0, Ordering::Acquire),
            weaker => word.load(weaker.load()),
        }
    }

    /// Lets loom see that this rank writes, or reads, what is in the cell; what loom objects to is a race.
    fn touch(&self, cell: &Mutex<UnsafeCell<()>>, writes: bool, race: Property, what: &str) {
        let cell = lock(cell);
        let touched = quietly(|| if writes { cell.with_mut(|_| ()) } else { cell.with(|_| ()) });
        drop(cell);
        if let Err(panicked) = touched {
            let why = panicked.text.lines().next().unwrap_or_default();
            let seen = format!("{what} are not ordered with those of another rank, which they exclude: loom: {why}");
            self.world.observer.broken(self.rank, race, seen);
            self.world.go_on();
        }
    }

    /// Touches what the current access protects.
    fn touch_sections(&self) {
        let world = self.world;
        let Some(access) = self.access.get() else { return };
        let alone = world.run.check.subject.excludes(access, access);
        let targets = match access {
            Access::Read | Access::All => 0..world.sections.len(),
            Access::Write => 0..1,
            Access::Shared(target) | Access::Exclusive(target) => target.index()..target.index() + 1,
        };
        // With the real orderings, sections that nothing orders are sections that can overlap.
        let race = match world.options.orderings {
            Orderings::SeqCst => Property::MutualExclusion,
            Orderings::AcquireRelease | Orderings::Relaxed => Property::Visibility,
        };
        for cell in &world.sections[targets] {
            self.touch(cell, alone, race, &format!("the accesses of {} inside ({access})", self.rank));
        }
    }

    fn touch_data(&self, at: Address, writes: bool) {
        let cell = self.world.place(&self.world.data, at);
        self.touch(cell, writes, Property::Visibility, &format!("the accesses of {} to the data at {at}", self.rank));
    }

    fn wait(&self, call: Call, own: Address, holds: impl Fn(u64) -> bool) -> u64 {
        let observer = &self.world.observer;
        loop {
            let value = self.load(own);
            if holds(value) {
                return value;
            }
            observer.issues(self.rank, call);
            self.world.go_on();
            if observer.ready(self.rank) {
                // A weak load has missed a write that is there; after this it will not.
                loom::thread::yield_now();
            } else {
                self.park(Some(observer.awaited_version(self.rank)));
            }
        }
    }

    fn pause(&self, call: Call) {
        let world = self.world;
        world.observer.issues(self.rank, call);
        world.go_on();
        if world.observer.cut() {
            loom::skip_branch();
        }
        if !world.observer.ready(self.rank) {
            self.park(None);
        }
    }

    /// Blocks until the word that this rank waits for has another version, or until it can poll again.
    fn park(&self, version: Option<u64>) {
        let parked = Parked { thread: loom::thread::current(), version };
        lock(&self.world.parked)[self.rank.index()] = Some(parked);
        loom::thread::park();
    }
}

impl Executor for One<'_> {
    fn call(&self, call: Call) -> Answer {
        let (update, load) = (self.world.options.orderings.update(), self.world.options.orderings.load());
        let answer = match call {
            Call::FetchAdd { at, value } => Answer::Word(self.word(at).fetch_add(value, update)),
            Call::CompareAndSwap { at, expected, desired } => {
                match self.word(at).compare_exchange(expected, desired, update, load) {
                    Ok(old) | Err(old) => Answer::Word(old),
                }
            }
            Call::FetchStore { at, value } => Answer::Word(self.word(at).swap(value, update)),
            Call::Get { at } => Answer::Word(self.load(at)),
            Call::Put { at, value } => {
                self.word(at).swap(value, update);
                Answer::Done
            }
            Call::BulkPut { at, .. } => {
                self.touch_data(at, true);
                Answer::Done
            }
            Call::BulkGet { at } => {
                self.touch_data(at, false);
                Answer::Word(self.world.observer.word(at))
            }
            Call::WaitUntil { own, until, .. } => {
                Answer::Word(self.wait(call, self.rank.at(own), |value| until.holds(value)))
            }
            Call::Pause { .. } => {
                self.pause(call);
                Answer::Done
            }
            Call::Flush { .. } | Call::FenceEverywhere => Answer::Done,
            // Time stands still: no deadline passes.
            Call::Now => Answer::Word(0),
        };
        self.world.observer.answered(self.rank, call, answer, self.world.options.orderings == Orderings::SeqCst);
        self.world.go_on();
        self.world.unpark();
        answer
    }
}

impl Player for One<'_> {
    fn event(&self, event: Event, _handle: &dyn Debug) {
        self.world.observer.event(self.rank, event);
        self.world.go_on();
        match event {
            Event::Begins(access) => self.access.set(Some(access)),
            Event::Entered | Event::Leaves => self.touch_sections(),
            Event::Saw { .. } | Event::Left => {}
        }
    }
}
