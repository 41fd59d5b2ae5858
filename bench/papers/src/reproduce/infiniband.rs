//! The MVAPICH2 paper's measurements: epochs of one target and its origins, with three designs.
//!
//! | design | meaning |
//! | --- | --- |
//! | [`Design::Rdma`] | the paper's own: operations, and the flags of post and complete, are one-sided |
//! | [`Design::SendReceive`] | the paper's reference, MPICH2 over sends and receives of InfiniBand ([`send_receive`]) |
//! | [`Design::TwoSided`] | the two-sided transport of our windows: one ring of constant size for all senders |
//!
//! # Fitted and predicted figures
//!
//! * 6.3 µs from a put to its visibility: half of the 12.6 µs of an epoch with one small put. The profile was fitted to
//!   it, so a figure of 12.6 µs would be no reproduction.
//! * 865 MB/s at 256 KiB: the profile's bandwidth. This is no reproduction either.
//! * 7.6 µs for a small message of sends and receives (J. Liu and others, IPDPS 2004), a measurement of the system
//!   below, from which [`send_receive`] has its processors' time.
//! * A put is two messages there, one with its description and one with its data, by section 3.1 of the paper. This is
//!   not fitted to any figure.
//! * Everything else is predicted: every other figure of these experiments, and the effects of sizes, bursts,
//!   computation and origins.
//!
//! The simulated processors of the one-sided design take only the profile's time of an operation.
//!
//! [`send_receive`]: super::send_receive

use std::time::Duration;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::messages::{Messages, Tag};
use rmalab_windows::{Assert, LockKind, Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::Context;
use super::send_receive::{Burst, EAGER, SendReceive};
use rmalab_apps::Strategies;
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Place, Ran, Ranks, elapsed};
use rmalab_report::finding::{Finding, Origin, Series, Table, Value};

/// The size of the simulated cluster: this many nodes, with one rank on each.
pub(super) fn cluster(ranks: u32) -> Ranks {
    Ranks::simulated("infiniband-2004", ranks).ranks_per_node(1)
}

/// Designs of one-sided communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Design {
    Rdma,
    SendReceive,
    TwoSided,
    /// Messages of the two-sided transport, without a window; for [`Pattern::Exchange`] only, as is `SendReceive` there.
    Messages,
}

impl Design {
    /// The paper's designs, and our transport.
    pub(super) const ALL: [Design; 3] = [Design::Rdma, Design::SendReceive, Design::TwoSided];

    pub(super) fn name(self) -> &'static str {
        match self {
            Design::Rdma => "one-sided",
            Design::SendReceive => "send/receive",
            Design::TwoSided => "two-sided transport",
            Design::Messages => "isend/irecv, our messages",
        }
    }
}

/// Roles of the ranks in an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Pattern {
    /// Two ranks are in turn the target of the other.
    PingPong,
    /// All ranks but 0 put to rank 0.
    Puts,
    /// All ranks but 0 get from rank 0.
    Gets,
    /// Two ranks put to each other between fences; or send to each other.
    Exchange,
}

/// Epochs, one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Epochs {
    pub(super) design: Design,
    pub(super) pattern: Pattern,
    /// Bytes of an operation.
    pub(super) bytes: usize,
    /// Operations of an origin in an epoch.
    pub(super) burst: u32,
    /// Nanoseconds of computing after each operation.
    pub(super) between: u64,
    /// Nanoseconds of computing at the target, between post and wait.
    pub(super) skew: u64,
    /// True to model the time of processors: for simulated ranks.
    pub(super) modelled: bool,
    pub(super) rounds: u32,
}

impl Epochs {
    /// Epochs of one operation, without computing.
    pub(super) fn new(design: Design, pattern: Pattern, bytes: usize) -> Epochs {
        Epochs { design, pattern, bytes, burst: 1, between: 0, skew: 0, modelled: false, rounds: 1 }
    }

    /// That many operations in an epoch.
    pub(super) fn burst(mut self, burst: u32) -> Epochs {
        self.burst = burst;
        self
    }

    /// A run on its world, with as many rounds as that needs.
    pub(super) fn on(mut self, world: Ranks) -> (Epochs, Ranks) {
        self.modelled = matches!(world.place, Place::Sim(_));
        let bytes = self.bytes as u64 * u64::from(self.burst.max(1)) * u64::from(world.ranks - 1);
        // Virtual time does not vary; real time is about 50 ms.
        self.rounds = if self.modelled {
            5
        } else {
            let slow = if self.design == Design::TwoSided { 8 } else { 1 };
            (200_000_000 / (bytes + 40_000) / slow).clamp(5, 4000) as u32
        };
        (self, world)
    }

    fn strategies(&self) -> Strategies {
        let (transport, pscw, fence) = match self.design {
            Design::Rdma => ("one-sided", "flags", "dissemination"),
            _ => ("two-sided", "deferred", "deferred"),
        };
        Strategies {
            transport: Some(transport.into()),
            pscw: Some(pscw.into()),
            fence: Some(fence.into()),
            ..Strategies::default()
        }
    }

    fn length(&self) -> Burst {
        Burst { count: self.burst, bytes: self.bytes, gets: self.pattern == Pattern::Gets }
    }

    /// The action of an origin after an operation.
    fn compute<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        if self.between > 0 {
            ra.compute(Duration::from_nanos(self.between))?;
        }
        Ok(())
    }

    /// The action of a target in an exposure epoch.
    fn expose<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        if self.skew > 0 {
            ra.compute(Duration::from_nanos(self.skew))?;
        }
        Ok(())
    }

    /// Runs the rounds; returns the nanoseconds of one.
    fn timed<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        mut round: impl FnMut(u8) -> Result<()>,
    ) -> Result<f64> {
        // All pages are touched, and adapters are idle, when the clock starts.
        for number in 0..2 {
            round(number)?;
        }
        team.barrier()?;
        let begin = team.ra().now();
        for number in 0..self.rounds {
            round(number as u8)?;
        }
        let time = elapsed(team.ra(), begin) / f64::from(self.rounds);
        team.barrier()?;
        Ok(time)
    }

    fn check(&self, found: u8) -> Result<()> {
        let wanted = (self.rounds - 1) as u8;
        if found == wanted || self.burst == 0 {
            return Ok(());
        }
        Err(Error::Ranks(format!("{self:?}: the last byte is {found} instead of {wanted}")))
    }

    fn by_window<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<f64> {
        let team = Team::new(ra)?;
        let me = ra.rank();
        let each = self.bytes as u64 * u64::from(self.burst.max(1));
        let mut window = self.strategies().window(&team, each * u64::from(ra.size()))?;
        let last = |rank: u32| WindowDisp((each * u64::from(rank) + each) as i64 - 1);
        let mut data = vec![0_u8; self.bytes];
        let time = match self.pattern {
            Pattern::PingPong => {
                let peer = Rank(1 - me.0);
                self.timed(&team, |round| {
                    data.fill(round);
                    for turn in 0..2 {
                        if turn == me.0 {
                            self.puts(ra, &mut window, peer, each, &data)?;
                        } else {
                            window.pscw()?.1.post(&[peer])?.wait()?;
                        }
                    }
                    Ok(())
                })? / 2.0
            }
            Pattern::Puts if me == Rank(0) => self.exposed(&team, &mut window)?,
            Pattern::Puts => self.timed(&team, |round| {
                data.fill(round);
                self.puts(ra, &mut window, Rank(0), each, &data)
            })?,
            Pattern::Gets => self.gets(&team, &mut window, each)?,
            Pattern::Exchange => {
                let peer = Rank(1 - me.0);
                let mut fence = Some(window.fence()?);
                let time = self.timed(&team, |round| {
                    data.fill(round);
                    if let Some(epoch) = fence.take() {
                        epoch.at(peer)?.put(WindowDisp((each * u64::from(me.0)) as i64), &data)?;
                        fence = Some(epoch.next()?);
                    }
                    Ok(())
                })?;
                fence.map_or(Ok(()), |fence| fence.close())?;
                time
            }
        };
        if self.pattern != Pattern::Gets && self.bytes > 0 {
            let others = (0..ra.size()).filter(|&rank| rank != me.0);
            for rank in others.filter(|_| me == Rank(0) || self.pattern != Pattern::Puts) {
                self.check(window.local()?.load(last(rank))?)?;
            }
        }
        window.free()?;
        Ok(time)
    }

    /// One access epoch of puts.
    fn puts<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        window: &mut Window<'_, A>,
        target: Rank,
        each: u64,
        data: &[u8],
    ) -> Result<()> {
        let (mut access, _) = window.pscw()?;
        let epoch = access.start(&[target])?;
        for number in 0..self.burst {
            let offset = each * u64::from(ra.rank().0) + u64::from(number) * self.bytes as u64;
            epoch.at(target)?.put(WindowDisp(offset as i64), data)?;
            self.compute(ra)?;
        }
        epoch.complete()?;
        self.release(ra, target)
    }

    /// Waits until long operations are acknowledged. They leave directly from the program's memory, which may change
    /// after that. Short operations were copied.
    fn release<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> Result<()> {
        if self.bytes > EAGER {
            ra.flush(target)?;
        }
        Ok(())
    }

    /// The exposure epochs of rank 0.
    fn exposed<A: RemoteAtomics + ?Sized>(&self, team: &Team<'_, A>, window: &mut Window<'_, A>) -> Result<f64> {
        let origins: Vec<Rank> = (1..team.size()).map(Rank).collect();
        self.timed(team, |_| {
            let (_, mut exposure) = window.pscw()?;
            let exposed = exposure.post(&origins)?;
            self.expose(team.ra())?;
            Ok(exposed.wait()?)
        })
    }

    /// Epochs of gets. Gets of one-sided windows overlap each other. Besides the synchronized window, a second window
    /// stays open for a batch, since active epochs have no batches.
    fn gets<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        window: &mut Window<'_, A>,
        each: u64,
    ) -> Result<f64> {
        const CONTENT: u8 = 0x5a;
        let memory = self.strategies().window(team, each)?;
        for window in [&memory, &*window] {
            window.local()?.write(WindowDisp(0), &vec![CONTENT; each as usize])?;
        }
        team.barrier()?;
        let mut parts = vec![0_u8; each as usize];
        let time = if team.rank() == Rank(0) {
            self.exposed(team, window)?
        } else if self.design == Design::Rdma {
            let open = memory.lock_assert(LockKind::Shared, Rank(0), Assert::NoCheck)?;
            let time = self.timed(team, |_| {
                let (mut access, _) = window.pscw()?;
                let epoch = access.start(&[Rank(0)])?;
                open.batch(|batch| {
                    for (number, part) in parts.chunks_mut(self.bytes.max(1)).enumerate() {
                        batch.get(&open, WindowDisp((number * self.bytes) as i64), part)?;
                    }
                    Ok(())
                })?;
                Ok(epoch.complete()?)
            })?;
            open.unlock()?;
            time
        } else {
            self.timed(team, |_| {
                let (mut access, _) = window.pscw()?;
                let epoch = access.start(&[Rank(0)])?;
                for (number, part) in parts.chunks_mut(self.bytes.max(1)).enumerate() {
                    epoch.at(Rank(0))?.get(WindowDisp((number * self.bytes) as i64), part)?;
                }
                Ok(epoch.complete()?)
            })?
        };
        memory.free()?;
        if team.rank() != Rank(0) && parts.last() != Some(&CONTENT) {
            return Err(Error::Ranks(format!("{self:?}: the last byte is {:?} instead of {CONTENT}", parts.last())));
        }
        Ok(time)
    }

    fn by_send_receive<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<f64> {
        let team = Team::new(ra)?;
        let me = ra.rank();
        let ends = SendReceive::new(ra, self.burst, self.bytes, self.modelled)?;
        let burst = self.length();
        let mut data = vec![0_u8; self.bytes];
        let time = match self.pattern {
            Pattern::Exchange => {
                let peer = Rank(1 - me.0);
                self.timed(&team, |round| {
                    data.fill(round);
                    ends.exchange(peer, &data)
                })?
            }
            Pattern::PingPong => {
                let peer = Rank(1 - me.0);
                self.timed(&team, |round| {
                    data.fill(round);
                    for turn in 0..2 {
                        if turn == me.0 {
                            ends.complete(peer, burst, &data)?;
                        } else {
                            ends.post(&[peer])?;
                            ends.wait(&[peer], burst, &data)?;
                        }
                    }
                    Ok(())
                })? / 2.0
            }
            _ if me == Rank(0) => {
                let origins: Vec<Rank> = (1..ra.size()).map(Rank).collect();
                self.timed(&team, |round| {
                    data.fill(round);
                    ends.post(&origins)?;
                    self.expose(ra)?;
                    ends.wait(&origins, burst, &data)
                })?
            }
            _ => self.timed(&team, |round| {
                data.fill(round);
                // Operations are queued; the program computes after each.
                (0..self.burst).try_for_each(|_| self.compute(ra))?;
                ends.complete(Rank(0), burst, &data)
            })?,
        };
        let receives = match self.pattern {
            Pattern::Puts => me == Rank(0),
            Pattern::Gets => me != Rank(0),
            Pattern::PingPong | Pattern::Exchange => true,
        };
        if receives && self.bytes > 0 {
            self.check(ends.seen())?;
        }
        Ok(time)
    }

    fn by_messages<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<f64> {
        let team = Team::new(ra)?;
        let wrong = rmalab_windows::Error::from;
        let messages = Messages::new(ra).map_err(wrong)?;
        let peer = Rank(1 - ra.rank().0);
        let mut data = vec![0_u8; self.bytes];
        let mut seen = 0;
        let time = self.timed(&team, |round| {
            data.fill(round);
            let receive = messages.irecv(peer, Tag(0)).map_err(wrong)?;
            let send = messages.isend(peer, Tag(0), std::mem::take(&mut data)).map_err(wrong)?;
            let (received, _) = receive.wait().map_err(wrong)?;
            seen = received.last().copied().unwrap_or(0);
            data = send.wait().map_err(wrong)?;
            Ok(())
        })?;
        self.check(seen)?;
        Ok(time)
    }
}

impl Job for Epochs {
    /// Nanoseconds of an epoch.
    type Out = f64;

    const NAME: &'static str = "epochs";

    fn segment_bytes(&self, ranks: u32) -> u64 {
        let window = 2 * self.bytes as u64 * u64::from(self.burst.max(1)) * u64::from(ranks);
        (4 << 20) + window + SendReceive::<dyn RemoteAtomics>::bytes(ranks, self.burst, self.bytes)
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<f64> {
        match self.design {
            Design::Rdma | Design::TwoSided => self.by_window(ra),
            Design::SendReceive => self.by_send_receive(ra),
            Design::Messages => self.by_messages(ra),
        }
    }
}

/// The time of the slowest rank.
pub(super) fn slowest(ran: &Ran<f64>) -> f64 {
    ran.ranks.iter().copied().fold(0.0, f64::max)
}

/// Runs simulated epochs; returns the times in the order of the jobs.
pub(super) fn simulated(context: &Context<'_>, jobs: &[(Epochs, Ranks)]) -> Result<Vec<f64>> {
    jobs.iter().map(|(job, world)| context.run(job, world).map(|ran| slowest(&ran))).collect()
}

/// Runs epochs of processes of this machine in turn; returns the medians in the order of the jobs.
pub(super) fn measured(context: &Context<'_>, jobs: &[(Epochs, Ranks)]) -> Result<Vec<f64>> {
    context.medians(context.pick(5, 9), jobs, slowest)
}

/// For each design a curve over values, from times in the order of the runs, design by design.
pub(super) fn curves(values: &[f64], times: &[f64], y: impl Fn(f64, f64) -> f64) -> Vec<Vec<(f64, f64)>> {
    let curve = |times: &[f64]| values.iter().zip(times).map(|(&x, &time)| (x, y(x, time))).collect();
    times.chunks(values.len().max(1)).map(curve).collect()
}

/// The curves as series of a plot, with the designs' names.
pub(super) fn series(designs: &[Design], curves: &[Vec<(f64, f64)>], origin: Origin) -> Vec<Series> {
    let each = designs.iter().zip(curves).enumerate();
    each.map(|(style, (design, points))| Series {
        name: design.name().into(),
        origin,
        style,
        points: points.clone(),
        spread: Vec::new(),
        group: String::new(),
    })
    .collect()
}

/// The difference of `here` from the paper's figure, as a share of that.
pub(super) fn off(here: f64, paper: f64) -> f64 {
    here / paper - 1.0
}

/// Returns whether an absolute figure of the simulator counts as reproduced: it is within 15 % of the paper's.
pub(super) fn near(here: f64, paper: f64) -> bool {
    off(here, paper).abs() <= 0.15
}

/// A figure, and its difference from the paper's.
pub(super) fn beside(value: fn(f64) -> Value, here: f64, paper: f64) -> String {
    format!("{}, {:+.0} %", value(here), 100.0 * off(here, paper))
}

/// Sizes of simulated operations: powers of 4, or of 2, from 4 bytes to 256 KiB.
pub(super) fn sizes(context: &Context<'_>) -> Vec<usize> {
    (2..=18).step_by(context.pick(2, 1)).map(|power| 1 << power).collect()
}

/// Sizes of measured operations: powers of 16, or of 2, from 4 bytes to 256 KiB.
pub(super) fn sizes_here(context: &Context<'_>) -> Vec<usize> {
    (2..=18).step_by(context.pick(4, 1)).map(|power| 1 << power).collect()
}

/// The sizes as numbers.
pub(super) fn numbers(sizes: &[usize]) -> Vec<f64> {
    sizes.iter().map(|&bytes| bytes as f64).collect()
}

/// A table of curves, a row for each point.
pub(super) fn tabulated(
    title: String,
    columns: &[&str],
    curves: &[Vec<(f64, f64)>],
    x: impl Fn(f64) -> Value,
    y: impl Fn(f64) -> Value,
) -> Table {
    let mut table = Table::new(title, columns.iter().copied());
    for row in 0..curves.first().map_or(0, Vec::len) {
        let values = curves.iter().map(|curve| y(curve[row].1));
        table.row([x(curves[0][row].0)].into_iter().chain(values));
    }
    table
}

/// The reason why the last claim does not hold, if it does not.
pub(super) fn because(finding: &mut Finding, reason: &str) {
    if finding.claims.last().is_some_and(|claim| !claim.holds) && !finding.why.contains(reason) {
        if !finding.why.is_empty() {
            finding.why += "; ";
        }
        finding.why += reason;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use rmalab_job as job;

    fn time(job: Epochs, world: Ranks) -> f64 {
        let (job, world) = job.on(world);
        slowest(&job::run(&job, &world, &AtomicBool::new(false)).unwrap())
    }

    fn short(job: Epochs, ranks: u32) {
        let (mut job, world) = job.on(Ranks::threads(ranks));
        job.rounds = 40;
        job::run(&job, &world, &AtomicBool::new(false)).unwrap();
    }

    #[test]
    fn every_pattern_of_every_design_moves_the_data() {
        for design in Design::ALL {
            for pattern in [Pattern::PingPong, Pattern::Puts, Pattern::Gets] {
                // Short, eager, and with a handshake.
                for bytes in [4, 2000, 20_000] {
                    short(Epochs::new(design, pattern, bytes).burst(5), 2);
                    assert!(time(Epochs::new(design, pattern, bytes).burst(5), cluster(2)) > 0.0);
                }
            }
            short(Epochs::new(design, Pattern::Puts, 300).burst(3), 3);
            assert!(time(Epochs::new(design, Pattern::Puts, 20_000).burst(3), cluster(4)) > 0.0);
        }
        for design in [Design::Rdma, Design::SendReceive, Design::TwoSided, Design::Messages] {
            for bytes in [4, 2000, 20_000] {
                short(Epochs::new(design, Pattern::Exchange, bytes), 2);
                assert!(time(Epochs::new(design, Pattern::Exchange, bytes), cluster(2)) > 0.0);
            }
        }
    }

    #[test]
    fn an_empty_epoch_is_two_consecutive_messages() {
        // Each takes 6.3 µs with puts; or 7.6 µs, less the half of the processor's time that only the next message
        // waits for.
        let rdma = time(Epochs::new(Design::Rdma, Pattern::Puts, 0).burst(0), cluster(2));
        assert!((12_600.0..13_000.0).contains(&rdma), "{rdma} ns");
        let messages = time(Epochs::new(Design::SendReceive, Pattern::Puts, 0).burst(0), cluster(2));
        assert!((15_200.0..15_800.0).contains(&messages), "{messages} ns");
    }

    #[test]
    fn computation_is_hidden_by_one_sided_puts_only() {
        let times = |design| {
            [0, 40_000].map(|between| {
                time(Epochs { between, ..Epochs::new(design, Pattern::Puts, 65536).burst(4) }, cluster(2))
            })
        };
        let [idle, busy] = times(Design::Rdma);
        assert!(busy - idle < 0.1 * 160_000.0, "{idle} and {busy} ns");
        // The two-sided target takes longer than the origin, which computes meanwhile: some of that is hidden.
        for (design, least) in [(Design::SendReceive, 0.8), (Design::TwoSided, 0.4)] {
            let [idle, busy] = times(design);
            assert!(busy - idle > least * 160_000.0, "{}: {idle} and {busy} ns", design.name());
        }
    }

    #[test]
    fn gets_that_overlap_share_the_adapter() {
        let bytes = 65536;
        let epoch = time(Epochs::new(Design::Rdma, Pattern::Gets, bytes).burst(16), cluster(2));
        assert!(epoch > 16.0 * bytes as f64 / 0.865, "{epoch} ns");
    }

    #[test]
    fn only_claims_that_do_not_hold_have_reasons() {
        let mut finding = Finding::new();
        for (holds, reason) in [(true, "none"), (false, "one"), (false, "another"), (false, "one")] {
            finding.claim(holds, "a", "b");
            because(&mut finding, reason);
        }
        assert_eq!(finding.why, "one; another");
    }

    #[test]
    fn figures_are_near_or_not() {
        assert!(near(10.0, 11.0) && near(11.5, 10.0) && !near(8.0, 10.0));
        assert_eq!(beside(Value::Time, 9000.0, 10_000.0), "9.00 µs, -10 %");
    }
}
