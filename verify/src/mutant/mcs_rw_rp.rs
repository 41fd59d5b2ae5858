//! Mutants of the MCS reader-writer lock with reader preference, alone or as a window's global lock.

use super::Rule::{Answer, AsGet, AsStore, ClaimSuccess, Late, See, Skip, Twice, ZeroFirst};
use super::{Mutant, compare_and_swap, fetch_add, fetch_store, flush, get, put, wait_until};
use crate::network::Network;

const WIFLAG: u64 = 1;
const WAFLAG: u64 = 2;
const RC_INCR: u64 = 4;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["mcs-rw-rp", "global"]
    "rp-no-second-look" "a reader on the stack does not look at WAFLAG again"
        [Answer(get("rcnt").reading(), WAFLAG)].stands_for("RP: drop the second look at WAFLAG");
    of ["mcs-rw-rp"]
    "rp-late-reset" "a reader resets its flag after it has put itself on the stack, instead of after the last wait"
        [ZeroFirst(wait_until("unblocked").reading())].stands_for("RP: blocked=1 after SWAP(r_hd)");
    "rp-interest-first" "WIFLAG is set before w_hd"
        [Late(&[put("w_hd"), flush().another()], &[fetch_add("rcnt").of(WIFLAG)])]
            .stands_for("RP: WIFLAG set before w_hd");
    "rp-writer-store" "the writer that has set WIFLAG stores WAFLAG without comparing"
        [AsStore(compare_and_swap("rcnt").writing().expecting(WIFLAG))]
            .stands_for(
                "RP: writer acquire: CAS becomes a store (ours has two, and reaches this one if a reader leaves between)"
            );
    of ["mcs-rw-rp", "global"]
    "rp-first-store" "the first try of a writer stores WAFLAG without comparing"
        [AsStore(compare_and_swap("rcnt").writing().expecting(0))]
            .stands_for("RP: writer acquire: CAS becomes a store");
    of ["mcs-rw-rp"]
    "rp-reader-store" "the last reader stores WAFLAG without comparing"
        [AsStore(compare_and_swap("rcnt").reading())].stands_for("RP: reader release: CAS becomes a store");
    "rp-wake-first" "a writer that leaves wakes readers before it clears WAFLAG"
        [
            Late(
                &[fetch_add("rcnt").writing().of(WAFLAG.wrapping_neg())],
                &[fetch_store("r_hd"), put("unblocked").another()],
            ),
        ].stands_for("RP: wake readers before clearing WAFLAG");
    "rp-no-cascade" "a woken reader does not wake the next"
        [Skip(put("unblocked").another().reading().acquiring().after_wait())].stands_for("RP: no cascade");
    of ["mcs-rw-rp", "global"]
    "rp-reader-wakes-always" "the last reader wakes the writer even if its compare-and-swap failed"
        [ClaimSuccess(compare_and_swap("rcnt").reading())]
            .stands_for("RP: wake the writer even if the CAS failed");
    of ["mcs-rw-rp"]
    "rp-writer-enters-always" "the writer that has set WIFLAG enters even if its compare-and-swap failed"
        [ClaimSuccess(compare_and_swap("rcnt").writing().expecting(WIFLAG))];
    "rp-stale-next" "the link to the next writer is not reset"
        [Skip(put("next").own())].leaves(&["next"]).stands_for("RP: stale `next` of an earlier acquisition");
    "rp-no-reset" "the flag is not reset after the wait"
        [Skip(put("unblocked").own().of(0))].leaves(&["unblocked"]);
    "rp-no-last-reader" "the last reader does not see that a writer is interested"
        [See(fetch_add("rcnt").reading().releasing(), |old| old & !WIFLAG)];
    "rp-no-readers-woken" "a writer that leaves does not look for waiting readers"
        [See(fetch_add("rcnt").writing().of(WAFLAG.wrapping_neg()), |_| WAFLAG)];
    "rp-two-wake-ups" "the last reader wakes the writer twice"
        [Twice(put("unblocked").another().reading().releasing())];
    "rp-no-prepare" "the resets of the last acquisition are not flushed before the node is published"
        [Skip(flush().own())].on(Network::LatePuts);
    "rp-unflushed-w_hd" "w_hd is not flushed before WIFLAG is set"
        [Skip(flush().another())].on(Network::LatePuts);
    "rp-keeps-w_hd" "w_hd is never set to nil"
        [AsGet(fetch_store("w_hd")), Skip(put("w_hd").of(0))]
            .leaves(&["w_hd"]).stands_for("RP without w_hd = nil (equivalent)")
            .equivalent("w_hd is read only after WIFLAG was seen, and the rank that sets WIFLAG has set w_hd earlier")
            .on(Network::LatePuts);
    "rp-no-first-try" "a writer does not try to take the free lock at once"
        [Answer(compare_and_swap("rcnt").writing().expecting(0), WIFLAG)]
            .equivalent("it goes on as the paper's writer, whose next two steps do the same if no rank is in between")
            .on(Network::LatePuts);
    "rp-always-takes-readers" "a writer that leaves takes r_hd even if no reader is counted"
        [See(fetch_add("rcnt").writing().of(WAFLAG.wrapping_neg()), |old| old | RC_INCR)]
            .equivalent("as in the paper; readers on the stack are counted, so there are none").on(Network::LatePuts);
    "rp-any-reader-tries" "every reader that leaves while a writer is interested tries to make it active"
        [See(fetch_add("rcnt").reading().releasing(), |old| if old & WIFLAG != 0 { RC_INCR + WIFLAG } else { old })]
            .equivalent("the compare-and-swap compares the whole word, so that it succeeds only after the last of them")
            .on(Network::LatePuts);
};
