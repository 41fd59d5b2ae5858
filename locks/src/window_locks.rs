//! A window's lock calls, with MPI's rules checked.
//!
//! # Source
//!
//! MPI-4.1, section 12.5.3 (lock, lock_all, unlock, unlock_all) and section 12.5.5 (`MPI_MODE_NOCHECK`).
//!
//! # Rules
//!
//! * A rank holds at most one lock of each target. It may hold locks of many targets at once.
//! * While a rank holds a lock_all, it holds no other lock, and no second lock_all.
//! * A rank unlocks only what it holds, and a target is a rank of the world.
//!
//! A call against the rules changes nothing, and returns an error that names the rank and the target.
//!
//! # Cost
//!
//! No remote operation in addition to the policy's. A lock or unlock searches the targets that this rank holds, the latest first.

mod held;
mod timed;

use rmalab_atomics::{Disp, Rank, RemoteAtomics};

pub use held::Assert;
use held::{Held, Holdings};

use crate::{Begun, Entry, Error, Exclusion, LockKind, Result, WindowLock};

/// One rank's part of a window's locks: the policy `W`, with MPI's rules checked.
///
/// Dropping it unlocks nothing. A rank has one value, and passes the same handle of the world to every call.
#[derive(Debug)]
pub struct WindowLocks<W> {
    policy: W,
    rank: Rank,
    size: u32,
    held: Holdings,
    all: Option<Assert>,
    /// The error of an unlock when a guard was dropped.
    pub(crate) failed: Option<Error>,
}

impl<W: WindowLock> WindowLocks<W> {
    /// Makes the locks of a new window. All ranks call it at the same point of their sequences of allocations, with the same parameters;
    /// [`Place::alloc`](crate::Place::alloc) describes what happens otherwise.
    ///
    /// # Errors
    ///
    /// The errors of the policy's [`WindowLock::new`].
    pub fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: W::Params) -> Result<WindowLocks<W>> {
        let policy = W::new(ra, params)?;
        Ok(WindowLocks { policy, rank: ra.rank(), size: ra.size(), held: Holdings::new(), all: None, failed: None })
    }

    /// Locks `target`, and waits until it is locked (`MPI_Win_lock`).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTarget`], [`Error::AlreadyLocked`] when this rank holds a lock of the target or a lock_all, and the policy's errors.
    /// After an error this rank holds the same locks as before.
    #[inline(always)]
    pub fn lock<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        assert: Assert,
    ) -> Result<()> {
        self.check_lock("lock", target)?;
        if assert == Assert::None {
            self.policy.lock(ra, kind, target)?;
        }
        self.held.add(Held::new(target, kind, assert));
        Ok(())
    }

    /// Begins to lock `target`, if this rank holds no lock yet, as [`WindowLock::begin_lock`] does.
    #[inline(always)]
    pub fn begin_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Begun {
        if target.0 >= self.size || !self.is_idle() {
            return Begun::Nothing;
        }
        let begun = self.policy.begin_lock(ra, kind, target);
        if let Begun::Held = begun {
            self.held.latest = Some(Held::new(target, kind, Assert::None));
        }
        begun
    }

    /// Completes a lock after [`Begun::Waits`].
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock).
    pub fn complete_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        self.policy.complete_lock(ra, kind, target)?;
        self.held.add(Held::new(target, kind, Assert::None));
        Ok(())
    }

    /// Locks `target`, also after ranks have failed, if the policy supports that; see [`WindowLock::recoverable_lock`].
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock), and the errors of the policy's call.
    pub fn recoverable_lock<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
    ) -> Result<Entry> {
        self.check_lock("lock", target)?;
        let entry = self.policy.recoverable_lock(ra, kind, target)?;
        self.held.add(Held::new(target, kind, Assert::None));
        Ok(entry)
    }

    /// Locks every target in shared mode, as [`recoverable_lock`](Self::recoverable_lock) locks one.
    ///
    /// # Errors
    ///
    /// The errors of [`lock_all`](Self::lock_all), and the errors of the policy's call.
    pub fn recoverable_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.check_lock_all()?;
        let entry = self.policy.recoverable_lock_all(ra)?;
        self.all = Some(Assert::None);
        Ok(entry)
    }

    /// Declares the data consistent that a lock of this rank may have found half written ([`Entry::OwnerDead`]).
    ///
    /// # Errors
    ///
    /// [`Error::NothingToDeclare`], and the errors of the network.
    pub fn consistent<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.policy.consistent(ra)
    }

    /// Does what [`lock`](Self::lock) does, but calls `acquire` instead of the policy, regardless of the assertion.
    ///
    /// # Errors
    ///
    /// The errors of the rules, as for [`lock`](Self::lock), and the errors of `acquire`.
    pub fn lock_by<E: From<Error>>(
        &mut self,
        kind: LockKind,
        target: Rank,
        assert: Assert,
        acquire: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_lock("lock", target)?;
        acquire()?;
        self.held.add(Held::new(target, kind, assert));
        Ok(())
    }

    /// Unlocks `target` (`MPI_Win_unlock`).
    ///
    /// It completes no communication: a window flushes the target first.
    ///
    /// # Errors
    ///
    /// [`Error::NotLocked`] when this rank holds no lock of the target, and the policy's errors. After an error of the policy, the state of
    /// its locks is unknown.
    #[inline(always)]
    pub fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank) -> Result<()> {
        let Some(held) = self.held.remove(target) else {
            return Err(self.refuse_unlock(target));
        };
        match held.assert() {
            Assert::None => self.policy.unlock(ra, held.kind(), target),
            Assert::NoCheck => Ok(()),
        }
    }

    /// Unlocks `target` if it is the only one that this rank has locked, as [`WindowLock::unlock_shortly`] does.
    #[inline(always)]
    pub fn unlock_shortly<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank) -> Option<Result<()>> {
        let held = self.held.latest?;
        if held.target() != target || held.assert() != Assert::None || !self.held.earlier.is_empty() {
            return None;
        }
        let done = self.policy.unlock_shortly(ra, held.kind(), target)?;
        self.held.latest = None;
        Some(done)
    }

    /// Does what [`unlock`](Self::unlock) does, for a lock that other code than the policy has released.
    ///
    /// # Errors
    ///
    /// [`Error::NotLocked`].
    pub fn unlocked(&mut self, target: Rank) -> Result<()> {
        if self.held.remove(target).is_some() { Ok(()) } else { Err(self.refuse_unlock(target)) }
    }

    /// Locks every target in shared mode, and waits until they are locked (`MPI_Win_lock_all`).
    ///
    /// # Errors
    ///
    /// [`Error::LockAllWhileLocked`] when this rank holds any lock, and the policy's errors.
    #[inline(always)]
    pub fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, assert: Assert) -> Result<()> {
        self.check_lock_all()?;
        if assert == Assert::None {
            self.policy.lock_all(ra)?;
        }
        self.all = Some(assert);
        Ok(())
    }

    /// Does what [`lock_all`](Self::lock_all) does, but calls `acquire` instead of the policy, regardless of the
    /// assertion.
    ///
    /// # Errors
    ///
    /// [`Error::LockAllWhileLocked`], and the errors of `acquire`.
    pub fn lock_all_by<E: From<Error>>(
        &mut self,
        assert: Assert,
        acquire: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_lock_all()?;
        acquire()?;
        self.all = Some(assert);
        Ok(())
    }

    /// Unlocks every target (`MPI_Win_unlock_all`).
    ///
    /// It completes no communication: a window flushes all targets first.
    ///
    /// # Errors
    ///
    /// [`Error::NotLockedAll`] when this rank holds no lock_all, and the policy's errors. After an error of the policy, the state of its
    /// locks is unknown.
    #[inline(always)]
    pub fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        match self.all.take() {
            Some(Assert::None) => self.policy.unlock_all(ra),
            Some(Assert::NoCheck) => Ok(()),
            None => Err(Error::NotLockedAll { rank: self.rank }),
        }
    }

    /// Does what [`unlock_all`](Self::unlock_all) does, for a lock_all that other code than the policy has released.
    ///
    /// # Errors
    ///
    /// [`Error::NotLockedAll`].
    pub fn unlocked_all(&mut self) -> Result<()> {
        self.all.take().map(drop).ok_or(Error::NotLockedAll { rank: self.rank })
    }

    /// Returns the lock that this rank holds of `target` alone, with its assertion.
    #[inline]
    pub fn lock_of(&self, target: Rank) -> Option<(LockKind, Assert)> {
        self.held.of(target).map(|held| (held.kind(), held.assert()))
    }

    /// Returns the latest of the targets that this rank has locked.
    pub fn last_target(&self) -> Option<Rank> {
        self.held.iter().last().map(|held| held.target())
    }

    /// Returns the assertion of the lock_all that this rank holds.
    #[inline]
    pub fn lock_of_all(&self) -> Option<Assert> {
        self.all
    }

    /// Returns how this rank has locked `target`, by a lock or by lock_all; `None` if it has not.
    #[inline]
    pub fn held(&self, target: Rank) -> Option<LockKind> {
        match self.all {
            Some(_) if target.0 < self.size => Some(LockKind::Shared),
            _ => self.held.of(target).map(|held| held.kind()),
        }
    }

    /// Returns the policy's symmetric-heap allocations; see [`WindowLock::allocations`].
    pub fn allocations(&self) -> Vec<Disp> {
        self.policy.allocations()
    }

    /// Returns which locks of different ranks exclude each other; see [`WindowLock::exclusion`].
    pub fn exclusion(&self) -> Exclusion {
        self.policy.exclusion()
    }

    /// Returns whether this rank holds a lock_all.
    #[inline]
    pub fn holds_all(&self) -> bool {
        self.all.is_some()
    }

    /// Returns whether this rank holds no lock.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.all.is_none()
    }

    #[inline(always)]
    fn check_lock(&self, call: &'static str, target: Rank) -> Result<()> {
        if target.0 >= self.size || self.all.is_some() || self.held.of(target).is_some() {
            return Err(self.refuse_lock(call, target));
        }
        Ok(())
    }

    #[inline(always)]
    fn check_lock_all(&self) -> Result<()> {
        if self.is_idle() { Ok(()) } else { Err(self.refuse_lock_all()) }
    }

    #[cold]
    fn refuse_lock(&self, call: &'static str, target: Rank) -> Error {
        let WindowLocks { rank, size, .. } = *self;
        if target.0 >= size {
            return Error::NoSuchTarget { rank, target, size };
        }
        let held = self.held.of(target).map_or("lock_all", |held| name(held.kind()));
        Error::AlreadyLocked { rank, call, target, held }
    }

    #[cold]
    fn refuse_unlock(&self, target: Rank) -> Error {
        let WindowLocks { rank, size, .. } = *self;
        if target.0 >= size { Error::NoSuchTarget { rank, target, size } } else { Error::NotLocked { rank, target } }
    }

    #[cold]
    fn refuse_lock_all(&self) -> Error {
        let held = if self.all.is_some() {
            "a lock_all".to_owned()
        } else {
            let locks = self.held.iter().map(|held| format!("{} ({})", held.target(), name(held.kind())));
            locks.collect::<Vec<_>>().join(", ")
        };
        Error::LockAllWhileLocked { rank: self.rank, held }
    }
}

/// Returns the kind as errors spell it.
fn name(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Shared => "shared",
        LockKind::Exclusive => "exclusive",
    }
}
