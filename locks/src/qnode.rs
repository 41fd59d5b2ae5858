//! The queue node of the MCS locks: two words in each rank's segment, and the steps that all these locks take on them.
//!
//! # State
//! | word | at | home | values |
//! | --- | --- | --- | --- |
//! | next | node + 0 | each rank | nil, or the pointer of the successor |
//! | unblocked | node + 8 | each rank | 0, or 1 from the wake-up until its rank has seen it |
//!
//! A pointer is a rank plus one, so nil is 0. A lock may use the bits from 32 on for itself.
//!
//! # Invariants
//! - I1: a node that is in no queue is all zero once its rank has called [`prepare`](Qnode::prepare) and makes its next put or atomic.
//! - I2: while a node is in a queue, at most one other rank writes each of its words, and only once: the successor writes `next`, and one
//!   waker writes `unblocked`.
//! - I3: a rank's node leaves the queue only when no write to it is outstanding. The rank has seen `unblocked` if it had to wait, and `next`
//!   if it has a successor.
//!
//! # Memory ordering
//! The puts of `next` and `unblocked` are posted. Only the rank that waits for them depends on when they arrive, and by I3 none arrives at
//! a node that is in use again. A rank also posts the resets of its node. [`prepare`](Qnode::prepare) orders them ahead of the atomic that
//! publishes the node again; a late reset could erase a link or a wake-up.
//!
//! # Deviation from the papers
//! The papers have the flag `blocked`. A rank sets it before it publishes its node, and the waker clears it. Here the flag is inverted, and
//! the rank resets it after the wait. So a rank that need not wait never writes its node. On a network whose atomics are not atomic with
//! the processor's (`IBV_ATOMIC_HCA`), that saves a trip through the rank's adapter.

use rmalab_atomics::{Disp, Rank, RemoteAtomics, Until, WORD};

use crate::Result;

/// No rank.
pub const NIL: u64 = 0;

/// Returns the pointer to the node of `rank`.
pub fn pointer(rank: Rank) -> u64 {
    u64::from(rank.0) + 1
}

/// Returns the rank that `pointer` points to.
///
/// # Panics
///
/// If it is nil: a lock that follows nil has broken its invariants.
pub fn rank_of(pointer: u64) -> Rank {
    let plus_one = pointer as u32;
    assert!(plus_one != 0, "a lock followed nil ({pointer:#x}), against its invariants");
    Rank(plus_one - 1)
}

/// This rank's queue node of one lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Qnode {
    next: Disp,
    unblocked: Disp,
}

impl Qnode {
    /// The bytes of a node. Additional words of a lock start there.
    pub const BYTES: u64 = 2 * WORD;

    /// Makes the node that starts at `node` in every segment.
    pub fn new(node: Disp) -> Qnode {
        Qnode { next: node, unblocked: node.word(1) }
    }

    /// Orders the resets of the last acquisition ahead of the atomic that publishes the node again (I1).
    #[inline]
    pub fn prepare<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<()> {
        Ok(ra.order(ra.rank())?)
    }

    /// Waits until this rank is unblocked, and resets its flag.
    #[inline]
    pub fn wait<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<()> {
        ra.wait_until(self.unblocked, Until::Ne(0))?;
        Ok(ra.put(ra.rank().at(self.unblocked), 0)?)
    }

    /// Unblocks the rank that `waiter` points to.
    #[inline]
    pub fn unblock<A: RemoteAtomics + ?Sized>(self, ra: &A, waiter: u64) -> Result<()> {
        Ok(ra.put(rank_of(waiter).at(self.unblocked), 1)?)
    }

    /// `pred.next := link`.
    #[inline]
    pub fn link<A: RemoteAtomics + ?Sized>(self, ra: &A, pred: u64, link: u64) -> Result<()> {
        Ok(ra.put(rank_of(pred).at(self.next), link)?)
    }

    /// Returns the link to the successor, or nil while there is none.
    #[inline]
    pub fn next<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<u64> {
        Ok(ra.get(ra.rank().at(self.next))?)
    }

    /// Waits for the link to the successor, which has announced itself elsewhere.
    #[inline]
    pub fn wait_next<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<u64> {
        Ok(ra.wait_until(self.next, Until::Ne(NIL))?)
    }

    /// Forgets the successor, once its link has been read.
    #[inline]
    pub fn forget_next<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<()> {
        Ok(ra.put(ra.rank().at(self.next), NIL)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_ranks_and_never_nil() {
        for rank in [0, 1, 77, u32::MAX - 1] {
            assert_ne!(pointer(Rank(rank)), NIL);
            assert_eq!(rank_of(pointer(Rank(rank)) | 5 << 32), Rank(rank));
        }
    }

    #[test]
    #[should_panic(expected = "a lock followed nil")]
    fn nil_is_not_followed() {
        let _ = rank_of(NIL);
    }
}
