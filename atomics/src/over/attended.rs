//! The `attended` wrapper: a handle that works for other ranks while it waits.
//!
//! Where a layer above serves requests, the awaited rank may need a rank that waits inside a lock or a barrier. [`Attended`]
//! forwards every operation, and calls a function of that layer repeatedly while it waits. A handle that is not wrapped pays
//! nothing.

use std::fmt;
use std::time::Duration;

use crate::model::fabric::{
    Bytes, Completion, Delay, Extras, Fabric, Leaving, OuterWorld, Span, Word, WordOp, WorldView,
};
use crate::{Rank, RemoteAtomics, Request, Result, Time, Until};

/// A deadline that has passed, by any clock. Such a wait only looks at the word, for the number of times before a wait looks at the
/// clock.
const PASSED: Time = Time(0);

/// The first wait between two calls of the function.
const SHORTEST: Duration = Duration::from_micros(2);

/// The first wait where ranks share processors. Most waits there last until the awaited rank has had its turn, so that an
/// earlier call takes time from that rank.
const SHORTEST_SHARING: Duration = Duration::from_micros(20);

/// The longest wait between two calls of the function. Each call that finds nothing doubles the wait, up to this
/// length.
const LONGEST: Duration = Duration::from_millis(2);

/// The result of a call of an [`Attended`] handle's function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// No request can ever need this rank. The wait goes on without further calls.
    Never,
    /// There was nothing to serve.
    Nothing,
    /// A request has arrived, and was served.
    Something,
}

/// A rank whose waits call a function repeatedly.
///
/// ```
/// use rmalab_atomics::{Attended, Rank, RemoteAtomics, Served, Until, World};
///
/// World::threads(1).try_run(|ra| {
///     let word = ra.heap().alloc(8, 8)?;
///     // The function, which this rank calls while it waits, ends the wait.
///     let attended = Attended::new(ra, || ra.fetch_add(Rank(0).at(word), 1).map(|_| Served::Something));
///     attended.wait_until(word, Until::Ge(3)).map(drop)
/// })?;
/// # Ok::<(), rmalab_atomics::Error>(())
/// ```
pub struct Attended<'a, A: RemoteAtomics + ?Sized, F> {
    inner: &'a A,
    serve: F,
    /// The wait before the first call of the function.
    first: Duration,
}

impl<'a, A: RemoteAtomics + ?Sized, F: Fn() -> Result<Served>> Attended<'a, A, F> {
    /// Wraps the handle `inner`, so that its waits call `serve`.
    pub fn new(inner: &'a A, serve: F) -> Self {
        Attended { inner, serve, first: Duration::ZERO }
    }

    /// Returns the handle with waits that begin to call the function after some microseconds.
    ///
    /// It is for functions that cost more than most waits take.
    #[must_use]
    pub fn late(self) -> Self {
        let first = if self.inner.capabilities().shares_processors { SHORTEST_SHARING } else { SHORTEST };
        Attended { first, ..self }
    }

    /// Serves until the word meets the condition, and returns it. Returns `None` once no further call of the function
    /// is needed.
    fn attend(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        let mut step = SHORTEST.max(self.first);
        if !self.first.is_zero() {
            // Most waits end before a look at the clock would.
            if let Some(value) = self.inner.wait_on(own, until, Some(PASSED))? {
                return Ok(Some(value));
            }
            let next = self.inner.clock().after(self.first);
            if deadline.is_some_and(|deadline| deadline <= next) {
                return Ok(None);
            }
            if let Some(value) = self.inner.wait_on(own, until, Some(next))? {
                return Ok(Some(value));
            }
        }
        loop {
            match (self.serve)()? {
                Served::Never => return Ok(None),
                Served::Nothing => step = (2 * step).min(LONGEST),
                Served::Something => step = SHORTEST,
            }
            let next = self.inner.clock().after(step);
            if deadline.is_some_and(|deadline| deadline <= next) {
                return Ok(None);
            }
            if let Some(value) = self.inner.wait_on(own, until, Some(next))? {
                return Ok(Some(value));
            }
        }
    }
}

impl<A: RemoteAtomics + ?Sized, F> fmt::Debug for Attended<'_, A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attended").field("rank", &self.inner.rank()).finish_non_exhaustive()
    }
}

impl<A: RemoteAtomics + ?Sized, F: Fn() -> Result<Served>> Fabric for Attended<'_, A, F> {
    #[inline(always)]
    fn view(&self) -> &WorldView {
        self.inner.view()
    }

    #[inline(always)]
    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        self.inner.word(at, op)
    }

    #[inline(always)]
    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.start_word(at, op, result) }
    }

    #[inline(always)]
    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.transfer(at, bytes, until) }
    }

    #[inline(always)]
    fn done(&self, request: &Request) -> Result<bool> {
        self.inner.done(request)
    }

    #[inline(always)]
    fn finish(&self, request: Request) -> Result<()> {
        self.inner.finish(request)
    }

    #[inline(always)]
    fn complete(&self, target: Option<Rank>) -> Result<()> {
        self.inner.complete(target)
    }

    fn keep_order(&self, target: Rank) -> Result<()> {
        self.inner.keep_order(target)
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        match self.attend(own, until, deadline)? {
            Some(value) => Ok(Some(value)),
            None => self.inner.wait_on(own, until, deadline),
        }
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        if let Delay::Operations(_) = delay {
            (self.serve)()?;
        }
        self.inner.delay(delay)
    }

    #[inline(always)]
    fn clock(&self) -> Time {
        self.inner.clock()
    }

    /// The function belongs to one thread, so there is no handle for several.
    #[inline(always)]
    fn extras(&self) -> Extras<'_> {
        let inner = self.inner.extras();
        let leaving = inner.leaving.is_some().then_some(self as &dyn Leaving);
        Extras { shared: None, leaving, outer: Some(self), ..inner }
    }
}

impl<A: RemoteAtomics + ?Sized, F: Fn() -> Result<Served>> Leaving for Attended<'_, A, F> {
    /// Learns that `writer` has left only once there is nothing left to serve.
    fn wait_on_writer(&self, own: Word, until: Until, writer: Rank) -> Result<u64> {
        match self.attend(own, until, None)? {
            Some(value) => Ok(value),
            None => self.inner.wait_until_from(own.disp(), until, writer),
        }
    }

    fn forsake(&self, what: &'static str) {
        self.inner.forsake(what);
    }

    fn forsaken(&self) -> Option<&'static str> {
        self.inner.forsaken()
    }
}

impl<A: RemoteAtomics + ?Sized, F> OuterWorld for Attended<'_, A, F> {
    fn number_of(&self, rank: Rank) -> Rank {
        self.inner.world_rank(rank)
    }

    fn handle(&self) -> &dyn RemoteAtomics {
        self.inner.whole_world()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{Disp, WholeWorld, World};

    #[test]
    fn waits_serve_until_their_condition_holds() {
        World::threads(1)
            .run(|ra| {
                let word = ra.heap().alloc(8, 8).unwrap();
                let calls = Cell::new(0);
                let attended = Attended::new(ra, || {
                    calls.set(calls.get() + 1);
                    ra.fetch_add(Rank(0).at(word), u64::from(calls.get() % 2 == 0))?;
                    Ok(if calls.get() % 2 == 0 { Served::Something } else { Served::Nothing })
                });
                assert_eq!(attended.wait_until(word, Until::Ge(2)).unwrap(), 2);
                assert_eq!(calls.get(), 4);
                attended.pause(1).unwrap();
                assert_eq!(calls.get(), 5);
                let deadline = ra.now().after(Duration::from_secs(3600));
                assert_eq!(attended.wait_until_deadline(word, Until::Ge(3), deadline).unwrap(), Some(3));
                assert_eq!(attended.wait_until_deadline(word, Until::Eq(7), ra.now()).unwrap(), None);
            })
            .unwrap();
    }

    #[test]
    fn a_late_handle_does_not_serve_a_wait_that_is_over() {
        World::threads(1)
            .run(|ra| {
                let word = ra.heap().alloc(8, 8).unwrap();
                let calls = Cell::new(0);
                let attended = Attended::new(ra, || {
                    calls.set(calls.get() + 1);
                    ra.fetch_add(Rank(0).at(word), 1).map(|_| Served::Something)
                })
                .late();
                assert_eq!(attended.wait_until(word, Until::Eq(0)).unwrap(), 0);
                assert_eq!(calls.get(), 0);
                assert_eq!(attended.wait_until(word, Until::Ge(2)).unwrap(), 2);
                assert_eq!(calls.get(), 2);
            })
            .unwrap();
    }

    #[test]
    fn every_handle_leads_to_the_handle_of_the_world() {
        World::threads(3)
            .run(|ra| {
                let subset = crate::Subset::of(ra, &[Rank(2), Rank(0)]).unwrap();
                let Some(subset) = &subset else { return };
                let counted = crate::Counted::new(subset);
                let attended = Attended::new(&counted, || Ok(Served::Never));
                for world in [ra.whole_world(), subset.whole_world(), counted.whole_world(), attended.whole_world()] {
                    assert_eq!((world.rank(), world.size()), (ra.rank(), 3));
                    assert!(std::ptr::addr_eq(world.heap(), ra.heap()));
                }
                // A counting handle has all parts of the world.
                let counted = crate::Counted::new(ra);
                counted.whole_world().get(Rank(1).at(Disp(0))).unwrap();
                assert_eq!(counted.counts().get.total(), 1);
            })
            .unwrap();
    }
}
