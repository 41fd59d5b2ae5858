//! The words of a lock that belong to this rank, which its processor reaches.
//!
//! A robust lock announces its steps in its rank's own words, several times in each call. A reader of `big-reader` uses no other words.
//! Each put by the handle checks the address again. Here each call checks its words once. No other rank waits on these words.

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

    /// Returns the handle of this rank.
    #[inline(always)]
    pub(crate) fn handle(&self) -> &'a A {
        self.ra
    }

    /// Puts `value` in word number `index`.
    #[inline(always)]
    pub(crate) fn put(&self, index: usize, value: u64) -> Result<()> {
        if self.words.is_some() {
            self.ra.stored();
        }
        self.post(index, value)
    }

    /// Puts `value` in word number `index`. A later flush need not complete it, and is not made to wait for it.
    #[inline(always)]
    pub(crate) fn post(&self, index: usize, value: u64) -> Result<()> {
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
            None => get_by_handle(self.ra, self.at.word(index as u64)),
        }
    }

    /// Stores `value` in word number `index`, and returns the old value.
    #[inline(always)]
    pub(crate) fn fetch_store(&self, index: usize, value: u64) -> Result<u64> {
        match self.words {
            Some(words) => Ok(words[index].swap(value, Ordering::SeqCst)),
            None => fetch_store_by_handle(self.ra, self.at.word(index as u64), value),
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

// The calls of the handle take values, since a reference to the words would keep them in memory. They are cold, since only the path of
// the processor is short enough for its jumps to count.

#[cold]
#[inline(never)]
fn put_by_handle<A: RemoteAtomics + ?Sized>(ra: &A, at: Disp, value: u64) -> Result<()> {
    Ok(ra.put(ra.rank().at(at).unwatched(), value)?)
}

#[cold]
#[inline(never)]
fn get_by_handle<A: RemoteAtomics + ?Sized>(ra: &A, at: Disp) -> Result<u64> {
    Ok(ra.get(ra.rank().at(at))?)
}

#[cold]
#[inline(never)]
fn fetch_store_by_handle<A: RemoteAtomics + ?Sized>(ra: &A, at: Disp, value: u64) -> Result<u64> {
    Ok(ra.fetch_store(ra.rank().at(at).unwatched(), value)?)
}
