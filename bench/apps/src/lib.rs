//! Applications of windows from the papers' measurements, each checked against a sequential result.
//!
//! Each is a [`Job`] whose fields are its command-line options. It runs on threads, on processes of every backend and
//! on simulated machines, with any strategies of the window layer.

#![forbid(unsafe_code)]

mod dsde;
pub mod fft;
mod ghost;
pub mod halo;
mod hash_table;
pub mod lattice;
mod parts;
mod random;
mod random_access;
pub mod stencil;
pub mod support;
mod ycsb;

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
pub use ycsb::{Mix, Ycsb};

use rmalab_job::{self as job, Job, Place, Ran, Ranks};
use rmalab_job::{Error, Result};
use rmalab_report::finding::{Column, Table, Value};
use rmalab_report::{Document, Machine, Run, Section};

/// An application: a job, and its description.
pub trait Application: Job {
    /// Its title, in a line.
    const TITLE: &'static str;

    /// The strategies of its windows.
    fn strategies(&self) -> &Strategies;

    /// Checks that it can run with these options there.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for options that contradict each other.
    fn check(&self, world: &Ranks) -> Result<()>;

    /// Nanoseconds of a run, on the slowest rank: the key for the median of several runs.
    fn time(&self, ran: &Ran<Self::Out>) -> f64;

    /// The results of a run: its size, times, rates, and the check of the result.
    fn table(&self, ran: &Ran<Self::Out>) -> Table;
}

/// The error for an agent in a simulation.
const NO_AGENT: &str = "two-sided-agent needs a thread for each rank's agent, which simulated ranks do not have";

/// Makes the list of all applications: their types, whose names on the command line have another spelling.
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
            /// Checks that it can run with these options there.
            ///
            /// # Errors
            ///
            /// [`Error::Usage`] for options that contradict each other.
            pub fn check(&self, world: &Ranks) -> Result<()> {
                match self {
                    $(Chosen::$name(application) => check(application, world),)*
                }
            }

            /// Runs it, as [`run`] does.
            ///
            /// # Errors
            ///
            /// Errors of [`run`].
            pub fn run(&self, world: &Ranks, repetitions: u32, stop: &AtomicBool) -> Result<Done> {
                match self {
                    $(Chosen::$name(application) => run(application, world, repetitions, stop),)*
                }
            }
        }

        /// The names of all applications, and their titles.
        pub const ALL: &[(&str, &str)] = &[$((<$name as Job>::NAME, <$name as Application>::TITLE)),*];
    };
}

// One line for each application; bench/papers/src/jobs.rs has one for each, too.
applications! {
    Ghost,
    RandomAccess,
    HashTable,
    Ycsb,
    Dsde,
    Fft,
    Lattice,
    Stencil,
}

/// The results of an application's runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Done {
    /// Its name.
    pub application: &'static str,
    /// Its options.
    pub options: serde_json::Value,
    /// The place of the ranks.
    pub world: Ranks,
    /// Nanoseconds of each run, on the slowest rank.
    pub times: Vec<f64>,
    /// The result of the run with the median time.
    pub table: Table,
    /// The ranks' results of each run, and the counters of a simulator.
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
/// [`Error::Usage`] when the options cannot work, before anything is started; and errors of [`job::run`], including a wrong
/// result.
pub fn run<T: Application>(application: &T, world: &Ranks, repetitions: u32, stop: &AtomicBool) -> Result<Done> {
    check(application, world)?;
    let mut runs = Vec::new();
    for _ in 0..repetitions.max(1) {
        runs.push(job::run(application, world, stop)?);
    }
    let times: Vec<f64> = runs.iter().map(|ran| application.time(ran)).collect();
    let json = |value: serde_json::Result<_>| value.expect("numbers and texts are JSON");
    Ok(Done {
        application: T::NAME,
        options: json(serde_json::to_value(application)),
        world: world.clone(),
        table: application.table(&runs[middle(&times)]),
        times,
        runs: runs.iter().map(|ran| json(serde_json::to_value(ran))).collect(),
    })
}

/// Returns which run has the median time.
fn middle(times: &[f64]) -> usize {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
    order[order.len() / 2]
}

/// The names of lock policies, as values of an option.
pub fn policies() -> PossibleValuesParser {
    PossibleValuesParser::new(PolicyKind::NAMES.iter().copied().chain([PolicyKind::GLOBAL]))
}

/// The strategies of an application's windows: the strategies of [`Config`], by name.
#[derive(Args, Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Strategies of the windows")]
pub struct Strategies {
    /// The lock policy [default: two-level]
    #[arg(long = "lock", value_name = "NAME", value_parser = policies())]
    pub policy: Option<String>,
    /// Synchronization of fences [default: dissemination; deferred on two-sided transports]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(FenceStrategy::NAMES))]
    pub fence: Option<String>,
    /// Synchronization of post, start, complete and wait [default: auto; deferred on two-sided transports]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(PscwStrategy::NAMES))]
    pub pscw: Option<String>,
    /// Atomicity of accumulates [default: native]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(AccumulateStrategy::NAMES))]
    pub accumulate: Option<String>,
    /// Transport of the operations [default: one-sided]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(Transport::NAMES))]
    pub transport: Option<String>,
}

impl Strategies {
    /// Converts them to a window's configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for an unknown name of a strategy.
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

    /// Checks that windows with these strategies are possible there.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for an unknown name, for strategies that contradict each other, and for an agent on a simulated
    /// machine.
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

    /// Runs `body` on a window; an agent serves the window's requests meanwhile if its transport has one.
    ///
    /// Collective. Ends with the team's barrier, and no rank may issue a request after `body`.
    ///
    /// # Errors
    ///
    /// Errors of `body` and of the agent; [`Error::Usage`] on a simulated machine, whose ranks have no threads.
    pub fn served<'t, A: RemoteAtomics + ?Sized, R>(
        &self,
        window: &mut Window<'t, A>,
        body: impl FnOnce(&mut Window<'t, A>) -> Result<R>,
    ) -> Result<R> {
        if self.config()?.transport != Transport::TwoSidedAgent {
            return body(window);
        }
        let (mut body, mut result) = (Some(body), None);
        beside_agent(window, &mut |window| {
            if let Some(body) = body.take() {
                result = Some(body(window)?);
            }
            Ok(())
        })?;
        Ok(result.expect("the body has run"))
    }

    /// Allocates a window with these strategies.
    ///
    /// # Errors
    ///
    /// Errors of [`config`](Self::config) and of the window; [`Error::Usage`] when strategies contradict each other.
    pub fn window<'t, A: RemoteAtomics + ?Sized>(&self, team: &'t Team<'t, A>, bytes: u64) -> Result<Window<'t, A>> {
        let window = Window::builder(team).config(self.config()?).allocate(bytes)?;
        match window.ignored().first() {
            Some(ignored) => Err(Error::usage(ignored.to_string())),
            None => Ok(window),
        }
    }
}

/// Runs `body` while an agent serves the requests of the window; compiled once for all results.
fn beside_agent<'t, A: RemoteAtomics + ?Sized>(
    window: &mut Window<'t, A>,
    body: &mut dyn FnMut(&mut Window<'t, A>) -> Result<()>,
) -> Result<()> {
    let team = window.team();
    let shared = team.ra().shared().ok_or_else(|| Error::usage(NO_AGENT))?;
    let agent = window.agent_on(shared)?;
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || agent.serve());
        let result = body(window).and_then(|()| Ok(team.barrier()?));
        window.stop_agent()?;
        serving.join().expect("the agent does not panic")?;
        result
    })
}
