//! The arena: all locks over tables of locks, and a map of which one is best where.
//!
//! The axes of the map are the share of exclusive locks and the contention, for each number of ranks. Next to it are the counted operations
//! of one lock, alone and with waiters.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rmalab_atomics::sim::{Options as World, Profile, Sim, Simulator};
use rmalab_atomics::{Counted, Counts, Rank, RemoteAtomics};
use rmalab_locks::LockKind;
use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{Cell as Entry, Column, Table, Value};
use rmalab_report::numbers::{counted, digits, number};

use super::point::{Outcome, Point};
use super::rank::Times;
use super::{Load, MAX_EVENTS, Mix, Options, Progress, SEGMENT_BYTES, Simulation};
use crate::subject::{Kind, Subject};
use crate::workload::Table as Locks;
use crate::{Info, Registry};
use rmalab_job::{Error, Result};

/// The numbers of ranks.
pub const RANKS: [u32; 4] = [100, 1000, 10_000, 100_000];

/// The profile.
pub const PROFILE: &str = "infiniband-ndr";

/// The tables, the most contended one first.
pub const TABLES: [&str; 3] = ["1k:zipf=0.99", "100k:zipf=0.99", "10M"];

/// Shares of exclusive locks.
pub const WRITERS: [f64; 3] = [1.0, 0.5, 0.05];

/// The number of measured acquisitions of all ranks together, and the least number of each rank.
pub const PAIRS: (u32, u32) = (20_000, 4);

/// Events of a simulation: the least number, and the number for each rank.
pub const EVENTS: (u64, u64) = (2_000_000, 160);

/// The number of waiters in the table of operations.
const WAITERS: u32 = 16;

/// The values by which locks are compared: name, whether more is better, and the value.
type Measure = (&'static str, bool, fn(&Point) -> Value);

const MEASURES: [Measure; 4] = [
    ("throughput", true, |point| Value::Rate(point.throughput)),
    ("p99 of the time to acquire", false, |point| Value::Time(point.acquire.p99 as f64)),
    ("fairness (Jain's index of the ranks' rates)", true, |point| Value::Number(point.jain)),
    ("operations in other nodes for a pair", false, |point| Value::Number(point.operations.by_distance()[2])),
];

/// Simulates the locks of `options` over its tables. Where `options` has no lock, table, number of pairs or limit of events, the
/// arena's defaults apply. Returns nothing if it was stopped.
///
/// # Errors
///
/// Errors of [`Simulation`], and of a lock whose operations cannot be counted.
pub fn run(
    registry: &Registry,
    options: &Options,
    stop: &Arc<AtomicBool>,
    mut progress: impl FnMut(&Progress),
) -> Result<Option<Document>> {
    let options = with_locks(registry, options);
    if options.loads.iter().any(|load| load.table.is_none()) {
        return Err(Error::usage("the arena needs tables of locks: --table, or nothing"));
    }
    let simulations = parts(registry, &options)?;
    let of = simulations.iter().map(Simulation::acquisitions).sum();
    let mut all: Option<Outcome> = None;
    let mut before = 0;
    for simulation in simulations {
        let part = simulation.acquisitions();
        let outcome = simulation.stopped_by(stop).run(|now| {
            progress(&Progress { done: before + now.done, of, ended: now.ended.clone() });
        })?;
        before += part;
        if !outcome.run.complete {
            return Ok(None);
        }
        match &mut all {
            None => all = Some(outcome),
            Some(all) => {
                all.points.extend(outcome.points);
                all.left_out.extend(outcome.left_out);
                for info in outcome.subjects {
                    if !all.subjects.contains(&info) {
                        all.subjects.push(info);
                    }
                }
            }
        }
    }
    let Some(mut all) = all else { return Err(Error::usage("a simulation needs at least one lock")) };
    all.loads.clone_from(&options.loads);
    all.subjects.sort_by_key(|info| info.place);
    let operations = operations(registry, &options.profiles[0], &options.locks)?;
    Ok(Some(document(&all, &options, operations)))
}

/// The number of simulations of [`run`].
///
/// # Errors
///
/// Errors of [`run`].
pub fn simulations(registry: &Registry, options: &Options) -> Result<usize> {
    let parts = parts(registry, &with_locks(registry, options))?;
    Ok(parts.iter().map(|simulation| simulation.options().simulations()).sum())
}

/// The same options with all mutexes and reader-writer locks, if they name none: policies are for windows.
fn with_locks(registry: &Registry, options: &Options) -> Options {
    let mut options = options.clone();
    if options.locks.is_empty() {
        let locks = registry.subjects().map(Subject::info).filter(|info| info.kind != Kind::Policy);
        options.locks = locks.map(|info| info.name.clone()).collect();
    }
    options
}

/// One simulation for each number of ranks of the mutexes, whose readers are writers, and one of the other locks.
fn parts<'r>(registry: &'r Registry, options: &Options) -> Result<Vec<Simulation<'r>>> {
    if options.loads.iter().any(|load| load.table.as_ref().is_some_and(|table| table.trace.is_some())) {
        return Err(Error::usage(
            "the arena varies the share of exclusive locks, but a trace has its own share: use rmalab simulate --table",
        ));
    }
    let mut simulations = Vec::new();
    for &ranks in &options.ranks {
        let mut part = options.clone();
        part.ranks = vec![ranks];
        part.pairs = Some(options.pairs.unwrap_or_else(|| (PAIRS.0 / ranks).max(PAIRS.1)));
        if options.max_events == MAX_EVENTS {
            part.max_events = EVENTS.0.max(EVENTS.1 * u64::from(ranks));
        }
        let mut mutexes = Vec::new();
        let mut others = Vec::new();
        for name in &options.locks {
            let mutex = registry.find(name)?.info().kind == Kind::Mutex;
            if mutex { &mut mutexes } else { &mut others }.push(name.clone());
        }
        if !mutexes.is_empty() {
            let mut loads: Vec<Load> = Vec::new();
            for load in options.loads.iter().map(|load| Load { mix: Mix::writers(1.0), ..load.clone() }) {
                if !loads.contains(&load) {
                    loads.push(load);
                }
            }
            simulations.push(Simulation::new(registry, Options { locks: mutexes, loads, ..part.clone() })?);
        }
        if !others.is_empty() {
            simulations.push(Simulation::new(registry, Options { locks: others, ..part })?);
        }
    }
    Ok(simulations)
}

/// The result of a lock under a load: a mutex has one for all shares of readers.
fn result<'a>(all: &'a Outcome, info: &Info, ranks: u32, load: &Load) -> Option<&'a Point> {
    let load = if info.kind == Kind::Mutex { Load { mix: Mix::writers(1.0), ..load.clone() } } else { load.clone() };
    all.points.iter().find(|point| point.key.lock == info.name && point.key.ranks == ranks && point.key.load == load)
}

fn document(all: &Outcome, options: &Options, operations: Table) -> Document {
    let simulated = all.document();
    let mut document = Document::new("arena", "The arena: which lock is best where", all.run.clone(), all.host.clone());
    let mut tables: Vec<Locks> = all.loads.iter().filter_map(|load| load.table.clone()).collect();
    tables.dedup();
    for &ranks in &options.ranks {
        let mut section = Section::new(format!("ranks-{ranks}"), format!("At {}", counted(ranks.into(), "rank")));
        for (measure, more, value) in MEASURES {
            section.finding.tables.push(map(all, ranks, &tables, (measure, more, value)));
        }
        for table in &tables {
            section.finding.tables.push(figures(all, ranks, table));
        }
        document.summary.extend(wins(all, ranks));
        document.sections.push(section);
    }
    let text = format!(
        "One lock at a rank that does not use it, and each other rank on a node of its own. Alone: one rank acquires and releases. With \
         {WAITERS} waiters: {} ranks acquire again as soon as they have released. Operations on memory of other ranks for a pair; puts of a \
         rank to itself are not among them.",
        WAITERS + 1
    );
    document
        .sections
        .push(Section::new("operations", "Operations, alone and with waiters").paragraph(text).table(operations));
    document.sections.extend(simulated.sections.into_iter().filter(|section| section.id == "left-out"));
    let machine = &all.machines[0];
    let method = format!(
        "{} Ranks run the locks' own code in virtual time, over profile {}: {}. Each acquisition draws a lock of the table, holds it for \
         no time, and releases it. A mutex makes no difference between readers and writers, so it has the same figure in every column. A \
         measurement ends at half of the events that a simulation may have, so a lock that collapses has a throughput, too; one without a \
         figure is named below the maps. Each lock has a queue node of its own at each rank, which takes memory only where it is used.",
        all.method(),
        machine.name,
        machine.about.trim_end_matches('.')
    );
    document.sections.push(Section::new("method", "Method").paragraph(method));
    document.data = simulated.data;
    document
}

/// The loads with one table, by falling share of exclusive locks.
fn row(all: &Outcome, table: &Locks) -> Vec<Load> {
    all.loads.iter().filter(|load| load.table.as_ref() == Some(table)).cloned().collect()
}

fn share(load: &Load) -> String {
    format!("{} %\nexclusive", number(load.mix.exclusive * 100.0))
}

/// All results at a place of the map, the best one first; locks that exclude nothing are left out.
fn ranked<'a>(all: &'a Outcome, ranks: u32, load: &Load, (_, more, value): Measure) -> Vec<(&'a Point, f64)> {
    let of = all.subjects.iter().filter(|info| info.excludes);
    let mut points: Vec<(&Point, f64)> = of
        .filter_map(|info| result(all, info, ranks, load))
        .filter(|point| point.acquire.count > 0)
        .filter_map(|point| Some((point, value(point).number()?)))
        .collect();
    points.sort_by(|a, b| if more { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
    points
}

/// Which lock is best: a row for each table, a column for each share of exclusive locks.
fn map(all: &Outcome, ranks: u32, tables: &[Locks], measure: Measure) -> Table {
    let columns = std::iter::once("locks".to_owned())
        .chain(tables.first().into_iter().flat_map(|table| row(all, table)).map(|load| share(&load)));
    let (which, worse) = if measure.1 { ("Highest", "lower") } else { ("Lowest", "higher") };
    let mut made =
        Table::new(format!("{which} {}, {}", measure.0, counted(ranks.into(), "rank")), columns.map(Column::from));
    for table in tables {
        let mut cells = vec![Entry::from(table.to_string())];
        for load in row(all, table) {
            let ranked = ranked(all, ranks, &load, measure);
            let Some(&(best, value)) = ranked.first() else {
                cells.push(Value::None.into());
                continue;
            };
            let mut text = format!("{} {}", best.key.lock, measure.2(best));
            if let Some(&(second, other)) = ranked.get(1) {
                let factor = if measure.1 { value / other } else { other / value };
                if factor.is_finite() {
                    text += &format!("; {} {} times {worse}", second.key.lock, digits(factor));
                }
            }
            cells.push(text.into());
        }
        made.row(cells);
    }
    made
}

/// All figures over one table of locks: a row for each lock.
fn figures(all: &Outcome, ranks: u32, table: &Locks) -> Table {
    let loads = row(all, table);
    let mut columns = vec![Column::from("lock")];
    for load in &loads {
        let of = share(load).replace("\nexclusive", "");
        columns.push(Column::higher(format!("pairs,\n{of}")));
        columns.push(Column::lower(format!("p99,\n{of}")));
        columns.push(Column::higher(format!("Jain,\n{of}")));
        columns.push(Column::lower(format!("other nodes,\n{of}")));
    }
    let mut made = Table::new(format!("{table}; {}", counted(ranks.into(), "rank")), columns);
    for info in &all.subjects {
        let mut cells = vec![Entry::from(info.name.as_str())];
        for load in &loads {
            let point = result(all, info, ranks, load);
            cells.extend(MEASURES.map(|(_, _, value)| Entry::from(point.map_or(Value::None, value))));
        }
        made.row(cells);
    }
    made
}

/// A sentence on the number of places at which each lock is first by throughput.
fn wins(all: &Outcome, ranks: u32) -> Option<String> {
    let mut wins: Vec<(String, u32)> = Vec::new();
    for load in &all.loads {
        let Some(&(best, _)) = ranked(all, ranks, load, MEASURES[0]).first() else { continue };
        match wins.iter_mut().find(|(name, _)| *name == best.key.lock) {
            Some((_, count)) => *count += 1,
            None => wins.push((best.key.lock.clone(), 1)),
        }
    }
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let of: Vec<String> = wins.iter().map(|(name, count)| format!("{name} {count}")).collect();
    (!of.is_empty()).then(|| {
        format!(
            "At {}, the locks with the highest throughput, and in how many of {} places of the map: {}.",
            counted(ranks.into(), "rank"),
            all.loads.len(),
            of.join(", ")
        )
    })
}

/// Operations on other ranks' memory for a pair, counted: a row for each lock.
fn operations(registry: &Registry, profile: &Profile, locks: &[String]) -> Result<Table> {
    let mut columns: Vec<Column> = vec!["lock".into()];
    columns.extend(["alone,\nexclusive", "alone,\nshared"].map(Column::lower));
    for side in ["exclusive", "half shared"] {
        columns.extend(["atomics", "gets", "puts"].map(|kind| Column::lower(format!("{kind},\n{side}"))));
    }
    let mut table = Table::new(format!("Operations for a pair, alone and with {WAITERS} waiters"), columns);
    for name in locks {
        let subject = registry.find(name)?;
        let shares = subject.info().kind != Kind::Mutex;
        let count = |active, readers| kinds(subject, profile, active, readers);
        let number = |value: Option<f64>| Entry::from(value.map_or(Value::None, Value::Number));
        let total = |kinds: Option<[f64; 3]>| number(kinds.map(|kinds| kinds.iter().sum()));
        let each = |kinds: Option<[f64; 3]>| [0, 1, 2].map(|at| number(kinds.map(|kinds| kinds[at])));
        let mut cells = vec![Entry::from(name.as_str()), total(count(1, 0)?)];
        cells.push(total(if shares { count(1, 2)? } else { None }));
        cells.extend(each(count(WAITERS + 1, 0)?));
        cells.extend(each(if shares { count(WAITERS + 1, 1)? } else { None }));
        table.row(cells);
    }
    Ok(table)
}

/// Acquisitions of each rank, on average, while operations are counted, and ahead of that.
const COUNTED: (u64, u64) = (50, 10);

/// The number of events after which a lock without progress counts as stuck.
const MOST: u64 = 3_000_000;

/// The mean atomics, gets and puts of a pair on memory of other ranks, with that many ranks at the lock. Of every 2 acquisitions, `readers`
/// are shared. `None` if the lock made too little progress.
fn kinds(subject: &Subject, profile: &Profile, active: u32, readers: u32) -> Result<Option<[f64; 3]>> {
    let world = World { ranks_per_node: Some(1), segment_bytes: SEGMENT_BYTES, ..World::new(WAITERS + 2) };
    let simulator = Simulator::new(profile, &world)?;
    let make = subject.maker();
    // The pairs of all ranks, the counted pairs, and their operations.
    let counter = Rc::new(RefCell::new((0_u64, 0_u64, Counts::default())));
    let failure = Rc::new(RefCell::new(None));
    let (ahead, last) = (COUNTED.1 * u64::from(active), (COUNTED.0 + COUNTED.1) * u64::from(active));
    let (body, failed) = (Rc::clone(&counter), Rc::clone(&failure));
    let ranks = move |ra: &Sim<'_>| -> rmalab_locks::Result<()> {
        let mut lock = make(ra, Rank(0))?;
        let mut pair = ra.rank().0;
        while (1..=active).contains(&ra.rank().0) && body.borrow().0 < last {
            let kind = if pair % 2 < readers { LockKind::Shared } else { LockKind::Exclusive };
            pair += 1;
            let counted = Counted::new(ra);
            lock.lock(&counted, kind, Rank(0))?;
            lock.unlock(&counted, kind, Rank(0))?;
            let (pairs, measured, counts) = &mut *body.borrow_mut();
            *pairs += 1;
            // No rank leaves ahead of the last of these acquisitions.
            if (ahead..=last).contains(pairs) {
                *measured += 1;
                *counts += counted.counts();
            }
        }
        Ok(())
    };
    let ran = simulator.run_with(
        move |ra| -> Option<Times> {
            if let Err(error) = ranks(ra) {
                failed.borrow_mut().get_or_insert_with(|| error.to_string());
            }
            None
        },
        &mut |progress| progress.events < MOST,
    );
    if let Some(why) = failure.take() {
        return Err(Error::Ranks(format!("{}: {why}", subject.info().name)));
    }
    let (pairs, measured, counts) = counter.take();
    if ran.is_err() && pairs < last {
        return Ok(None);
    }
    let atomics = counts.fetch_add.others() + counts.compare_and_swap.others() + counts.fetch_store.others();
    let kinds = [atomics, counts.get.others(), counts.put.others()];
    Ok(Some(kinds.map(|count| count as f64 / measured.max(1) as f64)))
}
