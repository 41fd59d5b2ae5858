//! One target's reader-writer lock: a word, and a queue ahead of it that contains only waiting ranks.
//!
//! A rank can hold many targets at once, but waits for one at a time. So a rank needs no memory for the targets that it holds, and one queue
//! node for each rank serves all targets.
//!
//! # State
//! | word | at | home | values |
//! | --- | --- | --- | --- |
//! | target | words | each rank | see below |
//! | target_tail | words + 8 | each rank | the tail of the [`Mcs`] mutex around waiting |
//! | target_node | node | each rank | its node |
//! | granted | node + 16 | each rank | 0, or 1 from the admission of a waiter until it has seen that |
//!
//! | bits of target | 63 | 62 | 61–32 | 31–0 |
//! | --- | --- | --- | --- | --- |
//! | | EXCLUSIVE: held exclusively | the waiter asks for a shared lock | shared holders, and attempts | nil, or the pointer to the waiter |
//!
//! # Invariants
//! - T1: only the holder of the queue's mutex is the waiter, and it holds the mutex until it is admitted. So there is one waiter at a time.
//! - T2: while there is a waiter, no other rank enters. An exclusive attempt finds a word other than 0. A shared attempt counts itself, finds
//!   the waiter, takes its count back and queues. Each call does so at most once.
//! - T3: the atomic step from (no rank inside, this waiter) to EXCLUSIVE admits a waiter for an exclusive lock. So of several ranks that try
//!   this step, one succeeds. Each rank that leaves such a waiter with no rank inside tries it, the waiter itself included. The step fails
//!   only because of an attempt (T2), whose end leaves no rank inside again.
//! - T4: the rank that clears EXCLUSIVE admits a waiter for a shared lock. If it was clear when the waiter came, the waiter admits itself.
//!
//! # Cost
//! Remote operations without contention: 1 / 1. A waiter takes at most 7, and each holder that it waits for takes 2 more.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until};

use crate::qnode::{Qnode, pointer, rank_of};
use crate::{LockKind, Mcs, Place, RawMutex, Result};

/// Held exclusively.
const EXCLUSIVE: u64 = 1 << 63;
/// The waiter asks for a shared lock.
const WAITS_SHARED: u64 = 1 << 62;
/// One shared holder.
const SHARED: u64 = 1 << 32;
/// The bits of shared holders.
const HOLDERS: u64 = WAITS_SHARED - SHARED;
/// The bits of the waiter.
const WAITER: u64 = SHARED - 1;
/// The largest number of ranks that can be counted.
pub(super) const RANKS: u32 = 1 << 29;

/// One rank's part of the locks of all targets.
#[derive(Debug)]
pub(super) struct Targets {
    /// The displacement of a target's words, in every rank's segment.
    words: Disp,
    node: Disp,
    granted: Disp,
}

impl Targets {
    pub(super) fn new(words: Disp, node: Disp) -> Targets {
        Targets { words, node, granted: node.plus(Qnode::BYTES) }
    }

    fn at(&self, target: Rank) -> Address {
        target.at(self.words).unwatched()
    }

    fn queue<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> Result<Mcs> {
        Mcs::bind(ra, Place { home: target, words: self.words.word(1), node: self.node }, ())
    }

    #[inline]
    pub(super) fn acquire<A: RemoteAtomics + ?Sized>(&self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        let at = self.at(target);
        match kind {
            LockKind::Exclusive if ra.compare_and_swap(at, 0, EXCLUSIVE)? == 0 => Ok(()),
            LockKind::Exclusive => self.wait(ra, target, Self::come_exclusive),
            LockKind::Shared if ra.fetch_add(at, SHARED)? & (EXCLUSIVE | WAITER) == 0 => Ok(()),
            LockKind::Shared => {
                self.release(ra, LockKind::Shared, target)?;
                self.wait(ra, target, Self::come_shared)
            }
        }
    }

    #[inline]
    pub(super) fn release<A: RemoteAtomics + ?Sized>(&self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        let at = self.at(target);
        let leaves = match kind {
            LockKind::Exclusive => EXCLUSIVE,
            LockKind::Shared => SHARED,
        };
        let left = ra.fetch_add(at, leaves.wrapping_neg())?.wrapping_sub(leaves);
        let waiter = left & WAITER;
        if waiter == 0 || left & EXCLUSIVE != 0 {
            Ok(())
        } else if left & WAITS_SHARED == 0 {
            if left == waiter && self.let_in(ra, at, waiter)? {
                self.grant(ra, waiter)?;
            }
            Ok(())
        } else if kind == LockKind::Exclusive {
            ra.fetch_add(at, SHARED.wrapping_sub(waiter | WAITS_SHARED))?;
            self.grant(ra, waiter)
        } else {
            Ok(())
        }
    }

    /// Queues, and becomes the waiter by `come`, which returns whether it is admitted already. Waits if it is not.
    #[cold]
    fn wait<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        target: Rank,
        come: fn(&Self, &A, Address) -> Result<bool>,
    ) -> Result<()> {
        let mut queue = self.queue(ra, target)?;
        // The flush of that put completes the reset of `granted`, too.
        queue.acquire(ra)?;
        if !come(self, ra, self.at(target))? {
            ra.wait_until(self.granted, Until::Ne(0))?;
            ra.put(ra.rank().at(self.granted), 0)?;
        }
        queue.release(ra)
    }

    fn come_exclusive<A: RemoteAtomics + ?Sized>(&self, ra: &A, at: Address) -> Result<bool> {
        let waiter = pointer(ra.rank());
        let inside = ra.fetch_add(at, waiter)? & (EXCLUSIVE | HOLDERS);
        Ok(inside == 0 && self.let_in(ra, at, waiter)?)
    }

    fn come_shared<A: RemoteAtomics + ?Sized>(&self, ra: &A, at: Address) -> Result<bool> {
        let waiter = pointer(ra.rank()) | WAITS_SHARED;
        let inside = ra.fetch_add(at, waiter)? & EXCLUSIVE;
        if inside == 0 {
            ra.fetch_add(at, SHARED.wrapping_sub(waiter))?;
        }
        Ok(inside == 0)
    }

    /// Admits the waiter for an exclusive lock if no rank is inside, and returns whether it did (T3).
    fn let_in<A: RemoteAtomics + ?Sized>(&self, ra: &A, at: Address, waiter: u64) -> Result<bool> {
        Ok(ra.compare_and_swap(at, waiter, EXCLUSIVE)? == waiter)
    }

    fn grant<A: RemoteAtomics + ?Sized>(&self, ra: &A, waiter: u64) -> Result<()> {
        Ok(ra.put(rank_of(waiter).at(self.granted), 1)?)
    }
}
