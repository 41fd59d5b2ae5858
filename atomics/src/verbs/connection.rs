//! One rank's connection to one peer: requests in the order in which they were posted, and what they hold until they are
//! complete.
//!
//! Requests are numbered from 1. A queue pair completes them in order, so that one completion tells of all requests up to
//! its own, and not every request asks for one:
//!
//! * what this rank waits for does, and what holds memory;
//! * the first put of a burst does, so that a put and a flush are one request; further puts of it do not, and the flush
//!   posts a write of no bytes whose completion tells of them all. A burst ends with a flush of the target, with an
//!   operation on it that returns a value, and with a wait.
//! * Of [`DEPTH`] / 2 requests in a row one does, so that a full queue always has a completion to come.

use std::collections::VecDeque;
use std::sync::Arc;

use super::bounce::Slot;
use super::device::{Completions, Device, Region};
use super::message::{Endpoint, Opened};
use super::queue_pair::{Buffer, Place, QueuePair, Remote, Work};
use crate::{Error, Result};

/// Requests that may be under way on a connection; with more, the rank waits.
pub(super) const DEPTH: u64 = 256;

/// What a request holds until it is complete.
pub(super) struct Hold {
    /// What it reads or writes.
    pub(super) slot: Slot<Region>,
    /// Where the bytes go that arrive in the slot, and how many they are.
    pub(super) arrives: Option<(*mut u8, usize)>,
}

/// Where at a peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// So many bytes behind the start of its mapping.
    Mapping(u64),
    /// In memory that it has exposed.
    Exposed(Remote),
}

impl Target {
    /// So many bytes further on.
    pub(super) fn plus(self, bytes: u64) -> Target {
        match self {
            Target::Mapping(offset) => Target::Mapping(offset + bytes),
            Target::Exposed(Remote { address, key }) => Target::Exposed(Remote { address: address + bytes, key }),
        }
    }
}

/// Why a connection is of no more use.
#[derive(Debug)]
pub(super) enum Broken {
    /// A request ended with this status.
    Status(u32),
    /// A call failed, or somebody has died.
    Error(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Broken {
        Broken::Error(error)
    }
}

/// How many requests a rank has posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Posted {
    pub(super) requests: u64,
    pub(super) signalled: u64,
}

/// A connection that this rank has asked for. When it is dropped, the device touches nothing of its requests any more.
pub(super) struct Connection {
    // In the order in which they have to go: the pair, then its completions, then what its requests held.
    pair: QueuePair,
    queue: Completions,
    holds: VecDeque<(u64, Hold)>,
    memory: Opened,
    /// The number of the last request that was posted, of the last that asked for a completion, and of the last that is
    /// known to be complete.
    posted: u64,
    signalled: u64,
    done: u64,
    /// The burst of puts that is under way; none if the last request was something else.
    burst: Option<u64>,
    count: Posted,
}

impl Connection {
    /// A queue pair that waits for its peer, with room for so many completions.
    pub(super) fn new(device: &Arc<Device>, place: Place, completions: u32) -> Result<Connection> {
        let queue = Completions::new(device, completions)?;
        let pair = QueuePair::new(device, place, &queue, DEPTH as u32)?;
        Ok(Connection {
            pair,
            queue,
            holds: VecDeque::new(),
            memory: Opened { address: 0, key: 0 },
            posted: 0,
            signalled: 0,
            done: 0,
            burst: None,
            count: Posted::default(),
        })
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        self.pair.endpoint()
    }

    /// Connects to the peer, whose end is ready, and whose memory is `memory`.
    pub(super) fn connect(&mut self, peer: &Endpoint, memory: Opened) -> Result<()> {
        self.memory = memory;
        self.pair.connect(peer)
    }

    pub(super) fn count(&self) -> Posted {
        self.count
    }

    fn remote(&self, target: Target) -> Remote {
        match target {
            Target::Mapping(offset) => {
                Remote { address: self.memory.address.wrapping_add(offset), key: self.memory.key }
            }
            Target::Exposed(remote) => remote,
        }
    }

    /// Whether there is no room for another request.
    pub(super) fn is_full(&self) -> bool {
        self.posted - self.done >= DEPTH
    }

    pub(super) fn last(&self) -> u64 {
        self.posted
    }

    /// The whole number of a request of which the low bits are known, if it is under way.
    pub(super) fn pending(&self, low: u64) -> Option<u64> {
        // At most `DEPTH` requests are under way, so the bits of their numbers differ.
        let behind = low.wrapping_sub(self.done) & super::NUMBERS;
        (behind != 0 && behind <= self.posted - self.done).then(|| self.done + behind)
    }

    pub(super) fn is_done(&self, number: u64) -> bool {
        number <= self.done
    }

    /// Takes note of the next request: its number, and whether it asks for a completion.
    #[inline]
    fn next(&mut self, wanted: bool) -> (u64, bool) {
        debug_assert!(!self.is_full(), "the caller has made room");
        let number = self.posted + 1;
        let signalled = wanted || number - self.signalled >= DEPTH / 2;
        (number, signalled)
    }

    #[inline]
    fn posted(&mut self, number: u64, signalled: bool) {
        self.posted = number;
        self.count.requests += 1;
        if signalled {
            self.signalled = number;
            self.count.signalled += 1;
        }
    }

    /// Posts a put of a few bytes as part of burst number `burst`.
    #[inline]
    pub(super) fn put(&mut self, target: Target, bytes: &[u8], burst: u64) -> Result<()> {
        let (number, signalled) = self.next(self.burst != Some(burst));
        self.pair.post_inline(bytes, self.remote(target), number, signalled)?;
        self.posted(number, signalled);
        self.burst = Some(burst);
        Ok(())
    }

    /// Posts what this rank waits for, and returns its number.
    ///
    /// # Safety
    ///
    /// The buffer outlives the request or this connection, and nobody else uses it until then.
    #[inline]
    pub(super) unsafe fn fetch(&mut self, target: Target, work: Work) -> Result<u64> {
        let (number, signalled) = self.next(true);
        // SAFETY: the caller's promise.
        unsafe { self.pair.post(work, self.remote(target), number, signalled)? };
        self.posted(number, signalled);
        self.burst = None;
        Ok(number)
    }

    /// Posts a bulk operation, and returns its number.
    ///
    /// # Safety
    ///
    /// The buffer of `work` lies in the slot of `hold`. The memory where its bytes go is valid until the request is
    /// complete or [given up](Self::give_up), or this connection is dropped.
    pub(super) unsafe fn bulk(&mut self, target: Target, work: Work, hold: Hold) -> Result<u64> {
        // SAFETY: the caller's promise; the hold is kept below.
        let number = unsafe { self.fetch(target, work)? };
        self.holds.push_back((number, hold));
        Ok(number)
    }

    /// Lets the bytes of request `first` and of all later ones go nowhere. Their slots stay taken until they are complete.
    pub(super) fn give_up(&mut self, first: u64) {
        for (_, hold) in self.holds.iter_mut().filter(|(number, _)| *number >= first) {
            hold.arrives = None;
        }
    }

    /// The number of a request whose completion tells that all so far are complete; none if nothing is under way.
    pub(super) fn flush(&mut self) -> Result<Option<u64>> {
        self.burst = None;
        if self.posted == self.done {
            return Ok(None);
        }
        if self.signalled != self.posted {
            let (number, signalled) = self.next(true);
            self.pair.post_inline(&[], self.remote(Target::Mapping(0)), number, signalled)?;
            self.posted(number, signalled);
        }
        Ok(Some(self.posted))
    }

    /// Whether [`flush`](Self::flush) would post a request.
    pub(super) fn flush_posts(&self) -> bool {
        self.posted != self.done && self.signalled != self.posted
    }

    /// Whether requests under way hold memory.
    pub(super) fn holds(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Takes note of what has completed; says whether anything has.
    #[inline]
    pub(super) fn poll(&mut self) -> Result<bool, Broken> {
        let (done, mut status) = (&mut self.done, None);
        let count = self.queue.poll(|completion| {
            if completion.failure.is_some() {
                // Those behind the first are told that they were flushed.
                status = status.or(completion.failure);
            } else {
                *done = completion.number;
            }
        })?;
        if let Some(status) = status {
            return Err(Broken::Status(status));
        }
        while let Some((number, _)) = self.holds.front()
            && *number <= self.done
        {
            if let Some((_, Hold { slot, arrives: Some((dest, len)) })) = self.holds.pop_front() {
                // SAFETY: the request that wrote the slot is complete. The program keeps its buffer valid until it
                // learns of that, which is later than now (`bulk`).
                unsafe { slot.copy_out(dest, len) };
            }
        }
        Ok(count > 0)
    }
}

/// The `len` bytes of a slot from `start` on.
pub(super) fn buffer(start: *const u8, len: usize, key: u32) -> Buffer {
    Buffer { address: start as u64, len: u32::try_from(len).expect("requests are shorter than 4 GiB"), key }
}
