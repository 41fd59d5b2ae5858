//! Requests of operations that are under way.

use bytemuck::Pod;
use rmalab_atomics::RemoteAtomics;
use rmalab_atomics::bulk::Owned;

use crate::Result;
use crate::raw::core::WindowCore;

/// An operation with a request, which owns its buffer.
///
/// As in MPI, a wait for a put or an accumulate frees the buffer, and does not complete the operation at the target. After a wait for a
/// get, the data have arrived. A request may outlive its epoch, whose end completes the operation. A later wait takes no time. A request
/// borrows the window, so an epoch that takes the whole window (`&mut`) can begin only when no request is left. Dropping a request waits
/// for it. Forgetting one leaks its buffer, and nothing else.
#[derive(Debug)]
#[must_use = "`wait` returns the buffer"]
pub struct Request<'e, A: RemoteAtomics + ?Sized, T: Pod> {
    state: RequestState<'e, A, T>,
}

#[derive(Debug)]
enum RequestState<'e, A: RemoteAtomics + ?Sized, T: Pod> {
    Done(Vec<T>),
    UnderWay(Owned<'e, A, T>, UnderWay<'e, A>),
    /// Updates by the elements of the buffer, whose results the program does not need.
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
        Request { state: RequestState::Done(buffer) }
    }

    pub(crate) fn under_way(core: &'e WindowCore<'e, A>, owned: Owned<'e, A, T>) -> Self {
        Request { state: RequestState::UnderWay(owned, UnderWay::new(core)) }
    }

    pub(crate) fn updating(core: &'e WindowCore<'e, A>, source: Vec<T>, results: Owned<'e, A, u64>) -> Self {
        Request { state: RequestState::Updating(source, results, UnderWay::new(core)) }
    }

    /// Returns whether [`wait`](Self::wait) would return at once (`MPI_Test`).
    ///
    /// # Errors
    ///
    /// The errors of the network.
    pub fn test(&mut self) -> Result<bool> {
        match &mut self.state {
            RequestState::Done(_) => Ok(true),
            RequestState::UnderWay(owned, UnderWay(core)) => owned.test().map_err(|error| core.hear(error)),
            RequestState::Updating(_, results, UnderWay(core)) => results.test().map_err(|error| core.hear(error)),
        }
    }

    /// Waits until the operation is complete at this rank, and returns its buffer (`MPI_Wait`).
    ///
    /// # Errors
    ///
    /// The errors of the network. An error drops the buffer.
    pub fn wait(self) -> Result<Vec<T>> {
        match self.state {
            RequestState::Done(buffer) => Ok(buffer),
            RequestState::UnderWay(owned, under_way) => owned.wait().map_err(|error| under_way.0.hear(error)),
            RequestState::Updating(source, results, under_way) => match results.wait() {
                Ok(_) => Ok(source),
                Err(error) => Err(under_way.0.hear(error)),
            },
        }
    }
}
