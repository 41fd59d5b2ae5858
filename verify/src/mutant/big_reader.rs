//! Mutants of the big-reader lock: `big-reader` swaps `here`, `big-reader-fence` leaves the fence to writers.

use super::Rule::{Answer, Posted, See, Skip};
use super::{Mutant, fence_everywhere, fetch_store, flush, get, put, wait_until};
use crate::network::Network;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["big-reader"]
    "big-reader-posted" "a reader puts `here` without a fence, and looks at its gate before the put has arrived"
        [Posted(fetch_store("here"), 0)].on(Network::LatePuts);
    "big-reader-late-clear" "a reader does not flush its last clear of `here` before it sets it again"
        [Skip(flush().reading())].on(Network::LatePuts);
    "big-reader-late-gate" "a writer does not flush the open gates before it releases the mutex"
        [Skip(flush().writing().releasing())].on(Network::LatePuts);
    "big-reader-unflushed" "a writer looks at the readers before the gates are closed"
        [Skip(flush().writing().acquiring())].on(Network::LatePuts);
    of ["big-reader", "big-reader-fence"]
    "big-reader-blind-reader" "a reader does not look at its gate"
        [Answer(get("gate"), 0)];
    "big-reader-impatient-reader" "a reader that waits enters at once"
        [Answer(get("gate").after_wait(), 0), Answer(wait_until("gate"), 0)];
    "big-reader-no-gate" "a writer does not close the gates"
        [Skip(put("gate").of(1))];
    "big-reader-blind-writer" "a writer does not wait for readers"
        [Answer(get("here"), 0)];
    "big-reader-no-retreat" "a reader that finds its gate closed keeps `here` set while it waits"
        [Skip(put("here").acquiring().of(0))];
    "big-reader-no-clear" "a reader that leaves does not clear `here`"
        [Skip(put("here").releasing())].leaves(&["here"]);
    "big-reader-stays-closed" "a writer that leaves does not open the gates"
        [Skip(put("gate").of(0))].leaves(&["gate"]);
    "big-reader-no-mutex" "a writer does not wait for other writers"
        [See(fetch_store("tail"), |_| 0)];
    of ["big-reader-fence"]
    "big-reader-no-fence" "a writer does not fence for readers"
        [Skip(fence_everywhere())].on(Network::LatePuts);
};
