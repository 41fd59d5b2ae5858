//! The MCS mutex of mpi4py: like MCS, except that a release always tries to empty the queue first.
//!
//! # Paper
//! No paper: the class `Mutex` of mpi4py (`src/mpi4py/util/sync.py`, L. Dalcin), over accumulates of an MPI window. It is the MCS lock of
//! J. M. Mellor-Crummey and M. L. Scott, ACM Transactions on Computer Systems 9(1), 1991, DOI 10.1145/103727.103729.
//!
//! # Properties
//! - Mutual exclusion; first come, first served, in the order of the swaps on `tail`.
//! - Every wait is on the waiter's own node: no rank polls a remote word.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with
//!   posted puts that arrive late: 3 ranks × 2, 4 × 1, and 4 × 2 of which two try. Its order, sequentially consistent:
//!   3 × 2. With data and bulk puts in any order: 2 × 2.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | nil, or the pointer of the last rank in the queue |
//! | next, unblocked | node | 8 each | each rank | see [`crate::qnode`] |
//!
//! # Invariants
//! The invariants of [`crate::mcs`].
//!
//! # Memory ordering
//! As in [`crate::mcs`]: links and wake-ups are posted puts, and a rank orders the resets of its own words ahead of its swap of the tail.
//!
//! # Deviations from the source
//! - The source resets `next` at the start of an acquire, by an accumulate that it does not flush before it swaps the tail. The two have
//!   different targets, so the reset may arrive last, and erase the link of the successor. Then the releasing rank waits for a link
//!   forever: the mutant `mpi4py-unflushed-reset`, 2 ranks × 1 with late puts. Here the release that has read `next` resets it, and the
//!   next acquire orders that ahead of its swap.
//! - The source does not flush the link before it waits, either. MPI guarantees that an accumulate is complete at its origin's next flush
//!   or unlock. The origin neither flushes nor unlocks that target until it has the lock. Here a posted put arrives by itself, so no flush
//!   is needed. No search can show that defect, since it depends on the progress of an MPI.
//! - The home is a parameter; in the source it is rank 0. A waiting rank waits for its word; the source polls its window, and sleeps in
//!   between for up to a millisecond.
//! - Left out: the source's word that remembers whether this rank holds the lock, and how many times (for `locked` and
//!   recursion).
//!
//! # Cost
//! Remote operations without contention: acquire 1 (swap), release 1 (compare-and-swap). With a predecessor: acquire 2 (swap,
//! put); with a successor: release 2 (compare-and-swap, put).

use rmalab_atomics::{Address, RemoteAtomics, WORD};

use crate::qnode::{NIL, Qnode, pointer};
use crate::{Place, RawMutex, RawMutexTry, Result};

/// One rank's handle of an mpi4py mutex.
#[derive(Debug)]
pub struct Mpi4pyMcs {
    tail: Address,
    node: Qnode,
    /// The pointer to this rank.
    me: u64,
}

impl RawMutex for Mpi4pyMcs {
    const NAME: &'static str = "mpi4py-mcs";
    const WORDS: u64 = WORD;
    const NODE: u64 = Qnode::BYTES;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<Mpi4pyMcs> {
        Ok(Mpi4pyMcs { tail: place.word(0), node: Qnode::new(place.node), me: pointer(ra.rank()) })
    }

    #[inline]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.node.prepare(ra)?;
        let prev = ra.fetch_store(self.tail, self.me)?;
        if prev != NIL {
            self.node.link(ra, prev, self.me)?;
            self.node.wait(ra)?;
        }
        Ok(())
    }

    #[inline]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if ra.compare_and_swap(self.tail, self.me, NIL)? == self.me {
            return Ok(());
        }
        let next = self.node.wait_next(ra)?;
        self.node.unblock(ra, next)?;
        self.node.forget_next(ra)
    }
}

impl RawMutexTry for Mpi4pyMcs {
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
        suite::mutex::<Mpi4pyMcs>(());
        suite::mutex_try::<Mpi4pyMcs>(());
    }

    #[test]
    fn first_come_first_served() {
        suite::mutex_order::<Mpi4pyMcs>((), |rank| (0, pointer(rank)));
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Mpi4pyMcs>(()), (1, 1));
    }
}
