//! Window locks of any type on any backend, called through a table of functions.
//!
//! Only loops that take nanoseconds need the types of lock and backend at compile time. All other code uses this table,
//! and is compiled once.

use rmalab_atomics::{Disp, Distance, Rank, RemoteAtomics};
use rmalab_locks::{Exclusion, LockKind, NoCheck, Result, WindowLock};

/// A [`WindowLock`] whose type is chosen at run time.
pub(crate) trait AnyLock {
    /// Locks `target`.
    fn lock(&mut self, ra: &dyn RemoteAtomics, kind: LockKind, target: Rank) -> Result<()>;

    /// Unlocks `target`, which this rank has locked in this `kind`.
    fn unlock(&mut self, ra: &dyn RemoteAtomics, kind: LockKind, target: Rank) -> Result<()>;

    /// Locks every target in shared mode.
    fn lock_all(&mut self, ra: &dyn RemoteAtomics) -> Result<()>;

    /// Unlocks every target.
    fn unlock_all(&mut self, ra: &dyn RemoteAtomics) -> Result<()>;

    /// Returns which locks of different ranks exclude each other.
    fn exclusion(&self) -> Exclusion;

    /// Returns the allocations made for the lock.
    fn allocations(&self) -> Vec<Disp>;
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

    fn exclusion(&self) -> Exclusion {
        WindowLock::exclusion(self)
    }

    fn allocations(&self) -> Vec<Disp> {
        WindowLock::allocations(self)
    }
}

/// Makes one rank's part of a lock on any backend.
type Make = dyn Fn(&dyn RemoteAtomics) -> Result<Box<dyn AnyLock>> + Send + Sync;

/// A constructor of locks of any type, as the parameters of a window's policy. These are copied, so its data live as
/// long as the program.
#[derive(Clone, Copy)]
pub(crate) struct Maker(pub(crate) &'static Make);

impl Maker {
    /// Makes the policy `W`.
    pub(crate) fn new<W: WindowLock + 'static>(params: W::Params) -> Maker
    where
        W::Params: 'static,
    {
        // This leaks a few bytes for each lock that a program registers.
        Maker(Box::leak(Box::new(move |ra: &dyn RemoteAtomics| Ok(Box::new(W::new(ra, params)?) as Box<dyn AnyLock>))))
    }
}

impl Default for Maker {
    fn default() -> Maker {
        Maker(&|ra| Ok(Box::new(NoCheck::new(ra, ())?)))
    }
}

impl std::fmt::Debug for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Maker")
    }
}

/// A window's policy whose type is chosen at run time, so that windows are compiled once for all policies.
pub(crate) struct AnyPolicy(Box<dyn AnyLock>);

impl WindowLock for AnyPolicy {
    const NAME: &'static str = "any policy";
    type Params = Maker;

    fn new<A: RemoteAtomics + ?Sized>(ra: &A, maker: Maker) -> Result<AnyPolicy> {
        (maker.0)(&ra).map(AnyPolicy)
    }

    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        self.0.lock(&ra, kind, target)
    }

    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        self.0.unlock(&ra, kind, target)
    }

    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.lock_all(&ra)
    }

    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.unlock_all(&ra)
    }

    fn exclusion(&self) -> Exclusion {
        self.0.exclusion()
    }

    fn allocations(&self) -> Vec<Disp> {
        self.0.allocations()
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
