//! Random programs on the window layer, on threads and on processes, against a sequential model.
//!
//! A program has 1 to 4 ranks, and several windows of all flavors, sizes, units, policies and strategies. Its phases of
//! fence, PSCW and lock epochs run side by side on them, with all operations. In some phases all ranks add to one integer
//! many times. `model/program.rs` defines which results are determined. After each phase every rank compares its memory
//! and all fetched values with the model (`model/oracle.rs`).
//!
//! A program follows from its seed. Environment variables select the programs:
//!
//! | variable | meaning | default |
//! | --- | --- | --- |
//! | `RMALAB_MODEL_PROGRAMS` | number of programs, half of them on threads and half on processes | 2000 |
//! | `RMALAB_MODEL_SEED` | seed of the first program; the others follow it | 0 |
//! | `RMALAB_MODEL_TRANSPORT` | transport of the windows, as the hint `rmalab_transport` | one-sided |
//!
//! A long run is `RMALAB_MODEL_PROGRAMS=100000 cargo test -p rmalab-windows --test all model:: -- --nocapture`. To run a failed
//! program again, set its number as the seed, with 2 programs: it runs on both backends. On threads a failing program is
//! shrunk. A hanging program is aborted and printed.

mod oracle;
mod program;
mod run;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rmalab_atomics::{Mapped, Output, World, shm};
use rmalab_windows::{ElementKind, Flavor, Op, PolicyKind, Team, Window};

use program::{Call, Plan, Raw, Step, Sync, plan, raw};

/// The time after which one program counts as hung.
const HUNG: Duration = Duration::from_secs(60);

/// The number of programs that one world runs, one after the other.
const BATCH: u64 = 500;

/// The variable for the programs of a process: first seed and number.
const RUN: &str = "RMALAB_MODEL_BATCH";

/// The number of programs that this process has begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<(u64, u32)> = Mutex::new((0, 0));
/// The first program that has failed in this process.
static FAILED: Mutex<Option<u64>> = Mutex::new(None);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number of programs or a seed"))
}

/// Returns the programs of one of the two tests: the first seed and the number.
fn programs() -> (u64, u64) {
    (number("RMALAB_MODEL_SEED", 0), number("RMALAB_MODEL_PROGRAMS", 2000).div_ceil(2))
}

/// Returns the seeds of `first..first + count` whose programs are for `ranks` ranks.
fn seeds(first: u64, count: u64, ranks: u32) -> impl Iterator<Item = u64> {
    const RANKS: [u32; 10] = [1, 2, 2, 2, 3, 3, 3, 4, 4, 4];
    (first..first + count).filter(move |seed| RANKS[(seed % 10) as usize] == ranks)
}

fn tree(seed: u64) -> impl ValueTree<Value = Raw> {
    let mut bytes = [0x5a; 16];
    bytes[..8].copy_from_slice(&seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    bytes[8..].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::XorShift, &bytes);
    raw().new_tree(&mut TestRunner::new_with_rng(Config::default(), rng)).unwrap()
}

fn program(seed: u64, ranks: u32) -> Plan {
    plan(&tree(seed).current(), ranks)
}

/// Prints the program and aborts the process when no program begins for a long time.
fn watch() {
    static START: Once = Once::new();
    START.call_once(|| {
        std::thread::spawn(|| {
            let mut before = 0;
            loop {
                std::thread::sleep(HUNG);
                let begun = BEGUN.load(Ordering::Relaxed);
                if begun == before {
                    let (seed, ranks) = *LAST.lock().unwrap();
                    eprintln!("the program of seed {seed} for {ranks} ranks hangs: {:#?}", program(seed, ranks));
                    std::process::abort();
                }
                before = begun;
            }
        });
    });
}

/// Reports the progress of a long run.
fn progress(backend: &str, start: u64, first: u64, count: u64) {
    if count > 10_000 && (start - first).is_multiple_of(20 * BATCH) {
        eprintln!("{backend}: {} of {count} programs", start - first);
    }
}

/// Stores the program that was under way at a panic.
struct UnderWay {
    seed: u64,
    ranks: u32,
    show: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            FAILED.lock().unwrap().get_or_insert(self.seed);
            if self.show {
                let UnderWay { seed, ranks, .. } = *self;
                eprintln!("the program of seed {seed} for {ranks} ranks fails: {:#?}", program(seed, ranks));
            }
        }
    }
}

/// One rank's run of several programs in one world.
fn run_all<'p>(ra: &Mapped, show: bool, ranks: u32, plans: impl Iterator<Item = (u64, &'p Plan)>) {
    let team = Team::new(ra).unwrap();
    // The end-points of two-sided windows belong to the team.
    let config = rmalab_windows::Config { transport: program::transport(), ..Default::default() };
    Window::builder(&team).config(config).allocate(0).unwrap().free().unwrap();
    for (seed, plan) in plans {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        *LAST.lock().unwrap() = (seed, ranks);
        let under_way = UnderWay { seed, ranks, show };
        run::run(ra, &team, plan).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        drop(under_way);
    }
}

/// The programs make every call in every kind of epoch that allows it, on every kind of element, and have enough
/// difficult cases.
#[test]
fn programs_meet_everything() {
    let mut met = HashSet::new();
    let (mut acts, mut contended, mut racy, mut storms, mut settled) = (0, 0, 0, 0, 0);
    for seed in 0..1000 {
        let plan = program(seed, 1 + (seed % 4) as u32);
        for window in &plan.windows {
            met.insert(window.flavor.to_string());
            met.insert(window.config.policy.to_string());
            met.insert(format!("pieces {}", window.pieces.is_some()));
        }
        for phase in &plan.phases {
            contended += phase.contended.len();
            racy += phase.racy.len();
            storms += usize::from(phase.storm.is_some());
            for section in phase.rounds.iter().flat_map(|round| &round.sections).flatten() {
                for step in &section.steps {
                    match step {
                        Step::Act(act) => {
                            acts += 1;
                            met.insert(format!("{:?} {:?}", act.call, phase.syncs[act.window]));
                            met.insert(format!("{} {}", act.op, act.kind));
                            met.insert(format!("null {}", act.target.is_none()));
                            met.insert(format!("refused {}", act.refused));
                        }
                        Step::Settle { .. } => settled += 1,
                        Step::Storm(_) | Step::Other { .. } => {}
                    }
                }
            }
        }
    }
    println!(
        "{acts} operations, {contended} contended elements, {racy} racy bytes, {storms} storms, {settled} flushes"
    );
    let mut all: Vec<String> = ["null true", "refused true", "pieces true"].map(str::to_owned).into();
    for call in Call::OFTEN {
        all.extend(
            [Sync::Fence, Sync::Pscw].iter().filter(|_| !call.is_passive()).map(|sync| format!("{call:?} {sync:?}")),
        );
        all.push(format!("{call:?} {:?}", Sync::Passive));
    }
    for kind in ElementKind::ALL {
        all.extend(Op::ALL.iter().filter(|op| op.is_defined_for(kind)).map(|op| format!("{op} {kind}")));
    }
    all.extend([Flavor::Allocate, Flavor::Shared, Flavor::Create, Flavor::Dynamic].map(|flavor| flavor.to_string()));
    all.extend(PolicyKind::ALL.iter().map(PolicyKind::to_string));
    all.retain(|one| !met.contains(one));
    assert_eq!(all, Vec::<String>::new(), "what no program has met");
    assert!(acts > 10_000 && contended > 500 && racy > 500 && storms > 100 && settled > 500);
}

#[test]
fn programs_on_threads() {
    watch();
    let (first, count) = programs();
    for start in (first..first + count).step_by(BATCH as usize) {
        progress("threads", start, first, count);
        for ranks in 1..=4 {
            let of_batch = seeds(start, BATCH.min(first + count - start), ranks);
            let plans: Vec<(u64, Plan)> = of_batch.map(|seed| (seed, program(seed, ranks))).collect();
            let all = |ra: &Mapped| run_all(ra, false, ranks, plans.iter().map(|(seed, plan)| (*seed, plan)));
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| World::threads(ranks).run(all).unwrap())) {
                // The lock is released here, since failing programs take it.
                let failed = *FAILED.lock().unwrap();
                if let Some(seed) = failed {
                    shrink(seed, ranks);
                }
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Prints the smallest failing program that shrinking finds.
fn shrink(seed: u64, ranks: u32) {
    const STEPS: u32 = 2_000;
    // The race may not occur every time.
    const TRIES: u32 = 20;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let fails = |raw: &Raw| {
        let plan = plan(raw, ranks);
        let once = || World::threads(ranks).run(|ra| run_all(ra, false, ranks, std::iter::once((seed, &plan))));
        (0..TRIES).any(|_| catch_unwind(AssertUnwindSafe(once)).is_err())
    };
    let mut tree = tree(seed);
    let mut least = tree.current();
    let mut again = 0;
    for _ in 0..STEPS {
        let smaller = tree.current();
        let goes_on = if fails(&smaller) {
            least = smaller;
            again += 1;
            tree.simplify()
        } else {
            tree.complicate()
        };
        if !goes_on {
            break;
        }
    }
    std::panic::set_hook(hook);
    eprintln!(
        "the program of seed {seed} for {ranks} ranks fails; shrunk, failing {again} times: {:#?}",
        plan(&least, ranks)
    );
}

#[test]
fn programs_on_processes() {
    let plans = |first, count, ranks| seeds(first, count, ranks).map(move |seed| (seed, program(seed, ranks)));
    if let Some(ranks) = shm::launched_size().unwrap() {
        watch();
        let batch = std::env::var(RUN).unwrap();
        let (first, count) = batch.split_once(' ').unwrap();
        let plans: Vec<_> = plans(first.parse().unwrap(), count.parse().unwrap(), ranks).collect();
        World::processes(ranks)
            .run(|ra| run_all(ra, true, ranks, plans.iter().map(|(seed, plan)| (*seed, plan))))
            .unwrap();
        unreachable!("a launched rank ends in the call");
    }
    let (first, count) = programs();
    let only = ["model::programs_on_processes", "--exact", "--nocapture", "--test-threads=1"];
    for start in (first..first + count).step_by(BATCH as usize) {
        progress("processes", start, first, count);
        let count = BATCH.min(first + count - start);
        for ranks in (1..=4).filter(|&ranks| seeds(start, count, ranks).next().is_some()) {
            let lines = Arc::new(Mutex::new(Vec::new()));
            let to = Arc::clone(&lines);
            let keep = Output::Lines(Box::new(move |line| {
                to.lock().unwrap().push(format!("[{}] {}", line.rank.0, String::from_utf8_lossy(line.bytes)));
            }));
            let world = World::processes(ranks)
                .command(std::env::current_exe().unwrap(), only)
                .env(RUN, format!("{start} {count}"))
                .output(keep);
            if let Err(error) = world.run(|_| ()) {
                panic!("{}\n{error}", lines.lock().unwrap().join("\n"));
            }
        }
    }
}
