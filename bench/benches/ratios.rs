//! Ratios with goals for the locks. They compare an uncontended acquire and release with its two atomics. They also
//! compare the throughput of queue locks with two ranks and with more ranks than processors. A last goal is the start
//! of 64 ranks.
//!
//! `cargo bench -p rmalab --bench ratios` prints them beside their goals, and with `-- --markdown` as a page. Both
//! sides of a ratio are measured in turn, so that other load affects both; the result is the median.
//! A missed goal fails nothing: people have to judge it, since they know the other load of the machine.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rmalab::document::{Document, Run, Section};
use rmalab::finding::{Table, Value};
use rmalab::study::{self, Backend, Options};
use rmalab::{Machine, Registry};
use rmalab_atomics::{Collectives, Mapped, Processes, Rank, RemoteAtomics, World, shm};
use rmalab_locks::{Assert, LockKind, McsRwRp, Place, RawRwLock, TwoLevel, WindowLocks};
use rmalab_report::statistics::median;

/// Measurements of each side of a ratio.
const REPETITIONS: usize = 15;

/// Acquisitions in one measurement: some milliseconds.
const PAIRS: u32 = 200_000;

/// Duration of a cell of the study; two fifths of it count.
const CELL: Duration = Duration::from_millis(150);

/// Measurements of each throughput.
const CELLS: usize = 7;

/// Locks with a queue of waiting ranks.
const QUEUES: [&str; 4] = ["mcs", "mcs-rw-rp", "mcs-rw-wp", "mcs-rw-neutral"];

fn main() {
    // `cargo test` only checks that bench targets work. A rank measures with any arguments.
    let measure = std::env::args().any(|argument| argument == "--bench");
    if !measure && shm::launched_size().is_ok_and(|size| size.is_none()) {
        return;
    }
    if std::env::var_os(MANY).is_some() {
        many_processes().run(meet).expect("this process is a rank");
    }
    // Must come first: in the process that this call starts, it runs as the rank.
    let processes = World::processes(1).run(uncontended).expect("a world of one process").remove(0);
    let threads = World::threads(1).run(uncontended).expect("a world of one thread").remove(0);

    rmalab::BUILD.keep();
    let run = Run { command: "cargo bench -p rmalab --bench ratios -- --markdown".into(), ..Run::begin() };
    let mut document = Document::new("ratios", "Locks beside bare operations", run, Machine::describe());

    let title = format!(
        "An uncontended acquire and release, by two locked fetch_adds of a plain word; medians of {REPETITIONS}"
    );
    let mut table = Table::new(title, ["lock", "pair", "atomics", "ratio", "goal, at most", "met"]);
    for (backend, [read, shared], goals) in [("local", threads, [1.15, 1.5]), ("shm", processes, [1.3, 1.7])] {
        for (name, [pair, atomics, ratio], goal) in
            [("mcs-rw-rp, read", read, goals[0]), ("two-level, shared", shared, goals[1])]
        {
            let times = [Value::Time(pair), Value::Time(atomics), Value::Ratio(ratio), Value::Ratio(goal)];
            table.row(std::iter::once(format!("{backend}: {name}").into()).chain(times).chain([met(ratio, goal)]));
        }
    }
    document.sections.push(Section::new("uncontended", "Uncontended").table(table));

    let title = format!("Throughput of 2 ranks divided by the throughput of 8, local; medians of {CELLS}");
    let mut table = Table::new(title, ["lock and load", "2 ranks", "8 ranks", "ratio", "goal, at most", "met"]);
    let micro = Duration::from_micros(1);
    for (fraction, section) in [(0.0, Duration::ZERO), (0.9, Duration::ZERO), (0.0, micro), (0.9, micro)] {
        let mut throughputs = QUEUES.map(|_| [Vec::new(), Vec::new()]);
        for _ in 0..CELLS {
            for cell in queues(fraction, section) {
                let lock = QUEUES.iter().position(|name| *name == cell.key.lock).expect("only these were asked for");
                throughputs[lock][usize::from(cell.key.ranks == 8)].push(cell.values.throughput);
            }
        }
        for (name, [two, eight]) in QUEUES.iter().zip(throughputs) {
            let [two, eight] = [two, eight].map(|rates| median(rates.into_iter()));
            let ratio = two / eight;
            let load = format!("{name}, {:.0} % lock_all, {section:?} inside", 100.0 * fraction);
            let figures = [Value::Rate(two), Value::Rate(eight), Value::Ratio(ratio), Value::Ratio(CROWD)];
            table.row(std::iter::once(load.into()).chain(figures).chain([met(ratio, CROWD)]));
        }
    }
    document.sections.push(Section::new("crowded", "More ranks than processors").table(table));

    let title = format!("Start, one barrier, and end of 64 ranks; medians of {STARTS}");
    let mut table = Table::new(title, ["ranks", "time", "goal, at most", "met"]);
    let threads = || drop(World::threads(64).run(meet).expect("64 threads"));
    let processes = || drop(many_processes().run(meet).expect("64 processes"));
    for (name, start, goal) in [("threads", &threads as &dyn Fn(), 50e6), ("processes", &processes, 1e9)] {
        let times = (0..STARTS).map(|_| {
            let before = Instant::now();
            start();
            before.elapsed().as_nanos() as f64
        });
        let time = median(times);
        table.row([name.into(), Value::Time(time), Value::Time(goal), met(time, goal)]);
    }
    document.sections.push(Section::new("start", "Start").table(table));
    print!("{}", document.for_arguments(std::env::args()));
}

/// The largest allowed throughput of 2 ranks, divided by the throughput of 8.
const CROWD: f64 = 3.0;

/// Starts of 64 ranks.
const STARTS: usize = 5;

/// The variable that marks the 64 processes.
const MANY: &str = "RATIOS_MANY";

fn many_processes() -> Processes {
    let program = std::env::current_exe().expect("this program is a file");
    World::processes(64).command(program, ["--bench"]).env(MANY, "1")
}

fn meet(ra: &Mapped) {
    Collectives::new(ra).and_then(|collectives| collectives.barrier()).expect("all ranks live");
}

fn met(value: f64, goal: f64) -> Value {
    if value <= goal { "met" } else { "not met" }.into()
}

/// For readers of mcs-rw-rp and shared locks of two-level: the time of a pair and of two atomics, and their ratio.
fn uncontended(ra: &Mapped) -> [[f64; 3]; 2] {
    [against_atomics(|| readers(ra)), against_atomics(|| shared(ra))]
}

/// The time of acquiring and releasing mcs-rw-rp for reading, in nanoseconds.
///
/// Separate functions measure the lock and the atomics with loops of the same form, so that the compiler can
/// optimize both alike.
#[inline(never)]
fn readers(ra: &Mapped) -> f64 {
    let place = Place::alloc(ra, Rank(0), McsRwRp::WORDS, McsRwRp::NODE).expect("the world has room");
    let mut lock = McsRwRp::bind(ra, place, ()).expect("one rank is not too many");
    let start = Instant::now();
    for _ in 0..PAIRS {
        lock.acquire_read(ra).expect("no other rank uses the lock");
        lock.release_read(ra).expect("it is held");
    }
    let time = per_pair(start);
    ra.heap().release(place.words).and_then(|()| ra.heap().release(place.node)).expect("both were allocated");
    time
}

/// The time of locking and unlocking a target in shared mode with two-level under MPI's rules, in nanoseconds.
#[inline(never)]
fn shared(ra: &Mapped) -> f64 {
    let mut window = WindowLocks::<TwoLevel>::new(ra, Default::default()).expect("the world has room");
    let start = Instant::now();
    for _ in 0..PAIRS {
        window.lock(ra, LockKind::Shared, Rank(0), Assert::None).expect("no other rank uses the lock");
        window.unlock(ra, Rank(0)).expect("it is locked");
    }
    per_pair(start)
}

/// The time of two locked atomics with checked results, as in a lock, in nanoseconds.
#[inline(never)]
fn atomics(word: &AtomicU64) -> f64 {
    let start = Instant::now();
    for _ in 0..PAIRS {
        let before = word.fetch_add(1, Ordering::SeqCst);
        let after = word.fetch_add(1u64.wrapping_neg(), Ordering::SeqCst);
        assert!((before, after) == (0, 1), "no other rank uses the word");
    }
    per_pair(start)
}

fn per_pair(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
}

/// Medians of the time of `pair`, of the time of two atomics measured in turn with it, and of their ratio.
fn against_atomics(pair: impl Fn() -> f64) -> [f64; 3] {
    let word = AtomicU64::new(0);
    let mut results = [Vec::new(), Vec::new(), Vec::new()];
    pair();
    for _ in 0..REPETITIONS {
        let (locked, atomics) = (pair(), atomics(black_box(&word)));
        for (list, value) in results.iter_mut().zip([locked, atomics, locked / atomics]) {
            list.push(value);
        }
    }
    results.map(|values| median(values.into_iter()))
}

/// One short study of the queue locks with 2 and with 8 ranks.
fn queues(read_fraction: f64, critical_section: Duration) -> Vec<study::Cell> {
    let mut options = Options::default();
    options.backends = vec![Backend::Local];
    options.ranks = vec![2, 8];
    options.locks = QUEUES.map(str::to_owned).to_vec();
    options.read_fractions = vec![read_fraction];
    options.critical_section = critical_section;
    options.duration = Some(CELL);
    options.repetitions = 1;
    study::run(&Registry::standard(), &options).expect("a short study").cells
}
