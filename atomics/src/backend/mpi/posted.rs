//! A rank's operations under way: posted word puts, and bulk operations with their requests.

use std::cell::Cell;

use mpi_sys as ffi;
use rustc_hash::FxHashMap;

use crate::{Address, Disp, Rank};

/// The largest number of posted puts at a time.
const SLOTS: usize = 64;

/// The largest number of bulk operations under way at a time.
pub(super) const REQUESTS: usize = 256;

/// Word puts that no flush has completed yet.
///
/// MPI reads a put's value from memory of this rank until the put is complete here, so each put has its own slot.
pub(super) struct Posted {
    /// Boxed: slots do not move while MPI reads them.
    slots: Box<[Cell<u64>]>,
    /// MPI may read slots below this one.
    used: usize,
    /// The word of the puts under way, for each target with such puts.
    words: Vec<(Rank, Disp)>,
}

impl Posted {
    pub(super) fn new() -> Posted {
        Posted { slots: (0..SLOTS).map(|_| Cell::new(0)).collect(), used: 0, words: Vec::with_capacity(SLOTS) }
    }

    /// Returns whether puts to another word of the target are under way.
    #[inline]
    pub(super) fn to_another_word(&self, at: Address) -> bool {
        self.words.iter().any(|&(rank, disp)| rank == at.rank && disp != at.disp)
    }

    /// Returns whether there is no slot for another put.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.used == self.slots.len()
    }

    /// Adds a put to `at`, if no puts to another word of the target are under way. Returns the slot of its value.
    ///
    /// # Panics
    ///
    /// If there is no slot.
    #[inline]
    pub(super) fn take(&mut self, at: Address, value: u64) -> *const u64 {
        if !self.words.contains(&(at.rank, at.disp)) {
            self.words.push((at.rank, at.disp));
        }
        let slot = &self.slots[self.used];
        self.used += 1;
        slot.set(value);
        slot.as_ptr()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Notes that all puts to `target` are complete.
    #[inline]
    pub(super) fn completed(&mut self, target: Rank) {
        if !self.words.is_empty() {
            self.words.retain(|&(rank, _)| rank != target);
            if self.words.is_empty() {
                self.used = 0;
            }
        }
    }

    /// Notes that all puts are complete at this rank, but not at their targets.
    pub(super) fn completed_locally(&mut self) {
        self.used = 0;
    }

    /// Notes that all puts are complete.
    pub(super) fn all_completed(&mut self) {
        self.words.clear();
        self.used = 0;
    }
}

/// An operation that no rank has waited for yet.
pub(super) enum UnderWay {
    /// A bulk operation, for which MPI has a request.
    Bytes(ffi::MPI_Request),
    /// A word operation, which a flush completes. MPI reads its operands from this slot until then.
    Word(usize),
}

/// The operands of a word operation: MPI takes pointers to them.
pub(super) type Operands = [Cell<u64>; 2];

/// Operations that no rank has waited for yet.
pub(super) struct Requests {
    last: u64,
    under_way: FxHashMap<u64, (Rank, UnderWay)>,
    /// Boxed: slots do not move while MPI reads them.
    slots: Box<[Operands]>,
    /// Slots that MPI does not read.
    free: Vec<usize>,
}

impl Requests {
    pub(super) fn new() -> Requests {
        let slots = (0..REQUESTS).map(|_| Operands::default()).collect();
        Requests { last: 0, under_way: FxHashMap::default(), slots, free: (0..REQUESTS).collect() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.under_way.len() >= REQUESTS
    }

    /// Keeps a bulk operation under a number that was never used before, and is never 0.
    pub(super) fn keep(&mut self, target: Rank, request: ffi::MPI_Request) -> u64 {
        self.last += 1;
        self.under_way.insert(self.last, (target, UnderWay::Bytes(request)));
        self.last
    }

    /// Keeps a word operation, like [`keep`](Self::keep). Also returns the slot of its operands.
    ///
    /// # Panics
    ///
    /// If there is no slot.
    pub(super) fn keep_word(&mut self, target: Rank, operands: [u64; 2]) -> (u64, [*const u64; 2]) {
        let slot = self.free.pop().expect("not full");
        for (cell, operand) in self.slots[slot].iter().zip(operands) {
            cell.set(operand);
        }
        self.last += 1;
        self.under_way.insert(self.last, (target, UnderWay::Word(slot)));
        (self.last, self.slots[slot].each_ref().map(|cell| cell.as_ptr().cast_const()))
    }

    /// Returns the operation of this number and its target, unless it is complete.
    pub(super) fn get(&mut self, number: u64) -> Option<&mut (Rank, UnderWay)> {
        self.under_way.get_mut(&number)
    }

    /// Removes an operation. MPI no longer reads its operands, or has not begun to.
    pub(super) fn remove(&mut self, number: u64) {
        if let Some((_, UnderWay::Word(slot))) = self.under_way.remove(&number) {
            self.free.push(slot);
        }
    }

    /// Notes that the word operations to `target`, or all word operations, are complete.
    #[inline]
    pub(super) fn words_completed(&mut self, target: Option<Rank>) {
        if self.free.len() < self.slots.len() {
            self.free_words(target);
        }
    }

    #[cold]
    fn free_words(&mut self, target: Option<Rank>) {
        self.under_way.retain(|_, (rank, operation)| match operation {
            UnderWay::Word(slot) if target.is_none_or(|target| *rank == target) => {
                self.free.push(*slot);
                false
            }
            _ => true,
        });
    }

    /// Removes and returns the bulk operations to `target`, or all bulk operations.
    pub(super) fn take_bytes(&mut self, target: Option<Rank>) -> Vec<ffi::MPI_Request> {
        let mut taken = Vec::new();
        self.under_way.retain(|_, (rank, operation)| match operation {
            UnderWay::Bytes(request) if target.is_none_or(|target| *rank == target) => {
                taken.push(*request);
                false
            }
            _ => true,
        });
        taken
    }
}
