//! Advice on recorded traces: several windows, files that end early, and windows without locks.

use std::fs;
use std::path::Path;

use rmalab::document::Document;
use rmalab_atomics::{Rank, RemoteAtomics, World};
use rmalab_windows::{LockKind, Op, Result, Team, Window, WindowDisp};

use super::{of_mpi, texts};
use crate::program;

/// Records the windows that `body` makes on two ranks.
fn recorded(dir: &Path, body: impl Fn(&Team<'_, dyn RemoteAtomics + '_>, &Path) -> Result<()> + Sync) {
    let ranks = World::threads(2).segment_bytes(4 << 20).run(|ra| {
        let ra: &dyn RemoteAtomics = ra;
        body(&Team::new(ra)?, dir)
    });
    ranks.expect("the ranks end").into_iter().collect::<Result<()>>().expect("no call fails");
}

/// A window with 50 locks of each rank.
fn locked(team: &Team<'_, dyn RemoteAtomics + '_>, dir: &Path, name: &str) -> Result<()> {
    let window = Window::builder(team).name(name).record(dir).allocate(64)?;
    for _ in 0..50 {
        let epoch = window.lock(LockKind::Exclusive, Rank(0))?;
        epoch.put(WindowDisp(0), &[1_u64])?;
        epoch.unlock()?;
    }
    window.free()
}

/// A window with three fences, an epoch of post and start, and two accumulates of each rank.
fn fenced(team: &Team<'_, dyn RemoteAtomics + '_>, dir: &Path) -> Result<()> {
    let mut window = Window::builder(team).name("halo").record(dir).disp_unit(8).allocate(64)?;
    let other = Rank(1 - team.ra().rank().0);
    let mut fence = window.fence()?;
    for _ in 0..2 {
        fence.at(other)?.accumulate(WindowDisp(0), Op::Sum, &[1_u64])?;
        fence = fence.next()?;
    }
    fence.close()?;
    let (mut access, mut exposure) = window.pscw()?;
    let exposed = exposure.post(&[other])?;
    let accessed = access.start(&[other])?;
    accessed.at(other)?.put(WindowDisp(1), &[1_u64])?;
    accessed.complete()?;
    exposed.wait()?;
    window.free()
}

/// Runs `rmalab advise --trace` with two policies; returns the exit code and the two outputs.
fn advise(dir: &Path, more: &[&str]) -> (i32, String, String) {
    let common = ["advise", "--seeds", "2", "--lock", "two-level,mcs-rw-neutral", "--trace"];
    let output = program::run(&[&common[..], &[dir.to_str().expect("a plain name")], more].concat());
    let [stdout, stderr] = texts(&output);
    (output.status.code().expect("it was not killed"), stdout, stderr)
}

#[test]
fn a_file_that_ends_early_is_named_with_its_place_and_what_to_do() {
    let at = tempfile::tempdir().unwrap();
    recorded(at.path(), |team, dir| locked(team, dir, "table"));
    let file = |rank: u32| at.path().join(format!("table-rank-{rank}.trace"));
    let whole = [0, 1].map(|rank| fs::read(file(rank)).unwrap());
    let cut = |rank: usize, len: usize| fs::write(file(rank as u32), &whole[rank][..len]).unwrap();
    let refused = |says: &[&str]| {
        let (code, stdout, stderr) = advise(at.path(), &[]);
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
        for part in says {
            assert!(stderr.contains(part), "{part} is missing: {stderr}");
        }
    };
    // Each file has its header, one block of calls, and its end, of some 20 bytes.
    let middle = whole[0].len() - 40;
    cut(0, middle);
    cut(1, whole[1].len() - 40);
    let place = format!("table-rank-0.trace: the file ends at byte {middle}, in the middle of the block of 150 calls");
    refused(&[&place, "begins at byte", "2 of 2 files", "record the program again, and let it end normally"]);
    // Whole calls of one rank are left: there is advice, which says that it is incomplete.
    cut(1, whole[1].len());
    let (code, stdout, stderr) = advise(at.path(), &[]);
    assert_eq!(code, 0, "{stderr}");
    let second = stdout.lines().nth(1).unwrap();
    assert!(
        second.starts_with("The trace is incomplete: 1 of 2 files ends early. ")
            && second.contains("let it end normally")
    );
    assert!(stdout.contains(&place), "{stdout}");
    cut(0, 0);
    refused(&["table-rank-0.trace: byte 0: the file is empty; record the program again, and let it end normally"]);
    cut(0, 5);
    refused(&["table-rank-0.trace: byte 0: the file ends at byte 5", "record the program again"]);
    cut(0, 60);
    refused(&[
        "table-rank-0.trace: byte 12: the file ends at byte 60, in the middle of its header; record the program",
    ]);
    cut(0, whole[0].len());
    fs::remove_file(file(1)).unwrap();
    refused(&[
        "files of 1 rank, but the program had 2: table-rank-1.trace is missing; copy",
        "or record the program again",
    ]);
    cut(1, whole[1].len());
    fs::remove_file(file(0)).unwrap();
    refused(&["table-rank-0.trace: this file of the trace is missing; copy", "or record the program again"]);
}

#[test]
fn each_window_of_a_program_gets_its_advice() {
    let at = tempfile::tempdir().unwrap();
    recorded(at.path(), |team, dir| {
        for _ in 0..2 {
            locked(team, dir, "table")?;
        }
        fenced(team, dir)
    });
    let (code, stdout, stderr) = advise(at.path(), &[]);
    assert_eq!(code, 0, "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], "halo: No lock policy applies: no rank takes a lock on this window.");
    assert!(lines[1].starts_with("table: ") && lines[2].starts_with("table-2: "), "{stdout}");
    for window in ["table", "table-2"] {
        assert!(stdout.contains(&format!("trace {}: 2 ranks", at.path().join(window).display())), "{stdout}");
        assert!(stdout.contains(&format!("window   {window}\nbuilder  Window::builder")), "{stdout}");
    }
    // The data names the window of each row.
    let (_, json, _) = advise(at.path(), &["--format", "json"]);
    let document = Document::from_json(&json).unwrap();
    let names: Vec<String> = document.data.unwrap().rows.iter().map(|row| row[0].to_string()).collect();
    let count = |name: &str| names.iter().filter(|other| *other == name).count();
    assert!(count("table") > 1 && count("table") == count("table-2") && count("halo") == 0, "{names:?}");
    // One of them alone, as before.
    let (code, one, _) = advise(&at.path().join("table-2"), &[]);
    assert!(code == 0 && (one.starts_with("Keep ") || one.starts_with("Choose ")), "{one}");
}

#[test]
fn windows_of_an_mpi_program_have_keys_and_one_variable() {
    let at = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        of_mpi(at.path(), "rmalab_mode=record");
    }
    let (code, stdout, stderr) = advise(at.path(), &[]);
    assert_eq!(code, 0, "{stderr}");
    let key = |window: &str| {
        let found = stdout.split_once(&format!("window   {window}\ninfo     rmalab_lock_policy="));
        found.expect("the window's key").1.split_once(' ').expect("a place follows").0
    };
    let (first, second) = (key("window"), key("window-2"));
    assert_eq!(first, second, "the same calls, the same policy: {stdout}");
    assert!(
        stdout.contains("RMALAB_LOCK_POLICY selects the policy of every window whose info does not name one"),
        "{stdout}"
    );
}

#[test]
fn a_program_without_locks_is_told_what_applies() {
    let at = tempfile::tempdir().unwrap();
    recorded(at.path(), fenced);
    let (code, stdout, stderr) = advise(at.path(), &[]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.starts_with("No lock policy applies: no rank takes a lock on this window.\n"), "{stdout}");
    let number = |call: &str| {
        let line = stdout.lines().find(|line| line.split_whitespace().next() == Some(call));
        line.and_then(|line| line.split_whitespace().nth(1)).map(str::to_owned)
    };
    // Of both ranks.
    for (call, count) in
        [("accumulate", "4"), ("put", "2"), ("post", "2"), ("start", "2"), ("complete", "2"), ("wait", "2")]
    {
        assert_eq!(number(call).as_deref(), Some(count), "{call}: {stdout}");
    }
    assert!(number("fence").is_some() && number("lock").is_none(), "{stdout}");
    assert!(stdout.contains("The ranks spent ") && stdout.contains("time the program with each"), "{stdout}");
    for setting in [
        "rmalab_fence=dissemination|naive\n",
        "rmalab_pscw=auto|flags|matching\n",
        "rmalab_accumulate=native|lock|cas\n",
    ] {
        assert!(stdout.contains(setting), "{setting} is missing: {stdout}");
    }
    assert!(!stdout.contains("rmalab_lock_policy"), "{stdout}");
}
