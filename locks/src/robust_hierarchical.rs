//! The robust hierarchical window lock: the open gates together hold one lock_all of `robust-two-level`, and survivors close them.
//!
//! # Sources
//! The gates, the leaves and the tree are those of [`hierarchical`](crate::hierarchical), which names its sources. The master, the targets
//! and their repair are those of [`robust-two-level`](crate::robust_two_level), whose code this lock calls. Its mutexes are
//! [`RobustMcs`](crate::RobustMcs). New here are the order of the steps, and the bit of the master that stands for the gates.
//!
//! # Properties
//! - Exclusion among the live ranks is as in `hierarchical`. In the steady state, lock_all and unlock_all are one atomic operation each, on a
//!   word of the node, and lock_all reads a second word there. A failure adds nothing to that.
//! - [`lock`](WindowLock::lock) and [`lock_all`](WindowLock::lock_all) end with the failure of a rank.
//!   [`recoverable_lock`](WindowLock::recoverable_lock) and [`recoverable_lock_all`](WindowLock::recoverable_lock_all) go on.
//! - [`Entry::OwnerDead`], [`consistent`](WindowLock::consistent) and [`Error::NotRecoverable`] are as in `robust-two-level`. After a rank has
//!   failed in a lock_all, no rank gets `OwnerDead`. A lock_all that gets it keeps the gates closed until it declares the data consistent.
//! - Openings of gates, and exclusive locks that find gates open, are served in the order of their arrival at one mutex, until the first
//!   failure. So lock_alls and exclusive locks do not starve each other. Locks of one target have no order.
//! - Any number of ranks may fail. On a backend where a rank's words end with it, the exceptions are the root, the first rank of a gate, and
//!   a target in use: calls that need these words return `PeerFailed`.
//! - Waiters poll remote words, except for those in the queue of a mutex.
//! - The memory of each rank grows by a bit for each rank, as in `robust-two-level`.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, livelocks included, on nodes of one rank below a tree of two
//!   levels. Under sequential consistency and with posted puts that arrive late: with one failure at any step and with two, a lock_all and
//!   an exclusive lock; with one, the same twice each, and two exclusive locks; without a failure, two lock_alls and an exclusive lock.
//!   Sequentially consistent also: with one failure, a shared and an exclusive lock of one target, and a lock_all, an exclusive lock and a
//!   shared lock of another target; without a failure, a lock_all and two exclusive locks, and two lock_alls and an exclusive lock on
//!   nodes of two ranks. With one failure, the searches of two lock_alls and an exclusive lock, and of a lock_all and two exclusive locks,
//!   did not end, and found nothing. So a test fails a rank ahead of each of its operations that open and close gates, beside three others.
//! - A waiting lock_all keeps out exclusive locks that come after it, and a rank that has closed the gates stays counted while it waits for
//!   its target. So programs that hold shared locks while they ask for an exclusive one can deadlock, as under `hierarchical`. Programs that
//!   acquire their exclusive locks first are safe.
//!
//! # State
//! A *gate* admits the ranks of a node, and has some *leaves*, blocks of `leaf` ranks. Both have their default sizes from
//! [`hierarchical`](crate::hierarchical). Their words are at the first rank of the gate.
//!
//! | word | displacement | home | values |
//! | --- | --- | --- | --- |
//! | master, repairer, target, announced, shared | the first allocation | root, and each rank | as in [`robust-two-level`](crate::robust_two_level) |
//! | master, bit 63 | the first word | root | GATES: gates may be open |
//! | gate | `words`, the second allocation | first of a gate | 0, or OPEN |
//! | gate_tail, gate_repairer | `words` + 1 [`LINE`](crate::LINE) | first of a gate | the mutex among the ranks of a gate that find it closed |
//! | phase_tail, phase_repairer | `words` + 2 lines | root | the mutex among the ranks that open or close gates |
//! | nodes | `words` + 3 lines | each rank | the nodes of these mutexes |
//! | leaf | `words` + 4 lines, a line for each leaf | first of a gate | a bit for each rank of the leaf that is in lock_all, or attempts it |
//! | present | after the leaves, a word for each level | root, and the first gate of each group of gates | as in `hierarchical`: one bit for each child |
//!
//! # Protocol
//! - lock_all: set this rank's bit in the leaf, then look at the gate, and be inside if it is OPEN. Otherwise take the bit back, and look
//!   again under the gate's mutex. If the gate is still closed, acquire the phase mutex. If the root of the tree is 0, acquire the
//!   lock_all of `robust-two-level`, and turn its count into GATES by one addition. Register the gate in the tree, from the root down. Set
//!   OPEN, and this rank's bit.
//! - lock(exclusive): as in `robust-two-level`. If GATES refuses it, acquire the phase mutex, follow the tree down, and close all gates. Wait
//!   until the leaves have no bit of a live rank. Zero the tree, from its lowest level up to the root. Turn GATES into this rank's count by
//!   one addition, release the mutex, and wait for the target.
//! - lock(shared): as in `robust-two-level`.
//!
//! # Invariants
//! I1 to I8 of `robust-two-level`, where GATES keeps exclusive locks out as a count of lock_all does. Recounts leave GATES out.
//! - I9: only the holder of the phase mutex changes GATES, the tree and the gates, or is counted in lock_all. GATES is set by a rank that holds
//!   a lock_all. So while it is set, no rank owns a target.
//! - I10: if a gate is OPEN, its bits are set on the whole path from the root. If a word of the tree is not 0, its bit in the word above it is
//!   set, and GATES is set. So if the root is 0, the tree is empty and no gate is OPEN.
//! - I11: a rank holds a lock_all if it set its bit and saw its gate OPEN after that. A closing rank reads the leaf after it has closed the
//!   gate, so it sees the bit. GATES and the tree stay until it has seen the leaf without live ranks.
//! - I12: I9 to I11 hold ahead of each step of an opening or closing rank. So the rank that gets a mutex from a failed holder has nothing to
//!   repair. GATES or bits of closed gates may be left, which the next closing rank clears, and a count of lock_all, which a recount removes.
//!   A closing rank does not wait for such a count, since live ranks are not counted then (I9).
//! - I13: the bit of a failed rank stays in its leaf. A closing rank ignores it, after it has silenced that rank.
//! - I14: a rank that is counted as exclusive does not ask for the phase mutex, since no gate is open. So an opening rank that waits for it
//!   with that mutex does not wait forever.
//!
//! # Memory ordering
//! As in `hierarchical` and in `robust-two-level`. All operations on gates, leaves and the tree are complete when they return, so a failure
//! leaves none of them under way after the rank's silence.
//!
//! # Deviations from the parts
//! - `hierarchical` has a phase lock for readers and writers, which each exclusive lock acquires. Here the master stands for it, so the first
//!   exclusive lock takes fewer operations. Without a queue at the target, an exclusive lock polls.
//! - A leaf of `hierarchical` has a count, and the pointer to a closing rank, which the last holder notifies. Here it has bits, so that the
//!   share of a failed rank is known, and the closing rank polls.
//! - `hierarchical` clears the tree on its way down. Here that would lose the open gates of a rank that fails on its way.
//! - Under `robust-two-level`, a rank is counted as exclusive only together with a target. Here a rank that has closed the gates stays counted
//!   while it waits for its target. Otherwise it might have to close them again and again.
//!
//! # Cost
//! Operations without contention: lock_all 2 / 1, on the gate and the leaf, so on the node. Remote operations: shared 1 / 1; the first
//! exclusive lock of a rank 2 / 2 if no gate may be open; each further one 1 / 1. With k open gates: 6 more, 2 for each word of the tree below
//! the root, 2 for each gate (swap, bulk get), and 1 for each poll of a leaf that is held. The first lock_all of a gate after it was closed:
//! 2 for the phase mutex, and on each level of the tree 1 to look or to register, or 2 for both. The first gate of all takes 2 more, in
//! the master.

use std::thread::panicking;

use rmalab_atomics::{Disp, Rank, RemoteAtomics};

use crate::backoff::Backoff;
use crate::error::within;
use crate::hierarchical::tree::FAN_OUTS;
use crate::recoverable::Entry;
use crate::word_ref::RANKS;
use crate::{Error, LockKind, Result, RobustTwoLevel, RobustTwoLevelParams, WindowLock};

mod gates;

use gates::{Gates, MOST};

/// The parameters of [`RobustHierarchical`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RobustHierarchicalParams {
    /// The rank whose segment holds the words that all ranks share.
    pub root: Rank,
    /// The number of ranks of a leaf, in blocks from rank 0 on, at most 64. 0, the default, stands for the largest number from 2 to
    /// [`PART`](crate::hierarchical::PART) that divides the number of ranks of a node. If none does, it stands for the largest number
    /// up to 64 that divides it.
    pub leaf: u32,
    /// The number of children of a word of the tree, from 2 to 64, 64 by default.
    pub fan_out: u32,
    /// As in [`RobustTwoLevelParams`].
    pub announces: bool,
    /// The pauses between two attempts at a target, and between two polls.
    pub backoff: Backoff,
}

impl Default for RobustHierarchicalParams {
    fn default() -> RobustHierarchicalParams {
        RobustHierarchicalParams { root: Rank(0), leaf: 0, fan_out: 64, announces: false, backoff: Backoff::default() }
    }
}

/// One rank's part of a robust hierarchical window lock; see the [module's text](self).
#[derive(Debug)]
pub struct RobustHierarchical {
    /// The locks of targets, and the lock_all that the open gates hold.
    lock: RobustTwoLevel,
    gates: Gates,
}

impl WindowLock for RobustHierarchical {
    const NAME: &'static str = "robust-hierarchical";
    type Params = RobustHierarchicalParams;

    /// # Errors
    ///
    /// The errors of the trait, [`Error::NoSuchTarget`] when the root is not a rank, [`Error::TooManyRanks`], and [`Error::Parameter`] for a
    /// `leaf` or a `fan_out` outside its range.
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: RobustHierarchicalParams) -> Result<RobustHierarchical> {
        let size = ra.size();
        if size > RANKS {
            return Err(Error::TooManyRanks { lock: Self::NAME, size, limit: RANKS });
        }
        within(Self::NAME, "leaf", params.leaf, 0..=MOST)?;
        within(Self::NAME, "fan_out", params.fan_out, FAN_OUTS)?;
        let of_lock =
            RobustTwoLevelParams { master: params.root, announces: params.announces, backoff: params.backoff };
        let lock = RobustTwoLevel::new(ra, of_lock)?;
        Ok(RobustHierarchical { lock, gates: Gates::new(ra, params)? })
    }

    #[inline(always)]
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        self.lock_one(ra, kind, target, false).map(drop)
    }

    #[inline(always)]
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        self.lock.unlock(ra, kind, target)
    }

    #[inline(always)]
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.lock_every(ra, false).map(drop)
    }

    #[inline(always)]
    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if panicking() && self.lock.recovers {
            return Ok(());
        }
        if self.gates.is_shut {
            self.lock.unlock_all(ra)?;
            return self.gates.leave(ra);
        }
        self.gates.depart(ra)
    }

    #[inline(always)]
    fn recoverable_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<Entry> {
        self.lock.recover();
        self.lock_one(ra, kind, target, true)
    }

    #[inline(always)]
    fn recoverable_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.lock.recover();
        self.lock_every(ra, true)
    }

    fn consistent<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.lock.consistent(ra)?;
        if self.gates.is_shut { self.gates.open_late(&mut self.lock, ra) } else { Ok(()) }
    }

    fn allocations(&self) -> Vec<Disp> {
        let mut allocations = self.lock.allocations();
        allocations.push(self.gates.words());
        allocations
    }
}

impl RobustHierarchical {
    #[inline(always)]
    fn lock_one<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        recovers: bool,
    ) -> Result<Entry> {
        let gates = &mut self.gates;
        self.lock.lock_one(ra, kind, target, recovers, |lock, ra| gates.close(lock, ra, recovers)).map_err(named)
    }

    #[inline(always)]
    fn lock_every<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, recovers: bool) -> Result<Entry> {
        if self.gates.arrive(ra)? {
            return Ok(Entry::Clean);
        }
        self.gates.enter(&mut self.lock, ra, recovers).map_err(named)
    }
}

/// Returns the error with the name of this lock.
#[cold]
fn named(error: Error) -> Error {
    match error {
        Error::NotRecoverable { .. } => Error::NotRecoverable { lock: RobustHierarchical::NAME },
        other => other,
    }
}

#[cfg(test)]
mod deaths;
#[cfg(test)]
mod tests;
