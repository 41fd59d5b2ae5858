//! Mutants of the hierarchical window lock.

use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, Change, ClaimSuccess, Late, See, Skip, Split};
use super::{Mutant, compare_and_swap, fetch_add, fetch_store, get, put, wait_until};

const HIERARCHICAL: &[&str] = &["hierarchical"];

/// One holder of a lock_all in a leaf, and one of a shared lock in a target.
const ONE: u64 = 1 << 32;
/// The bits of the closer of a leaf, and of the waiter for a target.
const POINTER: u64 = ONE - 1;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "hierarchical-no-phase",
        HIERARCHICAL,
        "a leaf is opened without waiting for exclusive locks to end",
        &[Answer(wait_until("unblocked").of_all(), 1)],
    ),
    Mutant::new(
        "hierarchical-unregistered",
        HIERARCHICAL,
        "a leaf is opened without being registered in the lowest word of the tree",
        &[Answer(fetch_add("present_0").of_all(), 0)],
    ),
    Mutant::new(
        "hierarchical-split-arrival",
        HIERARCHICAL,
        "lock_all counts itself in the leaf by a get and a put",
        &[Split(fetch_add("leaf").of_all().acquiring().of(ONE))],
    ),
    Mutant::new(
        "hierarchical-blind-root",
        HIERARCHICAL,
        "an exclusive lock does not look whether leaves are open",
        &[See(get("present_1").writing(), |_| 0)],
    ),
    Mutant::new(
        "hierarchical-stale-root",
        HIERARCHICAL,
        "a rank that has waited takes the only leaf for open, without another look",
        &[See(get("present_0").writing().after_wait(), |_| 1)],
    )
    .stands_for("hierarchical: the revoker does not look again (above two levels of the tree that is only slower)"),
    Mutant::new(
        "hierarchical-forgotten-leaf",
        HIERARCHICAL,
        "of the leaves below a word of the tree, one is not closed",
        &[See(fetch_store("present_0").writing(), |bits| bits & bits.wrapping_sub(1))],
    ),
    Mutant::new(
        "hierarchical-kept-bits",
        HIERARCHICAL,
        "the bits of closed leaves stay in the tree",
        &[Change(fetch_store("present_0").writing(), |call| match call {
            Call::FetchStore { at, .. } => Call::Get { at },
            other => other,
        })],
    ),
    Mutant::new(
        "hierarchical-no-drain",
        HIERARCHICAL,
        "an exclusive lock does not wait until the closed leaves have been left",
        &[Answer(wait_until("drained"), 1)],
    ),
    Mutant::new(
        "hierarchical-early-root",
        HIERARCHICAL,
        "the root is zeroed before the closed leaves have been left",
        &[Late(&[wait_until("drained"), fetch_add("drained").own()], &[fetch_store("present_1")])],
    ),
    Mutant::new(
        "hierarchical-silent-departure",
        HIERARCHICAL,
        "the last holder that leaves a closing leaf does not tell",
        &[Skip(fetch_add("drained").another())],
    ),
    Mutant::new(
        "hierarchical-silent-attempt",
        HIERARCHICAL,
        "an attempt that leaves a closing leaf does not look whether it is the last one",
        &[See(fetch_add("leaf").of_all().acquiring().of(ONE.wrapping_neg()), |leaf| leaf & !POINTER)],
    ),
    Mutant::new(
        "hierarchical-unchecked-claim",
        HIERARCHICAL,
        "whoever finds itself the last in a closing leaf tells, whether somebody else has told already or not",
        &[ClaimSuccess(compare_and_swap("leaf").of_all())],
    ),
    Mutant::new(
        "hierarchical-unchecked-close",
        HIERARCHICAL,
        "a leaf counts as closed and left without a look",
        &[ClaimSuccess(compare_and_swap("leaf").writing())],
    ),
    Mutant::new(
        "hierarchical-blind-shared",
        HIERARCHICAL,
        "a shared lock does not look at the target's exclusive bit",
        &[See(fetch_add("target").reading().acquiring().of(ONE), |target| target & POINTER)],
    ),
    Mutant::new(
        "hierarchical-no-grant",
        HIERARCHICAL,
        "the waiter for a target is let in, and not told",
        &[Skip(put("granted").another())],
    ),
    Mutant::new(
        "hierarchical-unchecked-grant",
        HIERARCHICAL,
        "the waiter for a target is told that it is in without a look at whether that was right",
        &[ClaimSuccess(compare_and_swap("target").releasing())],
    ),
    Mutant::new(
        "hierarchical-no-grant-by-attempts",
        HIERARCHICAL,
        "a shared attempt that takes its count back does not let the waiter in",
        &[See(fetch_add("target").reading().acquiring().of(ONE.wrapping_neg()), |target| target & !POINTER)],
    ),
];
