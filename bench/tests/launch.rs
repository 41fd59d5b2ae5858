//! `rmalab launch --hosts`: ranks on hosts of a simulated remote shell.
//!
//! A test starts its own binary, with its own name, as the ranks, so that the ranks reach the same call.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::fs;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rmalab_atomics::bootstrap::Membership;
use rmalab_atomics::{Error, Rank};
use rustix::process::{Pid, Signal};

use crate::program::{self, rmalab, stderr, write_script};

/// The time after which a step counts as hung.
const HUNG: Duration = Duration::from_secs(120);

/// The variable that marks a process as a rank of a test, with the folder of its files.
const FOLDER: &str = "RMALAB_TEST_FOLDER";

/// The prefix of a rank's output.
const MARK: &str = "said: ";

/// The path of the test with this macro.
macro_rules! here {
    () => {{
        let test = std::any::type_name_of_val(&|| ()).split("::{{closure}}").next().unwrap_or_default();
        test.split_once("::").expect("a path in a crate").1
    }};
}

/// In a rank, prints the result of `body`, and ends the process.
fn be_a_rank(body: impl FnOnce(&Membership, &Path) -> Result<String, i32>) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    // No other process would end a rank that hangs.
    std::thread::spawn(|| {
        std::thread::sleep(HUNG);
        std::process::exit(99)
    });
    let member = Membership::by_environment().unwrap();
    let result = body(&member, Path::new(&folder));
    let code = match result {
        Ok(said) => {
            println!("\n{MARK}{said}");
            drop(member);
            0
        }
        Err(code) => {
            member.fail();
            code
        }
    };
    std::process::exit(code)
}

/// Calls barriers until one rank fails, and returns the error.
fn wait_for_a_failure(member: &Membership) -> String {
    loop {
        match member.barrier() {
            Ok(()) => {}
            Err(Error::PeerFailed { rank }) => break format!("{rank} has failed"),
            Err(other) => break other.to_string(),
        }
    }
}

/// Writes this process's id and its parent's to the folder.
fn leave_pids(member: &Membership, folder: &Path) {
    let text = format!("{} {}", std::process::id(), parent_id());
    let (begun, done) = (folder.join(format!("{} begun", member.rank().0)), folder.join(member.rank().0.to_string()));
    fs::write(&begun, text).unwrap();
    fs::rename(begun, done).unwrap();
}

/// The folder of a test, with a remote shell that ignores the host.
struct Setting {
    folder: tempfile::TempDir,
}

impl Setting {
    fn new() -> Setting {
        let setting = Setting { folder: tempfile::tempdir().unwrap() };
        setting.shell("echo welcome to $host; RMALAB_HOST=$host exec sh -c \"$*\"");
        setting
    }

    /// Sets the command of the remote shell, after the host's name.
    fn shell(&self, does: &str) {
        let path = self.path("rsh");
        write_script(&path, &format!("#!/bin/sh\nhost=$1; shift\n{does}\n"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn launch(&self, test: &str, hosts: &str) -> Command {
        // A shell's background jobs ignore SIGINT, and the launcher respects that.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(rmalab(&[]).get_program());
        command.args(["launch", "--interface", "lo", "--hosts", hosts, "--rsh"]).arg(self.path("rsh"));
        command.arg("--").arg(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
        command.env(FOLDER, self.folder.path()).stdin(Stdio::null());
        command
    }

    fn start(&self, test: &str, hosts: &str) -> Child {
        self.launch(test, hosts).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The process ids of the ranks and of their parents, from the folder.
    fn pids(&self, size: u32) -> Vec<[i32; 2]> {
        let read = |rank: u32| {
            let text = fs::read_to_string(self.path(&rank.to_string())).ok()?;
            let (own, parent) = text.split_once(' ')?;
            Some([own.parse().unwrap(), parent.parse().unwrap()])
        };
        eventually("all ranks", || (0..size).all(|rank| read(rank).is_some()));
        (0..size).filter_map(read).collect()
    }
}

fn said(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut said: Vec<String> =
        text.lines().filter(|line| line.contains(MARK)).map(|line| line.replace(MARK, "")).collect();
    said.sort();
    said
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < HUNG, "{what}: has not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[track_caller]
fn are_gone(pids: &[[i32; 2]]) {
    let lives = |pid: i32| {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
    };
    eventually("the end of all processes", || !pids.iter().flatten().any(|&pid| lives(pid)));
}

#[test]
fn ranks_on_two_hosts_meet() {
    be_a_rank(|member, _| {
        // No secret is on a command line, and the ranks share no memory.
        let parent = fs::read_to_string(format!("/proc/{}/cmdline", parent_id())).unwrap();
        assert!(parent.contains("--part"), "{parent}");
        let hub = std::env::var("RMALAB_HUB").unwrap();
        let secret = hub.split_once('/').unwrap().1;
        assert!(!parent.contains(secret));
        assert!(rmalab_atomics::shm::attach().unwrap_err().to_string().contains("several hosts"));
        let all = member.allgather(&[member.rank().0 as u8]).unwrap();
        assert_eq!(all.concat(), (0..member.size() as u8).collect::<Vec<_>>());
        let greeting = std::env::var("RMALAB_TEST_GREETING").unwrap();
        Ok(format!("{greeting} {} of {:?}", member.topology().nodes(), member.hosts().join(",")))
    });
    let setting = Setting::new();
    let mut command = setting.launch(here!(), "a:2,b:3,c");
    let output = command.env("RMALAB_TEST_GREETING", "hello").output().unwrap();
    let expected: Vec<String> = (0..6).map(|rank| format!("[{rank}] hello 3 of \"a,a,b,b,b,c\"")).collect();
    assert_eq!(said(&output), expected, "{}", stderr(&output));
    assert!(output.status.success());
    assert!(stderr(&output).contains("b: welcome to b"), "{}", stderr(&output));
}

#[test]
fn the_first_failure_ends_the_job_and_is_its_exit_code() {
    be_a_rank(|member, _| if member.rank() == Rank(2) { Err(7) } else { Ok(wait_for_a_failure(member)) });
    let setting = Setting::new();
    let output = setting.launch(here!(), "a:2,b:2").output().unwrap();
    assert_eq!(said(&output), ["[0] rank 2 has failed", "[1] rank 2 has failed", "[3] rank 2 has failed"]);
    assert_eq!(output.status.code(), Some(7));
    let words = stderr(&output);
    assert!(words.contains("b: rank 2 (pid ") && words.contains("exited with code 7"), "{words}");
    assert!(!words.contains("panicked"), "{words}");
}

#[test]
fn a_killed_rank_is_detected_on_all_hosts() {
    be_a_rank(|member, folder| {
        leave_pids(member, folder);
        Ok(wait_for_a_failure(member))
    });
    let setting = Setting::new();
    let job = setting.start(here!(), "a:2,b:2");
    let pids = setting.pids(4);
    kill(pids[1][0], Signal::KILL);
    let output = job.wait_with_output().unwrap();
    assert_eq!(said(&output), ["[0] rank 1 has failed", "[2] rank 1 has failed", "[3] rank 1 has failed"]);
    assert_eq!(output.status.code(), Some(128 + 9), "{}", stderr(&output));
    are_gone(&pids);
}

#[test]
fn a_lost_host_ends_the_job() {
    be_a_rank(|member, folder| {
        leave_pids(member, folder);
        Ok(wait_for_a_failure(member))
    });
    let setting = Setting::new();
    let job = setting.start(here!(), "a:2,b:2");
    let pids = setting.pids(4);
    // The parent of rank 2: its host's launcher.
    kill(pids[2][1], Signal::KILL);
    let output = job.wait_with_output().unwrap();
    let said = said(&output);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said.iter().all(|line| line.ends_with("rank 2 has failed") || line.ends_with("rank 3 has failed")),
        "{said:?}"
    );
    assert_eq!(output.status.code(), Some(1));
    let words = stderr(&output);
    assert!(words.contains("b: the launcher on this host has not reported the end of rank 2"), "{words}");
    are_gone(&pids);
}

#[test]
fn a_killed_launcher_leaves_no_process() {
    be_a_rank(|member, folder| {
        leave_pids(member, folder);
        loop {
            std::thread::park();
        }
    });
    let setting = Setting::new();
    let mut job = setting.start(here!(), "a:2,b:2");
    let pids = setting.pids(4);
    job.kill().unwrap();
    job.wait().unwrap();
    are_gone(&pids);
}

#[test]
fn an_interrupt_reaches_the_ranks_of_all_hosts() {
    be_a_rank(|member, folder| {
        leave_pids(member, folder);
        loop {
            std::thread::park();
        }
    });
    let setting = Setting::new();
    let job = setting.start(here!(), "localhost:1,b:2");
    let pids = setting.pids(3);
    kill(i32::try_from(job.id()).unwrap(), Signal::INT);
    let output = job.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 2), "{}", stderr(&output));
    assert!(!stderr(&output).contains("(pid "), "no rank has failed by itself: {}", stderr(&output));
    are_gone(&pids);
}

/// Writes more than the buffers between a rank and the reader of the launcher's output can hold.
fn write_much(member: &Membership) {
    for number in 0..60_000 {
        println!("{} {number} {}", member.rank().0, "x".repeat(40));
    }
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_a_late_reader_gets_every_line_and_no_rank_is_lost() {
    be_a_rank(|member, _| {
        println!();
        write_much(member);
        member.barrier().unwrap();
        Ok("all is well".into())
    });
    let setting = Setting::new();
    let job = setting.start(here!(), "a:1,b:1");
    // Longer than the silence after which either side would count as lost.
    std::thread::sleep(Duration::from_secs(12));
    let output = job.wait_with_output().unwrap();
    assert_eq!(said(&output), ["[0] all is well", "[1] all is well"], "{}", stderr(&output));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for rank in 0..2 {
        let prefix = format!("[{rank}] {rank} ");
        let numbers =
            text.lines().filter_map(|line| line.strip_prefix(&prefix)?.split(' ').next()?.parse::<i32>().ok());
        assert!(numbers.eq(0..60_000), "the lines of rank {rank}");
    }
}

#[test]
fn two_signals_end_a_job_whose_output_no_process_reads() {
    be_a_rank(|member, folder| {
        leave_pids(member, folder);
        loop {
            write_much(member);
        }
    });
    let setting = Setting::new();
    let mut job = setting.start(here!(), "localhost:1,b:1");
    let pids = setting.pids(2);
    kill(i32::try_from(job.id()).unwrap(), Signal::INT);
    eventually("the end of the launcher", || {
        std::thread::sleep(Duration::from_millis(100));
        kill(i32::try_from(job.id()).unwrap(), Signal::INT);
        job.try_wait().unwrap().is_some()
    });
    assert!(!job.wait().unwrap().success());
    are_gone(&pids);
}

#[test]
fn a_rank_that_exits_without_leaving_is_named() {
    be_a_rank(|member, _| {
        member.barrier().unwrap();
        if member.rank() == Rank(2) {
            std::process::exit(0);
        }
        Ok(wait_for_a_failure(member))
    });
    let setting = Setting::new();
    let output = setting.launch(here!(), "a:2,b:2").output().unwrap();
    assert_eq!(said(&output), ["[0] rank 2 has failed", "[1] rank 2 has failed", "[3] rank 2 has failed"]);
    assert_eq!(output.status.code(), Some(1));
    let words = stderr(&output);
    assert!(words.contains("b: rank 2 (pid ") && words.contains("exited with code 0 without leaving"), "{words}");
}

#[test]
fn the_error_of_a_failed_remote_shell_has_its_output() {
    let setting = Setting::new();
    setting.shell("echo no route to $host >&2; exit 255");
    let output = setting.launch(here!(), "a:2").output().unwrap();
    assert_eq!(output.status.code(), Some(255));
    let words = stderr(&output);
    assert!(words.contains("a: no route to a") && words.contains("ended with exit code 255"), "{words}");
    setting.shell("echo rmalab part 2; echo what is this");
    let output = setting.launch(here!(), "a:2").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("not `rmalab launch --part` of this version"), "{}", stderr(&output));
}

#[test]
fn the_host_reports_a_missing_program() {
    let setting = Setting::new();
    let mut command = rmalab(&["launch", "--interface", "lo", "--hosts", "a:1", "--rsh"]);
    command.arg(setting.path("rsh"));
    let output = command.args(["--", "/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("a: error: no program /no/such/program"), "{}", stderr(&output));
}

#[test]
fn the_others_have_the_requested_time_after_a_failure() {
    // Rank 1 fails once rank 0 is ready. Rank 0 goes on for 4 seconds, unless it is stopped before.
    const RANKS: &str = r#"
        if [ "$RMALAB_RANK" = 1 ]; then
            until [ -e "$0/ready" ]; do sleep 0.01; done
            exit 3
        fi
        trap "echo was stopped; exit 0" TERM
        touch "$0/ready"
        sleep 4 & wait
        echo goes on
    "#;
    for (grace, says) in [("1s", "[0] was stopped\n"), ("60s", "[0] goes on\n")] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = rmalab(&["launch", "-n", "2", "--grace", grace, "--", "sh", "-c", RANKS]);
        let output = command.arg(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{grace}: {}", stderr(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), says, "{grace}");
    }
}

#[test]
fn a_program_that_does_not_start_gives_a_shells_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        write_script(&folder.path().join(name), text);
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let no_interpreter = script("no-interpreter", "#!/no/such/interpreter\n");
    let busy = script("busy", "#!/bin/sh\n");
    let _writer = fs::File::options().append(true).open(&busy).unwrap();
    for (program, code, says) in [
        ("rmalab-no-such-program", 127, "no program \"rmalab-no-such-program\" in PATH"),
        ("/no/such/program", 127, "no program /no/such/program"),
        (&no_interpreter, 127, "No such file"),
        ("/etc/passwd", 126, "/etc/passwd is not executable"),
        ("/usr", 126, "/usr is a folder"),
        (&busy, 126, "Text file busy"),
    ] {
        let output = program::run(&["launch", "-n", "2", "--", program]);
        assert_eq!(output.status.code(), Some(code), "{program}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{program}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{program}: {}", stderr(&output));
    }
}

#[test]
fn invalid_orders_are_refused() {
    for (arguments, code, says) in [
        (&["launch", "--part"][..], 1, "has no orders"),
        (&["launch", "--hosts", "a:x", "--", "true"], 2, "is no host"),
        (&["launch", "--hosts", "a:2", "-n", "3", "--", "true"], 2, "room for 2"),
        (&["launch", "--hosts", "a:2", "--", "true"], 1, "--interface is missing"),
        (&["launch", "--hosts", "a:2", "--interface", "no-such", "--", "true"], 1, "no-such"),
        (&["launch", "--hostfile", "/no/such/file", "--", "true"], 2, "/no/such/file"),
        (&["launch", "--hostfile", "/dev/zero", "--", "true"], 2, "the limit for such a file"),
        (&["launch", "--hosts", "a", "--hostfile", "b", "--", "true"], 2, "cannot be used with"),
        (&["launch", "--", "true"], 2, "-n"),
        (&["launch", "-n", "1", "--env", "=x", "--", "true"], 2, "NAME=VALUE"),
    ] {
        let output = program::run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
    }
}
