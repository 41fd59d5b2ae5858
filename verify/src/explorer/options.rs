//! How far a search goes, and in which order.

use std::time::Duration;

/// In which order states are visited.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Search {
    /// By their distance from the start: the first counterexample is a shortest one.
    #[default]
    BreadthFirst,
    /// Along one schedule after the other, with 64 bits kept of each state: for what memory bounds. A counterexample is
    /// none of the shortest, a state is missed with [a small probability](crate::Outcome::missed), and livelocks are
    /// not searched for.
    DepthFirst,
}

/// How far a search goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The order of states.
    pub search: Search,
    /// The most states.
    pub max_states: Option<u64>,
    /// The most memory for them, in bytes.
    pub max_bytes: u64,
    /// The longest time.
    pub max_time: Option<Duration>,
    /// The most preemptions of a schedule: switches from a rank that could go on; any number if nothing is said.
    pub preemptions: Option<u32>,
    /// How many threads search.
    pub threads: usize,
    /// Whether states that differ in nothing but the numbers of ranks with one role count as one.
    pub symmetry: bool,
    /// Whether steps that no other rank can notice are taken at once, in one order instead of all.
    pub partial_order: bool,
    /// Whether the lock's order is checked, too, which needs more states.
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
            partial_order: true,
            order: false,
        }
    }
}
