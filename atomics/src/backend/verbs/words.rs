//! Operations on words: with the adapter, or with the owner's processor where the two are atomic with each other.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Verbs;
use super::connection::Target;
use super::memory::FRONT;
use super::queue_pair::Work;
use super::request::request;
use crate::model::fabric::{Word, WordOp};
use crate::{Atomicity, Rank, Request, Result};

/// Executes an operation with the processor.
#[inline]
pub(super) fn apply(word: &AtomicU64, op: WordOp) -> u64 {
    match op {
        WordOp::FetchAdd(value) => word.fetch_add(value, Ordering::SeqCst),
        WordOp::CompareAndSwap { expected, desired } => {
            let seen = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
            seen.unwrap_or_else(|old| old)
        }
        WordOp::FetchStore(value) => word.swap(value, Ordering::SeqCst),
        WordOp::Get => word.load(Ordering::SeqCst),
        WordOp::Put(value) => {
            word.store(value, Ordering::SeqCst);
            0
        }
    }
}

impl Verbs {
    /// Returns the word at `at`, if it belongs to this rank and the processor may change it.
    ///
    /// # Panics
    ///
    /// If the word belongs to another world.
    #[inline(always)]
    pub(super) fn by_processor(&self, at: Word) -> Option<&AtomicU64> {
        assert!(self.view.has_word(at), "{} is a word of another world", at.address());
        if self.processor_may_change(at.rank()) { self.memory.word(at.disp().0) } else { None }
    }

    /// Returns whether this rank's processor may change words of `rank` with its atomics.
    #[inline(always)]
    pub(super) fn processor_may_change(&self, rank: Rank) -> bool {
        rank == self.view.rank() && self.view.capabilities().atomicity == Atomicity::Global
    }

    /// Executes an operation with the adapter of the word's owner.
    #[inline]
    pub(super) fn word_by_adapter(&self, at: Word, op: WordOp) -> Result<u64> {
        let (rank, offset) = (at.rank(), FRONT as u64 + at.disp().0);
        match op {
            WordOp::FetchAdd(value) => {
                let old = self.fetch(rank, offset, Work::FetchAdd(value))?;
                self.guesses.note(at, old.wrapping_add(value));
                Ok(old)
            }
            WordOp::CompareAndSwap { expected, desired } => {
                let old = self.fetch(rank, offset, Work::CompareAndSwap(expected, desired))?;
                self.guesses.note(at, if old == expected { desired } else { old });
                Ok(old)
            }
            WordOp::FetchStore(value) => self.swap(at, value),
            WordOp::Get => {
                let value = self.fetch(rank, offset, Work::Read)?;
                self.guesses.note(at, value);
                Ok(value)
            }
            WordOp::Put(value) => {
                self.guesses.note(at, value);
                let burst = self.burst.get();
                self.with_room(rank, |connection| {
                    Ok(connection.put(Target::Mapping(offset), &value.to_ne_bytes(), Some(burst))?)
                })?;
                Ok(0)
            }
        }
    }

    /// Swaps a word with a loop of compare-and-swaps. The first guess is the value that this rank last saw in the word,
    /// or 0.
    #[inline]
    fn swap(&self, at: Word, value: u64) -> Result<u64> {
        let mut guess = self.guesses.of(at);
        loop {
            let work = Work::CompareAndSwap(guess, value);
            let old = self.fetch(at.rank(), FRONT as u64 + at.disp().0, work)?;
            if old == guess {
                self.guesses.note(at, value);
                return Ok(old);
            }
            self.second_guesses.set(self.second_guesses.get() + 1);
            guess = old;
        }
    }

    /// Executes an operation on a word, `offset` bytes after the start of its rank's mapping, and returns the old word.
    #[inline]
    pub(super) fn fetch(&self, rank: Rank, offset: u64, work: Work) -> Result<u64> {
        self.with_room(rank, |connection| {
            let mut old = 0;
            // SAFETY: if the wait fails, the connection is dropped, and no longer polled.
            let number = unsafe { connection.start(Target::Mapping(offset), work, &raw mut old)? };
            self.await_request(connection, number)?;
            Ok(old)
        })
    }

    /// Starts an operation of the adapter of the word's owner.
    ///
    /// # Safety
    ///
    /// The conditions of [`start_word`](crate::model::fabric::Fabric::start_word).
    #[inline]
    pub(super) unsafe fn start_by_adapter(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        let target = Target::Mapping(FRONT as u64 + at.disp().0);
        let number = self.with_room(at.rank(), |connection| {
            let work = match op {
                WordOp::FetchAdd(value) => Work::FetchAdd(value),
                WordOp::CompareAndSwap { expected, desired } => Work::CompareAndSwap(expected, desired),
                WordOp::Get => Work::Read,
                WordOp::FetchStore(value) => {
                    let guess = self.guesses.of(at);
                    self.guesses.note(at, value);
                    // SAFETY: the caller's promise.
                    return Ok(unsafe { connection.start_swap(target, guess, value, result)? });
                }
                WordOp::Put(value) => {
                    let number = connection.put(target, &value.to_ne_bytes(), None)?;
                    // SAFETY: the caller's promise.
                    unsafe { result.write(0) };
                    return Ok(number);
                }
            };
            // SAFETY: the caller's promise.
            Ok(unsafe { connection.start(target, work, result)? })
        })?;
        Ok(request(at.rank(), number))
    }
}
