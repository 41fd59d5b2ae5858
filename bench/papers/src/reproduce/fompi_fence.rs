//! foMPI's fence against the number of ranks.

use rmalab_atomics::RemoteAtomics;
use rmalab_windows::{FenceStrategy, Team};
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_apps::Strategies;
use rmalab_job::Result;
use rmalab_job::{Job, Ranks, elapsed};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-fence",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), section 2.3, figure 6b",
    title: "fence against ranks",
    protocol: "Every rank makes empty fences, one after the other; the time of one, on the slowest rank. Simulated on \
               the Cray XE6's network (profile gemini, 32 ranks per node), and measured on 2 processes of this machine. \
               The naive fence of two barriers runs beside it.",
    found: "A fence takes O(log p) time and O(1) memory: it is a flush and a barrier by dissemination.",
    lesson: "A fence is the simplest way to synchronize a window: every rank waits for every other. No rank can know \
             that all others have arrived in less than log2(p) rounds of messages, if a message goes to one other \
             rank. A fence with this number of rounds has the best possible growth.",
    seconds: (10, 40),
    run,
};

/// Empty fences, one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fences {
    strategies: Strategies,
    rounds: u32,
}

impl Job for Fences {
    /// Nanoseconds of a fence.
    type Out = f64;

    const NAME: &'static str = "fences";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<f64> {
        let team = Team::new(ra)?;
        let mut window = self.strategies.window(&team, 64)?;
        let mut fence = window.fence()?;
        let begin = ra.now();
        for _ in 0..self.rounds {
            fence = fence.next()?;
        }
        let time = elapsed(ra, begin) / f64::from(self.rounds);
        fence.close()?;
        team.barrier()?;
        Ok(time)
    }
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let job = |fence: FenceStrategy, rounds| {
        let strategies = Strategies { fence: Some(fence.to_string()), ..Strategies::default() };
        Fences { strategies, rounds }
    };
    let ranks: Vec<u32> = (1..=context.pick(12, 16)).map(|power| 1 << power).collect();
    let mut curves = Vec::new();
    for fence in [FenceStrategy::Dissemination, FenceStrategy::Naive] {
        let mut points = Vec::new();
        for &ranks in &ranks {
            let ran = context.run(&job(fence, 10), &Ranks::simulated("gemini", ranks))?;
            points.push((f64::from(ranks), ran.ranks.iter().copied().fold(0.0, f64::max)));
        }
        curves.push(points);
    }
    let here =
        [FenceStrategy::Dissemination, FenceStrategy::Naive].map(|fence| (job(fence, 20_000), Ranks::processes(2)));
    let here = context.medians(5, &here, |ran| ran.ranks.iter().copied().fold(0.0, f64::max))?;

    let mut finding = Finding::new();
    let mut table = Table::new("Time of a fence", ["ranks", "dissemination", "a log2(p) of it", "naive"]);
    for (&(ranks, time), &(_, naive)) in curves[0].iter().zip(&curves[1]) {
        let round = time / ranks.log2();
        table.row([Value::Count(ranks as u64), Value::Time(time), Value::Time(round), Value::Time(naive)]);
    }
    table.row([Value::from("2 processes here"), Value::Time(here[0]), Value::None, Value::Time(here[1])]);
    finding.tables.push(table);

    // Between nodes only: the first rounds stay in a node and are shorter.
    let between: Vec<(f64, f64)> = curves[0].iter().copied().filter(|point| point.0 >= 64.0).collect();
    let rounds: Vec<(f64, f64)> = between.iter().map(|&(ranks, time)| (ranks.log2(), time)).collect();
    let (round, _, explained) = rmalab_report::finding::line(&rounds);
    let (exponent, _) = growth(&between);
    finding.claim(
        explained > 0.95 && exponent < 0.5,
        "time O(log p)",
        format!(
            "simulated, 64 to {} ranks: {} more for each doubling, R² {explained:.3} of that line; as a power of p it \
             would be p^{exponent:.2}",
            ranks.last().unwrap_or(&0),
            Value::Time(round)
        ),
    );
    let names = [FenceStrategy::Dissemination, FenceStrategy::Naive];
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "Time of a fence".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("time of a fence, slowest rank", Quantity::Time),
        series: names
            .iter()
            .zip(&curves)
            .enumerate()
            .map(|(style, (name, points))| Series {
                name: name.to_string(),
                origin: Origin::Simulated,
                style,
                points: points.clone(),
                spread: Vec::new(),
                group: String::new(),
            })
            .collect(),
        text: "Each doubling of the ranks adds about the same time, one more round of messages. The naive fence, two \
               barriers, takes twice as long at any number of ranks. A step marks the point at which a node is full \
               and messages begin to cross the network."
            .into(),
    });
    Ok(finding)
}
