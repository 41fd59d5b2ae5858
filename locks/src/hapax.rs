//! The Hapax mutex: each acquisition has a unique number, and a rank waits until its predecessor's acquisition has
//! ended.
//!
//! # Paper
//! D. Dice and A. Kogan, "Hapax Locks: Value-Based Mutual Exclusion", PPoPP 2026, arXiv 2511.14608.
//!
//! # Properties
//! - Mutual exclusion; first come, first served, in the order of the swaps on `arrive`.
//! - A release uses no other rank's word, except to wake a waiter. Every wait is on the waiter's own word: no rank polls.
//! - The queue has no links, so no release waits for one.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with posted puts that
//!   arrive late: 4 ranks × 2, 5 × 1, and 4 × 2 of which two try. Its order, sequentially consistent: 3 × 2. With data and bulk puts
//!   in any order: 2 × 2.
//!
//! # State
//! A *hapax* names one acquisition: the pointer of its rank in bits 31–0, and in bits 63–32 its number, by which the rank counts its
//! acquisitions modulo 2^32.
//!
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | arrive | words + 0 | 8 | home | 0, or the hapax of the last rank that has come |
//! | go | node + 0 | 8 | each rank | 1 from the wake-up until its rank has seen it |
//! | depart | node + 8 | 8 | each rank | the number of its last acquisition that has ended, and in bits 31–0 nil or the pointer of the rank that waits for the next one |
//!
//! ```text
//!   arrive: (rank 7, 12)
//!   rank 7 waits for (rank 2, 5)      depart of rank 2: 4, rank 7
//!   rank 2 waits for (rank 9, 31)     depart of rank 9: 30, rank 2
//! ```
//!
//! At rest `arrive` and the numbers in `depart` keep what they are. All else is zero.
//!
//! # Invariants
//! - I1: each hapax is found by one rank at most, the next one that comes: its successor. The lock goes from rank to rank in this order.
//! - I2: a rank comes again only after its last acquisition has ended. So until the successor of the hapax (r, n) has entered, `depart`
//!   of r has the number n - 1 or n.
//! - I3: the successor of (r, n) registers by one compare-and-swap on `depart` of r, which expects n - 1 and nil. It fails if and only if
//!   r has left. Then the number is n, and the successor of (r, n + 1) may be registered there already.
//! - I4: a rank leaves by one swap on its `depart`. It finds there the rank that it has to wake, or that rank's compare-and-swap fails.
//!
//! # Memory ordering
//! The swaps on `arrive` order the ranks. All steps on `depart` are atomic and complete. The wake-up is a posted put. A rank resets its
//! `go` by a posted put, and orders it ahead of its next swap of `arrive`: a late reset could erase a wake-up.
//!
//! # Deviations from the paper
//! - The paper has one word `Depart` beside the lock and a table of 4,096 slots that all locks share, in which waiters show themselves. A
//!   release there writes the home. Here each rank has both in one word, so that a release is local. In the paper a waiter shows itself,
//!   looks at `Depart` again, and withdraws if the lock was free. Here that is one step.
//! - A hapax is a rank and its count. The paper deals out blocks of numbers of 64 bits from a counter of the process.
//! - By I2, a waiter compares only the numbers n - 1 and n, so their repetition after 2^32 is harmless. A try that sleeps between its
//!   two looks while another rank acquires exactly 2^32 times would be deceived.
//!
//! # Cost
//! Remote operations without contention: acquire 2 (swap, compare-and-swap), or 1 (swap) if this rank was the last holder; release 0
//! (a swap of its own word). With contention: acquire 2, release 1 (put).

use rmalab_atomics::{Address, Disp, RemoteAtomics, Until, WORD};

use crate::qnode::{NIL, pointer, rank_of};
use crate::{Place, RawMutex, RawMutexTry, Result};

/// In a hapax and in `depart`: one acquisition.
const ONE: u64 = 1 << 32;

/// The pointer in a hapax or in a value of `depart`.
const fn pointer_in(word: u64) -> u64 {
    word % ONE
}

/// The number in a hapax or in a value of `depart`, not shifted.
const fn number_in(word: u64) -> u64 {
    word - word % ONE
}

/// One rank's handle of a Hapax mutex.
#[derive(Debug)]
pub struct Hapax {
    arrive: Address,
    go: Disp,
    depart: Disp,
    /// The hapax of this rank's last acquisition.
    hapax: u64,
}

impl RawMutex for Hapax {
    const NAME: &'static str = "hapax";
    const WORDS: u64 = WORD;
    const NODE: u64 = 2 * WORD;
    const RESTS_AT_ZERO: bool = false;
    const NODE_AT_REST: u64 = WORD;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<Hapax> {
        let (go, depart) = (place.node, place.node.word(1));
        Ok(Hapax { arrive: place.word(0), go, depart, hapax: pointer(ra.rank()) })
    }

    #[inline]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        self.hapax = self.hapax.wrapping_add(ONE);
        let pred = ra.fetch_store(self.arrive, self.hapax)?;
        if self.is_another(pred) {
            // I3: when this step runs, the predecessor has left, or it learns which rank to wake.
            let outstanding = number_in(pred.wrapping_sub(ONE));
            let me = pointer_in(self.hapax);
            if ra.compare_and_swap(self.depart_of(pred), outstanding, outstanding + me)? == outstanding {
                ra.wait_until(self.go, Until::Ne(0))?;
                ra.put(ra.rank().at(self.go), 0)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let succ = pointer_in(ra.fetch_store(ra.rank().at(self.depart).unwatched(), number_in(self.hapax))?);
        if succ == NIL { Ok(()) } else { Ok(ra.put(rank_of(succ).at(self.go), 1)?) }
    }
}

impl Hapax {
    /// Returns whether `pred` is the hapax of another rank. This rank's last acquisition has ended.
    #[inline]
    fn is_another(&self, pred: u64) -> bool {
        pred != 0 && pointer_in(pred) != pointer_in(self.hapax)
    }

    /// The address of `depart` of the rank of `hapax`.
    #[inline]
    fn depart_of(&self, hapax: u64) -> Address {
        rank_of(hapax).at(self.depart).unwatched()
    }
}

impl RawMutexTry for Hapax {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        let pred = ra.get(self.arrive)?;
        if self.is_another(pred) && number_in(ra.get(self.depart_of(pred))?) != number_in(pred) {
            return Ok(false);
        }
        let hapax = self.hapax.wrapping_add(ONE);
        let free = ra.compare_and_swap(self.arrive, pred, hapax)? == pred;
        if free {
            self.hapax = hapax;
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
        suite::mutex::<Hapax>(());
        suite::mutex_try::<Hapax>(());
    }

    #[test]
    fn first_come_first_served() {
        suite::mutex_order::<Hapax>((), |rank| (0, ONE + pointer(rank)));
    }

    #[test]
    fn the_last_holder_costs_one_and_none() {
        assert_eq!(suite::mutex_cost::<Hapax>(()), (1, 0));
    }

    #[test]
    fn another_rank_costs_two_and_none() {
        assert_eq!(suite::mutex_costs_in_turn::<Hapax>(()), [(2, 0); 2]);
    }

    #[test]
    fn numbers_repeat_without_harm() {
        // Each rank's first acquisition has the last number, and its second one the number 0.
        let world = World::threads(3).run(|ra| {
            let place = Place::alloc(ra, Rank(0), Hapax::WORDS, Hapax::NODE).unwrap();
            let all = rmalab_atomics::Collectives::new(ra).unwrap();
            let mut lock = Hapax::bind(ra, place, ()).unwrap();
            lock.hapax = lock.hapax.wrapping_sub(2 * ONE);
            ra.fetch_store(ra.rank().at(lock.depart), number_in(lock.hapax)).unwrap();
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
