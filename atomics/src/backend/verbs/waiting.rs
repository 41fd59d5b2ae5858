//! The steps of a waiting rank: it spins, then yields, then sleeps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Verbs;
use super::connection::{Broken, Connection};
use crate::model::fabric::{Fabric, Word};
use crate::{Rank, Result, Time, Until};

/// The number of polls before a waiting rank yields the processor.
///
/// Soft-RoCE's kernel threads, and other ranks, need the processor that a rank spins on.
const SPINS: u32 = 2_000;
/// The number of yields before it sleeps.
const YIELDS: u32 = 1_000;
/// The time of a sleep.
const SLEEP: Duration = Duration::from_micros(50);

/// The time of one uncontended word operation, in nanoseconds: the unit of `pause`.
const OPERATION: u64 = 2_000;

/// The ranks whose failure ends a wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    /// Only this one, whose adapter executes the awaited operation. A failure of another rank neither ends nor gives up
    /// an operation.
    Rank(Rank),
    /// Any rank, since any of them may have to act first.
    Any,
}

/// The number of polls of a waiting rank so far.
#[derive(Default)]
pub(super) struct SpinWait(u32);

impl SpinWait {
    /// Waits between two polls, longer each time.
    #[inline]
    pub(super) fn turn(&mut self, verbs: &Verbs, awaited: Awaited) -> Result<()> {
        if self.0 < SPINS {
            self.0 += 1;
            // Only sometimes: an emulated processor leaves its loop for a pause instruction.
            if self.0.is_multiple_of(16) {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        self.slow_turn(verbs, awaited)
    }

    #[cold]
    fn slow_turn(&mut self, verbs: &Verbs, awaited: Awaited) -> Result<()> {
        match awaited {
            Awaited::Rank(rank) => verbs.check_rank(rank)?,
            Awaited::Any => verbs.check()?,
        }
        if self.0 < SPINS + YIELDS {
            self.0 += 1;
            std::thread::yield_now();
        } else {
            verbs.look()?;
            std::thread::sleep(SLEEP);
        }
        Ok(())
    }
}

impl Verbs {
    /// Returns a word of this rank's segment.
    ///
    /// # Panics
    ///
    /// If the word belongs to another world.
    pub(super) fn own_word(&self, own: Word) -> &AtomicU64 {
        self.memory.word(own.disp().0).expect("a word of this world")
    }

    pub(super) fn wait_for(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        let word = self.own_word(own);
        self.burst.set(self.burst.get() + 1);
        let mut spin_wait = SpinWait::default();
        loop {
            let value = word.load(Ordering::SeqCst);
            if until.holds(value) {
                return Ok(Some(value));
            }
            if deadline.is_some_and(|deadline| self.clock() >= deadline) {
                return self.check().map(|()| None);
            }
            spin_wait.turn(self, Awaited::Any)?;
        }
    }

    /// Waits for request `number`, and so for all earlier requests.
    #[inline]
    pub(super) fn await_request(&self, connection: &mut Connection, number: u64) -> Result<(), Broken> {
        let mut spin_wait = SpinWait::default();
        while !connection.is_done(number) {
            if !connection.poll()? {
                spin_wait.turn(self, Awaited::Rank(connection.peer()))?;
            }
        }
        Ok(())
    }

    /// Waits between two polls.
    pub(super) fn pause_for(&self, operations: u32) -> Result<()> {
        self.check()?;
        self.look()?;
        let time = Duration::from_nanos(u64::from(operations) * OPERATION);
        if time >= SLEEP {
            std::thread::sleep(time);
        } else {
            let end = self.clock().after(time);
            std::thread::yield_now();
            while self.clock() < end {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}
