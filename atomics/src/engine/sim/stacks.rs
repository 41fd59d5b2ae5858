//! Stacks for a very large number of coroutines: one mapping, cut into equal parts, each with a guard page at its low
//! end.
//!
//! Only touched pages of a stack take memory, so its size costs only address space. A guard is a page marker without
//! its own mapping (`MADV_GUARD_INSTALL`, Linux 6.13); older kernels protect the page instead. That takes two mappings
//! for each stack, out of about 65,000 in all (`vm.max_map_count`).

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::rc::Rc;

use corosensei::stack::{Stack, StackPointer};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::{Error, Result};

/// Bytes of a page, and of a guard.
const PAGE: usize = 4096;

/// `MADV_GUARD_INSTALL` of `mman-common.h` in Linux, which the bindings of libc do not have.
const GUARD_INSTALL: i32 = 102;

/// Stacks that follow each other in memory.
pub(super) struct Stacks {
    slab: Rc<Slab>,
}

struct Slab {
    base: NonNull<u8>,
    len: usize,
    /// Bytes of a stack, including its guard.
    bytes: usize,
}

impl Stacks {
    /// Maps room for `count` stacks of `bytes`, rounded up to pages, including guards.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the kernel does not provide that much address space or that many guards.
    pub(super) fn new(count: usize, bytes: usize) -> Result<Stacks> {
        let bytes = bytes.next_multiple_of(PAGE).max(4 * PAGE);
        let len = count
            .checked_mul(bytes)
            .ok_or_else(|| Error::world(format!("{count} stacks of {bytes} bytes exceed the address space")))?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), len.max(PAGE), ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let base = base.map_err(|error| Error::system(format!("mapping {len} bytes for {count} stacks"), error))?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0");
        let slab = Slab { base, len: len.max(PAGE), bytes };
        // This uses a page table instead of huge pages, with which the first touch of each stack would touch 2 MiB.
        // SAFETY: the range is the new mapping, and the advice changes no contents.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), slab.len, rustix::mm::Advice::LinuxNoHugepage) };
        let mut markers = true;
        for index in 0..count {
            let guard = slab.low(index);
            // SAFETY: a page of the new mapping, which nothing uses yet.
            markers = markers && unsafe { libc::madvise(guard.cast(), PAGE, GUARD_INSTALL) } == 0;
            if !markers {
                // SAFETY: as above.
                let protected = unsafe { rustix::mm::mprotect(guard.cast(), PAGE, MprotectFlags::empty()) };
                protected.map_err(|error| {
                    let what = format!(
                        "guarding stack {index} of {count}: before Linux 6.13 each takes two mappings, of which \
                         vm.max_map_count allows some"
                    );
                    Error::system(what, error)
                })?;
            }
        }
        Ok(Stacks { slab: Rc::new(slab) })
    }

    /// Returns stack number `index`, which is taken once.
    pub(super) fn take(&self, index: usize) -> SlabStack {
        let low = self.slab.low(index) as usize;
        let pointer = |address| NonZeroUsize::new(address).expect("the kernel maps nothing at address 0");
        SlabStack { limit: pointer(low), base: pointer(low + self.slab.bytes), _slab: Rc::clone(&self.slab) }
    }
}

impl Slab {
    fn low(&self, index: usize) -> *mut u8 {
        let offset = index * self.bytes;
        assert!(offset + self.bytes <= self.len, "stack {index} does not exist");
        // SAFETY: within the mapping (just checked).
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this slab, and none of its stacks is left, since each stack holds the slab.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// One of the stacks.
pub(super) struct SlabStack {
    base: StackPointer,
    limit: StackPointer,
    _slab: Rc<Slab>,
}

// SAFETY: the stack is a part of a mapping that it keeps. It has at least three pages above a page that cannot be
// accessed, and both ends are aligned to pages. `World::run` calls `Stacks::take` once for each.
unsafe impl Stack for SlabStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}
