//! What an engine reports of a check: how far it came, and what it found.

use std::time::Duration;

use crate::Counterexample;

/// How far an engine has come.
///
/// The explorer visits states, and loom and shuttle make executions. The figures of the other kind are 0.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Progress {
    /// Distinct states.
    pub states: u64,
    /// Steps between them.
    pub transitions: u64,
    /// States that are still to be expanded.
    pub frontier: u64,
    /// Steps from the start to those.
    pub depth: u32,
    /// Bytes for states.
    pub bytes: u64,
    /// Executions of the check, the current one included.
    pub executions: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

/// Receives the progress several times a second, and ends the engine by returning `false`.
pub type Watch<'w> = &'w (dyn Fn(&Progress) -> bool + Sync);

/// The limit that has ended an engine before it was complete.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Limit {
    /// The most states.
    States,
    /// The most memory for states.
    Memory,
    /// The most executions, or the number of them that was asked for.
    Executions,
    /// The most branches of one execution.
    Branches,
    /// The longest time.
    Time,
    /// [`Watch`] has ended it.
    Interrupted,
}

impl Limit {
    /// The limit's name, as reports print it.
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

/// What an engine found.
#[derive(Clone, PartialEq, Debug)]
pub enum Finding {
    /// Every state was visited, or every execution was made, and nothing is broken; see [`Outcome::bounded`].
    Holds,
    /// A property is broken.
    Violated(Counterexample),
    /// Nothing is broken in what the engine did before it reached a limit.
    Incomplete(Limit),
}

/// What an engine did about livelocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Livelocks {
    /// No rank's code has a loop: every schedule ends.
    Impossible,
    /// The states were searched for weakly fair cycles.
    Searched,
    /// They were not searched for: only the explorer does so, and only in a search that is complete, unbounded and
    /// breadth-first.
    NotSearched,
}

/// The result of an engine.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What it found.
    pub finding: Finding,
    /// How far it came.
    pub progress: Progress,
    /// Whether a bound kept schedules out, so that `Holds` holds within the bounds only.
    pub bounded: bool,
    /// An upper limit of the probability that a state was taken for another one: 0 unless the search was depth-first.
    pub missed: f64,
    /// What it did about livelocks.
    pub livelocks: Livelocks,
    /// Executions that were cut short, or not varied any more, because a rank had polled as often as allowed, or
    /// because they had as many steps as allowed.
    pub cut: u64,
    /// The number of different behaviours among the executions.
    ///
    /// Two executions are one behaviour if each rank makes the same calls and gets the same answers in both, pauses
    /// left aside. The figure is the same for every engine that makes all executions. Hashes are compared, so the
    /// figure is too low if two of them collide.
    pub behaviours: u64,
    /// What has to happen at least once, so that the properties do not hold vacuously: its name, and whether it did.
    pub sometimes: Vec<(&'static str, bool)>,
}

impl Outcome {
    /// An outcome with no more in it than what every engine reports.
    pub(crate) fn new(finding: Finding, progress: Progress, sometimes: Vec<(&'static str, bool)>) -> Outcome {
        Outcome {
            finding,
            progress,
            bounded: false,
            missed: 0.0,
            livelocks: Livelocks::NotSearched,
            cut: 0,
            behaviours: 0,
            sometimes,
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

/// A rank had to wait, or to poll again.
pub const WAITED: &str = "a rank has to wait";
/// Two ranks were inside at one time.
pub const TOGETHER: &str = "two ranks are inside together";
