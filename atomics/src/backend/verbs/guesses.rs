//! The values of words when this rank last saw them.

use std::cell::Cell;

use crate::WORD;
use crate::model::fabric::Word;

/// The value of a word when this rank last saw it: the first guess of a `fetch_store`.
#[derive(Default)]
pub(super) struct Guesses([Cell<(u32, u64, u64)>; 32]);

impl Guesses {
    #[inline]
    fn place(&self, at: Word) -> &Cell<(u32, u64, u64)> {
        &self.0[(at.disp().0 / WORD) as usize % self.0.len()]
    }

    #[inline]
    pub(super) fn note(&self, at: Word, value: u64) {
        self.place(at).set((at.rank().0, at.disp().0, value));
    }

    /// Returns the guess for a word: 0, the usual value at rest, if the word is not known.
    #[inline]
    pub(super) fn of(&self, at: Word) -> u64 {
        let (rank, disp, value) = self.place(at).get();
        if (rank, disp) == (at.rank().0, at.disp().0) { value } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fabric::WorldView;
    use crate::{Capabilities, Disp, Operation, Rank, SymmetricHeap, Topology};

    #[test]
    fn the_first_guess_is_the_last_value_seen() {
        let guesses = Guesses::default();
        let (capabilities, heap) = (Capabilities::coherent("test"), SymmetricHeap::new(128));
        let view = WorldView::new(Rank(0), 128, capabilities, Topology::one_node(4), heap).unwrap();
        let word = |rank| view.word(Operation::Get, Rank(rank).at(Disp(64))).unwrap();
        let (word, same_place) = (word(2), word(3));
        assert_eq!(guesses.of(word), 0);
        guesses.note(word, 9);
        assert_eq!((guesses.of(word), guesses.of(same_place)), (9, 0));
        guesses.note(same_place, 4);
        assert_eq!((guesses.of(word), guesses.of(same_place)), (0, 4), "one place, the last word in it");
    }
}
