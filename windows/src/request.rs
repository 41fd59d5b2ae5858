//! Operations that are under way, with requests.

use bytemuck::Pod;
use rmalab_atomics::RemoteAtomics;
use rmalab_atomics::bulk::Owned;

use crate::Result;
use crate::raw::core::WindowCore;

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
