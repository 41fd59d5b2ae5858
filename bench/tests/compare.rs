//! `rmalab compare` as users run it: refused arguments, missing peers, and crashes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rmalab::document::Document;
use rmalab::finding::Value;

use crate::program::{rmalab, run, write_script};

/// Runs it with only the programs in `path`.
fn compare(arguments: &[&str], path: &Path) -> Output {
    rmalab(&["compare"]).args(arguments).env("PATH", path).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two operations, once, with the shortest budget.
fn short<'a>(report: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let report = report.to_str().expect("temporary folders have plain names");
    let common =
        ["--operations", "put-8,get-8", "--ranks", "2", "--repetitions", "1", "--budget", "1ms", "--report", report];
    [&common, more].concat()
}

#[test]
fn bad_arguments_are_refused_with_a_clear_line() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("report");
    for (arguments, says) in [
        (&["--operations", "put-9"][..], "did you mean 'put-8'"),
        (&["--operations", "put-8,"], "no operation is called ''"),
        (&["--ranks", "3"], "3 is not 2, 4 or 8"),
        (&["--budget", "10ns"], "at least 1ms"),
        (&["--budget", "10"], "100ns"),
        (&["--only", "moon"], "moon"),
        (&["--only", "locks", "--ranks", "2"], "apply to windows"),
        (&["--repetitions", "0"], "repetitions"),
        (&["--json"], "--format json"),
        (&["-o", "/nowhere/at/all.json"], "/nowhere/at/all.json"),
    ] {
        let output = compare(&[arguments, &["--report", report.to_str().unwrap()]].concat(), at.path());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(says), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!report.exists());
}

#[test]
fn an_interrupt_ahead_of_the_first_result_leaves_nothing() {
    // In the step that measures a cache line, and in the first step that measures locks.
    for after in [Duration::ZERO, Duration::from_secs(2)] {
        let at = tempfile::tempdir().unwrap();
        let report = at.path().join("report");
        let mut command = rmalab(&["compare", "--only", "locks", "--budget", "3s", "--report"]);
        let mut child = command.arg(&report).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("1/")));
        thread::sleep(after);
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let said: Vec<String> = lines.collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
        assert!(said.iter().any(|line| line.starts_with("interrupted before the first measurement")), "{said:?}");
        assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0, "{said:?}");
    }
}

#[test]
fn missing_peers_are_named_and_ours_is_still_measured() {
    let at = tempfile::tempdir().unwrap();
    let (empty, report) = (at.path().join("empty"), at.path().join("report"));
    fs::create_dir(&empty).unwrap();
    let output = compare(&short(&report, &[]), &empty);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for words in ["MPICH is skipped", "libmpich-dev", "Open MPI is skipped", "libopenmpi-dev"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let table = text(&output.stdout);
    assert!(table.contains("put 8 B, flush") && table.contains("get 8 B, flush") && table.contains(" ns"), "{table}");
    assert!(table.contains("MPICH is skipped"), "the notes say so, too: {table}");
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains("MPICH is skipped") && !at.path().join("report.unfinished").exists());
}

#[test]
fn a_crash_loses_one_row() {
    let at = tempfile::tempdir().unwrap();
    let (path, report) = (at.path().join("path"), at.path().join("report"));
    fs::create_dir(&path).unwrap();
    // A compiler whose programs are scripts: `-O3 -march=native -o PROGRAM SOURCE`. A launcher: `-n 2 PROGRAM ...`.
    write_script(&path.join("fake"), FAKE);
    let compiler = format!("#!/bin/sh\nexec /bin/cp {} \"$4\"\n", path.join("fake").display());
    write_script(&path.join("mpicc.mpich"), &compiler);
    write_script(&path.join("mpiexec.mpich"), "#!/bin/sh\nshift 2\n\"$@\"\n");
    let output = compare(&short(&report, &["--format", "json"]), &path);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let document = Document::from_json(&text(&output.stdout)).unwrap();
    let shown = rmalab::document::text::document(&document, usize::MAX);
    assert!(shown.contains("Fake 1.0") && shown.contains("crashes") && shown.contains("12.5 ns"), "{shown}");
    let data = document.data.unwrap();
    let theirs = |name: &str| {
        let is = |row: &[_], column, value| data.get(row, column).unwrap().to_string() == value;
        let row = data.rows.iter().find(|row| is(row, "implementation", "MPICH") && is(row, "what", name)).unwrap();
        ["time", "failure"].map(|column| data.get(row, column).unwrap().clone())
    };
    let [time, failure] = theirs("get-8");
    assert_eq!((time.value.number(), failure.value), (Some(12.5), Value::None));
    let [time, failure] = theirs("put-8");
    assert_eq!(time.value, Value::None);
    assert!(failure.to_string().starts_with("crashes (segmentation fault"), "{failure}");
    assert!(said.contains("Open MPI is skipped"), "{said}");
}

/// An MPI that crashes in put-8.
const FAKE: &str = "#!/bin/sh
echo 'version Fake 1.0'
shift
for name; do
    echo begin $name
    if [ $name = put-8 ]; then
        echo 'exited on signal 11 (Segmentation fault)' >&2
        exit 139
    fi
    echo row $name 12.5
done
echo done
";

#[test]
fn operations_are_listed() {
    let output = run(&["list", "operations"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).lines().any(|line| line.trim_start().starts_with("lock-exclusive")));
}
