//! Operations that overlap each other.

use bytemuck::Pod;
use rmalab_atomics::bulk::{self, BulkScope};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, RemoteAtomics};

use crate::place::TargetMemory;
use crate::target::requests::word_op;
use crate::{Call, Element, Error, Op, Result, Swappable, Target, WindowCore, WindowDisp};

/// A batch of operations that overlap each other, on borrowed buffers: see [`LockAll::batch`](crate::LockAll::batch).
///
/// It takes only targets of its own window. Targets of another window may have the same type, but other ranks.
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
    /// The errors of [`Target::put`], and [`Error::OtherWindow`].
    pub fn put<T: Pod, P>(&self, target: &Target<'_, A, P>, disp: WindowDisp, source: &'env [T]) -> Result<()> {
        self.check(Call::Put, target)?;
        let source: &[u8] = bytemuck::cast_slice(source);
        let done = target.reach(Call::Put, disp, source.len() as u64, |place, offset| match place {
            TargetMemory::Segment(at) => Ok(self.bulk.put(at.rank.at(at.disp.plus(offset)).unwatched(), source)?),
            TargetMemory::Leased(_) | TargetMemory::Joined(_) | TargetMemory::TwoSided(..) => {
                place.write(self.ra, offset, source)
            }
        });
        done.map_err(|error| target.core.hear(error))
    }

    /// Starts to read `dest` from `disp` of `target`.
    ///
    /// # Errors
    ///
    /// The errors of [`Target::get`], and [`Error::OtherWindow`].
    pub fn get<T: Pod, P>(&self, target: &Target<'_, A, P>, disp: WindowDisp, dest: &'env mut [T]) -> Result<()> {
        self.check(Call::Get, target)?;
        let dest: &mut [u8] = bytemuck::cast_slice_mut(dest);
        let done = target.reach(Call::Get, disp, dest.len() as u64, |place, offset| match place {
            TargetMemory::Segment(at) => Ok(self.bulk.get(at.rank.at(at.disp.plus(offset)).unwatched(), dest)?),
            TargetMemory::Leased(_) | TargetMemory::Joined(_) | TargetMemory::TwoSided(..) => {
                place.read(self.ra, offset, dest)
            }
        });
        done.map_err(|error| target.core.hear(error))
    }

    /// Starts to combine `value` into the element at `disp` of `target`. `result` gets the old value.
    ///
    /// The network executes many such operations at a time if the element has 8 aligned bytes, the window's strategy is native, and the
    /// operation is replace, no_op or a sum of integers. Any other operation is done when this returns. Operations of a batch have no order,
    /// for any `accumulate_ordering`.
    ///
    /// # Errors
    ///
    /// The errors of [`Target::fetch_and_op`], and [`Error::OtherWindow`].
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

    /// Starts to combine `source` into the elements at `disp` of `target`. `result` gets the old values.
    ///
    /// Each element is updated as by [`fetch_and_op`](Self::fetch_and_op).
    ///
    /// # Errors
    ///
    /// The errors of [`Target::get_accumulate`], and [`Error::OtherWindow`].
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

    /// Starts to store `desired` in the element at `disp` of `target` if it is `expected`. `result` gets the old value. It overlaps others
    /// like [`fetch_and_op`](Self::fetch_and_op).
    ///
    /// # Errors
    ///
    /// The errors of [`Target::compare_and_swap`], and [`Error::OtherWindow`].
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

/// Runs `body`, then `behind`, and returns when all started operations are complete, at the origin and at the targets.
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
    // The handler already got the errors of the body's operations.
    done.map_err(|error| core.hear(error))?
}
