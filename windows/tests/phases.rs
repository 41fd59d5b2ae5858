//! A rank is killed, or stopped and continued, ahead of every operation of a window's life: from the allocation to the end of the program.

use std::time::{Duration, Instant};

use rmalab_atomics::{
    Crashing, Error as AtomicsError, Launcher, Mapped, Outcome, Output, Rank, RemoteAtomics, World, shm,
};
use rmalab_locks::Error as LockError;
use rmalab_windows::{Config, Error, LockKind, Op, PolicyKind, Result, Team, Window, WindowDisp};
use rustix::process::Signal;

const RANKS: u32 = 3;
/// The rank that fails.
const VICTIM: Rank = Rank(1);

/// The kind of failure of the victim, the operation ahead of which it happens, and the policy: `kill:17:two-level`.
const FAILURE: &str = "RMALAB_TEST_PHASES";

/// A policy of each kind: a protocol for windows, one lock for each target, one lock for the window.
pub(super) const POLICIES: [PolicyKind; 4] =
    [PolicyKind::TwoLevel, PolicyKind::PerTarget, PolicyKind::Hierarchical, PolicyKind::McsRwNeutral];

/// The word that all ranks count in, at each rank.
const COUNT: WindowDisp = WindowDisp(0);
/// The word that a rank's predecessor writes.
const TOKEN: WindowDisp = WindowDisp(8);

/// Makes a window, has one epoch of each kind, and frees the window. Returns the final values of this rank's words.
pub(super) fn live<A: RemoteAtomics>(team: &Team<'_, A>, policy: PolicyKind) -> Result<u64> {
    let (me, size) = (team.rank().0, team.size());
    let (successor, predecessor) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let mut window = Window::builder(team).config(Config { policy, ..Config::default() }).allocate(16)?;
    // All ranks lock the same target at the same time, so that some wait in its queue.
    for target in (0..size).map(Rank) {
        let epoch = window.lock(LockKind::Exclusive, target)?;
        let count: u64 = epoch.get_value(COUNT)?;
        epoch.put_value(COUNT, count + 1)?;
        epoch.unlock()?;
    }
    let epoch = window.lock_all()?;
    for target in (0..size).map(Rank) {
        epoch.at(target)?.accumulate(COUNT, Op::Sum, &[10_u64])?;
    }
    epoch.flush_all()?;
    epoch.unlock_all()?;
    team.barrier()?;
    let epoch = window.fence()?;
    epoch.at(successor)?.put_value(TOKEN, 5_u64)?;
    epoch.close()?;
    let (mut access, mut exposure) = window.pscw()?;
    let exposure = exposure.post(&[predecessor])?;
    let access = access.start(&[successor])?;
    access.at(successor)?.accumulate(TOKEN, Op::Sum, &[1_u64])?;
    access.complete()?;
    exposure.wait()?;
    let local = window.local()?;
    let (count, token) = (local.load::<u64>(COUNT)?, local.load::<u64>(TOKEN)?);
    window.free()?;
    Ok(1_000 * token + count)
}

/// Returns the result of [`live`] for this many ranks without a failure.
pub(super) fn whole(ranks: u32) -> u64 {
    1_000 * 6 + 11 * u64::from(ranks)
}

/// The end of a rank: its result, or the rank whose failure it got.
fn play(ra: &Mapped) -> std::result::Result<u64, u32> {
    let failure = std::env::var(FAILURE).unwrap();
    let mut parts = failure.split(':');
    let [what, number, policy] = [(); 3].map(|()| parts.next().unwrap());
    let ra = &Crashing::new(ra, None);
    let number = number.parse().unwrap();
    match what {
        _ if ra.rank() != VICTIM => {}
        "kill" => ra.arm(Some(number)),
        "stop" => ra.arm_stop(number),
        other => panic!("{other}?"),
    }
    Team::new(ra).and_then(|team| live(&team, policy.parse().unwrap())).map_err(|error| match error {
        Error::Atomics(AtomicsError::PeerFailed { rank })
        | Error::Locks(LockError::Atomics(AtomicsError::PeerFailed { rank })) => rank.0,
        other => panic!("{failure}: {other:?}"),
    })
}

/// Runs one job whose victim fails ahead of this operation. Returns the ends of the ranks, and whether the victim was
/// stopped.
fn run(test: &str, failure: &str) -> (Outcome, bool) {
    let job = Launcher::new(RANKS)
        .command(std::env::current_exe().unwrap(), [test, "--exact", "--nocapture", "--include-ignored"])
        .env(FAILURE, failure)
        .output(Output::Discard)
        // The others end by themselves. The deadline only ends a run that hangs.
        .grace(Duration::from_secs(60))
        .time_limit(Duration::from_secs(60))
        .spawn()
        .unwrap();
    let victim = job.pid(VICTIM);
    let mut was_stopped = false;
    let began = Instant::now();
    if failure.starts_with("stop") {
        while let Some(state) = state(victim).filter(|&state| state != 'Z') {
            if state == 'T' {
                // The others continue as far as they can.
                std::thread::sleep(Duration::from_millis(2));
                job.signal(VICTIM, Signal::CONT).unwrap();
                was_stopped = true;
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{failure}: hangs");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    (job.wait().unwrap(), was_stopped)
}

/// Returns the state of a process, such as `T` for a stopped one.
fn state(pid: u32) -> Option<char> {
    // The name of the process ends with the last bracket. Its state follows.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?.rsplit(") ").next()?.chars().next()
}

fn results(outcome: &Outcome, what: &str) -> Vec<std::result::Result<u64, u32>> {
    let read = |rank: u32| {
        let result = serde_json::from_slice(&outcome.results[rank as usize]);
        result.unwrap_or_else(|error| panic!("{what}: {error}: {}", outcome.describe(Rank(rank))))
    };
    (0..RANKS).filter(|&rank| outcome.first_failure.is_none() || rank != VICTIM.0).map(read).collect()
}

/// Returns the descriptors, shared mappings and files in /dev/shm of this process.
fn resources() -> (usize, usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (
        std::fs::read_dir("/proc/self/fd").unwrap().count(),
        maps.lines().filter(|line| line.contains("memfd")).count(),
        std::fs::read_dir("/dev/shm").unwrap().count(),
    )
}

/// Fails the victim ahead of operations 1, 1 + `step`, ... under each policy. Returns the number of failures.
fn everywhere(test: &str, what: &str, step: usize) -> u64 {
    let mut failures = 0;
    for policy in POLICIES {
        for number in (1..400).step_by(step) {
            let failure = format!("{what}:{number}:{policy}");
            let (outcome, was_stopped) = run(test, &failure);
            let died = outcome.first_failure.is_some();
            assert!(matches!(outcome.first_failure, None | Some(VICTIM)), "{failure}: {:?}", outcome.first_failure);
            assert!(what == "kill" || !died, "{failure}: {}", outcome.describe(VICTIM));
            for result in results(&outcome, &failure) {
                match result {
                    Ok(result) => assert_eq!(result, whole(RANKS), "{failure}"),
                    Err(rank) => assert!(died && rank == VICTIM.0, "{failure}: told of rank {rank}"),
                }
            }
            let are_gone = outcome.pids.iter().all(|&pid| state(pid).is_none());
            assert!(are_gone, "{failure}: a process is left");
            if !died && !was_stopped {
                // The victim has fewer operations than that. An uncontended lock at each of three ranks alone has
                // about 20.
                assert!(number > 60, "{failure}: too few operations");
                break;
            }
            failures += 1;
        }
    }
    failures
}

/// Returns whether this process is a rank, after it has run the rank's part.
fn is_rank() -> bool {
    let is_rank = shm::launched_size().unwrap().is_some();
    if is_rank {
        World::processes(RANKS).run(play).unwrap();
    }
    is_rank
}

#[test]
fn a_rank_is_killed_in_phases_of_a_window() {
    if !is_rank() {
        assert!(everywhere("phases::a_rank_is_killed_in_phases_of_a_window", "kill", 17) >= 4 * 2);
    }
}

#[test]
fn a_rank_is_stopped_in_phases_of_a_window() {
    if !is_rank() {
        assert!(everywhere("phases::a_rank_is_stopped_in_phases_of_a_window", "stop", 17) >= 4 * 2);
    }
}

/// A variable that is set in a process that runs one test alone.
const ALONE: &str = "RMALAB_TEST_PHASES_ALONE";

/// Fails the victim ahead of every operation, in a separate process, since other tests of this process open descriptors
/// meanwhile.
fn everywhere_alone(test: &str, what: &str) {
    if std::env::var_os(ALONE).is_some() {
        let before = resources();
        println!("{what}: {} times", everywhere(test, what, 1));
        assert_eq!(resources(), before);
        return;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--include-ignored"]).env(ALONE, "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.lines().filter(|line| line.starts_with(what)).for_each(|line| println!("{line}"));
}

#[test]
#[ignore = "some hundred worlds of processes take seconds"]
fn longer_a_rank_is_killed_ahead_of_every_operation() {
    if !is_rank() {
        everywhere_alone("phases::longer_a_rank_is_killed_ahead_of_every_operation", "kill");
    }
}

#[test]
#[ignore = "some hundred worlds of processes take seconds"]
fn longer_a_rank_is_stopped_ahead_of_every_operation() {
    if !is_rank() {
        everywhere_alone("phases::longer_a_rank_is_stopped_ahead_of_every_operation", "stop");
    }
}
