//! MVAPICH2's bandwidth of puts and of gets, a burst of 16 in an epoch.

use super::infiniband::{Design, Epochs, Pattern, beside, cluster, curves, measured, near, series, simulated, sizes};
use super::{Context, Experiment};
use crate::Result;
use crate::finding::{Axis, Finding, Origin, Plot, Quantity, Table, Value};
use crate::job::Ranks;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ib-bandwidth",
    source: "MVAPICH2 (Jiang and others, CCGrid 2004), section 5.3, figures 7 and 8",
    title: "bandwidth of puts and gets, 16 in an epoch",
    protocol: "Epochs of post, start, complete and wait, in each of which an origin puts, or gets, 16 times; bytes by time. Simulated on \
               the paper's cluster (profile infiniband-2004, whose bandwidth of 865 MB/s is the paper's for puts of 256 KB), and \
               measured on 2 processes of this machine. One-sided gets of an epoch overlap each other; those of our two-sided \
               transport do not, since each returns its value.",
    found: "One-sided puts are always ahead, by up to 77 %, with 865 MB/s at 256 KiB; one-sided gets of small messages are slower than \
            gets by send and receive, which are answered by writes.",
    lesson: "A put leaves, and the next one follows at once. A get asks first, and an adapter that reads the memory of its node \
             takes longer than one that writes it. Many operations in one epoch share the cost of its synchronization, so that what \
             is left is what each operation costs: processors' time when they are short, copies and handshakes when they are not, \
             and the wire when they are long.",
    seconds: (25, 90),
    run,
};

const BURST: u32 = 16;

/// What an experiment shows of one pattern: curves of the designs, simulated and here.
type Curves = Vec<Vec<(f64, f64)>>;

fn run(context: &Context<'_>) -> Result<Finding> {
    let sizes = sizes(context);
    let bytes: Vec<f64> = sizes.iter().map(|&bytes| bytes as f64).collect();
    let jobs = |pattern: Pattern, world: &Ranks| -> Vec<(Epochs, Ranks)> {
        let each = |design| {
            sizes
                .iter()
                .map(move |&bytes| (design, bytes))
                .map(|(design, bytes)| Epochs::new(design, pattern, bytes).burst(BURST).on(world.clone()))
        };
        Design::ALL.into_iter().flat_map(each).collect()
    };
    let bandwidth = |bytes: f64, time: f64| f64::from(BURST) * bytes / (time * 1e-9);
    let both = |pattern| -> Result<(Curves, Curves)> {
        let cluster = curves(&bytes, &simulated(context, &jobs(pattern, &cluster(2)))?, bandwidth);
        let here = curves(&bytes, &measured(context, &jobs(pattern, &Ranks::processes(2)))?, bandwidth);
        Ok((cluster, here))
    };
    let (puts, puts_here) = both(Pattern::Puts)?;
    let (gets, gets_here) = both(Pattern::Gets)?;

    let mut finding = Finding::new();
    let names = Design::ALL.map(Design::name);
    let all = [
        ("puts", "simulated", &puts, Origin::Simulated),
        ("puts", "2 processes here", &puts_here, Origin::Measured),
        ("gets", "simulated", &gets, Origin::Simulated),
        ("gets", "2 processes here", &gets_here, Origin::Measured),
    ];
    for (what, place, curves, origin) in all {
        let mut table = Table::new(format!("Bandwidth of {what}, {place}"), ["bytes"].into_iter().chain(names));
        for (row, &size) in sizes.iter().enumerate() {
            let rates = curves.iter().map(|curve| Value::Bandwidth(curve[row].1));
            table.row([Value::Bytes(size as u64)].into_iter().chain(rates));
        }
        finding.tables.push(table);
        finding.plots.push(Plot {
            name: format!("{what}-{}", if origin == Origin::Simulated { "cluster" } else { "here" }),
            title: format!("Bandwidth of {what}, 16 an epoch, {place}"),
            x: Axis::new("bytes of an operation", Quantity::Bytes),
            y: Axis::new("bandwidth", Quantity::Bandwidth),
            series: series(&Design::ALL, curves, origin),
            text: "A curve that rises by the same factor as the bytes says that an operation costs the same whatever its size; \
                   where it becomes flat the wire, or the memory, is what limits. The distance of two curves at the left is what an \
                   operation costs one design more than the other; it closes at the right, where bytes are all that counts."
                .into(),
        });
    }
    // How much better the first design is than the second, over all sizes.
    let gains = |curves: &Curves| -> Vec<(f64, f64)> {
        curves[0].iter().zip(&curves[1]).map(|(one, two)| (one.0, one.1 / two.1 - 1.0)).collect()
    };
    let least = |gains: &[(f64, f64)]| gains.iter().map(|gain| gain.1).fold(f64::INFINITY, f64::min);
    let most = |gains: &[(f64, f64)]| gains.iter().copied().fold((0.0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
    let gain = gains(&puts);
    finding.claim(
        least(&gain) > 0.0,
        "one-sided puts are ahead at every size",
        format!("simulated: by {} at least", Value::Share(least(&gain))),
    );
    let (at, best) = most(&gain);
    finding.claim(
        near(1.0 + best, 1.77),
        "by up to 77 %",
        format!("simulated: by up to {}, at {}", Value::Share(best), Value::Bytes(at as u64)),
    );
    let last = puts[0].last().map_or(0.0, |point| point.1);
    finding.claim(
        last < 865e6 && near(last, 865e6),
        "865 MB/s at 256 KiB (what the simulated adapter's bandwidth was taken from: this says no more than that an epoch reaches it)",
        format!("simulated: {}", beside(Value::Bandwidth(last), last, 865e6)),
    );
    let slower: Vec<f64> = gains(&gets).iter().filter(|gain| gain.0 <= 1024.0).map(|gain| gain.1).collect();
    finding.claim(
        slower.iter().all(|&gain| gain < 0.0),
        "one-sided gets of small messages are slower than by send and receive",
        format!(
            "simulated, up to 1 KiB: {} to {} of the bandwidth by send and receive",
            Value::Share(1.0 + slower.iter().copied().fold(f64::INFINITY, f64::min)),
            Value::Share(1.0 + slower.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        ),
    );
    for (what, curves) in [("puts", &puts_here), ("gets", &gets_here)] {
        let gain = gains(curves);
        let short: Vec<(f64, f64)> = gain.iter().copied().filter(|gain| gain.0 <= 16384.0).collect();
        finding.claim(
            if what == "puts" { least(&short) > 0.0 } else { most(&short[..4.min(short.len())]).1 <= 0.0 },
            if what == "puts" { "one-sided puts are ahead" } else { "one-sided gets of small messages are slower" },
            format!(
                "2 processes here, up to 16 KiB: one-sided {what} by {} to {}",
                Value::Share(least(&short)),
                Value::Share(most(&short).1)
            ),
        );
    }
    Ok(finding)
}
