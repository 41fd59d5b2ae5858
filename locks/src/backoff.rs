//! Bounded exponential backoff with jitter, for locks whose waiters poll a remote word.
//!
//! # Paper
//! T. E. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors", IEEE Transactions on
//! Parallel and Distributed Systems 1(1), 1990, DOI 10.1109/71.80120: the mean delay doubles at each
//! failure up to a bound, and each rank draws its own.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::{Rank, RemoteAtomics};

use crate::Result;

/// The bounds of a delay between two polls, in uncontended word operations (see [`RemoteAtomics::pause`]).
///
/// Each delay is drawn between `min` and a limit. The limit starts at `min`, and doubles at every failure, up to `max`. A `min` of 0 counts
/// as 1, and a `max` below `min` as `min`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Backoff {
    /// The shortest delay.
    pub min: u32,
    /// The longest delay.
    pub max: u32,
}

impl Default for Backoff {
    /// From 1, the shortest time in which a polled word can change, to 64. At 64 a waiter uses about one in 33 of the operations that the
    /// word's home can serve, so some thirty waiters saturate it.
    fn default() -> Backoff {
        Backoff { min: 1, max: 64 }
    }
}

/// The state of one rank's backoff.
///
/// The jitter depends only on the rank and on the number of its waits, so that a run can be repeated.
#[derive(Clone, Debug)]
pub struct BackoffState {
    min: u32,
    max: u32,
    limit: u32,
    random: SmallRng,
}

impl BackoffState {
    /// Makes a backoff at the shortest delay.
    pub fn new(params: Backoff, rank: Rank) -> BackoffState {
        let min = params.min.max(1);
        let max = params.max.max(min);
        BackoffState { min, max, limit: min, random: SmallRng::seed_from_u64(u64::from(rank.0)) }
    }

    /// Pauses after a failure.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed) from [`RemoteAtomics::pause`].
    pub fn wait<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let operations = self.next_pause();
        Ok(ra.pause(operations)?)
    }

    /// Goes back to the shortest delay, after a success.
    pub fn reset(&mut self) {
        self.limit = self.min;
    }

    fn next_pause(&mut self) -> u32 {
        // If there is only one length, nothing is drawn.
        let operations = if self.limit > self.min { self.random.random_range(self.min..=self.limit) } else { self.min };
        self.limit = self.limit.saturating_mul(2).min(self.max);
        operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(params: Backoff, rank: u32, count: usize) -> Vec<u32> {
        let mut state = BackoffState::new(params, Rank(rank));
        (0..count).map(|_| state.next_pause()).collect()
    }

    #[test]
    fn delays_double_up_to_the_bound() {
        let params = Backoff { min: 2, max: 50 };
        for rank in 0..100 {
            let mut limit = 2;
            for pause in pauses(params, rank, 20) {
                assert!((2..=limit).contains(&pause));
                limit = (2 * limit).min(50);
            }
        }
        let longest = (0..100).flat_map(|rank| pauses(params, rank, 20)).max();
        assert_eq!(longest, Some(50));
    }

    #[test]
    fn ranks_differ_and_runs_do_not() {
        let params = Backoff::default();
        assert_eq!(pauses(params, 3, 30), pauses(params, 3, 30));
        assert_ne!(pauses(params, 3, 30), pauses(params, 4, 30));
    }

    #[test]
    fn a_reset_starts_again() {
        let mut state = BackoffState::new(Backoff { min: 1, max: 1 << 20 }, Rank(0));
        for _ in 0..30 {
            state.next_pause();
        }
        state.reset();
        assert_eq!(state.next_pause(), 1);
    }

    #[test]
    fn impossible_bounds_are_mended() {
        assert!(pauses(Backoff { min: 0, max: 0 }, 0, 10).iter().all(|&pause| pause == 1));
        assert!(pauses(Backoff { min: 7, max: 3 }, 0, 10).iter().all(|&pause| pause == 7));
        assert!(pauses(Backoff { min: u32::MAX, max: u32::MAX }, 0, 3).iter().all(|&pause| pause == u32::MAX));
    }
}
