//! foMPI's puts and gets: latency, message rate and overlap, between nodes and inside one.

use std::time::Duration;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_job::Result;
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};
use rmalab_report::statistics::median;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-latency",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), the slides on latency, overlap, message rate and flush",
    title: "put and get: latency, message rate and overlap, between nodes and inside one",
    protocol: "Inside lock_all, one rank puts to another one and flushes, or gets, for sizes from 8 B on; then it \
               puts many times before one flush (message rate), then it computes between put and flush for as long as \
               both take alone (overlap: the part of the transfer's time that is hidden). Simulated on profile gemini \
               to a rank of another node and of the same one, and measured on 2 processes of this machine. A flush \
               with nothing to do is timed.",
    found: "Small messages take a constant time; transfers between nodes overlap with computation; flush, one of the \
            most critical functions, adds only 78 processor instructions.",
    lesson: "Below some hundred bytes the size of a message does not matter: its time is the time of the path through \
             the adapters, the network and the library. Therefore the paper counts the library's own path in \
             instructions. A message that the adapter carries alone leaves the processor free, so that many can be \
             under way, and the program can compute meanwhile.",
    seconds: (10, 20),
    run,
};

/// Patterns of one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum What {
    /// Put and flush: nanoseconds.
    Put,
    /// Get: nanoseconds.
    Get,
    /// Puts and one flush: nanoseconds of a put.
    Burst,
    /// Put, compute, flush: the part of put and flush that is hidden.
    Overlap,
    /// Flush of nothing: nanoseconds.
    Flush,
}

/// Transfers from rank 0 to another rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Transfers {
    what: What,
    sizes: Vec<u32>,
    target: u32,
    rounds: u32,
}

impl Job for Transfers {
    /// A figure for each size; of rank 0.
    type Out = Vec<f64>;

    const NAME: &'static str = "transfers";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Vec<f64>> {
        let team = Team::new(ra)?;
        let most = self.sizes.iter().copied().max().unwrap_or(8) as usize;
        let mut window = Window::allocate(&team, most as u64)?;
        let mut buffer = vec![1_u8; most];
        let mut out = Vec::new();
        team.barrier()?;
        if ra.rank() == Rank(0) {
            // All other ranks have left the barrier by then, and are in the next one.
            ra.compute(Duration::from_millis(1))?;
            let (first, rank) = (WindowDisp(0), Rank(self.target));
            let all = window.lock_all()?;
            let target = all.at(rank)?;
            let mean = |body: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
                let begin = ra.now();
                for _ in 0..self.rounds {
                    body()?;
                }
                Ok(elapsed(ra, begin) / f64::from(self.rounds))
            };
            for &size in &self.sizes {
                let buffer = &mut buffer[..size as usize];
                let mut put = || -> Result<()> { Ok(target.put(first, buffer).and_then(|()| all.flush(rank))?) };
                // The first access to memory takes longer.
                put()?;
                out.push(match self.what {
                    What::Put => mean(&mut put)?,
                    What::Get => mean(&mut || Ok(target.get(first, buffer)?))?,
                    What::Burst => {
                        let begin = ra.now();
                        for _ in 0..self.rounds {
                            target.put(first, buffer)?;
                        }
                        all.flush(rank)?;
                        elapsed(ra, begin) / f64::from(self.rounds)
                    }
                    What::Overlap => {
                        let alone = mean(&mut put)?;
                        let work = Duration::from_nanos(alone as u64);
                        let computing = mean(&mut || Ok(ra.compute(work)?))?;
                        let both = mean(&mut || {
                            target.put(first, buffer)?;
                            ra.compute(work)?;
                            Ok(all.flush(rank)?)
                        })?;
                        ((alone + computing - both) / alone).clamp(0.0, 1.0)
                    }
                    What::Flush => mean(&mut || Ok(all.flush(rank)?))?,
                });
            }
            all.unlock_all()?;
        }
        team.barrier()?;
        window.free()?;
        Ok(out)
    }
}

/// The ranks of two nodes: rank 1 is on rank 0's node, and this one on the other.
const FAR: u32 = 32;

fn of_rank_0(ran: &Ran<Vec<f64>>) -> &[f64] {
    &ran.ranks[0]
}

/// The figures of puts, gets, bursts and overlaps to one target, for each size.
#[derive(Clone, Debug, Default)]
struct Place {
    put: Vec<f64>,
    get: Vec<f64>,
    burst: Vec<f64>,
    overlap: Vec<f64>,
    flush: f64,
}

const ALL: [What; 4] = [What::Put, What::Get, What::Burst, What::Overlap];

fn simulated(context: &Context<'_>, sizes: &[u32], target: u32) -> Result<Place> {
    let world = Ranks::simulated("gemini", FAR + 1);
    let figures = |what, sizes: &[u32]| -> Result<Vec<f64>> {
        let rounds = if what == What::Burst { 200 } else { 3 };
        let job = Transfers { what, sizes: sizes.to_vec(), target, rounds };
        Ok(of_rank_0(&context.run(&job, &world)?).to_vec())
    };
    let [put, get, burst, overlap] = ALL.map(|what| figures(what, sizes));
    Ok(Place { put: put?, get: get?, burst: burst?, overlap: overlap?, flush: figures(What::Flush, &[8])?[0] })
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let sizes: Vec<u32> = (3..=context.pick(20, 22)).map(|power| 1 << power).collect();
    let far = simulated(context, &sizes, FAR)?;
    let near = simulated(context, &sizes, 1)?;
    let jobs = ALL.map(|what| (Transfers { what, sizes: sizes.clone(), target: 1, rounds: 200 }, Ranks::processes(2)));
    let runs = context.in_turn(5, &jobs)?;
    let medians = |runs: &[Ran<Vec<f64>>]| -> Vec<f64> {
        (0..sizes.len()).map(|at| median(runs.iter().map(|run| of_rank_0(run)[at]))).collect()
    };
    let [put, get, burst, overlap] = [0, 1, 2, 3].map(|at: usize| medians(&runs[at]));
    let flush = (Transfers { what: What::Flush, sizes: vec![8], target: 1, rounds: 100_000 }, Ranks::processes(2));
    let flush = context.medians(5, &[flush], |ran| of_rank_0(ran)[0])?[0];
    Ok(report(&sizes, &far, &near, &Place { put, get, burst, overlap, flush }))
}

/// The time of 78 instructions, one per nanosecond.
const INSTRUCTIONS: f64 = 78.0;

/// Figures simulated to another node and inside one, and measured here.
fn report(sizes: &[u32], far: &Place, near: &Place, here: &Place) -> Finding {
    let mut finding = Finding::new();
    let places = [("other node, simulated", far), ("same node, simulated", near), ("2 processes here", here)];
    for (name, place) in places {
        let mut table = Table::new(
            format!("Transfers: {name}"),
            ["size", "put and flush", "get", "message rate", "bandwidth", "overlap"],
        );
        for (at, &size) in sizes.iter().enumerate() {
            table.row([
                Value::Bytes(size.into()),
                Value::Time(place.put[at]),
                Value::Time(place.get[at]),
                Value::Rate(1e9 / place.burst[at]),
                Value::Bandwidth(f64::from(size) / place.burst[at] * 1e9),
                Value::Share(place.overlap[at]),
            ]);
        }
        finding.tables.push(table);
    }
    // A simulated processor takes no time between two operations.
    let mut table = Table::new("A flush with nothing to do", ["where", "time"]);
    for (name, place) in places {
        table.row([Value::from(name), Value::Time(place.flush)]);
    }
    finding.tables.push(table);

    let at = |size: u32| sizes.iter().position(|&other| other == size).expect("the sizes are powers of two");
    let small = |times: &[f64]| times[at(512)] / times[at(8)];
    for (name, place) in [("simulated, other node", far), ("2 processes here", here)] {
        let (put, get) = (small(&place.put), small(&place.get));
        finding.claim(
            put < 2.0 && get < 2.0,
            "a constant latency of small messages",
            format!(
                "{name}: a put takes {} at 8 B and {} times as long at 512 B, a get {} and {} times (less than twice \
                 for 64 times the bytes counts as constant)",
                Value::Time(place.put[at(8)]),
                rmalab_report::numbers::digits(put),
                Value::Time(place.get[at(8)]),
                rmalab_report::numbers::digits(get)
            ),
        );
    }
    let (large, first) = (at(65_536), at(8));
    finding.claim(
        far.overlap[large] > 0.9,
        "transfers between nodes overlap with computation",
        format!(
            "{} of a put is hidden at 64 KiB, {} at 8 B, simulated",
            Value::Share(far.overlap[large]),
            Value::Share(far.overlap[first])
        ),
    );
    finding.claim(
        far.put[first] > 2.0 * far.burst[first],
        "many messages are under way at a time: with a rate that exceeds the inverse latency",
        format!(
            "{} of 8 B, {} times as many as with a flush after each, simulated",
            Value::Rate(1e9 / far.burst[first]),
            rmalab_report::numbers::digits(far.put[first] / far.burst[first])
        ),
    );
    finding.claim(
        near.put[first] < far.put[first] && here.put[first] < far.put[first],
        "inside a node put and get are local copies (by XPMEM), and the network is for other nodes",
        format!(
            "8 B: {} between nodes and {} inside one, simulated; {} on 2 processes here",
            Value::Time(far.put[first]),
            Value::Time(near.put[first]),
            Value::Time(here.put[first])
        ),
    );
    finding.claim(
        here.flush < INSTRUCTIONS,
        "flush adds only 78 processor instructions",
        format!(
            "a flush with nothing to do takes {} on 2 processes here; 78 instructions take {} at one a nanosecond \
             (instructions are not counted here)",
            Value::Time(here.flush),
            Value::Time(INSTRUCTIONS)
        ),
    );
    let mut why = Vec::new();
    if small(&here.put) >= 2.0 || small(&here.get) >= 2.0 {
        why.push(
            "between processes of one machine only the copy takes long, so that its bytes matter from the first on",
        );
    }
    if here.flush >= INSTRUCTIONS {
        why.push("the time of a flush is the time of its memory fence, which waits for the processor's pending writes");
    }
    finding.why = why.join("; ");

    let xs = |values: &[f64]| sizes.iter().map(|&size| f64::from(size)).zip(values.iter().copied()).collect::<Vec<_>>();
    let series = |name: &str, origin, style, points| Series {
        name: name.into(),
        origin,
        style,
        points,
        spread: Vec::new(),
        group: String::new(),
    };
    let axis = || Axis::new("size of a message", Quantity::Bytes);
    finding.plots.push(Plot {
        name: "latency".into(),
        title: "Put with flush, and get".into(),
        x: axis(),
        y: Axis::new("time", Quantity::Time),
        series: vec![
            series("put, other node", Origin::Simulated, 0, xs(&far.put)),
            series("get, other node", Origin::Simulated, 1, xs(&far.get)),
            series("put, same node", Origin::Simulated, 2, xs(&near.put)),
            series("get, same node", Origin::Simulated, 3, xs(&near.get)),
            series("put, here", Origin::Measured, 2, xs(&here.put)),
            series("get, here", Origin::Measured, 3, xs(&here.get)),
        ],
        text: "Each line is flat on the left, where the path dominates, and rises with slope one on the right, where \
               the bytes do; the bend is at the size that takes as long as the path. A get is slower than a put since \
               its data must come back first. Inside a node the processor copies at once."
            .into(),
    });
    let rate = |values: &[f64]| xs(&values.iter().map(|time| 1e9 / time).collect::<Vec<_>>());
    finding.plots.push(Plot {
        name: "rate".into(),
        title: "Message rate of one rank".into(),
        x: axis(),
        y: Axis::new("puts per second", Quantity::Rate),
        series: vec![
            series("other node", Origin::Simulated, 0, rate(&far.burst)),
            series("same node", Origin::Simulated, 2, rate(&near.burst)),
            series("here", Origin::Measured, 2, rate(&here.burst)),
        ],
        text: "Puts that a rank can issue with a single flush at the end. On the left the processor's overhead of a \
               message is the limit, on the right the bandwidth of the adapter, or of the memory."
            .into(),
    });
    finding.plots.push(Plot {
        name: "overlap".into(),
        title: "Overlap of puts with computation".into(),
        x: axis(),
        y: Axis::new("part of put and flush that is hidden", Quantity::Share),
        series: vec![
            series("other node", Origin::Simulated, 0, xs(&far.overlap)),
            series("same node", Origin::Simulated, 2, xs(&near.overlap)),
            series("here", Origin::Measured, 2, xs(&here.overlap)),
        ],
        text: "1 would be a transfer that costs the processor nothing. Between nodes everything is hidden except the \
               processor's overhead, which is a large part of a small message. Inside a node the processor itself \
               copies, and so cannot compute meanwhile: nothing is hidden, and the put is still faster."
            .into(),
    });
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use rmalab_job as job;

    fn figures(what: What, target: u32) -> Vec<f64> {
        let job = Transfers { what, sizes: vec![8, 512, 65_536], target, rounds: 50 };
        let ran = job::run(&job, &Ranks::simulated("gemini", FAR + 1), &AtomicBool::new(false)).unwrap();
        of_rank_0(&ran).to_vec()
    }

    #[test]
    fn shapes_between_nodes_and_inside_one() {
        let put = figures(What::Put, FAR);
        assert!(put[1] / put[0] < 1.2 && put[2] / put[0] > 5.0, "{put:?}");
        let burst = figures(What::Burst, FAR);
        assert!(put[0] / burst[0] > 2.0, "{put:?} {burst:?}");
        let [far, near] = [FAR, 1].map(|target| figures(What::Overlap, target)[2]);
        assert!(far > 0.9 && near < 0.1, "{far} {near}");
        assert!(figures(What::Put, 1)[0] < put[0] && figures(What::Get, FAR)[0] > put[0]);
        assert!(figures(What::Flush, FAR)[0] < put[0]);
    }

    #[test]
    fn it_runs_on_threads() {
        for what in ALL {
            let job = Transfers { what, sizes: vec![8, 64], target: 1, rounds: 5 };
            let ran = job::run(&job, &Ranks::threads(2), &AtomicBool::new(false)).unwrap();
            assert_eq!((ran.ranks[0].len(), ran.ranks[1].len()), (2, 0), "{what:?}");
        }
    }
}
