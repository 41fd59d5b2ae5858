//! The robust ticket mutex: survivors skip the tickets of ranks that have failed.
//!
//! # Paper
//! The lock is [`ticket`](crate::ticket): J. M. Mellor-Crummey and M. L. Scott, "Algorithms for Scalable Synchronization on
//! Shared-Memory Multiprocessors", ACM Transactions on Computer Systems 9(1), 1991, DOI 10.1145/103727.103729, Algorithm 2.
//! The repair is new here. An announcement of an operation before it begins is the idea of `list_op_pending` of robust
//! futexes (Linux, `Documentation/locking/robust-futexes.rst`).
//!
//! # Properties
//! - Mutual exclusion among the ranks that live; first come, first served.
//! - The rank that is served after a skipped ticket gets `OwnerDead`, whether the ticket's rank was inside or only
//!   waited.
//! - Any number of ranks may fail, except for the rank with the lock's word on a backend where its memory ends with it. No
//!   rank reads the words of a failed rank.
//! - Waiters poll a remote word, less often the further away their turn is.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, livelocks included. Under sequential consistency and
//!   with posted puts that arrive late or are lost: 3 ranks × 1 acquisition with one failure at any step. Without failures: 3 × 2, and
//!   first come, first served. On request (`--long`), without livelocks: 3 × 2 with one failure, and 3 × 1 with two.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | lock | words + 0 | 8 | home | bits 63–33 next_ticket; bit 32: not recoverable; bit 31: the rank that is served next gets `OwnerDead`; bits 30–0 now_serving |
//! | announced | node | 8 | each rank | 0: outside; 1: it may take a ticket now, or was served at once; else twice its ticket plus 2 |
//!
//! # Invariants
//! - I1: `next_ticket` - `now_serving` (modulo 2^31) is the number of tickets that are held, including the tickets of failed
//!   ranks.
//! - I2: from the start of the addition that takes its ticket until that ticket is served and released, a live rank's word
//!   `announced` is 1 or names the ticket. A rank that is served at once leaves it at 1 until it has released.
//! - I3: the release of the live rank with the ticket `now_serving` advances `now_serving`. If no live rank has that ticket,
//!   a compare-and-swap of the whole word does. No value of the word comes back within 2^31 tickets, so the swap fails if
//!   anything has changed.
//! - I4: a rank that has silenced failed ranks takes its next ticket after all of theirs. Once that ticket is served, the rank
//!   looks for them no more.
//!
//! # Memory ordering
//! The announcement 1 is ordered ahead of the addition (I2). The announcements of the ticket and of the end are posted. If
//! they are late, a repair waits for them.
//!
//! # Deviations from the paper
//! As in [`ticket`](crate::ticket), both numbers are in one word. The word does not go back to 0: a repair compares it as a
//! whole (I3).
//!
//! # Cost
//! Remote operations without contention: acquire 1 (add), release 1 (add), as `ticket`. With contention: acquire 1 and the
//! polls, release 1. In addition, each acquire and release writes its own rank's word. A repair on p ranks adds a silence
//! and at most p − 1 for each skipped ticket. After a failure, each rank adds that to the polls of its next two waits.

use rmalab_atomics::{Address, Disp, Failed, Rank, RemoteAtomics, WORD};

use crate::error::at_least_one;
use crate::own::Own;
use crate::recoverable::{self, Entry, Recoverable};
use crate::ticket::TicketParams;
use crate::{Error, Place, RawMutex, Result, poll};

/// One ticket in `next_ticket`.
const TICKET: u64 = 1 << 33;
const NOT_RECOVERABLE: u64 = 1 << 32;
/// The rank that is served next gets `OwnerDead`: a rank may have failed inside.
const OWNER_DEAD: u64 = 1 << 31;
const SERVING: u64 = OWNER_DEAD - 1;

/// The announcement of a rank.
const OUTSIDE: u64 = 0;
const TAKES: u64 = 1;

/// One rank's handle of a robust ticket mutex.
#[derive(Debug)]
pub struct RobustTicket {
    lock: Address,
    announced: Disp,
    hold: u32,
    my_ticket: u64,
    /// The bit of the word that the release clears.
    told: u64,
    /// The failed ranks that this rank has silenced. They take no further ticket.
    silenced: Failed,
    /// The failed ranks whose tickets are all served: they were silenced ahead of a ticket of this rank that was served.
    passed: Failed,
}

/// `next_ticket` and `now_serving`.
fn split(lock: u64) -> (u64, u64) {
    (lock >> 33, lock & SERVING)
}

/// Returns the difference that serves the next ticket after `serving`.
fn next(serving: u64) -> u64 {
    // The overflow of the last number would set the bit beside it.
    if serving == SERVING { SERVING.wrapping_neg() } else { 1 }
}

fn announcement(ticket: u64) -> u64 {
    2 * ticket + 2
}

impl RawMutex for RobustTicket {
    const NAME: &'static str = "robust-ticket";
    const WORDS: u64 = WORD;
    const NODE: u64 = WORD;
    const RESTS_AT_ZERO: bool = false;
    type Params = TicketParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: TicketParams) -> Result<RobustTicket> {
        let size = ra.size();
        if u64::from(size) > SERVING {
            return Err(Error::TooManyRanks { lock: RobustTicket::NAME, size, limit: SERVING as u32 });
        }
        let hold = at_least_one(Self::NAME, "hold", params.hold)?;
        Ok(RobustTicket {
            lock: place.word(0).unwatched(),
            announced: place.node,
            hold,
            my_ticket: 0,
            told: 0,
            silenced: Failed::default(),
            passed: Failed::default(),
        })
    }

    #[inline(always)]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        recoverable::refused(ra, self.enter(ra, false)?)
    }

    #[inline(always)]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let own = self.own(ra);
        ra.fetch_add(self.lock.unwatched(), next(self.my_ticket).wrapping_sub(self.told))?;
        own.post(0, OUTSIDE)
    }
}

impl Recoverable for RobustTicket {
    #[inline]
    fn recoverable_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.enter(ra, true)
    }

    fn release_unrecovered<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.lock, NOT_RECOVERABLE)?;
        self.own(ra).post(0, OUTSIDE)
    }
}

impl RobustTicket {
    /// The announcement of this rank.
    #[inline(always)]
    fn own<'a, A: RemoteAtomics + ?Sized>(&self, ra: &'a A) -> Own<'a, A, 1> {
        Own::new(ra, self.announced)
    }

    #[inline(always)]
    fn enter<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, recovers: bool) -> Result<Entry> {
        let own = self.own(ra);
        own.post(0, TAKES)?;
        own.order()?;
        // `bind` has made it unwatched. Here the compiler knows that, and leaves the look at a parked owner out.
        let lock = ra.fetch_add(self.lock.unwatched(), TICKET)?;
        let (next_ticket, now_serving) = split(lock);
        self.my_ticket = next_ticket;
        if lock & (NOT_RECOVERABLE | OWNER_DEAD) == 0 && now_serving == next_ticket {
            // The next locked instruction would wait for a store.
            if self.told != 0 {
                self.told = 0;
            }
            return Ok(Entry::Clean);
        }
        recoverable::by_value(self.wait_for_turn(ra, lock, recovers))
    }

    #[cold]
    #[inline(never)]
    fn wait_for_turn<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, mut lock: u64, recovers: bool) -> Result<Entry> {
        self.own(ra).post(0, announcement(self.my_ticket))?;
        let silenced_before = self.silenced.clone();
        loop {
            if lock & NOT_RECOVERABLE != 0 {
                self.own(ra).post(0, OUTSIDE)?;
                return Err(Error::NotRecoverable { lock: RobustTicket::NAME });
            }
            let now_serving = lock & SERVING;
            if now_serving == self.my_ticket {
                self.passed = silenced_before;
                self.told = lock & OWNER_DEAD;
                if self.told == 0 {
                    return Ok(Entry::Clean);
                }
                // Another rank may have found the failure, and served this one.
                return Ok(Entry::OwnerDead(recoverable::acknowledged(ra)?));
            }
            let distance = self.distance(now_serving);
            let is_turn = |lock| lock & NOT_RECOVERABLE != 0 || lock & SERVING == self.my_ticket;
            if distance == 1
                && let Some(turn) = poll::spin(ra, self.lock, is_turn)
            {
                lock = turn;
                continue;
            }
            let pause = ra.pause((distance as u32).saturating_mul(self.hold));
            if recovers {
                recoverable::interruptible(pause.map_err(Error::from))?;
                let failed = recoverable::acknowledged(ra)?;
                if failed != self.passed {
                    self.skip(ra, lock, failed)?;
                }
            } else {
                pause?;
            }
            lock = ra.get(self.lock)?;
        }
    }

    /// Returns the number of ranks ahead of this one.
    fn distance(&self, now_serving: u64) -> u64 {
        self.my_ticket.wrapping_sub(now_serving) & SERVING
    }

    /// Serves the next ticket if the ticket that is served in `lock` belongs to no live rank. That ticket is not this
    /// rank's.
    fn skip<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, lock: u64, failed: Failed) -> Result<()> {
        ra.silence(&failed)?;
        self.silenced = failed;
        let serving = lock & SERVING;
        let others = (0..ra.size()).map(Rank).filter(|&rank| rank != ra.rank() && !self.silenced.contains(rank));
        for rank in others {
            let Some(announced) = recoverable::unless_lost(ra.get(rank.at(self.announced).unwatched()))? else {
                // It has failed meanwhile. The next turn goes without it.
                return Ok(());
            };
            // By I2, a live rank with that ticket announces it, or has released it since, and then the swap fails.
            if announced == TAKES || announced == announcement(serving) {
                return Ok(());
            }
        }
        ra.compare_and_swap(self.lock, lock, lock.wrapping_add(next(serving)) | OWNER_DEAD)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::World;

    use super::*;
    use crate::{Ticket, suite};

    #[test]
    fn conforms() {
        suite::mutex::<RobustTicket>(TicketParams::default());
        suite::recoverable::<RobustTicket>(TicketParams::default());
    }

    #[test]
    fn first_come_first_served() {
        suite::mutex_order::<RobustTicket>(TicketParams::default(), |rank| (0, (u64::from(rank.0) + 1) * TICKET));
    }

    #[test]
    fn costs_what_ticket_costs() {
        let params = TicketParams::default();
        assert_eq!(suite::mutex_cost::<RobustTicket>(params), suite::mutex_cost::<Ticket>(params));
        assert_eq!(suite::recoverable_cost::<RobustTicket>(params), (1, 1));
    }

    #[test]
    fn numbers_wrap() {
        World::threads(3)
            .run(|ra| {
                let place = Place::alloc(ra, Rank(0), RobustTicket::WORDS, RobustTicket::NODE).unwrap();
                let sum = Rank(0).at(ra.heap().alloc(2 * WORD, WORD).unwrap());
                let mut lock = RobustTicket::bind(ra, place, TicketParams::default()).unwrap();
                let word = place.home.at(place.words);
                if ra.rank() == Rank(0) {
                    // Held, with the ticket 2^31 - 2, until the others wait.
                    lock.my_ticket = SERVING - 1;
                    ra.compare_and_swap(word, 0, (SERVING * TICKET) | (SERVING - 1)).unwrap();
                    suite::poll(ra, word, |word| split(word).0 == 1).unwrap();
                } else {
                    suite::poll(ra, word, |word| word != 0).unwrap();
                    lock.acquire(ra).unwrap();
                    // The last two tickets are 2^31 - 1 and 0.
                    assert_eq!((lock.my_ticket + 1) & SERVING, ra.fetch_add(sum, 1).unwrap());
                }
                lock.release(ra).unwrap();
                suite::poll(ra, word, |word| word == TICKET | 1).unwrap();
            })
            .unwrap();
    }

    /// Another rank has served the ticket of rank 1. So it is rank 0's turn at once, and rank 0 has not looked for failures before.
    #[test]
    fn owner_dead_acknowledges_the_failure() {
        suite::with_deaths(2, |ra| {
            let place = Place::alloc(ra, Rank(0), RobustTicket::WORDS, RobustTicket::NODE)?;
            let mut lock = RobustTicket::bind(ra, place, TicketParams::default())?;
            if ra.rank() == Rank(1) {
                suite::die();
            }
            while ra.failed()?.is_empty() {
                std::thread::yield_now();
            }
            ra.compare_and_swap(lock.lock, 0, TICKET | OWNER_DEAD | 1)?;
            assert_eq!(lock.recoverable_acquire(ra)?, Entry::OwnerDead(Failed::from_iter([Rank(1)])));
            // The failure ends no pause any more.
            ra.pause(1)?;
            lock.release(ra)
        });
    }

    #[test]
    fn a_lock_that_is_not_recoverable_stays_so_when_numbers_wrap() {
        let world = World::threads(1).run(|ra| {
            let place = Place::alloc(ra, Rank(0), RobustTicket::WORDS, RobustTicket::NODE).unwrap();
            let mut lock = RobustTicket::bind(ra, place, TicketParams::default()).unwrap();
            // As after 2^31 acquisitions that were refused.
            ra.compare_and_swap(place.home.at(place.words), 0, (5 * TICKET) | NOT_RECOVERABLE | 5).unwrap();
            let refused = lock.recoverable_acquire(ra);
            assert!(matches!(refused, Err(Error::NotRecoverable { .. })), "{refused:?}");
        });
        world.unwrap();
    }
}
