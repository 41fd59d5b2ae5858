//! What operations and epochs of a window share: its memory, its strategies, what stands open.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use rmalab_atomics::exposed::{ExposedKey, Lease};
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::Exclusion;

use crate::bias::{Bias, AccumulatePath};
use crate::dynamic::Dynamic;
use crate::pscw::Matching;
use crate::target::{Part, Place};
use crate::trace::recorder::{Kind, Recorder, Started};
use crate::two_sided::Requests;
use crate::{Attributes, Call, Config, Error, ErrorHandler, FenceStrategy, Flavor, Open, Result, Target, Team};

#[derive(Debug)]
pub(crate) struct Fixed<P> {
    pub(crate) place: P,
    pub(crate) bytes: u64,
    pub(crate) unit: u32,
}

/// Where a window's memory is.
#[derive(Debug)]
pub(crate) enum Memory<'t> {
    /// At the same displacement of every rank's segment, and as much of it: nothing to remember of the others.
    Symmetric { base: Disp, bytes: u64, unit: u32 },
    /// Somewhere in a segment, each rank's elsewhere.
    Table(Vec<Fixed<Address>>),
    /// Memory of the ranks' programs.
    Leased { parts: Vec<Fixed<Box<dyn Lease + 't>>>, own: ExposedKey },
    /// Whatever is attached.
    Dynamic(Dynamic),
}

/// An access epoch by start, or an exposure epoch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Side {
    #[default]
    Closed,
    Open,
    /// A panic has left it, and the next call ends it.
    Abandoned,
}

/// What stands open on a window beside locks, which [`WindowLocks`] keeps.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether a fence epoch is open: a target was asked for since the last fence.
    pub(crate) fence: Cell<bool>,
    /// Whether the last fence allows that.
    pub(crate) fenced: Cell<bool>,
    pub(crate) access: Cell<Side>,
    pub(crate) exposure: Cell<Side>,
    /// How many locks this rank holds that keep others from theirs, of those that [`Team::enter`] knows.
    pub(crate) inside: Cell<u32>,
    /// Room for the group of the next access epoch, so that none has to be allocated.
    pub(crate) group: RefCell<Vec<Rank>>,
    /// An epoch of any kind was forgotten, so that a later call finds it open; see [`Core::check`].
    pub(crate) failed: RefCell<Option<Error>>,
}

/// All of a window but its locks.
pub(crate) struct Core<'t, A: RemoteAtomics + ?Sized> {
    pub(crate) ra: &'t A,
    pub(crate) team: &'t Team<'t, A>,
    pub(crate) ways: AccumulatePath<'t>,
    pub(crate) bias: Bias,
    pub(crate) fence: FenceStrategy,
    pub(crate) no_locks: bool,
    /// Which locks of different ranks its policy keeps apart.
    pub(crate) exclusion: Exclusion,
    /// Whether there are locks, and shared ones are held together: then a lock looks at nothing else.
    pub(crate) usual: bool,
    /// Whether what was issued to a target is completed by a flush of the target.
    pub(crate) direct: bool,
    pub(crate) memory: Memory<'t>,
    pub(crate) flavor: Flavor,
    pub(crate) config: RefCell<Config>,
    pub(crate) state: State,
    pub(crate) matching: Matching,
    /// What a two-sided window does instead.
    pub(crate) two_sided: Option<Box<Requests<'t>>>,
    /// How many requests no call has waited for.
    pub(crate) under_way: Cell<u64>,
    /// What writes down what this rank does, if it is recorded.
    pub(crate) recorder: Option<Rc<Recorder>>,
    /// Whether operations are done at once: by no request, and unrecorded.
    pub(crate) plain: bool,
    /// What the symmetric heap gets back when the window is freed.
    pub(crate) allocations: Vec<Disp>,
    pub(crate) name: RefCell<String>,
    pub(crate) attributes: RefCell<Attributes>,
    pub(crate) handler: ErrorHandler,
}

impl<A: RemoteAtomics + ?Sized> fmt::Debug for Core<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("name", &self.name)
            .field("flavor", &self.flavor)
            .field("memory", &self.memory)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl<'t, A: RemoteAtomics + ?Sized> Core<'t, A> {
    /// The target `rank`, or the null target.
    #[inline(always)]
    pub(crate) fn target<P>(&self, call: Call, rank: Option<Rank>, alone: bool) -> Result<Target<'_, A, P>> {
        match rank {
            Some(rank) if rank.0 >= self.ra.size() => {
                // Here and not in the callers: a target that passes through their `map_err` is copied through memory.
                Err(self.hear(Error::NoSuchTarget { call, target: rank, size: self.ra.size() }))
            }
            Some(rank) => Ok(self.member(call, rank, alone)),
            None => Ok(Target {
                ra: self.ra,
                core: self,
                ways: self.ways,
                words: &[],
                rank: Rank(0),
                part: Part::Null,
                bytes: 0,
                unit: 1,
                alone,
                epoch: PhantomData,
            }),
        }
    }

    /// The target `rank`, which is one of the team.
    #[inline(always)]
    pub(crate) fn member<P>(&self, call: Call, rank: Rank, alone: bool) -> Target<'_, A, P> {
        // What most windows are is inlined, in parts and not as a whole, which would be copied.
        let mut words: &[AtomicU64] = &[];
        let (part, bytes, unit) = match self.memory {
            Memory::Symmetric { base, bytes, unit } if self.plain => {
                // Who locks exclusively does little before the unlock: less than this takes.
                if !alone {
                    words = self.ra.direct_words(rank.at(base), bytes / WORD).unwrap_or_default();
                }
                (Part::Fixed(Place::Segment(rank.at(base))), bytes, unit)
            }
            _ => {
                let (part, bytes, unit) = self.reached(call, rank);
                (part, bytes, unit)
            }
        };
        let alone = alone && self.two_sided.is_none();
        // Nobody else updates meanwhile what is held exclusively, in whichever mode.
        let ways = if alone { self.ways.unbiased() } else { self.ways.to(self.ra, rank) };
        Target { ra: self.ra, core: self, ways, words, rank, part, bytes, unit, alone, epoch: PhantomData }
    }

    /// The part of a rank of the team, its bytes and its displacement unit, wherever it is and however it is reached.
    #[inline(never)]
    fn reached(&self, call: Call, rank: Rank) -> (Part<'_>, u64, u32) {
        let active = matches!(call, Call::Fence | Call::Start);
        let (_, bytes, unit) = self.part(rank);
        let part = if self.recorder.is_some() { Part::Recorded { active } } else { self.unrecorded(rank, active) };
        (part, bytes, unit)
    }

    /// The part of a rank of the team, as operations reach it.
    #[cold]
    pub(crate) fn unrecorded(&self, rank: Rank, active: bool) -> Part<'_> {
        match (&self.two_sided, self.part(rank).0) {
            (None, part) => part,
            // In an active epoch nobody else's progress is needed for oneself.
            (_, part) if active && rank == self.ra.rank() => part,
            (Some(requests), Part::Dynamic(_)) => Part::Dynamic(Some(requests)),
            (Some(requests), _) => Part::Fixed(Place::TwoSided(requests, rank)),
        }
    }

    /// The part of a rank of the team, its bytes and its displacement unit.
    #[inline(always)]
    pub(crate) fn part(&self, rank: Rank) -> (Part<'_>, u64, u32) {
        match &self.memory {
            &Memory::Symmetric { base, bytes, unit } => (Part::Fixed(Place::Segment(rank.at(base))), bytes, unit),
            Memory::Table(parts) => {
                let Fixed { place, bytes, unit } = parts[rank.index()];
                (Part::Fixed(Place::Segment(place)), bytes, unit)
            }
            Memory::Leased { parts, .. } => {
                let Fixed { place, bytes, unit } = &parts[rank.index()];
                (Part::Fixed(Place::Leased(&**place)), *bytes, *unit)
            }
            Memory::Dynamic(_) => (Part::Dynamic(None), 0, 1),
        }
    }

    /// This, unless what was issued to a target is completed by a flush of the target.
    #[inline(always)]
    pub(crate) fn elsewhere(&self) -> Option<&Self> {
        (!self.direct).then_some(self)
    }

    /// Completes what was issued to `target`, a rank of the team, where its memory is.
    #[inline(never)]
    pub(crate) fn flush(&self, target: Rank) -> Result<()> {
        match (&self.two_sided, &self.memory) {
            (Some(requests), _) => requests.flush(target),
            (None, Memory::Symmetric { .. } | Memory::Leased { .. }) => Ok(self.ra.flush(target)?),
            (None, Memory::Table(parts)) => Ok(self.ra.flush(parts[target.index()].place.rank)?),
            (None, Memory::Dynamic(dynamic)) => dynamic.flush(self.ra, target),
        }
    }

    /// As [`flush`](Self::flush), before the target is unlocked.
    #[inline(never)]
    pub(crate) fn flush_last(&self, target: Rank) -> Result<()> {
        self.two_sided.as_ref().map_or_else(|| self.flush(target), |requests| requests.unlock(target))
    }

    /// As [`flush`](Self::flush), for all targets.
    #[inline(never)]
    pub(crate) fn flush_all(&self) -> Result<()> {
        self.two_sided.as_ref().map_or_else(|| Ok(self.ra.flush_all()?), |requests| requests.flush_all())
    }

    /// As [`flush_all`](Self::flush_all), before all targets are unlocked.
    #[inline(never)]
    pub(crate) fn flush_all_last(&self) -> Result<()> {
        self.two_sided.as_ref().map_or_else(|| Ok(self.ra.flush_all()?), |requests| requests.unlock_all())
    }

    /// This rank holds a shared lock that keeps all others out, though MPI would let them in.
    #[cold]
    pub(crate) fn enter(&self, open: Open) {
        self.state.inside.set(self.state.inside.get() + 1);
        self.team.enter(open);
    }

    /// It holds the lock no more.
    #[cold]
    pub(crate) fn leave(&self) {
        self.state.inside.set(self.state.inside.get() - 1);
        self.team.leave(1);
    }

    pub(crate) fn dynamic(&self, call: Call) -> Result<&Dynamic> {
        match &self.memory {
            Memory::Dynamic(dynamic) => Ok(dynamic),
            _ => Err(Error::Flavor { call, flavor: self.flavor }),
        }
    }

    /// What stands open beside locks.
    pub(crate) fn open(&self) -> Option<Open> {
        let State { fence, access, exposure, .. } = &self.state;
        if fence.get() {
            Some(Open::Fence)
        } else if access.get() != Side::Closed {
            Some(Open::Access)
        } else {
            (exposure.get() != Side::Closed).then_some(Open::Exposure)
        }
    }

    /// The error that an epoch left behind which ended by being dropped, once.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        // A look first: taking would write the whole error's room.
        if self.state.failed.borrow().is_none() { Ok(()) } else { self.state.failed.take().map_or(Ok(()), Err) }
    }

    /// Keeps the error of an epoch that ended by being dropped, for the next call that opens one.
    #[cold]
    pub(crate) fn keep(&self, error: Error) {
        self.keep_heard(self.hear(error));
    }

    /// As [`keep`](Self::keep), of an error that the handler has heard.
    #[cold]
    pub(crate) fn keep_heard(&self, error: Error) {
        self.state.failed.replace(Some(error));
    }

    /// Calls the window's error handler with the error of a call, and returns the error. Once for each error.
    #[cold]
    #[inline(never)]
    pub(crate) fn hear(&self, error: impl Into<Error>) -> Error {
        let error = error.into();
        self.handler.call(&error);
        error
    }

    /// A call begins that is recorded if the window is.
    #[inline(always)]
    pub(crate) fn start(&self) -> Option<Started<'_>> {
        self.recorder.as_ref().map(|recorder| recorder.start(self.ra))
    }

    /// It has ended.
    #[inline(always)]
    pub(crate) fn record(&self, started: Option<Started<'_>>, kind: Kind, target: Rank, bytes: u64) {
        if let Some(started) = started {
            started.end(self.ra, kind, target, bytes);
        }
    }

    pub(crate) fn refuse(&self, call: Call, open: Open) -> Error {
        self.hear(Error::Conflict { rank: self.ra.rank(), call, open })
    }
}
