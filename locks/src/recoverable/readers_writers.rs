//! Guards of a reader-writer lock that goes on after the failure of ranks.

use std::mem::ManuallyDrop;

use rmalab_atomics::{Failed, Rank, RemoteAtomics};

use super::{Entry, RecoverableRw};
use crate::guard::check;
use crate::{Error, Place, Result};

/// One rank's handle of a reader-writer lock that goes on after the failure of ranks. Acquiring returns a guard.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics};
/// use rmalab_locks::recoverable::{AcquiredRw, RobustRwLock};
/// use rmalab_locks::{RecoverableRw, Result};
///
/// fn look<L: RecoverableRw, A: RemoteAtomics>(ra: &A) -> Result<()> {
///     let mut lock = RobustRwLock::<A, L>::create(ra, Rank(0), L::Params::default())?;
///     let guard = match lock.read()? {
///         AcquiredRw::Clean(guard) => guard,
///         AcquiredRw::OwnerDead(inconsistent) => {
///             // A writer has failed, and no other rank is here: repair the data.
///             inconsistent.consistent()?
///         }
///     };
///     // Other readers may be here now.
///     guard.release()
/// }
/// ```
#[derive(Debug)]
pub struct RobustRwLock<'a, A: RemoteAtomics + ?Sized, L: RecoverableRw> {
    ra: &'a A,
    raw: L,
    /// The error of a release by drop.
    failed: Option<Error>,
}

impl<'a, A: RemoteAtomics + ?Sized, L: RecoverableRw> RobustRwLock<'a, A, L> {
    /// Makes a new lock with its shared words at `home`. All ranks call it at the same point of their sequences of
    /// allocations.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](rmalab_atomics::Error::Unsupported) on a backend that ends with its first failure; the errors of
    /// [`Place::alloc`] and [`RawRwLock::bind`](crate::RawRwLock::bind).
    pub fn create(ra: &'a A, home: Rank, params: L::Params) -> Result<Self> {
        ra.failed()?;
        let place = Place::alloc(ra, home, L::words(ra.size()), L::NODE)?;
        Self::at(ra, place, params)
    }

    /// Makes this rank's only handle of the lock at `place`.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create).
    pub fn at(ra: &'a A, place: Place, params: L::Params) -> Result<Self> {
        ra.failed()?;
        Ok(RobustRwLock { ra, raw: L::bind(ra, place, params)?, failed: None })
    }

    /// Acquires the lock for reading, together with other readers.
    ///
    /// # Errors
    ///
    /// The lock's errors, and the error of an earlier release by drop.
    pub fn read(&mut self) -> Result<AcquiredRw<'_, 'a, A, L>> {
        check(&mut self.failed)?;
        let entry = self.raw.recoverable_acquire_read(self.ra)?;
        Ok(self.acquired(entry, false))
    }

    /// Acquires the lock for writing, alone.
    ///
    /// # Errors
    ///
    /// The lock's errors, and the error of an earlier release by drop.
    pub fn write(&mut self) -> Result<AcquiredRw<'_, 'a, A, L>> {
        check(&mut self.failed)?;
        let entry = self.raw.recoverable_acquire_write(self.ra)?;
        Ok(self.acquired(entry, true))
    }

    fn acquired(&mut self, entry: Entry, writes: bool) -> AcquiredRw<'_, 'a, A, L> {
        let is_consistent = entry == Entry::Clean;
        let guard = RobustRwGuard { lock: self, writes, is_consistent };
        match entry {
            Entry::Clean => AcquiredRw::Clean(guard),
            Entry::OwnerDead(failed) => AcquiredRw::OwnerDead(InconsistentRw { guard, failed }),
        }
    }
}

/// A [`RobustRwLock`] that this rank holds.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped, which is at once if it is not bound to a name"]
pub enum AcquiredRw<'l, 'a, A: RemoteAtomics + ?Sized, L: RecoverableRw> {
    /// No rank has failed inside as a writer since the last rank that got `OwnerDead`.
    Clean(RobustRwGuard<'l, 'a, A, L>),
    /// A rank may have failed inside as a writer, so the data may be half written. This rank is alone.
    OwnerDead(InconsistentRw<'l, 'a, A, L>),
}

/// Holds a [`RobustRwLock`], alone, after a writer has failed inside. Dropping it makes the lock
/// [not recoverable](Error::NotRecoverable).
#[derive(Debug)]
#[must_use = "dropping it makes the lock unusable for all ranks"]
pub struct InconsistentRw<'l, 'a, A: RemoteAtomics + ?Sized, L: RecoverableRw> {
    guard: RobustRwGuard<'l, 'a, A, L>,
    failed: Failed,
}

impl<'l, 'a, A: RemoteAtomics + ?Sized, L: RecoverableRw> InconsistentRw<'l, 'a, A, L> {
    /// The ranks that have failed. One of them may have been inside.
    pub fn failed(&self) -> &Failed {
        &self.failed
    }

    /// Declares the data consistent, after this rank has repaired them. If it acquired for reading, other ranks may
    /// read, too, from here on.
    ///
    /// # Errors
    ///
    /// The lock's errors. After one, the lock is not recoverable.
    pub fn consistent(mut self) -> Result<RobustRwGuard<'l, 'a, A, L>> {
        let lock = &mut *self.guard.lock;
        lock.raw.share(lock.ra)?;
        self.guard.is_consistent = true;
        Ok(self.guard)
    }
}

/// Holds a [`RobustRwLock`] and releases it when dropped.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped, which is at once if it is not bound to a name"]
pub struct RobustRwGuard<'l, 'a, A: RemoteAtomics + ?Sized, L: RecoverableRw> {
    lock: &'l mut RobustRwLock<'a, A, L>,
    writes: bool,
    is_consistent: bool,
}

impl<A: RemoteAtomics + ?Sized, L: RecoverableRw> RobustRwGuard<'_, '_, A, L> {
    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The lock's errors. After one, the state of the lock is unknown.
    pub fn release(self) -> Result<()> {
        ManuallyDrop::new(self).let_go()
    }

    fn let_go(&mut self) -> Result<()> {
        let RobustRwLock { ra, raw, .. } = &mut *self.lock;
        match (self.is_consistent, self.writes) {
            (false, _) => raw.release_unrecovered(*ra),
            (true, true) => raw.release_write(*ra),
            (true, false) => raw.release_read(*ra),
        }
    }
}

impl<A: RemoteAtomics + ?Sized, L: RecoverableRw> Drop for RobustRwGuard<'_, '_, A, L> {
    fn drop(&mut self) {
        // As for a mutex: the rank is about to fail, and the next holder learns of the failure.
        if std::thread::panicking() {
            return;
        }
        if let Err(error) = self.let_go() {
            self.lock.failed = Some(error);
        }
    }
}
