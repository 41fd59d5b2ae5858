//! The operations of a replay, alone and in batches.

use std::time::Duration;

use rmalab_atomics::{Rank, RemoteAtomics, WORD};
use rmalab_locks::WindowLock;

use super::memory::Moved;
use super::step::{Step, Update};

use crate::{Active, Batch, Call, ElementKind, Error, RawWindow, Result, Target, WindowDisp};

/// The largest number of bytes that overlapping operations of one batch read. Later operations of the batch do not
/// overlap.
pub const BATCH: u64 = 64 << 20;

/// The buffers of the operations.
#[derive(Default, Debug)]
pub(super) struct Calls {
    /// Bytes of the window's largest part.
    largest: u64,
    /// Zeros, the data of all puts and updates.
    zeros: Vec<u64>,
    /// The buffer for the values that a get or an update reads.
    read: Vec<u64>,
    /// The buffer for the values that a batch reads.
    batched: Vec<u64>,
}

/// Returns the number of words that contain this many bytes.
fn words(bytes: u64) -> usize {
    bytes.div_ceil(WORD) as usize
}

fn grow(buffer: &mut Vec<u64>, bytes: u64) {
    if buffer.len() < words(bytes) {
        buffer.resize(words(bytes), 0);
    }
}

/// Returns the first bytes of a buffer, which is long enough.
fn bytes_of(buffer: &[u64], bytes: u64) -> &[u8] {
    &bytemuck::cast_slice(buffer)[..bytes as usize]
}

fn bytes_of_mut(buffer: &mut [u64], bytes: u64) -> &mut [u8] {
    &mut bytemuck::cast_slice_mut(buffer)[..bytes as usize]
}

/// Returns the call, target, displacement and bytes of a step that is an operation.
fn operation(step: &Step) -> Option<(Call, Rank, WindowDisp, u64)> {
    match *step {
        Step::Put { target, disp, bytes } => Some((Call::Put, target, disp, bytes)),
        Step::Get { target, disp, bytes } => Some((Call::Get, target, disp, bytes)),
        Step::Update { call, target, disp, bytes } => {
            let call = match call {
                Update::Accumulate(..) => Call::Accumulate,
                Update::GetAccumulate(..) => Call::GetAccumulate,
                Update::FetchAndOp(..) => Call::FetchAndOp,
                Update::CompareAndSwap(_) => Call::CompareAndSwap,
            };
            Some((call, target, disp, bytes))
        }
        _ => None,
    }
}

/// Returns the number of bytes of a batch's buffer into which a step reads. A step overlaps others if it reads any, or
/// if it is a put.
fn batched(step: &Step) -> u64 {
    match operation(step) {
        Some((Call::Get, .., bytes)) => bytes.next_multiple_of(WORD),
        Some((Call::FetchAndOp | Call::CompareAndSwap, .., WORD)) => WORD,
        Some((Call::GetAccumulate, .., bytes)) if bytes.is_multiple_of(WORD) => bytes,
        _ => 0,
    }
}

impl Calls {
    /// Makes the operations on a window whose largest part has this many bytes.
    pub(super) fn new(largest: u64) -> Calls {
        Calls { largest, ..Calls::default() }
    }

    /// Refuses more bytes than any part of the window has, before buffers are made for them.
    fn check(&self, step: &Step) -> Result<()> {
        match operation(step) {
            Some((call, target, disp, len)) if len > self.largest => {
                Err(Error::OutOfWindow { call, target, disp, unit: 1, len, bytes: self.largest })
            }
            _ => Ok(()),
        }
    }

    /// Executes a step that is computation or an operation.
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
        let (zeros, read) = (&mut self.zeros, &mut self.read);
        if !matches!(step, Step::Get { .. }) {
            grow(zeros, bytes);
        }
        if !matches!(step, Step::Put { .. }) {
            grow(read, bytes);
        }
        window.operate(call, target, |target| match *step {
            Step::Get { .. } => target.get(disp, bytes_of_mut(read, bytes)),
            Step::Update { call, .. } => update(target, call, disp, bytes_of(zeros, bytes), bytes_of_mut(read, bytes)),
            _ => target.put(disp, bytes_of(zeros, bytes)),
        })
    }

    /// Executes operations that overlap each other.
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
                window.operate(call, target, |target| match (step, into) {
                    (Step::Get { .. }, into) => batch.get(target, disp, bytes_of_mut(into, bytes)),
                    (&Step::Update { call, .. }, into) => overlapping_update(batch, target, call, disp, zeros, into),
                    _ => batch.put(target, disp, bytes_of(zeros, bytes)),
                })?;
            }
            Ok(())
        })
    }
}

/// Updates the elements at `disp` with zeros. Their old values go to `read`.
fn update<A: RemoteAtomics + ?Sized>(
    target: &Target<'_, A, Active>,
    update: Update,
    disp: WindowDisp,
    zeros: &[u8],
    read: &mut [u8],
) -> Result<()> {
    let is_word = zeros.len() as u64 == WORD;
    match update {
        Update::Accumulate(kind, op) => target.accumulate_untyped(disp, kind, op, zeros),
        Update::GetAccumulate(kind, op) => target.get_accumulate_untyped(disp, kind, op, zeros, read),
        // Updates of words take the shortest path of the typed calls.
        Update::FetchAndOp(ElementKind::U64, op) if is_word => target.fetch_and_op(disp, op, 0_u64).map(drop),
        Update::FetchAndOp(ElementKind::I64, op) if is_word => target.fetch_and_op(disp, op, 0_i64).map(drop),
        Update::FetchAndOp(kind, op) => target.fetch_and_op_untyped(disp, kind, op, zeros, read),
        Update::CompareAndSwap(ElementKind::U64) if is_word => target.compare_and_swap(disp, 0_u64, 0).map(drop),
        Update::CompareAndSwap(ElementKind::I64) if is_word => target.compare_and_swap(disp, 0_i64, 0).map(drop),
        Update::CompareAndSwap(kind) => target.compare_and_swap_untyped(disp, kind, zeros, zeros, read),
    }
}

/// Like [`update`], for whole words in a batch. It uses the overlapping operations of a batch where the network may
/// have them.
fn overlapping_update<'env, A: RemoteAtomics + ?Sized>(
    batch: &Batch<'_, 'env, A>,
    target: &Target<'_, A, Active>,
    call: Update,
    disp: WindowDisp,
    zeros: &[u64],
    read: &'env mut [u64],
) -> Result<()> {
    let zeros = &zeros[..read.len()];
    match (call, &mut *read) {
        (Update::FetchAndOp(ElementKind::U64, op), [_]) => batch.fetch_and_op(target, disp, op, 0, &mut read[0]),
        (Update::FetchAndOp(ElementKind::I64, op), [_]) => {
            batch.fetch_and_op(target, disp, op, 0, bytemuck::cast_mut::<u64, i64>(&mut read[0]))
        }
        (Update::FetchAndOp(ElementKind::F64, op), [_]) => {
            batch.fetch_and_op(target, disp, op, 0.0, bytemuck::cast_mut::<u64, f64>(&mut read[0]))
        }
        (Update::CompareAndSwap(ElementKind::U64), [_]) => batch.compare_and_swap(target, disp, 0, 0, &mut read[0]),
        (Update::CompareAndSwap(ElementKind::I64), [_]) => {
            batch.compare_and_swap(target, disp, 0, 0, bytemuck::cast_mut::<u64, i64>(&mut read[0]))
        }
        (Update::GetAccumulate(ElementKind::U64, op), _) => batch.get_accumulate(target, disp, op, zeros, read),
        (Update::GetAccumulate(ElementKind::I64, op), _) => {
            let zeros: &[i64] = bytemuck::cast_slice(zeros);
            batch.get_accumulate(target, disp, op, zeros, bytemuck::cast_slice_mut(read))
        }
        (Update::GetAccumulate(ElementKind::F64, op), _) => {
            let zeros: &[f64] = bytemuck::cast_slice(zeros);
            batch.get_accumulate(target, disp, op, zeros, bytemuck::cast_slice_mut(read))
        }
        (call, _) => update(target, call, disp, bytemuck::cast_slice(zeros), bytemuck::cast_slice_mut(read)),
    }
}
