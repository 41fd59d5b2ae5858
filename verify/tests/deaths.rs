//! Ranks that are killed ahead of each of their operations, by number: the survivors go on, and no resource leaks.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use std::sync::Mutex;
use std::time::Duration;

use rmalab_atomics::{Address, Crashing, Launcher, Mapped, Output, Rank, RemoteAtomics, WORD, World, shm};
use rmalab_locks::recoverable::{Acquired, AcquiredRw, RobustGuard, RobustMutex, RobustRwGuard, RobustRwLock};
use rmalab_locks::{Backoff, RawMutex, RawRwLock, Recoverable, RobustMcs, RobustRw, RobustTas, RobustTicket};

const RANKS: u32 = 3;

/// The acquisitions of each rank.
const TURNS: u64 = 3;

/// The operation ahead of which a rank is killed, and which: `1:17`.
const CRASH: &str = "RMALAB_TEST_CRASH";
const LOCK: &str = "RMALAB_TEST_LOCK";

/// The locks, by their names.
const LOCKS: [&str; 4] = [RobustTas::NAME, RobustTicket::NAME, RobustMcs::NAME, RobustRw::NAME];

/// The observations of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
struct Seen {
    /// The entries that learned of a failure inside.
    told: u64,
    /// The entries that found the data half written.
    torn: u64,
    /// The sum of the data at the end.
    sum: u64,
}

/// Acquires the lock. A rank that learns of a failure inside makes the two words equal; no other rank finds them different.
fn enter<'l, 'a, L: Recoverable>(
    mutex: &'l mut RobustMutex<'a, Crashing<'a, Mapped>, L>,
    ra: &Crashing<'a, Mapped>,
    [left, right]: [Address; 2],
    seen: &mut Seen,
) -> RobustGuard<'l, 'a, Crashing<'a, Mapped>, L> {
    let acquired = mutex.acquire().unwrap();
    let sum = ra.get(left).unwrap();
    let is_torn = sum != ra.get(right).unwrap();
    match acquired {
        Acquired::Clean(guard) => {
            assert!(!is_torn, "{}: not told of torn data", ra.rank());
            guard
        }
        Acquired::OwnerDead(inconsistent) => {
            seen.told += 1;
            seen.torn += u64::from(is_torn);
            ra.put(right, sum).unwrap();
            ra.flush(right.rank).unwrap();
            inconsistent.consistent()
        }
    }
}

/// Acquires [`TURNS`] times, and adds one to two words inside, one after the other. At the end, the survivors wait for each other.
fn play<L: Recoverable>(ra: &Mapped) -> Seen
where
    L::Params: Default,
{
    let ahead_of = ahead_of(ra.rank());
    let home = Rank(RANKS - 1);
    let words = ra.heap().alloc(3 * WORD, WORD).unwrap();
    let [left, right, done] = [0, 1, 2].map(|word| home.at(words.word(word)));
    let mut seen = Seen { told: 0, torn: 0, sum: 0 };
    let ra = &Crashing::new(ra, ahead_of);
    let mut mutex = RobustMutex::<_, L>::create(ra, home, L::Params::default()).unwrap();
    for _ in 0..TURNS {
        let guard = enter(&mut mutex, ra, [left, right], &mut seen);
        add(ra, [left, right]);
        guard.release().unwrap();
    }
    wait_for_survivors(ra, done);
    // It may have failed after the last acquisition of the other ranks.
    let guard = enter(&mut mutex, ra, [left, right], &mut seen);
    seen.sum = ra.get(left).unwrap();
    guard.release().unwrap();
    seen
}

/// Adds one to two words, one after the other.
fn add(ra: &Crashing<'_, Mapped>, [left, right]: [Address; 2]) {
    let sum = ra.get(left).unwrap() + 1;
    for word in [left, right] {
        ra.put(word, sum).unwrap();
        ra.flush(word.rank).unwrap();
    }
}

/// The failed rank is not waited for.
fn wait_for_survivors(ra: &Crashing<'_, Mapped>, done: Address) {
    ra.fetch_add(done, 1 << ra.rank().0).unwrap();
    loop {
        let failed = ra.failed().unwrap();
        ra.acknowledge(&failed).unwrap();
        let are_done = ra.get(done).unwrap();
        if (0..RANKS).all(|rank| are_done >> rank & 1 == 1 || failed.contains(Rank(rank))) {
            break;
        }
        let _ = ra.pause(64);
    }
}

/// Like [`enter`], as a reader or as a writer.
fn enter_rw<'l, 'a>(
    lock: &'l mut RobustRwLock<'a, Crashing<'a, Mapped>, RobustRw>,
    writes: bool,
    ra: &Crashing<'a, Mapped>,
    [left, right]: [Address; 2],
    seen: &mut Seen,
) -> RobustRwGuard<'l, 'a, Crashing<'a, Mapped>, RobustRw> {
    let acquired = if writes { lock.write() } else { lock.read() };
    let acquired = acquired.unwrap();
    let sum = ra.get(left).unwrap();
    let is_torn = sum != ra.get(right).unwrap();
    match acquired {
        AcquiredRw::Clean(guard) => {
            assert!(!is_torn, "{}: not told of torn data", ra.rank());
            guard
        }
        AcquiredRw::OwnerDead(inconsistent) => {
            seen.told += 1;
            seen.torn += u64::from(is_torn);
            ra.put(right, sum).unwrap();
            ra.flush(right.rank).unwrap();
            inconsistent.consistent().unwrap()
        }
    }
}

/// Like [`play`] with the reader-writer lock: a read ahead of each write.
fn play_rw(ra: &Mapped) -> Seen {
    let ahead_of = ahead_of(ra.rank());
    let home = Rank(RANKS - 1);
    let words = ra.heap().alloc(3 * WORD, WORD).unwrap();
    let [left, right, done] = [0, 1, 2].map(|word| home.at(words.word(word)));
    let mut seen = Seen { told: 0, torn: 0, sum: 0 };
    let ra = &Crashing::new(ra, ahead_of);
    let mut lock = RobustRwLock::<_, RobustRw>::create(ra, home, Backoff::default()).unwrap();
    for _ in 0..TURNS {
        for writes in [false, true] {
            let guard = enter_rw(&mut lock, writes, ra, [left, right], &mut seen);
            if writes {
                add(ra, [left, right]);
            }
            guard.release().unwrap();
        }
    }
    wait_for_survivors(ra, done);
    let guard = enter_rw(&mut lock, false, ra, [left, right], &mut seen);
    seen.sum = ra.get(left).unwrap();
    guard.release().unwrap();
    seen
}

/// The number of the operation ahead of which `rank` is killed, if it is the one.
fn ahead_of(rank: Rank) -> Option<u64> {
    let crash = std::env::var(CRASH).unwrap();
    let (victim, number) = crash.split_once(':').unwrap();
    (victim.parse() == Ok(rank.0)).then(|| number.parse().unwrap())
}

fn be_a_rank() {
    let lock = std::env::var(LOCK).unwrap();
    let world = World::processes(RANKS);
    let ended = match lock.as_str() {
        RobustTas::NAME => world.run(play::<RobustTas>),
        RobustTicket::NAME => world.run(play::<RobustTicket>),
        RobustMcs::NAME => world.run(play::<RobustMcs>),
        RobustRw::NAME => world.run(play_rw),
        other => panic!("{other}?"),
    };
    ended.unwrap();
}

/// Kills `victim` ahead of its operation `number`. Returns whether it came that far.
fn kill(test: &str, lock: &str, victim: u32, number: u64) -> bool {
    let job = Launcher::new(RANKS)
        .command(std::env::current_exe().unwrap(), [test, "--exact", "--nocapture", "--include-ignored"])
        .env(CRASH, format!("{victim}:{number}"))
        .env(LOCK, lock)
        .output(Output::Discard)
        // The survivors go on. The deadline only ends a run that hangs.
        .grace(Duration::from_secs(60))
        .time_limit(Duration::from_secs(60))
        .spawn()
        .unwrap();
    let outcome = job.wait().unwrap();
    let what = format!("{lock}, rank {victim} ahead of operation {number}");
    let died = match outcome.first_failure {
        None => false,
        Some(rank) => {
            assert_eq!(rank, Rank(victim), "{what}: {}", outcome.describe(rank));
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&outcome.statuses[victim as usize]), Some(9));
            true
        }
    };
    let survivors = (0..RANKS).filter(|&rank| !died || rank != victim);
    let seen: Vec<Seen> = survivors
        .map(|rank| {
            let told = serde_json::from_slice(&outcome.results[rank as usize]);
            told.unwrap_or_else(|error| panic!("{what}: {error}: {}", outcome.describe(Rank(rank))))
        })
        .collect();
    let told: u64 = seen.iter().map(|seen| seen.told).sum();
    let torn: u64 = seen.iter().map(|seen| seen.torn).sum();
    assert!(torn <= told && told <= u64::from(died), "{what}: {seen:?}");
    let least = TURNS * seen.len() as u64;
    let most = least + if died { TURNS } else { 0 };
    assert!(seen.iter().all(|seen| (least..=most).contains(&seen.sum)), "{what}: {seen:?}");
    assert!(outcome.pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()), "{what}");
    died
}

/// The descriptors, shared mappings and files in /dev/shm of this process.
fn resources() -> (usize, usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (
        std::fs::read_dir("/proc/self/fd").unwrap().count(),
        maps.lines().filter(|line| line.contains("memfd")).count(),
        std::fs::read_dir("/dev/shm").unwrap().count(),
    )
}

/// The most operations of a rank: where polls vary, a rank may end ahead of this one or not.
const MOST: u64 = 200;

/// Kills these ranks ahead of every operation, and returns the number of deaths.
fn kill_everywhere(test: &str, locks: &[&str], victims: std::ops::Range<u32>, step: u64) -> u64 {
    // Two tests of this process would count each other's descriptors.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    let before = resources();
    let mut deaths = 0;
    for lock in locks {
        for victim in victims.clone() {
            let mut number = 1;
            while number < MOST && kill(test, lock, victim, number) {
                deaths += 1;
                number += step;
            }
            // Each acquisition has at least six operations of the lock and of the section.
            assert!(number > 6 * TURNS, "{lock}: rank {victim} has only {number} operations");
        }
    }
    assert_eq!(resources(), before);
    deaths
}

#[test]
fn ranks_are_killed_at_some_operations() {
    if shm::launched_size().unwrap().is_some() {
        return be_a_rank();
    }
    kill_everywhere("ranks_are_killed_at_some_operations", &LOCKS, 1..2, 5);
}

#[test]
#[ignore = "some hundred worlds of processes take a minute"]
fn longer_ranks_are_killed_at_every_operation() {
    if shm::launched_size().unwrap().is_some() {
        return be_a_rank();
    }
    let deaths = kill_everywhere("longer_ranks_are_killed_at_every_operation", &LOCKS, 0..RANKS, 1);
    println!("{deaths} deaths");
}
