//! The lock traits: what an algorithm implements to be verified, studied and put behind a window.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics};

use crate::Result;

/// Where one lock lives.
///
/// Both displacements come from the symmetric heap, so that one value describes the lock to every rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The rank whose segment holds the lock's shared words.
    pub home: Rank,
    /// Where the shared words start in the home's segment, aligned to [`LINE`].
    pub words: Disp,
    /// Where each rank's own queue node starts in that rank's segment, aligned to [`LINE`].
    pub node: Disp,
}

/// Alignment of a lock's words and of each queue node, in bytes: two cache lines, since processors fetch them in pairs.
pub const LINE: u64 = 128;

impl Place {
    /// Allocates room for one lock of `words` and `node` bytes, its shared words at `home`.
    ///
    /// Every rank calls this at the same point of its sequence of allocations; there is no communication.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory) when the symmetric heap is full, and
    /// [`Error::NoSuchTarget`](crate::Error::NoSuchTarget) when `home` is not a rank.
    pub fn alloc<A: RemoteAtomics + ?Sized>(ra: &A, home: Rank, words: u64, node: u64) -> Result<Place> {
        if home.0 >= ra.size() {
            return Err(crate::Error::NoSuchTarget { rank: ra.rank(), target: home, size: ra.size() });
        }
        let words = ra.heap().alloc(words.max(1), LINE)?;
        let node = ra.heap().alloc(node.max(1), LINE)?;
        Ok(Place { home, words, node })
    }

    /// The shared word number `index`, at the home rank.
    ///
    /// [Unwatched](Address::unwatched): ranks wait on their own nodes, or poll.
    pub const fn word(&self, index: u64) -> Address {
        self.home.at(self.words.word(index)).unwatched()
    }
}

/// One mutual-exclusion lock: the part of it that one rank holds.
///
/// The value is this rank's handle, with whatever it must remember between acquire and release. A handle is acquired by
/// one caller at a time (`&mut`), and its queue node is this rank's only: make one handle a rank and a lock.
///
/// All-zero memory is the lock's state at rest, before its first use and after its last.
///
/// # Errors
///
/// After an error out of `acquire` or `release` (a peer has failed, as a rule) the lock's state is unknown; the world
/// has to be left.
pub trait RawMutex: Sized {
    /// The algorithm's name everywhere: file, command line, plots.
    const NAME: &'static str;
    /// Bytes of shared words at the home rank.
    const WORDS: u64;
    /// Bytes of the queue node in each rank's segment; 0 where there is none.
    const NODE: u64;
    /// The paper's parameters, under the paper's names.
    type Params: Copy + Default + std::fmt::Debug + Send + Sync;

    /// This rank's handle of the lock at `place`.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyRanks`](crate::Error::TooManyRanks) when the lock's words cannot count this world's ranks.
    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Self::Params) -> Result<Self>;

    /// Acquires the lock; returns once this rank holds it.
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Releases the lock, which this rank holds.
    ///
    /// Everything that this rank completed (flushed) before is visible to the next holder.
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;
}

/// One reader-writer lock: the part of it that one rank holds. See [`RawMutex`] for handles, rest and errors.
pub trait RawRwLock: Sized {
    /// The algorithm's name everywhere: file, command line, plots.
    const NAME: &'static str;
    /// Bytes of shared words at the home rank.
    const WORDS: u64;
    /// Bytes of the queue node in each rank's segment; 0 where there is none.
    const NODE: u64;
    /// Whether readers hold the lock together; `false` for a mutex in the place of a reader-writer lock.
    const READERS_SHARE: bool = true;
    /// The paper's parameters, under the paper's names.
    type Params: Copy + Default + std::fmt::Debug + Send + Sync;

    /// This rank's handle of the lock at `place`.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyRanks`](crate::Error::TooManyRanks) when the lock's words cannot count this world's ranks.
    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Self::Params) -> Result<Self>;

    /// Acquires the lock for reading, together with other readers.
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Releases the lock, which this rank holds for reading.
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Acquires the lock for writing, alone.
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Releases the lock, which this rank holds for writing.
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;
}

/// A mutex that can be tried without waiting.
pub trait RawMutexTry: RawMutex {
    /// Acquires the lock if nobody holds it; never waits.
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool>;
}

/// A mutex that can be waited for with a limit, because a waiter can leave it again.
pub trait RawMutexTimed: RawMutexTry {
    /// Acquires the lock unless that takes until `deadline`; `false` if it gave up.
    fn acquire_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: rmalab_atomics::Time) -> Result<bool>;
}

/// A reader-writer lock that can be tried without waiting, or waited for with a limit.
///
/// A try may also fail because of another rank's try that is failing at the same time.
pub trait RawRwLockTimed: RawRwLock {
    /// Acquires the lock for reading if that needs no waiting.
    fn try_acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool>;

    /// Acquires the lock for writing if that needs no waiting.
    fn try_acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool>;

    /// Acquires the lock for reading unless that takes until `deadline`; `false` if it gave up.
    fn acquire_read_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: rmalab_atomics::Time)
    -> Result<bool>;

    /// Acquires the lock for writing unless that takes until `deadline`; `false` if it gave up.
    fn acquire_write_until<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        deadline: rmalab_atomics::Time,
    ) -> Result<bool>;
}

/// How a window's target is locked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockKind {
    /// Together with other shared locks and with lock_all (`MPI_LOCK_SHARED`).
    Shared,
    /// Alone (`MPI_LOCK_EXCLUSIVE`).
    Exclusive,
}

/// Which locks of different ranks a window's policy keeps from being held at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Exclusion {
    /// None: the policy locks nothing.
    Nothing,
    /// Those that MPI keeps apart, and perhaps exclusive locks of different targets.
    Conflicts,
    /// All of them, shared locks and lock_all included: one rank at a time.
    Everything,
}

/// The protocol behind a window's lock, unlock, lock_all and unlock_all: one rank's part of it.
///
/// An exclusive lock of a target excludes shared locks of that target and lock_all; locks of different targets need not
/// exclude each other, but may. Callers keep MPI's rules (one lock a target at a time, none beside lock_all):
/// [`WindowLocks`](crate::WindowLocks) checks them.
pub trait WindowLock: Sized {
    /// The policy's name everywhere: file, command line, info key, plots.
    const NAME: &'static str;
    /// The policy's parameters, under its paper's names.
    type Params: Copy + Default + std::fmt::Debug + Send + Sync;

    /// This rank's part of a new window lock; all ranks call it at the same point of their sequences of allocations.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), [`Error::TooManyRanks`](crate::Error::TooManyRanks).
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: Self::Params) -> Result<Self>;

    /// Locks `target`.
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()>;

    /// Unlocks `target`, which this rank has locked in this `kind`.
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()>;

    /// Locks every target in shared mode.
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Unlocks every target.
    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Which locks of different ranks exclude each other.
    fn exclusion(&self) -> Exclusion {
        Exclusion::Conflicts
    }

    /// The symmetric-heap allocations that [`new`](Self::new) has made, the same ones on every rank, for whoever frees
    /// the window: [`Collectives::free`](rmalab_atomics::Collectives::free) takes each of them back.
    ///
    /// While no rank holds a lock, or is in a call, all their memory is zero, but for what a policy keeps to be faster next
    /// time, and says in its text; freeing zeroes that. After they are freed no call may be made.
    fn allocations(&self) -> Vec<Disp>;
}

/// A window lock that can be tried without waiting, or waited for with a limit.
///
/// When a form gives up, this rank holds what it held before the call, and nothing else. A try may also fail because of
/// another rank's attempt that is failing at the same time.
pub trait WindowLockTimed: WindowLock {
    /// Locks `target` if that needs no waiting.
    fn try_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<bool>;

    /// Locks `target` unless that takes until `deadline`; `false` if it gave up. Attempts it at least once.
    fn lock_until<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        deadline: rmalab_atomics::Time,
    ) -> Result<bool>;

    /// Locks every target in shared mode if that needs no waiting.
    fn try_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool>;

    /// Locks every target in shared mode unless that takes until `deadline`; `false` if it gave up. Attempts it at
    /// least once.
    fn lock_all_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: rmalab_atomics::Time) -> Result<bool>;
}
