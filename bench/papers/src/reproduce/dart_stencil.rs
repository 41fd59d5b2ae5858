//! DART's five-point stencil.

use super::{Context, Experiment};
use rmalab_apps::halo::{How, Sync};
use rmalab_apps::support::defaults;
use rmalab_apps::{Application, Stencil};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "dart-stencil",
    source: "DART (Zhou, Idrees, Gracia, Euro-Par'15), section 4.2, figure 6",
    title: "five-point Gauss-Seidel stencil",
    protocol: "A grid of 4-byte numbers is solved by rows, halo rows by blocking puts: 64 × 64 to convergence on 4, 8 \
               and 16 ranks of one node, 1024 × 1024 on 64 to 512 ranks, of which 20 iterations are timed, as all \
               versions need the same number. Simulated on the paper's kind of machine, a Cray XC40 with 24 ranks a \
               node (profile aries), 2 ns of computing for a point (assumed). DART: inside a node the processor \
               copies; native RMA: the adapter carries out puts there, too; messages: two-sided. The order is \
               red-black, so that the result equals the result of a sequential run to the bit; a barrier follows each \
               exchange, which the paper does not mention. Also measured on 2 processes of this machine.",
    found: "On one node DART outperforms native MPI by about 35 % on 16 processes; on several nodes its time \
            decreases as processes are added.",
    lesson: "A stencil computes a little, then needs its neighbours' border, repeatedly. With few rows for each rank \
             the exchange takes most of the time, and most neighbours are on the same node: so the cost of a put \
             inside a node decides. With many nodes some neighbours are far, and all ranks wait for the slowest.",
    seconds: (20, 60),
    run,
};

/// The compared versions: their name, the transport of data, and whether adapters carry out puts inside a node.
const VERSIONS: [(&str, How, bool); 3] =
    [("DART", How::Window, false), ("native RMA", How::Window, true), ("messages", How::Messages, true)];

/// DART's lead in the paper, and the least lead that counts as about as much.
const AHEAD: (f64, f64) = (0.35, 0.25);

fn run(context: &Context<'_>) -> Result<Finding> {
    let small = |how| Stencil { how, sync: Sync::Fence, tolerance: context.pick(1e-3, 1e-5), ..defaults() };
    let large = |how| Stencil { size: 1024, iterations: context.pick(10, 20), every: 10, tolerance: 0.0, ..small(how) };
    let mut finding = Finding::new();
    let mut pages = Vec::new();
    for (size, ranks) in [(64_u32, vec![4_u32, 8, 16]), (1024, vec![64, 128, 256, 512])] {
        let mut curves = Vec::new();
        let mut iterations = 0;
        for (_, how, by_adapter) in VERSIONS {
            let job = if size == 64 { small(how) } else { large(how) };
            let mut points = Vec::new();
            for &ranks in &ranks {
                let world = Ranks::simulated("aries", ranks)
                    .ranks_per_node(24)
                    .atomics_by_adapter(false)
                    .bulk_by_adapter(by_adapter);
                let ran = context.run(&job, &world)?;
                iterations = ran.ranks.first().map_or(0, |solved| solved.iterations);
                points.push((f64::from(ranks), job.time(&ran)));
            }
            curves.push(points);
        }
        let title = format!("{size} × {size} points, {iterations} iterations, simulated");
        let mut table =
            Table::new(title.clone(), ["ranks", "DART", "native RMA", "messages", "DART ahead of native RMA"]);
        for ((&(ranks, dart), &(_, native)), &(_, messages)) in curves[0].iter().zip(&curves[1]).zip(&curves[2]) {
            let row = [Value::Count(ranks as u64), Value::Time(dart), Value::Time(native), Value::Time(messages)];
            table.row(row.into_iter().chain([Value::Share(1.0 - dart / native)]));
        }
        finding.tables.push(table);
        finding.plots.push(Plot {
            name: format!("grid-{size}"),
            title,
            x: Axis::new("ranks", Quantity::Count),
            y: Axis::new("time of all iterations", Quantity::Time),
            series: VERSIONS
                .iter()
                .zip(&curves)
                .enumerate()
                .map(|(style, (&(name, ..), points))| Series {
                    name: name.into(),
                    origin: Origin::Simulated,
                    style,
                    points: points.clone(),
                    spread: Vec::new(),
                    group: String::new(),
                })
                .collect(),
            text: if size == 64 {
                "All ranks are on one node. A rank of 16 has 4 rows, which take it less time than the adapter takes \
                 for the exchange; so more ranks hardly help where puts go through it, and do where they are stores."
                    .into()
            } else {
                "Most neighbours are on the same node, but after each exchange all ranks wait for the others. The \
                 time still falls, since each rank has less to compute."
                    .into()
            },
        });
        pages.push(curves);
    }
    let last = |curve: &[(f64, f64)]| curve.last().map_or(f64::NAN, |point| point.1);
    let ahead = 1.0 - last(&pages[0][0]) / last(&pages[0][1]);
    finding.claim(
        ahead >= AHEAD.1,
        format!("64 × 64, 16 ranks of one node: DART about {} faster than native MPI", Value::Share(AHEAD.0)),
        format!("simulated: {} faster than native RMA", Value::Share(ahead)),
    );
    let falls = pages[1][0].windows(2).all(|pair| pair[1].1 < pair[0].1);
    finding.claim(
        falls,
        "1024 × 1024: DART's time decreases from 64 to 512 ranks",
        format!(
            "simulated: {}",
            pages[1][0].iter().map(|&(_, time)| Value::Time(time).to_string()).collect::<Vec<_>>().join(", ")
        ),
    );

    let here = [How::Dart, How::Window, How::Messages].map(|how| (small(how), Ranks::processes(2)));
    let times = context.medians(5, &here, |ran| here[0].0.time(ran))?;
    let mut table =
        Table::new("64 × 64 points, 2 processes of this machine, measured", ["version", "time", "times DART's"]);
    for (name, time) in ["DART", "native RMA", "messages"].into_iter().zip(&times) {
        table.row([Value::from(name), Value::Time(*time), Value::Ratio(time / times[0])]);
    }
    finding.tables.push(table);
    if !falls {
        finding.why = "the barrier after each exchange takes longer with more ranks".into();
    }
    Ok(finding)
}
