//! `rmalab simulate` as users run it, and its library.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rmalab::Registry;
use rmalab::document::Document;
use rmalab::simulate::{Load, Mix, Options, Parameters, Section, Simulation, Target};
use rmalab::workload::Table;
use rmalab_atomics::sim::Profile;

use crate::program::{rmalab, stderr, stdout};

fn command(arguments: &[&str]) -> Command {
    let mut command = rmalab(&["simulate"]);
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

fn options(locks: &[&str], ranks: &[u32]) -> Options {
    let mut options = Options::new(Profile::builtin("fx100").expect("it comes with the program"));
    options.locks = locks.iter().map(|&name| name.to_owned()).collect();
    options.ranks = ranks.to_vec();
    options.pairs = Some(20);
    options
}

fn simulate(options: Options) -> rmalab::simulate::Outcome {
    let mut registry = Registry::standard();
    Parameters::default().apply(&mut registry);
    let simulation = Simulation::new(&registry, options).expect("the options make sense");
    simulation.run(|_| {}).expect("the locks are registered")
}

#[test]
fn bad_arguments_are_refused_with_a_clear_line() {
    for (arguments, says) in [
        (&["--ranks", "0"][..], "'0' is not a number of ranks"),
        (&["--ranks", "4:2:2"], "begins after its end"),
        (&["--ranks", "4:8"], "start:end:factor"),
        (&["--lock", "mcs-rw-pr"], "did you mean 'mcs-rw-"),
        (&["--profile", "no-such"], "no profile is called \"no-such\""),
        (&["--profile", "./no-such.toml"], "no-such.toml"),
        (&["--mix", "lock_all=50%"], "sum to 50 %"),
        (&["--mix", "lock_all=1", "--writers", "1%"], "--writers"),
        (&["--writers", "101%"], "101%"),
        (&["--section", "work:4us-1us"], "begins after its end"),
        (&["--section", "sleep"], "sleep"),
        (&["--engines", "0"], "engines"),
        (&["--pairs", "0"], "0"),
        (&["--seeds", "0"], "seeds"),
        (&["--target", "moon"], "moon"),
        (&["--home", "4", "--ranks", "4"], "has no rank 4"),
        (&["--exclusive-ranks", "5", "--ranks", "4"], "has no rank 4"),
        (&["--max-events", "much"], "much"),
        (&["--params", "leaf=0"], "leaf"),
        (&["--params", "t_dc=0"], "t_dc"),
        (&["--params", "fan_out=1"], "fan_out"),
        (&["--params", "t_r=0"], "t_r"),
        (&["--profile", "/dev/zero"], "/dev/zero"),
        (&["validate", "luck"], "luck"),
        (&["validate", "--ranks", "4"], "--ranks"),
        (&["--report", "/proc/version"], "/proc/version"),
    ] {
        let output = run(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(says), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_report_has_a_page_figures_and_data() {
    let at = tempfile::tempdir().unwrap();
    let report = at.path().join("report");
    let output = run(&[
        "--lock",
        "mcs-rw-rp,two-level,nocheck",
        "--ranks",
        "4:64:4",
        "--pairs",
        "10",
        "--writers",
        "0,20%",
        "--report",
        report.to_str().unwrap(),
    ]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let table = stdout(&output);
    assert!(table.contains("fx100: lock_all only") && table.contains("80 % lock_all, 20 % exclusive"), "{table}");
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("mcs-rw-rp") && page.contains("rmalab"));
    let document = Document::read(&report).unwrap();
    assert_eq!(document.run.seed, Some(1));
    assert!(document.sections[0].title.starts_with("fx100"), "{}", document.sections[0].title);
    assert_eq!(document.data.unwrap().rows.len(), 3 * 3 * 2);
    assert!(document.run.command.contains("--writers"));
    let csv = fs::read_to_string(report.join("data.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 18);
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().next().unwrap().starts_with("profile,load,lock,ranks,"));
    assert!(columns > 40, "{columns}");
    for name in ["time", "throughput", "median", "p99", "writers", "fairness", "adapter", "operations"] {
        let path = report.join(format!("plots/fx100-2-{name}.svg"));
        assert!(fs::read_to_string(path).unwrap().contains("<svg"), "{name}");
    }
}

#[test]
fn one_seed_gives_one_result_and_threads_change_nothing() {
    let points = |threads, seed| {
        let mut options = options(&["mcs", "two-level", "tas-rw"], &[8, 100]);
        options.loads = vec![Load {
            mix: Mix::writers(0.3),
            section: Section::Work(Duration::from_micros(1), Duration::from_micros(4)),
            table: None,
        }];
        options.target = Target::Random;
        options.threads = Some(threads);
        options.seed = seed;
        let points = simulate(options).points;
        assert_eq!(points.len(), 6);
        let shown = |point: &rmalab::simulate::Point| {
            let mut point = point.clone();
            point.wall_s = 0.0;
            format!("{point:?}")
        };
        points.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(points(1, 7), points(2, 7));
    assert_ne!(points(1, 7), points(1, 8));
}

/// Figures that can be computed by hand: two atomic operations for a pair, and the bound from them.
#[test]
fn operations_and_bounds_match_the_lock() {
    let mut options = options(&["mcs-rw-rp"], &[256]);
    options.machine.local_atomics = Some(rmalab_atomics::sim::profile::LocalAtomics::Nic);
    // With a warm-up near ranks run longer than far ones, and the mean has more near operations.
    options.warm_up = 0.0;
    let outcome = simulate(options);
    let [point] = &outcome.points[..] else { panic!() };
    assert_eq!(point.operations.total(), 2.0);
    let atomics = point.operations.atomic;
    assert_eq!((atomics[0], atomics[1]), (2.0 / 256.0, 2.0 * 31.0 / 256.0));
    // 256 ranks, two operations each, 265 ns one after the other.
    assert!((point.bound_ns - 256.0 * 2.0 * 265.0).abs() < 1.0, "{}", point.bound_ns);
    assert!(point.slowest_ns >= point.mean_ns && point.mean_ns >= point.fastest_ns);
    assert!((0.9..=1.0).contains(&point.utilization) && point.longest_queue > 200);
    let readers = point.readers.as_ref().unwrap();
    assert_eq!(readers.acquire.count, 256 * 20);
    assert!(readers.acquire.p50 <= readers.acquire.p99 && readers.acquire.p99 <= readers.acquire.max);
    assert!(point.writers.is_none());
}

/// The bound covers only measured pairs. The operations that open a lock on its nodes happen once, before these.
#[test]
fn no_lock_is_faster_than_its_bound() {
    let mut options =
        options(&["hierarchical", "rma-rw", "mcs-rw-rp", "two-level", "tas", "tas-rw", "mcs"], &[64, 256]);
    options.pairs = Some(3);
    for point in simulate(options).points {
        assert!(point.bound_ns <= point.slowest_ns, "{}: {} of {}", point.key, point.bound_ns, point.slowest_ns);
    }
}

/// All ranks begin together. So the throughput of all ranks follows from the time for a pair of the slowest rank.
#[test]
fn the_time_for_a_pair_agrees_with_the_throughput() {
    let mut options =
        options(&["hierarchical", "rma-rw", "mcs-rw-rp", "ticket", "tas", "mcs", "cohort"], &[4, 64, 256]);
    options.pairs = Some(10);
    for point in simulate(options).points {
        let expected = f64::from(point.key.ranks) * 1e9 / point.slowest_ns;
        let ratio = point.throughput / expected;
        assert!((0.999..=1.001).contains(&ratio), "{}: {} for {expected}", point.key, point.throughput);
    }
}

/// Readers that always come again let no writer of two-level in.
#[test]
fn a_lock_that_starves_ranks_says_so() {
    let locks = "two-level,mcs-rw-neutral";
    let output =
        run(&["--lock", locks, "--ranks", "64", "--exclusive-ranks", "2", "--pairs", "20", "--format", "json"]);
    let document = Document::from_json(&stdout(&output)).unwrap();
    let text = document.sections[0].text.join(" ");
    assert!(text.contains("starved ranks") && text.contains("two-level 2 of 64") && !text.contains("mcs"), "{text}");
}

#[test]
fn a_comparison_with_figures_is_a_document() {
    let output = run(&["validate", "paper", "--pairs", "2", "--format", "json"]);
    let document = Document::from_json(&stdout(&output)).unwrap();
    assert_eq!(document.kind, "validate");
    assert_eq!(document.sections[0].finding.tables[0].rows.len(), 9);
    assert!(document.summary[0].contains("figures are within their bounds"), "{:?}", document.summary);
}

#[test]
fn all_acquisitions_are_measured_without_warm_up() {
    let mut options = options(&["mcs-rw-rp"], &[4]);
    options.warm_up = 0.0;
    options.pairs = Some(1);
    let outcome = simulate(options);
    assert_eq!(outcome.points[0].readers.as_ref().unwrap().acquire.count, 4);
    assert_eq!(outcome.points[0].operations.total(), 2.0);
}

#[test]
fn exclusive_ranks_take_only_exclusive_locks() {
    let mut options = options(&["mcs-rw-neutral", "hierarchical", "two-level"], &[64]);
    options.exclusive_ranks = 2;
    for point in simulate(options).points {
        if point.key.lock == "two-level" {
            assert_eq!((point.starved, point.writers.is_none()), (2, true));
            continue;
        }
        let [writers, readers] = [&point.writers, &point.readers].map(|side| side.as_ref().unwrap().acquire.count);
        assert!(writers >= 2 * 20 && readers >= 62 * 20, "{}: {writers} and {readers}", point.key);
        assert_eq!(point.starved, 0, "{}", point.key);
        assert!(point.writers.unwrap().operations_max.unwrap() >= 4);
    }
}

#[test]
fn waiting_and_working_take_their_time() {
    let time = |section| {
        let mut options = options(&["nocheck"], &[64]);
        options.loads = vec![Load { section, ..Load::default() }];
        simulate(options).points[0].mean_ns
    };
    let two = Duration::from_micros(2);
    assert_eq!(time(Section::Empty), 0.0);
    assert_eq!(time(Section::Work(two, two)), 2000.0);
    assert_eq!(time(Section::Wait(two, two)), 2000.0);
    assert!(time(Section::Operation) > 300.0);
}

#[test]
fn points_that_cannot_run_are_left_out_with_a_reason() {
    let output = run(&["--lock", "tas-rw,per-target", "--ranks", "4,512", "--max-events", "100k", "--pairs", "4"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    let left: Vec<&str> = table.lines().filter(|line| line.contains("--max-events")).collect();
    assert_eq!(left.len(), 1, "{table}");
    assert!(left[0].contains("per-target on fx100 at 512 ranks") && left[0].contains("--max-events"), "{left:?}");
}

/// A point that ends before the first check of its events is left out as well.
#[test]
fn a_small_limit_of_events_holds() {
    let output = run(&["--lock", "mcs-rw-rp", "--ranks", "4,16", "--max-events", "90", "--pairs", "10"]);
    let table = stdout(&output);
    assert_eq!(table.lines().filter(|line| line.contains("--max-events")).count(), 2, "{table}{}", stderr(&output));
}

/// 16 million ranks take 80 GB.
#[test]
fn points_with_too_many_ranks_for_the_memory_are_left_out() {
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")).unwrap();
    if total.parse::<u64>().unwrap() > 70 << 20 {
        return;
    }
    let output = run(&["--lock", "nocheck", "--ranks", "4,16M", "--pairs", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("nocheck on fx100 at 16,000,000 ranks") && table.contains("GiB"), "{table}");
}

#[test]
fn pairs_that_take_no_time_have_no_rate() {
    let output = run(&["--lock", "nocheck", "--ranks", "1,4", "--pairs", "100", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(!table.contains("/s"), "{table}");
    assert!(table.contains("nocheck excludes no rank: it is a bound, not a lock."), "{table}");
}

#[test]
fn an_interrupt_keeps_the_results() {
    use std::io::{BufRead, BufReader};
    // The small one ends; the large one would take minutes.
    let mut command = command(&[
        "--lock",
        "mcs-rw-rp",
        "--ranks",
        "4,4096",
        "--pairs",
        "20k",
        "--max-events",
        "100G",
        "--threads",
        "2",
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // Without a terminal it prints completed points, the first one after some seconds at the earliest.
    let first = lines.map_while(Result::ok).find(|line| line.contains("at 4 ranks"));
    assert!(first.is_some());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let table = stdout(&output);
    assert!(table.contains("mcs-rw-rp") && !table.contains("4096\n"), "{table}");
}

/// Contention costs every lock, readers share only reader-writer locks, and near locks need no network.
#[test]
fn tables_of_locks_show_contention_and_distance() {
    let point = |lock: &str, shared: f64, table: &str| {
        let mut options = options(&[lock], &[64]);
        let mix = Mix { lock_all: 0.0, shared, exclusive: 1.0 - shared };
        options.loads = vec![Load { mix, section: Section::Empty, table: Some(table.parse().unwrap()) }];
        options.pairs = Some(20);
        options.machine.ranks_per_node = Some(8);
        simulate(options).points.remove(0)
    };
    let rate = |lock: &str, shared: f64, table: &str| point(lock, shared, table).throughput;
    for lock in ["mcs", "mcs-rw-neutral", "declock"] {
        let [one, hot, even] = ["1", "100:zipf=1.2", "10M"].map(|table| rate(lock, 0.0, table));
        assert!(one < hot && hot < even, "{lock}: {one}, {hot}, {even}");
    }
    assert!(rate("mcs", 1.0, "1") < 1.1 * rate("mcs", 0.0, "1"));
    assert!(rate("big-reader", 1.0, "1") > 10.0 * rate("big-reader", 0.0, "1"));
    let [near, far] = ["1k:local=100%", "1k:local=0%"].map(|table| point("mcs", 0.0, table));
    assert_eq!((near.operations.by_distance()[2], near.starved), (0.0, 0));
    assert!(far.operations.by_distance()[2] >= 2.0);
    // At home, the words of one lock of many are the same as the words of a single lock.
    let [table, alone] = [point("mcs", 0.0, "1"), {
        let mut options = options(&["mcs"], &[64]);
        options.loads = vec![Load { mix: Mix::writers(1.0), ..Load::default() }];
        options.pairs = Some(20);
        options.machine.ranks_per_node = Some(8);
        simulate(options).points.remove(0)
    }];
    assert!((table.throughput / alone.throughput - 1.0).abs() < 0.1, "{} {}", table.throughput, alone.throughput);
}

/// A lock that collapses has a throughput all the same, from the part that was measured.
#[test]
fn a_measurement_over_a_table_ends_at_half_of_the_events() {
    let table = |events: u64| {
        let mut options = options(&["tas"], &[256]);
        let mix = Mix { lock_all: 0.0, shared: 0.0, exclusive: 1.0 };
        options.loads = vec![Load { mix, section: Section::Empty, table: Some("2".parse().unwrap()) }];
        options.pairs = Some(100_000);
        options.warm_up = 0.0002;
        options.max_events = events;
        simulate(options)
    };
    let outcome = table(4_000_000);
    assert!(outcome.left_out.is_empty(), "{:?}", outcome.left_out);
    assert!(outcome.points[0].throughput > 0.0 && outcome.points[0].events < 4_000_000);
    // A rank that has measured nothing by then is a rank that got nothing, and not a rank that took no time.
    assert!(outcome.points.iter().all(|point| point.fastest_ns > 0.0), "{:?}", outcome.points);
}

/// A transaction of a trace holds all its locks at a time, and computes once. The modes of the trace decide how many acquisitions are
/// exclusive.
#[test]
fn a_trace_has_the_locks_of_a_simulation() {
    let dir = tempfile::tempdir().unwrap();
    let table = |name: &str, text: &str| -> Table {
        let file = dir.path().join(name);
        fs::write(&file, text).unwrap();
        format!("trace={}:homes=1", file.display()).parse().unwrap()
    };
    let outcome = |lock: &str, table: &Table, section: Section| {
        let mut options = options(&[lock], &[2]);
        let trace = table.trace.as_ref().unwrap();
        options.loads = vec![Load { mix: Mix::of(trace), section, table: Some(table.clone()) }];
        options.pairs = Some(120);
        simulate(options).points.remove(0)
    };
    let work = Section::Work(Duration::from_micros(50), Duration::from_micros(50));
    // Both ranks write the same two locks; each writes two of its own; and one of four locks is written.
    let (same, apart) = ("1,0,1,1,2\n1,0,1,3,2\n", "1,0,1,1,2\n1,0,1,3,2\n2,0,1,0,2\n2,0,1,2,2\n");
    let [same, apart, half] =
        [("same", same), ("apart", apart), ("half", "1,0,1,1,2\n1,0,1,3,1\n2,0,1,1,1\n2,0,1,5,1\n")]
            .map(|(name, text)| table(name, text));
    for lock in ["mcs", "shiftlock", "tas-rw", "two-level"] {
        // A pair is one of the two locks, and a transaction takes 50 us: one after the other, or at the same time.
        let (together, alone) = (outcome(lock, &same, work), outcome(lock, &apart, work));
        assert!((50_000.0..60_000.0).contains(&(2.0 * 1e9 / together.throughput)), "{lock}: {}", together.throughput);
        assert!((25_000.0..32_000.0).contains(&(2.0 * 1e9 / alone.throughput)), "{lock}: {}", alone.throughput);
        assert!(together.readers.is_none() && alone.readers.is_none());
    }
    let point = outcome("shiftlock", &half, Section::Operation);
    let [readers, writers] = [&point.readers, &point.writers].map(|side| side.as_ref().unwrap().acquire.count as f64);
    // One of each four locks is exclusive, whichever rank is faster.
    assert!((0.1..0.4).contains(&(writers / (readers + writers))), "{readers} {writers}");
    assert_eq!(point.key.load.mix.exclusive, 0.25);
}

/// The sub-command writes the generated trace, every lock takes it without a deadlock, and its wrong uses are one line.
#[test]
fn traces_of_benchmarks_are_written_and_simulated() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tpcc.csv");
    let name = file.to_str().unwrap();
    let output = run(&["trace", "tpcc", "--size", "1", "--transactions", "200", "-o", name]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let written = fs::read(&file).unwrap();
    let again = run(&["trace", "tpcc", "--size", "1", "--transactions", "200"]);
    assert_eq!(written, again.stdout);
    let table = format!("trace={name}:homes=2");
    let output = run(&["--table", &table, "--ranks", "8", "--pairs", "20", "--max-events", "400k", "--quiet"]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{said}{}", stderr(&output));
    assert!(said.contains("tpcc.csv of 200 transactions"), "{said}");
    for lock in Registry::standard().subjects() {
        assert!(said.contains(&lock.info().name), "{}", lock.info().name);
    }
    assert!(!said.contains("left out"), "{said}");
    for (arguments, part) in [
        (&["--table", "trace=no-such.csv"][..], "no-such.csv: "),
        (&["--table", &format!("{table}:zipf=1")], "a trace has its own order of locks"),
        (&["--table", &table, "--writers", "5%"], "a trace has its own shares of exclusive locks"),
        (&["arena", "--table", &table], "a trace has its own share"),
        (&["trace", "tatp", "--size", "0"], "not a number above 0"),
        (&["trace", "tatp", "--size", "100M"], "the size 100000000 is not from 1 to 47619047"),
        (&["trace", "tatp", "--size", "99G"], "the size 99000000000 is not from 1 to 47619047"),
        (&["trace", "tatp", "--transactions", "0"], "not a number above 0"),
        (&["trace", "tatp", "--format", "json"], "one format"),
        (&["trace", "tatp", "-o", "/no/such/folder/t.csv"], "cannot be written"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn wrong_tables_are_one_line() {
    for (arguments, part) in [
        (&["--table", "0"][..], "not a number of locks from 1"),
        (&["--table", "1k:zipf=-1"], "the exponent is not a number from 0 to 10"),
        (&["--table", "1k:homes=8", "--ranks", "4"], "a table at 8 ranks does not fit a world of 4"),
    ] {
        let output = run(&[&["--lock", "mcs"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    // A word of every lock is more than a segment has, and more than a busy machine has.
    let output = run(&["--lock", "mcs", "--table", "1000M", "--ranks", "2", "--pairs", "1"]);
    let said = stdout(&output);
    let line = said.lines().find(|line| line.contains("mcs on fx100 at 2 ranks"));
    let says_why = |line: &str| line.contains("free bytes of a rank's segment") || line.contains("GiB are available");
    assert!(line.is_some_and(says_why), "{said}{}", stderr(&output));
}

/// The map names a lock at every place, mutexes are simulated once for all shares of readers, and lone pairs have their known costs.
#[test]
fn the_arena_maps_the_best_locks() {
    let arguments = [
        "arena",
        "--lock",
        "mcs,declock,nocheck",
        "--ranks",
        "8",
        "--table",
        "1,1k",
        "--pairs",
        "20",
        "--format",
        "json",
    ];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document = Document::from_json(&stdout(&output)).unwrap();
    let section = &document.sections[0];
    assert_eq!((section.id.as_str(), section.finding.tables.len()), ("ranks-8", 4 + 2));
    for map in &section.finding.tables[..4] {
        assert_eq!(map.rows.len(), 2, "{}", map.title);
        for cell in map.rows.iter().flat_map(|row| &row[1..]) {
            let text = cell.to_string();
            assert!(text.starts_with("mcs ") || text.starts_with("declock "), "{}: {text}", map.title);
        }
    }
    let one = &section.finding.tables[4];
    let mcs = one.rows.iter().find(|row| row[0].to_string() == "mcs").unwrap();
    assert!((1..5).all(|at| mcs[at] == mcs[at + 4] && mcs[at] == mcs[at + 8]), "{mcs:?}");
    let operations = document.sections.iter().find(|section| section.id == "operations").unwrap();
    let row = |lock: &str| {
        let rows = &operations.finding.tables[0].rows;
        rows.iter().find(|row| row[0].to_string() == lock).unwrap()[1..]
            .iter()
            .map(|cell| cell.value.number())
            .collect::<Vec<_>>()
    };
    let mcs = row("mcs");
    // Alone a swap and a compare-and-swap; with waiters a swap, and one put to link and one to hand over.
    assert_eq!((mcs[0], mcs[1], mcs[2], mcs[4]), (Some(2.0), None, Some(1.0), Some(2.0)), "{mcs:?}");
    let declock = row("declock");
    assert_eq!((declock[0], declock[1], declock[2]), (Some(2.0), Some(2.0), Some(3.0)), "{declock:?}");
    // Six of declock and nocheck each, and two of mcs.
    assert_eq!(document.data.unwrap().rows.len(), 6 + 6 + 2);
}
