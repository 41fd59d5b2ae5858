//! Acquire and release of every lock, alone and by two ranks, beside the locks of other crates.
//!
//! `cargo bench -p rmalab --bench locks -- uncontended/read` measures some of them.

mod common;

use std::sync::{Barrier, Mutex, RwLock};
use std::time::{Duration, Instant};

use common::{LOCKS, Loop, two_atomics};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use crossbeam_utils::sync::ShardedLock;
use mcslock::raw::{MutexNode, spins};
use rmalab_atomics::{Launcher, Output, World};
use rmalab_locks::LockKind;

/// Tells a process of the shm backend what to measure: a lock's name, a side, a count and the number of ranks.
const TASK: &str = "RMALAB_BENCH_TASK";

const SIDES: [(&str, LockKind); 2] = [("read", LockKind::Shared), ("write", LockKind::Exclusive)];

fn main() {
    if let Ok(task) = std::env::var(TASK) {
        return be_a_rank(&task);
    }
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10)
        .configure_from_args();
    for (ranks, contention) in [(1, "uncontended"), (2, "contended")] {
        for (name, side) in SIDES {
            let mut group = criterion.benchmark_group(format!("{contention}/{name}"));
            ours(&mut group, ranks, side);
            theirs(&mut group, ranks as usize, side);
            group.finish();
        }
    }
    criterion.final_summary();
}

/// All locks of the workspace, on threads and on processes, and the two atomics that they are compared with.
fn ours(group: &mut BenchmarkGroup<'_, WallTime>, ranks: u32, side: LockKind) {
    for (name, body) in loops() {
        group.bench_function(format!("local/{name}"), |bencher| {
            bencher.iter_custom(|count| {
                let world = World::threads(ranks).run(|ra| body(ra, count, side));
                longest(world.expect("a small world of threads"))
            });
        });
    }
    for (name, _) in loops() {
        group.bench_function(format!("shm/{name}"), |bencher| {
            bencher.iter_custom(|count| processes(name, ranks, side, count));
        });
    }
}

fn loops() -> impl Iterator<Item = (&'static str, Loop)> {
    LOCKS.into_iter().chain([("two fetch_adds", two_atomics as Loop)])
}

fn longest(each: Vec<Duration>) -> Duration {
    each.into_iter().max().expect("a world has ranks")
}

/// Starts this program as the ranks of a world, which measure and hand back what they measured.
fn processes(name: &str, ranks: u32, side: LockKind, count: u64) -> Duration {
    let side = SIDES.iter().find(|known| known.1 == side).expect("both sides are known").0;
    let program = std::env::current_exe().expect("this program has a file");
    let outcome = Launcher::new(ranks)
        .command(program, [] as [&str; 0])
        .env(TASK, format!("{name}/{side}/{count}/{ranks}"))
        .output(Output::Prefixed)
        .spawn()
        .and_then(|job| job.wait())
        .expect("a small world of processes");
    assert!(outcome.success(), "a rank has failed");
    let each = outcome.results.iter().map(|result| serde_json::from_slice(result).expect("ranks hand back durations"));
    longest(each.collect())
}

/// The other side of [`processes`].
fn be_a_rank(task: &str) {
    let mut parts = task.split('/');
    let mut part = || parts.next().expect("a task has four parts");
    let (name, side, count, ranks) = (part(), part(), part(), part());
    let body = loops().find(|known| known.0 == name).expect("a known lock").1;
    let side = SIDES.iter().find(|known| known.0 == side).expect("a known side").1;
    let count = count.parse().expect("a number");
    let world = World::processes(ranks.parse().expect("a number"));
    world.run(|ra| body(ra, count, side)).expect("the launcher's world");
}

/// The locks of the standard library and of other crates, which know one process only.
fn theirs(group: &mut BenchmarkGroup<'_, WallTime>, threads: usize, side: LockKind) {
    let mut bench = |name: &str, pair: &(dyn Fn() + Sync)| {
        group.bench_function(format!("threads/{name}"), |bencher| {
            bencher.iter_custom(|count| together(threads, count, pair));
        });
    };
    let lock = RwLock::new(());
    match side {
        LockKind::Shared => bench("std RwLock", &|| drop(lock.read())),
        LockKind::Exclusive => bench("std RwLock", &|| drop(lock.write())),
    }
    let lock = parking_lot::RwLock::new(());
    match side {
        LockKind::Shared => bench("parking_lot RwLock", &|| drop(lock.read())),
        LockKind::Exclusive => bench("parking_lot RwLock", &|| drop(lock.write())),
    }
    let lock = ShardedLock::new(());
    match side {
        LockKind::Shared => bench("crossbeam ShardedLock", &|| drop(lock.read())),
        LockKind::Exclusive => bench("crossbeam ShardedLock", &|| drop(lock.write())),
    }
    if side == LockKind::Exclusive {
        let lock = Mutex::new(());
        bench("std Mutex", &|| drop(lock.lock()));
        let lock = parking_lot::Mutex::new(());
        bench("parking_lot Mutex", &|| drop(lock.lock()));
        let lock = spins::Mutex::new(());
        bench("mcslock Mutex", &|| lock.lock_with_then(&mut MutexNode::new(), |()| ()));
    }
}

/// Runs `pair` so many times on each of the threads; how long the slowest took.
fn together(threads: usize, count: u64, pair: &(dyn Fn() + Sync)) -> Duration {
    let barrier = Barrier::new(threads);
    let body = || {
        barrier.wait();
        let start = Instant::now();
        (0..count).for_each(|_| pair());
        start.elapsed()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(body)).collect();
        longest(threads.into_iter().map(|thread| thread.join().expect("locks do not panic")).collect())
    })
}
