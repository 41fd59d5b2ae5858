//! The verdict of a study in words: the fastest locks, their scaling, and next steps.

use rmalab_report::numbers::{counted, digits, humane, si};

use super::document::load;
use super::{Backend, Cell, Outcome};

/// Rates that differ by less than this share are level.
const LEVEL: f64 = 0.03;

/// The least ratio of writers' to readers' waiting time that the verdict mentions.
const STARVED: f64 = 100.0;

/// A lock scales if its rate is at least one rank's rate times this share of the processors in use.
const SCALES: f64 = 0.75;

/// The least number of processors kept busy by other programs that the verdict mentions.
const BUSY: f64 = 0.2;

/// The number of locks that the verdict names beside a leader.
const NAMES: usize = 4;

/// Returns a paragraph for each backend and load, and one on next steps.
pub(super) fn summary(outcome: &Outcome) -> Vec<String> {
    let mut text = Vec::new();
    let mut winners: Vec<&str> = Vec::new();
    let options = &outcome.options;
    for &backend in &options.backends {
        for &fraction in &options.read_fractions {
            let Some((paragraph, winner)) = verdict(outcome, backend, fraction) else { continue };
            text.push(paragraph);
            if !winners.contains(&winner) {
                winners.push(winner);
            }
        }
    }
    let mut violated: Vec<&str> = outcome.violated().map(|cell| cell.key.lock.as_str()).collect();
    violated.dedup();
    if !violated.is_empty() {
        let names = violated.join(", ");
        text.insert(
            0,
            format!(
                "VIOLATED: two ranks that exclude each other were inside {names} together. Its figures mean nothing."
            ),
        );
    }
    if !winners.is_empty() {
        text.push(next(outcome, &winners));
    }
    text
}

/// Returns the fastest lock under one load with the most ranks, and the next one.
fn verdict(outcome: &Outcome, backend: Backend, fraction: f64) -> Option<(String, &str)> {
    let excludes = |cell: &Cell| outcome.subjects.iter().any(|info| info.name == cell.key.lock && info.excludes);
    let cells: Vec<&Cell> = outcome
        .cells
        .iter()
        .filter(|cell| cell.key.backend == backend && cell.key.read_fraction == fraction)
        .filter(|cell| excludes(cell) && cell.values.violations == 0)
        .collect();
    let most = cells.iter().map(|cell| cell.key.ranks).max()?;
    let mut last: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.key.ranks == most).collect();
    last.sort_by(|a, b| b.values.throughput.total_cmp(&a.values.throughput));
    let first = *last.first()?;
    let name = &first.key.lock;
    let ranks = counted(most.into(), "rank");
    let mut text = format!("{backend}, {}, {ranks}: {}", load(&outcome.options, fraction), leader(&last));
    let alone = cells.iter().find(|cell| cell.key.lock == *name && cell.key.ranks == 1);
    if let Some(alone) = alone.filter(|_| most > 1) {
        let factor = first.values.throughput / alone.values.throughput.max(f64::MIN_POSITIVE);
        let processors = outcome.machine.cores;
        let shared = (most as usize).min(processors) as f64;
        text += &if factor >= SCALES * shared {
            format!(" It scales: {} times its rate alone, on {processors} processors.", digits(factor))
        } else {
            format!(
                " It does not scale: its rate is {} times the rate of one rank alone, on {processors} processors.",
                digits(factor)
            )
        };
    }
    let starved = last.iter().filter_map(|cell| {
        let (readers, writers) = (cell.values.readers.as_ref()?.acquire, cell.values.writers.as_ref()?.acquire);
        let factor = writers.p99 as f64 / readers.p99.max(1) as f64;
        (factor >= STARVED).then_some((factor, &cell.key.lock, writers.p99))
    });
    if let Some((factor, lock, p99)) = starved.max_by(|a, b| a.0.total_cmp(&b.0)) {
        text += &format!(
            " Writers of {lock} wait longest: a 99th percentile of {}, {} times its readers'.",
            humane(p99 as f64),
            digits(factor)
        );
    }
    Some((text, name))
}

/// Returns a sentence on the first of `cells`, which are in the order of their throughput, beside the others.
fn leader(cells: &[&Cell]) -> String {
    let (first, others) = (cells[0], &cells[1..]);
    let (name, rate) = (&first.key.lock, si(first.values.throughput));
    let Some(second) = others.first() else {
        return format!("{name} makes {rate}/s; no other lock was measured.");
    };
    let names_of = |belongs: &dyn Fn(&Cell) -> bool| -> Vec<&str> {
        others.iter().filter(|cell| belongs(cell)).map(|cell| cell.key.lock.as_str()).collect()
    };
    let overlap = names_of(&|cell| first.repetitions > 1 && cell.throughput_max >= first.throughput_min);
    if !overlap.is_empty() {
        return format!(
            "{name} leads with {rate}/s. But its {} repetitions range from {}/s to {}/s, and overlap those of {}: no clear winner.",
            first.repetitions,
            si(first.throughput_min),
            si(first.throughput_max),
            some(&overlap)
        );
    }
    let factor = |cell: &Cell| first.values.throughput / cell.values.throughput.max(f64::MIN_POSITIVE);
    let level = names_of(&|cell| factor(cell) < 1.0 + LEVEL);
    if !level.is_empty() {
        return format!(
            "{name} leads with {rate}/s, less than {} % ahead of {}: no clear winner.",
            100.0 * LEVEL,
            some(&level)
        );
    }
    let (next, slower) = (&second.key.lock, si(second.values.throughput));
    format!("{name} wins with {rate}/s, {} times {next}'s {slower}/s.", digits(factor(second)))
}

/// The first few of `names`, and the number of the others.
fn some(names: &[&str]) -> String {
    match names.split_at_checked(NAMES) {
        Some((first, others @ [_, ..])) => format!("{} and {} more", first.join(", "), others.len()),
        _ => names.join(", "),
    }
}

/// Returns a paragraph on next steps.
fn next(outcome: &Outcome, winners: &[&str]) -> String {
    let cores = outcome.machine.cores;
    // An interrupted study has not measured every lock.
    let most = outcome.cells.iter().map(|cell| cell.key.ranks).max().unwrap_or(0);
    let mut text = String::new();
    if most as usize > cores {
        text += &format!(
            "With {most} ranks on {cores} processors, the scheduler affects these results: a queue lock waits for a rank \
             that does not run. "
        );
    }
    if let Some(others) = outcome.others.filter(|&others| others >= BUSY) {
        text += &format!(
            "Other programs kept {} processors busy meanwhile: measure again on a quiet machine. ",
            digits(others)
        );
    }
    let names = winners.join(",");
    // A program with its own registry knows locks that `rmalab` does not know.
    let program = outcome.run.command.split(' ').next().unwrap_or("rmalab");
    text += &format!(
        "Next: `{program} verify --lock {names}` checks {}, `{program} simulate --lock {names} --ranks 4:4096:4` shows what a \
         network makes of {}.",
        if winners.len() == 1 { "this lock" } else { "these locks" },
        if winners.len() == 1 { "it" } else { "them" }
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::Values;
    use super::super::outcome::Key;
    use super::*;

    /// A lock, and the lowest, the median and the highest rate of three repetitions, in millions a second.
    fn cell(lock: &str, [low, median, high]: [f64; 3]) -> Cell {
        Cell {
            key: Key { backend: Backend::Local, ranks: 2, lock: lock.to_owned(), read_fraction: 1.0 },
            repetitions: 3,
            values: Values { throughput: median * 1e6, ..Values::of(&[]) },
            throughput_min: low * 1e6,
            throughput_max: high * 1e6,
        }
    }

    #[test]
    fn only_a_lead_beyond_the_spread_and_some_percent_wins() {
        let says = |second, third, part: &str| {
            let cells = [cell("a", [99.0, 100.0, 101.0]), cell("b", second), cell("c", third)];
            let text = leader(&cells.each_ref());
            assert!(text.contains(part), "{text}");
        };
        says([80.0, 90.0, 91.0], [1.0; 3], "a wins with 100 M/s, 1.11 times b's 90.0 M/s.");
        says([80.0, 90.0, 99.5], [1.0; 3], "overlap those of b: no clear winner.");
        says([98.0, 98.0, 98.5], [97.5; 3], "less than 3 % ahead of b, c: no clear winner.");
        says([98.0, 98.0, 98.5], [97.0; 3], "less than 3 % ahead of b: no clear winner.");
        assert!(leader(&[&cell("a", [1.0; 3])]).contains("no other lock"));
    }
}
