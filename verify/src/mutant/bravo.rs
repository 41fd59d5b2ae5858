//! Mutants of the biased lock. `bravo` may set the bias at every slow read, `bravo-1` only the first time.

use super::Rule::{Answer, Late, Posted, Skip};
use super::{Mutant, compare_and_swap, fetch_store, flush, get, put};
use crate::network::Network;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["bravo", "bravo-1"]
    "bravo-late-bias" "a reader does not flush the bias before it releases the inner lock, and a 1 follows the 0 of the next writer"
        [Skip(flush().reading().everybody())].on(Network::LatePuts);
    "bravo-late-clear" "a rank does not flush the resets of its own words before it sets its slot or is visible in the queue again"
        [Skip(flush().own())].on(Network::LatePuts);
    "bravo-posted" "a reader puts its slot, and looks at the bias again before the put has arrived"
        [Posted(fetch_store("slot"), 0)].on(Network::LatePuts);
    "bravo-unflushed" "a writer looks at the slots before the bias is gone from all ranks"
        [Skip(flush().writing().everybody())].on(Network::LatePuts);
    "bravo-early-look" "a reader looks at the bias the second time before it sets its slot"
        [Late(&[fetch_store("slot")], &[get("biased")])];
    "bravo-unbiased" "a reader reads fast without the bias"
        [Answer(get("biased"), 1)];
    "bravo-no-revocation" "a writer does not look at the bias"
        [Answer(get("bias"), 0)];
    "bravo-still-biased" "a writer does not forbid fast reads"
        [Skip(put("biased").writing())];
    "bravo-blind-writer" "a writer does not wait for fast readers"
        [Answer(get("slot"), 0)];
    "bravo-no-slot" "a fast reader does not set its slot"
        [Skip(fetch_store("slot"))];
    "bravo-no-clear" "a fast reader that leaves does not clear its slot"
        [Skip(put("slot").releasing())].leaves(&["slot"]);
    "bravo-no-retreat" "a reader that finds the bias gone keeps its slot while it takes the inner lock"
        [Skip(put("slot").acquiring())].leaves(&["slot"]);
    "bravo-unrecorded" "a reader allows fast reads without a word at the home that says so"
        [Answer(compare_and_swap("bias"), 0)].leaves(&["biased"]);
};
