//! One reader-writer lock for the whole window.
//!
//! # Paper
//!
//! M. Hatanaka, A. Hori, Y. Ishikawa: Implementation and evaluation of MPI RMA lock synchronization on FX100 (in
//! Japanese), section 4.3: lock(shared) and lock_all acquire one global lock for reading, lock(exclusive) for writing. The
//! paper's lock is MCS-RW with reader preference; here the lock is a parameter.
//!
//! # Properties
//!
//! * The policy has the exclusion, fairness and cost of the lock. All its words are at one rank.
//! * Exclusive locks of different targets exclude each other, too, since there is a single lock.
//! * A rank counts the targets that it has locked, so it can lock several targets at once, as MPI allows:
//!
//! | this rank has locked | and locks another target | what happens |
//! | --- | --- | --- |
//! | nothing | shared / exclusive | the lock is acquired for reading / writing |
//! | targets, all shared | shared | counted |
//! | targets, all shared | exclusive | refused: [`Error::Upgrade`] |
//! | targets, the first exclusive | shared or exclusive | counted |
//!
//! * One lock cannot be upgraded: two ranks that hold it for reading and ask for writing would wait for each other forever.
//!   With a lock for each target, they would not wait. The call is refused before anything changes, and the rank's locks
//!   stay valid. A program that needs an upgrade locks the exclusive target first, or uses another policy.
//! * A rank that began with an exclusive lock keeps all other ranks out until its last unlock, even if only shared locks
//!   are left. If it then waits for another rank's shared lock, the program never ends, although MPI allows it.
//!
//! # Cost
//!
//! The lock's cost for a rank's first target, and nothing for further targets.

use rmalab_atomics::{Disp, Rank, RemoteAtomics, Time};

use crate::{Error, Exclusion, LockKind, Place, RawRwLock, RawRwLockTimed, Result, WindowLock, WindowLockTimed};

/// The parameters of [`Global`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GlobalParams<P> {
    /// The rank whose segment holds the lock's words.
    pub home: Rank,
    /// The parameters of the lock.
    pub lock: P,
}

/// One rank's part of a window lock made of one reader-writer lock; see the [module's text](self).
#[derive(Debug)]
pub struct Global<L> {
    lock: L,
    place: Place,
    /// How this rank holds the lock. It is not used while `held` is empty.
    mode: LockKind,
    /// The targets that this rank has locked.
    held: Vec<Rank>,
}

impl<L: RawRwLock> Global<L> {
    /// Locks `target`. `acquire` acquires the lock if this rank does not hold it yet, and returns whether it did.
    #[inline]
    pub(crate) fn lock_by<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        acquire: impl FnOnce(&mut L) -> Result<bool>,
    ) -> Result<bool> {
        if self.held.is_empty() {
            if !acquire(&mut self.lock)? {
                return Ok(false);
            }
            self.mode = kind;
        } else if kind == LockKind::Exclusive && self.mode == LockKind::Shared {
            return Err(self.upgrade(ra, target));
        }
        self.held.push(target);
        Ok(true)
    }

    /// The lock itself.
    pub(crate) fn raw(&mut self) -> &mut L {
        &mut self.lock
    }

    /// Forgets the targets that this rank had locked, after the lock was released.
    pub(crate) fn forget(&mut self) {
        self.held.clear();
    }

    #[cold]
    fn upgrade<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> Error {
        let held = self.held.iter().map(Rank::to_string).collect::<Vec<_>>().join(", ");
        Error::Upgrade { rank: ra.rank(), policy: Self::NAME, target, held }
    }
}

/// Takes the last lock of `target` out of `held`; returns whether there was one.
#[inline]
fn take(held: &mut Vec<Rank>, target: Rank) -> bool {
    let at = held.iter().rposition(|&held| held == target);
    at.map(|at| held.swap_remove(at)).is_some()
}

impl<L: RawRwLock> WindowLock for Global<L> {
    const NAME: &'static str = "global";
    type Params = GlobalParams<L::Params>;

    /// # Errors
    ///
    /// The errors of the trait, and [`Error::NoSuchTarget`] when the home is not a rank.
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: Self::Params) -> Result<Global<L>> {
        let place = Place::alloc(ra, params.home, L::words(ra.size()), L::NODE)?;
        let lock = L::bind(ra, place, params.lock)?;
        Ok(Global { lock, place, mode: LockKind::Shared, held: Vec::with_capacity(8) })
    }

    /// # Errors
    ///
    /// [`Error::Upgrade`] for an exclusive lock while this rank holds shared ones. The call changes nothing then.
    #[inline]
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        self.lock_by(ra, kind, target, |lock| {
            match kind {
                LockKind::Shared => lock.acquire_read(ra)?,
                LockKind::Exclusive => lock.acquire_write(ra)?,
            }
            Ok(true)
        })?;
        Ok(())
    }

    #[inline]
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, _kind: LockKind, target: Rank) -> Result<()> {
        if !take(&mut self.held, target) {
            return Err(Error::NotLocked { rank: ra.rank(), target });
        }
        if !self.held.is_empty() {
            return Ok(());
        }
        match self.mode {
            LockKind::Shared => self.lock.release_read(ra),
            LockKind::Exclusive => self.lock.release_write(ra),
        }
    }

    #[inline]
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.lock.acquire_read(ra)
    }

    #[inline]
    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.lock.release_read(ra)
    }

    fn exclusion(&self) -> Exclusion {
        if L::READERS_SHARE { Exclusion::Conflicts } else { Exclusion::Everything }
    }

    fn allocations(&self) -> Vec<Disp> {
        vec![self.place.words, self.place.node]
    }
}

impl<L: RawRwLockTimed> WindowLockTimed for Global<L> {
    fn try_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<bool> {
        self.lock_by(ra, kind, target, |lock| match kind {
            LockKind::Shared => lock.try_acquire_read(ra),
            LockKind::Exclusive => lock.try_acquire_write(ra),
        })
    }

    fn lock_until<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        deadline: Time,
    ) -> Result<bool> {
        self.lock_by(ra, kind, target, |lock| match kind {
            LockKind::Shared => lock.acquire_read_until(ra, deadline),
            LockKind::Exclusive => lock.acquire_write_until(ra, deadline),
        })
    }

    fn try_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        self.lock.try_acquire_read(ra)
    }

    fn lock_all_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        self.lock.acquire_read_until(ra, deadline)
    }
}
