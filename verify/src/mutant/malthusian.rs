//! Mutants of the Malthusian mutex.

use super::Rule::{Answer, AsStore, ClaimSuccess, See, Skip, Split, Twice, Value, ZeroFirst};
use super::{Mutant, compare_and_swap, fetch_store, flush, get, put, wait_until};
use crate::Form;
use crate::network::Network;

/// In `spin`: the lock, and no passive rank.
const ALONE: u64 = 1 << 47;
/// In `spin`: the woken rank was passive.
const WAS_PASSIVE: u64 = 1 << 46;
/// In `spin`: the pointer of the newest passive rank.
const NEWEST: u64 = 0x7f_ffff;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["malthusian"]
    "malthusian-forgets-passive" "a rank that is woken forgets the passive ranks"
        [See(wait_until("spin"), |_| ALONE)];
    "malthusian-no-newest" "a rank that is woken does not learn the newest passive rank"
        [Value(put("spin").another(), |spin| spin & !NEWEST)];
    "malthusian-kept-link" "a passive rank keeps its link to the queue"
        [Skip(put("next").another().releasing().of(0))];
    "malthusian-no-way-back" "a rank that becomes passive or returns gets no new link"
        [Skip(put("next").another().releasing())];
    "malthusian-no-link" "a rank does not link itself"
        [Skip(put("next").another().acquiring())];
    "malthusian-culls-last" "the only waiter becomes passive, and the lock goes to a rank that need not wait"
        [See(get("next").another(), |next| if next == 0 { 1 } else { next })];
    "malthusian-tail-store" "the release stores a passive rank to the tail without comparing"
        [AsStore(compare_and_swap("tail"))];
    "malthusian-no-wait" "a rank with a predecessor does not wait"
        [Answer(wait_until("spin"), ALONE)];
    "malthusian-no-wake-up" "the next rank is not woken"
        [Skip(put("spin").another())];
    "malthusian-two-wake-ups" "the next rank is woken twice"
        [Twice(put("spin").another())];
    "malthusian-no-reset" "the flag is not reset after the wait"
        [Skip(put("spin").own())].leaves(&["spin"]);
    "malthusian-late-reset" "a rank resets its flag after it has linked itself, instead of after the last wait"
        [ZeroFirst(wait_until("spin"))];
    "malthusian-stale-next" "the link to the successor is not reset"
        [Skip(put("next").own())].leaves(&["next"]);
    "malthusian-split-swap" "the swap of the tail is a get and a put"
        [Split(fetch_store("tail"))];
    "malthusian-try-unchecked" "a try does not check whether the queue was empty"
        [ClaimSuccess(compare_and_swap("tail").acquiring())].when(Form::Try);
    "malthusian-no-prepare" "a rank does not flush the resets of its own words before it arrives again"
        [Skip(flush().own())].on(Network::LatePuts);
    "malthusian-no-flush" "the words of a passive rank are not complete when the lock is passed on"
        [Skip(flush().another())].on(Network::LatePuts);
    "malthusian-no-newer" "a rank that becomes passive does not link the one before it to itself"
        [Skip(put("newer").another())];
    "malthusian-unmarked" "a passive rank is woken as one that was not"
        [Value(put("spin").another(), |spin| spin & !WAS_PASSIVE)];
    "malthusian-stale-stack" "a rank that is passive no more leaves its words of the stack as they are"
        [Skip(put("older").own()), Skip(put("newer").own())];
    of ["malthusian-4"]
    "malthusian-no-older" "a rank that becomes passive does not link itself to the one before it"
        [Skip(put("older").another())];
};
