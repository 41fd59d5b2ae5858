//! foMPI's distributed hash table.

use super::{Context, Experiment};
use rmalab_apps::{HashTable, Strategies};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-hashtable",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), section 4.1, figure 7a",
    title: "random inserts into a distributed hash table",
    protocol: "Every rank inserts random keys: a compare_and_swap into the slot; if it is taken, a fetch_and_op for a \
               cell of the overflow heap and a compare_and_swap that links it. Simulated on the Cray XE6's network \
               (profile gemini, 32 ranks per node), and measured on 1, 2 and 4 processes of this machine. The same over \
               messages, which the target serves (two-sided transport), is run beside it.",
    found: "Inserts per second scale with the number of ranks.",
    lesson: "A hash table needs no order among its inserts, only a single owner of each slot. A compare_and_swap at \
             the target ensures that without the target's help. So twice the ranks insert twice as much, as long as \
             keys are spread evenly, no word is shared by all, and the network carries the messages.",
    seconds: (15, 60),
    run,
};

fn job(inserts: u64, transport: &str) -> HashTable {
    let strategies = Strategies { transport: Some(transport.into()), ..Strategies::default() };
    HashTable { inserts, slots: None, seed: 1, strategies }
}

const TRANSPORTS: [&str; 2] = ["one-sided", "two-sided"];

fn run(context: &Context<'_>) -> Result<Finding> {
    let inserts = 100;
    let ranks: Vec<u32> = (0..=context.pick(10, 12)).map(|power| 1 << power).collect();
    let mut curves = Vec::new();
    for transport in TRANSPORTS {
        let job = job(inserts, transport);
        let mut points = Vec::new();
        for &ranks in &ranks {
            points.push((f64::from(ranks), job.rate(&context.run(&job, &Ranks::simulated("gemini", ranks))?)));
        }
        curves.push(points);
    }
    let inserts = context.pick(200_000, 1_000_000);
    let processes = [1, 2, 4];
    let jobs: Vec<_> = processes.iter().map(|&ranks| (job(inserts, "one-sided"), Ranks::processes(ranks))).collect();
    let here = context.medians(5, &jobs, |ran| jobs[0].0.rate(ran))?;

    let mut finding = Finding::new();
    let mut table = Table::new("Inserts per second", ["ranks", "all ranks", "each rank", "all ranks, by messages"]);
    for (&(ranks, rate), &(_, messages)) in curves[0].iter().zip(&curves[1]) {
        table.row([Value::Count(ranks as u64), Value::Rate(rate), Value::Rate(rate / ranks), Value::Rate(messages)]);
    }
    for (&ranks, &rate) in processes.iter().zip(&here) {
        let name = Value::from(format!("{ranks} processes here"));
        table.row([name, Value::Rate(rate), Value::Rate(rate / f64::from(ranks)), Value::None]);
    }
    finding.tables.push(table);

    let nodes: Vec<(f64, f64)> = curves[0].iter().copied().filter(|point| point.0 >= 64.0).collect();
    let (exponent, explained) = growth(&nodes);
    finding.claim(
        exponent > 0.8,
        "inserts per second scale with the ranks",
        format!(
            "simulated, 64 to {} ranks: as p^{exponent:.2}, R² {explained:.3}; 1 would be in proportion, and paths \
             through a larger torus are longer",
            ranks.last().unwrap_or(&0)
        ),
    );
    let measured: Vec<(f64, f64)> =
        processes.iter().zip(&here).map(|(&ranks, &rate)| (f64::from(ranks), rate)).collect();
    let series = |name: &str, style, origin, points: &[(f64, f64)]| Series {
        name: name.into(),
        origin,
        style,
        points: points.to_vec(),
        spread: Vec::new(),
        group: String::new(),
    };
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "Random inserts into a hash table".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("inserts of all ranks", Quantity::Rate),
        series: vec![
            series("one-sided", 0, Origin::Simulated, &curves[0]),
            series("messages", 1, Origin::Simulated, &curves[1]),
            series("one-sided", 0, Origin::Measured, &measured),
        ],
        text: "A straight line that rises by a factor of ten for ten times the ranks is perfect scaling. Within the \
               first node (up to 32 ranks) the line bends: all inserts go through one network adapter, which is \
               saturated from 8 ranks on. Each further node adds an adapter, and the line is straight again. By \
               messages an insert waits until its target polls its queue, which costs about a factor of ten."
            .into(),
    });
    Ok(finding)
}
