//! Locks that go on after the failure of a rank.

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Assert, Entry, LockKind, WindowLock};

use crate::raw::RawWindow;
use crate::trace::recorder::{Event, Kind};
use crate::two_sided::{self, attended};
use crate::{Call, Error, Open, Result};

impl<A: RemoteAtomics + ?Sized, W: WindowLock> RawWindow<'_, A, W> {
    /// Locks `target`, also after ranks have failed, if the policy is robust: `robust-tas`, `robust-ticket`, `robust-mcs`,
    /// `robust-rw`, `robust-two-level` or `robust-hierarchical`.
    ///
    /// The call returns [`Entry::OwnerDead`], with the failed ranks, if a holder may have failed, so that the data under the lock may be
    /// half written. This rank is alone then. It repairs the data, and calls [`consistent`](Self::consistent). If it unlocks before, no
    /// rank can lock any more. Either all ranks lock by this call, or all by [`lock`](Self::lock).
    ///
    /// Under another policy, and for a two-sided window, the call does what [`lock`](Self::lock) does.
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock). Under a robust policy, [`NotRecoverable`](rmalab_locks::Error::NotRecoverable) and
    /// [`Inconsistent`](rmalab_locks::Error::Inconsistent) replace [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn recoverable_lock(&self, kind: LockKind, target: Rank) -> Result<Entry> {
        if self.core.two_sided.is_some() {
            return self.lock_slowly(kind, target, Assert::None).map(|()| Entry::Clean);
        }
        self.check_passive(Call::Lock)?;
        let (core, ra) = (&self.core, self.core.ra);
        let started = core.start_record();
        let mut locks = self.locks.borrow_mut();
        let locked = if two_sided::is_needed() {
            attended(ra, |ra| locks.recoverable_lock(ra, kind, target))
        } else {
            locks.recoverable_lock(ra, kind, target)
        };
        drop(locks);
        let entry = locked.map_err(|error| core.hear(Error::from(error)))?;
        if kind == LockKind::Shared && self.is_mutex(Assert::None) {
            core.enter(Open::Lock);
        }
        let locked = if kind == LockKind::Exclusive { Kind::Exclusive } else { Kind::Shared };
        core.record(started, Event::of(locked).at(target));
        Ok(entry)
    }

    /// Locks every target in shared mode, as [`recoverable_lock`](Self::recoverable_lock) locks one.
    ///
    /// # Errors
    ///
    /// The errors of [`lock_all`](Self::lock_all) and of [`recoverable_lock`](Self::recoverable_lock).
    pub fn recoverable_lock_all(&self) -> Result<Entry> {
        if self.core.two_sided.is_some() {
            return self.lock_all_slowly(Assert::None).map(|()| Entry::Clean);
        }
        self.check_passive(Call::LockAll)?;
        let (core, ra) = (&self.core, self.core.ra);
        let started = core.start_record();
        let mut locks = self.locks.borrow_mut();
        let locked = if two_sided::is_needed() {
            attended(ra, |ra| locks.recoverable_lock_all(ra))
        } else {
            locks.recoverable_lock_all(ra)
        };
        drop(locks);
        let entry = locked.map_err(|error| core.hear(Error::from(error)))?;
        if self.is_mutex(Assert::None) {
            core.enter(Open::LockAll);
        }
        core.record(started, Event::of(Kind::LockAll));
        Ok(entry)
    }

    /// Declares the data consistent, after an [`Entry::OwnerDead`] and their repair. It completes the puts of the
    /// repair first.
    ///
    /// # Errors
    ///
    /// [`NothingToDeclare`](rmalab_locks::Error::NothingToDeclare) unless this rank holds a lock that returned `OwnerDead`, and has not
    /// declared its data consistent yet. The errors of the network.
    pub fn consistent(&self) -> Result<()> {
        let core = &self.core;
        // Ranks that enter after this call see the repair.
        core.flush_targets().map_err(|error| core.hear(error))?;
        let declared = self.locks.borrow_mut().consistent(core.ra);
        declared.map_err(|error| core.hear(Error::from(error)))
    }
}
