//! Mutants of the MCS reader-writer lock with writer preference.

use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, AsStore, Change, Late, See, Skip, Split, ZeroFirst};
use super::{Mutant, compare_and_swap, fetch_add, fetch_store, flush, put, wait_until};
use crate::network::Network;

const WP: &[&str] = &["mcs-rw-wp"];

const W1: u64 = 1;
const W2: u64 = 2;
const RF: u64 = 4;
const RC: u64 = 8;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "wp-no-window",
        WP,
        "a writer does not look at RF, and sets W2 beside a reader that is in the window",
        &[See(fetch_add("state").of(W1), |state| state & !RF)],
    )
    .stands_for("WP: ignore the RF window"),
    Mutant::new(
        "wp-no-w2",
        WP,
        "the reader in the window does not set W2",
        &[Skip(fetch_add("state").reading().of(W2))],
    )
    .stands_for("WP: omit W2"),
    Mutant::new(
        "wp-wake-first",
        WP,
        "a reader is woken before it is counted",
        &[Late(&[fetch_add("state").reading().of(RC)], &[put("unblocked").another()])],
    )
    .stands_for("WP: wake before reader_count++"),
    Mutant::new(
        "wp-uncounted-cascade",
        WP,
        "a reader that another one lets in is not counted",
        &[Skip(fetch_add("state").reading().of(RC))],
    ),
    Mutant::new(
        "wp-late-reset",
        WP,
        "a reader resets its flag after it has put itself on the stack, instead of after the last wait",
        &[ZeroFirst(wait_until("unblocked").reading())],
    ),
    Mutant::new(
        "wp-no-cascade",
        WP,
        "a woken reader does not wake the next",
        &[Skip(put("unblocked").another().reading().acquiring().after_wait())],
    ),
    Mutant::new(
        "wp-any-witness",
        WP,
        "every reader that leaves after W2 takes itself for the last one",
        &[See(fetch_add("state").reading().releasing(), |old| old % RC + RC)],
    ),
    Mutant::new(
        "wp-no-witness",
        WP,
        "the last reader does not wake the writer",
        &[Skip(put("unblocked").another().reading().releasing())],
    ),
    Mutant::new(
        "wp-keeps-w1",
        WP,
        "a writer that leaves clears W2 only",
        &[Change(fetch_add("state").writing().releasing().of((W1 | W2).wrapping_neg()), |call| match call {
            Call::FetchAdd { at, .. } => Call::FetchAdd { at, value: W2.wrapping_neg() },
            other => other,
        })],
    )
    .leaves(&["state"]),
    Mutant::new(
        "wp-interest-first",
        WP,
        "W1 is set before w_hd",
        &[Late(&[put("w_hd"), flush().another()], &[fetch_add("state").of(W1)])],
    ),
    Mutant::new(
        "wp-first-store",
        WP,
        "the first try of a writer stores W1 and W2 without comparing",
        &[AsStore(compare_and_swap("state"))],
    ),
    Mutant::new(
        "wp-split-swap",
        WP,
        "a reader puts itself on the stack by a get and a put",
        &[Split(fetch_store("r_hd").reading())],
    ),
    Mutant::new("wp-stale-next", WP, "the link to the next writer is not reset", &[Skip(put("next").own())])
        .leaves(&["next"]),
    Mutant::new(
        "wp-no-prepare",
        WP,
        "the resets of the last acquisition are not flushed before the node is published",
        &[Skip(flush().own())],
    )
    .on(Network::LatePuts),
    Mutant::new("wp-unflushed-w_hd", WP, "w_hd is not flushed before W1 is set", &[Skip(flush().another())])
        .on(Network::LatePuts),
    Mutant::new(
        "wp-no-first-try",
        WP,
        "a writer does not try to take the free lock at once",
        &[Answer(compare_and_swap("state"), W1)],
    )
    .equivalent("it goes on as the paper's writer, whose next two steps do the same where nobody is in between")
    .on(Network::LatePuts),
];
