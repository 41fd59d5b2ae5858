//! The suite on ranks that are threads, on the backend itself and on the counting wrapper.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use rmalab_atomics::conformance::{Failure, checks, litmus, peer_death, revocation_ends_waits, survivors_go_on};
use rmalab_atomics::{Counted, Mapped, Rank, RemoteAtomics, World};

rmalab_atomics::conformance!(local, Mapped, on_threads);

// The same through a table of functions, as in programs that choose a backend by its name.
rmalab_atomics::conformance!(dynamic, dyn RemoteAtomics, |ranks, check| {
    let run = |ra: &Mapped| check(ra).unwrap_or_else(|failure| panic!("{failure}"));
    World::threads(ranks).run(run).expect("a world of threads");
});

fn on_threads(ranks: u32, check: fn(&Mapped) -> Result<(), Failure>) {
    let run = |ra: &Mapped| check(ra).unwrap_or_else(|failure| panic!("{failure}"));
    World::threads(ranks).run(run).expect("a world of threads");
}

/// Runs all checks one after the other, like the ranks of a world of processes.
fn all_checks(ra: &dyn RemoteAtomics) {
    for check in checks::<dyn RemoteAtomics>().into_iter().filter(|check| check.suits(ra.size())) {
        (check.run)(ra).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn all_checks_fit_into_one_small_world() {
    World::threads(8).segment_bytes(256 << 10).run(|ra| all_checks(ra)).unwrap();
}

#[test]
fn the_counting_wrapper_changes_nothing() {
    World::threads(3).run(|ra| all_checks(&Counted::new(ra))).unwrap();
}

/// A check with one rank's death.
type Deadly = fn(&Mapped, fn()) -> Result<(), Failure>;

/// Runs `check` on worlds of threads, in which rank 1 dies.
fn with_a_death(check: Deadly) {
    for ranks in [3, 4, 8] {
        let failures = Mutex::new(Vec::new());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            World::threads(ranks).run(|ra| {
                if let Err(failure) = check(ra, || panic!("rank 1 dies")) {
                    failures.lock().unwrap().push(failure.to_string());
                }
                ra.rank()
            })
        }));
        let panic = outcome.expect_err("the panic of rank 1 is passed on");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"rank 1 dies"));
        assert_eq!(failures.into_inner().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn all_ranks_get_the_death_of_a_rank() {
    with_a_death(peer_death);
}

#[test]
fn all_other_ranks_go_on_after_a_death() {
    with_a_death(survivors_go_on);
    with_a_death(|ra, die| survivors_go_on(&Counted::new(ra), die));
}

#[test]
fn a_revocation_ends_all_waits() {
    with_a_death(revocation_ends_waits);
    with_a_death(|ra, die| revocation_ends_waits(&Counted::new(ra), die));
}

#[test]
fn histograms_count_every_instance() {
    for test in litmus::<Mapped>() {
        let seen = World::threads(test.roles.max(2)).run(|ra| (test.run)(ra, 1_000).unwrap()).unwrap();
        for litmus in &seen {
            assert_eq!(litmus, &seen[0], "all ranks report the same");
            assert_eq!(litmus.allowed() + litmus.forbidden(), 1_024);
        }
        println!("{}", seen[Rank(0).index()]);
    }
}
