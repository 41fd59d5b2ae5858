//! The Malthusian mutex: an MCS queue that sends surplus waiters to a passive stack, so that few ranks compete.
//!
//! # Paper
//! D. Dice, "Malthusian Locks", EuroSys 2017, DOI 10.1145/3064176.3064203 (arXiv 1511.06035): MCSCR, the MCS lock with concurrency
//! restriction.
//!
//! # Properties
//! - Mutual exclusion. While two ranks or more wait in the queue, each release makes the first of them *passive*. A passive rank returns
//!   when the queue runs empty, the newest first. So the lock circulates among few ranks, and the order is last-in first-out in the short
//!   term.
//! - No rank starves: after `period` releases beside passive ranks, the oldest passive rank gets the lock. So a passive rank with q older
//!   ones is overtaken at most (q + 1) × `period` times.
//! - It is for ranks that compete for cores or caches. Where each rank has a core, a plain queue does less.
//! - Every wait is on the waiter's own node: no rank polls.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, with a period of 2 and of 4. Under sequential consistency
//!   and with posted puts that arrive late: 3 ranks × 2, 4 of which one comes twice, and 4 × 1 of which two try. With data and bulk puts
//!   in any order: 2 × 2. With a period of 2, 3 ranks any number of times, on both networks: other ranks enter at most 4 times while a
//!   rank waits; on request (`--long`), sequentially consistent, 4 × 2 and 5 × 1.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | nil, or the pointer of the last rank in the queue |
//! | next | node + 0 | 8 | each rank | nil, or the pointer of the successor in the queue |
//! | spin | node + 8 | 8 | each rank | 0, or what the rank is woken with, until it has seen it |
//! | older | node + 16 | 8 | each rank | of a passive rank: the rank that became passive before it, or nil |
//! | newer | node + 24 | 8 | each rank | of a passive rank: the rank that became passive after it, or nil |
//!
//! | bits of spin | 63–48 | 47 | 46 | 45–23 | 22–0 |
//! | --- | --- | --- | --- | --- | --- |
//! | | releases | always 1 | WAS PASSIVE | oldest | newest |
//!
//! `newest` and `oldest` are the pointers of the two ends of the passive stack, or nil. `releases` counts the releases beside passive
//! ranks since the oldest one got the lock. The holder remembers the three.
//!
//! ```text
//!   tail ─────────────────────────────┐
//!   rank 2 (holds) ──next──▶ rank 5 ──next──▶ rank 1 ──▶ nil
//!   newest: rank 7 ◀──newer / older──▶ rank 0 ◀──newer / older──▶ rank 3 :oldest
//! ```
//!
//! # Invariants
//! - I1: `tail` is nil if and only if no rank holds the lock or waits for it. If ranks are passive, one holds the lock.
//! - I2: the holder and the ranks behind it form the queue, whose last rank is `tail`. A link is missing only between a swap and the
//!   arrival of its put.
//! - I3: only the holder makes ranks passive and takes them back, and writes their words. So it alone changes the stack.
//! - I4: a passive rank has no successor: its `next` is nil, and the nil is complete. So it can become the tail of the queue.
//! - I5: what a holder has written to the words of a passive rank is complete before it passes the lock on. So the next holder reads
//!   it, and no late put arrives at a rank that is no longer passive.
//!
//! # Memory ordering
//! The swap on `tail` orders the queue. Links and wake-ups are posted puts. The words of passive ranks are ordered ahead of
//! the wake-up (I5). A rank orders the resets of its own words ahead of its next swap of `tail`.
//!
//! # Deviations from the paper
//! - `spin` carries both ends of the stack, which the paper keeps beside the lock: two gets and two puts of the home for each change.
//!   Three fields in one word leave 23 bits for a pointer.
//! - Of `period` releases, one takes the oldest rank back. In the paper each does with probability 1/1,024, and 1,024 is the default.
//! - The flag is inverted, and a rank resets it after the wait, as in [`crate::qnode`].
//!
//! # Cost
//! Remote operations without contention: acquire 1 (swap), release 1 (compare-and-swap). With a predecessor: acquire 2 (swap, put).
//! With a successor: release 2 (a get of the successor's link, put). Making a rank passive adds 1 (put), and 2 more (puts) if another
//! one is passive. With an empty queue and a passive rank: release 2 (compare-and-swap, put), or 3 (and a get) if another one
//! stays passive. Taking the oldest rank back ahead of the queue: 2 (puts), or 3 (and a get).

use rmalab_atomics::{Address, Disp, RemoteAtomics, Until, WORD};

use crate::error::within;
use crate::qnode::{NIL, pointer, rank_of};
use crate::{Error, Place, RawMutex, RawMutexTry, Result};

/// Bits of a pointer in `spin`.
const POINTER_BITS: u32 = 23;
/// In `spin`: the woken rank was passive.
const WAS_PASSIVE: u64 = 1 << (2 * POINTER_BITS);
/// In `spin`: the lock itself.
const LOCK: u64 = WAS_PASSIVE << 1;
/// In `spin`: one release.
const RELEASE: u64 = LOCK << 1;
/// The largest number of ranks, whose pointers `spin` can hold.
const RANKS: u32 = (1 << POINTER_BITS) - 1;

/// The parameters of [`Malthusian`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MalthusianParams {
    /// Out of this many releases beside passive ranks, one passes the lock to the oldest of them: 1 to 2^15.
    pub period: u32,
}

impl Default for MalthusianParams {
    /// The paper's.
    fn default() -> MalthusianParams {
        MalthusianParams { period: 1024 }
    }
}

/// The passive ranks, as the holder knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Passive {
    newest: u64,
    oldest: u64,
    releases: u64,
}

impl Passive {
    const NONE: Passive = Passive { newest: NIL, oldest: NIL, releases: 0 };

    const fn word(self) -> u64 {
        self.releases * RELEASE + LOCK + (self.oldest << POINTER_BITS) + self.newest
    }

    const fn of(word: u64) -> Passive {
        let oldest = (word % WAS_PASSIVE) >> POINTER_BITS;
        Passive { newest: word & RANKS as u64, oldest, releases: word / RELEASE }
    }

    /// Returns whether the oldest passive rank gets the lock in this release.
    const fn is_due(self, period: u64) -> bool {
        self.releases + 1 >= period
    }

    /// Returns the passive rank that returns in this release if the queue is empty, or nil.
    const fn back(self, period: u64) -> u64 {
        if self.is_due(period) { self.oldest } else { self.newest }
    }
}

/// One rank's handle of a Malthusian mutex.
#[derive(Debug)]
pub struct Malthusian {
    period: u64,
    tail: Address,
    next: Disp,
    spin: Disp,
    older: Disp,
    newer: Disp,
    /// The pointer to this rank.
    me: u64,
    /// Of a holder.
    passive: Passive,
}

impl RawMutex for Malthusian {
    const NAME: &'static str = "malthusian";
    const WORDS: u64 = WORD;
    const NODE: u64 = 4 * WORD;
    type Params = MalthusianParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: MalthusianParams) -> Result<Malthusian> {
        if ra.size() > RANKS {
            return Err(Error::TooManyRanks { lock: Self::NAME, size: ra.size(), limit: RANKS });
        }
        Ok(Malthusian {
            period: within(Self::NAME, "period", params.period, 1..=1 << 15)?.into(),
            tail: place.word(0),
            next: place.node,
            spin: place.node.word(1),
            older: place.node.word(2),
            newer: place.node.word(3),
            me: pointer(ra.rank()),
            passive: Passive::NONE,
        })
    }

    #[inline]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        let pred = ra.fetch_store(self.tail, self.me)?;
        self.passive = Passive::NONE;
        if pred == NIL {
            return Ok(());
        }
        ra.put(rank_of(pred).at(self.next), self.me)?;
        let spin = ra.wait_until(self.spin, Until::Ne(0))?;
        ra.put(ra.rank().at(self.spin), 0)?;
        self.passive = Passive::of(spin);
        if spin & WAS_PASSIVE != 0 {
            ra.put(ra.rank().at(self.older), NIL)?;
            ra.put(ra.rank().at(self.newer), NIL)?;
        }
        Ok(())
    }

    #[inline]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut next = ra.get(ra.rank().at(self.next))?;
        if next == NIL {
            // A passive rank, if there is one, becomes the queue (I4).
            let back = self.passive.back(self.period);
            if ra.compare_and_swap(self.tail, self.me, back)? == self.me {
                return if back == NIL { Ok(()) } else { self.take_back(ra, back) };
            }
            next = ra.wait_until(self.next, Until::Ne(NIL))?;
        }
        self.pass_on(ra, next)?;
        Ok(ra.put(ra.rank().at(self.next), NIL)?)
    }
}

impl Malthusian {
    /// Passes the lock to a rank of the queue, which begins with `next`, or to the oldest passive rank if it is that rank's
    /// turn.
    #[inline]
    fn pass_on<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, next: u64) -> Result<()> {
        if self.passive.newest != NIL {
            if self.passive.is_due(self.period) {
                let oldest = self.passive.oldest;
                ra.put(rank_of(oldest).at(self.next), next)?;
                return self.take_back(ra, oldest);
            }
            self.passive.releases += 1;
        }
        let behind = ra.get(rank_of(next).at(self.next).unwatched())?;
        if behind == NIL {
            return self.wake(ra, next, 0);
        }
        self.passivate(ra, next)?;
        self.wake(ra, behind, 0)
    }

    /// Makes the first rank of the queue passive; another rank follows it.
    fn passivate<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, waiter: u64) -> Result<()> {
        let rank = rank_of(waiter);
        ra.put(rank.at(self.next), NIL)?;
        let newest = self.passive.newest;
        if newest == NIL {
            self.passive.oldest = waiter;
        } else {
            ra.put(rank.at(self.older), newest)?;
            ra.put(rank_of(newest).at(self.newer), waiter)?;
            ra.order(rank_of(newest))?;
        }
        self.passive.newest = waiter;
        // I4 and I5.
        Ok(ra.order(rank)?)
    }

    /// Passes the lock to `back`, the newest or the oldest passive rank.
    fn take_back<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, back: u64) -> Result<()> {
        let Passive { newest, oldest, releases } = self.passive;
        let of_back = |word| ra.get(rank_of(back).at(word).unwatched());
        self.passive = if newest == oldest {
            Passive::NONE
        } else if back == oldest {
            Passive { newest, oldest: of_back(self.newer)?, releases: 0 }
        } else {
            Passive { newest: of_back(self.older)?, oldest, releases: releases + 1 }
        };
        self.wake(ra, back, WAS_PASSIVE)
    }

    #[inline]
    fn wake<A: RemoteAtomics + ?Sized>(&self, ra: &A, waiter: u64, was_passive: u64) -> Result<()> {
        Ok(ra.put(rank_of(waiter).at(self.spin), self.passive.word() + was_passive)?)
    }
}

impl RawMutexTry for Malthusian {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        ra.order(ra.rank())?;
        self.passive = Passive::NONE;
        Ok(ra.compare_and_swap(self.tail, NIL, self.me)? == NIL)
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::{Counted, Rank};

    use super::*;
    use crate::{Exclusive, RawRwLock, suite};

    fn params(period: u32) -> MalthusianParams {
        MalthusianParams { period }
    }

    #[test]
    fn conforms() {
        for period in [1, 2, 3] {
            suite::mutex::<Malthusian>(params(period));
        }
        suite::mutex::<Malthusian>(MalthusianParams::default());
        suite::mutex_try::<Malthusian>(params(2));
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::mutex_cost::<Malthusian>(MalthusianParams::default()), (1, 1));
    }

    #[test]
    fn words_hold_what_a_rank_is_woken_with() {
        for releases in [0, 5, 1 << 15] {
            for (newest, oldest) in [(NIL, NIL), (1, 1), (u64::from(RANKS), 7), (7, u64::from(RANKS))] {
                let passive = Passive { newest, oldest, releases };
                assert_ne!(passive.word(), 0);
                assert_eq!(Passive::of(passive.word() + WAS_PASSIVE), passive);
            }
        }
    }

    /// The order of service of ranks that have arrived in the order of their numbers, and the remote operations of the releases.
    fn served(ranks: u32, period: u32) -> Vec<(u32, u64)> {
        let served = std::sync::Mutex::new(Vec::new());
        suite::scenario::<Exclusive<Malthusian>>(ranks, params(period), |ra, mut lock, place, _| {
            let arrived = |rank| suite::poll(ra, place.word(0), |tail| tail == pointer(Rank(rank)));
            let rank = ra.rank().0;
            if rank > 0 {
                arrived(rank - 1)?;
            }
            lock.acquire_write(ra)?;
            if rank == 0 {
                arrived(ranks - 1)?;
                for rank in 0..ranks - 1 {
                    suite::poll(ra, Rank(rank).at(place.node), |next| next != NIL)?;
                }
            }
            // A slot for each holder, so that the next one cannot come first.
            let turn = {
                let mut served = served.lock().unwrap();
                served.push((rank, 0));
                served.len() - 1
            };
            let counted = Counted::new(ra);
            lock.release_write(&counted)?;
            served.lock().unwrap()[turn].1 = counted.counts().remote_operations();
            Ok(())
        });
        served.into_inner().unwrap()
    }

    #[test]
    fn the_oldest_passive_rank_returns_in_time() {
        // 0 makes 1 passive, and 2 makes 3 passive. 4 is the second release beside passive ranks, and takes 1 back.
        let order = |ranks, period| served(ranks, period).into_iter().map(|(rank, _)| rank).collect::<Vec<_>>();
        assert_eq!(order(6, 2), [0, 2, 4, 1, 5, 3]);
        // 7 is the fourth such release, and takes 5, the newest, back.
        assert_eq!(order(8, 5), [0, 2, 4, 6, 7, 5, 1, 3]);
    }

    /// 0 makes 1 passive, and 2 makes 3 passive. 5 finds the queue empty, and 3 returns before 1.
    #[test]
    fn surplus_ranks_are_passive_return_newest_first_and_cost_what_the_head_says() {
        // The home is rank 3, whose compare-and-swap is on its own word. 0: get, nil, wake-up. 2: get, nil, older, newer, wake-up. 4: get,
        // wake-up. 5: compare-and-swap, get, wake-up. 3: wake-up. 1: compare-and-swap.
        assert_eq!(served(6, 1000), [(0, 3), (2, 5), (4, 2), (5, 3), (3, 1), (1, 1)]);
    }
}
