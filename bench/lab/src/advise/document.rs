//! Advice as a document.

use std::fmt::Write as _;

use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{Cell, Column, Table, Value};
use rmalab_report::numbers::{digits, humane, si};
use rmalab_windows::Config;

use super::{ALIKE, Advice, Estimate, Measured, Objective, Row, Standing, name};

/// An interval of this share of its mean is wide.
const WIDE: f64 = 0.3;
/// From this number of seeds on, more of them narrow an interval only slowly.
const MANY_SEEDS: u32 = 5;

/// The least ratio to the first policy that is easier to read than a percentage.
const FACTOR: f64 = 10.0;

impl Advice {
    /// The document of the advice: the ranking, the limit of each policy, and the choice.
    pub fn document(&self) -> Document {
        let mut document = Document::new(
            "advise",
            "Which lock policy this window should have",
            self.run.clone(),
            self.machine.clone(),
        );
        let source = format!(
            "{}. Profile {}, {} seed{}, ranked by {}. Without any lock: {}/s.",
            self.source.trim_end_matches('.'),
            self.profile,
            self.seeds,
            if self.seeds == 1 { "" } else { "s" },
            name(self.objective),
            si(self.unlocked)
        );
        let mut section = Section::new("ranking", "Ranking").paragraph(source);
        section.text.extend(self.rest());
        if self.seeds == 1 {
            section.text.push("Note: one seed gives no interval; --seeds 5 gives one.".into());
        } else if let Some(widest) = self.widest().filter(|&half| half >= WIDE && self.seeds < MANY_SEEDS) {
            section.text.push(format!(
                "Note: {} seeds leave intervals of up to ± {:.0} %; --seeds {MANY_SEEDS} narrows them.",
                self.seeds,
                widest * 100.0
            ));
        }
        section.text.extend(self.remarks.iter().map(|remark| format!("Note: {remark}")));
        section.text.extend(self.left_out.iter().map(|left| {
            // Errors of locks begin with the lock's name.
            let why = left.why.strip_prefix(&format!("{}: ", left.candidate)).unwrap_or(&left.why);
            format!("Left out: {}: {why}", left.candidate)
        }));
        document.sections.push(section.table(self.ranking(|row| self.matters(row))));
        if self.rows.iter().any(|row| !self.matters(row)) {
            document.sections.push(Section::new("policies", "All policies").table(self.ranking(|_| true)).folded());
        }
        if let Some(chosen) = self.rows.iter().find(|row| row.candidate == self.choice) {
            document.summary.push(self.words(chosen));
            document.summary.extend(self.gap());
            let mut section = Section::new("choice", "How to choose it");
            section.listings.push(match (&self.window, self.is_mpi) {
                (None, true) => of_mpi(chosen),
                (None, false) => of_builder(chosen),
                // A variable is for all windows.
                (Some(window), true) => format!("window   {window}\ninfo     {}   (in the program)", chosen.info),
                (Some(window), false) => format!("window   {window}\n{}", of_builder(chosen)),
            });
            document.sections.push(section);
            document.summary.extend(self.measurement(chosen));
        }
        document.data = Some(self.data());
        document
    }

    /// Returns whether the ranking has the row. It has the first, the program's, the chosen and the best measured
    /// candidate, and the one that the choice's info string selects.
    fn matters(&self, row: &Row) -> bool {
        let is_selected = |chosen: &Row| row.is_default && !row.info.is_empty() && row.info == chosen.info;
        self.all
            || self.rows.iter().any(|chosen| chosen.candidate == self.choice && is_selected(chosen))
            || row.standing == Standing::Winner
            || row.candidate == self.choice
            || self.is_present(row)
            || self.verdict.as_ref().is_some_and(|verdict| verdict.best == row.candidate)
    }

    /// Returns whether it is the policy that the window has now.
    fn is_present(&self, row: &Row) -> bool {
        self.has_current && row.candidate == self.current
    }

    /// Returns whether the choice is the policy that the window has now.
    pub(super) fn keeps(&self) -> bool {
        self.has_current && self.choice == self.current
    }

    /// The widest interval of the rows that matter, as a share of its mean.
    fn widest(&self) -> Option<f64> {
        let shown = self.rows.iter().filter(|row| self.matters(row));
        shown.filter_map(|row| row.value(self.objective).relative()).reduce(f64::max)
    }

    /// The candidates in numbers, if the ranking lacks some.
    fn rest(&self) -> Option<String> {
        if self.rows.iter().all(|row| self.matters(row)) {
            return None;
        }
        let are = |count: usize| match count {
            0 => "none is".to_owned(),
            1 => "1 is".to_owned(),
            count => format!("{count} are"),
        };
        let as_good = self.rows.iter().filter(|row| row.standing == Standing::AsGood).count();
        let mut text =
            format!("The simulation tried {} candidates: {} as good as the first one", self.rows.len(), are(as_good));
        let worse = || self.rows.iter().filter(|row| matches!(row.standing, Standing::Worse(_)));
        if let (Some(least), Some(most)) = (worse().next(), worse().next_back()) {
            let span = span(least.standing, most.standing, self.objective);
            let _ = write!(text, ", {} clearly worse ({span})", are(worse().count()));
        }
        Some(text + ". --all prints a row for each.")
    }

    /// A note on the missing calls of a trace whose files end early.
    fn gap(&self) -> Option<String> {
        (self.cut > 0).then(|| {
            format!(
                "The trace is incomplete: {} of {} files end{} early. The advice covers only the calls that are left. Record \
                 the program again, and let it end normally.",
                self.cut,
                self.ranks,
                if self.cut == 1 { "s" } else { "" }
            )
        })
    }

    fn ranking(&self, shows: impl Fn(&Row) -> bool) -> Table {
        let measured = self.rows.iter().any(|row| row.measured.is_some());
        // The interval stands beside the objective.
        let after = |objective| (self.objective == objective).then(|| Column::neither("± 95 %"));
        let mut columns = vec![Column::from("policy"), Column::neither("place"), Column::from("acquisitions")];
        columns.extend(after(Objective::Throughput));
        columns.extend(["p50", "p99"].map(Column::from));
        columns.extend(after(Objective::P99));
        columns.push(Column::higher("Jain"));
        columns.extend(after(Objective::Fairness));
        columns.push("beside the first".into());
        if measured {
            columns.extend([Column::from("measured\nacquisitions"), Column::from("measured\np99")]);
        }
        columns.push("limited by".into());
        let mut table = Table::new("Policies", columns);
        for (number, row) in (1..).zip(&self.rows).filter(|(_, row)| shows(row)) {
            let present = match (self.is_present(row), self.is_recorded) {
                (true, true) => " (present)",
                (true, false) => " (default)",
                (false, _) => "",
            };
            let after = |objective| (self.objective == objective).then(|| interval(row.value(objective)).into());
            let mut cells = vec![
                Cell::from(format!("{}{present}", row.candidate)),
                Value::Count(number).into(),
                estimated(row.throughput, Value::Rate),
            ];
            cells.extend(after(Objective::Throughput));
            cells.push(estimated(row.p50, Value::Time));
            cells.push(estimated(row.p99, Value::Time));
            cells.extend(after(Objective::P99));
            cells.push(estimated(row.fairness, Value::Number));
            cells.extend(after(Objective::Fairness));
            cells.push(beside(row.standing, self.objective).into());
            if measured {
                let cell = |part: fn(&Measured) -> Value| Cell::from(row.measured.as_ref().map_or(Value::None, part));
                cells.push(cell(|measured| Value::Rate(measured.throughput)));
                cells.push(cell(|measured| Value::Time(measured.p99)));
            }
            cells.push(row.limit.to_string().into());
            table.row(cells);
        }
        table
    }

    /// The choice, and its certainty.
    fn words(&self, chosen: &Row) -> String {
        let verb = if self.keeps() { "Keep" } else { "Choose" };
        let is_tied = self.rows.iter().any(|row| row.standing == Standing::AsGood);
        let because = match self.rows.len() {
            1 => "no other policy was tried".to_owned(),
            _ if is_tied => format!(
                "no policy is better by more than the error (intervals overlap, or differences are below {:.0} %)",
                ALIKE * 100.0
            ),
            _ => "better than all others by more than the intervals".to_owned(),
        };
        format!("{verb} {}: {because}.", chosen.candidate)
    }

    /// The sentence on whether measurements confirm the choice.
    fn measurement(&self, chosen: &Row) -> Option<String> {
        let (verdict, measured) = (self.verdict.as_ref()?, chosen.measured.as_ref()?);
        let mut text = format!(
            "Measured on this machine, load {}: {} is best by {}; {} ({}/s, p99 {}) is {:.1} % worse: ",
            verdict.load,
            verdict.best,
            name(self.objective),
            chosen.candidate,
            si(measured.throughput),
            humane(measured.p99),
            verdict.worse_by * 100.0,
        );
        let _ = write!(
            text,
            "{}.",
            if verdict.right { "the choice is right (within 10 %)" } else { "the choice is wrong (by more than 10 %)" }
        );
        Some(text)
    }

    /// Every candidate, a row each.
    fn data(&self) -> Table {
        let mut columns: Vec<Column> =
            ["candidate", "standing", "throughput", "p50", "p99", "fairness"].map(Column::from).into();
        columns.extend(["operations own", "operations node", "operations remote"].map(Column::lower));
        columns.extend(
            ["limit", "measured throughput", "measured p50", "measured p99", "measured fairness"].map(Column::from),
        );
        columns.extend(["info", "builder"].map(Column::from));
        let mut table = Table::new("Candidates", columns);
        for row in &self.rows {
            let standing = match row.standing {
                Standing::Winner => "winner",
                Standing::AsGood => "as-good",
                Standing::Worse(_) => "worse",
            };
            let mut cells = vec![
                Cell::from(row.candidate),
                standing.into(),
                estimated(row.throughput, Value::Rate),
                estimated(row.p50, Value::Time),
                estimated(row.p99, Value::Time),
                estimated(row.fairness, Value::Number),
            ];
            cells.extend(row.operations.map(|count| Cell::from(Value::Number(count))));
            cells.push(row.limit.to_string().into());
            let measured: [fn(&Measured) -> Value; 4] = [
                |one| Value::Rate(one.throughput),
                |one| Value::Time(one.p50),
                |one| Value::Time(one.p99),
                |one| Value::Number(one.fairness),
            ];
            cells.extend(measured.map(|part| Cell::from(row.measured.as_ref().map_or(Value::None, part))));
            cells.extend([row.info.as_str(), row.builder.as_str()].map(Cell::from));
            table.row(cells);
        }
        table
    }
}

/// The sentence on how a program of this library chooses a candidate.
fn of_builder(chosen: &Row) -> String {
    let mut listing = format!("builder  {}\ninfo     ", chosen.builder);
    if chosen.info.is_empty() {
        listing += "none: use the builder for a lock from outside the library";
    } else {
        listing += &chosen.info;
        if !chosen.is_default {
            listing += "   (the policy with its defaults; only the builder sets parameters)";
        }
    }
    listing
}

/// The sentence on how the user of an MPI program chooses a candidate, which has its policy's defaults.
fn of_mpi(chosen: &Row) -> String {
    format!(
        "command   rmalab preload --policy {} -- mpirun ...\nvariable  {}={}\ninfo      {}   (of one window, in the program)",
        chosen.candidate,
        Config::LOCK_POLICY_VARIABLE,
        chosen.candidate,
        chosen.info
    )
}

/// A mean of the seeds, with its confidence interval as spread.
fn estimated(estimate: Estimate, value: fn(f64) -> Value) -> Cell {
    let cell = Cell::from(value(estimate.mean));
    match estimate.half {
        Some(half) => cell.between(estimate.mean - half, estimate.mean + half),
        None => cell,
    }
}

fn interval(estimate: &Estimate) -> String {
    estimate.relative().map_or("–".to_owned(), |half| format!("± {:.1} %", half * 100.0))
}

/// A policy's objective relative to the first policy's: latencies are longer, rates are lower.
fn beside(standing: Standing, objective: Objective) -> String {
    match (standing, objective) {
        (Standing::Winner, _) => "first".to_owned(),
        (Standing::AsGood, _) => "as good".to_owned(),
        (Standing::Worse(by), Objective::P99) if by < FACTOR - 1.0 => format!("+{:.0} %", by * 100.0),
        (Standing::Worse(by), Objective::P99) => format!("{} times", digits(1.0 + by)),
        (Standing::Worse(by), _) if by < 1.0 - 1.0 / FACTOR => format!("-{:.0} %", by * 100.0),
        (Standing::Worse(by), _) => format!("{} times lower", digits(1.0 / (1.0 - by))),
    }
}

/// Two such ratios, from the least to the greatest, in one notation.
fn span(least: Standing, most: Standing, objective: Objective) -> String {
    let [from, to] = [least, most].map(|standing| beside(standing, objective));
    match (least, most) {
        _ if from == to => from,
        (Standing::Worse(by), _) if from.ends_with('%') && !to.ends_with('%') => {
            let factor = if objective == Objective::P99 { 1.0 + by } else { 1.0 / (1.0 - by) };
            format!("{} to {to}", digits(factor))
        }
        _ if !from.ends_with('%') => format!("{} to {to}", from.split(' ').next().unwrap_or_default()),
        _ => format!("{from} to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_one_notation() {
        let span = |least, most, objective| span(Standing::Worse(least), Standing::Worse(most), objective);
        assert_eq!(span(0.17, 0.5, Objective::Throughput), "-17 % to -50 %");
        assert_eq!(span(0.2, 0.988, Objective::Throughput), "1.25 to 83.3 times lower");
        assert_eq!(span(0.38, 1036.0, Objective::P99), "1.38 to 1037 times");
        assert_eq!(span(20.0, 56.11, Objective::P99), "21.0 to 57.1 times");
    }

    #[test]
    fn large_differences_are_ratios() {
        let text = |by, objective| beside(Standing::Worse(by), objective);
        assert_eq!(text(0.85, Objective::Throughput), "-85 %");
        assert_eq!(text(0.998, Objective::Throughput), "500 times lower");
        assert_eq!(text(1.95, Objective::P99), "+195 %");
        assert_eq!(text(56.11, Objective::P99), "57.1 times");
    }
}
