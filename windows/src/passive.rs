//! Passive-target epochs: lock and lock_all.
//!
//! The functions that open and end an epoch are inlined. Otherwise an epoch is returned through memory, and loads of fields that were just
//! stored take longer than the lock. With debug assertions they are not inlined, since builds matter more then.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Assert, LockKind, Policy, WindowLock};

use crate::batch::{self, Batch};
use crate::raw::RawWindow;
use crate::{Call, Error, Passive, Result, Target, Window, WindowCore};

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'t, A, W> {
    /// Locks `target` and opens an epoch to it (`MPI_Win_lock`).
    ///
    /// `None` is the null target: the call locks nothing, and the epoch's calls do nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`WindowLocks::lock`](rmalab_locks::WindowLocks::lock) (a second lock of the same target, a lock during a lock_all),
    /// [`Error::Conflict`], [`Error::NoLocks`], and the error of an earlier epoch that was dropped (see [`Lock`]).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn lock(&self, kind: LockKind, target: impl Into<Option<Rank>>) -> Result<Lock<'_, 't, A, W>> {
        self.lock_assert(kind, target, Assert::None)
    }

    /// Does what [`lock`](Self::lock) does, with an assertion (`MPI_MODE_NOCHECK`).
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn lock_assert(
        &self,
        kind: LockKind,
        target: impl Into<Option<Rank>>,
        assert: Assert,
    ) -> Result<Lock<'_, 't, A, W>> {
        let Some(target) = target.into() else { return self.lock_null() };
        self.raw.begin_lock(kind, target, assert)?;
        let alone = kind == LockKind::Exclusive && assert == Assert::None;
        // It is a rank, since it is locked.
        let target = self.raw.core.member(Call::Lock, target, alone);
        Ok(Lock { window: &self.raw, target, plain: self.raw.core.epochs.are_plain() })
    }

    /// Makes an epoch to the null target.
    #[cold]
    fn lock_null(&self) -> Result<Lock<'_, 't, A, W>> {
        self.raw.check_passive(Call::Lock)?;
        let target = self.raw.core.target(Call::Lock, Call::Lock, None, false)?;
        Ok(Lock { window: &self.raw, target, plain: false })
    }

    /// Locks every target in shared mode and opens an epoch to all of them (`MPI_Win_lock_all`).
    ///
    /// # Errors
    ///
    /// The errors of [`WindowLocks::lock_all`](rmalab_locks::WindowLocks::lock_all) and of [`lock`](Self::lock).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn lock_all(&mut self) -> Result<LockAll<'_, 't, A, W>> {
        self.lock_all_assert(Assert::None)
    }

    /// Does what [`lock_all`](Self::lock_all) does, with an assertion (`MPI_MODE_NOCHECK`).
    ///
    /// # Errors
    ///
    /// The errors of [`lock_all`](Self::lock_all).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn lock_all_assert(&mut self, assert: Assert) -> Result<LockAll<'_, 't, A, W>> {
        self.raw.begin_lock_all(assert)?;
        Ok(LockAll { ra: self.raw.core.ra, plain: self.raw.core.epochs.are_plain(), window: self })
    }
}

/// A passive-target epoch to one target, from [`Window::lock`]: the [`Target`] itself.
///
/// It ends by [`unlock`](Self::unlock), or when it is dropped. A drop cannot return an error: it calls the window's error handler and keeps
/// the error, and the next call that opens an epoch of the window returns it. A drop never panics. A forgotten epoch (`std::mem::forget`)
/// leaves its target locked until the window is freed or dropped, but is sound: no buffer is in use. If the program forgets the window,
/// too, the target stays locked. A rank that locks it waits forever, even after this rank has left.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which is at once if it is not bound to a name"]
pub struct Lock<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    pub(crate) window: &'w RawWindow<'t, A, W>,
    pub(crate) target: Target<'w, A>,
    /// True if a flush of the target completes its operations, and nothing is recorded. It is a copy of the window's
    /// field. That field may change through shared references, so it would be loaded again after each flush's fence.
    pub(crate) plain: bool,
}

impl<'w, A: RemoteAtomics + ?Sized, W: WindowLock> Deref for Lock<'w, '_, A, W> {
    type Target = Target<'w, A>;

    #[inline(always)]
    fn deref(&self) -> &Target<'w, A> {
        &self.target
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Lock<'_, '_, A, W> {
    /// Completes all operations of this rank to the target, at both ends (`MPI_Win_flush`).
    ///
    /// # Errors
    ///
    /// The errors of the network.
    #[inline]
    pub fn flush(&self) -> Result<()> {
        if !self.plain {
            return self.flush_slowly();
        }
        match self.target.ra.flush(self.target.rank) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.target.core.hear(error)),
        }
    }

    #[inline(never)]
    fn flush_slowly(&self) -> Result<()> {
        self.target.rank().map_or(Ok(()), |rank| self.target.core.complete_target(rank))
    }

    /// Completes all operations of this rank to the target at this end (`MPI_Win_flush_local`).
    ///
    /// Operations without a request are complete at the origin when their calls return. So the call waits only for requests of this window
    /// that no call has waited for yet.
    ///
    /// # Errors
    ///
    /// The errors of the network.
    #[inline]
    pub fn flush_local(&self) -> Result<()> {
        if self.target.core.under_way.get() == 0 {
            return Ok(());
        }
        self.flush()
    }

    /// Runs `body`, whose operations overlap each other, and returns when all of them are complete.
    ///
    /// # Errors
    ///
    /// The errors of `body` and of the network.
    pub fn batch<'env, R>(&self, body: impl for<'scope> FnOnce(&Batch<'scope, 'env, A>) -> Result<R>) -> Result<R> {
        let core = self.target.core;
        core.begin_batch();
        let (done, started) = batch::batch(core, body, || core.start_record())?;
        if let Some(rank) = self.target.rank() {
            core.complete_batch(Some(rank), started)?;
        }
        Ok(done)
    }

    /// Completes all operations, then unlocks the target (`MPI_Win_unlock`).
    ///
    /// It completes [`Request`](crate::Request)s, too. The program may still wait for them after the epoch, which takes no time.
    ///
    /// # Errors
    ///
    /// The errors of the network and of the policy. The lock is released even if the flush fails.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn unlock(self) -> Result<()> {
        ManuallyDrop::new(self).end()
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn end(&mut self) -> Result<()> {
        if !self.plain && self.target.rank().is_none() {
            return Ok(());
        }
        self.window.end_lock(self.target.ra, self.plain, self.target.rank)
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for Lock<'_, '_, A, W> {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            self.window.epochs.keep_failure(error);
        }
    }
}

/// A passive-target epoch to every target, from [`Window::lock_all`].
///
/// It ends by [`unlock_all`](Self::unlock_all), or when it is dropped. [`Lock`] describes what happens to errors of a
/// drop.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which is at once if it is not bound to a name"]
pub struct LockAll<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    pub(crate) window: &'w Window<'t, A, W>,
    // See `Lock`.
    pub(crate) ra: &'t A,
    pub(crate) plain: bool,
}

impl<'w, A: RemoteAtomics + ?Sized, W: WindowLock> LockAll<'w, '_, A, W> {
    /// Returns one target, or the null target.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTarget`].
    #[inline(always)] // a target that a call returns is copied through memory
    pub fn at(&self, target: impl Into<Option<Rank>>) -> Result<Target<'w, A, Passive<'_>>> {
        // The target belongs to the epoch, and its requests belong to the window.
        let core: &'w WindowCore<'_, A> = self.window;
        core.target(Call::At, Call::LockAll, target.into(), false)
    }

    /// Completes all operations of this rank to `target`, at both ends (`MPI_Win_flush`).
    ///
    /// # Errors
    ///
    /// The errors of the network, and [`Error::NoSuchTarget`].
    #[inline]
    pub fn flush(&self, target: impl Into<Option<Rank>>) -> Result<()> {
        let Some(target) = target.into() else { return Ok(()) };
        if !self.plain || target.0 >= self.ra.size() {
            return self.flush_slowly(target);
        }
        match self.ra.flush(target) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.window.hear(error)),
        }
    }

    /// Flushes memory elsewhere, or refuses a rank that does not exist.
    #[inline(never)]
    fn flush_slowly(&self, target: Rank) -> Result<()> {
        let size = self.ra.size();
        if target.0 >= size {
            return Err(self.window.hear(Error::NoSuchTarget { call: Call::Flush, target, size }));
        }
        self.window.complete_target(target)
    }

    /// Completes all operations of this rank, at this end and at all targets (`MPI_Win_flush_all`).
    ///
    /// # Errors
    ///
    /// The errors of the network.
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        if !self.plain {
            return self.window.complete_targets();
        }
        match self.ra.flush_all() {
            Ok(()) => Ok(()),
            Err(error) => Err(self.window.hear(error)),
        }
    }

    /// Completes all operations of this rank to `target` at this end, like [`Lock::flush_local`] (`MPI_Win_flush_local`).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTarget`], and the errors of the network.
    #[inline]
    pub fn flush_local(&self, target: impl Into<Option<Rank>>) -> Result<()> {
        let Some(target) = target.into() else { return Ok(()) };
        if self.window.under_way.get() == 0 && target.0 < self.ra.size() { Ok(()) } else { self.flush(target) }
    }

    /// Completes all operations of this rank at this end, like [`Lock::flush_local`] for all targets (`MPI_Win_flush_local_all`).
    ///
    /// # Errors
    ///
    /// The errors of the network.
    #[inline]
    pub fn flush_local_all(&self) -> Result<()> {
        if self.window.under_way.get() == 0 { Ok(()) } else { self.flush_all() }
    }

    /// Orders this rank's loads and stores with the accesses of other ranks (`MPI_Win_sync`).
    pub fn sync(&self) {
        self.window.sync();
    }

    /// Returns the window, for calls that open no epoch, such as [`WindowCore::local`](crate::WindowCore::local) and [`WindowCore::attach`](crate::WindowCore::attach).
    pub fn window(&self) -> &Window<'_, A, W> {
        self.window
    }

    /// Runs `body`, whose operations overlap each other, and returns when all of them are complete.
    ///
    /// # Errors
    ///
    /// The errors of `body` and of the network.
    pub fn batch<'env, R>(&self, body: impl for<'scope> FnOnce(&Batch<'scope, 'env, A>) -> Result<R>) -> Result<R> {
        let core: &WindowCore<'_, A> = self.window;
        core.begin_batch();
        let (done, started) = batch::batch(core, body, || core.start_record())?;
        core.complete_batch(None, started)?;
        Ok(done)
    }

    /// Completes all operations, then unlocks all targets (`MPI_Win_unlock_all`).
    ///
    /// It completes [`Request`](crate::Request)s as [`Lock::unlock`] does.
    ///
    /// # Errors
    ///
    /// The errors of the network and of the policy. The lock is released even if the flush fails. Where a rank's memory ends with it, the
    /// flush fails if another rank has failed and something was under way to it, be it a message of a lock. What was under way to live
    /// ranks is complete then.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn unlock_all(self) -> Result<()> {
        ManuallyDrop::new(self).end()
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn end(&mut self) -> Result<()> {
        self.window.raw.end_lock_all(self.ra, self.plain)
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for LockAll<'_, '_, A, W> {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            self.window.epochs.keep_failure(error);
        }
    }
}
