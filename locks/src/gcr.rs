//! Concurrency restriction: of the ranks of a node, one at a time (or a few) competes for a lock, and the others wait ahead of it.
//!
//! # Paper
//! D. Dice and A. Kogan, "Avoiding Scalability Collapse by Restricting Concurrency", Euro-Par 2019,
//! arXiv 1905.10818: generic concurrency restriction (GCR), a wrapper of any lock.
//!
//! # Properties
//! - The inner lock, by default [`crate::mcs`], provides mutual exclusion. The restriction plays no part in it.
//! - At most `active` ranks of a node compete for the inner lock, in addition to heads that have been approved. So with more ranks
//!   than cores, a queue lock seldom hands over to a rank that has no core. The price is short-term fairness: the active rank
//!   acquires again and again, past the passive ranks.
//! - It is for nodes with more ranks than cores. Where each rank has a core, every change of the active rank adds operations, and the
//!   inner lock alone is faster. On the simulated FX100, with 64 ranks that only acquire, mcs takes a third of the time.
//! - No rank starves. The passive queue is first come, first served. The last active rank that leaves approves its head, and so does
//!   a rank that has released `threshold` times past a waiting head.
//! - Every wait is on a word of the waiter's own memory. No rank polls.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, around mcs. Under sequential consistency and with posted
//!   puts that arrive late, with one active rank and with two: 3 ranks × 1 on one node, and 3 × 2 and 4 × 1 on nodes of two. With one
//!   active rank, on request (`--long`): 3 × 2 on one node. With data and bulk puts in any order: 2 × 2.
//!
//! # State
//! Each node has its own restriction. Its words are at the *first*, the first rank of the node. They follow the node of the inner lock,
//! from `own` = node + the size of that node, rounded up to [`LINE`].
//!
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | gate | own + 0 | 8 | first | the number of active ranks × 2^32 + the pointer of the head that waits for approval, or nil |
//! | passive_tail | own + 8 | 8 | first | the tail of the passive queue, see [`crate::mcs`] |
//! | passive_next, passive_unblocked | own + [`LINE`] | 8 each | each rank | its node in the passive queue, see [`crate::qnode`] |
//! | approved | own + [`LINE`] + 16 | 8 | each rank | 1 from the approval until its rank has seen it |
//!
//! ```text
//!   gate: 1 active, head 3          inner lock: rank 5
//!   passive_tail ──▶ rank 7
//!   rank 3 (head) ──next──▶ rank 0 ──next──▶ rank 7 ──▶ nil
//! ```
//!
//! # Invariants
//! - I1: the head is the holder of the passive queue, an MCS mutex. So `gate` names one rank at most.
//! - I2: in one step on `gate`, a head either becomes active or names itself beside at least one active rank.
//! - I3: a head is taken from `gate` once, by the rank that approves it. That rank then writes its `approved`, and no other rank does.
//! - I4: if no rank is active and `gate` names a head, then the rank that was the last one to leave is about to take it. Its
//!   compare-and-swap fails only if another rank has become active, which then leaves later, or has taken the head.
//!
//! # Memory ordering
//! All steps on `gate` are atomic and complete. The approval is a posted put. A rank resets its `approved` by a posted put, and orders
//! it ahead of its next swap in the passive queue: a late reset could erase an approval.
//!
//! # Deviations from the paper
//! - One rank is active by default. The paper admits two. Two ranks may share a core, and then each handover between them is a
//!   context switch. `rmalab advise` has `gcr/active-2` beside `gcr`.
//! - A rank becomes active by compare-and-swap. In the paper it looks, then adds, and more ranks than intended may pass in
//!   between.
//! - The head waits on its own word. In the paper it polls `numActive` and `topApproved`. So `gate` has both, and names the head.
//! - The threshold counts a rank's releases past a waiting head. In the paper it counts all releases of the lock.
//! - A rank stops being active after the release of the inner lock, not before.
//! - Each node of a network has its own restriction.
//!
//! # Cost
//! Remote operations without contention: the first rank of a node has the operations of the inner lock (mcs: acquire 1, release 1).
//! Other ranks of the node need 1 more to acquire (compare-and-swap) and 1 more to release (add), both on the node. A passive rank
//! needs 6 more to acquire. These are a failed compare-and-swap, the swap of the tail, the link, the compare-and-swap of the head, an
//! add, and the wake-up of the next head.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until, WORD};

use crate::cohort::block;
use crate::error::at_least_one;
use crate::mcs::Mcs;
use crate::qnode::{NIL, Qnode, pointer, rank_of};
use crate::{LINE, Place, RawMutex, Result};

/// In `gate`: one active rank.
const ACTIVE: u64 = 1 << 32;

/// The parameters of [`Gcr`] and [`GcrRw`](crate::GcrRw).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GcrParams<P> {
    /// The number of ranks of a node that may be active together; at least 1.
    pub active: u32,
    /// After this many of its own releases past a waiting head, a rank approves the head although other ranks are active; at
    /// least 1. The paper's THRESHOLD.
    pub threshold: u32,
    /// The parameters of the inner lock.
    pub inner: P,
}

impl<P: Default> Default for GcrParams<P> {
    fn default() -> GcrParams<P> {
        GcrParams { active: 1, threshold: 0x4000, inner: P::default() }
    }
}

/// Bytes that the restriction adds to an inner lock's node of `inner` bytes.
pub(crate) const fn node(inner: u64) -> u64 {
    inner.next_multiple_of(LINE) + LINE + Qnode::BYTES + WORD
}

/// One rank's part of the restriction.
#[derive(Debug)]
pub(crate) struct Gate {
    active: u64,
    threshold: u32,
    /// This rank's releases past a waiting head since it has last approved one.
    releases: u32,
    /// This node's.
    gate: Address,
    /// The passive queue: its holder is the head.
    passive: Mcs,
    approved: Disp,
    /// The pointer to this rank.
    me: u64,
}

/// The number of active ranks in a value of `gate`.
const fn active(gate: u64) -> u64 {
    gate / ACTIVE
}

/// The pointer of the head in a value of `gate`.
const fn head(gate: u64) -> u64 {
    gate % ACTIVE
}

impl Gate {
    pub(crate) fn new<A: RemoteAtomics + ?Sized, P>(
        ra: &A,
        lock: &'static str,
        place: Place,
        inner: u64,
        params: &GcrParams<P>,
    ) -> Result<Gate> {
        let ranks = block(ra, 0);
        let first = Rank(ra.rank().0 / ranks * ranks);
        let own = place.node.plus(inner.next_multiple_of(LINE));
        let of_rank = own.plus(LINE);
        Ok(Gate {
            active: u64::from(at_least_one(lock, "active", params.active)?),
            threshold: at_least_one(lock, "threshold", params.threshold)?,
            releases: 0,
            gate: first.at(own).unwatched(),
            passive: Mcs::bind(ra, Place { home: first, words: own.word(1), node: of_rank }, ())?,
            approved: of_rank.plus(Qnode::BYTES),
            me: pointer(ra.rank()),
        })
    }

    /// Waits until this rank is active.
    #[inline]
    pub(crate) fn enter<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut gate = 0;
        while active(gate) < self.active {
            let seen = ra.compare_and_swap(self.gate, gate, gate + ACTIVE)?;
            if seen == gate {
                return Ok(());
            }
            gate = seen;
        }
        self.enter_as_passive(ra)
    }

    #[cold]
    #[inline(never)]
    fn enter_as_passive<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.passive.acquire(ra)?;
        let mut gate = self.active * ACTIVE;
        loop {
            // I2: in one step, becomes active or is seen by the active ranks that leave.
            let next = if active(gate) < self.active { gate + ACTIVE } else { gate + self.me };
            let seen = ra.compare_and_swap(self.gate, gate, next)?;
            if seen == gate {
                break;
            }
            gate = seen;
        }
        if active(gate) >= self.active {
            ra.wait_until(self.approved, Until::Ne(0))?;
            ra.put(ra.rank().at(self.approved).unwatched(), 0)?;
            ra.fetch_add(self.gate, ACTIVE)?;
        }
        self.passive.release(ra)
    }

    /// Makes this rank passive, and approves the head if its turn has come.
    #[inline]
    pub(crate) fn leave<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let gate = ra.fetch_add(self.gate, ACTIVE.wrapping_neg())?.wrapping_sub(ACTIVE);
        if head(gate) == NIL { Ok(()) } else { self.approve(ra, gate) }
    }

    /// Approves the head of `gate`, if no rank is active or this rank has released often enough.
    #[cold]
    #[inline(never)]
    fn approve<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, gate: u64) -> Result<()> {
        self.releases += 1;
        // By I4 one attempt is enough.
        if (active(gate) == 0 || self.releases >= self.threshold)
            && ra.compare_and_swap(self.gate, gate, gate - head(gate))? == gate
        {
            self.releases = 0;
            ra.put(rank_of(head(gate)).at(self.approved), 1)?;
        }
        Ok(())
    }
}

/// One rank's handle of a mutex whose competitors are restricted.
#[derive(Debug)]
pub struct Gcr<M> {
    inner: M,
    gate: Gate,
}

impl<M: RawMutex> RawMutex for Gcr<M> {
    const NAME: &'static str = "gcr";
    const WORDS: u64 = M::WORDS;
    const NODE: u64 = node(M::NODE);
    type Params = GcrParams<M::Params>;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Self::Params) -> Result<Gcr<M>> {
        Ok(Gcr { inner: M::bind(ra, place, params.inner)?, gate: Gate::new(ra, Self::NAME, place, M::NODE, &params)? })
    }

    #[inline]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.gate.enter(ra)?;
        self.inner.acquire(ra)
    }

    #[inline]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.inner.release(ra)?;
        self.gate.leave(ra)
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::{Counted, Topology, World};

    use super::*;
    use crate::{Exclusive, RawRwLock, suite};

    fn params(active: u32, threshold: u32) -> GcrParams<()> {
        GcrParams { active, threshold, inner: () }
    }

    #[test]
    fn conforms() {
        suite::mutex::<Gcr<Mcs>>(GcrParams::default());
        suite::mutex::<Gcr<Mcs>>(params(2, 2));
    }

    #[test]
    fn the_first_rank_of_a_node_costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Gcr<Mcs>>(GcrParams::default()), (1, 1));
    }

    #[test]
    fn other_ranks_cost_two_and_two() {
        let world = World::threads(2).topology(Topology::one_node(2));
        let costs = world.run(|ra| {
            let place = Place::alloc(ra, Rank(0), Gcr::<Mcs>::WORDS, Gcr::<Mcs>::NODE).unwrap();
            let ra = &Counted::new(ra);
            let mut lock = Gcr::<Mcs>::bind(ra, place, GcrParams::default()).unwrap();
            let mut cost = [0; 2];
            if ra.rank() == Rank(1) {
                lock.acquire(ra).unwrap();
                cost[0] = ra.counts().remote_operations();
                lock.release(ra).unwrap();
                cost[1] = ra.counts().remote_operations() - cost[0];
            }
            cost
        });
        assert_eq!(costs.unwrap()[1], [2, 2]);
    }

    #[test]
    fn passive_ranks_wait_ahead_of_the_inner_lock_in_order() {
        // Rank 0 holds the lock until the others have arrived, in the order of their numbers.
        suite::scenario::<Exclusive<Gcr<Mcs>>>(4, GcrParams::default(), |ra, mut lock, place, order| {
            let rank = ra.rank().0;
            let passive_tail = Rank(0).at(place.node.plus(LINE).word(1));
            let arrived = |tail| suite::poll(ra, passive_tail, |word| word == pointer(Rank(tail)));
            match rank {
                0 => {
                    lock.acquire_write(ra)?;
                    arrived(3)?;
                    assert_eq!(ra.get(place.word(0))?, pointer(Rank(0)), "another rank is in the inner queue");
                }
                1 => drop(suite::poll(ra, place.word(0), |tail| tail == pointer(Rank(0)))?),
                _ => drop(arrived(rank - 1)?),
            }
            if rank > 0 {
                lock.acquire_write(ra)?;
            }
            assert_eq!(ra.fetch_add(order, 1)?, u64::from(rank), "the order of service");
            lock.release_write(ra)
        });
    }

    #[test]
    fn a_head_beside_active_ranks_waits_for_the_threshold() {
        // Ranks 0 and 1 are active, and rank 2 is the head. Rank 0 approves it in its third release.
        let world = World::threads(3).topology(Topology::one_node(3));
        let body = |ra: &rmalab_atomics::Mapped| -> Result<()> {
            let place = Place::alloc(ra, Rank(0), 0, node(0))?;
            let mut gate = Gate::new(ra, Gcr::<Mcs>::NAME, place, 0, &params(2, 3))?;
            let (at, waiting) = (gate.gate, pointer(Rank(2)));
            match ra.rank() {
                Rank(0) => {
                    gate.enter(ra)?;
                    suite::poll(ra, at, |gate| gate == 2 * ACTIVE + waiting)?;
                    for _ in 0..2 {
                        gate.leave(ra)?;
                        assert_eq!(ra.get(at)?, ACTIVE + waiting);
                        gate.enter(ra)?;
                    }
                    gate.leave(ra)?;
                    assert_eq!(head(ra.get(at)?), NIL, "rank 2 is approved");
                    suite::poll(ra, at, |gate| gate == 0)?;
                }
                Rank(1) => {
                    suite::poll(ra, at, |gate| gate == ACTIVE)?;
                    gate.enter(ra)?;
                    // Until rank 0 has gone, and rank 2 is approved.
                    suite::poll(ra, at, |gate| gate == ACTIVE)?;
                    gate.leave(ra)?;
                }
                _ => {
                    suite::poll(ra, at, |gate| gate == 2 * ACTIVE)?;
                    gate.enter(ra)?;
                    gate.leave(ra)?;
                }
            }
            Ok(())
        };
        world.run(|ra| body(ra).unwrap()).unwrap();
    }
}
