//! Mutants of DecLock.

use super::Rule::{Answer, AsAttempt, AsStore, See, Skip, Split, Twice, ZeroFirst};
use super::{Mutant, compare_and_swap, fetch_add, flush, get, put, wait_until};
use crate::network::Network;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["declock"]
    "declock-no-scan" "a reader that finds no entry of the next ticket takes it for a reader that is inside"
        [See(get("header"), |header| !header)];
    "declock-blind-reader" "a reader does not look for writers ahead of it"
        [See(fetch_add("header").acquiring().reading(), |header| header & !0b11)];
    "declock-no-wait" "a rank with an entry does not wait"
        [Answer(wait_until("grant"), 1)];
    "declock-no-wake-up" "a writer that releases wakes no rank"
        [Skip(put("grant").another().writing())];
    "declock-reader-no-wake-up" "a reader that releases wakes no writer"
        [Skip(put("grant").another().reading())];
    "declock-two-wake-ups" "a rank is woken twice"
        [Twice(put("grant").another())];
    "declock-no-reset" "the grant is not reset after the wait"
        [Skip(put("grant").own())].leaves(&["grant"]);
    "declock-late-reset" "a rank resets its grant after it has drawn a ticket, instead of after the last wait"
        [ZeroFirst(wait_until("grant"))];
    "declock-store" "a writer releases without comparing, which loses the ranks that have come"
        [AsStore(compare_and_swap("header"))];
    "declock-takes-itself-for-alone" "a writer releases by an addition and wakes no rank that has come"
        [AsAttempt(compare_and_swap("header"), 0)];
    "declock-split-draw" "a ticket is drawn by a get and a put"
        [Split(fetch_add("header").acquiring())];
    "declock-split-release" "a release is a get and a put"
        [Split(fetch_add("header").releasing())];
    "declock-no-flush" "a rank does not flush the reset of its grant before it draws a ticket"
        [Skip(flush().own())].on(Network::LatePuts);
};
