//! The arguments of [`Fabric`](crate::model::fabric::Fabric): words and bytes that exist, and operations on a word.

use crate::{Address, Disp, Operation, Rank};

/// A word that exists, from [`WorldView::word`](crate::model::fabric::WorldView::word).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Word {
    pub(crate) at: Address,
}

impl Word {
    /// Returns the rank of the segment that contains it.
    #[inline(always)]
    pub fn rank(self) -> Rank {
        self.at.rank
    }

    /// Returns the displacement in the segment: a multiple of 8.
    #[inline(always)]
    pub fn disp(self) -> Disp {
        self.at.disp
    }

    /// Returns whether a rank may wait on the word; see [`Address::unwatched`].
    #[inline(always)]
    pub fn watched(self) -> bool {
        self.at.watched
    }

    /// Returns its address.
    #[inline(always)]
    pub fn address(self) -> Address {
        self.at
    }

    /// Returns the word `index` words further on, which exists (the caller has checked that).
    #[inline(always)]
    pub(crate) fn next(self, index: u64) -> Word {
        Word { at: Address { disp: self.at.disp.word(index), ..self.at } }
    }

    /// Returns the same word in a world where its rank has the number `rank`.
    #[inline(always)]
    pub(crate) fn renumbered(self, rank: Rank) -> Word {
        Word { at: Address { rank, ..self.at } }
    }
}

/// Bytes that exist, from [`WorldView::span`](crate::model::fabric::WorldView::span).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    pub(crate) at: Address,
    pub(crate) len: usize,
}

impl Span {
    /// Returns the rank of the segment.
    #[inline(always)]
    pub fn rank(self) -> Rank {
        self.at.rank
    }

    /// Returns the displacement in the segment.
    #[inline(always)]
    pub fn disp(self) -> Disp {
        self.at.disp
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    pub fn address(self) -> Address {
        self.at
    }

    /// Returns the number of bytes.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the same bytes in a world where their rank has the number `rank`.
    #[inline(always)]
    pub(crate) fn renumbered(self, rank: Rank) -> Span {
        Span { at: Address { rank, ..self.at }, len: self.len }
    }
}

/// An operation on one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WordOp {
    /// Adds, modulo 2^64. The result is the old word.
    FetchAdd(u64),
    /// Stores `desired` if the word is `expected`. The result is the old word.
    CompareAndSwap {
        /// The value that the word must have.
        expected: u64,
        /// The new value.
        desired: u64,
    },
    /// Stores. The result is the old word.
    FetchStore(u64),
    /// The result is the word.
    Get,
    /// Stores, posted. The result is 0.
    Put(u64),
}

impl WordOp {
    /// Returns the operation's name, for errors.
    #[inline(always)]
    pub fn operation(self) -> Operation {
        match self {
            WordOp::FetchAdd(_) => Operation::FetchAdd,
            WordOp::CompareAndSwap { .. } => Operation::CompareAndSwap,
            WordOp::FetchStore(_) => Operation::FetchStore,
            WordOp::Get => Operation::Get,
            WordOp::Put(_) => Operation::Put,
        }
    }

    /// Returns the result of the operation on the word `old`.
    pub fn result(self, old: u64) -> u64 {
        match self {
            WordOp::Put(_) => 0,
            _ => old,
        }
    }

    /// Returns the new value of the word `old`; `None` if nothing is written.
    pub fn written(self, old: u64) -> Option<u64> {
        match self {
            WordOp::FetchAdd(value) => Some(old.wrapping_add(value)),
            WordOp::CompareAndSwap { expected, desired } => (old == expected).then_some(desired),
            WordOp::FetchStore(value) | WordOp::Put(value) => Some(value),
            WordOp::Get => None,
        }
    }
}
