//! Tries of locks, and locks with a deadline.

use rmalab_atomics::{Rank, RemoteAtomics, Time};

use super::{Assert, Held, WindowLocks};
use crate::{LockKind, Result, WindowLockTimed};

impl<W: WindowLockTimed> WindowLocks<W> {
    /// Locks `target` if that needs no waiting. Returns `false` if it would need to wait.
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock).
    pub fn try_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<bool> {
        self.check_lock("try_lock", target)?;
        let locked = self.policy.try_lock(ra, kind, target)?;
        if locked {
            self.held.add(Held::new(target, kind, Assert::None));
        }
        Ok(locked)
    }

    /// Locks `target`, or gives up at `deadline` and returns `false`. Makes at least one attempt.
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock).
    pub fn lock_until<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        deadline: Time,
    ) -> Result<bool> {
        self.check_lock("lock_until", target)?;
        let locked = self.policy.lock_until(ra, kind, target, deadline)?;
        if locked {
            self.held.add(Held::new(target, kind, Assert::None));
        }
        Ok(locked)
    }

    /// Locks every target in shared mode if that needs no waiting. Returns `false` if it would need to wait.
    ///
    /// # Errors
    ///
    /// The errors of [`lock_all`](Self::lock_all).
    pub fn try_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        self.check_lock_all()?;
        let locked = self.policy.try_lock_all(ra)?;
        if locked {
            self.all = Some(Assert::None);
        }
        Ok(locked)
    }

    /// Locks every target in shared mode, or gives up at `deadline` and returns `false`. Makes at least one attempt.
    ///
    /// # Errors
    ///
    /// The errors of [`lock_all`](Self::lock_all).
    pub fn lock_all_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        self.check_lock_all()?;
        let locked = self.policy.lock_all_until(ra, deadline)?;
        if locked {
            self.all = Some(Assert::None);
        }
        Ok(locked)
    }
}
