//! Guards: locks that release themselves.
//!
//! A guard has no data: the data that the lock protects are in the world's memory, and the rank reaches them through its
//! [`RemoteAtomics`] handle. Flush the rank's writes there before the guard is dropped.
//!
//! # When a release fails
//!
//! `guard.release()` returns the error. Dropping a guard releases, too, but cannot return an error. It keeps the error, and the next
//! acquire through the same lock returns it instead of acquiring. A release fails when a peer has failed. The job cannot go on then, so
//! nothing is lost if the rank learns of it later.
//!
//! Dropping a guard never panics. While a panic unwinds, it releases, too. The data may be half written then; the world stops the other
//! ranks ([`PeerFailed`](rmalab_atomics::Error::PeerFailed)).
//!
//! A forgotten guard (`std::mem::forget`) leaves its lock held forever.

use std::mem::ManuallyDrop;
use std::time::Duration;

use rmalab_atomics::{Rank, RemoteAtomics, Time};

use crate::{Error, Place, RawMutex, RawMutexTimed, RawMutexTry, RawRwLock, RawRwLockTimed, Result};

/// One rank's handle of a mutual-exclusion lock. Acquiring returns a guard.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics};
/// use rmalab_locks::{Mutex, RawMutex, Result};
///
/// fn alone<L: RawMutex, A: RemoteAtomics>(ra: &A) -> Result<()> {
///     let mut mutex = Mutex::<A, L>::create(ra, Rank(0), L::Params::default())?;
///     let guard = mutex.acquire()?;
///     // No other rank is here now.
///     guard.release()
/// }
/// ```
#[derive(Debug)]
pub struct Mutex<'a, A: RemoteAtomics + ?Sized, L: RawMutex> {
    ra: &'a A,
    raw: L,
    /// The error of a release by drop.
    failed: Option<Error>,
}

impl<'a, A: RemoteAtomics + ?Sized, L: RawMutex> Mutex<'a, A, L> {
    /// Makes a new lock with its shared words at `home`. All ranks call it at the same point of their sequences of
    /// allocations, with the same home and parameters; [`Place::alloc`] describes what happens otherwise.
    ///
    /// # Errors
    ///
    /// The errors of [`Place::alloc`] and [`RawMutex::bind`].
    pub fn create(ra: &'a A, home: Rank, params: L::Params) -> Result<Self> {
        let place = Place::alloc(ra, home, L::WORDS, L::NODE)?;
        Self::at(ra, place, params)
    }

    /// Makes this rank's only handle of the lock at `place`. All ranks pass the same place and parameters, like to
    /// [`Place::alloc`].
    ///
    /// # Errors
    ///
    /// The errors of [`RawMutex::bind`].
    pub fn at(ra: &'a A, place: Place, params: L::Params) -> Result<Self> {
        Ok(Mutex { ra, raw: L::bind(ra, place, params)?, failed: None })
    }

    /// Acquires the lock, and returns when this rank holds it.
    ///
    /// # Errors
    ///
    /// The lock's errors, and the error of an earlier release by drop (see the [module's text](self)).
    #[inline]
    pub fn acquire(&mut self) -> Result<MutexGuard<'_, 'a, A, L>> {
        check(&mut self.failed)?;
        self.raw.acquire(self.ra)?;
        Ok(MutexGuard { lock: self })
    }
}

impl<'a, A: RemoteAtomics + ?Sized, L: RawMutexTry> Mutex<'a, A, L> {
    /// Acquires the lock if no rank holds it. Never waits.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire).
    pub fn try_acquire(&mut self) -> Result<Option<MutexGuard<'_, 'a, A, L>>> {
        check(&mut self.failed)?;
        let held = self.raw.try_acquire(self.ra)?;
        Ok(held.then(|| MutexGuard { lock: self }))
    }
}

impl<'a, A: RemoteAtomics + ?Sized, L: RawMutexTimed> Mutex<'a, A, L> {
    /// Acquires the lock, or gives up after `limit` by the backend's clock.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire).
    pub fn acquire_within(&mut self, limit: Duration) -> Result<Option<MutexGuard<'_, 'a, A, L>>> {
        check(&mut self.failed)?;
        let held = self.raw.acquire_until(self.ra, deadline(self.ra, limit))?;
        Ok(held.then(|| MutexGuard { lock: self }))
    }
}

/// Holds a [`Mutex`] and releases it when dropped.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped, which is at once if it is not bound to a name"]
pub struct MutexGuard<'l, 'a, A: RemoteAtomics + ?Sized, L: RawMutex> {
    lock: &'l mut Mutex<'a, A, L>,
}

impl<A: RemoteAtomics + ?Sized, L: RawMutex> MutexGuard<'_, '_, A, L> {
    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The lock's errors. After one, the state of the lock is unknown.
    #[inline]
    pub fn release(self) -> Result<()> {
        let guard = &mut *ManuallyDrop::new(self);
        guard.lock.raw.release(guard.lock.ra)
    }
}

impl<A: RemoteAtomics + ?Sized, L: RawMutex> Drop for MutexGuard<'_, '_, A, L> {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.lock.raw.release(self.lock.ra) {
            self.lock.failed = Some(error);
        }
    }
}

/// One rank's handle of a reader-writer lock. Acquiring returns a guard.
#[derive(Debug)]
pub struct RwLock<'a, A: RemoteAtomics + ?Sized, L: RawRwLock> {
    ra: &'a A,
    raw: L,
    /// The error of a release by drop.
    failed: Option<Error>,
}

impl<'a, A: RemoteAtomics + ?Sized, L: RawRwLock> RwLock<'a, A, L> {
    /// Makes a new lock with its shared words at `home`. All ranks call it at the same point of their sequences of
    /// allocations, with the same home and parameters; [`Place::alloc`] describes what happens otherwise.
    ///
    /// # Errors
    ///
    /// The errors of [`Place::alloc`] and [`RawRwLock::bind`].
    pub fn create(ra: &'a A, home: Rank, params: L::Params) -> Result<Self> {
        let place = Place::alloc(ra, home, L::words(ra.size()), L::NODE)?;
        Self::at(ra, place, params)
    }

    /// Makes this rank's only handle of the lock at `place`. All ranks pass the same place and parameters, like to
    /// [`Place::alloc`].
    ///
    /// # Errors
    ///
    /// The errors of [`RawRwLock::bind`].
    pub fn at(ra: &'a A, place: Place, params: L::Params) -> Result<Self> {
        Ok(RwLock { ra, raw: L::bind(ra, place, params)?, failed: None })
    }

    /// Acquires the lock for reading, together with other readers.
    ///
    /// # Errors
    ///
    /// The lock's errors, and the error of an earlier release by drop (see the [module's text](self)).
    #[inline]
    pub fn acquire_read(&mut self) -> Result<ReadGuard<'_, 'a, A, L>> {
        check(&mut self.failed)?;
        self.raw.acquire_read(self.ra)?;
        Ok(ReadGuard { lock: self })
    }

    /// Acquires the lock for writing, alone.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_read`](Self::acquire_read).
    #[inline]
    pub fn acquire_write(&mut self) -> Result<WriteGuard<'_, 'a, A, L>> {
        check(&mut self.failed)?;
        self.raw.acquire_write(self.ra)?;
        Ok(WriteGuard { lock: self })
    }
}

impl<'a, A: RemoteAtomics + ?Sized, L: RawRwLockTimed> RwLock<'a, A, L> {
    /// Acquires the lock for reading if no wait is needed.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_read`](Self::acquire_read).
    pub fn try_acquire_read(&mut self) -> Result<Option<ReadGuard<'_, 'a, A, L>>> {
        check(&mut self.failed)?;
        let held = self.raw.try_acquire_read(self.ra)?;
        Ok(held.then(|| ReadGuard { lock: self }))
    }

    /// Acquires the lock for writing if no wait is needed.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_read`](Self::acquire_read).
    pub fn try_acquire_write(&mut self) -> Result<Option<WriteGuard<'_, 'a, A, L>>> {
        check(&mut self.failed)?;
        let held = self.raw.try_acquire_write(self.ra)?;
        Ok(held.then(|| WriteGuard { lock: self }))
    }

    /// Acquires the lock for reading, or gives up after `limit` by the backend's clock.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_read`](Self::acquire_read).
    pub fn acquire_read_within(&mut self, limit: Duration) -> Result<Option<ReadGuard<'_, 'a, A, L>>> {
        check(&mut self.failed)?;
        let held = self.raw.acquire_read_until(self.ra, deadline(self.ra, limit))?;
        Ok(held.then(|| ReadGuard { lock: self }))
    }

    /// Acquires the lock for writing, or gives up after `limit` by the backend's clock.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_read`](Self::acquire_read).
    pub fn acquire_write_within(&mut self, limit: Duration) -> Result<Option<WriteGuard<'_, 'a, A, L>>> {
        check(&mut self.failed)?;
        let held = self.raw.acquire_write_until(self.ra, deadline(self.ra, limit))?;
        Ok(held.then(|| WriteGuard { lock: self }))
    }
}

/// Holds an [`RwLock`] for reading and releases it when dropped.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped, which is at once if it is not bound to a name"]
pub struct ReadGuard<'l, 'a, A: RemoteAtomics + ?Sized, L: RawRwLock> {
    lock: &'l mut RwLock<'a, A, L>,
}

impl<A: RemoteAtomics + ?Sized, L: RawRwLock> ReadGuard<'_, '_, A, L> {
    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The lock's errors. After one, the state of the lock is unknown.
    #[inline]
    pub fn release(self) -> Result<()> {
        let guard = &mut *ManuallyDrop::new(self);
        guard.lock.raw.release_read(guard.lock.ra)
    }
}

impl<A: RemoteAtomics + ?Sized, L: RawRwLock> Drop for ReadGuard<'_, '_, A, L> {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.lock.raw.release_read(self.lock.ra) {
            self.lock.failed = Some(error);
        }
    }
}

/// Holds an [`RwLock`] for writing and releases it when dropped.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped, which is at once if it is not bound to a name"]
pub struct WriteGuard<'l, 'a, A: RemoteAtomics + ?Sized, L: RawRwLock> {
    lock: &'l mut RwLock<'a, A, L>,
}

impl<A: RemoteAtomics + ?Sized, L: RawRwLock> WriteGuard<'_, '_, A, L> {
    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The lock's errors. After one, the state of the lock is unknown.
    #[inline]
    pub fn release(self) -> Result<()> {
        let guard = &mut *ManuallyDrop::new(self);
        guard.lock.raw.release_write(guard.lock.ra)
    }
}

impl<A: RemoteAtomics + ?Sized, L: RawRwLock> Drop for WriteGuard<'_, '_, A, L> {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.lock.raw.release_write(self.lock.ra) {
            self.lock.failed = Some(error);
        }
    }
}

/// Returns the error that an earlier release by drop has kept.
#[inline]
pub(crate) fn check(failed: &mut Option<Error>) -> Result<()> {
    // Looks first, since taking the error would write all its bytes.
    if failed.is_none() { Ok(()) } else { failed.take().map_or(Ok(()), Err) }
}

fn deadline<A: RemoteAtomics + ?Sized>(ra: &A, limit: Duration) -> Time {
    ra.now().after(limit)
}
