//! What a simulation has counted.

use crate::Distance;
use crate::engine::sim::profile::Span;

/// Kinds of operations that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// fetch_add, compare_and_swap, fetch_store.
    Atomic,
    /// A get of a word.
    Get,
    /// A put of a word.
    Put,
    /// A bulk transfer.
    Bulk,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Atomic, Kind::Get, Kind::Put, Kind::Bulk];
}

/// Operations by kind and distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operations([[u64; 3]; 4]);

impl Operations {
    /// How many operations of a kind were made at a distance.
    pub fn count(&self, kind: Kind, distance: Distance) -> u64 {
        self.0[kind as usize][distance.index()]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// Those at a distance.
    pub fn at(&self, distance: Distance) -> u64 {
        self.0.iter().map(|kind| kind[distance.index()]).sum()
    }

    #[inline]
    pub(super) fn add(&mut self, kind: Kind, distance: Distance) {
        self.0[kind as usize][distance.index()] += 1;
    }
}

/// The adapter that had most to do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Busiest {
    /// Its node.
    pub node: u32,
    /// Messages that it has served.
    pub served: u64,
    /// The share of the time in which its engines were busy, from 0 to 1.
    pub utilization: f64,
    /// Messages that waited for it, on average over time.
    pub mean_queue: f64,
    /// The most that waited at a time.
    pub longest_queue: u32,
}

/// The word, to its line, that adapters have used most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hottest {
    /// The rank in whose segment it is.
    pub rank: u32,
    /// Where its line starts in the segment, in bytes.
    pub disp: u64,
    /// Atomic operations on it by adapters, of ranks that [count](super::Sim::count_hottest).
    pub served: u64,
    /// The least time that they take, since they take turns: operations times service.
    pub bound: Span,
}

/// What a simulation has counted.
#[derive(Clone, PartialEq, Debug)]
pub struct Stats {
    /// Events that were handled.
    pub events: u64,
    /// Virtual time from the begin to the last event.
    pub end: Span,
    /// Operations of all ranks.
    pub operations: Operations,
    /// The adapter that was busy longest, if any was.
    pub busiest: Option<Busiest>,
    /// The word with most atomic operations by adapters, if there was any.
    pub hottest: Option<Hottest>,
    /// Lines of 64 bytes of all segments that were touched.
    pub lines: u64,
}
