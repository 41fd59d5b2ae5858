//! Communication with one target inside an epoch.

mod untyped;

use std::marker::PhantomData;

use bytemuck::Pod;
use rmalab_atomics::bulk::{Owned, Piece};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::registered::Run;
use rmalab_atomics::words::{LocalWord, LocalWords};
use rmalab_atomics::{Address, Rank, RemoteAtomics, WORD};
use rmalab_locks::Exclusion;

use crate::accumulate::Updates;
use crate::bias::AccumulatePath;
use crate::element::Kind as ElementKind;
use crate::layout::PairRuns;
use crate::place::{ByRequest, Part, Place};
use crate::raw::core::{Memory, WindowCore};
use crate::trace::recorder::Kind;
use crate::{
    AccumulateOrdering, AccumulateStrategy, Call, Element, Error, Items, Op, Request, Result, Swappable, WindowDisp,
};

/// An epoch by locks: its targets take part in nothing. A target is used during `'e`, while the epoch is open.
#[derive(Clone, Copy, Debug)]
pub struct Passive<'e>(PhantomData<&'e ()>);

/// An epoch by fences, or by start and complete: its targets synchronize, too.
#[derive(Clone, Copy, Debug)]
pub struct Active;

/// The kind of epoch whose targets have the forms of operations with requests: [`Passive`].
#[diagnostic::on_unimplemented(
    message = "operations with requests belong to epochs by locks",
    label = "not in an epoch of this kind",
    note = "open one with `lock` or `lock_all`; in fence and start epochs use the form without a request"
)]
pub trait WithRequests {}

impl WithRequests for Passive<'_> {}

/// One target in an epoch: communication is its methods.
///
/// From [`Lock`](crate::Lock), which is one, or from the `at` of the other epochs. Displacements are in the units of the
/// target's part of the window, in bytes on a dynamic window, whose displacements are addresses.
///
/// `put` returns when its source may be used again, `get` when its bytes are there, an accumulate when it is done: no
/// buffer is in use when a call has returned. What is *complete at the target* is told by flush and by the end of the
/// epoch. For operations that overlap each other there are [`batch`](crate::LockAll::batch) and the forms with requests.
///
/// # Errors
///
/// [`Error::OutOfWindow`] (on a dynamic window [`Error::NotAttached`]) for memory that the target's part of the window
/// does not have, and then nothing was done; and those of the network, as a peer that has failed.
#[derive(Debug)]
pub struct Target<'e, A: RemoteAtomics + ?Sized, P = Passive<'e>> {
    pub(crate) ra: &'e A,
    pub(crate) core: &'e WindowCore<'e, A>,
    /// Here as well as in the core, which changes behind shared references: so it need not be loaded anew after each atomic.
    pub(crate) ways: AccumulatePath<'e>,
    /// The words of its part, if operations on them may be the processor's.
    pub(crate) words: LocalWords<'e>,
    pub(crate) rank: Rank,
    pub(crate) part: Part<'e>,
    pub(crate) bytes: u64,
    pub(crate) unit: u32,
    /// Whether this rank holds the target exclusively.
    pub(crate) alone: bool,
    pub(crate) epoch: PhantomData<P>,
}

impl<'e, A: RemoteAtomics + ?Sized, P> Target<'e, A, P> {
    /// The target's number in the window's team; `None` for the null target.
    pub fn rank(&self) -> Option<Rank> {
        (!matches!(self.part, Part::Null)).then_some(self.rank)
    }

    /// Bytes of the target's part of the window; 0 for a dynamic window, as MPI has it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of a unit of displacement.
    pub fn disp_unit(&self) -> u32 {
        self.unit
    }

    /// Calls `then` with the place of `len` bytes at `disp`.
    #[inline(always)]
    pub(crate) fn reach<R: Default>(
        &self,
        call: Call,
        disp: WindowDisp,
        len: u64,
        then: impl FnOnce(Place<'_>, u64) -> Result<R>,
    ) -> Result<R> {
        self.reach_span(call, disp, (0, len), len, then)
    }

    /// Calls `then` with the place of `len` bytes that start `first` bytes after `disp`, `data` bytes of which are used.
    #[inline(always)]
    fn reach_span<R: Default>(
        &self,
        call: Call,
        disp: WindowDisp,
        (first, len): (i64, u64),
        data: u64,
        then: impl FnOnce(Place<'_>, u64) -> Result<R>,
    ) -> Result<R> {
        let started = if let Part::Recorded { .. } = self.part { self.core.start_record() } else { None };
        let done = self.reach_part(self.part(), call, disp, (first, len), then)?;
        if started.is_some() {
            let kind = match call {
                Call::Put => Kind::Put,
                Call::Get => Kind::Get,
                _ => Kind::Update,
            };
            self.core.record(started, kind, self.rank, data);
        }
        Ok(done)
    }

    /// The part, whether it is recorded or not.
    #[inline(always)]
    fn part(&self) -> Part<'e> {
        match self.part {
            Part::Recorded { active } => self.core.unrecorded(self.rank, active),
            part => part,
        }
    }

    #[inline(always)]
    fn reach_part<R: Default>(
        &self,
        part: Part<'e>,
        call: Call,
        disp: WindowDisp,
        (first, len): (i64, u64),
        then: impl FnOnce(Place<'_>, u64) -> Result<R>,
    ) -> Result<R> {
        match part {
            Part::Fixed(place) => {
                let offset = disp.0.checked_mul(i64::from(self.unit)).and_then(|disp| disp.checked_add(first));
                match offset.and_then(|offset| u64::try_from(offset).ok()) {
                    // Of two comparisons neither can overflow.
                    Some(offset) if len <= self.bytes && offset <= self.bytes - len => then(place, offset),
                    _ if len == 0 => Ok(R::default()),
                    _ => Err(self.outside(call, disp, len)),
                }
            }
            Part::Null | Part::Recorded { .. } => Ok(R::default()),
            Part::Dynamic(_) if len == 0 => Ok(R::default()),
            Part::Dynamic(requests) => {
                let disp = WindowDisp(disp.0.wrapping_add(first));
                self.core.dynamic(call)?.with_region(self.core.ra, call, self.rank, disp, len, |place, offset| {
                    match requests {
                        None => then(place, offset),
                        // The target looks the address up again.
                        Some(requests) => then(Place::TwoSided(requests, self.rank), disp.0 as u64),
                    }
                })
            }
        }
    }

    /// Where `len` bytes at `disp` are, if they are in a segment and within the window: what most operations meet.
    #[inline(always)]
    fn in_segment(&self, disp: WindowDisp, len: u64) -> Option<Address> {
        if let Part::Fixed(Place::Segment(start)) = self.part
            && let Some(offset) = disp.0.checked_mul(i64::from(self.unit))
            // A negative one is larger than any window.
            && len <= self.bytes
            && offset as u64 <= self.bytes - len
        {
            return Some(start.rank.at(start.disp.plus(offset as u64)).unwatched());
        }
        None
    }

    /// The word at `disp`, if operations on it may be the processor's.
    #[inline(always)]
    fn word(&self, disp: WindowDisp) -> Option<LocalWord<'e>> {
        let offset = disp.0.checked_mul(i64::from(self.unit))? as u64;
        if offset.is_multiple_of(WORD) { self.words.in_memory(offset / WORD) } else { None }
    }

    /// As [`word`](Self::word), also where an engine stands in for the processor.
    #[inline(always)]
    fn any_word(&self, disp: WindowDisp) -> Option<LocalWord<'e>> {
        let offset = disp.0.checked_mul(i64::from(self.unit))? as u64;
        if offset.is_multiple_of(WORD) { self.words.get(offset / WORD) } else { None }
    }

    /// As [`word`](Self::word), where an engine stands in for the processor.
    #[cold]
    #[inline(never)]
    fn word_by_engine(&self, disp: WindowDisp) -> Option<LocalWord<'e>> {
        let offset = disp.0.checked_mul(i64::from(self.unit))? as u64;
        if offset.is_multiple_of(WORD) { self.words.by_engine(offset / WORD) } else { None }
    }

    /// As [`in_segment`](Self::in_segment), for a word that network atomics may be used on.
    #[inline(always)]
    fn word_in_segment(&self, disp: WindowDisp) -> Option<Address> {
        self.in_segment(disp, WORD).filter(|at| at.disp.0.is_multiple_of(WORD))
    }

    #[cold]
    fn outside(&self, call: Call, disp: WindowDisp, len: u64) -> Error {
        Error::OutOfWindow { call, target: self.rank, disp, unit: self.unit, len, bytes: self.bytes }
    }

    /// Writes `source` at `disp` (`MPI_Put`).
    ///
    /// # Errors
    ///
    /// As of all operations, see [`Target`].
    #[inline(always)]
    pub fn put<T: Pod>(&self, disp: WindowDisp, source: &[T]) -> Result<()> {
        let source: &[u8] = bytemuck::cast_slice(source);
        if let Ok(value) = <[u8; WORD as usize]>::try_from(source)
            && let Some(word) = self.word(disp)
        {
            if let Err(error) = word.store(u64::from_ne_bytes(value)) {
                return Err(self.core.hear(error));
            }
            self.ra.stored();
            return Ok(());
        }
        self.put_bytes(disp, source)
    }

    // Out of line: results that come of several branches are kept in memory, which the fast path above would wait for.
    #[inline(never)]
    fn put_bytes(&self, disp: WindowDisp, source: &[u8]) -> Result<()> {
        if let Ok(value) = <[u8; WORD as usize]>::try_from(source)
            && let Some(word) = self.word_by_engine(disp)
        {
            word.store(u64::from_ne_bytes(value)).map_err(|error| self.core.hear(error))?;
            self.ra.stored();
            return Ok(());
        }
        if let Some(at) = self.in_segment(disp, source.len() as u64) {
            return match self.ra.post_bytes(at, source) {
                Ok(()) => Ok(()),
                Err(error) => Err(self.core.hear(error)),
            };
        }
        let done =
            self.reach(Call::Put, disp, source.len() as u64, |place, offset| place.write(self.ra, offset, source));
        done.map_err(|error| self.core.hear(error))
    }

    /// Reads `dest` from `disp` (`MPI_Get`).
    ///
    /// # Errors
    ///
    /// As of all operations, see [`Target`].
    #[inline(always)]
    pub fn get<T: Pod>(&self, disp: WindowDisp, dest: &mut [T]) -> Result<()> {
        let dest: &mut [u8] = bytemuck::cast_slice_mut(dest);
        if dest.len() as u64 == WORD
            && let Some(word) = self.word(disp)
        {
            return match word.load() {
                Ok(value) => {
                    dest.copy_from_slice(&value.to_ne_bytes());
                    Ok(())
                }
                Err(error) => Err(self.core.hear(error)),
            };
        }
        self.get_bytes(disp, dest)
    }

    // Out of line, as `put_bytes`.
    #[inline(never)]
    fn get_bytes(&self, disp: WindowDisp, dest: &mut [u8]) -> Result<()> {
        if dest.len() as u64 == WORD
            && let Some(word) = self.word_by_engine(disp)
        {
            dest.copy_from_slice(&word.load().map_err(|error| self.core.hear(error))?.to_ne_bytes());
            return Ok(());
        }
        if let Some(at) = self.in_segment(disp, dest.len() as u64) {
            return match self.ra.get_bytes(at, dest) {
                Ok(()) => Ok(()),
                Err(error) => Err(self.core.hear(error)),
            };
        }
        let done = self.reach(Call::Get, disp, dest.len() as u64, |place, offset| place.read(self.ra, offset, dest));
        done.map_err(|error| self.core.hear(error))
    }

    /// Writes one value at `disp` (`MPI_Put` with a count of 1).
    ///
    /// # Errors
    ///
    /// As of all operations, see [`Target`].
    #[inline]
    pub fn put_value<T: Pod>(&self, disp: WindowDisp, value: T) -> Result<()> {
        self.put(disp, &[value])
    }

    /// Reads one value at `disp` (`MPI_Get` with a count of 1); all zeros from the null target.
    ///
    /// # Errors
    ///
    /// As of all operations, see [`Target`].
    #[inline]
    pub fn get_value<T: Pod>(&self, disp: WindowDisp) -> Result<T> {
        let mut value = [T::zeroed()];
        self.get(disp, &mut value)?;
        Ok(value[0])
    }

    /// Writes the items `origin` of `source` to the items `target` at `disp` (`MPI_Put` with derived datatypes).
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] when the two do not hold equally many bytes, [`Error::Layout`] when `origin` reaches outside
    /// of `source`, and as of all operations.
    pub fn put_layout<T: Pod>(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        source: &[T],
        origin: Items<'_>,
    ) -> Result<()> {
        let source: &[u8] = bytemuck::cast_slice(source);
        self.pieces(Call::Put, disp, target, source.len(), origin, |place, pieces| match place {
            Place::Segment(_) => pieces.into_iter().try_for_each(|run| {
                let piece = &source[run.at..run.at + run.len];
                place.write(self.ra, run.offset, piece)
            }),
            Place::Leased(lease) => in_batches(pieces, |runs| lease.put_runs(source, runs)),
            Place::TwoSided(requests, rank) => {
                // One request, whatever the layouts.
                let (mut runs, mut data) = (Vec::new(), Vec::new());
                for run in pieces {
                    runs.push((run.offset, run.len as u64));
                    data.extend_from_slice(&source[run.at..run.at + run.len]);
                }
                requests.put(rank, runs, data);
                Ok(())
            }
        })
    }

    /// Reads the items `origin` of `dest` from the items `target` at `disp` (`MPI_Get` with derived datatypes).
    ///
    /// # Errors
    ///
    /// As [`put_layout`](Self::put_layout).
    pub fn get_layout<T: Pod>(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        dest: &mut [T],
        origin: Items<'_>,
    ) -> Result<()> {
        let dest: &mut [u8] = bytemuck::cast_slice_mut(dest);
        self.pieces(Call::Get, disp, target, dest.len(), origin, |place, pieces| match place {
            Place::Segment(_) => pieces.into_iter().try_for_each(|run| {
                let piece = &mut dest[run.at..run.at + run.len];
                place.read(self.ra, run.offset, piece)
            }),
            Place::Leased(lease) => in_batches(pieces, |runs| lease.get_runs(dest, runs)),
            Place::TwoSided(requests, rank) => {
                let pieces: Vec<Run> = pieces.collect();
                let mut answer =
                    &requests.get(rank, pieces.iter().map(|run| (run.offset, run.len as u64)).collect())?[..];
                for run in pieces {
                    let (data, rest) = answer.split_at(run.len);
                    dest[run.at..run.at + run.len].copy_from_slice(data);
                    answer = rest;
                }
                Ok(())
            }
        })
    }

    /// What operations on this target become, if they are not done from here.
    #[inline]
    fn requests(&self) -> Option<&'e dyn ByRequest> {
        match self.part() {
            Part::Fixed(Place::TwoSided(requests, _)) | Part::Dynamic(Some(requests)) => Some(requests),
            _ => None,
        }
    }

    /// Calls `transfer` with the place and the pieces of an operation.
    fn pieces(
        &self,
        call: Call,
        disp: WindowDisp,
        target: Items<'_>,
        buffer: usize,
        origin: Items<'_>,
        transfer: impl FnOnce(Place<'_>, Pieces<'_>) -> Result<()>,
    ) -> Result<()> {
        let walk = || {
            let (first, len) = self.span(call, target, origin)?;
            origin.check(buffer)?;
            let pairs = origin.pair(target)?;
            self.reach_span(call, disp, (first, len), origin.bytes()?, |place, offset| {
                transfer(place, Pieces { pairs, offset, first })
            })
        };
        walk().map_err(|error| self.core.hear(error))
    }

    /// The first byte and the number of bytes from there to the last one that `target` touches, of as many as `origin`.
    fn span(&self, call: Call, target: Items<'_>, origin: Items<'_>) -> Result<(i64, u64)> {
        let (here, there) = (origin.bytes()?, target.bytes()?);
        if here != there {
            return Err(Error::Mismatch { call, here, there });
        }
        Ok(target.reach()?)
    }

    /// Combines `source` into the elements at `disp` (`MPI_Accumulate`), each of them atomically.
    ///
    /// Atomic against the other accumulates, fetches and swaps of the same element type on this window, by whichever
    /// rank. Those of one rank on one element take effect in the order of its calls.
    ///
    /// # Errors
    ///
    /// [`Error::Op`] when elements of this type do not have the operation, and as of all operations.
    #[inline]
    pub fn accumulate<T: Element>(&self, disp: WindowDisp, op: Op, source: &[T]) -> Result<()> {
        if let &[value] = source
            && self.by_one_atomic(disp, op, value)?.is_some()
        {
            return Ok(());
        }
        self.accumulate_elsewise(disp, T::KIND, op, bytemuck::cast_slice(source))
    }

    #[inline(never)]
    fn accumulate_elsewise(&self, disp: WindowDisp, kind: ElementKind, op: Op, source: &[u8]) -> Result<()> {
        self.defined(Call::Accumulate, kind, op)?;
        let len = source.len() as u64;
        let done = match self.in_segment(disp, len) {
            Some(at) => self.updates(Place::Segment(at)).run(0, kind, op, source, None),
            None => self.reach(Call::Accumulate, disp, len, |place, offset| {
                self.updates(place).run(offset, kind, op, source, None)
            }),
        };
        done.map_err(|error| self.core.hear(error))
    }

    /// As [`accumulate`](Self::accumulate), with layouts at both ends.
    ///
    /// # Errors
    ///
    /// As there and as [`put_layout`](Self::put_layout), and [`Error::Type`] for a layout of other elements than `T`.
    pub fn accumulate_layout<T: Element>(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        op: Op,
        source: &[T],
        origin: Items<'_>,
    ) -> Result<()> {
        self.accumulate_layout_untyped(disp, target, T::KIND, op, bytemuck::cast_slice(source), origin)
    }

    /// Combines `source` into the elements at `disp` and reads what they were before (`MPI_Get_accumulate`).
    ///
    /// Atomic as [`accumulate`](Self::accumulate). With [`Op::NoOp`] the elements are read atomically, and `source` is
    /// ignored: it may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] when `source` and `result` differ in length, and as [`accumulate`](Self::accumulate).
    #[inline]
    pub fn get_accumulate<T: Element>(&self, disp: WindowDisp, op: Op, source: &[T], result: &mut [T]) -> Result<()> {
        let (source, result) = (bytemuck::cast_slice(source), bytemuck::cast_slice_mut(result));
        self.get_accumulate_elsewise(disp, T::KIND, op, source, result)
    }

    #[inline(never)]
    fn get_accumulate_elsewise(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        self.defined(Call::GetAccumulate, kind, op)?;
        let (here, there) = (source.len() as u64, result.len() as u64);
        if op != Op::NoOp && here != there {
            return Err(self.core.hear(Error::Mismatch { call: Call::GetAccumulate, here, there }));
        }
        let done = match self.in_segment(disp, there) {
            Some(at) => self.updates(Place::Segment(at)).run(0, kind, op, source, Some(result)),
            None => self.reach(Call::GetAccumulate, disp, there, |place, offset| {
                self.updates(place).run(offset, kind, op, source, Some(result))
            }),
        };
        done.map_err(|error| self.core.hear(error))
    }

    /// As [`get_accumulate`](Self::get_accumulate), with layouts at all three ends.
    ///
    /// # Errors
    ///
    /// As there and as [`accumulate_layout`](Self::accumulate_layout).
    #[expect(clippy::too_many_arguments, reason = "three ends with a layout each")]
    pub fn get_accumulate_layout<T: Element>(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        op: Op,
        source: &[T],
        origin: Items<'_>,
        result: &mut [T],
        results: Items<'_>,
    ) -> Result<()> {
        let (source, result) = (bytemuck::cast_slice(source), bytemuck::cast_slice_mut(result));
        self.get_accumulate_layout_untyped(disp, target, T::KIND, op, source, origin, result, results)
    }

    #[expect(clippy::too_many_arguments, reason = "three ends with a layout each")]
    fn update_layout(
        &self,
        call: Call,
        disp: WindowDisp,
        target: Items<'_>,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        origin: Items<'_>,
        result: Option<(&mut [u8], Items<'_>)>,
    ) -> Result<()> {
        let (first, len) = self.span(call, target, origin)?;
        for items in [Some(target), Some(origin), result.as_ref().map(|&(_, items)| items)].into_iter().flatten() {
            if let Some(layout) = items.other_than(kind) {
                return Err(Error::Type { call, layout, buffer: kind });
            }
        }
        let bytes = target.bytes()?;
        let packed = if op == Op::NoOp { Vec::new() } else { origin.pack(source)? };
        let mut results = Vec::new();
        if let Some((buffer, items)) = &result {
            let here = items.bytes()?;
            if here != bytes {
                return Err(Error::Mismatch { call, here, there: bytes });
            }
            items.check(buffer.len())?;
            results.resize(bytes as usize, 0);
        }
        let fetches = result.is_some();
        // In whole elements, also where the target's runs touch at odd places.
        let pieces = target.pair_elements(target, kind)?;
        self.reach_span(call, disp, (first, len), bytes, |place, offset| {
            if let Place::TwoSided(requests, rank) = place {
                let start = |at: i64| offset.wrapping_add_signed(at.wrapping_sub(first));
                let runs = pieces.map(|piece| (start(piece.left), piece.bytes)).collect();
                return requests.update(rank, runs, kind, op, &packed, fetches.then_some(&mut results[..]));
            }
            let updates = self.updates(place);
            let mut done = 0;
            for piece in pieces {
                let start = offset.wrapping_add_signed(piece.left.wrapping_sub(first));
                let end = done + piece.bytes as usize;
                let source = if packed.is_empty() { &[] } else { &packed[done..end] };
                updates.run(start, kind, op, source, fetches.then(|| &mut results[done..end]))?;
                done = end;
            }
            Ok(())
        })?;
        match result {
            Some((buffer, items)) if !matches!(self.part, Part::Null) => Ok(items.unpack(&results, buffer)?),
            _ => Ok(()),
        }
    }

    /// Combines `value` into the element at `disp`, and returns what it was before (`MPI_Fetch_and_op`).
    ///
    /// Atomic as [`accumulate`](Self::accumulate); one network atomic where the type and the operation have one. All
    /// zeros from the null target.
    ///
    /// # Errors
    ///
    /// As [`accumulate`](Self::accumulate).
    #[inline(always)]
    pub fn fetch_and_op<T: Element>(&self, disp: WindowDisp, op: Op, value: T) -> Result<T> {
        match self.by_one_atomic(disp, op, value)? {
            Some(old) => Ok(old),
            None if T::FITS_WORD => Ok(T::from_word(self.fetch_and_op_word(disp, T::KIND, op, value.to_word())?)),
            None => {
                let mut old = T::zeroed();
                let (value, result) = (bytemuck::bytes_of(&value), bytemuck::bytes_of_mut(&mut old));
                self.fetch_and_op_elsewise(disp, T::KIND, op, value, result)?;
                Ok(old)
            }
        }
    }

    /// Updates an element by one network atomic, if it has one and may use it.
    #[inline(always)]
    fn by_one_atomic<T: Element>(&self, disp: WindowDisp, op: Op, value: T) -> Result<Option<T>> {
        let atomic = matches!(op, Op::Replace) || matches!(op, Op::Sum) && T::KIND.is_integer();
        if T::SIZE == WORD && atomic && self.ways.strategy == AccumulateStrategy::Native {
            let old = match op {
                Op::Sum => self.by_atomic(disp, WordOp::FetchAdd(value.to_word())),
                _ => self.by_atomic(disp, WordOp::FetchStore(value.to_word())),
            };
            return Ok(old?.map(T::from_word));
        }
        Ok(None)
    }

    /// Updates the word at `disp`, if network atomics may be used there: the processor's, or those of the network.
    #[inline(always)]
    fn by_atomic(&self, disp: WindowDisp, op: WordOp) -> Result<Option<u64>> {
        // In each branch by itself: what is one enum first is kept in memory, which the next atomic waits for.
        if let Some(word) = self.any_word(disp) {
            if self.ways.enter(self.ra, self.rank).map_err(|error| self.core.hear(error))? {
                let old = word.atomic(op).map_err(|error| self.core.hear(error))?;
                self.ways.rest(self.ra).map_err(|error| self.core.hear(error))?;
                return Ok(Some(old));
            }
        } else if let Some(at) = self.word_in_segment(disp)
            && self.ways.enter(self.ra, self.rank).map_err(|error| self.core.hear(error))?
        {
            let old = match op {
                WordOp::FetchAdd(value) => self.ra.fetch_add(at, value),
                WordOp::CompareAndSwap { expected, desired } => self.ra.compare_and_swap(at, expected, desired),
                WordOp::FetchStore(value) => self.ra.fetch_store(at, value),
                WordOp::Get | WordOp::Put(_) => self.ra.get(at),
            };
            return Ok(Some(self.ways.leave(self.ra, old).map_err(|error| self.core.hear(error))?));
        }
        Ok(None)
    }

    #[inline(never)]
    fn fetch_and_op_word(&self, disp: WindowDisp, kind: ElementKind, op: Op, value: u64) -> Result<u64> {
        self.defined(Call::FetchAndOp, kind, op)?;
        let old = self.reach(Call::FetchAndOp, disp, kind.size(), |place, offset| {
            self.updates(place).one(offset, kind, op, value)
        });
        old.map_err(|error| self.core.hear(error))
    }

    #[inline(never)]
    fn fetch_and_op_elsewise(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        op: Op,
        value: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        self.defined(Call::FetchAndOp, kind, op)?;
        let done = self.reach(Call::FetchAndOp, disp, kind.size(), |place, offset| {
            self.updates(place).run(offset, kind, op, value, Some(result))
        });
        done.map_err(|error| self.core.hear(error))
    }

    /// Stores `desired` in the element at `disp` if it is `expected`; returns what it was before
    /// (`MPI_Compare_and_swap`).
    ///
    /// Atomic as [`accumulate`](Self::accumulate). All zeros from the null target.
    ///
    /// # Errors
    ///
    /// As of all operations, see [`Target`].
    #[inline(always)]
    pub fn compare_and_swap<T: Swappable>(&self, disp: WindowDisp, expected: T, desired: T) -> Result<T> {
        if T::SIZE == WORD && self.ways.strategy != AccumulateStrategy::Locked {
            let op = WordOp::CompareAndSwap { expected: expected.to_word(), desired: desired.to_word() };
            let old = self.by_atomic(disp, op);
            if let Some(old) = old? {
                return Ok(T::from_word(old));
            }
        }
        let old = self.compare_and_swap_elsewise(disp, T::KIND, expected.to_word(), desired.to_word())?;
        Ok(T::from_word(old))
    }

    #[inline(never)]
    fn compare_and_swap_elsewise(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        expected: u64,
        desired: u64,
    ) -> Result<u64> {
        let old = self.reach(Call::CompareAndSwap, disp, kind.size(), |place, offset| {
            self.updates(place).compare_and_swap(offset, kind, expected, desired)
        });
        old.map_err(|error| self.core.hear(error))
    }

    #[inline(always)]
    fn defined(&self, call: Call, kind: ElementKind, op: Op) -> Result<()> {
        if op.is_defined_for(kind) { Ok(()) } else { Err(self.core.hear(Error::Op { call, op, kind })) }
    }

    #[inline(always)]
    fn updates<'p>(&'p self, place: Place<'p>) -> Updates<'p, A>
    where
        'e: 'p,
    {
        let Target { ra, core, ways: ref path, rank, alone, .. } = *self;
        // The policy that locks nothing keeps nobody out.
        let alone = alone && core.exclusion != Exclusion::Nothing;
        Updates { ra, path, bias: path.biased.then_some(&core.bias), rank, place, alone }
    }
}

impl<A: RemoteAtomics + ?Sized> WindowCore<'_, A> {
    /// The target `rank`, or the null target.
    #[inline(always)]
    pub(crate) fn target<P>(&self, call: Call, rank: Option<Rank>, alone: bool) -> Result<Target<'_, A, P>> {
        match rank {
            Some(rank) if rank.0 >= self.ra.size() => {
                // Here and not in the callers: a target that passes through their `map_err` is copied through memory.
                Err(self.hear(Error::NoSuchTarget { call, target: rank, size: self.ra.size() }))
            }
            Some(rank) => Ok(self.member(call, rank, alone)),
            None => Ok(Target {
                ra: self.ra,
                core: self,
                ways: self.ways,
                words: LocalWords::default(),
                rank: Rank(0),
                part: Part::Null,
                bytes: 0,
                unit: 1,
                alone,
                epoch: PhantomData,
            }),
        }
    }

    /// The target `rank`, which is one of the team.
    #[inline(always)]
    pub(crate) fn member<P>(&self, call: Call, rank: Rank, alone: bool) -> Target<'_, A, P> {
        // What most windows are is inlined, in parts and not as a whole, which would be copied.
        let mut words = LocalWords::default();
        let (part, bytes, unit) = match self.memory {
            Memory::Symmetric { base, bytes, unit } if self.plain => {
                words = self.ra.local_words(rank.at(base), bytes / WORD).unwrap_or_default();
                (Part::Fixed(Place::Segment(rank.at(base))), bytes, unit)
            }
            _ => {
                let (part, bytes, unit) = self.reached(call, rank);
                (part, bytes, unit)
            }
        };
        let alone = alone && self.two_sided.is_none();
        // Nobody else updates meanwhile what is held exclusively, in whichever mode.
        let ways = if alone { self.ways.unbiased() } else { self.ways.to(self.ra, rank) };
        Target { ra: self.ra, core: self, ways, words, rank, part, bytes, unit, alone, epoch: PhantomData }
    }

    /// The part of a rank of the team, its bytes and its displacement unit, wherever it is and however it is reached.
    #[inline(never)]
    fn reached(&self, call: Call, rank: Rank) -> (Part<'_>, u64, u32) {
        let active = matches!(call, Call::Fence | Call::Start);
        let (_, bytes, unit) = self.part(rank);
        let part = if self.recorder.is_some() { Part::Recorded { active } } else { self.unrecorded(rank, active) };
        (part, bytes, unit)
    }
}

/// The forms with requests, which MPI has in passive epochs only.
///
/// They own their buffers, and give them back when they are waited for.
impl<'e, A: RemoteAtomics + ?Sized, P> Target<'e, A, P> {
    /// Starts to write `source` at `disp` (`MPI_Rput`).
    ///
    /// # Errors
    ///
    /// As of all operations, see [`Target`]; the buffer is dropped then.
    pub fn rput<T: Pod>(&self, disp: WindowDisp, source: Vec<T>) -> Result<Request<'e, A, T>>
    where
        P: WithRequests,
    {
        let len = size_of_val(source.as_slice());
        self.start(Call::Put, disp, 0, len as u64, source, &[(0, 0, len)], true)
    }

    /// Starts to read into `dest` from `disp` (`MPI_Rget`).
    ///
    /// # Errors
    ///
    /// As [`rput`](Self::rput).
    pub fn rget<T: Pod>(&self, disp: WindowDisp, dest: Vec<T>) -> Result<Request<'e, A, T>>
    where
        P: WithRequests,
    {
        let len = size_of_val(dest.as_slice());
        self.start(Call::Get, disp, 0, len as u64, dest, &[(0, 0, len)], false)
    }

    /// As [`rput`](Self::rput), with layouts at both ends.
    ///
    /// # Errors
    ///
    /// As [`put_layout`](Self::put_layout); the buffer is dropped then.
    pub fn rput_layout<T: Pod>(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        source: Vec<T>,
        origin: Items<'_>,
    ) -> Result<Request<'e, A, T>>
    where
        P: WithRequests,
    {
        if self.requests().is_some() {
            self.put_layout(disp, target, &source, origin)?;
            return Ok(Request::done(source));
        }
        let (first, len, pieces) = self.described(Call::Put, target, size_of_val(source.as_slice()), origin)?;
        self.start(Call::Put, disp, first, len, source, &pieces, true)
    }

    /// As [`rget`](Self::rget), with layouts at both ends.
    ///
    /// # Errors
    ///
    /// As [`get_layout`](Self::get_layout); the buffer is dropped then.
    pub fn rget_layout<T: Pod>(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        mut dest: Vec<T>,
        origin: Items<'_>,
    ) -> Result<Request<'e, A, T>>
    where
        P: WithRequests,
    {
        let (first, len, pieces) = self.described(Call::Get, target, size_of_val(dest.as_slice()), origin)?;
        let mut behind = 0;
        let in_order = pieces.iter().all(|&(here, _, n)| here >= std::mem::replace(&mut behind, here + n));
        if !in_order || self.requests().is_some() {
            // Pieces that overlap each other may not be under way together, and a two-sided window asks once for all.
            self.get_layout(disp, target, &mut dest, origin)?;
            return Ok(Request::done(dest));
        }
        self.start(Call::Get, disp, first, len, dest, &pieces, false)
    }

    /// The first byte at the target, the bytes from there to the last one, and the pieces, of items that fit each other
    /// and a buffer of `buffer` bytes.
    fn described(
        &self,
        call: Call,
        target: Items<'_>,
        buffer: usize,
        origin: Items<'_>,
    ) -> Result<(i64, u64, PieceList)> {
        let described = self.span(call, target, origin).and_then(|(first, len)| {
            origin.check(buffer)?;
            Ok((first, len, pieces(first, target, origin)?))
        });
        described.map_err(|error| self.core.hear(error))
    }

    #[expect(clippy::too_many_arguments, reason = "what both directions, with and without layouts, have in common")]
    fn start<T: Pod>(
        &self,
        call: Call,
        disp: WindowDisp,
        first: i64,
        len: u64,
        buffer: Vec<T>,
        pieces: &[(usize, u64, usize)],
        put: bool,
    ) -> Result<Request<'e, A, T>> {
        let ra = self.ra;
        let mut taken = Some(buffer);
        let data = pieces.iter().map(|&(.., len)| len as u64).sum();
        let started = self.reach_span(call, disp, (first, len), data, |place, offset| {
            let mut buffer = taken.take().unwrap_or_default();
            if let Place::Segment(start) = place {
                let pieces = pieces.iter().map(|&(here, there, len)| {
                    let at = start.rank.at(start.disp.plus(offset + there)).unwatched();
                    Piece { offset: here, at, len }
                });
                let owned = if put { Owned::put(ra, buffer, pieces) } else { Owned::get(ra, buffer, pieces) };
                return Ok(Some(Request::under_way(self.core, owned?)));
            }
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut buffer);
            if let Place::Leased(lease) = place {
                let runs = pieces.iter().map(|&(here, there, len)| Run { at: here, offset: offset + there, len });
                in_batches(runs, |runs| if put { lease.put_runs(bytes, runs) } else { lease.get_runs(bytes, runs) })?;
                return Ok(Some(Request::done(buffer)));
            }
            for &(here, there, len) in pieces {
                if put {
                    place.write(ra, offset + there, &bytes[here..here + len])?;
                } else {
                    place.read(ra, offset + there, &mut bytes[here..here + len])?;
                }
            }
            Ok(Some(Request::done(buffer)))
        });
        let started = started.map_err(|error| self.core.hear(error))?;
        // Nothing was started where there is nothing to reach.
        Ok(started.unwrap_or_else(|| Request::done(taken.unwrap_or_default())))
    }

    /// As [`accumulate`](Self::accumulate), with a request (`MPI_Raccumulate`).
    ///
    /// It overlaps others if the window's `accumulate_ordering` is none and the network has the operation: elements of 8
    /// aligned bytes, the strategy native; replace, no_op or a sum of integers. Otherwise it is done when this returns.
    ///
    /// # Errors
    ///
    /// As [`accumulate`](Self::accumulate); the buffer is dropped then.
    pub fn raccumulate<T: Element>(&self, disp: WindowDisp, op: Op, source: Vec<T>) -> Result<Request<'e, A, T>>
    where
        P: WithRequests,
    {
        if let Some(at) = self.overlapping_in_any_order::<T>(disp, op, source.len()) {
            let (results, words) = (vec![0_u64; source.len()], words(at, op, &source, source.len()));
            let results = Owned::update(self.ra, results, words).map_err(|error| self.core.hear(error))?;
            return Ok(Request::updating(self.core, source, results));
        }
        self.accumulate(disp, op, &source)?;
        Ok(Request::done(source))
    }

    /// As [`get_accumulate`](Self::get_accumulate), with a request that gives `result` back (`MPI_Rget_accumulate`). It
    /// overlaps others as [`raccumulate`](Self::raccumulate) does.
    ///
    /// # Errors
    ///
    /// As [`get_accumulate`](Self::get_accumulate); the buffer is dropped then.
    pub fn rget_accumulate<T: Element>(
        &self,
        disp: WindowDisp,
        op: Op,
        source: &[T],
        mut result: Vec<T>,
    ) -> Result<Request<'e, A, T>>
    where
        P: WithRequests,
    {
        let fits = op == Op::NoOp || source.len() == result.len();
        if let Some(at) = self.overlapping_in_any_order::<T>(disp, op, result.len()).filter(|_| fits) {
            let words = words(at, op, source, result.len());
            let results = Owned::update(self.ra, result, words).map_err(|error| self.core.hear(error))?;
            return Ok(Request::under_way(self.core, results));
        }
        self.get_accumulate(disp, op, source, &mut result)?;
        Ok(Request::done(result))
    }

    /// As [`overlapping`](Self::overlapping), if accumulates of one rank on one element may take effect in any order.
    fn overlapping_in_any_order<T: Element>(&self, disp: WindowDisp, op: Op, elements: usize) -> Option<Address> {
        let unordered = self.core.config.borrow().accumulate_ordering == AccumulateOrdering::NONE;
        self.overlapping::<T>(disp, op, elements).filter(|_| unordered)
    }
}

impl<A: RemoteAtomics + ?Sized, P> Target<'_, A, P> {
    /// Where `elements` elements at `disp` are, if the network carries out an operation on each without being waited for.
    pub(crate) fn overlapping<T: Element>(&self, disp: WindowDisp, op: Op, elements: usize) -> Option<Address> {
        let native = match op {
            Op::Replace | Op::NoOp => true,
            Op::Sum => T::KIND.is_integer(),
            _ => false,
        };
        let words = T::SIZE == WORD && align_of::<T>() == WORD as usize;
        // Where targets have modes, an update has to tell that it is over: memory is shared, and nothing is gained.
        if !native || !words || self.ways.biased || self.ways.strategy != AccumulateStrategy::Native {
            return None;
        }
        self.in_segment(disp, WORD * elements as u64).filter(|at| at.disp.0.is_multiple_of(WORD))
    }
}

/// The operations on the words of `n` elements from `at` on.
fn words<T: Element>(at: Address, op: Op, source: &[T], n: usize) -> impl Iterator<Item = (Address, WordOp)> {
    let value = move |i: usize| source.get(i).copied().unwrap_or(T::zeroed());
    (0..n).map(move |i| (at.rank.at(at.disp.word(i as u64)).unwatched(), word_op(op, value(i))))
}

/// The pieces of an operation with layouts: each is one run at both ends. All lie within what was checked, the origin's in
/// the buffer, the target's from `first` on.
struct Pieces<'l> {
    pairs: PairRuns<'l>,
    offset: u64,
    first: i64,
}

impl Iterator for Pieces<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        let piece = self.pairs.next()?;
        let offset = self.offset.wrapping_add_signed(piece.right.wrapping_sub(self.first));
        Some(Run { at: piece.left as usize, offset, len: piece.bytes as usize })
    }
}

/// Runs that are handed over at a time: a call of the kernel takes as many.
const BATCH: usize = 1024;

/// Calls `transfer` with up to [`BATCH`] of `runs` at a time.
fn in_batches(
    runs: impl Iterator<Item = Run>,
    mut transfer: impl FnMut(&[Run]) -> rmalab_atomics::Result<()>,
) -> Result<()> {
    let mut batch = Vec::new();
    for run in runs {
        batch.push(run);
        if batch.len() == BATCH {
            transfer(&batch)?;
            batch.clear();
        }
    }
    Ok(transfer(&batch)?)
}

/// Pieces of an operation: where at the origin, how far behind the first byte at the target, how long.
type PieceList = Vec<(usize, u64, usize)>;

/// The pieces of an operation whose first byte at the target is `first`.
fn pieces(first: i64, target: Items<'_>, origin: Items<'_>) -> Result<PieceList> {
    let pairs = origin.pair(target)?;
    Ok(pairs.map(|piece| (piece.left as usize, piece.right.abs_diff(first), piece.bytes as usize)).collect())
}

/// The word operation of an accumulate that the network has: see [`Target::overlapping`].
pub(crate) fn word_op<T: Element>(op: Op, value: T) -> WordOp {
    match op {
        Op::Sum => WordOp::FetchAdd(value.to_word()),
        Op::Replace => WordOp::FetchStore(value.to_word()),
        _ => WordOp::Get,
    }
}
