//! The local states of ranks, shared by the learner and the search.

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;

use super::experiments::{Answers, Site};
use crate::network::Issued;
use crate::outcome::Limit;
use crate::status::{Phase, Status};
use crate::{Error, Property};

/// The number of a node, among all ranks.
pub(super) type NodeId = u32;

/// One local state of one rank.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The rank.
    pub(super) rank: Rank,
    /// The next call; `None` once the code has ended.
    pub(super) issued: Option<Issued>,
    /// The progress of the rank.
    pub(super) status: Status,
    /// True in a polling loop.
    pub(super) polls: bool,
    /// A number that is equal for ranks that reach their nodes by the same history.
    pub(super) class: u64,
    /// The reason why the code ended too early.
    pub(super) broken: Option<(Property, String)>,
}

impl Node {
    /// Returns whether the rank waits in its acquisition: it is blocked, or it polls.
    pub(super) fn waits(&self) -> bool {
        let parked = self.issued.is_some_and(|issued| matches!(issued.call, Call::WaitUntil { .. }));
        self.status.phase == Phase::Acquiring && (parked || self.polls)
    }
}

/// A transition from one local state to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Edge {
    /// The answer; 0 if the answer has no word.
    pub(super) answer: u64,
    /// The next node.
    pub(super) to: NodeId,
    /// The read of a target's data in this move.
    pub(super) saw: Option<(Rank, u64)>,
    /// True if the rank enters in this move.
    pub(super) enters: bool,
    /// True if the rank gives up in this move.
    pub(super) gave_up: bool,
    /// True if the rank learns that another rank has failed inside.
    pub(super) told: bool,
    /// True if the rank, which has failed, comes back without the lock.
    pub(super) idle: bool,
}

/// A failure to learn.
pub(super) enum Failure {
    /// Two histories that count as one state differ: `Forget` forgets too much.
    Differ(String),
    /// These experiments distinguish two histories of one node.
    Uses(Vec<(Site, Vec<u64>)>),
    /// Nodes have to keep the answers to these calls.
    Keeps(Answers),
    /// There are too many histories to test all.
    Slow,
    /// Ranks that should be interchangeable are not.
    Asymmetric,
    /// A fence observes the puts of other ranks, so that posting them is a separate step.
    Fences,
    /// A limit.
    Limit(Limit),
    /// Any other error.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}
