//! Bulk operations, in parts of one slot each.

use std::sync::atomic::{Ordering, fence};

use super::Verbs;
use super::bounce::Slot;
use super::connection::{BulkPart, Target};
use super::device::Region;
use super::memory::FRONT;
use super::queue_pair::{INLINE, Work};
use super::request::request;
use super::waiting::{Awaited, SpinWait};
use crate::backend::mapped::copy;
use crate::model::fabric::{Bytes, DONE, Span};
use crate::{Error, Rank, Request, Result};

/// The number of slots for the parts of bulk operations.
pub(super) const SLOTS: usize = 64;
/// Bytes of a slot: the longest single request.
pub(super) const SLOT_BYTES: usize = 32 << 10;

impl Verbs {
    /// Starts a transfer between a buffer of this rank and the bytes of `at`; a clear is complete when this returns.
    ///
    /// # Safety
    ///
    /// The conditions of [`transfer`](crate::model::fabric::Fabric::transfer).
    pub(super) unsafe fn start_transfer(&self, at: Span, bytes: Bytes) -> Result<Request> {
        if at.is_empty() {
            return Ok(DONE);
        }
        if bytes == Bytes::Clear {
            // Earlier puts of this rank to that place must come first.
            self.flush_there(at.rank().0)?;
        }
        let (rank, target, len) = (at.rank(), Target::Mapping(FRONT as u64 + at.disp().0), at.len());
        let Some(shared) = self.reach(at)? else {
            return match bytes {
                // SAFETY: the caller's promise.
                Bytes::Put(source) => unsafe { self.write(rank, target, source, len) },
                // SAFETY: the caller's promise.
                Bytes::Get(dest) => unsafe { self.read(rank, target, dest, len) },
                Bytes::Clear => unreachable!("a rank clears bytes of its own segment"),
            };
        };
        match bytes {
            // SAFETY: the caller vouches for `source` and the span, to which all access acts as atomic.
            Bytes::Put(source) => unsafe { copy::to_shared(source, shared, len) },
            Bytes::Get(dest) => {
                // SAFETY: the caller vouches for `dest` and the span, to which all access acts as atomic.
                unsafe { copy::from_shared(shared, dest, len) };
                // Pairs with the release of the operation from which this rank knows that the bytes are there.
                fence(Ordering::Acquire);
            }
            Bytes::Clear => {
                // SAFETY: the caller vouches for the span, to which all access acts as atomic.
                unsafe { copy::zero_shared(shared, len) };
                fence(Ordering::SeqCst);
            }
        }
        Ok(DONE)
    }

    /// Starts to write at `target` of another rank.
    ///
    /// # Safety
    ///
    /// The conditions of [`put_bytes_nb`](crate::RemoteAtomics::put_bytes_nb); the target exists.
    pub(super) unsafe fn write(&self, rank: Rank, target: Target, source: *const u8, len: usize) -> Result<Request> {
        if len == 0 {
            return Ok(DONE);
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(source, len) };
        if len <= INLINE {
            let burst = self.burst.get();
            self.with_room(rank, |connection| Ok(connection.put(target, bytes, Some(burst))?))?;
            return Ok(DONE);
        }
        for (number, part) in (0..).zip(bytes.chunks(SLOT_BYTES)) {
            // If this part fails, the earlier parts are copies.
            self.may_fail(number)?;
            let slot = self.slot(rank)?;
            slot.copy_in(part);
            let target = target.plus(number * SLOT_BYTES as u64);
            self.with_room(rank, |connection| {
                // SAFETY: no bytes arrive.
                Ok(unsafe { connection.bulk(target, Work::Write, part.len(), BulkPart { slot, arrives: None })? })
            })?;
        }
        Ok(DONE)
    }

    /// Starts to read at `target` of another rank.
    ///
    /// # Safety
    ///
    /// The conditions of [`get_bytes_nb`](crate::RemoteAtomics::get_bytes_nb); the target exists.
    pub(super) unsafe fn read(&self, rank: Rank, target: Target, dest: *mut u8, len: usize) -> Result<Request> {
        if len == 0 {
            return Ok(DONE);
        }
        let mut posted = None;
        for (number, start) in (0..).zip((0..len).step_by(SLOT_BYTES)) {
            let part = (len - start).min(SLOT_BYTES);
            // SAFETY: a part of the ranges that the caller vouches for.
            let request = self
                .may_fail(number)
                .and_then(|()| unsafe { self.read_part(rank, target.plus(start as u64), dest.add(start), part) });
            match request {
                Ok(request) => posted = Some((posted.map_or(request, |(first, _)| first), request)),
                Err(error) => {
                    // Without a connection nothing is under way.
                    if let Some((first, _)) = posted
                        && let Some(connection) = self.peers.borrow_mut().get_mut(&rank.0)
                    {
                        connection.give_up(first);
                    }
                    return Err(error);
                }
            }
        }
        Ok(posted.map_or(DONE, |(_, last)| request(rank, last)))
    }

    /// Starts to read a part that fits into a slot; returns the request's number.
    ///
    /// # Safety
    ///
    /// The conditions of [`read`](Self::read), until the request is complete or given up.
    unsafe fn read_part(&self, rank: Rank, target: Target, dest: *mut u8, len: usize) -> Result<u64> {
        let slot = self.slot(rank)?;
        self.with_room(rank, |connection| {
            // SAFETY: `dest` is valid by the caller's promise.
            Ok(unsafe { connection.bulk(target, Work::Read, len, BulkPart { slot, arrives: Some((dest, len)) })? })
        })
    }

    /// Returns an error if a test wants part `number` of a bulk operation to fail.
    fn may_fail(&self, number: u64) -> Result<()> {
        match self.failing_part {
            Some(part) if part == number => {
                Err(Error::world(format!("verbs: part {part} fails because a test asked for it")))
            }
            _ => Ok(()),
        }
    }

    /// Returns a free slot, for an operation on `target`. While all are in use, waits for operations that are under way.
    fn slot(&self, target: Rank) -> Result<Slot<Region>> {
        let mut spin_wait = SpinWait::default();
        loop {
            if let Some(slot) = self.bounce.acquire() {
                return Ok(slot);
            }
            let busy: Vec<u32> =
                self.peers.borrow().iter().filter(|(_, peer)| peer.holds()).map(|(&rank, _)| rank).collect();
            for rank in busy.into_iter().map(Rank) {
                let polled = self.with(rank, |connection| {
                    connection.poll()?;
                    Ok(self.check_rank(rank)?)
                });
                match polled {
                    // Its slots are free now. A flush returns the error.
                    Err(Error::PeerFailed { .. }) if rank != target => {}
                    other => other?,
                }
            }
            spin_wait.turn(self, Awaited::Rank(target))?;
        }
    }
}
