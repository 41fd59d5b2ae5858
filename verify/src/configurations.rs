//! The standard configurations: the checks of each lock unless the user chooses other checks.

use crate::network::Network::{self, Hca, LatePuts, Sc, UnorderedBulk};
use crate::play::Section;
use crate::{Check, Form, Scenario, Subject, Workload, subject};

/// One standard configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// The ranks, with their acquisitions.
    pub scenario: Scenario,
    /// The network model.
    pub network: Network,
    /// The work of ranks inside.
    pub section: Section,
    /// True if the claimed order of the lock is checked as well, which takes more states.
    pub order: bool,
    /// True if it takes much time or memory, so that it runs only on request.
    pub long: bool,
}

impl Configuration {
    /// Returns the check of `subject` in this configuration.
    pub fn check(&self, subject: &Subject) -> Check {
        let mut check = Check::new(subject.clone(), self.scenario.clone());
        check.network = self.network;
        check.section = self.section;
        check
    }
}

/// The special feature of a configuration. No configuration has two of them.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    Plain,
    /// With [`Section::Data`].
    Data,
    /// Checks the lock's claimed order.
    Order,
    /// It takes minutes and gigabytes.
    Long,
}
use Special::{Data, Long, Order, Plain};

/// Scenarios on one network, in the order of reports.
type Row = (Network, Special, &'static [&'static str]);

/// Locks that poll have few states: their handles remember almost nothing.
const TAS: &[Row] = &[
    (Sc, Plain, &["4Wx2", "4Wxinf", "1W1Wtry 2Wtimed x2"]),
    (LatePuts, Plain, &["4Wx2", "4Wxinf", "1W1Wtry 2Wtimed x2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
];

/// Its numbers grow without end while a rank waits, so it has no scenario without end.
const TICKET: &[Row] = &[
    (Sc, Plain, &["4Wx2", "2W2Wtry x2"]),
    (Sc, Order, &["3Wx2"]),
    (LatePuts, Plain, &["4Wx2", "2W2Wtry x2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
];

/// Where ranks fail, symmetry does not exchange them.
const ROBUST_TAS: &[Row] = &[
    (Sc, Plain, &["4Wx2", "3Wx1 crash1", "3Wx2 crash1", "3Wx1 crash2"]),
    (LatePuts, Plain, &["4Wx2", "3Wx1 crash1", "3Wx2 crash1", "3Wx1 crash2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
];

/// Its token counts on, so that it has many states.
const LEASE: &[Row] = &[
    (Sc, Plain, &["3Wx2", "2Wx2 lapse1", "3Wx1 lapse1", "2Wx1 lapse2"]),
    (LatePuts, Plain, &["3Wx2", "2Wx2 lapse1", "3Wx1 lapse1"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
    (Sc, Long, &["3Wx1 lapse2", "2Wx2 lapse2"]),
];

/// Its announcements have ranks in them, which no permutation maps.
const ROBUST_MCS: &[Row] = &[
    (Sc, Plain, &["2Wx2", "3Wx1", "2Wx2 crash1", "3Wx1 crash1"]),
    (Sc, Order, &["3Wx1"]),
    (LatePuts, Plain, &["2Wx2", "3Wx1", "2Wx1 crash2", "2Wx2 crash1"]),
    (UnorderedBulk, Data, &["2Wx1"]),
    (Hca, Plain, &["2Wx1"]),
    (Sc, Long, &["3Wx2", "3Wx1 crash2", "3Wx2 crash1"]),
    (LatePuts, Long, &["3Wx1 crash1"]),
];

/// Where ranks come back, symmetry does not exchange them.
const RME_MCS: &[Row] = &[
    (Sc, Plain, &["3Wx2", "2Wx2 restart1", "2Wx1 restart2"]),
    (Sc, Order, &["3Wx1"]),
    (LatePuts, Plain, &["3Wx2", "2Wx2 restart1", "2Wx1 restart2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
    (Sc, Long, &["3Wx1 restart1", "2Wx2 restart2", "3Wx1 restart2"]),
    (LatePuts, Long, &["3Wx1 restart1", "2Wx2 restart2", "3Wx1 restart2"]),
];

/// Its word counts on, so that it has many states.
const ROBUST_TICKET: &[Row] = &[
    (Sc, Plain, &["3Wx2", "3Wx1 crash1", "3Wx1 crash2"]),
    (Sc, Order, &["3Wx1"]),
    (LatePuts, Plain, &["3Wx2", "3Wx1 crash1"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
    (Sc, Long, &["3Wx2 crash1"]),
    (LatePuts, Long, &["3Wx1 crash2"]),
];

/// Its word has a bit for each reader, which no permutation maps.
const ROBUST_RW: &[Row] = &[
    (Sc, Plain, &["2R2Wx2", "2R1Wx1 crash1", "1R2Wx1 crash1"]),
    (LatePuts, Plain, &["2R2Wx2", "1R2Wx1 crash1"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
    (Sc, Long, &["2R1Wx1 crash2", "1R2Wx1 crash2", "2R2Wx1 crash1"]),
    (LatePuts, Long, &["2R1Wx1 crash1", "2R2Wx1 crash1"]),
];

/// The policy over robust-rw.
const ROBUST_GLOBAL: &[Row] = &[
    (Sc, Plain, &["1A1E@0 1E@1 1S@0x1", "1A1E@0 1S@1x1 crash1", "1A2E@0x1 crash1"]),
    (LatePuts, Plain, &["1A1E@0 1S@1x1 crash1", "1A2E@0x1 crash1"]),
    (UnorderedBulk, Data, &["1A1E@1x1"]),
    (Hca, Plain, &["1A1E@0 1S@1x1"]),
];

const MCS: &[Row] = &[
    (Sc, Plain, &["3Wx2", "5Wx1", "4Wxinf", "2W2Wtry x2"]),
    (Sc, Order, &["3Wx2"]),
    (LatePuts, Plain, &["3Wx2", "5Wx1", "4Wxinf", "2W2Wtry x2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
];

/// Its links are sums, which no permutation of ranks maps: it has no symmetry.
const OSHMEM_MCS: &[Row] = &[
    (Sc, Plain, &["3Wx2", "4Wx1", "3Wxinf", "2W2Wtry x2"]),
    (Sc, Order, &["3Wx2"]),
    (LatePuts, Plain, &["3Wx2", "4Wx1", "3Wxinf", "2W2Wtry x2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
];

const MPI4PY_MCS: &[Row] = &[
    (Sc, Plain, &["3Wx2", "4Wx1", "2W2Wtry x2"]),
    (Sc, Order, &["3Wx2"]),
    (LatePuts, Plain, &["3Wx2", "4Wx1", "2W2Wtry x2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
];

/// The home is the last rank. So two ranks are far and one is near in `3W/2`. In `4W/3`, three are far and one is near. Without
/// nodes, all are near.
const ALOCK: &[Row] = &[
    (Sc, Plain, &["3Wx2/2", "4Wx1/3", "3Wx2"]),
    (LatePuts, Plain, &["3Wx2/2", "4Wx1/3", "3Wx2"]),
    (UnorderedBulk, Data, &["3Wx1/2"]),
    (Hca, Plain, &["3Wx1/2"]),
];

/// Two nodes of two ranks, and one node.
const SHERMAN: &[Row] = &[
    (Sc, Plain, &["4Wx1/2", "3Wx2/2", "3Wx2", "4Wx2/2"]),
    (LatePuts, Plain, &["4Wx1/2", "3Wx2/2", "3Wx2"]),
    (UnorderedBulk, Data, &["3Wx1/2"]),
    (Hca, Plain, &["3Wx1/2"]),
];

const RECIPROCATING: &[Row] = &[
    (Sc, Plain, &["3Wx2", "4Wx1", "3Wxinf", "4Wxinf", "2W2Wtry x2"]),
    (LatePuts, Plain, &["3Wx2", "4Wx1", "3Wxinf", "2W2Wtry x2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
];

/// Two nodes of two ranks.
const CNA: &[Row] = &[
    (Sc, Plain, &["4Wx2/2", "4Wxinf/2", "2W2Wtry x1/2"]),
    (LatePuts, Plain, &["4Wx2/2", "4Wxinf/2", "2W2Wtry x1/2"]),
    (UnorderedBulk, Data, &["3Wx1/2"]),
    (Hca, Plain, &["3Wx2/2"]),
];

/// With two passes in a row; and nodes of one rank.
const CNA_2: &[Row] = &[
    (Sc, Plain, &["4Wx1/2", "3Wx2/2", "3Wx2/1", "2W2Wtry x1/2"]),
    (LatePuts, Plain, &["4Wx1/2", "3Wx2/2", "3Wx2/1", "2W2Wtry x1/2"]),
    (UnorderedBulk, Data, &["3Wx1/2"]),
    (Hca, Plain, &["3Wx2/2"]),
    (Sc, Long, &["4Wx2/2"]),
    (LatePuts, Long, &["4Wx2/2"]),
];

/// With four ranks, two can be passive if one of them comes twice.
const MALTHUSIAN: &[Row] = &[
    (Sc, Plain, &["3Wx2", "3Wxinf", "3W+1Wx2", "2W2Wtry x1"]),
    (LatePuts, Plain, &["3Wx2", "3Wxinf", "3W+1Wx2", "2W2Wtry x1"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
    (Sc, Long, &["4Wx2", "5Wx1"]),
    (LatePuts, Long, &["5Wx1"]),
];

const HAPAX: &[Row] = &[
    (Sc, Plain, &["4Wx2", "5Wx1", "2W2Wtry x2"]),
    (Sc, Order, &["3Wx2"]),
    (LatePuts, Plain, &["4Wx2", "5Wx1", "2W2Wtry x2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
];

/// Its numbers grow without end, so it has no scenario without end.
const CLH: &[Row] = &[
    (Sc, Plain, &["4Wx2", "5Wx1", "2W2Wtry x2"]),
    (Sc, Order, &["3Wx2"]),
    (LatePuts, Plain, &["4Wx2", "5Wx1", "2W2Wtry x2"]),
    (UnorderedBulk, Data, &["2Wx2"]),
    (Hca, Plain, &["3Wx1"]),
];

/// The nodes are named. So the first rank of a node, which has the words of the restriction, takes no part in symmetry.
const GCR: &[Row] = &[
    (Sc, Plain, &["3Wx2/2", "2Wxinf/2", "3Wx1/3", "4Wx1/2"]),
    (LatePuts, Plain, &["3Wx2/2", "3Wx1/3", "4Wx1/2"]),
    (UnorderedBulk, Data, &["2Wx2/2"]),
    (Hca, Plain, &["3Wx1/3"]),
    (Sc, Long, &["3Wx2/3"]),
    (LatePuts, Long, &["3Wx2/3"]),
];

/// With two active ranks, and a threshold of one release.
const GCR_2: &[Row] = &[
    (Sc, Plain, &["3Wx2/2", "2Wxinf/2", "3Wx1/3", "4Wx1/2"]),
    (LatePuts, Plain, &["3Wx2/2", "3Wx1/3", "4Wx1/2"]),
    (UnorderedBulk, Data, &["2Wx2/2"]),
    (Hca, Plain, &["3Wx1/3"]),
];

const GCR_RW: &[Row] = &[
    (Sc, Plain, &["1R1Wx2/2", "2R1Wx1/3", "1R2Wx1/3"]),
    (LatePuts, Plain, &["1R1Wx2/2", "2R1Wx1/3", "1R2Wx1/3"]),
    (UnorderedBulk, Data, &["1R1Wx1/2"]),
    (Hca, Plain, &["2R1Wx1/3"]),
    (Sc, Long, &["2R1Wx2/2", "1R2Wx2/2"]),
    (LatePuts, Long, &["2R1Wx2/2", "1R2Wx2/2"]),
];

/// Two nodes of two ranks, and one node.
const COHORT: &[Row] = &[
    (Sc, Plain, &["4Wx1/2", "3Wx2/2", "3Wxinf/2"]),
    (LatePuts, Plain, &["4Wx1/2", "3Wx2/2", "3Wx2/1", "3Wx2"]),
    (Sc, Long, &["4Wx2/2"]),
    (LatePuts, Long, &["4Wx2/2"]),
    (UnorderedBulk, Data, &["3Wx1/2"]),
    (Hca, Plain, &["3Wx2/2"]),
];

/// Two nodes of two ranks, with the home on a third; and three levels with two racks.
const RMA_MCS: &[Row] = &[
    (Sc, Plain, &["4Wx1/2", "3Wx2/2", "3Wxinf/2"]),
    (LatePuts, Plain, &["4Wx1/2", "3Wx2/2"]),
    (UnorderedBulk, Data, &["2Wx2/2"]),
    (Hca, Plain, &["3Wx1/2"]),
    (Sc, Long, &["4Wx2/2"]),
    (LatePuts, Long, &["4Wx2/2"]),
    (Sc, Long, &["5Wx1/2/2"]),
];

/// Like [`RMA_MCS`].
const RMA_RW: &[Row] = &[
    (Sc, Plain, &["1R1W1R1Wx1/2", "3R1Wx1/2", "1R3Wx1/2", "2R1Wx2/2", "1R2Wx2/2"]),
    (LatePuts, Plain, &["1R1W1R1Wx1/2", "1R3Wx1/2"]),
    (UnorderedBulk, Data, &["1R1Wx2/2"]),
    (Hca, Plain, &["2R1Wx1/2"]),
    (Sc, Long, &["2R2Wx2/2"]),
    (LatePuts, Long, &["2R2Wx2/2"]),
    (Sc, Long, &["1R1W1R1Wx2/2", "5R1Wx1/2/2"]),
];

const TAS_RW: &[Row] = &[
    (Sc, Plain, &["2R2Wx2", "2R2Wxinf", "1R1W1Rtimed 1Wtimed x2", "1R1Rtry 1Wtry 1Wtimed x2"]),
    (LatePuts, Plain, &["2R2Wx2", "2R2Wxinf", "1R1W1Rtimed 1Wtimed x2", "1R1Rtry 1Wtry 1Wtimed x2"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
];

/// The reader-preference and the writer-preference queue lock.
const MCS_RW: &[Row] = &[
    (Sc, Plain, &["2R2Wx2", "2R1Wxinf", "1R2Wxinf"]),
    (Sc, Order, &["2R1Wx1", "1R2Wx1"]),
    (LatePuts, Plain, &["2R2Wx2", "2R1Wxinf"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
    (Sc, Long, &["3R2Wx2", "2R2Wxinf"]),
    (LatePuts, Long, &["3R2Wx2", "2R2Wxinf"]),
];

/// A writer polls and puts at every rank.
const BIG_READER: &[Row] = &[
    (Sc, Plain, &["2R2Wx2", "2R2Wxinf"]),
    (LatePuts, Plain, &["2R1Wx2", "1R2Wx2"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
    (LatePuts, Long, &["2R2Wx2"]),
];

const BRLOCK: &[Row] = &[
    (Sc, Plain, &["2R2Wx2", "2R2Wxinf"]),
    (LatePuts, Plain, &["2R2Wx2"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R2Wx1"]),
];

/// A reader's put may be under way until a writer fences.
const BIG_READER_FENCE: &[Row] = &[
    (Sc, Plain, &["2R1Wx2", "1R2Wx2", "1R1Wxinf"]),
    (LatePuts, Plain, &["2R1Wx1", "1R2Wx1", "1R1Wx2"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
    (LatePuts, Long, &["2R2Wx1", "2R1Wx2", "1R2Wx2"]),
];

/// Of mcs-rw-neutral.
const BRAVO: &[Row] = &[
    (Sc, Plain, &["2R1Wx2", "1R2Wx2", "2R2Wx1"]),
    (LatePuts, Plain, &["2R1Wx2", "1R2Wx2", "2R2Wx1"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
    (Sc, Long, &["2R2Wx2"]),
];

/// With one acquisition for each rank, its parameter plays no part: such scenarios are those of `bravo`, state by state.
const BRAVO_1: &[Row] = &[
    (Sc, Plain, &["2R1Wx2", "1R2Wx2"]),
    (LatePuts, Plain, &["2R1Wx2", "1R2Wx2"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
    (Sc, Long, &["2R2Wx2"]),
];

const MCS_RW_NEUTRAL: &[Row] = &[
    (Sc, Plain, &["3R1Wx1", "3Rx1+1Wx2", "2R2Wx2"]),
    (Sc, Order, &["2R1Wx1", "1R2Wx1"]),
    (LatePuts, Plain, &["2R2Wx2"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
    (Sc, Long, &["4R1Wx2", "3R2Wx2"]),
];

const DECLOCK: &[Row] = &[
    (Sc, Plain, &["2R2Wx1", "2R1Wx2", "1R2Wx2"]),
    (Sc, Order, &["2R1Wx1", "1R2Wx1"]),
    (LatePuts, Plain, &["2R2Wx1", "2R1Wx2", "1R2Wx2"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
];

const DSLR_WIDE: &[Row] = &[
    (Sc, Plain, &["2R2Wx2"]),
    (Sc, Order, &["2R1Wx1", "1R2Wx1"]),
    (LatePuts, Plain, &["2R2Wx2"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
];

/// A writer remembers the word, with its count of releases, from one acquisition to the next.
const SHIFTLOCK: &[Row] = &[
    (Sc, Plain, &["2R2Wx1", "2R1Wx2", "1R+2Wx2", "3Wx1"]),
    (LatePuts, Plain, &["2R2Wx1", "2R1Wx2", "1R+2Wx2", "3Wx1"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
    (Sc, Long, &["1R2Wx2", "3Wx2"]),
    (LatePuts, Long, &["1R2Wx2", "3Wx2"]),
];

/// Every second release changes the mode, and not every one.
const SHIFTLOCK_2: &[Row] = &[
    (Sc, Plain, &["2R2Wx1", "2Wx2", "3Wx1"]),
    (LatePuts, Plain, &["2R2Wx1", "2Wx2", "3Wx1"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["1R2Wx1"]),
    (Sc, Long, &["1R2Wx2", "3Wx2"]),
    (LatePuts, Long, &["1R2Wx2", "3Wx2"]),
];

/// Combinations of a policy's six calls: all targets against one, and one against another.
const GLOBAL: &[Row] = &[
    (Sc, Plain, &["1E@0 1E@1 1S@0 2Ax1", "1A1E@0 1S@0x2", "1A1E@0 1S@0xinf"]),
    (LatePuts, Plain, &["1A1E@0 1S@1x1"]),
    (UnorderedBulk, Data, &["1A1E@1x1"]),
    (Hca, Plain, &["1A1E@0 1S@1x1"]),
    (LatePuts, Plain, &["1E@0 1E@1 1S@0 2Ax1"]),
];

/// A lock_all may take one lock per rank.
const PER_TARGET: &[Row] = &[
    (Sc, Plain, &["1A1E@0 1E@1 1S@0x1", "1A1E@0 1S@0x2", "1A1E@0 1S@0xinf"]),
    (LatePuts, Plain, &["1A1E@0 1S@1x1"]),
    (UnorderedBulk, Data, &["1A1E@1x1"]),
    (Hca, Plain, &["1A1E@0 1S@1x1"]),
    (Sc, Long, &["1E@0 1E@1 1S@0 2Ax1"]),
    (LatePuts, Long, &["1E@0 1E@1 1S@0 2Ax1"]),
];

/// For another policy, also one from outside the workspace. Its words may count without end.
const OTHER_POLICY: &[Row] = &[
    (Sc, Plain, &["1A1E@0 1E@1 1S@0x1", "1A1E@0 1S@0x2"]),
    (LatePuts, Plain, &["1A1E@0 1S@1x1"]),
    (UnorderedBulk, Data, &["1A1E@1x1"]),
    (Hca, Plain, &["1A1E@0 1S@1x1"]),
    (Sc, Long, &["1E@0 1E@1 1S@0 2Ax1"]),
    (LatePuts, Long, &["1E@0 1E@1 1S@0 2Ax1"]),
];

/// Ranks count themselves by their bits, so the ranks of the same locks are not alike.
const ROBUST_TWO_LEVEL: &[Row] = &[
    (
        Sc,
        Plain,
        &[
            "1A1E@0 1S@0x1",
            "1A1E@0x2 crash1",
            "1S@0 1E@0x2 crash1",
            "2E@0x1 crash1",
            "1A1E@0 1S@1x1 crash1",
            "2A1E@0x1 crash1",
        ],
    ),
    (
        LatePuts,
        Plain,
        &["1A1E@0 1S@0x1", "1A1E@0x2 crash1", "1S@0 1E@0x2 crash1", "2E@0x1 crash1", "1A1E@0 1S@1x1 crash1"],
    ),
    (UnorderedBulk, Data, &["1A1E@1x1"]),
    (Hca, Plain, &["1A1E@0 1S@1x1"]),
    (
        Sc,
        Long,
        &[
            "2E@0x2 crash1",
            "3E@0x1 crash1",
            "2A1E@0x2 crash1",
            "2A1E@0x1 crash2",
            "1A2E@0x1 crash1",
            "2S@0 1E@0x1 crash1",
            "1A1E@0 1S@0x1 crash1",
            "1A1E@0 1S@1x1 crash2",
            "1A1E@0 1E@1x1 crash1",
            "1S@0 1E@0 1E@1x1 crash1",
        ],
    ),
    (LatePuts, Long, &["2E@0x2 crash1", "3E@0x1 crash1", "2A1E@0x1 crash1", "1A1E@0 1S@1x1 crash2"]),
];

/// Each change of its counts has a number, so that it has many states.
const ROBUST_TWO_LEVEL_ANNOUNCED: &[Row] = &[
    (Sc, Plain, &["1A1E@0 1S@0x1", "1A1E@0x2 crash1", "1S@0 1E@0x2 crash1", "2E@0x1 crash1"]),
    (LatePuts, Plain, &["1A1E@0 1S@0x1", "1A1E@0x2 crash1", "1S@0 1E@0x2 crash1", "2E@0x1 crash1"]),
    (UnorderedBulk, Data, &["1A1E@1x1"]),
    (Hca, Plain, &["1A1E@0 1S@1x1"]),
    (
        Sc,
        Long,
        &[
            "2E@0x2 crash1",
            "2A1E@0x1 crash1",
            "1A1E@0 1S@1x1 crash1",
            "1A1E@0 1S@1x1 crash2",
            "1A1E@0 1E@1x1 crash1",
            "1S@0 1E@0 1E@1x1 crash1",
        ],
    ),
    (LatePuts, Long, &["2A1E@0x1 crash1", "1A1E@0 1S@1x1 crash1", "1A1E@0 1S@1x1 crash2"]),
];

/// With the home, there are three gates of one rank, so that the tree has two levels.
const ROBUST_HIERARCHICAL: &[Row] = &[
    (Sc, Plain, &["1A1E@0x1/1 crash1", "1S@0 1E@0x1/1 crash1", "1A1E@0x2/1", "2A1E@0x1/1"]),
    (LatePuts, Plain, &["1A1E@0x1/1 crash1", "2E@0x1/1 crash1"]),
    (UnorderedBulk, Data, &["1A1E@1x1/1"]),
    (Hca, Plain, &["1A1E@0x1/2"]),
    (Sc, Long, &["2A1E@0x1/2", "1A2E@0x1/1", "1A1E@0 1S@1x1/1 crash1", "1A1E@0x2/1 crash1", "1A1E@0x1/1 crash2"]),
    (LatePuts, Long, &["2A1E@0x1/1", "1A1E@0x2/1 crash1", "1A1E@0x1/1 crash2"]),
];

/// Beyond [`ROBUST_TWO_LEVEL_ANNOUNCED`], the gates change the counts in the master.
const ROBUST_HIERARCHICAL_ANNOUNCED: &[Row] = &[
    (Sc, Plain, &["1A1E@0x1/1 crash1"]),
    (LatePuts, Plain, &["1A1E@0x1/1 crash1"]),
    (Sc, Long, &["1A1E@0x2/1 crash1", "1A1E@0x1/1 crash2"]),
    (LatePuts, Long, &["1A1E@0x1/1 crash2"]),
];

/// It has no queues, and few states.
const TWO_LEVEL: &[Row] = &[
    (
        Sc,
        Plain,
        &[
            "1E@0 1E@1 1S@0 2Ax1",
            "1E@0 1E@1 1S@0 1Axinf",
            "1S@0timed 1E@0timed 1Atimed x2",
            "1S@0try 1Atry 1E@0try 1E@1x2",
        ],
    ),
    (LatePuts, Plain, &["1E@0 1E@1 1S@0 2Ax1", "1S@0timed 1E@0timed 1Atimed x2", "1S@0try 1Atry 1E@0try 1E@1x1"]),
    (Sc, Plain, &["1A1E@0 1S@0x2", "1S@0timed 1E@0timed 1A1Atimed x1"]),
    (UnorderedBulk, Data, &["1A1E@1x1"]),
    (Hca, Plain, &["1A1E@0 1S@1x1"]),
];

/// A policy over the test-and-set lock, whose locks can be tried and have deadlines.
const TIMED: &[Row] = &[
    (
        Sc,
        Plain,
        &[
            "1A1E@0 1E@1 1S@0xinf",
            "1Atimed 1E@0timed 1S@0timed x2",
            "1Atry 1E@0try 1S@0try 1E@1x2",
            "1A1E@0timed 1S@1timed x2",
        ],
    ),
    (LatePuts, Plain, &["1Atimed 1E@0timed 1S@0timed x2", "1Atry 1E@0try 1S@0try x2"]),
    (UnorderedBulk, Data, &["1Atimed 1E@1timed x1"]),
    (Hca, Plain, &["1Atimed 1E@0timed x1"]),
];

/// Nodes of two ranks and of one. With the home, there are three gates, so that the tree has two levels.
const HIERARCHICAL: &[Row] = &[
    (Sc, Plain, &["1A1E@0x2/1", "2A1E@0x1/1", "1A2E@0x1/1", "2E@0 1S@0x1/2", "1A1E@0 1S@0x2/2", "1A1E@0 1A1E@1x1/2"]),
    (LatePuts, Plain, &["2A1E@0x1/1", "1A2E@0x1/1", "2E@0 1S@0x1/2", "1A1E@0 1S@1x1/2"]),
    (UnorderedBulk, Data, &["1A1E@1x1/1"]),
    (Hca, Plain, &["1A1E@0 1S@1x1/2"]),
    (Sc, Long, &["1A1E@0 1A1E@0x1/2", "2A1E@0 1Ax1/2", "2E@0 1S@0x2/2", "2S@0 1E@0x2/2", "2A1E@0x2/2"]),
    (LatePuts, Long, &["1A1E@0 1A1E@0x1/2", "1A1E@0 1A1E@1x1/2"]),
];

/// With two leaves below each gate.
const HIERARCHICAL_1: &[Row] = &[
    (Sc, Plain, &["2A1E@0x1/2", "1A1E@0 1Ax1/2"]),
    (LatePuts, Plain, &["2A1E@0x1/2"]),
    (UnorderedBulk, Data, &["1A1E@1x1/2"]),
    (Hca, Plain, &["1A1E@0x1/2"]),
];

/// For a lock from outside the workspace.
const OTHER: &[Row] = &[
    (Sc, Plain, &["2R1Wx2", "1R2Wx2"]),
    (LatePuts, Plain, &["2R1Wx1"]),
    (UnorderedBulk, Data, &["1R1Wx2"]),
    (Hca, Plain, &["2R1Wx1"]),
];

/// Further scenarios for a lock from outside that has these forms of acquisition.
const OTHER_TRY: &[Row] = &[(Sc, Plain, &["1W1Wtry x2"]), (LatePuts, Plain, &["1W1Wtry x2"])];
const OTHER_TIMED: &[Row] = &[(Sc, Plain, &["1W1Wtimed x2"]), (LatePuts, Plain, &["1W1Wtimed x2"])];
const OTHER_ORDER: &[Row] = &[(Sc, Order, &["2R1Wx2"])];

/// For two locks, one inside the other.
const NESTED: &[Row] = &[(Sc, Plain, &["1R1Wx2", "2Wx2", "3Wx1"]), (LatePuts, Plain, &["1R1Wx2", "2Wx2"])];

/// The standard configurations of `subject`. `nocheck` has none, since it promises nothing.
pub fn configurations(subject: &Subject) -> Vec<Configuration> {
    let rows = match (subject.name(), subject.workload()) {
        ("tas", _) => TAS,
        ("ticket", _) => TICKET,
        ("robust-tas", _) => ROBUST_TAS,
        ("robust-ticket", _) => ROBUST_TICKET,
        ("robust-mcs", _) => ROBUST_MCS,
        ("rme-mcs", _) => RME_MCS,
        ("robust-rw", _) => ROBUST_RW,
        ("robust-global", _) => ROBUST_GLOBAL,
        ("lease", _) => LEASE,
        ("mcs", _) => MCS,
        ("oshmem-mcs", _) => OSHMEM_MCS,
        ("mpi4py-mcs", _) => MPI4PY_MCS,
        ("alock" | "alock-1", _) => ALOCK,
        ("sherman", _) => SHERMAN,
        ("reciprocating", _) => RECIPROCATING,
        ("cna", _) => CNA,
        ("cna-2", _) => CNA_2,
        ("malthusian" | "malthusian-4", _) => MALTHUSIAN,
        ("hapax", _) => HAPAX,
        ("clh", _) => CLH,
        ("cohort", _) => COHORT,
        ("gcr", _) => GCR,
        ("gcr-2-1", _) => GCR_2,
        ("gcr-rw" | "gcr-rw-2-1", _) => GCR_RW,
        ("hierarchical", _) => HIERARCHICAL,
        ("hierarchical-1", _) => HIERARCHICAL_1,
        ("rma-mcs" | "rma-mcs-1", _) => RMA_MCS,
        ("tas-rw", _) => TAS_RW,
        ("mcs-rw-rp" | "mcs-rw-wp", _) => MCS_RW,
        ("big-reader", _) => BIG_READER,
        ("big-reader-fence", _) => BIG_READER_FENCE,
        ("brlock", _) => BRLOCK,
        ("bravo", _) => BRAVO,
        ("bravo-1", _) => BRAVO_1,
        ("mcs-rw-neutral", _) => MCS_RW_NEUTRAL,
        ("declock", _) => DECLOCK,
        ("dslr-wide", _) => DSLR_WIDE,
        ("shiftlock", _) => SHIFTLOCK,
        ("shiftlock-2", _) => SHIFTLOCK_2,
        ("rma-rw" | "rma-rw-1-2-1" | "rma-rw-2-2-2", _) => RMA_RW,
        ("two-level" | "two-level-retract" | "two-level-scan", _) => TWO_LEVEL,
        ("robust-two-level", _) => ROBUST_TWO_LEVEL,
        ("robust-two-level-announced", _) => ROBUST_TWO_LEVEL_ANNOUNCED,
        ("robust-hierarchical", _) => ROBUST_HIERARCHICAL,
        ("robust-hierarchical-announced", _) => ROBUST_HIERARCHICAL_ANNOUNCED,
        ("nocheck", _) | (_, Workload::Program(_)) => &[],
        ("global", _) => GLOBAL,
        ("global-tas-rw" | "per-target-tas-rw", _) => TIMED,
        ("per-target", _) => PER_TARGET,
        (_, Workload::Window(_)) => OTHER_POLICY,
        (_, Workload::Lock(_)) if subject.is_nested() => NESTED,
        (_, Workload::Lock(_)) => OTHER,
    };
    let mut rows = vec![rows];
    if rows[0] == OTHER {
        let claims_order = subject.claimed_order() != subject::Order::None;
        rows.extend(subject.supports(Form::Try).then_some(OTHER_TRY));
        rows.extend(subject.supports(Form::Timed).then_some(OTHER_TIMED));
        rows.extend(claims_order.then_some(OTHER_ORDER));
    }
    let mut all = Vec::new();
    for &(network, special, scenarios) in rows.into_iter().flatten() {
        let section = if special == Data { Section::Data } else { Section::Empty };
        for scenario in scenarios {
            let scenario = scenario.parse().expect("a valid standard scenario");
            let (order, long) = (special == Order, special == Long);
            all.push(Configuration { scenario, network, section, order, long });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::subjects;

    #[test]
    fn every_standard_configuration_makes_sense() {
        for subject in subjects() {
            let mut seen = HashSet::new();
            for configuration in configurations(&subject) {
                configuration.check(&subject).validate().unwrap();
                assert!(!configuration.order || subject.claimed_order() != subject::Order::None, "{}", subject.name());
                assert!(seen.insert(format!("{configuration:?}")), "{} twice: {configuration:?}", subject.name());
            }
        }
    }

    #[test]
    fn every_form_of_acquisition_is_checked_with_and_without_late_puts() {
        for subject in subjects() {
            let quick = configurations(&subject).into_iter().filter(|one| !one.long);
            let all: Vec<Configuration> = quick.collect();
            for form in [Form::Try, Form::Timed].into_iter().filter(|&form| subject.supports(form)) {
                for network in [Sc, LatePuts] {
                    let has = all.iter().any(|one| one.network == network && one.scenario.has(form));
                    assert!(has, "{} lacks {form:?} on {network}", subject.name());
                }
            }
        }
    }

    #[test]
    fn every_lock_is_checked_on_every_model_with_and_without_data() {
        // The gates of the last one are checked on every model without its announcements, and these without gates.
        let left_out = ["nocheck", "robust-hierarchical-announced"];
        for subject in subjects().iter().filter(|subject| !left_out.contains(&subject.name())) {
            let quick = configurations(subject).into_iter().filter(|one| !one.long);
            let seen: HashSet<(Network, Section)> = quick.map(|one| (one.network, one.section)).collect();
            for needed in [
                (Sc, Section::Empty),
                (LatePuts, Section::Empty),
                (UnorderedBulk, Section::Data),
                (Hca, Section::Empty),
            ] {
                assert!(seen.contains(&needed), "{} lacks {needed:?}", subject.name());
            }
        }
    }
}
