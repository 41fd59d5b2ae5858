//! The two modes for the accumulates of one target, and the changes between them.
//!
//! Updates of single elements are fastest as network atomics. Runs of many are fastest as plain loops under the target's
//! lock of accumulates: ten times as fast for each element. Both at a time would lose updates, so each target is in one of
//! two modes. In mode *atomics* all updates are network atomics. In mode *locked* all of them hold the lock, and may be
//! plain loops. A target is biased towards its usual updates: a rank that finds the target in the wrong mode for long
//! enough changes the mode.
//!
//! # Sources
//!
//! A bias that the frequent side confirms with its own word, and the rare side revokes: D. Dice, M. Moir, W. Scherer,
//! Quickly reacquirable locks, 2003; D. Dice, A. Kogan, BRAVO: biased locking for reader-writer locks, USENIX ATC'19. The
//! fence of the rare side for all ranks: atomics/src/backend/mapped/asymmetric.rs. The time of a change: ski rental (A.
//! Karlin, M. Manasse, L. Rudolph, D. Sleator, Competitive snoopy caching, Algorithmica 3, 1988).
//!
//! # Where
//!
//! Targets have modes where ranks have such a fence ([`Capabilities::asymmetric_fence`]): between threads, and between
//! processes of one host. The modes concern updates for which strategy and element allow network atomics (see
//! accumulate.rs). All other updates take the lock in both modes.
//!
//! # State
//!
//! | word | at | values |
//! | --- | --- | --- |
//! | lock | each target | the MCS lock of accumulates |
//! | mode | each target | 0: atomics; 1: locked. Only holders of the lock change it |
//! | rent | each target | the loss of single updates in mode locked; only holders of the lock use it |
//! | busy | each rank | 0, or the number of the target plus one that this rank may be updating by atomics |
//!
//! A rank's `busy` is in the line of its node of the lock, which no other rank touches in mode atomics. `mode` and `rent` are
//! beside the lock's tail, so that a plain loop needs one line of the target besides its elements.
//!
//! # The two sides
//!
//! By atomics: `busy := target + 1`, light fence, look at `mode`. If that is atomics, update, and `busy := 0`. Otherwise
//! `busy := 0`, take the lock, and do the same atomics. These are correct in both modes. In mode locked no rank updates
//! without the lock. In mode atomics all ranks update by atomics, and no rank changes the mode while this rank holds the
//! lock.
//!
//! To mode locked, holding the lock: `mode := locked`, fence everywhere, wait until no `busy` names this target. To mode
//! atomics, holding the lock: `mode := atomics`. A plain loop is complete before its rank releases the lock or changes
//! the mode.
//!
//! # Invariants
//!
//! - I1: a plain loop runs only under the lock, in mode locked, and after the wait that follows the change to it.
//! - I2: while a plain loop runs, no rank updates the target by atomics. A rank that does so without the lock has set
//!   `busy` before it looked at `mode`. The fence everywhere came between for that rank, or before both, or after both. If
//!   it came after `busy` was set, the rank that changed the mode has seen `busy` and waited. If it came before the look,
//!   the look has seen mode locked.
//! - I3: the wait ends: in mode locked a rank sets its `busy` to this target only until it has looked.
//!
//! While no rank updates a target, both modes are correct for it, and its window may be freed in either.
//!
//! # Cost
//!
//! An update by atomics: two stores to a line of this rank's own and a load of a line that no rank writes. A change to mode
//! locked: the lock, a fence everywhere (some microseconds), and a look at each rank. A rank changes the mode when its runs
//! have lost about the cost of a change by using atomics. The holders of the lock change it back when single updates have
//! lost as much, less the gain of runs since then. So the total is about twice the cost of the better mode.
//!
//! [`Capabilities::asymmetric_fence`]: rmalab_atomics::Capabilities::asymmetric_fence

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::{Backoff, BackoffState, LINE, Mcs, Place, RawMutex};

use crate::{AccumulateStrategy, Error, Result};

const ATOMICS: u64 = 0;
const LOCKED: u64 = 1;

/// The thresholds for changes of the mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of elements from which on a run is faster in mode locked.
    pub(crate) run: usize,
    /// The number of elements that a rank's runs update by atomics before it changes the mode to locked.
    pub(crate) debt: u64,
    /// The number of single updates under the lock before the mode is atomics again, not counting updates that runs
    /// have paid for.
    pub(crate) rent: u64,
}

impl Default for Limits {
    /// A change of mode costs about as much as 4,096 elements lose by atomics (2 ns each), and as 256 single updates lose by
    /// the lock (30 ns). A run of 16 elements costs about as much either way.
    fn default() -> Limits {
        Limits { run: 16, debt: 4_096, rent: 256 }
    }
}

/// The number of a run's elements that gain in mode locked as much as one single update loses.
const PAID: u64 = 16;

/// The factor by which a single update loses more if it waits for the lock.
const WAITED: u64 = 4;

/// The update strategy of a window's elements, and the place of its words. Both are the same on every rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccumulatePath<'e> {
    pub(crate) strategy: AccumulateStrategy,
    /// The first word of the lock of accumulates.
    pub(crate) lock: Disp,
    /// True if targets have modes. Otherwise all of them stay in mode atomics.
    pub(crate) biased: bool,
    /// `busy` and `mode`, where the processor reaches them. Stores and loads of them are not operations of the network, and
    /// no flush has to wait for them. For a window instead of a target, both belong to this rank.
    words: Option<(&'e AtomicU64, &'e AtomicU64)>,
}

impl<'e> AccumulatePath<'e> {
    /// The number of bytes of the words in each segment, from the start of a line on.
    pub(crate) const BYTES: u64 = LINE + Mcs::NODE + WORD;

    /// Makes the path of a window whose words start at `lock`.
    pub(crate) fn new<A: RemoteAtomics + ?Sized>(
        ra: &'e A,
        strategy: AccumulateStrategy,
        lock: Disp,
        biased: bool,
    ) -> AccumulatePath<'e> {
        let mut path = AccumulatePath { strategy, lock, biased, words: None };
        let word = |at| Some(&ra.shared_words(at, 1)?[0]);
        if biased && let (Some(busy), Some(mode)) = (word(path.busy(ra.rank())), word(path.mode(ra.rank()))) {
            path.words = Some((busy, mode));
        }
        path
    }

    /// Returns the path to `target`.
    #[inline(always)]
    pub(crate) fn to<A: RemoteAtomics + ?Sized>(&self, ra: &'e A, target: Rank) -> AccumulatePath<'e> {
        let words = self.words.and_then(|(busy, _)| Some((busy, &ra.shared_words(self.mode(target), 1)?[0])));
        AccumulatePath { words, ..*self }
    }

    /// Returns the path to a target that no other rank updates.
    #[inline(always)]
    pub(crate) fn unbiased(&self) -> AccumulatePath<'e> {
        AccumulatePath { biased: false, words: None, ..*self }
    }

    /// Returns the lock of a target.
    pub(crate) fn place(&self, target: Rank) -> Place {
        Place { home: target, words: self.lock, node: self.lock.plus(LINE) }
    }

    #[inline(always)]
    fn mode(&self, target: Rank) -> Address {
        target.at(self.lock.plus(Mcs::WORDS)).unwatched()
    }

    fn rent(&self, target: Rank) -> Address {
        target.at(self.lock.plus(Mcs::WORDS + WORD)).unwatched()
    }

    fn busy(&self, rank: Rank) -> Address {
        rank.at(self.lock.plus(LINE + Mcs::NODE)).unwatched()
    }

    /// Returns whether this rank may update `target` by atomics now, without the lock. If so, [`leave`](Self::leave) must
    /// follow.
    #[inline(always)]
    pub(crate) fn enter<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> Result<bool> {
        if self.biased && self.words.is_none() {
            self.enter_by_network(ra, target)
        } else {
            Ok(self.enter_by_processor(ra, target))
        }
    }

    /// Like [`enter`](Self::enter), where that takes no network operation; false elsewhere.
    #[inline(always)]
    pub(crate) fn enter_by_processor<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> bool {
        let Some((busy, mode)) = self.words else { return !self.biased };
        busy.store(u64::from(target.0) + 1, Ordering::Release);
        ra.fence_light();
        let may = mode.load(Ordering::Acquire) == ATOMICS;
        if !may {
            busy.store(0, Ordering::Release);
        }
        may
    }

    /// Like [`rest`](Self::rest), after [`enter_by_processor`](Self::enter_by_processor).
    #[inline(always)]
    pub(crate) fn rest_by_processor(&self) {
        if let Some((busy, _)) = self.words {
            busy.store(0, Ordering::Release);
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_by_network<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> Result<bool> {
        ra.put(self.busy(ra.rank()), u64::from(target.0) + 1)?;
        ra.fence_light();
        let may = ra.get(self.mode(target))? == ATOMICS;
        if !may {
            self.rest(ra)?;
        }
        Ok(may)
    }

    /// Notes the outcome of the update for which this rank entered.
    #[inline(always)]
    pub(crate) fn leave<A: RemoteAtomics + ?Sized, R, E: Into<Error>>(
        &self,
        ra: &A,
        done: std::result::Result<R, E>,
    ) -> Result<R> {
        // This is in both arms, since the compiler would keep a stored outcome in memory, and the next atomic would
        // wait for it.
        match done {
            Ok(done) => {
                self.rest(ra)?;
                Ok(done)
            }
            Err(error) => {
                self.rest(ra)?;
                Err(error.into())
            }
        }
    }

    /// Notes that this rank is not busy.
    #[inline(always)]
    pub(crate) fn rest<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        match self.words {
            Some((busy, _)) => busy.store(0, Ordering::Release),
            None if self.biased => self.rest_by_network(ra)?,
            None => {}
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn rest_by_network<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        Ok(ra.put(self.busy(ra.rank()), 0)?)
    }

    /// Returns whether `target` is in mode locked. That may change at once unless this rank holds the lock.
    #[inline(always)]
    pub(crate) fn is_locked<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> Result<bool> {
        let mode = match self.words {
            Some((_, mode)) => mode.load(Ordering::Acquire),
            None => ra.get(self.mode(target))?,
        };
        Ok(mode == LOCKED)
    }
}

/// A rank's record of its runs on a window.
#[derive(Debug)]
pub(crate) struct Bias {
    pub(crate) limits: Limits,
    /// Elements of runs that were updated by atomics since this rank last changed a mode.
    debt: Cell<u64>,
    /// True if a fence everywhere was refused.
    refused: Cell<bool>,
}

impl Bias {
    pub(crate) fn new(limits: Limits) -> Bias {
        Bias { limits, debt: Cell::new(0), refused: Cell::new(false) }
    }

    /// Returns whether one more run of `n` elements by atomics would cost as much as a change of mode.
    #[inline]
    pub(crate) fn is_due(&self, n: u64) -> bool {
        self.debt.get().saturating_add(n) >= self.limits.debt && !self.refused.get()
    }

    /// Notes a run of `n` elements by atomics.
    #[inline]
    pub(crate) fn owe(&self, n: u64) {
        self.debt.set(self.debt.get().saturating_add(n));
    }

    /// Returns whether a run of `n` elements, whose rank holds the lock of `target`, has to be a plain loop. Changes the
    /// mode first if that is due.
    #[inline(always)]
    pub(crate) fn may_loop<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        path: &AccumulatePath<'_>,
        target: Rank,
        n: u64,
    ) -> Result<bool> {
        if path.is_locked(ra, target)? {
            let rent = ra.get(path.rent(target))?;
            if rent != 0 {
                ra.fetch_store(path.rent(target), rent.saturating_sub(n / PAID))?;
            }
            return Ok(true);
        }
        self.lock_if_due(ra, path, target, n)
    }

    #[cold]
    #[inline(never)]
    fn lock_if_due<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        path: &AccumulatePath<'_>,
        target: Rank,
        n: u64,
    ) -> Result<bool> {
        if !self.is_due(n) {
            self.owe(n);
            return Ok(false);
        }
        self.lock(ra, path, target)
    }

    /// Changes `target`, whose lock this rank holds, to mode locked. Returns false where the fence that this needs is refused.
    pub(crate) fn lock<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        path: &AccumulatePath<'_>,
        target: Rank,
    ) -> Result<bool> {
        if path.is_locked(ra, target)? {
            return Ok(true);
        }
        self.debt.set(0);
        ra.fetch_store(path.mode(target), LOCKED)?;
        let alone = self.wait_for_all(ra, path, target);
        if !matches!(alone, Ok(true)) {
            ra.fetch_store(path.mode(target), ATOMICS)?;
            self.refused.set(true);
        }
        alone
    }

    /// Waits until every other rank has seen mode locked, or is not updating `target`. Returns false where the fence that
    /// this needs is refused.
    fn wait_for_all<A: RemoteAtomics + ?Sized>(&self, ra: &A, path: &AccumulatePath<'_>, target: Rank) -> Result<bool> {
        if !ra.fence_everywhere()? {
            return Ok(false);
        }
        for rank in (0..ra.size()).map(Rank).filter(|&rank| rank != ra.rank()) {
            let mut backoff = None;
            while ra.get(path.busy(rank))? == u64::from(target.0) + 1 {
                backoff.get_or_insert_with(|| BackoffState::new(Backoff::default(), ra.rank())).wait(ra)?;
            }
        }
        Ok(true)
    }

    /// Counts a single update under the lock of `target`, with whether it has waited for the lock. Changes the mode if that
    /// is due.
    pub(crate) fn pay<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        path: &AccumulatePath<'_>,
        target: Rank,
        waited: bool,
    ) -> Result<()> {
        let loss = if waited { WAITED } else { 1 };
        if path.is_locked(ra, target)? && ra.fetch_add(path.rent(target), loss)? + loss >= self.limits.rent {
            ra.fetch_store(path.rent(target), 0)?;
            // The operation is complete when it returns, and so before the lock is released.
            ra.fetch_store(path.mode(target), ATOMICS)?;
        }
        Ok(())
    }
}
