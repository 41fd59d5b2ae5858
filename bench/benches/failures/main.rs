//! What failures cost. Locks that outlive ranks are measured beside the locks that they extend, without a failure. Then
//! ranks fail while they hold a lock: processes that are killed, beside a robust mutex of the C library, and ranks of a
//! simulated machine.
//!
//! `cargo bench -p rmalab --bench failures` prints tables, and with `-- --markdown` a page. It takes some minutes. A
//! missed goal fails nothing: people have to judge it, since they know the other load of the machine.

mod deaths;
mod pairs;
mod pthread;

use std::sync::mpsc;
use std::time::Duration;

use rmalab::Machine;
use rmalab::document::{Document, Run, Section};
use rmalab::finding::{Column, Table, Value};
use rmalab_atomics::sim::profile::Span;
use rmalab_atomics::sim::{self, Profile, Simulator};
use rmalab_atomics::{Backend, Launcher, Output, RemoteAtomics, Stream, World, shm};
use rmalab_report::statistics::median;
use rustix::process::{Signal, getpid, kill_process};

use deaths::{Outcome, Task};

/// The variable with the task of a rank that may be killed.
const TASK: &str = "FAILURES_TASK";

/// The beginning of the line with a result.
const MARK: &str = "failures: ";

/// The locks that both kinds of ranks use.
const LOCKS: [&str; 6] =
    ["robust-tas", "robust-ticket", "robust-mcs", "robust-rw", "robust-two-level", "robust-hierarchical"];

/// Failures of a run, and acquisitions for each of them. Without failures: all acquisitions.
const RATES: [(u32, u64); 5] = [(0, 100_000), (1, 100_000), (4, 10_000), (4, 1_000), (4, 100)];

/// Processes of the throughputs.
const PROCESSES: u32 = 8;

/// Runs of each throughput.
const RUNS: usize = 3;

/// Failures of each distribution of times.
const FAILURES: u32 = 200;

/// The simulated machine.
const PROFILE: &str = "infiniband-ndr";

/// Simulated ranks of the throughputs.
const SIMULATED: u32 = 48;

/// The time until simulated ranks know of a failure.
const DETECTION: Duration = Duration::from_millis(1);

/// The lease of simulated ranks, as in DSLR and ShiftLock.
const LEASE: Duration = Duration::from_millis(10);

/// The longest time of a job.
const LIMIT: Duration = Duration::from_secs(300);

fn main() {
    // `cargo test` only checks that bench targets work. A rank measures with any arguments.
    let measure = std::env::args().any(|argument| argument == "--bench");
    if !measure && shm::launched_size().is_ok_and(|size| size.is_none()) {
        return;
    }
    if let Ok(task) = std::env::var(TASK) {
        let task = serde_json::from_str(&task).expect("the task is this program's");
        let ranks = shm::launched_size().expect("the launcher's variables agree").expect("a launcher has started it");
        Backend::Shm.try_run(ranks, |ra| be_a_rank(ra, &task)).expect("the job goes on");
        return;
    }
    // Must come first: in the process that this call starts, it runs as the rank.
    let processes = World::processes(1).run(pairs::measure).expect("a world of one process").remove(0);
    let threads = World::threads(1).run(pairs::measure).expect("a world of one thread").remove(0);

    rmalab::BUILD.keep();
    let run = Run { command: "cargo bench -p rmalab --bench failures -- --markdown".into(), ..Run::begin() };
    let mut document = Document::new("failures", "What failures cost", run, Machine::describe());
    let mut section = Section::new("none", "Without a failure");
    for (backend, rows) in [("threads", threads), ("processes", processes)] {
        section = section.table(pairs::table(backend, &rows));
    }
    document.sections.push(section);

    let mut section = Section::new("killed", "Processes that are killed");
    section.text.push(
        "A process is killed by SIGKILL while it holds the lock. Each acquisition reads and writes a word. The time to \
         recover begins ahead of the kill, and ends when another rank holds the lock."
            .into(),
    );
    let locks: Vec<&str> = LOCKS.into_iter().chain([pthread::NAME]).collect();
    let title = format!("Acquisitions of {PROCESSES} processes; medians of {RUNS}");
    let runs = |task: &Task| (0..RUNS).map(|_| killed(task, PROCESSES)).collect();
    section = section.table(throughput(title, &locks, &runs));
    let runs = |task: &Task, ranks| (0..FAILURES.div_ceil(task.failures)).map(|_| killed(task, ranks)).collect();
    section = section.table(recovery(&locks, [2, 4, 8], Duration::ZERO, &runs));
    document.sections.push(section);

    let mut section = Section::new("simulated", "Simulated ranks");
    section.text.push(format!(
        "Profile {PROFILE}. A rank fails while it holds the lock, and the other ranks know of it {DETECTION:?} later. That \
         time is not part of the times to recover below. The lock lease needs no news: its leases last {LEASE:?}, and its \
         times begin with the failure."
    ));
    let locks: Vec<&str> = LOCKS.into_iter().chain(["lease"]).collect();
    let title = format!("Acquisitions of {SIMULATED} simulated ranks");
    section = section.table(throughput(title, &locks, &|task| vec![simulated(task, SIMULATED)]));
    let runs = |task: &Task, ranks| vec![simulated(task, ranks)];
    section = section.table(recovery(&locks, [16, 48, 256], DETECTION, &runs));
    document.sections.push(section);
    print!("{}", document.for_arguments(std::env::args()));
}

/// The throughput of each lock without failures and at each rate.
fn throughput(title: String, locks: &[&str], run: &dyn Fn(&Task) -> Vec<Outcome>) -> Table {
    let columns = ["lock".to_owned(), "no failure".to_owned()].into_iter();
    let rates = RATES[1..].iter().map(|(_, period)| format!("one in {period}"));
    let mut table = Table::new(title, columns.chain(rates).map(|name| Column::from(name.as_str())));
    for &lock in locks {
        eprintln!("throughput of {lock}");
        let mut row = vec![Value::Text(lock.into())];
        for (failures, period) in RATES {
            let task = Task { lock: lock.into(), failures, period, lease: LEASE };
            row.push(Value::Rate(median(
                run(&task).iter().map(|outcome| task.acquisitions() as f64 / outcome.seconds),
            )));
        }
        table.row(row);
    }
    table
}

/// The time from a failure until another rank holds the lock, without `detection`.
fn recovery(locks: &[&str], sizes: [u32; 3], detection: Duration, run: &dyn Fn(&Task, u32) -> Vec<Outcome>) -> Table {
    let mut columns = vec![Column::from("lock")];
    for ranks in sizes {
        columns.extend([Column::from(format!("{ranks} ranks: p50").as_str()), Column::from("p99")]);
    }
    let mut table = Table::new("Time to recover", columns);
    for &lock in locks {
        eprintln!("recovery of {lock}");
        let mut row = vec![Value::Text(lock.into())];
        for ranks in sizes {
            if lock == "robust-rw" && ranks > rmalab_locks::robust_rw::RANKS {
                row.extend([Value::None, Value::None]);
                continue;
            }
            let task = Task { lock: lock.into(), failures: (ranks / 2).min(8), period: 100, lease: LEASE };
            let mut times: Vec<f64> = run(&task, ranks).into_iter().flat_map(|outcome| outcome.recoveries).collect();
            times.sort_by(f64::total_cmp);
            let known = if lock == "lease" { 0.0 } else { detection.as_nanos() as f64 };
            let at = |share: usize| Value::Time(times[(times.len() * share).div_ceil(100).saturating_sub(1)] - known);
            row.extend([at(50), at(99)]);
        }
        table.row(row);
    }
    table
}

/// Runs a job of processes of which some are killed.
fn killed(task: &Task, ranks: u32) -> Outcome {
    let program = std::env::current_exe().expect("this program is a file");
    let (report, results) = mpsc::channel();
    let job = Launcher::new(ranks)
        .command(program, ["--bench"])
        .env(TASK, serde_json::to_string(task).expect("a task is JSON"))
        .segment_bytes(1 << 20)
        .output(Output::Lines(Box::new(move |line| {
            let text = String::from_utf8_lossy(line.bytes);
            match (line.stream, text.strip_prefix(MARK)) {
                (Stream::Out, Some(result)) => drop(report.send(result.to_owned())),
                _ => eprintln!("{}: {text}", line.rank),
            }
        })))
        .grace(LIMIT)
        .time_limit(LIMIT)
        .spawn()
        .expect("processes can be started");
    let ended = job.wait().expect("the job can be waited for");
    let lost = ended.statuses.iter().filter(|status| !status.success()).count();
    assert!(lost as u32 == task.failures, "{task:?}: {lost} of {ranks} processes were lost");
    let result = results.recv().expect("a rank prints the result");
    serde_json::from_str(&result).expect("the result is this program's")
}

fn be_a_rank(ra: &dyn RemoteAtomics, task: &Task) -> rmalab_locks::Result<()> {
    let fail = || {
        let killed = kill_process(getpid(), Signal::KILL);
        unreachable!("a process that has killed itself goes on: {killed:?}")
    };
    if let Some(outcome) = deaths::play(ra, task, &fail)? {
        println!("{MARK}{}", serde_json::to_string(&outcome).expect("a result is JSON"));
    }
    Ok(())
}

fn simulated(task: &Task, ranks: u32) -> Outcome {
    let profile = Profile::builtin(PROFILE).expect("the profile exists");
    let detection = Some(Span::nanoseconds(DETECTION.as_nanos() as u64));
    let options =
        sim::Options { segment_bytes: 1 << 20, stack_bytes: 256 << 10, detection, ..sim::Options::new(ranks) };
    let (simulator, task) = (Simulator::new(&profile, &options).expect("the machine exists"), task.clone());
    let play = move |ra: &sim::Sim<'_>| deaths::play(ra, &task, &|| Ok(ra.fail()?)).expect("the ranks go on");
    let outcome = simulator.run(play).expect("the simulation ends");
    outcome.results.into_iter().flatten().next().expect("a rank has the result")
}
