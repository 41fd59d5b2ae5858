//! Passive-target operations complete while their target computes and makes no call.
//!
//! The target spins on a plain flag until the origin has done everything and raises the flag. The flag does not use the
//! window: between threads it is an atomic, between processes a file. If an operation needed the target's help, both would
//! wait forever.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Made, processes, threads};
use rmalab_atomics::{Mapped, Rank};
use rmalab_locks::PolicyKind;
use rmalab_windows::{AccumulateStrategy, Config, LockKind, Op, Team, WindowDisp};

/// All operations of a passive epoch, to rank 0, which takes no part in it.
fn operate(team: &Team<'_, Mapped>, window: &mut rmalab_windows::Window<'_, Mapped>, disp: WindowDisp) {
    let target = Rank(0);
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        let epoch = window.lock(kind, target).unwrap();
        epoch.put(disp, &[1_u64, 2, 3]).unwrap();
        epoch.flush().unwrap();
        let mut seen = [0_u64; 3];
        epoch.get(disp, &mut seen).unwrap();
        assert_eq!(seen, [1, 2, 3]);
        epoch.accumulate(disp, Op::Sum, &[10_u64, 10, 10]).unwrap();
        epoch.accumulate(disp.plus(25), Op::Max, &[5.5_f64; 6]).unwrap();
        assert_eq!(epoch.fetch_and_op(disp, Op::Replace, 7_u64).unwrap(), 11);
        assert_eq!(epoch.compare_and_swap(disp, 7_u64, 8).unwrap(), 7);
        epoch.rput(disp.plus(80), vec![9_u16; 4]).unwrap().wait().unwrap();
        assert_eq!(epoch.rget(disp.plus(16), vec![0_u64]).unwrap().wait().unwrap(), [13]);
        epoch.unlock().unwrap();
    }
    let epoch = window.lock_all().unwrap();
    let part = epoch.at(target).unwrap();
    assert_eq!(part.get_value::<[u16; 4]>(disp.plus(80)).unwrap(), [9; 4]);
    epoch.batch(|batch| batch.put(&part, disp, &[0_u64])).unwrap();
    assert_eq!(part.fetch_and_op(disp, Op::Sum, u64::from(team.rank().0)).unwrap(), 0);
    epoch.flush_all().unwrap();
    epoch.unlock_all().unwrap();
}

/// `compute` returns once `finished` was called, and makes no call of the window in between.
fn computes_alone(team: &Team<'_, Mapped>, compute: impl Fn(usize), finished: impl Fn(usize)) {
    let mut round = 0;
    for made in Made::ALL {
        for &accumulate in AccumulateStrategy::ALL {
            for policy in [PolicyKind::TwoLevel, PolicyKind::PerTarget, PolicyKind::McsRwRp] {
                let (mut window, starts) = made.make(team, Config { accumulate, policy, ..Config::default() }, 88);
                team.barrier().unwrap();
                if team.rank() == Rank(0) {
                    compute(round);
                } else {
                    operate(team, &mut window, WindowDisp(starts[0]));
                    finished(round);
                }
                round += 1;
                window.free().unwrap();
            }
        }
    }
}

#[test]
fn operations_complete_while_a_threads_rank_computes() {
    let flags: Vec<AtomicBool> = (0..100).map(|_| AtomicBool::new(false)).collect();
    threads(2, |team| {
        let compute = |round: usize| {
            while !flags[round].load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        };
        computes_alone(team, compute, |round| flags[round].store(true, Ordering::Release));
    });
}

#[test]
fn operations_complete_while_a_process_computes() {
    const FOLDER: &str = "RMALAB_TEST_FLAGS";
    let folder = match std::env::var_os(FOLDER) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("progress-{}", std::process::id())),
    };
    std::fs::create_dir_all(&folder).unwrap();
    let world = processes("progress::operations_complete_while_a_process_computes", 2).env(FOLDER, &folder);
    let outcome = world.run(|ra| {
        let flag = |round: usize| folder.join(round.to_string());
        let compute = |round: usize| {
            while !flag(round).exists() {
                std::hint::spin_loop();
            }
        };
        let finished = |round: usize| std::fs::write(flag(round), "").unwrap();
        computes_alone(&Team::new(ra).unwrap(), compute, finished);
    });
    std::fs::remove_dir_all(&folder).unwrap();
    outcome.unwrap();
}
