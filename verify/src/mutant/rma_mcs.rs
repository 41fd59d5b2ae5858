//! Mutants of RMA-MCS, and of the tree of queues that RMA-RW has, too.

use rmalab_atomics::controlled::Call;
use rmalab_locks::rma_mcs::ACQUIRE_PARENT;

use super::Rule::{AsStore, Change, Late, See, Skip};
use super::{Mutant, compare_and_swap, fetch_store, flush, get, put, wait_until};
use crate::network::Network;

/// With T_L = 2, and with T_L = 1.
const PASSES: &[&str] = &["rma-mcs"];
const HANDS_OVER: &[&str] = &["rma-mcs-1"];

/// The lock, passed once in each level.
const ONCE: u64 = 0x1_0001_0001_0001;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "rma-mcs-keeps-parent",
        HANDS_OVER,
        "at the threshold, the parent's queue is not released before the successor is told to enter it",
        &[Skip(compare_and_swap("tail1"))],
    )
    .leaves(&["tail1"]),
    Mutant::new(
        "rma-mcs-late-parent",
        HANDS_OVER,
        "the successor is told to enter the parent's queue before that is released",
        &[Late(&[compare_and_swap("tail1")], &[put("status").of(ACQUIRE_PARENT)])],
    ),
    Mutant::new(
        "rma-mcs-no-parent",
        HANDS_OVER,
        "a successor that is to enter the parent's queue gets the lock, which may have gone to another node",
        &[Change(put("status").of(ACQUIRE_PARENT), |call| match call {
            Call::Put { at, .. } => Call::Put { at, value: ONCE },
            other => other,
        })],
    ),
    Mutant::new(
        "rma-mcs-always-parent",
        PASSES,
        "whoever has waited enters the parent's queue, even if it has got the lock",
        &[See(wait_until("status"), |_| ACQUIRE_PARENT)],
    ),
    Mutant::new(
        "rma-mcs-stale-link",
        HANDS_OVER,
        "the link behind an element is not reset",
        &[Change(fetch_store("next1"), |call| match call {
            Call::FetchStore { at, .. } => Call::Get { at },
            other => other,
        })],
    )
    .leaves(&["next1"]),
    Mutant::new(
        "rma-mcs-swapped-link",
        HANDS_OVER,
        "the link behind an element is read and reset by one swap, which meets the put of the link",
        &[Change(get("next1"), |call| match call {
            Call::Get { at } => Call::FetchStore { at, value: 0 },
            other => other,
        })],
    )
    .on(Network::Hca),
    Mutant::new(
        "rma-mcs-stale-next",
        PASSES,
        "the link between ranks of a node is not reset",
        &[Skip(put("next2").of(0))],
    )
    .leaves(&["next2"]),
    Mutant::new("rma-mcs-stale-status", PASSES, "a rank does not reset its status", &[Skip(put("status").own())])
        .leaves(&["status"]),
    Mutant::new(
        "rma-mcs-tail-store",
        PASSES,
        "the release of a node's queue stores nil without comparing",
        &[AsStore(compare_and_swap("tail2"))],
    ),
    Mutant::new(
        "rma-mcs-no-prepare",
        PASSES,
        "the resets of a rank's words are not flushed before it enters a queue",
        &[Skip(flush().own())],
    )
    .on(Network::LatePuts),
];
