//! A window lock made for lock_all: the ranks of a leaf count themselves in one word, and the gate of their node admits them,
//! until an exclusive lock anywhere closes it.
//!
//! # Sources
//! The protocol is new here. The bias towards shared holders, and its revocation, come from D. Dice and A. Kogan, "BRAVO:
//! Biased Locking for Reader-Writer Locks", USENIX ATC 2019. A counter for each part of the machine comes from P. Schmid, M.
//! Besta and T. Hoefler, "High-Performance Distributed RMA Locks", HPDC 2016, DOI 10.1145/2907294.2907323 (RMA-RW). The tree
//! that records which counters are in use replaces the scalable non-zero indicator of F. Ellen, Y. Lev, V. Luchangco and M.
//! Moir, PODC 2007, DOI 10.1145/1281100.1281106. Its parts [`McsRwNeutral`] and [`Mcs`] name their own papers.
//!
//! # Properties
//! - An exclusive lock of a target excludes the other locks of that target, and every lock_all. Different ranks can hold
//!   exclusive locks of different targets at the same time.
//! - In the steady state lock_all and unlock_all are one atomic operation each, on a word of the node, at any number of ranks.
//!   A lock_all also reads a second word of the node, which its ranks share and no rank writes.
//! - No rank starves, and no rank polls. Exclusive locks and the openings of gates are served in the order of their arrival at one lock. A
//!   lock_all whose gate is closed needs at most one opening. Locks of one target that have to wait are served in the order of a queue.
//! - The memory of each rank does not depend on the number of ranks, except for one word for each level of the tree.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, on two nodes of two ranks, livelocks included. Under
//!   sequential consistency and with posted puts that arrive late: two lock_alls and two exclusive locks of one target, and of two.
//!   Sequentially consistent also: three lock_alls and an exclusive lock, two lock_alls and an exclusive lock twice each, and lock_all,
//!   exclusive and shared lock twice each. On nodes of one rank below a tree of two levels: lock_all and two exclusive locks, two
//!   lock_alls and one, lock_all and one twice each. With two leaves below each gate, on both networks: two lock_alls and an
//!   exclusive lock. The locks of a target alone, on both networks: two exclusive and a shared one.
//! - A waiting lock_all keeps out exclusive locks that come after it. So programs that hold shared locks while they ask for an
//!   exclusive one can deadlock, even if the locks do not conflict. For example, rank 1 holds A shared and asks for B
//!   exclusively, rank 2 asks for lock_all, and rank 3 asks for A exclusively. Rank 1 waits for 2, which waits for 3, which
//!   waits for 1. Programs that acquire their exclusive locks first are safe.
//!
//! # State
//! A *leaf* is a block of `leaf` ranks of a node. By default `leaf` is the largest of 4, 3 and 2 that divides the number of ranks of a
//! node, or the latter if none does. A *gate* admits all leaves of a node, or a number of leaves, at most 16, that divides their
//! number. The words of a gate and of its leaves are at its first rank. Each word of the tree has `fan_out` children, 64 by default.
//!
//! | word | displacement | home | values |
//! | --- | --- | --- | --- |
//! | gate | `words` | first of a gate | 0, or OPEN |
//! | gate_tail | `words` + 1 [`LINE`] | first of a gate | the tail of the [`Mcs`] mutex among the ranks of a gate that find it closed |
//! | target, target_tail | `words` + 2 lines | each rank | the words of the lock of that target, see hierarchical/target.rs |
//! | tail, reader_count, next_writer | `words` + 3 lines | root | the words of the phase lock: a [`McsRwNeutral`] |
//! | revoker_tail | `words` + 3 lines + 24 | root | the tail of the [`Mcs`] mutex among the ranks that may have to close gates |
//! | nodes | `words` + 4 lines | each rank | the queue nodes of these locks |
//! | drained | `words` + 4 lines + 80 | each rank | the number of leaves that this rank waits for and that have no holder any more |
//! | leaf | `words` + 5 lines, a line for each leaf | first of a gate | see below |
//! | present | after the leaves, a word for each level | root, and the first gate of each group of gates | one bit for each child that is a gate which may be open, or a word that is not 0 |
//!
//! | bits of leaf | 62–32 | 31–0 |
//! | --- | --- | --- |
//! | | holders of a lock_all, and attempts | nil, or the pointer to the rank that has closed its gate |
//!
//! # Protocol
//! A rank that opens a gate holds the phase lock for writing. Each rank that holds an exclusive lock, or waits for one, holds
//! it for reading. So readers and writers of the phase lock have reversed roles: its readers lock the window exclusively.
//!
//! - lock_all: count in the leaf, then look at the gate, and be inside if it is OPEN. Otherwise take the count back, and try again
//!   under the gate's mutex. If the gate is still closed, acquire the phase lock for writing. Register the gate in the tree, from
//!   below up to the first word that was not 0, and set OPEN.
//! - lock(exclusive): a rank without exclusive locks acquires the phase lock for reading and reads the root. If it is 0, no
//!   gate is open. Otherwise the rank acquires the revokers' mutex, reads the root again, follows the tree down, closes all
//!   registered gates, and then reads the counts of their leaves. It leaves its pointer in each leaf that is not 0, waits until
//!   the holders have left, and zeroes the root. Then it acquires the target's lock. All operations of one step, on words of a
//!   level, on gates or on leaves, are under way together.
//! - lock(shared): acquire the target's lock.
//!
//! # Invariants
//! - I1: only a holder of the phase lock for writing sets OPEN, and bits in the tree. Only holders for reading clear them, one
//!   at a time, since they hold the revokers' mutex.
//! - I2: while the phase lock is free, a gate is OPEN if and only if all bits on its path from the root are set.
//! - I3: while the phase lock is held for reading and the root is 0, no gate is OPEN and no rank holds a lock_all. The root is
//!   zeroed only after the last holder has left.
//! - I4: a rank holds a lock_all if it counted in a leaf and saw its gate OPEN after that. A closing rank reads the leaf after it has
//!   cleared OPEN. So it sees the count.
//! - I5: exactly one rank clears the pointer to a closing rank, and informs that rank: by the atomic step from (count 0,
//!   closer) to 0. Each rank that leaves a leaf with such a pointer and a count of 0 tries this step. If it fails, another attempt is
//!   counted, and that attempt leaves the leaf with a count of 0 again.
//!
//! # Rest
//! At rest a gate may be OPEN and registered in the tree. That saves work for the next lock_all. All counts, pointers,
//! queues and target words are zero.
//!
//! # Memory ordering
//! All operations on gates, leaves, the tree and targets are complete when they return, or their rank waits for them before its
//! next step. The bulk gets of leaves start after the closing of the gates is complete (I4). No rank waits for posted operations to
//! complete: see [`crate::qnode`].
//!
//! # Cost
//! Operations without contention: lock_all 2 / 1, on the gate and the leaf, so on the node. Remote operations: shared 1 / 1; the first
//! exclusive lock of a rank 4 / 4 if no gate is open (the phase lock takes 2 and 3 of them, the look at the root 1); each further one 1
//! / 1. With k open gates: 4 more, 1 for each word of the tree below the root, 2 for each gate (swap, bulk get), and 1 for each leaf that is
//! held. The last holder of such a leaf adds 1 to its unlock_all, and 1 on the leaf. The first lock_all of a gate after it was closed: 3
//! for the phase lock, 1 in the tree (one a level for the first gate below a word), and 12 on the node.

use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until, WORD};

use crate::error::within;
use crate::qnode::{pointer, rank_of};
use crate::{Error, LINE, LockKind, Mcs, McsRwNeutral, Place, RawMutex, RawRwLock, Result, WindowLock};

mod target;
pub(crate) mod tree;

use target::Targets;
pub use tree::PART;
use tree::{Tree, blocks, update};

/// In a gate: lock_all may come in.
const OPEN: u64 = 1;
/// In a leaf: one holder.
const HOLDER: u64 = 1 << 32;
/// In a leaf: the rank that has closed its gate.
const CLOSER: u64 = HOLDER - 1;

/// The parameters of [`Hierarchical`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HierarchicalParams {
    /// The rank whose segment holds the words that all ranks share.
    pub root: Rank,
    /// The number of ranks of a leaf, in blocks from rank 0 on. 0, the default, stands for the largest number from 2 to [`PART`]
    /// that divides the number of ranks of a node, or for the latter if none does. A leaf or a gate whose ranks are on several
    /// nodes is correct, but its lock_all is not local.
    pub leaf: u32,
    /// The number of children of a word of the tree, from 2 to 64, 64 by default.
    pub fan_out: u32,
}

impl Default for HierarchicalParams {
    /// The fan-out with the fewest words to write and to visit.
    fn default() -> HierarchicalParams {
        HierarchicalParams { root: Rank(0), leaf: 0, fan_out: 64 }
    }
}

/// One rank's part of a hierarchical window lock; see the [module's text](self).
#[derive(Debug)]
pub struct Hierarchical {
    words: Disp,
    /// This rank's gate.
    gate: Address,
    gate_mutex: Mcs,
    /// This rank's leaf.
    leaf: Address,
    /// The number of leaves of this rank's gate.
    leaves: u32,
    phase: McsRwNeutral,
    revoker: Mcs,
    targets: Targets,
    drained: Disp,
    tree: Tree,
    /// The number of targets that this rank has locked exclusively.
    exclusives: u32,
}

impl WindowLock for Hierarchical {
    const NAME: &'static str = "hierarchical";
    type Params = HierarchicalParams;

    /// # Errors
    ///
    /// The errors of the trait, [`Error::NoSuchTarget`] when the root is not a rank, and [`Error::Parameter`] for a `fan_out` outside its
    /// range.
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: HierarchicalParams) -> Result<Hierarchical> {
        let (rank, size, root) = (ra.rank(), ra.size(), params.root);
        if root.0 >= size {
            return Err(Error::NoSuchTarget { rank, target: root, size });
        }
        if size > target::RANKS {
            return Err(Error::TooManyRanks { lock: Self::NAME, size, limit: target::RANKS });
        }
        within(Self::NAME, "fan_out", params.fan_out, tree::FAN_OUTS)?;
        let (leaf, leaves) = blocks(ra.topology(), params.leaf, u32::MAX);
        let gate = leaf * leaves;
        let first = Rank(rank.0 / gate * gate);
        let mut tree = Tree::new(root, size, gate, params.fan_out);
        let bytes = (5 + u64::from(leaves)) * LINE + u64::from(tree.levels) * WORD;
        let words = ra.heap().alloc(bytes, LINE)?;
        let line = |number| words.plus(number * LINE);
        let shared = line(3);
        let nodes = line(4);
        let at = |home, words, node| Place { home, words, node: nodes.word(node) };
        tree.words = line(5 + u64::from(leaves));
        let leaf_of_gate = u64::from((rank.0 - first.0) / leaf);
        Ok(Hierarchical {
            words,
            gate: first.at(words).unwatched(),
            leaf: first.at(line(5 + leaf_of_gate)).unwatched(),
            leaves,
            phase: McsRwNeutral::bind(ra, at(root, shared, 0), ())?,
            revoker: Mcs::bind(ra, at(root, shared.plus(McsRwNeutral::WORDS), 3), ())?,
            gate_mutex: Mcs::bind(ra, at(first, line(1), 5), ())?,
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
    /// Counts this rank in its leaf. Returns whether its gate is OPEN then, so that this rank holds a lock_all (I4).
    #[inline]
    fn arrive<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<bool> {
        ra.fetch_add(self.leaf, HOLDER)?;
        Ok(ra.get(self.gate)? == OPEN)
    }

    /// Takes this rank's count out of its leaf. The last rank informs the rank that has closed the gate (I5).
    #[inline]
    fn depart<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        let left = ra.fetch_add(self.leaf, HOLDER.wrapping_neg())?.wrapping_sub(HOLDER);
        let closer = left & CLOSER;
        if closer != 0 && left == closer && ra.compare_and_swap(self.leaf, closer, 0)? == closer {
            ra.fetch_add(rank_of(closer).at(self.drained), 1)?;
        }
        Ok(())
    }

    /// Completes a lock_all whose count was below a closed gate.
    #[cold]
    fn lock_all_closed<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.depart(ra)?;
        self.gate_mutex.acquire(ra)?;
        // The previous holder of the mutex may have opened the gate.
        if !self.arrive(ra)? {
            self.depart(ra)?;
            self.phase.acquire_write(ra)?;
            self.tree.register(ra, u64::from(ra.rank().0) / self.tree.gate)?;
            ra.fetch_store(self.gate, OPEN)?;
            ra.fetch_add(self.leaf, HOLDER)?;
            self.phase.release_write(ra)?;
        }
        self.gate_mutex.release(ra)
    }

    /// Closes all gates, and waits until the last holder of a lock_all has left (I3).
    #[cold]
    fn revoke<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.revoker.acquire(ra)?;
        let root = self.tree.root();
        // The previous holder of the mutex may have closed the gates.
        let open = ra.get(root)?;
        if open != 0 {
            let gates = self.tree.take(ra, open)?;
            let busy = self.close(ra, &gates)?;
            if busy > 0 {
                ra.wait_until(self.drained, Until::Eq(busy))?;
                ra.fetch_add(ra.rank().at(self.drained), busy.wrapping_neg())?;
            }
            ra.fetch_store(root, 0)?;
        }
        self.revoker.release(ra)
    }

    /// Closes these gates, all at the same time. Returns the number of their leaves that still have holders.
    fn close<A: RemoteAtomics + ?Sized>(&self, ra: &A, gates: &[u64]) -> Result<u64> {
        update(ra, gates.iter().map(|&gate| self.tree.child(gate).at(self.words).unwatched()), WordOp::FetchStore(0))?;
        let held = self.tree.held(ra, gates, self.words.plus(5 * LINE), self.leaves)?;
        let held: Vec<Address> = held.into_iter().map(|(leaf, _)| leaf).collect();
        let closer = pointer(ra.rank());
        let seen = update(ra, held.iter().copied(), WordOp::FetchAdd(closer))?;
        // The holders may have left in between (I5).
        let left = held.iter().zip(seen).filter(|&(_, seen)| seen == 0).map(|(&leaf, _)| leaf);
        let seen = update(ra, left, WordOp::CompareAndSwap { expected: closer, desired: 0 })?;
        let done = seen.into_iter().filter(|&seen| seen == closer).count();
        Ok((held.len() - done) as u64)
    }
}

#[cfg(test)]
mod tests;
