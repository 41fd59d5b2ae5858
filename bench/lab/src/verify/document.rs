//! The document of checks.

use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{Cell, Column, Table, Value};
use rmalab_report::numbers::{grouped, humane};
use rmalab_verify::Network;

use super::{Checked, Engine, Outcome, Verdict};

/// From this number of states on, memory grows with the number. Below, an empty search takes as much.
const MANY: u64 = 500_000;

fn row(checked: &Checked) -> [Cell; 14] {
    let searched = checked.states > 0;
    let number = |value: Value| if searched { value } else { Value::None };
    let lock = match checked.mutant {
        Some(mutant) => format!("{} ({mutant})", checked.lock),
        None => checked.lock.to_owned(),
    };
    [
        Value::Text(lock),
        checked.engine.name().into(),
        checked.network.to_string().into(),
        checked.scenario.clone().into(),
        checked.section.into(),
        checked.order.map_or(Value::None, Value::from),
        checked.verdict.to_string().into(),
        if checked.executions > 0 {
            Value::Text(format!("{} executions", grouped(checked.executions)))
        } else {
            number(Value::Count(checked.states))
        },
        number(Value::Count(checked.transitions)),
        number(Value::Count(checked.depth.into())),
        Value::Time(checked.seconds * 1e9),
        number(Value::Rate(checked.states_per_second())),
        if checked.states >= MANY { Value::Number(checked.bytes_per_state()) } else { Value::None },
        checked.bypass.as_deref().map_or(Value::None, Value::from),
    ]
    .map(Cell::from)
}

impl Outcome {
    /// The document of the checks: a row for each, and notes for a reader of the verdicts.
    pub fn document(&self) -> Document {
        let mut document = Document::new("verify", "What was checked", self.run.clone(), self.machine.clone());
        document.summary = self.notes().lines().map(str::to_owned).collect();
        let columns = ["lock", "engine", "network", "scenario", "section", "order", "verdict"].map(Column::from);
        let counts = ["states", "transitions", "depth"].map(Column::neither);
        let costs =
            [Column::neither("time"), "states per second".into(), Column::lower("bytes/state"), "bypass".into()];
        let mut table = Table::new("Checks", columns.into_iter().chain(counts).chain(costs)).keyed(6);
        for checked in &self.checks {
            table.row(row(checked));
        }
        document.sections.push(Section::new("checks", "Checks").table(table).paragraph(self.legend()));
        document.data = Some(self.data());
        document
    }

    /// A note on the properties of every check, and on the columns that their titles do not explain.
    fn legend(&self) -> String {
        let any = |holds: &dyn Fn(&Checked) -> bool| self.checks.iter().any(holds);
        let parts = [
            (
                true,
                "Each check looks for two ranks inside, a deadlock, a lost wake-up, a livelock, words that do not rest as the lock says, a failing \
                 call, and a call outside of the lock's memory.",
            ),
            (any(&|checked| checked.section == "data"), "Section data: an entering rank sees all earlier writes."),
            (
                any(&|checked| checked.order.is_some()),
                "Order: no rank is overtaken against the order that the lock claims.",
            ),
            (any(&|checked| checked.scenario.contains("try")), "With try: a free lock is taken."),
            (any(&|checked| checked.scenario.contains("timed")), "With timed: no rank gives up ahead of its deadline."),
            (
                true,
                "Depth: the steps to the farthest state. Bypass: how often others enter while a rank waits, at most. Checks may run \
                 side by side (--jobs), which lengthens their times.",
            ),
        ];
        let shown: Vec<&str> = parts.iter().filter(|(is_shown, _)| *is_shown).map(|&(_, text)| text).collect();
        shown.join(" ")
    }

    /// The same document, with the largest search of each lock and network first.
    pub fn by_size(&self) -> Document {
        let mut sorted = self.clone();
        let first = |checked: &Checked| self.checks.iter().position(|other| other.lock == checked.lock);
        sorted.checks.sort_by_key(|checked| {
            let incomplete = matches!(checked.verdict, Verdict::Incomplete { .. });
            (first(checked), checked.engine.name(), checked.network, incomplete, std::cmp::Reverse(checked.states))
        });
        sorted.document()
    }

    /// Every check with all its data.
    fn data(&self) -> Table {
        let text = ["lock", "mutant", "engine", "network", "scenario", "section", "order"].map(Column::from);
        let numbers = ["home", "states", "transitions", "executions", "behaviours", "depth", "time", "bytes", "missed"];
        let rest = ["livelocks", "bypass", "verdict", "never happened"].map(Column::from);
        let columns = text.into_iter().chain(numbers.map(Column::neither)).chain(rest);
        let mut table = Table::new("All checks", columns).keyed(7);
        for checked in &self.checks {
            let optional = |text: Option<&str>| text.map_or(Value::None, Value::from);
            table.row([
                Value::from(checked.lock),
                optional(checked.mutant),
                checked.engine.name().into(),
                checked.network.to_string().into(),
                checked.scenario.clone().into(),
                checked.section.into(),
                optional(checked.order),
                Value::Count(checked.home.into()),
                Value::Count(checked.states),
                Value::Count(checked.transitions),
                Value::Count(checked.executions),
                Value::Count(checked.behaviours),
                Value::Count(checked.depth.into()),
                Value::Time(checked.seconds * 1e9),
                Value::Bytes(checked.bytes),
                Value::Number(checked.missed),
                checked.livelocks.into(),
                optional(checked.bypass.as_deref()),
                checked.verdict.to_string().into(),
                checked.never().join(", ").into(),
            ]);
        }
        table
    }

    /// Names the options that search further, if locks hold in the weakest search only.
    fn left_out(&self) -> String {
        let mut explored = self.checks.iter().filter(|checked| checked.engine == Engine::Explorer).peekable();
        let holds = |checked: &&Checked| checked.verdict == Verdict::Holds;
        let weakest = |checked: &Checked| checked.network == Network::Sc && checked.section == "empty";
        if explored.peek().is_none() || !explored.clone().any(|checked| holds(&checked)) || !explored.all(weakest) {
            return String::new();
        }
        "note: only the network sc was searched, with nothing done inside: --network sc,late-puts also delays posted \
         puts, and --section data checks that a rank inside sees all earlier writes\n"
            .to_owned()
    }

    /// Notes that a reader of the verdicts must not miss, one on each line; the last line is the sum.
    pub fn notes(&self) -> String {
        let mut text = String::new();
        for checked in &self.checks {
            for name in checked.never() {
                text += &format!("warning: {}: never happened: {name}\n", checked.title());
            }
            for what in &checked.unexplored {
                text += &format!("warning: {}: not explored: {what}\n", checked.title());
            }
            if checked.states > 0 && checked.verdict == Verdict::Holds && checked.livelocks == "not-searched" {
                text += &format!("warning: {}: there was no search for livelocks\n", checked.title());
            }
            if checked.missed > 0.0 {
                let title = checked.title();
                text += &format!("warning: {title}: a state was missed with a probability of {:.0e}\n", checked.missed);
            }
            if let Verdict::Failed { why } = &checked.verdict {
                text += &format!("error: {}: {why}\n", checked.title());
            }
        }
        text += &self.left_out();
        let count = |of: fn(&Verdict) -> bool| self.checks.iter().filter(|checked| of(&checked.verdict)).count();
        let holds = count(|verdict| matches!(verdict, Verdict::Holds));
        let verb = if self.checks.len() == 1 { "holds" } else { "hold" };
        text += &format!("{holds} of {} {verb}", of_checks(self.checks.len()));
        for (number, what) in [
            (count(|verdict| matches!(verdict, Verdict::HoldsWithin { .. })), "hold within a bound on preemptions"),
            (count(|verdict| *verdict == Verdict::HoldsWithinPolls), "hold within a bound on polls"),
            (count(|verdict| *verdict == Verdict::NothingFound), "have no finding"),
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
            1 => text += "1 search is incomplete: no property is broken in the states that it visited\n",
            many => {
                text +=
                    &format!("{many} searches are incomplete: no property is broken in the states that they visited\n");
            }
        }
        text
    }
}

fn of_checks(number: usize) -> String {
    if number == 1 { "1 check".to_owned() } else { format!("{number} checks") }
}
