//! MVAPICH2's overlap of communication and computation.

use super::infiniband::{Design, Epochs, Pattern, because, cluster, curves, measured, series, simulated};
use super::{Context, Experiment};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ib-overlap",
    source: "MVAPICH2 (Jiang and others, CCGrid 2004), section 5.5, figure 10",
    title: "computation after each put, 64 KiB",
    protocol: "The bandwidth test, 16 puts of 64 KiB in an epoch, with computation after each; the time of an epoch \
               against the computation. Simulated on the paper's cluster (profile infiniband-2004), where a put takes \
               76 µs of the wire, and measured on 2 processes of this machine.",
    found: "Computation slows only the design over sends and receives down, not the one-sided one.",
    lesson: "A processor is free after it has issued a transfer to its adapter. Otherwise operations begin only at the \
             epoch's end, or a handshake needs the processor while it computes. Then the program computes first and \
             communicates afterwards, and the times add up. This experiment measures that.",
    seconds: (8, 30),
    run,
};

const BURST: u32 = 16;

const BYTES: usize = 65536;

/// Computation after a put, as a share of the put's time.
const PARTS: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];

/// The share of the computation that is visible in the time of an epoch, which other causes can also change.
fn shows_as(share: f64) -> String {
    if share < 0.0 {
        "none of the computation shows: the epoch is not longer with it".into()
    } else if share > 1.0 {
        format!("all of the computation shows, and more: the epoch gets longer by {} of it", Value::Ratio(share))
    } else {
        format!("{} of the computation shows", Value::Share(share))
    }
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let job = |design, between, world: &Ranks| {
        Epochs { between, ..Epochs::new(design, Pattern::Puts, BYTES).burst(BURST) }.on(world.clone())
    };
    let jobs = |times: &[u64], world: &Ranks| -> Vec<(Epochs, Ranks)> {
        Design::ALL.into_iter().flat_map(|design| times.iter().map(move |&time| job(design, time, world))).collect()
    };
    // The time of a put without computation.
    let alone = |time: f64| time / f64::from(BURST);
    let behind = |put: f64| PARTS.map(|part| (part * put) as u64);
    let (network, processes) = (cluster(2), Ranks::processes(2));
    let put = alone(simulated(context, &[job(Design::Rdma, 0, &network)])?[0]);
    let put_here = alone(measured(context, &[job(Design::Rdma, 0, &processes)])?[0]);
    let cluster = curves(&PARTS, &simulated(context, &jobs(&behind(put), &network))?, |_, time| time);
    let here = curves(&PARTS, &measured(context, &jobs(&behind(put_here), &processes))?, |_, time| time);

    let mut finding = Finding::new();
    for (name, place, put, curves, origin) in [
        ("cluster", "simulated", put, &cluster, Origin::Simulated),
        ("here", "2 processes here", put_here, &here, Origin::Measured),
    ] {
        let columns =
            ["after each put".to_owned()].into_iter().chain(Design::ALL.map(|design| design.name().to_owned()));
        let mut table = Table::new(format!("Time of an epoch, {place}; a put takes {}", Value::Time(put)), columns);
        for (row, part) in PARTS.iter().enumerate() {
            let times = curves.iter().map(|curve| Value::Time(curve[row].1));
            table.row([Value::Time(part * put)].into_iter().chain(times));
        }
        finding.tables.push(table);
        // The share of the computation that is visible in the time of the epoch.
        let last = PARTS.len() - 1;
        let shows = |curve: &[(f64, f64)]| (curve[last].1 - curve[0].1) / (PARTS[last] * put * f64::from(BURST));
        let shown: Vec<f64> = curves.iter().map(|curve| shows(curve)).collect();
        finding.claim(
            shown[0] < 0.1,
            "computation does not slow one-sided puts down",
            format!("{place}: {}", shows_as(shown[0])),
        );
        because(
            &mut finding,
            "processes of one machine have no adapter to carry out a put: the processor that puts \
             copies the bytes itself, and computes afterwards",
        );
        for other in [1, 2] {
            finding.claim(
                shown[other] > 0.5,
                "computation slows down sends and receives",
                format!("{place}, {}: {}", Design::ALL[other].name(), shows_as(shown[other])),
            );
            because(
                &mut finding,
                "an epoch over messages takes many times as long here as the computation, and varies by more than it",
            );
        }
        finding.plots.push(Plot {
            name: name.into(),
            title: format!("16 puts of 64 KiB with computation between, {place}"),
            x: Axis::new("computation, as a share of the put's time", Quantity::Share),
            y: Axis::new("time of an epoch", Quantity::Time),
            series: series(&Design::ALL, curves, origin),
            text: "A flat line means that the computation is hidden: it overlaps the transfer. A \
                   line that rises means that it is not, and a slope as steep as the computation itself means that none \
                   of it is."
                .into(),
        });
    }
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_computation_is_never_more_than_all_of_it() {
        assert!(shows_as(0.46).ends_with("of the computation shows"));
        assert!(shows_as(-0.2).starts_with("none of the computation"));
        let more = shows_as(6.54);
        assert!(more.starts_with("all of the computation shows, and more") && !more.contains('%'), "{more}");
    }
}
