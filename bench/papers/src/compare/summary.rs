//! The summary of a comparison: tables of ratios, plots, and goals.

use super::{Cell, Group, Lock, OURS, Operation, Options, Peers, THREADS, WRITERS, What, Worlds, cores};
use rmalab_report::Machine;
use rmalab_report::finding::{Axis, Basis, Cell as TableCell, Claim, Origin, Plot, Quantity, Series, Table, Value};
use rmalab_report::numbers::{digits, humane};
use rmalab_report::statistics::median;

/// With more ranks than cores, an implementation waits for the scheduler if most operations take this many nanoseconds.
const TURN_NS: f64 = 1e6;

/// The goal for our speed relative to an implementation that waits for the scheduler.
const AHEAD_OF_TURNS: f64 = 10.0;

/// A round trip of a line is between near cores if it is shorter than this, in nanoseconds.
const NEAR_NS: f64 = 300.0;

/// The number of lines in a plot for our locks, and for the locks of others.
const LINES: usize = 4;

/// The summary of the measurements.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// The goals, if their subjects were measured.
    pub goals: Vec<Claim>,
    /// Times and ratios.
    pub tables: Vec<Table>,
    /// The operations with two ranks: the time of the best of the others, divided by ours, the largest first.
    pub bars: Vec<(String, f64)>,
    /// Times against ranks and threads.
    pub plots: Vec<Plot>,
    /// Notes for the reader: versions, missing implementations, failures, the distance of the cores.
    pub notes: Vec<String>,
}

/// The results of one implementation for one subject.
#[derive(Clone, PartialEq, Debug)]
enum Figure {
    /// The median of the repetitions, and the lowest and the highest.
    Time(f64, (f64, f64)),
    Failed(String),
    None,
}

impl Figure {
    fn of(cells: &[Cell], what: &What, who: &str) -> Figure {
        let Some(cell) = cells.iter().find(|cell| cell.what == *what && cell.who == who) else { return Figure::None };
        // An implementation that fails sometimes is of no use, even if it is fast at other times.
        match cell.failures.first() {
            Some(how) => Figure::Failed(how.clone()),
            None if cell.ns.is_empty() => Figure::None,
            None => {
                let low = cell.ns.iter().copied().fold(f64::INFINITY, f64::min);
                let high = cell.ns.iter().copied().fold(0.0, f64::max);
                Figure::Time(median(cell.ns.iter().copied()), (low, high))
            }
        }
    }

    fn time(&self) -> Option<f64> {
        match *self {
            Figure::Time(time, _) => Some(time),
            _ => None,
        }
    }

    fn cell(&self) -> TableCell {
        match self {
            Figure::Time(time, (low, high)) => TableCell::from(Value::Time(*time)).between(*low, *high),
            // One word is enough in a table; a note has the rest.
            Figure::Failed(how) => how.split([' ', ':']).next().unwrap_or("failed").into(),
            Figure::None => Value::None.into(),
        }
    }
}

/// Times that differ by less than this share are level.
const LEVEL: f64 = 0.03;

/// Our speed relative to the other implementations, in words.
fn verdict(ratio: Option<f64>) -> Value {
    match ratio {
        None => Value::None,
        Some(ratio) if (1.0 - LEVEL..1.0 + LEVEL).contains(&ratio) => Value::Text(format!("level {}", times(ratio))),
        Some(ratio) if ratio >= 1.0 => Value::Text(format!("ahead {}", times(ratio))),
        Some(ratio) => Value::Text(format!("BEHIND {}", times(ratio))),
    }
}

/// A ratio, with enough decimals.
pub(crate) fn times(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.4}×") } else { format!("{}×", digits(ratio)) }
}

fn least(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    figures.flatten().min_by(f64::total_cmp)
}

impl Summary {
    pub(super) fn of(
        options: &Options,
        peers: &Peers,
        machine: &Machine,
        ping_pong: &[f64],
        cells: &[Cell],
    ) -> Summary {
        let of = |preloaded: bool| {
            let those = peers.mpis.iter().filter(move |peer| peer.preloads.is_some() == preloaded);
            those.map(|peer| peer.name.as_str()).collect::<Vec<&str>>()
        };
        let (names, preloaded) = (of(false), of(true));
        let mut summary = Summary::default();
        let comparison = Comparison { cells, names: &names, preloaded: &preloaded };
        for &ranks in &options.ranks {
            let operations: Vec<&Operation> = options.operations.iter().filter(|one| one.has(ranks)).collect();
            comparison.operations(&mut summary, ranks, &operations);
        }
        for operation in options.operations.iter().filter(|operation| operation.worlds == Worlds::Crowds) {
            comparison.plot(&mut summary, operation, &options.ranks);
        }
        if options.locks {
            locks(&mut summary, cells);
        }
        summary.notes = notes(peers, machine, ping_pong, cells);
        summary
    }
}

/// The implementations of windows.
struct Comparison<'a> {
    cells: &'a [Cell],
    /// The other implementations.
    names: &'a [&'a str],
    /// Programs of some of these implementations that preload rmalab.
    preloaded: &'a [&'a str],
}

impl Comparison<'_> {
    fn figure(&self, operation: &Operation, ranks: u32, who: &str) -> Figure {
        Figure::of(self.cells, &What::Operation { name: operation.name.to_owned(), ranks }, who)
    }

    /// The table of the operations with that many ranks, and the goals.
    fn operations(&self, summary: &mut Summary, ranks: u32, operations: &[&Operation]) {
        if !operations.iter().any(|operation| self.figure(operation, ranks, OURS) != Figure::None) {
            return;
        }
        let columns = ["operation", OURS, "rmalab is"].into_iter().chain(self.names.iter().copied());
        let columns = columns.chain(["best of the others"]);
        let columns = columns.chain(self.preloaded.iter().flat_map(|name| [*name, "it is"]));
        let mut table = Table::new(format!("Operations of windows, {ranks} ranks on {} cores", cores()), columns);
        let mut ratios = Vec::new();
        let mut of_preloaded = vec![Vec::new(); self.preloaded.len()];
        for operation in operations {
            let ours = self.figure(operation, ranks, OURS);
            let theirs: Vec<Figure> = self.names.iter().map(|name| self.figure(operation, ranks, name)).collect();
            let best = least(theirs.iter().map(Figure::time));
            let ratio = best.zip(ours.time()).map(|(best, ours)| best / ours);
            let mut row = vec![TableCell::from(operation.title), ours.cell(), verdict(ratio).into()];
            row.extend(theirs.iter().map(Figure::cell));
            row.push(best.map_or(Value::None, Value::Time).into());
            for (name, ratios) in self.preloaded.iter().zip(&mut of_preloaded) {
                let preloaded = self.figure(operation, ranks, name);
                let ratio = best.zip(preloaded.time()).map(|(best, time)| best / time);
                row.extend([preloaded.cell(), verdict(ratio).into()]);
                ratios.extend(ratio.map(|ratio| (operation.name, ratio)));
            }
            table.row(row);
            ratios.extend(ratio.map(|ratio| (operation.name, ratio)));
        }
        summary.tables.push(table);
        if ranks == 2 && !ratios.is_empty() {
            let titles =
                |name: &str| operations.iter().find(|one| one.name == name).map_or("", |one| one.title).to_owned();
            summary.bars = ratios.iter().map(|&(name, ratio)| (titles(name), ratio)).collect();
            summary.bars.sort_by(|a, b| b.1.total_cmp(&a.1));
            let goal = "2 ranks: every operation ahead of the best of the others".to_owned();
            summary.goals.push(counted(goal, &ratios, 1.0));
        }
        for (name, ratios) in self.preloaded.iter().zip(&of_preloaded).filter(|(_, ratios)| !ratios.is_empty()) {
            let goal = format!("{ranks} ranks, {name}: every operation ahead of the best of the others");
            summary.goals.push(counted(goal, ratios, 1.0));
        }
        if ranks as usize > cores() {
            for name in self.names {
                for ours in [OURS].iter().chain(self.preloaded) {
                    self.against_turns(summary, ranks, operations, ours, name);
                }
            }
        }
    }

    /// The goal with more ranks than cores: the distance of `us` from an implementation whose ranks wait for the scheduler.
    fn against_turns(&self, summary: &mut Summary, ranks: u32, operations: &[&Operation], us: &str, who: &str) {
        let times: Vec<(&str, f64, Option<f64>)> = operations
            .iter()
            .filter_map(|one| {
                Some((one.name, self.figure(one, ranks, who).time()?, self.figure(one, ranks, us).time()))
            })
            .collect();
        let typical = median(times.iter().map(|(_, time, _)| *time));
        if typical < TURN_NS {
            return;
        }
        let ratios: Vec<(&str, f64)> =
            times.iter().filter_map(|&(name, time, ours)| Some((name, time / ours?))).collect();
        let goal = format!(
            "{ranks} ranks on {} cores, {us}: {AHEAD_OF_TURNS} times ahead of {who}, which waits for the scheduler \
             (half of its operations take more than {})",
            cores(),
            humane(typical)
        );
        summary.goals.push(counted(goal, &ratios, AHEAD_OF_TURNS));
    }

    fn plot(&self, summary: &mut Summary, operation: &Operation, ranks: &[u32]) {
        let series: Vec<Series> = [OURS]
            .iter()
            .chain(self.names)
            .chain(self.preloaded)
            .enumerate()
            .map(|(style, name)| {
                let point = |&ranks: &u32| Some((f64::from(ranks), self.figure(operation, ranks, name).time()?));
                let points = ranks.iter().filter_map(point).collect();
                Series {
                    name: (*name).to_owned(),
                    origin: Origin::Measured,
                    style,
                    points,
                    spread: Vec::new(),
                    group: String::new(),
                }
            })
            .filter(|series| series.points.len() > 1)
            .collect();
        if series.len() < 2 {
            return;
        }
        summary.plots.push(Plot {
            name: operation.name.to_owned(),
            title: operation.title.to_owned(),
            x: Axis::new("ranks", Quantity::Count),
            y: Axis::new("time of an operation", Quantity::Time),
            series,
            text: format!(
                "Lower is better. As long as every rank has a core, it may wait by polling memory. With \
                 more ranks than the {} cores here, the awaited rank may have no core: a rank that polls then wastes \
                 a time slice of the scheduler, some milliseconds, while one that gives up the core loses microseconds.",
                cores()
            ),
        });
    }
}

/// Returns whether all ratios reach `least`, and lists the ratios that do not.
fn counted(goal: String, ratios: &[(&str, f64)], least: f64) -> Claim {
    let short: Vec<String> = ratios
        .iter()
        .filter(|(_, ratio)| *ratio < least)
        .map(|(name, ratio)| format!("{name} {}", times(*ratio)))
        .collect();
    let smallest = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let here = match (smallest, short.is_empty()) {
        (None, _) => "nothing to compare".to_owned(),
        (Some((name, ratio)), true) => format!("all {}; the least is {name}, {}", ratios.len(), times(*ratio)),
        (_, false) => format!("{} of {}; not {}", ratios.len() - short.len(), ratios.len(), short.join(", ")),
    };
    Claim { expected: goal, here, holds: short.is_empty() && smallest.is_some(), basis: Basis::Found }
}

/// Adds a table and a goal: the best of ours and the best of the others, among the locks that are `eligible`.
fn best_locks(summary: &mut Summary, cells: &[Cell], (title, goal): (&str, &str), eligible: fn(&Lock) -> bool) {
    let mut best = Table::new(
        format!("{title}: the best of ours and the best of the others"),
        ["writers", "threads", "best of rmalab", "its time", "best of the others", "their time", "rmalab is"],
    )
    .keyed(2);
    let mut ratios = Vec::new();
    for writers in WRITERS {
        let of = |ours: bool, threads: u32| {
            let candidates = super::locks::locks().filter(|lock| eligible(lock) && (lock.group == Group::Ours) == ours);
            let time = |name| Figure::of(cells, &What::Lock { threads, writers }, name).time();
            let times = candidates.filter_map(|lock| Some((lock.name, time(lock.name)?)));
            times.min_by(|a, b| a.1.total_cmp(&b.1))
        };
        for count in THREADS {
            let (ours, theirs) = (of(true, count), of(false, count));
            if ours.is_none() {
                continue;
            }
            let mut row = vec![Value::Text(format!("{writers} %")), Value::Count(u64::from(count))];
            for one in [ours, theirs] {
                row.push(one.map_or(Value::None, |(name, _)| Value::from(name)));
                row.push(one.map_or(Value::None, |(_, time)| Value::Time(time)));
            }
            let ratio = ours.zip(theirs).map(|(ours, theirs)| theirs.1 / ours.1);
            ratios.extend(ratio.map(|ratio| (format!("{writers} % writers, {}", threads(count)), ratio)));
            row.push(verdict(ratio));
            best.row(row);
        }
    }
    if best.rows.is_empty() {
        return;
    }
    let ratios: Vec<(&str, f64)> = ratios.iter().map(|(name, ratio)| (name.as_str(), *ratio)).collect();
    let goal = format!("{goal}: the best of ours ahead of the best of the others, or within 3 %");
    summary.goals.push(counted(goal, &ratios, 1.0 - LEVEL));
    summary.tables.push(best);
}

fn threads(count: u32) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

fn locks(summary: &mut Summary, cells: &[Cell]) {
    let figure = |name: &str, threads, writers| Figure::of(cells, &What::Lock { threads, writers }, name);
    let measured = |name: &str, writers| THREADS.iter().any(|&threads| figure(name, threads, writers) != Figure::None);
    best_locks(summary, cells, ("Locks", "locks of one process"), |_| true);
    best_locks(
        summary,
        cells,
        ("Fair locks (a bounded number of others overtake a waiting thread)", "fair locks of one process"),
        |lock| lock.fair,
    );
    for writers in WRITERS {
        let columns = ["lock".to_owned(), "group".to_owned()].into_iter().chain(THREADS.map(threads));
        let title = format!("Locks, {writers} % writers: an acquisition and its release");
        let mut table = Table::new(title, columns).keyed(2);
        let mut there: Vec<_> = super::locks::locks().filter(|lock| measured(lock.name, writers)).collect();
        let time = |name: &str| figure(name, 2, writers).time().unwrap_or(f64::INFINITY);
        there.sort_by(|a, b| time(a.name).total_cmp(&time(b.name)));
        for lock in &there {
            let group = match lock.group {
                Group::Ours => "rmalab",
                Group::Rust => "Rust",
                Group::C => "C",
            };
            let mut row = vec![TableCell::from(lock.name), TableCell::from(group)];
            row.extend(THREADS.map(|threads| figure(lock.name, threads, writers).cell()));
            table.row(row);
        }
        summary.tables.push(table);
        let fastest = |ours: bool| there.iter().filter(move |lock| (lock.group == Group::Ours) == ours).take(LINES);
        let series: Vec<Series> = fastest(true)
            .chain(fastest(false))
            .enumerate()
            .map(|(style, lock)| {
                let point = |&threads: &u32| Some((f64::from(threads), figure(lock.name, threads, writers).time()?));
                let points = THREADS.iter().filter_map(point).collect();
                Series {
                    name: lock.name.to_owned(),
                    origin: Origin::Measured,
                    style,
                    points,
                    spread: Vec::new(),
                    group: String::new(),
                }
            })
            .filter(|series| series.points.len() > 1)
            .collect();
        if series.is_empty() {
            continue;
        }
        summary.plots.push(Plot {
            name: format!("locks-{writers}"),
            title: format!("Locks of one process, {writers} % writers"),
            x: Axis::new("threads", Quantity::Count),
            y: Axis::new("time of an acquisition and its release", Quantity::Time),
            series,
            text: format!(
                "Lower is better; the {LINES} fastest of ours and of the others with 2 threads. With one thread a \
                 lock costs its atomic instructions. With two, the line with its state moves between the cores. With \
                 more threads than the {} cores here the order of grants matters: if a lock goes to a thread that \
                 waits for its turn of the scheduler, all threads wait with it.",
                cores()
            ),
        });
    }
}

fn notes(peers: &Peers, machine: &Machine, ping_pong: &[f64], cells: &[Cell]) -> Vec<String> {
    let mut notes = Vec::new();
    for peer in peers.found() {
        let launched = if peer.launched.is_empty() { String::new() } else { format!(", started by {}", peer.launched) };
        notes.push(format!("{}: {}, built by {}{launched}", peer.name, peer.version, peer.built));
    }
    notes.extend(peers.skipped.iter().cloned());
    if !ping_pong.is_empty() {
        let near = ping_pong.iter().filter(|&&time| time < NEAR_NS).count();
        let far = ping_pong.len() - near;
        let distance = match (near, far) {
            (_, 0) => "near cores".to_owned(),
            (0, _) => "far cores".to_owned(),
            (near, far) => format!("near cores in {near} repetitions, far ones in {far}"),
        };
        let times: Vec<String> = ping_pong.iter().map(|&time| humane(time)).collect();
        notes.push(format!("Round trip of a cache line, ahead of each repetition: {} ({distance})", times.join(", ")));
    }
    for cell in cells.iter().filter(|cell| !cell.failures.is_empty()) {
        let what = match &cell.what {
            What::Operation { name, ranks } => format!("{name}, {ranks} ranks"),
            What::Lock { threads, writers } => format!("{threads} threads, {writers} % writers"),
        };
        let times = cell.failures.len();
        let of = times + cell.ns.len();
        notes.push(format!("{}: {what}: {} ({times} of {of} times)", cell.who, cell.failures[0]));
    }
    notes.extend(slow_build(machine));
    notes
}

/// The remark on a comparison by a build other than `measure`.
pub fn slow_build(machine: &Machine) -> Option<String> {
    (machine.profile != "measure").then(|| {
        format!(
            "rmalab is a {} build, which is slower: use `cargo run --profile measure -- compare` for valid figures",
            machine.profile
        )
    })
}
