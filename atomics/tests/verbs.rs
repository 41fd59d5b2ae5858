//! The suite on RDMA verbs, with ranks that are threads, each with its own device context, memory and queue pairs.
//!
//! These tests need an RDMA device and fail without one; Soft-RoCE in a virtual machine is enough.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod registration;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rmalab_atomics::bootstrap::{Hub, Membership};
use rmalab_atomics::conformance::Failure;
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::verbs::{Attach, Verbs};
use rmalab_atomics::{Collectives, Disp, Error, Rank, RemoteAtomics, Request, bulk};

rmalab_atomics::conformance!(verbs, Verbs, on_verbs);
rmalab_atomics::conformance!(verbs_by_adapter, Verbs, by_adapter);

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `body` on every rank of a world, each a thread.
fn world<T: Send>(size: u32, attach: &Attach, body: impl Fn(&Verbs) -> T + Sync) -> Vec<T> {
    let hub = Hub::open(HERE, size).unwrap();
    let (invitation, body) = (hub.invitation(), &body);
    std::thread::scope(|scope| {
        let rank = |rank: u32| {
            let (invitation, attach) = (invitation.clone(), attach.clone());
            scope.spawn(move || {
                let member = Membership::join(&invitation, Rank(rank), size, "here", PATIENCE, None).unwrap();
                let ra = attach.attach(member).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
                body(&ra)
            })
        };
        let ranks: Vec<_> = (0..size).map(rank).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn on_verbs(ranks: u32, check: fn(&Verbs) -> Result<(), Failure>) {
    world(ranks, &Attach::new(), |ra| check(ra).unwrap_or_else(|failure| panic!("{failure}")));
}

/// All ranks are on one host, but bulk operations go through the adapter, as between hosts.
fn by_adapter(ranks: u32, check: fn(&Verbs) -> Result<(), Failure>) {
    let attach = Attach::new().node_shared(false);
    world(ranks, &attach, |ra| check(ra).unwrap_or_else(|failure| panic!("{failure}")));
}

/// Operations have the documented number of requests: one completion for a put and a flush, two for many puts and a
/// flush.
#[test]
fn operations_have_the_documented_cost() {
    world(2, &Attach::new(), |ra| {
        let peer = Rank(1 - ra.rank().0);
        let at = ra.heap().alloc(8, 8).unwrap();
        ra.fetch_add(peer.at(at), 1).unwrap();
        let start = ra.statistics();
        ra.put(peer.at(at), 1).unwrap();
        ra.flush(peer).unwrap();
        let one = ra.statistics();
        assert_eq!((one.requests - start.requests, one.signalled - start.signalled), (1, 1));
        for value in 0..100 {
            ra.put(peer.at(at), value).unwrap();
        }
        ra.flush(peer).unwrap();
        let many = ra.statistics();
        assert_eq!((many.requests - one.requests, many.signalled - one.signalled), (101, 2));
    });
}

/// Returns all word operations, each on its own word from `at` on, where word `n` holds `n`, with the results and the
/// final values.
fn operations(at: Disp) -> [(WordOp, Disp, u64, u64); 6] {
    [
        (WordOp::FetchAdd(10), at.word(0), 0, 10),
        (WordOp::CompareAndSwap { expected: 1, desired: 10 }, at.word(1), 1, 10),
        (WordOp::CompareAndSwap { expected: 1, desired: 10 }, at.word(2), 2, 2),
        (WordOp::FetchStore(10), at.word(3), 3, 10),
        (WordOp::Get, at.word(4), 4, 4),
        (WordOp::Put(10), at.word(5), 0, 10),
    ]
}

#[test]
fn started_operations_are_under_way_when_the_call_returns() {
    world(2, &Attach::new(), |ra| {
        let at = ra.heap().alloc(8 * 6, 8).unwrap();
        let collectives = Collectives::new(ra).unwrap();
        // On the other rank's words, and then on this rank's words.
        for target in [Rank(1 - ra.rank().0), ra.rank()] {
            for number in 0..6 {
                ra.put(target.at(at.word(number)), number).unwrap();
            }
            ra.flush(target).unwrap();
            let mut results = [!0; 6];
            let mut requests = Vec::new();
            for ((op, word, ..), result) in operations(at).into_iter().zip(&mut results) {
                // SAFETY: `results` is not accessed before the waits below.
                requests.push(unsafe { ra.start(target.at(word), op, result) }.unwrap());
            }
            assert!(!requests.contains(&Request(0)), "{requests:?}");
            // The last request comes first.
            requests.into_iter().rev().for_each(|request| ra.wait(request).unwrap());
            for ((op, word, old, new), result) in operations(at).into_iter().zip(results) {
                assert_eq!((result, ra.get(target.at(word)).unwrap()), (old, new), "{op:?}");
            }
            collectives.barrier().unwrap();
        }
    });
}

#[test]
fn more_operations_are_started_than_queues_hold() {
    const COUNT: usize = 1000;
    world(3, &Attach::new(), |ra| {
        let at = ra.heap().alloc(8, 8).unwrap();
        let collectives = Collectives::new(ra).unwrap();
        let mut results = vec![!0; COUNT * 3];
        bulk::scope(ra, |scope| {
            let targets = (0..3).map(Rank).cycle();
            targets.zip(&mut results).try_for_each(|(target, result)| scope.fetch_add(target.at(at), 1, result))
        })
        .unwrap();
        for target in 0..3 {
            let mut seen =
                collectives.allgather(&results[target..].iter().copied().step_by(3).collect::<Vec<_>>()).unwrap();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..3 * COUNT as u64), "rank {target}: an addition was lost, or was done twice");
        }
    });
}

/// A swap whose guess is wrong is posted again, under the same number for the program.
#[test]
fn started_swaps_lose_nothing_to_each_other() {
    const DEPTH: usize = 300;
    world(3, &Attach::new(), |ra| {
        let at = Rank(0).at(ra.heap().alloc(8, 8).unwrap());
        let me = u64::from(ra.rank().0);
        let counter = Rank(0).at(ra.heap().alloc(8 * 3, 8).unwrap().word(me));
        let collectives = Collectives::new(ra).unwrap();
        let mut seen = Vec::new();
        for round in 0..3 {
            let mut results = [0; DEPTH];
            let mut requests = Vec::new();
            for (number, result) in (0..).zip(&mut results) {
                let value = 1 + me + 3 * (number + DEPTH as u64 * round);
                // SAFETY: `results` is not accessed before the flush, the waits or the tests below have completed it.
                requests.push(unsafe { ra.start(at, WordOp::FetchStore(value), result) }.unwrap());
            }
            // Beside a full queue of repeated swaps, a blocking operation has its own result.
            for number in 0..20 {
                assert_eq!(ra.fetch_add(counter, 1).unwrap(), 20 * round + number);
            }
            match round {
                0 => ra.flush(Rank(0)).unwrap(),
                1 => requests.into_iter().for_each(|request| ra.wait(request).unwrap()),
                _ => requests.into_iter().for_each(|request| while !ra.test(&request).unwrap() {}),
            }
            seen.extend(results);
        }
        let mut all = collectives.allgather(&seen).unwrap();
        all.push(ra.get(at).unwrap());
        all.sort_unstable();
        assert!(all.into_iter().eq(0..=3 * 3 * DEPTH as u64), "each value is seen by one swap, or is there in the end");
    });
}

#[test]
fn a_scope_that_fails_or_panics_leaves_nothing_under_way() {
    world(2, &Attach::new(), |ra| {
        let at = ra.heap().alloc(8, 8).unwrap();
        let (word, end) = (Rank(1 - ra.rank().0).at(at), Rank(0).at(ra.heap().end()));
        let mut results = [!0; 64];
        let failed = bulk::scope(ra, |scope| {
            results.iter_mut().try_for_each(|result| scope.fetch_add(word, 1, result))?;
            scope.fetch_add(end, 1, Box::leak(Box::new(0)))
        });
        assert!(matches!(failed, Err(Error::OutOfSegment { .. })), "{failed:?}");
        assert!(results.into_iter().eq(0..64), "{results:?}");
        let mut results = [!0; 64];
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            bulk::scope(ra, |scope| {
                results.iter_mut().try_for_each(|result| scope.fetch_add(word, 1, result))?;
                panic!("this panic is part of the test");
                #[allow(unreachable_code, reason = "the closure's type")]
                Ok(())
            })
        }))
        .unwrap_err();
        assert!(results.into_iter().eq(64..128), "{results:?}");
    });
}

/// The program may free a buffer once its operation has failed, since no earlier part of it is under way then.
#[test]
fn an_operation_that_fails_halfway_leaves_its_buffer_alone() {
    const BYTES: usize = 512 << 10;
    world(2, &Attach::new().node_shared(false).failing_part(8), |ra| {
        let (me, peer) = (ra.rank(), Rank(1 - ra.rank().0));
        let (at, word) = (ra.heap().alloc(BYTES as u64, 8).unwrap(), ra.heap().alloc(8, 8).unwrap());
        let collectives = Collectives::new(ra).unwrap();
        // Within the local segment the processor copies: there are no parts, so there is no failure.
        ra.put_bytes(me.at(at), &vec![7; BYTES]).unwrap();
        collectives.barrier().unwrap();
        let mut buffer = vec![0; BYTES];
        // SAFETY: the buffer lives until the end, and nothing is under way with it once the call has failed.
        unsafe { ra.get_bytes_nb(peer.at(at), buffer.as_mut_ptr(), BYTES) }.unwrap_err();
        std::hint::black_box(&mut buffer).fill(1);
        // The peer's adapter executes requests in order, so this one comes after all parts.
        ra.fetch_add(peer.at(word), 1).unwrap();
        assert!(std::hint::black_box(&buffer).iter().all(|&byte| byte == 1), "a get that failed has written later");
        collectives.barrier().unwrap();
        // SAFETY: as for the get.
        unsafe { ra.put_bytes_nb(peer.at(at), buffer.as_ptr(), BYTES) }.unwrap_err();
        std::hint::black_box(&mut buffer).fill(2);
        ra.fetch_add(peer.at(word), 1).unwrap();
        collectives.barrier().unwrap();
        ra.get_bytes(me.at(at), &mut buffer).unwrap();
        assert!(buffer.iter().all(|&byte| byte != 2), "a put that failed has read later");
    });
}

#[test]
fn registered_memory_agrees_with_a_model() {
    for ranks in [1, registration::RANKS] {
        world(ranks, &Attach::new(), registration::agrees_with_a_model);
    }
}

#[test]
fn registered_memory_comes_back() {
    world(registration::RANKS, &Attach::new(), registration::memory_comes_back);
}

#[test]
fn refusals_of_registered_memory() {
    world(registration::RANKS, &Attach::new(), registration::refusals);
}

#[test]
fn a_deregistration_waits_for_the_pins() {
    world(registration::RANKS, &Attach::new(), registration::a_deregistration_waits_for_the_pins);
}

#[test]
fn nothing_is_written_after_a_deregistration() {
    world(registration::RANKS, &Attach::new(), registration::nothing_is_written_after_a_deregistration);
}

#[test]
fn used_up_places_for_registered_memory_are_reused() {
    world(1, &Attach::new(), |ra| registration::used_up_places_are_reused(ra, 1024));
}

#[test]
fn the_processor_copies_data_of_one_host_unless_disabled() {
    for shared in [true, false] {
        world(2, &Attach::new().node_shared(shared), |ra| {
            let at = ra.heap().alloc(10_000, 8).unwrap();
            let (me, peer) = (ra.rank(), Rank(1 - ra.rank().0));
            let collectives = Collectives::new(ra).unwrap();
            ra.fetch_add(peer.at(at), 0).unwrap();
            collectives.barrier().unwrap();
            let before = ra.statistics().requests;
            let bytes = vec![me.0 as u8 + 1; 10_000];
            ra.put_bytes(peer.at(at), &bytes).unwrap();
            let requests = ra.statistics().requests - before;
            assert_eq!(requests, u64::from(!shared), "shared: {shared}");
            collectives.barrier().unwrap();
            let mut seen = vec![0; 10_000];
            ra.get_bytes(me.at(at), &mut seen).unwrap();
            assert!(seen.iter().all(|&byte| byte == peer.0 as u8 + 1));
            // Word operations on the same place still go through the adapter.
            let before = ra.statistics().requests;
            ra.fetch_add(peer.at(at), 0).unwrap();
            assert_eq!(ra.statistics().requests - before, 1);
        });
    }
}
