//! The agent: a thread that serves a rank's passive epochs while the rank computes.

use std::cell::RefCell;

use rmalab_atomics::RemoteAtomics;

use super::endpoints::Station;
use crate::messages::Kind;
use crate::{Error, Result, WindowCore};

/// Serves the requests of passive epochs to one rank, on all windows of a team with the transport
/// [`TwoSidedAgent`](crate::Transport::TwoSidedAgent); see [`WindowCore::agent`](crate::WindowCore::agent).
///
/// The program runs [`serve`](Self::serve) in a separate thread, which needs a handle of the rank that threads can share
/// (`A: Sync`). [`WindowCore::stop_agent`](crate::WindowCore::stop_agent) ends it, and the program may run it again.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics, World};
/// use rmalab_windows::{Config, Op, Team, Transport, Window, WindowDisp};
///
/// let config = Config { transport: Transport::TwoSidedAgent, ..Config::default() };
/// World::threads(2).try_run(|ra| {
///     let team = Team::new(ra)?;
///     let mut window = Window::builder(&team).config(config).allocate(8)?;
///     let agent = window.agent()?;
///     std::thread::scope(|scope| {
///         let served = scope.spawn(move || agent.serve());
///         let epoch = window.lock_all()?;
///         let other = Rank(1 - ra.rank().0);
///         assert_eq!(epoch.at(other)?.fetch_and_op(WindowDisp(0), Op::Sum, 5_u64)?, 0);
///         epoch.unlock_all()?;
///         // No rank sends requests to the agent after the barrier.
///         team.barrier()?;
///         window.stop_agent()?;
///         served.join().expect("the agent does not panic")
///     })?;
///     window.free()
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Until a rank makes its agent, it serves these requests itself, in its own calls. Once there is an agent, nothing
/// else serves them. While the agent does not run, the origins wait. After it was dropped, they get an error.
#[derive(Debug)]
#[must_use = "only its `serve` answers the requests of passive epochs from here on"]
pub struct Agent<'t, A: RemoteAtomics + ?Sized> {
    ra: &'t A,
    station: RefCell<Station>,
}

impl<A: RemoteAtomics + ?Sized> Agent<'_, A> {
    /// Serves until [`WindowCore::stop_agent`](crate::WindowCore::stop_agent) is called.
    ///
    /// # Errors
    ///
    /// The errors of the network, such as a peer that has failed. [`Error::Messages`] for a damaged packet.
    pub fn serve(&self) -> Result<()> {
        Ok(self.station.borrow_mut().serve_until_stopped(self.ra.whole_world())?)
    }

    /// Returns the number of packets of a kind that the agent has sent.
    pub fn messages_sent(&self, kind: Kind) -> u64 {
        self.station.borrow().sent(kind)
    }
}

impl<A: RemoteAtomics + ?Sized> Drop for Agent<'_, A> {
    /// From here on the origins of requests get an error.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // The other ranks' own calls report a failing network.
            let _ = self.station.get_mut().leave(self.ra.whole_world());
        }
    }
}

impl<'t, A: RemoteAtomics + ?Sized> WindowCore<'t, A> {
    /// Makes the agent of this rank for all windows of the team that use agents, including those made later.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`] when the window's transport has no agent, or when the team's agent already exists.
    pub fn agent(&self) -> Result<Agent<'t, A>> {
        self.agent_on(self.ra)
    }

    /// Like [`agent`](Self::agent), with another handle of the same rank that threads can share.
    /// [`RemoteAtomics::shared`] returns such a handle where the window's own handle cannot be shared.
    ///
    /// # Errors
    ///
    /// The errors of [`agent`](Self::agent).
    pub fn agent_on<'s, B: RemoteAtomics + ?Sized>(&self, ra: &'s B) -> Result<Agent<'s, B>> {
        let rank = self.ra.rank();
        let refuse = |why| self.hear(Error::Agent { rank, why });
        let requests = self.two_sided.as_deref().filter(|requests| requests.agent);
        let requests = requests.ok_or_else(|| refuse("the window's transport is not two-sided-agent"))?;
        if ra.whole_world().rank() != requests.endpoints.world().rank() {
            return Err(refuse("the handle belongs to another rank; pass a handle of this rank"));
        }
        let station = requests.endpoints.hub().agent.take();
        let station = station.ok_or_else(|| refuse("the team's agent was made already; run the existing one again"))?;
        Ok(Agent { ra, station: RefCell::new(station) })
    }

    /// Ends [`Agent::serve`] of this rank's agent, once it has served the requests that arrived before.
    ///
    /// Call it when no other rank will send further requests to the agent, such as after a
    /// [barrier](crate::Team::barrier) that follows the last epochs.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`] when the window's transport has no agent, and the errors of the network.
    pub fn stop_agent(&self) -> Result<()> {
        let requests = self.two_sided.as_deref().filter(|requests| requests.agent);
        let rank = self.ra.rank();
        let why = "the window's transport is not two-sided-agent";
        let requests = requests.ok_or_else(|| self.hear(Error::Agent { rank, why }))?;
        requests.endpoints.stop(requests.endpoint(rank, true)).map_err(|error| self.hear(error))
    }
}
