//! Checks that the calls in which ranks meet fit each other: barriers, fences, and posts with starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmalab_atomics::Rank;

use super::format::{Event, Kind};
use crate::FenceAssert;

/// What the ranks do together.
#[derive(Default)]
pub(super) struct Meetings {
    /// The barriers and fences of the rank that has most of them.
    longest: Vec<u8>,
    /// Those of the rank that is read.
    count: usize,
    /// The fewest that a rank has.
    fewest: Option<usize>,
    /// By origin and target.
    pairs: BTreeMap<(Rank, Rank), Pair>,
}

/// What one origin and one target do together.
#[derive(Clone, Copy, Default)]
pub(super) struct Pair {
    starts: Side,
    posts: Side,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Side {
    count: u64,
    /// A sum over which of them assert nocheck.
    nocheck: u64,
}

impl Side {
    fn add(&mut self, nocheck: bool) {
        self.count += 1;
        self.nocheck = self.nocheck.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1 + u64::from(nocheck));
    }
}

/// A post or a start that does not fit what its partner does.
#[derive(Clone, Copy)]
pub(super) struct Misfit {
    /// The rank that has it.
    pub(super) rank: Rank,
    /// [`Kind::Post`] or [`Kind::Start`].
    pub(super) kind: Kind,
    pub(super) partner: Rank,
    /// How many of these that name the partner come first; `None` if one with another assertion has to be found.
    pub(super) after: Option<u64>,
}

impl Meetings {
    /// The rank makes a call.
    pub(super) fn check(
        &mut self,
        rank: Rank,
        event: Event,
        group: impl FnOnce() -> Arc<[Rank]>,
    ) -> Result<(), String> {
        let nocheck = event.asserts & 1 != 0;
        let meeting = match event.kind {
            Kind::Start => {
                for &target in &*group() {
                    self.pairs.entry((rank, target)).or_default().starts.add(nocheck);
                }
                return Ok(());
            }
            Kind::Post => {
                for &origin in &*group() {
                    self.pairs.entry((origin, rank)).or_default().posts.add(nocheck);
                }
                return Ok(());
            }
            Kind::Barrier => 0,
            // Ranks may differ in the assertions that concern their own memory only.
            Kind::Fence if FenceAssert::from_bits(event.asserts).is_synchronization() => {
                let FenceAssert { noprecede, nosucceed, .. } = FenceAssert::from_bits(event.asserts);
                1 + u8::from(noprecede) + 2 * u8::from(nosucceed)
            }
            _ => return Ok(()),
        };
        match self.longest.get(self.count) {
            Some(&other) if other != meeting => {
                return Err(format!("a {}, where ranks of lower numbers call a {}", name(meeting), name(other)));
            }
            Some(_) => {}
            None => self.longest.push(meeting),
        }
        self.count += 1;
        Ok(())
    }

    /// All events of a rank are checked. Returns how many barriers and fences it has.
    pub(super) fn end_rank(&mut self) -> u64 {
        let count = std::mem::take(&mut self.count);
        self.fewest = Some(self.fewest.map_or(count, |fewest| fewest.min(count)));
        count as u64
    }

    /// How many barriers and fences all ranks have.
    pub(super) fn common(&self) -> u64 {
        self.fewest.unwrap_or(0) as u64
    }

    /// How many epochs each origin and target have together, for those that do not agree, since the file of the one that has
    /// fewer `ends_early`.
    pub(super) fn matched(&self, ends_early: impl Fn(Rank) -> bool) -> Result<BTreeMap<(Rank, Rank), u64>, Misfit> {
        let mut matched = BTreeMap::new();
        for (&(origin, target), &Pair { starts, posts }) in &self.pairs {
            let common = starts.count.min(posts.count);
            if starts.count > common && !ends_early(target) {
                return Err(Misfit { rank: origin, kind: Kind::Start, partner: target, after: Some(common) });
            }
            if posts.count > common && !ends_early(origin) {
                return Err(Misfit { rank: target, kind: Kind::Post, partner: origin, after: Some(common) });
            }
            if starts.count != posts.count {
                matched.insert((origin, target), common);
            } else if starts != posts {
                return Err(Misfit { rank: origin, kind: Kind::Start, partner: target, after: None });
            }
        }
        Ok(matched)
    }
}

fn name(meeting: u8) -> &'static str {
    match meeting {
        0 => "barrier",
        1 => "fence",
        2 => "fence with noprecede",
        _ => "fence with nosucceed",
    }
}
