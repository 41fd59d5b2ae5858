//! The untyped interface: a window's calls on `&self`, which check epochs at run time.
//!
//! [`Window`](crate::Window) checks epochs at compile time, and is built on this interface. Code that knows its calls only at run time, such
//! as a C interface or the replay of a trace, uses this interface.

pub(crate) mod active;
pub(crate) mod core;
pub(crate) mod epochs;
pub(crate) mod matching;
pub(crate) mod passive;
mod recoverable;

use std::cell::RefCell;
use std::ops::Deref;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Assert, LockKind, Policy, WindowLock, WindowLocks};

use crate::batch;
use crate::raw::core::Memory;
use crate::raw::epochs::Side;
use crate::{
    Active, Batch, Call, Error, FreeError, Open, Passive, Result, Target, UserMemory, Window, WindowCore, WindowDisp,
};

/// One rank's handle of a window whose epochs are calls, as in MPI, not values.
///
/// [`Window::into_raw`](crate::Window::into_raw) makes it. Each call checks MPI's rules. An operation names its target, and
/// [`operate`](Self::operate) finds its epoch:
///
/// ```
/// use rmalab_atomics::{Rank, World};
/// use rmalab_windows::{Assert, Call, LockKind, Team, Window, WindowDisp};
///
/// World::threads(2).try_run(|ra| {
///     let team = Team::new(ra)?;
///     let window = Window::allocate(&team, 8)?.into_raw();
///     window.lock(LockKind::Exclusive, Rank(0), Assert::None)?;
///     window.operate(Call::Put, Rank(0), |target| target.put(WindowDisp(0), &[1_u8, 2]))?;
///     window.unlock(Rank(0))?;
///     // Outside of an epoch.
///     assert!(window.operate(Call::Put, Rank(0), |target| target.put(WindowDisp(0), &[1_u8])).is_err());
///     window.free()
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Freeing or dropping the window ends an open epoch. [`free`](Self::free) reports it.
#[derive(Debug)]
pub struct RawWindow<'t, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    pub(crate) core: WindowCore<'t, A>,
    pub(crate) locks: RefCell<WindowLocks<W>>,
    /// True if the window was freed, as far as that was possible.
    freed: bool,
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Deref for RawWindow<'t, A, W> {
    type Target = WindowCore<'t, A>;

    #[inline(always)]
    fn deref(&self) -> &WindowCore<'t, A> {
        &self.core
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> From<Window<'t, A, W>> for RawWindow<'t, A, W> {
    fn from(window: Window<'t, A, W>) -> Self {
        window.into_raw()
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> RawWindow<'t, A, W> {
    pub(crate) fn new(core: WindowCore<'t, A>, locks: WindowLocks<W>) -> Self {
        RawWindow { core, locks: RefCell::new(locks), freed: false }
    }

    /// Runs `body` with `target`, or with the null target, in the open epoch that contains it.
    ///
    /// An operation after a fence opens the fence's epoch. `call` names the operation in errors.
    ///
    /// # Errors
    ///
    /// [`Error::NotOpen`], [`Error::NoSuchTarget`], [`Error::NotInGroup`], and the errors of `body`.
    #[inline]
    pub fn operate<'w, R>(
        &'w self,
        call: Call,
        target: impl Into<Option<Rank>>,
        body: impl FnOnce(&Target<'w, A, Active>) -> Result<R>,
    ) -> Result<R> {
        let target = target.into();
        match self.reach_locked(call, target)? {
            Some(target) => body(&target),
            None => body(&self.reach_active(call, target)?),
        }
    }

    /// Does what [`operate`](Self::operate) does, for operations with requests, which belong to epochs of locks.
    ///
    /// # Errors
    ///
    /// The errors of [`operate`](Self::operate).
    pub fn operate_with_requests<'w, R>(
        &'w self,
        call: Call,
        target: impl Into<Option<Rank>>,
        body: impl for<'e> FnOnce(&Target<'w, A, Passive<'e>>) -> Result<R>,
    ) -> Result<R> {
        let target = target.into();
        match self.reach_locked(call, target)? {
            Some(target) => body(&target),
            None => Err(self.core.not_open(call, target)),
        }
    }

    /// Returns the target, if this rank holds a lock of it, or a lock_all.
    ///
    /// It is a shortcut for callers that fall back to [`operate`](Self::operate).
    #[inline(always)]
    pub fn locked(&self, target: Rank) -> Option<Target<'_, A, Passive<'_>>> {
        let locks = self.locks.borrow();
        if locks.holds_all() {
            return (target.0 < self.core.ra.size()).then(|| self.core.member(Call::LockAll, target, false));
        }
        let (kind, assert) = locks.lock_of(target)?;
        let alone = kind == LockKind::Exclusive && assert == Assert::None;
        Some(self.core.member(Call::Lock, target, alone))
    }

    /// Adds to 64-bit unsigned integers of a target that this rank has locked, each atomically, if the processor reaches them, and
    /// returns true. Otherwise, and after an error, it has done nothing. Call [`operate`](Self::operate) then.
    #[inline(always)]
    pub fn add_to_words(&self, target: Rank, disp: WindowDisp, values: &[u64]) -> bool {
        let locks = self.locks.borrow();
        let alone = if locks.holds_all() && target.0 < self.core.ra.size() {
            false
        } else {
            let Some((kind, assert)) = locks.lock_of(target) else { return false };
            kind == LockKind::Exclusive && assert == Assert::None
        };
        self.core.add_to_words(target, alone, disp, values)
    }

    /// Runs `body`, whose operations on targets of this window overlap each other, and returns when all of them are complete.
    /// It belongs to epochs of locks.
    ///
    /// # Errors
    ///
    /// The errors of `body` and of the network.
    pub fn batch<'env, R>(&self, body: impl for<'scope> FnOnce(&Batch<'scope, 'env, A>) -> Result<R>) -> Result<R> {
        self.core.begin_batch();
        let (done, started) = batch::batch(&self.core, body, || self.core.start_record())?;
        self.core.complete_batch(None, started)?;
        Ok(done)
    }

    /// Returns the target, if locks are held.
    #[inline]
    fn reach_locked<P>(&self, call: Call, target: Option<Rank>) -> Result<Option<Target<'_, A, P>>> {
        let locks = self.locks.borrow();
        let Some(rank) = target else {
            return if locks.is_idle() { Ok(None) } else { self.core.target(call, Call::Lock, None, false).map(Some) };
        };
        if let Some((kind, assert)) = locks.lock_of(rank) {
            let alone = kind == LockKind::Exclusive && assert == Assert::None;
            return Ok(Some(self.core.member(Call::Lock, rank, alone)));
        }
        if locks.holds_all() {
            return self.core.target(call, Call::LockAll, target, false).map(Some);
        }
        if locks.is_idle() { Ok(None) } else { Err(self.core.not_locked(call, rank)) }
    }

    /// Returns the target, in an access epoch or a fence epoch.
    #[inline]
    fn reach_active(&self, call: Call, target: Option<Rank>) -> Result<Target<'_, A, Active>> {
        let core = &self.core;
        if core.epochs.access() == Side::Open {
            return core.member_of_access(target);
        }
        if core.epochs.is_fenced() {
            let target = core.target(call, Call::Fence, target, false)?;
            core.epochs.use_fence();
            return Ok(target);
        }
        Err(core.not_open(call, target))
    }

    /// Frees the window (`MPI_Win_free`). Collective, with a barrier before and after. All ranks free their windows in one order. Otherwise
    /// memory of a window may be freed while another rank still uses it.
    ///
    /// # Errors
    ///
    /// [`Error::LeftOpen`] when an epoch of this rank was never closed, the error of an earlier epoch that was dropped,
    /// and [`PeerFailed`](rmalab_atomics::Error::PeerFailed). The window is freed anyway, as far as its peers live.
    pub fn free(self) -> Result<()> {
        Ok(self.reclaim().map(drop)?)
    }

    /// Frees the window like [`free`](Self::free), and returns the program's memory: one piece for a created window, and the attached pieces
    /// in the order of their addresses for a dynamic one.
    ///
    /// # Errors
    ///
    /// The errors of [`free`](Self::free), with the memory. After the failure of a rank, memory that another rank may still write is
    /// not returned.
    pub fn reclaim(mut self) -> Result<Vec<UserMemory>, FreeError> {
        self.freed = true;
        let settled = self.settle_last();
        let core = &mut self.core;
        let recorded = core.recorder.as_ref().map_or(Ok(()), |recorder| recorder.finish());
        let (ra, team) = (core.ra, core.team);
        let earlier = core.check();
        let handler = core.handler.get();
        // Locks that could not be released end with the window.
        team.leave(core.epochs.inside.take());
        drop(core.attributes.take());
        let (two_sided, allocations) = (core.two_sided.take(), std::mem::take(&mut core.allocations));
        let flushed = ra.flush_all();
        // The program's memory, and a list that belongs to the window.
        let (own, list) = match std::mem::replace(&mut core.memory, Memory::Table(Vec::new())) {
            Memory::Leased { parts, own } => {
                drop(parts);
                (vec![own], None)
            }
            Memory::Dynamic(dynamic) => (dynamic.keys(), dynamic.list()),
            Memory::Symmetric { .. } | Memory::Table(_) => (Vec::new(), None),
        };
        // After this barrier no rank uses the window, and no rank has a pin. A failure before or after it does not keep a
        // rank from the barriers, or memory from its owner.
        let freed = team.barrier_anywhere().and_then(|()| {
            let left = two_sided.as_ref().map_or(Ok(()), |requests| requests.leave());
            for &disp in &allocations {
                ra.clear(disp, ra.heap().len_of(disp)?)?;
                ra.heap().release(disp)?;
            }
            left
        });
        let mut memory = Vec::new();
        let mut withdrawn = Ok(());
        for key in own {
            match ra.deregister(key) {
                Ok(piece) => memory.push(piece),
                Err(error) => withdrawn = Err(error),
            }
        }
        let listed = list.map_or(Ok(()), |key| ra.deregister(key).map(drop));
        // No rank allocates the memory again before it is zero on all ranks.
        let zeroed = team.check_whole().and_then(|()| Ok(team.collectives().barrier()?));
        let network = flushed.and(withdrawn).and(listed).map_err(Error::from).and(zeroed);
        let served = two_sided.map_or(Ok(()), |requests| requests.last_error());
        let left = match freed.and(network).and(recorded).and(served).and(settled) {
            Ok(None) => None,
            Ok(Some(open)) => Some(Error::LeftOpen { rank: ra.rank(), call: Call::Free, open }),
            Err(error) => Some(error),
        };
        if let (Some(handler), Some(error)) = (handler, &left) {
            handler(error);
        }
        // The handler was already called with an earlier error.
        match earlier.err().or(left) {
            None => Ok(memory),
            Some(error) => Err(FreeError { error, memory }),
        }
    }

    /// Ends the open epoch of a window that is freed, and returns its kind, unless a panic has left it open.
    fn settle_last(&self) -> Result<Option<Open>> {
        let core = &self.core;
        if let (Side::Abandoned, Some(requests)) = (core.epochs.access(), &core.two_sided) {
            // Operations that wait for a post may wait forever.
            requests.give_up_unposted()?;
        }
        core.settle()?;
        let open = self.open();
        self.release()?;
        Ok(open)
    }

    /// Releases the locks for which other ranks may wait, and completes the access epoch of a one-sided window.
    fn release(&self) -> Result<()> {
        let mut released = Ok(());
        loop {
            let last = self.locks.borrow().last_target();
            let Some(target) = last else { break };
            released = released.and(self.unlock(target));
        }
        if self.locks.borrow().holds_all() {
            released = released.and(self.unlock_all());
        }
        if self.core.two_sided.is_none() && self.core.epochs.access() == Side::Open {
            released = released.and(self.core.end_access());
        }
        released
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for RawWindow<'_, A, W> {
    /// Releases the locks and the access epoch, where this does not wait for other ranks.
    fn drop(&mut self) {
        if self.freed {
            return;
        }
        match &self.core.two_sided {
            // If the network fails here, it has failed for the other ranks, too.
            None => drop(self.release()),
            // The release would be a message, and might wait.
            Some(requests) if requests.holds_a_lock() => self.core.ra.forsake("a lock of a two-sided window"),
            Some(_) => {}
        }
    }
}
