//! The engines that search for faults of locks.

use rmalab_verify::shuttle_engine::Method;
use rmalab_verify::{Check, Form, Network, Outcome, Result, Watch, explorer, loom_engine, shuttle_engine};

use super::Job;

/// An engine that makes checks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The stateful explorer: every schedule, on every network model.
    Explorer,
    /// loom: every execution under most of the C11 memory model, with few ranks.
    Loom,
    /// shuttle, with schedules at random.
    ShuttleRandom,
    /// shuttle, with random priorities (probabilistic concurrency testing).
    ShuttlePct,
    /// shuttle, with one schedule after the other.
    ShuttleDfs,
}

/// loom's default bound on preemptions: without it there are too many executions.
pub(super) const LOOM_PREEMPTIONS: u32 = 3;
/// Depth of the bugs that PCT is likely to find: the number of calls whose order matters.
const PCT_DEPTH: u32 = 3;

impl Engine {
    /// All engines.
    pub const ALL: [Engine; 5] =
        [Engine::Explorer, Engine::Loom, Engine::ShuttleRandom, Engine::ShuttlePct, Engine::ShuttleDfs];

    /// The engine's name, on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Explorer => "explorer",
            Engine::Loom => "loom",
            Engine::ShuttleRandom => "shuttle-random",
            Engine::ShuttlePct => "shuttle-pct",
            Engine::ShuttleDfs => "shuttle-dfs",
        }
    }

    /// Returns whether it supports `check`.
    pub fn takes(self, check: &Check) -> bool {
        let scenario = &check.scenario;
        let takes = check.network == Network::Sc
            && !scenario.has(Form::Timed)
            && !scenario.is_endless()
            && scenario.crashes() == 0
            && scenario.restarts() == 0
            && scenario.lapses() == 0;
        match self {
            Engine::Explorer => true,
            Engine::Loom => takes && check.active() <= loom_engine::MAX_RANKS,
            _ => takes,
        }
    }

    /// Makes the check of `job`.
    pub(super) fn run(self, job: &Job, watch: Watch<'_>) -> Result<Outcome> {
        let max_time = job.options.max_time;
        let shuttle = |method| {
            let default = shuttle_engine::Options::default();
            // Round robin ends by itself.
            let executions = job.executions.unwrap_or(match method {
                Method::Exhaustive => u64::MAX,
                _ => default.executions,
            });
            let options = shuttle_engine::Options { method, executions, max_time, ..default };
            shuttle_engine::run(&job.check, &options, watch)
        };
        match self {
            Engine::Explorer => explorer::explore(&job.check, &job.options, watch),
            Engine::Loom => {
                let preemptions = Some(job.options.preemptions.unwrap_or(LOOM_PREEMPTIONS));
                let options = loom_engine::Options {
                    preemptions,
                    max_time,
                    max_executions: job.executions,
                    ..loom_engine::Options::default()
                };
                loom_engine::run(&job.check, &options, watch)
            }
            Engine::ShuttleRandom => shuttle(Method::Random { seed: job.seed }),
            Engine::ShuttlePct => shuttle(Method::Pct { seed: job.seed, depth: PCT_DEPTH }),
            Engine::ShuttleDfs => shuttle(Method::Exhaustive),
        }
    }
}
