//! The connections to peers, which are made with the first operation, and dropped when their peer has failed.

use std::sync::atomic::{Ordering, fence};

use rustc_hash::FxHashMap;

use super::connection::{Broken, Connection, Posted};
use super::waiting::{Awaited, SpinWait};
use super::{Verbs, message};
use crate::{Error, Rank, Result};

impl Verbs {
    /// Runs `body` on the connection to `rank`, and makes the connection if necessary. If `body` fails, the connection
    /// is dropped.
    #[inline]
    pub(super) fn with<T>(&self, rank: Rank, body: impl FnOnce(&mut Connection) -> Result<T, Broken>) -> Result<T> {
        {
            let mut peers = self.peers.borrow_mut();
            if let Some(connection) = peers.get_mut(&rank.0) {
                return match body(connection) {
                    Ok(value) => Ok(value),
                    Err(broken) => {
                        self.drop_connection(&mut peers, rank);
                        drop(peers);
                        self.deaths.give_up(rank);
                        Err(self.explain(rank, broken))
                    }
                };
            }
        }
        self.connect(rank)?;
        self.with(rank, body)
    }

    /// Like [`with`](Self::with), after waiting for room for a request.
    #[inline]
    pub(super) fn with_room<T>(
        &self,
        rank: Rank,
        body: impl FnOnce(&mut Connection) -> Result<T, Broken>,
    ) -> Result<T> {
        self.with(rank, |connection| {
            let mut spin_wait = SpinWait::default();
            while connection.is_full() {
                if !connection.poll()? {
                    spin_wait.turn(self, Awaited::Rank(rank))?;
                }
            }
            body(connection)
        })
    }

    pub(super) fn drop_connection(&self, peers: &mut FxHashMap<u32, Connection>, rank: Rank) {
        let Some(connection) = peers.remove(&rank.0) else { return };
        let (past, count) = (self.past.get(), connection.count());
        self.past.set(Posted { requests: past.requests + count.requests, signalled: past.signalled + count.signalled });
    }

    /// Connects to `rank`. The thread of that rank's bootstrap makes the other end.
    #[cold]
    pub(super) fn connect(&self, rank: Rank) -> Result<()> {
        self.check_rank(rank)?;
        let mut connection = Connection::new(&self.device, self.local_port, rank, self.completions)?;
        let answer = self.membership().request(rank, &message::request(&connection.endpoint()))?;
        let (peer, memory) = message::read_answer(&answer)
            .ok_or_else(|| Error::world(format!("verbs: this version does not know the answer of {rank}")))?;
        connection.connect(&peer, memory)?;
        self.peers.borrow_mut().insert(rank.0, connection);
        Ok(())
    }

    /// Runs `body` on the connection to `rank`, if there is one. Without a connection all operations are complete or
    /// given up.
    pub(super) fn with_there(
        &self,
        rank: u32,
        body: impl FnOnce(&mut Connection) -> Result<bool, Broken>,
    ) -> Result<bool> {
        if self.peers.borrow().contains_key(&rank) {
            return self.with(Rank(rank), body);
        }
        self.check_rank(Rank(rank)).map(|()| true)
    }

    /// Posts the request that a flush waits for.
    fn start_flush(&self, rank: u32) -> Result<()> {
        self.with_there(rank, |connection| {
            connection.poll()?;
            let mut spin_wait = SpinWait::default();
            while connection.flush_posts() && connection.is_full() {
                if !connection.poll()? {
                    spin_wait.turn(self, Awaited::Rank(Rank(rank)))?;
                }
            }
            connection.flush()?;
            Ok(true)
        })?;
        Ok(())
    }

    pub(super) fn flush_there(&self, rank: u32) -> Result<()> {
        if !self.peers.borrow().contains_key(&rank) {
            // Operations of a connection that is gone were given up.
            return self.check_rank(Rank(rank));
        }
        let mut idle = false;
        while !idle {
            self.start_flush(rank)?;
            idle = self.with_there(rank, |connection| {
                let last = connection.last();
                self.await_request(connection, last)?;
                // A swap may have to be posted again.
                Ok(connection.is_idle())
            })?;
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    /// Like [`flush_there`](Self::flush_there), for all peers at the same time.
    pub(super) fn flush_everywhere(&self) -> Result<()> {
        let peers: Vec<u32> = self.peers.borrow().keys().copied().collect();
        // Operations of a broken connection are lost, even if the caller ignored that error.
        let mut result = self.fault.borrow().as_ref().map_or(Ok(()), |fault| Err(fault.error()));
        // All requests are posted before the first wait, so that all targets work at the same time.
        for &peer in &peers {
            result = result.and(self.start_flush(peer));
        }
        for &peer in &peers {
            // The operations on a rank that has failed are given up by this, and the others are completed.
            let flushed = if self.fault.borrow().is_none() { self.flush_there(peer) } else { Ok(()) };
            result = result.and(flushed);
        }
        if self.fault.borrow().is_some() {
            // All operations under way are given up.
            let mut peers = self.peers.borrow_mut();
            let ranks: Vec<u32> = peers.keys().copied().collect();
            ranks.into_iter().for_each(|rank| self.drop_connection(&mut peers, Rank(rank)));
        }
        result.and_then(|()| if self.deaths.has_given_up() { self.check() } else { Ok(()) })
    }
}
