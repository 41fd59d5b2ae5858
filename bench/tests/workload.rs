//! Workloads: the examples, errors in descriptions, and the steps of ranks.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rmalab::workload::{Acquire, Objective, Span, Targets, Workload};
use rmalab_atomics::{Rank, RemoteAtomics, World};
use rmalab_locks::{LockKind, McsRwRp, PerTarget, TwoLevel, WindowLock};
use rmalab_windows::replay::{Locked, Observed, Phase, Replay, Shape, Step};
use rmalab_windows::{Assert, Team, Window};

fn examples() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

const GOOD: &str = r#"ranks = 8
ranks_per_node = 4
acquisitions = 10
objective = "p99"
[[class]]
share = 1.0
lock = "lock_all"
targets = "uniform"
between = "1us"
inside = "2us"
[[class.operation]]
kind = "put"
bytes = "8B"
"#;

fn parse(text: &str) -> Result<Workload, String> {
    Workload::parse(Path::new("dir/w.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn a_description_is_read() {
    let workload = parse(GOOD).unwrap();
    assert_eq!((workload.name.as_str(), workload.ranks, workload.objective), ("w", 8, Objective::P99));
    let class = &workload.classes[0];
    assert_eq!((class.lock, class.targets, class.between), (Acquire::LockAll, Targets::Uniform, Span::Constant(1000)));
    assert_eq!(workload.largest(), 8);
    let steps: Vec<Step> = workload.steps(1, Rank(0)).take(5).collect();
    assert_eq!(steps[..2], [Step::Compute(1000), Step::LockAll { assert: Assert::None }]);
    assert!(matches!(steps[2], Step::Put { bytes: 8, .. }));
    assert_eq!(steps[3..], [Step::Compute(2000), Step::UnlockAll]);
    assert_eq!(workload.steps(1, Rank(0)).count(), 50);
}

/// A lock of a table is at its home, and near with its share.
#[test]
fn locks_of_a_table_are_at_their_homes() {
    let text = |table: &str| {
        GOOD.replace("\"lock_all\"", "\"exclusive\"").replace("[[class]]", &format!("[table]\n{table}\n[[class]]"))
    };
    let targets = |table: &str, rank: u32| {
        let mut workload = parse(&text(table)).unwrap();
        workload.acquisitions = 1000;
        let locked = |step| match step {
            Step::Lock { target, .. } => Some(target.0),
            _ => None,
        };
        workload.steps(1, Rank(rank)).filter_map(locked).collect::<Vec<u32>>()
    };
    assert!(targets("locks = 1000\nhomes = 2", 5).iter().all(|target| [0, 4].contains(target)));
    let near = targets("locks = 1000\nlocal = 0.9", 5).iter().filter(|&&target| target >= 4).count();
    assert!((870..930).contains(&near), "{near}");
    let fewer = parse(&text("locks = 1000\nhomes = 8")).unwrap().with_ranks(2);
    assert_eq!(fewer.table().unwrap().homes, Some(2));
    assert!(fewer.steps(1, Rank(1)).count() > 0);
}

/// A transaction locks the homes of its locks by rising ranks, each once, in the stronger mode, and holds all of them at a time. With both
/// modes the first one is exclusive.
#[test]
fn a_trace_has_the_locks_of_a_workload() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "1,0,1,9,1\n1,0,1,2,1\n1,0,1,10,2\n2,0,1,3,1\n2,0,1,11,1\n2,0,1,4,1\n3,0,1,0,2\n";
    std::fs::write(dir.path().join("t.csv"), trace).unwrap();
    let text = |table: &str| {
        let text = GOOD.replace("lock = \"lock_all\"\ntargets = \"uniform\"\n", "");
        text.replace("[[class]]", &format!("[table]\n{table}\n[[class]]"))
    };
    let file = dir.path().join("w.toml");
    std::fs::write(&file, text("trace = \"t.csv\"")).unwrap();
    let workload = Workload::read(&file).unwrap();
    assert_eq!(workload.table().unwrap().to_string(), "12 locks, t.csv of 3 transactions, 2.33 locks each");
    let (lock, unlock) = (
        |kind, target| Step::Lock { kind, target: Rank(target), assert: Assert::None },
        |target| Step::Unlock { target: Rank(target) },
    );
    let without_puts = |rank: u32| {
        let steps = workload.steps(1, Rank(rank)).filter(|step| !matches!(step, Step::Put { .. }));
        steps.collect::<Vec<Step>>()
    };
    // Locks 9, 2 and 10 are at ranks 1, 2 and 2, locks 3, 11 and 4 at ranks 3, 3 and 4.
    let (s, x) = (LockKind::Shared, LockKind::Exclusive);
    let first = [Step::Compute(1000), lock(x, 1), lock(x, 2), Step::Compute(2000), unlock(2), unlock(1)];
    let second = [Step::Compute(1000), lock(s, 3), lock(s, 4), Step::Compute(2000), unlock(4), unlock(3)];
    let third = [Step::Compute(1000), lock(x, 0), Step::Compute(2000), unlock(0)];
    assert_eq!(without_puts(0)[..6], first);
    assert_eq!(without_puts(1)[..6], second);
    assert_eq!(without_puts(2)[..4], third);
    assert_eq!(without_puts(0).len(), 60);
    // The operations of the class are done at each target.
    let puts = |rank| {
        let target = |step| if let Step::Put { target, .. } = step { Some(target.0) } else { None };
        workload.steps(1, Rank(rank)).filter_map(target).take(4).collect::<Vec<u32>>()
    };
    assert_eq!((puts(0), puts(2)), (vec![1, 2, 1, 2], vec![0; 4]));

    let wrong = |table: &str, class: &str| {
        let text = text(table).replace("inside", &format!("{class}inside"));
        Workload::parse(&file, &text).unwrap_err().to_string()
    };
    for (table, class, what) in [
        ("trace = \"no.csv\"", "", "w.toml:6: table.trace: "),
        ("trace = 5", "", "w.toml:6: table.trace: '5' is not a file's name"),
        ("trace = \"t.csv\"\nlocks = 9", "", "w.toml:7: table.locks: a trace has its own locks"),
        ("trace = \"t.csv\"\nlocal = 0.5", "", "w.toml:7: table.local: a trace has its own locks"),
        ("trace = \"t.csv\"", "lock = \"shared\"\n", "class 1.lock: the trace of [table] has the locks"),
        ("trace = \"t.csv\"", "targets = \"own\"\n", "class 1.targets: the trace of [table] has the locks"),
        ("trace = \"w.toml\"", "", "there is no transaction in it"),
    ] {
        let error = wrong(table, class);
        assert!(error.contains(what) && !error.contains('\n'), "{error}");
    }
}

/// Errors: the replaced text of the good description, its replacement, and the whole message.
#[test]
fn errors_are_reported_in_one_line() {
    let wrong: &[(&str, &str, &str)] = &[
        (
            "\"1us\"",
            "1",
            "9: class 1.between: '1' has no unit; write it as \"5us\" (the units are ps, ns, us, ms, s, min or h)",
        ),
        ("\"1us\"", "\"1\"", "9: class 1.between: \"1\" has no unit; write a time such as \"100ns\" or \"0.71us\""),
        (
            "\"1us\"",
            "\"-1us\"",
            "9: class 1.between: \"-1us\" is negative; write a time such as \"100ns\" or \"0.71us\"",
        ),
        (
            "\"1us\"",
            "nan",
            "9: class 1.between: 'nan' has no unit; write it as \"5us\" (the units are ps, ns, us, ms, s, min or h)",
        ),
        (
            "\"1us\"",
            "\"2 days\"",
            "9: class 1.between: \"2 days\" has the unit \"days\"; write ps, ns, us, ms, s, min or h",
        ),
        ("\"1us\"", "\"30h\"", "9: class 1.between: \"30h\" is too long; write at most 24h"),
        (
            "\"1us\"",
            "{ mean = 5 }",
            "9: class 1.between.mean: '5' has no unit; write it as \"5us\" (the units are ps, ns, us, ms, s, min or h)",
        ),
        ("\"1us\"", "{ min = \"2us\", max = \"1us\" }", "9: class 1.between.min: it is more than max"),
        (
            "\"1us\"",
            "{ max = \"1us\" }",
            "9: class 1.between: write a time as \"5us\", or { min = \"1us\", max = \"9us\" }, or { mean = \"5us\" } (exponential)",
        ),
        (
            "\"8B\"",
            "8",
            "13: class 1.operation 1.bytes: '8' has no unit; write it as \"64B\" (the units are B, kB, MB, GB, KiB or K, MiB or M, GiB or G)",
        ),
        (
            "\"8B\"",
            "\"2000GiB\"",
            "13: class 1.operation 1.bytes: '2000GiB' is more than 1 TiB; write a size of at most 1024GiB",
        ),
        ("bytes = \"8B\"", "", "11: class 1.operation 1.bytes: it is missing; write bytes = \"64B\""),
        ("inside = \"2us\"", "", "5: class 1.inside: it is missing; write inside = \"0ns\""),
        ("objective = \"p99\"", "", "1: objective: it is missing; write objective = \"throughput\""),
        ("\"p99\"", "\"speed\"", "4: objective: 'speed' is not one of \"throughput\", \"p99\", \"fairness\""),
        ("ranks = 8", "ranks = 0", "1: ranks: '0' is not a whole number from 1 to 16000000"),
        ("ranks = 8", "ranks = -8", "1: ranks: '-8' is not a whole number from 1 to 16000000"),
        ("ranks_per_node = 4", "ranks_per_node = 9", "2: ranks_per_node: '9' is not a whole number from 1 to 8"),
        (
            "acquisitions = 10",
            "acquisitions = 1.5",
            "3: acquisitions: '1.5' is not a whole number from 1 to 1000000000",
        ),
        ("share = 1.0", "share = 0.5", "5: class.share: the shares of all classes sum to 0.5, but must sum to 1"),
        ("share = 1.0", "share = nan", "6: class 1.share: 'nan' is not a number from 0 to 1"),
        ("share = 1.0", "share = -0.1", "6: class 1.share: '-0.1' is not a number from 0 to 1"),
        ("\"lock_all\"", "\"lock\"", "7: class 1.lock: 'lock' is not one of \"lock_all\", \"shared\", \"exclusive\""),
        (
            "\"uniform\"",
            "\"all\"",
            "8: class 1.targets: 'all' is not one of \"uniform\", \"own\", \"neighbours\", { zipf = 0.99 } or { single = 0 }",
        ),
        ("\"uniform\"", "{ single = 8 }", "8: class 1.targets.single: '8' is not a whole number from 0 to 7"),
        ("\"uniform\"", "{ zipf = inf }", "8: class 1.targets.zipf: 'inf' is not a number from 0 to 10"),
        ("\"uniform\"", "{ zip = 1 }", "8: class 1.targets.zip: there is no such key; the keys here are zipf, single"),
        (
            "inside",
            "insid",
            "10: class 1.insid: there is no such key; the keys here are share, lock, targets, between, inside, operation",
        ),
        ("\"put\"", "\"puts\"", "12: class 1.operation 1.kind: 'puts' is not one of \"put\", \"get\", \"update\""),
        (
            "[[class.operation]]",
            "[class.operation]",
            "11: class 1.operation: this is not a table; write [[class 1.operation]]",
        ),
        ("[[class]]", "table = 5\n[[class]]", "5: table: this is not a table; write [table], and locks = 100000 in it"),
        ("[[class]]", "[table]\nhomes = 1\n[[class]]", "5: table.locks: it is missing; write locks = 100000"),
        (
            "[[class]]",
            "[table]\nlocks = 0\n[[class]]",
            "6: table.locks: '0' is not a whole number from 1 to 1000000000",
        ),
        (
            "[[class]]",
            "[table]\nlocks = 10\nhomes = 9\n[[class]]",
            "7: table.homes: '9' is not a whole number from 1 to 8",
        ),
        (
            "[[class]]",
            "[table]\nlocks = 10\nlocal = \"120%\"\n[[class]]",
            "7: table.local: '120%' is not from 0 to 100 %",
        ),
        (
            "[[class]]\nshare = 1.0\nlock = \"lock_all\"\ntargets = \"uniform\"",
            "[table]\nlocks = 10\n[[class]]\nshare = 1.0\nlock = \"shared\"\ntargets = \"own\"",
            "10: class 1.targets: a lock of a table is drawn by \"uniform\" or { zipf = 0.99 }",
        ),
        ("lock = \"lock_all\"", "lock = lock_all", "7: this is not TOML: "),
        ("share = 1.0", "share = 1.0\nshare = 1.0", "7: this is not TOML: duplicate key"),
    ];
    for (from, to, message) in wrong {
        assert!(GOOD.contains(from), "{from}");
        let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert!(error.starts_with(&format!("dir/w.toml:{message}")), "{error}\ndir/w.toml:{message}");
        assert!(error.lines().count() == 1 && (message.contains("TOML") || error.ends_with(message)), "{error}");
    }
    let any = GOOD.replace("\"lock_all\"", "\"shared\"") + "target = \"any\"\n";
    let error = parse(&any).unwrap_err();
    assert_eq!(
        error,
        "dir/w.toml:14: class 1.operation 1.target: only lock_all reaches targets other than the locked one"
    );
    let none = &GOOD[..GOOD.find("[[class]]").unwrap()];
    assert!(parse(none).unwrap_err().contains("at least one class"));
    let error = Workload::read("nowhere.toml").unwrap_err().to_string();
    assert!(error.starts_with("nowhere.toml: No such file"), "{error}");
}

/// The number of locks of each target, over all acquisitions of all ranks.
fn targets(targets: &str, ranks: u32, seed: u64) -> BTreeMap<Rank, u64> {
    let text = GOOD.replace("\"uniform\"", targets).replace("\"lock_all\"", "\"exclusive\"");
    let workload = parse(&text.replace("acquisitions = 10", "acquisitions = 2000")).unwrap().with_ranks(ranks);
    let mut counts = BTreeMap::new();
    for rank in (0..ranks).map(Rank) {
        for step in workload.steps(seed, rank) {
            if let Step::Lock { target, .. } = step {
                *counts.entry(target).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(counts.values().sum::<u64>(), 2000 * u64::from(ranks));
    counts
}

#[test]
fn targets_are_as_popular_as_described() {
    let uniform = targets("\"uniform\"", 8, 1);
    assert!(uniform.len() == 8 && uniform.values().all(|&count| count.abs_diff(2000) < 300), "{uniform:?}");
    assert_eq!(targets("{ single = 5 }", 8, 1), BTreeMap::from([(Rank(5), 16_000)]));
    assert_eq!(targets("\"own\"", 3, 1), BTreeMap::from([(Rank(0), 2000), (Rank(1), 2000), (Rank(2), 2000)]));
    assert_eq!(targets("\"neighbours\"", 1, 1), BTreeMap::from([(Rank(0), 2000)]));
    // Zipf with exponent 1 of 8: in proportion to 1, 1/2, 1/3, …, whose sum is 2.718.
    let mut zipf: Vec<u64> = targets("{ zipf = 1.0 }", 8, 1).into_values().collect();
    zipf.sort();
    for (k, count) in (1..).zip(zipf.iter().rev()) {
        let expected = 16_000.0 / f64::from(k) / 2.717_857;
        assert!((*count as f64 - expected).abs() < 0.1 * expected, "{k}: {count} for {expected}");
    }
    // The general formula, next to its pole.
    assert_eq!(targets("{ zipf = 1.0000000001 }", 8, 1), targets("{ zipf = 1.0 }", 8, 1));
    assert!(targets("{ zipf = 10 }", 8, 1).values().any(|&count| count > 15_900));
    assert_eq!(targets("{ zipf = 0 }", 8, 1).len(), 8);
}

#[test]
fn neighbours_are_the_adjacent_ranks() {
    let text = GOOD.replace("\"uniform\"", "\"neighbours\"").replace("\"lock_all\"", "\"shared\"");
    let workload = parse(&text).unwrap();
    for rank in 0..8 {
        for step in workload.steps(3, Rank(rank)) {
            if let Step::Put { target, .. } = step {
                assert!([(rank + 1) % 8, (rank + 7) % 8].contains(&target.0));
            }
        }
    }
}

#[test]
fn times_are_drawn_as_described() {
    let times = |between: &str| -> Vec<u64> {
        let text = GOOD.replace("\"1us\"", between).replace("acquisitions = 10", "acquisitions = 10000");
        let workload = parse(&text).unwrap();
        let steps: Vec<Step> = workload.steps(7, Rank(2)).collect();
        steps
            .windows(2)
            .filter_map(|pair| match pair {
                [Step::Compute(ns), Step::LockAll { .. }] => Some(*ns),
                _ => None,
            })
            .collect()
    };
    let uniform = times("{ min = \"1us\", max = \"3us\" }");
    assert!(uniform.iter().all(|ns| (1000..=3000).contains(ns)) && uniform.iter().any(|&ns| ns < 1100));
    let exponential = times("{ mean = \"10us\" }");
    let mean = exponential.iter().sum::<u64>() / 10_000;
    assert!((9700..10_300).contains(&mean) && exponential.iter().any(|&ns| ns > 50_000), "{mean}");
    // A time of zero is no step.
    assert!(times("\"0ns\"").is_empty());
}

#[test]
fn steps_follow_from_workload_seed_and_rank() {
    let workload = Workload::read(&examples()[0]).unwrap();
    let steps = |seed, rank| -> Vec<Step> { workload.steps(seed, Rank(rank)).take(400).collect() };
    assert_eq!(steps(1, 2), steps(1, 2));
    assert_ne!(steps(1, 2), steps(2, 2));
    assert_ne!(steps(1, 2), steps(1, 3));
    // The sequences of two ranks are not shifted copies of each other.
    assert_ne!(steps(1, 2)[4..100], steps(1, 3)[..96]);
    assert!(size_of_val(&workload.steps(1, Rank(0))) <= 128);
}

#[test]
fn shares_are_fractions_or_percentages() {
    assert_eq!(parse(&GOOD.replace("share = 1.0", "share = \"100%\"")).unwrap().classes[0].share, 1.0);
    let error = parse(&GOOD.replace("share = 1.0", "share = \"101%\"")).unwrap_err();
    assert!(error.contains("not from 0 to 100 %"), "{error}");
}

#[test]
fn classes_have_their_shares() {
    for file in examples() {
        let workload = Workload::read(&file).unwrap().with_ranks(4);
        let mut exclusive = 0.0;
        let mut all = 0.0;
        for seed in 0..20 {
            for step in workload.steps(seed, Rank(1)) {
                exclusive += f64::from(u8::from(matches!(step, Step::Lock { kind: LockKind::Exclusive, .. })));
                all += f64::from(u8::from(matches!(step, Step::Lock { .. } | Step::LockAll { .. })));
            }
        }
        let classes = workload.classes.iter().filter(|class| class.lock == Acquire::Exclusive);
        let share: f64 = classes.map(|class| class.share).sum();
        let expected = share * all;
        assert!((exclusive - expected).abs() <= 5.0 * expected.sqrt(), "{}: {exclusive} of {all}", file.display());
    }
}

/// Transfers longer than the window are split, each part within it; updates are split into words.
#[test]
fn transfers_lie_in_the_window() {
    let text = GOOD.replace("\"8B\"", "\"150KiB\"\ncount = 3\n[[class.operation]]\nkind = \"update\"\nbytes = \"20B\"");
    let workload = parse(&text).unwrap();
    let window = workload.window_bytes();
    assert_eq!(window, 64 << 10);
    let (mut put, mut updates) = (0, 0);
    for step in workload.steps(1, Rank(3)) {
        match step {
            Step::Put { disp, bytes, .. } => {
                assert!(bytes > 0 && disp.0 % 8 == 0 && disp.0 as u64 + bytes <= window, "{step:?}");
                put += bytes;
            }
            Step::Update { disp, bytes, .. } => {
                assert!(bytes == 8 && disp.0 % 8 == 0 && disp.0 as u64 + bytes <= window, "{step:?}");
                updates += 1;
            }
            _ => {}
        }
    }
    assert_eq!((put, updates), (10 * 3 * (150 << 10), 10 * 3));
}

/// Runs an example on threads; returns the number of acquisitions.
fn run<W: WindowLock>(workload: &Workload) -> u64 {
    // For each target: the exclusive holders, and the shared ones.
    let holders: Vec<[AtomicU64; 2]> = (0..workload.ranks).map(|_| Default::default()).collect();
    let acquired = World::threads(workload.ranks).run(|ra| {
        let team = Team::new(ra).unwrap();
        let builder = Window::builder(&team).policy::<W>(W::Params::default());
        let mut replay = Replay::new(builder, &Shape::allocated(workload.window_bytes())).unwrap();
        let mut acquired = 0;
        let steps = workload.steps(42, ra.rank()).map(Ok);
        let done = replay.run(steps, |Observed { phase, locked, .. }| {
            let (targets, exclusive) = match locked {
                Locked::All => (0..workload.ranks, false),
                Locked::Target(kind, target) => (target.0..target.0 + 1, kind == LockKind::Exclusive),
            };
            for target in targets {
                let [alone, together] = &holders[target as usize];
                let own = if exclusive { alone } else { together };
                match phase {
                    // Checked inside the lock, which orders these accesses.
                    Phase::Acquire => {
                        assert_eq!(alone.load(Ordering::SeqCst), 0, "{}: {target} is held alone", workload.name);
                        let others = together.load(Ordering::SeqCst);
                        assert!(!exclusive || others == 0, "{}: {target} is held by {others}", workload.name);
                        own.fetch_add(1, Ordering::SeqCst);
                    }
                    Phase::Hold => {
                        own.fetch_sub(1, Ordering::SeqCst);
                    }
                    Phase::Release => {}
                }
            }
            acquired += u64::from(phase == Phase::Acquire);
        });
        done.unwrap();
        acquired
    });
    acquired.unwrap().iter().sum()
}

#[test]
fn the_examples_run_under_two_policies_and_exclusion_holds() {
    let examples = examples();
    assert!(examples.len() >= 6);
    for file in examples {
        let mut workload = Workload::read(&file).unwrap().with_ranks(4);
        workload.acquisitions = 60;
        assert_eq!(run::<TwoLevel>(&workload), 240, "{}", file.display());
        assert_eq!(run::<PerTarget<McsRwRp>>(&workload), 240, "{}", file.display());
    }
}
