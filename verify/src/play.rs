//! The interface of an engine to the code under test: it carries out calls, and receives events.

use std::fmt::Debug;

use rmalab_atomics::controlled::{Call, Controlled, Executor};
use rmalab_atomics::{Address, Disp, Rank, Time};

use crate::Access;

/// An event that a rank reports between two of its calls.
///
/// An acquisition begins with the first call of `acquire`, and succeeds with the answer to its last call. It ends with
/// the first call of `release`. So [`Begins`](Event::Begins) and [`Leaves`](Event::Leaves) belong to the call after
/// them. [`Told`](Event::Told), [`Entered`](Event::Entered), [`GaveUp`](Event::GaveUp), [`Left`](Event::Left) and
/// [`Idle`](Event::Idle) belong to the call before them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// The rank is about to acquire.
    Begins(Access),
    /// The rank is about to enter, and learns that a rank failed inside, or that its lease had passed.
    Told,
    /// The rank has acquired, so it is inside.
    Entered,
    /// The rank has not acquired, and its acquisition is over.
    GaveUp {
        /// True if the rank would have written the data inside.
        writes: bool,
    },
    /// The rank has read the data of a target while inside.
    Saw {
        /// The target.
        target: Rank,
        /// The value of the data: the number of writes so far.
        writes: u64,
    },
    /// The rank is about to release.
    Leaves,
    /// The rank has released.
    Left,
    /// The rank has failed, and comes back: it has no handle until it has resumed.
    CameBack,
    /// The rank that came back does not hold the lock. An acquisition that it had begun begins again; an acquisition
    /// that it was releasing is over.
    Idle,
}

/// Carries out a rank's calls, and receives its events.
pub trait Player: Executor {
    /// If the rank repeats calls that it has made before, returns the word of the answer to `call`. [`call`](Executor::call) has the same
    /// answer, or that of a new call.
    fn repeats(&self, _call: &Call) -> Option<u64> {
        None
    }

    /// This rank reports `event`.
    ///
    /// For an event between two calls of acquire and release, `handle` shows everything that the lock's code on this
    /// rank remembers until the next event.
    fn event(&self, event: Event, handle: &dyn Debug);
}

/// The network atomics of one rank of a check.
pub type Stage<'p> = Controlled<&'p dyn Player>;

/// The work of a rank inside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    /// Nothing.
    #[default]
    Empty,
    /// It gets the data that the lock protects. A rank that may write also puts the next number, and flushes.
    Data,
}

/// The displacement of the data of [`Section::Data`]: the first allocation on every rank's symmetric heap.
pub const DATA: Disp = Disp(0);

/// One rank's handle of the lock or policy under test.
pub trait Handle: Debug {
    /// Acquires for `access`.
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()>;

    /// Tries to acquire for `access`, or acquires unless that takes until `deadline`. Returns whether it has acquired.
    fn attempt(&mut self, stage: &Stage<'_>, access: Access, deadline: Option<Time>) -> rmalab_locks::Result<bool>;

    /// Writes to the data word inside, where leases pass. A lock that refuses late writes does it by its token; other locks do
    /// nothing.
    fn write(&mut self, _stage: &Stage<'_>, _data: Address) -> rmalab_locks::Result<()> {
        Ok(())
    }

    /// Releases an acquisition for `access`.
    fn release(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()>;
}
