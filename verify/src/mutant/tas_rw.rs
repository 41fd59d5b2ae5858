//! Mutants of the test-and-set reader-writer lock.

use super::Rule::{AsStore, AsSwap, ClaimSuccess, See, Skip, Split, Value};
use super::{Mutant, compare_and_swap, fetch_add, get};
use crate::Form;

const WRITER: u64 = 1;
const READER: u64 = 2;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["tas-rw"]
    "tas-rw-uncounted" "readers are not counted"
        [Skip(fetch_add("lock").reading())];
    "tas-rw-blind-reader" "a reader does not look for a writer when it counts itself"
        [See(fetch_add("lock").reading().acquiring(), |lock| lock & !WRITER)];
    "tas-rw-impatient-reader" "a reader that waits enters at its first poll"
        [See(get("lock").reading(), |lock| lock & !WRITER)];
    "tas-rw-half-decrement" "a reader that leaves subtracts 1, which is the writer's bit"
        [Value(fetch_add("lock").reading().releasing(), |_| 1_u64.wrapping_neg())];
    "tas-rw-release-store" "a writer that leaves stores 0, which erases the readers counted since"
        [AsSwap(fetch_add("lock").writing().releasing(), 0)];
    "tas-rw-split-count" "a reader counts itself by a get and a put"
        [Split(fetch_add("lock").reading().acquiring())];
    "tas-rw-writer-store" "a writer stores its bit without comparing"
        [AsStore(compare_and_swap("lock"))];
    "tas-rw-kept" "a reader that gives up stays counted"
        [Skip(fetch_add("lock").reading().acquiring().of(READER.wrapping_neg()))].when(Form::Timed);
    "tas-rw-unchecked" "a writer does not check whether it has set its bit"
        [ClaimSuccess(compare_and_swap("lock"))];
};
