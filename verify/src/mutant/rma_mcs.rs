//! Mutants of RMA-MCS, and of its tree of queues, which RMA-RW shares: `rma-mcs` has T_L = 2, `rma-mcs-1` T_L = 1.

use rmalab_locks::rma_mcs::ACQUIRE_PARENT;

use super::Rule::{AsGet, AsStore, AsSwap, Late, See, Skip, Value};
use super::{Mutant, compare_and_swap, fetch_store, flush, get, put, wait_until};
use crate::network::Network;

/// The lock, passed once in each level.
const ONCE: u64 = 0x1_0001_0001_0001;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["rma-mcs-1"]
    "rma-mcs-keeps-parent"
        "at the threshold, the parent's queue is not released before the successor is sent there"
        [Skip(compare_and_swap("tail1"))].leaves(&["tail1"]);
    "rma-mcs-late-parent" "the successor is sent to the parent's queue before that queue is released"
        [Late(&[compare_and_swap("tail1")], &[put("status").of(ACQUIRE_PARENT)])];
    "rma-mcs-no-parent"
        "a successor that is to enter the parent's queue gets the lock, which may have gone to another node"
        [Value(put("status").of(ACQUIRE_PARENT), |_| ONCE)];
    of ["rma-mcs"]
    "rma-mcs-always-parent" "a rank that has waited always enters the parent's queue, even if it has got the lock"
        [See(wait_until("status"), |_| ACQUIRE_PARENT)];
    of ["rma-mcs-1"]
    "rma-mcs-stale-link" "the link to the next element is not reset"
        [AsGet(fetch_store("next1"))].leaves(&["next1"]);
    "rma-mcs-swapped-link" "the link to the next element is read and reset by one swap, which meets the put of the link"
        [AsSwap(get("next1"), 0)].on(Network::Hca);
    of ["rma-mcs"]
    "rma-mcs-stale-next" "the link between ranks of a node is not reset"
        [Skip(put("next2").of(0))].leaves(&["next2"]);
    "rma-mcs-stale-status" "a rank does not reset its status"
        [Skip(put("status").own())].leaves(&["status"]);
    "rma-mcs-tail-store" "the release of a node's queue stores nil without comparing"
        [AsStore(compare_and_swap("tail2"))];
    "rma-mcs-no-prepare" "the resets of a rank's words are not flushed before it enters a queue"
        [Skip(flush().own())].on(Network::LatePuts);
};
