//! The properties of a backend whose ranks are processes, for the launcher.

use crate::{RemoteAtomics, Result, Topology};

/// A backend whose ranks are processes that a launcher has started.
pub trait Joined: RemoteAtomics + Sized {
    /// True if the ranks meet through a [`Hub`](crate::join::bootstrap::Hub), which their launcher opens for them.
    const MEETS: bool;

    /// The way to start the ranks if [`Processes::run`](crate::Processes::run) cannot start them, for its error.
    const STARTED_BY: Option<&'static str> = None;

    /// Joins the world of this process. A process can call it once.
    ///
    /// # Errors
    ///
    /// [`Error::World`](crate::Error::World) when no launcher has started it, or when the world cannot be as requested.
    fn join(wishes: Wishes) -> Result<Self>;

    /// Leaves the world as failed: the waits of all other ranks return [`Error::PeerFailed`](crate::Error::PeerFailed) with this
    /// rank.
    fn fail(self);
}

/// A rank's options for the world that it joins. The launcher or the backend decides the options that are not set.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct Wishes {
    /// The smallest number of bytes of every segment.
    pub segment_bytes: Option<u64>,
    /// The placement of the ranks.
    pub topology: Option<Topology>,
}
