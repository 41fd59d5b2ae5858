//! foMPI's window creation: time and memory of created, allocated and dynamic windows against ranks.

use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Rank, RemoteAtomics, WORD};
use rmalab_windows::{Config, PscwStrategy, Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_job::Result;
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth, line};
use rmalab_report::statistics::median;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-windows",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), the slides on scalable window creation",
    title: "creation of created (traditional), allocated and dynamic windows",
    protocol: "All ranks make a window of 64 bytes and then a barrier, so that every rank may use it: the time on the \
               slowest rank, and the bytes that each rank then has for the window, in the symmetric heap and beside \
               it. A dynamic window is also accessed at every rank by one of them, after each has attached 64 bytes. \
               Simulated on profile gemini, 32 ranks per node; the simulator has no memory of programs, so for \
               created windows it repeats their communication, two all-to-all exchanges. Their memory is counted on \
               threads, and all three are timed on processes of this machine.",
    found: "All three take O(log p) time; traditional windows O(p) memory, allocated ones O(1), dynamic ones O(p).",
    lesson: "A put into another rank's memory needs its address. If every program provides its own memory, each rank \
             has to learn p addresses, and to keep them. If the library chooses the memory, it can choose the same \
             address everywhere, and then there is nothing to learn; that is why the allocated window is the one to \
             use at scale.",
    seconds: (20, 60),
    run,
};

/// The kinds of memory of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Made {
    /// Over memory of the program.
    Created,
    /// Only the communication for such a window, where ranks cannot reach the memory of programs.
    CreatedExchange,
    /// Allocated with the window.
    Allocated,
    /// Attached afterwards.
    Dynamic,
}

/// Repeated creation of windows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Creations {
    made: Made,
    rounds: u32,
}

/// The cost of a window.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Taken {
    /// Nanoseconds of the creation and a barrier.
    time: f64,
    /// Bytes of the symmetric heap, including the window's part.
    heap: u64,
    /// Bytes beside it.
    private: u64,
    /// Bytes beside it, of a dynamic window once this rank has accessed all other ranks.
    used: u64,
}

/// Bytes of a part.
const BYTES: u64 = 64;

impl Job for Creations {
    type Out = Taken;

    const NAME: &'static str = "creations";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Taken> {
        let team = Team::new(ra)?;
        team.barrier()?;
        let mut times = Vec::new();
        let mut taken = Taken::default();
        for _ in 0..self.rounds {
            let free = ra.heap().free_bytes();
            let begin = ra.now();
            if self.made == Made::CreatedExchange {
                team.allgather(&[BYTES, 1, 1, 0])?;
                team.allgather(&[1])?;
                team.barrier()?;
                times.push(elapsed(ra, begin));
                continue;
            }
            // With foMPI's matching lists at any number of ranks.
            let config = Config { pscw: PscwStrategy::Matching, ..Config::default() };
            let window = Window::builder(&team).config(config);
            let window = match self.made {
                Made::Created => window.create(UserMemory::from_vec(vec![0_u64; (BYTES / WORD) as usize]))?,
                Made::Allocated => window.allocate(BYTES)?,
                Made::CreatedExchange | Made::Dynamic => window.create_dynamic()?,
            };
            team.barrier()?;
            times.push(elapsed(ra, begin));
            taken.heap = free - ra.heap().free_bytes();
            taken.private = window.remembered_bytes();
            window.free()?;
        }
        if self.made == Made::Dynamic {
            taken.used = accessed(ra, &team)?;
        }
        taken.time = median(times.into_iter());
        Ok(taken)
    }
}

/// Bytes beside the heap of a dynamic window at rank 0, after accesses to the attached memory of all ranks.
fn accessed<A: RemoteAtomics + ?Sized>(ra: &A, team: &Team<'_, A>) -> Result<u64> {
    let config = Config { pscw: PscwStrategy::Matching, ..Config::default() };
    let mut window = Window::builder(team).config(config).create_dynamic()?;
    let part = Window::allocate(team, BYTES)?;
    let at = window.attach_window(&part)?;
    let addresses = team.allgather(&[at.0 as u64])?;
    let mut used = 0;
    if ra.rank() == Rank(0) {
        let all = window.lock_all()?;
        for (rank, address) in (0..).zip(addresses) {
            all.at(Rank(rank))?.get_value::<u64>(WindowDisp(address as i64))?;
        }
        all.unlock_all()?;
        used = window.remembered_bytes();
    }
    team.barrier()?;
    window.detach_window(at)?;
    part.free()?;
    window.free()?;
    Ok(used)
}

/// The slowest rank's time, and rank 0's memory.
fn whole(ran: &Ran<Taken>) -> Taken {
    let time = ran.ranks.iter().map(|taken| taken.time).fold(0.0, f64::max);
    Taken { time, ..ran.ranks[0] }
}

type Points = Vec<(u32, Taken)>;

fn run(context: &Context<'_>) -> Result<Finding> {
    let mut simulated = Vec::new();
    for made in [Made::CreatedExchange, Made::Allocated, Made::Dynamic] {
        // All ranks together exchange p² times the bytes of an address.
        let powers = if made == Made::CreatedExchange { context.pick(10, 12) } else { context.pick(12, 15) };
        let mut points = Vec::new();
        for power in 1..=powers {
            let ran = context.run(&Creations { made, rounds: 2 }, &Ranks::simulated("gemini", 1 << power))?;
            points.push((1 << power, whole(&ran)));
        }
        simulated.push(points);
    }
    let mut counted = Vec::new();
    for ranks in [2, 4, 8, 16, 32] {
        let ran = context.run(&Creations { made: Made::Created, rounds: 1 }, &Ranks::threads(ranks))?;
        counted.push((ranks, whole(&ran)));
    }
    let mut here = Vec::new();
    for ranks in [2, 4, 8] {
        let jobs = [Made::Created, Made::Allocated, Made::Dynamic];
        let jobs = jobs.map(|made| (Creations { made, rounds: 100 }, Ranks::processes(ranks)));
        let times = context.medians(5, &jobs, |ran| whole(ran).time)?;
        here.push((ranks, [times[0], times[1], times[2]]));
    }
    Ok(report(&simulated, &counted, &here))
}

/// Created, allocated and dynamic windows: simulated; the counted memory of created ones; and times on processes here.
fn report(simulated: &[Points], counted: &Points, here: &[(u32, [f64; 3])]) -> Finding {
    let mut finding = Finding::new();
    let names = ["created", "allocated", "dynamic"];
    let mut table = Table::new(
        "Time to make a window and to meet, slowest rank",
        ["ranks", "created (its exchanges)", "allocated", "dynamic"],
    );
    for &(ranks, allocated) in &simulated[1] {
        let of = |points: &Points| points.iter().find(|point| point.0 == ranks).map(|point| point.1.time);
        let time = |points| of(points).map_or(Value::None, Value::Time);
        table.row([Value::Count(ranks.into()), time(&simulated[0]), Value::Time(allocated.time), time(&simulated[2])]);
    }
    for &(ranks, times) in here {
        let name = Value::from(format!("{ranks} processes here"));
        table.row(std::iter::once(name).chain(times.map(Value::Time)));
    }
    finding.tables.push(table);
    let mut table = Table::new(
        "Memory of a window of 64 bytes at each rank",
        [
            "ranks",
            "created: heap",
            "created: beside it",
            "allocated: heap",
            "beside it",
            "dynamic: heap",
            "beside it",
            "beside it, all accessed",
        ],
    );
    let mut all: Vec<u32> = simulated[1].iter().chain(counted).map(|point| point.0).collect();
    all.sort_unstable();
    all.dedup();
    for ranks in all {
        let of = |points: &Points, value: fn(&Taken) -> u64| {
            let taken = points.iter().find(|point| point.0 == ranks).map(|point| &point.1);
            taken.map_or(Value::None, |taken| Value::Bytes(value(taken)))
        };
        let [heap, private]: [fn(&Taken) -> u64; 2] = [|taken| taken.heap, |taken| taken.private];
        table.row([
            Value::Count(ranks.into()),
            of(counted, heap),
            of(counted, private),
            of(&simulated[1], heap),
            of(&simulated[1], private),
            of(&simulated[2], heap),
            of(&simulated[2], private),
            of(&simulated[2], |taken| taken.used),
        ]);
    }
    finding.tables.push(table);

    for (name, points) in names.iter().zip(simulated) {
        let between = points.iter().filter(|point| point.0 >= 64);
        let between: Vec<(f64, f64)> = between.map(|&(ranks, taken)| (f64::from(ranks), taken.time)).collect();
        let rounds: Vec<(f64, f64)> = between.iter().map(|&(ranks, time)| (ranks.log2(), time)).collect();
        let (round, _, explained) = line(&rounds);
        let (exponent, _) = growth(&between);
        finding.claim(
            explained > 0.95 && exponent < 0.5,
            format!("{name} windows take O(log p) time"),
            format!(
                "{} more for each doubling from 64 ranks on, R² {explained:.3} of that line; as a power of p, \
                 p^{exponent:.2}; simulated",
                Value::Time(round)
            ),
        );
    }
    // All memory for other ranks; small numbers of ranks have shorter matching lists.
    let grows = |points: &Points, from: u32, value: fn(&Taken) -> u64| {
        let points = points.iter().filter(|point| point.0 >= from);
        let points: Vec<(f64, f64)> = points.map(|(ranks, taken)| (f64::from(*ranks), value(taken) as f64)).collect();
        (growth(&points).0, line(&points))
    };
    let (exponent, (byte, _, _)) = grows(counted, 2, |taken| taken.private);
    finding.claim(
        (exponent - 1.0).abs() < 0.05,
        "traditional windows take O(p) memory",
        format!("{byte:.0} B for each rank, p^{exponent:.3}, counted on 2 to 32 threads"),
    );
    let sizes: Vec<u64> =
        simulated[1].iter().filter(|point| point.0 >= 64).map(|point| point.1.heap + point.1.private).collect();
    finding.claim(
        sizes.windows(2).all(|pair| pair[0] == pair[1]),
        "allocated windows take O(1) memory",
        format!(
            "{} at each of {} ranks, and exactly as much at 64 (below, matching lists are shorter), counted",
            Value::Bytes(sizes.last().copied().unwrap_or(0)),
            simulated[1].last().map_or(0, |point| point.0)
        ),
    );
    let (exponent, (byte, _, _)) = grows(&simulated[2], 2, |taken| taken.used);
    finding.claim(
        (exponent - 1.0).abs() < 0.05,
        "dynamic windows take O(p) memory",
        format!(
            "{byte:.0} B for each rank that was accessed, p^{exponent:.3}, counted; nothing for the others, and {} of \
             the heap, most of it for the local list of regions",
            Value::Bytes(simulated[2].last().map_or(0, |point| point.1.heap))
        ),
    );
    if !finding.claims.iter().all(|claim| claim.holds) {
        finding.why = "every address has to reach every rank. So the exchanges of created windows carry O(p) bytes in \
                       their O(log p) messages, and the bytes matter from some hundreds of ranks on"
            .into();
    }
    let mut series: Vec<Series> = Vec::new();
    for (style, (name, points)) in names.iter().zip(simulated).enumerate() {
        series.push(Series {
            name: (*name).into(),
            origin: Origin::Simulated,
            style,
            points: points.iter().map(|&(ranks, taken)| (f64::from(ranks), taken.time)).collect(),
            spread: Vec::new(),
            group: String::new(),
        });
        series.push(Series {
            name: format!("{name}, here"),
            origin: Origin::Measured,
            style,
            points: here.iter().map(|&(ranks, times)| (f64::from(ranks), times[style])).collect(),
            spread: Vec::new(),
            group: String::new(),
        });
    }
    let axis = || Axis::new("ranks", Quantity::Count);
    finding.plots.push(Plot {
        name: "time".into(),
        title: "Time to make a window".into(),
        x: axis(),
        y: Axis::new("time, slowest rank", Quantity::Time),
        series,
        text: "Allocated and dynamic windows need no communication here, since all ranks choose the same address; the \
               curve is the barrier's, one step for each doubling. Created windows exchange all addresses: as \
               many rounds, but more and more bytes in each, and where these begin to matter the line bends upwards. \
               On this machine a created window also asks the kernel to map or copy memory of another process."
            .into(),
    });
    let memory = |style: usize, points: &Points, value: fn(&Taken) -> u64| Series {
        name: names[style].into(),
        origin: if style == 0 { Origin::Measured } else { Origin::Simulated },
        style,
        points: points.iter().map(|(ranks, taken)| (f64::from(*ranks), value(taken) as f64)).collect(),
        spread: Vec::new(),
        group: String::new(),
    };
    finding.plots.push(Plot {
        name: "memory".into(),
        title: "A rank's memory for a window".into(),
        x: axis(),
        y: Axis::new("bytes of each rank", Quantity::Bytes),
        series: vec![
            memory(0, counted, |taken| taken.private),
            memory(1, &simulated[1], |taken| taken.heap),
            memory(2, &simulated[2], |taken| taken.used),
        ],
        text: "Created windows have an entry for each rank, dynamic ones for each accessed rank: straight lines of \
               slope one, which no machine of a million ranks can afford for every window. The allocated window takes \
               the same at any number of ranks: its 64 bytes, the lock's words and the matching lists."
            .into(),
    });
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use rmalab_job as job;

    fn taken(made: Made, world: &Ranks) -> Taken {
        whole(&job::run(&Creations { made, rounds: 2 }, world, &AtomicBool::new(false)).unwrap())
    }

    #[test]
    fn memory_grows_as_in_the_paper() {
        let allocated = [64, 256].map(|ranks| taken(Made::Allocated, &Ranks::simulated("gemini", ranks)));
        assert_eq!((allocated[0].heap, allocated[0].private), (allocated[1].heap, allocated[1].private));
        let dynamic = [64, 256].map(|ranks| taken(Made::Dynamic, &Ranks::simulated("gemini", ranks)));
        assert_eq!(dynamic[0].heap, dynamic[1].heap);
        assert_eq!((4 * dynamic[0].used, dynamic[0].private), (dynamic[1].used, 0));
        let created = [2, 4].map(|ranks| taken(Made::Created, &Ranks::threads(ranks)));
        assert_eq!(2 * created[0].private, created[1].private);
        assert!(created[0].private > 0);
    }

    #[test]
    fn creation_takes_a_barrier() {
        let time = |made, ranks| taken(made, &Ranks::simulated("gemini", ranks)).time;
        let [small, large] = [64, 1024].map(|ranks| time(Made::Allocated, ranks));
        assert!(large / small < 2.5, "{small} {large}");
        let [small, large] = [64, 1024].map(|ranks| time(Made::CreatedExchange, ranks));
        assert!(large / small > 2.5, "all addresses take their bytes: {small} {large}");
    }

    #[test]
    fn the_simulator_refuses_memory_of_programs() {
        let job = Creations { made: Made::Created, rounds: 1 };
        let error = job::run(&job, &Ranks::simulated("gemini", 2), &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("program's own memory"), "{error}");
    }
}
