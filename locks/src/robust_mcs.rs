//! The robust MCS mutex: survivors rebuild the queue from their own words.
//!
//! # Paper
//! The lock is [`mcs`](crate::mcs): J. M. Mellor-Crummey and M. L. Scott, "Algorithms for Scalable Synchronization on
//! Shared-Memory Multiprocessors", ACM Transactions on Computer Systems 9(1), 1991, DOI 10.1145/103727.103729, Algorithm 5. The
//! cases of the repair come from P. Jayanti, S. Jayanti and A. Joshi, "A Recoverable Mutex Algorithm with Sub-logarithmic RMR on
//! Both CC and DSM", PODC 2019, arXiv 1904.02124, for ranks that do not come back.
//!
//! # Properties
//! - Mutual exclusion among the ranks that live; first come, first served until the first failure.
//! - Every wait is on the waiter's own node, except in a repair.
//! - The rank that enters after a rank that failed inside gets `OwnerDead`. It may also get it after a rank that failed
//!   while it acquired or released.
//! - Any number of ranks may fail. Where a rank's memory ends with it, the rank with the lock's words must not fail. No rank
//!   reads the words of a rank that has failed. A place that no live rank claims belonged to a failed rank.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, livelocks included. Under sequential
//!   consistency, and with posted puts that arrive late or are lost: 3 ranks × 1 acquisition and 2 × 2, each with one
//!   failure at any step and without. On request (`--long`), without livelocks: 3 × 2 with one failure, and 3 × 1 with two.
//!
//! # State
//! A pointer is a rank plus one, with the number of its acquisition (22 bits) from bit 32 on.
//!
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | nil, or the pointer of the last rank in the queue |
//! | repairer | words + 8 | 8 | home | as in [`robust-tas`](crate::robust_tas): the rank that repairs |
//! | next | node + 0 | 8 | each rank | the number alone: no successor; the pointer of the successor; GRANTED |
//! | grant | node + 8 | 8 | each rank | the number of the last acquisition that waited and was granted; bit 63: not recoverable |
//! | announced | node + 16 | 8 | each rank | what the rank does: nothing, takes a place, has a place behind a pointer, looks for a successor |
//!
//! # Invariants
//! - I1: from the start of its swap to the end of its release, a live rank announces its place. While the announcement may
//!   be older than the swap of the tail, it shows that, and a repair waits for it. A rank that finds the tail nil shows that until
//!   it releases, since no other rank can enter meanwhile. If it also leaves the tail nil, its number has been in no other rank's
//!   hands, and is that of its next acquisition, too.
//! - I2: ranks that wait form chains by the pointers they announce. At most one chain of live ranks begins with a rank that
//!   holds the lock or was granted it. All others begin behind a rank that has failed.
//! - I3: only the rank that holds `repairer` moves such a chain, after it has silenced the failed ranks that it knows.
//!   It moves the chain behind the tail or behind the first chain. If there is no first chain and the tail is in the
//!   chain itself, the chain's first rank enters.
//!
//! # Memory ordering
//! If other ranks may see a step elsewhere, its announcement is complete before the step. These steps are: a rank takes a
//! place, and a rank looks for a successor. The announcements of a repair are complete before the next repair begins.
//! Links and grants are posted. Each has the number of its acquisition, so none can be taken for another.
//!
//! # Deviations from the paper
//! The paper's ranks come back and recover their own place. Here they do not come back, and survivors go on without
//! them.
//!
//! # Cost
//! Remote operations without a failure, as in `mcs`: acquire 1 (swap), release 1 (compare-and-swap); with a predecessor
//! acquire 2, with a successor release 1. In addition, a rank writes its own words. A repair reads each live rank's word
//! twice or more.

use rmalab_atomics::{Address, Disp, Error as AtomicsError, RemoteAtomics, Until, WORD};

use crate::backoff::Backoff;
use crate::own::Own;
use crate::qnode::{NIL, rank_of};
use crate::recoverable::{self, Entry, Recoverable};
use crate::robust_tas::RobustTas;
use crate::word_ref::{ANNOUNCED, GRANT, HAS, NEXT, NUMBERS, Node, OUTSIDE, RANKS, TAKES, WordRef, says};
use crate::{Error, Place, RawMutex, Result};

mod repair;

use repair::Placed;

/// `next` of a rank that has granted the lock: no rank has this number.
const GRANTED: u64 = u32::MAX as u64;
/// The grant of a rank whose numbers begin again: none of these.
const NO_GRANT: u64 = 1 << 24;
/// In `grant` and `tail`: no rank can acquire the lock any more.
const NOT_RECOVERABLE: u64 = 1 << 63;
/// The announcement of this lock, in addition to the common kinds: the rank looks for a successor.
const LOOKS: u64 = 3;

/// One rank's handle of a robust MCS mutex.
#[derive(Debug)]
pub struct RobustMcs {
    tail: Address,
    node: Node,
    /// The number of the acquisition.
    number: u64,
    /// True if no other rank has been behind this number, so that it serves for another acquisition.
    is_unseen: bool,
    /// True if the present acquisition goes on after failures.
    recovers: bool,
    /// The value that the release leaves: nil, or [`NOT_RECOVERABLE`].
    leaves: u64,
    repairs: RobustTas,
}

impl RawMutex for RobustMcs {
    const NAME: &'static str = "robust-mcs";
    const WORDS: u64 = 2 * WORD;
    const NODE: u64 = Node::BYTES;
    const NODE_AT_REST: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<RobustMcs> {
        if ra.size() > RANKS {
            return Err(Error::TooManyRanks { lock: RobustMcs::NAME, size: ra.size(), limit: RANKS });
        }
        let of_repairs = Place { words: place.words.word(1), ..place };
        let repairs = RobustTas::bind(ra, of_repairs, Backoff { min: 1, max: 1 })?;
        let (tail, node) = (place.word(0), Node::new(ra.rank(), place.node));
        Ok(RobustMcs { tail, node, number: 0, is_unseen: false, recovers: false, leaves: NIL, repairs })
    }

    #[inline(always)]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        match self.take(ra, false)? {
            NIL => Ok(()),
            before => recoverable::refused(ra, self.enter_behind(ra, before)?),
        }
    }

    #[inline(always)]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let own = self.node.own(ra);
        let next = own.get(NEXT)?;
        if next as u32 == 0 && self.leaves_last(&own)? {
            return Ok(());
        }
        self.hand_over(ra, next)
    }
}

impl Recoverable for RobustMcs {
    #[inline(always)]
    fn recoverable_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        match self.take(ra, true)? {
            NIL => Ok(Entry::Clean),
            before => recoverable::by_value(self.enter_behind(ra, before)),
        }
    }

    fn release_unrecovered<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.leaves = NOT_RECOVERABLE;
        self.release(ra)
    }
}

// The steps of an acquisition without contention are inlined. The others are out of line, as in `mcs`.
impl RobustMcs {
    fn pointer(&self) -> u64 {
        self.node.pointer(self.number)
    }

    /// `next` without a successor.
    fn open(&self) -> u64 {
        self.number << 32
    }

    fn announce<A: RemoteAtomics + ?Sized>(&self, ra: &A, what: u64, behind: u64) -> Result<()> {
        self.node.own(ra).put(ANNOUNCED, WordRef { what, rank: self.pointer(), behind }.word())
    }

    fn leave<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        self.node.own(ra).put(ANNOUNCED, OUTSIDE)
    }

    /// Takes a place, and returns the old value of `tail`. If that is nil, this rank is inside.
    #[inline(always)]
    fn take<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, recovers: bool) -> Result<u64> {
        let own = self.node.own(ra);
        // The swap waits for each store. So a number that no other rank has seen stays, and `next` with it.
        if self.recovers != recovers {
            self.recovers = recovers;
        }
        if !self.is_unseen {
            self.count_on(ra)?;
        }
        own.post(ANNOUNCED, says(TAKES, self.number))?;
        own.order()?;
        let before = ra.fetch_store(self.tail.unwatched(), self.pointer())?;
        if before != NIL {
            self.is_unseen = false;
        }
        Ok(before)
    }

    /// Takes the next number.
    #[cold]
    fn count_on<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let own = self.node.own(ra);
        self.number = (self.number + 1) & NUMBERS;
        if self.number == 0 {
            own.put(GRANT, NO_GRANT)?;
        }
        own.put(NEXT, self.open())?;
        self.is_unseen = true;
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn enter_behind<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, before: u64) -> Result<Entry> {
        if before == NOT_RECOVERABLE {
            self.announce(ra, HAS, NIL)?;
            return self.give_up(ra);
        }
        self.announce(ra, HAS, before)?;
        self.wait_behind(ra, before)
    }

    /// Releases the lock if no rank is behind this one.
    #[inline(always)]
    fn leaves_last<A: RemoteAtomics + ?Sized>(&self, own: &Own<'_, A, { Node::WORDS }>) -> Result<bool> {
        let (ra, pointer) = (own.handle(), self.pointer());
        if !self.is_unseen {
            own.post(ANNOUNCED, says(LOOKS, self.number))?;
            own.order()?;
        }
        let is_last = ra.compare_and_swap(self.tail.unwatched(), pointer, self.leaves)? == pointer;
        own.post(ANNOUNCED, if is_last { OUTSIDE } else { says(HAS, self.number) })?;
        Ok(is_last)
    }

    /// Releases the lock to the rank behind this one. `next` is this rank's word. While it names no rank, the link is
    /// under way.
    #[cold]
    #[inline(never)]
    fn hand_over<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, mut next: u64) -> Result<()> {
        self.is_unseen = false;
        loop {
            if next as u32 != 0 {
                if ra.compare_and_swap(self.node.next_of(self.pointer()), next, GRANTED)? == next {
                    let granted = ra.put(self.node.grant_of(next), next >> 32 | self.leaves);
                    if self.recovers {
                        // A rank that has failed is as good as granted, and the ranks behind it repair.
                        recoverable::unless_lost(granted)?;
                    } else {
                        granted?;
                    }
                    return self.leave(ra);
                }
                // A repair has changed the link.
                next = self.node.own(ra).get(NEXT)?;
                continue;
            }
            // A failure that this rank has acknowledged does not end the wait for the link.
            if self.recovers {
                let failed = recoverable::acknowledged(ra)?;
                recoverable::check_home(ra, self.tail.rank, &failed)?;
                if !failed.is_empty() && self.leave_to_another(ra)? {
                    return Ok(());
                }
            }
            next = self.changes(ra, self.node.next, self.open())?;
        }
    }

    /// Makes the next rank learn that no rank can acquire the lock any more.
    #[cold]
    fn give_up<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.leaves = NOT_RECOVERABLE;
        self.release(ra)?;
        Err(Error::NotRecoverable { lock: RobustMcs::NAME })
    }

    fn wait_behind<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, mut before: u64) -> Result<Entry> {
        let mut linked = false;
        let mut grant = self.node.own(ra).get(GRANT)?;
        loop {
            if self.recovers {
                let failed = recoverable::acknowledged(ra)?;
                recoverable::check_home(ra, self.tail.rank, &failed)?;
                if failed.contains(rank_of(before)) {
                    match self.repair(ra)? {
                        Placed::Inside(entry) => return Ok(entry),
                        Placed::Behind(other, has_link) => (before, linked) = (other, has_link),
                        Placed::NotRecoverable => return self.give_up(ra),
                    }
                    continue;
                }
            }
            if !linked {
                match ra.put(self.node.next_of(before), self.pointer()) {
                    Ok(()) => linked = true,
                    // It has failed, and is known to by now.
                    Err(AtomicsError::PeerFailed { .. }) if self.recovers => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            if grant == self.number {
                return Ok(Entry::Clean);
            }
            if grant == self.number | NOT_RECOVERABLE {
                return self.give_up(ra);
            }
            // Only a grant for this acquisition changes the word.
            grant = self.changes(ra, self.node.grant, grant)?;
        }
    }

    /// Waits until a word of this rank's node differs from `old`, or another rank has failed. Returns the word's value.
    fn changes<A: RemoteAtomics + ?Sized>(&self, ra: &A, word: Disp, old: u64) -> Result<u64> {
        match ra.wait_until(word, Until::Ne(old)) {
            Ok(value) => Ok(value),
            Err(AtomicsError::PeerFailed { .. }) if self.recovers => Ok(old),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod deaths;
#[cfg(test)]
mod tests;
