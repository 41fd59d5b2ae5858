//! The recoverable MCS mutex for ranks that come back: a rank that returns repairs the queue where its failure has torn
//! it.
//!
//! # Paper
//! The problem, recoverable mutual exclusion: W. Golab and A. Ramaraju, "Recoverable Mutual Exclusion", PODC 2016, DOI
//! 10.1145/2933057.2933087. The lock is [`mcs`](crate::mcs): J. M. Mellor-Crummey and M. L. Scott, ACM Transactions on
//! Computer Systems 9(1), 1991, DOI 10.1145/103727.103729. The cases of the repair come from P. Jayanti, S. Jayanti and A.
//! Joshi, "A Recoverable Mutex Algorithm with Sub-logarithmic RMR on Both CC and DSM", PODC 2019, arXiv 1904.02124.
//!
//! # Properties
//! - Mutual exclusion among all ranks, including ranks that are down. A rank that fails inside keeps the lock, and is inside
//!   again when it has come back.
//! - A rank may fail between any two of its calls, and any number of times. It has to come back, unless it has failed while it
//!   had no place: other ranks may wait for it until then. No rank has to notice a failure.
//! - First come, first served until the first failure.
//! - Every wait is on the waiter's own node, except in a repair.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, livelocks included. Under sequential
//!   consistency, and with posted puts that arrive late or are lost: 3 ranks × 1 acquisition and 2 × 2, each with up to two
//!   failures at any step and returns. Without failures: 3 × 2.
//!
//! # State
//! A pointer is a rank plus one, with the number of its acquisition (22 bits) from bit 32 on.
//!
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | nil, or the pointer of the last rank in the queue |
//! | repairer | words + 8 | 8 | home | as in [`tas`](crate::tas): the rank that repairs |
//! | next | node + 0 | 8 | each rank | the number alone: no successor; or the pointer of the successor |
//! | grant | node + 8 | 8 | each rank | the number, and from bit 0 on 1 if this acquisition is granted |
//! | announced | node + 16 | 8 | each rank | what the rank does, its number, and the pointer that it is behind |
//!
//! | announced | the rank | when it comes back |
//! | --- | --- | --- |
//! | OUTSIDE | has no place | it is idle |
//! | TAKES | may have taken a place, and no rank knows behind which one | it has LOST its predecessor |
//! | HAS | has a place behind a pointer; behind nil it is the first | it links itself again, waits for its grant, and is inside |
//! | LOST | has come back from TAKES | it repairs the queue, waits, and is inside |
//! | LEAVES | releases | it does the release again, as far as needed |
//! | AWAITS | releases, and waits for the link of the rank behind it | it goes on waiting, and grants |
//!
//! # Invariants
//! - I1: each rank's announcement holds at any time. It is complete before any step that another rank can see and that the
//!   earlier announcement does not allow.
//! - I2: the ranks whose predecessor is known form chains. While no rank TAKES or LEAVES, at most one chain begins with a rank that
//!   is inside or granted, or has yet to grant. Such a rank HAS a place behind nil or behind a rank that has left, or it AWAITS.
//!   Each other chain begins with a rank that has LOST its predecessor.
//! - I3: a rank leaves only when no rank has a place behind it, or when it has granted the rank behind it. It grants only
//!   while it announces that it LEAVES.
//! - I4: only the rank that holds `repairer` moves its chain. It moves the chain behind the tail, or, if the tail is in the chain
//!   itself, behind the one chain of I2 that is not lost. If there is none, its chain is first, and no rank finds `tail` nil
//!   meanwhile.
//!
//! # Memory ordering
//! Announcements are puts to the rank's own memory, ordered or complete as I1 requires. Links of an acquire are posted. A rank that has come
//! back makes its links and grants by compare-and-swap. Each `next` and `grant` has the number of its acquisition, so a step that is
//! repeated too late changes nothing.
//!
//! # Deviations from the paper
//! The paper's lock has a node for each acquisition, and its repairs are under a recoverable lock of its own. Here a rank has one node,
//! whose words are numbered. A rank that comes back first gives up its unfinished repair. Numbers wrap around: a rank must not be down
//! while another rank acquires 4 million times.
//!
//! # Cost
//! Remote operations without a failure, as in `mcs`: acquire 1 (swap), release 1 (compare-and-swap); with a predecessor
//! acquire 2, with a successor release 1. In addition, a rank writes its own words. A repair reads each rank's word twice
//! or more.

use rmalab_atomics::{Address, Rank, RemoteAtomics, Until, WORD};

use crate::backoff::Backoff;
use crate::qnode::{NIL, pointer};
use crate::recoverable::{Resumable, Stage};
use crate::word_ref::{ANNOUNCED, GRANT, HAS, NEXT, NUMBERS, Node, OUTSIDE, RANKS, TAKES, WordRef, chain, says};
use crate::{Error, Place, RawMutex, RawMutexTry, Result, Tas};

/// The announcements of this lock, in addition to the common kinds.
const LOST: u64 = 3;
const LEAVES: u64 = 4;
const AWAITS: u64 = 5;

/// One rank's handle of a recoverable MCS mutex.
#[derive(Debug)]
pub struct RmeMcs {
    tail: Address,
    repairer: Address,
    node: Node,
    /// The number of the acquisition.
    number: u64,
    repairs: Tas,
}

impl RawMutex for RmeMcs {
    const NAME: &'static str = "rme-mcs";
    const WORDS: u64 = 2 * WORD;
    const NODE: u64 = Node::BYTES;
    const NODE_AT_REST: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<RmeMcs> {
        if ra.size() > RANKS {
            return Err(Error::TooManyRanks { lock: RmeMcs::NAME, size: ra.size(), limit: RANKS });
        }
        let of_repairs = Place { words: place.words.word(1), ..place };
        let repairs = Tas::bind(ra, of_repairs, Backoff { min: 1, max: 1 })?;
        let node = Node::new(ra.rank(), place.node);
        Ok(RmeMcs { tail: place.word(0), repairer: place.word(1), node, number: 0, repairs })
    }

    #[inline(always)]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let (own, number) = (self.node.own(ra), if self.number == NUMBERS { 1 } else { self.number + 1 });
        self.number = number;
        own.post(NEXT, number << 32)?;
        own.post(GRANT, number << 1)?;
        own.post(ANNOUNCED, says(TAKES, number))?;
        own.order()?;
        let pred = ra.fetch_store(self.tail.unwatched(), self.node.pointer(number))?;
        if pred != NIL {
            return self.enter_behind(ra, pred);
        }
        own.post(ANNOUNCED, says(HAS, number))?;
        own.order()
    }

    #[inline(always)]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let (own, number) = (self.node.own(ra), self.number);
        own.post(ANNOUNCED, says(LEAVES, number))?;
        own.order()?;
        let next = own.get(NEXT)?;
        if next != number << 32 {
            return self.hand_over(ra, next);
        }
        let pointer = self.node.pointer(number);
        if ra.compare_and_swap(self.tail.unwatched(), pointer, NIL)? != pointer {
            self.announce(ra, AWAITS, NIL)?;
            return self.hand_over_to_next(ra);
        }
        own.post(ANNOUNCED, says(OUTSIDE, number))
    }
}

impl Resumable for RmeMcs {
    #[cold]
    fn resume<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<(RmeMcs, Stage)> {
        let mut lock = RmeMcs::bind(ra, place, ())?;
        // The steps of an unfinished repair leave the queue in the same state as a failure in an acquire.
        ra.compare_and_swap(lock.repairer, pointer(lock.node.me), NIL)?;
        let word_ref = WordRef::of(lock.node.me, lock.node.own(ra).get(ANNOUNCED)?);
        lock.number = word_ref.rank >> 32;
        let stage = match word_ref.what {
            OUTSIDE => Stage::Idle,
            HAS => {
                lock.wait_behind(ra, word_ref.behind)?;
                Stage::Inside
            }
            LEAVES => {
                lock.leave(ra)?;
                Stage::Idle
            }
            AWAITS => {
                lock.hand_over_to_next(ra)?;
                Stage::Idle
            }
            // TAKES, LOST
            _ => {
                lock.announce(ra, LOST, NIL)?;
                ra.flush(lock.node.me)?;
                let pred = lock.rejoin(ra)?;
                lock.wait_behind(ra, pred)?;
                Stage::Inside
            }
        };
        Ok((lock, stage))
    }
}

impl RmeMcs {
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

    #[inline(never)]
    fn enter_behind<A: RemoteAtomics + ?Sized>(&self, ra: &A, pred: u64) -> Result<()> {
        self.announce(ra, HAS, pred)?;
        ra.order(self.node.me)?;
        ra.put(self.node.next_of(pred), self.pointer())?;
        self.wait(ra)
    }

    /// Waits for the grant.
    fn wait<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        ra.wait_until(self.node.grant, Until::Ne(self.number << 1))?;
        Ok(())
    }

    /// Links this rank to `pred`, unless it is linked or was granted, and waits for the grant. Nil stands for no
    /// predecessor.
    fn wait_behind<A: RemoteAtomics + ?Sized>(&self, ra: &A, pred: u64) -> Result<()> {
        if pred == NIL {
            return Ok(());
        }
        ra.compare_and_swap(self.node.next_of(pred), pred >> 32 << 32, self.pointer())?;
        self.wait(ra)
    }

    #[inline(never)]
    fn hand_over<A: RemoteAtomics + ?Sized>(&self, ra: &A, next: u64) -> Result<()> {
        let (grant, number) = (self.node.grant_of(next), next >> 32);
        ra.compare_and_swap(grant, number << 1, number << 1 | 1)?;
        self.announce(ra, OUTSIDE, NIL)
    }

    /// Hands the lock over to the rank behind this one, once that rank has linked itself.
    #[inline(never)]
    fn hand_over_to_next<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        let next = ra.wait_until(self.node.next, Until::Ne(self.open()))?;
        self.announce(ra, LEAVES, NIL)?;
        ra.order(self.node.me)?;
        self.hand_over(ra, next)
    }

    /// Repeats a release that may already have taken its last step.
    fn leave<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.repairs.acquire(ra)?;
        let next = loop {
            let next = self.node.own(ra).get(NEXT)?;
            if next != self.open() || ra.compare_and_swap(self.tail, self.pointer(), NIL)? == self.pointer() {
                break Some(next);
            }
            // A rank that has taken the place behind this one announces it, unless it has lost it. No repair gives it back while
            // this rank announces that it leaves.
            let word_refs = self.look(ra)?;
            if !word_refs.iter().any(|word_ref| word_ref.what == TAKES) {
                let is_awaited =
                    word_refs.iter().any(|word_ref| word_ref.what == HAS && word_ref.behind == self.pointer());
                break (!is_awaited).then_some(next);
            }
            ra.pause(1)?;
        };
        if next.is_none() {
            self.announce(ra, AWAITS, NIL)?;
        }
        self.repairs.release(ra)?;
        match next {
            None => self.hand_over_to_next(ra),
            Some(next) if next == self.open() => self.announce(ra, OUTSIDE, NIL),
            Some(next) => self.hand_over(ra, next),
        }
    }

    /// Gives this rank, which has lost its predecessor, another predecessor or none.
    fn rejoin<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<u64> {
        loop {
            // Ahead of the first look, too, so that all rounds are alike.
            ra.pause(1)?;
            let word_refs = self.look(ra)?;
            // A rank that repeats its release needs `repairer`. So no rank waits for such a rank while it holds
            // `repairer`.
            let is_quiet = word_refs.iter().all(|word_ref| word_ref.what != TAKES && word_ref.what != LEAVES);
            if is_quiet && self.repairs.try_acquire(ra)? {
                let pred = self.find(ra, &word_refs)?;
                if let Some(pred) = pred {
                    self.announce(ra, HAS, pred)?;
                    ra.flush(self.node.me)?;
                }
                self.repairs.release(ra)?;
                if let Some(pred) = pred {
                    return Ok(pred);
                }
            }
        }
    }

    /// Returns the new predecessor of this rank, while it holds `repairer`; nil for none. Returns `None` unless the other
    /// ranks still announce `word_refs`, of which none takes a place or leaves.
    fn find<A: RemoteAtomics + ?Sized>(&self, ra: &A, word_refs: &[WordRef]) -> Result<Option<u64>> {
        let tail = ra.get(self.tail)?;
        // No announcement repeats. So all of these have held together, at a time after this look at the tail.
        if self.look(ra)? != word_refs {
            return Ok(None);
        }
        let (mine, last) = chain(word_refs, self.pointer());
        if !mine.contains(&tail) {
            return Ok(Some(ra.fetch_store(self.tail, last)?));
        }
        let has_left = |pointer| {
            let mut all = word_refs.iter().filter(|word_ref| word_ref.what != OUTSIDE).map(|word_ref| word_ref.rank);
            pointer != self.pointer() && all.all(|rank| rank != pointer)
        };
        let first = word_refs.iter().find(|word_ref| match word_ref.what {
            HAS => word_ref.behind == NIL || has_left(word_ref.behind),
            what => what == AWAITS,
        });
        Ok(Some(first.map_or(NIL, |first| chain(word_refs, first.rank).1)))
    }

    /// Returns the announcements of the other ranks.
    fn look<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<Vec<WordRef>> {
        let others = (0..ra.size()).map(Rank).filter(|&rank| rank != self.node.me);
        others.map(|rank| Ok(WordRef::of(rank, ra.get(self.node.announced_by(rank))?))).collect()
    }
}

#[cfg(test)]
mod tests;
