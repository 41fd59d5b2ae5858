//! Repeated data exchange between neighbours, by several transports.
//!
//! # Sources
//!
//! * Puts into neighbours' memory, followed by a flag that says that the data are there: R. Gerstenberger, M. Besta,
//!   T. Hoefler, SC'13, as in MILC on foMPI.
//! * Puts and gets without epochs: DART, see [`GlobalMemory`].
//!
//! # State
//!
//! Each rank has two slots for each of its neighbours, which rounds use in turn. A rank puts its data into the slots of
//! its neighbours, and copies received data out of its own.
//!
//! | transport | synchronization of a round |
//! | --- | --- |
//! | fence | one fence after the puts |
//! | PSCW | post to the neighbours, start, puts, complete, wait |
//! | flags | puts, for each neighbour a flush and a put of the round's number into its word; wait for the local words |
//! | DART | blocking puts, then as for flags, or a barrier |
//! | messages | isend to the neighbours, receives from them |
//!
//! # Invariants
//!
//! * I1. Neighbourhood is symmetric, and all ranks exchange in every round. So a rank puts data of round n + 2 only
//!   after it has the neighbour's data of round n + 1. The neighbour read round n before it sent them: two slots are
//!   enough.

use bytemuck::Pod;
use clap::ValueEnum;
use rmalab_atomics::{Rank, RemoteAtomics, Until};
use rmalab_locks::LINE;
use rmalab_windows::messages::{Messages, Options, Tag};
use rmalab_windows::{GlobalMemory, Reserve, Team, Transport, WindowDisp};
use serde::{Deserialize, Serialize};

use super::Strategies;
use rmalab_job::{Error, Result};
use rmalab_job::{Place, Ranks};

/// The transport of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Puts on a window.
    #[default]
    Window,
    /// DART's blocking puts on global memory: stores inside a node; not on simulated machines.
    Dart,
    /// Two-sided messages.
    Messages,
}

/// Synchronization of neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// All ranks synchronize: a fence, or a barrier.
    Fence,
    /// Post, start, complete, wait.
    Pscw,
    /// A flag after the data, under lock_all.
    #[default]
    Flags,
}

/// A neighbour for data exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Neighbour {
    /// Its rank; may be the local rank, and may occur several times.
    pub(super) rank: Rank,
    /// The index of its slot for this rank's data.
    pub(super) slot: usize,
}

/// The pattern of an exchange.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// This rank's neighbours: slot i gets the data of neighbour i. The same number on all ranks.
    pub(super) neighbours: Vec<Option<Neighbour>>,
    /// Bytes of a slot, the same on all ranks.
    pub(super) bytes: u64,
}

/// Sends the elements of the first list to the neighbours, and fills the second list with the elements that they send.
pub(super) type Exchange<'e, T> = dyn FnMut(&[Vec<T>], &mut [Vec<T>]) -> Result<()> + 'e;

/// Checks that data can travel over this transport there.
///
/// # Errors
///
/// [`Error::Usage`] for global memory on a simulated machine.
pub(super) fn how_fits(how: How, world: &Ranks) -> Result<()> {
    if how == How::Dart && matches!(world.place, Place::Sim(_)) {
        return Err(Error::usage(
            "--how dart: simulated processors cannot access other segments; use --how window there, with puts \
             inside a node by the processor or by the adapter, as in the profile",
        ));
    }
    Ok(())
}

/// Bytes of a slot of the messages' ring in which a message of that many bytes fits, if possible.
pub(super) fn slot_bytes(bytes: u64) -> u32 {
    (bytes + 24).next_multiple_of(64).clamp(4096, 1 << 20) as u32
}

/// Bytes of a rank's segment for exchanges over any transport.
pub(super) fn segment_bytes(slots: u64, bytes: u64) -> u64 {
    let window = 2 * slots * bytes;
    2 * window + 16 * u64::from(slot_bytes(bytes)) + (1 << 20)
}

/// The messages of an application with this many bytes in its largest message. That message fits into a slot, so that
/// the result does not include time to split it.
pub(super) fn messages<A: RemoteAtomics + ?Sized>(ra: &A, bytes: u64) -> Result<Messages<'_, A>> {
    let options = Options { slot_bytes: slot_bytes(bytes), ..Options::default() };
    two_sided(Messages::with_options(ra, options))
}

/// Converts a result of messages to one of windows.
pub(super) fn two_sided<T>(result: rmalab_windows::messages::Result<T>) -> Result<T> {
    Ok(result.map_err(rmalab_windows::Error::from)?)
}

impl Plan {
    /// The displacement of data for a slot in a round.
    fn at(&self, round: u64, slot: usize) -> WindowDisp {
        WindowDisp(((round % 2) * self.neighbours.len() as u64 + slot as u64) as i64 * self.bytes as i64)
    }

    /// The neighbours that are not this rank, with their indices.
    fn others(&self, me: Rank) -> impl Iterator<Item = (usize, Neighbour)> {
        let all = self.neighbours.iter().enumerate().filter_map(|(i, neighbour)| Some((i, (*neighbour)?)));
        all.filter(move |(_, neighbour)| neighbour.rank != me)
    }

    /// Their ranks, each once.
    fn group(&self, me: Rank) -> Vec<Rank> {
        let mut group: Vec<Rank> = self.others(me).map(|(_, neighbour)| neighbour.rank).collect();
        group.sort_unstable();
        group.dedup();
        group
    }

    /// Copies the data that a rank sends to itself.
    fn own<T: Pod>(&self, me: Rank, out: &[Vec<T>], into: &mut [Vec<T>]) {
        for (i, neighbour) in self.neighbours.iter().enumerate() {
            if let Some(Neighbour { rank, slot }) = *neighbour
                && rank == me
            {
                into[slot].copy_from_slice(&out[i]);
            }
        }
    }

    /// Runs `body`, which exchanges data with its argument; collective.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when options contradict each other, errors of the windows, and errors of `body`.
    pub(super) fn run<A: RemoteAtomics + ?Sized, T: Pod, R>(
        &self,
        team: &Team<'_, A>,
        (how, sync, strategies): (How, Sync, &Strategies),
        body: impl FnOnce(&mut Exchange<'_, T>) -> Result<R>,
    ) -> Result<R> {
        let ra = team.ra();
        let me = team.rank();
        let bytes = 2 * self.neighbours.len() as u64 * self.bytes;
        match (how, sync) {
            (How::Messages, _) => {
                let messages = messages(ra, self.bytes)?;
                let done = body(&mut |out, into| {
                    self.own(me, out, into);
                    let mut sends = Vec::new();
                    for (i, Neighbour { rank, slot }) in self.others(me) {
                        let data = bytemuck::cast_slice(&out[i]).to_vec();
                        sends.push(two_sided(messages.isend(rank, Tag(slot as u32), data))?);
                    }
                    for (i, neighbour) in self.others(me) {
                        let into = bytemuck::cast_slice_mut(&mut into[i]);
                        two_sided(messages.recv(neighbour.rank, Tag(i as u32), into))?;
                    }
                    for send in sends {
                        two_sided(send.wait())?;
                    }
                    Ok(())
                })?;
                team.barrier()?;
                two_sided(messages.free(team.collectives()))?;
                Ok(done)
            }
            (How::Window, Sync::Fence) => {
                let mut window = strategies.window(team, bytes)?;
                let done = strategies.served(&mut window, |window| {
                    let mut epoch = Some(window.fence()?);
                    let mut round = 0;
                    let done = body(&mut |out, into| {
                        self.own(me, out, into);
                        let fence = epoch.take().ok_or_else(|| Error::Ranks("a fence failed before".into()))?;
                        for (i, Neighbour { rank, slot }) in self.others(me) {
                            fence.at(rank)?.put(self.at(round, slot), &out[i])?;
                        }
                        let fence = fence.next()?;
                        for (i, _) in self.others(me) {
                            fence.at(me)?.get(self.at(round, i), &mut into[i])?;
                        }
                        epoch = Some(fence);
                        round += 1;
                        Ok(())
                    })?;
                    if let Some(fence) = epoch {
                        fence.close()?;
                    }
                    Ok(done)
                })?;
                window.free()?;
                Ok(done)
            }
            (How::Window, Sync::Pscw) => {
                let mut window = strategies.window(team, bytes)?;
                let group = self.group(me);
                let mut round = 0;
                let done = strategies.served(&mut window, |window| {
                    body(&mut |out, into| {
                        self.own(me, out, into);
                        let (mut access, mut exposure) = window.pscw()?;
                        let exposure = exposure.post(&group)?;
                        let access = access.start(&group)?;
                        for (i, Neighbour { rank, slot }) in self.others(me) {
                            access.at(rank)?.put(self.at(round, slot), &out[i])?;
                        }
                        access.complete()?;
                        exposure.wait()?;
                        let own = window.local()?;
                        for (i, _) in self.others(me) {
                            own.read(self.at(round, i), &mut into[i])?;
                        }
                        round += 1;
                        Ok(())
                    })
                })?;
                window.free()?;
                Ok(done)
            }
            (How::Window, Sync::Flags) => {
                let mut window = strategies.window(team, bytes)?;
                if strategies.config()?.transport == Transport::TwoSided {
                    return Err(Error::usage(
                        "--sync flags serves no requests while it waits for a word: use another --transport or --sync",
                    ));
                }
                let mut flags = self.flags(team)?;
                let done = strategies.served(&mut window, |window| {
                    let epoch = window.lock_all()?;
                    let done = body(&mut |out, into| {
                        self.own(me, out, into);
                        let round = flags.round;
                        for (i, Neighbour { rank, slot }) in self.others(me) {
                            epoch.at(rank)?.put(self.at(round, slot), &out[i])?;
                        }
                        flags.notify(|rank| Ok(epoch.flush(rank)?))?;
                        for (i, _) in self.others(me) {
                            epoch.at(me)?.get(self.at(round, i), &mut into[i])?;
                        }
                        Ok(())
                    })?;
                    epoch.unlock_all()?;
                    Ok(done)
                })?;
                flags.free(team)?;
                window.free()?;
                Ok(done)
            }
            (How::Dart, Sync::Pscw) => Err(Error::usage("--how dart has no epochs: use --sync flags or --sync fence")),
            (How::Dart, _) => {
                let mut flags = self.flags(team)?;
                let reserve = Reserve { collective: bytes + (64 << 10), pool: 4096 };
                let done = GlobalMemory::run(team, reserve, |memory| {
                    let slots = memory.team_memalloc_aligned(bytes)?;
                    let done = body(&mut |out, into| {
                        self.own(me, out, into);
                        let round = flags.round;
                        for (i, Neighbour { rank, slot }) in self.others(me) {
                            memory.put(slots.at_unit(rank).plus(self.at(round, slot).0), &out[i])?;
                        }
                        if sync == Sync::Fence {
                            flags.round += 1;
                            team.barrier()?;
                        } else {
                            flags.notify(|_| Ok(()))?; // a blocking put is complete
                        }
                        for (i, _) in self.others(me) {
                            memory.get(slots.at_unit(me).plus(self.at(round, i).0), &mut into[i])?;
                        }
                        Ok(())
                    })?;
                    memory.team_memfree(slots)?;
                    Ok::<R, Error>(done)
                })?;
                flags.free(team)?;
                Ok(done)
            }
        }
    }

    fn flags<'a, A: RemoteAtomics + ?Sized>(&self, team: &Team<'a, A>) -> Result<Flags<'a, A>> {
        let me = team.rank();
        let words = team.ra().heap().alloc(LINE * self.neighbours.len() as u64, LINE)?;
        Ok(Flags { ra: team.ra(), words, neighbours: self.others(me).collect(), group: self.group(me), round: 0 })
    }
}

/// Words with the number of the latest round whose data are there, a line for each slot.
struct Flags<'a, A: RemoteAtomics + ?Sized> {
    ra: &'a A,
    words: rmalab_atomics::Disp,
    neighbours: Vec<(usize, Neighbour)>,
    group: Vec<Rank>,
    /// Completed rounds.
    round: u64,
}

impl<A: RemoteAtomics + ?Sized> Flags<'_, A> {
    /// Flushes this rank's data and notifies each neighbour, then waits for their notifications.
    fn notify(&mut self, flush: impl Fn(Rank) -> Result<()>) -> Result<()> {
        self.round += 1;
        let word = |slot: usize| self.words.plus(LINE * slot as u64);
        for &rank in &self.group {
            flush(rank)?;
            for (_, neighbour) in self.neighbours.iter().filter(|(_, neighbour)| neighbour.rank == rank) {
                self.ra.put(rank.at(word(neighbour.slot)), self.round)?;
            }
        }
        for &(i, _) in &self.neighbours {
            self.ra.wait_until(word(i), Until::Ge(self.round))?;
        }
        Ok(())
    }

    fn free(self, team: &Team<'_, A>) -> Result<()> {
        Ok(team.free(self.words)?)
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::World;

    use super::*;

    /// Ranks in a ring send numbers to both sides, for some rounds.
    fn ring(ranks: u32, how: How, sync: Sync, strategies: &Strategies) {
        World::threads(ranks)
            .run(|ra| {
                let team = Team::new(ra).unwrap();
                let me = ra.rank().0;
                let [left, right] = [(me + ranks - 1) % ranks, (me + 1) % ranks];
                let neighbours = [(left, 1), (right, 0)];
                let neighbours = neighbours.map(|(rank, slot)| Some(Neighbour { rank: Rank(rank), slot }));
                let plan = Plan { neighbours: neighbours.to_vec(), bytes: 16 };
                let number = |rank: u32, slot: u64, round: u64| vec![u64::from(rank) * 1000 + slot * 100 + round; 2];
                let done = plan.run(&team, (how, sync, strategies), |exchange| {
                    for round in 0..10 {
                        let out = [number(me, 0, round), number(me, 1, round)];
                        let mut into = [vec![0; 2], vec![0; 2]];
                        exchange(&out, &mut into)?;
                        assert_eq!(into, [number(left, 1, round), number(right, 0, round)], "{how:?}, {sync:?}");
                    }
                    Ok(())
                });
                done.unwrap();
            })
            .unwrap();
    }

    #[test]
    fn neighbours_receive_each_others_data() {
        let one_sided = Strategies::default();
        let two_sided = Strategies { transport: Some("two-sided".into()), ..Strategies::default() };
        let agent = Strategies { transport: Some("two-sided-agent".into()), ..Strategies::default() };
        for ranks in [1, 2, 3, 4] {
            for sync in [Sync::Fence, Sync::Pscw, Sync::Flags] {
                ring(ranks, How::Window, sync, &one_sided);
            }
            for sync in [Sync::Fence, Sync::Flags] {
                ring(ranks, How::Dart, sync, &one_sided);
            }
            for sync in [Sync::Fence, Sync::Pscw] {
                ring(ranks, How::Window, sync, &two_sided);
            }
            for sync in [Sync::Fence, Sync::Pscw, Sync::Flags] {
                ring(ranks, How::Window, sync, &agent);
            }
            ring(ranks, How::Messages, Sync::Flags, &one_sided);
        }
    }
}
