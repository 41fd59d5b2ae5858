//! Operations that are under way: requests, and batches of operations that overlap.

use bytemuck::Pod;
use rmalab_atomics::bulk::{self, BulkScope, Owned};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, RemoteAtomics};

use crate::raw::core::WindowCore;
use crate::target::Place;
use crate::{Call, Element, Error, Op, Result, Swappable, Target, WindowDisp};

/// An operation with a request, which owns its buffer.
///
/// Waiting for a put or accumulate frees the buffer and says nothing of the target, as in MPI; for a get it means that
/// the data are there. A request may outlive its epoch, whose end completes the operation; waiting then takes no time. It
/// borrows the window: epochs that take the whole window (`&mut`) have to wait until no request is left. Dropping a
/// request waits for it; forgetting one leaks its buffer, and nothing worse.
#[derive(Debug)]
#[must_use = "the buffer comes back by `wait`"]
pub struct Request<'e, A: RemoteAtomics + ?Sized, T: Pod> {
    state: State<'e, A, T>,
}

#[derive(Debug)]
enum State<'e, A: RemoteAtomics + ?Sized, T: Pod> {
    Done(Vec<T>),
    UnderWay(Owned<'e, A, T>, UnderWay<'e, A>),
    /// Updates by the elements of the buffer, whose results are of no use to the program.
    Updating(Vec<T>, Owned<'e, A, u64>, UnderWay<'e, A>),
}

/// One of the window's requests that no call has waited for, as [`WindowCore::under_way`] counts them.
#[derive(Debug)]
struct UnderWay<'e, A: RemoteAtomics + ?Sized>(&'e WindowCore<'e, A>);

impl<'e, A: RemoteAtomics + ?Sized> UnderWay<'e, A> {
    fn new(core: &'e WindowCore<'e, A>) -> Self {
        core.under_way.set(core.under_way.get() + 1);
        UnderWay(core)
    }
}

impl<A: RemoteAtomics + ?Sized> Drop for UnderWay<'_, A> {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
    }
}

impl<'e, A: RemoteAtomics + ?Sized, T: Pod> Request<'e, A, T> {
    pub(crate) fn done(buffer: Vec<T>) -> Self {
        Request { state: State::Done(buffer) }
    }

    pub(crate) fn under_way(core: &'e WindowCore<'e, A>, owned: Owned<'e, A, T>) -> Self {
        Request { state: State::UnderWay(owned, UnderWay::new(core)) }
    }

    pub(crate) fn updating(core: &'e WindowCore<'e, A>, source: Vec<T>, results: Owned<'e, A, u64>) -> Self {
        Request { state: State::Updating(source, results, UnderWay::new(core)) }
    }

    /// Whether [`wait`](Self::wait) would return at once (`MPI_Test`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    pub fn test(&mut self) -> Result<bool> {
        match &mut self.state {
            State::Done(_) => Ok(true),
            State::UnderWay(owned, UnderWay(core)) => owned.test().map_err(|error| core.hear(error)),
            State::Updating(_, results, UnderWay(core)) => results.test().map_err(|error| core.hear(error)),
        }
    }

    /// Waits until the operation is complete at this rank, and gives its buffer back (`MPI_Wait`).
    ///
    /// # Errors
    ///
    /// Those of the network; the buffer is dropped then.
    pub fn wait(self) -> Result<Vec<T>> {
        match self.state {
            State::Done(buffer) => Ok(buffer),
            State::UnderWay(owned, under_way) => owned.wait().map_err(|error| under_way.0.hear(error)),
            State::Updating(source, results, under_way) => match results.wait() {
                Ok(_) => Ok(source),
                Err(error) => Err(under_way.0.hear(error)),
            },
        }
    }
}

/// Operations that overlap each other, on borrowed buffers: see [`LockAll::batch`](crate::LockAll::batch).
///
/// It takes targets of its own window only: those of another one may have the same type and other ranks.
pub struct Batch<'scope, 'env: 'scope, A: RemoteAtomics + ?Sized> {
    ra: &'scope A,
    /// The address of the window's core.
    window: usize,
    bulk: &'scope BulkScope<'scope, 'env, A>,
}

impl<'env, A: RemoteAtomics + ?Sized> Batch<'_, 'env, A> {
    /// Starts to write `source` at `disp` of `target`.
    ///
    /// # Errors
    ///
    /// As [`Target::put`], and [`Error::OtherWindow`].
    pub fn put<T: Pod, P>(&self, target: &Target<'_, A, P>, disp: WindowDisp, source: &'env [T]) -> Result<()> {
        self.check(Call::Put, target)?;
        let source: &[u8] = bytemuck::cast_slice(source);
        let done = target.reach(Call::Put, disp, source.len() as u64, |place, offset| match place {
            Place::Segment(at) => Ok(self.bulk.put(at.rank.at(at.disp.plus(offset)).unwatched(), source)?),
            Place::Leased(_) | Place::TwoSided(..) => place.write(self.ra, offset, source),
        });
        done.map_err(|error| target.core.hear(error))
    }

    /// Starts to read `dest` from `disp` of `target`.
    ///
    /// # Errors
    ///
    /// As [`Target::get`], and [`Error::OtherWindow`].
    pub fn get<T: Pod, P>(&self, target: &Target<'_, A, P>, disp: WindowDisp, dest: &'env mut [T]) -> Result<()> {
        self.check(Call::Get, target)?;
        let dest: &mut [u8] = bytemuck::cast_slice_mut(dest);
        let done = target.reach(Call::Get, disp, dest.len() as u64, |place, offset| match place {
            Place::Segment(at) => Ok(self.bulk.get(at.rank.at(at.disp.plus(offset)).unwatched(), dest)?),
            Place::Leased(_) | Place::TwoSided(..) => place.read(self.ra, offset, dest),
        });
        done.map_err(|error| target.core.hear(error))
    }

    /// Starts to combine `value` into the element at `disp` of `target`; `result` becomes what it was before.
    ///
    /// The network carries out many such operations at a time if the element has 8 aligned bytes, the window's strategy is
    /// native, and the operation is replace, no_op or a sum of integers. Any other one is done when this returns. Operations
    /// of a batch have no order, whatever `accumulate_ordering` asks for.
    ///
    /// # Errors
    ///
    /// As [`Target::fetch_and_op`], and [`Error::OtherWindow`].
    pub fn fetch_and_op<T: Element, P>(
        &self,
        target: &Target<'_, A, P>,
        disp: WindowDisp,
        op: Op,
        value: T,
        result: &'env mut T,
    ) -> Result<()> {
        self.check(Call::FetchAndOp, target)?;
        let Some(at) = target.overlapping::<T>(disp, op, 1) else {
            *result = target.fetch_and_op(disp, op, value)?;
            return Ok(());
        };
        self.start(target, at, word_op(op, value), bytemuck::cast_mut(result))
    }

    /// Starts to combine `source` into the elements at `disp` of `target`; `result` becomes what they were before.
    ///
    /// As [`fetch_and_op`](Self::fetch_and_op), for each element.
    ///
    /// # Errors
    ///
    /// As [`Target::get_accumulate`], and [`Error::OtherWindow`].
    pub fn get_accumulate<T: Element, P>(
        &self,
        target: &Target<'_, A, P>,
        disp: WindowDisp,
        op: Op,
        source: &[T],
        result: &'env mut [T],
    ) -> Result<()> {
        self.check(Call::GetAccumulate, target)?;
        let fits = op == Op::NoOp || source.len() == result.len();
        let Some(at) = target.overlapping::<T>(disp, op, result.len()).filter(|_| fits) else {
            return target.get_accumulate(disp, op, source, result);
        };
        for (i, result) in (0..).zip(result) {
            let op = word_op(op, source.get(i as usize).copied().unwrap_or(T::zeroed()));
            self.start(target, at.rank.at(at.disp.word(i)).unwatched(), op, bytemuck::cast_mut(result))?;
        }
        Ok(())
    }

    /// Starts to store `desired` in the element at `disp` of `target` if it is `expected`; `result` becomes what it was
    /// before. As [`fetch_and_op`](Self::fetch_and_op).
    ///
    /// # Errors
    ///
    /// As [`Target::compare_and_swap`], and [`Error::OtherWindow`].
    pub fn compare_and_swap<T: Swappable, P>(
        &self,
        target: &Target<'_, A, P>,
        disp: WindowDisp,
        expected: T,
        desired: T,
        result: &'env mut T,
    ) -> Result<()> {
        self.check(Call::CompareAndSwap, target)?;
        let Some(at) = target.overlapping::<T>(disp, Op::Replace, 1) else {
            *result = target.compare_and_swap(disp, expected, desired)?;
            return Ok(());
        };
        let op = WordOp::CompareAndSwap { expected: expected.to_word(), desired: desired.to_word() };
        self.start(target, at, op, bytemuck::cast_mut(result))
    }

    fn start<P>(&self, target: &Target<'_, A, P>, at: Address, op: WordOp, result: &'env mut u64) -> Result<()> {
        let started = match op {
            WordOp::FetchAdd(value) => self.bulk.fetch_add(at, value, result),
            WordOp::FetchStore(value) => self.bulk.fetch_store(at, value, result),
            WordOp::CompareAndSwap { expected, desired } => self.bulk.compare_and_swap(at, expected, desired, result),
            WordOp::Get | WordOp::Put(_) => self.bulk.get_word(at, result),
        };
        started.map_err(|error| target.core.hear(error))
    }

    fn check<P>(&self, call: Call, target: &Target<'_, A, P>) -> Result<()> {
        if std::ptr::from_ref(target.core).addr() == self.window {
            return Ok(());
        }
        Err(Error::OtherWindow { rank: self.ra.rank(), call, target: target.rank })
    }
}

/// The word operation of an accumulate that the network has: see [`Target::overlapping`].
pub(crate) fn word_op<T: Element>(op: Op, value: T) -> WordOp {
    match op {
        Op::Sum => WordOp::FetchAdd(value.to_word()),
        Op::Replace => WordOp::FetchStore(value.to_word()),
        _ => WordOp::Get,
    }
}

/// Runs `body`, then `behind`, and returns when all that it started is complete, here and at the targets.
pub(crate) fn batch<'env, A: RemoteAtomics + ?Sized, R, B>(
    core: &WindowCore<'_, A>,
    body: impl for<'scope> FnOnce(&Batch<'scope, 'env, A>) -> Result<R>,
    behind: impl FnOnce() -> B,
) -> Result<(R, B)> {
    let window = std::ptr::from_ref(core).addr();
    let done = bulk::scope(core.ra, |bulk| {
        let done = body(&Batch { ra: bulk.ra(), window, bulk });
        Ok(done.map(|done| (done, behind())))
    });
    // Errors of the body's operations have been heard.
    done.map_err(|error| core.hear(error))?
}
