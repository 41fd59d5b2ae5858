//! Locks of one process: ours on threads, beside locks of the standard library and of other crates. `peers/ck.c` does
//! the same with Concurrency Kit's: the same pattern of readers and writers, bound threads, and empty critical
//! sections.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, RwLock};

use mcslock::raw::{MutexNode, spins};
use rmalab_atomics::{Collectives, Mapped, Rank, RemoteAtomics, bind_to_core};
use rmalab_locks::{LockKind, Place, PolicyKind, PolicyVisitor, RawRwLock, RecoverableRw, UnknownPolicy, WindowLock};
use serde::{Deserialize, Serialize};

use super::batches;
use super::ours::now;
use rmalab_job::Job;
use rmalab_job::{Error, Result};
use rmalab_report::statistics::median;

/// Groups of locks that are measured together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The locks of this workspace, on the local backend.
    Ours,
    /// The locks of the standard library and of crates.
    Rust,
    /// The locks of Concurrency Kit and of the C library.
    C,
}

/// A lock of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Its name.
    pub name: &'static str,
    /// Its group.
    pub group: Group,
    /// True if it lets readers share.
    pub shared: bool,
    /// True if a bounded number of others overtake each waiting rank.
    pub fair: bool,
}

fn lock(group: Group, name: &'static str, shared: bool) -> Lock {
    Lock { name, group, shared, fair: FAIR.contains(&name) }
}

/// The locks in which a bounded number of others overtake each waiting rank.
const FAIR: [&str; 21] = [
    "alock",
    "clh",
    "cna",
    "declock",
    "dslr-wide",
    "hapax",
    "malthusian",
    "mcs",
    "mcs-rw-neutral",
    "mpi4py-mcs",
    "oshmem-mcs",
    "reciprocating",
    "robust-mcs",
    "robust-ticket",
    "shiftlock",
    "ticket",
    "ck_pflock",
    "ck_spinlock_clh",
    "ck_spinlock_mcs",
    "ck_spinlock_ticket",
    "mcslock Mutex",
];

/// The locks of other implementations: the group, the name, and whether readers share.
const OTHERS: [(Group, &str, bool); 17] = [
    (Group::C, "pthread_rwlock", true),
    (Group::C, "ck_rwlock", true),
    (Group::C, "ck_pflock", true),
    (Group::C, "ck_brlock", true),
    (Group::C, "ck_bytelock", true),
    (Group::C, "ck_rwcohort_wp", true),
    (Group::C, "ck_rwcohort_rp", true),
    (Group::C, "ck_rwcohort_neutral", true),
    (Group::C, "pthread_mutex", false),
    (Group::C, "ck_spinlock_mcs", false),
    (Group::C, "ck_spinlock_ticket", false),
    (Group::C, "ck_spinlock_clh", false),
    (Group::Rust, "std RwLock", true),
    (Group::Rust, "parking_lot RwLock", true),
    (Group::Rust, "std Mutex", false),
    (Group::Rust, "parking_lot Mutex", false),
    (Group::Rust, "mcslock Mutex", false),
];

/// All locks. Of ours, nocheck is none, and per-target is one mcs-rw-rp for each thread.
pub fn locks() -> impl Iterator<Item = Lock> {
    let ours = PolicyKind::ALL.iter().filter(|kind| !matches!(kind, PolicyKind::NoCheck | PolicyKind::PerTarget));
    let ours = ours.map(|kind| (Group::Ours, kind.name(), !kind.is_mutex()));
    ours.chain(OTHERS).map(|(group, name, shared)| lock(group, name, shared))
}

/// The locks of `group` for that percentage of writers: a mutex supports only writers.
pub(super) fn of(group: Group, writers: u32) -> impl Iterator<Item = Lock> {
    locks().filter(move |lock| lock.group == group && (lock.shared || writers == 100))
}

/// Readers (`false`) and writers (`true`), in the order of a thread's acquisitions.
const PATTERN: usize = 1024;

/// A thread's pattern of readers and writers, the same in every run and every implementation.
fn pattern(thread: u32, writers: u32) -> [bool; PATTERN] {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(thread) + 1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % 100 < u64::from(writers)
    };
    std::array::from_fn(|_| next())
}

/// A measurement of one of our locks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LocalLock {
    pub(super) lock: String,
    /// The percentage of writers.
    pub(super) writers: u32,
    /// Nanoseconds.
    pub(super) budget: f64,
}

impl Job for LocalLock {
    /// Nanoseconds of an acquisition and its release, the same on all ranks.
    type Out = f64;

    const NAME: &'static str = "compared lock";

    fn segment_bytes(&self, _ranks: u32) -> u64 {
        1 << 20
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<f64> {
        Err(Error::usage(format!("the comparison of locks needs shared memory, not {}", ra.capabilities().backend)))
    }

    fn run_on_memory(&self, ra: &Mapped) -> Result<f64> {
        let kind: PolicyKind = self.lock.parse().map_err(|error: UnknownPolicy| Error::usage(error.to_string()))?;
        kind.visit(Pairs { ra, task: self })
    }
}

/// Measures [`pairs`] of a policy, or of the lock that the policy consists of.
struct Pairs<'a> {
    ra: &'a Mapped,
    task: &'a LocalLock,
}

impl PolicyVisitor for Pairs<'_> {
    type Out = Result<f64>;

    /// Readers lock all targets, writers rank 0 exclusively.
    fn visit<W: WindowLock + 'static>(self) -> Result<f64> {
        pairs(self.ra, self.task, W::new(self.ra, W::Params::default()), |ra, lock, write| {
            if write {
                lock.lock(ra, LockKind::Exclusive, Rank(0))?;
                lock.unlock(ra, LockKind::Exclusive, Rank(0))
            } else {
                lock.lock_all(ra)?;
                lock.unlock_all(ra)
            }
        })
    }

    fn visit_lock<L: RawRwLock + 'static>(self) -> Result<f64> {
        let place = Place::alloc(self.ra, Rank(0), L::words(self.ra.size()), L::NODE);
        let lock = place.and_then(|place| L::bind(self.ra, place, L::Params::default()));
        pairs(self.ra, self.task, lock, |ra, lock, write| {
            if write {
                lock.acquire_write(ra)?;
                lock.release_write(ra)
            } else {
                lock.acquire_read(ra)?;
                lock.release_read(ra)
            }
        })
    }

    fn visit_robust_lock<L: RecoverableRw + 'static>(self) -> Result<f64> {
        self.visit_lock::<L>()
    }
}

/// Measures `pair`, an acquisition of `lock` and its release; `true` is for writing.
fn pairs<L>(
    ra: &Mapped,
    task: &LocalLock,
    lock: rmalab_locks::Result<L>,
    pair: impl Fn(&Mapped, &mut L, bool) -> rmalab_locks::Result<()>,
) -> Result<f64> {
    let failed = |source| Error::Lock { lock: task.lock.clone(), source };
    let mut lock = lock.map_err(failed)?;
    let writes = pattern(ra.rank().0, task.writers);
    let mut place = 0;
    let mut body = |calls: u64| {
        place = chunk(calls, &writes, place, ra, &mut lock, &pair).map_err(failed)?;
        Ok(())
    };
    measure(ra, task.budget, &mut body)
}

/// Measures `body`, which makes a number of calls, on all ranks at once; compiled once for all locks.
fn measure(ra: &Mapped, budget: f64, body: &mut dyn FnMut(u64) -> Result<()>) -> Result<f64> {
    bind_to_core(ra.rank())?;
    let all = Collectives::new(ra)?;
    batches::measure_freely(budget, |time| {
        all.barrier()?;
        let (each, _) = batches::until(time, || now() as f64, body)?;
        let each = all.allgather(&[each.to_bits()])?;
        Ok(median(each.into_iter().map(f64::from_bits)))
    })
}

/// Calls `pair` that many times; returns the place in the pattern.
///
/// It is a function, so that its arguments are in registers. A closure has references in memory, and each load waits for the locked
/// instruction before it.
#[inline(never)]
fn chunk<W, L, E>(
    calls: u64,
    writes: &[bool; PATTERN],
    mut place: usize,
    world: &W,
    lock: &mut L,
    pair: impl Fn(&W, &mut L, bool) -> Result<(), E>,
) -> Result<usize, E> {
    for _ in 0..calls {
        let write = writes[place % PATTERN];
        place += 1;
        pair(world, lock, write)?;
    }
    Ok(place)
}

/// Nanoseconds of an acquisition and its release, of a lock of the standard library or of a crate.
pub(super) fn theirs(name: &str, threads: u32, writers: u32, budget: f64) -> Result<f64> {
    let measure = |calls: &Calls| together(threads, writers, budget, calls);
    match name {
        "std RwLock" => measure(&calls(&RwLock::new(()), |lock, write| {
            if write {
                drop(lock.write());
            } else {
                drop(lock.read());
            }
        })),
        "parking_lot RwLock" => measure(&calls(&parking_lot::RwLock::new(()), |lock, write| {
            if write {
                drop(lock.write());
            } else {
                drop(lock.read());
            }
        })),
        "std Mutex" => measure(&calls(&Mutex::new(()), |lock, _| drop(lock.lock()))),
        "parking_lot Mutex" => measure(&calls(&parking_lot::Mutex::new(()), |lock, _| drop(lock.lock()))),
        "mcslock Mutex" => measure(&calls(&spins::Mutex::new(()), |lock, _| {
            lock.lock_with_then(&mut MutexNode::new(), |()| ());
        })),
        _ => Err(Error::usage(format!("there is no lock '{name}' to compare"))),
    }
}

/// Locks and unlocks a lock that often, from a place in the pattern on; returns the next place.
type Calls<'l> = dyn Fn(u64, &[bool; PATTERN], usize) -> usize + Sync + 'l;

/// The calls of `pair` on `lock`; `true` is for writing.
fn calls<L: Sync>(lock: &L, pair: impl Fn(&L, bool) + Sync) -> impl Fn(u64, &[bool; PATTERN], usize) -> usize + Sync {
    move |calls, writes, place| {
        let done = chunk(calls, writes, place, lock, &mut (), |lock, (), write| {
            pair(lock, write);
            Ok::<(), Infallible>(())
        });
        match done {
            Ok(place) => place,
        }
    }
}

/// Runs `calls` on that many threads, each as often as it can.
fn together(threads: u32, writers: u32, budget: f64, calls: &Calls<'_>) -> Result<f64> {
    let barrier = Barrier::new(threads as usize);
    let times: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let one = |thread: u32| {
        // A machine that forbids it would forbid it to all threads, and no other thread waits yet for a missing one.
        let bound = bind_to_core(Rank(thread));
        let writes = pattern(thread, writers);
        let mut place = 0;
        let mut body = |count: u64| {
            place = calls(count, &writes, place);
            Ok(())
        };
        let time = batches::measure_freely(budget, |time| {
            barrier.wait();
            let (each, _) = batches::until(time, || now() as f64, &mut body)?;
            times[thread as usize].store(each.to_bits(), Ordering::Release);
            barrier.wait();
            Ok(median(times.iter().map(|time| f64::from_bits(time.load(Ordering::Acquire)))))
        });
        bound.map_err(Error::from).and(time)
    };
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("locks do not panic"));
        ended.collect::<Result<Vec<f64>>>().map(|times| times.first().copied().unwrap_or(0.0))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use rmalab_job::{self as job, Ranks};

    #[test]
    fn the_peers_program_has_exactly_the_locks_of_c() {
        let program = include_str!("../../peers/ck.c");
        let theirs: Vec<&str> =
            program.lines().filter_map(|line| line.strip_prefix("    { \"")?.split('"').next()).collect();
        assert_eq!(theirs, of(Group::C, 100).map(|lock| lock.name).collect::<Vec<_>>());
    }

    #[test]
    fn every_rust_lock_takes_time() {
        for lock in of(Group::Ours, 100) {
            let job = LocalLock { lock: lock.name.into(), writers: 50, budget: 1e5 };
            let ran = job::run(&job, &Ranks::threads(2), &AtomicBool::new(false)).unwrap();
            assert!(ran.ranks[0] > 0.0 && ran.ranks[0] == ran.ranks[1], "{}: {:?}", lock.name, ran.ranks);
        }
        for lock in of(Group::Rust, 100) {
            assert!(theirs(lock.name, 2, 50, 1e5).unwrap() > 0.0, "{}", lock.name);
        }
    }

    #[test]
    fn patterns_have_the_requested_share() {
        for (writers, least, most) in [(0, 0, 0), (10, 70, 140), (100, PATTERN, PATTERN)] {
            let count = pattern(3, writers).into_iter().filter(|&write| write).count();
            assert!((least..=most).contains(&count), "{writers} %: {count}");
        }
        assert_ne!(pattern(0, 50), pattern(1, 50));
    }

    #[test]
    fn fair_locks_are_locks() {
        let names: Vec<&str> = locks().map(|lock| lock.name).collect();
        assert!(FAIR.iter().all(|name| names.contains(name)), "{names:?}");
    }

    #[test]
    fn mutexes_have_no_readers() {
        assert!(of(Group::C, 10).all(|lock| lock.shared));
        assert_eq!(of(Group::Rust, 100).count(), 5);
    }
}
