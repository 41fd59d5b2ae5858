//! Data layouts: which bytes of a buffer an operation touches, and in which order (MPI's derived datatypes).
//!
//! # Sources
//!
//! MPI-4.1, sections 5.1.2 (the constructors), 5.1.3 (subarray), 5.1.6 and 5.1.7 (bounds and extent), 5.1.8 (true
//! bounds); 12.3.1 and 12.3.4 for their use at the origin and at the target.
//!
//! # State
//!
//! A layout is a tree of parts. A part is `count` copies of a shape, `stride` bytes apart; a shape is a run of bytes or
//! a list of parts. The tree is as large as the description, not as the data: a vector of a million blocks is one part.
//!
//! # Invariants
//!
//! * I1. Every byte of a layout, and every one past a run, has an offset within `i64`, and the size is below 2^64. So
//!   sums of offsets on the way down the tree may wrap, and are right at its leaves.
//! * I2. Canonical: no part is empty; a part whose copies touch is one run; a part that holds just one part is folded
//!   into it where the strides agree; neighbouring runs that touch are one. So building a tree anew from its own parts
//!   gives the same tree, and layouts of the same pieces are equal.
//! * I3. The tree is at most [`MAX_DEPTH`] deep and has at most [`MAX_PARTS`] parts.
//! * I4. `grain` divides the bytes of every run: it is the greatest common divisor of the sizes of the elements.
//!
//! # Cost
//!
//! Iteration holds one frame for each level of the tree below the first, and takes a few instructions for each run.
//! A contiguous layout, however it was described, and a vector of contiguous blocks need no memory at all.

use std::sync::Arc;

use crate::{Element, Kind};

/// How deep a layout may be nested, after what is contiguous or evenly spaced was folded.
pub const MAX_DEPTH: u32 = 64;

/// How many parts (blocks of a list, and lists) a layout may have.
pub const MAX_PARTS: u64 = 1 << 26;

/// The result of making or using a layout.
type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// A layout that cannot be, or that does not fit its use.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A displacement, extent or size beyond 63 bits.
    #[error("a layout's {what} does not fit in 63 bits")]
    Overflow {
        /// What became too large.
        what: &'static str,
    },
    /// More levels than [`MAX_DEPTH`], or more parts than [`MAX_PARTS`].
    #[error("a layout of {depth} levels and {parts} parts: the limits are {MAX_DEPTH} and {MAX_PARTS}")]
    TooComplex {
        /// How many levels it would have.
        depth: u32,
        /// How many parts it would have.
        parts: u64,
    },
    /// The lists that describe a subarray differ in length.
    #[error(
        "a subarray of {sizes} sizes, {subsizes} subsizes and {starts} starts: give one of each for every dimension"
    )]
    Dimensions {
        /// Length of the list of sizes.
        sizes: usize,
        /// Length of the list of subsizes.
        subsizes: usize,
        /// Length of the list of starts.
        starts: usize,
    },
    /// A subarray that reaches outside of its array.
    #[error("a subarray of {subsize} from {start} in dimension {dimension}, which has {size}")]
    Subarray {
        /// The dimension, counted from 0 in the order of the lists.
        dimension: usize,
        /// The array's size in this dimension.
        size: u64,
        /// The subarray's size in this dimension.
        subsize: u64,
        /// Where the subarray starts in this dimension.
        start: u64,
    },
    /// The two ends of a transfer describe different amounts of data.
    #[error("{left} bytes at one end and {right} at the other: layouts of one transfer hold equally many")]
    Mismatch {
        /// Bytes of the first layout (the packed data, when unpacking).
        left: u64,
        /// Bytes of the second layout.
        right: u64,
    },
    /// A layout whose runs cannot be relied on to be whole elements.
    #[error(
        "elements of {element} bytes in a layout whose smallest unit is {grain} bytes: build it from such elements"
    )]
    Elements {
        /// Bytes of an element.
        element: u64,
        /// What divides the bytes of every run of the layout.
        grain: u64,
    },
    /// A layout that reaches outside of the buffer that it is used on.
    #[error("bytes {first} up to {end} of a buffer of {buffer} bytes: the layout reaches outside of it")]
    OutOfBuffer {
        /// Offset of the layout's first byte from the buffer's start.
        first: i64,
        /// One past the offset of its last byte.
        end: i64,
        /// Bytes of the buffer.
        buffer: u64,
    },
    /// No memory for the packed data.
    #[error("no memory for {bytes} bytes of packed data")]
    OutOfMemory {
        /// How many bytes were asked for.
        bytes: u64,
    },
}

/// The order of an array's elements in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Row-major: the last dimension's elements are neighbours (`MPI_ORDER_C`).
    C,
    /// Column-major: the first dimension's elements are neighbours (`MPI_ORDER_FORTRAN`).
    Fortran,
}

/// Neighbouring bytes, in a buffer whose start has the offset 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// Offset of the first byte.
    pub offset: i64,
    /// How many.
    pub bytes: u64,
}

/// Bytes that neighbour each other in both of two layouts, and have the same place in their order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Piece {
    /// Offset of the first byte in the buffer of the first layout.
    pub left: i64,
    /// Offset of the first byte in the buffer of the second layout.
    pub right: i64,
    /// How many bytes.
    pub bytes: u64,
}

/// Which bytes of a buffer an operation touches, in which order, relative to the buffer's start.
///
/// As MPI's datatypes: a layout has a *size* (bytes of data), and *bounds*, whose distance is its *extent*: where the
/// next one starts when several follow each other. Immutable, and cheap to clone: lists are shared.
///
/// ```
/// use rmalab_windows::Layout;
/// use rmalab_windows::layout::{Order, Run};
///
/// // Column 2 of a matrix of 3 rows and 4 columns of f64.
/// let column = Layout::subarray(&[3, 4], &[3, 1], &[0, 2], Order::C, &Layout::of::<f64>())?;
/// let offsets: Vec<i64> = column.runs(1)?.map(|run| run.offset).collect();
/// assert_eq!(offsets, [16, 48, 80]);
/// // All of it is one run.
/// let matrix = Layout::contiguous(12, &Layout::of::<f64>())?;
/// assert_eq!(matrix.runs(1)?.collect::<Vec<_>>(), [Run { offset: 0, bytes: 96 }]);
/// # Ok::<(), rmalab_windows::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    body: Body,
    lower: i64,
    /// The upper bound; upper − lower is within `i64`.
    upper: i64,
    /// Whether the bounds were set rather than follow from the data; such bounds outweigh others in a structure.
    marked: bool,
    kinds: Kinds,
    /// Invariant I4; 0 if there are no elements.
    grain: u64,
    /// The largest alignment of an element, which the extent is rounded up to unless it was set.
    align: u64,
}

/// Which kinds of elements a layout holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kinds {
    None,
    One(Kind),
    Mixed,
}

/// A shape, and what follows from it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Body {
    shape: Shape,
    /// Bytes of data.
    size: u64,
    /// Offset of the first byte; 0 if there is none.
    first: i64,
    /// One past the last byte.
    end: i64,
    depth: u32,
    parts: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Shape {
    Run(Run),
    Parts(Arc<[Part]>),
}

/// `count` copies of a shape, at `offset`, `offset + stride`, ...
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    offset: i64,
    count: u64,
    stride: i64,
    shape: Shape,
}

/// `value`, if it is within 63 bits.
fn narrow<T: TryFrom<i128>>(value: i128, what: &'static str) -> Result<T> {
    T::try_from(value).map_err(|_| LayoutError::Overflow { what })
}

/// The least and the greatest offset of what is at `low..high` in each of `count` copies, the first at `offset`.
fn reach(offset: i64, count: u64, stride: i64, low: i64, high: i64) -> Result<(i64, i64)> {
    // In 128 bits: the product's magnitude is at most 2^127 − 2^63, but the sum could go beyond.
    let last = i128::from(count.saturating_sub(1)) * i128::from(stride);
    let last = i128::from(narrow::<i64>(last, "displacement")?);
    let low = i128::from(offset) + last.min(0) + i128::from(low);
    let high = i128::from(offset) + last.max(0) + i128::from(high);
    Ok((narrow(low, "displacement")?, narrow(high, "displacement")?))
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Shape {
    const EMPTY: Shape = Shape::Run(Run { offset: 0, bytes: 0 });
}

impl Part {
    /// The part that stands for `count` copies of a shape, by invariant I2, and how many parts were folded into it.
    fn new(mut offset: i64, mut count: u64, mut stride: i64, mut shape: Shape) -> Result<(Part, u32)> {
        let add = |a: i64, b: i64| a.checked_add(b).ok_or(LayoutError::Overflow { what: "displacement" });
        let mut folded = 0;
        while let Shape::Parts(parts) = &shape
            && let [only] = &parts[..]
        {
            if count == 1 {
                (count, stride) = (only.count, only.stride);
            } else if only.count != 1 {
                // The copies continue the part's own spacing, or these are two levels.
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
        Ok((Part { offset, count, stride: if count == 1 { 0 } else { stride }, shape }, folded))
    }
}

impl Body {
    const EMPTY: Body = Body { shape: Shape::EMPTY, size: 0, first: 0, end: 0, depth: 0, parts: 0 };

    fn run(offset: i64, bytes: u64) -> Result<Body> {
        let end = narrow(i128::from(offset) + i128::from(bytes), "displacement")?;
        if bytes == 0 {
            return Ok(Body::EMPTY);
        }
        Ok(Body { shape: Shape::Run(Run { offset, bytes }), size: bytes, first: offset, end, depth: 0, parts: 0 })
    }

    /// The copies of each body, one after the other: (offset, count, stride, body).
    fn assemble<'b>(copies: impl Iterator<Item = Result<(i64, u64, i64, &'b Body)>>) -> Result<Body> {
        let mut list: Vec<Part> = Vec::new();
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
            let (part, folded) = Part::new(offset, count, stride, body.shape.clone())?;
            if let (
                Some(Part { offset, count: 1, shape: Shape::Run(before), .. }),
                Part { offset: next, count: 1, shape: Shape::Run(run), .. },
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
            [Part { offset, count: 1, shape: Shape::Run(run), .. }] => return Body::run(*offset, run.bytes),
            // The list alone: it needs no list around it.
            [Part { offset: 0, count: 1, shape, .. }] => {
                (all.shape, all.depth, all.parts) = (shape.clone(), all.depth - 1, all.parts - 1);
            }
            _ => all.shape = Shape::Parts(list.into()),
        }
        Ok(all)
    }
}

impl Kinds {
    fn and(self, other: Kinds) -> Kinds {
        match (self, other) {
            (Kinds::None, kinds) | (kinds, Kinds::None) => kinds,
            (Kinds::One(one), Kinds::One(other)) if one == other => self,
            _ => Kinds::Mixed,
        }
    }
}

impl Layout {
    /// One element.
    pub fn of<T: Element>() -> Layout {
        Layout::of_kind(T::KIND)
    }

    /// One element of a kind that is known only at run time.
    pub fn of_kind(kind: Kind) -> Layout {
        let (size, align) = (kind.size(), kind.align());
        let end = size as i64;
        let shape = Shape::Run(Run { offset: 0, bytes: size });
        let body = Body { shape, size, first: 0, end, depth: 0, parts: 0 };
        Layout { body, lower: 0, upper: end, marked: false, kinds: Kinds::One(kind), grain: size, align }
    }

    /// `count` of `inner`, one after the other (`MPI_Type_contiguous`).
    ///
    /// # Errors
    ///
    /// As all constructors: [`Overflow`](LayoutError::Overflow) and [`TooComplex`](LayoutError::TooComplex).
    pub fn contiguous(count: u64, inner: &Layout) -> Result<Layout> {
        Layout::build(std::iter::once(Ok((0, count, inner.extent(), inner))))
    }

    /// `count` blocks of `block` of `inner`, which start `stride` extents of `inner` apart (`MPI_Type_vector`).
    ///
    /// # Errors
    ///
    /// Those of [`contiguous`](Self::contiguous).
    pub fn vector(count: u64, block: u64, stride: i64, inner: &Layout) -> Result<Layout> {
        Layout::hvector(count, block, inner.times(i128::from(stride))?, inner)
    }

    /// `count` blocks of `block` of `inner`, which start `stride` bytes apart (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    ///
    /// Those of [`contiguous`](Self::contiguous).
    pub fn hvector(count: u64, block: u64, stride: i64, inner: &Layout) -> Result<Layout> {
        let block = Layout::contiguous(block, inner)?;
        Layout::build(std::iter::once(Ok((0, count, stride, &block))))
    }

    /// Blocks (how many of `inner`, displacement in extents of `inner`), in the order given (`MPI_Type_indexed`).
    ///
    /// # Errors
    ///
    /// Those of [`contiguous`](Self::contiguous).
    pub fn indexed(blocks: &[(u64, i64)], inner: &Layout) -> Result<Layout> {
        let copies = |&(block, disp): &(u64, i64)| Ok((inner.times(i128::from(disp))?, block, inner.extent(), inner));
        Layout::build(blocks.iter().map(copies))
    }

    /// Blocks (how many of `inner`, displacement in bytes), in the order given (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    ///
    /// Those of [`contiguous`](Self::contiguous).
    pub fn hindexed(blocks: &[(u64, i64)], inner: &Layout) -> Result<Layout> {
        Layout::build(blocks.iter().map(|&(block, disp)| Ok((disp, block, inner.extent(), inner))))
    }

    /// Blocks of `block` of `inner` each, at displacements in extents of `inner` (`MPI_Type_create_indexed_block`).
    ///
    /// # Errors
    ///
    /// Those of [`contiguous`](Self::contiguous).
    pub fn indexed_block(block: u64, disps: &[i64], inner: &Layout) -> Result<Layout> {
        let copies = |&disp: &i64| Ok((inner.times(i128::from(disp))?, block, inner.extent(), inner));
        Layout::build(disps.iter().map(copies))
    }

    /// Blocks of `block` of `inner` each, at displacements in bytes (`MPI_Type_create_hindexed_block`).
    ///
    /// # Errors
    ///
    /// Those of [`contiguous`](Self::contiguous).
    pub fn hindexed_block(block: u64, disps: &[i64], inner: &Layout) -> Result<Layout> {
        Layout::build(disps.iter().map(|&disp| Ok((disp, block, inner.extent(), inner))))
    }

    /// A box of `subsizes` elements that starts at `starts` in an array of `sizes` elements, each an `inner`
    /// (`MPI_Type_create_subarray`).
    ///
    /// The data are in the order of the array's memory, and the bounds are those of the whole array. A subsize of 0 is
    /// an empty layout, although the standard has no such boxes.
    ///
    /// # Errors
    ///
    /// [`Dimensions`](LayoutError::Dimensions) if the lists differ in length, [`Subarray`](LayoutError::Subarray) if the
    /// box reaches outside of the array, and those of [`contiguous`](Self::contiguous).
    pub fn subarray(sizes: &[u64], subsizes: &[u64], starts: &[u64], order: Order, inner: &Layout) -> Result<Layout> {
        let dimensions = sizes.len();
        if subsizes.len() != dimensions || starts.len() != dimensions {
            let (subsizes, starts) = (subsizes.len(), starts.len());
            return Err(LayoutError::Dimensions { sizes: dimensions, subsizes, starts });
        }
        let (mut layout, mut step) = (inner.clone(), inner.extent());
        for nth in 0..dimensions {
            let dimension = match order {
                Order::C => dimensions - 1 - nth,
                Order::Fortran => nth,
            };
            let (size, subsize, start) = (sizes[dimension], subsizes[dimension], starts[dimension]);
            if start.checked_add(subsize).is_none_or(|end| end > size) {
                return Err(LayoutError::Subarray { dimension, size, subsize, start });
            }
            let offset = narrow(i128::from(start) * i128::from(step), "displacement")?;
            layout = Layout::build(std::iter::once(Ok((offset, subsize, step, &layout))))?;
            step = narrow(i128::from(size) * i128::from(step), "extent")?;
        }
        layout.resized(0, step)
    }

    /// Blocks (how many, displacement in bytes, of what), in the order given (`MPI_Type_create_struct`).
    ///
    /// As in C, the extent is rounded up to a multiple of the largest alignment of an element, unless a block's own
    /// bounds were set by [`resized`](Self::resized) or [`subarray`](Self::subarray): then only such bounds count.
    ///
    /// # Errors
    ///
    /// Those of [`contiguous`](Self::contiguous).
    pub fn structure(blocks: &[(u64, i64, &Layout)]) -> Result<Layout> {
        Layout::build(blocks.iter().map(|&(block, disp, inner)| Ok((disp, block, inner.extent(), inner))))
    }

    /// The same data with other bounds, in bytes (`MPI_Type_create_resized`).
    ///
    /// # Errors
    ///
    /// [`Overflow`](LayoutError::Overflow) if the upper bound is not within 63 bits.
    pub fn resized(&self, lower: i64, extent: i64) -> Result<Layout> {
        let upper = lower.checked_add(extent).ok_or(LayoutError::Overflow { what: "extent" })?;
        Ok(Layout { lower, upper, marked: true, ..self.clone() })
    }

    /// The layout of copies of others, one after the other: (offset, count, stride, layout).
    fn build<'l>(copies: impl Iterator<Item = Result<(i64, u64, i64, &'l Layout)>>) -> Result<Layout> {
        let mut marks = None;
        let (mut kinds, mut grain, mut align) = (Kinds::None, 0, 1);
        let body = Body::assemble(copies.map(|copy| {
            let (offset, count, stride, inner) = copy?;
            if count > 0 {
                if inner.marked {
                    let (low, high) = reach(offset, count, stride, inner.lower, inner.upper)?;
                    let (lower, upper) = marks.unwrap_or((low, high));
                    marks = Some((low.min(lower), high.max(upper)));
                }
                kinds = kinds.and(inner.kinds);
                grain = gcd(grain, inner.grain);
                align = inner.align.max(align);
            }
            Ok((offset, count, stride, &inner.body))
        }))?;
        Layout::bounded(body, marks, kinds, grain, align)
    }

    /// A layout with the bounds `marks`, or else with those that follow from the data.
    fn bounded(body: Body, marks: Option<(i64, i64)>, kinds: Kinds, grain: u64, align: u64) -> Result<Layout> {
        let (lower, upper) = match marks {
            Some(marks) => marks,
            None => {
                let (first, align) = (i128::from(body.first), i128::from(align));
                let extent = (i128::from(body.end) - first + align - 1) / align * align;
                (body.first, narrow(first + extent, "extent")?)
            }
        };
        narrow::<i64>(i128::from(upper) - i128::from(lower), "extent")?;
        Ok(Layout { body, lower, upper, marked: marks.is_some(), kinds, grain, align })
    }

    /// `count` extents in bytes.
    fn times(&self, count: i128) -> Result<i64> {
        narrow(count * i128::from(self.extent()), "displacement")
    }

    /// Bytes of data of one item (`MPI_Type_size`).
    #[inline]
    pub fn size(&self) -> u64 {
        self.body.size
    }

    /// Bytes of data of `count` items.
    ///
    /// # Errors
    ///
    /// [`Overflow`](LayoutError::Overflow).
    #[inline]
    pub fn total(&self, count: u64) -> Result<u64> {
        self.body.size.checked_mul(count).ok_or(LayoutError::Overflow { what: "size" })
    }

    /// Bytes from one item to the next: the upper bound − the lower bound (`MPI_Type_get_extent`).
    #[inline]
    pub fn extent(&self) -> i64 {
        self.upper - self.lower
    }

    /// The lower bound: the offset of the first byte, unless it was set (`MPI_Type_get_extent`).
    #[inline]
    pub fn lower_bound(&self) -> i64 {
        self.lower
    }

    /// The offset of the first byte of data and one past the last, or (0, 0) without data (`MPI_Type_get_true_extent`
    /// gives the first and the distance).
    #[inline]
    pub fn true_bounds(&self) -> (i64, i64) {
        (self.body.first, self.body.end)
    }

    /// As [`true_bounds`](Self::true_bounds), of `count` items.
    ///
    /// # Errors
    ///
    /// [`Overflow`](LayoutError::Overflow).
    #[inline]
    pub fn span(&self, count: u64) -> Result<(i64, i64)> {
        if count == 0 || self.body.size == 0 {
            return Ok((0, 0));
        }
        reach(0, count, self.extent(), self.body.first, self.body.end)
    }

    /// The kind of all elements; none if they differ, or if there are no elements (their size is 0).
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        match self.kinds {
            Kinds::One(kind) => Some(kind),
            Kinds::None | Kinds::Mixed => None,
        }
    }

    /// Whether all elements are of `kind`; so they are when there are none.
    #[inline]
    pub fn is_all(&self, kind: Kind) -> bool {
        self.kinds == Kinds::None || self.kinds == Kinds::One(kind)
    }

    /// Whether any number of items is one run, without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.body.size == 0
            || matches!(self.body.shape, Shape::Run(_)) && i128::from(self.extent()) == i128::from(self.body.size)
    }

    /// The one run that `count` items are, if they are, without making an iterator; of 0 bytes if there is no data.
    ///
    /// # Errors
    ///
    /// [`Overflow`](LayoutError::Overflow).
    #[inline]
    pub fn as_run(&self, count: u64) -> Result<Option<Run>> {
        let (offset, bytes) = (self.body.first, self.total(count)?);
        let one = bytes == 0 || self.is_contiguous() || count == 1 && matches!(self.body.shape, Shape::Run(_));
        if one {
            let end = offset.checked_add_unsigned(bytes);
            return end.map(|_| Some(Run { offset, bytes })).ok_or(LayoutError::Overflow { what: "displacement" });
        }
        self.span(count)?;
        Ok(None)
    }

    /// The runs of `count` items at multiples of the extent, in the layout's order; neighbours in order that touch are
    /// one run. Bytes that are described twice come twice.
    ///
    /// # Errors
    ///
    /// [`Overflow`](LayoutError::Overflow) if an offset is beyond 63 bits, or the size beyond 64.
    #[inline]
    pub fn runs(&self, count: u64) -> Result<Runs<'_>> {
        let mut runs = Runs { stack: Vec::new(), leaf: Leaf::default(), ahead: Run { offset: 0, bytes: 0 } };
        match self.as_run(count)? {
            Some(run) => runs.ahead = run,
            None => runs.enter(&self.body.shape, 0, count, self.extent()),
        }
        Ok(runs)
    }

    /// Checks that all runs are whole elements of `element` bytes, by the sizes of the elements that it is made of.
    ///
    /// # Errors
    ///
    /// [`Elements`](LayoutError::Elements).
    fn whole(&self, element: u64) -> Result<()> {
        if self.grain.checked_rem(element) != Some(0) {
            return Err(LayoutError::Elements { element, grain: self.grain });
        }
        Ok(())
    }

    /// Appends the data of `count` items in `source` to `packed`.
    ///
    /// # Errors
    ///
    /// [`OutOfBuffer`](LayoutError::OutOfBuffer), [`OutOfMemory`](LayoutError::OutOfMemory) and
    /// [`Overflow`](LayoutError::Overflow); nothing is appended.
    pub fn pack(&self, count: u64, source: &[u8], packed: &mut Vec<u8>) -> Result<()> {
        self.check_buffer(count, source.len())?;
        let bytes = self.total(count)?;
        let room = usize::try_from(bytes).ok().and_then(|room| packed.try_reserve(room).ok());
        room.ok_or(LayoutError::OutOfMemory { bytes })?;
        for run in self.runs(count)? {
            packed.extend_from_slice(&source[run.range()]);
        }
        Ok(())
    }

    /// Spreads packed data over `count` items in `target`. Of bytes that are described twice, the last stay.
    ///
    /// # Errors
    ///
    /// [`Mismatch`](LayoutError::Mismatch) if `packed` has another length than the items have data,
    /// [`OutOfBuffer`](LayoutError::OutOfBuffer) and [`Overflow`](LayoutError::Overflow); nothing is written.
    pub fn unpack(&self, count: u64, packed: &[u8], target: &mut [u8]) -> Result<()> {
        self.check_buffer(count, target.len())?;
        let (left, right) = (packed.len() as u64, self.total(count)?);
        if left != right {
            return Err(LayoutError::Mismatch { left, right });
        }
        let mut rest = packed;
        for run in self.runs(count)? {
            // As many bytes as the runs have in all, by the check above.
            let (data, later) = rest.split_at(run.bytes as usize);
            target[run.range()].copy_from_slice(data);
            rest = later;
        }
        Ok(())
    }

    /// Checks that `count` items are within a buffer of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`OutOfBuffer`](LayoutError::OutOfBuffer) and [`Overflow`](LayoutError::Overflow).
    #[inline]
    pub fn check_buffer(&self, count: u64, bytes: usize) -> Result<()> {
        let (first, end) = self.span(count)?;
        let buffer = bytes as u64;
        if first < 0 || i128::from(end) > i128::from(buffer) {
            return Err(LayoutError::OutOfBuffer { first, end, buffer });
        }
        Ok(())
    }
}

impl Run {
    /// Its place in a buffer, which it was checked to be within.
    fn range(self) -> std::ops::Range<usize> {
        let start = self.offset as usize;
        start..start + self.bytes as usize
    }
}

/// The runs of a layout; see [`Layout::runs`].
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    /// The lists that the iteration is in, the innermost last.
    stack: Vec<Frame<'a>>,
    leaf: Leaf,
    /// The run that comes next unless it grows; of 0 bytes when there is none yet.
    ahead: Run,
}

/// Copies of a list of parts: part `next` of the copy at `base` is to come, and `left` copies with this one.
#[derive(Clone, Debug)]
struct Frame<'a> {
    parts: &'a [Part],
    next: usize,
    base: i64,
    left: u64,
    stride: i64,
}

/// Copies of a run that are to come: `left` of them, the first at `run`.
#[derive(Clone, Copy, Debug, Default)]
struct Leaf {
    offset: i64,
    bytes: u64,
    left: u64,
    stride: i64,
}

impl<'a> Runs<'a> {
    /// Goes to `count` (not 0) copies of a shape. Sums wrap, by invariant I1.
    fn enter(&mut self, mut shape: &'a Shape, mut base: i64, mut count: u64, mut stride: i64) {
        loop {
            match shape {
                Shape::Run(Run { offset, bytes }) => {
                    self.leaf = Leaf { offset: base.wrapping_add(*offset), bytes: *bytes, left: count, stride };
                    return;
                }
                Shape::Parts(parts) => match &parts[..] {
                    [only] if count == 1 => {
                        base = base.wrapping_add(only.offset);
                        (count, stride, shape) = (only.count, only.stride, &only.shape);
                    }
                    parts => {
                        self.stack.push(Frame { parts, next: 0, base, left: count, stride });
                        return;
                    }
                },
            }
        }
    }

    /// The next run, not yet merged with those that follow.
    #[inline]
    fn advance(&mut self) -> Option<Run> {
        while self.leaf.left == 0 {
            let frame = self.stack.last_mut()?;
            if frame.next == frame.parts.len() {
                frame.left -= 1;
                if frame.left == 0 {
                    self.stack.pop();
                    continue;
                }
                frame.next = 0;
                frame.base = frame.base.wrapping_add(frame.stride);
            }
            let part = &frame.parts[frame.next];
            frame.next += 1;
            let base = frame.base.wrapping_add(part.offset);
            self.enter(&part.shape, base, part.count, part.stride);
        }
        let run = Run { offset: self.leaf.offset, bytes: self.leaf.bytes };
        self.leaf.offset = run.offset.wrapping_add(self.leaf.stride);
        self.leaf.left -= 1;
        Some(run)
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        while let Some(run) = self.advance() {
            if self.ahead.bytes == 0 {
                self.ahead = run;
            } else if self.ahead.offset.wrapping_add_unsigned(self.ahead.bytes) == run.offset {
                // Within 64 bits, as the size of all is (I1).
                self.ahead.bytes += run.bytes;
            } else {
                return Some(std::mem::replace(&mut self.ahead, run));
            }
        }
        let last = std::mem::take(&mut self.ahead.bytes);
        (last > 0).then_some(Run { offset: self.ahead.offset, bytes: last })
    }
}

impl std::iter::FusedIterator for Runs<'_> {}

/// The pieces of a transfer between two layouts; see [`pair_runs`].
#[derive(Clone, Debug)]
pub struct PairRuns<'a> {
    left: Runs<'a>,
    right: Runs<'a>,
    /// What is left of each layout's run.
    left_run: Run,
    right_run: Run,
}

/// Walks two layouts of equally many bytes together: the pieces that are one run in both, in order.
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

/// As [`pair_runs`], with pieces that are whole elements of `element` bytes, as accumulates need them.
///
/// # Errors
///
/// Those of [`pair_runs`], and [`Elements`](LayoutError::Elements) if a layout is not made of elements of which each is
/// a multiple of `element` bytes. A layout of one kind, and of elements of that kind, always is.
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::Pair;

    /// The description of a layout.
    #[derive(Clone, Debug)]
    enum Spec {
        Leaf(Kind),
        Contiguous(u64, Box<Spec>),
        Vector(u64, u64, i64, Box<Spec>),
        Hvector(u64, u64, i64, Box<Spec>),
        Indexed(Vec<(u64, i64)>, Box<Spec>),
        Hindexed(Vec<(u64, i64)>, Box<Spec>),
        IndexedBlock(u64, Vec<i64>, Box<Spec>),
        HindexedBlock(u64, Vec<i64>, Box<Spec>),
        /// Of each dimension size, subsize and start.
        Subarray(Vec<(u64, u64, u64)>, Order, Box<Spec>),
        Structure(Vec<(u64, i64, Spec)>),
        Resized(i64, i64, Box<Spec>),
    }

    impl Spec {
        fn layout(&self) -> Layout {
            match self {
                Spec::Leaf(kind) => Ok(Layout::of_kind(*kind)),
                Spec::Contiguous(count, inner) => Layout::contiguous(*count, &inner.layout()),
                Spec::Vector(count, block, stride, inner) => Layout::vector(*count, *block, *stride, &inner.layout()),
                Spec::Hvector(count, block, stride, inner) => Layout::hvector(*count, *block, *stride, &inner.layout()),
                Spec::Indexed(blocks, inner) => Layout::indexed(blocks, &inner.layout()),
                Spec::Hindexed(blocks, inner) => Layout::hindexed(blocks, &inner.layout()),
                Spec::IndexedBlock(block, disps, inner) => Layout::indexed_block(*block, disps, &inner.layout()),
                Spec::HindexedBlock(block, disps, inner) => Layout::hindexed_block(*block, disps, &inner.layout()),
                Spec::Subarray(dimensions, order, inner) => {
                    let list = |pick: fn(&(u64, u64, u64)) -> u64| dimensions.iter().map(pick).collect::<Vec<_>>();
                    let (sizes, subsizes, starts) = (list(|d| d.0), list(|d| d.1), list(|d| d.2));
                    Layout::subarray(&sizes, &subsizes, &starts, *order, &inner.layout())
                }
                Spec::Structure(blocks) => {
                    let layouts: Vec<Layout> = blocks.iter().map(|(_, _, inner)| inner.layout()).collect();
                    let blocks = blocks.iter().zip(&layouts).map(|((count, disp, _), inner)| (*count, *disp, inner));
                    Layout::structure(&blocks.collect::<Vec<_>>())
                }
                Spec::Resized(lower, extent, inner) => inner.layout().resized(*lower, *extent),
            }
            .unwrap()
        }

        fn typemap(&self) -> Typemap {
            /// The typemaps of `inner` at displacements in bytes.
            fn at(inner: &Typemap, disps: impl IntoIterator<Item = i64>) -> Typemap {
                let mut all = Typemap::default();
                disps.into_iter().for_each(|disp| all.add(inner, disp));
                all
            }
            let blocks = |inner: &Spec, blocks: Vec<(u64, i64)>| {
                let inner = inner.typemap();
                let extent = inner.extent();
                at(&inner, blocks.iter().flat_map(|&(block, disp)| (0..block as i64).map(move |i| disp + i * extent)))
            };
            match self {
                Spec::Leaf(kind) => Typemap { entries: vec![(0, *kind)], marks: vec![] },
                Spec::Contiguous(count, inner) => blocks(inner, vec![(*count, 0)]),
                Spec::Vector(count, block, stride, inner) => {
                    let stride = stride * inner.typemap().extent();
                    blocks(inner, (0..*count as i64).map(|i| (*block, i * stride)).collect())
                }
                Spec::Hvector(count, block, stride, inner) => {
                    blocks(inner, (0..*count as i64).map(|i| (*block, i * stride)).collect())
                }
                Spec::Indexed(list, inner) => {
                    let extent = inner.typemap().extent();
                    blocks(inner, list.iter().map(|(block, disp)| (*block, disp * extent)).collect())
                }
                Spec::Hindexed(list, inner) => blocks(inner, list.clone()),
                Spec::IndexedBlock(block, disps, inner) => {
                    let extent = inner.typemap().extent();
                    blocks(inner, disps.iter().map(|disp| (*block, disp * extent)).collect())
                }
                Spec::HindexedBlock(block, disps, inner) => {
                    blocks(inner, disps.iter().map(|disp| (*block, *disp)).collect())
                }
                Spec::Subarray(dimensions, order, inner) => {
                    // Every element of the array in the order of memory; those that are inside in all dimensions stay.
                    let inner = inner.typemap();
                    let elements: u64 = dimensions.iter().map(|(size, ..)| size).product();
                    let inside = |element: &u64| {
                        let mut rest = *element;
                        let mut within = |&(size, subsize, start): &(u64, u64, u64)| {
                            let index = rest % size;
                            rest /= size;
                            (start..start + subsize).contains(&index)
                        };
                        match order {
                            Order::C => dimensions.iter().rev().all(&mut within),
                            Order::Fortran => dimensions.iter().all(&mut within),
                        }
                    };
                    let disps = (0..elements).filter(inside).map(|element| element as i64 * inner.extent());
                    let marks = vec![(0, elements as i64 * inner.extent())];
                    Typemap { entries: at(&inner, disps).entries, marks }
                }
                Spec::Structure(list) => {
                    let mut all = Typemap::default();
                    for (count, disp, inner) in list {
                        let inner = inner.typemap();
                        (0..*count as i64).for_each(|i| all.add(&inner, disp + i * inner.extent()));
                    }
                    all
                }
                Spec::Resized(lower, extent, inner) => {
                    Typemap { marks: vec![(*lower, lower + extent)], ..inner.typemap() }
                }
            }
        }
    }

    /// The standard's typemap: every element with its displacement, in order, and the markers of bounds.
    #[derive(Clone, Debug, Default)]
    struct Typemap {
        entries: Vec<(i64, Kind)>,
        marks: Vec<(i64, i64)>,
    }

    impl Typemap {
        fn add(&mut self, other: &Typemap, disp: i64) {
            self.entries.extend(other.entries.iter().map(|(at, kind)| (at + disp, *kind)));
            self.marks.extend(other.marks.iter().map(|(lower, upper)| (lower + disp, upper + disp)));
        }

        fn true_bounds(&self) -> (i64, i64) {
            let ends = self.entries.iter().map(|(at, kind)| at + kind.size() as i64);
            (self.entries.iter().map(|(at, _)| *at).min().unwrap_or(0), ends.max().unwrap_or(0))
        }

        fn bounds(&self) -> (i64, i64) {
            if self.marks.is_empty() {
                let (first, end) = self.true_bounds();
                let align = self.entries.iter().map(|(_, kind)| kind.align() as i64).max().unwrap_or(1);
                let over = (end - first).rem_euclid(align);
                (first, if over == 0 { end } else { end + align - over })
            } else {
                let (lowers, uppers) = (self.marks.iter().map(|m| m.0), self.marks.iter().map(|m| m.1));
                (lowers.min().unwrap(), uppers.max().unwrap())
            }
        }

        fn extent(&self) -> i64 {
            let (lower, upper) = self.bounds();
            upper - lower
        }

        /// The offset of every byte of `count` items, in order.
        fn bytes(&self, count: u64) -> Vec<i64> {
            let items = (0..count as i64).map(|item| item * self.extent());
            let entries = |start| self.entries.iter().map(move |(at, kind)| (start + at, kind.size() as i64));
            items.flat_map(entries).flat_map(|(at, size)| at..at + size).collect()
        }
    }

    fn kind() -> impl Strategy<Value = Kind> {
        (0..Kind::ALL.len()).prop_map(|i| Kind::ALL[i])
    }

    /// Layouts of up to some thousand bytes, whose leaves are from `kinds`.
    fn spec_of(kinds: impl Strategy<Value = Kind> + 'static) -> impl Strategy<Value = Spec> {
        let leaf = kinds.prop_map(Spec::Leaf);
        leaf.prop_recursive(5, 64, 3, |inner| {
            let boxed = || inner.clone().prop_map(Box::new);
            let count = || prop_oneof![1 => Just(0), 30 => 1_u64..4];
            let disp = || -9_i64..10;
            let (blocks, disps) = (|| vec((count(), disp()), 1..4), || vec(disp(), 1..4));
            let dimension = (1_u64..4, any::<u64>(), any::<u64>()).prop_map(|(size, subsize, start)| {
                // Rarely 0.
                let subsize = if subsize < u64::MAX / 30 { 0 } else { 1 + subsize % size };
                (size, subsize, start % (size - subsize + 1))
            });
            let order = prop_oneof![Just(Order::C), Just(Order::Fortran)];
            prop_oneof![
                4 => (count(), boxed()).prop_map(|(n, i)| Spec::Contiguous(n, i)),
                4 => (count(), count(), -3_i64..6, boxed()).prop_map(|(n, b, s, i)| Spec::Vector(n, b, s, i)),
                4 => (count(), count(), -30_i64..60, boxed()).prop_map(|(n, b, s, i)| Spec::Hvector(n, b, s, i)),
                4 => (blocks(), boxed()).prop_map(|(l, i)| Spec::Indexed(l, i)),
                4 => (blocks(), boxed()).prop_map(|(l, i)| Spec::Hindexed(l, i)),
                4 => (count(), disps(), boxed()).prop_map(|(b, l, i)| Spec::IndexedBlock(b, l, i)),
                4 => (count(), disps(), boxed()).prop_map(|(b, l, i)| Spec::HindexedBlock(b, l, i)),
                4 => (vec(dimension, 0..4), order, boxed()).prop_map(|(d, o, i)| Spec::Subarray(d, o, i)),
                8 => vec((count(), disp(), inner.clone()), 1..4).prop_map(Spec::Structure),
                1 => Just(Spec::Structure(vec![])),
                4 => (disp(), -20_i64..40, boxed()).prop_map(|(l, e, i)| Spec::Resized(l, e, i)),
            ]
        })
        .prop_filter("of a size that is quick to list", |spec| spec.layout().size() < 4096)
    }

    fn spec() -> impl Strategy<Value = Spec> {
        prop_oneof![spec_of(kind()), kind().prop_flat_map(|kind| spec_of(Just(kind)))]
    }

    /// Runs that are as long as they can be, from the offset of every byte.
    fn merged(bytes: &[i64]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for &offset in bytes {
            match runs.last_mut() {
                Some(run) if run.offset + run.bytes as i64 == offset => run.bytes += 1,
                _ => runs.push(Run { offset, bytes: 1 }),
            }
        }
        runs
    }

    fn gap(kind: Kind) -> Layout {
        Layout::of_kind(kind).resized(0, 2 * kind.size() as i64).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

        #[test]
        fn layouts_are_their_typemaps(spec in spec(), count in 0_u64..4) {
            let (layout, typemap) = (spec.layout(), spec.typemap());
            let bytes = typemap.bytes(count);
            prop_assert_eq!(layout.size(), typemap.bytes(1).len() as u64);
            prop_assert_eq!(layout.total(count), Ok(bytes.len() as u64));
            prop_assert_eq!((layout.lower_bound(), layout.extent()), (typemap.bounds().0, typemap.extent()));
            prop_assert_eq!(layout.true_bounds(), typemap.true_bounds());
            let ends = bytes.iter().min().zip(bytes.iter().max());
            prop_assert_eq!(layout.span(count), Ok(ends.map_or((0, 0), |(first, last)| (*first, last + 1))));
            let first = typemap.entries.first().map(|(_, kind)| *kind);
            let one = typemap.entries.iter().all(|(_, kind)| Some(*kind) == first);
            prop_assert_eq!(layout.kind(), first.filter(|_| one));
            prop_assert!(Kind::ALL.iter().all(|k| layout.is_all(*k) == typemap.entries.iter().all(|(_, e)| e == k)));
            let runs = merged(&bytes);
            prop_assert_eq!(layout.runs(count).unwrap().collect::<Vec<_>>(), runs.clone());
            let single = layout.as_run(count).unwrap();
            if let Some(run) = single {
                prop_assert_eq!(merged(&bytes), if run.bytes == 0 { vec![] } else { vec![run] });
            }
            prop_assert!(single.is_some() || runs.len() > 1);
            prop_assert_eq!(layout.is_contiguous(), merged(&typemap.bytes(3)).len() <= 1);
        }

        #[test]
        fn packed_data_come_back(spec in spec(), count in 0_u64..4) {
            // Moved so that it starts at the buffer's start, with its bounds.
            let (layout, typemap) = (spec.layout(), spec.typemap());
            let (first, end) = layout.span(count).unwrap();
            let moved = Layout::hindexed(&[(1, -first)], &layout).unwrap();
            let moved = moved.resized(0, layout.extent()).unwrap();
            let offsets: Vec<usize> = typemap.bytes(count).iter().map(|offset| (offset - first) as usize).collect();
            let buffer: Vec<u8> = (0..end - first).map(|i| (i % 251 + 1) as u8).collect();

            let mut packed = vec![9];
            moved.pack(count, &buffer, &mut packed).unwrap();
            prop_assert_eq!(&packed[1..], offsets.iter().map(|&at| buffer[at]).collect::<Vec<_>>());

            let data: Vec<u8> = (0..offsets.len()).map(|i| (i % 249 + 1) as u8).collect();
            let (mut target, mut expected) = (vec![0; buffer.len()], vec![0; buffer.len()]);
            moved.unpack(count, &data, &mut target).unwrap();
            offsets.iter().zip(&data).for_each(|(&at, &byte)| expected[at] = byte);
            prop_assert_eq!(&target, &expected);

            if !offsets.is_empty() {
                let longer = data.len() as u64;
                let mismatch = LayoutError::Mismatch { left: longer - 1, right: longer };
                prop_assert_eq!(moved.unpack(count, &data[1..], &mut target), Err(mismatch));
                let short = &buffer[1..];
                let out = LayoutError::OutOfBuffer { first: 0, end: end - first, buffer: short.len() as u64 };
                prop_assert_eq!(moved.pack(count, short, &mut packed), Err(out.clone()));
                prop_assert_eq!(moved.unpack(count, &data, &mut target[1..]), Err(out));
                let before = Layout::hindexed(&[(1, -first - 1)], &layout).unwrap();
                let before = before.resized(0, layout.extent()).unwrap();
                let out = matches!(before.pack(count, &buffer, &mut packed), Err(LayoutError::OutOfBuffer { first: -1, .. }));
                prop_assert!(out);
                prop_assert_eq!(&target, &expected);
                prop_assert_eq!(packed.len(), data.len() + 1);
            }
        }

        #[test]
        fn pairs_walk_both_in_order(
            (left, right) in prop_oneof![(spec(), spec()), kind().prop_flat_map(|k| (spec_of(Just(k)), spec_of(Just(k))))],
        ) {
            let (a, b) = (left.layout(), right.layout());
            let whole = gcd(a.size(), b.size()).max(1);
            // Equally many bytes, if both have data and not too many.
            let (a_count, b_count) = (b.size() / whole % 64, a.size() / whole % 64);
            let (a_bytes, b_bytes) = (left.typemap().bytes(a_count), right.typemap().bytes(b_count));
            let pieces = pair_runs(&a, a_count, &b, b_count);
            if a_bytes.len() != b_bytes.len() {
                let mismatch = LayoutError::Mismatch { left: a_bytes.len() as u64, right: b_bytes.len() as u64 };
                prop_assert_eq!(pieces.err(), Some(mismatch));
                return Ok(());
            }
            let mut expected: Vec<Piece> = Vec::new();
            for (&left, &right) in a_bytes.iter().zip(&b_bytes) {
                match expected.last_mut() {
                    Some(piece)
                        if (piece.left + piece.bytes as i64, piece.right + piece.bytes as i64) == (left, right) =>
                    {
                        piece.bytes += 1;
                    }
                    _ => expected.push(Piece { left, right, bytes: 1 }),
                }
            }
            prop_assert_eq!(pieces.unwrap().collect::<Vec<_>>(), expected);
            for kind in [a.kind(), b.kind(), Some(Kind::I64)].into_iter().flatten() {
                match pair_elements(&a, a_count, &b, b_count, kind.size()) {
                    Ok(mut pieces) => prop_assert!(pieces.all(|piece| piece.bytes.is_multiple_of(kind.size()))),
                    Err(_) => prop_assert!(!(a.is_all(kind) && b.is_all(kind))),
                }
            }
        }
    }

    #[test]
    fn bounds_as_in_c() {
        let (double, byte) = (Layout::of::<f64>(), Layout::of::<i8>());
        let structure = Layout::structure(&[(1, 0, &double), (1, 8, &byte)]).unwrap();
        assert_eq!((structure.size(), structure.extent(), structure.kind()), (9, 16, None));
        // What is set outweighs what follows from the data.
        let set = double.resized(-8, 32).unwrap();
        let structure = Layout::structure(&[(1, 8, &set), (1, 100, &byte)]).unwrap();
        assert_eq!((structure.lower_bound(), structure.extent(), structure.true_bounds()), (0, 32, (8, 101)));
        assert_eq!(Layout::contiguous(0, &double).unwrap().extent(), 0);
    }

    #[test]
    fn a_description_takes_memory_for_itself_only() {
        let million = Layout::vector(1 << 40, 1, 2, &Layout::of::<f64>()).unwrap();
        assert_eq!(million.body.parts, 1);
        let runs = million.runs(1).unwrap();
        assert_eq!(runs.stack.capacity(), 0);
        assert_eq!(runs.skip(2).step_by(1000).nth(1), Some(Run { offset: 1002 * 16, bytes: 8 }));
        // Rows of a vector continue each other: one level. A box of three dimensions: two.
        let all = Layout::contiguous(5, &gap(Kind::F64)).unwrap();
        assert_eq!(Layout::contiguous(3, &all).unwrap().body.parts, 1);
        let cube = Layout::subarray(&[9, 9, 9], &[3, 3, 3], &[1, 1, 1], Order::C, &Layout::of::<i32>()).unwrap();
        assert_eq!((cube.body.parts, cube.body.depth, cube.runs(1).unwrap().count()), (2, 2, 9));
        // Whole planes are a run each, and a whole array is one.
        let planes = Layout::subarray(&[9, 9, 9], &[3, 9, 9], &[1, 0, 0], Order::C, &Layout::of::<i32>()).unwrap();
        assert_eq!(planes.as_run(1), Ok(Some(Run { offset: 324, bytes: 972 })));
    }

    #[test]
    fn mixed_structures_are_no_whole_elements() {
        let (int, double) = (Layout::of::<i32>(), Layout::of::<f64>());
        let mixed = Layout::structure(&[(1, 0, &int), (1, 4, &double)]).unwrap();
        let doubles = Layout::contiguous(3, &double).unwrap();
        let refused = pair_elements(&mixed, 2, &doubles, 1, 8).err();
        assert_eq!(refused, Some(LayoutError::Elements { element: 8, grain: 4 }));
        assert_eq!(pair_elements(&mixed, 2, &doubles, 1, 4).unwrap().map(|piece| piece.bytes).sum::<u64>(), 24);
        assert_eq!(
            pair_elements(&mixed, 2, &doubles, 1, 0).err(),
            Some(LayoutError::Elements { element: 0, grain: 4 })
        );
        let pair = Layout::of::<Pair<f64, i64>>();
        assert_eq!(pair_elements(&pair, 1, &pair, 1, 16).unwrap().count(), 1);
    }

    #[test]
    fn overlapping_data_are_kept_in_order() {
        let twice = Layout::hindexed(&[(1, 0), (1, 0), (1, 1)], &Layout::of::<i16>()).unwrap();
        let mut target = [0; 3];
        twice.unpack(1, &[1, 2, 3, 4, 5, 6], &mut target).unwrap();
        assert_eq!(target, [3, 5, 6]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let overflow =
            |layout: Result<Layout>| assert!(matches!(layout, Err(LayoutError::Overflow { .. })), "{layout:?}");
        let (int, byte) = (Layout::of::<i32>(), Layout::of::<u8>());
        let top = i64::MAX as u64;
        overflow(Layout::contiguous(u64::MAX, &int));
        overflow(Layout::contiguous(top, &int));
        overflow(Layout::contiguous(top + 1, &byte));
        let longest = Layout::contiguous(top, &byte).unwrap();
        assert_eq!(longest.as_run(1), Ok(Some(Run { offset: 0, bytes: top })));
        assert!(longest.runs(2).is_err() && longest.span(2).is_err() && longest.total(3).is_err());
        overflow(Layout::vector(2, 1, i64::MAX, &int));
        overflow(Layout::hvector(u64::MAX, 1, i64::MIN, &int));
        overflow(Layout::hvector(3, 1, i64::MAX, &byte));
        // Any number of copies of the same bytes, as long as they can be counted.
        assert_eq!(Layout::hvector(u64::MAX, 1, 0, &byte).unwrap().size(), u64::MAX);
        overflow(Layout::hvector(u64::MAX, 2, 0, &byte));
        overflow(Layout::indexed(&[(1, i64::MIN)], &int));
        overflow(Layout::hindexed(&[(1, i64::MAX)], &int));
        overflow(Layout::hindexed(&[(1, i64::MIN), (1, i64::MAX - 8)], &byte));
        overflow(Layout::subarray(&[1 << 32, 1 << 32], &[1, 1], &[0, 0], Order::C, &byte));
        overflow(int.resized(i64::MAX, 1));
        assert_eq!(byte.resized(i64::MAX, -4).unwrap().lower_bound(), i64::MAX);
        let refused = Layout::subarray(&[4, 4], &[2, 2], &[0, 3], Order::C, &int);
        assert_eq!(refused, Err(LayoutError::Subarray { dimension: 1, size: 4, subsize: 2, start: 3 }));
        let refused = Layout::subarray(&[4, 4], &[2], &[0, 3], Order::Fortran, &int);
        assert_eq!(refused, Err(LayoutError::Dimensions { sizes: 2, subsizes: 1, starts: 2 }));
        let mut packed = Vec::new();
        let everything = Layout::hvector(u64::MAX, 1, 0, &byte).unwrap();
        assert_eq!(everything.pack(1, &[7], &mut packed), Err(LayoutError::OutOfMemory { bytes: u64::MAX }));
    }

    #[test]
    fn depth_and_parts_are_limited() {
        // Two parts each, so that the parts double from level to level.
        let double = |inner: &Layout| Layout::hindexed(&[(1, 0), (1, 1 << 40)], inner);
        let mut layout = Layout::of::<i8>();
        let error = loop {
            match double(&layout) {
                Ok(next) => layout = next,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LayoutError::TooComplex { parts, .. } if parts > MAX_PARTS), "{error}");
        // One part each, which does not fold.
        let mut layout = gap(Kind::I8);
        let mut levels = 0;
        let error = loop {
            match Layout::hvector(2, 1, 3 + levels, &layout) {
                Ok(next) => (layout, levels) = (next, levels + 1),
                Err(error) => break error,
            }
        };
        assert_eq!(levels, i64::from(MAX_DEPTH) - 1, "{error}");
    }
}
