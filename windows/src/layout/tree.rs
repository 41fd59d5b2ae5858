//! The tree of parts of which a layout consists.

use std::sync::Arc;

use super::error::{LayoutError, MAX_DEPTH, MAX_PARTS, Result};
use crate::ElementKind;

/// Neighbouring bytes, in a buffer whose start has the offset 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// Offset of the first byte.
    pub offset: i64,
    /// The number of bytes.
    pub bytes: u64,
}

impl Run {
    /// Returns the run's range in a buffer. The caller has checked that the run is within the buffer.
    pub(super) fn range(self) -> std::ops::Range<usize> {
        let start = self.offset as usize;
        start..start + self.bytes as usize
    }
}

/// The bytes of a buffer that an operation touches, in order, relative to the buffer's start.
///
/// Like an MPI datatype, a layout has a *size* (bytes of data) and *bounds*. Their distance is its *extent*: the
/// distance from one item to the next when several follow each other. A layout is immutable, and cheap to clone, since
/// lists are shared.
///
/// ```
/// use rmalab_windows::Layout;
/// use rmalab_windows::layout::{Order, Run};
///
/// // Column 2 of a matrix of 3 rows and 4 columns of f64.
/// let column = Layout::subarray(&[3, 4], &[3, 1], &[0, 2], Order::C, &Layout::of::<f64>())?;
/// let offsets: Vec<i64> = column.runs(1)?.map(|run| run.offset).collect();
/// assert_eq!(offsets, [16, 48, 80]);
/// // The whole matrix is one run.
/// let matrix = Layout::contiguous(12, &Layout::of::<f64>())?;
/// assert_eq!(matrix.runs(1)?.collect::<Vec<_>>(), [Run { offset: 0, bytes: 96 }]);
/// # Ok::<(), rmalab_windows::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    pub(super) body: Body,
    pub(super) lower: i64,
    /// The upper bound; upper − lower is within `i64`.
    pub(super) upper: i64,
    /// True if the bounds were set and do not follow from the data. Such bounds take precedence in a structure.
    pub(super) marked: bool,
    pub(super) kinds: Kinds,
    /// Invariant I4; 0 if there are no elements.
    pub(super) grain: u64,
    /// The largest alignment of an element. The extent is rounded up to it unless the bounds were set.
    pub(super) align: u64,
}

/// The kinds of the elements of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kinds {
    None,
    One(ElementKind),
    Mixed,
}

/// A shape, and the values that follow from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Body {
    pub(super) shape: Shape,
    /// Bytes of data.
    pub(super) size: u64,
    /// Offset of the first byte; 0 if there is none.
    pub(super) first: i64,
    /// One past the last byte.
    pub(super) end: i64,
    pub(super) depth: u32,
    pub(super) parts: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Run(Run),
    Parts(Arc<[RepeatedShape]>),
}

/// `count` copies of a shape, at `offset`, `offset + stride`, ...
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RepeatedShape {
    pub(super) offset: i64,
    pub(super) count: u64,
    pub(super) stride: i64,
    pub(super) shape: Shape,
}

/// Returns `value` if it fits in the type. The error names it as `what`.
pub(super) fn narrow<T: TryFrom<i128>>(value: i128, what: &'static str) -> Result<T> {
    T::try_from(value).map_err(|_| LayoutError::Overflow { what })
}

/// Returns the least and the greatest offset of the bytes at `low..high` of `count` copies, the first at `offset`.
pub(super) fn reach(offset: i64, count: u64, stride: i64, low: i64, high: i64) -> Result<(i64, i64)> {
    // In 128 bits: the product's magnitude is at most 2^127 − 2^63, but the sum could go beyond.
    let last = i128::from(count.saturating_sub(1)) * i128::from(stride);
    let last = i128::from(narrow::<i64>(last, "displacement")?);
    let low = i128::from(offset) + last.min(0) + i128::from(low);
    let high = i128::from(offset) + last.max(0) + i128::from(high);
    Ok((narrow(low, "displacement")?, narrow(high, "displacement")?))
}

pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Shape {
    pub(super) const EMPTY: Shape = Shape::Run(Run { offset: 0, bytes: 0 });
}

impl RepeatedShape {
    /// Makes the canonical part (I2) for `count` copies of a shape, and returns the number of parts that were folded
    /// into it.
    pub(super) fn new(
        mut offset: i64,
        mut count: u64,
        mut stride: i64,
        mut shape: Shape,
    ) -> Result<(RepeatedShape, u32)> {
        let add = |a: i64, b: i64| a.checked_add(b).ok_or(LayoutError::Overflow { what: "displacement" });
        let mut folded = 0;
        while let Shape::Parts(parts) = &shape
            && let [only] = &parts[..]
        {
            if count == 1 {
                (count, stride) = (only.count, only.stride);
            } else if only.count != 1 {
                // If the copies do not continue the part's own spacing, these are two levels.
                let span = i128::from(only.count) * i128::from(only.stride);
                match count.checked_mul(only.count) {
                    Some(all) if span == i128::from(stride) => (count, stride) = (all, only.stride),
                    _ => break,
                }
            }
            offset = add(offset, only.offset)?;
            shape = only.shape.clone();
            folded += 1;
        }
        if let Shape::Run(run) = &mut shape {
            offset = add(offset, std::mem::take(&mut run.offset))?;
            if i128::from(stride) == i128::from(run.bytes)
                && let Some(bytes) = run.bytes.checked_mul(count)
            {
                (run.bytes, count) = (bytes, 1);
            }
        }
        Ok((RepeatedShape { offset, count, stride: if count == 1 { 0 } else { stride }, shape }, folded))
    }
}

impl Body {
    pub(super) const EMPTY: Body = Body { shape: Shape::EMPTY, size: 0, first: 0, end: 0, depth: 0, parts: 0 };

    pub(super) fn run(offset: i64, bytes: u64) -> Result<Body> {
        let end = narrow(i128::from(offset) + i128::from(bytes), "displacement")?;
        if bytes == 0 {
            return Ok(Body::EMPTY);
        }
        Ok(Body { shape: Shape::Run(Run { offset, bytes }), size: bytes, first: offset, end, depth: 0, parts: 0 })
    }

    /// Joins copies of each body, one after the other: (offset, count, stride, body).
    pub(super) fn assemble<'b>(copies: impl Iterator<Item = Result<(i64, u64, i64, &'b Body)>>) -> Result<Body> {
        let mut list: Vec<RepeatedShape> = Vec::new();
        let mut all = Body::EMPTY;
        for copy in copies {
            let (offset, count, stride, body) = copy?;
            if count == 0 || body.size == 0 {
                continue;
            }
            let (first, end) = reach(offset, count, stride, body.first, body.end)?;
            (all.first, all.end) = if all.size == 0 { (first, end) } else { (all.first.min(first), all.end.max(end)) };
            let size = body.size.checked_mul(count).and_then(|size| size.checked_add(all.size));
            all.size = size.ok_or(LayoutError::Overflow { what: "size" })?;
            let (part, folded) = RepeatedShape::new(offset, count, stride, body.shape.clone())?;
            if let (
                Some(RepeatedShape { offset, count: 1, shape: Shape::Run(before), .. }),
                RepeatedShape { offset: next, count: 1, shape: Shape::Run(run), .. },
            ) = (list.last_mut(), &part)
                && i128::from(*offset) + i128::from(before.bytes) == i128::from(*next)
            {
                before.bytes = before.bytes.checked_add(run.bytes).ok_or(LayoutError::Overflow { what: "size" })?;
                continue;
            }
            all.depth = all.depth.max(body.depth - folded + 1);
            all.parts = all.parts.saturating_add(body.parts - u64::from(folded) + 1);
            if all.depth > MAX_DEPTH || all.parts > MAX_PARTS {
                return Err(LayoutError::TooComplex { depth: all.depth, parts: all.parts });
            }
            list.push(part);
        }
        match &list[..] {
            [] => return Ok(Body::EMPTY),
            [RepeatedShape { offset, count: 1, shape: Shape::Run(run), .. }] => return Body::run(*offset, run.bytes),
            // A single list needs no list around it.
            [RepeatedShape { offset: 0, count: 1, shape, .. }] => {
                (all.shape, all.depth, all.parts) = (shape.clone(), all.depth - 1, all.parts - 1);
            }
            _ => all.shape = Shape::Parts(list.into()),
        }
        Ok(all)
    }
}

impl Kinds {
    pub(super) fn and(self, other: Kinds) -> Kinds {
        match (self, other) {
            (Kinds::None, kinds) | (kinds, Kinds::None) => kinds,
            (Kinds::One(one), Kinds::One(other)) if one == other => self,
            _ => Kinds::Mixed,
        }
    }
}
