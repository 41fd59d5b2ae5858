//! The steps of a rank that has to wait: it polls, and repairs the words in which failed ranks are in its way.

use rmalab_atomics::{Failed, Rank, RemoteAtomics};

use super::{
    ALL, Attempt, CHANGES, EXCLUSIVE, GATES, IN_ALL, IN_EXCLUSIVES, LOW, NOT_RECOVERABLE, RobustTwoLevel, SHARED,
    SOME_LOST,
};
use crate::qnode::{NIL, pointer, rank_of};
use crate::recoverable::{self, Entry, Recoverable};
use crate::{Error, RawMutex, Result, WindowLock};

const LOST: Error = Error::NotRecoverable { lock: RobustTwoLevel::NAME };

/// Returns the owner in a target's word, if it has failed.
fn orphaned(word: u64, failed: &Failed) -> Option<u64> {
    let owner = word & LOW;
    (owner != NIL && owner != NOT_RECOVERABLE && failed.contains(rank_of(owner))).then_some(owner)
}

impl RobustTwoLevel {
    /// Waits for the owner of a target in which this rank is counted. `word` is the target's word.
    #[cold]
    pub(super) fn wait_for_owner<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        target: Rank,
        mut word: u64,
        recovers: bool,
    ) -> Result<Entry> {
        self.backoff.reset();
        while word & LOW != NIL {
            if word & LOW == NOT_RECOVERABLE {
                self.count_shared(ra, target, false)?;
                return Err(LOST);
            }
            let failed = self.ask(ra, recovers)?;
            if orphaned(word, &failed).is_some() && self.takes_over(ra, &failed, target)? {
                self.gives_back = true;
                return Ok(Entry::OwnerDead(failed));
            }
            self.pause(ra, recovers)?;
            word = ra.get(self.word_of(target))?;
        }
        Ok(Entry::Clean)
    }

    /// Makes the attempts at an exclusive lock after the first one. `master` is the word that has refused that one.
    #[cold]
    pub(super) fn retry<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        target: Rank,
        master: u64,
        recovers: bool,
        close: impl FnMut(&mut RobustTwoLevel, &A) -> Result<()>,
    ) -> Result<Entry> {
        let entry = self.retry_counted(ra, target, master, recovers, close);
        if entry.is_err() && self.is_counted() && self.exclusives == 0 {
            // It has closed the gates, and has no target.
            self.uncount(ra)?;
        }
        entry
    }

    fn retry_counted<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        target: Rank,
        mut master: u64,
        recovers: bool,
        mut close: impl FnMut(&mut RobustTwoLevel, &A) -> Result<()>,
    ) -> Result<Entry> {
        self.backoff.reset();
        // The failed ranks that are not in any count which keeps this rank out.
        let mut recounted = Failed::default();
        loop {
            if master & GATES != 0 {
                close(self, ra)?;
                master = 0;
                if self.takes(ra, target)? {
                    return Ok(Entry::Clean);
                }
            }
            let word = ra.get(self.word_of(target))?;
            if word & LOW == NOT_RECOVERABLE {
                return Err(LOST);
            }
            if word == 0 {
                match self.attempt_again(ra, target)? {
                    Attempt::Success => return Ok(Entry::Clean),
                    Attempt::Refused(seen) => master = seen,
                }
                if master & GATES != 0 {
                    continue;
                }
            }
            let failed = self.ask(ra, recovers)?;
            if orphaned(word, &failed).is_some() {
                if self.takes_over(ra, &failed, target)? {
                    self.gives_back = false;
                    return Ok(Entry::OwnerDead(failed));
                }
            } else if word & LOW == NIL && self.may_count(word | master & !GATES, &failed) && failed != recounted {
                self.alone(ra, failed.clone(), |lock, ra, failed| lock.recount(ra, failed, target))?;
                recounted = failed;
            }
            self.pause(ra, recovers)?;
        }
    }

    /// Makes a later attempt, after the target was free. It leaves no trace beside a lock_all (I4).
    pub(super) fn attempt_again<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank) -> Result<Attempt> {
        if self.is_counted() {
            return Ok(if self.takes(ra, target)? { Attempt::Success } else { Attempt::Refused(0) });
        }
        let master = ra.get(self.master)?;
        if master >= ALL {
            return Ok(Attempt::Refused(master));
        }
        self.begin(ra)?;
        if ra.compare_and_swap(self.master, master, master + self.share(EXCLUSIVE))? != master {
            if self.announces {
                // No change, and no new number, since these would have no end.
                self.own_announced(ra).put(0, self.announced)?;
            }
            return Ok(Attempt::Refused(0));
        }
        let taken = self.takes(ra, target);
        if !matches!(taken, Ok(true)) {
            self.retreat(ra)?;
            return taken.map(|_| Attempt::Refused(0));
        }
        self.end(ra, IN_EXCLUSIVES)?;
        Ok(Attempt::Success)
    }

    /// Waits in lock_all, in which this rank is counted, for all exclusive locks. `master` is the master's word.
    #[cold]
    pub(crate) fn wait_for_exclusives<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        mut master: u64,
        recovers: bool,
    ) -> Result<Entry> {
        self.backoff.reset();
        // The failed ranks that are no longer counted.
        let mut recounted = Failed::default();
        while master & LOW != 0 {
            if master & SOME_LOST != 0 {
                self.count(ra, self.share(ALL).wrapping_neg(), IN_ALL)?;
                return Err(LOST);
            }
            let failed = self.ask(ra, recovers)?;
            if failed != recounted {
                let is_recounted = self.alone(ra, failed.clone(), |lock, ra, failed| lock.take_all(ra, failed))?;
                if !self.told.is_empty() {
                    self.gives_back = true;
                    return Ok(Entry::OwnerDead(failed));
                }
                if is_recounted {
                    recounted = failed;
                }
            }
            self.pause(ra, recovers)?;
            master = ra.get(self.master)?;
        }
        Ok(Entry::Clean)
    }

    /// Makes the targets unusable for all ranks for which this rank got `OwnerDead` and has not declared the data
    /// consistent.
    #[cold]
    pub(super) fn give_up<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        // First, so that no lock_all gets in when this rank is no longer counted.
        let mut master = ra.get(self.master)?;
        while master & SOME_LOST == 0 {
            let before = ra.compare_and_swap(self.master, master, master | SOME_LOST)?;
            master = if before == master { master | SOME_LOST } else { before };
        }
        self.is_simple = !self.announces;
        for target in std::mem::take(&mut self.told) {
            self.disown(ra, target, NOT_RECOVERABLE)?;
        }
        Ok(())
    }

    /// Returns the failures that this rank knows, and acknowledges them, if it goes on after failures.
    pub(crate) fn ask<A: RemoteAtomics + ?Sized>(&self, ra: &A, recovers: bool) -> Result<Failed> {
        if recovers { recoverable::acknowledged(ra) } else { Ok(Failed::default()) }
    }

    /// Pauses between two polls.
    pub(crate) fn pause<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, recovers: bool) -> Result<()> {
        let paused = self.backoff.wait(ra);
        if recovers { recoverable::interruptible(paused) } else { paused }
    }

    /// Runs `body` while no other rank repairs, with the ranks that have failed and are silent (I6). These are `failed`, and in the next
    /// round all failed ranks that are known then.
    fn alone<A: RemoteAtomics + ?Sized, T>(
        &mut self,
        ra: &A,
        mut failed: Failed,
        body: impl Fn(&mut RobustTwoLevel, &A, &Failed) -> Result<Option<T>>,
    ) -> Result<T> {
        // A rank that has failed in a repair has left nothing half done on which this repair relies.
        let _ = self.repairs.recoverable_acquire(ra)?;
        let mut rounds = || loop {
            ra.silence(&failed)?;
            if let Some(done) = body(self, ra, &failed)? {
                return Ok(done);
            }
            recoverable::interruptible(ra.pause(1).map_err(Error::from))?;
            failed = recoverable::acknowledged(ra)?;
        };
        let done = rounds();
        // After an error, too: a lost target is the caller's loss only.
        self.repairs.release(ra).and(done)
    }

    /// Makes this rank the owner of a target whose owner has failed. Returns whether that owner was still there.
    fn takes_over<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, failed: &Failed, target: Rank) -> Result<bool> {
        self.alone(ra, failed.clone(), |lock, ra, failed| {
            let owner = orphaned(ra.get(lock.word_of(target))?, failed);
            if let Some(owner) = owner {
                lock.own(ra, target, owner)?;
            }
            Ok(Some(owner.is_some()))
        })
    }

    /// Replaces an owner that has failed by this rank. The caller is alone (I6).
    fn own<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank, owner: u64) -> Result<()> {
        if !self.is_counted() {
            // Lock_alls may wait at the same time. The owner's count keeps them out (I7).
            self.count(ra, self.share(EXCLUSIVE), IN_EXCLUSIVES)?;
        }
        let owned = ra.fetch_add(self.word_of(target), pointer(self.me).wrapping_sub(owner));
        if owned.is_err() && self.exclusives == 0 {
            self.uncount(ra)?;
        }
        owned?;
        self.exclusives += 1;
        self.tell(target);
        Ok(())
    }

    /// Notes a target that this rank has taken over.
    pub(super) fn tell(&mut self, target: Rank) {
        self.told.push(target);
        self.is_simple = false;
    }

    /// Returns whether a failed rank may be counted in the high half of a word.
    fn may_count(&self, word: u64, failed: &Failed) -> bool {
        if self.announces { word > LOW } else { (word / ALL) & bits(failed) != 0 }
    }

    /// Returns the announcements of the other live ranks, with their ranks, if none of them is about to change a count or has failed. There
    /// are none if ranks have bits.
    fn look<A: RemoteAtomics + ?Sized>(&self, ra: &A, failed: &Failed) -> Result<Option<Vec<(Rank, u64)>>> {
        let mut announced = Vec::new();
        if !self.announces {
            return Ok(Some(announced));
        }
        for rank in (0..ra.size()).map(Rank).filter(|&rank| rank != self.me && !failed.contains(rank)) {
            match recoverable::unless_lost(ra.get(self.own_word(rank, 0)))? {
                Some(word) if word & CHANGES == 0 => announced.push((rank, word)),
                // It is about to change a count, or has failed meanwhile.
                _ => return Ok(None),
            }
        }
        Ok(Some(announced))
    }

    /// Takes the failed ranks out of the counts that keep an exclusive lock out, unless these change meanwhile (I5). This rank is in none
    /// of them.
    fn recount<A: RemoteAtomics + ?Sized>(&self, ra: &A, failed: &Failed, target: Rank) -> Result<Option<()>> {
        let Some(announced) = self.look(ra, failed)? else { return Ok(None) };
        let mut gone_all = (ra.get(self.master)? & !GATES) / ALL;
        let mut gone_shared = ra.get(self.word_of(target))? / SHARED;
        if !self.announces {
            gone_all &= bits(failed);
            gone_shared &= bits(failed);
        }
        let (word, bit) = (1 + u64::from(target.0 / u64::BITS), target.0 % u64::BITS);
        for &(rank, announced) in &announced {
            gone_all = gone_all.wrapping_sub(u64::from(announced & IN_ALL != 0));
            let Some(shared) = recoverable::unless_lost(ra.get(self.own_word(rank, word)))? else { return Ok(None) };
            gone_shared = gone_shared.wrapping_sub(shared >> bit & 1);
        }
        if self.look(ra, failed)? != Some(announced) {
            return Ok(None);
        }
        if gone_all != 0 {
            ra.fetch_add(self.master, gone_all.wrapping_mul(ALL).wrapping_neg())?;
        }
        if gone_shared != 0 {
            ra.fetch_add(self.word_of(target), gone_shared.wrapping_mul(SHARED).wrapping_neg())?;
        }
        Ok(Some(()))
    }

    /// If no live rank holds an exclusive lock, takes over all targets whose owners have failed, and takes the other failed ranks out of
    /// the master's count. Returns whether no failed rank is counted.
    fn take_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, failed: &Failed) -> Result<Option<bool>> {
        let Some(announced) = self.look(ra, failed)? else { return Ok(None) };
        let counted = ra.get(self.master)? & LOW & !SOME_LOST;
        let is_live_exclusive = if self.announces {
            announced.iter().any(|(_, word)| word & IN_EXCLUSIVES != 0)
        } else {
            counted & !bits(failed) != 0
        };
        if is_live_exclusive {
            // That owner keeps this rank out in any case.
            return Ok(Some(false));
        }
        let mut owned = Vec::new();
        for target in (0..ra.size()).map(Rank) {
            // A target that is lost with its rank has no owner any more.
            let word = recoverable::unless_lost(ra.get(self.word_of(target)))?;
            owned.extend(word.and_then(|word| orphaned(word, failed)).map(|owner| (target, owner)));
        }
        let owners: Failed = owned.iter().map(|&(_, owner)| rank_of(owner)).collect();
        if self.look(ra, failed)? != Some(announced) {
            return Ok(None);
        }
        let gone = counted.wrapping_sub(if self.announces { owners.iter().count() as u64 } else { bits(&owners) });
        if gone != 0 {
            ra.fetch_add(self.master, gone.wrapping_neg())?;
        }
        for &(target, owner) in &owned {
            self.own(ra, target, owner)?;
        }
        Ok(Some(owned.is_empty()))
    }
}

/// Returns the bits of these ranks, which have bits.
fn bits(ranks: &Failed) -> u64 {
    ranks.iter().fold(0, |bits, rank| bits | 1 << rank.0)
}
