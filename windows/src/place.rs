//! The places of a window's bytes, and access to them.

use std::fmt::Debug;
use std::ops::Range;

use rmalab_atomics::registered::Pinned;
use rmalab_atomics::{Address, Rank, RemoteAtomics};

use crate::Result;
use crate::element::{ElementKind, Op};

/// Operations that become requests, which their target serves. Runs are offsets and lengths there.
pub(crate) trait ByRequest: Debug {
    /// Writes `data` to the pieces `runs` of the target's part.
    fn put(&self, target: Rank, runs: Vec<(u64, u64)>, data: Vec<u8>);

    /// Reads the pieces `runs` of the target's part.
    fn get(&self, target: Rank, runs: Vec<(u64, u64)>) -> Result<Vec<u8>>;

    /// Combines `source` into the elements in `runs`. Their old values go to `result`, if there is one.
    fn update(
        &self,
        target: Rank,
        runs: Vec<(u64, u64)>,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        result: Option<&mut [u8]>,
    ) -> Result<()>;

    /// Stores `desired` at `offset` if the element there is `expected`. Returns its old value.
    fn compare_and_swap(
        &self,
        target: Rank,
        offset: u64,
        kind: ElementKind,
        expected: u64,
        desired: u64,
    ) -> Result<u64>;
}

/// The place of a window's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TargetMemory<'e> {
    /// In a rank's segment.
    Segment(Address),
    /// In memory of its owner's program.
    Leased(&'e dyn Pinned),
    /// In regions of a dynamic window that touch each other.
    Joined(&'e Joined<'e>),
    /// At a rank that serves requests for it.
    TwoSided(&'e dyn ByRequest, Rank),
}

/// Regions of a dynamic window that touch each other, for an access that lies in all of them.
#[derive(Debug)]
pub(crate) struct Joined<'e> {
    /// In the order of their offsets. The first begins at 0, and each other region begins at the end of the previous
    /// one.
    parts: Vec<JoinedPart<'e>>,
}

/// One of the regions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinedPart<'e> {
    /// The region's first byte, counted from the first byte of the first region.
    pub(crate) start: u64,
    /// The byte after the region's last byte.
    pub(crate) end: u64,
    pub(crate) place: TargetMemory<'e>,
}

impl<'e> Joined<'e> {
    /// Joins regions with these lengths.
    pub(crate) fn new(regions: impl Iterator<Item = (u64, TargetMemory<'e>)>) -> Joined<'e> {
        let mut end = 0;
        let part = |(len, place)| {
            let start = end;
            end += len;
            JoinedPart { start, end, place }
        };
        Joined { parts: regions.map(part).collect() }
    }

    /// Returns the region with the byte `offset`; the last region if none has it.
    pub(crate) fn part(&self, offset: u64) -> JoinedPart<'e> {
        let before = self.parts.partition_point(|part| part.end <= offset);
        self.parts[before.min(self.parts.len() - 1)]
    }

    /// Returns the pieces of `len` bytes from `offset` on, each in one region: the region's memory, the offset there,
    /// and the range of the bytes.
    fn pieces(&self, offset: u64, len: usize) -> impl Iterator<Item = (TargetMemory<'e>, u64, Range<usize>)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let part = (done < len).then(|| self.part(at))?;
            let piece = done..len.min(done + (part.end - at) as usize);
            done = piece.end;
            Some((part.place, at - part.start, piece))
        })
    }

    #[cold]
    #[inline(never)]
    fn write<A: RemoteAtomics + ?Sized>(&self, ra: &A, offset: u64, source: &[u8]) -> Result<()> {
        self.pieces(offset, source.len()).try_for_each(|(place, at, piece)| place.write(ra, at, &source[piece]))
    }

    #[cold]
    #[inline(never)]
    fn read<A: RemoteAtomics + ?Sized>(&self, ra: &A, offset: u64, dest: &mut [u8]) -> Result<()> {
        self.pieces(offset, dest.len()).try_for_each(|(place, at, piece)| place.read(ra, at, &mut dest[piece]))
    }

    /// Completes the writes to the regions, which `target` has attached.
    #[cold]
    #[inline(never)]
    pub(crate) fn flush<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> Result<()> {
        self.parts.iter().try_for_each(|part| Ok(ra.flush(part.place.owner(target))?))
    }
}

impl TargetMemory<'_> {
    /// Returns the rank that has the memory, which `target` has made part of the window.
    #[inline(always)]
    pub(crate) fn owner(self, target: Rank) -> Rank {
        if let TargetMemory::Segment(at) = self { at.rank } else { target }
    }

    /// Writes `source` at `offset`; complete at flush.
    #[inline(always)]
    pub(crate) fn write<A: RemoteAtomics + ?Sized>(self, ra: &A, offset: u64, source: &[u8]) -> Result<()> {
        match self {
            TargetMemory::Segment(Address { rank, disp, .. }) => {
                ra.post_bytes(rank.at(disp.plus(offset)).unwatched(), source)?;
            }
            TargetMemory::Leased(lease) => lease.put(offset, source)?,
            TargetMemory::Joined(joined) => return joined.write(ra, offset, source),
            TargetMemory::TwoSided(requests, rank) => {
                requests.put(rank, vec![(offset, source.len() as u64)], source.to_vec());
            }
        }
        Ok(())
    }

    /// Reads `dest.len()` bytes at `offset`.
    #[inline(always)]
    pub(crate) fn read<A: RemoteAtomics + ?Sized>(self, ra: &A, offset: u64, dest: &mut [u8]) -> Result<()> {
        match self {
            TargetMemory::Segment(Address { rank, disp, .. }) => {
                ra.get_bytes(rank.at(disp.plus(offset)).unwatched(), dest)?;
            }
            TargetMemory::Leased(lease) => lease.get(offset, dest)?,
            TargetMemory::Joined(joined) => return joined.read(ra, offset, dest),
            TargetMemory::TwoSided(requests, rank) => {
                dest.copy_from_slice(&requests.get(rank, vec![(offset, dest.len() as u64)])?);
            }
        }
        Ok(())
    }
}

/// A target's part of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TargetPart<'e> {
    /// The null target's part: all operations are allowed, and have no effect.
    Null,
    /// Memory that existed when the window was made.
    Fixed(TargetMemory<'e>),
    /// The memory that its owner has attached, reached by requests if there are any.
    Dynamic(Option<&'e dyn ByRequest>),
    /// A fixed or dynamic part, with recorded operations. `active` is true in an epoch of fences or of start.
    Recorded { active: bool },
}
