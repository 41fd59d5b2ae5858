//! The program's memory, registered for other ranks. The adapter reaches it as long as it is registered.
//!
//! # State
//!
//! Ahead of each rank's segment there is a table of [`CAPACITY`] entries, which no displacement reaches. An entry is four
//! words: its state, the address of the memory, its length, and the adapter's key for it. A key has the entry's index (low
//! half) and generation (high half). The state is the same as in mapped/registered.rs:
//!
//! | bits of the state | meaning |
//! | --- | --- |
//! | 0–29 | the number of pins |
//! | 30 | taken: the owner will open the entry, or it is open, or it waits for the last pins |
//! | 31 | open: new pins are granted |
//! | 32–63 | the generation of the current or last registration; 0 before the first |
//!
//! # Invariants
//!
//! * I1. Other ranks change the state of an open entry (by a compare-and-swap that has seen the generation of their key)
//!   and of an entry with pins (by an addition). The owner changes it by compare-and-swaps. All of these are the adapter's
//!   atomics. Where those are atomic with the processor's atomics, the owner uses the processor.
//! * I2. The other words change only while the entry is not open and without pins; a pin reads them after it has
//!   counted itself.
//! * I3. Opening an entry begins a new generation, so no key names two pieces of memory. An entry whose generations are
//!   used up is never taken again.
//! * I4. Memory is returned, and its registration ended, only when the entry is closed and has no pins. The end of a
//!   pin is posted after its puts on the same queue pair, so it is executed after them. If the owner cannot wait for
//!   the pins, the memory is leaked.
//!
//! # Cost
//!
//! A pin is a read, a compare-and-swap and three more reads, and an addition at its end. Registering takes one registration with the adapter.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustc_hash::FxHashMap;

use super::Verbs;
use super::connection::Target;
use super::device::Region;
use super::memory::{CAPACITY, ENTRY};
use super::queue_pair::{Remote, Work};
use super::waiting::{Awaited, SpinWait};
use crate::backend::mapped::copy;
use crate::model::fabric::{Fabric, Registration};
use crate::model::registered::{Pinned, PinnedWords, Refused, RegisteredKey, UserMemory};
use crate::{Error, Operation, Rank, Result, WORD};

const STATE: usize = 0;
const START: usize = 1;
const BYTES: usize = 2;
const KEY: usize = 3;

const PINS: u64 = (1 << 30) - 1;
const TAKEN: u64 = 1 << 30;
const OPEN: u64 = 1 << 31;
/// The first bit of the generation, in a state and in a key.
const GENERATION: u32 = 32;

/// The memory that this rank has registered, with its registration; memory of no bytes has none.
pub(super) type Registrations = FxHashMap<u64, (UserMemory, Option<Region>)>;

/// Returns the index of a key's entry, if there is such an entry.
fn index(key: RegisteredKey) -> Option<usize> {
    Some(key.0 as u32 as usize).filter(|&index| index < CAPACITY)
}

impl Verbs {
    /// Returns the index of an entry's word in its rank's mapping.
    fn entry(index: usize, word: usize) -> usize {
        ENTRY * index + word
    }

    /// Executes an atomic on a word ahead of a segment.
    fn control(&self, rank: Rank, word: usize, work: Work) -> Result<u64> {
        if self.processor_may_change(rank) {
            let word = self.memory.front(word);
            return Ok(match work {
                Work::FetchAdd(value) => word.fetch_add(value, Ordering::SeqCst),
                Work::CompareAndSwap(expected, desired) => {
                    let seen = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
                    seen.unwrap_or_else(|old| old)
                }
                Work::Read | Work::Write => word.load(Ordering::SeqCst),
            });
        }
        self.fetch(rank, word as u64 * WORD, work)
    }

    /// Changes the state of an entry of this rank.
    fn change(&self, index: usize, change: impl Fn(u64) -> u64) -> Result<()> {
        let word = Self::entry(index, STATE);
        let mut seen = self.memory.front(word).load(Ordering::Relaxed);
        loop {
            let old = self.control(self.view.rank(), word, Work::CompareAndSwap(seen, change(seen)))?;
            if old == seen {
                return Ok(());
            }
            seen = old;
        }
    }

    fn own_entry(&self, index: usize, word: usize) -> &AtomicU64 {
        self.memory.front(Self::entry(index, word))
    }

    /// Stops granting pins of `key`, and takes its memory out of the table.
    fn close(&self, key: RegisteredKey) -> Result<(usize, (UserMemory, Option<Region>))> {
        let missing = Error::NotRegistered { rank: self.view.rank(), key };
        let (Some(index), Some(registration)) = (index(key), self.registrations.borrow_mut().remove(&key.0)) else {
            return Err(missing);
        };
        match self.change(index, |state| state & !OPEN) {
            Ok(()) => Ok((index, registration)),
            Err(error) => {
                // I4.
                std::mem::forget(registration);
                Err(error)
            }
        }
    }

    fn is_pinned(&self, index: usize) -> bool {
        self.own_entry(index, STATE).load(Ordering::Acquire) & PINS != 0
    }

    /// Closes all entries, for a rank that leaves.
    pub(super) fn close_all(&self) {
        let keys: Vec<u64> = self.registrations.borrow().keys().copied().collect();
        for key in keys {
            if let Ok((index, registration)) = self.close(RegisteredKey(key))
                && self.is_pinned(index)
            {
                // I4.
                std::mem::forget(registration);
            }
        }
    }
}

impl Registration for Verbs {
    fn register(&self, memory: UserMemory) -> Result<RegisteredKey, Refused> {
        let free = |&index: &usize| {
            let state = self.own_entry(index, STATE).load(Ordering::Relaxed);
            state & (PINS | TAKEN | OPEN) == 0 && state >> GENERATION < u64::from(u32::MAX)
        };
        let Some(index) = (0..CAPACITY).find(free) else {
            let error =
                Error::RegistrationFull { rank: self.view.rank(), what: "registered memory", limit: CAPACITY as u64 };
            return Err(Refused { error, memory });
        };
        let start = memory.start().as_ptr();
        let region = match memory.len() {
            0 => Ok(None),
            len => Region::registered(&self.device, start, len).map(Some),
        };
        let region = match region {
            Ok(region) => region,
            Err(error) => return Err(Refused { error, memory }),
        };
        // I2: no other rank knows of the entry.
        self.own_entry(index, START).store(start.expose_provenance() as u64, Ordering::Relaxed);
        self.own_entry(index, BYTES).store(memory.len() as u64, Ordering::Relaxed);
        let remote_key = region.as_ref().map_or(0, Region::remote_key);
        self.own_entry(index, KEY).store(remote_key.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let next = |state: u64| ((state >> GENERATION) + 1) << GENERATION;
        let generation = next(self.own_entry(index, STATE).load(Ordering::Relaxed));
        if let Err(error) = self.change(index, |_| generation | TAKEN | OPEN) {
            return Err(Refused { error, memory });
        }
        let key = generation | index as u64;
        self.registrations.borrow_mut().insert(key, (memory, region));
        Ok(RegisteredKey(key))
    }

    fn deregister(&self, key: RegisteredKey) -> Result<UserMemory> {
        let (index, (memory, region)) = self.close(key)?;
        let mut spin_wait = SpinWait::default();
        while self.is_pinned(index) {
            // The pin of a rank that has failed never ends, even if this rank has acknowledged the failure.
            if let Err(error) = spin_wait.turn(self, Awaited::Any).and_then(|()| self.membership().check()) {
                // I4.
                std::mem::forget((memory, region));
                return Err(error);
            }
        }
        drop(region);
        // If this fails, the entry stays taken, which is harmless. The caller owns the memory in any case.
        self.change(index, |state| state & !TAKEN)?;
        Ok(memory)
    }

    fn pin(&self, owner: Rank, key: RegisteredKey) -> Result<Box<dyn Pinned + '_>> {
        self.view.check_rank(Operation::Pin, owner)?;
        self.check_rank(owner)?;
        let refused = Error::NotRegistered { rank: owner, key };
        let Some(index) = index(key) else { return Err(refused) };
        let state = Self::entry(index, STATE);
        let mut seen = self.control(owner, state, Work::Read)?;
        loop {
            if seen >> GENERATION != key.0 >> GENERATION || seen & OPEN == 0 {
                return Err(refused);
            }
            if seen & PINS == PINS {
                return Err(Error::RegistrationFull { rank: owner, what: "a pin of this memory", limit: PINS });
            }
            let old = self.control(owner, state, Work::CompareAndSwap(seen, seen + 1))?;
            if old == seen {
                break;
            }
            seen = old;
        }
        // From here on the pin's drop gives the count back, even after an error.
        let mut pin = VerbsPinned { ra: self, owner, state, start: Remote { address: 0, key: 0 }, bytes: 0 };
        let read = |word| self.control(owner, Self::entry(index, word), Work::Read);
        pin.bytes = read(BYTES)?;
        pin.start = Remote { address: read(START)?, key: read(KEY)? as u32 };
        Ok(Box::new(pin))
    }
}

/// A pin that is counted in the state of its entry until it is dropped.
struct VerbsPinned<'a> {
    ra: &'a Verbs,
    owner: Rank,
    /// The index of the state's word.
    state: usize,
    start: Remote,
    bytes: u64,
}

impl std::fmt::Debug for VerbsPinned<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerbsPinned({} bytes of {})", self.bytes, self.owner)
    }
}

impl VerbsPinned<'_> {
    /// Returns the place of `len` bytes at `offset`.
    fn part(&self, offset: u64, len: usize) -> Result<Remote> {
        let len = len as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.bytes) {
            return Err(Error::OutOfRegistered { rank: self.owner, offset, len, bytes: self.bytes });
        }
        Ok(Remote { address: self.start.address + offset, ..self.start })
    }

    /// Returns the part's address in this process.
    fn own(&self, part: Remote) -> Option<*mut u8> {
        (self.owner == self.ra.view.rank()).then(|| std::ptr::with_exposed_provenance_mut(part.address as usize))
    }
}

impl Pinned for VerbsPinned<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn put(&self, offset: u64, source: &[u8]) -> Result<()> {
        let part = self.part(offset, source.len())?;
        if let Some(shared) = self.own(part) {
            // SAFETY: the range lies in memory that this rank has registered (checked), which stays while it is pinned (I4);
            // accesses to it in that time are these copies and the adapter's.
            unsafe { copy::to_shared(source.as_ptr(), shared, source.len()) };
            return Ok(());
        }
        // SAFETY: `source` is borrowed until the wait is over; if that fails, the request is gone.
        let request = unsafe { self.ra.write(self.owner, Target::Registered(part), source.as_ptr(), source.len())? };
        self.ra.finish(request)
    }

    fn get(&self, offset: u64, dest: &mut [u8]) -> Result<()> {
        let part = self.part(offset, dest.len())?;
        if let Some(shared) = self.own(part) {
            // SAFETY: as for a put.
            unsafe { copy::from_shared(shared, dest.as_mut_ptr(), dest.len()) };
            fence(Ordering::Acquire);
            return Ok(());
        }
        // SAFETY: as for a put; `dest` is borrowed mutably.
        let request = unsafe { self.ra.read(self.owner, Target::Registered(part), dest.as_mut_ptr(), dest.len())? };
        self.ra.finish(request)
    }

    fn words(&self) -> Option<PinnedWords<'_>> {
        None
    }
}

impl Drop for VerbsPinned<'_> {
    fn drop(&mut self) {
        // If this fails, the owner or this rank has failed, and deregistrations get that error.
        let _ = self.ra.control(self.owner, self.state, Work::FetchAdd(1u64.wrapping_neg()));
    }
}
