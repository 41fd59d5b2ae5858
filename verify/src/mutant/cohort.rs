//! Mutants of the cohort mutex.

use super::Rule::{Answer, AsStore, See, Skip, Value};
use super::{Mutant, compare_and_swap, fetch_store, flush, put, wait_until};
use crate::network::Network;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["cohort"]
    "cohort-no-global" "a rank treats the global lock as free, whether another rank holds it or not"
        [Answer(fetch_store("global_tail"), 0)];
    "cohort-global-store" "the global release stores nil to the tail without comparing"
        [AsStore(compare_and_swap("global_tail"))];
    "cohort-released-as-held" "a rank that gets only the local lock assumes that it has both"
        [Value(put("state").another().of(1), |_| 2)];
    "cohort-held-as-released" "a rank that gets both locks assumes that it has only the local one"
        [Value(put("state").another().of(2), |_| 1)];
    "cohort-no-meeting" "a rank that releases does not wait for the successor that has yet to announce itself"
        [Answer(wait_until("global").releasing(), 1)];
    "cohort-blind-successor" "a successor does not look for a releasing rank that waits for it"
        [See(fetch_store("global_next").acquiring(), |_| 0)];
    "cohort-silent-successor" "a successor that finds a releasing rank enters without notifying it"
        [Skip(put("global").acquiring().another())];
    "cohort-stale-global-next" "the link to the next cohort is not reset"
        [Skip(fetch_store("global_next").releasing())].leaves(&["global_next"]);
    "cohort-no-flush" "a rank does not flush the resets of its own words before it is visible in a queue"
        [Skip(flush().own())].on(Network::LatePuts);
};
