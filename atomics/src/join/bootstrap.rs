//! How ranks that are processes on one host or many find each other, agree, and learn of a death.
//!
//! Launchers differ in little that matters here: each tells a process its rank and the number of ranks, and carries a few
//! bytes from rank 0 to the others. That is the trait [`Bootstrap`]. Everything else is the same under all of them: every
//! rank connects to one *hub* over TCP, which the launcher of this crate hosts itself, and rank 0 under the others. Through
//! it the ranks exchange keys ([`Membership::allgather`]), wait for each other, send each other the requests that connect
//! queue pairs ([`Membership::request`]), and hear of a rank that has died: its connection ends without a farewell.
//!
//! ```text
//! rank 0 ── hub ── rank 1        one connection a rank, kept as long as the rank lives
//!            │ ╲
//!         rank 2  rank 3
//! ```
//!
//! A star, since a rank keeps O(1) memory and descriptors and whoever fails is known to all after one hop; the hub keeps
//! one connection a rank. It carries what is rare: a few messages for each pair of ranks that talk at all.
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
//! Both ends of a connection prove that they know the job's secret, by HMAC-SHA-256 over the nonces of both, before
//! anything else is believed; the secret itself never travels over the connection. What follows is not encrypted: the
//! keys of registered memory are as good as the memory to whoever can read the network, as they are in RDMA itself.
//! The hub listens on one address, and on no other: that of the interface that is named (`RMALAB_INTERFACE`), or the
//! loopback interface where all ranks are on one host.
//!
//! Any process that reaches this address can connect. A rank proves with its first message that it knows the secret, and
//! connections that have not done so share 64 places, for two seconds each: a further one takes the place of the oldest.
//! A rank whose connection was closed that way connects again, as long as it waits for the job to start. So a crowd of
//! connections slows the start down, and does not stop it; the hub reports it on standard error.
//!
//! # How a death is noticed
//!
//! The kernel closes the connection of a process that has ended, however it has ended. A host that is gone closes
//! nothing: the connections are probed every second (TCP keep-alive), and given up after four.

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
pub use member::{Answer, Membership};
pub use secret::Secret;

use crate::{Error, Rank, Result};

/// Opens the hub, in the one process that is asked to.
pub type Opener<'a> = &'a mut dyn FnMut() -> Result<Invitation>;

/// What a launcher gives to the processes that it has started.
pub trait Bootstrap: fmt::Debug + Send {
    /// The launcher's protocol: `rmalab`, `pmi-1`, `pmix`.
    fn name(&self) -> &'static str;

    /// Which rank this process is.
    fn rank(&self) -> Rank;

    /// How many ranks there are.
    fn size(&self) -> u32;

    /// Whether all of them are on this host, if the launcher tells.
    fn one_host(&self) -> Option<bool>;

    /// Where the ranks meet; all of them call this once.
    ///
    /// Under a launcher that does not host the meeting itself rank 0 calls `open`, and its invitation reaches the others.
    ///
    /// # Errors
    ///
    /// That of `open`, and [`Error::World`] when the launcher does not answer or says what cannot be.
    fn invitation(&mut self, open: Opener<'_>) -> Result<Invitation>;
}

/// Reads what rank 0 has handed round.
fn from_rank_0(text: &str) -> Result<Invitation> {
    if text.is_empty() {
        return Err(Error::world("rank 0 has not told where the ranks meet; it says why"));
    }
    Ok(Invitation { host: Some(Rank(0)), ..text.parse()? })
}

/// Where the ranks of a job meet, and what proves that one belongs to it.
///
/// As text (`127.0.0.1:4242/` and the secret in hexadecimal) it passes through launchers; [`fmt::Debug`] leaves the secret out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// Where the hub listens.
    pub hub: SocketAddr,
    /// What both sides have to know.
    pub secret: Secret,
    /// The rank whose process has the hub; none if that is the launcher. Not part of the text.
    pub host: Option<Rank>,
}

impl Invitation {
    /// The text that [`FromStr`] reads. It has the secret in it.
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
