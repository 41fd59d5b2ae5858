//! Hidden worlds with their owners, and the engine of one window.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::AtomicU8;

use rmalab_atomics::{Attended, Mapped, Mpi, RemoteAtomics, Result as NetworkResult, Served};
use rmalab_windows::{Config, RawWindow, Result, Team, UserMemory, Window};

use super::{host, threads};

type Serve = fn() -> NetworkResult<Served>;

/// A rank of a world in shared memory. It lets the host and other threads make progress while it waits.
pub(crate) type Shared = Attended<'static, Mapped, Serve>;

/// A value on the heap that other values borrow.
struct Lent<T>(NonNull<T>);

impl<T> Lent<T> {
    /// Lends the value.
    fn new(value: T) -> Lent<T> {
        Lent(NonNull::from(Box::leak(Box::new(value))))
    }

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// Nothing uses the reference, or a value that borrows through it, once this owner is dropped.
    unsafe fn get(&self) -> &'static T {
        // SAFETY: `new` has leaked the box, which is freed only with this owner.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: `new` has leaked this box, and nothing borrows it any longer (the promise of `get`).
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The ranks of a communicator as a world of rmalab's, for any number of windows.
pub(crate) struct Ranks<A: RemoteAtomics + 'static> {
    // Dropped in this order, since each field borrows the fields below.
    /// The teams that no window uses. A window takes a team and gives it back, so that each window has words for its own collective
    /// calls. All ranks make and free windows of a communicator in one order, so all take the same team.
    teams: RefCell<Vec<Lent<Team<'static, A>>>>,
    all: &'static A,
    _owner: Lent<A>,
    _inner: Option<Lent<Mapped>>,
}

impl<A: RemoteAtomics> Ranks<A> {
    fn new(owner: Lent<A>, inner: Option<Lent<Mapped>>) -> Rc<Ranks<A>> {
        // SAFETY: the owner is dropped with this value, after all values that borrow it. Engines keep this value.
        let all = unsafe { owner.get() };
        Rc::new(Ranks { teams: RefCell::default(), all, _owner: owner, _inner: inner })
    }

    fn take_team(&self) -> Result<Lent<Team<'static, A>>> {
        // Another thread may use the teams while a new one is made.
        let unused = self.teams.borrow_mut().pop();
        match unused {
            Some(team) => Ok(team),
            None => Team::new(self.all).map(Lent::new),
        }
    }
}

impl Ranks<Shared> {
    /// Makes the ranks of a world in shared memory.
    pub(crate) fn shared(world: Mapped) -> Rc<Ranks<Shared>> {
        let serve: Serve = || Ok(threads::breathe(host::progress));
        let inner = Lent::new(world);
        // SAFETY: `inner` is dropped last.
        let attended = Lent::new(Attended::new(unsafe { inner.get() }, serve).late());
        Ranks::new(attended, Some(inner))
    }

    /// Waits for all ranks. Collective.
    pub(crate) fn barrier(&self) -> std::result::Result<(), String> {
        let team = self.take_team().map_err(|error| error.to_string())?;
        // SAFETY: the reference ends in this function, which has the owner.
        let waited = unsafe { team.get() }.collectives().barrier();
        self.teams.borrow_mut().push(team);
        waited.map_err(|error| error.to_string())
    }

    /// Returns the largest of each number over all ranks. Collective.
    pub(crate) fn largest<const N: usize>(&self, numbers: &[u64; N]) -> std::result::Result<[u64; N], String> {
        let mut largest = *numbers;
        let team = self.take_team().map_err(|error| error.to_string())?;
        // SAFETY: the reference ends in this function, which has the owner.
        let reduced = unsafe { team.get() }.collectives().allreduce(&mut largest, u64::max);
        self.teams.borrow_mut().push(team);
        reduced.map(|()| largest).map_err(|error| error.to_string())
    }
}

impl Ranks<Mpi> {
    /// Makes the ranks of a world in windows of the host. Dropping it is collective.
    pub(crate) fn remote(world: Mpi) -> Rc<Ranks<Mpi>> {
        Ranks::new(Lent::new(world), None)
    }
}

/// The memory of an engine's window.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    None,
    /// The same bytes and unit at all ranks.
    Same {
        bytes: u64,
        unit: u32,
    },
    Differing {
        bytes: u64,
        unit: u32,
    },
    /// The ranks' parts follow each other.
    Adjacent {
        bytes: u64,
        unit: u32,
    },
    /// Memory of the program, from its first byte on.
    Program {
        base: *mut c_void,
        bytes: u64,
        unit: u32,
    },
    /// Memory that the program attaches.
    Attached,
}

/// Returns memory of the program in the engine's form. The program keeps it: dropping the value frees nothing.
///
/// # Safety
///
/// The bytes belong to the program, and stay valid until the engine gives the memory back. Meanwhile all accesses follow MPI's
/// rules.
pub(crate) unsafe fn program_memory(base: *mut c_void, bytes: u64) -> UserMemory {
    // Zero bytes may have no valid address.
    let start = NonNull::new(base.cast::<u8>()).unwrap_or(NonNull::dangling());
    // SAFETY: the caller's promise.
    unsafe { UserMemory::from_raw(start, bytes as usize, Box::new(())) }
}

/// Finds out whether the ranks reach each other's own memory, by a window over one byte of each. Collective: every rank returns an error, or
/// none does.
pub(crate) fn reach(ranks: &Rc<Ranks<Shared>>) -> Result<()> {
    static BYTE: AtomicU8 = AtomicU8::new(0);
    let memory = Memory::Program { base: BYTE.as_ptr().cast(), bytes: 1, unit: 1 };
    Engine::new(ranks, Config::default(), memory)?.free()
}

/// The engine of a window: its epochs and locks.
pub(crate) struct Engine<A: RemoteAtomics + 'static> {
    // Dropped in this order, since each field borrows the fields below.
    raw: Option<RawWindow<'static, A>>,
    team: Option<Lent<Team<'static, A>>>,
    ranks: Rc<Ranks<A>>,
}

impl<A: RemoteAtomics> Engine<A> {
    /// Makes the engine of a window. All ranks call it. All return an error, or none does.
    pub(crate) fn new(ranks: &Rc<Ranks<A>>, config: Config, memory: Memory) -> Result<Engine<A>> {
        let team = ranks.take_team()?;
        let mut engine = Engine { raw: None, team: Some(team), ranks: Rc::clone(ranks) };
        // SAFETY: the engine has the owner, and drops or frees the borrowing window first. See `raw`.
        let team = unsafe { engine.team.as_ref().expect("it was just put there").get() };
        let builder = Window::builder(team).config(config).without_variable();
        let window = match memory {
            Memory::None => builder.symmetric().allocate(0)?,
            Memory::Same { bytes, unit } => builder.symmetric().disp_unit(unit).allocate(bytes)?,
            Memory::Differing { bytes, unit } => builder.disp_unit(unit).allocate(bytes)?,
            Memory::Adjacent { bytes, unit } => builder.disp_unit(unit).allocate_shared(bytes)?,
            Memory::Program { base, bytes, unit } => {
                // SAFETY: MPI requires the memory of a window to be valid until the window is freed.
                let memory = unsafe { program_memory(base, bytes) };
                builder.disp_unit(unit).create(memory)?
            }
            Memory::Attached => builder.create_dynamic()?,
        };
        engine.raw = Some(window.into_raw());
        // The caller may wait inside the host from here on, and after `free`.
        engine.ranks().flush_all()?;
        Ok(engine)
    }

    /// Returns the window, which lives as long as the engine. The crate keeps no value that the window returns.
    #[inline(always)]
    pub(crate) fn raw(&self) -> &RawWindow<'static, A> {
        self.raw.as_ref().expect("it is taken out when the engine is freed")
    }

    /// Returns the ranks of the engine's world. They live as long as the engine.
    pub(crate) fn ranks(&self) -> &A {
        self.ranks.all
    }

    /// Frees the window. Collective.
    pub(crate) fn free(mut self) -> Result<()> {
        self.raw.take().map_or(Ok(()), RawWindow::free)?;
        Ok(self.ranks().flush_all()?)
    }
}

impl<A: RemoteAtomics> Drop for Engine<A> {
    fn drop(&mut self) {
        drop(self.raw.take());
        self.ranks.teams.borrow_mut().extend(self.team.take());
    }
}
