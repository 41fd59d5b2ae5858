//! Window locks of any type on any backend, behind a table of functions.
//!
//! Only loops that are measured in nanoseconds need to know the lock and the backend when they are compiled. Everything
//! else goes through here, and is compiled once.

use rmalab_atomics::{Distance, Rank, RemoteAtomics};
use rmalab_locks::{LockKind, Result, WindowLock};

/// A [`WindowLock`] of a type that is chosen at run time.
pub(crate) trait AnyLock {
    /// Locks `target`.
    fn lock(&mut self, ra: &dyn RemoteAtomics, kind: LockKind, target: Rank) -> Result<()>;

    /// Unlocks `target`, which this rank has locked in this `kind`.
    fn unlock(&mut self, ra: &dyn RemoteAtomics, kind: LockKind, target: Rank) -> Result<()>;

    /// Locks every target in shared mode.
    fn lock_all(&mut self, ra: &dyn RemoteAtomics) -> Result<()>;

    /// Unlocks every target.
    fn unlock_all(&mut self, ra: &dyn RemoteAtomics) -> Result<()>;
}

impl<W: WindowLock> AnyLock for W {
    fn lock(&mut self, ra: &dyn RemoteAtomics, kind: LockKind, target: Rank) -> Result<()> {
        WindowLock::lock(self, ra, kind, target)
    }

    fn unlock(&mut self, ra: &dyn RemoteAtomics, kind: LockKind, target: Rank) -> Result<()> {
        WindowLock::unlock(self, ra, kind, target)
    }

    fn lock_all(&mut self, ra: &dyn RemoteAtomics) -> Result<()> {
        WindowLock::lock_all(self, ra)
    }

    fn unlock_all(&mut self, ra: &dyn RemoteAtomics) -> Result<()> {
        WindowLock::unlock_all(self, ra)
    }
}

/// Word and bulk operations of all kinds, by the distance of their target.
pub(crate) fn by_distance(counts: &rmalab_atomics::Counts) -> [u64; 3] {
    let kinds = [
        counts.fetch_add,
        counts.compare_and_swap,
        counts.fetch_store,
        counts.get,
        counts.put,
        counts.get_bytes,
        counts.put_bytes,
    ];
    Distance::ALL.map(|distance| kinds.iter().map(|kind| kind.at(distance)).sum())
}
