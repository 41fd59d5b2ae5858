//! The `rmalab` command as users run it: refused arguments, and written files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rmalab::document::Document;

use crate::program::{on_a_terminal, rmalab, run, stderr, stdout};

/// A copy of the program in `folder`. Another process writes it: a file that a child of another test holds open for writing
/// cannot be started.
fn copy_of_the_program(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).expect("temporary folders can be written");
    let copy = folder.join("rmalab");
    let copied = Command::new("cp").arg(rmalab(&[]).get_program()).arg(&copy).status().expect("cp starts");
    assert!(copied.success());
    copy
}

/// A study with cells of some milliseconds, and its report at `report`.
fn short_study<'a>(report: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let report = report.to_str().expect("temporary folders have plain names");
    let common = ["study", "--backend", "local", "--ranks", "2", "--duration", "10ms", "--report", report];
    [&common, more].concat()
}

#[test]
fn bad_arguments_are_refused_with_a_clear_line() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("report");
    for (arguments, says) in [
        (&["study", "--ranks", "0"][..], "'0' is not a number of ranks"),
        (&["study", "--ranks", "many"], "'many'"),
        (&["study", "--ranks", "2,99999"], "99999"),
        (&["study", "--lock", "mcs-rw-pr"], "did you mean 'mcs-rw-"),
        (&["study", "--lock", "tikcet"], "did you mean 'ticket'"),
        (&["study", "--lock", ""], "no lock is called ''"),
        (&["study", "--writers", "1.5"], "not from 0 to 100 %"),
        (&["study", "--writers", "-0.1"], "-0.1"),
        (&["study", "--writers", "NaN"], "not from 0 to 100 %"),
        (&["study", "--read-fraction", "0.9"], "--read-fraction is now: rmalab study --writers"),
        (&["study", "--duration", "10"], "100ns"),
        (&["study", "--duration", "10 parsecs"], "parsecs"),
        (&["study", "--duration", "0ms"], "above 0"),
        (&["study", "--duration", "18446744073709551615s"], "too long"),
        (&["study", "--critical-section", "10m", "--duration", "10ms"], "critical section"),
        (&["study", "--think-time", "2s", "--duration", "1s"], "think time"),
        (&["study", "--repetitions", "4294967295"], "repetitions"),
        (&["study", "--patience", "0s"], "above 0"),
        (&["study", "--critical-section", "long"], "critical-section"),
        (&["study", "--backend", "infiniband"], "infiniband"),
        (&["study", "--repetitions", "0"], "repetitions"),
        (&["study", "--ranks-per-node", "0"], "ranks-per-node"),
        (&["study", "--home", "2", "--ranks", "2"], "rank 2 does not exist"),
        (&["study", "--target", "moon"], "moon"),
        (&["study", "--json"], "--format json"),
        (&["study", "--csv=data.csv"], "--format csv"),
        (&["study", "-o", "/nowhere/at/all.json"], "/nowhere/at/all.json"),
        (&["report", "/nowhere/at/all.json"], "/nowhere/at/all.json"),
        (&["diff", "/proc/version", "/proc/version"], "not JSON"),
        (&["studdy"], "studdy"),
        (&["calibrate", "--duration", "0s"], "above 0"),
        (&["calibrate", "--name", "a b"], "letters, digits and hyphens"),
        (&["calibrate", "-o", "/nowhere/at/all.toml"], "/nowhere/at/all.toml"),
        (&["calibrate", "--out", "file.toml"], "--out is now: rmalab calibrate -o FILE"),
        (&["completions", "tea"], "tea"),
        (&["man", "/proc/version"], "/proc/version cannot be a folder: it is a file"),
        (&["run", "ghost", "--ranks", "2", "--bytes", "0"], "from 8 to"),
        (&["reproduce", "ib-sync,nosuch"], "no experiment is called 'nosuch'"),
        (&["verify", "--lock", "mcs", "--home", "first"], "'first' for '--home <RANK>': not a whole number"),
        (&["study", "--seed", "99999999999999999999"], "the number is too large"),
        (&["verify", "--lock", "MCS"], "did you mean 'mcs'?"),
        (&["verify", "--lock", "zebra"], "`rmalab list` prints the names"),
        (&["launch", "-n", "0", "--", "true"], "0 is not in"),
        (&["launch", "-n", "2"], "PROGRAM"),
        (&["launch", "-n", "2", "--segment", "much", "--", "true"], "much"),
        (&["preload"], "PROGRAM"),
        (&["preload", "--policy", "best", "--", "true"], "best"),
        (&["preload", "--mode", "fast", "--", "true"], "fast"),
        (&["preload", "--library", "/nowhere/at/all.so", "--", "true"], "/nowhere/at/all.so"),
        (&["preload", "--library", "/bin/sh", "--", "true"], "/bin/sh is not built for an MPI"),
    ] {
        let mut command = rmalab(arguments);
        if arguments[0] == "study" {
            command.arg("--report").arg(&report);
        }
        let output = command.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("error: ") && said.lines().next().unwrap().len() > 10, "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!report.exists());
}

#[test]
fn a_study_whose_result_goes_elsewhere_has_no_report_by_default() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("rmalab-report");
    let study = |more: &[&str]| {
        let common = ["study", "--backend", "local", "--ranks", "2", "--duration", "1ms", "--lock", "tas"];
        let output = rmalab(&common).args(more).current_dir(at.path()).output().unwrap();
        assert!(output.status.success(), "{more:?}: {}", stderr(&output));
        stderr(&output)
    };
    for more in
        [&["--format", "csv"][..], &["-o", "study.txt"], &["-o", "-", "-q"], &["--format", "json", "-o", "study.json"]]
    {
        study(more);
        assert!(!report.exists(), "{more:?}");
    }
    study(&["--format", "csv", "--report", "another"]);
    assert!(at.path().join("another/index.html").exists());
    assert!(study(&[]).contains("report: rmalab-report/index.html\n"));
    assert!(study(&["-q"]).starts_with("report: rmalab-report/index.html, in place of the report of "));
    for (command, says) in [
        (&["study"][..], "[default: rmalab-report; none with -o, or with a --format other than text]"),
        (&["compare"], "[default: rmalab-comparison; none "),
        (&["reproduce"], "[default: rmalab-reproduction; none "),
        (&["verify"], "[default: none]"),
        (&["simulate", "arena"], "[default: infiniband-ndr]"),
        (&["simulate", "arena"], "[default: 100%,50%,5%]"),
    ] {
        let help = stdout(&run(&[command, &["--help"]].concat()));
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(says), "{command:?}: {help}");
    }
}

#[test]
fn an_unknown_command_has_the_form_of_other_unknown_names() {
    for (arguments, says) in [
        (&["run", "nosuch"][..], "error: no application is called 'nosuch' ("),
        (&["run", "goost"], "error: no application is called 'goost'; did you mean 'ghost'?"),
        (&["stuby"], "error: no command is called 'stuby'; did you mean 'study'?"),
        (&["help", "study", "nosuch"], "error: no command is called 'nosuch'\n"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).starts_with(says), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_help_text_that_cannot_be_written_is_an_error() {
    for arguments in [&["study", "--help"][..], &["--version"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = rmalab(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).starts_with("error: ") && stderr(&output).lines().count() == 1, "{}", stderr(&output));
    }
}

#[test]
fn a_picture_of_a_lock_is_drawn_once() {
    let output = run(&["verify", "--mutant", "tas-split", "-q"]);
    let said = stdout(&output);
    assert_eq!((output.status.code(), said.matches("not saved; --save DIR").count()), (Some(1), 1), "{said}");
    assert!(said.matches(": mutual-exclusion after ").count() > 1, "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("scenario ")).count(), 1, "{said}");
}

#[test]
fn global_is_a_name_of_a_policy_everywhere() {
    let common =
        ["study", "--backend", "local", "--ranks", "2", "--duration", "1ms", "--format", "csv", "--lock", "global"];
    assert!(stdout(&run(&common)).contains("mcs-rw-rp,"));
    let simulated = run(&["simulate", "--lock", "global", "--ranks", "4", "--format", "csv", "-q"]);
    assert!(stdout(&simulated).contains("mcs-rw-rp"), "{}", stderr(&simulated));
    assert!(stdout(&run(&["list", "policies"])).contains("  global "));
    // Past the check of the arguments.
    for (program, code, says) in [
        ("/nowhere/at/all", 127, "there is no program /nowhere/at/all"),
        ("rmalab-no-such-program", 127, "there is no program rmalab-no-such-program"),
        ("/etc/passwd", 126, "/etc/passwd is not executable"),
    ] {
        let output = run(&["preload", "--policy", "global", "--", program]);
        assert_eq!(output.status.code(), Some(code), "{program}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{program}: {}", stderr(&output));
    }
    let output = run(&["run", "ghost", "--lock", "global", "--ranks", "2", "--iterations", "2", "--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Users set it, as SECURITY.md says: its value is a name, and no task of a rank.
#[test]
fn a_job_may_have_a_name() {
    for arguments in [&["list", "backends"][..], &["run", "ghost", "--ranks", "2", "--iterations", "2", "--quiet"]] {
        let output = rmalab(arguments).env("RMALAB_JOB", "cannot-be-guessed").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    }
}

/// The variables that a launcher of MPI ranks sets: this process is rank `rank` of `size`.
fn as_rank(rank: u32, size: u32, arguments: &[&str]) -> Output {
    let size = size.to_string();
    let mut command = rmalab(arguments);
    command.env("PMI_RANK", rank.to_string()).env("PMI_SIZE", &size).env("MPI_LOCALNRANKS", &size);
    command.output().expect("the program starts")
}

#[test]
fn missing_backends_name_the_remedy() {
    for backend in ["verbs", "mpi"] {
        let output = run(&["study", "--backend", backend]);
        let said = stderr(&output);
        // Without the feature: the build command. With it: mpi needs its launcher, verbs a device.
        let says = match rmalab::study::Backend::is_built(backend.parse().unwrap()) {
            false => format!("--features {backend}"),
            true if backend == "mpi" => "mpirun -n 4".to_owned(),
            true => continue,
        };
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("error: ") && said.lines().count() == 1 && said.contains(&says), "{said}");
    }
}

#[test]
fn ranks_of_a_job_report_wrong_arguments_once() {
    for (arguments, says) in [
        (&["study"][..], "--backend shm, verbs or mpi"),
        (&["study", "--backend", "local"], "--backend shm, verbs or mpi"),
        (&["study", "--backend", "shm", "--ranks", "2,4"], "start 4, or ask for fewer"),
    ] {
        let first = as_rank(0, 3, arguments);
        let said = stderr(&first);
        assert_eq!(first.status.code(), Some(2), "{said}");
        assert!(said.lines().count() == 1 && said.contains(says), "{said}");
        let other = as_rank(1, 3, arguments);
        assert_eq!((other.status.code(), stderr(&other)), (Some(2), String::new()));
    }
}

/// Worlds smaller than the job use some of its ranks, and only rank 0 prints and writes.
#[test]
fn the_ranks_of_a_job_measure_together() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("report");
    let program = rmalab(&[]).get_program().to_str().unwrap().to_owned();
    let report_at = report.to_str().unwrap();
    let study = ["study", "--backend", "shm", "--ranks", "1,2,3", "--lock", "mcs,rma-rw", "--duration", "20ms"];
    let more = ["--ranks-per-node", "2", "--report", report_at];
    let output = run(&[&["launch", "-n", "3", "--segment", "5M", "--", &program][..], &study, &more].concat());
    let (said, told) = (stderr(&output), stdout(&output));
    assert!(output.status.success(), "{said}");
    assert!(told.contains("mcs") && told.lines().all(|line| line.starts_with("[0]")), "{told}");
    assert!(said.lines().all(|line| line.starts_with("[0]")), "{said}");
    let document = Document::read(&report).unwrap();
    assert!(document.run.complete);
    let cells = document.data.unwrap();
    assert_eq!(cells.rows.len(), 3 * 2 * 2);
    for cell in &cells.rows {
        let get = |column: &str| cells.get(cell, column).unwrap().value.number();
        assert!(get("throughput").unwrap() > 0.0, "{cell:?}");
        let side = if get("reader acquire p50").is_none() { "writer" } else { "reader" };
        let operations =
            ["own", "same node", "other node"].map(|far| get(&format!("{side} operations {far}")).unwrap());
        assert!(operations.iter().sum::<f64>() >= 2.0, "{cell:?}");
        // The third rank is on a separate node.
        assert!(operations[2] == 0.0 || get("ranks") == Some(3.0), "{cell:?}");
    }
}

#[test]
fn help_reads_like_a_manual() {
    let help = stdout(&run(&["--help"]));
    for part in ["Usage:", "Examples:", "Exit codes:", "Environment:", "completions"] {
        assert!(help.contains(part), "{part} is missing:\n{help}");
    }
    assert!(stdout(&run(&["study", "--help"])).contains("--critical-section"));
    assert!(stdout(&run(&["--version"])).starts_with("rmalab "));
}

#[test]
fn everything_is_listed() {
    let output = run(&["list"]);
    assert!(output.status.success());
    let list = stdout(&output);
    for name in ["mcs-rw-rp", "two-level", "nocheck", "local", "shm", "verbs", "mpi", "rmalab list mutants"] {
        assert!(list.contains(name), "{name} is missing:\n{list}");
    }
    assert!(list.lines().count() < 200, "the list of all kinds is short:\n{list}");
    assert!(stdout(&run(&["list", "locks"])).contains("fairness: "));
    let kinds = ["locks", "policies", "backends", "profiles", "experiments", "mutants", "applications", "operations"];
    let data: serde_json::Value = serde_json::from_slice(&run(&["list", "--format", "json"]).stdout).unwrap();
    for kind in kinds {
        let one: serde_json::Value = serde_json::from_slice(&run(&["list", kind, "--format", "json"]).stdout).unwrap();
        assert_eq!(one[kind], data[kind], "{kind}");
        let all = one[kind].as_array().unwrap();
        assert!(all.len() >= 4 && one.as_object().unwrap().len() == 1, "{kind}: {one}");
        let text = stdout(&run(&["list", kind]));
        for named in all {
            assert!(!named["description"].as_str().unwrap().is_empty(), "{named}");
            assert!(text.contains(named["name"].as_str().unwrap()), "{named}:\n{text}");
        }
    }
    assert_eq!(run(&["list", "moons"]).status.code(), Some(2));
}

#[test]
fn lists_fit_the_terminal() {
    let kinds = ["locks", "policies", "backends", "profiles", "experiments", "mutants", "applications", "operations"];
    let single = kinds.iter().map(|kind| vec!["list", kind]);
    for arguments in single.chain([vec!["list"], vec!["verify", "mutants"]]) {
        let piped = stdout(&run(&arguments));
        assert!(piped.lines().any(|line| line.chars().count() > 40), "{arguments:?} needs no wrapping:\n{piped}");
        for columns in [40, 80] {
            let text = on_a_terminal(columns, &arguments);
            let fits = |line: &str| line.chars().count() <= columns as usize || !line.trim_start().contains(' ');
            let wide: Vec<&str> = text.lines().filter(|line| !fits(line)).collect();
            assert!(wide.is_empty(), "{arguments:?}, {columns} columns: {wide:#?}");
            assert!(text.split_whitespace().eq(piped.split_whitespace()), "{arguments:?}:\n{text}");
        }
    }
}

#[test]
fn no_arguments_print_suggestions_and_cargo_run_is_the_main_study() {
    let short = rmalab(&[]).env_remove("CARGO_MANIFEST_DIR").output().unwrap();
    let told = stdout(&short);
    assert!(short.status.success() && told.lines().count() < 12, "{told}");
    for command in ["rmalab study", "rmalab verify --lock mcs-rw-rp", "rmalab verify --mutant tas-split"] {
        assert!(told.contains(command), "{told}");
    }
    // Under `cargo run` it starts to measure.
    let at = tempfile::tempdir().unwrap();
    let mut command = rmalab(&[]);
    command.env("CARGO_MANIFEST_DIR", "/any").current_dir(at.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().is_some_and(|line| line.starts_with("study: ")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_older_option_name_suggests_the_new_one() {
    for (arguments, now) in [
        (&["study", "--locks", "mcs"][..], "rmalab study --lock"),
        (&["study", "--locks=mcs"], "rmalab study --lock"),
        (&["advise", "work.toml", "--policies", "mcs"], "rmalab advise --lock"),
        (&["verify", "--replay", "one.json"], "rmalab verify replay FILE"),
        (&["verify", "--list-mutants"], "rmalab verify mutants"),
        (&["verify", "--kill-matrix", "all.md"], "cargo xtask kill-matrix FILE"),
        (&["verify", "--table", "all.md"], "rmalab verify --format markdown -o FILE"),
        (&["simulate", "--validate"], "rmalab simulate validate"),
        (&["simulate", "--scale"], "cargo xtask scale"),
        (&["reproduce", "--list"], "rmalab list experiments"),
        (&["run", "--list"], "rmalab list applications"),
        (&["compare", "--list"], "rmalab list operations"),
    ] {
        let output = run(arguments);
        let said = stderr(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{arguments:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(now), "{arguments:?}: {said}");
    }
}

/// The study and the simulations parse sweeps of ranks and shares alike.
#[test]
fn a_study_accepts_sweeps_and_percentages() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("report");
    let arguments = ["study", "--backend", "local", "--ranks", "1:4:2", "--lock", "nocheck", "--writers", "0,10%"];
    let output = rmalab(&arguments).args(["--duration", "5ms", "--quiet", "--report"]).arg(&report).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let cells = Document::read(&report).unwrap().data.unwrap();
    let get = |column: &str| {
        let values = cells.rows.iter().map(|cell| cells.get(cell, column).unwrap().value.number().unwrap());
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    assert_eq!((get("ranks"), get("read fraction")), (vec![1.0, 2.0, 4.0], vec![0.9, 1.0]));
}

/// The journal stays until the report is written, so an unwritable folder loses no results. A second run does not
/// write to the journal of the first.
#[test]
fn a_report_that_cannot_be_written_loses_nothing() {
    let at = tempfile::tempdir().unwrap();
    let (report, kept) = (at.path().join("report"), at.path().join("report.unfinished"));
    let reproduce = || {
        let mut command = rmalab(&["reproduce", "mpich2-ops", "--report"]);
        command.arg(&report).stdout(Stdio::null());
        command
    };
    let mut first = reproduce().stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(first.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("reproduce: ")));
    let second = reproduce().output().unwrap();
    assert_eq!(second.status.code(), Some(2), "{}", stderr(&second));
    assert!(stderr(&second).contains("another run"), "{}", stderr(&second));
    // Puts a file in the report's place during the measurement.
    fs::create_dir(&report).unwrap();
    fs::write(report.join("thesis.tex"), "mine").unwrap();
    let said: Vec<String> = lines.collect();
    assert!(!first.wait().unwrap().success(), "{said:?}");
    assert!(kept.exists(), "{said:?}");
    fs::remove_dir_all(&report).unwrap();
    let again = reproduce().output().unwrap();
    assert!(again.status.success() && stderr(&again).contains("resuming"), "{}", stderr(&again));
    assert!(report.join("index.html").exists() && !kept.exists());
}

#[test]
fn every_command_has_a_manual_page() {
    let at = tempfile::tempdir().unwrap();
    let folder = at.path().join("man");
    let output = run(&["man", folder.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    for page in ["rmalab", "rmalab-study", "rmalab-verify", "rmalab-verify-replay", "rmalab-launch"] {
        let text = fs::read_to_string(folder.join(format!("{page}.1"))).expect(page);
        assert!(text.contains(".SH NAME"), "{page}: {text}");
    }
    let refused = run(&["man", "/proc/man"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("/proc/man"), "{}", stderr(&refused));
}

/// The help and the book have the same table of the variables that users set.
#[test]
fn the_environment_is_one_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/environment.md");
    let page = fs::read_to_string(page).unwrap();
    let table = page.split("## For users").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let help = stdout(&run(&["--help"]));
    let help = help.split("Environment:\n").nth(1).unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert!(rows.len() > 10);
    let told = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in &rows {
        let line = format!("{} {}", row[0].trim_matches('`'), row[2].replace('`', ""));
        assert!(told.contains(&line), "the help lacks: {line}\n{help}");
    }
    let variables = help.lines().filter(|line| line.starts_with("  RMALAB_") || line.starts_with("  NO_COLOR"));
    assert_eq!(variables.count(), rows.len(), "{help}");
}

/// A closed reader, such as `head`, is no failure; a full disk is.
#[test]
fn a_closed_reader_is_no_failure() {
    for arguments in [&["completions", "bash"][..], &["list"], &["--help"], &["list", "experiments"]] {
        let mut child = rmalab(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{arguments:?}");
    }
    // Nor is a closed reader of standard error.
    let mut child = rmalab(&["verify", "--lock", "tas", "--scenario", "2Wx1"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_full_disk_is_an_error() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("report");
    let study = short_study(&report, &["--lock", "nocheck"]);
    for arguments in [
        &["completions", "bash"][..],
        &["list"],
        &["verify", "--lock", "tas", "--scenario", "2Wx1"],
        &["simulate", "--lock", "nocheck", "--ranks", "4", "--pairs", "1"],
        &study,
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = rmalab(arguments).stdout(full).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("standard output: "), "{arguments:?}: {said}");
    }
}

/// The kernel holds root to no number of processes, so root runs the study as another user.
#[test]
fn too_few_processes_are_an_error() {
    let at = tempfile::tempdir().unwrap();
    fs::set_permissions(at.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = copy_of_the_program(at.path());
    for backend in ["local", "shm"] {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", "ulimit -u 1; exec \"$@\"", "bash"]).arg(&program).stdin(Stdio::null());
        command.args(["study", "--backend", backend, "--ranks", "2", "--duration", "10ms", "--lock", "tas"]);
        command.arg("--report").arg(at.path().join("report")).current_dir(at.path());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let output = command.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{backend}: {said}");
        assert!(said.contains("ulimit -u") && !said.contains("panicked"), "{backend}: {said}");
    }
}

#[test]
fn completions_know_the_options() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&run(&["completions", shell])).contains("critical-section"), "{shell}");
    }
}

#[test]
fn a_short_study_writes_a_complete_report() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("deep/below/report");
    let output = run(&short_study(&report, &["--writers", "0,50%", "--ranks-per-node", "1"]));
    assert!(output.status.success(), "{}", stderr(&output));

    let document = Document::read(&report).unwrap();
    assert!(document.run.complete && document.run.generator.starts_with("rmalab "));
    assert!(document.run.command.contains("--writers 0,50%"), "{}", document.run.command);
    assert!(document.machine.rustc.starts_with("rustc "));
    assert!(!document.summary.is_empty(), "there is no verdict in words");
    let subjects = document.sections.iter().find(|section| section.id == "subjects").unwrap();
    let names: Vec<String> = subjects.finding.tables[0].rows.iter().map(|row| row[0].to_string()).collect();
    let cells = document.data.as_ref().unwrap();
    assert_eq!(cells.rows.len(), 2 * names.len());
    let mut mixed = 0;
    for cell in &cells.rows {
        let get = |column: &str| cells.get(cell, column).unwrap();
        let throughput = get("throughput");
        assert!(throughput.value.number().unwrap() > 0.0 && throughput.spread.is_some(), "{cell:?}");
        let has = |side: &str| get(&format!("{side} acquire p99.9")).value.number().is_some();
        if get("read fraction").value.number() == Some(1.0) {
            assert!(has("reader") && !has("writer"), "{cell:?}");
        } else {
            // A rank without a processor makes a single acquisition, which reads or writes.
            assert!(has("reader") || has("writer"), "{cell:?}");
            mixed += usize::from(has("reader") && has("writer"));
        }
        let jain = get("Jain index").value.number().unwrap();
        assert!((0.5..=1.0 + 1e-9).contains(&jain), "{cell:?}");
    }
    assert!(mixed > 0, "no cell has readers and writers");

    let mut csv = csv::Reader::from_path(report.join("data.csv")).unwrap();
    let columns = csv.headers().unwrap().clone();
    assert!(columns.iter().any(|column| column == "writer acquire p99.9 [ns]"), "{columns:?}");
    assert_eq!(csv.records().map(Result::unwrap).count(), cells.rows.len());

    let page = fs::read_to_string(report.join("index.html")).unwrap();
    for name in &names {
        assert!(page.contains(name), "{name} is not on the page");
    }
    for reference in ["src=", "url(", "@import", "<link", "fetch(", "http://", "href=\"http"] {
        assert!(!page.contains(reference), "the page refers to something: {reference}");
    }
    let mut plots: Vec<_> = fs::read_dir(report.join("plots"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    plots.sort();
    for name in
        ["fairness-100", "fairness-50", "median-100", "operations-readers-100", "readers-writers-50", "throughput-50"]
    {
        assert!(plots.contains(&format!("local-{name}.svg")), "{name} is none of {plots:?}");
    }

    let table = stdout(&output);
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
    // The report can be rendered again, and is no worse than itself.
    let at_report = report.to_str().unwrap();
    assert_eq!(stdout(&run(&["report", at_report])), table);
    let same = run(&["diff", at_report, at_report]);
    assert!(same.status.success() && stdout(&same).contains("0 worse, 0 better"), "{}", stdout(&same));
    // Another run replaces it, and says so.
    let output = run(&short_study(&report, &["--lock", "tas"]));
    let replaced = format!("in place of the report of {}", document.run.started);
    assert!(stderr(&output).contains(&replaced), "{}", stderr(&output));
    let output = run(&short_study(&report, &["--lock", "nocheck", "--quiet"]));
    let said = stderr(&output);
    assert!(output.status.success() && said.contains("in place of the report") && said.lines().count() == 1, "{said}");
    assert!(!fs::read_to_string(report.join("index.html")).unwrap().contains("mcs-rw-rp"));
    assert_eq!(fs::read_dir(report.parent().unwrap()).unwrap().count(), 1, "a draft was left behind");
}

#[test]
fn operations_are_counted_by_distance() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("report");
    let more = ["--lock", "two-level", "--writers", "0", "--ranks-per-node", "1", "--format=json", "--quiet"];
    let output = run(&short_study(&report, &more));
    let cells = Document::from_json(&stdout(&output)).unwrap().data.unwrap();
    let operations = |distance: &str| {
        let cell = cells.get(&cells.rows[0], &format!("reader operations {distance}"));
        cell.unwrap().value.number().unwrap()
    };
    // lock_all and unlock_all are one operation each, at the master, since no rank locks exclusively.
    let all = operations("own") + operations("same node") + operations("other node");
    assert!((all - 2.0).abs() < 1e-9, "{all}");
    assert_eq!(operations("same node"), 0.0);
}

/// Threads and processes acquire locks of a table, drawn or of a trace.
#[test]
fn a_study_over_a_table_runs_on_real_backends() {
    let at = tempfile::tempdir().unwrap();
    let trace = at.path().join("t.csv");
    let written =
        run(&["simulate", "trace", "tpcc", "--size", "1", "--transactions", "300", "-o", trace.to_str().unwrap()]);
    assert!(written.status.success(), "{}", stderr(&written));
    let trace = format!("trace={}", trace.display());
    let report = at.path().join("report");
    for (table, shares) in [("4:zipf=1", "0.5"), ("1k:local=50%:homes=2", "0,0.5"), (&trace, "")] {
        let mut arguments =
            vec!["study", "--ranks", "2", "--duration", "10ms", "--repetitions", "2", "--format", "json", "-q"];
        arguments.extend(["--lock", "mcs,shiftlock,two-level,tas-rw", "--table", table]);
        arguments.extend(["--report", report.to_str().unwrap()]);
        if !shares.is_empty() {
            arguments.extend(["--writers", shares]);
        }
        let output = run(&arguments);
        assert!(output.status.success(), "{table}: {}", stderr(&output));
        let document = Document::from_json(&stdout(&output)).unwrap();
        let data = document.data.unwrap();
        let rows = &data.rows;
        assert_eq!(rows.len(), 2 * 4 * shares.split(',').count(), "{table}");
        let column = |name: &str| data.columns.iter().position(|column| column.name == name).unwrap();
        let (throughput, violations) = (column("throughput"), column("violations"));
        for row in rows {
            assert!(row[throughput].value.number().unwrap() > 0.0, "{table}");
            assert_eq!(row[violations].value.number(), Some(0.0), "{table}");
        }
    }
}

#[test]
fn wrong_tables_of_a_study_are_one_line() {
    for (arguments, part) in [
        (&["--table", "0"][..], "not a number of locks from 1"),
        (&["--table", "trace=no-such.csv"], "no-such.csv: "),
        (&["--table", "1000M", "--lock", "mcs", "--ranks", "2"], "a table of 1,000,000,000 locks of mcs takes"),
        (&["--table", "10", "--target", "random"], "--target"),
        (&["--table", "10", "--home", "1"], "--home"),
        (&["--table", "10:homes=4", "--ranks", "2,8"], "a table at 4 ranks does not fit a world of 2"),
    ] {
        let output = run(&[&["study", "-q", "--repetitions", "1", "--duration", "10ms"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
}

/// Every write fails, as on a full disk: the length of files is limited to 0.
#[test]
fn a_new_file_that_cannot_be_written_completely_is_removed() {
    let broken = ["verify", "--lock", "tas", "--scenario", "2Wx1", "--network", "hca-owner-cpu", "--home", "0"];
    for arguments in [
        &[&broken[..], &["--save", "new.json"]].concat()[..],
        &[&broken[..], &["--svg", "new.svg"]].concat(),
        &["simulate", "--lock", "tas", "--ranks", "2", "--pairs", "5", "-o", "new.txt"],
        &["simulate", "trace", "tatp", "--transactions", "5", "-o", "new.csv"],
    ] {
        let at = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]).arg(rmalab(&[]).get_program());
        let output = shell.args(arguments).current_dir(at.path()).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let said = stderr(&output);
        assert!(said.contains("error: new.") && said.contains("File too large"), "{arguments:?}: {said}");
        assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0, "{arguments:?}: {said}");
    }
}

/// The files are limited to 4 KiB, so that the report does not fit.
#[test]
fn a_report_that_does_not_fit_is_reported_by_its_name() {
    let at = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""]).arg(rmalab(&[]).get_program());
    let output = shell.args(short_study(Path::new("report"), &["--quiet"])).current_dir(at.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.starts_with("error: report/") && said.contains("File too large"), "{said}");
    assert_eq!((said.lines().count(), fs::read_dir(at.path()).unwrap().count()), (1, 0), "{said}");
}

/// A program that reads the file must not take an empty or a cut one for a result.
#[test]
fn a_command_without_a_complete_result_leaves_no_new_file() {
    let at = tempfile::tempdir().unwrap();
    let (new, old) = (at.path().join("new"), at.path().join("old"));
    for (arguments, begins) in [
        (&["simulate", "trace", "tatp", "--transactions", "1G", "-o"][..], false),
        (&["study", "--backend", "local", "--ranks", "2", "--lock", "nocheck", "--duration", "60s", "-o"], true),
    ] {
        for file in [&new, &old] {
            fs::write(&old, "older").unwrap();
            let mut child = rmalab(arguments).arg(file).stderr(Stdio::piped()).spawn().unwrap();
            // A signal ahead of the handler would end the program at once.
            while !begins && fs::metadata(file).map_or(0, |file| file.len()) < 100 {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
            assert!(!begins || lines.any(|line| line.starts_with("study: ")));
            std::thread::sleep(std::time::Duration::from_millis(if begins { 500 } else { 0 }));
            assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
            let said: Vec<String> = lines.collect();
            assert_eq!(child.wait().unwrap().code(), Some(130), "{arguments:?}: {said:?}");
            assert_eq!(said.iter().filter(|line| line.starts_with("interrupted")).count(), 1, "{said:?}");
            assert!(!new.exists(), "{arguments:?}");
        }
        // The study has not begun to write.
        assert_eq!(fs::read_to_string(&old).unwrap(), if begins { "older" } else { "" }, "{arguments:?}");
    }
}

#[test]
fn data_can_go_to_standard_output_and_to_files() {
    let at = tempfile::tempdir().unwrap();
    let (report, file) = (at.path().join("report"), at.path().join("data.json"));
    let locks = ["--lock", "nocheck,two-level", "--quiet"];
    let output =
        run(&short_study(&report, &[&locks[..], &["--format", "json", "-o", file.to_str().unwrap()]].concat()));
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    let cells = Document::read(&file).unwrap().data.unwrap();
    let output = run(&["report", file.to_str().unwrap(), "--format", "csv", "-o", "-"]);
    let records = csv::Reader::from_reader(&output.stdout[..]).records().map(Result::unwrap).count();
    assert_eq!((records, cells.rows.len()), (4, 4));
    let output = run(&["report", file.to_str().unwrap(), "--format", "markdown"]);
    assert!(stdout(&output).starts_with("# Locks over network atomics\n"), "{}", stdout(&output));
    // A full disk is an error.
    let full = fs::File::create("/dev/full").unwrap();
    let to_standard_output = rmalab(&["report", file.to_str().unwrap()]).stdout(full).output().unwrap();
    let to_file = run(&["report", file.to_str().unwrap(), "-o", "/dev/full"]);
    for (output, place) in [(to_standard_output, "standard output"), (to_file, "/dev/full")] {
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with(&format!("error: {place}: the disk is full: ")), "{said}");
        assert!(said.contains("free some space or name a place on another disk"), "{said}");
    }
}

#[test]
fn folders_that_cannot_hold_a_report_are_refused_before_the_measurement() {
    let at = tempfile::tempdir().unwrap();
    let file = at.path().join("file");
    fs::write(&file, "mine").unwrap();
    let foreign = at.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("data.json"), "{}").unwrap();
    for (folder, says) in [
        (file.clone(), "it is a file"),
        (file.join("below"), "Not a directory"),
        (foreign.clone(), "not written by rmalab"),
        (Path::new("/proc/report").to_owned(), "cannot be"),
    ] {
        // A measurement would take a minute.
        let output = run(&["study", "--duration", "60s", "--report", folder.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
    assert_eq!(fs::read_to_string(foreign.join("data.json")).unwrap(), "{}");
}

#[test]
fn an_interrupted_study_keeps_its_measurements() {
    interrupted("local", "INT", 130);
    interrupted("shm", "INT", 130);
}

#[test]
fn a_terminated_study_keeps_its_measurements() {
    interrupted("local", "TERM", 143);
}

/// A complete report is worth more than a report without a cell.
#[test]
fn a_study_that_is_interrupted_at_once_leaves_the_older_report() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("report");
    assert!(run(&short_study(&report, &["--lock", "nocheck", "--quiet"])).status.success());
    let older = fs::read(report.join("index.html")).unwrap();
    let arguments =
        ["study", "--backend", "local", "--ranks", "2", "--lock", "nocheck", "--duration", "60s", "--report"];
    let mut child = rmalab(&arguments).arg(&report).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("study: ")));
    // A signal ahead of the study's handler would end it without a message.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let said: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(said.iter().any(|line| line.contains("an older report is unchanged")), "{said:?}");
    assert_eq!(fs::read(report.join("index.html")).unwrap(), older);
}

#[test]
fn processes_can_be_ranks() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("report");
    let arguments = [
        "study",
        "--backend",
        "shm",
        "--lock",
        "mcs,mcs-rw-rp,rma-rw",
        "--ranks",
        "1,3",
        "--duration",
        "10ms",
        "--report",
    ];
    let output = rmalab(&arguments).arg(&report).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let document = Document::read(&report).unwrap();
    let subjects = document.sections.iter().find(|section| section.id == "subjects").unwrap();
    assert_eq!(document.data.unwrap().rows.len(), 2 * 2 * subjects.finding.tables[0].rows.len());
    assert!(report.join("plots/shm-throughput-100.svg").exists());
}

#[test]
fn launched_programs_are_ranks_and_their_exit_code_is_returned() {
    let output = run(&["launch", "-n", "3", "--", "/bin/sh", "-c", "echo $RMALAB_RANK of $RMALAB_SIZE"]);
    let mut lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["[0] 0 of 3", "[1] 1 of 3", "[2] 2 of 3"], "{}", stderr(&output));
    assert_eq!(run(&["launch", "-n", "2", "--", "/bin/sh", "-c", "exit 7"]).status.code(), Some(7));
    let missing = run(&["launch", "-n", "2", "--", "/no/such/program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("/no/such/program"), "{}", stderr(&missing));
}

#[test]
fn a_preload_without_a_library_says_how_to_build_one() {
    // Beside the program that the tests use there may be libraries.
    let alone = tempfile::tempdir().unwrap();
    let program = copy_of_the_program(&alone.path().join("bin"));
    let output = Command::new(program).args(["preload", "--", "/bin/sh", "-c", "exit 7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    let folder = alone.path().canonicalize().unwrap().join("bin");
    assert!(said.starts_with(&format!("error: no librmalab_mpi.so is found in {}, ", folder.display())), "{said}");
    assert!(said.contains(": build it in this folder by "), "{said}");
}

/// Writes a library that loads a shared library with the name of an MPI's.
fn library_for(mpi: &str, folder: &Path) {
    fs::create_dir_all(folder).expect("temporary folders can be written");
    let cc = |arguments: &[&str]| {
        let status = Command::new("cc").args(["-shared", "-nostdlib"]).args(arguments).current_dir(folder).status();
        assert!(status.expect("cc starts").success(), "cc makes a library");
    };
    cc(&[&format!("-Wl,-soname,{mpi}"), "-o", mpi, "-x", "c", "/dev/null"]);
    cc(&["-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed", mpi, "-o", "librmalab_mpi.so"]);
}

#[test]
fn a_preload_of_two_mpis_runs_programs_without_mpi_and_asks_for_the_others() {
    let at = tempfile::tempdir().unwrap();
    // One beside the program, and one in the current folder's target.
    let program = copy_of_the_program(&at.path().join("bin"));
    library_for("libmpich.so.12", &at.path().join("mpich/measure"));
    library_for("libmpi.so.40", &at.path().join("here/target/openmpi/release"));
    let script = at.path().join("script");
    // Another process writes it, like the program.
    let made = Command::new("install").args(["-m", "755", "/dev/stdin"]).arg(&script).stdin(Stdio::null()).status();
    assert!(made.unwrap().success());
    let preload = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("preload").args(arguments).current_dir(at.path().join("here")).output().unwrap()
    };
    for (arguments, code) in [(&["--", "/bin/false"][..], 1), (&["--mode", "off", "--", "sleep", "0.01"], 0)] {
        let output = preload(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.starts_with("note: ") && said.contains("loads no MPI at its start"), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
    for line in
        [&["--", script.to_str().unwrap()][..], &["--", "nice", script.to_str().unwrap()], &["--", "sh", "-c", "true"]]
    {
        let output = preload(line);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.starts_with("error: cannot tell which MPI the program uses: name its library by --library: "),
            "{said}"
        );
        assert!(said.contains("mpich/measure/librmalab_mpi.so for MPICH (libmpich.so.12), "), "{said}");
        assert!(said.contains("target/openmpi/release/librmalab_mpi.so for Open MPI (libmpi.so.40)"), "{said}");
    }
}

#[test]
fn a_preload_checks_the_folder_of_records_before_the_start() {
    let at = tempfile::tempdir().unwrap();
    let program = copy_of_the_program(&at.path().join("bin"));
    let output =
        Command::new(&program).args(["preload", "--record", "/proc/nope", "--", "/bin/true"]).output().unwrap();
    let said = stderr(&output);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.starts_with("error: --record /proc/nope: "), "{said}");
    let folder = at.path().join("a/b");
    let output =
        Command::new(&program).args(["preload", "--record"]).arg(&folder).args(["--", "/bin/true"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

#[test]
fn a_record_without_windows_prints_a_note() {
    let at = tempfile::tempdir().unwrap();
    let folder = at.path().join("trace");
    for (arguments, says) in [
        (&["launch", "-n", "2", "--", "/bin/true"][..], "no rank recorded a window"),
        (&["verify", "--lock", "tas", "--scenario", "2Wx1", "--quiet"], "uses no windows"),
    ] {
        let output = rmalab(arguments).env("RMALAB_RECORD", &folder).output().unwrap();
        assert!(output.status.success() && stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn the_error_for_a_short_segment_has_the_needed_length() {
    let program = rmalab(&[]).get_program().to_str().unwrap().to_owned();
    let output = run(&["launch", "-n", "2", "--segment", "1M", "--", &program, "run", "ghost", "--quiet"]);
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("rmalab launch --segment "), "{said}");
    let length = said.split("--segment ").nth(1).unwrap().split('`').next().unwrap();
    let again = ["launch", "-n", "2", "--segment", length, "--", &program, "run", "ghost", "--iterations", "5"];
    let output = run(&again);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Interrupts an hour-long study after its first measurement.
fn interrupted(backend: &str, signal: &str, code: i32) {
    let at = tempfile::tempdir().expect("the study ran");
    let report = at.path().join("report");
    let arguments = ["study", "--backend", backend, "--ranks", "2", "--lock", "nocheck,two-level"];
    let mut child = rmalab(&arguments)
        .args(["--duration", "100ms", "--repetitions", "10000", "--report"])
        .arg(&report)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the study ran");
    // The first measurement prints a line at once.
    let mut lines = BufReader::new(child.stderr.take().expect("the study ran")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("1/")), "the study ended before it measured anything");
    let signal = format!("-{signal}");
    assert!(Command::new("kill").args([&signal, &child.id().to_string()]).status().expect("the study ran").success());
    let said: Vec<String> = lines.collect();
    let output = child.wait_with_output().expect("the study ran");
    assert_eq!(output.status.code(), Some(code), "{said:?}");
    assert!(said.iter().any(|line| line.contains("interrupted")), "{said:?}");
    let document = Document::read(&report).expect("the study ran");
    assert!(!document.run.complete);
    assert!(!document.data.expect("the study ran").rows.is_empty());
    assert!(fs::read_to_string(report.join("index.html")).expect("the study ran").contains("Incomplete"));
    assert!(stdout(&output).contains("two-level") || stdout(&output).contains("nocheck"));
}

#[test]
fn a_calibration_writes_a_profile() {
    let at = tempfile::tempdir().unwrap();
    let file = at.path().join("here.toml");
    let out = file.to_str().expect("temporary folders have plain names");
    let output = run(&["calibrate", "--duration", "10ms", "--name", "here", "-o", out]);
    let said = stderr(&output);
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("two processors"), "{said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let profile = rmalab_atomics::sim::Profile::load(&file).unwrap();
    assert_eq!(profile.name, "here");
    assert!(said.contains("put until noticed") && said.contains("simulated"), "{said}");
    assert!(output.stdout.is_empty());
}
