//! Global pointers.

use std::fmt;

use bytemuck::{Pod, Zeroable};
use rmalab_atomics::Rank;

/// The flag of collective memory, in the word of the segment.
const COLLECTIVE: u32 = 1 << 31;

/// The address of a byte in some unit's part of a [`GlobalMemory`](super::GlobalMemory): DART's global pointer.
///
/// | bits | field | value |
/// | --- | --- | --- |
/// | 0–31 | unit | number of the unit in the team |
/// | 32–62 | segment | number of the collective allocation, never used again; 0 for the units' pools |
/// | 63 | flag | set for collective memory |
/// | 64–127 | offset | in bytes, from the start of the unit's part of the segment |
///
/// It names the same byte on every unit of the team, and is plain data, so windows can store it. It takes two words,
/// which are not one atomic element. All zeros is the null pointer, which no allocation has.
///
/// Arithmetic is within the unit's part, and is checked when the pointer is used, not before.
///
/// ```
/// use rmalab_atomics::Rank;
/// use rmalab_windows::GlobalPtr;
///
/// assert!(GlobalPtr::NULL.is_null() && GlobalPtr::NULL.to_words() == [0, 0]);
/// let third = GlobalPtr::NULL.at_unit(Rank(2)).plus(24);
/// assert_eq!((third.unit(), third.offset()), (Rank(2), 24));
/// assert_eq!(third.offset_from(GlobalPtr::NULL.at_unit(Rank(2))), Some(24));
/// assert_eq!(GlobalPtr::from_words(third.to_words()), third);
/// ```
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Pod, Zeroable)]
pub struct GlobalPtr {
    unit: u32,
    /// The segment's number and flag: the key of the translation table.
    pub(super) key: u32,
    offset: u64,
}

impl GlobalPtr {
    /// The null pointer.
    pub const NULL: GlobalPtr = GlobalPtr { unit: 0, key: POOL, offset: 0 };

    /// Makes the pointer to `offset` of `unit`'s pool.
    pub(super) const fn in_pool(unit: Rank, offset: u64) -> GlobalPtr {
        GlobalPtr { unit: unit.0, key: POOL, offset }
    }

    /// Makes the pointer to the first unit's part of the segment of a key.
    pub(super) const fn of_key(key: u32) -> GlobalPtr {
        GlobalPtr { unit: 0, key, offset: 0 }
    }

    /// Returns whether it is the null pointer.
    pub const fn is_null(self) -> bool {
        self.unit == 0 && self.key == POOL && self.offset == 0
    }

    /// Returns the unit that has the memory.
    pub const fn unit(self) -> Rank {
        Rank(self.unit)
    }

    /// Returns the number of the segment; 0 for the units' pools.
    pub const fn segment(self) -> u32 {
        self.key & !COLLECTIVE
    }

    /// Returns whether it points to memory that was allocated collectively.
    pub const fn is_collective(self) -> bool {
        self.key & COLLECTIVE != 0
    }

    /// Returns the byte's offset in the unit's part of the segment.
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// Returns the pointer to the same place of another unit (`dart_gptr_setunit`). This is useful for collective
    /// memory, which is symmetric.
    pub const fn at_unit(self, unit: Rank) -> GlobalPtr {
        GlobalPtr { unit: unit.0, ..self }
    }

    /// Returns the pointer `bytes` further on (`dart_gptr_incaddr`), or back if negative.
    ///
    /// Offsets wrap around at 2^64, so a step back undoes a step forward.
    pub const fn plus(self, bytes: i64) -> GlobalPtr {
        GlobalPtr { offset: self.offset.wrapping_add_signed(bytes), ..self }
    }

    /// Returns the number of bytes from `other` to this pointer; `None` if they point into different parts.
    pub fn offset_from(self, other: GlobalPtr) -> Option<i64> {
        let same = (self.unit, self.key) == (other.unit, other.key);
        same.then(|| self.offset.wrapping_sub(other.offset).cast_signed())
    }

    /// Returns the pointer as two words.
    pub fn to_words(self) -> [u64; 2] {
        bytemuck::cast(self)
    }

    /// Makes the pointer from the words of [`to_words`](Self::to_words). Any two words are a pointer, though perhaps to
    /// nothing.
    pub fn from_words(words: [u64; 2]) -> GlobalPtr {
        bytemuck::cast(words)
    }
}

/// The key of the units' pools.
pub(super) const POOL: u32 = 0;

/// Returns the key of a collective segment; `None` if the number is too large.
pub(super) fn collective_key(segment: u32) -> Option<u32> {
    (segment < COLLECTIVE).then_some(segment | COLLECTIVE)
}

impl fmt::Display for GlobalPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GlobalPtr { unit, offset, .. } = *self;
        match (self.is_collective(), self.segment()) {
            _ if self.is_null() => f.write_str("the null pointer"),
            (false, 0) => write!(f, "offset {offset} of the pool of unit {unit}"),
            (_, segment) => write!(f, "offset {offset} of segment {segment} of unit {unit}"),
        }
    }
}

impl fmt::Debug for GlobalPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlobalPtr({self})")
    }
}
