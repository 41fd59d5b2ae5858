//! Mutants of the lease mutex, and of the word that its holders write.

use super::Rule::{AsStore, See, Skip, Split, Value};
use super::{Mutant, compare_and_swap, get};

/// The bits below the token.
const LOW: u64 = (1 << 24) - 1;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["lease"]
    "lease-unfenced" "a holder writes without a look at the token of the last write"
        [See(get("data").inside(), |_| 0), AsStore(compare_and_swap("data").inside())].lapsing(1)
            .stands_for("leases without tokens, as DSLR's and ShiftLock's: a holder that was paused writes although it has lost the lock");
    "lease-fence-then-store" "a holder compares the tokens, and then writes by a store"
        [AsStore(compare_and_swap("data").inside())].lapsing(1);
    "lease-unsigned-write" "a write does not keep its token"
        [Value(compare_and_swap("data").inside(), |word| word & LOW)].lapsing(1);
    "lease-forgets-token" "a release does not keep the token"
        [Value(compare_and_swap("lock").releasing(), |_| 0)].lapsing(1);
    "lease-release-store" "a holder that has lost the lock releases it all the same"
        [AsStore(compare_and_swap("lock").releasing())].lapsing(1)
            .stands_for("ShiftLock's form of DSLR: it releases whatever has happened");
    "lease-take-store" "a rank takes the lock by a store"
        [AsStore(compare_and_swap("lock").acquiring())];
    "lease-split-take" "a rank takes the lock by a get and a put"
        [Split(compare_and_swap("lock").acquiring())];
    "lease-no-release" "a holder does not release"
        [Skip(compare_and_swap("lock").releasing())].lapsing(1);
};
