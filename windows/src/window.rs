//! Windows: their memory, how they are made, and how they end.

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
use crate::place::TargetPart;
use crate::raw::core::Memory;
use crate::trace::recorder::{Event, Kind};
use crate::{
    Attributes, Builder, Call, Error, ErrorHandler, Ignored, Info, Local, RawWindow, Result, Target, Team, WindowCore,
    messages,
};

/// A displacement from the start of a target's part of a window, in the target's units. On a dynamic window it is an address, as the
/// owner's [`attach`](WindowCore::attach) has returned it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WindowDisp(pub i64);

impl WindowDisp {
    /// Returns the displacement `units` later.
    pub const fn plus(self, units: i64) -> WindowDisp {
        WindowDisp(self.0.wrapping_add(units))
    }
}

impl fmt::Display for WindowDisp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "displacement {}", self.0)
    }
}

/// The origin of a window's memory (the attribute `MPI_WIN_CREATE_FLAVOR`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flavor {
    /// From the program.
    Create,
    /// Allocated with the window.
    Allocate,
    /// Allocated with the window, where all ranks reach it by loads and stores.
    Shared,
    /// From the program, attached and detached while the window lives.
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

/// A rank's view of its own memory while others access it (the attribute `MPI_WIN_MODEL`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Model {
    /// One copy, which all ranks see.
    Unified,
    /// A private and a public copy, which synchronization calls make equal.
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

/// One rank's handle of a window: memory of every rank of a team, which the other ranks access inside epochs.
///
/// Epochs are values, and communication is their methods. Epochs that must not be open together do not compile together. Locks of several
/// targets may be open at once, from `&self`. Every other epoch takes the whole window by `&mut self` until it ends:
///
/// | epoch | opened by | closed by |
/// | --- | --- | --- |
/// | to one target | [`lock`](Self::lock) | [`Lock::unlock`](crate::Lock::unlock) |
/// | to all targets | [`lock_all`](Self::lock_all) | [`LockAll::unlock_all`](crate::LockAll::unlock_all) |
/// | between fences | [`fence`](Self::fence) | [`Fence::next`](crate::Fence::next), [`Fence::close`](crate::Fence::close) |
/// | access to a group, exposure to a group | [`pscw`](Self::pscw) | [`Access::complete`](crate::Access::complete), [`Exposure::wait`](crate::Exposure::wait) |
///
/// Dropping a window leaves its memory allocated, and registered memory registered, as long as the world lives. [`free`](Self::free) and
/// [`reclaim`](Self::reclaim) return it.
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
    /// Returns a builder, which makes windows with chosen strategies and hints.
    pub fn builder(team: &'t Team<'t, A>) -> Builder<'t, A> {
        Builder::new(team)
    }

    /// Makes a window like [`Builder::allocate`], with defaults for everything else.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::allocate`].
    pub fn allocate(team: &'t Team<'t, A>, bytes: u64) -> Result<Self> {
        Self::builder(team).allocate(bytes)
    }

    /// Makes a window over the elements of `vec`, like [`Builder::create`], with a displacement unit of one element.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::create`].
    pub fn create<T: Pod + Send>(team: &'t Team<'t, A>, vec: Vec<T>) -> Result<Self> {
        let unit = u32::try_from(size_of::<T>().max(1)).unwrap_or(u32::MAX);
        Self::builder(team).disp_unit(unit).create(UserMemory::from_vec(vec))
    }

    /// Makes a window like [`Builder::allocate_shared`], with defaults for everything else.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::allocate_shared`].
    pub fn allocate_shared(team: &'t Team<'t, A>, bytes: u64) -> Result<Self> {
        Self::builder(team).allocate_shared(bytes)
    }

    /// Makes a window like [`Builder::create_dynamic`], with defaults for everything else.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::create_dynamic`].
    pub fn create_dynamic(team: &'t Team<'t, A>) -> Result<Self> {
        Self::builder(team).create_dynamic()
    }
}

impl<'t, A: RemoteAtomics + ?Sized> WindowCore<'t, A> {
    /// Returns the window's team, whose ranks are the targets (`MPI_Win_get_group`).
    pub fn team(&self) -> &'t Team<'t, A> {
        self.team
    }

    /// Returns the origin of the window's memory.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Returns a rank's view of its own memory: one copy, except for two-sided windows (see
    /// [`two_sided`](crate::two_sided)).
    pub fn model(&self) -> Model {
        if self.two_sided.is_some() { Model::Separate } else { Model::Unified }
    }

    /// Returns the number of bytes of this rank's part (the attribute `MPI_WIN_SIZE`); 0 for a dynamic window.
    pub fn bytes(&self) -> u64 {
        self.part(self.ra.rank()).1
    }

    /// Returns this rank's displacement unit in bytes (the attribute `MPI_WIN_DISP_UNIT`).
    pub fn disp_unit(&self) -> u32 {
        self.part(self.ra.rank()).2
    }

    /// Returns the number of bytes outside this rank's segment that the window uses for data about the other ranks. These are the places
    /// of their parts, its epochs with each ([`PscwStrategy::Flags`](crate::PscwStrategy::Flags)), and their attached memory.
    ///
    /// The overhead of the program's allocator is not included.
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

    /// Returns this rank's part of the window as words for loads and stores (the attribute `MPI_WIN_BASE`).
    ///
    /// Returns `None` for a dynamic window, and if the backend has no local memory of this kind.
    pub fn base(&self) -> Option<&[AtomicU64]> {
        self.reach(Call::Local, self.ra.rank()).ok()?.words()
    }

    /// Returns the strategies and hints in use, including defaults (`MPI_Win_get_info`).
    pub fn info(&self) -> Info {
        let mut info = hints(&self.config.borrow(), self.policy);
        if let Some(recorder) = &self.recorder {
            // A folder whose name is too long for a value is left out.
            let _ = info.set(RECORD_HINT, &recorder.dir().to_string_lossy());
        }
        info
    }

    /// Changes the hints in `info` and keeps all others (`MPI_Win_set_info`). Returns the ignored hints, each with its reason.
    pub fn set_info(&self, info: &Info) -> Vec<Ignored> {
        self.config.borrow_mut().update(info)
    }

    /// Returns the ignored hints of the info with which the window was made.
    pub fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    /// Returns the window's name (`MPI_Win_get_name`), which is empty by default.
    pub fn name(&self) -> String {
        self.name.borrow().clone()
    }

    /// Names the window (`MPI_Win_set_name`).
    pub fn set_name(&self, name: impl Into<String>) {
        self.name.replace(name.into());
    }

    /// Returns the attributes that the program keeps with the window (`MPI_Win_set_attr` and related calls).
    pub fn attributes(&self) -> &RefCell<Attributes> {
        &self.attributes
    }

    /// Returns the error handler, which gets every error of the window's calls (`MPI_Win_set_errhandler` and related calls).
    pub fn error_handler(&self) -> &ErrorHandler {
        &self.handler
    }

    /// Returns access to this rank's part by loads, stores and copies. It needs no epoch.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`] for a dynamic window, whose memory a rank reaches by an epoch to itself.
    pub fn local(&self) -> Result<Local<'_, A>> {
        self.reach(Call::Local, self.ra.rank()).map_err(|error| self.hear(error))
    }

    /// Returns access to a rank's part by loads, stores and copies (`MPI_Win_shared_query`).
    ///
    /// `None` stands for the lowest rank that shares memory with this rank and has a part that is not empty. If all parts are empty, it
    /// stands for the lowest rank that shares memory. Since MPI-4.1, this works for created and allocated windows, too, if the memory is
    /// reachable.
    ///
    /// # Errors
    ///
    /// [`Error::NotShared`] when this rank does not reach that memory by loads and stores, [`Error::Flavor`] for a dynamic window, and
    /// [`Error::NoSuchTarget`].
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
            TargetPart::Fixed(place) => {
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
                        is_local: true,
                        epoch: PhantomData,
                    },
                    place,
                })
            }
            TargetPart::Null | TargetPart::Dynamic(_) | TargetPart::Recorded { .. } => {
                Err(Error::Flavor { call, flavor: self.flavor })
            }
        }
    }

    /// Does what [`Team::progress`](crate::Team::progress) does.
    ///
    /// # Errors
    ///
    /// The errors of [`Team::progress`](crate::Team::progress).
    pub fn progress(&self) -> Result<()> {
        self.team.progress().map_err(|error| self.hear(error))
    }

    /// Returns the number of packets of a kind that this rank, without its agent, has sent for two-sided windows of the team.
    pub fn messages_sent(&self, kind: messages::Kind) -> u64 {
        self.two_sided.as_ref().map_or(0, |requests| requests.sent(kind))
    }

    /// Orders this rank's loads and stores with the accesses of other ranks (`MPI_Win_sync`).
    pub fn sync(&self) {
        fence(Ordering::SeqCst);
    }

    /// Attaches memory to a dynamic window, and returns its address for the other ranks (`MPI_Win_attach`).
    ///
    /// The call is not collective. The window owns the memory until it is detached.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`]; [`Error::Attach`] when the memory overlaps attached memory, when it is empty, or when the network cannot register
    /// more memory of this rank; and the errors of [`RemoteAtomics::register`]. An error drops the memory.
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
    /// Converts the window to a window whose epochs are calls, not values.
    pub fn into_raw(self) -> RawWindow<'t, A, W> {
        self.raw
    }

    /// Frees the window, like [`RawWindow::free`] (`MPI_Win_free`).
    ///
    /// # Errors
    ///
    /// The errors of [`RawWindow::free`].
    pub fn free(self) -> Result<()> {
        self.raw.free()
    }

    /// Frees the window and returns the program's memory, like [`RawWindow::reclaim`].
    ///
    /// # Errors
    ///
    /// The errors of [`RawWindow::reclaim`].
    pub fn reclaim(self) -> Result<Vec<UserMemory>, FreeError> {
        self.raw.reclaim()
    }
}

/// The error of a window that was not freed in order, with the returned memory; see [`Window::reclaim`].
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct FreeError {
    /// The error.
    #[source]
    pub error: Error,
    /// The program's memory, except memory that other ranks may still write.
    pub memory: Vec<UserMemory>,
}

impl From<FreeError> for Error {
    fn from(failed: FreeError) -> Error {
        failed.error
    }
}
