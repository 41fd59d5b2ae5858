//! Waiting: loads of the own word, with MPI's progress in between; spin a little, then yield, then sleep.
//!
//! MPI libraries wait by polling without end, which ranks that share cores cannot afford. So nothing here blocks inside of
//! MPI. A wait reads its word by loads, as the unified memory model allows (MPI-3.1, section 11.4), and lets MPI work
//! between them by `MPI_Iprobe`: an MPI whose network has no atomics carries out the operations of others only in calls of
//! their target.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use mpi_sys as ffi;

use super::Mpi;
use crate::{Disp, Operation, RemoteAtomics, Result, Time, Until};

/// How long a waiter tries the cheap ways before it sleeps. The lengths are those of the `shm` backend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Whether the node has more ranks than cores, so that whoever is waited for may need this very core.
    crowded: bool,
    /// Loads with the processor's pause instruction in between.
    spins: u32,
    /// Nanoseconds of giving the processor to others in between loads.
    yields: u64,
}

impl Patience {
    /// For a node that has `ranks` ranks.
    pub(super) fn new(ranks: u32) -> Patience {
        // Not those that this process may run on: launchers bind ranks to cores.
        // SAFETY: it reads a number of the system's.
        let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        if i64::from(ranks) <= cores {
            Patience { crowded: false, spins: 2_000, yields: 100_000 }
        } else {
            Patience { crowded: true, spins: 3, yields: 900_000 }
        }
    }
}

/// Loads between two calls of MPI while a waiter spins: together as long as the call.
const LOADS: u32 = 32;

/// The shortest and the longest sleep. In between, a waiter sleeps for an eighth of the time that it has waited: so it is
/// late by no more than that, and hardly uses the processor.
const SLEEPS: (u64, u64) = (50_000, 1_000_000);

/// What one uncontended word operation takes, in nanoseconds: the unit of `pause`.
const OPERATION: u64 = 200;

/// Pauses from this long on give up the processor: a sleep takes some 60 us, whatever it was asked for.
const LONG: u64 = 50_000;

impl Mpi {
    /// Lets MPI work on what others want of this rank, and on what this rank has under way.
    pub(super) fn progress(&self) -> Result<()> {
        let mut found = 0;
        let handles = &self.handles;
        // SAFETY: the communicator lives as long as `self`; nobody sends on it, so that nothing is found.
        let code = unsafe {
            ffi::MPI_Iprobe(handles.any_source, handles.any_tag, self.comm.0, &mut found, handles.ignored_status)
        };
        super::check(code, || format!("letting MPI make progress on {}", self.rank))
    }

    /// Completes posted puts, so that nobody waits for one that MPI holds back while this rank waits.
    fn send_off(&self) -> Result<()> {
        if self.posted.borrow().is_empty() { Ok(()) } else { self.flush_all() }
    }

    pub(super) fn wait_for(&self, own: Disp, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.word(Operation::WaitUntil, self.rank.at(own))?;
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
        self.send_off()?;
        let start = self.now();
        loop {
            self.progress()?;
            if let Some(value) = satisfied() {
                return self.acquire(value);
            }
            let now = self.now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(None);
            }
            let waited = now.0 - start.0;
            if waited < self.patience.yields {
                std::thread::yield_now();
            } else {
                let sleep = (waited / 8).clamp(SLEEPS.0, SLEEPS.1);
                let left = deadline.map_or(u64::MAX, |deadline| deadline.0 - now.0);
                std::thread::sleep(Duration::from_nanos(sleep.min(left)));
            }
        }
    }

    /// The value that ended a wait; what was released before it is visible from here on.
    fn acquire(&self, value: u64) -> Result<Option<u64>> {
        // SAFETY: the window lives as long as `self`, in one epoch.
        let code = unsafe { ffi::MPI_Win_sync(self.window.0) };
        super::check(code, || format!("synchronizing the window of {}", self.rank))?;
        fence(Ordering::SeqCst);
        Ok(Some(value))
    }

    pub(super) fn pause_for(&self, operations: u32) -> Result<()> {
        self.send_off()?;
        self.progress()?;
        let now = self.now();
        let nanoseconds = u64::from(operations) * OPERATION;
        if nanoseconds >= LONG {
            std::thread::sleep(Duration::from_nanos(nanoseconds));
        } else if self.patience.crowded {
            std::thread::yield_now();
        } else {
            let end = now.after(Duration::from_nanos(nanoseconds));
            while self.now() < end {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}
