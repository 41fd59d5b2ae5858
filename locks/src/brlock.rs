//! The brlock: a reader sets its own flag and looks at the writers' word; a writer takes that word and looks at every flag.
//!
//! # Paper
//! W. C. Hsieh and W. E. Weihl, "Scalable Reader-Writer Locks for Parallel Systems", IPPS 1992, DOI 10.1109/IPPS.1992.222989, in the
//! form of the `brlock` of Linux 2.4 (2000) and of Concurrency Kit's `ck_brlock`. [`big_reader`](crate::big_reader) is the form in
//! which a reader touches its own memory only.
//!
//! # Properties
//! - Mutual exclusion. Not fair: writers take the word in any order. Readers can starve, since writers that follow one another can
//!   take the word again before a reader sees it free.
//! - A reader that finds no writer writes its own memory only. Waiters poll: readers poll the writers' word, and a writer polls the
//!   readers' flags.
//! - In coherent memory each acquisition with its release is one locked instruction, for readers and for writers.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with posted puts
//!   that arrive late: 2R+2W×2, livelocks included. With data and bulk puts in any order: 1R+1W×2.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | writer | words + 0 | 8 | home | 0, or the pointer of the rank that writes or waits for readers |
//! | here | node + 0 | 8 | each rank | 1: its rank reads, or tries to |
//!
//! # Invariants
//! - I1: only a compare-and-swap changes `writer` from 0, and only its rank sets it to 0 again. So there is at most one writer.
//! - I2: a reader sets `here` before it looks at `writer`, and a writer takes `writer` before it looks at `here`. So at least one of
//!   the two sees the other. A reader that sees a writer takes `here` back, and waits.
//! - I3: a reader inside has `here` at 1 from its look at the free word on. So no writer enters until the reader leaves.
//!
//! # Memory ordering
//! I2 needs each side's write to be visible before that side looks. The writer's compare-and-swap and the reader's swap are complete
//! when they return. Both releases are posted puts. Until the put arrives, the lock looks held to every rank, its last holder
//! included. That does no harm, but a late clear of `here` must not erase the flag of the next acquisition. So a reader looks at its
//! own flag first, and orders the clear ahead of its swap if it has not arrived.
//!
//! # Deviations from the paper
//! The word of the writers shows which rank writes. Readers cannot nest.
//!
//! # Cost
//! Remote operations without contention, with p ranks: reader 1 (get), release 0. Writer acquire 1 + (p - 1) (compare-and-swap, and a
//! get of each rank), release 1 (put, posted). Each further poll adds 1.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::own::Own;
use crate::qnode::{NIL, pointer};
use crate::{Place, RawRwLock, Result};

/// The number of `here` among this rank's words.
const HERE: usize = 0;

/// One rank's handle of a brlock.
#[derive(Debug)]
pub struct BrLock {
    words: Words,
    /// It is not inside the handle, for the reason that [`Tas`](crate::Tas) gives.
    backoff: Box<BackoffState>,
}

#[derive(Clone, Copy, Debug)]
struct Words {
    writer: Address,
    here: Disp,
    me: u64,
}

impl RawRwLock for BrLock {
    const NAME: &'static str = "brlock";
    const WORDS: u64 = WORD;
    const NODE: u64 = WORD;
    type Params = Backoff;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Backoff) -> Result<BrLock> {
        let words = Words { writer: place.word(0).unwatched(), here: place.node, me: pointer(ra.rank()) };
        Ok(BrLock { words, backoff: Box::new(BackoffState::new(params, ra.rank())) })
    }

    #[inline(always)]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.words.arrive(ra)? { Ok(()) } else { self.words.wait_for_writers(ra, &mut self.backoff) }
    }

    #[inline(always)]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.words.own(ra).post(HERE, 0)
    }

    #[inline(always)]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let words = self.words;
        // Ahead of the locked instruction, since loads after it would wait for it.
        let (here, ranks) = (words.here, ra.size());
        if ra.compare_and_swap(words.writer, NIL, words.me)? != NIL {
            words.retry(ra, &mut self.backoff)?;
        }
        for rank in (0..ranks).map(Rank) {
            if ra.get(rank.at(here).unwatched())? != 0 {
                words.wait_for_reader(ra, rank, &mut self.backoff)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.put(self.words.writer, NIL)?)
    }
}

impl Words {
    /// The word `here` of this rank.
    #[inline(always)]
    fn own<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Own<'_, A, 1> {
        Own::new(ra, self.here)
    }

    /// Sets `here`, and then looks whether there is no writer (I2).
    #[inline(always)]
    fn arrive<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<bool> {
        let own = self.own(ra);
        if own.is_late(HERE, 1)? {
            // The last clear is under way, and could erase the flag.
            own.order()?;
        }
        own.fetch_store(HERE, 1)?;
        Ok(ra.get(self.writer)? == NIL)
    }

    #[cold]
    #[inline(never)]
    fn wait_for_writers<A: RemoteAtomics + ?Sized>(self, ra: &A, backoff: &mut BackoffState) -> Result<()> {
        backoff.reset();
        loop {
            self.own(ra).post(HERE, 0)?;
            while ra.get(self.writer)? != NIL {
                backoff.wait(ra)?;
            }
            if self.arrive(ra)? {
                return Ok(());
            }
        }
    }

    /// A writer's attempts after its first one.
    #[cold]
    #[inline(never)]
    fn retry<A: RemoteAtomics + ?Sized>(self, ra: &A, backoff: &mut BackoffState) -> Result<()> {
        backoff.reset();
        loop {
            backoff.wait(ra)?;
            if ra.compare_and_swap(self.writer, NIL, self.me)? == NIL {
                return Ok(());
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for_reader<A: RemoteAtomics + ?Sized>(
        self,
        ra: &A,
        reader: Rank,
        backoff: &mut BackoffState,
    ) -> Result<()> {
        backoff.reset();
        loop {
            backoff.wait(ra)?;
            if ra.get(reader.at(self.here).unwatched())? == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::rw_lock::<BrLock>(Backoff::default());
    }

    #[test]
    fn a_reader_costs_one_and_a_writer_a_look_at_each_rank() {
        // In a world of two ranks.
        assert_eq!(suite::rw_lock_cost::<BrLock>(Backoff::default()), [(1, 0), (2, 1)]);
    }
}
