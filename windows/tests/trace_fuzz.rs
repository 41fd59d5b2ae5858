//! Traces that are changed at random. An error is one line that names the file and a place in it. A trace without an
//! error can be read to its end. Inputs with a new outcome are kept in `tests/corpus/traces`, with their outcomes.
//!
//! `RMALAB_FUZZ_CASES=1000000 RMALAB_FUZZ_KEEP=1 cargo test -p rmalab-windows --test all trace_fuzz:: -- --test-threads 1` looks
//! for more inputs, once the old ones are removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::{Rank, RemoteAtomics, World};
use rmalab_windows::trace::Trace;
use rmalab_windows::{LockKind, Op, Team, Window, WindowDisp};

/// Bytes ahead of the first block.
const PREFIX: usize = 12;
const HEAD: usize = 17;
const LEN: usize = 5;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/traces")
}

/// A short trace of one rank.
fn short(dir: &Path) -> Vec<u8> {
    let world = World::threads(1).run(|ra| {
        let team = Team::new(ra).unwrap();
        let mut window = Window::builder(&team).record(dir).allocate(64).unwrap();
        for bytes in 1..20 {
            let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
            epoch.put(WindowDisp(0), &vec![1u8; bytes]).unwrap();
            epoch.unlock().unwrap();
        }
        let all = window.lock_all().unwrap();
        all.at(ra.rank()).unwrap().fetch_and_op(WindowDisp(0), Op::Sum, 1u64).unwrap();
        all.at(ra.rank()).unwrap().accumulate(WindowDisp(0), Op::Max, &[1f64; 2]).unwrap();
        all.at(ra.rank()).unwrap().get_accumulate(WindowDisp(0), Op::Replace, &[1u16; 2], &mut [0; 2]).unwrap();
        all.at(ra.rank()).unwrap().compare_and_swap(WindowDisp(0), 1i32, 1).unwrap();
        let source = [1u8; 3];
        let target = all.at(ra.rank()).unwrap();
        all.batch(|batch| (1..4).try_for_each(|i| batch.put(&target, WindowDisp(10 * i), &source))).unwrap();
        all.unlock_all().unwrap();
        team.barrier().unwrap();
        for group in [&[Rank(0)][..], &[]] {
            let (mut access, mut exposure) = window.pscw().unwrap();
            let mut exposed = exposure.post(group).unwrap();
            access.start(group).unwrap().complete().unwrap();
            while !exposed.test().unwrap() {}
        }
        window.fence().unwrap().close().unwrap();
        window.free().unwrap();
    });
    world.unwrap();
    std::fs::read(dir.join("window-rank-0.trace")).unwrap()
}

/// Returns the offsets of the whole blocks of a trace.
fn blocks(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut blocks) = (PREFIX, Vec::new());
    while let Some(head) = bytes.get(at..at + HEAD) {
        let len = u32::from_le_bytes(head[LEN..LEN + 4].try_into().unwrap()) as usize;
        if bytes.len() - at - HEAD < len {
            break;
        }
        blocks.push(at);
        at += HEAD + len;
    }
    blocks
}

/// Gives every block its correct checksums, so that its content is read.
fn repair(bytes: &mut [u8]) {
    for at in blocks(bytes) {
        let len = u32::from_le_bytes(bytes[at + LEN..at + LEN + 4].try_into().unwrap()) as usize;
        let body = crc32fast::hash(&bytes[at + HEAD..at + HEAD + len]);
        bytes[at + 9..at + 13].copy_from_slice(&body.to_le_bytes());
        let head = crc32fast::hash(&bytes[at..at + 13]);
        bytes[at + 13..at + HEAD].copy_from_slice(&head.to_le_bytes());
    }
}

fn change(bytes: &mut Vec<u8>, random: &mut StdRng) {
    if bytes.is_empty() {
        return;
    }
    let at = random.random_range(0..bytes.len());
    let to = (at + random.random_range(0..30)).min(bytes.len());
    match random.random_range(0..9) {
        0 => bytes[at] ^= 1 << random.random_range(0..8),
        1 => bytes[at] = random.random(),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..to)),
        4 => {
            let copy = bytes[at..to].to_vec();
            let at = random.random_range(0..bytes.len());
            bytes.splice(at..at, copy);
        }
        5 => bytes[at..to].fill(random.random()),
        6 => {
            // A block is repeated, or moved to another place.
            let starts = blocks(bytes);
            if let [first, .., last] = starts[..] {
                let copy = bytes[first..last].to_vec();
                let at = starts[random.random_range(0..starts.len())];
                bytes.splice(at..at, copy);
            }
        }
        7 => {
            // The head of a block changes: its kind, its count, its length.
            let starts = blocks(bytes);
            if !starts.is_empty() {
                let start = starts[random.random_range(0..starts.len())];
                bytes[start + random.random_range(0..9)] = random.random_range(0..100);
            }
        }
        _ => {
            // The bodies of the last blocks change, which are short.
            let from = blocks(bytes).get(1).map_or(0, |start| start + HEAD).min(bytes.len() - 1);
            let at = random.random_range(from..bytes.len());
            bytes[at] = random.random_range(0..64);
        }
    }
}

/// Returns the outcome of a trace: the error without its path, or a summary of its content.
fn outcome(path: &Path) -> String {
    let trace = match Trace::open(path) {
        Ok(trace) => trace,
        Err(error) => {
            let error = error.to_string();
            assert_eq!(error.lines().count(), 1, "{error}");
            let rest = error.strip_prefix(&format!("{}-rank-0.trace: ", path.display()));
            let rest = rest.or_else(|| error.strip_prefix(&format!("{}: ", path.display())));
            return rest.unwrap_or_else(|| panic!("this names no file: {error}")).to_owned();
        }
    };
    let mut steps = 0;
    for rank in (0..trace.ranks()).map(Rank) {
        steps += trace.steps(rank).inspect(|step| assert!(step.is_ok(), "{step:?}")).count();
    }
    assert!(steps as u64 <= 2 * trace.events());
    let remarks = trace.remarks();
    assert!(remarks.iter().all(|remark| remark.lines().count() == 1));
    let remarks = remarks.iter().map(|remark| remark.split_once(": ").unwrap().1).collect::<Vec<_>>().join("; ");
    format!("{} events, {steps} steps. {remarks}", trace.events())
}

/// Returns the kind of an outcome, without numbers and quoted text.
fn kind(outcome: &str) -> String {
    if outcome.contains("the header: ") {
        return "the header".to_owned();
    }
    if outcome.contains(": info: ") {
        return "the info".to_owned();
    }
    let outcome = outcome.split(" 0x").next().unwrap_or_default();
    outcome.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[test]
fn traces_changed_at_random_are_read_or_refused() {
    let cases: u64 = std::env::var("RMALAB_FUZZ_CASES").map_or(2000, |cases| cases.parse().unwrap());
    let keep = std::env::var_os("RMALAB_FUZZ_KEEP").is_some();
    let dir = tempfile::tempdir().unwrap();
    let base = short(dir.path());
    let file = dir.path().join("changed-rank-0.trace");
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for case in 0..cases {
        let mut random = StdRng::seed_from_u64(case);
        let mut bytes = base.clone();
        for _ in 0..random.random_range(1..4) {
            change(&mut bytes, &mut random);
        }
        if random.random_range(0..4) > 0 {
            repair(&mut bytes);
        }
        std::fs::write(&file, &bytes).unwrap();
        let outcome = outcome(&dir.path().join("changed"));
        let count = kinds.entry(kind(&outcome)).or_insert(0);
        *count += 1;
        if keep && *count == 1 {
            let name = format!("case-{case}");
            std::fs::write(corpus().join(format!("{name}-rank-0.trace")), &bytes).unwrap();
            println!("{name}: {outcome}");
        }
    }
    if cases >= 2000 {
        // The changes reach all layers: checksums, blocks, events, the rules of epochs, and valid traces.
        for layer in
            ["checksum", "the file ends at byte", "rank , event", "unknown kind", "events of the block", "the header"]
        {
            assert!(kinds.keys().any(|kind| kind.contains(layer)), "{layer}: {kinds:#?}");
        }
    }
}

#[test]
fn the_corpus_has_the_expected_outcomes() {
    let mut names: Vec<String> = std::fs::read_dir(corpus())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix("-rank-0.trace").map(str::to_owned))
        .collect();
    names.sort();
    let found: String = names.iter().map(|name| format!("{name}: {}\n", outcome(&corpus().join(name)))).collect();
    let expected = corpus().join("expected.txt");
    if std::env::var_os("RMALAB_FUZZ_KEEP").is_some() {
        std::fs::write(&expected, &found).unwrap();
    }
    assert!(!found.is_empty());
    assert_eq!(found, std::fs::read_to_string(expected).unwrap());
}
