//! foMPI's MILC.

use super::{Context, Experiment};
use rmalab_apps::halo::{How, Sync};
use rmalab_apps::support::defaults;
use rmalab_apps::{Application, Lattice};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-milc",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), MILC",
    title: "lattice conjugate gradients, weak scaling",
    protocol: "Conjugate gradients on a four-dimensional lattice, 4 × 4 × 4 × 8 sites for each rank: in each \
               iteration faces go to 8 neighbours, and two sums over all ranks. Faces by puts followed by a flag \
               under lock_all, by PSCW, by fences, and by two-sided messages. Simulated on the Cray XE6's network \
               (profile gemini, 32 ranks per node), 250 ns of computing for a site in an iteration (assumed: as many \
               floating-point operations at 1 ns); and measured on 2 processes of this machine. Separate code \
               computes the residual of each run, and up to 65,536 sites the solution is compared with a sequential \
               one.",
    found: "RMA is ahead of Cray's MPI-1 in the application's execution time, weakly scaled to 524,288 processes (the \
            slides give the gains as annotations of a picture, not in words).",
    lesson: "Lattice codes give each rank a small part of space and time, and ask the neighbours for their faces \
             before each application of the operator. Messages are matched, copied and acknowledged; a put goes where \
             it belongs, and a flag after it confirms the arrival. Sums over all ranks remain, and grow with the \
             logarithm of the ranks.",
    seconds: (20, 150),
    run,
};

/// Ranks of a node.
const NODE: u32 = 32;

const WAYS: [(&str, How, Sync); 4] = [
    ("puts with flags", How::Window, Sync::Flags),
    ("PSCW", How::Window, Sync::Pscw),
    ("fence", How::Window, Sync::Fence),
    ("messages", How::Messages, Sync::Flags),
];

fn run(context: &Context<'_>) -> Result<Finding> {
    let ranks = context.pick(vec![16_u32, 64, 256, 512], vec![16, 64, 256, 512, 1024, 2048]);
    let job = |how, sync| Lattice { how, sync, tolerance: 1e-3, ..defaults() };
    let mut curves = Vec::new();
    let mut residual = 0.0_f64;
    for (_, how, sync) in WAYS {
        let job = job(how, sync);
        let mut points = Vec::new();
        for &ranks in &ranks {
            let ran = context.run(&job, &Ranks::simulated("gemini", ranks))?;
            let Some(first) = ran.ranks.first() else { continue };
            residual = residual.max(first.checked.map_or(f64::NAN, |checked| checked.residual));
            points.push((f64::from(ranks), job.time(&ran) / f64::from(first.iterations.max(1))));
        }
        curves.push(points);
    }
    let here = WAYS.map(|(_, how, sync)| (Lattice { tolerance: 1e-8, ..job(how, sync) }, Ranks::processes(2)));
    let iteration = |ran: &rmalab_job::Ran<_>| here[0].0.time(ran) / f64::from(ran.ranks[0].iterations.max(1));
    let times = context.medians(5, &here, iteration)?;

    let mut finding = Finding::new();
    let columns = ["ranks", WAYS[0].0, WAYS[1].0, WAYS[2].0, WAYS[3].0, "flags ahead of messages"];
    let mut table = Table::new("Time of an iteration", columns);
    for (i, &ranks) in ranks.iter().enumerate() {
        let row = curves.iter().map(|curve| Value::Time(curve[i].1));
        let gain = Value::Share(1.0 - curves[0][i].1 / curves[3][i].1);
        table.row([Value::Count(ranks.into())].into_iter().chain(row).chain([gain]));
    }
    let gain = Value::Share(1.0 - times[0] / times[3]);
    let row = times.iter().map(|&time| Value::Time(time));
    table.row([Value::from("2 processes here")].into_iter().chain(row).chain([gain]));
    finding.tables.push(table);

    let gains = curves[0].iter().zip(&curves[3]).map(|(puts, messages)| 1.0 - puts.1 / messages.1);
    let (least, most) =
        gains.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), gain| (least.min(gain), most.max(gain)));
    let sizes = format!("{} to {} ranks", ranks[0], ranks[ranks.len() - 1]);
    finding.claim(
        least > 0.0,
        "RMA ahead of point-to-point at every size",
        format!("simulated, {sizes}: {} to {} less time", Value::Share(least), Value::Share(most)),
    );
    // From this number of ranks on a rank has neighbours on other nodes.
    let between: Vec<(f64, f64)> = curves[0].iter().copied().filter(|point| point.0 > f64::from(NODE)).collect();
    let (exponent, _) = growth(&between);
    finding.claim(
        exponent < 0.1,
        "weak scaling: the time hardly grows with the ranks",
        format!(
            "simulated, puts with flags, from two nodes on: an iteration takes time as ranks^{exponent:.2}; from one \
             node to two it takes {} more, as faces begin to leave the nodes",
            Value::Share(between.first().map_or(f64::NAN, |point| point.1) / curves[0][0].1 - 1.0)
        ),
    );
    if exponent >= 0.1 {
        finding.why = "each further direction in which the ranks span nodes adds faces that leave a node by its one \
                       adapter, and the two sums of an iteration take log2(p) rounds each"
            .into();
    } else if least <= 0.0 {
        finding.why = "a rank's computing hides the differences between the paths of the faces".into();
    }
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "An iteration of conjugate gradients, 512 sites a rank".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("time of an iteration", Quantity::Time),
        series: WAYS
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
        text: format!(
            "With as many sites for each rank, a perfect program has horizontal lines. All lines rise because faces \
             leave their nodes, and because of the sums over all ranks. A fence adds a barrier, which synchronization \
             between neighbours does not need. The largest residual of all these runs, computed \
             apart, is {residual:.1e} of the right-hand side, where 1e-3 was asked for."
        ),
    });
    Ok(finding)
}
