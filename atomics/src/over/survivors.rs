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
//! | word | home | written by | value |
//! | --- | --- | --- | --- |
//! | decided | rank 0 | the first rank that shrinks | 0, or its number plus one |
//! | proposal, ⌈p / 64⌉ words | each rank | its rank, once | the failures that it knew when it shrank, a bit for each rank |
//!
//! # Invariants
//!
//! * I1. `decided` changes once, by a compare-and-swap, after the proposal of the rank that it names is complete. So all ranks that
//!   shrink read the same proposal.
//! * I2. A proposal names only ranks that have failed, so every live rank is a member.
//! * I3. The words and the arena are reserved while all ranks live. So the survivors need not agree on their later allocations.

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
    proposal: Disp,
    arena: Disp,
    arena_bytes: u64,
}

impl<'a, A: RemoteAtomics + ?Sized> Survivors<'a, A> {
    /// Reserves the room, `arena_bytes` bytes of each rank's symmetric heap for the new world's own heap. All ranks call it at the same
    /// point of their sequences of allocations; the ranks do not communicate.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](Error::Unsupported) on a backend that ends with its first failure, and [`OutOfMemory`](Error::OutOfMemory).
    pub fn reserve(parent: &'a A, arena_bytes: u64) -> Result<Survivors<'a, A>> {
        parent.failed()?;
        let words = 1 + u64::from(parent.size()).div_ceil(64);
        let decided = parent.heap().alloc(words * WORD, WORD)?;
        let arena = Subset::reserve_arena(parent, arena_bytes)?;
        Ok(Survivors { parent, decided, proposal: decided.word(1), arena, arena_bytes })
    }

    /// Makes a world of the ranks that have not failed, numbered in their old order. Acknowledges the failures, and silences the ranks that
    /// have failed. Returns these ranks, by their old numbers.
    ///
    /// Every live rank calls it once one of its calls has returned [`PeerFailed`](Error::PeerFailed). Every wait of every rank does that
    /// until its rank has acknowledged the failure. All of them get the same world. A rank that fails later may be a member. Waits of the new
    /// world then return that failure.
    ///
    /// The parent's rank 0 may be among the failed ranks, since its memory stays on the backends that go on after
    /// failures.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when no rank is known to have failed, and the errors of the network.
    pub fn shrink(self) -> Result<(Subset<'a, A>, Failed)> {
        let (parent, me) = (self.parent, self.parent.rank());
        let known = parent.failed()?;
        if known.is_empty() {
            return Err(Error::world("shrink: no rank is known to have failed, so all ranks can go on in their world"));
        }
        let at = |word: u64| self.proposal.word(word);
        for word in 0..u64::from(parent.size()).div_ceil(64) {
            let of_word = known.iter().filter(|rank| u64::from(rank.0) / 64 == word);
            let bits = of_word.fold(0, |bits, rank| bits | 1 << (rank.0 % 64));
            parent.put(me.at(at(word)), bits)?;
        }
        // I1: other ranks read the proposal once they have seen the decision.
        parent.flush(me)?;
        let first = match parent.compare_and_swap(Rank(0).at(self.decided), 0, u64::from(me.0) + 1)? {
            0 => me,
            first => Rank(first as u32 - 1),
        };
        let mut failed = Vec::new();
        for word in 0..u64::from(parent.size()).div_ceil(64) {
            let bits = parent.get(first.at(at(word)))?;
            failed.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| Rank(word as u32 * 64 + bit)));
        }
        let failed: Failed = failed.into_iter().collect();
        parent.acknowledge(&failed)?;
        parent.silence(&failed)?;
        let members: Vec<Rank> = (0..parent.size()).map(Rank).filter(|&rank| !failed.contains(rank)).collect();
        // I2.
        let subset = Subset::over(parent, &members, self.arena, self.arena_bytes)?.expect("a live rank survives");
        Ok((subset, failed))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use super::*;
    use crate::{Collectives, Mapped, World};

    const DIED: &str = "it dies";

    /// Runs `body` on threads, where a rank ends by that panic.
    fn with_deaths(ranks: u32, body: impl Fn(&Mapped) + Sync) {
        let died = catch_unwind(AssertUnwindSafe(|| World::threads(ranks).run(|ra| body(ra)))).unwrap_err();
        assert_eq!(died.downcast_ref::<&str>(), Some(&DIED), "another rank has panicked");
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
                all.barrier().unwrap();
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

    #[test]
    fn without_a_failure_there_is_nothing_to_shrink() {
        let world = World::threads(2).run(|ra| {
            let error = Survivors::reserve(ra, 4096).unwrap().shrink().unwrap_err();
            assert!(error.to_string().contains("no rank is known to have failed"), "{error}");
        });
        world.unwrap();
    }
}
