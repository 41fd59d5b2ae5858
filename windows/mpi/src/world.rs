//! Hidden worlds: the ranks of a communicator as a world of rmalab, which the communicator's windows share.
//!
//! The worlds are kept with the communicator, as an attribute. They end with the communicator, or with the last of its windows.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use rmalab_atomics::mapped::{Layout, Mapping};
use rmalab_atomics::{Mapped, Mpi, Rank, RemoteAtomics, Topology, shm};

use crate::boundary::engine::{Ranks, Shared};
use crate::boundary::host::{self, Comm};
use crate::boundary::threads::Guarded;

/// A world in shared memory.
pub(crate) struct InMemory {
    pub(crate) ranks: Rc<Ranks<Shared>>,
    /// True if the ranks have an asymmetric fence.
    pub(crate) has_fence: bool,
}

/// The worlds of one communicator. Each is made when the first window needs it.
#[derive(Default)]
pub(crate) struct Worlds {
    /// The world in shared memory, or the reason why there is none.
    shared: OnceCell<Result<InMemory, String>>,
    /// The latest world over windows of the host's MPI. Its segments have room for several windows.
    remote: RefCell<Option<Rc<Ranks<Mpi>>>>,
    /// True if the communicator's barriers are in the world in shared memory, too.
    has_barriers: Cell<bool>,
    /// If one window has these worlds alone: the bytes that it needs at each rank.
    only: Option<u64>,
    /// The result of the test whether the ranks reach each other's own memory, with the reason if they do not.
    reach: OnceCell<Result<(), String>>,
}

/// The worlds of all communicators, by the numbers that the communicators have as attributes.
static ALL: Guarded<RefCell<BTreeMap<usize, Rc<Worlds>>>> = Guarded::new(RefCell::new(BTreeMap::new()));

/// Returns the worlds that `comm` has, if it has any. All ranks get some, or none does.
///
/// A barrier of a program without a window asks this, too, and should not bring further pages of code into memory for it.
#[inline(always)]
pub(crate) fn of(comm: Comm) -> Option<Rc<Worlds>> {
    numbered(host::mark_of(comm)?)
}

#[inline(never)]
fn numbered(number: usize) -> Option<Rc<Worlds>> {
    ALL.get()?.borrow().get(&number).cloned()
}

/// A communicator, with its ranks in shared memory.
type Known = (Comm, Rc<Ranks<Shared>>);

thread_local! {
    /// The communicator of the last barrier. It is not dropped with the thread, as above.
    static LAST: ManuallyDrop<RefCell<Option<Known>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Returns the ranks of `comm` in shared memory, if its windows have a world there. All ranks get some, or none does.
#[inline]
pub(crate) fn shared_of(comm: Comm) -> Option<Rc<Ranks<Shared>>> {
    LAST.with(|last| {
        if let Some((known, ranks)) = &*last.borrow()
            && *known == comm
        {
            return Some(Rc::clone(ranks));
        }
        let worlds = of(comm).filter(|worlds| worlds.has_barriers.get() && host::has_one_thread())?;
        let ranks = Rc::clone(worlds.shared()?);
        last.replace(Some((comm, Rc::clone(&ranks))));
        Some(ranks)
    })
}

/// Returns the worlds of `comm`, which may be empty so far.
pub(crate) fn made_for(comm: Comm) -> Result<Rc<Worlds>, String> {
    if let Some(worlds) = of(comm) {
        return Ok(worlds);
    }
    let worlds = Rc::new(Worlds::default());
    let number = {
        let mut all = ALL.enter().borrow_mut();
        let number = all.last_key_value().map_or(1, |(last, _)| last + 1);
        all.insert(number, Rc::clone(&worlds));
        number
    };
    host::mark(comm, number).inspect_err(|_| forget(number))?;
    Ok(worlds)
}

/// Returns worlds for one window alone, with room for this many bytes at each rank.
///
/// Threads may make and free the windows of a communicator in another order at each rank, but a world needs one order.
pub(crate) fn for_one_window(bytes: u64) -> Rc<Worlds> {
    Rc::new(Worlds { only: Some(bytes), ..Worlds::default() })
}

/// Drops the worlds of the communicator with this number, which is being freed.
pub(crate) fn forget(number: usize) {
    // Dropped after the borrow, since the end of a world may call the host.
    drop(LAST.with(|last| last.take()));
    let worlds = ALL.get().and_then(|all| all.borrow_mut().remove(&number));
    drop(worlds);
}

/// Drops all worlds. MPI is being finalized, and there are no windows left.
pub(crate) fn forget_all() {
    while let Some(first) = ALL.get().and_then(|all| all.borrow().keys().next().copied()) {
        forget(first);
    }
}

impl Worlds {
    /// Makes the communicator's barriers use shared memory from now on. All ranks call it, at the same point of their calls on the
    /// communicator, or none does.
    pub(crate) fn take_barriers(&self) {
        self.has_barriers.set(true);
    }

    /// Returns the world in shared memory, if one was made.
    pub(crate) fn shared(&self) -> Option<&Rc<Ranks<Shared>>> {
        self.shared.get()?.as_ref().ok().map(|world| &world.ranks)
    }

    /// Returns whether the ranks in shared memory have an asymmetric fence.
    pub(crate) fn has_fence(&self) -> bool {
        matches!(self.shared.get(), Some(Ok(world)) if world.has_fence)
    }

    /// Returns the world in shared memory, and makes it for the first call. Collective: all ranks return it, or a reason.
    pub(crate) fn make_shared(&self, comm: Comm) -> Result<&Rc<Ranks<Shared>>, &str> {
        let made = self.shared.get_or_init(|| new_shared(comm, self.only));
        made.as_ref().map(|world| &world.ranks).map_err(String::as_str)
    }

    /// Returns the reason why the ranks do not reach each other's own memory, if they do not. The first call determines it by `probe`.
    /// Collective.
    pub(crate) fn reach(&self, probe: impl FnOnce() -> Result<(), String>) -> Result<(), &str> {
        self.reach.get_or_init(probe).as_ref().copied().map_err(String::as_str)
    }

    /// Returns the world in windows of the host, and makes one for the first call, or if there has to be a `fresh` one. Collective.
    pub(crate) fn make_remote(&self, comm: Comm, fresh: bool) -> Result<Rc<Ranks<Mpi>>, String> {
        if self.only.is_some() {
            // The waits of this world let no other thread pass.
            return Err("several threads may call MPI at a time, and its ranks do not share memory".to_owned());
        }
        if let Some(made) = &*self.remote.borrow()
            && !fresh
        {
            return Ok(Rc::clone(made));
        }
        let (_, size) = host::place(comm)?;
        let made = Ranks::remote(host::remote_world(comm, WINDOWS * segment_bytes(size))?);
        // The previous world ends with its windows.
        let before = self.remote.borrow_mut().replace(Rc::clone(&made));
        drop(before);
        Ok(made)
    }
}

/// The number of windows for which a world in windows of the host has room.
const WINDOWS: u64 = 16;

/// Returns the bytes that one window's team, epochs and locks take at a rank: 8 KiB for each of its links to other ranks in
/// collectives, some words for each other rank, and the locks.
fn segment_bytes(size: u32) -> u64 {
    let links = u64::from(size.next_power_of_two().trailing_zeros());
    (64 << 10) + links * (8 << 10) + u64::from(size) * 256
}

/// Makes a world in shared memory, with room for this many bytes at each rank, or for many windows. Collective: all ranks return it,
/// or a reason.
pub(crate) fn new_shared(comm: Comm, room: Option<u64>) -> Result<InMemory, String> {
    let (rank, size) = host::place(comm)?;
    // The file stays open until all ranks have opened it, or cannot.
    let (_file, shared) = shared(comm, rank, size, room)?;
    let fence = shared.as_ref().is_ok_and(|world| matches!(world.fence_everywhere(), Ok(true)));
    let [failed, no_fence] = host::largest(comm, &[u64::from(shared.is_err()), u64::from(!fence)])?;
    if failed != 0 {
        return Err(shared.err().unwrap_or_else(|| "another rank cannot share memory with rank 0".to_owned()));
    }
    shared.map(|world| InMemory { ranks: Ranks::shared(world), has_fence: no_fence == 0 })
}

/// Bytes of the segments of all ranks of a world in shared memory. They are a range of addresses: the file has pages only where some
/// rank has stored.
const RANGE: u64 = 1 << 40;

/// The bytes of the segments where the system limits the addresses of a process.
const SMALL_RANGE: u64 = 1 << 27;

/// Makes the world over a memory file of rank 0, which also returns the file.
fn shared(
    comm: Comm,
    rank: u32,
    size: u32,
    room: Option<u64>,
) -> Result<(Option<File>, Result<Mapped, String>), String> {
    let layout = |range: u64| {
        let segment = (range / u64::from(size)).max(segment_bytes(size)).next_multiple_of(4096);
        Layout::new(size, segment).map_err(|error| error.to_string())
    };
    let make = |range| layout(range).and_then(make);
    let made = (rank == 0).then(|| match room {
        None => make(RANGE).or_else(|_| make(SMALL_RANGE)),
        Some(room) => {
            let range = room.checked_add(segment_bytes(size)).and_then(|segment| segment.checked_mul(size.into()));
            make(range.ok_or("it is larger than all addresses")?)
        }
    });
    let mut place = [0; PLACE];
    if let Some(Ok((_, _, given))) = &made {
        place = *given;
    }
    host::broadcast(comm, &mut place)?;
    let (file, mapping) = match made {
        Some(Ok((file, mapping, _))) => (Some(file), Ok(mapping)),
        Some(Err(why)) => (None, Err(why)),
        None => (None, open(size, place)),
    };
    let world = mapping.and_then(|mapping| {
        // The ranks' launcher ends all of them when one dies.
        Mapped::new(Arc::new(mapping), Rank(rank), Topology::one_node(size), "shm").map_err(|error| error.to_string())
    });
    Ok((file, world))
}

/// Words of a file's place: the kernel (two), the process, the descriptor, the device, the file's number, the bytes of a segment.
const PLACE: usize = 7;

type FilePlace = [u64; PLACE];

/// Returns the bytes that a file of this process may have. A longer one would end the process by a signal.
fn longest_file() -> u64 {
    const NAME: &str = "Max file size";
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits.lines().find_map(|line| line.strip_prefix(NAME)?.split_whitespace().next());
    soft.and_then(|soft| soft.parse().ok()).unwrap_or(u64::MAX)
}

/// Returns the bytes that one rank's memory may have: all memory and swap of the machine, which is the kernel's own rule for a process. A
/// memory file may be longer, but a program that fills it dies.
pub(crate) fn most_memory() -> u64 {
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        // The machine's owner allows more memory than there is.
        if read("/proc/sys/vm/overcommit_memory").trim() == "1" {
            return u64::MAX;
        }
        let text = read("/proc/meminfo");
        let kib = |name| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next())?.parse().ok()
        };
        kib("MemTotal:").map_or(u64::MAX, |memory| (memory + kib("SwapTotal:").unwrap_or(0)) << 10)
    })
}

#[expect(unsafe_code, reason = "only this module knows whose file it maps")]
fn make(layout: Layout) -> Result<(File, Mapping, FilePlace), String> {
    let (need, limit) = (layout.total_bytes(), longest_file());
    if need > limit {
        return Err(format!("a memory file of {need} bytes is longer than the limit of {limit} (ulimit -f)"));
    }
    let file = File::from(shm::create(layout).map_err(|error| error.to_string())?);
    // SAFETY: a new sealed file, which the ranks open in order to map it in the same way.
    let mapping = unsafe { Mapping::shared(file.as_fd(), layout, true) }.map_err(|error| error.to_string())?;
    let [kernel, boot] = kernel()?;
    let [device, number] = identity(&file.metadata().map_err(|error| format!("reading a memory file: {error}"))?);
    let descriptor = u64::try_from(file.as_raw_fd()).expect("an open descriptor is not negative");
    let place = [kernel, boot, u64::from(std::process::id()), descriptor, device, number, layout.segment_bytes()];
    Ok((file, mapping, place))
}

#[expect(unsafe_code, reason = "only this module knows whose file it maps")]
fn open(size: u32, place: FilePlace) -> Result<Mapping, String> {
    let [kernel_there, boot_there, process, descriptor, device, number, segment] = place;
    if process == 0 {
        return Err("rank 0 has made no memory file".to_owned());
    }
    if kernel()? != [kernel_there, boot_there] {
        return Err("rank 0 is on another host".to_owned());
    }
    let path = format!("/proc/{process}/fd/{descriptor}");
    let failed = |error| format!("opening {path}, rank 0's memory file: {error}");
    let file = File::options().read(true).write(true).open(&path).map_err(failed)?;
    if identity(&file.metadata().map_err(failed)?) != [device, number] {
        return Err(format!("{path} is not rank 0's memory file: the ranks do not see the same processes"));
    }
    let layout = Layout::new(size, segment).map_err(|error| error.to_string())?;
    // SAFETY: this is rank 0's memory file (just compared), which is sealed, and which the ranks only map in this way.
    unsafe { Mapping::shared(file.as_fd(), layout, false) }.map_err(|error| error.to_string())
}

/// Returns the identity of a file of this kernel.
fn identity(file: &Metadata) -> [u64; 2] {
    [file.dev(), file.ino()]
}

/// Returns the identity of the running kernel.
fn kernel() -> Result<[u64; 2], String> {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("reading {FILE}: {error}"))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).map_err(|error| format!("reading {FILE}: {error}"))?;
    Ok([number as u64, (number >> 64) as u64])
}
