//! The suite on RDMA verbs, with ranks that are threads, each with its own device context, memory and queue pairs.
//!
//! These tests need an RDMA device and fail without one; Soft-RoCE in a virtual machine will do.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod exposure;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rmalab_atomics::bootstrap::{Hub, Membership};
use rmalab_atomics::conformance::Failure;
use rmalab_atomics::verbs::{Attach, Verbs};
use rmalab_atomics::{Collectives, Rank, RemoteAtomics};

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

/// All ranks are on one host, but bulk operations go through the adapter, as they do between hosts.
fn by_adapter(ranks: u32, check: fn(&Verbs) -> Result<(), Failure>) {
    let attach = Attach::new().node_shared(false);
    world(ranks, &attach, |ra| check(ra).unwrap_or_else(|failure| panic!("{failure}")));
}

/// Operations cost the requests that they should: a put and a flush one, many puts and a flush two completions.
#[test]
fn operations_cost_what_they_should() {
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

/// The program may free a buffer once its operation has failed: no earlier part of it is under way then.
#[test]
fn an_operation_that_fails_halfway_leaves_its_buffer_alone() {
    const BYTES: usize = 512 << 10;
    world(2, &Attach::new().node_shared(false).failing_part(8), |ra| {
        let (me, peer) = (ra.rank(), Rank(1 - ra.rank().0));
        let (at, word) = (ra.heap().alloc(BYTES as u64, 8).unwrap(), ra.heap().alloc(8, 8).unwrap());
        let collectives = Collectives::new(ra).unwrap();
        // Within the own segment the processor copies: no parts, so no failure.
        ra.put_bytes(me.at(at), &vec![7; BYTES]).unwrap();
        collectives.barrier().unwrap();
        let mut buffer = vec![0; BYTES];
        // SAFETY: the buffer lives until the end, and nothing is under way with it once the call has failed.
        unsafe { ra.get_bytes_nb(peer.at(at), buffer.as_mut_ptr(), BYTES) }.unwrap_err();
        std::hint::black_box(&mut buffer).fill(1);
        // The peer's adapter carries out requests in their order, so this one comes after all parts.
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
fn exposed_memory_agrees_with_a_model() {
    for ranks in [1, exposure::RANKS] {
        world(ranks, &Attach::new(), exposure::agrees_with_a_model);
    }
}

#[test]
fn exposed_memory_comes_back() {
    world(exposure::RANKS, &Attach::new(), exposure::memory_comes_back);
}

#[test]
fn refusals_of_exposed_memory() {
    world(exposure::RANKS, &Attach::new(), exposure::refusals);
}

#[test]
fn a_withdrawal_waits_for_the_leases() {
    world(exposure::RANKS, &Attach::new(), exposure::a_withdrawal_waits_for_the_leases);
}

#[test]
fn nothing_is_written_after_a_withdrawal() {
    world(exposure::RANKS, &Attach::new(), exposure::nothing_is_written_after_a_withdrawal);
}

#[test]
fn places_for_exposed_memory_are_used_up_and_come_back() {
    world(1, &Attach::new(), |ra| exposure::places_are_used_up_and_come_back(ra, 1024));
}

#[test]
fn data_of_one_host_is_copied_by_the_processor_unless_told_otherwise() {
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
            // Words of the same place go through the adapter all the same.
            let before = ra.statistics().requests;
            ra.fetch_add(peer.at(at), 0).unwrap();
            assert_eq!(ra.statistics().requests - before, 1);
        });
    }
}
