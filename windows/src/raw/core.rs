//! The state that operations and epochs of a window share: its memory, its strategies, its open epochs.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use rmalab_atomics::registered::{Pinned, RegisteredKey};
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics};
use rmalab_locks::Exclusion;

use crate::bias::{AccumulatePath, Bias};
use crate::dynamic::Dynamic;
use crate::place::{TargetMemory, TargetPart};
use crate::raw::epochs::Epochs;
use crate::raw::matching::Matching;
use crate::trace::recorder::{Event, Kind, Recorder, Started};
use crate::two_sided::Requests;
use crate::{
    Attributes, Call, Config, ElementKind, Error, ErrorHandler, FenceStrategy, Flavor, Ignored, Op, Open, Result, Team,
};

#[derive(Debug)]
pub(crate) struct Fixed<P> {
    pub(crate) place: P,
    pub(crate) bytes: u64,
    pub(crate) unit: u32,
}

impl<P> Fixed<P> {
    /// Returns the bytes of the part, and of its displacement unit.
    pub(crate) fn size(&self) -> (u64, u32) {
        (self.bytes, self.unit)
    }
}

/// The place of a window's memory.
#[derive(Debug)]
pub(crate) enum Memory<'t> {
    /// The same range of every rank's segment, so that no table of the other ranks is needed.
    Symmetric { base: Disp, bytes: u64, unit: u32 },
    /// A range in each rank's segment, with different addresses.
    Table(Vec<Fixed<Address>>),
    /// Memory of the ranks' programs.
    Leased { parts: Vec<Fixed<Box<dyn Pinned + 't>>>, own: RegisteredKey },
    /// The attached memory of a dynamic window.
    Dynamic(Dynamic),
}

/// A window without its epochs: its memory, its name, and this rank's local accesses.
///
/// [`Window`](crate::Window) and [`RawWindow`](crate::RawWindow) both dereference to it.
pub struct WindowCore<'t, A: RemoteAtomics + ?Sized> {
    pub(crate) ra: &'t A,
    pub(crate) team: &'t Team<'t, A>,
    pub(crate) ways: AccumulatePath<'t>,
    pub(crate) bias: Bias,
    pub(crate) fence: FenceStrategy,
    pub(crate) no_locks: bool,
    /// The locks of different ranks that exclude each other under its policy.
    pub(crate) exclusion: Exclusion,
    pub(crate) memory: Memory<'t>,
    pub(crate) flavor: Flavor,
    pub(crate) config: RefCell<Config>,
    pub(crate) epochs: Epochs,
    pub(crate) matching: Matching,
    /// The requests of a two-sided window.
    pub(crate) two_sided: Option<Box<Requests<'t>>>,
    /// The number of requests that no call has waited for.
    pub(crate) under_way: Cell<u64>,
    /// The recorder of this rank's calls, if the window is recorded.
    pub(crate) recorder: Option<Rc<Recorder>>,
    /// True if operations are done at once, without requests and without a recorder.
    pub(crate) plain: bool,
    /// The allocations that go back to the symmetric heap when the window is freed.
    pub(crate) allocations: Vec<Disp>,
    pub(crate) name: RefCell<String>,
    pub(crate) attributes: RefCell<Attributes>,
    pub(crate) handler: ErrorHandler,
    /// The ignored hints of the info with which the window was made.
    pub(crate) ignored: Vec<Ignored>,
    /// The name of the lock policy.
    pub(crate) policy: &'static str,
}

impl<A: RemoteAtomics + ?Sized> fmt::Debug for WindowCore<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowCore")
            .field("name", &self.name)
            .field("flavor", &self.flavor)
            .field("memory", &self.memory)
            .field("epochs", &self.epochs)
            .finish_non_exhaustive()
    }
}

impl<'t, A: RemoteAtomics + ?Sized> WindowCore<'t, A> {
    /// Returns the part of a rank of the team, for operations.
    #[cold]
    pub(crate) fn unrecorded(&self, rank: Rank, active: bool) -> TargetPart<'_> {
        match (&self.two_sided, self.part(rank).0) {
            (None, part) => part,
            // In an active epoch an operation on the local rank needs no other rank's progress.
            (_, part) if active && rank == self.ra.rank() => part,
            (Some(requests), TargetPart::Dynamic(_)) => TargetPart::Dynamic(Some(&**requests)),
            (Some(requests), _) => TargetPart::Fixed(TargetMemory::TwoSided(&**requests, rank)),
        }
    }

    /// Returns the part of a rank of the team, its bytes and its displacement unit.
    #[inline(always)]
    pub(crate) fn part(&self, rank: Rank) -> (TargetPart<'_>, u64, u32) {
        match &self.memory {
            &Memory::Symmetric { base, bytes, unit } => {
                (TargetPart::Fixed(TargetMemory::Segment(rank.at(base))), bytes, unit)
            }
            Memory::Table(parts) => {
                let Fixed { place, bytes, unit } = parts[rank.index()];
                (TargetPart::Fixed(TargetMemory::Segment(place)), bytes, unit)
            }
            Memory::Leased { parts, .. } => {
                let Fixed { place, bytes, unit } = &parts[rank.index()];
                (TargetPart::Fixed(TargetMemory::Leased(&**place)), *bytes, *unit)
            }
            Memory::Dynamic(_) => (TargetPart::Dynamic(None), 0, 1),
        }
    }

    /// Completes the operations issued to `target`, a rank of the team, at its memory.
    #[inline(never)]
    pub(crate) fn flush_target(&self, target: Rank) -> Result<()> {
        match (&self.two_sided, &self.memory) {
            (Some(requests), _) => requests.flush(target),
            (None, Memory::Symmetric { .. } | Memory::Leased { .. }) => Ok(self.ra.flush(target)?),
            (None, Memory::Table(parts)) => Ok(self.ra.flush(parts[target.index()].place.rank)?),
            (None, Memory::Dynamic(dynamic)) => dynamic.flush(self.ra, target),
        }
    }

    /// Returns whether all data that this rank has put to `target` since its last flush are in that rank's own memory, so
    /// that they went where a word of the target goes.
    pub(crate) fn keeps_memory_of(&self, target: Rank) -> bool {
        match &self.memory {
            Memory::Symmetric { .. } | Memory::Leased { .. } => true,
            Memory::Table(parts) => parts[target.index()].place.rank == target,
            Memory::Dynamic(dynamic) => !dynamic.has_other_owner(target),
        }
    }

    /// Like [`flush_target`](Self::flush_target), before the target is unlocked.
    #[inline(never)]
    pub(crate) fn flush_last(&self, target: Rank) -> Result<()> {
        self.two_sided.as_ref().map_or_else(|| self.flush_target(target), |requests| requests.unlock(target))
    }

    /// Like [`flush_target`](Self::flush_target), for all targets.
    #[inline(never)]
    pub(crate) fn flush_targets(&self) -> Result<()> {
        self.two_sided.as_ref().map_or_else(|| Ok(self.ra.flush_all()?), |requests| requests.flush_all())
    }

    /// Like [`flush_targets`](Self::flush_targets), before all targets are unlocked.
    #[inline(never)]
    pub(crate) fn flush_all_last(&self) -> Result<()> {
        self.two_sided.as_ref().map_or_else(|| Ok(self.ra.flush_all()?), |requests| requests.unlock_all())
    }

    /// Notes that this rank holds a shared lock that excludes all others, although MPI would admit shared locks.
    #[cold]
    pub(crate) fn enter(&self, open: Open) {
        self.epochs.inside.set(self.epochs.inside.get() + 1);
        self.team.enter(open);
    }

    /// Notes that this rank no longer holds such a lock.
    #[cold]
    pub(crate) fn leave(&self) {
        self.epochs.inside.set(self.epochs.inside.get() - 1);
        self.team.leave(1);
    }

    pub(crate) fn dynamic(&self, call: Call) -> Result<&Dynamic> {
        match &self.memory {
            Memory::Dynamic(dynamic) => Ok(dynamic),
            _ => Err(Error::Flavor { call, flavor: self.flavor }),
        }
    }

    /// Keeps the error of an epoch that ended by being dropped, for the next call that opens an epoch.
    #[cold]
    pub(crate) fn keep(&self, error: Error) {
        let error = self.hear(error);
        self.epochs.keep_failure(error);
    }

    /// Calls the window's error handler with the error of a call, and returns the error. It is called once for each
    /// error.
    #[cold]
    #[inline(never)]
    pub(crate) fn hear(&self, error: impl Into<Error>) -> Error {
        let error = error.into();
        self.handler.call(&error);
        error
    }

    /// Begins the recording of a call, if the window is recorded.
    #[inline(always)]
    pub(crate) fn start_record(&self) -> Option<Started<'_>> {
        self.recorder.as_ref().map(|recorder| recorder.start(self.ra))
    }

    /// Records the call, which has ended.
    #[inline(always)]
    pub(crate) fn record(&self, started: Option<Started<'_>>, event: Event) {
        self.record_group(started, event, &[]);
    }

    /// Like [`record`](Self::record), for a call that names a group.
    #[inline(always)]
    pub(crate) fn record_group(&self, started: Option<Started<'_>>, event: Event, group: &[Rank]) {
        if let Some(started) = started {
            started.end(self.ra, event, group);
        }
    }

    /// Begins the recording of a transfer or update of `bytes` bytes at `disp` of `target`, if the window is recorded.
    #[cold]
    pub(crate) fn begin_transfer(
        &self,
        call: Call,
        update: Option<(ElementKind, Op)>,
        target: Rank,
        disp: i64,
        bytes: u64,
    ) {
        let Some(recorder) = &self.recorder else { return };
        let kind = match call {
            Call::Put => Kind::Put,
            Call::Get => Kind::Get,
            Call::GetAccumulate => Kind::GetAccumulate,
            Call::FetchAndOp => Kind::FetchAndOp,
            Call::CompareAndSwap => Kind::CompareAndSwap,
            _ => Kind::Accumulate,
        };
        recorder.begin_transfer(self.ra, Event { update, ..Event::of(kind).at(target).moving(disp, bytes) });
    }

    /// Records the transfer, which has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_transfer(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.end_transfer(self.ra);
        }
    }

    /// Returns the error of a call that needs an epoch that is not open.
    #[cold]
    pub(crate) fn not_open(&self, call: Call, target: Option<Rank>) -> Error {
        self.hear(Error::NotOpen { rank: self.ra.rank(), call, target })
    }

    /// Returns the error of an operation on a target that this rank has not locked, though it has locked others.
    #[cold]
    pub(crate) fn not_locked(&self, call: Call, target: Rank) -> Error {
        let size = self.ra.size();
        if target.0 >= size {
            return self.hear(Error::NoSuchTarget { call, target, size });
        }
        self.not_open(call, Some(target))
    }

    #[cold]
    pub(crate) fn refuse(&self, call: Call, open: Open) -> Error {
        self.hear(Error::Conflict { rank: self.ra.rank(), call, open })
    }
}
