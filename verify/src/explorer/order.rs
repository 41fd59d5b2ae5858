//! The state that a search needs to check a lock's order: which ranks waited when another rank began.

use rmalab_atomics::Rank;

use super::node::Node;
use crate::status::Phase;
use crate::subject::Order;
use crate::{Access, Check, Property, Violation};

/// The largest number of ranks for this check: there is a bit for each pair.
pub(super) const RANKS: u32 = 8;

/// The ranks that waited when another rank began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ahead {
    /// Bit 8i + j: rank i waited when rank j began, and still waits.
    pub(super) before: u64,
    /// Bits 2i and 2i + 1: the number of writers that have entered while reader i waited, up to 3.
    pub(super) passed: u64,
}

fn bit(i: u32, j: u32) -> u64 {
    1 << (RANKS * i + j)
}

impl Ahead {
    /// Records that `rank` has gone from the local state `from` to `nodes[rank]`; `nodes` has the local states of all
    /// ranks.
    pub(super) fn moved(
        &mut self,
        check: &Check,
        order: Order,
        rank: Rank,
        from: &Node,
        nodes: &[&Node],
    ) -> Option<Violation> {
        let to = nodes[rank.index()];
        let me = rank.0;
        let began = from.status.phase == Phase::Outside && to.status.phase != Phase::Outside;
        if began {
            let reads = check.access(rank, to.status.acquisition).is_some_and(|access| !access.writes());
            let needs_writer = order == Order::WritersFirst && reads;
            let writers = || {
                (0..)
                    .map(Rank)
                    .zip(nodes)
                    .filter(|(rank, node)| check.access(*rank, node.status.acquisition).is_some_and(Access::writes))
            };
            let writer_inside = || {
                writers().any(|(_, node)| node.status.phase == Phase::Inside)
                    && writers().all(|(_, node)| node.status.phase != Phase::Acquiring || node.waits())
            };
            for (i, node) in (0..).zip(nodes) {
                if i != me && node.waits() && (!needs_writer || writer_inside()) {
                    self.before |= bit(i, me);
                }
            }
        }
        // A rank that gave up waits no longer. A rank that left has forgotten everything at its entry.
        if to.status.acquisition > from.status.acquisition {
            self.forget(me);
        }
        let entered = matches!(from.status.phase, Phase::Outside | Phase::Acquiring)
            && matches!(to.status.phase, Phase::Inside | Phase::Releasing);
        if !entered {
            return None;
        }
        let acquisition = to.status.acquisition;
        let mine = check.access(rank, acquisition)?;
        let mut found = None;
        for (i, node) in (0..).zip(nodes) {
            let Some(theirs) = check.access(Rank(i), node.status.acquisition) else { continue };
            if i == me || node.status.phase != Phase::Acquiring || !check.subject.excludes(mine, theirs) {
                continue;
            }
            let later = self.before & bit(i, me) != 0;
            let mut passed = self.passed >> (2 * i) & 3;
            if node.waits() && mine.writes() && !theirs.writes() && passed < 3 {
                passed += 1;
                self.passed += 1 << (2 * i);
            }
            let broken = match order {
                Order::None => false,
                Order::Fifo => later,
                Order::ReadersFirst => mine.writes() && !theirs.writes() && (later || passed > 1),
                Order::WritersFirst => theirs.writes() && later,
            };
            if broken {
                found = Some(Violation {
                    property: Property::Order,
                    rank,
                    acquisition: Some(acquisition),
                    seen: format!("{rank} ({mine}) enters before rank {i} ({theirs}), which waited before it began"),
                });
            }
        }
        self.forget(me);
        found
    }

    /// Records that rank `me` no longer acquires, or is inside.
    fn forget(&mut self, me: u32) {
        self.passed &= !(3 << (2 * me));
        for i in 0..RANKS {
            self.before &= !(bit(me, i) | bit(i, me));
        }
    }
}
