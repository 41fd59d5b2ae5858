//! The MCS reader-writer lock with writer preference, in a form in which every wait is local.
//!
//! # Paper
//! J. M. Mellor-Crummey and M. L. Scott, "Scalable Reader-Writer Synchronization for Shared-Memory Multiprocessors",
//! PPoPP 1991, DOI 10.1145/109625.109637, section 3 (writer preference), whose names are used here. The wake-up of the
//! writer by the last reader is new here.
//!
//! # Properties
//! - Mutual exclusion. Once a writer is interested, the only readers that enter are readers that are being woken, and
//!   readers that join their stack before it is taken. So readers can starve. Among themselves, writers enter first come,
//!   first served.
//! - Every wait is on the waiter's own node: no rank polls a remote word. (The paper's writer spins on `state`.)
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with
//!   posted puts that arrive late: 3R+2W×2. Its order, sequentially consistent: 2R+1W×1 and 1R+2W×1. With data and bulk
//!   puts in any order: 1R+1W×2. Loom has checked it, too: 1R+2W×1.
//! - Spin has checked a model of these steps (verify/spin) exhaustively. Under sequential consistency: 2R+2W×2 (6,001,057
//!   states), 3R×2+1W×1, 3R×1+1W×2, 1R+3W×2, 3R+2W×1 and 2R+3W×1. With posted puts that arrive late (in order to each target):
//!   2R+1W×2, 1R+2W×2 and 2R+2W×1. Checked properties: mutual exclusion, no deadlock, no wake-up without a waiter, all words zero
//!   at rest, and the assertions I1, I4 and I5. A writer that ignores RF, or a reader that leaves out W2, fails at 1R+1W×1.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | state | words + 0 | 8 | home | bit 0 W1, bit 1 W2, bit 2 RF, from bit 3: readers inside |
//! | r_hd | words + 8 | 8 | home | nil, or the pointer of the reader that started to wait last |
//! | w_tl | words + 16 | 8 | home | nil, or the pointer of the last writer in the queue |
//! | w_hd | words + 24 | 8 | home | nil, or the pointer of the writer that the last reader is to wake |
//! | next, unblocked | node | 8 each | each rank | see [`crate::qnode`]; `next` is the writers' |
//!
//! | flag | set by | cleared by | meaning |
//! | --- | --- | --- | --- |
//! | W1 | the first writer, or its predecessor for it | the releasing writer without a successor | a writer is interested |
//! | W2 | that rank, or the reader in the window | with W1 | a reader can enter only by the cascade of the readers inside |
//! | RF | the reader that finds `r_hd` nil | the rank that then wakes the readers | readers wait, or are being woken |
//!
//! The *window* begins when a reader sets RF and sees neither W1 nor W2, and ends when this reader clears RF.
//!
//! # Invariants
//! - I1: one rank at a time sets each flag, while it is clear. Only the reader that found `r_hd` nil sets RF, and `r_hd` is
//!   nil only after RF was cleared. Only the first of the writers' queue sets W1, or its predecessor, whose own bits are
//!   clear. For W2 see I2. So additions set and clear flags exactly, without fetch-or and fetch-and.
//! - I2: exactly one rank sets W2. If W1 is set inside the window, its setter sees RF and leaves W2 to the reader, whose
//!   addition sees W1. Otherwise the setter of W1 sees no RF and sets W2 itself. The reader's addition came earlier then and
//!   saw no W1; a reader that comes later sees W1 when it sets RF, and waits.
//! - I3: once W2 is set, only a counted reader counts another reader, before either of them leaves. So the count falls to 0
//!   once, and stays there until W1 and W2 are cleared.
//! - I4: the event of I3 has exactly one witness, which wakes the writer or is the writer. It is the setter of W2 if its
//!   addition saw no readers, otherwise the reader whose release saw W2 and one reader. It is never the reader in the window,
//!   which has counted a reader that is not woken yet.
//! - I5: `w_hd` is set before W1, and is nil again before or when the writer is woken.
//! - I6: a waiting reader is woken once: by the rank that took it off `r_hd`, or by the reader that arrived on top of
//!   it there.
//!
//! # Memory ordering
//! `w_hd` is put ahead of W1, in order; from W1 on it is read. Links and wake-ups are posted: see [`crate::qnode`].
//!
//! # Deviations from the paper
//! - A writer that finds readers waits on its node, and the witness of I4 wakes it.
//! - A writer first tries to swap `state` from 0 to W1 + W2. Without readers and without a window both steps succeed at once.
//! - The addition that clears RF returns the word that the paper reads afterwards. A releasing writer does not look for W1
//!   there: no rank can have set it, since this rank is still the first of the writers' queue.
//! - `w_hd` is set only where readers are to wake the writer, and the waker takes it with a swap. A writer that has its
//!   successor's link wakes the successor without it.
//! - A reader keeps the pointer of the next reader to wake in a local variable. A reader that admits itself does not write
//!   its own flag.
//!
//! # Cost
//! Remote operations without contention: reader acquire 4 (swap, add, add, swap; the paper's further read of `state` is
//! the addition's result), release 1. Writer acquire 2 (swap, compare-and-swap), release 2 (add, compare-and-swap); the
//! paper's 5/3 set `w_hd` and the flags one by one, poll, and clear `w_hd`. Handover from writer to writer: 1 (put).

use rmalab_atomics::{Address, RemoteAtomics, WORD};

use crate::qnode::{NIL, Qnode, pointer};
use crate::{Place, RawRwLock, Result};

const W1: u64 = 1;
const W2: u64 = 2;
const RF: u64 = 4;
const RC: u64 = 8;

/// One rank's handle of a reader-writer lock with writer preference.
#[derive(Debug)]
pub struct McsRwWp {
    state: Address,
    r_hd: Address,
    w_tl: Address,
    w_hd: Address,
    node: Qnode,
    /// The pointer to this rank.
    me: u64,
}

impl RawRwLock for McsRwWp {
    const NAME: &'static str = "mcs-rw-wp";
    const WORDS: u64 = 4 * WORD;
    const NODE: u64 = Qnode::BYTES;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<McsRwWp> {
        // 61 bits of `state` can count any number of ranks.
        Ok(McsRwWp {
            state: place.word(0),
            r_hd: place.word(1),
            w_tl: place.word(2),
            w_hd: place.word(3),
            node: Qnode::new(place.node),
            me: pointer(ra.rank()),
        })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.node.prepare(ra)?;
        let next = ra.fetch_store(self.r_hd, self.me)?;
        let mut head = NIL;
        if next == NIL && ra.fetch_add(self.state, RF)? & (W1 | W2) == 0 {
            head = self.unblock_readers(ra)?;
        }
        if head != self.me {
            self.node.wait(ra)?;
        }
        if next != NIL {
            // This rank counts the next reader first. Otherwise it could leave as the last reader and let a writer in
            // beside the next reader (I3).
            ra.fetch_add(self.state, RC)?;
            self.node.unblock(ra, next)?;
        }
        Ok(())
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let old = ra.fetch_add(self.state, RC.wrapping_neg())?;
        if old & W2 != 0 && old / RC == 1 {
            // I4: this rank is the witness.
            let writer = ra.fetch_store(self.w_hd, NIL)?;
            self.node.unblock(ra, writer)?;
        }
        Ok(())
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.node.prepare(ra)?;
        let pred = ra.fetch_store(self.w_tl, self.me)?;
        if pred != NIL {
            self.node.link(ra, pred, self.me)?;
        } else if self.set_next_writer(ra, self.me)? {
            return Ok(());
        }
        self.node.wait(ra)
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut next = self.node.next(ra)?;
        if next != NIL {
            // W1 and W2 stay: the lock passes from writer to writer, and no reader is inside.
            self.node.unblock(ra, next)?;
            return self.node.forget_next(ra);
        }
        if ra.fetch_add(self.state, (W1 | W2).wrapping_neg())? & RF != 0 {
            self.unblock_readers(ra)?;
        }
        if ra.compare_and_swap(self.w_tl, self.me, NIL)? == self.me {
            return Ok(());
        }
        next = self.node.wait_next(ra)?;
        if self.set_next_writer(ra, next)? {
            self.node.unblock(ra, next)?;
        }
        self.node.forget_next(ra)
    }
}

impl McsRwWp {
    /// Ends the window and admits the waiting readers. Each of them admits the next. Returns the first of them, which
    /// is woken unless it is this rank.
    fn unblock_readers<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<u64> {
        let old = ra.fetch_add(self.state, RC.wrapping_sub(RF))?;
        if old & W1 != 0 {
            // I2: W1 came in the window; the reader counted above keeps the writer out until it leaves.
            ra.fetch_add(self.state, W2)?;
        }
        let head = ra.fetch_store(self.r_hd, NIL)?;
        if head != self.me {
            self.node.unblock(ra, head)?;
        }
        Ok(head)
    }

    /// Lets `writer`, the first of the writers' queue, own the lock. If readers are inside, the last of them wakes it
    /// instead. Returns whether `writer` owns the lock.
    fn set_next_writer<A: RemoteAtomics + ?Sized>(&self, ra: &A, writer: u64) -> Result<bool> {
        if ra.compare_and_swap(self.state, 0, W1 | W2)? == 0 {
            return Ok(true);
        }
        self.set_w_hd(ra, writer)?;
        if ra.fetch_add(self.state, W1)? & RF == 0 && ra.fetch_add(self.state, W2)? / RC == 0 {
            // I4: the setter of W2 is the witness, so no reader takes `w_hd`.
            self.set_w_hd(ra, NIL)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// In order, since `w_hd` must be there before W1 (I5), and gone before another rank sets it again.
    fn set_w_hd<A: RemoteAtomics + ?Sized>(&self, ra: &A, writer: u64) -> Result<()> {
        ra.put(self.w_hd, writer)?;
        Ok(ra.order(self.w_hd.rank)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::rw_lock::<McsRwWp>(());
    }

    #[test]
    fn costs() {
        assert_eq!(suite::rw_lock_cost::<McsRwWp>(()), [(4, 1), (2, 2)]);
    }

    #[test]
    fn a_waiting_writer_passes_a_reader() {
        suite::scenario::<McsRwWp>(4, (), |ra, mut lock, _, order| match ra.rank().0 {
            0 => {
                lock.acquire_read(ra)?;
                suite::poll(ra, lock.state, |state| state & (W2 | RF) == W2 | RF)?;
                suite::poll(ra, lock.w_tl, |w_tl| w_tl == pointer(rmalab_atomics::Rank(3)))?;
                lock.release_read(ra)
            }
            1 => {
                suite::poll(ra, lock.state, |state| state & W2 != 0)?;
                lock.acquire_read(ra)?;
                assert_eq!(ra.get(order)?, 2, "the reader came in before the writers");
                lock.release_read(ra)
            }
            rank => {
                match rank {
                    2 => {
                        suite::poll(ra, lock.state, |state| state >= RC)?;
                        // Rank 0 has taken the stack of readers, so rank 1 cannot join it.
                        suite::poll(ra, lock.r_hd, |r_hd| r_hd == NIL)?
                    }
                    _ => suite::poll(ra, lock.state, |state| state & RF != 0 && state & W2 != 0)?,
                };
                lock.acquire_write(ra)?;
                assert_eq!(ra.fetch_add(order, 1)?, u64::from(rank) - 2, "writers are served in order");
                if rank == 2 {
                    // A release that does not see its successor yet lets readers in.
                    lock.node.wait_next(ra)?;
                }
                lock.release_write(ra)
            }
        });
    }
}
