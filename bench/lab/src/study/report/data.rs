//! The measurements as data files: one JSON document, and CSV with one line a cell.

use std::io::Write;

use crate::study::{Cell, Outcome, Side};
use rmalab_report::statistics::Quantiles;

/// Writes everything as one JSON document.
///
/// # Errors
///
/// What the writer says.
pub fn json(outcome: &Outcome, mut to: impl Write) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut to, outcome)?;
    to.write_all(b"\n")
}

/// Writes one line for each cell, after one with the columns' names; times are in nanoseconds.
///
/// Values that do not exist, such as the latency of writers where nobody wrote, are empty.
///
/// # Errors
///
/// What the writer says.
pub fn csv(outcome: &Outcome, to: impl Write) -> std::io::Result<()> {
    let mut to = csv::Writer::from_writer(to);
    to.write_record(columns().map(|column| column.0))?;
    for cell in &outcome.cells {
        to.write_record(columns().map(|column| column.1(cell)))?;
    }
    to.flush()
}

/// A value of something, with the name that it has in the file.
type Named<T, V> = (&'static str, fn(&T) -> V);

/// Readers or writers of a cell.
type SideOf = fn(&Cell) -> Option<&Side>;

/// A column of the CSV file: its name, and its value of a cell.
type Column = (String, Box<dyn Fn(&Cell) -> String>);

fn columns() -> impl Iterator<Item = Column> {
    let cell: [Named<Cell, String>; 13] = [
        ("backend", |cell| cell.key.backend.to_string()),
        ("ranks", |cell| cell.key.ranks.to_string()),
        ("lock", |cell| cell.key.lock.clone()),
        ("read_fraction", |cell| cell.key.read_fraction.to_string()),
        ("repetitions", |cell| cell.repetitions.to_string()),
        ("throughput_per_s", |cell| cell.values.throughput.to_string()),
        ("throughput_min_per_s", |cell| cell.throughput_min.to_string()),
        ("throughput_max_per_s", |cell| cell.throughput_max.to_string()),
        ("rank_throughput_min_per_s", |cell| cell.values.rank_throughput_min.to_string()),
        ("rank_throughput_max_per_s", |cell| cell.values.rank_throughput_max.to_string()),
        ("jain_index", |cell| cell.values.jain.to_string()),
        ("handovers_same_node", |cell| (cell.values.handovers_own + cell.values.handovers_node).to_string()),
        ("handovers_other_node", |cell| cell.values.handovers_remote.to_string()),
    ];
    let cell = cell.into_iter().map(|(name, value)| (name.to_owned(), Box::new(value) as Box<dyn Fn(&Cell) -> String>));
    let sides: [(&str, SideOf); 2] =
        [("reader", |cell| cell.values.readers.as_ref()), ("writer", |cell| cell.values.writers.as_ref())];
    cell.chain(sides.into_iter().flat_map(|(name, side)| side_columns(name, side)))
}

fn side_columns(name: &'static str, side: SideOf) -> impl Iterator<Item = Column> {
    let steps: [Named<Side, Quantiles>; 3] =
        [("acquire", |side| side.acquire), ("release", |side| side.release), ("hold", |side| side.hold)];
    let quantiles: [Named<Quantiles, String>; 7] = [
        ("count", |quantiles| quantiles.count.to_string()),
        ("mean_ns", |quantiles| quantiles.mean.to_string()),
        ("p50_ns", |quantiles| quantiles.p50.to_string()),
        ("p90_ns", |quantiles| quantiles.p90.to_string()),
        ("p99_ns", |quantiles| quantiles.p99.to_string()),
        ("p99.9_ns", |quantiles| quantiles.p999.to_string()),
        ("max_ns", |quantiles| quantiles.max.to_string()),
    ];
    let times = steps.into_iter().flat_map(move |(step_name, step)| {
        quantiles.into_iter().map(move |(quantile, value)| {
            column(format!("{name}_{step_name}_{quantile}"), side, move |side| value(&step(side)))
        })
    });
    let rest: [Named<Side, String>; 5] = [
        ("bypass_max", |side| side.bypass_max.to_string()),
        ("bypass_mean", |side| side.bypass_mean.to_string()),
        ("operations_own", |side| side.operations_own.to_string()),
        ("operations_same_node", |side| side.operations_node.to_string()),
        ("operations_other_node", |side| side.operations_remote.to_string()),
    ];
    times.chain(rest.into_iter().map(move |(column_name, value)| column(format!("{name}_{column_name}"), side, value)))
}

fn column(name: String, side: SideOf, value: impl Fn(&Side) -> String + 'static) -> Column {
    (name, Box::new(move |cell| side(cell).map_or(String::new(), &value)))
}
