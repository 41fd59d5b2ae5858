//! DART's RandomAccess: shared windows within nodes against RMA calls only.

use super::{Context, Experiment};
use crate::Result;
use crate::applications::{RandomAccess, Strategies, Update};
use crate::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};
use crate::job::Ranks;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "dart-gups",
    source: "DART-MPI (Zhou, Idrees, Gracia, Euro-Par'15), section 4.2, figure 5",
    title: "HPCC RandomAccess, 2 to 1,024 ranks",
    protocol: "Random words of a distributed table are read, changed and written back, each by a blocking get and a blocking put, and \
               the table is verified by the benchmark's rules. Hybrid: what is on the own node is reached by loads and stores, as \
               by shared windows nested in dynamic ones; the rest by RMA. RMA only: everything through the network adapter. \
               Simulated on the Cray XC (profile aries, 24 ranks a node as on Hornet), where the processor or the adapter carries \
               out what stays within a node; and measured on 2 and 4 processes of this machine, there by global pointers against \
               get, put and flush of an allocated window.",
    found: "The hybrid is ahead of native MPI RMA at every number of ranks; across nodes the gap narrows, as fewer accesses stay \
            within a node.",
    lesson: "RandomAccess does nothing but update 8-byte words anywhere in a table that is spread over all ranks, so it shows what a \
             single small access costs. Where ranks share memory, a load takes nanoseconds, and the detour through a network \
             adapter a microsecond; a runtime system that looks where the word is before it goes there wins the difference, for \
             as many accesses as stay on the node.",
    seconds: (20, 60),
    run,
};

/// Ranks of a node of the paper's machine.
const NODE: u32 = 24;

fn access(how: Update, log2_words: u32, updates: u64) -> RandomAccess {
    RandomAccess { log2_words, updates: Some(updates), how, look_ahead: 1, strategies: Strategies::default() }
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let each = context.pick(100, 400);
    let ranks: Vec<u32> = (1..=10).map(|power| 1 << power).collect();
    let mut curves = [Vec::new(), Vec::new()];
    for &ranks in &ranks {
        // 1,024 words for each rank.
        let job = access(Update::GetPut, ranks.ilog2() + 10, each * u64::from(ranks));
        for (curve, by_adapter) in curves.iter_mut().zip([false, true]) {
            let world = Ranks::simulated("aries", ranks).ranks_per_node(NODE).atomics_by_adapter(by_adapter);
            curve.push((f64::from(ranks), job.rate(&context.run(&job, &world)?)));
        }
    }
    let updates = context.pick(400_000, 2_000_000);
    let mut here = Vec::new();
    for ranks in [2, 4] {
        let jobs = [Update::DartGetPut, Update::GetPut]
            .map(|how| (access(how, 20, updates / u64::from(ranks / 2)), Ranks::processes(ranks)));
        let rates = context.medians(5, &jobs, |ran| jobs[0].0.rate(ran))?;
        here.push((ranks, rates[0], rates[1]));
    }

    let mut finding = Finding::new();
    let mut table = Table::new(
        "Updates a second of all ranks",
        ["ranks", "hybrid", "RMA only", "hybrid in RMA only", "on the own node"],
    );
    let pairs = || curves[0].iter().zip(&curves[1]).map(|(&(ranks, hybrid), &(_, rma))| (ranks, hybrid, rma));
    for (ranks, hybrid, rma) in pairs() {
        let local = (f64::from(NODE) / ranks).min(1.0);
        let values = [Value::Rate(hybrid), Value::Rate(rma), Value::Ratio(hybrid / rma), Value::Share(local)];
        table.row(std::iter::once(Value::Count(ranks as u64)).chain(values));
    }
    for &(ranks, hybrid, rma) in &here {
        let values = [Value::Rate(hybrid), Value::Rate(rma), Value::Ratio(hybrid / rma), Value::Share(1.0)];
        table.row(std::iter::once(Value::from(format!("{ranks} processes here"))).chain(values));
    }
    finding.tables.push(table);

    let gains: Vec<f64> = pairs().map(|(_, hybrid, rma)| hybrid / rma).collect();
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    finding.claim(
        least > 1.0,
        "the hybrid is ahead of RMA only at every number of ranks from 2 to 1,024",
        format!("simulated: {} at least", Value::Ratio(least)),
    );
    let measured = here.iter().map(|&(ranks, hybrid, rma)| format!("{} on {ranks}", Value::Ratio(hybrid / rma)));
    finding.claim(
        here.iter().all(|(_, hybrid, rma)| hybrid > rma),
        "the same within one node",
        format!("measured, processes of this machine: {}", measured.collect::<Vec<_>>().join(", ")),
    );
    let (node, most) = (gains[3], gains[gains.len() - 1]);
    finding.claim(
        most < node,
        "across nodes the gap narrows, as more accesses leave the node",
        format!("simulated: {} at 16 ranks, one node; {} at 1,024, 43 nodes", Value::Ratio(node), Value::Ratio(most)),
    );
    if finding.claims.iter().any(|claim| !claim.holds) {
        finding.why = WHY.into();
    }
    let series =
        |name: &str, style, points: Vec<(f64, f64)>, origin| Series { name: name.into(), origin, style, points };
    let [hybrid, rma] = curves;
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "RandomAccess".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("updates of all ranks", Quantity::Rate),
        series: vec![
            series("hybrid", 0, hybrid, Origin::Simulated),
            series("RMA only", 1, rma, Origin::Simulated),
            series("hybrid", 0, here.iter().map(|&(ranks, rate, _)| (f64::from(ranks), rate)).collect(), Origin::Measured),
            series("RMA only", 1, here.iter().map(|&(ranks, _, rate)| (f64::from(ranks), rate)).collect(), Origin::Measured),
        ],
        text: "Within one node (up to 24 ranks) the hybrid's updates are loads and stores, and the distance between the lines is \
               that between the processor and the adapter. Where the second node begins the hybrid falls, since every other \
               update now crosses the network, and from there on both lines are nearly one: what still separates them is the \
               share of updates that happen to stay on the node."
            .into(),
    });
    Ok(finding)
}

/// Why the hybrid is not ahead among processes of one machine.
const WHY: &str = "among processes of this machine our windows are loads and stores as well, so that global pointers, which also \
                   look a segment up, have no detour through a network layer to save";
