//! Mutants of the hierarchical window lock.

use super::Rule::{Answer, AsGet, ClaimSuccess, Late, See, Skip, Split};
use super::{Mutant, bulk_get, compare_and_swap, fetch_add, fetch_store, get, put, wait_until};

/// One holder of a lock_all in a leaf, and one holder of a shared lock in a target.
const ONE: u64 = 1 << 32;
/// The bits of the rank that has closed a leaf's gate, and of the rank that waits for a target.
const POINTER: u64 = ONE - 1;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["hierarchical"]
    "hierarchical-no-phase" "a gate is opened without waiting for exclusive locks to end"
        [Answer(wait_until("unblocked").of_all(), 1)];
    "hierarchical-unregistered" "a gate is opened without being registered in the lowest word of the tree"
        [Answer(fetch_add("present_0").of_all(), 0)];
    "hierarchical-split-arrival" "lock_all counts itself in the leaf by a get and a put"
        [Split(fetch_add("leaf").of_all().acquiring().of(ONE))];
    "hierarchical-blind-gate" "lock_all does not look at the gate"
        [See(get("gate").of_all(), |_| 1)];
    "hierarchical-look-first" "lock_all looks at the gate before it counts itself"
        [Late(&[fetch_add("leaf").of_all().acquiring().of(ONE)], &[get("gate").of_all()])];
    "hierarchical-count-first" "an exclusive lock reads the counts before it has closed the gates"
        [Late(&[fetch_store("gate").writing()], &[bulk_get("leaf")])];
    "hierarchical-blind-root" "an exclusive lock does not check whether gates are open"
        [See(get("present_1").writing(), |_| 0)];
    "hierarchical-forgotten-gate" "of the gates below a word of the tree, one is not closed"
        [See(fetch_store("present_0").writing(), |bits| bits & bits.wrapping_sub(1))];
    "hierarchical-kept-bits" "the bits of closed gates stay in the tree"
        [AsGet(fetch_store("present_0").writing())];
    "hierarchical-no-drain" "an exclusive lock does not wait until the leaves of closed gates have been left"
        [Answer(wait_until("drained"), 1)];
    "hierarchical-early-root" "the root is zeroed before the leaves of closed gates have been left"
        [Late(&[wait_until("drained"), fetch_add("drained").own()], &[fetch_store("present_1")])];
    "hierarchical-silent-departure" "the last holder that leaves a closing leaf does not notify the closer"
        [Skip(fetch_add("drained").another())];
    "hierarchical-silent-attempt" "an attempt that leaves a closing leaf does not check whether it is the last one"
        [See(fetch_add("leaf").of_all().acquiring().of(ONE.wrapping_neg()), |leaf| leaf & !POINTER)];
    "hierarchical-unchecked-claim"
        "each rank that finds itself the last in a closing leaf notifies the closer, even if another rank already has"
        [ClaimSuccess(compare_and_swap("leaf").of_all())];
    "hierarchical-blind-close" "an exclusive lock does not look at the counts of leaves"
        [See(bulk_get("leaf"), |_| 0)];
    "hierarchical-unchecked-close" "a leaf that its holders have left meanwhile counts as left, whoever has come since"
        [ClaimSuccess(compare_and_swap("leaf").writing())];
    "hierarchical-blind-shared" "a shared lock does not look at the target's exclusive bit"
        [See(fetch_add("target").reading().acquiring().of(ONE), |target| target & POINTER)];
    "hierarchical-no-grant" "the waiter for a target is let in, but not notified"
        [Skip(put("granted").another())];
    "hierarchical-unchecked-grant"
        "the waiter for a target is notified even if the compare-and-swap that lets it in has failed"
        [ClaimSuccess(compare_and_swap("target").releasing())];
    "hierarchical-no-grant-by-attempts" "a shared attempt that takes its count back does not let the waiter in"
        [See(fetch_add("target").reading().acquiring().of(ONE.wrapping_neg()), |target| target & !POINTER)];
};
