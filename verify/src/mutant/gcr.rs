//! Mutants of the concurrency restriction, of a mutex and of a reader-writer lock.

use super::Rule::{Answer, AsStore, ClaimSuccess, See, Skip, Split, Twice};
use super::{Mutant, compare_and_swap, fetch_add, fetch_store, flush, put, wait_until};
use crate::network::Network;

/// In `gate`: no longer active.
const LEAVES: u64 = (1_u64 << 32).wrapping_neg();
/// In `gate`: active.
const ENTERS: u64 = 1 << 32;

/// A value of `gate` without the head.
const fn without_head(gate: u64) -> u64 {
    gate & !0xffff_ffff
}

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["gcr", "gcr-rw"]
    "gcr-no-approval" "the head is not woken"
        [Skip(put("approved").another())];
    "gcr-blind-leave" "a rank that leaves does not look for a head"
        [See(fetch_add("gate").of(LEAVES), without_head)].leaves(&["gate"]);
    "gcr-split-head" "the head looks at the number of active ranks and publishes itself in two steps"
        [Split(compare_and_swap("gate").acquiring())];
    "gcr-store-head" "the head publishes itself without comparing"
        [AsStore(compare_and_swap("gate").acquiring())];
    "gcr-two-approvals" "the head is woken twice"
        [Twice(put("approved").another())];
    "gcr-uncounted" "a head that is approved does not count itself as active"
        [Skip(fetch_add("gate").of(ENTERS).after_wait())];
    "gcr-stale-approval" "the approval is not reset after the wait"
        [Skip(put("approved").own())];
    of ["gcr"]
    "gcr-store-approval" "a rank takes the head from the gate without comparing"
        [AsStore(compare_and_swap("gate").releasing())];
    "gcr-unclaimed" "a rank approves the head without taking it from the gate"
        [ClaimSuccess(compare_and_swap("gate").releasing())];
    "gcr-two-heads" "a passive rank does not wait for its predecessor in the passive queue"
        [Answer(wait_until("passive_unblocked"), 1)];
    "gcr-trusts-the-gate" "an active rank takes the inner lock for free"
        [See(fetch_store("tail"), |_| 0)];
    "gcr-no-flush" "a rank does not flush the resets of its own words before it is visible in a queue again"
        [Skip(flush().own())].on(Network::LatePuts);
};
