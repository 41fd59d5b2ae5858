//! The robust test-and-set mutex: survivors take it over from a holder that has failed.
//!
//! # Paper
//! The lock is [`tas`](crate::tas): T. E. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory
//! Multiprocessors", IEEE Transactions on Parallel and Distributed Systems 1(1), 1990, DOI 10.1109/71.80120. An owner word
//! that survivors compare and swap is the idea of robust futexes (Linux, `Documentation/locking/robust-futexes.rst`).
//!
//! # Properties
//! - Mutual exclusion among the ranks that live. Not fair: other ranks can pass a waiter any number of times.
//! - The rank that takes over from a failed rank gets `OwnerDead`, whether that rank was inside or had its release under way.
//! - Any number of ranks may fail, except for the rank with the lock's word on a backend where its memory ends with it.
//! - Waiters poll a remote word.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with posted
//!   puts that arrive late or are lost: 3 ranks × 2 acquisitions with one failure at any step, 3 × 1 with two. Without
//!   failures: 4 × 2. Livelocks are included.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | owner | words + 0 | 8 | home | 0: free; else the holder's rank plus one; 2^63: not recoverable |
//!
//! # Invariants
//! - I1: `owner` changes from 0 only to a rank that then holds the lock, and from a live rank only by that rank's release.
//!   From a failed rank it changes only to a live rank, which then holds the lock, or by the release that the failed rank
//!   had posted.
//! - I2: a rank that takes over has silenced the failed rank. So a release that the failed rank had posted has arrived
//!   before the comparison of `owner`, or never arrives.
//!
//! # Memory ordering
//! As in [`tas`](crate::tas): the release is a posted put, so I2 needs the silence.
//!
//! # Deviations from the paper
//! Waiters ask for failures in each round: one load while no rank has failed.
//!
//! # Cost
//! Remote operations without contention: acquire 1 (compare-and-swap), release 1 (put, posted), as `tas`. Each poll of a
//! waiter adds 1. A rank that takes over adds a silence and 1 (compare-and-swap).

use rmalab_atomics::{Address, RemoteAtomics, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::qnode::{NIL, pointer, rank_of};
use crate::recoverable::{self, Entry, Recoverable};
use crate::{Error, Place, RawMutex, Result};

/// The owner of a lock that no rank can acquire any more.
const NOT_RECOVERABLE: u64 = 1 << 63;

/// One rank's handle of a robust test-and-set mutex.
#[derive(Debug)]
pub struct RobustTas {
    owner: Address,
    me: u64,
    backoff: Box<BackoffState>,
}

impl RawMutex for RobustTas {
    const NAME: &'static str = "robust-tas";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = Backoff;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Backoff) -> Result<RobustTas> {
        let backoff = Box::new(BackoffState::new(params, ra.rank()));
        Ok(RobustTas { owner: place.word(0).unwatched(), me: pointer(ra.rank()), backoff })
    }

    #[inline(always)]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        match attempt(ra, self.owner, self.me)? {
            NIL => Ok(()),
            seen => recoverable::refused(ra, retry(ra, self.owner, self.me, &mut self.backoff, seen, false)?),
        }
    }

    #[inline(always)]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.put(self.owner, NIL)?)
    }
}

impl Recoverable for RobustTas {
    #[inline(always)]
    fn recoverable_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        match attempt(ra, self.owner, self.me)? {
            NIL => Ok(Entry::Clean),
            seen => recoverable::by_value(retry(ra, self.owner, self.me, &mut self.backoff, seen, true)),
        }
    }

    fn release_unrecovered<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.put(self.owner, NOT_RECOVERABLE)?)
    }
}

#[inline(always)]
fn attempt<A: RemoteAtomics + ?Sized>(ra: &A, owner: Address, me: u64) -> Result<u64> {
    Ok(ra.compare_and_swap(owner, NIL, me)?)
}

/// Makes the attempts after the first one, which has `seen` another owner.
#[cold]
#[inline(never)]
fn retry<A: RemoteAtomics + ?Sized>(
    ra: &A,
    owner: Address,
    me: u64,
    backoff: &mut BackoffState,
    mut seen: u64,
    recovers: bool,
) -> Result<Entry> {
    backoff.reset();
    while seen != NIL {
        if seen == NOT_RECOVERABLE {
            return Err(Error::NotRecoverable { lock: RobustTas::NAME });
        }
        if !recovers {
            backoff.wait(ra)?;
        } else {
            let failed = recoverable::acknowledged(ra)?;
            if failed.contains(rank_of(seen)) {
                ra.silence(&failed)?;
                if ra.compare_and_swap(owner, seen, me)? == seen {
                    return Ok(Entry::OwnerDead(failed));
                }
            } else {
                recoverable::interruptible(backoff.wait(ra))?;
            }
        }
        seen = attempt(ra, owner, me)?;
    }
    Ok(Entry::Clean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::mutex::<RobustTas>(Backoff::default());
        suite::recoverable::<RobustTas>(Backoff::default());
    }

    #[test]
    fn costs_what_tas_costs() {
        assert_eq!(
            suite::mutex_cost::<RobustTas>(Backoff::default()),
            suite::mutex_cost::<crate::Tas>(Backoff::default())
        );
        assert_eq!(suite::recoverable_cost::<RobustTas>(Backoff::default()), (1, 1));
    }
}
