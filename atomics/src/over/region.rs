//! A range of every rank's segment, with its own symmetric heap.
//!
//! A symmetric heap returns equal displacements only where all ranks make the same calls in the same order. A program
//! with millions of objects, each of which a rank makes at its first use, has no such order. It gives each object a
//! fixed range instead, and makes it on a [`Region`] of that range. So the ranks agree, at whatever time each makes its
//! part.

use std::fmt;

use crate::model::fabric::{Bytes, Completion, Delay, Extras, Fabric, Span, Word, WordOp, WorldView};
use crate::{Disp, Rank, RemoteAtomics, Request, Result, SymmetricHeap, Time, Until};

/// A handle with the ranks, memory and operations of another [`RemoteAtomics`], and with a heap over one range of the
/// segments.
///
/// Displacements are the parent's displacements, so an object that was made on a region is used on the parent.
///
/// ```
/// use rmalab_atomics::{Disp, Region, RemoteAtomics, World};
///
/// let first = World::threads(2).try_run(|ra| {
///     let objects = ra.heap().alloc(100 * 128, 128)?;
///     // Rank 1 makes object 7 only; rank 0 also makes others.
///     let made = if ra.rank().0 == 0 { 5..8 } else { 7..8 };
///     let mut last = objects;
///     for object in made {
///         last = Region::new(ra, Disp(objects.0 + object * 128), 128).heap().alloc(8, 8)?;
///     }
///     Ok::<u64, rmalab_atomics::Error>(last.0 - objects.0)
/// })?;
/// assert_eq!(first, [7 * 128, 7 * 128]);
/// # Ok::<(), rmalab_atomics::Error>(())
/// ```
pub struct Region<'a, A: ?Sized> {
    inner: &'a A,
    view: WorldView,
}

impl<'a, A: RemoteAtomics + ?Sized> Region<'a, A> {
    /// Makes a handle over `bytes` bytes from `start` on of the segments of `inner`, all of them free and zero.
    ///
    /// The range is an allocation of the heap of `inner`, or a range that nothing else uses.
    pub fn new(inner: &'a A, start: Disp, bytes: u64) -> Region<'a, A> {
        Region { inner, view: inner.view().with_heap(SymmetricHeap::over(start, bytes)) }
    }
}

impl<A: ?Sized> fmt::Debug for Region<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("rank", &self.view.rank())
            .field("heap", self.view.heap())
            .finish_non_exhaustive()
    }
}

impl<A: RemoteAtomics + ?Sized> Fabric for Region<'_, A> {
    fn view(&self) -> &WorldView {
        &self.view
    }

    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        self.inner.word(at, op)
    }

    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.start_word(at, op, result) }
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        // SAFETY: the caller's promise, passed on, since this view has the parent's ranks and segments.
        unsafe { self.inner.transfer(at, bytes, until) }
    }

    fn done(&self, request: &Request) -> Result<bool> {
        self.inner.done(request)
    }

    fn finish(&self, request: Request) -> Result<()> {
        self.inner.finish(request)
    }

    fn complete(&self, target: Option<Rank>) -> Result<()> {
        self.inner.complete(target)
    }

    fn keep_order(&self, target: Rank) -> Result<()> {
        self.inner.keep_order(target)
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.inner.wait_on(own, until, deadline)
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        self.inner.delay(delay)
    }

    fn clock(&self) -> Time {
        self.inner.clock()
    }

    fn extras(&self) -> Extras<'_> {
        self.inner.extras()
    }
}
