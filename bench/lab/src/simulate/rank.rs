//! The code of each simulated rank, and the counters that all of them share.
//!
//! All ranks of a simulation are coroutines of one thread. So their counters are shared memory, and take no virtual
//! time. Unlike in a study, the measurement disturbs nothing.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::sim::Sim;
use rmalab_atomics::{Counted, Disp, Rank, RemoteAtomics, Topology};
use rmalab_locks::{LINE, LockKind};

use super::options::{Load, Section, Target};
use super::point::VIOLATED;
use crate::subject::Make;
use crate::subject::any_lock::{AnyLock, by_distance};
use crate::subject::lock_table::LockTable;
use crate::workload::Layout;
use rmalab_report::statistics::histogram;

/// The task of the ranks of one simulation.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) load: Load,
    pub(crate) target: Target,
    pub(crate) home: Rank,
    pub(crate) exclusive_ranks: u32,
    /// True if the lock excludes anything.
    pub(crate) excludes: bool,
    pub(crate) seed: u64,
    pub(crate) warm_up: u32,
    pub(crate) pairs: u32,
}

/// Data that the ranks of one simulation share: their task and the results.
pub(crate) struct Shared {
    pub(crate) task: Task,
    /// The places of the locks, if the task draws from a table.
    layout: Option<Arc<Layout>>,
    /// The guard that may end the simulation early.
    pub(crate) guard: Guard,
    /// Ranks that have not made all pairs of their task.
    measuring: Cell<u32>,
    /// True if the measurement has to end soon.
    pub(crate) hurry: Cell<bool>,
    /// Pairs of all ranks in the measurement.
    measured: Cell<u64>,
    /// The end of the measurement, in picoseconds of virtual time, once it has ended.
    pub(crate) over: Cell<Option<u64>>,
    /// Acquisitions of all ranks, unmeasured ones included.
    pub(crate) acquisitions: Cell<u64>,
    /// Results of reads, and of writes.
    pub(crate) sides: RefCell<[Side; 2]>,
    /// Grants so far, by the locked rank, or by the lock of a table; of lock_all, by the home rank.
    grants: RefCell<Vec<u64>>,
    holders: RefCell<Holders>,
    /// The error of the first lock that failed.
    pub(crate) error: RefCell<Option<rmalab_locks::Error>>,
}

/// The ranks that are inside now: with a lock_all, and with locks of one rank or of a table.
#[derive(Default)]
struct Holders {
    all: u32,
    exclusive: u32,
    /// The ranks with a shared and with an exclusive lock, by the locked rank or the lock of the table.
    of_books: HashMap<u32, [u32; 2]>,
}

impl Holders {
    /// Adds a rank that has entered, and returns whether the other ranks inside exclude it.
    fn enter(&mut self, choice: Choice, book: u32) -> bool {
        let Choice::One(kind, _) = choice else {
            self.all += 1;
            return self.exclusive > 0;
        };
        let of_book = self.of_books.entry(book).or_default();
        let [shared, exclusive] = *of_book;
        if kind == LockKind::Shared {
            of_book[0] += 1;
            return exclusive > 0;
        }
        of_book[1] += 1;
        self.exclusive += 1;
        self.all > 0 || shared > 0 || exclusive > 0
    }

    /// Removes a rank that is about to leave.
    fn leave(&mut self, choice: Choice, book: u32) {
        let Choice::One(kind, _) = choice else {
            self.all -= 1;
            return;
        };
        self.exclusive -= u32::from(kind == LockKind::Exclusive);
        if let Some(of_book) = self.of_books.get_mut(&book) {
            of_book[usize::from(kind == LockKind::Exclusive)] -= 1;
            if *of_book == [0, 0] {
                self.of_books.remove(&book);
            }
        }
    }
}

/// Counters of measured acquisitions that read (lock_all and shared), or that write (exclusive).
pub(crate) struct Side {
    /// From the request to the grant, in nanoseconds.
    pub(crate) acquire: Histogram<u64>,
    pub(crate) bypass_sum: u64,
    pub(crate) bypass_max: u64,
    /// Operations on words, by distance.
    pub(crate) operations: [u64; 3],
    pub(crate) operations_max: u64,
}

impl Side {
    fn new() -> Side {
        Side { acquire: histogram(), bypass_sum: 0, bypass_max: 0, operations: [0; 3], operations_max: 0 }
    }
}

/// One rank's part of the measurement; times are picoseconds of virtual time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    pub(crate) begin: u64,
    /// The end of its last pair.
    pub(crate) end: u64,
    pub(crate) pairs: u64,
}

impl Shared {
    pub(crate) fn new(task: Task, topology: &Topology, guard: Guard) -> Shared {
        let ranks = topology.size();
        let books = match (&task.load.table, task.target) {
            (Some(table), _) => table.locks,
            (None, Target::Same) => task.home.0 + 1,
            (None, Target::Own | Target::Random) => ranks,
        };
        Shared {
            layout: task.load.table.clone().map(|table| Arc::new(Layout::new(table, topology))),
            task,
            guard,
            measuring: Cell::new(ranks),
            hurry: Cell::new(false),
            measured: Cell::new(0),
            over: Cell::new(None),
            acquisitions: Cell::new(0),
            sides: RefCell::new([Side::new(), Side::new()]),
            grants: RefCell::new(vec![0; books as usize]),
            holders: RefCell::default(),
            error: RefCell::default(),
        }
    }

    /// Adds a grant of a lock on `book`, and returns the number of grants.
    fn grant(&self, book: u32) -> u64 {
        let mut grants = self.grants.borrow_mut();
        let grants = &mut grants[book as usize];
        *grants += 1;
        *grants - 1
    }
}

/// One acquisition.
#[derive(Clone, Copy)]
enum Choice {
    All,
    One(LockKind, Rank),
}

impl Choice {
    /// Returns whether it is an exclusive lock.
    fn writes(self) -> bool {
        matches!(self, Choice::One(LockKind::Exclusive, _))
    }
}

/// The locks of a rank.
enum Locks<'a> {
    One(Box<dyn AnyLock>),
    Table(LockTable<'a>),
}

/// One rank's code: makes its part of the lock with `make`, and acquires and releases it as the load requires.
///
/// After the warm-up all ranks begin to measure at the same time, and each ends after the pairs of its task. With a table of locks, each
/// goes on until the ranks together have made the pairs of all tasks, or half of the allowed events have passed. So the throughput is
/// measured with all ranks at work, and a lock that collapses still has one.
///
/// If some ranks take only exclusive locks, the others go on until these writers have ended. Since a lock may starve its writers, the
/// others stop after [`LONGEST`] times the pairs of all tasks, or half of the allowed events.
///
/// # Errors
///
/// Errors of the lock.
pub(crate) fn run(make: &Make, ra: &Sim<'_>, shared: &Shared) -> rmalab_locks::Result<Times> {
    let mut locks = match &shared.layout {
        None => Locks::One(make(ra, shared.task.home)?),
        Some(layout) => Locks::Table(LockTable::new(ra, make, layout)?),
    };
    let mut random = SmallRng::seed_from_u64(shared.task.seed ^ (u64::from(ra.rank().0) + 1).wrapping_mul(GOLDEN));
    let data = ra.heap().alloc(LINE, LINE)?;
    let size = ra.size();
    // Every n-th rank, the last one first.
    let only_exclusive = shared.task.exclusive_ranks > 0 && {
        let apart = size / shared.task.exclusive_ranks;
        let from_last = size - 1 - ra.rank().0;
        from_last.is_multiple_of(apart) && from_last / apart < shared.task.exclusive_ranks
    };
    let goes_on = shared.task.exclusive_ranks > 0;
    let table = shared.task.load.table.is_some();
    let (warm_up, pairs) = (shared.task.warm_up, shared.task.pairs);
    let mut locked = Vec::new();
    // Returns the number of locks that were acquired and released: all locks of a transaction, or one.
    let mut pair = |measured: bool| -> rmalab_locks::Result<u64> {
        let choice = choose(&mut random, shared, only_exclusive, ra.rank(), size);
        let number = match (&mut locks, choice) {
            (Locks::Table(table), Choice::One(kind, _)) => {
                table.next(kind, &mut random, &mut locked);
                transaction(table, &locked, ra, shared, data, &mut random, measured)?;
                locked.len() as u64
            }
            (Locks::Table(_), Choice::All) => unreachable!("the options were checked"),
            (Locks::One(lock), choice) => {
                let book = match choice {
                    Choice::All => shared.task.home,
                    Choice::One(_, target) => target,
                };
                let entered = enter(&mut **lock, ra, shared, choice, book.0, measured)?;
                inside(ra, shared, choice, &entered, data, &mut random)?;
                if let Section::Work(from, to) = shared.task.load.section {
                    compute(ra, &mut random, from, to)?;
                }
                leave(&mut **lock, ra, shared, choice, &entered)?;
                1
            }
        };
        if let Section::Wait(from, to) = shared.task.load.section {
            compute(ra, &mut random, from, to)?;
        }
        shared.acquisitions.set(shared.acquisitions.get() + number);
        Ok(number)
    };
    let mut made = 0;
    while made < u64::from(warm_up) {
        made += pair(false)?;
        if let Some(over) = shared.over.get() {
            return Ok(Times { begin: over, end: over, pairs: 0 });
        }
    }
    ra.begin_stats()?;
    let begin = ra.time().0;
    let mut times = Times { begin, end: begin, pairs: 0 };
    loop {
        let number = pair(true)?;
        if shared.over.get().is_some() {
            return Ok(times);
        }
        let now = ra.time().0;
        if now == times.end {
            // A pair without any operation must give the other ranks their turn.
            ra.compute(Duration::ZERO)?;
        }
        times.end = now;
        times.pairs += number;
        shared.measured.set(shared.measured.get() + number);
        if (times.pairs - number..times.pairs).contains(&(u64::from(pairs) - 1)) {
            shared.measuring.set(shared.measuring.get() - 1);
        }
        let most = LONGEST * u64::from(pairs) * u64::from(size);
        let starves = goes_on && (shared.measured.get() >= most || shared.hurry.get());
        let all = u64::from(pairs) * u64::from(size);
        let together = table && (shared.measured.get() >= all || shared.hurry.get());
        if (shared.measuring.get() == 0 && !table) || starves || together {
            shared.over.set(Some(now));
            ra.end_stats()?;
            return Ok(times);
        }
        if times.pairs >= u64::from(pairs) && !goes_on && !table {
            return Ok(times);
        }
    }
}

/// The longest measurement, as a multiple of the pairs of all tasks. A writer's pair takes as long as hundreds of readers'.
const LONGEST: u64 = 1000;

/// 2^64 divided by the golden ratio: spreads small numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn choose(random: &mut SmallRng, shared: &Shared, only_exclusive: bool, me: Rank, size: u32) -> Choice {
    let mix = shared.task.load.mix;
    let draw = if mix.lock_all == 1.0 { 0.0 } else { random.random::<f64>() };
    let kind = match draw {
        _ if only_exclusive => LockKind::Exclusive,
        draw if draw < mix.lock_all => return Choice::All,
        draw if draw < mix.lock_all + mix.shared => LockKind::Shared,
        _ if mix.exclusive > 0.0 => LockKind::Exclusive,
        _ => LockKind::Shared,
    };
    let target = match shared.task.target {
        Target::Own => me,
        Target::Same => shared.task.home,
        Target::Random => Rank(random.random_range(0..size)),
    };
    Choice::One(kind, target)
}

/// Acquires the locks of a transaction in their order, and then releases all of them.
fn transaction(
    table: &mut LockTable<'_>,
    locks: &[(u32, LockKind)],
    ra: &Sim<'_>,
    shared: &Shared,
    data: Disp,
    random: &mut SmallRng,
    measured: bool,
) -> rmalab_locks::Result<()> {
    let mut held = Vec::with_capacity(locks.len());
    for &(number, kind) in locks {
        let choice = Choice::One(kind, table.home(number));
        held.push((number, choice, enter(table.lock(ra, number)?, ra, shared, choice, number, measured)?));
    }
    for (_, choice, entered) in &held {
        inside(ra, shared, *choice, entered, data, random)?;
    }
    if let Section::Work(from, to) = shared.task.load.section {
        compute(ra, random, from, to)?;
    }
    for (number, choice, entered) in held.iter().rev() {
        leave(table.lock(ra, *number)?, ra, shared, *choice, entered)?;
    }
    Ok(())
}

/// An acquisition.
struct Entered {
    book: u32,
    request: u64,
    measured: bool,
    /// A writer's operations, by distance.
    operations: [u64; 3],
}

/// Acquires a lock, whose grants are counted in `book`.
fn enter(
    lock: &mut dyn AnyLock,
    ra: &Sim<'_>,
    shared: &Shared,
    choice: Choice,
    book: u32,
    measured: bool,
) -> rmalab_locks::Result<Entered> {
    let requested = shared.grants.borrow()[book as usize];
    let request = ra.time().0;
    let mut operations = [0; 3];
    if choice.writes() {
        let counted = Counted::new(ra);
        acquire(lock, &counted, choice)?;
        operations = by_distance(&counted.counts());
    } else {
        acquire(lock, ra, choice)?;
    }
    if shared.holders.borrow_mut().enter(choice, book) && shared.task.excludes {
        shared.guard.end(VIOLATED);
    }
    let bypass = shared.grant(book) - requested;
    let measured = measured && shared.over.get().is_none();
    if measured {
        let mut sides = shared.sides.borrow_mut();
        let side = &mut sides[usize::from(choice.writes())];
        side.acquire.saturating_record((ra.time().0 - request) / 1000);
        side.bypass_sum += bypass;
        side.bypass_max = side.bypass_max.max(bypass);
    }
    Ok(Entered { book, request, measured, operations })
}

/// The operations of a rank while it holds a lock.
fn inside(
    ra: &Sim<'_>,
    shared: &Shared,
    choice: Choice,
    entered: &Entered,
    data: Disp,
    random: &mut SmallRng,
) -> rmalab_locks::Result<()> {
    if shared.task.load.section != Section::Operation {
        return Ok(());
    }
    let at = match choice {
        Choice::All => Rank(random.random_range(0..ra.size())),
        Choice::One(_, target) => target,
    };
    if choice.writes() {
        ra.put(at.at(data), entered.request)?;
        ra.flush(at)?;
    } else {
        ra.get(at.at(data))?;
    }
    Ok(())
}

/// Releases what [`enter`] acquired.
fn leave(
    lock: &mut dyn AnyLock,
    ra: &Sim<'_>,
    shared: &Shared,
    choice: Choice,
    entered: &Entered,
) -> rmalab_locks::Result<()> {
    shared.holders.borrow_mut().leave(choice, entered.book);
    if !choice.writes() {
        return release(lock, ra, choice);
    }
    let counted = Counted::new(ra);
    release(lock, &counted, choice)?;
    if entered.measured {
        let all: [u64; 3] = by_distance(&counted.counts());
        let mut sides = shared.sides.borrow_mut();
        let side = &mut sides[1];
        for (sum, (one, two)) in side.operations.iter_mut().zip(entered.operations.iter().zip(all)) {
            *sum += one + two;
        }
        let sum = entered.operations.iter().sum::<u64>() + all.iter().sum::<u64>();
        side.operations_max = side.operations_max.max(sum);
    }
    Ok(())
}

fn acquire(lock: &mut dyn AnyLock, ra: &dyn RemoteAtomics, choice: Choice) -> rmalab_locks::Result<()> {
    match choice {
        Choice::All => lock.lock_all(ra),
        Choice::One(kind, target) => lock.lock(ra, kind, target),
    }
}

fn release(lock: &mut dyn AnyLock, ra: &dyn RemoteAtomics, choice: Choice) -> rmalab_locks::Result<()> {
    match choice {
        Choice::All => lock.unlock_all(ra),
        Choice::One(kind, target) => lock.unlock(ra, kind, target),
    }
}

fn compute(ra: &Sim<'_>, random: &mut SmallRng, from: Duration, to: Duration) -> rmalab_locks::Result<()> {
    let span = if from == to { from } else { random.random_range(from..=to) };
    Ok(ra.compute(span)?)
}

/// Ends a simulation early: for want of memory, or because its lock does not exclude.
pub(crate) struct Guard {
    /// Limit on the bytes of this process.
    most: u64,
    /// The reason of an early end.
    pub(crate) why: RefCell<Option<String>>,
}

impl Guard {
    /// A guard for a process that may have at most `most` bytes.
    pub(crate) fn new(most: u64) -> Guard {
        Guard { most, why: RefCell::default() }
    }

    /// Ends the simulation for a reason. The first one counts.
    pub(crate) fn end(&self, why: &str) {
        self.why.borrow_mut().get_or_insert_with(|| why.to_owned());
    }

    /// Returns whether the simulation has a reason to end.
    pub(crate) fn has_ended(&self) -> bool {
        self.why.borrow().is_some()
    }

    /// Returns whether there is memory to go on.
    pub(crate) fn goes_on(&self) -> bool {
        if let Some(now) = resident().filter(|&now| now > self.most) {
            let [now, most] = [now, self.most].map(gib);
            let why = || format!("the simulations take {now} of memory, and {most} are available");
            self.why.borrow_mut().get_or_insert_with(why);
        }
        self.why.borrow().is_none()
    }
}

pub(crate) fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Bytes of memory that this process has; `None` where the system does not report them.
pub(crate) fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}
