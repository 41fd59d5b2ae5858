//! Mutants of the gates of the robust hierarchical window lock. Its targets and its master are those of the robust two-level lock.
//!
//! Failures amid an opening or a closing show only where two other ranks go on, and such searches have too many states for the matrix. A
//! test of the lock (`locks/src/robust_hierarchical/deaths.rs`) fails a rank ahead of each of these operations.

use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, AsGet, Change, Late, Pretend, See, Untold};
use super::robust::{ALL, uncounted};
use super::{Mutant, bulk_get, compare_and_swap, failed, fetch_add, fetch_store, get};

/// In the master: gates may be open.
const GATES: u64 = 1 << 63;
/// The bit of the first rank of a leaf.
const FIRST: u64 = 1;

/// Without the addition if it takes ranks out of the count of lock_alls only.
fn counted_in_all(call: Call) -> Call {
    match call {
        Call::FetchAdd { value, .. } if value % ALL == 0 => uncounted(call),
        other => other,
    }
}

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["robust-hierarchical"]
    "robust-hierarchical-blind-gate" "lock_all does not look at the gate"
        [See(get("gate").of_all(), |_| 1)];
    "robust-hierarchical-look-first" "lock_all looks at the gate before it sets its bit in the leaf"
        [Late(&[fetch_add("leaf").of_all().acquiring().of(FIRST)], &[get("gate").of_all()])];
    "robust-hierarchical-blind-close" "an exclusive lock does not look at the leaves of closed gates"
        [See(bulk_get("leaf"), |_| 0)];
    "robust-hierarchical-no-drain" "an exclusive lock polls the leaf of a closed gate once, even if ranks are left in it"
        [See(get("leaf").writing(), |_| 0)];
    "robust-hierarchical-look-at-leaves-first" "an exclusive lock reads the leaves before it has closed the gates"
        [Late(&[fetch_store("gate").writing()], &[bulk_get("leaf")])];
    "robust-hierarchical-blind-master" "an exclusive lock does not check whether gates may be open"
        [See(fetch_add("master").writing().acquiring(), |master| master & !GATES)];
    "robust-hierarchical-blind-opening" "a gate is opened although exclusive locks are held"
        [See(fetch_add("master").of_all().acquiring(), |master| master & !(ALL - 1))];
    "robust-hierarchical-unregistered" "a gate is opened without being registered in the lowest word of the tree"
        [Answer(fetch_add("present_0").of_all(), 0)];
    "robust-hierarchical-kept-bits" "the bits of closed gates stay in the lowest word of the tree"
        [AsGet(fetch_store("present_0").writing())];
    "robust-hierarchical-forgotten-gate" "of the gates below a word of the tree, one is not closed"
        [See(get("present_0").writing(), |bits| bits & bits.wrapping_sub(1))];
    "robust-hierarchical-no-phase" "ranks open and close gates at the same time"
        [Answer(fetch_store("phase_tail"), 0), Pretend(compare_and_swap("phase_tail"))];
    "robust-hierarchical-untold" "the rank that takes over a target is not told"
        [Untold].after(1);
    "robust-hierarchical-deaf-close" "an exclusive lock waits for failed ranks in the leaves of closed gates"
        [Answer(failed().writing(), 0)].after(1);
    "robust-hierarchical-deaf-opening" "a rank that opens a gate waits for failed exclusive locks"
        [Answer(failed().of_all(), 0)].after(1);
    "robust-hierarchical-kept-exclusives" "a failed rank stays counted among the exclusive locks"
        [Change(fetch_add("master").of_all().acquiring(), uncounted)].after(1);
    "robust-hierarchical-kept-all" "a failed rank stays counted in lock_all"
        [Change(fetch_add("master").writing().acquiring(), counted_in_all)].after(1);
};
