//! Mutants of the CLH mutex.

use super::Rule::{AsStore, ClaimSuccess, Posted, See, Skip, Split, Value, ZeroAfter};
use super::{Mutant, compare_and_swap, fetch_store, get, put};
use crate::Form;

/// One acquisition in a request.
const ONE: u64 = 1 << 32;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["clh"]
    "clh-not-unique" "all requests of a rank have the same number"
        [Value(fetch_store("tail"), |request| request % ONE + ONE)];
    "clh-no-wait" "a rank with a predecessor does not wait"
        [See(fetch_store("tail"), |_| 0)];
    "clh-older-request" "a rank takes the request after the last granted one for granted"
        [See(get("granted"), |granted| granted.wrapping_add(ONE))];
    "clh-no-release" "a release does not grant the request"
        [Skip(put("granted"))];
    "clh-old-release" "a release grants the request before the rank's last one"
        [Value(put("granted"), |request| request - ONE)];
    "clh-forgotten-release" "a release resets its word directly after it has granted the request"
        [ZeroAfter(put("granted"))];
    "clh-split-arrival" "the swap of an arrival is a get and a put"
        [Split(fetch_store("tail"))];
    "clh-posted-arrival" "a rank puts its request to the tail, and looks for no predecessor"
        [Posted(fetch_store("tail"), 0)];
    "clh-try-unchecked" "a try does not check whether another rank has come since it looked"
        [ClaimSuccess(compare_and_swap("tail"))].when(Form::Try);
    "clh-try-store" "a try stores its request to the tail without comparing"
        [AsStore(compare_and_swap("tail"))].when(Form::Try);
    "clh-try-split" "a try compares the tail, and stores its request, in two steps"
        [Split(compare_and_swap("tail"))].when(Form::Try);
    "clh-try-dropped" "a try that has taken the lock fails"
        [See(compare_and_swap("tail"), |tail| tail.wrapping_add(ONE))].when(Form::Try);
};
