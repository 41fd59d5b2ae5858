//! A two-level window lock whose lock_all looks at all targets, so that exclusive locks leave the master alone.
//!
//! # Paper
//!
//! The words, and the steps of shared locks, are those of [`two-level`](crate::two_level): R. Gerstenberger, M. Besta, T. Hoefler:
//! Enabling Highly-Scalable Remote Memory Access Programming with MPI-3 One Sided. SC'13, 2013. DOI 10.1145/2503210.2503286. The
//! handshake of a lock_all and an exclusive lock, by which each writes its own word and then reads the other's, is that of
//! E. W. Dijkstra: Solution of a Problem in Concurrent Programming Control. Communications of the ACM 8(9), 1965.
//! DOI 10.1145/365559.365617. Their combination is new here.
//!
//! # Properties
//!
//! * An exclusive lock of a target excludes the other locks of that target, and every lock_all.
//! * An exclusive lock of one target is one atomic operation to acquire and one to release, both at the target, and one look at the
//!   master. So exclusive locks of different targets change no common word.
//! * A lock_all looks at every target: p ranks, p + 1 gets. It suits few ranks that share memory, or programs that seldom call lock_all.
//! * There is no queue and no order of arrival. An exclusive lock starves while lock_alls overlap without a gap.
//! * Free of livelock: as long as every rank goes on, some rank gets its lock.
//! * The explorer (`rmalab verify`) has checked this code exhaustively: two lock_alls, exclusive locks of two targets and a shared one,
//!   lock_all with exclusive and shared locks twice each, ranks that hold two targets beside a lock_all, tries and deadlines, livelocks
//!   included.
//! * A waiting lock_all keeps out the first exclusive lock of other ranks. So programs that hold locks while they ask for more can
//!   deadlock as under `two-level`, even if the locks do not conflict.
//! * An attempt can give back all that it holds, so there are tries and deadlines: [`WindowLockTimed`](crate::WindowLockTimed).
//!
//! # State
//!
//! | word | displacement | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | master, high half | `words` | 32 bits | [`TwoLevelScanParams::master`] | how many ranks hold, or wait in, lock_all |
//! | master, low half | `words` | 32 bits | [`TwoLevelScanParams::master`] | how many ranks hold, or attempt, a further exclusive lock |
//! | target, bit 0 | `words` + [`LINE`] | 1 bit | every rank | 1 while the target is locked exclusively, or a rank attempts that |
//! | target, the rest | `words` + [`LINE`] | 63 bits | every rank | how many ranks hold, or wait for, it in shared mode |
//!
//! # Invariants
//!
//! * I1: a rank that holds no exclusive lock takes one only if it has seen the high half 0 after it set the target's bit 0.
//! * I2: a rank that holds an exclusive lock counts in the low half from before it takes a further one until after its last one.
//! * I3: only a step that finds the whole target word 0 sets bit 0. A rank holds a shared lock only if it has seen bit 0 clear
//!   after it was counted.
//! * I4: a rank holds a lock_all only if, after it was counted in the high half, it has seen bit 0 of each target clear, and then the
//!   low half 0.
//! * I5: while a lock_all is counted, each call of lock(exclusive) sets bit 0 at most once. So a lock_all waits for a holder, or for
//!   an attempt that ends soon.
//!
//! Why these exclude: let a rank see the low half 0 at time t, as the last step of its lock_all (I4), and let another rank hold a target
//! at t. If that is its first lock, the bit was set before the lock_all was counted, since it saw no lock_all afterwards (I1). So the bit
//! was set when the lock_all looked at that target. If it is a further lock, the rank is counted at t (I2). Both contradict I4. After t, a
//! first lock sees the lock_all, and a rank that holds none takes no further one.
//!
//! # Memory ordering
//!
//! All operations are sequentially consistent and complete when they return. The handshake needs that the get follows the atomic
//! operation ahead of it. A release does not order the window's bulk data: a window flushes them before it releases.
//!
//! # Deviations from the paper
//!
//! * Under `two-level`, a first exclusive lock counts itself in the master, before it takes its target, and no longer after its last one.
//!   Here the target's bit stands for the count.
//! * A rank waits for its own words by [`RemoteAtomics::wait_until`], and does not poll them. It waits for exclusive locks to end, so all
//!   operations are [unwatched](Address::unwatched), except those that take an exclusive lock back.
//!
//! # Cost
//!
//! Operations on p ranks, uncontended: shared 1 / 1; the first exclusive lock of a rank 2 / 1, of which one is a get; its second one 2 / 1,
//! and 1 more when it holds none again; each further one 1 / 1; lock_all p + 2 / 1, of which p + 1 are gets.

mod waits;

use rmalab_atomics::fabric::{Word, WordOp};
use rmalab_atomics::{Address, Disp, Operation, Rank, RemoteAtomics};

use crate::{Backoff, BackoffState, Begun, Error, LINE, LockKind, Result, WindowLock};

/// One rank in the high half of the master: in lock_all.
const ALL: u64 = 1 << 32;
/// One rank in the low half of the master: it holds exclusive locks of more than one target.
const SEVERAL: u64 = 1;
/// The low half of the master.
const SEVERAL_MASK: u64 = ALL - 1;
/// The target's bit 0: locked exclusively.
const EXCLUSIVE: u64 = 1;
/// One rank in the rest of the target: in a shared lock.
const SHARED: u64 = 2;

/// The parameters of [`TwoLevelScan`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TwoLevelScanParams {
    /// The rank whose segment holds the master word.
    pub master: Rank,
    /// The pauses between two attempts, and between two polls.
    pub backoff: Backoff,
}

/// One rank's part of a two-level window lock that looks at all targets; see the [module's text](self) for the protocol.
#[derive(Debug)]
pub struct TwoLevelScan {
    master: Address,
    /// The displacement of the target word, in every rank's segment.
    target: Disp,
    /// The number of targets that this rank has locked exclusively.
    exclusives: u32,
    /// True if this rank counts in the master's low half.
    is_counted: bool,
    /// True if this rank has set a target's bit, has seen a lock_all, and must clear the bit.
    has_bit: bool,
    backoff: BackoffState,
}

impl WindowLock for TwoLevelScan {
    const NAME: &'static str = "two-level-scan";
    type Params = TwoLevelScanParams;

    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), and [`Error::NoSuchTarget`] when the master is not a rank.
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: TwoLevelScanParams) -> Result<TwoLevelScan> {
        if params.master.0 >= ra.size() {
            return Err(Error::NoSuchTarget { rank: ra.rank(), target: params.master, size: ra.size() });
        }
        // Two lines, so that ranks that poll the master do not disturb ranks that lock the master's rank.
        let words = ra.heap().alloc(2 * LINE, LINE)?;
        Ok(TwoLevelScan {
            master: params.master.at(words),
            target: words.plus(LINE),
            exclusives: 0,
            is_counted: false,
            has_bit: false,
            backoff: BackoffState::new(params.backoff, ra.rank()),
        })
    }

    #[inline(always)]
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        match self.begin_lock(ra, kind, target) {
            Begun::Held => Ok(()),
            Begun::Waits => self.complete_lock(ra, kind, target),
            Begun::Nothing => self.lock_further(ra, kind, target),
            Begun::Failed(error) => Err(error),
        }
    }

    #[inline(always)]
    fn begin_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Begun {
        let Some(word) = ra.view().find_word(self.word_of(target).unwatched()) else { return Begun::Nothing };
        match kind {
            LockKind::Shared => match ra.word(word, WordOp::FetchAdd(SHARED)) {
                Ok(seen) if seen & EXCLUSIVE == 0 => Begun::Held,
                Ok(_) => Begun::Waits,
                Err(error) => Begun::Failed(error.into()),
            },
            LockKind::Exclusive if self.exclusives > 0 => Begun::Nothing,
            LockKind::Exclusive => self.begin_first(ra, word),
        }
    }

    #[cold]
    #[inline(never)]
    fn complete_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        let at = self.word_of(target);
        if kind == LockKind::Shared {
            return self.clear(ra, at, EXCLUSIVE, None).map(drop);
        }
        self.give_back(ra, at)?;
        self.retry(ra, at, None).map(drop)
    }

    #[inline(always)]
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        match self.unlock_shortly(ra, kind, target) {
            Some(done) => done,
            None => self.unlock_counted(ra, kind, target),
        }
    }

    #[inline(always)]
    fn unlock_shortly<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
    ) -> Option<Result<()>> {
        let at = self.word_of(target);
        let done = match kind {
            LockKind::Shared => ra.word(ra.view().find_word(at.unwatched())?, WordOp::FetchAdd(SHARED.wrapping_neg())),
            LockKind::Exclusive if self.is_counted => return None,
            LockKind::Exclusive => {
                // Not a store of 0, since waiting shared locks may already be counted in the word (I3).
                let done = ra.word(ra.view().find_word(at)?, WordOp::FetchAdd(EXCLUSIVE.wrapping_neg()));
                self.exclusives = 0;
                done
            }
        };
        Some(done.map(drop).map_err(Error::from))
    }

    #[inline(always)]
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.master.unwatched(), ALL)?;
        if self.sees_none(ra)? { Ok(()) } else { self.wait_for_exclusives(ra, None).map(drop) }
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

impl TwoLevelScan {
    #[inline(always)]
    fn word_of(&self, target: Rank) -> Address {
        target.at(self.target)
    }

    /// Begins to take a target while this rank holds none exclusively.
    #[inline(always)]
    fn begin_first<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, word: Word) -> Begun {
        match ra.word(word, WordOp::CompareAndSwap { expected: 0, desired: EXCLUSIVE }) {
            Ok(0) => {}
            Ok(_) => return Begun::Waits,
            Err(error) => return Begun::Failed(error.into()),
        }
        match ra.view().find_word(self.master).map(|master| ra.word(master, WordOp::Get)) {
            Some(Ok(master)) if master < ALL => {
                self.exclusives = 1;
                Begun::Held
            }
            Some(Err(error)) => Begun::Failed(error.into()),
            _ => {
                self.has_bit = true;
                Begun::Waits
            }
        }
    }

    /// Clears the bit of a target that this rank has set in vain (I1). Shared locks may wait for it.
    fn give_back<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, at: Address) -> Result<()> {
        if std::mem::take(&mut self.has_bit) {
            ra.fetch_add(at, EXCLUSIVE.wrapping_neg())?;
        }
        Ok(())
    }

    /// Takes the target at `at` if it is free and no lock_all keeps this rank out. Otherwise leaves nothing behind.
    fn takes<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, at: Address) -> Result<bool> {
        if self.exclusives > 0 {
            return self.takes_further(ra, at);
        }
        let word = ra.view().word(Operation::CompareAndSwap, at.unwatched())?;
        match self.begin_first(ra, word) {
            Begun::Held => Ok(true),
            Begun::Failed(error) => Err(error),
            Begun::Waits | Begun::Nothing => self.give_back(ra, at).map(|()| false),
        }
    }

    /// Locks a target exclusively in addition to others, or refuses one that does not exist.
    #[cold]
    #[inline(never)]
    fn lock_further<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        let at = self.word_of(target);
        let operation = if kind == LockKind::Shared { Operation::FetchAdd } else { Operation::CompareAndSwap };
        ra.view().word(operation, at)?;
        if self.takes(ra, at)? { Ok(()) } else { self.retry(ra, at, None).map(drop) }
    }

    /// Takes a target in addition to others. This does not ask for lock_alls, which wait for the others (I2).
    #[inline(never)]
    fn takes_further<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, at: Address) -> Result<bool> {
        if !self.is_counted {
            ra.fetch_add(self.master.unwatched(), SEVERAL)?;
            self.is_counted = true;
        }
        let taken = ra.compare_and_swap(at.unwatched(), 0, EXCLUSIVE)? == 0;
        self.exclusives += u32::from(taken);
        Ok(taken)
    }

    /// Unlocks an exclusive lock while this rank counts in the master, or refuses a target that does not exist.
    #[cold]
    #[inline(never)]
    fn unlock_counted<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        let count = if kind == LockKind::Exclusive { EXCLUSIVE } else { SHARED };
        ra.fetch_add(self.word_of(target), count.wrapping_neg())?;
        self.exclusives -= u32::from(kind == LockKind::Exclusive);
        if self.exclusives == 0 && self.is_counted {
            self.is_counted = false;
            ra.fetch_add(self.master, SEVERAL.wrapping_neg())?;
        }
        Ok(())
    }

    /// Returns whether no target is locked exclusively, as this rank sees one after the other, and then no rank is counted in the low
    /// half. This rank is counted in the high half.
    #[inline(always)]
    fn sees_none<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<bool> {
        for target in (0..ra.size()).map(Rank) {
            if ra.get(self.word_of(target))? & EXCLUSIVE != 0 {
                return Ok(false);
            }
        }
        Ok(ra.get(self.master)? & SEVERAL_MASK == 0)
    }
}

#[cfg(test)]
mod tests;
