//! foMPI's passive synchronization: operations of lock, lock_all and flush at any number of ranks.

use std::time::Duration;

use rmalab_atomics::{Counted, Counts, Rank, RemoteAtomics, WORD};
use rmalab_locks::LockKind;
use rmalab_windows::{Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_job::Result;
use rmalab_job::{Job, Ranks, elapsed};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fompi-locks",
    source: "foMPI (Gerstenberger, Besta, Hoefler, SC'13), the slides on scalable lock synchronization and flush",
    title: "lock, lock_all and flush: operations and times at any number of ranks",
    protocol: "The last of p ranks, alone, locks and unlocks an allocated window with the two-level policy (master \
               and target at rank 0): each call's network operations are counted, and its time is taken. Simulated on \
               profile gemini, 32 ranks per node, from 2 to 4,096 ranks (65,536 with --long); the times on 2 processes \
               of this machine, too.",
    found: "A constant number of operations for p processes: lock_all has one phase (one operation at the master), an \
            exclusive lock two (master, then target); flush takes O(1) time and memory.",
    lesson: "A window of p ranks has p locks. Taking all of them could cost p operations. foMPI has one master word \
             that records whether any rank holds an exclusive lock anywhere, so lock_all needs one operation. An \
             exclusive lock pays for that with one more operation, and lock_all saves p.",
    seconds: (10, 30),
    run,
};

/// The measured calls, in the order of [`Calls`].
const CALLS: [&str; 9] = [
    "lock_all",
    "unlock_all",
    "lock(exclusive), the first",
    "lock(exclusive), another target",
    "unlock, one of two",
    "unlock, the last",
    "lock(shared)",
    "unlock(shared)",
    "flush of a put to the next node",
];

/// One value for each of [`CALLS`].
type Calls<T> = [T; 9];

/// The last rank's calls, one after the other, while the other ranks wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LockCalls {
    /// The number of timed rounds.
    rounds: u32,
}

impl Job for LockCalls {
    /// Nanoseconds and operations of each of [`CALLS`], of the last rank.
    type Out = Option<(Calls<f64>, Calls<u64>)>;

    const NAME: &'static str = "lock-calls";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Self::Out> {
        let counted = Counted::new(ra);
        let team = Team::new(&counted as &dyn RemoteAtomics)?;
        let mut window = Window::allocate(&team, WORD)?;
        team.barrier()?;
        let mut out = None;
        if ra.rank().0 + 1 == ra.size() {
            // All other ranks have left the barrier by then, and are in the next one.
            ra.compute(Duration::from_millis(1))?;
            let mut nothing = Clock::new(&counted);
            let lost = most((0..self.rounds).map(|_| nothing.lap().0).collect());
            let mut times: Calls<Vec<f64>> = Default::default();
            let mut operations = [0; 9];
            for _ in 0..self.rounds {
                let laps = round(&counted, &mut window)?;
                for (at, (time, counts)) in laps.into_iter().enumerate() {
                    times[at].push(time - lost);
                    operations[at] = counts.remote_operations() + counts.own_operations();
                }
            }
            out = Some((times.map(most), operations));
        }
        team.barrier()?;
        window.free()?;
        Ok(out)
    }
}

/// The mean of the least nine in ten times: clocks tick in steps, and a few times include an interrupt.
fn most(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.truncate((times.len() * 9).div_ceil(10));
    times.iter().sum::<f64>() / times.len() as f64
}

/// Time and operations between two calls.
struct Clock<'c, 'a> {
    counted: &'c Counted<'a, dyn RemoteAtomics + 'a>,
    since: rmalab_atomics::Time,
}

impl<'c, 'a> Clock<'c, 'a> {
    fn new(counted: &'c Counted<'a, dyn RemoteAtomics + 'a>) -> Clock<'c, 'a> {
        counted.reset();
        Clock { counted, since: counted.now() }
    }

    /// Since the last call of this function.
    fn lap(&mut self) -> (f64, Counts) {
        let time = elapsed(self.counted, self.since);
        let counts = self.counted.take();
        self.since = self.counted.now();
        (time, counts)
    }
}

/// Ranks of a node of profile gemini.
const PER_NODE: u32 = 32;

/// Each of [`CALLS`] once.
fn round<'a, 't>(
    counted: &Counted<'a, dyn RemoteAtomics + 'a>,
    window: &mut Window<'t, dyn RemoteAtomics + 't>,
) -> Result<Calls<(f64, Counts)>> {
    let mut clock = Clock::new(counted);
    let all = window.lock_all()?;
    let lock_all = clock.lap();
    // On the node before this rank's, if there is one.
    let ranks = counted.size();
    let next = Rank((ranks - 1).saturating_sub(PER_NODE));
    all.at(next)?.put_value(WindowDisp(0), 1_u64)?;
    clock.lap();
    all.flush(next)?;
    let flush = clock.lap();
    all.unlock_all()?;
    let unlock_all = clock.lap();
    let first = window.lock(LockKind::Exclusive, Rank(0))?;
    let exclusive = clock.lap();
    let second = window.lock(LockKind::Exclusive, Rank(1))?;
    let another = clock.lap();
    second.unlock()?;
    let one = clock.lap();
    first.unlock()?;
    let last = clock.lap();
    let shared = window.lock(LockKind::Shared, Rank(0))?;
    let lock = clock.lap();
    shared.unlock()?;
    let unlock = clock.lap();
    Ok([lock_all, unlock_all, exclusive, another, one, last, lock, unlock, flush])
}

/// The calls' times and operations on the ranks of a world.
#[derive(Clone, Debug)]
struct Point {
    ranks: u32,
    times: Calls<f64>,
    operations: Calls<u64>,
}

fn point(context: &Context<'_>, world: &Ranks, rounds: u32) -> Result<Point> {
    let ran = context.run(&LockCalls { rounds }, world)?;
    let (times, operations) = ran.ranks.into_iter().flatten().next().expect("the last rank makes the calls");
    Ok(Point { ranks: world.ranks, times, operations })
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let mut points = Vec::new();
    for power in 1..=context.pick(12, 16) {
        points.push(point(context, &Ranks::simulated("gemini", 1 << power), 1)?);
    }
    let here = point(context, &Ranks::processes(2), 20_000)?;
    Ok(report(&points, &here))
}

fn report(points: &[Point], here: &Point) -> Finding {
    let mut finding = Finding::new();
    let ranks: Vec<u32> = points.iter().map(|point| point.ranks).collect();
    let (least, most) = (ranks[0], ranks[ranks.len() - 1]);
    let mut table = Table::new(
        format!("Operations of a call, and its time, on {least} to {most} ranks"),
        ["call", "operations, all p alike", "time, simulated, other node", "time on 2 processes here"],
    );
    let far = &points[points.len() - 1];
    for (at, call) in CALLS.into_iter().enumerate() {
        let first = points[0].operations[at];
        let alike = points.iter().all(|point| point.operations[at] == first);
        let operations = if alike { Value::Count(first) } else { Value::from("differ") };
        table.row([Value::from(call), operations, Value::Time(far.times[at]), Value::Time(here.times[at])]);
    }
    finding.tables.push(table);
    let of = |at: usize| -> Vec<u64> {
        let mut all: Vec<u64> = points.iter().chain([here]).map(|point| point.operations[at]).collect();
        all.dedup();
        all
    };
    let told = |at: usize| of(at).iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    finding.claim(
        of(0) == [1] && of(1) == [1],
        "lock_all takes 1 operation for any p",
        format!("counted: {} to lock and {} to unlock, for each p from {least} to {most}", told(0), told(1)),
    );
    finding.claim(
        of(2) == [2] && of(5) == [2],
        "an exclusive lock takes 2 operations for any p",
        format!("counted: {} to lock, {} to unlock, for each p from {least} to {most}", told(2), told(5)),
    );
    finding.claim(
        of(3) == [1] && of(4) == [1],
        "only a rank's first exclusive lock has the global phase",
        format!("counted: {} for one more target, and {} to unlock it", told(3), told(4)),
    );
    finding.claim(
        of(6) == [1] && of(7) == [1],
        "a shared lock is local to its target",
        format!("counted: {} to lock, {} to unlock, for each p from {least} to {most}", told(6), told(7)),
    );
    let flushes: Vec<f64> = points.iter().filter(|point| point.ranks > PER_NODE).map(|point| point.times[8]).collect();
    // The clock has whole nanoseconds.
    let same = flushes.windows(2).all(|pair| (pair[0] - pair[1]).abs() <= 1.0);
    finding.claim(
        of(8) == [0] && same,
        "flush takes O(1) time",
        format!(
            "no operations, and {} for a put of 8 B to the next node, simulated: the same for each p with two nodes and \
             more; {} on 2 processes here",
            Value::Time(flushes.first().copied().unwrap_or(f64::NAN)),
            Value::Time(here.times[8])
        ),
    );
    // The remaining growth comes from the path through the network, and not from more operations.
    let series = |at: usize, style: usize| Series {
        name: CALLS[at].into(),
        origin: Origin::Simulated,
        style,
        points: points.iter().map(|point| (f64::from(point.ranks), point.times[at])).collect(),
        spread: Vec::new(),
        group: String::new(),
    };
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "Uncontended locks against the number of ranks".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("time of a call by the last rank", Quantity::Time),
        series: vec![series(0, 0), series(2, 1), series(6, 2), series(8, 3)],
        text: "The calls of the rank that is farthest from the master. Up to 32 ranks that is on the same node. The \
               slow rise beyond is the longer path through the torus; the number of operations stays the same. An \
               exclusive lock takes two operations, one after the other, so it takes twice as long as lock_all."
            .into(),
    });
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use rmalab_job as job;

    fn counted(world: &Ranks) -> Calls<u64> {
        let ran = job::run(&LockCalls { rounds: 2 }, world, &AtomicBool::new(false)).unwrap();
        let mut found = ran.ranks.into_iter().flatten();
        let one = found.next().unwrap().1;
        assert!(found.next().is_none(), "the last rank only");
        one
    }

    #[test]
    fn operations_are_constant() {
        let expected = [1, 1, 2, 1, 1, 2, 1, 1, 0];
        for ranks in [2, 3, 31, 64, 256] {
            assert_eq!(counted(&Ranks::simulated("gemini", ranks)), expected, "{ranks}");
        }
        assert_eq!(counted(&Ranks::threads(3)), expected);
    }

    #[test]
    fn a_growing_number_of_operations_is_detected() {
        let point =
            |ranks, lock_all| Point { ranks, times: [1000.0; 9], operations: [lock_all, 1, 2, 1, 1, 2, 1, 1, 0] };
        let finding = report(&[point(2, 1), point(4, 1)], &point(2, 1));
        assert!(finding.claims.iter().all(|claim| claim.holds));
        let finding = report(&[point(2, 1), point(4, 3)], &point(2, 1));
        assert_eq!(finding.claims.iter().filter(|claim| !claim.holds).count(), 1);
    }
}
