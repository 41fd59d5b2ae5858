//! The reciprocating mutex: arrivals stack up on one word. A holder takes the whole stack, which is served last-in
//! first-out.
//!
//! # Paper
//! D. Dice and A. Kogan, "Reciprocating Locks", PPoPP 2025, DOI 10.1145/3710848.3710862 (arXiv 2501.02380).
//!
//! # Properties
//! - Mutual exclusion. Ranks that arrive while a *segment* of earlier arrivals is served form the next segment. A segment is
//!   served last-in first-out. So another rank overtakes a waiter at most once, and no rank starves.
//! - Every wait is on the waiter's own word. No rank writes a link: each waiter knows its successor from its own swap.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with
//!   posted puts that arrive late: 3 ranks × 2, 4 × 1, and 4 × 2 of which two try. With data and bulk puts in any
//!   order: 2 × 2.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | arrivals | words + 0 | 8 | home | 0: free; HELD: held, and no rank has arrived since; else the pointer of the last arrival |
//! | gate | node + 0 | 8 | each rank | 0, or the end of the segment (HELD or a pointer), from the wake-up until its rank has seen it |
//!
//! A holder remembers two values between acquire and release: `succ`, the rank that it wakes, and `eos`, the end of its segment.
//!
//! ```text
//!   arrivals ──▶ rank 5 ─▶ rank 3 ─▶ (rank 1: eos)     the next segment: 5 first, 3 last
//!   rank 2 (holds) ──succ──▶ rank 7 ──succ──▶ rank 0   the segment that is served; rank 0 finds its succ equal to eos
//! ```
//!
//! # Invariants
//! - I1: `arrivals` is 0 if and only if no rank holds the lock or waits for it.
//! - I2: a rank that finds `arrivals` at 0 or HELD has no successor. Otherwise its successor is the rank that it finds there.
//! - I3: the rank at the bottom of a segment has found one of two values on `arrivals`: HELD, from the holder that took the last
//!   segment, or the pointer of the rank that found the lock free. That value is `eos`, and each holder of the segment passes it
//!   on. A rank that finds its own tail equal to `eos` is the last of its segment.
//! - I4: a rank writes `gate` of another rank only to wake it, once for each of its waits.
//!
//! # Memory ordering
//! The swap on `arrivals` orders the stack. Wake-ups are posted puts. A rank resets its gate by a posted put, and orders it
//! ahead of its next swap of `arrivals`: a late reset could erase a wake-up.
//!
//! # Deviations from the paper
//! - The paper's waiting elements are addresses of one element for each thread, and the value 1 marks a held lock. Here they are
//!   pointers to ranks, and HELD is a bit beside them.
//! - A rank resets its gate after the wait instead of before its arrival, so an acquire without contention is only its swap.
//!
//! # Cost
//! Remote operations without contention: acquire 1 (swap), release 1 (compare-and-swap). With contention: acquire 1, release 1
//! (put), and at the end of a segment 3 (compare-and-swap, swap, put).

use rmalab_atomics::{Address, Disp, RemoteAtomics, Until, WORD};

use crate::qnode::{NIL, pointer, rank_of};
use crate::{Place, RawMutex, RawMutexTry, Result};

/// In `arrivals` and `gate`, instead of a pointer: the lock is held, and no rank has arrived.
const HELD: u64 = 1 << 32;

/// One rank's handle of a reciprocating mutex.
#[derive(Debug)]
pub struct Reciprocating {
    arrivals: Address,
    gate: Disp,
    /// The pointer to this rank.
    me: u64,
    /// The next rank of the segment, or nil for the last one.
    succ: u64,
    /// The value at the bottom of the next segment (I3).
    eos: u64,
}

impl RawMutex for Reciprocating {
    const NAME: &'static str = "reciprocating";
    const WORDS: u64 = WORD;
    const NODE: u64 = WORD;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<Reciprocating> {
        let me = pointer(ra.rank());
        Ok(Reciprocating { arrivals: place.word(0), gate: place.node, me, succ: NIL, eos: NIL })
    }

    #[inline]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        (self.succ, self.eos) = (NIL, self.me);
        let tail = ra.fetch_store(self.arrivals, self.me)?;
        if tail == NIL {
            return Ok(());
        }
        self.wait(ra, tail)
    }

    #[inline]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.succ != NIL {
            return self.wake(ra, self.succ);
        }
        if ra.compare_and_swap(self.arrivals, self.eos, NIL)? == self.eos {
            return Ok(());
        }
        // Other ranks have arrived: takes all of them.
        let first = ra.fetch_store(self.arrivals, HELD)?;
        self.wake(ra, first)
    }
}

impl Reciprocating {
    /// Waits as a rank that has arrived after `tail`.
    #[inline]
    fn wait<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, tail: u64) -> Result<()> {
        self.eos = ra.wait_until(self.gate, Until::Ne(0))?;
        ra.put(ra.rank().at(self.gate).unwatched(), 0)?;
        // I3: the end of the segment is no successor, and the next segment begins on HELD.
        if tail != HELD && tail != self.eos {
            self.succ = tail;
        } else {
            self.eos = HELD;
        }
        Ok(())
    }

    /// Passes the lock to `next`, with the end of its segment.
    #[inline]
    fn wake<A: RemoteAtomics + ?Sized>(&self, ra: &A, next: u64) -> Result<()> {
        Ok(ra.put(rank_of(next).at(self.gate), self.eos)?)
    }
}

impl RawMutexTry for Reciprocating {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        // As in acquire: another rank may wake this rank right after its next arrival.
        ra.order(ra.rank())?;
        (self.succ, self.eos) = (NIL, self.me);
        Ok(ra.compare_and_swap(self.arrivals, NIL, self.me)? == NIL)
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::Rank;

    use super::*;
    use crate::{Exclusive, RawRwLock, suite};

    #[test]
    fn conforms() {
        suite::mutex::<Reciprocating>(());
        suite::mutex_try::<Reciprocating>(());
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Reciprocating>(()), (1, 1));
    }

    #[test]
    fn a_segment_is_served_last_in_first() {
        // Rank 0 holds the lock until the others have arrived, in the order of their numbers.
        suite::scenario::<Exclusive<Reciprocating>>(5, (), |ra, mut lock, place, order| {
            let arrived = |rank| suite::poll(ra, place.word(0), |arrivals| arrivals == pointer(Rank(rank)));
            let rank = ra.rank().0;
            if rank > 0 {
                arrived(rank - 1)?;
            }
            lock.acquire_write(ra)?;
            if rank == 0 {
                arrived(4)?;
            }
            assert_eq!(ra.fetch_add(order, 1)?, u64::from((5 - rank) % 5), "the order of service");
            lock.release_write(ra)
        });
    }
}
