//! The operations under way that bring bytes back, bulk gets and started word operations: where the bytes go.
//!
//! The engine and the ranks share this table, since a rank can give a get up without a call of the engine: a rank that
//! unwinds makes no calls, and its buffer ends all the same. A get that was given up still takes its time in the
//! network, and its bytes go nowhere.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;

use crate::Rank;

/// A get, or a started word operation, that is under way.
struct Get {
    rank: Rank,
    target: Rank,
    /// Where its bytes go; `None` once the rank has given it up.
    dest: Option<*mut u8>,
}

/// The gets of all ranks that are under way, by their numbers.
#[derive(Default)]
pub(super) struct Gets {
    /// The number of the last one that has begun.
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

    /// Returns whether the bytes have yet to come.
    pub(super) fn is_under_way(&self, request: u64) -> bool {
        self.under_way.borrow().contains_key(&request)
    }

    /// Ends a get whose bytes have come; returns where they go, unless the rank has given it up.
    pub(super) fn end(&self, request: u64) -> Option<*mut u8> {
        self.under_way.borrow_mut().remove(&request)?.dest
    }

    /// Gives one get up.
    pub(super) fn give_up(&self, request: u64) {
        if let Some(get) = self.under_way.borrow_mut().get_mut(&request) {
            get.dest = None;
        }
    }

    /// Gives all gets of `rank` from `target`, or from any rank, up.
    pub(super) fn give_up_all(&self, rank: Rank, target: Option<Rank>) {
        for get in self.under_way.borrow_mut().values_mut() {
            if get.rank == rank && target.is_none_or(|target| get.target == target) {
                get.dest = None;
            }
        }
    }
}
