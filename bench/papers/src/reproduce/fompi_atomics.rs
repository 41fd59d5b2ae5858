//! foMPI's accumulates: with network atomics, and with a lock, a get and a put.

use std::time::Duration;

use rmalab_atomics::{Rank, RemoteAtomics, WORD};
use rmalab_windows::{AccumulateStrategy, Op, Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_apps::Strategies;
use rmalab_job::Result;
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};
use rmalab_report::statistics::median;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-atomics",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), the slides on communication and the performance of atomics",
    title: "accumulate by network atomics against the fall-back by a lock",
    protocol: "One rank accumulates (sum of 64-bit integers) n elements to another one inside lock_all, and flushes; \
               the time of a call against n. By one network atomic for each element (native), and by the fall-back: \
               lock, get, combine, put, unlock. Simulated on profile gemini to a rank of another node, and measured \
               on 2 processes of this machine, there also with the default of windows: a target that gets many \
               elements changes from the one to the other by itself (by need).",
    found: "The hardware-accelerated protocol has the lower latency; the fall-back protocol has the higher bandwidth \
            for many elements.",
    lesson: "A network atomic is one round trip for one word. A lock first costs several round trips, and then \
             transfers any number of words in two operations. So from some number of elements on, the lock is faster.",
    seconds: (10, 20),
    run,
};

/// Accumulates of increasing lengths from one rank to the last one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Accumulates {
    strategies: Strategies,
    /// Numbers of elements.
    counts: Vec<u32>,
    /// Repetitions of each.
    rounds: u32,
    /// True if targets change from atomics to a lock on demand.
    by_need: bool,
}

impl Job for Accumulates {
    /// Nanoseconds of a call and its flush for each number of elements; of rank 0.
    type Out = Vec<f64>;

    const NAME: &'static str = "accumulates";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Vec<f64>> {
        let team = Team::new(ra)?;
        let most = self.counts.iter().copied().max().unwrap_or(1);
        let mut builder = Window::builder(&team).config(self.strategies.config()?);
        if !self.by_need {
            builder = builder.accumulate_limits(usize::MAX, u64::MAX, u64::MAX);
        }
        let mut window = builder.allocate(u64::from(most) * WORD)?;
        let source = vec![1_u64; most as usize];
        let mut out = Vec::new();
        team.barrier()?;
        if ra.rank() == Rank(0) {
            // All other ranks have left the barrier by then, and are in the next one.
            ra.compute(Duration::from_millis(1))?;
            let target = Rank(ra.size() - 1);
            let all = window.lock_all()?;
            for &count in &self.counts {
                let mut times = Vec::new();
                for _ in 0..self.rounds {
                    let begin = ra.now();
                    all.at(target)?.accumulate(WindowDisp(0), Op::Sum, &source[..count as usize])?;
                    all.flush(target)?;
                    times.push(elapsed(ra, begin));
                }
                out.push(median(times.into_iter()));
            }
            all.unlock_all()?;
        }
        team.barrier()?;
        window.free()?;
        Ok(out)
    }
}

const WAYS: [AccumulateStrategy; 2] = [AccumulateStrategy::Native, AccumulateStrategy::Locked];

fn of_rank_0(mut ran: Ran<Vec<f64>>) -> Vec<f64> {
    ran.ranks.swap_remove(0)
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let counts: Vec<u32> = (0..=context.pick(13, 17)).map(|power| 1 << power).collect();
    let job = |way: AccumulateStrategy, rounds| {
        let strategies = Strategies { accumulate: Some(way.name().into()), ..Strategies::default() };
        Accumulates { strategies, counts: counts.clone(), rounds, by_need: false }
    };
    // Rank 32 is the first one of the second node.
    let [native, locked] = WAYS.map(|way| context.run(&job(way, 3), &Ranks::simulated("gemini", 33)).map(of_rank_0));
    let by_need = Accumulates { by_need: true, ..job(AccumulateStrategy::Native, 51) };
    let jobs = [job(WAYS[0], 51), job(WAYS[1], 51), by_need].map(|job| (job, Ranks::processes(2)));
    let runs = context.in_turn(5, &jobs)?;
    let here = runs.into_iter().map(|runs| {
        let runs: Vec<Vec<f64>> = runs.into_iter().map(of_rank_0).collect();
        (0..counts.len()).map(|at| median(runs.iter().map(|run| run[at]))).collect::<Vec<f64>>()
    });
    Ok(report(&counts, &[native?, locked?], &here.collect::<Vec<_>>()))
}

/// The least number of elements from which on the second way is faster.
fn crossing(counts: &[u32], times: &[Vec<f64>]) -> Option<u32> {
    let behind = (0..counts.len()).rev().find(|&at| times[0][at] <= times[1][at]);
    counts.get(behind.map_or(0, |at| at + 1)).copied()
}

/// For each of [`WAYS`], the times for each number of elements: simulated, and here. Here there is also a third way, on
/// demand.
fn report(counts: &[u32], simulated: &[Vec<f64>], here: &[Vec<f64>]) -> Finding {
    let mut finding = Finding::new();
    let last = counts.len() - 1;
    let bytes = |at: usize| u64::from(counts[at]) * WORD;
    let bandwidth = |at: usize, time: f64| bytes(at) as f64 / time * 1e9;
    for (place, times) in [("simulated, to another node", simulated), ("2 processes here", here)] {
        let columns =
            ["elements", "native", "fall-back", "native / fall-back", "bandwidth, native", "bandwidth, fall-back"];
        let by_need = times.get(2);
        let columns = columns.into_iter().chain(by_need.map(|_| "by need"));
        let mut table = Table::new(format!("Time of an accumulate: {place}"), columns);
        for at in 0..=last {
            let (native, locked) = (times[0][at], times[1][at]);
            let row = [
                Value::Count(counts[at].into()),
                Value::Time(native),
                Value::Time(locked),
                Value::Ratio(native / locked),
                Value::Bandwidth(bandwidth(at, native)),
                Value::Bandwidth(bandwidth(at, locked)),
            ];
            table.row(row.into_iter().chain(by_need.map(|times| Value::Time(times[at]))));
        }
        finding.tables.push(table);
        finding.claim(
            times[0][0] < times[1][0],
            "the native protocol has the lower latency",
            format!("{}: {} against {} for one element", place, Value::Time(times[0][0]), Value::Time(times[1][0])),
        );
        let (native, locked) = (times[0][last], times[1][last]);
        let from = crossing(counts, times)
            .map_or("at no number of elements".into(), |from| format!("from {from} elements on"));
        finding.claim(
            locked < native,
            "the fall-back has the higher bandwidth for many elements",
            format!(
                "{place}: ahead {from}; {} against {} with {}",
                Value::Bandwidth(bandwidth(last, locked)),
                Value::Bandwidth(bandwidth(last, native)),
                Value::Bytes(bytes(last))
            ),
        );
    }
    if here[1][last] >= here[0][last] {
        finding.why =
            "between processes of one machine the network's atomics are the processor's, a few nanoseconds for each \
                       element in the cache, and the fall-back copies every element twice"
                .into();
    }
    let mut series = Vec::new();
    for (origin, place, times) in [(Origin::Simulated, "", simulated), (Origin::Measured, ", here", here)] {
        for (style, (name, times)) in ["native", "fall-back", "by need"].into_iter().zip(times).enumerate() {
            let points = counts.iter().zip(times).map(|(&count, &time)| (f64::from(count), time));
            series.push(Series {
                name: format!("{name}{place}"),
                origin,
                style,
                points: points.collect(),
                spread: Vec::new(),
                group: String::new(),
            });
        }
    }
    finding.plots.push(Plot {
        name: "elements".into(),
        title: "Accumulate of 64-bit sums".into(),
        x: Axis::new("elements", Quantity::Count),
        y: Axis::new("time of a call with its flush", Quantity::Time),
        series,
        text: "The native line rises from the first element on, since each element is an atomic operation. The \
               fall-back starts higher, with the operations of its lock, and stays there until the bytes themselves \
               matter. The lines cross at the number of elements from which on a lock pays off; it is lower the \
               longer a round trip takes. On demand, a target first behaves as the native line, and changes to a lock \
               and plain loops when that pays off."
            .into(),
    });
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use rmalab_job as job;

    #[test]
    fn a_lock_pays_off_from_some_number_of_elements_on() {
        let counts = vec![1, 2, 4, 8, 16, 256];
        let times = WAYS.map(|way| {
            let strategies = Strategies { accumulate: Some(way.name().into()), ..Strategies::default() };
            let job = Accumulates { strategies, counts: counts.clone(), rounds: 1, by_need: false };
            of_rank_0(job::run(&job, &Ranks::simulated("gemini", 33), &AtomicBool::new(false)).unwrap())
        });
        assert!(times[0][0] < times[1][0] && times[1][5] < times[0][5], "{times:?}");
        let from = crossing(&counts, &times).unwrap();
        assert!((2..=16).contains(&from), "{from}: {times:?}");
        assert!((times[0][5] / times[0][0] / 256.0 - 1.0).abs() < 0.05, "one atomic for each element: {times:?}");
    }

    #[test]
    fn where_lines_cross() {
        let counts = [1, 2, 4];
        assert_eq!(crossing(&counts, &[vec![1.0, 3.0, 5.0], vec![2.0, 2.0, 2.0]]), Some(2));
        assert_eq!(crossing(&counts, &[vec![3.0, 3.0, 5.0], vec![2.0, 2.0, 2.0]]), Some(1));
        assert_eq!(crossing(&counts, &[vec![1.0, 1.0, 1.0], vec![2.0, 2.0, 2.0]]), None);
    }
}
