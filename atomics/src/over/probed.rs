//! The `probed` wrapper: a handle for tests of a lock that may be wrong.
//!
//! A broken lock shows its fault if other ranks run between two of its operations, and a lock that is never released makes
//! all ranks wait forever. [`Probed`] forwards every operation, and lets other threads run before some of them. It gives up
//! with an error once no rank has made progress for a while.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use crate::model::fabric::{Bytes, Completion, Delay, Extras, Fabric, OuterWorld, Span, Word, WordOp, WorldView};
use crate::{Address, Disp, Error, Operation, Rank, RemoteAtomics, Request, Result, Time, Until};

/// The number of operations between two looks at the clock, which is also the length of a stretch in which other
/// threads run.
const STRETCH: u64 = 64;

/// In a stretch, one operation out of this many lets other threads run first.
const ONE_IN: u64 = 8;

/// A rank whose operations fail once no rank makes progress.
///
/// Every rank reports its next step with [`begin`](Self::begin), which counts as progress.
pub struct Probed<'a, A: RemoteAtomics + ?Sized> {
    inner: &'a A,
    view: &'a WorldView,
    name: &'a str,
    /// A word at each rank: the number of its steps.
    beats: Disp,
    patience: Duration,
    doing: Cell<&'static str>,
    last: Cell<(Operation, Address)>,
    operations: Cell<u64>,
    /// The time since which no rank has made progress, and the sum of all ranks' beats then; no sum before the first
    /// look.
    since: Cell<(Time, Option<u64>)>,
}

impl<'a, A: RemoteAtomics + ?Sized> Probed<'a, A> {
    /// Wraps the handle `inner`, for a test of the lock `name`. `beats` is a word at every rank that nothing else uses.
    /// Ranks wait for the time `patience` until one of them makes progress.
    pub fn new(inner: &'a A, name: &'a str, beats: Disp, patience: Duration) -> Self {
        let view = inner.view();
        Probed {
            inner,
            view,
            name,
            beats,
            patience,
            doing: Cell::new("nothing yet"),
            last: Cell::new((Operation::Get, view.rank().at(beats))),
            operations: Cell::new(0),
            since: Cell::new((inner.clock(), None)),
        }
    }

    /// Reports this rank's next step, which is progress.
    ///
    /// # Errors
    ///
    /// The errors of the world.
    pub fn begin(&self, doing: &'static str) -> Result<()> {
        self.doing.set(doing);
        self.inner.fetch_add(self.view.rank().at(self.beats), 1)?;
        self.since.set((self.inner.clock(), None));
        Ok(())
    }

    /// Notes an operation, and lets other threads run before it, if its turn has come.
    fn note(&self, operation: Operation, at: Address) -> Result<()> {
        self.last.set((operation, at));
        let number = self.operations.get() + 1;
        self.operations.set(number);
        if number.is_multiple_of(STRETCH) {
            self.look()?;
        }
        // In every other stretch. In between, ranks run undisturbed.
        let mixed = (number + u64::from(self.view.rank().0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        if (number / STRETCH).is_multiple_of(2) && mixed.is_multiple_of(ONE_IN) {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Fails if no rank has made progress for too long.
    fn look(&self) -> Result<()> {
        let (since, sum) = self.since.get();
        let now = self.inner.clock();
        let limit = if sum.is_some() { self.patience } else { self.patience / 4 };
        if now.since(since) < limit {
            return Ok(());
        }
        let mut all = 0_u64;
        for rank in (0..self.view.size()).map(Rank) {
            all = all.wrapping_add(self.inner.get(rank.at(self.beats))?);
        }
        if sum != Some(all) {
            self.since.set((now, Some(all)));
            return Ok(());
        }
        Err(self.stuck())
    }

    #[cold]
    fn stuck(&self) -> Error {
        let (operation, at) = self.last.get();
        let (rank, name, doing, patience) = (self.view.rank(), self.name, self.doing.get(), self.patience);
        let what = format!(
            "{rank} is in {doing} of {name}, its last operation was {operation} on {at}, and no rank has come further for \
             {patience:?}: the lock is not released, or a wake-up is lost"
        );
        Error::Stuck { rank, what: what.into() }
    }
}

impl<A: RemoteAtomics + ?Sized> fmt::Debug for Probed<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probed").field("rank", &self.view.rank()).field("name", &self.name).finish_non_exhaustive()
    }
}

impl<A: RemoteAtomics + ?Sized> Fabric for Probed<'_, A> {
    fn view(&self) -> &WorldView {
        self.view
    }

    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        self.note(op.operation(), at.address())?;
        self.inner.word(at, op)
    }

    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        self.note(op.operation(), at.address())?;
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.start_word(at, op, result) }
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        let operation = if matches!(bytes, Bytes::Get(_)) { Operation::GetBytes } else { Operation::PutBytes };
        self.note(operation, at.address())?;
        // SAFETY: the caller's promise, passed on.
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
        self.note(Operation::WaitUntil, own.address())?;
        loop {
            let next = self.inner.clock().after(self.patience / 4);
            match deadline {
                Some(deadline) if deadline <= next => return self.inner.wait_on(own, until, Some(deadline)),
                _ => {}
            }
            if let Some(value) = self.inner.wait_on(own, until, Some(next))? {
                return Ok(Some(value));
            }
            self.look()?;
        }
    }

    /// Looks at the clock every time, since a pause takes longer than that.
    fn delay(&self, delay: Delay) -> Result<()> {
        self.inner.delay(delay)?;
        self.look()
    }

    fn clock(&self) -> Time {
        self.inner.clock()
    }

    /// The notes belong to one thread, so there is no handle for several.
    fn extras(&self) -> Extras<'_> {
        Extras { shared: None, outer: Some(self), ..self.inner.extras() }
    }
}

impl<A: RemoteAtomics + ?Sized> OuterWorld for Probed<'_, A> {
    fn number_of(&self, rank: Rank) -> Rank {
        self.inner.world_rank(rank)
    }

    fn handle(&self) -> &dyn RemoteAtomics {
        self.inner.whole_world()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collectives, WORD, World};

    const PATIENCE: Duration = Duration::from_millis(50);

    /// Rank 0 holds the lock for which rank 1 waits, and waits for rank 1.
    fn stuck(wait: impl Fn(&Probed<'_, crate::Mapped>, Disp) -> Result<u64> + Sync) -> Error {
        let failed = World::threads(2).run(|ra| {
            let (beats, word) = (ra.heap().alloc(WORD, WORD).unwrap(), ra.heap().alloc(WORD, WORD).unwrap());
            let probed = Probed::new(ra, "never-free", beats, PATIENCE);
            probed.begin("acquire").unwrap();
            match wait(&probed, word).unwrap_err() {
                // Both ranks may report it, or only one. Then the other gets no error, since the first rank still
                // exists.
                error @ Error::Stuck { .. } => error,
                other => panic!("{other}"),
            }
        });
        failed.unwrap().swap_remove(1)
    }

    #[test]
    fn a_rank_that_waits_forever_gets_an_error_that_names_its_call() {
        let polled = stuck(|ra, word| {
            while ra.get(Rank(0).at(word))? == 0 {}
            Ok(0)
        });
        let said = polled.to_string();
        assert!(said.contains("rank 1") && said.contains("never-free") && said.contains("acquire"), "{said}");
        assert!(said.contains(&format!("{} on {}", Operation::Get, Rank(0).at(Disp(8)))), "{said}");
        let paused = stuck(|ra, word| {
            while ra.compare_and_swap(Rank(1).at(word), 1, 2)? == 0 {
                ra.pause(8)?;
            }
            Ok(0)
        });
        assert!(paused.to_string().contains("compare_and_swap on"), "{paused}");
        let waited = stuck(|ra, word| ra.wait_until(word, Until::Eq(7)));
        assert!(waited.to_string().contains("wait_until on"), "{waited}");
    }

    #[test]
    fn a_rank_is_patient_while_another_one_comes_further() {
        World::threads(2)
            .run(|ra| {
                let (beats, word) = (ra.heap().alloc(WORD, WORD).unwrap(), ra.heap().alloc(WORD, WORD).unwrap());
                let probed = Probed::new(ra, "slow", beats, PATIENCE);
                if ra.rank() == Rank(0) {
                    for _ in 0..40 {
                        probed.begin("work").unwrap();
                        std::thread::sleep(PATIENCE / 10);
                    }
                    probed.put(Rank(1).at(word), 1).unwrap();
                } else {
                    assert_eq!(probed.wait_until(word, Until::Eq(1)).unwrap(), 1);
                }
                Collectives::new(ra).unwrap().barrier().unwrap();
            })
            .unwrap();
    }
}
