//! Mutants of the window policies.

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, AsAttempt, Change, Late, See, Skip, Split};
use super::{Mutant, any_call, compare_and_swap, fetch_add};
use crate::network::Network;

const TWO_LEVEL: &[&str] = &["two-level"];
const PER_TARGET: &[&str] = &["per-target"];

/// One lock_all in the master.
const ALL: u64 = 1 << 32;
/// One exclusive lock in the master.
const EXCLUSIVES: u64 = 1;
/// The bit of an exclusive lock in a target.
const EXCLUSIVE: u64 = 1;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "lock_all-unchecked",
        &["global", "per-target", "two-level"],
        "lock_all and unlock_all do nothing, as if the caller had asserted MPI_MODE_NOCHECK",
        &[Answer(any_call().of_all(), 0)],
    )
    .with_data()
    .stands_for("window: lock_all's NOCHECK test inverted"),
    Mutant::new(
        "two-level-no-master",
        TWO_LEVEL,
        "an exclusive lock skips the master",
        &[Answer(fetch_add("master").writing(), 0), Answer(compare_and_swap("master"), 0)],
    )
    .stands_for("two-level: exclusive skips the master"),
    Mutant::new(
        "two-level-blind-exclusive",
        TWO_LEVEL,
        "an exclusive lock is counted in the master, and does not look for lock_alls",
        &[See(fetch_add("master").writing().acquiring().of(EXCLUSIVES), |master| master % ALL)],
    ),
    Mutant::new(
        "two-level-blind-shared",
        TWO_LEVEL,
        "a shared lock does not look at the exclusive lock's bit",
        &[See(fetch_add("target").reading().acquiring(), |target| target & !EXCLUSIVE)],
    ),
    Mutant::new(
        "two-level-blind-lock_all",
        TWO_LEVEL,
        "lock_all does not look for exclusive locks",
        &[See(fetch_add("master").of_all().acquiring(), |master| master & !(ALL - 1))],
    ),
    Mutant::new(
        "two-level-kept-count",
        TWO_LEVEL,
        "an exclusive lock's release does not take itself out of the master",
        &[Skip(fetch_add("master").writing().releasing())],
    )
    .leaves(&["master"]),
    Mutant::new(
        "two-level-release-store",
        TWO_LEVEL,
        "an exclusive lock's release stores 0, over the shared locks counted since",
        &[Change(fetch_add("target").writing().releasing(), |call| match call {
            Call::FetchAdd { at, .. } => Call::FetchStore { at, value: 0 },
            other => other,
        })],
    ),
    Mutant::new(
        "two-level-split-target",
        TWO_LEVEL,
        "the exclusive lock's compare-and-swap is a get and a put",
        &[Split(compare_and_swap("target"))],
    ),
    Mutant::new(
        "two-level-split-master",
        TWO_LEVEL,
        "lock_all counts itself by a get and a put",
        &[Split(fetch_add("master").of_all().acquiring())],
    ),
    Mutant::new(
        "two-level-wrong-half",
        TWO_LEVEL,
        "unlock_all subtracts 1 from the master, in the exclusive locks' half",
        &[Change(fetch_add("master").of_all().releasing(), |call| match call {
            Call::FetchAdd { at, .. } => Call::FetchAdd { at, value: EXCLUSIVES.wrapping_neg() },
            other => other,
        })],
    ),
    Mutant::new(
        "two-level-published-retry",
        TWO_LEVEL,
        "an exclusive lock that retries adds itself to the master, and takes that back if there is a lock_all",
        &[AsAttempt(compare_and_swap("master"), !(ALL - 1))],
    )
    .stands_for("two-level as published: a weakly fair cycle in which nobody holds the lock"),
    Mutant::new(
        "two-level-master-first",
        TWO_LEVEL,
        "an exclusive lock's release takes itself out of the master before the target",
        &[Late(&[fetch_add("target").writing().releasing()], &[fetch_add("master")])],
    )
    .stands_for("two-level: releases the master before the target (equivalent)")
    .equivalent("the rank has left by then: a lock_all may enter, and other exclusive locks wait for the target")
    .on(Network::LatePuts),
    Mutant::new(
        "per-target-first-only",
        PER_TARGET,
        "lock_all locks target 0 only",
        &[Answer(fetch_add("rcnt").of_all().not_of(Rank(0)), 0)],
    ),
    Mutant::new(
        "per-target-kept",
        PER_TARGET,
        "unlock_all unlocks target 0 only",
        &[Answer(fetch_add("rcnt").of_all().releasing().not_of(Rank(0)), 0)],
    )
    .leaves(&["rcnt"]),
];
