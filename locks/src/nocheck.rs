//! No synchronization at all, on the caller's word.
//!
//! # Source
//!
//! `MPI_MODE_NOCHECK` for every call of a window (MPI-4.1, section 12.5.5): the program itself sees to it that no
//! conflicting lock is held or attempted, by barriers or by touching disjoint memory. It is also the floor that the
//! other policies are measured against.
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
