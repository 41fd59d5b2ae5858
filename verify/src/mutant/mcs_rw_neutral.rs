//! Mutants of the fair MCS reader-writer lock, the two defects of the published one among them.

use super::Rule::{Answer, AsStore, ClaimSuccess, Late, See, Skip, Unmarked};
use super::{Mutant, compare_and_swap, fetch_add, flush, get, put};
use crate::network::Network;

const NEUTRAL: &[&str] = &["mcs-rw-neutral"];

/// The bits of an identity that hold the number of the acquisition.
const NUMBER: u64 = ((1 << 31) - 1) << 32;
const READER: u64 = 2;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "neutral-no-second-look",
        NEUTRAL,
        "the reader that lowers reader_count to 0 does not look at it again: the published lock's first defect",
        &[Answer(get("reader_count").reading(), 0)],
    )
    .stands_for("neutral: no second look at reader_count"),
    Mutant::new(
        "neutral-untagged",
        NEUTRAL,
        "identities lack the number of the acquisition: the published lock's second defect",
        &[Unmarked(NUMBER)],
    )
    .stands_for("neutral: untagged next_writer (the ABA)"),
    Mutant::new(
        "neutral-wake-first",
        NEUTRAL,
        "a reader is woken before it is counted",
        &[Late(&[fetch_add("reader_count").of(1)], &[put("unblocked").another()])],
    )
    .stands_for("neutral: reader_count++ after the wake-up"),
    Mutant::new(
        "neutral-late-next_writer",
        NEUTRAL,
        "a reader that leaves uncounts itself before it sets next_writer",
        &[Late(&[put("next_writer").reading(), flush().another().reading()], &[fetch_add("reader_count").releasing()])],
    ),
    Mutant::new(
        "neutral-unflushed-next_writer",
        NEUTRAL,
        "next_writer is not flushed before reader_count is lowered or looked at",
        &[Skip(flush().another())],
    )
    .on(Network::LatePuts),
    Mutant::new(
        "neutral-no-prepare",
        NEUTRAL,
        "the resets of the last acquisition are not flushed before the node is published",
        &[Skip(flush().own())],
    )
    .on(Network::LatePuts),
    Mutant::new(
        "neutral-tail-store",
        NEUTRAL,
        "the release stores nil to the tail without comparing",
        &[AsStore(compare_and_swap("tail"))],
    ),
    Mutant::new("neutral-stale-next", NEUTRAL, "the link to the successor is not reset", &[Skip(put("next").own())])
        .leaves(&["next"]),
    Mutant::new("neutral-stale-state", NEUTRAL, "a reader stays ACTIVE when it leaves", &[Skip(put("state").own())])
        .leaves(&["state"]),
    Mutant::new(
        "neutral-state-store",
        NEUTRAL,
        "a reader registers with its predecessor without comparing",
        &[AsStore(compare_and_swap("state"))],
    ),
    Mutant::new(
        "neutral-no-let-in",
        NEUTRAL,
        "a reader does not let in the one that has registered with it",
        &[See(fetch_add("state"), |state| state & !READER)],
    ),
    Mutant::new(
        "neutral-uncounted",
        NEUTRAL,
        "a reader that finds the queue empty is not counted",
        &[Skip(fetch_add("reader_count").acquiring())],
    ),
    Mutant::new(
        "neutral-reader-wakes-always",
        NEUTRAL,
        "the last reader wakes the writer even if another has taken it from next_writer",
        &[ClaimSuccess(compare_and_swap("next_writer").reading())],
    ),
    Mutant::new(
        "neutral-writer-enters-always",
        NEUTRAL,
        "a writer that sees no reader enters even if one has taken it from next_writer",
        &[ClaimSuccess(compare_and_swap("next_writer").writing())],
    ),
    Mutant::new(
        "neutral-late-count",
        NEUTRAL,
        "a reader that lets itself in counts itself after it has linked itself",
        &[Late(&[fetch_add("reader_count").acquiring().of(1)], &[put("next").another()])],
    )
    .equivalent(
        "until it is counted its predecessor may be the last one, but then takes the second look, or is counted",
    )
    .on(Network::LatePuts),
];
