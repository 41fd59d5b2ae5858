//! Ranks that share coherent memory: the common part of the thread and the process backend.
//!
//! Word operations are the processor's own atomics, sequentially consistent, except for the word put, which is a store
//! with release. Bulk operations are copies that are done when the call returns. A flush is a fence if puts of either
//! kind have not been followed by one (mapped/unfenced.rs). Otherwise it does nothing.

mod asymmetric;
pub(crate) mod copy;
#[cfg(rmalab_delays)]
mod delays;
mod failures;
mod memory;
mod registered;
mod registry;
mod unfenced;
mod wait;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};
use std::sync::{Arc, OnceLock};

pub use copy::add_words;
pub use memory::{Layout, Mapping};
pub use wait::OPERATION;

use crate::model::fabric::{
    self, AsymmetricFence, Bytes, Completion, DONE, Delay, Extras, Fabric, Leaving, LocalMemory, Registration, Span,
    Word, WordOp, WorldView,
};
use crate::model::registered::{Pinned, Refused, RegisteredKey, UserMemory};
use crate::model::words::LocalWords;
use crate::{Address, Capabilities, Disp, Error, Rank, Request, Result, SymmetricHeap, Time, Topology, Until, WORD};

/// The source from which a waiting rank learns whether its peers live.
///
/// A deregistration returns memory that a dead rank has pinned. So a wrong "dead" is unsound, and this trait is private to the
/// crate.
pub(crate) trait Liveness: Send + Sync {
    /// Returns a rank that has died without a report, if there is one.
    fn dead_peer(&self) -> Option<Rank>;

    /// Ends `rank`, which has attached, and waits until it is dead.
    fn kill(&self, rank: Rank) -> Result<()> {
        let _ = rank;
        Err(Error::Unsupported { what: "expelling a rank", why: "it is a thread of this process; use processes" })
    }

    /// Returns whether `rank` is known to have died, so that none of its operations can still take effect.
    fn is_dead(&self, rank: Rank) -> bool {
        let _ = rank;
        false
    }
}

/// Peers that report their own end, which are threads whose panics are caught.
#[derive(Debug)]
struct Vocal;

impl Liveness for Vocal {
    fn dead_peer(&self) -> Option<Rank> {
        None
    }
}

/// One rank of a world whose ranks share coherent memory: threads of a process, or processes of a host.
///
/// When it is dropped, the rank leaves the world in good order. If its thread is panicking, or the rank has [left
/// something undone](crate::RemoteAtomics::forsake), it leaves as failed, and the waits of the other ranks return that
/// failure.
pub struct Mapped {
    /// The start of rank 0's control block.
    blocks: NonNull<u8>,
    /// The distance from one rank's control block to the next, in bytes.
    stride: usize,
    /// The first word of this rank's own segment.
    own: NonNull<AtomicU64>,
    /// The number of words of a segment.
    words: u64,
    view: WorldView,
    patience: wait::Patience,
    /// True if a word put leaves the fence between its store and its look at `parked` to the rank that parks.
    light: bool,
    mapping: Arc<Mapping>,
    liveness: Box<dyn Liveness>,
    /// The fields that change through a shared reference. They are boxed, so that the fields above never change. The
    /// compiler may then keep those in registers across atomics. (A load after a locked instruction costs a third of
    /// that instruction.)
    cells: Box<Cells>,
}

struct Cells {
    last_look: wait::LastLook,
    registrations: registered::Registrations,
    forsaken: OnceLock<&'static str>,
    deaths: failures::Deaths,
}

// SAFETY: `blocks` points into the mapping, which `mapping` keeps and which may be used from any thread (see there).
unsafe impl Send for Mapped {}
// SAFETY: as above; every other field is Sync, and all access to the mapping is atomic.
unsafe impl Sync for Mapped {}

impl std::fmt::Debug for Mapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapped")
            .field("backend", &self.view.capabilities().backend)
            .field("rank", &self.view.rank())
            .field("size", &self.view.size())
            .field("segment", &self.view.segment())
            .finish_non_exhaustive()
    }
}

impl Mapped {
    /// Makes the handle of `rank` in a world over `mapping`.
    ///
    /// No rank notices when a rank ends without dropping its handle. So the ranks are threads, or a launcher ends all of them when one
    /// dies.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when there is no such rank, or when the topology has another number of ranks.
    pub fn new(mapping: Arc<Mapping>, rank: Rank, topology: Topology, backend: &'static str) -> Result<Mapped> {
        Mapped::watching(mapping, rank, topology, backend, Box::new(Vocal))
    }

    /// Like [`new`](Self::new), for peers that may die without a report.
    pub(crate) fn watching(
        mapping: Arc<Mapping>,
        rank: Rank,
        topology: Topology,
        backend: &'static str,
        liveness: Box<dyn Liveness>,
    ) -> Result<Mapped> {
        let layout = mapping.layout();
        if topology.size() != layout.size() {
            return Err(Error::world(format!(
                "the topology has {} ranks, but the world has {}",
                topology.size(),
                layout.size()
            )));
        }
        let light = asymmetric::register(mapping.is_private());
        // A put may still be in the processor's store buffer when its call returns.
        let capabilities = Capabilities {
            late_puts: light,
            asymmetric_fence: true,
            shares_processors: mapping.shares_processors(),
            ..Capabilities::coherent(backend)
        };
        let heap = SymmetricHeap::new(layout.segment_bytes());
        let view = WorldView::new(rank, layout.segment_bytes(), capabilities, topology, heap)?;
        mapping.mark_attached(rank);
        let registrations = registered::Registrations::new(Arc::clone(&mapping), rank);
        let (blocks, stride) = (mapping.blocks(), layout.stride());
        // SAFETY: the mapping has a control block and a segment for the rank, which the view has checked.
        let own = unsafe { blocks.add(rank.index() * stride + memory::CONTROL) }.cast();
        Ok(Mapped {
            blocks,
            stride,
            own,
            words: layout.segment_bytes() / WORD,
            view,
            patience: wait::Patience::new(layout.size()),
            light,
            mapping,
            liveness,
            cells: Box::new(Cells {
                last_look: wait::LastLook::default(),
                registrations,
                forsaken: OnceLock::new(),
                deaths: failures::Deaths::default(),
            }),
        })
    }

    /// Returns the memory that the world shares.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Leaves the world as failed: the waits of all other ranks return [`Error::PeerFailed`] with this rank.
    pub fn fail(self) {
        self.mapping.mark_failed(self.view.rank());
    }

    fn liveness(&self) -> &dyn Liveness {
        &*self.liveness
    }

    fn patience(&self) -> wait::Patience {
        self.patience
    }

    fn last_look(&self) -> &wait::LastLook {
        &self.cells.last_look
    }

    /// Returns the control block of the word's rank, and the word.
    #[inline(always)]
    fn place(&self, at: Word) -> (&memory::Control, &AtomicU64) {
        assert!(self.view.has_word(at), "{} is a word of another world", at.address());
        // SAFETY: the rank belongs to the mapping, and the aligned word lies in its segment (just checked). The mapping
        // lives as long as `self`. All accesses to it are atomic.
        unsafe {
            let block = self.blocks.add(at.rank().index() * self.stride);
            let word = block.add(memory::CONTROL + at.disp().0 as usize);
            (block.cast::<memory::Control>().as_ref(), word.cast::<AtomicU64>().as_ref())
        }
    }

    /// Returns the control block of the span's rank, and the start of the span.
    ///
    /// # Safety
    ///
    /// The span belongs to this world.
    #[inline(always)]
    unsafe fn start_of(&self, span: Span) -> (&memory::Control, *mut u8) {
        // SAFETY: the rank belongs to the mapping, and the range lies in its segment (the caller's promise).
        unsafe {
            let block = self.blocks.add(span.rank().index() * self.stride);
            (block.cast::<memory::Control>().as_ref(), block.add(memory::CONTROL + span.disp().0 as usize).as_ptr())
        }
    }

    /// Wakes the rank whose word `at` has just been written, if it is parked on it.
    ///
    /// The write was sequentially consistent, and so is this load. `wait_slowly` explains why no wake-up is lost.
    #[inline(always)]
    fn notify(&self, control: &memory::Control, at: Word) {
        if at.watched() && control.parked.load(Ordering::SeqCst) == at.disp().0 + 1 {
            self.wake(control);
        }
    }

    /// Wakes the rank of `control`, if it is parked, after a write to its segment that need not consist of words.
    #[inline(always)]
    fn notify_any(&self, control: &memory::Control) {
        // Like `notify`, with a fence in place of a sequentially consistent write.
        fence(Ordering::SeqCst);
        if control.parked.load(Ordering::SeqCst) != 0 {
            self.wake(control);
        }
    }

    #[cold]
    fn wake(&self, control: &memory::Control) {
        if control.parked.swap(0, Ordering::SeqCst) != 0 {
            self.mapping.wake(control);
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if std::thread::panicking() || self.cells.forsaken.get().is_some() {
            self.mapping.mark_failed(self.view.rank());
        } else {
            self.mapping.mark_departed(self.view.rank());
        }
    }
}

/// From this many bytes of whole pages on, a clear asks the kernel which pages are present, and touches no others.
const ASKED_AFTER: usize = 64 << 10;

/// Above this many bytes, a clear gives all pages back to the kernel, which zeroes them at the next access. Below, it
/// zeroes the pages that are present and keeps them, since a page fault costs about ten times as much.
const KEPT: usize = 64 << 20;

impl Fabric for Mapped {
    #[inline(always)]
    fn view(&self) -> &WorldView {
        &self.view
    }

    #[inline(always)]
    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        #[cfg(rmalab_delays)]
        delays::delay();
        let (control, word) = self.place(at);
        let old = match op {
            WordOp::FetchAdd(value) => word.fetch_add(value, Ordering::SeqCst),
            WordOp::FetchStore(value) => word.swap(value, Ordering::SeqCst),
            WordOp::CompareAndSwap { expected, desired } => {
                match word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(old) => old,
                    Err(old) => return Ok(old),
                }
            }
            WordOp::Get => return Ok(word.load(Ordering::SeqCst)),
            WordOp::Put(value) if self.light => {
                word.store(value, Ordering::Release);
                unfenced::put();
                // The light side of mapped/asymmetric.rs: the fence here is the parking rank's.
                compiler_fence(Ordering::SeqCst);
                if at.watched() && control.parked.load(Ordering::Relaxed) == at.disp().0 + 1 {
                    self.wake(control);
                }
                return Ok(0);
            }
            WordOp::Put(value) => {
                // A swap, since `notify` needs the store before its load. On x86 it costs a quarter of a store and a fence.
                word.swap(value, Ordering::SeqCst);
                0
            }
        };
        self.notify(control, at);
        Ok(old)
    }

    #[inline(always)]
    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        let old = self.word(at, op)?;
        // SAFETY: the caller's promise.
        unsafe { result.write(old) };
        Ok(DONE)
    }

    #[inline(always)]
    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        // SAFETY: the caller's promise.
        let (control, shared) = unsafe { self.start_of(at) };
        match bytes {
            Bytes::Put(source) => {
                // SAFETY: the caller vouches for `source` and for the span.
                unsafe { copy::to_shared(source, shared, at.len()) };
                if at.address().watched {
                    self.notify_any(control);
                } else {
                    unfenced::put();
                }
                if until == Completion::Target {
                    unfenced::flush();
                }
            }
            Bytes::Get(dest) => {
                // SAFETY: the caller vouches for `dest` and for the span.
                unsafe { copy::from_shared(shared, dest, at.len()) };
                // Pairs with the release of the operation by which this rank has learned that the bytes are there.
                fence(Ordering::Acquire);
            }
            Bytes::Clear => {
                // SAFETY: the caller vouches for the span.
                unsafe { self.zero(shared, at.len()) };
                self.notify_any(control);
            }
        }
        Ok(DONE)
    }

    #[inline(always)]
    fn done(&self, _request: &Request) -> Result<bool> {
        Ok(true)
    }

    #[inline(always)]
    fn finish(&self, _request: Request) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn complete(&self, _target: Option<Rank>) -> Result<()> {
        unfenced::flush();
        Ok(())
    }

    #[inline(always)]
    fn keep_order(&self, _target: Rank) -> Result<()> {
        // Each later put or atomic operation on a word releases.
        Ok(())
    }

    #[inline(always)]
    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.wait_for(own, until, deadline, None)
    }

    #[inline]
    fn delay(&self, delay: Delay) -> Result<()> {
        match delay {
            Delay::Operations(operations) => self.pause_for(operations),
            Delay::Compute(time) => {
                fabric::keep_busy(self, time);
                Ok(())
            }
        }
    }

    #[inline]
    fn clock(&self) -> Time {
        fabric::monotonic()
    }

    #[inline(always)]
    fn extras(&self) -> Extras<'_> {
        Extras {
            shared: Some(self),
            memory: Some(self),
            fence: Some(self),
            registration: Some(self),
            leaving: Some(self),
            failures: Some(self),
            outer: None,
        }
    }
}

impl Leaving for Mapped {
    #[inline]
    fn wait_on_writer(&self, own: Word, until: Until, writer: Rank) -> Result<u64> {
        let value = self.wait_for(own, until, None, Some(writer))?;
        Ok(value.expect("a wait without a deadline ends with a value or an error"))
    }

    fn forsake(&self, what: &'static str) {
        // The error names the first failed rank.
        let _ = self.cells.forsaken.set(what);
    }

    fn forsaken(&self) -> Option<&'static str> {
        self.cells.forsaken.get().copied()
    }
}

impl LocalMemory for Mapped {
    #[inline(always)]
    fn shared_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        let end = at.disp.0.checked_add(words.checked_mul(WORD)?)?;
        if at.rank.0 >= self.view.size() || !at.disp.0.is_multiple_of(WORD) || end > self.view.segment() {
            return None;
        }
        // SAFETY: the rank belongs to the mapping, and the range lies in its segment and is aligned (all checked). The
        // mapping lives as long as `self`, and all accesses to it are atomic.
        unsafe {
            let block = self.blocks.add(at.rank.index() * self.stride);
            let start = block.add(memory::CONTROL + at.disp.0 as usize);
            Some(std::slice::from_raw_parts(start.cast().as_ptr(), words as usize))
        }
    }

    #[inline(always)]
    fn direct_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        LocalMemory::shared_words(self, at, words)
    }

    #[inline(always)]
    fn own_words(&self, at: Disp, words: u64) -> Option<&[AtomicU64]> {
        // A displacement within a word has its low bits at the top now, and is above any number of words.
        let index = at.0.rotate_right(WORD.trailing_zeros());
        if index >= self.words || self.words - index < words {
            return None;
        }
        // SAFETY: the range lies in this rank's segment (checked). The mapping lives as long as `self`, and all accesses to it
        // are atomic.
        Some(unsafe { std::slice::from_raw_parts(self.own.add(index as usize).as_ptr(), words as usize) })
    }

    #[inline(always)]
    fn local_words(&self, at: Address, words: u64) -> Option<LocalWords<'_>> {
        LocalMemory::shared_words(self, at, words).map(LocalWords::of)
    }

    #[inline(always)]
    fn stored(&self) {
        unfenced::put();
    }
}

impl AsymmetricFence for Mapped {
    #[inline(always)]
    fn fence_light(&self) {
        if self.light {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    fn fence_everywhere(&self) -> Result<bool> {
        Ok(asymmetric::fence_everywhere(self.mapping.is_private()))
    }
}

impl Registration for Mapped {
    fn register(&self, memory: UserMemory) -> Result<RegisteredKey, Refused> {
        self.cells.registrations.open(memory)
    }

    fn deregister(&self, key: RegisteredKey) -> Result<UserMemory> {
        self.deregister_registered(key)
    }

    fn pin(&self, rank: Rank, key: RegisteredKey) -> Result<Box<dyn Pinned + '_>> {
        self.pin_registered(rank, key)
    }
}

impl Mapped {
    /// Zeroes `bytes` bytes at `start`.
    ///
    /// # Safety
    ///
    /// They lie in this rank's segment.
    unsafe fn zero(&self, start: *mut u8, bytes: usize) {
        let page = rustix::param::page_size();
        let head = start.align_offset(page).min(bytes);
        let pages = (bytes - head) / page * page;
        // SAFETY: the parts stay within the range that the caller vouches for. The second part consists of whole pages of
        // it.
        unsafe {
            if pages < ASKED_AFTER {
                copy::zero_shared(start, bytes);
            } else {
                copy::zero_shared(start, head);
                copy::zero_shared(start.add(head + pages), bytes - head - pages);
                if pages <= KEPT || !self.mapping.give_back(start.add(head), pages) {
                    self.mapping.resident(start.add(head), pages, |there, start, len| {
                        // A page that is not present may be swapped out. Only giving it back to the kernel is certain
                        // to make it zero.
                        if there || !self.mapping.give_back(start, len) {
                            copy::zero_shared(start, len);
                        }
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RemoteAtomics, World};

    #[test]
    fn a_clear_that_does_not_fit_has_done_nothing() {
        World::threads(1)
            .run(|ra| {
                let end = ra.heap().capacity();
                ra.put(Rank(0).at(Disp(0)), 1).unwrap();
                for (own, len) in [(0, end + 1), (8, u64::MAX), (8, end), (end, 1), (u64::MAX, 2)] {
                    match ra.clear(Disp(own), len) {
                        Err(Error::OutOfSegment { at, len: said, segment, .. }) => {
                            assert_eq!((at.disp, said, segment), (Disp(own), len, end));
                        }
                        other => panic!("{len} bytes at {own}: {other:?}"),
                    }
                }
                assert_eq!(ra.get(Rank(0).at(Disp(0))).unwrap(), 1);
                ra.clear(Disp(0), end).unwrap();
                ra.clear(Disp(end), 0).unwrap();
                assert_eq!(ra.get(Rank(0).at(Disp(0))).unwrap(), 0);
            })
            .unwrap();
    }

    #[test]
    fn whole_pages_are_given_back_to_the_kernel() {
        let check = |mapping: Mapping| {
            let page = rustix::param::page_size();
            let page_of =
                |offset: usize| mapping.blocks().as_ptr().wrapping_add(offset).map_addr(|at| at & !(page - 1));
            let start = page_of(2 * page);
            // SAFETY: a page within the first segment of 1 MiB, accessed by this thread alone.
            unsafe { start.write(1) };
            // SAFETY: 16 whole pages within that segment.
            assert!(unsafe { mapping.give_back(start, 16 * page) });
            // SAFETY: as above.
            assert_eq!(unsafe { start.read() }, 0);
        };
        let layout = Layout::new(1, 1 << 20).unwrap();
        check(Mapping::anonymous(layout).unwrap());
        let file = crate::backend::shm::create(layout).unwrap();
        // SAFETY: a new sealed file, which no other code writes.
        check(unsafe { Mapping::shared(std::os::fd::AsFd::as_fd(&file), layout, true).unwrap() });
    }

    #[test]
    fn pages_that_may_hold_data_are_found() {
        let check = |mapping: Mapping| {
            let page = rustix::param::page_size();
            let start = mapping.blocks().as_ptr().wrapping_add(2 * page).map_addr(|at| at & !(page - 1));
            let written = [3, 4, 9].map(|number: usize| start.wrapping_add(number * page + 17));
            for at in written {
                // SAFETY: a byte within the first segment of 1 MiB, accessed by this thread alone.
                unsafe { at.write(1) };
            }
            let mut runs = Vec::new();
            // SAFETY: 16 whole pages within that segment.
            unsafe { mapping.resident(start, 16 * page, |there, at, len| runs.push((there, at.addr(), len))) };
            for at in written {
                let holds =
                    |&(there, from, len): &(bool, usize, usize)| there && (from..from + len).contains(&at.addr());
                assert_eq!(runs.iter().filter(|run| holds(run)).count(), 1, "{runs:x?}");
            }
            let within =
                |&(_, from, len): &(bool, usize, usize)| from >= start.addr() && from + len <= start.addr() + 16 * page;
            assert!(runs.iter().all(within), "{runs:x?}");
            assert!(runs.iter().filter(|run| run.0).map(|run| run.2).sum::<usize>() < 16 * page, "{runs:x?}");
        };
        let layout = Layout::new(1, 1 << 20).unwrap();
        check(Mapping::anonymous(layout).unwrap());
        let file = crate::backend::shm::create(layout).unwrap();
        // SAFETY: a new sealed file, which no other code writes.
        check(unsafe { Mapping::shared(std::os::fd::AsFd::as_fd(&file), layout, true).unwrap() });
    }
}
