//! The mutexes' part of the suite.

use rmalab_atomics::{Rank, RemoteAtomics};

use super::*;
use crate::{RawMutex, RawMutexTimed, RawMutexTry};

/// Checks a mutex against its trait, on threads.
pub fn mutex<L: RawMutex>(params: L::Params) {
    on_threads(|ra| mutex_on::<L, _>(ra, params, ACQUISITIONS / ra.size()));
}

/// One rank's part of [`mutex`]: exclusion, no lost wake-up, and rest.
pub fn mutex_on<L: RawMutex, A: RemoteAtomics + ?Sized>(ra: &A, params: L::Params, acquisitions: u32) -> Result<()> {
    let place = Place::alloc(ra, middle(ra), L::WORDS, L::NODE)?;
    let pair = Pair::alloc(ra)?;
    let ra = &probed(ra, L::NAME)?;
    let all = Collectives::new(ra)?;
    let mut lock = L::bind(ra, place, params)?;
    for acquisition in 0..acquisitions {
        if acquisition % ROUND == 0 {
            all.barrier()?;
        }
        ra.begin("acquire")?;
        lock.acquire(ra)?;
        pair.increment(ra)?;
        ra.begin("release")?;
        lock.release(ra)?;
    }
    at_rest(ra, place, if L::RESTS_AT_ZERO { L::WORDS } else { 0 }, L::NODE_AT_REST)?;
    assert_eq!(pair.check(ra)?, u64::from(acquisitions) * u64::from(ra.size()), "increments");
    Ok(())
}

/// Checks a mutex against [`RawMutexTry`], on threads.
pub fn mutex_try<L: RawMutexTry>(params: L::Params) {
    on_threads(|ra| mutex_try_on::<L, _>(ra, params, ACQUISITIONS / ra.size()));
}

/// One rank's part of [`mutex_try`]: a try of a free lock succeeds, a try of a held lock fails, and tries mixed with waits exclude each
/// other.
pub fn mutex_try_on<L: RawMutexTry, A: RemoteAtomics + ?Sized>(
    ra: &A,
    params: L::Params,
    acquisitions: u32,
) -> Result<()> {
    let place = Place::alloc(ra, middle(ra), L::WORDS, L::NODE)?;
    let pair = Pair::alloc(ra)?;
    let ra = &probed(ra, L::NAME)?;
    let all = Collectives::new(ra)?;
    let mut lock = L::bind(ra, place, params)?;
    for holder in 0..ra.size() {
        ra.begin("try_acquire")?;
        let held = Rank(holder) == ra.rank();
        if held {
            assert!(lock.try_acquire(ra)?, "{}: try of a free lock", ra.rank());
        }
        all.barrier()?;
        if !held {
            assert!(!lock.try_acquire(ra)?, "{}: try of a held lock", ra.rank());
        }
        all.barrier()?;
        if held {
            lock.release(ra)?;
            ra.flush_all()?;
        }
        all.barrier()?;
    }
    let mut increments = 0;
    for turn in 0..acquisitions {
        if turn % ROUND == 0 {
            all.barrier()?;
        }
        ra.begin(if turn % 2 == 0 { "acquire" } else { "try_acquire" })?;
        if turn % 2 == 0 {
            lock.acquire(ra)?;
        } else if !lock.try_acquire(ra)? {
            continue;
        }
        pair.increment(ra)?;
        increments += 1;
        lock.release(ra)?;
    }
    at_rest(ra, place, if L::RESTS_AT_ZERO { L::WORDS } else { 0 }, L::NODE_AT_REST)?;
    assert_eq!(pair.check(ra)?, all.allgather(&[increments])?.iter().sum::<u64>(), "increments");
    Ok(())
}

/// Checks a mutex against [`RawMutexTimed`], on threads.
pub fn mutex_timed<L: RawMutexTimed>(params: L::Params) {
    on_threads(|ra| mutex_timed_on::<L, _>(ra, params));
}

/// One rank's part of [`mutex_timed`]: waiters of a held lock give up, leave no trace, and get the lock later.
pub fn mutex_timed_on<L: RawMutexTimed, A: RemoteAtomics + ?Sized>(ra: &A, params: L::Params) -> Result<()> {
    let place = Place::alloc(ra, middle(ra), L::WORDS, L::NODE)?;
    let ra = &probed(ra, L::NAME)?;
    let all = Collectives::new(ra)?;
    let mut lock = L::bind(ra, place, params)?;
    ra.begin("acquire_until")?;
    let holder = ra.rank() == Rank(0);
    if holder {
        lock.acquire(ra)?;
    }
    all.barrier()?;
    if !holder {
        let soon = ra.now().after(Duration::from_millis(1));
        assert!(!lock.acquire_until(ra, soon)?, "{}: got a lock that is held", ra.rank());
    }
    all.barrier()?;
    if holder {
        lock.release(ra)?;
    }
    assert!(lock.acquire_until(ra, Time(u64::MAX))?, "{}: gave up before the deadline", ra.rank());
    lock.release(ra)?;
    at_rest(ra, place, if L::RESTS_AT_ZERO { L::WORDS } else { 0 }, L::NODE_AT_REST)
}

/// Checks that a mutex serves in the order of arrival: `arrived` gives the word (by number) and its value once a rank
/// has arrived, in a world where ranks arrive in order.
pub fn mutex_order<L: RawMutex>(params: L::Params, arrived: impl Fn(Rank) -> (u64, u64) + Sync) {
    on_threads(|ra| {
        let place = Place::alloc(ra, middle(ra), L::WORDS, L::NODE)?;
        let served = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
        let mut lock = L::bind(ra, place, params)?;
        let word = |rank| {
            let (word, value) = arrived(rank);
            (place.home.at(place.words.word(word)), value)
        };
        if let Some(before) = ra.rank().0.checked_sub(1) {
            let (at, value) = word(Rank(before));
            poll(ra, at, |word| word == value)?;
        }
        lock.acquire(ra)?;
        if ra.rank() == Rank(0) {
            let (at, value) = word(Rank(ra.size() - 1));
            poll(ra, at, |word| word == value)?;
        }
        assert_eq!(ra.fetch_add(served, 1)?, u64::from(ra.rank().0), "{} was not served in order", ra.rank());
        lock.release(ra)
    });
}

/// Returns the numbers of remote operations of an acquire and a release without contention.
pub fn mutex_cost<L: RawMutex>(params: L::Params) -> (u64, u64) {
    cost(L::WORDS, L::NODE, |ra, place| {
        let mut lock = L::bind(ra, place, params)?;
        // The first round would hide what an earlier acquisition leaves behind.
        lock.acquire(ra)?;
        lock.release(ra)?;
        Ok((measure(ra, |ra| lock.acquire(ra))?, measure(ra, |ra| lock.release(ra))?))
    })
}
