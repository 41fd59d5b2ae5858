//! RMA-MCS: a tree of MCS queues, one for each element of the machine. It passes the lock to near ranks first.
//!
//! # Paper
//! P. Schmid, M. Besta, T. Hoefler, "High-Performance Distributed RMA Locks", HPDC'16, 2016, DOI 10.1145/2907294.2907323:
//! the distributed queues (DQ) and the distributed tree (DT), whose thresholds T_L are used here. Its D-MCS, one queue over
//! all ranks, is [`mcs`](crate::mcs). HMCS has the same order of steps: M. Chabbi, M. Fagan, J. Mellor-Crummey, "High
//! Performance Locks for Multi-level NUMA Systems", PPoPP'15, 2015, DOI 10.1145/2688500.2688503.
//!
//! # Properties
//! - Mutual exclusion. While others wait, an element keeps the lock for at most T_L,i acquisitions of its members. Each queue
//!   is first come, first served. So no rank starves in a fair schedule. The bypass below is `unbounded`, since it includes
//!   schedules in which a rank on its way up the tree makes no progress.
//! - Ranks wait on words of their own segments, with one exception. A releasing rank polls for a link if a successor has
//!   entered the queue of an upper level and has not linked itself yet.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, on nodes of two ranks, with T_L = 1 and 2.
//!   Under sequential consistency and with posted puts that arrive late: 4 ranks × 1 and 3 × 2. With data and bulk puts
//!   in any order: 2 × 2. With `--long`, sequentially consistent: 4 × 2, and 5 × 1 on three levels.
//!
//! # State
//! Levels count from 1, the world, to N ([`crate::levels`]). The *members* of an element are its elements of the next level,
//! and in level N its ranks. A member is named by its first rank.
//!
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail1 | words + 0 | 8 | home | nil, or the pointer of the last member in the queue of the world |
//! | status | node + 0 | 8 | each rank | 0, or how this rank may go on: see below |
//! | next1 to next4 | node + 8 | 8 each | first rank of a member | nil, or the pointer of the *rank* that waits after it |
//! | tail2 to tail4 | node + 40 | 8 each | first rank of an element | nil, or the pointer of its last member in the queue |
//!
//! A status is either [`ACQUIRE_PARENT`] or the lock itself: four counts of 16 bits. Count i is the number of times in a row
//! that the lock was passed in the queue of level i, the current acquisition included.
//!
//! # Invariants
//! - I1: a tail is nil if and only if no member of its element holds the lock or waits for it.
//! - I2: at most one rank of an element represents it in the queue of the parent. It is the head of the element's queue, or it
//!   was the head when it entered the parent's queue and has passed the lock inside the element since.
//! - I3: the holder of the lock is in the element at the head of every queue on its path.
//! - I4: only the holder of the queue in which a rank waits writes that rank's `status`, and only after the rank has
//!   begun to wait. The reset of `status` is complete before the rank enters the next queue.
//! - I5: the reset of a member's `next` to nil is complete before the member enters a queue.
//!
//! # Memory ordering
//! The swaps on tails order the queues. Links and statuses are posted puts, and only the rank that waits for one depends on
//! when it arrives. A rank's resets of its own words are posted, and ordered ahead of the swap by which it enters a queue. A swap
//! resets the `next` of an element, and is complete when it returns, since another rank may use the element next. The reset
//! comes after the link: where puts are not atomic with atomics, an earlier reset could lose the link.
//!
//! # Deviations from the paper
//! - A rank waits for its element in its own status, not in a node of the element: the link names the rank that waits. So no
//!   rank polls another rank's memory while it waits for its turn.
//! - The counts travel with the lock. In the paper, each element keeps its count.
//! - T_L,1 has no meaning here, since the lock never leaves the members of the world.
//! - As in [`mcs`](crate::mcs), `status` is 0 at rest, and the release resets `next`.
//!
//! # Cost
//! Remote operations without contention, for N levels: acquire N (a swap each), release 2N - 1 (N compare-and-swaps, and
//! N - 1 gets of `next` at the first rank of the rank's element). One swap and one compare-and-swap are at the home, and the
//! others are inside an element. With the world and its nodes that is 1 / 1 to another node, and 1 / 2 to the first rank of
//! the node. For that rank itself the latter are local. With one node, or one rank on each node, there is one level: 1 / 1.
//! With a predecessor on the node that passes the lock: acquire 2, release 1.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until, WORD};

use crate::levels::{Elements, Levels, MAX_LEVELS};
use crate::qnode::{NIL, pointer, rank_of};
use crate::{Backoff, BackoffState, Error, Place, RawMutex, Result};

/// Passed once in each level.
const ONCE: u64 = 0x1_0001_0001_0001;
/// The status of a rank that is now the head of its element's queue, and has to enter the queue of the parent. It
/// differs from every lock, since its count of level 1 is 0.
pub const ACQUIRE_PARENT: u64 = 1 << 16;

/// Bytes of the tree's words in each rank's segment: the status, and for each level a `next` and, below the world, a tail.
pub(crate) const NODE: u64 = (1 + MAX_LEVELS as u64 + (MAX_LEVELS as u64 - 1)) * WORD;

/// The parameters of [`RmaMcs`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RmaMcsParams {
    /// The elements of the machine: levels 2 to N.
    pub levels: Elements,
    /// T_L,1 to T_L,4: the number of times in a row that the lock is acquired inside an element of the level while
    /// others wait. At least 1, with which each release hands the lock to the parent. T_L,1 is not used.
    pub t_l: [u16; MAX_LEVELS],
    /// The pauses between polls for a link that is under way.
    pub backoff: Backoff,
}

impl Default for RmaMcsParams {
    /// 32 in each level, which is our choice: with many waiters, one hand-over in 32 leaves the element.
    fn default() -> RmaMcsParams {
        RmaMcsParams { levels: Elements::Topology, t_l: [32; MAX_LEVELS], backoff: Backoff::default() }
    }
}

/// One rank's handle of an RMA-MCS mutex.
#[derive(Debug)]
pub struct RmaMcs(Tree);

impl RawMutex for RmaMcs {
    const NAME: &'static str = "rma-mcs";
    const WORDS: u64 = WORD;
    const NODE: u64 = NODE;
    type Params = RmaMcsParams;

    /// # Errors
    ///
    /// [`Error::Parameter`] when a threshold is 0, or the levels are [not valid](Levels::new).
    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: RmaMcsParams) -> Result<RmaMcs> {
        let RmaMcsParams { levels, mut t_l, backoff } = params;
        // The root is only ever handed to its successor.
        t_l[0] = 1;
        Ok(RmaMcs(Tree::bind(ra, place, Self::NAME, levels, t_l, backoff)?))
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.acquire(ra)?;
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.release(ra, |_| Ok(()))
    }
}

/// The distributed tree of queues, which RMA-RW uses, too.
#[derive(Debug)]
pub(crate) struct Tree {
    levels: Levels,
    t_l: [u16; MAX_LEVELS],
    /// The tail of the world's queue.
    root: Address,
    node: Disp,
    me: Rank,
    /// The lock, while this rank holds it.
    held: u64,
    backoff: BackoffState,
}

impl Tree {
    /// Makes this rank's handle of the tree at `place`, for the lock called `lock`.
    pub(crate) fn bind<A: RemoteAtomics + ?Sized>(
        ra: &A,
        place: Place,
        lock: &'static str,
        levels: Elements,
        t_l: [u16; MAX_LEVELS],
        backoff: Backoff,
    ) -> Result<Tree> {
        if let Some(level) = t_l.iter().position(|&most| most == 0) {
            let why = format!("T_L,{} is 0, so no rank could ever acquire; it has to be at least 1", level + 1);
            return Err(Error::Parameter { lock, parameter: "t_l", why });
        }
        let levels = Levels::new(ra, lock, levels)?;
        let backoff = BackoffState::new(backoff, ra.rank());
        Ok(Tree { levels, t_l, root: place.word(0), node: place.node, me: ra.rank(), held: 0, backoff })
    }

    /// This rank's own status.
    fn status(&self) -> Disp {
        self.node
    }

    /// Returns the address of `next` of a member in the queue of `level`.
    fn next(&self, level: usize) -> Disp {
        self.node.word(level as u64)
    }

    /// The tail of the queue of this rank's element of `level`.
    fn tail(&self, level: usize) -> Address {
        match level {
            1 => self.root,
            _ => self.levels.first(level).at(self.node.word((MAX_LEVELS + level - 1) as u64)).unwatched(),
        }
    }

    /// Returns the member that this rank represents in the queue of `level`.
    fn member(&self, level: usize) -> Rank {
        if level == self.levels.count() { self.me } else { self.levels.first(level + 1) }
    }

    /// Acquires the lock. Returns whether this acquisition is the first one of a row at the root.
    pub(crate) fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        for level in (1..=self.levels.count()).rev() {
            // Completes the resets of this rank's own words (I4, I5).
            ra.order(self.me)?;
            let pred = ra.fetch_store(self.tail(level), pointer(self.member(level)))?;
            if pred == NIL {
                continue;
            }
            ra.put(rank_of(pred).at(self.next(level)), pointer(self.me))?;
            let status = ra.wait_until(self.status(), Until::Ne(0))?;
            ra.put(self.me.at(self.status()), 0)?;
            if status != ACQUIRE_PARENT {
                self.held = status;
                return Ok(level == 1 && count(status, 1) == 1);
            }
        }
        self.held = ONCE;
        Ok(true)
    }

    /// Releases the lock. If the row at the root ends with this release, calls `hand_over` first.
    pub(crate) fn release<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        hand_over: impl FnOnce(&A) -> Result<()>,
    ) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        let mut succ = [NIL; MAX_LEVELS + 1];
        // Up to the first level in which the lock may be passed.
        let mut passed_in = 0;
        for level in (1..=self.levels.count()).rev() {
            succ[level] = self.take_next(ra, level)?;
            if succ[level] != NIL && count(held, level) < self.t_l[level - 1] {
                self.grant(ra, succ[level], passed(held, level))?;
                passed_in = level;
                break;
            }
        }
        if passed_in == 0 {
            hand_over(ra)?;
        }
        // Down again: passes each queue to its next member, which finds the parent's queue without this element (I2).
        for level in passed_in + 1..=self.levels.count() {
            let mut succ = succ[level];
            if succ == NIL {
                let member = pointer(self.member(level));
                if ra.compare_and_swap(self.tail(level), member, NIL)? == member {
                    continue;
                }
                // By I1 there is a successor, whose link is under way.
                succ = self.wait_next(ra, level)?;
            }
            self.grant(ra, succ, if level == 1 { ONCE } else { ACQUIRE_PARENT })?;
        }
        Ok(())
    }

    fn grant<A: RemoteAtomics + ?Sized>(&self, ra: &A, waiter: u64, status: u64) -> Result<()> {
        Ok(ra.put(rank_of(waiter).at(self.status()), status)?)
    }

    /// Returns the rank that waits behind this rank's member in the queue of `level`, or nil. `next` is nil afterwards.
    fn take_next<A: RemoteAtomics + ?Sized>(&self, ra: &A, level: usize) -> Result<u64> {
        let next = ra.get(self.member(level).at(self.next(level)))?;
        if next != NIL {
            self.reset_next(ra, level)?;
        }
        Ok(next)
    }

    /// Resets `next` once its link is there. A swap of a nil `next` could lose a link that is put at the same time.
    fn reset_next<A: RemoteAtomics + ?Sized>(&self, ra: &A, level: usize) -> Result<()> {
        let at = self.member(level).at(self.next(level));
        if level < self.levels.count() {
            ra.fetch_store(at, NIL)?;
        } else {
            ra.put(at, NIL)?;
        }
        Ok(())
    }

    /// Like [`take_next`](Self::take_next), for a link that is under way.
    #[cold]
    fn wait_next<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, level: usize) -> Result<u64> {
        let at = self.member(level).at(self.next(level));
        let next = if at.rank == self.me {
            ra.wait_until(at.disp, Until::Ne(NIL))?
        } else {
            self.backoff.reset();
            loop {
                let next = ra.get(at)?;
                if next != NIL {
                    break next;
                }
                self.backoff.wait(ra)?;
            }
        };
        self.reset_next(ra, level)?;
        Ok(next)
    }
}

/// Returns the lowest bit of the count of `level`.
fn shift(level: usize) -> u32 {
    16 * (level as u32 - 1)
}

/// Returns the number of times in a row that the lock was passed in `level`.
fn count(lock: u64, level: usize) -> u16 {
    (lock >> shift(level)) as u16
}

/// Returns the lock, passed once more in `level`, and for the first time below.
fn passed(lock: u64, level: usize) -> u64 {
    let upper = u64::MAX >> shift(MAX_LEVELS - level + 1);
    ((lock & upper) + (1 << shift(level))) | (ONCE & !upper)
}

#[cfg(test)]
mod tests;
