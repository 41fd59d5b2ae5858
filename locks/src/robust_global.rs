//! One recoverable lock for the whole window: a rank that locks after a holder's failure gets `OwnerDead`.
//!
//! # Paper
//!
//! The policy is [`global`](crate::global), over a lock that survivors repair ([`RecoverableRw`]). Its calls after a failure follow POSIX's
//! robust mutexes: `EOWNERDEAD`, `pthread_mutex_consistent` and `ENOTRECOVERABLE`.
//!
//! # Properties
//!
//! * [`lock`](WindowLock::lock) and [`lock_all`](WindowLock::lock_all) work as in `global`, and end with the failure of a
//!   rank.
//! * [`recoverable_lock`](WindowLock::recoverable_lock) and [`recoverable_lock_all`](WindowLock::recoverable_lock_all) go on after failures.
//!   A rank that locks after a holder has failed gets [`Entry::OwnerDead`]. It is alone then, also under a shared
//!   lock.
//! * Until that rank declares the data [consistent](WindowLock::consistent), it can hold the lock of one target only. If it unlocks
//!   before, no rank can lock any more ([`Error::NotRecoverable`]).
//! * If it fails before, the next rank gets `OwnerDead`.
//! * While a panic unwinds, an unlock keeps the lock: the rank is about to fail, and the next holder learns of the
//!   failure.
//! * The explorer (`rmalab verify`) has checked this code itself exhaustively over `robust-rw`, with one failure at any step: a lock_all, an
//!   exclusive lock and a shared lock of another target; a lock_all and two exclusive locks. Under sequential consistency and with posted
//!   puts that arrive late, livelocks included.
//!
//! # Cost
//!
//! The cost of `global`.

use std::thread::panicking;

use rmalab_atomics::{Disp, Rank, RemoteAtomics};

use crate::{Entry, Error, Exclusion, Global, GlobalParams, LockKind, RecoverableRw, Result, WindowLock};

/// One rank's part of a window lock made of one recoverable lock; see the [module's text](self).
#[derive(Debug)]
pub struct RobustGlobal<L> {
    global: Global<L>,
    /// True if this rank has locked by the calls that go on after failures.
    recovers: bool,
    /// True if this rank has got `OwnerDead`, and has not declared the data consistent.
    is_told: bool,
}

impl<L: RecoverableRw> RobustGlobal<L> {
    fn told(&mut self, entry: Entry) -> Entry {
        self.recovers = true;
        self.is_told = entry != Entry::Clean;
        entry
    }

    /// Returns whether an unlock leaves the lock to the next rank, since this rank is about to fail.
    fn forsakes(&self) -> bool {
        self.recovers && panicking()
    }

    /// Releases the lock if its data were not declared consistent. Returns whether that was so.
    fn gives_up<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        if !std::mem::take(&mut self.is_told) {
            return Ok(false);
        }
        self.global.forget();
        self.global.raw().release_unrecovered(ra)?;
        Ok(true)
    }
}

impl<L: RecoverableRw> WindowLock for RobustGlobal<L> {
    const NAME: &'static str = "robust-global";
    type Params = GlobalParams<L::Params>;

    /// # Errors
    ///
    /// The errors of [`Global`].
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: Self::Params) -> Result<RobustGlobal<L>> {
        Ok(RobustGlobal { global: Global::new(ra, params)?, recovers: false, is_told: false })
    }

    #[inline]
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        if self.is_told {
            return Err(Error::Inconsistent { rank: ra.rank(), target });
        }
        self.global.lock(ra, kind, target)
    }

    #[inline]
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        if self.forsakes() || self.gives_up(ra)? { Ok(()) } else { self.global.unlock(ra, kind, target) }
    }

    #[inline]
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.global.lock_all(ra)
    }

    #[inline]
    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.forsakes() || self.gives_up(ra)? { Ok(()) } else { self.global.unlock_all(ra) }
    }

    fn recoverable_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<Entry> {
        if self.is_told {
            return Err(Error::Inconsistent { rank: ra.rank(), target });
        }
        // A second target under the same lock is clean: its data are consistent, or this rank has declared them so.
        let mut entry = Entry::Clean;
        self.global.lock_by(ra, kind, target, |lock| {
            entry = match kind {
                LockKind::Shared => lock.recoverable_acquire_read(ra)?,
                LockKind::Exclusive => lock.recoverable_acquire_write(ra)?,
            };
            Ok(true)
        })?;
        Ok(self.told(entry))
    }

    fn recoverable_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        let entry = self.global.raw().recoverable_acquire_read(ra)?;
        Ok(self.told(entry))
    }

    fn consistent<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if !self.is_told {
            return Err(Error::NothingToDeclare { rank: ra.rank() });
        }
        // After an error, the data are not declared consistent.
        self.global.raw().share(ra)?;
        self.is_told = false;
        Ok(())
    }

    fn exclusion(&self) -> Exclusion {
        self.global.exclusion()
    }

    fn allocations(&self) -> Vec<Disp> {
        self.global.allocations()
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::{Mapped, WORD};

    use super::*;
    use crate::{Exclusive, RobustRw, RobustTas, suite};

    /// Rank 1 fails while it holds the lock. Rank 0 is told, and does not declare the data consistent.
    fn give_up<L: RecoverableRw<Params: Default>>() {
        suite::with_deaths(2, |ra| {
            let mut lock = RobustGlobal::<L>::new(ra, GlobalParams::default())?;
            let entered = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
            if ra.rank() == Rank(1) {
                let _ = lock.recoverable_lock(ra, LockKind::Exclusive, Rank(0))?;
                ra.put(entered, 1)?;
                suite::die();
            }
            while ra.get(entered)? == 0 {
                std::thread::yield_now();
            }
            let entry = lock.recoverable_lock(ra, LockKind::Exclusive, Rank(0))?;
            assert!(matches!(entry, Entry::OwnerDead(_)), "{entry:?}");
            lock.unlock(ra, LockKind::Exclusive, Rank(0))?;
            for target in [0, 1].map(Rank) {
                let refused = lock.recoverable_lock(ra, LockKind::Exclusive, target);
                assert!(matches!(refused, Err(Error::NotRecoverable { .. })), "{target}: {refused:?}");
            }
            Ok(())
        });
    }

    #[test]
    fn a_lock_whose_data_nobody_declares_consistent_is_not_recoverable() {
        give_up::<Exclusive<RobustTas>>();
        give_up::<RobustRw>();
    }

    /// Holds a lock, or all, and unlocks when dropped.
    struct Held<'a> {
        ra: &'a Mapped,
        lock: RobustGlobal<Exclusive<RobustTas>>,
        all: bool,
    }

    impl Held<'_> {
        fn lock(&mut self) -> Result<Entry> {
            match self.all {
                true => self.lock.recoverable_lock_all(self.ra),
                false => self.lock.recoverable_lock(self.ra, LockKind::Exclusive, Rank(0)),
            }
        }

        fn unlock(&mut self) -> Result<()> {
            match self.all {
                true => self.lock.unlock_all(self.ra),
                false => self.lock.unlock(self.ra, LockKind::Exclusive, Rank(0)),
            }
        }
    }

    impl Drop for Held<'_> {
        fn drop(&mut self) {
            let _ = self.unlock();
        }
    }

    #[test]
    fn a_rank_that_panics_with_a_guard_leaves_the_lock_to_a_rank_that_is_told() {
        for all in [false, true] {
            suite::with_deaths(2, |ra| {
                let lock = RobustGlobal::new(ra, GlobalParams::default())?;
                let entered = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
                let mut held = Held { ra, lock, all };
                if ra.rank() == Rank(1) {
                    let _ = held.lock()?;
                    ra.put(entered, 1)?;
                    suite::die();
                }
                while ra.get(entered)? == 0 {
                    std::thread::yield_now();
                }
                let entry = held.lock()?;
                assert!(matches!(entry, Entry::OwnerDead(_)), "{entry:?}, all: {all}");
                held.unlock()?;
                let refused = held.lock();
                assert!(matches!(refused, Err(Error::NotRecoverable { .. })), "{refused:?}, all: {all}");
                std::mem::forget(held);
                Ok(())
            });
        }
    }
}
