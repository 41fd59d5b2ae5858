//! The part of the suite for mutexes whose ranks fail and come back.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rmalab_atomics::{Crashing, Unwound};

use super::*;
use crate::Resumable;
use crate::recoverable::Stage;

/// The number of the last operation of a call ahead of which a rank fails. No call without waiting has more operations.
const OPERATIONS: u64 = 24;

/// Acquisitions of a rank in each round.
const TURNS: u32 = 4;

/// The percentage of calls in which a rank fails in the round where all ranks do.
const FAILING: u32 = 40;

/// Checks a mutex against [`Resumable`], on threads.
pub fn resumable<L: Resumable>(params: L::Params) {
    for size in [2, 3, 4] {
        on_threads_of(size, |ra| resumable_on::<L, _>(ra, params));
    }
}

/// One rank's part of [`resumable`]: exclusion, progress and rest, while a rank loses its handle ahead of an operation of its calls and comes
/// back. First one rank at a time fails, in each of its calls, ahead of the n-th operation, for each n. Then all ranks fail at random.
pub fn resumable_on<L: Resumable, A: RemoteAtomics + ?Sized>(ra: &A, params: L::Params) -> Result<()> {
    let place = Place::alloc(ra, middle(ra), L::WORDS, L::NODE)?;
    let pair = Pair::alloc(ra)?;
    let ra = &probed(ra, L::NAME)?;
    let all = Collectives::new(ra)?;
    let rank = Failing { ra: &Crashing::new(ra, None), place, params, pair };
    let mut lock = L::bind(rank.ra, place, params)?;
    let mut random = SmallRng::seed_from_u64(u64::from(ra.rank().0));
    for number in 1..=OPERATIONS {
        for failing in 0..ra.size() {
            all.barrier()?;
            ra.begin("acquire, release or resume while one rank fails")?;
            for _ in 0..TURNS {
                let mut calls = if ra.rank() == Rank(failing) { 3 } else { 0 };
                let mut next = || {
                    calls -= i32::from(calls > 0);
                    (calls > 0).then_some(number)
                };
                let failures;
                (lock, failures) = rank.turn::<L>(lock, &mut next)?;
                let must = ra.rank() == Rank(failing) && number == 1;
                assert!(failures > 0 || !must, "{}: it fails ahead of its first operation", ra.rank());
            }
        }
    }
    for turn in 0..ACQUISITIONS / ra.size() {
        if turn % ROUND == 0 {
            all.barrier()?;
        }
        ra.begin("acquire, release or resume while all ranks fail")?;
        let mut next =
            || (random.random_range(0..100) < FAILING).then(|| u64::from(random.random_range(1..=OPERATIONS as u32)));
        (lock, _) = rank.turn::<L>(lock, &mut next)?;
    }
    at_rest(ra, place, if L::RESTS_AT_ZERO { L::WORDS } else { 0 }, L::NODE_AT_REST)?;
    let turns = OPERATIONS * u64::from(ra.size() * TURNS) + u64::from(ACQUISITIONS / ra.size());
    assert_eq!(pair.check(ra)?, turns * u64::from(ra.size()), "increments");
    Ok(())
}

/// Runs one rank, which fails and comes back.
struct Failing<'a, A: ?Sized, P> {
    ra: &'a Crashing<'a, A>,
    place: Place,
    params: P,
    pair: Pair,
}

impl<A: RemoteAtomics + ?Sized, P: Copy> Failing<'_, A, P> {
    /// Acquires, increments and releases once. `next` returns the operation ahead of which the next call fails, if it fails. Returns a
    /// handle, and the number of failures.
    fn turn<L: Resumable<Params = P>>(&self, lock: L, next: &mut dyn FnMut() -> Option<u64>) -> Result<(L, u64)> {
        let (mut handle, mut is_inside, mut has_written) = (Some(lock), false, false);
        let mut failures = 0;
        // True if the rank has failed inside, which is ahead of the first operation of its release.
        let mut keeps = false;
        loop {
            if is_inside && !has_written {
                self.pair.increment(self.ra)?;
                has_written = true;
            }
            let ahead_of = next();
            let releases = is_inside && handle.is_some();
            let survived = match handle.take() {
                None => self.survive(ahead_of, || L::resume(self.ra, self.place, self.params))?,
                Some(mut lock) => self.survive(ahead_of, || {
                    if is_inside {
                        lock.release(self.ra)?;
                        return Ok((lock, Stage::Idle));
                    }
                    lock.acquire(self.ra)?;
                    Ok((lock, Stage::Inside))
                })?,
            };
            let Some((lock, stage)) = survived else {
                failures += 1;
                keeps |= releases && ahead_of == Some(1);
                continue;
            };
            is_inside = stage == Stage::Inside;
            assert!(is_inside || !keeps, "{}: it has failed inside, and comes back without the lock", self.ra.rank());
            keeps = false;
            if !is_inside && has_written {
                return Ok((lock, failures));
            }
            handle = Some(lock);
        }
    }

    /// Runs `call`, and returns `None` if the rank has failed in it.
    fn survive<T>(&self, ahead_of: Option<u64>, call: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        if let Some(number) = ahead_of {
            self.ra.arm_unwind(number);
        }
        let ended = catch_unwind(AssertUnwindSafe(call));
        self.ra.arm(None);
        match ended {
            Ok(done) => done.map(Some),
            Err(payload) if payload.is::<Unwound>() => Ok(None),
            Err(payload) => resume_unwind(payload),
        }
    }
}
