//! DSLR's bakery for readers and writers, with fields of 32 bits: one word counts the tickets drawn, another one those served.
//!
//! # Paper
//! D. Y. Yoon, M. Chowdhury and B. Mozafari, "Distributed Lock Management with RDMA: Decentralization without Starvation",
//! SIGMOD 2018, DOI 10.1145/3183713.3196890. The two words are this project's form.
//!
//! # Properties
//! - Mutual exclusion; first come, first served, in the order of the additions that draw tickets. Neighbouring readers share.
//! - Each acquire and each release is one addition that cannot fail. Waiters poll a remote word, less often the further away their
//!   turn is.
//! - A rank cannot give a ticket back, so there is no try and no deadline.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with posted puts
//!   that arrive late: 2R+2W×2, livelocks included. Its order, sequentially consistent: 2R+1W×1 and 1R+2W×1. With data and bulk
//!   puts in any order: 1R+1W×2.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | drawn | words + 0 | 8 | home | bits 63–32: readers that have drawn a ticket; bits 31–0: writers |
//! | served | words + 8 | 8 | home | the same for the ranks that have released |
//!
//! At rest the two words are equal. They are not zero.
//!
//! # Invariants
//! - I1: both words are sums of READER and WRITER, modulo 2^64. `drawn` - `served` is the sum of the ranks that hold tickets.
//! - I2: a writer enters when `served` is what `drawn` was at its ticket. No later rank is served before it. So all earlier ranks
//!   have released, and no other rank is inside.
//! - I3: a reader enters when as many writers are served as had drawn before its ticket. No later writer is served before that
//!   reader releases (I2). So no earlier writer is outstanding, and the numbers remain equal until the reader releases.
//!
//! # Memory ordering
//! All operations are complete when they return; nothing is posted.
//!
//! # Deviations from the paper
//! - The paper has four fields of 16 bits in one word. When a count reaches 2^15, its lock freezes: ranks that come give their
//!   tickets back and wait until all holders have released and the word is reset. A reader that arrives then waits for the
//!   readers inside. So a program in which those readers wait for it never ends. The conformance suite hangs on such a lock. Here
//!   the fields are wide, and their overflow does no harm, so nothing freezes. That takes a second word, and a get in each
//!   acquire.
//! - Writers are the lower half. Their overflow carries into the upper half of both words alike, and only I2 compares the
//!   upper halves. The overflow of the upper half is lost. With readers in the lower half, an overflow of their number could
//!   make a reader wait for other readers to release.
//! - Left out: the leases by which ranks take over from failed holders.
//! - A test of the explorer (`verify/tests/explorer/dslr.rs`) has the paper's lock with small counts, and finds what is wrong with
//!   it. Ranks that draw again and again while it is frozen keep it from being reset: a livelock, 1R+1W×1. A ticket that is given
//!   back after a forced reset is taken from another rank, so that two writers enter: 3W×1. A reader that sees later readers served
//!   may take itself for skipped, although its turn has come. It leaves its ticket behind, and a writer waits for it forever:
//!   2R+2W×1.
//!
//! # Cost
//! Remote operations without contention: acquire 2 (add, get), release 1 (add). Each further poll adds 1.

use rmalab_atomics::{Address, RemoteAtomics, WORD};

use crate::error::at_least_one;
use crate::{Place, RawRwLock, Result, poll};

/// One writer.
const WRITER: u64 = 1;

/// One reader.
const READER: u64 = 1 << 32;

/// The parameter of proportional backoff.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DslrWideParams {
    /// The pause of a waiter for each rank ahead of it, in uncontended word operations (see [`RemoteAtomics::pause`]). At least 1.
    pub hold: u32,
}

impl Default for DslrWideParams {
    /// An empty critical section on a network: the poll that sees the turn, and the release.
    fn default() -> DslrWideParams {
        DslrWideParams { hold: 2 }
    }
}

/// One rank's handle of a wide DSLR lock.
#[derive(Debug)]
pub struct DslrWide {
    drawn: Address,
    served: Address,
    hold: u32,
}

/// Returns the numbers of readers and of writers in a word.
fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl RawRwLock for DslrWide {
    const NAME: &'static str = "dslr-wide";
    const WORDS: u64 = 2 * WORD;
    const NODE: u64 = 0;
    const RESTS_AT_ZERO: bool = false;
    type Params = DslrWideParams;

    fn bind<A: RemoteAtomics + ?Sized>(_ra: &A, place: Place, params: DslrWideParams) -> Result<DslrWide> {
        // 32 bits can count any number of ranks.
        Ok(DslrWide {
            drawn: place.word(0).unwatched(),
            served: place.word(1).unwatched(),
            hold: at_least_one(Self::NAME, "hold", params.hold)?,
        })
    }

    #[inline(always)]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let drawn = ra.fetch_add(self.drawn, READER)?;
        self.wait(ra, drawn, |served| split(served).1 == split(drawn).1)
    }

    #[inline(always)]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.served, READER)?;
        Ok(())
    }

    #[inline(always)]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let drawn = ra.fetch_add(self.drawn, WRITER)?;
        self.wait(ra, drawn, |served| served == drawn)
    }

    #[inline(always)]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.served, WRITER)?;
        Ok(())
    }
}

impl DslrWide {
    /// Waits until it is the turn of the ticket at `drawn`.
    #[inline(always)]
    fn wait<A: RemoteAtomics + ?Sized>(&self, ra: &A, drawn: u64, is_turn: impl Fn(u64) -> bool) -> Result<()> {
        let served = ra.get(self.served)?;
        if is_turn(served) { Ok(()) } else { self.wait_for_turn(ra, drawn, served, is_turn) }
    }

    #[cold]
    #[inline(never)]
    fn wait_for_turn<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        drawn: u64,
        mut served: u64,
        is_turn: impl Fn(u64) -> bool,
    ) -> Result<()> {
        while !is_turn(served) {
            let ahead = ahead(drawn, served);
            if ahead == 1 && poll::spin(ra, self.served, &is_turn).is_some() {
                return Ok(());
            }
            ra.pause(ahead.saturating_mul(self.hold))?;
            served = ra.get(self.served)?;
        }
        Ok(())
    }
}

/// Returns the number of ranks ahead of the ticket at `drawn`. Later readers may already have been served.
fn ahead(drawn: u64, served: u64) -> u32 {
    let ((readers, writers), (of_readers, of_writers)) = (split(drawn), split(served));
    let readers = (readers.wrapping_sub(of_readers) as i32).max(0) as u32;
    writers.wrapping_sub(of_writers).saturating_add(readers).max(1)
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::Rank;

    use super::*;
    use crate::suite;

    #[test]
    fn conforms() {
        suite::rw_lock::<DslrWide>(DslrWideParams::default());
    }

    #[test]
    fn costs_two_and_one() {
        assert_eq!(suite::rw_lock_cost::<DslrWide>(DslrWideParams::default()), [(2, 1), (2, 1)]);
    }

    #[test]
    fn waiters_count_the_ranks_ahead() {
        assert_eq!(ahead(3 * READER + 2 * WRITER, READER + WRITER), 3);
        // Both fields have wrapped, and a reader that came later has been served.
        assert_eq!(
            ahead(READER + WRITER, (u64::from(u32::MAX) << 32 | u64::from(u32::MAX)).wrapping_add(4 * READER)),
            2
        );
    }

    #[test]
    fn numbers_wrap() {
        const RANKS: u32 = 3;
        // Two tickets before both fields overflow.
        const START: u64 = 0xffff_fffe << 32 | 0xffff_fffe;
        suite::scenario::<DslrWide>(RANKS, DslrWideParams::default(), |ra, mut lock, place, turns| {
            if ra.rank() == Rank(0) {
                ra.fetch_store(place.word(1), START)?;
                ra.fetch_store(place.word(0), START)?;
            }
            suite::poll(ra, place.word(0), |drawn| drawn != 0)?;
            for turn in 0..4 {
                if (ra.rank().0 + turn) % 3 == 0 {
                    lock.acquire_read(ra)?;
                    lock.release_read(ra)?;
                } else {
                    lock.acquire_write(ra)?;
                    let turn = ra.get(turns)?;
                    ra.fetch_store(turns, turn + 1)?;
                    lock.release_write(ra)?;
                }
            }
            // Four acquisitions read, eight write.
            let end = START.wrapping_add(4 * READER + 8 * WRITER);
            suite::poll(ra, place.word(1), |served| served == end)?;
            assert_eq!(ra.get(place.word(0))?, end, "all tickets are served at rest");
            assert_eq!(ra.get(turns)?, 8);
            Ok(())
        });
    }
}
