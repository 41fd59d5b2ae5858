//! The engines: who looks for what a lock does wrong.

use rmalab_verify::explorer::{self, Options, Outcome, Progress};
use rmalab_verify::{Check, Result};

/// Who looks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The stateful explorer: every schedule, on every network model.
    Explorer,
}

impl Engine {
    /// All engines.
    pub const ALL: [Engine; 1] = [Engine::Explorer];

    /// The engine's name, on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Explorer => "explorer",
        }
    }

    /// Lets the engine look at `check`.
    pub(super) fn run(
        self,
        check: &Check,
        options: &Options,
        watch: &(dyn Fn(&Progress) -> bool + Sync),
    ) -> Result<Outcome> {
        match self {
            Engine::Explorer => explorer::explore(check, options, watch),
        }
    }
}
