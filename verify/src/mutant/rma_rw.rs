//! Mutants of RMA-RW: what it adds to the tree of queues.

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, AsStore, Change, Late, See, Skip, Split};
use super::{Mutant, compare_and_swap, fetch_add, get, put};

/// With T_DC = 2, T_L = 1 and T_R = 1.
const RMA_RW: &[&str] = &["rma-rw"];

const WRITE: u64 = 1;
const CLOSED: u64 = 1 << 1;
const INSIDE: u64 = 1 << 2;
const ARRIVE: u64 = 1 << 26;
const PHASE: u64 = 1 << 63;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "rma-rw-one-counter",
        RMA_RW,
        "a writer closes the first node's counter only",
        &[Answer(compare_and_swap("counter").writing().not_of(Rank(0)).acquiring(), 0)],
    ),
    Mutant::new(
        "rma-rw-no-departures",
        RMA_RW,
        "a writer takes the readers that it finds for gone",
        &[See(get("counter").writing(), |_| WRITE + ARRIVE)],
    ),
    Mutant::new(
        "rma-rw-left-open",
        RMA_RW,
        "a writer sets WRITE on an idle counter, and not CLOSED",
        &[Change(compare_and_swap("counter").writing().acquiring(), |call| match call {
            Call::CompareAndSwap { at, expected, desired } => {
                Call::CompareAndSwap { at, expected, desired: desired & !CLOSED }
            }
            other => other,
        })],
    ),
    Mutant::new(
        "rma-rw-blind-reader",
        RMA_RW,
        "a reader does not look whether a writer is there",
        &[See(fetch_add("counter").reading().acquiring(), |old| old & !WRITE)],
    ),
    Mutant::new(
        "rma-rw-no-t_r",
        RMA_RW,
        "readers go on to enter after T_R of them, while the counter is not closed",
        &[See(fetch_add("counter").reading().acquiring(), |old| if old & CLOSED == 0 { old % ARRIVE } else { old })],
    ),
    Mutant::new(
        "rma-rw-split-arrive",
        RMA_RW,
        "a reader arrives by a get and a put",
        &[Split(fetch_add("counter").reading().acquiring())],
    ),
    Mutant::new(
        "rma-rw-split-depart",
        RMA_RW,
        "a reader departs by a get and a put",
        &[Split(fetch_add("counter").reading().releasing())],
    ),
    Mutant::new(
        "rma-rw-split-reset",
        RMA_RW,
        "a writer resets a counter with readers by a get and a put",
        &[Split(fetch_add("counter").writing().releasing())],
    ),
    Mutant::new(
        "rma-rw-reset-store",
        RMA_RW,
        "a writer resets counters by storing 0, over the readers that wait",
        &[AsStore(compare_and_swap("counter").writing().releasing())],
    ),
    Mutant::new(
        "rma-rw-no-phase",
        RMA_RW,
        "the end of a row of writers does not change PHASE",
        &[Change(fetch_add("counter").writing().releasing(), |call| match call {
            Call::FetchAdd { at, value } => Call::FetchAdd { at, value: value.wrapping_sub(PHASE) },
            other => other,
        })],
    ),
    Mutant::new(
        "rma-rw-no-reset",
        RMA_RW,
        "the last writer of a row lets the world's queue go without resetting the counters",
        &[Skip(compare_and_swap("counter").writing().releasing())],
    )
    .leaves(&["counter"]),
    Mutant::new(
        "rma-rw-late-reset",
        RMA_RW,
        "counters are reset after the world's queue is let go",
        &[Late(
            &[compare_and_swap("counter").writing().releasing()],
            &[compare_and_swap("tail1"), compare_and_swap("tail2"), put("status")],
        )],
    ),
    Mutant::new(
        "rma-rw-no-rest",
        RMA_RW,
        "the last reader that leaves a counter does not set it to 0",
        &[Answer(compare_and_swap("counter").reading(), INSIDE)],
    ),
];
