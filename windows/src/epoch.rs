//! Access epochs, and the communication in them.

use std::mem::ManuallyDrop;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::WindowLock;

use crate::{Operation, Result, Window, WindowDisp};

/// A passive-target access epoch to one target, from [`Window::lock`].
///
/// It ends by [`unlock`](Self::unlock), or when it is dropped. A drop cannot return an error: it keeps it, and the next
/// epoch of the window that is asked for is refused with it. It never panics. An epoch that is forgotten
/// (`std::mem::forget`) leaves its target locked, and nothing unsound: all its operations had their buffers back.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which is at once if it is not bound to a name"]
pub struct Epoch<'w, 'a, A: RemoteAtomics + ?Sized, W: WindowLock> {
    window: &'w Window<'a, A, W>,
    target: Rank,
}

impl<'w, 'a, A: RemoteAtomics + ?Sized, W: WindowLock> Epoch<'w, 'a, A, W> {
    pub(crate) fn new(window: &'w Window<'a, A, W>, target: Rank) -> Self {
        Epoch { window, target }
    }

    /// The rank that this epoch is open to.
    pub fn target(&self) -> Rank {
        self.target
    }

    /// Writes `source` at `disp`; complete, here and at the target, when it returns.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`](crate::Error::OutOfWindow), and those of the network.
    #[inline]
    pub fn put(&self, disp: WindowDisp, source: &[u8]) -> Result<()> {
        self.window.put(self.target, disp, source)
    }

    /// Reads `dest.len()` bytes at `disp`.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    #[inline]
    pub fn get(&self, disp: WindowDisp, dest: &mut [u8]) -> Result<()> {
        self.window.get(self.target, disp, dest)
    }

    /// Writes the word at `disp`; posted, and complete at the target at the next flush or at the end of the epoch.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`](crate::Error::OutOfWindow), [`Error::Misaligned`](crate::Error::Misaligned), and those of
    /// the network.
    #[inline]
    pub fn put_word(&self, disp: WindowDisp, value: u64) -> Result<()> {
        self.window.put_word(self.target, disp, value)
    }

    /// Reads the word at `disp`.
    ///
    /// # Errors
    ///
    /// As [`put_word`](Self::put_word).
    #[inline]
    pub fn get_word(&self, disp: WindowDisp) -> Result<u64> {
        self.window.get_word(self.target, disp)
    }

    /// Adds `value`, modulo 2^64, to the word at `disp` and returns the old word (`MPI_Fetch_and_op` with `MPI_SUM`).
    ///
    /// Atomic against the other word operations on it, by whichever rank.
    ///
    /// # Errors
    ///
    /// As [`put_word`](Self::put_word).
    #[inline]
    pub fn fetch_add(&self, disp: WindowDisp, value: u64) -> Result<u64> {
        self.window.fetch_add(self.target, disp, value)
    }

    /// Stores `desired` in the word at `disp` if it is `expected`; returns the old word (`MPI_Compare_and_swap`).
    ///
    /// Atomic against the other word operations on it, by whichever rank.
    ///
    /// # Errors
    ///
    /// As [`put_word`](Self::put_word).
    #[inline]
    pub fn compare_and_swap(&self, disp: WindowDisp, expected: u64, desired: u64) -> Result<u64> {
        self.window.compare_and_swap(self.target, disp, expected, desired)
    }

    /// Completes everything that this rank has issued to the target (`MPI_Win_flush`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    #[inline]
    pub fn flush(&self) -> Result<()> {
        Ok(self.window.ra.flush(self.target)?)
    }

    /// Flushes, then unlocks the target (`MPI_Win_unlock`).
    ///
    /// # Errors
    ///
    /// Those of the network and of the policy. The lock is released even if the flush fails.
    #[inline]
    pub fn unlock(self) -> Result<()> {
        ManuallyDrop::new(self).end()
    }

    #[inline]
    fn end(&mut self) -> Result<()> {
        let flushed = self.flush();
        // Even after a flush that failed, since others may wait for the lock; the error tells that data may be missing.
        self.window.locks.borrow_mut().unlock(self.window.ra, self.target)?;
        flushed
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for Epoch<'_, '_, A, W> {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            self.window.failed.replace(Some(error));
        }
    }
}

/// A passive-target access epoch to every target, from [`Window::lock_all`].
///
/// It ends by [`unlock_all`](Self::unlock_all), or when it is dropped; see [`Epoch`] for errors then.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which is at once if it is not bound to a name"]
pub struct EpochAll<'w, 'a, A: RemoteAtomics + ?Sized, W: WindowLock> {
    window: &'w Window<'a, A, W>,
}

impl<'w, 'a, A: RemoteAtomics + ?Sized, W: WindowLock> EpochAll<'w, 'a, A, W> {
    pub(crate) fn new(window: &'w Window<'a, A, W>) -> Self {
        EpochAll { window }
    }

    /// As [`Epoch::put`], to `target`.
    ///
    /// # Errors
    ///
    /// As there, and [`RankOutOfRange`](rmalab_atomics::Error::RankOutOfRange).
    #[inline]
    pub fn put(&self, target: Rank, disp: WindowDisp, source: &[u8]) -> Result<()> {
        self.window.put(target, disp, source)
    }

    /// As [`Epoch::get`], from `target`.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    #[inline]
    pub fn get(&self, target: Rank, disp: WindowDisp, dest: &mut [u8]) -> Result<()> {
        self.window.get(target, disp, dest)
    }

    /// As [`Epoch::put_word`], to `target`.
    ///
    /// # Errors
    ///
    /// As there, and [`RankOutOfRange`](rmalab_atomics::Error::RankOutOfRange).
    #[inline]
    pub fn put_word(&self, target: Rank, disp: WindowDisp, value: u64) -> Result<()> {
        self.window.put_word(target, disp, value)
    }

    /// As [`Epoch::get_word`], from `target`.
    ///
    /// # Errors
    ///
    /// As [`put_word`](Self::put_word).
    #[inline]
    pub fn get_word(&self, target: Rank, disp: WindowDisp) -> Result<u64> {
        self.window.get_word(target, disp)
    }

    /// As [`Epoch::fetch_add`], at `target`.
    ///
    /// # Errors
    ///
    /// As [`put_word`](Self::put_word).
    #[inline]
    pub fn fetch_add(&self, target: Rank, disp: WindowDisp, value: u64) -> Result<u64> {
        self.window.fetch_add(target, disp, value)
    }

    /// As [`Epoch::compare_and_swap`], at `target`.
    ///
    /// # Errors
    ///
    /// As [`put_word`](Self::put_word).
    #[inline]
    pub fn compare_and_swap(&self, target: Rank, disp: WindowDisp, expected: u64, desired: u64) -> Result<u64> {
        self.window.compare_and_swap(target, disp, expected, desired)
    }

    /// Completes everything that this rank has issued to `target` (`MPI_Win_flush`).
    ///
    /// # Errors
    ///
    /// Those of the network, and [`RankOutOfRange`](rmalab_atomics::Error::RankOutOfRange).
    #[inline]
    pub fn flush(&self, target: Rank) -> Result<()> {
        Ok(self.window.ra.flush(target)?)
    }

    /// Completes everything that this rank has issued (`MPI_Win_flush_all`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        Ok(self.window.ra.flush_all()?)
    }

    /// Flushes all targets, then unlocks them (`MPI_Win_unlock_all`).
    ///
    /// # Errors
    ///
    /// Those of the network and of the policy. The lock is released even if the flush fails.
    #[inline]
    pub fn unlock_all(self) -> Result<()> {
        ManuallyDrop::new(self).end()
    }

    #[inline]
    fn end(&mut self) -> Result<()> {
        let flushed = self.flush_all();
        // As in `Epoch::end`.
        self.window.locks.borrow_mut().unlock_all(self.window.ra)?;
        flushed
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for EpochAll<'_, '_, A, W> {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            self.window.failed.replace(Some(error));
        }
    }
}

/// The communication of both kinds of epochs; private, so that it takes an epoch.
impl<A: RemoteAtomics + ?Sized, W: WindowLock> Window<'_, A, W> {
    #[inline]
    fn put(&self, target: Rank, disp: WindowDisp, source: &[u8]) -> Result<()> {
        let at = self.range(Operation::Put, target, disp, source.len() as u64)?;
        Ok(self.ra.put_bytes(at, source)?)
    }

    #[inline]
    fn get(&self, target: Rank, disp: WindowDisp, dest: &mut [u8]) -> Result<()> {
        let at = self.range(Operation::Get, target, disp, dest.len() as u64)?;
        Ok(self.ra.get_bytes(at, dest)?)
    }

    #[inline]
    fn put_word(&self, target: Rank, disp: WindowDisp, value: u64) -> Result<()> {
        Ok(self.ra.put(self.word(Operation::PutWord, target, disp)?, value)?)
    }

    #[inline]
    fn get_word(&self, target: Rank, disp: WindowDisp) -> Result<u64> {
        Ok(self.ra.get(self.word(Operation::GetWord, target, disp)?)?)
    }

    #[inline]
    fn fetch_add(&self, target: Rank, disp: WindowDisp, value: u64) -> Result<u64> {
        Ok(self.ra.fetch_add(self.word(Operation::FetchAdd, target, disp)?, value)?)
    }

    #[inline]
    fn compare_and_swap(&self, target: Rank, disp: WindowDisp, expected: u64, desired: u64) -> Result<u64> {
        let at = self.word(Operation::CompareAndSwap, target, disp)?;
        Ok(self.ra.compare_and_swap(at, expected, desired)?)
    }
}
