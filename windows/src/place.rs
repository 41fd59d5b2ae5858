//! Where a window's bytes are, and how they are reached.

use std::fmt::Debug;

use rmalab_atomics::registered::Pinned;
use rmalab_atomics::{Address, Rank, RemoteAtomics};

use crate::Result;
use crate::element::{Kind, Op};

/// Operations that become requests, which their target serves. Runs are offsets and lengths there.
pub(crate) trait ByRequest: Debug {
    /// Writes `data` to the pieces `runs` of the target's part.
    fn put(&self, target: Rank, runs: Vec<(u64, u64)>, data: Vec<u8>);

    /// Reads the pieces `runs` of the target's part.
    fn get(&self, target: Rank, runs: Vec<(u64, u64)>) -> Result<Vec<u8>>;

    /// Combines `source` into the elements in `runs`; with `result`, what they were before goes there.
    fn update(
        &self,
        target: Rank,
        runs: Vec<(u64, u64)>,
        kind: Kind,
        op: Op,
        source: &[u8],
        result: Option<&mut [u8]>,
    ) -> Result<()>;

    /// Stores `desired` at `offset` if the element there is `expected`; returns what it was before.
    fn compare_and_swap(&self, target: Rank, offset: u64, kind: Kind, expected: u64, desired: u64) -> Result<u64>;
}

/// Where bytes of a window are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'e> {
    /// In a rank's segment.
    Segment(Address),
    /// In memory of its owner's program.
    Leased(&'e dyn Pinned),
    /// Behind requests that a rank serves.
    TwoSided(&'e dyn ByRequest, Rank),
}

impl Place<'_> {
    /// Writes `source` at `offset`; complete at flush.
    #[inline(always)]
    pub(crate) fn write<A: RemoteAtomics + ?Sized>(self, ra: &A, offset: u64, source: &[u8]) -> Result<()> {
        match self {
            Place::Segment(Address { rank, disp, .. }) => {
                ra.post_bytes(rank.at(disp.plus(offset)).unwatched(), source)?;
            }
            Place::Leased(lease) => lease.put(offset, source)?,
            Place::TwoSided(requests, rank) => {
                requests.put(rank, vec![(offset, source.len() as u64)], source.to_vec());
            }
        }
        Ok(())
    }

    /// Reads `dest.len()` bytes at `offset`.
    #[inline(always)]
    pub(crate) fn read<A: RemoteAtomics + ?Sized>(self, ra: &A, offset: u64, dest: &mut [u8]) -> Result<()> {
        match self {
            Place::Segment(Address { rank, disp, .. }) => {
                ra.get_bytes(rank.at(disp.plus(offset)).unwatched(), dest)?;
            }
            Place::Leased(lease) => lease.get(offset, dest)?,
            Place::TwoSided(requests, rank) => {
                dest.copy_from_slice(&requests.get(rank, vec![(offset, dest.len() as u64)])?);
            }
        }
        Ok(())
    }
}

/// A target's part of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'e> {
    /// The null target's, which everything may be done to, and nothing comes of it.
    Null,
    /// Memory that was there when the window was made.
    Fixed(Place<'e>),
    /// Whatever its owner has attached, reached by requests if there are any.
    Dynamic(Option<&'e dyn ByRequest>),
    /// One of the two before, and what is done to it is recorded; whether in an epoch of fences or of start.
    Recorded { active: bool },
}
