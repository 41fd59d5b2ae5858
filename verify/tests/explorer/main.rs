//! Tests of the explorer itself: small protocols with known verdicts, locks with one planted defect each, an oracle
//! without reductions, and limits.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

mod agreement;
mod assumptions;
mod bypass;
mod crashes;
mod dslr;
mod hca;
mod leases;
mod limits;
mod local;
mod nested;
mod oracle;
mod ordered;
mod pinned;
mod planted;
mod protocols;
mod published_leases;
mod restarts;
mod shiftlock_leases;
mod started;
mod timed;

use std::path::Path;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;
use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::{
    Check, Choice, Counterexample, Effect, Finding, Outcome, Property, Step, Subject, diagram, replay,
};

/// A check of `subject` on a network that is never late, with nothing done inside.
fn check(subject: Subject, scenario: &str) -> Check {
    Check::new(subject, scenario.parse().unwrap())
}

/// A search by one thread, without reductions.
fn plain() -> Options {
    Options {
        threads: 1,
        symmetry: false,
        merging: false,
        partial_order: false,
        max_bytes: 1 << 30,
        ..Options::default()
    }
}

/// A search by one thread, without reductions and with merged histories.
fn both() -> [Options; 2] {
    [plain(), Options { merging: true, ..plain() }]
}

/// Searches with `options`, without a watch.
fn run(check: &Check, options: &Options) -> Outcome {
    explore(check, options, &|_| true)
        .unwrap_or_else(|error| panic!("{} {} {}: {error}", check.subject.name(), check.scenario, check.network))
}

/// Returns whether the explorer joins `call` of `rank` to the previous step.
fn is_silent(check: &Check, rank: Rank, call: Call) -> bool {
    match call {
        Call::Pause { .. } | Call::Failed | Call::Acknowledge { .. } | Call::Silence { .. } => {
            check.scenario.crashes() == 0
        }
        Call::Now => !check.is_timed(rank) && check.scenario.lapses() == 0,
        Call::Flush { .. } | Call::Order { .. } | Call::Stored | Call::FenceEverywhere => {
            !check.network.puts_are_late()
        }
        _ => false,
    }
}

/// The length of a schedule in the explorer's steps.
fn steps(check: &Check, taken: &[Step]) -> usize {
    let silent = |step: &&Step| match (step.effect, step.choice) {
        (Effect::Answered(call, _), Choice::Step(rank)) => is_silent(check, rank, call),
        _ => false,
    };
    taken.len() - taken.iter().filter(silent).count()
}

/// The counterexample of a search.
fn counterexample(outcome: &Outcome) -> &Counterexample {
    match &outcome.finding {
        Finding::Violated(counterexample) => counterexample,
        other => panic!("nothing is broken: {other:?}"),
    }
}

/// The violated property, if any. An incomplete search has no verdict.
fn verdict(outcome: &Outcome) -> Option<Property> {
    match &outcome.finding {
        Finding::Holds => None,
        Finding::Violated(counterexample) => Some(counterexample.violation.property),
        Finding::Incomplete(limit) => panic!("the search reached its limit: {limit:?}"),
    }
}

/// Checks that the book has the drawing of the counterexample that a plain search of `check` finds, and returns the
/// broken property. `RMALAB_DOCS=write` writes the drawing.
fn drawn(check: &Check, name: &str) -> Property {
    let outcome = run(check, &plain());
    let found = counterexample(&outcome);
    replayed(check, found);
    let svg = diagram::svg(check, found).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/{name}.svg"));
    if std::env::var("RMALAB_DOCS").is_ok_and(|what| what == "write") {
        std::fs::write(&file, &svg).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), svg, "{}: RMALAB_DOCS=write writes it", file.display());
    found.violation.property
}

/// Returns the counterexample of a search after a way through a file. It must be the same, and show the violation.
fn saved(check: &Check, outcome: &Outcome) -> Counterexample {
    let found = counterexample(outcome);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("found.json");
    found.save(&path).unwrap();
    let loaded = Counterexample::load(&path).unwrap();
    assert_eq!(&loaded, found);
    replayed(check, &loaded);
    loaded
}

/// Replays a counterexample, which must show the same violation. Returns its length in the explorer's steps.
fn replayed(check: &Check, counterexample: &Counterexample) -> usize {
    let (taken, broken) = replay(check, &counterexample.schedule).unwrap();
    match counterexample.violation.property {
        // A replay does not judge these.
        Property::Order | Property::NoLivelock => assert_eq!(broken, None),
        property => {
            let broken = broken.unwrap_or_else(|| panic!("the replay does not show {}", counterexample.violation));
            assert_eq!((broken.property, broken.rank), (property, counterexample.violation.rank));
        }
    }
    assert_eq!(taken.len(), counterexample.schedule.len(), "the last step breaks the property");
    steps(check, &taken)
}
