//! The memory of the window of a replay.

use rmalab_atomics::{Rank, WORD};
use rmalab_locks::LINE;

use crate::Flavor;

/// The memory of a window: its flavor, and each rank's part.
///
/// From [`Trace::shape`](crate::trace::Trace::shape), or [`allocated`](Self::allocated).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    pub(super) flavor: Flavor,
    pub(super) parts: Parts,
    /// The memory of each rank of a dynamic window, in the order of the addresses.
    pub(super) regions: Vec<Vec<Region>>,
}

/// Bytes of each rank's part, and of its displacement unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Parts {
    Same(u64, u32),
    Each(Vec<(u64, u32)>),
}

/// Memory that was attached to a dynamic window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Region {
    pub(super) start: i64,
    pub(super) bytes: u64,
}

impl Shape {
    /// Makes the shape of an allocated window with `bytes` bytes at each rank, in units of one byte.
    pub fn allocated(bytes: u64) -> Shape {
        Shape { flavor: Flavor::Allocate, parts: Parts::Same(bytes, 1), regions: Vec::new() }
    }

    pub(crate) fn fixed(flavor: Flavor, parts: Vec<(u64, u32)>) -> Shape {
        let parts = match parts.first() {
            Some(&(bytes, unit)) if parts.iter().all(|&part| part == (bytes, unit)) => Parts::Same(bytes, unit),
            _ => Parts::Each(parts),
        };
        Shape { flavor, parts, regions: Vec::new() }
    }

    /// Makes the shape of a dynamic window, to which each rank attaches memory: first address, bytes.
    pub(crate) fn dynamic(attached: Vec<Vec<(i64, u64)>>) -> Shape {
        Shape { flavor: Flavor::Dynamic, parts: Parts::Same(0, 1), regions: attached.into_iter().map(merged).collect() }
    }

    /// Returns the flavor of the window.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Returns the number of bytes of the largest part of a rank, including attached memory.
    pub fn bytes(&self) -> u64 {
        let largest = match &self.parts {
            &Parts::Same(bytes, _) => bytes,
            Parts::Each(parts) => parts.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0),
        };
        self.regions.iter().map(|regions| packed(regions).1).fold(largest, u64::max)
    }

    /// Returns the same shape as an allocated window, for backends that reach only memory of their segments. Attached
    /// memory becomes one part. Each region keeps its offset within a cache line.
    #[must_use]
    pub fn in_segments(self) -> Shape {
        let parts = match self.flavor {
            Flavor::Dynamic => Parts::Each(self.regions.iter().map(|regions| (packed(regions).1, 1)).collect()),
            Flavor::Create | Flavor::Allocate | Flavor::Shared => self.parts,
        };
        Shape { flavor: Flavor::Allocate, parts, regions: self.regions }
    }

    /// Returns the rank's part: bytes, and bytes of a displacement unit.
    pub(super) fn part(&self, rank: Rank) -> (u64, u32) {
        match &self.parts {
            &Parts::Same(bytes, unit) => (bytes, unit),
            Parts::Each(parts) => parts.get(rank.index()).copied().unwrap_or((0, 1)),
        }
    }
}

/// Returns the regions in the order of their addresses. Regions that overlap or touch become one, since an operation
/// may span them.
fn merged(mut attached: Vec<(i64, u64)>) -> Vec<Region> {
    // Addresses are unsigned.
    attached.sort_unstable_by_key(|&(start, _)| start as u64);
    let mut regions: Vec<Region> = Vec::new();
    for (start, bytes) in attached {
        match regions.last_mut() {
            Some(last) if start as u64 <= last.start as u64 + last.bytes => {
                last.bytes = last.bytes.max(start as u64 + bytes - last.start as u64);
            }
            _ => regions.push(Region { start, bytes }),
        }
    }
    regions
}

/// Returns the start of each region if they follow each other, and the number of bytes of all.
pub(super) fn packed(regions: &[Region]) -> (Vec<i64>, u64) {
    let mut end = 0u64;
    let mut starts = Vec::new();
    for region in regions {
        let start = end.next_multiple_of(LINE).saturating_add(region.start as u64 % LINE);
        starts.push(start as i64);
        // The window's constructor refuses a sum that is too large.
        end = start.saturating_add(region.bytes).min(u64::MAX - LINE - WORD);
    }
    (starts, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_memory_becomes_one_part() {
        let line = LINE as i64;
        let shape = Shape::dynamic(vec![
            vec![(9 * line + 40, 24), (99 * line, 8), (9 * line + 48, 60), (9 * line + 108, 40)],
            vec![],
        ]);
        let region = |start, bytes| Region { start, bytes };
        assert_eq!(shape.regions, [vec![region(9 * line + 40, 108), region(99 * line, 8)], vec![]]);
        let second = (40 + 108_u64).next_multiple_of(LINE) as i64;
        assert_eq!(packed(&shape.regions[0]), (vec![40, second], second as u64 + 8));
        let shape = shape.in_segments();
        assert_eq!((shape.flavor(), shape.bytes()), (Flavor::Allocate, second as u64 + 8));
        assert_eq!([0, 1].map(|rank| shape.part(Rank(rank))), [(second as u64 + 8, 1), (0, 1)]);
    }

    #[test]
    fn the_size_of_impossible_memory_does_not_overflow() {
        let huge = vec![(-1 << 40, (1 << 40) - 1), (0, 1 << 62), (1 << 62, 1 << 62), (i64::MIN, 1 << 62)];
        assert!(Shape::dynamic(vec![huge]).bytes() > 1 << 62);
    }
}
