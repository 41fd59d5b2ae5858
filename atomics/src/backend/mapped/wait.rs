//! Waiting on coherent memory: spin a little, then yield, then park on a futex.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Mapped, asymmetric};
use crate::model::fabric::{Fabric, Word};
use crate::{Error, Rank, Result, Time, Until};

/// The times for which a waiter spins and yields before it parks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// True if there are more ranks than cores, so that the awaited rank may need this core.
    crowded: bool,
    /// The number of polls with the processor's pause instruction in between.
    spins: u32,
    /// The nanoseconds for which the waiter yields the processor between polls.
    yields: u64,
}

impl Patience {
    /// With a core for every rank, a waiter spins for as long as the wake-up of an idle core takes (some 40 us on virtual
    /// machines). With more ranks than cores it yields almost at once, for most of a millisecond. With 8 ranks on 2 cores
    /// that pass an MCS lock around, a handover takes 20 us with parking at once, 1.7 us with parking after 50 us, and
    /// 1.3 us with this.
    pub(super) fn new(size: u32) -> Patience {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if size as usize <= cores {
            Patience { crowded: false, spins: 2_000, yields: 100_000 }
        } else {
            Patience { crowded: true, spins: 3, yields: 900_000 }
        }
    }
}

/// The interval at which a parked rank checks whether its peers live.
const LIVENESS: Duration = Duration::from_millis(500);

/// The time for which a rank parks if it could not fence for the others, and so may miss a wake-up.
const UNFENCED: Duration = Duration::from_micros(500);

/// The unit of [`pause`](crate::RemoteAtomics::pause) in nanoseconds: one operation on a word whose line another core has, there and back.
///
/// A polled word is in another core's cache. Two cores of an AMD EPYC pass a line there and back in 64 ns. A waiter that polls sooner takes
/// the line from the holder, which makes the holder slower.
pub const OPERATION: u64 = 64;

/// Pauses of at least this length yield the processor: even the shortest sleep takes some 60 us.
const SLEEP: u64 = 50_000;

/// The time at which a rank last checked whether its peers live, on the backend's clock in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct LastLook(AtomicU64);

impl Mapped {
    /// Returns an error if a rank has failed and this rank has not acknowledged that failure. At intervals it checks
    /// whether all ranks live, and marks a dead rank as failed for all.
    fn check_peers(&self, now: Time) -> Result<()> {
        let last = Time(self.last_look().0.load(Ordering::Relaxed));
        if now.since(last) >= LIVENESS {
            self.last_look().0.store(now.0, Ordering::Relaxed);
            if let Some(rank) = self.liveness().dead_peer() {
                self.mapping().mark_failed(rank);
            }
        }
        self.check_failed()
    }

    #[inline]
    pub(super) fn wait_for(
        &self,
        own: Word,
        until: Until,
        deadline: Option<Time>,
        writer: Option<Rank>,
    ) -> Result<Option<u64>> {
        let (_, word) = self.place(own);
        for _ in 0..self.patience().spins {
            let value = word.load(Ordering::SeqCst);
            if until.holds(value) {
                return Ok(Some(value));
            }
            std::hint::spin_loop();
        }
        self.wait_slowly(own, until, deadline, writer)
    }

    #[cold]
    fn wait_slowly(
        &self,
        own: Word,
        until: Until,
        deadline: Option<Time>,
        writer: Option<Rank>,
    ) -> Result<Option<u64>> {
        let (control, word) = self.place(own);
        let satisfied = || {
            let value = word.load(Ordering::SeqCst);
            until.holds(value).then_some(value)
        };
        let start = self.clock();
        loop {
            if let Some(value) = satisfied() {
                return Ok(Some(value));
            }
            let now = self.clock();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return self.check_peers(now).map(|()| None);
            }
            if now.0 - start.0 >= self.patience().yields {
                break;
            }
            self.check_failed()?;
            std::thread::yield_now();
        }
        let token = own.disp().0 + 1;
        loop {
            // A rank that writes the word looks at `parked` afterwards, and this rank looks at the word after it has set
            // `parked`. All of that is sequentially consistent, or a fence here counts for both (mapped/asymmetric.rs). So
            // one of the two sees the other (notify and put in mapped.rs).
            let free = control.parked.compare_exchange(0, token, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            let fenced = asymmetric::fence_everywhere(self.mapping().is_private());
            // Ahead of the look at the word, since a rank announces that it leaves after it has written its last word.
            let left = writer.filter(|&writer| self.mapping().has_departed(writer));
            let found = satisfied();
            let now = self.clock();
            let failed = self.check_peers(now).and(left.map_or(Ok(()), |rank| Err(Error::PeerLeft { rank })));
            let late = deadline.is_some_and(|deadline| now >= deadline);
            if found.is_some() || failed.is_err() || late {
                if free {
                    let _ = control.parked.compare_exchange(token, 0, Ordering::SeqCst, Ordering::SeqCst);
                }
                return if found.is_some() { Ok(found) } else { failed.map(|()| None) };
            }
            let longest = if fenced { LIVENESS } else { UNFENCED };
            let limit = deadline.map_or(longest, |deadline| deadline.since(now).min(longest));
            if free {
                self.mapping().sleep(control, token, limit);
                let _ = control.parked.compare_exchange(token, 0, Ordering::SeqCst, Ordering::SeqCst);
            } else {
                // Another thread of this rank is parked. There is one place to park, so this thread polls.
                std::thread::sleep(limit.min(Duration::from_nanos(SLEEP)));
            }
        }
    }

    #[inline]
    pub(super) fn pause_for(&self, operations: u32) -> Result<()> {
        let now = self.clock();
        self.check_peers(now)?;
        let nanoseconds = u64::from(operations) * OPERATION;
        if nanoseconds >= SLEEP {
            std::thread::sleep(Duration::from_nanos(nanoseconds));
        } else if self.patience().crowded {
            std::thread::yield_now();
        } else {
            let end = now.after(Duration::from_nanos(nanoseconds));
            while self.clock() < end {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}
