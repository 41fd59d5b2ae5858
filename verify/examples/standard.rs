//! Checks the quick standard configurations of the named locks, up to the first violation.
//!
//! `scripts/source-mutants` runs it once for each mutant: it builds faster than `rmalab verify`, and needs no table.

use std::process::ExitCode;
use std::time::Duration;

use rmalab_verify::configurations::configurations;
use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::{Finding, subject};

/// The time of one search. The locks themselves need less.
const LONGEST: Duration = Duration::from_secs(40);

fn main() -> ExitCode {
    for name in std::env::args().skip(1) {
        let Some(subject) = subject(&name) else {
            eprintln!("no lock is called '{name}'");
            return ExitCode::from(2);
        };
        for one in configurations(&subject).into_iter().filter(|one| !one.long) {
            let check = one.check(&subject);
            let options = Options { order: one.order, max_time: Some(LONGEST), threads: 1, ..Options::default() };
            let found = match explore(&check, &options, &|_| true) {
                Ok(outcome) => match outcome.finding {
                    Finding::Violated(found) => found.violation.to_string(),
                    _ => continue,
                },
                Err(error) => error.to_string(),
            };
            println!("{name}, {}, {}: {found}", check.scenario, check.network);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
