//! Ranks that are processes: what the launcher, the start-up and the process backend promise.
//!
//! A test starts its own binary again, for this very test, so that the ranks come to the same call. Where a test looks at
//! what belongs to the whole process (descriptors, children, signals), it does so in a process of its own, the driver.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers and ranks included")]

mod basics;
mod bootstrap;
mod conformance;
mod endings;
mod faults;
mod meeting;
mod mpirun;
mod output;
mod refused;
mod registered;
mod subsets;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rmalab_atomics::{Launcher, Mapped, Outcome, Output, Processes, World, shm};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long anything here may take before it counts as hung.
const HUNG: Duration = Duration::from_secs(120);

/// Says that this process is a driver.
const DRIVER: &str = "RMALAB_TEST_DRIVER";

/// The path of the test that this stands in.
macro_rules! here {
    () => {
        $crate::test_name(std::any::type_name_of_val(&|| ()))
    };
}
use here;

fn test_name(closure: &'static str) -> &'static str {
    let test = closure.split("::{{closure}}").next().unwrap_or_default();
    test.split_once("::").expect("a path in a crate").1
}

/// The arguments by which this binary runs one test.
fn only(test: &str) -> [&str; 5] {
    [test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]
}

fn own_binary() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}

/// A launcher of `size` ranks that come to the same test.
fn launcher(test: &str, size: u32) -> Launcher {
    Launcher::new(size).command(own_binary(), only(test)).output(Output::Discard).time_limit(HUNG).grace(HUNG / 2)
}

/// A world of `size` processes that come to the same test.
fn world(test: &str, size: u32) -> Processes {
    World::processes(size).command(own_binary(), only(test)).output(Output::Discard).time_limit(HUNG)
}

/// Whether this process is a rank (of `size` ranks, if several calls of one test start worlds of different sizes).
fn is_rank() -> bool {
    shm::launched_size().unwrap().is_some()
}

fn is_rank_of_another_size(size: u32) -> bool {
    shm::launched_size().unwrap().is_some_and(|found| found != size)
}

/// Is the rank, in a rank.
fn be_a_rank<T: Serialize + DeserializeOwned>(size: u32, body: impl FnOnce(&Mapped) -> T) {
    if is_rank() {
        World::processes(size).run(body).unwrap();
        unreachable!("a launched rank ends in the call");
    }
}

/// The results of all ranks that have handed one back.
fn results<T: DeserializeOwned>(outcome: &Outcome) -> Vec<Option<T>> {
    let read = |bytes: &Vec<u8>| (!bytes.is_empty()).then(|| serde_json::from_slice(bytes).unwrap());
    outcome.results.iter().map(read).collect()
}

/// A process for this test alone, which has set [`DRIVER`].
fn driver(test: &str) -> Command {
    let mut command = Command::new(own_binary());
    command.args(only(test)).env(DRIVER, "1").stdin(Stdio::null());
    command
}

fn is_driver() -> bool {
    std::env::var_os(DRIVER).is_some()
}

/// Runs `body` in a process of its own (and in its ranks).
fn alone(test: &str, body: impl FnOnce()) {
    if is_driver() {
        return body();
    }
    let output = driver(test).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Waits for something that must come.
#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < HUNG, "{what}: has not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The parent and the state of a process, if there is one.
fn parent_and_state(pid: u32) -> Option<(u32, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

/// The processes that `parent` has started, zombies included.
fn children(parent: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| parent_and_state(pid).is_some_and(|(found, _)| found == parent)).collect()
}

fn has_ended(pid: u32) -> bool {
    parent_and_state(pid).is_none_or(|(_, state)| state == 'Z')
}

fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
