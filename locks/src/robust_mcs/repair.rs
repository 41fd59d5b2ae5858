//! The repair of the robust MCS mutex, by one rank at a time. It moves ranks that wait behind failed ranks.

use rmalab_atomics::{Error as AtomicsError, Failed, Rank, RemoteAtomics};

use super::{GRANTED, NOT_RECOVERABLE, RobustMcs};
use crate::qnode::{NIL, rank_of};
use crate::recoverable::{self, Entry, Recoverable};
use crate::word_ref::{HAS, NEXT, OUTSIDE, WordRef, chain};
use crate::{Error, RawMutex, Result};

/// The outcome of a repair for the rank that makes it.
pub(super) enum Placed {
    Inside(Entry),
    /// Behind this pointer, which may already have a link to this rank.
    Behind(u64, bool),
    NotRecoverable,
}

impl RobustMcs {
    /// Runs `body` with the ranks that have failed and are silent, while no other rank repairs.
    fn alone<A: RemoteAtomics + ?Sized, T>(
        &mut self,
        ra: &A,
        body: impl Fn(&RobustMcs, &A, &Failed) -> Result<Option<T>>,
    ) -> Result<T> {
        // A rank that has failed in a repair has left nothing half done on which this repair relies.
        let _ = self.repairs.recoverable_acquire(ra)?;
        let done = loop {
            let failed = recoverable::acknowledged(ra)?;
            ra.silence(&failed)?;
            recoverable::check_home(ra, self.tail.rank, &failed)?;
            match body(self, ra, &failed) {
                Ok(Some(done)) => break done,
                Ok(None) => {}
                // A rank has failed meanwhile, whose announcement is lost. The next round goes without it.
                Err(Error::Atomics(AtomicsError::PeerFailed { .. })) => {}
                Err(error) => return Err(error),
            }
            // A repair may take any number of rounds, so it has to bound its puts under way.
            ra.flush(self.node.me)?;
            recoverable::interruptible(ra.pause(1).map_err(Error::from))?;
        };
        // The next repair sees what this rank has announced.
        ra.flush(self.node.me)?;
        self.repairs.release(ra)?;
        Ok(done)
    }

    /// Returns the announcements of the other live ranks, if none of them has a step under way, and no announcement has
    /// changed meanwhile.
    fn word_refs<A: RemoteAtomics + ?Sized>(&self, ra: &A, failed: &Failed) -> Result<Option<Vec<WordRef>>> {
        let mut word_refs = Vec::new();
        for rank in (0..ra.size()).map(Rank).filter(|&rank| rank != self.node.me && !failed.contains(rank)) {
            let word_ref = WordRef::of(rank, ra.get(self.node.announced_by(rank))?);
            if !matches!(word_ref.what, OUTSIDE | HAS) {
                return Ok(None);
            }
            word_refs.push(word_ref);
        }
        for word_ref in &word_refs {
            let rank = rank_of(word_ref.rank);
            if WordRef::of(rank, ra.get(self.node.announced_by(rank))?) != *word_ref {
                return Ok(None);
            }
        }
        Ok(Some(word_refs))
    }

    fn is_granted<A: RemoteAtomics + ?Sized>(&self, ra: &A, waiter: u64) -> Result<bool> {
        Ok(ra.get(self.node.grant_of(waiter))? & !NOT_RECOVERABLE == waiter >> 32)
    }

    /// Gives another place to this rank, which waits behind a rank that has failed.
    #[cold]
    pub(super) fn repair<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Placed> {
        self.alone(ra, |lock, ra, failed| lock.place(ra, failed))
    }

    fn place<A: RemoteAtomics + ?Sized>(&self, ra: &A, failed: &Failed) -> Result<Option<Placed>> {
        if self.is_granted(ra, self.pointer())? {
            return Ok(Some(Placed::Inside(Entry::Clean)));
        }
        let tail = ra.get(self.tail)?;
        let Some(word_refs) = self.word_refs(ra, failed)? else { return Ok(None) };
        let (mine, last) = chain(&word_refs, self.pointer());
        if !mine.contains(&tail) {
            // The last rank has to look for a successor again, since it may be linked to a rank that has failed.
            let link = self.node.next_of(last);
            let old = ra.get(link)?;
            if old as u32 != 0 && failed.contains(rank_of(old)) {
                ra.compare_and_swap(link, old, last >> 32 << 32)?;
            }
            let before = ra.fetch_store(self.tail, last)?;
            self.announce(ra, HAS, if before == NOT_RECOVERABLE { NIL } else { before })?;
            return Ok(match before {
                NIL => Some(Placed::Inside(Entry::OwnerDead(failed.clone()))),
                NOT_RECOVERABLE => Some(Placed::NotRecoverable),
                _ if failed.contains(rank_of(before)) => None,
                _ => Some(Placed::Behind(before, false)),
            });
        }
        let Some(first) = self.first(ra, failed, &word_refs, &mine)? else {
            self.announce(ra, HAS, NIL)?;
            return Ok(Some(Placed::Inside(Entry::OwnerDead(failed.clone()))));
        };
        let (_, before) = chain(&word_refs, first);
        self.announce(ra, HAS, before)?;
        let link = self.node.next_of(before);
        let old = ra.get(link)?;
        let is_free = old == before >> 32 << 32 || old as u32 != 0 && failed.contains(rank_of(old));
        if is_free && ra.compare_and_swap(link, old, self.pointer())? == old {
            return Ok(Some(Placed::Behind(before, true)));
        }
        // The next round corrects the announcement, before the end of this repair.
        Ok(None)
    }

    /// Returns the live rank outside of `mine` that holds the lock or is granted it.
    fn first<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        failed: &Failed,
        word_refs: &[WordRef],
        mine: &[u64],
    ) -> Result<Option<u64>> {
        for word_ref in word_refs.iter().filter(|word_ref| word_ref.what == HAS && !mine.contains(&word_ref.rank)) {
            let is_first = if word_ref.behind == NIL {
                true
            } else if failed.contains(rank_of(word_ref.behind)) {
                self.is_granted(ra, word_ref.rank)?
            } else {
                let others = word_refs.iter().filter(|other| other.what == HAS).map(|other| other.rank);
                !others.chain([self.pointer()]).any(|other| other == word_ref.behind)
            };
            if is_first {
                return Ok(Some(word_ref.rank));
            }
        }
        Ok(None)
    }

    /// Releases the lock to a rank that waits behind a failed rank, or leaves it free. Returns false if a live successor
    /// has linked itself, or is going to.
    #[cold]
    pub(super) fn leave_to_another<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        self.alone(ra, |lock, ra, failed| {
            let next = lock.node.own(ra).get(NEXT)?;
            if next as u32 != 0 && !failed.contains(rank_of(next)) {
                return Ok(Some(false));
            }
            let Some(word_refs) = lock.word_refs(ra, failed)? else { return Ok(None) };
            if word_refs.iter().any(|word_ref| word_ref.what == HAS && word_ref.behind == lock.pointer()) {
                // Its link may be on its way. The link of a dead rank must not end the wait for it.
                return Ok(if next as u32 == 0 { Some(false) } else { None });
            }
            for word_ref in word_refs.iter().filter(|word_ref| word_ref.what == HAS && word_ref.behind != NIL) {
                if failed.contains(rank_of(word_ref.behind)) && !lock.is_granted(ra, word_ref.rank)? {
                    lock.node.own(ra).put(NEXT, GRANTED)?;
                    // A rank that has failed is as good as granted.
                    let grant = word_ref.rank >> 32 | lock.leaves;
                    recoverable::unless_lost(ra.fetch_store(lock.node.grant_of(word_ref.rank), grant))?;
                    lock.leave(ra)?;
                    return Ok(Some(true));
                }
            }
            let tail = ra.get(lock.tail)?;
            let is_of_none = tail == lock.pointer() || failed.contains(rank_of(tail));
            if is_of_none && ra.compare_and_swap(lock.tail, tail, lock.leaves)? == tail {
                lock.leave(ra)?;
                return Ok(Some(true));
            }
            Ok(None)
        })
    }
}
