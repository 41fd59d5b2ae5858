//! Accumulates, fetches and swaps.

use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::words::MemoryWord;
use rmalab_atomics::{Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::Exclusion;

use super::Target;
use crate::accumulate::Updates;
use crate::element::ElementKind;
use crate::place::{TargetMemory, TargetPart};
use crate::raw::core::{Memory, WindowCore};
use crate::{AccumulateStrategy, Call, Element, Error, Items, Op, Result, Swappable, WindowDisp};

impl<'e, A: RemoteAtomics + ?Sized, P> Target<'e, A, P> {
    /// Combines `source` into the elements at `disp` (`MPI_Accumulate`), each of them atomically.
    ///
    /// It is atomic against all ranks' accumulates, fetches and swaps of the same element type on this window.
    /// Accumulates of one rank on one element take effect in the order of its calls.
    ///
    /// # Errors
    ///
    /// [`Error::Op`] when elements of this type do not have the operation, and the errors of all operations.
    #[inline(always)]
    pub fn accumulate<T: Element>(&self, disp: WindowDisp, op: Op, source: &[T]) -> Result<()> {
        if let &[value] = source {
            match self.by_one_atomic(disp, op, value) {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
        self.accumulate_elsewise(disp, T::KIND, op, bytemuck::cast_slice(source))
    }

    #[inline(never)]
    pub(super) fn accumulate_elsewise(&self, disp: WindowDisp, kind: ElementKind, op: Op, source: &[u8]) -> Result<()> {
        self.defined(Call::Accumulate, kind, op)?;
        let len = source.len() as u64;
        let done = match self.in_segment(disp, len) {
            Some(at) => self.updates(TargetMemory::Segment(at)).run(0, kind, op, source, None),
            None => self.reach_elements(Call::Accumulate, (kind, op), disp, len, |place, offset| {
                self.updates(place).run(offset, kind, op, source, None)
            }),
        };
        done.map_err(|error| self.core.hear(error))
    }

    /// Like [`accumulate`](Self::accumulate), with layouts at both ends.
    ///
    /// # Errors
    ///
    /// The errors of [`accumulate`](Self::accumulate) and [`put_layout`](Self::put_layout), and [`Error::Type`] for a
    /// layout of other elements than `T`.
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

    /// Combines `source` into the elements at `disp` and reads their old values (`MPI_Get_accumulate`).
    ///
    /// It is atomic like [`accumulate`](Self::accumulate). With [`Op::NoOp`] the elements are read atomically, and
    /// `source` is ignored and may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] when `source` and `result` differ in length, and the errors of
    /// [`accumulate`](Self::accumulate).
    #[inline]
    pub fn get_accumulate<T: Element>(&self, disp: WindowDisp, op: Op, source: &[T], result: &mut [T]) -> Result<()> {
        let (source, result) = (bytemuck::cast_slice(source), bytemuck::cast_slice_mut(result));
        self.get_accumulate_elsewise(disp, T::KIND, op, source, result)
    }

    #[inline(never)]
    pub(super) fn get_accumulate_elsewise(
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
            Some(at) => self.updates(TargetMemory::Segment(at)).run(0, kind, op, source, Some(result)),
            None => self.reach_elements(Call::GetAccumulate, (kind, op), disp, there, |place, offset| {
                self.updates(place).run(offset, kind, op, source, Some(result))
            }),
        };
        done.map_err(|error| self.core.hear(error))
    }

    /// Like [`get_accumulate`](Self::get_accumulate), with layouts at all three ends.
    ///
    /// # Errors
    ///
    /// The errors of [`get_accumulate`](Self::get_accumulate) and [`accumulate_layout`](Self::accumulate_layout).
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
    pub(super) fn update_layout(
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
        // The pieces are whole elements, even where the target's runs touch within an element.
        let pieces = target.pair_elements(target, kind)?;
        self.reach_span(call, Some((kind, op)), disp, (first, len), bytes, |place, offset| {
            if let TargetMemory::TwoSided(requests, rank) = place {
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
            Some((buffer, items)) if !matches!(self.part, TargetPart::Null) => Ok(items.unpack(&results, buffer)?),
            _ => Ok(()),
        }
    }

    /// Combines `value` into the element at `disp`, and returns its old value (`MPI_Fetch_and_op`).
    ///
    /// It is atomic like [`accumulate`](Self::accumulate), and one network atomic where the type and the operation have
    /// one. The null target returns all zeros.
    ///
    /// # Errors
    ///
    /// The errors of [`accumulate`](Self::accumulate).
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

    /// Updates a 64-bit unsigned integer, if the processor reaches it and may update it now, and returns its old value. Otherwise it
    /// does nothing. Call [`fetch_and_op`](Self::fetch_and_op) then.
    #[inline(always)]
    pub fn update_word(&self, disp: WindowDisp, op: Op, value: u64) -> Option<u64> {
        if self.ways.strategy != AccumulateStrategy::Native {
            return None;
        }
        match op {
            Op::Sum => self.by_processor(disp, |word| word.fetch_add(value)),
            Op::Replace => self.by_processor(disp, |word| word.fetch_store(value)),
            _ => self.by_one_swap(disp, op, value),
        }
    }

    /// Like [`update_word`](Self::update_word), for a compare-and-swap.
    #[inline(always)]
    pub fn swap_word(&self, disp: WindowDisp, expected: u64, desired: u64) -> Option<u64> {
        if self.ways.strategy == AccumulateStrategy::Locked {
            return None;
        }
        self.by_processor(disp, |word| word.compare_and_swap(expected, desired))
    }

    /// Updates an element with one atomic of the processor or of the network, if there is one and it may be used.
    #[inline(always)]
    fn by_one_atomic<T: Element>(&self, disp: WindowDisp, op: Op, value: T) -> Result<Option<T>> {
        let atomic = matches!(op, Op::Replace) || matches!(op, Op::Sum) && T::KIND.is_integer();
        if T::SIZE != WORD || self.ways.strategy != AccumulateStrategy::Native {
            return Ok(None);
        }
        if !atomic {
            return Ok(self.by_one_swap(disp, op, value));
        }
        let value = value.to_word();
        let old = match op {
            Op::Sum => self.by_processor(disp, |word| word.fetch_add(value)),
            _ => self.by_processor(disp, |word| word.fetch_store(value)),
        };
        if let Some(old) = old {
            return Ok(Some(T::from_word(old)));
        }
        let op = if matches!(op, Op::Sum) { WordOp::FetchAdd(value) } else { WordOp::FetchStore(value) };
        Ok(self.by_atomic(disp, op)?.map(T::from_word))
    }

    /// Updates an element of a word by compare-and-swap, if the processor reaches it and may update it now.
    #[inline(always)]
    fn by_one_swap<T: Element>(&self, disp: WindowDisp, op: Op, value: T) -> Option<T> {
        if op == Op::NoOp || !op.is_defined_for(T::KIND) {
            return None;
        }
        let old = self.by_processor(disp, |word| {
            let mut old = word.load();
            loop {
                let seen = word.compare_and_swap(old, T::combine(op, T::from_word(old), value).to_word());
                if seen == old {
                    return old;
                }
                old = seen;
            }
        });
        old.map(T::from_word)
    }

    /// Updates the word at `disp` with an instruction, if the processor reaches it and may update it now.
    ///
    /// It returns no error, since the compiler keeps a result of several branches in memory, and the next atomic would
    /// wait for it.
    #[inline(always)]
    fn by_processor(&self, disp: WindowDisp, update: impl FnOnce(MemoryWord<'e>) -> u64) -> Option<u64> {
        let word = self.word(disp)?;
        if !self.ways.enter_by_processor(self.ra, self.rank) {
            return None;
        }
        let old = update(word);
        self.ways.rest_by_processor();
        Some(old)
    }

    /// Updates the word at `disp` with an atomic of the network, or of an engine that replaces the processor, if one
    /// may be used there.
    #[inline(never)]
    fn by_atomic(&self, disp: WindowDisp, op: WordOp) -> Result<Option<u64>> {
        let word = if self.words.is_by_engine() { self.word_by_engine(disp) } else { None };
        let at = if word.is_none() { self.word_in_segment(disp) } else { None };
        if word.is_none() && at.is_none() || !self.enter()? {
            return Ok(None);
        }
        let old = match (word, at, op) {
            (Some(word), ..) => word.atomic(op),
            (None, Some(at), WordOp::FetchAdd(value)) => self.ra.fetch_add(at, value),
            (None, Some(at), WordOp::FetchStore(value)) => self.ra.fetch_store(at, value),
            (None, Some(at), WordOp::CompareAndSwap { expected, desired }) => {
                self.ra.compare_and_swap(at, expected, desired)
            }
            (None, Some(at), WordOp::Get | WordOp::Put(_)) => self.ra.get(at),
            (None, None, _) => return Ok(None),
        };
        self.ways.leave(self.ra, old).map(Some).map_err(|error| self.core.hear(error))
    }

    fn enter(&self) -> Result<bool> {
        self.ways.enter(self.ra, self.rank).map_err(|error| self.core.hear(error))
    }

    #[inline(never)]
    fn fetch_and_op_word(&self, disp: WindowDisp, kind: ElementKind, op: Op, value: u64) -> Result<u64> {
        self.defined(Call::FetchAndOp, kind, op)?;
        let old = self.reach_elements(Call::FetchAndOp, (kind, op), disp, kind.size(), |place, offset| {
            self.updates(place).one(offset, kind, op, value)
        });
        old.map_err(|error| self.core.hear(error))
    }

    #[inline(never)]
    pub(super) fn fetch_and_op_elsewise(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        op: Op,
        value: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        self.defined(Call::FetchAndOp, kind, op)?;
        let done = self.reach_elements(Call::FetchAndOp, (kind, op), disp, kind.size(), |place, offset| {
            self.updates(place).run(offset, kind, op, value, Some(result))
        });
        done.map_err(|error| self.core.hear(error))
    }

    /// Stores `desired` in the element at `disp` if it is `expected`. Returns its old value (`MPI_Compare_and_swap`).
    ///
    /// It is atomic like [`accumulate`](Self::accumulate). The null target returns all zeros.
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`Target`].
    #[inline(always)]
    pub fn compare_and_swap<T: Swappable>(&self, disp: WindowDisp, expected: T, desired: T) -> Result<T> {
        if T::SIZE == WORD && self.ways.strategy != AccumulateStrategy::Locked {
            let (expected, desired) = (expected.to_word(), desired.to_word());
            if let Some(old) = self.by_processor(disp, |word| word.compare_and_swap(expected, desired)) {
                return Ok(T::from_word(old));
            }
            if let Some(old) = self.by_atomic(disp, WordOp::CompareAndSwap { expected, desired })? {
                return Ok(T::from_word(old));
            }
        }
        let old = self.compare_and_swap_elsewise(disp, T::KIND, expected.to_word(), desired.to_word())?;
        Ok(T::from_word(old))
    }

    #[inline(never)]
    pub(super) fn compare_and_swap_elsewise(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        expected: u64,
        desired: u64,
    ) -> Result<u64> {
        let update = (kind, Op::Replace);
        let old = self.reach_elements(Call::CompareAndSwap, update, disp, kind.size(), |place, offset| {
            self.updates(place).compare_and_swap(offset, kind, expected, desired)
        });
        old.map_err(|error| self.core.hear(error))
    }

    /// Runs `body` while no other rank updates this target's elements by accumulates, fetches or swaps, on any path.
    ///
    /// It is for updates that this crate lacks: `body` reads the target's memory, computes, and writes it. `body` may put and
    /// get, but makes no update of the window. For the null target it runs at once.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](rmalab_atomics::Error::Unsupported) where ranks update by network atomics that this rank cannot stop: on networks
    /// without an asymmetric fence, and in two-sided windows. [`AccumulateStrategy::Locked`] works on every network.
    pub fn exclusively<R>(&self, body: impl FnOnce() -> R) -> Result<R> {
        let place = match self.part() {
            TargetPart::Null => return Ok(body()),
            TargetPart::Fixed(place) => place,
            TargetPart::Dynamic(Some(requests)) => TargetMemory::TwoSided(requests, self.rank),
            // Only the target's lock is used, for any of its regions.
            TargetPart::Dynamic(None) | TargetPart::Recorded { .. } => TargetMemory::Segment(self.rank.at(Disp(0))),
        };
        self.updates(place).exclusively(body).map_err(|error| self.core.hear(error))
    }

    #[inline(always)]
    pub(super) fn defined(&self, call: Call, kind: ElementKind, op: Op) -> Result<()> {
        if op.is_defined_for(kind) { Ok(()) } else { Err(self.core.hear(Error::Op { call, op, kind })) }
    }

    #[inline(always)]
    fn updates<'p>(&'p self, place: TargetMemory<'p>) -> Updates<'p, A>
    where
        'e: 'p,
    {
        let Target { ra, core, ways: ref path, rank, alone, .. } = *self;
        let alone = core.excludes_others(alone);
        Updates { ra, path, bias: path.biased.then_some(&core.bias), rank, place, alone }
    }
}

impl<A: RemoteAtomics + ?Sized> WindowCore<'_, A> {
    /// Returns whether a rank that holds a target exclusively is the only rank that may update it. The policy that locks
    /// nothing excludes no rank.
    fn excludes_others(&self, alone: bool) -> bool {
        alone && self.exclusion != Exclusion::Nothing
    }

    /// Adds to words of a target, as [`RawWindow::add_to_words`](crate::RawWindow::add_to_words) does.
    ///
    /// It takes the path of [`Target::accumulate`] without a target. A target has many fields, and making it takes as long
    /// as the addition of some hundred words.
    #[inline(never)]
    pub(crate) fn add_to_words(&self, rank: Rank, alone: bool, disp: WindowDisp, values: &[u64]) -> bool {
        let Memory::Symmetric { base, bytes, unit } = self.memory else { return false };
        let len = size_of_val(values) as u64;
        if !self.plain || self.ways.strategy != AccumulateStrategy::Native || values.is_empty() || len > bytes {
            return false;
        }
        // A negative offset is larger than any window.
        let Some(offset) = disp.0.checked_mul(i64::from(unit)).filter(|&offset| offset as u64 <= bytes - len) else {
            return false;
        };
        let at = rank.at(base.plus(offset as u64)).unwatched();
        let Some(words) = self.ra.shared_words(at, values.len() as u64) else { return false };
        let path = &if alone { self.ways.unbiased() } else { self.ways.to(self.ra, rank) };
        let bias = path.biased.then_some(&self.bias);
        let alone = self.excludes_others(alone);
        Updates { ra: self.ra, path, bias, rank, place: TargetMemory::Segment(at), alone }.add(words, values).is_ok()
    }
}
