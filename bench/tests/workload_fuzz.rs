//! Random changes of workload descriptions: an error is one line with file and line, and a valid description has steps.
//! Inputs with new behaviour are kept in `tests/corpus/workloads`, with their outcomes.
//!
//! `RMALAB_FUZZ_CASES=1000000 RMALAB_FUZZ_KEEP=1 cargo test -p rmalab --test all workload_fuzz:: -- --test-threads 1` searches
//! for more inputs after the old ones are removed.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rmalab::workload::{Benchmark, LockTrace, Workload};
use rmalab_atomics::Rank;

/// Valid and invalid pieces of descriptions.
const WORDS: &[&str] = &[
    "\"",
    "{",
    "}",
    "[",
    "]",
    "[[class]]\n",
    "[[class.operation]]\n",
    "[class]\n",
    "=",
    ",",
    "\n",
    "#",
    ".",
    " ",
    "-",
    "nan",
    "inf",
    "-inf",
    "-0.0",
    "1e400",
    "0",
    "1",
    "9",
    "99999999999999999999",
    "0x10",
    "1_0",
    "true",
    "1979-05-27",
    "\"1us\"",
    "\"-1us\"",
    "\"1e3us\"",
    "\"25h\"",
    "\"0ns\"",
    "\"8B\"",
    "\"1024GiB\"",
    "\"1\"",
    "us",
    "ns",
    "KiB",
    "{ mean = \"1us\" }",
    "{ min = \"1us\", max = \"2us\" }",
    "{ min = \"2us\", max = \"1us\" }",
    "{ zipf = 1.0 }",
    "{ zipf = 1.0000000000000002 }",
    "{ single = 3 }",
    "\"lock_all\"",
    "\"shared\"",
    "\"exclusive\"",
    "\"any\"",
    "\"same\"",
    "\"put\"",
    "\"update\"",
    "\"own\"",
    "\"neighbours\"",
    "ranks = 1\n",
    "share",
    "inside",
    "colour = \"red\"\n",
    "\"\"\"",
    "'''",
    "\\u0000",
    "\r",
    "\u{b5}s",
    "\u{1f512}",
    "\u{0}",
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/workloads")
}

fn bases() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

fn change(text: &mut String, random: &mut StdRng) {
    let mut place = || {
        let at = random.random_range(0..=text.len());
        (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
    };
    let (a, b) = (place(), place());
    let (from, to) = (a.min(b), a.max(b));
    let word = WORDS[random.random_range(0..WORDS.len())];
    match random.random_range(0..7) {
        0 => text.insert_str(from, word),
        1 => text.truncate(to),
        2 => {
            // Removes, repeats, or changes a line.
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if !lines.is_empty() {
                let at = random.random_range(0..lines.len());
                match random.random_range(0..4) {
                    0 => drop(lines.remove(at)),
                    1 => lines.insert(at, lines[at].clone()),
                    _ => {
                        let key = lines[at].split('=').next().unwrap_or_default().to_owned();
                        lines[at] = format!("{key}= {word}");
                    }
                }
                *text = lines.join("\n");
            }
        }
        3 => {
            let copy = text[from..to].chars().take(80).collect::<String>();
            text.insert_str(from, &copy);
        }
        4 => {
            let end =
                text[from..].char_indices().nth(random.random_range(1..20)).map_or(text.len(), |(at, _)| from + at);
            text.replace_range(from..end, word);
        }
        5 => {
            // Changes a number.
            let digits: Vec<usize> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
            if !digits.is_empty() {
                let at = digits[random.random_range(0..digits.len())];
                text.replace_range(at..at + 1, word);
            }
        }
        _ => {
            let mut bytes = std::mem::take(text).into_bytes();
            if !bytes.is_empty() {
                let at = random.random_range(0..bytes.len());
                bytes[at] ^= 1 << random.random_range(0..8);
            }
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}

/// The outcome of a description: the error without its file's name, or a summary of the workload.
fn outcome(text: &str) -> String {
    let workload = match Workload::parse(Path::new("w.toml"), text) {
        Ok(workload) => workload,
        Err(error) => {
            let error = error.to_string();
            assert!(error.lines().count() == 1 && !error.contains(char::is_control), "{error:?}");
            assert!(error.len() < 400, "{error}");
            let rest = error.strip_prefix("w.toml:").expect("an error names its file");
            let (line, _) = rest.split_once(": ").expect("an error names its line");
            assert!((1..=text.lines().count().max(1) + 1).contains(&line.parse().unwrap()), "{error}");
            return rest.to_owned();
        }
    };
    let mut steps = 0;
    for rank in [0, workload.ranks / 2, workload.ranks - 1] {
        steps += workload.steps(9, Rank(rank)).take(300).count();
    }
    assert!(steps > 0);
    format!("{} classes for {} ranks", workload.classes.len(), workload.ranks)
}

/// The kind of an outcome: without numbers and quoted text.
fn kind(outcome: &str) -> String {
    if let Some((_, there)) = outcome.split_once("there is no such key") {
        return format!("no such key{there}");
    }
    let text: String = outcome.split('\'').step_by(2).collect();
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[test]
fn descriptions_changed_at_random_are_read_or_refused() {
    let cases: u64 = std::env::var("RMALAB_FUZZ_CASES").map_or(5000, |cases| cases.parse().unwrap());
    let keep = std::env::var_os("RMALAB_FUZZ_KEEP").is_some();
    let bases = bases();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for case in 0..cases {
        let mut random = StdRng::seed_from_u64(case);
        let mut text = bases[random.random_range(0..bases.len())].clone();
        for _ in 0..random.random_range(1..4) {
            change(&mut text, &mut random);
        }
        let outcome = outcome(&text);
        let count = kinds.entry(kind(&outcome)).or_insert(0);
        *count += 1;
        if keep && *count == 1 {
            std::fs::write(corpus().join(format!("case-{case}.toml")), &text).unwrap();
            println!("case-{case}: {outcome}");
        }
    }
    if cases >= 5000 {
        for layer in ["not TOML", "no such key", "has no unit", "is negative", "it is missing", "classes for", "sum to"]
        {
            assert!(kinds.keys().any(|kind| kind.contains(layer)), "{layer}: {kinds:#?}");
        }
    }
}

#[test]
fn the_corpus_has_unchanged_outcomes() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let line = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        format!("{}: {}\n", file.file_stem().unwrap().to_string_lossy(), outcome(&text))
    };
    let found: String = files.iter().map(line).collect();
    let expected = corpus().join("expected.txt");
    if std::env::var_os("RMALAB_FUZZ_KEEP").is_some() {
        std::fs::write(&expected, &found).unwrap();
    }
    assert!(!found.is_empty());
    assert_eq!(found, std::fs::read_to_string(expected).unwrap());
}

/// Valid and invalid pieces of traces of locks.
const PIECES: &[&str] = &[
    ",",
    "\n",
    "\r\n",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "+1",
    " ",
    "x",
    "1000000000",
    "18446744073709551616",
    "1e3",
    "\"",
    ";",
    "\u{0}",
    "\u{1f512}",
    "0,0,0,0,2\n",
    "9,0,1,5,1",
    "txn,0,type,lock,mode\n",
    "#",
];

/// The outcome of a trace of locks: the error without its file's name, or its size.
fn outcome_of_locks(text: &[u8]) -> String {
    let trace = match LockTrace::parse(Path::new("t.csv"), text) {
        Ok(trace) => trace,
        Err(error) => {
            let error = error.to_string();
            assert!(error.lines().count() == 1 && !error.contains(char::is_control), "{error:?}");
            assert!(error.len() < 400, "{error}");
            return error.strip_prefix("t.csv:").expect("an error names its file").to_owned();
        }
    };
    let mut requests = 0;
    for number in 0..trace.transactions() {
        let locks: Vec<u32> = trace.transaction(number).map(|(lock, _)| lock).collect();
        assert!(
            !locks.is_empty() && locks.is_sorted_by(|a, b| a < b) && locks.iter().all(|&lock| lock < trace.locks())
        );
        requests += locks.len();
    }
    assert_eq!(requests, trace.requests() as usize);
    assert!((0.0..=1.0).contains(&trace.exclusive()));
    format!("a trace of {}", trace.transactions())
}

#[test]
fn traces_of_locks_changed_at_random_are_read_or_refused() {
    let cases: u64 = std::env::var("RMALAB_FUZZ_CASES").map_or(5000, |cases| cases.parse().unwrap());
    let bases = [Benchmark::Tatp, Benchmark::TpcC].map(|benchmark| {
        let mut text = Vec::new();
        benchmark.write(5, 20, 1, &mut text).unwrap();
        text
    });
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for case in 0..cases {
        let mut random = StdRng::seed_from_u64(case);
        let mut text = bases[random.random_range(0..bases.len())].clone();
        for _ in 0..random.random_range(1..4) {
            let (a, b) = (random.random_range(0..=text.len()), random.random_range(0..=text.len()));
            let (from, to) = (a.min(b), a.max(b));
            let piece = PIECES[random.random_range(0..PIECES.len())].bytes();
            match random.random_range(0..6) {
                0 => drop(text.splice(from..from, piece)),
                1 => drop(text.splice(from..to.min(from + 3), piece)),
                2 => text.truncate(to),
                3 => {
                    let copy = text[from..to].to_vec();
                    drop(text.splice(from..from, copy));
                }
                4 => drop(text.drain(from..to)),
                _ if from < text.len() => text[from] ^= 1 << random.random_range(0..8),
                _ => {}
            }
        }
        *kinds.entry(kind(&outcome_of_locks(&text))).or_insert(0) += 1;
    }
    if cases >= 5000 {
        for layer in
            ["a trace of", "no transaction", "columns instead", "column  is", "the lock", "the mode", "the type"]
        {
            assert!(kinds.keys().any(|kind| kind.contains(layer)), "{layer}: {kinds:#?}");
        }
    }
}

#[test]
fn invalid_utf8_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, [b'r', 0xff, 0xfe]).unwrap();
    let error = Workload::read(file.path()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: this is not text in UTF-8", file.path().display()));
}
