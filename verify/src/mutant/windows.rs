//! Mutants of the window policies.

use super::Rule::{Answer, AsAttempt, AsSwap, Late, See, Skip, Split, TimesOut, Value};
use super::{Mutant, any_call, compare_and_swap, fetch_add, get, wait_until};
use crate::Form;
use crate::network::Network;
use rmalab_atomics::Rank;

/// One lock_all in the master.
const ALL: u64 = 1 << 32;
/// One exclusive lock in the master.
const EXCLUSIVES: u64 = 1;
/// The bit of an exclusive lock in a target.
const EXCLUSIVE: u64 = 1;
/// One shared lock in a target.
const SHARED: u64 = 2;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["global", "per-target", "two-level"]
    "lock_all-unchecked" "lock_all and unlock_all do nothing, as if the caller had asserted MPI_MODE_NOCHECK"
        [Answer(any_call().of_all(), 0)]
            .with_data()
            .stands_for("window: lock_all's NOCHECK test inverted");
    of ["two-level"]
    "two-level-no-master" "an exclusive lock skips the master"
        [Answer(fetch_add("master").writing(), 0), Answer(compare_and_swap("master"), 0)]
            .stands_for("two-level: exclusive skips the master");
    "two-level-blind-exclusive" "an exclusive lock counts itself in the master, but does not check for lock_alls"
        [See(fetch_add("master").writing().acquiring().of(EXCLUSIVES), |master| master % ALL)];
    "two-level-blind-shared" "a shared lock does not look at the exclusive lock's bit"
        [See(fetch_add("target").reading().acquiring(), |target| target & !EXCLUSIVE)];
    "two-level-blind-lock_all" "lock_all does not check for exclusive locks"
        [See(fetch_add("master").of_all().acquiring(), |master| master & !(ALL - 1))];
    "two-level-kept-count" "an exclusive lock's release does not take itself out of the master"
        [Skip(fetch_add("master").writing().releasing())].leaves(&["master"]);
    "two-level-release-store" "an exclusive lock's release stores 0, which erases the shared locks counted since"
        [AsSwap(fetch_add("target").writing().releasing(), 0)];
    "two-level-split-target" "the exclusive lock's compare-and-swap is a get and a put"
        [Split(compare_and_swap("target"))];
    "two-level-split-master" "lock_all counts itself by a get and a put"
        [Split(fetch_add("master").of_all().acquiring())];
    "two-level-wrong-half" "unlock_all subtracts 1 from the master, in the exclusive locks' half"
        [Value(fetch_add("master").of_all().releasing(), |_| EXCLUSIVES.wrapping_neg())];
    "two-level-published-retry"
        "an exclusive lock that retries adds itself to the master, and takes that back if there is a lock_all"
        [AsAttempt(compare_and_swap("master"), !(ALL - 1))]
            .stands_for("two-level as published: a weakly fair cycle in which no rank holds the lock");
    "two-level-kept-lock_all" "a lock_all that gives up stays counted"
        [Skip(fetch_add("master").of_all().acquiring().of(ALL.wrapping_neg()))].when(Form::Timed);
    "two-level-kept-exclusive" "a try of an exclusive lock that finds its target locked stays counted in the master"
        [Skip(fetch_add("master").writing().acquiring().of(EXCLUSIVES.wrapping_neg()))].when(Form::Try);
    "two-level-impatient" "a wait for a local word gives up at once"
        [TimesOut(wait_until("target"))].when(Form::Timed);
    "two-level-master-first" "an exclusive lock's release takes itself out of the master before the target"
        [Late(&[fetch_add("target").writing().releasing()], &[fetch_add("master")])]
            .stands_for("two-level: releases the master before the target (equivalent)")
            .equivalent(
                "the rank has left by then: a lock_all may enter, and other exclusive locks wait for the target"
            )
            .on(Network::LatePuts);
    of ["two-level-scan"]
    "two-level-scan-blind-exclusive" "an exclusive lock does not look for lock_alls"
        [See(get("master").writing().acquiring(), |master| master % ALL)];
    "two-level-scan-blind-lock_all" "lock_all does not look at the targets"
        [See(get("target").of_all(), |target| target & !EXCLUSIVE)];
    "two-level-scan-look-first" "lock_all looks at the targets before it counts itself"
        [Late(&[fetch_add("master").of_all().acquiring().of(ALL)], &[get("target").of_all()])];
    "two-level-scan-first-target" "lock_all looks at target 0 only"
        [Answer(get("target").of_all().not_of(Rank(0)), 0)];
    "two-level-scan-blind-shared" "a shared lock does not look at the exclusive lock's bit"
        [See(fetch_add("target").reading().acquiring(), |target| target & !EXCLUSIVE)];
    "two-level-scan-release-store" "an exclusive lock's release stores 0, which erases the shared locks counted since"
        [AsSwap(fetch_add("target").writing().releasing(), 0)];
    "two-level-scan-kept-bit" "an exclusive lock that finds a lock_all keeps its target's bit"
        [Skip(fetch_add("target").writing().acquiring())].leaves(&["target"]);
    "two-level-scan-kept-lock_all" "a lock_all that gives up stays counted"
        [Skip(fetch_add("master").of_all().acquiring().of(ALL.wrapping_neg()))].when(Form::Timed);
    "two-level-scan-kept-shared" "a try of a shared lock that finds its target locked stays counted there"
        [Skip(fetch_add("target").reading().acquiring().of(SHARED.wrapping_neg()))].when(Form::Try);
    of ["per-target"]
    "per-target-first-only" "lock_all locks target 0 only"
        [Answer(fetch_add("rcnt").of_all().not_of(Rank(0)), 0)];
    "per-target-kept" "unlock_all unlocks target 0 only"
        [Answer(fetch_add("rcnt").of_all().releasing().not_of(Rank(0)), 0)].leaves(&["rcnt"]);
};
