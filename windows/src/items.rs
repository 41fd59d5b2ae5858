//! A number of items of a layout, one after the other: one end of an operation.

use crate::layout::{PairRuns, pair_elements, pair_runs};
use crate::{ElementKind, Layout, LayoutError};

/// `count` items of a layout, at multiples of its extent, like a count and a datatype in MPI's calls.
///
/// ```
/// use rmalab_windows::Layout;
///
/// // Every third of the numbers of a matrix with rows of 3: its first column.
/// let column = Layout::vector(4, 1, 3, &Layout::of::<f64>())?;
/// assert_eq!(column.items(2).bytes()?, 2 * 4 * 8);
/// # Ok::<(), rmalab_windows::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Items<'l> {
    layout: &'l Layout,
    count: u64,
}

impl Layout {
    /// Makes `count` items of this layout.
    pub fn items(&self, count: u64) -> Items<'_> {
        Items { layout: self, count }
    }

    /// Makes one item of this layout.
    pub fn item(&self) -> Items<'_> {
        self.items(1)
    }
}

impl<'l> Items<'l> {
    /// Returns the layout of each item.
    pub fn layout(self) -> &'l Layout {
        self.layout
    }

    /// Returns the number of items.
    pub fn count(self) -> u64 {
        self.count
    }

    /// Returns the number of bytes of data in all items.
    ///
    /// # Errors
    ///
    /// [`LayoutError::Overflow`].
    pub fn bytes(self) -> Result<u64, LayoutError> {
        self.layout.total(self.count)
    }

    /// Returns the first byte, and the number of bytes from there to the end of the last one.
    pub(crate) fn reach(self) -> Result<(i64, u64), LayoutError> {
        let (first, end) = self.layout.span(self.count)?;
        Ok((first, end.abs_diff(first)))
    }

    pub(crate) fn pair(self, other: Items<'l>) -> Result<PairRuns<'l>, LayoutError> {
        pair_runs(self.layout, self.count, other.layout, other.count)
    }

    /// Like [`pair`](Self::pair), in whole elements of this kind.
    pub(crate) fn pair_elements(self, other: Items<'l>, kind: ElementKind) -> Result<PairRuns<'l>, LayoutError> {
        pair_elements(self.layout, self.count, other.layout, other.count, kind.size())
    }

    /// Checks that all items are within a buffer of `bytes` bytes.
    pub(crate) fn check(self, bytes: usize) -> Result<(), LayoutError> {
        self.layout.check_buffer(self.count, bytes)
    }

    /// Returns the name of the element type, if it is not this kind.
    pub(crate) fn other_than(self, kind: ElementKind) -> Option<String> {
        if self.layout.is_all(kind) {
            return None;
        }
        Some(self.layout.kind().map_or("several types".to_owned(), |kind| kind.to_string()))
    }

    /// Returns the bytes of all items in `source`, without gaps.
    pub(crate) fn pack(self, source: &[u8]) -> Result<Vec<u8>, LayoutError> {
        let mut packed = Vec::new();
        self.layout.pack(self.count, source, &mut packed)?;
        Ok(packed)
    }

    /// Spreads packed bytes over all items in `target`.
    pub(crate) fn unpack(self, packed: &[u8], target: &mut [u8]) -> Result<(), LayoutError> {
        self.layout.unpack(self.count, packed, target)
    }
}
