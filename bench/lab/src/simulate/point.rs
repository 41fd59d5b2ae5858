//! The results of simulations: a point is one lock under one load at one number of ranks of one machine.

use std::time::Duration;

use rmalab_atomics::Distance;
use rmalab_atomics::sim::profile::Span;
use rmalab_atomics::sim::{OperationKind, Stats};
use serde::Serialize;

use super::options::{Load, Options, Target};
use super::rank::{Shared, Times};
use crate::subject::Info;
use rmalab_report::Run;
use rmalab_report::numbers::counted;
use rmalab_report::statistics::{Quantiles, jain, median};

/// All results.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The command of the simulations, and whether they ended without an interrupt.
    pub run: Run,
    /// The machine that ran them.
    pub host: rmalab_report::Machine,
    /// The simulated machines.
    pub machines: Vec<Machine>,
    /// The loads of the ranks.
    pub loads: Vec<Load>,
    /// The targets of shared and exclusive locks.
    pub target: Target,
    /// The home of global locks.
    pub home: u32,
    /// The number of ranks that took only exclusive locks.
    pub exclusive_ranks: u32,
    /// The share of a rank's acquisitions ahead of the measurement.
    pub warm_up: f64,
    /// The first seed.
    pub seed: u64,
    /// The number of seeds.
    pub seeds: u32,
    /// The subjects.
    pub subjects: Vec<Info>,
    /// The points, in the order of the options.
    pub points: Vec<Point>,
    /// Points that could not be simulated.
    pub left_out: Vec<LeftOut>,
}

/// A simulated machine.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Machine {
    /// The profile's name.
    pub name: String,
    /// Its description, in a line.
    pub about: String,
    /// Changes of the profile; empty if there are none.
    pub changed: String,
}

/// The key of a point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Key {
    /// The profile's name.
    pub profile: String,
    /// The load of the ranks.
    pub load: Load,
    /// The subject's name.
    pub lock: String,
    /// The number of ranks.
    pub ranks: u32,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranks = counted(self.ranks.into(), "rank");
        write!(f, "{} on {} at {ranks} ({})", self.lock, self.profile, self.load)
    }
}

/// A point that could not be simulated.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// The reason, in a line.
    pub why: String,
}

/// The reason to leave out a lock that does not exclude.
pub(crate) const VIOLATED: &str = "VIOLATED: two ranks that exclude each other were inside together, as `verify` draws";

impl LeftOut {
    /// Returns whether its lock is broken.
    pub fn is_violated(&self) -> bool {
        self.why == VIOLATED
    }
}

/// The results of one point: medians over the seeds, unless stated otherwise. Times are of the simulated machine, in
/// nanoseconds; a pair is an acquisition and its release, with the load's actions around them.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// The number of pairs that each rank had to measure.
    pub pairs: u32,
    /// The number of ranks that made fewer: the lock starved them, until the measurement ended without them. With a table of locks, the
    /// number of ranks that made none.
    pub starved: u32,
    /// The number of seeds in this result.
    pub seeds: u32,
    /// The slowest rank's time for a pair, on average over its pairs. For a starved rank, it is the time of the
    /// measurement divided by its pairs, or by one if it made none.
    pub slowest_ns: f64,
    /// The least `slowest_ns` of all seeds.
    pub slowest_min_ns: f64,
    /// The greatest `slowest_ns` of all seeds.
    pub slowest_max_ns: f64,
    /// The fastest rank's time for a pair.
    pub fastest_ns: f64,
    /// The time for a pair on average over all ranks.
    pub mean_ns: f64,
    /// Measured pairs per second, all ranks together, from the start of the measurement to its end; infinite if they
    /// take no time.
    pub throughput: f64,
    /// Jain's index of the ranks' rates: 1 when all are equal.
    pub jain: f64,
    /// From the request to the grant of all measured acquisitions, in nanoseconds.
    pub acquire: Quantiles,
    /// Results of lock_all and shared locks; none without readers.
    pub readers: Option<Side>,
    /// Results of exclusive locks; none without writers.
    pub writers: Option<Side>,
    /// Operations of all ranks for a pair.
    pub operations: Operations,
    /// The share of the time in which the engines of the busiest adapter were busy.
    pub utilization: f64,
    /// Messages that waited for that adapter, on average over time.
    pub mean_queue: f64,
    /// The largest number of messages that waited for it at a time.
    pub longest_queue: u32,
    /// The least time for a pair of each rank that the busiest word allows: adapters serve its operations one after the
    /// other. 0 if adapters served none.
    pub bound_ns: f64,
    /// Virtual time of the whole simulation.
    pub end_ns: f64,
    /// Events of one simulation.
    pub events: u64,
    /// Real time of one simulation, in seconds.
    pub wall_s: f64,
}

/// The results of readers, or of writers.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Side {
    /// From the request to the grant, in nanoseconds.
    pub acquire: Quantiles,
    /// The mean number of grants to other ranks between a request and its grant.
    pub bypass_mean: f64,
    /// The largest number of grants to others between a request and its grant.
    pub bypass_max: u64,
    /// Mean operations of a pair, by distance: local rank, same node, other nodes. Only for writers.
    pub operations: Option<[f64; 3]>,
    /// The largest number of operations of a pair. Only for writers.
    pub operations_max: Option<u64>,
}

/// Mean operations of a pair over all ranks and pairs, by distance: local rank, same node, other nodes.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Operations {
    /// fetch_add, compare_and_swap, fetch_store.
    pub atomic: [f64; 3],
    /// Gets of a word.
    pub get: [f64; 3],
    /// Puts of a word.
    pub put: [f64; 3],
    /// Bulk transfers.
    pub bulk: [f64; 3],
}

impl Operations {
    /// All kinds together, by distance.
    pub fn by_distance(&self) -> [f64; 3] {
        std::array::from_fn(|at| [self.atomic, self.get, self.put, self.bulk].iter().map(|kind| kind[at]).sum())
    }

    /// The sum over all distances.
    pub fn total(&self) -> f64 {
        self.by_distance().iter().sum()
    }
}

impl Point {
    /// The results of one simulation.
    pub(crate) fn of(key: Key, times: &[Times], shared: &Shared, stats: &Stats, wall: Duration) -> Point {
        let table = shared.task.load.table.is_some();
        let starved = |times: &Times| times.pairs < if table { 1 } else { u64::from(shared.task.pairs) };
        let last = times.iter().map(|times| times.end).max().unwrap_or(0);
        let end = shared.over.get().unwrap_or(last);
        let begin = times.iter().map(|times| times.begin).min().unwrap_or(0);
        let each = times.iter().map(|times| {
            let until = if table || starved(times) { end } else { times.end };
            // A rank may have begun to measure only after the end.
            let since = if table && starved(times) { begin } else { times.begin };
            until.saturating_sub(since) as f64 / 1000.0 / times.pairs.max(1) as f64
        });
        let each: Vec<f64> = each.collect();
        let slowest = each.iter().copied().fold(0.0, f64::max);
        let rates: Vec<f64> = each.iter().map(|ns| 1.0 / ns.max(1e-3)).collect();
        let pairs = times.iter().map(|times| times.pairs).sum::<u64>().max(1) as f64;
        let operations = |kind| Distance::ALL.map(|distance| stats.operations.count(kind, distance) as f64 / pairs);
        // The operations of the adapter that take turns, for the mean number of pairs of a rank.
        let bound = |span: Span| span.as_nanoseconds() * f64::from(key.ranks) / pairs;
        let sides = shared.sides.borrow();
        let mut both = sides[0].acquire.clone();
        both += &sides[1].acquire;
        let side = |index: usize| {
            let side = &sides[index];
            let count = side.acquire.len();
            let mean = |sum: u64| sum as f64 / count as f64;
            (count > 0).then(|| Side {
                acquire: Quantiles::of(&side.acquire),
                bypass_mean: mean(side.bypass_sum),
                bypass_max: side.bypass_max,
                operations: (index == 1).then(|| side.operations.map(mean)),
                operations_max: (index == 1).then_some(side.operations_max),
            })
        };
        Point {
            pairs: shared.task.pairs,
            starved: times.iter().filter(|times| starved(times)).count() as u32,
            seeds: 1,
            slowest_ns: slowest,
            slowest_min_ns: slowest,
            slowest_max_ns: slowest,
            fastest_ns: each.iter().copied().fold(f64::INFINITY, f64::min),
            mean_ns: each.iter().sum::<f64>() / each.len().max(1) as f64,
            throughput: pairs * 1e12 / end.saturating_sub(begin) as f64,
            jain: jain(&rates),
            acquire: Quantiles::of(&both),
            readers: side(0),
            writers: side(1),
            operations: Operations {
                atomic: operations(OperationKind::Atomic),
                get: operations(OperationKind::Get),
                put: operations(OperationKind::Put),
                bulk: operations(OperationKind::Bulk),
            },
            utilization: stats.busiest.map_or(0.0, |busiest| busiest.utilization),
            mean_queue: stats.busiest.map_or(0.0, |busiest| busiest.mean_queue),
            longest_queue: stats.busiest.map_or(0, |busiest| busiest.longest_queue),
            bound_ns: stats.hottest.map_or(0.0, |hottest| bound(hottest.bound)),
            end_ns: stats.end.as_nanoseconds(),
            events: stats.events,
            wall_s: wall.as_secs_f64(),
            key,
        }
    }

    /// The median of each value over the seeds, of which there is at least one.
    pub(crate) fn median(points: &[Point]) -> Point {
        let of = |value: fn(&Point) -> f64| median(points.iter().map(value));
        let three =
            |value: fn(&Point) -> [f64; 3]| std::array::from_fn(|at| median(points.iter().map(|p| value(p)[at])));
        Point {
            key: points[0].key.clone(),
            pairs: points[0].pairs,
            starved: points.iter().map(|point| point.starved).max().unwrap_or(0),
            seeds: points.len() as u32,
            slowest_ns: of(|point| point.slowest_ns),
            slowest_min_ns: points.iter().map(|point| point.slowest_ns).fold(f64::INFINITY, f64::min),
            slowest_max_ns: points.iter().map(|point| point.slowest_ns).fold(0.0, f64::max),
            fastest_ns: of(|point| point.fastest_ns),
            mean_ns: of(|point| point.mean_ns),
            throughput: of(|point| point.throughput),
            jain: of(|point| point.jain),
            acquire: Quantiles::median(points.iter().map(|point| point.acquire)),
            readers: Side::median(points.iter().filter_map(|point| point.readers.as_ref())),
            writers: Side::median(points.iter().filter_map(|point| point.writers.as_ref())),
            operations: Operations {
                atomic: three(|point| point.operations.atomic),
                get: three(|point| point.operations.get),
                put: three(|point| point.operations.put),
                bulk: three(|point| point.operations.bulk),
            },
            utilization: of(|point| point.utilization),
            mean_queue: of(|point| point.mean_queue),
            longest_queue: points.iter().map(|point| point.longest_queue).max().unwrap_or(0),
            bound_ns: of(|point| point.bound_ns),
            end_ns: of(|point| point.end_ns),
            events: of(|point| point.events as f64) as u64,
            wall_s: of(|point| point.wall_s),
        }
    }

    /// The side that usually has more acquisitions: readers, if any.
    pub fn main_side(&self) -> Option<&Side> {
        self.readers.as_ref().or(self.writers.as_ref())
    }

    /// The largest number of grants to others between a request and its grant.
    pub fn bypass_max(&self) -> u64 {
        [&self.readers, &self.writers].into_iter().flatten().map(|side| side.bypass_max).max().unwrap_or(0)
    }
}

impl Side {
    fn median<'a>(sides: impl Iterator<Item = &'a Side>) -> Option<Side> {
        let sides: Vec<&Side> = sides.collect();
        let at = |at: usize| median(sides.iter().filter_map(|side| Some(side.operations?[at])));
        let first = sides.first()?;
        Some(Side {
            acquire: Quantiles::median(sides.iter().map(|side| side.acquire)),
            bypass_mean: median(sides.iter().map(|side| side.bypass_mean)),
            bypass_max: sides.iter().map(|side| side.bypass_max).max().unwrap_or(0),
            operations: first.operations.map(|_| std::array::from_fn(at)),
            operations_max: sides.iter().filter_map(|side| side.operations_max).max(),
        })
    }
}

impl Outcome {
    /// The points of one machine under one load.
    pub fn panel<'a>(&'a self, machine: &'a Machine, load: &'a Load) -> impl Iterator<Item = &'a Point> + Clone {
        self.points.iter().filter(move |point| point.key.profile == machine.name && point.key.load == *load)
    }

    /// The machines and loads with points.
    pub fn panels(&self) -> impl Iterator<Item = (&Machine, &Load)> {
        let all = self.machines.iter().flat_map(|machine| self.loads.iter().map(move |load| (machine, load)));
        all.filter(|(machine, load)| self.panel(machine, load).next().is_some())
    }

    /// Describes the simulation's method in a sentence.
    pub fn method(&self) -> String {
        let warm_up = if self.warm_up == 0.0 {
            "All acquisitions are measured.".to_owned()
        } else {
            format!(
                "Each rank first makes {} % of its pairs, at least one, unmeasured.",
                rmalab_report::numbers::digits(self.warm_up * 100.0)
            )
        };
        let end = if self.loads.iter().any(|load| load.table.is_some()) {
            "All begin to measure at the same time, and go on until they have made their pairs together, or half of the allowed \
             events have passed."
        } else if self.exclusive_ranks == 0 {
            "All begin to measure at the same time, and each ends after its pairs."
        } else {
            "All begin to measure at the same time, and readers go on until the exclusive ranks have made their pairs, too."
        };
        let seeds = match self.seeds {
            1 => format!("The seed was {}.", self.seed),
            seeds => format!(
                "Values are medians over {seeds} seeds, from {} on; longest queues and bypasses are the longest of all.",
                self.seed
            ),
        };
        format!("{warm_up} {end} {seeds}")
    }

    /// The outcome ahead of the first simulation.
    pub(crate) fn begin(options: &Options, subjects: Vec<Info>) -> Outcome {
        Outcome {
            run: Run { seed: Some(options.seed), ..Run::begin() },
            host: rmalab_report::Machine::describe(),
            machines: options
                .profiles
                .iter()
                .map(|profile| Machine {
                    name: profile.name.clone(),
                    about: profile.about.clone(),
                    changed: options.machine.to_string(),
                })
                .collect(),
            loads: options.loads.clone(),
            target: options.target,
            home: options.home,
            exclusive_ranks: options.exclusive_ranks,
            warm_up: options.warm_up,
            seed: options.seed,
            seeds: options.seeds,
            subjects,
            points: Vec::new(),
            left_out: Vec::new(),
        }
    }
}
