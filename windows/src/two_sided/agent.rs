//! The agent: a thread that serves a rank's passive epochs while the rank computes.

use std::cell::RefCell;

use rmalab_atomics::RemoteAtomics;

use super::ends::Station;
use crate::messages::Kind;
use crate::{Error, Result, WindowCore};

/// What serves the requests of passive epochs to one rank, on all windows of a team with the transport
/// [`TwoSidedAgent`](crate::Transport::TwoSidedAgent), from [`WindowCore::agent`](crate::WindowCore::agent).
///
/// The program runs [`serve`](Self::serve) in a thread of its own, which takes a handle of the ranks that threads can share
/// (`A: Sync`). It ends by [`WindowCore::stop_agent`](crate::WindowCore::stop_agent), and may be run again.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics, World};
/// use rmalab_windows::{Config, Op, Team, Transport, Window, WindowDisp};
///
/// let config = Config { transport: Transport::TwoSidedAgent, ..Config::default() };
/// World::threads(2).run(|ra| {
///     let team = Team::new(ra)?;
///     let mut window = Window::builder(&team).config(config).allocate(8)?;
///     let agent = window.agent()?;
///     std::thread::scope(|scope| {
///         let served = scope.spawn(move || agent.serve());
///         let epoch = window.lock_all()?;
///         let other = Rank(1 - ra.rank().0);
///         assert_eq!(epoch.at(other)?.fetch_and_op(WindowDisp(0), Op::Sum, 5_u64)?, 0);
///         epoch.unlock_all()?;
///         // After it no rank asks this rank's agent any more.
///         team.barrier()?;
///         window.stop_agent()?;
///         served.join().expect("the agent does not panic")
///     })?;
///     window.free()
/// })?.into_iter().collect::<Result<(), _>>()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Until a rank makes its agent, it serves these requests itself, in its own calls. Once there is an agent, nothing else
/// serves them: an agent that does not run keeps its rank's origins waiting, and one that was dropped is an error of theirs.
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
    /// Those of the network, such as a peer that has failed; [`Error::Messages`] for a packet that is damaged.
    pub fn serve(&self) -> Result<()> {
        Ok(self.station.borrow_mut().serve_until_stopped(self.ra.whole_world())?)
    }

    /// How many packets of a kind the agent has sent.
    pub fn messages_sent(&self, kind: Kind) -> u64 {
        self.station.borrow().sent(kind)
    }
}

impl<A: RemoteAtomics + ?Sized> Drop for Agent<'_, A> {
    /// Later requests are errors of their origins.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // The others learn of a network that fails from their own calls.
            let _ = self.station.get_mut().leave(self.ra.whole_world());
        }
    }
}

impl<'t, A: RemoteAtomics + ?Sized> WindowCore<'t, A> {
    /// The agent of this rank for all windows of the team that have one, those made later included.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`] when the window's transport has no agent, or when the team's was made already.
    pub fn agent(&self) -> Result<Agent<'t, A>> {
        self.agent_on(self.ra)
    }

    /// As [`agent`](Self::agent), by another handle of the same rank: one that threads can share, such as
    /// [`RemoteAtomics::shared`] gives, where the window's own cannot be shared.
    ///
    /// # Errors
    ///
    /// As [`agent`](Self::agent).
    pub fn agent_on<'s, B: RemoteAtomics + ?Sized>(&self, ra: &'s B) -> Result<Agent<'s, B>> {
        let rank = self.ra.rank();
        let refuse = |why| self.hear(Error::Agent { rank, why });
        let requests = self.two_sided.as_deref().filter(|requests| requests.agent);
        let requests = requests.ok_or_else(|| refuse("the window's transport is not two-sided-agent"))?;
        if ra.whole_world().rank() != requests.ends.world().rank() {
            return Err(refuse("the handle is another rank's; pass one of this rank"));
        }
        let station = requests.ends.hub().agent.take();
        let station = station.ok_or_else(|| refuse("the team's agent was made already; run that one again"))?;
        Ok(Agent { ra, station: RefCell::new(station) })
    }

    /// Ends [`Agent::serve`] of this rank's agent, once it has served what has come before.
    ///
    /// Call it when no other rank will ask the agent any more, such as after a [barrier](crate::Team::barrier) that
    /// follows the last epochs.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`] when the window's transport has no agent, and those of the network.
    pub fn stop_agent(&self) -> Result<()> {
        let requests = self.two_sided.as_deref().filter(|requests| requests.agent);
        let rank = self.ra.rank();
        let why = "the window's transport is not two-sided-agent";
        let requests = requests.ok_or_else(|| self.hear(Error::Agent { rank, why }))?;
        requests.ends.stop(requests.endpoint(rank, true)).map_err(|error| self.hear(error))
    }
}
