//! The FX100 study's figure 8: lock_all and unlock_all of many ranks at the same time, through one lock word.

use rmalab_atomics::sim::Profile;
use rmalab_atomics::{Collectives, RemoteAtomics};
use rmalab_locks::{Policy, PolicyKind, WindowLock};
use serde::{Deserialize, Serialize};

use super::{Context, Experiment};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_lab::simulate::validate;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value, growth, line};
use rmalab_report::numbers::counted;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fx100-lockall",
    source: "FX100 study (Hatanaka, Hori, Ishikawa), section 5.2, figure 8",
    title: "lock_all and unlock_all against ranks, MCS-RW with reader preference",
    protocol: "All ranks repeatedly acquire and release the window's one lock for reading at the same time, without \
               writers; the time of a pair on the slowest rank. Simulated on profile fx100, 32 ranks per node, with \
               one adapter engine that serves all words as in the study; 65,536 ranks, and with --long the K \
               computer's 663,552 (8 a node), beside the extrapolation. Measured on 1 to 8 processes of this machine.",
    found: "2.3 µs at 4 ranks and 130 µs at 256: proportional to the ranks, and so about 1 s at the 663,552 ranks of \
            the K computer.",
    lesson: "lock_all means that a rank reads and writes anywhere, and excludes no other rank that does the same. \
             Readers of a reader-writer lock do not wait for each other, but the lock has to count them, here in one \
             word of one rank. The adapter with the word serves one atomic operation after the other. So even without \
             any waiting, the lock costs each rank the service time of all ranks' operations.",
    seconds: (20, 240),
    run,
};

/// Ranks that repeatedly acquire and release a window lock for all targets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LockAlls {
    /// The lock policy.
    pub(super) policy: String,
    /// Acquisitions of each rank.
    pub(super) pairs: u32,
}

impl Job for LockAlls {
    /// Nanoseconds of a pair.
    type Out = f64;

    const NAME: &'static str = "lock-alls";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<f64> {
        let kind: PolicyKind = self.policy.parse().map_err(|error| Error::usage(format!("policy: {error}")))?;
        let failed = |source| Error::Lock { lock: self.policy.clone(), source };
        let all = Collectives::new(ra)?;
        let mut lock = Policy::new(ra, kind).map_err(failed)?;
        all.barrier()?;
        let begin = ra.now();
        for _ in 0..self.pairs {
            lock.lock_all(ra).map_err(failed)?;
            lock.unlock_all(ra).map_err(failed)?;
        }
        let time = elapsed(ra, begin) / f64::from(self.pairs);
        all.barrier()?;
        Ok(time)
    }
}

/// The slowest rank's time.
pub(super) fn slowest(ran: &Ran<f64>) -> f64 {
    ran.ranks.iter().copied().fold(0.0, f64::max)
}

/// The study's figures: ranks, and nanoseconds of a pair. They are from figure 8; the figure for 4,096 ranks is the
/// slowest rank's in figure 10.
const PUBLISHED: [(u32, f64); 3] = [(4, 2.3e3), (256, 130e3), (4096, 2.2e6)];

/// The K computer's ranks.
const K: u32 = 663_552;

/// The study's extrapolation for [`K`].
const K_PUBLISHED: f64 = 1e9;

/// Ranks, ranks per node, and acquisitions of each rank.
type World = (u32, u32, u32);

/// Nanoseconds of a pair on the slowest rank, simulated.
fn pair(context: &Context<'_>, profile: &Profile, (ranks, per_node, pairs): World) -> Result<f64> {
    context.keep(&format!("{ranks} ranks, {per_node} a node, {pairs} pairs"), || {
        Ok(validate::locks(profile, ranks, per_node, pairs, context.stop())?.slowest() / f64::from(pairs))
    })
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let profile = Profile::find("fx100")?;
    let mut curve = Vec::new();
    for ranks in (2..=12).map(|power| 1 << power) {
        let pairs = if ranks > 1024 { context.pick(60, 1000) } else { context.pick(200, 1000) };
        curve.push((f64::from(ranks), pair(context, &profile, (ranks, 32, pairs))?));
    }
    // For this many ranks only few acquisitions are simulated; all ranks still begin at the same time.
    let large = context.pick(vec![(65_536, 8, 2)], vec![(65_536, 8, 4), (K, 8, 2)]);
    let mut beyond = Vec::new();
    for world in large {
        beyond.push((f64::from(world.0), pair(context, &profile, world)?));
    }
    let processes = [1, 2, 4, 8];
    let policy = PolicyKind::McsRwRp.name();
    let here = processes.map(|ranks| (LockAlls { policy: policy.into(), pairs: 20_000 }, Ranks::processes(ranks)));
    let here = context.medians(5, &here, slowest)?;
    let here: Vec<(f64, f64)> = processes.iter().copied().map(f64::from).zip(here).collect();
    Ok(report(&curve, &beyond, &here))
}

/// Points are ranks and nanoseconds of a pair: up to the study's size, beyond it, and on processes here.
fn report(curve: &[(f64, f64)], beyond: &[(f64, f64)], here: &[(f64, f64)]) -> Finding {
    let mut finding = Finding::new();
    let of = |ranks: u32| curve.iter().find(|point| point.0 == f64::from(ranks)).map_or(f64::NAN, |point| point.1);
    let published = |ranks: f64| PUBLISHED.iter().find(|point| f64::from(point.0) == ranks).map(|point| point.1);
    let saturated: Vec<(f64, f64)> = curve.iter().copied().filter(|point| point.0 >= 64.0).collect();
    let (exponent, explained) = growth(&saturated);
    let (each, offset, _) = line(&saturated);
    let extrapolated = |ranks: f64| offset + each * ranks;
    let at_k = extrapolated(f64::from(K));

    let mut table = Table::new(
        "Time of a pair of lock_all and unlock_all, slowest rank",
        ["ranks", "published", "simulated", "deviation", "line through 64 to 4,096"],
    );
    let optional = |value: Option<f64>, make: fn(f64) -> Value| value.map_or(Value::None, make);
    for &(ranks, time) in curve.iter().chain(beyond) {
        let published = published(ranks);
        table.row([
            Value::Count(ranks as u64),
            optional(published, Value::Time),
            Value::Time(time),
            optional(published.map(|published| time / published - 1.0), Value::Share),
            if ranks >= 64.0 { Value::Time(extrapolated(ranks)) } else { Value::None },
        ]);
    }
    if !beyond.iter().any(|point| point.0 == f64::from(K)) {
        let k = Value::Count(K.into());
        table.row([k, Value::Time(K_PUBLISHED), Value::None, Value::None, Value::Time(at_k)]);
    }
    finding.tables.push(table);
    let mut table = Table::new("The same on processes of this machine", ["processes", "a pair, slowest process"]);
    for &(ranks, time) in here {
        table.row([Value::Count(ranks as u64), Value::Time(time)]);
    }
    finding.tables.push(table);

    for (ranks, time) in [PUBLISHED[0], PUBLISHED[1]] {
        let here = of(ranks);
        finding.fitted(
            (here / time - 1.0).abs() <= 0.15,
            format!("{} at {ranks} ranks", Value::Time(time)),
            format!("{}, simulated (within 15 % counts as agreement)", Value::Time(here)),
        );
    }
    finding.fitted(
        (exponent - 1.0).abs() < 0.1 && explained > 0.99,
        "proportional to the ranks",
        format!(
            "as ranks^{exponent:.3} from 64 to 4,096 ranks, R² {explained:.4}, simulated: {} for each rank more",
            Value::Time(each)
        ),
    );
    let simulated = beyond.iter().find(|point| point.0 == f64::from(K));
    let told =
        simulated.map_or(String::new(), |&(_, time)| format!("; simulated with that many, {}", Value::Time(time)));
    let at_most = simulated.map_or(at_k, |point| point.1);
    finding.claim(
        (at_most / K_PUBLISHED).log10().abs() < 0.5,
        "about 1 s, extrapolated, at 663,552 ranks",
        format!(
            "{} by our line{told}: within a factor of three of 1 s, which counts as agreement. The study's own 130 µs \
             at 256 ranks and 2.2 ms at 4,096, made proportional, give {} and {}",
            Value::Time(at_k),
            Value::Time(130e3 / 256.0 * f64::from(K)),
            Value::Time(2.2e6 / 4096.0 * f64::from(K)),
        ),
    );
    if let Some(&(ranks, time)) = beyond.first() {
        let off = time / extrapolated(ranks) - 1.0;
        finding.claim(
            off.abs() < 0.1,
            "an extrapolation of the line predicts the time of more ranks",
            format!(
                "{} at {}, simulated, {:+.1} % off our line",
                Value::Time(time),
                counted(ranks as u64, "rank"),
                off * 100.0
            ),
        );
    }
    if !finding.claims.iter().all(|claim| claim.holds) {
        finding.why =
            "the simulated adapter serves one operation in 0.265 µs, which is fitted to all of the study's figures \
                       together and meets none of them exactly"
                .into();
    }
    let published = |points: &[(u32, f64)]| points.iter().map(|&(ranks, time)| (f64::from(ranks), time)).collect();
    let series = |name: &str, origin, style, points| Series {
        name: name.into(),
        origin,
        style,
        points,
        spread: Vec::new(),
        group: String::new(),
    };
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "lock_all and unlock_all, all ranks at once".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("time of a pair, slowest rank", Quantity::Time),
        series: vec![
            series("FX100", Origin::Simulated, 0, curve.iter().chain(beyond).copied().collect()),
            series("FX100", Origin::Published, 0, {
                let mut points: Vec<(f64, f64)> = published(&PUBLISHED);
                points.push((f64::from(K), K_PUBLISHED));
                points
            }),
            series("processes here", Origin::Measured, 1, here.to_vec()),
        ],
        text: "A straight line of slope one on logarithmic axes: twice the ranks take twice the time, although no \
               rank ever waits for the lock itself. For few ranks the line is flatter, since the adapter is then idle \
               between two operations. The last published point is the study's extrapolation. On this machine \
               processes share its processors' caches instead of an adapter: a pair is far cheaper, and with more \
               processes than processors it grows because they take turns."
            .into(),
    });
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use rmalab_job as job;

    #[test]
    fn the_time_is_proportional_to_the_ranks() {
        let profile = Profile::find("fx100").unwrap();
        let stop = AtomicBool::new(false);
        let time = |ranks| validate::locks(&profile, ranks, 32, 20, &stop).unwrap().slowest() / 20.0;
        let points: Vec<(f64, f64)> = [64, 128, 256].map(|ranks| (f64::from(ranks), time(ranks))).into();
        let finding = report(&points, &[], &[(1.0, 50.0)]);
        let proportional = finding.claims.iter().find(|claim| claim.expected.contains("proportional")).unwrap();
        assert!(proportional.holds, "{proportional:?}");
        // Constant times do not count as proportional.
        let flat: Vec<(f64, f64)> = points.iter().map(|&(ranks, _)| (ranks, 1000.0)).collect();
        let flat = report(&flat, &[], &[]);
        assert!(!flat.claims.iter().find(|claim| claim.expected.contains("proportional")).unwrap().holds);
    }

    #[test]
    fn the_job_runs_every_policy_and_refuses_others() {
        let stop = AtomicBool::new(false);
        for policy in PolicyKind::NAMES {
            let job = LockAlls { policy: (*policy).into(), pairs: 3 };
            assert_eq!(job::run(&job, &Ranks::threads(2), &stop).unwrap().ranks.len(), 2, "{policy}");
        }
        let job = LockAlls { policy: "none".into(), pairs: 3 };
        assert!(job::run(&job, &Ranks::simulated("fx100", 2), &stop).unwrap_err().to_string().contains("policy"));
    }
}
