//! Accumulates: updates of elements, each of them atomic.
//!
//! # Sources
//!
//! MPI-4.1, sections 12.3.4 to 12.3.6 (the calls) and 12.7.1 (atomicity and ordering). Network atomics for what they can
//! do, a lock for the rest: R. Gerstenberger, M. Besta, T. Hoefler, Enabling highly-scalable remote memory access
//! programming with MPI-3 one sided, SC'13, section 2.4.
//!
//! # Which way
//!
//! | element | native | cas | locked |
//! | --- | --- | --- | --- |
//! | 8 bytes, aligned: sum of integers, replace, no_op | one network atomic | get and CAS | lock |
//! | up to 8 bytes, aligned | get and CAS of its word | get and CAS of its word | lock |
//! | others, and memory that has no network atomics | lock | lock | lock |
//!
//! Memory of the program has network atomics where every rank reaches its words, as between threads, and not where its owner
//! alone does: what the owner did with the processor would not be atomic against the others' lock.
//!
//! The way depends on the strategy of the window and on the element's type and place alone, not on the call or the
//! number of elements: so all updates that have to be atomic against each other go the same way. The one exception is a rank
//! that holds the target exclusively: nobody else may update meanwhile, and it needs neither atomics nor the lock.
//!
//! The lock is one MCS lock for each target, its node this rank's.
//!
//! # Order
//!
//! Every update is done when its call returns, so those of one rank are ordered as its calls, whatever
//! `accumulate_ordering` asks for.
//!
//! # Cost
//!
//! An element is one remote operation by a network atomic, two by get and CAS when nobody interferes. A run of elements
//! under the lock is the lock's two operations and its flush of this rank's own node, and a
//! bulk get and a bulk put for each 128 elements with one flush behind them.

use std::sync::atomic::{AtomicU64, Ordering};

use rmalab_atomics::exposed::{Lease, LeasedWords};
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::{LINE, Mcs, Place as LockPlace, RawMutex};

use crate::target::Place;
use crate::{AccumulateStrategy, Element, Integer, Op, Result, combine_slice};

/// Elements combined under the lock at a time, on the stack.
const CHUNK: usize = 128;

/// From this many elements on, an exclusive holder does without atomics.
const ALONE: usize = 4;

/// Updates of a place of one target.
pub(crate) struct Updates<'u, A: RemoteAtomics + ?Sized> {
    pub(crate) ra: &'u A,
    pub(crate) accumulate: AccumulateStrategy,
    /// Where the lock of accumulates is, the same on every rank.
    pub(crate) lock: Disp,
    pub(crate) rank: Rank,
    pub(crate) place: Place<'u>,
    /// Whether this rank holds the target exclusively.
    pub(crate) alone: bool,
}

/// A word that is updated atomically.
trait Word {
    fn load(&self) -> Result<u64>;
    fn add(&self, value: u64) -> Result<u64>;
    fn swap(&self, value: u64) -> Result<u64>;
    fn compare_and_swap(&self, expected: u64, desired: u64) -> Result<u64>;
}

/// By the processor, where it reaches the word.
impl Word for &AtomicU64 {
    #[inline(always)]
    fn load(&self) -> Result<u64> {
        Ok(AtomicU64::load(self, Ordering::SeqCst))
    }

    #[inline(always)]
    fn add(&self, value: u64) -> Result<u64> {
        Ok(self.fetch_add(value, Ordering::SeqCst))
    }

    #[inline(always)]
    fn swap(&self, value: u64) -> Result<u64> {
        Ok(AtomicU64::swap(self, value, Ordering::SeqCst))
    }

    #[inline(always)]
    fn compare_and_swap(&self, expected: u64, desired: u64) -> Result<u64> {
        Ok(self.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst).unwrap_or_else(|old| old))
    }
}

/// By the network.
impl<A: RemoteAtomics + ?Sized> Word for (&A, Address) {
    #[inline(always)]
    fn load(&self) -> Result<u64> {
        Ok(self.0.get(self.1)?)
    }

    #[inline(always)]
    fn add(&self, value: u64) -> Result<u64> {
        Ok(self.0.fetch_add(self.1, value)?)
    }

    #[inline(always)]
    fn swap(&self, value: u64) -> Result<u64> {
        Ok(self.0.fetch_store(self.1, value)?)
    }

    #[inline(always)]
    fn compare_and_swap(&self, expected: u64, desired: u64) -> Result<u64> {
        Ok(self.0.compare_and_swap(self.1, expected, desired)?)
    }
}

/// One element's bits in its word.
#[derive(Clone, Copy)]
struct Bits {
    shift: u32,
    mask: u64,
}

impl Bits {
    /// Those of a `T` at `offset` of a run of words.
    #[inline(always)]
    fn of<T: Element>(offset: u64) -> Bits {
        let size = size_of::<T>() as u32;
        let mask = if size >= 8 { u64::MAX } else { (1 << (8 * size)) - 1 };
        let byte = (offset % WORD) as u32;
        let shift = if cfg!(target_endian = "little") { 8 * byte } else { 8 * (8 - size - byte) };
        Bits { shift, mask }
    }

    #[inline(always)]
    fn get<T: Element>(self, word: u64) -> T {
        T::from_word((word >> self.shift) & self.mask)
    }

    #[inline(always)]
    fn set<T: Element>(self, word: u64, value: T) -> u64 {
        word & !(self.mask << self.shift) | value.to_word() << self.shift
    }
}

/// Updates one element in its word, and returns what it was before.
#[inline(always)]
fn update<T: Element>(word: &impl Word, bits: Bits, native: bool, op: Op, value: T) -> Result<T> {
    if native && size_of::<T>() == 8 {
        match op {
            Op::Sum if T::KIND.is_integer() => return Ok(T::from_word(word.add(value.to_word())?)),
            Op::Replace => return Ok(T::from_word(word.swap(value.to_word())?)),
            _ => {}
        }
    }
    let mut old = word.load()?;
    loop {
        let element = bits.get::<T>(old);
        if op == Op::NoOp {
            return Ok(element);
        }
        let seen = word.compare_and_swap(old, bits.set(old, T::combine(op, element, value)))?;
        if seen == old {
            return Ok(element);
        }
        old = seen;
    }
}

/// Adds words to words, if that is what the operation does to the elements: in a loop that is nothing but its atomics.
#[inline]
fn add_all<T: Element>(words: &[AtomicU64], op: Op, source: &[T]) -> bool {
    let adds = op == Op::Sum && T::KIND.is_integer() && size_of::<T>() == 8;
    if adds {
        for (word, value) in words.iter().zip(source) {
            word.fetch_add(value.to_word(), Ordering::SeqCst);
        }
    }
    adds
}

/// The address of the word that holds byte `offset`.
#[inline(always)]
fn word_at(start: Address, offset: u64) -> (Address, u64) {
    let byte = start.disp.0 + offset;
    (start.rank.at(Disp(byte - byte % WORD)).unwatched(), byte)
}

impl<A: RemoteAtomics + ?Sized> Updates<'_, A> {
    /// Whether a `T` at this byte, counted from the start of a word, is updated in its word.
    #[inline(always)]
    fn in_word<T: Element>(&self, byte: u64) -> bool {
        let size = size_of::<T>() as u64;
        self.accumulate != AccumulateStrategy::Locked && size <= WORD && byte.is_multiple_of(size)
    }

    #[inline(always)]
    fn native(&self) -> bool {
        self.accumulate == AccumulateStrategy::Native
    }

    /// Combines `source` into the elements from `offset` on; with `result`, what they were before goes there.
    #[inline]
    pub(crate) fn run<T: Element>(
        &self,
        offset: u64,
        op: Op,
        source: &[T],
        mut result: Option<&mut [T]>,
    ) -> Result<()> {
        let n = result.as_ref().map_or(source.len(), |result| result.len());
        let size = size_of::<T>() as u64;
        if let Place::TwoSided(requests, rank) = self.place {
            return requests.update(rank, vec![(offset, n as u64 * size)], op, source, result);
        }
        if self.alone && n >= ALONE {
            return self.plain(offset, op, source, result);
        }
        let value = |i: usize| if op == Op::NoOp { T::zeroed() } else { source[i] };
        match self.place {
            Place::Segment(start) if self.in_word::<T>(start.disp.0 + offset) => {
                let ra = self.ra;
                let (first, byte) = word_at(start, offset);
                let words = (byte % WORD + n as u64 * size).div_ceil(WORD);
                let direct = ra.shared_words(first, words);
                if let Some(words) = direct
                    && let None = result
                    && self.native()
                    && add_all(words, op, source)
                {
                    return Ok(());
                }
                for i in 0..n {
                    let at = byte + i as u64 * size;
                    let bits = Bits::of::<T>(at);
                    let old = match direct {
                        Some(words) => {
                            let word = &words[((at - first.disp.0) / WORD) as usize];
                            update(&word, bits, self.native(), op, value(i))?
                        }
                        None => {
                            let word = (ra, word_at(start, offset + i as u64 * size).0);
                            update(&word, bits, self.native(), op, value(i))?
                        }
                    };
                    if let Some(result) = &mut result {
                        result[i] = old;
                    }
                }
                Ok(())
            }
            Place::Leased(lease)
                if words_of(lease).is_some_and(|leased| self.in_word::<T>(offset.wrapping_sub(leased.head))) =>
            {
                for i in 0..n {
                    let old = self.one(offset + i as u64 * size, op, value(i))?;
                    if let Some(result) = &mut result {
                        result[i] = old;
                    }
                }
                Ok(())
            }
            _ => self.locked(|| self.plain(offset, op, source, result)),
        }
    }

    /// Combines `value` into the element at `offset`, and returns what it was before.
    #[inline]
    pub(crate) fn one<T: Element>(&self, offset: u64, op: Op, value: T) -> Result<T> {
        match self.place {
            Place::Segment(start) if self.in_word::<T>(start.disp.0 + offset) => {
                let (at, byte) = word_at(start, offset);
                return update(&(self.ra, at), Bits::of::<T>(byte), self.native(), op, value);
            }
            Place::Leased(lease) => {
                if let Some(leased) = words_of(lease)
                    && let Some(byte) = offset.checked_sub(leased.head)
                    && self.in_word::<T>(byte)
                    && let Some(word) = leased.words.get((byte / WORD) as usize)
                {
                    return update(&word, Bits::of::<T>(byte), self.native(), op, value);
                }
            }
            Place::TwoSided(requests, rank) => {
                let mut old = [T::zeroed()];
                requests.update(rank, vec![(offset, T::SIZE)], op, &[value], Some(&mut old))?;
                return Ok(old[0]);
            }
            Place::Segment(_) => {}
        }
        let mut old = [T::zeroed()];
        self.locked(|| self.plain(offset, op, &[value], Some(&mut old)))?;
        Ok(old[0])
    }

    /// Stores `desired` at `offset` if the element there is `expected`; returns what it was before.
    #[inline]
    pub(crate) fn compare_and_swap<T: Integer>(&self, offset: u64, expected: T, desired: T) -> Result<T> {
        match self.place {
            Place::Segment(start) if self.in_word::<T>(start.disp.0 + offset) => {
                let (at, byte) = word_at(start, offset);
                return swap_in_word(&(self.ra, at), Bits::of::<T>(byte), expected, desired);
            }
            Place::Leased(lease) => {
                if let Some(leased) = words_of(lease)
                    && let Some(byte) = offset.checked_sub(leased.head)
                    && self.in_word::<T>(byte)
                    && let Some(word) = leased.words.get((byte / WORD) as usize)
                {
                    return swap_in_word(&word, Bits::of::<T>(byte), expected, desired);
                }
            }
            Place::TwoSided(requests, rank) => return requests.compare_and_swap(rank, offset, expected, desired),
            Place::Segment(_) => {}
        }
        let ra = self.ra;
        self.locked(|| {
            let mut old = [T::zeroed()];
            self.place.read(ra, offset, bytemuck::cast_slice_mut(&mut old))?;
            if old[0] == expected {
                self.place.write(ra, offset, bytemuck::bytes_of(&desired))?;
                ra.flush(self.rank)?;
            }
            Ok(old[0])
        })
    }

    /// Reads, combines and writes; nobody else updates these elements meanwhile.
    #[inline(never)]
    fn plain<T: Element>(&self, offset: u64, op: Op, source: &[T], mut result: Option<&mut [T]>) -> Result<()> {
        let ra = self.ra;
        let n = result.as_ref().map_or(source.len(), |result| result.len());
        let mut chunk = [T::zeroed(); CHUNK];
        for start in (0..n).step_by(CHUNK) {
            let end = n.min(start + CHUNK);
            let elements = &mut chunk[..end - start];
            let at = offset + (start * size_of::<T>()) as u64;
            self.place.read(ra, at, bytemuck::cast_slice_mut(elements))?;
            if let Some(result) = &mut result {
                result[start..end].copy_from_slice(elements);
            }
            if op != Op::NoOp {
                combine_slice(op, elements, &source[start..end]);
                self.place.write(ra, at, bytemuck::cast_slice(elements))?;
            }
        }
        Ok(ra.flush(self.rank)?)
    }

    /// Runs `body` while this rank holds the target's lock of accumulates.
    #[inline(never)]
    fn locked<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        let ra = self.ra;
        let place = LockPlace { home: self.rank, words: self.lock, node: self.lock.plus(LINE) };
        let mut lock = Mcs::bind(ra, place, ())?;
        lock.acquire(ra)?;
        let done = body();
        lock.release(ra)?;
        done
    }
}

/// The words of leased memory, if every rank has them. An owner that alone has them takes the lock, as its peers do.
fn words_of(lease: &dyn Lease) -> Option<LeasedWords<'_>> {
    lease.words().filter(|leased| leased.everywhere)
}

#[inline(always)]
fn swap_in_word<T: Integer>(word: &impl Word, bits: Bits, expected: T, desired: T) -> Result<T> {
    if size_of::<T>() == 8 {
        return Ok(T::from_word(word.compare_and_swap(expected.to_word(), desired.to_word())?));
    }
    let mut old = word.load()?;
    loop {
        let element = bits.get::<T>(old);
        if element != expected {
            return Ok(element);
        }
        let seen = word.compare_and_swap(old, bits.set(old, desired))?;
        if seen == old {
            return Ok(element);
        }
        old = seen;
    }
}
