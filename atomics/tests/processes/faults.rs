//! Ranks that are killed at any moment: the others get the failure, and nothing is left.

use std::time::Duration;

use rmalab_atomics::{Disp, Error, Mapped, Rank, RemoteAtomics, Result, Until};
use rustix::process::Signal;

use super::{alone, be_a_rank, driver, eventually, here, is_driver, launcher, results, signal_of};

const RANKS: u32 = 4;

/// Passes a token around; each rank waits for it in its own segment.
fn ring(ra: &Mapped, token: Disp, rounds: std::ops::Range<u64>) -> Result<()> {
    let next = Rank((ra.rank().0 + 1) % ra.size());
    for round in rounds {
        if ra.rank() != Rank(0) || round > 0 {
            ra.wait_until(token, Until::Ge(round + u64::from(ra.rank() != Rank(0))))?;
        }
        ra.fetch_add(next.at(token), 1)?;
    }
    Ok(())
}

/// A queue like the MCS lock's: the tail on rank 0, and on every rank a next and a flag.
fn queue(ra: &Mapped, words: Disp, times: u32) -> Result<()> {
    let (tail, next, blocked, counter) = (Rank(0).at(words), words.word(1), words.word(2), Rank(0).at(words.word(3)));
    let me = u64::from(ra.rank().0) + 1;
    let rank = |word: u64| Rank(u32::try_from(word - 1).expect("a rank"));
    for _ in 0..times {
        ra.put(ra.rank().at(next), 0)?;
        ra.put(ra.rank().at(blocked), 1)?;
        let pred = ra.fetch_store(tail, me)?;
        if pred != 0 {
            ra.put(rank(pred).at(next), me)?;
            ra.wait_until(blocked, Until::Eq(0))?;
        }
        let seen = ra.get(counter)?;
        ra.put(counter, seen + 1)?;
        if ra.compare_and_swap(tail, me, 0)? != me {
            let succ = ra.wait_until(next, Until::Ne(0))?;
            ra.put(rank(succ).at(blocked), 0)?;
        }
    }
    Ok(())
}

/// Passes tokens and locks around until a peer fails, and returns that peer.
fn until_a_peer_fails(ra: &Mapped) -> Rank {
    let token = ra.heap().alloc(8, 8).unwrap();
    let words = ra.heap().alloc(32, 8).unwrap();
    let mut forever = (0u64..).map(|turn| {
        ring(ra, token, 20 * turn..20 * (turn + 1))?;
        queue(ra, words, 20)
    });
    match forever.find_map(Result::err) {
        Some(Error::PeerFailed { rank }) => rank,
        other => panic!("{other:?}"),
    }
}

/// Kills one rank of `until_a_peer_fails` at some moment, and checks the outcome.
fn kill_one(test: &str, victim: Rank, after: Duration) {
    let job = launcher(test, RANKS).spawn().unwrap();
    std::thread::sleep(after);
    job.signal(victim, Signal::KILL).unwrap();
    let outcome = job.wait().unwrap();
    assert_eq!(outcome.first_failure, Some(victim));
    for (rank, told) in results::<Rank>(&outcome).into_iter().enumerate() {
        if rank == victim.index() {
            assert_eq!((signal_of(outcome.statuses[rank]), told), (Some(9), None));
        } else {
            assert_eq!((outcome.statuses[rank].code(), told), (Some(0), Some(victim)), "rank {rank}");
        }
    }
}

/// The resources that a job could leave: processes, descriptors, mappings and files of shared memory.
#[derive(PartialEq, Eq, Debug)]
struct Left {
    children: Vec<u32>,
    descriptors: usize,
    mappings: usize,
    files: usize,
}

fn left() -> Left {
    let count = |folder: &str, part: &str| {
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(part)).count()
    };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    Left {
        children: super::children(std::process::id()),
        descriptors: count("/proc/self/fd", ""),
        mappings: maps.lines().filter(|line| line.contains("memfd:")).count(),
        files: count("/dev/shm", "rmalab"),
    }
}

fn campaign(test: &str, kills: u32) {
    be_a_rank(RANKS, until_a_peer_fails);
    alone(test, || {
        // The first job installs signal handlers, which stay.
        kill_one(test, Rank(0), Duration::ZERO);
        let before = left();
        assert_eq!((before.children.len(), before.mappings, before.files), (0, 0, 0));
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let mut state = seed;
        for kill in 0..kills {
            // Knuth's linear congruential generator (MMIX) is good enough here.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let victim = Rank((state >> 33) as u32 % RANKS);
            let after = Duration::from_micros((state >> 40) % 40_000);
            println!("kill {kill}: {victim} after {after:?} (seed {seed})");
            kill_one(test, victim, after);
            assert_eq!(left(), before, "after kill {kill}");
        }
    });
}

/// The name of a variable that all processes of one job have, with its own value.
const MARK: &str = "RMALAB_TEST_MARK";

/// Returns how many processes have that variable in their environment. A zombie has none.
fn marked(value: &str) -> usize {
    let mark = format!("{MARK}={value}");
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(std::result::Result::ok);
    let environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments.filter(|text| text.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())).count()
}

/// The moments lie in the start of the launcher and of the ranks, in their meeting, and in their work.
#[test]
fn no_rank_outlives_a_launcher_that_is_killed_at_any_moment() {
    be_a_rank(RANKS, until_a_peer_fails);
    if is_driver() {
        let _ = launcher(here!(), RANKS).spawn().unwrap().wait();
        return;
    }
    let (mut with_ranks, mut moment) = (0, 0);
    // Where the ranks start slowly, the moments come to lie in their work, too.
    while moment < 25 || with_ranks == 0 {
        assert!(moment < 10_000, "every launcher was killed before its ranks ran");
        let mark = format!("{}-{moment}", std::process::id());
        let mut command = driver(here!());
        command.env(MARK, &mark).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut driver = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(moment));
        with_ranks += usize::from(marked(&mark) == 1 + RANKS as usize);
        driver.kill().unwrap();
        driver.wait().unwrap();
        eventually("the end of all ranks", || marked(&mark) == 0);
        moment += 1 + moment / 16;
    }
}

#[test]
fn thirty_random_kills() {
    campaign(here!(), 30);
}

#[test]
#[ignore = "long: 200 random kills"]
fn two_hundred_random_kills() {
    campaign(here!(), 200);
}

/// Kills rank 2 when the other three ranks are in the loop or wait of `wait`.
fn killed_while(test: &str, wait: fn(&Mapped, Disp) -> Result<()>) {
    be_a_rank(RANKS, |ra| {
        let word = ra.heap().alloc(16, 8).unwrap();
        let arrived = word.word(1);
        if ra.rank() == Rank(2) {
            ra.wait_until(arrived, Until::Eq(u64::from(RANKS) - 1)).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
        }
        ra.fetch_add(Rank(2).at(arrived), 1).unwrap();
        match wait(ra, word) {
            Err(Error::PeerFailed { rank }) => rank,
            other => panic!("{other:?}"),
        }
    });
    let outcome = launcher(test, RANKS).spawn().unwrap().wait().unwrap();
    assert_eq!(outcome.exit_code(), 137);
    assert_eq!(results::<Rank>(&outcome), [Some(Rank(2)), Some(Rank(2)), None, Some(Rank(2))]);
}

#[test]
fn killed_while_others_wait() {
    killed_while(here!(), |ra, word| ra.wait_until(word, Until::Ne(0)).map(drop));
}

#[test]
fn killed_while_others_pause() {
    killed_while(here!(), |ra, _| {
        loop {
            ra.pause(10)?;
        }
    });
}

#[test]
fn killed_while_others_are_at_a_barrier() {
    killed_while(here!(), |ra, word| {
        ra.fetch_add(Rank(0).at(word), 1)?;
        if ra.rank() == Rank(0) {
            ra.wait_until(word, Until::Eq(u64::from(RANKS)))?;
        }
        ra.wait_until(word, Until::Eq(u64::MAX)).map(drop)
    });
}
