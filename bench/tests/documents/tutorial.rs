//! The tutorial shows what its program prints, and its locks are what it says.

#[path = "../../examples/tutorial/draft.rs"]
mod draft;
#[path = "../../examples/tutorial/gate.rs"]
mod gate;
#[path = "../../examples/tutorial/proof.rs"]
mod proof;
#[path = "../../examples/tutorial/table.rs"]
mod table;

use draft::Draft;
use gate::Gate;
use rmalab_locks::suite;
use rmalab_verify::Subject;

use crate::page::{read, root};

#[test]
fn the_tutorial_shows_what_the_explorer_finds() {
    let page = read(&root().join("docs/tutorial.md"));
    let draft = proof::search(&Subject::mutex::<Draft>(()), &["2Wx1"]).unwrap();
    let gate = proof::search(&Subject::mutex::<Gate>(()), &["2Wx2", "3Wx1", "4Wx2"]).unwrap();
    assert!(draft.contains("mutual-exclusion") && !gate.contains("mutual-exclusion"), "{draft}{gate}");
    for part in [draft, gate] {
        assert!(
            page.contains(&format!("```text\n{}\n", part.trim_end())),
            "docs/tutorial.md does not have this:\n{part}"
        );
    }
}

#[test]
fn the_tutorials_lock_costs_one_and_one_and_serves_a_window() {
    suite::mutex::<Gate>(());
    assert_eq!(suite::mutex_cost::<Gate>(()), (1, 1));
    assert_eq!(table::fill(4).unwrap().into_iter().max(), Some(6));
}
