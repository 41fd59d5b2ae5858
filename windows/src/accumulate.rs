//! Accumulates: updates of elements, each of them atomic.
//!
//! The element type is data here, a [`Kind`] beside bytes. What depends on the type, how two elements combine, is in
//! element.rs.
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
//! | up to 8 bytes, aligned | get and CAS of its word | get and CAS of its word | lock |
//! | any other, and memory that has no network atomics | lock | lock | lock |
//!
//! No_op reads: one get where the table says CAS. The program's own memory has network atomics if every rank reaches its
//! words, as threads of one process do. It has none if only its owner reaches them: the owner's processor instructions would
//! not be atomic against the other ranks' lock.
//!
//! The path depends on the window's strategy and on the element's type and place alone, not on the call or the number of
//! elements. So all updates that have to be atomic against each other take the same path. There are two exceptions:
//!
//! - A rank that holds the target exclusively needs neither atomics nor the lock: no other rank may update meanwhile.
//! - Where ranks share memory, a target that receives long runs for some time has all its updates under the lock. It goes
//!   back to atomics when it receives single updates for some time. Under the lock, runs are plain loops. See bias.rs.
//!
//! Each target has one MCS lock for accumulates. A rank takes it with its own node.
//!
//! # Order
//!
//! Every update is done when its call returns. So the updates of one rank are ordered as its calls are, whatever
//! `accumulate_ordering` asks for.
//!
//! # Cost
//!
//! An element takes one remote operation by a network atomic, and two by get and CAS when no other rank interferes. A run
//! under the lock takes the lock's two operations and a flush of this rank's own node; then a bulk get and a bulk put for
//! each [`CHUNK`] bytes, and one flush for all of them. A sum of 64-bit integers that the processor reaches is one pass
//! without a copy. Between two processes of a host (AMD EPYC), a sum of 128 integers takes 40 ns in mode locked and 290 ns
//! by atomics; a sum of 1,024 integers takes 125 ns and 2.9 us.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use rmalab_atomics::exposed::{Lease, LeasedWords};
use rmalab_atomics::mapped::add_words;
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::{Mcs, RawMutex};

use crate::bias::{AccumulatePath, Bias};
use crate::element::{CombineWords, Kind, from_word, to_word};
use crate::target::Place;
use crate::{AccumulateStrategy, Op, Result};

/// Bytes combined under the lock at a time, on the stack: 128 of the longest elements.
const CHUNK: usize = 2048;

/// Runs of at most this many bytes use a chunk of this size, which takes less time to set up.
const SMALL_CHUNK: usize = 64;

/// From this many elements on, a rank that holds the target exclusively does without atomics.
const ALONE: usize = 4;

/// Updates of a place of one target.
///
/// The data of the methods are bytes of any alignment: whole elements of the kind that each method gets, which has the
/// operation. The caller checks that.
pub(crate) struct Updates<'u, A: RemoteAtomics + ?Sized> {
    pub(crate) ra: &'u A,
    pub(crate) path: &'u AccumulatePath<'u>,
    /// What this rank remembers of its runs, where targets have modes.
    pub(crate) bias: Option<&'u Bias>,
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

/// A word that the processor reaches, or one behind the network.
enum WordRef<'w, A: ?Sized> {
    Processor(&'w AtomicU64),
    Network(&'w A, Address),
}

impl<A: RemoteAtomics + ?Sized> Word for WordRef<'_, A> {
    #[inline(always)]
    fn load(&self) -> Result<u64> {
        match *self {
            WordRef::Processor(word) => Word::load(&word),
            WordRef::Network(ra, at) => Ok(ra.get(at)?),
        }
    }

    #[inline(always)]
    fn add(&self, value: u64) -> Result<u64> {
        match *self {
            WordRef::Processor(word) => word.add(value),
            WordRef::Network(ra, at) => Ok(ra.fetch_add(at, value)?),
        }
    }

    #[inline(always)]
    fn swap(&self, value: u64) -> Result<u64> {
        match *self {
            WordRef::Processor(word) => Word::swap(&word, value),
            WordRef::Network(ra, at) => Ok(ra.fetch_store(at, value)?),
        }
    }

    #[inline(always)]
    fn compare_and_swap(&self, expected: u64, desired: u64) -> Result<u64> {
        match *self {
            WordRef::Processor(word) => Word::compare_and_swap(&word, expected, desired),
            WordRef::Network(ra, at) => Ok(ra.compare_and_swap(at, expected, desired)?),
        }
    }
}

/// One element's bits in its word.
#[derive(Clone, Copy)]
struct Bits {
    shift: u32,
    /// The bits of an element that is the first one of its word.
    mask: u64,
}

impl Bits {
    /// The bits of an element of `size` bytes, at most 8, at `byte` of a run of words.
    #[inline(always)]
    fn of(size: u64, byte: u64) -> Bits {
        let others = (8 * (WORD - size)) as u32;
        let mask = if cfg!(target_endian = "little") { u64::MAX >> others } else { u64::MAX << others };
        Bits { shift: 8 * (byte % WORD) as u32, mask }
    }

    /// The element in `word`, as a word of its own.
    #[inline(always)]
    fn get(self, word: u64) -> u64 {
        self.mask & if cfg!(target_endian = "little") { word >> self.shift } else { word << self.shift }
    }

    /// `word` with this element in place of its own.
    #[inline(always)]
    fn set(self, word: u64, element: u64) -> u64 {
        let place = |bits: u64| if cfg!(target_endian = "little") { bits << self.shift } else { bits >> self.shift };
        word & !place(self.mask) | place(element)
    }
}

/// How the elements of a run are updated in their words: an operation on a kind, looked up once for all of them.
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
    fn new(kind: Kind, op: Op, native: bool) -> Update {
        match op {
            Op::NoOp => Update::Load,
            Op::Sum if native && is_word_integer(kind) => Update::Add,
            Op::Replace if native && kind.size() == WORD => Update::Swap,
            _ => Update::Combine(kind.combine_words(op)),
        }
    }

    /// Updates an element by `value`, and returns what it was before.
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

    /// Updates elements of `SIZE` bytes in words that the processor reaches. The first element is at byte `first` of them.
    fn run_all<const SIZE: usize>(
        self,
        words: &[AtomicU64],
        first: u64,
        source: &[u8],
        mut result: Option<&mut [u8]>,
    ) -> Result<()> {
        let n = len_of(source, &result) / SIZE;
        let (source, _) = source.as_chunks::<SIZE>();
        for i in 0..n {
            let byte = first + (i * SIZE) as u64;
            let value = source.get(i).map_or(0, |element| to_word(element));
            let old = self.run(&&words[(byte / WORD) as usize], Bits::of(SIZE as u64, byte), value)?;
            if let Some(result) = &mut result {
                from_word(old, &mut result[i * SIZE..][..SIZE]);
            }
        }
        Ok(())
    }
}

/// Bytes of a run: with no_op the source may be empty.
#[inline(always)]
fn len_of(source: &[u8], result: &Option<&mut [u8]>) -> usize {
    result.as_ref().map_or(source.len(), |result| result.len())
}

/// Whether an element is a 64-bit integer, so that a sum of elements is one of words.
#[inline(always)]
fn is_word_integer(kind: Kind) -> bool {
    kind.is_integer() && kind.size() == WORD
}

/// The address of the word that holds byte `offset`.
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

    /// Combines `source` into the elements from `offset` on. With a `result`, their former values go there; with no_op the
    /// source is ignored then, and may be empty.
    pub(crate) fn run(&self, offset: u64, kind: Kind, op: Op, source: &[u8], result: Option<&mut [u8]>) -> Result<()> {
        let size = kind.size();
        let len = len_of(source, &result) as u64;
        if let Place::TwoSided(requests, rank) = self.place {
            return requests.update(rank, vec![(offset, len)], kind, op, source, result);
        }
        if len == 0 {
            return Ok(());
        }
        if op == Op::Sum
            && result.is_none()
            && is_word_integer(kind)
            && self.native()
            && let Ok(values) = bytemuck::try_cast_slice(source)
            && let Some((words, 0)) = self.direct(offset, len)
        {
            return self.add(words, values);
        }
        let n = (len / size) as usize;
        if self.alone && n >= ALONE {
            return self.plain(offset, kind, op, source, result);
        }
        let last = offset + len - size;
        match (self.word(offset, size).is_some(), self.word(last, size).is_some()) {
            (true, true) => match self.bias {
                Some(bias) if n >= bias.limits.run => self.either(bias, n as u64, |plain| {
                    if plain {
                        self.plain(offset, kind, op, source, result)
                    } else {
                        self.atomics(offset, kind, op, source, result)
                    }
                }),
                _ => self.by_atomics(|| self.atomics(offset, kind, op, source, result)),
            },
            (false, false) if n == 1 || !self.has_words(offset, size) => {
                self.locked(|| self.plain(offset, kind, op, source, result))
            }
            _ => self.one_by_one(offset, kind, op, source, result),
        }
    }

    /// Adds words to words that the processor reaches: what most runs are, and so the shortest path.
    #[inline(never)]
    fn add(&self, words: &[AtomicU64], values: &[u64]) -> Result<()> {
        let n = values.len();
        let atomics = || {
            for (word, value) in words.iter().zip(values) {
                word.fetch_add(*value, Ordering::SeqCst);
            }
            Ok(())
        };
        if self.alone && n >= ALONE {
            add_words(words, values);
            // The flush that follows does not know of these stores.
            fence(Ordering::SeqCst);
            return Ok(());
        }
        match self.bias {
            Some(bias) if n >= bias.limits.run => self.either(bias, n as u64, |plain| {
                if !plain {
                    return atomics();
                }
                add_words(words, values);
                if !cfg!(target_arch = "x86_64") {
                    // As above; on x86-64 the release of the lock is a fence as well.
                    fence(Ordering::SeqCst);
                }
                Ok(())
            }),
            _ => self.by_atomics(atomics),
        }
    }

    /// Updates each element on its own path: those of memory of the program that begins or ends within a word.
    #[cold]
    fn one_by_one(&self, offset: u64, kind: Kind, op: Op, source: &[u8], mut result: Option<&mut [u8]>) -> Result<()> {
        let size = kind.size() as usize;
        for at in (0..len_of(source, &result)).step_by(size) {
            let source = source.get(at..at + size).unwrap_or(&[]);
            let result = result.as_mut().map(|result| &mut result[at..at + size]);
            self.run(offset + at as u64, kind, op, source, result)?;
        }
        Ok(())
    }

    /// Runs `update`, which is by atomics: at once, or under the target's lock if the target is in mode locked.
    #[inline(always)]
    fn by_atomics<R>(&self, update: impl FnOnce() -> Result<R>) -> Result<R> {
        let Some(bias) = self.bias else { return update() };
        if self.path.enter(self.ra, self.rank)? {
            return self.path.leave(self.ra, update());
        }
        let waits = self.ra.get(self.path.place(self.rank).word(0))? != 0;
        self.locked(|| {
            bias.pay(self.ra, self.path, self.rank, waits)?;
            update()
        })
    }

    /// Runs `update` of `n` elements, in the mode that the target is in or is due to be in. `update` gets whether to be a
    /// plain loop.
    #[inline(always)]
    fn either(&self, bias: &Bias, n: u64, update: impl FnOnce(bool) -> Result<()>) -> Result<()> {
        if bias.is_due(n) || self.path.is_locked(self.ra, self.rank)? {
            return self.holding(|| update(bias.may_loop(self.ra, self.path, self.rank, n)?));
        }
        bias.owe(n);
        self.by_atomics(|| update(false))
    }

    /// Updates elements in their words.
    #[inline]
    fn atomics(&self, offset: u64, kind: Kind, op: Op, source: &[u8], mut result: Option<&mut [u8]>) -> Result<()> {
        let update = Update::new(kind, op, self.native());
        let size = kind.size();
        let len = len_of(source, &result);
        if let Some((words, first)) = self.direct(offset, len as u64) {
            return match size {
                1 => update.run_all::<1>(words, first, source, result),
                2 => update.run_all::<2>(words, first, source, result),
                4 => update.run_all::<4>(words, first, source, result),
                _ => update.run_all::<8>(words, first, source, result),
            };
        }
        for at in (0..len).step_by(size as usize) {
            let (word, bits) = self.word(offset + at as u64, size).expect("the run is in words");
            let value = source.get(at..at + size as usize).map_or(0, to_word);
            let old = update.run(&word, bits, value)?;
            if let Some(result) = &mut result {
                from_word(old, &mut result[at..at + size as usize]);
            }
        }
        Ok(())
    }

    /// The word of the element of `size` bytes at `offset`, if it is updated in its word.
    #[inline(always)]
    fn word(&self, offset: u64, size: u64) -> Option<(WordRef<'_, A>, Bits)> {
        match self.place {
            Place::Segment(start) => {
                let (at, byte) = word_at(start, offset);
                self.in_word(size, byte).then(|| (WordRef::Network(self.ra, at), Bits::of(size, byte)))
            }
            Place::Leased(lease) => {
                let leased = words_of(lease)?;
                let byte = offset.checked_sub(leased.head)?;
                let word = leased.words.get((byte / WORD) as usize).filter(|_| self.in_word(size, byte))?;
                Some((WordRef::Processor(word), Bits::of(size, byte)))
            }
            Place::TwoSided(..) => None,
        }
    }

    /// Returns whether elements from `offset` on are updated in their words, where there are words.
    fn has_words(&self, offset: u64, size: u64) -> bool {
        match self.place {
            Place::Leased(lease) => {
                words_of(lease).is_some_and(|leased| self.in_word(size, offset.wrapping_sub(leased.head)))
            }
            Place::Segment(_) | Place::TwoSided(..) => false,
        }
    }

    /// The words of `len` bytes from `offset` on, and at which byte of the first word they start; if the processor reaches
    /// them. The elements there are updated in their words.
    #[inline(always)]
    fn direct(&self, offset: u64, len: u64) -> Option<(&[AtomicU64], u64)> {
        match self.place {
            Place::Segment(start) => {
                let (first, byte) = word_at(start, offset);
                let words = self.ra.shared_words(first, (byte % WORD + len).div_ceil(WORD))?;
                Some((words, byte % WORD))
            }
            Place::Leased(lease) => {
                let leased = words_of(lease)?;
                let byte = offset.checked_sub(leased.head)?;
                let words = leased.words.get((byte / WORD) as usize..(byte + len).div_ceil(WORD) as usize)?;
                Some((words, byte % WORD))
            }
            Place::TwoSided(..) => None,
        }
    }

    /// Stores `desired` at `offset` if the element there is `expected`; returns what it was before. All three are words
    /// that stand for elements. The kind is one that compare-and-swap takes.
    pub(crate) fn compare_and_swap(&self, offset: u64, kind: Kind, expected: u64, desired: u64) -> Result<u64> {
        if let Place::TwoSided(requests, rank) = self.place {
            return requests.compare_and_swap(rank, offset, kind, expected, desired);
        }
        if let Some((word, bits)) = self.word(offset, kind.size()) {
            return self.by_atomics(|| swap_in_word(&word, bits, expected, desired));
        }
        let ra = self.ra;
        self.locked(|| {
            let mut bytes = [0; WORD as usize];
            let element = &mut bytes[..kind.size() as usize];
            self.place.read(ra, offset, element)?;
            let old = to_word(element);
            if old == expected {
                from_word(desired, element);
                self.place.write(ra, offset, element)?;
                self.flush()?;
            }
            Ok(old)
        })
    }

    /// Reads, combines and writes; no other rank updates these elements meanwhile.
    #[inline(never)]
    fn plain(&self, offset: u64, kind: Kind, op: Op, source: &[u8], result: Option<&mut [u8]>) -> Result<()> {
        // Of words, so that the elements in it are aligned.
        if len_of(source, &result) <= SMALL_CHUNK {
            let mut chunk = [0_u64; SMALL_CHUNK / 8];
            return self.plain_in(bytemuck::cast_slice_mut(&mut chunk), offset, kind, op, source, result);
        }
        let mut chunk = [0_u64; CHUNK / 8];
        self.plain_in(bytemuck::cast_slice_mut(&mut chunk), offset, kind, op, source, result)
    }

    /// Reads, combines and writes, as many bytes at a time as `chunk` has.
    fn plain_in(
        &self,
        chunk: &mut [u8],
        offset: u64,
        kind: Kind,
        op: Op,
        source: &[u8],
        mut result: Option<&mut [u8]>,
    ) -> Result<()> {
        let ra = self.ra;
        let len = len_of(source, &result);
        for start in (0..len).step_by(chunk.len()) {
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
        }
        self.flush()
    }

    /// Completes what was written, at the rank that has the memory, which need not be the target.
    #[inline(always)]
    fn flush(&self) -> Result<()> {
        let owner = if let Place::Segment(at) = self.place { at.rank } else { self.rank };
        Ok(self.ra.flush(owner)?)
    }

    /// Runs `body` while this rank holds the target's lock of accumulates.
    #[inline(never)]
    fn locked<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        self.holding(body)
    }

    #[inline(always)]
    fn holding<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        let ra = self.ra;
        let mut lock = Mcs::bind(ra, self.path.place(self.rank), ())?;
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

    /// Bytes of small numbers.
    fn bytes(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|i| ((i * i + 7 * seed) % 5) as u8).collect()
    }

    /// Every operation on every kind, by every path, with source and result at any address, combines as the kind does.
    #[test]
    fn data_need_not_be_aligned() {
        World::threads(1)
            .run(|ra| {
                let lock = ra.heap().alloc(AccumulatePath::BYTES, 64).unwrap();
                let memory = ra.heap().alloc(BYTES as u64, 64).unwrap();
                let start = ra.rank().at(memory);
                let bias = Bias::new(Limits { run: 2, debt: 4, rent: 2 });
                let all = Kind::ALL.into_iter().flat_map(|kind| Op::ALL.map(|op| (kind, op)));
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
                                let place = Place::Segment(start);
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
