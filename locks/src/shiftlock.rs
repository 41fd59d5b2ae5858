//! ShiftLock: writers hand the lock over from rank to rank, and release many readers at a time by one change of a mode.
//!
//! # Paper
//! J. Gao, Q. Wang and J. Shu, "ShiftLock: Mitigate One-sided RDMA Lock Contention via Handover", FAST 2025.
//!
//! # Properties
//! - Mutual exclusion. Writers are served first come, first served, in the order of their compare-and-swaps on the lock's word.
//! - Readers that wait enter together after at most `n` writers. A reader that finds no writer enters at once.
//! - A writer waits on its own word while another writer is ahead of it. Readers, and writers that wait for readers, poll the home.
//! - Ranks that come and go at the same time can make the compare-and-swap of an arriving writer fail, so its acquire has no bound
//!   of its own. A reader's acquire and release are one addition each, which cannot fail.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with posted puts that
//!   arrive late: with n = 1 2R+2W×1, 2R+1W×2, and 2W×2 beside one read; with n = 2 2R+2W×1 and 2W×2; with either n 1R+2W×2 and 3W×2,
//!   on request (`--long`). With data and bulk puts in any order: 1R+1W×2.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | lock | words + 0 | 8 | home | bits 63–43 `rel`, 42–22 `rdr`, 21 `mode`, 20–0 `tail` |
//! | suc | node + 0 | 8 | each rank | nil, or the pointer of the next writer |
//! | note | node + 8 | 8 | each rank | 0, or the note of the writer ahead: bits 63–62 which note, 20–0 `rel`; of a handover also 53–22 `k`, 21 `mode` |
//!
//! `tail` is the pointer of the last writer that holds or waits, or nil. `rdr` counts the readers that hold or wait, and `rel` counts
//! releases, modulo 2^21. At rest `rdr` and `tail` are 0, while `rel` and `mode` keep their values.
//!
//! # Invariants
//! - I1: `tail` is nil if and only if no writer holds the lock or waits for it. The writers from the holder on form one list, as in
//!   [`crate::mcs`]. A link is missing only between a writer's compare-and-swap and the arrival of its put.
//! - I2: only the writer that holds the lock changes `mode`. A reader that finds a writer waits until `mode` has changed.
//! - I3: when a writer changes `mode`, all readers that `rdr` counts at that moment hold the lock, and no others are admitted while `tail`
//!   is not nil. `rel` has counted all of them when it has grown by their number. The next writer waits for that value.
//! - I4: `mode` cannot change twice before a waiting reader has seen the first change: the second change is a writer's, which has waited
//!   for that reader's release (I3).
//! - I5: from the moment when a writer enters until it or its successors change `mode`, no rank changes `rel`.
//!
//! # Memory ordering
//! All steps on `lock` are atomic and complete. Links and notes are posted puts, and the ranks that need them wait for them. A writer
//! resets `suc` and `note` by posted puts, and orders them ahead of the step that makes it visible in `tail` again. Otherwise a late
//! reset could erase a link.
//!
//! # Deviations from the paper
//! - The paper has a word of 128 bits and atomics on parts of it, with which a writer swaps `tail` alone. Here the word has 64 bits. A
//!   writer swaps by a compare-and-swap of the whole word, beginning with the value that it saw last. So an arrival among other ranks
//!   takes 2 operations or more.
//! - A link or a note is a put instead of a message.
//! - Without a successor, the paper tries to release twice before it waits. Here it tries until it has released, or another
//!   writer is in the queue. Only arriving readers make it try again, each of them once.
//! - Left out: the leases. In the paper the home resets a lock whose `rel` has not changed for three leases, and a releaser whose
//!   successor is silent for a lease gives up. A handover does not change `rel` (I5). So if `n` writers together hold the lock longer
//!   than three leases, the home resets it while it is in use, although each writer is in time. The mutant `shiftlock-reset-while-held`
//!   shows two writers inside after such a reset. The mutant `shiftlock-silent-successor` shows a queue that no rank serves any longer.
//!
//! # Cost
//! Remote operations without contention: acquire 1, release 1, for a reader (adds) and for a writer (compare-and-swaps), or 2 for a
//! writer's acquire after other ranks have used the lock. With a writer ahead, a writer's acquire is 2 (compare-and-swap, put) or more.
//! Its release is 1 (put) if it hands over, and 2 (add, put) if it changes the mode. Each poll adds 1.

use rmalab_atomics::{Address, Disp, RemoteAtomics, Until, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::error::at_least_one;
use crate::qnode::{NIL, pointer, rank_of};
use crate::{Error, Place, RawRwLock, Result, poll};

/// Bits of `tail`, `rdr` and `rel`.
const BITS: u32 = 21;
const MASK: u64 = (1 << BITS) - 1;

/// The number of ranks that `tail` can name, and that `rdr` can count.
const MAX_RANKS: u32 = MASK as u32;

/// The bit of `mode`, in the lock's word and in notes of a handover.
const MODE: u64 = 1 << BITS;

/// One reader in `rdr`.
const READER: u64 = MODE << 1;

/// One release in `rel`.
const RELEASE: u64 = READER << BITS;

/// In a note: this rank holds the lock.
const HANDOVER: u64 = 1 << 62;

/// In a note: this rank holds the lock once `rel` has the value of the note.
const MODE_CHANGED: u64 = 1 << 63;

/// The lowest bit of `k` in a note.
const K: u32 = BITS + 1;

fn tail(lock: u64) -> u64 {
    lock & MASK
}

fn readers(lock: u64) -> u64 {
    (lock / READER) & MASK
}

fn releases(lock: u64) -> u64 {
    lock / RELEASE
}

/// The value of `rel` after `more` releases.
fn after(rel: u64, more: u64) -> u64 {
    rel.wrapping_add(more) & MASK
}

/// The parameters of [`ShiftLock`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ShiftLockParams {
    /// The number of writers in a row that hold the lock before waiting readers; at least 1.
    pub n: u32,
    /// How ranks poll the lock's word.
    pub backoff: Backoff,
}

impl Default for ShiftLockParams {
    /// The number of writers of the paper's experiments.
    fn default() -> ShiftLockParams {
        ShiftLockParams { n: 16, backoff: Backoff::default() }
    }
}

/// One rank's handle of a ShiftLock.
#[derive(Debug)]
pub struct ShiftLock {
    lock: Address,
    suc: Disp,
    note: Disp,
    /// The pointer to this rank.
    me: u64,
    n: u32,
    /// The last value of the lock's word that this rank knows, with which it begins its compare-and-swaps.
    seen: u64,
    /// While this rank holds the lock: the number of writers in a row that have released before it.
    k: u32,
    backoff: BackoffState,
}

impl RawRwLock for ShiftLock {
    const NAME: &'static str = "shiftlock";
    const WORDS: u64 = WORD;
    const NODE: u64 = 2 * WORD;
    const RESTS_AT_ZERO: bool = false;
    type Params = ShiftLockParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: ShiftLockParams) -> Result<ShiftLock> {
        if ra.size() > MAX_RANKS {
            return Err(Error::TooManyRanks { lock: Self::NAME, size: ra.size(), limit: MAX_RANKS });
        }
        Ok(ShiftLock {
            lock: place.word(0),
            suc: place.node,
            note: place.node.word(1),
            me: pointer(ra.rank()),
            n: at_least_one(Self::NAME, "n", params.n)?,
            seen: 0,
            k: 0,
            backoff: BackoffState::new(params.backoff, ra.rank()),
        })
    }

    #[inline]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let lock = ra.fetch_add(self.lock, READER)?;
        if tail(lock) == NIL { Ok(()) } else { self.poll(ra, |now| (now ^ lock) & MODE != 0) }
    }

    #[inline]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        const LEAVE: u64 = RELEASE - READER;
        self.seen = ra.fetch_add(self.lock, LEAVE)?.wrapping_add(LEAVE);
        Ok(())
    }

    #[inline]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        let lock = self.enqueue(ra)?;
        self.k = 0;
        if tail(lock) != NIL {
            self.wait(ra, tail(lock))
        } else if readers(lock) != 0 {
            self.drain(ra, after(releases(lock), readers(lock)))
        } else {
            self.seen = lock + self.me;
            Ok(())
        }
    }

    #[inline]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let k = self.k.saturating_add(1);
        let mut suc = ra.get(ra.rank().at(self.suc))?;
        if suc == NIL {
            while tail(self.seen) == self.me {
                let released = ((self.seen - self.me) ^ MODE).wrapping_add(RELEASE);
                let seen = ra.compare_and_swap(self.lock, self.seen, released)?;
                if seen == self.seen {
                    self.seen = released;
                    return Ok(());
                }
                self.seen = seen;
            }
            suc = ra.wait_until(self.suc, Until::Ne(NIL))?;
        }
        ra.put(ra.rank().at(self.suc), NIL)?;
        let note = if k < self.n {
            // By I5 the successor finds this rank's `rel` and `mode`.
            HANDOVER | u64::from(k) << K | self.seen & MODE | releases(self.seen)
        } else {
            let flip = if self.seen & MODE == 0 { MODE } else { MODE.wrapping_neg() };
            let lock = ra.fetch_add(self.lock, flip.wrapping_add(RELEASE))?;
            // This release counts as well.
            MODE_CHANGED | after(releases(lock), 1 + readers(lock))
        };
        Ok(ra.put(rank_of(suc).at(self.note), note)?)
    }
}

impl ShiftLock {
    /// Makes this rank the tail, and returns the old word.
    fn enqueue<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<u64> {
        let mut lock = self.seen;
        loop {
            let seen = ra.compare_and_swap(self.lock, lock, lock - tail(lock) + self.me)?;
            if seen == lock {
                return Ok(lock);
            }
            lock = seen;
        }
    }

    /// Waits behind the writer `pred`.
    fn wait<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, pred: u64) -> Result<()> {
        ra.put(rank_of(pred).at(self.suc), self.me)?;
        let note = ra.wait_until(self.note, Until::Ne(0))?;
        ra.put(ra.rank().at(self.note), 0)?;
        let rel = note & MASK;
        if note & MODE_CHANGED != 0 {
            return self.drain(ra, rel);
        }
        self.seen = (rel * RELEASE) | (note & MODE) | self.me;
        self.k = (note >> K) as u32;
        Ok(())
    }

    /// Waits until `rel` is this, so that all readers ahead have released (I3).
    fn drain<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, rel: u64) -> Result<()> {
        self.poll(ra, |now| releases(now) == rel)?;
        Ok(())
    }

    /// Polls the lock's word until `holds`.
    fn poll<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, holds: impl Fn(u64) -> bool) -> Result<()> {
        self.backoff.reset();
        let mut lock = poll::spin(ra, self.lock, &holds).map_or_else(|| ra.get(self.lock), Ok)?;
        while !holds(lock) {
            self.backoff.wait(ra)?;
            lock = ra.get(self.lock)?;
        }
        self.seen = lock;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::Rank;

    use super::*;
    use crate::suite;

    fn params(n: u32) -> ShiftLockParams {
        ShiftLockParams { n, ..ShiftLockParams::default() }
    }

    #[test]
    fn conforms() {
        suite::rw_lock::<ShiftLock>(ShiftLockParams::default());
        suite::rw_lock::<ShiftLock>(params(1));
    }

    #[test]
    fn costs_one_and_one() {
        assert_eq!(suite::rw_lock_cost::<ShiftLock>(ShiftLockParams::default()), [(1, 1), (1, 1)]);
    }

    /// Rank 0 writes until a reader, and then writers 2, 3 and 4, have arrived. Returns the writers served before the reader.
    fn writers_before_the_reader(n: u32) -> u64 {
        let served = std::sync::Mutex::new(0);
        suite::scenario::<ShiftLock>(5, params(n), |ra, mut lock, place, order| {
            let rank = ra.rank();
            let arrived = |rank: u32| {
                suite::poll(ra, place.word(0), |lock| match rank {
                    1 => readers(lock) == 1,
                    _ => tail(lock) == pointer(Rank(rank)),
                })
            };
            if let Some(before) = rank.0.checked_sub(1) {
                arrived(before)?;
            }
            if rank == Rank(1) {
                lock.acquire_read(ra)?;
                *served.lock().unwrap() = ra.fetch_add(order, 1)?;
                return lock.release_read(ra);
            }
            lock.acquire_write(ra)?;
            if rank == Rank(0) {
                arrived(4)?;
            }
            let turn = ra.fetch_add(order, 1)?;
            let before = u64::from(rank.0) - u64::from(rank.0 > 1 && turn < u64::from(n));
            assert_eq!(turn, before, "{rank}");
            lock.release_write(ra)
        });
        served.into_inner().unwrap()
    }

    #[test]
    fn n_writers_in_a_row_are_served_in_order_and_then_the_reader() {
        for n in 1..4 {
            assert_eq!(writers_before_the_reader(n), u64::from(n));
        }
    }

    #[test]
    fn releases_wrap() {
        suite::scenario::<ShiftLock>(3, params(2), |ra, mut lock, place, turns| {
            if ra.rank() == Rank(0) {
                // Five releases before the counter wraps.
                ra.compare_and_swap(place.word(0), 0, RELEASE.wrapping_mul(5).wrapping_neg())?;
            }
            suite::poll(ra, place.word(0), |lock| lock != 0)?;
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
            suite::poll(ra, turns, |turns| turns == 8)?;
            Ok(())
        });
    }
}
