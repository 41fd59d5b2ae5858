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
}

impl Mapped {
    /// Returns an error if a rank has failed and this rank has not acknowledged that failure.
    #[inline]
    pub(super) fn check_failed(&self) -> Result<()> {
        let failures = self.mapping.failures();
        if failures == self.cells.deaths.settled.load(Ordering::Relaxed) { Ok(()) } else { self.check_each(failures) }
    }

    #[cold]
    fn check_each(&self, failures: u32) -> Result<()> {
        let deaths = &self.cells.deaths;
        let acknowledged = deaths.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = |rank: &Rank| !acknowledged.contains(*rank);
        // The first failed rank, which a program that acknowledges nothing always gets.
        match self.mapping.failed().filter(is_news).or_else(|| self.marked().find(is_news)) {
            Some(rank) => Err(Error::PeerFailed { rank }),
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
}
