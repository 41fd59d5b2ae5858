//! A window lock made for lock_all: the ranks of a leaf, a block of ranks of a node, share a word that admits them, until an
//! exclusive lock anywhere closes it.
//!
//! # Sources
//! Ours. The bias towards shared holders, and its revocation, are those of D. Dice and A. Kogan, "BRAVO: Biased Locking for
//! Reader-Writer Locks", USENIX ATC 2019; a counter for each part of the machine is that of P. Schmid, M. Besta and T.
//! Hoefler, "High-Performance Distributed RMA Locks", HPDC 2016, DOI 10.1145/2907294.2907323 (RMA-RW). The tree that records
//! which counters are in use stands in for the scalable non-zero indicator of F. Ellen, Y. Lev, V. Luchangco and M. Moir,
//! PODC 2007, DOI 10.1145/1281100.1281106. Its parts [`McsRwNeutral`] and [`Mcs`] name their own papers.
//!
//! # Properties
//! - An exclusive lock of a target excludes the other locks of that target, and every lock_all. Different ranks can hold
//!   exclusive locks of different targets at the same time.
//! - In the steady state lock_all and unlock_all are one atomic operation each, on a word of the node, at any number of ranks.
//! - No rank starves, and no rank polls. Exclusive locks and the openings of leaves are served in the order of their arrival
//!   at one lock. A lock_all whose leaf is closed needs at most one opening. Locks of one target that have to wait are served
//!   in the order of a queue.
//! - Each rank's memory is the same at any number of ranks, except for a word for each level of the tree.
//! - Checked exhaustively by the explorer (`rmalab verify`), this code itself, on two nodes of two ranks, livelocks included:
//!   under sequential consistency and with posted puts that arrive late two lock_alls and two exclusive locks of one target,
//!   and of two; sequentially consistent also three lock_alls and an exclusive lock, and lock_all, exclusive and shared lock
//!   twice each. On nodes of one rank below a tree of two levels: lock_all and two exclusive locks, two lock_alls and one,
//!   lock_all and one twice each. The locks of a target alone, on both networks: two exclusive and a shared one.
//! - A waiting lock_all keeps out exclusive locks that come after it. So programs that hold shared locks while they ask for an
//!   exclusive one can deadlock, even if the locks do not conflict: rank 1 holds A shared and asks for B exclusively, rank 2
//!   asks for lock_all, rank 3 asks for A exclusively. Rank 1 waits for 2, which waits for 3, which waits for 1. Programs
//!   that acquire their exclusive locks first are safe.
//!
//! # State
//! A *leaf* is a block of `leaf` ranks of a node; its words are at its first rank. By default `leaf` is the largest of 4, 3 and
//! 2 that divides the number of ranks of a node, and that number if none does. Each word of the tree has `fan_out` children, 64
//! by default.
//!
//! | word | displacement | home | values |
//! | --- | --- | --- | --- |
//! | leaf | `words` | first of a leaf | see below |
//! | leaf_tail | `words` + 1 [`LINE`] | first of a leaf | of the [`Mcs`] mutex among the ranks of a leaf that find it closed |
//! | target, target_tail | `words` + 2 lines | each rank | of the lock of that target, see hierarchical/target.rs |
//! | tail, reader_count, next_writer | `words` + 3 lines | root | of the phase lock: a [`McsRwNeutral`] |
//! | revoker_tail | `words` + 3 lines + 24 | root | of the [`Mcs`] mutex among the ranks that may have to close leaves |
//! | nodes | `words` + 4 lines | each rank | the queue nodes of these locks |
//! | drained | `words` + 4 lines + 80 | each rank | the number of leaves that this rank is closing and that have no holder any more |
//! | present | `words` + 5 lines, a word for each level | root, and the first leaf of each group of leaves | one bit for each child that is a leaf which may be open, or a word that is not 0 |
//!
//! | bits of leaf | 63 | 62–32 | 31–0 |
//! | --- | --- | --- | --- |
//! | | OPEN | holders of a lock_all, and attempts | nil, or the pointer to the rank that closes it |
//!
//! # Protocol
//! A rank that opens a leaf holds the phase lock for writing. Each rank that holds an exclusive lock, or waits for one, holds
//! it for reading. So the roles are the reverse of those for the window.
//!
//! - lock_all: count in the leaf, and be inside if it was OPEN. Otherwise take the count back, and try again under the leaf's
//!   mutex. If the leaf is still closed, acquire the phase lock for writing, register the leaf in the tree from below up to
//!   the first word that was not 0, and set OPEN.
//! - lock(exclusive): a rank without exclusive locks acquires the phase lock for reading and reads the root. If it is 0, no
//!   leaf is open. Otherwise the rank acquires the revokers' mutex, reads the root again, follows the tree down, closes all
//!   registered leaves, waits until their holders have left, and zeroes the root. Then it acquires the target's lock.
//! - lock(shared): acquire the target's lock.
//!
//! # Invariants
//! - I1: only a holder of the phase lock for writing sets OPEN, and bits in the tree. Only holders for reading clear them, one
//!   at a time: they hold the revokers' mutex.
//! - I2: while the phase lock is free, a leaf is OPEN if and only if all bits on its path from the root are set.
//! - I3: while the phase lock is held for reading and the root is 0, no leaf is OPEN and no rank holds a lock_all: the root is
//!   zeroed after the last holder has left.
//! - I4: a rank holds a lock_all if it counted in a leaf and saw OPEN in the same step. So the rank that clears OPEN sees the
//!   count in that step.
//! - I5: exactly one rank clears the pointer to a closing rank, and informs that rank: by the atomic step from (count 0,
//!   closer) to 0. Each rank that leaves a closing leaf with a count of 0 tries this step. If it fails, another attempt is
//!   counted, and that attempt leaves the leaf with a count of 0 again.
//!
//! # Rest
//! At rest a leaf may be OPEN and registered in the tree, which saves work for the next lock_all. All counts, pointers,
//! queues and target words are zero.
//!
//! # Memory ordering
//! All operations on leaves, the tree and targets are complete when they return. No rank waits for posted operations to
//! complete: see [`crate::qnode`].
//!
//! # Cost
//! Operations without contention: lock_all 1 / 1, on the leaf, so on the node. Remote ones: shared 1 / 1; the first exclusive
//! lock of a rank 4 / 4 if no leaf is open (2 and 3 of them are the phase lock's, 1 the look at the root), each further one
//! 1 / 1. With k open leaves 4 more, 1 for each word of the tree below the root, and 1 for each leaf, or 2 if it is held; its
//! last holder adds 1 to its unlock_all, and 1 on the leaf. The first lock_all of a leaf after it was closed: 3 for the phase
//! lock, 1 in the tree (one a level for the first leaf below a word), and 9 on the node.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until, WORD};

use crate::qnode::{pointer, rank_of};
use crate::{Error, LINE, LockKind, Mcs, McsRwNeutral, Place, RawMutex, RawRwLock, Result, WindowLock};

mod target;
mod tree;

use target::Targets;
use tree::Tree;

/// In a leaf: lock_all may come in.
const OPEN: u64 = 1 << 63;
/// In a leaf: one holder.
const HOLDER: u64 = 1 << 32;
/// In a leaf: the rank that closes it.
const CLOSER: u64 = HOLDER - 1;

/// The most ranks in a leaf by default, if they divide a node: a leaf's word goes from core to core, and each rank waits for it.
pub const PART: u32 = 4;

/// The parameters of [`Hierarchical`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HierarchicalParams {
    /// The rank whose segment holds the words that all ranks share.
    pub root: Rank,
    /// The number of ranks of a leaf, in blocks from rank 0 on. 0, the default, means the largest number from 2 to [`PART`] that
    /// divides the number of ranks of a node, and that number if none does. A leaf whose ranks are on several nodes is correct,
    /// but its lock_all is not local.
    pub leaf: u32,
    /// The number of children of a word of the tree, from 2 to 64, 64 by default; less counts as 2, more as 64.
    pub fan_out: u32,
}

impl Default for HierarchicalParams {
    /// The least that there is to write, and to visit.
    fn default() -> HierarchicalParams {
        HierarchicalParams { root: Rank(0), leaf: 0, fan_out: 64 }
    }
}

/// One rank's part of a hierarchical window lock; see the [module's text](self).
#[derive(Debug)]
pub struct Hierarchical {
    words: Disp,
    /// This rank's leaf.
    leaf: Address,
    leaf_mutex: Mcs,
    phase: McsRwNeutral,
    revoker: Mcs,
    targets: Targets,
    drained: Disp,
    tree: Tree,
    /// How many targets this rank has locked exclusively.
    exclusives: u32,
}

impl WindowLock for Hierarchical {
    const NAME: &'static str = "hierarchical";
    type Params = HierarchicalParams;

    /// # Errors
    ///
    /// Those of the trait, and [`Error::NoSuchTarget`] when the root is not a rank.
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: HierarchicalParams) -> Result<Hierarchical> {
        let (rank, size, root) = (ra.rank(), ra.size(), params.root);
        if root.0 >= size {
            return Err(Error::NoSuchTarget { rank, target: root, size });
        }
        if size > target::RANKS {
            return Err(Error::TooManyRanks { lock: Self::NAME, size, limit: target::RANKS });
        }
        let leaf = match params.leaf {
            0 => {
                let node = ra.topology().ranks_per_node().max(1);
                (2..=PART).rev().find(|part| node.is_multiple_of(*part)).unwrap_or(node)
            }
            leaf => leaf,
        };
        let first = Rank(rank.0 / leaf * leaf);
        let mut tree = Tree::new(root, size, leaf, params.fan_out);
        let words = ra.heap().alloc(5 * LINE + u64::from(tree.levels) * WORD, LINE)?;
        let line = |number| words.plus(number * LINE);
        let shared = line(3);
        let nodes = line(4);
        let at = |home, words, node| Place { home, words, node: nodes.word(node) };
        tree.words = line(5);
        Ok(Hierarchical {
            words,
            leaf: first.at(words).unwatched(),
            phase: McsRwNeutral::bind(ra, at(root, shared, 0), ())?,
            revoker: Mcs::bind(ra, at(root, shared.plus(McsRwNeutral::WORDS), 3), ())?,
            leaf_mutex: Mcs::bind(ra, at(first, line(1), 5), ())?,
            targets: Targets::new(line(2), nodes.word(7)),
            drained: nodes.word(10),
            tree,
            exclusives: 0,
        })
    }

    #[inline]
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        if kind == LockKind::Exclusive {
            if self.exclusives == 0 {
                self.phase.acquire_read(ra)?;
                if ra.get(self.tree.root())? != 0 {
                    self.revoke(ra)?;
                }
            }
            self.exclusives += 1;
        }
        self.targets.acquire(ra, kind, target)
    }

    #[inline]
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        self.targets.release(ra, kind, target)?;
        if kind == LockKind::Exclusive {
            self.exclusives -= 1;
            if self.exclusives == 0 {
                return self.phase.release_read(ra);
            }
        }
        Ok(())
    }

    #[inline]
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.arrive(ra)? { Ok(()) } else { self.lock_all_closed(ra) }
    }

    #[inline]
    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.depart(ra)
    }

    fn allocations(&self) -> Vec<Disp> {
        vec![self.words]
    }
}

impl Hierarchical {
    /// Counts this rank in its leaf; whether that was OPEN, and so whether it holds a lock_all now (I4).
    #[inline]
    fn arrive<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<bool> {
        Ok(ra.fetch_add(self.leaf, HOLDER)? & OPEN != 0)
    }

    /// Takes this rank's count out of its leaf, and tells the rank that closes it if it was the last one (I5).
    #[inline]
    fn depart<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        let left = ra.fetch_add(self.leaf, HOLDER.wrapping_neg())?.wrapping_sub(HOLDER);
        let closer = left & CLOSER;
        if closer != 0 && left == closer && ra.compare_and_swap(self.leaf, closer, 0)? == closer {
            ra.fetch_add(rank_of(closer).at(self.drained), 1)?;
        }
        Ok(())
    }

    /// lock_all after this rank was counted in a closed leaf.
    #[cold]
    fn lock_all_closed<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.depart(ra)?;
        self.leaf_mutex.acquire(ra)?;
        // The rank before this one may have opened it.
        if !self.arrive(ra)? {
            self.depart(ra)?;
            self.phase.acquire_write(ra)?;
            self.tree.register(ra, u64::from(ra.rank().0) / self.tree.leaf)?;
            ra.fetch_add(self.leaf, OPEN + HOLDER)?;
            self.phase.release_write(ra)?;
        }
        self.leaf_mutex.release(ra)
    }

    /// Closes all leaves, and waits until the last holder of a lock_all has left (I3).
    #[cold]
    fn revoke<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.revoker.acquire(ra)?;
        let root = self.tree.root();
        // The rank before this one may have closed them.
        let open = ra.get(root)?;
        if open != 0 {
            let busy = self.close(ra, self.tree.levels - 1, 0, open)?;
            if busy > 0 {
                ra.wait_until(self.drained, Until::Eq(busy))?;
                ra.fetch_add(ra.rank().at(self.drained), busy.wrapping_neg())?;
            }
            ra.fetch_store(root, 0)?;
        }
        self.revoker.release(ra)
    }

    /// Closes the leaves below the word number `index` of a level, whose value is `bits`; returns how many of them are still
    /// to be left by their holders.
    fn close<A: RemoteAtomics + ?Sized>(&self, ra: &A, level: u32, index: u64, mut bits: u64) -> Result<u64> {
        let mut busy = 0;
        while bits != 0 {
            let child = index * self.tree.fan_out + u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            if level > 0 {
                let bits = ra.fetch_store(self.tree.word(level - 1, child), 0)?;
                busy += self.close(ra, level - 1, child, bits)?;
            } else {
                busy += u64::from(!self.close_leaf(ra, self.tree.leaf_at(child, self.words))?);
            }
        }
        Ok(busy)
    }

    /// Closes a leaf, which is OPEN; whether all holders have left it.
    fn close_leaf<A: RemoteAtomics + ?Sized>(&self, ra: &A, leaf: Address) -> Result<bool> {
        if ra.compare_and_swap(leaf, OPEN, 0)? == OPEN {
            return Ok(true);
        }
        let closer = pointer(ra.rank());
        let left = ra.fetch_add(leaf, closer.wrapping_sub(OPEN))?.wrapping_sub(OPEN);
        // They may have left in between (I5).
        Ok(left == 0 && ra.compare_and_swap(leaf, closer, 0)? == closer)
    }
}

#[cfg(test)]
mod tests;
