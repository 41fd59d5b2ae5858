//! A window lock made for lock_all: a few ranks of a node have a word of their own that lets them in, until an exclusive lock anywhere
//! closes it.
//!
//! # Sources
//! Ours. The bias towards shared holders, and its revocation, are those of D. Dice and A. Kogan, "BRAVO: Biased Locking for
//! Reader-Writer Locks", USENIX ATC 2019; a counter for each part of the machine is that of P. Schmid, M. Besta and T.
//! Hoefler, "High-Performance Distributed RMA Locks", HPDC 2016, DOI 10.1145/2907294.2907323 (RMA-RW); the tree that tells
//! where the counters are in use is in the place of the scalable non-zero indicator of F. Ellen, Y. Lev, V. Luchangco and M.
//! Moir, PODC 2007, DOI 10.1145/1281100.1281106. Its parts [`McsRwNeutral`] and [`Mcs`] name their own papers.
//!
//! # Properties
//! - An exclusive lock of a target excludes the other locks of that target, and every lock_all. Exclusive locks of
//!   different targets are held together.
//! - In the steady state lock_all and unlock_all are one atomic operation each, on the node's own word, whatever the number
//!   of ranks.
//! - Nobody starves, and nobody polls. Exclusive locks and the openings of leaves are served in the order of their arrival
//!   at one lock; a lock_all whose leaf is closed needs at most one opening. Locks of one target are served in the order
//!   of a queue, once they have to wait.
//! - Each rank's memory is the same at any number of ranks, but for a word for each level of the tree.
//! - Checked exhaustively by the explorer (`rmalab verify`), this code itself, on two nodes of two ranks, livelocks included:
//!   two lock_alls and two exclusive locks of one target (2,117,422 states; with posted puts that arrive late 5,023,004) and
//!   of two (1,519,698 and 3,234,620), three lock_alls and an exclusive lock (5,796,580), lock_all, exclusive and shared lock
//!   twice each (671,788). On nodes of one rank below a tree of two levels: lock_all and two exclusive locks (63,903), two
//!   lock_alls and one (16,818), lock_all and one twice each (5,539). The locks of a target alone: two exclusive and a shared
//!   one (161,663 and 654,183).
//! - A lock_all that waits keeps out exclusive locks that come after it. Programs that hold shared locks while they ask
//!   for an exclusive one can deadlock by it where the locks themselves would not conflict: rank 1 holds A shared and asks
//!   for B exclusively, rank 2 asks for lock_all, rank 3 asks for A exclusively. Rank 1 waits for 2, which waits for 3,
//!   which waits for 1. Programs that take their exclusive locks first are safe.
//!
//! # State
//! A *leaf* is a block of ranks of a node; its words are at its first rank.
//!
//! | word | displacement | home | values |
//! | --- | --- | --- | --- |
//! | leaf | `words` | first of a leaf | see below |
//! | leaf_tail | `words` + 1 [`LINE`] | first of a leaf | of the [`Mcs`] mutex among the ranks of a leaf that find it closed |
//! | target, target_tail | `words` + 2 lines | each rank | of the lock of that target, see hierarchical/target.rs |
//! | tail, reader_count, next_writer | `words` + 3 lines | root | of the phase lock: a [`McsRwNeutral`] |
//! | revoker_tail | `words` + 3 lines + 24 | root | of the [`Mcs`] mutex among those that may have to close leaves |
//! | nodes | `words` + 4 lines | each rank | the queue nodes of these locks |
//! | drained | `words` + 4 lines + 80 | each rank | how many leaves that this rank is closing have been left by their last holder |
//! | present | `words` + 5 lines, a word for each level | root, and the first leaf of each group of leaves | one bit for each child that is a leaf which may be open, or a word that is not 0 |
//!
//! | bits of leaf | 63 | 62–32 | 31–0 |
//! | --- | --- | --- | --- |
//! | | OPEN | holders of a lock_all, and attempts | nil, or the pointer to the rank that closes it |
//!
//! # Protocol
//! The phase lock is held for writing by a rank that opens a leaf, and for reading by each rank that holds exclusive locks
//! or waits for one: the roles are the other way round than for the window.
//!
//! - lock_all: count in the leaf, and be inside if it was OPEN. Otherwise take that back, and under the leaf's mutex try
//!   again; if it is still closed, acquire the phase lock for writing, register the leaf in the tree from below up to the
//!   first word that was not 0, set OPEN.
//! - lock(exclusive): with no exclusive lock yet, acquire the phase lock for reading and look at the root. If it is 0, no leaf
//!   is open; otherwise, under the revokers' mutex, look again, follow the tree down, close all leaves that are registered,
//!   wait until their holders have left, and zero the root. Then acquire the target's lock.
//! - lock(shared): the target's lock only.
//!
//! # Invariants
//! - I1: OPEN is set, and bits are set in the tree, only by a holder of the phase lock for writing; both are cleared only by
//!   holders for reading, one at a time: they hold the revokers' mutex.
//! - I2: with the phase lock free, a leaf is OPEN if and only if all bits on its way from the root are set.
//! - I3: while the phase lock is held for reading, and the root is 0, no leaf is OPEN, and no lock_all is held: the root is
//!   zeroed after the last holder has left.
//! - I4: a rank holds a lock_all if it counted in a leaf and saw OPEN in the same step; so it is counted in what the rank
//!   that clears OPEN sees in that step.
//! - I5: a pointer to a closing rank is cleared by one rank, which tells the closing one: by the step from (count 0, closer)
//!   to 0, which is atomic. Whoever leaves a closing leaf with a count of 0 tries; a try that fails has met an attempt,
//!   which leaves it with a count of 0 again.
//!
//! # Rest
//! At rest a leaf may be OPEN, and the tree says so: that is what the next lock_all saves. All counts, pointers, queues and
//! target words are zero.
//!
//! # Memory ordering
//! All operations on leaves, the tree and targets are complete when they return; what is posted, waits for nobody: see
//! [`crate::qnode`].
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

/// The most ranks that share a leaf, unless asked otherwise: its word goes from core to core, and each waits for it.
pub const PART: u32 = 4;

/// The parameters of [`Hierarchical`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HierarchicalParams {
    /// The rank whose segment holds the words that all ranks share.
    pub root: Rank,
    /// How many ranks, in blocks from rank 0 on, share a leaf; 0 for those of a node in equal parts of at most [`PART`], or
    /// all of them where their number has no such part. Where the ranks of a node are no block, a leaf is not one node's:
    /// correct all the same, but lock_all is not local.
    pub leaf: u32,
    /// How many children a word of the tree has, from 2 to 64; less counts as 2, more as 64.
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
