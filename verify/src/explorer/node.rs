//! The local states of ranks, as the learner makes them and the search uses them.

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;

use crate::network::Issued;
use crate::status::{Phase, Status};
use crate::{Error, Property};

/// The number of a node, over all ranks.
pub(super) type NodeId = u32;

/// One local state of one rank.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The rank.
    pub(super) rank: Rank,
    /// The call that comes next; none once the code has ended.
    pub(super) issued: Option<Issued>,
    /// How far the rank has come.
    pub(super) status: Status,
    /// It goes round in a loop that polls.
    pub(super) polls: bool,
    /// A number for its kind, which is the same for all ranks that come to it in the same way.
    pub(super) class: u64,
    /// Why the code ended too early.
    pub(super) broken: Option<(Property, String)>,
}

impl Node {
    /// Returns whether the rank has come to a wait in its acquisition: it is parked, or it polls.
    pub(super) fn waits(&self) -> bool {
        let parked = self.issued.is_some_and(|issued| matches!(issued.call, Call::WaitUntil { .. }));
        self.status.phase == Phase::Acquiring && (parked || self.polls)
    }
}

/// A step from one local state to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Edge {
    /// The answer that it is for; 0 where the answer is no word.
    pub(super) answer: u64,
    /// Where it leads.
    pub(super) to: NodeId,
    /// What it has seen of a target's data.
    pub(super) saw: Option<(Rank, u64)>,
}

/// Why something could not be learned.
pub(super) enum Failure {
    /// Two histories that count as one state differ: `Forget` forgets too much.
    Differ(String),
    /// Ranks that should be interchangeable are not.
    Asymmetric,
    /// Anything else.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}
