//! Common code of applications: numbers from a seed, sums, computing in virtual time, and results at one rank, which
//! checks them.

use std::time::Duration;

use bytemuck::Pod;
use clap::Args;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{LockKind, Team, Window, WindowDisp};

use rmalab_job::{Error, Result};

/// An application with its default options.
pub fn defaults<T: Args>() -> T {
    let matches = T::augment_args(clap::Command::new("")).no_binary_name(true).get_matches_from([""; 0]);
    T::from_arg_matches(&matches).expect("every option has a default")
}

/// The `n`-th number of a seed, the same everywhere: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014,
/// <https://doi.org/10.1145/2660193.2660195>).
pub(super) fn hash(seed: u64, n: u64) -> u64 {
    let z = seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Like [`hash`], as a number from -1 to 1.
pub(super) fn signed(seed: u64, n: u64) -> f64 {
    (hash(seed, n) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// Advances virtual time by `ns` nanoseconds of computing, since arithmetic takes no virtual time.
pub(super) fn compute<A: RemoteAtomics + ?Sized>(ra: &A, ns: f64) -> Result<()> {
    if ra.capabilities().backend == "sim" {
        ra.compute(Duration::from_nanos(ns as u64))?;
    }
    Ok(())
}

/// Adds up the numbers of all ranks, element by element, with the same result on all of them; collective.
///
/// Each rank adds in its own order, so the result of rank 0 counts.
pub(super) fn sum<A: RemoteAtomics + ?Sized, const N: usize>(team: &Team<'_, A>, values: [f64; N]) -> Result<[f64; N]> {
    let mut words = values.map(f64::to_bits);
    team.allreduce(&mut words, |a, b| (f64::from_bits(a) + f64::from_bits(b)).to_bits())?;
    team.broadcast(Rank(0), &mut words)?;
    Ok(words.map(f64::from_bits))
}

/// Bytes of a rank's segment that [`at_root`] takes for parts of `bytes` bytes, beside its window's words.
pub(super) fn root_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(64)
}

/// Gives rank 0 the parts of all ranks, each of at most `most` elements, and calls `look` with them there. Collective;
/// all ranks return after that.
///
/// # Errors
///
/// Errors of `look` at rank 0, with which the world ends.
pub(super) fn at_root<A: RemoteAtomics + ?Sized, T: Pod, R>(
    team: &Team<'_, A>,
    mine: &[T],
    most: usize,
    look: impl FnOnce(Vec<Vec<T>>) -> Result<R>,
) -> Result<Option<R>> {
    // Pending requests of two-sided windows are served ahead of the collectives, in which ranks do not serve.
    team.barrier()?;
    let window = Window::allocate(team, (most * size_of::<T>()) as u64)?;
    window.local()?.write(WindowDisp(0), mine)?;
    let lengths = team.allgather(&[mine.len() as u64])?;
    team.barrier()?;
    let seen = if team.rank() == Rank(0) {
        let mut parts = Vec::new();
        for (rank, &len) in (0..).map(Rank).zip(&lengths) {
            let mut part = vec![T::zeroed(); len as usize];
            let epoch = window.lock(LockKind::Shared, rank)?;
            epoch.get(WindowDisp(0), &mut part)?;
            epoch.unlock()?;
            parts.push(part);
        }
        Some(look(parts)?)
    } else {
        None
    };
    window.free()?;
    Ok(seen)
}

/// Returns whether a difference is within its bound; NaN is not.
pub(super) fn within(difference: f64, most: f64) -> bool {
    difference <= most
}

/// The error for a result that differs from the sequential one.
pub(super) fn wrong(name: &str, what: impl std::fmt::Display) -> Error {
    Error::Wrong(format!("{name}: {what}"))
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::World;

    use super::*;

    #[test]
    fn sums_are_the_same_on_all_ranks() {
        for ranks in [1, 3, 5, 8] {
            let sums = World::threads(ranks)
                .run(|ra| {
                    let team = Team::new(ra).unwrap();
                    sum(&team, [signed(7, u64::from(ra.rank().0)), 1.0]).unwrap()
                })
                .unwrap();
            let expected: f64 = (0..u64::from(ranks)).map(|rank| signed(7, rank)).sum();
            assert!(sums.iter().all(|sum| sum == &sums[0]), "{sums:?}");
            assert!((sums[0][0] - expected).abs() < 1e-12 && sums[0][1] == f64::from(ranks), "{sums:?}");
        }
    }

    #[test]
    fn the_root_gets_all_parts() {
        let seen = World::threads(3)
            .run(|ra| {
                let team = Team::new(ra).unwrap();
                let mine: Vec<u32> = (0..=ra.rank().0).collect();
                at_root(&team, &mine, 3, Ok).unwrap()
            })
            .unwrap();
        assert_eq!(seen, [Some(vec![vec![0], vec![0, 1], vec![0, 1, 2]]), None, None]);
    }

    #[test]
    fn numbers_are_spread_and_reproducible() {
        let numbers: Vec<f64> = (0..1000).map(|n| signed(1, n)).collect();
        assert!(numbers.iter().all(|number| (-1.0..1.0).contains(number)));
        assert!(numbers.iter().sum::<f64>().abs() < 100.0);
        assert_ne!(hash(1, 5), hash(2, 5));
    }
}
