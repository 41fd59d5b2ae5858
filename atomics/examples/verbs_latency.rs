//! What operations take over RDMA verbs, uncontended, between two ranks that are threads of this process.
//!
//! For comparison with perftest on the same device: `ib_atomic_lat -A FETCH_AND_ADD` for the first line, and for the
//! third `ib_write_bw -s 8 -t 1`, which waits for the completion of each write.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rmalab_atomics::bootstrap::{Hub, Membership};
use rmalab_atomics::verbs::{Attach, Verbs};
use rmalab_atomics::{Address, Error, Rank, RemoteAtomics, Result};

/// How often an operation is timed, unless the first argument says otherwise.
const ROUNDS: usize = 5_000;

type Operation = (&'static str, fn(&Verbs, Address) -> Result<()>);

const OPERATIONS: [Operation; 8] = [
    ("nothing (the clock)", |_, _| Ok(())),
    ("fetch_add", |ra, at| ra.fetch_add(at, 1).map(drop)),
    ("compare_and_swap", |ra, at| ra.compare_and_swap(at, 0, 0).map(drop)),
    ("put and flush", |ra, at| ra.put(at, 1).and_then(|()| ra.flush(at.rank))),
    ("get", |ra, at| ra.get(at).map(drop)),
    ("fetch_store", |ra, at| ra.fetch_store(at, 2).map(drop)),
    ("put of 4 KiB", |ra, at| ra.put_bytes(at, &[1; 4096])),
    ("get of 4 KiB", |ra, at| ra.get_bytes(at, &mut [0; 4096])),
];

fn measure(ra: &Verbs, rounds: usize) -> Result<()> {
    let at = ra.heap().alloc(4096, 4096)?;
    if ra.rank() != Rank(0) {
        return Ok(());
    }
    println!("{:<26}{:>10}{:>10}{:>10}  (us)", "operation", "p10", "p50", "p90");
    for (name, operation) in OPERATIONS {
        for target in [Rank(1), Rank(0)] {
            let mut times = Vec::with_capacity(rounds);
            for round in 0..rounds + rounds / 10 {
                let start = ra.now();
                operation(ra, target.at(at))?;
                if round >= rounds / 10 {
                    times.push(ra.now().since(start));
                }
            }
            times.sort_unstable();
            let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
            let whose = if target == Rank(0) { ", own" } else { "" };
            println!("{:<26}{:>10.2}{:>10.2}{:>10.2}", format!("{name}{whose}"), at(10), at(50), at(90));
        }
    }
    Ok(())
}

fn rank(rank: u32, hub: &Hub, rounds: usize) -> Result<()> {
    let patience = Duration::from_secs(30);
    let member = Membership::join(&hub.invitation(), Rank(rank), 2, "this host", patience, None)?;
    let ra = Attach::new().attach(member)?;
    measure(&ra, rounds)
}

fn main() -> Result<()> {
    let rounds = match std::env::args().nth(1) {
        None => ROUNDS,
        Some(text) => text.parse().map_err(|_| Error::world(format!("{text:?} is not a number of rounds")))?,
    };
    let hub = Hub::open(IpAddr::V4(Ipv4Addr::LOCALHOST), 2)?;
    std::thread::scope(|scope| {
        let ranks = [0, 1].map(|number| {
            scope.spawn({
                let hub = &hub;
                move || rank(number, hub, rounds)
            })
        });
        ranks.into_iter().try_for_each(|rank| rank.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
