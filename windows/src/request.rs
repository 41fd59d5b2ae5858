//! Operations that are under way: requests, and batches of operations that overlap.

use bytemuck::Pod;
use rmalab_atomics::RemoteAtomics;
use rmalab_atomics::bulk::{self, BulkScope, Owned};

use crate::raw::core::WindowCore;
use crate::target::Place;
use crate::{Call, Error, Result, Target, WindowDisp};

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

    /// Whether [`wait`](Self::wait) would return at once (`MPI_Test`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    pub fn test(&mut self) -> Result<bool> {
        match &mut self.state {
            State::Done(_) => Ok(true),
            State::UnderWay(owned, UnderWay(core)) => owned.test().map_err(|error| core.hear(error)),
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
        }
    }
}

/// Puts and gets that overlap each other, on borrowed buffers: see [`LockAll::batch`](crate::LockAll::batch).
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

    fn check<P>(&self, call: Call, target: &Target<'_, A, P>) -> Result<()> {
        if std::ptr::from_ref(target.core).addr() == self.window {
            return Ok(());
        }
        Err(Error::OtherWindow { rank: self.ra.rank(), call, target: target.rank })
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
