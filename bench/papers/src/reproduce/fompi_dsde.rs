//! foMPI's dynamic sparse data exchange.

use super::{Context, Experiment};
use rmalab_apps::{Dsde, Epoch, Protocol, Strategies};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-dsde",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), section 4.2, figure 7b",
    title: "dynamic sparse data exchange, 6 random neighbours",
    protocol: "In each round every rank sends 8 bytes to 6 random ranks, and no rank knows its senders. Windows: a \
               fetch_and_op returns a slot at the target, between two fences. Messages: an exchange of all numbers \
               (alltoall), a sum of the numbers (reduce-scatter), or acknowledgements and a nonblocking barrier \
               (NBX). Simulated on the Cray XE6's network (profile gemini, 32 ranks per node), and measured on 2 \
               processes of this machine.",
    found: "Only the text of the figure is available: exchanges with 6 random neighbours, foMPI against other \
            protocols. In two of these every rank sends to every other one in each round, which a window's counters \
            and NBX avoid.",
    lesson: "A program with changing neighbours cannot post receives, since it does not know the senders. To ask \
             every rank costs time in proportion to the ranks, although only six of them have data. One-sided \
             communication needs no question: the sender takes a slot in the target's memory. A fence, which grows \
             only with the logarithm of the ranks, then confirms that all ranks have done so.",
    seconds: (15, 60),
    run,
};

const PROTOCOLS: [(Protocol, &str); 4] = [
    (Protocol::Accumulate, "windows"),
    (Protocol::Nbx, "NBX"),
    (Protocol::ReduceScatter, "reduce-scatter"),
    (Protocol::Alltoall, "alltoall"),
];

fn job(how: Protocol, rounds: u32) -> Dsde {
    Dsde { targets: 6, rounds, how, epoch: Epoch::Fence, seed: 1, strategies: Strategies::default() }
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let ranks: Vec<u32> = (3..=context.pick(10, 12)).map(|power| 1 << power).collect();
    let mut curves = Vec::new();
    for (how, _) in PROTOCOLS {
        let job = job(how, 8);
        let mut points = Vec::new();
        for &ranks in &ranks {
            points.push((f64::from(ranks), job.round_time(&context.run(&job, &Ranks::simulated("gemini", ranks))?)));
        }
        curves.push(points);
    }
    let jobs = PROTOCOLS.map(|(how, _)| (job(how, context.pick(5_000, 20_000)), Ranks::processes(2)));
    let here = context.medians(5, &jobs, |ran| jobs[0].0.round_time(ran))?;

    let mut finding = Finding::new();
    let columns = std::iter::once("ranks").chain(PROTOCOLS.map(|(_, name)| name));
    let mut table = Table::new("Time of a round", columns);
    for (place, &ranks) in ranks.iter().enumerate() {
        let times = curves.iter().map(|points| Value::Time(points[place].1));
        table.row(std::iter::once(Value::Count(ranks.into())).chain(times));
    }
    table.row(std::iter::once(Value::from("2 processes here")).chain(here.iter().map(|&time| Value::Time(time))));
    finding.tables.push(table);

    let last = ranks.len() - 1;
    let most = ranks[last];
    let at = |protocol: usize, place: usize| curves[protocol][place].1;
    let times = |protocol: usize| Value::Ratio(at(protocol, last) / at(0, last));
    let ahead = |protocol: usize| (0..=last).all(|place| at(0, place) < at(protocol, place));
    finding.claim(
        ahead(1) && ahead(2) && ahead(3),
        "the exchange by windows is ahead of the protocols by messages",
        format!(
            "simulated, 8 to {most} ranks; at {most} windows take {}, NBX {}, reduce-scatter {} and alltoall {} that \
             time",
            Value::Time(at(0, last)),
            times(1),
            times(2),
            times(3)
        ),
    );
    let tail = |protocol: usize| growth(&curves[protocol][last.saturating_sub(3)..]).0;
    finding.claim(
        tail(0) < 0.5 && tail(0) < tail(3),
        "a round grows with the logarithm of the ranks, as its fence does, while alltoall finally grows in proportion",
        format!(
            "simulated, {} to {most} ranks: windows grow as p^{:.2}, NBX as p^{:.2}, reduce-scatter as p^{:.2}, \
             alltoall as p^{:.2}",
            ranks[last.saturating_sub(3)],
            tail(0),
            tail(1),
            tail(2),
            tail(3)
        ),
    );
    let series = |protocol: usize, origin, points: Vec<(f64, f64)>| Series {
        name: PROTOCOLS[protocol].1.into(),
        origin,
        style: protocol,
        points,
        spread: Vec::new(),
        group: String::new(),
    };
    let simulated =
        curves.iter().enumerate().map(|(protocol, points)| series(protocol, Origin::Simulated, points.clone()));
    let measured =
        here.iter().enumerate().map(|(protocol, &time)| series(protocol, Origin::Measured, vec![(2.0, time)]));
    let series = simulated.chain(measured).collect();
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "Dynamic sparse data exchange, 6 random neighbours".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("time of a round, slowest rank", Quantity::Time),
        series,
        text: "Every rank has the same six messages at any number of ranks; only the cost of finding the senders \
               grows. The line of alltoall bends upwards, since every rank sends a number to every other rank. The \
               line of reduce-scatter will, too, once a word for each rank outweighs its rounds. The windows' line \
               rises by a step for each doubling, from its fence, and so does the line of NBX, whose barrier is also a \
               dissemination. That line is on top since each of its messages has an acknowledgement."
            .into(),
    });
    Ok(finding)
}
