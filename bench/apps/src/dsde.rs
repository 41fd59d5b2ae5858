//! Dynamic sparse data exchange: in each round, every rank sends to a few other ranks, and no rank knows its senders in
//! advance.
//!
//! T. Hoefler, C. Siebert, A. Lumsdaine, Scalable communication protocols for dynamic sparse data exchange, PPoPP 2010,
//! has the message protocols; R. Gerstenberger, M. Besta, T. Hoefler, Enabling highly-scalable remote memory access
//! programming with MPI-3 one sided, SC'13, section 4.2, has the window protocol and the test: 6 random targets, 8
//! bytes for each.
//!
//! | `--how` | protocol |
//! | --- | --- |
//! | `accumulate` | fetch_and_op of a counter at the target returns a slot for the data; the epoch's end completes all |
//! | `alltoall` | all ranks exchange the numbers of messages, then the messages |
//! | `reduce-scatter` | a sum of the numbers gives each rank its count of messages, which it receives from any source |
//! | `nbx` | messages are acknowledged; a rank with all acknowledgements enters a barrier, and receives until it ends |
//!
//! # State of `accumulate`
//!
//! Two counters, and two rings with room for all data of all ranks in a round. Odd and even rounds take turns, so that a
//! rank empties one ring while other ranks fill the other ring. A counter has the total number of slots handed out.
//!
//! # Checks
//!
//! Each datum has its sender, its round and its number. Each rank draws all ranks' targets again, one after the other.
//! It sorts the expected data of each round, and compares them with the received data.

use clap::{Args, ValueEnum};
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::messages::{ANY_SOURCE, ANY_TAG, Messages, SendRequest, Tag};
use rmalab_windows::{FenceAssert, Op, Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::random::mixed;
use super::{Application, Strategies};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Table, Value};

/// Send data to random ranks that do not expect any.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Dsde {
    /// Targets of each rank in a round; one may be drawn more than once
    #[arg(long, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub targets: u32,
    /// Rounds
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub rounds: u32,
    /// The protocol
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Protocol::Accumulate)]
    pub how: Protocol,
    /// Epoch of a round of accumulate
    #[arg(long, value_enum, value_name = "EPOCH", default_value_t = Epoch::Fence)]
    pub epoch: Epoch,
    /// Seed of the targets
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u32,
    /// Strategies of the window.
    #[command(flatten)]
    pub strategies: Strategies,
}

/// Protocols.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// A counter and slots at the target, with windows
    Accumulate,
    /// Exchange of the numbers with all ranks, then messages
    Alltoall,
    /// Sum of the numbers, then messages
    ReduceScatter,
    /// Acknowledged messages and a nonblocking barrier
    Nbx,
}

/// Epochs of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Epoch {
    /// Two fences
    Fence,
    /// One lock_all for all rounds; a round ends with a flush and a barrier
    LockAll,
}

/// The result of a rank.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Exchanged {
    /// Nanoseconds of all rounds together.
    pub time: f64,
    /// The number of correct data received.
    pub received: u64,
}

impl Job for Dsde {
    type Out = Exchanged;

    const NAME: &'static str = "dsde";

    fn segment_bytes(&self, ranks: u32) -> u64 {
        (16 << 20) + self.window_bytes(ranks)
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Exchanged> {
        let team = Team::new(ra)?;
        if self.how == Protocol::Accumulate {
            let mut window = self.strategies.window(&team, self.window_bytes(team.size()))?;
            return self.strategies.served(&mut window, |window| self.by_window(&team, window));
        }
        let messages = Messages::new(ra).map_err(rmalab_windows::Error::from)?;
        let mut early = Vec::new();
        self.rounds(&team, |round, data| match self.how {
            Protocol::Nbx => nbx(&team, &messages, round, data, &mut early),
            _ => self.counted(&team, &messages, round, data),
        })
    }
}

impl Application for Dsde {
    const TITLE: &'static str = "dynamic sparse data exchange";

    fn strategies(&self) -> &Strategies {
        &self.strategies
    }

    fn check(&self, _world: &Ranks) -> Result<()> {
        Ok(())
    }

    fn time(&self, ran: &Ran<Exchanged>) -> f64 {
        ran.ranks.iter().map(|rank| rank.time).fold(0.0, f64::max)
    }

    fn table(&self, ran: &Ran<Exchanged>) -> Table {
        let received = ran.ranks.iter().map(|rank| rank.received).sum();
        let mut table = Table::new(Self::TITLE, ["what", "value"]);
        table.row(["targets of a rank".into(), Value::Count(self.targets.into())]);
        table.row(["time of a round, slowest rank".into(), Value::Time(self.round_time(ran))]);
        table.row(["data of 8 bytes checked, all right".into(), Value::Count(received)]);
        table
    }
}

/// A datum and its target.
type Sent = (Rank, u64);

impl Dsde {
    /// Nanoseconds of a round, on the slowest rank.
    pub fn round_time(&self, ran: &Ran<Exchanged>) -> f64 {
        self.time(ran) / f64::from(self.rounds)
    }

    /// The data that a rank sends in a round.
    fn data(&self, rank: Rank, round: u32, ranks: u32) -> impl Iterator<Item = Sent> + use<> {
        let from = mixed(u64::from(self.seed) << 40 ^ u64::from(round) << 20 ^ mixed(u64::from(rank.0) + 1));
        (0..u64::from(self.targets)).map(move |number| {
            let target = mixed(from.wrapping_add(number)) % u64::from(ranks);
            (Rank(target as u32), u64::from(rank.0) << 32 | u64::from(round) << 12 | number)
        })
    }

    /// Runs all rounds, and checks the received data.
    fn rounds<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        mut round_of: impl FnMut(u32, &[Sent]) -> Result<Vec<u64>>,
    ) -> Result<Exchanged> {
        let (me, size) = (team.rank(), team.size());
        let (mut time, mut received) = (0.0, Vec::new());
        team.barrier()?;
        for round in 0..self.rounds {
            let data: Vec<Sent> = self.data(me, round, size).collect();
            let begin = team.ra().now();
            let came = round_of(round, &data)?;
            time += elapsed(team.ra(), begin);
            received.push(came);
        }
        team.barrier()?;
        let mut checked = 0;
        for (round, mut came) in (0..).zip(received) {
            came.sort_unstable();
            let all = (0..size).flat_map(|rank| self.data(Rank(rank), round, size));
            let mut expected: Vec<u64> = all.filter(|(target, _)| *target == me).map(|(_, datum)| datum).collect();
            expected.sort_unstable();
            if came != expected {
                return Err(Error::Wrong(format!(
                    "dsde, {me}, round {round}: received {} data, expected {}; the first that differ are {:x?} and {:x?}",
                    came.len(),
                    expected.len(),
                    came.iter().zip(&expected).find(|(came, expected)| came != expected).map(|(came, _)| came),
                    came.iter().zip(&expected).find(|(came, expected)| came != expected).map(|(_, expected)| expected),
                )));
            }
            checked += came.len() as u64;
        }
        Ok(Exchanged { time, received: checked })
    }

    /// The number of slots in a ring.
    fn places(&self, ranks: u32) -> u64 {
        u64::from(self.targets) * u64::from(ranks)
    }

    fn window_bytes(&self, ranks: u32) -> u64 {
        8 * 2 * (1 + self.places(ranks))
    }

    /// The counter of a round; its ring follows.
    fn counter(&self, round: u32, ranks: u32) -> i64 {
        (u64::from(round % 2) * 8 * (1 + self.places(ranks))) as i64
    }

    fn by_window<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        window: &mut Window<'_, A>,
    ) -> Result<Exchanged> {
        // The number of slots emptied in this rank's two rings.
        let mut taken = [0; 2];
        if self.epoch == Epoch::LockAll {
            let epoch = window.lock_all()?;
            let exchanged = self.rounds(team, |round, data| {
                for &(to, datum) in data {
                    let target = epoch.at(to)?;
                    let place = target.fetch_and_op(WindowDisp(self.counter(round, team.size())), Op::Sum, 1_u64)?;
                    target.put_value(self.place(round, place, team.size()), datum)?;
                }
                epoch.flush_all()?;
                team.barrier()?;
                self.take(epoch.window(), round, &mut taken)
            })?;
            epoch.unlock_all()?;
            // At this barrier, a target of messages serves the unlocks of other ranks.
            team.barrier()?;
            return Ok(exchanged);
        }
        let opens = FenceAssert { noprecede: true, ..FenceAssert::default() };
        self.rounds(team, |round, data| {
            let epoch = window.fence_assert(opens)?;
            for &(to, datum) in data {
                let target = epoch.at(to)?;
                let place = target.fetch_and_op(WindowDisp(self.counter(round, team.size())), Op::Sum, 1_u64)?;
                target.put_value(self.place(round, place, team.size()), datum)?;
            }
            epoch.close()?;
            self.take(window, round, &mut taken)
        })
    }

    /// The slot of a round's ring.
    fn place(&self, round: u32, place: u64, ranks: u32) -> WindowDisp {
        WindowDisp(self.counter(round, ranks) + 8 + 8 * (place % self.places(ranks)) as i64)
    }

    /// Empties the ring of a round.
    fn take<A: RemoteAtomics + ?Sized>(
        &self,
        window: &Window<'_, A>,
        round: u32,
        taken: &mut [u64; 2],
    ) -> Result<Vec<u64>> {
        let (local, ranks) = (window.local()?, window.team().size());
        let taken = &mut taken[(round % 2) as usize];
        let given: u64 = local.load(WindowDisp(self.counter(round, ranks)))?;
        let came = (*taken..given).map(|place| Ok(local.load(self.place(round, place, ranks))?)).collect();
        *taken = given;
        came
    }

    /// A round in which ranks first exchange the numbers of data.
    fn counted<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        messages: &Messages<'_, A>,
        round: u32,
        data: &[Sent],
    ) -> Result<Vec<u64>> {
        let mut counts = vec![0; team.size() as usize];
        for (to, _) in data {
            counts[to.index()] += 1;
        }
        let come = match self.how {
            Protocol::Alltoall => team.collectives().alltoall(&counts)?.iter().sum(),
            _ => team.collectives().reduce_scatter(&counts)?,
        };
        let tag = Tag(round);
        let exchange = || {
            let sends = begin(messages, tag, data)?;
            let mut came = Vec::new();
            for _ in 0..come {
                came.push(datum(&messages.recv_vec(ANY_SOURCE, tag)?.0));
            }
            sends.into_iter().try_for_each(|send| send.wait().map(drop))?;
            Ok(came)
        };
        Ok(exchange().map_err(|error: rmalab_windows::messages::Error| rmalab_windows::Error::from(error))?)
    }
}

/// Starts the sends of a rank in a round.
fn begin<'m, 'a, A: RemoteAtomics + ?Sized>(
    messages: &'m Messages<'a, A>,
    tag: Tag,
    data: &[Sent],
) -> rmalab_windows::messages::Result<Vec<SendRequest<'m, 'a, A>>> {
    data.iter().map(|&(to, datum)| messages.isend(to, tag, datum.to_ne_bytes().to_vec())).collect()
}

fn datum(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

// Kinds of messages of nbx: a tag is 64 times its round plus one of these, or plus TOKEN and a step of the barrier.
const DATUM: u32 = 0;
const ACKNOWLEDGEMENT: u32 = 1;
const TOKEN: u32 = 2;

/// A round by nonblocking consensus. `early` has messages of the next round that arrived in this one: a rank that has
/// left the barrier may begin it.
fn nbx<A: RemoteAtomics + ?Sized>(
    team: &Team<'_, A>,
    messages: &Messages<'_, A>,
    round: u32,
    data: &[Sent],
    early: &mut Vec<(u32, u64)>,
) -> Result<Vec<u64>> {
    let (me, size) = (team.rank().0, team.size());
    let links = size.next_power_of_two().trailing_zeros();
    let mut waiting = std::mem::take(early);
    let (mut came, mut acknowledged, mut tokens, mut told) = (Vec::new(), 0, 0_u64, 0);
    let mut exchange = || {
        let sends = begin(messages, Tag(64 * round + DATUM), data)?;
        loop {
            if acknowledged == data.len() {
                // Continues the dissemination barrier as far as the received tokens allow.
                while told < links && tokens.trailing_ones() >= told {
                    let to = (u64::from(me) + (1 << told)) % u64::from(size);
                    messages.send(Rank(to as u32), Tag(64 * round + TOKEN + told), &[])?;
                    told += 1;
                }
                if told == links && tokens.trailing_ones() >= links {
                    break;
                }
            }
            let (kind, word) = match waiting.pop() {
                Some(first) => first,
                None => {
                    let (bytes, status) = messages.recv_vec(ANY_SOURCE, ANY_TAG)?;
                    let (of, kind, word) = (status.tag.0 / 64, status.tag.0 % 64, datum(&bytes));
                    if kind == DATUM {
                        messages.send(status.from, Tag(64 * of + ACKNOWLEDGEMENT), &[])?;
                    }
                    if of != round {
                        early.push((kind, word));
                        continue;
                    }
                    (kind, word)
                }
            };
            match kind {
                DATUM => came.push(word),
                ACKNOWLEDGEMENT => acknowledged += 1,
                link => tokens |= 1 << (link - TOKEN),
            }
        }
        sends.into_iter().try_for_each(|send| send.wait().map(drop))
    };
    exchange().map_err(rmalab_windows::Error::from)?;
    Ok(came)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::run;
    use rmalab_job as job;

    fn dsde(how: Protocol, epoch: Epoch, transport: Option<&str>) -> Dsde {
        let strategies = Strategies { transport: transport.map(Into::into), ..Strategies::default() };
        Dsde { targets: 6, rounds: 20, how, epoch, seed: 3, strategies }
    }

    #[test]
    fn every_protocol_delivers_all_data() {
        let stop = AtomicBool::new(false);
        let all = [Epoch::Fence, Epoch::LockAll]
            .map(|epoch| [None, Some("two-sided")].map(|transport| dsde(Protocol::Accumulate, epoch, transport)));
        let mut all = all.concat();
        all.push(dsde(Protocol::Accumulate, Epoch::LockAll, Some("two-sided-agent")));
        all.extend(
            [Protocol::Alltoall, Protocol::ReduceScatter, Protocol::Nbx].map(|how| dsde(how, Epoch::Fence, None)),
        );
        for dsde in all {
            for ranks in [1, 2, 3, 5] {
                let done = run(&dsde, &Ranks::threads(ranks), 1, &stop).unwrap();
                assert_eq!(done.table.rows[2][1].value, Value::Count(u64::from(ranks) * 6 * 20), "{dsde:?}");
            }
            if dsde.strategies.transport.as_deref() != Some("two-sided-agent") {
                run(&dsde, &Ranks::simulated("gemini", 40), 1, &stop).unwrap();
            }
        }
    }

    /// Drops a datum of the last round.
    #[derive(Clone, Serialize, Deserialize)]
    struct Lossy(Dsde);

    impl Job for Lossy {
        type Out = Exchanged;

        const NAME: &'static str = "dsde-lossy";

        fn run(&self, ra: &dyn RemoteAtomics) -> Result<Exchanged> {
            let team = Team::new(ra)?;
            let messages = Messages::new(ra).map_err(rmalab_windows::Error::from)?;
            self.0.rounds(&team, |round, data| {
                let mut came = self.0.counted(&team, &messages, round, data)?;
                if round == 19 {
                    came.pop();
                }
                Ok(came)
            })
        }
    }

    #[test]
    fn a_lost_datum_is_detected() {
        let job = Lossy(dsde(Protocol::Alltoall, Epoch::Fence, None));
        let error = job::run(&job, &Ranks::threads(2), &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains("round 19") && error.contains("expected"), "{error}");
    }
}
