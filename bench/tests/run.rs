//! `rmalab run` as users run it.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rmalab::document::Document;
use rustix::process::{Pid, Signal};

use crate::program::{self, rmalab, stderr, stdout};

fn run(arguments: &[&str]) -> Output {
    rmalab(&["run"]).args(arguments).output().expect("the program starts")
}

#[test]
fn bad_arguments_are_refused_with_a_clear_line() {
    for (arguments, says) in [
        (&[][..], "no application is named"),
        (&["gohst"], "'ghost'"),
        (&["ghost", "--ranks", "0"], "'0' is not a number of ranks"),
        (&["ghost", "--ranks", "2,4"], "one world"),
        (&["ghost", "--ranks", "4:16:2"], "one world"),
        (&["ghost", "--ranks", "99999"], "--ranks 99999: this machine can have"),
        (&["ghost", "--backend", "mpi"], "mpi"),
        (&["ghost", "--profile", "gemini"], "add --backend sim"),
        (&["ghost", "--ranks-per-node", "2"], "add --backend sim"),
        (&["ghost", "--backend", "sim", "--profile", "gemeni"], "no profile is called \"gemeni\""),
        (&["ghost", "--repetitions", "0"], "repetitions"),
        (&["ghost", "--bytes", "12"], "--bytes 12: the length of a message must be a multiple of 8 bytes"),
        (&["ghost", "--sync", "hope"], "point-to-point"),
        (&["ghost", "--lock", "mcs-rw"], "mcs-rw-rp"),
        (&["ghost", "--fence", "deferred"], "the one-sided transport does not offer it"),
        (&["ghost", "--backend", "sim", "--transport", "two-sided-agent"], "a thread for each rank's agent"),
        (&["random-access", "--look-ahead", "1025"], "1025 is not in"),
        (&["random-access", "--log2-words", "1", "--ranks", "4"], "needs at least one word"),
        (&["random-access", "--how", "dart-get-put", "--backend", "sim"], "use get-put"),
        (&["random-access", "--how", "dart-get-put", "--lock", "mcs"], "its own windows"),
        (&["hash-table", "--inserts", "0"], "0 is not in"),
        (&["ycsb", "--workload", "g"], "possible values: a, b, c, d, e, f"),
        (&["ycsb", "--skew", "11"], "an exponent is a number from 0 to 10"),
        (&["ycsb", "--records", "0"], "0 is not in"),
        (&["dsde", "--how", "post"], "alltoall"),
        (&["dsde", "--bytes", "8"], "--bytes"),
    ] {
        let output = run(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(says), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn applications_run_on_every_backend() {
    let small = ["--ranks", "3"];
    for application in [
        &["ghost", "--iterations", "20", "--sync", "pscw"][..],
        &["random-access", "--log2-words", "10"],
        &["hash-table", "--inserts", "100", "--lock", "mcs-rw-rp"],
        &["ycsb", "--workload", "d", "--records", "50", "--operations", "100"],
        &["dsde", "--rounds", "10", "--how", "nbx"],
    ] {
        for backend in ["local", "shm", "sim"] {
            let output = run(&[application, &small, &["--backend", backend]].concat());
            let (told, said) = (stdout(&output), stderr(&output));
            assert!(output.status.success(), "{application:?} on {backend}: {said}");
            assert!(told.starts_with(application[0]) && told.lines().count() > 4, "{told}");
            assert_eq!(said, "", "{application:?} on {backend}");
        }
    }
}

fn launched(ranks: &str, arguments: &[&str]) -> Output {
    let mut command = rmalab(&["launch", "--segment", "32M", "-n", ranks, "--"]);
    let program = command.get_program().to_owned();
    command.arg(program).arg("run").args(arguments).output().expect("the program starts")
}

/// In a job of a launcher, all ranks have the same arguments, and only rank 0 prints.
#[test]
fn ranks_of_a_job_run_applications_together() {
    for application in [
        &["ghost", "--iterations", "20", "--repetitions", "3"][..],
        &["random-access", "--log2-words", "10"],
        &["hash-table", "--inserts", "100"],
        &["lattice"],
    ] {
        let output = launched("4", application);
        let (told, said) = (stdout(&output), stderr(&output));
        assert!(output.status.success(), "{application:?}: {said}");
        let head = format!("[0] {}, 4 processes over shm.", application[0]);
        assert!(told.starts_with(&head) && told.lines().count() > 4, "{told}");
        assert!(told.lines().all(|line| line.starts_with("[0]")), "{told}");
        assert_eq!(said, "", "{application:?}");
    }
    for (arguments, says) in [
        (&["ghost", "--ranks", "2"][..], "--ranks 2: a launcher started 3"),
        (&["ghost", "--backend", "sim"], "--backend shm, verbs or mpi"),
        (&["ghost", "--backend", "local"], "--backend shm, verbs or mpi"),
        (&["fft"], "multiple of the ranks"),
    ] {
        let output = launched("3", arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.matches("error: ").count(), 1, "one rank says it: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn the_data_are_json() {
    let output =
        run(&["--repetitions", "3", "ghost", "--iterations", "10", "--ranks", "2", "--format=json", "--quiet"]);
    let document = Document::from_json(&stdout(&output)).expect("JSON and nothing else");
    assert!(document.title.starts_with("ghost, 2 "), "{}", document.title);
    assert!(document.sections[1].text[0].contains("\"iterations\":10"), "{:?}", document.sections[1].text);
    assert_eq!(document.data.map(|runs| runs.rows.len()), Some(3));
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_wrong_result_is_reported_and_fails() {
    // Two words for two simulated ranks, whose updates by get and put often collide.
    let options = ["--log2-words", "1", "--updates", "2000", "--ranks", "2", "--backend", "sim"];
    let output = run(&[&["random-access", "--how", "get-put"], &options[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.starts_with("error: wrong result: random-access: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn applications_are_listed() {
    let output = program::run(&["list", "applications"]);
    let list = stdout(&output);
    let names: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(["ghost", "random-access", "hash-table", "dsde"].iter().all(|name| names.contains(name)), "{list}");
    // Jobs and sub-commands have the same names.
    for name in names {
        assert!(run(&[name, "--help"]).status.success(), "{name}");
    }
}

/// Counts the threads of a process.
fn threads(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/task")).map_or(0, Iterator::count)
}

/// Counts the processes whose parent is this one.
fn children(parent: u32) -> usize {
    let is_child = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let of = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(1)?.parse().ok());
        of == Some(parent)
    };
    let entries = fs::read_dir("/proc").expect("Linux has it");
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(|pid| is_child(pid)).count()
}

#[test]
fn an_interrupted_run_prints_one_line() {
    let signals = [(Signal::INT, 130), (Signal::TERM, 143)];
    for ((signal, code), backend) in signals.into_iter().flat_map(|signal| ["shm", "local"].map(|of| (signal, of))) {
        // A shell's background jobs ignore SIGINT, and the program respects that.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(rmalab(&[]).get_program());
        command.args(["run", "ghost", "--backend", backend, "--iterations", "1000000000", "--ranks", "3"]);
        let run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let start = Instant::now();
        // The threads of a process are its ranks, its first thread, and the one that waits for the signal.
        while if backend == "local" { threads(run.id()) < 5 } else { children(run.id()) < 3 } {
            assert!(start.elapsed() < Duration::from_secs(60), "the ranks have not started");
            std::thread::sleep(Duration::from_millis(5));
        }
        rustix::process::kill_process(Pid::from_child(&run), signal).unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!(stderr(&output), "interrupted\n");
        assert_eq!(output.status.code(), Some(code));
    }
}
