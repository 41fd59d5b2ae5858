//! Communication with one target inside an epoch.

pub(crate) mod requests;
mod untyped;
mod updates;

use std::marker::PhantomData;

use bytemuck::Pod;
use rmalab_atomics::registered::Run;
use rmalab_atomics::words::{LocalWord, LocalWords, MemoryWord};
use rmalab_atomics::{Address, Rank, RemoteAtomics, WORD};

use crate::bias::AccumulatePath;
use crate::layout::PairRuns;
use crate::place::{ByRequest, TargetMemory, TargetPart};
use crate::raw::core::{Memory, WindowCore};
use crate::{Call, ElementKind, Error, Items, Op, Result, WindowDisp};

/// An epoch of locks, in which targets make no calls. A target is used during `'e`, while the epoch is open.
#[derive(Clone, Copy, Debug)]
pub struct Passive<'e>(PhantomData<&'e ()>);

/// An epoch of fences, or of start and complete, in which targets also synchronize.
#[derive(Clone, Copy, Debug)]
pub struct Active;

/// The kind of epoch whose targets have operations with requests: [`Passive`].
#[diagnostic::on_unimplemented(
    message = "operations with requests belong to epochs by locks",
    label = "not in an epoch of this kind",
    note = "open one with `lock` or `lock_all`; in fence and start epochs use the form without a request"
)]
pub trait WithRequests {}

impl WithRequests for Passive<'_> {}

/// One target in an epoch. Its methods are the communication calls.
///
/// [`Lock`](crate::Lock) is a target, and the other epochs return one by `at`. Displacements are in the target's displacement units. On a
/// dynamic window they are addresses, in bytes.
///
/// `put` returns when its source may be used again, `get` when its bytes have arrived, and an accumulate when it is done. So no buffer is
/// in use after a call has returned. Operations are *complete at the target* after a flush or the end of the epoch. For operations that
/// overlap each other, use [`batch`](crate::LockAll::batch) or the forms with requests.
///
/// # Errors
///
/// [`Error::OutOfWindow`], or [`Error::NotAttached`] on a dynamic window, for memory outside the target's part of the window. The call
/// has no effect then. The errors of the network, such as a peer that has failed.
#[derive(Debug)]
pub struct Target<'e, A: RemoteAtomics + ?Sized, P = Passive<'e>> {
    pub(crate) ra: &'e A,
    pub(crate) core: &'e WindowCore<'e, A>,
    /// A copy of the core's field. That field may change through shared references, so it would be loaded again after
    /// each atomic.
    pub(crate) ways: AccumulatePath<'e>,
    /// The words of the target's part, if the processor may operate on them.
    pub(crate) words: LocalWords<'e>,
    pub(crate) rank: Rank,
    pub(crate) part: TargetPart<'e>,
    pub(crate) bytes: u64,
    pub(crate) unit: u32,
    /// True if this rank holds the target exclusively.
    pub(crate) alone: bool,
    /// True if accesses are local, without an epoch. Errors name them accordingly.
    pub(crate) is_local: bool,
    pub(crate) epoch: PhantomData<P>,
}

impl<'e, A: RemoteAtomics + ?Sized, P> Target<'e, A, P> {
    /// Returns the target's number in the window's team; `None` for the null target.
    pub fn rank(&self) -> Option<Rank> {
        (!matches!(self.part, TargetPart::Null)).then_some(self.rank)
    }

    /// Returns the number of bytes of the target's part of the window; 0 for a dynamic window, as in MPI.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the target's displacement unit in bytes.
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
        then: impl FnOnce(TargetMemory<'_>, u64) -> Result<R>,
    ) -> Result<R> {
        self.reach_span(call, None, disp, (0, len), len, then)
    }

    /// Like [`reach`](Self::reach), for updates of elements of type `kind` by `op`.
    #[inline(always)]
    fn reach_elements<R: Default>(
        &self,
        call: Call,
        (kind, op): (ElementKind, Op),
        disp: WindowDisp,
        len: u64,
        then: impl FnOnce(TargetMemory<'_>, u64) -> Result<R>,
    ) -> Result<R> {
        self.reach_span(call, Some((kind, op)), disp, (0, len), len, then)
    }

    /// Calls `then` with the place of `len` bytes that start `first` bytes after `disp`. The operation, which may be an
    /// update, uses `data` of these bytes.
    #[inline(always)]
    fn reach_span<R: Default>(
        &self,
        call: Call,
        update: Option<(ElementKind, Op)>,
        disp: WindowDisp,
        (first, len): (i64, u64),
        data: u64,
        then: impl FnOnce(TargetMemory<'_>, u64) -> Result<R>,
    ) -> Result<R> {
        // No state of the recording is kept here during the operation, since it would take registers from all
        // operations.
        if let TargetPart::Recorded { .. } = self.part {
            self.begin_record(call, update, disp, (first, len), data);
        }
        let done = self.reach_part(self.part(), call, disp, (first, len), then)?;
        if let TargetPart::Recorded { .. } = self.part {
            self.core.end_transfer();
        }
        Ok(done)
    }

    #[cold]
    #[inline(never)]
    fn begin_record(
        &self,
        call: Call,
        update: Option<(ElementKind, Op)>,
        disp: WindowDisp,
        (first, len): (i64, u64),
        data: u64,
    ) {
        // The unit that contains the first byte. Bytes that a layout has twice count once. Only whole elements count.
        let disp = disp.0.wrapping_add(first.div_euclid(i64::from(self.unit)));
        let bytes = data.min(len);
        let bytes = update.map_or(bytes, |(kind, _)| bytes - bytes % kind.size());
        self.core.begin_transfer(call, update, self.rank, disp, bytes);
    }

    /// Returns the part, recorded or not.
    #[inline(always)]
    fn part(&self) -> TargetPart<'e> {
        match self.part {
            TargetPart::Recorded { active } => self.core.unrecorded(self.rank, active),
            part => part,
        }
    }

    #[inline(always)]
    fn reach_part<R: Default>(
        &self,
        part: TargetPart<'e>,
        call: Call,
        disp: WindowDisp,
        (first, len): (i64, u64),
        then: impl FnOnce(TargetMemory<'_>, u64) -> Result<R>,
    ) -> Result<R> {
        match part {
            TargetPart::Fixed(place) => {
                let offset = disp.0.checked_mul(i64::from(self.unit)).and_then(|disp| disp.checked_add(first));
                match offset.and_then(|offset| u64::try_from(offset).ok()) {
                    // Neither comparison can overflow.
                    Some(offset) if len <= self.bytes && offset <= self.bytes - len => then(place, offset),
                    _ if len == 0 => Ok(R::default()),
                    _ => Err(self.outside(call, disp, len)),
                }
            }
            TargetPart::Null | TargetPart::Recorded { .. } => Ok(R::default()),
            TargetPart::Dynamic(_) if len == 0 => Ok(R::default()),
            TargetPart::Dynamic(requests) => {
                let disp = WindowDisp(disp.0.wrapping_add(first));
                self.core.dynamic(call)?.with_region(self.core.ra, call, self.rank, disp, len, |place, offset| {
                    match requests {
                        None => then(place, offset),
                        // The target looks the address up again.
                        Some(requests) => then(TargetMemory::TwoSided(requests, self.rank), disp.0 as u64),
                    }
                })
            }
        }
    }

    /// Returns the address of `len` bytes at `disp`, if they are in a segment and within the window, which is the usual
    /// case.
    #[inline(always)]
    fn in_segment(&self, disp: WindowDisp, len: u64) -> Option<Address> {
        if let TargetPart::Fixed(TargetMemory::Segment(start)) = self.part
            && let Some(offset) = disp.0.checked_mul(i64::from(self.unit))
            // A negative displacement is larger than any window.
            && len <= self.bytes
            && offset as u64 <= self.bytes - len
        {
            return Some(start.rank.at(start.disp.plus(offset as u64)).unwatched());
        }
        None
    }

    /// Returns the word at `disp`, if the processor may operate on it.
    #[inline(always)]
    fn word(&self, disp: WindowDisp) -> Option<MemoryWord<'e>> {
        let offset = disp.0.checked_mul(i64::from(self.unit))? as u64;
        if offset.is_multiple_of(WORD) { self.words.in_memory(offset / WORD) } else { None }
    }

    /// Like [`word`](Self::word), where an engine replaces the processor.
    #[cold]
    #[inline(never)]
    fn word_by_engine(&self, disp: WindowDisp) -> Option<LocalWord<'e>> {
        let offset = disp.0.checked_mul(i64::from(self.unit))? as u64;
        if offset.is_multiple_of(WORD) { self.words.by_engine(offset / WORD) } else { None }
    }

    /// Like [`in_segment`](Self::in_segment), for a word on which network atomics may be used.
    #[inline(always)]
    fn word_in_segment(&self, disp: WindowDisp) -> Option<Address> {
        self.in_segment(disp, WORD).filter(|at| at.disp.0.is_multiple_of(WORD))
    }

    #[cold]
    fn outside(&self, call: Call, disp: WindowDisp, len: u64) -> Error {
        let call = if self.is_local { Call::Local } else { call };
        Error::OutOfWindow { call, target: self.rank, disp, unit: self.unit, len, bytes: self.bytes }
    }

    /// Writes `source` at `disp` (`MPI_Put`).
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`Target`].
    #[inline(always)]
    pub fn put<T: Pod>(&self, disp: WindowDisp, source: &[T]) -> Result<()> {
        let source: &[u8] = bytemuck::cast_slice(source);
        if let Ok(value) = <[u8; WORD as usize]>::try_from(source)
            && let Some(word) = self.word(disp)
        {
            word.store(u64::from_ne_bytes(value));
            self.ra.stored();
            return Ok(());
        }
        self.put_bytes(disp, source)
    }

    // Out of line, since the compiler keeps a result of several branches in memory, and the fast path above would wait
    // for it.
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
    /// The errors of all operations, see [`Target`].
    #[inline(always)]
    pub fn get<T: Pod>(&self, disp: WindowDisp, dest: &mut [T]) -> Result<()> {
        let dest: &mut [u8] = bytemuck::cast_slice_mut(dest);
        if dest.len() as u64 == WORD
            && let Some(word) = self.word(disp)
        {
            dest.copy_from_slice(&word.load().to_ne_bytes());
            return Ok(());
        }
        self.get_bytes(disp, dest)
    }

    // Out of line, like `put_bytes`.
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
    /// The errors of all operations, see [`Target`].
    #[inline]
    pub fn put_value<T: Pod>(&self, disp: WindowDisp, value: T) -> Result<()> {
        self.put(disp, &[value])
    }

    /// Reads one value at `disp` (`MPI_Get` with a count of 1); all zeros from the null target.
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`Target`].
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
    /// [`Error::Mismatch`] when the two ends have different numbers of bytes, [`Error::Layout`] when `origin` reaches outside `source`, and
    /// the errors of all operations.
    pub fn put_layout<T: Pod>(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        source: &[T],
        origin: Items<'_>,
    ) -> Result<()> {
        let source: &[u8] = bytemuck::cast_slice(source);
        self.pieces(Call::Put, disp, target, source.len(), origin, |place, pieces| match place {
            TargetMemory::Segment(_) | TargetMemory::Joined(_) => pieces.into_iter().try_for_each(|run| {
                let piece = &source[run.at..run.at + run.len];
                place.write(self.ra, run.offset, piece)
            }),
            TargetMemory::Leased(lease) => in_batches(pieces, |runs| lease.put_runs(source, runs)),
            TargetMemory::TwoSided(requests, rank) => {
                // One request for any layouts.
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
    /// The errors of [`put_layout`](Self::put_layout).
    pub fn get_layout<T: Pod>(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        dest: &mut [T],
        origin: Items<'_>,
    ) -> Result<()> {
        let dest: &mut [u8] = bytemuck::cast_slice_mut(dest);
        self.pieces(Call::Get, disp, target, dest.len(), origin, |place, pieces| match place {
            TargetMemory::Segment(_) | TargetMemory::Joined(_) => pieces.into_iter().try_for_each(|run| {
                let piece = &mut dest[run.at..run.at + run.len];
                place.read(self.ra, run.offset, piece)
            }),
            TargetMemory::Leased(lease) => in_batches(pieces, |runs| lease.get_runs(dest, runs)),
            TargetMemory::TwoSided(requests, rank) => {
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

    /// Checks that the items `target` at `disp`, of which an operation by `call` may use only some, are in the target's part of the
    /// window.
    ///
    /// # Errors
    ///
    /// The errors of [`put_layout`](Self::put_layout).
    pub fn check(&self, call: Call, disp: WindowDisp, target: Items<'_>) -> Result<()> {
        let walk = || self.reach_part(self.part(), call, disp, target.reach()?, |_, _| Ok(()));
        walk().map_err(|error| self.core.hear(error))
    }

    /// Returns the requests that replace operations on this target, if they are not done at the origin.
    #[inline]
    fn requests(&self) -> Option<&'e dyn ByRequest> {
        match self.part() {
            TargetPart::Fixed(TargetMemory::TwoSided(requests, _)) | TargetPart::Dynamic(Some(requests)) => {
                Some(requests)
            }
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
        transfer: impl FnOnce(TargetMemory<'_>, Pieces<'_>) -> Result<()>,
    ) -> Result<()> {
        let walk = || {
            let (first, len) = self.span(call, target, origin)?;
            origin.check(buffer)?;
            let pairs = origin.pair(target)?;
            self.reach_span(call, None, disp, (first, len), origin.bytes()?, |place, offset| {
                transfer(place, Pieces { pairs, offset, first })
            })
        };
        walk().map_err(|error| self.core.hear(error))
    }

    /// Returns the first byte that `target` touches and the number of bytes from there to the last one. The items of
    /// both ends must have the same number of bytes.
    fn span(&self, call: Call, target: Items<'_>, origin: Items<'_>) -> Result<(i64, u64)> {
        let (here, there) = (origin.bytes()?, target.bytes()?);
        if here != there {
            return Err(Error::Mismatch { call, here, there });
        }
        Ok(target.reach()?)
    }
}

impl<A: RemoteAtomics + ?Sized> WindowCore<'_, A> {
    /// Returns the target `rank`, or the null target.
    #[inline(always)]
    pub(crate) fn target<P>(
        &self,
        call: Call,
        epoch: Call,
        rank: Option<Rank>,
        alone: bool,
    ) -> Result<Target<'_, A, P>> {
        match rank {
            Some(rank) if rank.0 >= self.ra.size() => {
                // The error is reported here, not in the callers, since a target that passes through their `map_err` is
                // copied through memory.
                Err(self.hear(Error::NoSuchTarget { call, target: rank, size: self.ra.size() }))
            }
            Some(rank) => Ok(self.member(epoch, rank, alone)),
            None => Ok(Target {
                ra: self.ra,
                core: self,
                ways: self.ways,
                words: LocalWords::default(),
                rank: Rank(0),
                part: TargetPart::Null,
                bytes: 0,
                unit: 1,
                alone,
                is_local: false,
                epoch: PhantomData,
            }),
        }
    }

    /// Returns the target `rank`, which is a rank of the team.
    #[inline(always)]
    pub(crate) fn member<P>(&self, epoch: Call, rank: Rank, alone: bool) -> Target<'_, A, P> {
        // The usual case is inlined, in parts, since a whole value would be copied.
        let mut words = LocalWords::default();
        let (part, bytes, unit) = match self.memory {
            Memory::Symmetric { base, bytes, unit } if self.plain => {
                words = self.ra.local_words(rank.at(base), bytes / WORD).unwrap_or_default();
                (TargetPart::Fixed(TargetMemory::Segment(rank.at(base))), bytes, unit)
            }
            _ => {
                let (part, bytes, unit) = self.reached(epoch, rank);
                if self.plain
                    && let TargetPart::Fixed(TargetMemory::Segment(at)) = part
                {
                    words = self.ra.local_words(at, bytes / WORD).unwrap_or_default();
                }
                (part, bytes, unit)
            }
        };
        let alone = alone && self.two_sided.is_none();
        // No other rank updates memory that is held exclusively, in any mode.
        let ways = if alone { self.ways.unbiased() } else { self.ways.to(self.ra, rank) };
        Target {
            ra: self.ra,
            core: self,
            ways,
            words,
            rank,
            part,
            bytes,
            unit,
            alone,
            is_local: false,
            epoch: PhantomData,
        }
    }

    /// Returns the part of a rank of the team, its bytes and its displacement unit, for all kinds of memory and
    /// transport.
    #[inline(never)]
    fn reached(&self, epoch: Call, rank: Rank) -> (TargetPart<'_>, u64, u32) {
        let active = matches!(epoch, Call::Fence | Call::Start);
        let (_, bytes, unit) = self.part(rank);
        let part =
            if self.recorder.is_some() { TargetPart::Recorded { active } } else { self.unrecorded(rank, active) };
        (part, bytes, unit)
    }
}

/// The pieces of an operation with layouts. Each is one run at both ends. All are within the checked bounds: at the origin
/// in the buffer, and at the target from `first` on.
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

/// The largest number of runs in one call, which is the limit of a call of the kernel.
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
