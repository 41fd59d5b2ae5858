//! The work of one rank in one cell of a study over a table of locks, on any backend.
//!
//! The passes are described in [`passes`](super::passes). A rank draws a lock, or takes a transaction of a trace, acquires all its locks,
//! computes once, and releases them in the reverse order. The ledger has words for each lock, at the lock's home.
//!
//! A rank calls locks through a table of functions, and looks up its handle of each lock. Together with the draw, that takes some tens
//! of nanoseconds of a pair, as in a program with its own table.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::{Address, Counted, Disp, Probed, Rank, RemoteAtomics, Time, WORD};
use rmalab_locks::{LINE, LockKind, Result};

use super::Make;
use super::any_lock::by_distance;
use super::lock_table::LockTable;
use super::passes::{
    Counts, Holder, LONG, Latency, Passes, SAMPLES, Samples, Steps, TRIALS, Task, Throughput, compute, record,
};
use crate::workload::Layout;
use rmalab_report::numbers::nanoseconds;

/// Transactions between two readings of the clock in the throughput pass.
const BATCH: u32 = 16;

/// Words of the ledger for each lock: its grants, its last exclusive holder, and its present holders.
const BOOK: u64 = 3 * WORD;

/// One rank's part of a table, and its backend.
pub(crate) struct OverTable<'a> {
    ra: &'a dyn RemoteAtomics,
    table: LockTable<'a>,
    /// The place of the ledger in every rank's segment.
    books: Disp,
    samples: Samples,
}

/// The transactions of one pass.
struct Drawn {
    random: SmallRng,
    /// The number of shared locks among 2^32 drawn locks.
    readers: u64,
    locks: Vec<(u32, LockKind)>,
}

impl Drawn {
    fn new(rank: Rank, task: &Task<'_>) -> Drawn {
        Drawn {
            random: SmallRng::seed_from_u64(task.seed ^ (u64::from(rank.0) + 1).wrapping_mul(GOLDEN)),
            readers: (task.read_fraction * 2f64.powi(32)) as u64,
            locks: Vec::new(),
        }
    }

    /// Draws the next transaction into `locks`.
    fn next(&mut self, table: &mut LockTable<'_>) {
        let shared = u64::from(self.random.random::<u32>()) < self.readers;
        let kind = if shared { LockKind::Shared } else { LockKind::Exclusive };
        table.next(kind, &mut self.random, &mut self.locks);
    }
}

/// 2^64 divided by the golden ratio: spreads small numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl<'a> OverTable<'a> {
    /// Bytes of each rank's segment that a table takes, with its ledger.
    pub(crate) fn bytes(ra: &dyn RemoteAtomics, make: &Make, locks: u32) -> Result<u64> {
        // A line for the alignment of each of the two allocations.
        Ok((LockTable::bytes_of(ra, make)? + BOOK) * u64::from(locks) + 2 * LINE)
    }

    /// Makes a rank's part of a table whose locks are made by `make`. Every rank calls this at the same point.
    pub(crate) fn new(ra: &'a dyn RemoteAtomics, make: &'a Make, layout: &Arc<Layout>) -> Result<OverTable<'a>> {
        let table = LockTable::new(ra, make, layout)?;
        let books = ra.heap().alloc(BOOK * u64::from(layout.locks()), LINE)?;
        Ok(OverTable { ra, table, books, samples: Vec::with_capacity(SAMPLES) })
    }

    fn lock(&mut self, ra: &dyn RemoteAtomics, (lock, kind): (u32, LockKind)) -> Result<()> {
        let home = self.table.home(lock);
        self.table.lock(ra, lock)?.lock(ra, kind, home)
    }

    fn unlock(&mut self, ra: &dyn RemoteAtomics, (lock, kind): (u32, LockKind)) -> Result<()> {
        let home = self.table.home(lock);
        self.table.lock(ra, lock)?.unlock(ra, kind, home)
    }

    /// A word of a lock's ledger.
    fn word(&self, lock: u32, word: u64) -> Address {
        self.table.home(lock).at(self.books.plus(BOOK * u64::from(lock) + word * WORD))
    }

    fn enters(&self, (lock, kind): (u32, LockKind)) -> Result<Holder> {
        Holder::enters(self.ra, self.word(lock, 2), kind == LockKind::Exclusive)
    }
}

impl Passes for OverTable<'_> {
    fn throughput(&mut self, task: &Task<'_>, end: Time) -> Result<Throughput> {
        let ra = self.ra;
        let batch = if task.critical_section + task.think_time < LONG { BATCH } else { 1 };
        let mut drawn = Drawn::new(ra.rank(), task);
        let mut acquisitions = 0;
        loop {
            let mut made = 0;
            for _ in 0..batch {
                drawn.next(&mut self.table);
                for &lock in &drawn.locks {
                    self.lock(ra, lock)?;
                }
                compute(task.critical_section, task.stop);
                for &lock in drawn.locks.iter().rev() {
                    self.unlock(ra, lock)?;
                }
                compute(task.think_time, task.stop);
                made += drawn.locks.len() as u64;
            }
            let now = ra.now();
            if now >= end || task.stop.load(Ordering::Relaxed) {
                return Ok(match acquisitions {
                    0 => Throughput { acquisitions: made, overtime_ns: nanoseconds(now.since(end)) },
                    acquisitions => Throughput { acquisitions, overtime_ns: 0 },
                });
            }
            acquisitions += made;
        }
    }

    fn latency(&mut self, task: &Task<'_>, end: Time) -> Result<Latency> {
        let ra = self.ra;
        let mut drawn = Drawn::new(ra.rank(), task);
        let mut readers = Steps::<Histogram<u64>>::new();
        let mut writers = Steps::<Histogram<u64>>::new();
        let end = Instant::now() + end.since(ra.now());
        let step = |from: Instant, to: Instant| u32::try_from((to - from).as_nanos()).unwrap_or(u32::MAX);
        let mut granted = Vec::new();
        loop {
            drawn.next(&mut self.table);
            granted.clear();
            let mut request = Instant::now();
            for &lock in &drawn.locks {
                self.lock(ra, lock)?;
                let grant = Instant::now();
                granted.push((step(request, grant), grant));
                request = grant;
            }
            compute(task.critical_section, task.stop);
            let mut begin = if task.critical_section.is_zero() { request } else { Instant::now() };
            for (&lock, &(acquire, grant)) in drawn.locks.iter().zip(&granted).rev() {
                self.unlock(ra, lock)?;
                let released = Instant::now();
                let times = [acquire, step(begin, released), step(grant, released)];
                self.samples.push((lock.1 == LockKind::Shared, times));
                begin = released;
            }
            if self.samples.len() >= SAMPLES {
                record(&mut self.samples, &mut readers, &mut writers);
            }
            compute(task.think_time, task.stop);
            if begin >= end || task.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        record(&mut self.samples, &mut readers, &mut writers);
        Ok(Latency { readers: readers.recorded(), writers: writers.recorded() })
    }

    fn trial(&mut self, task: &Task<'_>, name: &str) -> Result<u64> {
        let ra = self.ra;
        let mut drawn = Drawn::new(ra.rank(), task);
        let probed = Probed::new(ra, name, task.ledger.beats, task.patience);
        let mut violations = 0;
        for _ in 0..TRIALS {
            drawn.next(&mut self.table);
            let mut holders = Vec::new();
            for &lock in &drawn.locks {
                probed.begin("lock")?;
                self.lock(&probed, lock)?;
                holders.push(self.enters(lock)?);
            }
            // Gives ranks that must not enter the time to enter wrongly.
            std::thread::yield_now();
            for (&lock, holder) in drawn.locks.iter().zip(holders).rev() {
                violations += u64::from(!holder.leaves(ra)?);
                probed.begin("unlock")?;
                self.unlock(&probed, lock)?;
            }
        }
        Ok(violations)
    }

    fn counted(&mut self, task: &Task<'_>, end: Time) -> Result<Counts> {
        let ra = self.ra;
        let mut drawn = Drawn::new(ra.rank(), task);
        let mut counts = Counts::default();
        // Marks the holders of this cell: the words for the last holder still name holders of earlier cells.
        let cell = task.seed.wrapping_mul(GOLDEN) >> 32 << 32;
        let (reading, writing) = (Counted::new(ra), Counted::new(ra));
        loop {
            drawn.next(&mut self.table);
            let mut holders = Vec::new();
            for &(lock, kind) in &drawn.locks {
                let writes = kind == LockKind::Exclusive;
                let requested = ra.get(self.word(lock, 0))?;
                self.lock(if writes { &writing } else { &reading }, (lock, kind))?;
                let granted = ra.fetch_add(self.word(lock, 0), 1)?;
                holders.push(self.enters((lock, kind))?);
                if writes {
                    let last = ra.fetch_store(self.word(lock, 1), cell | (u64::from(ra.rank().0) + 1))?;
                    if let Some(last) =
                        (last >> 32 == cell >> 32).then_some(last as u32).and_then(|last| last.checked_sub(1))
                    {
                        counts.handovers[ra.topology().distance(Rank(last), ra.rank()).index()] += 1;
                    }
                }
                let side = if writes { &mut counts.writers } else { &mut counts.readers };
                let bypass = granted.wrapping_sub(requested);
                side.acquisitions += 1;
                side.bypass_sum += bypass;
                side.bypass_max = side.bypass_max.max(bypass);
            }
            compute(task.critical_section, task.stop);
            for (&(lock, kind), holder) in drawn.locks.iter().zip(holders).rev() {
                counts.violations += u64::from(!holder.leaves(ra)?);
                self.unlock(if kind == LockKind::Exclusive { &writing } else { &reading }, (lock, kind))?;
            }
            compute(task.think_time, task.stop);
            if ra.now() >= end || task.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        counts.readers.operations = by_distance(&reading.counts());
        counts.writers.operations = by_distance(&writing.counts());
        Ok(counts)
    }
}
