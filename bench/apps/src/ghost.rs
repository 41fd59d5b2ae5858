//! Ghost exchange with nearest neighbours.
//!
//! R. Thakur, W. Gropp, B. Toonen, Minimizing Synchronization Overhead in the Implementation of MPI One-Sided
//! Communication, EuroPVM/MPI 2004, sections 1 and 5. In every step, each rank sends a message to each of its four
//! neighbours. It uses point-to-point messages, or puts with a synchronization of windows.
//!
//! # Neighbours
//!
//! Ranks are a periodic grid, as square as their number allows. If a dimension has one rank, the neighbours of the other
//! dimension replace its neighbours, so that no rank sends to itself. With two ranks, each is all four neighbours of the
//! other.
//!
//! # Checks
//!
//! The message of a step is a pattern of the sender, the direction and the step. In some steps ahead of the timed ones,
//! ranks compare the ghosts byte by byte. In timed steps, they compare the first and the last word. Ghosts of even and
//! odd steps have separate slots. So a rank checks the ghosts of a step while its neighbours send the next ones.
//!
//! # Timing
//!
//! A step lasts from its first call to the last: the epoch, or the four receives and sends. Locks do not notify a
//! target of its ghosts. A barrier does so ahead of the check, and is not a part of the step, as in the paper's
//! program.

use clap::{Args, ValueEnum};
use rmalab_atomics::sim::units;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::messages::{Messages, Tag};
use rmalab_windows::{Assert, FenceAssert, LockKind, Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::{Application, Strategies};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Table, Value};

/// Steps whose ghosts are compared byte by byte.
const COMPARED: u32 = 2;

/// Exchange messages with four neighbours, repeatedly.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ghost {
    /// Bytes of a message, a multiple of 8
    #[arg(long, value_name = "BYTES", default_value = "1024", value_parser = units::length)]
    pub bytes: u64,
    /// Steps that are timed
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: u32,
    /// Synchronization of a step
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Synchronization::Fence)]
    pub sync: Synchronization,
    /// Strategies of the window.
    #[command(flatten)]
    pub strategies: Strategies,
}

/// Synchronizations of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Synchronization {
    /// Messages, four received and four sent
    PointToPoint,
    /// Puts between two fences; the first one asserts that nothing precedes it
    Fence,
    /// Puts between two barriers, acknowledged one by one: a fence without a count of operations, as in LAM
    Barriers,
    /// Puts between start and complete, after post and before wait
    Pscw,
    /// Each put in a separate exclusive lock
    Lock,
    /// Puts under one lock_all
    LockAll,
}

/// The result of a rank.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Exchanged {
    /// Nanoseconds of all timed steps together.
    pub time: f64,
    /// The number of correct ghosts checked.
    pub checked: u64,
}

impl Job for Ghost {
    type Out = Exchanged;

    const NAME: &'static str = "ghost";

    fn segment_bytes(&self, _ranks: u32) -> u64 {
        (16 << 20) + 32 * self.bytes
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Exchanged> {
        let team = Team::new(ra)?;
        if self.sync == Synchronization::PointToPoint {
            let messages = Messages::new(ra).map_err(rmalab_windows::Error::from)?;
            return self.steps(&team, &mut Way::Messages(&messages));
        }
        let mut window = self.strategies.window(&team, GHOSTS * self.bytes)?;
        self.strategies.served(&mut window, |window| self.steps(&team, &mut Way::Window(window)))
    }
}

impl Application for Ghost {
    const TITLE: &'static str = "ghost exchange with four neighbours";

    fn strategies(&self) -> &Strategies {
        &self.strategies
    }

    fn check(&self, _world: &Ranks) -> Result<()> {
        if self.bytes == 0 || !self.bytes.is_multiple_of(8) || self.bytes > MOST {
            return Err(Error::usage(format!(
                "--bytes {}: the length of a message must be a multiple of 8 bytes, from 8 to {MOST}",
                self.bytes
            )));
        }
        Ok(())
    }

    fn time(&self, ran: &Ran<Exchanged>) -> f64 {
        ran.ranks.iter().map(|rank| rank.time).fold(0.0, f64::max)
    }

    fn table(&self, ran: &Ran<Exchanged>) -> Table {
        let step = self.time(ran) / f64::from(self.iterations);
        let checked = ran.ranks.iter().map(|rank| rank.checked).sum();
        let mut table = Table::new(Self::TITLE, ["what", "value"]);
        table.row(["bytes of a message".into(), Value::Bytes(self.bytes)]);
        table.row(["time of a step, slowest rank".into(), Value::Time(step)]);
        table.row(["sent by a rank".into(), Value::Bandwidth(4.0 * self.bytes as f64 / step * 1e9)]);
        table.row(["ghosts checked, all right".into(), Value::Count(checked)]);
        table
    }
}

/// Four directions, even and odd steps.
const GHOSTS: u64 = 8;

/// The longest message.
const MOST: u64 = 64 << 20;

/// The transport of ghosts.
enum Way<'a, 't, A: RemoteAtomics + ?Sized> {
    Messages(&'a Messages<'t, A>),
    Window(&'a mut Window<'t, A>),
}

/// The neighbours to the west, the east, the north and the south of a rank.
fn neighbours(rank: Rank, ranks: u32) -> [Rank; 4] {
    let width = (1..=ranks.isqrt()).rev().find(|width| ranks.is_multiple_of(*width)).unwrap_or(1);
    let height = ranks / width;
    let (x, y) = (rank.0 % width, rank.0 / width);
    let at = |x: u32, y: u32| Rank(y * width + x);
    let [west, east] = [at((x + width - 1) % width, y), at((x + 1) % width, y)];
    let [north, south] = [at(x, (y + height - 1) % height), at(x, (y + 1) % height)];
    if width == 1 { [north, south, north, south] } else { [west, east, north, south] }
}

/// The location of the ghost from the neighbour in the direction `from`, which sends it in the opposite direction.
fn slot(step: u64, from: usize, bytes: u64) -> WindowDisp {
    WindowDisp(((step % 2 * 4 + from as u64) * bytes) as i64)
}

/// Word number `place` of the message of a rank in a direction.
fn word(sender: Rank, direction: usize, step: u64, place: u64) -> u64 {
    let which = u64::from(sender.0) * 4 + direction as u64 + 1;
    which.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step.wrapping_mul(0xd134_2543_de82_ef95) ^ place
}

impl Ghost {
    /// The indices of the checked words, new in a step: all of them, or the first and the last.
    fn places(&self, step: u64) -> impl Iterator<Item = u64> + use<> {
        let words = self.bytes / 8;
        let stride = if step < u64::from(COMPARED) { 1 } else { words.saturating_sub(1).max(1) };
        (0..words).step_by(stride as usize)
    }

    fn steps<A: RemoteAtomics + ?Sized>(&self, team: &Team<'_, A>, way: &mut Way<'_, '_, A>) -> Result<Exchanged> {
        let (ra, me) = (team.ra(), team.rank());
        let to = neighbours(me, team.size());
        let passive = matches!(self.sync, Synchronization::Lock | Synchronization::LockAll);
        let mut send: [Vec<u8>; 4] = std::array::from_fn(|_| vec![0; self.bytes as usize]);
        let mut ghost = vec![0; self.bytes as usize];
        let mut exchanged = Exchanged { time: 0.0, checked: 0 };
        for step in 0..u64::from(COMPARED) + u64::from(self.iterations) {
            for (direction, send) in send.iter_mut().enumerate() {
                for place in self.places(step) {
                    let at = 8 * place as usize;
                    send[at..at + 8].copy_from_slice(&word(me, direction, step, place).to_ne_bytes());
                }
            }
            let begin = ra.now();
            let received = match way {
                Way::Messages(messages) => {
                    Some(point_to_point(messages, to, &mut send).map_err(rmalab_windows::Error::from)?)
                }
                Way::Window(window) => {
                    self.put(team, window, step, to, &send)?;
                    None
                }
            };
            if step >= u64::from(COMPARED) {
                exchanged.time += elapsed(ra, begin);
            }
            if passive {
                team.barrier()?;
            }
            for from in 0..4 {
                if let Way::Window(window) = way {
                    self.look(window, step, from, &mut ghost)?;
                }
                let ghost = received.as_ref().map_or(&ghost, |received| &received[from]);
                for place in self.places(step) {
                    let at = 8 * place as usize;
                    let bytes = ghost.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                    let found = bytes.map_or(0, u64::from_ne_bytes);
                    let expected = word(to[from], from ^ 1, step, place);
                    if found != expected {
                        return Err(Error::Wrong(format!(
                            "ghost, {me}, step {step}: word {place} of the ghost from {} is {found:#x}, not {expected:#x}",
                            to[from]
                        )));
                    }
                }
                exchanged.checked += 1;
            }
        }
        team.barrier()?;
        Ok(exchanged)
    }

    /// Copies the checked part of a ghost out of the window.
    fn look<A: RemoteAtomics + ?Sized>(
        &self,
        window: &Window<'_, A>,
        step: u64,
        from: usize,
        ghost: &mut [u8],
    ) -> Result<()> {
        let (local, WindowDisp(start)) = (window.local()?, slot(step, from, self.bytes));
        if step < u64::from(COMPARED) {
            return Ok(local.read(WindowDisp(start), ghost)?);
        }
        for place in self.places(step) {
            let at = 8 * place as usize;
            local.read(WindowDisp(start + at as i64), &mut ghost[at..at + 8])?;
        }
        Ok(())
    }

    /// A step with puts.
    fn put<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        window: &mut Window<'_, A>,
        step: u64,
        to: [Rank; 4],
        send: &[Vec<u8>; 4],
    ) -> Result<()> {
        let puts = || to.into_iter().zip(send).enumerate();
        let slot = |direction: usize| slot(step, direction ^ 1, self.bytes);
        match self.sync {
            Synchronization::PointToPoint => {}
            Synchronization::Fence => {
                let opens = FenceAssert { noprecede: true, ..FenceAssert::default() };
                let epoch = window.fence_assert(opens)?;
                for (direction, (to, send)) in puts() {
                    epoch.at(to)?.put(slot(direction), send)?;
                }
                epoch.close()?;
            }
            Synchronization::Barriers => {
                team.barrier()?;
                let epoch = window.lock_all_assert(Assert::NoCheck)?;
                for (direction, (to, send)) in puts() {
                    epoch.at(to)?.put(slot(direction), send)?;
                }
                epoch.unlock_all()?;
                team.barrier()?;
            }
            Synchronization::Pscw => {
                let mut group = to.to_vec();
                group.sort();
                group.dedup();
                let (mut access, mut exposure) = window.pscw()?;
                let exposed = exposure.post(&group)?;
                let epoch = access.start(&group)?;
                for (direction, (to, send)) in puts() {
                    epoch.at(to)?.put(slot(direction), send)?;
                }
                epoch.complete()?;
                exposed.wait()?;
            }
            Synchronization::Lock => {
                for (direction, (to, send)) in puts() {
                    let epoch = window.lock(LockKind::Exclusive, to)?;
                    epoch.put(slot(direction), send)?;
                    epoch.unlock()?;
                }
            }
            Synchronization::LockAll => {
                let epoch = window.lock_all()?;
                for (direction, (to, send)) in puts() {
                    epoch.at(to)?.put(slot(direction), send)?;
                }
                epoch.unlock_all()?;
            }
        }
        Ok(())
    }
}

/// A step with messages: four receives and four sends, all completed. Returns the ghosts.
fn point_to_point<A: RemoteAtomics + ?Sized>(
    messages: &Messages<'_, A>,
    to: [Rank; 4],
    send: &mut [Vec<u8>; 4],
) -> rmalab_windows::messages::Result<[Vec<u8>; 4]> {
    let mut receives = Vec::with_capacity(4);
    for (from, neighbour) in to.into_iter().enumerate() {
        receives.push(messages.irecv(neighbour, Tag(from as u32 ^ 1))?);
    }
    let mut sends = Vec::with_capacity(4);
    for (direction, (neighbour, send)) in to.into_iter().zip(&mut *send).enumerate() {
        sends.push(messages.isend(neighbour, Tag(direction as u32), std::mem::take(send))?);
    }
    let mut ghosts: [Vec<u8>; 4] = Default::default();
    for (ghost, receive) in ghosts.iter_mut().zip(receives) {
        *ghost = receive.wait()?.0;
    }
    for (send, sent) in send.iter_mut().zip(sends) {
        *send = sent.wait()?;
    }
    Ok(ghosts)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::run;
    use rmalab_job as job;

    fn ghost(sync: Synchronization, strategies: Strategies) -> Ghost {
        Ghost { bytes: 64, iterations: 5, sync, strategies }
    }

    #[test]
    fn neighbours_are_mutual_and_differ_from_the_rank() {
        for ranks in 2..=40 {
            for rank in (0..ranks).map(Rank) {
                let to = neighbours(rank, ranks);
                for (direction, neighbour) in to.into_iter().enumerate() {
                    assert_ne!(neighbour, rank);
                    assert_eq!(neighbours(neighbour, ranks)[direction ^ 1], rank, "{ranks} ranks");
                }
            }
        }
        assert_eq!(neighbours(Rank(0), 6), [1, 1, 4, 2].map(Rank));
    }

    #[test]
    fn every_synchronization_and_transport_delivers_the_ghosts() {
        let two_sided = Strategies { transport: Some("two-sided".into()), ..Strategies::default() };
        let agent = Strategies { transport: Some("two-sided-agent".into()), ..Strategies::default() };
        for &sync in Synchronization::value_variants() {
            for ranks in [1, 2, 4] {
                for strategies in [Strategies::default(), two_sided.clone(), agent.clone()] {
                    let done =
                        run(&ghost(sync, strategies), &Ranks::threads(ranks), 1, &AtomicBool::new(false)).unwrap();
                    let checked = u64::from(ranks) * 4 * u64::from(COMPARED + 5);
                    assert_eq!(done.table.rows[3][1].value, Value::Count(checked), "{sync:?} on {ranks}");
                }
                let simulated = Ranks::simulated("gemini", 4);
                run(&ghost(sync, two_sided.clone()), &simulated, 1, &AtomicBool::new(false)).unwrap();
            }
        }
    }

    /// Detects sends in the wrong direction.
    #[derive(Clone, Serialize, Deserialize)]
    struct Astray(Ghost);

    impl Job for Astray {
        type Out = Exchanged;

        const NAME: &'static str = "ghost-astray";

        fn run(&self, ra: &dyn RemoteAtomics) -> Result<Exchanged> {
            let team = Team::new(ra)?;
            // Overwrites the destination of the first step's put ahead of the check.
            let mut window = self.0.strategies.window(&team, GHOSTS * self.0.bytes)?;
            let send: [Vec<u8>; 4] = std::array::from_fn(|_| vec![0xff; self.0.bytes as usize]);
            let to = neighbours(team.rank(), team.size());
            self.0.put(&team, &mut window, 0, to, &send)?;
            self.0.put(&team, &mut window, 1, to, &send)?;
            let still = Ghost { sync: Synchronization::PointToPoint, ..self.0.clone() };
            still.steps(&team, &mut Way::Window(&mut window))
        }
    }

    #[test]
    fn missing_ghosts_are_an_error() {
        let job = Astray(ghost(Synchronization::Fence, Strategies::default()));
        let error = job::run(&job, &Ranks::threads(2), &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(
            error.contains("word 0 of the ghost from rank ") && error.contains(" is 0xffffffffffffffff"),
            "{error}"
        );
    }
}
