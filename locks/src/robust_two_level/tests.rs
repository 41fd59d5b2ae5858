//! The robust two-level lock word by word.

use rmalab_atomics::{Mapped, World};

use super::*;

const SHARED_KIND: LockKind = LockKind::Shared;
const EXCLUSIVE_KIND: LockKind = LockKind::Exclusive;
const TARGET: Rank = Rank(65);

/// Returns the master, the target, and rank 0's two words of announcements, without the number of changes.
fn words(ra: &Mapped, lock: &RobustTwoLevel) -> [u64; 4] {
    let own = |word| ra.get(lock.own_word(Rank(0), word)).unwrap();
    [ra.get(lock.master).unwrap(), ra.get(lock.word_of(TARGET)).unwrap(), own(0) % NUMBER, own(2)]
}

/// Runs `body` on rank 0 of enough ranks that the bit of [`TARGET`] is in a second word.
fn alone(body: impl Fn(&Mapped, RobustTwoLevel) + Sync) {
    let world = World::threads(66).run(|ra| {
        let lock = RobustTwoLevel::new(ra, RobustTwoLevelParams::default()).unwrap();
        if ra.rank() == Rank(0) {
            body(ra, lock);
        }
    });
    world.unwrap();
}

#[test]
fn the_words_say_which_rank_is_counted_where() {
    alone(|ra, mut lock| {
        assert_eq!(lock.recoverable_lock(ra, SHARED_KIND, TARGET).unwrap(), Entry::Clean);
        assert_eq!(words(ra, &lock), [0, SHARED, 0, 1 << 1]);
        lock.unlock(ra, SHARED_KIND, TARGET).unwrap();
        assert_eq!(lock.recoverable_lock_all(ra).unwrap(), Entry::Clean);
        assert_eq!(words(ra, &lock), [ALL, 0, IN_ALL, 0]);
        lock.unlock_all(ra).unwrap();
        for target in [Rank(0), TARGET] {
            assert_eq!(lock.recoverable_lock(ra, EXCLUSIVE_KIND, target).unwrap(), Entry::Clean);
        }
        assert_eq!(words(ra, &lock), [EXCLUSIVE, 1, IN_EXCLUSIVES, 0]);
        for target in [Rank(0), TARGET] {
            assert_ne!(words(ra, &lock)[0], 0);
            lock.unlock(ra, EXCLUSIVE_KIND, target).unwrap();
        }
        assert_eq!(words(ra, &lock), [0; 4]);
        assert_eq!(ra.get(lock.own_word(Rank(0), 0)).unwrap() / NUMBER, 6, "changes");
    });
}

/// An attempt that meets a lock_all is a change, though it leaves no count.
#[test]
fn an_attempt_that_is_taken_back_has_a_number() {
    alone(|ra, mut lock| {
        ra.fetch_add(lock.master, ALL).unwrap();
        assert_eq!(lock.attempt(ra, TARGET).unwrap(), Attempt::Refused(ALL));
        assert_eq!((words(ra, &lock)[0], lock.announced), (ALL, NUMBER));
        // A later attempt leaves no trace at all.
        assert_eq!(lock.attempt_again(ra, TARGET).unwrap(), Attempt::Refused(ALL));
        assert_eq!((words(ra, &lock)[0], lock.announced), (ALL, NUMBER));
        ra.fetch_add(lock.master, ALL.wrapping_neg()).unwrap();
        assert_eq!(lock.attempt_again(ra, TARGET).unwrap(), Attempt::Success);
        assert_eq!(words(ra, &lock), [EXCLUSIVE, 1, IN_EXCLUSIVES, 0]);
    });
}

#[test]
fn the_master_is_a_rank() {
    let world = World::threads(2).run(|ra| {
        let result = RobustTwoLevel::new(ra, RobustTwoLevelParams { master: Rank(2), ..Default::default() });
        assert!(matches!(result, Err(Error::NoSuchTarget { target: Rank(2), size: 2, .. })), "{result:?}");
    });
    world.unwrap();
}
