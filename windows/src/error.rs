//! Errors of windows.

use rmalab_atomics::Rank;

use crate::{Config, ElementKind, Flavor, GlobalPtr, InfoError, LayoutError, Op, WindowDisp};

/// The result of an operation on a window.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The call that an error names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Call {
    /// `MPI_Put`, `MPI_Rput`
    Put,
    /// `MPI_Get`, `MPI_Rget`
    Get,
    /// `MPI_Accumulate`, `MPI_Raccumulate`
    Accumulate,
    /// `MPI_Get_accumulate`, `MPI_Rget_accumulate`
    GetAccumulate,
    /// `MPI_Fetch_and_op`
    FetchAndOp,
    /// `MPI_Compare_and_swap`
    CompareAndSwap,
    /// An access by loads, stores and copies, without an epoch.
    Local,
    /// A call that makes a window.
    Create,
    /// `MPI_Win_free`
    Free,
    /// `MPI_Win_attach`
    Attach,
    /// `MPI_Win_detach`
    Detach,
    /// `MPI_Win_shared_query`
    SharedQuery,
    /// `MPI_Win_fence`
    Fence,
    /// `MPI_Win_post`
    Post,
    /// `MPI_Win_start`
    Start,
    /// `MPI_Win_lock`
    Lock,
    /// `MPI_Win_lock_all`
    LockAll,
    /// The choice of a target in an epoch.
    At,
    /// `MPI_Win_complete`
    Complete,
    /// `MPI_Win_wait`, `MPI_Win_test`
    Wait,
    /// `MPI_Win_flush`, `MPI_Win_flush_local` and their forms for all targets
    Flush,
    /// An allocation of global memory.
    Memalloc,
    /// A free of global memory.
    Memfree,
}

impl Call {
    /// Returns the name of the call's method.
    pub fn name(self) -> &'static str {
        match self {
            Call::Put => "put",
            Call::Get => "get",
            Call::Accumulate => "accumulate",
            Call::GetAccumulate => "get_accumulate",
            Call::FetchAndOp => "fetch_and_op",
            Call::CompareAndSwap => "compare_and_swap",
            Call::Local => "local access",
            Call::Create => "create",
            Call::Free => "free",
            Call::Attach => "attach",
            Call::Detach => "detach",
            Call::SharedQuery => "shared_query",
            Call::Fence => "fence",
            Call::Post => "post",
            Call::Start => "start",
            Call::Lock => "lock",
            Call::LockAll => "lock_all",
            Call::At => "at",
            Call::Complete => "complete",
            Call::Wait => "wait",
            Call::Flush => "flush",
            Call::Memalloc => "memalloc",
            Call::Memfree => "memfree",
        }
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the plural ending of a word for this many things.
fn s(number: u64) -> &'static str {
    if number == 1 { "" } else { "s" }
}

/// Writes " of rank 3", or nothing.
struct Of<'e>(&'e Option<Rank>);

impl std::fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |rank| write!(f, " of {rank}"))
    }
}

/// An epoch that is open on a window, as an error names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Open {
    /// A fence epoch.
    Fence,
    /// An access epoch by start.
    Access,
    /// An exposure epoch by post.
    Exposure,
    /// One or more locks.
    Lock,
    /// A lock_all.
    LockAll,
}

impl std::fmt::Display for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Open::Fence => "a fence epoch",
            Open::Access => "an access epoch (start)",
            Open::Exposure => "an exposure epoch (post)",
            Open::Lock => "a lock epoch",
            Open::LockAll => "a lock_all epoch",
        })
    }
}

/// The error classes of MPI-4.1 that windows use (section 12.6.2, and section 9.4 for the general ones).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Class {
    /// `MPI_ERR_SIZE`
    Size,
    /// `MPI_ERR_DISP`
    Disp,
    /// `MPI_ERR_RMA_CONFLICT`
    RmaConflict,
    /// `MPI_ERR_RMA_SYNC`
    RmaSync,
    /// `MPI_ERR_RMA_RANGE`
    RmaRange,
    /// `MPI_ERR_RMA_ATTACH`
    RmaAttach,
    /// `MPI_ERR_RMA_SHARED`
    RmaShared,
    /// `MPI_ERR_RMA_FLAVOR`
    RmaFlavor,
    /// `MPI_ERR_RANK`
    Rank,
    /// `MPI_ERR_GROUP`
    Group,
    /// `MPI_ERR_OP`
    Op,
    /// `MPI_ERR_COUNT`
    Count,
    /// `MPI_ERR_TYPE`
    Type,
    /// `MPI_ERR_NO_MEM`
    NoMem,
    /// `MPI_ERR_INFO_KEY`
    InfoKey,
    /// `MPI_ERR_INFO_VALUE`
    InfoValue,
    /// `MPI_ERR_INFO`
    Info,
    /// `MPI_ERR_OTHER`
    Other,
}

/// A window could not be made, or was used against the rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation would reach outside the target's part of the window.
    #[error(
        "{call} of {len} byte{} at {disp} (in units of {unit} byte{}) of {target}: the window has {bytes} byte{} there",
        s(*len), s(u64::from(*unit)), s(*bytes)
    )]
    OutOfWindow {
        /// The call.
        call: Call,
        /// The target.
        target: Rank,
        /// The displacement in the window.
        disp: WindowDisp,
        /// Bytes of the target's displacement unit.
        unit: u32,
        /// The number of bytes from the first to the last byte of the operation.
        len: u64,
        /// The number of bytes of the target's part of the window.
        bytes: u64,
    },
    /// The target is not a rank of the window's team.
    #[error("{call}: {target} does not exist in a team of {size} rank{}", s(u64::from(*size)))]
    NoSuchTarget {
        /// The call.
        call: Call,
        /// The target.
        target: Rank,
        /// The number of ranks of the team.
        size: u32,
    },
    /// The target is not in the group of this epoch.
    #[error(
        "{rank}: an operation on {target}, which the group of this access epoch (start) does not contain: {group:?}"
    )]
    NotInGroup {
        /// The rank that called.
        rank: Rank,
        /// The target.
        target: Rank,
        /// The group's ranks.
        group: Vec<u32>,
    },
    /// A group names a rank twice.
    #[error("{rank}: {call} with a group that names {twice} twice")]
    Group {
        /// The rank that called.
        rank: Rank,
        /// The call.
        call: Call,
        /// The rank that the group names twice.
        twice: Rank,
    },
    /// The open epoch does not allow the call.
    #[error("{rank}: {call} while {open} is open on this window; close it first")]
    Conflict {
        /// The rank that called.
        rank: Rank,
        /// The call.
        call: Call,
        /// The open epoch.
        open: Open,
    },
    /// An operation followed a fence that was asserted to have none after it.
    #[error(
        "{rank}: {call} has opened no epoch, since nosucceed was asserted; leave the assertion out, or call fence again"
    )]
    NoEpoch {
        /// The rank that called.
        rank: Rank,
        /// The call that opens such an epoch.
        call: Call,
    },
    /// A call of the [untyped interface](crate::RawWindow) needed an epoch that is not open.
    #[error("{rank}: {call}{} outside of an epoch{}", Of(target), if target.is_some() { " to it" } else { "" })]
    NotOpen {
        /// The rank that called.
        rank: Rank,
        /// The call.
        call: Call,
        /// The target.
        target: Option<Rank>,
    },
    /// An operation in a batch names a target of another window.
    #[error(
        "{rank}: {call} in a batch: the target, {target}, belongs to another window; use targets of the epoch that runs the batch"
    )]
    OtherWindow {
        /// The rank that called.
        rank: Rank,
        /// The call.
        call: Call,
        /// The target's number in the team of its window.
        target: Rank,
    },
    /// A barrier was called in an epoch that keeps all other ranks out.
    #[error(
        "{rank}: barrier while {open} is open under a lock policy that admits one rank at a time: ranks that wait for the lock never come to the barrier; close the epoch first, or choose a policy with shared locks, such as two-level"
    )]
    Mutex {
        /// The rank that called.
        rank: Rank,
        /// The open epoch.
        open: Open,
    },
    /// The window was freed or dropped while an epoch was open: the program forgot it, or its thread panicked.
    #[error("{rank}: {call}: {open} was never closed; keep the epoch's value and close it by its own method")]
    LeftOpen {
        /// The rank that called.
        rank: Rank,
        /// The call that returns this error.
        call: Call,
        /// The open epoch.
        open: Open,
    },
    /// The window was made with `no_locks`, and cannot be locked.
    #[error("{rank}: {call} of a window that was made with the hint no_locks")]
    NoLocks {
        /// The rank that called.
        rank: Rank,
        /// The call.
        call: Call,
    },
    /// The owner of a dynamic window's memory has not attached it, or has detached it.
    #[error(
        "{call} of {len} byte{} at {disp} of {target}: not within attached memory there ({regions} {} attached)",
        s(*len), if *regions == 1 { "region is" } else { "regions are" }
    )]
    NotAttached {
        /// The call.
        call: Call,
        /// The target.
        target: Rank,
        /// The address.
        disp: WindowDisp,
        /// The number of bytes of the operation.
        len: u64,
        /// The number of regions that the target has attached.
        regions: usize,
    },
    /// Memory cannot be attached.
    #[error("{rank}: attach of {len} bytes at {disp}: {why}")]
    Attach {
        /// The rank that called.
        rank: Rank,
        /// The start of the memory.
        disp: WindowDisp,
        /// Its length in bytes.
        len: u64,
        /// The reason.
        why: &'static str,
    },
    /// The memory to detach is not attached.
    #[error("{rank}: detach: no attached region starts at {disp}")]
    Detach {
        /// The rank that called.
        rank: Rank,
        /// The address.
        disp: WindowDisp,
    },
    /// Windows of this flavor do not have the call.
    #[error("{call}: windows of the flavor {flavor} do not have this call")]
    Flavor {
        /// The call.
        call: Call,
        /// The window's flavor.
        flavor: Flavor,
    },
    /// This rank cannot reach the memory by loads and stores.
    #[error("{call}: {rank} does not share memory with {target}; ask a team of one node (split_by_node)")]
    NotShared {
        /// The call.
        call: Call,
        /// The rank that called.
        rank: Rank,
        /// The rank that has the memory.
        target: Rank,
    },
    /// compare_and_swap does not take elements of this type.
    #[error("compare_and_swap does not take elements of type {kind}; swap integers of the same size")]
    Swap {
        /// The elements' type.
        kind: ElementKind,
    },
    /// The data are not whole elements of the type that the call names.
    #[error("{call}: {len} bytes are not whole elements of type {kind}, which have {size} bytes each")]
    Elements {
        /// The call.
        call: Call,
        /// The elements' type.
        kind: ElementKind,
        /// Bytes of an element.
        size: u64,
        /// Bytes of the data.
        len: u64,
    },
    /// The elements' type does not have the operation.
    #[error("{call}: {op} is not defined for elements of type {kind}")]
    Op {
        /// The call.
        call: Call,
        /// The operation.
        op: Op,
        /// The elements' type.
        kind: ElementKind,
    },
    /// The elements and the layout have different types.
    #[error("{call}: the layout has elements of type {layout}, and the buffer of type {buffer}")]
    Type {
        /// The call.
        call: Call,
        /// The type of the layout's elements.
        layout: String,
        /// The type of the buffer's elements.
        buffer: ElementKind,
    },
    /// The two ends of an operation have different numbers of bytes.
    #[error("{call}: {here} bytes at the origin and {there} at the target")]
    Mismatch {
        /// The call.
        call: Call,
        /// Bytes at the origin.
        here: u64,
        /// Bytes at the other end.
        there: u64,
    },
    /// A displacement unit is not positive.
    #[error("a displacement unit of 0 bytes; it has to be at least 1")]
    DispUnit,
    /// Sizes or displacement units differ, against the promise of a hint.
    #[error("{rank}: {what} differs from the other ranks', although {hint} was given")]
    Hint {
        /// The rank that called.
        rank: Rank,
        /// The quantity that differs.
        what: &'static str,
        /// The hint.
        hint: &'static str,
    },
    /// Another rank could not make the window.
    #[error("{rank} could not take part in making the window; its own error says why")]
    NotMade {
        /// The first such rank.
        rank: Rank,
    },
    /// A global pointer points to nothing, or to memory that the call cannot use.
    #[error("{rank}: {call} at {pointer}: {why}")]
    BadPointer {
        /// The rank that called.
        rank: Rank,
        /// The call.
        call: Call,
        /// The pointer.
        pointer: GlobalPtr,
        /// The reason.
        why: &'static str,
    },
    /// An operation on global memory would reach outside its segment.
    #[error("{rank}: {call} of {len} bytes at {pointer}, which has {bytes} bytes of each unit")]
    OutOfSegment {
        /// The rank that called.
        rank: Rank,
        /// The call.
        call: Call,
        /// The pointer.
        pointer: GlobalPtr,
        /// The number of bytes of the operation.
        len: u64,
        /// The number of bytes of the segment at each unit.
        bytes: u64,
    },
    /// In a collective allocation of global memory, units requested different sizes.
    #[error(
        "{rank}: memalloc of {bytes} bytes, while {other} requests {there}; all units have to request the same number"
    )]
    Uneven {
        /// The rank that called.
        rank: Rank,
        /// The size that this unit requested.
        bytes: u64,
        /// The first unit that requested another size.
        other: Rank,
        /// The size that the other unit requested.
        there: u64,
    },
    /// A layout is impossible, or does not fit its buffer.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// An operation of a two-sided window failed at its target; the error's text gives the reason.
    #[error("{target} could not serve a request: {why}")]
    AtTarget {
        /// The target.
        target: Rank,
        /// The class of the target's error.
        class: Class,
        /// The target's error.
        why: Box<str>,
    },
    /// The window cannot have an agent.
    #[error("{rank}: agent: {why}")]
    Agent {
        /// The rank that called.
        rank: Rank,
        /// The reason.
        why: &'static str,
    },
    /// Hints cannot be read from a text, or one of them is too long.
    #[error(transparent)]
    Info(#[from] InfoError),
    /// A recording cannot be written, or a trace cannot be read.
    #[error(transparent)]
    Trace(#[from] crate::trace::TraceError),
    /// The messages of a two-sided window failed.
    #[error(transparent)]
    Messages(crate::messages::Error),
    /// The window's locks failed, or were used against MPI's rules.
    #[error(transparent)]
    Locks(#[from] rmalab_locks::Error),
    /// An operation of the network failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
}

impl From<crate::messages::Error> for Error {
    /// Errors of the network below messages become the same errors as those below windows.
    fn from(error: crate::messages::Error) -> Error {
        match error {
            crate::messages::Error::Atomics(error) => Error::Atomics(error),
            error => Error::Messages(error),
        }
    }
}

impl Error {
    /// Returns the MPI error class of this error.
    pub fn class(&self) -> Class {
        use rmalab_atomics::Error as Network;
        use rmalab_locks::Error as Lock;
        match self {
            Error::OutOfWindow { .. }
            | Error::NotAttached { .. }
            | Error::BadPointer { .. }
            | Error::OutOfSegment { .. } => Class::RmaRange,
            Error::NoSuchTarget { .. } | Error::Locks(Lock::NoSuchTarget { .. }) => Class::Rank,
            Error::NotInGroup { .. }
            | Error::Conflict { .. }
            | Error::LeftOpen { .. }
            | Error::NoEpoch { .. }
            | Error::NotOpen { .. }
            | Error::OtherWindow { .. }
            | Error::NoLocks { .. } => Class::RmaSync,
            Error::Mutex { .. } => Class::RmaConflict,
            Error::Locks(
                Lock::AlreadyLocked { .. }
                | Lock::LockAllWhileLocked { .. }
                | Lock::NotLocked { .. }
                | Lock::NotLockedAll { .. },
            ) => Class::RmaSync,
            Error::Locks(Lock::Inconsistent { .. } | Lock::NothingToDeclare { .. }) => Class::RmaSync,
            Error::Locks(Lock::Upgrade { .. }) => Class::RmaConflict,
            Error::Group { .. } => Class::Group,
            Error::Attach { .. } | Error::Detach { .. } => Class::RmaAttach,
            Error::Flavor { .. } => Class::RmaFlavor,
            Error::AtTarget { class, .. } => *class,
            Error::NotShared { .. } => Class::RmaShared,
            Error::Op { .. } => Class::Op,
            Error::Layout(LayoutError::OutOfMemory { .. })
            | Error::Atomics(Network::OutOfMemory { .. } | Network::RegistrationFull { .. }) => Class::NoMem,
            Error::Type { .. } | Error::Layout(_) | Error::Swap { .. } => Class::Type,
            Error::Mismatch { .. } | Error::Elements { .. } => Class::Count,
            Error::DispUnit | Error::Hint { hint: Config::SAME_DISP_UNIT, .. } => Class::Disp,
            Error::Hint { .. } | Error::Uneven { .. } => Class::Size,
            Error::Info(InfoError::Key { .. }) => Class::InfoKey,
            Error::Info(InfoError::Value { .. }) => Class::InfoValue,
            Error::Info(InfoError::Syntax { .. }) => Class::Info,
            Error::NotMade { .. }
            | Error::Agent { .. }
            | Error::Trace(_)
            | Error::Messages(_)
            | Error::Locks(_)
            | Error::Atomics(_) => Class::Other,
        }
    }
}
