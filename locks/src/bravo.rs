//! BRAVO: readers of a biased lock write a word of their own rank only, around any reader-writer lock.
//!
//! # Paper
//! D. Dice and A. Kogan, "BRAVO: Biased Locking for Reader-Writer Locks", USENIX ATC 2019, arXiv 1810.01553.
//!
//! # Properties
//! - Mutual exclusion. The inner lock, by default [`crate::mcs_rw_neutral`], decides the order of writers and of slow readers. A
//!   fast reader overtakes the writers that still wait for the inner lock, but not the writer that holds it.
//! - A fast reader uses words of its own memory only, at any number of ranks. A writer that finds the bias visits every rank, and
//!   takes the bias away. Other writers and slow readers have the costs of the inner lock, and one operation more.
//! - No rank starves, if none starves under the inner lock. A writer that holds the inner lock and waits for fast readers polls
//!   their words. A rank can be a fast reader only once during such a wait.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively, around mcs-rw-neutral. Under sequential
//!   consistency: 2R+2W×2 (on request, `--long`), 2R+1W×2, 1R+2W×2 and 2R+2W×1. With posted puts that arrive late: 2R+1W×2,
//!   1R+2W×2 and 2R+2W×1. With data and bulk puts in any order: 1R+1W×2. Each with the bias set whenever it can be, and with
//!   inhibition.
//!
//! # State
//! These words follow the words of the inner lock: `bias` follows its shared words, and `own` is node + the size of its node,
//! rounded up to [`LINE`].
//!
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | bias | after the inner words | 8 | home | 1: some ranks may have `biased` at 1 |
//! | slot | own + 0 | 8 | each rank | 1: this rank is a fast reader, or tries to be one |
//! | biased | own + 8 | 8 | each rank | 1: this rank may read fast |
//!
//! At rest `bias` and `biased` keep what they are: 1 at home and at all ranks, or 0 everywhere. All other words are zero.
//!
//! # Invariants
//! - I1: a rank changes `bias` and any `biased` only while it holds the inner lock. Readers set them, one reader at a time by I2.
//!   Writers clear them.
//! - I2: `bias` goes from 0 to 1 by one compare-and-swap. Its reader has set all `biased` before it releases the inner lock.
//! - I3: a reader sets `slot` before its second look at `biased`, and a writer clears `biased` before it looks at `slot`. So at least
//!   one of the two sees the other. A reader that sees `biased` at 0 clears `slot` and takes the inner lock.
//! - I4: a fast reader has `slot` at 1 from its second look on. So no writer enters until that reader leaves.
//! - I5: while a writer is inside, `bias` and all `biased` are 0.
//!
//! # Memory ordering
//! I3 needs each side's write to be visible before that side looks. The writer flushes the words that it has cleared. The reader's
//! write is a swap, which is complete when it returns. A reader orders its last clear of `slot` ahead of the swap. Otherwise the
//! clear could erase the flag. A reader that sets the bias flushes before it releases the inner lock: a late 1 could follow the 0 of
//! the next writer.
//!
//! # Deviations from the paper
//! - Each rank has a slot of its own, and a copy of the bias. The paper has one word for the bias and a table of 4,096 slots that all
//!   locks share. Here a fast reader would need two remote gets for them.
//! - The inhibition of the bias is counted, not timed. In the paper, after a revocation, no reader sets the bias for 9 times as
//!   long as the revocation took. Ranks have no common clock. A count is a function of a rank's earlier calls, so the explorer
//!   can search it exhaustively. Here a rank that has set the bias acquires the inner lock for `inhibit` × p reads before it
//!   sets the bias again, with p ranks. A rank's first time is free.
//! - A reader swaps its slot. Where ranks can fence for each other, a put would do (see [`crate::big_reader`]).
//!
//! # Cost
//! Remote operations without contention, with p ranks: fast reader 0 / 0. A slow reader has the operations of the inner lock,
//! and p more when it sets the bias: a compare-and-swap and p - 1 puts. A writer adds 1 to its acquire, the look at the bias. If
//! it takes the bias away, it adds 1 + 2(p - 1) more: a put for the bias, a put and a get for each rank. Each further poll
//! adds 1.

use rmalab_atomics::{Address, Rank, RemoteAtomics, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::{LINE, Place, RawRwLock, Result};

/// The parameters of [`Bravo`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BravoParams<P> {
    /// A rank that has set the bias sets it again after this many of its reads of the inner lock for each rank of the world.
    pub inhibit: u32,
    /// How a writer polls the words of fast readers.
    pub backoff: Backoff,
    /// The parameters of the inner lock.
    pub inner: P,
}

impl<P: Default> Default for BravoParams<P> {
    /// The paper's 9. A slow read of mcs-rw-neutral needs 5 remote operations. Setting the bias and taking it away needs 3 for
    /// each rank. So changes of the bias add at most 7 % to the cost of the slow reads between them.
    fn default() -> BravoParams<P> {
        BravoParams { inhibit: 9, backoff: Backoff::default(), inner: P::default() }
    }
}

/// One rank's handle of a reader-writer lock with biased readers.
#[derive(Debug)]
pub struct Bravo<L> {
    inner: L,
    /// This rank's acquisition is a fast read.
    fast: bool,
    /// The number of slow reads that this rank has to do before it may set the bias again.
    owed: u64,
    /// The number of slow reads that one change of the bias costs.
    price: u64,
    backoff: BackoffState,
    bias: Address,
    /// This rank's own.
    biased: Address,
    /// This rank's own.
    slot: Address,
}

impl<L: RawRwLock> RawRwLock for Bravo<L> {
    const NAME: &'static str = "bravo";
    const WORDS: u64 = L::WORDS + WORD;
    const NODE: u64 = L::NODE.next_multiple_of(LINE) + 2 * WORD;
    const RESTS_AT_ZERO: bool = false;
    const NODE_AT_REST: u64 = if L::NODE_AT_REST == L::NODE { Self::NODE - WORD } else { L::NODE_AT_REST };
    const READERS_SHARE: bool = L::READERS_SHARE;
    type Params = BravoParams<L::Params>;

    fn words(size: u32) -> u64 {
        L::words(size) + WORD
    }

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Self::Params) -> Result<Bravo<L>> {
        let own = place.node.plus(L::NODE.next_multiple_of(LINE));
        Ok(Bravo {
            inner: L::bind(ra, place, params.inner)?,
            fast: false,
            owed: 0,
            price: u64::from(params.inhibit) * u64::from(ra.size()),
            backoff: BackoffState::new(params.backoff, ra.rank()),
            bias: place.word(L::words(ra.size()) / WORD),
            slot: ra.rank().at(own).unwatched(),
            biased: ra.rank().at(own.word(1)).unwatched(),
        })
    }

    #[inline]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if ra.get(self.biased)? != 0 {
            // A late clear would erase the swap (see Memory ordering).
            ra.order(ra.rank())?;
            ra.fetch_store(self.slot, 1)?;
            if ra.get(self.biased)? != 0 {
                self.fast = true;
                return Ok(());
            }
            ra.put(self.slot, 0)?;
        }
        self.read_slowly(ra)
    }

    #[inline]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.fast {
            self.fast = false;
            return Ok(ra.put(self.slot, 0)?);
        }
        self.inner.release_read(ra)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.inner.acquire_write(ra)?;
        if ra.get(self.bias)? != 0 { self.revoke(ra) } else { Ok(()) }
    }

    #[inline]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.inner.release_write(ra)
    }
}

impl<L: RawRwLock> Bravo<L> {
    /// Takes the inner lock, and sets the bias if this rank has done its slow reads.
    #[cold]
    #[inline(never)]
    fn read_slowly<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.inner.acquire_read(ra)?;
        if self.owed > 0 {
            self.owed -= 1;
            return Ok(());
        }
        if ra.compare_and_swap(self.bias, 0, 1)? == 0 {
            self.owed = self.price;
            self.set_biased(ra, 1)?;
        }
        Ok(())
    }

    /// Takes the bias away, and waits for the fast readers. This rank holds the inner lock for writing.
    #[cold]
    #[inline(never)]
    fn revoke<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.put(self.bias, 0)?;
        self.set_biased(ra, 0)?;
        for rank in (0..ra.size()).map(Rank) {
            self.backoff.reset();
            while ra.get(rank.at(self.slot.disp).unwatched())? != 0 {
                self.backoff.wait(ra)?;
            }
        }
        Ok(())
    }

    /// Allows (1) or forbids (0) fast reads at all ranks; complete when it returns.
    fn set_biased<A: RemoteAtomics + ?Sized>(&self, ra: &A, biased: u64) -> Result<()> {
        for rank in (0..ra.size()).map(Rank) {
            ra.put(rank.at(self.biased.disp).unwatched(), biased)?;
        }
        Ok(ra.flush_all()?)
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::{Collectives, Counted, World};

    use super::*;
    use crate::{McsRwNeutral, TasRw, suite};

    fn inhibit(inhibit: u32) -> BravoParams<()> {
        BravoParams { inhibit, ..BravoParams::default() }
    }

    #[test]
    fn conforms() {
        suite::rw_lock::<Bravo<McsRwNeutral>>(BravoParams::default());
    }

    #[test]
    fn conforms_with_the_bias_set_at_every_slow_read() {
        suite::rw_lock::<Bravo<McsRwNeutral>>(inhibit(0));
        suite::rw_lock::<Bravo<TasRw>>(BravoParams { inhibit: 0, ..BravoParams::default() });
    }

    /// Returns the remote operations of rank 1 of `size`, with home rank 0, in each acquire and release: two reads,
    /// then two writes.
    fn costs(size: u32) -> [[u64; 2]; 4] {
        let costs = World::threads(size).run(|ra| {
            let place = Place::alloc(ra, Rank(0), Bravo::<McsRwNeutral>::WORDS, Bravo::<McsRwNeutral>::NODE).unwrap();
            let all = Collectives::new(ra).unwrap();
            let ra = &Counted::new(ra);
            let mut lock = Bravo::<McsRwNeutral>::bind(ra, place, BravoParams::default()).unwrap();
            let mut cost = [[0; 2]; 4];
            if ra.rank() == Rank(1) {
                let mut before = 0;
                let mut since = || {
                    let now = ra.counts().remote_operations();
                    now - std::mem::replace(&mut before, now)
                };
                for (i, of) in cost.iter_mut().enumerate() {
                    if i < 2 { lock.acquire_read(ra) } else { lock.acquire_write(ra) }.unwrap();
                    of[0] = since();
                    if i < 2 { lock.release_read(ra) } else { lock.release_write(ra) }.unwrap();
                    of[1] = since();
                }
            }
            all.barrier().unwrap();
            cost
        });
        costs.unwrap()[1]
    }

    #[test]
    fn fast_readers_cost_nothing_and_a_writer_visits_every_rank_once() {
        for size in [2, 4, 8] {
            let others = u64::from(size - 1);
            // The costs of mcs-rw-neutral: reader 2 / 3, writer 2 / 1.
            let expected = [[2 + 1 + others, 3], [0, 0], [2 + 1 + 1 + 2 * others, 1], [2 + 1, 1]];
            assert_eq!(costs(size), expected, "{size} ranks");
        }
    }

    #[test]
    fn a_rank_that_has_set_the_bias_pays_before_it_sets_it_again() {
        suite::scenario::<Bravo<McsRwNeutral>>(2, inhibit(3), |ra, mut lock, _, _| {
            if ra.rank() == Rank(1) {
                let biased = |lock: &Bravo<McsRwNeutral>| ra.get(lock.bias);
                for round in 0..3 {
                    // Two ranks, so six slow reads.
                    for read in 0..if round == 0 { 0 } else { 6 } {
                        lock.acquire_read(ra)?;
                        lock.release_read(ra)?;
                        assert_eq!(biased(&lock)?, 0, "after {read} reads of round {round}");
                    }
                    lock.acquire_read(ra)?;
                    lock.release_read(ra)?;
                    assert_eq!(biased(&lock)?, 1, "in round {round}");
                    lock.acquire_write(ra)?;
                    lock.release_write(ra)?;
                    assert_eq!(biased(&lock)?, 0, "after the writer of round {round}");
                }
            }
            Ok(())
        });
    }
}
