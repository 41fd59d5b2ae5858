//! Accumulates: updates of elements, each of them atomic.
//!
//! The element type is data here, a [`ElementKind`] beside bytes. The combination of two elements depends on the type, and is
//! in element.rs.
//!
//! # Sources
//!
//! MPI-4.1, sections 12.3.4 to 12.3.6 (the calls) and 12.7.1 (atomicity and ordering). Network atomics where they exist and
//! a lock elsewhere: R. Gerstenberger, M. Besta, T. Hoefler, Enabling highly-scalable remote memory access programming with
//! MPI-3 one sided, SC'13, section 2.4.
//!
//! # Which path
//!
//! | element | native | cas | locked |
//! | --- | --- | --- | --- |
//! | 8 bytes, aligned: sum of integers, replace | one network atomic | get and CAS | lock |
//! | other, up to 8 bytes, aligned | get and CAS of its word | get and CAS of its word | lock |
//! | any other, and memory that has no network atomics | lock | lock | lock |
//!
//! No_op only reads: it is one get where the table has CAS. The program's own memory has network atomics if every rank
//! reaches its words, as threads of one process do. It has none if only its owner reaches them, since the owner's
//! processor instructions would not be atomic against the other ranks' lock.
//!
//! The path depends only on the window's strategy and on the element's type and place, not on the call or the number of
//! elements. So all updates that have to be atomic against each other take the same path. There are two exceptions:
//!
//! - A rank that holds the target exclusively needs neither atomics nor the lock, since no other rank may update at the
//!   same time.
//! - Where ranks share memory, a target that receives long runs for some time has all its updates under the lock. It goes
//!   back to atomics when it receives single updates for some time. Under the lock, runs are plain loops. See bias.rs.
//!
//! A rank updates an element across two regions of a dynamic window under the lock. Every other element of an access to
//! several regions takes the path of its own region.
//!
//! Each target has one MCS lock for accumulates. A rank takes it with its own node.
//!
//! # Order
//!
//! Every update is done when its call returns. So the updates of one rank have the order of its calls, for any
//! `accumulate_ordering`.
//!
//! # Cost
//!
//! An element takes one remote operation by a network atomic, and two by get and CAS when no other rank interferes. Where
//! the processor reaches the words, a run of shorter elements takes one CAS for each word.
//!
//! A run under the lock takes the lock's two operations and a flush of this rank's own node. Then it takes a bulk get and a
//! bulk put for each [`CHUNK`] bytes, and one flush for all of them. A sum of 64-bit integers that the processor reaches is
//! one pass without a copy. Between two processes of a host (AMD EPYC), a sum of 128 integers takes 40 ns in mode locked
//! and 290 ns by atomics; a sum of 1,024 integers takes 125 ns and 2.9 us.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rmalab_atomics::mapped::add_words;
use rmalab_atomics::registered::{Pinned, PinnedWords};
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::{Mcs, RawMutex};

use crate::bias::{AccumulatePath, Bias};
use crate::element::{CombineWords, ElementKind, from_word, to_word};
use crate::place::{Joined, TargetMemory};
use crate::{AccumulateStrategy, Error, Op, Result};

/// The number of bytes that are combined under the lock at a time, on the stack: 128 of the longest elements.
const CHUNK: usize = 2048;

/// The number of words that are read and combined ahead of the first compare-and-swap.
const AHEAD: usize = 16;

// A shift converts a length in bytes to a length in elements.
const _: () = {
    let mut i = 0;
    while i < ElementKind::ALL.len() {
        assert!(ElementKind::ALL[i].size().is_power_of_two());
        i += 1;
    }
};

/// Returns the error of an update that needs exclusive access, on a target that other ranks can still update by
/// atomics.
const NOT_EXCLUSIVE: rmalab_atomics::Error = rmalab_atomics::Error::Unsupported {
    what: "an update that excludes all others",
    why: "ranks update this window by network atomics; make it with the accumulate strategy `locked`",
};

/// From this many elements on, a rank that holds the target exclusively uses no atomics.
const ALONE: u64 = 4;

/// Updates of a place of one target.
///
/// The data of the methods are bytes of any alignment: whole elements of the method's kind, for which the operation is
/// defined. The caller checks that.
pub(crate) struct Updates<'u, A: RemoteAtomics + ?Sized> {
    pub(crate) ra: &'u A,
    pub(crate) path: &'u AccumulatePath<'u>,
    /// This rank's record of its runs, where targets have modes.
    pub(crate) bias: Option<&'u Bias>,
    pub(crate) rank: Rank,
    pub(crate) place: TargetMemory<'u>,
    /// True if this rank holds the target exclusively.
    pub(crate) alone: bool,
}

/// A word that is updated atomically.
trait Word {
    fn load(&self) -> Result<u64>;
    fn add(&self, value: u64) -> Result<u64>;
    fn swap(&self, value: u64) -> Result<u64>;
    fn compare_and_swap(&self, expected: u64, desired: u64) -> Result<u64>;
}

/// A word that the processor reaches.
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

/// A word that is reached through the network.
struct NetworkWord<'w, A: ?Sized>(&'w A, Address);

impl<A: RemoteAtomics + ?Sized> Word for NetworkWord<'_, A> {
    fn load(&self) -> Result<u64> {
        Ok(self.0.get(self.1)?)
    }

    fn add(&self, value: u64) -> Result<u64> {
        Ok(self.0.fetch_add(self.1, value)?)
    }

    fn swap(&self, value: u64) -> Result<u64> {
        Ok(self.0.fetch_store(self.1, value)?)
    }

    fn compare_and_swap(&self, expected: u64, desired: u64) -> Result<u64> {
        Ok(self.0.compare_and_swap(self.1, expected, desired)?)
    }
}

/// The word that contains an element.
#[derive(Clone, Copy)]
enum WordRef<'w> {
    /// The processor reaches it.
    Processor(&'w AtomicU64),
    Network(Address),
}

/// The exclusion of other ranks' updates during an update of this rank.
#[derive(Clone, Copy)]
enum Held {
    /// The updates are atomics, and no other rank runs a plain loop at the same time.
    Atomics,
    /// The target's lock; no rank runs a plain loop while this rank updates by atomics under it.
    Lock,
    /// The target's lock, under which this rank may loop.
    Loop,
}

/// The bits of one element in its word.
#[derive(Clone, Copy)]
struct Bits {
    shift: u32,
    /// Returns the bits of an element that is the first one of its word.
    mask: u64,
}

impl Bits {
    /// Returns the bits of an element of `size` bytes, at most 8, at `byte` of a run of words.
    #[inline(always)]
    fn of(size: u64, byte: u64) -> Bits {
        let others = (8 * (WORD - size)) as u32;
        let mask = if cfg!(target_endian = "little") { u64::MAX >> others } else { u64::MAX << others };
        Bits { shift: 8 * (byte % WORD) as u32, mask }
    }

    /// Returns the element in `word`, as a separate word.
    #[inline(always)]
    fn get(self, word: u64) -> u64 {
        self.mask & if cfg!(target_endian = "little") { word >> self.shift } else { word << self.shift }
    }

    /// Returns `word` with this element in place of its old one.
    #[inline(always)]
    fn set(self, word: u64, element: u64) -> u64 {
        let place = |bits: u64| if cfg!(target_endian = "little") { bits << self.shift } else { bits >> self.shift };
        word & !place(self.mask) | place(element)
    }
}

/// The update of a run's elements in their words: an operation on a kind, looked up once for all elements.
#[derive(Clone, Copy)]
enum Update {
    /// Reads the word.
    Load,
    /// Adds to the word, which is the element.
    Add,
    /// Replaces the word, which is the element.
    Swap,
    /// Reads the word, combines, and compares and swaps.
    Combine(CombineWords),
}

impl Update {
    #[inline(always)]
    fn new(kind: ElementKind, op: Op, native: bool) -> Update {
        match op {
            Op::NoOp => Update::Load,
            Op::Sum if native && is_word_integer(kind) => Update::Add,
            Op::Replace if native && kind.size() == WORD => Update::Swap,
            _ => Update::Combine(kind.combine_words(op)),
        }
    }

    /// Updates an element by `value`, and returns its old value.
    #[inline(always)]
    fn run(self, word: &impl Word, bits: Bits, value: u64) -> Result<u64> {
        let combine = match self {
            Update::Load => return Ok(bits.get(word.load()?)),
            Update::Add => return word.add(value),
            Update::Swap => return word.swap(value),
            Update::Combine(combine) => combine,
        };
        let mut old = word.load()?;
        loop {
            let element = bits.get(old);
            let seen = word.compare_and_swap(old, bits.set(old, combine(element, value)))?;
            if seen == old {
                return Ok(element);
            }
            old = seen;
        }
    }
}

/// Updates elements of 8 bytes, each by one of the processor's atomics on its word.
fn update_words(
    words: &[AtomicU64],
    source: &[u8],
    mut result: Option<&mut [u8]>,
    update: impl Fn(&AtomicU64, u64) -> u64,
) {
    for (i, (word, value)) in words.iter().zip(source.as_chunks().0).enumerate() {
        let old = update(word, u64::from_ne_bytes(*value));
        if let Some(result) = &mut result {
            result[i * WORD as usize..][..WORD as usize].copy_from_slice(&old.to_ne_bytes());
        }
    }
}

/// Combines elements in words that the processor reaches, by one compare-and-swap for each word, which changes no other
/// bytes of the word. The first element is at byte `first`. With no_op it only reads.
fn combine_in_words(
    kind: ElementKind,
    op: Op,
    words: &[AtomicU64],
    mut first: usize,
    mut source: &[u8],
    mut result: Option<&mut [u8]>,
) {
    let mut left = len_of(source, &result);
    for words in words.chunks(AHEAD) {
        let mut old = [0_u64; AHEAD];
        for (old, word) in old.iter_mut().zip(words) {
            *old = word.load(Ordering::SeqCst);
        }
        let run = first..(first + left).min(size_of_val(words));
        if op != Op::NoOp {
            let combine = |new: &mut [u64], part: Range<usize>| {
                let origin = &source[part.start - first..part.end - first];
                kind.combine_bytes(op, &mut bytemuck::cast_slice_mut(new)[part], origin);
            };
            let mut new = old;
            combine(&mut new, run.clone());
            for (i, word) in words.iter().enumerate() {
                while let Err(seen) = word.compare_exchange(old[i], new[i], Ordering::SeqCst, Ordering::SeqCst) {
                    // Another rank was faster: the elements of this word are combined anew.
                    (old[i], new[i]) = (seen, seen);
                    let bytes = i * WORD as usize..(i + 1) * WORD as usize;
                    combine(&mut new, bytes.start.max(run.start)..bytes.end.min(run.end));
                }
            }
            source = &source[run.len()..];
        }
        if let Some(rest) = result {
            let (done, rest) = rest.split_at_mut(run.len());
            done.copy_from_slice(&bytemuck::cast_slice(&old)[run.clone()]);
            result = Some(rest);
        }
        left -= run.len();
        first = 0;
    }
}

/// Returns the number of bytes of a run: with no_op the source may be empty.
#[inline(always)]
fn len_of(source: &[u8], result: &Option<&mut [u8]>) -> usize {
    result.as_ref().map_or(source.len(), |result| result.len())
}

/// Returns whether an element is a 64-bit integer, so that a sum of elements is a sum of words.
#[inline(always)]
fn is_word_integer(kind: ElementKind) -> bool {
    kind.is_integer() && kind.size() == WORD
}

/// Returns the address of the word that contains byte `offset`.
#[inline(always)]
fn word_at(start: Address, offset: u64) -> (Address, u64) {
    let byte = start.disp.0 + offset;
    (start.rank.at(Disp(byte - byte % WORD)).unwatched(), byte)
}

impl<A: RemoteAtomics + ?Sized> Updates<'_, A> {
    /// Returns whether an element of `size` bytes at this byte, counted from the start of a word, is updated in its word.
    #[inline(always)]
    fn in_word(&self, size: u64, byte: u64) -> bool {
        self.path.strategy != AccumulateStrategy::Locked && size <= WORD && byte.is_multiple_of(size)
    }

    #[inline(always)]
    fn native(&self) -> bool {
        self.path.strategy == AccumulateStrategy::Native
    }

    /// Combines `source` into the elements from `offset` on. With a `result`, their old values go there. With no_op the
    /// source is ignored then, and may be empty.
    #[inline]
    pub(crate) fn run(
        &self,
        offset: u64,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        result: Option<&mut [u8]>,
    ) -> Result<()> {
        if result.is_none()
            && op == Op::Sum
            && is_word_integer(kind)
            && self.native()
            && !source.is_empty()
            && let Ok(values) = bytemuck::try_cast_slice(source)
            && let Some(words) = self.words(offset, values.len())
        {
            return self.add_apart(words, values);
        }
        self.run_elsewise(offset, kind, op, source, result)
    }

    /// Like [`run`](Self::run), except for sums of words that the processor reaches.
    #[inline(never)]
    fn run_elsewise(
        &self,
        offset: u64,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        result: Option<&mut [u8]>,
    ) -> Result<()> {
        let size = kind.size();
        let len = len_of(source, &result) as u64;
        if let TargetMemory::TwoSided(requests, rank) = self.place {
            return requests.update(rank, vec![(offset, len)], kind, op, source, result);
        }
        if len == 0 {
            return Ok(());
        }
        if let TargetMemory::Joined(joined) = self.place {
            return self.run_joined(joined, offset, kind, op, source, result);
        }
        if len == size && size <= WORD {
            let old = self.one(offset, kind, op, to_word(source))?;
            if let Some(result) = result {
                from_word(old, result);
            }
            return Ok(());
        }
        let n = len >> size.trailing_zeros();
        if self.alone && n >= ALONE {
            return self.plain(offset, kind, op, source, result);
        }
        match (self.word(offset, size).is_some(), self.word(offset + len - size, size).is_some()) {
            // Each branch ends separately: the compiler would keep a common result of both in memory.
            (true, true) => match self.begin_run(n)? {
                Held::Loop => {
                    let done = self.plain(offset, kind, op, source, result);
                    self.release()?;
                    done
                }
                held => {
                    let done = self.atomics(offset, kind, op, source, result);
                    self.end(held, done)
                }
            },
            (false, false) if !self.has_words(offset, size) => self.under_lock(offset, kind, op, source, result),
            _ => self.one_by_one(offset, kind, op, source, result),
        }
    }

    /// Combines `value` into the element at `offset`, and returns its old value. Both are words that represent elements
    /// of at most 8 bytes.
    #[inline(always)]
    pub(crate) fn one(&self, offset: u64, kind: ElementKind, op: Op, value: u64) -> Result<u64> {
        match self.word(offset, kind.size()) {
            Some((word, bits)) => self.update(word, bits, kind, op, value),
            None => self.one_elsewise(offset, kind, op, value),
        }
    }

    /// Like [`one`](Self::one), for an element that is not updated in its word.
    #[inline(never)]
    fn one_elsewise(&self, offset: u64, kind: ElementKind, op: Op, value: u64) -> Result<u64> {
        if let TargetMemory::TwoSided(requests, rank) = self.place {
            let (mut source, mut result) = ([0; WORD as usize], [0; WORD as usize]);
            let (source, result) = (&mut source[..kind.size() as usize], &mut result[..kind.size() as usize]);
            from_word(value, source);
            requests.update(rank, vec![(offset, kind.size())], kind, op, source, Some(result))?;
            return Ok(to_word(result));
        }
        let combine = kind.combine_words(op);
        self.acquire()?;
        let done = self.plain_word(offset, kind, |old| (op != Op::NoOp).then(|| combine(old, value)));
        self.release()?;
        done
    }

    /// Updates one element in its word.
    #[inline(always)]
    fn update(&self, word: WordRef<'_>, bits: Bits, kind: ElementKind, op: Op, value: u64) -> Result<u64> {
        let update = Update::new(kind, op, self.native());
        let held = self.begin()?;
        match word {
            WordRef::Processor(word) => self.end(held, update.run(&word, bits, value)),
            WordRef::Network(at) => self.end(held, self.update_by_network(at, bits, update, value)),
        }
    }

    #[inline(never)]
    fn update_by_network(&self, at: Address, bits: Bits, update: Update, value: u64) -> Result<u64> {
        update.run(&NetworkWord(self.ra, at), bits, value)
    }

    /// Returns `n` words from `offset` on, if the processor reaches them.
    #[inline(always)]
    pub(crate) fn words(&self, offset: u64, n: usize) -> Option<&[AtomicU64]> {
        match self.direct(offset, n as u64 * WORD)? {
            (words, 0) => Some(words),
            _ => None,
        }
    }

    /// Like [`add`](Self::add), out of line.
    #[inline(never)]
    fn add_apart(&self, words: &[AtomicU64], values: &[u64]) -> Result<()> {
        self.add(words, values)
    }

    /// Adds words to words that the processor reaches. Most runs are of this kind, so it is the shortest path.
    #[inline(always)]
    pub(crate) fn add(&self, words: &[AtomicU64], values: &[u64]) -> Result<()> {
        let n = values.len() as u64;
        if self.alone && n >= ALONE {
            add_words(words, values);
            // The following flush does not know of these stores.
            fence(Ordering::SeqCst);
            return Ok(());
        }
        match self.begin_run(n)? {
            Held::Loop => {
                add_words(words, values);
                if !cfg!(target_arch = "x86_64") {
                    // As above; on x86-64 the release of the lock is a fence as well.
                    fence(Ordering::SeqCst);
                }
                self.release()
            }
            held => {
                for (word, value) in words.iter().zip(values) {
                    word.fetch_add(*value, Ordering::SeqCst);
                }
                self.end(held, Ok(()))
            }
        }
    }

    /// Updates each element on its own path, for memory of the program that begins or ends within a word.
    #[cold]
    fn one_by_one(
        &self,
        offset: u64,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        mut result: Option<&mut [u8]>,
    ) -> Result<()> {
        let size = kind.size() as usize;
        for at in (0..len_of(source, &result)).step_by(size) {
            let source = source.get(at..at + size).unwrap_or(&[]);
            let result = result.as_mut().map(|result| &mut result[at..at + size]);
            self.run(offset + at as u64, kind, op, source, result)?;
        }
        Ok(())
    }

    /// Updates elements of regions that touch. Elements of one region take that region's path. The lock protects the
    /// update of an element across a border, which no path within a region reaches.
    #[cold]
    #[inline(never)]
    fn run_joined(
        &self,
        joined: &Joined<'_>,
        offset: u64,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        mut result: Option<&mut [u8]>,
    ) -> Result<()> {
        let (size, len) = (kind.size(), len_of(source, &result));
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let part = joined.part(at);
            let whole = (part.end - at).min((len - done) as u64) / size * size;
            let run = done..done + whole.max(size) as usize;
            done = run.end;
            let source = source.get(run.clone()).unwrap_or(&[]);
            let result = result.as_mut().map(|result| &mut result[run]);
            if whole == 0 {
                self.under_lock(at, kind, op, source, result)?;
            } else {
                let Updates { ra, path, bias, rank, alone, .. } = *self;
                let updates = Updates { ra, path, bias, rank, place: part.place, alone };
                updates.run(at - part.start, kind, op, source, result)?;
            }
        }
        Ok(())
    }

    /// Begins updates by atomics: at once, or under the target's lock if the target is in mode locked.
    #[inline(always)]
    fn begin(&self) -> Result<Held> {
        match self.bias {
            Some(bias) if !self.path.enter(self.ra, self.rank)? => self.begin_locked(bias),
            _ => Ok(Held::Atomics),
        }
    }

    #[inline(never)]
    fn begin_locked(&self, bias: &Bias) -> Result<Held> {
        let waits = self.ra.get(self.path.place(self.rank).word(0))? != 0;
        self.acquire()?;
        match bias.pay(self.ra, self.path, self.rank, waits) {
            Ok(()) => Ok(Held::Lock),
            Err(error) => self.end(Held::Lock, Err(error)),
        }
    }

    /// Begins updates of `n` elements, in the target's mode or in the mode to which it has to change.
    #[inline(always)]
    fn begin_run(&self, n: u64) -> Result<Held> {
        match self.bias {
            Some(bias) if n >= bias.limits.run as u64 => {
                if bias.is_due(n) || self.path.is_locked(self.ra, self.rank)? {
                    self.acquire()?;
                    return match bias.may_loop(self.ra, self.path, self.rank, n) {
                        Ok(true) => Ok(Held::Loop),
                        Ok(false) => Ok(Held::Lock),
                        Err(error) => self.end(Held::Lock, Err(error)),
                    };
                }
                bias.owe(n);
                self.begin()
            }
            _ => self.begin(),
        }
    }

    /// Ends updates with this outcome.
    #[inline(always)]
    fn end<R>(&self, held: Held, done: Result<R>) -> Result<R> {
        match held {
            Held::Atomics => self.path.leave(self.ra, done),
            Held::Lock | Held::Loop => {
                self.release()?;
                done
            }
        }
    }

    /// Updates elements in their words.
    #[inline]
    fn atomics(
        &self,
        offset: u64,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        mut result: Option<&mut [u8]>,
    ) -> Result<()> {
        let update = Update::new(kind, op, self.native());
        let size = kind.size();
        let len = len_of(source, &result);
        if let Some((words, first)) = self.direct(offset, len as u64) {
            match update {
                Update::Add => {
                    update_words(words, source, result, |word, value| word.fetch_add(value, Ordering::SeqCst));
                }
                Update::Swap => update_words(words, source, result, |word, value| word.swap(value, Ordering::SeqCst)),
                Update::Combine(combine) if size == WORD => {
                    update_words(words, source, result, |word, value| {
                        let mut old = word.load(Ordering::SeqCst);
                        loop {
                            let new = combine(old, value);
                            match word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst) {
                                Ok(old) => return old,
                                Err(seen) => old = seen,
                            }
                        }
                    });
                }
                Update::Load | Update::Combine(_) => {
                    combine_in_words(kind, op, words, first as usize, source, result);
                }
            }
            return Ok(());
        }
        for at in (0..len).step_by(size as usize) {
            let (word, bits) = self.word(offset + at as u64, size).expect("the run is in words");
            let value = source.get(at..at + size as usize).map_or(0, to_word);
            let old = match word {
                WordRef::Processor(word) => update.run(&word, bits, value)?,
                WordRef::Network(at) => self.update_by_network(at, bits, update, value)?,
            };
            if let Some(result) = &mut result {
                from_word(old, &mut result[at..at + size as usize]);
            }
        }
        Ok(())
    }

    /// Returns the word of the element of `size` bytes at `offset`, if it is updated in its word.
    #[inline(always)]
    fn word(&self, offset: u64, size: u64) -> Option<(WordRef<'_>, Bits)> {
        match self.place {
            TargetMemory::Segment(start) => {
                let (at, byte) = word_at(start, offset);
                if !self.in_word(size, byte) {
                    return None;
                }
                let word = match self.ra.direct_words(at, 1) {
                    Some(words) => WordRef::Processor(&words[0]),
                    None => WordRef::Network(at),
                };
                Some((word, Bits::of(size, byte)))
            }
            TargetMemory::Leased(lease) => {
                let leased = words_of(lease)?;
                let byte = offset.checked_sub(leased.head)?;
                let word = leased.words.get((byte / WORD) as usize).filter(|_| self.in_word(size, byte))?;
                Some((WordRef::Processor(word), Bits::of(size, byte)))
            }
            TargetMemory::Joined(_) | TargetMemory::TwoSided(..) => None,
        }
    }

    /// Returns whether elements from `offset` on are updated in their words, where there are words.
    fn has_words(&self, offset: u64, size: u64) -> bool {
        match self.place {
            TargetMemory::Leased(lease) => {
                words_of(lease).is_some_and(|leased| self.in_word(size, offset.wrapping_sub(leased.head)))
            }
            TargetMemory::Segment(_) | TargetMemory::Joined(_) | TargetMemory::TwoSided(..) => false,
        }
    }

    /// Returns the words of `len` bytes from `offset` on, and the byte of the first word at which they start, if the
    /// processor reaches them. The elements there are updated in their words.
    #[inline(always)]
    fn direct(&self, offset: u64, len: u64) -> Option<(&[AtomicU64], u64)> {
        match self.place {
            TargetMemory::Segment(start) => {
                let (first, byte) = word_at(start, offset);
                let words = self.ra.shared_words(first, (byte % WORD + len).div_ceil(WORD))?;
                Some((words, byte % WORD))
            }
            TargetMemory::Leased(lease) => {
                let leased = words_of(lease)?;
                let byte = offset.checked_sub(leased.head)?;
                let words = leased.words.get((byte / WORD) as usize..(byte + len).div_ceil(WORD) as usize)?;
                Some((words, byte % WORD))
            }
            TargetMemory::Joined(_) | TargetMemory::TwoSided(..) => None,
        }
    }

    /// Stores `desired` at `offset` if the element there is `expected`. Returns its old value. All three are words that
    /// represent elements. Compare-and-swap must accept the kind.
    pub(crate) fn compare_and_swap(&self, offset: u64, kind: ElementKind, expected: u64, desired: u64) -> Result<u64> {
        if let TargetMemory::TwoSided(requests, rank) = self.place {
            return requests.compare_and_swap(rank, offset, kind, expected, desired);
        }
        match self.word(offset, kind.size()) {
            Some((WordRef::Processor(word), bits)) => {
                let held = self.begin()?;
                self.end(held, swap_in_word(&word, bits, expected, desired))
            }
            Some((WordRef::Network(at), bits)) => {
                let held = self.begin()?;
                self.end(held, swap_in_word(&NetworkWord(self.ra, at), bits, expected, desired))
            }
            None => {
                self.acquire()?;
                let done = self.plain_word(offset, kind, |old| (old == expected).then_some(desired));
                self.release()?;
                done
            }
        }
    }

    /// Reads an element of at most 8 bytes, and writes its new value, if there is one. Returns the old value. No other
    /// rank updates the element during the call.
    #[inline(always)]
    fn plain_word(&self, offset: u64, kind: ElementKind, update: impl FnOnce(u64) -> Option<u64>) -> Result<u64> {
        let mut bytes = [0; WORD as usize];
        let element = &mut bytes[..kind.size() as usize];
        self.place.read(self.ra, offset, element)?;
        let old = to_word(element);
        if let Some(new) = update(old) {
            from_word(new, element);
            self.place.write(self.ra, offset, element)?;
            self.flush()?;
        }
        Ok(old)
    }

    /// Reads, combines and writes under the target's lock.
    #[inline(never)]
    fn under_lock(
        &self,
        offset: u64,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        result: Option<&mut [u8]>,
    ) -> Result<()> {
        self.acquire()?;
        let done = self.plain(offset, kind, op, source, result);
        self.release()?;
        done
    }

    /// Reads, combines and writes; no other rank updates these elements at the same time.
    #[inline(never)]
    fn plain(&self, offset: u64, kind: ElementKind, op: Op, source: &[u8], result: Option<&mut [u8]>) -> Result<()> {
        // The buffer consists of words, so that the elements are aligned. It is no larger than needed, since zeroing it
        // takes time.
        match len_of(source, &result) {
            ..=64 => self.plain_in(&mut [0; 64 / 8], offset, kind, op, source, result),
            65..=256 => self.plain_in(&mut [0; 256 / 8], offset, kind, op, source, result),
            257..=512 => self.plain_in(&mut [0; 512 / 8], offset, kind, op, source, result),
            513..=1024 => self.plain_in(&mut [0; 1024 / 8], offset, kind, op, source, result),
            _ => self.plain_in(&mut [0; CHUNK / 8], offset, kind, op, source, result),
        }
    }

    /// Reads, combines and writes, with at most the length of `chunk` at a time.
    fn plain_in(
        &self,
        chunk: &mut [u64],
        offset: u64,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        mut result: Option<&mut [u8]>,
    ) -> Result<()> {
        let ra = self.ra;
        let chunk: &mut [u8] = bytemuck::cast_slice_mut(chunk);
        let len = len_of(source, &result);
        let mut start = 0;
        while start < len {
            let end = len.min(start + chunk.len());
            let elements = &mut chunk[..end - start];
            let at = offset + start as u64;
            self.place.read(ra, at, elements)?;
            if let Some(result) = &mut result {
                result[start..end].copy_from_slice(elements);
            }
            if op != Op::NoOp {
                kind.combine_bytes(op, elements, &source[start..end]);
                self.place.write(ra, at, elements)?;
            }
            start = end;
        }
        self.flush()
    }

    /// Runs `body` while no other rank updates elements of the target, on any path.
    #[cold]
    pub(crate) fn exclusively<R>(&self, body: impl FnOnce() -> R) -> Result<R> {
        let modes = self.bias.is_some() || self.alone || self.ra.size() == 1;
        if matches!(self.place, TargetMemory::TwoSided(..))
            || !modes && self.path.strategy != AccumulateStrategy::Locked
        {
            return Err(Error::Atomics(NOT_EXCLUSIVE));
        }
        self.acquire()?;
        let entered = self.bias.map_or(Ok(true), |bias| bias.lock(self.ra, self.path, self.rank));
        let done = entered.and_then(|entered| if entered { Ok(body()) } else { Err(Error::Atomics(NOT_EXCLUSIVE)) });
        // The release does not know of the body's stores.
        fence(Ordering::SeqCst);
        self.release()?;
        done
    }

    /// Completes the writes at the rank that has the memory, which may differ from the target.
    #[inline(always)]
    fn flush(&self) -> Result<()> {
        if let TargetMemory::Joined(joined) = self.place {
            return joined.flush(self.ra, self.rank);
        }
        Ok(self.ra.flush(self.place.owner(self.rank))?)
    }

    /// Acquires the target's lock of accumulates.
    #[inline(always)]
    fn acquire(&self) -> Result<()> {
        Ok(self.lock()?.acquire(self.ra)?)
    }

    #[inline(always)]
    fn release(&self) -> Result<()> {
        Ok(self.lock()?.release(self.ra)?)
    }

    /// Returns the target's lock of accumulates. All its state is in the segments, so no copy has to be kept from acquire to
    /// release, which would only move it through memory.
    #[inline(always)]
    fn lock(&self) -> Result<Mcs> {
        Ok(Mcs::bind(self.ra, self.path.place(self.rank), ())?)
    }
}

/// Returns the words of pinned memory, if every rank has them. If only the owner has them, it takes the lock, like its
/// peers.
fn words_of(lease: &dyn Pinned) -> Option<PinnedWords<'_>> {
    lease.words().filter(|leased| leased.everywhere)
}

#[inline(always)]
fn swap_in_word(word: &impl Word, bits: Bits, expected: u64, desired: u64) -> Result<u64> {
    if bits.mask == u64::MAX {
        return word.compare_and_swap(expected, desired);
    }
    let mut old = word.load()?;
    loop {
        let element = bits.get(old);
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

#[cfg(test)]
mod tests {
    use rmalab_atomics::World;

    use super::*;
    use crate::bias::Limits;

    const WORDS: usize = 520;
    const BYTES: usize = 8 * WORDS;

    /// Returns bytes of small numbers.
    fn bytes(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|i| ((i * i + 7 * seed) % 5) as u8).collect()
    }

    /// Every operation on every kind, by every path, with source and result at any address, gives the kind's own
    /// result.
    #[test]
    fn data_need_not_be_aligned() {
        World::threads(1)
            .run(|ra| {
                let lock = ra.heap().alloc(AccumulatePath::BYTES, 64).unwrap();
                let memory = ra.heap().alloc(BYTES as u64, 64).unwrap();
                let start = ra.rank().at(memory);
                let bias = Bias::new(Limits { run: 2, debt: 4, rent: 2 });
                let all = ElementKind::ALL.into_iter().flat_map(|kind| Op::ALL.map(|op| (kind, op)));
                for (kind, op) in all.filter(|&(kind, op)| op.is_defined_for(kind)) {
                    let size = kind.size() as usize;
                    let cases = [1, 3, 300].into_iter().flat_map(|n| [(n, 0, 0), (n, 1, 0), (n, 0, 1), (n, 3, 2)]);
                    for (n, of_source, of_result) in cases.filter(|&(n, ..)| n * size < BYTES - 64) {
                        for &strategy in AccumulateStrategy::ALL {
                            for (biased, alone, offset) in
                                [(false, false, 16), (true, false, 16), (false, true, 16), (false, false, 13)]
                            {
                                let path = AccumulatePath::new(ra, strategy, lock, biased);
                                let bias = biased.then_some(&bias);
                                let place = TargetMemory::Segment(start);
                                let updates = Updates { ra, path: &path, bias, rank: ra.rank(), place, alone };
                                let before = bytes(n, BYTES);
                                let source = bytes(n + 3, of_source + n * size);
                                let source = &source[of_source..];
                                let run = offset as usize..offset as usize + n * size;
                                let mut after = before.clone();
                                let (mut target, origin) = (before[run.clone()].to_vec(), source.to_vec());
                                kind.combine_bytes(op, &mut target, &origin);
                                after[run.clone()].copy_from_slice(&target);
                                let what =
                                    format!("{op} of {n} {kind} at {offset}, {strategy}, {of_source} {of_result}");
                                let mut seen = vec![0; BYTES];
                                for fetches in [false, true] {
                                    ra.put_bytes(start, &before).unwrap();
                                    let mut result = vec![0xA5; of_result + n * size + 1];
                                    let fetched = &mut result[of_result..of_result + n * size];
                                    updates.run(offset, kind, op, source, fetches.then_some(fetched)).unwrap();
                                    ra.get_bytes(start, &mut seen).unwrap();
                                    assert!(seen == after, "{what}");
                                    if fetches {
                                        assert_eq!(
                                            result[of_result..of_result + n * size],
                                            before[run.clone()],
                                            "{what}"
                                        );
                                    }
                                    assert_eq!(result.last(), Some(&0xA5), "{what}");
                                }
                            }
                        }
                    }
                }
            })
            .unwrap();
    }
}
