//! One rank's connection to one peer: requests in the order of posting, and the memory that they hold until they are
//! complete.
//!
//! Requests are numbered from 1. A queue pair completes them in order. One completion covers all requests up to its own,
//! so not every request asks for one:
//!
//! * A request that this rank waits for asks for one, and so does a request that holds memory.
//! * The first put of a burst asks for one, so that a put and a flush are one request. Further puts do not, and the
//!   flush posts a write of no bytes whose completion covers them all. A burst ends with a flush of the target, with an
//!   operation on it that returns a value, and with a wait.
//! * One of every [`DEPTH`] / 2 requests in a row asks for one, so that a full queue always has a completion to come.

use std::collections::VecDeque;
use std::sync::Arc;

use super::bounce::Slot;
use super::device::{Completions, Device, Region};
use super::landing::{DEPTH, Landing};
use super::message::{Endpoint, Opened};
use super::queue_pair::{LocalPort, QueuePair, Remote, Work};
use super::request::NUMBERS;
use crate::{Error, Rank, Result};

/// The memory that a request holds until it is complete.
enum Hold {
    /// A part of a bulk operation.
    Part(BulkPart),
    /// The destination of the result of a started word operation.
    Word(*mut u64),
    /// A started swap.
    Swap(Swap),
}

/// A part of a bulk operation.
pub(super) struct BulkPart {
    /// The slot that it reads or writes.
    pub(super) slot: Slot<Region>,
    /// The destination and number of the bytes that arrive in the slot.
    pub(super) arrives: Option<(*mut u8, usize)>,
}

/// A swap: a compare-and-swap that is posted again until its guess of the old word is right.
#[derive(Clone, Copy)]
struct Swap {
    target: Target,
    guess: u64,
    value: u64,
    result: *mut u64,
    /// The number of its first request, which the program has.
    first: u64,
}

/// An address in a peer's memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// At this distance from the start of its mapping, in bytes.
    Mapping(u64),
    /// In memory that the peer has registered.
    Registered(Remote),
}

impl Target {
    /// Returns the address `bytes` bytes further on.
    pub(super) fn plus(self, bytes: u64) -> Target {
        match self {
            Target::Mapping(offset) => Target::Mapping(offset + bytes),
            Target::Registered(Remote { address, key }) => Target::Registered(Remote { address: address + bytes, key }),
        }
    }
}

/// The reason why a connection is no longer usable.
#[derive(Debug)]
pub(super) enum Broken {
    /// A request ended with this status.
    Status(u32),
    /// A call failed, or a rank has died.
    Error(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Broken {
        Broken::Error(error)
    }
}

/// The number of requests that a rank has posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Posted {
    pub(super) requests: u64,
    pub(super) signalled: u64,
}

/// A connection that this rank has requested. After it is dropped, the device no longer accesses memory of its
/// requests.
pub(super) struct Connection {
    // In the order in which they must be dropped: the pair, then its completions, then the memory that its requests
    // held.
    pair: QueuePair,
    queue: Completions,
    landing: Landing,
    peer: Rank,
    holds: VecDeque<(u64, Hold)>,
    memory: Opened,
    /// The number of the last request that was posted.
    posted: u64,
    /// The number of the last request that asked for a completion.
    signalled: u64,
    /// The number of the last request that is known to be complete.
    done: u64,
    /// The current burst of puts; none if the last request was something else.
    burst: Option<u64>,
    /// Swaps under way whose first guess was wrong.
    again: usize,
    count: Posted,
}

impl Connection {
    /// Makes a queue pair that waits for its peer, with room for `completions` completions.
    pub(super) fn new(device: &Arc<Device>, local_port: LocalPort, peer: Rank, completions: u32) -> Result<Connection> {
        let queue = Completions::new(device, completions)?;
        let pair = QueuePair::new(device, local_port, &queue, DEPTH as u32)?;
        Ok(Connection {
            pair,
            queue,
            landing: Landing::new(device)?,
            peer,
            holds: VecDeque::new(),
            memory: Opened { address: 0, key: 0 },
            posted: 0,
            signalled: 0,
            done: 0,
            burst: None,
            again: 0,
            count: Posted::default(),
        })
    }

    pub(super) fn peer(&self) -> Rank {
        self.peer
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
            Target::Registered(remote) => remote,
        }
    }

    /// Returns whether there is no room for another request.
    pub(super) fn is_full(&self) -> bool {
        self.posted - self.done >= DEPTH
    }

    pub(super) fn last(&self) -> u64 {
        self.posted
    }

    /// Returns the number of the request under way for an operation, from the low bits of the number of its first
    /// request.
    pub(super) fn pending(&self, low: u64) -> Option<u64> {
        // At most `DEPTH` requests are under way, so the bits of their numbers differ.
        let behind = low.wrapping_sub(self.done) & NUMBERS;
        if behind != 0 && behind <= self.posted - self.done {
            return Some(self.done + behind);
        }
        if self.again == 0 {
            return None;
        }
        let of_this = |hold: &Hold| matches!(hold, Hold::Swap(swap) if swap.first & NUMBERS == low);
        self.holds.iter().find(|(_, hold)| of_this(hold)).map(|&(number, _)| number)
    }

    /// Returns whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.posted == self.done
    }

    pub(super) fn is_done(&self, number: u64) -> bool {
        number <= self.done
    }

    /// Counts the next request; returns its number, and whether it asks for a completion.
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

    /// Posts a put of a few bytes as part of burst number `burst`; returns its number. Outside of a burst it asks for a
    /// completion.
    #[inline]
    pub(super) fn put(&mut self, target: Target, bytes: &[u8], burst: Option<u64>) -> Result<u64> {
        let (number, signalled) = self.next(burst.is_none() || self.burst != burst);
        self.pair.post_inline(bytes, self.remote(target), number, signalled)?;
        self.posted(number, signalled);
        self.burst = burst;
        Ok(number)
    }

    /// Posts an operation on a word, whose result lands in its own registered word; returns its number.
    #[inline]
    fn fetch(&mut self, target: Target, work: Work) -> Result<u64> {
        let (number, signalled) = self.next(true);
        // SAFETY: the word in which the result lands is registered as long as this connection exists. No other request
        // under way uses that word, and no earlier request has left a result there: each of them is a hold, and results
        // are taken in order.
        unsafe { self.pair.post(work, self.landing.buffer(number), self.remote(target), number, signalled)? };
        self.posted(number, signalled);
        self.burst = None;
        Ok(number)
    }

    /// Posts an operation on a word, and returns its number. Its result goes to `result` when a poll finds it complete.
    ///
    /// # Safety
    ///
    /// `result` is valid for writes until the request is complete, or this connection is no longer polled.
    #[inline]
    pub(super) unsafe fn start(&mut self, target: Target, work: Work, result: *mut u64) -> Result<u64> {
        let number = self.fetch(target, work)?;
        self.holds.push_back((number, Hold::Word(result)));
        Ok(number)
    }

    /// Starts to store `value` in a word that is likely to be `guess`; returns the number of the first request.
    ///
    /// # Safety
    ///
    /// `result` is valid for writes until the swap is no longer [pending](Self::pending), or this connection is no
    /// longer polled.
    #[inline]
    pub(super) unsafe fn start_swap(
        &mut self,
        target: Target,
        guess: u64,
        value: u64,
        result: *mut u64,
    ) -> Result<u64> {
        let first = self.fetch(target, Work::CompareAndSwap(guess, value))?;
        self.holds.push_back((first, Hold::Swap(Swap { target, guess, value, result, first })));
        Ok(first)
    }

    /// Posts a part of a bulk operation with the first `len` bytes of its slot, and returns its number.
    ///
    /// # Safety
    ///
    /// The memory where its bytes go is valid until the request is complete or [given up](Self::give_up), or this
    /// connection is dropped.
    pub(super) unsafe fn bulk(&mut self, target: Target, work: Work, len: usize, part: BulkPart) -> Result<u64> {
        let (number, signalled) = self.next(true);
        let buffer = part.slot.buffer(len);
        // SAFETY: the slot is kept below until the request is complete, and nothing else uses it.
        unsafe { self.pair.post(work, buffer, self.remote(target), number, signalled)? };
        self.posted(number, signalled);
        self.burst = None;
        self.holds.push_back((number, Hold::Part(part)));
        Ok(number)
    }

    /// Discards the bytes of the bulk operation's parts from request `first` on. Their slots stay in use until they are
    /// complete.
    pub(super) fn give_up(&mut self, first: u64) {
        for (number, hold) in &mut self.holds {
            if let Hold::Part(part) = hold
                && *number >= first
            {
                part.arrives = None;
            }
        }
    }

    /// Returns the number of a request whose completion means that all requests so far are complete; none if nothing is
    /// under way.
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

    /// Returns whether [`flush`](Self::flush) would post a request.
    pub(super) fn flush_posts(&self) -> bool {
        self.posted != self.done && self.signalled != self.posted
    }

    /// Returns whether requests under way hold memory.
    pub(super) fn holds(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Processes completions; returns whether there were any.
    #[inline]
    pub(super) fn poll(&mut self) -> Result<bool, Broken> {
        let (done, mut status) = (&mut self.done, None);
        let count = self.queue.poll(|completion| {
            if completion.failure.is_some() {
                // Requests after the first failed one only report that they were flushed.
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
            let (number, hold) = self.holds.pop_front().expect("it was just looked at");
            self.arrive(number, hold)?;
        }
        Ok(count > 0)
    }

    /// Moves the result of a complete request to its destination.
    #[inline]
    fn arrive(&mut self, number: u64, hold: Hold) -> Result<()> {
        match hold {
            Hold::Part(BulkPart { slot, arrives: Some((dest, len)) }) => {
                // SAFETY: the request that wrote the slot is complete. The program keeps its buffer valid until it
                // learns of that, which is later than now (`bulk`).
                unsafe { slot.copy_out(dest, len) };
            }
            Hold::Part(BulkPart { arrives: None, .. }) => {}
            // SAFETY: as above (`start`).
            Hold::Word(result) => unsafe { result.write(self.landing.result(number)) },
            Hold::Swap(swap) => return self.swapped(number, swap),
        }
        Ok(())
    }

    /// Ends a swap, or posts it again if its guess was wrong.
    fn swapped(&mut self, number: u64, swap: Swap) -> Result<()> {
        let old = self.landing.result(number);
        self.again -= usize::from(number != swap.first);
        if old == swap.guess {
            // SAFETY: the program keeps `result` valid until it learns that the swap is complete, which is later than now
            // (`start_swap`).
            unsafe { swap.result.write(old) };
            return Ok(());
        }
        // There is room, since its last request is complete.
        let next = self.fetch(swap.target, Work::CompareAndSwap(old, swap.value))?;
        self.holds.push_back((next, Hold::Swap(Swap { guess: old, ..swap })));
        self.again += 1;
        Ok(())
    }
}
