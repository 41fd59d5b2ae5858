//! Operations that are under way: requests, and batches of operations that overlap.

use bytemuck::Pod;
use rmalab_atomics::RemoteAtomics;
use rmalab_atomics::bulk::{self, BulkScope, Owned};

use crate::target::Place;
use crate::window::Core;
use crate::{Call, Error, Result, Target, WindowDisp};

/// An operation with a request, which owns its buffer.
///
/// Waiting for a put or accumulate frees the buffer and says nothing of the target, as in MPI; for a get it means that
/// the data are there. Dropping a request waits for it; forgetting one leaks its buffer, and nothing worse.
#[derive(Debug)]
#[must_use = "the buffer comes back by `wait`"]
pub struct Request<'e, A: RemoteAtomics + ?Sized, T: Pod> {
    state: State<'e, A, T>,
}

#[derive(Debug)]
enum State<'e, A: RemoteAtomics + ?Sized, T: Pod> {
    Done(Vec<T>),
    UnderWay(Owned<'e, A, T>),
}

impl<'e, A: RemoteAtomics + ?Sized, T: Pod> Request<'e, A, T> {
    pub(crate) fn done(buffer: Vec<T>) -> Self {
        Request { state: State::Done(buffer) }
    }

    pub(crate) fn under_way(owned: Owned<'e, A, T>) -> Self {
        Request { state: State::UnderWay(owned) }
    }

    /// Whether [`wait`](Self::wait) would return at once (`MPI_Test`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    pub fn test(&mut self) -> Result<bool> {
        match &mut self.state {
            State::Done(_) => Ok(true),
            State::UnderWay(owned) => Ok(owned.test()?),
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
            State::UnderWay(owned) => Ok(owned.wait()?),
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
        target.reach(Call::Put, disp, source.len() as u64, |place, offset| match place {
            Place::Segment(at) => Ok(self.bulk.put(at.rank.at(at.disp.plus(offset)).unwatched(), source)?),
            Place::Leased(_) | Place::TwoSided(..) => place.write(self.ra, offset, source),
        })
    }

    /// Starts to read `dest` from `disp` of `target`.
    ///
    /// # Errors
    ///
    /// As [`Target::get`], and [`Error::OtherWindow`].
    pub fn get<T: Pod, P>(&self, target: &Target<'_, A, P>, disp: WindowDisp, dest: &'env mut [T]) -> Result<()> {
        self.check(Call::Get, target)?;
        let dest: &mut [u8] = bytemuck::cast_slice_mut(dest);
        target.reach(Call::Get, disp, dest.len() as u64, |place, offset| match place {
            Place::Segment(at) => Ok(self.bulk.get(at.rank.at(at.disp.plus(offset)).unwatched(), dest)?),
            Place::Leased(_) | Place::TwoSided(..) => place.read(self.ra, offset, dest),
        })
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
    core: &Core<'_, A>,
    body: impl for<'scope> FnOnce(&Batch<'scope, 'env, A>) -> Result<R>,
    behind: impl FnOnce() -> B,
) -> Result<(R, B)> {
    let window = std::ptr::from_ref(core).addr();
    bulk::scope(core.ra, |bulk| {
        let done = body(&Batch { ra: bulk.ra(), window, bulk });
        Ok(done.map(|done| (done, behind())))
    })?
}
