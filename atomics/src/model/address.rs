//! Addresses: a rank, and a displacement in its segment.

use std::fmt;

/// The number of a rank in its world, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl Rank {
    /// Returns the address at `disp` in this rank's segment.
    #[inline(always)]
    pub const fn at(self, disp: Disp) -> Address {
        Address { rank: self, disp, watched: true }
    }

    /// Returns the rank as an index into a table with one entry for each rank.
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
/// A displacement that the symmetric heap returns names the same object in every rank's segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Disp(pub u64);

impl Disp {
    /// Returns the displacement of the 64-bit word number `index` of an array that starts here.
    ///
    /// Beyond the largest displacement the result is the largest one, and an access there is an error.
    #[inline(always)]
    pub const fn word(self, index: u64) -> Disp {
        self.plus(index.saturating_mul(crate::WORD))
    }

    /// Returns the displacement `bytes` later.
    ///
    /// Beyond the largest displacement the result is the largest one, and an access there is an error.
    #[inline(always)]
    pub const fn plus(self, bytes: u64) -> Disp {
        Disp(self.0.saturating_add(bytes))
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
    /// The rank that has the segment.
    pub rank: Rank,
    /// The displacement in the segment.
    pub disp: Disp,
    /// True if a rank may wait on this word; see [`unwatched`](Address::unwatched).
    pub watched: bool,
}

impl Address {
    /// Returns the same address, for operations on a word on which no rank waits: ranks that need its value poll it.
    ///
    /// This is a hint. On backends whose ranks park, an operation that changes a watched word checks whether its owner is parked on it. The
    /// check is a load, which waits for the locked instruction before it. It is a third of the operation's cost. A rank may still
    /// [wait](crate::RemoteAtomics::wait_until) on a word that is changed through an unwatched address, but may see the change some hundred
    /// milliseconds later.
    #[inline(always)]
    #[must_use]
    pub const fn unwatched(self) -> Address {
        Address { watched: false, ..self }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.rank, self.disp)
    }
}
