//! Packing data, and checking buffers.

use super::error::{LayoutError, Result};
use super::tree::Layout;

impl Layout {
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

    /// Spreads packed data over `count` items in `target`. If the layout has a byte twice, its last value stays.
    ///
    /// # Errors
    ///
    /// [`Mismatch`](LayoutError::Mismatch) if the length of `packed` is not the size of the items,
    /// [`OutOfBuffer`](LayoutError::OutOfBuffer) and [`Overflow`](LayoutError::Overflow); nothing is written.
    pub fn unpack(&self, count: u64, packed: &[u8], target: &mut [u8]) -> Result<()> {
        self.check_buffer(count, target.len())?;
        let (left, right) = (packed.len() as u64, self.total(count)?);
        if left != right {
            return Err(LayoutError::Mismatch { left, right });
        }
        let mut rest = packed;
        for run in self.runs(count)? {
            // By the check above, `packed` has as many bytes as all runs together.
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
