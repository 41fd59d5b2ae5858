//! Concurrency restriction of a reader-writer lock: one rank of a node at a time (or a few) competes for it.
//!
//! # Paper
//! The paper of [`crate::gcr`], which has the protocol, its words and its invariants. The paper restricts mutexes.
//!
//! # Properties
//! - The inner lock, by default [`crate::mcs_rw_neutral`], provides exclusion, and the order among the active ranks.
//! - A writer is active until it has released, a reader only until it is inside. So any number of readers can be inside together.
//!   A reader may wait inside for other readers, as long as no writer is active.
//! - A passive reader waits although the inner lock might admit it. So reader preference of an inner lock holds only among active ranks.
//! - No rank starves, if none starves under the inner lock. Every wait is on the waiter's own memory.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, around mcs-rw-neutral. Under sequential consistency
//!   and with posted puts that arrive late, with one active rank and with two: 1R+1W×2, 2R+1W×1 and 1R+2W×1 on one node, and on request
//!   (`--long`) 2R+1W×2 and 1R+2W×2 on nodes of two. With data and bulk puts in any order: 1R+1W×1.
//!
//! # State
//! The words of the inner lock, and the words of [`crate::gcr`].
//!
//! # Invariants
//! - I1: the invariants of [`crate::gcr`], where a reader leaves once it is inside.
//! - I2: a passive rank waits for active ranks only. An active reader waits for ranks that compete for or hold the inner lock.
//!
//! # Memory ordering
//! The memory ordering of [`crate::gcr`].
//!
//! # Deviations from the paper
//! The deviations of [`crate::gcr`]. In addition, readers stop being active when they are inside.
//!
//! # Cost
//! Remote operations without contention: the first rank of a node has the operations of the inner lock (mcs-rw-neutral: reader 2 /
//! 3, writer 2 / 1). Other ranks of the node need 2 more for an acquire and a release together, both on the node. A reader needs
//! both in its acquire, and a writer needs one in each.

use rmalab_atomics::RemoteAtomics;

use crate::gcr::{Gate, GcrParams, node};
use crate::{Place, RawRwLock, Result};

/// One rank's handle of a reader-writer lock whose competitors are restricted.
///
/// A reader is active until it is inside, a writer until it has released: readers inside may wait for each other.
#[derive(Debug)]
pub struct GcrRw<L> {
    inner: L,
    gate: Gate,
}

impl<L: RawRwLock> RawRwLock for GcrRw<L> {
    const NAME: &'static str = "gcr-rw";
    const WORDS: u64 = L::WORDS;
    const NODE: u64 = node(L::NODE);
    const READERS_SHARE: bool = L::READERS_SHARE;
    type Params = GcrParams<L::Params>;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Self::Params) -> Result<GcrRw<L>> {
        Ok(GcrRw {
            inner: L::bind(ra, place, params.inner)?,
            gate: Gate::new(ra, Self::NAME, place, L::NODE, &params)?,
        })
    }

    #[inline]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.gate.enter(ra)?;
        self.inner.acquire_read(ra)?;
        self.gate.leave(ra)
    }

    #[inline]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.inner.release_read(ra)
    }

    #[inline]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.gate.enter(ra)?;
        self.inner.acquire_write(ra)
    }

    #[inline]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.inner.release_write(ra)?;
        self.gate.leave(ra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{McsRwNeutral, suite};

    #[test]
    fn costs_as_much_as_the_inner_lock() {
        assert_eq!(
            suite::rw_lock_cost::<GcrRw<McsRwNeutral>>(GcrParams::default()),
            suite::rw_lock_cost::<McsRwNeutral>(())
        );
    }

    #[test]
    fn conforms() {
        suite::rw_lock::<GcrRw<McsRwNeutral>>(GcrParams::default());
        suite::rw_lock::<GcrRw<McsRwNeutral>>(GcrParams { active: 2, threshold: 2, inner: () });
    }
}
