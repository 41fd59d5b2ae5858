//! foMPI's three-dimensional Fourier transform.

use super::{Context, Experiment};
use rmalab_apps::fft::How;
use rmalab_apps::support::defaults;
use rmalab_apps::{Application, Fft};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-fft",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), NAS 3-D FFT",
    title: "three-dimensional Fourier transform with overlapped puts",
    protocol: "A cube of complex numbers is transformed in slabs; each rank puts a plane as soon as it is transformed \
               (overlapped), or after the last plane (bulk), or sends two-sided messages. The same cube runs on more \
               and more ranks. Simulated on the Cray XE6's network (profile gemini), with 1 ns of computing for a \
               floating-point operation (assumed). There is one rank per node, since these few ranks would otherwise \
               share two nodes, in which the processor copies; and measured on 2 processes of this machine. Each run \
               is compared with the definition of four coefficients and with the inverse transform, up to 64³ with a \
               sequential transform.",
    found: "RMA is ahead of Cray's MPI-1 at all sizes, up to 65,536 processes (the slides give the gains as \
            annotations of a picture, not in words).",
    lesson: "Between the transforms of two directions every rank needs data of every other one. A transfer that \
             overlaps the remaining computing costs no time. Puts allow that without the target's help, and without \
             the copies and handshakes of messages.",
    seconds: (10, 100),
    run,
};

const NAMES: [&str; 3] = ["puts, overlapped", "puts, in bulk", "messages"];

fn run(context: &Context<'_>) -> Result<Finding> {
    let size: u32 = context.pick(64, 128);
    let job = |how, size| Fft { how, size, iterations: 1, ..defaults() };
    let hows = [How::Overlapped, How::Bulk, How::Messages];
    let ranks: Vec<u32> = (2..=size.ilog2()).map(|power| 1 << power).collect();
    let mut curves = Vec::new();
    for how in hows {
        let mut points = Vec::new();
        for &ranks in &ranks {
            let job = job(how, size);
            let ran = context.run(&job, &Ranks::simulated("gemini", ranks).ranks_per_node(1))?;
            points.push((f64::from(ranks), job.time(&ran)));
        }
        curves.push(points);
    }
    let local = |how| Fft { iterations: 5, ..job(how, 64) };
    let here = hows.map(|how| (local(how), Ranks::processes(2)));
    let times = context.medians(5, &here, |ran| here[0].0.time(ran))?;

    let mut finding = Finding::new();
    let columns = ["ranks", NAMES[0], NAMES[1], NAMES[2], "overlapped ahead of messages"];
    let mut table = Table::new(format!("Time of a transform of {size}³ numbers, simulated"), columns);
    for ((&(ranks, overlapped), &(_, bulk)), &(_, messages)) in curves[0].iter().zip(&curves[1]).zip(&curves[2]) {
        let row = [Value::Count(ranks as u64), Value::Time(overlapped), Value::Time(bulk), Value::Time(messages)];
        table.row(row.into_iter().chain([Value::Share(1.0 - overlapped / messages)]));
    }
    finding.tables.push(table);
    let mut table = Table::new("Time of a transform of 64³ numbers, 2 processes of this machine", ["version", "time"]);
    for (name, time) in NAMES.into_iter().zip(&times) {
        table.row([Value::from(name), Value::Time(*time)]);
    }
    finding.tables.push(table);

    let gains = |ahead: usize, behind: usize| {
        let gains = curves[ahead].iter().zip(&curves[behind]).map(|(a, b)| 1.0 - a.1 / b.1);
        gains.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), gain| (least.min(gain), most.max(gain)))
    };
    let (least, most) = gains(0, 2);
    let sizes = format!("{} to {} ranks", ranks[0], ranks[ranks.len() - 1]);
    finding.claim(
        least > 0.0,
        "RMA ahead of point-to-point at every size",
        format!("simulated, {sizes}: {} to {} less time", Value::Share(least), Value::Share(most)),
    );
    let (least, most) = gains(0, 1);
    finding.claim(
        most > 0.0 && least > -0.02,
        "puts that overlap the local transforms hide communication",
        format!("simulated, {sizes}: {} to {} less time than puts in bulk", Value::Share(least), Value::Share(most)),
    );
    let (exponent, _) = growth(&curves[0]);
    finding.claim(
        exponent < -0.5,
        "it scales with the ranks",
        format!("simulated, overlapped, {sizes}: time as ranks^{exponent:.2}; -1 would be perfect"),
    );
    let mut why = Vec::new();
    if finding.claims.iter().any(|claim| !claim.holds) {
        why.push(format!(
            "with {} ranks a rank has one plane, so no computing is left when it puts its pieces",
            ranks[ranks.len() - 1]
        ));
    }
    finding.why = why.join("; ");
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: format!("A transform of {size}³ complex numbers"),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("time of a transform", Quantity::Time),
        series: NAMES
            .into_iter()
            .zip(&curves)
            .enumerate()
            .map(|(style, (name, points))| Series {
                name: name.into(),
                origin: Origin::Simulated,
                style,
                points: points.clone(),
                spread: Vec::new(),
                group: String::new(),
            })
            .collect(),
        text: "Each doubling of the ranks halves the computing, and the bytes that a rank sends, but doubles the \
               pieces that to send them. So the curves fall together, and flatten where the start of the pieces \
               dominates the time. The distance between overlapped and bulk is the time hidden by computing; it is \
               largest while there is much of both. The messages' curve finally turns up: all ranks send to all at a \
               time, and each attempt to get a slot in a receiver's ring is an atomic operation on one word."
            .into(),
    });
    Ok(finding)
}
