//! Every lock and policy under shuttle, with more ranks than an exhaustive search can handle; planted defects, saved
//! and replayed.

use std::time::Duration;

use crate::planted::Fault;
use rmalab_verify::play::Section;
use rmalab_verify::shuttle_engine::{self, Method, Options};
use rmalab_verify::{
    Check, Counterexample, Error, Finding, Limit, Network, Outcome, TOGETHER, WAITED, replay, subject, subjects,
};

fn check(lock: &str, scenario: &str) -> Check {
    Check { section: Section::Data, ..Check::new(subject(lock).unwrap(), scenario.parse().unwrap()) }
}

fn run(check: &Check, options: &Options) -> Outcome {
    shuttle_engine::run(check, options, &|_| true).unwrap()
}

fn happened(outcome: &Outcome, what: &str) -> bool {
    outcome.sometimes.iter().any(|&(name, happened)| name == what && happened)
}

const DRAWN: [Method; 2] = [Method::Random { seed: 1 }, Method::Pct { seed: 1, depth: 3 }];

/// Runs `executions` by each method for every lock with that many ranks, and expects no violation.
fn nothing_breaks(ranks: u32, acquisitions: u32, executions: u64) {
    for subject in subjects() {
        let lock = subject.name();
        let scenario = match (lock, ranks / 4) {
            ("nocheck", _) => format!("{ranks}Ax{acquisitions}"),
            // On one node there is one cohort or one class, and its calls have almost no alternative orders.
            ("cohort" | "alock" | "alock-1" | "sherman", _) => format!("{ranks}Mx{acquisitions}/2"),
            // Its words are named for nodes with two ranks.
            ("hierarchical" | "hierarchical-1" | "robust-hierarchical" | "robust-hierarchical-announced", quarter) => {
                format!("{quarter}A{quarter}S@1 {quarter}E@0 {quarter}E@1 x{acquisitions}/2")
            }
            (_, quarter) if subject.is_window() => {
                format!("{quarter}A{quarter}S@1 {quarter}E@0 {quarter}E@1 x{acquisitions}")
            }
            _ if lock.starts_with("rma-") => format!("{ranks}Mx{acquisitions}/2"),
            _ => format!("{ranks}Mx{acquisitions}"),
        };
        for method in DRAWN {
            let options = Options { method, executions, ..Options::default() };
            let outcome = run(&check(lock, &scenario), &options);
            println!(
                "shuttle: {lock} {scenario}, {method:?}: {} executions, {} behaviours, {:.1?}",
                outcome.progress.executions, outcome.behaviours, outcome.progress.elapsed
            );
            assert_eq!(outcome.finding, Finding::Incomplete(Limit::Executions), "{lock} {scenario} {method:?}");
            assert_eq!((outcome.progress.executions, outcome.cut), (executions, 0), "{lock} {scenario} {method:?}");
            let alone = !subject.shares();
            assert_eq!(happened(&outcome, WAITED), lock != "nocheck", "{lock} {scenario} {method:?}");
            assert_eq!(happened(&outcome, TOGETHER), !alone, "{lock} {scenario} {method:?}");
            assert!(outcome.behaviours > executions / 20 || lock == "nocheck", "{lock} {scenario} {method:?}");
        }
    }
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_four_ranks_break_nothing() {
    nothing_breaks(4, 2, 1_000);
}

#[test]
#[ignore = "ten seconds; .ci/run longer"]
fn longer_eight_ranks_break_nothing() {
    nothing_breaks(8, 2, 500);
}

/// With the home, these are nine gates: a tree of four levels.
#[test]
fn a_deep_tree_is_at_rest() {
    for lock in ["hierarchical", "hierarchical-1", "robust-hierarchical", "robust-hierarchical-announced"] {
        let options = Options { executions: 100, ..Options::default() };
        let outcome = run(&check(lock, "4A4S@1 4E@0 4E@1 x2/2"), &options);
        assert_eq!(outcome.finding, Finding::Incomplete(Limit::Executions), "{lock}");
    }
}

#[test]
#[ignore = "long: minutes"]
fn sixteen_ranks_break_nothing() {
    nothing_breaks(16, 2, 1_000);
}

#[test]
#[ignore = "long: minutes"]
fn many_executions_break_nothing() {
    for ranks in [4, 8, 16] {
        nothing_breaks(ranks, 3, 20_000);
    }
}

#[test]
#[ignore = "long: a minute"]
fn every_schedule_of_small_checks_holds() {
    for (lock, scenario) in
        [("tas", "4W"), ("ticket", "3W"), ("mcs", "3W"), ("mcs", "2Wx2"), ("tas-rw", "2R1W"), ("mcs-rw-wp", "1R1Wx2")]
    {
        let options = Options { method: Method::Exhaustive, executions: u64::MAX, ..Options::default() };
        let outcome = run(&Check::new(subject(lock).unwrap(), scenario.parse().unwrap()), &options);
        println!(
            "shuttle: {lock} {scenario}, every schedule: {} executions, {} behaviours, {:.1?}",
            outcome.progress.executions, outcome.behaviours, outcome.progress.elapsed
        );
        assert_eq!((outcome.finding, outcome.bounded), (Finding::Holds, false), "{lock} {scenario}");
    }
}

#[test]
fn every_method_finds_every_fault() {
    for (fault, property) in Fault::ALL {
        for (method, scenario) in [
            (Method::Exhaustive, "2W"),
            (Method::Random { seed: 0 }, "4Wx2"),
            (Method::Pct { seed: 0, depth: 3 }, "8W"),
        ] {
            let check = Check::new(fault.subject(), scenario.parse().unwrap());
            let outcome = run(&check, &Options { method, ..Options::default() });
            let found = outcome.violation().unwrap_or_else(|| panic!("{method:?} does not find {fault:?}"));
            // With many ranks that wait for a wake-up, several remain, which then wait for each other.
            if scenario == "2W" || fault != Fault::NeverWakes {
                assert_eq!(found.violation.property, property, "{method:?}: {}", found.violation);
            }
            let again = shuttle_engine::replay(&check, &found.schedule).unwrap();
            assert_eq!(again.as_ref(), Some(&found.violation), "{method:?}");
            let (_, without) = replay(&check, &found.schedule).unwrap();
            assert_eq!(without.map(|violation| violation.property), Some(found.violation.property), "{method:?}");
        }
    }
}

#[test]
fn nothing_is_wrong_with_the_mutex_without_a_fault() {
    let check = Check::new(Fault::None.subject(), "3W".parse().unwrap());
    let all = Options { method: Method::Exhaustive, executions: u64::MAX, ..Options::default() };
    let outcome = run(&check, &all);
    assert_eq!((outcome.finding, outcome.bounded), (Finding::Holds, false));
}

#[test]
fn a_saved_counterexample_replays() {
    let broken = Check { section: Section::Data, ..Check::new(Fault::LooksThenTakes.subject(), "4W".parse().unwrap()) };
    let outcome = run(&broken, &Options::default());
    let found = outcome.violation().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("planted.json");
    found.save(&path).unwrap();
    let kept = Counterexample::load(&path).unwrap();
    assert_eq!((kept.lock.as_str(), kept.scenario.as_str()), ("planted", "4Wx1"));
    let scenario = kept.scenario.parse().unwrap();
    let again = Check { section: kept.section, ..Check::new(Fault::LooksThenTakes.subject(), scenario) };
    assert_eq!(shuttle_engine::replay(&again, &kept.schedule).unwrap(), Some(kept.violation.clone()));
    // For the lock without the defect, the schedule is meaningless.
    let mended = Check { section: kept.section, ..Check::new(Fault::None.subject(), broken.scenario.clone()) };
    assert!(matches!(shuttle_engine::replay(&mended, &kept.schedule), Ok(None) | Err(Error::Schedule { .. })));
}

#[test]
fn an_impossible_schedule_is_an_error() {
    use rmalab_atomics::Rank;
    use rmalab_verify::Choice::{Arrive, Step};

    let mcs = check("mcs", "2W");
    // Each of the two ranks flushes and swaps. Rank 1 comes second, links itself, and then has to wait.
    let schedule = [0, 0, 1, 1, 1, 1].map(|rank| Step(Rank(rank)));
    let error = shuttle_engine::replay(&mcs, &schedule).unwrap_err();
    assert!(matches!(error, Error::Schedule { step: 5, .. }), "{error}");
    let late = [Arrive { from: Rank(0), index: 0 }];
    assert!(matches!(shuttle_engine::replay(&mcs, &late), Err(Error::Schedule { step: 0, .. })));
}

#[test]
fn a_seed_determines_a_run() {
    let mcs = check("mcs-rw-neutral", "4Mx2");
    for methods in [
        [Method::Random { seed: 7 }, Method::Random { seed: 8 }],
        [Method::Pct { seed: 7, depth: 3 }, Method::Pct { seed: 8, depth: 3 }],
    ] {
        let broken = Check::new(Fault::LooksThenTakes.subject(), "8Wx2".parse().unwrap());
        let found = |method| run(&broken, &Options { method, ..Options::default() }).violation().cloned().unwrap();
        assert_eq!(found(methods[0]), found(methods[0]));
        let seen = |method| run(&mcs, &Options { method, executions: 200, ..Options::default() }).behaviours;
        assert_eq!(seen(methods[0]), seen(methods[0]));
        assert_ne!(found(methods[0]).schedule, found(methods[1]).schedule);
    }
}

#[test]
fn limits_end_it_without_a_verdict() {
    let mcs = check("mcs", "4Wx2");
    let all = Options { method: Method::Exhaustive, executions: u64::MAX, ..Options::default() };
    let few = Options { executions: 10, ..all.clone() };
    assert_eq!(run(&mcs, &few).finding, Finding::Incomplete(Limit::Executions));
    let at_once = Options { max_time: Some(Duration::ZERO), ..all.clone() };
    assert_eq!(run(&mcs, &at_once).finding, Finding::Incomplete(Limit::Time));
    let stopped = shuttle_engine::run(&mcs, &all, &|_| false).unwrap();
    assert_eq!(stopped.finding, Finding::Incomplete(Limit::Interrupted));
    let short = Options { max_steps: 5, executions: 20, ..Options::default() };
    let outcome = run(&mcs, &short);
    assert_eq!((outcome.cut, outcome.bounded), (20, true));
}

#[test]
fn unsupported_checks_are_errors() {
    let late = Check { network: Network::LatePuts, ..check("mcs", "2W") };
    let depth = Options { method: Method::Pct { seed: 0, depth: 0 }, ..Options::default() };
    for (check, options) in [(late, Options::default()), (check("mcs", "2W"), depth)] {
        let error = shuttle_engine::run(&check, &options, &|_| true).unwrap_err();
        assert!(matches!(error, Error::Unsupported { engine: "shuttle", .. }), "{error}");
    }
}
