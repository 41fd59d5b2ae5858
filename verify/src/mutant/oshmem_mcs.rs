//! Mutants of Open MPI's MCS mutex.

use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, AsStore, AsSwap, Change, ClaimSuccess, Late, Skip, Split, Twice};
use super::{Mutant, compare_and_swap, fetch_add, fetch_store, get, wait_until};
use crate::Form;
use crate::network::Network;

const SIGNAL: u64 = 1 << 63;

/// A swap that stores what `call` adds.
fn store(call: Call) -> Call {
    match call {
        Call::FetchAdd { at, value } => Call::FetchStore { at, value },
        other => other,
    }
}

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["oshmem-mcs"]
    "oshmem-arm-store" "a rank stores its signal instead of adding it, which erases what came first"
        [AsSwap(fetch_add("next").own().acquiring(), SIGNAL)];
    "oshmem-link-store" "a rank stores its link in its predecessor's word, which erases the predecessor's signal"
        [Change(fetch_add("next").another().acquiring(), store)];
    "oshmem-wake-store" "the wake-up stores the signal, which erases the successor's link"
        [Change(fetch_add("next").another().releasing(), store)];
    "oshmem-stale-next" "the link to the successor is not subtracted"
        [Skip(fetch_add("next").own().releasing())].leaves(&["next"]);
    "oshmem-no-link" "a rank does not link itself"
        [Skip(fetch_add("next").another().acquiring())];
    "oshmem-no-arm" "a rank does not add its signal, so that it does not wait"
        [Skip(fetch_add("next").own().acquiring())].leaves(&["next"]);
    "oshmem-no-wait" "a rank with a predecessor does not wait"
        [Answer(wait_until("next").acquiring(), 0)];
    "oshmem-no-wake-up" "the successor is not woken"
        [Skip(fetch_add("next").another().releasing())];
    "oshmem-two-wake-ups" "the successor is woken twice"
        [Twice(fetch_add("next").another().releasing())].leaves(&["next"]);
    "oshmem-tail-store" "the release stores nil to the tail without comparing"
        [AsStore(compare_and_swap("tail"))];
    "oshmem-split-swap" "the swap of the tail is a get and a put"
        [Split(fetch_store("tail"))];
    "oshmem-split-signal" "the signal is added by a get and a put"
        [Split(fetch_add("next").own().acquiring())];
    "oshmem-try-unchecked" "a try does not check whether the queue was empty"
        [ClaimSuccess(compare_and_swap("tail").acquiring())].when(Form::Try);
    "oshmem-late-link" "a rank links itself after it has added its signal"
        [Late(&[fetch_add("next").another().acquiring()], &[fetch_add("next").own().acquiring()])]
            .equivalent("the wake-up then comes after the signal, which is one of the two orders that the lock allows")
            .on(Network::LatePuts);
    "oshmem-no-early-next" "the release does not look for a successor before its compare-and-swap"
        [Answer(get("next"), 0)]
            .equivalent(
                "with a successor, the tail is another rank, so the compare-and-swap fails, and the rank awaits the link"
            )
            .on(Network::LatePuts);
};
