//! A litmus test that shows why a rank's operations on its own words go through its network adapter.
//!
//! Rank 0 adds to its own word, and the other ranks add to the same word through the adapter. If the adapter's atomics are atomic
//! only among themselves (`ATOMIC_HCA`), additions of the owner's processor get lost. The adapter reads the word, the processor
//! adds, and the adapter writes the read value plus its addend. Through the adapter no addition is lost. If one is, the program
//! exits with an error.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmalab_atomics::bootstrap::{Hub, Membership};
use rmalab_atomics::verbs::{Attach, Verbs};
use rmalab_atomics::{Collectives, Disp, Error, Rank, RemoteAtomics, Result};

const RANKS: u32 = 3;

/// The way in which the owner adds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerPath {
    Adapter,
    Processor,
}

/// Adds for `time`. Returns the number of additions of all ranks, and the final value of the word.
fn run(
    ra: &Verbs,
    collectives: &Collectives<'_, Verbs>,
    word: Disp,
    way: OwnerPath,
    time: Duration,
) -> Result<(u64, u64, u64)> {
    ra.fetch_store(ra.rank().at(word), 0)?;
    collectives.barrier()?;
    let end = ra.now().after(time);
    let mut added = 0;
    while ra.now() < end {
        if ra.rank() == Rank(0) && way == OwnerPath::Processor {
            // Many in a row, so that most of the time an addition is under way.
            let word = ra.own_word_by_processor(word)?;
            for _ in 0..1_000 {
                word.fetch_add(1, Ordering::SeqCst);
            }
            added += 1_000;
        } else {
            ra.fetch_add(Rank(0).at(word), 1)?;
            added += 1;
        }
    }
    let counts = collectives.allgather(&[added])?;
    let held = ra.get(Rank(0).at(word))?;
    collectives.barrier()?;
    Ok((counts[0], counts[1..].iter().sum(), held))
}

fn rank(rank: u32, hub: &Hub, time: Duration) -> Result<u64> {
    let patience = Duration::from_secs(30);
    let member = Membership::join(hub.invitation(), Rank(rank), RANKS, "this host", patience, None)?;
    let ra = Attach::new().attach(member)?;
    let word = ra.heap().alloc(8, 64)?;
    let collectives = Collectives::new(&ra)?;
    let mut lost_by_adapter = 0;
    for (way, name) in [(OwnerPath::Adapter, "adapter"), (OwnerPath::Processor, "processor")] {
        let (owner, others, held) = run(&ra, &collectives, word, way, time)?;
        let lost = (owner + others).wrapping_sub(held);
        if way == OwnerPath::Adapter {
            lost_by_adapter = lost;
        }
        if ra.rank() == Rank(0) {
            println!(
                "the owner adds with its {name:<9}: {owner:>10} additions by the owner, {others:>8} by others, {lost:>8} lost"
            );
        }
    }
    Ok(lost_by_adapter)
}

fn main() -> Result<()> {
    let seconds = match std::env::args().nth(1) {
        None => 5,
        Some(text) => text.parse().map_err(|_| Error::world(format!("{text:?} is not a number of seconds")))?,
    };
    let hub = Hub::open(IpAddr::V4(Ipv4Addr::LOCALHOST), RANKS)?;
    let ranks = std::thread::scope(|scope| {
        let start = |number| {
            let hub = &hub;
            scope.spawn(move || rank(number, hub, Duration::from_secs(seconds)))
        };
        let ranks: Vec<_> = (0..RANKS).map(start).collect();
        ranks
            .into_iter()
            .map(|rank| rank.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<u64>>>()
    })?;
    match ranks[0] {
        0 => Ok(()),
        lost => Err(Error::world(format!("{lost} additions are lost, all of which went through the adapter"))),
    }
}
