//! MVAPICH2's process skew: computation at the target between post and wait.

use super::infiniband::{Design, Epochs, Pattern, because, cluster, curves, measured, series, simulated};
use super::{Context, Experiment};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ib-skew",
    source: "MVAPICH2 (Jiang and others, CCGrid 2004), section 5.6, figure 11",
    title: "computation of the target between post and wait, 64 KiB",
    protocol: "The bandwidth test, 16 puts of 64 KiB in an epoch; the target computes between post and wait. \
               Bandwidth against that computation, as a share of the epoch's time without it. Simulated \
               on the paper's cluster (profile infiniband-2004), and measured on 2 processes of this machine.",
    found: "The one-sided design is not affected; the bandwidth of the design over sends and receives drops.",
    lesson: "Processes are never exactly in step. If an operation needs its target's answer, the origin waits for \
             the target's computing. A put into the memory of a process does not need the process: the target may \
             compute during the transfer, and finds the data there.",
    seconds: (8, 30),
    run,
};

const BURST: u32 = 16;

const BYTES: usize = 65536;

/// Computation at the target, as a share of the time of an epoch.
const PARTS: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];

fn run(context: &Context<'_>) -> Result<Finding> {
    let job = |design, skew, world: &Ranks| {
        Epochs { skew, ..Epochs::new(design, Pattern::Puts, BYTES).burst(BURST) }.on(world.clone())
    };
    let jobs = |times: &[u64], world: &Ranks| -> Vec<(Epochs, Ranks)> {
        Design::ALL.into_iter().flat_map(|design| times.iter().map(move |&time| job(design, time, world))).collect()
    };
    let skews = |epoch: f64| PARTS.map(|part| (part * epoch) as u64);
    let bandwidth = |_: f64, time: f64| f64::from(BURST) * BYTES as f64 / (time * 1e-9);
    let (network, processes) = (cluster(2), Ranks::processes(2));
    let epoch = simulated(context, &[job(Design::Rdma, 0, &network)])?[0];
    let epoch_here = measured(context, &[job(Design::Rdma, 0, &processes)])?[0];
    let cluster = curves(&PARTS, &simulated(context, &jobs(&skews(epoch), &network))?, bandwidth);
    let here = curves(&PARTS, &measured(context, &jobs(&skews(epoch_here), &processes))?, bandwidth);

    let mut finding = Finding::new();
    for (name, place, epoch, curves, origin) in [
        ("cluster", "simulated", epoch, &cluster, Origin::Simulated),
        ("here", "2 processes here", epoch_here, &here, Origin::Measured),
    ] {
        let columns = ["computation".to_owned()].into_iter().chain(Design::ALL.map(|design| design.name().to_owned()));
        let mut table = Table::new(format!("Bandwidth, {place}; an epoch takes {}", Value::Time(epoch)), columns);
        for (row, part) in PARTS.iter().enumerate() {
            let rates = curves.iter().map(|curve| Value::Bandwidth(curve[row].1));
            table.row([Value::Time(part * epoch)].into_iter().chain(rates));
        }
        finding.tables.push(table);
        let last = PARTS.len() - 1;
        let left: Vec<f64> = curves.iter().map(|curve| curve[last].1 / curve[0].1).collect();
        // The share of the computation by which epochs become longer.
        let time = |rate: f64| f64::from(BURST) * BYTES as f64 / rate * 1e9;
        let shows: Vec<f64> =
            curves.iter().map(|curve| (time(curve[last].1) - time(curve[0].1)) / (PARTS[last] * epoch)).collect();
        let says = |style: usize| {
            format!(
                "{place}, {}: {} of the bandwidth are left when the target computes for {}, {} of which show",
                Design::ALL[style].name(),
                Value::Share(left[style]),
                Value::Time(PARTS[last] * epoch),
                Value::Share(shows[style])
            )
        };
        finding.claim(
            shows[0] < if origin == Origin::Simulated { 0.05 } else { 0.3 },
            "process skew does not affect one-sided puts",
            says(0),
        );
        if origin == Origin::Measured {
            because(
                &mut finding,
                "the origin's processor copies the puts. It shares memory and caches, and under load the \
                 processor itself, with the target that computes",
            );
        }
        for other in [1, 2] {
            let lowers = "it lowers the bandwidth of sends and receives";
            finding.claim(shows[other] > 0.5, lowers, says(other));
            if origin == Origin::Measured {
                because(
                    &mut finding,
                    "an epoch over messages takes many times as long here as the computation. That overlaps the wait \
                     of requests in their slots, and is less than the variation of two processors that copy at the \
                     same time",
                );
            }
        }
        finding.plots.push(Plot {
            name: name.into(),
            title: format!("Bandwidth of 16 puts of 64 KiB to a target that computes, {place}"),
            x: Axis::new("the target's computation, as a share of an epoch", Quantity::Share),
            y: Axis::new("bandwidth", Quantity::Bandwidth),
            series: series(&Design::ALL, curves, origin),
            text: "A flat line means that the target's computation does not affect the origin: meanwhile, \
                   data arrive. A line that falls means that the origin waits for the target to serve it, so that its \
                   computation and the transfer add up. Computation that takes longer than an epoch would slow every \
                   design down, since the next post comes after it."
                .into(),
        });
    }
    Ok(finding)
}
