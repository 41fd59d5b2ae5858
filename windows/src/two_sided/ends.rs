//! A team's end-points: what all its two-sided windows share.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::LockKind;

use super::serve::Server;
use super::{ACK, ANSWER, GRANT, PORTS, POST, SUM};
use crate::Result;
use crate::messages::{Blueprint, Endpoint, Kind, Messages, Options, Packet};

/// What has come and nobody has taken yet, and what this rank serves. No part of it borrows the ranks.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(super) server: Server,
    /// Answers, by their tickets.
    pub(super) answers: HashMap<u32, Vec<u8>>,
    /// Posts, by window and target.
    pub(super) posts: HashMap<(u32, Rank), u32>,
    /// Parts of sums, by step.
    pub(super) sums: HashMap<u32, Vec<u64>>,
    /// Sums and barriers so far, 64 steps each.
    pub(super) steps: u32,
    /// Locks and posts of this rank's epochs that it has not waited for yet, in the order of the calls.
    pub(super) wanted: Vec<Wanted>,
    next_ticket: u32,
    pub(super) next_window: u32,
    pub(super) agent_made: bool,
}

/// What an epoch has to wait for before it meets its target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) window: u32,
    /// Who serves it.
    pub(super) target: Endpoint,
    /// The lock that is to be acquired; `None` for a post.
    pub(super) lock: Option<LockKind>,
    /// Fences of the window that this rank has left.
    pub(super) fences: u32,
}

impl State {
    /// What the next request's answer is known by.
    pub(super) fn ticket(&mut self) -> u32 {
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.next_ticket
    }
}

/// The end-points of a team, without its type: so that windows and teams stay covariant in their lifetimes.
pub(crate) trait Ends: fmt::Debug {
    fn rank(&self) -> Rank;
    fn size(&self) -> u32;
    fn state(&self) -> &RefCell<State>;
    /// Whether the end-points are there.
    fn is_open(&self) -> bool;
    /// Makes the end-points, unless they are there; collective.
    fn open(&self) -> Result<()>;
    fn send(&self, to: Endpoint, kind: Kind, word: u64, data: Vec<u8>) -> Result<()>;
    /// Serves one packet; without `wait` returns whether there was one.
    fn serve(&self, wait: bool) -> Result<bool>;
    /// Serves requests on a window that came too early.
    fn replay(&self, window: u32) -> Result<()>;
    /// Waits until everything that was sent is in its target's ring.
    fn finish_sends(&self) -> Result<()>;
    fn stop(&self, agent: Endpoint) -> Result<()>;
    fn sent(&self, kind: Kind) -> u64;
    /// What another end-point of the same set is made from.
    fn blueprint(&self) -> Option<Blueprint>;
}

/// End-points that are made when the first two-sided window is.
pub(crate) struct LazyEnds<'a, A: RemoteAtomics + ?Sized> {
    ra: &'a A,
    messages: OnceCell<Messages<'a, A>>,
    state: RefCell<State>,
}

impl<'a, A: RemoteAtomics + ?Sized> LazyEnds<'a, A> {
    pub(crate) fn new(ra: &'a A) -> Self {
        LazyEnds { ra, messages: OnceCell::new(), state: RefCell::default() }
    }

    fn messages(&self) -> &Messages<'a, A> {
        self.messages.get().expect("a two-sided window opens them first")
    }

    fn handle(&self, packet: Packet) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let Packet { from, kind, word, data } = packet;
        // A sum has its step in the place of a window.
        let (window, number) = (word as u32, (word >> 32) as u32);
        match kind {
            GRANT | ACK | ANSWER => drop(state.answers.insert(number, data)),
            POST => *state.posts.entry((window, from.rank)).or_default() += 1,
            SUM => {
                let words = data.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect();
                state.sums.insert(window, words);
            }
            _ => state.server.request(self.ra, self.messages(), Packet { from, kind, word, data })?,
        }
        Ok(())
    }
}

impl<A: RemoteAtomics + ?Sized> fmt::Debug for LazyEnds<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyEnds").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<A: RemoteAtomics + ?Sized> Ends for LazyEnds<'_, A> {
    fn rank(&self) -> Rank {
        self.ra.rank()
    }

    fn size(&self) -> u32 {
        self.ra.size()
    }

    fn state(&self) -> &RefCell<State> {
        &self.state
    }

    fn is_open(&self) -> bool {
        self.messages.get().is_some()
    }

    fn open(&self) -> Result<()> {
        if !self.is_open() {
            let mut ends = Messages::endpoints(self.ra, PORTS, Options::default())?;
            self.messages.get_or_init(|| ends.swap_remove(0));
        }
        Ok(())
    }

    fn send(&self, to: Endpoint, kind: Kind, word: u64, data: Vec<u8>) -> Result<()> {
        Ok(self.messages().send_packet(to, kind, word, data)?)
    }

    fn serve(&self, wait: bool) -> Result<bool> {
        let messages = self.messages();
        let packet = if wait { Some(messages.wait_packet()?) } else { messages.take_packet()? };
        let found = packet.is_some();
        packet.map_or(Ok(()), |packet| self.handle(packet))?;
        Ok(found)
    }

    fn replay(&self, window: u32) -> Result<()> {
        self.state.borrow_mut().server.replay(self.ra, self.messages(), window)
    }

    fn finish_sends(&self) -> Result<()> {
        Ok(self.messages().finish_sends()?)
    }

    fn stop(&self, agent: Endpoint) -> Result<()> {
        Ok(self.messages().stop(agent)?)
    }

    fn sent(&self, kind: Kind) -> u64 {
        self.messages.get().map_or(0, |messages| messages.sent(kind))
    }

    fn blueprint(&self) -> Option<Blueprint> {
        Some(self.messages.get()?.blueprint())
    }
}
