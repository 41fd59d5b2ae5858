//! scratch
#![allow(clippy::unwrap_used)]
use rmalab_verify::*;
use rmalab_verify::explorer::*;
fn main() {
    let rows = kill_matrix::rows(mutants(), &kill_matrix::options(), &|_| true, |_| {}).unwrap();
    std::fs::write("docs/mutants.md", kill_matrix::document(&rows)).unwrap();
    std::fs::create_dir_all("verify/counterexamples").unwrap();
    for (name, scenario, p) in [("neutral-no-second-look", "3R1W", 2), ("neutral-untagged", "3R+1Wx2", 4)] {
        let check = kill_matrix::check(mutant(name).unwrap(), &subject("mcs-rw-neutral").unwrap(), scenario.parse().unwrap());
        let Finding::Violated(c) = explore(&check, &Options { preemptions: Some(p), ..kill_matrix::options() }, &|_| true).unwrap().finding else { panic!() };
        println!("{name} {} {} steps, preemptions {:?}", c.violation, c.schedule.len(), c.preemptions(&check).unwrap());
        c.save(std::path::Path::new(&format!("verify/counterexamples/{name}.json"))).unwrap();
    }
}
