//! The builder of windows.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Once;

use rmalab_atomics::registered::{RegisteredKey, UserMemory};
use rmalab_atomics::{Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::{Exclusion, LINE, Policy, WindowLock, WindowLocks};

use crate::bias::{AccumulatePath, Bias, Limits};
use crate::dynamic::Dynamic;
use crate::raw::core::{Fixed, Memory};
use crate::raw::epochs::Epochs;
use crate::raw::matching::{self, Matching};
use crate::trace::recorder::{self, Recorder};
use crate::two_sided::{OwnPart, OwnPlace, Requests};
use crate::{
    AccumulateStrategy, Call, Config, Error, ErrorHandler, Flavor, Ignored, Info, RawWindow, Result, Team, Transport,
    Window, WindowCore,
};

/// Memory that this rank has registered for a window that is being made. Dropping it deregisters the memory.
struct Exposed<'t, A: RemoteAtomics + ?Sized> {
    ra: &'t A,
    key: RegisteredKey,
}

impl<'t, A: RemoteAtomics + ?Sized> Exposed<'t, A> {
    fn new(ra: &'t A, memory: UserMemory) -> Result<Self> {
        let key = ra.register(memory).map_err(|refused| refused.error)?;
        Ok(Exposed { ra, key })
    }
}

impl<A: RemoteAtomics + ?Sized> Drop for Exposed<'_, A> {
    fn drop(&mut self) {
        // There is already another error. No rank makes the window, so all pins end, or a rank has failed.
        drop(self.ra.deregister(self.key));
    }
}

/// The hint that names the folder of a recording.
pub(crate) const RECORD_HINT: &str = "rmalab_record";

/// Returns the hints of a window with this configuration and policy.
pub(crate) fn hints(config: &Config, policy: &str) -> Info {
    let mut info = config.to_info();
    if policy != Policy::NAME {
        // A policy that was fixed at compile time, perhaps from another crate, is not in the configuration.
        let _ = info.set("rmalab_lock_policy", policy);
    }
    info
}

/// Makes windows; see [`Window::builder`].
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
    /// True if [`Config::RECORD_VARIABLE`] may ask for a recording.
    reads_variable: bool,
}

impl<'t, A: RemoteAtomics + ?Sized> Builder<'t, A> {
    pub(crate) fn new(team: &'t Team<'t, A>) -> Self {
        let (config, ignored) = Config::from_info(&Info::new());
        Builder {
            team,
            params: config.policy,
            config,
            ignored,
            disp_unit: 1,
            symmetric: false,
            name: String::new(),
            slots: matching::SLOTS,
            limits: Limits::default(),
            record: None,
            reads_variable: true,
        }
    }

    /// Sets the strategies and hints of `info`. [`WindowCore::ignored`](crate::WindowCore::ignored) returns those that are ignored.
    pub fn info(mut self, info: &Info) -> Self {
        let mut hints = info.clone();
        if let Some(dir) = hints.delete(RECORD_HINT) {
            self.record = Some(dir.into());
        }
        (self.config, self.ignored) = Config::from_info(&hints);
        self.params = self.config.policy;
        self
    }

    /// Sets all strategies and hints at once. [`WindowCore::ignored`](crate::WindowCore::ignored) returns those that contradict others.
    pub fn config(mut self, config: Config) -> Self {
        (self.config, self.ignored) = config.normalized();
        self.params = self.config.policy;
        self
    }

    /// Sets the lock policy, fixed at compile time, and its parameters.
    pub fn policy<W: WindowLock>(self, params: W::Params) -> Builder<'t, A, W> {
        let Builder {
            team, config, ignored, disp_unit, symmetric, name, slots, limits, record, reads_variable, ..
        } = self;
        Builder { team, config, ignored, params, disp_unit, symmetric, name, slots, limits, record, reads_variable }
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Builder<'t, A, W> {
    pub(crate) fn team(&self) -> &'t Team<'t, A> {
        self.team
    }

    /// Ignores the variable [`Config::RECORD_VARIABLE`].
    pub fn without_variable(mut self) -> Self {
        self.reads_variable = false;
        self
    }

    /// Sets this rank's displacement unit in bytes; 1 by default.
    pub fn disp_unit(mut self, bytes: u32) -> Self {
        self.disp_unit = bytes;
        self
    }

    /// Sets the window's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Records each rank's calls on the window; see [`trace`](crate::trace).
    ///
    /// Each rank writes its own file in the folder `dir`, which is created if necessary. Either all ranks call this, with the same folder,
    /// or no rank. Making the window is always collective then. If a file cannot be made, the error is [`Error::Trace`], and
    /// [`Error::NotMade`] on other ranks. If a file cannot be written later, [`Window::free`] returns the error.
    ///
    /// Without this call, the hint `rmalab_record` names the folder, and without the hint the variable [`Config::RECORD_VARIABLE`].
    /// Without the variable, nothing is recorded.
    pub fn record(mut self, dir: impl Into<PathBuf>) -> Self {
        self.record = Some(dir.into());
        self
    }

    /// Sets the largest number of slots in a ring of posts, for tests in which few ranks fill one. It is the same on all ranks.
    #[doc(hidden)]
    pub fn pscw_slots(mut self, slots: u32) -> Self {
        self.slots = slots.max(1);
        self
    }

    /// Sets the thresholds at which accumulates change from atomics to a lock and back, for tests with few updates. `run` is the
    /// smallest run in elements, `debt` the elements of runs before a change, and `rent` the single updates before a change back.
    #[doc(hidden)]
    pub fn accumulate_limits(mut self, run: usize, debt: u64, rent: u64) -> Self {
        self.limits = Limits { run, debt, rent };
        self
    }

    /// Promises that all ranks pass the same size and unit to [`allocate`](Self::allocate), which then does not communicate. A rank may use
    /// the window before another rank has made it (foMPI's allocated windows).
    ///
    /// The promise is not checked. If sizes differ, later allocations of the ranks overlap, and operations reach other memory of the world
    /// than they name.
    pub fn symmetric(mut self) -> Self {
        self.symmetric = true;
        self
    }

    /// Makes a window with `bytes` zeroed bytes at this rank (`MPI_Win_allocate`).
    ///
    /// The call is collective. Ranks may ask for different sizes and units, and for 0 bytes. Every rank gives as much memory as the largest
    /// part takes. If all sizes and units are the same, the window stores nothing about the other ranks. At each rank it takes its part and
    /// a few cache lines.
    ///
    /// One reduction finds out whether they are the same, and checks the hints `same_size` and `same_disp_unit`.
    /// [`symmetric`](Self::symmetric) needs no reduction.
    ///
    /// # Errors
    ///
    /// [`Error::DispUnit`], and [`Error::NotMade`] when another rank's unit is 0. On all ranks: [`Error::Hint`] when a promise is not kept,
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), and the errors of the policy's [`WindowLock::new`].
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

    /// Returns the sizes and units of all ranks, or `None` if all are the same as this rank's.
    fn compare(&self, bytes: u64) -> Result<Option<Vec<(u64, u32)>>> {
        self.team.check_outside()?;
        let own = [bytes, u64::from(self.disp_unit)];
        // The maxima of the complements give the minima.
        let mut most = [own[0], own[1], !own[0], !own[1]];
        self.team.collectives().allreduce(&mut most, u64::max)?;
        if most[..2] == own && most[2..] == own.map(|least| !least) {
            self.check_unit()?;
            return Ok(None);
        }
        self.gather(own).map(Some)
    }

    /// Checks the sizes and units of all ranks, and returns them, after the ranks have exchanged them.
    fn gather(&self, own: [u64; 2]) -> Result<Vec<(u64, u32)>> {
        // This rank takes part even with a wrong unit, so that no rank waits forever.
        let all = self.team.collectives().allgather(&own)?;
        self.check_unit()?;
        if let Some((rank, _)) = (0..).zip(all.chunks_exact(2)).find(|(_, part)| part[1] == 0) {
            return Err(Error::NotMade { rank: Rank(rank) });
        }
        self.check_hints(&all)?;
        Ok(all.chunks_exact(2).map(|part| (part[0], part[1] as u32)).collect())
    }

    /// Makes a window with `bytes` zeroed bytes at this rank, which all ranks reach by loads and stores (`MPI_Win_allocate_shared`).
    ///
    /// The call is collective. Ranks may ask for different sizes. The parts follow each other in memory in the order of the ranks. With the
    /// hint `alloc_shared_noncontig`, each part starts at a cache line of its rank's memory.
    ///
    /// # Errors
    ///
    /// [`Error::NotShared`] when the team spans nodes, [`Error::NotMade`] when another rank's unit is 0,
    /// [`Error::Hint`], and the errors of [`allocate`](Self::allocate).
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

    /// Makes a window over the memory of `window`, for this builder's team, which has some of its ranks: after a failure,
    /// the [survivors](rmalab_atomics::Survivors).
    ///
    /// All ranks of the team call it at the same point of their sequences of allocations, without communication. The window has the size,
    /// displacement unit and content of `window`. Its locks and epochs are new, so old locks of a failed rank block no rank. Parts of other
    /// ranks cannot be reached. The old window must have no open epoch, and makes no further call. Its memory stays allocated.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`] unless `window` is allocated with the same size and unit on all ranks. The network's error of a wrong world when a
    /// rank of the team is not a rank of `window`. The errors of [`allocate`](Self::allocate).
    pub fn over<B: RemoteAtomics + ?Sized>(mut self, window: &WindowCore<'_, B>) -> Result<Window<'t, A, W>> {
        self.team.check_outside()?;
        let &Memory::Symmetric { base, bytes, unit } = &window.memory else {
            return Err(Error::Flavor { call: Call::Create, flavor: window.flavor });
        };
        let mut ranks = (0..self.team.size()).map(Rank);
        if let Some(rank) = ranks.find(|&rank| self.team.translate(rank, window.team).is_none()) {
            let why = format!("a window over another one's memory: {rank} of the team is no rank of that window");
            return Err(rmalab_atomics::Error::world(why).into());
        }
        self.disp_unit = unit;
        self.make(window.flavor, Memory::Symmetric { base, bytes, unit }, Vec::new())
    }

    /// Makes a window over memory of the program (`MPI_Win_create`).
    ///
    /// The call is collective. Each rank gives memory of any length, even 0, and has its own displacement unit. [`Window::reclaim`] returns
    /// the memory. Until then the program reaches it only through the window, and its own rank by
    /// [`WindowCore::local`](crate::WindowCore::local).
    ///
    /// Each rank has a table with an entry for each other rank's memory.
    ///
    /// # Errors
    ///
    /// [`Error::DispUnit`], and [`Unsupported`](rmalab_atomics::Error::Unsupported) when a rank cannot reach the program's memory of another
    /// rank. The other ranks get [`Error::NotMade`]. An error drops the memory.
    pub fn create(self, memory: UserMemory) -> Result<Window<'t, A, W>> {
        let (team, ra) = (self.team, self.team.ra());
        let bytes = memory.len() as u64;
        let exposed = self.check_unit().and_then(|()| Exposed::new(ra, memory));
        let key = exposed.as_ref().map_or(0, |exposed| exposed.key.0);
        let refused = u64::from(exposed.is_err());
        let all = team.collectives().allgather(&[bytes, u64::from(self.disp_unit), key, refused])?;
        // All ranks take part in both exchanges, even after an error, so that no rank waits forever.
        let leased: Result<Vec<_>> = if all.chunks_exact(4).any(|part| part[3] != 0) {
            Ok(Vec::new())
        } else {
            let leases = (0..).zip(all.chunks_exact(4)).map(|(rank, part)| {
                let place = ra.pin(Rank(rank), RegisteredKey(part[2]))?;
                Ok(Fixed { place, bytes: part[0], unit: part[1] as u32 })
            });
            leases.collect()
        };
        let made = team.collectives().allgather(&[u64::from(refused == 0 && leased.is_ok())])?;
        let failed = (0..).zip(&made).find(|&(_, &made)| made == 0).map(|(rank, _)| Rank(rank));
        let own = exposed?;
        // An error from here on drops the pins first, then the memory.
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

    /// Makes a window without memory, to which each rank attaches memory at any time (`MPI_Win_create_dynamic`).
    ///
    /// The call is collective, and does not communicate. Displacements are addresses, and the unit is a byte.
    ///
    /// # Errors
    ///
    /// The errors of [`allocate`](Self::allocate).
    pub fn create_dynamic(self) -> Result<Window<'t, A, W>> {
        let dynamic = Dynamic::new(self.team.ra())?;
        let allocations = vec![dynamic.allocation()];
        self.make(Flavor::Dynamic, Memory::Dynamic(dynamic), allocations)
    }

    /// Makes a window's own words beside its memory, or frees `allocations` after an error.
    fn make(mut self, flavor: Flavor, memory: Memory<'t>, mut allocations: Vec<Disp>) -> Result<Window<'t, A, W>> {
        let ra = self.team.ra();
        self.config.pscw = self.config.pscw.for_ranks(ra.size());
        if self.config.mpi_accumulate_granularity > WORD && self.config.accumulate == AccumulateStrategy::Native {
            // A lock is needed to synchronize many elements at once.
            self.config.accumulate = AccumulateStrategy::Locked;
        }
        let (bytes, unit) = match &memory {
            &Memory::Symmetric { bytes, unit, .. } => (bytes, unit),
            Memory::Table(parts) => parts[ra.rank().index()].size(),
            Memory::Leased { parts, .. } => parts[ra.rank().index()].size(),
            Memory::Dynamic(_) => (0, 1),
        };
        let part = recorder::RecordedPart { flavor, bytes, unit };
        let made = self.own_words(&mut allocations).and_then(|words| Ok((words, self.recorder(part)?)));
        if made.is_err() {
            // All ranks do the same, and no rank has used the words, so they are zero.
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
                let part = OwnPart { place, bytes, accumulate: self.config.accumulate, lock: accumulate_lock };
                let agent = transport == Transport::TwoSidedAgent;
                Some(Box::new(Requests::new(self.team.endpoints(), agent, flavor == Flavor::Shared, part)?))
            }
        };
        if let Some(recorder) = &recorder {
            self.team.recorded(recorder);
        }
        let strategy = self.config.accumulate;
        let exclusion = if two_sided.is_some() { Exclusion::Conflicts } else { locks.exclusion() };
        // Under a policy that locks nothing, exclusive locks do not exclude others, so their targets must have no
        // modes.
        let biased = strategy != AccumulateStrategy::Locked
            && exclusion != Exclusion::Nothing
            && two_sided.is_none()
            && ra.size() > 1
            && ra.capabilities().asymmetric_fence;
        let direct = matches!(memory, Memory::Symmetric { .. } | Memory::Leased { .. });
        let plain = two_sided.is_none() && recorder.is_none();
        if ra.rank() == Rank(0) {
            tell_of_variable(&self.ignored);
        }
        let special = !plain || !direct || self.config.no_locks || exclusion == Exclusion::Everything;
        let core = WindowCore {
            ra,
            plain,
            recorder,
            team: self.team,
            ways: AccumulatePath::new(ra, strategy, accumulate_lock, biased),
            bias: Bias::new(self.limits),
            fence: self.config.fence,
            no_locks: self.config.no_locks,
            exclusion,
            memory,
            flavor,
            config: RefCell::new(self.config),
            epochs: Epochs::new(special),
            matching,
            two_sided,
            under_way: Cell::new(0),
            allocations,
            name: RefCell::new(self.name),
            attributes: RefCell::default(),
            handler: ErrorHandler::new(),
            ignored: self.ignored,
            policy: W::NAME,
        };
        Ok(Window { raw: RawWindow::new(core, locks) })
    }

    /// Allocates the words of the matching and of the accumulates' lock, and the locks. Notes all allocations.
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

    /// Returns the recorder, if the window is recorded.
    fn recorder(&self, part: recorder::RecordedPart) -> Result<Option<Rc<Recorder>>> {
        let variable =
            || std::env::var_os(Config::RECORD_VARIABLE).filter(|dir| !dir.is_empty() && self.reads_variable);
        let Some(dir) = self.record.clone().or_else(|| variable().map(PathBuf::from)) else { return Ok(None) };
        let info = hints(&self.config, W::NAME);
        Ok(Some(Rc::new(Recorder::of_team(self.team, &dir, &self.name, info, part)?)))
    }

    fn alignment(&self) -> u64 {
        self.config.mpi_minimum_memory_alignment.max(LINE)
    }

    fn check_unit(&self) -> Result<()> {
        if self.disp_unit == 0 { Err(Error::DispUnit) } else { Ok(()) }
    }

    /// Checks the promises of `same_size` and `same_disp_unit` against the sizes and units of all ranks.
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

/// Prints once that the variable of the lock policy has no effect. A program can query its ignored hints, but the user who starts the
/// program sets the variable.
fn tell_of_variable(ignored: &[Ignored]) {
    static TOLD: Once = Once::new();
    if let Some(ignored) = ignored.iter().find(|ignored| ignored.key == Config::LOCK_POLICY_VARIABLE) {
        TOLD.call_once(|| eprintln!("note: {ignored}"));
    }
}
