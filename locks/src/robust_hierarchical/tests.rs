//! The robust hierarchical lock word by word, and its costs.

use rmalab_atomics::{Collectives, Counted, Counts, Mapped, Topology, World};

use super::gates::OPEN;
use super::*;
use crate::LINE;
use crate::robust_two_level::{ALL, GATES};

const SHARED: LockKind = LockKind::Shared;
const EXCLUSIVE: LockKind = LockKind::Exclusive;

/// Runs `body` on each of `ranks` ranks, in nodes of `ranks_per_node`, with a lock whose root is the last rank.
fn run<T: Send>(
    ranks: u32,
    ranks_per_node: u32,
    fan_out: u32,
    body: impl Fn(&Counted<'_, Mapped>, &Collectives<'_, Counted<'_, Mapped>>, &mut RobustHierarchical) -> T + Sync,
) -> Vec<T> {
    let topology = Topology::blocks(ranks, ranks_per_node, 1).unwrap();
    let world = World::threads(ranks).topology(topology).run(|ra| {
        let ra = Counted::new(ra);
        let collectives = Collectives::new(&ra).unwrap();
        let params = RobustHierarchicalParams { root: Rank(ranks - 1), fan_out, ..Default::default() };
        let mut lock = RobustHierarchical::new(&ra, params).unwrap();
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

fn lock_all<A: RemoteAtomics>(ra: &A, lock: &mut RobustHierarchical, recovers: bool) {
    if recovers {
        assert_eq!(lock.recoverable_lock_all(ra).unwrap(), Entry::Clean);
    } else {
        lock.lock_all(ra).unwrap();
    }
}

fn lock_one<A: RemoteAtomics>(ra: &A, lock: &mut RobustHierarchical, kind: LockKind, target: Rank, recovers: bool) {
    if recovers {
        assert_eq!(lock.recoverable_lock(ra, kind, target).unwrap(), Entry::Clean);
    } else {
        lock.lock(ra, kind, target).unwrap();
    }
}

#[test]
fn the_words_say_which_rank_holds_what() {
    run(8, 2, 2, |ra, all, lock| {
        let master = |lock: &RobustHierarchical| lock.lock.master_word(ra).unwrap();
        let words = |lock: &RobustHierarchical| [lock.gates.leaf, lock.gates.gate].map(|at| ra.get(at).unwrap());
        lock.lock_all(ra).unwrap();
        all.barrier().unwrap();
        assert_eq!(words(lock), [0b11, OPEN]);
        // Four gates below two words below the root.
        assert_eq!(lock.gates.tree.levels, 2);
        assert_eq!(ra.get(lock.gates.tree.root()).unwrap(), 0b11);
        assert_eq!(ra.get(lock.gates.tree.word(0, u64::from(ra.rank().0) / 4)).unwrap(), 0b11);
        assert_eq!(master(lock), GATES, "no rank is counted there");
        all.barrier().unwrap();
        if ra.rank() == Rank(3) {
            lock.unlock_all(ra).unwrap();
            assert_eq!(words(lock), [0b01, OPEN]);
        }
        all.barrier().unwrap();
        if ra.rank() != Rank(3) {
            lock.unlock_all(ra).unwrap();
        }
        all.barrier().unwrap();
        assert_eq!(words(lock), [0, OPEN], "a gate stays open at rest");
        all.barrier().unwrap();
        if ra.rank() == Rank(3) {
            lock.lock(ra, EXCLUSIVE, Rank(5)).unwrap();
            assert_eq!(master(lock), 1 << 3, "counted in place of the gates");
            lock.unlock(ra, EXCLUSIVE, Rank(5)).unwrap();
        }
        all.barrier().unwrap();
        assert_eq!((words(lock), master(lock)), ([0; 2], 0));
        for word in 0..u64::from(lock.gates.tree.levels) {
            assert_eq!(ra.get(ra.rank().at(lock.gates.tree.words.word(word))).unwrap(), 0, "{word}");
        }
    });
}

/// The rank that set GATES has failed ahead of opening its gate: no gate is registered. An opening does not add the bit again.
#[test]
fn gates_without_an_open_gate_are_counted_once() {
    run(4, 2, 64, |ra, all, lock| {
        if ra.rank() == Rank(0) {
            let master = lock.lock.word_of_master();
            ra.fetch_add(master, GATES).unwrap();
            lock.lock_all(ra).unwrap();
            assert_eq!(lock.lock.master_word(ra).unwrap(), GATES);
            lock.unlock_all(ra).unwrap();
            lock.lock(ra, EXCLUSIVE, Rank(1)).unwrap();
            assert_eq!(lock.lock.master_word(ra).unwrap(), 1);
            lock.unlock(ra, EXCLUSIVE, Rank(1)).unwrap();
            ra.fetch_add(master, GATES).unwrap();
            lock.lock(ra, EXCLUSIVE, Rank(1)).unwrap();
            assert_eq!(lock.lock.master_word(ra).unwrap(), 1);
            lock.unlock(ra, EXCLUSIVE, Rank(1)).unwrap();
        }
        all.barrier().unwrap();
    });
}

/// A failed rank stays counted in the master until a recount. A rank that has closed the gates is counted beside it.
#[test]
fn a_count_of_a_failed_lock_all_does_not_hold_up_a_rank_that_closes_gates() {
    run(4, 2, 64, |ra, all, lock| {
        if ra.rank() == Rank(0) {
            lock.lock_all(ra).unwrap();
            lock.unlock_all(ra).unwrap();
            ra.fetch_add(lock.lock.word_of_master(), ALL << 3).unwrap();
            lock.lock(ra, EXCLUSIVE, Rank(1)).unwrap();
            assert_eq!(lock.lock.master_word(ra).unwrap(), (ALL << 3) + 1);
            lock.unlock(ra, EXCLUSIVE, Rank(1)).unwrap();
        }
        all.barrier().unwrap();
    });
}

/// The rank has closed the gates when the target refuses. It is not counted after that.
#[test]
fn an_exclusive_lock_that_fails_behind_closed_gates_leaves_no_count() {
    run(4, 2, 64, |ra, all, lock| {
        if ra.rank() == Rank(0) {
            lock.lock_all(ra).unwrap();
            lock.unlock_all(ra).unwrap();
            assert_eq!(lock.lock.master_word(ra).unwrap(), GATES);
            let refused = lock.lock(ra, EXCLUSIVE, Rank(4));
            assert!(matches!(refused, Err(Error::Atomics(_))), "{refused:?}");
            assert_eq!(lock.lock.master_word(ra).unwrap(), 0);
            lock.lock_all(ra).unwrap();
            lock.unlock_all(ra).unwrap();
        }
        all.barrier().unwrap();
    });
}

#[test]
fn the_parameters_are_bounded() {
    let world = World::threads(2).run(|ra| {
        let refused = |params| RobustHierarchical::new(ra, params).unwrap_err();
        let default = RobustHierarchicalParams::default();
        let error = refused(RobustHierarchicalParams { root: Rank(2), ..default });
        assert!(matches!(error, Error::NoSuchTarget { target: Rank(2), size: 2, .. }), "{error:?}");
        for params in [
            RobustHierarchicalParams { leaf: 65, ..default },
            RobustHierarchicalParams { fan_out: 1, ..default },
            RobustHierarchicalParams { fan_out: 65, ..default },
        ] {
            let error = refused(params);
            assert!(matches!(error, Error::Parameter { .. }), "{error:?}");
        }
    });
    world.unwrap();
}

/// In the steady state: one atomic operation on the node, at any number of ranks, and a look at the gate.
#[test]
fn lock_all_costs_what_hierarchical_costs() {
    for ranks in [2, 4, 8, 16] {
        run(ranks, 2, 2, |ra, all, lock| {
            lock.lock_all(ra).unwrap();
            lock.unlock_all(ra).unwrap();
            all.barrier().unwrap();
            for recovers in [false, true] {
                for _ in 0..10 {
                    ra.reset();
                    lock_all(ra, lock, recovers);
                    let counts = ra.take();
                    assert_eq!((operations(&counts), counts.get.own + counts.get.node), ((2, 0), 1));
                    lock.unlock_all(ra).unwrap();
                    assert_eq!(operations(&ra.take()), (1, 0));
                }
            }
        });
    }
}

#[test]
fn the_first_lock_all_of_a_gate_pays_for_the_mutexes_and_the_tree() {
    for recovers in [false, true] {
        // Four gates below two words below the root, at rank 7. The first gate pays for the master. The second one reads the word above it.
        run(8, 2, 2, |ra, all, lock| {
            for (turn, far) in [(0, 4 + 2), (2, 3 + 2), (4, 3 + 1)] {
                if ra.rank() == Rank(turn) {
                    ra.reset();
                    lock_all(ra, lock, recovers);
                    assert_eq!(operations(&ra.take()).1, far, "{turn}");
                    lock.unlock_all(ra).unwrap();
                }
                all.barrier().unwrap();
            }
        });
    }
}

#[test]
fn an_exclusive_lock_costs_two_and_two_without_lock_all() {
    run(6, 1, 64, |ra, all, lock| {
        if ra.rank() == Rank(0) {
            for recovers in [false, true] {
                let mut cost = |what: &mut dyn FnMut(&mut RobustHierarchical)| {
                    ra.reset();
                    what(lock);
                    operations(&ra.take()).1
                };
                assert_eq!(cost(&mut |lock| lock_one(ra, lock, EXCLUSIVE, Rank(1), recovers)), 2, "first");
                assert_eq!(cost(&mut |lock| lock_one(ra, lock, EXCLUSIVE, Rank(2), recovers)), 1, "second");
                assert_eq!(cost(&mut |lock| lock_one(ra, lock, SHARED, Rank(3), recovers)), 1, "shared");
                assert_eq!(cost(&mut |lock| lock.unlock(ra, SHARED, Rank(3)).unwrap()), 1, "unlock shared");
                assert_eq!(cost(&mut |lock| lock.unlock(ra, EXCLUSIVE, Rank(1)).unwrap()), 1, "unlock the first");
                assert_eq!(cost(&mut |lock| lock.unlock(ra, EXCLUSIVE, Rank(2)).unwrap()), 2, "unlock the last");
            }
        }
        all.barrier().unwrap();
    });
}

/// Closing k gates: two operations for each gate, two for each word of the tree above them, and 6 for the attempt, the mutex, and the
/// root. With holders inside, one more for each leaf and each poll.
#[test]
fn an_exclusive_lock_costs_as_much_as_gates_are_open() {
    for open in 1..=8 {
        for holds in [false, true] {
            let inside = run(20, 2, 4, |ra, all, lock| {
                assert_eq!(lock.gates.tree.levels, 2);
                // The first of ten gates, below words of four.
                let enters = ra.rank().0 < 2 * open;
                if enters {
                    lock.lock_all(ra).unwrap();
                    if !holds {
                        lock.unlock_all(ra).unwrap();
                    }
                }
                all.barrier().unwrap();
                let mut remote = 0;
                ra.reset();
                if enters && holds {
                    while ra.get(lock.gates.gate).unwrap() == OPEN {
                        ra.pause(50).unwrap();
                    }
                    ra.reset();
                    lock.unlock_all(ra).unwrap();
                    assert_eq!(operations(&ra.take()), (1, 0));
                } else if ra.rank() == Rank(17) {
                    // On the node after the last of these, and not on the root's node.
                    lock.lock(ra, EXCLUSIVE, Rank(0)).unwrap();
                    remote = operations(&ra.take()).1;
                    lock.unlock(ra, EXCLUSIVE, Rank(0)).unwrap();
                    assert_eq!(operations(&ra.take()).1, 2);
                }
                all.barrier().unwrap();
                remote
            });
            let words = u64::from(open.div_ceil(4));
            let without = 2 + 6 + 2 * words + 2 * u64::from(open);
            if holds {
                assert!(inside[17] >= without, "{open} leaves: {}", inside[17]);
            } else {
                assert_eq!(inside[17], without, "{open} gates");
            }
        }
    }
}

/// Two nodes of eight ranks, each a gate of two leaves; holders are in the second leaf of each.
#[test]
fn the_leaves_of_a_gate_are_closed_together() {
    run(18, 8, 64, |ra, all, lock| {
        let rank = ra.rank().0;
        let gates = &lock.gates;
        assert_eq!((gates.leaves, gates.tree.gate), (2, 8));
        assert_eq!((gates.gate.rank, gates.leaf.rank), (Rank(rank / 8 * 8), Rank(rank / 8 * 8)));
        assert_eq!(gates.leaf.disp, gates.words().plus((4 + u64::from(rank / 4 % 2)) * LINE));
        let (holds, closes) = ([7, 12].contains(&rank), rank == 17);
        if holds {
            lock.lock_all(ra).unwrap();
            assert_eq!(ra.get(lock.gates.leaf).unwrap(), 1 << (rank % 4));
        }
        all.barrier().unwrap();
        if holds {
            while ra.get(lock.gates.gate).unwrap() == OPEN {
                ra.pause(50).unwrap();
            }
            lock.unlock_all(ra).unwrap();
        } else if closes {
            lock.lock(ra, EXCLUSIVE, Rank(0)).unwrap();
            for first in [0, 8].map(Rank) {
                let words = [0, 4, 5].map(|line| ra.get(first.at(lock.gates.words().plus(line * LINE))).unwrap());
                assert_eq!(words, [0; 3]);
            }
            lock.unlock(ra, EXCLUSIVE, Rank(0)).unwrap();
        }
        all.barrier().unwrap();
    });
}
