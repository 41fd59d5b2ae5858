//! `rmalab advise` as users run it: clear advice, refused input, and its output.

mod traces;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use rmalab::Registry;
use rmalab::advise::{Advice, Advise, Objective, Options, Standing};
use rmalab::document::{Document, text};
use rmalab::workload::{Benchmark, Workload};
use rmalab_atomics::{Rank, RemoteAtomics, Time, Topology, World};
use rmalab_windows::replay::Step;
use rmalab_windows::trace::{Description, Recorder};
use rmalab_windows::{Assert, Config, Error, Flavor, Info, LockKind, Op, Team, Window, WindowDisp};

use crate::program;

/// A workload of one class.
fn workload(dir: &Path, ranks: u32, ranks_per_node: u32, lock: &str, targets: &str, acquisitions: u32) -> PathBuf {
    let text = format!(
        "ranks = {ranks}\nranks_per_node = {ranks_per_node}\nacquisitions = {acquisitions}\nobjective = \"throughput\"\n\n\
         [[class]]\nshare = 1.0\nlock = \"{lock}\"\ntargets = {targets}\nbetween = {{ mean = \"1us\" }}\ninside = \"100ns\"\n"
    );
    let path = dir.join("work.toml");
    fs::write(&path, text).expect("the folder can be written");
    path
}

fn options(workload: &Path, profile: &str, policies: &[&str]) -> Options {
    Options {
        workload: Some(workload.to_owned()),
        profile: Some(profile.to_owned()),
        policies: policies.iter().map(|&name| name.to_owned()).collect(),
        seeds: 3,
        ..Options::default()
    }
}

fn advise(options: Options) -> Advice {
    let registry = Registry::standard();
    Advise::new(&registry, options).expect("it is right").run(&|_| ()).expect("it runs").expect("it was not stopped")
}

/// The advice as text for a terminal.
fn shown(advice: &Advice) -> String {
    text::document(&advice.document(), usize::MAX)
}

fn order(advice: &Advice) -> Vec<&'static str> {
    advice.rows.iter().map(|row| row.candidate).collect()
}

/// Every policy takes the transactions of a trace, several targets at a time, and names them.
#[test]
fn transactions_of_a_trace_are_advised_on() {
    let at = tempfile::tempdir().unwrap();
    let mut trace = Vec::new();
    Benchmark::TpcC.write(1, 100, 1, &mut trace).expect("memory takes any text");
    fs::write(at.path().join("locks.csv"), trace).expect("the folder can be written");
    let work = at.path().join("work.toml");
    let text = "ranks = 8\nranks_per_node = 4\nacquisitions = 6\nobjective = \"throughput\"\n[table]\ntrace = \"locks.csv\"\n\
                [[class]]\nshare = 1.0\nbetween = \"1us\"\ninside = \"7us\"\n";
    fs::write(&work, text).expect("the folder can be written");
    let advice = advise(Options { seeds: 1, ..options(&work, "infiniband-ndr", &[]) });
    let text = shown(&advice);
    assert!(text.contains("workload work: 8 ranks, 2 nodes, 6 transactions each"), "{text}");
    let policies = ["two-level", "hierarchical", "mcs-rw-rp", "tas-rw"];
    let names = order(&advice);
    assert!(policies.iter().all(|policy| names.iter().any(|name| name.starts_with(policy))), "{names:?}");
    assert!(advice.rows.len() >= 8 && !text.contains("failed"), "{text}");
}

#[test]
fn hierarchical_wins_for_lock_all_at_many_ranks() {
    let at = tempfile::tempdir().unwrap();
    let work = workload(at.path(), 256, 32, "lock_all", "\"uniform\"", 10);
    let advice = advise(options(&work, "fx100", &["mcs-rw-rp", "hierarchical", "two-level"]));
    let order = order(&advice);
    let place = |name: &str| order.iter().position(|&other| other == name).unwrap();
    assert!(advice.rows[0].candidate.starts_with("hierarchical"), "{order:?}");
    assert!(place("hierarchical") < place("two-level") && place("two-level") < place("mcs-rw-rp"), "{order:?}");
    let slow = &advice.rows[place("mcs-rw-rp")];
    assert!(slow.throughput.mean * 5.0 < advice.rows[0].throughput.mean, "{slow:?}");
    assert!(slow.throughput.mean < advice.unlocked);
    // Deterministic, though threads share the work.
    let again = advise(options(&work, "fx100", &["mcs-rw-rp", "hierarchical", "two-level"]));
    assert_eq!(shown(&advice), shown(&again));
}

#[test]
fn own_targets_need_no_global_lock() {
    let at = tempfile::tempdir().unwrap();
    let work = workload(at.path(), 8, 8, "exclusive", "\"own\"", 200);
    let advice = advise(options(&work, "shm", &[]));
    let order = order(&advice);
    let place = |name: &str| order.iter().position(|&other| other == name).unwrap();
    for good in ["two-level", "per-target"] {
        for global in ["mcs", "tas", "ticket", "cohort", "mcs-rw-rp", "mcs-rw-wp", "mcs-rw-neutral", "tas-rw"] {
            assert!(place(good) < place(global), "{good}, {global}: {order:?}");
        }
    }
    assert!(advice.rows[0].limit.to_string().starts_with("processor"), "{:?}", advice.rows[0].limit);
    let mcs = &advice.rows[place("mcs")];
    assert!(matches!(mcs.standing, Standing::Worse(_)), "{mcs:?}");
}

/// Without contention, all policies are equally good, so there is no reason for a change.
#[test]
fn a_tie_keeps_the_policy_that_the_program_has() {
    let at = tempfile::tempdir().unwrap();
    let work = workload(at.path(), 2, 2, "shared", "\"own\"", 100);
    let advice = advise(options(&work, "shm", &["mcs-rw-rp", "two-level", "tas-rw"]));
    assert!(advice.rows.iter().filter(|row| row.standing == Standing::AsGood).count() >= 1, "{:?}", advice.rows);
    assert_eq!((advice.current, advice.choice), ("two-level", "two-level"), "{:?}", order(&advice));
    let text = shown(&advice);
    assert!(text.contains("Keep two-level: no policy is better by more than the error"), "{text}");
    // Otherwise, the one under which no rank starves.
    let advice = advise(options(&work, "shm", &["mcs-rw-rp", "mcs-rw-neutral"]));
    let tied = advice.rows.iter().all(|row| !matches!(row.standing, Standing::Worse(_)));
    assert!(!tied || advice.choice == "mcs-rw-neutral", "{:?}", advice.rows);
}

/// The verdict leads; the table has the program's policy and the first one. `--all` prints the rest.
#[test]
fn a_tie_is_said_first_and_its_table_is_short() {
    let at = tempfile::tempdir().unwrap();
    let work = workload(at.path(), 2, 2, "shared", "\"own\"", 100);
    let common = ["advise", work.to_str().unwrap(), "--seeds", "2", "--quiet"];
    let run = |more: &[&str]| texts(&program::run(&[&common[..], more].concat()))[0].clone();
    let document = Document::from_json(&run(&["--format", "json"])).unwrap();
    let data = document.data.unwrap();
    let rows = |text: &str| {
        // A line of the table begins with a space and a candidate.
        let is_row = |line: &&str| {
            let name = line.strip_prefix(' ').and_then(|line| line.split_whitespace().next());
            data.rows.iter().any(|row| name == Some(row[0].to_string().as_str()))
        };
        text.lines().filter(is_row).count()
    };
    let short = run(&[]);
    assert!(short.starts_with("Keep two-level: no policy is better by more than the error"), "{short}");
    assert!(short.contains(" two-level (default) "), "{short}");
    assert!((1..=2).contains(&rows(&short)), "{short}");
    assert!(short.contains(&format!("The simulation tried {} candidates: ", data.rows.len())), "{short}");
    let all = run(&["--all"]);
    assert_eq!(rows(&all), data.rows.len(), "{all}");
    assert!(data.rows.len() > 10 && !all.contains("--all prints"), "{all}");
    // A report has all of them, too.
    let every = document.sections.iter().find(|section| section.id == "policies").unwrap();
    assert!(every.folded && every.finding.tables[0].rows.len() == data.rows.len());
}

#[test]
fn mutexes_are_not_offered_for_shared_locks() {
    let at = tempfile::tempdir().unwrap();
    let work = workload(at.path(), 2, 2, "lock_all", "\"uniform\"", 10);
    let all = advise(options(&work, "shm", &[]));
    assert!(
        all.rows.len() > 5
            && all.rows.iter().all(|row| !row.candidate.starts_with("mcs") || row.candidate.contains("rw"))
    );
    assert!(all.remarks.iter().any(|remark| remark.contains("mutexes are left out")), "{:?}", all.remarks);
    let named = advise(options(&work, "shm", &["mcs", "two-level"]));
    assert!(order(&named).contains(&"mcs"));
    assert!(named.remarks.iter().any(|remark| remark.contains("make shared locks and lock_all exclusive")));
}

#[test]
fn the_ranking_follows_the_objective() {
    let at = tempfile::tempdir().unwrap();
    let work = workload(at.path(), 16, 4, "exclusive", "{ single = 0 }", 30);
    for objective in [Objective::Throughput, Objective::P99, Objective::Fairness] {
        let advice = advise(Options {
            objective: Some(objective),
            ..options(&work, "infiniband-ndr", &["mcs", "tas", "ticket", "two-level"])
        });
        let values: Vec<f64> = advice.rows.iter().map(|row| row.value(objective).mean).collect();
        let sign = if objective == Objective::P99 { 1.0 } else { -1.0 };
        // Up to the digits of the comparison.
        assert!(values.windows(2).all(|two| sign * (two[1] - two[0]) >= -0.01 * two[0]), "{objective:?}: {values:?}");
        assert!(advice.rows[0].value(objective).half.is_some());
    }
}

#[test]
fn the_printed_builder_and_info_select_the_winner() {
    let at = tempfile::tempdir().unwrap();
    let work = workload(at.path(), 4, 4, "shared", "{ zipf = 0.99 }", 20);
    let advice = advise(options(&work, "shm", &["nocheck", "two-level/retract", "cohort"]));
    for row in &advice.rows {
        let (config, ignored) = Config::from_info(&row.info.parse::<Info>().unwrap());
        assert!(ignored.is_empty(), "{ignored:?}");
        assert!(row.candidate.starts_with(config.policy.name()));
    }
    let text = shown(&advice);
    assert!(text.contains(&advice.rows[0].builder) && text.contains(&advice.rows[0].info), "{text}");
    let data = advice.document().data.unwrap();
    let names: Vec<String> = data.rows.iter().map(|row| row[0].to_string()).collect();
    assert_eq!(names, order(&advice));
}

#[test]
fn traces_are_replayed() {
    let at = tempfile::tempdir().unwrap();
    let dir = at.path().join("trace");
    let ranks = World::threads(2).segment_bytes(4 << 20).run(|ra| {
        let team = Team::new(ra)?;
        let mut window = Window::builder(&team).record(&dir).disp_unit(8).allocate(1 << 20)?;
        let other = Rank(1 - ra.rank().0);
        // Also tests replay: epochs beside locks, far into a window larger than a
        // description's.
        let fence = window.fence()?;
        fence.at(other)?.put(WindowDisp(100_000), &[1_u64; 20_000])?;
        fence.close()?;
        let (mut access, mut exposure) = window.pscw()?;
        let exposed = exposure.post(&[other])?;
        let accessed = access.start(&[other])?;
        accessed.at(other)?.accumulate(WindowDisp(7), Op::Sum, &[1_u32])?;
        accessed.complete()?;
        exposed.wait()?;
        for _ in 0..50 {
            let epoch = window.lock(LockKind::Exclusive, Rank(1 - ra.rank().0))?;
            epoch.put(WindowDisp(0), &[1_u64, 2])?;
            epoch.unlock()?;
        }
        team.barrier()?;
        window.lock_all()?.unlock_all()?;
        window.free()
    });
    ranks.unwrap().into_iter().collect::<Result<(), _>>().unwrap();
    let of = |dir: &Path| Options { trace: Some(dir.to_owned()), seeds: 2, ..Options::default() };
    let advice = advise(of(&dir));
    assert!(advice.source.contains("2 ranks, 1 node") && advice.source.contains("recorded with two-level"));
    assert!(advice.rows.len() > 10 && advice.left_out.is_empty(), "{:?}", advice.left_out);
    // All acquisitions count: 51 of each rank.
    let first = &advice.rows[0];
    assert!(first.throughput.mean > 0.0 && first.p99.mean >= first.p50.mean);

    let file = fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(&file, bytes).unwrap();
    let error = Advise::new(&Registry::standard(), of(&dir)).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains(file.to_str().unwrap()), "{error}");
    assert_eq!(error.to_string().lines().count(), 1);
}

/// Records the calls of two ranks of an MPI program: locks of rank 0, most of them shared.
fn of_mpi(dir: &Path, info: &str) {
    // Rank 0 chooses the number of the files.
    let chosen = Cell::new(0);
    for rank in [Rank(0), Rank(1)] {
        let what = Description {
            rank,
            topology: Topology::one_node(2),
            window: String::new(),
            flavor: Flavor::Allocate,
            bytes: 8,
            unit: 8,
            info: info.parse().expect("a valid info string"),
            clock: String::new(),
        };
        let recorder = {
            let of_first = |number| {
                chosen.set(if rank == Rank(0) { number } else { chosen.get() });
                Ok(chosen.get())
            };
            let of_all = |number| Ok(vec![number; 2]);
            Recorder::new::<Error>(dir, &what, || Time(0), of_first, of_all).expect("the folder can be written")
        };
        for call in 0..100 {
            let kind = if call % 10 == 0 { LockKind::Exclusive } else { LockKind::Shared };
            let at = 1000 * call;
            recorder.record(&Step::Lock { kind, target: Rank(0), assert: Assert::None }, Time(at), || Time(at + 100));
            recorder.record(&Step::Unlock { target: Rank(0) }, Time(at + 200), || Time(at + 300));
        }
        recorder.finish().expect("the folder can be written");
    }
}

#[test]
fn an_mpi_program_is_told_what_selects_the_policy() {
    let at = tempfile::tempdir().unwrap();
    of_mpi(at.path(), "rmalab_mode=record");
    let options = Options { trace: Some(at.path().to_owned()), seeds: 2, ..Options::default() };
    let advice = advise(options.clone());
    assert!(advice.source.ends_with("recorded with the locks of the MPI"), "{}", advice.source);
    // A variable sets no parameters.
    assert!(advice.rows.len() > 5 && advice.rows.iter().all(|row| row.is_default), "{:?}", order(&advice));
    let text = shown(&advice);
    let choice = advice.choice;
    for line in [
        format!("Choose {choice}"),
        format!("rmalab preload --policy {choice} -- mpirun"),
        format!("variable  RMALAB_LOCK_POLICY={choice}"),
        format!("info      rmalab_lock_policy={choice}"),
    ] {
        assert!(text.contains(&line), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("Window::builder"), "{text}");
    // The policy that the library had is the one to keep, if it is as good.
    let other = tempfile::tempdir().unwrap();
    of_mpi(other.path(), &format!("rmalab_mode=native,rmalab_lock_policy={choice}"));
    let advice = advise(Options { trace: Some(other.path().to_owned()), ..options });
    assert_eq!(advice.choice, choice);
    assert!(shown(&advice).contains(&format!("Keep {choice}")));
}

fn texts(output: &Output) -> [String; 2] {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[test]
fn bad_input_is_refused_with_one_line() {
    let at = tempfile::tempdir().unwrap();
    let several = workload(at.path(), 8, 4, "lock_all", "\"uniform\"", 5);
    let several = several.to_str().unwrap();
    let wrong = at.path().join("wrong.toml");
    fs::write(&wrong, fs::read_to_string(several).unwrap().replace("1us", "1 parsec")).unwrap();
    let wrong = wrong.to_str().unwrap();
    let empty = at.path().to_str().unwrap();
    for (arguments, says) in [
        (&["no/such.toml"][..], "no/such.toml"),
        (&["/dev/zero"], "the limit for such a file"),
        (&[wrong], "wrong.toml:10: "),
        (&["--trace", "no/such/folder"], "no/such: reading the folder of a trace"),
        (&["--trace", empty], empty),
        (&[several], "need a network: name its profile by --profile; there are"),
        (&[several, "--profile", "shm"], "profile shm has none"),
        (&[several, "--profile", "fx1000"], "no profile is called"),
        (&[several, "--profile", "./none.toml"], "none.toml"),
        (&[several, "--profile", "fx100", "--lock", "two-levle"], "did you mean 'two-level'"),
        (&[several, "--profile", "fx100", "--ranks", "16M"], "available"),
        (&[several, "--profile", "fx100", "--seeds", "0"], "--seeds"),
        (&[several, "--profile", "fx100", "--objective", "beauty"], "beauty"),
        (&[several, "--profile", "fx100", "--csv"], "--format csv"),
        (&[several, "--profile", "fx100", "-o", "/nowhere/at/all.csv"], "/nowhere/at/all.csv"),
        (&[several, "--trace", "folder"], "--trace"),
        (&["--ranks", "2"], "WORKLOAD.toml"),
    ] {
        let output = program::run(&[&["advise"], arguments].concat());
        let [stdout, stderr] = texts(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(says), "{arguments:?}: {stderr}");
        assert!(stdout.is_empty(), "{arguments:?}");
    }
    let many = workload(at.path(), 64, 64, "lock_all", "\"uniform\"", 5);
    let [_, stderr] = texts(&program::run(&["advise", many.to_str().unwrap(), "--measure", "--ranks", "5000"]));
    assert!(stderr.contains("need a network") || stderr.contains("would measure the scheduler"), "{stderr}");
}

#[test]
fn the_command_writes_the_requested_files() {
    let at = tempfile::tempdir().unwrap();
    let work = workload(at.path(), 8, 4, "exclusive", "\"uniform\"", 5);
    let work = work.to_str().unwrap();
    let csv = at.path().join("advice.csv");
    let common = ["advise", work, "--profile", "gemini", "--seeds", "2", "--lock", "two-level,mcs", "--quiet"];
    let output = program::run(&[&common[..], &["--format", "json"]].concat());
    let [stdout, stderr] = texts(&output);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    let document = Document::from_json(&stdout).unwrap();
    assert!(document.sections[0].text[0].contains("Profile gemini, 2 seeds, ranked by throughput"));
    let data = document.data.unwrap();
    let get = |row: usize, column| data.get(&data.rows[row], column).unwrap();
    assert_eq!((data.rows.len(), get(0, "standing").to_string().as_str()), (5, "winner"));
    assert!((0..5).all(|row| get(row, "throughput").spread.is_some() && !get(row, "limit").to_string().is_empty()));
    let output = program::run(&[&common[..], &["--format", "csv", "-o", csv.to_str().unwrap()]].concat());
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 6);

    let [stdout, _] = texts(&program::run(&common));
    for part in ["limited by", "Choose ", "builder  Window::builder(&team).policy::<", "info     rmalab_lock_policy="] {
        assert!(stdout.contains(part), "{part} is missing:\n{stdout}");
    }
    let [help, _] = texts(&program::run(&["advise", "--help"]));
    for part in ["Examples:", "Exit codes:", "Candidates:", "--measure", "--all", "Limits:"] {
        assert!(help.contains(part), "{part} is missing:\n{help}");
    }
}

#[test]
fn measurements_stand_beside() {
    // One rank, so that any machine can measure it.
    let at = tempfile::tempdir().unwrap();
    let work = workload(at.path(), 1, 1, "exclusive", "\"own\"", 20);
    let arguments =
        ["advise", work.to_str().unwrap(), "--seeds", "2", "--lock", "two-level", "--measure", "--format=json"];
    let output = program::run(&arguments);
    let [stdout, stderr] = texts(&output);
    assert!(output.status.success(), "{stderr}");
    let document = Document::from_json(&stdout).unwrap();
    let data = document.data.unwrap();
    assert_eq!(data.rows.len(), 4);
    assert!(data.rows.iter().all(|row| data.get(row, "measured throughput").unwrap().value.number().unwrap() > 0.0));
    let verdict = document.summary.iter().find(|line| line.starts_with("Measured on this machine")).unwrap();
    assert!(data.rows.iter().any(|row| verdict.contains(&format!(": {} is best", row[0]))), "{verdict}");
}

#[test]
fn the_examples_are_read_and_differ() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut objectives = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let workload = Workload::read(&path).unwrap();
        assert!(workload.steps(1, Rank(0)).next().is_some(), "{}", path.display());
        objectives.push(workload.objective);
        count += 1;
    }
    assert!(count >= 6);
    for objective in [Objective::Throughput, Objective::P99, Objective::Fairness] {
        assert!(objectives.contains(&objective), "{objective:?}");
    }
}
