//! The ends of jobs: exit codes, signals, grace periods, and a killed launcher.

use std::time::Duration;

use rmalab_atomics::{Error, Launcher, Output, Rank, RemoteAtomics, Until};
use rustix::process::Signal;

use super::{be_a_rank, children, driver, eventually, has_ended, here, is_driver, kill, launcher, signal_of, world};

fn shell(size: u32, script: &str) -> Launcher {
    Launcher::new(size).command("sh", ["-c", script]).output(Output::Discard).time_limit(super::HUNG)
}

#[test]
fn the_exit_code_is_the_code_of_the_first_failure() {
    let outcome = shell(3, "exit 0").spawn().unwrap().wait().unwrap();
    assert_eq!((outcome.exit_code(), outcome.success()), (0, true));
    // Rank 0 ends only on request, so rank 1 is the first.
    let script = "case $RMALAB_RANK in 1) exit 42;; *) trap 'exit 7' TERM; while :; do sleep 0.01; done;; esac";
    let outcome = shell(2, script).grace(Duration::from_millis(50)).spawn().unwrap().wait().unwrap();
    assert_eq!((outcome.exit_code(), outcome.first_failure), (42, Some(Rank(1))));
    assert_eq!(outcome.statuses[0].code(), Some(7), "the other one was asked to end, by SIGTERM");
    assert_eq!(outcome.describe(Rank(1)), format!("rank 1 (pid {}) exited with code 42", outcome.pids[1]));
}

#[test]
fn a_signal_is_128_and_its_number_and_has_a_name() {
    let outcome = shell(1, "kill -9 $$").spawn().unwrap().wait().unwrap();
    assert_eq!(outcome.exit_code(), 137);
    let described = format!("rank 0 (pid {}) was killed by signal 9 (SIGKILL)", outcome.pids[0]);
    assert_eq!(outcome.describe(Rank(0)), described);
}

#[test]
fn a_rank_that_does_not_end_on_request_is_killed() {
    let script = "case $RMALAB_RANK in 0) exit 1;; *) trap '' TERM; while :; do sleep 0.01; done;; esac";
    let outcome = shell(2, script).grace(Duration::from_millis(50)).spawn().unwrap().wait().unwrap();
    assert_eq!(outcome.first_failure, Some(Rank(0)));
    assert_eq!(signal_of(outcome.statuses[1]), Some(9));
}

#[test]
fn a_job_that_takes_too_long_is_killed() {
    let job = shell(2, "sleep 1000").time_limit(Duration::from_millis(50)).spawn().unwrap();
    let pids = [job.pid(Rank(0)), job.pid(Rank(1))];
    let error = job.wait().unwrap_err().to_string();
    assert!(error.contains("did not end within 50ms"), "{error}");
    assert!(pids.into_iter().all(has_ended));
}

#[test]
fn a_job_that_is_dropped_is_killed() {
    let job = shell(2, "sleep 1000").spawn().unwrap();
    let pids = [job.pid(Rank(0)), job.pid(Rank(1))];
    drop(job);
    assert!(pids.into_iter().all(has_ended));
}

#[test]
fn a_job_outlives_the_thread_that_has_started_it() {
    let job = std::thread::spawn(|| shell(2, "sleep 0.1").spawn().unwrap()).join().unwrap();
    assert!(job.wait().unwrap().success());
}

#[test]
fn a_panic_is_reported_to_the_others_and_to_the_parent() {
    let world = world(here!(), 3);
    let ended = world.run(|ra| {
        assert_ne!(ra.rank(), Rank(1), "the first failure");
        let word = ra.heap().alloc(8, 8).unwrap();
        let told = ra.wait_until(word, Until::Ne(0));
        assert!(matches!(told, Err(Error::PeerFailed { rank: Rank(1) })), "{told:?}");
    });
    match ended {
        Err(Error::RankEnded { rank: Rank(1), how }) => assert!(how.contains("exited with code 101"), "{how}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rank_that_fails_first_and_ends_last_is_the_first_failure() {
    if super::is_rank() {
        let ra = rmalab_atomics::shm::attach().unwrap();
        let [word, first, last] = [(); 3].map(|()| ra.heap().alloc(8, 8).unwrap());
        if ra.rank() == Rank(1) {
            let others = [first, last].map(|at| u32::try_from(ra.wait_until(at, Until::Ne(0)).unwrap()).unwrap());
            ra.fail();
            eventually("the end of the others", || others.into_iter().all(has_ended));
            std::process::exit(42);
        }
        let mine = if ra.rank() == Rank(0) { first } else { last };
        ra.put(Rank(1).at(mine), std::process::id().into()).unwrap();
        let told = ra.wait_until(word, Until::Ne(0));
        assert!(matches!(told, Err(Error::PeerFailed { rank: Rank(1) })), "{told:?}");
        std::process::exit(1);
    }
    let outcome = launcher(here!(), 3).spawn().unwrap().wait().unwrap();
    assert_eq!((outcome.first_failure, outcome.exit_code()), (Some(Rank(1)), 42));
}

#[test]
fn an_error_is_reported_to_the_others_and_to_the_parent() {
    let world = world(here!(), 3);
    let ended = world.try_run(|ra| {
        if ra.rank() == Rank(2) {
            return Err("an error of the body".to_string());
        }
        let word = ra.heap().alloc(8, 8).unwrap();
        match ra.wait_until(word, Until::Ne(0)) {
            Err(Error::PeerFailed { rank: Rank(2) }) => Ok(()),
            told => panic!("{told:?}"),
        }
    });
    match ended {
        Err(Error::RankEnded { rank: Rank(2), how }) => assert!(how.contains("exited with code 1"), "{how}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rank_that_exits_without_leaving_has_failed_for_the_others() {
    be_a_rank(2, |ra| {
        if ra.rank() == Rank(1) {
            std::process::exit(0);
        }
        let word = ra.heap().alloc(8, 8).unwrap();
        format!("{:?}", ra.wait_until(word, Until::Ne(0)))
    });
    let outcome = launcher(here!(), 2).spawn().unwrap().wait().unwrap();
    let told: Vec<Option<String>> = super::results(&outcome);
    assert_eq!(told[0].as_deref(), Some("Err(PeerFailed { rank: Rank(1) })"));
    // Its exit code reports success, but the rank has failed.
    assert_eq!((outcome.first_failure, outcome.exit_code()), (Some(Rank(1)), 1));
    let described = outcome.describe(Rank(1));
    assert!(
        described.starts_with("rank 1 (pid ") && described.contains("exited with code 0 without leaving"),
        "{described}"
    );
}

#[test]
fn a_rank_that_exits_inside_a_run_has_failed_for_the_parent() {
    let world = world(here!(), 2);
    let ended = world.run(|ra| {
        if ra.rank() == Rank(1) {
            std::process::exit(0);
        }
        let word = ra.heap().alloc(8, 8).unwrap();
        ra.wait_until(word, Until::Ne(0)).unwrap_err().to_string()
    });
    match ended {
        Err(Error::RankEnded { rank: Rank(1), how }) => assert!(how.contains("without leaving"), "{how}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rank_that_ends_before_it_joins_has_failed_for_the_others() {
    if super::is_rank() && std::env::var("RMALAB_RANK").as_deref() == Ok("1") {
        std::process::exit(9);
    }
    be_a_rank(2, |ra| {
        let word = ra.heap().alloc(8, 8).unwrap();
        format!("{:?}", ra.wait_until(word, Until::Ne(0)))
    });
    let outcome = launcher(here!(), 2).spawn().unwrap().wait().unwrap();
    assert_eq!((outcome.exit_code(), outcome.first_failure), (9, Some(Rank(1))));
    let told: Vec<Option<String>> = super::results(&outcome);
    assert_eq!(told[0].as_deref(), Some("Err(PeerFailed { rank: Rank(1) })"));
}

/// Starts a driver with 4 ranks, and waits until they run.
fn driver_with_ranks(test: &str) -> (std::process::Child, Vec<u32>) {
    let driver = driver(test).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut ranks = Vec::new();
    eventually("four ranks that run", || {
        ranks = children(driver.id());
        // The ranks have called exec, and so have done everything before it.
        let sleeps = |pid: &u32| std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"sleep\n");
        ranks.len() == 4 && ranks.iter().all(sleeps)
    });
    (driver, ranks)
}

#[test]
fn no_rank_outlives_a_launcher_that_is_killed() {
    if is_driver() {
        let _ = shell(4, "exec sleep 1000").spawn().unwrap().wait();
        return;
    }
    let (mut driver, ranks) = driver_with_ranks(here!());
    driver.kill().unwrap();
    driver.wait().unwrap();
    eventually("the end of all ranks", || ranks.iter().copied().all(has_ended));
}

#[test]
fn a_launcher_that_is_stopped_goes_on() {
    if is_driver() {
        let outcome = shell(4, "exec sleep 0.5").spawn().unwrap().wait().unwrap();
        std::process::exit(outcome.exit_code());
    }
    let (mut driver, ranks) = driver_with_ranks(here!());
    kill(driver.id(), Signal::STOP);
    eventually("the end of all ranks", || ranks.iter().copied().all(has_ended));
    assert!(driver.try_wait().unwrap().is_none(), "the launcher has ended while it was stopped");
    kill(driver.id(), Signal::CONT);
    assert!(driver.wait().unwrap().success());
}

#[test]
fn signals_are_passed_on() {
    if is_driver() {
        let outcome = shell(4, "exec sleep 1000").spawn().unwrap().wait().unwrap();
        std::process::exit(outcome.exit_code());
    }
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let (mut driver, ranks) = driver_with_ranks(here!());
        kill(driver.id(), signal);
        assert_eq!(driver.wait().unwrap().code(), Some(code));
        assert!(ranks.into_iter().all(has_ended));
    }
}

/// The user knows of the signal. A rank that fails otherwise is still reported.
#[test]
fn a_rank_that_ends_by_a_signal_that_was_passed_on_is_not_reported() {
    if is_driver() {
        let script = "trap 'exit 143' TERM; test $RMALAB_RANK = 2 && trap 'exit 7' INT; sleep 1000 & wait";
        let launcher = shell(4, script).output(Output::Inherit);
        std::process::exit(launcher.spawn().unwrap().wait().unwrap().exit_code());
    }
    for (signal, failed) in [(Signal::TERM, None), (Signal::INT, Some("rank 2 (pid "))] {
        let mut command = driver(here!());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let driver = command.spawn().unwrap();
        eventually("four ranks that have set their traps", || {
            let ranks = children(driver.id());
            ranks.len() == 4 && ranks.into_iter().all(|rank| children(rank).len() == 1)
        });
        kill(driver.id(), signal);
        let output = driver.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with(failed.unwrap_or_default()), "{said}");
        assert_eq!(said.lines().count(), failed.iter().count(), "{said}");
    }
}

#[test]
fn between_jobs_signals_have_their_usual_effect() {
    if is_driver() {
        assert!(shell(1, "true").spawn().unwrap().wait().unwrap().success());
        kill(std::process::id(), Signal::TERM);
        std::thread::sleep(super::HUNG);
        return;
    }
    let status = driver(here!()).stdout(std::process::Stdio::null()).status().unwrap();
    assert_eq!(signal_of(status), Some(15));
}

#[test]
fn a_rank_that_leaves_and_then_fails_has_failed_for_the_others() {
    if super::is_rank() {
        let ra = rmalab_atomics::shm::attach().unwrap();
        if ra.rank() == Rank(1) {
            drop(ra);
            std::process::exit(3);
        }
        let word = ra.heap().alloc(8, 8).unwrap();
        let told = ra.wait_until(word, Until::Ne(0));
        std::process::exit(if matches!(told, Err(Error::PeerFailed { rank: Rank(1) })) { 0 } else { 4 });
    }
    let outcome = launcher(here!(), 3).spawn().unwrap().wait().unwrap();
    assert_eq!(outcome.statuses.iter().map(|status| status.code()).collect::<Vec<_>>(), [Some(0), Some(3), Some(0)]);
}

#[test]
fn a_barrier_reports_a_rank_that_has_left() {
    be_a_rank(3, |ra| {
        let collectives = rmalab_atomics::Collectives::new(ra).unwrap();
        collectives.barrier().unwrap();
        if ra.rank() == Rank(1) { String::new() } else { collectives.barrier().unwrap_err().to_string() }
    });
    let outcome = launcher(here!(), 3).spawn().unwrap().wait().unwrap();
    assert!(outcome.success(), "{outcome:?}");
    let told: Vec<Option<String>> = super::results(&outcome);
    for rank in [0, 2] {
        assert!(told[rank].as_ref().unwrap().contains("has left, and this rank waits for it"), "{told:?}");
    }
}

#[test]
fn a_rank_that_leaves_an_obligation_undone_has_failed() {
    be_a_rank(2, |ra| {
        if ra.rank() == Rank(1) {
            ra.forsake("an open epoch");
            return String::new();
        }
        let word = ra.heap().alloc(8, 8).unwrap();
        format!("{:?}", ra.wait_until(word, Until::Ne(0)))
    });
    let outcome = launcher(here!(), 2).spawn().unwrap().wait().unwrap();
    assert_eq!((outcome.first_failure, outcome.exit_code()), (Some(Rank(1)), 1));
    let told: Vec<Option<String>> = super::results(&outcome);
    assert_eq!(told, [Some("Err(PeerFailed { rank: Rank(1) })".to_string()), None]);
}

/// Plays rank 0, which becomes hard to end with `hide` and stays, or rank 1, which fails once `is_hidden` holds for
/// rank 0's process.
fn hide_or_fail(hide: impl FnOnce(), is_hidden: fn(u32) -> bool) {
    let ra = rmalab_atomics::shm::attach().unwrap();
    let word = ra.heap().alloc(8, 8).unwrap();
    if ra.rank() == Rank(0) {
        ra.put(Rank(1).at(word), std::process::id().into()).unwrap();
        hide();
        std::thread::sleep(super::HUNG);
        std::process::exit(99);
    }
    let pid = u32::try_from(ra.wait_until(word, Until::Ne(0)).unwrap()).unwrap();
    eventually("a rank that has hidden", || is_hidden(pid));
    ra.fail();
    std::process::exit(1);
}

fn leave_the_group() {
    let parent = rustix::process::getppid();
    rustix::process::setpgid(None, rustix::process::getpgid(parent).ok()).unwrap();
}

fn has_left_its_group(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap());
    rustix::process::getpgid(pid).is_ok_and(|group| Some(group) != pid)
}

fn is_stopped(pid: u32) -> bool {
    super::parent_and_state(pid).is_some_and(|(_, state)| state == 'T')
}

fn stop() {
    kill(std::process::id(), Signal::STOP);
}

/// Ignores SIGTERM for the rest of the process.
fn ignore_term() {
    // SAFETY: the call changes this process's table of signals and nothing else.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

#[test]
fn a_rank_that_has_left_its_group_is_asked_to_end() {
    if super::is_rank() {
        hide_or_fail(leave_the_group, has_left_its_group);
    }
    let outcome = launcher(here!(), 2).grace(Duration::from_secs(1)).spawn().unwrap().wait().unwrap();
    assert_eq!((outcome.first_failure, signal_of(outcome.statuses[0])), (Some(Rank(1)), Some(15)));
}

#[test]
fn a_rank_that_is_stopped_is_asked_to_end() {
    if super::is_rank() {
        hide_or_fail(stop, is_stopped);
    }
    let outcome = launcher(here!(), 2).grace(Duration::from_secs(1)).spawn().unwrap().wait().unwrap();
    assert_eq!((outcome.first_failure, signal_of(outcome.statuses[0])), (Some(Rank(1)), Some(15)));
}

#[test]
fn a_rank_that_hides_in_every_way_is_killed() {
    if super::is_rank() {
        let hide = || {
            ignore_term();
            leave_the_group();
            stop();
        };
        hide_or_fail(hide, |pid| is_stopped(pid) && has_left_its_group(pid));
    }
    let outcome = launcher(here!(), 2).grace(Duration::from_millis(50)).spawn().unwrap().wait().unwrap();
    assert_eq!((outcome.first_failure, signal_of(outcome.statuses[0])), (Some(Rank(1)), Some(9)));
}

#[test]
fn a_rank_outside_its_group_ends_with_a_job_that_is_dropped() {
    if super::is_rank() {
        leave_the_group();
        std::thread::sleep(super::HUNG);
        std::process::exit(99);
    }
    let job = launcher(here!(), 1).spawn().unwrap();
    let pid = job.pid(Rank(0));
    eventually("a rank that has hidden", || has_left_its_group(pid));
    drop(job);
    assert!(has_ended(pid));
}

#[test]
fn signals_reach_a_rank_that_is_stopped() {
    if is_driver() {
        let outcome = shell(1, "kill -STOP $$; exec sleep 1000").spawn().unwrap().wait().unwrap();
        std::process::exit(outcome.exit_code());
    }
    let mut driver = driver(here!()).stdout(std::process::Stdio::null()).spawn().unwrap();
    eventually("a rank that is stopped", || children(driver.id()).into_iter().any(is_stopped));
    kill(driver.id(), Signal::TERM);
    eventually("the end of the launcher", || driver.try_wait().unwrap().is_some());
    assert_eq!(driver.wait().unwrap().code(), Some(143));
}
