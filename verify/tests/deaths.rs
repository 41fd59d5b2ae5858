//! Ranks that are killed, ahead of each of their operations by number, or at random: the survivors go on, and no resource
//! leaks.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use std::os::unix::process::ExitStatusExt;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::{Address, Crashing, Launcher, Mapped, Output, Rank, RemoteAtomics, Stream, WORD, World, shm};
use rmalab_locks::recoverable::{Acquired, AcquiredRw, RobustGuard, RobustMutex, RobustRwGuard, RobustRwLock};
use rmalab_locks::{Backoff, RawMutex, RawRwLock, Recoverable, RobustMcs, RobustRw, RobustTas, RobustTicket};
use rustix::process::Signal;

const RANKS: u32 = 3;

/// The acquisitions of each rank.
const TURNS: u64 = 3;

/// The operation ahead of which a rank is killed, and which: `1:17`.
const CRASH: &str = "RMALAB_TEST_CRASH";
const LOCK: &str = "RMALAB_TEST_LOCK";
/// The number of ranks that are killed at random. The others go on until they know of all of these failures.
const KILLS: &str = "RMALAB_TEST_KILLS";

/// What a rank prints when all ranks are about to acquire the lock.
const READY: &str = "ready to be killed";

/// The locks, by their names.
const LOCKS: [&str; 4] = [RobustTas::NAME, RobustTicket::NAME, RobustMcs::NAME, RobustRw::NAME];

/// The observations of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Seen {
    /// The completed additions to the data.
    added: u64,
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
    let home = Rank(ra.size() - 1);
    let words = ra.heap().alloc(4 * WORD, WORD).unwrap();
    let [left, right, done, arrived] = [0, 1, 2, 3].map(|word| home.at(words.word(word)));
    let mut seen = Seen::default();
    let ra = &Crashing::new(ra, ahead_of);
    let mut mutex = RobustMutex::<_, L>::create(ra, home, L::Params::default()).unwrap();
    let kills = arrive(ra, arrived);
    while seen.added < TURNS || ra.failed().unwrap().iter().count() < kills {
        let guard = enter(&mut mutex, ra, [left, right], &mut seen);
        add(ra, [left, right]);
        guard.release().unwrap();
        seen.added += 1;
    }
    wait_for_survivors(ra, done);
    // It may have failed after the last acquisition of the other ranks.
    let guard = enter(&mut mutex, ra, [left, right], &mut seen);
    seen.sum = ra.get(left).unwrap();
    guard.release().unwrap();
    seen
}

/// Returns the number of ranks that are killed at random. If there are some, waits until all ranks are here, where none of
/// them is needed any more.
fn arrive(ra: &Crashing<'_, Mapped>, arrived: Address) -> usize {
    let kills = std::env::var(KILLS).map_or(0, |kills| kills.parse().unwrap());
    if kills > 0 {
        ra.fetch_add(arrived, 1).unwrap();
        while ra.get(arrived).unwrap() < u64::from(ra.size()) {
            let _ = ra.pause(64);
        }
        println!("{READY}");
    }
    kills
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
        if (0..ra.size()).all(|rank| are_done >> rank & 1 == 1 || failed.contains(Rank(rank))) {
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
    let home = Rank(ra.size() - 1);
    let words = ra.heap().alloc(4 * WORD, WORD).unwrap();
    let [left, right, done, arrived] = [0, 1, 2, 3].map(|word| home.at(words.word(word)));
    let mut seen = Seen::default();
    let ra = &Crashing::new(ra, ahead_of);
    let mut lock = RobustRwLock::<_, RobustRw>::create(ra, home, Backoff::default()).unwrap();
    let kills = arrive(ra, arrived);
    while seen.added < TURNS || ra.failed().unwrap().iter().count() < kills {
        for writes in [false, true] {
            let guard = enter_rw(&mut lock, writes, ra, [left, right], &mut seen);
            if writes {
                add(ra, [left, right]);
            }
            guard.release().unwrap();
        }
        seen.added += 1;
    }
    wait_for_survivors(ra, done);
    let guard = enter_rw(&mut lock, false, ra, [left, right], &mut seen);
    seen.sum = ra.get(left).unwrap();
    guard.release().unwrap();
    seen
}

/// The number of the operation ahead of which `rank` is killed, if it is the one.
fn ahead_of(rank: Rank) -> Option<u64> {
    let Ok(crash) = std::env::var(CRASH) else { return None };
    let (victim, number) = crash.split_once(':').unwrap();
    (victim.parse() == Ok(rank.0)).then(|| number.parse().unwrap())
}

fn be_a_rank() {
    let lock = std::env::var(LOCK).unwrap();
    let world = World::processes(shm::launched_size().unwrap().unwrap());
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
            assert_eq!(outcome.statuses[victim as usize].signal(), Some(9), "{what}");
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
    let least = seen.iter().map(|seen| seen.added).sum::<u64>();
    let most = least + if died { TURNS } else { 0 };
    assert!(seen.iter().all(|seen| (least..=most).contains(&seen.sum)), "{what}: {seen:?}");
    assert!(outcome.pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()), "{what}");
    died
}

/// The ranks of a job of which ranks are killed at random.
const MANY: u32 = 8;

/// Runs a job, and kills some of its ranks one after the other, each at any moment of their acquisitions.
fn kill_at_random(test: &str, lock: &str, kills: usize, random: &mut SmallRng) {
    let (report, ready) = mpsc::channel();
    let job = Launcher::new(MANY)
        .command(std::env::current_exe().unwrap(), [test, "--exact", "--nocapture", "--include-ignored"])
        .env(KILLS, kills.to_string())
        .env(LOCK, lock)
        .output(Output::Lines(Box::new(move |line| {
            if line.stream == Stream::Out && line.bytes.starts_with(READY.as_bytes()) {
                let _ = report.send(());
            }
        })))
        .grace(Duration::from_secs(60))
        .time_limit(Duration::from_secs(60))
        .spawn()
        .unwrap();
    for _ in 0..MANY {
        ready.recv().expect("every rank comes to its first acquisition");
    }
    let mut victims: Vec<u32> = Vec::new();
    while victims.len() < kills {
        std::thread::sleep(Duration::from_micros(random.random_range(0..2_000)));
        let victim = random.random_range(0..MANY);
        if !victims.contains(&victim) {
            job.signal(Rank(victim), Signal::KILL).unwrap();
            victims.push(victim);
        }
    }
    let outcome = job.wait().unwrap();
    let mut all = Seen::default();
    for rank in 0..MANY {
        let what = format!("{lock}, ranks {victims:?} killed: {}", outcome.describe(Rank(rank)));
        if victims.contains(&rank) {
            assert_eq!(outcome.statuses[rank as usize].signal(), Some(9), "{what}");
            continue;
        }
        let seen: Seen = serde_json::from_slice(&outcome.results[rank as usize]).expect(&what);
        all = Seen {
            added: all.added + seen.added,
            told: all.told + seen.told,
            torn: all.torn + seen.torn,
            sum: all.sum.max(seen.sum),
        };
    }
    // A rank that was told may have been killed afterwards.
    assert!(all.torn <= all.told && all.told <= kills as u64, "{lock}, ranks {victims:?} killed: {all:?}");
    assert!(all.sum >= all.added, "{lock}, ranks {victims:?} killed: additions are lost: {all:?}");
    assert!(outcome.pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()), "{lock}");
}

/// Kills that many ranks at random, up to all but one of a job.
fn campaign(test: &str, deaths: usize) {
    let _alone = ALONE.lock();
    let before = resources();
    let mut random = SmallRng::seed_from_u64(deaths as u64);
    let mut left = deaths;
    while left > 0 {
        let kills = random.random_range(1..MANY as usize).min(left);
        let lock = LOCKS[random.random_range(0..LOCKS.len())];
        kill_at_random(test, lock, kills, &mut random);
        left -= kills;
    }
    assert_eq!(resources(), before);
}

/// Two tests of this process would count each other's descriptors.
static ALONE: Mutex<()> = Mutex::new(());

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

#[test]
fn ranks_are_killed_at_random() {
    if shm::launched_size().unwrap().is_some() {
        return be_a_rank();
    }
    campaign("ranks_are_killed_at_random", 40);
}

#[test]
#[ignore = "two hundred and fifty worlds of eight processes take a minute"]
fn longer_a_thousand_ranks_are_killed_at_random() {
    if shm::launched_size().unwrap().is_some() {
        return be_a_rank();
    }
    campaign("longer_a_thousand_ranks_are_killed_at_random", 1_000);
}
