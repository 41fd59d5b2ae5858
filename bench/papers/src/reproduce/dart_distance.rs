//! DART's blocking put and get against the distance of the ranks.

use rmalab_atomics::sim::Profile;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{Assert, Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_job::Result;
use rmalab_job::{Job, Ranks, elapsed};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "dart-distance",
    source: "DART (Zhou, Idrees, Gracia, Euro-Par'15), section 4.1, figures 3 and 4",
    title: "blocking put and get against the distance of the ranks",
    protocol: "Rank 0 of 256 writes to, and reads from, ranks 1 to 255, 8 B and 1 MiB, and waits for each operation. \
               Simulated on the paper's kind of machine, a Cray XC40 with 24 ranks per node (profile aries, whose times \
               are mostly assumed). DART: inside a node the processor copies. Native MPI: the adapter carries out \
               operations inside a node, too.",
    found: "The latency is constant inside a node and rises at its border (between 16 and 32 in the paper's points). \
            Native MPI is an exception, since its overhead inside a node is already high; between nodes DART is \
            native MPI.",
    lesson: "A rank's number says little about its distance, but with ranks placed in blocks the first ones share its \
             node. Loads and stores save time only there. Beyond the node the network's latency dominates, and it \
             hardly depends on the distance.",
    seconds: (8, 8),
    run,
};

/// Ranks of a node of the paper's machine, Hornet.
const NODE: u32 = 24;

const RANKS: u32 = 256;

/// Puts or gets of rank 0 at other ranks, each completed before the next.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Distances {
    get: bool,
    bytes: u64,
    distances: Vec<u32>,
    repetitions: u32,
}

impl Job for Distances {
    /// Nanoseconds of an operation at each distance; of rank 0.
    type Out = Vec<f64>;

    const NAME: &'static str = "latency-by-distance";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Vec<f64>> {
        let team = Team::new(ra)?;
        let mut window = Window::allocate(&team, self.bytes)?;
        let epoch = window.lock_all_assert(Assert::NoCheck)?;
        let mut times = Vec::new();
        if ra.rank() == Rank(0) {
            let mut buffer = vec![1_u8; self.bytes as usize];
            for &distance in &self.distances {
                let target = epoch.at(Rank(distance))?;
                let begin = ra.now();
                for _ in 0..self.repetitions {
                    if self.get {
                        target.get(WindowDisp(0), &mut buffer)?;
                    } else {
                        target.put(WindowDisp(0), &buffer)?;
                        epoch.flush(Rank(distance))?;
                    }
                }
                times.push(elapsed(ra, begin) / f64::from(self.repetitions));
            }
        }
        epoch.unlock_all()?;
        window.free()?;
        Ok(times)
    }
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let short: Vec<u32> = (1..RANKS).collect();
    // With 1 MiB each target takes memory in the simulator: measures only the border, and ranks of other nodes.
    let some = [1, 2, 4, 8, 12, 16, 20, 22, 23, 24, 25, 26, 32, 48, 64, 96, 120, 144, 168, 192, 216, 240, 255].to_vec();
    let mut finding = Finding::new();
    for (bytes, size, distances) in [(8, "8 B", &short), (1 << 20, "1 MiB", &some)] {
        for (get, what) in [(false, "put"), (true, "get")] {
            let mut curves = Vec::new();
            for by_adapter in [false, true] {
                let repetitions = if bytes == 8 { 10 } else { 2 };
                let job = Distances { get, bytes, distances: distances.clone(), repetitions };
                let world = Ranks::simulated("aries", RANKS)
                    .ranks_per_node(NODE)
                    .atomics_by_adapter(by_adapter)
                    .bulk_by_adapter(by_adapter);
                let times = context.run(&job, &world)?.ranks.swap_remove(0);
                let points: Vec<(f64, f64)> =
                    distances.iter().zip(times).map(|(&distance, time)| (f64::from(distance), time)).collect();
                curves.push(points);
            }
            claims(&mut finding, what, size, &curves);
            table(&mut finding, what, size, &curves);
            plot(&mut finding, what, size, curves);
        }
    }
    if finding.claims.iter().any(|claim| !claim.holds) {
        finding.why = why();
    }
    Ok(finding)
}

/// The reason, from the profile, why long messages show no step upwards.
fn why() -> String {
    let rate = |byte: f64| Value::Bandwidth(1e12 / byte);
    Profile::find("aries").map_or_else(
        |error| error.to_string(),
        |profile| {
            format!(
                "a core of this profile copies {} and an adapter moves {} (neither is the paper's machine's, whose \
                 rates it does not give), so long transfers gain nothing from loads and stores, and a get loses, \
                 since only one of its stages takes that long",
                rate(profile.node.byte),
                rate(profile.nic.byte)
            )
        },
    )
}

/// The least and the largest time at distances from `first` to before `end`.
fn range(points: &[(f64, f64)], first: u32, end: u32) -> (f64, f64) {
    let times =
        || points.iter().filter(|point| (f64::from(first)..f64::from(end)).contains(&point.0)).map(|point| point.1);
    (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max))
}

/// The largest ratio of times that counts as constant: inside a node only its sockets make a difference.
const CONSTANT: f64 = 1.05;

fn claims(finding: &mut Finding, what: &str, size: &str, curves: &[Vec<(f64, f64)>]) {
    let [dart, native] = [0, 1].map(|i| (range(&curves[i], 1, NODE), range(&curves[i], NODE, RANKS)));
    let ((least, most), (outside, _)) = dart;
    finding.claim(
        most / least <= CONSTANT,
        format!("{what} of {size}: constant inside a node"),
        format!("simulated, distances 1 to {}: {} to {}", NODE - 1, Value::Time(least), Value::Time(most)),
    );
    finding.claim(
        outside / most >= 1.25,
        format!("{what} of {size}, DART: goes up significantly at the border of the node"),
        format!(
            "simulated, from distance {} to {NODE} and beyond: {} to at least {}, {}",
            NODE - 1,
            Value::Time(most),
            Value::Time(outside),
            Value::Ratio(outside / most)
        ),
    );
    let ((_, inside), (outside, _)) = native;
    let step = outside / inside;
    finding.claim(
        step < 1.25,
        format!("{what} of {size}, native: no such step, since it is also slow inside a node"),
        format!("simulated: {} to at least {}, {}", Value::Time(inside), Value::Time(outside), Value::Ratio(step)),
    );
    let beyond = |i: usize| curves[i].iter().filter(|point| point.0 >= f64::from(NODE)).map(|point| point.1);
    let apart = beyond(0).zip(beyond(1)).map(|(dart, native)| (dart / native - 1.0).abs()).fold(0.0, f64::max);
    finding.claim(
        apart < 0.02,
        format!("{what} of {size}: between nodes DART is native MPI"),
        format!("simulated: at most {} apart", Value::Share(apart)),
    );
}

fn table(finding: &mut Finding, what: &str, size: &str, curves: &[Vec<(f64, f64)>]) {
    let mut table = Table::new(format!("Blocking {what} of {size} by rank 0"), ["distance", "DART", "native"]);
    let shown = [1.0, 2.0, 12.0, 23.0, 24.0, 48.0, 96.0, 255.0];
    for (&(distance, dart), &(_, native)) in curves[0].iter().zip(&curves[1]) {
        if shown.contains(&distance) {
            table.row([Value::Count(distance as u64), Value::Time(dart), Value::Time(native)]);
        }
    }
    finding.tables.push(table);
}

fn plot(finding: &mut Finding, what: &str, size: &str, curves: Vec<Vec<(f64, f64)>>) {
    let series = ["DART", "native MPI"].into_iter().zip(curves).enumerate().map(|(style, (name, points))| Series {
        name: name.into(),
        origin: Origin::Simulated,
        style,
        points,
        spread: Vec::new(),
        group: String::new(),
    });
    finding.plots.push(Plot {
        name: format!("{what}-{}", size.replace(' ', "").to_lowercase()),
        title: format!("Blocking {what} of {size} by rank 0"),
        x: Axis::new("distance, in ranks", Quantity::Count),
        y: Axis::new("time of an operation", Quantity::Time),
        series: series.collect(),
        text:
            "Read it from left to right: the ranks of the same node, which loads and stores reach, then a step to the \
               first rank of the next node. Where both curves coincide, DART makes the same calls. Small steps \
               beyond the border are further links of the network."
                .into(),
    });
}
