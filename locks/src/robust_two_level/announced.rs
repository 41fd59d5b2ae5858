//! The changes of counts, each of which a rank announces in its own words (I5), so that survivors can recount.

use rmalab_atomics::{Address, Rank, RemoteAtomics};

use super::{CHANGES, NUMBER, RobustTwoLevel, SHARED};
use crate::Result;
use crate::own::Own;

/// Announces in the rank's own word that a count is about to change. `announced` is the old announcement.
#[inline(always)]
pub(super) fn begin<A: RemoteAtomics + ?Sized>(own: &Own<'_, A, 1>, announced: u64) -> Result<()> {
    own.post(0, announced | CHANGES)?;
    own.order()
}

impl RobustTwoLevel {
    pub(super) fn own_word(&self, rank: Rank, word: u64) -> Address {
        rank.at(self.own.word(word)).unwatched()
    }

    #[inline(always)]
    pub(super) fn own_announced<'a, A: RemoteAtomics + ?Sized>(&self, ra: &'a A) -> Own<'a, A, 1> {
        Own::new(ra, self.own)
    }

    /// Announces that the change of a count is over.
    #[inline(always)]
    pub(super) fn end<A: RemoteAtomics + ?Sized>(&mut self, own: &Own<'_, A, 1>, announced: u64) -> Result<()> {
        self.announced = announced.wrapping_add(NUMBER);
        own.post(0, self.announced)
    }

    /// Changes a count in the master, and returns the old word. `changed` are the bits of the announcement that flip.
    #[inline(always)]
    pub(crate) fn count<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, difference: u64, changed: u64) -> Result<u64> {
        let (own, announced) = (self.own_announced(ra), self.announced);
        begin(&own, announced)?;
        let before = ra.fetch_add(self.master.unwatched(), difference)?;
        self.end(&own, announced ^ changed)?;
        Ok(before)
    }

    /// Changes the count in the target, and returns the old word.
    #[inline(always)]
    pub(super) fn count_shared<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        target: Rank,
        difference: u64,
    ) -> Result<u64> {
        let (own, announced) = (self.own_announced(ra), self.announced);
        begin(&own, announced)?;
        let before = ra.fetch_add(self.word_of(target), difference);
        // The words of a target that is lost count no rank.
        let is_counted = difference == SHARED && before.is_ok();
        let (word, bit) = (target.index() / u64::BITS as usize, target.0 % u64::BITS);
        let shared = self.shared[word] & !(1 << bit) | u64::from(is_counted) << bit;
        self.shared[word] = shared;
        Own::<_, 1>::new(ra, self.own.word(1 + word as u64)).post(0, shared)?;
        self.end(&own, announced)?;
        Ok(before?)
    }
}
