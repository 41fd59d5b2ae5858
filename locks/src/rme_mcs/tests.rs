use rmalab_atomics::World;

use super::*;
use crate::qnode::rank_of;
use crate::{Mcs, suite};

#[test]
fn conforms() {
    suite::mutex::<RmeMcs>(());
    suite::resumable::<RmeMcs>(());
}

#[test]
fn a_rank_that_waited_for_its_successor_in_a_release_does_not_come_back_inside() {
    let world = World::threads(2).run(|ra| {
        let place = Place::alloc(ra, Rank(0), RmeMcs::WORDS, RmeMcs::NODE).unwrap();
        let mut lock = RmeMcs::bind(ra, place, ()).unwrap();
        if ra.rank() == Rank(0) {
            lock.acquire(ra).unwrap();
            suite::poll(ra, place.word(0), |tail| rank_of(tail) == Rank(1)).unwrap();
            // It fails after it has found the tail changed.
            lock.announce(ra, AWAITS, NIL).unwrap();
            let (_, stage) = RmeMcs::resume(ra, place, ()).unwrap();
            assert_eq!(stage, Stage::Idle);
        } else {
            suite::poll(ra, place.word(0), |tail| tail != NIL).unwrap();
            lock.acquire(ra).unwrap();
            lock.release(ra).unwrap();
        }
    });
    world.unwrap();
}

#[test]
fn a_rank_that_comes_back_twice_is_where_it_was() {
    let world = World::threads(2).run(|ra| {
        let place = Place::alloc(ra, Rank(0), RmeMcs::WORDS, RmeMcs::NODE).unwrap();
        if ra.rank() == Rank(1) {
            let mut lock = RmeMcs::bind(ra, place, ()).unwrap();
            lock.acquire(ra).unwrap();
            lock.release(ra).unwrap();
            return;
        }
        let twice = |expected| {
            for _ in 0..2 {
                let (_, stage) = RmeMcs::resume(ra, place, ()).unwrap();
                assert_eq!(stage, expected);
            }
        };
        twice(Stage::Idle);
        RmeMcs::bind(ra, place, ()).unwrap().acquire(ra).unwrap();
        twice(Stage::Inside);
        let (mut lock, _) = RmeMcs::resume(ra, place, ()).unwrap();
        lock.release(ra).unwrap();
        twice(Stage::Idle);
    });
    world.unwrap();
}

#[test]
fn first_come_first_served() {
    suite::mutex_order::<RmeMcs>((), |rank| (0, pointer(rank) | 1 << 32));
}

#[test]
fn costs_what_mcs_costs() {
    assert_eq!(suite::mutex_cost::<RmeMcs>(()), suite::mutex_cost::<Mcs>(()));
}
