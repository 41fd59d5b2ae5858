//! Mutants of the Hapax mutex.

use super::Rule::{Answer, AsStore, ClaimSuccess, See, Skip, Split, Twice, Value, ZeroFirst};
use super::{Mutant, compare_and_swap, fetch_store, flush, get, put, wait_until};
use crate::Form;
use crate::network::Network;

/// One acquisition in a hapax.
const ONE: u64 = 1 << 32;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["hapax"]
    "hapax-not-unique" "all acquisitions of a rank have the same number"
        [Value(fetch_store("arrive"), |hapax| hapax % ONE + ONE)];
    "hapax-blind" "a rank does not look whether its predecessor has left"
        [Answer(compare_and_swap("depart"), u64::MAX)];
    "hapax-always-waits" "a rank waits although its predecessor has left"
        [ClaimSuccess(compare_and_swap("depart"))];
    "hapax-register-store" "a rank registers without comparing"
        [AsStore(compare_and_swap("depart"))];
    "hapax-split-register" "a rank looks whether its predecessor has left, and registers, in two steps"
        [Split(compare_and_swap("depart"))];
    "hapax-no-wait" "a rank that has registered does not wait"
        [Answer(wait_until("go"), 1)];
    "hapax-no-wake-up" "the successor is not woken"
        [Skip(put("go").another())];
    "hapax-two-wake-ups" "the successor is woken twice"
        [Twice(put("go").another())];
    "hapax-no-reset" "the flag is not reset after the wait"
        [Skip(put("go").own())].leaves(&["go"]);
    "hapax-late-reset" "a rank resets its flag after it has registered, instead of after the last wait"
        [ZeroFirst(wait_until("go"))];
    "hapax-split-arrival" "the swap of an arrival is a get and a put"
        [Split(fetch_store("arrive"))];
    "hapax-split-departure" "a rank looks for its successor, and leaves, in two steps"
        [Split(fetch_store("depart"))];
    "hapax-no-departure" "a rank that releases does not leave"
        [Skip(fetch_store("depart"))].leaves(&["depart"]);
    "hapax-try-blind" "a try takes the last rank that has come for one that has left"
        [See(get("depart"), |depart| depart.wrapping_add(ONE))].when(Form::Try);
    "hapax-try-unchecked" "a try does not check whether another rank has come since it looked"
        [ClaimSuccess(compare_and_swap("arrive"))].when(Form::Try);
    "hapax-no-flush" "a rank does not flush the reset of its flag before it arrives again"
        [Skip(flush().own())].on(Network::LatePuts);
};
