//! The results of a study.

use rmalab_atomics::Backend;
use serde::{Deserialize, Serialize};

use super::options::Options;
use crate::subject::Info;
use crate::subject::passes::{Counts, Latency, Recorded, SideCounts, Steps, Throughput};
use rmalab_report::statistics::{Quantiles, histogram, jain, median};
use rmalab_report::{Machine, Run};

/// All results of a study.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The command of the study, and whether every cell was measured.
    pub run: Run,
    /// The options.
    pub options: Options,
    /// Duration of each cell, all passes together, in nanoseconds.
    pub cell_ns: u64,
    /// The machine.
    pub machine: Machine,
    /// The number of processors that other programs kept busy during the study, if known.
    pub others: Option<f64>,
    /// The subjects.
    pub subjects: Vec<Info>,
    /// The measurements, in the order of the options.
    pub cells: Vec<Cell>,
}

impl Outcome {
    /// The cells in which two ranks together held locks that exclude each other.
    pub fn violated(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.values.violations > 0)
    }
}

/// The key of a cell: one lock under one load in one world.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Key {
    /// The backend.
    pub backend: Backend,
    /// The number of ranks.
    pub ranks: u32,
    /// The subject's name.
    pub lock: String,
    /// The share of acquisitions that are lock_all.
    pub read_fraction: f64,
}

/// The results of one cell: medians over the repetitions, unless stated otherwise.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Cell {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// The number of measurements.
    pub repetitions: u32,
    /// The measurements' median.
    #[serde(flatten)]
    pub values: Values,
    /// The lowest throughput of the repetitions, in acquisitions per second.
    pub throughput_min: f64,
    /// The highest throughput of the repetitions, in acquisitions per second.
    pub throughput_max: f64,
}

/// The result of one measurement of one cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Values {
    /// Acquisitions (each with its release) per second, all ranks together.
    pub throughput: f64,
    /// The throughput of the slowest rank.
    pub rank_throughput_min: f64,
    /// The throughput of the fastest rank.
    pub rank_throughput_max: f64,
    /// Jain's index of the ranks' throughputs: 1 when all are equal, 1/ranks when one rank has everything.
    pub jain: f64,
    /// Exclusive grants to the rank that was also the last exclusive holder.
    pub handovers_own: u64,
    /// Exclusive grants whose last exclusive holder was another rank of the same node.
    pub handovers_node: u64,
    /// Exclusive grants whose last exclusive holder was a rank of another node.
    pub handovers_remote: u64,
    /// Acquisitions, of all ranks and repetitions, during which another rank held a lock that they exclude. If there is
    /// one, the lock is broken. 0 for a subject that excludes nothing.
    pub violations: u64,
    /// Results of lock_all and unlock_all; none without readers.
    pub readers: Option<Side>,
    /// Results of exclusive lock and unlock; none without writers.
    pub writers: Option<Side>,
}

/// The results of readers or of writers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Side {
    /// From the request to the grant.
    pub acquire: Quantiles,
    /// The release alone.
    pub release: Quantiles,
    /// From the grant until the release has returned.
    pub hold: Quantiles,
    /// The largest number of grants to other ranks between a request and its grant.
    pub bypass_max: u64,
    /// The mean number of grants to other ranks between a request and its grant.
    pub bypass_mean: f64,
    /// Remote operations per acquire and release, on the rank's own memory.
    pub operations_own: f64,
    /// Remote operations per acquire and release, on memory of other ranks of the node.
    pub operations_node: f64,
    /// Remote operations per acquire and release, on memory of other nodes.
    pub operations_remote: f64,
}

impl Side {
    /// Operations per acquire and release at all distances, the rank's own memory included.
    pub fn operations(&self) -> f64 {
        self.operations_own + self.operations_node + self.operations_remote
    }
}

/// The results of one rank in a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RankSample {
    pub(crate) throughput: Throughput,
    /// The planned length of the throughput pass, in nanoseconds: the same for all ranks.
    pub(crate) span_ns: u64,
    pub(crate) latency: Latency,
    pub(crate) counts: Counts,
    pub(crate) interrupted: bool,
}

/// Messages from rank 0 of a world to the study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// A cell was measured once.
    Sample(Box<Sample>),
    /// A cell was begun, but the user ended the study.
    Interrupted,
    /// A rank failed, with this error.
    Failed(String),
}

/// One measurement of one cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) key: Key,
    pub(crate) values: Values,
}

impl Values {
    /// Combines the results of all ranks.
    pub(crate) fn of(ranks: &[RankSample]) -> Values {
        let rates: Vec<f64> = ranks
            .iter()
            .map(|rank| {
                let Throughput { acquisitions, overtime_ns } = rank.throughput;
                acquisitions as f64 * 1e9 / (rank.span_ns + overtime_ns).max(1) as f64
            })
            .collect();
        let handovers = |index: usize| ranks.iter().map(|rank| rank.counts.handovers[index]).sum();
        Values {
            throughput: rates.iter().sum(),
            rank_throughput_min: rates.iter().copied().fold(f64::INFINITY, f64::min),
            rank_throughput_max: rates.iter().copied().fold(0.0, f64::max),
            jain: jain(&rates),
            handovers_own: handovers(0),
            handovers_node: handovers(1),
            handovers_remote: handovers(2),
            violations: ranks.iter().map(|rank| rank.counts.violations).sum(),
            readers: Side::of(ranks, |latency| &latency.readers, |counts| counts.readers),
            writers: Side::of(ranks, |latency| &latency.writers, |counts| counts.writers),
        }
    }

    /// The median of each value over several measurements of one cell; `samples` is not empty.
    fn median(samples: &[&Values]) -> Values {
        let median = |value: fn(&Values) -> f64| median(samples.iter().map(|sample| value(sample)));
        Values {
            throughput: median(|values| values.throughput),
            rank_throughput_min: median(|values| values.rank_throughput_min),
            rank_throughput_max: median(|values| values.rank_throughput_max),
            jain: median(|values| values.jain),
            handovers_own: median(|values| values.handovers_own as f64) as u64,
            handovers_node: median(|values| values.handovers_node as f64) as u64,
            handovers_remote: median(|values| values.handovers_remote as f64) as u64,
            violations: samples.iter().map(|sample| sample.violations).sum(),
            readers: Side::median(&samples.iter().filter_map(|sample| sample.readers.as_ref()).collect::<Vec<_>>()),
            writers: Side::median(&samples.iter().filter_map(|sample| sample.writers.as_ref()).collect::<Vec<_>>()),
        }
    }

    /// The side that usually has more acquisitions: readers, if any.
    pub fn main_side(&self) -> Option<&Side> {
        self.readers.as_ref().or(self.writers.as_ref())
    }
}

impl Side {
    fn of(
        ranks: &[RankSample],
        latency: impl Fn(&Latency) -> &Steps<Recorded>,
        counts: impl Fn(&Counts) -> SideCounts,
    ) -> Option<Side> {
        let merged = |step: fn(&Steps<Recorded>) -> &Recorded| {
            let mut sum = histogram();
            for &(value, count) in ranks.iter().flat_map(|rank| step(latency(&rank.latency))) {
                sum.saturating_record_n(value, count);
            }
            Quantiles::of(&sum)
        };
        let counts: Vec<SideCounts> = ranks.iter().map(|rank| counts(&rank.counts)).collect();
        let acquisitions: u64 = counts.iter().map(|side| side.acquisitions).sum();
        let acquire = merged(|steps| &steps.acquire);
        if acquire.count == 0 && acquisitions == 0 {
            return None;
        }
        let each = |sum: u64| if acquisitions == 0 { 0.0 } else { sum as f64 / acquisitions as f64 };
        let operations = |index: usize| each(counts.iter().map(|side| side.operations[index]).sum());
        Some(Side {
            acquire,
            release: merged(|steps| &steps.release),
            hold: merged(|steps| &steps.hold),
            bypass_max: counts.iter().map(|side| side.bypass_max).max().unwrap_or(0),
            bypass_mean: each(counts.iter().map(|side| side.bypass_sum).sum()),
            operations_own: operations(0),
            operations_node: operations(1),
            operations_remote: operations(2),
        })
    }

    fn median(sides: &[&Side]) -> Option<Side> {
        let median = |value: fn(&Side) -> f64| median(sides.iter().map(|side| value(side)));
        let quantiles = |step: fn(&Side) -> Quantiles| Quantiles::median(sides.iter().map(|side| step(side)));
        (!sides.is_empty()).then(|| Side {
            acquire: quantiles(|side| side.acquire),
            release: quantiles(|side| side.release),
            hold: quantiles(|side| side.hold),
            bypass_max: sides.iter().map(|side| side.bypass_max).max().unwrap_or(0),
            bypass_mean: median(|side| side.bypass_mean),
            operations_own: median(|side| side.operations_own),
            operations_node: median(|side| side.operations_node),
            operations_remote: median(|side| side.operations_remote),
        })
    }
}

/// The cells of a study, made from the measurements in the order of the options, without unmeasured cells.
pub(crate) fn cells(options: &Options, samples: &[Sample]) -> Vec<Cell> {
    keys(options)
        .filter_map(|key| {
            let values: Vec<&Values> =
                samples.iter().filter(|sample| sample.key == key).map(|sample| &sample.values).collect();
            (!values.is_empty()).then(|| Cell {
                key,
                repetitions: u32::try_from(values.len()).expect("repetitions are 32-bit numbers"),
                values: Values::median(&values),
                throughput_min: values.iter().map(|values| values.throughput).fold(f64::INFINITY, f64::min),
                throughput_max: values.iter().map(|values| values.throughput).fold(0.0, f64::max),
            })
        })
        .collect()
}

/// The keys of all cells that the options request.
fn keys(options: &Options) -> impl Iterator<Item = Key> {
    options
        .backends
        .iter()
        .flat_map(move |&backend| options.ranks.iter().flat_map(move |&ranks| world_keys(options, backend, ranks)))
}

/// The cells of one world, in the order of measurement.
pub(crate) fn world_keys(options: &Options, backend: Backend, ranks: u32) -> impl Iterator<Item = Key> {
    options.read_fractions.iter().flat_map(move |&read_fraction| {
        options.locks.iter().map(move |lock| Key { backend, ranks, lock: lock.clone(), read_fraction })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_ranks_and_repetitions_are_added() {
        let broken =
            |violations| RankSample { counts: Counts { violations, ..Counts::default() }, ..RankSample::default() };
        let one = Values::of(&[broken(1), broken(2)]);
        let other = Values::of(&[broken(0), broken(0)]);
        assert_eq!(Values::median(&[&other, &one, &other]).violations, 3);
    }

    #[test]
    fn histograms_of_ranks_are_merged() {
        let rank = |value| RankSample {
            throughput: Throughput { acquisitions: 10, overtime_ns: 0 },
            span_ns: 1_000,
            latency: Latency {
                readers: Steps { acquire: vec![(value, 5)], release: vec![(1, 5)], hold: vec![(1, 5)] },
                ..Latency::default()
            },
            ..RankSample::default()
        };
        let values = Values::of(&[rank(10), rank(100)]);
        assert_eq!(values.throughput, 2e7);
        let readers = values.readers.unwrap();
        assert_eq!((readers.acquire.count, readers.acquire.p50, readers.acquire.max), (10, 10, 100));
        assert!(values.writers.is_none());
    }
}
