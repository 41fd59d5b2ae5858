//! The work of one rank in one cell, and its records.
//!
//! Measuring costs time, and a lock takes less time than reading the clock. So each cell has three passes:
//!
//! 1. throughput: acquisitions are only counted; the clock is read once in some of them;
//! 2. latency: the clock is read after each acquire and after each release;
//! 3. counted: every remote operation is counted. A ledger at the target shows the order of the grants; its own remote
//!    operations are not counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::{Address, Counted, Disp, Mapped, Probed, Rank, RemoteAtomics, Time};
use rmalab_locks::{LockKind, WindowLock};
use serde::{Deserialize, Serialize};

use super::any_lock::{AnyLock, by_distance};
use rmalab_report::numbers::nanoseconds;
use rmalab_report::statistics::histogram;

/// Samples of the latency pass that are kept before they go into histograms. So only one acquisition in this many pays
/// for a histogram's cache misses.
pub(super) const SAMPLES: usize = 1024;

/// From this computing time on, a rank reads the clock after each acquisition, since that takes a fraction of a percent.
pub(super) const LONG: Duration = Duration::from_micros(10);

/// The target of exclusive locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// Always the home rank: all writers exclude one another.
    #[default]
    Home,
    /// A rank drawn for every lock: policies with a lock for each target let writers pass one another.
    Random,
}

/// The load of one rank in one cell.
pub(crate) struct Task<'a> {
    pub(crate) read_fraction: f64,
    pub(crate) critical_section: Duration,
    pub(crate) think_time: Duration,
    pub(crate) home: Rank,
    pub(crate) target: Target,
    pub(crate) seed: u64,
    pub(crate) ledger: Ledger,
    /// Time without progress of any rank after which a trial fails.
    pub(crate) patience: Duration,
    /// Set when the user asks for the end.
    pub(crate) stop: &'a AtomicBool,
}

/// Latencies that wait for their histograms: whether the rank read, and its acquire, release and hold.
pub(super) type Samples = Vec<(bool, [u32; 3])>;

/// Locations of the ledger's words in every rank's segment. Exclusive locks of a target use the words at that target.
#[derive(Clone, Copy)]
pub(crate) struct Ledger {
    /// The number of acquisitions granted so far.
    pub(crate) grants: Disp,
    /// One more than the rank that was the last exclusive holder; 0 before the first.
    pub(crate) last: Disp,
    /// The present holders: [`EXCLUSIVE`] for each exclusive one, 1 for each other one.
    pub(crate) inside: Disp,
    /// The number of steps of progress in a trial.
    pub(crate) beats: Disp,
}

/// The value of an exclusive holder in the ledger's count of holders.
const EXCLUSIVE: u64 = 1 << 32;

/// Acquisitions of a rank in a trial.
pub(super) const TRIALS: u32 = 4;

/// One rank's part of a subject, and its backend.
pub(crate) trait Passes {
    /// Acquires and releases until `end`, uninstrumented.
    fn throughput(&mut self, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Throughput>;
    /// Acquires and releases until `end`, and times each step.
    fn latency(&mut self, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Latency>;
    /// Tries the lock `name` with a few acquisitions, and fails if no rank makes progress. Returns the number of times
    /// that a holder met a holder that it excludes.
    fn trial(&mut self, task: &Task<'_>, name: &str) -> rmalab_locks::Result<u64>;
    /// Acquires and releases until `end`, counts operations, and keeps the ledger.
    fn counted(&mut self, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Counts>;
}

/// The counts of one rank in the throughput pass.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) acquisitions: u64,
    /// The time by which the measurement of the rank exceeded the plan.
    pub(crate) overtime_ns: u64,
}

/// A histogram in a form for other ranks: values in nanoseconds, and how often each occurred.
pub(crate) type Recorded = Vec<(u64, u64)>;

/// One rank's latencies.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) readers: Steps<Recorded>,
    pub(crate) writers: Steps<Recorded>,
}

/// The timed steps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Steps<T> {
    /// From the request to the grant.
    pub(crate) acquire: T,
    /// The release alone.
    pub(crate) release: T,
    /// From the grant until the release has returned.
    pub(crate) hold: T,
}

/// One rank's remote operations, and its results from the ledger.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) readers: SideCounts,
    pub(crate) writers: SideCounts,
    /// Exclusive grants by the last exclusive holder: this rank, another rank of this node, a rank of another node.
    pub(crate) handovers: [u64; 3],
    /// Acquisitions during which another rank held what this one excludes.
    pub(crate) violations: u64,
}

/// Counters for readers or for writers.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SideCounts {
    pub(crate) acquisitions: u64,
    /// Operations by distance.
    pub(crate) operations: [u64; 3],
    /// Grants to other ranks between a request and its grant: the sum, and the maximum.
    pub(crate) bypass_sum: u64,
    pub(crate) bypass_max: u64,
}

/// A lock on shared memory: the timed loops are compiled for its type.
pub(crate) struct OnMemory<'a, W> {
    ra: &'a Mapped,
    lock: W,
    samples: Samples,
}

impl<'a, W: WindowLock> OnMemory<'a, W> {
    /// Acquisitions between two readings of the clock in the throughput pass.
    ///
    /// Reading the clock takes some 25 ns, the cheapest lock on shared memory 10 ns. One reading in 16 acquisitions
    /// costs less than a fifth of the lock. If a rank computes for longer than [`LONG`], each acquisition ends with a
    /// reading.
    const BATCH: u64 = 16;

    pub(crate) fn new(ra: &'a Mapped, lock: W) -> OnMemory<'a, W> {
        OnMemory { ra, lock, samples: Vec::with_capacity(SAMPLES) }
    }
}

impl<W: WindowLock> Passes for OnMemory<'_, W> {
    fn throughput(&mut self, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Throughput> {
        let batch = if task.critical_section + task.think_time < LONG { Self::BATCH } else { 1 };
        throughput(&mut self.lock, self.ra, batch, task, end)
    }

    fn latency(&mut self, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Latency> {
        latency(&mut self.lock, self.ra, &mut self.samples, task, end)
    }

    fn trial(&mut self, task: &Task<'_>, name: &str) -> rmalab_locks::Result<u64> {
        trial(&mut self.lock, self.ra, task, name)
    }

    fn counted(&mut self, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Counts> {
        counted(&mut self.lock, self.ra, task, end)
    }
}

/// A lock on any backend. Its operations take at least a microsecond, so a call through a table does not matter.
pub(crate) struct Anywhere<'a> {
    ra: &'a dyn RemoteAtomics,
    lock: Box<dyn AnyLock>,
    samples: Samples,
}

impl<'a> Anywhere<'a> {
    pub(crate) fn new(ra: &'a dyn RemoteAtomics, lock: Box<dyn AnyLock>) -> Anywhere<'a> {
        Anywhere { ra, lock, samples: Vec::with_capacity(SAMPLES) }
    }
}

impl Passes for Anywhere<'_> {
    fn throughput(&mut self, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Throughput> {
        throughput(&mut self.lock, self.ra, 1, task, end)
    }

    fn latency(&mut self, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Latency> {
        latency(&mut self.lock, self.ra, &mut self.samples, task, end)
    }

    fn trial(&mut self, task: &Task<'_>, name: &str) -> rmalab_locks::Result<u64> {
        trial(&mut *self.lock, self.ra, task, name)
    }

    fn counted(&mut self, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Counts> {
        counted(&mut *self.lock, self.ra, task, end)
    }
}

/// A lock, as a pass uses it.
trait Pair<A: ?Sized> {
    /// Acquires for reading (lock_all) if `exclusive` names no target.
    fn acquire(&mut self, ra: &A, exclusive: Option<Rank>) -> rmalab_locks::Result<()>;

    /// Releases what [`acquire`](Self::acquire) acquired.
    fn release(&mut self, ra: &A, exclusive: Option<Rank>) -> rmalab_locks::Result<()>;
}

impl<W: WindowLock> Pair<Mapped> for W {
    #[inline(always)]
    fn acquire(&mut self, ra: &Mapped, exclusive: Option<Rank>) -> rmalab_locks::Result<()> {
        match exclusive {
            None => self.lock_all(ra),
            Some(target) => self.lock(ra, LockKind::Exclusive, target),
        }
    }

    #[inline(always)]
    fn release(&mut self, ra: &Mapped, exclusive: Option<Rank>) -> rmalab_locks::Result<()> {
        match exclusive {
            None => self.unlock_all(ra),
            Some(target) => self.unlock(ra, LockKind::Exclusive, target),
        }
    }
}

impl<'a> Pair<dyn RemoteAtomics + 'a> for Box<dyn AnyLock> {
    fn acquire(&mut self, ra: &(dyn RemoteAtomics + 'a), exclusive: Option<Rank>) -> rmalab_locks::Result<()> {
        acquire(&mut **self, ra, exclusive)
    }

    fn release(&mut self, ra: &(dyn RemoteAtomics + 'a), exclusive: Option<Rank>) -> rmalab_locks::Result<()> {
        release(&mut **self, ra, exclusive)
    }
}

fn acquire(lock: &mut dyn AnyLock, ra: &dyn RemoteAtomics, exclusive: Option<Rank>) -> rmalab_locks::Result<()> {
    match exclusive {
        None => lock.lock_all(ra),
        Some(target) => lock.lock(ra, LockKind::Exclusive, target),
    }
}

fn release(lock: &mut dyn AnyLock, ra: &dyn RemoteAtomics, exclusive: Option<Rank>) -> rmalab_locks::Result<()> {
    match exclusive {
        None => lock.unlock_all(ra),
        Some(target) => lock.unlock(ra, LockKind::Exclusive, target),
    }
}

/// Acquires and releases until `end`; reads the clock after every `batch` acquisitions.
fn throughput<A: RemoteAtomics + ?Sized>(
    lock: &mut impl Pair<A>,
    ra: &A,
    batch: u64,
    task: &Task<'_>,
    end: Time,
) -> rmalab_locks::Result<Throughput> {
    let mut choices = Choices::new(ra.rank(), ra.size(), task);
    let mut acquisitions = 0;
    loop {
        for _ in 0..batch {
            let choice = choices.next();
            lock.acquire(ra, choice)?;
            compute(task.critical_section, task.stop);
            lock.release(ra, choice)?;
            compute(task.think_time, task.stop);
        }
        let now = ra.now();
        if now >= end || task.stop.load(Ordering::Relaxed) {
            // All ranks are measured over the same stretch of time, and acquisitions that end later do not count. A
            // rank that completes none in time, usually for want of a processor, is measured until it completes one.
            return Ok(match acquisitions {
                0 => Throughput { acquisitions: batch, overtime_ns: nanoseconds(now.since(end)) },
                acquisitions => Throughput { acquisitions, overtime_ns: 0 },
            });
        }
        acquisitions += batch;
    }
}

/// Acquires and releases until `end`; reads the clock after each step.
fn latency<A: RemoteAtomics + ?Sized>(
    lock: &mut impl Pair<A>,
    ra: &A,
    samples: &mut Samples,
    task: &Task<'_>,
    end: Time,
) -> rmalab_locks::Result<Latency> {
    let mut choices = Choices::new(ra.rank(), ra.size(), task);
    let now = Instant::now();
    let mut timed = Timed {
        samples,
        readers: Steps::<Histogram<u64>>::new(),
        writers: Steps::<Histogram<u64>>::new(),
        request: now,
        end: now + end.since(ra.now()),
    };
    loop {
        let choice = choices.next();
        lock.acquire(ra, choice)?;
        let grant = Instant::now();
        let mut done = grant;
        if !task.critical_section.is_zero() {
            compute(task.critical_section, task.stop);
            done = Instant::now();
        }
        lock.release(ra, choice)?;
        if !timed.goes_on(task, choice.is_none(), [grant, done, Instant::now()]) {
            return Ok(timed.latency());
        }
    }
}

/// The latencies of a rank while they are taken; compiled once for all locks.
struct Timed<'s> {
    samples: &'s mut Samples,
    readers: Steps<Histogram<u64>>,
    writers: Steps<Histogram<u64>>,
    /// The time of the next request.
    request: Instant,
    end: Instant,
}

impl Timed<'_> {
    /// Adds the times of an acquisition: its grant, the start of its release, and the release's end. Then thinks, and
    /// returns whether the rank goes on.
    fn goes_on(&mut self, task: &Task<'_>, reads: bool, [grant, done, released]: [Instant; 3]) -> bool {
        let step = |from: Instant, to: Instant| u32::try_from((to - from).as_nanos()).unwrap_or(u32::MAX);
        self.samples.push((reads, [step(self.request, grant), step(done, released), step(grant, released)]));
        self.request = released;
        if self.samples.len() == SAMPLES || !task.think_time.is_zero() {
            if self.samples.len() == SAMPLES {
                record(self.samples, &mut self.readers, &mut self.writers);
            }
            compute(task.think_time, task.stop);
            self.request = Instant::now();
        }
        self.request < self.end && !task.stop.load(Ordering::Relaxed)
    }

    /// The latencies so far.
    fn latency(mut self) -> Latency {
        record(self.samples, &mut self.readers, &mut self.writers);
        Latency { readers: self.readers.recorded(), writers: self.writers.recorded() }
    }
}

/// A holder in the ledger's count of holders.
pub(super) struct Holder {
    at: Address,
    weight: u64,
    alone: bool,
}

impl Holder {
    /// Records that this rank holds the lock whose holders are counted at `at`.
    pub(super) fn enters(ra: &dyn RemoteAtomics, at: Address, exclusive: bool) -> rmalab_locks::Result<Holder> {
        let weight = if exclusive { EXCLUSIVE } else { 1 };
        let others = ra.fetch_add(at, weight)?;
        Ok(Holder { at, weight, alone: Holder::may_be_with(weight, others) })
    }

    /// Records that this rank is about to release; returns whether no rank was inside that it excludes.
    pub(super) fn leaves(self, ra: &dyn RemoteAtomics) -> rmalab_locks::Result<bool> {
        let others = ra.fetch_add(self.at, self.weight.wrapping_neg())?.wrapping_sub(self.weight);
        Ok(self.alone && Holder::may_be_with(self.weight, others))
    }

    fn may_be_with(weight: u64, others: u64) -> bool {
        if weight == EXCLUSIVE { others == 0 } else { others < EXCLUSIVE }
    }
}

/// Acquires and releases a few times; see [`Passes::trial`].
fn trial(lock: &mut dyn AnyLock, ra: &dyn RemoteAtomics, task: &Task<'_>, name: &str) -> rmalab_locks::Result<u64> {
    let mut choices = Choices::new(ra.rank(), ra.size(), task);
    let probed = Probed::new(ra, name, task.ledger.beats, task.patience);
    let mut violations = 0;
    for _ in 0..TRIALS {
        let choice = choices.next();
        probed.begin(if choice.is_some() { "lock" } else { "lock_all" })?;
        acquire(lock, &probed, choice)?;
        let holder = Holder::enters(ra, choice.unwrap_or(task.home).at(task.ledger.inside), choice.is_some())?;
        // Gives ranks that must not enter the time to enter wrongly.
        std::thread::yield_now();
        violations += u64::from(!holder.leaves(ra)?);
        probed.begin(if choice.is_some() { "unlock" } else { "unlock_all" })?;
        release(lock, &probed, choice)?;
    }
    Ok(violations)
}

/// Acquires and releases until `end`; counts the lock's operations, and keeps the ledger. It times nothing.
fn counted(lock: &mut dyn AnyLock, ra: &dyn RemoteAtomics, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Counts> {
    let mut choices = Choices::new(ra.rank(), ra.size(), task);
    let mut counts = Counts::default();
    // One wrapper for each side counts that side's operations separately, without a look at the counts in every round.
    let (reading, writing) = (Counted::new(ra), Counted::new(ra));
    loop {
        let choice = choices.next();
        let (side, counted) = match choice {
            None => (&mut counts.readers, &reading),
            Some(_) => (&mut counts.writers, &writing),
        };
        let book = choice.unwrap_or(task.home);
        let requested = ra.get(book.at(task.ledger.grants))?;
        acquire(lock, counted, choice)?;
        let granted = ra.fetch_add(book.at(task.ledger.grants), 1)?;
        let holder = Holder::enters(ra, choice.unwrap_or(task.home).at(task.ledger.inside), choice.is_some())?;
        if choice.is_some() {
            let last = ra.fetch_store(book.at(task.ledger.last), u64::from(ra.rank().0) + 1)?;
            if let Some(last) = last.checked_sub(1) {
                let last = Rank(u32::try_from(last).expect("the ledger holds ranks"));
                counts.handovers[ra.topology().distance(last, ra.rank()).index()] += 1;
            }
        }
        compute(task.critical_section, task.stop);
        counts.violations += u64::from(!holder.leaves(ra)?);
        release(lock, counted, choice)?;
        let bypass = granted.wrapping_sub(requested);
        side.acquisitions += 1;
        side.bypass_sum += bypass;
        side.bypass_max = side.bypass_max.max(bypass);
        compute(task.think_time, task.stop);
        if ra.now() >= end || task.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    counts.readers.operations = by_distance(&reading.counts());
    counts.writers.operations = by_distance(&writing.counts());
    Ok(counts)
}

/// Keeps the processor busy for `span`, or until `stop` is set.
#[inline(always)]
pub(super) fn compute(span: Duration, stop: &AtomicBool) {
    if !span.is_zero() {
        let start = Instant::now();
        while start.elapsed() < span && !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

/// The sequence of a rank's acquisitions: `None` for lock_all, or the target of an exclusive lock.
struct Choices {
    random: SmallRng,
    /// The number of lock_all among 2^32 acquisitions.
    readers: u64,
    target: Target,
    home: Rank,
    ranks: u32,
}

impl Choices {
    fn new(rank: Rank, ranks: u32, task: &Task<'_>) -> Choices {
        Choices {
            random: SmallRng::seed_from_u64(task.seed ^ (u64::from(rank.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            readers: (task.read_fraction * 2f64.powi(32)) as u64,
            target: task.target,
            home: task.home,
            ranks,
        }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Rank> {
        if u64::from(self.random.random::<u32>()) < self.readers {
            return None;
        }
        Some(match self.target {
            Target::Home => self.home,
            Target::Random => Rank(self.random.random_range(0..self.ranks)),
        })
    }
}

impl Steps<Histogram<u64>> {
    pub(super) fn new() -> Steps<Histogram<u64>> {
        Steps { acquire: histogram(), release: histogram(), hold: histogram() }
    }

    pub(super) fn recorded(&self) -> Steps<Recorded> {
        let list = |histogram: &Histogram<u64>| {
            histogram.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
        };
        Steps { acquire: list(&self.acquire), release: list(&self.release), hold: list(&self.hold) }
    }
}

#[cold]
pub(super) fn record(samples: &mut Samples, readers: &mut Steps<Histogram<u64>>, writers: &mut Steps<Histogram<u64>>) {
    for (reader, [acquire, release, hold]) in samples.drain(..) {
        let side = if reader { &mut *readers } else { &mut *writers };
        side.acquire.saturating_record(u64::from(acquire));
        side.release.saturating_record(u64::from(release));
        side.hold.saturating_record(u64::from(hold));
    }
}
