//! Tests the guarantees of every window lock, on threads, and the documented limits of each policy.

use rmalab_atomics::{Address, Collectives, Counted, Mapped, Rank, RemoteAtomics, Until, WORD, World};
use rmalab_locks::{
    Assert, Contended, Entry, Error, Exclusive, Global, GlobalParams, Hierarchical, HierarchicalParams, LockKind, Mcs,
    McsRwNeutral, McsRwRp, McsRwWp, NoCheck, PerTarget, Policy, PolicyKind, Result, RobustHierarchical,
    RobustHierarchicalParams, RobustTwoLevel, RobustTwoLevelParams, ShiftLock, ShiftLockParams, TasRw, TwoLevel,
    TwoLevelParams, TwoLevelScan, TwoLevelScanParams, WindowLock, WindowLockTimed, WindowLocks,
};

const SHARED: LockKind = LockKind::Shared;
const EXCLUSIVE: LockKind = LockKind::Exclusive;

/// A pair of words at every rank, which the holders of exclusive locks keep equal.
struct Pairs(rmalab_atomics::Disp);

impl Pairs {
    fn alloc(ra: &Mapped) -> Pairs {
        Pairs(ra.heap().alloc(2 * WORD, 128).unwrap())
    }

    fn read(&self, ra: &Mapped, target: Rank) -> u64 {
        let [first, second] = [0, 1].map(|i| ra.get(target.at(self.0.word(i))).unwrap());
        assert_eq!(first, second, "{} reads a torn pair of {target}", ra.rank());
        first
    }

    fn increment(&self, ra: &Mapped, target: Rank, round: u32) {
        let value = self.read(ra, target) + 1;
        ra.put(target.at(self.0), value).unwrap();
        if round.is_multiple_of(8) {
            ra.pause(20).unwrap();
        }
        ra.put(target.at(self.0.word(1)), value).unwrap();
        ra.flush(target).unwrap();
    }
}

fn meet(ra: &Mapped, arrived: Address) {
    ra.fetch_add(arrived, 1).unwrap();
    while ra.get(arrived).unwrap() < u64::from(ra.size()) {
        ra.pause(50).unwrap();
    }
}

/// Locks of all kinds, of one and of several targets, keep readers from torn pairs and lose no increment.
fn excludes<W: WindowLock>(params: W::Params) {
    const ROUNDS: u32 = 600;
    let world = World::threads(4).run(|ra| {
        let pairs = Pairs::alloc(ra);
        let arrived = Rank(0).at(ra.heap().alloc(WORD, 128).unwrap());
        let mut locks = WindowLocks::<W>::new(ra, params).unwrap();
        let mut increments = 0;
        for round in 0..ROUNDS {
            let (low, high) = (Rank(round % 2), Rank(2 + round % 2));
            match (round + ra.rank().0) % 5 {
                0 | 1 => {
                    locks.lock(ra, EXCLUSIVE, low, Assert::None).unwrap();
                    pairs.increment(ra, low, round);
                    locks.unlock(ra, low).unwrap();
                    increments += 1;
                }
                2 => {
                    locks.lock(ra, SHARED, low, Assert::None).unwrap();
                    let before = pairs.read(ra, low);
                    assert_eq!(pairs.read(ra, low), before);
                    locks.unlock(ra, low).unwrap();
                }
                3 => {
                    // Exclusive first, which every policy can do.
                    locks.lock(ra, EXCLUSIVE, low, Assert::None).unwrap();
                    locks.lock(ra, EXCLUSIVE, high, Assert::None).unwrap();
                    pairs.increment(ra, high, round);
                    locks.unlock(ra, high).unwrap();
                    locks.lock(ra, SHARED, high, Assert::None).unwrap();
                    pairs.increment(ra, low, round);
                    pairs.read(ra, high);
                    locks.unlock(ra, low).unwrap();
                    pairs.read(ra, high);
                    locks.unlock(ra, high).unwrap();
                    increments += 2;
                }
                _ => {
                    locks.lock_all(ra, Assert::None).unwrap();
                    let before = [0, 1, 2, 3].map(|target| pairs.read(ra, Rank(target)));
                    assert_eq!([0, 1, 2, 3].map(|target| pairs.read(ra, Rank(target))), before);
                    locks.unlock_all(ra).unwrap();
                }
            }
        }
        assert!(locks.is_idle());
        meet(ra, arrived);
        let total: u64 = (0..4).map(|target| pairs.read(ra, Rank(target))).sum();
        (increments, total)
    });
    let results = world.unwrap();
    let increments: u64 = results.iter().map(|&(increments, _)| increments).sum();
    assert!(results.iter().all(|&(_, total)| total == increments), "{results:?}");
}

#[test]
fn two_level_excludes() {
    excludes::<TwoLevel>(Default::default());
}

#[test]
fn two_level_that_retracts_excludes() {
    excludes::<TwoLevel>(TwoLevelParams { contended: Contended::Retract, master: Rank(3), ..Default::default() });
}

#[test]
fn two_level_scan_excludes() {
    excludes::<TwoLevelScan>(TwoLevelScanParams { master: Rank(3), ..Default::default() });
}

#[test]
fn robust_two_level_excludes() {
    excludes::<RobustTwoLevel>(RobustTwoLevelParams { master: Rank(3), ..Default::default() });
}

#[test]
fn global_excludes() {
    excludes::<Global<TasRw>>(GlobalParams { home: Rank(1), lock: Default::default() });
}

#[test]
fn per_target_excludes() {
    excludes::<PerTarget<TasRw>>(Default::default());
}

/// Leaves of all ranks, of two and of one; trees of one level and of two.
#[test]
fn hierarchical_excludes() {
    for (leaf, fan_out) in [(0, 64), (2, 64), (1, 2), (3, 2)] {
        excludes::<Hierarchical>(HierarchicalParams { root: Rank(leaf), leaf, fan_out });
    }
}

#[test]
fn robust_hierarchical_excludes() {
    for (leaf, fan_out) in [(0, 64), (2, 64), (1, 2), (3, 2)] {
        let params = RobustHierarchicalParams { root: Rank(leaf), leaf, fan_out, ..Default::default() };
        excludes::<RobustHierarchical>(params);
    }
}

/// With queue nodes, of which a rank needs one for each target. The last one has readers that exclude each other.
#[test]
fn compositions_of_queues_exclude() {
    excludes::<Global<McsRwRp>>(Default::default());
    excludes::<Global<McsRwWp>>(Default::default());
    excludes::<Global<McsRwNeutral>>(Default::default());
    excludes::<Global<Exclusive<Mcs>>>(Default::default());
    excludes::<PerTarget<McsRwRp>>(());
    excludes::<PerTarget<McsRwWp>>(());
    excludes::<PerTarget<McsRwNeutral>>(());
    excludes::<PerTarget<ShiftLock>>(ShiftLockParams::default());
    excludes::<PerTarget<Exclusive<Mcs>>>(());
}

#[test]
fn policies_by_name_exclude() {
    for &kind in PolicyKind::ALL {
        if kind != PolicyKind::NoCheck {
            excludes::<Policy>(kind);
        }
    }
}

/// A policy's memory is zero at rest, except for open gates of hierarchical locks, numbers of tickets and of changes, and a bias. All of it
/// can be given back, zeroed.
#[test]
fn allocations_are_all_that_a_policy_takes() {
    for &kind in PolicyKind::ALL {
        let keeps = [
            PolicyKind::Hierarchical,
            PolicyKind::DecLock,
            PolicyKind::DslrWide,
            PolicyKind::ShiftLock,
            PolicyKind::Bravo,
            PolicyKind::Hapax,
            PolicyKind::Clh,
            PolicyKind::ALock,
            PolicyKind::RobustTicket,
            PolicyKind::RobustMcs,
            PolicyKind::RobustTwoLevel,
            PolicyKind::RobustHierarchical,
        ];
        let rests_at_zero = !keeps.contains(&kind);
        let world = World::threads(3).run(|ra| {
            let collectives = Collectives::new(ra).unwrap();
            let before = ra.heap().free_bytes();
            for round in 0..500 {
                let mut locks = WindowLocks::<Policy>::new(ra, kind).unwrap();
                for lock in [EXCLUSIVE, SHARED] {
                    let target = Rank(round % 3);
                    locks.lock(ra, lock, target, Assert::None).unwrap();
                    locks.unlock(ra, target).unwrap();
                }
                locks.lock_all(ra, Assert::None).unwrap();
                locks.unlock_all(ra).unwrap();
                let allocations = locks.allocations();
                assert_eq!(before == ra.heap().free_bytes(), allocations.is_empty());
                if round.is_multiple_of(100) && rests_at_zero {
                    ra.flush_all().unwrap();
                    collectives.barrier().unwrap();
                    for &disp in &allocations {
                        for word in 0..ra.heap().len_of(disp).unwrap() / WORD {
                            assert_eq!(ra.get(ra.rank().at(disp.word(word))).unwrap(), 0, "{kind}: {disp}, {word}");
                        }
                    }
                }
                for disp in allocations {
                    collectives.free(disp).unwrap();
                }
                assert_eq!(ra.heap().free_bytes(), before, "{kind}: round {round}");
            }
        });
        world.unwrap();
    }
}

/// Shared locks and lock_all of different ranks are held together.
fn shares<W: WindowLock>(params: W::Params) {
    let world = World::threads(3).run(|ra| {
        let arrived = Rank(0).at(ra.heap().alloc(WORD, 128).unwrap());
        let mut locks = WindowLocks::<W>::new(ra, params).unwrap();
        if ra.rank() == Rank(0) {
            locks.lock_all(ra, Assert::None).unwrap();
        } else {
            locks.lock(ra, SHARED, Rank(2), Assert::None).unwrap();
            locks.lock(ra, SHARED, Rank(0), Assert::None).unwrap();
        }
        // All ranks are inside, or this never ends.
        meet(ra, arrived);
    });
    world.unwrap();
}

#[test]
fn shared_locks_are_shared() {
    shares::<TwoLevel>(Default::default());
    shares::<TwoLevelScan>(Default::default());
    shares::<RobustTwoLevel>(Default::default());
    shares::<Global<TasRw>>(Default::default());
    shares::<PerTarget<TasRw>>(Default::default());
    shares::<PerTarget<ShiftLock>>(Default::default());
    shares::<Hierarchical>(Default::default());
    shares::<RobustHierarchical>(Default::default());
    shares::<NoCheck>(());
}

/// The rules of [`WindowLocks`] hold for every policy.
fn keeps_the_rules<W: WindowLock>(params: W::Params) {
    let world = World::threads(2).run(|ra| {
        let mut locks = WindowLocks::<W>::new(ra, params).unwrap();
        if ra.rank() != Rank(1) {
            return;
        }
        let text = |result: Result<()>| result.unwrap_err().to_string();

        let result = locks.unlock(ra, Rank(0));
        assert!(matches!(result, Err(Error::NotLocked { rank: Rank(1), target: Rank(0) })), "{result:?}");
        let result = locks.unlock_all(ra);
        assert!(matches!(result, Err(Error::NotLockedAll { rank: Rank(1) })), "{result:?}");
        for result in [locks.lock(ra, SHARED, Rank(2), Assert::NoCheck), locks.unlock(ra, Rank(2))] {
            assert!(matches!(result, Err(Error::NoSuchTarget { target: Rank(2), size: 2, .. })), "{result:?}");
        }

        locks.lock(ra, EXCLUSIVE, Rank(0), Assert::None).unwrap();
        locks.lock(ra, SHARED, Rank(1), Assert::NoCheck).unwrap();
        assert_eq!((locks.held(Rank(0)), locks.held(Rank(1))), (Some(EXCLUSIVE), Some(SHARED)));
        assert_eq!(
            text(locks.lock(ra, SHARED, Rank(0), Assert::None)),
            "rank 1: lock of rank 0, which it has locked already (exclusive); unlock it first"
        );
        assert_eq!(
            text(locks.lock_all(ra, Assert::None)),
            "rank 1: lock_all while it holds rank 0 (exclusive), rank 1 (shared); unlock first"
        );
        locks.unlock(ra, Rank(0)).unwrap();
        locks.unlock(ra, Rank(1)).unwrap();
        assert!(locks.is_idle());

        locks.lock_all(ra, Assert::None).unwrap();
        assert_eq!(locks.held(Rank(0)), Some(SHARED));
        assert_eq!(locks.held(Rank(2)), None);
        let result = locks.lock(ra, SHARED, Rank(0), Assert::NoCheck);
        assert!(matches!(result, Err(Error::AlreadyLocked { held: "lock_all", .. })), "{result:?}");
        assert_eq!(
            text(locks.lock_all(ra, Assert::NoCheck)),
            "rank 1: lock_all while it holds a lock_all; unlock first"
        );
        let result = locks.unlock(ra, Rank(0));
        assert!(matches!(result, Err(Error::NotLocked { .. })), "{result:?}");
        locks.unlock_all(ra).unwrap();
        assert!(locks.is_idle());
    });
    world.unwrap();
}

#[test]
fn the_rules_are_kept() {
    keeps_the_rules::<TwoLevel>(Default::default());
    keeps_the_rules::<TwoLevelScan>(Default::default());
    keeps_the_rules::<RobustTwoLevel>(Default::default());
    keeps_the_rules::<Global<TasRw>>(Default::default());
    keeps_the_rules::<PerTarget<TasRw>>(Default::default());
    keeps_the_rules::<Hierarchical>(Default::default());
    keeps_the_rules::<RobustHierarchical>(Default::default());
    keeps_the_rules::<NoCheck>(());
}

/// The rules also hold for locks that other code acquires and releases, of which the policy learns nothing.
#[test]
fn locks_by_other_code_keep_the_rules() {
    let world = World::threads(2).run(|ra| {
        let mut locks = WindowLocks::<TwoLevel>::new(ra, TwoLevelParams::default()).unwrap();
        let (first, second, mut calls) = (Rank(0), Rank(1), 0);
        assert!(matches!(locks.consistent(ra), Err(Error::NothingToDeclare { .. })));
        let mut acquire = || {
            calls += 1;
            if calls % 2 == 1 { Ok(()) } else { Err(Error::NotLockedAll { rank: ra.rank() }) }
        };
        locks.lock_by(EXCLUSIVE, second, Assert::NoCheck, &mut acquire).unwrap();
        assert!(locks.lock_by(SHARED, first, Assert::None, &mut acquire).is_err());
        assert_eq!(locks.lock_of(second), Some((EXCLUSIVE, Assert::NoCheck)));
        assert_eq!((locks.lock_of(first), locks.last_target()), (None, Some(second)));
        locks.unlocked(second).unwrap();
        assert!(matches!(locks.unlocked(second), Err(Error::NotLocked { .. })));
        assert_eq!((locks.last_target(), locks.lock_of_all(), locks.holds_all()), (None, None, false));
        locks.lock_all_by(Assert::NoCheck, &mut acquire).unwrap();
        assert_eq!((locks.lock_of_all(), locks.holds_all()), (Some(Assert::NoCheck), true));
        locks.unlocked_all().unwrap();
        assert!(matches!(locks.unlocked_all(), Err(Error::NotLockedAll { .. })));
        assert!(locks.lock_all_by(Assert::None, &mut acquire).is_err());
        assert!(locks.is_idle());
        assert_eq!(calls, 4);
    });
    world.unwrap();
}

/// NOCHECK skips the acquisition and the matching release, and nothing else.
fn nocheck_skips<W: WindowLock>(params: W::Params) {
    let world = World::threads(2).run(|ra| {
        let turn = Rank(0).at(ra.heap().alloc(WORD, 128).unwrap());
        let mut locks = WindowLocks::<W>::new(ra, params).unwrap();
        let await_turn = |number| {
            while ra.get(turn).unwrap() != number {
                ra.pause(10).unwrap();
            }
        };
        if ra.rank() == Rank(0) {
            locks.lock(ra, EXCLUSIVE, Rank(0), Assert::None).unwrap();
            ra.fetch_add(turn, 1).unwrap();
            await_turn(2);
            // Still held: rank 1 has not released what it did not acquire.
            locks.unlock(ra, Rank(0)).unwrap();
            ra.fetch_add(turn, 1).unwrap();
        } else {
            await_turn(1);
            // These would wait without the assertion that no check is needed.
            locks.lock(ra, EXCLUSIVE, Rank(0), Assert::NoCheck).unwrap();
            locks.unlock(ra, Rank(0)).unwrap();
            locks.lock_all(ra, Assert::NoCheck).unwrap();
            locks.unlock_all(ra).unwrap();
            ra.fetch_add(turn, 1).unwrap();
            await_turn(3);
            // The words are intact, so each kind of lock can be acquired again.
            locks.lock_all(ra, Assert::None).unwrap();
            locks.unlock_all(ra).unwrap();
            locks.lock(ra, EXCLUSIVE, Rank(0), Assert::None).unwrap();
            locks.unlock(ra, Rank(0)).unwrap();
        }
    });
    world.unwrap();
}

#[test]
fn nocheck_skips_acquisition_and_release() {
    nocheck_skips::<TwoLevel>(Default::default());
    nocheck_skips::<TwoLevelScan>(Default::default());
    nocheck_skips::<RobustTwoLevel>(Default::default());
    nocheck_skips::<Global<TasRw>>(Default::default());
    nocheck_skips::<PerTarget<TasRw>>(Default::default());
    nocheck_skips::<Hierarchical>(Default::default());
    nocheck_skips::<RobustHierarchical>(Default::default());
}

/// Attempts fail while a conflicting lock is held, leave nothing behind, and succeed afterwards.
fn can_be_tried<W: WindowLockTimed>(params: W::Params) {
    let world = World::threads(3).run(|ra| {
        let turn = Rank(0).at(ra.heap().alloc(WORD, 128).unwrap());
        let mut locks = WindowLocks::<W>::new(ra, params).unwrap();
        let await_turn = |number| {
            while ra.get(turn).unwrap() != number {
                ra.pause(10).unwrap();
            }
        };
        match ra.rank() {
            Rank(0) => {
                assert!(locks.try_lock(ra, EXCLUSIVE, Rank(2)).unwrap());
                ra.fetch_add(turn, 1).unwrap();
                await_turn(2);
                locks.unlock(ra, Rank(2)).unwrap();
                ra.fetch_add(turn, 1).unwrap();
            }
            Rank(1) => {
                await_turn(1);
                assert!(!locks.try_lock(ra, SHARED, Rank(2)).unwrap());
                assert!(!locks.try_lock(ra, EXCLUSIVE, Rank(2)).unwrap());
                assert!(!locks.try_lock_all(ra).unwrap());
                let now = ra.now();
                assert!(!locks.lock_until(ra, SHARED, Rank(2), now).unwrap());
                assert!(!locks.lock_until(ra, EXCLUSIVE, Rank(2), now).unwrap());
                assert!(!locks.lock_all_until(ra, now).unwrap());
                assert!(locks.is_idle());
                ra.fetch_add(turn, 1).unwrap();
                await_turn(3);
                for kind in [SHARED, EXCLUSIVE] {
                    assert!(locks.try_lock(ra, kind, Rank(2)).unwrap());
                    locks.unlock(ra, Rank(2)).unwrap();
                    assert!(locks.lock_until(ra, kind, Rank(2), now).unwrap());
                    locks.unlock(ra, Rank(2)).unwrap();
                }
                assert!(locks.try_lock_all(ra).unwrap());
                assert!(matches!(locks.try_lock(ra, SHARED, Rank(2)), Err(Error::AlreadyLocked { .. })));
                locks.unlock_all(ra).unwrap();
                assert!(locks.lock_all_until(ra, now).unwrap());
                locks.unlock_all(ra).unwrap();
            }
            _ => {}
        }
    });
    world.unwrap();
}

#[test]
fn attempts_and_limits() {
    can_be_tried::<TwoLevel>(Default::default());
    can_be_tried::<TwoLevel>(TwoLevelParams { contended: Contended::Retract, ..Default::default() });
    can_be_tried::<Global<TasRw>>(Default::default());
    can_be_tried::<PerTarget<TasRw>>(Default::default());
}

#[test]
fn window_guards_unlock() {
    let world = World::threads(3).run(|ra| {
        let pairs = Pairs::alloc(ra);
        let mut locks = WindowLocks::<TwoLevel>::new(ra, Default::default()).unwrap();
        for round in 0..300 {
            let guard = locks.lock_guard(ra, EXCLUSIVE, Rank(0), Assert::None).unwrap();
            pairs.increment(ra, Rank(0), round);
            if round.is_multiple_of(2) {
                guard.unlock().unwrap();
            }
        }
        let guard = locks.lock_all_guard(ra, Assert::None).unwrap();
        let last = pairs.read(ra, Rank(0));
        guard.unlock_all().unwrap();
        drop(locks.lock_all_guard(ra, Assert::None).unwrap());
        assert!(locks.is_idle());
        last
    });
    assert_eq!(world.unwrap().into_iter().max(), Some(900));
}

/// One lock cannot be upgraded; the refusal names the targets and changes nothing.
#[test]
fn global_refuses_an_upgrade() {
    let world = World::threads(3).run(|ra| {
        let mut locks = WindowLocks::<Global<TasRw>>::new(ra, Default::default()).unwrap();
        if ra.rank() != Rank(2) {
            return;
        }
        locks.lock(ra, SHARED, Rank(0), Assert::None).unwrap();
        locks.lock(ra, SHARED, Rank(2), Assert::None).unwrap();
        let error = locks.lock(ra, EXCLUSIVE, Rank(1), Assert::None).unwrap_err();
        assert!(matches!(error, Error::Upgrade { rank: Rank(2), target: Rank(1), policy: "global", .. }), "{error:?}");
        assert!(
            error
                .to_string()
                .starts_with("rank 2: exclusive lock of rank 1 while it holds rank 0, rank 2 in shared mode"),
            "{error}"
        );
        assert_eq!(locks.held(Rank(1)), None);
        locks.unlock(ra, Rank(0)).unwrap();
        locks.unlock(ra, Rank(2)).unwrap();
        locks.lock(ra, EXCLUSIVE, Rank(1), Assert::None).unwrap();
        locks.unlock(ra, Rank(1)).unwrap();
    });
    world.unwrap();
}

#[test]
fn per_target_needs_room_in_proportion_to_the_ranks() {
    let used = |ranks: u32| {
        let free = World::threads(ranks).run(|ra| {
            let before = ra.heap().free_bytes();
            PerTarget::<McsRwRp>::new(ra, ()).unwrap();
            before - ra.heap().free_bytes()
        });
        free.unwrap()[0]
    };
    assert_eq!(used(9) - used(1), 8 * 128);
}

/// Remote operations of acquire and release, uncontended, with every word on another rank: foMPI's costs.
fn costs_what_the_paper_says<W: WindowLock>(params: W::Params) {
    let world = World::threads(4).run(|ra| {
        let mut locks = WindowLocks::<W>::new(ra, params).unwrap();
        if ra.rank() != Rank(0) {
            return;
        }
        let ra = Counted::new(ra);
        let cost = || ra.take().remote_operations();
        for recoverable in [false, true] {
            let lock = |locks: &mut WindowLocks<W>, kind, target| {
                if recoverable {
                    assert_eq!(locks.recoverable_lock(&ra, kind, target).unwrap(), Entry::Clean);
                } else {
                    locks.lock(&ra, kind, target, Assert::None).unwrap();
                }
            };
            lock(&mut locks, SHARED, Rank(2));
            assert_eq!(cost(), 1, "shared");
            locks.unlock(&ra, Rank(2)).unwrap();
            assert_eq!(cost(), 1, "unlock shared");
            if recoverable {
                assert_eq!(locks.recoverable_lock_all(&ra).unwrap(), Entry::Clean);
            } else {
                locks.lock_all(&ra, Assert::None).unwrap();
            }
            assert_eq!(cost(), 1, "lock_all");
            locks.unlock_all(&ra).unwrap();
            assert_eq!(cost(), 1, "unlock_all");
            lock(&mut locks, EXCLUSIVE, Rank(2));
            assert_eq!(cost(), 2, "first exclusive");
            lock(&mut locks, EXCLUSIVE, Rank(3));
            assert_eq!(cost(), 1, "second exclusive");
            locks.unlock(&ra, Rank(2)).unwrap();
            assert_eq!(cost(), 1, "unlock the first of two");
            locks.unlock(&ra, Rank(3)).unwrap();
            assert_eq!(cost(), 2, "unlock the last");
        }
        locks.lock(&ra, EXCLUSIVE, Rank(2), Assert::NoCheck).unwrap();
        locks.unlock(&ra, Rank(2)).unwrap();
        locks.lock_all(&ra, Assert::NoCheck).unwrap();
        locks.unlock_all(&ra).unwrap();
        assert_eq!(cost(), 0, "with NOCHECK");
    });
    world.unwrap();
}

#[test]
fn two_level_costs_what_the_paper_says() {
    costs_what_the_paper_says::<TwoLevel>(TwoLevelParams { master: Rank(1), ..Default::default() });
}

/// The first attempt counts this rank by one addition, at any value of the master. A retry compares.
#[test]
fn two_level_costs_the_same_beside_exclusive_locks_of_other_targets() {
    let world = World::threads(3).run(|ra| {
        let params = TwoLevelParams { master: Rank(1), ..Default::default() };
        let mut locks = WindowLocks::<TwoLevel>::new(ra, params).unwrap();
        let flag = ra.heap().alloc(8, 8).unwrap();
        match ra.rank() {
            Rank(0) => {
                ra.wait_until(flag, Until::Ne(0)).unwrap();
                let counted = Counted::new(ra);
                locks.lock(&counted, EXCLUSIVE, Rank(1), Assert::None).unwrap();
                assert_eq!(counted.take().remote_operations(), 2);
                locks.unlock(ra, Rank(1)).unwrap();
                ra.put(Rank(2).at(flag), 1).unwrap();
            }
            Rank(2) => {
                locks.lock(ra, EXCLUSIVE, Rank(2), Assert::None).unwrap();
                ra.put(Rank(0).at(flag), 1).unwrap();
                ra.wait_until(flag, Until::Ne(0)).unwrap();
                locks.unlock(ra, Rank(2)).unwrap();
            }
            _ => {}
        }
    });
    world.unwrap();
}

/// Of four ranks. All words are remote but those of rank 0, which is a target.
#[test]
fn two_level_scan_costs_what_its_text_says() {
    let world = World::threads(4).run(|ra| {
        let params = TwoLevelScanParams { master: Rank(1), ..Default::default() };
        let mut locks = WindowLocks::<TwoLevelScan>::new(ra, params).unwrap();
        if ra.rank() != Rank(0) {
            return;
        }
        let ra = Counted::new(ra);
        // Atomic operations and gets.
        let cost = || {
            let counts = ra.take();
            (counts.remote_operations() - counts.get.others(), counts.get.others())
        };
        for (kind, gets) in [(SHARED, 0), (EXCLUSIVE, 1)] {
            locks.lock(&ra, kind, Rank(2), Assert::None).unwrap();
            assert_eq!(cost(), (1, gets), "{kind:?}");
            locks.unlock(&ra, Rank(2)).unwrap();
            assert_eq!(cost(), (1, 0), "{kind:?}");
        }
        for (target, atomics, gets) in [(1, 1, 1), (2, 2, 0), (3, 1, 0)] {
            locks.lock(&ra, EXCLUSIVE, Rank(target), Assert::None).unwrap();
            assert_eq!(cost(), (atomics, gets), "target {target}");
        }
        for (target, atomics) in [(1, 1), (2, 1), (3, 2)] {
            locks.unlock(&ra, Rank(target)).unwrap();
            assert_eq!(cost(), (atomics, 0), "target {target}");
        }
        locks.lock_all(&ra, Assert::None).unwrap();
        assert_eq!(cost(), (1, 3 + 1), "and one get of its own target");
        locks.unlock_all(&ra).unwrap();
        assert_eq!(cost(), (1, 0));
    });
    world.unwrap();
}

#[test]
fn robust_two_level_costs_what_two_level_costs() {
    costs_what_the_paper_says::<RobustTwoLevel>(RobustTwoLevelParams { master: Rank(1), ..Default::default() });
}

/// A rank acquires a global lock for its first target only. A per-target lock_all is one acquisition for each rank.
#[test]
fn compositions_cost_what_they_are_made_of() {
    let world = World::threads(4).run(|ra| {
        let mut global =
            WindowLocks::<Global<TasRw>>::new(ra, GlobalParams { home: Rank(1), lock: Default::default() }).unwrap();
        let mut each = WindowLocks::<PerTarget<TasRw>>::new(ra, Default::default()).unwrap();
        if ra.rank() != Rank(0) {
            return;
        }
        let ra = Counted::new(ra);
        for target in 1..4 {
            global.lock(&ra, SHARED, Rank(target), Assert::None).unwrap();
        }
        for target in 1..4 {
            global.unlock(&ra, Rank(target)).unwrap();
        }
        assert_eq!(ra.take().remote_operations(), 2, "global, three targets");
        each.lock_all(&ra, Assert::None).unwrap();
        each.unlock_all(&ra).unwrap();
        let counts = ra.take();
        assert_eq!((counts.remote_operations(), counts.own_operations()), (6, 2), "per-target lock_all");
    });
    world.unwrap();
}
