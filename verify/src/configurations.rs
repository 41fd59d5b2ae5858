//! The standard configurations: in what each lock is checked when nobody says otherwise.

use crate::network::Network::{self, Hca, LatePuts, Sc, UnorderedBulk};
use crate::play::Section::{self, Data, Empty};
use crate::subject::Kind;
use crate::{Check, Scenario, Subject};

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// Who acquires what, how often.
    pub scenario: Scenario,
    /// The network's model.
    pub network: Network,
    /// What is done inside.
    pub section: Section,
    /// Whether the order that the lock claims is checked as well, which takes more states.
    pub order: bool,
    /// Whether it takes so long, or so much memory, that it is left out unless it is asked for.
    pub long: bool,
}

impl Configuration {
    /// The check of `subject` in this configuration.
    pub fn check(&self, subject: &Subject) -> Check {
        let mut check = Check::new(subject.clone(), self.scenario.clone());
        check.network = self.network;
        check.section = self.section;
        check
    }
}

/// The order, or not.
const ORDER: bool = true;
const ANY: bool = false;

/// Seconds, or minutes and gigabytes.
const QUICK: bool = false;
const LONG: bool = true;

type Row = (&'static str, Network, Section, bool, bool);

/// The locks that poll are small: their handles remember next to nothing.
const TAS: &[Row] = &[
    ("4Wx2", Sc, Empty, ANY, QUICK),
    ("4Wx2", LatePuts, Empty, ANY, QUICK),
    ("2Wx2", UnorderedBulk, Data, ANY, QUICK),
    ("3Wx1", Hca, Empty, ANY, QUICK),
];

const TICKET: &[Row] = &[
    ("4Wx2", Sc, Empty, ANY, QUICK),
    ("3Wx2", Sc, Empty, ORDER, QUICK),
    ("4Wx2", LatePuts, Empty, ANY, QUICK),
    ("2Wx2", UnorderedBulk, Data, ANY, QUICK),
    ("3Wx1", Hca, Empty, ANY, QUICK),
];

const MCS: &[Row] = &[
    ("3Wx2", Sc, Empty, ANY, QUICK),
    ("5Wx1", Sc, Empty, ANY, QUICK),
    ("3Wx2", Sc, Empty, ORDER, QUICK),
    ("3Wx2", LatePuts, Empty, ANY, QUICK),
    ("5Wx1", LatePuts, Empty, ANY, QUICK),
    ("2Wx2", UnorderedBulk, Data, ANY, QUICK),
    ("3Wx1", Hca, Empty, ANY, QUICK),
];

/// On two nodes of two ranks, and on one.
const COHORT: &[Row] = &[
    ("4Wx1/2", Sc, Empty, ANY, QUICK),
    ("3Wx2/2", Sc, Empty, ANY, QUICK),
    ("4Wx1/2", LatePuts, Empty, ANY, QUICK),
    ("3Wx2/2", LatePuts, Empty, ANY, QUICK),
    ("3Wx2/1", LatePuts, Empty, ANY, QUICK),
    ("3Wx2", LatePuts, Empty, ANY, QUICK),
    ("4Wx2/2", Sc, Empty, ANY, LONG),
    ("4Wx2/2", LatePuts, Empty, ANY, LONG),
    ("3Wx1/2", UnorderedBulk, Data, ANY, QUICK),
    ("3Wx2/2", Hca, Empty, ANY, QUICK),
];

/// On two nodes of two ranks, the home on another one; on three levels, two racks.
const RMA_MCS: &[Row] = &[
    ("4Wx1/2", Sc, Empty, ANY, QUICK),
    ("3Wx2/2", Sc, Empty, ANY, QUICK),
    ("4Wx1/2", LatePuts, Empty, ANY, QUICK),
    ("3Wx2/2", LatePuts, Empty, ANY, QUICK),
    ("2Wx2/2", UnorderedBulk, Data, ANY, QUICK),
    ("3Wx1/2", Hca, Empty, ANY, QUICK),
    ("4Wx2/2", Sc, Empty, ANY, LONG),
    ("4Wx2/2", LatePuts, Empty, ANY, LONG),
    ("5Wx1/2/2", Sc, Empty, ANY, LONG),
];

/// As [`RMA_MCS`].
const RMA_RW: &[Row] = &[
    ("1R1W1R1Wx1/2", Sc, Empty, ANY, QUICK),
    ("3R1Wx1/2", Sc, Empty, ANY, QUICK),
    ("1R3Wx1/2", Sc, Empty, ANY, QUICK),
    ("2R1Wx2/2", Sc, Empty, ANY, QUICK),
    ("1R2Wx2/2", Sc, Empty, ANY, QUICK),
    ("1R1W1R1Wx1/2", LatePuts, Empty, ANY, QUICK),
    ("1R3Wx1/2", LatePuts, Empty, ANY, QUICK),
    ("1R1Wx2/2", UnorderedBulk, Data, ANY, QUICK),
    ("2R1Wx1/2", Hca, Empty, ANY, QUICK),
    ("2R2Wx2/2", Sc, Empty, ANY, LONG),
    ("2R2Wx2/2", LatePuts, Empty, ANY, LONG),
    ("1R1W1R1Wx2/2", Sc, Empty, ANY, LONG),
    ("5R1Wx1/2/2", Sc, Empty, ANY, LONG),
];

const TAS_RW: &[Row] = &[
    ("2R2Wx2", Sc, Empty, ANY, QUICK),
    ("2R2Wx2", LatePuts, Empty, ANY, QUICK),
    ("1R1Wx2", UnorderedBulk, Data, ANY, QUICK),
    ("2R1Wx1", Hca, Empty, ANY, QUICK),
];

/// The reader-preference and writer-preference forms of the queue lock.
const MCS_RW: &[Row] = &[
    ("2R2Wx2", Sc, Empty, ANY, QUICK),
    ("2R1Wx1", Sc, Empty, ORDER, QUICK),
    ("1R2Wx1", Sc, Empty, ORDER, QUICK),
    ("2R2Wx2", LatePuts, Empty, ANY, QUICK),
    ("1R1Wx2", UnorderedBulk, Data, ANY, QUICK),
    ("2R1Wx1", Hca, Empty, ANY, QUICK),
];

const MCS_RW_NEUTRAL: &[Row] = &[
    ("3R1Wx1", Sc, Empty, ANY, QUICK),
    ("3Rx1+1Wx2", Sc, Empty, ANY, QUICK),
    ("2R2Wx2", Sc, Empty, ANY, QUICK),
    ("2R1Wx1", Sc, Empty, ORDER, QUICK),
    ("1R2Wx1", Sc, Empty, ORDER, QUICK),
    ("2R2Wx2", LatePuts, Empty, ANY, QUICK),
    ("1R1Wx2", UnorderedBulk, Data, ANY, QUICK),
    ("2R1Wx1", Hca, Empty, ANY, QUICK),
    ("4R1Wx2", Sc, Empty, ANY, LONG),
    ("3R2Wx2", Sc, Empty, ANY, LONG),
];

/// What no policy's six calls may get wrong: all targets against one, one against another.
const GLOBAL: &[Row] = &[
    ("1E@0 1E@1 1S@0 2Ax1", Sc, Empty, ANY, QUICK),
    ("1A1E@0 1S@0x2", Sc, Empty, ANY, QUICK),
    ("1A1E@0 1S@1x1", LatePuts, Empty, ANY, QUICK),
    ("1A1E@1x1", UnorderedBulk, Data, ANY, QUICK),
    ("1A1E@0 1S@1x1", Hca, Empty, ANY, QUICK),
    ("1E@0 1E@1 1S@0 2Ax1", LatePuts, Empty, ANY, QUICK),
];

/// A lock_all may take a lock for each rank.
const PER_TARGET: &[Row] = &[
    ("1A1E@0 1E@1 1S@0x1", Sc, Empty, ANY, QUICK),
    ("1A1E@0 1S@0x2", Sc, Empty, ANY, QUICK),
    ("1A1E@0 1S@1x1", LatePuts, Empty, ANY, QUICK),
    ("1A1E@1x1", UnorderedBulk, Data, ANY, QUICK),
    ("1A1E@0 1S@1x1", Hca, Empty, ANY, QUICK),
    ("1E@0 1E@1 1S@0 2Ax1", Sc, Empty, ANY, LONG),
    ("1E@0 1E@1 1S@0 2Ax1", LatePuts, Empty, ANY, LONG),
];

/// It has no queues, and is small.
const TWO_LEVEL: &[Row] = &[
    ("1E@0 1E@1 1S@0 2Ax1", Sc, Empty, ANY, QUICK),
    ("1E@0 1E@1 1S@0 2Ax1", LatePuts, Empty, ANY, QUICK),
    ("1A1E@0 1S@0x2", Sc, Empty, ANY, QUICK),
    ("1A1E@1x1", UnorderedBulk, Data, ANY, QUICK),
    ("1A1E@0 1S@1x1", Hca, Empty, ANY, QUICK),
];

/// On nodes of two ranks and of one; with the home there are three leaves, so that the tree has two levels.
const HIERARCHICAL: &[Row] = &[
    ("1A1E@0x2/1", Sc, Empty, ANY, QUICK),
    ("2A1E@0x1/1", Sc, Empty, ANY, QUICK),
    ("1A2E@0x1/1", Sc, Empty, ANY, QUICK),
    ("2E@0 1S@0x1/2", Sc, Empty, ANY, QUICK),
    ("1A1E@0 1S@0x2/2", Sc, Empty, ANY, QUICK),
    ("1A1E@0 1A1E@1x1/2", Sc, Empty, ANY, QUICK),
    ("2A1E@0x1/1", LatePuts, Empty, ANY, QUICK),
    ("1A2E@0x1/1", LatePuts, Empty, ANY, QUICK),
    ("2E@0 1S@0x1/2", LatePuts, Empty, ANY, QUICK),
    ("1A1E@0 1S@1x1/2", LatePuts, Empty, ANY, QUICK),
    ("1A1E@1x1/1", UnorderedBulk, Data, ANY, QUICK),
    ("1A1E@0 1S@1x1/2", Hca, Empty, ANY, QUICK),
    ("1A1E@0 1A1E@0x1/2", Sc, Empty, ANY, LONG),
    ("2A1E@0 1Ax1/2", Sc, Empty, ANY, LONG),
    ("2E@0 1S@0x2/2", Sc, Empty, ANY, LONG),
    ("2S@0 1E@0x2/2", Sc, Empty, ANY, LONG),
    ("1A1E@0 1A1E@0x1/2", LatePuts, Empty, ANY, LONG),
    ("1A1E@0 1A1E@1x1/2", LatePuts, Empty, ANY, LONG),
];

/// Of a lock that is not one of the workspace's own.
const OTHER: &[Row] = &[
    ("2R1Wx2", Sc, Empty, ANY, QUICK),
    ("1R2Wx2", Sc, Empty, ANY, QUICK),
    ("2R1Wx1", LatePuts, Empty, ANY, QUICK),
    ("1R1Wx2", UnorderedBulk, Data, ANY, QUICK),
    ("2R1Wx1", Hca, Empty, ANY, QUICK),
];

/// The standard configurations of `subject`; none for `nocheck`, which promises nothing.
pub fn configurations(subject: &Subject) -> Vec<Configuration> {
    let rows = match (subject.name(), subject.kind()) {
        ("tas", _) => TAS,
        ("ticket", _) => TICKET,
        ("mcs", _) => MCS,
        ("cohort", _) => COHORT,
        ("hierarchical", _) => HIERARCHICAL,
        ("rma-mcs" | "rma-mcs-1", _) => RMA_MCS,
        ("tas-rw", _) => TAS_RW,
        ("mcs-rw-rp" | "mcs-rw-wp", _) => MCS_RW,
        ("mcs-rw-neutral", _) => MCS_RW_NEUTRAL,
        ("rma-rw" | "rma-rw-1-2-1" | "rma-rw-2-2-2", _) => RMA_RW,
        ("two-level" | "two-level-retract", _) => TWO_LEVEL,
        ("nocheck", _) | (_, Kind::Program) => &[],
        ("global", _) => GLOBAL,
        (_, Kind::Window) => PER_TARGET,
        (_, Kind::Lock) => OTHER,
    };
    let configuration = |&(scenario, network, section, order, long): &Row| Configuration {
        scenario: scenario.parse().expect("the standard scenarios are well written"),
        network,
        section,
        order,
        long,
    };
    rows.iter().map(configuration).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::subject::Order;
    use crate::subjects;

    #[test]
    fn every_standard_configuration_makes_sense() {
        for subject in subjects() {
            let mut seen = HashSet::new();
            for configuration in configurations(&subject) {
                configuration.check(&subject).validate().unwrap();
                assert!(!configuration.order || subject.claimed_order() != Order::None, "{}", subject.name());
                assert!(seen.insert(format!("{configuration:?}")), "{} twice: {configuration:?}", subject.name());
            }
        }
    }

    #[test]
    fn every_lock_is_checked_on_every_model_with_and_without_data() {
        for subject in subjects().iter().filter(|subject| subject.name() != "nocheck") {
            let quick = configurations(subject).into_iter().filter(|one| !one.long);
            let seen: HashSet<(Network, Section)> = quick.map(|one| (one.network, one.section)).collect();
            for needed in [(Sc, Empty), (LatePuts, Empty), (UnorderedBulk, Data), (Hca, Empty)] {
                assert!(seen.contains(&needed), "{} lacks {needed:?}", subject.name());
            }
        }
    }
}
