//! Two layouts, walked together.

use super::error::{LayoutError, Result};
use super::runs::Runs;
use super::tree::{Layout, Run};

/// Bytes that are contiguous in both of two layouts, at the same place in the order of each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Piece {
    /// Offset of the first byte in the buffer of the first layout.
    pub left: i64,
    /// Offset of the first byte in the buffer of the second layout.
    pub right: i64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The pieces of a transfer between two layouts; see [`pair_runs`].
#[derive(Clone, Debug)]
pub struct PairRuns<'a> {
    left: Runs<'a>,
    right: Runs<'a>,
    /// The rest of the first layout's current run.
    left_run: Run,
    /// The rest of the second layout's current run.
    right_run: Run,
}

/// Walks two layouts of the same size together, and returns the pieces that are one run in both, in order.
///
/// # Errors
///
/// [`Mismatch`](LayoutError::Mismatch) if the sizes differ, and [`Overflow`](LayoutError::Overflow).
pub fn pair_runs<'a>(left: &'a Layout, left_count: u64, right: &'a Layout, right_count: u64) -> Result<PairRuns<'a>> {
    let (left_bytes, right_bytes) = (left.total(left_count)?, right.total(right_count)?);
    if left_bytes != right_bytes {
        return Err(LayoutError::Mismatch { left: left_bytes, right: right_bytes });
    }
    let none = Run { offset: 0, bytes: 0 };
    let (left, right) = (left.runs(left_count)?, right.runs(right_count)?);
    Ok(PairRuns { left, right, left_run: none, right_run: none })
}

/// Like [`pair_runs`], with pieces that are whole elements of `element` bytes, which accumulates need.
///
/// # Errors
///
/// The errors of [`pair_runs`], and [`Elements`](LayoutError::Elements) unless each element of both layouts is a
/// multiple of `element` bytes. A layout of one kind never fails for elements of that kind.
pub fn pair_elements<'a>(
    left: &'a Layout,
    left_count: u64,
    right: &'a Layout,
    right_count: u64,
    element: u64,
) -> Result<PairRuns<'a>> {
    left.whole(element)?;
    right.whole(element)?;
    pair_runs(left, left_count, right, right_count)
}

impl Iterator for PairRuns<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.left_run.bytes == 0 {
            self.left_run = self.left.next()?;
        }
        if self.right_run.bytes == 0 {
            self.right_run = self.right.next()?;
        }
        let bytes = self.left_run.bytes.min(self.right_run.bytes);
        let piece = Piece { left: self.left_run.offset, right: self.right_run.offset, bytes };
        for run in [&mut self.left_run, &mut self.right_run] {
            run.offset = run.offset.wrapping_add_unsigned(bytes);
            run.bytes -= bytes;
        }
        Some(piece)
    }
}
