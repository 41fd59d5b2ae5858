//! The table at the end of a run of checks, as text and as Markdown.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::{Checked, Outcome, Verdict};
use rmalab_report::numbers::{digits, humane, si};

const COLUMNS: [&str; 13] = [
    "lock",
    "engine",
    "network",
    "scenario",
    "section",
    "order",
    "states",
    "transitions",
    "depth",
    "time",
    "states/s",
    "bytes/state",
    "verdict",
];

/// The columns of numbers.
const NUMBERS: std::ops::Range<usize> = 6..12;

/// What each check is about besides what its row says.
const CHECKED: &str = "\
Checked in each: mutual exclusion, no deadlock, no lost wake-up, no livelock, words zero at rest, no call that fails; with data
inside: whoever enters sees what was written before; with an order: nobody is overtaken against it.";

/// The states from which on memory grows with their number; below, it is that of an empty search.
const MANY: u64 = 500_000;

fn row(checked: &Checked) -> [String; 13] {
    let searched = checked.states > 0;
    let number = |value: String| if searched { value } else { "-".to_owned() };
    let lock = match checked.mutant {
        Some(mutant) => format!("{} ({mutant})", checked.lock),
        None => checked.lock.to_owned(),
    };
    [
        lock,
        checked.engine.name().to_owned(),
        checked.network.to_string(),
        checked.scenario.clone(),
        checked.section.to_owned(),
        checked.order.unwrap_or("-").to_owned(),
        if checked.executions > 0 {
            format!("{} executions", grouped(checked.executions))
        } else {
            number(grouped(checked.states))
        },
        number(grouped(checked.transitions)),
        number(checked.depth.to_string()),
        humane(checked.seconds * 1e9),
        number(si(checked.states_per_second())),
        if checked.states >= MANY { digits(checked.bytes_per_state()) } else { "-".to_owned() },
        checked.verdict.to_string(),
    ]
}

/// A number with its thousands told apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Outcome {
    /// A row for each check, and what has to be known besides.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(COLUMNS);
        for checked in &self.checks {
            table.add_row(row(checked));
        }
        for column in table.column_iter_mut().skip(NUMBERS.start).take(NUMBERS.len()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        write!(text, "\n{CHECKED}\n{}", self.notes()).expect("a string takes everything");
        text
    }

    /// What a reader of the verdicts must not miss, one thing a line; the last line is the sum.
    pub fn notes(&self) -> String {
        let mut text = String::new();
        for checked in &self.checks {
            for name in checked.never() {
                text += &format!("warning: {}: never happened: {name}\n", checked.title());
            }
            if checked.states > 0 && checked.verdict == Verdict::Holds && checked.livelocks == "not-searched" {
                text += &format!("warning: {}: livelocks were not searched for\n", checked.title());
            }
            if checked.missed > 0.0 {
                let title = checked.title();
                text += &format!("warning: {title}: a state was missed with a probability of {:.0e}\n", checked.missed);
            }
            if let Verdict::Failed { why } = &checked.verdict {
                text += &format!("error: {}: {why}\n", checked.title());
            }
        }
        let count = |of: fn(&Verdict) -> bool| self.checks.iter().filter(|checked| of(&checked.verdict)).count();
        let holds = count(|verdict| matches!(verdict, Verdict::Holds));
        text += &format!("{holds} of {} hold", of_checks(self.checks.len()));
        for (number, what) in [
            (count(|verdict| matches!(verdict, Verdict::HoldsWithin { .. })), "hold within a bound on preemptions"),
            (count(|verdict| *verdict == Verdict::HoldsWithinPolls), "hold within a bound on polls"),
            (count(|verdict| *verdict == Verdict::NothingFound), "had nothing found"),
            (count(|verdict| matches!(verdict, Verdict::Violated { .. })), "VIOLATED"),
            (count(|verdict| matches!(verdict, Verdict::Failed { .. })), "FAILED"),
        ] {
            if number > 0 {
                text += &format!(", {number} {what}");
            }
        }
        for (number, what) in [
            (self.checks.iter().map(|checked| checked.states).sum(), "states"),
            (self.checks.iter().map(|checked| checked.executions).sum(), "executions"),
        ] {
            if number > 0 {
                text += &format!("; {} {what}", grouped(number));
            }
        }
        text += &format!(" in {}\n", humane(self.seconds * 1e9));
        match count(|verdict| matches!(verdict, Verdict::Incomplete { .. })) {
            0 => (),
            1 => text += "1 search is incomplete: nothing is broken in what it visited\n",
            many => {
                text += &format!("{many} searches are incomplete: nothing is broken in what they visited\n");
            }
        }
        text
    }

    /// The same as a Markdown page, with the command, the commit and the machine by which it was made: of each lock and
    /// network the largest search first.
    pub fn markdown(&self) -> String {
        let machine = &self.machine;
        let mut text = format!(
            "# What was checked\n\nWritten by `{}` on {}, commit {}, {}, {} processors of {}, {} MiB, in {}. Not edited by hand.\n\n",
            self.command,
            self.started,
            machine.commit,
            machine.rustc,
            machine.cores,
            machine.cpu,
            machine.memory_mib,
            humane(self.seconds * 1e9),
        );
        text += &format!("{CHECKED}\n\n| {} |\n|", COLUMNS.join(" | "));
        for i in 0..COLUMNS.len() {
            text += if NUMBERS.contains(&i) { " ---: |" } else { " --- |" };
        }
        text.push('\n');
        let mut checks: Vec<&Checked> = self.checks.iter().collect();
        let first = |checked: &Checked| self.checks.iter().position(|other| other.lock == checked.lock);
        checks.sort_by_key(|checked| {
            let complete = matches!(checked.verdict, Verdict::Incomplete { .. });
            (first(checked), checked.engine.name(), checked.network, complete, std::cmp::Reverse(checked.states))
        });
        for checked in checks {
            text += &format!("| {} |\n", row(checked).join(" | "));
        }
        text += &format!("\n{}", self.notes().lines().map(|line| format!("{line}\n")).collect::<Vec<_>>().join("\n"));
        text
    }
}

fn of_checks(number: usize) -> String {
    if number == 1 { "1 check".to_owned() } else { format!("{number} checks") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (63_641_931, "63,641,931")] {
            assert_eq!(grouped(number), text);
        }
    }
}
