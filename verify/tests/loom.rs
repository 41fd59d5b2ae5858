//! Every lock and policy under loom, at sizes that take seconds; agreement with the other engines; detection of planted
//! defects.

use std::time::Duration;

use crate::planted::Fault;
use rmalab_verify::loom_engine::{self, MAX_RANKS, Options, Orderings};
use rmalab_verify::play::Section;
use rmalab_verify::{
    Check, Error, Finding, Limit, Network, Outcome, Property, TOGETHER, WAITED, diagram, explorer, replay,
    shuttle_engine, subject, subjects,
};

fn check(lock: &str, scenario: &str) -> Check {
    Check { section: Section::Data, ..Check::new(subject(lock).unwrap(), scenario.parse().unwrap()) }
}

fn run(check: &Check, options: &Options) -> Outcome {
    loom_engine::run(check, options, &|_| true).unwrap()
}

/// Checks `lock` with at most that many preemptions, and prints the figures.
fn holds(lock: &str, scenario: &str, preemptions: Option<u32>) -> Outcome {
    let outcome = run(&check(lock, scenario), &Options { preemptions, ..Options::default() });
    println!(
        "loom: {lock} {scenario}, preemptions {preemptions:?}: {} executions, {} behaviours, {} cut, {:.1?}",
        outcome.progress.executions, outcome.behaviours, outcome.cut, outcome.progress.elapsed
    );
    assert_eq!(outcome.finding, Finding::Holds, "{lock} {scenario}");
    assert_eq!(outcome.bounded, preemptions.is_some() || outcome.cut > 0);
    outcome
}

fn happened(outcome: &Outcome, what: &str) -> bool {
    outcome.sometimes.iter().any(|&(name, happened)| name == what && happened)
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_mutexes_hold_with_three_ranks() {
    for (lock, preemptions) in [("tas", None), ("ticket", Some(4)), ("mcs", Some(4))] {
        let outcome = holds(lock, "3W", preemptions);
        assert!(happened(&outcome, WAITED) && !happened(&outcome, TOGETHER), "{lock}");
    }
}

#[test]
#[ignore = "a minute"]
fn mutexes_hold_with_three_ranks_and_any_preemptions() {
    for lock in ["ticket", "mcs"] {
        holds(lock, "3W", None);
    }
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_reader_writer_locks_hold_with_three_ranks() {
    for lock in ["tas-rw", "mcs-rw-rp", "mcs-rw-wp", "mcs-rw-neutral"] {
        let preemptions = if lock == "tas-rw" { None } else { Some(3) };
        for scenario in ["2R1W", "1R2W"] {
            let outcome = holds(lock, scenario, preemptions);
            assert!(happened(&outcome, WAITED), "{lock} {scenario}");
            assert_eq!(happened(&outcome, TOGETHER), scenario == "2R1W", "{lock} {scenario}");
        }
    }
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_four_ranks_hold_with_two_preemptions() {
    for lock in ["tas", "mcs"] {
        holds(lock, "4W", Some(2));
    }
    for lock in ["tas-rw", "mcs-rw-rp", "mcs-rw-wp", "mcs-rw-neutral"] {
        assert!(happened(&holds(lock, "2R2W", Some(2)), TOGETHER), "{lock}");
    }
}

#[test]
fn policies_hold_with_three_ranks() {
    for (lock, preemptions) in [("global", Some(3)), ("per-target", Some(2)), ("two-level", None)] {
        let outcome = holds(lock, "1A1E@0 1S@0", preemptions);
        assert!(happened(&outcome, WAITED) && happened(&outcome, TOGETHER), "{lock}");
    }
    // Without calls, there is only one order of the ranks.
    assert_eq!(holds("nocheck", "3A", None).progress.executions, 1);
}

/// The locks on which the engines end first.
const QUICK: [&str; 8] =
    ["tas", "ticket", "robust-ticket", "mcs", "tas-rw", "nocheck", "hierarchical", "hierarchical-1"];

#[test]
fn engines_agree_on_small_locks() {
    engines_agree_on(&|lock| QUICK.contains(&lock));
}

#[test]
#[ignore = "a minute or two"]
fn engines_agree_on_the_other_locks() {
    engines_agree_on(&|lock| !QUICK.contains(&lock));
}

fn engines_agree_on(chosen: &dyn Fn(&str) -> bool) {
    for subject in subjects() {
        let lock = subject.name();
        if !chosen(lock) {
            continue;
        }
        let scenarios: &[&str] = match lock {
            "tas" | "ticket" => &["2Wx2", "3W"],
            "mcs" => &["2W"],
            "tas-rw" => &["1R1Wx2", "1R2W"],
            "nocheck" => &["2A"],
            // A lock_all that opens its leaf takes too many steps for a complete search.
            "hierarchical" | "hierarchical-1" => &["1S@0 1E@0"],
            _ if subject.is_window() => &["1A1E@0", "1S@0 1E@0"],
            _ if !subject.shares() => &["2W"],
            _ => &["1R1W", "2W"],
        };
        for scenario in scenarios {
            let check = check(lock, scenario);
            let buffered = run(&check, &Options::default());
            // Shuttle's memory has no store buffers.
            let loom = run(&check, &Options { orderings: Orderings::SeqCst, ..Options::default() });
            let exhaustive = shuttle_engine::Options {
                method: shuttle_engine::Method::Exhaustive,
                executions: u64::MAX,
                ..shuttle_engine::Options::default()
            };
            let shuttle = shuttle_engine::run(&check, &exhaustive, &|_| true).unwrap();
            let explored = explorer::explore(&check, &explorer::Options::default(), &|_| true).unwrap();
            assert_eq!(buffered.finding, Finding::Holds, "{lock} {scenario}");
            assert_eq!(loom.finding, Finding::Holds, "{lock} {scenario}");
            assert_eq!(shuttle.finding, Finding::Holds, "{lock} {scenario}");
            assert_eq!(explored.finding, Finding::Holds, "{lock} {scenario}");
            // Loom's reductions must preserve every behaviour. Only polls by writes are bounded, by each engine in its
            // own way.
            if !lock.contains("two-level") {
                assert!(!loom.bounded && !shuttle.bounded, "{lock} {scenario}");
                assert_eq!(loom.behaviours, shuttle.behaviours, "{lock} {scenario}");
                assert!(buffered.behaviours >= loom.behaviours, "{lock} {scenario}");
            }
            assert!(loom.behaviours > 1 || lock == "nocheck", "{lock} {scenario}");
        }
    }
}

#[test]
fn engines_agree_on_every_fault() {
    for (fault, property) in Fault::ALL {
        let check = Check::new(fault.subject(), "2W".parse().unwrap());
        for orderings in [Orderings::StoreBuffers, Orderings::SeqCst] {
            let loom = run(&check, &Options { orderings, ..Options::default() });
            let counterexample = loom.violation().unwrap_or_else(|| panic!("loom does not find {fault:?}"));
            assert_eq!(counterexample.violation.property, property, "{counterexample:?}");
            let replayable = Check { network: counterexample.network, ..check.clone() };
            let (_, replayed) = replay(&replayable, &counterexample.schedule).unwrap();
            // Unordered sections need not have overlapped in the order that loom found.
            let race = orderings == Orderings::StoreBuffers && counterexample.violation.seen.contains("not ordered");
            let replayed = replayed.map(|violation| violation.property);
            assert!(replayed == Some(property) || race && replayed.is_none(), "{counterexample:?}");
        }
        let explored = explorer::explore(&check, &explorer::Options::default(), &|_| true).unwrap();
        match explored.finding {
            Finding::Violated(found) => assert_eq!(found.violation.property, property),
            finding => panic!("the explorer reports {finding:?} for {fault:?}"),
        }
    }
    assert_eq!(
        run(&Check::new(Fault::None.subject(), "2W".parse().unwrap()), &Options::default()).finding,
        Finding::Holds
    );
}

/// A backend without ordering lets one section race with the next. Only loom can detect that.
#[test]
fn a_lock_on_relaxed_atomics_is_a_race() {
    let relaxed = Options { orderings: Orderings::Relaxed, ..Options::default() };
    for lock in ["tas", "ticket", "mcs", "tas-rw", "mcs-rw-rp", "mcs-rw-wp", "mcs-rw-neutral"] {
        let outcome = run(&check(lock, "2W"), &relaxed);
        let counterexample = outcome.violation().unwrap_or_else(|| panic!("{lock} does not race"));
        assert_eq!(counterexample.violation.property, Property::Visibility, "{lock}: {}", counterexample.violation);
    }
}

/// The neutral lock's last reader decrements `reader_count` and then reads `next_writer`; its writer sets `next_writer`
/// and then reads `reader_count`. One of them must see the other, which acquire and release do not guarantee. It needs
/// the trait's guarantee: operations that are sequentially consistent with each other.
#[test]
fn the_neutral_lock_needs_more_than_acquire_and_release() {
    let weaker = Options { orderings: Orderings::AcquireRelease, ..Options::default() };
    let outcome = run(&check("mcs-rw-neutral", "1R1W"), &weaker);
    assert_eq!(outcome.violation().unwrap().violation.property, Property::NoLostWakeUp);
    for (lock, scenario) in [("tas", "3W"), ("mcs", "2W"), ("mcs-rw-rp", "1R1W")] {
        let outcome = run(&check(lock, scenario), &weaker);
        assert_eq!((&outcome.finding, outcome.bounded), (&Finding::Holds, true), "{lock} {scenario}");
    }
}

/// Loom lets a put take effect late, so that its counterexample to a check on sc may be a schedule of late puts.
#[test]
fn a_counterexample_on_another_network_than_the_check_is_drawn() {
    let mutant = rmalab_verify::mutant("tas-split").unwrap();
    let check = Check { mutant: Some(mutant), ..Check::new(subject("tas").unwrap(), "2Wx2".parse().unwrap()) };
    let outcome = run(&check, &Options::default());
    let Finding::Violated(counterexample) = outcome.finding else { panic!("the mutant is broken") };
    assert_eq!(counterexample.network, Network::LatePuts);
    let drawn = diagram::text(&check, &counterexample).unwrap();
    assert!(
        drawn.contains("network late-puts") && drawn.contains("reported, not seen here: mutual-exclusion"),
        "{drawn}"
    );
}

#[test]
fn unsupported_checks_are_errors() {
    let many = check("mcs", &format!("{}W", MAX_RANKS + 1));
    let late = Check { network: Network::LatePuts, ..check("mcs", "2W") };
    for check in [many, late] {
        let error = loom_engine::run(&check, &Options::default(), &|_| true).unwrap_err();
        assert!(matches!(error, Error::Unsupported { engine: "loom", .. }), "{error}");
    }
}

#[test]
fn limits_end_it_without_a_verdict() {
    let mcs = check("mcs", "3W");
    let few = Options { max_executions: Some(10), ..Options::default() };
    let outcome = run(&mcs, &few);
    assert_eq!((outcome.finding, outcome.progress.executions), (Finding::Incomplete(Limit::Executions), 10));
    let short = Options { max_branches: 20, ..Options::default() };
    assert_eq!(run(&mcs, &short).finding, Finding::Incomplete(Limit::Branches));
    let four = check("mcs-rw-neutral", "4M");
    let at_once = Options { max_time: Some(Duration::ZERO), ..Options::default() };
    assert_eq!(run(&four, &at_once).finding, Finding::Incomplete(Limit::Time));
    let stopped = loom_engine::run(&four, &Options::default(), &|_| false).unwrap();
    assert_eq!(stopped.finding, Finding::Incomplete(Limit::Interrupted));
}

#[test]
#[ignore = "long: minutes"]
fn three_ranks_hold_with_every_schedule() {
    for (lock, scenario) in [("mcs", "2Wx2"), ("mcs-rw-rp", "2R1W"), ("mcs-rw-rp", "1R2W"), ("mcs-rw-wp", "1R2W")] {
        let all = holds(lock, scenario, None);
        // Loom runs one of several executions that it regards as equivalent. Random executions use no such reduction,
        // and must not show a behaviour that loom has missed.
        let drawn = shuttle_engine::Options {
            method: shuttle_engine::Method::Random { seed: 0 },
            executions: 200_000,
            ..shuttle_engine::Options::default()
        };
        let random = shuttle_engine::run(&check(lock, scenario), &drawn, &|_| true).unwrap();
        println!("shuttle: {lock} {scenario}, at random: 200000 executions, {} behaviours", random.behaviours);
        assert!(random.behaviours <= all.behaviours, "{lock} {scenario}");
    }
}

#[test]
#[ignore = "long: minutes"]
fn four_ranks_hold_with_three_preemptions() {
    for (lock, scenario) in [
        ("tas", "4W"),
        ("ticket", "4W"),
        ("mcs", "4W"),
        ("tas-rw", "2R2W"),
        ("mcs-rw-rp", "2R2W"),
        ("mcs-rw-wp", "2R2W"),
        ("mcs-rw-neutral", "3R1W"),
        ("mcs-rw-neutral", "2R2W"),
    ] {
        holds(lock, scenario, Some(3));
    }
}
