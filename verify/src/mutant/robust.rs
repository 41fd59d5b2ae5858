//! Mutants of the repairs after the failure of a rank.

use rmalab_atomics::Address;
use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, AsSwap, Change, Pretend, See, Skip, Untold};
use super::{Mutant, compare_and_swap, failed, fetch_add, flush, get, put, silence};
use crate::network::Network;

/// In the robust ticket's word: the bit that makes the next rank learn of a failure.
const OWNER_DEAD: u64 = 1 << 31;

/// Without the bit that makes the next rank learn of a failure.
fn unflagged(call: Call) -> Call {
    match call {
        Call::CompareAndSwap { at, expected, desired } => {
            Call::CompareAndSwap { at, expected, desired: desired & !OWNER_DEAD }
        }
        other => other,
    }
}

/// A robust MCS announcement of kind `what`, said as one of kind `instead` with the same number; nothing for 0.
fn said(call: Call, what: u64, instead: u64) -> Call {
    match call {
        Call::Put { at, value } if value & 3 == what => {
            Call::Put { at, value: if instead == 0 { 0 } else { value & !3 | instead } }
        }
        other => other,
    }
}

/// In the robust reader-writer lock's word: the writer. The bits above are the readers.
const WRITER: u64 = 63;

/// A sweep of readers that have failed: a compare-and-swap that leaves no writer.
fn sweep(call: Call, by: fn(Address, u64, u64) -> Call) -> Call {
    match call {
        Call::CompareAndSwap { at, expected, desired } if desired & WRITER == 0 => by(at, expected, desired),
        other => other,
    }
}

/// A swap in place of a writer that has failed.
fn take(call: Call, by: fn(Address, u64, u64) -> Call) -> Call {
    match call {
        Call::CompareAndSwap { at, expected, desired } if expected & WRITER != 0 => by(at, expected, desired),
        other => other,
    }
}

/// Without the addition by which a reader lets other ranks read. It is the only addition in acquire that subtracts.
fn unshared(call: Call) -> Call {
    match call {
        Call::FetchAdd { at, value } if value > i64::MAX as u64 => Call::Get { at },
        other => other,
    }
}

/// In the robust two-level lock's words: the unit of the high half, which counts lock_alls and shared locks.
pub(super) const ALL: u64 = 1 << 32;

/// In a robust two-level announcement: a count is about to change, and this rank is counted as exclusive. The lowest three bits say
/// which of these hold; the bits above are a number.
const CHANGES: u64 = 1;
const IN_EXCLUSIVES: u64 = 4;
const STATES: u64 = 7;

/// Without the addition if it takes ranks out of a count.
pub(super) fn uncounted(call: Call) -> Call {
    match call {
        Call::FetchAdd { at, value } if value > i64::MAX as u64 => Call::Get { at },
        other => other,
    }
}

/// A store of 0 if the addition takes ranks out of a high half, and of no low half.
fn erased(call: Call) -> Call {
    match call {
        Call::FetchAdd { at, value } if value > i64::MAX as u64 && value % ALL == 0 => {
            Call::FetchStore { at, value: 0 }
        }
        other => other,
    }
}

/// A robust two-level announcement without the bit that a count is about to change.
fn unchanging(call: Call) -> Call {
    match call {
        Call::Put { at, value } => Call::Put { at, value: value & !CHANGES },
        other => other,
    }
}

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["robust-tas"]
    "robust-tas-untold" "the rank that takes over is not told"
        [Untold].after(1);
    "robust-tas-no-silence" "a rank takes over although the release of the failed rank may still arrive"
        [Skip(silence())].on(Network::LatePuts).after(1);
    "robust-tas-unasked" "a waiter does not ask for failures"
        [Answer(failed(), 0)].after(1);
    of ["robust-mcs"]
    "robust-mcs-untold" "the rank that enters by a repair is not told"
        [Untold].after(1);
    "robust-mcs-no-silence" "a repair begins although what a failed rank has posted may still arrive"
        [Skip(silence())].on(Network::LatePuts).after(1);
    "robust-mcs-unasked" "a rank that waits does not ask for failures"
        [Answer(failed(), 0)].after(1);
    "robust-mcs-unannounced" "a rank does not announce that it takes a place"
        [Change(put("announced"), |call| said(call, 1, 0))].after(1);
    "robust-mcs-late-announcement" "the announcement is not complete before the place is taken"
        [Skip(flush().own().acquiring())].on(Network::LatePuts).after(1);
    of ["robust-ticket"]
    "robust-ticket-untold" "a rank that finds the flag does not say so"
        [Untold].after(1);
    "robust-ticket-unannounced" "a rank does not announce that it may take a ticket"
        [Skip(put("announced").of(1))].after(1);
    "robust-ticket-late-announcement" "the announcement is not complete before the ticket is taken"
        [Skip(flush().own())].on(Network::LatePuts).after(1);
    "robust-ticket-past-announced" "a repair goes past a rank that may be taking the ticket"
        [See(get("announced"), |announced| if announced == 1 { 0 } else { announced })].after(1);
    "robust-ticket-blind" "a repair does not look which tickets live ranks have"
        [Answer(get("announced"), 0)].after(1);
    "robust-ticket-no-flag" "a repair does not have the next rank told"
        [Change(compare_and_swap("lock"), unflagged)].after(1);
    of ["robust-rw"]
    "robust-rw-uncounted" "readers set no bit"
        [Skip(fetch_add("lock").reading())];
    "robust-rw-release-store" "a writer that leaves stores 0, which erases the readers that wait"
        [AsSwap(fetch_add("lock").writing().releasing(), 0)];
    "robust-rw-unasked" "a rank that waits does not ask for failures"
        [Answer(failed(), 0)].after(1);
    "robust-rw-no-silence" "a rank takes over although an operation of the failed rank may still arrive"
        [Skip(silence())].on(Network::LatePuts).after(1);
    "robust-rw-sweep-by-add" "a writer subtracts the bits of readers that have failed, as another one may, too"
        [Change(compare_and_swap("lock"), |call| sweep(call, |at, expected, desired| {
            Call::FetchAdd { at, value: desired.wrapping_sub(expected) }
        }))].after(1);
    "robust-rw-sweep-all" "a writer clears the bits of live readers, too"
        [Change(compare_and_swap("lock"), |call| sweep(call, |at, expected, _| {
            Call::CompareAndSwap { at, expected, desired: 0 }
        }))].after(1);
    "robust-rw-take-store" "a rank that takes over stores without a comparison"
        [Change(compare_and_swap("lock"), |call| take(call, |at, _, value| Call::FetchStore { at, value }))].after(1);
    "robust-rw-take-alone" "a rank that takes over erases the readers that wait"
        [Change(compare_and_swap("lock"), |call| take(call, |at, expected, desired| {
            Call::CompareAndSwap { at, expected, desired: desired & WRITER }
        }))].after(1);
    "robust-rw-early-share" "a reader that takes over lets others read before it has repaired the data"
        [Change(compare_and_swap("lock").reading(), |call| take(call, |at, expected, desired| {
            Call::CompareAndSwap { at, expected, desired: desired & !WRITER }
        })), Change(fetch_add("lock").reading().acquiring(), unshared)].after(1);
    of ["robust-rw", "robust-global"]
    "robust-rw-untold" "the rank that takes over from a writer is not told"
        [Untold].after(1);
    "robust-rw-no-sweep" "a writer does not clear the bits of readers that have failed"
        [Change(compare_and_swap("lock"), |call| sweep(call, |at, _, _| Call::Get { at }))].after(1);
    "robust-rw-unshared" "a reader that has taken over never lets others in again"
        [Change(fetch_add("lock").reading().acquiring(), unshared)].after(1);
    of ["robust-two-level"]
    "robust-two-level-blind-exclusive" "an exclusive lock counts itself in the master, but does not check for lock_alls"
        [See(fetch_add("master").writing().acquiring(), |master| master % ALL)];
    "robust-two-level-blind-shared" "a shared lock does not look at the owner"
        [See(fetch_add("target").reading().acquiring(), |target| target & !(ALL - 1))];
    "robust-two-level-release-store" "an exclusive lock's release stores 0, which erases the shared locks counted since"
        [AsSwap(fetch_add("target").writing().releasing(), 0)];
    "robust-two-level-untold" "the rank that takes over a target is not told"
        [Untold].after(1);
    "robust-two-level-unasked" "a rank that waits does not ask for failures"
        [Answer(failed(), 0)].after(1);
    "robust-two-level-erased-shared" "a recount takes the shared locks of live ranks away"
        [Change(fetch_add("target").writing().acquiring(), erased)].after(1);
    "robust-two-level-erased-all" "a recount takes the lock_alls of live ranks away"
        [Change(fetch_add("master").writing().acquiring(), erased)].after(1);
    of ["robust-two-level", "robust-two-level-announced"]
    "robust-two-level-no-silence" "a rank takes over although an operation of the failed rank may still arrive"
        [Skip(silence())].on(Network::LatePuts).after(1);
    "robust-two-level-all-at-once" "ranks repair at the same time"
        [Pretend(compare_and_swap("repairer"))].after(1);
    "robust-two-level-dropped-owner" "a lock_all takes the count of a failed rank away although it owns a target"
        [See(get("target").of_all(), |target| target & !(ALL - 1))].after(1);
    "robust-two-level-kept-exclusives" "a failed rank stays counted among the exclusive locks"
        [Change(fetch_add("master").of_all().acquiring(), uncounted)].after(1);
    "robust-two-level-kept-shared" "a failed rank stays counted in a target"
        [Change(fetch_add("target").writing().acquiring(), uncounted)].after(1);
    of ["robust-two-level-announced"]
    "robust-two-level-unannounced" "a rank does not announce that a count is about to change"
        [Change(put("announced"), unchanging)].after(1);
    "robust-two-level-late-announcement" "the announcement is not complete before the count changes"
        [Skip(flush().own())].on(Network::LatePuts).after(1);
    "robust-two-level-past-changes" "a recount does not wait for a rank whose count is about to change"
        [See(get("announced"), |announced| announced & !CHANGES)].after(1);
    "robust-two-level-unnumbered" "a recount compares its two looks without the numbers of changes"
        [See(get("announced"), |announced| announced & STATES)].after(1);
    "robust-two-level-dropped-live" "a lock_all takes the counts of live exclusive locks away"
        [See(get("announced").of_all(), |announced| announced & !IN_EXCLUSIVES)].after(1);
};
