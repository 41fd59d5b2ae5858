//! DART's RandomAccess: shared windows within nodes against RMA calls only.

use super::{Context, Experiment};
use rmalab_apps::{RandomAccess, Strategies, Update};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "dart-gups",
    source: "DART-MPI (Zhou, Idrees, Gracia, Euro-Par'15), section 4.2, figure 5",
    title: "HPCC RandomAccess, 2 to 1,024 ranks",
    protocol: "Random words of a distributed table are read, changed and written back, each by a blocking get and a \
               blocking put, and verified by the benchmark's rules. Hybrid: loads and stores reach the local node, as \
               with shared windows nested in dynamic ones; RMA reaches the rest. RMA only: everything uses the \
               network adapter. Simulated on the Cray XC (profile aries, 24 ranks per node as on Hornet), where the \
               processor or the adapter carries out operations within a node; and measured on 2 and 4 processes of \
               this machine. There global pointers run against get, put and flush of an allocated window, and of a \
               window whose target serves them as messages.",
    found: "The hybrid is ahead of native MPI RMA at every number of ranks; across nodes the gap narrows, as fewer \
            accesses stay within a node.",
    lesson: "RandomAccess only updates 8-byte words anywhere in a table that is distributed over all ranks, so it \
             shows the cost of a small access. With shared memory a load takes nanoseconds, and a detour through a \
             network adapter a microsecond. A runtime system that looks up the word's location first saves the \
             difference, for all accesses that stay on the node.",
    seconds: (12, 40),
    run,
};

/// Ranks of a node of the paper's machine.
const NODE: u32 = 24;

fn access(how: Update, log2_words: u32, updates: u64) -> RandomAccess {
    RandomAccess { log2_words, updates: Some(updates), how, look_ahead: 1, strategies: Strategies::default() }
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let each = context.pick(100, 400);
    let ranks: Vec<u32> = (1..=10).map(|power| 1 << power).collect();
    let mut curves = [Vec::new(), Vec::new()];
    let mut means = [Vec::new(), Vec::new()];
    for &ranks in &ranks {
        // 1,024 words for each rank.
        let job = access(Update::GetPut, ranks.ilog2() + 10, each * u64::from(ranks));
        for (place, by_adapter) in [false, true].into_iter().enumerate() {
            let world = Ranks::simulated("aries", ranks)
                .ranks_per_node(NODE)
                .atomics_by_adapter(by_adapter)
                .bulk_by_adapter(by_adapter);
            let ran = context.run(&job, &world)?;
            curves[place].push((f64::from(ranks), job.rate(&ran)));
            means[place].push(ran.ranks.iter().map(|rank| rank.time).sum::<f64>() / f64::from(ranks));
        }
    }
    let updates = context.pick(400_000, 2_000_000);
    let mut here = Vec::new();
    for ranks in [2, 4] {
        let updates = updates / u64::from(ranks / 2);
        let jobs = [Update::DartGetPut, Update::GetPut].map(|how| (access(how, 20, updates), Ranks::processes(ranks)));
        let rates = context.medians(5, &jobs, |ran| jobs[0].0.rate(ran))?;
        here.push((ranks, rates[0], rates[1]));
    }
    // Two processes only: with more processes than processors, each message would wait for the scheduler to run its
    // target.
    let strategies = Strategies { transport: Some("two-sided".into()), ..Strategies::default() };
    let messages = RandomAccess { strategies, ..access(Update::GetPut, 20, updates / 100) };
    let by_messages = context.medians(5, &[(messages.clone(), Ranks::processes(2))], |ran| messages.rate(ran))?[0];

    let mut finding = Finding::new();
    let columns =
        ["ranks", "hybrid", "RMA only", "hybrid in RMA only", "for the mean rank", "on the local node", "by messages"];
    let mut table = Table::new("Updates per second of all ranks", columns);
    let pairs = || curves[0].iter().zip(&curves[1]).map(|(&(ranks, hybrid), &(_, rma))| (ranks, hybrid, rma));
    let gains_of_mean: Vec<f64> = means[0].iter().zip(&means[1]).map(|(hybrid, rma)| rma / hybrid).collect();
    for ((ranks, hybrid, rma), &mean) in pairs().zip(&gains_of_mean) {
        let local = (f64::from(NODE) / ranks).min(1.0);
        table.row([
            Value::Count(ranks as u64),
            Value::Rate(hybrid),
            Value::Rate(rma),
            Value::Ratio(hybrid / rma),
            Value::Ratio(mean),
            Value::Share(local),
            Value::None,
        ]);
    }
    for &(ranks, hybrid, rma) in &here {
        table.row([
            Value::from(format!("{ranks} processes here")),
            Value::Rate(hybrid),
            Value::Rate(rma),
            Value::Ratio(hybrid / rma),
            Value::None,
            Value::Share(1.0),
            if ranks == 2 { Value::Rate(by_messages) } else { Value::None },
        ]);
    }
    finding.tables.push(table);

    let gains: Vec<f64> = pairs().map(|(_, hybrid, rma)| hybrid / rma).collect();
    let least = |gains: &[f64]| gains.iter().copied().fold(f64::INFINITY, f64::min);
    let simulated_holds = least(&gains) > 1.0;
    finding.claim(
        simulated_holds,
        "the hybrid is ahead of RMA only at every number of ranks from 2 to 1,024",
        format!(
            "simulated: {:.3} times RMA only at least, by the time of the slowest rank; for the mean rank {:.3} times \
             at least",
            least(&gains),
            least(&gains_of_mean)
        ),
    );
    let told = here.iter().map(|(ranks, hybrid, rma)| format!("{} on {ranks}", Value::Ratio(hybrid / rma)));
    let measured_holds = here.iter().all(|(_, hybrid, rma)| hybrid > rma);
    finding.claim(
        measured_holds,
        "the same within one node, where native RMA takes more than 10 times as long for a small access",
        format!(
            "measured, processes of this machine: {} against an allocated window; {} on 2 against a window over \
             messages",
            told.collect::<Vec<_>>().join(", "),
            Value::Ratio(here[0].1 / by_messages)
        ),
    );
    let (node, most) = (gains[3], gains[gains.len() - 1]);
    finding.claim(
        most < node,
        "across nodes the gap narrows, as more accesses leave the node",
        format!("simulated: {} at 16 ranks, one node; {} at 1,024, 43 nodes", Value::Ratio(node), Value::Ratio(most)),
    );
    let why = [(simulated_holds, UNEVEN), (measured_holds, DIRECT)];
    let why: Vec<&str> = why.into_iter().filter(|(holds, _)| !holds).map(|(_, why)| why).collect();
    finding.why = why.join("; ");
    let series = |name: &str, style, points: Vec<(f64, f64)>, origin| Series {
        name: name.into(),
        origin,
        style,
        points,
        spread: Vec::new(),
        group: String::new(),
    };
    let [hybrid, rma] = curves;
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "RandomAccess".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("updates of all ranks", Quantity::Rate),
        series: vec![
            series("hybrid", 0, hybrid, Origin::Simulated),
            series("RMA only", 1, rma, Origin::Simulated),
            series("hybrid", 0, here.iter().map(|row| (f64::from(row.0), row.1)).collect(), Origin::Measured),
            series("RMA only", 1, here.iter().map(|row| (f64::from(row.0), row.2)).collect(), Origin::Measured),
        ],
        text: "Within one node (up to 24 ranks) the hybrid's updates are loads and stores, and the distance between \
               the lines is the distance between the processor and the adapter. The hybrid falls at the second node, since \
               every other update now crosses the network. From there on the lines are close: the remaining \
               difference is the share of updates within the node."
            .into(),
    });
    Ok(finding)
}

/// The reason why the hybrid is not ahead among processes of one machine.
const DIRECT: &str = "among processes of this machine an allocated window's get and put are also loads and stores. So \
                      global pointers, which look a segment up first, have no detour to save";

/// The reason why the hybrid is not ahead among many simulated ranks.
const UNEVEN: &str = "the last rank to end decides, and most of its accesses go to other nodes: powers of two do not \
                      fill nodes of 24, and the ranks of the last one share it with few";
