//! MPICH-2's messages for each kind of epoch, counted.
//!
//! [`Paper`] computes exactly the numbers that section 4 of the paper states in words. The check compares them with
//! counts for equality.

use rmalab_atomics::{Counted, Rank, RemoteAtomics};
use rmalab_windows::messages::Kind;
use rmalab_windows::two_sided::{ACK, ANSWER, COMPLETE, GET, GRANT, LOCK, POST, PUT, SUM, UNLOCK};
use rmalab_windows::{LockKind, PostAssert, StartAssert, Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::infiniband::because;
use super::{Context, Experiment};
use rmalab_apps::Strategies;
use rmalab_job::Result;
use rmalab_job::{Job, Ranks};
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "mpich2-ops",
    source: "MPICH-2 (Thakur, Gropp, Toonen, EuroPVM/MPI 2004), section 4",
    title: "messages of an epoch",
    protocol: "In an epoch each rank puts k words to its right neighbour, or puts some and gets one; the messages \
               that all ranks send for it are counted, by kind. Optimized is our two-sided transport with the \
               deferred design of the paper. Naive has the paper's meaning: one-sided windows, whose fence is a \
               barrier at either end of the epoch, whose start waits for a post, and whose complete notifies each \
               target; there one-sided operations on other ranks are counted. On simulated ranks and on threads; \
               counts do not depend on the place of the ranks.",
    found: "A fence epoch needs no barrier, post-start-complete-wait one zero-byte message for each pair, and a lock \
            with a single short operation one message and its acknowledgement.",
    lesson: "The cost of an epoch with little data is its synchronization. If operations wait at their origin until \
             the epoch ends, all of them are known by then: which ranks need which data, and which messages can \
             travel together. So one message can request a lock, carry the data and release the lock, instead of \
             three messages. The price is that no data move while the program computes.",
    seconds: (4, 15),
    run,
};

/// Kinds of counted messages.
const KINDS: [(Kind, &str); 10] = [
    (SUM, "sum"),
    (POST, "post"),
    (LOCK, "lock"),
    (GRANT, "grant"),
    (PUT, "put"),
    (GET, "get"),
    (ANSWER, "answer"),
    (ACK, "ack"),
    (UNLOCK, "unlock"),
    (COMPLETE, "complete"),
];

/// Bytes of a part of the window.
const BYTES: u64 = 16384;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Epoch {
    Fence,
    Pscw,
    /// With NOCHECK: each rank guarantees that its partner is ready.
    PscwNocheck,
    Exclusive,
    Shared,
}

/// One epoch, in which each rank is the origin of its right neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Messages {
    epoch: Epoch,
    /// Puts of an origin.
    puts: u32,
    /// Bytes of each.
    bytes: usize,
    /// True if a get follows them.
    get: bool,
    two_sided: bool,
}

impl Messages {
    fn epoch<A: RemoteAtomics + ?Sized>(&self, window: &mut Window<'_, A>) -> Result<()> {
        let (me, size) = (window.team().rank().0, window.team().size());
        let (right, left) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
        let data = vec![1_u8; self.bytes];
        let mut got = [0_u64];
        macro_rules! operations {
            ($at:expr) => {{
                // An unused epoch sends no request to a target.
                if self.puts > 0 || self.get {
                    let at = $at;
                    for _ in 0..self.puts {
                        at.put(WindowDisp(0), &data)?;
                    }
                    if self.get {
                        at.get(WindowDisp(0), &mut got)?;
                    }
                }
            }};
        }
        match self.epoch {
            Epoch::Fence => {
                let fence = window.fence()?;
                operations!(fence.at(right)?);
                fence.close()?;
            }
            Epoch::Pscw | Epoch::PscwNocheck => {
                let nocheck = self.epoch == Epoch::PscwNocheck;
                let (mut access, mut exposure) = window.pscw()?;
                let exposed = exposure.post_assert(&[left], PostAssert { nocheck, ..PostAssert::default() })?;
                let epoch = access.start_assert(&[right], StartAssert { nocheck })?;
                operations!(epoch.at(right)?);
                epoch.complete()?;
                exposed.wait()?;
            }
            Epoch::Exclusive | Epoch::Shared => {
                let kind = if self.epoch == Epoch::Shared { LockKind::Shared } else { LockKind::Exclusive };
                let lock = window.lock(kind, right)?;
                operations!(&lock);
                lock.unlock()?;
            }
        }
        Ok(())
    }

    /// The packets of each kind for an epoch.
    fn packets<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<Vec<u64>> {
        let team = Team::new(ra)?;
        let strategies = Strategies { transport: Some("two-sided".into()), ..Strategies::default() };
        let mut window = strategies.window(&team, BYTES)?;
        let sent = |window: &Window<'_, A>| KINDS.map(|(kind, _)| window.messages_sent(kind));
        // This rank serves requests of other ranks from the previous barrier to the next one. These barriers are sums
        // themselves.
        let before = sent(&window);
        team.barrier()?;
        let sums = window.messages_sent(SUM);
        self.epoch(&mut window)?;
        let sums = window.messages_sent(SUM) - sums;
        team.barrier()?;
        let after = sent(&window);
        window.free()?;
        let mut counts: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        counts[0] = sums;
        Ok(counts)
    }

    /// Operations on other ranks for an epoch.
    fn operations<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<Vec<u64>> {
        let counted = Counted::new(ra);
        let team = Team::new(&counted as &dyn RemoteAtomics)?;
        let strategies = Strategies { pscw: Some("flags".into()), ..Strategies::default() };
        let mut window = strategies.window(&team, BYTES)?;
        team.barrier()?;
        counted.reset();
        self.epoch(&mut window)?;
        let counts = counted.take();
        team.barrier()?;
        window.free()?;
        Ok(vec![counts.remote_operations()])
    }
}

impl Job for Messages {
    /// Packets by kind in the order of [`KINDS`]; for one-sided windows, operations on other ranks.
    type Out = Vec<u64>;

    const NAME: &'static str = "epoch-messages";

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Vec<u64>> {
        if self.two_sided { self.packets(ra) } else { self.operations(ra) }
    }
}

/// The messages of an epoch by section 4, for each pair of an origin and its target; of p ranks and k puts.
struct Paper;

impl Paper {
    /// Rounds of a barrier, or of a sum for all ranks, in which each rank sends one message.
    fn rounds(ranks: u32) -> u64 {
        u64::from(ranks.next_power_of_two().trailing_zeros())
    }

    /// 4.1, the naive implementation: a barrier in the first fence, and one at the end of the second.
    fn naive_fence(ranks: u32, puts: u32) -> u64 {
        2 * Paper::rounds(ranks) + u64::from(puts)
    }

    /// 4.1: nothing in the first fence; a reduce-scatter at the beginning of the second, and the operations.
    fn fence(ranks: u32, puts: u32) -> u64 {
        Paper::rounds(ranks) + u64::from(puts)
    }

    /// 4.2, the naive implementation: a message of the post, the operations, a done message of the complete.
    fn naive_pscw(puts: u32) -> u64 {
        2 + u64::from(puts)
    }

    /// 4.2: a zero-byte message of the post unless NOCHECK is given, and the operations. The last operation is marked
    /// as the last. Without operations, there is a single packet with that mark.
    fn pscw(puts: u32, nocheck: bool) -> u64 {
        u64::from(!nocheck) + u64::from(puts.max(1))
    }

    /// 4.3, the general case: lock-request, lock-granted, and the operations, the last of which releases. A shared lock
    /// needs an acknowledgement, unless there is a get. The get is last, and its data acknowledge the release.
    fn lock(shared: bool, puts: u32, get: bool) -> u64 {
        let (request_and_grant, data, acknowledgement) = (2, u64::from(get), u64::from(shared && !get));
        request_and_grant + u64::from(puts) + u64::from(get) + data + acknowledgement
    }

    /// 4.3, single operations: the lock request carries a short operation, and an acknowledgement or the read data come
    /// back.
    fn single() -> u64 {
        2
    }
}

fn job(epoch: Epoch, puts: u32) -> Messages {
    Messages { epoch, puts, bytes: 8, get: false, two_sided: true }
}

/// The messages of an epoch for each pair, by kind and in total; the number is not whole if ranks differ.
fn counted(context: &Context<'_>, job: &Messages, world: &Ranks) -> Result<(Vec<u64>, f64)> {
    let ran = context.run(job, world)?;
    let mut sum = vec![0; ran.ranks.first().map_or(0, Vec::len)];
    for rank in &ran.ranks {
        sum.iter_mut().zip(rank).for_each(|(sum, count)| *sum += count);
    }
    let each = sum.iter().sum::<u64>() as f64 / f64::from(world.ranks);
    Ok((sum, each))
}

/// A number of messages, which is whole unless ranks differ.
fn number(count: f64) -> Value {
    if count.fract() == 0.0 { Value::Count(count as u64) } else { Value::Number(count) }
}

/// A line of the comparison: its subject, the job, and the paper's number.
struct Line {
    what: &'static str,
    job: Messages,
    paper: fn(u32, u32) -> u64,
}

fn lines() -> Vec<(&'static str, &'static str, Vec<Line>)> {
    let naive = |epoch, puts| Messages { two_sided: false, ..job(epoch, puts) };
    let get = |epoch, puts| Messages { get: true, ..job(epoch, puts) };
    let long = |epoch| Messages { bytes: 8192, ..job(epoch, 1) };
    let each = |what, make: &dyn Fn(u32) -> Messages, paper| {
        [0, 1, 5].map(|puts| Line { what, job: make(puts), paper }).into_iter().collect::<Vec<_>>()
    };
    vec![
        (
            "naive",
            "4.1, naive: two barriers per epoch; 4.2, naive: a post and a done message for each pair",
            [
                each("fence, naive", &|puts| naive(Epoch::Fence, puts), Paper::naive_fence),
                each("pscw, naive", &|puts| naive(Epoch::Pscw, puts), |_, puts| Paper::naive_pscw(puts)),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        (
            "fence",
            "4.1: nothing in the first fence, a reduce-scatter in the second, no barrier",
            each("fence", &|puts| job(Epoch::Fence, puts), Paper::fence),
        ),
        (
            "pscw",
            "4.2: one zero-byte message for each pair besides the operations, none with NOCHECK; one packet if there \
             are no operations",
            [
                each("pscw", &|puts| job(Epoch::Pscw, puts), |_, puts| Paper::pscw(puts, false)),
                each("pscw, nocheck", &|puts| job(Epoch::PscwNocheck, puts), |_, puts| Paper::pscw(puts, true)),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        (
            "single",
            "4.3: a single short operation travels with the lock request, and an acknowledgement comes back",
            vec![
                Line { what: "exclusive, single", job: job(Epoch::Exclusive, 1), paper: |_, _| Paper::single() },
                Line { what: "shared, single", job: job(Epoch::Shared, 1), paper: |_, _| Paper::single() },
            ],
        ),
        (
            "general",
            "4.3: request, grant, operations, of which the last releases; an acknowledgement if the lock is shared",
            vec![
                Line {
                    what: "exclusive",
                    job: job(Epoch::Exclusive, 5),
                    paper: |_, puts| Paper::lock(false, puts, false),
                },
                Line { what: "shared", job: job(Epoch::Shared, 5), paper: |_, puts| Paper::lock(true, puts, false) },
                Line {
                    what: "exclusive, long",
                    job: long(Epoch::Exclusive),
                    paper: |_, puts| Paper::lock(false, puts, false),
                },
                Line {
                    what: "shared, long",
                    job: long(Epoch::Shared),
                    paper: |_, puts| Paper::lock(true, puts, false),
                },
            ],
        ),
        (
            "get",
            "4.3: a get comes last, carries the release, and needs no acknowledgement; a single one is a request and \
             its data",
            vec![
                Line {
                    what: "exclusive, get last",
                    job: get(Epoch::Exclusive, 5),
                    paper: |_, puts| Paper::lock(false, puts, true),
                },
                Line {
                    what: "shared, get last",
                    job: get(Epoch::Shared, 5),
                    paper: |_, puts| Paper::lock(true, puts, true),
                },
                Line { what: "shared, single get", job: get(Epoch::Shared, 0), paper: |_, _| Paper::single() },
            ],
        ),
    ]
}

fn run(context: &Context<'_>) -> Result<Finding> {
    let ranks: &[u32] = context.pick(&[2, 3, 4, 5, 8, 16], &[2, 3, 4, 5, 7, 8, 16, 33, 64]);
    let mut worlds: Vec<Ranks> = ranks.iter().map(|&ranks| Ranks::simulated("infiniband-2004", ranks)).collect();
    // More threads may share processors, and then have another barrier than ranks of a network.
    worlds.push(Ranks::threads(2));
    let columns = ["epoch", "puts", "ranks", "the paper", "here"].into_iter().map(str::to_owned);
    let mut finding = Finding::new();
    let mut table = Table::new("Messages for each pair of an origin and its target", columns);
    let mut kinds =
        Table::new("The same by kind, 4 ranks", ["epoch", "puts"].into_iter().chain(KINDS.map(|(_, name)| name)));
    let mut no_ack = true;
    for (group, says, lines) in lines() {
        let (mut same, mut all, mut differs) = (0, 0, String::new());
        for Line { what, job, paper } in lines {
            for world in &worlds {
                let (by_kind, here) = counted(context, &job, world)?;
                let wanted = paper(world.ranks, job.puts);
                all += 1;
                if here == wanted as f64 {
                    same += 1;
                } else if differs.is_empty() {
                    differs = format!("; first, {what} of {world}: {here} instead of {wanted}");
                }
                if group == "get" && by_kind[7] > 0 {
                    no_ack = false;
                }
                let row = |ranks: String| {
                    [what.into(), Value::Count(job.puts.into()), ranks.into(), Value::Count(wanted), number(here)]
                };
                if matches!(world.place, rmalab_job::Place::Sim(_)) && (world.ranks == 4 || world.ranks == 16) {
                    table.row(row(world.ranks.to_string()));
                }
                if world.ranks == 4 && job.two_sided {
                    let each = by_kind.iter().map(|&count| match count {
                        0 => Value::None,
                        count => number(count as f64 / 4.0),
                    });
                    kinds.row([what.into(), Value::Count(job.puts.into())].into_iter().chain(each));
                }
            }
        }
        let here = format!("equal in {same} of {all} cases of 2 to {} ranks{differs}", ranks.last().unwrap_or(&0));
        finding.claim(same == all, says, here);
        if group == "get" {
            because(
                &mut finding,
                "a get here returns its value at once, so no rank knows then that it is the last operation, \
                 and a separate message after it releases the lock",
            );
        }
        if group == "get" {
            let count = if no_ack { "none" } else { "some" };
            finding.claim(no_ack, "4.3: no acknowledgement where there is a get", format!("{count} counted"));
        }
    }
    finding.tables.extend([table, kinds]);

    let mut curves = Vec::new();
    for (style, (name, two_sided)) in [("naive", false), ("deferred", true)].into_iter().enumerate() {
        let job = Messages { two_sided, ..job(Epoch::Fence, 1) };
        let mut points = Vec::new();
        for world in worlds.iter().take(ranks.len()) {
            points.push((f64::from(world.ranks), counted(context, &job, world)?.1));
        }
        curves.push(Series {
            name: name.into(),
            origin: Origin::Simulated,
            style,
            points,
            spread: Vec::new(),
            group: String::new(),
        });
    }
    finding.plots.push(Plot {
        name: "fence".into(),
        title: "Messages of a rank for a fence epoch with one put".into(),
        x: Axis::new("ranks", Quantity::Count),
        y: Axis::new("messages of a rank", Quantity::Count),
        series: curves,
        text: "A barrier takes log2(p) rounds, rounded up, and a rank sends a message in each. The naive fence epoch \
               has two of them. The deferred one has none: at its end, a sum over all ranks, with as many rounds as \
               one barrier, gives each rank its number of operations to wait for. So it needs half of the messages, \
               and the more ranks there are, the less the put itself counts."
            .into(),
    });
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use rmalab_job as job;

    fn each(job: &Messages, world: &Ranks) -> f64 {
        let ran = job::run(job, world, &AtomicBool::new(false)).unwrap();
        ran.ranks.iter().flatten().sum::<u64>() as f64 / f64::from(world.ranks)
    }

    #[test]
    fn counts_are_those_of_the_papers_text() {
        for world in
            [2, 3, 5, 8].map(|ranks| Ranks::simulated("infiniband-2004", ranks)).into_iter().chain([Ranks::threads(2)])
        {
            for (group, _, lines) in lines() {
                for Line { what, job, paper } in lines {
                    // A release after a get that has returned: one message more than in the paper.
                    let more = if group == "get" { 1 } else { 0 };
                    let wanted = paper(world.ranks, job.puts) + more;
                    assert_eq!(each(&job, &world), wanted as f64, "{what}, {} puts, {world}", job.puts);
                }
            }
        }
    }

    #[test]
    fn the_papers_numbers() {
        // Barriers of 2, 3, 4 and 5 ranks.
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(Paper::rounds), [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!((Paper::naive_fence(8, 1), Paper::fence(8, 1)), (7, 4));
        assert_eq!(
            (Paper::naive_pscw(1), Paper::pscw(1, false), Paper::pscw(0, false), Paper::pscw(3, true)),
            (3, 2, 2, 3)
        );
        assert_eq!((Paper::lock(false, 5, false), Paper::lock(true, 5, false), Paper::lock(true, 5, true)), (7, 8, 9));
    }
}
