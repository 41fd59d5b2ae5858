//! The simulator's speed on this machine: events per second at 4,096 ranks, and the time and memory of 663,552 ranks.
//!
//! `cargo bench --bench sim` runs both; `-- --test` a small one. The first goal is 1.5 million events per second at
//! 4,096 ranks. The second is a run of 663,552 ranks, each with 10 pairs of lock_all and unlock_all, in 60 s and 4 GiB.

use std::time::Instant;

use rmalab_atomics::RemoteAtomics;
use rmalab_atomics::sim::profile::LocalAtomics;
use rmalab_atomics::sim::{Options, Profile, Simulator};
use rmalab_locks::{Policy, PolicyKind, WindowLock};

fn main() {
    let runs: &[(u32, u32)] =
        if std::env::args().any(|argument| argument == "--test") { &[(64, 10)] } else { &[(4096, 100), (663_552, 10)] };
    let profile = Profile::builtin("fx100").expect("it comes with the program");
    for &(ranks, pairs) in runs {
        for (policy, local) in [
            (PolicyKind::Hierarchical, LocalAtomics::Processor),
            (PolicyKind::McsRwRp, LocalAtomics::Processor),
            (PolicyKind::McsRwRp, LocalAtomics::Nic),
        ] {
            run(&profile, ranks, pairs, policy, local);
        }
    }
}

fn run(profile: &Profile, ranks: u32, pairs: u32, policy: PolicyKind, local: LocalAtomics) {
    let begin = Instant::now();
    let simulator = Simulator::new(profile, &Options { local_atomics: Some(local), ..Options::new(ranks) });
    let outcome = simulator.expect("it fits").run(move |ra| {
        let mut lock = Policy::new(ra, policy).expect("there is room");
        for _ in 0..pairs {
            lock.lock_all(ra).expect("all are alive");
            lock.unlock_all(ra).expect("all are alive");
        }
        ra.now().0
    });
    let outcome = outcome.expect("it ends");
    let seconds = begin.elapsed().as_secs_f64();
    let events = outcome.stats.events as f64;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    println!(
        "{policy}, {ranks} ranks, {pairs} pairs, words inside a node by {local:?}: {events:.0} events in {seconds:.2} \
         s, {:.2} M/s; slowest pair {:.3} us; most memory so far {peak}",
        events / seconds / 1e6,
        outcome.results.iter().max().map_or(0.0, |&end| end as f64 / f64::from(pairs) / 1e3),
    );
}
