//! Mutants of the fair MCS reader-writer lock, including the two defects of the published one.

use super::Rule::{Answer, AsStore, ClaimSuccess, Late, See, Skip, Unmarked};
use super::{Mutant, compare_and_swap, fetch_add, flush, get, put};
use crate::network::Network;

/// The bits of an identity that contain the number of the acquisition.
const NUMBER: u64 = ((1 << 31) - 1) << 32;
const READER: u64 = 2;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["mcs-rw-neutral"]
    "neutral-no-second-look"
        "the reader that lowers reader_count to 0 does not look at it again: the published lock's first defect"
        [Answer(get("reader_count").reading(), 0)].stands_for("neutral: no second look at reader_count");
    "neutral-untagged" "identities lack the number of the acquisition: the published lock's second defect"
        [Unmarked(NUMBER)].stands_for("neutral: untagged next_writer (the ABA)");
    "neutral-wake-first" "a reader is woken before it is counted"
        [Late(&[fetch_add("reader_count").of(1)], &[put("unblocked").another()])]
            .stands_for("neutral: reader_count++ after the wake-up");
    "neutral-late-next_writer" "a reader that leaves uncounts itself before it sets next_writer"
        [Late(&[put("next_writer").reading(), flush().another().reading()], &[fetch_add("reader_count").releasing()])];
    "neutral-unflushed-next_writer" "next_writer is not flushed before reader_count is lowered or looked at"
        [Skip(flush().another())].on(Network::LatePuts);
    "neutral-no-prepare" "the resets of the last acquisition are not flushed before the node is published"
        [Skip(flush().own())].on(Network::LatePuts);
    "neutral-tail-store" "the release stores nil to the tail without comparing"
        [AsStore(compare_and_swap("tail"))];
    "neutral-stale-next" "the link to the successor is not reset"
        [Skip(put("next").own())].leaves(&["next"]);
    "neutral-stale-state" "a reader stays ACTIVE when it leaves"
        [Skip(put("state").own())].leaves(&["state"]);
    "neutral-state-store" "a reader registers with its predecessor without comparing"
        [AsStore(compare_and_swap("state"))];
    "neutral-no-let-in" "a reader does not let in the one that has registered with it"
        [See(fetch_add("state"), |state| state & !READER)];
    "neutral-uncounted" "a reader that finds the queue empty is not counted"
        [Skip(fetch_add("reader_count").acquiring())];
    "neutral-reader-wakes-always" "the last reader wakes the writer even if another has taken it from next_writer"
        [ClaimSuccess(compare_and_swap("next_writer").reading())];
    "neutral-writer-enters-always" "a writer that sees no reader enters even if one has taken it from next_writer"
        [ClaimSuccess(compare_and_swap("next_writer").writing())];
    "neutral-late-count" "a reader that lets itself in counts itself after it has linked itself"
        [Late(&[fetch_add("reader_count").acquiring().of(1)], &[put("next").another()])]
            .equivalent(
                "its predecessor may be the last reader until then, but then it takes the second look, or is counted"
            )
            .on(Network::LatePuts);
};
