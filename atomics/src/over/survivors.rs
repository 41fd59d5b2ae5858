//! A world for the ranks that outlive a failure.
//!
//! # Source
//!
//! `MPI_Comm_shrink` and `MPI_Comm_failure_ack` of User-Level Failure Mitigation: W. Bland, A. Bouteiller, T. Herault, G. Bosilca,
//! J. Dongarra, Post-failure recovery of MPI communication capability, International Journal of High Performance Computing
//! Applications 27(3), 2013, DOI 10.1177/1094342013488238.
//!
//! # State
//!
//! | words | homes | written by | value |
//! | --- | --- | --- | --- |
//! | decided, ⌈p / 63⌉ words | each rank, or rank 0 if memory [lasts](crate::Capabilities::lasting_memory) | the first rank that shrinks there | 0; then a bit for each rank that has failed, and bit 63 |
//!
//! # Agreement
//!
//! Each rank proposes the failures that it knows and has silenced. It goes through all homes in the order of the ranks, skips
//! those that have failed, and puts its proposal there by a compare-and-swap. Where it finds another proposal, it goes
//! on with that one. The last one is the decision. This is consensus from shared objects of which some fail: M. Herlihy,
//! Wait-free synchronization, TOPLAS 13(1), 1991, section 3 (a compare-and-swap decides); P. Jayanti, T. D. Chandra, S. Toueg,
//! Fault-tolerant wait-free shared objects, JACM 45(3), 1998 (all objects in one order outlast all but one of them).
//!
//! # Invariants
//!
//! * I1. A word of a home that lives changes once. All ranks that have come through it have the same proposal for it
//!   afterwards, and put that into all later homes. Of two ranks that decide, the later one has lived until then, so it is
//!   such a home for both. So all decide alike.
//! * I2. A proposal names only ranks that have failed, so every live rank is a member.
//! * I3. A rank reads the failures that it proposes after a silence. So it knows all failures of the first silence that a
//!   shrinking rank has made, and each proposal has them. Therefore the decision names a rank, even if its words come
//!   from different ranks. All live ranks know the failures in a proposal, since they were silenced.
//! * I4. The words and the arena are reserved while all ranks live. So the survivors need not agree on their later allocations.
//! * I5. A rank revokes its world only after a silence of the failures that it knows. So a rank that shrinks because of the
//!   revocation knows them, too. Without any failure, all proposals are empty.
//! * I6. Worlds have generations, and a revocation names its own one. A rank enters the next generation when it has shrunk. So
//!   a late revocation ends no wait of the new world.

use crate::model::remote::survival;
use crate::{Disp, Error, Failed, Rank, RemoteAtomics, Result, Subset, WORD};

/// The memory that the ranks of a world reserve to go on after a failure: room for a world of the survivors.
///
/// One such object serves one failure, or several at the same time. The survivors reserve the next one in their new
/// world.
///
/// ```
/// use rmalab_atomics::{RemoteAtomics, Result, Subset, Survivors};
///
/// fn serve<A: RemoteAtomics>(ra: &A, work: impl Fn(&A) -> Result<()>, go_on: impl Fn(&Subset<'_, A>) -> Result<()>) -> Result<()> {
///     let reserved = Survivors::reserve(ra, 64 << 10)?;
///     match work(ra) {
///         Err(rmalab_atomics::Error::PeerFailed { .. }) => {
///             let (survivors, failed) = reserved.shrink()?;
///             println!("{failed} failed; {} ranks go on", survivors.size());
///             go_on(&survivors)
///         }
///         other => other,
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Survivors<'a, A: RemoteAtomics + ?Sized> {
    parent: &'a A,
    decided: Disp,
    arena: Disp,
    arena_bytes: u64,
    generation: u32,
}

impl<'a, A: RemoteAtomics + ?Sized> Survivors<'a, A> {
    /// Reserves the room, `arena_bytes` bytes of each rank's symmetric heap for the new world's own heap. All ranks call it at the same
    /// point of their sequences of allocations; the ranks do not communicate.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](Error::Unsupported) on a backend that ends with its first failure, and [`OutOfMemory`](Error::OutOfMemory).
    pub fn reserve(parent: &'a A, arena_bytes: u64) -> Result<Survivors<'a, A>> {
        let generation = survival(parent.extras())?.generation();
        let decided = parent.heap().alloc(words(parent.size()) * WORD, WORD)?;
        let arena = Subset::reserve_arena(parent, arena_bytes)?;
        Ok(Survivors { parent, decided, arena, arena_bytes, generation })
    }

    /// Makes a world of the ranks that have not failed, numbered in their old order. Acknowledges the failures, and silences the ranks that
    /// have failed. Returns these ranks, by their old numbers.
    ///
    /// Every live rank calls it once one of its calls has returned [`PeerFailed`](Error::PeerFailed) or [`Revoked`](Error::Revoked). Every
    /// wait of every rank does that until its rank has acknowledged the failure, or after a [revocation](Self::revoke). All of them get the
    /// same world. A rank that fails later may be a member. Waits of the new world then return that failure.
    ///
    /// Any of the parent's ranks may be among the failed ranks. Over `verbs` there is one limit: the process that hosts the hub
    /// of the job has to live. That is the launcher of this crate; other launchers leave it to rank 0.
    ///
    /// It costs a compare-and-swap for each 63 ranks, on backends without [lasting memory](crate::Capabilities::lasting_memory) at each rank.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when no rank is known to have failed and the world was not revoked, and the errors of the network.
    pub fn shrink(self) -> Result<(Subset<'a, A>, Failed)> {
        let parent = self.parent;
        let mut known = parent.failed()?;
        if known.is_empty() && parent.pause(0).is_ok() {
            return Err(Error::world("shrink: no rank is known to have failed, so all ranks can go on in their world"));
        }
        // I3. The failures are acknowledged only once they are decided: waits of the new world end with all others.
        loop {
            parent.silence(&known)?;
            let now = parent.failed()?;
            if now == known {
                break;
            }
            known = now;
        }
        let failed = self.agree(&known)?;
        parent.acknowledge(&failed)?;
        parent.silence(&failed)?;
        // I6.
        survival(parent.extras())?.enter(self.generation + 1);
        let members: Vec<Rank> = (0..parent.size()).map(Rank).filter(|&rank| !failed.contains(rank)).collect();
        // I2.
        let subset = Subset::over(parent, &members, self.arena, self.arena_bytes)?.expect("a live rank survives");
        Ok((subset, failed))
    }

    /// Ends the waits and pauses of all live ranks of this world that have not [shrunk](Self::shrink), with [`Revoked`](Error::Revoked).
    ///
    /// One rank calls it, so that all other ranks come to shrink. Without it, a rank that has acknowledged the failure in another way may
    /// wait forever for a rank that shrinks. Later waits in the world end, too. Operations on words and bytes go on. A rank that has shrunk
    /// does not notice a later revocation of its old world. Revoking twice is no error.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](Error::Unsupported) under an engine that controls the ranks, and the errors of [`RemoteAtomics::silence`].
    pub fn revoke(&self) -> Result<()> {
        let parent = self.parent;
        // I5.
        parent.silence(&parent.failed()?)?;
        survival(parent.extras())?.revoke(self.generation)
    }

    /// Returns the failures on which all survivors agree. `known` were silenced.
    fn agree(&self, known: &Failed) -> Result<Failed> {
        let parent = self.parent;
        let mut proposal: Vec<u64> = (0..words(parent.size()))
            .map(|word| {
                let of_word = known.iter().filter(|rank| u64::from(rank.0) / BITS == word);
                of_word.fold(DECIDED, |bits, rank| bits | 1 << (u64::from(rank.0) % BITS))
            })
            .collect();
        let homes = if parent.capabilities().lasting_memory { 1 } else { parent.size() };
        'homes: for home in (0..homes).map(Rank) {
            for (word, proposed) in (0..).zip(&mut proposal) {
                match parent.compare_and_swap(home.at(self.decided.word(word)), 0, *proposed) {
                    Ok(0) => {}
                    Ok(decided) => *proposed = decided,
                    Err(Error::PeerFailed { .. }) if parent.failed()?.contains(home) => continue 'homes,
                    Err(error) => return Err(error),
                }
            }
        }
        let ranks = (0..parent.size()).map(Rank);
        Ok(ranks
            .filter(|rank| proposal[(u64::from(rank.0) / BITS) as usize] >> (u64::from(rank.0) % BITS) & 1 == 1)
            .collect())
    }
}

/// The ranks of a word of the decision.
const BITS: u64 = 63;
/// The bit of each word that is decided.
const DECIDED: u64 = 1 << 63;

/// Returns the number of words of a decision of `size` ranks.
fn words(size: u32) -> u64 {
    u64::from(size).div_ceil(BITS)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use std::sync::Mutex;

    use super::*;
    use crate::model::fabric::{Bytes, Completion, Delay, Extras, Fabric, Failures, Span, Word, WordOp, WorldView};
    use crate::over::crashing::Unwound;
    use crate::{Capabilities, Collectives, Crashing, Mapped, Request, Time, Until, World};

    const DIED: &str = "it dies";

    /// Runs `body` on threads, where at least one rank ends by [`die`]. Panics if another rank panics.
    fn with_deaths(ranks: u32, body: impl Fn(&Mapped) + Sync) {
        // The world ends with the first panic, which is that of the rank that dies.
        let others = Mutex::new(None);
        let world = || {
            World::threads(ranks).run(|ra| {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(ra))) {
                    if panic.downcast_ref::<&str>() != Some(&DIED) {
                        others.lock().unwrap().get_or_insert(panic);
                    }
                    die();
                }
            })
        };
        let died = catch_unwind(AssertUnwindSafe(world)).unwrap_err();
        if let Some(panic) = others.into_inner().unwrap() {
            resume_unwind(panic);
        }
        assert_eq!(died.downcast_ref::<&str>(), Some(&DIED));
    }

    fn die() -> ! {
        resume_unwind(Box::new(DIED))
    }

    /// Waits until an unacknowledged failure ends a wait.
    fn until_a_failure(ra: &dyn RemoteAtomics) {
        while ra.pause(64).is_ok() {}
    }

    #[test]
    fn survivors_of_one_failure_after_another_are_worlds() {
        for first in [0, 2] {
            with_deaths(5, |ra| {
                let reserved = Survivors::reserve(ra, 256 << 10).unwrap();
                // Allocations of one rank alone, as an interrupted program has them.
                for _ in 0..ra.rank().0 {
                    ra.heap().alloc(WORD, WORD).unwrap();
                }
                if ra.rank() == Rank(first) {
                    die();
                }
                until_a_failure(ra);
                let (four, failed) = reserved.shrink().unwrap();
                assert_eq!(failed, Failed::from_iter([Rank(first)]));
                assert_eq!((four.size(), four.inner(Rank(first))), (4, None));
                let all = Collectives::new(&four).unwrap();
                let mut sum = [1 << ra.rank().0];
                all.allreduce(&mut sum, |a, b| a + b).unwrap();
                assert_eq!(sum, [0b11111 & !(1 << first)]);
                let reserved = Survivors::reserve(&four, 64 << 10).unwrap();
                match all.barrier() {
                    // A rank may find rank 4's failure while it is still inside.
                    Ok(()) | Err(Error::PeerFailed { rank: Rank(4) }) => {}
                    Err(error) => panic!("{error}"),
                }
                if ra.rank() == Rank(4) {
                    die();
                }
                until_a_failure(&four);
                let (three, failed) = reserved.shrink().unwrap();
                assert_eq!((three.size(), failed), (3, Failed::from_iter([Rank(3)])), "by its number among four");
                let mut sum = [1 << ra.rank().0];
                Collectives::new(&three).unwrap().allreduce(&mut sum, |a, b| a + b).unwrap();
                assert_eq!(sum, [0b01111 & !(1 << first)]);
            });
        }
    }

    /// A handle of ranks whose memory is lost with them.
    struct Forgetful<'a> {
        inner: &'a dyn RemoteAtomics,
        view: WorldView,
    }

    impl<'a> Forgetful<'a> {
        fn new(inner: &'a dyn RemoteAtomics) -> Forgetful<'a> {
            let capabilities = Capabilities { lasting_memory: false, ..inner.capabilities() };
            Forgetful { inner, view: inner.view().clone().with_capabilities(capabilities) }
        }

        fn check(&self, rank: Rank) -> Result<()> {
            if self.inner.failed()?.contains(rank) { Err(Error::PeerFailed { rank }) } else { Ok(()) }
        }
    }

    impl Fabric for Forgetful<'_> {
        fn view(&self) -> &WorldView {
            &self.view
        }

        fn word(&self, at: Word, op: WordOp) -> Result<u64> {
            self.check(at.rank())?;
            // A rank may also fail between the check and the operation, which is then done at memory that is lost.
            self.inner.word(at, op)
        }

        unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
            self.check(at.rank())?;
            // SAFETY: the caller's promise, passed on.
            unsafe { self.inner.start_word(at, op, result) }
        }

        unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
            self.check(at.rank())?;
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
            Extras { failures: Some(self as &dyn Failures), ..Extras::default() }
        }
    }

    impl Failures for Forgetful<'_> {
        fn failed(&self) -> Result<Failed> {
            self.inner.failed()
        }

        fn acknowledge(&self, failed: &Failed) -> Result<()> {
            self.inner.acknowledge(failed)
        }

        fn silence(&self, failed: &Failed) -> Result<()> {
            self.inner.silence(failed)
        }

        fn expel(&self, rank: Rank) -> Result<()> {
            self.inner.expel(rank)
        }

        fn generation(&self) -> u32 {
            survival(self.inner.extras()).unwrap().generation()
        }

        fn enter(&self, generation: u32) {
            survival(self.inner.extras()).unwrap().enter(generation);
        }

        fn revoke(&self, generation: u32) -> Result<()> {
            survival(self.inner.extras())?.revoke(generation)
        }
    }

    /// Rank 1 of 4 dies, and `victim` ahead of its operation `ahead_of` while it shrinks. Returns whether that was reached.
    fn shrinks_amid_deaths(victim: Rank, ahead_of: u64) -> bool {
        let decided = Mutex::new(Vec::new());
        let died = Mutex::new(false);
        with_deaths(4, |ra| {
            let ra = &Forgetful::new(ra);
            let ra = &Crashing::new(ra, None);
            let reserved = Survivors::reserve(ra, 64 << 10).unwrap();
            if ra.rank() == Rank(1) {
                die();
            }
            until_a_failure(ra);
            if ra.rank() == victim {
                ra.arm_unwind(ahead_of);
            }
            let shrunk = catch_unwind(AssertUnwindSafe(|| reserved.shrink().unwrap()));
            ra.arm(None);
            let (survivors, failed) = shrunk.unwrap_or_else(|panic| {
                assert!(panic.is::<Unwound>());
                *died.lock().unwrap() = true;
                die()
            });
            assert!(failed.contains(Rank(1)), "{failed}");
            decided.lock().unwrap().push(failed.clone());
            // Only the failure of a member ends its waits.
            let waited = survivors.pause(1);
            let is_member = survivors.inner(victim).is_some();
            let of_member = matches!(waited, Err(Error::PeerFailed { rank }) if is_member && rank == victim);
            assert!(waited.is_ok() || of_member, "{waited:?}");
            if is_member && *died.lock().unwrap() {
                until_a_failure(&survivors);
            }
        });
        let decided = decided.into_inner().unwrap();
        assert!(decided.iter().all(|failed| *failed == decided[0]), "{victim} ahead of {ahead_of}: {decided:?}");
        died.into_inner().unwrap()
    }

    #[test]
    fn survivors_agree_whichever_rank_fails_meanwhile_and_takes_its_memory_along() {
        for victim in [0, 2, 3].map(Rank) {
            let last = (1..).find(|&number| !shrinks_amid_deaths(victim, number)).unwrap();
            // A call about failures, a silence, and another call; then a word of each other home; and two calls again.
            assert!(last > 3 + 3 + 2, "a rank makes {} operations to shrink", last - 1);
            for number in 1..last {
                for _ in 0..20 {
                    shrinks_amid_deaths(victim, number);
                }
            }
        }
    }

    /// Waits for a word that no rank writes. Returns the error that ends it.
    fn wait_in_vain(ra: &dyn RemoteAtomics) -> Error {
        let word = ra.heap().alloc(WORD, WORD).unwrap();
        ra.wait_until(word, Until::Ne(0)).unwrap_err()
    }

    #[test]
    fn a_revocation_ends_the_waits_of_ranks_that_have_acknowledged_the_failure() {
        with_deaths(4, |ra| {
            let ra: &dyn RemoteAtomics = ra;
            let reserved = Survivors::reserve(ra, 256 << 10).unwrap();
            let late = Survivors::reserve(ra, 64 << 10).unwrap();
            match ra.rank() {
                Rank(3) => die(),
                // The rank goes on by itself, for a wait that only a rank ends which shrinks.
                Rank(2) => {
                    until_a_failure(ra);
                    ra.acknowledge(&ra.failed().unwrap()).unwrap();
                    assert_eq!(wait_in_vain(ra).to_string(), Error::Revoked.to_string());
                    assert!(matches!(ra.pause(1), Err(Error::Revoked)), "later waits end, too");
                    assert_eq!(ra.fetch_add(Rank(0).at(late.decided), 0).unwrap(), 0, "operations on words go on");
                }
                Rank(rank) => {
                    until_a_failure(ra);
                    // Two ranks revoke at the same time; a third revocation comes late.
                    assert!(rank < 2);
                    reserved.revoke().unwrap();
                }
            }
            let (three, failed) = reserved.shrink().unwrap();
            assert_eq!((three.size(), failed), (3, Failed::from_iter([Rank(3)])));
            let all = Collectives::new(&three).unwrap();
            all.barrier().unwrap();
            if ra.rank() == Rank(0) {
                late.revoke().unwrap();
            }
            all.barrier().unwrap();
            // The new world can be revoked, too, without a failure.
            let reserved = Survivors::reserve(&three, 64 << 10).unwrap();
            if ra.rank() == Rank(1) {
                reserved.revoke().unwrap();
            } else {
                assert!(matches!(wait_in_vain(&three), Error::Revoked));
            }
            let (same, failed) = reserved.shrink().unwrap();
            assert_eq!((same.size(), failed), (3, Failed::default()));
            Collectives::new(&same).unwrap().barrier().unwrap();
        });
    }

    #[test]
    fn a_thread_cannot_be_expelled() {
        let world = World::threads(2).run(|ra: &Mapped| {
            let all = Collectives::new(ra).unwrap();
            let refused = RemoteAtomics::expel(ra, Rank(1 - ra.rank().0));
            assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
            all.barrier().unwrap();
        });
        world.unwrap();
    }

    #[test]
    fn without_a_failure_there_is_nothing_to_shrink() {
        let world = World::threads(2).run(|ra| {
            let error = Survivors::reserve(ra, 4096).unwrap().shrink().unwrap_err();
            assert!(error.to_string().contains("no rank is known to have failed"), "{error}");
        });
        world.unwrap();
    }
}
