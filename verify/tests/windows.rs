//! Programs on windows, in every interleaving and on every network, and defects of the window layer that they find.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::shuttle_engine::{self, Method};
use rmalab_verify::window_programs::{WindowProgram, check_of, defects, programs};
use rmalab_verify::{Check, Finding, Limit, Livelocks, Mutant, Network, Property, WAITED, diagram, replay};

/// The columns of the page.
const NETWORKS: [Network; 5] =
    [Network::Sc, Network::LatePuts, Network::UnorderedBulk, Network::OrderedBulk, Network::Hca];

/// One thread, so that the figures are always the same.
fn options() -> Options {
    Options { threads: 1, max_bytes: 1 << 30, ..Options::default() }
}

fn program(name: &str) -> WindowProgram {
    programs().into_iter().find(|program| program.name == name).unwrap()
}

/// Searches the program completely on its networks, and returns its row of the page.
fn holds(program: &WindowProgram) -> String {
    let states = |network: &Network| {
        if !program.networks.contains(network) {
            return "-".to_owned();
        }
        let outcome = explore(&program.check(*network).unwrap(), &options(), &|_| true)
            .unwrap_or_else(|error| panic!("{} {network}: {error}", program.name));
        assert_eq!(outcome.finding, Finding::Holds, "{} {network}", program.name);
        assert_ne!(outcome.livelocks, Livelocks::NotSearched, "{} {network}", program.name);
        for (what, happened) in outcome.sometimes {
            assert!(happened, "{} {network}: never: {what}", program.name);
        }
        outcome.progress.states.to_string()
    };
    let states: Vec<String> = NETWORKS.iter().map(states).collect();
    format!("| `{}` | {} | {} | {} |", program.name, program.ranks, program.about, states.join(" | "))
}

/// Finds the defect, replays the counterexample, and returns its row of the page.
fn breaks(defect: &'static Mutant) -> String {
    let check = check_of(defect).unwrap();
    let outcome = explore(&check, &options(), &|_| true).unwrap_or_else(|error| panic!("{}: {error}", defect.name));
    let Finding::Violated(found) = outcome.finding else { panic!("{}: {:?}", defect.name, outcome.finding) };
    let property = found.violation.property;
    assert!(!matches!(property, Property::Order | Property::NoLivelock) || found.cycle.is_none(), "{}", defect.name);
    let (steps, seen) = replay(&check, &found.schedule).unwrap();
    assert_eq!(seen.map(|seen| seen.property), Some(property), "{}", defect.name);
    let drawn = diagram::text(&check, &found).unwrap();
    let names = ["A.", "ring."].iter().any(|words| drawn.contains(words));
    assert!(names, "{}: the diagram names no word of the window:\n{drawn}", defect.name);
    let (program, network, steps) = (check.subject.name(), defect.network, steps.len());
    format!("| `{}` | {} | `{program}` | {network} | {property} | {steps} |", defect.name, defect.description)
}

/// The rows of all items, computed by two threads.
fn rows<'t, T: Sync>(all: &'t [T], row: impl Fn(&'t T) -> String + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(vec![String::new(); all.len()]);
    let work = || {
        while let Some((i, one)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, all.get(i)?))) {
            let row = row(one);
            rows.lock().unwrap()[i] = row;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    rows.into_inner().unwrap()
}

fn searched() -> Vec<WindowProgram> {
    programs().into_iter().filter(|program| !program.networks.is_empty()).collect()
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results/checked-windows.md")
}

/// Checks that the page has these rows.
fn are_on_the_page(rows: &[String]) {
    let committed = std::fs::read_to_string(page()).unwrap();
    for row in rows {
        assert!(
            committed.lines().any(|line| line == row),
            "docs/results/checked-windows.md is out of date: run `cargo test -p rmalab-verify --test all windows:: -- \
             --ignored`; it lacks\n{row}"
        );
    }
}

/// The programs of more than 150,000 states on all networks together: five in six of all states.
const LARGE: [&str; 11] = [
    "fence-centralized-3",
    "pscw-matching-3",
    "fence+lock-two-level",
    "sum-cas",
    "sum-locked-3",
    "sum-u16-native",
    "maxloc-pair-3",
    "bias-runs",
    "bias-3",
    "messages-3",
    "messages-full-exchange",
];

#[test]
fn every_small_program_holds_in_every_order() {
    let small: Vec<WindowProgram> = searched().into_iter().filter(|program| !LARGE.contains(&program.name)).collect();
    are_on_the_page(&rows(&small, holds));
}

#[test]
#[ignore = "a minute; .ci/run longer"]
fn longer_every_large_program_holds_in_every_order() {
    are_on_the_page(&rows(&LARGE.map(program), holds));
}

#[test]
fn every_defect_is_found() {
    are_on_the_page(&rows(defects(), breaks));
}

#[test]
#[ignore = "writes docs/results/checked-windows.md"]
fn the_page_is_written() {
    let (programs, defects) = (rows(&searched(), holds).join("\n"), rows(defects(), breaks).join("\n"));
    let text = format!(
        "# Programs on windows, checked by the explorer\n\n\
         Generated by `cargo test -p rmalab-verify --test all windows:: -- --ignored`; a test compares it with a fresh search.\n\
         The checked features and the networks: [Verify](../verify.md#windows).\n\n\
         ## Programs\n\n\
         Each program holds in every interleaving of its ranks' calls and the network's steps. The figures are states. `-` is \
         a network\nwithout a search.\n\n\
         | program | ranks | what each rank does | sc | late-puts | unordered-bulk | ordered-bulk | hca |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n{programs}\n\n\
         ## Defects\n\n\
         Each defect omits or falsifies one part of the window layer, and breaks a program. The steps are the length of a shortest\n\
         counterexample.\n\n\
         | defect | what is wrong | program | network | property | steps |\n\
         | --- | --- | --- | --- | --- | --- |\n{defects}\n"
    );
    std::fs::write(page(), text).unwrap();
}

/// Ranks that poll a full ring, and meanwhile remove posts from their own, have infinitely many states. So these
/// executions are random.
#[test]
#[ignore = "six seconds; .ci/run longer"]
fn longer_full_rings_lose_no_post() {
    for name in ["pscw-full-3", "pscw-full-4"] {
        let check = program(name).check(Network::Sc).unwrap();
        for method in [Method::Random { seed: 1 }, Method::Pct { seed: 1, depth: 3 }] {
            let options = shuttle_engine::Options { method, executions: 5_000, ..Default::default() };
            let outcome = shuttle_engine::run(&check, &options, &|_| true).unwrap();
            assert_eq!(outcome.finding, Finding::Incomplete(Limit::Executions), "{name} {method:?}");
            assert_eq!(outcome.cut, 0, "{name} {method:?}");
            assert!(outcome.sometimes.contains(&(WAITED, true)), "{name} {method:?}");
            assert!(outcome.behaviours > 100, "{name} {method:?}: {}", outcome.behaviours);
        }
    }
    // Shuttle also finds the former defect of the layer.
    let defect = defects().iter().find(|defect| defect.name == "full-ring-waits").unwrap();
    let check = check_of(defect).unwrap();
    let outcome = shuttle_engine::run(&check, &shuttle_engine::Options::default(), &|_| true).unwrap();
    assert_eq!(outcome.violation().map(|found| found.violation.property), Some(Property::NoDeadlock));
}

/// If the processor reaches all memory, the windows' 8-byte operations are its loads, stores and atomics, and a flush
/// completes the stores by a fence. The programs also hold on that path.
#[test]
#[ignore = "ten seconds; .ci/run longer"]
fn longer_programs_hold_by_the_processor() {
    // By the processor these have the most states, and the other programs cover all their features.
    const LARGEST: [&str; 2] = ["pscw-matching-3", "maxloc-pair-3"];
    // If accumulates have a bias, their words are reached over the network.
    let searched = searched().into_iter().filter(|program| program.bias.is_none() && !LARGEST.contains(&program.name));
    let by_processor = |mut program: WindowProgram| {
        program.local_words = true;
        program
    };
    let all: Vec<WindowProgram> = searched.map(by_processor).collect();
    let states = rows(&all, |program| {
        if !program.networks.contains(&Network::LatePuts) {
            return String::new();
        }
        let outcome = explore(&program.check(Network::LatePuts).unwrap(), &options(), &|_| true)
            .unwrap_or_else(|error| panic!("{}: {error}", program.name));
        assert_eq!(outcome.finding, Finding::Holds, "{}", program.name);
        outcome.progress.states.to_string()
    });
    // It is a different path: stores without a completed flush have states of their own.
    let by_network = explore(&program("fence-2").check(Network::LatePuts).unwrap(), &options(), &|_| true).unwrap();
    let fence = all.iter().position(|program| program.name == "fence-2").unwrap();
    assert_ne!(states[fence], by_network.progress.states.to_string());
}

/// Where puts keep their order, the layer notifies a rank by a put that follows the data. An atomic would not follow them.
/// On every other network a flush comes between, so that the same atomic does no harm.
#[test]
fn an_atomic_in_place_of_a_put_that_follows_the_data_shows_only_where_puts_keep_their_order() {
    for name in ["complete-by-atomic", "message-by-atomic"] {
        let defect = defects().iter().find(|defect| defect.name == name).unwrap();
        let program = programs().into_iter().find(|program| defect.suits(program.name)).unwrap();
        for network in Network::ALL {
            let check = Check { mutant: Some(defect), ..program.check(network).unwrap() };
            let outcome = explore(&check, &options(), &|_| true).unwrap();
            let holds = outcome.finding == Finding::Holds;
            assert_eq!(holds, network != Network::OrderedBulk, "{name} {network}: {:?}", outcome.finding);
        }
    }
}

#[test]
fn a_backend_that_claims_an_order_of_puts_without_keeping_it_is_detected() {
    for name in ["pscw-flags-2", "messages-full-2"] {
        let mut claiming = program(name);
        claiming.claims_ordered_puts = true;
        let on = |network| explore(&claiming.check(network).unwrap(), &options(), &|_| true).unwrap();
        let found = on(Network::UnorderedBulk);
        let found = found.violation().unwrap_or_else(|| panic!("{name}: {:?}", found.finding));
        assert_eq!(found.violation.property, Property::Visibility, "{name}");
        let (kept, claimed) = (explore_plain(name, Network::OrderedBulk), on(Network::OrderedBulk));
        assert_eq!((&claimed.finding, claimed.progress.states), (&Finding::Holds, kept), "{name}");
    }
}

/// The states of the program on `network`.
fn explore_plain(name: &str, network: Network) -> u64 {
    explore(&program(name).check(network).unwrap(), &options(), &|_| true).unwrap().progress.states
}
