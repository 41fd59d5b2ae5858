//! The report of an engine about a check: its progress and its finding.

use std::time::Duration;

use crate::{Counterexample, Form, Role};

/// The progress of an engine.
///
/// The explorer counts states, loom and shuttle count executions. The other figures are 0.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Progress {
    /// Distinct states.
    pub states: u64,
    /// Transitions between them.
    pub transitions: u64,
    /// States that are not yet expanded.
    pub frontier: u64,
    /// The number of transitions from the start to those states.
    pub depth: u32,
    /// The memory for states, in bytes.
    pub bytes: u64,
    /// Executions of the check, the current one included.
    pub executions: u64,
    /// The time since the start.
    pub elapsed: Duration,
}

/// Receives the progress several times a second. A return value of `false` ends the engine.
pub type Watch<'w> = &'w (dyn Fn(&Progress) -> bool + Sync);

/// The limit that ended an engine early.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Limit {
    /// The limit for states.
    States,
    /// The limit for the memory of states.
    Memory,
    /// The limit for executions, or the requested number of them.
    Executions,
    /// The limit for branches of one execution.
    Branches,
    /// The limit for the time.
    Time,
    /// [`Watch`] returned `false`.
    Interrupted,
}

impl Limit {
    /// The limit's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::States => "state",
            Limit::Memory => "memory",
            Limit::Executions => "execution",
            Limit::Branches => "branch",
            Limit::Time => "time",
            Limit::Interrupted => "interruption",
        }
    }
}

/// The finding of an engine.
#[derive(Clone, PartialEq, Debug)]
pub enum Finding {
    /// Nothing is broken in any state or execution; see [`Outcome::bounded`].
    Holds,
    /// A property is broken.
    Violated(Counterexample),
    /// The engine reached a limit, and found nothing broken before that.
    Incomplete(Limit),
}

/// The result of the search for livelocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Livelocks {
    /// No rank's code has a loop: every schedule ends.
    Impossible,
    /// The search for weakly fair cycles is complete.
    Searched,
    /// There was no search: only the explorer has one, and only after a complete, unbounded, breadth-first search.
    NotSearched,
}

/// The number of times that other ranks enter while a rank of one group of the scenario waits.
///
/// A rank *waits* from the first wait or pause of its acquisition on, until it enters. Its doorway, the steps ahead of
/// that wait, does not count. Only entries that exclude its own count. The number is the largest in any schedule of the
/// scenario, including unfair ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bypass {
    /// The role of the group.
    pub role: Role,
    /// The form of its acquisitions.
    pub form: Form,
    /// The number of entries; `None` if there is a cycle of states in which the rank waits and another rank enters.
    pub most: Option<u32>,
}

impl std::fmt::Display for Bypass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.most {
            Some(most) => write!(f, "{}{} {most}", self.role, self.form.name()),
            None => write!(f, "{}{} unbounded", self.role, self.form.name()),
        }
    }
}

/// The result of an engine.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The finding.
    pub finding: Finding,
    /// The progress.
    pub progress: Progress,
    /// True if a bound excluded schedules, so that `Holds` holds only within the bounds.
    pub bounded: bool,
    /// An upper bound of the probability that a state counted as another state: 0 unless the search was depth-first.
    pub missed: f64,
    /// The result of the search for livelocks.
    pub livelocks: Livelocks,
    /// The bypass of each group of the scenario. Only the explorer measures it, if a breadth-first search of a lock is
    /// complete and has memory for the transitions; else it is empty.
    pub bypass: Vec<Bypass>,
    /// The number of executions that were cut short, or no longer varied, by the limit of a rank's polls or of an
    /// execution's steps.
    pub cut: u64,
    /// The number of different behaviours among the executions.
    ///
    /// Two executions have the same behaviour if each rank makes the same calls and gets the same answers in both,
    /// apart from pauses. All engines that run every execution report the same figure. Behaviours are compared by
    /// hashes, so that the figure is too low after a collision.
    pub behaviours: u64,
    /// Events that should happen at least once, so that the properties do not hold vacuously: the name, and whether it
    /// happened.
    pub sometimes: Vec<(&'static str, bool)>,
    /// Behaviours of the lock that the engine did not explore: [`CLOCK`], [`DEADLINE`].
    pub unexplored: Vec<&'static str>,
}

impl Outcome {
    /// An outcome with the parts that every engine reports.
    pub(crate) fn new(finding: Finding, progress: Progress, sometimes: Vec<(&'static str, bool)>) -> Outcome {
        Outcome {
            finding,
            progress,
            bounded: false,
            missed: 0.0,
            livelocks: Livelocks::NotSearched,
            bypass: Vec::new(),
            cut: 0,
            behaviours: 0,
            sometimes,
            unexplored: Vec::new(),
        }
    }

    /// The counterexample, if a property is broken.
    pub fn violation(&self) -> Option<&Counterexample> {
        match &self.finding {
            Finding::Violated(counterexample) => Some(counterexample),
            Finding::Holds | Finding::Incomplete(_) => None,
        }
    }
}

/// The lock's calls depend on the time, in an acquisition without a deadline.
pub const CLOCK: &str = "the lock acts on the clock, which stands still in a search";
/// The lock waits until a deadline, in an acquisition without one.
pub const DEADLINE: &str = "a wait has a deadline, which never passes in a search";
/// A rank had to wait, or to poll again.
pub const WAITED: &str = "a rank has to wait";
/// A try failed, or a deadline passed.
pub const GAVE_UP: &str = "a rank gives up";
/// A rank learned that another rank had failed inside.
pub const TOLD: &str = "a rank learns of a failure inside";
/// A rank that had failed inside came back.
pub const RE_ENTERED: &str = "a rank that failed inside comes back";
/// A rank took over a lock, and learned that it did.
pub const TOOK_OVER: &str = "a rank takes over from one whose lease has passed";
/// Two ranks were inside at the same time.
pub const TOGETHER: &str = "two ranks are inside together";
