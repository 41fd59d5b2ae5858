//! The limits and the order of a search.

use std::time::Duration;

/// The order in which the search visits states.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Search {
    /// By distance from the start: the first counterexample is a shortest one.
    #[default]
    BreadthFirst,
    /// Along one schedule after the other, with 64 bits per state, for searches that are limited by memory. A
    /// counterexample is usually not a shortest one. The search misses a state with [a small
    /// probability](crate::Outcome::missed), and does not look for livelocks.
    DepthFirst,
}

/// The limits and the order of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The order of the search.
    pub search: Search,
    /// The limit for states.
    pub max_states: Option<u64>,
    /// The limit for the memory of the states, in bytes.
    pub max_bytes: u64,
    /// The limit for the time.
    pub max_time: Option<Duration>,
    /// The limit for preemptions of a schedule: switches from a rank that could continue. `None` is no limit.
    pub preemptions: Option<u32>,
    /// The number of threads.
    pub threads: usize,
    /// True if states that differ only in the numbers of ranks with equal roles count as one.
    pub symmetry: bool,
    /// True if a rank's histories count as one when the rank goes on alike after them.
    pub merging: bool,
    /// True if steps that no other rank can observe are taken at once, in one order instead of all.
    pub partial_order: bool,
    /// True if the search also checks the lock's order, which needs more states.
    pub order: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            search: Search::BreadthFirst,
            max_states: None,
            max_bytes: 8 << 30,
            max_time: None,
            preemptions: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            symmetry: true,
            merging: true,
            partial_order: true,
            order: false,
        }
    }
}
