//! Every engine shows a lock the same placement of ranks.

use rmalab_atomics::{Address, Rank, RemoteAtomics, WORD};
use rmalab_locks::qnode::pointer;
use rmalab_locks::{Place, RawRwLock, Result};
use rmalab_verify::explorer::{self, Options};
use rmalab_verify::subject::{At, Holds, WORDS};
use rmalab_verify::{
    Check, Counterexample, Finding, Network, Outcome, Property, Subject, loom_engine, replay, shuttle_engine, subject,
};

/// A test-and-set lock whose word is at the first rank of the node, so that it excludes no rank on other nodes.
#[derive(Debug)]
struct OfTheNode {
    word: Address,
    me: u64,
}

impl RawRwLock for OfTheNode {
    const NAME: &'static str = "of-the-node";
    const WORDS: u64 = WORD;
    const NODE: u64 = WORD;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<OfTheNode> {
        let node_of = |rank| ra.topology().node_of(rank);
        let first = (0..ra.size()).map(Rank).find(|&rank| node_of(rank) == node_of(ra.rank())).unwrap();
        Ok(OfTheNode { word: first.at(place.node), me: pointer(ra.rank()) })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        while ra.compare_and_swap(self.word, 0, self.me)? != 0 {
            ra.pause(1)?;
        }
        Ok(())
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_store(self.word, 0)?;
        Ok(())
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.acquire_read(ra)
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.release_read(ra)
    }
}

fn check(scenario: &str) -> Check {
    let of_the_node = Subject::lock::<OfTheNode>(()).exclusive().words(
        At::Each,
        WORDS.plus(rmalab_locks::LINE),
        &[("owner", Holds::Pointer)],
    );
    Check::new(of_the_node, scenario.parse().unwrap())
}

/// The index of loom's result among the findings.
const LOOM: usize = 2;

/// The findings of the engines: the explorer without and with symmetry, loom, shuttle.
fn found(check: &Check) -> Vec<Option<Counterexample>> {
    let mut all = Vec::new();
    for symmetry in [false, true] {
        let options = Options { symmetry, ..Options::default() };
        all.push(match explorer::explore(check, &options, &|_| true).unwrap().finding {
            Finding::Violated(one) => Some(one),
            finding => {
                assert_eq!(finding, Finding::Holds);
                None
            }
        });
    }
    let shuttle = shuttle_engine::Options { executions: 500, ..shuttle_engine::Options::default() };
    let outcomes: [Outcome; 2] = [
        loom_engine::run(check, &loom_engine::Options::default(), &|_| true).unwrap(),
        shuttle_engine::run(check, &shuttle, &|_| true).unwrap(),
    ];
    all.extend(outcomes.iter().map(|outcome| outcome.violation().cloned()));
    all
}

#[test]
fn every_engine_shows_the_lock_its_nodes() {
    for right in ["2W", "2W/2", "2W/4"] {
        assert!(found(&check(right)).iter().all(Option::is_none), "{right}");
    }
    for wrong in ["2W/1", "3W/2", "2W/1/2"] {
        let check = check(wrong);
        for (engine, one) in found(&check).into_iter().enumerate() {
            let one = one.unwrap_or_else(|| panic!("{wrong}: an engine finds nothing"));
            assert_eq!(one.violation.property, Property::MutualExclusion, "{wrong}");
            let written = serde_json::to_string(&one).unwrap();
            let read: Counterexample = serde_json::from_str(&written).unwrap();
            read.suits(&check).unwrap();
            let (_, seen) = replay(&check, &read.schedule).unwrap();
            // For loom, unordered sections are a race even if they did not overlap.
            assert!(engine == LOOM || seen.is_some(), "{wrong}");
            assert!(seen.is_none_or(|seen| seen.property == Property::MutualExclusion), "{wrong}");
        }
    }
    // On other topologies, the same schedule is impossible.
    let one = found(&check("2W/1")).remove(0).unwrap();
    assert!(one.suits(&check("2W")).is_err());
}

/// The number of states of `lock` in `scenario`, in which no property is broken.
fn states(lock: &str, scenario: &str, symmetry: bool) -> u64 {
    let check = Check::new(subject(lock).unwrap(), scenario.parse().unwrap());
    let options = Options { symmetry, ..Options::default() };
    let outcome = explorer::explore(&check, &options, &|_| true).unwrap();
    assert_eq!(outcome.finding, Finding::Holds, "{scenario}");
    outcome.progress.states
}

#[test]
fn like_ranks_of_one_node_are_interchangeable() {
    let all = states("mcs", "4W", false);
    assert_eq!(states("mcs", "4W/2", false), all, "the lock does not use its nodes");
    assert_eq!(states("mcs", "4W/2", true), all, "no node has two ranks besides its first");
    let some = states("mcs", "4W/3", true);
    assert!(some < all && 2 * some >= all, "ranks 1 and 2 are interchangeable: {some} of {all}");
    // A lock that depends on the placement is searched with that placement.
    assert!(found(&check("3W/3")).iter().all(Option::is_none));
}

#[test]
fn near_and_far_ranks_of_an_alock_exclude_each_other() {
    // Ranks 0 and 1 are far, ranks 2 and 3 near: the home takes part.
    for (lock, network) in [("alock", Network::Sc), ("alock", Network::LatePuts), ("alock-1", Network::LatePuts)] {
        let check = Check::new(subject(lock).unwrap(), "4Wx1/2".parse().unwrap());
        let check = Check { network, home: Some(Rank(3)), ..check };
        let outcome = explorer::explore(&check, &Options::default(), &|_| true).unwrap();
        assert_eq!(outcome.finding, Finding::Holds, "{lock} on {network}");
    }
}

#[test]
fn a_pointer_beside_other_fields_is_renumbered_with_its_rank() {
    let [all, some] = [false, true].map(|symmetry| states("shiftlock", "3W", symmetry));
    assert!(some < all && 6 * some >= all, "three ranks are interchangeable: {some} of {all}");
}
