//! MPICH-2's ghost exchange: one-sided against point-to-point.

use super::{Context, Experiment};
use rmalab_apps::{Application, Ghost, Strategies, Synchronization};
use rmalab_job::Result;
use rmalab_job::{Ran, Ranks};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};
use rmalab_report::statistics::median;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "mpich2-ghost",
    source: "MPICH-2 (Thakur, Gropp, Toonen, EuroPVM/MPI'04), figures 1, 3 and 4, table 1",
    title: "ghost exchange, one-sided against point-to-point",
    protocol: "Each rank sends a message to each of its four neighbours, by receives and sends, or by puts with \
               fence, PSCW or lock-unlock; the result is the time of a step with puts, divided by the time with messages. \
               Puts are messages of the two-sided transport, too, with MPICH-2's deferred synchronization. As \
               in LAM's and Sun's fences, another version has two barriers and an acknowledgement for each put \
               instead of the fence. Simulated with 16 ranks on a cluster of the time (profile infiniband-2004, one \
               rank per node) and on a shared-memory machine (profile one-node); measured on 2 processes of this \
               machine, each the other's four neighbours, beside 2 simulated ones.",
    found: "Short messages of MPICH-2's deferred design take 2 to 3.5 times as long as point-to-point ones, where \
            LAM's fence takes 19 and Sun's 7 times as long; the ratios fall to about 1 from 16 KiB on.",
    lesson: "A put needs permission to begin and a notification of its end. A library that has only messages can \
             provide these with barriers, which cost more than a short message itself; or it can do nothing at the \
             epoch's start, queue the puts, and send everything at its end. One count then gives each rank its number \
             to expect.",
    seconds: (15, 60),
    run,
};

/// Bytes of the messages.
const BYTES: [u64; 7] = [16, 64, 256, 1 << 10, 16 << 10, 64 << 10, 256 << 10];

/// The largest short message.
const SHORT: usize = 3;

/// The synchronizations that are compared with point-to-point messages.
const WAYS: [(Synchronization, &str); 4] = [
    (Synchronization::Barriers, "fence of two barriers"),
    (Synchronization::Fence, "deferred fence"),
    (Synchronization::Pscw, "deferred PSCW"),
    (Synchronization::Lock, "lock"),
];

/// The paper's ratios: the implementation, the machine, and the index in [`WAYS`].
const PUBLISHED: [(&str, usize, [f64; 7]); 10] = [
    ("LAM, cluster, fence", 0, [18.9, 18.1, 13.6, 5.1, 1.40, 1.03, 1.30]),
    ("LAM, cluster, PSCW", 2, [3.3, 3.2, 2.4, 1.52, 1.02, 0.95, 1.21]),
    ("MPICH-2, cluster, fence", 1, [3.5, 3.28, 2.35, 1.59, 1.08, 0.85, 1.22]),
    ("MPICH-2, cluster, PSCW", 2, [2.03, 1.94, 1.60, 1.39, 1.05, 0.78, 1.08]),
    ("Sun MPI, SMP, fence", 0, [6.9, 9.2, 7.0, 2.0, 1.79, 1.48, 2.76]),
    ("Sun MPI, SMP, PSCW", 2, [6.0, 6.5, 5.3, 1.55, 1.44, 2.16, 2.59]),
    ("Sun MPI, SMP, lock", 3, [6.5, 8.8, 6.7, 1.93, 1.26, 1.54, 1.51]),
    ("MPICH-2, SMP, fence", 1, [3.4, 2.94, 3.0, 2.43, 0.99, 1.13, 0.99]),
    ("MPICH-2, SMP, PSCW", 2, [2.45, 2.47, 2.55, 2.06, 0.82, 1.06, 1.06]),
    ("MPICH-2, SMP, lock", 3, [2.24, 2.30, 2.38, 1.92, 0.79, 0.77, 0.94]),
];

/// Ratios by synchronization, and by size.
type Ratios = [[f64; BYTES.len()]; WAYS.len()];

fn step(ghost: &Ghost, ran: &Ran<<Ghost as rmalab_job::Job>::Out>) -> f64 {
    ghost.time(ran) / f64::from(ghost.iterations)
}

fn ratios(context: &Context<'_>, world: &Ranks, times: u32, iterations: impl Fn(u64) -> u32) -> Result<Ratios> {
    let mut ratios = [[0.0; BYTES.len()]; WAYS.len()];
    for (size, &bytes) in BYTES.iter().enumerate() {
        let strategies = Strategies { transport: Some("two-sided".into()), ..Strategies::default() };
        let ghost = |sync| Ghost { bytes, iterations: iterations(bytes), sync, strategies: strategies.clone() };
        let ways = std::iter::once(Synchronization::PointToPoint).chain(WAYS.map(|(sync, _)| sync));
        let jobs: Vec<_> = ways.map(|sync| (ghost(sync), world.clone())).collect();
        let steps = context.medians(times, &jobs, |ran| step(&jobs[0].0, ran))?;
        for (ratios, time) in ratios.iter_mut().zip(&steps[1..]) {
            ratios[size] = time / steps[0];
        }
    }
    Ok(ratios)
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let few = context.pick(4, 20);
    let cluster = Ranks::simulated("infiniband-2004", 16).ranks_per_node(1);
    let cluster = ratios(context, &cluster, 1, |_| few)?;
    let smp = ratios(context, &Ranks::simulated("one-node", 16), 1, |_| few)?;
    let pair = ratios(context, &Ranks::simulated("one-node", 2), 1, |_| few)?;
    let most = context.pick(2_000, 10_000);
    let here = ratios(context, &Ranks::processes(2), 5, |bytes| (most * 64 / (64 + bytes / 64) as u32).max(100))?;
    let places = [
        ("cluster, 16 simulated", &cluster),
        ("SMP, 16 simulated", &smp),
        ("SMP, 2 simulated", &pair),
        ("2 processes here", &here),
    ];

    let mut finding = Finding::new();
    let columns =
        std::iter::once("ratio to point-to-point".to_owned()).chain(BYTES.map(|bytes| Value::Bytes(bytes).to_string()));
    let mut table = Table::new("Time of a step with puts, in steps with messages", columns);
    for (name, _, ratios) in PUBLISHED {
        table.row(std::iter::once(Value::from(name)).chain(ratios.map(Value::Ratio)));
    }
    for (place, ratios) in places {
        for ((_, way), ratios) in WAYS.iter().zip(ratios) {
            table.row(std::iter::once(Value::from(format!("{place}: {way}"))).chain(ratios.map(Value::Ratio)));
        }
    }
    finding.tables.push(table);

    let list =
        |ratios: &[f64]| ratios.iter().map(|&ratio| Value::Ratio(ratio).to_string()).collect::<Vec<_>>().join(" ");
    let lists = |places: &[(&str, &Ratios)], way: usize| {
        let at = |(place, ratios): &(&str, &Ratios)| format!("{place} {}", list(&ratios[way][..SHORT]));
        places.iter().map(at).collect::<Vec<_>>().join("; ")
    };
    let below =
        |low: usize, high: usize, ratios: &Ratios| (0..SHORT).all(|size| ratios[low][size] < ratios[high][size]);
    // The median over the sizes for measured ratios, so that one interrupted run does not decide.
    let typical = |way: usize| median(here[way][..SHORT].iter().copied());
    finding.claim(
        places[..3].iter().all(|(_, ratios)| below(1, 0, ratios)) && typical(1) < typical(0),
        "without barriers a fence of short messages (16, 64, 256 B) is several times faster: 3.5 3.28 2.35 instead of \
         LAM's 18.9 18.1 13.6 on the cluster, 3.4 2.94 3.0 instead of Sun's 6.9 9.2 7.0 on the SMP",
        format!("deferred fence: {}; fence of two barriers: {}", lists(&places, 1), lists(&places, 0)),
    );
    // With two ranks a fence needs one message in either direction, as PSCW does.
    finding.claim(
        below(2, 1, &cluster) && below(2, 1, &smp),
        "PSCW, which synchronizes neighbours only, takes less than a fence for short messages: 2.03 1.94 1.60 on the \
         cluster, 2.45 2.47 2.55 on the SMP",
        format!("deferred PSCW: {}", lists(&places, 2)),
    );
    finding.claim(
        below(3, 1, &smp),
        "lock-unlock of a single short put, which its request carries, takes less than a fence: 2.24 2.30 2.38 on the \
         SMP",
        format!(
            "lock: {}; four locks are four round trips with any number of ranks, and a fence's messages grow with their \
             logarithm, so the fence is ahead with two ranks",
            lists(&places[1..], 3)
        ),
    );
    let published = |at: usize| PUBLISHED[at].2;
    let pairs = [
        (published(2), cluster[1]),
        (published(3), cluster[2]),
        (published(7), smp[1]),
        (published(8), smp[2]),
        (published(9), smp[3]),
    ];
    let off = |(paper, ours): &([f64; 7], [f64; 7])| {
        let factors = paper.iter().zip(ours).take(SHORT).map(|(paper, ours)| (paper / ours).max(ours / paper));
        factors.fold(1.0, f64::max)
    };
    let most_off = pairs.iter().map(off).fold(1.0, f64::max);
    finding.claim(
        most_off < 1.5,
        "MPICH-2's ratios for short messages: fence 2.35 to 3.5, PSCW 1.60 to 2.55, lock 2.24 to 2.38",
        format!("simulated with 16 ranks: each within a factor of {most_off:.2} of the paper's"),
    );
    let last = BYTES.len() - 1;
    let ends = |ratios: &Ratios| list(&std::array::from_fn::<f64, 3, _>(|way| ratios[way + 1][last]));
    let close =
        |ratios: &Ratios| (1..WAYS.len()).all(|way| ratios[way][last] < 1.25 && ratios[way][last] < ratios[way][0]);
    finding.claim(
        close(&cluster),
        "on the cluster the ratios fall with the size to about 1, or below where a long message has to wait for its \
         receive: fence 1.22 and PSCW 1.08 at 256 KiB",
        format!("cluster, simulated: fence, PSCW and lock {} at 256 KiB", ends(&cluster)),
    );
    finding.claim(
        close(&smp) && close(&here),
        "the same on the SMP: 0.99 1.06 0.94 at 256 KiB",
        format!("fence, PSCW and lock at 256 KiB: SMP, simulated {}; 2 processes here {}", ends(&smp), ends(&here)),
    );
    if finding.claims.last().is_some_and(|claim| !claim.holds) {
        finding.why = "our puts over messages are copied more often than messages: into the queue at the origin, and \
                       at the target from the packet to their destination, while MPICH-2 received directly into the \
                       window; in shared memory copies determine the cost of a long message"
            .into();
    }
    for (name, title, published, ours, origin) in [
        ("cluster", "Ghost exchange on a cluster of 2004", [0, 2, 3], &cluster, Origin::Simulated),
        ("smp", "Ghost exchange on a shared-memory machine", [4, 7, 8], &smp, Origin::Simulated),
        ("here", "Ghost exchange on this machine", [4, 7, 8], &here, Origin::Measured),
    ] {
        let points = |ratios: &[f64]| BYTES.iter().zip(ratios).map(|(&bytes, &ratio)| (bytes as f64, ratio)).collect();
        let of_paper = published.map(|at| {
            let (name, style, ratios) = &PUBLISHED[at];
            Series {
                name: (*name).into(),
                origin: Origin::Published,
                style: *style,
                points: points(ratios),
                spread: Vec::new(),
                group: String::new(),
            }
        });
        let ours = WAYS.iter().zip(ours).enumerate().map(|(style, ((_, way), ratios))| Series {
            name: (*way).into(),
            origin,
            style,
            points: points(ratios),
            spread: Vec::new(),
            group: String::new(),
        });
        finding.plots.push(Plot {
            name: name.into(),
            title: title.into(),
            x: Axis::new("message", Quantity::Bytes),
            y: Axis::new("time of puts by time of messages", Quantity::Ratio),
            series: ours.chain(of_paper).collect(),
            text: "At 1 a put costs no more than a message. On the left, where messages are short, the height of a \
                   line is the price of its synchronization: the fence of two barriers is on top, and \
                   synchronizations with fewer messages are lower. On the right only the data's time remains, and the \
                   lines meet near 1; below it, puts are faster, since a long message first requests room from its \
                   receiver, and a put need not."
                .into(),
        });
    }
    Ok(finding)
}
