//! Windows: their memory, their making and their end.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use bytemuck::Pod;
use rmalab_atomics::exposed::{ExposedKey, Lease, UserMemory};
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::{Exclusion, LINE, Policy, WindowLock, WindowLocks};

use crate::bias::{AccumulatePath, Bias, Limits};
use crate::dynamic::Dynamic;
use crate::pscw::{self, Matching};
use crate::target::{Part, Place};
use crate::trace::recorder::{Kind, Recorder, Started};
use crate::two_sided::{OwnPart, OwnPlace, Requests};
use crate::{
    AccumulateStrategy, Attributes, Call, Config, Error, ErrorHandler, FenceStrategy, Ignored, Info, Open, Result,
    Target, Team, Transport,
};

/// A displacement from the start of a target's part of a window, in units that the target has chosen; on a dynamic
/// window an address, as its owner's [`attach`](Window::attach) has returned it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WindowDisp(pub i64);

impl WindowDisp {
    /// The displacement `units` further on.
    pub const fn plus(self, units: i64) -> WindowDisp {
        WindowDisp(self.0.wrapping_add(units))
    }
}

impl fmt::Display for WindowDisp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "displacement {}", self.0)
    }
}

/// How a window came to its memory (the attribute `MPI_WIN_CREATE_FLAVOR`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flavor {
    /// Over memory of the program.
    Create,
    /// Allocated with the window.
    Allocate,
    /// Allocated where all ranks reach it by loads and stores.
    Shared,
    /// Attached and detached while the window lives.
    Dynamic,
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavor::Create => "create",
            Flavor::Allocate => "allocate",
            Flavor::Shared => "shared",
            Flavor::Dynamic => "dynamic",
        })
    }
}

/// What a rank sees of its own memory while others access it (the attribute `MPI_WIN_MODEL`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Model {
    /// One copy, which everybody sees.
    Unified,
    /// A private and a public copy, which the calls of an epoch bring together.
    Separate,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Model::Unified => "unified",
            Model::Separate => "separate",
        })
    }
}

/// One rank's part of a window whose parts differ from each other.
#[derive(Debug)]
pub(crate) struct Fixed<P> {
    place: P,
    bytes: u64,
    unit: u32,
}

/// Where a window's memory is.
#[derive(Debug)]
enum Memory<'t> {
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
    inside: Cell<u32>,
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
    direct: bool,
    memory: Memory<'t>,
    flavor: Flavor,
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
    plain: bool,
    /// What the symmetric heap gets back when the window is freed.
    allocations: Vec<Disp>,
    name: RefCell<String>,
    attributes: RefCell<Attributes>,
    handler: ErrorHandler,
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
    fn part(&self, rank: Rank) -> (Part<'_>, u64, u32) {
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

/// Memory that this rank has exposed for a window that is being made: withdrawn when it is dropped.
struct Exposed<'t, A: RemoteAtomics + ?Sized> {
    ra: &'t A,
    key: ExposedKey,
}

impl<'t, A: RemoteAtomics + ?Sized> Exposed<'t, A> {
    fn new(ra: &'t A, memory: UserMemory) -> Result<Self> {
        let key = ra.expose(memory).map_err(|refused| refused.error)?;
        Ok(Exposed { ra, key })
    }
}

impl<A: RemoteAtomics + ?Sized> Drop for Exposed<'_, A> {
    fn drop(&mut self) {
        // There is another error already. The window is made on no rank, so all leases end, or a rank has failed.
        drop(self.ra.withdraw(self.key));
    }
}

/// The hint that names the folder of a recording.
const RECORD_HINT: &str = "rmalab_record";

/// The hints of a window with this configuration and policy.
fn hints<W: WindowLock>(config: &Config) -> Info {
    let mut info = config.to_info();
    if W::NAME != Policy::NAME {
        // A policy that was fixed at compile time, perhaps one from elsewhere, is in no configuration.
        let _ = info.set("rmalab_lock_policy", W::NAME);
    }
    info
}

/// How a window is to be made; see [`Window::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `allocate`, `create`, `allocate_shared` or `create_dynamic`"]
pub struct Builder<'t, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    team: &'t Team<'t, A>,
    config: Config,
    ignored: Vec<Ignored>,
    params: W::Params,
    disp_unit: u32,
    symmetric: bool,
    name: String,
    slots: u32,
    limits: Limits,
    record: Option<PathBuf>,
}

impl<'t, A: RemoteAtomics + ?Sized> Builder<'t, A> {
    fn new(team: &'t Team<'t, A>) -> Self {
        let (config, ignored) = Config::from_info(&Info::new());
        let record = std::env::var_os(Config::RECORD_VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        Builder {
            team,
            params: config.policy,
            config,
            ignored,
            disp_unit: 1,
            symmetric: false,
            name: String::new(),
            slots: pscw::SLOTS,
            limits: Limits::default(),
            record,
        }
    }

    /// Takes strategies and hints from `info`; what it ignores, [`Window::ignored`] reports.
    pub fn info(mut self, info: &Info) -> Self {
        let mut hints = info.clone();
        if let Some(dir) = hints.delete(RECORD_HINT) {
            self.record = Some(dir.into());
        }
        (self.config, self.ignored) = Config::from_info(&hints);
        self.params = self.config.policy;
        self
    }

    /// Sets all strategies and hints at once; what does not go together, [`Window::ignored`] reports.
    pub fn config(mut self, config: Config) -> Self {
        (self.config, self.ignored) = config.normalized();
        self.params = self.config.policy;
        self
    }

    /// Sets the lock policy, fixed at compile time, and its parameters.
    pub fn policy<W: WindowLock>(self, params: W::Params) -> Builder<'t, A, W> {
        let Builder { team, config, ignored, disp_unit, symmetric, name, slots, limits, record, .. } = self;
        Builder { team, config, ignored, params, disp_unit, symmetric, name, slots, limits, record }
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Builder<'t, A, W> {
    /// Sets the bytes of this rank's unit of displacement; 1 by default.
    pub fn disp_unit(mut self, bytes: u32) -> Self {
        self.disp_unit = bytes;
        self
    }

    /// Sets the window's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Records what each rank does on the window in a file of its own in the folder `dir`, which is made if need be; see
    /// [`trace`](crate::trace). The same on all ranks, also whether it is called.
    ///
    /// Making the window then is collective in any case, and another error of it is [`Error::Trace`], on other ranks
    /// [`Error::NotMade`]. A file that cannot be written any more is the error of [`Window::free`].
    ///
    /// Without this call the hint `rmalab_record` names the folder, and without the hint the variable
    /// [`Config::RECORD_VARIABLE`]; without that nothing is recorded.
    pub fn record(mut self, dir: impl Into<PathBuf>) -> Self {
        self.record = Some(dir.into());
        self
    }

    /// Sets the most slots that a ring of posts has, for tests in which few ranks fill one; the same on all ranks.
    #[doc(hidden)]
    pub fn pscw_slots(mut self, slots: u32) -> Self {
        self.slots = slots.max(1);
        self
    }

    /// Sets when accumulates change from atomics to a lock and back, for tests in which few updates have to do so: from how
    /// many elements on a run is one, after how many elements of runs, after how many single updates.
    #[doc(hidden)]
    pub fn accumulate_limits(mut self, run: usize, debt: u64, rent: u64) -> Self {
        self.limits = Limits { run, debt, rent };
        self
    }

    /// Vouches that all ranks pass the same size and unit to [`allocate`](Self::allocate), which then communicates nothing:
    /// a rank may use the window before another one has made it (foMPI's allocated windows).
    ///
    /// Nothing checks it. Where sizes differ all the same, later allocations of the ranks overlap, and operations reach
    /// other memory of the world than they name.
    pub fn symmetric(mut self) -> Self {
        self.symmetric = true;
        self
    }

    /// Makes a window of `bytes` bytes of this rank, zeroed (`MPI_Win_allocate`).
    ///
    /// Collective; ranks may ask for different sizes and units, and for 0 bytes. Every rank gives as much memory as the
    /// largest part takes. Where all sizes and units are the same, nothing is remembered of the other ranks: memory of the
    /// window's own at a rank is its part and a few cache lines.
    ///
    /// One reduction finds out whether they are the same, and checks the hints `same_size` and `same_disp_unit`;
    /// [`symmetric`](Self::symmetric) does without it.
    ///
    /// # Errors
    ///
    /// [`Error::DispUnit`], [`Error::NotMade`] when another rank's unit is 0; on all ranks alike [`Error::Hint`] when a
    /// promise is not kept, [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), and those of the policy's
    /// [`WindowLock::new`].
    pub fn allocate(self, bytes: u64) -> Result<Window<'t, A, W>> {
        let parts = if self.symmetric { self.check_unit().map(|()| None)? } else { self.compare(bytes)? };
        let most = parts.as_ref().map_or(bytes, |parts| parts.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0));
        let heap = self.team.ra().heap();
        let base = heap.alloc(most.checked_next_multiple_of(WORD).unwrap_or(most), self.alignment())?;
        let memory = match parts {
            None => Memory::Symmetric { base, bytes, unit: self.disp_unit },
            Some(parts) => {
                let fixed = |(rank, (bytes, unit))| Fixed { place: Rank(rank).at(base), bytes, unit };
                Memory::Table((0..).zip(parts).map(fixed).collect())
            }
        };
        self.make(Flavor::Allocate, memory, vec![base])
    }

    /// The sizes and units of all ranks, or `None` if all of them are this rank's.
    fn compare(&self, bytes: u64) -> Result<Option<Vec<(u64, u32)>>> {
        self.team.check_outside()?;
        let own = [bytes, u64::from(self.disp_unit)];
        // The complements' maxima are the minima.
        let mut most = [own[0], own[1], !own[0], !own[1]];
        self.team.collectives().allreduce(&mut most, u64::max)?;
        if most[..2] == own && most[2..] == own.map(|least| !least) {
            self.check_unit()?;
            return Ok(None);
        }
        self.gather(own).map(Some)
    }

    /// The sizes and units of all ranks, which have met, once they are checked.
    fn gather(&self, own: [u64; 2]) -> Result<Vec<(u64, u32)>> {
        // Also with a wrong unit, so that nobody is left waiting.
        let all = self.team.collectives().allgather(&own)?;
        self.check_unit()?;
        if let Some((rank, _)) = (0..).zip(all.chunks_exact(2)).find(|(_, part)| part[1] == 0) {
            return Err(Error::NotMade { rank: Rank(rank) });
        }
        self.check_hints(&all)?;
        Ok(all.chunks_exact(2).map(|part| (part[0], part[1] as u32)).collect())
    }

    /// Makes a window of `bytes` bytes of each rank, zeroed, which all ranks reach by loads and stores
    /// (`MPI_Win_allocate_shared`).
    ///
    /// Collective; ranks may ask for different sizes. The parts follow each other in memory, in the order of the ranks,
    /// unless the hint `alloc_shared_noncontig` allows each to start at a cache line of its own rank's memory.
    ///
    /// # Errors
    ///
    /// [`Error::NotShared`] when the team spans nodes, [`Error::NotMade`] when another rank's unit is 0,
    /// [`Error::Hint`], and as [`allocate`](Self::allocate).
    pub fn allocate_shared(self, bytes: u64) -> Result<Window<'t, A, W>> {
        let ra = self.team.ra();
        self.team.check_outside()?;
        let sizes = self.gather([bytes, u64::from(self.disp_unit)])?;
        let align = self.alignment();
        let apart = self.config.alloc_shared_noncontig;
        let need = if apart {
            sizes.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0)
        } else {
            sizes.iter().fold(0u64, |sum, &(bytes, _)| sum.saturating_add(bytes))
        };
        let base = ra.heap().alloc(need.checked_next_multiple_of(WORD).unwrap_or(need), align)?;
        let mut offset = 0;
        let parts = (0..).zip(sizes).map(|(rank, (bytes, unit))| {
            let place = if apart { Rank(rank).at(base) } else { Rank(0).at(base.plus(offset)) };
            offset += bytes;
            Fixed { place, bytes, unit }
        });
        let parts = parts.collect();
        let reached = |rank: &u32| ra.topology().node_of(Rank(*rank)) == ra.topology().node_of(ra.rank());
        if let Some(target) = (0..ra.size()).find(|rank| !reached(rank)).map(Rank) {
            ra.heap().release(base)?;
            return Err(Error::NotShared { call: Call::Create, rank: ra.rank(), target });
        }
        if ra.shared_words(Rank(0).at(base), 1).is_none() {
            ra.heap().release(base)?;
            return Err(Error::NotShared { call: Call::Create, rank: ra.rank(), target: Rank(0) });
        }
        self.make(Flavor::Shared, Memory::Table(parts), vec![base])
    }

    /// Makes a window over memory that the program already has (`MPI_Win_create`).
    ///
    /// Collective; each rank gives memory of any length, none included, and has its own unit of displacement. The memory
    /// comes back from [`Window::reclaim`]. Until then it is reached through the window only; this rank's own accesses are
    /// those of [`Window::local`].
    ///
    /// A table with an entry for each rank is all that tells where their memory is.
    ///
    /// # Errors
    ///
    /// [`Error::DispUnit`], and [`Unsupported`](rmalab_atomics::Error::Unsupported) where one rank cannot reach memory
    /// of another one's program; then [`Error::NotMade`] on the others. The memory is dropped then.
    pub fn create(self, memory: UserMemory) -> Result<Window<'t, A, W>> {
        let (team, ra) = (self.team, self.team.ra());
        let bytes = memory.len() as u64;
        let exposed = self.check_unit().and_then(|()| Exposed::new(ra, memory));
        let key = exposed.as_ref().map_or(0, |exposed| exposed.key.0);
        let refused = u64::from(exposed.is_err());
        let all = team.collectives().allgather(&[bytes, u64::from(self.disp_unit), key, refused])?;
        // All ranks go through both exchanges, whatever happened to them, so that none is left waiting.
        let leased: Result<Vec<_>> = if all.chunks_exact(4).any(|part| part[3] != 0) {
            Ok(Vec::new())
        } else {
            let leases = (0..).zip(all.chunks_exact(4)).map(|(rank, part)| {
                let place = ra.lease(Rank(rank), ExposedKey(part[2]))?;
                Ok(Fixed { place, bytes: part[0], unit: part[1] as u32 })
            });
            leases.collect()
        };
        let made = team.collectives().allgather(&[u64::from(refused == 0 && leased.is_ok())])?;
        let failed = (0..).zip(&made).find(|&(_, &made)| made == 0).map(|(rank, _)| Rank(rank));
        let own = exposed?;
        // What comes to an end by an error from here on gives its leases back first, then the memory.
        let parts = leased?;
        if let Some(rank) = failed {
            return Err(Error::NotMade { rank });
        }
        let table: Vec<u64> = all.chunks_exact(4).flat_map(|part| [part[0], part[1]]).collect();
        self.check_hints(&table)?;
        let window = self.make(Flavor::Create, Memory::Leased { parts, own: own.key }, Vec::new())?;
        std::mem::forget(own);
        Ok(window)
    }

    /// Makes a window without memory, to which each rank attaches some when it pleases (`MPI_Win_create_dynamic`).
    ///
    /// Collective, without communication. Its displacements are addresses, and its unit is a byte.
    ///
    /// # Errors
    ///
    /// As [`allocate`](Self::allocate).
    pub fn create_dynamic(self) -> Result<Window<'t, A, W>> {
        let dynamic = Dynamic::new(self.team.ra())?;
        let allocations = vec![dynamic.allocation()];
        self.make(Flavor::Dynamic, Memory::Dynamic(dynamic), allocations)
    }

    /// Makes the words of a window's own beside its memory, or gives `allocations` back.
    fn make(mut self, flavor: Flavor, memory: Memory<'t>, mut allocations: Vec<Disp>) -> Result<Window<'t, A, W>> {
        let ra = self.team.ra();
        self.config.pscw = self.config.pscw.for_ranks(ra.size());
        if self.config.mpi_accumulate_granularity > WORD && self.config.accumulate == AccumulateStrategy::Native {
            // Who wants many elements to be synchronized at once wants a lock.
            self.config.accumulate = AccumulateStrategy::Locked;
        }
        let made = self.own_words(&mut allocations).and_then(|words| Ok((words, self.recorder()?)));
        if made.is_err() {
            // On all ranks alike, and nobody has used them: they are zero.
            allocations.iter().try_for_each(|&disp| ra.heap().release(disp))?;
        }
        let ((matching, accumulate_lock, locks), recorder) = made?;
        let two_sided = match self.config.transport {
            Transport::OneSided => None,
            transport => {
                let place = match &memory {
                    &Memory::Symmetric { base, .. } => OwnPlace::Segment(ra.rank().at(base)),
                    Memory::Table(parts) => OwnPlace::Segment(parts[ra.rank().index()].place),
                    &Memory::Leased { own, .. } => OwnPlace::Exposed(own),
                    Memory::Dynamic(dynamic) => OwnPlace::Dynamic(dynamic.allocation()),
                };
                let bytes = match &memory {
                    &Memory::Symmetric { bytes, .. } => bytes,
                    Memory::Table(parts) => parts[ra.rank().index()].bytes,
                    Memory::Leased { parts, .. } => parts[ra.rank().index()].bytes,
                    Memory::Dynamic(_) => 0,
                };
                let part = OwnPart { place, bytes, accumulate: self.config.accumulate, lock: accumulate_lock };
                let agent = transport == Transport::TwoSidedAgent;
                Some(Box::new(Requests::new(self.team.ends(), agent, flavor == Flavor::Shared, part)?))
            }
        };
        if let Some(recorder) = &recorder {
            self.team.recorded(recorder);
        }
        let strategy = self.config.accumulate;
        let exclusion = if two_sided.is_some() { Exclusion::Conflicts } else { locks.exclusion() };
        // Where nothing is locked, exclusive locks tell nothing of the others, and their targets must have no modes.
        let biased = strategy != AccumulateStrategy::Locked
            && exclusion != Exclusion::Nothing
            && two_sided.is_none()
            && ra.size() > 1
            && ra.capabilities().asymmetric_fence;
        let core = Core {
            ra,
            plain: two_sided.is_none() && recorder.is_none(),
            recorder,
            team: self.team,
            ways: AccumulatePath::new(ra, strategy, accumulate_lock, biased),
            bias: Bias::new(self.limits),
            fence: self.config.fence,
            no_locks: self.config.no_locks,
            exclusion,
            usual: !self.config.no_locks && exclusion != Exclusion::Everything,
            direct: two_sided.is_none() && matches!(memory, Memory::Symmetric { .. } | Memory::Leased { .. }),
            memory,
            flavor,
            config: RefCell::new(self.config),
            state: State::default(),
            matching,
            two_sided,
            under_way: Cell::new(0),
            allocations,
            name: RefCell::new(self.name),
            attributes: RefCell::default(),
            handler: ErrorHandler::new(),
        };
        Ok(Window { core, locks: RefCell::new(locks), ignored: self.ignored })
    }

    /// Allocates the matching's words, those of the accumulates' lock, and the locks; notes all of them.
    fn own_words(&self, allocations: &mut Vec<Disp>) -> Result<(Matching, Disp, WindowLocks<W>)> {
        let ra = self.team.ra();
        let matching = Matching::new(ra, self.config.pscw, self.slots)?;
        allocations.push(matching.allocation());
        let accumulate_lock = ra.heap().alloc(AccumulatePath::BYTES, LINE)?;
        allocations.push(accumulate_lock);
        let locks = WindowLocks::<W>::new(ra, self.params)?;
        allocations.extend(locks.allocations());
        Ok((matching, accumulate_lock, locks))
    }

    /// The recorder, if there is to be one.
    fn recorder(&self) -> Result<Option<Rc<Recorder>>> {
        let Some(dir) = &self.record else { return Ok(None) };
        let info = hints::<W>(&self.config).to_string();
        Ok(Some(Rc::new(Recorder::new(self.team, dir, &self.name, info)?)))
    }

    fn alignment(&self) -> u64 {
        self.config.mpi_minimum_memory_alignment.max(LINE)
    }

    fn check_unit(&self) -> Result<()> {
        if self.disp_unit == 0 { Err(Error::DispUnit) } else { Ok(()) }
    }

    /// Holds the promises of `same_size` and `same_disp_unit` against the sizes and units of all ranks.
    fn check_hints(&self, table: &[u64]) -> Result<()> {
        let promises = [
            (self.config.same_size, 0, "the size", "same_size"),
            (self.config.same_disp_unit, 1, "the displacement unit", Config::SAME_DISP_UNIT),
        ];
        for (promised, column, what, hint) in promises {
            if promised && table.chunks_exact(2).any(|part| part[column] != table[column]) {
                return Err(Error::Hint { rank: self.team.ra().rank(), what, hint });
            }
        }
        Ok(())
    }
}

/// One rank's handle of a window: memory of every rank of a team, reached inside epochs.
///
/// Epochs are values, and communication is their methods; what cannot be open together does not compile together. Locks
/// of several targets may be open at once, from `&self`; every other epoch takes the whole window, by `&mut self`, until it
/// ends:
///
/// | epoch | opened by | closed by |
/// | --- | --- | --- |
/// | to one target | [`lock`](Self::lock) | [`Lock::unlock`](crate::Lock::unlock) |
/// | to all targets | [`lock_all`](Self::lock_all) | [`LockAll::unlock_all`](crate::LockAll::unlock_all) |
/// | between fences | [`fence`](Self::fence) | [`Fence::next`](crate::Fence::next), [`Fence::close`](crate::Fence::close) |
/// | access to a group, exposure to a group | [`pscw`](Self::pscw) | [`Access::complete`](crate::Access::complete), [`Exposure::wait`](crate::Exposure::wait) |
///
/// A window that is dropped leaves its memory allocated, and what it exposes exposed, as long as the world lives;
/// [`free`](Self::free) and [`reclaim`](Self::reclaim) give it back.
#[derive(Debug)]
pub struct Window<'t, A: RemoteAtomics + ?Sized, W = Policy> {
    pub(crate) core: Core<'t, A>,
    pub(crate) locks: RefCell<WindowLocks<W>>,
    ignored: Vec<Ignored>,
}

impl<'t, A: RemoteAtomics + ?Sized> Window<'t, A> {
    /// Tells how a window is to be made.
    pub fn builder(team: &'t Team<'t, A>) -> Builder<'t, A> {
        Builder::new(team)
    }

    /// As [`Builder::allocate`], with everything else as it is by default.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn allocate(team: &'t Team<'t, A>, bytes: u64) -> Result<Self> {
        Self::builder(team).allocate(bytes)
    }

    /// As [`Builder::create`] over the elements of `vec`, with a displacement unit of one element.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn create<T: Pod + Send>(team: &'t Team<'t, A>, vec: Vec<T>) -> Result<Self> {
        let unit = u32::try_from(size_of::<T>().max(1)).unwrap_or(u32::MAX);
        Self::builder(team).disp_unit(unit).create(UserMemory::from_vec(vec))
    }

    /// As [`Builder::allocate_shared`], with everything else as it is by default.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn allocate_shared(team: &'t Team<'t, A>, bytes: u64) -> Result<Self> {
        Self::builder(team).allocate_shared(bytes)
    }

    /// As [`Builder::create_dynamic`], with everything else as it is by default.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn create_dynamic(team: &'t Team<'t, A>) -> Result<Self> {
        Self::builder(team).create_dynamic()
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'t, A, W> {
    /// The team whose ranks the window's targets are (`MPI_Win_get_group`).
    pub fn team(&self) -> &'t Team<'t, A> {
        self.core.team
    }

    /// How the window came to its memory.
    pub fn flavor(&self) -> Flavor {
        self.core.flavor
    }

    /// What a rank sees of its own memory: one copy, but for two-sided windows, see [`two_sided`](crate::two_sided).
    pub fn model(&self) -> Model {
        if self.core.two_sided.is_some() { Model::Separate } else { Model::Unified }
    }

    /// Bytes of this rank's part (the attribute `MPI_WIN_SIZE`); 0 for a dynamic window.
    pub fn bytes(&self) -> u64 {
        self.core.part(self.core.ra.rank()).1
    }

    /// Bytes of this rank's unit of displacement (the attribute `MPI_WIN_DISP_UNIT`).
    pub fn disp_unit(&self) -> u32 {
        self.core.part(self.core.ra.rank()).2
    }

    /// Bytes of this rank's own memory, outside of its segment, in which the window remembers the other ranks: where their
    /// parts are, its epochs with each ([`PscwStrategy::Flags`](crate::PscwStrategy::Flags)), and what they have attached.
    ///
    /// What is remembered is counted, and not what the program's allocator keeps beside it.
    pub fn remembered_bytes(&self) -> u64 {
        let parts = match &self.core.memory {
            Memory::Symmetric { .. } => 0,
            Memory::Table(parts) => size_of_val(&parts[..]),
            Memory::Leased { parts, .. } => {
                size_of_val(&parts[..]) + parts.iter().map(|part| size_of_val(&*part.place)).sum::<usize>()
            }
            Memory::Dynamic(dynamic) => dynamic.remembered_bytes(),
        };
        (parts + self.core.matching.remembered_bytes()) as u64
    }

    /// This rank's part of the window, as words that it reaches by loads and stores (the attribute `MPI_WIN_BASE`).
    ///
    /// `None` for a dynamic window, and where the backend has no such way.
    pub fn base(&self) -> Option<&[AtomicU64]> {
        self.reach(Call::Local, self.core.ra.rank()).ok()?.words()
    }

    /// The strategies and hints in use, defaults included (`MPI_Win_get_info`).
    pub fn info(&self) -> Info {
        let mut info = hints::<W>(&self.core.config.borrow());
        if let Some(recorder) = &self.core.recorder {
            // Of a folder whose name is too long for a value nothing is told.
            let _ = info.set(RECORD_HINT, &recorder.dir().to_string_lossy());
        }
        info
    }

    /// Changes hints (`MPI_Win_set_info`); those that are not mentioned stay. Returns what was ignored, and why.
    pub fn set_info(&self, info: &Info) -> Vec<Ignored> {
        self.core.config.borrow_mut().update(info)
    }

    /// What was ignored of the info that the window was made with.
    pub fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    /// The window's name (`MPI_Win_get_name`); empty if it was given none.
    pub fn name(&self) -> String {
        self.core.name.borrow().clone()
    }

    /// Names the window (`MPI_Win_set_name`).
    pub fn set_name(&self, name: impl Into<String>) {
        self.core.name.replace(name.into());
    }

    /// What the program keeps with the window (`MPI_Win_set_attr` and its kind).
    pub fn attributes(&self) -> &RefCell<Attributes> {
        &self.core.attributes
    }

    /// What is called with every error of the window's calls (`MPI_Win_set_errhandler` and its kind).
    pub fn error_handler(&self) -> &ErrorHandler {
        &self.core.handler
    }

    /// This rank's own part, by loads, stores and copies; no epoch is needed.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`] for a dynamic window, whose memory is reached by an epoch to oneself.
    pub fn local(&self) -> Result<Local<'_, A>> {
        self.reach(Call::Local, self.core.ra.rank()).map_err(|error| self.core.hear(error))
    }

    /// A rank's part, by loads, stores and copies (`MPI_Win_shared_query`); `None` asks for the lowest rank of those that
    /// this one shares memory with whose part is not empty, and for the lowest of them if all parts are.
    ///
    /// As since MPI-4.1, created and allocated windows have it, too, where the memory can be reached.
    ///
    /// # Errors
    ///
    /// [`Error::NotShared`] when this rank does not reach that memory by loads and stores, [`Error::Flavor`] for a
    /// dynamic window, and [`Error::NoSuchTarget`].
    pub fn shared_query(&self, rank: impl Into<Option<Rank>>) -> Result<Local<'_, A>> {
        let ra = self.core.ra;
        let node = |rank| ra.topology().node_of(rank);
        let rank = rank.into().unwrap_or_else(|| {
            let mut here = (0..ra.size()).map(Rank).filter(|&rank| node(rank) == node(ra.rank()));
            let has_memory = |local: Local<'_, A>| local.bytes() > 0 && local.reached().is_some();
            let found = here.clone().find(|&rank| self.reach(Call::SharedQuery, rank).is_ok_and(has_memory));
            found.or_else(|| here.next()).unwrap_or(ra.rank())
        });
        let local = self.reach(Call::SharedQuery, rank).map_err(|error| self.core.hear(error))?;
        if node(rank) != node(ra.rank()) || (local.bytes() > 0 && local.reached().is_none()) {
            return Err(self.core.hear(Error::NotShared { call: Call::SharedQuery, rank: ra.rank(), target: rank }));
        }
        Ok(local)
    }

    pub(crate) fn reach(&self, call: Call, rank: Rank) -> Result<Local<'_, A>> {
        let Core { ra, .. } = self.core;
        if rank.0 >= ra.size() {
            return Err(Error::NoSuchTarget { call, target: rank, size: ra.size() });
        }
        let (part, bytes, unit) = self.core.part(rank);
        match part {
            Part::Fixed(place) => {
                let core = &self.core;
                let ways = core.ways;
                Ok(Local {
                    target: Target {
                        ra,
                        core,
                        ways,
                        words: &[],
                        rank,
                        part,
                        bytes,
                        unit,
                        alone: false,
                        epoch: PhantomData,
                    },
                    place,
                })
            }
            Part::Null | Part::Dynamic(_) | Part::Recorded { .. } => {
                Err(Error::Flavor { call, flavor: self.core.flavor })
            }
        }
    }

    /// Makes this rank's loads and stores and the accesses of others agree (`MPI_Win_sync`).
    pub fn sync(&self) {
        fence(Ordering::SeqCst);
    }

    /// Attaches memory to a dynamic window, and returns its address for the others (`MPI_Win_attach`).
    ///
    /// Not collective. The window owns the memory until it is detached.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`]; [`Error::Attach`] when it overlaps attached memory, when it is empty, or when the network has no
    /// place for more exposed memory of this rank; and those of [`RemoteAtomics::expose`]. The memory is dropped then.
    pub fn attach(&self, memory: UserMemory) -> Result<WindowDisp> {
        let attached = self.core.dynamic(Call::Attach).and_then(|dynamic| dynamic.attach(self.core.ra, memory));
        attached.map_err(|error| self.core.hear(error))
    }

    /// Frees the window (`MPI_Win_free`); collective, a barrier before and after.
    ///
    /// # Errors
    ///
    /// [`Error::LeftOpen`] when an epoch of this rank was never closed, the error of an earlier epoch that was dropped,
    /// and [`PeerFailed`](rmalab_atomics::Error::PeerFailed). The window is freed all the same, as far as its peers live.
    pub fn free(self) -> Result<()> {
        Ok(self.reclaim().map(drop)?)
    }

    /// As [`free`](Self::free), and gives the memory back that the program gave: of a created window one piece, of a
    /// dynamic one what is still attached, in the order of the addresses.
    ///
    /// # Errors
    ///
    /// As [`free`](Self::free), with the memory. Only what another rank may still write to, after a rank has failed, never
    /// comes back.
    pub fn reclaim(self) -> Result<Vec<UserMemory>, FreeError> {
        let settled = self.core.settle_last().map(|()| self.open());
        let core = self.core;
        let recorded = core.recorder.as_ref().map_or(Ok(()), |recorder| recorder.finish());
        let (ra, team) = (core.ra, core.team);
        let earlier = core.check();
        let handler = core.handler.get();
        // Locks that were forgotten go with the window.
        team.leave(core.state.inside.get());
        let Core { memory, allocations, attributes, two_sided, .. } = core;
        drop(attributes);
        let flushed = ra.flush_all();
        // What the program gave, and a list of the window's own.
        let (own, list) = match memory {
            Memory::Leased { parts, own } => {
                drop(parts);
                (vec![own], None)
            }
            Memory::Dynamic(dynamic) => (dynamic.keys(), dynamic.list()),
            Memory::Symmetric { .. } | Memory::Table(_) => (Vec::new(), None),
        };
        // Behind this barrier nobody uses the window any more, and nobody has a lease. What fails before it, or behind it,
        // keeps no rank from the barriers, nor the memory from its owner.
        let freed = team.barrier_anywhere().and_then(|()| {
            let left = two_sided.as_ref().map_or(Ok(()), |requests| requests.leave());
            for &disp in &allocations {
                ra.clear(disp, ra.heap().len_of(disp)?)?;
                ra.heap().release(disp)?;
            }
            left
        });
        let mut memory = Vec::new();
        let mut withdrawn = Ok(());
        for key in own {
            match ra.withdraw(key) {
                Ok(piece) => memory.push(piece),
                Err(error) => withdrawn = Err(error),
            }
        }
        let listed = list.map_or(Ok(()), |key| ra.withdraw(key).map(drop));
        // Nobody gets the memory again before it is zero everywhere.
        let zeroed = team.collectives().barrier();
        let network = flushed.and(withdrawn).and(listed).and(zeroed).map_err(Error::from);
        let served = two_sided.map_or(Ok(()), |requests| requests.last_error());
        let left = match freed.and(network).and(recorded).and(served).and(settled) {
            Ok(None) => None,
            Ok(Some(open)) => Some(Error::LeftOpen { rank: ra.rank(), call: Call::Free, open }),
            Err(error) => Some(error),
        };
        if let (Some(handler), Some(error)) = (handler, &left) {
            handler(error);
        }
        // The handler has heard an earlier error already.
        match earlier.err().or(left) {
            None => Ok(memory),
            Some(error) => Err(FreeError { error, memory }),
        }
    }
}

/// Why a window was not freed in order, and the memory that came back all the same; see [`Window::reclaim`].
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct FreeError {
    /// Why.
    #[source]
    pub error: Error,
    /// The memory that the program gave, but for what other ranks may still write to.
    pub memory: Vec<UserMemory>,
}

impl From<FreeError> for Error {
    fn from(failed: FreeError) -> Error {
        failed.error
    }
}

/// A part of a window that this rank reaches by loads, stores and copies, without an epoch.
///
/// It is memory that others may access at the same time, so there are no references to it, only copies, and words as
/// atomics. Displacements are in the units of the rank whose part it is.
#[derive(Debug)]
pub struct Local<'w, A: RemoteAtomics + ?Sized> {
    target: Target<'w, A>,
    place: Place<'w>,
}

impl<'w, A: RemoteAtomics + ?Sized> Local<'w, A> {
    pub(crate) fn part(&self) -> Part<'w> {
        self.target.part
    }

    /// Whose part it is.
    pub fn rank(&self) -> Rank {
        self.target.rank
    }

    /// Bytes of the part.
    pub fn bytes(&self) -> u64 {
        self.target.bytes
    }

    /// Bytes of a unit of displacement.
    pub fn disp_unit(&self) -> u32 {
        self.target.unit
    }

    /// Loads a value.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`].
    #[inline]
    pub fn load<T: Pod>(&self, disp: WindowDisp) -> Result<T> {
        self.target.get_value(disp)
    }

    /// Stores a value.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`].
    #[inline]
    pub fn store<T: Pod>(&self, disp: WindowDisp, value: T) -> Result<()> {
        self.target.put_value(disp, value)
    }

    /// Copies values out.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`].
    #[inline]
    pub fn read<T: Pod>(&self, disp: WindowDisp, dest: &mut [T]) -> Result<()> {
        self.target.get(disp, dest)
    }

    /// Copies values in.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`].
    #[inline]
    pub fn write<T: Pod>(&self, disp: WindowDisp, source: &[T]) -> Result<()> {
        self.target.put(disp, source)
    }

    /// The part's whole words, where this rank's processor reaches them and the part starts at one.
    pub fn words(&self) -> Option<&'w [AtomicU64]> {
        let (head, words) = self.reached()?;
        (head == 0).then_some(words)
    }

    /// Bytes before the first word, and the words.
    fn reached(&self) -> Option<(u64, &'w [AtomicU64])> {
        match self.place {
            Place::Segment(at) => {
                let head = at.disp.0.next_multiple_of(WORD) - at.disp.0;
                let words = self.target.bytes.saturating_sub(head) / WORD;
                let first = at.rank.at(at.disp.plus(head));
                let words = if words == 0 { &[] } else { self.target.core.ra.shared_words(first, words)? };
                Some((head, words))
            }
            Place::Leased(lease) => lease.words().map(|leased| (leased.head, leased.words)),
            Place::TwoSided(..) => None,
        }
    }
}
