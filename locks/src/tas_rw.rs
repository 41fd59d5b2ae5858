//! The test-and-set reader-writer lock: a count of readers and a writer's bit in one word, polled with backoff.
//!
//! # Paper
//! R. Gerstenberger, M. Besta and T. Hoefler, "Enabling Highly-Scalable Remote Memory Access Programming with MPI-3 One
//! Sided", SC 2013, DOI 10.1145/2503210.2503286, section 2.3: the local lock of each process.
//!
//! # Properties
//! - Mutual exclusion. A reader counts itself once, and no writer that comes later passes it. So writers can starve. Among
//!   writers any order is possible.
//! - Free of livelock: a reader keeps its count while it polls, and only the writer that holds the lock can make it wait.
//!   (Tries take their counts back, so they can make each other fail.)
//! - Waiters poll a remote word.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively: 2R+2W×2, livelocks included. With data and
//!   bulk puts in any order: 1R+1W×2.
//! - Spin has checked a model of these steps (verify/spin) exhaustively. In the model, polls block. Under sequential
//!   consistency, with tries: 2R+2W×2. Checked properties: mutual exclusion, no deadlock, zero at rest.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | lock | words + 0 | 8 | home | bit 0 WRITER: a writer is inside; from bit 1: readers inside or waiting for it |
//!
//! # Invariants
//! - I1: only a compare-and-swap of the whole word from 0 sets WRITER, so no reader is counted then. Only the release of its
//!   writer clears it.
//! - I2: a reader is inside only while it is counted, and enters only after it has seen WRITER clear while counted. So
//!   WRITER stays clear until the reader leaves.
//!
//! # Memory ordering
//! All operations are complete when they return; nothing is posted.
//!
//! # Deviations from the paper
//! None in the protocol. The paper's exclusive lock backs off in the same way; the paper does not give the bounds.
//!
//! # Cost
//! Remote operations without contention: reader acquire 1 (add), release 1 (add); writer acquire 1 (compare-and-swap),
//! release 1 (add: readers may have been counted since). Each poll of a waiter adds 1.

use rmalab_atomics::{Address, RemoteAtomics, Time, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::{Place, RawRwLock, RawRwLockTimed, Result};

const WRITER: u64 = 1;
const READER: u64 = 2;

/// A deadline that never comes.
const NEVER: Option<Time> = None;

/// One rank's handle of a test-and-set reader-writer lock.
#[derive(Debug)]
pub struct TasRw {
    lock: Address,
    backoff: BackoffState,
}

impl RawRwLock for TasRw {
    const NAME: &'static str = "tas-rw";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = Backoff;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Backoff) -> Result<TasRw> {
        // 63 bits of `lock` can count any number of ranks.
        Ok(TasRw { lock: place.word(0).unwatched(), backoff: BackoffState::new(params, ra.rank()) })
    }

    #[inline(always)]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.read(ra, NEVER).map(|_| ())
    }

    #[inline(always)]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.lock, READER.wrapping_neg())?;
        Ok(())
    }

    #[inline(always)]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.write(ra, NEVER).map(|_| ())
    }

    #[inline(always)]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.lock, WRITER.wrapping_neg())?;
        Ok(())
    }
}

impl RawRwLockTimed for TasRw {
    fn try_acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        self.read(ra, Some(Time(0)))
    }

    #[inline]
    fn try_acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        Ok(ra.compare_and_swap(self.lock, 0, WRITER)? == 0)
    }

    fn acquire_read_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        self.read(ra, Some(deadline))
    }

    fn acquire_write_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        self.write(ra, Some(deadline))
    }
}

impl TasRw {
    #[inline(always)]
    fn read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Option<Time>) -> Result<bool> {
        if ra.fetch_add(self.lock, READER)? & WRITER == 0 { Ok(true) } else { self.wait_for_writer(ra, deadline) }
    }

    #[cold]
    #[inline(never)]
    fn wait_for_writer<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Option<Time>) -> Result<bool> {
        self.backoff.reset();
        loop {
            if is_over(ra, deadline) {
                self.release_read(ra)?;
                return Ok(false);
            }
            self.backoff.wait(ra)?;
            if ra.get(self.lock)? & WRITER == 0 {
                return Ok(true);
            }
        }
    }

    #[inline(always)]
    fn write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Option<Time>) -> Result<bool> {
        if self.try_acquire_write(ra)? { Ok(true) } else { self.retry_write(ra, deadline) }
    }

    /// Makes the attempts after the first one.
    #[cold]
    #[inline(never)]
    fn retry_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Option<Time>) -> Result<bool> {
        self.backoff.reset();
        loop {
            if is_over(ra, deadline) {
                return Ok(false);
            }
            self.backoff.wait(ra)?;
            if self.try_acquire_write(ra)? {
                return Ok(true);
            }
        }
    }
}

fn is_over<A: RemoteAtomics + ?Sized>(ra: &A, deadline: Option<Time>) -> bool {
    deadline.is_some_and(|deadline| ra.now() >= deadline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::rw_lock::<TasRw>(Backoff::default());
        suite::rw_lock_timed::<TasRw>(Backoff::default());
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::rw_lock_cost::<TasRw>(Backoff::default()), [(1, 1), (1, 1)]);
    }
}
