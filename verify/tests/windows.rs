//! Programs on windows, in every order and on every network; and defects of the window layer, which they find.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use rmalab_verify::explorer::{Finding, Options, explore};
use rmalab_verify::window_programs::{defects, programs};

fn options() -> Options {
    Options { max_bytes: 1 << 30, ..Options::default() }
}

#[test]
fn every_program_holds() {
    for program in programs() {
        for &network in program.networks {
            let check = program.check(network).unwrap();
            let begun = std::time::Instant::now();
            let outcome = explore(&check, &Options { max_states: Some(3_000_000), ..options() }, &|_| true);
            match outcome {
                Ok(outcome) => {
                    let finding = match &outcome.finding {
                        Finding::Violated(found) => format!("VIOLATED {}", found.violation),
                        other => format!("{other:?}"),
                    };
                    println!(
                        "{} {network} {} {finding} {:?} {:?}",
                        program.name,
                        outcome.progress.states,
                        outcome.sometimes,
                        begun.elapsed()
                    );
                }
                Err(error) => println!("{} {network} ERROR {error}", program.name),
            }
        }
    }
}

#[test]
fn every_defect_is_found() {
    for defect in defects() {
        let program = programs().into_iter().find(|program| program.name == defect.program).unwrap();
        let check = program.check_defect(defect).unwrap();
        match explore(&check, &options(), &|_| true) {
            Ok(outcome) => match outcome.finding {
                Finding::Violated(found) => {
                    println!("{}: {} steps, {}", defect.name, found.schedule.len(), found.violation)
                }
                other => println!("{} SURVIVES: {other:?}", defect.name),
            },
            Err(error) => println!("{} ERROR {error}", defect.name),
        }
    }
}
