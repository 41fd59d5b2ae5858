//! No synchronization at all: the caller guarantees that none is needed.
//!
//! # Source
//!
//! `MPI_MODE_NOCHECK` for every call of a window (MPI-4.1, section 12.5.5). The program ensures that no rank holds or attempts
//! a conflicting lock, by barriers or by accesses to disjoint memory. Measurements compare the other policies with this one.
//!
//! # State
//!
//! None, at any rank.
//!
//! # Cost
//!
//! No remote operation in any call.

use rmalab_atomics::{Disp, Rank, RemoteAtomics};

use crate::{Exclusion, LockKind, Result, WindowLock};

/// A window lock that locks nothing; see the [module's text](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCheck;

impl WindowLock for NoCheck {
    const NAME: &'static str = "nocheck";
    type Params = ();

    fn new<A: RemoteAtomics + ?Sized>(_ra: &A, (): ()) -> Result<NoCheck> {
        Ok(NoCheck)
    }

    #[inline]
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A, _kind: LockKind, _target: Rank) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A, _kind: LockKind, _target: Rank) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Ok(())
    }

    fn exclusion(&self) -> Exclusion {
        Exclusion::Nothing
    }

    fn allocations(&self) -> Vec<Disp> {
        Vec::new()
    }
}
