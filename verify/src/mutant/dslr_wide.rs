//! Mutants of the wide DSLR lock.

use super::Rule::{See, Skip, Split, Twice, Value};
use super::{Mutant, fetch_add};

const READER: u64 = 1 << 32;
const WRITER: u64 = 1;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["dslr-wide"]
    "dslr-wide-blind-reader" "a reader does not see writers ahead of it"
        [See(fetch_add("drawn").reading(), |drawn| drawn & !(READER - 1))];
    "dslr-wide-blind-writer" "a writer does not see readers ahead of it"
        [See(fetch_add("drawn").writing(), |drawn| drawn & (READER - 1))];
    "dslr-wide-reader-as-writer" "a reader that releases counts as a writer"
        [Value(fetch_add("served").reading(), |_| WRITER)];
    "dslr-wide-writer-as-reader" "a writer that releases counts as a reader"
        [Value(fetch_add("served").writing(), |_| READER)];
    "dslr-wide-no-release" "a reader does not count itself when it releases"
        [Skip(fetch_add("served").reading())];
    "dslr-wide-two-releases" "a release counts twice"
        [Twice(fetch_add("served"))];
    "dslr-wide-split-draw" "a ticket is drawn by a get and a put"
        [Split(fetch_add("drawn"))];
    "dslr-wide-split-release" "a release is a get and a put"
        [Split(fetch_add("served"))];
};
