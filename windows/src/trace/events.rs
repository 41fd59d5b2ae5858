//! The events of a file, read one after the other.

use std::sync::Arc;

use rmalab_atomics::Rank;

use super::TraceError;
use super::blocks::{Blocks, Next};
use super::format::{Event, Last};

/// The events of one rank.
#[derive(Debug)]
pub(super) struct Events {
    blocks: Blocks,
    ranks: u32,
    body: Vec<u8>,
    /// The offset of the next event in the body.
    at: usize,
    left: u32,
    before: Last,
}

impl Events {
    pub(super) fn new(blocks: Blocks, ranks: u32) -> Events {
        Events { blocks, ranks, body: Vec::new(), at: 0, left: 0, before: Last::default() }
    }

    /// Returns the next event, and the nanoseconds before it.
    pub(super) fn next(&mut self) -> Result<Option<(Event, u64)>, TraceError> {
        while self.left == 0 {
            match self.blocks.next(&mut self.body)? {
                Next::Block(head) => (self.at, self.left, self.before) = (0, head.events, Last::default()),
                Next::Over { .. } => return Ok(None),
            }
        }
        let mut rest = self.body.get(self.at..).unwrap_or_default();
        let event = self.before.decode(&mut rest, self.ranks).map_err(|what| self.blocks.damaged(what))?;
        self.at = self.body.len() - rest.len();
        self.left -= 1;
        Ok(Some(event))
    }

    /// Returns the group of the last event that had one.
    pub(super) fn group(&self) -> Arc<[Rank]> {
        self.before.group()
    }
}
