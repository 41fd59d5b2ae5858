//! The workloads of the paper on RMA-RW and RMA-MCS on a simulated Cray XC30, as one document.
//!
//! The paper: P. Schmid, M. Besta and T. Hoefler, "High-Performance Distributed RMA Locks", HPDC'16, DOI 10.1145/2907294.2907323.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rmalab_atomics::sim::Profile;
use rmalab_job::Result;
use rmalab_report::document::{Document, Section as Part};
use rmalab_report::finding::{Cell, Column, Table, Value};

use super::options::LENGTHS;
use super::{Load, Mix, Options, Outcome, Parameters, Point, Section, Simulation};
use crate::Registry;

/// The numbers of ranks, the smaller one first.
const RANKS: [u32; 2] = [64, 1024];

/// The number of ranks of the comparison of thresholds.
const RANKS_OF_THRESHOLDS: u32 = 512;

/// Measured acquisitions of each rank beside foMPI's protocol, and for thresholds.
const PAIRS: u32 = 100;

/// The paper's shares of exclusive acquisitions.
const WRITERS: [f64; 3] = [0.002, 0.02, 0.05];

/// Thresholds that differ from the defaults.
const THRESHOLDS: [&str; 9] =
    ["t_dc=1", "t_dc=4", "t_dc=16", "t_dc=64", "t_r=10", "t_r=100", "t_l=1", "t_l=8", "t_l=128"];

/// Simulates all of it. Returns nothing if it was stopped.
///
/// # Errors
///
/// Errors of [`Simulation`].
pub fn run(stop: &Arc<AtomicBool>) -> Result<Option<Document>> {
    let sections =
        [Section::Empty, Section::Operation, Section::Work(LENGTHS.0, LENGTHS.1), Section::Wait(LENGTHS.0, LENGTHS.1)];
    let simulated =
        |parameters: Parameters, locks: &[&str], ranks: &[u32], pairs, mixes: &[Mix], sections: &[Section]| {
            let mut registry = Registry::standard();
            parameters.apply(&mut registry);
            let load = |mix, section| Load { mix, section, table: None };
            let options = Options {
                locks: locks.iter().map(|&lock| lock.to_owned()).collect(),
                ranks: ranks.to_vec(),
                loads: mixes.iter().flat_map(|&mix| sections.iter().map(move |&section| load(mix, section))).collect(),
                pairs,
                ..Options::new(Profile::find("aries")?)
            };
            Simulation::new(&registry, options)?.stopped_by(stop).run(|_| {})
        };
    let none = Parameters::default();
    let mixes = WRITERS.map(Mix::writers);
    let beside = simulated(none, &["two-level", "mcs-rw-rp", "rma-rw"], &RANKS, Some(PAIRS), &mixes, &sections)?;
    let mut thresholds = Vec::new();
    for threshold in THRESHOLDS {
        let parameters = threshold.parse().expect("a threshold of rma-rw");
        let mix = [Mix::writers(0.02)];
        let of = simulated(parameters, &["rma-rw"], &[RANKS_OF_THRESHOLDS], Some(PAIRS), &mix, &[Section::Empty])?;
        thresholds.push((threshold, of));
    }
    let alone = simulated(none, &["mcs", "rma-mcs", "cohort"], &RANKS, None, &[Mix::writers(1.0)], &sections[..2])?;
    let mut all = thresholds.iter().map(|(_, outcome)| outcome).chain([&beside, &alone]);
    if !all.all(|outcome| outcome.run.complete) {
        return Ok(None);
    }
    let title = "RMA-RW and RMA-MCS beside foMPI's protocol, on a simulated Cray XC30";
    let mut document = Document::new("rma-rw", title, beside.run.clone(), beside.host.clone());
    document.summary = vec![
        format!("{}. {}", beside.machines[0].about.trim_end_matches('.'), beside.method()),
        "The workloads come from the HPDC'16 paper on these locks. The times of the profile are mostly assumed, so ratios and \
         shapes count."
            .into(),
    ];
    document.sections.push(Part::new("beside", "Beside foMPI's protocol").table(times(
        &beside,
        "Time for a pair on the slowest rank",
        Some(("two-level", "rma-rw")),
    )).paragraph(
        "foMPI's protocol, two-level, has no queue. Its exclusive lock tries again while lock_alls overlap, so its slowest rank is a \
         writer that starves.",
    ));
    document.sections.push(Part::new("thresholds", "Thresholds of rma-rw").table(of_thresholds(&thresholds)).paragraph(
        "One threshold differs from its default in each row. T_DC is the number of ranks that share a counter: with more counters, a \
         writer visits more of them. T_R is the number of readers in a row, T_L that of writers in a row on each level.",
    ));
    document.sections.push(Part::new("writers", "Writers alone").table(times(&alone, "Time for a pair on the slowest rank", None)).paragraph(
        "The paper has RMA-MCS ahead of the MCS lock. Here it is not: on this profile the adapter makes all atomics of a node, so a \
         handover inside a node is not much shorter than one between nodes. Ranks are placed in blocks, and the queue of mcs mostly \
         passes the lock inside a node by itself.",
    ));
    Ok(Some(document))
}

/// A row for each load and number of ranks, and a column for each lock. The last column is the factor by which the second lock of
/// `gain` is faster than the first.
fn times(outcome: &Outcome, title: &str, gain: Option<(&str, &str)>) -> Table {
    let names = outcome.subjects.iter().map(|info| Column::lower(info.name.as_str()));
    let gained = gain.map(|(from, to)| Column::higher(format!("{from} / {to}")));
    let mut table = Table::new(title, ["load".into(), "ranks".into()].into_iter().chain(names).chain(gained)).keyed(2);
    for load in &outcome.loads {
        for ranks in RANKS {
            let point = |lock: &str| {
                outcome
                    .points
                    .iter()
                    .find(|point| point.key.lock == lock && point.key.ranks == ranks && point.key.load == *load)
            };
            let mut row = vec![Cell::from(load.to_string()), Value::Count(ranks.into()).into()];
            row.extend(outcome.subjects.iter().map(|info| point(&info.name).map_or(Value::None, slowest).into()));
            row.extend(gain.map(|(from, to)| match (point(from), point(to)) {
                (Some(from), Some(to)) => Cell::from(Value::Ratio(from.slowest_ns / to.slowest_ns)),
                _ => Value::None.into(),
            }));
            table.row(row);
        }
    }
    table
}

fn slowest(point: &Point) -> Value {
    Value::Time(point.slowest_ns)
}

fn of_thresholds(all: &[(&str, Outcome)]) -> Table {
    let load = all[0].1.loads[0].to_string();
    let columns = [
        "threshold".into(),
        Column::higher("pairs of all ranks"),
        Column::lower("mean of the ranks"),
        Column::lower("p99 acquire"),
        Column::lower("longest, writers"),
    ];
    let mut table = Table::new(format!("{RANKS_OF_THRESHOLDS} ranks, {load}"), columns).keyed(1);
    for (threshold, outcome) in all {
        let Some(point) = outcome.points.first() else { continue };
        let longest = point.writers.as_ref().map_or(Value::None, |side| Value::Time(side.acquire.max as f64));
        table.row([
            Value::from(*threshold),
            Value::Rate(point.throughput),
            Value::Time(point.mean_ns),
            Value::Time(point.acquire.p99 as f64),
            longest,
        ]);
    }
    table
}
