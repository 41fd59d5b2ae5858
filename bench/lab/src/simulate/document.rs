//! The document of simulations.

use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{Axis, Bars, Cell, Column, Origin, Plot, Quantity, Series, Table, Value};
use rmalab_report::numbers::{counted, digits, grouped, humane};
use rmalab_report::statistics::Quantiles;

use super::options::Load;
use super::point::{Machine, Outcome, Point, Side};

impl Outcome {
    /// The document of the simulations: a section for each machine and load, the points left out, the method, and every
    /// point as data.
    pub fn document(&self) -> Document {
        let title = "Locks over network atomics, simulated";
        let mut document = Document::new("simulate", title, self.run.clone(), self.host.clone());
        for (number, (machine, load)) in self.panels().enumerate() {
            // A lock that was interrupted might have been the fastest.
            document.summary.extend(self.verdict(machine, load).filter(|_| self.run.complete));
            document.sections.push(self.section(number, machine, load));
        }
        if self.loads.iter().all(|load| load.mix.exclusive == 0.0) && self.exclusive_ranks == 0 {
            let hint = "No rank took an exclusive lock here; --writers 2% or --exclusive-ranks 1 adds some.";
            document.summary.push(hint.into());
        }
        for info in self.subjects.iter().filter(|info| !info.excludes) {
            document.summary.push(format!("{} excludes no rank: it is a bound, not a lock.", info.name));
        }
        if !self.left_out.is_empty() {
            let mut section = Section::new("left-out", "Left out");
            section.text = self.left_out.iter().map(|left| format!("{}: {}", left.key, left.why)).collect();
            document.sections.push(section);
        }
        let method = format!(
            "Ranks run the locks' own code in virtual time, over a model of the machine. {} Mutexes take part with \
             readers that exclude one another.",
            self.method()
        );
        document.sections.push(Section::new("method", "Method").paragraph(method).folded());
        document.data = Some(self.data());
        document
    }

    /// Machine and load in words.
    fn title(&self, machine: &Machine, load: &Load) -> String {
        let changed = if machine.changed.is_empty() { String::new() } else { format!(" with {}", machine.changed) };
        format!("{}{changed}: {load}", machine.name)
    }

    /// The fastest lock at the largest number of ranks that more than one lock has.
    fn verdict(&self, machine: &Machine, load: &Load) -> Option<String> {
        let excludes = |point: &Point| self.subjects.iter().any(|info| info.name == point.key.lock && info.excludes);
        let points: Vec<&Point> = self.panel(machine, load).filter(|point| excludes(point)).collect();
        let most = points.iter().map(|point| point.key.ranks).max()?;
        let least = points.iter().map(|point| point.key.ranks).min()?;
        let mut last: Vec<&Point> = points.iter().copied().filter(|point| point.key.ranks == most).collect();
        last.sort_by(|a, b| a.slowest_ns.total_cmp(&b.slowest_ns));
        let first = last.first()?;
        let mut text = format!(
            "{}: at {} {} is fastest, {} for a pair on the slowest rank",
            self.title(machine, load),
            counted(most.into(), "rank"),
            first.key.lock,
            humane(first.slowest_ns)
        );
        if let Some(second) = last.get(1) {
            let factor = second.slowest_ns / first.slowest_ns.max(f64::MIN_POSITIVE);
            text += &if factor < ALIKE {
                format!("; {} is as fast", second.key.lock)
            } else {
                let time = humane(second.slowest_ns);
                format!("; {} follows with {time}, {} times as long", second.key.lock, multiple(factor))
            };
        }
        text.push('.');
        let small = points.iter().find(|point| point.key.ranks == least && point.key.lock == first.key.lock);
        if let Some(small) = small.filter(|_| least < most) {
            let growth = first.slowest_ns / small.slowest_ns.max(f64::MIN_POSITIVE);
            text += &format!(
                " A pair of {} takes {} times as long at {} as at {}.",
                first.key.lock,
                multiple(growth),
                counted(most.into(), "rank"),
                grouped(least.into())
            );
        }
        Some(text)
    }

    fn section(&self, number: usize, machine: &Machine, load: &Load) -> Section {
        let points: Vec<&Point> = self.panel(machine, load).collect();
        let title = self.title(machine, load);
        let id = format!("{}-{}", machine.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"), number + 1);
        let mut section = Section::new(id, &title).paragraph(format!("{}.", machine.about.trim_end_matches('.')));
        section.text.extend(self.starved(&points));
        section.finding.tables = vec![self.times(&title, &points), self.details(&title, &points)];
        section.finding.plots = self.plots(&points);
        section.bars.push(self.operations(&points));
        if number == 0 {
            section.text.push(COLUMNS.into());
        }
        section
    }

    /// A sentence on locks that starved ranks, each at its largest number of ranks.
    pub(crate) fn starved(&self, points: &[&Point]) -> Option<String> {
        let of = self.subjects.iter().filter_map(|info| {
            let starved = points.iter().filter(|point| point.key.lock == info.name && point.starved > 0);
            let point = starved.max_by_key(|point| point.key.ranks)?;
            Some(format!("{} {} of {} ranks", info.name, point.starved, point.key.ranks))
        });
        let of: Vec<String> = of.collect();
        (!of.is_empty()).then(|| {
            if points.iter().any(|point| point.key.load.table.is_some()) {
                return format!("Ranks that got no lock of the table in the measurement: {}.", of.join("; "));
            }
            format!(
                "Some locks starved ranks, which made too few pairs while the others made more than theirs: {}. The \
                 slowest rank's time is the time of the whole measurement, divided by the pairs that it made.",
                of.join("; ")
            )
        })
    }

    /// The slowest rank's time for a pair: a row for each lock, a column for each number of ranks.
    pub(crate) fn times(&self, title: &str, points: &[&Point]) -> Table {
        let ranks = ranks(points);
        let columns = std::iter::once(Column::from("lock"))
            .chain(ranks.iter().map(|&ranks| Column::from(counted(ranks.into(), "rank").replace(' ', "\n"))));
        let mut table = Table::new(format!("{title}. Time for a pair on the slowest rank"), columns);
        for info in &self.subjects {
            let of = |ranks: u32| points.iter().find(|point| point.key.lock == info.name && point.key.ranks == ranks);
            if ranks.iter().any(|&ranks| of(ranks).is_some()) {
                let times =
                    ranks.iter().map(|&ranks| of(ranks).map_or(Cell::from(Value::None), |point| slowest(point)));
                table.row(std::iter::once(Cell::from(info.name.as_str())).chain(times));
            }
        }
        table
    }

    /// The counters of each lock, at its largest number of ranks.
    fn details(&self, title: &str, points: &[&Point]) -> Table {
        let mixed = points.iter().any(|point| point.readers.is_some() && point.writers.is_some());
        let mut columns: Vec<Column> =
            ["lock", "ranks", "fastest\nrank", "mean\nrank", "p50\nacquire", "p99\nacquire", "longest\nacquire"]
                .map(Column::from)
                .into();
        if mixed {
            columns.extend(["p99\nwriters", "longest\nwriters"].map(Column::from));
        }
        columns.extend([Column::from("pairs"), Column::higher("Jain\nindex"), Column::lower("bypass\nmost")]);
        columns.extend(["operations\non the rank", "in the\nnode", "in other\nnodes"].map(Column::lower));
        columns.extend(["adapter\nbusy", "queue\nmean", "queue\nlongest", "bound of\none word"].map(Column::neither));
        let mut table = Table::new(format!("{title}. At the largest number of ranks"), columns).keyed(2);
        for info in &self.subjects {
            let of = points.iter().filter(|point| point.key.lock == info.name);
            let Some(point) = of.max_by_key(|point| point.key.ranks) else { continue };
            let mut row = vec![Cell::from(info.name.as_str()), Value::Count(point.key.ranks.into()).into()];
            row.extend([point.fastest_ns, point.mean_ns].map(time));
            let acquire = point.main_side().map(|side| side.acquire);
            row.extend(times(acquire, |times| [times.p50, times.p99, times.max]));
            if mixed {
                row.extend(times(point.writers.as_ref().map(|side| side.acquire), |times| [times.p99, times.max]));
            }
            row.push(rate(point));
            row.push(Value::Number(point.jain).into());
            row.push(Value::Count(point.bypass_max()).into());
            row.extend(point.operations.by_distance().map(|count| Cell::from(Value::Number(count))));
            row.push(Value::Share(point.utilization).into());
            row.push(Value::Number(point.mean_queue).into());
            row.push(Value::Count(point.longest_queue.into()).into());
            row.push(if point.bound_ns > 0.0 { time(point.bound_ns) } else { Value::None.into() });
            table.row(row);
        }
        table
    }

    fn plots(&self, points: &[&Point]) -> Vec<Plot> {
        let quantile = |of: fn(Quantiles) -> u64| {
            move |point: &Point| point.main_side().map(|side| of(side.acquire).max(1) as f64)
        };
        let mut plots = vec![self.time(points)];
        let mut add =
            |name: &str, title: &str, y: (&str, Quantity), value: &dyn Fn(&Point) -> Option<f64>, text: &str| {
                plots.push(self.plot(points, name, title, y, value, text));
            };
        add(
            "throughput",
            "Throughput",
            ("pairs per second, all ranks", Quantity::Rate),
            &|point| Some(point.throughput).filter(|rate| rate.is_finite()),
            "Pairs of all ranks together, from the start of the measurement to its end.",
        );
        add(
            "median",
            "Median time to acquire",
            ("time to acquire", Quantity::Time),
            &quantile(|times| times.p50),
            "From the request to the grant: half of all acquisitions take less; of readers, if any.",
        );
        add(
            "p99",
            "99th percentile of the time to acquire",
            ("time to acquire", Quantity::Time),
            &quantile(|times| times.p99),
            "99 in 100 acquisitions take less; of readers, if any.",
        );
        if points.iter().any(|point| point.writers.is_some() && point.readers.is_some()) {
            add(
                "writers",
                "Writers' 99th percentile",
                ("time to acquire", Quantity::Time),
                &|point| Some(point.writers.as_ref()?.acquire.p99.max(1) as f64),
                "From the request of an exclusive lock to its grant, 99th percentile.",
            );
        }
        add(
            "fairness",
            "Fairness",
            ("Jain's index", Quantity::Share),
            &|point| Some(point.jain),
            "Jain's index of the ranks' rates: 1 when all are equal, 1/ranks when one gets everything.",
        );
        add(
            "adapter",
            "The busiest adapter",
            ("share of time busy", Quantity::Share),
            &|point| Some(point.utilization),
            "Share of the time in which the engines of the busiest network adapter are busy; at 1 it is the limit.",
        );
        plots
    }

    /// The main plot: the slowest rank's time for a pair, with each lock's bound.
    pub(crate) fn time(&self, points: &[&Point]) -> Plot {
        let mut plot = self.plot(
            points,
            "time",
            "Time for a pair, slowest rank",
            ("time for a pair", Quantity::Time),
            &|point| Some(point.slowest_ns),
            "Time of an acquisition and its release on the slowest rank, on average over its pairs. The thin dashed \
             line of a colour is that lock's bound: the operations on its busiest word, one after the other. A curve \
             that follows its bound is limited by that word, a curve above it by something else.",
        );
        for series in &mut plot.series {
            let of = points.iter().filter(|point| point.key.lock == series.name);
            let mut seeds: Vec<(u32, (f64, f64))> =
                of.map(|point| (point.key.ranks, (point.slowest_min_ns, point.slowest_max_ns))).collect();
            seeds.sort_by_key(|seed| seed.0);
            series.spread = seeds.into_iter().map(|seed| seed.1).collect();
        }
        let bounds = self.plot(
            points,
            "",
            "",
            ("", Quantity::Time),
            &|point| Some(point.bound_ns).filter(|&bound| bound > 0.0),
            "",
        );
        let bounds = bounds.series.into_iter().filter(|series| series.points.len() > 1);
        plot.series.extend(bounds.map(|series| Series { origin: Origin::Bound, ..series }));
        plot
    }

    /// A line for each lock, a point for each number of ranks.
    fn plot(
        &self,
        points: &[&Point],
        name: &str,
        title: &str,
        (label, quantity): (&str, Quantity),
        value: &dyn Fn(&Point) -> Option<f64>,
        text: &str,
    ) -> Plot {
        let series = self.subjects.iter().filter_map(|info| {
            let of = points.iter().filter(|point| point.key.lock == info.name);
            let mut line: Vec<(f64, f64)> =
                of.filter_map(|point| Some((f64::from(point.key.ranks), value(point)?))).collect();
            line.sort_by(|a, b| a.0.total_cmp(&b.0));
            (!line.is_empty()).then(|| Series {
                name: info.name.clone(),
                origin: Origin::Simulated,
                style: info.place,
                points: line,
                spread: Vec::new(),
                group: info.kind.plural().into(),
            })
        });
        Plot {
            name: name.into(),
            title: title.into(),
            x: Axis::new("ranks", Quantity::Count),
            y: Axis::new(label, quantity),
            series: series.collect(),
            text: text.into(),
        }
    }

    fn operations(&self, points: &[&Point]) -> Bars {
        let rows = self.subjects.iter().filter_map(|info| {
            let of = points.iter().filter(|point| point.key.lock == info.name);
            let point = of.max_by_key(|point| point.key.ranks)?;
            let mut from = 0.0;
            let parts = point.operations.by_distance().map(|part| {
                from += part;
                (part > 0.0).then_some((from - part, from))
            });
            Some((format!("{} ({})", info.name, point.key.ranks), parts.to_vec()))
        });
        Bars {
            name: "operations".into(),
            title: "Operations for a pair".into(),
            axis: Axis::new("operations per pair (mean)", Quantity::Number),
            parts: ["on the rank itself", "in the same node", "in another node"].map(Into::into).into(),
            stacked: true,
            rows: rows.collect(),
            text: "Operations of all ranks for a pair at the largest number of ranks, by the distance of their target."
                .into(),
        }
    }

    /// Every point, a row each.
    fn data(&self) -> Table {
        type Number = fn(&Point) -> Cell;
        let number = |value: f64| Cell::from(Value::Number(value));
        let columns: [(&str, Number); 18] = [
            ("pairs", |point| Value::Count(point.pairs.into()).into()),
            ("starved ranks", |point| Value::Count(point.starved.into()).into()),
            ("seeds", |point| Value::Count(point.seeds.into()).into()),
            ("pair slowest", |point| slowest(point)),
            ("pair fastest", |point| time(point.fastest_ns)),
            ("pair mean", |point| time(point.mean_ns)),
            ("bound", |point| time(point.bound_ns)),
            ("throughput", rate),
            ("Jain index", |point| Value::Number(point.jain).into()),
            ("adapter busy", |point| Value::Share(point.utilization).into()),
            ("queue mean", |point| Value::Number(point.mean_queue).into()),
            ("queue longest", |point| Value::Count(point.longest_queue.into()).into()),
            ("virtual end", |point| time(point.end_ns)),
            ("events", |point| Value::Count(point.events).into()),
            ("wall", |point| time(point.wall_s * 1e9)),
            ("bypass max", |point| Value::Count(point.bypass_max()).into()),
            ("writer operations max", |point| {
                let most = point.writers.as_ref().and_then(|side| side.operations_max);
                most.map_or(Value::None, Value::Count).into()
            }),
            ("operations", |point| Value::Number(point.operations.total()).into()),
        ];
        let mut names: Vec<Column> = ["profile", "load", "lock", "ranks"].map(Column::from).into();
        names.extend(columns.iter().map(|(name, _)| Column::from(*name)));
        for side in ["reader", "writer"] {
            let of = ["acquire mean", "acquire p50", "acquire p99", "acquire max", "bypass mean", "bypass max"];
            names.extend(of.map(|of| Column::from(format!("{side} {of}"))));
        }
        for kind in ["atomics", "gets", "puts", "bulk"] {
            names.extend(["own", "node", "remote"].map(|distance| Column::from(format!("{kind} {distance}"))));
        }
        let mut table = Table::new("Points", names).keyed(4);
        for point in &self.points {
            let key = &point.key;
            let mut row = vec![
                Cell::from(key.profile.as_str()),
                key.load.to_string().into(),
                key.lock.as_str().into(),
                Value::Count(key.ranks.into()).into(),
            ];
            row.extend(columns.iter().map(|(_, value)| value(point)));
            for side in [&point.readers, &point.writers] {
                row.extend(side.as_ref().map_or_else(|| std::array::from_fn(|_| Value::None.into()), columns_of));
            }
            let operations = &point.operations;
            for kind in [operations.atomic, operations.get, operations.put, operations.bulk] {
                row.extend(kind.map(number));
            }
            table.row(row);
        }
        table
    }
}

/// The data of readers, or of writers.
fn columns_of(side: &Side) -> [Cell; 6] {
    let acquire = side.acquire;
    [
        time(acquire.mean),
        time(acquire.p50 as f64),
        time(acquire.p99 as f64),
        time(acquire.max as f64),
        Value::Number(side.bypass_mean).into(),
        Value::Count(side.bypass_max).into(),
    ]
}

/// The pairs of all ranks per second, or nothing if they take no time.
fn rate(point: &Point) -> Cell {
    Cell::from(if point.throughput.is_finite() { Value::Rate(point.throughput) } else { Value::None })
}

fn time(nanoseconds: f64) -> Cell {
    Value::Time(nanoseconds).into()
}

/// The columns of the counters that their titles do not explain.
const COLUMNS: &str = "\
A pair is an acquisition and its release. Jain's index: 1 when all ranks get the same. Bypass: grants to others while a \
rank waits. Adapter busy: the share of time in which the busiest network adapter works; queue: the operations that wait for \
it. Bound of one word: the least time of a pair that the word with most operations allows.";

/// A factor, with separators if it is large.
fn multiple(factor: f64) -> String {
    if factor < 1000.0 { digits(factor) } else { grouped(factor.round() as u64) }
}

/// A lock that takes less than this many times as long as another one counts as equally fast.
const ALIKE: f64 = 1.01;

/// Some quantiles as cells, or that many empty cells.
fn times<const N: usize>(quantiles: Option<Quantiles>, of: fn(Quantiles) -> [u64; N]) -> [Cell; N] {
    match quantiles {
        Some(quantiles) => of(quantiles).map(|nanoseconds| time(nanoseconds as f64)),
        None => std::array::from_fn(|_| Value::None.into()),
    }
}

/// The slowest rank's time for a pair, with the spread of the seeds.
fn slowest(point: &Point) -> Cell {
    let cell = time(point.slowest_ns);
    if point.seeds > 1 { cell.between(point.slowest_min_ns, point.slowest_max_ns) } else { cell }
}

/// The numbers of ranks of some points, in order.
pub(crate) fn ranks(points: &[&Point]) -> Vec<u32> {
    let mut ranks: Vec<u32> = points.iter().map(|point| point.key.ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}
