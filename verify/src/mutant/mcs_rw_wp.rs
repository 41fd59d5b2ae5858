//! Mutants of the MCS reader-writer lock with writer preference.

use super::Rule::{Answer, AsStore, Late, LookAgain, See, Skip, Split, Value, ZeroFirst};
use super::{Mutant, compare_and_swap, fetch_add, fetch_store, flush, put, wait_until};
use crate::network::Network;

const W1: u64 = 1;
const W2: u64 = 2;
const RF: u64 = 4;
const RC: u64 = 8;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["mcs-rw-wp"]
    "wp-no-window" "a writer does not look at RF, and sets W2 beside a reader that is in the window"
        [See(fetch_add("state").of(W1), |state| state & !RF)].stands_for("WP: ignore the RF window");
    "wp-no-w2" "the reader in the window does not set W2"
        [Skip(fetch_add("state").reading().of(W2))].stands_for("WP: omit W2");
    "wp-second-look" "a reader that has cleared RF looks again, and sets W2 if it finds W1 and not W2"
        [LookAgain(fetch_add("state").reading().acquiring(), |old, now| match old & RF {
            0 => old,
            _ if now & (W1 | W2) == W1 => now,
            _ => now & !W1,
        })];
    "wp-second-look-at-w1" "a reader that has cleared RF looks again, and sets W2 if it finds W1, whether W2 is set or not"
        [LookAgain(fetch_add("state").reading().acquiring(), |old, now| if old & RF == 0 { old } else { now })];
    "wp-wake-first" "a reader is woken before it is counted"
        [Late(&[fetch_add("state").reading().of(RC)], &[put("unblocked").another()])]
            .stands_for("WP: wake before reader_count++");
    "wp-uncounted-cascade" "a reader that another one lets in is not counted"
        [Skip(fetch_add("state").reading().of(RC))];
    "wp-late-reset" "a reader resets its flag after it has put itself on the stack, instead of after the last wait"
        [ZeroFirst(wait_until("unblocked").reading())];
    "wp-no-cascade" "a woken reader does not wake the next"
        [Skip(put("unblocked").another().reading().acquiring().after_wait())];
    "wp-any-witness" "every reader that leaves after W2 assumes that it is the last one"
        [See(fetch_add("state").reading().releasing(), |old| old % RC + RC)];
    "wp-no-witness" "the last reader does not wake the writer"
        [Skip(put("unblocked").another().reading().releasing())];
    "wp-keeps-w1" "a writer that leaves clears W2 only"
        [Value(fetch_add("state").writing().releasing().of((W1 | W2).wrapping_neg()), |_| W2.wrapping_neg())]
            .leaves(&["state"]);
    "wp-interest-first" "W1 is set before w_hd"
        [Late(&[put("w_hd"), flush().another()], &[fetch_add("state").of(W1)])];
    "wp-first-store" "the first try of a writer stores W1 and W2 without comparing"
        [AsStore(compare_and_swap("state"))];
    "wp-split-swap" "a reader puts itself on the stack by a get and a put"
        [Split(fetch_store("r_hd").reading())];
    "wp-stale-next" "the link to the next writer is not reset"
        [Skip(put("next").own())].leaves(&["next"]);
    "wp-no-prepare" "the resets of the last acquisition are not flushed before the node is published"
        [Skip(flush().own())].on(Network::LatePuts);
    "wp-unflushed-w_hd" "w_hd is not flushed before W1 is set"
        [Skip(flush().another())].on(Network::LatePuts);
    "wp-no-first-try" "a writer does not try to take the free lock at once"
        [Answer(compare_and_swap("state"), W1)]
            .equivalent("it goes on as the paper's writer, whose next two steps do the same if no rank is in between")
            .on(Network::LatePuts);
};
