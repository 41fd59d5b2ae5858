//! A team's end-points, which all its two-sided windows share.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rmalab_atomics::{Rank, RemoteAtomics, Served, SymmetricHeap};
use rmalab_locks::LockKind;

use super::progress::Serves;
use super::serve::{self, Server};
use super::{ACK, AGENT, ANSWER, GRANT, PORTS, POST, REFUSED, SUM, progress};
use crate::messages::{self, Endpoint, Error as MessagesError, Kind, Packet};
use crate::{Error, Result};

/// The largest number of packets that one look at a ring reads.
const BATCH: u32 = 16;

/// The first sleep of a rank with several rings at one of them.
const SHORTEST: Duration = Duration::from_micros(2);

/// The longest sleep. After a sleep without an arrival, the next is twice as long, up to this.
const LONGEST: Duration = Duration::from_millis(2);

/// An end-point, and the windows that it serves. It borrows no handle, since each call takes the rank's handle of the
/// world.
#[derive(Debug)]
pub(super) struct Station {
    messages: messages::EndpointState,
    pub(super) server: Server,
}

impl Station {
    pub(super) fn sent(&self, kind: Kind) -> u64 {
        self.messages.sent(kind)
    }

    /// Returns the next packet of the windows, if one has arrived.
    fn take(&mut self, world: &dyn RemoteAtomics) -> messages::Result<Option<Packet>> {
        self.messages.progress(world, BATCH)?;
        Ok(self.messages.take())
    }

    fn request(&mut self, world: &dyn RemoteAtomics, packet: Packet) -> messages::Result<()> {
        self.server.request(world, &mut self.messages, packet)
    }

    /// Serves requests as an agent does, until it is stopped.
    pub(super) fn serve_until_stopped(&mut self, world: &dyn RemoteAtomics) -> messages::Result<()> {
        loop {
            if let Some(packet) = self.take(world)? {
                self.request(world, packet)?;
            } else if self.messages.take_stop() {
                return self.finish_sends(world);
            } else {
                self.messages.sleep(world, None)?;
            }
        }
    }

    fn finish_sends(&mut self, world: &dyn RemoteAtomics) -> messages::Result<()> {
        while !self.messages.all_sent() {
            self.messages.sleep(world, None)?;
            self.messages.progress(world, BATCH)?;
        }
        Ok(())
    }

    /// Serves the requests that have arrived, refuses those that wait for other ranks, and leaves. The origins of later
    /// requests get an error.
    pub(super) fn leave(&mut self, world: &dyn RemoteAtomics) -> messages::Result<()> {
        loop {
            match self.take(world) {
                // Answers need no answer.
                Ok(Some(Packet { kind: GRANT | ACK | ANSWER | REFUSED | POST | SUM, .. })) => continue,
                Ok(Some(packet)) => {
                    self.request(world, packet)?;
                    continue;
                }
                Err(MessagesError::Damaged { .. }) => continue,
                Err(error) => return Err(error),
                Ok(None) => {}
            }
            if self.messages.leave(world)? {
                break;
            }
        }
        self.server.refuse_waiting(world, &mut self.messages)?;
        self.finish_sends(world)
    }
}

/// Packets that have arrived and that no call has taken yet.
#[derive(Debug, Default)]
pub(crate) struct PendingPackets {
    /// Answers, by their tickets; `None` before they have arrived.
    pub(super) answers: HashMap<u32, Option<Result<Vec<u8>>>>,
    /// Errors of requests that no call waits for, with their windows.
    pub(super) refused: Vec<(u32, Error)>,
    /// Posts, by window and the target's number in the world.
    pub(super) posts: HashMap<(u32, Rank), u32>,
    /// Parts of sums, by step.
    pub(super) sums: HashMap<u32, Vec<u64>>,
    /// The number of sums and barriers so far, 64 steps each.
    pub(super) steps: u32,
    /// Locks and posts of this rank's epochs that it has not waited for yet, in the order of the calls.
    pub(super) wanted: Vec<PendingAcquire>,
    next_ticket: u32,
    pub(super) next_window: u32,
    /// The error of a packet that could not be decoded, for the next call on a window.
    damaged: Option<Error>,
}

/// A lock or post for which an epoch has to wait before its operations reach the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingAcquire {
    pub(super) window: u32,
    pub(super) target: Rank,
    /// The end-point that serves it.
    pub(super) at: Endpoint,
    /// The lock to acquire; `None` for a post.
    pub(super) lock: Option<LockKind>,
    /// The number of fences of the window that this rank has left.
    pub(super) fences: u32,
}

impl PendingPackets {
    /// Returns the number of the next request's answer; 0 is never used.
    pub(super) fn ticket(&mut self) -> u32 {
        self.next_ticket = self.next_ticket.wrapping_add(1).max(1);
        self.answers.insert(self.next_ticket, None);
        self.next_ticket
    }

    /// Returns the answer to a request, once it has arrived.
    pub(super) fn take_answer(&mut self, ticket: u32) -> Option<Result<Vec<u8>>> {
        self.answers.get(&ticket)?.as_ref()?;
        self.answers.remove(&ticket)?
    }

    /// Returns the first error of a window's requests that no call waited for, and drops the others.
    pub(super) fn take_refused(&mut self, window: u32) -> Result<()> {
        let mut first = Ok(());
        for (of, error) in std::mem::take(&mut self.refused) {
            if of != window {
                self.refused.push((of, error));
            } else if first.is_ok() {
                first = Err(error);
            }
        }
        first
    }
}

/// One rank's part of a team's two-sided windows. It borrows nothing, so that waits in calls on other teams find it.
#[derive(Debug)]
pub(crate) struct Hub {
    key: usize,
    pub(super) main: RefCell<Station>,
    /// The agent's end-point, which this rank itself serves until the agent is made.
    pub(super) agent: RefCell<Option<Station>>,
    /// True if there is, or was, a window with an agent.
    pub(super) uses_agent: Cell<bool>,
    pub(super) state: RefCell<PendingPackets>,
    /// The ranks' numbers in the world; empty where the team has the same numbers.
    ranks: Arc<[Rank]>,
}

impl Hub {
    /// Returns the team's number of a rank of the world.
    fn team_rank(&self, world: Rank) -> Rank {
        let found = self.ranks.iter().position(|&rank| rank == world);
        found.map_or(world, |rank| Rank(rank as u32))
    }

    /// Returns whether this rank serves its agent's requests.
    pub(super) fn serves_for_agent(&self) -> bool {
        self.uses_agent.get() && self.agent.borrow().is_some()
    }

    /// Keeps an error that does not come from the network. It belongs to this team, not to the call that noticed it.
    fn keep(&self, done: messages::Result<bool>) -> rmalab_atomics::Result<bool> {
        match done {
            Ok(found) => Ok(found),
            Err(MessagesError::Atomics(error)) => Err(error),
            Err(error) => {
                self.state.borrow_mut().damaged.get_or_insert(error.into());
                Ok(true)
            }
        }
    }

    fn handle(&self, world: &dyn RemoteAtomics, main: &mut Station, packet: Packet) -> messages::Result<()> {
        let Packet { from, kind, word, .. } = packet;
        // A sum has its step instead of a window.
        let (window, number) = (word as u32, (word >> 32) as u32);
        let at = main.messages.me();
        let damaged = |what: String| {
            let what = format!("kind {} from {from}: {what}", kind.0).into();
            Err(MessagesError::Damaged { at, what })
        };
        let state = &mut *self.state.borrow_mut();
        match kind {
            GRANT | ACK | ANSWER | REFUSED => {
                let answer = if kind == REFUSED {
                    Err(serve::refusal(self.team_rank(from.rank), &packet.data))
                } else {
                    Ok(packet.data)
                };
                match (state.answers.get_mut(&number), answer) {
                    (Some(place @ None), answer) => *place = Some(answer),
                    (_, Err(error)) if number == 0 => state.refused.push((window, error)),
                    _ => return damaged(format!("an answer to request {number}, which waits for none")),
                }
            }
            POST => {
                let posts = state.posts.entry((window, from.rank)).or_default();
                *posts = posts.saturating_add(1);
            }
            SUM => {
                let (words, rest) = packet.data.as_chunks();
                if !rest.is_empty() {
                    return damaged(format!("{} bytes are not whole words", packet.data.len()));
                }
                state.sums.insert(window, words.iter().map(|&word| u64::from_ne_bytes(word)).collect());
            }
            _ => main.request(world, packet)?,
        }
        Ok(())
    }

    /// Returns the error of the first damaged packet since the last call.
    fn check(&self) -> Result<()> {
        self.state.borrow_mut().damaged.take().map_or(Ok(()), Err)
    }
}

impl Serves for Hub {
    /// Serves up to one packet of each end-point. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// The errors of the network. The error of a damaged packet is kept for the next call on a window.
    fn serve(&self, world: &dyn RemoteAtomics) -> rmalab_atomics::Result<bool> {
        let mut found = false;
        if self.uses_agent.get()
            && let Some(agent) = &mut *self.agent.borrow_mut()
        {
            let done = agent.take(world).and_then(|packet| match packet {
                Some(packet) => agent.request(world, packet).map(|()| true),
                None => Ok(false),
            });
            found |= self.keep(done)?;
        }
        let main = &mut *self.main.borrow_mut();
        let done = main.take(world).and_then(|packet| match packet {
            Some(packet) => self.handle(world, main, packet).map(|()| true),
            None => Ok(false),
        });
        found |= self.keep(done)?;
        Ok(found)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        progress::forget(self.key);
    }
}

/// The end-points of a team, which are made with its first two-sided window.
///
/// The type of the team's handle is erased, so that windows and teams stay covariant in their lifetimes. Packets go
/// between ranks of the world, by its handle and with its numbers.
pub(crate) struct Endpoints<'a> {
    world: &'a dyn RemoteAtomics,
    heap: &'a SymmetricHeap,
    rank: Rank,
    size: u32,
    world_rank: Box<dyn Fn(Rank) -> Rank + 'a>,
    hub: OnceCell<Rc<Hub>>,
}

impl<'a> Endpoints<'a> {
    pub(crate) fn new<A: RemoteAtomics + ?Sized>(ra: &'a A) -> Self {
        Endpoints {
            world: ra.whole_world(),
            heap: ra.heap(),
            rank: ra.rank(),
            size: ra.size(),
            world_rank: Box::new(|rank| ra.world_rank(rank)),
            hub: OnceCell::new(),
        }
    }

    pub(super) fn world(&self) -> &'a dyn RemoteAtomics {
        self.world
    }

    /// Returns this rank's number in the team.
    pub(super) fn rank(&self) -> Rank {
        self.rank
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Returns whether the end-points exist.
    pub(crate) fn is_open(&self) -> bool {
        self.hub.get().is_some()
    }

    pub(super) fn hub(&self) -> &Hub {
        self.hub.get().expect("a two-sided window opens it first")
    }

    /// Returns the number in the world of the team's rank `rank`.
    pub(super) fn in_world(&self, rank: Rank) -> Rank {
        self.hub().ranks.get(rank.index()).copied().unwrap_or(rank)
    }

    /// Makes the end-points, unless they exist. Collective.
    pub(super) fn open(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        let ranks: Vec<Rank> = (0..self.size).map(|rank| (self.world_rank)(Rank(rank))).collect();
        let same = (0..).zip(&ranks).all(|(number, rank)| number == rank.0);
        let ranks: Arc<[Rank]> = if same { Arc::default() } else { ranks.into() };
        let mut ports = messages::EndpointState::set(self.heap, self.world.rank(), PORTS)?;
        let station = |messages, agent| Station { messages, server: Server::new(agent, Arc::clone(&ranks)) };
        let agent = RefCell::new(Some(station(ports.swap_remove(usize::from(AGENT)), true)));
        let main = RefCell::new(station(ports.swap_remove(0), false));
        let key = progress::key(self.world);
        let hub = Rc::new(Hub { key, main, agent, uses_agent: Cell::new(false), state: RefCell::default(), ranks });
        progress::register(key, &hub);
        self.hub.get_or_init(|| hub);
        Ok(())
    }

    pub(super) fn send(&self, to: Endpoint, kind: Kind, word: u64, data: Vec<u8>) -> Result<()> {
        let messages = &mut self.hub().main.borrow_mut().messages;
        Ok(messages.send(self.world, to, kind, word, data)?)
    }

    /// Serves requests on a window that arrived too early.
    pub(super) fn replay(&self, window: u32) -> Result<()> {
        let Station { messages, server } = &mut *self.hub().main.borrow_mut();
        Ok(server.replay(self.world, messages, window)?)
    }

    /// Serves the requests to this rank's windows of all teams until `ready` returns a value.
    pub(super) fn wait<T>(&self, mut ready: impl FnMut(&Hub) -> Option<T>) -> Result<T> {
        let hub = self.hub();
        let mut step = SHORTEST;
        loop {
            if let Some(found) = ready(hub) {
                return Ok(found);
            }
            hub.check()?;
            let alone = !hub.serves_for_agent() && progress::is_only(self.world);
            let found = if alone { hub.serve(self.world)? } else { progress::serve(self.world)? == Served::Something };
            if found {
                step = SHORTEST;
                continue;
            }
            // If no packet has arrived, a waiting packet may have found room.
            if let Some(found) = ready(hub) {
                return Ok(found);
            }
            // Only one ring can wake this rank, so it polls several rings.
            let at_most = (!alone).then_some(step);
            hub.main.borrow_mut().messages.sleep(self.world, at_most)?;
            step = (2 * step).min(LONGEST);
        }
    }

    /// Serves the requests to this rank's windows of all teams, without waiting.
    pub(crate) fn progress(&self) -> Result<()> {
        while progress::serve(self.world)? == Served::Something {}
        self.hub.get().map_or(Ok(()), |hub| hub.check())
    }

    /// Waits until every packet is in its target's ring.
    pub(super) fn finish_sends(&self) -> Result<()> {
        self.wait(|hub| hub.main.borrow().messages.all_sent().then_some(()))
    }

    pub(super) fn stop(&self, agent: Endpoint) -> Result<()> {
        self.hub().main.borrow_mut().messages.stop(self.world, agent)?;
        self.finish_sends()
    }

    pub(super) fn sent(&self, kind: Kind) -> u64 {
        self.hub.get().map_or(0, |hub| hub.main.borrow().sent(kind))
    }
}

impl Drop for Endpoints<'_> {
    /// Ends this rank's service. The origins of later requests get an error.
    fn drop(&mut self) {
        // In a panic the other ranks get the failure.
        let Some(hub) = self.hub.get().filter(|_| !std::thread::panicking()) else { return };
        // The other ranks' own calls report a failing network.
        let _ = hub.main.borrow_mut().leave(self.world);
        if hub.uses_agent.get()
            && let Some(agent) = &mut *hub.agent.borrow_mut()
        {
            let _ = agent.leave(self.world);
        }
    }
}

impl fmt::Debug for Endpoints<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints").field("hub", &self.hub).finish_non_exhaustive()
    }
}
