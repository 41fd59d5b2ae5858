//! RMA-MCS: thresholds, and what each level costs.

use rmalab_atomics::{Counted, Topology, World};

use super::*;
use crate::suite;

fn blocks(sizes: [u32; 3], t_l: u16) -> RmaMcsParams {
    RmaMcsParams { levels: Elements::Blocks(sizes), t_l: [t_l; 4], ..RmaMcsParams::default() }
}

#[test]
fn conforms() {
    suite::mutex::<RmaMcs>(RmaMcsParams::default());
    for (sizes, t_l) in
        [([2, 0, 0], 1), ([2, 0, 0], 2), ([3, 0, 0], 100), ([4, 2, 0], 1), ([4, 2, 0], 2), ([4, 2, 0], 100)]
    {
        suite::mutex::<RmaMcs>(blocks(sizes, t_l));
    }
}

#[test]
fn one_level_is_first_come_first_served() {
    suite::mutex_order::<RmaMcs>(RmaMcsParams::default(), |rank| (0, pointer(rank)));
}

/// Rank 0 holds the lock. Rank 2, of the other node, waits for it, and then rank 1, of rank 0's node. Returns the order
/// of the other ranks.
fn served_with(t_l: [u16; MAX_LEVELS]) -> Vec<u32> {
    let world = World::threads(4);
    let served = world.run(|ra| {
        let place = Place::alloc(ra, Rank(0), RmaMcs::WORDS, RmaMcs::NODE).unwrap();
        let turn = Rank(0).at(ra.heap().alloc(WORD, WORD).unwrap());
        let mut lock = RmaMcs::bind(ra, place, RmaMcsParams { t_l, ..blocks([2, 0, 0], 1) }).unwrap();
        // Links at rank 0 to the ranks that wait behind its node, and behind rank 0 itself.
        let next = [1, 2].map(|level| Rank(0).at(lock.0.next(level)));
        let linked = |next, waiter| suite::poll(ra, next, |next| next == pointer(Rank(waiter))).unwrap();
        match ra.rank().0 {
            0 => 0,
            1 => linked(next[0], 2),
            2 => suite::poll(ra, place.word(0), |tail| tail != NIL).unwrap(),
            _ => return None,
        };
        lock.acquire(ra).unwrap();
        if ra.rank().0 == 0 {
            linked(next[1], 1);
        }
        let turn = ra.fetch_add(turn, 1).unwrap();
        lock.release(ra).unwrap();
        Some((turn, ra.rank().0))
    });
    let mut served: Vec<_> = served.unwrap().into_iter().flatten().collect();
    served.sort_unstable();
    served.into_iter().map(|(_, rank)| rank).collect()
}

#[test]
fn t_l_bounds_how_long_a_node_keeps_the_lock() {
    assert_eq!(served_with([2, 1, 2, 2]), [0, 2, 1]);
    assert_eq!(served_with([1, 2, 1, 1]), [0, 1, 2]);
}

#[test]
fn counts_are_of_levels() {
    let lock = passed(passed(passed(ONCE, 1), 3), 3);
    assert_eq!([1, 2, 3, 4].map(|level| count(lock, level)), [2, 1, 3, 1]);
    let lock = passed(passed(lock, 4), 2);
    assert_eq!([1, 2, 3, 4].map(|level| count(lock, level)), [2, 2, 1, 1]);
    let most = (1..u16::MAX).fold(ONCE, |lock, _| passed(lock, 4));
    assert_eq!(count(passed(most & !(1 << 16) | 1, 1), 1), 2, "a full count below changes nothing above");
    assert_eq!(count(ACQUIRE_PARENT, 1), 0);
}

#[test]
fn the_words_of_four_levels_fill_the_node() {
    let world = World::threads(16).run(|ra| {
        let place = Place::alloc(ra, Rank(0), RmaMcs::WORDS, RmaMcs::NODE).unwrap();
        let RmaMcs(tree) = RmaMcs::bind(ra, place, blocks([8, 4, 2], 1)).unwrap();
        let (nexts, tails) = ((1..=4).map(|level| tree.next(level)), (2..=4).map(|level| tree.tail(level).disp));
        let words: Vec<Disp> = std::iter::once(tree.status()).chain(nexts).chain(tails).collect();
        assert_eq!(words, (0..NODE / WORD).map(|word| place.node.word(word)).collect::<Vec<_>>());
    });
    world.unwrap();
}

#[test]
fn a_threshold_of_0_is_refused() {
    let params = RmaMcsParams { t_l: [1, 1, 0, 1], ..RmaMcsParams::default() };
    let refused = |ra: &rmalab_atomics::Mapped| {
        let place = Place::alloc(ra, Rank(0), RmaMcs::WORDS, RmaMcs::NODE).unwrap();
        RmaMcs::bind(ra, place, params).unwrap_err().to_string()
    };
    let why = World::threads(1).run(refused).unwrap().remove(0);
    assert_eq!(why, "rma-mcs: t_l: T_L,3 is 0, so no rank could ever acquire; it has to be at least 1");
}

#[test]
fn costs_as_mcs_on_one_level() {
    assert_eq!(suite::mutex_cost::<RmaMcs>(RmaMcsParams::default()), (1, 1));
}

/// Returns the operations at other nodes and at other ranks of the node, of an acquire and a release by `rank`. The
/// world has 8 ranks in nodes of 2 and racks of 4, with the home at rank 0.
fn cost(rank: Rank) -> [(u64, u64); 2] {
    let world = World::threads(8).topology(Topology::blocks(8, 2, 2).unwrap());
    let costs = world.run(|ra| {
        let place = Place::alloc(ra, Rank(0), RmaMcs::WORDS, RmaMcs::NODE).unwrap();
        if ra.rank() != rank {
            return None;
        }
        let ra = Counted::new(ra);
        let mut lock = RmaMcs::bind(&ra, place, RmaMcsParams::default()).unwrap();
        let mut of = |step: fn(&mut RmaMcs, &Counted<'_, rmalab_atomics::Mapped>) -> Result<()>| {
            step(&mut lock, &ra).unwrap();
            let counts = ra.take();
            let all = [counts.fetch_store, counts.compare_and_swap, counts.get, counts.put, counts.fetch_add];
            (all.iter().map(|one| one.remote).sum(), all.iter().map(|one| one.node).sum())
        };
        Some([of(|lock, ra| lock.acquire(ra)), of(|lock, ra| lock.release(ra))])
    });
    costs.unwrap().into_iter().flatten().next().unwrap()
}

#[test]
fn costs_one_and_two_a_level() {
    // Rank 7 is in rack 4 to 7 and on node 6 and 7.
    assert_eq!(cost(Rank(7)), [(2, 1), (3, 2)]);
    assert_eq!(cost(Rank(6)), [(2, 0), (3, 0)], "the first rank of a node");
    assert_eq!(cost(Rank(4)), [(1, 0), (1, 0)], "the first rank of a rack");
}
