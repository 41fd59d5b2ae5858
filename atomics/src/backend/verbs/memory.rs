//! The memory of a rank: a file without a name, mapped once. A private block is at its start, followed by the segment.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, Mode, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::{Error, Result};

/// The largest number of pieces of memory that a rank can have registered at a time.
pub(super) const CAPACITY: usize = 1024;

/// The number of words of an entry.
pub(super) const ENTRY: usize = 4;

/// Bytes ahead of the segment, for the table of registered memory: whole pages.
pub(super) const FRONT: usize = CAPACITY * ENTRY * size_of::<u64>();
const _: () = assert!(FRONT.is_multiple_of(4096));

/// A mapped memory file.
pub(super) struct Memory {
    start: NonNull<u8>,
    len: usize,
    file: OwnedFd,
}

// SAFETY: plain memory that stays until the value is dropped; all access to it is by atomics, by copies that act as
// such, and by the device.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes zeroed memory with a segment of `segment` bytes.
    pub(super) fn new(segment: u64) -> Result<Memory> {
        let len = usize::try_from(segment).ok().and_then(|segment| segment.checked_add(FRONT));
        let len = len.filter(|&len| isize::try_from(len).is_ok());
        let len = len.ok_or_else(|| Error::world(format!("a segment of {segment} bytes fits into no memory")))?;
        let failed = |what: &str| {
            let what = format!("{what} a memory file of {len} bytes");
            move |error: rustix::io::Errno| Error::system(what, error)
        };
        let file = rustix::fs::memfd_create("rmalab-verbs", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(failed("creating"))?;
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(failed("restricting"))?;
        rustix::fs::ftruncate(&file, len as u64).map_err(failed("sizing"))?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(failed("sealing"))?;
        Memory::map(file, len)
    }

    /// Maps `len` bytes of a memory file, which is that long and sealed against shrinking.
    pub(super) fn map(file: OwnedFd, len: usize) -> Result<Memory> {
        // SAFETY: a new mapping at an address of the kernel's choice aliases no memory of Rust's.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)
        };
        let start = start.map_err(|error| Error::system(format!("mapping {len} bytes of memory"), error))?;
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at address 0");
        Ok(Memory { start, len, file })
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of `len` bytes at `offset` of the segment, if it has them.
    #[inline(always)]
    pub(super) fn range(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len as u64)?;
        if end > (self.len - FRONT) as u64 {
            return None;
        }
        // SAFETY: the range lies in the mapping, after the block at the start (just checked).
        Some(unsafe { self.start.as_ptr().add(FRONT + offset as usize) })
    }

    /// Returns the word at `offset` of the segment, if there is one.
    #[inline(always)]
    pub(super) fn word(&self, offset: u64) -> Option<&AtomicU64> {
        let word = self.range(offset, size_of::<u64>())?;
        // SAFETY: the word lies in the mapping, which lives as long as `self`. It is aligned, like the mapping and the
        // block at the start. All accesses are atomic, or accesses of a device.
        offset.is_multiple_of(8).then(|| unsafe { &*word.cast() })
    }

    /// Returns word `index` of the block at the start.
    #[inline(always)]
    pub(super) fn front(&self, index: usize) -> &AtomicU64 {
        assert!(index < FRONT / size_of::<u64>(), "the block at the start has no word {index}");
        // SAFETY: as above; the block at the start is part of the mapping.
        unsafe { &*self.start.as_ptr().cast::<AtomicU64>().add(index) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by this value. Every region over it holds a reference to it, so it no longer exists.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
