//! Mutants of the cohort mutex.

use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, AsStore, Change, See, Skip};
use super::{Mutant, compare_and_swap, fetch_store, flush, put, wait_until};
use crate::network::Network;

const COHORT: &[&str] = &["cohort"];

/// Another state in the place of the one that is passed on.
fn passed(call: Call, as_state: u64) -> Call {
    match call {
        Call::Put { at, .. } => Call::Put { at, value: as_state },
        other => other,
    }
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "cohort-no-global",
        COHORT,
        "a rank takes the global lock for free, whoever has it",
        &[Answer(fetch_store("global_tail"), 0)],
    ),
    Mutant::new(
        "cohort-global-store",
        COHORT,
        "the global release stores nil to the tail without comparing",
        &[AsStore(compare_and_swap("global_tail"))],
    ),
    Mutant::new(
        "cohort-released-as-held",
        COHORT,
        "a rank that gets the local lock alone takes it for both",
        &[Change(put("state").another().of(1), |call| passed(call, 2))],
    ),
    Mutant::new(
        "cohort-held-as-released",
        COHORT,
        "a rank that gets both locks takes it for the local one alone",
        &[Change(put("state").another().of(2), |call| passed(call, 1))],
    ),
    Mutant::new(
        "cohort-no-meeting",
        COHORT,
        "a rank that releases does not wait for the successor that has yet to announce itself",
        &[Answer(wait_until("global").releasing(), 1)],
    ),
    Mutant::new(
        "cohort-blind-successor",
        COHORT,
        "a successor does not look for a releasing rank that waits for it",
        &[See(fetch_store("global_next").acquiring(), |_| 0)],
    ),
    Mutant::new(
        "cohort-silent-successor",
        COHORT,
        "a successor that finds a releasing rank enters, and does not tell it",
        &[Skip(put("global").acquiring().another())],
    ),
    Mutant::new(
        "cohort-stale-global-next",
        COHORT,
        "the link to the next cohort is not reset",
        &[Skip(fetch_store("global_next").releasing())],
    )
    .leaves(&["global_next"]),
    Mutant::new(
        "cohort-no-flush",
        COHORT,
        "a rank does not flush the resets of its own words before it is visible in a queue",
        &[Skip(flush().own())],
    )
    .on(Network::LatePuts),
];
