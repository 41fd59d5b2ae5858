//! The FX100 study's figure 10: the same lock for each rank, with more and more ranks on the same nodes.

use rmalab_atomics::sim::Profile;

use super::{Context, Experiment};
use rmalab_job::Result;
use rmalab_lab::simulate::validate::{self, Times, spearman};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};
use rmalab_report::statistics::median;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fx100-ppn",
    source: "FX100 study (Hatanaka, Hori, Ishikawa), section 5.2, figure 10",
    title: "lock_all and unlock_all of each rank, with 1, 8 and 32 ranks per node",
    protocol: "As fx100-lockall, on 128 nodes with 1, 8 and 32 ranks each; the time of all pairs of each rank, for \
               every rank, and the hops from its node to the lock's node. Simulated on profile fx100; quick runs \
               make fewer pairs than the study's 1,000, and give the time scaled to 1,000.",
    found: "0.069 s, 0.52 s and 2.2 s for 1,000 pairs on the slowest rank: proportional to the ranks that share the \
            lock. With 32 per node ranks end between 0.1 s and 2.2 s, those few hops away first.",
    lesson: "Ranks that send equally many requests to a busy adapter need not get equal service. Each router on the \
             path serves its inputs in turn. So a rank with messages that join the stream near the target gets a \
             larger share than one whose messages share many links. The near ranks end first, and the mean hides the \
             slowest.",
    seconds: (10, 60),
    run,
};

/// Nodes of the measurement.
const NODES: u32 = 128;

/// The study's figures: ranks per node, and nanoseconds of 1,000 pairs on the slowest rank.
const PUBLISHED: [(u32, f64); 3] = [(1, 0.069e9), (8, 0.52e9), (32, 2.2e9)];

/// The fastest rank's, with 32 ranks per node.
const FASTEST: f64 = 0.1e9;

fn run(context: &Context<'_>) -> Result<Finding> {
    let profile = Profile::find("fx100")?;
    let pairs = context.pick(200, 1000);
    let mut found = Vec::new();
    for (per_node, _) in PUBLISHED {
        let key = format!("{per_node} ranks per node, {pairs} pairs");
        let ranks = NODES * per_node;
        let times = context.keep(&key, || validate::locks(&profile, ranks, per_node, pairs, context.stop()))?;
        let thousand = |time: &f64| time / f64::from(pairs) * 1000.0;
        found.push((per_node, Times { end: times.end.iter().map(thousand).collect(), hops: times.hops }));
    }
    Ok(report(&found))
}

/// Ranks per node, and the time of 1,000 pairs of each rank.
fn report(found: &[(u32, Times)]) -> Finding {
    let mut finding = Finding::new();
    let published =
        |per_node: u32| PUBLISHED.iter().find(|point| point.0 == per_node).map_or(f64::NAN, |point| point.1);
    let mut table = Table::new(
        "1,000 pairs on 128 nodes",
        ["ranks per node", "published, slowest", "slowest", "deviation", "median", "fastest"],
    );
    for (per_node, times) in found {
        let (published, here) = (published(*per_node), times.slowest());
        table.row([
            Value::Count(u64::from(*per_node)),
            Value::Time(published),
            Value::Time(here),
            Value::Share(here / published - 1.0),
            Value::Time(median(times.end.iter().copied())),
            Value::Time(times.fastest()),
        ]);
        finding.fitted(
            (here / published - 1.0).abs() <= 0.15,
            format!("{} with {per_node} rank{} a node", Value::Time(published), if *per_node == 1 { "" } else { "s" }),
            format!("{}, simulated (within 15 % counts as agreement)", Value::Time(here)),
        );
    }
    finding.tables.push(table);
    if let Some((per_node, full)) = found.last() {
        let mut table = Table::new(
            format!("1,000 pairs with {per_node} ranks per node, by the hops to the lock's node"),
            ["hops", "ranks", "fastest", "median", "slowest"],
        );
        let mut medians = Vec::new();
        let most = full.hops.iter().copied().fold(0.0, f64::max) as u32;
        for hops in 0..=most {
            let at = full.hops.iter().zip(&full.end).filter(|(at, _)| **at == f64::from(hops));
            let ends: Vec<f64> = at.map(|(_, end)| *end).collect();
            if ends.is_empty() {
                continue;
            }
            let middle = median(ends.iter().copied());
            let (least, greatest) = ends.iter().fold((f64::MAX, 0.0_f64), |(a, b), &end| (a.min(end), b.max(end)));
            medians.push([least, middle, greatest].map(|time| (f64::from(hops), time)));
            table.row([
                Value::Count(hops.into()),
                Value::Count(ends.len() as u64),
                Value::Time(least),
                Value::Time(middle),
                Value::Time(greatest),
            ]);
        }
        finding.tables.push(table);
        let correlation = spearman(&full.hops, &full.end);
        finding.fitted(
            correlation >= 0.5,
            "ranks at fewer hops end first",
            format!("the rank correlation of hops and end is {correlation:.2}, simulated; 0.5 counts as agreement"),
        );
        let (fastest, slowest) = (full.fastest(), full.slowest());
        finding.fitted(
            (fastest / FASTEST).log2().abs() <= 1.0,
            "from 0.1 s to 2.2 s, with 32 ranks per node",
            format!(
                "from {} to {}, simulated; the fastest within a factor of two counts as agreement",
                Value::Time(fastest),
                Value::Time(slowest)
            ),
        );
        if (fastest / FASTEST).log2().abs() > 1.0 {
            finding.why = "the model shares a busy adapter equally among the paths to it, so that the ranks of the \
                           lock's own node get the share of a whole path; how much the real one favours them is known \
                           from figure 10's picture only"
                .into();
        }
        let of = |at: usize| medians.iter().map(|all| all[at]).collect::<Vec<_>>();
        let names = ["fastest", "median", "slowest"];
        let series = names.iter().enumerate().map(|(at, name)| Series {
            name: (*name).into(),
            origin: Origin::Simulated,
            style: at,
            points: of(at),
            spread: Vec::new(),
            group: String::new(),
        });
        finding.plots.push(Plot {
            name: "hops".into(),
            title: "1,000 pairs with 32 ranks per node, by distance".into(),
            x: Axis::new("hops to the node of the lock", Quantity::Number),
            y: Axis::new("time of 1,000 pairs", Quantity::Time),
            series: series.collect(),
            text: "Each point is the fastest, the middle and the slowest of the ranks at one distance. All ranks \
                   start at the same time and do the same; near ranks end several times sooner. Once the near ones \
                   have left, the far ones go faster, which is why the slowest are not slower still."
                .into(),
        });
    }
    let series = found.iter().enumerate().map(|(style, (per_node, times))| Series {
        name: format!("{per_node} a node"),
        origin: Origin::Simulated,
        style,
        // As many points as remain visible.
        points: {
            let every = times.end.len().div_ceil(256);
            let points = (0..).zip(&times.end).step_by(every);
            points.map(|(rank, &end)| (f64::from(rank) / f64::from(*per_node), end)).collect()
        },
        spread: Vec::new(),
        group: String::new(),
    });
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "1,000 pairs of each rank".into(),
        x: Axis::new("node of the rank", Quantity::Number),
        y: Axis::new("time of 1,000 pairs", Quantity::Time),
        series: series.collect(),
        text: "The study's figure 10 in one panel: the times of the ranks of each node. Eight times the ranks on the \
               same nodes take eight times as long, since all of them go through the one adapter that holds the lock. \
               The bands follow the torus: nodes with the same distance from node 0 end at the same time."
            .into(),
    });
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn near_ranks_end_first_and_more_ranks_take_longer() {
        let profile = Profile::find("fx100").unwrap();
        let stop = AtomicBool::new(false);
        let of = |per_node: u32| validate::locks(&profile, 32 * per_node, per_node, 50, &stop).unwrap();
        let (one, eight) = (of(1), of(8));
        assert!((eight.slowest() / one.slowest() / 8.0 - 1.0).abs() < 0.1, "{} {}", eight.slowest(), one.slowest());
        assert!(spearman(&eight.hops, &eight.end) > 0.5);
        let finding = report(&[(1, one), (8, eight)]);
        assert_eq!((finding.tables.len(), finding.plots.len(), finding.claims.len()), (2, 2, 4));
    }
}
