//! Guards of a window's locks, which flush and unlock. [`guard`](crate::guard) describes what all guards do.

use std::mem::ManuallyDrop;

use rmalab_atomics::{Rank, RemoteAtomics};

use crate::guard::check;
use crate::{Assert, LockKind, Result, WindowLock, WindowLocks};

impl<W: WindowLock> WindowLocks<W> {
    /// Locks `target` and returns a guard that unlocks it.
    ///
    /// The guard flushes the target before it unlocks. It borrows these locks, so only one guard is alive at a time. To lock several
    /// targets at once, call [`lock`](Self::lock) and [`unlock`](Self::unlock).
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock), and the error of an earlier unlock by drop (see [`guard`](crate::guard)).
    pub fn lock_guard<'l, A: RemoteAtomics + ?Sized>(
        &'l mut self,
        ra: &'l A,
        kind: LockKind,
        target: Rank,
        assert: Assert,
    ) -> Result<LockGuard<'l, A, W>> {
        check(&mut self.failed)?;
        self.lock(ra, kind, target, assert)?;
        Ok(LockGuard { ra, locks: self, target })
    }

    /// Locks every target in shared mode, and returns a guard that flushes and unlocks them.
    ///
    /// # Errors
    ///
    /// The errors of [`lock_all`](Self::lock_all), and the error of an earlier unlock by drop (see
    /// [`guard`](crate::guard)).
    pub fn lock_all_guard<'l, A: RemoteAtomics + ?Sized>(
        &'l mut self,
        ra: &'l A,
        assert: Assert,
    ) -> Result<LockAllGuard<'l, A, W>> {
        check(&mut self.failed)?;
        self.lock_all(ra, assert)?;
        Ok(LockAllGuard { ra, locks: self })
    }
}

/// A lock of one target, from [`WindowLocks::lock_guard`]. Dropping it flushes the target and unlocks it.
#[derive(Debug)]
#[must_use = "the target is unlocked when the guard is dropped, which is at once if it is not bound to a name"]
pub struct LockGuard<'l, A: RemoteAtomics + ?Sized, W: WindowLock> {
    ra: &'l A,
    locks: &'l mut WindowLocks<W>,
    target: Rank,
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> LockGuard<'_, A, W> {
    /// Flushes the target and unlocks it.
    ///
    /// # Errors
    ///
    /// The errors of the flush and of [`WindowLocks::unlock`].
    pub fn unlock(self) -> Result<()> {
        ManuallyDrop::new(self).end()
    }

    /// Unlocks even if the flush fails, since other ranks may wait for the lock. The error warns that data may be
    /// missing.
    fn end(&mut self) -> Result<()> {
        let flushed = self.ra.flush(self.target);
        self.locks.unlock(self.ra, self.target)?;
        Ok(flushed?)
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for LockGuard<'_, A, W> {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            self.locks.failed = Some(error);
        }
    }
}

/// A lock_all, from [`WindowLocks::lock_all_guard`]. Dropping it flushes all targets and unlocks them.
#[derive(Debug)]
#[must_use = "the targets are unlocked when the guard is dropped, which is at once if it is not bound to a name"]
pub struct LockAllGuard<'l, A: RemoteAtomics + ?Sized, W: WindowLock> {
    ra: &'l A,
    locks: &'l mut WindowLocks<W>,
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> LockAllGuard<'_, A, W> {
    /// Flushes all targets and unlocks them.
    ///
    /// # Errors
    ///
    /// The errors of the flush and of [`WindowLocks::unlock_all`].
    pub fn unlock_all(self) -> Result<()> {
        ManuallyDrop::new(self).end()
    }

    /// Unlocks even if the flush fails, since other ranks may wait for the lock. The error warns that data may be
    /// missing.
    fn end(&mut self) -> Result<()> {
        let flushed = self.ra.flush_all();
        self.locks.unlock_all(self.ra)?;
        Ok(flushed?)
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for LockAllGuard<'_, A, W> {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            self.locks.failed = Some(error);
        }
    }
}
