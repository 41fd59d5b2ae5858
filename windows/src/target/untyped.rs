//! Accumulates whose element type is known only at run time, for callers of [`RawWindow`](crate::RawWindow).
//!
//! They have the effect of the typed forms, and are atomic against them. Buffers are bytes of any alignment.

use rmalab_atomics::RemoteAtomics;

use super::Target;
use crate::element::{from_word, to_word};
use crate::{Call, ElementKind, Error, Items, Op, Request, Result, WindowDisp, WithRequests};

impl<'e, A: RemoteAtomics + ?Sized, P> Target<'e, A, P> {
    /// Like [`accumulate`](Self::accumulate), for elements of type `kind`.
    ///
    /// # Errors
    ///
    /// [`Error::Elements`] when `source` is not a whole number of elements, and the errors of
    /// [`accumulate`](Self::accumulate).
    pub fn accumulate_untyped(&self, disp: WindowDisp, kind: ElementKind, op: Op, source: &[u8]) -> Result<()> {
        self.check_elements(Call::Accumulate, kind, source.len())?;
        self.accumulate_elsewise(disp, kind, op, source)
    }

    /// Like [`get_accumulate`](Self::get_accumulate), for elements of type `kind`. For one element it is
    /// [`fetch_and_op`](Self::fetch_and_op).
    ///
    /// # Errors
    ///
    /// [`Error::Elements`] when `result` is not a whole number of elements, and the errors of
    /// [`get_accumulate`](Self::get_accumulate).
    pub fn get_accumulate_untyped(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        self.check_elements(Call::GetAccumulate, kind, result.len())?;
        self.get_accumulate_elsewise(disp, kind, op, source, result)
    }

    /// Like [`fetch_and_op`](Self::fetch_and_op), for an element of type `kind`.
    pub(crate) fn fetch_and_op_untyped(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        op: Op,
        value: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        for len in [value.len(), result.len()] {
            self.check_element(Call::FetchAndOp, kind, len)?;
        }
        self.fetch_and_op_elsewise(disp, kind, op, value, result)
    }

    /// Like [`compare_and_swap`](Self::compare_and_swap), for an element of type `kind`. `result` gets its old value.
    ///
    /// # Errors
    ///
    /// [`Error::Elements`] when a buffer is not one element, [`Error::Swap`] when elements of this type cannot be swapped,
    /// and the errors of [`compare_and_swap`](Self::compare_and_swap).
    pub fn compare_and_swap_untyped(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        expected: &[u8],
        desired: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        if !kind.is_swappable() {
            return Err(self.core.hear(Error::Swap { kind }));
        }
        for len in [expected.len(), desired.len(), result.len()] {
            self.check_element(Call::CompareAndSwap, kind, len)?;
        }
        let (expected, desired) = (to_word(expected), to_word(desired));
        from_word(self.compare_and_swap_elsewise(disp, kind, expected, desired)?, result);
        Ok(())
    }

    /// Like [`accumulate_layout`](Self::accumulate_layout), for elements of type `kind`.
    ///
    /// # Errors
    ///
    /// The errors of the typed form.
    pub fn accumulate_layout_untyped(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        origin: Items<'_>,
    ) -> Result<()> {
        self.defined(Call::Accumulate, kind, op)?;
        let done = self.update_layout(Call::Accumulate, disp, target, kind, op, source, origin, None);
        done.map_err(|error| self.core.hear(error))
    }

    /// Like [`get_accumulate_layout`](Self::get_accumulate_layout), for elements of type `kind`.
    ///
    /// # Errors
    ///
    /// The errors of the typed form.
    #[expect(clippy::too_many_arguments, reason = "three ends with a layout each")]
    pub fn get_accumulate_layout_untyped(
        &self,
        disp: WindowDisp,
        target: Items<'_>,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        origin: Items<'_>,
        result: &mut [u8],
        results: Items<'_>,
    ) -> Result<()> {
        self.defined(Call::GetAccumulate, kind, op)?;
        // With no_op the origin is ignored, and the result's items replace it.
        let origin = if op == Op::NoOp { results } else { origin };
        let results = Some((result, results));
        let done = self.update_layout(Call::GetAccumulate, disp, target, kind, op, source, origin, results);
        done.map_err(|error| self.core.hear(error))
    }

    /// Like [`raccumulate`](Self::raccumulate), for elements of type `kind`.
    ///
    /// # Errors
    ///
    /// The errors of [`accumulate_untyped`](Self::accumulate_untyped); an error drops the buffer.
    pub fn raccumulate_untyped(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        op: Op,
        source: Vec<u8>,
    ) -> Result<Request<'e, A, u8>>
    where
        P: WithRequests,
    {
        self.accumulate_untyped(disp, kind, op, &source)?;
        Ok(Request::done(source))
    }

    /// Like [`rget_accumulate`](Self::rget_accumulate), for elements of type `kind`.
    ///
    /// # Errors
    ///
    /// The errors of [`get_accumulate_untyped`](Self::get_accumulate_untyped); an error drops the buffer.
    pub fn rget_accumulate_untyped(
        &self,
        disp: WindowDisp,
        kind: ElementKind,
        op: Op,
        source: &[u8],
        mut result: Vec<u8>,
    ) -> Result<Request<'e, A, u8>>
    where
        P: WithRequests,
    {
        self.get_accumulate_untyped(disp, kind, op, source, &mut result)?;
        Ok(Request::done(result))
    }

    fn check_element(&self, call: Call, kind: ElementKind, len: usize) -> Result<()> {
        let (size, len) = (kind.size(), len as u64);
        if len == size { Ok(()) } else { Err(self.core.hear(Error::Elements { call, kind, size, len })) }
    }

    fn check_elements(&self, call: Call, kind: ElementKind, len: usize) -> Result<()> {
        let (size, len) = (kind.size(), len as u64);
        if len.is_multiple_of(size) { Ok(()) } else { Err(self.core.hear(Error::Elements { call, kind, size, len })) }
    }
}
