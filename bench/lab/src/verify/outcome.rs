//! What the checks found.

use std::collections::BTreeMap;
use std::time::Duration;

use rmalab_verify::play::Section;
use rmalab_verify::subject::Order;
use rmalab_verify::{Counterexample, Finding, Limit, Livelocks, Network, TOGETHER, WAITED};
use serde::Serialize;

use super::engine::LOOM_PREEMPTIONS;
use super::{Engine, Job, section_name};
use rmalab_report::{Machine, Run};

/// Everything that a run of checks found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// How the checks were run, and whether every one was made.
    pub run: Run,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Where it ran.
    pub machine: Machine,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Checked>,
}

/// One check, and what it found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// The lock's name.
    pub lock: &'static str,
    /// The mutant's name, if it is not the real lock.
    pub mutant: Option<&'static str>,
    /// Who looked.
    pub engine: Engine,
    /// On which network.
    pub network: Network,
    /// The scenario.
    pub scenario: String,
    /// What was done inside.
    pub section: &'static str,
    /// The order that was checked beside the other properties.
    pub order: Option<&'static str>,
    /// Where the lock's words were.
    pub home: u32,
    /// Distinct states.
    pub states: u64,
    /// Steps between them.
    pub transitions: u64,
    /// Executions, of an engine that makes those instead of visiting states.
    pub executions: u64,
    /// Different behaviours among the executions.
    pub behaviours: u64,
    /// The steps of the farthest state from the start.
    pub depth: u32,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Bytes for states.
    pub bytes: u64,
    /// What was done about livelocks: `impossible` (no code has a loop), `searched` or `not-searched`.
    pub livelocks: &'static str,
    /// An upper bound on the probability that a state was missed, since only fingerprints of states were kept.
    pub missed: f64,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What happened at least once, and what never did.
    pub sometimes: BTreeMap<&'static str, bool>,
}

/// What is known after a check.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// Nothing is broken in any state.
    Holds,
    /// Nothing is broken in any schedule of so many preemptions.
    HoldsWithin {
        /// The most preemptions of a schedule.
        preemptions: u32,
    },
    /// Nothing is broken in any execution in which no rank polls by writes more often than once an acquisition.
    HoldsWithinPolls,
    /// Nothing is broken in the executions that were asked for, which are not all that there are.
    NothingFound,
    /// A property is broken.
    Violated {
        /// How.
        counterexample: Counterexample,
    },
    /// Nothing is broken in the states that were visited before a limit was reached.
    Incomplete {
        /// Which limit: `state`, `memory`, `time`, or none and the search was interrupted.
        limit: Option<&'static str>,
    },
    /// The engine could not make the check.
    Failed {
        /// Why not.
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
            missed: 0.0,
            verdict: Verdict::Holds,
            sometimes: BTreeMap::new(),
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
        self.livelocks = match found.livelocks {
            Livelocks::Impossible => "impossible",
            Livelocks::Searched => "searched",
            Livelocks::NotSearched => "not-searched",
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

    /// Whether a property is broken, or the engine has failed.
    pub fn is_broken(&self) -> bool {
        matches!(self.verdict, Verdict::Violated { .. } | Verdict::Failed { .. })
    }

    /// How a property is broken, if one is.
    pub fn counterexample(&self) -> Option<&Counterexample> {
        match &self.verdict {
            Verdict::Violated { counterexample } => Some(counterexample),
            _ => None,
        }
    }

    /// What should have happened at least once, and never did, so that the verdict says less than it seems to.
    ///
    /// Only of a search that was complete: whatever was cut short may have missed it.
    pub fn never(&self) -> Vec<&'static str> {
        if !matches!(self.verdict, Verdict::Holds) {
            return Vec::new();
        }
        self.sometimes.iter().filter(|&(_, &happened)| !happened).map(|(&name, _)| name).collect()
    }

    /// The check in words.
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
    /// What `checks` found, in a run that took `took`.
    pub fn new(run: Run, took: Duration, checks: Vec<Checked>) -> Outcome {
        Outcome { run, seconds: took.as_secs_f64(), machine: Machine::describe(), checks }
    }

    /// Whether a check is broken.
    pub fn is_broken(&self) -> bool {
        self.checks.iter().any(|checked| matches!(checked.verdict, Verdict::Violated { .. } | Verdict::Failed { .. }))
    }
}
