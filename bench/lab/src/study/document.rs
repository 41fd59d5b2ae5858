//! The document of a study.

use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{Axis, Bars, Cell, Column, Origin, Plot, Quantity, Range, Series, Table, Value};
use rmalab_report::numbers::{counted, humane_span, number};
use rmalab_report::statistics::Quantiles;

use super::{Backend, Options, Outcome, Side, Values, verdict};
use crate::study;
use crate::subject::Kind;

impl Outcome {
    /// The document of the study: a section for each backend, the subjects, the method, and every cell as data.
    pub fn document(&self) -> Document {
        let mut document = Document::new("study", "Locks over network atomics", self.run.clone(), self.machine.clone());
        document.summary = verdict::summary(self);
        for &backend in &self.options.backends {
            let of = Of { outcome: self, backend };
            if of.cells().next().is_some() {
                let section = of.section();
                document.sections.push(if document.sections.is_empty() { section.paragraph(COLUMNS) } else { section });
            }
        }
        document.sections.push(subjects(self));
        document.sections.push(method(self));
        document.data = Some(data(self));
        document
    }
}

/// The columns that their titles do not explain.
const COLUMNS: &str = "\
Jain's index: 1 when all ranks get the same number of acquisitions, one over the number of ranks when one gets all. Bypass: how \
often others enter while a rank waits. A pair is an acquisition and its release.";

/// The cells of one backend.
struct Of<'a> {
    outcome: &'a Outcome,
    backend: Backend,
}

impl<'a> Of<'a> {
    fn cells(&self) -> impl Iterator<Item = &'a study::Cell> {
        self.outcome.cells.iter().filter(|cell| cell.key.backend == self.backend)
    }

    fn cell(&self, lock: &str, ranks: u32, fraction: f64) -> Option<&'a study::Cell> {
        self.cells().find(|cell| cell.key.lock == lock && cell.key.ranks == ranks && cell.key.read_fraction == fraction)
    }

    /// The read fractions that have cells.
    fn fractions(&self) -> Vec<f64> {
        let fractions = self.outcome.options.read_fractions.iter().copied();
        fractions.filter(|&fraction| self.cells().any(|cell| cell.key.read_fraction == fraction)).collect()
    }

    /// The largest number of ranks that has cells.
    fn most_ranks(&self) -> u32 {
        self.cells().map(|cell| cell.key.ranks).max().unwrap_or(0)
    }

    fn section(&self) -> Section {
        let title = format!("Backend {}", self.backend);
        let mut section = Section::new(self.backend.name(), title).paragraph(sentence(self.backend.description()));
        for fraction in self.fractions() {
            section.finding.tables.push(self.table(fraction));
        }
        for fraction in self.fractions() {
            section.finding.plots.extend(self.plots(fraction));
        }
        for fraction in self.fractions() {
            section.bars.extend(self.sides(fraction));
            section.bars.extend(self.operations(fraction));
        }
        section
    }

    /// A row for each lock, the fastest at the largest number of ranks first.
    fn table(&self, fraction: f64) -> Table {
        let most = self.most_ranks();
        let mixed = fraction > 0.0 && fraction < 1.0;
        let side = if fraction > 0.0 { self.outcome.options.readers() } else { "exclusive locks" };
        let title = format!(
            "{}: {}. Throughput of all ranks; time to acquire, fairness and operations of {side} at {}{}",
            self.backend,
            load(&self.outcome.options, fraction),
            counted(most.into(), "rank"),
            self.reservations(fraction)
        );
        let mut columns = vec![Column::from("lock")];
        let ranks = &self.outcome.options.ranks;
        columns.extend(ranks.iter().map(|&ranks| Column::from(counted(ranks.into(), "rank"))));
        columns.extend(["p50\nacquire", "p99\nacquire"].map(Column::from));
        if mixed {
            columns.push("p99\nwriters".into());
        }
        columns.extend([
            Column::higher("Jain\nindex"),
            Column::lower("bypass\nmost"),
            Column::lower("operations\nper pair"),
        ]);
        let mut table = Table::new(title, columns);
        let mut names: Vec<&str> = self.outcome.subjects.iter().map(|info| info.name.as_str()).collect();
        names.retain(|name| ranks.iter().any(|&ranks| self.cell(name, ranks, fraction).is_some()));
        let rate = |name: &str| self.cell(name, most, fraction).map_or(0.0, |cell| cell.values.throughput);
        names.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        for name in names {
            let violated = self.cells().any(|cell| cell.key.lock == name && cell.values.violations > 0);
            let mut row = vec![Cell::from(if violated { format!("{name} VIOLATED") } else { name.to_owned() })];
            row.extend(ranks.iter().map(|&ranks| self.cell(name, ranks, fraction).map_or(none(), throughput)));
            let last = self.cell(name, most, fraction).map(|cell| &cell.values);
            let side = last.and_then(Values::main_side);
            row.push(side.map_or(none(), |side| time(side.acquire.p50)));
            row.push(side.map_or(none(), |side| time(side.acquire.p99)));
            if mixed {
                let writers = last.and_then(|values| values.writers.as_ref());
                row.push(writers.map_or(none(), |side| time(side.acquire.p99)));
            }
            row.push(last.map_or(none(), |values| Value::Number(values.jain).into()));
            let sides = last.into_iter().flat_map(|values| [&values.readers, &values.writers]).flatten();
            row.push(sides.map(|side| side.bypass_max).max().map_or(none(), |most| Value::Count(most).into()));
            row.push(side.map_or(none(), |side| Value::Number(side.operations()).into()));
            table.row(row);
        }
        table
    }

    /// Notes for readers of the table on locks that are unlike the others.
    fn reservations(&self, fraction: f64) -> String {
        let subjects = &self.outcome.subjects;
        let mut text = String::new();
        for info in subjects.iter().filter(|info| !info.excludes) {
            text += &format!(". {} excludes no rank: it is a bound, not a lock", info.name);
        }
        if fraction > 0.0 && subjects.iter().any(|info| info.kind == Kind::Mutex) {
            text += &format!(". A mutex treats {} as exclusive", self.outcome.options.readers());
        }
        text
    }

    fn plots(&self, fraction: f64) -> [Plot; 4] {
        // Under other loads the title names the only kind.
        let mixed = fraction > 0.0 && fraction < 1.0;
        let whose = if mixed { format!(", {}", self.outcome.options.readers()) } else { String::new() };
        let (clock, cores) = (self.outcome.machine.clock_ns, self.outcome.machine.cores);
        let quantile = |of: fn(Quantiles) -> u64| {
            move |cell: &study::Cell| {
                let acquire = cell.values.main_side()?.acquire;
                (acquire.count > 0).then_some((of(acquire) as f64, None))
            }
        };
        [
            self.plot(
                fraction,
                "throughput",
                "Throughput",
                ("acquisitions per second, all ranks", Quantity::Rate),
                format!(
                    "Acquisitions and releases per second of all ranks together. A line that rises with the ranks \
                     scales. A level line means a lock that serves one request at a time. Beyond {cores} ranks there \
                     are more ranks than processors here: a lock that hands over to a rank without a processor waits \
                     for the scheduler.{}",
                    self.bound()
                ),
                |cell| Some((cell.values.throughput, Some((cell.throughput_min, cell.throughput_max)))),
            ),
            self.plot(
                fraction,
                "median",
                &format!("Median time to acquire{whose}"),
                ("time to acquire", Quantity::Time),
                format!(
                    "Half of the acquisitions wait no longer than this from request to grant. It includes one reading \
                     of the clock, {clock:.0} ns on this machine."
                ),
                quantile(|times| times.p50),
            ),
            self.plot(
                fraction,
                "p99",
                &format!("99th percentile of the time to acquire{whose}"),
                ("time to acquire", Quantity::Time),
                "99 in 100 acquisitions wait no longer than this. Where the median is low and this is not, a few ranks \
                 wait long. A step of milliseconds comes from the scheduler's time slices, not from the lock."
                    .into(),
                quantile(|times| times.p99),
            ),
            self.plot(
                fraction,
                "fairness",
                "Fairness",
                ("Jain's index", Quantity::Share),
                "Jain's index of the ranks' shares of all acquisitions: 1 when all ranks get the same, one over the \
                 number of ranks when one of them gets everything."
                    .into(),
                |cell| Some((cell.values.jain, None)),
            ),
        ]
    }

    /// One line for each subject, one point for each number of ranks.
    fn plot(
        &self,
        fraction: f64,
        name: &str,
        title: &str,
        (label, quantity): (&str, Quantity),
        text: String,
        value: impl Fn(&study::Cell) -> Option<(f64, Option<Range>)>,
    ) -> Plot {
        let series = self.outcome.subjects.iter().filter_map(|info| {
            let mut ranks = self.outcome.options.ranks.clone();
            ranks.sort_unstable();
            let points: Vec<(f64, f64, Option<Range>)> = ranks
                .into_iter()
                .filter_map(|ranks| {
                    let (y, spread) = value(self.cell(&info.name, ranks, fraction)?)?;
                    Some((f64::from(ranks), y, spread))
                })
                .collect();
            let spread: Option<Vec<Range>> = points.iter().map(|point| point.2).collect();
            (!points.is_empty()).then(|| Series {
                name: info.name.clone(),
                origin: if info.excludes { Origin::Measured } else { Origin::Bound },
                style: info.place,
                points: points.iter().map(|point| (point.0, point.1)).collect(),
                spread: spread.unwrap_or_default(),
                group: info.kind.plural().into(),
            })
        });
        Plot {
            name: format!("{name}-{}", id(fraction)),
            title: format!("{title}; {}", load(&self.outcome.options, fraction)),
            x: Axis::new("ranks", Quantity::Count),
            y: Axis::new(label, quantity),
            series: series.collect(),
            text,
        }
    }

    /// Waiting times of readers and writers under the same load.
    fn sides(&self, fraction: f64) -> Option<Bars> {
        if fraction == 0.0 || fraction == 1.0 {
            return None;
        }
        let most = self.most_ranks();
        let range = |side: &Option<Side>| {
            let acquire = side.as_ref()?.acquire;
            (acquire.count > 0).then_some((acquire.p50 as f64, acquire.p99 as f64))
        };
        let rows = self.rows(fraction, most, |cell| vec![range(&cell.values.readers), range(&cell.values.writers)]);
        Some(Bars {
            name: format!("readers-writers-{}", id(fraction)),
            title: format!(
                "Readers against writers; {}; {}",
                load(&self.outcome.options, fraction),
                counted(most.into(), "rank")
            ),
            axis: Axis::new("time to acquire, from median to 99th percentile", Quantity::Time),
            parts: vec![format!("readers ({})", self.outcome.options.readers()), "writers (exclusive)".into()],
            stacked: false,
            rows,
            text: "Waiting times of readers and writers under the same load, from the median to the 99th percentile; \
                   left is better. A lock that prefers one side shows a distance between the two colours. A lock with \
                   writers that can starve has a bar that reaches far to the right. Mutexes have no readers, so both \
                   bars should coincide."
                .into(),
        })
    }

    /// Operations of a pair by their distance.
    fn operations(&self, fraction: f64) -> Vec<Bars> {
        let most = self.most_ranks();
        let parts = |side: &Side| {
            let ends = [side.operations_own, side.operations_node, side.operations_remote];
            let mut from = 0.0;
            ends.map(|part| {
                from += part;
                (part > 0.0).then_some((from - part, from))
            })
            .to_vec()
        };
        let over_table = self.outcome.options.table.is_some();
        let readers = if over_table { "shared lock + unlock" } else { "lock_all + unlock_all" };
        let pairs = [(readers, "readers", true), ("exclusive lock + unlock", "writers", false)];
        let bars = pairs.map(|(pair, name, readers)| Bars {
            name: format!("operations-{name}-{}", id(fraction)),
            title: format!(
                "Operations of {pair}; {}; {}",
                load(&self.outcome.options, fraction),
                counted(most.into(), "rank")
            ),
            axis: Axis::new("operations per pair (mean)", Quantity::Number),
            parts: ["on the rank itself", "in the same node", "in another node"].map(Into::into).into(),
            stacked: true,
            rows: self
                .rows(fraction, most, |cell| {
                    let Values { readers: reading, writers: writing, .. } = &cell.values;
                    if readers { reading } else { writing }.as_ref().map(parts)
                })
                .into_iter()
                .filter_map(|(name, parts)| Some((name, parts?)))
                .collect(),
            text: "Word operations of a rank for one acquire and its release, by the distance of their \
                   target. On a network these determine the cost: an operation in another node takes microseconds. \
                   Polling shows as a number that grows with the contention. A separate pass counts them."
                .into(),
        });
        bars.into_iter().filter(|bars| !bars.rows.is_empty()).collect()
    }

    /// One row for each subject, at one number of ranks.
    fn rows<T>(&self, fraction: f64, ranks: u32, value: impl Fn(&study::Cell) -> T) -> Vec<(String, T)> {
        let subjects = self.outcome.subjects.iter();
        subjects.filter_map(|info| Some((info.name.clone(), value(self.cell(&info.name, ranks, fraction)?)))).collect()
    }

    /// A sentence on the dashed line, if there is one.
    fn bound(&self) -> String {
        let subjects = self.outcome.subjects.iter().filter(|info| !info.excludes);
        let bounds: Vec<&str> = subjects.map(|info| info.name.as_str()).collect();
        if bounds.is_empty() {
            String::new()
        } else {
            format!(" The dashed line ({}) excludes nothing: it shows the rate without locks.", bounds.join(", "))
        }
    }
}

fn none() -> Cell {
    Value::None.into()
}

fn time(nanoseconds: u64) -> Cell {
    Value::Time(nanoseconds as f64).into()
}

/// The throughput of a cell, with its spread if the cell was measured several times.
fn throughput(cell: &study::Cell) -> Cell {
    let rate = Cell::from(Value::Rate(cell.values.throughput));
    if cell.repetitions > 1 { rate.between(cell.throughput_min, cell.throughput_max) } else { rate }
}

/// A read fraction in words.
pub(super) fn load(options: &Options, share: f64) -> String {
    let readers = options.readers();
    match share {
        1.0 => format!("{readers} only"),
        0.0 => "exclusive locks only".into(),
        share => format!("{} % {readers}", number(share * 100.0)),
    }
}

/// A read fraction as a part of a name.
fn id(fraction: f64) -> String {
    number(fraction * 100.0).replace('.', "-")
}

/// Words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

fn subjects(outcome: &Outcome) -> Section {
    let mut table = Table::new("Subjects", ["name", "what it is", "fairness", "paper"]);
    for info in &outcome.subjects {
        table.row([&info.name, &info.description, &info.fairness, &info.paper].map(|text| Cell::from(text.as_str())));
    }
    Section::new("subjects", "Locks and policies").table(table).folded()
}

fn method(outcome: &Outcome) -> Section {
    let options = &outcome.options;
    let cell = humane_span(std::time::Duration::from_nanos(outcome.cell_ns));
    let times = if options.repetitions == 1 { "once".into() } else { format!("{} times", options.repetitions) };
    let target = match options.target {
        super::Target::Home => format!("rank {}, the home of the global locks", options.home),
        super::Target::Random => "a random rank".into(),
    };
    let bound = if options.bind {
        "Each rank is bound to one processor, in turn."
    } else {
        "The scheduler places the ranks on processors."
    };
    let over = match options.table() {
        Ok(Some(table)) => format!(
            "Each acquisition draws a lock of a table of {table}. A mutex takes part with readers that exclude one another. Locks are called \
             through a table of functions, and a rank looks up its handle of each, which takes some tens of nanoseconds of a pair."
        ),
        _ => format!(
            "A mutex takes part with readers that exclude one another. A lock that is not a policy of its own stands \
             for the policy global: one lock for all targets. Exclusive locks name {target}."
        ),
    };
    Section::new("method", "Method")
        .paragraph(format!(
            "A cell is one lock under one load with one number of ranks. It was measured {times} for {cell}, in three \
             passes that all ranks start together after a warm-up. The first pass counts acquisitions, and reads the \
             clock once in 16 of them: it gives throughput and fairness. The second reads the clock after each \
             acquire and each release: it gives latencies, which histograms keep to 1 %. The third counts remote \
             operations, and keeps a ledger of grants at the target: it gives operations per pair, bypasses (grants \
             to others between a request and its grant) and handovers inside and across nodes. The ledger slows the \
             ranks, so no time is taken in this pass."
        ))
        .paragraph(format!(
            "{over} {bound} Results are medians over the repetitions, with the lowest and the highest as spread; the longest times and bypasses \
             are the longest of all."
        ))
        .folded()
}

/// Readers or writers of a cell.
type SideOf = fn(&Values) -> Option<&Side>;

/// Every measurement, a row for each cell.
fn data(outcome: &Outcome) -> Table {
    let sides: [(&str, SideOf); 2] =
        [("reader", |values| values.readers.as_ref()), ("writer", |values| values.writers.as_ref())];
    let mut columns: Vec<Column> =
        ["backend", "ranks", "lock", "read fraction", "repetitions", "throughput"].map(Column::from).into();
    columns.extend(
        ["slowest rank", "fastest rank", "Jain index", "violations", "handovers same node", "handovers other node"]
            .map(Column::from),
    );
    for (name, _) in sides {
        for step in ["acquire", "release", "hold"] {
            let quantiles = ["count", "mean", "p50", "p90", "p99", "p99.9", "max"];
            columns.extend(quantiles.map(|quantile| Column::from(format!("{name} {step} {quantile}"))));
        }
        let rest = ["bypass max", "bypass mean", "operations own", "operations same node", "operations other node"];
        columns.extend(rest.map(|rest| Column::from(format!("{name} {rest}"))));
    }
    let mut table = Table::new("Cells", columns).keyed(4);
    for cell in &outcome.cells {
        let values = &cell.values;
        let mut row = vec![
            Cell::from(cell.key.backend.name()),
            Value::Count(cell.key.ranks.into()).into(),
            cell.key.lock.as_str().into(),
            Value::Number(cell.key.read_fraction).into(),
            Value::Count(cell.repetitions.into()).into(),
            throughput(cell),
            Value::Rate(values.rank_throughput_min).into(),
            Value::Rate(values.rank_throughput_max).into(),
            Value::Number(values.jain).into(),
            Value::Count(values.violations).into(),
            Value::Count(values.handovers_own + values.handovers_node).into(),
            Value::Count(values.handovers_remote).into(),
        ];
        for (_, side) in sides {
            let width = row.len() + 3 * 7 + 5;
            if let Some(side) = side(values) {
                for times in [side.acquire, side.release, side.hold] {
                    row.push(Value::Count(times.count).into());
                    row.push(Value::Time(times.mean).into());
                    row.extend([times.p50, times.p90, times.p99, times.p999, times.max].map(time));
                }
                row.push(Value::Count(side.bypass_max).into());
                let means = [side.bypass_mean, side.operations_own, side.operations_node, side.operations_remote];
                row.extend(means.map(|mean| Cell::from(Value::Number(mean))));
            }
            row.resize(width, none());
        }
        table.row(row);
    }
    table
}
