//! The words of a lock that belong to this rank, which its processor reaches.
//!
//! A robust lock announces its steps in its rank's own words, several times in each call. A reader of `big-reader` uses no other words.
//! Each put by the handle checks the address again, and records itself for the next flush. Here each call checks its words once, and
//! records its stores once. No other rank waits on these words.

use std::sync::atomic::{AtomicU64, Ordering};

use rmalab_atomics::{Disp, RemoteAtomics};

use crate::Result;

/// The first `N` words at a displacement of this rank, for the steps of one call.
///
/// Puts and gets of these words are loads and stores where the handle allows that ([`RemoteAtomics::own_words`]). Otherwise they are
/// calls of the handle, so an engine can order them, and a counting handle counts them.
pub(crate) struct Own<'a, A: RemoteAtomics + ?Sized, const N: usize> {
    ra: &'a A,
    at: Disp,
    words: Option<&'a [AtomicU64; N]>,
}

impl<'a, A: RemoteAtomics + ?Sized, const N: usize> Own<'a, A, N> {
    #[inline(always)]
    pub(crate) fn new(ra: &'a A, at: Disp) -> Own<'a, A, N> {
        let words = ra.own_words(at, N as u64).and_then(|words| words.try_into().ok());
        Own { ra, at, words }
    }

    /// Puts `value` in word number `index`.
    #[inline(always)]
    pub(crate) fn put(&self, index: usize, value: u64) -> Result<()> {
        match self.words {
            Some(words) => {
                words[index].store(value, Ordering::Release);
                Ok(())
            }
            None => put_by_handle(self.ra, self.at.word(index as u64), value),
        }
    }

    /// Gets word number `index`.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Result<u64> {
        match self.words {
            Some(words) => Ok(words[index].load(Ordering::SeqCst)),
            None => Ok(self.ra.get(self.ra.rank().at(self.at.word(index as u64)))?),
        }
    }

    /// Stores `value` in word number `index`, and returns the old value.
    #[inline(always)]
    pub(crate) fn fetch_store(&self, index: usize, value: u64) -> Result<u64> {
        match self.words {
            Some(words) => Ok(words[index].swap(value, Ordering::SeqCst)),
            None => Ok(self.ra.fetch_store(self.ra.rank().at(self.at.word(index as u64)).unwatched(), value)?),
        }
    }

    /// Returns whether a put that changes word number `index` from `old` may still be under way.
    #[inline(always)]
    pub(crate) fn is_late(&self, index: usize, old: u64) -> Result<bool> {
        Ok(self.words.is_none() && self.get(index)? == old)
    }

    /// Orders the puts ahead of later puts and atomics: [`RemoteAtomics::order`].
    #[inline(always)]
    pub(crate) fn order(&self) -> Result<()> {
        Ok(self.ra.order(self.ra.rank())?)
    }
}

// This takes values, since a reference to the words would keep them in memory.
#[inline(never)]
fn put_by_handle<A: RemoteAtomics + ?Sized>(ra: &A, at: Disp, value: u64) -> Result<()> {
    Ok(ra.put(ra.rank().at(at).unwatched(), value)?)
}

impl<A: RemoteAtomics + ?Sized, const N: usize> Drop for Own<'_, A, N> {
    /// Records the stores, so that a flush completes them.
    #[inline(always)]
    fn drop(&mut self) {
        if self.words.is_some() {
            self.ra.stored();
        }
    }
}
