//! Every lock on a network where an atomic operation may erase a put.

use rmalab_verify::configurations::configurations;
use rmalab_verify::explorer::Options;
use rmalab_verify::{Check, Network, subject, subjects};

use crate::{run, verdict};

/// Scenarios beyond the standard configurations: writers of two nodes, and readers that arrive late for a writer's
/// word.
const FURTHER: [(&str, &str); 3] = [("rma-rw", "1R2Wx1/2"), ("mcs-rw-neutral", "1R1Wx2"), ("tas", "3Wx2")];

#[test]
fn every_lock_holds_where_puts_meet_atomics() {
    let mut checks: Vec<Check> = Vec::new();
    for subject in subjects() {
        let standard = configurations(&subject).into_iter().filter(|one| one.network == Network::Hca && !one.long);
        checks.extend(standard.map(|one| one.check(&subject)));
    }
    for (name, scenario) in FURTHER {
        let mut check = Check::new(subject(name).expect("a standard lock"), scenario.parse().unwrap());
        check.network = Network::Hca;
        checks.push(check);
    }
    let broken: Vec<String> = checks
        .iter()
        .filter_map(|check| {
            let property = verdict(&run(check, &Options::default()))?;
            Some(format!("{} {}: {property}", check.subject.name(), check.scenario))
        })
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}
