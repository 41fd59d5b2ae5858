//! The guarantees of the thread backend beyond the conformance suite.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use rmalab_atomics::{Disp, Error, Mapped, Rank, RemoteAtomics, SEGMENT_BYTES, Topology, Until, World, bulk};

#[test]
fn every_rank_runs_once_and_results_keep_their_order() {
    for size in [1, 2, 3, 8, 64] {
        let ranks = World::threads(size).run(|ra| (ra.rank(), ra.size())).unwrap();
        assert_eq!(ranks, (0..size).map(|rank| (Rank(rank), size)).collect::<Vec<_>>());
    }
}

#[test]
fn impossible_worlds_are_errors() {
    assert!(matches!(World::threads(0).run(|_| ()), Err(Error::World(_))));
    assert!(matches!(World::threads(1).segment_bytes(0).run(|_| ()), Err(Error::World(_))));
    assert!(matches!(World::threads(4).segment_bytes(u64::MAX / 2).run(|_| ()), Err(Error::World(_))));
    assert!(matches!(World::threads(u32::MAX).segment_bytes(64).run(|_| ()), Err(Error::World(_))));
    if let Ok(limit) = std::fs::read_to_string("/proc/sys/vm/max_map_count") {
        // Threads have several mappings each.
        let size = limit.trim().parse().unwrap();
        let error = World::threads(size).segment_bytes(64).run(|_| ()).unwrap_err().to_string();
        assert!(error.contains("max_map_count"), "{error}");
    }
    let topology = Topology::one_node(3);
    assert!(matches!(World::threads(2).topology(topology).run(|_| ()), Err(Error::World(_))));
}

#[test]
fn a_panicking_rank_is_reported_to_all_and_its_panic_is_passed_on() {
    let seen = Mutex::new(Vec::new());
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        World::threads(4).run(|ra| {
            if ra.rank() == Rank(2) {
                panic!("the first failure");
            }
            let flag = ra.heap().alloc(8, 8).unwrap();
            let error = ra.wait_until(flag, Until::Ne(0)).unwrap_err();
            seen.lock().unwrap().push((ra.rank(), format!("{error}")));
            panic!("a later failure");
        })
    }));
    let panic = outcome.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the first failure"));
    let mut seen = seen.into_inner().unwrap();
    seen.sort();
    assert_eq!(seen, [0, 1, 3].map(|rank| (Rank(rank), "rank 2 has failed".to_string())));
}

#[test]
fn threads_of_one_rank_may_wait_at_the_same_time() {
    World::threads(2)
        .run(|ra| {
            let words = ra.heap().alloc(4 * 8, 8).unwrap();
            if ra.rank() == Rank(0) {
                std::thread::scope(|scope| {
                    for i in 0..4 {
                        scope.spawn(move || assert_eq!(ra.wait_until(words.word(i), Until::Ne(0)).unwrap(), i + 1));
                    }
                });
            } else {
                std::thread::sleep(std::time::Duration::from_millis(20));
                for i in 0..4 {
                    ra.put(Rank(0).at(words.word(i)), i + 1).unwrap();
                }
            }
        })
        .unwrap();
}

/// This measures the processor time of the waiting thread, not an elapsed time.
#[test]
fn a_waiting_rank_uses_next_to_no_processor_time() {
    // With a core for each rank (on most machines), and with more ranks than cores.
    for size in [2, 16] {
        let used = World::threads(size).run(|ra| {
            let flag = ra.heap().alloc(8, 8).unwrap();
            if ra.rank() == Rank(0) {
                std::thread::sleep(std::time::Duration::from_millis(400));
                for rank in 1..ra.size() {
                    ra.put(Rank(rank).at(flag), 1).unwrap();
                }
                return 0;
            }
            let clock = || {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
            };
            let before = clock();
            ra.wait_until(flag, Until::Ne(0)).unwrap();
            clock() - before
        });
        // The wait takes 400 ms. The bound allows a slow machine, but not a waiter that polls.
        let most = used.unwrap().into_iter().max().unwrap();
        assert!(most < 10_000_000, "{size} ranks: a waiter has used {most} ns of processor time");
    }
}

#[test]
fn a_rank_that_leaves_an_obligation_undone_has_failed() {
    let seen = Mutex::new(Vec::new());
    let outcome = World::threads(3).run(|ra| {
        if ra.rank() == Rank(1) {
            ra.forsake("an open epoch");
            ra.forsake("another one");
            return;
        }
        let word = ra.heap().alloc(8, 8).unwrap();
        seen.lock().unwrap().push(format!("{:?}", ra.wait_until(word, Until::Ne(0))));
    });
    assert_eq!(*seen.lock().unwrap(), ["Err(PeerFailed { rank: Rank(1) })"; 2]);
    match outcome {
        Err(Error::RankEnded { rank: Rank(1), how }) => assert_eq!(&*how, "rank 1 has left with an open epoch"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wait_for_a_rank_that_has_left_is_an_error_and_names_a_rank() {
    let seen = World::threads(2).run(|ra| {
        let word = ra.heap().alloc(8, 8).unwrap();
        match ra.rank() {
            Rank(0) => {
                // A value that the rank wrote before it left ends the wait.
                assert_eq!(ra.wait_until_from(word, Until::Ne(0), Rank(1)).unwrap(), 7);
                let none = ra.wait_until_from(word, Until::Eq(0), Rank(2)).unwrap_err();
                assert!(matches!(none, Error::RankOutOfRange { rank: Rank(2), size: 2, .. }), "{none}");
                Some(ra.wait_until_from(word, Until::Eq(8), Rank(1)).unwrap_err())
            }
            _ => {
                ra.put(Rank(0).at(word), 7).unwrap();
                None
            }
        }
    });
    assert!(matches!(seen.unwrap()[0], Some(Error::PeerLeft { rank: Rank(1) })));
}

#[test]
fn a_segment_of_the_default_length_holds_megabytes() {
    let alloc = |ra: &Mapped| ra.heap().alloc(8 << 20, 8).map(drop);
    assert!(matches!(World::threads(2).run(alloc).unwrap()[..], [Ok(()), Ok(())]));
    assert!(World::threads(1).segment_bytes(SEGMENT_BYTES).run(alloc).unwrap()[0].is_err());
}

#[test]
fn a_rank_that_returns_an_error_has_failed() {
    let seen = Mutex::new(Vec::new());
    let outcome = World::threads(3).try_run(|ra| {
        if ra.rank() == Rank(1) {
            return Err("no input".to_owned());
        }
        let word = ra.heap().alloc(8, 8).unwrap();
        let error = ra.wait_until(word, Until::Ne(0)).unwrap_err();
        seen.lock().unwrap().push(format!("{error:?}"));
        Err::<(), _>(error.to_string())
    });
    assert_eq!(*seen.lock().unwrap(), ["PeerFailed { rank: Rank(1) }"; 2]);
    assert_eq!(outcome.unwrap_err().to_string(), "rank 1: no input");
    assert_eq!(World::threads(3).try_run(|ra| Ok::<_, Error>(ra.rank().0)).unwrap(), [0, 1, 2]);
}

#[test]
fn the_first_failure_is_the_one_that_is_passed_on() {
    for panics in [false, true] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            World::threads(2).try_run(|ra| {
                if ra.rank() == Rank(1) {
                    return if panics { panic!("it") } else { Err("it") };
                }
                let word = ra.heap().alloc(8, 8).unwrap();
                ra.wait_until(word, Until::Ne(0)).unwrap_err();
                if panics { Err::<(), _>("a later failure") } else { panic!("a later failure") }
            })
        }));
        match outcome {
            Ok(outcome) => assert!(!panics && outcome.unwrap_err().to_string() == "rank 1: it"),
            Err(panic) => assert!(panics && panic.downcast_ref::<&str>() == Some(&"it")),
        }
    }
}

#[test]
fn a_displacement_beyond_all_segments_does_not_come_round() {
    for beyond in [Disp(u64::MAX).plus(9), Disp(8).word(u64::MAX), Disp(16).word(1 << 61), Disp(u64::MAX - 7).word(1)] {
        assert_eq!(beyond, Disp(u64::MAX));
    }
    World::threads(1)
        .run(|ra| {
            let error = ra.get(Rank(0).at(Disp(u64::MAX).plus(9))).unwrap_err();
            assert!(matches!(error, Error::OutOfSegment { .. } | Error::Misaligned { .. }), "{error}");
            let error = bulk::scope(ra, |bulk| bulk.put(Rank(0).at(Disp(16).word(1 << 61)), &[1_u8])).unwrap_err();
            assert!(matches!(error, Error::OutOfSegment { .. }), "{error}");
        })
        .unwrap();
}

#[test]
fn a_message_about_one_rank_has_no_plural() {
    World::threads(1)
        .run(|ra| {
            let error = ra.get(Rank(3).at(Disp(0))).unwrap_err().to_string();
            assert_eq!(error, "get: rank 3 does not exist in a world of 1 rank");
        })
        .unwrap();
}
