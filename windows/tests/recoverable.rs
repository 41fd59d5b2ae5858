//! Windows with a robust lock policy: the rank that locks after a holder's death gets `OwnerDead`, on threads and on killed processes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;

use rmalab_atomics::{Address, Error as AtomicsError, Mapped, Rank, RemoteAtomics, WORD, World, shm};
use rmalab_locks::{Entry, Error as LockError};
use rmalab_windows::{
    Acquired, Error, Inconsistent, Lock, LockAll, LockKind, PolicyKind, RawWindow, Result, Team, Window,
};

mod played;

use played::{EXCLUSIVE, HOME, LEFT, RIGHT, ROBUST, allocate, kill, play, repair};

/// Those with a lock for each target.
const BY_TARGET: [PolicyKind; 2] = [PolicyKind::RobustTwoLevel, PolicyKind::RobustHierarchical];
const DIED: &str = "a rank dies";

/// Counts this rank, and waits until `count` ranks are counted, even after failures.
fn meet<A: RemoteAtomics>(ra: &A, at: Address, count: u64) {
    ra.fetch_add(at, 1).unwrap();
    while ra.get(at).unwrap() < count {
        let failed = ra.failed().unwrap();
        ra.acknowledge(&failed).unwrap();
        let _ = ra.pause(64);
    }
}

fn die() -> ! {
    resume_unwind(Box::new(DIED))
}

/// Runs `body` on threads, where at least one rank ends by [`die`]. Panics if another rank panics.
fn with_deaths(policy: PolicyKind, ranks: u32, body: impl Fn(&Mapped) + Sync) {
    // The world ends with the first panic, which is that of the rank that dies.
    let others = Mutex::new(None);
    let world = || {
        World::threads(ranks).run(|ra| {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(ra))) {
                if panic.downcast_ref::<&str>() != Some(&DIED) {
                    others.lock().unwrap().get_or_insert(panic);
                }
                die();
            }
        })
    };
    let died = catch_unwind(AssertUnwindSafe(world)).expect_err("a rank dies");
    if let Some(panic) = others.into_inner().unwrap() {
        eprintln!("{policy}: a rank has panicked");
        resume_unwind(panic);
    }
    assert_eq!(died.downcast_ref::<&str>(), Some(&DIED), "{policy}");
}

/// Rank 1 of three locks [`HOME`], writes one of its two words, and dies. The others run `survive` when it holds the lock.
fn lose(policy: PolicyKind, survive: impl Fn(&Mapped, Window<'_, Mapped>, Address) + Sync) {
    with_deaths(policy, 3, |ra| {
        let arrived = Rank(0).at(ra.heap().alloc(WORD, WORD).unwrap());
        let team = Team::new(ra).unwrap();
        let window = allocate(&team, policy);
        if ra.rank() == Rank(1) {
            let Acquired::Clean(part) = window.recoverable_lock(EXCLUSIVE, HOME).unwrap() else {
                panic!("no rank has failed");
            };
            part.put_value(LEFT, 7_u64).unwrap();
            part.flush().unwrap();
            meet(ra, arrived, 3);
            die();
        }
        while ra.get(arrived).unwrap() == 0 {
            ra.pause(8).unwrap();
        }
        ra.fetch_add(arrived, 1).unwrap();
        survive(ra, window, arrived);
    });
}

fn is_not_recoverable<T: std::fmt::Debug>(result: &Result<T>) {
    assert!(matches!(result, Err(Error::Locks(LockError::NotRecoverable { .. }))), "{result:?}");
}

fn dead<'w, 'r>(acquired: Acquired<Lock<'w, 'r, Mapped>>) -> Inconsistent<Lock<'w, 'r, Mapped>> {
    match acquired {
        Acquired::OwnerDead(inconsistent) => inconsistent,
        Acquired::Clean(_) => panic!("not told"),
    }
}

#[test]
fn the_next_rank_is_told_and_the_later_ones_are_not() {
    for policy in ROBUST {
        for kind in [EXCLUSIVE, LockKind::Shared] {
            lose(policy, |ra, window, arrived| {
                let mut told = 0_u64;
                for round in 0..20 {
                    // A reader is alone when it gets `OwnerDead`.
                    let kind = if round == 0 { kind } else { EXCLUSIVE };
                    let part = match window.recoverable_lock(kind, HOME).unwrap() {
                        Acquired::Clean(part) => part,
                        Acquired::OwnerDead(inconsistent) => {
                            assert!(inconsistent.failed().contains(Rank(1)));
                            assert_eq!(repair(&inconsistent), (7, true), "{policy}");
                            told += 1;
                            inconsistent.consistent().unwrap()
                        }
                    };
                    let [left, right]: [u64; 2] = part.get_value(LEFT).unwrap();
                    assert_eq!(left, right, "{policy}: a rank that was not told found torn data");
                    if kind == EXCLUSIVE {
                        part.put_value(LEFT, left + 1).unwrap();
                        part.put_value(RIGHT, left + 1).unwrap();
                    }
                    part.unlock().unwrap();
                }
                // The number of ranks that got `OwnerDead`, in the bits above the count of arrivals: 3, then 2 more.
                ra.fetch_add(arrived, told << 32).unwrap();
                ra.fetch_add(arrived, 1).unwrap();
                while ra.get(arrived).unwrap() as u32 != 5 {
                    let _ = ra.pause(64);
                }
                assert_eq!(ra.get(arrived).unwrap() >> 32, 1, "{policy}: ranks that were told");
            });
        }
    }
}

#[test]
fn a_lock_all_is_told_too() {
    for policy in ROBUST {
        lose(policy, |ra, mut window, arrived| {
            if ra.rank() == HOME {
                meet(ra, arrived, 5);
                assert!(matches!(window.recoverable_lock_all(), Ok(Acquired::Clean(_))), "{policy}");
                return;
            }
            let all: LockAll<'_, '_, _> = match window.recoverable_lock_all().unwrap() {
                Acquired::Clean(_) => panic!("{policy}: not told"),
                Acquired::OwnerDead(inconsistent) => {
                    inconsistent.at(HOME).unwrap().put_value(RIGHT, 7_u64).unwrap();
                    inconsistent.consistent().unwrap()
                }
            };
            all.unlock_all().unwrap();
            ra.fetch_add(arrived, 1).unwrap();
        });
    }
}

#[test]
fn an_unlock_without_consistent_makes_the_lock_unusable() {
    for policy in ROBUST {
        lose(policy, |ra, window, arrived| {
            if ra.rank() == Rank(0) {
                drop(dead(window.recoverable_lock(EXCLUSIVE, HOME).unwrap()));
                is_not_recoverable(&window.recoverable_lock(EXCLUSIVE, HOME));
                ra.fetch_add(arrived, 1).unwrap();
            } else {
                meet(ra, arrived, 5);
            }
            // One lock of all targets, or one of each.
            let other = if BY_TARGET.contains(&policy) { HOME } else { Rank(0) };
            for kind in [EXCLUSIVE, LockKind::Shared] {
                is_not_recoverable(&window.recoverable_lock(kind, other));
            }
        });
    }
}

/// The locks of other targets go on, and lock_all does not.
#[test]
fn a_target_that_is_lost_is_one_of_several() {
    for policy in BY_TARGET {
        lose(policy, |ra, mut window, arrived| {
            if ra.rank() == Rank(0) {
                drop(dead(window.recoverable_lock(EXCLUSIVE, HOME).unwrap()));
                ra.fetch_add(arrived, 1).unwrap();
            } else {
                meet(ra, arrived, 5);
            }
            for _ in 0..20 {
                for kind in [EXCLUSIVE, LockKind::Shared] {
                    is_not_recoverable(&window.recoverable_lock(kind, HOME));
                    assert!(matches!(window.recoverable_lock(kind, Rank(0)), Ok(Acquired::Clean(_))));
                }
                is_not_recoverable(&window.recoverable_lock_all());
            }
        });
    }
}

/// If a holder has failed at one target, a rank that locks another target does not get `OwnerDead`, and does not wait.
#[test]
fn a_failure_at_a_target_is_not_told_at_another() {
    for policy in BY_TARGET {
        lose(policy, |ra, window, arrived| {
            if ra.rank() == Rank(0) {
                let inconsistent = dead(window.recoverable_lock(EXCLUSIVE, HOME).unwrap());
                ra.fetch_add(arrived, 1).unwrap();
                // Until the other rank has locked another target.
                meet(ra, arrived, 7);
                inconsistent.consistent().unwrap().unlock().unwrap();
            } else {
                meet(ra, arrived, 5);
                for kind in [EXCLUSIVE, LockKind::Shared] {
                    assert!(matches!(window.recoverable_lock(kind, Rank(0)), Ok(Acquired::Clean(_))));
                }
                ra.fetch_add(arrived, 1).unwrap();
            }
            assert!(matches!(window.recoverable_lock(LockKind::Shared, HOME), Ok(Acquired::Clean(_))));
        });
    }
}

#[test]
fn a_second_death_in_the_repair_is_told_to_the_third_rank() {
    for policy in ROBUST {
        lose(policy, |ra, window, arrived| {
            if ra.rank() == HOME {
                let inconsistent = dead(window.recoverable_lock(EXCLUSIVE, HOME).unwrap());
                inconsistent.put_value(LEFT, 8_u64).unwrap();
                inconsistent.flush().unwrap();
                meet(ra, arrived, 5);
                die();
            }
            meet(ra, arrived, 5);
            let inconsistent = dead(window.recoverable_lock(EXCLUSIVE, HOME).unwrap());
            assert!(inconsistent.failed().contains(HOME), "{policy}: {}", inconsistent.failed());
            assert_eq!(repair(&inconsistent), (8, true));
            inconsistent.consistent().unwrap().unlock().unwrap();
            assert!(matches!(window.recoverable_lock(EXCLUSIVE, HOME), Ok(Acquired::Clean(_))), "{policy}");
        });
    }
}

#[test]
fn other_policies_and_plain_locks_end_with_the_failure() {
    for policy in [PolicyKind::TwoLevel, PolicyKind::PerTarget, PolicyKind::Mcs, PolicyKind::RobustTas] {
        with_deaths(policy, 2, |ra| {
            let arrived = Rank(0).at(ra.heap().alloc(WORD, WORD).unwrap());
            let team = Team::new(ra).unwrap();
            let window = allocate(&team, policy).into_raw();
            if ra.rank() == Rank(1) {
                window.lock(EXCLUSIVE, Rank(0), rmalab_windows::Assert::None).unwrap();
                ra.fetch_add(arrived, 1).unwrap();
                // Like a killed process: nothing is unlocked.
                std::mem::forget(window);
                die();
            }
            // Unlike `meet`, it acknowledges no failure. After an acknowledgement, a plain lock would wait for the
            // failed rank.
            while ra.get(arrived).unwrap() == 0 {
                let _ = ra.pause(8);
            }
            let ended = if policy == PolicyKind::RobustTas {
                window.lock(EXCLUSIVE, Rank(0), rmalab_windows::Assert::None)
            } else {
                window.recoverable_lock(EXCLUSIVE, Rank(0)).map(drop)
            };
            let failed = |error: &AtomicsError| matches!(error, AtomicsError::PeerFailed { rank: Rank(1) });
            assert!(
                matches!(&ended, Err(Error::Locks(LockError::Atomics(error))) if failed(error)),
                "{policy}: {ended:?}"
            );
        });
    }
}

fn nothing_to_declare(window: &RawWindow<'_, Mapped>) {
    let error = window.consistent().unwrap_err();
    assert!(matches!(error, Error::Locks(LockError::NothingToDeclare { .. })), "{error:?}");
    assert!(error.to_string().contains("call it once, after"), "{error}");
}

#[test]
fn nothing_is_declared_consistent_where_no_rank_has_died() {
    for policy in ROBUST.into_iter().chain([PolicyKind::TwoLevel]) {
        let world = World::threads(2).run(|ra| {
            let team = Team::new(ra).unwrap();
            let window = allocate(&team, policy).into_raw();
            nothing_to_declare(&window);
            assert_eq!(window.recoverable_lock(EXCLUSIVE, Rank(0)).unwrap(), Entry::Clean);
            nothing_to_declare(&window);
            window.unlock(Rank(0)).unwrap();
            assert_eq!(window.recoverable_lock_all().unwrap(), Entry::Clean);
            nothing_to_declare(&window);
            window.unlock_all().unwrap();
            window.free().unwrap();
        });
        world.unwrap();
    }
}

#[test]
fn a_repair_is_of_the_holder_once_and_before_a_second_lock() {
    for policy in ROBUST {
        lose(policy, |ra, window, arrived| {
            let window = window.into_raw();
            if ra.rank() == HOME {
                // Rank 0 holds the lock then.
                meet(ra, arrived, 5);
                nothing_to_declare(&window);
                ra.fetch_add(arrived, 1).unwrap();
                return;
            }
            assert!(matches!(window.recoverable_lock(EXCLUSIVE, HOME), Ok(Entry::OwnerDead(_))));
            meet(ra, arrived, 6);
            for error in [
                window.recoverable_lock(EXCLUSIVE, Rank(0)).map(drop).unwrap_err(),
                window.lock(EXCLUSIVE, Rank(0), rmalab_windows::Assert::None).unwrap_err(),
            ] {
                assert!(matches!(error, Error::Locks(LockError::Inconsistent { .. })), "{error:?}");
                assert!(error.to_string().contains("call consistent first"), "{error}");
            }
            window.consistent().unwrap();
            nothing_to_declare(&window);
            assert_eq!(window.recoverable_lock(EXCLUSIVE, Rank(0)).unwrap(), Entry::Clean);
            window.unlock(Rank(0)).unwrap();
            window.unlock(HOME).unwrap();
            // The rank that has failed never comes to the barriers of a free.
            let freed = window.free();
            assert!(matches!(freed, Err(Error::Atomics(AtomicsError::PeerFailed { rank: Rank(1) }))), "{freed:?}");
        });
    }
}

#[test]
fn a_killed_holder_is_told_between_processes() {
    if shm::launched_size().unwrap().is_some() {
        World::processes(3).run(play).unwrap();
        return;
    }
    let (deaths, _) = kill("recoverable::a_killed_holder_is_told_between_processes", 9, false);
    assert!(deaths >= ROBUST.len() as u64 * 2, "{deaths} deaths");
}

#[test]
#[ignore = "some hundred worlds of processes take seconds"]
fn longer_a_holder_is_killed_ahead_of_every_operation() {
    if shm::launched_size().unwrap().is_some() {
        World::processes(3).run(play).unwrap();
        return;
    }
    let (deaths, torn) = kill("recoverable::longer_a_holder_is_killed_ahead_of_every_operation", 1, false);
    println!("{deaths} deaths, {torn} times with torn data");
    // Each turn of each policy has an operation between its two words.
    assert!(torn >= ROBUST.len() as u64, "{torn}");
}
