//! Ranks that are processes: the guarantees of the launcher, the start-up and the process backend.
//!
//! A test starts its own binary again, for this same test, so that the ranks reach the same call. A test of the whole
//! process (descriptors, children, signals) runs in a separate process, the driver.

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

/// The time after which a test counts as hung.
const HUNG: Duration = Duration::from_secs(120);

/// The variable that marks a driver.
const DRIVER: &str = "RMALAB_TEST_DRIVER";

/// Returns the path of the test that contains it.
macro_rules! here {
    () => {
        $crate::processes::test_name(std::any::type_name_of_val(&|| ()))
    };
}
use here;

fn test_name(closure: &'static str) -> &'static str {
    let test = closure.split("::{{closure}}").next().unwrap_or_default();
    test.split_once("::").expect("a path in a crate").1
}

/// Returns the arguments with which this binary runs one test.
fn only(test: &str) -> [&str; 5] {
    [test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]
}

fn own_binary() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}

/// Returns a launcher of `size` ranks that run the same test.
fn launcher(test: &str, size: u32) -> Launcher {
    Launcher::new(size).command(own_binary(), only(test)).output(Output::Discard).time_limit(HUNG).grace(HUNG / 2)
}

/// Returns a world of `size` processes that run the same test.
fn world(test: &str, size: u32) -> Processes {
    World::processes(size).command(own_binary(), only(test)).output(Output::Discard).time_limit(HUNG)
}

/// Returns whether this process is a rank (of `size` ranks, if several calls of one test start worlds of different
/// sizes).
fn is_rank() -> bool {
    shm::launched_size().unwrap().is_some()
}

fn is_rank_of_another_size(size: u32) -> bool {
    shm::launched_size().unwrap().is_some_and(|found| found != size)
}

/// In a rank, runs `body` as that rank.
fn be_a_rank<T: Serialize + DeserializeOwned>(size: u32, body: impl FnOnce(&Mapped) -> T) {
    if is_rank() {
        World::processes(size).run(body).unwrap();
        unreachable!("a launched rank ends in the call");
    }
}

/// Returns the results of all ranks that have returned one.
fn results<T: DeserializeOwned>(outcome: &Outcome) -> Vec<Option<T>> {
    let read = |bytes: &Vec<u8>| (!bytes.is_empty()).then(|| serde_json::from_slice(bytes).unwrap());
    outcome.results.iter().map(read).collect()
}

/// Returns a command for this test alone, with [`DRIVER`] set.
fn driver(test: &str) -> Command {
    // The program that started this one may ignore signals, as `nohup` does.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT").arg(own_binary());
    command.args(only(test)).env(DRIVER, "1").stdin(Stdio::null());
    command
}

fn is_driver() -> bool {
    std::env::var_os(DRIVER).is_some()
}

/// Runs `body` in a separate process (and in its ranks).
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

/// Waits for a condition that must become true.
#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < HUNG, "{what}: has not happened");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the parent and the state of a process, if there is one.
fn parent_and_state(pid: u32) -> Option<(u32, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

/// Returns the processes that `parent` has started, including zombies.
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
