//! Mutants of the mutex whose ranks fail and come back.

use rmalab_atomics::controlled::Call;

use super::Rule::{AsStore, Change, See, Skip};
use super::{Mutant, compare_and_swap, flush, get, put};
use crate::network::Network;

/// What an announcement says, in its lowest three bits.
const WHAT: u64 = 7;
const TAKES: u64 = 1;
const HAS: u64 = 2;
const LOST: u64 = 3;
const LEAVES: u64 = 4;
const AWAITS: u64 = 5;

/// The announcement is not made if it says `what`.
fn unsaid(call: Call, what: u64) -> Call {
    match call {
        Call::Put { at, value } if value & WHAT == what => Call::Get { at },
        other => other,
    }
}

/// Nothing, in place of an announcement of `what`.
fn unseen(announced: u64, what: u64) -> u64 {
    if announced & WHAT == what { announced & !WHAT } else { announced }
}

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["rme-mcs"]
    "rme-mcs-leaves-unsaid" "a rank does not announce that it leaves"
        [Change(put("announced"), |call| unsaid(call, LEAVES))].returning(1);
    "rme-mcs-takes-unsaid" "a rank does not announce that it takes a place"
        [Change(put("announced"), |call| unsaid(call, TAKES))].returning(1);
    "rme-mcs-link-by-put" "a rank that comes back links itself without a comparison, maybe to a later acquisition"
        [AsStore(compare_and_swap("next"))].returning(1);
    "rme-mcs-grant-by-put" "a release that is done again grants without a comparison, maybe a later acquisition"
        [AsStore(compare_and_swap("grant"))].returning(1);
    "rme-mcs-awaits-unsaid" "a rank that waits for a link still announces that it leaves"
        [Change(put("announced"), |call| unsaid(call, AWAITS))].returning(1);
    "rme-mcs-awaits-granted" "a rank still announces that it waits for a link while it grants"
        [Change(put("announced").releasing().after_wait(), |call| unsaid(call, LEAVES))].returning(1);
    "rme-mcs-lost-unsaid" "a rank that has lost its predecessor still announces that it takes a place"
        [Change(put("announced"), |call| unsaid(call, LOST))].returning(2);
    "rme-mcs-has-unsaid" "a rank does not announce its place"
        [Change(put("announced"), |call| unsaid(call, HAS))].returning(1);
    "rme-mcs-late-acquire" "the own writes of an acquire are not complete before its next step"
        [Skip(flush().own().acquiring())].on(Network::LatePuts);
    "rme-mcs-late-leaves" "the announcement of a release is not complete before its next step"
        [Skip(flush().own().releasing())].on(Network::LatePuts).returning(1);
    "rme-mcs-past-taking" "a repair does not wait for a rank that takes a place"
        [See(get("announced").another(), |announced| unseen(announced, TAKES))].returning(1);
    "rme-mcs-past-leaving" "a repair does not wait for a rank that leaves"
        [See(get("announced").another(), |announced| unseen(announced, LEAVES))].returning(1);
    "rme-mcs-forgets-its-place" "a rank that comes back does not see that it had a place"
        [See(get("announced").own(), |announced| unseen(announced, HAS))].returning(1);
    "rme-mcs-repair-kept" "a rank that comes back does not give up the repair that it has begun"
        [Skip(compare_and_swap("repairer").expecting(1)), Skip(compare_and_swap("repairer").expecting(2))].returning(2);
    "rme-mcs-no-repairer" "repairs are not one at a time"
        [Skip(compare_and_swap("repairer"))].returning(2);
};
