//! Ranks that make, use and free windows for a long time have no more memory, descriptors and mappings than after a short time.

use std::time::{Duration, Instant};

use rmalab_atomics::{Collectives, Launcher, Mapped, Output, Rank, RemoteAtomics, Subset, World, shm};
use rmalab_windows::{PolicyKind, Team};

use super::phases::{POLICIES, live, whole};

/// More ranks than the processors of most machines that run this test.
const RANKS: u32 = 16;

/// The variable with the time that the test takes, in seconds.
const SECONDS: &str = "RMALAB_TEST_SECONDS";
const SHORT: u64 = 10;

/// The number of rounds before the first reading. Then stacks, lists and the pages of the heap have reached their final
/// size.
const FIRST: u64 = 50;

/// The additional memory that a rank may have at the end: pages that the allocator of the process has not given back.
const SLACK: u64 = 1 << 20;

/// The resources of a process: private bytes, bytes of shared memory, descriptors and mappings.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Has {
    own: u64,
    shared: u64,
    descriptors: usize,
    mappings: usize,
}

impl Has {
    fn read() -> Has {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let bytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        Has {
            own: bytes("RssAnon:"),
            shared: bytes("RssShmem:"),
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            mappings: std::fs::read_to_string("/proc/self/maps").unwrap().lines().count(),
        }
    }
}

/// Runs rounds until the time is over. Returns their number, and the resources of this rank after the first rounds and
/// at the end.
fn play(ra: &Mapped) -> (u64, Has, Has) {
    let limit = Duration::from_secs(std::env::var(SECONDS).map_or(SHORT, |text| text.parse().unwrap()));
    let all = Collectives::new(ra).unwrap();
    let team = Team::new(ra).unwrap();
    let began = Instant::now();
    let mut first = None;
    for round in 1.. {
        for policy in POLICIES {
            assert_eq!(live(&team, policy).unwrap(), whole(RANKS), "{policy} in round {round}");
        }
        // The words of a half's team are freed with the half.
        let half = team.split(Some(ra.rank().0 % 2), 0).unwrap().unwrap();
        assert_eq!(live(&Team::new(&half).unwrap(), PolicyKind::TwoLevel).unwrap(), whole(RANKS / 2));
        Subset::free(Some(half), &all).unwrap();
        let now = (round >= FIRST).then(Has::read);
        first = first.or(now);
        // One rank's clock decides for all.
        let mut goes_on = [u64::from(round < 2 * FIRST || began.elapsed() < limit)];
        all.broadcast(Rank(0), &mut goes_on).unwrap();
        if goes_on == [0] {
            return (round, first.unwrap(), now.unwrap());
        }
    }
    unreachable!("the time ends")
}

#[test]
#[ignore = "takes ten seconds, or as many as RMALAB_TEST_SECONDS says"]
fn longer_ranks_do_not_grow() {
    if shm::launched_size().unwrap().is_some() {
        World::processes(RANKS).run(play).unwrap();
        return;
    }
    let test = "growth::longer_ranks_do_not_grow";
    let job = Launcher::new(RANKS)
        .command(std::env::current_exe().unwrap(), [test, "--exact", "--nocapture", "--include-ignored"])
        .output(Output::Discard)
        .spawn()
        .unwrap();
    let outcome = job.wait().unwrap();
    for rank in (0..RANKS).map(Rank) {
        let result = serde_json::from_slice::<(u64, Has, Has)>(&outcome.results[rank.index()]);
        let (rounds, first, last) = result.unwrap_or_else(|error| panic!("{error}: {}", outcome.describe(rank)));
        if rank == Rank(0) {
            println!("{rounds} rounds, first {first:?}, last {last:?}");
        }
        assert!(last.own <= first.own + SLACK && last.shared <= first.shared + SLACK, "{rank}: {first:?}, {last:?}");
        assert!(
            last.descriptors <= first.descriptors && last.mappings <= first.mappings,
            "{rank}: {first:?}, {last:?}"
        );
    }
}
