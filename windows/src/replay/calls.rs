//! The operations of a replay, alone and in batches.

use std::time::Duration;

use rmalab_atomics::{Rank, RemoteAtomics, WORD};
use rmalab_locks::WindowLock;

use super::memory::Moved;
use super::step::{Step, Update};

use crate::{Active, Call, Complex, Error, Kind, Op, RawWindow, Result, Target, WindowDisp};

/// The most bytes that operations of one batch get while they overlap each other. Those that come then do not overlap.
pub const BATCH: u64 = 64 << 20;

/// The buffers of the operations.
#[derive(Default, Debug)]
pub(super) struct Calls {
    /// Bytes of the window's largest part.
    largest: u64,
    /// Zeros, of which all puts and updates are made.
    zeros: Vec<u64>,
    /// What a get or an update reads.
    read: Vec<u64>,
    /// What a batch reads.
    batched: Vec<u64>,
}

/// Words that hold this many bytes.
fn words(bytes: u64) -> usize {
    bytes.div_ceil(WORD) as usize
}

fn grow(buffer: &mut Vec<u64>, bytes: u64) {
    if buffer.len() < words(bytes) {
        buffer.resize(words(bytes), 0);
    }
}

/// The first bytes of a buffer that is long enough.
fn bytes_of(buffer: &[u64], bytes: u64) -> &[u8] {
    &bytemuck::cast_slice(buffer)[..bytes as usize]
}

fn bytes_of_mut(buffer: &mut [u64], bytes: u64) -> &mut [u8] {
    &mut bytemuck::cast_slice_mut(buffer)[..bytes as usize]
}

/// The elements that this many bytes are updated as.
fn element(bytes: u64) -> Kind {
    match bytes {
        _ if bytes.is_multiple_of(8) => Kind::U64,
        _ if bytes.is_multiple_of(4) => Kind::U32,
        _ if bytes.is_multiple_of(2) => Kind::U16,
        _ => Kind::U8,
    }
}

/// The call that a step is, where, and how many bytes it moves, if it is an operation.
fn operation(step: &Step) -> Option<(Call, Rank, WindowDisp, u64)> {
    match *step {
        Step::Put { target, disp, bytes } => Some((Call::Put, target, disp, bytes)),
        Step::Get { target, disp, bytes } => Some((Call::Get, target, disp, bytes)),
        Step::Update { call, target, disp, bytes } => {
            let call = match call {
                Update::Accumulate => Call::Accumulate,
                Update::GetAccumulate => Call::GetAccumulate,
                Update::FetchAndOp => Call::FetchAndOp,
                Update::CompareAndSwap => Call::CompareAndSwap,
            };
            Some((call, target, disp, bytes))
        }
        _ => None,
    }
}

/// Bytes of a batch's buffer that a step reads into. It overlaps others if there are some, or if it is a put.
fn batched(step: &Step) -> u64 {
    match operation(step) {
        Some((Call::Get, .., bytes)) => bytes.next_multiple_of(WORD),
        Some((Call::FetchAndOp | Call::CompareAndSwap, .., WORD)) => WORD,
        Some((Call::GetAccumulate, .., bytes)) if bytes.is_multiple_of(WORD) => bytes,
        _ => 0,
    }
}

impl Calls {
    /// Operations on a window whose largest part has this many bytes.
    pub(super) fn new(largest: u64) -> Calls {
        Calls { largest, ..Calls::default() }
    }

    /// Refuses more bytes than any part of the window has, before there are buffers for them.
    fn check(&self, step: &Step) -> Result<()> {
        match operation(step) {
            Some((call, target, disp, len)) if len > self.largest => {
                Err(Error::OutOfWindow { call, target, disp, unit: 1, len, bytes: self.largest })
            }
            _ => Ok(()),
        }
    }

    /// Does a step that is computation or an operation.
    pub(super) fn operate<A: RemoteAtomics + ?Sized, W: WindowLock>(
        &mut self,
        window: &RawWindow<'_, A, W>,
        moved: &Moved,
        step: &Step,
    ) -> Result<()> {
        if let &Step::Compute(ns) = step {
            return Ok(window.ra.compute(Duration::from_nanos(ns))?);
        }
        let Some((call, target, disp, bytes)) = operation(step) else { return Ok(()) };
        self.check(step)?;
        let disp = moved.find(target, disp);
        window.operate(call, target, |target| match call {
            Call::Put => {
                grow(&mut self.zeros, bytes);
                target.put(disp, bytes_of(&self.zeros, bytes))
            }
            Call::Get => {
                grow(&mut self.read, bytes);
                target.get(disp, bytes_of_mut(&mut self.read, bytes))
            }
            _ => self.update(target, call, disp, bytes),
        })
    }

    fn update<A: RemoteAtomics + ?Sized>(
        &mut self,
        target: &Target<'_, A, Active>,
        call: Call,
        disp: WindowDisp,
        bytes: u64,
    ) -> Result<()> {
        let complex = Complex { re: 0f64, im: 0f64 };
        match (call, bytes) {
            (Call::FetchAndOp, 1) => return target.fetch_and_op(disp, Op::Sum, 0u8).map(drop),
            (Call::FetchAndOp, 2) => return target.fetch_and_op(disp, Op::Sum, 0u16).map(drop),
            (Call::FetchAndOp, 4) => return target.fetch_and_op(disp, Op::Sum, 0u32).map(drop),
            (Call::FetchAndOp, 8) => return target.fetch_and_op(disp, Op::Sum, 0u64).map(drop),
            (Call::FetchAndOp, 16) => return target.fetch_and_op(disp, Op::Sum, complex).map(drop),
            (Call::CompareAndSwap, 1) => return target.compare_and_swap(disp, 0u8, 0).map(drop),
            (Call::CompareAndSwap, 2) => return target.compare_and_swap(disp, 0u16, 0).map(drop),
            (Call::CompareAndSwap, 4) => return target.compare_and_swap(disp, 0u32, 0).map(drop),
            (Call::CompareAndSwap, 8) => return target.compare_and_swap(disp, 0u64, 0).map(drop),
            _ => {}
        }
        grow(&mut self.zeros, bytes);
        let zeros = bytes_of(&self.zeros, bytes);
        if call == Call::Accumulate {
            return target.accumulate_untyped(disp, element(bytes), Op::Sum, zeros);
        }
        grow(&mut self.read, bytes);
        target.get_accumulate_untyped(disp, element(bytes), Op::Sum, zeros, bytes_of_mut(&mut self.read, bytes))
    }

    /// Does operations that overlap each other.
    pub(super) fn batch<A: RemoteAtomics + ?Sized, W: WindowLock>(
        &mut self,
        window: &RawWindow<'_, A, W>,
        moved: &Moved,
        steps: &[Step],
    ) -> Result<()> {
        let (mut longest, mut total) = (0, 0);
        let mut overlapping = Vec::with_capacity(steps.len());
        for step in steps {
            self.check(step)?;
            let (bytes, reads) = (operation(step).map_or(0, |(.., bytes)| bytes), batched(step));
            let overlaps = matches!(step, Step::Put { .. }) || reads > 0 && reads <= BATCH - total;
            if overlaps {
                longest = longest.max(bytes);
                total += reads;
            }
            overlapping.push(overlaps);
        }
        grow(&mut self.zeros, longest);
        grow(&mut self.batched, total);
        let mut others = Calls::new(self.largest);
        let zeros = &self.zeros[..];
        let mut rest = &mut self.batched[..];
        window.batch(|batch| {
            for (step, overlaps) in steps.iter().zip(overlapping) {
                let Some((call, target, disp, bytes)) = operation(step).filter(|_| overlaps) else {
                    others.operate(window, moved, step)?;
                    continue;
                };
                let disp = moved.find(target, disp);
                let (into, after) = std::mem::take(&mut rest).split_at_mut(words(batched(step)));
                rest = after;
                window.operate(call, target, |target| match (call, into) {
                    (Call::Put, _) => batch.put(target, disp, bytes_of(zeros, bytes)),
                    (Call::Get, into) => batch.get(target, disp, bytes_of_mut(into, bytes)),
                    (Call::FetchAndOp, [old]) => batch.fetch_and_op(target, disp, Op::Sum, 0, old),
                    (Call::CompareAndSwap, [old]) => batch.compare_and_swap(target, disp, 0, 0, old),
                    (_, into) => batch.get_accumulate(target, disp, Op::Sum, &zeros[..into.len()], into),
                })?;
            }
            Ok(())
        })
    }
}
