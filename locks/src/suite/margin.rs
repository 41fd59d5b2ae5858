//! Words behind a lock's memory, which the lock must leave alone.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};

use crate::{LINE, Place, Result};

/// The value of the words.
const UNTOUCHED: u64 = 0x5afe_5afe_5afe_5afe;

/// The words behind a lock's shared words and behind its nodes, at each rank.
pub(super) struct Margin([Disp; 2]);

impl Margin {
    /// Like [`Place::alloc`], with these words.
    pub(super) fn alloc<A: RemoteAtomics + ?Sized>(
        ra: &A,
        home: Rank,
        words: u64,
        node: u64,
    ) -> Result<(Place, Margin)> {
        let alloc =
            |bytes: u64| Ok::<_, crate::Error>((ra.heap().alloc(bytes.max(1), LINE)?, ra.heap().alloc(LINE, WORD)?));
        let ((words, behind_words), (node, behind_node)) = (alloc(words)?, alloc(node)?);
        let margin = Margin([behind_words, behind_node]);
        for at in margin.words(ra.rank()) {
            ra.put(at, UNTOUCHED)?;
        }
        ra.flush(ra.rank())?;
        Ok((Place { home, words, node }, margin))
    }

    fn words(&self, rank: Rank) -> impl Iterator<Item = Address> {
        self.0.into_iter().flat_map(move |at| (0..LINE / WORD).map(move |word| rank.at(at.word(word))))
    }

    /// Checks that no rank has changed these words at this rank.
    pub(super) fn check<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        for at in self.words(ra.rank()) {
            assert_eq!(ra.get(at)?, UNTOUCHED, "{}: a word behind the lock's memory, {at}", ra.rank());
        }
        Ok(())
    }
}
