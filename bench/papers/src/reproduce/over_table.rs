//! Simulations of locks over a table of locks, which the experiments of the papers since 2018 share.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmalab_atomics::sim::Profile;
use rmalab_job::{Error, Result};
use rmalab_lab::Registry;
use rmalab_lab::simulate::{Load, Mix, Options, Parameters, Section, Simulation};
use rmalab_lab::workload::{Benchmark, Table as Locks};
use rmalab_report::finding::{Column, Table, Value};
use serde::{Deserialize, Serialize};

use super::Context;

/// The profile of all these experiments.
const PROFILE: &str = "infiniband-ndr";

/// A load on a world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    /// Ranks, and ranks of a node.
    pub ranks: (u32, u32),
    /// The table of locks, as on the command line.
    pub table: &'a str,
    /// The share of exclusive locks.
    pub exclusive: f64,
    /// The longest computation after a release, uniform from 0.
    pub think: Duration,
}

/// The results of a simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Pairs per second, all ranks together.
    pub rate: f64,
    /// Mean time of a pair, and quantiles of the time to acquire, in nanoseconds.
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    /// The 99th percentile of readers, and of writers; 0 without them.
    pub sides: [f64; 2],
    /// Jain's index of the ranks' rates.
    pub jain: f64,
    /// Atomics, and gets of a word, for a pair, wherever the word is.
    pub atomics: f64,
    pub gets: f64,
    /// Operations for a pair that leave the node.
    pub remote: f64,
}

/// Simulates a lock, or takes the result from the journal.
pub(super) fn figures(context: &Context<'_>, lock: &str, case: Case<'_>) -> Result<Figures> {
    let Case { ranks, table, exclusive, think } = case;
    let key = format!("{lock}, {} ranks, {table}, {exclusive} exclusive, {think:?}", ranks.0);
    simulated(context, (lock, Parameters::default()), ranks, &key, || {
        Ok(Load {
            mix: Mix::writers(exclusive).in_table(),
            section: if think.is_zero() { Section::Empty } else { Section::Wait(Duration::ZERO, think) },
            table: Some(table.parse().map_err(Error::usage)?),
        })
    })
}

/// Simulates a lock over the transactions of a benchmark, of the benchmark's own size and with all locks at one home. A transaction holds
/// its locks for the time `hold`.
pub(super) fn traced(
    context: &Context<'_>,
    (lock, parameters): (&str, Parameters),
    ranks: (u32, u32),
    benchmark: Benchmark,
    hold: Duration,
) -> Result<Figures> {
    let transactions: u64 = context.pick(20_000, 500_000);
    let with = if parameters == Parameters::default() { String::new() } else { format!(" with {parameters}") };
    let key =
        format!("{lock}{with}, {} ranks, {transactions} transactions of {benchmark:?}, held for {hold:?}", ranks.0);
    simulated(context, (lock, parameters), ranks, &key, || {
        let trace = Arc::new(benchmark.trace(benchmark.size(), transactions, 1)?);
        Ok(Load {
            mix: Mix::of(&trace),
            section: Section::Work(hold, hold),
            table: Some(Locks { homes: Some(1), ..Locks::traced(trace) }),
        })
    })
}

/// Simulates a lock, or takes the result from the journal.
fn simulated(
    context: &Context<'_>,
    (lock, parameters): (&str, Parameters),
    (ranks, ranks_per_node): (u32, u32),
    key: &str,
    load: impl FnOnce() -> Result<Load>,
) -> Result<Figures> {
    context.keep(key, || {
        let mut registry = Registry::standard();
        parameters.apply(&mut registry);
        let mut options = Options::new(Profile::find(PROFILE)?);
        options.locks = vec![lock.into()];
        options.ranks = vec![ranks];
        options.machine.ranks_per_node = Some(ranks_per_node);
        options.loads = vec![load()?];
        options.pairs = Some((context.pick(20_000, 500_000) / ranks).max(4));
        options.max_events = context.pick(4_000_000, 200_000_000);
        options.threads = Some(1);
        let simulation = Simulation::new(&registry, options)?;
        let flag = simulation.stop_flag();
        let outcome = simulation.run(|_| flag.store(context.stop().load(Ordering::Relaxed), Ordering::Relaxed))?;
        let Some(point) = outcome.points.first() else {
            let why = outcome.left_out.first().map_or("interrupted", |left| &left.why);
            return Err(Error::Ranks(format!("{lock} at {ranks} ranks: {why}")));
        };
        let side =
            |side: &Option<rmalab_lab::simulate::Side>| side.as_ref().map_or(0.0, |side| side.acquire.p99 as f64);
        Ok(Figures {
            rate: point.throughput,
            mean: point.mean_ns,
            p50: point.acquire.p50 as f64,
            p99: point.acquire.p99 as f64,
            sides: [side(&point.readers), side(&point.writers)],
            jain: point.jain,
            atomics: point.operations.atomic.iter().sum(),
            gets: point.operations.get.iter().sum(),
            remote: point.operations.by_distance()[2],
        })
    })
}

/// The results of several locks, a row each.
pub(super) fn table(title: &str, rows: &[(&str, Figures)]) -> Table {
    let columns = [
        Column::from("lock"),
        Column::from("pairs"),
        Column::from("mean pair"),
        Column::from("p50 acquire"),
        Column::from("p99 acquire"),
        Column::higher("Jain"),
        Column::lower("atomics"),
        Column::lower("gets"),
        Column::lower("other nodes"),
    ];
    let mut table = Table::new(title, columns);
    for (lock, of) in rows {
        table.row([
            Value::Text((*lock).into()),
            Value::Rate(of.rate),
            Value::Time(of.mean),
            Value::Time(of.p50),
            Value::Time(of.p99),
            Value::Number(of.jain),
            Value::Number(of.atomics),
            Value::Number(of.gets),
            Value::Number(of.remote),
        ]);
    }
    table
}

/// The results of several locks under one load.
pub(super) fn each<'l>(context: &Context<'_>, locks: &[&'l str], case: Case<'_>) -> Result<Vec<(&'l str, Figures)>> {
    locks.iter().map(|&lock| Ok((lock, figures(context, lock, case)?))).collect()
}

/// The result of one of them.
pub(super) fn of<'f>(rows: &'f [(&str, Figures)], lock: &str) -> &'f Figures {
    &rows.iter().find(|(name, _)| *name == lock).expect("it is among the simulated locks").1
}
