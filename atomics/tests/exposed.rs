//! The program's own memory, exposed to ranks that are threads.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod exposure;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use exposure::RANKS;
use rmalab_atomics::exposed::{ExposedKey, UserMemory};
use rmalab_atomics::{ByDistance, Collectives, Counted, Counts, Error, Rank, RemoteAtomics, Topology, Until, World};

#[test]
fn agrees_with_a_model() {
    for ranks in [1, RANKS] {
        World::threads(ranks).run(exposure::agrees_with_a_model).unwrap();
    }
}

#[test]
fn memory_comes_back() {
    World::threads(RANKS).run(exposure::memory_comes_back).unwrap();
}

#[test]
fn refusals() {
    World::threads(RANKS).run(exposure::refusals).unwrap();
}

#[test]
fn a_withdrawal_waits_for_the_leases() {
    let used = World::threads(RANKS).run(exposure::a_withdrawal_waits_for_the_leases).unwrap()[0];
    // Of some 200 ms of waiting; the bound leaves room for a slow machine, and none for a waiter that polls.
    assert!(used < 20_000_000, "the withdrawal has used {used} ns of processor time");
}

#[test]
fn nothing_is_written_after_a_withdrawal() {
    World::threads(RANKS).run(exposure::nothing_is_written_after_a_withdrawal).unwrap();
}

#[test]
fn places_are_used_up_and_come_back() {
    World::threads(RANKS).run(|ra| exposure::places_are_used_up_and_come_back(ra, 16 << 10)).unwrap();
}

/// Memory whose owner tells whether it has been dropped: `alive` has two owners until then.
fn watched(alive: &Arc<()>) -> UserMemory {
    let mut bytes = vec![0u8; 64];
    let start = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the bytes lie in the vector, which the memory owns and nobody else accesses.
    unsafe { UserMemory::from_raw(start, 64, Box::new((bytes, Arc::clone(alive)))) }
}

#[test]
fn a_handle_that_goes_drops_its_memory_or_leaks_what_is_leased() {
    for leased in [false, true] {
        let alive = Arc::new(());
        World::threads(2)
            .run(|ra| {
                let word = ra.heap().alloc(8, 8).unwrap();
                let collectives = Collectives::new(ra).unwrap();
                if ra.rank() == Rank(0) {
                    let key = ra.expose(watched(&alive)).unwrap();
                    ra.fetch_store(Rank(1).at(word), key.0).unwrap();
                    collectives.barrier().unwrap();
                    return;
                }
                let key = ExposedKey(ra.wait_until(word, Until::Ne(0)).unwrap());
                let lease = leased.then(|| ra.lease(Rank(0), key).unwrap());
                collectives.barrier().unwrap();
                // Rank 0 leaves the world meanwhile: once its entry is closed, there is no new lease.
                while let Ok(another) = ra.lease(Rank(0), key) {
                    drop(another);
                    ra.pause(100).unwrap();
                }
                if let Some(lease) = lease {
                    assert_eq!(Arc::strong_count(&alive), 2);
                    lease.put(60, &[1, 2, 3, 4]).unwrap();
                    let mut back = [0; 4];
                    lease.get(60, &mut back).unwrap();
                    assert_eq!(back, [1, 2, 3, 4]);
                }
            })
            .unwrap();
        assert_eq!(Arc::strong_count(&alive), if leased { 2 } else { 1 }, "leased: {leased}");
    }
}

#[test]
fn the_death_of_the_holder_ends_the_withdrawal_and_leaks_the_memory() {
    let alive = Arc::new(());
    let told = Mutex::new(None);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        World::threads(2).run(|ra| {
            let collectives = Collectives::new(ra).unwrap();
            let key = ra.expose(watched(&alive)).unwrap();
            let keys = exposure::exchange(&collectives, key);
            if ra.rank() == Rank(1) {
                std::mem::forget(ra.lease(Rank(0), keys[0]).unwrap());
                collectives.barrier().unwrap();
                panic!("with a lease");
            }
            collectives.barrier().unwrap();
            *told.lock().unwrap() = Some(ra.withdraw(key).map(drop));
            // What rank 1 has exposed went with it.
            while let Ok(lease) = ra.lease(Rank(1), keys[1]) {
                drop(lease);
            }
            let error = ra.lease(Rank(1), keys[1]).unwrap_err();
            assert!(matches!(error, Error::PeerFailed { rank: Rank(1) }), "{error}");
        })
    }));
    assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"with a lease"));
    let told = told.into_inner().unwrap();
    assert!(matches!(told, Some(Err(Error::PeerFailed { rank: Rank(1) }))), "{told:?}");
    assert_eq!(Arc::strong_count(&alive), 2, "rank 0's is leaked, rank 1's dropped");
}

#[test]
fn counted_leases_count_as_bulk_operations() {
    let topology = Topology::blocks(4, 2, 1).unwrap();
    World::threads(4)
        .topology(topology)
        .run(|ra| {
            let collectives = Collectives::new(ra).unwrap();
            let counted = Counted::new(ra);
            let key = counted.expose(UserMemory::from_vec(vec![0u64; 4])).unwrap();
            let keys = exposure::exchange(&collectives, key);
            if ra.rank() == Rank(1) {
                for rank in [1, 0, 3] {
                    let lease = counted.lease(Rank(rank), keys[rank as usize]).unwrap();
                    lease.put(5, &[1, 2, 3]).unwrap();
                    lease.get(0, &mut [0; 7]).unwrap();
                    lease.put(40, &[1]).unwrap_err();
                    assert_eq!((lease.bytes(), lease.words().unwrap().words.len()), (32, 4));
                }
                let each = |count| ByDistance { own: count, node: count, remote: count };
                let expected = Counts { put_bytes: each(1), get_bytes: each(1), bytes: each(10), ..Counts::default() };
                assert_eq!(counted.counts(), expected);
            }
            collectives.barrier().unwrap();
            counted.withdraw(key).unwrap();
        })
        .unwrap();
}
