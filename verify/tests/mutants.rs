//! The checks kill every mutant as docs/results/mutants.md says, and mutants that are equivalent to their lock survive.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::kill_matrix::{self, Fate, Row};
use rmalab_verify::{Check, Counterexample, Finding, Mutant, Property, mutant, mutants, replay, subject};

/// Mutants that only three ranks show, of repairs and of trees, and equivalent mutants of locks with many states. Each takes from six
/// seconds to two minutes.
fn is_slow(mutant: &Mutant) -> bool {
    let of_three = [
        "robust-mcs-unannounced",
        "robust-ticket-unannounced",
        "robust-ticket-late-announcement",
        "robust-ticket-past-announced",
        "robust-ticket-blind",
        "robust-two-level-unannounced",
        "robust-two-level-late-announcement",
        "robust-two-level-past-changes",
        "robust-two-level-unnumbered",
        "robust-two-level-all-at-once",
        "robust-two-level-dropped-live",
        "robust-two-level-erased-shared",
        "robust-two-level-erased-all",
        "hierarchical-unchecked-grant",
        "hierarchical-early-root",
    ];
    let large = ["mcs-rw-rp", "mcs-rw-neutral"];
    of_three.contains(&mutant.name)
        || mutant.equivalent.is_some() && mutant.locks.iter().any(|lock| large.contains(lock))
}

fn rows(which: impl Fn(&Mutant) -> bool) -> Vec<Row> {
    let mutants = mutants().filter(|mutant| which(mutant));
    kill_matrix::rows(mutants, &kill_matrix::options(), &|_| true, |_| {}).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn committed() -> String {
    std::fs::read_to_string(path("../docs/results/mutants.md")).unwrap()
}

/// Checks that each row is as committed, that the right mutants are killed, and that the replay agrees.
fn judge(rows: &[Row]) {
    let committed = committed();
    for row in rows {
        let line = row.markdown();
        assert!(
            committed.lines().any(|known| known == line),
            "docs/results/mutants.md is out of date: run `cargo xtask kill-matrix docs/results/mutants.md`; it lacks\n{line}"
        );
        assert!(!row.is_unexpected(), "{line}");
        let Fate::Killed { counterexample, .. } = &row.fate else { continue };
        // An order is not a property of one state, and a livelock has no last state: a replay shows neither.
        if counterexample.cycle.is_none() && counterexample.violation.property != Property::Order {
            assert_eq!(replayed(counterexample), Some(counterexample.violation.property), "{line}");
        }
    }
}

/// The check of a counterexample.
fn check(one: &Counterexample) -> Check {
    let mut check = Check::new(subject(&one.lock).unwrap(), one.scenario.parse().unwrap());
    check.mutant = one.mutant.as_ref().map(|name| mutant(name).unwrap());
    (check.section, check.network, check.home) = (one.section, one.network, one.home);
    one.suits(&check).unwrap();
    check
}

fn replayed(one: &Counterexample) -> Option<Property> {
    let (steps, violation) = replay(&check(one), &one.schedule).unwrap();
    assert_eq!(steps.len(), one.schedule.len(), "the last step is the one that breaks the property");
    violation.map(|violation| violation.property)
}

/// The rows of all but the slow mutants, which two tests use.
static ALL_BUT_SLOW: LazyLock<Vec<Row>> = LazyLock::new(|| rows(|mutant| !is_slow(mutant)));

#[test]
fn the_first_mutant_of_each_lock_dies_as_the_matrix_says() {
    let mut seen = BTreeSet::new();
    let first = |mutant: &&Mutant| {
        mutant.equivalent.is_none() && !is_slow(mutant) && mutant.locks.iter().any(|lock| seen.insert(*lock))
    };
    let names: BTreeSet<&str> = mutants().filter(first).map(|mutant| mutant.name).collect();
    let rows = rows(|mutant| names.contains(mutant.name));
    judge(&rows);
    assert!(rows.iter().all(|row| matches!(row.fate, Fate::Killed { .. })));
}

#[test]
#[ignore = "half a minute; .ci/run longer"]
fn longer_mutants_die_as_the_matrix_says() {
    let rows = &*ALL_BUT_SLOW;
    judge(rows);
    // No property holds vacuously: some mutant breaks each property that the explorer checks.
    let broken: BTreeSet<Property> = rows
        .iter()
        .filter_map(|row| match &row.fate {
            Fate::Killed { counterexample, .. } => Some(counterexample.violation.property),
            Fate::Survived { .. } => None,
        })
        .collect();
    let checked = Property::ALL.into_iter();
    let of_stress = [Property::Consistent, Property::NoLostUpdate];
    assert_eq!(broken, checked.filter(|property| !of_stress.contains(property)).collect());
}

#[test]
#[ignore = "takes a minute"]
fn the_matrix_is_the_committed_one() {
    let rows = rows(|_| true);
    judge(&rows);
    assert!(kill_matrix::document(&rows) == committed(), "docs/results/mutants.md has other text, rows or order");
}

#[test]
fn a_survivor_without_an_argument_is_unexpected() {
    let survivor = |mutant| Row { mutant, lock: mutant.locks[0], fate: Fate::Survived { complete: Vec::new() } };
    let (argued, other) =
        (mutants().find(|one| one.equivalent.is_some()), mutants().find(|one| one.equivalent.is_none()));
    assert!(!survivor(argued.unwrap()).is_unexpected());
    assert!(survivor(other.unwrap()).is_unexpected());
}

#[test]
fn the_matrix_has_every_mutant_once() {
    let committed = committed();
    for mutant in mutants() {
        for lock in mutant.locks {
            let begin = format!("| `{lock}` | `{}` |", mutant.name);
            assert_eq!(committed.lines().filter(|line| line.starts_with(&begin)).count(), 1, "{begin}");
        }
    }
}

#[test]
#[ignore = "half a minute; .ci/run longer"]
fn longer_locks_survive_what_kills_their_mutants() {
    let mut seen = BTreeSet::new();
    for row in &*ALL_BUT_SLOW {
        let Fate::Killed { counterexample, .. } = &row.fate else { continue };
        let mut lock = check(counterexample);
        let by_backend = row.mutant.rules.is_empty();
        // Four ranks have some million states, which the ignored tests of the explorer cover. The last mutant belongs
        // to no lock.
        if lock.active() > 3 || by_backend || !seen.insert(format!("{lock:?}")) {
            continue;
        }
        lock.mutant = None;
        let options = Options { order: row.mutant.order, ..kill_matrix::options() };
        let outcome = explore(&lock, &options, &|_| true).unwrap();
        assert_eq!(outcome.finding, Finding::Holds, "{} in {}", row.lock, lock.scenario);
    }
}

#[test]
fn mutants_that_break_the_order_break_nothing_else() {
    let mut count = 0;
    for mutant in mutants().filter(|mutant| mutant.order) {
        let subject = subject(mutant.locks[0]).unwrap();
        for scenario in kill_matrix::scenarios(&subject) {
            let check = kill_matrix::check(mutant, &subject, scenario);
            let outcome = explore(&check, &kill_matrix::options(), &|_| true).unwrap();
            assert_eq!(outcome.finding, Finding::Holds, "{} in {}", mutant.name, check.scenario);
            count += 1;
        }
    }
    assert!(count > 0);
}

/// The two defects of the published fair lock, as committed counterexamples.
#[test]
fn the_published_neutral_lock_fails() {
    for (name, preemptions) in [("neutral-no-second-look", 2), ("neutral-untagged", 4)] {
        let one = Counterexample::load(&path(&format!("counterexamples/{name}.json"))).unwrap();
        assert_eq!(one.mutant.as_deref(), Some(name));
        assert_eq!(replayed(&one), Some(Property::MutualExclusion));
        let least = one.preemptions(&check(&one)).unwrap().len();
        assert_eq!(least, preemptions, "the committed schedule has the least number of preemptions");
        // The repaired lock behaves differently along the same schedule.
        let mended = Check { mutant: None, ..check(&one) };
        assert!(replay(&mended, &one.schedule).map_or(true, |(_, violation)| violation.is_none()));
    }
}
