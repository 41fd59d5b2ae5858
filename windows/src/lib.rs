//! Windows: memory of every rank, reached one-sidedly inside lock epochs.
//!
//! What is here: windows allocated and freed by all ranks together ([`Window::allocate`]); the passive-target epochs of one target
//! ([`Window::lock`]) and of all targets ([`Window::lock_all`]), over any lock policy of `rmalab-locks`; inside them put
//! and get of bytes and words, fetch-and-add, compare-and-swap and flush.
//!
//! An epoch is a value, and communication is its methods: an operation outside an epoch does not compile. An epoch ends
//! by [`Epoch::unlock`] or by being dropped; both complete its communication first, then release its lock.
//!
//! ```
//! use rmalab_atomics::{Rank, RemoteAtomics, World};
//! use rmalab_locks::TwoLevel;
//! use rmalab_windows::{Window, WindowDisp};
//!
//! let totals = World::threads(3).run(|ra| {
//!     let window = Window::<_, TwoLevel>::allocate(ra, 8, Default::default())?;
//!     let epoch = window.lock_all()?;
//!     let before = epoch.fetch_add(Rank(0), WindowDisp(0), 5)?;
//!     epoch.unlock_all()?;
//!     Ok::<u64, rmalab_windows::Error>(before)
//! })?;
//! let mut totals = totals.into_iter().collect::<Result<Vec<u64>, _>>()?;
//! totals.sort();
//! assert_eq!(totals, [0, 5, 10]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A window has no communication of its own:
//!
//! ```compile_fail,E0624
//! # use rmalab_atomics::Mapped;
//! # use rmalab_locks::TwoLevel;
//! # use rmalab_windows::{Window, WindowDisp};
//! fn outside_an_epoch(window: &Window<'_, Mapped, TwoLevel>) {
//!     window.put(WindowDisp(0), &[1]).unwrap();
//! }
//! ```
//!
//! Nor has an epoch that is over:
//!
//! ```compile_fail,E0382
//! # use rmalab_atomics::{Mapped, Rank};
//! # use rmalab_locks::{LockKind, TwoLevel};
//! # use rmalab_windows::{Window, WindowDisp};
//! fn after_the_epoch(window: &Window<'_, Mapped, TwoLevel>) {
//!     let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
//!     epoch.unlock().unwrap();
//!     epoch.put(WindowDisp(0), &[1]).unwrap();
//! }
//! ```
#![forbid(unsafe_code)]

mod epoch;
mod error;
pub mod messages;

use std::cell::RefCell;

pub use epoch::{Epoch, EpochAll};
pub use error::{Error, Operation, Result};
use rmalab_atomics::{Address, Collectives, Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::{Assert, LINE, LockKind, WindowLock, WindowLocks};

/// A displacement in bytes from the start of a rank's part of a window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WindowDisp(pub u64);

impl WindowDisp {
    /// The displacement of word number `index` of an array of 64-bit words that starts here.
    pub const fn word(self, index: u64) -> WindowDisp {
        WindowDisp(self.0.wrapping_add(index.wrapping_mul(WORD)))
    }
}

impl std::fmt::Display for WindowDisp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// One rank's handle of a window: `bytes` of memory at every rank, and the lock policy `W` over them.
///
/// Several epochs may be open at once, to different targets, as MPI allows; a lock_all stands alone.
///
/// [`free`](Self::free) gives the memory back; a window that is dropped leaves it allocated as long as the world lives.
#[derive(Debug)]
pub struct Window<'a, A: RemoteAtomics + ?Sized, W> {
    ra: &'a A,
    base: Disp,
    bytes: u64,
    locks: RefCell<WindowLocks<W>>,
    /// The error of an epoch that ended by being dropped.
    failed: RefCell<Option<Error>>,
}

impl<'a, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'a, A, W> {
    /// Allocates a window of `bytes` bytes, zeroed, at every rank (`MPI_Win_allocate` with a disp unit of 1).
    ///
    /// All ranks call it at the same point of their sequences of allocations, with the same arguments; nothing is
    /// communicated, so a rank may use the window before another one has called this. Of 0 bytes it is legal.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), and those of the policy's [`WindowLock::new`].
    pub fn allocate(ra: &'a A, bytes: u64, params: W::Params) -> Result<Self> {
        let base = ra.heap().alloc(bytes, LINE)?;
        let locks = RefCell::new(WindowLocks::new(ra, params)?);
        Ok(Window { ra, base, bytes, locks, failed: RefCell::new(None) })
    }

    /// Gives the window's memory back (`MPI_Win_free`); collective, a barrier before and after.
    ///
    /// The policy's own words, a few cache lines a rank, stay allocated.
    ///
    /// # Errors
    ///
    /// The error of an earlier epoch that was dropped (see [`Epoch`]), and those of [`Collectives::free`].
    pub fn free(self, collectives: &Collectives<'_, A>) -> Result<()> {
        collectives.free(self.base)?;
        // Not before: a rank that stays away would leave the others waiting.
        self.check()
    }

    /// Bytes of each rank's part of the window.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Locks `target` and opens an epoch to it (`MPI_Win_lock`).
    ///
    /// # Errors
    ///
    /// Those of [`WindowLocks::lock`], and the error of an earlier epoch that was dropped (see [`Epoch`]).
    #[inline]
    pub fn lock(&self, kind: LockKind, target: Rank) -> Result<Epoch<'_, 'a, A, W>> {
        self.lock_assert(kind, target, Assert::None)
    }

    /// As [`lock`](Self::lock), with an assertion (`MPI_MODE_NOCHECK`).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[inline]
    pub fn lock_assert(&self, kind: LockKind, target: Rank, assert: Assert) -> Result<Epoch<'_, 'a, A, W>> {
        self.check()?;
        self.locks.borrow_mut().lock(self.ra, kind, target, assert)?;
        Ok(Epoch::new(self, target))
    }

    /// Locks every target in shared mode and opens an epoch to all of them (`MPI_Win_lock_all`).
    ///
    /// # Errors
    ///
    /// Those of [`WindowLocks::lock_all`], and the error of an earlier epoch that was dropped (see [`Epoch`]).
    #[inline]
    pub fn lock_all(&self) -> Result<EpochAll<'_, 'a, A, W>> {
        self.lock_all_assert(Assert::None)
    }

    /// As [`lock_all`](Self::lock_all), with an assertion (`MPI_MODE_NOCHECK`).
    ///
    /// # Errors
    ///
    /// As [`lock_all`](Self::lock_all).
    #[inline]
    pub fn lock_all_assert(&self, assert: Assert) -> Result<EpochAll<'_, 'a, A, W>> {
        self.check()?;
        self.locks.borrow_mut().lock_all(self.ra, assert)?;
        Ok(EpochAll::new(self))
    }

    /// Returns the error that a dropped epoch left behind, once.
    #[inline]
    fn check(&self) -> Result<()> {
        // A look first: taking would write the whole error's room.
        if self.failed.borrow().is_none() { Ok(()) } else { self.failed.take().map_or(Ok(()), Err) }
    }

    /// The address of `len` bytes at `disp` of the target's part of the window.
    #[inline]
    fn range(&self, operation: Operation, target: Rank, disp: WindowDisp, len: u64) -> Result<Address> {
        if disp.0.checked_add(len).is_none_or(|end| end > self.bytes) {
            return Err(Error::OutOfWindow { operation, target, disp, len, bytes: self.bytes });
        }
        Ok(target.at(self.base.plus(disp.0)))
    }

    /// The address of the word at `disp` of the target's part of the window.
    #[inline]
    fn word(&self, operation: Operation, target: Rank, disp: WindowDisp) -> Result<Address> {
        if !disp.0.is_multiple_of(WORD) {
            return Err(Error::Misaligned { operation, target, disp });
        }
        self.range(operation, target, disp, WORD)
    }
}
