//! Mutants of the reciprocating mutex.

use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, AsStore, Change, ClaimSuccess, See, Skip, Split, Twice, Value, ZeroFirst};
use super::{Mutant, compare_and_swap, fetch_store, flush, put, wait_until};
use crate::Form;
use crate::network::Network;

const HELD: u64 = 1 << 32;

/// An arrival, instead of a try.
fn arrive(call: Call) -> Call {
    match call {
        Call::CompareAndSwap { at, desired, .. } => Call::FetchStore { at, value: desired },
        other => other,
    }
}

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["reciprocating"]
    "reciprocating-no-end" "a rank does not recognize the end of its segment, and takes the rank before it for its successor"
        [See(wait_until("gate"), |_| HELD)];
    "reciprocating-zero-take" "a holder that takes the arrivals stores 0, so that the lock looks free"
        [Value(fetch_store("arrivals").releasing(), |_| 0)];
    "reciprocating-store" "the release stores 0 without comparing, which loses the arrivals"
        [AsStore(compare_and_swap("arrivals"))];
    "reciprocating-no-wait" "a rank with a predecessor does not wait"
        [Answer(wait_until("gate"), HELD)];
    "reciprocating-no-wake-up" "the next rank is not woken"
        [Skip(put("gate").another())];
    "reciprocating-two-wake-ups" "the next rank is woken twice"
        [Twice(put("gate").another())];
    "reciprocating-no-reset" "the gate is not reset after the wait"
        [Skip(put("gate").own())].leaves(&["gate"]);
    "reciprocating-late-reset" "a rank resets its gate after it has arrived, instead of after the last wait"
        [ZeroFirst(wait_until("gate"))];
    "reciprocating-split-arrival" "the swap of an arrival is a get and a put"
        [Split(fetch_store("arrivals").acquiring())];
    "reciprocating-split-take" "the swap that takes the arrivals is a get and a put"
        [Split(fetch_store("arrivals").releasing())];
    "reciprocating-try-unchecked" "a try does not check whether the lock was free"
        [ClaimSuccess(compare_and_swap("arrivals").acquiring())].when(Form::Try);
    "reciprocating-try-swap" "a try swaps itself in, and leaves if another rank was there"
        [Change(compare_and_swap("arrivals").acquiring(), arrive)].when(Form::Try);
    "reciprocating-no-flush" "a rank does not flush the reset of its gate before it arrives again"
        [Skip(flush().own())].on(Network::LatePuts);
};
