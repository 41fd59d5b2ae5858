//! Registration of the program's own memory for RDMA: a pin-down cache, and a bounce buffer for what is short.
//!
//! A network adapter reads and writes registered memory only, and registering takes longer than sending most messages:
//! the kernel pins the pages and the adapter takes over their addresses. Memory of windows is registered when it is
//! made; the buffers at the origin of a put or get are the program's own, anywhere. What is short is copied through
//! memory that was registered once, what is long stays registered in a cache after its first use. [`Staging`] chooses.
//!
//! # Sources
//!
//! * H. Tezuka, F. O'Carroll, A. Hori, Y. Ishikawa, Pin-down cache: a virtual memory management technique for zero-copy
//!   communication, IPPS/SPDP 1998: registration on demand, release on demand, least recently used first.
//! * W. Jiang, J. Liu, H.-W. Jin, D. K. Panda, W. Gropp, R. Thakur, High performance MPI-2 one-sided communication over
//!   InfiniBand, CCGrid 2004, section 4.3: both ways side by side, for the buffers at the origin.
//!
//! # Invariants of the cache
//!
//! * C1: A region that is in use, that is, one with a [`Pinned`] of it, stays registered.
//! * C2: Of the regions that a lookup may find none contains another. So that of those that start at or before an
//!   address the one that starts last ends last, too: one step in an ordered map finds a region that covers a range, or
//!   that there is none. A new region replaces those that it contains; those that it merely overlaps stay.
//! * C3: More than the limits is registered only while regions in use alone make up more: no region is idle then.
//! * C4: A region that was invalidated or replaced is found no more, and is gone when its last use ends.
//!
//! # Cost
//!
//! A hit takes a step in a map of the regions, a miss a registration and, where the limits demand it, a pass over the
//! map for each eviction.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::rc::Rc;

use crate::{Error, Result};

/// Registers memory with a network adapter.
pub trait Registrar {
    /// Registered memory, with what the adapter knows it by; dropping it deregisters the memory.
    type Region;

    /// Registers `len` bytes at `start`, whole pages that this process may read and write.
    ///
    /// # Errors
    ///
    /// [`Error::System`] with the operating system's answer. If that is [`ErrorKind::OutOfMemory`] (the limit on locked
    /// memory is reached), a cache gives regions back and asks again.
    fn register(&self, start: *const u8, len: usize) -> Result<Self::Region>;
}

impl<R: Registrar + ?Sized> Registrar for &R {
    type Region = R::Region;

    fn register(&self, start: *const u8, len: usize) -> Result<R::Region> {
        (**self).register(start, len)
    }
}

impl<R: Registrar + ?Sized> Registrar for Rc<R> {
    type Region = R::Region;

    fn register(&self, start: *const u8, len: usize) -> Result<R::Region> {
        (**self).register(start, len)
    }
}

/// How much a cache keeps registered, unless more is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes in all regions; a page in two regions counts twice, as it does for the kernel.
    pub bytes: usize,
    /// Regions.
    pub regions: usize,
}

/// What a cache has done since it was made, and what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Pins that found a region.
    pub hits: u64,
    /// Pins that found none: each was a registration, or an error.
    pub misses: u64,
    /// Regions that were given back to stay within the limits, or because a registration was refused.
    pub evictions: u64,
    /// Regions that were invalidated, or replaced by larger ones.
    pub retired: u64,
    /// Bytes that are registered now.
    pub bytes: usize,
    /// Regions that are registered now.
    pub regions: usize,
}

/// Whole pages, by their addresses: the first byte, and the one behind the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    start: usize,
    end: usize,
}

impl Span {
    /// The pages that hold `len` bytes at `start`; none, if there are no bytes or if they leave the address space.
    fn around(start: *const u8, len: usize) -> Option<Span> {
        let page = rustix::param::page_size();
        let (start, last) = (start.addr(), start.addr().checked_add(len.checked_sub(1)?)?);
        Some(Span { start: start - start % page, end: (last - last % page).checked_add(page)? })
    }

    fn len(self) -> usize {
        self.end - self.start
    }

    fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    fn overlaps(self, other: Span) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// A region of the cache.
struct Entry<G> {
    span: Span,
    region: G,
    /// How many [`Pinned`] there are of it.
    users: Cell<usize>,
    /// When it was last pinned.
    used: Cell<u64>,
    /// Whether it has left the map: invalidated or replaced.
    retired: Cell<bool>,
}

/// What a method takes out of the cache, to be deregistered when nothing is borrowed any more.
type Victims<G> = Vec<Rc<Entry<G>>>;

struct State<G> {
    /// The regions that a lookup may find, by where they start.
    found: BTreeMap<usize, Rc<Entry<G>>>,
    /// Counts pins.
    clock: u64,
    statistics: Statistics,
}

impl<G> State<G> {
    /// A region that covers `span`, by invariant C2.
    fn lookup(&self, span: Span) -> Option<&Rc<Entry<G>>> {
        let (_, entry) = self.found.range(..=span.start).next_back()?;
        entry.span.contains(span).then_some(entry)
    }

    /// Takes the region that starts at `start` out of the map; says which it was if it was idle, and so is gone.
    fn retire(&mut self, start: usize) -> Option<Rc<Entry<G>>> {
        let entry = self.found.remove(&start)?;
        entry.retired.set(true);
        if entry.users.get() > 0 {
            return None;
        }
        self.gone(entry.span);
        Some(entry)
    }

    fn gone(&mut self, span: Span) {
        self.statistics.bytes -= span.len();
        self.statistics.regions -= 1;
    }

    /// Takes out the idle region that was pinned longest ago.
    fn evict(&mut self) -> Option<Rc<Entry<G>>> {
        let idle = self.found.values().filter(|entry| entry.users.get() == 0);
        let start = idle.min_by_key(|entry| entry.used.get())?.span.start;
        self.statistics.evictions += 1;
        self.retire(start)
    }

    /// Takes out idle regions until there is room for so much more, or none is idle.
    fn make_room(&mut self, limits: Limits, bytes: usize, regions: usize) -> Victims<G> {
        let mut victims = Vec::new();
        while self.statistics.bytes.saturating_add(bytes) > limits.bytes
            || self.statistics.regions.saturating_add(regions) > limits.regions
        {
            let Some(victim) = self.evict() else { break };
            victims.push(victim);
        }
        victims
    }

    /// Takes out what `leaves` names; those in use go when their last use ends.
    fn retire_all(&mut self, leaves: impl Fn(Span) -> bool) -> Victims<G> {
        let starts: Vec<usize> =
            self.found.values().map(|entry| entry.span).filter(|&span| leaves(span)).map(|span| span.start).collect();
        self.statistics.retired += starts.len() as u64;
        starts.into_iter().filter_map(|start| self.retire(start)).collect()
    }
}

struct Shared<R: Registrar> {
    registrar: R,
    limits: Limits,
    state: RefCell<State<R::Region>>,
}

/// Registered regions of the program's memory, kept after their use for the next one; for one thread.
///
/// The program says by [`invalidate`](Self::invalidate) which memory it is about to give back to the system: other
/// memory that comes to the same addresses is not what is registered under them.
pub struct PinDownCache<R: Registrar> {
    shared: Rc<Shared<R>>,
}

impl<R: Registrar> PinDownCache<R> {
    /// A cache without a region.
    pub fn new(registrar: R, limits: Limits) -> PinDownCache<R> {
        let state = State { found: BTreeMap::new(), clock: 0, statistics: Statistics::default() };
        PinDownCache { shared: Rc::new(Shared { registrar, limits, state: RefCell::new(state) }) }
    }

    /// A registered region that covers `len` bytes at `start`, which stays registered as long as the result lives.
    ///
    /// Nothing at `start` is accessed. Whoever has the adapter access it sees to it that the memory lives until then.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when there are no bytes, or when the registration fails; where it fails for want of memory,
    /// regions that nobody uses have been given back first, as many as it took or all.
    pub fn pin(&self, start: *const u8, len: usize) -> Result<Pinned<R>> {
        let span = Span::around(start, len).ok_or_else(|| {
            Error::system(format!("registering {len} bytes at {:#x}", start.addr()), ErrorKind::InvalidInput)
        })?;
        let mut state = self.shared.state.borrow_mut();
        state.clock += 1;
        let clock = state.clock;
        if let Some(entry) = state.lookup(span) {
            let entry = Rc::clone(entry);
            state.statistics.hits += 1;
            entry.used.set(clock);
            return Ok(self.pinned(entry));
        }
        state.statistics.misses += 1;
        let mut victims = state.retire_all(|inner| span.contains(inner));
        victims.append(&mut state.make_room(self.shared.limits, span.len(), 1));
        drop(state);
        drop(victims);
        let region = self.register(span)?;
        let entry =
            Rc::new(Entry { span, region, users: Cell::new(0), used: Cell::new(clock), retired: Cell::new(false) });
        let mut state = self.shared.state.borrow_mut();
        state.statistics.bytes += span.len();
        state.statistics.regions += 1;
        state.found.insert(span.start, Rc::clone(&entry));
        Ok(self.pinned(entry))
    }

    fn pinned(&self, entry: Rc<Entry<R::Region>>) -> Pinned<R> {
        entry.users.set(entry.users.get() + 1);
        Pinned { shared: Rc::clone(&self.shared), entry: Some(entry) }
    }

    /// Registers; while memory is wanting, gives as many bytes back as are asked for, and tries again.
    fn register(&self, span: Span) -> Result<R::Region> {
        loop {
            let error = match self.shared.registrar.register(std::ptr::without_provenance(span.start), span.len()) {
                Err(Error::System { source, .. }) if source.kind() == ErrorKind::OutOfMemory => source,
                done => return done,
            };
            let mut state = self.shared.state.borrow_mut();
            let mut victims = Vec::new();
            let mut freed = 0;
            while freed < span.len()
                && let Some(victim) = state.evict()
            {
                freed += victim.span.len();
                victims.push(victim);
            }
            if victims.is_empty() {
                let Statistics { bytes, regions, .. } = state.statistics;
                return Err(Error::system(
                    format!(
                        "registering {} bytes at {:#x} beside {bytes} bytes in {regions} regions that are in use (wait for operations to complete, or raise the limit on locked memory, `ulimit -l`)",
                        span.len(),
                        span.start
                    ),
                    error,
                ));
            }
            drop(state);
        }
    }

    /// Forgets all regions with a byte of the `len` at `start`: the program is about to free them.
    ///
    /// Regions that nobody uses are deregistered at once, others when their last use ends.
    pub fn invalidate(&self, start: *const u8, len: usize) {
        let Some(range) = Span::around(start, len) else { return };
        let victims = self.shared.state.borrow_mut().retire_all(|span| span.overlaps(range));
        drop(victims);
    }

    /// What the cache has done and holds.
    pub fn statistics(&self) -> Statistics {
        self.shared.state.borrow().statistics
    }
}

impl<R: Registrar> fmt::Debug for PinDownCache<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinDownCache")
            .field("limits", &self.shared.limits)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

/// A use of a region of a [`PinDownCache`], which stays registered as long as this lives.
pub struct Pinned<R: Registrar> {
    shared: Rc<Shared<R>>,
    /// Taken when this is dropped.
    entry: Option<Rc<Entry<R::Region>>>,
}

impl<R: Registrar> Pinned<R> {
    fn entry(&self) -> &Entry<R::Region> {
        self.entry.as_ref().expect("the entry is there until the drop")
    }

    /// The region, which covers at least what was asked for.
    pub fn region(&self) -> &R::Region {
        &self.entry().region
    }
}

impl<R: Registrar> Drop for Pinned<R> {
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        let mut state = self.shared.state.borrow_mut();
        entry.users.set(entry.users.get() - 1);
        let victims = if entry.users.get() > 0 {
            Vec::new()
        } else if entry.retired.get() {
            state.gone(entry.span);
            vec![entry]
        } else {
            // It may be the very one that is evicted.
            drop(entry);
            state.make_room(self.shared.limits, 0, 0)
        };
        drop(state);
        drop(victims);
    }
}

impl<R: Registrar> fmt::Debug for Pinned<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pinned").field(&self.entry().span).finish()
    }
}

/// Memory that was registered once, in slots of one size, for what is short; for one thread.
pub struct BouncePool<R: Registrar> {
    slab: Rc<Slab<R::Region>>,
}

struct Slab<G> {
    /// Before the memory, since fields are dropped in their order: the memory outlives its registration.
    region: G,
    /// Cells, since the adapter reads and writes them, too.
    memory: Box<[Cell<u8>]>,
    /// Where slot 0 begins, at a page.
    first: usize,
    slot_bytes: usize,
    free: RefCell<Vec<usize>>,
}

impl<R: Registrar> BouncePool<R> {
    /// Registers memory for `slots` slots of `slot_bytes` bytes each.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when that is no memory at all, or more than there is, or when the registration fails.
    pub fn new(registrar: &R, slots: usize, slot_bytes: usize) -> Result<BouncePool<R>> {
        let failed = |kind: ErrorKind| {
            Error::system(format!("making a bounce buffer of {slots} slots of {slot_bytes} bytes"), kind)
        };
        let page = rustix::param::page_size();
        let bytes = slots.checked_mul(slot_bytes).filter(|&bytes| bytes > 0);
        let pages = bytes.and_then(|bytes| bytes.checked_next_multiple_of(page));
        let pages = pages.ok_or_else(|| failed(ErrorKind::InvalidInput))?;
        // A page more, so that whole pages fit in wherever it begins.
        let len = pages.checked_add(page).ok_or_else(|| failed(ErrorKind::InvalidInput))?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(len).map_err(|_| failed(ErrorKind::OutOfMemory))?;
        memory.resize(len, Cell::new(0));
        let memory: Box<[Cell<u8>]> = memory.into_boxed_slice();
        let first = memory.as_ptr().addr().next_multiple_of(page) - memory.as_ptr().addr();
        let region = registrar.register(memory[first..].as_ptr().cast(), pages)?;
        // The first one is handed out first.
        let free = RefCell::new((0..slots).rev().collect());
        Ok(BouncePool { slab: Rc::new(Slab { region, memory, first, slot_bytes, free }) })
    }

    /// A slot that nobody else has, or `None` when all are in use: then operations have to complete first.
    pub fn acquire(&self) -> Option<Slot<R>> {
        let index = self.slab.free.borrow_mut().pop()?;
        Some(Slot { slab: Rc::clone(&self.slab), index })
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slab.slot_bytes
    }

    /// Slots that nobody has.
    pub fn free(&self) -> usize {
        self.slab.free.borrow().len()
    }
}

impl<R: Registrar> fmt::Debug for BouncePool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BouncePool")
            .field("slot_bytes", &self.slot_bytes())
            .field("free", &self.free())
            .finish_non_exhaustive()
    }
}

/// A slot of a [`BouncePool`], which goes back to it when this is dropped: not before the operation is complete.
pub struct Slot<R: Registrar> {
    slab: Rc<Slab<R::Region>>,
    index: usize,
}

impl<R: Registrar> Slot<R> {
    fn bytes(&self) -> &[Cell<u8>] {
        let start = self.slab.first + self.index * self.slab.slot_bytes;
        &self.slab.memory[start..start + self.slab.slot_bytes]
    }

    /// Copies `source` to the start of the slot.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the slot is shorter; nothing is copied then.
    pub fn copy_in(&self, source: &[u8]) -> Result<()> {
        let slot = self.part(source.len())?;
        slot.iter().zip(source).for_each(|(cell, &byte)| cell.set(byte));
        Ok(())
    }

    /// Copies the start of the slot to `dest`.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the slot is shorter; nothing is copied then.
    pub fn copy_out(&self, dest: &mut [u8]) -> Result<()> {
        let slot = self.part(dest.len())?;
        slot.iter().zip(dest).for_each(|(cell, byte)| *byte = cell.get());
        Ok(())
    }

    fn part(&self, len: usize) -> Result<&[Cell<u8>]> {
        self.bytes().get(..len).ok_or_else(|| {
            let what = format!("copying {len} bytes through a bounce buffer with slots of {}", self.slab.slot_bytes);
            Error::system(what, ErrorKind::InvalidInput)
        })
    }

    /// Where the slot starts.
    pub fn start(&self) -> *const u8 {
        self.bytes().as_ptr().cast()
    }

    /// The region that the slot lies in.
    pub fn region(&self) -> &R::Region {
        &self.slab.region
    }
}

impl<R: Registrar> Drop for Slot<R> {
    fn drop(&mut self) {
        self.slab.free.borrow_mut().push(self.index);
    }
}

impl<R: Registrar> fmt::Debug for Slot<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.index).finish()
    }
}

/// Both ways to bytes that an adapter may access: copied if they fit into a slot, registered where they are if not.
pub struct Staging<R: Registrar> {
    /// The way of those that fit.
    pub bounce: BouncePool<R>,
    /// The way of the others.
    pub cache: PinDownCache<R>,
}

/// Bytes that an adapter may access, for as long as this lives.
pub enum Source<R: Registrar> {
    /// A copy.
    Bounce(Slot<R>),
    /// The bytes themselves, which the caller keeps alive and as they are until the operation is complete.
    Pinned(Pinned<R>, *const u8),
}

impl<R: Registrar> fmt::Debug for Source<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Bounce(slot) => slot.fmt(f),
            Source::Pinned(pinned, _) => pinned.fmt(f),
        }
    }
}

impl<R: Registrar> Source<R> {
    /// Where the bytes are.
    pub fn start(&self) -> *const u8 {
        match self {
            Source::Bounce(slot) => slot.start(),
            Source::Pinned(_, start) => *start,
        }
    }

    /// The region that they lie in.
    pub fn region(&self) -> &R::Region {
        match self {
            Source::Bounce(slot) => slot.region(),
            Source::Pinned(pinned, _) => pinned.region(),
        }
    }
}

impl<R: Registrar> fmt::Debug for Staging<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staging").field("bounce", &self.bounce).field("cache", &self.cache).finish()
    }
}

impl<R: Registrar> Staging<R> {
    /// A bounce buffer of `slots` slots of `slot_bytes` bytes, and an empty cache for what is longer than that.
    ///
    /// # Errors
    ///
    /// As [`BouncePool::new`].
    pub fn new(registrar: R, slots: usize, slot_bytes: usize, limits: Limits) -> Result<Staging<R>> {
        let bounce = BouncePool::new(&registrar, slots, slot_bytes)?;
        Ok(Staging { bounce, cache: PinDownCache::new(registrar, limits) })
    }

    /// Makes `bytes` accessible to the adapter; `None` when they are short and all slots are in use.
    ///
    /// The caller then waits for an operation to complete, or [pins](PinDownCache::pin) them all the same.
    ///
    /// # Errors
    ///
    /// As [`PinDownCache::pin`].
    pub fn stage(&self, bytes: &[u8]) -> Result<Option<Source<R>>> {
        if bytes.len() > self.bounce.slot_bytes() {
            let pinned = self.cache.pin(bytes.as_ptr(), bytes.len())?;
            return Ok(Some(Source::Pinned(pinned, bytes.as_ptr())));
        }
        let Some(slot) = self.bounce.acquire() else { return Ok(None) };
        slot.copy_in(bytes)?;
        Ok(Some(Source::Bounce(slot)))
    }
}

#[cfg(test)]
mod tests;
