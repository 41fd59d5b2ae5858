//! The cost of windows beside their machine operations, on two processes over shared memory, each bound to a core.
//!
//! `cargo bench -p rmalab --bench windows` prints the time of each operation, the time of the necessary machine
//! operations, their ratio, and the goal (with `-- --markdown` as a page). Both times are measured in turn. Values are
//! medians. A missed goal fails nothing: people have to judge it, since they know the other load of the machine. The
//! targets of all operations are in the other rank's memory.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rmalab::Machine;
use rmalab::document::{Document, Run, Section};
use rmalab::finding::{Table, Value};
use rmalab_atomics::mapped::{Layout as MappingLayout, Mapping};
use rmalab_atomics::{Mapped, Processes, Rank, RemoteAtomics, World, bind_to_core, shm};
use rmalab_locks::WindowLocks;
use rmalab_report::statistics::median;
use rmalab_windows::{Assert, LockKind, Op, Policy, Team, UserMemory, Window, WindowDisp};

/// Measurements of each side.
const REPETITIONS: usize = 15;

/// Operations in one measurement of a short operation.
const SHORT: u32 = 100_000;

/// The variable with the part that the ranks have to run.
const PART: &str = "WINDOWS_PART";

const MIB: usize = 1 << 20;

/// A line of the table: times in nanoseconds.
type Row = (String, f64, f64, Goal);

/// The goal of a time relative to the raw one.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
enum Goal {
    /// At most that multiple of the raw one.
    Times(f64),
    /// At most that many nanoseconds more.
    Plus(f64),
    /// At most that many nanoseconds, whatever the raw one.
    Within(f64),
    /// None.
    Told,
}

fn main() {
    // `cargo test` only checks that bench targets work. A rank measures with any arguments.
    let measure = std::env::args().any(|argument| argument == "--bench");
    if !measure && shm::launched_size().is_ok_and(|size| size.is_none()) {
        return;
    }
    match std::env::var(PART).as_deref() {
        Ok("eight") => drop(ranks(8, "eight").run(crowd).expect("this process is a rank")),
        Ok(_) => drop(ranks(2, "two").run(pair).expect("this process is a rank")),
        Err(_) => {}
    }
    rmalab::BUILD.keep();
    let run = Run { command: "cargo bench -p rmalab --bench windows -- --markdown".into(), ..Run::begin() };
    let mut document = Document::new("windows", "Windows beside bare operations", run, Machine::describe());
    let two = &ranks(2, "two").run(pair).expect("two processes")[0];
    let title = format!("2 ranks, processes; target: the other rank; medians of {REPETITIONS}");
    document.sections.push(Section::new("two", "Two ranks").table(table(title, two)));
    let eight = &ranks(8, "eight").run(crowd).expect("eight processes")[0];
    let title = format!("8 ranks, processes, on the cores there are; medians of {REPETITIONS}");
    document.sections.push(Section::new("eight", "Eight ranks").table(table(title, eight)));
    print!("{}", document.for_arguments(std::env::args()));
}

fn ranks(size: u32, part: &str) -> Processes {
    let program = std::env::current_exe().expect("this program is a file");
    World::processes(size).segment_bytes(64 * MIB as u64).command(program, ["--bench"]).env(PART, part)
}

fn table(title: String, rows: &[Row]) -> Table {
    let mut table = Table::new(title, ["operation", "window", "raw", "window by raw", "goal, at most", "met"]);
    for (name, window, raw, goal) in rows {
        let (goal, met) = match *goal {
            Goal::Times(goal) => (Value::Ratio(goal), Some(window / raw <= goal)),
            Goal::Plus(goal) => (Value::Text(format!("raw + {goal} ns")), Some(window - raw <= goal)),
            Goal::Within(goal) => (Value::Time(goal), Some(*window <= goal)),
            Goal::Told => (Value::None, None),
        };
        let (raw, ratio) =
            if *raw > 0.0 { (Value::Time(*raw), Value::Ratio(window / raw)) } else { (Value::None, Value::None) };
        let met = met.map_or(Value::None, |met| if met { "met" } else { "not met" }.into());
        table.row([name.as_str().into(), Value::Time(*window), raw, ratio, goal, met]);
    }
    table
}

/// Nanoseconds of one of `n` runs of `body`.
#[inline(always)]
fn each(n: u32, mut body: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..n {
        body();
    }
    start.elapsed().as_nanos() as f64 / f64::from(n)
}

/// Medians of both sides, measured in turn.
fn in_turn(mut window: impl FnMut() -> f64, mut raw: impl FnMut() -> f64) -> (f64, f64) {
    let (mut windows, mut raws) = (Vec::new(), Vec::new());
    window();
    raw();
    for _ in 0..REPETITIONS {
        windows.push(window());
        raws.push(raw());
    }
    (median(windows.into_iter()), median(raws.into_iter()))
}

/// Measurements of one rank while the other rank is idle, and of both together.
fn pair(ra: &Mapped) -> Vec<Row> {
    bind_to_core(ra.rank()).expect("this machine lets a process choose its core");
    let team = Team::new(ra).expect("the world has room");
    let mut window = Window::allocate(&team, 32 * MIB as u64).expect("the world has room");
    let mut locks = WindowLocks::<Policy>::new(ra, Default::default()).expect("the world has room");
    let mut rows = Vec::new();
    team.barrier().expect("both live");
    if ra.rank() == Rank(0) {
        rows.extend(short(&mut window));
        rows.extend(locked(ra, &mut window, &mut locks));
        rows.extend(long(&mut window));
        rows.extend(accumulates(&mut window));
    }
    team.barrier().expect("both live");
    rows.extend(together(ra, &team, &mut window));
    rows.extend(making(&team));
    rows
}

const TARGET: Rank = Rank(1);
/// The number of words in a cache line.
const LINE: usize = 8;
const START: WindowDisp = WindowDisp(0);

fn short(window: &mut Window<'_, Mapped>) -> Vec<Row> {
    let own = AtomicU64::new(0);
    let own = black_box(&own);
    let read = AtomicU64::new(0);
    let read = black_box(&read);
    let epoch = window.lock_all().expect("no rank holds a lock");
    let query = epoch.window().shared_query(TARGET).expect("one node");
    let raw = &query.words().expect("memory is shared")[0];
    let target = epoch.at(TARGET).expect("there is a rank 1");
    let mut rows = Vec::new();
    let mut row = |name: &str, (window, raw): (f64, f64), goal| rows.push((name.to_owned(), window, raw, goal));
    let value = black_box(7_u64);
    row(
        "put 8 B + flush / store + locked instruction",
        in_turn(
            || {
                each(SHORT, || {
                    target.put(START, &[value]).expect("in range");
                    epoch.flush(TARGET).expect("alive");
                })
            },
            || {
                each(SHORT, || {
                    raw.store(value, Ordering::Relaxed);
                    black_box(own.swap(1, Ordering::SeqCst));
                })
            },
        ),
        Goal::Times(1.5),
    );
    row(
        "put 8 B + flush / the same and a load",
        in_turn(
            || {
                each(SHORT, || {
                    target.put(START, &[value]).expect("in range");
                    epoch.flush(TARGET).expect("alive");
                })
            },
            || {
                each(SHORT, || {
                    // The check whether a flush has work to do. A load after a locked instruction begins when that
                    // instruction has ended, and the next locked instruction waits for the load.
                    black_box(read.load(Ordering::Relaxed));
                    raw.store(value, Ordering::Relaxed);
                    black_box(own.swap(1, Ordering::SeqCst));
                })
            },
        ),
        Goal::Told,
    );
    row(
        "get 8 B + flush / load",
        in_turn(
            || {
                each(SHORT, || {
                    let mut value = [0_u64];
                    target.get(START, &mut value).expect("in range");
                    epoch.flush(TARGET).expect("alive");
                    black_box(value);
                })
            },
            || {
                each(SHORT, || {
                    black_box(raw.load(Ordering::SeqCst));
                })
            },
        ),
        Goal::Told,
    );
    row(
        "fetch_and_op sum u64 + flush / fetch_add",
        in_turn(
            || {
                each(SHORT, || {
                    black_box(target.fetch_and_op(START, Op::Sum, value).expect("in range"));
                    epoch.flush(TARGET).expect("alive");
                })
            },
            || {
                each(SHORT, || {
                    black_box(raw.fetch_add(value, Ordering::SeqCst));
                })
            },
        ),
        Goal::Times(1.5),
    );
    row(
        "compare_and_swap u64 + flush / the same",
        in_turn(
            || {
                each(SHORT, || {
                    black_box(target.compare_and_swap(START, value, value).expect("in range"));
                    epoch.flush(TARGET).expect("alive");
                })
            },
            || {
                each(SHORT, || {
                    black_box(raw.compare_exchange(value, value, Ordering::SeqCst, Ordering::SeqCst)).ok();
                })
            },
        ),
        Goal::Times(1.5),
    );
    row(
        "put 8 B, 1,000 per flush, each",
        in_turn(
            || {
                each(SHORT / 1000, || {
                    for i in 0..1000 {
                        target.put(WindowDisp(8 * i), &[value]).expect("in range");
                    }
                    epoch.flush(TARGET).expect("alive");
                }) / 1000.0
            },
            || 0.0,
        ),
        Goal::Within(4.0),
    );
    row("flush, nothing to do", in_turn(|| each(SHORT, || epoch.flush(TARGET).expect("alive")), || 0.0), Goal::Told);
    rows
}

fn locked(ra: &Mapped, window: &mut Window<'_, Mapped>, locks: &mut WindowLocks<Policy>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: &str, (window, raw): (f64, f64), goal| rows.push((name.to_owned(), window, raw, goal));
    for (name, kind) in [("lock exclusive", LockKind::Exclusive), ("lock shared", LockKind::Shared)] {
        row(
            &format!("{name} + unlock / the lock alone"),
            in_turn(
                || each(SHORT, || window.lock(kind, TARGET).and_then(|epoch| epoch.unlock()).expect("alone")),
                || {
                    each(SHORT, || {
                        locks.lock(ra, kind, TARGET, Assert::None).expect("alone");
                        locks.unlock(ra, TARGET).expect("it is held");
                    })
                },
            ),
            Goal::Plus(10.0),
        );
    }
    row(
        "lock_all + unlock_all / the lock alone",
        in_turn(
            || each(SHORT, || window.lock_all().and_then(|epoch| epoch.unlock_all()).expect("alone")),
            || {
                each(SHORT, || {
                    locks.lock_all(ra, Assert::None).expect("alone");
                    locks.unlock_all(ra).expect("it is held");
                })
            },
        ),
        Goal::Plus(10.0),
    );
    row(
        "lock exclusive + put 8 B + unlock",
        in_turn(
            || {
                each(SHORT, || {
                    let epoch = window.lock(LockKind::Exclusive, TARGET).expect("alone");
                    epoch.put(START, &[1_u64]).expect("in range");
                    epoch.unlock().expect("alive");
                })
            },
            || 0.0,
        ),
        Goal::Told,
    );
    rows
}

fn long(window: &mut Window<'_, Mapped>) -> Vec<Row> {
    let epoch = window.lock_all().expect("no rank holds a lock");
    let target = epoch.at(TARGET).expect("there is a rank 1");
    let mut rows = Vec::new();
    for (name, bytes, n, goal) in [
        ("put 128 KiB + flush / memcpy", 128 << 10, 200, Goal::Told),
        ("put 1 MiB, 16 places in turn / memcpy", MIB, 16, Goal::Times(1.0 / 0.9)),
        ("get 1 MiB, 16 places in turn / memcpy", MIB, 16, Goal::Told),
    ] {
        let source = vec![1_u8; bytes];
        let mut dest = vec![0_u8; 16 * bytes];
        let mut back = vec![0_u8; bytes];
        let get = name.starts_with("get");
        let mut place = 0;
        let (window, raw) = in_turn(
            || {
                each(n, || {
                    place = (place + 1) % 16;
                    let disp = WindowDisp((place * bytes) as i64);
                    if get {
                        target.get(disp, &mut back).expect("in range");
                    } else {
                        target.put(disp, black_box(&source)).expect("in range");
                    }
                    epoch.flush(TARGET).expect("alive");
                })
            },
            || {
                let mut place = 0;
                each(n, || {
                    place = (place + 1) % 16;
                    dest[place * bytes..][..bytes].copy_from_slice(black_box(&source));
                    black_box(&mut dest);
                })
            },
        );
        rows.push((name.to_owned(), window, raw, goal));
    }
    rows
}

fn accumulates(window: &mut Window<'_, Mapped>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (count, n) in [(1, SHORT), (128, 1000), (1024, 200), (65_536, 3)] {
        let words = vec![1_i64; count + LINE];
        // From the start of a cache line on: an allocation begins within one, where a sum takes up to a fifth longer.
        let source = &words[words.as_ptr().align_offset(LINE * size_of::<i64>())..][..count];
        let target = window.lock(LockKind::Shared, TARGET).expect("alone");
        let shared = each_median(|| {
            each(n, || {
                target.accumulate(START, Op::Sum, source).expect("in range");
                target.flush().expect("alive");
            })
        });
        target.unlock().expect("alive");
        let target = window.lock(LockKind::Exclusive, TARGET).expect("alone");
        let alone = each_median(|| {
            each(n, || {
                target.accumulate(START, Op::Sum, source).expect("in range");
                target.flush().expect("alive");
            })
        });
        target.unlock().expect("alive");
        rows.push((format!("accumulate {count} i64 + flush, shared lock"), shared, 0.0, Goal::Told));
        rows.push((format!("accumulate {count} i64 + flush, exclusive lock"), alone, 0.0, Goal::Told));
    }
    rows
}

fn each_median(mut body: impl FnMut() -> f64) -> f64 {
    body();
    median((0..REPETITIONS).map(|_| body()))
}

/// Operations of both ranks: fences and PSCW beside exchanges of flags.
fn together(ra: &Mapped, team: &Team<'_, Mapped>, window: &mut Window<'_, Mapped>) -> Vec<Row> {
    const ROUNDS: u32 = 20_000;
    let other = Rank(1 - ra.rank().0);
    // Two flags for each rank, each on separate lines.
    let flags = ra.heap().alloc(256, 128).expect("the world has room");
    let numbers = [std::cell::Cell::new(0_u64), std::cell::Cell::new(0_u64)];
    let exchange = |flag: usize| {
        let number = numbers[flag].get() + 1;
        numbers[flag].set(number);
        let disp = flags.plus(128 * flag as u64);
        let theirs = &ra.shared_words(other.at(disp), 1).expect("memory is shared")[0];
        let own = &ra.shared_words(ra.rank().at(disp), 1).expect("memory is shared")[0];
        theirs.store(number, Ordering::Release);
        while own.load(Ordering::Acquire) < number {
            std::hint::spin_loop();
        }
    };
    let mut rows = Vec::new();
    let (fence, flag) = {
        let mut epoch = Some(window.fence().expect("both live"));
        let measured = in_turn(
            || {
                each(ROUNDS, || {
                    let next = epoch.take().and_then(|epoch| epoch.next().ok());
                    epoch = Some(next.expect("both live"));
                })
            },
            || each(ROUNDS, || exchange(0)),
        );
        if let Some(epoch) = epoch.take() {
            epoch.close().expect("both live");
        }
        measured
    };
    rows.push(("fence / one exchange of flags".to_owned(), fence, flag, Goal::Times(1.3)));
    let (barrier, flag) =
        in_turn(|| each(ROUNDS, || team.barrier().expect("both live")), || each(ROUNDS, || exchange(0)));
    rows.push(("barrier / one exchange of flags".to_owned(), barrier, flag, Goal::Told));
    let (pscw, flags) = {
        let (mut access, mut exposure) = window.pscw().expect("no epoch is open");
        in_turn(
            || {
                each(ROUNDS, || {
                    let exposed = exposure.post(&[other]).expect("alive");
                    access.start(&[other]).and_then(|epoch| epoch.complete()).expect("alive");
                    exposed.wait().expect("alive");
                })
            },
            || {
                each(ROUNDS, || {
                    exchange(0);
                    exchange(1);
                })
            },
        )
    };
    rows.push(("post start complete wait / two exchanges".to_owned(), pscw, flags, Goal::Times(1.3)));
    rows
}

/// Creation and release of windows, beside the kernel's time to map and first touch the same amount of memory.
fn making(team: &Team<'_, Mapped>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (bytes, n) in [(4096_u64, 200), (MIB as u64, 50), (16 * MIB as u64, 8)] {
        let touch = |window: &Window<'_, Mapped>| {
            let base = window.base().expect("memory is mapped");
            for word in base.iter().step_by(512) {
                word.store(1, Ordering::Relaxed);
            }
        };
        let (window, raw) = in_turn(
            || {
                each(n, || {
                    let window = Window::allocate(team, bytes).expect("the world has room");
                    touch(&window);
                    window.free().expect("both live");
                })
            },
            || {
                let time = each(n, || {
                    let layout = MappingLayout::new(1, bytes).expect("a legal layout");
                    let fd = rustix::fs::memfd_create("raw", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd");
                    rustix::fs::ftruncate(&fd, layout.total_bytes()).expect("room");
                    use std::os::fd::AsFd;
                    // SAFETY: a new file, which no other code knows.
                    let mapping = Arc::new(unsafe { Mapping::shared(fd.as_fd(), layout, true) }.expect("a mapping"));
                    let topology = rmalab_atomics::Topology::one_node(1);
                    let raw = Mapped::new(mapping, Rank(0), topology, "raw").expect("a rank");
                    let words = raw.shared_words(Rank(0).at(rmalab_atomics::Disp(0)), bytes / 8).expect("mapped");
                    for word in words.iter().step_by(512) {
                        word.store(1, Ordering::Relaxed);
                    }
                });
                team.barrier().expect("both live");
                time
            },
        );
        rows.push((
            format!("allocate, touch, free {} KiB / map, touch, unmap", bytes >> 10),
            window,
            raw,
            Goal::Plus(20_000.0),
        ));
    }
    let created = each_median(|| {
        each(50, || {
            let memory = UserMemory::from_vec(vec![0_u64; 512]);
            let window = Window::builder(team).create(memory).expect("processes of one host");
            window.free().expect("both live");
        })
    });
    rows.push(("create over 4 KiB, free".to_owned(), created, 0.0, Goal::Told));
    rows
}

/// Eight ranks on the available cores.
fn crowd(ra: &Mapped) -> Vec<Row> {
    const ROUNDS: u32 = 200;
    let team = Team::new(ra).expect("the world has room");
    let mut window = Window::allocate(&team, 4096).expect("the world has room");
    let (me, size) = (ra.rank().0, ra.size());
    let (successor, predecessor) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let mut rows = Vec::new();
    let mut row = |name: &str, time| rows.push((name.to_owned(), time, 0.0, Goal::Told));
    row("barrier", each_median(|| each(ROUNDS, || team.barrier().expect("all live"))));
    {
        let mut epoch = Some(window.fence().expect("all live"));
        let fence = each_median(|| {
            each(ROUNDS, || {
                let next = epoch.take().and_then(|epoch| epoch.next().ok());
                epoch = Some(next.expect("all live"));
            })
        });
        row("fence", fence);
        if let Some(epoch) = epoch.take() {
            epoch.close().expect("all live");
        }
    }
    {
        let (mut access, mut exposure) = window.pscw().expect("no epoch is open");
        let ring = each_median(|| {
            each(ROUNDS, || {
                let exposed = exposure.post(&[predecessor]).expect("alive");
                access.start(&[successor]).and_then(|epoch| epoch.complete()).expect("alive");
                exposed.wait().expect("alive");
            })
        });
        row("PSCW ring", ring);
    }
    row(
        "window allocate + free, 4 KiB",
        each_median(|| {
            each(ROUNDS / 10, || Window::allocate(&team, 4096).and_then(|window| window.free()).expect("all live"))
        }),
    );
    rows
}
