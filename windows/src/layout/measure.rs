//! Sizes, bounds and kinds of layouts.

use super::error::{LayoutError, Result};
use super::tree::{Kinds, Layout, Shape, narrow, reach};
use crate::ElementKind;

impl Layout {
    /// Returns `count` extents in bytes.
    pub(super) fn times(&self, count: i128) -> Result<i64> {
        narrow(count * i128::from(self.extent()), "displacement")
    }

    /// Returns the number of bytes of data of one item (`MPI_Type_size`).
    #[inline]
    pub fn size(&self) -> u64 {
        self.body.size
    }

    /// Returns the number of bytes of data of `count` items.
    ///
    /// # Errors
    ///
    /// [`Overflow`](LayoutError::Overflow).
    #[inline]
    pub fn total(&self, count: u64) -> Result<u64> {
        self.body.size.checked_mul(count).ok_or(LayoutError::Overflow { what: "size" })
    }

    /// Returns the bytes from one item to the next: the upper bound − the lower bound (`MPI_Type_get_extent`).
    #[inline]
    pub fn extent(&self) -> i64 {
        self.upper - self.lower
    }

    /// Returns the lower bound: the offset of the first byte, unless it was set (`MPI_Type_get_extent`).
    #[inline]
    pub fn lower_bound(&self) -> i64 {
        self.lower
    }

    /// Returns the offset of the first byte of data and one past the last, or (0, 0) without data
    /// (`MPI_Type_get_true_extent` returns the first and the distance).
    #[inline]
    pub fn true_bounds(&self) -> (i64, i64) {
        (self.body.first, self.body.end)
    }

    /// Like [`true_bounds`](Self::true_bounds), for `count` items.
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

    /// Returns the kind of all elements; `None` if they differ, or if there are no elements (the size is 0).
    #[inline]
    pub fn kind(&self) -> Option<ElementKind> {
        match self.kinds {
            Kinds::One(kind) => Some(kind),
            Kinds::None | Kinds::Mixed => None,
        }
    }

    /// Returns whether all elements are of `kind`, which is true if there are none.
    #[inline]
    pub fn is_all(&self, kind: ElementKind) -> bool {
        self.kinds == Kinds::None || self.kinds == Kinds::One(kind)
    }

    /// Returns whether any number of items is one run, without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.body.size == 0
            || matches!(self.body.shape, Shape::Run(_)) && i128::from(self.extent()) == i128::from(self.body.size)
    }

    /// Checks that all runs are whole elements of `element` bytes, by the sizes of the layout's own elements.
    ///
    /// # Errors
    ///
    /// [`Elements`](LayoutError::Elements).
    pub(super) fn whole(&self, element: u64) -> Result<()> {
        if self.grain.checked_rem(element) != Some(0) {
            return Err(LayoutError::Elements { element, grain: self.grain });
        }
        Ok(())
    }
}
