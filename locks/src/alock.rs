//! ALock: two queues, of the ranks on the home's node and of all others, whose heads exclude each other by Peterson's algorithm.
//!
//! # Paper
//! A. Baran, J. Nelson-Slivon, L. Tseng and R. Palmieri, "ALock: Asymmetric Lock Primitive for RDMA Systems", SPAA 2024,
//! DOI 10.1145/3626183.3659977, arXiv 2208.09540.
//!
//! # Properties
//! - Mutual exclusion. First come, first served in each of the two classes. While a head of one class waits, at most as many ranks of
//!   the other class overtake it as that class's budget. So no rank starves.
//! - Ranks on the home's node (near) use only words of their node. They never need atomics of the network, and no rank accesses its own
//!   node through an adapter.
//! - A rank waits on its own word. Only the head of a class polls the home, while the other class holds the lock.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, with budgets of 1 and of 2. Under sequential
//!   consistency and with posted puts that arrive late: 3 ranks × 2, two of them far and one near, and all near; 4 × 1, three of
//!   them far. With data and bulk puts in any order: 3 × 1. A test has 4 × 1, two of them near, with the home among them.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | near_tail | words + 0 | 8 | home | nil, or the pointer of the last rank in the queue of near ranks |
//! | far_tail | words + 8 | 8 | home | the same for far ranks |
//! | victim | words + 16 | 8 | home | 1 near, 2 far: the class whose head gives way to the other one; 0 at first |
//! | next | node + 0 | 8 | each rank | nil, or the pointer of the successor |
//! | budget | node + 8 | 8 | each rank | 0, or 1 + the acquisitions that are left to the class when this rank's turn comes |
//!
//! At rest both tails are nil, while `victim` keeps its value.
//!
//! # Invariants
//! - I1: each class is an MCS queue ([`crate::mcs`]), and its head is the one rank of the class that acts for it. The tail is nil if and
//!   only if the class is empty.
//! - I2: a head has put its class into its tail before it sets `victim` to its class. It enters when it finds the other tail nil, or
//!   the other class to be the victim. So of two heads that have set `victim`, the head that did it first enters.
//! - I3: a rank that passes the lock on leaves the tail as it is. So the other class's head still waits, unless its class is not the
//!   victim. A rank that gets a budget of 0 makes its own class the victim, and gives way.
//!
//! # Memory ordering
//! All steps on the home's words are atomic and complete; I2 needs this for the swap of `victim`. Links and wake-ups are
//! posted puts. A rank resets its words by posted puts, and orders them ahead of the swap that makes it visible in a tail
//! again.
//!
//! # Deviations from the paper
//! - A head reads the other tail and `victim` one after the other. The paper reads both at once, in a line of 64 bytes.
//! - Near ranks use the trait's atomics, which a backend turns into the processor's where it can. Only near ranks change `near_tail`, and
//!   only far ranks change `far_tail`. `victim` is swapped by both, and the old value is not used. So processor and adapter need
//!   not be atomic together.
//! - The words are zero at rest, so the budget is coded plus 1.
//!
//! # Cost
//! Remote operations without contention: a near rank 0 / 0 on the home's own node; a far rank acquire 3 (two swaps, a get), release 1
//! (compare-and-swap). With a predecessor: acquire 2 (swap, put), and 2 more (swap, get) when the budget is used up; with a
//! successor: release 1 (put), or 2 while the link is missing. Each poll of a head is 2 (get, get).

use rmalab_atomics::{Address, Disp, Distance, RemoteAtomics, Until, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::error::at_least_one;
use crate::qnode::{NIL, pointer, rank_of};
use crate::{Place, RawMutex, Result};

/// The parameters of [`ALock`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ALockParams {
    /// The number of ranks of the home's node that hold the lock in a row while a far rank waits; at least 1.
    pub near: u32,
    /// The number of ranks of other nodes that hold the lock in a row while a near rank waits; at least 1.
    pub far: u32,
    /// How the head of a class polls.
    pub backoff: Backoff,
}

impl Default for ALockParams {
    /// The budgets of the paper's experiments: a far rank's turn is more expensive to bring about.
    fn default() -> ALockParams {
        ALockParams { near: 5, far: 20, backoff: Backoff::default() }
    }
}

/// One rank's handle of an ALock.
#[derive(Debug)]
pub struct ALock {
    /// The queue of this rank's class.
    tail: Address,
    other_tail: Address,
    victim: Address,
    /// This rank's class, as a victim.
    class: u64,
    next: Disp,
    budget: Disp,
    /// The pointer to this rank.
    me: u64,
    /// The budget of this rank's class.
    b: u64,
    /// The acquisitions that are left to the class while this rank holds the lock, this one included.
    k: u64,
    backoff: BackoffState,
}

impl RawMutex for ALock {
    const NAME: &'static str = "alock";
    const WORDS: u64 = 3 * WORD;
    const NODE: u64 = 2 * WORD;
    const RESTS_AT_ZERO: bool = false;
    type Params = ALockParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: ALockParams) -> Result<ALock> {
        let is_far = ra.topology().distance(ra.rank(), place.home) == Distance::Remote;
        let class = u64::from(is_far);
        let near = at_least_one(Self::NAME, "near", params.near)?;
        let far = at_least_one(Self::NAME, "far", params.far)?;
        Ok(ALock {
            tail: place.word(class),
            other_tail: place.word(1 - class),
            victim: place.word(2),
            class: 1 + class,
            next: place.node,
            budget: place.node.word(1),
            me: pointer(ra.rank()),
            b: u64::from(if is_far { far } else { near }),
            k: 0,
            backoff: BackoffState::new(params.backoff, ra.rank()),
        })
    }

    #[inline]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        let pred = ra.fetch_store(self.tail, self.me)?;
        self.k = 0;
        if pred != NIL {
            ra.put(rank_of(pred).at(self.next), self.me)?;
            self.k = ra.wait_until(self.budget, Until::Ne(0))? - 1;
            ra.put(ra.rank().at(self.budget), 0)?;
        }
        if self.k == 0 {
            self.pass_the_other_class(ra)?;
            self.k = self.b;
        }
        Ok(())
    }

    #[inline]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut next = ra.get(ra.rank().at(self.next))?;
        if next == NIL {
            if ra.compare_and_swap(self.tail, self.me, NIL)? == self.me {
                return Ok(());
            }
            // By I1 a rank has swapped itself in behind this one, and its link is under way.
            next = ra.wait_until(self.next, Until::Ne(NIL))?;
        }
        ra.put(ra.rank().at(self.next), NIL)?;
        // One less than this rank's budget, coded plus 1.
        Ok(ra.put(rank_of(next).at(self.budget), self.k)?)
    }
}

impl ALock {
    /// Waits until the other class is empty, or gives way (I2).
    fn pass_the_other_class<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_store(self.victim, self.class)?;
        self.backoff.reset();
        while ra.get(self.other_tail)? != NIL && ra.get(self.victim)? == self.class {
            self.backoff.wait(ra)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rmalab_atomics::{Rank, Topology, World};

    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::mutex::<ALock>(ALockParams::default());
    }

    /// Half of the ranks are near, the other half are far.
    #[test]
    fn two_classes_exclude_each_other() {
        for budget in [1, 2, 20] {
            let params = ALockParams { near: budget, far: budget, ..ALockParams::default() };
            for size in [2, 4, 8] {
                let topology = Topology::blocks(size, size / 2, 2).unwrap();
                let world = World::threads(size).topology(topology);
                world.run(|ra| suite::mutex_on::<ALock, _>(ra, params, 1_000 / size).unwrap()).unwrap();
            }
        }
    }

    #[test]
    fn first_come_first_served() {
        suite::mutex_order::<ALock>(ALockParams::default(), |rank| (0, pointer(rank)));
    }

    #[test]
    fn costs_three_and_one() {
        assert_eq!(suite::mutex_cost::<ALock>(ALockParams::default()), (3, 1));
    }

    /// Rank 0 holds the lock, and then far rank 2 and near rank 1 come, in this order. Returns the turns of ranks 1 and 2.
    fn turns(near: u32) -> [u64; 2] {
        let turns = Mutex::new([0; 2]);
        let world = World::threads(3).topology(Topology::blocks(3, 2, 2).unwrap());
        let run = world.run(|ra| -> Result<()> {
            let place = Place::alloc(ra, Rank(0), ALock::WORDS, ALock::NODE)?;
            let order = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
            let mut lock = ALock::bind(ra, place, ALockParams { near, ..ALockParams::default() })?;
            let has = |word, value| suite::poll(ra, place.word(word), move |now| now == value);
            match ra.rank() {
                // The far class is the victim: its head waits.
                Rank(1) => has(2, 2)?,
                // The near class is the victim, so rank 0 has come, and it enters ahead of a far rank that comes now.
                Rank(2) => has(2, 1)?,
                _ => 0,
            };
            lock.acquire(ra)?;
            if ra.rank() == Rank(0) {
                has(0, pointer(Rank(1)))?;
            }
            let turn = ra.fetch_add(order, 1)?;
            if let Some(waiter) = ra.rank().0.checked_sub(1) {
                turns.lock().unwrap()[waiter as usize] = turn;
            }
            lock.release(ra)
        });
        run.unwrap().into_iter().for_each(|done| done.unwrap());
        turns.into_inner().unwrap()
    }

    #[test]
    fn near_ranks_overtake_a_far_one_up_to_their_budget() {
        assert_eq!(turns(2), [1, 2]);
        assert_eq!(turns(1), [2, 1]);
    }
}
