//! The window layer without one of its parts.

use rmalab_atomics::Until;
use rmalab_atomics::controlled::Call;

use crate::mutant::Rule::{Answer, AsStore, AsSwap, Change, Posted, Pretend, See, Skip, Split, Value, ZeroAfter};
use crate::mutant::{
    Mutant, bulk_put, compare_and_swap, fence_everywhere, fetch_add, fetch_store, flush, get, put, table, wait_until,
};
use crate::network::Network::{Hca, LatePuts, OrderedBulk, Sc, UnorderedBulk};

/// One lock_all in the master of the two-level policy.
const ALL: u64 = 1 << 32;

/// All defects, each with the program that it breaks.
pub fn defects() -> &'static [Mutant] {
    DEFECTS
}

/// The swap that stores what a put stores.
fn by_swap(call: Call) -> Call {
    match call {
        Call::Put { at, value } => Call::FetchStore { at, value },
        other => other,
    }
}

const DEFECTS: &[Mutant] = table! {
    of ["fence-2"]
    "fence-no-flush" "a fence is its barrier alone"
        [Skip(flush())].on(UnorderedBulk);
    "fence-no-wait" "a barrier notifies, but does not wait"
        [Pretend(wait_until("barrier round 1"))].on(Sc);
    of ["fence-3"]
    "fence-one-round" "a barrier of 3 ranks has one round"
        [Skip(put("barrier round 2")), Pretend(wait_until("barrier round 2"))].on(Sc);
    of ["fence-centralized-3"]
    "barrier-early" "a rank takes itself for the last one at a barrier when one more is to arrive"
        [See(fetch_add("barrier count"), |count| count + 1)].on(Sc);
    "barrier-not-released" "the last rank that arrives at a barrier does not release the others"
        [Skip(put("barrier released").another())].on(Sc);
    of ["pscw-flags-2"]
    "complete-no-flush" "complete notifies the targets before the puts have arrived"
        [Skip(flush())].on(UnorderedBulk);
    "complete-by-atomic" "complete notifies the targets by an atomic, which does not follow the puts"
        [Change(put("A.completions").another(), by_swap)].on(OrderedBulk);
    "start-no-wait" "start accepts posts that have not arrived"
        [Pretend(wait_until("A.posts"))].on(Sc);
    of ["pscw-matching-2"]
    "wait-no-wait" "wait does not wait"
        [Pretend(wait_until("A.completions"))].on(Sc);
    of ["pscw-flags-2"]
    "post-no-number" "a post puts 1 instead of the epoch's number"
        [Value(put("A.posts").another(), |_| 1)].on(Sc);
    "complete-ahead" "complete puts the number of the next epoch"
        [Value(put("A.completions").another(), |number| number + 1)].on(Sc);
    of ["pscw-matching-2"]
    "complete-stores" "complete stores 1 instead of adding it"
        [AsSwap(fetch_add("A.completions").another(), 1), AsSwap(fetch_add("A.tail").another(), 1)].on(Sc);
    of ["pscw-matching-3"]
    "slot-overwritten" "two posts get one ticket, and the second one overwrites the first one's slot"
        [
            Split(fetch_add("A.tail")), Split(fetch_add("A.completions")),
            AsStore(compare_and_swap("A.posts").expecting(0)),
        ].on(Sc);
    of ["pscw-full-3"]
    "full-ring-waits"
        "a post that finds a ring full waits for the posts to its own rank, instead of taking those that have arrived"
        [Change(get("A.posts").own(), |call| match call {
            Call::Get { at } => Call::WaitUntil { own: at.disp, until: Until::Ne(0), deadline: None },
            other => other,
        })].on(Sc);
    of ["1E1A-two-level"]
    "unlock-no-flush" "unlock releases before the puts have arrived"
        [Skip(flush())].on(UnorderedBulk);
    "lock_all-uncounted" "lock_all neither counts itself nor checks for exclusive locks"
        [Answer(fetch_add("A.lock").of(ALL), 0), Answer(fetch_add("A.lock").of(ALL.wrapping_neg()), 0)].on(Sc);
    of ["flush-shared"]
    "flush-nothing" "flush does nothing"
        [Skip(flush())].on(UnorderedBulk);
    of ["maxloc-pair-2"]
    "accumulate-lock-not-taken" "every rank finds the lock of accumulates free"
        [Answer(fetch_store("A.accumulate"), 0), Pretend(compare_and_swap("A.accumulate"))].on(Sc);
    "accumulate-lock-kept" "no rank releases the lock of accumulates"
        [Pretend(compare_and_swap("A.accumulate").of(0))].on(Sc);
    "accumulate-no-flush" "an accumulate under the lock releases it before its put has arrived"
        [Skip(flush())].on(UnorderedBulk);
    of ["bias-2"]
    "bias-not-looked-at" "an update by atomics does not look at the mode"
        [Answer(get("A.mode").another(), 0)].on(Sc);
    "bias-taken-for-locked" "a run assumes the mode locked, under the lock as well"
        [Answer(get("A.mode").own(), 1)].on(Sc);
    "bias-no-wait" "no rank waits for the ranks that update by atomics"
        [Answer(get("A.busy").another(), 0)].on(Sc);
    "bias-no-fence" "no rank fences everywhere"
        [Skip(fence_everywhere())].on(LatePuts);
    "bias-not-busy" "an update by atomics does not announce itself"
        [Skip(put("A.busy"))].on(Sc);
    "bias-busy-early" "an update by atomics announces its end before it is done"
        [ZeroAfter(put("A.busy"))].on(Sc);
    "bias-busy-kept" "a rank that has updated by atomics stays busy"
        [Skip(put("A.busy").of(0))].on(Sc);
    of ["bias-runs"]
    "bias-runs-unlocked" "runs do not take the lock"
        [Answer(fetch_store("A.accumulate"), 0), Pretend(compare_and_swap("A.accumulate"))].on(Sc);
    of ["bias-2"]
    "bias-singles-unlocked" "an update by atomics does not take the lock where it should"
        [
            Answer(fetch_store("A.accumulate").another(), 0), Answer(fetch_store("A.rent").another(), 0),
            Pretend(compare_and_swap("A.accumulate").another()),
        ].on(Sc);
    "bias-mode-posted" "the mode is set to atomics by a put, which may arrive while another rank has the lock"
        [Posted(fetch_store("A.mode").of(0), 1)].on(LatePuts);
    "bias-no-flush" "a plain loop ends before its puts have arrived"
        [Skip(flush())].on(UnorderedBulk);
    of ["messages-full-2"]
    "message-no-flush" "the number of a packet's slot is put before its data have arrived"
        [Skip(flush())].on(UnorderedBulk);
    "message-by-atomic" "the number of a packet's slot is stored by an atomic, which does not follow the data"
        [Change(put("ring.number").another(), by_swap)].on(OrderedBulk);
    of ["messages-full-exchange"]
    "message-number-put" "the number of a packet's slot is put where an atomic may lose a put"
        [Posted(fetch_store("ring.number").another(), 0)].on(Hca);
    "message-not-nudged" "a rank that shows room does not wake the ranks that wait for it"
        [Skip(compare_and_swap("ring.number"))].on(Sc);
    of ["sum-u16-native"]
    "part-of-a-word-stored" "an element of 2 bytes is stored with the rest of its word as it was read"
        [AsStore(compare_and_swap("A.data"))].on(Sc);
    of ["sum-native"]
    "sum-by-get-and-put" "a sum is a get and a put"
        [Split(fetch_add("A.data").of(1)), Split(fetch_add("A.data").of(16))].on(Sc);
    of ["order-native"]
    "replace-posted" "an accumulate that replaces is a put, and nothing waits for it"
        [Posted(fetch_store("A.data"), 0)].on(LatePuts);
    of ["free"]
    "free-one-barrier" "free has no barrier after the clearing"
        [Pretend(wait_until("barrier round 1").of(2))].on(Sc);
    "free-late" "free has no barrier before the clearing"
        [Pretend(wait_until("barrier round 1").of(1))].on(Sc);
    "free-not-cleared" "free leaves the memory as it is"
        [Skip(bulk_put().of(0))].on(Sc);
};
