//! The steps of one rank.

use std::sync::Arc;

use rmalab_atomics::Rank;
use rmalab_locks::{Assert, LockKind};

use crate::{ElementKind, FenceAssert, Op, PostAssert, StartAssert, WindowDisp};

/// An atomic update: the call that makes it, the type of the elements, and the operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Update {
    /// Accumulate.
    Accumulate(ElementKind, Op),
    /// Accumulate that returns the elements' old values.
    GetAccumulate(ElementKind, Op),
    /// The same for one element.
    FetchAndOp(ElementKind, Op),
    /// Compare-and-swap of one element.
    CompareAndSwap(ElementKind),
}

/// One step of a rank: a call, or computation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Computes for this many nanoseconds.
    Compute(u64),
    /// Locks all targets in shared mode.
    LockAll {
        /// The assertion of the caller.
        assert: Assert,
    },
    /// Unlocks all targets.
    UnlockAll,
    /// Locks a target.
    Lock {
        /// The kind of the lock.
        kind: LockKind,
        /// The target.
        target: Rank,
        /// The assertion of the caller.
        assert: Assert,
    },
    /// Unlocks a target.
    Unlock {
        /// The target.
        target: Rank,
    },
    /// Writes to a target.
    Put {
        /// The target.
        target: Rank,
        /// The displacement at the target.
        disp: WindowDisp,
        /// The number of bytes.
        bytes: u64,
    },
    /// Reads from a target.
    Get {
        /// The target.
        target: Rank,
        /// The displacement at the target.
        disp: WindowDisp,
        /// The number of bytes.
        bytes: u64,
    },
    /// Updates elements of a target atomically.
    Update {
        /// The call, the type of the elements and the operation.
        call: Update,
        /// The target.
        target: Rank,
        /// The displacement at the target.
        disp: WindowDisp,
        /// The number of bytes, which are whole elements.
        bytes: u64,
    },
    /// Completes the operations on a target.
    Flush {
        /// The target.
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
    /// Opens an exposure epoch.
    Post {
        /// The ranks of the group.
        group: Arc<[Rank]>,
        /// The assertion of the caller.
        assert: PostAssert,
    },
    /// Opens an access epoch.
    Start {
        /// The ranks of the group.
        group: Arc<[Rank]>,
        /// The assertion of the caller.
        assert: StartAssert,
    },
    /// Ends the access epoch.
    Complete,
    /// Ends the exposure epoch.
    Wait,
    /// Ends the exposure epoch with tests, the last of which finds it over.
    Test,
}
