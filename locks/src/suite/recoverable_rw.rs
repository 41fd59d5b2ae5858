//! The part of the suite for reader-writer locks that go on after failures.

use rmalab_atomics::{Rank, RemoteAtomics};

use super::mutexes::{SURVIVALS, meet, meet_again};
use super::*;
use crate::recoverable::acknowledged;
use crate::{Entry, RecoverableRw};

/// Where rank 1 dies in [`survived_rw_on`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeathRw {
    /// While it reads.
    Reading,
    /// While it writes.
    Writing,
    /// After it has released the lock.
    Outside,
}

/// Checks a reader-writer lock against [`RecoverableRw`], on threads: without failures, and with deaths of ranks by panics.
pub fn recoverable_rw<L: RecoverableRw>(params: L::Params) {
    on_threads(|ra| recoverable_rw_on::<L, _>(ra, params, ACQUISITIONS / ra.size()));
    for size in SIZES.into_iter().filter(|&size| size > 2) {
        for death in [DeathRw::Reading, DeathRw::Writing, DeathRw::Outside] {
            with_deaths(size, |ra| survived_rw_on::<L, _>(ra, params, death, || die()));
        }
    }
}

/// One rank's part of [`recoverable_rw`] without deaths: every second acquisition writes.
pub fn recoverable_rw_on<L: RecoverableRw, A: RemoteAtomics + ?Sized>(
    ra: &A,
    params: L::Params,
    acquisitions: u32,
) -> Result<()> {
    let place = Place::alloc(ra, middle(ra), L::words(ra.size()), L::NODE)?;
    let pair = Pair::alloc(ra)?;
    let ra = &probed(ra, L::NAME)?;
    let all = Collectives::new(ra)?;
    let mut lock = L::bind(ra, place, params)?;
    let mut increments = 0;
    for acquisition in 0..acquisitions {
        if acquisition % ROUND == 0 {
            all.barrier()?;
        }
        if (acquisition + ra.rank().0) % 2 == 0 {
            ra.begin("recoverable_acquire_write")?;
            assert_eq!(lock.recoverable_acquire_write(ra)?, Entry::Clean, "{}: no rank has failed", ra.rank());
            pair.increment(ra)?;
            increments += 1;
            ra.begin("release_write")?;
            lock.release_write(ra)?;
        } else {
            ra.begin("recoverable_acquire_read")?;
            assert_eq!(lock.recoverable_acquire_read(ra)?, Entry::Clean, "{}: no rank has failed", ra.rank());
            pair.check(ra)?;
            ra.begin("release_read")?;
            lock.release_read(ra)?;
        }
    }
    at_rest(ra, place, shared::<L>(ra), L::NODE_AT_REST)?;
    assert_eq!(pair.check(ra)?, all.allgather(&[increments])?.iter().sum::<u64>(), "increments");
    Ok(())
}

/// One rank's part of [`recoverable_rw`] with a death: rank 1 dies in `die`, and all other ranks go on acquiring. If a writer has
/// failed inside, exactly one of them gets `OwnerDead`, and is alone then. At the end one of them makes the lock unusable for all.
pub fn survived_rw_on<L: RecoverableRw, A: RemoteAtomics + ?Sized>(
    ra: &A,
    params: L::Params,
    death: DeathRw,
    die: impl FnOnce(),
) -> Result<()> {
    // On rank 0, and not in the memory of the dead rank: the numbers of ranks that have arrived, got `OwnerDead`, and
    // finished, the number of writes, and the number of ranks inside.
    let words = ra.heap().alloc(5 * WORD, WORD)?;
    let [arrived, told, done, written, inside] = [0, 1, 2, 3, 4].map(|word| Rank(0).at(words.word(word)));
    // After a writer has failed, all survivors first come to write, or to read, depending on the size. The reader that gets `OwnerDead` lets
    // the others in by a share, so that all are inside at the same time, or by its release.
    let first = ra.size() % 3;
    let (all_write, share) = (first == 0, first == 1);
    let place = Place::alloc(ra, Rank(0), L::words(ra.size()), L::NODE)?;
    let pair = Pair { left: Rank(0).at(ra.heap().alloc(2 * WORD, WORD)?), right: Rank(2).at(words) };
    let mut lock = L::bind(ra, place, params)?;
    let mut ask = || acknowledged(ra).map(drop);
    if ra.rank() == Rank(1) {
        let entry = if death == DeathRw::Writing {
            lock.recoverable_acquire_write(ra)
        } else {
            lock.recoverable_acquire_read(ra)
        };
        assert_eq!(entry?, Entry::Clean);
        if death == DeathRw::Outside {
            lock.release_read(ra)?;
            ra.flush_all()?;
        }
        ra.fetch_add(arrived, 1)?;
        meet(ra, arrived, u64::from(ra.size()), &mut ask)?;
        die();
        panic!("rank 1 should have died");
    }
    meet(ra, arrived, 1, &mut ask)?;
    ra.fetch_add(arrived, 1)?;
    let survivors = u64::from(ra.size()) - 1;
    let mut increments = 0;
    for turn in 0..SURVIVALS {
        let is_first = death == DeathRw::Writing && turn == 0;
        let writes = if is_first { all_write } else { (turn + u64::from(ra.rank().0)) % 2 == 0 };
        let together = is_first && share;
        let entry = if writes { lock.recoverable_acquire_write(ra)? } else { lock.recoverable_acquire_read(ra)? };
        if let Entry::OwnerDead(failed) = entry {
            assert!(failed.contains(Rank(1)), "{failed} and not rank 1");
            // The acquire has acknowledged the failure, so that it ends no pause.
            ra.pause(1)?;
            assert_eq!(ra.fetch_add(told, 1)?, 0, "a second rank gets OwnerDead");
            // The rank is alone, even if it acquired for reading.
            pair.increment(ra)?;
            increments += 1;
            if together {
                lock.share(ra)?;
            }
        }
        if together {
            meet_again(ra, inside, survivors, &mut ask)?;
        }
        if writes {
            pair.increment(ra)?;
            increments += 1;
            lock.release_write(ra)?;
        } else {
            pair.check(ra)?;
            lock.release_read(ra)?;
        }
    }
    ra.fetch_add(written, increments)?;
    meet_again(ra, done, survivors, &mut ask)?;
    assert_eq!(ra.get(told)?, u64::from(death == DeathRw::Writing), "ranks that were told");
    assert_eq!(pair.check(ra)?, ra.get(written)?, "increments");
    meet_again(ra, done, 2 * survivors, &mut ask)?;
    if ra.rank() == Rank(0) {
        let _ = lock.recoverable_acquire_write(ra)?;
        lock.release_unrecovered(ra)?;
        ra.flush_all()?;
    }
    meet_again(ra, done, 3 * survivors, &mut ask)?;
    for refused in [lock.recoverable_acquire_read(ra), lock.recoverable_acquire_write(ra)] {
        assert!(matches!(refused, Err(crate::Error::NotRecoverable { lock }) if lock == L::NAME), "{refused:?}");
    }
    meet_again(ra, done, 4 * survivors, &mut ask)
}

/// Like [`rw_lock_cost`], for the acquires that go on after failures.
pub fn recoverable_rw_cost<L: RecoverableRw>(params: L::Params) -> [(u64, u64); 2] {
    let reader = cost(L::words(2), L::NODE, |ra, place| {
        let mut lock = L::bind(ra, place, params)?;
        let acquire = measure(ra, |ra| lock.recoverable_acquire_read(ra).map(drop))?;
        Ok((acquire, measure(ra, |ra| lock.release_read(ra))?))
    });
    let writer = cost(L::words(2), L::NODE, |ra, place| {
        let mut lock = L::bind(ra, place, params)?;
        let acquire = measure(ra, |ra| lock.recoverable_acquire_write(ra).map(drop))?;
        Ok((acquire, measure(ra, |ra| lock.release_write(ra))?))
    });
    [reader, writer]
}
