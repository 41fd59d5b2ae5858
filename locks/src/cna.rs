//! CNA: the MCS queue, from which a releasing rank moves the waiters of other nodes to a second queue, up to a bound.
//!
//! # Paper
//! D. Dice and A. Kogan, "Compact NUMA-aware Locks", EuroSys 2019, DOI 10.1145/3302424.3303984 (arXiv 1810.05600).
//!
//! # Properties
//! - Mutual exclusion. Ranks of the holder's node go first. They overtake the ranks of the secondary queue at most `threshold` times in a
//!   row, and then that queue goes ahead of the main queue. So a rank that finds q ranks ahead of it is overtaken at most
//!   (q + 1) × `threshold` times, and no rank starves. With a `threshold` of 0, and on one node, the order is first come, first served.
//! - One shared word, at any number of nodes. Every wait is on the waiter's own node.
//! - A release reads at most `scan` links of other ranks, each a get while it holds the lock. It reads a moved waiter's link once.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, on two nodes of two ranks. Under sequential consistency and
//!   with posted puts that arrive late: 4 ranks × 2, with one pass in a row and, on request (`--long`), with two; 3 × 2 on two nodes and
//!   on three; 4 × 1 of which two try. With data and bulk puts in any order: 3 × 1. With one pass in a row, 4 ranks any number of times,
//!   on both networks: other ranks enter at most 4 times while a rank waits.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | nil, or the pointer of the last rank in the main queue |
//! | next | node + 0 | 8 | each rank | nil, or the pointer of the successor in the main or the secondary queue |
//! | spin | node + 8 | 8 | each rank | 0, or what the rank is woken with, until it has seen it |
//!
//! | bits of spin | 63–46 | 45–23 | 22–0 |
//! | --- | --- | --- | --- |
//! | | 1 + passes | last | head |
//!
//! `head` and `last` are the pointers of the first and the last rank of the secondary queue, or nil. `passes` is the number of
//! times in a row that ranks have overtaken that queue. The holder remembers the three.
//!
//! ```text
//!   tail ──────────────────────────────────────────────────┐
//!   rank 0 (holds, node A) ──next──▶ rank 1 (A) ──next──▶ rank 7 (B) ──▶ nil
//!   head ──▶ rank 4 (B) ──next──▶ rank 9 (C) ──▶ nil       last: rank 9
//! ```
//!
//! # Invariants
//! - I1: `tail` is nil if and only if no rank holds the lock or waits for it.
//! - I2: the holder and the ranks behind it form the main queue, whose last rank is `tail`. A link is missing only between a swap and
//!   the arrival of its put, or until the put that joins the two queues arrives.
//! - I3: a link changes by the put of the successor that it names, or by the holder. The holder changes one link of the main queue,
//!   which it has seen, and the link of `last`, which is nil.
//! - I4: the secondary queue followed by the main queue is in the order of arrival. So joining them in this order restores it.
//! - I5: the link of `last` is nil, and the nil is complete, before the lock is passed on. So a rank that arrives behind `last`, after
//!   the main queue has run empty, is the next to write it.
//!
//! # Memory ordering
//! The swap on `tail` orders the main queue. Links and wake-ups are posted puts. Only the nil of I5 is ordered ahead of the wake-up, since a
//! late nil could erase the link of a rank that arrives behind it. A link that is late hides its rank from a walk, and a release waits for
//! it. A rank orders the resets of its own words ahead of its next swap of `tail`.
//!
//! # Deviations from the paper
//! - `spin` carries both ends of the secondary queue. In the paper it points to the head, whose node has the pointer of the last
//!   (`secTail`): a get for each join, while the lock is held. Three fields in one word leave 23 bits for a pointer.
//! - The hand-overs in a row are counted. The paper ends them at random, with probability 1/65,536, which is the default here.
//! - The walk along the main queue has a bound, since each step is a get. The paper walks to the end, and its optimized form walks in one
//!   release of 256 if the secondary queue is empty.
//! - The numbers of the nodes are known everywhere, and are not in the queue nodes.
//! - The flag is inverted, and a rank resets it after the wait, as in [`crate::qnode`].
//!
//! # Cost
//! Remote operations without contention: acquire 1 (swap), release 1 (compare-and-swap). With a predecessor: acquire 2 (swap, put).
//! With a successor: release 1 (put), or 2 while the link is missing. A walk adds a get for each rank of another node that it looks
//! at. If it finds a near rank, it adds a put for I5, and a put to the old `last` if there is one. Joining the queues adds 1 (put).

use rmalab_atomics::{Address, Disp, RemoteAtomics, Until, WORD};

use crate::error::within;
use crate::qnode::{NIL, pointer, rank_of};
use crate::{Error, Place, RawMutex, RawMutexTry, Result};

/// Bits of a pointer in `spin`.
const POINTER_BITS: u32 = 23;
/// In `spin`: one pass, or the lock itself.
const PASS: u64 = 1 << (2 * POINTER_BITS);
/// The largest number of ranks, whose pointers `spin` can hold.
const RANKS: u32 = (1 << POINTER_BITS) - 1;

/// The parameters of [`Cna`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CnaParams {
    /// The number of times in a row that near ranks may overtake the secondary queue: at most 2^17.
    pub threshold: u32,
    /// The number of other ranks' links that a release may read.
    pub scan: u32,
    /// The number of ranks that count as one node, in blocks from rank 0 on; 0 for the nodes of the topology.
    pub ranks: u32,
}

impl Default for CnaParams {
    /// The paper's mean number of hand-overs within a node, and a walk of a few microseconds.
    fn default() -> CnaParams {
        CnaParams { threshold: 1 << 16, scan: 16, ranks: 0 }
    }
}

/// The contents of the word that wakes a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Secondary {
    /// The pointer of the first rank of the secondary queue, or nil.
    head: u64,
    /// The pointer of the last rank of the secondary queue, or nil.
    last: u64,
    passes: u64,
}

impl Secondary {
    const EMPTY: Secondary = Secondary { head: NIL, last: NIL, passes: 0 };

    const fn word(self) -> u64 {
        (self.passes + 1) * PASS + (self.last << POINTER_BITS) + self.head
    }

    const fn of(word: u64) -> Secondary {
        let pointers = PASS - 1;
        let last = (word & pointers) >> POINTER_BITS;
        Secondary { head: word & RANKS as u64, last, passes: word / PASS - 1 }
    }
}

/// One rank's handle of a CNA mutex.
#[derive(Debug)]
pub struct Cna {
    threshold: u64,
    scan: u32,
    ranks: u32,
    tail: Address,
    next: Disp,
    spin: Disp,
    /// The pointer to this rank.
    me: u64,
    /// Of a holder.
    secondary: Secondary,
}

impl RawMutex for Cna {
    const NAME: &'static str = "cna";
    const WORDS: u64 = WORD;
    const NODE: u64 = 2 * WORD;
    type Params = CnaParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: CnaParams) -> Result<Cna> {
        if ra.size() > RANKS {
            return Err(Error::TooManyRanks { lock: Self::NAME, size: ra.size(), limit: RANKS });
        }
        Ok(Cna {
            threshold: within(Self::NAME, "threshold", params.threshold, 0..=1 << 17)?.into(),
            scan: params.scan,
            ranks: params.ranks,
            tail: place.word(0),
            next: place.node,
            spin: place.node.word(1),
            me: pointer(ra.rank()),
            secondary: Secondary::EMPTY,
        })
    }

    #[inline]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        let pred = ra.fetch_store(self.tail, self.me)?;
        self.secondary = Secondary::EMPTY;
        if pred != NIL {
            ra.put(rank_of(pred).at(self.next), self.me)?;
            self.secondary = Secondary::of(ra.wait_until(self.spin, Until::Ne(0))?);
            ra.put(ra.rank().at(self.spin), 0)?;
        }
        Ok(())
    }

    #[inline]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut next = ra.get(ra.rank().at(self.next))?;
        if next == NIL {
            let Secondary { head, last, .. } = self.secondary;
            // The secondary queue, if there is one, becomes the main queue.
            if ra.compare_and_swap(self.tail, self.me, last)? == self.me {
                return if head == NIL { Ok(()) } else { self.wake(ra, head, Secondary::EMPTY) };
            }
            next = ra.wait_until(self.next, Until::Ne(NIL))?;
        }
        self.pass_on(ra, next)?;
        Ok(ra.put(ra.rank().at(self.next), NIL)?)
    }
}

impl Cna {
    /// Passes the lock to a rank of the main queue, which begins with `next`, or to the secondary queue.
    #[inline]
    fn pass_on<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, next: u64) -> Result<()> {
        if self.secondary.passes < self.threshold {
            let succ = self.find_successor(ra, next)?;
            if succ != NIL {
                let overtakes = u64::from(self.secondary.head != NIL);
                let passes = self.secondary.passes + overtakes;
                return self.wake(ra, succ, Secondary { passes, ..self.secondary });
            }
        }
        let Secondary { head, last, .. } = self.secondary;
        if head == NIL {
            return self.wake(ra, next, Secondary::EMPTY);
        }
        // I4. The ranks of the secondary queue came first.
        ra.put(rank_of(last).at(self.next), next)?;
        self.wake(ra, head, Secondary::EMPTY)
    }

    /// Returns the first rank of this node in the main queue from `first` on, or nil. Moves the ranks ahead of it to the secondary queue.
    fn find_successor<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, first: u64) -> Result<u64> {
        if self.is_near(ra, first) {
            return Ok(first);
        }
        let mut last = first;
        for _ in 0..self.scan {
            let cur = ra.get(rank_of(last).at(self.next).unwatched())?;
            if cur == NIL {
                break;
            }
            if self.is_near(ra, cur) {
                if self.secondary.head == NIL {
                    self.secondary.head = first;
                } else {
                    ra.put(rank_of(self.secondary.last).at(self.next), first)?;
                }
                self.secondary.last = last;
                // I5: ahead of the wake-up that passes the lock on.
                ra.put(rank_of(last).at(self.next), NIL)?;
                ra.order(rank_of(last))?;
                return Ok(cur);
            }
            last = cur;
        }
        Ok(NIL)
    }

    /// Returns whether `waiter` is a rank of this rank's node.
    fn is_near<A: RemoteAtomics + ?Sized>(&self, ra: &A, waiter: u64) -> bool {
        let (rank, waiter) = (ra.rank(), rank_of(waiter));
        match self.ranks {
            0 => ra.topology().node_of(rank) == ra.topology().node_of(waiter),
            block => rank.0 / block == waiter.0 / block,
        }
    }

    #[inline]
    fn wake<A: RemoteAtomics + ?Sized>(&self, ra: &A, waiter: u64, secondary: Secondary) -> Result<()> {
        Ok(ra.put(rank_of(waiter).at(self.spin), secondary.word())?)
    }
}

impl RawMutexTry for Cna {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        ra.order(ra.rank())?;
        self.secondary = Secondary::EMPTY;
        Ok(ra.compare_and_swap(self.tail, NIL, self.me)? == NIL)
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::{Counted, Rank};

    use super::*;
    use crate::{Exclusive, RawRwLock, suite};

    fn params(threshold: u32, scan: u32, ranks: u32) -> CnaParams {
        CnaParams { threshold, scan, ranks }
    }

    #[test]
    fn conforms() {
        suite::mutex::<Cna>(CnaParams::default());
        suite::mutex::<Cna>(params(1, 1, 2));
        suite::mutex::<Cna>(params(3, 16, 2));
        suite::mutex_try::<Cna>(params(2, 16, 2));
    }

    #[test]
    fn first_come_first_served_on_one_node_and_without_passes() {
        suite::mutex_order::<Cna>(params(1 << 16, 16, 16), |rank| (0, pointer(rank)));
        suite::mutex_order::<Cna>(params(0, 16, 1), |rank| (0, pointer(rank)));
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Cna>(CnaParams::default()), (1, 1));
    }

    #[test]
    fn words_hold_what_a_rank_is_woken_with() {
        for passes in [0, 5, 1 << 17] {
            for (head, last) in [(NIL, NIL), (1, 1), (u64::from(RANKS), 7), (7, u64::from(RANKS))] {
                let secondary = Secondary { head, last, passes };
                assert_ne!(secondary.word(), 0);
                assert_eq!(Secondary::of(secondary.word()), secondary);
            }
        }
    }

    /// Returns the order of service of seven ranks, arriving from nodes A B A B B A C, and the remote operations of each release.
    fn served(params: CnaParams) -> Vec<(u32, u64)> {
        /// Ranks 0 to 2 are the node A, 3 to 5 the node B, and 6 is the node C, if nodes have three ranks.
        const ARRIVALS: [u32; 7] = [0, 3, 1, 4, 5, 2, 6];
        let served = std::sync::Mutex::new(Vec::new());
        suite::scenario::<Exclusive<Cna>>(7, params, |ra, mut lock, place, _| {
            let arrived = |turn: usize| suite::poll(ra, place.word(0), |tail| tail == pointer(Rank(ARRIVALS[turn])));
            let turn = ARRIVALS.iter().position(|&rank| rank == ra.rank().0).expect("a rank of the world");
            if turn > 0 {
                arrived(turn - 1)?;
            }
            lock.acquire_write(ra)?;
            if turn == 0 {
                arrived(6)?;
                for &rank in &ARRIVALS[..6] {
                    suite::poll(ra, Rank(rank).at(place.node), |next| next != NIL)?;
                }
            }
            let place = {
                let mut served = served.lock().unwrap();
                served.push((ra.rank().0, 0));
                served.len() - 1
            };
            let counted = Counted::new(ra);
            lock.release_write(&counted)?;
            served.lock().unwrap()[place].1 = counted.counts().remote_operations();
            Ok(())
        });
        served.into_inner().unwrap()
    }

    #[test]
    fn near_ranks_go_first_up_to_the_threshold() {
        let order = |most, scan| served(params(most, scan, 3)).into_iter().map(|(rank, _)| rank).collect::<Vec<_>>();
        // Once no rank of A is left, the secondary queue 3, 4, 5 goes ahead of 6.
        assert_eq!(order(64, 16), [0, 1, 2, 3, 4, 5, 6]);
        // After one pass, the secondary queue 3 goes ahead, and its node's 4 and 5 follow.
        assert_eq!(order(1, 16), [0, 1, 3, 4, 5, 2, 6]);
        // 1 does not look beyond 4 and 5.
        assert_eq!(order(64, 1), [0, 1, 3, 4, 5, 2, 6]);
        assert_eq!(order(0, 16), [0, 3, 1, 4, 5, 2, 6]);
    }

    #[test]
    fn releases_cost_what_the_head_says() {
        // The home is rank 3. 0: get, nil, wake-up. 1: two gets, link, nil, wake-up. 2: a get of nil, join, wake-up. 5: a get of nil, wake-up.
        assert_eq!(served(params(64, 16, 3)), [(0, 3), (1, 5), (2, 3), (3, 1), (4, 1), (5, 2), (6, 1)]);
        // All threads are ranks of one node of the topology: no release walks.
        assert_eq!(served(params(64, 16, 0)), [0, 3, 1, 4, 5, 2, 6].map(|rank| (rank, 1)));
    }
}
