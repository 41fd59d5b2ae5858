//! Worlds that succeed, and impossible worlds.

use rmalab_atomics::{
    Error, Launcher, Mapped, Rank, RemoteAtomics, SEGMENT_BYTES, SHARED_SEGMENT_BYTES, Topology, Until, World,
};
use rustix::process::{Resource, Rlimit};

use super::{alone, be_a_rank, children, here, is_driver, is_rank, is_rank_of_another_size, launcher, world};

/// Every rank adds its number and one to a word of rank 0, and waits until it gets the sum.
fn sum(ra: &Mapped) -> u64 {
    let words = ra.heap().alloc(16, 8).unwrap();
    let (sum, arrived) = (words.word(0), words.word(1));
    ra.fetch_add(Rank(0).at(sum), u64::from(ra.rank().0) + 1).unwrap();
    ra.fetch_add(Rank(0).at(arrived), 1).unwrap();
    if ra.rank() == Rank(0) {
        ra.wait_until(arrived, Until::Eq(ra.size().into())).unwrap();
        let total = ra.get(Rank(0).at(sum)).unwrap();
        for peer in 1..ra.size() {
            ra.put(Rank(peer).at(arrived), total).unwrap();
        }
        total
    } else {
        ra.wait_until(arrived, Until::Ne(0)).unwrap()
    }
}

#[test]
fn every_rank_runs_once_and_results_keep_their_order() {
    for size in [1, 2, 4, 8] {
        if is_rank_of_another_size(size) {
            continue;
        }
        let world = world(here!(), size);
        let seen = world.run(|ra| (ra.rank(), ra.size(), std::process::id(), sum(ra))).unwrap();
        let total = (1..=u64::from(size)).sum();
        for (rank, &(found, found_size, _, found_total)) in seen.iter().enumerate() {
            assert_eq!((found.index(), found_size, found_total), (rank, size, total));
        }
        let mut pids: Vec<u32> = seen.iter().map(|seen| seen.2).collect();
        pids.push(std::process::id());
        pids.sort_unstable();
        pids.dedup();
        assert_eq!(pids.len(), size as usize + 1, "each rank is a separate process");
    }
}

#[test]
fn many_ranks_start() {
    be_a_rank(64, sum);
    let outcome = launcher(here!(), 64).segment_bytes(4096).spawn().unwrap().wait().unwrap();
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(super::results::<u64>(&outcome), vec![Some(64 * 65 / 2); 64]);
}

#[test]
fn the_topology_and_the_segments_are_as_requested() {
    let world = world(here!(), 6);
    let topology = Topology::blocks(6, 2, 3).unwrap();
    let seen = world
        .segment_bytes(12_345)
        .topology(topology.clone())
        .env("OF_A_TEST", "a value")
        .run(|ra| (ra.topology().clone(), ra.heap().capacity(), std::env::var("OF_A_TEST").unwrap()))
        .unwrap();
    assert_eq!(seen, vec![(topology, 12_352, "a value".to_string()); 6]);
}

/// A segment of the default length has room for megabytes where ranks share memory, but not on a network.
#[test]
fn a_segment_of_the_default_length_holds_megabytes() {
    let seen = world(here!(), 2).run(|ra| {
        ra.heap().alloc(8 << 20, 8).unwrap();
        (ra.heap().capacity(), std::env::var("RMALAB_SEGMENT_BYTES").is_ok())
    });
    assert_eq!(seen.unwrap(), [(SHARED_SEGMENT_BYTES, false); 2]);
}

#[test]
fn where_address_space_is_limited_segments_are_small() {
    alone(here!(), || {
        let limit = Rlimit { current: Some(200 << 20), maximum: Some(200 << 20) };
        rustix::process::setrlimit(Resource::As, limit).unwrap();
        let capacity = |ra: &Mapped| ra.heap().capacity();
        assert_eq!(World::threads(4).run(capacity).unwrap(), [SEGMENT_BYTES; 4]);
        assert!(World::threads(4).segment_bytes(SHARED_SEGMENT_BYTES).run(capacity).is_err(), "as was asked for");
        assert_eq!(world(here!(), 4).env(super::DRIVER, "1").run(capacity).unwrap(), [SEGMENT_BYTES; 4]);
    });
}

#[test]
fn results_may_be_large() {
    let world = world(here!(), 2);
    let seen = world.run(|ra| vec![ra.rank().0; 1_000_000]).unwrap();
    assert_eq!(seen, [vec![0; 1_000_000], vec![1; 1_000_000]]);
}

#[test]
fn impossible_worlds_are_errors() {
    let message = |launcher: Launcher| match launcher.spawn() {
        Err(error @ (Error::World(_) | Error::Program { .. } | Error::System { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let of = |size| Launcher::new(size).command("true", [""; 0]);
    assert!(message(of(0)).contains("at least one rank"));
    assert!(message(of(1).segment_bytes(0)).contains("0 bytes"));
    assert!(message(of(4).segment_bytes(1 << 50)).contains("are available"));
    assert!(message(of(4).segment_bytes(u64::MAX / 2)).contains("address space"));
    assert!(message(of(u32::MAX).segment_bytes(8)).contains("4294967295 ranks"));
    assert!(message(of(2).topology(Topology::one_node(3))).contains("the topology has 3 ranks"));
    assert!(message(of(2).ranks_per_node(0)).contains("0 ranks a node"));
    let program = |name: &str| message(Launcher::new(1).command(name, [""; 0]));
    assert!(program("rmalab-no-such-program").contains("rmalab-no-such-program"));
    assert!(program("/no/such/program").contains("/no/such/program"));
    assert!(program("/etc/passwd").contains("not executable"));
    assert!(message(Launcher::new(1)).contains("no program"));
}

#[test]
fn a_program_that_cannot_be_executed_leaves_nothing_behind() {
    alone(here!(), || {
        let folder = std::env::temp_dir().join(format!("rmalab-test-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("no-program");
        let write = |script: &str| {
            std::fs::write(&file, script).unwrap();
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        };
        let start = |size| Launcher::new(size).command(&file, [""; 0]).segment_bytes(8).spawn();
        write("#!/no/such/interpreter\n");
        let refused = || match start(3).unwrap_err() {
            Error::Program { why, missing } => {
                assert!(why.contains("starting rank 0") && why.contains("no-program"), "{why}");
                missing
            }
            error => panic!("{error}"),
        };
        assert!(refused(), "its interpreter is missing");
        write("#!/bin/sh\n");
        let writer = std::fs::File::options().append(true).open(&file).unwrap();
        assert!(!refused(), "a file that a process writes cannot be executed");
        drop(writer);
        assert_eq!(children(std::process::id()), Vec::<u32>::new());
        // The program is gone once the first ranks run, so a later rank most often fails to start.
        write("#!/bin/sh\nrm -f \"$0\"\nexec sleep 1000\n");
        let started = start(300).map(drop);
        std::fs::remove_dir_all(&folder).unwrap();
        println!("{started:?}");
        assert_eq!(children(std::process::id()), Vec::<u32>::new());
    });
}

#[test]
fn a_rank_of_a_world_of_another_size_ends_with_an_error() {
    if is_rank() {
        let _ = World::processes(3).run(|ra| ra.rank());
        unreachable!("a launched rank ends in the call");
    }
    let outcome = launcher(here!(), 2).spawn().unwrap().wait().unwrap();
    assert_eq!(outcome.exit_code(), 2);
}

#[test]
fn a_rank_that_comes_to_another_call_ends_with_an_error() {
    alone(here!(), || {
        // Started without a `command`, the ranks of the second call reach the first call.
        let first = World::processes(1).run(|ra| ra.rank()).unwrap();
        assert_eq!(first, [Rank(0)]);
        match World::processes(1).run(|ra| ra.rank()) {
            Err(Error::RankEnded { rank: Rank(0), how }) => assert!(how.contains("exited with code 2"), "{how}"),
            other => panic!("{other:?}"),
        }
    });
    assert!(is_driver() || !is_rank());
}

#[test]
fn a_program_that_does_not_come_to_the_call_is_an_error() {
    let error = World::processes(2).command("true", [""; 0]).run(|ra| ra.rank()).unwrap_err().to_string();
    assert!(error.contains("rank 0 has ended without a result"), "{error}");
}

#[test]
fn segments_smaller_than_the_program_needs_are_an_error() {
    if is_rank() {
        let _ = World::processes(1).segment_bytes(1 << 20).run(|ra| ra.rank());
        unreachable!("a launched rank ends in the call");
    }
    let outcome = launcher(here!(), 1).segment_bytes(4096).spawn().unwrap().wait().unwrap();
    assert_eq!(outcome.exit_code(), 2);
}
