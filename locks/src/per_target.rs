//! One reader-writer lock for each target.
//!
//! # Paper
//!
//! M. Li, S. Potluri, K. Hamidouche, J. Jose, D. K. Panda: Efficient and Truly Passive MPI-3 RMA Using InfiniBand
//! Atomics. EuroMPI'13, 2013. DOI 10.1145/2488551.2488573. Section 2 of the FX100 study (Hatanaka, Hori, Ishikawa)
//! describes it: lock_all locks every process of the window in shared mode. The lock itself is a parameter here.
//!
//! # Properties
//!
//! * Locks of different targets are independent of each other.
//! * lock_all costs p acquisitions, one for each rank, in the order of the ranks. It does not scale, and serves for
//!   comparison with policies that do.
//! * lock_all keeps the locks that it has while it waits for the next one. So a rank that holds target t exclusively and
//!   then locks a target below t can wait for a lock_all that waits for this rank. Programs that lock their targets in the
//!   order of the ranks, as lock_all does, are safe. So are programs that lock one target at a time.
//!
//! # State
//!
//! | what | where | size |
//! | --- | --- | --- |
//! | words of the lock of target t | rank t | the lock's words, one symmetric allocation |
//! | queue nodes | every rank, one for each target | p times the lock's node, each rounded up to [`LINE`] |
//! | handles | every rank, one for each target | p times the lock's handle |
//!
//! So each rank needs memory in proportion to the number of ranks. A rank can wait for, or hold, several targets at once,
//! and a queue node serves one lock at a time. Locks without nodes need only the handles.
//!
//! # Cost
//!
//! The lock's cost for a target, and p times its reader's cost for lock_all and unlock_all.

use rmalab_atomics::{Disp, Rank, RemoteAtomics, Time};

use crate::{Exclusion, LINE, LockKind, Place, RawRwLock, RawRwLockTimed, Result, WindowLock, WindowLockTimed};

/// One rank's part of a window lock made of one reader-writer lock for each target; see the [module's text](self).
///
/// # Panics
///
/// Its calls panic for a target that is not a rank of the world; [`WindowLocks`](crate::WindowLocks) refuses those.
#[derive(Debug)]
pub struct PerTarget<L> {
    /// This rank's handle of each target's lock.
    locks: Vec<L>,
    /// The displacement of the words and the queue nodes, in every rank's segment.
    allocations: [Disp; 2],
}

impl<L: RawRwLock> WindowLock for PerTarget<L> {
    const NAME: &'static str = "per-target";
    /// The parameters of the lock.
    type Params = L::Params;

    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: L::Params) -> Result<PerTarget<L>> {
        let stride = L::NODE.next_multiple_of(LINE);
        let words = ra.heap().alloc(L::words(ra.size()), LINE)?;
        let nodes = ra.heap().alloc(stride * u64::from(ra.size()), LINE)?;
        let locks = (0..ra.size())
            .map(|target| {
                let node = nodes.plus(stride * u64::from(target));
                L::bind(ra, Place { home: Rank(target), words, node }, params)
            })
            .collect::<Result<Vec<L>>>()?;
        Ok(PerTarget { locks, allocations: [words, nodes] })
    }

    #[inline]
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        let lock = &mut self.locks[target.index()];
        match kind {
            LockKind::Shared => lock.acquire_read(ra),
            LockKind::Exclusive => lock.acquire_write(ra),
        }
    }

    #[inline]
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        let lock = &mut self.locks[target.index()];
        match kind {
            LockKind::Shared => lock.release_read(ra),
            LockKind::Exclusive => lock.release_write(ra),
        }
    }

    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.locks.iter_mut().try_for_each(|lock| lock.acquire_read(ra))
    }

    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.locks.iter_mut().try_for_each(|lock| lock.release_read(ra))
    }

    fn exclusion(&self) -> Exclusion {
        if L::READERS_SHARE { Exclusion::Conflicts } else { Exclusion::Everything }
    }

    fn allocations(&self) -> Vec<Disp> {
        self.allocations.to_vec()
    }
}

impl<L: RawRwLockTimed> WindowLockTimed for PerTarget<L> {
    fn try_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<bool> {
        let lock = &mut self.locks[target.index()];
        match kind {
            LockKind::Shared => lock.try_acquire_read(ra),
            LockKind::Exclusive => lock.try_acquire_write(ra),
        }
    }

    fn lock_until<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        deadline: Time,
    ) -> Result<bool> {
        let lock = &mut self.locks[target.index()];
        match kind {
            LockKind::Shared => lock.acquire_read_until(ra, deadline),
            LockKind::Exclusive => lock.acquire_write_until(ra, deadline),
        }
    }

    fn try_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        all_or_none(&mut self.locks, ra, |lock| lock.try_acquire_read(ra))
    }

    fn lock_all_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        all_or_none(&mut self.locks, ra, |lock| lock.acquire_read_until(ra, deadline))
    }
}

/// Acquires every lock for reading. If one of them cannot be acquired, releases the locks before it.
fn all_or_none<L: RawRwLock, A: RemoteAtomics + ?Sized>(
    locks: &mut [L],
    ra: &A,
    acquire: impl Fn(&mut L) -> Result<bool>,
) -> Result<bool> {
    for held in 0..locks.len() {
        if !acquire(&mut locks[held])? {
            locks[..held].iter_mut().rev().try_for_each(|lock| lock.release_read(ra))?;
            return Ok(false);
        }
    }
    Ok(true)
}
