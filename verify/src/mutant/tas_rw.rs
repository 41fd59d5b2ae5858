//! Mutants of the test-and-set reader-writer lock.

use rmalab_atomics::controlled::Call;

use super::Rule::{AsStore, Change, ClaimSuccess, See, Skip, Split};
use super::{Mutant, compare_and_swap, fetch_add, get};

const TAS_RW: &[&str] = &["tas-rw"];

const WRITER: u64 = 1;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("tas-rw-uncounted", TAS_RW, "readers are not counted", &[Skip(fetch_add("lock").reading())]),
    Mutant::new(
        "tas-rw-blind-reader",
        TAS_RW,
        "a reader does not look for a writer when it counts itself",
        &[See(fetch_add("lock").reading().acquiring(), |lock| lock & !WRITER)],
    ),
    Mutant::new(
        "tas-rw-impatient-reader",
        TAS_RW,
        "a reader that waits enters at its first poll",
        &[See(get("lock").reading(), |lock| lock & !WRITER)],
    ),
    Mutant::new(
        "tas-rw-half-decrement",
        TAS_RW,
        "a reader that leaves subtracts 1, which is the writer's bit",
        &[Change(fetch_add("lock").reading().releasing(), |call| match call {
            Call::FetchAdd { at, .. } => Call::FetchAdd { at, value: 1_u64.wrapping_neg() },
            other => other,
        })],
    ),
    Mutant::new(
        "tas-rw-release-store",
        TAS_RW,
        "a writer that leaves stores 0, over the readers counted since",
        &[Change(fetch_add("lock").writing().releasing(), |call| match call {
            Call::FetchAdd { at, .. } => Call::FetchStore { at, value: 0 },
            other => other,
        })],
    ),
    Mutant::new(
        "tas-rw-split-count",
        TAS_RW,
        "a reader counts itself by a get and a put",
        &[Split(fetch_add("lock").reading().acquiring())],
    ),
    Mutant::new(
        "tas-rw-writer-store",
        TAS_RW,
        "a writer stores its bit without comparing",
        &[AsStore(compare_and_swap("lock"))],
    ),
    Mutant::new(
        "tas-rw-unchecked",
        TAS_RW,
        "a writer does not look at whether it has set its bit",
        &[ClaimSuccess(compare_and_swap("lock"))],
    ),
];
