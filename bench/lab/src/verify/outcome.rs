//! The results of checks.

use std::collections::BTreeMap;
use std::time::Duration;

use rmalab_verify::play::Section;
use rmalab_verify::subject::Order;
use rmalab_verify::{Counterexample, Finding, Limit, Livelocks, Network, TOGETHER, WAITED};
use serde::Serialize;

use super::engine::LOOM_PREEMPTIONS;
use super::{Engine, Job, section_name};
use rmalab_report::{Machine, Run};

/// All results of a run of checks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The command of the checks, and whether every one was made.
    pub run: Run,
    /// The duration of the run, in seconds.
    pub seconds: f64,
    /// The machine.
    pub machine: Machine,
    /// The checks, in the order of the run.
    pub checks: Vec<Checked>,
}

/// One check and its result.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// The lock's name.
    pub lock: &'static str,
    /// The mutant's name, if it is not the real lock.
    pub mutant: Option<&'static str>,
    /// The engine.
    pub engine: Engine,
    /// The network.
    pub network: Network,
    /// The scenario.
    pub scenario: String,
    /// The critical section.
    pub section: &'static str,
    /// The order that was checked beside the other properties.
    pub order: Option<&'static str>,
    /// The home of the lock's words.
    pub home: u32,
    /// Distinct states.
    pub states: u64,
    /// Steps between them.
    pub transitions: u64,
    /// Executions, for engines that do not visit states.
    pub executions: u64,
    /// Different behaviours among the executions.
    pub behaviours: u64,
    /// The number of steps to the farthest state from the start.
    pub depth: u32,
    /// The duration, in seconds.
    pub seconds: f64,
    /// Bytes for states.
    pub bytes: u64,
    /// The search for livelocks: `impossible` (no code has a loop), `searched` or `not-searched`.
    pub livelocks: &'static str,
    /// The number of times that other ranks enter while a rank waits, for each group of the scenario; `None` if it was
    /// not measured.
    pub bypass: Option<String>,
    /// An upper bound on the probability that the search missed a state, since it keeps only fingerprints of states.
    pub missed: f64,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The events that happened at least once, and the events that never did.
    pub sometimes: BTreeMap<&'static str, bool>,
    /// Behaviours of the lock that the engine did not explore.
    pub unexplored: Vec<&'static str>,
}

/// The verdict of a check.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// No property is broken in any state.
    Holds,
    /// No property is broken in any schedule with up to that many preemptions.
    HoldsWithin {
        /// The most preemptions of a schedule.
        preemptions: u32,
    },
    /// No property is broken in any execution in which no rank polls by writes more than once in an acquisition.
    HoldsWithinPolls,
    /// No property is broken in the requested executions, which are only a part of all.
    NothingFound,
    /// A property is broken.
    Violated {
        /// The violation.
        counterexample: Counterexample,
    },
    /// No property is broken in the states that were visited ahead of a limit.
    Incomplete {
        /// The limit: `state`, `memory`, `time`, or none after an interrupt.
        limit: Option<&'static str>,
    },
    /// The engine could not make the check.
    Failed {
        /// The reason.
        why: String,
    },
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Holds => f.write_str("holds"),
            Verdict::HoldsWithin { preemptions: 1 } => f.write_str("holds within 1 preemption"),
            Verdict::HoldsWithin { preemptions } => write!(f, "holds within {preemptions} preemptions"),
            Verdict::HoldsWithinPolls => f.write_str("holds within a bound on polls"),
            Verdict::NothingFound => f.write_str("nothing found"),
            Verdict::Violated { counterexample } => write!(f, "VIOLATED {}", counterexample.violation.property),
            Verdict::Incomplete { limit: Some(limit) } => write!(f, "incomplete: {limit} limit"),
            Verdict::Incomplete { limit: None } => f.write_str("incomplete: interrupted"),
            Verdict::Failed { .. } => f.write_str("FAILED"),
        }
    }
}

impl Checked {
    pub(super) fn new(job: &Job, found: rmalab_verify::Result<rmalab_verify::Outcome>, took: Duration) -> Checked {
        let check = &job.check;
        let mut checked = Checked {
            lock: check.subject.name(),
            mutant: check.mutant.map(|mutant| mutant.name),
            engine: job.engine,
            network: check.network,
            scenario: check.scenario.to_string(),
            section: section_name(check.section),
            order: if job.options.order { order_name(check.subject.claimed_order()) } else { None },
            home: check.home().0,
            states: 0,
            transitions: 0,
            executions: 0,
            behaviours: 0,
            depth: 0,
            seconds: took.as_secs_f64(),
            bytes: 0,
            livelocks: "not-searched",
            bypass: None,
            missed: 0.0,
            verdict: Verdict::Holds,
            sometimes: BTreeMap::new(),
            unexplored: Vec::new(),
        };
        match found {
            Ok(outcome) => checked.found(outcome, job),
            Err(error) => checked.verdict = Verdict::Failed { why: error.to_string() },
        }
        checked
    }

    fn found(&mut self, found: rmalab_verify::Outcome, job: &Job) {
        self.states = found.progress.states;
        self.transitions = found.progress.transitions;
        self.executions = found.progress.executions;
        self.behaviours = found.behaviours;
        self.depth = found.progress.depth;
        self.bytes = found.progress.bytes;
        self.missed = found.missed;
        self.unexplored = found.unexplored;
        self.livelocks = match found.livelocks {
            Livelocks::Impossible => "impossible",
            Livelocks::Searched => "searched",
            Livelocks::NotSearched => "not-searched",
        };
        self.bypass = match found.bypass.as_slice() {
            [] => None,
            [one] => Some(one.most.map_or("unbounded".to_owned(), |most| most.to_string())),
            many => Some(many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        };
        let expected = |name: &str| match name {
            WAITED => job.check.some_rank_waits(),
            TOGETHER => job.check.some_ranks_share() && job.check.section == Section::Empty,
            _ => true,
        };
        self.sometimes = found.sometimes.into_iter().filter(|(name, _)| expected(name)).collect();
        self.verdict = match found.finding {
            Finding::Holds if !found.bounded => Verdict::Holds,
            Finding::Holds => match (self.engine, job.options.preemptions) {
                (Engine::Explorer, None) => Verdict::Holds,
                (Engine::Explorer | Engine::Loom, preemptions) => {
                    Verdict::HoldsWithin { preemptions: preemptions.unwrap_or(LOOM_PREEMPTIONS) }
                }
                _ => Verdict::HoldsWithinPolls,
            },
            Finding::Violated(counterexample) => Verdict::Violated { counterexample },
            Finding::Incomplete(Limit::Executions) => Verdict::NothingFound,
            Finding::Incomplete(Limit::Interrupted) => Verdict::Incomplete { limit: None },
            Finding::Incomplete(limit) => Verdict::Incomplete { limit: Some(limit.name()) },
        };
    }

    /// Returns whether a property is broken, or the engine failed.
    pub fn is_broken(&self) -> bool {
        matches!(self.verdict, Verdict::Violated { .. } | Verdict::Failed { .. })
    }

    /// Returns whether the user interrupted it.
    pub fn is_interrupted(&self) -> bool {
        self.verdict == Verdict::Incomplete { limit: None }
    }

    /// Returns how a property is broken, if one is.
    pub fn counterexample(&self) -> Option<&Counterexample> {
        match &self.verdict {
            Verdict::Violated { counterexample } => Some(counterexample),
            _ => None,
        }
    }

    /// Returns events that should have happened at least once but never did, so that the verdict is weaker than it
    /// looks.
    ///
    /// Only a complete search counts: one that was cut short may have missed them.
    pub fn never(&self) -> Vec<&'static str> {
        if !matches!(self.verdict, Verdict::Holds) {
            return Vec::new();
        }
        self.sometimes.iter().filter(|&(_, &happened)| !happened).map(|(&name, _)| name).collect()
    }

    /// Returns the check in words.
    pub fn title(&self) -> String {
        let mut title = format!("{}, {}, {}, {}", self.lock, self.scenario, self.network, self.section);
        if let Some(mutant) = self.mutant {
            title += &format!(", mutant {mutant}");
        }
        title
    }

    pub(super) fn states_per_second(&self) -> f64 {
        self.states as f64 / self.seconds.max(1e-9)
    }

    pub(super) fn bytes_per_state(&self) -> f64 {
        self.bytes as f64 / self.states.max(1) as f64
    }
}

const fn order_name(order: Order) -> Option<&'static str> {
    match order {
        Order::None => None,
        Order::Fifo => Some("fifo"),
        Order::ReadersFirst => Some("readers first"),
        Order::WritersFirst => Some("writers first"),
    }
}

impl Outcome {
    /// Returns the outcome of `checks` in a run of the duration `took`.
    pub fn new(run: Run, took: Duration, checks: Vec<Checked>) -> Outcome {
        Outcome { run, seconds: took.as_secs_f64(), machine: Machine::describe(), checks }
    }

    /// Returns whether a check is broken.
    pub fn is_broken(&self) -> bool {
        self.checks.iter().any(Checked::is_broken)
    }

    /// Returns whether a limit or the user ended a search.
    pub fn is_incomplete(&self) -> bool {
        self.checks.iter().any(|checked| matches!(checked.verdict, Verdict::Incomplete { .. }))
    }
}
