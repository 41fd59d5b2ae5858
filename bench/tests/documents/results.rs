//! The generated results in `docs/results` match the source.

use std::collections::BTreeSet;

use rmalab::compare::OPERATIONS;
use rmalab::verify::{Selection, section_name};
use rmalab::{Info, Kind, Registry};
use rmalab_locks::PolicyKind;
use rmalab_verify::Network;

use crate::page::{read, root};

fn result(name: &str) -> String {
    read(&root().join("docs/results").join(name))
}

/// The cells of the rows of all tables of a page, without their names and lines.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .filter_map(|line| Some(line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect()))
        .filter(|cells: &Vec<&str>| !cells[0].starts_with("---"))
        .collect()
}

/// The checks of a page: engine, lock, network, scenario and section.
fn checks(name: &str) -> BTreeSet<[String; 5]> {
    let text = result(name);
    let checks = rows(&text).into_iter().filter(|cells| cells.len() >= 13 && cells[0] != "lock");
    checks.map(|cells| [cells[1], cells[0], cells[2], cells[3], cells[4]].map(str::to_owned)).collect()
}

/// The explorer's standard checks, optionally with the long ones.
fn standard(long: bool) -> BTreeSet<[String; 5]> {
    let selection = Selection { long, networks: Network::ALL.to_vec(), ..Selection::default() };
    names_of(&selection)
}

fn names_of(selection: &Selection) -> BTreeSet<[String; 5]> {
    let jobs = selection.jobs(&Registry::standard(), &Default::default()).expect("the standard checks exist");
    let name = |job: &rmalab::verify::Job| {
        let check = &job.check;
        let scenario = check.scenario.to_string();
        let names = [
            job.engine.name(),
            check.subject.name(),
            &check.network.to_string(),
            &scenario,
            section_name(check.section),
        ];
        names.map(str::to_owned)
    };
    jobs.iter().map(name).collect()
}

#[test]
fn without_the_name_of_a_lock_only_searches_that_others_include_are_left_out() {
    let (all, made) = (standard(true), names_of(&Selection { long: true, ..Selection::default() }));
    assert!(made.is_subset(&all));
    let of_late_puts = |check: &[String; 5]| {
        let mut check = check.clone();
        check[2] = Network::LatePuts.to_string();
        check
    };
    let left_out: Vec<_> = all.difference(&made).collect();
    assert!(left_out.len() > 100);
    for check in left_out {
        assert!(check[2] == "sc" && made.contains(&of_late_puts(check)), "{check:?}");
    }
}

#[test]
fn the_page_of_the_explorer_has_every_standard_check() {
    let (page, source) = (checks("checked.md"), standard(false));
    let missing: Vec<_> = source.difference(&page).collect();
    let gone: Vec<_> = page.difference(&source).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "docs/results/checked.md is stale: missing {missing:?}, gone {gone:?}"
    );
}

#[test]
fn the_other_pages_of_checks_name_locks_that_exist() {
    let names: BTreeSet<String> = standard(true).into_iter().map(|check| check[1].clone()).collect();
    for name in ["checked-long.md", "checked-by-executions.md", "checked-failures.md"] {
        let page = checks(name);
        assert!(!page.is_empty());
        let gone: Vec<_> = page.iter().filter(|check| !names.contains(&check[1])).collect();
        assert!(gone.is_empty(), "docs/results/{name} is stale: {gone:?}");
    }
}

/// Checks that the tables of a page have every lock and policy that `belongs` there.
fn has_every_lock(name: &str, belongs: impl Fn(&Info) -> bool) {
    let text = result(name);
    let there: BTreeSet<&str> = rows(&text).into_iter().map(|cells| cells[0]).collect();
    let registry = Registry::standard();
    let locks = registry.subjects().map(|subject| subject.info()).filter(|info| belongs(info));
    let missing: Vec<&str> = locks.map(|info| info.name.as_str()).filter(|lock| !there.contains(lock)).collect();
    assert!(missing.is_empty(), "docs/results/{name} is stale: it lacks {missing:?}");
}

/// Locks for fewer ranks than the arena has.
const TOO_SMALL_FOR_THE_ARENA: [&str; 1] = ["robust-rw"];

/// Locks that the page of a million ranks may lack: one is for fewer ranks, and a lock_all of the other looks at every rank.
const NOT_FOR_A_MILLION: [&str; 2] = ["robust-hierarchical", "two-level-scan"];

#[test]
fn the_pages_of_locks_have_every_lock() {
    has_every_lock("study.md", |_| true);
    has_every_lock("scale.md", |info| !NOT_FOR_A_MILLION.contains(&info.name.as_str()));
    has_every_lock("arena.md", |info| {
        info.kind != Kind::Policy && !TOO_SMALL_FOR_THE_ARENA.contains(&info.name.as_str())
    });
}

#[test]
fn the_readme_names_the_origin_of_its_figure() {
    let study = result("study.md");
    let made = study.lines().find(|line| line.starts_with("Made by")).expect("a line of origin");
    let between =
        |from: &str, to: &str| made.split_once(from).and_then(|(_, rest)| Some(rest.split_once(to)?.0.to_owned()));
    let readme = read(&root().join("README.md"));
    for (from, to) in [("`rmalab ", "`"), ("commit ", ","), ("processors of ", ". ")] {
        let origin = between(from, to).expect("a part of the origin");
        assert!(readme.contains(&origin), "README.md's figure is of docs/results/study.md, but does not name {origin}");
    }
}

#[test]
fn the_comparison_has_every_operation() {
    let text = result("comparison.md");
    let there: BTreeSet<&str> = rows(&text).into_iter().map(|cells| cells[0]).collect();
    let missing: Vec<_> = OPERATIONS.iter().filter(|operation| !there.contains(operation.title)).collect();
    assert!(missing.is_empty(), "docs/results/comparison.md is stale: it lacks {missing:?}");
}

/// A result has the command that made it.
#[test]
fn the_page_of_failures_has_every_robust_lock() {
    let page = result("failures.md");
    for name in PolicyKind::NAMES.iter().filter(|name| name.starts_with("robust-")) {
        assert!(page.contains(&format!("| {name} |")), "docs/results/failures.md lacks {name}");
    }
}

#[test]
fn results_name_their_commands() {
    for name in [
        "checked.md",
        "checked-long.md",
        "checked-by-executions.md",
        "checked-failures.md",
        "mutants.md",
        "scale.md",
        "rma-rw.md",
        "arena.md",
        "study.md",
        "failures.md",
        "ratios.md",
        "windows.md",
        "comparison.md",
    ] {
        let text = result(name);
        let head: String = text.lines().take(6).collect();
        assert!(head.contains("by `"), "docs/results/{name} does not name its command");
    }
}
