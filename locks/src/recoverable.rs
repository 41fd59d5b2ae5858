//! Locks that outlive the ranks that hold them or wait for them.
//!
//! When a rank fails, every other lock ends with [`PeerFailed`](rmalab_atomics::Error::PeerFailed). A [`Recoverable`] lock goes on: the
//! survivors repair it. The first of them that enters after a rank has failed inside gets [`Entry::OwnerDead`], since the data may be
//! half written. [`RemoteAtomics`] defines the model of failures. The names follow POSIX's robust mutexes (`EOWNERDEAD`,
//! `ENOTRECOVERABLE`).
//!
//! A recoverable lock asks for failures only where it waits. So without a failure it costs as much as the lock that it extends. Its
//! words have to outlive the ranks. Between threads and between processes of one host, the memory of a rank stays after its failure. Over
//! `verbs` it is lost: the lock goes on unless its home fails, and then every call returns
//! [`PeerFailed`](rmalab_atomics::Error::PeerFailed) with the home.
//!
//! # A guard that is dropped
//!
//! Dropping a guard releases, as in [`guard`](crate::guard), with two exceptions. A guard whose data were not declared consistent makes
//! the lock [not recoverable](crate::Error::NotRecoverable) for all ranks. And while a panic unwinds, a guard keeps the lock: its rank is
//! about to fail, and the next holder learns of the failure. A program that catches the panic has to leave the world.

use std::mem::ManuallyDrop;

use rmalab_atomics::{Error as AtomicsError, Failed, Rank, RemoteAtomics};

use crate::guard::check;
use crate::{Error, Place, RawMutex, RawRwLock, Result};

mod readers_writers;

pub use readers_writers::{AcquiredRw, InconsistentRw, RobustRwGuard, RobustRwLock};

/// The state in which a rank has acquired a [`Recoverable`] lock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "after a failure inside, the data may be half written"]
pub enum Entry {
    /// No rank has failed inside since the last rank that got `OwnerDead`.
    Clean,
    /// One of these ranks may have failed inside. The data may be half written.
    OwnerDead(Failed),
}

/// A mutex that goes on after the failure of ranks.
///
/// Its [`acquire`](RawMutex::acquire) ends with the failure of a rank, as for any other lock. Either all ranks acquire by that call, or all
/// by [`recoverable_acquire`](Self::recoverable_acquire).
pub trait Recoverable: RawMutex {
    /// Acquires the lock, also after ranks have failed. It acknowledges their failures.
    ///
    /// A rank that enters after one that failed inside gets [`Entry::OwnerDead`]. It may also get that after a rank that failed while it
    /// acquired or released.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](rmalab_atomics::Error::Unsupported) on a backend that ends with its first failure, once this rank has to wait, and
    /// [`NotRecoverable`](Error::NotRecoverable). [`PeerFailed`](rmalab_atomics::Error::PeerFailed) when the lock's words are lost with their
    /// home.
    fn recoverable_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry>;

    /// Releases the lock, which this rank holds, and makes it unusable: later acquires return
    /// [`NotRecoverable`](Error::NotRecoverable).
    fn release_unrecovered<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;
}

/// A reader-writer lock that goes on after the failure of ranks.
///
/// A rank that fails while it reads leaves nothing half written, so no rank gets [`Entry::OwnerDead`] for it. Either all
/// ranks acquire by the calls of [`RawRwLock`], or all by these.
pub trait RecoverableRw: RawRwLock {
    /// Acquires the lock for reading, also after ranks have failed. It acknowledges their failures.
    ///
    /// A rank that enters after one that failed inside as a writer gets [`Entry::OwnerDead`]. It is alone inside, so that
    /// it can repair the data, until it [shares](Self::share) the lock or releases it.
    ///
    /// # Errors
    ///
    /// The errors of [`Recoverable::recoverable_acquire`].
    fn recoverable_acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry>;

    /// Acquires the lock for writing, also after ranks have failed, as
    /// [`recoverable_acquire_read`](Self::recoverable_acquire_read) does for reading.
    ///
    /// # Errors
    ///
    /// The errors of [`Recoverable::recoverable_acquire`].
    fn recoverable_acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry>;

    /// Lets other ranks read, too, if this rank reads alone after [`Entry::OwnerDead`]. Otherwise nothing happens.
    fn share<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;

    /// Releases the lock, which this rank holds alone, and makes it unusable: later acquires return
    /// [`NotRecoverable`](Error::NotRecoverable).
    fn release_unrecovered<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()>;
}

/// The state of a rank that has come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a rank inside has to release"]
pub enum Stage {
    /// It does not hold the lock, and has no place in a queue.
    Idle,
    /// It holds the lock, as after an acquire.
    Inside,
}

/// A mutex for ranks that fail and come back (*recoverable mutual exclusion*).
///
/// A rank *fails* when its handle is gone between any two of its calls: the thread has panicked inside an acquire, for example. Its memory
/// stays, as do the lock's words. It comes back by [`resume`](Self::resume), in a world whose ranks have not noticed its failure. Until then, all
/// others may have to wait for it, and a rank that has failed inside keeps the lock.
pub trait Resumable: RawMutex {
    /// Makes a new handle for this rank, whose handle of the lock at `place` is gone, and ends what the rank was doing.
    ///
    /// A rank that was inside is inside again, and no other rank has been inside since it failed. A rank that was acquiring waits, and is
    /// inside; or it is idle, if it had not begun. A rank that was releasing is idle; or it is inside again, if it had not begun. So the
    /// caller records its progress inside in its own memory, if it must not repeat a step.
    ///
    /// The puts that the lost handle has posted have arrived, or are lost, before this call. A rank may fail in it, and call it
    /// again.
    ///
    /// # Errors
    ///
    /// The errors of [`bind`](RawMutex::bind) and [`acquire`](RawMutex::acquire).
    fn resume<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Self::Params) -> Result<(Self, Stage)>;
}

/// Returns the failures that this rank knows. From here on they end none of its waits.
pub(crate) fn acknowledged<A: RemoteAtomics + ?Sized>(ra: &A) -> Result<Failed> {
    let failed = ra.failed()?;
    if !failed.is_empty() {
        ra.acknowledge(&failed)?;
    }
    Ok(failed)
}

/// Passes on the result of a call that is out of line. The call writes it to memory. Without this copy, the result of the
/// inlined path beside it would be written to the same memory, and read again: some nanoseconds.
#[inline(always)]
#[expect(clippy::needless_question_mark, reason = "it makes the copy")]
pub(crate) fn by_value(result: Result<Entry>) -> Result<Entry> {
    Ok(result?)
}

/// Pauses. The failure of a rank only ends the pause early. The caller looks for failures afterwards.
pub(crate) fn interruptible(paused: Result<()>) -> Result<()> {
    match paused {
        Err(Error::Atomics(AtomicsError::PeerFailed { .. })) => Ok(()),
        other => other,
    }
}

/// Returns the result of an operation on a word of a rank that may have failed. `None`: it has failed, and its memory is lost.
pub(crate) fn unless_lost<T>(result: rmalab_atomics::Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(AtomicsError::PeerFailed { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns an error if the lock's words at `home` are lost, for a rank that does not read them while it waits.
pub(crate) fn check_home<A: RemoteAtomics + ?Sized>(ra: &A, home: Rank, failed: &Failed) -> Result<()> {
    if failed.contains(home) && !ra.capabilities().lasting_memory {
        return Err(AtomicsError::PeerFailed { rank: ra.world_rank(home) }.into());
    }
    Ok(())
}

/// Returns the error of a plain acquire after a rank that has failed inside.
pub(crate) fn refused<A: RemoteAtomics + ?Sized>(ra: &A, entry: Entry) -> Result<()> {
    match entry {
        Entry::Clean => Ok(()),
        Entry::OwnerDead(failed) => {
            let rank = failed.iter().next().unwrap_or(ra.rank());
            Err(AtomicsError::PeerFailed { rank }.into())
        }
    }
}

/// One rank's handle of a mutex that goes on after the failure of ranks. Acquiring returns a guard.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics};
/// use rmalab_locks::recoverable::{Acquired, RobustMutex};
/// use rmalab_locks::{Recoverable, Result};
///
/// fn update<L: Recoverable, A: RemoteAtomics>(ra: &A) -> Result<()> {
///     let mut mutex = RobustMutex::<A, L>::create(ra, Rank(0), L::Params::default())?;
///     let guard = match mutex.acquire()? {
///         Acquired::Clean(guard) => guard,
///         Acquired::OwnerDead(inconsistent) => {
///             // Repair the data here.
///             inconsistent.consistent()
///         }
///     };
///     // No other rank is here now.
///     guard.release()
/// }
/// ```
#[derive(Debug)]
pub struct RobustMutex<'a, A: RemoteAtomics + ?Sized, L: Recoverable> {
    ra: &'a A,
    raw: L,
    /// The error of a release by drop.
    failed: Option<Error>,
}

impl<'a, A: RemoteAtomics + ?Sized, L: Recoverable> RobustMutex<'a, A, L> {
    /// Makes a new lock with its shared words at `home`. All ranks call it at the same point of their sequences of
    /// allocations.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](rmalab_atomics::Error::Unsupported) on a backend that ends with its first failure; the errors of
    /// [`Place::alloc`] and [`RawMutex::bind`].
    pub fn create(ra: &'a A, home: Rank, params: L::Params) -> Result<Self> {
        ra.failed()?;
        let place = Place::alloc(ra, home, L::WORDS, L::NODE)?;
        Self::at(ra, place, params)
    }

    /// Makes this rank's only handle of the lock at `place`.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create).
    pub fn at(ra: &'a A, place: Place, params: L::Params) -> Result<Self> {
        ra.failed()?;
        Ok(RobustMutex { ra, raw: L::bind(ra, place, params)?, failed: None })
    }

    /// Acquires the lock, and returns when this rank holds it.
    ///
    /// # Errors
    ///
    /// The lock's errors, and the error of an earlier release by drop.
    pub fn acquire(&mut self) -> Result<Acquired<'_, 'a, A, L>> {
        check(&mut self.failed)?;
        let entry = self.raw.recoverable_acquire(self.ra)?;
        let is_consistent = entry == Entry::Clean;
        let guard = RobustGuard { lock: self, is_consistent };
        Ok(match entry {
            Entry::Clean => Acquired::Clean(guard),
            Entry::OwnerDead(failed) => Acquired::OwnerDead(Inconsistent { guard, failed }),
        })
    }
}

/// A [`RobustMutex`] that this rank holds.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped, which is at once if it is not bound to a name"]
pub enum Acquired<'l, 'a, A: RemoteAtomics + ?Sized, L: Recoverable> {
    /// No rank has failed inside since the last rank that got `OwnerDead`.
    Clean(RobustGuard<'l, 'a, A, L>),
    /// A rank may have failed inside, so the data may be half written.
    OwnerDead(Inconsistent<'l, 'a, A, L>),
}

/// Holds a [`RobustMutex`] after a rank has failed inside. Dropping it makes the lock [not recoverable](crate::Error::NotRecoverable).
#[derive(Debug)]
#[must_use = "dropping it makes the lock unusable for all ranks"]
pub struct Inconsistent<'l, 'a, A: RemoteAtomics + ?Sized, L: Recoverable> {
    guard: RobustGuard<'l, 'a, A, L>,
    failed: Failed,
}

impl<'l, 'a, A: RemoteAtomics + ?Sized, L: Recoverable> Inconsistent<'l, 'a, A, L> {
    /// The ranks that have failed. One of them may have been inside.
    pub fn failed(&self) -> &Failed {
        &self.failed
    }

    /// Declares the data consistent, after this rank has repaired them.
    pub fn consistent(mut self) -> RobustGuard<'l, 'a, A, L> {
        self.guard.is_consistent = true;
        self.guard
    }
}

/// Holds a [`RobustMutex`] and releases it when dropped.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped, which is at once if it is not bound to a name"]
pub struct RobustGuard<'l, 'a, A: RemoteAtomics + ?Sized, L: Recoverable> {
    lock: &'l mut RobustMutex<'a, A, L>,
    is_consistent: bool,
}

impl<A: RemoteAtomics + ?Sized, L: Recoverable> RobustGuard<'_, '_, A, L> {
    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The lock's errors. After one, the state of the lock is unknown.
    pub fn release(self) -> Result<()> {
        let guard = &mut *ManuallyDrop::new(self);
        guard.lock.raw.release(guard.lock.ra)
    }
}

impl<A: RemoteAtomics + ?Sized, L: Recoverable> Drop for RobustGuard<'_, '_, A, L> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let RobustMutex { ra, raw, failed } = &mut *self.lock;
        let released = if self.is_consistent { raw.release(*ra) } else { raw.release_unrecovered(*ra) };
        if let Err(error) = released {
            *failed = Some(error);
        }
    }
}

#[cfg(test)]
mod tests;
