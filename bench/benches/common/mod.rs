//! What both benches measure: acquire and release of every lock, in a loop, on every rank of a world.

use std::time::{Duration, Instant};

use rmalab_atomics::Rank;
use rmalab_atomics::{Collectives, Mapped, RemoteAtomics};
use rmalab_locks::{
    Exclusive, Global, LockKind, Mcs, McsRwNeutral, McsRwRp, McsRwWp, NoCheck, PerTarget, Tas, TasRw, Ticket, TwoLevel,
    WindowLock,
};

/// Acquires and releases so many times on this rank, readers' or writers' side, and says how long that took.
pub type Loop = fn(&Mapped, u64, LockKind) -> Duration;

/// Every lock, by its name.
pub const LOCKS: [(&str, Loop); 10] = [
    ("tas", pairs::<Global<Exclusive<Tas>>>),
    ("ticket", pairs::<Global<Exclusive<Ticket>>>),
    ("mcs", pairs::<Global<Exclusive<Mcs>>>),
    ("tas-rw", pairs::<Global<TasRw>>),
    ("mcs-rw-rp", pairs::<Global<McsRwRp>>),
    ("mcs-rw-wp", pairs::<Global<McsRwWp>>),
    ("mcs-rw-neutral", pairs::<Global<McsRwNeutral>>),
    ("per-target", pairs::<PerTarget<McsRwRp>>),
    ("two-level", pairs::<TwoLevel>),
    ("nocheck", pairs::<NoCheck>),
];

/// The loop of one policy: lock_all and unlock_all, or exclusive lock and unlock of rank 0.
fn pairs<W: WindowLock>(ra: &Mapped, count: u64, side: LockKind) -> Duration {
    let mut lock = W::new(ra, W::Params::default()).expect("a fresh world has room for one lock");
    // A fair start: everybody is there, and has touched its memory.
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

/// Two fetch_adds on a word of rank 0: the least that a lock can cost that touches memory twice.
pub fn two_atomics(ra: &Mapped, count: u64, _side: LockKind) -> Duration {
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
