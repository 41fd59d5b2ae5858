//! A window's lock calls, with MPI's rules checked.
//!
//! # Source
//!
//! MPI-4.1, section 12.5.3 (lock, lock_all, unlock, unlock_all) and section 12.5.5 (`MPI_MODE_NOCHECK`).
//!
//! # Rules
//!
//! * A rank holds at most one lock of a target, and locks as many different targets at once as it likes.
//! * A lock_all stands alone: no lock, and no second lock_all, beside it.
//! * What is unlocked is held, and a target is a rank of the world.
//!
//! A call against the rules is refused with an error that names rank and target, before anything has changed.
//!
//! # Cost
//!
//! No remote operation beyond the policy's. A lock or unlock looks through the targets that this rank holds, the last
//! one first.

mod timed;

use rmalab_atomics::{Disp, Rank, RemoteAtomics};

use crate::{Error, Exclusion, LockKind, Result, WindowLock};

/// What the caller of lock or lock_all asserts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Assert {
    /// Nothing.
    #[default]
    None,
    /// That no conflicting lock is held, or attempted, while this one is (`MPI_MODE_NOCHECK`): the acquisition and the
    /// matching release are skipped, and nothing else. A wrong assertion is the caller's fault, and goes unnoticed.
    NoCheck,
}

/// A lock that this rank holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    target: Rank,
    kind: LockKind,
    assert: Assert,
}

/// One rank's part of a window's locks: the policy `W` behind MPI's rules.
///
/// Dropping it unlocks nothing. The value is this rank's only, and the same handle of the world goes into every call.
#[derive(Debug)]
pub struct WindowLocks<W> {
    policy: W,
    rank: Rank,
    size: u32,
    held: Vec<Held>,
    all: Option<Assert>,
    /// The error of an unlock by the drop of a guard.
    pub(crate) failed: Option<Error>,
}

impl<W: WindowLock> WindowLocks<W> {
    /// The locks of a new window; all ranks call it at the same point of their sequences of allocations.
    ///
    /// # Errors
    ///
    /// Those of the policy's [`WindowLock::new`].
    pub fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: W::Params) -> Result<WindowLocks<W>> {
        let policy = W::new(ra, params)?;
        // Room for a stencil's neighbours; more are no error, only an allocation.
        Ok(WindowLocks {
            policy,
            rank: ra.rank(),
            size: ra.size(),
            held: Vec::with_capacity(8),
            all: None,
            failed: None,
        })
    }

    /// Locks `target`, waiting as long as that takes (`MPI_Win_lock`).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTarget`], [`Error::AlreadyLocked`] when this rank holds a lock of the target or a lock_all, and
    /// those of the policy. This rank's locks are as before then.
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
        self.held.push(Held { target, kind, assert });
        Ok(())
    }

    /// As [`lock`](Self::lock), where `acquire` takes the place of the policy, whatever was asserted.
    ///
    /// # Errors
    ///
    /// Those of the rules, as [`lock`](Self::lock), and those of `acquire`.
    pub fn lock_by<E: From<Error>>(
        &mut self,
        kind: LockKind,
        target: Rank,
        assert: Assert,
        acquire: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_lock("lock", target)?;
        acquire()?;
        self.held.push(Held { target, kind, assert });
        Ok(())
    }

    /// Unlocks `target` (`MPI_Win_unlock`).
    ///
    /// Completes no communication: a window flushes the target first.
    ///
    /// # Errors
    ///
    /// [`Error::NotLocked`] when this rank holds no lock of the target, and those of the policy, after which the state
    /// of its locks is unknown.
    #[inline(always)]
    pub fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank) -> Result<()> {
        let Some(at) = self.position(target) else {
            return Err(self.refuse_unlock(target));
        };
        let held = self.held.swap_remove(at);
        match held.assert {
            Assert::None => self.policy.unlock(ra, held.kind, target),
            Assert::NoCheck => Ok(()),
        }
    }

    /// As [`unlock`](Self::unlock), of a lock that something else than the policy has released.
    ///
    /// # Errors
    ///
    /// [`Error::NotLocked`].
    pub fn unlocked(&mut self, target: Rank) -> Result<()> {
        let Some(at) = self.position(target) else {
            return Err(self.refuse_unlock(target));
        };
        self.held.swap_remove(at);
        Ok(())
    }

    /// Locks every target in shared mode, waiting as long as that takes (`MPI_Win_lock_all`).
    ///
    /// # Errors
    ///
    /// [`Error::LockAllWhileLocked`] when this rank holds any lock, and those of the policy.
    #[inline(always)]
    pub fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, assert: Assert) -> Result<()> {
        self.check_lock_all()?;
        if assert == Assert::None {
            self.policy.lock_all(ra)?;
        }
        self.all = Some(assert);
        Ok(())
    }

    /// As [`lock_all`](Self::lock_all), where `acquire` takes the place of the policy, whatever was asserted.
    ///
    /// # Errors
    ///
    /// [`Error::LockAllWhileLocked`], and those of `acquire`.
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
    /// Completes no communication: a window flushes all targets first.
    ///
    /// # Errors
    ///
    /// [`Error::NotLockedAll`] when this rank holds no lock_all, and those of the policy, after which the state of its
    /// locks is unknown.
    #[inline(always)]
    pub fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        match self.all.take() {
            Some(Assert::None) => self.policy.unlock_all(ra),
            Some(Assert::NoCheck) => Ok(()),
            None => Err(Error::NotLockedAll { rank: self.rank }),
        }
    }

    /// As [`unlock_all`](Self::unlock_all), of a lock_all that something else than the policy has released.
    ///
    /// # Errors
    ///
    /// [`Error::NotLockedAll`].
    pub fn unlocked_all(&mut self) -> Result<()> {
        self.all.take().map(drop).ok_or(Error::NotLockedAll { rank: self.rank })
    }

    /// The lock that this rank holds of `target` alone, and what was asserted of it.
    #[inline]
    pub fn lock_of(&self, target: Rank) -> Option<(LockKind, Assert)> {
        self.position(target).map(|at| (self.held[at].kind, self.held[at].assert))
    }

    /// The target that this rank has locked last, of those that it holds locks of.
    pub fn last_target(&self) -> Option<Rank> {
        self.held.last().map(|held| held.target)
    }

    /// What was asserted of the lock_all that this rank holds.
    #[inline]
    pub fn lock_of_all(&self) -> Option<Assert> {
        self.all
    }

    /// How this rank has locked `target`, by a lock or by lock_all; `None` if it has not.
    #[inline]
    pub fn held(&self, target: Rank) -> Option<LockKind> {
        match self.all {
            Some(_) if target.0 < self.size => Some(LockKind::Shared),
            _ => self.position(target).map(|at| self.held[at].kind),
        }
    }

    /// The policy's symmetric-heap allocations; see [`WindowLock::allocations`].
    pub fn allocations(&self) -> Vec<Disp> {
        self.policy.allocations()
    }

    /// Which locks of different ranks exclude each other; see [`WindowLock::exclusion`].
    pub fn exclusion(&self) -> Exclusion {
        self.policy.exclusion()
    }

    /// Whether this rank holds a lock_all.
    #[inline]
    pub fn holds_all(&self) -> bool {
        self.all.is_some()
    }

    /// Whether this rank holds no lock at all.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.all.is_none()
    }

    #[inline(always)]
    fn position(&self, target: Rank) -> Option<usize> {
        self.held.iter().rposition(|held| held.target == target)
    }

    #[inline(always)]
    fn check_lock(&self, call: &'static str, target: Rank) -> Result<()> {
        if target.0 >= self.size || self.all.is_some() || self.position(target).is_some() {
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
        let held = match self.position(target) {
            Some(at) => name(self.held[at].kind),
            None => "lock_all",
        };
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
            let locks = self.held.iter().map(|held| format!("{} ({})", held.target, name(held.kind)));
            locks.collect::<Vec<_>>().join(", ")
        };
        Error::LockAllWhileLocked { rank: self.rank, held }
    }
}

/// The kind as an error spells it.
fn name(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Shared => "shared",
        LockKind::Exclusive => "exclusive",
    }
}
