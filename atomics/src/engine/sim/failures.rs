//! Ranks of a simulated machine that fail, and the others, which go on.
//!
//! A rank fails by its own call. The other ranks learn of it after a fixed time. Its memory stays, and what it has posted
//! still arrives.

use std::cell::{Cell, RefCell};

use super::Sim;
use super::engine::Op;
use super::profile::Span;
use crate::model::fabric::Failures;
use crate::{Error, Failed, Rank, Result};

/// The failures that the ranks know of. All ranks learn of a failure at the same time.
pub(super) struct Known {
    /// The time from a failure until all ranks know of it; `None`: a failure ends the simulation.
    detection: Option<Span>,
    /// In the order in which they became known.
    ranks: RefCell<Vec<Rank>>,
    /// For each rank, the number of failures at the front of `ranks` that it has acknowledged.
    settled: Box<[Cell<u32>]>,
}

impl Known {
    pub(super) fn new(size: u32, detection: Option<Span>) -> Known {
        Known { detection, ranks: RefCell::default(), settled: (0..size).map(|_| Cell::new(0)).collect() }
    }

    pub(super) fn detection(&self) -> Option<Span> {
        self.detection
    }

    pub(super) fn add(&self, rank: Rank) {
        self.ranks.borrow_mut().push(rank);
    }

    /// Returns the first failure.
    pub(super) fn first(&self) -> Option<Rank> {
        self.ranks.borrow().first().copied()
    }

    /// Returns the first failure that `rank` knows of and has not acknowledged.
    pub(super) fn news(&self, rank: u32) -> Option<Rank> {
        self.ranks.borrow().get(self.settled[rank as usize].get() as usize).copied()
    }

    fn check(&self, failed: &Failed) -> Result<()> {
        let ranks = self.ranks.borrow();
        match failed.iter().find(|rank| !ranks.contains(rank)) {
            Some(rank) => Err(Error::NotFailed { rank }),
            None => Ok(()),
        }
    }
}

impl Sim<'_> {
    /// Makes this rank fail: it counts as failed from here on, and all its later calls return
    /// [`PeerFailed`](Error::PeerFailed) with its own number. Its memory stays, and what it has posted still arrives. The
    /// other ranks learn of the failure after [`Options::detection`](super::Options::detection).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](Error::Unsupported) without a time of detection.
    pub fn fail(&self) -> Result<()> {
        if self.shared.known.detection().is_none() {
            return Err(Error::Unsupported {
                what: "a failure of a simulated rank",
                why: "this simulation has no time of detection",
            });
        }
        self.has_failed.set(true);
        self.tell(Op::Fail)
    }
}

impl Failures for Sim<'_> {
    fn failed(&self) -> Result<Failed> {
        let me = self.view.rank();
        Ok(self.shared.known.ranks.borrow().iter().copied().filter(|&rank| rank != me).collect())
    }

    fn acknowledge(&self, failed: &Failed) -> Result<()> {
        let known = &self.shared.known;
        known.check(failed)?;
        let mut acknowledged = self.acknowledged.borrow_mut();
        *acknowledged = acknowledged.iter().chain(failed.iter()).collect();
        let settled = &known.settled[self.view.rank().index()];
        let more = known
            .ranks
            .borrow()
            .iter()
            .skip(settled.get() as usize)
            .take_while(|rank| acknowledged.contains(**rank))
            .count();
        settled.set(settled.get() + more as u32);
        Ok(())
    }

    fn silence(&self, failed: &Failed) -> Result<()> {
        self.shared.known.check(failed)?;
        failed.iter().try_for_each(|rank| self.tell(Op::Silence { rank }))
    }

    fn expel(&self, _rank: Rank) -> Result<()> {
        Err(Error::Unsupported { what: "expelling a rank", why: "a simulated rank fails by its own call" })
    }

    fn generation(&self) -> u32 {
        self.generation.get()
    }

    fn enter(&self, generation: u32) {
        self.generation.set(generation);
    }

    fn revoke(&self, _generation: u32) -> Result<()> {
        Err(Error::Unsupported { what: "revoking a world", why: "the simulator has no revocation" })
    }
}
