//! loom: every execution of a check under (most of) the C11 memory model, with the memory orderings of the local
//! backend.
//!
//! The words are loom's atomics. A fetch_add, a compare_and_swap, a fetch_store, a get and a wait's look are what the
//! backends over shared memory make of them (`atomics/src/backend/mapped.rs`): the processor's atomics, sequentially
//! consistent.
//!
//! # Puts
//! A put of those backends is a store with release, and the fence after it is the flush's. So the processor may hold
//! the store back while it reads other words: x86-TSO (P. Sewell et al., "x86-TSO: A Rigorous and Usable Programmer's
//! Model for x86 Multiprocessors", CACM 2010, DOI 10.1145/1785414.1785443). AArch64 allows less. Here, each rank has a
//! store buffer, in which its puts wait, and where the rank itself reads them. An atomic operation, a flush, a pause, a
//! wait that has to wait, and the end of the rank come after all puts of the rank. A get, and a look of a wait that
//! ends it, is made once for each number of the rank's oldest puts that are written before it. A fence for all ranks
//! waits until all buffers are empty.
//!
//! Whether a put is written before a look is a branch of loom's search. Loom offers no branch but a load that can
//! return one value or another. So each branch is a load of its own atomic, to which the first thread has stored
//! without any order to the ranks.
//!
//! A put releases what its rank did before the put, and nothing that the rank does while the put waits. So the release
//! is a fence where the rank puts, and the put is written without one. What is written is a swap, and no store of
//! loom's: loom does not order the stores of two threads to one word, so that an atomic operation can miss one of them.
//! Unlike a store, the swap continues the release sequence of the word: a rank that reads it also acquires what those
//! released that wrote the word before.
//!
//! # What loom adds to the explorer
//! Whether two sections that exclude each other are also *ordered*: loom follows which call synchronizes with which,
//! and a section that is not ordered after another one that it excludes is a data race, in whatever order the two were
//! run. Each target has a cell of loom's, which a writer writes and a reader reads as it enters and as it leaves; each
//! word of data has another, which bulk operations write and read. Nothing is kept in the cells: loom looks at the
//! accesses alone, and where there is no race, the value is that of the last write. Bulk operations are relaxed, as
//! those of the backends are; the fences there, which serve waiting ranks, are left out, so that they cannot hide a
//! race.
//!
//! # What loom does not do
//! Its limit is 5 threads, of which one only starts the others: at most 4 ranks. It merges no states, so that the
//! number of executions grows much faster than the explorer's number of states. It knows no models of a network that is
//! late: bulk puts take effect at once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, fence};
use rmalab_atomics::controlled::{Answer, Call, Executor};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Rank};

use crate::check::Check;
use crate::concurrent::{Observer, Run};
use crate::network::Network;
use crate::outcome::{Limit, Outcome, Watch};
use crate::panics::{Exit, lock, quietly};
use crate::play::{Event, Player};
use crate::{Access, Error, Property, Result};

/// The most ranks: loom's threads without the one that starts them.
pub const MAX_RANKS: u32 = loom::MAX_THREADS as u32 - 1;

/// The memory orderings that calls are carried out with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Orderings {
    /// Those of the backends over shared memory: sequentially consistent, but for puts, which wait in store buffers.
    #[default]
    StoreBuffers,
    /// All of them sequentially consistent, puts included: what the orders of the calls can do, and nothing else.
    SeqCst,
    /// Those of a backend that acquires and releases, and gives no order of all operations beyond that; puts, too, are
    /// atomic operations. Loom leaves out executions here: it may find something, and proves nothing.
    AcquireRelease,
    /// None at all: a backend that is broken, on which every lock has to fail.
    Relaxed,
}

impl Orderings {
    const fn update(self) -> Ordering {
        match self {
            Orderings::StoreBuffers | Orderings::SeqCst => Ordering::SeqCst,
            Orderings::AcquireRelease => Ordering::AcqRel,
            Orderings::Relaxed => Ordering::Relaxed,
        }
    }

    /// Returns whether a put waits in a store buffer.
    const fn buffers_puts(self) -> bool {
        matches!(self, Orderings::StoreBuffers)
    }

    /// Returns whether every answer is the one of a consistent memory, store buffers and all, and loom makes all
    /// executions.
    const fn is_exact(self) -> bool {
        matches!(self, Orderings::StoreBuffers | Orderings::SeqCst)
    }

    const fn load(self) -> Ordering {
        match self {
            Orderings::StoreBuffers | Orderings::SeqCst => Ordering::SeqCst,
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
            orderings: Orderings::StoreBuffers,
        }
    }
}

/// What executions have needed so far: loom wants all atomics to be there before the ranks start.
#[derive(Clone, PartialEq, Eq, Default)]
struct Needed {
    words: Vec<Address>,
    /// The choices of each rank.
    choices: usize,
}

type Known = Arc<Mutex<Needed>>;

/// Makes every execution of `check`.
///
/// The schedule of a counterexample is the order of the calls. [`replay`](crate::replay) finds the same violation along
/// it, unless it is a race of sections that did not overlap in time, the orderings are weaker than
/// [`Orderings::StoreBuffers`], or a rank has read its own put before that was written. A counterexample in which a put
/// was written after a later look of its rank is one of [`Network::LatePuts`].
///
/// # Errors
///
/// When the check makes no sense, [`Error::Unsupported`] when it has more ranks than [`MAX_RANKS`] or another network
/// than the consistent one, and [`Error::Unsound`] when loom fails.
pub fn run(check: &Check, options: &Options, watch: Watch<'_>) -> Result<Outcome> {
    if check.active() > MAX_RANKS {
        let why = format!("it runs at most {MAX_RANKS} ranks, and {} has {}", check.scenario, check.active());
        return Err(Error::Unsupported { engine: "loom", why });
    }
    let run = Run::new("loom", check)?;
    let (shared, own) = (Arc::clone(&run), options.clone());
    let bounded = options.preemptions.is_some() || !options.orderings.is_exact();
    run.conduct(options.max_time, bounded, watch, move || explore(&shared, &own))
}

fn explore(run: &Arc<Run>, options: &Options) -> Result<()> {
    let known = Known::default();
    loop {
        let before = lock(&known).clone();
        let ended = quietly(|| model(run, options, &known));
        if *lock(&known) != before {
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

/// Ends the executions in the only way that loom has; the caller has recorded the reason.
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
    builder.expect_explicit_explore = true;
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
        // No rank has run, and no rank is ordered after these stores: each rank finds them made, or not.
        for choice in world.choices.iter().flatten() {
            choice.store(WRITTEN, Ordering::Relaxed);
        }
        loom::explore();
    });
}

/// The stack of a rank, in loom's unit, words: enough for a panic's text.
const STACK: usize = (256 << 10) / size_of::<usize>();

/// What a choice that a rank reads says: its oldest put is written. Otherwise it is late.
const WRITTEN: u64 = 1;

/// One execution.
struct World {
    run: Arc<Run>,
    observer: Observer,
    options: Options,
    known: Known,
    words: BTreeMap<Address, AtomicU64>,
    /// Of each rank: whether its oldest put is late once more. Each of them is read once.
    choices: Vec<Vec<AtomicU64>>,
    /// Of each rank: what its puts and the fences for all touch, so that loom makes them in every order. Empty for a
    /// subject that has no such fences.
    posted: Vec<AtomicU64>,
    /// The data of bulk operations, word by word.
    data: BTreeMap<Address, Mutex<UnsafeCell<()>>>,
    /// What the lock protects, target by target. Loom's cells are not `Sync`; the mutexes, which are, never wait.
    sections: Vec<Mutex<UnsafeCell<()>>>,
    /// The ranks that are blocked.
    parked: Mutex<Vec<Option<Parked>>>,
}

impl World {
    fn new(run: &Arc<Run>, options: &Options, known: &Known) -> World {
        let Needed { words: addresses, choices } = lock(known).clone();
        let ranks = run.check.active();
        let network = if options.orderings.buffers_puts() { Network::LatePuts } else { Network::Sc };
        let observer = Observer::new(&run.check, Some(options.polls), network);
        World {
            run: Arc::clone(run),
            observer,
            options: options.clone(),
            known: Arc::clone(known),
            words: addresses.iter().map(|&at| (at, AtomicU64::new(0))).collect(),
            choices: (0..ranks).map(|_| (0..choices).map(|_| AtomicU64::new(0)).collect()).collect(),
            posted: (0..if run.check.subject.fences() { ranks } else { 0 }).map(|_| AtomicU64::new(0)).collect(),
            data: addresses.iter().map(|&at| (at, Mutex::new(UnsafeCell::new(())))).collect(),
            sections: (0..run.check.scenario.targets()).map(|_| Mutex::new(UnsafeCell::new(()))).collect(),
            parked: Mutex::new((0..ranks).map(|_| None).collect()),
        }
    }

    fn play(&self, rank: Rank) {
        let one = One {
            world: self,
            rank,
            access: Cell::new(None),
            chosen: Cell::new(0),
            touched: Cell::new(false),
            results: RefCell::default(),
            exit: Exit::default(),
        };
        self.observer.plays(rank, &one.exit, || {
            self.run.check.play(rank, &one)?;
            one.exit.guard(|| one.write_all());
            Ok(())
        });
        self.go_on();
        if self.observer.finished() {
            self.run.ends(&self.observer, false);
        }
    }

    /// Goes on, unless something is broken.
    fn go_on(&self) {
        if self.observer.stopped() {
            self.run.ends(&self.observer, false);
            abandon();
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

    /// The place of the word at `address`; one that no execution has named before ends this one.
    fn place<'p, T>(&self, places: &'p BTreeMap<Address, T>, address: Address) -> &'p T {
        let address = address.unwatched();
        places.get(&address).unwrap_or_else(|| {
            lock(&self.known).words.push(address);
            abandon()
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
    /// How many of its choices it has read.
    chosen: Cell<usize>,
    /// Whether it has touched a cell since its last put.
    touched: Cell<bool>,
    /// What its started operations have returned, by number.
    results: RefCell<BTreeMap<u32, u64>>,
    exit: Exit,
}

impl One<'_> {
    fn word(&self, address: Address) -> &AtomicU64 {
        self.world.place(&self.world.words, address)
    }

    /// The word at `at`, as the orderings let this rank see it.
    ///
    /// A sequentially consistent load gives the latest value and acquires, and so does an addition of nothing that
    /// releases nothing. Loom carries out the second one better. Its load can give the value that the atomic was made
    /// with after that was overwritten. And of several loads before a write, its search compares the last one only with
    /// the write, so that it leaves out orders of the others and the write.
    fn load(&self, at: Address) -> u64 {
        let word = self.word(at);
        match self.world.options.orderings {
            Orderings::StoreBuffers | Orderings::SeqCst => word.fetch_add(0, Ordering::Acquire),
            weaker => word.load(weaker.load()),
        }
    }

    /// The word at `at`, as this rank sees it through its store buffer.
    fn look(&self, at: Address) -> u64 {
        self.world.observer.buffered(self.rank, at).unwrap_or_else(|| self.load(at))
    }

    /// Carries out `op` on the word at `at`; returns the old word.
    fn update(&self, at: Address, op: WordOp) -> u64 {
        let orderings = self.world.options.orderings;
        let (update, load) = (orderings.update(), orderings.load());
        match op {
            WordOp::FetchAdd(value) => self.word(at).fetch_add(value, update),
            WordOp::CompareAndSwap { expected, desired } => {
                match self.word(at).compare_exchange(expected, desired, update, load) {
                    Ok(old) | Err(old) => old,
                }
            }
            WordOp::FetchStore(value) | WordOp::Put(value) => self.word(at).swap(value, update),
            WordOp::Get => self.look(at),
        }
    }

    /// Returns whether the oldest put in the store buffer is written now: either of both, in two executions.
    fn writes_one(&self) -> bool {
        let number = self.chosen.get();
        self.chosen.set(number + 1);
        let choices = &self.world.choices[self.rank.index()];
        let choice = choices.get(number).unwrap_or_else(|| {
            let mut needed = lock(&self.world.known);
            needed.choices = (2 * needed.choices).max(number + 1);
            drop(needed);
            abandon()
        });
        choice.load(Ordering::Relaxed) == WRITTEN
    }

    /// Writes some of the oldest puts in the store buffer: each number of them, in an execution of its own. Returns
    /// whether it has written any.
    fn write_some(&self) -> bool {
        let mut any = false;
        while let Some(put) = self.world.observer.oldest_put(self.rank) {
            if !self.writes_one() {
                return any;
            }
            self.write(put);
            any = true;
        }
        any
    }

    /// Writes all puts in the store buffer.
    fn write_all(&self) {
        while let Some(put) = self.world.observer.oldest_put(self.rank) {
            self.write(put);
        }
    }

    /// Writes the oldest put in the store buffer, which is `value` at `at`.
    fn write(&self, (at, value): (Address, u64)) {
        // The fence of the put has the release.
        self.word(at).swap(value, Ordering::Relaxed);
        self.world.observer.arrives(self.rank);
        self.world.go_on();
        self.world.unpark();
    }

    /// Lets loom see that this rank writes, or reads, what is in the cell; what loom objects to is a race.
    fn touch(&self, cell: &Mutex<UnsafeCell<()>>, writes: bool, race: Property, what: &str) {
        self.touched.set(true);
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
            Orderings::StoreBuffers | Orderings::SeqCst => Property::MutualExclusion,
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
        if observer.oldest_put(self.rank).is_some() {
            // Puts before the look matter only if they can spoil it: a wait that has to wait does so after its puts,
            // and looks again.
            let first = self.look(own);
            if holds(first) {
                let value = if self.write_some() { self.look(own) } else { first };
                if holds(value) {
                    return value;
                }
            }
            self.write_all();
        }
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

    /// Waits until all store buffers are empty.
    fn fence_everywhere(&self, call: Call) {
        let observer = &self.world.observer;
        for posted in &self.world.posted {
            posted.fetch_add(0, Ordering::Acquire);
        }
        observer.issues(self.rank, call);
        while !observer.ready(self.rank) {
            self.park(None);
        }
    }

    /// Blocks until the word that this rank waits for has another version, or until it can go on.
    fn park(&self, version: Option<u64>) {
        let parked = Parked { thread: loom::thread::current(), version };
        lock(&self.world.parked)[self.rank.index()] = Some(parked);
        loom::thread::park();
    }
}

impl Executor for One<'_> {
    fn call(&self, call: Call) -> Answer {
        self.exit.guard(|| self.carry_out(call))
    }
}

impl One<'_> {
    fn carry_out(&self, call: Call) -> Answer {
        let orderings = self.world.options.orderings;
        match call {
            Call::Get { .. } | Call::Load { .. } => _ = self.write_some(),
            // Older puts would also release what has been done since, once this one is made.
            Call::Put { .. } | Call::Store { .. } if self.touched.replace(false) => _ = self.write_some(),
            // A wait sees to the puts itself. Bulk operations and the time are no steps of loom's.
            Call::WaitUntil { .. } | Call::Put { .. } | Call::BulkPut { .. } | Call::BulkGet { .. } | Call::Now => {}
            Call::Store { .. } | Call::Stored | Call::Finish { .. } | Call::Test { .. } => {}
            Call::Start { .. }
            | Call::FetchAdd { .. }
            | Call::CompareAndSwap { .. }
            | Call::FetchStore { .. }
            | Call::Flush { .. }
            | Call::FenceEverywhere
            | Call::Pause { .. } => self.write_all(),
        }
        let answer = match call {
            Call::FetchAdd { at, value } => Answer::Word(self.update(at, WordOp::FetchAdd(value))),
            Call::CompareAndSwap { at, expected, desired } => {
                Answer::Word(self.update(at, WordOp::CompareAndSwap { expected, desired }))
            }
            Call::FetchStore { at, value } => Answer::Word(self.update(at, WordOp::FetchStore(value))),
            Call::Get { at } | Call::Load { at } => Answer::Word(self.look(at)),
            // It takes effect at once: this engine is of processors, which wait for their atomic operations.
            Call::Start { request, at, op } => {
                self.results.borrow_mut().insert(request, op.result(self.update(at, op)));
                Answer::Done
            }
            Call::Finish { request, .. } => {
                Answer::Word(self.results.borrow_mut().remove(&request).expect("an operation that was started"))
            }
            Call::Test { .. } => Answer::Word(1),
            Call::Put { at, value } | Call::Store { at, value } => {
                if !orderings.buffers_puts() {
                    self.word(at).swap(value, orderings.update());
                } else {
                    fence(Ordering::Release);
                }
                if let Some(posted) = self.world.posted.get(self.rank.index()) {
                    posted.swap(0, Ordering::Release);
                }
                Answer::Done
            }
            Call::BulkPut { at, .. } => {
                self.touch_data(at, true);
                Answer::Done
            }
            Call::BulkGet { at } => {
                self.touch_data(at, false);
                let observer = &self.world.observer;
                Answer::Word(observer.buffered(self.rank, at).unwrap_or_else(|| observer.word(at)))
            }
            Call::WaitUntil { own, until, .. } => {
                Answer::Word(self.wait(call, self.rank.at(own), |value| until.holds(value)))
            }
            Call::Pause { .. } => {
                self.pause(call);
                Answer::Done
            }
            Call::Flush { .. } | Call::Stored => Answer::Done,
            Call::FenceEverywhere => {
                self.fence_everywhere(call);
                Answer::Done
            }
            // Time stands still: no deadline passes.
            Call::Now => Answer::Word(0),
        };
        self.world.observer.answered(self.rank, call, answer, orderings.is_exact());
        self.world.go_on();
        self.world.unpark();
        answer
    }
}

impl Player for One<'_> {
    fn event(&self, event: Event, _handle: &dyn Debug) {
        self.exit.guard(|| {
            self.world.observer.event(self.rank, event);
            self.world.go_on();
            match event {
                Event::Begins(access) => self.access.set(Some(access)),
                Event::Entered | Event::Leaves => self.touch_sections(),
                Event::Saw { .. } | Event::Left => {}
            }
        });
    }
}
