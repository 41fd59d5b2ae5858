//! Global memory: a partitioned global address space over windows, without epochs.
//!
//! # Sources
//!
//! H. Zhou, K. Idrees, J. Gracia, Leveraging MPI-3 shared-memory extensions for efficient PGAS runtime systems, Euro-Par
//! 2015: shared windows nested in a dynamic one (section 3.1), global pointers and their translation table (section 3.2).
//! The one epoch, the pointers' format and the calls' names: H. Zhou, Y. Mhedheb, K. Idrees, C. W. Glass, J. Gracia,
//! K. Fürlinger, J. Tao, DART-MPI: an MPI-based implementation of a PGAS runtime system, PGAS 2014.
//!
//! | DART | here |
//! | --- | --- |
//! | `dart_team_memalloc_aligned`, `dart_team_memfree` | [`GlobalMemory::team_memalloc_aligned`], [`GlobalMemory::team_memfree`] |
//! | `dart_memalloc`, `dart_memfree` | [`GlobalMemory::memalloc`], [`GlobalMemory::memfree`] |
//! | `dart_put_blocking`, `dart_get_blocking` | [`GlobalMemory::put`], [`GlobalMemory::get`] |
//! | `dart_put_handle`, `dart_get_handle` | [`GlobalMemory::put_handle`], [`GlobalMemory::get_handle`] |
//! | `dart_wait`, `dart_wait_local`, `dart_test`, `dart_waitall` | [`Handle::wait`], [`Handle::wait_local`], [`Handle::test`], [`Handle::wait_all`] |
//! | `dart_fetch_and_op`, `dart_compare_and_swap` | [`GlobalMemory::fetch_and_op`], [`GlobalMemory::compare_and_swap`] |
//! | `dart_flush`, `dart_flush_all` | [`GlobalMemory::flush`], [`GlobalMemory::flush_all`] |
//! | `dart_gptr_getaddr` | [`GlobalMemory::local`], for all units of the node |
//!
//! # Structure
//!
//! ```text
//!   dynamic window over the team, one lock_all epoch from beginning to end
//!   ┌──────────────────────────────────────┐
//!   │  unit 0    unit 1 │ unit 2    unit 3 │
//!   │ ┌────────────────┐│┌────────────────┐│
//!   │ │ pool      pool │││ pool      pool ││  a shared window on each node, made at the beginning
//!   │ └────────────────┘│└────────────────┘│
//!   │ ┌────────────────┐│┌────────────────┐│
//!   │ │ part      part │││ part      part ││  another one for each collective allocation
//!   │ └────────────────┘│└────────────────┘│
//!   └──────────────────────────────────────┘
//! ```
//!
//! Each unit attaches its parts to the dynamic window. Blocking puts and gets to units of the same node are loads and stores, or copies of
//! memory if they are long. All other operations use the dynamic window: non-blocking operations, since a copy by the processor blocks, and
//! atomics, since they have to be atomic with the atomics of other nodes.
//!
//! # State
//!
//! * The translation table has for each segment its key, the place of each unit's part in the dynamic window, and the words of the parts on
//!   this node. The pools are the first segment. As in the paper, the table is sorted by key, and searched by bisection. Keys only grow, so a
//!   new segment is the last one, and sorting costs nothing.
//! * Each unit's pool has an allocator that only this unit uses: first fit, and neighbours are merged.
//!
//! # Invariants
//!
//! * I1. All units make the collective calls in the same order, so their tables agree, and so do their keys. A key is
//!   never used again: a pointer to freed memory is an error, and not a pointer to something else.
//! * I2. A segment leaves the table after a barrier of all units, and before its memory is freed.
//!
//! # Differences from the paper
//!
//! * Memory that one unit has allocated is in the pools' segment, not in two separate windows.
//! * A segment's number has 31 bits instead of 16, since numbers are not used again.
//!
//! # Cost
//!
//! On the same node: the search, and the loads and stores, or one bulk operation from 512 bytes on. On other nodes: one remote get, with
//! which the dynamic window sees that nothing was detached, then the operation, and a flush for a blocking put. A collective allocation
//! takes 8 bytes for each unit at every unit.

mod copy;
mod pointer;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use bytemuck::Pod;
use rmalab_atomics::{Address, CHUNK_BYTES, Disp, Rank, RemoteAtomics, Subset, SymmetricHeap, WORD};
use rmalab_locks::{Assert, LINE};

pub use pointer::GlobalPtr;

use crate::place::{TargetMemory, TargetPart};
use crate::{Call, Config, Element, Error, LockAll, Op, Request, Result, Swappable, Target, Team, Window, WindowDisp};

/// The memory of each unit that a [`GlobalMemory`] takes from the team's heap when it begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reserve {
    /// Bytes for collective allocations. Each takes its bytes, and about 1 KiB for its window.
    pub collective: u64,
    /// Bytes for allocations of single units, the pool.
    pub pool: u64,
}

impl Reserve {
    /// Bytes that the pools' window takes beside the pool.
    const WINDOW: u64 = 8 << 10;

    /// Returns the bytes of a node's arena: the requested bytes, the pools' window, and the collectives of the node's
    /// team.
    fn arena(self, ranks_per_node: u32) -> u64 {
        let links = u64::from(ranks_per_node.next_power_of_two().trailing_zeros());
        let team = links.saturating_mul(2 * CHUNK_BYTES + LINE);
        [self.pool, Self::WINDOW, team].into_iter().fold(self.collective, u64::saturating_add)
    }
}

/// The memory of all units of a team under global pointers, during [`run`](Self::run).
///
/// Units are the ranks of the team. There are no epochs: blocking operations are complete at both ends when they return. Other operations are
/// complete after a wait for their handles, or after a flush. Synchronize with other units before you read what they have written, by the
/// team's [barrier](rmalab_atomics::Collectives::barrier) or an atomic.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics, Topology, World};
/// use rmalab_windows::{GlobalMemory, Reserve, Team};
///
/// // Four units on two nodes.
/// let world = World::threads(4).topology(Topology::blocks(4, 2, 1)?);
/// let seen = world.try_run(|ra| {
///     let team = Team::new(ra)?;
///     GlobalMemory::run(&team, Reserve { collective: 1 << 16, pool: 1 << 12 }, |memory| {
///         let array = memory.team_memalloc_aligned(8)?;
///         let right = Rank((memory.rank().0 + 1) % 4);
///         memory.put(array.at_unit(right), &[u64::from(memory.rank().0)])?;
///         memory.team().barrier()?;
///         memory.get_value::<u64>(array.at_unit(memory.rank()))
///     })
/// })?;
/// assert_eq!(seen, [3, 0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`Error::BadPointer`] and [`Error::OutOfSegment`] for pointers to memory that does not exist; nothing was done then. The errors of the
/// network. Each unit knows only its own allocations of a pool, so a pointer that leaves its allocation, but not the pool, is not detected.
pub struct GlobalMemory<'m, A: RemoteAtomics + ?Sized> {
    team: &'m Team<'m, A>,
    /// The units of this unit's node.
    near: &'m Subset<'m, A>,
    /// The team of these units, as a trait object, since its windows are only made and freed. Their memory is accessed
    /// by its words.
    node: &'m Team<'m, dyn RemoteAtomics + 'm>,
    /// The epoch on the dynamic window.
    epoch: &'m LockAll<'m, 'm, A>,
    /// The translation table, sorted by key. Keys have their own vector, so that a search touches few cache lines.
    table: RefCell<Vec<(u32, Box<Segment<'m>>)>>,
    /// The number of collective segments so far.
    segments: Cell<u32>,
    /// This unit's pool. Offset 0 is left out, since it would make a null pointer.
    pool: SymmetricHeap,
}

/// A segment of the global memory: a part of every unit.
struct Segment<'m> {
    /// Bytes of each unit's part.
    bytes: u64,
    /// The shared window of this unit's node.
    window: Window<'m, dyn RemoteAtomics + 'm>,
    /// The parts of the node's units, by their numbers there.
    words: Vec<&'m [AtomicU64]>,
    /// The place of the parts in those units' memory.
    base: Disp,
    /// The place of this unit's part in the dynamic window.
    own: WindowDisp,
    /// The place of each unit's part in the dynamic window: the paper's disp-set.
    starts: Vec<u64>,
}

/// From this many bytes on, the local node is reached by the backend's copies, which are faster than a loop over words.
const COPIED: usize = 512;

/// The memory of a pointer.
struct Found<'m> {
    /// The words of the part, if it is on the local node, and the offset there.
    words: Option<&'m [AtomicU64]>,
    offset: usize,
    /// If the place is on the local node: the same place in the ranks' memory.
    at: Address,
    /// Its place in the dynamic window.
    disp: WindowDisp,
}

impl<A: RemoteAtomics + ?Sized> fmt::Debug for GlobalMemory<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<u32> = self.table.borrow().iter().map(|&(key, _)| GlobalPtr::of_key(key).segment()).collect();
        f.debug_struct("GlobalMemory").field("segments", &keys).field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl<A: RemoteAtomics + ?Sized> GlobalMemory<'_, A> {
    /// Runs `body` with a global memory over `team`. Collective.
    ///
    /// At the end it frees, collectively, all memory that `body` has not freed.
    ///
    /// # Errors
    ///
    /// The errors of `body`. After them it frees nothing and waits for no rank. [`Error::NotShared`] when the ranks of a node do not
    /// reach each other's memory by loads and stores, [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), and the errors of the network.
    pub fn run<R, E: From<Error>>(
        team: &Team<'_, A>,
        reserve: Reserve,
        body: impl FnOnce(&GlobalMemory<'_, A>) -> Result<R, E>,
    ) -> Result<R, E> {
        let arena = reserve.arena(team.ra().topology().ranks_per_node());
        let subset = Subset::by_node_with_arena(team.ra(), arena).map_err(Error::from)?;
        let node = Team::new(&subset as &dyn RemoteAtomics)?;
        let mut window = Window::create_dynamic(team)?;
        // No rank locks this window exclusively, so there is nothing to check.
        let epoch = window.lock_all_assert(Assert::NoCheck)?;
        let pool = SymmetricHeap::over(Disp(WORD), reserve.pool);
        let (table, segments) = Default::default();
        let memory = GlobalMemory { team, near: &subset, node: &node, epoch: &epoch, table, segments, pool };
        memory.add_segment(pointer::POOL, reserve.pool.saturating_add(WORD))?;
        let result = body(&memory)?;
        // Memory that is left in the nodes' arenas ends with them, after the barriers of these two frees.
        drop(memory);
        epoch.unlock_all()?;
        window.free()?;
        drop(node);
        Subset::free(Some(subset), team).map_err(Error::from)?;
        Ok(result)
    }
}

impl<'m, A: RemoteAtomics + ?Sized> GlobalMemory<'m, A> {
    /// Returns the team whose ranks are the units.
    pub fn team(&self) -> &'m Team<'m, A> {
        self.team
    }

    /// Returns this unit.
    pub fn rank(&self) -> Rank {
        self.team.rank()
    }

    /// Allocates `bytes` zeroed bytes at every unit, and returns the pointer to the first unit's part.
    ///
    /// Collective: all units pass the same number of bytes, and get the same pointer. [`GlobalPtr::at_unit`] makes the pointers to the other
    /// units' parts.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), [`Error::NotMade`] if only another unit has such an error,
    /// and [`Error::Uneven`].
    pub fn team_memalloc_aligned(&self, bytes: u64) -> Result<GlobalPtr> {
        let number = self.segments.get().saturating_add(1);
        let key = pointer::collective_key(number).ok_or(Error::Attach {
            rank: self.rank(),
            disp: WindowDisp(0),
            len: bytes,
            why: "all numbers of segments are used; make a new global memory",
        })?;
        self.segments.set(number);
        self.add_segment(key, bytes)?;
        Ok(GlobalPtr::of_key(key))
    }

    /// Makes a segment and adds it at the end of the table, on all units or on none.
    fn add_segment(&self, key: u32, bytes: u64) -> Result<()> {
        let made = self.make_segment(bytes);
        let [ok, own] = made.as_ref().map_or([0, 0], |segment| [1, segment.own.0 as u64]);
        let all = self.team.allgather(&[ok, own, bytes])?;
        let units = || (0..).map(Rank).zip(all.as_chunks::<3>().0);
        // Ranks of one node fail together, so all ranks that have to undo a step take part in undoing it.
        let failed = units().find(|(_, [made, ..])| *made == 0).map(|(rank, _)| Error::NotMade { rank });
        let uneven = units().find(|(_, [.., there])| *there != bytes);
        let uneven = uneven.map(|(other, &[.., there])| Error::Uneven { rank: self.rank(), bytes, other, there });
        let mut segment = made?;
        if let Some(error) = failed.or(uneven) {
            self.release(segment)?;
            return Err(error);
        }
        segment.starts = units().map(|(_, &[_, start, _])| start).collect();
        self.table.borrow_mut().push((key, Box::new(segment)));
        Ok(())
    }

    /// This node's part of [`add_segment`](Self::add_segment): a shared window, which is attached to the dynamic one.
    fn make_segment(&self, bytes: u64) -> Result<Segment<'m>> {
        let whole = bytes.max(1).checked_next_multiple_of(WORD).unwrap_or(u64::MAX);
        // Each part is in its own rank's memory, and so at a cache line.
        let config = Config { alloc_shared_noncontig: true, ..Config::default() };
        let window = Window::builder(self.node).config(config).allocate_shared(whole)?;
        let unreached = |target| Error::NotShared { call: Call::Memalloc, rank: self.rank(), target };
        let TargetPart::Fixed(TargetMemory::Segment(Address { disp: base, .. })) = window.local()?.part() else {
            return Err(unreached(self.rank()));
        };
        let words = (0..self.node.size())
            .map(Rank)
            .map(|rank| self.node.ra().shared_words(rank.at(base), whole / WORD).ok_or_else(|| unreached(rank)));
        let words = words.collect::<Result<_>>()?;
        match self.epoch.window().attach_window(&window) {
            Ok(own) => Ok(Segment { bytes, window, words, base, own, starts: Vec::new() }),
            Err(error) => {
                window.free()?;
                Err(error)
            }
        }
    }

    /// Frees a collective allocation. `pointer` is the result of
    /// [`team_memalloc_aligned`](Self::team_memalloc_aligned), at any unit. Collective.
    ///
    /// # Errors
    ///
    /// [`Error::BadPointer`], on all units, for any other pointer, and for an allocation that was freed before; and the errors of the network.
    pub fn team_memfree(&self, pointer: GlobalPtr) -> Result<()> {
        let refuse = |why| Err(self.bad(Call::Memfree, pointer, why));
        if !pointer.is_collective() {
            return refuse("it was not allocated collectively; memfree frees such memory");
        }
        self.find(Call::Memfree, pointer, 0)?;
        if pointer.offset() != 0 {
            return refuse("it points into an allocation; free it by the pointer to its start");
        }
        self.flush_all()?;
        self.team.barrier()?;
        // I2
        let at = self.table.borrow().binary_search_by_key(&pointer.key, |&(key, _)| key);
        match at {
            Ok(at) => {
                let (_, segment) = self.table.borrow_mut().remove(at);
                self.release(*segment)
            }
            Err(_) => refuse(UNKNOWN),
        }
    }

    /// Gives back a segment's memory, which no unit uses any longer.
    fn release(&self, segment: Segment<'m>) -> Result<()> {
        self.epoch.window().detach_window(segment.own)?;
        segment.window.free()
    }

    /// Allocates `bytes` zeroed bytes at this unit, at a multiple of 8. The call is not collective. All units may use the pointer.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory) when the pool has no such range.
    pub fn memalloc(&self, bytes: u64) -> Result<GlobalPtr> {
        // In whole words, so that no two allocations share one.
        let start = self.pool.alloc(bytes.max(1).checked_next_multiple_of(WORD).unwrap_or(bytes), WORD)?;
        Ok(GlobalPtr::in_pool(self.rank(), start.0))
    }

    /// Frees an allocation of this unit by [`memalloc`](Self::memalloc).
    ///
    /// # Errors
    ///
    /// [`Error::BadPointer`] for any other pointer, and for an allocation that was freed before.
    pub fn memfree(&self, pointer: GlobalPtr) -> Result<()> {
        let refuse = |why| self.bad(Call::Memfree, pointer, why);
        if pointer.is_collective() {
            return Err(refuse("it was allocated collectively; team_memfree frees such memory"));
        }
        let found = self.find(Call::Memfree, pointer, 0)?;
        if pointer.unit() != self.rank() {
            return Err(refuse("it is another unit's, which alone can free it"));
        }
        let start = Disp(pointer.offset());
        let unknown = |_| refuse("no allocation starts there: it was freed before, or the pointer is into one");
        let bytes = self.pool.len_of(start).map_err(unknown)?;
        // The unit's own part is on the local node, with the pool inside.
        let words = found.words.and_then(|words| words.get(found.offset / 8..(found.offset + bytes as usize) / 8));
        for word in words.unwrap_or_default() {
            word.store(0, Ordering::Relaxed);
        }
        Ok(self.pool.release(start)?)
    }

    /// Returns the number of free bytes of this unit's pool.
    pub fn pool_free_bytes(&self) -> u64 {
        self.pool.free_bytes()
    }

    /// Writes `source` at `pointer`. The put is complete there when the call returns.
    ///
    /// To a unit of the same node it stores with release, and gets there load with acquire. For a total order of such puts and gets, call
    /// [`flush`](Self::flush) between them.
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`GlobalMemory`].
    #[inline]
    pub fn put<T: Pod>(&self, pointer: GlobalPtr, source: &[T]) -> Result<()> {
        let found = self.find(Call::Put, pointer, size_of_val(source))?;
        match found.words {
            Some(words) if size_of_val(source) < COPIED => {
                copy::store(words, found.offset, bytemuck::cast_slice(source));
            }
            Some(_) => self.team.ra().put_bytes(found.at, bytemuck::cast_slice(source))?,
            None => {
                self.epoch.at(pointer.unit())?.put(found.disp, source)?;
                self.epoch.flush(pointer.unit())?;
            }
        }
        Ok(())
    }

    /// Reads `dest` from `pointer`.
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`GlobalMemory`].
    #[inline]
    pub fn get<T: Pod>(&self, pointer: GlobalPtr, dest: &mut [T]) -> Result<()> {
        let found = self.find(Call::Get, pointer, size_of_val(dest))?;
        match found.words {
            Some(words) if size_of_val(dest) < COPIED => {
                copy::load(words, found.offset, bytemuck::cast_slice_mut(dest));
            }
            Some(_) => self.team.ra().get_bytes(found.at, bytemuck::cast_slice_mut(dest))?,
            None => self.epoch.at(pointer.unit())?.get(found.disp, dest)?,
        }
        Ok(())
    }

    /// Writes one value, like [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`GlobalMemory`].
    #[inline]
    pub fn put_value<T: Pod>(&self, pointer: GlobalPtr, value: T) -> Result<()> {
        self.put(pointer, &[value])
    }

    /// Reads one value, like [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`GlobalMemory`].
    #[inline]
    pub fn get_value<T: Pod>(&self, pointer: GlobalPtr) -> Result<T> {
        let mut value = [T::zeroed()];
        self.get(pointer, &mut value)?;
        Ok(value[0])
    }

    /// Starts to write `source` at `pointer`.
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`GlobalMemory`]. An error drops the buffer.
    pub fn put_handle<T: Pod>(&self, pointer: GlobalPtr, source: Vec<T>) -> Result<Handle<'m, A, T>> {
        let (target, disp) = self.target(Call::Put, pointer, size_of_val(source.as_slice()))?;
        let request = target.rput(disp, source)?;
        Ok(Handle { request, flush: Some((self.epoch, pointer.unit())) })
    }

    /// Starts to read into `dest` from `pointer`.
    ///
    /// # Errors
    ///
    /// The errors of [`put_handle`](Self::put_handle).
    pub fn get_handle<T: Pod>(&self, pointer: GlobalPtr, dest: Vec<T>) -> Result<Handle<'m, A, T>> {
        let (target, disp) = self.target(Call::Get, pointer, size_of_val(dest.as_slice()))?;
        Ok(Handle { request: target.rget(disp, dest)?, flush: None })
    }

    /// Combines `value` into the element at `pointer`, and returns the old value.
    ///
    /// It is atomic with other atomics of any unit on elements of this type.
    ///
    /// # Errors
    ///
    /// The errors of [`Target::fetch_and_op`], and of all operations.
    #[inline]
    pub fn fetch_and_op<T: Element>(&self, pointer: GlobalPtr, op: Op, value: T) -> Result<T> {
        let (target, disp) = self.target(Call::FetchAndOp, pointer, size_of::<T>())?;
        target.fetch_and_op(disp, op, value)
    }

    /// Stores `desired` in the element at `pointer` if it is `expected`, and returns the old value.
    ///
    /// It is as atomic as [`fetch_and_op`](Self::fetch_and_op).
    ///
    /// # Errors
    ///
    /// The errors of all operations, see [`GlobalMemory`].
    #[inline]
    pub fn compare_and_swap<T: Swappable>(&self, pointer: GlobalPtr, expected: T, desired: T) -> Result<T> {
        let (target, disp) = self.target(Call::CompareAndSwap, pointer, size_of::<T>())?;
        target.compare_and_swap(disp, expected, desired)
    }

    /// Completes everything that this unit has issued to `unit`, there and here.
    ///
    /// # Errors
    ///
    /// The errors of the network, and [`RankOutOfRange`](rmalab_atomics::Error::RankOutOfRange).
    #[inline]
    pub fn flush(&self, unit: Rank) -> Result<()> {
        fence(Ordering::SeqCst); // the stores to the local node
        self.epoch.flush(unit)
    }

    /// Completes everything that this unit has issued.
    ///
    /// # Errors
    ///
    /// The errors of the network.
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        fence(Ordering::SeqCst);
        self.epoch.flush_all()
    }

    /// Returns the words of `bytes` bytes at `pointer`, if they belong to a unit of the local node and are whole words.
    ///
    /// Others may access this memory at the same time. After a free it may be part of another allocation.
    ///
    /// # Errors
    ///
    /// [`Error::BadPointer`], [`Error::OutOfSegment`].
    pub fn local(&self, pointer: GlobalPtr, bytes: u64) -> Result<Option<&'m [AtomicU64]>> {
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let Found { words, offset, .. } = self.find(Call::Local, pointer, len)?;
        let whole = offset.is_multiple_of(WORD as usize) && len.is_multiple_of(WORD as usize);
        Ok(words.filter(|_| whole).and_then(|words| words.get(offset / WORD as usize..(offset + len) / WORD as usize)))
    }

    /// Returns the place of `len` bytes at `pointer`.
    #[inline(always)]
    fn find(&self, call: Call, pointer: GlobalPtr, len: usize) -> Result<Found<'m>> {
        let table = self.table.borrow();
        let Ok(at) = table.binary_search_by_key(&pointer.key, |&(key, _)| key) else {
            return Err(self.bad(call, pointer, UNKNOWN));
        };
        let (segment, unit) = (&table[at].1, pointer.unit());
        let Some(&start) = segment.starts.get(unit.index()) else {
            return Err(self.bad(call, pointer, "the team has no such unit"));
        };
        let (offset, bytes, len) = (pointer.offset(), segment.bytes, len as u64);
        if len > bytes || offset > bytes - len {
            return Err(Error::OutOfSegment { rank: self.rank(), call, pointer, len, bytes });
        }
        if pointer.is_null() {
            return Err(self.bad(call, pointer, "nothing is there"));
        }
        let words = self.near.inner(unit).map(|rank| segment.words[rank.index()]);
        let at = unit.at(segment.base.plus(offset)).unwatched();
        Ok(Found { words, offset: offset as usize, at, disp: WindowDisp(start.wrapping_add(offset) as i64) })
    }

    /// Returns the unit's part of the dynamic window, and the place there of `len` bytes at `pointer`.
    #[inline]
    fn target(&self, call: Call, pointer: GlobalPtr, len: usize) -> Result<(Target<'m, A>, WindowDisp)> {
        let found = self.find(call, pointer, len)?;
        Ok((self.epoch.at(pointer.unit())?, found.disp))
    }

    #[cold]
    fn bad(&self, call: Call, pointer: GlobalPtr, why: &'static str) -> Error {
        Error::BadPointer { rank: self.rank(), call, pointer, why }
    }
}

/// Returns the reason why a pointer that is not in the table is refused.
const UNKNOWN: &str = "its segment was freed, or never allocated";

/// A put or get that is under way, which owns its buffer.
///
/// Dropping it waits until the buffer is no longer in use. Forgetting it leaks the buffer, and nothing else.
#[derive(Debug)]
#[must_use = "`wait` returns the buffer"]
pub struct Handle<'m, A: RemoteAtomics + ?Sized, T: Pod> {
    request: Request<'m, A, T>,
    /// The epoch and the target to flush, if it is a put.
    flush: Option<(&'m LockAll<'m, 'm, A>, Rank)>,
}

impl<A: RemoteAtomics + ?Sized, T: Pod> Handle<'_, A, T> {
    /// Waits until the operation is complete, here and at its target, and gives the buffer back.
    ///
    /// # Errors
    ///
    /// The errors of the network. The buffer is dropped then.
    pub fn wait(self) -> Result<Vec<T>> {
        let flush = self.flush;
        let buffer = self.request.wait()?;
        if let Some((epoch, unit)) = flush {
            epoch.flush(unit)?;
        }
        Ok(buffer)
    }

    /// Waits until the operation is complete here: a get has its data, and a put no longer uses its buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`wait`](Self::wait).
    pub fn wait_local(self) -> Result<Vec<T>> {
        self.request.wait()
    }

    /// Returns whether [`wait_local`](Self::wait_local) would return at once.
    ///
    /// # Errors
    ///
    /// The errors of the network.
    pub fn test(&mut self) -> Result<bool> {
        self.request.test()
    }

    /// Like [`wait`](Self::wait), for several handles. The buffers are in the order of the handles.
    ///
    /// # Errors
    ///
    /// The errors of [`wait`](Self::wait): the first one, after a wait for all handles.
    pub fn wait_all(handles: impl IntoIterator<Item = Self>) -> Result<Vec<Vec<T>>> {
        handles.into_iter().map(Handle::wait).collect()
    }
}
