//! The cost of a lock over RDMA verbs, in requests to the adapter.
//!
//! Needs an RDMA device and fails without one; Soft-RoCE in a virtual machine will do (`scripts/soft-roce`).

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rmalab_atomics::bootstrap::{Hub, Membership};
use rmalab_atomics::verbs::Attach;
use rmalab_atomics::{Collectives, Rank, RemoteAtomics};
use rmalab_locks::{McsRwRp, Place, RawRwLock};

/// An uncontended shared lock and unlock are two requests, with reader preference: an addition each.
#[test]
fn a_shared_lock_with_reader_preference_is_two_requests() {
    let hub = Hub::open(IpAddr::V4(Ipv4Addr::LOCALHOST), 2).unwrap();
    let rank = |rank: u32| {
        let patience = Duration::from_secs(60);
        let member = Membership::join(hub.invitation(), Rank(rank), 2, "here", patience, None).unwrap();
        let ra = Attach::new().attach(member).unwrap();
        let place = Place::alloc(&ra, Rank(0), McsRwRp::WORDS, McsRwRp::NODE).unwrap();
        let mut lock = McsRwRp::bind(&ra, place, ()).unwrap();
        let collectives = Collectives::new(&ra).unwrap();
        for turn in 0..ra.size() {
            if turn == ra.rank().0 {
                // The first acquisition also connects, and makes the same requests.
                for _ in 0..3 {
                    let before = ra.statistics();
                    lock.acquire_read(&ra).unwrap();
                    let locked = ra.statistics();
                    lock.release_read(&ra).unwrap();
                    let after = ra.statistics();
                    assert_eq!((locked.requests - before.requests, after.requests - locked.requests), (1, 1));
                    assert_eq!(after.signalled - before.signalled, 2);
                }
            }
            collectives.barrier().unwrap();
        }
    };
    std::thread::scope(|scope| {
        let ranks = [0, 1].map(|number| scope.spawn(move || rank(number)));
        for rank in ranks {
            rank.join().unwrap();
        }
    });
}
