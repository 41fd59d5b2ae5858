//! MVAPICH2's synchronization overhead: empty epochs against the number of origins.

use super::infiniband::{Design, Epochs, Pattern, beside, cluster, curves, measured, near, series, simulated};
use super::{Context, Experiment};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ib-sync",
    source: "MVAPICH2 (Jiang and others, CCGrid 2004), section 5.4, figure 9",
    title: "empty epochs against the number of origins",
    protocol: "One target posts to all origins and waits; each origin starts and completes; there are no operations. \
               The time of an iteration. Simulated on the paper's cluster of 8 nodes (profile infiniband-2004), 1 to \
               7 origins, and measured on 2 and 4 processes of this machine.",
    found: "With one origin 14.78 µs instead of 16.52 µs; also slightly less with several.",
    lesson: "Post, start, complete and wait are two messages for each pair, one there and one back, in every design. \
             The second one cannot leave before the arrival of the first. So an empty epoch costs twice as much as a \
             small message, and each origin adds the target's cost to notify it and to notice its message.",
    seconds: (10, 30),
    run,
};

const ORIGINS: [u32; 7] = [1, 2, 3, 4, 5, 6, 7];

fn run(context: &Context<'_>) -> Result<Finding> {
    let jobs = |worlds: &[Ranks]| -> Vec<(Epochs, Ranks)> {
        let each =
            |design| worlds.iter().map(move |world| Epochs::new(design, Pattern::Puts, 0).burst(0).on(world.clone()));
        Design::ALL.into_iter().flat_map(each).collect()
    };
    let clusters = ORIGINS.map(|origins| cluster(origins + 1));
    let cluster = curves(&ORIGINS.map(f64::from), &simulated(context, &jobs(&clusters))?, |_, time| time);
    let here = measured(context, &jobs(&[2, 4].map(Ranks::processes)))?;
    let here = curves(&[1.0, 3.0], &here, |_, time| time);

    let mut finding = Finding::new();
    let columns = ["origins"].into_iter().chain(Design::ALL.map(Design::name));
    let mut table = Table::new("Time of an empty epoch, simulated", columns.clone());
    for (row, &origins) in ORIGINS.iter().enumerate() {
        let times = cluster.iter().map(|curve| Value::Time(curve[row].1));
        table.row([Value::Count(origins.into())].into_iter().chain(times));
    }
    finding.tables.push(table);
    let mut table = Table::new("Time of an empty epoch, processes here", columns);
    for row in 0..2 {
        let times = here.iter().map(|curve| Value::Time(curve[row].1));
        table.row([Value::Count(here[0][row].0 as u64)].into_iter().chain(times));
    }
    finding.tables.push(table);

    let one = [cluster[0][0].1, cluster[1][0].1];
    for (time, paper, name) in [(one[0], 14_780.0, "one-sided"), (one[1], 16_520.0, "send/receive")] {
        finding.claim(
            near(time, paper),
            format!("one origin, {name}: {}", Value::Time(paper)),
            format!("simulated: {}", beside(Value::Time, time, paper)),
        );
    }
    let less = |curves: &[Vec<(f64, f64)>], row: usize| 1.0 - curves[0][row].1 / curves[1][row].1;
    finding.claim(
        less(&cluster, 0) > 0.0 && less(&cluster, 0) < 0.21,
        "with one origin 10.5 % less (13 % as the paper counts it)",
        format!("simulated: {} less", Value::Share(less(&cluster, 0))),
    );
    let all = (0..ORIGINS.len()).all(|row| less(&cluster, row) > 0.0);
    finding.claim(
        all,
        "one-sided is ahead at every number of origins",
        format!(
            "simulated: by {} to {}",
            Value::Share((0..7).map(|row| less(&cluster, row)).fold(1.0, f64::min)),
            Value::Share((0..7).map(|row| less(&cluster, row)).fold(0.0, f64::max))
        ),
    );
    for other in [1, 2] {
        let ratio = here[other][0].1 / here[0][0].1;
        finding.claim(
            ratio > 1.0,
            format!("one-sided is ahead of {}", Design::ALL[other].name()),
            format!("2 processes here: that takes {} of its time", Value::Ratio(ratio)),
        );
    }
    let mut shown = series(&Design::ALL, &cluster, Origin::Simulated);
    for (style, time) in [14_780.0, 16_520.0].into_iter().enumerate() {
        let name = format!("{}, the paper", Design::ALL[style].name());
        shown.push(rmalab_report::finding::Series {
            name,
            origin: Origin::Published,
            style,
            points: vec![(1.0, time)],
            spread: Vec::new(),
            group: String::new(),
        });
    }
    finding.plots.push(Plot {
        name: "origins".into(),
        title: "Time of an empty epoch, on the paper's cluster".into(),
        x: Axis::new("origins", Quantity::Count),
        y: Axis::new("time of an epoch", Quantity::Time),
        series: shown,
        text: "The height at one origin is two messages that follow each other. From there, a curve rises by the \
               target's work for each further origin: to put a flag and poll one, or to send a message and receive \
               one."
            .into(),
    });
    Ok(finding)
}
