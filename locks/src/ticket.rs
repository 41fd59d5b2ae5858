//! The ticket mutex: a dispenser and a display in one word, polled with proportional backoff.
//!
//! # Paper
//! J. M. Mellor-Crummey and M. L. Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors",
//! ACM Transactions on Computer Systems 9(1), 1991, DOI 10.1145/103727.103729, Algorithm 2, whose names are used here.
//!
//! # Properties
//! - Mutual exclusion; first come, first served, in the order of the additions that take tickets.
//! - Waiters poll a remote word, less often the further away their turn is. (In [`clh`](crate::clh) they poll words of
//!   their predecessors instead.)
//! - A rank cannot give a ticket back, so there is a try, but no deadline.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively: 4 ranks × 2 acquisitions, first come,
//!   first served and no livelock included. With data and bulk puts in any order: 2 × 2.
//! - Spin has checked a model of these steps (verify/spin) exhaustively. In the model, polls block and numbers wrap at 4.
//!   Under sequential consistency, with tries: 3 ranks × 5 and 4 × 2 acquisitions. Checked properties: mutual exclusion,
//!   no deadlock, zero at rest.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | lock | words + 0 | 8 | home | bits 63–32 next_ticket, bits 31–0 now_serving; 0 whenever the lock is free |
//!
//! # Invariants
//! - I1: `next_ticket` - `now_serving` (modulo 2^32) is the number of ranks that hold a ticket, the holder of the lock
//!   included. It is at most the number of ranks, so no two ranks hold the same ticket.
//! - I2: the rank whose ticket is `now_serving` holds the lock, and only this rank changes `now_serving`.
//! - I3: the word goes back to 0 only when no rank but the releasing one holds a ticket.
//!
//! # Memory ordering
//! All operations are complete when they return; nothing is posted.
//!
//! # Deviations from the paper
//! - Both numbers are in one word, so the addition that takes a ticket also returns whose turn it is. `next_ticket` is the
//!   upper half, where its overflow is lost. The overflow of `now_serving` would carry into it. The rank that causes the
//!   carry subtracts it in the same addition.
//! - A free lock is 0, the trait's state at rest. A release after which no rank waits swaps the word to 0. A rank that has
//!   seen a ticket after its own knows that a rank waits, and adds at once.
//!
//! # Cost
//! Remote operations without contention: acquire 1 (add), release 1 (compare-and-swap). With contention: acquire 1 and
//! the polls, release 1 (add), or 2 for a rank that has not seen a later ticket.

use rmalab_atomics::{Address, RemoteAtomics, WORD};

use crate::error::at_least_one;
use crate::{Place, RawMutex, RawMutexTry, Result, poll};

/// One ticket in `next_ticket`.
const TICKET: u64 = 1 << 32;

/// The parameter of proportional backoff.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TicketParams {
    /// The pause of a waiter for each rank ahead of it, in uncontended word operations (see [`RemoteAtomics::pause`]).
    /// It is the shortest time for which a rank holds the lock. At least 1.
    pub hold: u32,
}

impl Default for TicketParams {
    /// An empty critical section on a network: the poll that sees the turn, and the release.
    fn default() -> TicketParams {
        TicketParams { hold: 2 }
    }
}

/// One rank's handle of a ticket mutex.
#[derive(Debug)]
pub struct Ticket {
    lock: Address,
    hold: u32,
    my_ticket: u32,
    /// This rank knows that another rank holds the next ticket.
    followed: bool,
}

/// `next_ticket` and `now_serving`.
fn split(lock: u64) -> (u32, u32) {
    ((lock >> 32) as u32, lock as u32)
}

impl RawMutex for Ticket {
    const NAME: &'static str = "ticket";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = TicketParams;

    fn bind<A: RemoteAtomics + ?Sized>(_ra: &A, place: Place, params: TicketParams) -> Result<Ticket> {
        // 2^32 tickets are enough for any number of ranks.
        Ok(Ticket {
            lock: place.word(0).unwatched(),
            hold: at_least_one(Self::NAME, "hold", params.hold)?,
            my_ticket: 0,
            followed: false,
        })
    }

    #[inline(always)]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let (next_ticket, now_serving) = split(ra.fetch_add(self.lock, TICKET)?);
        self.my_ticket = next_ticket;
        if now_serving != next_ticket {
            return self.wait_for_turn(ra, now_serving);
        }
        self.followed = false;
        Ok(())
    }

    #[inline(always)]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if !self.followed {
            let alone = u64::from(self.my_ticket.wrapping_add(1)) << 32 | u64::from(self.my_ticket);
            if ra.compare_and_swap(self.lock, alone, 0)? == alone {
                return Ok(());
            }
        }
        let carry = if self.my_ticket == u32::MAX { TICKET } else { 0 };
        ra.fetch_add(self.lock, 1u64.wrapping_sub(carry))?;
        Ok(())
    }
}

impl Ticket {
    #[cold]
    #[inline(never)]
    fn wait_for_turn<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, mut now_serving: u32) -> Result<()> {
        loop {
            let distance = self.my_ticket.wrapping_sub(now_serving);
            let is_turn = |lock| split(lock).1 == self.my_ticket;
            let lock = match (distance == 1).then(|| poll::spin(ra, self.lock, is_turn)).flatten() {
                Some(lock) => lock,
                None => {
                    ra.pause(distance.saturating_mul(self.hold))?;
                    ra.get(self.lock)?
                }
            };
            let next_ticket;
            (next_ticket, now_serving) = split(lock);
            if now_serving == self.my_ticket {
                self.followed = next_ticket != self.my_ticket.wrapping_add(1);
                return Ok(());
            }
        }
    }
}

impl RawMutexTry for Ticket {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        if ra.compare_and_swap(self.lock, 0, TICKET)? != 0 {
            return Ok(false);
        }
        self.my_ticket = 0;
        self.followed = false;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::{Rank, World};

    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::mutex::<Ticket>(TicketParams::default());
        suite::mutex_try::<Ticket>(TicketParams::default());
    }

    #[test]
    fn first_come_first_served() {
        suite::mutex_order::<Ticket>(TicketParams::default(), |rank| (0, (u64::from(rank.0) + 1) * TICKET));
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Ticket>(TicketParams::default()), (1, 1));
    }

    #[test]
    fn numbers_wrap() {
        World::threads(3)
            .run(|ra| {
                let place = Place::alloc(ra, Rank(0), Ticket::WORDS, Ticket::NODE).unwrap();
                let sum = Rank(0).at(ra.heap().alloc(2 * WORD, WORD).unwrap());
                let mut lock = Ticket::bind(ra, place, TicketParams::default()).unwrap();
                let word = place.home.at(place.words);
                if ra.rank() == Rank(0) {
                    // Held, with the ticket 2^32 - 2, until the others wait: the word does not return to 0 in between.
                    lock.my_ticket = u32::MAX - 1;
                    ra.compare_and_swap(word, 0, u64::from(u32::MAX) << 32 | u64::from(u32::MAX - 1)).unwrap();
                    suite::poll(ra, word, |word| split(word).0 == 1).unwrap();
                } else {
                    suite::poll(ra, word, |word| word != 0).unwrap();
                    lock.acquire(ra).unwrap();
                    // The last two tickets are 2^32 - 1 and 0.
                    assert_eq!(u64::from(lock.my_ticket.wrapping_add(1)), ra.fetch_add(sum, 1).unwrap());
                }
                lock.release(ra).unwrap();
                suite::poll(ra, word, |word| word == 0).unwrap();
            })
            .unwrap();
    }
}
