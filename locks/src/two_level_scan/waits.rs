//! Waits, tries and deadlines of [`TwoLevelScan`].

use rmalab_atomics::{Address, Rank, RemoteAtomics, Time, Until};

use super::{ALL, EXCLUSIVE, SEVERAL_MASK, SHARED, TwoLevelScan};
use crate::two_level::{Limit, passed};
use crate::{LockKind, Result, WindowLockTimed};

impl WindowLockTimed for TwoLevelScan {
    fn try_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<bool> {
        let at = self.word_of(target);
        if kind == LockKind::Exclusive {
            return self.takes(ra, at);
        }
        let is_free = ra.fetch_add(at.unwatched(), SHARED)? & EXCLUSIVE == 0;
        keep(ra, at, SHARED, is_free)
    }

    fn lock_until<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        deadline: Time,
    ) -> Result<bool> {
        let at = self.word_of(target);
        if kind == LockKind::Exclusive {
            return Ok(self.takes(ra, at)? || self.retry(ra, at, Some(deadline))?);
        }
        let is_free = ra.fetch_add(at.unwatched(), SHARED)? & EXCLUSIVE == 0;
        let is_free = is_free || self.clear(ra, at, EXCLUSIVE, Some(deadline))?;
        keep(ra, at, SHARED, is_free)
    }

    fn try_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        ra.fetch_add(self.master.unwatched(), ALL)?;
        let is_free = self.sees_none(ra)?;
        keep(ra, self.master, ALL, is_free)
    }

    fn lock_all_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        ra.fetch_add(self.master.unwatched(), ALL)?;
        let is_free = self.sees_none(ra)? || self.wait_for_exclusives(ra, Some(deadline))?;
        keep(ra, self.master, ALL, is_free)
    }
}

impl TwoLevelScan {
    /// Repeats attempts at an exclusive lock, after a failed one, until one succeeds. Returns `false` at the limit.
    #[cold]
    pub(super) fn retry<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, at: Address, limit: Limit) -> Result<bool> {
        self.backoff.reset();
        while !passed(ra, limit) {
            self.backoff.wait(ra)?;
            // A look at both words ahead of the attempt (I5).
            let is_kept_out = self.exclusives == 0 && ra.get(self.master)? >= ALL;
            if !is_kept_out && ra.get(at)? == 0 && self.takes(ra, at)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits in lock_all until this rank sees no exclusive lock. Returns `false` at the limit.
    #[cold]
    pub(super) fn wait_for_exclusives<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, limit: Limit) -> Result<bool> {
        loop {
            for target in (0..ra.size()).map(Rank) {
                let at = self.word_of(target);
                if ra.get(at)? & EXCLUSIVE != 0 && !self.clear(ra, at, EXCLUSIVE, limit)? {
                    return Ok(false);
                }
            }
            if ra.get(self.master)? & SEVERAL_MASK == 0 {
                return Ok(true);
            }
            // The targets are looked at again: a counted rank may have taken one meanwhile.
            if !self.clear(ra, self.master, SEVERAL_MASK, limit)? {
                return Ok(false);
            }
        }
    }

    /// Waits until no bit of `obstacle` is set in the word `at`. Returns `false` at the limit.
    #[cold]
    pub(super) fn clear<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        at: Address,
        obstacle: u64,
        limit: Limit,
    ) -> Result<bool> {
        self.backoff.reset();
        if at.rank == ra.rank() {
            let until = Until::NoneSet(obstacle);
            return Ok(match limit {
                None => Some(ra.wait_until(at.disp, until)?),
                Some(deadline) => ra.wait_until_deadline(at.disp, until, deadline)?,
            }
            .is_some());
        }
        while !passed(ra, limit) {
            self.backoff.wait(ra)?;
            if ra.get(at)? & obstacle == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Takes this rank's `count` out of the word `at` if the way is not free. Returns `is_free`.
fn keep<A: RemoteAtomics + ?Sized>(ra: &A, at: Address, count: u64, is_free: bool) -> Result<bool> {
    if !is_free {
        ra.fetch_add(at.unwatched(), count.wrapping_neg())?;
    }
    Ok(is_free)
}
