//! One rank's part of a table of locks of any type.
//!
//! A table may have millions of locks, and a rank uses few of them. So it makes its handle of a lock when it first acquires the lock. Each
//! lock has a fixed range of the segments, so ranks need not make locks in the same order. Untouched ranges take no memory where the backend
//! maps pages, or lines, on demand.
//!
//! As everywhere in this workspace, a lock has a separate queue node at each rank. So a rank can hold several locks of the table. Where it
//! holds one at a time, a table with one node for each rank would have the same operations.

use std::collections::HashMap;
use std::sync::Arc;

use rand::Rng;
use rmalab_atomics::{Disp, Rank, Region, RemoteAtomics};
use rmalab_locks::{Error, LINE, LockKind, Result};

use super::Make;
use super::any_lock::AnyLock;
use crate::workload::{Layout, Requests};

/// One rank's part of a table of locks.
pub(crate) struct LockTable<'a> {
    make: &'a Make,
    requests: Requests,
    /// The place of the first lock, and the bytes of each.
    first: Disp,
    bytes: u64,
    made: HashMap<u32, Box<dyn AnyLock>>,
}

impl<'a> LockTable<'a> {
    /// Makes a rank's part of a table whose locks are made by `make`. Every rank calls this at the same point.
    ///
    /// # Errors
    ///
    /// Errors of the lock; [`Error::Parameter`] when the table is larger than the free memory of a segment.
    pub(crate) fn new(ra: &dyn RemoteAtomics, make: &'a Make, layout: &Arc<Layout>) -> Result<LockTable<'a>> {
        let bytes = LockTable::bytes_of(ra, make)?;
        let heap = ra.heap();
        let all = bytes.checked_mul(layout.locks().into()).filter(|&all| all <= heap.free_bytes());
        let Some(all) = all else {
            return Err(Error::Parameter {
                lock: "lock table",
                parameter: "locks",
                why: format!(
                    "{} locks of {bytes} bytes are more than the {} free bytes of a rank's segment",
                    layout.locks(),
                    heap.free_bytes()
                ),
            });
        };
        let requests = Requests::new(layout, ra.rank(), ra.size(), ra.topology().node_of(ra.rank()));
        Ok(LockTable { make, requests, first: heap.alloc(all, LINE)?, bytes, made: HashMap::new() })
    }

    /// Bytes of each rank's segment that a lock takes: the end of the allocations of a trial lock.
    pub(crate) fn bytes_of(ra: &dyn RemoteAtomics, make: &Make) -> Result<u64> {
        let aside = Region::new(ra, Disp(0), ra.view().segment());
        make(&aside, Rank(0))?;
        Ok(aside.heap().alloc(1, LINE)?.0.max(LINE))
    }

    /// Sets `locks` to the locks of the rank's next transaction, by rising numbers. Without a trace, that is one drawn lock, taken in this
    /// `kind`.
    pub(crate) fn next(&mut self, kind: LockKind, random: &mut impl Rng, locks: &mut Vec<(u32, LockKind)>) {
        let popularity = self.requests.layout().table().popularity;
        self.requests.next(popularity, kind, random, locks);
    }

    /// The rank with a lock's words.
    pub(crate) fn home(&self, lock: u32) -> Rank {
        self.requests.layout().home(lock)
    }

    /// This rank's handle of a lock.
    pub(crate) fn lock(&mut self, ra: &dyn RemoteAtomics, lock: u32) -> Result<&mut dyn AnyLock> {
        match self.made.entry(lock) {
            std::collections::hash_map::Entry::Occupied(made) => Ok(&mut **made.into_mut()),
            std::collections::hash_map::Entry::Vacant(new) => {
                let start = Disp(self.first.0 + u64::from(lock) * self.bytes);
                let made = (self.make)(&Region::new(ra, start, self.bytes), self.requests.layout().home(lock))?;
                Ok(&mut **new.insert(made))
            }
        }
    }
}
