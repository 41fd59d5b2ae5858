//! Every order of the operations of a lock, in some scenarios on two models of the network.

use std::error::Error;
use std::fmt::Write;

use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::{Check, Finding, Network, Subject, diagram};

/// What the explorer finds, as text: the number of states of each search, and the first counterexample.
pub(crate) fn search(lock: &Subject, scenarios: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for scenario in scenarios {
        for network in [Network::Sc, Network::LatePuts] {
            let mut check = Check::new(lock.clone(), scenario.parse()?);
            check.network = network;
            let outcome = explore(&check, &Options::default(), &|_| true)?;
            if let Finding::Violated(counterexample) = outcome.finding {
                writeln!(text, "{}", diagram::text(&check, &counterexample)?)?;
                return Ok(text);
            }
            let (name, states) = (lock.name(), outcome.progress.states);
            writeln!(text, "{name}, {scenario}, {network}, {states} states: {:?}", outcome.finding)?;
        }
    }
    Ok(text)
}
