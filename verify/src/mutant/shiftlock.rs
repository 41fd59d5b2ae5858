//! Mutants of ShiftLock, with `n` of 1 (`shiftlock`) and 2.

use super::Rule::{Answer, AsStore, See, Skip, Split, Twice, Value};
use super::{Mutant, compare_and_swap, fetch_add, flush, put, wait_until};
use crate::network::Network;

const TAIL: u64 = (1 << 21) - 1;
const MODE: u64 = 1 << 21;
const READER: u64 = 1 << 22;
const READERS: u64 = TAIL << 22;
const RELEASE: u64 = 1 << 43;
const HANDOVER: u64 = 1 << 62;
const MODE_CHANGED: u64 = 1 << 63;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["shiftlock"]
    "shiftlock-uncounted-readers" "a writer that changes the mode does not count the readers that it lets in"
        [See(fetch_add("lock").writing(), |lock| lock & !READERS)];
    "shiftlock-blind-reader" "a reader does not look for writers"
        [See(fetch_add("lock").acquiring().reading(), |lock| lock & !TAIL)];
    "shiftlock-mode-as-handover" "a writer that changes the mode hands over, although it lets in readers"
        [Value(put("note").another(), |note| note & !MODE_CHANGED | HANDOVER)];
    "shiftlock-no-change" "a writer with a successor does not change the mode"
        [Value(fetch_add("lock").writing(), |_| RELEASE)];
    "shiftlock-last-no-change" "a writer without a successor does not change the mode"
        [Value(compare_and_swap("lock").releasing(), |released| released ^ MODE)];
    "shiftlock-release-store" "the release stores nil to the tail without comparing"
        [AsStore(compare_and_swap("lock").releasing())];
    "shiftlock-reset-while-held" "a writer finds the lock reset while another one holds it"
        [AsStore(compare_and_swap("lock").acquiring())]
            .stands_for("ShiftLock: handovers that together take longer than the leases have a live lock reset");
    "shiftlock-silent-successor" "a writer that has waited for its successor's link does not release"
        [Skip(put("note").another().after_wait())]
            .stands_for("ShiftLock: a writer gives up when its successor is silent for a lease");
    "shiftlock-reader-not-counted-out" "a reader that releases counts itself among the readers still"
        [Value(fetch_add("lock").reading().releasing(), |value| value.wrapping_add(READER))].leaves(&["lock"]);
    "shiftlock-reader-release-not-counted" "a reader that releases does not count the release"
        [Value(fetch_add("lock").reading().releasing(), |value| value.wrapping_sub(RELEASE))];
    "shiftlock-split-arrive" "a reader arrives by a get and a put"
        [Split(fetch_add("lock").reading().acquiring())];
    "shiftlock-split-leave" "a reader leaves by a get and a put"
        [Split(fetch_add("lock").reading().releasing())];
    "shiftlock-split-change" "the mode is changed by a get and a put"
        [Split(fetch_add("lock").writing())];
    "shiftlock-no-link" "a writer does not link itself"
        [Skip(put("suc").another())];
    "shiftlock-stale-suc" "the link to the successor is not reset"
        [Skip(put("suc").own())].leaves(&["suc"]);
    "shiftlock-no-note" "the successor gets no note"
        [Skip(put("note").another())];
    "shiftlock-no-reset" "the note is not reset after the wait"
        [Skip(put("note").own())].leaves(&["note"]);
    "shiftlock-no-flush" "a writer does not flush the resets of its words before it is visible in the queue"
        [Skip(flush().own())].on(Network::LatePuts);
    of ["shiftlock-2"]
    "shiftlock-no-wait" "a writer with a predecessor does not wait"
        [Answer(wait_until("note"), HANDOVER)];
    "shiftlock-two-notes" "the successor gets its note twice"
        [Twice(put("note").another())].leaves(&["note"]);
    "shiftlock-handover-as-mode" "a writer that hands over makes its successor wait for readers that are not let in"
        [Value(put("note").another(), |note| {
            if note & HANDOVER != 0 { (note & !HANDOVER | MODE_CHANGED) + 1 } else { note }
        })];
};
