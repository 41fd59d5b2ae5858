//! The calls that epoch values allow, and the end of epochs: batches, fences without operations, panics, flushes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::{self, Made, threads};
use rmalab_atomics::{Counted, Mapped, Rank, RemoteAtomics, Topology, World};
use rmalab_locks::NoCheck;
use rmalab_windows::{
    Assert, Call, Class, Config, Error, FenceAssert, LockKind, Op, Open, PolicyKind, PscwStrategy, Target, Team,
    Transport, Window, WindowDisp,
};

const FIRST: WindowDisp = WindowDisp(0);

fn transports() -> [Config; 2] {
    [Transport::OneSided, Transport::TwoSided].map(|transport| Config { transport, ..Config::default() })
}

/// A target of another team has the same type, but other rank numbers.
#[test]
fn a_batch_refuses_targets_of_other_windows() {
    World::threads(4)
        .run(|ra| {
            let world = Team::new(ra).unwrap();
            // Ranks 1 and 2 are ranks 0 and 1 of the inner team.
            let outer = world.subset(&[Rank(0), Rank(1), Rank(2), Rank(3)]).unwrap().unwrap();
            let inner = world.subset(&[Rank(1), Rank(2)]).unwrap();
            let outer_team = Team::new(&outer).unwrap();
            let outer_window = Window::allocate(&outer_team, 64).unwrap();
            world.barrier().unwrap();
            if let Some(inner) = &inner {
                let inner_team = Team::new(inner).unwrap();
                let inner_window = Window::allocate(&inner_team, 64).unwrap();
                let there = inner_window.lock(LockKind::Shared, Rank(1)).unwrap();
                let here = outer_window.lock(LockKind::Shared, Rank(1)).unwrap();
                let source = [7_u64];
                let mut dest = [0_u64];
                let error = here.batch(|batch| batch.put(&there, FIRST, &source)).unwrap_err();
                assert!(matches!(error, Error::OtherWindow { call: Call::Put, target: Rank(1), .. }), "{error}");
                assert_eq!(error.class(), Class::RmaSync);
                let error = here.batch(|batch| batch.get(&there, FIRST, &mut dest)).unwrap_err();
                assert!(matches!(error, Error::OtherWindow { call: Call::Get, .. }), "{error}");
                here.batch(|batch| batch.put(&here, FIRST, &source)).unwrap();
                there.unlock().unwrap();
                here.unlock().unwrap();
                inner_window.free().unwrap();
            }
            world.barrier().unwrap();
            let seen: u64 = outer_window.local().unwrap().load(FIRST).unwrap();
            assert_eq!(seen, if ra.rank() == Rank(1) { 7 } else { 0 }, "{}", ra.rank());
            outer_window.free().unwrap();
        })
        .unwrap();
}

/// A fence with NOSUCCEED opens no epoch, so its value reaches no target.
#[test]
fn a_fence_that_nothing_succeeds_has_no_targets() {
    threads(2, |team| {
        for config in transports() {
            let mut window = Window::builder(team).config(config).allocate(8).unwrap();
            let last = FenceAssert { nosucceed: true, ..FenceAssert::default() };
            let refused = |error: Error| {
                assert!(matches!(error, Error::NoEpoch { call: Call::Fence, .. }), "{error}");
                assert_eq!(error.class(), Class::RmaSync);
            };
            refused(window.fence_assert(last).unwrap().at(Rank(0)).unwrap_err());
            let epoch = window.fence().unwrap().next_assert(last).unwrap();
            refused(epoch.at(None).unwrap_err());
            // The next fence opens an epoch again.
            let epoch = epoch.next().unwrap();
            epoch.at(Rank(1)).unwrap().put_value(FIRST, 5_u64).unwrap();
            epoch.close().unwrap();
            if team.rank() == Rank(1) {
                assert_eq!(window.local().unwrap().load::<u64>(FIRST).unwrap(), 5);
            }
            window.free().unwrap();
        }
    });
}

/// A fence opens an epoch only if operations follow it.
#[test]
fn a_fence_without_operations_opens_no_epoch() {
    threads(2, |team| {
        let right = Rank(1 - team.rank().0);
        for config in transports() {
            let mut window = Window::builder(team).config(config).allocate(8).unwrap();
            for round in 1..=3_u64 {
                drop(window.fence().unwrap());
                let epoch = window.lock(LockKind::Exclusive, right).unwrap();
                epoch.put_value(FIRST, round).unwrap();
                epoch.unlock().unwrap();
                drop(window.fence().unwrap());
                let epoch = window.lock_all().unwrap();
                assert_eq!(epoch.at(right).unwrap().get_value::<u64>(FIRST).unwrap(), round);
                epoch.unlock_all().unwrap();
                drop(window.fence().unwrap());
                let (mut access, mut exposure) = window.pscw().unwrap();
                let exposed = exposure.post(&[right]).unwrap();
                let epoch = access.start(&[right]).unwrap();
                epoch.at(right).unwrap().put_value(FIRST, 100 + round).unwrap();
                epoch.complete().unwrap();
                exposed.wait().unwrap();
                // Ranks need not agree whether they have operations.
                let epoch = window.fence().unwrap();
                if team.rank() == Rank(0) {
                    epoch.at(right).unwrap().put_value(FIRST, 200 + round).unwrap();
                }
                drop(epoch);
                if team.rank() == Rank(0) {
                    let error = window.lock(LockKind::Shared, right).unwrap_err();
                    assert!(matches!(error, Error::Conflict { open: Open::Fence, .. }), "{error}");
                }
                drop(window.fence().unwrap());
                let expected = if team.rank() == Rank(0) { 100 + round } else { 200 + round };
                assert_eq!(window.local().unwrap().load::<u64>(FIRST).unwrap(), expected);
            }
            // The last fence of a program does not leave an epoch open either.
            window.free().unwrap();
        }
    });
}

fn strategies() -> Vec<Config> {
    let one_sided = [PscwStrategy::Flags, PscwStrategy::Matching];
    let mut all: Vec<_> = one_sided.iter().map(|&pscw| Config { pscw, ..Config::default() }).collect();
    all.push(Config { transport: Transport::TwoSided, ..Config::default() });
    all
}

/// A rank that catches its own panic continues with the window, and its peers do not wait.
#[test]
fn a_caught_panic_ends_access_epochs() {
    support::watched(|| {
        threads(2, |team| {
            for config in strategies() {
                let mut window = Window::builder(team).config(config).allocate(8).unwrap();
                for round in 1..=3_u64 {
                    if team.rank() == Rank(0) {
                        let caught = catch_unwind(AssertUnwindSafe(|| {
                            let (mut access, _) = window.pscw().unwrap();
                            let epoch = access.start(&[Rank(1)]).unwrap();
                            epoch.at(Rank(1)).unwrap().put_value(FIRST, round).unwrap();
                            panic!("caught");
                        }));
                        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"caught"));
                        _ = window.pscw().unwrap();
                    } else {
                        window.pscw().unwrap().1.post(&[Rank(0)]).unwrap().wait().unwrap();
                        assert_eq!(window.local().unwrap().load::<u64>(FIRST).unwrap(), round);
                    }
                    team.barrier().unwrap();
                    window.lock(LockKind::Exclusive, Rank(0)).unwrap().unlock().unwrap();
                }
                window.free().unwrap();
            }
        });
    });
}

/// The exposure of a rank that catches its panic ends with the rank's next call, which waits for the origins.
#[test]
fn a_caught_panic_ends_exposure_epochs() {
    support::watched(|| {
        threads(2, |team| {
            for config in strategies() {
                let mut window = Window::builder(team).config(config).allocate(8).unwrap();
                for round in 1..=4_u64 {
                    if team.rank() == Rank(0) {
                        let caught = catch_unwind(AssertUnwindSafe(|| {
                            let (_, mut exposure) = window.pscw().unwrap();
                            let _exposed = exposure.post(&[Rank(1)]).unwrap();
                            panic!("caught");
                        }));
                        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"caught"));
                        // The panic itself does not wait: here the origin still waits for this rank.
                        team.barrier().unwrap();
                        match round {
                            1 => _ = window.pscw().unwrap(),
                            2 => window.lock(LockKind::Shared, Rank(0)).unwrap().unlock().unwrap(),
                            3 => window.lock_all().unwrap().unlock_all().unwrap(),
                            _ => break,
                        }
                        assert_eq!(window.local().unwrap().load::<u64>(FIRST).unwrap(), round);
                    } else {
                        let (mut access, _) = window.pscw().unwrap();
                        let epoch = access.start(&[Rank(0)]).unwrap();
                        epoch.at(Rank(0)).unwrap().put_value(FIRST, round).unwrap();
                        team.barrier().unwrap();
                        epoch.complete().unwrap();
                    }
                }
                window.free().unwrap();
            }
        });
    });
}

/// A post that fails has opened no epoch.
#[test]
fn a_post_that_failed_leaves_nothing_open() {
    let kept = std::sync::atomic::AtomicU32::new(0);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        World::threads(3).run(|ra| {
            let team = Team::new(ra).unwrap();
            let config = Config { pscw: PscwStrategy::Matching, ..Config::default() };
            let mut window = Window::builder(&team).config(config).pscw_slots(1).allocate(8).unwrap();
            let (_, mut exposure) = window.pscw().unwrap();
            if ra.rank() == Rank(2) {
                panic!("rank 2 fails");
            }
            // One of the two takes rank 2's only slot, and the other waits until rank 2 has failed.
            while let Ok(exposed) = exposure.post(&[Rank(2)]) {
                assert!(exposed.wait().is_err());
            }
            drop(exposure.post(&[]).unwrap());
            kept.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        })
    }));
    assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"rank 2 fails"));
    assert_eq!(kept.into_inner(), 2);
}

/// The policy that locks nothing does not guarantee that its caller is alone, and neither does the assertion.
#[test]
fn a_policy_that_locks_nothing_leaves_accumulates_atomic() {
    World::threads(2)
        .run(|ra| {
            let ra = Counted::new(ra);
            let team = Team::new(&ra).unwrap();
            // Elements that no network atomic adds: a rank that is alone with the target reads, adds and writes them.
            let counts = |epoch: &Target<'_, Counted<'_, Mapped>>| {
                ra.reset();
                epoch.accumulate(FIRST, Op::Sum, &[1.5_f64; 8]).unwrap();
                ra.take()
            };
            let right = Rank(1 - team.rank().0);
            let exclusive = LockKind::Exclusive;
            let fixed = Window::builder(&team).policy::<NoCheck>(()).allocate(64).unwrap();
            let config = Config { policy: PolicyKind::NoCheck, ..Config::default() };
            let named = Window::builder(&team).config(config).allocate(64).unwrap();
            let locked = Window::allocate(&team, 64).unwrap();
            let alone = counts(&locked.lock(exclusive, right).unwrap());
            let asserted = counts(&locked.lock_assert(exclusive, right, Assert::NoCheck).unwrap());
            assert_ne!(alone, asserted);
            assert_eq!(counts(&named.lock(exclusive, right).unwrap()), asserted);
            assert_eq!(counts(&fixed.lock(exclusive, right).unwrap()), asserted);
            fixed.free().unwrap();
            named.free().unwrap();
            locked.free().unwrap();
        })
        .unwrap();
}

/// A target's memory may lie in the segment of another rank: then that rank is flushed.
#[test]
fn flushes_name_the_rank_that_has_the_memory() {
    World::threads(2)
        .topology(Topology::blocks(2, 2, 1).unwrap())
        .run(|ra| {
            let ra = Counted::new(ra);
            let team = Team::new(&ra).unwrap();
            let mut shared = Window::allocate_shared(&team, 64).unwrap();
            let mut dynamic = Window::create_dynamic(&team).unwrap();
            let at = dynamic.attach_window(&shared).unwrap();
            team.barrier().unwrap();
            // Rank 1's parts lie after rank 0's parts, in rank 0's segment.
            if team.rank() == Rank(1) {
                for (window, at) in [(&mut shared, FIRST), (&mut dynamic, at)] {
                    let flushes = || {
                        let counts = ra.take();
                        (counts.flush.node, counts.flush_all)
                    };
                    let epoch = window.lock(LockKind::Shared, Rank(1)).unwrap();
                    epoch.put(at, &[1_u8; 24]).unwrap();
                    flushes();
                    epoch.flush().unwrap();
                    assert_eq!(flushes(), (1, 0), "flush of a lock");
                    // A type that no network atomic adds.
                    epoch.accumulate(at.plus(1), Op::Sum, &[1.5_f64]).unwrap();
                    assert_eq!(flushes().0, 1, "accumulate under a lock");
                    epoch.put(at, &[1_u8; 24]).unwrap();
                    epoch.unlock().unwrap();
                    assert_eq!(flushes(), (1, 0), "unlock");
                    let epoch = window.lock_all().unwrap();
                    epoch.at(Rank(1)).unwrap().put(at, &[1_u8; 24]).unwrap();
                    flushes();
                    epoch.flush(Rank(1)).unwrap();
                    assert_eq!(flushes(), (1, 0), "flush of a lock_all");
                    epoch.unlock_all().unwrap();
                    let (mut access, mut exposure) = window.pscw().unwrap();
                    let exposed = exposure.post(&[Rank(1)]).unwrap();
                    let epoch = access.start(&[Rank(1)]).unwrap();
                    epoch.at(Rank(1)).unwrap().put(at, &[1_u8; 24]).unwrap();
                    flushes();
                    epoch.complete().unwrap();
                    assert_eq!(flushes(), (1, 0), "complete");
                    exposed.wait().unwrap();
                }
            }
            team.barrier().unwrap();
            dynamic.detach_window(at).unwrap();
            dynamic.free().unwrap();
            shared.free().unwrap();
        })
        .unwrap();
}

#[test]
fn a_flush_of_no_rank_is_an_error_of_its_class() {
    threads(2, |team| {
        for config in transports() {
            for made in [Made::Allocated, Made::Shared, Made::Dynamic] {
                let (mut window, _) = made.make(team, config, 8);
                let epoch = window.lock_all().unwrap();
                let error = epoch.flush(Rank(2)).unwrap_err();
                let refused = matches!(error, Error::NoSuchTarget { call: Call::Flush, target: Rank(2), size: 2 });
                assert!(refused, "{made:?}: {error}");
                assert_eq!(error.class(), Class::Rank);
                epoch.unlock_all().unwrap();
                window.free().unwrap();
            }
        }
    });
}

/// A rank's own memory can be used in every epoch.
#[test]
fn local_memory_is_reached_in_every_epoch() {
    threads(2, |team| {
        let me = team.rank();
        let right = Rank(1 - me.0);
        let second = WindowDisp(8);
        for config in transports() {
            let mut window = Window::builder(team).config(config).allocate(16).unwrap();
            let epoch = window.fence().unwrap();
            epoch.local().unwrap().store(second, 10_u64).unwrap();
            epoch.at(right).unwrap().put_value(FIRST, 1_u64).unwrap();
            let epoch = epoch.next().unwrap();
            assert_eq!(epoch.local().unwrap().load::<[u64; 2]>(FIRST).unwrap(), [1, 10]);
            epoch.close().unwrap();
            let (mut access, mut exposure) = window.pscw().unwrap();
            let exposed = exposure.post(&[right]).unwrap();
            exposed.local().unwrap().store(second, 20_u64).unwrap();
            let epoch = access.start(&[right]).unwrap();
            assert_eq!(epoch.local().unwrap().load::<u64>(second).unwrap(), 20);
            epoch.complete().unwrap();
            exposed.wait().unwrap();
            let epoch = window.lock(LockKind::Exclusive, me).unwrap();
            window.local().unwrap().store(second, 30_u64).unwrap();
            epoch.unlock().unwrap();
            let epoch = window.lock_all().unwrap();
            assert_eq!(epoch.window().local().unwrap().load::<u64>(second).unwrap(), 30);
            epoch.unlock_all().unwrap();
            window.free().unwrap();
        }
    });
}

/// A rank that holds a mutex reaches a barrier; a rank that waits for the mutex does not.
#[test]
fn a_barrier_inside_a_mutex_is_refused() {
    support::watched(|| {
        threads(3, |team| {
            for policy in PolicyKind::ALL.iter().filter(|kind| kind.is_mutex()) {
                let config = Config { policy: *policy, ..Config::default() };
                let mut window = Window::builder(team).config(config).allocate(8).unwrap();
                let refused = |open| {
                    let error = team.barrier().unwrap_err();
                    assert!(matches!(error, Error::Mutex { open: inside, .. } if inside == open), "{error}");
                    assert_eq!(error.class(), Class::RmaConflict);
                };
                let epoch = window.lock_all().unwrap();
                refused(Open::LockAll);
                epoch.unlock_all().unwrap();
                let epoch = window.lock(LockKind::Shared, team.rank()).unwrap();
                refused(Open::Lock);
                epoch.unlock().unwrap();
                team.barrier().unwrap();
                window.free().unwrap();
            }
            // All other policies share their locks.
            for policy in PolicyKind::ALL.iter().filter(|kind| !kind.is_mutex()) {
                let config = Config { policy: *policy, ..Config::default() };
                let mut window = Window::builder(team).config(config).allocate(8).unwrap();
                let epoch = window.lock_all().unwrap();
                team.barrier().unwrap();
                epoch.unlock_all().unwrap();
                let epoch = window.lock(LockKind::Shared, team.rank()).unwrap();
                team.barrier().unwrap();
                epoch.unlock().unwrap();
                window.free().unwrap();
            }
        });
        // In a team of one rank there is no other rank to wait for.
        threads(1, |team| {
            let config = Config { policy: PolicyKind::Mcs, ..Config::default() };
            let mut window = Window::builder(team).config(config).allocate(8).unwrap();
            let epoch = window.lock_all().unwrap();
            team.barrier().unwrap();
            epoch.unlock_all().unwrap();
            window.free().unwrap();
        });
    });
}
