//! A mutex in the role of a reader-writer lock: its readers exclude each other.
//!
//! Mutexes take part in studies of reader-writer locks and of windows this way. That is correct, since a reader asks for less exclusion
//! than a mutex gives. It is slow with many readers.
//!
//! If a reader waits inside for another reader to enter, the program never ends under a mutex.

use rmalab_atomics::{RemoteAtomics, Time};

use crate::{Entry, Place, RawMutex, RawMutexTimed, RawRwLock, RawRwLockTimed, Recoverable, RecoverableRw, Result};

/// The mutex `M` as a reader-writer lock; see the [module's text](self).
///
/// It has the name, words, node, parameters, cost and fairness of the mutex.
#[derive(Debug)]
pub struct Exclusive<M>(M);

impl<M: RawMutex> RawRwLock for Exclusive<M> {
    const NAME: &'static str = M::NAME;
    const WORDS: u64 = M::WORDS;
    const NODE: u64 = M::NODE;
    const RESTS_AT_ZERO: bool = M::RESTS_AT_ZERO;
    const NODE_AT_REST: u64 = M::NODE_AT_REST;
    const READERS_SHARE: bool = false;
    type Params = M::Params;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: M::Params) -> Result<Exclusive<M>> {
        M::bind(ra, place, params).map(Exclusive)
    }

    #[inline(always)]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.acquire(ra)
    }

    #[inline(always)]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.release(ra)
    }

    #[inline(always)]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.acquire(ra)
    }

    #[inline(always)]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.release(ra)
    }
}

impl<M: Recoverable> RecoverableRw for Exclusive<M> {
    #[inline]
    fn recoverable_acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.0.recoverable_acquire(ra)
    }

    #[inline]
    fn recoverable_acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.0.recoverable_acquire(ra)
    }

    /// Readers of a mutex are alone at any time.
    fn share<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Ok(())
    }

    fn release_unrecovered<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.release_unrecovered(ra)
    }
}

impl<M: RawMutexTimed> RawRwLockTimed for Exclusive<M> {
    #[inline]
    fn try_acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        self.0.try_acquire(ra)
    }

    #[inline]
    fn try_acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        self.0.try_acquire(ra)
    }

    #[inline]
    fn acquire_read_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        self.0.acquire_until(ra, deadline)
    }

    #[inline]
    fn acquire_write_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        self.0.acquire_until(ra, deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tas, suite};

    #[test]
    fn a_free_mutex_is_acquired_ahead_of_the_deadline() {
        suite::scenario::<Exclusive<Tas>>(1, Default::default(), |ra, mut lock, _, _| {
            assert!(lock.try_acquire_read(ra)?);
            assert!(!lock.try_acquire_read(ra)? && !lock.try_acquire_write(ra)?);
            lock.release_read(ra)?;
            assert!(lock.acquire_read_until(ra, Time(u64::MAX))?);
            lock.release_read(ra)?;
            assert!(lock.acquire_write_until(ra, Time(u64::MAX))?);
            lock.release_write(ra)
        });
    }
}
