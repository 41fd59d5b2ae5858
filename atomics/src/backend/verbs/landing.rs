//! Registered words that the results of a connection's word operations arrive in: one for each request under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::device::{Device, Region};
use super::queue_pair::Buffer;
use crate::{Result, WORD};

/// Requests that may be under way on a connection; with more, the rank waits.
pub(super) const DEPTH: u64 = 256;

/// The words of one connection. A request's number chooses its word: of [`DEPTH`] numbers in a row each has another one.
pub(super) struct Landing {
    /// Before the words, since fields are dropped in their order: the words outlive their registration.
    region: Region,
    /// Atomics, since the adapter writes them, too.
    words: Box<[AtomicU64]>,
}

impl Landing {
    pub(super) fn new(device: &Arc<Device>) -> Result<Landing> {
        let words: Box<[AtomicU64]> = (0..DEPTH).map(|_| AtomicU64::new(0)).collect();
        let region = Region::local(device, words.as_ptr().cast(), size_of_val(&*words))?;
        Ok(Landing { region, words })
    }

    #[inline]
    fn word(&self, number: u64) -> &AtomicU64 {
        &self.words[(number % DEPTH) as usize]
    }

    /// Where the adapter writes the result of request `number`.
    #[inline]
    pub(super) fn buffer(&self, number: u64) -> Buffer {
        let word = self.word(number);
        Buffer { address: word.as_ptr() as u64, len: WORD as u32, key: self.region.local_key() }
    }

    /// The result of request `number`, which is complete, and the last one that was posted with its word.
    #[inline]
    pub(super) fn result(&self, number: u64) -> u64 {
        // The adapter has written it before the completion that was seen, so it is not read before that.
        self.word(number).load(Ordering::Acquire)
    }
}
