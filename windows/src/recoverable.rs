//! Passive-target epochs that go on after the failure of a rank, under a robust lock policy.

use std::ops::Deref;

use rmalab_atomics::{Failed, Rank, RemoteAtomics};
use rmalab_locks::{Entry, LockKind, WindowLock};

use crate::{Call, Lock, LockAll, Result, Window};

/// An epoch, from [`Window::recoverable_lock`] or [`Window::recoverable_lock_all`]: a [`Lock`] or a [`LockAll`].
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which is at once if it is not bound to a name"]
pub enum Acquired<E> {
    /// No rank has failed inside since the last rank that got `OwnerDead`.
    Clean(E),
    /// A rank may have failed inside, so the data may be half written.
    OwnerDead(Inconsistent<E>),
}

impl<E> Acquired<E> {
    fn new(epoch: E, entry: Entry) -> Acquired<E> {
        match entry {
            Entry::Clean => Acquired::Clean(epoch),
            Entry::OwnerDead(failed) => Acquired::OwnerDead(Inconsistent { epoch, failed }),
        }
    }
}

/// An epoch after a rank has failed inside. The rank repairs the data by operations of this epoch.
///
/// Dropping it before it is declared consistent makes the window's lock [not recoverable](rmalab_locks::Error::NotRecoverable) for all ranks.
#[derive(Debug)]
#[must_use = "dropping it makes the lock unusable for all ranks"]
pub struct Inconsistent<E> {
    epoch: E,
    failed: Failed,
}

impl<E> Inconsistent<E> {
    /// Returns the ranks that have failed. One of them may have been inside.
    pub fn failed(&self) -> &Failed {
        &self.failed
    }
}

impl<E> Deref for Inconsistent<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.epoch
    }
}

impl<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock> Inconsistent<Lock<'w, 't, A, W>> {
    /// Declares the data consistent, after their repair. It completes the puts of the repair first.
    ///
    /// # Errors
    ///
    /// The errors of the network and of the policy. The lock is not recoverable then.
    pub fn consistent(self) -> Result<Lock<'w, 't, A, W>> {
        self.epoch.window.consistent()?;
        Ok(self.epoch)
    }
}

impl<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock> Inconsistent<LockAll<'w, 't, A, W>> {
    /// Declares the data consistent, after their repair. It completes the puts of the repair first.
    ///
    /// # Errors
    ///
    /// The errors of the network and of the policy. The lock is not recoverable then.
    pub fn consistent(self) -> Result<LockAll<'w, 't, A, W>> {
        self.epoch.window.raw.consistent()?;
        Ok(self.epoch)
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'t, A, W> {
    /// Locks `target` and opens an epoch to it, also after ranks have failed, if the policy is robust: `robust-tas`, `robust-ticket`,
    /// `robust-mcs`, `robust-rw`, `robust-two-level` or `robust-hierarchical`. Under another policy it does what [`lock`](Self::lock)
    /// does, and ends with a failure.
    ///
    /// A rank that locks after a holder has failed gets [`Acquired::OwnerDead`]: the data under the lock may be half written. It is alone
    /// then, even with a shared lock. A holder of an exclusive lock may have written any part of the window, since these policies have one
    /// lock for all targets. Under the last two, it may have written only that target. Either all ranks lock by this call, or all by
    /// [`lock`](Self::lock).
    ///
    /// While a panic unwinds, an epoch keeps its lock: its rank is about to fail, and the next holder gets `OwnerDead`.
    ///
    /// ```
    /// use rmalab_atomics::{Rank, RemoteAtomics};
    /// use rmalab_windows::{Acquired, LockKind, Result, Window, WindowDisp};
    ///
    /// fn add<A: RemoteAtomics>(window: &Window<'_, A>, target: Rank) -> Result<()> {
    ///     let part = match window.recoverable_lock(LockKind::Exclusive, target)? {
    ///         Acquired::Clean(part) => part,
    ///         Acquired::OwnerDead(inconsistent) => {
    ///             // Repair the data here.
    ///             inconsistent.put_value(WindowDisp(0), 0_u64)?;
    ///             inconsistent.consistent()?
    ///         }
    ///     };
    ///     let sum: u64 = part.get_value(WindowDisp(0))?;
    ///     part.put_value(WindowDisp(0), sum + 1)?;
    ///     part.unlock()
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock). Under a robust policy, other errors replace
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed): [`NotRecoverable`](rmalab_locks::Error::NotRecoverable) after a rank that
    /// got `OwnerDead` has unlocked without declaring the data consistent, and [`Inconsistent`](rmalab_locks::Error::Inconsistent) for
    /// a second lock of a rank that has not declared them yet.
    pub fn recoverable_lock(&self, kind: LockKind, target: Rank) -> Result<Acquired<Lock<'_, 't, A, W>>> {
        let entry = self.raw.recoverable_lock(kind, target)?;
        let alone = kind == LockKind::Exclusive;
        // It is a rank, since it is locked.
        let target = self.raw.core.member(Call::Lock, target, alone);
        Ok(Acquired::new(Lock { window: &self.raw, target, plain: self.raw.core.epochs.are_plain() }, entry))
    }

    /// Locks every target in shared mode and opens an epoch to all of them, as [`recoverable_lock`](Self::recoverable_lock) does for one.
    ///
    /// # Errors
    ///
    /// The errors of [`lock_all`](Self::lock_all) and of [`recoverable_lock`](Self::recoverable_lock).
    pub fn recoverable_lock_all(&mut self) -> Result<Acquired<LockAll<'_, 't, A, W>>> {
        let entry = self.raw.recoverable_lock_all()?;
        let plain = self.raw.core.epochs.are_plain();
        Ok(Acquired::new(LockAll { ra: self.raw.core.ra, plain, window: self }, entry))
    }
}
