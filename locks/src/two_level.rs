//! foMPI's window lock: one master word for lock_all, one word for each target, and retries.
//!
//! # Paper
//!
//! R. Gerstenberger, M. Besta, T. Hoefler: Enabling Highly-Scalable Remote Memory Access Programming with MPI-3 One
//! Sided. SC'13, 2013. DOI 10.1145/2503210.2503286. This is the two-level lock hierarchy of its passive target mode.
//!
//! # Properties
//!
//! * An exclusive lock of a target excludes the other locks of that target, and every lock_all.
//! * lock_all costs one atomic operation at any number of ranks.
//! * There is no queue and no order of arrival. An exclusive lock starves while lock_alls overlap without a gap.
//! * Free of livelock: as long as every rank goes on, some rank gets its lock. In the paper's protocol a rank in lock_all can
//!   poll the master forever, while a rank in lock(exclusive) adds itself there, finds the lock_all, removes itself and
//!   retries. See Deviations, and I4.
//! * The explorer (`rmalab verify`) has checked this code exhaustively, with waiting and with retracting: two lock_alls,
//!   exclusive locks of two targets and a shared one, and lock_all with exclusive and shared locks twice each, livelocks
//!   included.
//! * A waiting lock_all is counted, and keeps out the first exclusive lock of other ranks. So programs that hold locks while
//!   they ask for more can deadlock, even if the locks do not conflict. For example, rank 1 holds A shared and asks for B
//!   exclusively, rank 2 asks for lock_all, and rank 3 holds C exclusively and asks for A exclusively. Rank 1 waits for 2,
//!   which waits for 3, which waits for 1. [`Contended::Retract`] is free of this, since a waiting lock_all is not counted
//!   all the time.
//! * An attempt can give back all that it holds, so there are tries and deadlines: [`WindowLockTimed`].
//!
//! # State
//!
//! | word | displacement | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | master, high half | `words` | 32 bits | [`TwoLevelParams::master`] | how many ranks hold, or wait in, lock_all |
//! | master, low half | `words` | 32 bits | [`TwoLevelParams::master`] | how many ranks hold, or attempt, an exclusive lock |
//! | target, bit 0 | `words` + [`LINE`] | 1 bit | every rank | 1 while the target is locked exclusively |
//! | target, the rest | `words` + [`LINE`] | 63 bits | every rank | how many ranks hold, or wait for, it in shared mode |
//!
//! # Invariants
//!
//! * I1: a rank counts in the low half from before its first exclusive lock until after its last one.
//! * I2: a rank holds a lock_all only if it has seen the low half 0 after it was counted in the high half. A rank begins an
//!   exclusive lock only if it has seen the high half 0 in the step that counted it in the low half. Both counts are in one
//!   word, so the later of two such ranks sees the earlier one.
//! * I3: only a step that finds the whole target word 0 sets bit 0. A rank holds a shared lock only if it has seen bit 0 clear
//!   after it was counted.
//! * I4: while a lock_all is counted, each call of lock(exclusive) adds to the low half at most once. So a lock_all waits for
//!   a holder, or for an attempt that ends soon.
//!
//! # Memory ordering
//!
//! All operations are sequentially consistent and complete when they return. A release does not order the window's bulk
//! data: a window flushes them before it releases.
//!
//! # Deviations from the paper
//!
//! * The paper's lock(exclusive) repeats its first step until it succeeds: it adds to the master, and takes that back if a
//!   lock_all is counted there. With two lock_alls and one exclusive lock, that protocol has a weakly fair cycle of states in
//!   which no rank holds a lock. Here only the first attempt adds. Later attempts count this rank by a compare-and-swap
//!   against a master without lock_alls, which leaves no trace if it fails.
//! * The master's rank is a parameter. In the paper it is on one designated process.
//! * A rank waits for its own words by [`RemoteAtomics::wait_until`], and does not poll them. It waits for exclusive locks
//!   to end, so all operations are [unwatched](Address::unwatched), except those that take an exclusive lock back.
//! * The operation that releases the master returns when it is complete; the paper's does not block.
//! * [`Contended::Retract`] is an alternative that is not in the paper.
//!
//! # Cost
//!
//! Remote operations, uncontended: shared 1 / 1, lock_all 1 / 1, the first exclusive lock of a rank 2 / 2, each further
//! one 1 / 1.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Time, Until};

use crate::{Backoff, BackoffState, Error, LINE, LockKind, Result, WindowLock, WindowLockTimed};

/// One rank in the high half of the master: in lock_all.
const ALL: u64 = 1 << 32;
/// One rank in the low half of the master: in an exclusive lock.
const EXCLUSIVES: u64 = 1;
/// The low half of the master.
const EXCLUSIVES_MASK: u64 = ALL - 1;
/// The target's bit 0: locked exclusively.
const EXCLUSIVE: u64 = 1;
/// One rank in the rest of the target: in a shared lock.
const SHARED: u64 = 2;

/// The reaction of lock(shared) and lock_all to an exclusive lock, or an attempt at one, that is in their way.
///
/// lock(exclusive) always undoes its attempt and retries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Contended {
    /// Stay counted and poll until the way is free: the paper's protocol.
    #[default]
    Wait,
    /// Take the count back, back off and try again. This gives exclusive locks a better chance.
    Retract,
}

/// The parameters of [`TwoLevel`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TwoLevelParams {
    /// The rank whose segment holds the master word.
    pub master: Rank,
    /// The reaction of lock(shared) and lock_all to contention.
    pub contended: Contended,
    /// The pauses between two attempts, and between two polls.
    pub backoff: Backoff,
}

/// One rank's part of a two-level window lock; see the [module's text](self) for the protocol.
#[derive(Debug)]
pub struct TwoLevel {
    master: Address,
    /// The displacement of the target word, in every rank's segment.
    target: Disp,
    /// The number of targets that this rank has locked exclusively.
    exclusives: u32,
    contended: Contended,
    backoff: BackoffState,
}

/// The limit of an attempt, if it has one.
pub(crate) type Limit = Option<Time>;

pub(crate) fn passed<A: RemoteAtomics + ?Sized>(ra: &A, limit: Limit) -> bool {
    limit.is_some_and(|deadline| ra.now() >= deadline)
}

impl WindowLock for TwoLevel {
    const NAME: &'static str = "two-level";
    type Params = TwoLevelParams;

    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), and [`Error::NoSuchTarget`] when the master is not a rank.
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: TwoLevelParams) -> Result<TwoLevel> {
        if params.master.0 >= ra.size() {
            return Err(Error::NoSuchTarget { rank: ra.rank(), target: params.master, size: ra.size() });
        }
        // Two lines, so that ranks that poll the master do not disturb ranks that lock the master's rank.
        let words = ra.heap().alloc(2 * LINE, LINE)?;
        Ok(TwoLevel {
            master: params.master.at(words),
            target: words.plus(LINE),
            exclusives: 0,
            contended: params.contended,
            backoff: BackoffState::new(params.backoff, ra.rank()),
        })
    }

    #[inline(always)]
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        let at = target.at(self.target).unwatched();
        match kind {
            LockKind::Shared if ra.fetch_add(at, SHARED)? & EXCLUSIVE == 0 => Ok(()),
            LockKind::Shared => self.wait(ra, target, self.target, SHARED, EXCLUSIVE, None).map(drop),
            LockKind::Exclusive if self.attempt_exclusive(ra, at, true)? => Ok(()),
            LockKind::Exclusive => self.retry_exclusive(ra, target, None).map(drop),
        }
    }

    #[inline(always)]
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        let at = target.at(self.target);
        match kind {
            LockKind::Shared => ra.fetch_add(at.unwatched(), SHARED.wrapping_neg())?,
            LockKind::Exclusive => {
                // Not a store of 0, since waiting shared locks may already be counted in the word (I3).
                ra.fetch_add(at, EXCLUSIVE.wrapping_neg())?;
                self.exclusives -= 1;
                // The master after the target, for I1.
                if self.exclusives > 0 {
                    return Ok(());
                }
                ra.fetch_add(self.master, EXCLUSIVES.wrapping_neg())?
            }
        };
        Ok(())
    }

    #[inline(always)]
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if ra.fetch_add(self.master.unwatched(), ALL)? & EXCLUSIVES_MASK == 0 {
            return Ok(());
        }
        self.wait(ra, self.master.rank, self.master.disp, ALL, EXCLUSIVES_MASK, None).map(drop)
    }

    #[inline(always)]
    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.master.unwatched(), ALL.wrapping_neg())?;
        Ok(())
    }

    fn allocations(&self) -> Vec<Disp> {
        // The master word is the allocation's first one.
        vec![self.master.disp]
    }
}

impl WindowLockTimed for TwoLevel {
    fn try_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<bool> {
        let at = target.at(self.target).unwatched();
        match kind {
            LockKind::Shared => attempt(ra, at, SHARED, EXCLUSIVE),
            LockKind::Exclusive => self.attempt_exclusive(ra, at, true),
        }
    }

    fn lock_until<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        deadline: Time,
    ) -> Result<bool> {
        let at = target.at(self.target).unwatched();
        match kind {
            LockKind::Shared if ra.fetch_add(at, SHARED)? & EXCLUSIVE == 0 => Ok(true),
            LockKind::Shared => self.wait(ra, target, self.target, SHARED, EXCLUSIVE, Some(deadline)),
            LockKind::Exclusive if self.attempt_exclusive(ra, at, true)? => Ok(true),
            LockKind::Exclusive => self.retry_exclusive(ra, target, Some(deadline)),
        }
    }

    fn try_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        attempt(ra, self.master.unwatched(), ALL, EXCLUSIVES_MASK)
    }

    fn lock_all_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        if ra.fetch_add(self.master.unwatched(), ALL)? & EXCLUSIVES_MASK == 0 {
            return Ok(true);
        }
        self.wait(ra, self.master.rank, self.master.disp, ALL, EXCLUSIVES_MASK, Some(deadline))
    }
}

impl TwoLevel {
    /// Makes one attempt at an exclusive lock, which leaves nothing behind when it fails. The `first` attempt of a call
    /// takes the paper's step in the master. That step succeeds at once if there is no lock_all, at any number of
    /// exclusive locks.
    #[inline(always)]
    fn attempt_exclusive<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, at: Address, first: bool) -> Result<bool> {
        let alone = self.exclusives == 0;
        // This is a branch, since a function argument would not be inlined, and its result would be in memory.
        let counted = match (alone, first) {
            (true, true) => attempt(ra, self.master, EXCLUSIVES, !EXCLUSIVES_MASK)?,
            (true, false) => count_without_trace(ra, self.master)?,
            (false, _) => true,
        };
        if !counted {
            return Ok(false);
        }
        if ra.compare_and_swap(at, 0, EXCLUSIVE)? == 0 {
            self.exclusives += 1;
            return Ok(true);
        }
        if alone {
            ra.fetch_add(self.master, EXCLUSIVES.wrapping_neg())?;
        }
        Ok(false)
    }

    /// Repeats attempts at an exclusive lock, after a failed one, until one succeeds. Returns `false` at the limit.
    #[cold]
    fn retry_exclusive<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank, limit: Limit) -> Result<bool> {
        self.backoff.reset();
        let at = target.at(self.target).unwatched();
        while !passed(ra, limit) {
            self.backoff.wait(ra)?;
            if self.attempt_exclusive(ra, at, false)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until no bit of `obstacle` is set in the word at `disp` of `rank`, in which this rank is counted by `count`.
    /// At the limit, takes the count back and returns `false`.
    #[cold]
    fn wait<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        rank: Rank,
        disp: Disp,
        count: u64,
        obstacle: u64,
        limit: Limit,
    ) -> Result<bool> {
        self.backoff.reset();
        let at = rank.at(disp).unwatched();
        match self.contended {
            Contended::Retract => {
                retract(ra, at, count)?;
                while !passed(ra, limit) {
                    self.backoff.wait(ra)?;
                    if attempt(ra, at, count, obstacle)? {
                        return Ok(true);
                    }
                }
                return Ok(false);
            }
            Contended::Wait if at.rank == ra.rank() => {
                let until = Until::NoneSet(obstacle);
                let seen = match limit {
                    None => Some(ra.wait_until(at.disp, until)?),
                    Some(deadline) => ra.wait_until_deadline(at.disp, until, deadline)?,
                };
                if seen.is_some() {
                    return Ok(true);
                }
            }
            Contended::Wait => {
                while !passed(ra, limit) {
                    self.backoff.wait(ra)?;
                    if ra.get(at)? & obstacle == 0 {
                        return Ok(true);
                    }
                }
            }
        }
        retract(ra, at, count)?;
        Ok(false)
    }
}

/// Counts this rank in the word `at` by `count`, and takes that back if a bit of `obstacle` was set.
#[inline(always)]
fn attempt<A: RemoteAtomics + ?Sized>(ra: &A, at: Address, count: u64, obstacle: u64) -> Result<bool> {
    if ra.fetch_add(at.unwatched(), count)? & obstacle == 0 {
        return Ok(true);
    }
    retract(ra, at, count)?;
    Ok(false)
}

/// Takes the step of a rank that retries (I4). It fails beside a lock_all, and also if the number of exclusive locks
/// changes meanwhile.
fn count_without_trace<A: RemoteAtomics + ?Sized>(ra: &A, master: Address) -> Result<bool> {
    let others = ra.compare_and_swap(master, 0, EXCLUSIVES)?;
    if others == 0 || others > EXCLUSIVES_MASK {
        return Ok(others == 0);
    }
    Ok(ra.compare_and_swap(master, others, others + EXCLUSIVES)? == others)
}

#[inline(always)]
fn retract<A: RemoteAtomics + ?Sized>(ra: &A, at: Address, count: u64) -> Result<()> {
    ra.fetch_add(at, count.wrapping_neg())?;
    Ok(())
}

#[cfg(test)]
mod tests;
