//! Mutants of a lock's user, and of a backend. They can be found with any lock.

use rmalab_atomics::Rank;

use super::Rule::Skip;
use super::{Mutant, flush};
use crate::network::Network;

pub(super) const MUTANTS: &[Mutant] = table! {
    of ["tas", "ticket", "mcs", "tas-rw", "mcs-rw-rp", "mcs-rw-wp", "mcs-rw-neutral", "global", "per-target",
        "two-level"]
    "any-unflushed-data" "the data that were put inside are not flushed before the release"
        [Skip(flush().inside())]
            .on(Network::UnorderedBulk).with_data()
            .stands_for("any, posted puts late: release before the flush of bulk data");
    of ["tas", "ticket", "mcs", "tas-rw", "mcs-rw-rp", "mcs-rw-wp", "mcs-rw-neutral", "global", "two-level"]
    "any-owner-by-cpu"
        "the home uses its processor on words that network atomics update, but the two are not atomic together"
        []
            .on(Network::HcaOwnerCpu).home(Rank(0))
            .stands_for("any, Hca atomicity: the owner uses CPU stores on a word that NICs update");
};
