//! Scaling of all locks, from 4 to 1,000,000 ranks, as one document.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{Cell, Column, Table, Value};

use super::document::ranks;
use super::point::Point;
use super::{Load, Mix, Options, Progress, Simulation};
use crate::Registry;
use rmalab_job::Result;

/// The numbers of ranks: powers of four, the K computer's 663,552, and a million.
pub const RANKS: [u32; 11] = [4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 663_552, 1_000_000];

/// The numbers of ranks between which growth is reported.
const GROWTH: (u32, u32) = (4, 663_552);

/// Simulates all locks of `options` under lock_all alone. Returns nothing if it was stopped.
///
/// # Errors
///
/// Errors of [`Simulation`].
pub fn run(
    registry: &Registry,
    options: &Options,
    stop: &Arc<AtomicBool>,
    progress: impl FnMut(&Progress),
) -> Result<Option<Document>> {
    let mut options = options.clone();
    options.loads = vec![Load { mix: Mix::default(), ..Load::default() }];
    options.exclusive_ranks = 0;
    let all = Simulation::new(registry, options)?.stopped_by(stop).run(progress)?;
    if !all.run.complete {
        return Ok(None);
    }
    let simulated = all.document();
    let mut document = Document::new("scale", "How lock_all scales", all.run.clone(), all.host.clone());
    document.summary = simulated.summary;
    for (machine, load) in all.panels() {
        let points: Vec<&Point> = all.panel(machine, load).collect();
        let changed = if machine.changed.is_empty() { String::new() } else { format!(", with {}", machine.changed) };
        let mut section = Section::new("lock-all", format!("lock_all and unlock_all, every rank, on {}", machine.name))
            .paragraph(format!("{}{changed}. {}", machine.about, all.method()));
        section.text.extend(all.starved(&points));
        section.finding.plots.push(all.time(&points));
        section.finding.tables.push(all.times(&machine.name, &points));
        let of = ranks(&points);
        let from = GROWTH.0.max(of[0]);
        let to = *of.iter().rfind(|&&ranks| ranks <= GROWTH.1).unwrap_or(&of[0]);
        let columns = ["lock", "slowest rank", "mean rank"].map(Column::from);
        let mut growth = Table::new(format!("Growth of the time for a pair, from {from} to {to} ranks"), columns);
        for info in &all.subjects {
            let point = |ranks| points.iter().find(|point| point.key.lock == info.name && point.key.ranks == ranks);
            let factor = |value: fn(&Point) -> f64| match (point(from), point(to)) {
                (Some(from), Some(to)) if value(from) > 0.0 => Value::Ratio(value(to) / value(from)),
                _ => Value::None,
            };
            let factors = [factor(|point| point.slowest_ns), factor(|point| point.mean_ns)];
            growth.row(std::iter::once(Cell::from(info.name.as_str())).chain(factors.map(Cell::from)));
        }
        section.finding.tables.push(growth);
        document.sections.push(section);
    }
    document.sections.extend(simulated.sections.into_iter().filter(|section| section.id == "left-out"));
    document.data = simulated.data;
    Ok(Some(document))
}
