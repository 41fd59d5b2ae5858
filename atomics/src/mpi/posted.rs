//! What a rank has under way: posted word puts, and bulk operations with their requests.

use std::cell::Cell;

use mpi_sys as ffi;
use rustc_hash::FxHashMap;

use crate::{Address, Disp, Rank};

/// How many posted puts have room at a time.
const SLOTS: usize = 64;

/// How many bulk operations may be under way at a time.
pub(super) const REQUESTS: usize = 256;

/// Word puts that no flush has completed yet.
///
/// MPI reads a put's value from memory of this rank until the put is complete here, so each has a slot of its own.
pub(super) struct Posted {
    /// Boxed: slots do not move while MPI reads them.
    slots: Box<[Cell<u64>]>,
    /// Slots below this one may be read by MPI.
    used: usize,
    /// For each target with puts under way, the word that they are all to.
    words: Vec<(Rank, Disp)>,
}

impl Posted {
    pub(super) fn new() -> Posted {
        Posted { slots: (0..SLOTS).map(|_| Cell::new(0)).collect(), used: 0, words: Vec::with_capacity(SLOTS) }
    }

    /// Whether puts to another word of the target are under way.
    #[inline]
    pub(super) fn to_another_word(&self, at: Address) -> bool {
        self.words.iter().any(|&(rank, disp)| rank == at.rank && disp != at.disp)
    }

    /// Whether there is no slot for another put.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.used == self.slots.len()
    }

    /// Takes a put to `at`, when there are none to another word of the target; returns where MPI finds its value.
    ///
    /// # Panics
    ///
    /// When there is no slot.
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

    /// Everything to `target` is complete.
    #[inline]
    pub(super) fn completed(&mut self, target: Rank) {
        if !self.words.is_empty() {
            self.words.retain(|&(rank, _)| rank != target);
            if self.words.is_empty() {
                self.used = 0;
            }
        }
    }

    /// Everything is complete at this rank, though not at its target.
    pub(super) fn completed_locally(&mut self) {
        self.used = 0;
    }

    /// Everything is complete.
    pub(super) fn all_completed(&mut self) {
        self.words.clear();
        self.used = 0;
    }
}

/// Bulk operations that nobody has waited for yet.
#[derive(Default)]
pub(super) struct Requests {
    last: u64,
    under_way: FxHashMap<u64, (Rank, ffi::MPI_Request)>,
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Keeps `request` under a number that was never given before, and never is 0.
    pub(super) fn keep(&mut self, target: Rank, request: ffi::MPI_Request) -> u64 {
        self.last += 1;
        self.under_way.insert(self.last, (target, request));
        self.last
    }

    /// The request of this number, unless it is complete.
    pub(super) fn get(&mut self, number: u64) -> Option<&mut ffi::MPI_Request> {
        self.under_way.get_mut(&number).map(|(_, request)| request)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<ffi::MPI_Request> {
        self.under_way.remove(&number).map(|(_, request)| request)
    }

    /// Takes out those to `target`, or all of them.
    pub(super) fn take(&mut self, target: Option<Rank>) -> Vec<ffi::MPI_Request> {
        if self.under_way.is_empty() {
            return Vec::new();
        }
        let wanted =
            |_: &u64, &mut (rank, _): &mut (Rank, ffi::MPI_Request)| target.is_none_or(|target| rank == target);
        self.under_way.extract_if(wanted).map(|(_, (_, request))| request).collect()
    }
}
