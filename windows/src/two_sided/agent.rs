//! The agent: whoever serves a rank's passive targets while the rank computes.

use std::cell::RefCell;

use rmalab_atomics::RemoteAtomics;
use rmalab_locks::WindowLock;

use super::AGENT;
use super::serve::Server;
use crate::messages::{Kind, Messages};
use crate::{Error, Result, Window};

/// What serves the requests of passive epochs to one rank, on all windows of a team with the transport
/// [`TwoSidedAgent`](crate::Transport::TwoSidedAgent), from [`Window::agent`].
///
/// The program runs [`serve`](Self::serve) in a thread of its own, which takes a handle of the ranks that threads can share
/// (`A: Sync`). It ends by [`Window::stop_agent`], and may be run again.
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
///         // Behind it nobody asks this rank's agent any more.
///         team.barrier()?;
///         window.stop_agent()?;
///         served.join().expect("the agent does not panic")
///     })?;
///     window.free()
/// })?.into_iter().collect::<Result<(), _>>()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Agent<'t, A: RemoteAtomics + ?Sized> {
    ra: &'t A,
    messages: Messages<'t, A>,
    server: RefCell<Server>,
}

impl<A: RemoteAtomics + ?Sized> Agent<'_, A> {
    /// Serves until [`Window::stop_agent`] is called.
    ///
    /// # Errors
    ///
    /// Those of the network, as a peer that has failed.
    pub fn serve(&self) -> Result<()> {
        self.messages.serve_until_stopped(|ends, packet| self.server.borrow_mut().request(self.ra, ends, packet))
    }

    /// How many packets of a kind the agent has sent.
    pub fn messages_sent(&self, kind: Kind) -> u64 {
        self.messages.sent(kind)
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'t, A, W> {
    /// The agent of this rank for all windows of the team that have one, those made later included.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`] when the window's transport has no agent, or when the team's was made already.
    pub fn agent(&self) -> Result<Agent<'t, A>> {
        self.agent_on(self.core.ra)
    }

    /// As [`agent`](Self::agent), by another handle of the same rank: one that threads can share, such as
    /// [`RemoteAtomics::shared`] gives, where the window's own may not be one.
    ///
    /// # Errors
    ///
    /// As [`agent`](Self::agent).
    pub fn agent_on<'s, B: RemoteAtomics + ?Sized>(&self, ra: &'s B) -> Result<Agent<'s, B>> {
        let rank = self.core.ra.rank();
        let refuse = |why| Error::Agent { rank, why };
        let requests = self.core.two_sided.as_deref().filter(|requests| requests.agent);
        let requests = requests.ok_or_else(|| refuse("the window's transport is not two-sided-agent"))?;
        let blueprint = requests.ends.blueprint().ok_or_else(|| refuse("the team has no end-points"))?;
        if std::mem::replace(&mut requests.ends.state().borrow_mut().agent_made, true) {
            return Err(refuse("the team's agent was made already; run that one again"));
        }
        let messages = Messages::from_blueprint(ra, blueprint, AGENT);
        Ok(Agent { ra, messages, server: RefCell::default() })
    }

    /// Ends [`Agent::serve`] of this rank's agent, once it has served what has come before.
    ///
    /// Only when no other rank will ask it any more: a [barrier](crate::Team::barrier) behind the last epochs tells.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`] when the window's transport has no agent, and those of the network.
    pub fn stop_agent(&self) -> Result<()> {
        let requests = self.core.two_sided.as_deref().filter(|requests| requests.agent);
        let rank = self.core.ra.rank();
        let why = "the window's transport is not two-sided-agent";
        let requests = requests.ok_or(Error::Agent { rank, why })?;
        requests.ends.stop(requests.endpoint(rank, true))
    }
}
