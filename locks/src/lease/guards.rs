//! A handle of a lease whose acquire returns a guard.

use std::mem::ManuallyDrop;

use rmalab_atomics::{Rank, RemoteAtomics, Time};

use super::{FencedWord, Grant, Lease, LeaseParams, Token};
use crate::guard::check;
use crate::{Error, Place, RawMutex, Result};

/// One rank's handle of a [`Lease`]. Acquiring returns a guard.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics};
/// use rmalab_locks::lease::{FencedWord, LeaseMutex};
/// use rmalab_locks::{LeaseParams, Result};
///
/// /// Writes the number of a copy of the data; `false` if another rank has taken the lock over and written.
/// fn publish<A: RemoteAtomics>(ra: &A, copy: u32) -> Result<bool> {
///     let word = FencedWord::create(ra, Rank(0))?;
///     let mut lock = LeaseMutex::create(ra, Rank(0), LeaseParams::default())?;
///     let guard = lock.acquire()?;
///     // This rank may be stopped here for any time.
///     match guard.put(word, copy) {
///         Ok(()) => guard.release().map(|()| true),
///         Err(rmalab_locks::Error::Expired { .. }) => Ok(false),
///         Err(other) => Err(other),
///     }
/// }
/// ```
#[derive(Debug)]
pub struct LeaseMutex<'a, A: RemoteAtomics + ?Sized> {
    ra: &'a A,
    raw: Lease,
    /// The error of a release by drop.
    failed: Option<Error>,
}

impl<'a, A: RemoteAtomics + ?Sized> LeaseMutex<'a, A> {
    /// Makes a new lock with its word at `home`. All ranks call it at the same point of their sequences of allocations.
    ///
    /// # Errors
    ///
    /// The errors of [`Place::alloc`] and [`RawMutex::bind`].
    pub fn create(ra: &'a A, home: Rank, params: LeaseParams) -> Result<Self> {
        let place = Place::alloc(ra, home, Lease::WORDS, Lease::NODE)?;
        Self::at(ra, place, params)
    }

    /// Makes this rank's only handle of the lock at `place`.
    ///
    /// # Errors
    ///
    /// The errors of [`RawMutex::bind`].
    pub fn at(ra: &'a A, place: Place, params: LeaseParams) -> Result<Self> {
        Ok(LeaseMutex { ra, raw: Lease::bind(ra, place, params)?, failed: None })
    }

    /// Acquires the lock, also after ranks have failed. It acknowledges their failures.
    ///
    /// # Errors
    ///
    /// The errors of [`Lease::acquire_lease`], and the error of an earlier release by drop, except for
    /// [`Expired`](Error::Expired).
    pub fn acquire(&mut self) -> Result<LeaseGuard<'_, 'a, A>> {
        check(&mut self.failed)?;
        let grant = self.raw.acquire_lease(self.ra)?;
        Ok(LeaseGuard { lock: self, grant })
    }
}

/// Holds a [`LeaseMutex`] until its lease passes, and releases it when dropped.
///
/// When it is dropped after another rank has taken the lock over, nothing happens. To learn of that, [release](Self::release) it.
/// While a panic unwinds, it keeps the lock until the lease passes.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped, which is at once if it is not bound to a name"]
pub struct LeaseGuard<'l, 'a, A: RemoteAtomics + ?Sized> {
    lock: &'l mut LeaseMutex<'a, A>,
    grant: Grant,
}

impl<A: RemoteAtomics + ?Sized> LeaseGuard<'_, '_, A> {
    /// The token of this grant.
    pub fn token(&self) -> Token {
        self.grant.token
    }

    /// The time at which the lease passes, by this rank's clock.
    pub fn until(&self) -> Time {
        self.grant.until
    }

    /// Returns whether the lease has passed by now. It may pass directly after this call.
    pub fn has_passed(&self) -> bool {
        self.lock.ra.now() >= self.grant.until
    }

    /// Returns whether the lease of the last holder had passed, so that the data may be half written.
    pub fn took_over(&self) -> bool {
        self.grant.took_over
    }

    /// Writes `value` to `word` with this grant's token.
    ///
    /// # Errors
    ///
    /// The errors of [`FencedWord::put`].
    pub fn put(&self, word: FencedWord, value: u32) -> Result<()> {
        word.put(self.lock.ra, self.grant.token, value)
    }

    /// Begins the term of the lease again, with a larger token.
    ///
    /// # Errors
    ///
    /// The errors of [`Lease::renew`].
    pub fn renew(&mut self) -> Result<()> {
        let took_over = self.grant.took_over;
        self.grant = Grant { took_over, ..self.lock.raw.renew(self.lock.ra)? };
        Ok(())
    }

    /// Releases the lock, and returns its error, which dropping the guard would not do.
    ///
    /// # Errors
    ///
    /// [`Expired`](Error::Expired) if another rank has taken the lock over, and the errors of the network.
    pub fn release(self) -> Result<()> {
        let LeaseMutex { ra, raw, .. } = &mut *ManuallyDrop::new(self).lock;
        raw.release(*ra)
    }
}

impl<A: RemoteAtomics + ?Sized> Drop for LeaseGuard<'_, '_, A> {
    fn drop(&mut self) {
        // The data may be half written, and the lease passes by itself.
        if std::thread::panicking() {
            return;
        }
        let LeaseMutex { ra, raw, failed } = &mut *self.lock;
        match raw.release(*ra) {
            Ok(()) | Err(Error::Expired { .. }) => {}
            Err(error) => *failed = Some(error),
        }
    }
}
