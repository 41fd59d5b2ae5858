//! Acquire and release of every lock, uncontended and with two ranks, beside the locks of other crates.
//!
//! `cargo bench -p rmalab --bench locks -- uncontended/read` runs some of them.

use std::sync::{Barrier, Mutex, RwLock};
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use crossbeam_utils::sync::ShardedLock;
use mcslock::raw::{MutexNode, spins};
use rmalab_atomics::{Collectives, Launcher, Mapped, Output, Rank, RemoteAtomics, World};
use rmalab_locks::{
    Exclusive, Global, LockKind, Mcs, McsRwNeutral, McsRwRp, McsRwWp, PerTarget, Tas, TasRw, Ticket, TwoLevel,
    WindowLock,
};

/// The task of a process of the shm backend: a lock's name, a side, a count and the number of ranks.
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

/// All locks of the workspace, on threads and on processes, and two atomics for comparison.
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

/// Starts this program as the ranks of a world, and returns their measurements.
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

/// The locks of the standard library and of other crates, which support one process only.
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

/// Runs `pair` that many times on each of the threads; returns the time of the slowest.
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

/// Acquires and releases that many times on this rank, on the readers' or writers' side, and returns the time.
type Loop = fn(&Mapped, u64, LockKind) -> Duration;

/// Every lock, by its name.
const LOCKS: [(&str, Loop); 9] = [
    ("tas", pairs::<Global<Exclusive<Tas>>>),
    ("ticket", pairs::<Global<Exclusive<Ticket>>>),
    ("mcs", pairs::<Global<Exclusive<Mcs>>>),
    ("tas-rw", pairs::<Global<TasRw>>),
    ("mcs-rw-rp", pairs::<Global<McsRwRp>>),
    ("mcs-rw-wp", pairs::<Global<McsRwWp>>),
    ("mcs-rw-neutral", pairs::<Global<McsRwNeutral>>),
    ("per-target", pairs::<PerTarget<McsRwRp>>),
    ("two-level", pairs::<TwoLevel>),
];

/// The loop of one policy: lock_all and unlock_all, or exclusive lock and unlock of rank 0.
fn pairs<W: WindowLock>(ra: &Mapped, count: u64, side: LockKind) -> Duration {
    let mut lock = W::new(ra, W::Params::default()).expect("a fresh world has room for one lock");
    // A fair start: all ranks are there, and have touched their memory.
    Collectives::new(ra).and_then(|ranks| ranks.barrier()).expect("all ranks live");
    let start = Instant::now();
    for _ in 0..count {
        match side {
            LockKind::Shared => lock.lock_all(ra).and_then(|()| lock.unlock_all(ra)),
            LockKind::Exclusive => lock.lock(ra, side, Rank(0)).and_then(|()| lock.unlock(ra, side, Rank(0))),
        }
        .expect("all ranks live");
    }
    start.elapsed()
}

/// Two fetch_adds on a word of rank 0: the least cost of a lock that accesses memory twice.
fn two_atomics(ra: &Mapped, count: u64, _side: LockKind) -> Duration {
    let word = ra.heap().alloc(128, 128).expect("a fresh world has room for a word");
    Collectives::new(ra).and_then(|ranks| ranks.barrier()).expect("all ranks live");
    let start = Instant::now();
    for _ in 0..count {
        let up = ra.fetch_add(Rank(0).at(word), 1);
        let down = up.and_then(|_| ra.fetch_add(Rank(0).at(word), 1u64.wrapping_neg()));
        std::hint::black_box(down).expect("all ranks live");
    }
    start.elapsed()
}
