//! The explorer's speed and its memory per state, beside its goals.
//!
//! `cargo bench -p rmalab-verify --bench explorer` prints the median of several searches. A missed goal fails nothing,
//! since the figures depend on the load of the machine.

use std::time::Duration;

use rmalab_verify::explorer::{Options, Search, explore};
use rmalab_verify::{Check, Finding, Progress, subject};

/// Repetitions of each short search.
const REPETITIONS: usize = 9;

/// Goal: distinct states per second on one thread.
const STATES_A_SECOND: f64 = 300_000.0;
/// Goal: bytes per state.
const BYTES_A_STATE: f64 = 120.0;
/// Goal: time for the 1.5 million states of two readers and two writers with two acquisitions each.
const LONG: Duration = Duration::from_secs(60);

/// The searches: name, scenario, options, repetitions.
fn rows() -> Vec<(&'static str, &'static str, Options, usize)> {
    let options = Options { threads: 1, symmetry: false, ..Options::default() };
    let depth = Options { search: Search::DepthFirst, ..options.clone() };
    let symmetric = Options { symmetry: true, ..options.clone() };
    let two = |options: &Options| Options { threads: 2, ..options.clone() };
    vec![
        ("breadth-first", "2R2Wx1", options.clone(), REPETITIONS),
        ("breadth-first, symmetry", "2R2Wx1", symmetric.clone(), REPETITIONS),
        ("depth-first", "2R2Wx1", depth.clone(), REPETITIONS),
        ("breadth-first", "2R2Wx2", two(&options), 1),
        ("breadth-first, symmetry", "2R2Wx2", two(&symmetric), 1),
        ("depth-first", "2R2Wx2", two(&depth), 1),
    ]
}

fn search(scenario: &str, options: &Options) -> Progress {
    let lock = subject("mcs-rw-rp").expect("a standard lock");
    let check = Check::new(lock, scenario.parse().expect("a valid scenario"));
    let outcome = explore(&check, options, &|_| true).expect("the check makes sense");
    assert_eq!(outcome.finding, Finding::Holds, "{scenario}");
    outcome.progress
}

fn main() {
    // `cargo test` only checks that bench targets run.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("mcs-rw-rp, all states; medians; goals of a breadth-first search without symmetry\n");
    println!(
        "{:<8} {:<24} {:>7} {:>10} {:>9} {:>12} {:>14}",
        "", "search", "threads", "states", "seconds", "states/s", "bytes/state"
    );
    for (name, scenario, options, repetitions) in rows() {
        let mut all: Vec<Progress> = (0..repetitions).map(|_| search(scenario, &options)).collect();
        all.sort_by_key(|progress| progress.elapsed);
        let Progress { states, elapsed, bytes, .. } = all[repetitions / 2];
        let seconds = elapsed.as_secs_f64();
        println!(
            "{scenario:<8} {name:<24} {:>7} {states:>10} {seconds:>9.3} {:>12.0} {:>14.1}",
            options.threads,
            states as f64 / seconds,
            bytes as f64 / states as f64
        );
    }
    println!(
        "\ngoals: at least {STATES_A_SECOND:.0} states/s by one thread, at most {BYTES_A_STATE} bytes/state, 2R2Wx2 within {} s",
        LONG.as_secs()
    );
}
