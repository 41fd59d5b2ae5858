//! How fast the simulator is: events a second, and memory, on this machine.

use std::time::Instant;

use rmalab_atomics::sim::network::Shape;
use rmalab_atomics::sim::profile::*;
use rmalab_atomics::sim::{Options, Simulator};
use rmalab_atomics::{Disp, RemoteAtomics};
use rmalab_locks::{Policy, PolicyKind, WindowLock};

fn fx100() -> Profile {
    let ns = Span::nanoseconds;
    Profile {
        name: "fx100".into(),
        about: String::new(),
        shape: Shape::Torus { free: 3, fixed: vec![2, 3, 2], wrap: true },
        ranks_per_node: 32,
        placement: Placement::Block,
        overhead: ns(150),
        completion: ns(100),
        wire: ns(350),
        hop: ns(100),
        loopback: ns(300),
        local_atomics: LocalAtomics::Processor,
        arbitration: Arbitration::RoundRobin,
        jitter: Jitter::Exponential(ns(5)),
        nic: Nic { engines: 1, gap: ns(50), byte: 80.0, atomic: ns(106), word: ns(159), put: ns(60), get: ns(60) },
        node: Node { sockets: 1, hit: ns(2), atomic: ns(10), core: ns(60), socket: ns(90), notice: ns(0), byte: 50.0 },
    }
}

fn main() {
    let ranks: u32 = std::env::var("RANKS").ok().and_then(|v| v.parse().ok()).unwrap_or(4096);
    let pairs: u32 = std::env::var("PAIRS").ok().and_then(|v| v.parse().ok()).unwrap_or(100);
    let nic = std::env::var("NIC").is_ok();
    let leaf = std::env::var("LEAF").is_ok();
    let mut options = Options::new(ranks);
    if nic {
        options.local_atomics = Some(LocalAtomics::Nic);
    }
    options.segment_bytes = 1 << 16;
    let begin = Instant::now();
    let simulator = Simulator::new(&fx100(), &options).expect("it fits");
    let outcome = simulator.run(move |ra| {
        if leaf {
            // One word for 4 ranks.
            let home = rmalab_atomics::Rank(ra.rank().0 / 4 * 4);
            let start = ra.time().0;
            for _ in 0..pairs {
                ra.fetch_add(home.at(Disp(128)), 1).unwrap();
                ra.fetch_add(home.at(Disp(128)), 1_u64.wrapping_neg()).unwrap();
            }
            return ra.time().0 - start;
        }
        let mut lock = Policy::new(ra, PolicyKind::McsRwRp).expect("room");
        let start = ra.time().0;
        for _ in 0..pairs {
            lock.lock_all(ra).expect("alive");
            lock.unlock_all(ra).expect("alive");
        }
        ra.time().0 - start
    });
    let outcome = outcome.expect("it ends");
    let seconds = begin.elapsed().as_secs_f64();
    let max = outcome.results.iter().max().expect("ranks");
    let min = outcome.results.iter().min().expect("ranks");
    let events = outcome.stats.events;
    let rss = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rss = rss.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("").to_owned();
    println!(
        "{ranks} ranks: {events} events in {seconds:.2} s, {:.2} M/s; pair slowest {:.3} us fastest {:.3} us; {rss}; {:?} {:?}",
        events as f64 / seconds / 1e6,
        *max as f64 / f64::from(pairs) / 1e6,
        *min as f64 / f64::from(pairs) / 1e6,
        outcome.stats.busiest,
        outcome.stats.hottest,
    );
}
