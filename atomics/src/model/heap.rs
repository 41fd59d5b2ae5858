//! The symmetric heap: displacements that are valid on every rank, without communication.
//!
//! Every rank runs the same deterministic allocator over the same sequence of calls, so all ranks agree on every displacement without
//! communication. (For the same reason foMPI's allocated windows need O(1) memory on each rank, SC'13 section 2.2.) The allocator takes the
//! first fit by address, and merges neighbours on free.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::{Disp, Error, Result};

/// The allocator of one rank. The module's text explains how ranks agree.
///
/// Allocated memory is zero: new segments are zero, and [`Collectives::free`](crate::Collectives::free) zeroes the
/// memory that it frees.
#[derive(Debug)]
pub struct SymmetricHeap {
    capacity: u64,
    /// The first displacement after it.
    end: u64,
    blocks: Mutex<Blocks>,
}

#[derive(Debug)]
struct Blocks {
    /// Free ranges: start to length. No two of them touch.
    free: BTreeMap<u64, u64>,
    /// Allocated ranges: start to length.
    used: BTreeMap<u64, u64>,
}

impl SymmetricHeap {
    /// Makes a heap over displacements 0 to `capacity`, in bytes.
    pub fn new(capacity: u64) -> SymmetricHeap {
        SymmetricHeap::over(Disp(0), capacity)
    }

    /// Makes a heap over the `len` bytes from `start` on, such as an allocation of another heap.
    ///
    /// Bytes beyond the largest displacement are left out.
    pub fn over(start: Disp, len: u64) -> SymmetricHeap {
        let end = start.0.saturating_add(len);
        let capacity = end - start.0;
        let mut free = BTreeMap::new();
        if capacity > 0 {
            free.insert(start.0, capacity);
        }
        SymmetricHeap { capacity, end, blocks: Mutex::new(Blocks { free, used: BTreeMap::new() }) }
    }

    /// Allocates `bytes` bytes (at least one) at a multiple of `align`, which is a power of two.
    ///
    /// All ranks make the same allocations and releases in the same order. They do not communicate, so a difference is not detected. Then
    /// one displacement names different objects on different ranks.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] when no free range is large enough. Every rank gets the same result.
    ///
    /// # Panics
    ///
    /// When `align` is not a power of two.
    pub fn alloc(&self, bytes: u64, align: u64) -> Result<Disp> {
        assert!(align.is_power_of_two(), "symmetric heap: an alignment of {align} is not a power of two");
        let bytes = bytes.max(1);
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let fit = blocks.free.iter().find_map(|(&start, &len)| {
            let at = start.checked_next_multiple_of(align)?;
            let end = at.checked_add(bytes)?;
            (end <= start + len).then_some((start, len, at, end))
        });
        let Some((start, len, at, end)) = fit else {
            return Err(Error::OutOfMemory {
                requested: bytes,
                align,
                free: blocks.free.values().sum(),
                largest: blocks.free.values().copied().max().unwrap_or(0),
                capacity: self.capacity,
            });
        };
        blocks.free.remove(&start);
        if at > start {
            blocks.free.insert(start, at - start);
        }
        if start + len > end {
            blocks.free.insert(end, start + len - end);
        }
        blocks.used.insert(at, bytes);
        Ok(Disp(at))
    }

    /// Returns the length in bytes of the allocation that starts at `disp`.
    ///
    /// # Errors
    ///
    /// [`Error::NotAllocated`] when no allocation starts there.
    pub fn len_of(&self, disp: Disp) -> Result<u64> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.used.get(&disp.0).copied().ok_or(Error::NotAllocated { disp })
    }

    /// Frees the allocation at `disp`. Its memory must be zero again on every rank.
    ///
    /// [`Collectives::free`](crate::Collectives::free) ensures that.
    ///
    /// # Errors
    ///
    /// [`Error::NotAllocated`] when no allocation starts there.
    pub fn release(&self, disp: Disp) -> Result<()> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut len = blocks.used.remove(&disp.0).ok_or(Error::NotAllocated { disp })?;
        let mut start = disp.0;
        if let Some(next) = blocks.free.remove(&(start + len)) {
            len += next;
        }
        if let Some((&before, &before_len)) = blocks.free.range(..start).next_back()
            && before + before_len == start
        {
            blocks.free.remove(&before);
            start = before;
            len += before_len;
        }
        blocks.free.insert(start, len);
        Ok(())
    }

    /// Returns the number of bytes of the heap.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the first displacement after the heap.
    pub fn end(&self) -> Disp {
        Disp(self.end)
    }

    /// Returns the number of free bytes, in all ranges together.
    pub fn free_bytes(&self) -> u64 {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).free.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_aligned_and_disjoint() {
        let heap = SymmetricHeap::new(1024);
        let a = heap.alloc(1, 1).unwrap();
        let b = heap.alloc(8, 64).unwrap();
        let c = heap.alloc(7, 8).unwrap();
        assert_eq!((a, b), (Disp(0), Disp(64)));
        assert_eq!(c, Disp(8), "the gap before an aligned allocation is used");
    }

    #[test]
    fn a_heap_over_a_range_stays_inside() {
        let outer = SymmetricHeap::new(1024);
        outer.alloc(100, 1).unwrap();
        let arena = outer.alloc(256, 64).unwrap();
        let inner = SymmetricHeap::over(arena, 256);
        assert_eq!((arena, inner.capacity(), inner.end()), (Disp(128), 256, Disp(384)));
        assert_eq!(inner.alloc(200, 64).unwrap(), Disp(128));
        assert_eq!(inner.alloc(50, 1).unwrap(), Disp(328));
        assert!(matches!(
            inner.alloc(8, 1),
            Err(Error::OutOfMemory { requested: 8, free: 6, largest: 6, capacity: 256, .. })
        ));
        assert!(matches!(inner.release(Disp(0)), Err(Error::NotAllocated { disp: Disp(0) })), "the outer heap's");
        inner.release(Disp(128)).unwrap();
        inner.release(Disp(328)).unwrap();
        assert_eq!(inner.alloc(256, 1).unwrap(), arena);
        assert_eq!(SymmetricHeap::over(Disp(u64::MAX - 7), 64).capacity(), 7);
    }

    #[test]
    fn freeing_merges_neighbours() {
        let heap = SymmetricHeap::new(96);
        let blocks: Vec<_> = (0..3).map(|_| heap.alloc(32, 32).unwrap()).collect();
        assert!(matches!(
            heap.alloc(1, 1),
            Err(Error::OutOfMemory { requested: 1, free: 0, largest: 0, capacity: 96, .. })
        ));
        for order in [[0, 2, 1], [1, 0, 2], [2, 1, 0]] {
            for i in order {
                heap.release(blocks[i]).unwrap();
            }
            assert_eq!(heap.free_bytes(), 96);
            assert_eq!(heap.alloc(96, 32).unwrap(), Disp(0), "one range again");
            heap.release(Disp(0)).unwrap();
            for &block in &blocks {
                assert_eq!(heap.alloc(32, 32).unwrap(), block);
            }
        }
    }

    #[test]
    fn out_of_memory_names_the_largest_range() {
        let heap = SymmetricHeap::new(64);
        let a = heap.alloc(16, 1).unwrap();
        let _b = heap.alloc(16, 1).unwrap();
        heap.release(a).unwrap();
        match heap.alloc(40, 1) {
            Err(Error::OutOfMemory { requested: 40, align: 1, free: 48, largest: 32, capacity: 64 }) => {}
            other => panic!("{other:?}"),
        }
        assert!(matches!(heap.alloc(u64::MAX, 8), Err(Error::OutOfMemory { .. })));
    }

    #[test]
    fn only_the_start_of_an_allocation_can_be_freed() {
        let heap = SymmetricHeap::new(64);
        let a = heap.alloc(16, 1).unwrap();
        assert!(matches!(heap.release(Disp(8)), Err(Error::NotAllocated { disp: Disp(8) })));
        heap.release(a).unwrap();
        assert!(matches!(heap.release(a), Err(Error::NotAllocated { .. })));
    }
}
