use rmalab_atomics::{Rank, World};

use super::*;
use crate::qnode::pointer;
use crate::{Mcs, suite};

#[test]
fn conforms() {
    suite::mutex::<RobustMcs>(());
    suite::recoverable::<RobustMcs>(());
}

#[test]
fn a_grant_of_the_last_round_of_numbers_is_none_of_the_next() {
    World::threads(1)
        .run(|ra| {
            let place = Place::alloc(ra, ra.rank(), RobustMcs::WORDS, RobustMcs::NODE).unwrap();
            let mut lock = RobustMcs::bind(ra, place, ()).unwrap();
            lock.number = NUMBERS - 1;
            lock.node.own(ra).put(GRANT, 5).unwrap();
            for grant in [5, NO_GRANT] {
                lock.is_unseen = false;
                lock.acquire(ra).unwrap();
                assert_eq!(lock.node.own(ra).get(GRANT).unwrap(), grant, "acquisition {}", lock.number);
                lock.release(ra).unwrap();
            }
        })
        .unwrap();
}

#[test]
fn a_number_serves_until_another_rank_has_seen_it() {
    let world = World::threads(2).run(|ra| {
        let place = Place::alloc(ra, Rank(0), RobustMcs::WORDS, RobustMcs::NODE).unwrap();
        let turn = Rank(0).at(ra.heap().alloc(WORD, WORD).unwrap());
        let mut lock = RobustMcs::bind(ra, place, ()).unwrap();
        if ra.rank() == Rank(0) {
            for _ in 0..3 {
                lock.acquire(ra).unwrap();
                lock.release(ra).unwrap();
                assert_eq!(lock.number, 1, "no other rank has seen it");
            }
            lock.acquire(ra).unwrap();
            ra.put(turn, 1).unwrap();
            suite::poll(ra, place.word(0), |tail| rank_of(tail) == Rank(1)).unwrap();
        } else {
            suite::poll(ra, turn, |turn| turn == 1).unwrap();
            lock.acquire(ra).unwrap();
            assert_eq!(lock.number, 1);
        }
        lock.release(ra).unwrap();
        // Rank 1 was granted the lock by its first number, and may not take that for another grant.
        lock.acquire(ra).unwrap();
        assert_eq!(lock.number, 2, "{}", ra.rank());
        lock.release(ra).unwrap();
    });
    world.unwrap();
}

#[test]
fn first_come_first_served() {
    suite::mutex_order::<RobustMcs>((), |rank| (0, pointer(rank) | 1 << 32));
}

#[test]
fn costs_what_mcs_costs() {
    assert_eq!(suite::mutex_cost::<RobustMcs>(()), suite::mutex_cost::<Mcs>(()));
    assert_eq!(suite::recoverable_cost::<RobustMcs>(()), (1, 1));
}
