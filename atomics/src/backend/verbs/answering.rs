//! The answering ends of queue pairs that other ranks have requested.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::device::{Completions, Device, Region};
use super::memory::Memory;
use super::message::{self, Opened};
use super::queue_pair::{LocalPort, QueuePair};
use super::shared;
use crate::Rank;
use crate::join::bootstrap::{Answer, Serve};

/// The answering ends of the queue pairs that other ranks have requested.
pub(super) struct Answering {
    // The pairs are dropped before their queue.
    pub(super) pairs: FxHashMap<Rank, Vec<QueuePair>>,
    pub(super) queue: Completions,
    pub(super) device: Arc<Device>,
    pub(super) local_port: LocalPort,
    pub(super) memory: Opened,
    pub(super) shared: Arc<Memory>,
    pub(super) _region: Arc<Region>,
}

impl Serve for Answering {
    /// Makes the other end of the pair in a request, ready to receive.
    fn answer(&mut self, from: Rank, request: &[u8]) -> Answer {
        if *request == message::SHARE {
            return shared::description(self.shared.file()).map(|shared| message::shared(&shared));
        }
        let peer = message::read_request(request).ok_or("this version does not know this request")?;
        let pair = QueuePair::new(&self.device, self.local_port, &self.queue, 1).map_err(|error| error.to_string())?;
        pair.connect(&peer).map_err(|error| error.to_string())?;
        let answer = message::answer(&pair.endpoint(), &self.memory);
        self.pairs.entry(from).or_default().push(pair);
        Ok(answer)
    }

    /// Destroys the pairs of a failed rank. Nothing that it has posted takes effect here afterwards.
    fn retire(&mut self, failed: Rank) {
        self.pairs.remove(&failed);
    }
}
