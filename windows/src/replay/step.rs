//! What one rank does next.

use std::sync::Arc;

use rmalab_atomics::Rank;
use rmalab_locks::{Assert, LockKind};

use crate::{FenceAssert, Kind, Op, PostAssert, StartAssert, WindowDisp};

/// An atomic update: the call that makes it, the type of the elements, and the operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Update {
    /// Accumulate.
    Accumulate(Kind, Op),
    /// Accumulate that returns what the elements were before.
    GetAccumulate(Kind, Op),
    /// The same, of one element.
    FetchAndOp(Kind, Op),
    /// Compare-and-swap of one element.
    CompareAndSwap(Kind),
}

/// What one rank does next: a call, or computation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Computes for this many nanoseconds.
    Compute(u64),
    /// Locks all targets in shared mode.
    LockAll {
        /// What the caller asserts.
        assert: Assert,
    },
    /// Unlocks all targets.
    UnlockAll,
    /// Locks a target.
    Lock {
        /// How.
        kind: LockKind,
        /// Which.
        target: Rank,
        /// What the caller asserts.
        assert: Assert,
    },
    /// Unlocks a target.
    Unlock {
        /// Which.
        target: Rank,
    },
    /// Writes to a target.
    Put {
        /// Which.
        target: Rank,
        /// Where.
        disp: WindowDisp,
        /// How many bytes.
        bytes: u64,
    },
    /// Reads from a target.
    Get {
        /// Which.
        target: Rank,
        /// Where.
        disp: WindowDisp,
        /// How many bytes.
        bytes: u64,
    },
    /// Updates elements of a target atomically.
    Update {
        /// By which call, and how.
        call: Update,
        /// Which target.
        target: Rank,
        /// Where.
        disp: WindowDisp,
        /// How many bytes, which are whole elements.
        bytes: u64,
    },
    /// Completes the operations on a target.
    Flush {
        /// Which.
        target: Rank,
    },
    /// Completes the operations on all targets.
    FlushAll,
    /// Begins a batch: the operations up to its end overlap each other.
    BatchBegin,
    /// Completes the operations of the batch.
    BatchEnd,
    /// Waits for all ranks of the team.
    Barrier,
    /// Calls a fence.
    Fence(FenceAssert),
    /// Opens an epoch of exposure.
    Post {
        /// To these ranks.
        group: Arc<[Rank]>,
        /// What the caller asserts.
        assert: PostAssert,
    },
    /// Opens an epoch of access.
    Start {
        /// To these ranks.
        group: Arc<[Rank]>,
        /// What the caller asserts.
        assert: StartAssert,
    },
    /// Ends the epoch of access.
    Complete,
    /// Ends the epoch of exposure.
    Wait,
    /// Ends the epoch of exposure by tests, of which the last one finds it over.
    Test,
}
