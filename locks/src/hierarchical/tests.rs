//! The hierarchical lock word by word, and its costs.

use rmalab_atomics::{Collectives, Counted, Counts, Mapped, Topology, World};

use super::*;

const SHARED: LockKind = LockKind::Shared;
const EXCLUSIVE: LockKind = LockKind::Exclusive;

/// Runs `body` on each of `ranks` ranks, in nodes of `ranks_per_node`, with a lock whose root is the last rank.
fn run<T: Send>(
    ranks: u32,
    ranks_per_node: u32,
    fan_out: u32,
    body: impl Fn(&Counted<'_, Mapped>, &Collectives<'_, Counted<'_, Mapped>>, &mut Hierarchical) -> T + Sync,
) -> Vec<T> {
    let topology = Topology::blocks(ranks, ranks_per_node, 1).unwrap();
    let world = World::threads(ranks).topology(topology).run(|ra| {
        let ra = Counted::new(ra);
        let collectives = Collectives::new(&ra).unwrap();
        let params = HierarchicalParams { root: Rank(ranks - 1), leaf: 0, fan_out };
        let mut lock = Hierarchical::new(&ra, params).unwrap();
        body(&ra, &collectives, &mut lock)
    });
    world.unwrap()
}

/// Returns the operations on memory of the rank and of its node, and the operations on other nodes.
fn operations(counts: &Counts) -> (u64, u64) {
    let words = [counts.fetch_add, counts.compare_and_swap, counts.fetch_store, counts.get, counts.put];
    let kinds = words.into_iter().chain([counts.get_bytes]);
    kinds.fold((0, 0), |(near, remote), kind| (near + kind.own + kind.node, remote + kind.remote))
}

fn own(ra: &Counted<'_, Mapped>, disp: Disp) -> u64 {
    ra.get(ra.rank().at(disp)).unwrap()
}

#[test]
fn the_words_tell_who_holds_what() {
    run(8, 2, 2, |ra, all, lock| {
        lock.lock_all(ra).unwrap();
        all.barrier().unwrap();
        assert_eq!((ra.get(lock.leaf).unwrap(), ra.get(lock.gate).unwrap()), (2 * HOLDER, OPEN));
        // Four gates below two words below the root.
        assert_eq!(lock.tree.levels, 2);
        assert_eq!(ra.get(lock.tree.root()).unwrap(), 0b11);
        assert_eq!(ra.get(lock.tree.word(0, u64::from(ra.rank().0) / 4)).unwrap(), 0b11);
        all.barrier().unwrap();
        lock.unlock_all(ra).unwrap();
        all.barrier().unwrap();
        assert_eq!((ra.get(lock.leaf).unwrap(), ra.get(lock.gate).unwrap()), (0, OPEN), "a gate stays open at rest");
        all.barrier().unwrap();
        if ra.rank() == Rank(3) {
            lock.lock(ra, EXCLUSIVE, Rank(5)).unwrap();
            assert_eq!(ra.get(Rank(5).at(lock.words.plus(2 * LINE))).unwrap(), 1 << 63);
            lock.unlock(ra, EXCLUSIVE, Rank(5)).unwrap();
        }
        all.barrier().unwrap();
        let bytes = ra.heap().len_of(lock.words).unwrap();
        for word in 0..bytes / WORD {
            assert_eq!(own(ra, lock.words.word(word)), 0, "{}: word {word} after the gates were closed", ra.rank());
        }
    });
}

#[test]
fn the_parameters_are_bounded() {
    let levels = |size, leaf, fan_out| Tree::new(Rank(0), size, leaf, fan_out).levels;
    assert_eq!(levels(663_552, 32, 64), 3);
    assert_eq!(levels(1, 1, 64), 1);
    assert_eq!((levels(64, 1, 64), levels(65, 1, 64)), (1, 2));
    assert_eq!((levels(4, 1, 2), levels(4, 4, 2)), (2, 1));
    assert_eq!(levels(target::RANKS, 1, 2), 29);
    let world = World::threads(2).run(|ra| {
        let params = HierarchicalParams { root: Rank(2), ..Default::default() };
        let result = Hierarchical::new(ra, params);
        assert!(matches!(result, Err(Error::NoSuchTarget { target: Rank(2), size: 2, .. })), "{result:?}");
    });
    world.unwrap();
}

/// In the steady state: one atomic operation on the node, at any number of ranks, and a look at the gate.
#[test]
fn lock_all_costs_one_atomic_operation_on_its_node() {
    for ranks in [2, 4, 8, 16] {
        run(ranks, 2, 2, |ra, all, lock| {
            lock.lock_all(ra).unwrap();
            lock.unlock_all(ra).unwrap();
            all.barrier().unwrap();
            for _ in 0..10 {
                ra.reset();
                lock.lock_all(ra).unwrap();
                let counts = ra.take();
                assert_eq!((operations(&counts), counts.get.own + counts.get.node), ((2, 0), 1));
                lock.unlock_all(ra).unwrap();
                assert_eq!(operations(&ra.take()), (1, 0));
            }
        });
    }
}

#[test]
fn the_first_lock_all_of_a_gate_pays_for_the_phase_lock_and_the_tree() {
    // Four gates below two words below the root, at rank 7.
    run(8, 2, 2, |ra, all, lock| {
        for (turn, far) in [(0, 3 + 1), (2, 3 + 1), (4, 3 + 1)] {
            if ra.rank() == Rank(turn) {
                ra.reset();
                lock.lock_all(ra).unwrap();
                let (near, remote) = operations(&ra.take());
                // The word above a gate is at the first of its gates, and the second gate stops there.
                assert_eq!(remote, far, "{turn}");
                // 5 on the leaf, 3 on the gate, 3 on its mutex, 1 on this rank's node of the phase lock, and the word of the
                // tree.
                assert_eq!(near, 12 + u64::from(turn != 2), "{turn}");
                lock.unlock_all(ra).unwrap();
            }
            all.barrier().unwrap();
        }
    });
}

#[test]
fn an_exclusive_lock_costs_four_and_four_without_lock_all() {
    run(6, 1, 64, |ra, all, lock| {
        if ra.rank() == Rank(0) {
            for _ in 0..3 {
                let mut cost = |what: &mut dyn FnMut(&mut Hierarchical)| {
                    ra.reset();
                    what(lock);
                    operations(&ra.take()).1
                };
                assert_eq!(cost(&mut |lock| lock.lock(ra, EXCLUSIVE, Rank(1)).unwrap()), 4, "first");
                assert_eq!(cost(&mut |lock| lock.lock(ra, EXCLUSIVE, Rank(2)).unwrap()), 1, "second");
                assert_eq!(cost(&mut |lock| lock.lock(ra, SHARED, Rank(3)).unwrap()), 1, "shared");
                assert_eq!(cost(&mut |lock| lock.unlock(ra, SHARED, Rank(3)).unwrap()), 1, "unlock shared");
                assert_eq!(cost(&mut |lock| lock.unlock(ra, EXCLUSIVE, Rank(1)).unwrap()), 1, "unlock the first");
                assert_eq!(cost(&mut |lock| lock.unlock(ra, EXCLUSIVE, Rank(2)).unwrap()), 4, "unlock the last");
            }
        }
        all.barrier().unwrap();
    });
}

/// Closing k gates: two operations for each gate, one for each word of the tree above them, and the operations for
/// mutex and root.
#[test]
fn an_exclusive_lock_costs_as_much_as_gates_are_open() {
    for open in 1..=8 {
        run(20, 2, 4, |ra, all, lock| {
            assert_eq!(lock.tree.levels, 2);
            // The first of ten gates, below words of four.
            if ra.rank().0 < 2 * open {
                lock.lock_all(ra).unwrap();
                lock.unlock_all(ra).unwrap();
            }
            all.barrier().unwrap();
            // On the node after the last of these, and not on the root's node.
            if ra.rank() == Rank(17) {
                ra.reset();
                lock.lock(ra, EXCLUSIVE, Rank(0)).unwrap();
                let (_, remote) = operations(&ra.take());
                let words = u64::from(open.div_ceil(4));
                assert_eq!(remote, 4 + 4 + words + 2 * u64::from(open), "{open} gates");
                lock.unlock(ra, EXCLUSIVE, Rank(0)).unwrap();
                assert_eq!(operations(&ra.take()).1, 4);
            }
            all.barrier().unwrap();
        });
    }
}

/// The same with holders inside: one more operation for each leaf, and one by the last rank that leaves it.
#[test]
fn closing_a_gate_costs_one_more_for_each_leaf_that_is_held() {
    for open in 1..=8 {
        let inside = run(20, 2, 4, |ra, all, lock| {
            let holds = ra.rank().0 < 2 * open;
            let closing = |lock: &Hierarchical| ra.get(lock.leaf).unwrap() & CLOSER != 0;
            if holds {
                lock.lock_all(ra).unwrap();
            }
            all.barrier().unwrap();
            let mut remote = 0;
            ra.reset();
            if holds {
                // Until the leaf is being closed. Otherwise no rank would have to be informed.
                while !closing(lock) {
                    ra.pause(50).unwrap();
                }
                ra.reset();
                lock.unlock_all(ra).unwrap();
                remote = operations(&ra.take()).1;
            } else if ra.rank() == Rank(17) {
                lock.lock(ra, EXCLUSIVE, Rank(0)).unwrap();
                remote = operations(&ra.take()).1;
                lock.unlock(ra, EXCLUSIVE, Rank(0)).unwrap();
            }
            all.barrier().unwrap();
            remote
        });
        let words = u64::from(open.div_ceil(4));
        assert_eq!(inside[17], 4 + 4 + words + 3 * u64::from(open), "{open} leaves");
        // One of the two ranks of each leaf informs the closing rank.
        assert_eq!(inside[..2 * open as usize].iter().sum::<u64>(), u64::from(open), "{open} leaves");
    }
}

/// Two nodes of eight ranks, each a gate of two leaves; holders are in the second leaf of each.
#[test]
fn the_leaves_of_a_gate_are_closed_together() {
    run(18, 8, 64, |ra, all, lock| {
        let rank = ra.rank().0;
        assert_eq!((lock.leaves, lock.tree.gate), (2, 8));
        assert_eq!((lock.gate.rank, lock.leaf.rank), (Rank(rank / 8 * 8), Rank(rank / 8 * 8)));
        assert_eq!(lock.leaf.disp, lock.words.plus((5 + u64::from(rank / 4 % 2)) * LINE));
        let (holds, revokes) = ([7, 12].contains(&rank), rank == 17);
        if holds {
            lock.lock_all(ra).unwrap();
        }
        all.barrier().unwrap();
        ra.reset();
        if holds {
            while ra.get(lock.leaf).unwrap() & CLOSER == 0 {
                ra.pause(50).unwrap();
            }
            lock.unlock_all(ra).unwrap();
        } else if revokes {
            lock.lock(ra, EXCLUSIVE, Rank(0)).unwrap();
            // Swap and bulk get of each gate, the pointers in their second leaves, and the target's lock. The phase lock is here.
            assert_eq!(operations(&ra.take()).1, 2 * 2 + 2 + 1);
            assert_eq!([0, 8].map(|first| ra.get(Rank(first).at(lock.words)).unwrap()), [0; 2]);
            lock.unlock(ra, EXCLUSIVE, Rank(0)).unwrap();
        }
        all.barrier().unwrap();
    });
}

#[test]
fn each_rank_needs_the_same_room_at_any_number_of_ranks() {
    let used = |ranks: u32| {
        let free = World::threads(ranks).topology(Topology::blocks(ranks, 2, 1).unwrap()).run(|ra| {
            let before = ra.heap().free_bytes();
            Hierarchical::new(ra, Default::default()).unwrap();
            before - ra.heap().free_bytes()
        });
        free.unwrap()[0]
    };
    assert_eq!((used(2), used(9)), (6 * LINE + WORD, 6 * LINE + WORD));
}
