//! Checks that the calls in which ranks meet fit each other: barriers, fences, and posts with starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmalab_atomics::Rank;

use super::format::{Event, Kind};
use crate::FenceAssert;

/// The calls in which ranks meet.
#[derive(Default)]
pub(super) struct Meetings {
    /// The barriers and fences of the rank with most of them.
    longest: Vec<u8>,
    /// The number of barriers and fences of the rank that is read, so far.
    count: usize,
    /// The smallest number of barriers and fences of a rank.
    fewest: Option<usize>,
    /// By origin and target.
    pairs: BTreeMap<(Rank, Rank), Pair>,
}

/// The epochs of one origin and one target.
#[derive(Clone, Copy, Default)]
pub(super) struct Pair {
    starts: Side,
    posts: Side,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Side {
    count: u64,
    /// A checksum of the epochs that assert nocheck.
    nocheck: u64,
}

impl Side {
    fn add(&mut self, nocheck: bool) {
        self.count += 1;
        self.nocheck = self.nocheck.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1 + u64::from(nocheck));
    }
}

/// A post or a start that does not fit the calls of its partner.
#[derive(Clone, Copy)]
pub(super) struct Misfit {
    /// The rank that makes the call.
    pub(super) rank: Rank,
    /// [`Kind::Post`] or [`Kind::Start`].
    pub(super) kind: Kind,
    pub(super) partner: Rank,
    /// The number of such calls with the partner that precede it; `None` if a call with another assertion has to be
    /// found.
    pub(super) after: Option<u64>,
}

impl Meetings {
    /// Adds a call of the rank.
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
            // Ranks may differ in the assertions about their own memory.
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

    /// Ends the events of a rank. Returns the number of its barriers and fences.
    pub(super) fn end_rank(&mut self) -> u64 {
        let count = std::mem::take(&mut self.count);
        self.fewest = Some(self.fewest.map_or(count, |fewest| fewest.min(count)));
        count as u64
    }

    /// Returns the number of barriers and fences that all ranks have.
    pub(super) fn common(&self) -> u64 {
        self.fewest.unwrap_or(0) as u64
    }

    /// Returns the number of common epochs for each origin and target whose files differ, because the file with fewer
    /// `ends_early`.
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
