//! `rmalab verify` as users run it: findings, refused arguments, and written files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rmalab::document::Document;

use crate::program::{rmalab, stderr, stdout};

/// `rmalab verify` in the folder `at`, so that tests see its files.
fn verify(at: &Path, arguments: &[&str]) -> Command {
    let mut command = rmalab(&["verify"]);
    command.args(arguments).current_dir(at);
    command
}

fn run(at: &Path, arguments: &[&str]) -> Output {
    verify(at, arguments).output().expect("the program starts")
}

fn files(at: &Path) -> Vec<String> {
    let entries = fs::read_dir(at).expect("the folder is there");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("it is read").file_name();
    let mut names: Vec<String> = entries.map(|entry| name(entry).into_string().expect("names are plain")).collect();
    names.sort();
    names
}

/// A network that is not atomic with the processor, which the home rank uses.
const BROKEN: [&str; 8] = ["--lock", "tas", "--scenario", "2Wx1", "--network", "hca-owner-cpu", "--home", "0"];

#[test]
fn a_correct_lock_holds() {
    let at = tempfile::tempdir().unwrap();
    let output = run(at.path(), &["--lock", "mcs,mcs-rw-rp", "--scenario", "1R1Wx1,2Wx1", "--network", "sc,late-puts"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert_eq!(table.matches(" holds  ").count(), 8, "{table}");
    assert!(table.contains("\n8 of 8 checks hold"), "{table}");
    let head = "verify: 8 checks of 2 locks\n1/8: mcs, 1R1Wx1, sc, empty";
    assert!(stderr(&output).starts_with(head), "{}", stderr(&output));
    assert!(files(at.path()).is_empty());
}

#[test]
fn a_search_that_may_not_end_says_so_ahead() {
    let at = tempfile::tempdir().unwrap();
    // The first lines, of a search that the test ends.
    let head = |arguments: &[&str]| {
        let mut child = verify(at.path(), arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().take(2);
        let lines: Vec<String> = lines.map(Result::unwrap).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        lines
    };
    let counts = ["--lock", "hapax", "--scenario", "2Wxinf", "--network", "sc"];
    let lines = head(&counts);
    assert!(lines[1].starts_with("note: hapax, 2Wxinf: the search may not end"), "{lines:?}");
    assert!(lines[1].contains("--max-time"), "{lines:?}");
    for silent in [
        &[&counts[..], &["--max-time", "1ms"]].concat()[..],
        &["--lock", "hapax", "--scenario", "2Wx1", "--network", "sc"],
        &["--lock", "mcs", "--scenario", "2Wxinf", "--network", "sc"],
    ] {
        let text = stderr(&run(at.path(), silent));
        assert!(!text.contains("may not end"), "{text}");
    }
}

#[test]
fn the_standard_configurations_of_a_small_lock_hold() {
    let at = tempfile::tempdir().unwrap();
    // A lock whose ranks poll, and keep a counter meanwhile.
    let output =
        run(at.path(), &["--lock", "ticket", "--section", "data", "--network", "unordered-bulk,hca", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(output.stderr.is_empty());
    assert!(stdout(&output).contains("1 of 1 check holds"), "{}", stdout(&output));
}

#[test]
fn a_counterexample_is_shown_saved_and_replayed() {
    let at = tempfile::tempdir().unwrap();
    let output = run(at.path(), &BROKEN);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let shown = stdout(&output);
    for part in
        ["mutual-exclusion", "VIOLATED mutual-exclusion", "is inside", "--save DIR", "0 of 1 check holds, 1 VIOLATED"]
    {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    assert!(files(at.path()).is_empty(), "a file was written without a request");

    let output = run(at.path(), &[&BROKEN[..], &["--save", "deep/found", "--quiet"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(files(&at.path().join("deep/found")), ["tas-2Wx1-hca-owner-cpu-empty-home-0.json"]);
    let file = "deep/found/tas-2Wx1-hca-owner-cpu-empty-home-0.json";
    assert!(stdout(&output).contains(&format!("rmalab verify replay {file}")), "{}", stdout(&output));

    let again = run(at.path(), &["replay", file, "--svg", "one.svg"]);
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
    assert!(stdout(&again).contains("still broken: mutual-exclusion"), "{}", stdout(&again));
    assert!(fs::read_to_string(at.path().join("one.svg")).unwrap().starts_with("<svg"));

    // Without its last step it breaks nothing yet.
    let mut saved: serde_json::Value = serde_json::from_slice(&fs::read(at.path().join(file)).unwrap()).unwrap();
    saved["schedule"].as_array_mut().unwrap().pop();
    fs::write(at.path().join("short.json"), saved.to_string()).unwrap();
    let short = run(at.path(), &["replay", "short.json"]);
    assert_eq!(short.status.code(), Some(0), "{}", stderr(&short));
    assert!(stdout(&short).contains("no longer broken"), "{}", stdout(&short));
}

#[test]
fn bad_arguments_are_refused_with_a_clear_line() {
    let at = tempfile::tempdir().unwrap();
    fs::write(at.path().join("file"), "mine").unwrap();
    fs::write(at.path().join("damaged.json"), "{\"version\": 1, \"lock\"").unwrap();
    fs::write(at.path().join("picture"), [0xff, 0xd8]).unwrap();
    for (arguments, says) in [
        (&["--lock", "mcs-rw-pr"][..], "did you mean 'mcs-rw-"),
        (&["--lock", "tikcet"], "did you mean 'ticket'"),
        (&["--network", "late-put"], "late-puts"),
        (&["--section", "full"], "full"),
        (&["--engine", "explorerer"], "explorer"),
        (&["--scenario", "3Q"], "'Q' is not one of the roles"),
        (&["--lock", "mcs", "--scenario", "1A1E@0"], "mcs is not a window"),
        (&["--lock", "nocheck"], "nocheck has no standard configuration; name a scenario with --scenario"),
        (&["--lock", "mcs", "--crashes", "1"], "no standard configuration that fits the other options"),
        (&["--mutant", "nothing-like-it"], "`rmalab list mutants` prints the names"),
        (&["--lock", "mcs", "--network", "hca-owner-cpu"], "--scenario"),
        (&["--mutant", "no-such-mutant"], "no mutant is called 'no-such-mutant'"),
        (&["--max-states", "0"], "such as 500, 20k or 1M"),
        (&["--max-states", "many"], "such as 500, 20k or 1M"),
        (&["--max-memory", "much"], "4KiB"),
        (&["--max-memory", "5"], "1M"),
        (&["--max-time", "10"], "100ns"),
        (&["--lock", "tas", "--scenario", "65535Wx1"], "65535"),
        (&["--lock", "tas", "--scenario", "2Wx1", "--home", "7"], "rank 7"),
        (&["--threads", "0"], "0 is not in"),
        (&["--search", "widest"], "breadth-first"),
        (&["replay", "nowhere.json"], "nowhere.json"),
        (&["replay", "damaged.json"], "damaged.json is not a counterexample"),
        (&["replay", "picture"], "picture is not a counterexample: it is no text in UTF-8"),
        (&["--lock", "tas", "--scenario", "2Wx1", "--long"], "cannot be used with '--long'"),
        (&["--lock", "tas", "--order"], "a lock of your own claims one with `order(Order::Fifo)`"),
        (&["replay", "damaged.json", "--lock", "mcs"], "unexpected argument '--lock'"),
        (&["--lock", "mcs", "replay", "damaged.json"], "cannot be used with"),
        (&["--save", "file/below"], "file/below"),
        (&["--save", "nowhere/found.json"], "nowhere/found.json"),
        (&["--svg", "nowhere/one.svg"], "nowhere/one.svg"),
    ] {
        let output = run(at.path(), arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(files(at.path()), ["damaged.json", "file", "picture"]);
}

#[test]
fn a_saved_counterexample_to_another_lock_is_refused() {
    let at = tempfile::tempdir().unwrap();
    run(at.path(), &[&BROKEN[..], &["--save", "found.json"]].concat());
    let saved: serde_json::Value = serde_json::from_slice(&fs::read(at.path().join("found.json")).unwrap()).unwrap();
    for (field, value, says) in [
        ("lock", "no-lock", "no lock is called 'no-lock'"),
        ("scenario", "1Q", "scenario"),
        ("version", "", "is not a counterexample"),
        ("lock", "mcs", "the schedule belongs to another lock, mutant or version"),
    ] {
        let mut changed = saved.clone();
        changed[field] = value.into();
        if value == "mcs" {
            // mcs cannot take this step as its first one.
            changed["schedule"] = serde_json::json!([{ "arrive": { "from": 0, "index": 0 } }]);
        }
        fs::write(at.path().join("changed.json"), changed.to_string()).unwrap();
        let output = run(at.path(), &["replay", "changed.json"]);
        assert_eq!(output.status.code(), Some(2), "{field} {value}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{field} {value}: {}", stderr(&output));
    }
}

#[test]
fn a_counterexample_that_cannot_be_written_loses_no_result() {
    let at = tempfile::tempdir().unwrap();
    for (option, name) in [("--save", "full.json"), ("--svg", "full.svg")] {
        std::os::unix::fs::symlink("/dev/full", at.path().join(name)).unwrap();
        let output = run(at.path(), &[&BROKEN[..], &[option, name]].concat());
        assert_eq!(output.status.code(), Some(1), "{option}: {}", stderr(&output));
        assert!(stdout(&output).contains("VIOLATED mutual-exclusion"), "{option}: {}", stdout(&output));
        let full = format!("error: {name}: the disk is full: No space left");
        assert!(stderr(&output).contains(&full), "{option}: {}", stderr(&output));
    }
}

#[test]
fn a_deadline_that_passes_is_saved_and_replayed() {
    let at = tempfile::tempdir().unwrap();
    let lost = ["--lock", "tas-rw", "--mutant", "tas-rw-kept", "--scenario", "1Rtimed1W", "--network", "sc"];
    let lost = [&lost[..], &["--save", "found.json"]].concat();
    let output = run(at.path(), &lost);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let saved = fs::read_to_string(at.path().join("found.json")).unwrap();
    assert!(saved.contains("deadline"), "{saved}");
    let again = run(at.path(), &["replay", "found.json"]);
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
    for part in ["its deadline passes", "GIVES UP", "still broken"] {
        assert!(stdout(&again).contains(part), "{part} is missing:\n{}", stdout(&again));
    }
}

#[test]
fn two_nested_locks_are_checked_in_one_order_and_in_opposite_orders() {
    let at = tempfile::tempdir().unwrap();
    let nested = ["--lock", "mcs", "--nested", "ticket"];
    let output = run(at.path(), &nested);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("mcs+ticket"), "{}", stdout(&output));
    let opposite =
        [&nested[..], &["--opposite", "--scenario", "2W", "--network", "sc", "--save", "found.json"]].concat();
    let output = run(at.path(), &opposite);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("VIOLATED no-"), "{}", stdout(&output));
    let again = run(at.path(), &["replay", "found.json"]);
    assert!(stdout(&again).contains("still broken: no-"), "{}{}", stdout(&again), stderr(&again));
    let window = run(at.path(), &["--lock", "mcs", "--nested", "two-level"]);
    assert_eq!(window.status.code(), Some(2));
    assert!(stderr(&window).contains("mcs and two-level cannot be nested"), "{}", stderr(&window));
}

#[test]
fn a_replay_takes_the_options_of_output() {
    let at = tempfile::tempdir().unwrap();
    run(at.path(), &[&BROKEN[..], &["--save", "found.json"]].concat());
    let output =
        run(at.path(), &["replay", "found.json", "--format", "json", "-o", "replay.json", "--report", "report"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
    let document = Document::from_json(&fs::read_to_string(at.path().join("replay.json")).unwrap()).unwrap();
    assert_eq!(document.kind, "replay");
    assert!(document.sections[0].listings[0].contains("is inside"), "{:?}", document.sections);
    let data = document.data.unwrap();
    let get = |column| data.get(&data.rows[0], column).unwrap().to_string();
    assert_eq!(["lock", "property", "verdict"].map(get), ["tas", "mutual-exclusion", "still broken"]);
    assert!(at.path().join("report/index.html").exists());
    for (format, part) in [
        ("csv", "lock,mutant,network,scenario,section,home,steps,property,verdict\ntas,"),
        ("markdown", "# Replay of a counterexample to tas\n"),
        ("text", "\nstill broken: mutual-exclusion"),
    ] {
        let output = run(at.path(), &["replay", "found.json", "--format", format]);
        assert_eq!(output.status.code(), Some(1), "{format}: {}", stderr(&output));
        assert!(stdout(&output).contains(part), "{format}: {}", stdout(&output));
    }
    let output = run(at.path(), &["replay", "found.json", "-o", "nowhere/replay.txt"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// Two checks of one lock that differ only in their engine and order.
#[test]
fn each_counterexample_has_a_separate_file() {
    let at = tempfile::tempdir().unwrap();
    let lost = ["--mutant", "mcs-no-wake-up", "--scenario", "2Wx1", "--engine", "explorer,shuttle-random,shuttle-dfs"];
    let output = run(
        at.path(),
        &[&lost[..], &["--network", "sc", "--executions", "200", "--save", "found", "--quiet"]].concat(),
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("VIOLATED no-lost-wake-up  ").count(), 3, "{}", stdout(&output));
    assert_eq!(files(&at.path().join("found")).len(), 3, "{:?}", files(&at.path().join("found")));
}

#[test]
fn a_file_cannot_control_the_terminal() {
    let at = tempfile::tempdir().unwrap();
    run(at.path(), &[&BROKEN[..], &["--save", "found.json"]].concat());
    let saved: serde_json::Value = serde_json::from_slice(&fs::read(at.path().join("found.json")).unwrap()).unwrap();
    for field in ["lock", "scenario"] {
        let mut changed = saved.clone();
        changed[field] = "\u{1b}[31mtas\u{7}".into();
        fs::write(at.path().join("changed.json"), changed.to_string()).unwrap();
        let output = run(at.path(), &["replay", "changed.json"]);
        assert_eq!(output.status.code(), Some(2), "{field}");
        assert!(!stderr(&output).chars().any(|c| c.is_control() && c != '\n'), "{field}: {:?}", stderr(&output));
    }
    let mut changed = saved;
    changed["violation"]["seen"] = "\u{1b}[31mred\u{1b}[0m".into();
    fs::write(at.path().join("changed.json"), changed.to_string()).unwrap();
    let output = run(at.path(), &["replay", "changed.json"]);
    assert!(!stdout(&output).contains('\u{1b}') && !stderr(&output).contains('\u{1b}'), "{:?}", stdout(&output));
    let endless = run(at.path(), &["replay", "/dev/zero"]);
    assert_eq!(endless.status.code(), Some(2), "{}", stderr(&endless));
}

#[test]
fn a_limit_ends_a_search_and_is_reported() {
    let at = tempfile::tempdir().unwrap();
    let output = run(at.path(), &["--lock", "mcs", "--scenario", "3Wx2", "--network", "sc", "--max-states", "100"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("incomplete: state limit"), "{table}");
    assert!(
        table.ends_with("1 search is incomplete: no property is broken in the states that it visited\n"),
        "{table}"
    );
}

#[test]
fn results_go_to_json() {
    let at = tempfile::tempdir().unwrap();
    let output = run(
        at.path(),
        &["--lock", "mcs", "--scenario", "2Wx1", "--order", "--format=json", "--quiet", "--report", "all"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stderr.is_empty());
    let document = Document::from_json(&stdout(&output)).unwrap();
    assert!(document.run.complete);
    let data = document.data.unwrap();
    let get = |column| data.get(&data.rows[0], column).unwrap().to_string();
    assert_eq!(["lock", "verdict", "order"].map(get), ["mcs", "holds", "fifo"]);
    assert!(data.get(&data.rows[0], "states").unwrap().value.number().unwrap() > 10.0);
    let page = fs::read_to_string(at.path().join("all/index.md")).unwrap();
    assert!(page.contains("| mcs | explorer | sc | 2Wx1 | empty | fifo |"), "{page}");

    let output = run(at.path(), &[&BROKEN[..], &["--format=json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let document = Document::from_json(&stdout(&output)).unwrap();
    let data = document.data.unwrap();
    assert_eq!(data.get(&data.rows[0], "verdict").unwrap().to_string(), "VIOLATED mutual-exclusion");
    assert!(document.sections[0].listings[0].contains("is inside"), "{:?}", document.sections[0].listings);
}

#[test]
fn an_interrupted_check_reports_its_findings() {
    let at = tempfile::tempdir().unwrap();
    let mut child = verify(at.path(), &["--lock", "mcs-rw-neutral", "--scenario", "1R1Wx1,6R6Wx6", "--network", "sc"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("2/2")), "the large check was never begun");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let said: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("interrupted: ")), "{said:?}");
    let table = stdout(&output);
    assert!(table.contains(" holds  ") && table.contains("incomplete: interrupted"), "{table}");
    assert!(files(at.path()).is_empty());
}

#[test]
fn a_mutant_is_killed_by_every_engine() {
    let at = tempfile::tempdir().unwrap();
    let engines = "explorer,loom,shuttle-random,shuttle-pct,shuttle-dfs";
    let lost = ["--mutant", "mcs-no-wake-up", "--scenario", "2Wx1", "--engine", engines, "--executions", "200"];
    let output = run(at.path(), &lost);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let shown = stdout(&output);
    // The explorer finds it on two networks.
    assert_eq!(shown.matches("VIOLATED no-lost-wake-up  ").count(), 6, "{shown}");
    assert!(shown.contains("Broken on purpose: the successor is not woken"), "{shown}");

    let output = run(at.path(), &["--mutant", "mcs-no-wake-upp"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean 'mcs-no-wake-up'?"), "{}", stderr(&output));
    assert!(stderr(&output).len() < 300, "not all mutants are printed: {}", stderr(&output));
    let listed = stdout(&run(at.path(), &["mutants"]));
    assert!(listed.contains("mcs-no-wake-up") && listed.contains("of: mcs"), "{listed}");
}

#[test]
fn late_puts_are_searched_unless_networks_are_named() {
    let at = tempfile::tempdir().unwrap();
    let late = ["--mutant", "mcs-no-prepare", "--scenario", "2Wx2"];
    let output = run(at.path(), &late);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("VIOLATED mutual-exclusion  ").count(), 1, "{}", stdout(&output));
    let output = run(at.path(), &[&late[..], &["--network", "sc"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_livelock_is_replayed() {
    let at = tempfile::tempdir().unwrap();
    let published = ["--mutant", "two-level-published-retry", "--scenario", "1Ax1+1E@0x2", "--network", "sc"];
    let published = [&published[..], &["--save", "one.json"]].concat();
    let output = run(at.path(), &published);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("VIOLATED no-livelock"), "{}", stdout(&output));
    let output = run(at.path(), &["replay", "one.json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("still broken: no-livelock"), "{}", stdout(&output));
}

#[test]
fn a_livelock_whose_first_round_has_no_pause_is_confirmed() {
    let at = tempfile::tempdir().unwrap();
    let arguments = ["--mutant", "brlock-no-clear", "--scenario", "2R1Wx1", "--network", "sc"];
    let output = run(at.path(), &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("VIOLATED no-livelock"), "{}", stdout(&output));
}

#[test]
fn unsupported_checks_of_an_engine_are_reported() {
    let at = tempfile::tempdir().unwrap();
    let output = run(at.path(), &["--lock", "mcs", "--scenario", "2Wx1", "--network", "late-puts", "--engine", "loom"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("error: mcs, 2Wx1, late-puts, empty: loom"), "{}", stdout(&output));
}
