//! loom: every execution of a check under most of the C11 memory model, with the memory orderings of the local backend.
//!
//! The words are atomics of loom. Updates, gets and the reads of waits are sequentially consistent atomics of the
//! processor, as in the backends over shared memory (`atomics/src/backend/mapped.rs`).
//!
//! # Puts
//! A put of those backends is a store with release, and a flush adds the fence. So the processor may delay the store
//! while it reads other words: x86-TSO (P. Sewell et al., "x86-TSO: A Rigorous and Usable Programmer's Model for x86
//! Multiprocessors", CACM 2010, DOI 10.1145/1785414.1785443). AArch64 allows less. Here, each rank has a store buffer
//! for its puts, from which the rank itself reads them. All puts of a rank are written ahead of its atomic operations,
//! flushes, pauses, waits that block, and its end. A get, or a read that ends a wait, runs once for each number of
//! oldest puts that are written ahead of it. A fence for all ranks waits until all buffers are empty.
//!
//! The decision to write a put ahead of a read is a branch of loom's search. Loom's only kind of branch is a load with
//! several possible values. So each branch is a load of its own atomic. The first thread has stored to that atomic,
//! unordered with the ranks.
//!
//! A put releases the rank's earlier actions, but not the actions that follow while the put waits. So the release is a
//! fence at the time of the put, and the later write has no release. The write is a swap instead of a store. Loom does
//! not order the stores of two threads to one word, so that an atomic operation can miss one of them. Unlike a store,
//! the swap continues the release sequence of the word: a rank that reads it also acquires the earlier writers'
//! releases.
//!
//! # Advantages over the explorer
//! Loom shows that two sections that exclude each other are also *ordered*. Loom follows which call synchronizes with
//! which. If a section excludes another section but is not ordered after it, that is a data race, in any order of the
//! two. Each target has a cell of loom, which a writer writes and a reader reads when it enters and when it leaves.
//! Each word of data has another cell for bulk operations. The cells hold no values: loom checks only the accesses, and
//! without a race, a read returns the last write's value. Bulk operations are relaxed, as in the backends. The
//! backends' fences for waiting ranks are omitted, so that they cannot hide a race.
//!
//! # Limits
//! Loom allows 5 threads, one of which only starts the other threads. So there are at most 4 ranks. It does not merge
//! states, so that the number of executions grows much faster than the explorer's number of states. It has no model of
//! a late network: bulk puts take effect at once.

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

/// The largest number of ranks: loom's threads without the one that starts them.
pub const MAX_RANKS: u32 = loom::MAX_THREADS as u32 - 1;

/// The memory orderings of the calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Orderings {
    /// The orderings of the backends over shared memory: sequentially consistent, except for puts, which wait in store
    /// buffers.
    #[default]
    StoreBuffers,
    /// Everything sequentially consistent, puts included: only the interleavings of the calls matter.
    SeqCst,
    /// The orderings of a backend that only acquires and releases; puts are atomic operations, too. Loom omits
    /// executions here: it may find violations, but proves nothing.
    AcquireRelease,
    /// No ordering at all: a broken backend, on which every lock must fail.
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

    /// Returns whether the memory is consistent apart from store buffers, and loom runs all executions.
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

/// The limits of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The limit for preemptions of an execution: switches from a rank that could continue. `None` is no limit.
    pub preemptions: Option<u32>,
    /// The number of polls by writes of a rank in one acquisition. Later polls run in one order only. Polls that only
    /// read need no bound.
    pub polls: u32,
    /// The limit for branches of an execution: calls, and switches between ranks.
    pub max_branches: usize,
    /// The limit for executions.
    pub max_executions: Option<u64>,
    /// The limit for the time.
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

/// The atomics that executions have needed so far: loom requires all of them before the ranks start.
#[derive(Clone, PartialEq, Eq, Default)]
struct Needed {
    words: Vec<Address>,
    /// The number of choices of each rank.
    choices: usize,
    /// True if a rank fences for all.
    fences: bool,
}

type Known = Arc<Mutex<Needed>>;

/// Runs every execution of `check`.
///
/// The schedule of a counterexample is the order of the calls. [`replay`](crate::replay) finds the same violation along
/// it, with three exceptions. These are a race of sections that did not overlap in time, orderings weaker than
/// [`Orderings::StoreBuffers`], and a rank that has read its own buffered put. If a put was written after a later read
/// of its rank, the counterexample belongs to [`Network::LatePuts`].
///
/// # Errors
///
/// Returns an error if the check is invalid, and [`Error::Unsound`] if loom fails. [`Error::Unsupported`] if the check
/// has more ranks than [`MAX_RANKS`], or another network than the consistent one.
pub fn run(check: &Check, options: &Options, watch: Watch<'_>) -> Result<Outcome> {
    if check.active() > MAX_RANKS {
        let why = format!("it runs at most {MAX_RANKS} ranks, but {} has {}", check.scenario, check.active());
        return Err(Error::Unsupported { engine: "loom", why });
    }
    let run = Run::new("loom", check)?;
    let (shared, own) = (Arc::clone(&run), options.clone());
    let bounded = options.preemptions.is_some() || !options.orderings.is_exact();
    run.conduct(options.max_time, bounded, watch, move || explore(&shared, &own))
}

fn explore(run: &Arc<Run>, options: &Options) -> Result<()> {
    let known = Known::new(Mutex::new(Needed { fences: run.check.subject.fences(), ..Needed::default() }));
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

/// Ends the executions by a panic, which is loom's only way. The caller has recorded the reason.
fn abandon() -> ! {
    panic!("the run has ended")
}

fn model(run: &Arc<Run>, options: &Options, known: &Known) {
    // Every field is set, so that loom's environment variables have no effect.
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
            thread.spawn(move || world.play(rank)).expect("loom's threads need no system resources");
        }
        // No rank has run, and no rank is ordered after these stores. So each rank may read the old or the new value.
        for choice in world.choices.iter().flatten() {
            choice.store(WRITTEN, Ordering::Relaxed);
        }
        loom::explore();
    });
}

/// The stack of a rank in words, loom's unit: enough for the text of a panic.
const STACK: usize = (256 << 10) / size_of::<usize>();

/// The value of a choice: the oldest put is written. With any other value, the put stays late.
const WRITTEN: u64 = 1;

/// One execution.
struct World {
    run: Arc<Run>,
    observer: Observer,
    options: Options,
    known: Known,
    words: BTreeMap<Address, AtomicU64>,
    /// For each rank: whether its oldest put is still late. Each choice is read once.
    choices: Vec<Vec<AtomicU64>>,
    /// For each rank: an atomic that its puts and the fences for all access, so that loom tries both orders. Empty while
    /// no rank has fenced for all.
    posted: Vec<AtomicU64>,
    /// The data of bulk operations, word by word.
    data: BTreeMap<Address, Mutex<UnsafeCell<()>>>,
    /// The protected data of each target. Loom's cells are not `Sync`, so each is in a mutex, which never blocks.
    sections: Vec<Mutex<UnsafeCell<()>>>,
    /// The blocked ranks.
    parked: Mutex<Vec<Option<Parked>>>,
}

impl World {
    fn new(run: &Arc<Run>, options: &Options, known: &Known) -> World {
        let Needed { words: addresses, choices, fences } = lock(known).clone();
        let ranks = run.check.active();
        let network = if options.orderings.buffers_puts() { Network::LatePuts } else { Network::Sc };
        let observer = Observer::new(&run.check, Some(options.polls), RETRIES, network);
        World {
            run: Arc::clone(run),
            observer,
            options: options.clone(),
            known: Arc::clone(known),
            words: addresses.iter().map(|&at| (at, AtomicU64::new(0))).collect(),
            choices: (0..ranks).map(|_| (0..choices).map(|_| AtomicU64::new(0)).collect()).collect(),
            posted: (0..if fences { ranks } else { 0 }).map(|_| AtomicU64::new(0)).collect(),
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
        self.unpark();
        if self.observer.finished() {
            self.run.ends(&self.observer, false);
        }
    }

    /// Ends the execution if a property is broken.
    fn go_on(&self) {
        if self.observer.stopped() {
            self.run.ends(&self.observer, false);
            abandon();
        }
    }

    /// Unblocks the ranks whose wait the last call may have ended.
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

    /// The entry of the word at `address`. An unknown word ends this execution, and the next execution has an entry for
    /// it.
    fn place<'p, T>(&self, places: &'p BTreeMap<Address, T>, address: Address) -> &'p T {
        let address = address.unwatched();
        places.get(&address).unwrap_or_else(|| {
            lock(&self.known).words.push(address);
            abandon()
        })
    }
}

/// Few, since an execution has a limit of branches.
const RETRIES: u32 = 3;

/// A blocked rank.
struct Parked {
    thread: loom::thread::Thread,
    /// The version of the word that it waits for; `None` if it polls.
    version: Option<u64>,
}

/// One rank of an execution.
struct One<'w> {
    world: &'w World,
    rank: Rank,
    /// The access that it acquires.
    access: Cell<Option<Access>>,
    /// The number of its choices that it has read.
    chosen: Cell<usize>,
    /// True if it has accessed a cell since its last put.
    touched: Cell<bool>,
    /// The results of its started operations, by number.
    results: RefCell<BTreeMap<u32, u64>>,
    exit: Exit,
}

impl One<'_> {
    fn word(&self, address: Address) -> &AtomicU64 {
        self.world.place(&self.world.words, address)
    }

    /// The word at `at`, under the orderings.
    ///
    /// A sequentially consistent load returns the latest value and acquires. So does an addition of 0 without release,
    /// which loom handles better. Loom's load can return the initial value of the atomic after it was overwritten.
    /// Moreover, its search compares a write only with the last of several earlier loads. So it omits some orders of
    /// the other loads and the write.
    fn load(&self, at: Address) -> u64 {
        let word = self.word(at);
        match self.world.options.orderings {
            Orderings::StoreBuffers | Orderings::SeqCst => word.fetch_add(0, Ordering::Acquire),
            weaker => word.load(weaker.load()),
        }
    }

    /// The word at `at`, as this rank reads it through its store buffer.
    fn look(&self, at: Address) -> u64 {
        self.world.observer.buffered(self.rank, at).unwrap_or_else(|| self.load(at))
    }

    /// Carries out `op` on the word at `at`, and returns the old word.
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

    /// Returns whether to write the oldest buffered put now. Loom tries both answers.
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

    /// Writes some of the oldest buffered puts: each number of them in an execution of its own. Returns whether it has
    /// written any.
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

    /// Writes all buffered puts.
    fn write_all(&self) {
        while let Some(put) = self.world.observer.oldest_put(self.rank) {
            self.write(put);
        }
    }

    /// Writes the oldest buffered put, which is `value` at `at`.
    fn write(&self, (at, value): (Address, u64)) {
        // The fence at the time of the put has the release.
        self.word(at).swap(value, Ordering::Relaxed);
        self.world.observer.arrives(self.rank);
        self.world.go_on();
        self.world.unpark();
    }

    /// Records an access to the cell. If loom objects, there is a race.
    fn touch(&self, cell: &Mutex<UnsafeCell<()>>, writes: bool, race: Property, what: &str) {
        self.touched.set(true);
        let cell = lock(cell);
        let touched = quietly(|| if writes { cell.with_mut(|_| ()) } else { cell.with(|_| ()) });
        drop(cell);
        if let Err(panicked) = touched {
            let why = panicked.text.lines().next().unwrap_or_default();
            let seen = format!("{what} are not ordered with another rank's accesses, which they exclude (loom: {why})");
            self.world.observer.broken(self.rank, race, seen);
            self.world.go_on();
        }
    }

    /// Accesses the cells that the current access protects.
    fn touch_sections(&self) {
        let world = self.world;
        let Some(access) = self.access.get() else { return };
        let alone = world.run.check.subject.excludes(access, access);
        let targets = match access {
            Access::Read | Access::All => 0..world.sections.len(),
            Access::Write => 0..1,
            Access::Shared(target) | Access::Exclusive(target) => target.index()..target.index() + 1,
        };
        // With the real orderings, unordered sections are sections that can overlap.
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
            // Puts matter only for a read that ends the wait. A wait that blocks writes its puts first, and reads
            // again.
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
                // A weak load has missed a write. After this, it will not.
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

    /// Waits until all store buffers are empty. The first fence ends this execution, and the next one has the atomics for
    /// it.
    fn fence_everywhere(&self, call: Call) {
        let observer = &self.world.observer;
        if self.world.posted.is_empty() {
            lock(&self.world.known).fences = true;
            abandon();
        }
        for posted in &self.world.posted {
            posted.fetch_add(0, Ordering::Acquire);
        }
        observer.issues(self.rank, call);
        while !observer.ready(self.rank) {
            self.park(None);
        }
    }

    /// Blocks until the awaited word has another version, or until the rank can continue.
    fn park(&self, version: Option<u64>) {
        let parked = Parked { thread: loom::thread::current(), version };
        lock(&self.world.parked)[self.rank.index()] = Some(parked);
        // The last rank that blocks lets those continue that may poll once more.
        self.world.unpark();
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
            // Otherwise, once this put is made, older puts would also release the actions since then.
            Call::Put { .. } | Call::Store { .. } if self.touched.replace(false) => _ = self.write_some(),
            // A wait writes its own rank's puts. Bulk operations and the clock are no steps for loom.
            Call::WaitUntil { .. } | Call::Put { .. } | Call::BulkPut { .. } | Call::BulkGet { .. } | Call::Now => {}
            Call::Store { .. } | Call::Stored | Call::Finish { .. } | Call::Test { .. } => {}
            // Puts are written in their order, and ahead of each atomic operation.
            Call::Order { .. } => {}
            // No rank fails.
            Call::Failed | Call::Acknowledge { .. } | Call::Silence { .. } => {}
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
            // It takes effect at once: this engine models processors, which wait for their atomic operations.
            Call::Start { request, at, op } => {
                self.results.borrow_mut().insert(request, op.result(self.update(at, op)));
                Answer::Done
            }
            Call::Finish { request, .. } => {
                Answer::Word(self.results.borrow_mut().remove(&request).expect("a finish of a started operation"))
            }
            Call::Test { .. } => Answer::Word(1),
            Call::Put { at, value } | Call::Store { at, value } => {
                if !orderings.buffers_puts() {
                    self.word(at).swap(value, orderings.update());
                } else {
                    fence(Ordering::Release);
                    // A fence for all ranks depends on the puts that wait.
                    if let Some(posted) = self.world.posted.get(self.rank.index()) {
                        posted.swap(0, Ordering::Release);
                    }
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
            Call::Flush { .. } | Call::Order { .. } | Call::Stored => Answer::Done,
            Call::FenceEverywhere => {
                self.fence_everywhere(call);
                Answer::Done
            }
            // Time stands still: no deadline passes. And no rank fails.
            Call::Now | Call::Failed => Answer::Word(0),
            Call::Acknowledge { ranks } | Call::Silence { ranks } => Answer::Word(ranks),
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
                Event::Told | Event::Saw { .. } | Event::GaveUp { .. } | Event::Left => {}
                Event::CameBack | Event::Idle => {}
            }
        });
    }
}
