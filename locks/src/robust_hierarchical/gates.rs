//! The gates that admit lock_all without the master.

use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};

use super::RobustHierarchicalParams;
use crate::hierarchical::tree::{Tree, blocks, update};
use crate::recoverable::{Entry, Recoverable};
use crate::robust_two_level::{ALL, EXCLUSIVE, GATES, IN_ALL, IN_EXCLUSIVES, LOW};
use crate::word_ref::Node;
use crate::{LINE, Place, RawMutex, Result, RobustMcs, RobustTwoLevel};

/// In a gate: lock_all may come in.
pub(super) const OPEN: u64 = 1;
/// The largest number of ranks in a leaf: each is one bit.
pub(super) const MOST: u32 = u64::BITS;

/// One rank's part of the gates.
#[derive(Debug)]
pub(super) struct Gates {
    /// This rank's gate.
    pub(super) gate: Address,
    gate_mutex: Box<RobustMcs>,
    /// This rank's leaf, and its bit there.
    pub(super) leaf: Address,
    bit: u64,
    /// The number of leaves of this rank's gate.
    pub(super) leaves: u32,
    phase: Box<RobustMcs>,
    pub(super) tree: Tree,
    /// True if this rank holds a lock_all by its count in the master, and keeps both mutexes, until it declares the data consistent.
    pub(super) is_shut: bool,
}

/// Acquires a mutex that guards only the steps of this lock, each of which leaves the invariants true. So a holder that fails leaves nothing
/// to repair.
fn acquire<A: RemoteAtomics + ?Sized>(mutex: &mut RobustMcs, ra: &A, recovers: bool) -> Result<()> {
    if recovers { mutex.recoverable_acquire(ra).map(drop) } else { mutex.acquire(ra) }
}

impl Gates {
    pub(super) fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: RobustHierarchicalParams) -> Result<Gates> {
        let (leaf, leaves) = blocks(ra.topology(), params.leaf, MOST);
        let (me, gate) = (ra.rank().0, leaf * leaves);
        let first = Rank(me / gate * gate);
        let mut tree = Tree::new(params.root, ra.size(), gate, params.fan_out);
        let words = ra.heap().alloc((4 + u64::from(leaves)) * LINE + u64::from(tree.levels) * WORD, LINE)?;
        let line = |number| words.plus(number * LINE);
        let nodes = line(3);
        tree.words = line(4 + u64::from(leaves));
        let leaf_of_gate = u64::from((me - first.0) / leaf);
        // Boxed, since a lock_all whose gate is open does not need them.
        let mutex = |place| RobustMcs::bind(ra, place, ()).map(Box::new);
        Ok(Gates {
            gate: first.at(words).unwatched(),
            gate_mutex: mutex(Place { home: first, words: line(1), node: nodes.plus(Node::BYTES) })?,
            leaf: first.at(line(4 + leaf_of_gate)).unwatched(),
            bit: 1 << ((me - first.0) % leaf),
            leaves,
            phase: mutex(Place { home: params.root, words: line(2), node: nodes })?,
            tree,
            is_shut: false,
        })
    }

    pub(super) fn words(&self) -> Disp {
        self.gate.disp
    }

    /// Sets this rank's bit in its leaf. If the gate is OPEN then, this rank holds a lock_all (I11). Otherwise it takes the bit back.
    #[inline(always)]
    pub(super) fn arrive<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<bool> {
        ra.fetch_add(self.leaf.unwatched(), self.bit)?;
        let is_open = ra.get(self.gate)? == OPEN;
        if !is_open {
            self.depart(ra)?;
        }
        Ok(is_open)
    }

    #[inline(always)]
    pub(super) fn depart<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        ra.fetch_add(self.leaf.unwatched(), self.bit.wrapping_neg())?;
        Ok(())
    }

    /// Completes a lock_all whose gate was closed.
    #[cold]
    pub(super) fn enter<A: RemoteAtomics + ?Sized>(
        &mut self,
        lock: &mut RobustTwoLevel,
        ra: &A,
        recovers: bool,
    ) -> Result<Entry> {
        acquire(&mut self.gate_mutex, ra, recovers)?;
        let entered = self.enter_alone(lock, ra, recovers);
        // After an error, too, so that other ranks get it in place of a wait.
        if self.is_shut { entered } else { self.gate_mutex.release(ra).and(entered) }
    }

    fn enter_alone<A: RemoteAtomics + ?Sized>(
        &mut self,
        lock: &mut RobustTwoLevel,
        ra: &A,
        recovers: bool,
    ) -> Result<Entry> {
        // The previous holder of the mutex may have opened the gate.
        if ra.get(self.gate)? == OPEN && self.arrive(ra)? {
            return Ok(Entry::Clean);
        }
        acquire(&mut self.phase, ra, recovers)?;
        let entered = self.enter_by_master(lock, ra, recovers);
        if self.is_shut { entered } else { self.phase.release(ra).and(entered) }
    }

    /// Opens this rank's gate. If no gate may be open, it acquires the lock_all of the gates first.
    fn enter_by_master<A: RemoteAtomics + ?Sized>(
        &mut self,
        lock: &mut RobustTwoLevel,
        ra: &A,
        recovers: bool,
    ) -> Result<Entry> {
        let root = ra.get(self.tree.root())?;
        // Otherwise GATES is set (I10).
        if root == 0 {
            let master = lock.count(ra, lock.share(ALL), IN_ALL)?;
            if master & LOW != 0 {
                let entry = lock.wait_for_exclusives(ra, master, recovers)?;
                if entry != Entry::Clean {
                    self.is_shut = true;
                    return Ok(entry);
                }
            }
            self.trade(lock, ra, GATES & !master)?;
        }
        self.open(ra, root)?;
        Ok(Entry::Clean)
    }

    /// Turns this rank's lock_all into the lock_all of the gates, which is in the master already unless `gates` adds it.
    fn trade<A: RemoteAtomics + ?Sized>(&self, lock: &mut RobustTwoLevel, ra: &A, gates: u64) -> Result<()> {
        lock.count(ra, gates.wrapping_sub(lock.share(ALL)), IN_ALL).map(drop)
    }

    /// Opens this rank's gate, while GATES is set. The word of the tree's root is `root`.
    fn open<A: RemoteAtomics + ?Sized>(&self, ra: &A, root: u64) -> Result<()> {
        self.tree.register_from_root(ra, u64::from(ra.rank().0) / self.tree.gate, root)?;
        ra.fetch_store(self.gate, OPEN)?;
        ra.fetch_add(self.leaf, self.bit)?;
        Ok(())
    }

    /// Opens this rank's gate after it has declared the data consistent. No gate was open meanwhile.
    pub(super) fn open_late<A: RemoteAtomics + ?Sized>(&mut self, lock: &mut RobustTwoLevel, ra: &A) -> Result<()> {
        self.trade(lock, ra, GATES)?;
        self.open(ra, 0)?;
        self.leave(ra)
    }

    /// Releases both mutexes.
    pub(super) fn leave<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.is_shut = false;
        self.phase.release(ra)?;
        self.gate_mutex.release(ra)
    }

    /// Closes all gates, waits until no live rank holds a lock_all, and counts this rank among the exclusive locks.
    pub(super) fn close<A: RemoteAtomics + ?Sized>(
        &mut self,
        lock: &mut RobustTwoLevel,
        ra: &A,
        recovers: bool,
    ) -> Result<()> {
        acquire(&mut self.phase, ra, recovers)?;
        let closed = self.close_alone(lock, ra, recovers);
        self.phase.release(ra).and(closed)
    }

    fn close_alone<A: RemoteAtomics + ?Sized>(&self, lock: &mut RobustTwoLevel, ra: &A, recovers: bool) -> Result<()> {
        let root = ra.get(self.tree.root())?;
        let mut gates = GATES;
        if root == 0 {
            // Another rank may have closed them, or the rank that has set GATES has failed ahead of opening its gate.
            gates &= lock.master_word(ra)?;
        } else {
            let (open, above) = self.tree.read(ra, root)?;
            let words = open.iter().map(|&gate| self.tree.child(gate).at(self.words()).unwatched());
            update(ra, words, WordOp::FetchStore(0))?;
            for (leaf, held) in self.tree.held(ra, &open, self.words().plus(4 * LINE), self.leaves)? {
                self.drain(lock, ra, leaf, held, recovers)?;
            }
            self.tree.clear(ra, &above)?;
        }
        lock.count(ra, lock.share(EXCLUSIVE).wrapping_sub(gates), IN_EXCLUSIVES).map(drop)
    }

    /// Waits until no live rank is left of those whose bits are in `held`, the word of this leaf.
    fn drain<A: RemoteAtomics + ?Sized>(
        &self,
        lock: &mut RobustTwoLevel,
        ra: &A,
        leaf: Address,
        mut held: u64,
        recovers: bool,
    ) -> Result<()> {
        let number = (leaf.disp.0 - self.words().plus(4 * LINE).0) / LINE;
        let first = u64::from(leaf.rank.0) + number * (self.tree.gate / u64::from(self.leaves));
        let ranks = |bits: u64| (0..u64::from(MOST)).filter(move |bit| bits >> bit & 1 != 0);
        while held != 0 {
            let failed = lock.ask(ra, recovers)?;
            if ranks(held).all(|bit| failed.contains(Rank((first + bit) as u32))) {
                // From here on, nothing that they have posted takes effect.
                return Ok(ra.silence(&failed)?);
            }
            lock.pause(ra, recovers)?;
            // Ranks that have come since then find their gate closed.
            held &= ra.get(leaf)?;
        }
        Ok(())
    }
}
