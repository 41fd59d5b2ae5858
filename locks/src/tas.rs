//! The test-and-set mutex: one word, polled with bounded exponential backoff.
//!
//! # Paper
//! T. E. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors", IEEE Transactions on
//! Parallel and Distributed Systems 1(1), 1990, DOI 10.1109/71.80120. Over network atomics, many RDMA systems have this
//! exclusive lock. It is the baseline for all other locks here.
//!
//! # Properties
//! - Mutual exclusion. Not fair: other ranks can pass a waiter any number of times.
//! - Waiters poll a remote word. A waiter that gives up leaves no trace, so tries and deadlines are exact.
//! - The explorer (`rmalab verify`) has checked this code exhaustively. Under sequential consistency and with posted puts
//!   that arrive late: 4 ranks × 2 acquisitions, livelocks included. With data and bulk puts in any order: 2 × 2. The
//!   argument is I1.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | owner | words + 0 | 8 | home | 0: free; else the holder's rank plus one |
//!
//! # Invariants
//! - I1: only a compare-and-swap changes `owner` from 0, and its rank then holds the lock. Only the holder's release sets it
//!   to 0 again.
//!
//! # Memory ordering
//! The compare-and-swap that acquires comes after the put that released, so its rank sees all that the last holder wrote.
//! The put is posted. Until it arrives, the lock looks held to every rank, including its last holder. That is harmless.
//!
//! # Deviations from the paper
//! The test-and-set is a compare-and-swap that stores the rank. So a debugger shows which rank holds the lock. On adapters
//! without a swap, it is the native operation.
//!
//! # Cost
//! Remote operations without contention: acquire 1 (compare-and-swap), release 1 (put, posted). Each poll of a waiter adds 1.

use rmalab_atomics::{Address, RemoteAtomics, Time, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::qnode::{NIL, pointer};
use crate::{Place, RawMutex, RawMutexTimed, RawMutexTry, Result};

/// One rank's handle of a test-and-set mutex.
#[derive(Debug)]
pub struct Tas {
    owner: Address,
    me: u64,
    /// It is not inside the handle, so no acquire writes to the handle. The compiler then computes addresses once for many acquires, and no
    /// load of them waits for a locked instruction. That saves 4 % of a pair on one thread.
    backoff: Box<BackoffState>,
}

impl RawMutex for Tas {
    const NAME: &'static str = "tas";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = Backoff;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Backoff) -> Result<Tas> {
        let backoff = Box::new(BackoffState::new(params, ra.rank()));
        Ok(Tas { owner: place.word(0).unwatched(), me: pointer(ra.rank()), backoff })
    }

    #[inline(always)]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if attempt(ra, self.owner, self.me)? { Ok(()) } else { retry(ra, self.owner, self.me, &mut self.backoff) }
    }

    #[inline(always)]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.put(self.owner, NIL)?)
    }
}

impl RawMutexTry for Tas {
    #[inline(always)]
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        attempt(ra, self.owner, self.me)
    }
}

impl RawMutexTimed for Tas {
    fn acquire_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        self.backoff.reset();
        while !self.try_acquire(ra)? {
            if ra.now() >= deadline {
                return Ok(false);
            }
            self.backoff.wait(ra)?;
        }
        Ok(true)
    }
}

#[inline(always)]
fn attempt<A: RemoteAtomics + ?Sized>(ra: &A, owner: Address, me: u64) -> Result<bool> {
    Ok(ra.compare_and_swap(owner, NIL, me)? == NIL)
}

/// Makes the attempts after the first one.
#[cold]
#[inline(never)]
fn retry<A: RemoteAtomics + ?Sized>(ra: &A, owner: Address, me: u64, backoff: &mut BackoffState) -> Result<()> {
    // This is not ahead of the first attempt, whose locked instruction would wait for this store.
    backoff.reset();
    loop {
        backoff.wait(ra)?;
        if attempt(ra, owner, me)? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::mutex::<Tas>(Backoff::default());
        suite::mutex_try::<Tas>(Backoff::default());
        suite::mutex_timed::<Tas>(Backoff::default());
    }

    #[test]
    fn conforms_without_backoff() {
        suite::mutex::<Tas>(Backoff { min: 1, max: 1 });
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Tas>(Backoff::default()), (1, 1));
    }
}
