//! A rank's registry in the mapping; registered.rs has the protocol.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Rank;
use crate::model::registered::{RegisteredKey, UserMemory};

/// The number of pieces of memory that a rank can have registered at a time. They take 1 MiB of address space, of which
/// only the used part is ever touched.
pub(super) const CAPACITY: usize = 16 << 10;

/// The number of pins that a rank can note.
pub(super) const HELD: usize = 4096;

/// The registrations of one rank, and the pins that it holds.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Registry {
    pub(super) entries: [Entry; CAPACITY],
    /// The entries of other ranks that this rank pins, with one place for each pin: [`held`], or 0.
    pub(super) held: [AtomicU64; HELD],
}

/// Returns the word for a pin of entry `index` of `owner`.
pub(super) fn held(owner: Rank, index: usize) -> u64 {
    (u64::from(owner.0) + 1) << 32 | index as u64
}

/// One place for registered memory, a cache line; at rest all zero.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: AtomicU64,
    pub(super) start: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) pid: AtomicU64,
    pub(super) namespace: AtomicU64,
    pub(super) cookie_at: AtomicU64,
    pub(super) cookie: AtomicU64,
}

pub(super) const PINS: u64 = (1 << 30) - 1;
const TAKEN: u64 = 1 << 30;
pub(super) const OPEN: u64 = 1 << 31;
/// The first bit of the generation, in a state and in a key.
pub(super) const GENERATION: u32 = 32;

impl Entry {
    /// Takes the entry if it is free. The compare-and-swap guards against other handles of the same rank.
    pub(super) fn take(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let free = state & (PINS | TAKEN | OPEN) == 0 && state >> GENERATION < u64::from(u32::MAX);
        // Acquires the previous user's writes. Fails if another handle was faster.
        free && self.state.compare_exchange(state, state | TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Opens the entry, which the caller has taken, with a new generation, and returns the generation for a key.
    pub(super) fn open(&self, memory: &UserMemory, owner: Process) -> u64 {
        self.start.store(memory.start().as_ptr().expose_provenance() as u64, Ordering::Relaxed);
        self.bytes.store(memory.len() as u64, Ordering::Relaxed);
        self.pid.store(owner.pid, Ordering::Relaxed);
        self.namespace.store(owner.namespace, Ordering::Relaxed);
        self.cookie_at.store(owner.cookie_at, Ordering::Relaxed);
        self.cookie.store(owner.cookie, Ordering::Relaxed);
        let generation = ((self.state.load(Ordering::Relaxed) >> GENERATION) + 1) << GENERATION;
        // No other rank changes a taken entry that is not open (I1).
        self.state.store(generation | TAKEN | OPEN, Ordering::Release);
        generation
    }

    /// Counts one more pin of the key's generation. Returns whether that generation is open, or `None` if there are too
    /// many pins.
    pub(super) fn pin(&self, key: RegisteredKey) -> Option<bool> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state >> GENERATION != key.0 >> GENERATION || state & OPEN == 0 {
                return Some(false);
            }
            if state & PINS == PINS {
                return None;
            }
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(true),
                Err(now) => state = now,
            }
        }
    }

    /// Grants no pin from here on.
    pub(super) fn close(&self) {
        self.state.fetch_and(!OPEN, Ordering::Relaxed);
    }

    /// Returns the number of pins. If there are none, this acquires all their writes.
    pub(super) fn pins(&self) -> u64 {
        self.state.load(Ordering::Acquire) & PINS
    }

    /// Frees a closed entry without pins.
    pub(super) fn free(&self) {
        self.state.fetch_and(!TAKEN, Ordering::Release);
    }

    pub(super) fn owner(&self) -> Process {
        Process {
            pid: self.pid.load(Ordering::Relaxed),
            namespace: self.namespace.load(Ordering::Relaxed),
            cookie_at: self.cookie_at.load(Ordering::Relaxed),
            cookie: self.cookie.load(Ordering::Relaxed),
        }
    }
}

/// The identity of a process, by which others can compare processes.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Process {
    pub(super) pid: u64,
    /// The namespace of its process number; 0 if the system does not report it.
    pub(super) namespace: u64,
    /// The address of its cookie.
    pub(super) cookie_at: u64,
    pub(super) cookie: u64,
}
