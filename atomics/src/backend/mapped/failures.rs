//! Going on after the failure of a rank, on memory that outlives it.
//!
//! A rank is marked as failed by itself, by the process that started it, or by a rank that finds its record lock free. The
//! last two happen after its end, and the first is its last act. The processor has executed a process's stores before the
//! process ends, so a marked rank has no further effect. All ranks read the same marks.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use super::Mapped;
use crate::model::fabric::Failures;
use crate::{Error, Failed, Rank, Result};

/// The failures that a rank has acknowledged.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    /// The number of all failures when the rank had last acknowledged all of them.
    settled: AtomicU32,
    acknowledged: Mutex<Failed>,
    /// The generation of this rank's world.
    generation: AtomicU32,
}

impl Mapped {
    /// Returns an error if a rank has failed and this rank has not acknowledged that failure, or if its world was revoked.
    #[inline]
    pub(super) fn check_failed(&self) -> Result<()> {
        let failures = self.mapping.failures();
        let are_settled = failures == self.cells.deaths.settled.load(Ordering::Relaxed);
        if are_settled && !self.is_revoked() { Ok(()) } else { self.check_each(failures) }
    }

    #[inline]
    fn is_revoked(&self) -> bool {
        self.mapping.revoked() > self.cells.deaths.generation.load(Ordering::Relaxed)
    }

    #[cold]
    fn check_each(&self, failures: u32) -> Result<()> {
        let deaths = &self.cells.deaths;
        let acknowledged = deaths.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = |rank: &Rank| !acknowledged.contains(*rank);
        // The first failed rank, which a program that acknowledges nothing always gets.
        match self.mapping.failed().filter(is_news).or_else(|| self.marked().find(is_news)) {
            Some(rank) => Err(Error::PeerFailed { rank }),
            None if self.is_revoked() => Err(Error::Revoked),
            None => {
                deaths.settled.store(failures, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn marked(&self) -> impl Iterator<Item = Rank> {
        let all = (0..self.view.size()).map(Rank);
        all.filter(|&rank| rank != self.view.rank() && self.mapping.has_failed(rank))
    }

    fn check_marked(&self, failed: &Failed) -> Result<()> {
        let is_marked = |rank: Rank| rank.0 < self.view.size() && self.mapping.has_failed(rank);
        match failed.iter().find(|&rank| !is_marked(rank)) {
            Some(rank) => Err(Error::NotFailed { rank }),
            None => Ok(()),
        }
    }
}

impl Failures for Mapped {
    #[inline]
    fn failed(&self) -> Result<Failed> {
        Ok(if self.mapping.failures() == 0 { Failed::default() } else { self.marked().collect() })
    }

    fn acknowledge(&self, failed: &Failed) -> Result<()> {
        self.check_marked(failed)?;
        let mut acknowledged = self.cells.deaths.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        *acknowledged = acknowledged.iter().chain(failed.iter()).collect();
        Ok(())
    }

    /// Nothing is left to wait for, since a process that has ended makes no further stores.
    fn silence(&self, failed: &Failed) -> Result<()> {
        self.check_marked(failed)?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn expel(&self, rank: Rank) -> Result<()> {
        if self.mapping.has_failed(rank) {
            return Ok(());
        }
        if self.mapping.has_departed(rank) {
            return Err(Error::PeerLeft { rank });
        }
        self.liveness().kill(rank)?;
        self.mapping.mark_failed(rank);
        Ok(())
    }

    fn generation(&self) -> u32 {
        self.cells.deaths.generation.load(Ordering::Relaxed)
    }

    fn enter(&self, generation: u32) {
        self.cells.deaths.generation.store(generation, Ordering::Relaxed);
    }

    fn revoke(&self, generation: u32) -> Result<()> {
        self.mapping.revoke(generation);
        Ok(())
    }
}
