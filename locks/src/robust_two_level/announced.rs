//! The changes of the words in which ranks count themselves, and what each of them announces (I5) if ranks have no bits there.

use rmalab_atomics::{Address, Rank, RemoteAtomics};

use super::{CHANGES, IN_EXCLUSIVES, NUMBER, RobustTwoLevel, SHARED};
use crate::Result;
use crate::own::Own;

impl RobustTwoLevel {
    /// Returns what this rank adds to a word that counts in units of `unit`: its own bit, or 1 if it announces its counts.
    #[inline(always)]
    pub(crate) fn share(&self, unit: u64) -> u64 {
        self.share * unit
    }

    /// Announces that a count is about to change, if ranks announce.
    #[inline(always)]
    pub(super) fn begin<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        if self.announces {
            let own = self.own_announced(ra);
            own.post(0, self.announced | CHANGES)?;
            own.order()?;
        }
        Ok(())
    }

    pub(super) fn own_word(&self, rank: Rank, word: u64) -> Address {
        rank.at(self.own.word(word)).unwatched()
    }

    #[inline(always)]
    pub(super) fn own_announced<'a, A: RemoteAtomics + ?Sized>(&self, ra: &'a A) -> Own<'a, A, 1> {
        Own::new(ra, self.own)
    }

    /// Notes the change of a bit. There is no store for a lock_all, since the next locked instruction would wait for it.
    #[inline(always)]
    fn note(&mut self, changed: u64) {
        if changed & IN_EXCLUSIVES != 0 {
            self.announced ^= IN_EXCLUSIVES;
        }
    }

    /// Ends the change of a count. `changed` are the bits of the announcement that flip.
    #[inline(always)]
    pub(super) fn end<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, changed: u64) -> Result<()> {
        if !self.announces {
            self.note(changed);
            return Ok(());
        }
        self.announced = (self.announced ^ changed).wrapping_add(NUMBER);
        self.own_announced(ra).post(0, self.announced)
    }

    /// Changes a count in the master, and returns the old word. `changed` are the bits of the announcement that flip.
    #[inline(always)]
    pub(crate) fn count<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, difference: u64, changed: u64) -> Result<u64> {
        // The condition comes once, since all that follows a locked instruction waits for it.
        if self.is_simple || !self.announces {
            let before = ra.fetch_add(self.master.unwatched(), difference)?;
            self.note(changed);
            return Ok(before);
        }
        self.begin(ra)?;
        let before = ra.fetch_add(self.master.unwatched(), difference)?;
        self.end(ra, changed)?;
        Ok(before)
    }

    /// Counts this rank in the target as a shared lock, or no longer, and returns the old word.
    #[inline(always)]
    pub(super) fn count_shared<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        target: Rank,
        enters: bool,
    ) -> Result<u64> {
        let share = self.share(SHARED);
        let difference = if enters { share } else { share.wrapping_neg() };
        if self.is_simple || !self.announces {
            return Ok(ra.fetch_add(self.word_of(target), difference)?);
        }
        self.begin(ra)?;
        let before = ra.fetch_add(self.word_of(target), difference);
        // The words of a target that is lost count no rank.
        let is_counted = enters && before.is_ok();
        let (word, bit) = (target.index() / u64::BITS as usize, target.0 % u64::BITS);
        let shared = self.shared[word] & !(1 << bit) | u64::from(is_counted) << bit;
        self.shared[word] = shared;
        Own::<_, 1>::new(ra, self.own.word(1 + word as u64)).post(0, shared)?;
        self.end(ra, 0)?;
        Ok(before?)
    }
}
