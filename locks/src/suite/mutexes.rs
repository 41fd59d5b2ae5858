//! The mutexes' part of the suite.

use rmalab_atomics::{Rank, RemoteAtomics};

use super::*;
use crate::recoverable::{acknowledged, interruptible};
use crate::{Entry, RawMutex, RawMutexTimed, RawMutexTry, Recoverable};

/// Checks a mutex against its trait, on threads.
pub fn mutex<L: RawMutex>(params: L::Params) {
    on_threads(|ra| mutex_on::<L, _>(ra, params, ACQUISITIONS / ra.size()));
}

/// One rank's part of [`mutex`]: exclusion, no lost wake-up, and rest.
pub fn mutex_on<L: RawMutex, A: RemoteAtomics + ?Sized>(ra: &A, params: L::Params, acquisitions: u32) -> Result<()> {
    let (place, margin) = Margin::alloc(ra, middle(ra), L::WORDS, L::NODE)?;
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
    margin.check(ra)?;
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

/// Checks that a mutex serves ranks in the order of their arrival. `arrived` returns the number of a word and its value
/// once a rank has arrived, in a world where ranks arrive in order.
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

/// Like [`mutex_cost`], for each of two ranks that follow one another, and are not at home.
pub fn mutex_costs_in_turn<L: RawMutex>(params: L::Params) -> [(u64, u64); 2] {
    let costs = World::threads(3).run(|ra| {
        let place = Place::alloc(ra, Rank(0), L::WORDS, L::NODE)?;
        let all = Collectives::new(ra)?;
        let mut lock = L::bind(ra, place, params)?;
        let counted = Counted::new(ra);
        let mut costs = (0, 0);
        // Twice, so that each of them follows the other.
        for turn in [0, 1, 2, 1, 2] {
            if ra.rank() == Rank(turn) {
                costs = (measure(&counted, |ra| lock.acquire(ra))?, measure(&counted, |ra| lock.release(ra))?);
            }
            all.barrier()?;
        }
        Ok(costs)
    });
    let costs: Result<Vec<_>> = costs.expect("a world of threads").into_iter().collect();
    let costs = costs.expect("operations");
    [costs[1], costs[2]]
}

/// Like [`mutex_cost`], for the acquire that goes on after failures.
pub fn recoverable_cost<L: Recoverable>(params: L::Params) -> (u64, u64) {
    cost(L::WORDS, L::NODE, |ra, place| {
        let mut lock = L::bind(ra, place, params)?;
        let _ = lock.recoverable_acquire(ra)?;
        lock.release(ra)?;
        let acquire = measure(ra, |ra| lock.recoverable_acquire(ra).map(drop))?;
        Ok((acquire, measure(ra, |ra| lock.release(ra))?))
    })
}

/// Checks a mutex against [`Recoverable`], on threads: [`mutex_on`] by its other acquire, and the deaths of ranks by panics.
pub fn recoverable<L: Recoverable>(params: L::Params) {
    on_threads(|ra| recoverable_on::<L, _>(ra, params, ACQUISITIONS / ra.size()));
    for size in SIZES.into_iter().filter(|&size| size > 2) {
        for death in [Death::Inside, Death::Outside] {
            with_deaths(size, |ra| survived_on::<L, _>(ra, params, death, || die()));
        }
        with_deaths(size, |ra| ended_on::<L, _>(ra, params, || die()));
    }
}

/// One rank's part of [`recoverable`] without deaths.
pub fn recoverable_on<L: Recoverable, A: RemoteAtomics + ?Sized>(
    ra: &A,
    params: L::Params,
    acquisitions: u32,
) -> Result<()> {
    let place = Place::alloc(ra, middle(ra), L::WORDS, L::NODE)?;
    let pair = Pair::alloc(ra)?;
    let ra = &probed(ra, L::NAME)?;
    let all = Collectives::new(ra)?;
    let mut lock = L::bind(ra, place, params)?;
    for acquisition in 0..acquisitions {
        if acquisition % ROUND == 0 {
            all.barrier()?;
        }
        ra.begin("recoverable_acquire")?;
        assert_eq!(lock.recoverable_acquire(ra)?, Entry::Clean, "{}: no rank has failed", ra.rank());
        pair.increment(ra)?;
        ra.begin("release")?;
        lock.release(ra)?;
    }
    at_rest(ra, place, if L::RESTS_AT_ZERO { L::WORDS } else { 0 }, L::NODE_AT_REST)?;
    assert_eq!(pair.check(ra)?, u64::from(acquisitions) * u64::from(ra.size()), "increments");
    Ok(())
}

/// Where rank 1 dies in [`survived_on`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// While it holds the lock.
    Inside,
    /// After it has released the lock.
    Outside,
}

/// The acquisitions of each survivor.
pub(super) const SURVIVALS: u64 = 100;

/// One rank's part of [`recoverable`] with a death: rank 1 dies in `die`, and all other ranks go on acquiring. If rank 1 has failed inside,
/// exactly one of them gets `OwnerDead`. Then one of them makes the lock unusable for all.
pub fn survived_on<L: Recoverable, A: RemoteAtomics + ?Sized>(
    ra: &A,
    params: L::Params,
    death: Death,
    die: impl FnOnce(),
) -> Result<()> {
    // On rank 0, and not in the memory of the dead rank: the numbers of ranks that have arrived, got `OwnerDead`, and
    // finished.
    let words = ra.heap().alloc(3 * WORD, WORD)?;
    let [arrived, told, done] = [0, 1, 2].map(|word| Rank(0).at(words.word(word)));
    let place = Place::alloc(ra, Rank(0), L::WORDS, L::NODE)?;
    let pair = Pair { left: Rank(0).at(ra.heap().alloc(2 * WORD, WORD)?), right: Rank(2).at(words) };
    let mut lock = L::bind(ra, place, params)?;
    let mut ask = || acknowledged(ra).map(drop);
    if ra.rank() == Rank(1) {
        assert_eq!(lock.recoverable_acquire(ra)?, Entry::Clean);
        if death == Death::Outside {
            lock.release(ra)?;
            ra.flush_all()?;
        }
        ra.fetch_add(arrived, 1)?;
        meet(ra, arrived, u64::from(ra.size()), &mut ask)?;
        die();
        panic!("rank 1 should have died");
    }
    // Rank 1 holds the lock then.
    meet(ra, arrived, 1, &mut ask)?;
    ra.fetch_add(arrived, 1)?;
    for _ in 0..SURVIVALS {
        match lock.recoverable_acquire(ra)? {
            Entry::Clean => {}
            Entry::OwnerDead(failed) => {
                assert!(failed.contains(Rank(1)), "{failed} and not rank 1");
                // The acquire has acknowledged the failure, so that it ends no pause.
                ra.pause(1)?;
                assert_eq!(ra.fetch_add(told, 1)?, 0, "a second rank gets OwnerDead");
            }
        }
        pair.increment(ra)?;
        lock.release(ra)?;
    }
    let survivors = u64::from(ra.size()) - 1;
    ra.fetch_add(done, 1)?;
    meet(ra, done, survivors, &mut ask)?;
    assert_eq!(ra.get(told)?, u64::from(death == Death::Inside), "ranks that were told");
    assert_eq!(pair.check(ra)?, survivors * SURVIVALS, "increments");
    meet_again(ra, done, 2 * survivors, &mut ask)?;
    if ra.rank() == Rank(0) {
        let _ = lock.recoverable_acquire(ra)?;
        lock.release_unrecovered(ra)?;
        ra.flush_all()?;
    }
    meet_again(ra, done, 3 * survivors, &mut ask)?;
    let refused = lock.recoverable_acquire(ra);
    assert!(matches!(refused, Err(crate::Error::NotRecoverable { lock }) if lock == L::NAME), "{refused:?}");
    meet_again(ra, done, 4 * survivors, &mut ask)
}

/// One rank's part of [`recoverable`] by the calls of [`RawMutex`]: rank 1 dies inside in `die`, and the other ranks' acquires end with that.
fn ended_on<L: Recoverable, A: RemoteAtomics + ?Sized>(ra: &A, params: L::Params, die: impl FnOnce()) -> Result<()> {
    let arrived = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
    let place = Place::alloc(ra, Rank(0), L::WORDS, L::NODE)?;
    let mut lock = L::bind(ra, place, params)?;
    if ra.rank() == Rank(1) {
        lock.acquire(ra)?;
        meet_again(ra, arrived, u64::from(ra.size()), &mut || Ok(()))?;
        die();
        panic!("rank 1 should have died");
    }
    // Rank 1 holds the lock from then on, and may fail ahead of the acquire.
    meet(ra, arrived, 1, &mut || Ok(()))?;
    ra.fetch_add(arrived, 1)?;
    let ended = lock.acquire(ra);
    let Err(crate::Error::Atomics(rmalab_atomics::Error::PeerFailed { rank })) = ended else {
        panic!("{}: acquire returned {ended:?} although the holder has failed", ra.rank());
    };
    assert_eq!(rank, Rank(1));
    Ok(())
}

/// Adds one to the word, and polls it until it is `count`.
pub(super) fn meet_again<A: RemoteAtomics + ?Sized>(
    ra: &A,
    at: Address,
    count: u64,
    ask: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    ra.fetch_add(at, 1)?;
    meet(ra, at, count, ask)
}

/// Polls the word until it is at least `count`, also after the failure of rank 1. Panics if another rank has failed.
pub(super) fn meet<A: RemoteAtomics + ?Sized>(
    ra: &A,
    at: Address,
    count: u64,
    ask: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    while ra.get(at)? < count {
        interruptible(ra.pause(64).map_err(crate::Error::from))?;
        assert!(ra.failed()?.iter().all(|rank| rank == Rank(1)), "another rank has found a fault");
        ask()?;
    }
    Ok(())
}
