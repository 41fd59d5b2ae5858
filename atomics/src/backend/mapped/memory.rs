//! The memory of a world: one mapping, and its layout.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::SeekFrom;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::thread::futex;

use super::registry::Registry;
use crate::{Error, Rank, Result};

/// Bytes of a page, the unit in which ranks' blocks are laid out so that no two of them share one.
const PAGE: u64 = 4096;

/// The first page of a mapping.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    segment: AtomicU64,
    size: AtomicU32,
    /// The first rank that failed, plus one; 0 while no rank has failed.
    failed: AtomicU32,
    /// The number of ranks that have failed.
    failures: AtomicU32,
    /// The highest generation that was revoked, plus one; 0 while none was.
    revoked: AtomicU32,
    /// 1 if there are more ranks than processors.
    shares_processors: AtomicU32,
}

/// The text "rmalab" and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"rmalab\0\x06");

/// The control block ahead of a rank's segment: two cache lines, since processors fetch them in pairs.
#[repr(C, align(128))]
pub(super) struct Control {
    /// The displacement that this rank is parked on, plus one; 0 while it is not parked. Its low half is the futex.
    pub(super) parked: AtomicU64,
    /// One of [`ABSENT`], [`ATTACHED`], [`DEPARTED`] and [`FAILED`].
    state: AtomicU32,
}

const ABSENT: u32 = 0;
const ATTACHED: u32 = 1;
const DEPARTED: u32 = 2;
const FAILED: u32 = 3;

/// The number of bytes ahead of a rank's segment: a page, so that an alignment of up to a page in a segment is also an
/// alignment in memory.
pub(super) const CONTROL: usize = PAGE as usize;
const _: () = assert!(size_of::<Control>() <= CONTROL);

/// Bytes of a rank's registry of registered memory, a multiple of the page.
const REGISTRY: u64 = size_of::<Registry>().next_multiple_of(PAGE as usize) as u64;

/// The layout of a mapping: a page of header, then for each rank its control block and its segment, then for each rank
/// its registry of registered memory, which no displacement reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    size: u32,
    segment: u64,
    stride: u64,
}

impl Layout {
    /// Makes the layout of `size` ranks with segments of `segment_bytes`, rounded up to whole words.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when there are no ranks, no memory in a segment, or more memory than the address space holds.
    pub fn new(size: u32, segment_bytes: u64) -> Result<Layout> {
        if size == 0 {
            return Err(Error::world("a world needs at least one rank, and 0 were asked for"));
        }
        if segment_bytes == 0 {
            return Err(Error::world("a segment of 0 bytes holds nothing; ask for at least 8"));
        }
        let too_large =
            || Error::world(format!("{size} segments of {segment_bytes} bytes do not fit into the address space"));
        let segment = segment_bytes.checked_next_multiple_of(crate::WORD).ok_or_else(too_large)?;
        let stride = (CONTROL as u64)
            .checked_add(segment)
            .and_then(|block| block.checked_next_multiple_of(PAGE))
            .ok_or_else(too_large)?;
        let rank = stride.checked_add(REGISTRY);
        let total = rank.and_then(|rank| rank.checked_mul(size.into())).and_then(|ranks| ranks.checked_add(PAGE));
        // A pointer offset has to fit into an isize.
        total.filter(|&total| isize::try_from(total).is_ok()).ok_or_else(too_large)?;
        Ok(Layout { size, segment, stride })
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the number of bytes of each rank's segment.
    pub fn segment_bytes(&self) -> u64 {
        self.segment
    }

    /// Returns the number of bytes of the whole mapping.
    pub fn total_bytes(&self) -> u64 {
        PAGE + (self.stride + REGISTRY) * u64::from(self.size)
    }

    pub(super) fn stride(&self) -> usize {
        // `new` has checked that all of it fits into an isize.
        self.stride as usize
    }
}

/// Returns the number of processors for all ranks, as far as this process knows.
///
/// If this process may use only one processor, the function assumes that the launcher has bound each rank to a
/// processor of its own.
fn processors() -> usize {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        // SAFETY: a query without arguments in memory.
        1 => usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1),
        several => several,
    }
}

/// The mapped memory of a world, which is unmapped when its last handle is dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    layout: Layout,
    futexes: futex::Flags,
    /// The file of the memory, if there is one.
    file: Option<OwnedFd>,
}

// SAFETY: the mapping is plain memory that stays until the last owner drops it, and all access to it goes through
// atomics or through copies that act as atomics (mapped/copy.rs).
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Allocates zeroed memory for threads of this process.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the kernel has no such range of memory.
    pub fn anonymous(layout: Layout) -> Result<Mapping> {
        let (len, flags) = (layout.total_bytes() as usize, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let base =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let base = base.map_err(|error| Error::system(format!("mapping {len} bytes of memory"), error))?;
        let mapping = Mapping::over(base.cast(), layout, futex::Flags::PRIVATE, None);
        mapping.write_header();
        Ok(mapping)
    }

    /// Maps the memory of `fd`, which is shared with every process that maps it.
    ///
    /// With `create` the file is new and its header is written; otherwise the header must be there and agree.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when the file is too short or belongs to another world, and [`Error::System`] when it cannot be
    /// mapped.
    ///
    /// # Safety
    ///
    /// As long as the mapping lives, the file keeps its length, and its bytes change only through mappings of this type, in every process.
    /// With `create`, the file is all zero, and has no other mapping yet.
    pub unsafe fn shared(fd: BorrowedFd<'_>, layout: Layout, create: bool) -> Result<Mapping> {
        let len = layout.total_bytes();
        let stat = rustix::fs::fstat(fd).map_err(|error| Error::system("reading the shared memory's size", error))?;
        if u64::try_from(stat.st_size).unwrap_or(0) < len {
            return Err(Error::world(format!(
                "the shared memory has {} bytes, and {} ranks with segments of {} bytes need {len}",
                stat.st_size, layout.size, layout.segment
            )));
        }
        // This is before this process holds a lock on the file, since closing any descriptor of a file releases all
        // locks of the process on it.
        let file = rustix::io::fcntl_dupfd_cloexec(fd, 3)
            .map_err(|error| Error::system("keeping the shared memory's file", error))?;
        // SAFETY: a new mapping at an address of the kernel's choice aliases no memory of Rust's. The accesses of
        // `Mapping` allow other processes to write to it.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                fd,
                0,
            )
        };
        let base = base.map_err(|error| {
            Error::system(format!("mapping {len} bytes of shared memory (ask for smaller segments)"), error)
        })?;
        let mapping = Mapping::over(base.cast(), layout, futex::Flags::empty(), Some(file));
        if create {
            mapping.write_header();
        } else {
            mapping.check_header()?;
        }
        Ok(mapping)
    }

    fn over(base: *mut u8, layout: Layout, futexes: futex::Flags, file: Option<OwnedFd>) -> Mapping {
        Mapping { base: NonNull::new(base).expect("the kernel maps nothing at address 0"), layout, futexes, file }
    }

    fn write_header(&self) {
        let header = self.header();
        header.size.store(self.layout.size, Ordering::Relaxed);
        header.segment.store(self.layout.segment, Ordering::Relaxed);
        header.shares_processors.store(u32::from(self.layout.size as usize > processors()), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
    }

    fn check_header(&self) -> Result<()> {
        let header = self.header();
        let found = (
            header.magic.load(Ordering::Acquire),
            header.size.load(Ordering::Relaxed),
            header.segment.load(Ordering::Relaxed),
        );
        let wanted = (MAGIC, self.layout.size, self.layout.segment);
        if found != wanted {
            return Err(Error::world(format!(
                "the shared memory belongs to another world: (magic, ranks, segment bytes) are {found:x?} instead of {wanted:x?}"
            )));
        }
        Ok(())
    }

    /// Returns whether there were more ranks than processors when the memory was made.
    pub(super) fn shares_processors(&self) -> bool {
        self.header().shares_processors.load(Ordering::Relaxed) != 0
    }

    /// Returns the layout of the mapping.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    fn header(&self) -> &Header {
        // SAFETY: every mapping starts with a page for the header, aligned to a page. The header's fields are atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Returns the start of rank 0's block. The other blocks follow in steps of the layout's stride.
    pub(super) fn blocks(&self) -> NonNull<u8> {
        // SAFETY: the mapping is longer than its first page.
        unsafe { self.base.add(PAGE as usize) }
    }

    pub(super) fn control(&self, rank: Rank) -> &Control {
        assert!(rank.0 < self.layout.size, "{rank} has no block in a mapping of {} ranks", self.layout.size);
        // SAFETY: the rank has a block (checked), which starts page-aligned with its control block, all atomics.
        unsafe { self.blocks().add(rank.index() * self.layout.stride()).cast::<Control>().as_ref() }
    }

    /// Zeroes the pages from `start` on, `len` bytes in all, by giving them back. Returns whether the kernel has done
    /// so.
    ///
    /// # Safety
    ///
    /// The range consists of whole pages of segments of this mapping.
    pub(super) unsafe fn give_back(&self, start: *mut u8, len: usize) -> bool {
        // Shared pages are removed from the file, and so from every process. Private pages belong to this process
        // alone.
        let private = self.futexes.contains(futex::Flags::PRIVATE);
        let advice = if private { Advice::LinuxDontNeed } else { Advice::LinuxRemove };
        // SAFETY: the pages are part of this mapping (the caller's promise). All accesses to it allow for writes by
        // others at any time, such as these zeros by the kernel.
        unsafe { rustix::mm::madvise(start.cast(), len, advice).is_ok() }
    }

    /// Calls `each` for runs of pages from `start` on that may not be zero. It passes `true` for pages that the caller has
    /// to zero, and `false` for pages that are not in memory, and may be swapped out. Pages for which the file has no bytes
    /// are zero, and left out.
    ///
    /// A page that the kernel does not report counts as present.
    ///
    /// # Safety
    ///
    /// The conditions of [`give_back`](Self::give_back).
    pub(super) unsafe fn resident(&self, start: *mut u8, len: usize, mut each: impl FnMut(bool, *mut u8, usize)) {
        let Some(file) = &self.file else {
            // SAFETY: the caller's promise.
            return unsafe { self.resident_of_memory(start, len, each) };
        };
        let first = (start.addr() - self.base.as_ptr().addr()) as u64;
        let end = first + len as u64;
        let mut at = first;
        while at < end {
            // The file's runs of bytes. The kernel finds each in one step, at any length of runs and gaps.
            let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
                Ok(data) => data.min(end),
                // No bytes from here on.
                Err(rustix::io::Errno::NXIO) => end,
                Err(_) => at,
            };
            if data == end {
                return;
            }
            let hole = rustix::fs::seek(file, SeekFrom::Hole(data)).map_or(end, |hole| hole.clamp(data + 1, end));
            // SAFETY: within the range, since `first <= data < hole <= end`.
            each(true, unsafe { start.add((data - first) as usize) }, (hole - data) as usize);
            at = hole;
        }
    }

    /// Like [`resident`](Self::resident), for memory without a file.
    ///
    /// # Safety
    ///
    /// The conditions of [`resident`](Self::resident).
    unsafe fn resident_of_memory(&self, start: *mut u8, len: usize, mut each: impl FnMut(bool, *mut u8, usize)) {
        let page = rustix::param::page_size();
        let mut pages = [1_u8; 1024];
        for first in (0..len).step_by(pages.len() * page) {
            let bytes = (len - first).min(pages.len() * page);
            let pages = &mut pages[..bytes / page];
            // SAFETY: the pages are part of this mapping (the caller's promise), and there is a byte for each of them.
            let told = unsafe { libc::mincore(start.add(first).cast(), bytes, pages.as_mut_ptr()) };
            if told != 0 {
                pages.fill(1);
            }
            let mut at = first;
            for run in pages.chunk_by(|a, b| a & 1 == b & 1) {
                // SAFETY: within the range.
                each(run[0] & 1 == 1, unsafe { start.add(at) }, run.len() * page);
                at += run.len() * page;
            }
        }
    }

    /// Returns the registry of `rank`: the program's memory that it has registered, and its pins. It lies in no
    /// segment.
    pub(super) fn registry(&self, rank: Rank) -> &Registry {
        assert!(rank.0 < self.layout.size, "{rank} has no registry in a mapping of {} ranks", self.layout.size);
        let blocks = self.layout.stride() * self.layout.size as usize;
        // SAFETY: the registries follow the blocks, page-aligned, one for each rank (checked); they are all atomics.
        unsafe { self.blocks().add(blocks + rank.index() * REGISTRY as usize).cast::<Registry>().as_ref() }
    }

    /// Returns whether only threads of this process reach the memory. If not, every process with the file may map and
    /// write it.
    pub(super) fn is_private(&self) -> bool {
        self.futexes == futex::Flags::PRIVATE
    }

    /// Returns the first rank that has failed, if any has.
    #[inline]
    pub fn failed(&self) -> Option<Rank> {
        self.header().failed.load(Ordering::SeqCst).checked_sub(1).map(Rank)
    }

    /// Returns the number of ranks that have failed. Later calls of [`has_failed`](Self::has_failed) find at least that
    /// many.
    #[inline]
    pub fn failures(&self) -> u32 {
        self.header().failures.load(Ordering::SeqCst)
    }

    /// Returns whether `rank` is marked as failed.
    pub fn has_failed(&self, rank: Rank) -> bool {
        self.control(rank).state.load(Ordering::SeqCst) == FAILED
    }

    /// Marks `rank` as failed, and wakes all waiting ranks.
    pub fn mark_failed(&self, rank: Rank) {
        if self.control(rank).state.swap(FAILED, Ordering::SeqCst) != FAILED {
            let header = self.header();
            let _ = header.failed.compare_exchange(0, rank.0.saturating_add(1), Ordering::SeqCst, Ordering::SeqCst);
            header.failures.fetch_add(1, Ordering::SeqCst);
        }
        self.wake_all();
    }

    /// Returns how many generations were revoked.
    #[inline]
    pub fn revoked(&self) -> u32 {
        self.header().revoked.load(Ordering::SeqCst)
    }

    /// Revokes `generation` and all earlier ones, and wakes all waiting ranks.
    pub fn revoke(&self, generation: u32) {
        self.header().revoked.fetch_max(generation.saturating_add(1), Ordering::SeqCst);
        self.wake_all();
    }

    fn wake_all(&self) {
        for peer in 0..self.layout.size {
            let control = self.control(Rank(peer));
            if control.parked.swap(0, Ordering::SeqCst) != 0 {
                self.wake(control);
            }
        }
    }

    /// Notes that `rank` takes part from now on, so that other ranks notice its death.
    pub fn mark_attached(&self, rank: Rank) {
        self.control(rank).state.store(ATTACHED, Ordering::SeqCst);
    }

    /// Notes that `rank` has left in good order, unless it has failed. Then its end is not a failure.
    pub fn mark_departed(&self, rank: Rank) {
        let state = &self.control(rank).state;
        let _ = state.compare_exchange(ATTACHED, DEPARTED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Returns whether `rank` has attached and not departed.
    pub fn is_attached(&self, rank: Rank) -> bool {
        self.control(rank).state.load(Ordering::SeqCst) == ATTACHED
    }

    /// Returns whether `rank` has never attached.
    pub fn is_absent(&self, rank: Rank) -> bool {
        self.control(rank).state.load(Ordering::SeqCst) == ABSENT
    }

    /// Returns whether `rank` has attached and has left in good order since.
    pub fn has_departed(&self, rank: Rank) -> bool {
        self.control(rank).state.load(Ordering::SeqCst) == DEPARTED
    }

    /// Returns the futex of a word: the half that holds its low bits.
    fn futex(word: &AtomicU64) -> &AtomicU32 {
        let half = if cfg!(target_endian = "big") { 1 } else { 0 };
        // SAFETY: both halves of the word lie in it and are aligned to 4 bytes. The kernel only compares this half, and
        // this process accesses it only through the kernel's call.
        unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>().add(half) }
    }

    /// Wakes the threads that are parked on this control block.
    #[cold]
    pub(super) fn wake(&self, control: &Control) {
        self.wake_word(&control.parked);
    }

    /// Sleeps while the parked word of `control` is `token`, for at most `limit`.
    pub(super) fn sleep(&self, control: &Control, token: u64, limit: std::time::Duration) {
        self.sleep_word(&control.parked, token, limit);
    }

    /// Wakes the threads that sleep on a word of this mapping.
    #[cold]
    pub(super) fn wake_word(&self, word: &AtomicU64) {
        // The address is valid, so this call cannot fail.
        let _ = futex::wake(Mapping::futex(word), self.futexes, i32::MAX as u32);
    }

    /// Sleeps while the low half of a word of this mapping equals the low half of `value`, for at most `limit`.
    pub(super) fn sleep_word(&self, word: &AtomicU64, value: u64, limit: std::time::Duration) {
        let limit = futex::Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        // After every return (a wake-up, a changed word, a signal, the time limit) the caller looks at the word.
        let _ = futex::wait(Mapping::futex(word), self.futexes, value as u32, Some(&limit));
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this range was mapped in a constructor, and nothing refers to it any longer.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.layout.total_bytes() as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_layouts_are_refused() {
        for (size, segment) in [(0, 8), (1, 0), (u32::MAX, u64::MAX), (1, u64::MAX), (u32::MAX, 1 << 40)] {
            assert!(matches!(Layout::new(size, segment), Err(Error::World(_))), "{size} × {segment}");
        }
        let layout = Layout::new(3, 1).unwrap();
        assert_eq!((layout.size(), layout.segment_bytes(), layout.total_bytes()), (3, 8, 7 * 4096 + 3 * REGISTRY));
    }

    #[test]
    fn a_mapping_of_another_world_is_refused() {
        let fd = rustix::fs::memfd_create("rmalab-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let layout = Layout::new(2, 4096).unwrap();
        rustix::fs::ftruncate(&fd, layout.total_bytes()).unwrap();
        let fd = std::os::fd::AsFd::as_fd(&fd);
        // SAFETY: a new file, which no other code knows.
        let shared = |layout, create| unsafe { Mapping::shared(fd, layout, create) };
        assert!(matches!(shared(layout, false), Err(Error::World(_))), "no header yet");
        drop(shared(layout, true).unwrap());
        shared(layout, false).unwrap();
        let other = Layout::new(1, 4096).unwrap();
        assert!(matches!(shared(other, false), Err(Error::World(_))), "other rank count");
        let larger = Layout::new(3, 4096).unwrap();
        assert!(matches!(shared(larger, true), Err(Error::World(_))), "file too short");
    }
}
