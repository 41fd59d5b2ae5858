//! Names for places: which rank, and where in its segment.

use std::fmt;

/// The number of a rank in its world, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl Rank {
    /// The address `disp` bytes into this rank's segment.
    #[inline(always)]
    pub const fn at(self, disp: Disp) -> Address {
        Address { rank: self, disp }
    }

    /// The rank as an index into a table with one entry a rank.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// A displacement in bytes from the start of a rank's segment.
///
/// A displacement that the symmetric heap returned names the same object in every rank's segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Disp(pub u64);

impl Disp {
    /// The displacement of the 64-bit word number `index` of an array that starts here.
    #[inline(always)]
    pub const fn word(self, index: u64) -> Disp {
        Disp(self.0.wrapping_add(index.wrapping_mul(crate::WORD)))
    }

    /// The displacement `bytes` further on.
    #[inline(always)]
    pub const fn plus(self, bytes: u64) -> Disp {
        Disp(self.0.wrapping_add(bytes))
    }
}

impl fmt::Display for Disp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A place in the memory of the world: a displacement in the segment of one rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// Whose segment.
    pub rank: Rank,
    /// Where in it.
    pub disp: Disp,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.rank, self.disp)
    }
}
