//! The commands in README.md and the book: each runs, or a smaller one with the same options runs instead.
//!
//! For commands that do not run, the test checks the options against the program's help.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::CommandCargoExt;

use crate::page::{book, lines, others, read, root, text};

/// Commands that take too long for a test, with replacements: the same options with other values, or further ones.
const SMALLER: [(&str, &str); 8] = [
    (
        "rmalab simulate --lock mcs-rw-rp,two-level --ranks 4:256:4",
        "rmalab simulate --lock mcs-rw-rp,two-level --ranks 4:16:4",
    ),
    (
        "rmalab verify --lock mcs-rw-neutral --scenario 3R1Wx1 --network sc,late-puts",
        "rmalab verify --lock mcs-rw-neutral --scenario 1R1Wx1 --network sc,late-puts",
    ),
    (
        "rmalab study --lock mcs,mcs-rw-rp,two-level --ranks 2,8 --writers 0,50% --critical-section 1us",
        "rmalab study --lock mcs,two-level --ranks 2 --writers 0,50% --critical-section 1us --duration 5ms",
    ),
    (
        "rmalab simulate --lock mcs-rw-rp,two-level,hierarchical --ranks 4:663552:8",
        "rmalab simulate --lock mcs-rw-rp,two-level,hierarchical --ranks 4:32:8",
    ),
    (
        "rmalab advise bench/workloads/shared_exclusive.toml --profile infiniband-ndr",
        "rmalab advise bench/workloads/shared_exclusive.toml --profile infiniband-ndr --seeds 1 --ranks 8 --acquisitions 20",
    ),
    (
        "rmalab advise bench/workloads/shared_exclusive.toml --profile infiniband-ndr --seeds 2",
        "rmalab advise bench/workloads/shared_exclusive.toml --profile infiniband-ndr --seeds 2 --ranks 8 --acquisitions 20",
    ),
    (
        "rmalab advise bench/workloads/zipf_hash_table.toml --profile infiniband-ndr",
        "rmalab advise bench/workloads/zipf_hash_table.toml --profile infiniband-ndr --seeds 1 --ranks 8 --acquisitions 20",
    ),
    ("rmalab launch -n 4 -- ./program", "rmalab launch -n 4 -- true"),
];

/// Commands that do not run, and the reason.
const LEFT_OUT: [(&str, &str); 21] = [
    ("rmalab", "the main study takes more than a minute; command.rs runs studies"),
    ("rmalab study --seed 1 --quiet", "the same"),
    ("rmalab verify", "it takes minutes; CI runs it"),
    ("rmalab verify --long --report checked", "it takes half an hour and 16 GiB"),
    ("rmalab verify --save found", "as `rmalab verify`; verify.rs saves and replays a counterexample"),
    ("rmalab verify replay found/NAME.json --svg one.svg", "NAME is the user's; verify.rs replays one"),
    ("rmalab simulate validate paper", "it takes a minute; validation.rs runs it"),
    (
        "rmalab advise bench/workloads/shared_exclusive.toml --profile infiniband-ndr --seeds 3",
        "it takes half a minute; advise.rs runs each of its options",
    ),
    (
        "rmalab simulate --profile infiniband-ndr --lock mcs,shiftlock --ranks 32 --table trace=tpcc.csv:homes=1 --section work:7us \
         --pairs 50",
        "the command above it writes the trace; simulate.rs runs both",
    ),
    ("rmalab advise --trace trace", "the trace is that of a program of the user; advise.rs records one"),
    ("rmalab preload -- mpirun -n 4 ./program", "it needs an MPI; scripts/mpi-preload-suite runs it"),
    ("rmalab preload --policy hierarchical -- mpirun -n 4 ./program", "the same"),
    ("rmalab preload --record traces -- mpirun -n 4 ./program", "the same"),
    ("rmalab advise --trace traces", "the same"),
    ("rmalab reproduce fx100-lockall", "it takes half a minute; CI runs three experiments"),
    ("rmalab reproduce fx100-lockall fompi-locks", "the same"),
    ("rmalab reproduce --all", "it takes minutes"),
    ("rmalab reproduce --all --long", "it takes an hour"),
    ("rmalab compare", "it takes minutes; CI measures one part of it once"),
    ("rmalab compare --only mpi --ranks 2 --operations put-8,lock-exclusive,lock-all", "it needs an MPI; CI runs it"),
    ("rmalab compare --only locks --repetitions 9", "it takes minutes; compare.rs runs a part of it"),
];

/// The commands of a page: lines of its code blocks, and with `inline` also code in its text.
fn commands(text: &str, inline: bool) -> Vec<String> {
    let mut found = vec![];
    let mut continued = String::new();
    for (code, line) in lines(text) {
        if !code {
            found.extend(line.split('`').skip(1).step_by(2).filter(|_| inline).map(str::to_owned));
            continue;
        }
        let line = line
            .trim()
            .trim_start_matches("$ ")
            .trim_start_matches("target/measure/")
            .split(" #")
            .next()
            .unwrap_or_default()
            .trim();
        continued += line.strip_suffix('\\').unwrap_or(line);
        if !line.ends_with('\\') {
            found.extend(continued.split([';', '&']).map(|part| part.trim().to_owned()));
            continued.clear();
        }
    }
    let is_command = |line: &String| {
        let mut words = line.split(' ');
        matches!((words.next(), words.next()), (Some("rmalab"), Some(_)) | (Some("cargo"), Some("run")))
    };
    // A form such as `rmalab launch -n N -- program` is in no code block.
    found.into_iter().filter(is_command).map(|line| by_name(&line)).collect()
}

/// `cargo run --release -- x` is `rmalab x`.
fn by_name(command: &str) -> String {
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
    if !command.starts_with("cargo run ") || command.contains(" -p ") {
        return command;
    }
    command.split_once(" -- ").map_or("rmalab".to_owned(), |(_, arguments)| format!("rmalab {arguments}"))
}

/// All commands of README.md and the book, except for generated pages.
fn all() -> BTreeSet<String> {
    let generated = |text: &str| text.contains("<!-- Generated from");
    let pages = book().iter().map(|page| text(page)).filter(|text| !generated(text)).collect::<Vec<_>>();
    let mut all: BTreeSet<String> = pages.iter().flat_map(|text| commands(text, false)).collect();
    let readme = others().into_iter().find(|file| *file == root().join("README.md")).expect("a README");
    all.extend(commands(&read(&readme), true));
    all
}

fn options(command: &str) -> BTreeSet<&str> {
    let ours = command.split(" -- ").next().expect("a command begins");
    ours.split(' ').filter(|word| word.starts_with("--")).collect()
}

/// The error in a command that does not run: a sub-command or an option that the program does not have.
fn unknown(command: &str) -> Option<String> {
    let name = command.split(' ').nth(1).unwrap_or_default();
    let mut program = Command::cargo_bin("rmalab").expect("cargo builds it for its tests");
    let arguments = [name, "--help"];
    let output = program.args(arguments.iter().filter(|word| !word.is_empty())).output().expect("the program starts");
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_there = |option: &&str| help.split([' ', '\n', ',']).any(|word| word == *option);
    let missing = options(command).into_iter().find(|option| !is_there(option));
    (!output.status.success() || missing.is_some()).then(|| format!("{command}: unknown: {}", missing.unwrap_or(name)))
}

/// Runs a command in `folder`, and returns an error if it fails.
fn run(command: &str, folder: &Path) -> Option<String> {
    let mut program = Command::cargo_bin("rmalab").expect("cargo builds it for its tests");
    program.args(command.split(' ').skip(1)).current_dir(folder).stdin(Stdio::null());
    let output = program.output().expect("the program starts");
    // A mutant is broken, which is exit code 1.
    let code = i32::from(command.contains("--mutant"));
    let said = String::from_utf8_lossy(&output.stderr);
    (output.status.code() != Some(code)).then(|| format!("{command}: {}\n{said}", output.status))
}

#[test]
fn the_commands_of_the_documents_run() {
    let all = all();
    let folder = tempfile::tempdir().unwrap();
    symlink(root().join("bench"), folder.path().join("bench")).unwrap();
    let mut wrong = vec![];
    for command in &all {
        if let Some((_, rest)) = command.split_once(" -p ") {
            wrong.extend(unknown_example(rest));
        } else if LEFT_OUT.iter().any(|(left_out, _)| command == left_out) {
            wrong.extend(unknown(command));
        } else {
            let smaller = SMALLER.iter().find(|(written, _)| written == command).map_or(&**command, |(_, run)| run);
            assert!(options(command).is_subset(&options(smaller)), "{smaller}: it has not the options of {command}");
            wrong.extend(run(smaller, folder.path()));
        }
    }
    assert!(wrong.is_empty(), "commands that do not work:\n{}", wrong.join("\n"));
    let listed = SMALLER.iter().chain(&LEFT_OUT).map(|(command, _)| *command);
    let gone: Vec<&str> = listed.filter(|command| !all.contains(*command)).collect();
    assert!(gone.is_empty(), "no document has these commands any more: {gone:?}");
}

/// `rmalab-locks --example counter -- shm`, or `tutorial -- study`. The package builds and tests its program. Here an example
/// has to exist, and one that has the command line has to know the options.
fn unknown_example(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split(' ').collect();
    if let ["tutorial", "--", ref arguments @ ..] = words[..] {
        return unknown(&format!("rmalab {}", arguments.join(" ")));
    }
    let [name, "--example", example, ref rest @ ..] = words[..] else { return Some(format!("{command}: no example")) };
    if let ("rmalab", ["--", arguments @ ..]) = (name, rest)
        && let Some(error) = unknown(&format!("rmalab {}", arguments.join(" ")))
    {
        return Some(error);
    }
    let folder = if name == "rmalab" { "bench" } else { name.trim_start_matches("rmalab-") };
    let at = root().join(folder).join("examples").join(example);
    let is_there = at.with_extension("rs").exists() || at.join("main.rs").exists();
    (!is_there).then(|| format!("{command}: there is no such example"))
}

#[test]
fn commands_are_found_in_blocks_and_in_text() {
    let text = "Try `rmalab list`.\n\n    $ rmalab verify --lock mcs \\\n      --long   # a comment\n    rmalab a; rmalab b\n\n\
                ```sh\ncargo run --release -- study --seed 1\ncargo run --release\nls\n```\n";
    let expected =
        ["rmalab list", "rmalab verify --lock mcs --long", "rmalab a", "rmalab b", "rmalab study --seed 1", "rmalab"];
    assert_eq!(commands(text, true), expected);
    assert_eq!(commands(text, false), expected[1..]);
    assert!(unknown("rmalab verify --no-such-option").is_some_and(|error| error.contains("--no-such-option")));
    assert!(unknown("rmalab no-such-command").is_some());
    assert!(unknown_example("rmalab-locks --example no-such-example").is_some());
    assert!(unknown_example("rmalab --example my_lock -- verify --no-such-option").is_some());
    assert!(unknown_example("tutorial -- study --no-such-option").is_some());
}
