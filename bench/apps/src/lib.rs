//! Applications of windows: what the papers measure their systems with, each checked against a sequential result.
//!
//! Each is a [`Job`] whose fields are its command-line options, and runs on threads, on processes of every backend and on
//! simulated machines, with any strategy of the window layer.

#![forbid(unsafe_code)]

mod dsde;
pub mod fft;
mod ghost;
pub mod halo;
mod hash_table;
pub mod lattice;
mod random;
mod random_access;
pub mod stencil;
pub mod support;

use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use rmalab_atomics::RemoteAtomics;
use rmalab_locks::PolicyKind;
use rmalab_windows::{AccumulateStrategy, Config, FenceStrategy, PscwStrategy, Team, Transport, Window};
use serde::{Deserialize, Serialize};

pub use dsde::{Dsde, Epoch, Protocol};
pub use fft::Fft;
pub use ghost::{Ghost, Synchronization};
pub use hash_table::HashTable;
pub use lattice::Lattice;
pub use random_access::{RandomAccess, Update};
pub use stencil::Stencil;

use rmalab_job::{self as job, Job, Place, Ran, Ranks};
use rmalab_job::{Error, Result};
use rmalab_report::finding::{Column, Table, Value};
use rmalab_report::{Document, Machine, Run, Section};

/// An application: a job, and what there is to say about it.
pub trait Application: Job {
    /// What it is, in a line.
    const TITLE: &'static str;

    /// How its windows work.
    fn strategies(&self) -> &Strategies;

    /// Whether it can run with these options there.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`], which says what does not go together.
    fn check(&self, world: &Ranks) -> Result<()>;

    /// Nanoseconds that a run took, on the slowest rank: by these the median of several runs is chosen.
    fn time(&self, ran: &Ran<Self::Out>) -> f64;

    /// What is told of a run: its size, times, rates, and how the result was checked.
    fn table(&self, ran: &Ran<Self::Out>) -> Table;
}

/// Why there is no agent.
const NO_AGENT: &str = "two-sided-agent needs a thread for each rank's agent, which simulated ranks do not have";

/// Makes the list of all applications: their types, whose names are those on the command line in another spelling.
macro_rules! applications {
    ($($name:ident),* $(,)?) => {
        /// An application with its options.
        #[derive(Subcommand, Clone, Debug)]
        pub enum Chosen {
            $(
                #[doc = stringify!($name)]
                #[command(about = <$name as Application>::TITLE, long_about = None)]
                $name($name),
            )*
        }

        impl Chosen {
            /// Whether it can run with these options there.
            ///
            /// # Errors
            ///
            /// [`Error::Usage`], which says what does not go together.
            pub fn check(&self, world: &Ranks) -> Result<()> {
                match self {
                    $(Chosen::$name(application) => check(application, world),)*
                }
            }

            /// Runs it, as [`run`] does.
            ///
            /// # Errors
            ///
            /// Those of [`run`].
            pub fn run(&self, world: &Ranks, repetitions: u32, stop: &AtomicBool) -> Result<Done> {
                match self {
                    $(Chosen::$name(application) => run(application, world, repetitions, stop),)*
                }
            }
        }

        /// The names of all applications, and what they are.
        pub const ALL: &[(&str, &str)] = &[$((<$name as Job>::NAME, <$name as Application>::TITLE)),*];
    };
}

// One each; bench/papers/src/jobs.rs has a line for each, too.
applications! {
    Ghost,
    RandomAccess,
    HashTable,
    Dsde,
    Fft,
    Lattice,
    Stencil,
}

/// What came of the runs of an application.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Done {
    /// Its name.
    pub application: &'static str,
    /// Its options.
    pub options: serde_json::Value,
    /// Where it ran.
    pub world: Ranks,
    /// Nanoseconds that each run took, on the slowest rank.
    pub times: Vec<f64>,
    /// The result of the run that took the median time.
    pub table: Table,
    /// What the ranks of each run returned, and what a simulator counted.
    pub runs: Vec<serde_json::Value>,
}

impl Done {
    /// The document of the runs.
    pub fn document(&self, run: Run) -> Document {
        let title = format!("{}, {}", self.application, self.world);
        let mut document = Document::new("run", &title, run, Machine::describe());
        let mut runs = Table::new("Runs", [Column::from("run"), Column::from("time")]);
        for (number, &time) in (1..).zip(&self.times) {
            runs.row([Value::Count(number), Value::Time(time)]);
        }
        let options = format!("Options: {}.", self.options);
        document
            .sections
            .push(Section::new("result", "Result").paragraph(format!("{title}.")).table(self.table.clone()));
        document.sections.push(Section::new("runs", "Runs").paragraph(options).table(runs.clone()).folded());
        document.data = Some(runs);
        document
    }
}

fn check<T: Application>(application: &T, world: &Ranks) -> Result<()> {
    if world.ranks == 0 {
        return Err(Error::usage("an application has at least one rank"));
    }
    application.strategies().check(world)?;
    application.check(world)
}

/// Runs an application several times.
///
/// # Errors
///
/// [`Error::Usage`] when it cannot run like this, before anything is started; and those of [`job::run`], among them a result
/// that is wrong.
pub fn run<T: Application>(application: &T, world: &Ranks, repetitions: u32, stop: &AtomicBool) -> Result<Done> {
    check(application, world)?;
    let mut runs = Vec::new();
    for _ in 0..repetitions.max(1) {
        runs.push(job::run(application, world, stop)?);
    }
    let times: Vec<f64> = runs.iter().map(|ran| application.time(ran)).collect();
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
    let json = |value: serde_json::Result<_>| value.expect("numbers and texts are JSON");
    Ok(Done {
        application: T::NAME,
        options: json(serde_json::to_value(application)),
        world: world.clone(),
        table: application.table(&runs[order[order.len() / 2]]),
        times,
        runs: runs.iter().map(|ran| json(serde_json::to_value(ran))).collect(),
    })
}

/// How the windows of an application work: the strategies of [`Config`], by name.
#[derive(Args, Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Strategies of the windows")]
pub struct Strategies {
    /// The lock policy [default: two-level]
    #[arg(long = "lock", value_name = "NAME", value_parser = PossibleValuesParser::new(PolicyKind::NAMES))]
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

    /// Whether windows of these strategies can be had there.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when there is no strategy of a name, when strategies do not go together, and when an agent is asked for
    /// on a simulated machine.
    pub fn check(&self, world: &Ranks) -> Result<()> {
        let config = self.config()?;
        if let Some(ignored) = config.normalized().1.first() {
            return Err(Error::usage(ignored.to_string()));
        }
        if config.transport == Transport::TwoSidedAgent && matches!(world.place, Place::Sim(_)) {
            return Err(Error::usage(NO_AGENT));
        }
        Ok(())
    }

    /// Does `body` on a window, whose requests an agent serves meanwhile if its transport has one.
    ///
    /// Collective. No rank may ask for anything any more behind `body`, which ends with the team's barrier then.
    ///
    /// # Errors
    ///
    /// Those of `body` and of the agent; [`Error::Usage`] on a simulated machine, whose ranks have no threads.
    pub fn served<'t, A: RemoteAtomics + ?Sized, R>(
        &self,
        window: &mut Window<'t, A>,
        body: impl FnOnce(&mut Window<'t, A>) -> Result<R>,
    ) -> Result<R> {
        if self.config()?.transport != Transport::TwoSidedAgent {
            return body(window);
        }
        let team = window.team();
        let shared = team.ra().shared().ok_or_else(|| Error::usage(NO_AGENT))?;
        let agent = window.agent_on(shared)?;
        std::thread::scope(|scope| {
            let serving = scope.spawn(move || agent.serve());
            let result = body(window).and_then(|result| {
                team.barrier()?;
                Ok(result)
            });
            window.stop_agent()?;
            serving.join().expect("the agent does not panic")?;
            result
        })
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
