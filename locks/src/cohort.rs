//! A cohort lock: the ranks of a node pass a mutex among themselves, a bounded number of times, before another node gets it.
//!
//! # Paper
//! D. Dice, V. J. Marathe and N. Shavit, "Lock Cohorting: A General Technique for Designing NUMA Locks", PPoPP 2012,
//! DOI 10.1145/2145816.2145848: its lock with MCS queues both locally and globally (C-MCS-MCS).
//!
//! # Properties
//! - Mutual exclusion. First come, first served among the ranks of a cohort, and among cohorts. In each turn of a cohort, at
//!   most `may_pass_local` other ranks overtake a rank. So no rank starves in a fair schedule. The bypass below is
//!   `unbounded`, since it includes schedules in which the first of a waiting cohort makes no progress.
//! - Every wait is on words of the waiter's segment: no rank polls.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, on two nodes. Under sequential
//!   consistency: two ranks on each, twice each. With posted puts that arrive late: two on each, once each, and three
//!   ranks twice each on two nodes, on three and on one. With data and bulk puts in any order: three ranks once each.
//!
//! # State
//! A *cohort* is a block of ranks, by default the ranks of a node. The *first* is its first rank.
//!
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | global_tail | words + 0 | 8 | home | nil, or the pointer to the first of the last cohort in the global queue |
//! | next | node + 0 | 8 | each rank | nil, or the pointer to the successor in the local queue |
//! | state | node + 8 | 8 | each rank | 0, or what the predecessor in the local queue hands over: 1 GLOBAL RELEASE, 1 + k: the global lock, passed on k times |
//! | global | node + 16 | 8 | each rank | 0, or 1 once the rank's wait in the global queue is over |
//! | local_tail | node + [`LINE`] | 8 | first | nil, or the pointer to the last rank of the local queue |
//! | global_next | node + [`LINE`] + 8 | 8 | first | nil, or the pointer to the rank that acquires for the next cohort, or to the releasing rank that waits for that one |
//!
//! # Invariants
//! - I1: a cohort is in the global queue from a global acquire by one of its ranks until the global release. Another of its
//!   ranks may make that release. In between, the local lock goes from rank to rank together with the global one.
//! - I2: a rank that acquires or releases the global lock holds the local lock. So at most one rank acts for a cohort at any
//!   time. The cohort is to the global queue what a thread is to an MCS lock, and its node is at the first.
//! - I3: `global_next` is nil when the cohort enters the global queue. The cohort's last release has reset it, and completed
//!   the reset, before it released the local lock.
//! - I4: a successor announces itself in `global_next`, and a releasing rank waits for it there. Both steps are atomic on one
//!   word, so the later of the two ranks finds the earlier one. It then enters, or hands over, and wakes the earlier one.
//!
//! # Memory ordering
//! The swaps on the tails order the queues. Links and wake-ups in the local queue are posted puts, as in [`crate::mcs`]. A
//! rank resets its own words by posted puts, and orders them ahead of the swap that makes it visible in a queue again.
//!
//! # Deviations from the paper
//! - The rank that releases the global lock may be another one than the rank that acquired it. In the paper, threads
//!   trade their nodes for that purpose. Here the node of the global queue belongs to the cohort, and the links name the
//!   rank to wake.
//! - A releasing rank cannot wait for a link in another rank's memory, where the paper spins. It writes its own pointer
//!   instead of the link, and the successor wakes it (I4).
//! - The words are zero at rest, which inverts the flags, as in [`crate::qnode`].
//!
//! # Cost
//! Remote operations without contention, for the first of a cohort: acquire 1 (swap), release 1 (compare-and-swap). Other
//! ranks of the cohort need 1 more to acquire and 2 more to release, all to the first's memory on the same node. A release
//! to a rank of the same cohort is 1 (put), on the same node.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until, WORD};

use crate::qnode::{NIL, pointer, rank_of};
use crate::{LINE, Place, RawMutex, Result};

/// In `state`: the local lock without the global one. A larger value is the global lock and the number of its passes.
const GLOBAL_RELEASE: u64 = 1;

/// The parameters of [`Cohort`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CohortParams {
    /// The number of times in a row that the lock may be passed on within a cohort.
    pub may_pass_local: u32,
    /// The number of ranks of a cohort, in blocks from rank 0 on; 0 for the ranks of a node. Where the ranks of a node
    /// are not a block, a cohort spans nodes. The lock is still correct, but its operations are not local.
    pub ranks: u32,
}

impl Default for CohortParams {
    /// The bound of the paper's experiments, and the ranks of a node as a cohort.
    fn default() -> CohortParams {
        CohortParams { may_pass_local: 64, ranks: 0 }
    }
}

/// Returns the number of ranks in a block: `ranks`, or the number of ranks of a node if `ranks` is 0.
pub(crate) fn block<A: RemoteAtomics + ?Sized>(ra: &A, ranks: u32) -> u32 {
    if ranks == 0 { ra.topology().ranks_per_node().max(1) } else { ranks }
}

/// One rank's handle of a cohort lock.
#[derive(Debug)]
pub struct Cohort {
    may_pass_local: u32,
    /// The number of times that the lock has been passed on in this cohort's turn.
    passes: u32,
    global_tail: Address,
    local_tail: Address,
    /// This cohort's.
    global_next: Address,
    next: Disp,
    state: Disp,
    global: Disp,
    /// The pointer to this rank.
    me: u64,
    /// The pointer to the first rank of its cohort.
    cohort: u64,
}

impl RawMutex for Cohort {
    const NAME: &'static str = "cohort";
    const WORDS: u64 = WORD;
    const NODE: u64 = LINE + 2 * WORD;
    type Params = CohortParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: CohortParams) -> Result<Cohort> {
        let ranks = block(ra, params.ranks);
        let first = Rank(ra.rank().0 / ranks * ranks);
        let of_cohort = place.node.plus(LINE);
        Ok(Cohort {
            may_pass_local: params.may_pass_local,
            passes: 0,
            global_tail: place.word(0),
            local_tail: first.at(of_cohort).unwatched(),
            global_next: first.at(of_cohort.word(1)).unwatched(),
            next: place.node,
            state: place.node.word(1),
            global: place.node.word(2),
            me: pointer(ra.rank()),
            cohort: pointer(first),
        })
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        let pred = ra.fetch_store(self.local_tail, self.me)?;
        if pred != NIL {
            ra.put(rank_of(pred).at(self.next), self.me)?;
            let state = ra.wait_until(self.state, Until::Ne(0))?;
            ra.put(ra.rank().at(self.state), 0)?;
            if state > GLOBAL_RELEASE {
                self.passes = (state - GLOBAL_RELEASE) as u32;
                return Ok(());
            }
        }
        self.passes = 0;
        self.acquire_global(ra)
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut next = ra.get(ra.rank().at(self.next))?;
        let mut state = GLOBAL_RELEASE;
        if next != NIL && self.passes < self.may_pass_local {
            state += u64::from(self.passes) + 1;
        } else {
            // Before the local lock, for I2.
            self.release_global(ra)?;
            if next == NIL {
                if ra.compare_and_swap(self.local_tail, self.me, NIL)? == self.me {
                    return Ok(());
                }
                next = ra.wait_until(self.next, Until::Ne(NIL))?;
            }
        }
        ra.put(rank_of(next).at(self.state), state)?;
        Ok(ra.put(ra.rank().at(self.next), NIL)?)
    }
}

impl Cohort {
    fn acquire_global<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        let pred = ra.fetch_store(self.global_tail, self.cohort)?;
        if pred == NIL {
            return Ok(());
        }
        let releasing = ra.fetch_store(rank_of(pred).at(self.global_next.disp).unwatched(), self.me)?;
        if releasing == NIL {
            self.wait_global(ra)
        } else {
            // I4: the lock is free, and the rank that has released it waits for this link.
            Ok(ra.put(rank_of(releasing).at(self.global), 1)?)
        }
    }

    fn release_global<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        let mut succ = ra.get(self.global_next)?;
        if succ == NIL {
            if ra.compare_and_swap(self.global_tail, self.cohort, NIL)? == self.cohort {
                return Ok(());
            }
            // The reset of `global` may be under way, and another rank may set it again from here on.
            ra.order(ra.rank())?;
            succ = ra.compare_and_swap(self.global_next, NIL, self.me)?;
        }
        if succ == NIL {
            self.wait_global(ra)?;
            ra.fetch_store(self.global_next, NIL)?;
            return Ok(());
        }
        // Complete before the local lock is released (I3).
        ra.fetch_store(self.global_next, NIL)?;
        Ok(ra.put(rank_of(succ).at(self.global), 1)?)
    }

    /// Waits until another rank has set `global`, and resets it.
    fn wait_global<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        ra.wait_until(self.global, Until::Ne(0))?;
        Ok(ra.put(ra.rank().at(self.global), 0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exclusive, RawRwLock, suite};

    fn params(may_pass_local: u32, ranks: u32) -> CohortParams {
        CohortParams { may_pass_local, ranks }
    }

    #[test]
    fn conforms() {
        suite::mutex::<Cohort>(CohortParams::default());
        suite::mutex::<Cohort>(params(1, 2));
    }

    #[test]
    fn cohorts_are_served_in_order() {
        suite::mutex_order::<Cohort>(params(64, 1), |rank| (0, pointer(rank)));
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Cohort>(CohortParams::default()), (1, 1));
    }

    /// The order of service. Rank 0 holds the lock until rank 4 of the other cohort has arrived, and then ranks 1 to 3 of its own cohort.
    fn served(may_pass_local: u32) -> Vec<u32> {
        let served = std::sync::Mutex::new(Vec::new());
        suite::scenario::<Exclusive<Cohort>>(5, params(may_pass_local, 4), |ra, mut lock, place, _| {
            let (rank, global_tail) = (ra.rank().0, place.word(0));
            let local_tail = Rank(0).at(place.node.plus(LINE));
            let is = |at, rank| suite::poll(ra, at, |tail| tail == pointer(Rank(rank)));
            match rank {
                0 => {}
                4 => drop(is(global_tail, 0)?),
                1 => drop(is(global_tail, 4)?),
                _ => drop(is(local_tail, rank - 1)?),
            }
            lock.acquire_write(ra)?;
            if rank == 0 {
                is(local_tail, 3)?;
                for rank in 0..3 {
                    suite::poll(ra, Rank(rank).at(place.node), |next| next != NIL)?;
                }
            }
            served.lock().unwrap().push(rank);
            lock.release_write(ra)
        });
        served.into_inner().unwrap()
    }

    #[test]
    fn the_lock_is_passed_on_within_the_cohort_up_to_the_bound() {
        assert_eq!(served(0), [0, 4, 1, 2, 3]);
        assert_eq!(served(1), [0, 1, 4, 2, 3]);
        assert_eq!(served(2), [0, 1, 2, 4, 3]);
        assert_eq!(served(64), [0, 1, 2, 3, 4]);
    }
}
