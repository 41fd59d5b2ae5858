//! The examples run on threads and on processes, and check their own results.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Returns the path of an example that cargo has built beside the tests: `target/PROFILE/examples/NAME`.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("a test is in PROFILE/deps");
    let program = profile.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is missing: `cargo test` builds it, and after --test so does `cargo build --profile test --examples`",
        program.display()
    );
    program
}

fn run(name: &str, args: &[&str]) -> Output {
    // The program itself ends after a minute on processes; `timeout` ends it on threads.
    let program = example(name);
    Command::new("timeout").arg("90").arg(program).args(args).output().expect("coreutils' timeout runs it")
}

fn runs_everywhere(name: &str, outcome: &str) {
    for backend in ["local", "shm"] {
        for ranks in ["1", "2", "5"] {
            let output = run(name, &["--backend", backend, "--ranks", ranks]);
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && stdout.contains(outcome), "{ranks} ranks on {backend}: {output:?}");
        }
    }
}

#[test]
fn halo() {
    runs_everywhere("halo", "each equal to the sequential computation");
}

#[test]
fn hash_table() {
    runs_everywhere("hash_table", "every inserted key is found");
}

#[test]
fn work_stealing() {
    runs_everywhere("work_stealing", "every task was done exactly once");
}

fn survives(deaths: &str) {
    let output = run("survivors", &[deaths]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains(&format!("{deaths} times a rank was lost")), "{output:?}");
    assert_eq!(stdout.matches(" was killed: ").count().to_string(), deaths, "{stdout}");
}

#[test]
fn survivors() {
    survives("8");
}

#[test]
#[ignore = "a hundred jobs of four processes; .ci/run longer"]
fn longer_survivors_of_a_hundred_deaths() {
    survives("100");
}

#[test]
fn a_backend_that_was_not_built_says_how_to() {
    for backend in rmalab_atomics::Backend::ALL.into_iter().filter(|backend| !backend.is_built()) {
        let output = run("halo", &["--backend", backend.name()]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr.lines().count() == 1 && stderr.contains(&format!("--features {backend}")), "{stderr}");
    }
}

#[test]
fn a_bad_argument_is_one_line_and_exit_code_2() {
    let bad: [&[&str]; 5] =
        [&["--ranks", "0"], &["--ranks", "many"], &["--ranks"], &["--backend", "infiniband"], &["--colour", "red"]];
    for args in bad {
        let output = run("halo", args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(stderr.lines().count() == 1 && stderr.contains(&args.join(" ")), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}
