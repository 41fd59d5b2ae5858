//! Robust locks over RDMA verbs, where the memory of a killed rank is lost: the survivors go on.
//!
//! Needs an RDMA device and fails without one; Soft-RoCE in a virtual machine will do (`scripts/soft-roce`).

#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rmalab_atomics::verbs::Verbs;
use rmalab_atomics::{
    Crashing, Error as AtomicsError, Job, Launcher, Output, Rank, RemoteAtomics, Signal, WORD, World,
};
use rmalab_locks::recoverable::{Acquired, AcquiredRw, RobustMutex, RobustRwLock};
use rmalab_locks::{
    Backoff, Error, RawMutex, RawRwLock, Recoverable, Result, RobustMcs, RobustRw, RobustTas, RobustTicket,
};

const RANKS: u32 = 3;
/// The rank with the lock's words.
const HOME: Rank = Rank(2);
/// The acquisitions of each rank.
const TURNS: u64 = 3;
/// The result of a rank that has ended with the failure of the lock's home.
const HOME_LOST: u64 = 1000;

/// The failure, its rank, and the operation ahead of which it happens: `kill:1:17`. What is stopped goes on afterwards.
const CRASH: &str = "RMALAB_TEST_CRASH";
const LOCK: &str = "RMALAB_TEST_LOCK";

type Ra<'a> = Crashing<'a, Verbs>;

/// A lock that recovers, to read or to write.
trait Robust<'a>: Sized {
    fn create(ra: &'a Ra<'a>) -> Result<Self>;

    /// Calls `inside` with the lock, and with whether the rank was told of a failure inside.
    fn with(&mut self, writes: bool, inside: impl FnOnce(bool) -> Result<()>) -> Result<()>;
}

impl<'a, L: Recoverable<Params: Default>> Robust<'a> for RobustMutex<'a, Ra<'a>, L> {
    fn create(ra: &'a Ra<'a>) -> Result<Self> {
        RobustMutex::create(ra, HOME, L::Params::default())
    }

    fn with(&mut self, _writes: bool, inside: impl FnOnce(bool) -> Result<()>) -> Result<()> {
        match self.acquire()? {
            Acquired::Clean(guard) => inside(false).and_then(|()| guard.release()),
            Acquired::OwnerDead(inconsistent) => inside(true).and_then(|()| inconsistent.consistent().release()),
        }
    }
}

impl<'a> Robust<'a> for RobustRwLock<'a, Ra<'a>, RobustRw> {
    fn create(ra: &'a Ra<'a>) -> Result<Self> {
        RobustRwLock::create(ra, HOME, Backoff::default())
    }

    fn with(&mut self, writes: bool, inside: impl FnOnce(bool) -> Result<()>) -> Result<()> {
        match if writes { self.write()? } else { self.read()? } {
            AcquiredRw::Clean(guard) => inside(false).and_then(|()| guard.release()),
            AcquiredRw::OwnerDead(inconsistent) => inside(true).and_then(|()| inconsistent.consistent()?.release()),
        }
    }
}

/// Acquires [`TURNS`] times to read and to write, and adds one to two words as a writer, one after the other. A rank that is told of a
/// failure inside makes the words equal; no other rank finds them different. Then waits for the other live ranks. Returns how often it was
/// told.
fn play<'a, L: Robust<'a>>(ra: &'a Ra<'a>) -> Result<u64> {
    let words = ra.heap().alloc(3 * WORD, WORD)?;
    let [left, right, done] = [0, 1, 2].map(|word| HOME.at(words.word(word)));
    let times = Cell::new(0);
    let mut lock = L::create(ra)?;
    let inside = |adds: u64| {
        let times = &times;
        move |told: bool| {
            let sum = ra.get(left)?;
            let is_torn = sum != ra.get(right)?;
            assert!(told || !is_torn, "{}: not told of torn data", ra.rank());
            times.set(times.get() + u64::from(told));
            for word in [left, right] {
                if adds > 0 || told {
                    ra.put(word, sum + adds)?;
                    ra.flush(word.rank)?;
                }
            }
            Ok(())
        }
    };
    for _ in 0..TURNS {
        lock.with(true, inside(1))?;
        lock.with(false, inside(0))?;
    }
    ra.fetch_add(done, 1 << ra.rank().0)?;
    let failed = loop {
        let failed = ra.failed()?;
        ra.acknowledge(&failed)?;
        let are_done = ra.get(done)?;
        if (0..RANKS).all(|rank| are_done >> rank & 1 == 1 || failed.contains(Rank(rank))) {
            break failed;
        }
        let _ = ra.pause(64);
    };
    // It may have failed after the last acquisition of the other ranks.
    lock.with(true, inside(0))?;
    let sum = ra.get(left)?;
    let survivors = u64::from(RANKS) - failed.iter().count() as u64;
    assert!((TURNS * survivors..=TURNS * u64::from(RANKS)).contains(&sum), "{failed} failed, and the sum is {sum}");
    Ok(times.get())
}

fn be_a_rank() {
    let crash = std::env::var(CRASH).unwrap();
    let parts: Vec<&str> = crash.split(':').collect();
    let &[what, victim, number] = parts.as_slice() else { panic!("{crash}?") };
    let lock = std::env::var(LOCK).unwrap();
    let world = World::processes(RANKS).over::<Verbs>();
    let ended = world.run(|ra| {
        let ra = &Crashing::new(ra, None);
        let number = number.parse().unwrap();
        match what {
            _ if victim.parse() != Ok(ra.rank().0) => {}
            "kill" => ra.arm(Some(number)),
            "stop" => ra.arm_stop(number),
            other => panic!("{other}?"),
        }
        let played = match lock.as_str() {
            RobustTas::NAME => play::<RobustMutex<'_, _, RobustTas>>(ra),
            RobustTicket::NAME => play::<RobustMutex<'_, _, RobustTicket>>(ra),
            RobustMcs::NAME => play::<RobustMutex<'_, _, RobustMcs>>(ra),
            RobustRw::NAME => play::<RobustRwLock<'_, _, RobustRw>>(ra),
            other => panic!("{other}?"),
        };
        match played {
            Err(Error::Atomics(AtomicsError::PeerFailed { rank: HOME })) => HOME_LOST,
            other => other.unwrap(),
        }
    });
    ended.unwrap();
}

/// Kills `victim`, or stops it and lets it go on, ahead of its operation `number`. Returns whether it came that far, and the results of
/// the ranks that live.
fn fail(test: &str, what: &str, lock: &str, victim: Rank, number: u64) -> (bool, Vec<u64>) {
    let job = Launcher::new(RANKS)
        .command(std::env::current_exe().unwrap(), [test, "--exact", "--nocapture", "--include-ignored"])
        .env(CRASH, format!("{what}:{}:{number}", victim.0))
        .env(LOCK, lock)
        .hub(true)
        .output(Output::Discard)
        // The survivors go on. The deadline only ends a run that hangs.
        .grace(Duration::from_secs(60))
        .time_limit(Duration::from_secs(60))
        .spawn()
        .unwrap();
    let stopped = what == "stop" && was_stopped(&job, victim);
    let outcome = job.wait().unwrap();
    let what = format!("{lock}, {what} {victim} ahead of operation {number}");
    let died = outcome.first_failure.is_some();
    if let Some(first) = outcome.first_failure {
        assert_eq!(first, victim, "{what}: {}", outcome.describe(first));
        assert_eq!(outcome.statuses[victim.index()].signal(), Some(9), "{what}");
    }
    let others = (0..RANKS).map(Rank).filter(|&rank| !died || rank != victim);
    let results = others.map(|rank| {
        let result = String::from_utf8_lossy(&outcome.results[rank.index()]);
        result.parse().unwrap_or_else(|_| panic!("{what}: {}", outcome.describe(rank)))
    });
    (died || stopped, results.collect())
}

/// Waits until `victim` is stopped, and lets it go on. Returns false if it ends before.
fn was_stopped(job: &Job, victim: Rank) -> bool {
    let stat = format!("/proc/{}/stat", job.pid(victim));
    // The name of the process ends with the last bracket. Its state follows.
    let state = || std::fs::read_to_string(&stat).ok().and_then(|stat| stat.rsplit(") ").next()?.chars().next());
    while let Some(state) = state().filter(|&state| state != 'Z') {
        if state == 'T' {
            // The others continue as far as they can.
            std::thread::sleep(Duration::from_millis(20));
            job.signal(victim, Signal::CONT).unwrap();
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

fn is_a_rank() -> bool {
    let is_a_rank = std::env::var_os(CRASH).is_some();
    if is_a_rank {
        be_a_rank();
    }
    is_a_rank
}

const LOCKS: [&str; 4] = [RobustTas::NAME, RobustTicket::NAME, RobustMcs::NAME, RobustRw::NAME];

/// Kills rank 1, or stops it and lets it go on, ahead of each operation number `step`, under each lock.
fn everywhere(test: &str, what: &str, step: usize) {
    if is_a_rank() {
        return;
    }
    for lock in LOCKS {
        let mut told = 0;
        let last = (1..200).step_by(step).find(|&number| {
            let (failed, results) = fail(test, what, lock, Rank(1), number);
            let sum: u64 = results.iter().sum();
            assert!(sum <= u64::from(failed && what == "kill"), "{lock}: {results:?} after {what} {number}");
            told += sum;
            !failed
        });
        // An acquisition to write has at least six operations, one to read four.
        assert!(last.is_none_or(|last| last > 10 * TURNS), "{lock}: rank 1 has only {last:?} operations");
        println!("{lock}, {what}: {last:?} operations, {told} times the next rank was told of a failure inside");
        assert!(told > 0 || what != "kill", "{lock}: no rank was told");
    }
}

#[test]
fn ranks_are_killed_at_some_operations() {
    everywhere("ranks_are_killed_at_some_operations", "kill", 7);
}

#[test]
#[ignore = "minutes; scripts/verbs-suite --long"]
fn longer_ranks_are_killed_at_every_operation() {
    everywhere("longer_ranks_are_killed_at_every_operation", "kill", 1);
}

#[test]
#[ignore = "minutes; scripts/verbs-suite --long"]
fn longer_ranks_are_stopped_at_every_operation() {
    everywhere("longer_ranks_are_stopped_at_every_operation", "stop", 1);
}

#[test]
fn no_rank_waits_for_a_lock_whose_home_is_lost() {
    if is_a_rank() {
        return;
    }
    for lock in LOCKS {
        for number in [5, 16] {
            let (died, results) = fail("no_rank_waits_for_a_lock_whose_home_is_lost", "kill", lock, HOME, number);
            assert!(died && results == [HOME_LOST; 2], "{lock}: {results:?}");
        }
    }
}
