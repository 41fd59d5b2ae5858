//! The gates and their leaves, and the tree that records which gates of a [`Hierarchical`](super::Hierarchical) may be open.

use std::ops::RangeInclusive;

use rmalab_atomics::bulk::{Owned, Piece};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Topology, WORD};

use super::HierarchicalParams;
use super::target::RANKS;
use crate::{LINE, Result};

/// The largest number of ranks in a leaf by default, if it divides a node. A leaf's word goes from core to core; each rank waits for it.
pub const PART: u32 = 4;

/// The largest number of leaves of a gate. Each leaf takes a line in every rank's memory.
const LEAVES: u32 = 16;
/// Words from one leaf to the next.
const STRIDE: usize = (LINE / WORD) as usize;

/// The places of the tree's words, and the meaning of their bits.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Rank,
    /// The displacement of a rank's word of the lowest level.
    pub(crate) words: Disp,
    pub(crate) levels: u32,
    pub(crate) fan_out: u64,
    /// The number of ranks of a gate.
    pub(crate) gate: u64,
}

/// The numbers of children that a word can have: each child is one bit.
pub(crate) const FAN_OUTS: RangeInclusive<u32> = 2..=u64::BITS;

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

/// Returns the number of ranks of a leaf and the number of leaves of a gate. `leaf` is a parameter, of which 0 stands for the largest number
/// from 2 to [`PART`] that divides the number of ranks of a node. If none does, it is the largest one that does, up to `most`.
pub(crate) fn blocks(topology: &Topology, leaf: u32, most: u32) -> (u32, u32) {
    let node = topology.ranks_per_node().max(1);
    let leaf = match leaf {
        0 => {
            let divides = |part: &u32| node.is_multiple_of(*part);
            (2..=PART).rev().find(divides).or_else(|| (1..=node.min(most)).rev().find(divides)).unwrap_or(1)
        }
        leaf => leaf,
    };
    let in_node = (topology.ranks_per_node() / leaf).max(1);
    (leaf, (1..=LEAVES).rev().find(|&leaves| in_node.is_multiple_of(leaves)).unwrap_or(1))
}

impl Tree {
    pub(crate) fn new(root: Rank, size: u32, gate: u32, fan_out: u32) -> Tree {
        let (fan_out, gate) = (u64::from(fan_out), u64::from(gate));
        let levels = levels(u64::from(size).div_ceil(gate), fan_out);
        Tree { root, words: Disp(0), levels, fan_out, gate }
    }

    /// Returns word number `index` of a level. The word of the highest level is the root.
    pub(crate) fn word(&self, level: u32, index: u64) -> Address {
        let rank = if level + 1 == self.levels {
            self.root
        } else {
            Rank((index * self.fan_out.pow(level + 1) * self.gate) as u32)
        };
        rank.at(self.words.word(level.into())).unwatched()
    }

    pub(crate) fn root(&self) -> Address {
        self.word(self.levels - 1, 0)
    }

    /// Returns the first rank of gate number `index`.
    pub(crate) fn child(&self, index: u64) -> Rank {
        Rank((index * self.gate) as u32)
    }

    /// Sets the bits from gate number `index` up to the first word that was not 0 (I2).
    pub(crate) fn register<A: RemoteAtomics + ?Sized>(&self, ra: &A, mut index: u64) -> Result<()> {
        for level in 0..self.levels {
            let bit = 1 << (index % self.fan_out);
            index /= self.fan_out;
            if ra.fetch_add(self.word(level, index), bit)? != 0 {
                break;
            }
        }
        Ok(())
    }

    /// Sets the bits of gate number `index`, from the root down, whose word is `root`. So a word other than 0 has its bit in the word above
    /// it at any time. No other rank writes the tree meanwhile.
    pub(crate) fn register_from_root<A: RemoteAtomics + ?Sized>(&self, ra: &A, index: u64, root: u64) -> Result<()> {
        let mut known = Some(root);
        for level in (0..self.levels).rev() {
            let child = index / self.fan_out.pow(level);
            let (at, bit) = (self.word(level, child / self.fan_out), 1 << (child % self.fan_out));
            let word = known.map_or_else(|| ra.get(at), Ok)?;
            known = None;
            if word & bit == 0 {
                ra.fetch_add(at, bit)?;
                known = Some(0);
            }
        }
        Ok(())
    }

    /// Returns the gates that are registered, and the numbers of the words above them on each level below the root, whose word is `root`.
    pub(crate) fn read<A: RemoteAtomics + ?Sized>(&self, ra: &A, root: u64) -> Result<(Vec<u64>, Vec<Vec<u64>>)> {
        let mut children = self.children(&[0], &[root]);
        let mut above = Vec::new();
        for level in (0..self.levels - 1).rev() {
            let words = update(ra, children.iter().map(|&index| self.word(level, index)), WordOp::Get)?;
            let below = self.children(&children, &words);
            above.push(std::mem::replace(&mut children, below));
        }
        Ok((children, above))
    }

    /// Zeroes the words whose numbers [`read`](Self::read) has returned, the lowest level first, and then the root.
    pub(crate) fn clear<A: RemoteAtomics + ?Sized>(&self, ra: &A, above: &[Vec<u64>]) -> Result<()> {
        for (level, indices) in (0..).zip(above.iter().rev()) {
            update(ra, indices.iter().map(|&index| self.word(level, index)), WordOp::FetchStore(0))?;
        }
        ra.fetch_store(self.root(), 0)?;
        Ok(())
    }

    /// Zeroes all words below the root, whose value is `root`, level by level. Returns the gates that were registered.
    pub(crate) fn take<A: RemoteAtomics + ?Sized>(&self, ra: &A, root: u64) -> Result<Vec<u64>> {
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

    /// Returns the leaves of these gates whose words are not 0, with these words. The first leaf of a gate is at `first`, each with `leaves`.
    pub(crate) fn held<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        gates: &[u64],
        first: Disp,
        leaves: u32,
    ) -> Result<Vec<(Address, u64)>> {
        let leaves = leaves as usize;
        // From the word of a gate's first leaf to the word of its last leaf.
        let words = (leaves - 1) * STRIDE + 1;
        let len = words * WORD as usize;
        let at = |gate: u64| self.child(gate).at(first).unwatched();
        let pieces = gates.iter().enumerate().map(|(i, &gate)| Piece { offset: i * len, at: at(gate), len });
        let counts = Owned::get(ra, vec![0_u64; gates.len() * words], pieces)?.wait()?;
        let leaf = |gate, leaf: usize| self.child(gate).at(first.plus(leaf as u64 * LINE)).unwatched();
        let of_gate = |(&gate, counts): (&u64, &[u64])| {
            let leaves = (0..leaves).map(|i| (leaf(gate, i), counts[i * STRIDE]));
            leaves.filter(|&(_, word)| word != 0).collect::<Vec<_>>()
        };
        Ok(gates.iter().zip(counts.chunks(words)).flat_map(of_gate).collect())
    }
}

/// Performs one operation on all of these words, at the same time. Returns their old values.
pub(crate) fn update<A: RemoteAtomics + ?Sized>(
    ra: &A,
    words: impl Iterator<Item = Address>,
    op: WordOp,
) -> Result<Vec<u64>> {
    let words: Vec<Address> = words.collect();
    let results = vec![0; words.len()];
    Ok(Owned::update(ra, results, words.into_iter().map(|at| (at, op)))?.wait()?)
}
