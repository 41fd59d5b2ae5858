//! Mutants of the CNA mutex.

use super::Rule::{Answer, AsStore, ClaimSuccess, See, Skip, Split, Twice, Value, ZeroFirst};
use super::{Mutant, compare_and_swap, fetch_store, flush, put, wait_until};
use crate::Form;
use crate::network::Network;

/// In `spin`: the lock, and no secondary queue.
const ALONE: u64 = 1 << 46;
/// In `spin`: the pointer of the last rank of the secondary queue.
const LAST: u64 = 0x7f_ffff << 23;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["cna"]
    "cna-forgets-queue" "a rank that is woken forgets the secondary queue"
        [See(wait_until("spin"), |_| ALONE)];
    "cna-no-last" "a rank that is woken does not learn the end of the secondary queue, and takes the lock for free"
        [Value(put("spin").another(), |spin| spin & !LAST)];
    "cna-kept-link" "the last rank of the secondary queue keeps its link to the main queue"
        [Skip(put("next").another().releasing().of(0))];
    "cna-no-join" "the two queues are not linked"
        [Skip(put("next").another().releasing())];
    "cna-no-link" "a rank does not link itself"
        [Skip(put("next").another().acquiring())];
    "cna-tail-store" "the release stores the end of the secondary queue to the tail without comparing"
        [AsStore(compare_and_swap("tail"))];
    "cna-no-wait" "a rank with a predecessor does not wait"
        [Answer(wait_until("spin"), ALONE)];
    "cna-no-wake-up" "the next rank is not woken"
        [Skip(put("spin").another())];
    "cna-two-wake-ups" "the next rank is woken twice"
        [Twice(put("spin").another())];
    "cna-no-reset" "the flag is not reset after the wait"
        [Skip(put("spin").own())].leaves(&["spin"]);
    "cna-late-reset" "a rank resets its flag after it has linked itself, instead of after the last wait"
        [ZeroFirst(wait_until("spin"))];
    "cna-stale-next" "the link to the successor is not reset"
        [Skip(put("next").own())].leaves(&["next"]);
    "cna-split-swap" "the swap of the tail is a get and a put"
        [Split(fetch_store("tail"))];
    "cna-try-unchecked" "a try does not check whether the queue was empty"
        [ClaimSuccess(compare_and_swap("tail").acquiring())].when(Form::Try);
    "cna-no-prepare" "a rank does not flush the resets of its own words before it arrives again"
        [Skip(flush().own())].on(Network::LatePuts);
    "cna-no-flush" "the nil at the end of the secondary queue is not complete when the lock is passed on"
        [Skip(flush().another())].on(Network::LatePuts);
};
