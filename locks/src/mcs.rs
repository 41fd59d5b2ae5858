//! The MCS mutex: a queue of ranks, each of which waits on a word in its own segment.
//!
//! # Paper
//! J. M. Mellor-Crummey and M. L. Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors",
//! ACM Transactions on Computer Systems 9(1), 1991, DOI 10.1145/103727.103729, Algorithm 5. Its form over network atomics is
//! the D-MCS of P. Schmid, M. Besta, T. Hoefler, "High-Performance Distributed RMA Locks", HPDC'16, DOI
//! 10.1145/2907294.2907323.
//!
//! # Properties
//! - Mutual exclusion; first come, first served, in the order of the swaps on `tail`.
//! - Every wait is on the waiter's own node: no rank polls a remote word.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with
//!   posted puts that arrive late: 3 ranks × 2 and 5 × 1. Its order, sequentially consistent: 3 × 2. With data and bulk
//!   puts in any order: 2 × 2. Loom has checked it, too: 3 × 1.
//! - Spin has checked a model of these steps (verify/spin) exhaustively. Under sequential consistency: 4 ranks × 2 and 5 ×
//!   1 acquisitions. With posted puts that arrive late (in order to each target): 3 × 3. Checked properties: mutual
//!   exclusion, no deadlock, all words zero at rest.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | nil, or the pointer of the last rank in the queue |
//! | next, unblocked | node | 8 each | each rank | see [`crate::qnode`] |
//!
//! ```text
//!   tail ────────────────────────────┐
//!   rank 4 (holds) ──next──▶ rank 0 ──next──▶ rank 7 ──▶ nil
//! ```
//!
//! # Invariants
//! - I1: `tail` is nil if and only if no rank holds the lock or waits for it.
//! - I2: the ranks from the holder on form one list, whose last rank is `tail`. A link is missing only between a rank's swap
//!   and the arrival of its put to the predecessor's `next`.
//! - I3: only the holder unblocks a rank, and it unblocks only its successor.
//!
//! # Memory ordering
//! The swap on `tail` orders the queue. Links and wake-ups are posted puts; [`crate::qnode`] explains why none of them
//! can arrive too late. All operations that the holder completed before the release are complete before it issues the
//! wake-up.
//!
//! # Deviations from the paper
//! The flag is inverted ([`crate::qnode`]). The release that has read `next` resets it, instead of the next acquire. So an
//! acquire without contention is only its swap.
//!
//! # Cost
//! Remote operations without contention: acquire 1 (swap), release 1 (compare-and-swap). With a predecessor: acquire 2
//! (swap, put); with a successor: release 1 (put), or 2 while the link is missing.

use rmalab_atomics::{Address, RemoteAtomics, WORD};

use crate::qnode::{NIL, Qnode, pointer};
use crate::{Place, RawMutex, RawMutexTry, Result};

/// One rank's handle of an MCS mutex.
#[derive(Debug)]
pub struct Mcs {
    tail: Address,
    node: Qnode,
    /// The pointer to this rank.
    me: u64,
}

impl RawMutex for Mcs {
    const NAME: &'static str = "mcs";
    const WORDS: u64 = WORD;
    const NODE: u64 = Qnode::BYTES;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<Mcs> {
        Ok(Mcs { tail: place.word(0), node: Qnode::new(place.node), me: pointer(ra.rank()) })
    }

    #[inline(always)]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.node.prepare(ra)?;
        match ra.fetch_store(self.tail, self.me)? {
            NIL => Ok(()),
            pred => self.wait_behind(ra, pred),
        }
    }

    #[inline(always)]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let next = self.node.next(ra)?;
        if next == NIL && ra.compare_and_swap(self.tail, self.me, NIL)? == self.me {
            return Ok(());
        }
        self.hand_over(ra, next)
    }
}

// Waits and wake-ups are out of line, so that an acquisition without contention is small enough to be inlined.
impl Mcs {
    #[inline(never)]
    fn wait_behind<A: RemoteAtomics + ?Sized>(&self, ra: &A, pred: u64) -> Result<()> {
        self.node.link(ra, pred, self.me)?;
        self.node.wait(ra)
    }

    #[inline(never)]
    fn hand_over<A: RemoteAtomics + ?Sized>(&self, ra: &A, mut next: u64) -> Result<()> {
        if next == NIL {
            // By I2 another rank has swapped itself in behind this rank, and its link is under way.
            next = self.node.wait_next(ra)?;
        }
        self.node.unblock(ra, next)?;
        self.node.forget_next(ra)
    }
}

impl RawMutexTry for Mcs {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        self.node.prepare(ra)?;
        Ok(ra.compare_and_swap(self.tail, NIL, self.me)? == NIL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::mutex::<Mcs>(());
        suite::mutex_try::<Mcs>(());
    }

    #[test]
    fn first_come_first_served() {
        suite::mutex_order::<Mcs>((), |rank| (0, pointer(rank)));
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Mcs>(()), (1, 1));
    }
}
