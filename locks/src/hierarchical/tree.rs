//! The tree that records which gates of a [`Hierarchical`](super::Hierarchical) may be open.

use std::ops::RangeInclusive;

use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics};

use super::target::RANKS;
use super::{HierarchicalParams, update};
use crate::Result;

/// The places of the tree's words, and the meaning of their bits.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Rank,
    /// The displacement of a rank's word of the lowest level.
    pub(super) words: Disp,
    pub(super) levels: u32,
    pub(super) fan_out: u64,
    /// The number of ranks of a gate.
    pub(super) gate: u64,
}

/// The numbers of children that a word can have: each child is one bit.
pub(super) const FAN_OUTS: RangeInclusive<u32> = 2..=u64::BITS;

impl HierarchicalParams {
    /// Returns the largest number of levels of the tree in any world that the lock supports, which is the largest number of
    /// its words in a rank's memory. A `fan_out` outside its range, which the lock refuses, counts as the nearest value in
    /// the range.
    pub fn most_levels(&self) -> u32 {
        levels(RANKS.into(), self.fan_out.clamp(*FAN_OUTS.start(), *FAN_OUTS.end()).into())
    }
}

/// Returns the number of levels above this many gates.
fn levels(gates: u64, fan_out: u64) -> u32 {
    let mut levels = 1;
    let mut covered = fan_out;
    while covered < gates {
        covered *= fan_out;
        levels += 1;
    }
    levels
}

impl Tree {
    pub(super) fn new(root: Rank, size: u32, gate: u32, fan_out: u32) -> Tree {
        let (fan_out, gate) = (u64::from(fan_out), u64::from(gate));
        let levels = levels(u64::from(size).div_ceil(gate), fan_out);
        Tree { root, words: Disp(0), levels, fan_out, gate }
    }

    /// Returns word number `index` of a level. The word of the highest level is the root.
    pub(super) fn word(&self, level: u32, index: u64) -> Address {
        let rank = if level + 1 == self.levels {
            self.root
        } else {
            Rank((index * self.fan_out.pow(level + 1) * self.gate) as u32)
        };
        rank.at(self.words.word(level.into())).unwatched()
    }

    pub(super) fn root(&self) -> Address {
        self.word(self.levels - 1, 0)
    }

    /// Returns the first rank of gate number `index`.
    pub(super) fn child(&self, index: u64) -> Rank {
        Rank((index * self.gate) as u32)
    }

    /// Sets the bits from gate number `index` up to the first word that was not 0 (I2).
    pub(super) fn register<A: RemoteAtomics + ?Sized>(&self, ra: &A, mut index: u64) -> Result<()> {
        for level in 0..self.levels {
            let bit = 1 << (index % self.fan_out);
            index /= self.fan_out;
            if ra.fetch_add(self.word(level, index), bit)? != 0 {
                break;
            }
        }
        Ok(())
    }

    /// Zeroes all words below the root, whose value is `root`, level by level. Returns the gates that were registered.
    pub(super) fn take<A: RemoteAtomics + ?Sized>(&self, ra: &A, root: u64) -> Result<Vec<u64>> {
        let mut children = self.children(&[0], &[root]);
        for level in (0..self.levels - 1).rev() {
            let words = update(ra, children.iter().map(|&index| self.word(level, index)), WordOp::FetchStore(0))?;
            children = self.children(&children, &words);
        }
        Ok(children)
    }

    /// Returns the numbers of the children whose bits are set in the words with these numbers.
    fn children(&self, indices: &[u64], words: &[u64]) -> Vec<u64> {
        let of = |(&index, &word): (&u64, &u64)| {
            let set = (0..self.fan_out).filter(move |bit| word >> bit & 1 != 0);
            let first = index * self.fan_out;
            set.map(move |bit| first + bit)
        };
        indices.iter().zip(words).flat_map(of).collect()
    }
}
