//! The table at the end of a study.

use comfy_table::{CellAlignment, Table, presets};

use crate::study::{Backend, Cell, Outcome};
use rmalab_report::numbers::{digits, humane, si};

/// The most important measurements as aligned text: a block for each backend and read fraction, a row for each lock,
/// the fastest at the largest number of ranks first.
pub fn table(outcome: &Outcome) -> String {
    let options = &outcome.options;
    let mut text = String::new();
    for &backend in &options.backends {
        for &fraction in &options.read_fractions {
            if let Some(block) = block(outcome, backend, fraction) {
                text.push_str(&block);
                text.push('\n');
            }
        }
    }
    text
}

fn block(outcome: &Outcome, backend: Backend, fraction: f64) -> Option<String> {
    let cells: Vec<&Cell> =
        outcome.cells.iter().filter(|cell| cell.key.backend == backend && cell.key.read_fraction == fraction).collect();
    let most = cells.iter().map(|cell| cell.key.ranks).max()?;
    let cell =
        |name: &str, ranks: u32| cells.iter().copied().find(|cell| cell.key.lock == name && cell.key.ranks == ranks);
    let mut names: Vec<&str> = outcome.subjects.iter().map(|info| info.name.as_str()).collect();
    names.retain(|name| cells.iter().any(|cell| cell.key.lock == *name));
    let throughput = |name: &str| cell(name, most).map_or(0.0, |cell| cell.values.throughput);
    names.sort_by(|a, b| throughput(b).total_cmp(&throughput(a)));
    let mixed = fraction > 0.0 && fraction < 1.0;

    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["lock".to_owned()];
    header.extend(
        outcome.options.ranks.iter().map(|&ranks| format!("{ranks} rank{}\n1/s", if ranks == 1 { "" } else { "s" })),
    );
    header.extend(["p50\nacquire", "p99\nacquire"].map(str::to_owned));
    if mixed {
        header.push("p99\nwriters".into());
    }
    header.extend(["Jain\nindex", "bypass\nmost", "operations\nper pair"].map(str::to_owned));
    let columns = header.len();
    table.set_header(header);
    let none = || "-".to_owned();
    for name in names {
        let mut row = vec![name.to_owned()];
        for &ranks in &outcome.options.ranks {
            row.push(cell(name, ranks).map_or(none(), |cell| si(cell.values.throughput)));
        }
        let last = cell(name, most).map(|cell| &cell.values);
        let side = last.and_then(|values| values.main_side());
        row.push(side.map_or(none(), |side| humane(side.acquire.p50 as f64)));
        row.push(side.map_or(none(), |side| humane(side.acquire.p99 as f64)));
        if mixed {
            let writers = last.and_then(|values| values.writers.as_ref());
            row.push(writers.map_or(none(), |side| humane(side.acquire.p99 as f64)));
        }
        row.push(last.map_or(none(), |values| format!("{:.3}", values.jain)));
        let sides = last.into_iter().flat_map(|values| [&values.readers, &values.writers]).flatten();
        row.push(sides.map(|side| side.bypass_max).max().map_or(none(), |most| most.to_string()));
        row.push(side.map_or(none(), |side| digits(side.operations())));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    debug_assert_eq!(columns, table.column_count());
    let load = match fraction {
        1.0 => "all acquisitions are lock_all".to_owned(),
        0.0 => "all acquisitions are exclusive locks".to_owned(),
        fraction => format!("{} % of acquisitions are lock_all, the others exclusive locks", digits(fraction * 100.0)),
    };
    let side = if fraction > 0.0 { "lock_all" } else { "exclusive locks" };
    let body: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    Some(format!(
        "{backend}: {load}\nthroughput of all ranks; at {most} ranks: time to acquire and operations of {side}, fairness\n\n{body}"
    ))
}
