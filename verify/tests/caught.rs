//! A rank that catches all panics, including the panics by which an engine ends an execution.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rmalab_atomics::controlled::Shape;
use rmalab_atomics::{Disp, Rank, RemoteAtomics};
use rmalab_verify::play::Stage;
use rmalab_verify::shuttle_engine::Method;
use rmalab_verify::{Check, Error, Finding, Limit, Program, Property, explorer, loom_engine, shuttle_engine};

/// A program of two ranks that count, catch every panic, and would report it as a finding.
fn catches() -> Check {
    let program = Program::new(2, |rank, player| {
        let stage = Stage::new(player, &Shape::new(2), rank);
        for word in 0..3 {
            let at = Rank(0).at(Disp(64 * word));
            let counts = || stage.fetch_add(at, 1).and_then(|_| stage.put(at.rank.at(at.disp.plus(8)), 1));
            if catch_unwind(AssertUnwindSafe(counts)).is_err() {
                // It continues as if the execution were not over.
                let _ = catch_unwind(AssertUnwindSafe(|| stage.get(at)));
                let seen = "a call has panicked".to_owned();
                return Err(Error::Seen { property: Property::Invariant, seen });
            }
        }
        Ok(())
    });
    Check::program("catches", program)
}

#[test]
fn loom_ends_a_rank_that_catches_panics_without_a_finding() {
    let outcome = loom_engine::run(&catches(), &loom_engine::Options::default(), &|_| true).unwrap();
    assert_eq!(outcome.finding, Finding::Holds);
    let few = loom_engine::Options { max_branches: 10, ..loom_engine::Options::default() };
    let outcome = loom_engine::run(&catches(), &few, &|_| true).unwrap();
    assert_eq!(outcome.finding, Finding::Incomplete(Limit::Branches));
}

#[test]
fn shuttle_ends_a_rank_that_catches_panics_without_a_finding() {
    for method in [Method::Random { seed: 0 }, Method::Exhaustive] {
        let options = shuttle_engine::Options { method, executions: 5, max_steps: 4, ..Default::default() };
        let outcome = shuttle_engine::run(&catches(), &options, &|_| true).unwrap();
        assert_eq!(outcome.finding, Finding::Incomplete(Limit::Executions), "{method:?}");
        assert_eq!(outcome.cut, 5, "{method:?}");
    }
}

#[test]
fn the_explorer_stops_a_rank_that_catches_panics() {
    let outcome = explorer::explore(&catches(), &explorer::Options::default(), &|_| true).unwrap();
    assert_eq!(outcome.finding, Finding::Holds);
}
