//! Comparisons of simulated figures with published and measured ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rmalab_atomics::sim::profile::LocalAtomics;
use rmalab_atomics::sim::{Options as World, Profile, Simulator};
use rmalab_atomics::{Disp, Rank, RemoteAtomics};
use rmalab_locks::{Policy, PolicyKind, WindowLock};
use serde::{Deserialize, Serialize};

use rmalab_job::{Error, Result};
use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{self, Cell, Column, Table};
use rmalab_report::numbers::digits;
use rmalab_report::{Machine, Run};

/// One figure, simulated and published or measured.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Check {
    /// Its name.
    pub what: String,
    /// The reference.
    pub reference: Value,
    /// The simulated value.
    pub simulated: Value,
    /// The difference and its bound; none for information only.
    pub apart: Option<Apart>,
}

/// A value with its unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// Nanoseconds.
    Time(f64),
    /// A part of 1.
    Share(f64),
    /// A coefficient, from -1 to 1.
    Coefficient(f64),
    /// A missing value.
    None,
}

impl From<Value> for Cell {
    fn from(value: Value) -> Cell {
        Cell::from(match value {
            Value::Time(ns) => finding::Value::Time(ns),
            Value::Share(share) => finding::Value::Share(share),
            Value::Coefficient(value) => finding::Value::Number(value),
            Value::None => finding::Value::None,
        })
    }
}

/// Difference of two values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Apart {
    /// The simulated value divided by the other, less 1, and its bound on either side.
    Ratio(f64, f64),
    /// The difference of two shares, and its bound on either side.
    Points(f64, f64),
    /// The simulated value, and its least allowed value.
    Least(f64, f64),
}

impl Apart {
    /// Returns whether it is within its bounds.
    pub fn holds(self) -> bool {
        match self {
            Apart::Ratio(is, most) | Apart::Points(is, most) => is.abs() <= most,
            Apart::Least(is, least) => is >= least,
        }
    }
}

impl Check {
    /// A time that may differ by that ratio.
    pub(crate) fn time(what: &str, reference: f64, simulated: f64, most: f64) -> Check {
        Check {
            what: what.into(),
            reference: Value::Time(reference),
            simulated: Value::Time(simulated),
            apart: Some(Apart::Ratio(simulated / reference - 1.0, most)),
        }
    }

    /// Returns whether it holds, or has no bound.
    pub fn holds(&self) -> bool {
        self.apart.is_none_or(Apart::holds)
    }
}

/// The document of a comparison. `about` describes it in a sentence; `reference` is the heading of the second column.
pub fn document(run: Run, about: &str, reference: &str, checks: &[Check]) -> Document {
    let title = format!("Simulated figures beside {reference} ones");
    let mut document = Document::new("validate", title, run, Machine::describe());
    document.summary = vec![verdict(checks)];
    document.sections.push(Section::new("figures", "Figures").paragraph(about).table(table(reference, checks)));
    document
}

/// The checks as a table; `reference` is the heading of the second column.
pub fn table(reference: &str, checks: &[Check]) -> Table {
    let columns = ["figure", reference, "simulated", "deviation", "bound", "verdict"].map(Column::neither);
    let mut table = Table::new("Each figure, and its bound", columns);
    for check in checks {
        let (deviation, bound) = match check.apart {
            Some(Apart::Ratio(is, most)) => (format!("{:+.1} %", is * 100.0), format!("{:.0} %", most * 100.0)),
            Some(Apart::Points(is, most)) => {
                (format!("{:+.1} points", is * 100.0), format!("{:.0} points", most * 100.0))
            }
            Some(Apart::Least(is, least)) => (format!("{is:.2}"), format!("at least {least}")),
            None => ("–".into(), "no bound".into()),
        };
        table.row([
            Cell::from(check.what.as_str()),
            check.reference.into(),
            check.simulated.into(),
            deviation.into(),
            bound.into(),
            (if check.holds() { "holds" } else { "DOES NOT HOLD" }).into(),
        ]);
    }
    table
}

/// Compares with published figures for the FX100: M. Hatanaka, A. Hori, Y. Ishikawa, the study of RMA locks
/// on the FX100 (in Japanese), section 5.2, figures 8, 10 and 12. Each rank acquires and releases `pairs` times (1,000
/// in the paper), for reading, at the same time as all others. The adapter serves all words.
///
/// # Errors
///
/// Errors of the simulator, and [`Error::Ranks`] when it was stopped.
pub fn paper(profile: &Profile, pairs: u32, stop: &Arc<AtomicBool>) -> Result<Vec<Check>> {
    // Ranks, and ranks on a node; the largest first.
    let runs = [(4096, 32), (1024, 8), (256, 32), (128, 1), (4, 32)];
    let next = Mutex::new(runs.iter());
    let found: Mutex<Vec<((u32, u32), Times)>> = Mutex::default();
    let failed: Mutex<Option<Error>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let run = next.lock().expect("no thread panics while it holds the lock").next();
                let Some(&(ranks, ranks_per_node)) = run else { return };
                match locks(profile, ranks, ranks_per_node, pairs, stop) {
                    Ok(times) => {
                        found
                            .lock()
                            .expect("no thread panics while it holds the lock")
                            .push(((ranks, ranks_per_node), times));
                    }
                    Err(error) => {
                        failed.lock().expect("no thread panics while it holds the lock").get_or_insert(error);
                        return;
                    }
                }
            }
        };
        // This thread does the work of threads that the system refuses.
        for _ in 1..threads {
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Ranks("interrupted before all figures were simulated".into()));
    }
    if let Some(error) = failed.into_inner().expect("no thread panics while it holds the lock") {
        return Err(error);
    }
    let found = found.into_inner().expect("no thread panics while it holds the lock");
    let of = |run| &found.iter().find(|(other, _)| *other == run).expect("all were run").1;
    let pair = |run| of(run).slowest() / f64::from(pairs);
    let whole = |run| pair(run) * 1000.0;
    let engines = [1, 4].map(|engines| fetch_adds(profile, engines, profile.ranks_per_node, pairs));
    let [one, four] = engines;
    let gain = 1.0 - four? / one?;
    let full = of((4096, 32));
    let correlation = spearman(&full.hops, &full.end);
    Ok(vec![
        Check::time("fig. 8: a pair, 4 ranks", 2.3e3, pair((4, 32)), 0.15),
        Check::time("fig. 8: a pair, 256 ranks", 130e3, pair((256, 32)), 0.15),
        Check::time("fig. 8: a pair, 4096 ranks", 2.2e6, pair((4096, 32)), 0.15),
        Check::time("fig. 10: 1000 pairs, 128 nodes of 1 rank", 0.069e9, whole((128, 1)), 0.15),
        Check::time("fig. 10: 1000 pairs, 128 nodes of 8 ranks", 0.52e9, whole((1024, 8)), 0.15),
        Check::time("fig. 10: 1000 pairs, 128 nodes of 32 ranks", 2.2e9, whole((4096, 32)), 0.15),
        Check {
            what: "fig. 10: the fastest of these 4096 ranks".into(),
            reference: Value::Time(0.1e9),
            simulated: Value::Time(full.fastest() / f64::from(pairs) * 1000.0),
            apart: None,
        },
        Check {
            what: "fig. 10: hops and end, rank correlation".into(),
            reference: Value::None,
            simulated: Value::Coefficient(correlation),
            apart: Some(Apart::Least(correlation, 0.5)),
        },
        Check {
            what: "fig. 12: gain of 4 engines, fetch_adds".into(),
            reference: Value::Share(0.4),
            simulated: Value::Share(gain),
            apart: Some(Apart::Points(gain - 0.4, 0.1)),
        },
    ])
}

/// The ranks' times in nanoseconds, and their distances from the lock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Times {
    /// The end of each rank.
    pub end: Vec<f64>,
    /// The number of hops from each rank to the lock.
    pub hops: Vec<f64>,
}

impl Times {
    /// The slowest rank's time.
    pub fn slowest(&self) -> f64 {
        self.end.iter().copied().fold(0.0, f64::max)
    }

    /// The fastest rank's time.
    pub fn fastest(&self) -> f64 {
        self.end.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Acquires and releases for reading, from the first to the last, all ranks at the same time.
///
/// # Errors
///
/// Errors of the lock and of the simulated world.
pub fn locks(profile: &Profile, ranks: u32, per_node: u32, pairs: u32, stop: &AtomicBool) -> Result<Times> {
    let world = World {
        ranks_per_node: Some(per_node),
        local_atomics: Some(LocalAtomics::Nic),
        engines: Some(1),
        ..World::new(ranks)
    };
    let simulator = Simulator::new(profile, &world)?;
    let body = move |ra: &rmalab_atomics::sim::Sim<'_>| -> rmalab_locks::Result<f64> {
        let any: &dyn RemoteAtomics = ra;
        let mut lock = Policy::new(any, PolicyKind::McsRwRp)?;
        for _ in 0..pairs {
            lock.lock_all(any)?;
            lock.unlock_all(any)?;
        }
        Ok(ra.time().as_nanoseconds())
    };
    let outcome = simulator.run_with(body, &mut |_| !stop.load(Ordering::Relaxed))?;
    let end = outcome.results.into_iter().collect::<Result<Vec<f64>, _>>();
    let end = end.map_err(|source| Error::Lock { lock: PolicyKind::McsRwRp.name().into(), source })?;
    let node = |rank: u32| simulator.topology().node_of(Rank(rank));
    let hops = (0..ranks).map(|rank| f64::from(simulator.network().hops(node(rank), node(0)))).collect();
    Ok(Times { end, hops })
}

/// The slowest rank's time of a fetch_add, when ranks of one node all add to one word, through `engines` engines.
///
/// # Errors
///
/// Errors of the simulated world.
pub fn fetch_adds(profile: &Profile, engines: u32, ranks: u32, times: u32) -> Result<f64> {
    let world = World {
        engines: Some(engines),
        local_atomics: Some(LocalAtomics::Nic),
        ranks_per_node: Some(ranks),
        ..World::new(ranks)
    };
    let outcome = Simulator::new(profile, &world)?.run(move |ra| -> rmalab_atomics::Result<f64> {
        for _ in 0..times {
            ra.fetch_add(Rank(0).at(Disp(0)), 1)?;
        }
        Ok(ra.time().as_nanoseconds() / f64::from(times))
    })?;
    let each = outcome.results.into_iter().collect::<Result<Vec<f64>, _>>()?;
    Ok(each.into_iter().fold(0.0, f64::max))
}

/// Spearman's rank correlation; equal values share the mean of their positions.
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (places(a), places(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum() };
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt().max(f64::MIN_POSITIVE)
}

fn places(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut places = vec![0.0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        for &at in equal {
            places[at] = from as f64 + (equal.len() as f64 + 1.0) / 2.0;
        }
        from += equal.len();
    }
    places
}

/// A sentence on the number of checks that hold.
fn verdict(checks: &[Check]) -> String {
    let all = checks.iter().filter(|check| check.apart.is_some()).count();
    let bad = checks.iter().filter(|check| !check.holds()).count();
    let share = (all - bad) as f64 * 100.0 / all.max(1) as f64;
    format!("{} of {all} figures are within their bounds ({} %).", all - bad, digits(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_of_ranks() {
        assert!((spearman(&[1.0, 2.0, 3.0], &[10.0, 100.0, 1000.0]) - 1.0).abs() < 1e-12);
        assert!((spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert_eq!(places(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
    }
}
