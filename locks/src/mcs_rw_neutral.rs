//! The fair MCS reader-writer lock: one queue of readers and writers, in which neighbouring readers share.
//!
//! # Paper
//! J. M. Mellor-Crummey and M. L. Scott, "Scalable Reader-Writer Synchronization for Shared-Memory Multiprocessors", PPoPP
//! 1991, DOI 10.1145/109625.109637, section 3 (no preference), whose names are used here. Two defects of the published
//! lock are repaired here (see Deviations).
//!
//! # Properties
//! - Mutual exclusion. First come, first served, in the order of the swaps on `tail`; a reader enters together with the
//!   readers directly before it. No rank starves.
//! - Every wait is on the waiter's own node: no rank polls a remote word.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency: 4R+1W×2,
//!   3R+2W×2. Its order: 2R+1W×1 and 1R+2W×1. With posted puts that arrive late: 2R+2W×2. With data and bulk puts in any
//!   order: 1R+1W×2. Without either repair it violates mutual exclusion: see docs/results/mutants.md,
//!   and the counterexamples in verify/counterexamples.
//! - Spin has checked a model of these steps (verify/spin) exhaustively. Under sequential consistency: 2R+2W×2 (63,641,931
//!   states), 3R×1+1W×2 (15,450,108) and 1R+2W×2. With posted puts that arrive late (in order to each target): 2R×1+1W×2 and
//!   1R×1+2W×2. Checked properties: mutual exclusion, no deadlock, no wake-up without a waiter, all words zero at rest. Without
//!   either repair the same model violates mutual exclusion; see below.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | nil, or the identity of the last rank in the queue |
//! | reader_count | words + 8 | 8 | home | readers that are inside or were admitted |
//! | next_writer | words + 16 | 8 | home | nil, or the identity of the writer that the last reader is to wake |
//! | next, unblocked | node | 8 each | each rank | see [`crate::qnode`]; `next` holds an identity |
//! | state | node + 16 | 8 | each rank | bit 0 ACTIVE, bit 1 READER: the successor is a reader that this rank admits |
//!
//! An identity is a pointer with the class and, for writers, the acquisition. So a swap or a link returns all that a rank
//! needs to know about a node:
//!
//! | bits | 63 | 62–32 | 31–0 |
//! | --- | --- | --- | --- |
//! | | 1: writer | number of the acquisition, modulo 2^31; 0 for readers | rank + 1 |
//!
//! # Invariants
//! - I1: a reader is counted in `reader_count` before it is ACTIVE or woken, until the end of its release.
//! - I2: a rank enters only after all readers before it in the queue are counted or gone, and all writers before it are gone.
//! - I3: a reader that finds a reader before it registers in the `state` of that reader, which then admits it. If that reader
//!   is ACTIVE already, it admits itself. Both steps are atomic on one word.
//! - I4: `next_writer` is W only while the acquisition W is the first of the queue and every reader before it is counted or
//!   gone. From then on `reader_count` only falls, and once it is 0, W may enter.
//! - I5: a rank that sees W in `next_writer`, then `reader_count` at 0, and then swaps `next_writer` from W to nil wakes W, or
//!   is W. The number in W ensures that it is still the same acquisition.
//!
//! # Memory ordering
//! `next_writer` is put and flushed before `reader_count` is read, and ordered ahead of the addition that lowers it. So either the writer sees the count at 0, or a
//! reader that lowers it to 0 sees the writer. That needs the sequential consistency of the trait's operations: with acquire
//! and release alone both could miss each other. Links and wake-ups are posted: see [`crate::qnode`].
//!
//! # Deviations from the paper
//! - First defect (the authors' erratum): the releasing reader that lowers `reader_count` to 0 reads it again after it has
//!   read `next_writer`. Without that it may wake a writer that registered later, beside new readers (3R+1W×1).
//! - Second defect: in the corrected form, a reader can be late between that read and its compare-and-swap. It can then find
//!   the writer's next acquisition in `next_writer`, with the same node, and wake it beside an active reader (3R×1+1W×2).
//!   Here `next_writer` has the number of the acquisition, which distinguishes the two. They look the same only to a reader
//!   that is late by an exact multiple of 2^31 acquisitions of that writer.
//! - A writer that finds the queue empty reads `reader_count` before it registers. By I2 all readers before it are counted or
//!   gone, and later readers queue after it, so 0 stays 0.
//! - The class is part of the identity. So a writer does not put its class into a second word of its predecessor (the paper's
//!   successor class `writer`). No rank reads a remote node to find the class.
//! - `blocked` in `state` is inverted to ACTIVE, and a rank sets it itself when it has been woken. Until then the reader
//!   after it registers, and this rank admits it. The wake-up can be a put.
//!
//! # Cost
//! Remote operations without contention: reader acquire 2 (swap, add), release 3 (compare-and-swap, add, get); writer
//! acquire 2 (swap, get; the paper's 4 register first), release 1 (compare-and-swap).

use rmalab_atomics::{Address, Disp, RemoteAtomics, WORD};

use crate::qnode::{NIL, Qnode, pointer, rank_of};
use crate::{Place, RawRwLock, Result};

/// In an identity: a writer.
const WRITER: u64 = 1 << 63;
/// In an identity: the lowest bit of the acquisition's number, below WRITER and above the rank.
const NUMBER: u32 = 32;
/// In a node's state: this reader is inside or about to be. A reader that comes after it lets itself in.
const ACTIVE: u64 = 1;
/// In a node's state: the successor is a reader that waits for this one.
const READER: u64 = 2;

/// One rank's handle of a fair reader-writer lock.
#[derive(Debug)]
pub struct McsRwNeutral {
    tail: Address,
    reader_count: Address,
    next_writer: Address,
    node: Qnode,
    state: Disp,
    /// This rank's identity as a reader.
    me: u64,
    /// This rank's identity as a writer in its last acquisition.
    writer: u64,
}

impl RawRwLock for McsRwNeutral {
    const NAME: &'static str = "mcs-rw-neutral";
    const WORDS: u64 = 3 * WORD;
    const NODE: u64 = Qnode::BYTES + WORD;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<McsRwNeutral> {
        // The lower half of an identity holds any rank's pointer.
        let me = pointer(ra.rank());
        Ok(McsRwNeutral {
            tail: place.word(0),
            reader_count: place.word(1),
            next_writer: place.word(2),
            node: Qnode::new(place.node),
            state: place.node.plus(Qnode::BYTES),
            me,
            writer: me | WRITER,
        })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.node.prepare(ra)?;
        let pred = ra.fetch_store(self.tail, self.me)?;
        if pred == NIL {
            ra.fetch_add(self.reader_count, 1)?;
        } else if pred & WRITER != 0 || self.wait_for_reader(ra, pred)? {
            self.node.link(ra, pred, self.me)?;
            self.node.wait(ra)?;
        } else {
            // The reader is counted before it is linked. Its predecessor cannot leave without the link, and then leaves
            // a count behind. (The second look would make the other order safe, too.)
            ra.fetch_add(self.reader_count, 1)?;
            self.node.link(ra, pred, self.me)?;
        }
        if ra.fetch_add(ra.rank().at(self.state), ACTIVE)? & READER != 0 {
            let next = self.node.wait_next(ra)?;
            self.let_in(ra, next)?;
        }
        Ok(())
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let next = self.leave_queue(ra, self.me)?;
        if next & WRITER != 0 {
            ra.put(self.next_writer, next)?;
            // Before this reader is uncounted. Otherwise it could happen that no rank wakes the writer (I4).
            ra.order(self.next_writer.rank)?;
        }
        if ra.fetch_add(self.reader_count, 1u64.wrapping_neg())? == 1 {
            let writer = ra.get(self.next_writer)?;
            // The second look: the writer may be one that registered after readers which came after this one (I5).
            if writer != NIL
                && ra.get(self.reader_count)? == 0
                && ra.compare_and_swap(self.next_writer, writer, NIL)? == writer
            {
                self.node.unblock(ra, writer)?;
            }
        }
        if next != NIL {
            self.node.forget_next(ra)?;
        }
        Ok(ra.put(ra.rank().at(self.state), 0)?)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        // Modulo 2^31: the carry out of the number is lost with the bit that is set again.
        self.writer = self.writer.wrapping_add(1 << NUMBER) | WRITER;
        self.node.prepare(ra)?;
        let pred = ra.fetch_store(self.tail, self.writer)?;
        if pred != NIL {
            self.node.link(ra, pred, self.writer)?;
        } else {
            if ra.get(self.reader_count)? == 0 {
                return Ok(());
            }
            ra.put(self.next_writer, self.writer)?;
            ra.flush(self.next_writer.rank)?;
            // The last reader may have left before it could see that.
            if ra.get(self.reader_count)? == 0
                && ra.compare_and_swap(self.next_writer, self.writer, NIL)? == self.writer
            {
                return Ok(());
            }
        }
        self.node.wait(ra)
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let next = self.leave_queue(ra, self.writer)?;
        if next == NIL {
            return Ok(());
        }
        if next & WRITER != 0 {
            self.node.unblock(ra, next)?;
        } else {
            self.let_in(ra, next)?;
        }
        self.node.forget_next(ra)
    }
}

impl McsRwNeutral {
    /// Registers with the reader `pred`, if `pred` is not active yet. Returns whether this rank has to wait for it
    /// (I3).
    fn wait_for_reader<A: RemoteAtomics + ?Sized>(&self, ra: &A, pred: u64) -> Result<bool> {
        Ok(ra.compare_and_swap(rank_of(pred).at(self.state), 0, READER)? == 0)
    }

    /// Lets in the reader `next`, which waits. This rank counts it first (I1), since otherwise it could leave before it
    /// is counted.
    fn let_in<A: RemoteAtomics + ?Sized>(&self, ra: &A, next: u64) -> Result<()> {
        ra.fetch_add(self.reader_count, 1)?;
        self.node.unblock(ra, next)
    }

    /// Takes this rank out of the queue's front. Returns the identity of its successor, or nil.
    fn leave_queue<A: RemoteAtomics + ?Sized>(&self, ra: &A, me: u64) -> Result<u64> {
        let next = self.node.next(ra)?;
        if next != NIL || ra.compare_and_swap(self.tail, me, NIL)? == me {
            return Ok(next);
        }
        self.node.wait_next(ra)
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::Rank;

    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::rw_lock::<McsRwNeutral>(());
    }

    #[test]
    fn costs() {
        assert_eq!(suite::rw_lock_cost::<McsRwNeutral>(()), [(2, 3), (2, 1)]);
    }

    #[test]
    fn first_come_first_served() {
        // Even ranks read, odd ranks write. Each arrives once the rank before it is the tail.
        suite::scenario::<McsRwNeutral>(6, (), |ra, mut lock, _, order| {
            let rank = ra.rank().0;
            let tail_is = |ra: &rmalab_atomics::Mapped, lock: &McsRwNeutral, rank| {
                suite::poll(ra, lock.tail, |tail| tail as u32 == pointer(Rank(rank)) as u32)
            };
            if rank > 0 {
                tail_is(ra, &lock, rank - 1)?;
            }
            if rank % 2 == 0 {
                lock.acquire_read(ra)?;
            } else {
                lock.acquire_write(ra)?;
            }
            if rank == 0 {
                tail_is(ra, &lock, ra.size() - 1)?;
            }
            assert_eq!(ra.fetch_add(order, 1)?, u64::from(rank), "the order of service");
            if rank % 2 == 0 { lock.release_read(ra) } else { lock.release_write(ra) }
        });
    }

    #[test]
    fn the_number_of_an_acquisition_wraps() {
        suite::scenario::<McsRwNeutral>(3, (), |ra, mut lock, _, sum| {
            lock.writer |= ((1 << 31) - 3) << NUMBER;
            for _ in 0..100 {
                lock.acquire_write(ra)?;
                assert_eq!(rank_of(lock.writer), ra.rank());
                let old = ra.get(sum)?;
                ra.fetch_store(sum, old + 1)?;
                lock.release_write(ra)?;
            }
            Ok(())
        });
    }
}
