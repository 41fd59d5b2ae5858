//! The examples run, on threads and on processes. The stress program finds no fault in any lock, and finds faults in a
//! policy that locks nothing.

use std::process::{Command, Output};

/// Runs an example that cargo has built beside the tests: `target/PROFILE/examples/NAME`.
fn run(name: &str, args: &[&str]) -> Output {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("a test is in PROFILE/deps");
    let program = profile.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is missing: `cargo test` builds it, and after --test so does `cargo build --profile test --examples`",
        program.display()
    );
    Command::new("timeout").arg("120").arg(program).args(args).output().expect("coreutils' timeout runs it")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn counter() {
    for backend in ["local", "shm"] {
        let output = run("counter", &[backend]);
        assert!(output.status.success() && stdout(&output) == "[0, 1, 2, 3]\n", "{backend}: {output:?}");
    }
}

#[test]
fn every_lock_stands_the_stress() {
    for backend in ["local", "shm"] {
        let output = run("stress", &["--backend", backend, "--ranks", "3", "--acquisitions", "100"]);
        let lines = stdout(&output);
        assert!(output.status.success(), "{backend}: {output:?}");
        for name in rmalab_locks::PolicyKind::NAMES.iter().filter(|&&name| name != "nocheck") {
            let line = lines.lines().find(|line| line.split(' ').next() == Some(name));
            assert!(line.is_some_and(|line| line.ends_with("holds")), "{backend}, {name}: {lines}");
        }
    }
}

/// Without a lock the ranks disturb each other, which the program detects and reports. Two million acquisitions take so
/// long that the ranks run at the same time on any machine, even a busy one.
#[test]
fn the_stress_breaks_what_is_no_lock() {
    for backend in ["local", "shm"] {
        for (lock, acquisitions, code, verdict) in [("mcs", "20000", 0, "holds"), ("nocheck", "2000000", 1, "BROKEN")] {
            let args = ["--backend", backend, "--ranks", "4", "--acquisitions", acquisitions, "--lock", lock];
            let output = run("stress", &args);
            assert_eq!(output.status.code(), Some(code), "{backend}: {output:?}");
            let line = stdout(&output);
            assert!(line.starts_with(lock) && line.contains(verdict), "{backend}: {line}");
        }
    }
}

#[test]
fn a_bad_argument_of_the_stress_is_one_line_and_exit_code_2() {
    let bad: [&[&str]; 6] = [
        &["--ranks", "0"],
        &["--acquisitions", "-1"],
        &["--lock", "mcs-rw-pr"],
        &["--backend", "infiniband"],
        &["--seed"],
        &["--colour", "red"],
    ];
    for args in bad {
        let output = run("stress", args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(stderr.lines().count() == 1 && stderr.contains(&args.join(" ")), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}
