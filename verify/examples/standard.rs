//! Checks the quick standard configurations of the named locks, up to the first violation.
//!
//! `scripts/source-mutants` runs it once for each change: it builds faster than `rmalab verify`, and needs no table. For each configuration
//! it prints what the explorer warns of, and the bypass. The script compares these lines with those of the unchanged locks.

use std::process::ExitCode;

use rmalab_verify::configurations::configurations;
use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::{Finding, subject};

/// The memory of one search. The locks themselves need less.
const MOST_BYTES: u64 = 3 << 30;

fn main() -> ExitCode {
    for name in std::env::args().skip(1) {
        let Some(subject) = subject(&name) else {
            eprintln!("no lock is called '{name}'");
            return ExitCode::from(2);
        };
        for one in configurations(&subject).into_iter().filter(|one| !one.long) {
            let check = one.check(&subject);
            let options = Options { order: one.order, max_bytes: MOST_BYTES, threads: 1, ..Options::default() };
            let at = format!("{name}, {}, {}", check.scenario, check.network);
            let found = match explore(&check, &options, &|_| true) {
                Ok(outcome) => match outcome.finding {
                    Finding::Violated(found) => found.violation.to_string(),
                    Finding::Incomplete(limit) => format!("incomplete, {} limit", limit.name()),
                    Finding::Holds => {
                        let never: Vec<_> = outcome.sometimes.iter().filter(|(_, seen)| !seen).collect();
                        println!("{at}: warnings {never:?} {:?} {:?}", outcome.unexplored, outcome.livelocks);
                        let bypass: Vec<_> = outcome.bypass.iter().map(ToString::to_string).collect();
                        println!("{at}: bypass {}", bypass.join(", "));
                        continue;
                    }
                },
                Err(error) => error.to_string(),
            };
            println!("{at}: {found}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
