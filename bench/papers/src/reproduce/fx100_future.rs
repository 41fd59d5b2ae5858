//! The FX100 study's open question: the effect of hierarchical locks on the load on the one lock word.

use std::sync::atomic::Ordering;

use rmalab_atomics::sim::Profile;
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_job::{Error, Result};
use rmalab_lab::Registry;
use rmalab_lab::simulate::{Load, Mix, Options, Simulation};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fx100-future",
    source: "FX100 study (Hatanaka, Hori, Ishikawa), section 6",
    title: "hierarchical locks against the load on the one lock word",
    protocol: "All ranks acquire and release for all targets at the same time, as in fx100-lockall, with locks that \
               have one word for all ranks (mcs-rw-rp, the study's; two-level, foMPI's) and locks with a part at each \
               node (rma-rw; hierarchical, ours): the time of a pair, and the load of the busiest adapter. Then one \
               of 1,024 acquisitions is exclusive: writers pay for the savings of readers. Simulated on profile \
               fx100, 32 ranks per node, after unmeasured pairs, which open the nodes' words, to 65,536 ranks, with \
               --long to 663,552.",
    found: "The study leaves it open: hierarchical locks, which would relieve the node with the lock, need further \
            study.",
    lesson: "If all ranks count in one word, its node is the bottleneck, and a faster adapter only delays that. A \
             lock with a counter at each node lets readers stay on their node; a writer then has to close every node \
             before it may enter. Programs hold windows by lock_all and seldom lock exclusively, so this usually pays \
             off. The table of writers has the cost.",
    seconds: (40, 400),
    run,
};

/// Locks with one word for all, and locks with a part at each node.
const LOCKS: [&str; 4] = ["mcs-rw-rp", "two-level", "rma-rw", "hierarchical"];

/// The results of a simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Point {
    ranks: u32,
    /// The slowest rank's time for a pair, in nanoseconds.
    pair: f64,
    /// The share of the time in which the busiest adapter was busy.
    busy: f64,
    /// Messages that waited for it, on average.
    queue: f64,
    /// Operations for a pair that leave their node.
    remote: f64,
    /// The median time from the request for an exclusive lock to its grant; 0 without such requests.
    exclusive: f64,
}

/// Simulates a lock at some ranks, with that share of exclusive locks.
fn point(context: &Context<'_>, lock: &str, ranks: u32, exclusive: f64) -> Result<Point> {
    context.keep(&format!("{lock}, {ranks} ranks, {exclusive} exclusive"), || {
        let registry = Registry::standard();
        let mut options = Options::new(Profile::find("fx100")?);
        options.locks = vec![lock.into()];
        options.ranks = vec![ranks];
        options.loads = vec![Load { mix: Mix::writers(exclusive), ..Load::default() }];
        // Some seconds each in a quick run.
        options.pairs = Some((context.pick(60_000, 300_000) / ranks).clamp(4, 1000));
        options.threads = Some(1);
        let simulation = Simulation::new(&registry, options)?;
        let flag = simulation.stop_flag();
        let outcome = simulation.run(|_| flag.store(context.stop().load(Ordering::Relaxed), Ordering::Relaxed))?;
        let Some(point) = outcome.points.first() else {
            let why = outcome.left_out.first().map_or("interrupted", |left| &left.why);
            return Err(Error::Ranks(format!("{lock} at {ranks} ranks: {why}")));
        };
        let [_, _, remote] = point.operations.by_distance();
        Ok(Point {
            ranks,
            pair: point.slowest_ns,
            busy: point.utilization,
            queue: point.mean_queue,
            remote,
            exclusive: point.writers.as_ref().map_or(0.0, |side| side.acquire.p50 as f64),
        })
    })
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let mut ranks = vec![4, 16, 64, 256, 1024, 4096, 16_384, 65_536];
    ranks.extend(context.pick(None, Some(663_552)));
    let some = context.pick(vec![64, 256, 1024, 4096], vec![64, 256, 1024, 4096, 16_384]);
    let mut readers = Vec::new();
    let mut writers = Vec::new();
    for lock in LOCKS {
        let point = |&ranks: &u32| point(context, lock, ranks, 0.0);
        readers.push(ranks.iter().map(point).collect::<Result<Vec<_>>>()?);
        let point = |&ranks: &u32| self::point(context, lock, ranks, 1.0 / 1024.0);
        writers.push(some.iter().map(point).collect::<Result<Vec<_>>>()?);
    }
    Ok(report(&readers, &writers))
}

/// For each of [`LOCKS`] its points, when all ranks read, and when few write.
fn report(readers: &[Vec<Point>], writers: &[Vec<Point>]) -> Finding {
    let mut finding = Finding::new();
    let table = |title: &str, points: &[Vec<Point>], value: &dyn Fn(&Point) -> Value| {
        let mut table = Table::new(title, std::iter::once("ranks").chain(LOCKS));
        for at in 0..points[0].len() {
            let values = points.iter().map(|points| value(&points[at]));
            table.row(std::iter::once(Value::Count(points[0][at].ranks.into())).chain(values));
        }
        table
    };
    finding.tables = vec![
        table("lock_all and unlock_all, slowest rank", readers, &|point| Value::Time(point.pair)),
        table("Share of the time in which the busiest adapter is busy", readers, &|point| Value::Share(point.busy)),
        table("Messages that wait for that adapter, on average", readers, &|point| Value::Number(point.queue)),
        table("Operations of a pair that leave the node", readers, &|point| Value::Number(point.remote)),
        table("With 1 of 1,024 exclusive: a pair, slowest rank", writers, &|point| Value::Time(point.pair)),
        table("With 1 of 1,024 exclusive: median time to an exclusive lock", writers, &|point| {
            Value::Time(point.exclusive)
        }),
    ];
    let series = |points: &[Vec<Point>], value: fn(&Point) -> f64| {
        let series = LOCKS.iter().zip(points).enumerate().map(|(style, (lock, points))| Series {
            name: (*lock).into(),
            origin: Origin::Simulated,
            style,
            points: points.iter().map(|point| (f64::from(point.ranks), value(point))).filter(|at| at.1 > 0.0).collect(),
            spread: Vec::new(),
            group: String::new(),
        });
        series.filter(|series| !series.points.is_empty()).collect::<Vec<_>>()
    };
    let last = |lock: usize| readers[lock].last().expect("there are points");
    let exponent = |lock: usize| {
        let points = readers[lock].iter().filter(|point| point.ranks >= 256);
        growth(&points.map(|point| (f64::from(point.ranks), point.pair)).collect::<Vec<_>>()).0
    };
    let ranks = last(0).ranks;
    finding.claim(
        exponent(0) > 0.5 && last(0).busy > 0.9,
        "the time grows with the ranks, since all go to the one lock (section 6)",
        format!(
            "mcs-rw-rp: as ranks^{:.2} from 256 to {ranks}, {} a pair and the lock's adapter busy for {} there, \
             simulated",
            exponent(0),
            Value::Time(last(0).pair),
            Value::Share(last(0).busy)
        ),
    );
    for lock in [2, 3] {
        let (mine, one) = (last(lock), last(0));
        finding.claim(
            exponent(lock) < 0.1 && mine.remote < 0.1 * one.remote,
            format!("hierarchical locks are to relieve the lock's node (open in the study): {}", LOCKS[lock]),
            format!(
                "as ranks^{:.2}, {} a pair at {ranks} ranks, 1 part in {:.0} of mcs-rw-rp's; {} of {} operations of a \
                 pair leave the node, simulated",
                exponent(lock),
                Value::Time(mine.pair),
                one.pair / mine.pair,
                Value::Number(mine.remote),
                Value::Number(one.remote)
            ),
        );
    }
    if !finding.claims.iter().all(|claim| claim.holds) {
        finding.why =
            "a lock still sends more to one node than a tenth of the one-word lock's messages, since its table of \
                       operations shows"
                .into();
    }
    let axis = || Axis::new("ranks", Quantity::Count);
    finding.plots = vec![
        Plot {
            name: "ranks".into(),
            title: "lock_all and unlock_all by four locks".into(),
            x: axis(),
            y: Axis::new("time of a pair, slowest rank", Quantity::Time),
            series: series(readers, |point| point.pair),
            text: "The two locks with one word for all lie on one rising line: an uncontended lock_all is one atomic \
                   operation on that word, and all ranks wait for its adapter. The two with a part at each node stay \
                   flat, at the time of a few operations inside a node: more nodes bring more counters along."
                .into(),
        },
        Plot {
            name: "load".into(),
            title: "Load of the busiest adapter".into(),
            x: axis(),
            y: Axis::new("share of the time in which it is busy", Quantity::Share),
            series: series(readers, |point| point.busy),
            text: "The reason for the other plot: an adapter cannot be busy for more than all of the time. From then \
                   on, each further rank only makes the queue longer. The distributed locks do not use the network as \
                   long as no rank writes: those without a line here have no load at all."
                .into(),
        },
        Plot {
            name: "writers".into(),
            title: "Time to an exclusive lock, one acquisition of 1,024".into(),
            x: axis(),
            y: Axis::new("median time from request to grant", Quantity::Time),
            series: series(writers, |point| point.exclusive),
            text: "The cost of the distributed locks: a writer has to close every node and to wait until its readers \
                   have left. It grows with the nodes, whereas a lock with one word pays with every reader instead. \
                   With few writers both costs can be compared: the pairs of the table include them."
                .into(),
        },
    ];
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::reproduce::Extent;

    #[test]
    fn with_a_part_at_each_node_readers_do_not_use_the_network() {
        let stop = AtomicBool::new(false);
        let context = Context::new(Extent::Quick, &[&EXPERIMENT], &stop, None, |_| ());
        let points =
            |lock: &str, exclusive: f64| [256, 1024].map(|ranks| point(&context, lock, ranks, exclusive).unwrap());
        let (one, parts) = (points("mcs-rw-rp", 0.0), points("hierarchical", 0.0));
        assert!(one[1].remote > 1.5 && parts[1].remote < 0.1, "{one:?} {parts:?}");
        assert!(one[1].pair / one[0].pair > 2.0 && parts[1].pair / parts[0].pair < 1.2, "{one:?} {parts:?}");
        assert!(points("hierarchical", 1.0 / 64.0)[0].exclusive > 0.0);
    }
}
