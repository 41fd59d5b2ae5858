//! foMPI's post, start, complete and wait: a ring, and logarithmically many neighbours, against ranks.

use rmalab_atomics::{Counted, Counts, Rank, RemoteAtomics};
use rmalab_windows::{PscwStrategy, Team, Window};
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_apps::Strategies;
use rmalab_job::Result;
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth, line};
use rmalab_report::statistics::median;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-pscw",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), the slides on PSCW synchronization and its performance",
    title: "post, start, complete, wait: a ring against ranks, and memory",
    protocol: "Every rank posts to and starts with its two neighbours in a ring, completes and waits, repeatedly; \
               then the same with log2(p) neighbours on either side, at the distances 1, 2, 4, and so on. The time of \
               an epoch on the slowest rank, the operations of each call, and the memory of a window of no bytes: in \
               the symmetric heap and beside it. By matching lists (foMPI's) and by a flag for each rank \
               (MVAPICH2's). Simulated on profile gemini, 32 ranks per node, and measured on 2 to 8 processes of this \
               machine.",
    found: "Start and wait take O(1) time, post and complete O(log p) for programs with as many neighbours; memory \
            O(log p) for scalable programs.",
    lesson: "A fence makes every rank wait for every other. Most programs know their neighbours, and need to wait \
             only for them: that is the purpose of post, start, complete and wait. The origin must learn that its \
             target is ready without polling the target. A flag for each possible partner costs memory for every rank \
             of the machine; a short list costs one more operation.",
    seconds: (25, 90),
    run,
};

/// Repeated epochs with the same neighbours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Neighbours {
    strategies: Strategies,
    /// True if there are log2(p) neighbours on either side; otherwise one.
    many: bool,
    rounds: u32,
    /// True if operations are counted, which takes time.
    counts: bool,
}

/// The results of an epoch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Epoch {
    /// Nanoseconds.
    time: f64,
    /// Operations on words of other ranks of post, start, complete and wait, if they were counted.
    remote: [u64; 4],
    /// Bytes of the symmetric heap, of a window of no bytes.
    heap: u64,
    /// Bytes beside the heap.
    private: u64,
    /// The number of ranks that it posts to, and starts with.
    neighbours: u32,
}

impl Job for Neighbours {
    type Out = Epoch;

    const NAME: &'static str = "neighbours";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Epoch> {
        if self.counts {
            let counted = Counted::new(ra);
            self.epochs(&counted, &|| counted.take())
        } else {
            self.epochs(ra, &Counts::default)
        }
    }
}

impl Neighbours {
    fn new(way: PscwStrategy, many: bool, rounds: u32, counts: bool) -> Neighbours {
        let strategies = Strategies { pscw: Some(way.name().into()), ..Strategies::default() };
        Neighbours { strategies, many, rounds, counts }
    }

    /// The ranks at the given distances, forwards or backwards, each once.
    fn group(&self, me: u32, size: u32, forwards: bool) -> Vec<Rank> {
        let most = if self.many { size - 1 } else { size.min(2) - 1 };
        let distances = (0..31).map(|power| 1_u32 << power).take_while(|&distance| distance <= most);
        let at = |distance| Rank(if forwards { me + distance } else { me + size - distance } % size);
        distances.map(at).collect()
    }

    fn epochs(&self, ra: &dyn RemoteAtomics, count: &dyn Fn() -> Counts) -> Result<Epoch> {
        let team = Team::new(ra)?;
        let free = ra.heap().free_bytes();
        let mut window = self.strategies.window(&team, 0)?;
        let heap = free - ra.heap().free_bytes();
        // In a ring, both neighbours are in both groups. With more neighbours, each group has the neighbours on one
        // side.
        let (me, size) = (ra.rank().0, ra.size());
        let mut targets = self.group(me, size, true);
        for rank in self.group(me, size, false) {
            if !targets.contains(&rank) {
                targets.push(rank);
            }
        }
        team.barrier()?;
        let mut remote = [0; 4];
        let begin = ra.now();
        for _ in 0..self.rounds {
            remote = Neighbours::epoch(&mut window, &targets, count)?;
        }
        let time = elapsed(ra, begin) / f64::from(self.rounds);
        team.barrier()?;
        let epoch = Epoch { time, remote, heap, private: window.remembered_bytes(), neighbours: targets.len() as u32 };
        window.free()?;
        Ok(epoch)
    }

    /// An epoch of access and exposure, and the remote operations of each of its calls.
    fn epoch<A: RemoteAtomics + ?Sized>(
        window: &mut Window<'_, A>,
        group: &[Rank],
        count: impl Fn() -> Counts,
    ) -> Result<[u64; 4]> {
        let (mut access, mut exposure) = window.pscw()?;
        count();
        let exposed = exposure.post(group)?;
        let post = count();
        let accessed = access.start(group)?;
        let start = count();
        accessed.complete()?;
        let complete = count();
        exposed.wait()?;
        Ok([post, start, complete, count()].map(|counts| counts.remote_operations()))
    }
}

const WAYS: [PscwStrategy; 2] = [PscwStrategy::Matching, PscwStrategy::Flags];

/// An epoch of some ranks: the slowest rank's time, and all other figures from rank 0.
#[derive(Clone, Debug)]
struct Point {
    ranks: u32,
    epoch: Epoch,
}

fn slowest(ran: &Ran<Epoch>) -> f64 {
    ran.ranks.iter().map(|epoch| epoch.time).fold(0.0, f64::max)
}

/// An epoch of each kind, on that many simulated ranks.
fn curve(context: &Context<'_>, way: PscwStrategy, many: bool, powers: u32) -> Result<Vec<Point>> {
    let of = |power: u32| {
        let ran = context.run(&Neighbours::new(way, many, 5, true), &Ranks::simulated("gemini", 1 << power))?;
        let epoch = Epoch { time: slowest(&ran), ..ran.ranks[0].clone() };
        Ok(Point { ranks: 1 << power, epoch })
    };
    (1..=powers).map(of).collect()
}

fn run(context: &Context<'_>) -> Result<Finding> {
    // Flags for every rank at every rank are p² words in all.
    let powers = [context.pick(12, 15), context.pick(11, 12)];
    let mut ring = Vec::new();
    let mut many = Vec::new();
    for (way, powers) in WAYS.into_iter().zip(powers) {
        ring.push(curve(context, way, false, powers)?);
        many.push(curve(context, way, true, powers)?);
    }
    let mut here = Vec::new();
    for ranks in [2, 4, 8] {
        let jobs = WAYS.map(|way| (Neighbours::new(way, false, 2000, false), Ranks::processes(ranks)));
        let runs = context.in_turn(5, &jobs)?;
        let medians: Vec<f64> = runs.iter().map(|runs| median(runs.iter().map(slowest))).collect();
        here.push((ranks, [medians[0], medians[1]]));
    }
    Ok(report(&ring, &many, &here))
}

/// For each of [`WAYS`] the points of the ring and of log2(p) neighbours; and processes with the ring's times here.
fn report(ring: &[Vec<Point>], many: &[Vec<Point>], here: &[(u32, [f64; 2])]) -> Finding {
    let mut finding = Finding::new();
    for (title, all) in [("A ring", ring), ("log2(p) neighbours on either side", many)] {
        let mut table = Table::new(
            format!("{title}: an epoch, simulated"),
            ["ranks", "neighbours", "time, matching", "time, flags", "operations, matching", "operations, flags"],
        );
        for (at, point) in all[0].iter().enumerate() {
            let other = all[1].get(at);
            let operations = |point: &Point| {
                let [post, start, complete, wait] = point.epoch.remote;
                Value::from(format!("{post} + {start} + {complete} + {wait}"))
            };
            table.row([
                Value::Count(point.ranks.into()),
                Value::Count(point.epoch.neighbours.into()),
                Value::Time(point.epoch.time),
                other.map_or(Value::None, |point| Value::Time(point.epoch.time)),
                operations(point),
                other.map_or(Value::None, operations),
            ]);
        }
        finding.tables.push(table);
    }
    let mut table = Table::new(
        "Memory of a window of no bytes at each rank",
        ["ranks", "heap, matching", "beside it", "heap, flags", "beside it, flags"],
    );
    for (at, point) in ring[0].iter().enumerate() {
        let other = ring[1].get(at);
        let bytes = |point: &Point| [point.epoch.heap, point.epoch.private].map(Value::Bytes);
        let [heap, private] = bytes(point);
        let [flags, counts] = other.map_or([Value::None, Value::None], bytes);
        table.row([Value::Count(point.ranks.into()), heap, private, flags, counts]);
    }
    finding.tables.push(table);
    let mut table = Table::new("A ring on processes of this machine", ["processes", "matching", "flags"]);
    for &(ranks, [matching, flags]) in here {
        table.row([Value::Count(ranks.into()), Value::Time(matching), Value::Time(flags)]);
    }
    finding.tables.push(table);

    // Rings of three and more have two neighbours; from two nodes on, messages cross the network.
    let local = ring.iter().chain(many).flatten().all(|point| point.epoch.remote[1] == 0 && point.epoch.remote[3] == 0);
    finding.claim(
        local,
        "start and wait take O(1)",
        "neither makes an operation on another rank, for any number of ranks and neighbours, with both kinds (counted)",
    );
    let each = |all: &[Vec<Point>], way: usize, post: u64| {
        all[way].iter().all(|point| {
            let neighbours = u64::from(point.epoch.neighbours);
            point.epoch.remote == [post * neighbours, 0, neighbours, 0]
        })
    };
    let exact = [ring, many].iter().all(|all| each(all, 0, 2) && each(all, 1, 1));
    finding.claim(
        exact,
        "post and complete take O(log p) for log p neighbours",
        "counted, exact at every size: for each neighbour 2 operations of post by matching (a ticket and a slot), 1 \
         by flags, and 1 of complete",
    );
    let between = |points: &[Point], value: fn(&Point) -> f64| -> Vec<(f64, f64)> {
        let far = points.iter().filter(|point| point.ranks >= 128);
        far.map(|point| (f64::from(point.ranks), value(point))).collect()
    };
    let time = |point: &Point| point.epoch.time;
    let (exponent, _) = growth(&between(&ring[0], time));
    finding.claim(
        exponent.abs() < 0.05,
        "a ring takes the same time at any number of ranks",
        format!("as p^{exponent:.3} from 128 ranks on by matching, simulated (below p^0.05 counts as constant)"),
    );
    let rounds: Vec<(f64, f64)> =
        between(&many[0], time).into_iter().map(|(ranks, time)| (ranks.log2(), time)).collect();
    let (slope, _, explained) = line(&rounds);
    let (exponent, _) = growth(&between(&many[0], time));
    finding.claim(
        explained > 0.95 && exponent < 0.5,
        "with log p neighbours an epoch takes O(log p)",
        format!(
            "{} more for each doubling from 128 ranks on by matching, R² {explained:.3} of that line, simulated; as a \
             power of p it would be p^{exponent:.2}",
            Value::Time(slope)
        ),
    );
    let bytes = |point: &Point| (point.epoch.heap + point.epoch.private) as f64;
    let (matching, _) = growth(&between(&ring[0], bytes));
    let flags = between(&ring[1], bytes);
    let (byte, _, explained) = line(&flags);
    let last =
        |points: &[Point]| points.last().map_or((0, 0), |point| (point.ranks, point.epoch.heap + point.epoch.private));
    finding.claim(
        matching < 0.01 && growth(&flags).0 > 0.9,
        "memory O(log p) for scalable programs, whereas a flag for each rank takes O(p)",
        format!(
            "matching takes {} at {} ranks and as much at 128 (a ring of 64 slots; p^{matching:.3}); flags take \
             {byte:.0} B for each rank, R² {explained:.4}, {} at {} ranks",
            Value::Bytes(last(&ring[0]).1),
            last(&ring[0]).0,
            Value::Bytes(last(&ring[1]).1),
            last(&ring[1]).0
        ),
    );
    if !finding.claims.iter().all(|claim| claim.holds) {
        finding.why =
            "with ranks farther from each other in a larger torus, messages take longer, whatever their number".into();
    }
    let names = ["matching", "flags"];
    let series = |all: &[Vec<Point>], suffix: &str, from: usize, value: &dyn Fn(&Point) -> f64| {
        let series = names.iter().zip(all).enumerate().map(|(style, (name, points))| Series {
            name: format!("{name}{suffix}"),
            origin: Origin::Simulated,
            style: from + style,
            points: points.iter().map(|point| (f64::from(point.ranks), value(point))).collect(),
            spread: Vec::new(),
            group: String::new(),
        });
        series.collect::<Vec<_>>()
    };
    let mut times = series(ring, ", ring", 0, &time);
    times.extend(series(many, ", log p", 2, &time));
    times.extend(names.iter().enumerate().map(|(style, name)| Series {
        name: format!("{name}, ring, here"),
        origin: Origin::Measured,
        style,
        points: here.iter().map(|&(ranks, times)| (f64::from(ranks), times[style])).collect(),
        spread: Vec::new(),
        group: String::new(),
    }));
    let axis = || Axis::new("ranks", Quantity::Count);
    finding.plots = vec![
        Plot {
            name: "ranks".into(),
            title: "An epoch of post, start, complete, wait".into(),
            x: axis(),
            y: Axis::new("time of an epoch, slowest rank", Quantity::Time),
            series: times,
            text: "The ring stays flat once it spans nodes: a rank with two neighbours is independent of the number \
                   of ranks. The upper pair has two more neighbours for each doubling, and so rises in equal steps. \
                   Matching is above flags since it needs atomic operations instead of puts of flags: an adapter \
                   serves only a few of them at a time, and 32 ranks share it. That is the price of its small memory. \
                   On this machine processes have to take turns as soon as there are more of them than processors."
                .into(),
        },
        Plot {
            name: "memory".into(),
            title: "Memory for matching posts with starts".into(),
            x: axis(),
            y: Axis::new("bytes of each rank", Quantity::Bytes),
            series: series(ring, "", 0, &bytes),
            text: "The memory of a window without any data at each rank. With a flag and a count for each other rank \
                   it doubles with the ranks: at a million of them, it would be dozens of megabytes for every window \
                   of every rank. The matching lists end at 64 slots, since no rank has more neighbours that post at \
                   the same time; otherwise the posts wait for a free slot."
                .into(),
        },
    ];
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use rmalab_job as job;

    #[test]
    fn operations_are_those_of_the_neighbours() {
        let stop = AtomicBool::new(false);
        for (way, post) in WAYS.into_iter().zip([2, 1]) {
            for (ranks, many, neighbours) in
                [(2, false, 1), (16, false, 2), (64, false, 2), (16, true, 7), (64, true, 11)]
            {
                let ran =
                    job::run(&Neighbours::new(way, many, 3, true), &Ranks::simulated("gemini", ranks), &stop).unwrap();
                for epoch in ran.ranks {
                    assert_eq!(u64::from(epoch.neighbours), neighbours, "{way} {ranks}");
                    assert_eq!(epoch.remote, [post * neighbours, 0, neighbours, 0], "{way} {ranks}");
                }
            }
        }
    }

    #[test]
    fn only_flags_take_memory_for_each_rank() {
        let stop = AtomicBool::new(false);
        let bytes = |way, ranks| {
            let job = Neighbours::new(way, false, 1, false);
            let epoch = job::run(&job, &Ranks::simulated("gemini", ranks), &stop).unwrap().ranks.swap_remove(0);
            (epoch.heap, epoch.private)
        };
        let [small, large] = [128, 256].map(|ranks| bytes(PscwStrategy::Matching, ranks));
        assert_eq!((small.0, small.1), (large.0, large.1));
        let [small, large] = [128, 256].map(|ranks| bytes(PscwStrategy::Flags, ranks));
        assert_eq!((large.0 - small.0, large.1 - small.1), (128 * 16, 128 * 16));
    }

    #[test]
    fn the_ring_of_two_runs_on_threads() {
        let job = Neighbours::new(PscwStrategy::Matching, true, 10, false);
        assert_eq!(job::run(&job, &Ranks::threads(2), &AtomicBool::new(false)).unwrap().ranks[0].neighbours, 1);
    }
}
