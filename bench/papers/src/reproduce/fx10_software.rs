//! The FX100 study's figure 9: lock and unlock with software at the target instead of network atomics.

use std::time::Duration;

use rmalab_atomics::{Mapped, Rank, RemoteAtomics, WORD, World};
use rmalab_locks::LockKind;
use rmalab_windows::{Team, Transport, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::fx100_lockall::slowest;
use super::{Context, Experiment};
use rmalab_apps::Strategies;
use rmalab_job::Result;
use rmalab_job::{self as job, Job, Ranks, elapsed};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};
use rmalab_report::statistics::median;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fx10-software",
    source: "FX100 study (Hatanaka, Hori, Ishikawa), section 5.2, figure 9",
    title: "shared lock and unlock without network atomics",
    protocol: "256 ranks repeatedly lock and unlock one rank's window in shared mode at the same time; the time of a \
               pair on the slowest rank. With network atomics (MCS-RW with reader preference), and with the two-sided \
               transport. On the latter the target's processor serves requests, here one short put that carries the \
               lock and is acknowledged. Simulated on profile fx100, where the adapter serves all atomics, or, by \
               messages, the target's processor serves its own words; the target only serves, or it computes and \
               serves between two computations. Measured on threads of this machine, with the target waiting, and \
               with an agent (one more thread, which serves).",
    found: "1,000 pairs take 114 s on the FX10, which has no network atomics, and 130 µs each on the FX100: about \
            1,000 times as long.",
    lesson: "Without network atomics, software at the target has to poll for lock requests. The main cost is not the \
             few instructions that grant a lock. It is the time until the poll: a processor that computes polls when \
             its program next calls the library, and a sleeping agent has to be woken. That time is independent of \
             the network, and can easily be a thousand times the time of an atomic operation.",
    seconds: (20, 60),
    run,
};

/// Ranks that lock and unlock rank 0's window, while rank 0 computes or serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SoftwareLocks {
    strategies: Strategies,
    /// Pairs of lock and unlock of each rank.
    pairs: u32,
    /// True if a short put is inside. Without an operation, a lock by messages would send no request.
    put: bool,
    /// Rank 0's computing between two calls in which it serves, in nanoseconds; none if it waits in a call.
    computes: Option<u64>,
    /// The other ranks' computing after each pair, in nanoseconds.
    others_compute: u64,
}

impl Job for SoftwareLocks {
    /// Nanoseconds of a pair; 0 for the target.
    type Out = f64;

    const NAME: &'static str = "software-locks";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<f64> {
        let team = Team::new(ra)?;
        let window = self.strategies.window(&team, WORD)?;
        let ended = ra.heap().alloc(WORD, WORD)?;
        team.barrier()?;
        let mut time = 0.0;
        if ra.rank() != Rank(0) {
            time = pairs(ra, &window, self.pairs, self.put, Duration::from_nanos(self.others_compute))?;
            ra.fetch_add(Rank(0).at(ended), 1)?;
        } else if let Some(computes) = self.computes {
            while ra.get(Rank(0).at(ended))? + 1 < u64::from(ra.size()) {
                ra.compute(Duration::from_nanos(computes))?;
                team.progress()?;
            }
        }
        // A target that waits here serves.
        team.barrier()?;
        window.free()?;
        Ok(time)
    }
}

/// Locks and unlocks rank 0's window, computes after that, and returns the nanoseconds of a pair without the computing.
fn pairs<A: RemoteAtomics + ?Sized>(
    ra: &A,
    window: &Window<'_, A>,
    pairs: u32,
    put: bool,
    computes: Duration,
) -> Result<f64> {
    let one = |pair: u32| -> Result<()> {
        let lock = window.lock(LockKind::Shared, Rank(0))?;
        if put {
            lock.put_value(WindowDisp(0), u64::from(pair))?;
        }
        Ok(lock.unlock()?)
    };
    let begin = ra.now();
    if computes.is_zero() {
        (0..pairs).try_for_each(one)?;
        return Ok(elapsed(ra, begin) / f64::from(pairs));
    }
    let mut time = 0.0;
    for pair in 0..pairs {
        let begin = ra.now();
        one(pair)?;
        time += elapsed(ra, begin);
        ra.compute(computes)?;
    }
    Ok(time / f64::from(pairs))
}

/// Like [`SoftwareLocks`], with an agent at each rank, which is a thread: nanoseconds of a pair, on the slowest thread.
fn with_agents(ranks: u32, times: u32) -> Result<f64> {
    let strategies = Strategies { transport: Some(Transport::TwoSidedAgent.name().into()), ..Strategies::default() };
    let rank = |ra: &Mapped| -> Result<f64> {
        let team = Team::new(ra)?;
        let window = strategies.window(&team, WORD)?;
        let agent = window.agent()?;
        let time = std::thread::scope(|scope| -> Result<f64> {
            let served = scope.spawn(move || agent.serve());
            team.barrier()?;
            let time = if ra.rank() == Rank(0) { 0.0 } else { pairs(ra, &window, times, true, Duration::ZERO)? };
            // After it no rank sends requests to this rank's agent.
            team.barrier()?;
            window.stop_agent()?;
            served.join().expect("an agent does not panic")?;
            Ok(time)
        })?;
        window.free()?;
        Ok(time)
    };
    let each = World::threads(ranks).segment_bytes(16 << 20).run(rank)?;
    each.into_iter().try_fold(0.0, |slowest: f64, time| Ok(slowest.max(time?)))
}

impl SoftwareLocks {
    /// With network atomics, with the study's lock.
    fn by_atomics(pairs: u32, computes: Option<u64>) -> SoftwareLocks {
        let strategies = Strategies { policy: Some("mcs-rw-rp".into()), ..Strategies::default() };
        SoftwareLocks { strategies, pairs, put: false, computes, others_compute: 0 }
    }

    /// With the target's processor. If the target computes, the other ranks compute, too, half as long. The target
    /// serves as long as requests keep coming.
    fn by_messages(pairs: u32, computes: Option<u64>) -> SoftwareLocks {
        let transport = Transport::TwoSided.name();
        let strategies = Strategies { transport: Some(transport.into()), ..Strategies::default() };
        SoftwareLocks { strategies, pairs, put: true, computes, others_compute: computes.unwrap_or(0) / 2 }
    }
}

/// Ranks of the study's figures.
const RANKS: u32 = 256;

/// Ranks of a node of the study's FX10, which is also the number of request slots at the target.
const SOME: u32 = 16;

/// The study's times of a pair with that many ranks: with software, and with atomics.
const PUBLISHED: (f64, f64) = (114e6, 130e3);

/// The durations of computing, in nanoseconds.
const STRETCHES: [u64; 5] = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

fn run(context: &Context<'_>) -> Result<Finding> {
    let pairs = context.pick(20, 100);
    let one = |ranks, computes| -> Result<[f64; 2]> {
        let world = Ranks::simulated("fx100", ranks);
        let atomics =
            context.run(&SoftwareLocks::by_atomics(pairs, computes), &world.clone().atomics_by_adapter(true))?;
        let messages = context.run(&SoftwareLocks::by_messages(pairs, computes), &world)?;
        Ok([slowest(&atomics), slowest(&messages)])
    };
    let mut serves = Vec::new();
    for ranks in [2, 4, 8, 16, 32, 64, 128, RANKS] {
        serves.push((ranks, one(ranks, None)?));
    }
    let mut stretches = Vec::new();
    for ranks in [SOME, RANKS] {
        for stretch in STRETCHES {
            stretches.push((ranks, stretch as f64, one(ranks, Some(stretch))?));
        }
    }
    let pairs = 2000;
    let mut here = Vec::new();
    for ranks in [2, 4, 8] {
        let jobs = [SoftwareLocks::by_atomics(pairs, None), SoftwareLocks::by_messages(pairs, None)];
        let (mut times, mut agents) = ([Vec::new(), Vec::new()], Vec::new());
        for repetition in 0..5 {
            for (job, times) in jobs.iter().zip(&mut times) {
                let key = serde_json::to_string(&(job, ranks, repetition)).expect("a job is JSON");
                let run = || job::run(job, &Ranks::threads(ranks), context.stop()).map(|ran| slowest(&ran));
                times.push(context.keep(&key, run)?);
            }
            let key = format!("agents of {ranks} threads, {pairs} pairs, {repetition}");
            agents.push(context.keep(&key, || with_agents(ranks, pairs))?);
        }
        let [atomics, messages] = times.map(|times| median(times.into_iter()));
        here.push((ranks, [atomics, messages, median(agents.into_iter())]));
    }
    Ok(report(&serves, &stretches, &here))
}

/// Times of a pair, with atomics and with messages. Simulations are for numbers of ranks with a target that only
/// serves, and with each duration of computing. Measurements are for numbers of threads, with atomics, messages, and
/// messages to an agent.
fn report(serves: &[(u32, [f64; 2])], stretches: &[(u32, f64, [f64; 2])], here: &[(u32, [f64; 3])]) -> Finding {
    let mut finding = Finding::new();
    let factor = PUBLISHED.0 / PUBLISHED.1;
    let columns = ["ranks", "by atomics", "by software", "software / atomics", "of the target's time, for a pair"];
    let mut table = Table::new("A pair of lock and unlock, slowest rank; the target only serves", columns);
    let row = |name: Value, ranks: u32, [atomics, messages]: [f64; 2]| {
        let each = messages / f64::from(ranks - 1);
        [name, Value::Time(atomics), Value::Time(messages), Value::Ratio(messages / atomics), Value::Time(each)]
    };
    for &(ranks, times) in serves {
        table.row(row(Value::Count(ranks.into()), ranks, times));
    }
    table.row(row("256, published".into(), RANKS, [PUBLISHED.1, PUBLISHED.0]));
    finding.tables.push(table);
    let mut table = Table::new(
        "The target computes, and serves in between (by software the others compute, too)",
        ["ranks", "it computes for", "by atomics", "by software", "software / atomics"],
    );
    for &(ranks, stretch, [atomics, messages]) in stretches {
        table.row([
            Value::Count(ranks.into()),
            Value::Time(stretch),
            Value::Time(atomics),
            Value::Time(messages),
            Value::Ratio(messages / atomics),
        ]);
    }
    finding.tables.push(table);
    let mut table = Table::new(
        "The same on threads of this machine",
        ["threads", "by atomics", "by messages, target waits", "by messages to an agent", "agent / atomics"],
    );
    for &(threads, [atomics, messages, agent]) in here {
        table.row([
            Value::Count(threads.into()),
            Value::Time(atomics),
            Value::Time(messages),
            Value::Time(agent),
            Value::Ratio(agent / atomics),
        ]);
    }
    finding.tables.push(table);

    let of = |ranks: u32| serves.iter().find(|found| found.0 == ranks).map_or([f64::NAN; 2], |found| found.1);
    let [atomics, messages] = of(RANKS);
    let ratio = messages / atomics;
    finding.claim(
        ratio >= factor / 3.0,
        format!("114 s per 1,000 pairs by software against 130 µs each by atomics, {factor:.0} times"),
        format!(
            "{} against {}, {ratio:.0} times, simulated with a target that only serves (a third of the published \
             factor counts as agreement)",
            Value::Time(messages),
            Value::Time(atomics),
        ),
    );
    let off = |&(ranks, _, [atomics, _]): &(u32, f64, [f64; 2])| (atomics / of(ranks)[0] - 1.0).abs();
    let spread = stretches.iter().map(off).fold(0.0, f64::max);
    finding.claim(
        spread < 0.05,
        "with atomics only the origin takes part in a passive epoch (section 3.1)",
        format!(
            "a pair with atomics takes the same for any computing of the target, within {:.1} %, simulated",
            spread * 100.0
        ),
    );
    let faster = here.iter().all(|&(_, [atomics, messages, agent])| atomics < messages && atomics < agent);
    let most = here.iter().map(|(_, [atomics, _, agent])| agent / atomics).fold(0.0, f64::max);
    finding.claim(
        faster,
        "atomics are ahead of software at the target",
        format!("on 2, 4 and 8 threads of this machine, up to {most:.0} times ahead of an agent"),
    );
    if ratio < factor / 3.0 {
        let each = |ranks: u32| Value::Time(of(ranks)[1] / f64::from(ranks - 1));
        let slow = stretches.iter().find(|(ranks, _, times)| *ranks == RANKS && times[1] >= PUBLISHED.0 / 3.0);
        let reached = slow.map_or("at no simulated period".into(), |(_, stretch, times)| {
            format!("a pair takes {} once it polls every {}", Value::Time(times[1]), Value::Time(*stretch))
        });
        finding.why = format!(
            "our target polls at once, and a request then takes {} of its time with {SOME} ranks, and {} with 256, \
             which find its 16 slots full and retry over the network; the study does not describe the FX10's library, \
             but its 114 ms are {} for each of 255 requests, as if each poll served one of them, with that period \
             between polls; ours serves all that have come, and is as slow only if it looks more rarely still: \
             {reached}",
            each(SOME),
            each(RANKS),
            Value::Time(PUBLISHED.0 / f64::from(RANKS - 1)),
        );
    }
    let series = |name: &str, origin, style, points| Series {
        name: name.into(),
        origin,
        style,
        points,
        spread: Vec::new(),
        group: String::new(),
    };
    let at = |way: usize| serves.iter().map(|&(ranks, times)| (f64::from(ranks), times[way])).collect();
    finding.plots.push(Plot {
        name: "ranks".into(),
        title: "Lock and unlock of one rank's window by all others".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("time of a pair, slowest rank", Quantity::Time),
        series: vec![
            series("by atomics", Origin::Simulated, 0, at(0)),
            series("by software", Origin::Simulated, 1, at(1)),
            series("FX100", Origin::Published, 0, vec![(4.0, 2.3e3), (f64::from(RANKS), PUBLISHED.1)]),
            series("FX10", Origin::Published, 1, vec![(f64::from(RANKS), PUBLISHED.0)]),
        ],
        text: "Both kinds serve one request after the other, so both lines rise with the ranks. With software a \
               request costs the target several accesses and the network two messages. Beyond 16 ranks, the number of \
               slots at the target, the other ranks retry over the network, and delay the ranks with a slot. The rest \
               of the FX10's time is not work: it is time until the poll, see the next plot."
            .into(),
    });
    let period = |ranks: u32, way: usize| {
        let these = stretches.iter().filter(move |found| found.0 == ranks);
        these.map(|&(_, stretch, times)| (stretch, times[way])).collect()
    };
    finding.plots.push(Plot {
        name: "period".into(),
        title: "Lock and unlock of a rank that computes".into(),
        x: Axis::new("nanoseconds that the target computes before it serves", Quantity::Count),
        y: Axis::new("time of a pair, slowest rank", Quantity::Time),
        series: vec![
            series("by atomics, 256", Origin::Simulated, 0, period(RANKS, 0)),
            series("by software, 256", Origin::Simulated, 1, period(RANKS, 1)),
            series("by atomics, 16", Origin::Simulated, 2, period(SOME, 0)),
            series("by software, 16", Origin::Simulated, 3, period(SOME, 1)),
        ],
        text: "To the right the target polls less and less often. The lock with atomics is not affected. The lock \
               with software waits for the target's next poll, however fast the network is. So its line has slope one \
               as soon as that is longer than the service: there is no bound on the factor between the two. (By \
               software the others compute half as long between two pairs, since the target serves as long as \
               requests keep coming.)"
            .into(),
    });
    let threads = |at: usize| here.iter().map(|&(ranks, times)| (f64::from(ranks), times[at])).collect();
    finding.plots.push(Plot {
        name: "here".into(),
        title: "A pair on this machine".into(),
        x: Axis::new("threads", Quantity::Count),
        y: Axis::new("time of a pair, slowest thread", Quantity::Time),
        series: vec![
            series("by atomics", Origin::Measured, 0, threads(0)),
            series("by messages, target waits", Origin::Measured, 1, threads(1)),
            series("by messages to an agent", Origin::Measured, 2, threads(2)),
        ],
        text: "Shared memory has the fastest atomics, tens of nanoseconds, and a message between threads with a \
               processor each costs little more than two cache misses. Software is slow here, too, since the server \
               has to run: with more threads than processors the operating system decides when."
            .into(),
    });
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn only_software_waits_for_the_targets_next_poll() {
        let stop = AtomicBool::new(false);
        let world = Ranks::simulated("fx100", 8).atomics_by_adapter(true);
        let time = |job: &SoftwareLocks| slowest(&job::run(job, &world, &stop).unwrap());
        let atomics = [None, Some(1_000_000)].map(|computes| time(&SoftwareLocks::by_atomics(10, computes)));
        let messages = [None, Some(1_000_000)].map(|computes| time(&SoftwareLocks::by_messages(10, computes)));
        assert!((atomics[1] / atomics[0] - 1.0).abs() < 0.05, "{atomics:?}");
        assert!(messages[1] > 400_000.0 && messages[0] < 100_000.0, "{messages:?}");
    }

    #[test]
    fn agents_serve() {
        assert!(with_agents(3, 10).unwrap() > 0.0);
    }
}
