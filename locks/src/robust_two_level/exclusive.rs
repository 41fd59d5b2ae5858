//! The steps of an exclusive lock without a wait, and of its unlock.

use rmalab_atomics::{Rank, RemoteAtomics};

use super::{ALL, EXCLUSIVE, IN_EXCLUSIVES, RobustTwoLevel};
use crate::Result;
use crate::qnode::pointer;

/// The result of an attempt at an exclusive lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    Success,
    /// The attempt has left no trace. This was the master's word if it refused the attempt, and otherwise less than [`ALL`].
    Refused(u64),
}

impl RobustTwoLevel {
    /// Makes the first attempt at an exclusive lock. It takes the paper's step in the master.
    #[inline(always)]
    pub(super) fn attempt<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank) -> Result<Attempt> {
        if self.exclusives > 0 {
            return Ok(if self.takes(ra, target)? { Attempt::Success } else { Attempt::Refused(0) });
        }
        self.begin(ra)?;
        let master = ra.fetch_add(self.master.unwatched(), self.share(EXCLUSIVE))?;
        let taken = if master < ALL { self.takes(ra, target) } else { Ok(false) };
        if !matches!(taken, Ok(true)) {
            self.retreat(ra)?;
            return taken.map(|_| Attempt::Refused(master));
        }
        if self.announces {
            self.end(ra, IN_EXCLUSIVES)?;
        }
        Ok(Attempt::Success)
    }

    /// Ends an attempt that has failed.
    #[inline(never)]
    pub(super) fn retreat<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.master, self.share(EXCLUSIVE).wrapping_neg())?;
        self.end(ra, 0)
    }

    /// Returns whether this rank is counted in the master as exclusive. Each owner of a target is, so the first attempt does not note it.
    #[inline(always)]
    pub(super) fn is_counted(&self) -> bool {
        self.exclusives > 0 || self.announced & IN_EXCLUSIVES != 0
    }

    /// Takes this rank, which owns no target, out of the master.
    #[inline(always)]
    pub(super) fn uncount<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let difference = self.share(EXCLUSIVE).wrapping_neg();
        if self.announces {
            return self.count(ra, difference, IN_EXCLUSIVES).map(drop);
        }
        ra.fetch_add(self.master.unwatched(), difference)?;
        // The next locked instruction would wait for a store.
        if self.announced != 0 {
            self.announced = 0;
        }
        Ok(())
    }

    /// Takes the target if it is free. This rank is counted in the master.
    #[inline(always)]
    pub(super) fn takes<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank) -> Result<bool> {
        let taken = ra.compare_and_swap(self.word_of(target), 0, pointer(self.me))? == 0;
        self.exclusives += u32::from(taken);
        Ok(taken)
    }

    /// Makes `owner` the target's owner in place of this rank.
    #[inline(always)]
    pub(super) fn disown<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank, owner: u64) -> Result<()> {
        let disowned = ra.fetch_add(self.word_of(target), owner.wrapping_sub(pointer(self.me)));
        self.exclusives -= 1;
        // The master after the target, for I1. Also if the target is lost, so that this rank keeps no lock_all out.
        if self.exclusives == 0 {
            self.uncount(ra)?;
        }
        disowned?;
        Ok(())
    }
}
