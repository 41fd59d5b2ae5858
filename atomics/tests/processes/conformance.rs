//! The conformance suite between processes.

use std::collections::BTreeMap;

use rmalab_atomics::conformance::{
    Failure, checks, expelled_rank_has_no_effect, peer_death, revocation_ends_waits, survivors_go_on,
};
use rmalab_atomics::{Mapped, Rank};

use super::{be_a_rank, here, is_rank_of_another_size, launcher, results, signal_of, world};

rmalab_atomics::conformance!(shm, Mapped, |ranks, check| between_processes(here!(), ranks, check));

fn between_processes(test: &str, ranks: u32, check: fn(&Mapped) -> Result<(), Failure>) {
    if is_rank_of_another_size(ranks) {
        return;
    }
    world(test, ranks).try_run(check).unwrap();
}

#[test]
fn all_checks_fit_into_one_world() {
    let body = |ra: &Mapped| {
        for check in checks::<Mapped>().into_iter().filter(|check| check.suits(3)) {
            (check.run)(ra).unwrap_or_else(|failure| panic!("{failure}"));
        }
    };
    be_a_rank(3, body);
    let outcome = launcher(here!(), 3).segment_bytes(256 << 10).spawn().unwrap().wait().unwrap();
    assert!(outcome.success(), "{outcome:?}");
}

/// A check with the death of one rank.
type Deadly = fn(&Mapped, fn()) -> Result<(), Failure>;

/// Runs `check` on worlds of processes, in which rank 1 is killed.
fn with_a_death(test: &str, check: Deadly) {
    for ranks in [3, 4, 8] {
        if is_rank_of_another_size(ranks) {
            continue;
        }
        be_a_rank(ranks, |ra| {
            let die =
                || rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
            check(ra, die).map_err(|failure| failure.to_string())
        });
        let outcome = launcher(test, ranks).spawn().unwrap().wait().unwrap();
        assert_eq!(outcome.first_failure, Some(Rank(1)));
        assert_eq!(signal_of(outcome.statuses[1]), Some(9));
        let told: BTreeMap<usize, Result<(), String>> =
            results(&outcome).into_iter().enumerate().filter_map(|(rank, told)| Some((rank, told?))).collect();
        let expected = (0..ranks as usize).filter(|&rank| rank != 1).map(|rank| (rank, Ok(()))).collect();
        assert_eq!(told, expected);
    }
}

#[test]
fn all_ranks_get_the_death_of_a_rank() {
    with_a_death(here!(), peer_death);
}

#[test]
fn all_other_ranks_go_on_after_a_death() {
    with_a_death(here!(), survivors_go_on);
}

#[test]
fn a_revocation_ends_all_waits() {
    with_a_death(here!(), revocation_ends_waits);
}

#[test]
fn an_expelled_rank_is_killed() {
    with_a_death(here!(), |ra, _| expelled_rank_has_no_effect(ra));
}
