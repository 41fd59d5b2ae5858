//! The two-level lock word by word.

use rmalab_atomics::{Mapped, World};

use super::*;

const SHARED_KIND: LockKind = LockKind::Shared;
const EXCLUSIVE_KIND: LockKind = LockKind::Exclusive;
const TARGET: Rank = Rank(1);

/// Runs `body` on rank 0 of two; the test plays the other ranks by changing the words.
fn alone(body: impl Fn(&Mapped, TwoLevel) + Sync) {
    let world = World::threads(2).run(|ra| {
        for contended in [Contended::Wait, Contended::Retract] {
            let lock = TwoLevel::new(ra, TwoLevelParams { contended, ..Default::default() }).unwrap();
            if ra.rank() == Rank(0) {
                body(ra, lock);
            }
        }
    });
    world.unwrap();
}

fn words(ra: &Mapped, lock: &TwoLevel) -> (u64, u64) {
    (ra.get(lock.master).unwrap(), ra.get(TARGET.at(lock.target)).unwrap())
}

#[test]
fn the_words_tell_who_holds_what() {
    alone(|ra, mut lock| {
        lock.lock(ra, SHARED_KIND, TARGET).unwrap();
        assert_eq!(words(ra, &lock), (0, SHARED));
        lock.unlock(ra, SHARED_KIND, TARGET).unwrap();
        lock.lock_all(ra).unwrap();
        assert_eq!(words(ra, &lock), (ALL, 0));
        lock.unlock_all(ra).unwrap();
        // The master counts ranks, not locks.
        lock.lock(ra, EXCLUSIVE_KIND, Rank(0)).unwrap();
        lock.lock(ra, EXCLUSIVE_KIND, TARGET).unwrap();
        assert_eq!(words(ra, &lock), (EXCLUSIVES, EXCLUSIVE));
        lock.unlock(ra, EXCLUSIVE_KIND, Rank(0)).unwrap();
        assert_eq!(words(ra, &lock), (EXCLUSIVES, EXCLUSIVE));
        lock.unlock(ra, EXCLUSIVE_KIND, TARGET).unwrap();
        assert_eq!(words(ra, &lock), (0, 0));
    });
}

#[test]
fn attempts_that_fail_leave_nothing_behind() {
    alone(|ra, mut lock| {
        let target = TARGET.at(lock.target);
        let past = ra.now();
        for (at, count) in [(lock.master, ALL), (lock.master, EXCLUSIVES), (target, SHARED), (target, EXCLUSIVE)] {
            ra.fetch_add(at, count).unwrap();
            let before = words(ra, &lock);
            let may_share = at == lock.master || count == SHARED;
            let may_exclude = at == lock.master && count == EXCLUSIVES;
            let may_all = !may_exclude;
            for limited in [false, true] {
                let mut lock_one = |kind| {
                    if limited { lock.lock_until(ra, kind, TARGET, past) } else { lock.try_lock(ra, kind, TARGET) }
                        .unwrap()
                };
                assert_eq!(lock_one(SHARED_KIND), may_share, "{at} has {count:#x}");
                if may_share {
                    lock.unlock(ra, SHARED_KIND, TARGET).unwrap();
                }
                let mut lock_one = |kind| {
                    if limited { lock.lock_until(ra, kind, TARGET, past) } else { lock.try_lock(ra, kind, TARGET) }
                        .unwrap()
                };
                assert_eq!(lock_one(EXCLUSIVE_KIND), may_exclude, "{at} has {count:#x}");
                if may_exclude {
                    lock.unlock(ra, EXCLUSIVE_KIND, TARGET).unwrap();
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
        assert_eq!(words(ra, &lock), (ALL, 0));
        ra.fetch_add(lock.master, ALL.wrapping_neg()).unwrap();
    });
}

/// The deadlock that the module's text warns about, and how retracting avoids it.
#[test]
fn a_waiting_lock_all_stops_a_first_exclusive_lock() {
    alone(|ra, mut lock| {
        // Another rank holds some target exclusively, and a third one waits for it in lock_all.
        ra.fetch_add(lock.master, EXCLUSIVES).unwrap();
        ra.fetch_add(lock.master, ALL).unwrap();
        assert!(!lock.try_lock(ra, EXCLUSIVE_KIND, TARGET).unwrap());
        ra.fetch_add(lock.master, ALL.wrapping_neg()).unwrap();
        assert!(lock.try_lock(ra, EXCLUSIVE_KIND, TARGET).unwrap());
        lock.unlock(ra, EXCLUSIVE_KIND, TARGET).unwrap();
        ra.fetch_add(lock.master, EXCLUSIVES.wrapping_neg()).unwrap();
    });
}

#[test]
fn the_master_is_a_rank() {
    let world = World::threads(2).run(|ra| {
        let result = TwoLevel::new(ra, TwoLevelParams { master: Rank(2), ..Default::default() });
        assert!(matches!(result, Err(Error::NoSuchTarget { target: Rank(2), size: 2, .. })), "{result:?}");
    });
    world.unwrap();
}
