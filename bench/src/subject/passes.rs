//! What one rank does in one cell, and what it writes down.
//!
//! Each cell has three passes, because measuring costs time, and the locks take less of it than the clock does:
//!
//! 1. throughput: acquisitions are only counted; the clock is read once in some of them;
//! 2. latency: the clock is read after each acquire and after each release;
//! 3. counted: every remote operation is counted, and a ledger at the target, which takes remote operations of its own
//!    that are not counted, tells who was let in before whom.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::{Counted, Disp, Distance, Rank, RemoteAtomics, Time};
use rmalab_locks::{LockKind, WindowLock};
use serde::{Deserialize, Serialize};

use crate::registry::Studied;
use crate::study::{Target, nanoseconds};

/// Samples of the latency pass that are kept before they go into histograms, so that only every so many acquisitions
/// pay for a histogram's cache misses.
const SAMPLES: usize = 1024;

/// Digits that the latency histograms keep: 1 % is finer than what two runs agree on.
const DIGITS: u8 = 2;

/// The longest latency that is told from longer ones, in nanoseconds.
const LONGEST: u64 = 1_000_000_000_000;

/// What one rank is to do in one cell.
pub(crate) struct Task<'a> {
    pub(crate) read_fraction: f64,
    pub(crate) critical_section: Duration,
    pub(crate) think_time: Duration,
    pub(crate) home: Rank,
    pub(crate) target: Target,
    pub(crate) seed: u64,
    pub(crate) ledger: Ledger,
    /// Set when the user wants an end.
    pub(crate) stop: &'a AtomicBool,
}

/// Where the ledger's two words are, in every rank's segment; a target's own are used for exclusive locks of it.
#[derive(Clone, Copy)]
pub(crate) struct Ledger {
    /// How many acquisitions have been granted so far.
    pub(crate) grants: Disp,
    /// One more than the rank that was the last exclusive holder; 0 if there was none yet.
    pub(crate) last: Disp,
}

/// One rank's part of a subject, bound to its place in memory.
pub(crate) trait Bound<A: ?Sized> {
    /// Acquires and releases until `end`, uninstrumented.
    fn throughput(&mut self, ra: &A, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Throughput>;
    /// Acquires and releases until `end`, and times each step.
    fn latency(&mut self, ra: &A, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Latency>;
    /// Acquires and releases until `end`, counts operations, and keeps the ledger.
    fn counted(&mut self, ra: &A, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Counts>;
}

/// What one rank did in the throughput pass.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) acquisitions: u64,
    /// By how much the rank was measured longer than the pass was to be.
    pub(crate) overtime_ns: u64,
}

/// A histogram on its way to another rank: values in nanoseconds, and how often each occurred.
pub(crate) type Recorded = Vec<(u64, u64)>;

/// One rank's latencies.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) readers: Steps<Recorded>,
    pub(crate) writers: Steps<Recorded>,
}

/// The steps that are timed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Steps<T> {
    /// From the request to the grant.
    pub(crate) acquire: T,
    /// The release alone.
    pub(crate) release: T,
    /// From the grant until the release has returned.
    pub(crate) hold: T,
}

/// One rank's remote operations, and what the ledger said.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) readers: SideCounts,
    pub(crate) writers: SideCounts,
    /// Exclusive grants whose last exclusive holder was this rank, one of this node, or one of another node.
    pub(crate) handovers: [u64; 3],
}

/// What is counted for readers and writers apart.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SideCounts {
    pub(crate) acquisitions: u64,
    /// Operations by distance.
    pub(crate) operations: [u64; 3],
    /// Grants to others between a request and its grant: their sum, and the most.
    pub(crate) bypass_sum: u64,
    pub(crate) bypass_max: u64,
}

/// A window lock under measurement.
pub(crate) struct Running<W> {
    lock: W,
    /// Latencies wait here for their histograms: whether a reader's, acquire, release, hold.
    samples: Vec<(bool, [u32; 3])>,
}

impl<W: WindowLock> Running<W> {
    pub(crate) fn new(lock: W) -> Running<W> {
        Running { lock, samples: Vec::with_capacity(SAMPLES) }
    }
}

impl<W: WindowLock, A: Studied + ?Sized> Bound<A> for Running<W> {
    fn throughput(&mut self, ra: &A, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Throughput> {
        let mut choices = Choices::new(ra, task);
        let mut acquisitions = 0;
        loop {
            for _ in 0..A::BATCH {
                let choice = choices.next();
                acquire(&mut self.lock, ra, choice)?;
                compute(task.critical_section);
                release(&mut self.lock, ra, choice)?;
                compute(task.think_time);
            }
            let now = ra.now();
            if now >= end || task.stop.load(Ordering::Relaxed) {
                // All ranks are measured over the same stretch of time; what ends later does not count. A rank that did
                // not end anything in time (it had no processor, as a rule) is measured until it did.
                return Ok(match acquisitions {
                    0 => Throughput { acquisitions: A::BATCH, overtime_ns: nanoseconds(now.since(end)) },
                    acquisitions => Throughput { acquisitions, overtime_ns: 0 },
                });
            }
            acquisitions += A::BATCH;
        }
    }

    fn latency(&mut self, ra: &A, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Latency> {
        let mut choices = Choices::new(ra, task);
        let mut readers = Steps::<Histogram<u64>>::new();
        let mut writers = Steps::<Histogram<u64>>::new();
        let mut request = Instant::now();
        let end = request + end.since(ra.now());
        loop {
            let choice = choices.next();
            acquire(&mut self.lock, ra, choice)?;
            let grant = Instant::now();
            let mut done = grant;
            if !task.critical_section.is_zero() {
                compute(task.critical_section);
                done = Instant::now();
            }
            release(&mut self.lock, ra, choice)?;
            let released = Instant::now();
            let step = |from: Instant, to: Instant| u32::try_from((to - from).as_nanos()).unwrap_or(u32::MAX);
            self.samples.push((choice.is_none(), [step(request, grant), step(done, released), step(grant, released)]));
            request = released;
            if self.samples.len() == SAMPLES || !task.think_time.is_zero() {
                if self.samples.len() == SAMPLES {
                    record(&mut self.samples, &mut readers, &mut writers);
                }
                compute(task.think_time);
                request = Instant::now();
            }
            if request >= end || task.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        record(&mut self.samples, &mut readers, &mut writers);
        Ok(Latency { readers: readers.recorded(), writers: writers.recorded() })
    }

    fn counted(&mut self, ra: &A, task: &Task<'_>, end: Time) -> rmalab_locks::Result<Counts> {
        let mut choices = Choices::new(ra, task);
        let mut counts = Counts::default();
        // One wrapper for each side keeps their operations apart without looking at the counts in every round.
        let (reading, writing) = (Counted::new(ra), Counted::new(ra));
        loop {
            let choice = choices.next();
            let (side, counted) = match choice {
                None => (&mut counts.readers, &reading),
                Some(_) => (&mut counts.writers, &writing),
            };
            let book = choice.unwrap_or(task.home);
            let requested = ra.get(book.at(task.ledger.grants))?;
            acquire(&mut self.lock, counted, choice)?;
            let granted = ra.fetch_add(book.at(task.ledger.grants), 1)?;
            if choice.is_some() {
                let last = ra.fetch_store(book.at(task.ledger.last), u64::from(ra.rank().0) + 1)?;
                if let Some(last) = last.checked_sub(1) {
                    let last = Rank(u32::try_from(last).expect("the ledger holds ranks"));
                    counts.handovers[ra.topology().distance(last, ra.rank()).index()] += 1;
                }
            }
            compute(task.critical_section);
            release(&mut self.lock, counted, choice)?;
            let bypass = granted.wrapping_sub(requested);
            side.acquisitions += 1;
            side.bypass_sum += bypass;
            side.bypass_max = side.bypass_max.max(bypass);
            compute(task.think_time);
            if ra.now() >= end || task.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        counts.readers.operations = by_distance(&reading.counts());
        counts.writers.operations = by_distance(&writing.counts());
        Ok(counts)
    }
}

/// Acquires for reading (lock_all) if `exclusive` names no target.
#[inline(always)]
fn acquire<W: WindowLock, A: RemoteAtomics + ?Sized>(
    lock: &mut W,
    ra: &A,
    exclusive: Option<Rank>,
) -> rmalab_locks::Result<()> {
    match exclusive {
        None => lock.lock_all(ra),
        Some(target) => lock.lock(ra, LockKind::Exclusive, target),
    }
}

/// Releases what [`acquire`] acquired.
#[inline(always)]
fn release<W: WindowLock, A: RemoteAtomics + ?Sized>(
    lock: &mut W,
    ra: &A,
    exclusive: Option<Rank>,
) -> rmalab_locks::Result<()> {
    match exclusive {
        None => lock.unlock_all(ra),
        Some(target) => lock.unlock(ra, LockKind::Exclusive, target),
    }
}

/// Word and bulk operations of all kinds, by the distance of their target.
pub(crate) fn by_distance(counts: &rmalab_atomics::Counts) -> [u64; 3] {
    let kinds = [
        counts.fetch_add,
        counts.compare_and_swap,
        counts.fetch_store,
        counts.get,
        counts.put,
        counts.get_bytes,
        counts.put_bytes,
    ];
    Distance::ALL.map(|distance| kinds.iter().map(|kind| kind.at(distance)).sum())
}

/// Keeps the processor busy for `span`.
#[inline(always)]
fn compute(span: Duration) {
    if !span.is_zero() {
        let start = Instant::now();
        while start.elapsed() < span {
            std::hint::spin_loop();
        }
    }
}

/// The sequence of a rank's acquisitions: none for lock_all, or the target of an exclusive lock.
struct Choices {
    random: SmallRng,
    /// Out of 2^32 acquisitions, how many are lock_all.
    readers: u64,
    target: Target,
    home: Rank,
    ranks: u32,
}

impl Choices {
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, task: &Task<'_>) -> Choices {
        Choices {
            random: SmallRng::seed_from_u64(
                task.seed ^ (u64::from(ra.rank().0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ),
            readers: (task.read_fraction * 2f64.powi(32)) as u64,
            target: task.target,
            home: task.home,
            ranks: ra.size(),
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
    fn new() -> Steps<Histogram<u64>> {
        Steps { acquire: histogram(), release: histogram(), hold: histogram() }
    }

    fn recorded(&self) -> Steps<Recorded> {
        let list = |histogram: &Histogram<u64>| {
            histogram.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
        };
        Steps { acquire: list(&self.acquire), release: list(&self.release), hold: list(&self.hold) }
    }
}

/// An empty histogram of latencies in nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are constants that the library accepts")
}

#[cold]
fn record(
    samples: &mut Vec<(bool, [u32; 3])>,
    readers: &mut Steps<Histogram<u64>>,
    writers: &mut Steps<Histogram<u64>>,
) {
    for (reader, [acquire, release, hold]) in samples.drain(..) {
        let side = if reader { &mut *readers } else { &mut *writers };
        side.acquire.saturating_record(u64::from(acquire));
        side.release.saturating_record(u64::from(release));
        side.hold.saturating_record(u64::from(hold));
    }
}
