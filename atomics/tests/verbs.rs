//! The suite on RDMA verbs, with ranks that are threads, each with its own device context, memory and queue pairs.
//!
//! These tests need an RDMA device and fail without one; Soft-RoCE in a virtual machine will do.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rmalab_atomics::bootstrap::{Hub, Membership};
use rmalab_atomics::conformance::Failure;
use rmalab_atomics::verbs::{Attach, Verbs};
use rmalab_atomics::{Rank, RemoteAtomics};

rmalab_atomics::conformance!(verbs, Verbs, on_verbs);

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

/// Processor-time-free statistics of what operations cost in requests.
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

mod exposure;

#[test]
fn exposed_memory_agrees_with_a_model() {
    for ranks in [1, exposure::RANKS] {
        world(ranks, &Attach::new(), |ra| exposure::agrees_with_a_model(ra));
    }
}

#[test]
fn exposed_memory_comes_back() {
    world(exposure::RANKS, &Attach::new(), |ra| exposure::memory_comes_back(ra));
}

#[test]
fn refusals_of_exposed_memory() {
    world(exposure::RANKS, &Attach::new(), |ra| exposure::refusals(ra));
}

#[test]
fn a_withdrawal_waits_for_the_leases() {
    world(exposure::RANKS, &Attach::new(), |ra| exposure::a_withdrawal_waits_for_the_leases(ra));
}

#[test]
fn nothing_is_written_after_a_withdrawal() {
    world(exposure::RANKS, &Attach::new(), |ra| exposure::nothing_is_written_after_a_withdrawal(ra));
}

#[test]
fn places_for_exposed_memory_are_used_up_and_come_back() {
    world(1, &Attach::new(), |ra| exposure::places_are_used_up_and_come_back(ra));
}
