//! The document of a comparison.

use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{Axis, Bars, Cell, Column, Quantity, Table, Value};

use super::{Outcome, What};

impl Outcome {
    /// The document: goals, ratios, times, versions and notes, and every measurement as data.
    pub fn document(&self) -> Document {
        let mut document = Document::new("compare", "rmalab beside others", self.run.clone(), self.machine.clone());
        let summary = &self.summary;
        document.summary = summary
            .goals
            .iter()
            .map(|goal| format!("{}: {}. {}.", if goal.holds { "Met" } else { "Not met" }, goal.expected, goal.here))
            .collect();
        let mut section = Section::new("figures", "Figures").paragraph(format!(
            "The same measurements through every implementation, in one interleaved run: medians of {} repetitions. \
             Windows are allocated ones; ranks are processes, bound to cores in turn. A ratio is the time of the best \
             of the others, divided by ours: above 1 ours is faster.",
            self.repetitions
        ));
        section.finding.claims.clone_from(&summary.goals);
        section.finding.tables.clone_from(&summary.tables);
        section.finding.plots.clone_from(&summary.plots);
        if !summary.bars.is_empty() {
            section.bars.push(Bars {
                name: "ratios".into(),
                title: "Two ranks: how many times faster".into(),
                axis: Axis::new("time of the best of the others, divided by ours", Quantity::Ratio),
                parts: vec!["faster here".into(), "slower here".into()],
                stacked: true,
                rows: summary.bars.iter().map(|(title, ratio)| (title.clone(), bar(*ratio))).collect(),
                text: "Each bar is one operation, and begins at 1: bars to the right are operations that are faster \
                       here, bars to the left those that are slower."
                    .into(),
            });
        }
        document.sections.push(section);
        let mut notes = Section::new("notes", "Versions and notes");
        notes.text.clone_from(&summary.notes);
        document.sections.push(notes);
        document.data = Some(self.data());
        document
    }

    /// Every measurement, a line each.
    fn data(&self) -> Table {
        let columns = ["what", "ranks or threads", "writers of 100", "implementation", "repetition"].map(Column::from);
        let columns = columns.into_iter().chain(["time", "failure"].map(Column::from));
        let mut table = Table::new("Measurements", columns).keyed(5);
        for cell in &self.cells {
            let (what, ranks, writers) = match &cell.what {
                What::Operation { name, ranks } => (name.as_str(), *ranks, Value::None),
                What::Lock { threads, writers } => ("lock", *threads, Value::Count((*writers).into())),
            };
            let mut row = |repetition: Value, time: Value, failure: Value| {
                let key =
                    [Value::from(what), Value::Count(ranks.into()), writers.clone(), Value::from(cell.who.as_str())];
                table.row(key.into_iter().chain([repetition, time, failure]).map(Cell::from));
            };
            for (repetition, ns) in (1..).zip(&cell.ns) {
                row(Value::Count(repetition), Value::Time(*ns), Value::None);
            }
            for how in &cell.failures {
                row(Value::None, Value::None, Value::from(how.as_str()));
            }
        }
        table
    }
}

/// A bar from 1 to the ratio, in the part for the faster one.
fn bar(ratio: f64) -> Vec<Option<(f64, f64)>> {
    if ratio >= 1.0 { vec![Some((1.0, ratio)), None] } else { vec![None, Some((1.0, ratio))] }
}
