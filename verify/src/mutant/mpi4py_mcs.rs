//! Mutants of mpi4py's mutex.

use rmalab_atomics::controlled::Call;
use rmalab_locks::LINE;

use super::Rule::{Answer, AsStore, Change, ClaimSuccess, Skip, Split, Twice};
use super::{Mutant, compare_and_swap, fetch_store, flush, put, wait_until};
use crate::Form;
use crate::network::Network;
use crate::subject::WORDS;

/// The reset of the local `next`, in place of a flush.
fn reset(call: Call) -> Call {
    match call {
        Call::Order { target: rank } => Call::Put { at: rank.at(WORDS.plus(LINE)), value: 0 },
        other => other,
    }
}

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["mpi4py-mcs"]
    "mpi4py-unflushed-reset" "a rank resets its link when it acquires, and does not flush that before it swaps the tail"
        [Change(flush().own().acquiring(), reset)]
            .on(Network::LatePuts)
            .stands_for("mpi4py: an accumulate resets next, and only the tail's rank is flushed");
    "mpi4py-no-flush" "a rank does not flush the resets of the last acquisition"
        [Skip(flush().own())].on(Network::LatePuts);
    "mpi4py-tail-store" "the release stores nil to the tail without comparing"
        [AsStore(compare_and_swap("tail"))];
    "mpi4py-split-swap" "the swap of the tail is a get and a put"
        [Split(fetch_store("tail"))];
    "mpi4py-no-link" "a rank does not link itself"
        [Skip(put("next").another())];
    "mpi4py-stale-next" "the link to the successor is not reset"
        [Skip(put("next").own())].leaves(&["next"]);
    "mpi4py-no-wait" "a rank with a predecessor does not wait"
        [Answer(wait_until("unblocked"), 1)];
    "mpi4py-no-wake-up" "the successor is not woken"
        [Skip(put("unblocked").another())];
    "mpi4py-two-wake-ups" "the successor is woken twice"
        [Twice(put("unblocked").another())].leaves(&["unblocked"]);
    "mpi4py-no-reset" "the flag is not reset after the wait"
        [Skip(put("unblocked").own())].leaves(&["unblocked"]);
    "mpi4py-try-unchecked" "a try does not check whether the queue was empty"
        [ClaimSuccess(compare_and_swap("tail").acquiring())].when(Form::Try);
};
