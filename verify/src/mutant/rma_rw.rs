//! Mutants of RMA-RW: its additions to the tree of queues, with T_DC = 2, T_L = 1 and T_R = 1.

use super::Rule::{Answer, AsStore, Late, See, Skip, Split, Value};
use super::{Mutant, compare_and_swap, fetch_add, get, put};
use rmalab_atomics::Rank;

const WRITE: u64 = 1;
const CLOSED: u64 = 1 << 1;
const INSIDE: u64 = 1 << 2;
const ARRIVE: u64 = 1 << 26;
const PHASE: u64 = 1 << 63;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["rma-rw"]
    "rma-rw-one-counter" "a writer closes the first node's counter only"
        [Answer(compare_and_swap("counter").writing().not_of(Rank(0)).acquiring(), 0)];
    "rma-rw-no-departures" "a writer assumes that the readers that it finds have left"
        [See(get("counter").writing(), |_| WRITE + ARRIVE)];
    "rma-rw-left-open" "a writer sets WRITE on an idle counter, and not CLOSED"
        [Value(compare_and_swap("counter").writing().acquiring(), |desired| desired & !CLOSED)];
    "rma-rw-blind-reader" "a reader does not check whether a writer is there"
        [See(fetch_add("counter").reading().acquiring(), |old| old & !WRITE)];
    "rma-rw-no-t_r" "readers continue to enter after T_R of them while the counter is not closed"
        [See(fetch_add("counter").reading().acquiring(), |old| if old & CLOSED == 0 { old % ARRIVE } else { old })];
    "rma-rw-split-arrive" "a reader arrives by a get and a put"
        [Split(fetch_add("counter").reading().acquiring())];
    "rma-rw-split-depart" "a reader departs by a get and a put"
        [Split(fetch_add("counter").reading().releasing())];
    "rma-rw-split-reset" "a writer resets a counter with readers by a get and a put"
        [Split(fetch_add("counter").writing().releasing())];
    "rma-rw-reset-store" "a writer resets counters by storing 0, which erases the readers that wait"
        [AsStore(compare_and_swap("counter").writing().releasing())];
    "rma-rw-no-phase" "the end of a row of writers does not change PHASE"
        [Value(fetch_add("counter").writing().releasing(), |value| value.wrapping_sub(PHASE))];
    "rma-rw-no-reset" "the last writer of a row releases the world's queue without resetting the counters"
        [Skip(compare_and_swap("counter").writing().releasing())].leaves(&["counter"]);
    "rma-rw-late-reset" "counters are reset after the release of the world's queue"
        [
            Late(
                &[compare_and_swap("counter").writing().releasing()],
                &[compare_and_swap("tail1"), compare_and_swap("tail2"), put("status")],
            ),
        ];
    "rma-rw-no-rest" "the last reader that leaves a counter does not set it to 0"
        [Answer(compare_and_swap("counter").reading(), INSIDE)];
};
