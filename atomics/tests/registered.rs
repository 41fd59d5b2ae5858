//! The program's memory, registered for ranks that are threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use rmalab_atomics::registered::{RegisteredKey, UserMemory};
use rmalab_atomics::{ByDistance, Collectives, Counted, Counts, Error, Rank, RemoteAtomics, Topology, Until, World};

use crate::registration::{self, RANKS};

#[test]
fn agrees_with_a_model() {
    for ranks in [1, RANKS] {
        World::threads(ranks).run(registration::agrees_with_a_model).unwrap();
    }
}

#[test]
fn memory_comes_back() {
    World::threads(RANKS).run(registration::memory_comes_back).unwrap();
}

#[test]
fn refusals() {
    World::threads(RANKS).run(registration::refusals).unwrap();
}

#[test]
fn a_deregistration_waits_for_the_pins() {
    let used = World::threads(RANKS).run(registration::a_deregistration_waits_for_the_pins).unwrap()[0];
    // The wait takes some 200 ms. The bound allows a slow machine, but not a waiter that polls.
    assert!(used < 20_000_000, "the deregistration has used {used} ns of processor time");
}

#[test]
fn nothing_is_written_after_a_deregistration() {
    World::threads(RANKS).run(registration::nothing_is_written_after_a_deregistration).unwrap();
}

#[test]
fn used_up_places_are_reused() {
    World::threads(RANKS).run(|ra| registration::used_up_places_are_reused(ra, 16 << 10)).unwrap();
}

/// Returns memory whose drop can be observed: `alive` has two owners until then.
fn watched(alive: &Arc<()>) -> UserMemory {
    let mut bytes = vec![0u8; 64];
    let start = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the bytes lie in the vector, which the memory owns and nothing else accesses.
    unsafe { UserMemory::from_raw(start, 64, Box::new((bytes, Arc::clone(alive)))) }
}

#[test]
fn dropping_a_handle_drops_its_memory_or_leaks_pinned_memory() {
    for pinned in [false, true] {
        let alive = Arc::new(());
        World::threads(2)
            .run(|ra| {
                let word = ra.heap().alloc(8, 8).unwrap();
                let collectives = Collectives::new(ra).unwrap();
                if ra.rank() == Rank(0) {
                    let key = ra.register(watched(&alive)).unwrap();
                    ra.fetch_store(Rank(1).at(word), key.0).unwrap();
                    collectives.barrier().unwrap();
                    return;
                }
                let key = RegisteredKey(ra.wait_until(word, Until::Ne(0)).unwrap());
                let pin = pinned.then(|| ra.pin(Rank(0), key).unwrap());
                collectives.barrier().unwrap();
                // A pin that is held while rank 0 leaves would leak the memory, so only a holder pins here.
                let Some(pin) = pin else { return };
                // Rank 0 leaves the world during this loop: once its entry is closed, there is no new pin.
                while let Ok(another) = ra.pin(Rank(0), key) {
                    drop(another);
                    ra.pause(100).unwrap();
                }
                assert_eq!(Arc::strong_count(&alive), 2);
                pin.put(60, &[1, 2, 3, 4]).unwrap();
                let mut back = [0; 4];
                pin.get(60, &mut back).unwrap();
                assert_eq!(back, [1, 2, 3, 4]);
            })
            .unwrap();
        assert_eq!(Arc::strong_count(&alive), if pinned { 2 } else { 1 }, "pinned: {pinned}");
    }
}

#[test]
fn the_death_of_the_holder_ends_the_deregistration_and_leaks_the_memory() {
    let alive = Arc::new(());
    let told = Mutex::new(None);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        World::threads(2).run(|ra| {
            let collectives = Collectives::new(ra).unwrap();
            let key = ra.register(watched(&alive)).unwrap();
            let keys = registration::exchange(&collectives, key);
            if ra.rank() == Rank(1) {
                std::mem::forget(ra.pin(Rank(0), keys[0]).unwrap());
                collectives.barrier().unwrap();
                panic!("with a pin");
            }
            collectives.barrier().unwrap();
            *told.lock().unwrap() = Some(ra.deregister(key).map(drop));
            // The memory that rank 1 had registered is gone with it.
            while let Ok(pin) = ra.pin(Rank(1), keys[1]) {
                drop(pin);
            }
            let error = ra.pin(Rank(1), keys[1]).unwrap_err();
            assert!(matches!(error, Error::PeerFailed { rank: Rank(1) }), "{error}");
        })
    }));
    assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"with a pin"));
    let told = told.into_inner().unwrap();
    assert!(matches!(told, Some(Err(Error::PeerFailed { rank: Rank(1) }))), "{told:?}");
    assert_eq!(Arc::strong_count(&alive), 2, "rank 0's is leaked, rank 1's dropped");
}

#[test]
fn counted_pins_count_as_bulk_operations() {
    let topology = Topology::blocks(4, 2, 1).unwrap();
    World::threads(4)
        .topology(topology)
        .run(|ra| {
            let collectives = Collectives::new(ra).unwrap();
            let counted = Counted::new(ra);
            let key = counted.register(UserMemory::from_vec(vec![0u64; 4])).unwrap();
            let keys = registration::exchange(&collectives, key);
            if ra.rank() == Rank(1) {
                for rank in [1, 0, 3] {
                    let pin = counted.pin(Rank(rank), keys[rank as usize]).unwrap();
                    pin.put(5, &[1, 2, 3]).unwrap();
                    pin.get(0, &mut [0; 7]).unwrap();
                    pin.put(40, &[1]).unwrap_err();
                    assert_eq!((pin.bytes(), pin.words().unwrap().words.len()), (32, 4));
                }
                let each = |count| ByDistance { own: count, node: count, remote: count };
                let expected = Counts { put_bytes: each(1), get_bytes: each(1), bytes: each(10), ..Counts::default() };
                assert_eq!(counted.counts(), expected);
            }
            collectives.barrier().unwrap();
            counted.deregister(key).unwrap();
        })
        .unwrap();
}
