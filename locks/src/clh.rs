//! The CLH mutex: a queue without links, in which each rank waits until its predecessor has granted its request.
//!
//! # Paper
//! T. S. Craig, "Building FIFO and Priority-Queuing Spin Locks from Atomic Swap", University of Washington, technical report 93-02-02,
//! 1993. P. Magnusson, A. Landin, E. Hagersten, "Queue Locks on Cache Coherent Multiprocessors", IPPS 1994, DOI
//! 10.1109/IPPS.1994.288305. Words that stay with their ranks are from G. Graunke, S. Thakkar, "Synchronization Algorithms for
//! Shared-Memory Multiprocessors", IEEE Computer 23(6), 1990, DOI 10.1109/2.55501.
//!
//! # Properties
//! - Mutual exclusion; first come, first served, in the order of the swaps on `tail`.
//! - An acquisition without contention takes one atomic. Its release takes none: it is a put to a word of the rank itself.
//! - A waiter polls a word of its predecessor. No rank polls the home, and at most one rank polls each word.
//! - A rank cannot take its request back, so there is a try, but no deadline.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with posted puts that
//!   arrive late: 4 ranks × 2, 5 × 1, and 4 × 2 of which two try. Its order, sequentially consistent: 3 × 2. With data and bulk puts
//!   in any order: 2 × 2.
//!
//! # State
//! A *request* names one acquisition: the pointer of its rank in bits 31–0, and in bits 63–32 its number, by which the rank counts its
//! acquisitions modulo 2^32.
//!
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | 0, or the request of the last rank that has come |
//! | granted | node + 0 | 8 | each rank | 0, or the last request of its rank whose acquisition has ended |
//!
//! ```text
//!   tail: (rank 7, 12)
//!   rank 7 waits for (rank 2, 5)      granted of rank 2: (rank 2, 4)
//!   rank 2 waits for (rank 9, 31)     granted of rank 9: (rank 9, 30)
//!   rank 9 holds the lock
//! ```
//!
//! At rest both words keep what they are.
//!
//! # Invariants
//! - I1: at most one rank finds each request on `tail`, the next one that comes: its successor. The lock goes from rank to rank in this
//!   order.
//! - I2: only its rank writes `granted`, with each of its requests in turn, once that acquisition has ended.
//! - I3: in this order, (r, n + 1) comes after the successor of (r, n), or is that successor. So while another rank waits for (r, n),
//!   `granted` of r is (r, n) or an older value. Only (r, n) ends the wait.
//! - I4: a rank that finds its own last request on `tail` is its own successor. That acquisition has ended, so the rank holds the lock.
//!
//! # Memory ordering
//! The swaps on `tail` order the ranks. The put to `granted` is posted. It releases what the holder has completed, and the get that finds it
//! acquires that. All puts to `granted` come from one rank, so they arrive in the order of I2. A late one delays the successor, and deceives
//! no rank: by I3, each older value differs from the request that the successor waits for. So a rank need not order its put ahead of its next
//! swap, even if it follows itself.
//!
//! # Deviations from the papers
//! - Craig's and Magnusson's processes exchange nodes. The successor may still poll a node whose owner comes again and sets its flag. So the
//!   owner leaves the node to the successor, and takes its predecessor's. Over a network, a release would then write to the memory of another
//!   rank. Here a word stays with its rank, and no request is equal to an older one.
//! - Graunke and Thakkar have one bit in place of the number. Posted puts rule that out: the value before a late put looks like the next
//!   one.
//! - There is no first node. A rank that finds `tail` at 0 has no predecessor.
//! - Craig has a form in which each waiter waits on its own word, for machines without coherent caches. There a release learns of its
//!   successor by another atomic. A put and a look would need a fence in between, which is as expensive. [`hapax`](crate::hapax) has that
//!   form.
//! - A try that sleeps between its looks and its compare-and-swap while other ranks acquire would be deceived if `tail` is then the same.
//!   That takes exactly 2^32 acquisitions of one rank.
//!
//! # Cost
//! Remote operations without contention: acquire 1 (swap) if this rank was the last holder, else 2 (swap, get); release 0 (a put to its own
//! word). With contention: acquire 1 and the polls, release 0. A waiter polls each round trip and `pause`. It learns of a release after a
//! round trip and half of `pause`, on average. A put that wakes it would take half a round trip. In coherent memory a waiter looks without
//! a pause first (`poll.rs`).

use rmalab_atomics::{Address, Disp, RemoteAtomics, WORD};

use crate::error::at_least_one;
use crate::own::Own;
use crate::qnode::{NIL, pointer, rank_of};
use crate::{Place, RawMutex, RawMutexTry, Result, poll};

/// In a request: one acquisition.
const ONE: u64 = 1 << 32;

/// The parameter of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClhParams {
    /// The pause between two polls of the predecessor's word, in uncontended word operations (see [`RemoteAtomics::pause`]). At least 1.
    pub pause: u32,
}

impl Default for ClhParams {
    /// The shortest one: only one rank polls a word, and a longer pause makes each handover longer. That saves polls only if ranks hold the
    /// lock for longer than the pause.
    fn default() -> ClhParams {
        ClhParams { pause: 1 }
    }
}

/// One rank's handle of a CLH mutex.
#[derive(Debug)]
pub struct Clh {
    tail: Address,
    granted: Disp,
    pause: u32,
    /// The last request of this rank; before the first one, the number 0.
    request: u64,
}

impl RawMutex for Clh {
    const NAME: &'static str = "clh";
    const WORDS: u64 = WORD;
    const NODE: u64 = WORD;
    const RESTS_AT_ZERO: bool = false;
    const NODE_AT_REST: u64 = 0;
    type Params = ClhParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: ClhParams) -> Result<Clh> {
        Ok(Clh {
            tail: place.word(0).unwatched(),
            granted: place.node,
            pause: at_least_one(Self::NAME, "pause", params.pause)?,
            request: pointer(ra.rank()),
        })
    }

    #[inline(always)]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let last = self.request;
        self.request = last.wrapping_add(ONE);
        let pred = ra.fetch_store(self.tail, self.request)?;
        if pred == last {
            // I4.
            return Ok(());
        }
        self.watch(ra, pred)
    }

    #[inline(always)]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Own::<_, 1>::new(ra, self.granted).post(0, self.request)
    }
}

impl Clh {
    /// Waits until `pred`, which is no request of this rank, is granted.
    #[inline(never)]
    fn watch<A: RemoteAtomics + ?Sized>(&self, ra: &A, pred: u64) -> Result<()> {
        if pred == NIL || poll::spin(ra, self.granted_of(pred), |granted| granted == pred).is_some() {
            return Ok(());
        }
        while !self.is_granted(ra, pred)? {
            ra.pause(self.pause)?;
        }
        Ok(())
    }

    /// Returns whether there is no request `pred`, or it is granted.
    #[inline]
    fn is_granted<A: RemoteAtomics + ?Sized>(&self, ra: &A, pred: u64) -> Result<bool> {
        Ok(pred == NIL || ra.get(self.granted_of(pred))? == pred)
    }

    /// The address of `granted` at the rank of `pred`.
    fn granted_of(&self, pred: u64) -> Address {
        rank_of(pred).at(self.granted).unwatched()
    }
}

impl RawMutexTry for Clh {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        let pred = ra.get(self.tail)?;
        if pred != self.request && !self.is_granted(ra, pred)? {
            return Ok(false);
        }
        // If `pred` is still the last request, no rank has come since it was granted.
        let request = self.request.wrapping_add(ONE);
        let free = ra.compare_and_swap(self.tail, pred, request)? == pred;
        if free {
            self.request = request;
        }
        Ok(free)
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::{Rank, World};

    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::mutex::<Clh>(ClhParams::default());
        suite::mutex_try::<Clh>(ClhParams::default());
    }

    #[test]
    fn first_come_first_served() {
        suite::mutex_order::<Clh>(ClhParams::default(), |rank| (0, ONE + pointer(rank)));
    }

    #[test]
    fn the_last_holder_costs_one_and_none() {
        assert_eq!(suite::mutex_cost::<Clh>(ClhParams::default()), (1, 0));
    }

    #[test]
    fn another_rank_costs_two_and_none() {
        assert_eq!(suite::mutex_costs_in_turn::<Clh>(ClhParams::default()), [(2, 0); 2]);
    }

    #[test]
    fn numbers_repeat_without_harm() {
        // Each rank's first acquisition has the last number, and its second one the number 0.
        let world = World::threads(3).run(|ra| {
            let place = Place::alloc(ra, Rank(0), Clh::WORDS, Clh::NODE).unwrap();
            let all = rmalab_atomics::Collectives::new(ra).unwrap();
            let mut lock = Clh::bind(ra, place, ClhParams::default()).unwrap();
            lock.request = lock.request.wrapping_sub(2 * ONE);
            all.barrier().unwrap();
            for turn in 0..1000 {
                if turn % 3 == ra.rank().0 {
                    while !lock.try_acquire(ra).unwrap() {
                        ra.pause(8).unwrap();
                    }
                } else {
                    lock.acquire(ra).unwrap();
                }
                lock.release(ra).unwrap();
            }
        });
        world.unwrap();
    }
}
