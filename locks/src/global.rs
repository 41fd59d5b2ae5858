//! One reader-writer lock for the whole window.
//!
//! # Paper
//!
//! M. Hatanaka, A. Hori, Y. Ishikawa: Implementation and evaluation of MPI RMA lock synchronization on FX100 (in
//! Japanese), section 4.3: lock(shared) and lock_all are the reader side of one global lock, lock(exclusive) its writer
//! side. The paper's lock is MCS-RW with reader preference; here it is a parameter.
//!
//! # Properties
//!
//! * Exclusion, fairness and cost are those of the lock, whose words are all at one rank.
//! * Exclusive locks of different targets exclude each other, too: the price of having one lock only.
//! * What one rank holds in the lock is counted, so that a rank can lock several targets at once, as MPI allows:
//!
//! | this rank has locked | and locks another target | what happens |
//! | --- | --- | --- |
//! | nothing | shared / exclusive | the lock is acquired for reading / writing |
//! | targets, all shared | shared | counted |
//! | targets, all shared | exclusive | refused: [`Error::Upgrade`] |
//! | targets, the first exclusive | shared or exclusive | counted |
//!
//! * An upgrade cannot be had from one lock: two ranks that hold it for reading and ask for writing would wait for each
//!   other for ever, where per-target locks have nothing to wait for. It is refused before anything is changed, and the
//!   locks that the rank holds stay valid. A program that needs it locks the exclusive target first, or takes another
//!   policy.
//! * A rank that began with an exclusive lock keeps all other ranks out until its last unlock, even if only shared locks
//!   are left. A program in which it then waits for another rank's shared lock never ends; MPI would let it.
//!
//! # Cost
//!
//! Those of the lock for a rank's first target; none for further ones.

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
    /// How this rank holds the lock; means nothing while `held` is empty.
    mode: LockKind,
    /// The targets that this rank has locked.
    held: Vec<Rank>,
}

impl<L: RawRwLock> Global<L> {
    /// Locks `target`; `acquire` acquires the lock if this rank does not hold it yet, and says whether it did.
    #[inline]
    fn lock_by<A: RemoteAtomics + ?Sized>(
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

    #[cold]
    fn upgrade<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> Error {
        let held = self.held.iter().map(Rank::to_string).collect::<Vec<_>>().join(", ");
        Error::Upgrade { rank: ra.rank(), policy: Self::NAME, target, held }
    }
}

impl<L: RawRwLock> WindowLock for Global<L> {
    const NAME: &'static str = "global";
    type Params = GlobalParams<L::Params>;

    /// # Errors
    ///
    /// Those of the trait, and [`Error::NoSuchTarget`] when the home is not a rank.
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: Self::Params) -> Result<Global<L>> {
        let place = Place::alloc(ra, params.home, L::WORDS, L::NODE)?;
        let lock = L::bind(ra, place, params.lock)?;
        Ok(Global { lock, place, mode: LockKind::Shared, held: Vec::with_capacity(8) })
    }

    /// # Errors
    ///
    /// [`Error::Upgrade`] for an exclusive lock while this rank holds shared ones; nothing has changed then.
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
        let Some(at) = self.held.iter().rposition(|&held| held == target) else {
            return Err(Error::NotLocked { rank: ra.rank(), target });
        };
        self.held.swap_remove(at);
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
