//! Applications of windows: what the papers measure their systems with, each checked against a sequential result.
//!
//! Each is a [`Job`] whose fields are its command-line options, and runs on threads, on processes and on
//! simulated machines, with any strategy of the window layer.

use std::str::FromStr;

use clap::Args;
use clap::builder::PossibleValuesParser;
use rmalab_atomics::RemoteAtomics;
use rmalab_locks::PolicyKind;
use rmalab_windows::{AccumulateStrategy, Config, FenceStrategy, PscwStrategy, Team, Transport, Window};
use serde::{Deserialize, Serialize};

use crate::finding::Table;
use crate::job::{Job, Ran};
use crate::{Error, Result};

/// An application: a job, and what there is to say about it.
pub trait Application: Job {
    /// What it is called in texts.
    const TITLE: &'static str;

    /// What is told of a run: its size, times, rates, and how the result was checked.
    fn table(&self, ran: &Ran<Self::Out>) -> Table;
}

/// How the windows of an application work: the strategies of [`Config`], by name.
#[derive(Args, Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Strategies of the windows")]
pub struct Strategies {
    /// The lock policy [default: two-level]
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(PolicyKind::NAMES))]
    pub policy: Option<String>,
    /// How a fence synchronizes [default: dissemination; deferred on two-sided transports]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(FenceStrategy::NAMES))]
    pub fence: Option<String>,
    /// How post, start, complete and wait synchronize [default: auto; deferred on two-sided transports]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(PscwStrategy::NAMES))]
    pub pscw: Option<String>,
    /// How accumulates are atomic [default: native]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(AccumulateStrategy::NAMES))]
    pub accumulate: Option<String>,
    /// What carries the operations [default: one-sided]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(Transport::NAMES))]
    pub transport: Option<String>,
}

impl Strategies {
    /// As a window's configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when there is no strategy of a name.
    pub fn config(&self) -> Result<Config> {
        fn by_name<T: FromStr<Err: std::fmt::Display> + Default>(option: &str, name: Option<&String>) -> Result<T> {
            let Some(name) = name else { return Ok(T::default()) };
            name.parse().map_err(|error| Error::usage(format!("{option}: {error}")))
        }
        let mut config = Config {
            policy: by_name("policy", self.policy.as_ref())?,
            fence: by_name("fence", self.fence.as_ref())?,
            pscw: by_name("pscw", self.pscw.as_ref())?,
            accumulate: by_name("accumulate", self.accumulate.as_ref())?,
            transport: by_name("transport", self.transport.as_ref())?,
            ..Config::default()
        };
        if config.transport != Transport::OneSided {
            if self.fence.is_none() {
                config.fence = FenceStrategy::Deferred;
            }
            if self.pscw.is_none() {
                config.pscw = PscwStrategy::Deferred;
            }
        }
        Ok(config)
    }

    /// An allocated window of these strategies.
    ///
    /// # Errors
    ///
    /// Those of [`config`](Self::config) and of the window; [`Error::Usage`] when strategies do not go together.
    pub fn window<'t, A: RemoteAtomics + ?Sized>(&self, team: &'t Team<'t, A>, bytes: u64) -> Result<Window<'t, A>> {
        let window = Window::builder(team).config(self.config()?).allocate(bytes)?;
        match window.ignored().first() {
            Some(ignored) => Err(Error::usage(ignored.to_string())),
            None => Ok(window),
        }
    }
}
