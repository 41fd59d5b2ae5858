//! Ranks that are killed while they hold a lock, wait for one, or are inside a barrier.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use std::collections::BTreeSet;
use std::time::Duration;

use rmalab_atomics::{Collectives, Error, Launcher, Mapped, Output, Rank, RemoteAtomics, Signal, World, shm};
use rmalab_locks::{
    Exclusive, Mcs, McsRwNeutral, McsRwRp, McsRwWp, Place, RawRwLock, Tas, TasRw, Ticket, TwoLevel, WindowLock,
};

const RANKS: u32 = 4;

/// Acquires and releases until a peer has failed, and returns that peer.
fn until_a_peer_fails(ra: &Mapped, kind: usize) -> Rank {
    fn lock<L: RawRwLock>(ra: &Mapped) -> rmalab_locks::Result<()>
    where
        L::Params: Default,
    {
        let place = Place::alloc(ra, Rank(0), L::words(ra.size()), L::NODE)?;
        let mut lock = L::bind(ra, place, L::Params::default())?;
        for turn in ra.rank().0.. {
            if turn % 3 == 0 {
                lock.acquire_write(ra)?;
                // Long enough that, at a random moment, often one rank is inside and the other ranks wait.
                std::thread::sleep(Duration::from_micros(50));
                lock.release_write(ra)?;
            } else {
                lock.acquire_read(ra)?;
                lock.release_read(ra)?;
            }
            // A rank that never waits learns of a failure only from its pauses.
            ra.pause(1)?;
        }
        unreachable!("ranks acquire less than 2^32 times")
    }
    let result = match kind {
        0 => lock::<Exclusive<Tas>>(ra),
        1 => lock::<TasRw>(ra),
        2 => lock::<Exclusive<Ticket>>(ra),
        3 => lock::<Exclusive<Mcs>>(ra),
        4 => lock::<McsRwRp>(ra),
        5 => lock::<McsRwWp>(ra),
        6 => lock::<McsRwNeutral>(ra),
        7 => (|| {
            let mut window = TwoLevel::new(ra, Default::default())?;
            loop {
                window.lock_all(ra)?;
                window.unlock_all(ra)?;
                window.lock(ra, rmalab_locks::LockKind::Exclusive, Rank(1))?;
                window.unlock(ra, rmalab_locks::LockKind::Exclusive, Rank(1))?;
                ra.pause(1)?;
            }
        })(),
        _ => (|| {
            let collectives = Collectives::new(ra)?;
            loop {
                collectives.barrier()?;
            }
        })(),
    };
    match result {
        Err(rmalab_locks::Error::Atomics(Error::PeerFailed { rank })) => rank,
        other => panic!("expected a failed peer, not {other:?}"),
    }
}

const KINDS: usize = 9;

/// The resources that a campaign must not leak: children, open descriptors, mappings of shared memory, files in
/// /dev/shm.
#[derive(PartialEq, Eq, Debug)]
struct Resources {
    descriptors: usize,
    shared_mappings: usize,
    shm_files: BTreeSet<std::ffi::OsString>,
}

impl Resources {
    fn now() -> Resources {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        Resources {
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            shared_mappings: maps.lines().filter(|line| line.contains("memfd")).count(),
            shm_files: std::fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name()).collect(),
        }
    }
}

fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Kills a random rank at a random moment, `kills` times. All other ranks must report it, and no resource may leak.
fn campaign(test: &str, kills: u64) {
    if shm::launched_size().unwrap().is_some() {
        let kind: usize = std::env::var("KIND").unwrap().parse().unwrap();
        World::processes(RANKS).run(|ra| until_a_peer_fails(ra, kind)).unwrap();
        return;
    }
    let program = std::env::current_exe().unwrap();
    let before = Resources::now();
    for round in 0..kills {
        // A multiplicative hash of the round, so that a failure can be repeated.
        let random = (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (victim, kind) = (Rank((random % u64::from(RANKS)) as u32), round as usize % KINDS);
        let job = Launcher::new(RANKS)
            .command(&program, [test, "--exact", "--nocapture", "--include-ignored"])
            .env("KIND", kind.to_string())
            .output(Output::Inherit)
            // The deadline only ends a run that hangs.
            .time_limit(Duration::from_secs(30))
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(20_000 + random % 60_000));
        job.signal(victim, Signal::KILL).unwrap();
        let outcome = job.wait().unwrap();
        assert_eq!(outcome.first_failure, Some(victim), "round {round}, kind {kind}");
        for rank in (0..RANKS).map(Rank).filter(|&rank| rank != victim) {
            let reported: Rank = serde_json::from_slice(&outcome.results[rank.index()])
                .unwrap_or_else(|error| panic!("round {round}, kind {kind}, {}: {error}", outcome.describe(rank)));
            assert_eq!(reported, victim, "the peer that {rank} reported in round {round}, kind {kind}");
        }
        assert!(outcome.pids.iter().all(|&pid| !is_alive(pid)), "round {round} has left a process running");
    }
    assert_eq!(Resources::now(), before);
}

#[test]
fn killed_ranks_are_reported_to_all() {
    campaign("killed_ranks_are_reported_to_all", 2 * KINDS as u64);
}

#[test]
#[ignore = "long: 200 kills take a minute or two"]
fn two_hundred_kills() {
    campaign("two_hundred_kills", 200);
}
