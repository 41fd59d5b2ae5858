//! The runs of a layout, one after the other.

use super::error::{LayoutError, Result};
use super::tree::{Layout, RepeatedShape, Run, Shape};

impl Layout {
    /// Returns the run of `count` items if they are one run, without making an iterator. The run has 0 bytes if there
    /// are no data.
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

    /// Returns the runs of `count` items at multiples of the extent, in the layout's order. Successive runs that touch
    /// are one run. If the layout has bytes twice, the iterator returns them twice.
    ///
    /// # Errors
    ///
    /// [`Overflow`](LayoutError::Overflow) if an offset needs more than 63 bits, or the size more than 64.
    #[inline]
    pub fn runs(&self, count: u64) -> Result<Runs<'_>> {
        let mut runs = Runs { stack: Vec::new(), leaf: Leaf::default(), ahead: Run { offset: 0, bytes: 0 } };
        match self.as_run(count)? {
            Some(run) => runs.ahead = run,
            None => runs.enter(&self.body.shape, 0, count, self.extent()),
        }
        Ok(runs)
    }
}

/// The runs of a layout; see [`Layout::runs`].
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    /// The lists that contain the current position, the innermost last.
    pub(super) stack: Vec<Frame<'a>>,
    leaf: Leaf,
    /// The next run, which may still grow. It has 0 bytes when there is none yet.
    ahead: Run,
}

/// Copies of a list of parts: part `next` of the copy at `base` is next, and `left` copies are left, including this
/// one.
#[derive(Clone, Debug)]
pub(super) struct Frame<'a> {
    parts: &'a [RepeatedShape],
    next: usize,
    base: i64,
    left: u64,
    stride: i64,
}

/// The copies of a run that are left: `left` copies, the first at `run`.
#[derive(Clone, Copy, Debug, Default)]
struct Leaf {
    offset: i64,
    bytes: u64,
    left: u64,
    stride: i64,
}

impl<'a> Runs<'a> {
    /// Moves to `count` (not 0) copies of a shape. By invariant I1, sums may wrap.
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

    /// Returns the next run, not yet merged with the following runs.
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
                // This stays within 64 bits, since the size of the whole layout does (I1).
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
