//! The constructors of layouts, which follow MPI's.

use super::error::{LayoutError, Result};
use super::tree::{Body, Kinds, Layout, Run, Shape, gcd, narrow, reach};
use crate::{Element, ElementKind};

/// The order of an array's elements in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Row-major: the last dimension's elements are neighbours (`MPI_ORDER_C`).
    C,
    /// Column-major: the first dimension's elements are neighbours (`MPI_ORDER_FORTRAN`).
    Fortran,
}

impl Layout {
    /// One element.
    pub fn of<T: Element>() -> Layout {
        Layout::of_kind(T::KIND)
    }

    /// Makes one element of a kind that is known only at run time.
    pub fn of_kind(kind: ElementKind) -> Layout {
        let (size, align) = (kind.size(), kind.align());
        let end = size as i64;
        let shape = Shape::Run(Run { offset: 0, bytes: size });
        let body = Body { shape, size, first: 0, end, depth: 0, parts: 0 };
        Layout { body, lower: 0, upper: end, marked: false, kinds: Kinds::One(kind), grain: size, align }
    }

    /// Makes `count` copies of `inner`, one after the other (`MPI_Type_contiguous`).
    ///
    /// # Errors
    ///
    /// The errors of all constructors: [`Overflow`](LayoutError::Overflow) and [`TooComplex`](LayoutError::TooComplex).
    pub fn contiguous(count: u64, inner: &Layout) -> Result<Layout> {
        Layout::build(std::iter::once(Ok((0, count, inner.extent(), inner))))
    }

    /// Makes `count` blocks of `block` copies of `inner`, which start `stride` extents of `inner` apart
    /// (`MPI_Type_vector`).
    ///
    /// # Errors
    ///
    /// The errors of [`contiguous`](Self::contiguous).
    pub fn vector(count: u64, block: u64, stride: i64, inner: &Layout) -> Result<Layout> {
        Layout::hvector(count, block, inner.times(i128::from(stride))?, inner)
    }

    /// Makes `count` blocks of `block` copies of `inner`, which start `stride` bytes apart (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    ///
    /// The errors of [`contiguous`](Self::contiguous).
    pub fn hvector(count: u64, block: u64, stride: i64, inner: &Layout) -> Result<Layout> {
        let block = Layout::contiguous(block, inner)?;
        Layout::build(std::iter::once(Ok((0, count, stride, &block))))
    }

    /// Makes blocks (number of `inner`, displacement in extents of `inner`), in the given order (`MPI_Type_indexed`).
    ///
    /// # Errors
    ///
    /// The errors of [`contiguous`](Self::contiguous).
    pub fn indexed(blocks: &[(u64, i64)], inner: &Layout) -> Result<Layout> {
        let copies = |&(block, disp): &(u64, i64)| Ok((inner.times(i128::from(disp))?, block, inner.extent(), inner));
        Layout::build(blocks.iter().map(copies))
    }

    /// Makes blocks (number of `inner`, displacement in bytes), in the given order (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    ///
    /// The errors of [`contiguous`](Self::contiguous).
    pub fn hindexed(blocks: &[(u64, i64)], inner: &Layout) -> Result<Layout> {
        Layout::build(blocks.iter().map(|&(block, disp)| Ok((disp, block, inner.extent(), inner))))
    }

    /// Makes blocks of `block` copies of `inner` each, at displacements in extents of `inner`
    /// (`MPI_Type_create_indexed_block`).
    ///
    /// # Errors
    ///
    /// The errors of [`contiguous`](Self::contiguous).
    pub fn indexed_block(block: u64, disps: &[i64], inner: &Layout) -> Result<Layout> {
        let copies = |&disp: &i64| Ok((inner.times(i128::from(disp))?, block, inner.extent(), inner));
        Layout::build(disps.iter().map(copies))
    }

    /// Makes blocks of `block` copies of `inner` each, at displacements in bytes (`MPI_Type_create_hindexed_block`).
    ///
    /// # Errors
    ///
    /// The errors of [`contiguous`](Self::contiguous).
    pub fn hindexed_block(block: u64, disps: &[i64], inner: &Layout) -> Result<Layout> {
        Layout::build(disps.iter().map(|&disp| Ok((disp, block, inner.extent(), inner))))
    }

    /// Makes a box of `subsizes` elements that starts at `starts` in an array of `sizes` elements, each an `inner`
    /// (`MPI_Type_create_subarray`).
    ///
    /// The data are in the order of the array's memory, and the layout has the bounds of the whole array. A subsize of
    /// 0 gives an empty layout, although the standard has no such boxes.
    ///
    /// # Errors
    ///
    /// [`Dimensions`](LayoutError::Dimensions) if the lists differ in length, [`Subarray`](LayoutError::Subarray) if
    /// the box reaches outside of the array, and the errors of [`contiguous`](Self::contiguous).
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

    /// Makes blocks (count, displacement in bytes, layout), in the given order (`MPI_Type_create_struct`).
    ///
    /// As in C, the extent is rounded up to a multiple of the largest alignment of an element. If
    /// [`resized`](Self::resized) or [`subarray`](Self::subarray) set a block's own bounds, only such bounds count
    /// instead.
    ///
    /// # Errors
    ///
    /// The errors of [`contiguous`](Self::contiguous).
    pub fn structure(blocks: &[(u64, i64, &Layout)]) -> Result<Layout> {
        Layout::build(blocks.iter().map(|&(block, disp, inner)| Ok((disp, block, inner.extent(), inner))))
    }

    /// Makes a layout of the same data with other bounds, in bytes (`MPI_Type_create_resized`).
    ///
    /// # Errors
    ///
    /// [`Overflow`](LayoutError::Overflow) if the upper bound is not within 63 bits.
    pub fn resized(&self, lower: i64, extent: i64) -> Result<Layout> {
        let upper = lower.checked_add(extent).ok_or(LayoutError::Overflow { what: "extent" })?;
        Ok(Layout { lower, upper, marked: true, ..self.clone() })
    }

    /// Makes the layout of copies of other layouts, one after the other: (offset, count, stride, layout).
    pub(super) fn build<'l>(copies: impl Iterator<Item = Result<(i64, u64, i64, &'l Layout)>>) -> Result<Layout> {
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

    /// Makes a layout with the bounds `marks`, or with the data's own bounds if there are no marks.
    pub(super) fn bounded(
        body: Body,
        marks: Option<(i64, i64)>,
        kinds: Kinds,
        grain: u64,
        align: u64,
    ) -> Result<Layout> {
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
}
