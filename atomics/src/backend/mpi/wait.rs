//! Waiting: loads of the local word, with MPI's progress between them. A waiter first spins, then yields, then sleeps.
//!
//! MPI libraries wait by polling without end, which ranks that share cores cannot afford. So a wait does not block inside
//! MPI. It loads its word, as the unified memory model allows (MPI-3.1, section 11.4), and lets MPI make progress with
//! `MPI_Iprobe` between the loads. An MPI whose network has no atomics executes the operations of others only in calls of
//! their target, so a wait must go on to call MPI. So it sleeps for only 50 us at first, and stays awake while requests seem
//! to arrive.
//!
//! A flush does block inside MPI; see [`let_go_until_reached`](Mpi::let_go_until_reached).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use mpi_sys as ffi;

use super::Mpi;
use crate::model::fabric::{Fabric, Word};
use crate::{Rank, Result, Time, Until};

/// The times for which a waiter spins and yields before it sleeps: most of a millisecond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// True if the node has more ranks than cores, so that the awaited rank may need this core.
    crowded: bool,
    /// The number of loads with the processor's pause instruction between them.
    spins: u32,
    /// The time of loads with yields between them, in nanoseconds.
    yields: u64,
}

impl Patience {
    /// Returns the patience for a node with `ranks` ranks.
    pub(super) fn new(ranks: u32) -> Patience {
        // All cores, not only those on which this process may run, since launchers bind ranks to cores. SAFETY: it
        // reads a number from the system.
        let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        if i64::from(ranks) <= cores {
            Patience { crowded: false, spins: 2_000, yields: 900_000 }
        } else {
            Patience { crowded: true, spins: 3, yields: 900_000 }
        }
    }
}

/// The number of loads between two calls of MPI while a waiter spins: together they take as long as the call.
const LOADS: u32 = 32;

/// A call of MPI that takes longer than this, in nanoseconds, has probably served another rank. Under MPICH 4.0.2, on one
/// machine, a call that finds nothing takes 0.3 us, half of it for the clock (nine of ten less than 0.6 us). A call that
/// executes a fetch-and-op takes 3.8 us (nine of ten more than 1.7 us). A wrong guess costs some processor time, or some
/// speed.
const SERVED: u64 = 1_000;

/// The time for which a waiter that has served another rank polls for the next request before it sleeps, in
/// nanoseconds.
const AWAKE: u64 = 50_000;

/// The shortest and the longest sleep, in nanoseconds. Between these bounds, a waiter sleeps for a thousandth of the time
/// since the last request of another rank.
const SLEEPS: (u64, u64) = (50_000, 250_000);

/// The time of one uncontended word operation, in nanoseconds: the unit of `pause`.
const OPERATION: u64 = 200;

/// Pauses of at least this length yield the processor: even the shortest sleep takes some 60 us.
const LONG: u64 = 50_000;

impl Mpi {
    /// Notes that operations are under way to `target` that a flush of all targets completes.
    #[inline(always)]
    pub(super) fn reach_out_to(&self, target: Rank) {
        if self.patience.crowded {
            let mut targets = self.reached_out_to.borrow_mut();
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }

    /// Yields the processor until `targets` have reached the operations under way to them. Returns at once where each
    /// rank has its own core.
    ///
    /// If an MPI executes operations in calls of their target, its flush blocks until the target has been scheduled, and
    /// uses the core that the target may need. With 6 ranks on 2 cores, MPICH 4.0.2 took 18 ms for a fetch-and-op with its
    /// flush. So this rank sends a read of nothing after the operations, and tests its request. When the read is done, the
    /// flush normally has nothing to wait for. (MPI does not guarantee it; then the flush waits.)
    #[inline(always)]
    pub(super) fn let_go_until_reached(&self, targets: &[Rank]) {
        if self.patience.crowded {
            self.yield_until_reached(targets);
        }
    }

    fn yield_until_reached(&self, targets: &[Rank]) {
        let (word, no_op, mut read) = (self.handles.word, self.handles.no_op, vec![0u64; targets.len()]);
        let mut requests = vec![self.handles.null_request; targets.len()];
        for ((target, read), request) in targets.iter().zip(&mut read).zip(&mut requests) {
            let (rank, none) = (target.0 as c_int, (&raw const read).cast::<c_void>());
            // SAFETY: the ranks exist (an operation or a check has come before), and have a word at 0; `read` lives until
            // all requests are done. No value is read for MPI_NO_OP.
            self.check_completed(unsafe {
                let to = (&raw mut *read).cast();
                ffi::PMPI_Rget_accumulate(none, 0, word, to, 1, word, rank, 0, 1, word, no_op, self.window.0, request)
            });
        }
        loop {
            let mut done = 0;
            // SAFETY: requests that were just made, or null ones in their place.
            self.check_completed(unsafe {
                let statuses = self.handles.ignored_statuses;
                ffi::PMPI_Testall(requests.len() as c_int, requests.as_mut_ptr(), &mut done, statuses)
            });
            if done != 0 {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Lets MPI make progress on requests of other ranks, and on this rank's operations.
    pub(super) fn progress(&self) -> Result<()> {
        let mut found = 0;
        let handles = &self.handles;
        // SAFETY: the communicator lives as long as `self`; no rank sends on it, so that nothing is found.
        let code = unsafe {
            ffi::PMPI_Iprobe(handles.any_source, handles.any_tag, self.comm.0, &mut found, handles.ignored_status)
        };
        super::check(code, || format!("letting MPI make progress on {}", self.view.rank()))
    }

    /// Completes posted puts, so that no rank waits for a put that MPI holds back while this rank does something else.
    ///
    /// A wait of this rank does so by itself. A program calls it before it waits inside MPI, since other calls of MPI do not complete the puts.
    pub fn send_off(&self) {
        if !self.posted.borrow().is_empty() {
            self.complete_all();
        }
    }

    pub(super) fn wait_for(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        let word = self.own_word(own);
        let satisfied = || {
            let value = word.load(Ordering::Acquire);
            until.holds(value).then_some(value)
        };
        for spin in 0..self.patience.spins {
            if let Some(value) = satisfied() {
                return self.acquire(value);
            }
            if spin % LOADS == LOADS - 1 {
                self.progress()?;
            }
            std::hint::spin_loop();
        }
        self.send_off();
        let mut now = self.clock();
        let (mut quiet_since, mut awake_until) = (now, now.0.saturating_add(self.patience.yields));
        loop {
            let before = now;
            self.progress()?;
            if let Some(value) = satisfied() {
                return self.acquire(value);
            }
            now = self.clock();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(None);
            }
            if now.0 - before.0 > SERVED {
                quiet_since = now;
                awake_until = awake_until.max(now.0 + AWAKE);
            }
            if now.0 < awake_until {
                std::thread::yield_now();
            } else {
                let sleep = ((now.0 - quiet_since.0) / 1_000).clamp(SLEEPS.0, SLEEPS.1);
                let left = deadline.map_or(u64::MAX, |deadline| deadline.0 - now.0);
                std::thread::sleep(Duration::from_nanos(sleep.min(left)));
            }
            now = self.clock();
        }
    }

    /// Returns the value that ended a wait. Writes released before it are visible from here on.
    fn acquire(&self, value: u64) -> Result<Option<u64>> {
        // SAFETY: the window lives as long as `self`, in one epoch.
        let code = unsafe { ffi::PMPI_Win_sync(self.window.0) };
        super::check(code, || format!("synchronizing the window of {}", self.view.rank()))?;
        fence(Ordering::SeqCst);
        Ok(Some(value))
    }

    pub(super) fn pause_for(&self, operations: u32) -> Result<()> {
        self.send_off();
        self.progress()?;
        let now = self.clock();
        let nanoseconds = u64::from(operations) * OPERATION;
        if nanoseconds >= LONG {
            std::thread::sleep(Duration::from_nanos(nanoseconds));
        } else if self.patience.crowded {
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
