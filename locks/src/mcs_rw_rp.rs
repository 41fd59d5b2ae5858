//! The MCS reader-writer lock with reader preference: a reader that meets no active writer enters with one operation.
//!
//! # Paper
//! J. M. Mellor-Crummey and M. L. Scott, "Scalable Reader-Writer Synchronization for Shared-Memory Multiprocessors",
//! PPoPP 1991, DOI 10.1145/109625.109637, section 3; over network atomics: M. Hatanaka, A. Hori and Y. Ishikawa, "FX100
//! における MPI RMA ロック同期の実装と評価" (MPI RMA lock synchronization on FX100), figures 6 and 7, whose names are
//! used here.
//!
//! # Properties
//! - Mutual exclusion. Readers enter while writers wait, so writers can starve. Among themselves, writers enter first come,
//!   first served.
//! - Every wait is on the waiter's own node: no rank polls a remote word.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with
//!   posted puts that arrive late: 3R+2W×2. Its order, sequentially consistent: 2R+1W×1 and 1R+2W×1. With data and bulk
//!   puts in any order: 1R+1W×2. Loom has checked it, too: 2R+1W×1 and 1R+2W×1.
//! - Spin has checked a model of these steps (verify/spin) exhaustively. Under sequential consistency: 2R+2W×2 (6,122,257
//!   states), 3R+1W×1 and 1R+3W×1. With posted puts that arrive late (in order to each target): 2R+1W×2, 1R+2W×2 and
//!   2R+2W×1. Checked properties: mutual exclusion, no deadlock, no wake-up without a waiter, all words zero at rest.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | rcnt | words + 0 | 8 | home | bit 0 WIFLAG: a writer is interested; bit 1 WAFLAG: one is active; from bit 2: readers |
//! | r_hd | words + 8 | 8 | home | nil, or the pointer of the reader that started to wait last |
//! | w_tl | words + 16 | 8 | home | nil, or the pointer of the last writer in the queue |
//! | w_hd | words + 24 | 8 | home | nil, or the pointer of the writer that the last reader is to wake |
//! | next, unblocked | node | 8 each | each rank | see [`crate::qnode`]; `next` is the writers' |
//!
//! | rcnt | meaning |
//! | --- | --- |
//! | 0 | free |
//! | n·RC_INCR | n readers inside |
//! | n·RC_INCR + WIFLAG | n readers inside, or on their way out; the writer `w_hd` waits for them |
//! | n·RC_INCR + WAFLAG | a writer inside; n readers wait, or are about to |
//!
//! # Invariants
//! - I1: WIFLAG and WAFLAG are never both set. Only the first rank of the writers' queue sets them, or its predecessor or the
//!   last reader on its behalf. So one rank at a time sets a bit, and an addition sets it exactly.
//! - I2: a reader is counted in `rcnt` from before its entry until its release, also while it waits.
//! - I3: a compare-and-swap against no readers turns WIFLAG into WAFLAG. The rank that succeeds wakes the writer, or is the
//!   writer.
//! - I4: `w_hd` is set before WIFLAG, and is nil again before or when the writer is woken.
//! - I5: a waiting reader is woken once: by the rank that took it off `r_hd`, or by the reader that arrived on top of
//!   it there.
//!
//! # Memory ordering
//! `w_hd` is put ahead of WIFLAG, in order; from WIFLAG on it is read. Links and wake-ups are posted: see [`crate::qnode`].
//!
//! # Deviations from the paper
//! - A writer first tries to swap `rcnt` from 0 to WAFLAG. This is the paper's "set WIFLAG; compare-and-swap WIFLAG to
//!   WAFLAG" in one step. It does not need `w_hd`, which is read only after WIFLAG.
//! - A releasing writer that finds no reader counted leaves `r_hd` alone. By I2 no reader is on it, and readers that come
//!   later see that no writer is active.
//! - The waker takes `w_hd` with a swap, so it is nil at rest. The paper's releasing writer clears it in each release, which
//!   costs an operation even without readers.
//! - A reader keeps the pointer of the next reader to wake in a local variable, not in its node.
//!
//! # Cost
//! Remote operations without contention: reader 1/1; writer acquire 2 (swap, compare-and-swap), release 2 (add,
//! compare-and-swap). The paper's writer has 4/4; the deviations save the others. A reader that meets an active writer: 3
//! (add, swap, get), and at most 1 wake-up.

use rmalab_atomics::{Address, RemoteAtomics, WORD};

use crate::qnode::{NIL, Qnode, pointer};
use crate::{Place, RawRwLock, Result};

const WIFLAG: u64 = 1;
const WAFLAG: u64 = 2;
const RC_INCR: u64 = 4;

/// One rank's handle of a reader-writer lock with reader preference.
#[derive(Debug)]
pub struct McsRwRp {
    rcnt: Address,
    r_hd: Address,
    w_tl: Address,
    w_hd: Address,
    node: Qnode,
    /// The pointer to this rank.
    me: u64,
}

impl RawRwLock for McsRwRp {
    const NAME: &'static str = "mcs-rw-rp";
    const WORDS: u64 = 4 * WORD;
    const NODE: u64 = Qnode::BYTES;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<McsRwRp> {
        // 62 bits of `rcnt` can count any number of ranks.
        Ok(McsRwRp {
            rcnt: place.word(0),
            r_hd: place.word(1),
            w_tl: place.word(2),
            w_hd: place.word(3),
            node: Qnode::new(place.node),
            me: pointer(ra.rank()),
        })
    }

    // Figure 6.
    #[inline]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if ra.fetch_add(self.rcnt, RC_INCR)? & WAFLAG == 0 { Ok(()) } else { self.wait_for_writer(ra) }
    }

    // Figure 7.
    #[inline]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let old = ra.fetch_add(self.rcnt, RC_INCR.wrapping_neg())?;
        if old != RC_INCR + WIFLAG { Ok(()) } else { self.let_in_writer(ra) }
    }

    #[inline]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.node.prepare(ra)?;
        let pred = ra.fetch_store(self.w_tl, self.me)?;
        if pred != NIL {
            self.node.link(ra, pred, self.me)?;
        } else if self.activate(ra, self.me)? {
            return Ok(());
        }
        self.node.wait(ra)
    }

    #[inline]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        // This comes before `r_hd` is taken: a reader that has seen WAFLAG and is not on `r_hd` yet looks again.
        let old = ra.fetch_add(self.rcnt, WAFLAG.wrapping_neg())?;
        if old != WAFLAG {
            self.wake_readers(ra)?;
        }
        let mut next = self.node.next(ra)?;
        if next == NIL {
            if ra.compare_and_swap(self.w_tl, self.me, NIL)? == self.me {
                return Ok(());
            }
            next = self.node.wait_next(ra)?;
        }
        if self.activate(ra, next)? {
            self.node.unblock(ra, next)?;
        }
        self.node.forget_next(ra)
    }
}

impl McsRwRp {
    /// Figure 6 after its first step, which has found a writer inside.
    #[cold]
    #[inline(never)]
    fn wait_for_writer<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        self.node.prepare(ra)?;
        let next = ra.fetch_store(self.r_hd, self.me)?;
        // The writer may have left between lines 02 and 04, without seeing this rank on `r_hd`.
        if ra.get(self.rcnt)? & WAFLAG == 0 {
            self.wake_readers(ra)?;
        }
        self.node.wait(ra)?;
        if next != NIL {
            self.node.unblock(ra, next)?;
        }
        Ok(())
    }

    /// Figure 7 after its first step, which has left no reader inside, and a writer that is interested.
    #[cold]
    #[inline(never)]
    fn let_in_writer<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        // If a reader has come since, this fails, and that reader will be the last one.
        if ra.compare_and_swap(self.rcnt, WIFLAG, WAFLAG)? == WIFLAG {
            let writer = ra.fetch_store(self.w_hd, NIL)?;
            self.node.unblock(ra, writer)?;
        }
        Ok(())
    }

    /// Wakes the first of the waiting readers; each of them wakes the next.
    fn wake_readers<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        let head = ra.fetch_store(self.r_hd, NIL)?;
        if head != NIL {
            self.node.unblock(ra, head)?;
        }
        Ok(())
    }

    /// Makes `writer`, the first of the writers' queue, the active writer. If readers are inside, the last of them does
    /// that instead, and wakes it. Returns whether `writer` is active.
    #[inline]
    fn activate<A: RemoteAtomics + ?Sized>(&self, ra: &A, writer: u64) -> Result<bool> {
        if ra.compare_and_swap(self.rcnt, 0, WAFLAG)? == 0 {
            return Ok(true);
        }
        self.set_w_hd(ra, writer)?;
        let free = ra.fetch_add(self.rcnt, WIFLAG)? == 0;
        if free && ra.compare_and_swap(self.rcnt, WIFLAG, WAFLAG)? == WIFLAG {
            self.set_w_hd(ra, NIL)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// In order, since `w_hd` must be there before WIFLAG (I4), and gone before another rank sets it again.
    #[inline]
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
        suite::rw_lock::<McsRwRp>(());
    }

    #[test]
    fn costs() {
        assert_eq!(suite::rw_lock_cost::<McsRwRp>(()), [(1, 1), (2, 2)]);
    }

    #[test]
    fn a_reader_passes_a_waiting_writer() {
        suite::scenario::<McsRwRp>(3, (), |ra, mut lock, _, passed| match ra.rank().0 {
            0 => {
                lock.acquire_read(ra)?;
                suite::poll(ra, passed, |passed| passed == 1)?;
                lock.release_read(ra)
            }
            1 => {
                suite::poll(ra, lock.rcnt, |rcnt| rcnt >= RC_INCR)?;
                lock.acquire_write(ra)?;
                assert_eq!(ra.get(passed)?, 1, "the writer came in before the reader that passes it had left");
                lock.release_write(ra)
            }
            _ => {
                suite::poll(ra, lock.rcnt, |rcnt| rcnt & WIFLAG != 0)?;
                lock.acquire_read(ra)?;
                ra.fetch_add(passed, 1)?;
                lock.release_read(ra)
            }
        });
    }
}
