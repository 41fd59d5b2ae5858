//! Going on after the failure of another rank.
//!
//! The hub of the bootstrap reports each rank whose connection has ended to all others, in one order. The bootstrap's
//! thread of each rank counts it, destroys the answering ends of its queue pairs, and reports that to the hub. Once all
//! live ranks have done so, the rank is *silent*: nothing that it has posted takes effect any more.
//!
//! # Invariants
//!
//! * I1. A request of a rank that has failed is answered before its failure is known here, or never. So no pair of it
//!   comes after those that were destroyed.
//! * I2. An operation on a live rank neither fails nor is given up because of other ranks. So a rank that goes on has lost
//!   nothing that it has posted to live ranks.
//! * I3. Once this rank has acknowledged a failure, it has no connection to that rank, and no mapping of its memory. A new
//!   one is refused, so operations pay nothing for this.
//!
//! # Copies by the processor
//!
//! A rank copies bulk data into the mapped memory of ranks of its host, past all queue pairs. The kernel closes a
//! process's connections after all its threads have ended, so they copy nothing afterwards. But a process that lives on
//! without its connection to the hub may copy: only a fault of the network between the two leads to that. With
//! `RMALAB_NODE_SHARED=0` there are no such copies.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::atomic::{Ordering, fence};

use super::Verbs;
use crate::model::fabric::{Fabric, Failures};
use crate::{Error, Failed, Rank, Result};

/// The failures that a rank has acknowledged.
#[derive(Default)]
pub(super) struct Deaths {
    /// The bootstrap's number of failures when this rank had last acknowledged all of them.
    settled: Cell<u32>,
    acknowledged: RefCell<Failed>,
    /// The generation of this rank's world.
    generation: Cell<u32>,
    /// The ranks on which operations were given up, and whose failure is not acknowledged.
    given_up: RefCell<BTreeSet<Rank>>,
}

impl Deaths {
    /// Notes that the operations on `rank` were given up.
    pub(super) fn give_up(&self, rank: Rank) {
        self.given_up.borrow_mut().insert(rank);
    }

    /// Returns whether operations were given up, and the program has not acknowledged that.
    pub(super) fn has_given_up(&self) -> bool {
        !self.given_up.borrow().is_empty()
    }
}

impl Verbs {
    /// Returns an error if a rank has failed and this rank has not acknowledged that failure, or if its world was revoked.
    #[inline]
    pub(super) fn check_failures(&self) -> Result<()> {
        let failures = self.membership().failures();
        if failures == self.deaths.settled.get() && !self.is_revoked() { Ok(()) } else { self.check_each(failures) }
    }

    #[inline]
    fn is_revoked(&self) -> bool {
        self.membership().revoked() > self.deaths.generation.get()
    }

    #[cold]
    fn check_each(&self, failures: u32) -> Result<()> {
        let acknowledged = self.deaths.acknowledged.borrow();
        if let Some(rank) = self.membership().failed().into_iter().find(|&rank| !acknowledged.contains(rank)) {
            return Err(Error::PeerFailed { rank });
        }
        self.membership().check_hub()?;
        if self.is_revoked() {
            return Err(Error::Revoked);
        }
        self.deaths.settled.set(failures);
        Ok(())
    }

    fn check_known(&self, failed: &Failed) -> Result<()> {
        let known = Failures::failed(self)?;
        failed.iter().find(|&rank| !known.contains(rank)).map_or(Ok(()), |rank| Err(Error::NotFailed { rank }))
    }
}

impl Failures for Verbs {
    #[inline]
    fn failed(&self) -> Result<Failed> {
        let membership = self.membership();
        if membership.failures() == 0 {
            return Ok(Failed::default());
        }
        Ok(membership.failed().into_iter().filter(|&rank| rank != self.view().rank()).collect())
    }

    fn acknowledge(&self, failed: &Failed) -> Result<()> {
        self.check_known(failed)?;
        // Without the hub a rank would wait for the next failed rank forever.
        self.membership().check_hub()?;
        let mut acknowledged = self.deaths.acknowledged.borrow_mut();
        *acknowledged = acknowledged.iter().chain(failed.iter()).collect();
        for rank in failed.iter() {
            // I3.
            self.drop_connection(&mut self.peers.borrow_mut(), rank);
            self.neighbours.borrow_mut().remove(&rank.0);
            self.deaths.given_up.borrow_mut().remove(&rank);
        }
        Ok(())
    }

    fn silence(&self, failed: &Failed) -> Result<()> {
        self.check_known(failed)?;
        self.membership().await_silence(failed.iter())?;
        // Copies of failed ranks of this host are in memory.
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn expel(&self, rank: Rank) -> Result<()> {
        self.membership().expel(rank)
    }

    fn generation(&self) -> u32 {
        self.deaths.generation.get()
    }

    fn enter(&self, generation: u32) {
        self.deaths.generation.set(generation);
    }

    fn revoke(&self, generation: u32) -> Result<()> {
        self.membership().revoke(generation)
    }
}
