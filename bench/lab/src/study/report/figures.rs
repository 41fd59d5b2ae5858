//! Which figures a report has, what is in them, and how to read them.

use crate::study::{Backend, Cell, Outcome, Side, Values};
use rmalab_job::{Error, Result};
use rmalab_report::numbers::{number, rate, short};
use rmalab_report::plots::{self, Bars, Drawn, Lines, Ranges, Scale, X};

/// One figure of a report.
pub(super) struct Figure {
    /// The name of its file, without the ending.
    pub(super) name: String,
    pub(super) backend: Backend,
    pub(super) title: &'static str,
    pub(super) svg: String,
    /// How to read it.
    pub(super) text: String,
}

/// All figures, backend by backend; those without any data are left out.
pub(super) fn all(outcome: &Outcome) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for &backend in &outcome.options.backends {
        let of = Of { outcome, backend };
        if of.cells().next().is_none() {
            continue;
        }
        let plans = [of.throughput(), of.latency(), of.sides(), of.fairness(), of.operations()];
        for plan in plans.into_iter().flatten() {
            let name = format!("{}-{backend}", plan.name);
            let svg = plan.svg.map_err(|why| Error::Drawing { figure: name.clone(), why })?;
            figures.push(Figure { name, backend, title: plan.title, svg, text: plan.text });
        }
    }
    Ok(figures)
}

struct Plan {
    name: &'static str,
    title: &'static str,
    svg: Drawn,
    text: String,
}

/// The cells of one backend.
struct Of<'a> {
    outcome: &'a Outcome,
    backend: Backend,
}

impl Of<'_> {
    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.outcome.cells.iter().filter(|cell| cell.key.backend == self.backend)
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

    /// One line for each subject, one point for each number of ranks.
    fn lines(
        &self,
        fraction: f64,
        title: String,
        y_label: &str,
        scale: Scale,
        value: impl Fn(&Cell) -> Option<f64>,
    ) -> Lines {
        let series = self.outcome.subjects.iter().map(|info| {
            let cells = self.cells().filter(|cell| cell.key.lock == info.name && cell.key.read_fraction == fraction);
            let mut points: Vec<(f64, f64)> =
                cells.filter_map(|cell| Some((f64::from(cell.key.ranks), value(cell)?))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            (info.style(), points)
        });
        Lines { title, x: X::Ranks, y_label: y_label.into(), scale, series: series.collect() }
    }

    fn throughput(&self) -> Option<Plan> {
        let panels: Vec<Lines> = self
            .fractions()
            .into_iter()
            .map(|fraction| {
                let scale = Scale::Log(rate);
                self.lines(fraction, load(fraction), "acquisitions per second, all ranks", scale, |cell| {
                    Some(cell.values.throughput)
                })
            })
            .collect();
        Some(Plan {
            name: "throughput",
            title: "Throughput",
            svg: plots::lines(&panels),
            text: format!(
                "How many times per second all ranks together acquire and release. Both axes are logarithmic: a line that \
                 rises with the ranks scales, a level one means that the lock serves one request at a time, and a falling \
                 one that ranks cost more than they bring. Beyond {} ranks there are more ranks than processors here, so \
                 that a lock that hands over to a rank without a processor has to wait for the scheduler.{}",
                self.outcome.machine.cores,
                self.bound()
            ),
        })
    }

    fn latency(&self) -> Option<Plan> {
        let mut panels = Vec::new();
        for (quantile, name) in [(false, "median"), (true, "99th percentile")] {
            for fraction in self.fractions() {
                let who = if fraction > 0.0 { "lock_all" } else { "exclusive lock" };
                panels.push(self.lines(
                    fraction,
                    format!("{who}, {name}; {}", load(fraction)),
                    &format!("time to acquire, {name}"),
                    Scale::Log(short),
                    move |cell| {
                        let acquire = cell.values.main_side()?.acquire;
                        (acquire.count > 0).then_some(if quantile { acquire.p99 } else { acquire.p50 } as f64)
                    },
                ));
            }
        }
        Some(Plan {
            name: "latency",
            title: "Time to acquire",
            svg: plots::lines(&panels),
            text: format!(
                "The time from the request of a rank to its grant, below which half (median) and 99 in 100 (99th percentile) \
                 of the acquisitions stay; lower is better. It includes one reading of the clock, {:.0} ns on this machine, \
                 which is the floor of every line. Where the median is low and the 99th percentile is not, a few ranks wait \
                 for the many; a step of milliseconds is the scheduler's time slice, not the lock.{}",
                self.outcome.machine.clock_ns,
                self.bound()
            ),
        })
    }

    fn sides(&self) -> Option<Plan> {
        let most = self.most_ranks();
        let panels: Vec<Ranges> = self
            .fractions()
            .into_iter()
            .filter(|fraction| *fraction > 0.0 && *fraction < 1.0)
            .map(|fraction| {
                let rows = self.rows(fraction, most, |cell| {
                    let range = |side: &Option<Side>| {
                        let acquire = side.as_ref()?.acquire;
                        (acquire.count > 0).then_some((acquire.p50 as f64, acquire.p99 as f64))
                    };
                    [range(&cell.values.readers), range(&cell.values.writers)]
                });
                Ranges { title: format!("{most} ranks; {}", load(fraction)), rows }
            })
            .collect();
        (!panels.is_empty()).then(|| Plan {
            name: "readers-writers",
            title: "Readers against writers",
            svg: plots::ranges(&panels, ["readers (lock_all)", "writers (exclusive)"], "time to acquire", short),
            text: "For each lock, how long readers and writers wait under the same load: the dot is the median, the bar's \
                   end the 99th percentile; left is better. A lock that prefers one side shows it as a distance between the \
                   two colours, and a lock whose writers can starve as a bar that reaches far to the right. Mutexes know no \
                   readers, so theirs should coincide."
                .into(),
        })
    }

    fn fairness(&self) -> Option<Plan> {
        let panels: Vec<Lines> = self
            .fractions()
            .into_iter()
            .map(|fraction| {
                self.lines(fraction, load(fraction), "Jain's index", Scale::Unit, |cell| Some(cell.values.jain))
            })
            .collect();
        Some(Plan {
            name: "fairness",
            title: "Fairness",
            svg: plots::lines(&panels),
            text: "Jain's index of the ranks' shares of all acquisitions: 1 when every rank got as much as every other, and \
                   one over the number of ranks when one of them got everything. With more ranks than processors, a lock \
                   without waiting is as fair as the scheduler is within the time of one cell, which is the grey line where \
                   it was measured."
                .into(),
        })
    }

    fn operations(&self) -> Option<Plan> {
        let most = self.most_ranks();
        let parts = |side: &Side| [side.operations_own, side.operations_node, side.operations_remote];
        let panels: Vec<Bars> = self
            .fractions()
            .into_iter()
            .flat_map(|fraction| {
                [("lock_all + unlock_all", true), ("exclusive lock + unlock", false)].map(|(pair, readers)| {
                    let rows = self.rows(fraction, most, |cell| {
                        let Values { readers: reading, writers: writing, .. } = &cell.values;
                        if readers { reading } else { writing }.as_ref().map(parts)
                    });
                    let rows: Vec<_> = rows.into_iter().filter_map(|(name, parts)| Some((name, parts?))).collect();
                    let title = format!("{pair}, {most} ranks; {}", load(fraction));
                    Bars { title, x_label: "operations per pair (mean)".into(), rows }
                })
            })
            .filter(|panel| !panel.rows.is_empty())
            .collect();
        (!panels.is_empty()).then(|| Plan {
            name: "operations",
            title: "Remote operations",
            svg: plots::bars(&panels),
            text: "How many word operations a rank issues for one acquire and its release, by how far their target is. On a \
                   network this is the cost that counts: operations on the own rank need no message, those in another node \
                   take microseconds each. Polling shows as numbers that grow with the contention; a lock whose ranks wait \
                   on words of their own stays near its count without contention. Counted in a pass of its own, with a \
                   ledger that slows the ranks a little."
                .into(),
        })
    }

    /// One row for each subject, at one number of ranks.
    fn rows<T>(&self, fraction: f64, ranks: u32, value: impl Fn(&Cell) -> T) -> Vec<(String, T)> {
        let subjects = self.outcome.subjects.iter();
        let cell = |name: &str| {
            self.cells()
                .find(|cell| cell.key.lock == name && cell.key.ranks == ranks && cell.key.read_fraction == fraction)
        };
        subjects.filter_map(|info| Some((info.name.clone(), value(cell(&info.name)?)))).collect()
    }

    /// A sentence on the dashed line, if there is one.
    fn bound(&self) -> String {
        let bounds: Vec<&str> =
            self.outcome.subjects.iter().filter(|info| !info.excludes).map(|info| info.name.as_str()).collect();
        if bounds.is_empty() {
            String::new()
        } else {
            format!(" The dashed line ({}) excludes nobody: it is what the load itself takes.", bounds.join(", "))
        }
    }
}

/// A read fraction in words.
pub(super) fn load(fraction: f64) -> String {
    match fraction {
        1.0 => "lock_all only".into(),
        0.0 => "exclusive only".into(),
        fraction => format!("{} % lock_all", number(fraction * 100.0)),
    }
}
