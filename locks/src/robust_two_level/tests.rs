//! The robust two-level lock word by word.

use rmalab_atomics::{Mapped, WORD, World};

use super::*;
use crate::suite::{self, wait};

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

#[test]
fn each_rank_of_a_small_world_has_a_bit() {
    const LAST: Rank = Rank(BITS - 1);
    let world = World::threads(BITS).run(|ra| {
        let mut lock = RobustTwoLevel::new(ra, RobustTwoLevelParams::default()).unwrap();
        if ra.rank() != LAST {
            return;
        }
        let words = |lock: &RobustTwoLevel| [lock.master, lock.word_of(LAST)].map(|word| ra.get(word).unwrap());
        assert_eq!(lock.recoverable_lock(ra, SHARED_KIND, LAST).unwrap(), Entry::Clean);
        assert_eq!(words(&lock), [0, 1 << (32 + 30)]);
        lock.unlock(ra, SHARED_KIND, LAST).unwrap();
        assert_eq!(lock.recoverable_lock_all(ra).unwrap(), Entry::Clean);
        assert_eq!(words(&lock), [1 << (32 + 30), 0]);
        lock.unlock_all(ra).unwrap();
        assert_eq!(lock.recoverable_lock(ra, EXCLUSIVE_KIND, LAST).unwrap(), Entry::Clean);
        assert_eq!(words(&lock), [1 << 30, 31]);
        lock.unlock(ra, EXCLUSIVE_KIND, LAST).unwrap();
        assert_eq!(words(&lock), [0, 0]);
    });
    world.unwrap();
    // The next rank's bits would be those of other states.
    World::threads(BITS + 1).run(|ra| assert!(RobustTwoLevel::new(ra, Default::default()).unwrap().announces)).unwrap();
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

/// Makes rank 2 fail with an exclusive lock of its own target. Rank 0 gets `OwnerDead`, and unlocks without declaring the data consistent.
fn abandoned(how: Option<LockKind>, announces: bool) {
    const LOST: Rank = Rank(2);
    suite::with_deaths(3, |ra| {
        let mut lock = RobustTwoLevel::new(ra, RobustTwoLevelParams { announces, ..Default::default() })?;
        let turn = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
        let wait_for = |number| wait(ra, &[LOST], || Ok(ra.get(turn)? == number));
        if ra.rank() == LOST {
            assert_eq!(lock.recoverable_lock(ra, EXCLUSIVE_KIND, LOST)?, Entry::Clean);
            ra.put(turn, 1)?;
            suite::die();
        }
        if ra.rank() == Rank(0) {
            wait_for(1)?;
            let entry = match how {
                Some(kind) => lock.recoverable_lock(ra, kind, LOST)?,
                None => lock.recoverable_lock_all(ra)?,
            };
            assert!(matches!(entry, Entry::OwnerDead(_)), "{how:?}: {entry:?}");
            for kind in [EXCLUSIVE_KIND, SHARED_KIND] {
                let refused = lock.recoverable_lock(ra, kind, Rank(1));
                assert!(matches!(refused, Err(Error::Inconsistent { .. })), "{how:?}, {kind:?}: {refused:?}");
            }
            match how {
                Some(kind) => lock.unlock(ra, kind, LOST)?,
                None => lock.unlock_all(ra)?,
            }
            ra.put(turn, 2)?;
            return Ok(());
        }
        wait_for(2)?;
        for kind in [EXCLUSIVE_KIND, SHARED_KIND] {
            let refused = lock.recoverable_lock(ra, kind, LOST);
            assert!(matches!(refused, Err(Error::NotRecoverable { .. })), "{how:?}, {kind:?}: {refused:?}");
        }
        let refused = lock.recoverable_lock_all(ra);
        assert!(matches!(refused, Err(Error::NotRecoverable { .. })), "{how:?}: {refused:?}");
        // The other targets go on.
        for kind in [EXCLUSIVE_KIND, SHARED_KIND] {
            assert_eq!(lock.recoverable_lock(ra, kind, Rank(1))?, Entry::Clean);
            lock.unlock(ra, kind, Rank(1))?;
        }
        // The failed owner stays counted until the next recount.
        let words = [ra.get(lock.master)?, ra.get(lock.word_of(LOST))?];
        let of_owner = if announces { EXCLUSIVE } else { EXCLUSIVE << LOST.0 };
        assert_eq!(words, [SOME_LOST + of_owner, NOT_RECOVERABLE], "{how:?}");
        Ok(())
    });
}

#[test]
fn a_target_whose_data_nobody_declares_consistent_is_lost_and_with_it_lock_all() {
    for how in [Some(EXCLUSIVE_KIND), Some(SHARED_KIND), None] {
        abandoned(how, false);
        abandoned(how, true);
    }
}

/// Rank 1 changes the master all the time, while rank 0 gives up its target.
#[test]
fn a_lost_target_is_marked_in_a_master_that_changes() {
    let world = World::threads(2).run(|ra| {
        let mut lock = RobustTwoLevel::new(ra, RobustTwoLevelParams::default()).unwrap();
        let words = ra.heap().alloc(2 * WORD, WORD).unwrap();
        let [begun, ended] = [0, 1].map(|word| Rank(1).at(words.word(word)));
        if ra.rank() == Rank(1) {
            ra.put(begun, 1).unwrap();
            while ra.get(ended).unwrap() == 0 && ra.failed().unwrap().is_empty() {
                ra.fetch_add(lock.master, lock.share(EXCLUSIVE)).unwrap();
                ra.fetch_add(lock.master, lock.share(EXCLUSIVE).wrapping_neg()).unwrap();
            }
            return;
        }
        while ra.get(begun).unwrap() == 0 {
            std::thread::yield_now();
        }
        // Rank 1 has run in between as often as that.
        let (mut changes, mut before) = (0, 0);
        while changes < 50 {
            lock.lock(ra, EXCLUSIVE_KIND, Rank(1)).unwrap();
            lock.tell(Rank(1));
            lock.unlock(ra, EXCLUSIVE_KIND, Rank(1)).unwrap();
            let master = ra.get(lock.master).unwrap();
            assert_eq!(master & SOME_LOST, SOME_LOST, "after {changes} changes: {master:#x}");
            changes += u32::from(master != before);
            before = master;
            ra.fetch_add(lock.master, SOME_LOST.wrapping_neg()).unwrap();
            assert_eq!(ra.fetch_store(lock.word_of(Rank(1)), 0).unwrap(), NOT_RECOVERABLE);
        }
        ra.put(ended, 1).unwrap();
    });
    world.unwrap();
}

/// Ranks 1 and 2 share the last target, and rank 2 fails. Rank 0 waits for rank 1 alone.
fn a_recount_keeps_the_shares_of_live_ranks(ranks: u32) {
    const DOOMED: Rank = Rank(2);
    let target = Rank(ranks - 1);
    suite::with_deaths(ranks, |ra| {
        let mut lock = RobustTwoLevel::new(ra, RobustTwoLevelParams::default())?;
        let turn = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
        match ra.rank().0 {
            0 => {
                wait(ra, &[DOOMED], || Ok(ra.get(turn)? == 2 && !ra.failed()?.is_empty()))?;
                assert_eq!(lock.recoverable_lock(ra, EXCLUSIVE_KIND, target)?, Entry::Clean);
                assert_eq!(ra.get(turn)?, 3, "beside a shared lock");
                lock.unlock(ra, EXCLUSIVE_KIND, target)
            }
            rank @ (1 | 2) => {
                assert_eq!(lock.recoverable_lock(ra, SHARED_KIND, target)?, Entry::Clean);
                ra.fetch_add(turn, 1)?;
                if Rank(rank) == DOOMED {
                    suite::die();
                }
                // Rank 0 has taken the share of rank 2 away.
                let sharing = || Ok::<u64, Error>(ra.get(lock.word_of(target))? / SHARED);
                wait(ra, &[DOOMED], || Ok(ra.get(turn)? == 2 && sharing()? == lock.share(1)))?;
                // Time for a rank that does not wait.
                (0..1000).for_each(|_| std::thread::yield_now());
                ra.fetch_add(turn, 1)?;
                lock.unlock(ra, SHARED_KIND, target)
            }
            _ => Ok(()),
        }
    });
}

#[test]
fn a_recount_keeps_the_bits_of_live_ranks() {
    a_recount_keeps_the_shares_of_live_ranks(BITS);
}

/// The bits of the last target are in the second word that each rank announces.
#[test]
fn a_recount_keeps_the_counts_of_live_ranks() {
    a_recount_keeps_the_shares_of_live_ranks(67);
}
