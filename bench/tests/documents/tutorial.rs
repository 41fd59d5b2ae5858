//! The tutorial shows the output of its program, and its lock is correct.

#[path = "../../tutorial/draft.rs"]
mod draft;
#[path = "../../tutorial/gate.rs"]
mod gate;
#[path = "../../tutorial/table.rs"]
mod table;

use rmalab::verify::{Job, Selection, Verdict};
use rmalab::{Holds, Registry};
use rmalab_verify::{Network, diagram, explorer};

use crate::page::{read, root};

/// The checks of `verify --lock NAME --scenario SCENARIOS --network NETWORKS`.
fn checks(name: &str, scenarios: &[&str], networks: &[Network]) -> Vec<Job> {
    let mut registry = Registry::standard();
    registry.add_mutex::<draft::Draft>("wrong").words(&[("taken", Holds::Number)], &[]);
    registry.add_mutex::<gate::Gate>("right").words(&[("taken", Holds::Number)], &[]);
    let selection = Selection {
        locks: vec![name.into()],
        scenarios: scenarios.iter().map(|scenario| scenario.parse().expect("a scenario")).collect(),
        networks: networks.to_vec(),
        ..Selection::default()
    };
    selection.jobs(&registry, &explorer::Options::default()).expect("both locks are known")
}

fn page() -> String {
    read(&root().join("docs/tutorial.md"))
}

#[test]
fn the_tutorial_draws_the_counterexample_that_the_explorer_finds() {
    let jobs = checks("draft", &["2Wx1"], &[Network::Sc]);
    let checked = jobs[0].run(&|_| true);
    let counterexample = checked.counterexample().expect("the first version is wrong");
    let drawn = diagram::text(&jobs[0].check, counterexample).unwrap();
    assert!(drawn.contains("✗ mutual-exclusion"), "{drawn}");
    assert!(
        page().contains(&format!("```text\n{}\n```", drawn.trim_end())),
        "docs/tutorial.md does not have:\n{drawn}"
    );
}

#[test]
fn the_tutorials_table_matches_the_explorer() {
    let page = page();
    let rows: Vec<Vec<&str>> = page.lines().map(|line| line.split_whitespace().collect()).collect();
    let jobs = checks("gate", &["2Wx2", "3Wx1", "4Wx2"], &[Network::Sc, Network::LatePuts]);
    assert_eq!(jobs.len(), 6);
    for job in jobs {
        let checked = job.run(&|_| true);
        assert_eq!(checked.verdict, Verdict::Holds);
        let (network, scenario) = (job.check.network.name(), job.check.scenario.to_string());
        let row = rows.iter().find(|row| row.starts_with(&["gate", "explorer", network, &scenario]));
        let row = row.unwrap_or_else(|| panic!("docs/tutorial.md has no row of {scenario} on {network}"));
        assert_eq!(row[6].replace(',', ""), checked.states.to_string(), "{scenario} on {network}");
    }
}

#[test]
fn a_window_uses_the_tutorials_lock() {
    assert_eq!(table::fill(4).unwrap().into_iter().max(), Some(6));
}
