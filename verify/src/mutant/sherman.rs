//! Mutants of Sherman's hierarchical lock, with two acquisitions in a row.

use super::Rule::{Answer, AsStore, Late, Skip, Split, Value};
use super::{Mutant, compare_and_swap, fetch_store, flush, put, wait_until};
use crate::network::Network;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["sherman"]
    "sherman-no-global" "a rank takes the global lock for free, whether it is or not"
        [Answer(compare_and_swap("global"), 0)];
    "sherman-split-global" "the global lock is acquired by a get and a put"
        [Split(compare_and_swap("global"))];
    "sherman-no-release" "the global lock is not released"
        [Skip(put("global"))].leaves(&["global"]);
    "sherman-local-as-both" "a rank that gets only the node's lock assumes that it has both"
        [Value(put("turn").another().of(1), |_| 2)];
    "sherman-both-as-local" "a rank that gets both locks assumes that it has only the node's"
        [Value(put("turn").another().of(2), |_| 1)];
    "sherman-no-wait" "a rank with a predecessor does not wait"
        [Answer(wait_until("turn"), 2)];
    "sherman-no-wake-up" "the successor is not woken"
        [Skip(put("turn").another())];
    "sherman-stale-turn" "the turn is not reset after the wait"
        [Skip(put("turn").own())].leaves(&["turn"]);
    "sherman-no-link" "a rank does not link itself"
        [Skip(put("next").another())];
    "sherman-stale-next" "the link to the successor is not reset"
        [Skip(put("next").own())].leaves(&["next"]);
    "sherman-tail-store" "the release stores nil to the node's tail without comparing"
        [AsStore(compare_and_swap("local_tail"))];
    "sherman-split-swap" "the swap of the node's tail is a get and a put"
        [Split(fetch_store("local_tail"))];
    "sherman-no-flush" "a rank does not flush the resets of its words before it is visible in the queue"
        [Skip(flush().own())].on(Network::LatePuts);
    "sherman-late-release" "a rank releases the node's lock before the global one"
        [Late(&[put("global")], &[compare_and_swap("local_tail"), wait_until("next"), put("turn").another()])]
            .equivalent("no rank changes the global word before the put arrives, so it only delays the next acquisition")
            .on(Network::LatePuts);
};
