//! Slots of memory that is registered once. Bulk operations move their bytes through them.
//!
//! A network adapter reads and writes registered memory only. The buffers of the program stay unregistered, and the
//! adapter never reaches them. At any time the program may free a buffer and map other memory at its address, and no
//! backend learns of that. A registration of the buffer would still name the old pages.
//!
//! # Source
//!
//! W. Jiang, J. Liu, H.-W. Jin, D. K. Panda, W. Gropp, R. Thakur, High performance MPI-2 one-sided communication over
//! InfiniBand, CCGrid 2004, section 4.3, which copies short messages and registers long ones. Here long messages are cut
//! into parts of one slot each. The copy of a part overlaps with the transfer of other parts.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::ErrorKind;
use std::rc::Rc;

use super::device::Region;
use super::queue_pair::Buffer;
use crate::{Error, Result};

/// Slots of one size in one registered region, for one thread.
pub(super) struct BouncePool<G> {
    slab: Rc<Slab<G>>,
}

struct Slab<G> {
    /// Declared before the memory, since fields are dropped in their order: the memory outlives its registration.
    region: G,
    /// Cells, since the adapter reads and writes them, too.
    memory: Box<[Cell<u8>]>,
    /// The offset of slot 0: the start of a page.
    first: usize,
    slot_bytes: usize,
    free: RefCell<Vec<usize>>,
}

impl<G> BouncePool<G> {
    /// Makes memory for `slots` slots of `slot_bytes` bytes each; `register` registers its pages.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the slots have no bytes, or more than there is memory; the errors of `register`.
    pub(super) fn new(
        slots: usize,
        slot_bytes: usize,
        register: impl FnOnce(*const u8, usize) -> Result<G>,
    ) -> Result<BouncePool<G>> {
        let failed = |kind: ErrorKind| {
            Error::system(format!("making a bounce buffer of {slots} slots of {slot_bytes} bytes"), kind)
        };
        let page = rustix::param::page_size();
        let bytes = slots.checked_mul(slot_bytes).filter(|&bytes| bytes > 0);
        let pages = bytes.and_then(|bytes| bytes.checked_next_multiple_of(page));
        let pages = pages.ok_or_else(|| failed(ErrorKind::InvalidInput))?;
        // One more page, so that whole pages fit at any start address.
        let len = pages.checked_add(page).ok_or_else(|| failed(ErrorKind::InvalidInput))?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(len).map_err(|_| failed(ErrorKind::OutOfMemory))?;
        memory.resize(len, Cell::new(0));
        let memory: Box<[Cell<u8>]> = memory.into_boxed_slice();
        let first = memory.as_ptr().addr().next_multiple_of(page) - memory.as_ptr().addr();
        let region = register(memory[first..].as_ptr().cast(), pages)?;
        // Slot 0 is taken first.
        let free = RefCell::new((0..slots).rev().collect());
        Ok(BouncePool { slab: Rc::new(Slab { region, memory, first, slot_bytes, free }) })
    }

    /// Returns a free slot, or `None` when all are in use: then operations have to complete first.
    pub(super) fn acquire(&self) -> Option<Slot<G>> {
        let index = self.slab.free.borrow_mut().pop()?;
        Some(Slot { slab: Rc::clone(&self.slab), index })
    }
}

impl<G> fmt::Debug for BouncePool<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BouncePool")
            .field("slot_bytes", &self.slab.slot_bytes)
            .field("free", &self.slab.free.borrow().len())
            .finish_non_exhaustive()
    }
}

/// A slot of a [`BouncePool`]. It returns to the pool when it is dropped, which must be after its operation is
/// complete.
pub(super) struct Slot<G> {
    slab: Rc<Slab<G>>,
    index: usize,
}

impl<G> Slot<G> {
    /// The first `len` bytes of the slot.
    fn part(&self, len: usize) -> &[Cell<u8>] {
        let slot_bytes = self.slab.slot_bytes;
        assert!(len <= slot_bytes, "{len} bytes do not fit into a slot of {slot_bytes}");
        let start = self.slab.first + self.index * slot_bytes;
        &self.slab.memory[start..start + len]
    }

    /// Copies `source` to the start of the slot.
    ///
    /// # Panics
    ///
    /// If the slot is shorter.
    pub(super) fn copy_in(&self, source: &[u8]) {
        let part = self.part(source.len()).as_ptr().cast::<u8>().cast_mut();
        // SAFETY: `part` has checked that the slot has that many bytes. They are cells of this slot only, so this
        // thread may write them. `source` is borrowed, and cells of a private slab are not borrowed as bytes.
        unsafe { part.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
    }

    /// Copies the start of the slot to the `len` bytes at `dest`.
    ///
    /// # Safety
    ///
    /// `dest` is valid for writes of `len` bytes, and no operation that writes the slot is under way.
    ///
    /// # Panics
    ///
    /// If the slot is shorter.
    pub(super) unsafe fn copy_out(&self, dest: *mut u8, len: usize) {
        let part = self.part(len).as_ptr().cast::<u8>();
        // SAFETY: `part` has checked that the slot has that many bytes. The rest is the caller's promise.
        unsafe { dest.copy_from_nonoverlapping(part, len) };
    }

    /// Returns the region that contains the slot.
    fn region(&self) -> &G {
        &self.slab.region
    }
}

impl Slot<Region> {
    /// The first `len` bytes of the slot, for a request.
    ///
    /// # Panics
    ///
    /// If the slot is shorter.
    pub(super) fn buffer(&self, len: usize) -> Buffer {
        let part = self.part(len);
        Buffer {
            address: part.as_ptr() as u64,
            len: u32::try_from(len).expect("slots are shorter than 4 GiB"),
            key: self.region().local_key(),
        }
    }
}

impl<G> Drop for Slot<G> {
    fn drop(&mut self) {
        self.slab.free.borrow_mut().push(self.index);
    }
}

impl<G> fmt::Debug for Slot<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.index).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake adapter's region, with a flag for its deregistration.
    #[derive(Debug)]
    struct Fake {
        start: usize,
        len: usize,
        gone: Rc<Cell<u32>>,
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            self.gone.set(self.gone.get() + 1);
        }
    }

    fn pool(slots: usize, slot_bytes: usize, gone: &Rc<Cell<u32>>) -> Result<BouncePool<Fake>> {
        BouncePool::new(slots, slot_bytes, |start, len| Ok(Fake { start: start.addr(), len, gone: Rc::clone(gone) }))
    }

    #[test]
    fn slots_are_disjoint_registered_and_reused() {
        let gone = Rc::default();
        let pool = pool(3, 100, &gone).unwrap();
        let slots: Vec<_> = std::iter::from_fn(|| pool.acquire()).collect();
        assert_eq!(slots.len(), 3);
        for (i, slot) in (0..).zip(&slots) {
            slot.copy_in(&[i; 100]);
            let (region, start) = (slot.region(), slot.part(0).as_ptr().addr());
            assert!(region.start <= start && start + 100 <= region.start + region.len, "{region:?} {start:#x}");
        }
        for (i, slot) in (0..).zip(&slots) {
            let mut seen = [0xff; 100];
            // SAFETY: the destination is an array of 100 bytes, and nothing is under way.
            unsafe { slot.copy_out(seen.as_mut_ptr(), 100) };
            assert_eq!(seen, [i; 100]);
        }
        drop(slots);
        let last = pool.acquire().expect("all slots are free again");
        drop(pool);
        assert_eq!(gone.get(), 0, "a slot keeps the region");
        drop(last);
        assert_eq!(gone.get(), 1);
    }

    #[test]
    #[should_panic(expected = "101 bytes do not fit into a slot of 100")]
    fn copies_longer_than_a_slot_panic() {
        pool(1, 100, &Rc::default()).unwrap().acquire().unwrap().copy_in(&[0; 101]);
    }

    #[test]
    fn pools_without_memory_or_with_too_much_are_errors() {
        for (slots, bytes) in [(0, 8), (8, 0), (usize::MAX, 2), (1, usize::MAX), (1, isize::MAX as usize)] {
            assert!(matches!(pool(slots, bytes, &Rc::default()), Err(Error::System { .. })), "{slots} × {bytes}");
        }
    }
}
