//! Registered words for the results of a connection's word operations: one for each request under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::device::{Device, Region};
use super::queue_pair::Buffer;
use crate::{Result, WORD};

/// Requests that may be under way on a connection; with more, the rank waits.
pub(super) const DEPTH: u64 = 256;

/// The words of one connection. A request's number chooses its word: [`DEPTH`] successive numbers have different words.
pub(super) struct Landing {
    /// Declared before the words, since fields are dropped in their order: the words outlive their registration.
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

    /// Returns the buffer for the result of request `number`.
    #[inline]
    pub(super) fn buffer(&self, number: u64) -> Buffer {
        let word = self.word(number);
        Buffer { address: word.as_ptr() as u64, len: WORD as u32, key: self.region.local_key() }
    }

    /// Returns the result of request `number`, which is complete and the last request that was posted with its word.
    #[inline]
    pub(super) fn result(&self, number: u64) -> u64 {
        // The adapter has written the result before its completion, so the load must come after the completion.
        self.word(number).load(Ordering::Acquire)
    }
}
