//! Operations with requests.

use bytemuck::Pod;
use rmalab_atomics::bulk::{Owned, Piece};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::registered::Run;
use rmalab_atomics::{Address, RemoteAtomics, WORD};

use super::{Target, WithRequests, in_batches};
use crate::place::TargetMemory;
use crate::{AccumulateOrdering, AccumulateStrategy, Call, Element, Items, Op, Request, Result, WindowDisp};

/// The forms with requests, which MPI allows only in passive epochs.
///
/// A request owns its buffers, and a wait for it returns them.
impl<'e, A: RemoteAtomics + ?Sized, P> Target<'e, A, P> {
    /// Starts to write `source` at `disp` (`MPI_Rput`).
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`Target`]; an error drops the buffer.
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
    /// The errors of [`rput`](Self::rput).
    pub fn rget<T: Pod>(&self, disp: WindowDisp, dest: Vec<T>) -> Result<Request<'e, A, T>>
    where
        P: WithRequests,
    {
        let len = size_of_val(dest.as_slice());
        self.start(Call::Get, disp, 0, len as u64, dest, &[(0, 0, len)], false)
    }

    /// Like [`rput`](Self::rput), with layouts at both ends.
    ///
    /// # Errors
    ///
    /// The errors of [`put_layout`](Self::put_layout); an error drops the buffer.
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

    /// Like [`rget`](Self::rget), with layouts at both ends.
    ///
    /// # Errors
    ///
    /// The errors of [`get_layout`](Self::get_layout); an error drops the buffer.
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
            // Pieces that overlap each other must not be under way together, and a two-sided window sends one request
            // for all.
            self.get_layout(disp, target, &mut dest, origin)?;
            return Ok(Request::done(dest));
        }
        self.start(Call::Get, disp, first, len, dest, &pieces, false)
    }

    /// Checks that the items fit each other and a buffer of `buffer` bytes. Returns the first byte at the target, the
    /// bytes from there to the last one, and the pieces.
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

    #[expect(clippy::too_many_arguments, reason = "the common part of both directions, with and without layouts")]
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
        let started = self.reach_span(call, None, disp, (first, len), data, |place, offset| {
            let mut buffer = taken.take().unwrap_or_default();
            if let TargetMemory::Segment(start) = place {
                let pieces = pieces.iter().map(|&(here, there, len)| {
                    let at = start.rank.at(start.disp.plus(offset + there)).unwatched();
                    Piece { offset: here, at, len }
                });
                let owned = if put { Owned::put(ra, buffer, pieces) } else { Owned::get(ra, buffer, pieces) };
                return Ok(Some(Request::under_way(self.core, owned?)));
            }
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut buffer);
            if let TargetMemory::Leased(lease) = place {
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
        // For the null target nothing was started.
        Ok(started.unwrap_or_else(|| Request::done(taken.unwrap_or_default())))
    }

    /// Like [`accumulate`](Self::accumulate), with a request (`MPI_Raccumulate`).
    ///
    /// It overlaps others if the window's `accumulate_ordering` is none and the network has the operation: elements of
    /// 8 aligned bytes, the native strategy, and replace, no_op or a sum of integers. Otherwise the operation is done
    /// when this call returns.
    ///
    /// # Errors
    ///
    /// The errors of [`accumulate`](Self::accumulate); an error drops the buffer.
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

    /// Like [`get_accumulate`](Self::get_accumulate), with a request that returns `result` (`MPI_Rget_accumulate`). It
    /// overlaps others under the conditions of [`raccumulate`](Self::raccumulate).
    ///
    /// # Errors
    ///
    /// The errors of [`get_accumulate`](Self::get_accumulate); an error drops the buffer.
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

    /// Like [`overlapping`](Self::overlapping), if accumulates of one rank on one element may take effect in any order.
    fn overlapping_in_any_order<T: Element>(&self, disp: WindowDisp, op: Op, elements: usize) -> Option<Address> {
        let unordered = self.core.config.borrow().accumulate_ordering == AccumulateOrdering::NONE;
        self.overlapping::<T>(disp, op, elements).filter(|_| unordered)
    }
}

impl<A: RemoteAtomics + ?Sized, P> Target<'_, A, P> {
    /// Returns the address of `elements` elements at `disp`, if the network executes an operation on each without a
    /// wait.
    pub(crate) fn overlapping<T: Element>(&self, disp: WindowDisp, op: Op, elements: usize) -> Option<Address> {
        let native = match op {
            Op::Replace | Op::NoOp => true,
            Op::Sum => T::KIND.is_integer(),
            _ => false,
        };
        let words = T::SIZE == WORD && align_of::<T>() == WORD as usize;
        // Where targets have modes, an update has to report its end. Memory is shared there, so overlapping gains
        // nothing.
        if !native || !words || self.ways.biased || self.ways.strategy != AccumulateStrategy::Native {
            return None;
        }
        self.in_segment(disp, WORD * elements as u64).filter(|at| at.disp.0.is_multiple_of(WORD))
    }
}

/// Returns the operations on the words of `n` elements from `at` on.
fn words<T: Element>(at: Address, op: Op, source: &[T], n: usize) -> impl Iterator<Item = (Address, WordOp)> {
    let value = move |i: usize| source.get(i).copied().unwrap_or(T::zeroed());
    (0..n).map(move |i| (at.rank.at(at.disp.word(i as u64)).unwatched(), word_op(op, value(i))))
}

/// The pieces of an operation: offset at the origin, distance from the first byte at the target, length.
type PieceList = Vec<(usize, u64, usize)>;

/// Returns the pieces of an operation whose first byte at the target is `first`.
fn pieces(first: i64, target: Items<'_>, origin: Items<'_>) -> Result<PieceList> {
    let pairs = origin.pair(target)?;
    Ok(pairs.map(|piece| (piece.left as usize, piece.right.abs_diff(first), piece.bytes as usize)).collect())
}

/// Returns the word operation of an accumulate that the network has: see [`Target::overlapping`].
pub(crate) fn word_op<T: Element>(op: Op, value: T) -> WordOp {
    match op {
        Op::Sum => WordOp::FetchAdd(value.to_word()),
        Op::Replace => WordOp::FetchStore(value.to_word()),
        _ => WordOp::Get,
    }
}
