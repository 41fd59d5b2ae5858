//! The program's calls as steps of a trace.

use std::ffi::c_int;
use std::sync::Arc;

use mpi_sys as ffi;
use rmalab_atomics::Rank;
use rmalab_windows::replay::{Step, Update};
use rmalab_windows::{Call, ElementKind, LockKind, Op, WindowDisp};

use super::host::{self, Group};
use super::native::Remote;
use super::types::{self, Types};
use super::{fence_assert, lock_assert, post_assert, start_assert, target};
use crate::record::{self, Recorded};

/// Returns the step of an operation, which may be an update by `op`; `None` for the null target.
pub(super) fn operation(
    on: &Recorded,
    call: Call,
    rank: c_int,
    there: Remote,
    op: Option<ffi::MPI_Op>,
) -> Option<Step> {
    let target = target(rank)?;
    let (first, bytes) = extent(there)?;
    let unit = *on.units.get(target.index())? as i64;
    // The unit with the first byte, which a type may have at any distance.
    let disp = WindowDisp(there.disp + first.div_euclid(unit.max(1)));
    match call {
        Call::Put => return Some(Step::Put { target, disp, bytes }),
        Call::Get => return Some(Step::Get { target, disp, bytes }),
        _ => {}
    }
    let element = Types::all().dense(there.of).or_else(|| Types::all().dense(types::element(there.of)?));
    let op = op.map_or(Some(Op::Replace), types::op);
    let known = element.and_then(|element| element.kind).zip(op);
    let fits = |&(kind, op): &(ElementKind, Op)| {
        op.is_defined_for(kind)
            && bytes.is_multiple_of(kind.size())
            && (call != Call::CompareAndSwap || kind.is_swappable())
    };
    let Some((kind, op)) = known.filter(fits) else {
        record::inexact();
        let call = match call {
            Call::Accumulate => Update::Accumulate(ElementKind::Byte, Op::Replace),
            _ => Update::GetAccumulate(ElementKind::Byte, Op::Replace),
        };
        return Some(Step::Update { call, target, disp, bytes });
    };
    let call = match call {
        Call::Accumulate => Update::Accumulate(kind, op),
        Call::GetAccumulate => Update::GetAccumulate(kind, op),
        Call::FetchAndOp => Update::FetchAndOp(kind, op),
        Call::CompareAndSwap => Update::CompareAndSwap(kind),
        _ => return None,
    };
    Some(Step::Update { call, target, disp, bytes })
}

/// Returns the distance of the first byte of items from their address, and their bytes without gaps.
fn extent(there: Remote) -> Option<(i64, u64)> {
    let count = u64::try_from(there.count).ok()?;
    if let Some(dense) = Types::all().dense(there.of) {
        return Some((0, count.checked_mul(dense.size)?));
    }
    let (first, _) = host::span(there.count, there.of).ok()?;
    Some((first, count.checked_mul(host::size_of(there.of).ok()?.0)?))
}

pub(super) fn lock(lock_type: c_int, rank: c_int, assert: c_int) -> Option<Step> {
    let kind = if lock_type == ffi::MPI_LOCK_SHARED as c_int { LockKind::Shared } else { LockKind::Exclusive };
    Some(Step::Lock { kind, target: target(rank)?, assert: lock_assert(assert) })
}

pub(super) fn lock_all(assert: c_int) -> Option<Step> {
    Some(Step::LockAll { assert: lock_assert(assert) })
}

pub(super) fn unlock(rank: c_int) -> Option<Step> {
    target(rank).map(|target| Step::Unlock { target })
}

pub(super) fn flush(rank: c_int) -> Option<Step> {
    target(rank).map(|target| Step::Flush { target })
}

pub(super) fn fence(assert: c_int) -> Option<Step> {
    Some(Step::Fence(fence_assert(assert)))
}

pub(super) fn start(on: &Recorded, group: Group, assert: c_int) -> Option<Step> {
    Some(Step::Start { group: members(on, group)?, assert: start_assert(assert) })
}

pub(super) fn post(on: &Recorded, group: Group, assert: c_int) -> Option<Step> {
    Some(Step::Post { group: members(on, group)?, assert: post_assert(assert) })
}

fn members(on: &Recorded, group: Group) -> Option<Arc<[Rank]>> {
    on.group.ranks(group).ok().map(Arc::from)
}
