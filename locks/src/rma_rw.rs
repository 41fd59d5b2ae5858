//! RMA-RW: many counters count readers near them. Writers go through a tree of queues, and close the counters.
//!
//! # Paper
//! P. Schmid, M. Besta, T. Hoefler, "High-Performance Distributed RMA Locks", HPDC'16, 2016, DOI 10.1145/2907294.2907323:
//! the distributed counter (DC), in addition to the queues (DQ) and the tree (DT) of [`rma_mcs`], with the paper's
//! thresholds T_DC, T_L, T_R and T_W.
//!
//! # Properties
//! - A writer excludes all others; readers share.
//! - At most T_W = T_L,1 × ... × T_L,N writers enter in a row. Then all waiting readers enter at once.
//! - While a writer is on its way, at most T_R readers in a row enter by one counter, earlier arrivals included. Further
//!   readers let the writer go first.
//! - So no rank starves. A reader waits for one such row of writers. A writer waits for the writers before it, and for T_R
//!   readers of each counter between two rows.
//! - A waiting reader stays counted, and the rank that ends the row of writers admits it. So no reader withdraws and tries
//!   again. A reader waits on a local word if the counter is its own. Otherwise it polls the counter's rank, which is on its
//!   node by default. A writer polls the counters that have readers.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, on nodes of two ranks, with (T_DC, T_L, T_R) =
//!   (2, 1, 1), (1, 2, 1) and (2, 2, 2). Under sequential consistency and with posted puts that arrive late: a reader and a
//!   writer on each of two nodes, and 1 reader with 3 writers. Sequentially consistent also: 3 with 1, and 2R+1W×2 and
//!   1R+2W×2. With data and bulk puts in any order: 1R+1W×2. With `--long`: 2R+2W×2 with (2, 2, 2), and with (2, 1, 1) a
//!   reader and a writer on each of two nodes × 2.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tails, status, next | words + 0, node + 0 | | | those of [`rma_mcs`] |
//! | counter | node + 128 | 8 | each T_DC-th rank | see below |
//!
//! | bits of a counter | name | values |
//! | --- | --- | --- |
//! | 0 | WRITE | a writer is on its way, or has the lock |
//! | 1 | CLOSED | a reader that arrives enters only after the next change of PHASE |
//! | 2 to 25 | INSIDE | the number of readers that have arrived and not departed: ARRIVE - DEPART |
//! | 26 to 62 | ARRIVE | the number of readers that have arrived since the counter was idle, or since the last row of writers |
//! | 63 | PHASE | changes when a row of writers ends |
//!
//! # Invariants
//! - I1: only the head of the world's queue sets and clears WRITE and CLOSED. It clears them before it leaves that queue,
//!   unless it passes the lock to a writer in the same row.
//! - I2: a reader is admitted as it arrives if WRITE is clear, or if CLOSED is clear and ARRIVE was below T_R before it. The
//!   next change of PHASE admits every other reader.
//! - I3: only admitted readers depart. So all admitted readers are gone once DEPART has reached their number. That number is
//!   ARRIVE when CLOSED was set, which needs INSIDE = 0. If CLOSED is clear, it is the larger of T_R and of ARRIVE when WRITE
//!   was set. From then on DEPART does not change until PHASE changes.
//! - I4: PHASE does not change again before all readers that it has admitted are gone: they are counted in ARRIVE when WRITE
//!   is set again.
//! - I5: a rank that leaves a counter without WRITE and with INSIDE = 0 sets it to 0.
//!
//! # Memory ordering
//! All operations on counters are atomic and complete when they return. For the queues, see [`rma_mcs`].
//!
//! # Deviations from the paper
//! - ARRIVE and DEPART are one word. With two words, a reader can arrive between a reset of one and a read of the other, and
//!   a writer enters beside it. INSIDE replaces DEPART, since it cannot overflow.
//! - A reader that may not enter stays counted. In the paper it takes its arrival back and tries again, which can go on
//!   forever while writers pass. The paper's barrier, a wait until ARRIVE is below T_R, blocks forever if that writer has
//!   left and no rank resets the counter. Here PHASE admits the reader, as in phase-fair locks (B. B. Brandenburg, J. H.
//!   Anderson, "Spin-Based Reader-Writer Synchronization for Multiprocessor Real-Time Systems", Real-Time Systems 46, 2010,
//!   DOI 10.1007/s11241-010-9097-2).
//! - The T_R-th reader sees by WRITE whether a writer is there. The paper's reader reads the tail of the world's queue. A
//!   counter without writers is reset when it is idle, not after T_R readers.
//! - While ARRIVE is below T_R, a writer waits for readers to leave the counter, and does not close it at once. That is the
//!   purpose of T_R.
//!
//! # Cost
//! Remote operations without contention: a reader 1 / 1, at its counter. If several readers are inside at once, the last
//! needs 2 to release, and the first may need 2, too. A writer needs 1 / 1 for each counter, in addition to the
//! operations of [`rma_mcs`]. A counter with readers costs the writer one more operation to set, one more to clear, and
//! polls. In a row of writers, only the first and the last touch counters.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until, WORD};

use crate::levels::{Elements, MAX_LEVELS};
use crate::rma_mcs::{self, Tree};
use crate::{Backoff, BackoffState, Error, LINE, Place, RawRwLock, Result};

const WRITE: u64 = 1;
const CLOSED: u64 = 1 << 1;
/// One reader in INSIDE.
const INSIDE: u64 = 1 << 2;
const INSIDE_BITS: u32 = 24;
/// One reader in ARRIVE.
const ARRIVE: u64 = INSIDE << INSIDE_BITS;
const PHASE: u64 = 1 << 63;
/// The highest bit of ARRIVE. A counter that has reached it admits no reader until it has been idle, so ARRIVE never
/// overflows.
const FULL: u64 = PHASE / ARRIVE / 2;
/// The largest number of ranks of one counter.
const MAX_RANKS: u32 = (1 << INSIDE_BITS) - 1;

fn inside(counter: u64) -> u64 {
    (counter / INSIDE) & u64::from(MAX_RANKS)
}

fn arrive(counter: u64) -> u64 {
    (counter & !PHASE) / ARRIVE
}

fn depart(counter: u64) -> u64 {
    // The subtraction wraps. So debug builds do not panic where a mutant has broken a counter, and a broken property
    // shows it.
    arrive(counter).wrapping_sub(inside(counter))
}

/// The parameters of [`RmaRw`], under the paper's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RmaRwParams {
    /// T_DC: the number of ranks that share a counter; 0 for the ranks of one node.
    pub t_dc: u32,
    /// T_L,1 to T_L,4: the number of times in a row that writers acquire inside an element of the level while others
    /// wait; at least 1 each. After T_L,1, the threshold of the world, waiting readers enter.
    pub t_l: [u16; MAX_LEVELS],
    /// T_R: the number of readers in a row that enter by one counter while a writer is on its way. With 0, no reader
    /// overtakes it.
    pub t_r: u32,
    /// The elements of the machine: levels 2 to N.
    pub levels: Elements,
    /// The pauses between polls.
    pub backoff: Backoff,
}

impl Default for RmaRwParams {
    /// One counter for each node, as the paper recommends. 32 in each level and 1,000 readers in a row are our choice.
    fn default() -> RmaRwParams {
        RmaRwParams {
            t_dc: 0,
            t_l: [32; MAX_LEVELS],
            t_r: 1_000,
            levels: Elements::Topology,
            backoff: Backoff::default(),
        }
    }
}

impl RmaRwParams {
    /// Returns T_W: the largest number of writers in a row while readers wait, with this number of levels.
    pub fn t_w(&self, levels: usize) -> u64 {
        self.t_l.iter().take(levels).fold(1, |product, &most| product.saturating_mul(u64::from(most)))
    }
}

/// One rank's handle of an RMA-RW lock.
#[derive(Debug)]
pub struct RmaRw {
    tree: Tree,
    /// The counter of this rank.
    counter: Address,
    /// The displacement of the counters.
    counters: Disp,
    t_dc: u32,
    t_r: u64,
    /// True if the counter was idle when this rank arrived.
    alone: bool,
    backoff: BackoffState,
}

impl RawRwLock for RmaRw {
    const NAME: &'static str = "rma-rw";
    const WORDS: u64 = WORD;
    /// The counter has a line of its own, since readers of other ranks poll it.
    const NODE: u64 = LINE + WORD;
    type Params = RmaRwParams;

    /// # Errors
    ///
    /// [`Error::Parameter`] when a threshold of T_L is 0, or the levels are [not valid](crate::Levels::new).
    /// [`Error::TooManyRanks`] when more ranks share a counter than it can count.
    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: RmaRwParams) -> Result<RmaRw> {
        const { assert!(rma_mcs::NODE <= LINE, "the tree's words are before the counter") };
        let RmaRwParams { t_dc, t_l, t_r, levels, backoff } = params;
        let t_dc = if t_dc == 0 { ra.topology().ranks_per_node() } else { t_dc };
        if t_dc.min(ra.size()) > MAX_RANKS {
            return Err(Error::TooManyRanks { lock: Self::NAME, size: ra.size(), limit: MAX_RANKS });
        }
        let (rank, counters) = (ra.rank(), place.node.plus(LINE));
        Ok(RmaRw {
            tree: Tree::bind(ra, place, Self::NAME, levels, t_l, backoff)?,
            counter: Rank(rank.0 - rank.0 % t_dc).at(counters),
            counters,
            t_dc,
            t_r: u64::from(t_r),
            alone: false,
            backoff: BackoffState::new(backoff, rank),
        })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        loop {
            let old = ra.fetch_add(self.counter, ARRIVE + INSIDE)?;
            if old & WRITE != 0 {
                if old & CLOSED != 0 || arrive(old) >= self.t_r {
                    self.await_counter(
                        ra,
                        if old & PHASE == 0 { Until::AnySet(PHASE) } else { Until::NoneSet(PHASE) },
                    )?;
                }
                return Ok(());
            }
            if arrive(old) < FULL {
                self.alone = old == 0;
                return Ok(());
            }
            self.release_read(ra)?;
            self.await_counter(ra, Until::NoneSet(FULL * ARRIVE))?;
        }
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if std::mem::take(&mut self.alone) && ra.compare_and_swap(self.counter, ARRIVE + INSIDE, 0)? == ARRIVE + INSIDE
        {
            return Ok(());
        }
        let left = ra.fetch_add(self.counter, INSIDE.wrapping_neg())?.wrapping_sub(INSIDE);
        if inside(left) == 0 && left & WRITE == 0 {
            // If that fails, a reader has arrived, or a writer has come, and will do it (I5).
            ra.compare_and_swap(self.counter, left, 0)?;
        }
        Ok(())
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.tree.acquire(ra)? { self.set_counters_to_write(ra) } else { Ok(()) }
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let counters = all_counters(ra, self.counters, self.t_dc);
        self.tree.release(ra, |ra| counters.into_iter().try_for_each(|counter| reset_counter(ra, counter)))
    }
}

impl RmaRw {
    /// Waits until the condition holds for the rank's counter.
    #[cold]
    fn await_counter<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, until: Until) -> Result<()> {
        if self.counter.rank == ra.rank() {
            ra.wait_until(self.counter.disp, until)?;
            return Ok(());
        }
        self.backoff.reset();
        while !until.holds(ra.get(self.counter)?) {
            self.backoff.wait(ra)?;
        }
        Ok(())
    }

    /// Announces the writer to all readers, and waits until the readers that enter before it are gone.
    fn set_counters_to_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut busy = Vec::new();
        for counter in all_counters(ra, self.counters, self.t_dc) {
            if ra.compare_and_swap(counter, 0, WRITE | CLOSED)? != 0 {
                let old = ra.fetch_add(counter, WRITE)?;
                busy.push((counter, arrive(old).max(self.t_r)));
            }
        }
        for (counter, admitted) in busy {
            self.backoff.reset();
            loop {
                let seen = ra.get(counter)?;
                if depart(seen) == admitted {
                    break;
                }
                if inside(seen) == 0 && ra.compare_and_swap(counter, seen, seen | CLOSED)? == seen {
                    break;
                }
                self.backoff.wait(ra)?;
            }
        }
        Ok(())
    }
}

/// Returns all counters of the world.
fn all_counters<A: RemoteAtomics + ?Sized>(ra: &A, at: Disp, t_dc: u32) -> impl Iterator<Item = Address> + use<A> {
    (0..ra.size()).step_by(t_dc as usize).map(move |rank| Rank(rank).at(at))
}

/// Ends a row of writers at one counter: admits the readers that have arrived in it.
fn reset_counter<A: RemoteAtomics + ?Sized>(ra: &A, counter: Address) -> Result<()> {
    let mut seen = WRITE | CLOSED;
    // Without readers the counter goes back to rest. The first guess is that no reader has come at all.
    while inside(seen) == 0 {
        let old = ra.compare_and_swap(counter, seen, 0)?;
        if old == seen {
            return Ok(());
        }
        seen = old;
    }
    // By I3 DEPART still has the value that was seen. From now on it counts in this row.
    let cleared = (seen & (WRITE | CLOSED)).wrapping_add(depart(seen).wrapping_mul(ARRIVE));
    ra.fetch_add(counter, PHASE.wrapping_sub(cleared))?;
    Ok(())
}

#[cfg(test)]
mod tests;
