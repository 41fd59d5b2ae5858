//! Mutants of ALock, with budgets of 1 (`alock-1`) and 2.

use rmalab_atomics::Rank;

use super::Rule::{Answer, AsStore, Late, Posted, See, Skip, Split, Value};
use super::{Mutant, compare_and_swap, fetch_store, flush, get, put, wait_until};
use crate::network::Network;

// With its home at rank 1 and one rank per node, rank 1 is near and rank 0 is far.
pub(super) const MUTANTS: &[Mutant] = table! {
    of ["alock"]
    "alock-posted-victim" "a head writes the victim by a posted put"
        [Posted(fetch_store("victim"), 0)].on(Network::LatePuts).home(Rank(1));
    "alock-no-victim" "no class gives way"
        [Skip(fetch_store("victim"))].home(Rank(1));
    "alock-other-victim" "a head makes the other class the victim"
        [Value(fetch_store("victim"), |class| 3 - class)].home(Rank(1));
    "alock-blind-near" "a near head does not look for far ranks"
        [Answer(get("far_tail"), 0)].home(Rank(1));
    "alock-blind-far" "a far head does not look for near ranks"
        [Answer(get("near_tail"), 0)].home(Rank(1));
    "alock-stubborn" "a head waits until the other class is empty, whichever class is the victim"
        [See(get("victim"), |class| 3 - class)].home(Rank(1));
    "alock-late-tail" "a far head sets the victim before it is in its queue"
        [Late(&[fetch_store("far_tail")], &[fetch_store("victim")])].home(Rank(1));
    "alock-no-wait" "a rank with a predecessor does not wait"
        [Answer(wait_until("budget"), 2)];
    "alock-no-wake-up" "the successor is not woken"
        [Skip(put("budget").another())];
    "alock-stale-budget" "the budget is not reset after the wait"
        [Skip(put("budget").own())].leaves(&["budget"]);
    "alock-no-link" "a rank does not link itself"
        [Skip(put("next").another())];
    "alock-stale-next" "the link to the successor is not reset"
        [Skip(put("next").own())].leaves(&["next"]);
    "alock-tail-store" "the release stores nil to the tail without comparing"
        [AsStore(compare_and_swap("near_tail"))];
    "alock-split-swap" "the swap of the tail is a get and a put"
        [Split(fetch_store("near_tail"))];
    "alock-no-flush" "a rank does not flush the resets of its words before it is visible in the queue"
        [Skip(flush().own())].on(Network::LatePuts);
    of ["alock-1"]
    "alock-budget-less" "a rank passes on one less than its budget"
        [Value(put("budget").another(), |budget| budget - 1)];
};
