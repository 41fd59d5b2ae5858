//! One rank's steps in an experiment (locks, transfers, computation), and the driver that does them under any lock
//! policy on any backend.
//!
//! Steps come from a recorded program ([`Trace`](crate::trace::Trace)) or from a description of one. They name targets and
//! numbers of bytes, not places and data: what a lock policy is chosen by.
//!
//! # What a step becomes
//!
//! | step | network operations |
//! | --- | --- |
//! | [`LockAll`](Step::LockAll), [`Lock`](Step::Lock) | those of the policy |
//! | [`UnlockAll`](Step::UnlockAll), [`Unlock`](Step::Unlock) | a flush (of the target, of all), then those of the policy |
//! | [`Put`](Step::Put), [`Get`](Step::Get) | one bulk transfer for each part of the area's length |
//! | [`Update`](Step::Update) | one fetch-and-add for each word |
//! | [`Flush`](Step::Flush), [`FlushAll`](Step::FlushAll) | a flush |
//! | [`Barrier`](Step::Barrier) | a flush of all, then a barrier |
//! | [`Compute`](Step::Compute) | none |
//!
//! Transfers go to an [`Area`] that is at the same displacement of every rank. Each starts behind the one before and wraps
//! around at the area's end; where a rank begins follows from its number, so that ranks are not at one place together.
//! One that is longer than the area, or than [`PART`] bytes, is made as several, so that as many bytes are moved.
//!
//! # Cost
//!
//! Per rank two clock readings for a lock or unlock, an entry for each lock held, and a buffer of the longest part that
//! is got, if it is longer than 256 bytes.

use std::time::Duration;

use rmalab_atomics::{Collectives, Disp, Error as AtomicsError, Rank, RemoteAtomics, Time, WORD};
use rmalab_locks::{Assert, LockKind, WindowLock, WindowLocks};

use crate::Result;

/// The most bytes that one transfer moves; longer ones are made as several.
pub const PART: u64 = 64 * 1024;

/// What is put.
static SOURCE: [u8; PART as usize] = [0; PART as usize];

/// Bytes that are got without a buffer of the heap.
const SHORT: usize = 256;

/// What one rank does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Computes for so many nanoseconds.
    Compute(u64),
    /// Locks all targets in shared mode.
    LockAll,
    /// Unlocks all targets.
    UnlockAll,
    /// Locks a target.
    Lock {
        /// How.
        kind: LockKind,
        /// Which.
        target: Rank,
    },
    /// Unlocks a target.
    Unlock {
        /// Which.
        target: Rank,
    },
    /// Writes to a target.
    Put {
        /// Which.
        target: Rank,
        /// How many bytes.
        bytes: u64,
    },
    /// Reads from a target.
    Get {
        /// Which.
        target: Rank,
        /// How many bytes.
        bytes: u64,
    },
    /// Updates elements of a target atomically: accumulates, fetch_and_op, compare_and_swap.
    Update {
        /// Which.
        target: Rank,
        /// How many bytes; each word counts as an element, a part of one as one.
        bytes: u64,
    },
    /// Completes what was issued to a target.
    Flush {
        /// Which.
        target: Rank,
    },
    /// Completes what was issued to all targets.
    FlushAll,
    /// Completes everything and waits for all ranks: a fence, or a barrier.
    Barrier,
}

/// Memory that the transfers of a replay go to: at the same displacement of every rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    disp: Disp,
    bytes: u64,
}

impl Area {
    /// Allocates an area of `bytes` bytes, rounded up to whole words; at least one.
    ///
    /// All ranks call it at the same point of their sequences of allocations; nothing is communicated.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory) on all ranks alike.
    pub fn new<A: RemoteAtomics + ?Sized>(ra: &A, bytes: u64) -> Result<Area> {
        let bytes = bytes.max(1).checked_next_multiple_of(WORD).unwrap_or(bytes);
        Ok(Area { disp: ra.heap().alloc(bytes, WORD)?, bytes })
    }

    /// Where it is.
    pub fn disp(self) -> Disp {
        self.disp
    }

    /// How many bytes it has.
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

/// What is locked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Locked {
    /// All targets, shared.
    All,
    /// One target.
    Target(LockKind, Rank),
}

/// A part of what happens to a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// From the call of lock to its return.
    Acquire,
    /// From the return of lock to the call of unlock.
    Hold,
    /// From the call of unlock to its return, the flush included.
    Release,
}

/// What the observer of a replay is told: when a part of what happens to a lock began and ended, on the rank's clock.
///
/// Of an acquisition it is told at once, of hold just before the release begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Observed {
    /// Which part.
    pub part: Part,
    /// Of which lock.
    pub locked: Locked,
    /// Its beginning.
    pub start: Time,
    /// Its end.
    pub end: Time,
}

/// One rank's part of a replay: where its steps are done.
#[derive(Debug)]
pub struct Replay<'r, A: RemoteAtomics + ?Sized, W> {
    /// The rank.
    pub ra: &'r A,
    /// Its locks.
    pub locks: &'r mut WindowLocks<W>,
    /// Where its transfers go.
    pub area: Area,
    /// By what barriers are made; without it a [`Step::Barrier`] is an error. They need their chunk for nothing:
    /// [`Collectives::with_chunk`] makes them small.
    pub collectives: Option<&'r Collectives<'r, A>>,
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Replay<'_, A, W> {
    /// Does `steps` one after the other, and tells `observer` of each lock.
    ///
    /// What is locked when they end is unlocked: a trace may end early. Collective, if there are barriers among the steps.
    ///
    /// # Errors
    ///
    /// That of a step that cannot be had; those of the locks, as for an unlock of what is not locked; those of the network;
    /// [`Unsupported`](AtomicsError::Unsupported) for a barrier without collectives.
    pub fn run(
        &mut self,
        steps: impl IntoIterator<Item = Result<Step>>,
        mut observer: impl FnMut(Observed),
    ) -> Result<()> {
        let words = self.area.bytes / WORD;
        let first = u64::from(self.ra.rank().0).wrapping_mul(0x9e37_79b9_7f4a_7c15) % words;
        let mut state = State { held: Vec::new(), at: first * WORD, buffer: Vec::new() };
        for step in steps {
            self.step(step?, &mut state, &mut observer)?;
        }
        while let Some(&(locked, _)) = state.held.last() {
            self.release(locked, &mut state, &mut observer)?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step, state: &mut State, observer: &mut impl FnMut(Observed)) -> Result<()> {
        let ra = self.ra;
        match step {
            Step::Compute(ns) => ra.compute(Duration::from_nanos(ns))?,
            Step::LockAll => self.acquire(Locked::All, state, observer)?,
            Step::UnlockAll => self.release(Locked::All, state, observer)?,
            Step::Lock { kind, target } => self.acquire(Locked::Target(kind, target), state, observer)?,
            Step::Unlock { target } => {
                let held = |&(locked, _): &(Locked, Time)| matches!(locked, Locked::Target(_, of) if of == target);
                match state.held.iter().find(|held_one| held(held_one)) {
                    Some(&(locked, _)) => self.release(locked, state, observer)?,
                    // The locks say what is wrong.
                    None => self.locks.unlock(ra, target)?,
                }
            }
            Step::Put { target, bytes } => {
                self.parts(state, bytes, |at, len, _| Ok(ra.post_bytes(target.at(at), &SOURCE[..len])?))?;
            }
            Step::Get { target, bytes } => self.parts(state, bytes, |at, len, buffer| {
                if len <= SHORT {
                    return Ok(ra.get_bytes(target.at(at), &mut [0; SHORT][..len])?);
                }
                if buffer.len() < len {
                    buffer.resize(len, 0);
                }
                Ok(ra.get_bytes(target.at(at), &mut buffer[..len])?)
            })?,
            Step::Update { target, bytes } => {
                for _ in 0..bytes.div_ceil(WORD) {
                    ra.fetch_add(target.at(self.area.disp.plus(state.at)), 1)?;
                    state.at = (state.at + WORD) % self.area.bytes;
                }
            }
            Step::Flush { target } => ra.flush(target)?,
            Step::FlushAll => ra.flush_all()?,
            Step::Barrier => {
                ra.flush_all()?;
                let collectives = self.collectives.ok_or(AtomicsError::Unsupported {
                    what: "a barrier in a replay",
                    why: "the replay was given no collectives; set the field",
                })?;
                collectives.barrier()?;
            }
        }
        Ok(())
    }

    /// Calls `transfer` with the places and lengths that a transfer of `bytes` bytes is made of.
    fn parts(
        &self,
        state: &mut State,
        mut bytes: u64,
        mut transfer: impl FnMut(Disp, usize, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let area = self.area;
        while bytes > 0 {
            let len = bytes.min(area.bytes).min(PART);
            if area.bytes - state.at < len {
                state.at = 0;
            }
            transfer(area.disp.plus(state.at), len as usize, &mut state.buffer)?;
            state.at = (state.at + len.next_multiple_of(WORD)) % area.bytes;
            bytes -= len;
        }
        Ok(())
    }

    fn acquire(&mut self, locked: Locked, state: &mut State, observer: &mut impl FnMut(Observed)) -> Result<()> {
        let start = self.ra.now();
        match locked {
            Locked::All => self.locks.lock_all(self.ra, Assert::None)?,
            Locked::Target(kind, target) => self.locks.lock(self.ra, kind, target, Assert::None)?,
        }
        let end = self.ra.now();
        state.held.push((locked, end));
        observer(Observed { part: Part::Acquire, locked, start, end });
        Ok(())
    }

    fn release(&mut self, locked: Locked, state: &mut State, observer: &mut impl FnMut(Observed)) -> Result<()> {
        let start = self.ra.now();
        if let Some(at) = state.held.iter().rposition(|&(held, _)| held == locked) {
            let (_, since) = state.held.swap_remove(at);
            observer(Observed { part: Part::Hold, locked, start: since, end: start });
        }
        match locked {
            Locked::All => {
                self.ra.flush_all()?;
                self.locks.unlock_all(self.ra)?;
            }
            Locked::Target(_, target) => {
                self.ra.flush(target)?;
                self.locks.unlock(self.ra, target)?;
            }
        }
        observer(Observed { part: Part::Release, locked, start, end: self.ra.now() });
        Ok(())
    }
}

/// What a rank remembers from step to step.
struct State {
    /// What is locked, and since when.
    held: Vec<(Locked, Time)>,
    /// Where in the area the next transfer starts.
    at: u64,
    buffer: Vec<u8>,
}
