//! The scanning two-level lock word by word.

use std::sync::atomic::{AtomicU64, Ordering};

use rmalab_atomics::{Mapped, World};

use super::*;
use crate::WindowLockTimed;

const SHARED_KIND: LockKind = LockKind::Shared;
const EXCLUSIVE_KIND: LockKind = LockKind::Exclusive;
const TARGET: Rank = Rank(1);

/// Runs `body` on rank 0 of two; the test plays the other ranks by changing the words.
fn alone(body: impl Fn(&Mapped, TwoLevelScan) + Sync) {
    let world = World::threads(2).run(|ra| {
        let lock = TwoLevelScan::new(ra, TwoLevelScanParams::default()).unwrap();
        if ra.rank() == Rank(0) {
            body(ra, lock);
        }
    });
    world.unwrap();
}

/// Returns the master and the words of both targets.
fn words(ra: &Mapped, lock: &TwoLevelScan) -> [u64; 3] {
    [lock.master, lock.word_of(Rank(0)), lock.word_of(TARGET)].map(|word| ra.get(word).unwrap())
}

#[test]
fn the_words_tell_who_holds_what() {
    alone(|ra, mut lock| {
        lock.lock(ra, SHARED_KIND, TARGET).unwrap();
        assert_eq!(words(ra, &lock), [0, 0, SHARED]);
        lock.unlock(ra, SHARED_KIND, TARGET).unwrap();
        lock.lock_all(ra).unwrap();
        assert_eq!(words(ra, &lock), [ALL, 0, 0]);
        lock.unlock_all(ra).unwrap();
        // Only a rank with a further lock is counted, until it has none.
        for first in [Rank(0), TARGET] {
            lock.lock(ra, EXCLUSIVE_KIND, Rank(0)).unwrap();
            assert_eq!(words(ra, &lock), [0, EXCLUSIVE, 0]);
            lock.lock(ra, EXCLUSIVE_KIND, TARGET).unwrap();
            assert_eq!(words(ra, &lock), [SEVERAL, EXCLUSIVE, EXCLUSIVE]);
            lock.unlock(ra, EXCLUSIVE_KIND, first).unwrap();
            assert_eq!(words(ra, &lock)[0], SEVERAL);
            lock.unlock(ra, EXCLUSIVE_KIND, Rank(1 - first.0)).unwrap();
            assert_eq!(words(ra, &lock), [0; 3]);
        }
    });
}

#[test]
fn a_lock_that_is_begun_is_held_or_completed_later() {
    alone(|ra, mut lock| {
        let target = lock.word_of(TARGET);
        for (kind, word) in [(SHARED_KIND, SHARED), (EXCLUSIVE_KIND, EXCLUSIVE)] {
            assert!(matches!(lock.begin_lock(ra, kind, Rank(2)), Begun::Nothing), "there is no such rank");
            assert!(lock.lock(ra, kind, Rank(2)).is_err(), "there is no such rank");
            assert!(matches!(lock.begin_lock(ra, kind, TARGET), Begun::Held));
            assert_eq!(words(ra, &lock), [0, 0, word]);
            assert!(lock.unlock_shortly(ra, kind, Rank(2)).is_none(), "there is no such rank");
            assert!(matches!(lock.unlock_shortly(ra, kind, TARGET), Some(Ok(()))));
            assert_eq!(words(ra, &lock), [0; 3]);
        }
        for (kind, at, obstacle, begun, held) in [
            (SHARED_KIND, target, EXCLUSIVE, [0, 0, EXCLUSIVE + SHARED], SHARED),
            (EXCLUSIVE_KIND, target, SHARED, [0, 0, SHARED], EXCLUSIVE),
            // The bit is cleared by the rest of the lock.
            (EXCLUSIVE_KIND, lock.master, ALL, [ALL, 0, EXCLUSIVE], EXCLUSIVE),
        ] {
            ra.fetch_add(at, obstacle).unwrap();
            assert!(matches!(lock.begin_lock(ra, kind, TARGET), Begun::Waits), "{kind:?} {at}");
            assert_eq!(words(ra, &lock), begun, "{kind:?} {at}");
            ra.fetch_add(at, obstacle.wrapping_neg()).unwrap();
            lock.complete_lock(ra, kind, TARGET).unwrap();
            assert_eq!(words(ra, &lock), [0, 0, held], "{kind:?} {at}");
            lock.unlock(ra, kind, TARGET).unwrap();
            assert_eq!(words(ra, &lock), [0; 3], "{kind:?} {at}");
        }
        // A second exclusive lock is not short, and neither is the end of the two.
        lock.lock(ra, EXCLUSIVE_KIND, Rank(0)).unwrap();
        assert!(matches!(lock.begin_lock(ra, EXCLUSIVE_KIND, TARGET), Begun::Nothing));
        assert_eq!(words(ra, &lock), [0, EXCLUSIVE, 0]);
        lock.lock(ra, EXCLUSIVE_KIND, TARGET).unwrap();
        assert!(lock.unlock_shortly(ra, EXCLUSIVE_KIND, TARGET).is_none());
        assert_eq!(words(ra, &lock), [SEVERAL, EXCLUSIVE, EXCLUSIVE]);
        lock.unlock(ra, EXCLUSIVE_KIND, TARGET).unwrap();
        lock.unlock(ra, EXCLUSIVE_KIND, Rank(0)).unwrap();
        assert_eq!(words(ra, &lock), [0; 3]);
    });
}

#[test]
fn attempts_that_fail_leave_nothing_behind() {
    alone(|ra, mut lock| {
        let (target, past) = (lock.word_of(TARGET), ra.now());
        for (at, count) in [(lock.master, ALL), (lock.master, SEVERAL), (target, SHARED), (target, EXCLUSIVE)] {
            ra.fetch_add(at, count).unwrap();
            let before = words(ra, &lock);
            let may_share = at == lock.master || count == SHARED;
            let may_exclude = at == lock.master && count == SEVERAL;
            let may_all = count == ALL || count == SHARED;
            for limited in [false, true] {
                for (kind, may_lock) in [(SHARED_KIND, may_share), (EXCLUSIVE_KIND, may_exclude)] {
                    let locked =
                        if limited { lock.lock_until(ra, kind, TARGET, past) } else { lock.try_lock(ra, kind, TARGET) };
                    assert_eq!(locked.unwrap(), may_lock, "{kind:?}: {at} has {count:#x}");
                    if may_lock {
                        lock.unlock(ra, kind, TARGET).unwrap();
                    }
                }
                let all = if limited { lock.lock_all_until(ra, past) } else { lock.try_lock_all(ra) };
                assert_eq!(all.unwrap(), may_all, "{at} has {count:#x}");
                if may_all {
                    lock.unlock_all(ra).unwrap();
                }
                assert_eq!(words(ra, &lock), before, "{at} has {count:#x}");
            }
            ra.fetch_add(at, count.wrapping_neg()).unwrap();
        }
    });
}

/// A lock_all that waits for the first exclusive lock does not keep out a second one, which would wait forever.
#[test]
fn a_waiting_lock_all_does_not_stop_its_obstacle() {
    alone(|ra, mut lock| {
        lock.lock(ra, EXCLUSIVE_KIND, Rank(0)).unwrap();
        ra.fetch_add(lock.master, ALL).unwrap();
        assert!(lock.try_lock(ra, EXCLUSIVE_KIND, TARGET).unwrap());
        lock.unlock(ra, EXCLUSIVE_KIND, TARGET).unwrap();
        lock.unlock(ra, EXCLUSIVE_KIND, Rank(0)).unwrap();
        assert_eq!(words(ra, &lock), [ALL, 0, 0]);
        assert!(!lock.try_lock(ra, EXCLUSIVE_KIND, TARGET).unwrap());
        ra.fetch_add(lock.master, ALL.wrapping_neg()).unwrap();
    });
}

/// A rank that gives up a further lock is counted as long as it holds the first one.
#[test]
fn a_further_lock_that_fails_leaves_the_first_one() {
    alone(|ra, mut lock| {
        lock.lock(ra, EXCLUSIVE_KIND, Rank(0)).unwrap();
        ra.fetch_add(lock.word_of(TARGET), SHARED).unwrap();
        assert!(!lock.try_lock(ra, EXCLUSIVE_KIND, TARGET).unwrap());
        assert!(!lock.lock_until(ra, EXCLUSIVE_KIND, TARGET, ra.now()).unwrap());
        assert_eq!(words(ra, &lock), [SEVERAL, EXCLUSIVE, SHARED]);
        lock.unlock(ra, EXCLUSIVE_KIND, Rank(0)).unwrap();
        assert_eq!(words(ra, &lock), [0, 0, SHARED]);
    });
}

/// Ranks hold two targets in turn without a gap, and release the older one first, while others lock all targets.
#[test]
fn lock_all_waits_for_ranks_that_go_from_target_to_target() {
    const ROUNDS: u32 = 300;
    let world = World::threads(4);
    let (inside, alls) = (AtomicU64::new(0), AtomicU64::new(0));
    world
        .run(|ra| {
            let mut lock = TwoLevelScan::new(ra, TwoLevelScanParams { master: Rank(3), ..Default::default() }).unwrap();
            for round in 0..ROUNDS {
                if ra.rank().0 < 2 {
                    lock.lock_all(ra).unwrap();
                    alls.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(inside.load(Ordering::SeqCst), 0, "an exclusive lock beside a lock_all");
                    std::thread::yield_now();
                    assert_eq!(inside.load(Ordering::SeqCst), 0, "an exclusive lock beside a lock_all");
                    alls.fetch_sub(1, Ordering::SeqCst);
                    lock.unlock_all(ra).unwrap();
                    continue;
                }
                // In ascending order, so that the two ranks do not wait for each other.
                let first = Rank(round % 2);
                lock.lock(ra, EXCLUSIVE_KIND, first).unwrap();
                inside.fetch_add(1, Ordering::SeqCst);
                assert_eq!(alls.load(Ordering::SeqCst), 0, "a lock_all beside an exclusive lock");
                for target in [first.0 + 1, first.0 + 2].map(Rank) {
                    lock.lock(ra, EXCLUSIVE_KIND, target).unwrap();
                    std::thread::yield_now();
                    lock.unlock(ra, EXCLUSIVE_KIND, Rank(target.0 - 1)).unwrap();
                    assert_eq!(alls.load(Ordering::SeqCst), 0, "a lock_all beside an exclusive lock");
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                lock.unlock(ra, EXCLUSIVE_KIND, Rank(first.0 + 2)).unwrap();
            }
        })
        .unwrap();
}

#[test]
fn the_master_is_a_rank() {
    let world = World::threads(2).run(|ra| {
        let result = TwoLevelScan::new(ra, TwoLevelScanParams { master: Rank(2), ..Default::default() });
        assert!(matches!(result, Err(Error::NoSuchTarget { target: Rank(2), size: 2, .. })), "{result:?}");
    });
    world.unwrap();
}
