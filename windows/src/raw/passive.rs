//! Locks: the calls that begin and end their epochs, and the calls that complete operations in them.
//!
//! The usual lock tests one byte, then calls the policy: nothing else is open, nothing is recorded, the network has the
//! operations, and a flush of the target completes them. All other cases are out of line.

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Assert, Begun, Exclusion, LockKind, WindowLock};

use crate::raw::RawWindow;
use crate::trace::recorder::{Event, Kind, Started};
use crate::two_sided::{self, attended};
use crate::{Call, Error, Open, Result, WindowCore};

impl<A: RemoteAtomics + ?Sized, W: WindowLock> RawWindow<'_, A, W> {
    /// Locks `target` (`MPI_Win_lock`); the call does nothing for the null target.
    ///
    /// # Errors
    ///
    /// The errors of [`WindowLocks::lock`](rmalab_locks::WindowLocks::lock) (a second lock of the same target, a lock
    /// beside a lock_all), [`Error::Conflict`], [`Error::NoLocks`], and the error of an earlier epoch that was dropped.
    #[inline]
    pub fn lock(&self, kind: LockKind, target: impl Into<Option<Rank>>, assert: Assert) -> Result<()> {
        match target.into() {
            Some(target) => self.begin_lock(kind, target, assert),
            None => self.check_passive(Call::Lock),
        }
    }

    /// Completes this rank's operations on `target`, then unlocks it (`MPI_Win_unlock`); the call does nothing for the
    /// null target.
    ///
    /// # Errors
    ///
    /// [`NotLocked`](rmalab_locks::Error::NotLocked), and the errors of the network and of the policy. The lock is
    /// released even if the flush fails.
    #[inline]
    pub fn unlock(&self, target: impl Into<Option<Rank>>) -> Result<()> {
        target.into().map_or(Ok(()), |target| self.end_lock(self.core.ra, self.core.epochs.are_plain(), target))
    }

    /// Locks `target` if that needs only the policy. Otherwise it does nothing and returns false. Call [`lock`](Self::lock) then.
    ///
    /// It may wait, and serves no [two-sided](crate::two_sided) windows of this rank meanwhile. So only callers without such windows use
    /// it, and the calls like it. After an error of the policy it returns false, too.
    #[inline]
    pub fn lock_plainly(&self, kind: LockKind, target: Rank) -> bool {
        self.core.epochs.are_plain() && self.locks.borrow_mut().lock(self.core.ra, kind, target, Assert::None).is_ok()
    }

    /// Begins to lock `target` if that needs only the policy, without a wait; see [`WindowLock::begin_lock`].
    #[inline(always)]
    pub fn begin_plainly(&self, kind: LockKind, target: Rank) -> Begun {
        if !self.core.epochs.are_plain() {
            return Begun::Nothing;
        }
        self.locks.borrow_mut().begin_lock(self.core.ra, kind, target)
    }

    /// Completes a lock after [`Begun::Waits`].
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock).
    pub fn complete_lock(&self, kind: LockKind, target: Rank) -> Result<()> {
        let done = self.locks.borrow_mut().complete_lock(self.core.ra, kind, target);
        done.map_err(|error| self.core.hear(error))
    }

    /// Unlocks `target` if that needs only the policy, without a flush: the caller has completed its operations. Otherwise it does nothing
    /// and returns false.
    #[inline]
    pub fn unlock_plainly(&self, target: Rank) -> bool {
        self.core.epochs.are_plain() && self.locks.borrow_mut().unlock(self.core.ra, target).is_ok()
    }

    /// Like [`unlock_plainly`](Self::unlock_plainly), if that is short as well; see [`WindowLock::unlock_shortly`].
    #[inline(always)]
    pub fn unlock_shortly(&self, target: Rank) -> bool {
        self.core.epochs.are_plain()
            && matches!(self.locks.borrow_mut().unlock_shortly(self.core.ra, target), Some(Ok(())))
    }

    /// Like [`lock_plainly`](Self::lock_plainly), for a lock_all.
    #[inline(always)]
    pub fn lock_all_plainly(&self) -> bool {
        self.core.epochs.are_plain() && self.locks.borrow_mut().lock_all(self.core.ra, Assert::None).is_ok()
    }

    /// Like [`unlock_plainly`](Self::unlock_plainly), for a lock_all.
    #[inline(always)]
    pub fn unlock_all_plainly(&self) -> bool {
        self.core.epochs.are_plain() && self.locks.borrow_mut().unlock_all(self.core.ra).is_ok()
    }

    /// Locks every target in shared mode (`MPI_Win_lock_all`).
    ///
    /// # Errors
    ///
    /// The errors of [`WindowLocks::lock_all`](rmalab_locks::WindowLocks::lock_all) and of [`lock`](Self::lock).
    #[inline]
    pub fn lock_all(&self, assert: Assert) -> Result<()> {
        self.begin_lock_all(assert)
    }

    /// Completes this rank's operations, then unlocks all targets (`MPI_Win_unlock_all`).
    ///
    /// # Errors
    ///
    /// [`NotLockedAll`](rmalab_locks::Error::NotLockedAll), and the errors of [`unlock`](Self::unlock).
    #[inline]
    pub fn unlock_all(&self) -> Result<()> {
        self.end_lock_all(self.core.ra, self.core.epochs.are_plain())
    }

    /// Completes this rank's operations on `target`, at the origin and at the target (`MPI_Win_flush`); the call does
    /// nothing for the null target.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTarget`], [`Error::NotOpen`] when this rank has not locked the target, and the errors of the
    /// network.
    #[inline]
    pub fn flush(&self, target: impl Into<Option<Rank>>) -> Result<()> {
        let Some(target) = target.into() else { return Ok(()) };
        self.check_locked(target)?;
        if self.core.epochs.are_plain() {
            return match self.core.ra.flush(target) {
                Ok(()) => Ok(()),
                Err(error) => Err(self.core.hear(error)),
            };
        }
        self.core.complete_target(target)
    }

    /// Completes this rank's operations, at the origin and at all targets (`MPI_Win_flush_all`).
    ///
    /// # Errors
    ///
    /// [`Error::NotOpen`] when this rank has locked nothing, and the errors of the network.
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        if self.locks.borrow().is_idle() {
            return Err(self.core.not_open(Call::Flush, None));
        }
        if self.core.epochs.are_plain() {
            return match self.core.ra.flush_all() {
                Ok(()) => Ok(()),
                Err(error) => Err(self.core.hear(error)),
            };
        }
        self.core.complete_targets()
    }

    /// Completes this rank's operations on `target` at the origin (`MPI_Win_flush_local`).
    ///
    /// Operations without a request are complete at the origin when their calls return. So this call waits only for
    /// requests of this window that no call has waited for yet. They are complete when it returns.
    ///
    /// # Errors
    ///
    /// The errors of [`flush`](Self::flush).
    pub fn flush_local(&self, target: impl Into<Option<Rank>>) -> Result<()> {
        let Some(target) = target.into() else { return Ok(()) };
        self.check_locked(target)?;
        if self.core.under_way.get() == 0 { Ok(()) } else { self.core.complete_target(target) }
    }

    /// Like [`flush_local`](Self::flush_local), for all targets (`MPI_Win_flush_local_all`).
    ///
    /// # Errors
    ///
    /// The errors of [`flush_all`](Self::flush_all).
    pub fn flush_local_all(&self) -> Result<()> {
        if self.core.under_way.get() == 0 && !self.locks.borrow().is_idle() { Ok(()) } else { self.flush_all() }
    }

    #[inline(always)]
    fn check_locked(&self, target: Rank) -> Result<()> {
        let size = self.core.ra.size();
        if target.0 >= size {
            return Err(self.no_such_target(target));
        }
        match self.locks.borrow().held(target) {
            Some(_) => Ok(()),
            None => Err(self.core.not_open(Call::Flush, Some(target))),
        }
    }

    #[cold]
    fn no_such_target(&self, target: Rank) -> Error {
        self.core.hear(Error::NoSuchTarget { call: Call::Flush, target, size: self.core.ra.size() })
    }

    /// Returns whether a new lock needs only the policy.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.core.epochs.are_plain() && !two_sided::is_needed()
    }

    #[inline(always)]
    pub(crate) fn begin_lock(&self, kind: LockKind, target: Rank, assert: Assert) -> Result<()> {
        if !self.is_plain() {
            return self.lock_slowly(kind, target, assert);
        }
        let mut locks = self.locks.borrow_mut();
        if let Err(error) = locks.lock(self.core.ra, kind, target, assert) {
            drop(locks);
            return Err(self.core.hear(error));
        }
        Ok(())
    }

    /// Ends the epoch of a lock. `plain` is true if the window [was plain](Epochs::are_plain) when the epoch began. A
    /// guard keeps that value, since the window's fields would be loaded again after the flush's fence.
    ///
    /// [`Epochs::are_plain`]: crate::raw::epochs::Epochs::are_plain
    #[inline(always)]
    pub(crate) fn end_lock(&self, ra: &A, plain: bool, target: Rank) -> Result<()> {
        if !plain {
            return self.unlock_slowly(target);
        }
        if let Err(error) = ra.flush(target) {
            return Err(self.unlock_unflushed(target, error.into()));
        }
        let mut locks = self.locks.borrow_mut();
        if let Err(error) = locks.unlock(ra, target) {
            drop(locks);
            return Err(self.core.hear(error));
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn begin_lock_all(&self, assert: Assert) -> Result<()> {
        if !self.is_plain() {
            return self.lock_all_slowly(assert);
        }
        let mut locks = self.locks.borrow_mut();
        if let Err(error) = locks.lock_all(self.core.ra, assert) {
            drop(locks);
            return Err(self.core.hear(error));
        }
        Ok(())
    }

    /// Like [`end_lock`](Self::end_lock), for a lock_all.
    #[inline(always)]
    pub(crate) fn end_lock_all(&self, ra: &A, plain: bool) -> Result<()> {
        if !plain {
            return self.unlock_all_slowly();
        }
        if let Err(error) = ra.flush_all() {
            return Err(self.unlock_all_unflushed(error.into()));
        }
        let mut locks = self.locks.borrow_mut();
        if let Err(error) = locks.unlock_all(ra) {
            drop(locks);
            return Err(self.core.hear(error));
        }
        Ok(())
    }

    /// Returns whether a shared lock that the policy has acquired excludes other shared locks. An exclusive lock excludes others
    /// by MPI's rules, too.
    pub(super) fn is_mutex(&self, assert: Assert) -> bool {
        assert == Assert::None && self.core.exclusion == Exclusion::Everything
    }

    #[cold]
    #[inline(never)]
    pub(super) fn lock_slowly(&self, kind: LockKind, target: Rank, assert: Assert) -> Result<()> {
        self.check_passive(Call::Lock)?;
        let (core, ra) = (&self.core, self.core.ra);
        let started = core.start_record();
        let mut locks = self.locks.borrow_mut();
        let locked = match &core.two_sided {
            // The rules are checked as usual, and a request replaces the policy.
            Some(requests) => locks.lock_by(kind, target, assert, || requests.lock(kind, target, assert)),
            // The lock's holder may need a request that this rank serves.
            None if two_sided::is_needed() => {
                attended(ra, |ra| locks.lock(ra, kind, target, assert)).map_err(Error::from)
            }
            None => locks.lock(ra, kind, target, assert).map_err(Error::from),
        };
        drop(locks);
        locked.map_err(|error| core.hear(error))?;
        if kind == LockKind::Shared && self.is_mutex(assert) {
            core.enter(Open::Lock);
        }
        let locked = if kind == LockKind::Exclusive { Kind::Exclusive } else { Kind::Shared };
        core.record(started, Event::of(locked).at(target).asserting(bits(assert)));
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn unlock_slowly(&self, target: Rank) -> Result<()> {
        let core = &self.core;
        let Some((kind, assert)) = self.locks.borrow().lock_of(target) else {
            let refused = self.locks.borrow_mut().unlocked(target);
            return refused.map_err(|error| core.hear(error));
        };
        let started = core.start_record();
        let flushed = core.flush_last(target);
        if kind == LockKind::Shared && self.is_mutex(assert) {
            core.leave();
        }
        let mut locks = self.locks.borrow_mut();
        // The lock is released even after a failed flush, since others may wait for it. The error warns that data may
        // be missing.
        let unlocked = if core.two_sided.is_some() { locks.unlocked(target) } else { locks.unlock(core.ra, target) };
        drop(locks);
        unlocked.map_err(Error::from).and(flushed).map_err(|error| core.hear(error))?;
        core.record(started, Event::of(Kind::Unlock).at(target));
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn unlock_unflushed(&self, target: Rank, error: Error) -> Error {
        let unlocked = self.locks.borrow_mut().unlock(self.core.ra, target);
        self.core.hear(unlocked.map_or_else(Error::from, |()| error))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn lock_all_slowly(&self, assert: Assert) -> Result<()> {
        self.check_passive(Call::LockAll)?;
        let (core, ra) = (&self.core, self.core.ra);
        let started = core.start_record();
        let mut locks = self.locks.borrow_mut();
        let locked = match &core.two_sided {
            Some(requests) => locks.lock_all_by(assert, || requests.lock_all(assert)),
            None if two_sided::is_needed() => attended(ra, |ra| locks.lock_all(ra, assert)).map_err(Error::from),
            None => locks.lock_all(ra, assert).map_err(Error::from),
        };
        drop(locks);
        locked.map_err(|error| core.hear(error))?;
        if self.is_mutex(assert) {
            core.enter(Open::LockAll);
        }
        core.record(started, Event::of(Kind::LockAll).asserting(bits(assert)));
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn unlock_all_slowly(&self) -> Result<()> {
        let core = &self.core;
        let Some(assert) = self.locks.borrow().lock_of_all() else {
            let refused = self.locks.borrow_mut().unlocked_all();
            return refused.map_err(|error| core.hear(error));
        };
        let started = core.start_record();
        let flushed = core.flush_all_last();
        if self.is_mutex(assert) {
            core.leave();
        }
        let mut locks = self.locks.borrow_mut();
        let unlocked = if core.two_sided.is_some() { locks.unlocked_all() } else { locks.unlock_all(core.ra) };
        drop(locks);
        unlocked.map_err(Error::from).and(flushed).map_err(|error| core.hear(error))?;
        core.record(started, Event::of(Kind::UnlockAll));
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn unlock_all_unflushed(&self, error: Error) -> Error {
        let unlocked = self.locks.borrow_mut().unlock_all(self.core.ra);
        self.core.hear(unlocked.map_or_else(Error::from, |()| error))
    }

    /// Checks that an epoch of locks may begin.
    pub(crate) fn check_passive(&self, call: Call) -> Result<()> {
        let core = &self.core;
        core.check()?;
        if core.no_locks {
            return Err(core.hear(Error::NoLocks { rank: core.ra.rank(), call }));
        }
        core.settle()?;
        if let Some(open) = core.epochs.open() {
            return Err(core.refuse(call, open));
        }
        core.epochs.leave_fence();
        Ok(())
    }
}

impl<A: RemoteAtomics + ?Sized> WindowCore<'_, A> {
    /// Completes the operations that this rank has issued to `target`, a rank of the team, at the origin and at the
    /// target.
    #[inline(never)]
    pub(crate) fn complete_target(&self, target: Rank) -> Result<()> {
        let started = self.start_record();
        self.flush_target(target).map_err(|error| self.hear(error))?;
        self.record(started, Event::of(Kind::Flush).at(target));
        Ok(())
    }

    /// Like [`complete_target`](Self::complete_target), for all targets.
    #[inline(never)]
    pub(crate) fn complete_targets(&self) -> Result<()> {
        let started = self.start_record();
        self.flush_targets().map_err(|error| self.hear(error))?;
        self.record(started, Event::of(Kind::FlushAll));
        Ok(())
    }

    /// Completes a batch on `target`, or on all targets, whose recording has `started`.
    pub(crate) fn complete_batch(&self, target: Option<Rank>, started: Option<Started<'_>>) -> Result<()> {
        if self.two_sided.is_some() {
            let flushed = target.map_or_else(|| self.flush_targets(), |target| self.flush_target(target));
            flushed.map_err(|error| self.hear(error))?;
        }
        self.record(started, Event::of(Kind::BatchEnd));
        Ok(())
    }

    /// Records that a batch begins.
    pub(crate) fn begin_batch(&self) {
        self.record(self.start_record(), Event::of(Kind::BatchBegin));
    }
}

/// Returns an assertion's bits in a trace.
pub(super) fn bits(assert: Assert) -> u8 {
    u8::from(assert == Assert::NoCheck)
}
