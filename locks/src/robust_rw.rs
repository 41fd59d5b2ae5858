//! The robust reader-writer lock: a bit for each reader and a writer's pointer in one word, which survivors clear.
//!
//! # Paper
//! The lock is [`tas-rw`](crate::tas_rw): R. Gerstenberger, M. Besta and T. Hoefler, "Enabling Highly-Scalable Remote Memory
//! Access Programming with MPI-3 One Sided", SC 2013, DOI 10.1145/2503210.2503286, section 2.3. The repair is new here. An
//! owner word that survivors compare and swap is the idea of robust futexes (Linux,
//! `Documentation/locking/robust-futexes.rst`).
//!
//! # Properties
//! - Mutual exclusion among the ranks that live. As in `tas-rw`, no writer that comes later passes a reader, writers can
//!   starve, and among writers any order is possible.
//! - The rank that takes over from a writer that has failed inside gets `OwnerDead`. It is alone then, like a writer,
//!   also if it acquires for reading. A reader that has failed leaves nothing half written, so no rank gets `OwnerDead`
//!   for it.
//! - Any number of ranks may fail, except for the rank with the lock's word on a backend where its memory ends with it.
//! - For at most 58 ranks: 58 bits of readers and 6 bits of the writer fill the word.
//! - Waiters poll a remote word.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with posted
//!   puts that arrive late: 2R+2W×2; 2R+1W×1 and 1R+2W×1 with one failure at any step. On request (`--long`), these with
//!   two failures under sequential consistency, and 2R+2W×1 with one. Livelocks are included.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | lock | words + 0 | 8 | home | bits 5–0 writer: 0, or the rank inside plus one, or 63: not recoverable; bit 6 + r: rank r reads, or waits to read |
//!
//! # Invariants
//! - I1: `lock` changes from a word without a writer to one with a writer only from 0, so no reader is inside then.
//! - I2: a reader is inside only while its bit is set, and enters only after it has seen no writer while its bit was set.
//!   So, by I1, no writer enters until it leaves. If a reader's bit is set while there is a writer, the reader waits.
//! - I3: the writer's release clears a live writer. A writer that has failed is replaced by a live one, by a compare-and-swap
//!   of the whole word. So the word names a writer from the entry of a writer that fails to the release of a rank that got
//!   `OwnerDead`.
//! - I4: only a live rank itself sets and clears its bit. A compare-and-swap of the whole word clears the bit of a
//!   failed rank, and so only once.
//! - I5: a rank that changes what a failed rank has left in the word has silenced that rank. So no operation of the
//!   failed rank arrives afterwards.
//!
//! # Memory ordering
//! All operations are complete when they return; nothing is posted. I5 concerns operations that a rank had not waited for
//! when it failed. The backends on which ranks can fail today have none, but an adapter would.
//!
//! # Deviations from the paper
//! A bit for each reader replaces the count, and the writer's rank replaces its bit, since a survivor has to know which
//! ranks they stand for. Waiters ask for failures in each round: one load while no rank has failed.
//!
//! # Cost
//! Remote operations without contention: reader acquire 1 (add), release 1 (add); writer acquire 1 (compare-and-swap),
//! release 1 (add), as `tas-rw`. Each poll of a waiter adds 1. A rank that takes over, or clears the bits of readers, adds a
//! silence and 1 (compare-and-swap). A reader that has taken over adds 1 (add) when it lets others read again.

use rmalab_atomics::{Address, Failed, Rank, RemoteAtomics, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::qnode::{NIL, pointer, rank_of};
use crate::recoverable::{self, Entry, RecoverableRw};
use crate::{Error, Place, RawRwLock, Result};

/// The bits of the writer.
const WRITER: u64 = (1 << WRITER_BITS) - 1;
const WRITER_BITS: u32 = 6;
/// The largest number of ranks: the word has a bit for each.
pub const RANKS: u32 = u64::BITS - WRITER_BITS;
/// The writer of a lock that no rank can acquire any more.
const NOT_RECOVERABLE: u64 = WRITER;

/// One rank's handle of a robust reader-writer lock.
#[derive(Debug)]
pub struct RobustRw {
    lock: Address,
    /// This rank as a writer.
    me: u64,
    /// This rank as a reader.
    bit: u64,
    /// True if this rank reads, and is also the writer, since it has taken over from one.
    is_alone: bool,
    backoff: BackoffState,
}

fn reader(rank: Rank) -> u64 {
    1 << (WRITER_BITS + rank.0)
}

/// Returns `lock` without the readers that have failed.
fn swept(lock: u64, failed: &Failed) -> u64 {
    lock & !failed.iter().map(reader).sum::<u64>()
}

/// Returns whether the writer in `lock`, if there is one, has failed.
fn is_orphaned(lock: u64, failed: &Failed) -> bool {
    lock & WRITER != NIL && failed.contains(rank_of(lock & WRITER))
}

impl RawRwLock for RobustRw {
    const NAME: &'static str = "robust-rw";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = Backoff;

    /// # Errors
    ///
    /// [`Error::TooManyRanks`] for a world of more than [`RANKS`] ranks.
    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Backoff) -> Result<RobustRw> {
        if ra.size() > RANKS {
            return Err(Error::TooManyRanks { lock: RobustRw::NAME, size: ra.size(), limit: RANKS });
        }
        let (me, bit) = (pointer(ra.rank()), reader(ra.rank()));
        Ok(RobustRw {
            lock: place.word(0).unwatched(),
            me,
            bit,
            is_alone: false,
            backoff: BackoffState::new(params, ra.rank()),
        })
    }

    #[inline(always)]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        recoverable::refused(ra, self.read(ra, false)?)
    }

    #[inline(always)]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut held = self.bit;
        // The locked instruction would wait for a store.
        if self.is_alone {
            self.is_alone = false;
            held |= self.me;
        }
        ra.fetch_add(self.lock.unwatched(), held.wrapping_neg())?;
        Ok(())
    }

    #[inline(always)]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        recoverable::refused(ra, self.write(ra, false)?)
    }

    #[inline(always)]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.lock.unwatched(), self.me.wrapping_neg())?;
        Ok(())
    }
}

impl RecoverableRw for RobustRw {
    #[inline]
    fn recoverable_acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.read(ra, true)
    }

    #[inline]
    fn recoverable_acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.write(ra, true)
    }

    fn share<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.is_alone {
            self.is_alone = false;
            ra.fetch_add(self.lock, self.me.wrapping_neg())?;
        }
        Ok(())
    }

    fn release_unrecovered<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let bit = if self.is_alone { self.bit } else { 0 };
        self.is_alone = false;
        ra.fetch_add(self.lock, NOT_RECOVERABLE.wrapping_sub(self.me).wrapping_sub(bit))?;
        Ok(())
    }
}

impl RobustRw {
    #[inline(always)]
    fn read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, recovers: bool) -> Result<Entry> {
        // `bind` has made it unwatched. Here the compiler knows that, and leaves the look at a parked owner out.
        let lock = ra.fetch_add(self.lock.unwatched(), self.bit)?;
        if lock & WRITER == NIL {
            return Ok(Entry::Clean);
        }
        recoverable::by_value(self.wait_for_writer(ra, lock | self.bit, recovers))
    }

    /// Waits until no writer is inside. `lock` is the word with this reader's bit.
    #[cold]
    #[inline(never)]
    fn wait_for_writer<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, mut lock: u64, recovers: bool) -> Result<Entry> {
        self.backoff.reset();
        while lock & WRITER != NIL {
            if lock & WRITER == NOT_RECOVERABLE {
                self.release_read(ra)?;
                return Err(Error::NotRecoverable { lock: RobustRw::NAME });
            }
            let failed = self.ask(ra, recovers)?;
            if is_orphaned(lock, &failed) {
                if self.takes_over(ra, lock, &failed)? {
                    self.is_alone = true;
                    return Ok(Entry::OwnerDead(failed));
                }
            } else {
                self.pause(ra, recovers)?;
            }
            lock = ra.get(self.lock)?;
        }
        Ok(Entry::Clean)
    }

    #[inline(always)]
    fn write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, recovers: bool) -> Result<Entry> {
        match self.attempt(ra)? {
            NIL => Ok(Entry::Clean),
            lock => recoverable::by_value(self.retry(ra, lock, recovers)),
        }
    }

    #[inline(always)]
    fn attempt<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<u64> {
        Ok(ra.compare_and_swap(self.lock.unwatched(), NIL, self.me)?)
    }

    /// The attempts after the first one, which has found `lock`.
    #[cold]
    #[inline(never)]
    fn retry<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, mut lock: u64, recovers: bool) -> Result<Entry> {
        self.backoff.reset();
        while lock != NIL {
            if lock & WRITER == NOT_RECOVERABLE {
                return Err(Error::NotRecoverable { lock: RobustRw::NAME });
            }
            let failed = self.ask(ra, recovers)?;
            if is_orphaned(lock, &failed) {
                if self.takes_over(ra, lock, &failed)? {
                    return Ok(Entry::OwnerDead(failed));
                }
            } else if swept(lock, &failed) != lock {
                ra.silence(&failed)?;
                ra.compare_and_swap(self.lock, lock, swept(lock, &failed))?;
            } else {
                self.pause(ra, recovers)?;
            }
            lock = self.attempt(ra)?;
        }
        Ok(Entry::Clean)
    }

    /// Replaces the writer in `lock`, which has failed, by this rank. By I2, readers in `lock` wait.
    fn takes_over<A: RemoteAtomics + ?Sized>(&self, ra: &A, lock: u64, failed: &Failed) -> Result<bool> {
        ra.silence(failed)?;
        let taken = swept(lock, failed) & !WRITER | self.me;
        Ok(ra.compare_and_swap(self.lock, lock, taken)? == lock)
    }

    fn ask<A: RemoteAtomics + ?Sized>(&self, ra: &A, recovers: bool) -> Result<Failed> {
        if recovers { recoverable::acknowledged(ra) } else { Ok(Failed::default()) }
    }

    fn pause<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, recovers: bool) -> Result<()> {
        let paused = self.backoff.wait(ra);
        if recovers { recoverable::interruptible(paused) } else { paused }
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::World;

    use super::*;
    use crate::{TasRw, suite};

    #[test]
    fn conforms() {
        suite::rw_lock::<RobustRw>(Backoff::default());
        suite::recoverable_rw::<RobustRw>(Backoff::default());
    }

    #[test]
    fn costs_what_tas_rw_costs() {
        let params = Backoff::default();
        assert_eq!(suite::rw_lock_cost::<RobustRw>(params), suite::rw_lock_cost::<TasRw>(params));
        assert_eq!(suite::recoverable_rw_cost::<RobustRw>(params), [(1, 1), (1, 1)]);
    }

    #[test]
    fn the_word_has_room_for_so_many_ranks_and_no_more() {
        for (size, fits) in [(RANKS, true), (RANKS + 1, false)] {
            let world = World::threads(size).run(|ra| {
                let place = Place::alloc(ra, Rank(0), RobustRw::WORDS, RobustRw::NODE).unwrap();
                match RobustRw::bind(ra, place, Backoff::default()) {
                    Ok(mut lock) => {
                        assert!(fits);
                        // All bits at once, including the last one.
                        lock.acquire_read(ra).unwrap();
                        let all = |word: u64| word >> WRITER_BITS == u64::MAX >> WRITER_BITS;
                        suite::poll(ra, place.word(0), all).unwrap();
                    }
                    Err(error) => {
                        assert!(!fits);
                        let text = error.to_string();
                        assert!(text.contains("59 ranks") && text.contains("58"), "{text}");
                    }
                }
            });
            world.unwrap();
        }
    }
}
