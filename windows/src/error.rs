//! What can go wrong with a window.

use rmalab_atomics::Rank;

use crate::{Config, Flavor, GlobalPtr, Kind, LayoutError, Op, WindowDisp};

/// The result of a window's operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The call that an error speaks of.
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
    /// An access of a rank to its own part.
    Local,
    /// The making of a window.
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
    /// The call's name, as the methods have it.
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

/// " of rank 3", or nothing.
struct Of<'e>(&'e Option<Rank>);

impl std::fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |rank| write!(f, " of {rank}"))
    }
}

/// What stands open on a window, as an error names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Open {
    /// A fence epoch.
    Fence,
    /// An access epoch by start.
    Access,
    /// An exposure epoch by post.
    Exposure,
    /// A lock, or several.
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

/// The error classes of MPI-4.1 (section 12.6.2, and section 9.4 for the general ones) that windows know.
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
    /// `MPI_ERR_OTHER`
    Other,
}

/// A window that could not be made, or that was used against the rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation that would reach outside the target's part of the window.
    #[error(
        "{call} of {len} bytes at {disp} (in units of {unit} bytes) of {target}: the window has {bytes} bytes there"
    )]
    OutOfWindow {
        /// The call that was refused.
        call: Call,
        /// The target that it named.
        target: Rank,
        /// Where in the window.
        disp: WindowDisp,
        /// Bytes of a displacement unit there.
        unit: u32,
        /// How many bytes it would have touched, from the first to the last.
        len: u64,
        /// How many bytes the target's part of the window has.
        bytes: u64,
    },
    /// A target that is not a rank of the window's team.
    #[error("{call}: {target} does not exist in a team of {size} ranks")]
    NoSuchTarget {
        /// The call that was refused.
        call: Call,
        /// The target that it named.
        target: Rank,
        /// How many ranks the team has.
        size: u32,
    },
    /// A target that the group of this epoch does not contain.
    #[error(
        "{rank}: an operation on {target}, which the group of this access epoch (start) does not contain: {group:?}"
    )]
    NotInGroup {
        /// Who called.
        rank: Rank,
        /// The target that it named.
        target: Rank,
        /// The group's ranks.
        group: Vec<u32>,
    },
    /// A group that names a rank twice.
    #[error("{rank}: {call} with a group that names {twice} twice")]
    Group {
        /// Who called.
        rank: Rank,
        /// The call that was refused.
        call: Call,
        /// Who is there twice.
        twice: Rank,
    },
    /// A call that the epoch that stands open does not allow.
    #[error("{rank}: {call} while {open} stands open on this window; close it first")]
    Conflict {
        /// Who called.
        rank: Rank,
        /// The call that was refused.
        call: Call,
        /// What stands open.
        open: Open,
    },
    /// An operation behind a fence that was asserted to have none behind it.
    #[error(
        "{rank}: {call} has opened no epoch, since nosucceed was asserted; leave the assertion out, or call fence again"
    )]
    NoEpoch {
        /// Who called.
        rank: Rank,
        /// The call that would have opened the epoch.
        call: Call,
    },
    /// A call of the [untyped interface](crate::RawWindow) that belongs into an epoch which is not open.
    #[error("{rank}: {call}{} outside of an epoch{}", Of(target), if target.is_some() { " to it" } else { "" })]
    NotOpen {
        /// Who called.
        rank: Rank,
        /// The call that was refused.
        call: Call,
        /// The target that it named.
        target: Option<Rank>,
    },
    /// An operation in a batch on a target of another window.
    #[error(
        "{rank}: {call} in a batch: the target, {target}, belongs to another window; use targets of the epoch that runs the batch"
    )]
    OtherWindow {
        /// Who called.
        rank: Rank,
        /// The call that was refused.
        call: Call,
        /// The target, by its number in the team of its window.
        target: Rank,
    },
    /// A barrier in an epoch that keeps all other ranks from theirs.
    #[error(
        "{rank}: barrier while {open} is open under a lock policy that lets one rank in at a time: ranks that wait for the lock never come to the barrier; close the epoch first, or choose a policy with shared locks, such as two-level"
    )]
    Mutex {
        /// Who called.
        rank: Rank,
        /// What is open.
        open: Open,
    },
    /// A call on a window that was freed, or fell apart, with an epoch open: it was forgotten, or its thread panicked.
    #[error("{rank}: {call}: {open} was never closed; keep the epoch's value and close it by its own method")]
    LeftOpen {
        /// Who called.
        rank: Rank,
        /// The call that noticed.
        call: Call,
        /// What stands open.
        open: Open,
    },
    /// A lock of a window that was made with `no_locks`.
    #[error("{rank}: {call} of a window that was made with the hint no_locks")]
    NoLocks {
        /// Who called.
        rank: Rank,
        /// The call that was refused.
        call: Call,
    },
    /// An operation on memory of a dynamic window that its owner has not attached, or has detached.
    #[error(
        "{call} of {len} bytes at {disp} of {target}: not within attached memory there ({regions} regions are attached)"
    )]
    NotAttached {
        /// The call that was refused.
        call: Call,
        /// The target that it named.
        target: Rank,
        /// The address.
        disp: WindowDisp,
        /// How many bytes it would have touched.
        len: u64,
        /// How many regions are attached there.
        regions: usize,
    },
    /// An attach that cannot be.
    #[error("{rank}: attach of {len} bytes at {disp}: {why}")]
    Attach {
        /// Who called.
        rank: Rank,
        /// Where the memory starts.
        disp: WindowDisp,
        /// Its length in bytes.
        len: u64,
        /// Why not.
        why: &'static str,
    },
    /// A detach of what is not attached.
    #[error("{rank}: detach: no attached region starts at {disp}")]
    Detach {
        /// Who called.
        rank: Rank,
        /// The address.
        disp: WindowDisp,
    },
    /// A call that windows of this flavor do not have.
    #[error("{call}: windows of the flavor {flavor} do not have this")]
    Flavor {
        /// The call that was refused.
        call: Call,
        /// The window's flavor.
        flavor: Flavor,
    },
    /// Memory that this rank cannot reach by loads and stores.
    #[error("{call}: {rank} does not share memory with {target}; ask a team of one node (split_by_node)")]
    NotShared {
        /// The call that was refused.
        call: Call,
        /// Who called.
        rank: Rank,
        /// Whose memory.
        target: Rank,
    },
    /// Elements that compare_and_swap does not take.
    #[error("compare_and_swap takes no elements of type {kind}; swap integers of as many bytes")]
    Swap {
        /// The elements' type.
        kind: Kind,
    },
    /// Data that are not whole elements of the type that the call names.
    #[error("{call}: {len} bytes are not whole elements of type {kind}, which have {size} bytes each")]
    Elements {
        /// The call that was refused.
        call: Call,
        /// The elements' type.
        kind: Kind,
        /// Bytes of an element.
        size: u64,
        /// Bytes of the data.
        len: u64,
    },
    /// An operation that the elements' type does not have.
    #[error("{call}: {op} is not defined for elements of type {kind}")]
    Op {
        /// The call that was refused.
        call: Call,
        /// The operation.
        op: Op,
        /// The elements' type.
        kind: Kind,
    },
    /// Elements of another type than the layout's.
    #[error("{call}: the layout has elements of type {layout}, and the buffer of type {buffer}")]
    Type {
        /// The call that was refused.
        call: Call,
        /// What the layout is made of.
        layout: String,
        /// What the buffer is made of.
        buffer: Kind,
    },
    /// Two ends of an operation that do not hold equally much.
    #[error("{call}: {here} bytes at the origin and {there} at the target")]
    Mismatch {
        /// The call that was refused.
        call: Call,
        /// Bytes at the origin.
        here: u64,
        /// Bytes at the other end.
        there: u64,
    },
    /// Displacement units that are not positive.
    #[error("a displacement unit of 0 bytes; it has to be at least 1")]
    DispUnit,
    /// Sizes, or displacement units, that differ although a hint promised that they do not.
    #[error("{rank}: {what} differs from the other ranks', although {hint} was given")]
    Hint {
        /// Who called.
        rank: Rank,
        /// What differs.
        what: &'static str,
        /// The hint.
        hint: &'static str,
    },
    /// A window that another rank could not make.
    #[error("{rank} could not take part in making the window; its own error says why")]
    NotMade {
        /// The first rank that could not.
        rank: Rank,
    },
    /// A global pointer that points to nothing, or not to what the call needs.
    #[error("{rank}: {call} at {pointer}: {why}")]
    BadPointer {
        /// Who called.
        rank: Rank,
        /// The call that was refused.
        call: Call,
        /// The pointer.
        pointer: GlobalPtr,
        /// Why not.
        why: &'static str,
    },
    /// An operation on global memory that would reach outside of its segment.
    #[error("{rank}: {call} of {len} bytes at {pointer}, which has {bytes} bytes of each unit")]
    OutOfSegment {
        /// Who called.
        rank: Rank,
        /// The call that was refused.
        call: Call,
        /// The pointer.
        pointer: GlobalPtr,
        /// How many bytes it would have touched.
        len: u64,
        /// How many bytes the segment has of each unit.
        bytes: u64,
    },
    /// A collective allocation of global memory for which the units ask for different sizes.
    #[error("{rank}: memalloc of {bytes} bytes, while {other} asks for {there}; all units have to ask for the same")]
    Uneven {
        /// Who called.
        rank: Rank,
        /// What it asked for.
        bytes: u64,
        /// The first unit that asks for something else.
        other: Rank,
        /// What that asks for.
        there: u64,
    },
    /// A layout that cannot be, or that does not fit its buffer.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// An operation of a two-sided window that failed where its target served it; the error's text says why.
    #[error("{target} could not serve a request: {why}")]
    AtTarget {
        /// The target.
        target: Rank,
        /// The class of the target's error.
        class: Class,
        /// The target's error.
        why: Box<str>,
    },
    /// An agent that cannot be had.
    #[error("{rank}: agent: {why}")]
    Agent {
        /// Who called.
        rank: Rank,
        /// Why not.
        why: &'static str,
    },
    /// A recording cannot be written, or a trace cannot be read.
    #[error(transparent)]
    Trace(#[from] crate::trace::TraceError),
    /// The messages of a two-sided window failed.
    #[error(transparent)]
    Messages(crate::messages::Error),
    /// The window's locks failed, or were used against MPI's rules.
    #[error(transparent)]
    Locks(#[from] rmalab_locks::Error),
    /// The network operations below failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
}

impl From<crate::messages::Error> for Error {
    /// What failed below messages is told as what failed below windows is.
    fn from(error: crate::messages::Error) -> Error {
        match error {
            crate::messages::Error::Atomics(error) => Error::Atomics(error),
            error => Error::Messages(error),
        }
    }
}

impl Error {
    /// The MPI error class that stands for this error.
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
            Error::NotMade { .. }
            | Error::Agent { .. }
            | Error::Trace(_)
            | Error::Messages(_)
            | Error::Locks(_)
            | Error::Atomics(_) => Class::Other,
        }
    }
}
