//! MVAPICH2's aggregate bandwidth of several origins to one target.

use super::infiniband::{Design, Epochs, Pattern, beside, cluster, curves, measured, near, series, simulated};
use super::{Context, Experiment};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ib-origins",
    source: "MVAPICH2 (Jiang and others, CCGrid 2004), section 5.7, figure 12",
    title: "several origins put to one target, 64 KiB, 16 in an epoch",
    protocol: "All origins put 16 times 64 KiB to one target in each epoch; their bytes by the time of an epoch. \
               Simulated on the paper's cluster of 8 nodes (profile infiniband-2004), 1 to 7 origins, and measured on \
               2 and 4 processes of this machine.",
    found: "More than 920 MB/s even with few origins, against at most 895 MB/s over sends and receives; the bus of \
            the target limits both.",
    lesson: "With several origins the target is the bottleneck: its adapter, its bus, or its processor. One-sided \
             writes need only the first two. The target processor's work for each message adds to that, \
             unless it is done while bytes of other origins arrive.",
    seconds: (10, 30),
    run,
};

const BURST: u32 = 16;

const BYTES: usize = 65536;

const ORIGINS: [u32; 7] = [1, 2, 3, 4, 5, 6, 7];

fn run(context: &Context<'_>) -> Result<Finding> {
    let jobs = |worlds: &[Ranks]| -> Vec<(Epochs, Ranks)> {
        let each = |design| {
            worlds.iter().map(move |world| Epochs::new(design, Pattern::Puts, BYTES).burst(BURST).on(world.clone()))
        };
        Design::ALL.into_iter().flat_map(each).collect()
    };
    let bandwidth = |origins: f64, time: f64| origins * f64::from(BURST) * BYTES as f64 / (time * 1e-9);
    let clusters = ORIGINS.map(|origins| cluster(origins + 1));
    let cluster = curves(&ORIGINS.map(f64::from), &simulated(context, &jobs(&clusters))?, bandwidth);
    let here = measured(context, &jobs(&[2, 4].map(Ranks::processes)))?;
    let here = curves(&[1.0, 3.0], &here, bandwidth);

    let mut finding = Finding::new();
    let columns = ["origins"].into_iter().chain(Design::ALL.map(Design::name));
    let mut table = Table::new("Bandwidth of all origins, simulated", columns.clone());
    for (row, &origins) in ORIGINS.iter().enumerate() {
        let rates = cluster.iter().map(|curve| Value::Bandwidth(curve[row].1));
        table.row([Value::Count(origins.into())].into_iter().chain(rates));
    }
    finding.tables.push(table);
    let mut table = Table::new("Bandwidth of all origins, processes here", columns);
    for row in 0..2 {
        let rates = here.iter().map(|curve| Value::Bandwidth(curve[row].1));
        table.row([Value::Count(here[0][row].0 as u64)].into_iter().chain(rates));
    }
    finding.tables.push(table);

    let peak = |curve: &[(f64, f64)]| curve.iter().map(|point| point.1).fold(0.0, f64::max);
    for (style, paper, says) in [(0, 920e6, "more than 920 MB/s"), (1, 895e6, "895 MB/s at most")] {
        let most = peak(&cluster[style]);
        finding.claim(
            near(most, paper),
            format!("{}: {says}", Design::ALL[style].name()),
            format!(
                "simulated: up to {}; its adapter has 865 MB/s, one origin's figure, which it cannot exceed",
                beside(Value::Bandwidth, most, paper)
            ),
        );
    }
    let ahead = cluster[0].iter().zip(&cluster[1]).all(|(one, two)| one.1 > two.1);
    finding.claim(
        ahead && peak(&cluster[0]) > peak(&cluster[1]),
        "one-sided is ahead, by a few per cent",
        format!("simulated: its peak is {} of the other one's", Value::Ratio(peak(&cluster[0]) / peak(&cluster[1]))),
    );
    let few = cluster[0][1].1 / peak(&cluster[0]);
    finding.claim(
        few > 0.95,
        "one-sided reaches its peak with few origins",
        format!("simulated: two of them reach {} of it", Value::Share(few)),
    );
    for (row, processes) in [(0, 2), (1, 4)] {
        let ratio = here[0][row].1 / here[2][row].1;
        finding.claim(
            ratio > 1.0,
            "one-sided is ahead of the design that needs the target",
            format!("{processes} processes here: {} of the two-sided transport's bandwidth", Value::Ratio(ratio)),
        );
    }
    finding.plots.push(Plot {
        name: "origins".into(),
        title: "Bandwidth of several origins to one target, on the paper's cluster".into(),
        x: Axis::new("origins", Quantity::Count),
        y: Axis::new("bandwidth of all origins", Quantity::Bandwidth),
        series: series(&Design::ALL, &cluster, Origin::Simulated),
        text: "With one origin the latency of each epoch's synchronization shows. With more, one origin's epoch \
               begins while another one's bytes arrive, and the target's adapter always has something to do: the \
               curves become flat at its limit. The speed of that, and the level, depend on the \
               target's processor."
            .into(),
    });
    Ok(finding)
}
