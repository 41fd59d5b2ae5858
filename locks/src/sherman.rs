//! Sherman's hierarchical lock: one rank of a node at a time competes for one word, and passes it on within its node.
//!
//! # Paper
//! Q. Wang, Y. Lu and J. Shu, "Sherman: A Write-Optimized Distributed B+Tree Index on Disaggregated Memory", SIGMOD 2022,
//! DOI 10.1145/3514221.3517824: its hierarchical on-chip lock.
//!
//! # Properties
//! - Mutual exclusion. First come, first served among the ranks of a node. Nodes compete without an order, so a node may starve.
//! - Ranks of a node pass the lock on `max` - 1 times in a row, without an operation on the home.
//! - Only one rank of a node polls the home. The others wait on their own words.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, with `max` of 2. Under sequential consistency and
//!   with posted puts that arrive late: 3 ranks × 2 and 4 × 1 on two nodes of two, and 3 × 2 on one node. With data and bulk puts
//!   in any order: 3 × 1 on two nodes.
//!
//! # State
//! The *first* is the first rank of a node, or of a block of ranks.
//!
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | global | words + 0 | 8 | home | nil, or the pointer of the rank that has acquired it for its node |
//! | next | node + 0 | 8 | each rank | nil, or the pointer of the successor in the node's queue |
//! | turn | node + 8 | 8 | each rank | 0, or what the predecessor hands over: 1 the node's lock, 1 + d: the global one too, held d times in a row |
//! | local_tail | node + [`LINE`] | 8 | first | nil, or the pointer of the last rank of the node's queue |
//!
//! # Invariants
//! - I1: each node's lock is an MCS mutex ([`crate::mcs`]). Only the rank that holds it acquires or releases `global` for the node.
//! - I2: `global` changes from nil by a compare-and-swap, and to nil by the put of the one rank that holds the lock. So at most one put
//!   is under way, and no other rank changes the word before that put arrives.
//! - I3: a rank that gets the global lock from its predecessor is the only one that may reset `global`.
//!
//! # Memory ordering
//! The put that resets `global` may be late. That delays the next compare-and-swap, even one by the same rank, and is harmless (I2).
//! Links and wake-ups are posted puts. A rank resets its words by posted puts, and orders them ahead of the swap that makes it
//! visible in a queue again.
//!
//! # Deviations from the paper
//! - One word belongs to one lock. In the paper, tree nodes hash to a table of small words in the adapter's memory. There,
//!   two nodes of the tree may share a word, and a rank that locks both waits for itself.
//! - In the paper one batch, which the network keeps in order, has the data and the reset of the word. Here the next holder sees all
//!   that the holder has flushed before the release.
//! - The node's lock is an MCS queue. In the authors' code it is a ticket lock, which the threads of one process poll.
//! - A rank polls without limit, with backoff. In the authors' code a process ends itself after a million polls that found the
//!   same holder.
//!
//! # Cost
//! Remote operations without contention, for the first of a node: acquire 1 (compare-and-swap), release 1 (put). Other ranks of the node
//! need 1 more to acquire and 1 more to release, on the node. A rank that gets the lock from a rank of its node: acquire 2 (swap, put),
//! on the node, and none at the home; release to such a rank 1 (put). Each further poll of the home adds 1.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::cohort::block;
use crate::error::at_least_one;
use crate::qnode::{NIL, pointer, rank_of};
use crate::{LINE, Place, RawMutex, Result};

/// In `turn`: the node's lock without the global one. A larger value is the global lock, and the number of times that it was
/// held in a row.
const LOCAL: u64 = 1;

/// The parameters of [`Sherman`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ShermanParams {
    /// The number of ranks of a node that hold the lock in a row; at least 1.
    pub max: u32,
    /// The number of ranks that share a local lock, in blocks from rank 0 on; 0 for the ranks of a node, as in
    /// [`CohortParams`](crate::CohortParams).
    pub ranks: u32,
    /// How a rank polls the home.
    pub backoff: Backoff,
}

impl Default for ShermanParams {
    /// The bound of the authors' code, and one local lock for each node.
    fn default() -> ShermanParams {
        ShermanParams { max: 8, ranks: 0, backoff: Backoff::default() }
    }
}

/// One rank's handle of Sherman's hierarchical lock.
#[derive(Debug)]
pub struct Sherman {
    global: Address,
    local_tail: Address,
    next: Disp,
    turn: Disp,
    /// The pointer to this rank.
    me: u64,
    max: u32,
    /// While this rank holds the lock: the number of times in a row that the node has held it before.
    d: u32,
    backoff: BackoffState,
}

impl RawMutex for Sherman {
    const NAME: &'static str = "sherman";
    const WORDS: u64 = WORD;
    const NODE: u64 = LINE + WORD;
    type Params = ShermanParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: ShermanParams) -> Result<Sherman> {
        let ranks = block(ra, params.ranks);
        let first = Rank(ra.rank().0 / ranks * ranks);
        Ok(Sherman {
            global: place.word(0),
            local_tail: first.at(place.node.plus(LINE)).unwatched(),
            next: place.node,
            turn: place.node.word(1),
            me: pointer(ra.rank()),
            max: at_least_one(Self::NAME, "max", params.max)?,
            d: 0,
            backoff: BackoffState::new(params.backoff, ra.rank()),
        })
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        let pred = ra.fetch_store(self.local_tail, self.me)?;
        if pred != NIL {
            ra.put(rank_of(pred).at(self.next), self.me)?;
            let turn = ra.wait_until(self.turn, Until::Ne(0))?;
            ra.put(ra.rank().at(self.turn), 0)?;
            if turn > LOCAL {
                self.d = (turn - LOCAL) as u32;
                return Ok(());
            }
        }
        self.d = 0;
        self.backoff.reset();
        while ra.compare_and_swap(self.global, NIL, self.me)? != NIL {
            self.backoff.wait(ra)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let d = self.d + 1;
        let mut next = ra.get(ra.rank().at(self.next))?;
        let mut turn = LOCAL;
        if next != NIL && d < self.max {
            turn += u64::from(d);
        } else {
            // Before the release of the node's lock, for I2.
            ra.put(self.global, NIL)?;
            if next == NIL {
                if ra.compare_and_swap(self.local_tail, self.me, NIL)? == self.me {
                    return Ok(());
                }
                next = ra.wait_until(self.next, Until::Ne(NIL))?;
            }
        }
        ra.put(rank_of(next).at(self.turn), turn)?;
        Ok(ra.put(ra.rank().at(self.next), NIL)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{Exclusive, RawRwLock, suite};

    fn params(max: u32, ranks: u32) -> ShermanParams {
        ShermanParams { max, ranks, ..ShermanParams::default() }
    }

    #[test]
    fn conforms() {
        suite::mutex::<Sherman>(ShermanParams::default());
        suite::mutex::<Sherman>(params(2, 2));
        suite::mutex::<Sherman>(params(1, 1));
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Sherman>(ShermanParams::default()), (1, 1));
    }

    /// Five ranks of a node acquire in their order. The first one holds the lock until all are linked. Returns the value of `global`
    /// while each of them holds the lock.
    fn globals(max: u32) -> Vec<u64> {
        let globals = Mutex::new(Vec::new());
        suite::scenario::<Exclusive<Sherman>>(5, params(max, 5), |ra, mut lock, place, _| {
            let local_tail = Rank(0).at(place.node.plus(LINE));
            let arrived = |rank: u32| suite::poll(ra, local_tail, move |tail| tail == pointer(Rank(rank)));
            if let Some(before) = ra.rank().0.checked_sub(1) {
                arrived(before)?;
            }
            lock.acquire_write(ra)?;
            if ra.rank() == Rank(0) {
                for before in (0..4).map(Rank) {
                    suite::poll(ra, before.at(place.node), |next| next != NIL)?;
                }
            }
            globals.lock().unwrap().push(ra.get(place.word(0))?);
            lock.release_write(ra)
        });
        globals.into_inner().unwrap()
    }

    #[test]
    fn a_node_passes_the_lock_on_up_to_the_bound() {
        let acquired_by = |ranks: [u32; 5]| ranks.map(|rank| pointer(Rank(rank))).to_vec();
        assert_eq!(globals(8), acquired_by([0; 5]));
        assert_eq!(globals(3), acquired_by([0, 0, 0, 3, 3]));
        assert_eq!(globals(1), acquired_by([0, 1, 2, 3, 4]));
    }

    #[test]
    fn each_node_queues_at_its_first_rank() {
        suite::scenario::<Exclusive<Sherman>>(6, params(1, 2), |ra, mut lock, place, _| {
            lock.acquire_write(ra)?;
            let first = [0, 0, 2, 2, 4, 4].map(Rank)[ra.rank().0 as usize];
            assert_ne!(ra.get(first.at(place.node.plus(LINE)))?, NIL, "the queue of {}", ra.rank());
            lock.release_write(ra)
        });
    }
}
