//! A mutex in the place of a reader-writer lock: its readers exclude each other.
//!
//! This is how mutexes take part in studies of reader-writer locks and of windows: correct, since exclusion is more than
//! a reader asks for, and as slow under many readers as that must be.
//!
//! A protocol that *needs* readers to be together (one reader waiting, inside, for another one to come in) never ends
//! with it.

use rmalab_atomics::{RemoteAtomics, Time};

use crate::{Place, RawMutex, RawMutexTimed, RawRwLock, RawRwLockTimed, Result};

/// The mutex `M` as a reader-writer lock; see the [module's text](self).
///
/// Name, words, node, parameters, cost and fairness are the mutex's.
#[derive(Debug)]
pub struct Exclusive<M>(M);

impl<M: RawMutex> RawRwLock for Exclusive<M> {
    const NAME: &'static str = M::NAME;
    const WORDS: u64 = M::WORDS;
    const NODE: u64 = M::NODE;
    const READERS_SHARE: bool = false;
    type Params = M::Params;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: M::Params) -> Result<Exclusive<M>> {
        M::bind(ra, place, params).map(Exclusive)
    }

    #[inline]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.acquire(ra)
    }

    #[inline]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.release(ra)
    }

    #[inline]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.acquire(ra)
    }

    #[inline]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.release(ra)
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
