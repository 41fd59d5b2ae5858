//! Operations on words that the adapter carries out.

use std::sync::atomic::{Ordering, fence};

use super::Verbs;
use super::connection::Target;
use super::queue_pair::Work;
use crate::{Rank, Result};

impl Verbs {
    /// An operation on a word that returns what the word was.
    #[inline]
    pub(super) fn fetch(&self, rank: Rank, offset: u64, work: Work) -> Result<u64> {
        self.with_room(rank, |connection| {
            // SAFETY: the scratch word is part of this rank's memory, which outlives all connections (the order of the
            // fields); one operation at a time uses it, this one, and if its wait fails, the connection goes.
            let number = unsafe { connection.fetch(Target::Mapping(offset), work)? };
            self.finish(connection, number)
        })?;
        // The adapter has written it before the completion that was seen.
        fence(Ordering::Acquire);
        Ok(self.memory.front(0).load(Ordering::Relaxed))
    }
}
