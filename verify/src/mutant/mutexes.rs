//! Mutants of the mutexes.

use rmalab_atomics::controlled::Call;

use super::Rule::{
    Answer, AsStore, AsSwap, Change, ClaimSuccess, Instead, Late, See, Skip, Split, Twice, Value, ZeroFirst,
};
use super::{Mutant, compare_and_swap, fetch_add, fetch_store, flush, get, now, put, wait_until};
use crate::Form;
use crate::network::Network;

/// One ticket in `next_ticket`, the upper half of the ticket lock's word.
const NEXT: u64 = 1 << 32;

/// A test-and-set, instead of a call on the ticket lock's word.
fn take(call: Call) -> Call {
    match call {
        Call::FetchAdd { at, .. } | Call::Get { at } => Call::CompareAndSwap { at, expected: 0, desired: NEXT },
        other => other,
    }
}

/// A ticket, instead of a try.
fn take_ticket(call: Call) -> Call {
    match call {
        Call::CompareAndSwap { at, .. } => Call::FetchAdd { at, value: NEXT },
        other => other,
    }
}

/// A place in the queue, instead of a try.
fn enqueue(call: Call) -> Call {
    match call {
        Call::CompareAndSwap { at, desired, .. } => Call::FetchStore { at, value: desired },
        other => other,
    }
}

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["tas"]
    "tas-split" "the test-and-set is a get and a put"
        [Split(compare_and_swap("owner"))];
    "tas-unchecked" "the result of the test-and-set is not checked"
        [ClaimSuccess(compare_and_swap("owner"))];
    "tas-no-release" "the release does nothing"
        [Skip(put("owner"))].leaves(&["owner"]);
    "tas-swap-release" "the release is a swap instead of a posted put"
        [AsSwap(put("owner"), 0)]
            .equivalent(
                "a swap is a put that is complete at once, and the lock never needs the put to be late"
            )
            .on(Network::LatePuts);
    "tas-dropped" "a try that has taken the lock fails"
        [See(compare_and_swap("owner"), |owner| if owner == 0 { 1 } else { owner })].when(Form::Try);
    of ["tas", "tas-rw"]
    "tas-impatient" "a rank with a deadline gives up after its first attempt"
        [Answer(now(), u64::MAX)].when(Form::Timed);
    of ["ticket"]
    "ticket-split" "a ticket is taken by a get and a put"
        [Split(fetch_add("lock").acquiring())];
    "ticket-taken-twice" "a rank that has to wait uses the ticket ahead of its own"
        [See(
            fetch_add("lock").acquiring(),
            |lock| if lock >> 32 == u64::from(lock as u32) { lock } else { lock - NEXT },
        )];
    "ticket-carry" "the addition to now_serving carries into next_ticket, which at 2^32 is not subtracted"
        [Value(fetch_add("lock").releasing(), |value| value + NEXT)].leaves(&["lock"]);
    "ticket-reset" "the release sets the word to 0 without comparing"
        [AsStore(compare_and_swap("lock"))];
    "ticket-no-release" "the release does not add to now_serving"
        [Skip(fetch_add("lock").releasing())];
    "ticket-unfair" "there are no tickets: the first rank that finds the word 0 takes the lock"
        [
            Change(fetch_add("lock").acquiring(), take),
            Instead(get("lock"), take, |old| if old == 0 { 2 * NEXT + 1 } else { old }),
            AsStore(compare_and_swap("lock")),
        ].of_order();
    "ticket-kept" "a try takes a ticket, and keeps it if it fails"
        [Change(compare_and_swap("lock").acquiring(), take_ticket)].when(Form::Try);
    of ["mcs"]
    "mcs-late-reset" "a rank resets its flag after it has linked itself, instead of after the last wait"
        [ZeroFirst(wait_until("unblocked"))].stands_for("MCS: blocked=1 after linking");
    "mcs-tail-store" "the release stores nil to the tail without comparing"
        [AsStore(compare_and_swap("tail"))].stands_for("MCS: release by a plain store of the tail");
    "mcs-stale-next" "the link to the successor is not reset"
        [Skip(put("next").own())].leaves(&["next"]).stands_for("MCS: stale `next`");
    "mcs-no-reset" "the flag is not reset after the wait"
        [Skip(put("unblocked").own())].leaves(&["unblocked"]);
    "mcs-no-link" "a rank does not link itself"
        [Skip(put("next").another())];
    "mcs-no-wait" "a rank with a predecessor does not wait"
        [Answer(wait_until("unblocked"), 1)];
    "mcs-no-wake-up" "the successor is not woken"
        [Skip(put("unblocked").another())];
    "mcs-two-wake-ups" "the successor is woken twice"
        [Twice(put("unblocked").another())];
    "mcs-split-swap" "the swap of the tail is a get and a put"
        [Split(fetch_store("tail"))];
    "mcs-no-prepare" "the resets of the last acquisition are not flushed before the node is published"
        [Skip(flush().own())].on(Network::LatePuts);
    "mcs-left-node" "a try puts its node into the queue, and leaves it there if it fails"
        [Change(compare_and_swap("tail").acquiring(), enqueue)].when(Form::Try);
    "mcs-try-unchecked" "a try does not check whether the queue was empty"
        [ClaimSuccess(compare_and_swap("tail").acquiring())].when(Form::Try);
    "mcs-late-wake-up" "the successor is woken after the link to it is reset"
        [Late(&[put("unblocked").another()], &[put("next").own()])]
            .equivalent(
                "the link is in this rank's node, and no other rank writes it then until this rank acquires again"
            )
            .on(Network::LatePuts);
    "mcs-no-early-next" "the release does not look for a successor before its compare-and-swap"
        [Answer(get("next"), 0)]
            .equivalent(
                "with a successor, the tail is another rank, so the compare-and-swap fails, and the rank awaits the link"
            )
            .on(Network::LatePuts);
};
