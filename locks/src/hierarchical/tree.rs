//! The tree that records which leaves of a [`Hierarchical`](super::Hierarchical) may be open.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics};

use crate::Result;

/// Where the words of the tree are, and what their bits mean.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Rank,
    /// Where a rank's word of the lowest level is.
    pub(super) words: Disp,
    pub(super) levels: u32,
    pub(super) fan_out: u64,
    /// Ranks of a leaf.
    pub(super) leaf: u64,
}

impl Tree {
    pub(super) fn new(root: Rank, size: u32, leaf: u32, fan_out: u32) -> Tree {
        let fan_out = u64::from(fan_out.clamp(2, u64::BITS));
        let leaf = u64::from(leaf);
        let mut levels = 1;
        let mut covered = fan_out;
        while covered < u64::from(size).div_ceil(leaf) {
            covered *= fan_out;
            levels += 1;
        }
        Tree { root, words: Disp(0), levels, fan_out, leaf }
    }

    /// The word number `index` of a level; the one of the highest is the root.
    pub(super) fn word(&self, level: u32, index: u64) -> Address {
        let rank = if level + 1 == self.levels {
            self.root
        } else {
            Rank((index * self.fan_out.pow(level + 1) * self.leaf) as u32)
        };
        rank.at(self.words.word(level.into())).unwatched()
    }

    pub(super) fn root(&self) -> Address {
        self.word(self.levels - 1, 0)
    }

    /// Leaf number `index`.
    pub(super) fn leaf_at(&self, index: u64, leaves: Disp) -> Address {
        Rank((index * self.leaf) as u32).at(leaves).unwatched()
    }

    /// Sets the bits from leaf number `index` up to the first word that was not 0 (I2).
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
}
