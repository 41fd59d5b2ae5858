//! Processes that are stopped while they hold a lease: they lose it, and their later writes are refused.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use std::time::Duration;

use rmalab_atomics::{Collectives, Launcher, Mapped, Output, Rank, RemoteAtomics, WORD, World, shm};
use rmalab_locks::lease::{FencedWord, LeaseMutex};
use rmalab_locks::suite::poll;
use rmalab_locks::{Error, LeaseParams};
use rustix::process::{Pid, Signal, kill_process};

const RANKS: u32 = 3;

/// The number of stops.
const ROUNDS: &str = "RMALAB_TEST_ROUNDS";

/// Waits until the process is stopped.
fn wait_for_stop(pid: Pid) {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        // The name of the process ends with the last bracket. Its state follows.
        if stat.rsplit(") ").next().unwrap().starts_with('T') {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// In each round, SIGSTOP stops one rank while it holds the lock, until another rank has taken the lock over and written.
fn play(ra: &Mapped) -> u64 {
    let rounds: u64 = std::env::var(ROUNDS).unwrap().parse().unwrap();
    let all = Collectives::new(ra).unwrap();
    let word = FencedWord::create(ra, Rank(2)).unwrap();
    let [held, done] = [(); 2].map(|()| Rank(2).at(ra.heap().alloc(WORD, WORD).unwrap()));
    let params = LeaseParams { term: Duration::from_millis(20), ..LeaseParams::default() };
    let mut lock = LeaseMutex::create(ra, Rank(1), params).unwrap();
    let pids = all.allgather(&[u64::from(std::process::id())]).unwrap();
    let pid = |rank: Rank| Pid::from_raw(pids[rank.index()] as i32).unwrap();
    let mut refused = 0;
    for round in 1..=rounds {
        let holder = Rank((round % u64::from(RANKS)) as u32);
        let next = Rank((holder.0 + 1) % RANKS);
        let value = 2 * round as u32;
        if ra.rank() == holder {
            let mut guard = lock.acquire().unwrap();
            guard.put(word, value).unwrap();
            ra.put(held, round).unwrap();
            ra.flush_all().unwrap();
            kill_process(pid(holder), Signal::STOP).unwrap();
            poll(ra, done, |done| done == round).unwrap();
            for write in [guard.put(word, value), guard.renew(), guard.release()] {
                assert!(matches!(write, Err(Error::Expired { .. })), "{holder} in round {round}: {write:?}");
                refused += 1;
            }
        } else if ra.rank() == next {
            poll(ra, held, |held| held == round).unwrap();
            wait_for_stop(pid(holder));
            let guard = lock.acquire().unwrap();
            assert!(guard.took_over(), "{holder} has not released");
            let (seen, token) = word.get(ra).unwrap();
            assert!(seen == value && token < guard.token(), "{next} in round {round}: {seen}, {token}");
            guard.put(word, value + 1).unwrap();
            guard.release().unwrap();
            kill_process(pid(holder), Signal::CONT).unwrap();
            ra.put(done, round).unwrap();
            ra.flush_all().unwrap();
        }
        all.barrier().unwrap();
        assert_eq!(word.get(ra).unwrap().0, value + 1, "{}: a late write in round {round}", ra.rank());
        all.barrier().unwrap();
    }
    refused
}

fn stop_holders(test: &str, rounds: u64) {
    if shm::launched_size().unwrap().is_some() {
        World::processes(RANKS).run(play).unwrap();
        return;
    }
    let job = Launcher::new(RANKS)
        .command(std::env::current_exe().unwrap(), [test, "--exact", "--nocapture", "--include-ignored"])
        .env(ROUNDS, rounds.to_string())
        .output(Output::Discard)
        // The deadline only ends a run that hangs.
        .time_limit(Duration::from_secs(120))
        .spawn()
        .unwrap();
    let outcome = job.wait().unwrap();
    assert_eq!(outcome.first_failure, None, "{}", outcome.describe(outcome.first_failure.unwrap_or(Rank(0))));
    let refused: u64 = outcome.results.iter().map(|result| serde_json::from_slice::<u64>(result).unwrap()).sum();
    assert_eq!(refused, 3 * rounds);
    assert!(outcome.pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()));
}

#[test]
fn a_stopped_holder_loses_the_lock_and_writes_nothing_more() {
    stop_holders("a_stopped_holder_loses_the_lock_and_writes_nothing_more", 6);
}

#[test]
#[ignore = "some seconds of stops"]
fn longer_stopped_holders_lose_the_lock_a_hundred_times() {
    stop_holders("longer_stopped_holders_lose_the_lock_a_hundred_times", 100);
}
