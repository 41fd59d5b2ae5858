//! The protocol by which ranks that are processes on one or many hosts find each other, agree, and learn of a death.
//!
//! Every launcher gives a process its rank and the number of ranks, and carries a few bytes from rank 0 to the others. The
//! trait [`Bootstrap`] describes that. Everything else is the same under all launchers: every rank connects to one *hub*
//! over TCP. The launcher of this crate hosts the hub itself; under other launchers rank 0 does. Through the hub the ranks
//! exchange keys ([`Membership::allgather`]), wait for each other, and send each other the requests that connect queue
//! pairs ([`Membership::request`]). They also learn of a rank that has died: its connection ends without a farewell.
//!
//! ```text
//! rank 0 ── hub ── rank 1        one connection a rank, kept as long as the rank lives
//!            │ ╲
//!         rank 2  rank 3
//! ```
//!
//! The topology is a star: a rank keeps O(1) memory and descriptors, and all ranks know of a failure after one hop. The
//! hub keeps one connection for each rank. Its messages are rare: a few for each pair of ranks that communicate at all.
//!
//! # Under which launchers
//!
//! [`Membership::by_environment`] finds out by the variables that each of them sets:
//!
//! | launcher | protocol | hub |
//! | --- | --- | --- |
//! | `rmalab launch`, [`Launcher`](crate::Launcher) | the invitation is in the environment | the launcher's |
//! | MPICH's `mpiexec`, `srun --mpi=pmi2` | PMI-1 | rank 0's |
//! | Open MPI's `mpirun`, `prterun`, `srun --mpi=pmix` | PMIx, through the system's `libpmix` | rank 0's |
//!
//! # Who may take part
//!
//! Before both ends of a connection accept anything else, they prove that they know the job's secret, by HMAC-SHA-256
//! over the nonces of both. The secret itself never travels over the connection. Later data are not encrypted: an
//! attacker who can read the network gets the keys of registered memory, as in RDMA itself. The hub listens on one
//! address only: the address of the named interface (`RMALAB_INTERFACE`), or the loopback interface where all ranks are
//! on one host.
//!
//! Any process that reaches this address can connect. A rank proves with its first message that it knows the secret.
//! Connections that have not done so share 64 places, for two seconds each. A further connection takes the place of the
//! oldest. A rank whose connection was closed that way connects again, as long as it waits for the job to start. So a
//! crowd of connections slows the start down, but does not stop it. The hub reports it on standard error.
//!
//! # How a death is noticed
//!
//! The kernel closes the connection of a process that has ended, however it has ended. A host that is gone closes
//! nothing: the connections are probed every second (TCP keep-alive), and given up after four.
//!
//! The hub reports each failure to all ranks, in one order. Each rank ends what the failed rank may still have under way
//! there ([`Serve::retire`]), and reports that to the hub. When all live ranks have, the hub reports the failed rank as
//! silent ([`Membership::await_silence`]). A rank that fails meanwhile is not waited for. So ranks that go on need the hub:
//! the failure of the process that hosts it ends the job.

mod environment;
mod hub;
mod interface;
mod member;
mod pmi1;
mod pmix;
mod secret;
mod wire;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

pub use environment::by_environment;
pub use hub::{Hub, Presence};
pub use interface::address_of;
pub use member::{Answer, Membership, Serve};
pub use secret::Secret;

use crate::{Error, Rank, Result};

/// Opens the hub, in the one process that hosts it.
pub type Opener<'a> = &'a mut dyn FnMut() -> Result<Invitation>;

/// The data that a launcher gives to the processes that it has started.
pub trait Bootstrap: fmt::Debug + Send {
    /// The launcher's protocol: `rmalab`, `pmi-1`, `pmix`.
    fn name(&self) -> &'static str;

    /// Returns the rank of this process.
    fn rank(&self) -> Rank;

    /// Returns the number of ranks.
    fn size(&self) -> u32;

    /// Returns whether all ranks are on this host, if the launcher reports it.
    fn one_host(&self) -> Option<bool>;

    /// Returns the meeting point of the ranks. All ranks call this once.
    ///
    /// If the launcher does not host the meeting itself, rank 0 calls `open`, and its invitation reaches the others.
    ///
    /// # Errors
    ///
    /// The error of `open`, and [`Error::World`] when the launcher does not answer or sends an impossible answer.
    fn invitation(&mut self, open: Opener<'_>) -> Result<Invitation>;
}

/// Reads the text that rank 0 has distributed.
fn from_rank_0(text: &str) -> Result<Invitation> {
    if text.is_empty() {
        return Err(Error::world("rank 0 has not sent the address where the ranks meet; its message says why"));
    }
    Ok(Invitation { host: Some(Rank(0)), ..text.parse()? })
}

/// The address where the ranks of a job meet, and the secret that proves membership.
///
/// Launchers carry it as text (`127.0.0.1:4242/` and the secret in hexadecimal). [`fmt::Debug`] leaves the secret out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// The address of the hub.
    pub hub: SocketAddr,
    /// The secret that both sides have to know.
    pub secret: Secret,
    /// The rank whose process has the hub; none if that is the launcher. Not part of the text.
    pub host: Option<Rank>,
}

impl Invitation {
    /// Returns the text that [`FromStr`] reads. It contains the secret.
    pub fn to_text(&self) -> String {
        format!("{}/{}", self.hub, self.secret.to_hex())
    }
}

impl FromStr for Invitation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Invitation> {
        let parts = text.split_once('/').and_then(|(hub, secret)| Some((hub.parse().ok()?, Secret::from_hex(secret)?)));
        let Some((hub, secret)) = parts else {
            return Err(Error::world("the launcher has passed on an invitation that is not ADDRESS:PORT/SECRET"));
        };
        Ok(Invitation { hub, secret, host: None })
    }
}

#[cfg(test)]
mod tests;
