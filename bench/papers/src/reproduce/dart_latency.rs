//! DART's blocking put and get inside a node, against calls of a window.

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{Assert, GlobalMemory, Reserve, Team, UserMemory, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth};
use rmalab_report::statistics::median;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "dart-latency",
    source: "DART (Zhou, Idrees, Gracia, Euro-Par'15), section 4.1, figure 2",
    title: "blocking put and get inside a node",
    protocol: "One process writes to, or reads from, another one of the same machine, 1 B to 2 MiB, and waits for \
               each operation; measured on 2 processes here. Load/store: global memory, whose parts are shared \
               windows nested in a dynamic one. RMA calls: put and flush, or get, on a dynamic window with attached \
               memory of the target's program. Only the kernel reaches such memory (process_vm_writev and \
               process_vm_readv), also in an MPI library. A third curve makes the same calls on a dynamic window with \
               attached memory that is shared.",
    found: "The load/store path is more than 10 times faster than native MPI's RMA calls for small messages, and the \
            latency is about constant below 1 KiB, in all cases.",
    lesson: "Ranks of one node could access each other's memory with the processor's instructions. But a window's put \
             goes through the library, and perhaps through the kernel or the network adapter. DART therefore \
             allocates memory as shared windows, looks up in a table whether a pointer refers to the local node, and \
             then copies. Small messages show the saved time: for large ones the copy itself takes the time.",
    seconds: (15, 60),
    run,
};

/// The kind of memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum Way {
    /// Global memory.
    LoadStore,
    /// A dynamic window, memory of the program.
    Attached,
    /// A dynamic window, a part of another window.
    Nested,
}

/// Puts or gets of rank 0 at rank 1, each completed before the next.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Latency {
    way: Way,
    get: bool,
    bytes: Vec<u64>,
    /// Bytes for which each size is repeated, within limits.
    volume: u64,
}

/// The least and the largest number of repetitions of a size.
const REPETITIONS: (u64, u64) = (20, 5000);

impl Latency {
    /// Times one operation of each size, in nanoseconds, at rank 0; other ranks are idle.
    fn time<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        mut one: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<Vec<f64>> {
        if ra.rank() != Rank(0) {
            return Ok(Vec::new());
        }
        let mut buffer = vec![1; self.most()];
        let mut times = Vec::new();
        for &bytes in &self.bytes {
            let buffer = &mut buffer[..bytes as usize];
            let repetitions = (self.volume / bytes.max(1)).clamp(REPETITIONS.0, REPETITIONS.1);
            for _ in 0..repetitions / 10 {
                one(buffer)?;
            }
            let begin = ra.now();
            for _ in 0..repetitions {
                one(buffer)?;
            }
            times.push(elapsed(ra, begin) / repetitions as f64);
        }
        Ok(times)
    }

    fn most(&self) -> usize {
        self.bytes.iter().copied().max().unwrap_or(0) as usize
    }

    fn on_dynamic<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        window: &mut Window<'_, A>,
        attached: WindowDisp,
    ) -> Result<Vec<f64>> {
        let mut words = [attached.0 as u64];
        team.broadcast(Rank(1), &mut words)?;
        let at = WindowDisp(words[0] as i64);
        let epoch = window.lock_all_assert(Assert::NoCheck)?;
        let times = self.time(team.ra(), |buffer| {
            if self.get {
                epoch.at(Rank(1))?.get(at, buffer)?;
            } else {
                epoch.at(Rank(1))?.put(at, buffer)?;
                epoch.flush(Rank(1))?;
            }
            Ok(())
        })?;
        team.barrier()?;
        epoch.unlock_all()?;
        Ok(times)
    }
}

impl Job for Latency {
    /// Nanoseconds of an operation of each size; of rank 0.
    type Out = Vec<f64>;

    const NAME: &'static str = "latency-in-a-node";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Vec<f64>> {
        if ra.size() < 2 {
            return Err(Error::usage("latency: at least two ranks are needed"));
        }
        let team = Team::new(ra)?;
        let most = self.most() as u64;
        match self.way {
            Way::LoadStore => {
                GlobalMemory::run(&team, Reserve { collective: most + (64 << 10), pool: 4096 }, |memory| {
                    let at = memory.team_memalloc_aligned(most)?.at_unit(Rank(1));
                    let times = self.time(ra, |buffer| {
                        if self.get {
                            memory.get(at, buffer)?;
                        } else {
                            memory.put(at, buffer)?;
                        }
                        Ok(())
                    })?;
                    team.barrier()?;
                    Ok(times)
                })
            }
            Way::Attached => {
                let mut window = Window::create_dynamic(&team)?;
                let attached = window.attach(UserMemory::from_vec(vec![0_u8; most as usize]))?;
                let times = self.on_dynamic(&team, &mut window, attached)?;
                window.detach(attached)?;
                window.free()?;
                Ok(times)
            }
            Way::Nested => {
                let nested = Window::allocate(&team, most)?;
                let mut window = Window::create_dynamic(&team)?;
                let attached = window.attach_window(&nested)?;
                let times = self.on_dynamic(&team, &mut window, attached)?;
                window.detach_window(attached)?;
                window.free()?;
                nested.free()?;
                Ok(times)
            }
        }
    }
}

/// The largest of small messages, in bytes; these are about 10 times faster in the paper.
const SMALL: u64 = 64;

/// The largest growth of latency below 1 KiB that counts as constant.
const CONSTANT: f64 = 1.5;

fn run(context: &Context<'_>) -> Result<Finding> {
    let bytes: Vec<u64> = (0..=21).map(|power| 1 << power).collect();
    let ways = [Way::LoadStore, Way::Attached, Way::Nested];
    let jobs: Vec<(Latency, Ranks)> = [false, true]
        .into_iter()
        .flat_map(|get| ways.map(|way| (way, get)))
        .map(|(way, get)| {
            let volume = context.pick(32 << 20, 256 << 20);
            (Latency { way, get, bytes: bytes.clone(), volume }, Ranks::processes(2))
        })
        .collect();
    let runs = context.in_turn(5, &jobs)?;
    // The median of the runs for each job and size.
    let curve = |runs: &Vec<Ran<Vec<f64>>>| -> Vec<(f64, f64)> {
        let time = |i: usize| {
            median(runs.iter().map(|ran| ran.ranks.first().and_then(|times| times.get(i)).copied().unwrap_or(f64::NAN)))
        };
        bytes.iter().enumerate().map(|(i, &bytes)| (bytes as f64, time(i))).collect()
    };
    let curves: Vec<Vec<(f64, f64)>> = runs.iter().map(curve).collect();
    let (put, get) = curves.split_at(ways.len());

    let mut finding = Finding::new();
    for (what, curves) in [("put", put), ("get", get)] {
        let columns = ["bytes", "load/store", "RMA calls", "how often faster", "RMA calls, shared memory"];
        let mut table = Table::new(format!("Latency of a blocking {what}, 2 processes of one node"), columns);
        for ((&(bytes, fast), &(_, slow)), &(_, nested)) in curves[0].iter().zip(&curves[1]).zip(&curves[2]) {
            let row = [Value::Bytes(bytes as u64), Value::Time(fast), Value::Time(slow)];
            table.row(row.into_iter().chain([Value::Ratio(slow / fast), Value::Time(nested)]));
        }
        finding.tables.push(table);
        let small =
            |curve: &[(f64, f64)]| median(curve.iter().filter(|point| point.0 <= SMALL as f64).map(|point| point.1));
        let ratio = small(&curves[1]) / small(&curves[0]);
        finding.claim(
            ratio > 10.0,
            format!("{what} by load/store more than 10 times faster for small messages"),
            format!(
                "measured, up to {SMALL} B: {} against {}, {}",
                Value::Time(small(&curves[0])),
                Value::Time(small(&curves[1])),
                Value::Ratio(ratio)
            ),
        );
        let below = |curve: &[(f64, f64)]| {
            let times = || curve.iter().filter(|point| point.0 < 1024.0).map(|point| point.1);
            times().fold(0.0, f64::max) / times().fold(f64::INFINITY, f64::min)
        };
        for (name, curve) in [("load/store", &curves[0]), ("RMA calls", &curves[1])] {
            let spread = below(curve);
            finding.claim(
                spread <= CONSTANT,
                format!("{what}, {name}: about constant below 1 KiB"),
                format!("measured: from the least to the largest {}", Value::Ratio(spread)),
            );
        }
        let long: Vec<(f64, f64)> = curves[0].iter().copied().filter(|point| point.0 >= 65_536.0).collect();
        let (exponent, _) = growth(&long);
        finding.claim(
            (0.7..1.3).contains(&exponent),
            format!("{what}: beyond, the time grows linearly with the bytes"),
            format!("measured, load/store, 64 KiB to 2 MiB: as bytes^{exponent:.2}"),
        );
        let names = ["load/store", "RMA calls", "RMA calls, shared memory"];
        finding.plots.push(Plot {
            name: what.into(),
            title: format!("Blocking {what} inside a node"),
            x: Axis::new("bytes", Quantity::Bytes),
            y: Axis::new("time of an operation", Quantity::Time),
            series: names
                .iter()
                .zip(curves)
                .enumerate()
                .map(|(style, (&name, points))| Series {
                    name: name.into(),
                    origin: Origin::Measured,
                    style,
                    points: points.clone(),
                    spread: Vec::new(),
                    group: String::new(),
                })
                .collect(),
            text: format!(
                "The distance of the lower curve from the others at the left is the cost of a {what} besides its \
                 bytes: a search in a table, against a call of the kernel, or of the window layer. The curves meet at \
                 the right: there all of them copy."
            ),
        });
    }
    let failed = |text: &str| finding.claims.iter().any(|claim| !claim.holds && claim.expected.contains(text));
    let mut why = Vec::new();
    if failed("load/store: about constant") {
        why.push(
            "a load/store operation of some bytes takes so few nanoseconds here that the copy of some hundred bytes is \
             visible",
        );
    }
    if failed("RMA calls: about constant") {
        why.push("the kernel's copy of some hundred bytes is visible beside its call");
    }
    if failed("more than 10 times faster") {
        why.push("the kernel's copy costs less than 10 times a search in the table and a store");
    }
    finding.why = why.join("; ");
    Ok(finding)
}
