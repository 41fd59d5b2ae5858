//! The counts of a simulation.

use crate::Distance;
use crate::engine::sim::profile::Span;

/// The kinds of counted operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationKind {
    /// fetch_add, compare_and_swap, fetch_store.
    Atomic,
    /// A get of a word.
    Get,
    /// A put of a word.
    Put,
    /// A bulk transfer.
    Bulk,
}

impl OperationKind {
    /// All kinds.
    pub const ALL: [OperationKind; 4] =
        [OperationKind::Atomic, OperationKind::Get, OperationKind::Put, OperationKind::Bulk];
}

/// Operations by kind and distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operations([[u64; 3]; 4]);

impl Operations {
    /// Returns the number of operations of a kind at a distance.
    pub fn count(&self, kind: OperationKind, distance: Distance) -> u64 {
        self.0[kind as usize][distance.index()]
    }

    /// Returns the number of all operations.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// Returns the number of operations at a distance.
    pub fn at(&self, distance: Distance) -> u64 {
        self.0.iter().map(|kind| kind[distance.index()]).sum()
    }

    #[inline]
    pub(super) fn add(&mut self, kind: OperationKind, distance: Distance) {
        self.0[kind as usize][distance.index()] += 1;
    }
}

/// The adapter with the most work.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Busiest {
    /// Its node.
    pub node: u32,
    /// The number of messages that it has served.
    pub served: u64,
    /// The share of the time for which its engines were busy, from 0 to 1.
    pub utilization: f64,
    /// The mean number of messages that waited for it, over time.
    pub mean_queue: f64,
    /// The largest number of waiting messages at a time.
    pub longest_queue: u32,
}

/// The line with the word that adapters have used most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hottest {
    /// The rank of its segment.
    pub rank: u32,
    /// The offset of the line in the segment, in bytes.
    pub disp: u64,
    /// The number of adapters' complete atomic operations on it.
    pub served: u64,
    /// The shortest possible time for these operations, which take turns: operations times service time.
    pub bound: Span,
}

/// The counts of a simulation, or of its part between [`begin_stats`](super::Sim::begin_stats) and
/// [`end_stats`](super::Sim::end_stats).
#[derive(Clone, PartialEq, Debug)]
pub struct Stats {
    /// The number of handled events, of the whole simulation.
    pub events: u64,
    /// The virtual time from the simulation's start to its last event.
    pub end: Span,
    /// Operations of all ranks.
    pub operations: Operations,
    /// The adapter with the longest busy time, if there is one.
    pub busiest: Option<Busiest>,
    /// The word with the most atomic operations of adapters, if there is one.
    pub hottest: Option<Hottest>,
    /// The number of touched lines of 64 bytes in all segments, in the whole simulation.
    pub lines: u64,
}
