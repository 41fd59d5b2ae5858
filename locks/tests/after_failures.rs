//! The remote operations of acquisitions after a failure, on a simulated machine.

use std::time::Duration;

use rmalab_atomics::sim::profile::Span;
use rmalab_atomics::sim::{Options, Profile, Simulator};
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Entry, LockKind, Policy, PolicyKind, WindowLock};

const RANKS: u32 = 16;

/// The exclusive locks of each rank.
const TURNS: u32 = 200;

/// Returns the number of operations for an exclusive lock and its unlock. One rank may fail in its fourth lock.
fn operations(policy: PolicyKind, fails: bool) -> f64 {
    let profile = Profile::builtin("infiniband-ndr").unwrap();
    let detection = Some(Span::nanoseconds(10_000));
    let options = Options { ranks_per_node: Some(1), detection, ..Options::new(RANKS) };
    let outcome = Simulator::new(&profile, &options).unwrap().run(move |ra| {
        let mut lock = Policy::new(ra, policy).unwrap();
        for turn in 0..TURNS {
            if let Entry::OwnerDead(_) = lock.recoverable_lock(ra, LockKind::Exclusive, Rank(0)).unwrap() {
                lock.consistent(ra).unwrap();
            }
            ra.compute(Duration::from_micros(1)).unwrap();
            if fails && turn == 3 && ra.rank() == Rank(5) {
                ra.fail().unwrap();
                return turn;
            }
            lock.unlock(ra, LockKind::Exclusive, Rank(0)).unwrap();
        }
        TURNS
    });
    let outcome = outcome.unwrap();
    outcome.stats.operations.total() as f64 / f64::from(outcome.results.iter().sum::<u32>())
}

#[test]
fn acquisitions_after_a_failure_cost_little_more() {
    for &policy in PolicyKind::ALL.iter().filter(|policy| policy.name().starts_with("robust-")) {
        let [without, with] = [false, true].map(|fails| operations(policy, fails));
        assert!(
            with <= 1.25 * without,
            "{}: {with:.1} operations after a failure, {without:.1} without",
            policy.name()
        );
    }
}
