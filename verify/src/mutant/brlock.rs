//! Mutants of the brlock.

use super::Rule::{Answer, AsGet, ClaimSuccess, Posted, Skip};
use super::{Mutant, compare_and_swap, fetch_store, flush, get, put};
use crate::network::Network;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["brlock"]
    "brlock-posted" "a reader puts `here` without a flush, and looks at `writer` before the put has arrived"
        [Posted(fetch_store("here"), 0)].on(Network::LatePuts);
    "brlock-late-clear" "a reader does not flush its last clear of `here` before it sets it again"
        [Skip(flush().reading())].on(Network::LatePuts);
    "brlock-absent-reader" "a reader does not set `here`"
        [AsGet(fetch_store("here"))];
    "brlock-blind-reader" "a reader does not look at `writer`"
        [Answer(get("writer"), 0)];
    "brlock-blind-writer" "a writer does not look at the readers"
        [Answer(get("here").writing(), 0)];
    "brlock-unchecked" "a writer does not check whether it has taken `writer`"
        [ClaimSuccess(compare_and_swap("writer"))];
    "brlock-no-retreat" "a reader that sees a writer keeps `here` set while it waits"
        [Skip(put("here").acquiring().of(0))];
    "brlock-no-clear" "a reader that leaves does not clear `here`"
        [Skip(put("here").releasing())].leaves(&["here"]);
    "brlock-stays-locked" "a writer that leaves does not free `writer`"
        [Skip(put("writer"))].leaves(&["writer"]);
};
