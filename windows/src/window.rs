//! Windows: their memory, their making and their end.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use bytemuck::Pod;
use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::words::LocalWords;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Policy, WindowLock};

use crate::builder::{RECORD_HINT, hints};
use crate::place::Part;
use crate::raw::core::Memory;
use crate::trace::recorder::{Event, Kind};
use crate::{
    Attributes, Builder, Call, Error, ErrorHandler, Ignored, Info, Local, RawWindow, Result, Target, Team, WindowCore,
    messages,
};

/// A displacement from the start of a target's part of a window, in units that the target has chosen; on a dynamic
/// window an address, as its owner's [`attach`](WindowCore::attach) has returned it.
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
pub struct Window<'t, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    pub(crate) raw: RawWindow<'t, A, W>,
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Deref for Window<'t, A, W> {
    type Target = WindowCore<'t, A>;

    #[inline(always)]
    fn deref(&self) -> &WindowCore<'t, A> {
        &self.raw.core
    }
}

impl<'t, A: RemoteAtomics + ?Sized> Window<'t, A> {
    /// Tells how a window is to be made.
    pub fn builder(team: &'t Team<'t, A>) -> Builder<'t, A> {
        Builder::new(team)
    }

    /// Like [`Builder::allocate`], with everything else as it is by default.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn allocate(team: &'t Team<'t, A>, bytes: u64) -> Result<Self> {
        Self::builder(team).allocate(bytes)
    }

    /// Like [`Builder::create`] over the elements of `vec`, with a displacement unit of one element.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn create<T: Pod + Send>(team: &'t Team<'t, A>, vec: Vec<T>) -> Result<Self> {
        let unit = u32::try_from(size_of::<T>().max(1)).unwrap_or(u32::MAX);
        Self::builder(team).disp_unit(unit).create(UserMemory::from_vec(vec))
    }

    /// Like [`Builder::allocate_shared`], with everything else as it is by default.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn allocate_shared(team: &'t Team<'t, A>, bytes: u64) -> Result<Self> {
        Self::builder(team).allocate_shared(bytes)
    }

    /// Like [`Builder::create_dynamic`], with everything else as it is by default.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn create_dynamic(team: &'t Team<'t, A>) -> Result<Self> {
        Self::builder(team).create_dynamic()
    }
}

impl<'t, A: RemoteAtomics + ?Sized> WindowCore<'t, A> {
    /// The team whose ranks the window's targets are (`MPI_Win_get_group`).
    pub fn team(&self) -> &'t Team<'t, A> {
        self.team
    }

    /// How the window came to its memory.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// What a rank sees of its own memory: one copy, but for two-sided windows, see [`two_sided`](crate::two_sided).
    pub fn model(&self) -> Model {
        if self.two_sided.is_some() { Model::Separate } else { Model::Unified }
    }

    /// Bytes of this rank's part (the attribute `MPI_WIN_SIZE`); 0 for a dynamic window.
    pub fn bytes(&self) -> u64 {
        self.part(self.ra.rank()).1
    }

    /// Bytes of this rank's unit of displacement (the attribute `MPI_WIN_DISP_UNIT`).
    pub fn disp_unit(&self) -> u32 {
        self.part(self.ra.rank()).2
    }

    /// Bytes of this rank's own memory, outside of its segment, in which the window remembers the other ranks: where their
    /// parts are, its epochs with each ([`PscwStrategy::Flags`](crate::PscwStrategy::Flags)), and what they have attached.
    ///
    /// What is remembered is counted, and not what the program's allocator keeps beside it.
    pub fn remembered_bytes(&self) -> u64 {
        let parts = match &self.memory {
            Memory::Symmetric { .. } => 0,
            Memory::Table(parts) => size_of_val(&parts[..]),
            Memory::Leased { parts, .. } => {
                size_of_val(&parts[..]) + parts.iter().map(|part| size_of_val(&*part.place)).sum::<usize>()
            }
            Memory::Dynamic(dynamic) => dynamic.remembered_bytes(),
        };
        (parts + self.matching.remembered_bytes()) as u64
    }

    /// This rank's part of the window, as words that it reaches by loads and stores (the attribute `MPI_WIN_BASE`).
    ///
    /// `None` for a dynamic window, and where the backend has no such way.
    pub fn base(&self) -> Option<&[AtomicU64]> {
        self.reach(Call::Local, self.ra.rank()).ok()?.words()
    }

    /// The strategies and hints in use, defaults included (`MPI_Win_get_info`).
    pub fn info(&self) -> Info {
        let mut info = hints(&self.config.borrow(), self.policy);
        if let Some(recorder) = &self.recorder {
            // A folder whose name is too long for a value is left out.
            let _ = info.set(RECORD_HINT, &recorder.dir().to_string_lossy());
        }
        info
    }

    /// Changes hints (`MPI_Win_set_info`); those that are not mentioned stay. Returns what was ignored, and why.
    pub fn set_info(&self, info: &Info) -> Vec<Ignored> {
        self.config.borrow_mut().update(info)
    }

    /// What was ignored of the info that the window was made with.
    pub fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    /// The window's name (`MPI_Win_get_name`); empty if it was given none.
    pub fn name(&self) -> String {
        self.name.borrow().clone()
    }

    /// Names the window (`MPI_Win_set_name`).
    pub fn set_name(&self, name: impl Into<String>) {
        self.name.replace(name.into());
    }

    /// What the program keeps with the window (`MPI_Win_set_attr` and its kind).
    pub fn attributes(&self) -> &RefCell<Attributes> {
        &self.attributes
    }

    /// What is called with every error of the window's calls (`MPI_Win_set_errhandler` and its kind).
    pub fn error_handler(&self) -> &ErrorHandler {
        &self.handler
    }

    /// This rank's own part, by loads, stores and copies; no epoch is needed.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`] for a dynamic window, whose memory is reached by an epoch to oneself.
    pub fn local(&self) -> Result<Local<'_, A>> {
        self.reach(Call::Local, self.ra.rank()).map_err(|error| self.hear(error))
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
        let ra = self.ra;
        let node = |rank| ra.topology().node_of(rank);
        let rank = rank.into().unwrap_or_else(|| {
            let mut here = (0..ra.size()).map(Rank).filter(|&rank| node(rank) == node(ra.rank()));
            let has_memory = |local: Local<'_, A>| local.bytes() > 0 && local.reached().is_some();
            let found = here.clone().find(|&rank| self.reach(Call::SharedQuery, rank).is_ok_and(has_memory));
            found.or_else(|| here.next()).unwrap_or(ra.rank())
        });
        let local = self.reach(Call::SharedQuery, rank).map_err(|error| self.hear(error))?;
        if node(rank) != node(ra.rank()) || (local.bytes() > 0 && local.reached().is_none()) {
            return Err(self.hear(Error::NotShared { call: Call::SharedQuery, rank: ra.rank(), target: rank }));
        }
        Ok(local)
    }

    pub(crate) fn reach(&self, call: Call, rank: Rank) -> Result<Local<'_, A>> {
        let ra = self.ra;
        if rank.0 >= ra.size() {
            return Err(Error::NoSuchTarget { call, target: rank, size: ra.size() });
        }
        let (part, bytes, unit) = self.part(rank);
        match part {
            Part::Fixed(place) => {
                let core = self;
                let ways = core.ways;
                Ok(Local {
                    target: Target {
                        ra,
                        core,
                        ways,
                        words: LocalWords::default(),
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
            Part::Null | Part::Dynamic(_) | Part::Recorded { .. } => Err(Error::Flavor { call, flavor: self.flavor }),
        }
    }

    /// Like [`Team::progress`](crate::Team::progress).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn progress(&self) -> Result<()> {
        self.team.progress().map_err(|error| self.hear(error))
    }

    /// How many packets of a kind this rank has sent for two-sided windows of the team, its agent's not counted.
    pub fn messages_sent(&self, kind: messages::Kind) -> u64 {
        self.two_sided.as_ref().map_or(0, |requests| requests.sent(kind))
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
    /// place for more exposed memory of this rank; and those of [`RemoteAtomics::register`]. The memory is dropped then.
    pub fn attach(&self, memory: UserMemory) -> Result<WindowDisp> {
        let bytes = memory.len() as u64;
        let started = self.start_record();
        let attached = self.dynamic(Call::Attach).and_then(|dynamic| dynamic.attach(self.ra, memory));
        let disp = attached.map_err(|error| self.hear(error))?;
        self.record(started, Event::of(Kind::Attach).moving(disp.0, bytes));
        Ok(disp)
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'t, A, W> {
    /// The same window, whose epochs are calls and not values.
    pub fn into_raw(self) -> RawWindow<'t, A, W> {
        self.raw
    }

    /// Like [`RawWindow::free`] (`MPI_Win_free`).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn free(self) -> Result<()> {
        self.raw.free()
    }

    /// Like [`RawWindow::reclaim`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn reclaim(self) -> Result<Vec<UserMemory>, FreeError> {
        self.raw.reclaim()
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
