//! The lock traits: an algorithm that implements them can be verified, studied and used by windows.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics};

use crate::{Entry, Error, Result};

/// The place of one lock in memory.
///
/// Both displacements come from the symmetric heap, so one value describes the lock to every rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The rank whose segment holds the lock's shared words.
    pub home: Rank,
    /// The displacement of the shared words in the home's segment, aligned to [`LINE`].
    pub words: Disp,
    /// The displacement of each rank's queue node in that rank's segment, aligned to [`LINE`].
    pub node: Disp,
}

/// Alignment of a lock's words and of each queue node, in bytes: two cache lines, since processors fetch lines in pairs.
pub const LINE: u64 = 128;

impl Place {
    /// Allocates memory for one lock: `words` bytes of shared words at `home`, and a queue node of `node` bytes at each rank.
    ///
    /// Every rank calls this at the same point of its sequence of allocations, with the same arguments. The ranks do not communicate, so a
    /// difference is not detected. Then the ranks use different words: the lock excludes no rank, or a wait does not end.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory) when the symmetric heap is full, and
    /// [`Error::NoSuchTarget`](crate::Error::NoSuchTarget) when `home` is not a rank.
    pub fn alloc<A: RemoteAtomics + ?Sized>(ra: &A, home: Rank, words: u64, node: u64) -> Result<Place> {
        if home.0 >= ra.size() {
            return Err(Error::NoSuchTarget { rank: ra.rank(), target: home, size: ra.size() });
        }
        let words = ra.heap().alloc(words.max(1), LINE)?;
        let node = ra.heap().alloc(node.max(1), LINE)?;
        Ok(Place { home, words, node })
    }

    /// Returns the address of shared word number `index`, at the home rank.
    ///
    /// It is [unwatched](Address::unwatched), since ranks wait on their own nodes, or poll.
    pub const fn word(&self, index: u64) -> Address {
        self.home.at(self.words.word(index)).unwatched()
    }
}

/// One rank's handle of a mutual-exclusion lock.
///
/// The handle stores the data that the rank needs between acquire and release. One caller at a time acquires through it (`&mut`), and it
/// uses the rank's only queue node. So make one handle for each rank and lock.
///
/// Before the first use, all memory of the lock is zero. At rest, while no rank holds the lock or is in a call, it is zero again. A lock may
/// declare exceptions ([`RESTS_AT_ZERO`](Self::RESTS_AT_ZERO), [`NODE_AT_REST`](Self::NODE_AT_REST)). Freeing zeroes those.
///
/// # Errors
///
/// `acquire` and `release` fail when an operation of the network fails, usually because a peer has failed. The state of the lock is
/// unknown then, and the rank has to leave the world.
pub trait RawMutex: Sized {
    /// The algorithm's name everywhere: file, command line, plots.
    const NAME: &'static str;
    /// Bytes of shared words at the home rank.
    const WORDS: u64;
    /// Bytes of the queue node in each rank's segment; 0 for a lock without queue nodes.
    const NODE: u64;
    /// True if the shared words are zero at rest; `false` for a lock that keeps its counts from one acquisition to the
    /// next.
    const RESTS_AT_ZERO: bool = true;
    /// The number of bytes of the queue node, from its start, that are zero at rest; fewer than [`NODE`](Self::NODE) for a lock that keeps a
    /// value in each rank's memory.
    const NODE_AT_REST: u64 = Self::NODE;
    /// The paper's parameters, under the paper's names.
    type Params: Copy + Default + std::fmt::Debug + Send + Sync;

    /// Makes this rank's handle of the lock at `place`.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyRanks`](crate::Error::TooManyRanks) when the lock's words cannot count this world's ranks.
    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Self::Params) -> Result<Self>;

    /// Acquires the lock, and returns when this rank holds it.
    ///
    /// A loop that polls calls [`pause`](RemoteAtomics::pause) in each round. There a rank learns that another rank has failed, and the
    /// explorer takes it as the end of a round. Without it, each further round may be a new state, and the search may not end.
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Releases the lock, which this rank holds.
    ///
    /// All operations that this rank has completed (flushed) before are visible to the next holder.
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;
}

/// One rank's handle of a reader-writer lock. See [`RawMutex`] for handles, the state at rest, and errors.
pub trait RawRwLock: Sized {
    /// The algorithm's name everywhere: file, command line, plots.
    const NAME: &'static str;
    /// Bytes of shared words at the home rank, in a small world: see [`words`](Self::words).
    const WORDS: u64;
    /// Bytes of the queue node in each rank's segment; 0 for a lock without queue nodes.
    const NODE: u64;
    /// True if the shared words are zero at rest; `false` for a lock that keeps its counts from one acquisition to the
    /// next.
    const RESTS_AT_ZERO: bool = true;
    /// The number of bytes of the queue node, from its start, that are zero at rest; fewer than [`NODE`](Self::NODE) for a lock that keeps a
    /// value in each rank's memory.
    const NODE_AT_REST: u64 = Self::NODE;
    /// True if readers hold the lock together; `false` for a mutex in the role of a reader-writer lock.
    const READERS_SHARE: bool = true;
    /// The paper's parameters, under the paper's names.
    type Params: Copy + Default + std::fmt::Debug + Send + Sync;

    /// Returns the bytes of shared words in a world of `size` ranks: at least [`WORDS`](Self::WORDS), and more for a lock whose words grow
    /// with the world.
    fn words(_size: u32) -> u64 {
        Self::WORDS
    }

    /// Makes this rank's handle of the lock at `place`.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyRanks`](crate::Error::TooManyRanks) when the lock's words cannot count this world's ranks.
    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Self::Params) -> Result<Self>;

    /// Acquires the lock for reading, together with other readers. A loop that polls pauses, as in [`RawMutex::acquire`].
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
    /// Acquires the lock if no rank holds it. Never waits.
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool>;
}

/// A mutex whose waiters can give up, so that acquiring can have a deadline.
pub trait RawMutexTimed: RawMutexTry {
    /// Acquires the lock, or gives up at `deadline` and returns `false`.
    fn acquire_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: rmalab_atomics::Time) -> Result<bool>;
}

/// A reader-writer lock that can be tried without waiting, or acquired with a deadline.
///
/// A try may also fail because another rank's try fails at the same time.
pub trait RawRwLockTimed: RawRwLock {
    /// Acquires the lock for reading if no wait is needed.
    fn try_acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool>;

    /// Acquires the lock for writing if no wait is needed.
    fn try_acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool>;

    /// Acquires the lock for reading, or gives up at `deadline` and returns `false`.
    fn acquire_read_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: rmalab_atomics::Time)
    -> Result<bool>;

    /// Acquires the lock for writing, or gives up at `deadline` and returns `false`.
    fn acquire_write_until<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        deadline: rmalab_atomics::Time,
    ) -> Result<bool>;
}

/// The mode in which a window's target is locked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockKind {
    /// Together with other shared locks and with lock_all (`MPI_LOCK_SHARED`).
    Shared,
    /// Alone (`MPI_LOCK_EXCLUSIVE`).
    Exclusive,
}

/// The locks of different ranks that a window's policy keeps apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Exclusion {
    /// No locks: the policy locks nothing.
    Nothing,
    /// The locks that MPI keeps apart, and perhaps exclusive locks of different targets.
    Conflicts,
    /// All locks, shared locks and lock_all included: one rank at a time.
    Everything,
}

/// The result of [`WindowLock::begin_lock`].
#[derive(Debug)]
pub enum Begun {
    /// This rank holds the lock.
    Held,
    /// This rank may have to wait. Call [`WindowLock::complete_lock`].
    Waits,
    /// Nothing was done. Call [`WindowLock::lock`].
    Nothing,
    /// An error, as of [`WindowLock::lock`].
    Failed(Error),
}

/// One rank's part of a lock policy: the protocol of a window's lock, unlock, lock_all and unlock_all.
///
/// An exclusive lock of a target excludes all other locks of that target, and lock_all. Locks of different targets may exclude each other,
/// too. Callers follow MPI's rules: one lock of a target at a time, and none beside lock_all. [`WindowLocks`](crate::WindowLocks) checks
/// them.
pub trait WindowLock: Sized {
    /// The policy's name everywhere: file, command line, info key, plots.
    const NAME: &'static str;
    /// The policy's parameters, under its paper's names.
    type Params: Copy + Default + std::fmt::Debug + Send + Sync;

    /// Makes this rank's part of a new window lock. All ranks call it at the same point of their sequences of allocations.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), [`Error::TooManyRanks`](crate::Error::TooManyRanks).
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: Self::Params) -> Result<Self>;

    /// Locks `target`.
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()>;

    /// Begins to lock `target`, without a wait. The caller then does what the result says.
    ///
    /// It is for callers that inline it: where locks do not contend, it is short, and returns in registers. The default does nothing.
    #[inline(always)]
    fn begin_lock<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A, _kind: LockKind, _target: Rank) -> Begun {
        Begun::Nothing
    }

    /// Completes a lock after [`Begun::Waits`].
    fn complete_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        self.lock(ra, kind, target)
    }

    /// Unlocks `target`, which this rank has locked in this `kind`.
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()>;

    /// Unlocks `target` if that is short. Otherwise it does nothing and returns `None`, as the default does. Call [`unlock`](Self::unlock)
    /// then.
    #[inline(always)]
    fn unlock_shortly<A: RemoteAtomics + ?Sized>(
        &mut self,
        _ra: &A,
        _kind: LockKind,
        _target: Rank,
    ) -> Option<Result<()>> {
        None
    }

    /// Locks every target in shared mode.
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Unlocks every target.
    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Locks `target`, also after ranks have failed, if the policy supports that. Otherwise it does what
    /// [`lock`](Self::lock) does.
    ///
    /// A rank that locks after a holder that may have left data half written gets [`Entry::OwnerDead`]. It holds the lock alone then. It
    /// repairs the data and declares them [consistent](Self::consistent). If it unlocks before, no rank can lock any more. Either all
    /// ranks lock by this call, or all by [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// [`Error::NotRecoverable`], and [`Error::Inconsistent`] between an `OwnerDead` and `consistent`.
    fn recoverable_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<Entry> {
        self.lock(ra, kind, target)?;
        Ok(Entry::Clean)
    }

    /// Locks every target in shared mode, as [`recoverable_lock`](Self::recoverable_lock) locks one.
    ///
    /// # Errors
    ///
    /// [`Error::NotRecoverable`].
    fn recoverable_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.lock_all(ra)?;
        Ok(Entry::Clean)
    }

    /// Declares the data consistent, after [`Entry::OwnerDead`] and their repair, while this rank holds the lock.
    ///
    /// # Errors
    ///
    /// [`Error::NothingToDeclare`].
    fn consistent<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Err(Error::NothingToDeclare { rank: ra.rank() })
    }

    /// The locks of different ranks that exclude each other.
    fn exclusion(&self) -> Exclusion {
        Exclusion::Conflicts
    }

    /// Returns the symmetric-heap allocations that [`new`](Self::new) has made, the same ones on every rank.
    ///
    /// The code that frees the window returns each of them by [`Collectives::free`](rmalab_atomics::Collectives::free). No call may follow
    /// that. While no rank holds a lock or is in a call, their memory is zero. A policy may keep some words to be faster next time, which
    /// its documentation names. Freeing zeroes those.
    fn allocations(&self) -> Vec<Disp>;
}

/// A window lock that can be tried without waiting, or acquired with a deadline.
///
/// A call that gives up leaves this rank with the locks that it held before. A try may also fail because another rank's attempt fails at
/// the same time.
pub trait WindowLockTimed: WindowLock {
    /// Locks `target` if no wait is needed.
    fn try_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<bool>;

    /// Locks `target`, or gives up at `deadline` and returns `false`. Tries at least once.
    fn lock_until<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        deadline: rmalab_atomics::Time,
    ) -> Result<bool>;

    /// Locks every target in shared mode if no wait is needed.
    fn try_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool>;

    /// Locks every target in shared mode, or gives up at `deadline` and returns `false`. Tries at least once.
    fn lock_all_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: rmalab_atomics::Time) -> Result<bool>;
}
