//! Windows with a robust lock policy over RDMA verbs, where the memory of a killed rank is lost: the survivors go on.
//!
//! Needs an RDMA device and fails without one; Soft-RoCE in a virtual machine will do (`scripts/soft-roce`).

#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use rmalab_atomics::verbs::Verbs;
use rmalab_atomics::{Crashing, Rank, RemoteAtomics, WORD, World};
use rmalab_windows::{Acquired, LockKind, PolicyKind, Result, Team};

#[path = "recoverable/played.rs"]
mod played;

use played::{CRASH, EXCLUSIVE, HOME, LEFT, ROBUST, allocate, is_lost, kill, launch, meet_the_living, play};

#[test]
fn a_killed_holder_is_told() {
    if std::env::var_os(CRASH).is_some() {
        World::processes(3).over::<Verbs>().run(play).unwrap();
        return;
    }
    let (deaths, torn) = kill("a_killed_holder_is_told", 29, true);
    println!("{deaths} deaths, {torn} times with torn data");
    assert!(deaths >= ROBUST.len() as u64 * 2, "{deaths} deaths");
}

/// Returns what the acquisition holds, or `None` if it ended with the loss of [`HOME`].
fn held<T>(acquired: Result<Acquired<T>>, consistent: impl FnOnce(rmalab_windows::Inconsistent<T>) -> T) -> Option<T> {
    if is_lost(&acquired, HOME) {
        return None;
    }
    Some(match acquired.unwrap() {
        Acquired::Clean(held) => held,
        Acquired::OwnerDead(inconsistent) => consistent(inconsistent),
    })
}

/// Locks each target in turn, and then all of them, while [`HOME`] is killed. Its part is lost then, and the others are not. Returns the
/// number of calls that ended with the loss.
fn lose(ra: &Verbs) -> u64 {
    let crash = std::env::var(CRASH).unwrap();
    let (number, policy) = crash.split_once(':').unwrap();
    let done = Rank(0).at(ra.heap().alloc(WORD, WORD).unwrap());
    let ra = &Crashing::new(ra, None);
    let team = Team::new(ra).unwrap();
    let mut window = allocate(&team, policy.parse().unwrap());
    if ra.rank() == HOME {
        ra.arm(Some(number.parse().unwrap()));
    }
    let mut lost = 0;
    for turn in 0..4_u32 {
        let kind = if turn % 2 == 0 { EXCLUSIVE } else { LockKind::Shared };
        for target in (0..3).map(|next| Rank((ra.rank().0 + next) % 3)) {
            let part = held(window.recoverable_lock(kind, target), |part| part.consistent().unwrap());
            let ended = part.map(|part| part.put_value(LEFT, 7_u64).and_then(|()| part.flush()).and(part.unlock()));
            match ended {
                Some(Ok(())) => {}
                None => lost += 1,
                Some(ended) => {
                    assert!(is_lost(&ended, HOME) && target == HOME, "{target}: {ended:?}");
                    lost += 1;
                }
            }
        }
        let all = held(window.recoverable_lock_all(), |all| all.consistent().unwrap());
        // It completes what this rank has posted to the lost part, too.
        let ended = all.expect("no part is needed").unlock_all();
        assert!(ended.is_ok() || is_lost(&ended, HOME), "{ended:?}");
    }
    meet_the_living(ra, done);
    lost
}

#[test]
fn a_target_that_is_lost_keeps_nobody_out() {
    if std::env::var_os(CRASH).is_some() {
        World::processes(3).over::<Verbs>().run(lose).unwrap();
        return;
    }
    for policy in [PolicyKind::RobustTwoLevel, PolicyKind::RobustHierarchical] {
        let mut all_lost = 0;
        for number in (10..100).step_by(23) {
            let (outcome, printed) = launch("a_target_that_is_lost_keeps_nobody_out", policy, number, true);
            let what = format!("{policy}, ahead of operation {number}");
            if outcome.first_failure.is_none() {
                break;
            }
            assert_eq!(outcome.first_failure, Some(HOME), "{what}");
            for rank in [0, 1] {
                let lost = String::from_utf8_lossy(&outcome.results[rank]);
                let lost: u64 = lost
                    .parse()
                    .unwrap_or_else(|_| panic!("{what}: {}\n{printed}", outcome.describe(Rank(rank as u32))));
                all_lost += lost;
            }
        }
        println!("{policy}: {all_lost} calls ended with the loss");
        assert!(all_lost > 0, "{policy}");
    }
}
