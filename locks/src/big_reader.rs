//! The big-reader lock: a reader writes its own word only, and a writer visits every rank.
//!
//! # Paper
//! W. C. Hsieh and W. E. Weihl, "Scalable Reader-Writer Locks for Parallel Systems", IPPS 1992, DOI 10.1109/IPPS.1992.222989: a
//! reader takes a lock of its own, and a writer takes all of them. As built here, with a word of each reader and a gate, it is
//! the `brlock` of Linux 2.4 (2000) and of Concurrency Kit (`ck_brlock`).
//!
//! # Properties
//! - Mutual exclusion. Writers are served first come, first served among themselves. Readers can starve: writers that follow one
//!   another can close a reader's gate again before the reader sees it open.
//! - A reader uses words of its own memory only, at any number of ranks. It waits on its own gate. A writer that waits for readers
//!   polls their words.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with posted puts
//!   that arrive late: without a fence 2R+2W×2; with a fence 2R+1W×2, 1R+2W×2 and 2R+2W×1. With data and bulk puts in any order:
//!   1R+1W×2, with a fence and without. The largest searches run on request (`--long`).
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | tail | words + 0 | 8 | home | the writers' mutex, see [`crate::mcs`] |
//! | next, unblocked | node + 0 | 8 each | each rank | the writers' queue node, see [`crate::qnode`] |
//! | here | node + [`LINE`] | 8 | each rank | 1: its rank reads, or tries to |
//! | gate | node + [`LINE`] + 8 | 8 | each rank | 1: a writer is inside, or waits for readers |
//!
//! # Invariants
//! - I1: only the holder of the writers' mutex writes gates. All gates are 0 whenever no rank holds that mutex.
//! - I2: a reader sets `here` before it looks at its gate, and a writer closes the gate before it looks at `here`. So at least one of
//!   the two sees the other. A reader that sees the gate closed takes `here` back, and waits.
//! - I3: a reader inside has `here` at 1 from its look at the open gate on. So no writer enters until the reader leaves.
//!
//! # Memory ordering
//! I2 needs each side's write to be visible before that side looks. The writer flushes the gates. The reader's write is a swap,
//! which is complete when it returns. Where ranks can fence for each other, it is a put: the writer fences for the reader. A
//! reader orders its last clear of `here` ahead of the swap. Otherwise the clear could erase the flag. A put needs nothing,
//! since it is in order with the clear. A writer flushes the open gates before it releases the mutex. Otherwise they could open
//! gates that the next writer has closed.
//!
//! # Deviations from the paper
//! The writers' mutex is MCS, where `brlock` has a spin lock. A reader waits on its own gate, whereas the readers of
//! `ck_brlock` poll one word.
//!
//! # Cost
//! Remote operations without contention, with p ranks: reader 0, release 0. Writer acquire 1 + 2(p - 1) (a put and a get of each
//! rank), release 1 + (p - 1). Each further poll of a reader's word adds 1.

use rmalab_atomics::{Disp, Rank, RemoteAtomics, Until, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::mcs::Mcs;
use crate::own::Own;
use crate::{Error, LINE, Place, RawMutex, RawRwLock, Result};

/// The numbers of `here` and `gate` among this rank's words.
const HERE: usize = 0;
const GATE: usize = 1;

/// The parameters of [`BigReader`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BigReaderParams {
    /// If true, readers put `here` and leave the fence to writers, where the backend has a fence for all ranks
    /// ([`fence_everywhere`](RemoteAtomics::fence_everywhere)). All ranks pass the same value.
    pub fence: bool,
    /// How a writer polls the words of readers.
    pub backoff: Backoff,
}

impl Default for BigReaderParams {
    fn default() -> BigReaderParams {
        BigReaderParams { fence: true, backoff: Backoff::default() }
    }
}

/// One rank's handle of a big-reader lock.
#[derive(Debug)]
pub struct BigReader {
    words: Words,
    /// They are not inside the handle, for the reason that [`Tas`](crate::Tas) gives.
    writer: Box<Writer>,
}

/// The place of this rank's words, and their use.
#[derive(Clone, Copy, Debug)]
struct Words {
    /// Readers put `here`, and writers fence for them.
    fence: bool,
    here: Disp,
    gate: Disp,
}

/// The handle's part for writers.
#[derive(Debug)]
struct Writer {
    mutex: Mcs,
    backoff: BackoffState,
}

impl RawRwLock for BigReader {
    const NAME: &'static str = "big-reader";
    const WORDS: u64 = Mcs::WORDS;
    const NODE: u64 = LINE + 2 * WORD;
    type Params = BigReaderParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: BigReaderParams) -> Result<BigReader> {
        let own = place.node.plus(LINE);
        let fence = params.fence && ra.capabilities().asymmetric_fence;
        let writer = Writer { mutex: Mcs::bind(ra, place, ())?, backoff: BackoffState::new(params.backoff, ra.rank()) };
        Ok(BigReader { words: Words { fence, here: own, gate: own.word(1) }, writer: Box::new(writer) })
    }

    #[inline(always)]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.words.arrive(ra)? { Ok(()) } else { self.words.wait_for_writers(ra) }
    }

    #[inline(always)]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.words.own(ra).post(HERE, 0)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let (words, writer) = (self.words, &mut *self.writer);
        writer.mutex.acquire(ra)?;
        words.set_gates(ra, 1)?;
        if words.fence && !ra.fence_everywhere()? && ra.capabilities().late_puts {
            self.release_write(ra)?;
            return Err(Error::Parameter {
                lock: Self::NAME,
                parameter: "fence",
                why: "the kernel refuses the fence of all ranks (membarrier); set it to false".to_owned(),
            });
        }
        for rank in (0..ra.size()).map(Rank) {
            writer.backoff.reset();
            while ra.get(rank.at(words.here).unwatched())? != 0 {
                writer.backoff.wait(ra)?;
            }
        }
        Ok(())
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.words.set_gates(ra, 0)?;
        self.writer.mutex.release(ra)
    }
}

impl Words {
    /// The words `here` and `gate` of this rank.
    #[inline(always)]
    fn own<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Own<'_, A, 2> {
        Own::new(ra, self.here)
    }

    /// Sets `here`, and then looks at the gate (I2). Returns whether it is open.
    #[inline(always)]
    fn arrive<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<bool> {
        let own = self.own(ra);
        if self.fence {
            own.post(HERE, 1)?;
            ra.fence_light();
        } else {
            own.order()?;
            own.fetch_store(HERE, 1)?;
        }
        Ok(own.get(GATE)? == 0)
    }

    #[cold]
    #[inline(never)]
    fn wait_for_writers<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<()> {
        loop {
            self.own(ra).post(HERE, 0)?;
            ra.wait_until(self.gate, Until::Eq(0))?;
            if self.arrive(ra)? {
                return Ok(());
            }
        }
    }

    /// Closes (1) or opens (0) the gates of all ranks; complete when it returns.
    fn set_gates<A: RemoteAtomics + ?Sized>(self, ra: &A, gate: u64) -> Result<()> {
        for rank in (0..ra.size()).map(Rank) {
            ra.put(rank.at(self.gate), gate)?;
        }
        Ok(ra.flush_all()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    const SWAP: BigReaderParams = BigReaderParams { fence: false, backoff: Backoff { min: 1, max: 64 } };

    #[test]
    fn conforms() {
        suite::rw_lock::<BigReader>(BigReaderParams::default());
    }

    #[test]
    fn conforms_without_a_fence() {
        suite::rw_lock::<BigReader>(SWAP);
    }

    #[test]
    fn readers_cost_nothing_on_the_network() {
        // In a world of two ranks.
        for params in [BigReaderParams::default(), SWAP] {
            assert_eq!(suite::rw_lock_cost::<BigReader>(params), [(0, 0), (3, 2)]);
        }
    }
}
