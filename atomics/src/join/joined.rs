//! The properties of a backend whose ranks are processes, for the launcher.

use crate::{RemoteAtomics, Result, Topology};

/// A backend whose ranks are processes that a launcher has started.
pub trait Joined: RemoteAtomics + Sized {
    /// Whether the ranks meet through a [`Hub`](crate::join::bootstrap::Hub), which their launcher opens for them.
    const MEETS: bool;

    /// How the ranks are started if [`Processes::run`](crate::Processes::run) cannot start them, for its error.
    const STARTED_BY: Option<&'static str> = None;

    /// Joins the world that this process was started in; once in its life.
    ///
    /// # Errors
    ///
    /// [`Error::World`](crate::Error::World) when no launcher has started it, or when the world cannot be as wished for.
    fn join(wishes: Wishes) -> Result<Self>;

    /// Leaves the world as failed: every other rank's waits return [`Error::PeerFailed`](crate::Error::PeerFailed) with this rank.
    fn fail(self);
}

/// A rank's options for the world that it joins. The launcher or the backend decides the options that are not set.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct Wishes {
    /// Bytes of every segment, at the least.
    pub segment_bytes: Option<u64>,
    /// The placement of the ranks.
    pub topology: Option<Topology>,
}
