//! Passive-target epochs: lock and lock_all.
//!
//! What opens and ends an epoch is inlined whole where it is used: an epoch that is returned is copied through memory, and
//! loads of what was just stored in parts take longer than the lock. Not so with debug assertions, where builds matter more.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Assert, LockKind, Policy, WindowLock};

use crate::raw::core::Core;
use crate::request::{self, Batch};
use crate::trace::recorder::{Kind, Recorder, Started};
use crate::two_sided::{self, Requests};
use crate::{Call, Error, Open, Passive, Result, Target, Window};

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'t, A, W> {
    /// Locks `target` and opens an epoch to it (`MPI_Win_lock`).
    ///
    /// `None` is the null target: nothing is locked, and the epoch's calls do nothing.
    ///
    /// # Errors
    ///
    /// Those of [`WindowLocks::lock`](rmalab_locks::WindowLocks::lock) (a second lock of the same target, a lock beside a
    /// lock_all), [`Error::Conflict`], [`Error::NoLocks`], and the error of an earlier epoch that was dropped (see
    /// [`Lock`]).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn lock(&self, kind: LockKind, target: impl Into<Option<Rank>>) -> Result<Lock<'_, 't, A, W>> {
        self.lock_assert(kind, target, Assert::None)
    }

    /// As [`lock`](Self::lock), with an assertion (`MPI_MODE_NOCHECK`).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn lock_assert(
        &self,
        kind: LockKind,
        target: impl Into<Option<Rank>>,
        assert: Assert,
    ) -> Result<Lock<'_, 't, A, W>> {
        self.check_passive(Call::Lock)?;
        let Some(target) = target.into() else { return self.lock_null() };
        let started = self.core.start();
        match &self.core.two_sided {
            None if two_sided::is_needed() => {
                self.lock_attended(kind, target, assert).map_err(|error| self.core.hear(error))?;
            }
            None => {
                let locked = self.locks.borrow_mut().lock(self.core.ra, kind, target, assert);
                locked.map_err(|error| self.core.hear(error))?;
            }
            Some(requests) => {
                self.lock_by_request(requests, kind, target, assert).map_err(|error| self.core.hear(error))?;
            }
        }
        let acquired = assert == Assert::None;
        if acquired {
            let event = if kind == LockKind::Exclusive { Kind::Exclusive } else { Kind::Shared };
            self.core.record(started, event, target, 0);
        }
        let alone = kind == LockKind::Exclusive && acquired;
        // An exclusive lock keeps others out by MPI's rules, too.
        let mutex = !self.core.usual && kind == LockKind::Shared && acquired;
        if mutex {
            self.core.enter(Open::Lock);
        }
        let (elsewhere, recorder) = (self.core.elsewhere(), self.core.recorder.as_deref());
        // It is a rank, or it would not be locked.
        let target = self.core.member(Call::Lock, target, alone);
        Ok(Lock { window: self, target, elsewhere, recorder, acquired, mutex })
    }

    /// An epoch to the null target.
    #[cold]
    fn lock_null(&self) -> Result<Lock<'_, 't, A, W>> {
        let target = self.core.target(Call::Lock, None, false)?;
        Ok(Lock { window: self, target, elsewhere: Some(&self.core), recorder: None, acquired: false, mutex: false })
    }

    /// Locks every target in shared mode and opens an epoch to all of them (`MPI_Win_lock_all`).
    ///
    /// # Errors
    ///
    /// Those of [`WindowLocks::lock_all`](rmalab_locks::WindowLocks::lock_all), and as [`lock`](Self::lock).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn lock_all(&mut self) -> Result<LockAll<'_, 't, A, W>> {
        self.lock_all_assert(Assert::None)
    }

    /// As [`lock_all`](Self::lock_all), with an assertion (`MPI_MODE_NOCHECK`).
    ///
    /// # Errors
    ///
    /// As [`lock_all`](Self::lock_all).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn lock_all_assert(&mut self, assert: Assert) -> Result<LockAll<'_, 't, A, W>> {
        self.check_passive(Call::LockAll)?;
        let started = self.core.start();
        match &self.core.two_sided {
            None if two_sided::is_needed() => {
                self.lock_all_attended(assert).map_err(|error| self.core.hear(error))?;
            }
            None => {
                let locked = self.locks.borrow_mut().lock_all(self.core.ra, assert);
                locked.map_err(|error| self.core.hear(error))?;
            }
            Some(requests) => {
                self.lock_all_by_requests(requests, assert).map_err(|error| self.core.hear(error))?;
            }
        }
        let acquired = assert == Assert::None;
        if acquired {
            self.core.record(started, Kind::LockAll, Rank(0), 0);
        }
        let mutex = !self.core.usual && acquired;
        if mutex {
            self.core.enter(Open::LockAll);
        }
        let (ra, elsewhere, recorder) = (self.core.ra, self.core.elsewhere(), self.core.recorder.as_deref());
        Ok(LockAll { window: self, ra, elsewhere, recorder, acquired, mutex })
    }

    /// Serves two-sided windows of this rank while it waits for the lock, since its holder may need that.
    #[cold]
    fn lock_attended(&self, kind: LockKind, target: Rank, assert: Assert) -> Result<()> {
        Ok(self.locks.borrow_mut().lock(&two_sided::attended(self.core.ra), kind, target, assert)?)
    }

    /// As [`lock_attended`](Self::lock_attended).
    #[cold]
    fn lock_all_attended(&self, assert: Assert) -> Result<()> {
        Ok(self.locks.borrow_mut().lock_all(&two_sided::attended(self.core.ra), assert)?)
    }

    /// The rules are checked as ever, and a request takes the place of the policy.
    #[cold]
    fn lock_by_request(&self, requests: &Requests<'_>, kind: LockKind, target: Rank, assert: Assert) -> Result<()> {
        self.locks.borrow_mut().lock(self.core.ra, kind, target, Assert::NoCheck)?;
        if let Err(error) = requests.lock(kind, target, assert) {
            self.locks.borrow_mut().unlock(self.core.ra, target)?;
            return Err(error);
        }
        Ok(())
    }

    /// As [`lock_by_request`](Self::lock_by_request).
    #[cold]
    fn lock_all_by_requests(&self, requests: &Requests<'_>, assert: Assert) -> Result<()> {
        self.locks.borrow_mut().lock_all(self.core.ra, Assert::NoCheck)?;
        if let Err(error) = requests.lock_all(assert) {
            self.locks.borrow_mut().unlock_all(self.core.ra)?;
            return Err(error);
        }
        Ok(())
    }

    /// Unlocks even after a flush that failed, since others may wait for the lock; the error tells that data may be missing.
    #[cold]
    fn unlock_unflushed(&self, target: Rank, error: Error) -> Error {
        self.core.hear(self.locks.borrow_mut().unlock(self.core.ra, target).map_or_else(Error::from, |()| error))
    }

    /// As [`unlock_unflushed`](Self::unlock_unflushed).
    #[cold]
    fn unlock_all_unflushed(&self, error: Error) -> Error {
        self.core.hear(self.locks.borrow_mut().unlock_all(self.core.ra).map_or_else(Error::from, |()| error))
    }

    #[inline(always)]
    fn check_passive(&self, call: Call) -> Result<()> {
        self.core.check()?;
        if !self.core.usual {
            self.check_locks(call)?;
        }
        match self.core.open() {
            None => Ok(()),
            Some(_) => self.check_settled(call),
        }
    }

    #[cold]
    fn check_locks(&self, call: Call) -> Result<()> {
        let refused = || self.core.hear(Error::NoLocks { rank: self.core.ra.rank(), call });
        if self.core.no_locks { Err(refused()) } else { Ok(()) }
    }

    #[cold]
    fn check_settled(&self, call: Call) -> Result<()> {
        self.core.settle()?;
        self.core.open().map_or(Ok(()), |open| Err(self.core.refuse(call, open)))
    }

    /// What stands open, locks included, once what panics have left is closed.
    pub(crate) fn settle(&self) -> Result<Option<Open>> {
        self.core.settle()?;
        Ok(self.open())
    }

    /// What stands open, locks included.
    pub(crate) fn open(&self) -> Option<Open> {
        self.core.open().or_else(|| {
            let locks = self.locks.borrow();
            if locks.is_idle() {
                None
            } else if locks.holds_all() {
                Some(Open::LockAll)
            } else {
                Some(Open::Lock)
            }
        })
    }
}

/// A passive-target epoch to one target, from [`Window::lock`]: the [`Target`] itself.
///
/// It ends by [`unlock`](Self::unlock), or when it is dropped. A drop cannot return an error: it tells the window's error
/// handler and keeps it, and the next epoch of the window that is asked for is refused with it. It never panics. An epoch
/// that is forgotten (`std::mem::forget`) leaves its target locked, and nothing unsound: no buffer is in use.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which is at once if it is not bound to a name"]
pub struct Lock<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w Window<'t, A, W>,
    target: Target<'w, A>,
    // Here as well as in the window, which changes behind shared references: what is behind it would be loaded anew after
    // each flush's fence, and a load there costs half a fence.
    elsewhere: Option<&'w Core<'t, A>>,
    recorder: Option<&'w Recorder>,
    /// Whether there was something to acquire, and so there is something to release.
    acquired: bool,
    /// Whether it is shared and keeps other shared locks out all the same.
    mutex: bool,
}

impl<'w, A: RemoteAtomics + ?Sized, W: WindowLock> Deref for Lock<'w, '_, A, W> {
    type Target = Target<'w, A>;

    #[inline(always)]
    fn deref(&self) -> &Target<'w, A> {
        &self.target
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Lock<'_, '_, A, W> {
    /// Completes everything that this rank has issued to the target, here and there (`MPI_Win_flush`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    #[inline]
    pub fn flush(&self) -> Result<()> {
        let started = self.start();
        match self.elsewhere {
            None => self.target.ra.flush(self.target.rank).map_err(|error| self.target.core.hear(error))?,
            Some(_) => self.flush_elsewhere()?,
        }
        self.record(started, Kind::Flush);
        Ok(())
    }

    #[inline(never)]
    fn flush_elsewhere(&self) -> Result<()> {
        self.complete().map_err(|error| self.target.core.hear(error))
    }

    #[inline(always)]
    fn complete(&self) -> Result<()> {
        match self.elsewhere {
            None => Ok(self.target.ra.flush(self.target.rank)?),
            Some(core) => self.target.rank().map_or(Ok(()), |rank| core.flush(rank)),
        }
    }

    #[inline(always)]
    fn start(&self) -> Option<Started<'_>> {
        self.recorder.map(|recorder| recorder.start(self.target.ra))
    }

    #[inline(always)]
    fn record(&self, started: Option<Started<'_>>, kind: Kind) {
        if let Some(started) = started {
            started.end(self.target.ra, kind, self.target.rank, 0);
        }
    }

    /// Completes everything that this rank has issued to the target, here (`MPI_Win_flush_local`).
    ///
    /// Operations without a request are complete at the origin when their calls return. So it waits only if there are
    /// requests of this window that no call has waited for yet; they are complete when it returns.
    ///
    /// # Errors
    ///
    /// Those of the network.
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
    /// Those of `body`, and those of the network.
    pub fn batch<'env, R>(&self, body: impl for<'scope> FnOnce(&Batch<'scope, 'env, A>) -> Result<R>) -> Result<R> {
        let core = self.target.core;
        let (done, started) = request::batch(core, body, || self.start())?;
        if self.elsewhere.is_some_and(|core| core.two_sided.is_some()) {
            self.complete().map_err(|error| core.hear(error))?;
        }
        self.record(started, Kind::Flush);
        Ok(done)
    }

    /// Completes everything, then unlocks the target (`MPI_Win_unlock`).
    ///
    /// [`Request`](crate::Request)s are complete then, too: they may be waited for after the epoch, which takes no time.
    ///
    /// # Errors
    ///
    /// Those of the network and of the policy. The lock is released even if the flush fails.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn unlock(self) -> Result<()> {
        ManuallyDrop::new(self).end()
    }

    /// The handler hears what fails.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn end(&mut self) -> Result<()> {
        let started = self.start();
        let flushed = match self.elsewhere {
            None => self.complete(),
            Some(_) if self.target.rank().is_none() => return Ok(()),
            Some(core) => core.flush_last(self.target.rank),
        };
        if self.mutex {
            self.window.core.leave();
        }
        if let Err(error) = flushed {
            return Err(self.window.unlock_unflushed(self.target.rank, error));
        }
        let unlocked = self.window.locks.borrow_mut().unlock(self.target.ra, self.target.rank);
        unlocked.map_err(|error| self.target.core.hear(error))?;
        self.record(started, if self.acquired { Kind::Unlock } else { Kind::Flush });
        Ok(())
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for Lock<'_, '_, A, W> {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            self.window.core.keep_heard(error);
        }
    }
}

/// A passive-target epoch to every target, from [`Window::lock_all`].
///
/// It ends by [`unlock_all`](Self::unlock_all), or when it is dropped; see [`Lock`] for errors then.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which is at once if it is not bound to a name"]
pub struct LockAll<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w Window<'t, A, W>,
    // As in `Lock`.
    ra: &'t A,
    elsewhere: Option<&'w Core<'t, A>>,
    recorder: Option<&'w Recorder>,
    acquired: bool,
    mutex: bool,
}

impl<'w, A: RemoteAtomics + ?Sized, W: WindowLock> LockAll<'w, '_, A, W> {
    /// One target, or the null target.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTarget`].
    #[inline]
    pub fn at(&self, target: impl Into<Option<Rank>>) -> Result<Target<'w, A, Passive<'_>>> {
        // The target is of the epoch, its requests are of the window.
        let window: &'w Window<'_, A, W> = self.window;
        window.core.target(Call::LockAll, target.into(), false)
    }

    /// Completes everything that this rank has issued to `target`, here and there (`MPI_Win_flush`).
    ///
    /// # Errors
    ///
    /// Those of the network, and [`Error::NoSuchTarget`].
    #[inline]
    pub fn flush(&self, target: impl Into<Option<Rank>>) -> Result<()> {
        let Some(target) = target.into() else { return Ok(()) };
        let started = self.start();
        match self.elsewhere {
            None if target.0 < self.ra.size() => {
                self.ra.flush(target).map_err(|error| self.window.core.hear(error))?;
            }
            _ => self.flush_elsewhere(target)?,
        }
        self.record(started, Kind::Flush, target);
        Ok(())
    }

    /// A flush of memory elsewhere, or of a rank that does not exist.
    #[inline(never)]
    fn flush_elsewhere(&self, target: Rank) -> Result<()> {
        let (core, size) = (&self.window.core, self.ra.size());
        if target.0 >= size {
            return Err(core.hear(Error::NoSuchTarget { call: Call::Flush, target, size }));
        }
        core.flush(target).map_err(|error| core.hear(error))
    }

    #[inline(always)]
    fn start(&self) -> Option<Started<'_>> {
        self.recorder.map(|recorder| recorder.start(self.ra))
    }

    #[inline(always)]
    fn record(&self, started: Option<Started<'_>>, kind: Kind, target: Rank) {
        if let Some(started) = started {
            started.end(self.ra, kind, target, 0);
        }
    }

    /// Completes everything that this rank has issued, here and at all targets (`MPI_Win_flush_all`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        let started = self.start();
        self.complete().map_err(|error| self.window.core.hear(error))?;
        self.record(started, Kind::FlushAll, Rank(0));
        Ok(())
    }

    #[inline(always)]
    fn complete(&self) -> Result<()> {
        match self.elsewhere {
            None => Ok(self.ra.flush_all()?),
            Some(core) => core.flush_all(),
        }
    }

    /// As [`Lock::flush_local`] (`MPI_Win_flush_local`).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTarget`], and those of the network.
    #[inline]
    pub fn flush_local(&self, target: impl Into<Option<Rank>>) -> Result<()> {
        let target = self.at(target)?.rank();
        if self.window.core.under_way.get() == 0 { Ok(()) } else { self.flush(target) }
    }

    /// As [`Lock::flush_local`], for all targets (`MPI_Win_flush_local_all`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    #[inline]
    pub fn flush_local_all(&self) -> Result<()> {
        if self.window.core.under_way.get() == 0 { Ok(()) } else { self.flush_all() }
    }

    /// Makes this rank's loads and stores and the accesses of others agree (`MPI_Win_sync`).
    pub fn sync(&self) {
        self.window.sync();
    }

    /// The window, for what does not open an epoch, such as [`Window::local`] and [`Window::attach`].
    pub fn window(&self) -> &Window<'_, A, W> {
        self.window
    }

    /// Runs `body`, whose operations overlap each other, and returns when all of them are complete.
    ///
    /// # Errors
    ///
    /// Those of `body`, and those of the network.
    pub fn batch<'env, R>(&self, body: impl for<'scope> FnOnce(&Batch<'scope, 'env, A>) -> Result<R>) -> Result<R> {
        let core = &self.window.core;
        let (done, started) = request::batch(core, body, || self.start())?;
        if self.elsewhere.is_some_and(|core| core.two_sided.is_some()) {
            self.complete().map_err(|error| core.hear(error))?;
        }
        self.record(started, Kind::FlushAll, Rank(0));
        Ok(done)
    }

    /// Completes everything, then unlocks all targets (`MPI_Win_unlock_all`).
    ///
    /// [`Request`](crate::Request)s as of [`Lock::unlock`].
    ///
    /// # Errors
    ///
    /// Those of the network and of the policy. The lock is released even if the flush fails.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn unlock_all(self) -> Result<()> {
        ManuallyDrop::new(self).end()
    }

    /// The handler hears what fails.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn end(&mut self) -> Result<()> {
        let started = self.start();
        let flushed = match self.elsewhere {
            None => self.complete(),
            Some(core) => core.flush_all_last(),
        };
        if self.mutex {
            self.window.core.leave();
        }
        if let Err(error) = flushed {
            return Err(self.window.unlock_all_unflushed(error));
        }
        let unlocked = self.window.locks.borrow_mut().unlock_all(self.ra);
        unlocked.map_err(|error| self.window.core.hear(error))?;
        self.record(started, if self.acquired { Kind::UnlockAll } else { Kind::FlushAll }, Rank(0));
        Ok(())
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for LockAll<'_, '_, A, W> {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            self.window.core.keep_heard(error);
        }
    }
}
