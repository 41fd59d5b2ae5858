//! MVAPICH2's bandwidth of puts and of gets, a burst of 16 in an epoch.

use super::infiniband::{
    Design, Epochs, Pattern, because, cluster, curves, measured, near, numbers, series, simulated, sizes, sizes_here,
    tabulated,
};
use super::{Context, Experiment};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ib-bandwidth",
    source: "MVAPICH2 (Jiang and others, CCGrid 2004), section 5.3, figures 7 and 8",
    title: "bandwidth of puts and gets, 16 in an epoch",
    protocol: "Epochs of post, start, complete and wait, in each of which an origin puts, or gets, 16 times; bytes by \
               time. Simulated on the paper's cluster (profile infiniband-2004, whose bandwidth of 865 MB/s is the \
               paper's for puts of 256 KB), and measured on 2 processes of this machine. One-sided gets of an epoch \
               overlap each other; gets of our two-sided transport do not, since each returns its value.",
    found: "One-sided puts are always ahead, by up to 77 %, with 865 MB/s at 256 KiB; one-sided gets of small \
            messages are slower than gets by send and receive, which are answered by writes.",
    lesson: "A put leaves, and the next one follows at once. A get first sends a request, and an adapter that reads \
             the memory of its node takes longer than one that writes it. Many operations in one epoch share the cost \
             of its synchronization, so that the cost of the operations remains: processors' time when they are \
             short, copies and handshakes when they are not, and the wire when they are long.",
    seconds: (25, 90),
    run,
};

const BURST: u32 = 16;

/// The results of one pattern: curves of the designs, simulated and here.
type Curves = Vec<Vec<(f64, f64)>>;

fn run(context: &Context<'_>) -> Result<Finding> {
    let (sizes, sizes_here) = (sizes(context), sizes_here(context));
    let jobs = |pattern: Pattern, sizes: &[usize], world: &Ranks| -> Vec<(Epochs, Ranks)> {
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
        let cluster = curves(&numbers(&sizes), &simulated(context, &jobs(pattern, &sizes, &cluster(2)))?, bandwidth);
        let here = curves(
            &numbers(&sizes_here),
            &measured(context, &jobs(pattern, &sizes_here, &Ranks::processes(2)))?,
            bandwidth,
        );
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
        let title = format!("Bandwidth of {what}, {place}");
        let columns = ["bytes", names[0], names[1], names[2]];
        finding.tables.push(tabulated(title, &columns, curves, |bytes| Value::Bytes(bytes as u64), Value::Bandwidth));
        let mut shown = series(&Design::ALL, curves, origin);
        if (what, origin) == ("puts", Origin::Simulated) {
            // The simulated adapter's bandwidth comes from this figure, so it is no claim.
            let (name, points) = ("one-sided, the paper".into(), vec![(262_144.0, 865e6)]);
            shown.push(Series {
                name,
                origin: Origin::Published,
                style: 0,
                points,
                spread: Vec::new(),
                group: String::new(),
            });
        }
        finding.plots.push(Plot {
            name: format!("{what}-{}", if origin == Origin::Simulated { "cluster" } else { "here" }),
            title: format!("Bandwidth of {what}, 16 per epoch, {place}"),
            x: Axis::new("bytes of an operation", Quantity::Bytes),
            y: Axis::new("bandwidth", Quantity::Bandwidth),
            series: shown,
            text: "A curve that rises by the same factor as the bytes shows that an operation costs the same whatever \
                   its size; where it becomes flat the wire, or the memory, is the limit. The distance of two \
                   curves at the left is the additional cost of an operation in one design; it closes at the \
                   right, where only bytes matter."
                .into(),
        });
    }
    // The lead of the first design over the second, for all sizes.
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
    because(
        &mut finding,
        "the gain of one-sided puts depends on the processors' work for each message and the adapters' for each \
         write, of which the paper gives only sums",
    );
    let small =
        |gains: &[(f64, f64)]| -> Vec<(f64, f64)> { gains.iter().copied().filter(|gain| gain.0 <= 64.0).collect() };
    let until = gains(&gets).iter().take_while(|gain| gain.1 < 0.0).map(|gain| gain.0).fold(0.0, f64::max);
    let of_small = small(&gains(&gets));
    finding.claim(
        of_small.iter().all(|gain| gain.1 < 0.0),
        "one-sided gets of small messages are slower than by send and receive",
        format!(
            "simulated: {} of the bandwidth of send and receive for 4 B, and less than it up to {}",
            Value::Share(1.0 + of_small[0].1),
            Value::Bytes(until as u64)
        ),
    );
    let of_puts = gains(&puts_here);
    let short: Vec<(f64, f64)> = of_puts.iter().copied().filter(|gain| gain.0 <= 16384.0).collect();
    finding.claim(
        least(&short) > 0.0,
        "one-sided puts are ahead",
        format!(
            "2 processes here, up to 16 KiB: {} to {} of the bandwidth of send and receive",
            Value::Ratio(1.0 + least(&short)),
            Value::Ratio(1.0 + most(&short).1)
        ),
    );
    let of_gets = small(&gains(&gets_here));
    finding.claim(
        of_gets.iter().all(|gain| gain.1 < 0.0),
        "one-sided gets of small messages are slower",
        format!(
            "2 processes here, up to 64 B: at least {} of the bandwidth of send and receive",
            Value::Ratio(1.0 + least(&of_gets))
        ),
    );
    because(
        &mut finding,
        "a get from a process of the same machine is a load, which needs neither a request nor an adapter that reads \
         memory",
    );
    Ok(finding)
}
