//! The announcement that a rank of a repairable queue keeps in its own memory: its place in the queue.
//!
//! A pointer is a rank plus one, with the number of one of its acquisitions from bit 32 on.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};

use crate::own::Own;
use crate::qnode::{pointer, rank_of};

/// The largest number of an acquisition. Numbers begin at 1, and wrap around.
pub(crate) const NUMBERS: u64 = (1 << 22) - 1;
/// The largest number of ranks: an announcement has 16 bits for a rank.
pub(crate) const RANKS: u32 = u16::MAX as u32;

/// The rank has no place.
pub(crate) const OUTSIDE: u64 = 0;
/// The rank is about to take a place: no other rank can know where.
pub(crate) const TAKES: u64 = 1;
/// The rank has a place: behind a pointer, or as the first.
pub(crate) const HAS: u64 = 2;

/// A rank's word, which refers to its place in the queue. It has 3 bits for the rank's state, 22 bits for its number, and
/// 16 and 22 bits for the pointer that it is behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WordRef {
    /// The state of the rank. Each lock defines the values from 3 on.
    pub(crate) what: u64,
    /// The rank, with the number of its acquisition.
    pub(crate) rank: u64,
    /// The pointer that it is behind; nil for a rank that was first.
    pub(crate) behind: u64,
}

/// Returns the word of a rank with this number that is behind no other rank.
#[inline(always)]
pub(crate) fn says(what: u64, number: u64) -> u64 {
    what | number << 3
}

impl WordRef {
    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        let (rank, number) = (u64::from(self.behind as u32), self.behind >> 32);
        self.what | (self.rank >> 32) << 3 | rank << 25 | number << 41
    }

    pub(crate) fn of(rank: Rank, word: u64) -> WordRef {
        let number = |at: u32| word >> at & NUMBERS;
        let behind = (word >> 25 & u64::from(u16::MAX)) | number(41) << 32;
        WordRef { what: word & 7, rank: pointer(rank) | number(3) << 32, behind }
    }
}

/// The words of a [`Node`].
pub(crate) const NEXT: usize = 0;
pub(crate) const GRANT: usize = 1;
pub(crate) const ANNOUNCED: usize = 2;

/// The words of each rank in a repairable queue, and the rank that has this handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) me: Rank,
    pub(crate) next: Disp,
    pub(crate) grant: Disp,
    announced: Disp,
}

impl Node {
    pub(crate) const WORDS: usize = 3;
    pub(crate) const BYTES: u64 = Node::WORDS as u64 * WORD;

    /// Makes the node of `me` that starts at `node` in every segment.
    pub(crate) fn new(me: Rank, node: Disp) -> Node {
        let word = |index| node.word(index as u64);
        Node { me, next: word(NEXT), grant: word(GRANT), announced: word(ANNOUNCED) }
    }

    /// Returns this rank's own words, for its own steps.
    #[inline(always)]
    pub(crate) fn own<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Own<'_, A, { Node::WORDS }> {
        Own::new(ra, self.next)
    }

    /// Returns the pointer to this rank with a number.
    #[inline(always)]
    pub(crate) fn pointer(self, number: u64) -> u64 {
        pointer(self.me) | number << 32
    }

    pub(crate) fn next_of(self, waiter: u64) -> Address {
        rank_of(waiter).at(self.next)
    }

    pub(crate) fn grant_of(self, waiter: u64) -> Address {
        rank_of(waiter).at(self.grant)
    }

    pub(crate) fn announced_by(self, rank: Rank) -> Address {
        rank.at(self.announced).unwatched()
    }
}

/// Returns `begin` and the ranks that wait behind it, one behind the other, and the last of them.
pub(crate) fn chain(word_refs: &[WordRef], begin: u64) -> (Vec<u64>, u64) {
    let mut chain = vec![begin];
    let mut last = begin;
    while let Some(word_ref) = word_refs.iter().find(|word_ref| word_ref.what == HAS && word_ref.behind == last) {
        last = word_ref.rank;
        chain.push(last);
    }
    (chain, last)
}
