//! The conformance suite of the lock traits, for every lock, every backend and every number of ranks.
//!
//! A lock's tests are one line each; the suite has the ranks and the checks. [`mutex`] and [`rw_lock`] run on threads. Each rank runs one of
//! the functions that end in `_on`, which also serve other backends. A violation panics.
//!
//! The critical section keeps two words of another rank equal, by single, slow remote operations. If a writer is not alone, or a reader is
//! inside together with a writer, the words differ or an increment is lost. After the last release every word of the lock is zero again, and
//! the words behind the lock's memory are unchanged. No check depends on elapsed time.
//!
//! Ranks meet before each round of acquisitions, so that no rank finishes before the others begin. They let each other run between
//! single operations ([`Probed`]), so a lock that reads and writes its word in two steps fails. If no rank makes progress for 10 s
//! ([`set_patience`]), the suite ends with an error that names the lock, the rank, the operation and the word.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::{Address, Collectives, Counted, Probed, Rank, RemoteAtomics, Time, Topology, WORD, World};

use crate::{Place, RawRwLock, RawRwLockTimed, Result};
use margin::Margin;

mod deaths;
mod leases;
mod margin;
mod mutexes;
mod recoverable_rw;
mod resumable;

pub(crate) use deaths::{die, with_deaths};
#[cfg(test)]
pub(crate) use deaths::{wait, with_deaths_in};
pub use leases::{leases, leases_on, taken_over_on};
pub use mutexes::{
    Death, mutex, mutex_cost, mutex_costs_in_turn, mutex_on, mutex_order, mutex_timed, mutex_timed_on, mutex_try,
    mutex_try_on, recoverable, recoverable_cost, recoverable_on, survived_on,
};
pub use recoverable_rw::{DeathRw, recoverable_rw, recoverable_rw_cost, recoverable_rw_on, survived_rw_on};
pub use resumable::{resumable, resumable_on};

/// Numbers of ranks: from 3 on a queue has a middle, and from 4 on readers and writers alternate in it in every way.
const SIZES: [u32; 5] = [2, 3, 4, 8, 16];

/// The acquisitions of all ranks together in a run on threads: each may hand the lock to a rank that waits for a
/// processor.
const ACQUISITIONS: u32 = 4_000;

/// Acquisitions of a rank between two meetings of all ranks.
const ROUND: u32 = 50;

/// Percentages of acquisitions by writers: only writers, evenly mixed, and mostly readers.
const WRITERS: [u32; 3] = [100, 50, 5];

/// See [`set_patience`].
static PATIENCE_MS: AtomicU64 = AtomicU64::new(10_000);

/// Sets how long all suites of this process wait for some rank to make progress: more than 10 s if ranks are slow.
pub fn set_patience(patience: Duration) {
    PATIENCE_MS.store(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Two words that only a writer of the lock changes, at a rank that need not be the lock's home.
#[derive(Clone, Copy)]
struct Pair {
    left: Address,
    right: Address,
}

impl Pair {
    fn alloc<A: RemoteAtomics + ?Sized>(ra: &A) -> Result<Pair> {
        let words = ra.heap().alloc(2 * WORD, WORD)?;
        let home = Rank(ra.size() - 1);
        Ok(Pair { left: home.at(words), right: home.at(words.word(1)) })
    }

    /// Returns the value of both words.
    fn check<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<u64> {
        let left = ra.get(self.left)?;
        let mut right = [0; WORD as usize];
        ra.get_bytes(self.right, &mut right)?;
        let right = u64::from_ne_bytes(right);
        assert_eq!(left, right, "{}: another rank writes while this rank is inside", ra.rank());
        Ok(left)
    }

    /// Adds one to both words, not atomically.
    fn increment<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<()> {
        let sum = self.check(ra)? + 1;
        ra.put(self.left, sum)?;
        ra.put_bytes(self.right, &sum.to_ne_bytes())?;
        // The release orders only operations that are complete.
        Ok(ra.flush(self.left.rank)?)
    }
}

/// Wraps the handle `ra` for a test of the lock `name`. All ranks call it at the same point.
fn probed<'a, A: RemoteAtomics + ?Sized>(ra: &'a A, name: &'static str) -> Result<Probed<'a, A>> {
    let patience = Duration::from_millis(PATIENCE_MS.load(Ordering::Relaxed));
    Ok(Probed::new(ra, name, ra.heap().alloc(WORD, WORD)?, patience))
}

/// The advice for a lock that is correct although its words are not zero at rest.
pub const REST_REMEDY: &str = "a lock that keeps values declares it by RESTS_AT_ZERO or NODE_AT_REST";

/// Checks that these shared words of the lock and all its nodes are zero. All ranks call it, with no acquisition under way.
fn at_rest<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, words: u64, node: u64) -> Result<()> {
    ra.flush_all()?;
    let all = Collectives::new(ra)?;
    all.barrier()?;
    for (rank, at, bytes) in [(place.home, place.words, words), (ra.rank(), place.node, node)] {
        for word in 0..bytes.div_ceil(WORD) {
            let value = ra.get(rank.at(at.word(word)))?;
            assert_eq!(value, 0, "{}: word {word} at {at} of {rank} after the last release; {REST_REMEDY}", ra.rank());
        }
    }
    Ok(all.barrier()?)
}

/// The bytes of shared words of `L` that are zero at rest.
fn shared<L: RawRwLock>(ra: &(impl RemoteAtomics + ?Sized)) -> u64 {
    if L::RESTS_AT_ZERO { L::words(ra.size()) } else { 0 }
}

/// Returns a home in the middle, so that ranks below, at and above it take part.
fn middle<A: RemoteAtomics + ?Sized>(ra: &A) -> Rank {
    Rank(ra.size() / 2)
}

/// Polls a word until `holds`, for scenarios in which ranks wait for each other's progress.
pub fn poll<A: RemoteAtomics + ?Sized>(ra: &A, at: Address, holds: impl Fn(u64) -> bool) -> Result<u64> {
    loop {
        let word = ra.get(at)?;
        if holds(word) {
            return Ok(word);
        }
        ra.pause(64)?;
    }
}

/// Runs `body` on each rank of worlds of threads, of all [`SIZES`].
fn on_threads(body: impl Fn(&rmalab_atomics::Mapped) -> Result<()> + Sync) {
    for size in SIZES {
        on_threads_of(size, &body);
    }
}

/// Runs `body` on each rank of a world of `size` threads.
fn on_threads_of<T: Send>(size: u32, body: impl Fn(&rmalab_atomics::Mapped) -> Result<T> + Sync) -> Vec<T> {
    World::threads(size)
        .run(|ra| body(ra).unwrap_or_else(|error| panic!("{}: {error}", ra.rank())))
        .expect("a world of threads")
}

/// Checks a reader-writer lock against its trait, on threads.
pub fn rw_lock<L: RawRwLock>(params: L::Params) {
    on_threads(|ra| readers_meet_on::<L, _>(ra, params));
    for writers in WRITERS {
        on_threads(|ra| rw_lock_on::<L, _>(ra, params, ACQUISITIONS / ra.size(), writers));
    }
}

/// One rank's part of [`rw_lock`]: exclusion, no lost wake-up, and rest, with `writers` percent of writers at random
/// (a function of the rank).
pub fn rw_lock_on<L: RawRwLock, A: RemoteAtomics + ?Sized>(
    ra: &A,
    params: L::Params,
    acquisitions: u32,
    writers: u32,
) -> Result<()> {
    let (place, margin) = Margin::alloc(ra, middle(ra), L::words(ra.size()), L::NODE)?;
    let pair = Pair::alloc(ra)?;
    let ra = &probed(ra, L::NAME)?;
    let all = Collectives::new(ra)?;
    let mut lock = L::bind(ra, place, params)?;
    let mut random = SmallRng::seed_from_u64(u64::from(ra.rank().0));
    let mut increments = 0;
    let mut seen = 0;
    for acquisition in 0..acquisitions {
        if acquisition % ROUND == 0 {
            all.barrier()?;
        }
        if random.random_range(0..100) < writers {
            ra.begin("acquire_write")?;
            lock.acquire_write(ra)?;
            pair.increment(ra)?;
            increments += 1;
            ra.begin("release_write")?;
            lock.release_write(ra)?;
        } else {
            ra.begin("acquire_read")?;
            lock.acquire_read(ra)?;
            let sum = pair.check(ra)?;
            assert!(sum >= seen, "{}: {sum} after {seen}: an increment was undone", ra.rank());
            assert_eq!(pair.check(ra)?, sum, "{}: another rank wrote while this rank was reading", ra.rank());
            seen = sum;
            ra.begin("release_read")?;
            lock.release_read(ra)?;
        }
    }
    at_rest(ra, place, shared::<L>(ra), L::NODE_AT_REST)?;
    margin.check(ra)?;
    assert_eq!(pair.check(ra)?, all.allgather(&[increments])?.iter().sum::<u64>(), "increments");
    Ok(())
}

/// One rank's part of [`rw_lock`]: all ranks are inside as readers at once, first of a free lock, then of a lock that a writer held when
/// they arrived.
pub fn readers_meet_on<L: RawRwLock, A: RemoteAtomics + ?Sized>(ra: &A, params: L::Params) -> Result<()> {
    let place = Place::alloc(ra, middle(ra), L::words(ra.size()), L::NODE)?;
    let inside = Rank(0).at(ra.heap().alloc(2 * WORD, WORD)?);
    let ra = &probed(ra, L::NAME)?;
    let all = Collectives::new(ra)?;
    let mut lock = L::bind(ra, place, params)?;
    for round in 0..20 {
        let writer = Rank(round % ra.size());
        let meeting = inside.rank.at(inside.disp.word(u64::from(round % 2)));
        if round >= 4 && ra.rank() == writer {
            ra.begin("acquire_write")?;
            lock.acquire_write(ra)?;
            all.barrier()?;
            ra.pause(1 << (round / 2))?;
            ra.begin("release_write")?;
            lock.release_write(ra)?;
        } else {
            all.barrier()?;
        }
        ra.begin("acquire_read beside other readers")?;
        lock.acquire_read(ra)?;
        ra.fetch_add(meeting, 1)?;
        poll(ra, meeting, |readers| readers == u64::from(ra.size()))?;
        lock.release_read(ra)?;
        all.barrier()?;
        if ra.rank() == writer {
            ra.put(meeting, 0)?;
            ra.flush(meeting.rank)?;
        }
    }
    at_rest(ra, place, shared::<L>(ra), L::NODE_AT_REST)
}

/// Checks a reader-writer lock against [`RawRwLockTimed`], on threads.
pub fn rw_lock_timed<L: RawRwLockTimed>(params: L::Params) {
    on_threads(|ra| rw_lock_timed_on::<L, _>(ra, params));
}

/// One rank's part of [`rw_lock_timed`]: tries succeed or fail according to the holder's mode; waiters give up, leave no trace, and get the
/// lock later.
pub fn rw_lock_timed_on<L: RawRwLockTimed, A: RemoteAtomics + ?Sized>(ra: &A, params: L::Params) -> Result<()> {
    let place = Place::alloc(ra, middle(ra), L::words(ra.size()), L::NODE)?;
    let ra = &probed(ra, L::NAME)?;
    let all = Collectives::new(ra)?;
    let mut lock = L::bind(ra, place, params)?;
    ra.begin("acquire_write_until and acquire_read_until")?;
    let holder = ra.rank() == Rank(0);
    let soon = || ra.now().after(Duration::from_millis(1));
    if holder {
        assert!(lock.try_acquire_write(ra)?, "try of a free lock");
    }
    all.barrier()?;
    if !holder {
        assert!(!lock.try_acquire_write(ra)?, "{}: try to write beside a writer", ra.rank());
        assert!(!lock.try_acquire_read(ra)?, "{}: try to read beside a writer", ra.rank());
        assert!(!lock.acquire_write_until(ra, soon())?, "{}: wrote beside a writer", ra.rank());
        assert!(!lock.acquire_read_until(ra, soon())?, "{}: read beside a writer", ra.rank());
    }
    all.barrier()?;
    if holder {
        lock.release_write(ra)?;
        ra.flush_all()?;
    }
    all.barrier()?;
    assert!(lock.try_acquire_read(ra)?, "{}: try to read beside readers", ra.rank());
    all.barrier()?;
    if holder {
        lock.release_read(ra)?;
        assert!(!lock.try_acquire_write(ra)?, "try to write beside readers");
        assert!(!lock.acquire_write_until(ra, soon())?, "wrote beside readers");
        assert!(lock.acquire_read_until(ra, Time(u64::MAX))?, "gave up before the deadline");
    }
    all.barrier()?;
    lock.release_read(ra)?;
    assert!(lock.acquire_write_until(ra, Time(u64::MAX))?, "{}: gave up before the deadline", ra.rank());
    lock.release_write(ra)?;
    at_rest(ra, place, shared::<L>(ra), L::NODE_AT_REST)
}

/// Returns the cost of a lock without contention: remote operations of acquire and release, for a reader and for a writer.
pub fn rw_lock_cost<L: RawRwLock>(params: L::Params) -> [(u64, u64); 2] {
    let reader = cost(L::words(2), L::NODE, |ra, place| {
        let mut lock = L::bind(ra, place, params)?;
        lock.acquire_read(ra)?;
        lock.release_read(ra)?;
        Ok((measure(ra, |ra| lock.acquire_read(ra))?, measure(ra, |ra| lock.release_read(ra))?))
    });
    let writer = cost(L::words(2), L::NODE, |ra, place| {
        let mut lock = L::bind(ra, place, params)?;
        lock.acquire_write(ra)?;
        lock.release_write(ra)?;
        Ok((measure(ra, |ra| lock.acquire_write(ra))?, measure(ra, |ra| lock.release_write(ra))?))
    });
    [reader, writer]
}

/// A rank whose operations are counted.
type Meter<'a> = Counted<'a, rmalab_atomics::Mapped>;

/// The remote operations of `body`.
fn measure(ra: &Meter<'_>, body: impl FnOnce(&Meter<'_>) -> Result<()>) -> Result<u64> {
    let before = ra.counts();
    body(ra)?;
    Ok((ra.counts() - before).remote_operations())
}

/// Runs `body` on rank 1 of two ranks on two nodes, with a lock whose home is rank 0.
fn cost(words: u64, node: u64, body: impl Fn(&Meter<'_>, Place) -> Result<(u64, u64)> + Sync) -> (u64, u64) {
    let topology = Topology::blocks(2, 1, 2).expect("two nodes of a rank each");
    World::threads(2)
        .topology(topology)
        .run(|ra| {
            let place = Place::alloc(ra, Rank(0), words, node).expect("room for a lock");
            (ra.rank() == Rank(1)).then(|| body(&Counted::new(ra), place).expect("operations"))
        })
        .expect("a world of threads")
        .into_iter()
        .flatten()
        .next()
        .expect("the result of rank 1")
}

/// Runs `body` on each of `size` ranks with a handle of one lock, its place, and a fresh word at rank 0, for the
/// scenarios of one lock.
pub fn scenario<L: RawRwLock>(
    size: u32,
    params: L::Params,
    body: impl Fn(&rmalab_atomics::Mapped, L, Place, Address) -> Result<()> + Sync,
) {
    on_threads_of(size, |ra| {
        let place = Place::alloc(ra, middle(ra), L::words(ra.size()), L::NODE)?;
        let word = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
        body(ra, L::bind(ra, place, params)?, place, word)
    });
}
