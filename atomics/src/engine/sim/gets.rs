//! The operations under way that return bytes, which are bulk gets and started word operations, and the destinations of
//! the bytes.
//!
//! The engine and the ranks share this table, since a rank can give up a get without a call of the engine. A rank that
//! unwinds makes no calls, but its buffer still ends. A get that was given up still takes its time in the network, and
//! its bytes are discarded.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;

use crate::Rank;

/// A get, or a started word operation, that is under way.
struct Get {
    rank: Rank,
    target: Rank,
    /// The destination of its bytes; `None` once the rank has given it up.
    dest: Option<*mut u8>,
}

/// The gets of all ranks that are under way, by their numbers.
#[derive(Default)]
pub(super) struct Gets {
    /// The number of the last get that has begun.
    last: Cell<u64>,
    under_way: RefCell<FxHashMap<u64, Get>>,
}

impl Gets {
    /// Begins a get by `rank` from `target` into `dest`, and returns its number.
    pub(super) fn begin(&self, rank: Rank, target: Rank, dest: *mut u8) -> u64 {
        let request = self.last.get() + 1;
        self.last.set(request);
        self.under_way.borrow_mut().insert(request, Get { rank, target, dest: Some(dest) });
        request
    }

    /// Returns whether the bytes have not arrived yet.
    pub(super) fn is_under_way(&self, request: u64) -> bool {
        self.under_way.borrow().contains_key(&request)
    }

    /// Ends a get whose bytes have arrived; returns their destination, unless the rank has given it up.
    pub(super) fn end(&self, request: u64) -> Option<*mut u8> {
        self.under_way.borrow_mut().remove(&request)?.dest
    }

    /// Gives up one get.
    pub(super) fn give_up(&self, request: u64) {
        if let Some(get) = self.under_way.borrow_mut().get_mut(&request) {
            get.dest = None;
        }
    }

    /// Gives up all gets of `rank` from `target`, or from any rank.
    pub(super) fn give_up_all(&self, rank: Rank, target: Option<Rank>) {
        for get in self.under_way.borrow_mut().values_mut() {
            if get.rank == rank && target.is_none_or(|target| get.target == target) {
                get.dest = None;
            }
        }
    }
}
