//! Repairs with more ranks and failures than a search of all orders can have.

use rmalab_atomics::{Address, Mapped, Rank, WORD};

use super::*;
use crate::qnode::pointer;
use crate::recoverable::{acknowledged, interruptible};
use crate::suite::{die, with_deaths};

/// A queue of ranks that arrive one after the other.
struct Queue<'a> {
    ra: &'a Mapped,
    lock: RobustMcs,
    /// The number of steps that the ranks have made.
    step: Address,
    /// The rank inside, plus one.
    inside: Address,
}

impl<'a> Queue<'a> {
    fn new(ra: &'a Mapped) -> Result<Queue<'a>> {
        let words = ra.heap().alloc(2 * WORD, WORD)?;
        let place = Place::alloc(ra, Rank(0), RobustMcs::WORDS, RobustMcs::NODE)?;
        let lock = RobustMcs::bind(ra, place, ())?;
        Ok(Queue { ra, lock, step: Rank(0).at(words), inside: Rank(0).at(words.word(1)) })
    }

    /// Waits until `done`, and acknowledges the failures of ranks 1 and 3 meanwhile. Panics if another rank has failed.
    fn until(&self, done: impl Fn() -> Result<bool>) -> Result<()> {
        while !done()? {
            interruptible(self.ra.pause(1).map_err(Error::from))?;
            let failed = acknowledged(self.ra)?;
            assert!(failed.iter().all(|rank| [1, 3].contains(&rank.0)), "another rank has found a fault");
        }
        Ok(())
    }

    /// Waits for step number `number`, counted from 0.
    fn turn(&self, number: u64) -> Result<()> {
        self.until(|| Ok(self.ra.get(self.step)? == number))
    }

    /// Makes the next rank's step possible.
    fn next(&self) -> Result<()> {
        self.ra.flush_all()?;
        self.ra.fetch_add(self.step, 1)?;
        Ok(())
    }

    /// Waits for the failure of `rank`.
    fn failure(&self, rank: u32) -> Result<()> {
        self.until(|| Ok(acknowledged(self.ra)?.contains(Rank(rank))))
    }

    /// In step `turn`, takes a place behind another rank, and links itself to it. Returns the pointer of that rank.
    fn arrive(&mut self, turn: u64) -> Result<u64> {
        self.turn(turn)?;
        let before = self.lock.take(self.ra, true)?;
        assert_ne!(before, NIL, "{} is first", self.ra.rank());
        self.lock.announce(self.ra, HAS, before)?;
        self.ra.put(self.lock.node.next_of(before), self.lock.pointer())?;
        self.next()?;
        Ok(before)
    }

    /// Returns whether `rank` is this rank's successor.
    fn is_ahead_of(&self, rank: Rank) -> Result<bool> {
        Ok(self.ra.get(self.lock.node.next_of(self.lock.pointer()))? as u32 == pointer(rank) as u32)
    }

    /// Enters alone.
    fn enter(&self) -> Result<()> {
        let other = self.ra.fetch_store(self.inside, u64::from(self.ra.rank().0) + 1)?;
        assert_eq!(other, 0, "{} enters beside another rank", self.ra.rank());
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        self.ra.fetch_store(self.inside, 0)?;
        self.lock.release(self.ra)
    }
}

/// Rank 1 hands the lock to rank 2 and fails. Rank 3, behind rank 2, fails. So rank 0, behind rank 3, repairs while rank 2 is inside.
#[test]
fn the_rank_that_a_failed_rank_has_granted_is_the_holder() {
    with_deaths(4, |ra| {
        let mut queue = Queue::new(ra)?;
        match ra.rank().0 {
            1 => {
                assert_eq!(queue.lock.recoverable_acquire(ra)?, Entry::Clean);
                queue.next()?;
                queue.turn(4)?;
                queue.lock.release(ra)?;
                queue.next()?;
                die();
            }
            2 => {
                let before = queue.arrive(1)?;
                queue.turn(5)?;
                queue.failure(1)?;
                // Whether it looks for its grant or for the failure first, it has the lock without a failure inside.
                assert_eq!(queue.lock.wait_behind(ra, before)?, Entry::Clean);
                queue.enter()?;
                queue.next()?;
                queue.until(|| Ok(queue.is_ahead_of(Rank(0))? || ra.get(queue.inside)? != 3))?;
                queue.leave()
            }
            3 => {
                queue.arrive(2)?;
                queue.turn(6)?;
                die();
            }
            _ => {
                let before = queue.arrive(3)?;
                queue.turn(6)?;
                queue.failure(3)?;
                assert_eq!(queue.lock.wait_behind(ra, before)?, Entry::Clean);
                queue.enter()?;
                queue.leave()
            }
        }
    });
}

/// Rank 1 fails inside, and rank 3, the last one, behind rank 2. So the repair of rank 2 takes away the link to rank 3, and moves the tail.
#[test]
fn a_repair_leaves_no_link_to_a_failed_rank() {
    with_deaths(4, |ra| {
        let mut queue = Queue::new(ra)?;
        match ra.rank().0 {
            1 => {
                assert_eq!(queue.lock.recoverable_acquire(ra)?, Entry::Clean);
                queue.next()?;
                queue.turn(3)?;
                die();
            }
            2 => {
                let before = queue.arrive(1)?;
                queue.failure(1)?;
                queue.failure(3)?;
                let Entry::OwnerDead(failed) = queue.lock.wait_behind(ra, before)? else {
                    panic!("rank 1 has failed inside");
                };
                assert!(failed.contains(Rank(1)) && failed.contains(Rank(3)), "{failed}");
                queue.enter()?;
                assert_eq!(ra.get(queue.lock.node.next_of(queue.lock.pointer()))?, queue.lock.open());
                queue.leave()?;
                queue.next()
            }
            3 => {
                queue.arrive(2)?;
                die();
            }
            _ => {
                queue.turn(4)?;
                assert_eq!(queue.lock.recoverable_acquire(ra)?, Entry::Clean);
                queue.enter()?;
                queue.leave()
            }
        }
    });
}

/// Rank 1 has taken a place behind rank 0, and fails before it is linked. Rank 3 is behind it, and rank 2 behind rank 3. Rank 0 hands the lock
/// to rank 3 ahead of its repair, so that no rank is told of a failure inside.
#[test]
fn a_release_goes_past_a_failed_rank_without_a_link() {
    with_deaths(4, |ra| {
        let mut queue = Queue::new(ra)?;
        match ra.rank().0 {
            0 => {
                assert_eq!(queue.lock.recoverable_acquire(ra)?, Entry::Clean);
                queue.next()?;
                queue.turn(4)?;
                queue.failure(1)?;
                queue.lock.release(ra)?;
                queue.next()
            }
            1 => {
                queue.turn(1)?;
                queue.lock.take(ra, true)?;
                queue.next()?;
                queue.turn(4)?;
                die();
            }
            rank => {
                let before = queue.arrive(if rank == 3 { 2 } else { 3 })?;
                queue.turn(5)?;
                queue.failure(1)?;
                assert_eq!(queue.lock.wait_behind(ra, before)?, Entry::Clean);
                queue.enter()?;
                queue.leave()
            }
        }
    });
}

/// Rank 1 has taken a place behind rank 0, and fails before it is linked. No rank is behind it, so the release leaves the lock free.
#[test]
fn a_release_takes_the_place_of_a_failed_last_rank() {
    with_deaths(3, |ra| {
        let mut queue = Queue::new(ra)?;
        match ra.rank().0 {
            0 => {
                assert_eq!(queue.lock.recoverable_acquire(ra)?, Entry::Clean);
                queue.next()?;
                queue.failure(1)?;
                queue.lock.release(ra)?;
                assert_eq!(ra.get(queue.lock.tail)?, NIL);
                queue.next()
            }
            1 => {
                queue.turn(1)?;
                queue.lock.take(ra, true)?;
                ra.flush_all()?;
                die();
            }
            _ => {
                queue.turn(2)?;
                assert_eq!(queue.lock.recoverable_acquire(ra)?, Entry::Clean);
                queue.leave()
            }
        }
    });
}

/// Rank 1 fails inside, and rank 3 between rank 2 and rank 0. Rank 2 repairs first, and moves behind rank 0. So rank 0 is the next one.
#[test]
fn a_rank_moves_behind_the_ranks_that_a_failed_rank_has_cut_off() {
    with_deaths(4, |ra| {
        let mut queue = Queue::new(ra)?;
        match ra.rank().0 {
            0 => {
                let before = queue.arrive(3)?;
                queue.turn(5)?;
                let entry = queue.lock.wait_behind(ra, before)?;
                assert!(matches!(&entry, Entry::OwnerDead(failed) if failed.contains(Rank(1))), "{entry:?}");
                queue.enter()?;
                queue.leave()
            }
            2 => {
                queue.arrive(1)?;
                queue.failure(1)?;
                queue.failure(3)?;
                let Placed::Behind(before, false) = queue.lock.repair(ra)? else { panic!("rank 0 is alive") };
                assert_eq!(rank_of(before), Rank(0));
                queue.next()?;
                assert_eq!(queue.lock.wait_behind(ra, before)?, Entry::Clean);
                queue.enter()?;
                queue.leave()
            }
            rank => {
                if rank == 1 {
                    assert_eq!(queue.lock.recoverable_acquire(ra)?, Entry::Clean);
                    queue.next()?;
                } else {
                    queue.arrive(2)?;
                }
                queue.turn(4)?;
                die();
            }
        }
    });
}

/// Rank 1 fails inside, and rank 3 between rank 2 and rank 0. Rank 0 repairs and releases ahead of rank 2's repair.
/// `late` looks at what rank 2 gets.
fn a_rank_repairs_late(release: fn(&mut RobustMcs, &Mapped) -> Result<()>, late: fn(Result<Entry>)) {
    with_deaths(4, |ra| {
        let mut queue = Queue::new(ra)?;
        match ra.rank().0 {
            0 => {
                let before = queue.arrive(3)?;
                queue.failure(1)?;
                queue.failure(3)?;
                let entry = queue.lock.wait_behind(ra, before)?;
                assert!(matches!(entry, Entry::OwnerDead(_)), "{entry:?}");
                release(&mut queue.lock, ra)?;
                queue.next()
            }
            2 => {
                let before = queue.arrive(1)?;
                queue.turn(5)?;
                late(queue.lock.wait_behind(ra, before));
                Ok(())
            }
            rank => {
                if rank == 1 {
                    assert_eq!(queue.lock.recoverable_acquire(ra)?, Entry::Clean);
                    queue.next()?;
                } else {
                    queue.arrive(2)?;
                }
                queue.turn(4)?;
                die();
            }
        }
    });
}

#[test]
fn a_late_repair_finds_the_lock_free() {
    a_rank_repairs_late(RobustMcs::release, |got| assert!(matches!(got, Ok(Entry::OwnerDead(_))), "{got:?}"));
}

#[test]
fn a_late_repair_finds_the_lock_not_recoverable() {
    a_rank_repairs_late(RobustMcs::release_unrecovered, |got| {
        assert!(matches!(got, Err(Error::NotRecoverable { .. })), "{got:?}");
    });
}

/// Rank 3 hands the lock to rank 0, and leaves. Rank 1, behind rank 0, fails. So rank 2, behind rank 1, repairs while rank 0 is inside.
#[test]
fn the_rank_that_a_live_rank_has_granted_is_the_holder() {
    with_deaths(4, |ra| {
        let mut queue = Queue::new(ra)?;
        match ra.rank().0 {
            0 => {
                let before = queue.arrive(1)?;
                queue.turn(3)?;
                assert_eq!(queue.lock.wait_behind(ra, before)?, Entry::Clean);
                queue.enter()?;
                queue.next()?;
                queue.until(|| queue.is_ahead_of(Rank(2)))?;
                queue.leave()
            }
            1 => {
                queue.arrive(4)?;
                queue.turn(6)?;
                die();
            }
            2 => {
                let before = queue.arrive(5)?;
                queue.failure(1)?;
                assert_eq!(queue.lock.wait_behind(ra, before)?, Entry::Clean);
                queue.enter()?;
                queue.leave()
            }
            _ => {
                assert_eq!(queue.lock.recoverable_acquire(ra)?, Entry::Clean);
                queue.next()?;
                queue.turn(2)?;
                queue.lock.release(ra)?;
                queue.next()
            }
        }
    });
}
