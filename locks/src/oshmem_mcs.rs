//! The MCS mutex of Open MPI's OpenSHMEM: one word a rank, in which adds link, arm and wake in any order.
//!
//! # Paper
//! No paper: `shmem_set_lock` of Open MPI (`oshmem/shmem/c/shmem_lock.c`, NVIDIA, pull request 12003, 2023). It is the MCS lock
//! of J. M. Mellor-Crummey and M. L. Scott, ACM Transactions on Computer Systems 9(1), 1991, DOI 10.1145/103727.103729.
//!
//! # Properties
//! - Mutual exclusion; first come, first served, in the order of the swaps on `tail`.
//! - Every wait is on the waiter's own word: no rank polls a remote word.
//! - Nothing is posted, so the lock needs no flush.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with
//!   posted puts that arrive late: 3 ranks × 2, 4 × 1, and 4 × 2 of which two try. Its order, sequentially consistent:
//!   3 × 2. With data and bulk puts in any order: 2 × 2.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | nil, or the pointer of the last rank in the queue |
//! | next | node + 0 | 8 | each rank | the pointer of the successor, or nil; bit 63 (SIGNAL) while the rank waits, or was woken before it waits |
//!
//! # Invariants
//! - I1: `tail` is nil if and only if no rank holds the lock or waits for it.
//! - I2: from a rank's swap to its release, at most one rank adds its pointer to `next`: the successor.
//! - I3: SIGNAL is added twice in each acquisition with a predecessor, once by the waiter and once by the predecessor. The second
//!   addition carries out of the word, and SIGNAL is clear again, whichever of the two came first.
//! - I4: a holder's `next` has no SIGNAL. It is 0 after the release.
//!
//! # Memory ordering
//! All operations are complete when they return; nothing is posted.
//!
//! # Deviations from the source
//! - `next` is 0 at rest and nil is 0. In the source, nil is the largest rank, and the acquire resets `next` by a swap of the
//!   local word. Here the release subtracts the link that it has read.
//! - The home is a parameter. The source computes it from the local address of the lock, modulo the number of ranks. Where ranks
//!   map the lock at different addresses, they disagree about the home, and the lock excludes no rank.
//! - A try changes no local word. The source's `shmem_test_lock` resets `next` by a processor's store, which is not
//!   atomic with the adapter's operations on the same word.
//!
//! # Cost
//! Remote operations without contention: acquire 1 (swap), release 1 (compare-and-swap). With a predecessor: acquire 2
//! (swap, add); with a successor: release 1 (add), or 2 while the link is missing.

use rmalab_atomics::{Address, RemoteAtomics, Until, WORD};

use crate::qnode::{NIL, pointer, rank_of};
use crate::{Place, RawMutex, RawMutexTry, Result};

/// In `next`: the rank waits, or was woken before it waits. Twice this is 0.
const SIGNAL: u64 = 1 << 63;

/// One rank's handle of an oshmem MCS mutex.
#[derive(Debug)]
pub struct OshmemMcs {
    tail: Address,
    /// This rank's own.
    next: Address,
    /// The pointer to this rank.
    me: u64,
}

impl RawMutex for OshmemMcs {
    const NAME: &'static str = "oshmem-mcs";
    const WORDS: u64 = WORD;
    const NODE: u64 = WORD;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<OshmemMcs> {
        Ok(OshmemMcs { tail: place.word(0), next: ra.rank().at(place.node), me: pointer(ra.rank()) })
    }

    #[inline]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let pred = ra.fetch_store(self.tail, self.me)?;
        if pred != NIL {
            ra.fetch_add(rank_of(pred).at(self.next.disp), self.me)?;
            ra.fetch_add(self.next.unwatched(), SIGNAL)?;
            ra.wait_until(self.next.disp, Until::NoneSet(SIGNAL))?;
        }
        Ok(())
    }

    #[inline]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut succ = ra.get(self.next)?;
        if succ == NIL {
            if ra.compare_and_swap(self.tail, self.me, NIL)? == self.me {
                return Ok(());
            }
            // By I2 a rank has swapped itself in behind this rank, and its link is under way.
            succ = ra.wait_until(self.next.disp, Until::Ne(NIL))?;
        }
        ra.fetch_add(self.next.unwatched(), succ.wrapping_neg())?;
        ra.fetch_add(rank_of(succ).at(self.next.disp), SIGNAL)?;
        Ok(())
    }
}

impl RawMutexTry for OshmemMcs {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        Ok(ra.compare_and_swap(self.tail, NIL, self.me)? == NIL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::mutex::<OshmemMcs>(());
        suite::mutex_try::<OshmemMcs>(());
    }

    #[test]
    fn first_come_first_served() {
        suite::mutex_order::<OshmemMcs>((), |rank| (0, pointer(rank)));
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<OshmemMcs>(()), (1, 1));
    }
}
