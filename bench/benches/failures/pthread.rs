//! A robust mutex of the C library, in memory that processes share.

use std::mem::size_of;

use libc::{
    EOWNERDEAD, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_SHARED, pthread_mutex_consistent, pthread_mutex_init,
    pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock, pthread_mutexattr_init, pthread_mutexattr_setpshared,
    pthread_mutexattr_setrobust, pthread_mutexattr_t,
};
use rmalab_atomics::{Collectives, Rank, RemoteAtomics, WORD};
use rmalab_locks::{LINE, Result};

use crate::deaths::Mutex;

/// Its name in the tables.
pub(crate) const NAME: &str = "pthread, robust";

/// A rank's view of the mutex.
pub(crate) struct Pthread(*mut pthread_mutex_t);

impl Pthread {
    /// Makes a mutex at `home`. All ranks call it at the same point of their sequences of allocations.
    pub(crate) fn new(ra: &dyn RemoteAtomics, home: Rank) -> Result<Pthread> {
        let words = (size_of::<pthread_mutex_t>() as u64).div_ceil(WORD);
        let at = home.at(ra.heap().alloc(words * WORD, LINE)?);
        let words = ra.shared_words(at, words).expect("processes of one host share memory");
        let mutex = words.as_ptr().cast_mut().cast::<pthread_mutex_t>();
        if ra.rank() == home {
            let mut attributes = std::mem::MaybeUninit::<pthread_mutexattr_t>::uninit();
            let attributes = attributes.as_mut_ptr();
            // SAFETY: `attributes` is memory for attributes, which the first call fills in. `mutex` points to as many aligned
            // bytes as a mutex has, in atomic words that nothing else uses, and no rank uses it ahead of the barrier.
            let errors = unsafe {
                [
                    pthread_mutexattr_init(attributes),
                    pthread_mutexattr_setpshared(attributes, PTHREAD_PROCESS_SHARED),
                    pthread_mutexattr_setrobust(attributes, PTHREAD_MUTEX_ROBUST),
                    pthread_mutex_init(mutex, attributes),
                ]
            };
            assert_eq!(errors, [0; 4], "making a robust mutex");
        }
        Collectives::new(ra)?.barrier()?;
        Ok(Pthread(mutex))
    }
}

impl Mutex for Pthread {
    fn acquire(&mut self, _ra: &dyn RemoteAtomics) -> Result<bool> {
        // SAFETY: `new` has made the mutex, whose memory is mapped for as long as this rank is in the world.
        match unsafe { pthread_mutex_lock(self.0) } {
            0 => Ok(false),
            EOWNERDEAD => {
                // SAFETY: as above, and this thread holds it.
                let error = unsafe { pthread_mutex_consistent(self.0) };
                assert_eq!(error, 0, "declaring the data consistent");
                Ok(true)
            }
            error => panic!("locking a robust mutex: error {error}"),
        }
    }

    fn release(&mut self, _ra: &dyn RemoteAtomics) -> Result<()> {
        // SAFETY: as in `acquire`, and this thread holds it.
        let error = unsafe { pthread_mutex_unlock(self.0) };
        assert_eq!(error, 0, "unlocking a robust mutex");
        Ok(())
    }
}
