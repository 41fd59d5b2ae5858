//! Checks: every lock through the engines that search for faults.
//!
//! A [`Selection`] of locks, scenarios and engines becomes [`Job`]s. Each runs into a [`Checked`], and together these
//! are an [`Outcome`].

mod document;
mod engine;
mod outcome;

use std::collections::HashSet;
use std::time::Instant;

pub use engine::Engine;
pub use outcome::{Checked, Outcome, Verdict};
use rmalab_atomics::Rank;
use rmalab_verify::configurations::{Configuration, configurations};
use rmalab_verify::explorer::{Options, Search};
use rmalab_verify::mutant::Mutant;
use rmalab_verify::play::{Event, Section};
use rmalab_verify::subject::Order;
use rmalab_verify::{
    Check, Choice, Counterexample, Group, Live, Network, Nodes, Property, Scenario, Step, Subject, Violation, Watch,
    replay, subjects,
};

use rmalab_job::{Error, Result};
use rmalab_report::names;

use crate::Registry;

/// The selection of checks.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Names of locks and policies. The default is all that promise a property and suit the scenarios and the mutant.
    pub locks: Vec<String>,
    /// The lock that each rank acquires inside each of the locks.
    pub nested: Option<String>,
    /// True if odd ranks acquire the nested locks in the opposite order.
    pub opposite: bool,
    /// Scenarios instead of the standard configurations.
    pub scenarios: Vec<Scenario>,
    /// The number of ranks that may fail, instead of the scenarios'; for the standard configurations, a filter.
    pub crashes: Option<u32>,
    /// The networks: a filter of the standard configurations. By default all of these, except for searches under `sc`
    /// that other searches include, if no locks are named; `sc` and `late-puts` for given scenarios.
    pub networks: Vec<Network>,
    /// The critical sections, likewise; by default `empty` for given scenarios.
    pub sections: Vec<Section>,
    /// The engines; the explorer if there are none.
    pub engines: Vec<Engine>,
    /// The mutant's name, to check it instead of the real locks.
    pub mutant: Option<String>,
    /// The rank with the global words; by default one that takes no part.
    pub home: Option<Rank>,
    /// Placement of ranks, instead of the scenarios'; by default all on one node if the scenarios have none.
    pub nodes: Option<Nodes>,
    /// True to check the order that each lock promises in every configuration.
    pub order: bool,
    /// True to include the long standard configurations.
    pub long: bool,
    /// The explorer's order of states; by default breadth-first, and depth-first for the long configurations.
    pub search: Option<Search>,
    /// The number of executions for engines that count them; each has its own default.
    pub executions: Option<u64>,
    /// The seed of random schedules.
    pub seed: u64,
}

impl Selection {
    /// The checks of locks of `registry`, in order, each with `options` except for the search and the order.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] and [`Error::Check`] for options that do not exist or contradict each other.
    pub fn jobs(&self, registry: &Registry, options: &Options) -> Result<Vec<Job>> {
        let mutant = self.mutant.as_deref().map(mutant).transpose()?;
        let engines = if self.engines.is_empty() { &[Engine::Explorer][..] } else { &self.engines };
        let mut jobs = Vec::new();
        let subjects = self.subjects(registry, mutant)?;
        if self.order && subjects.iter().all(|subject| subject.claimed_order() == Order::None) {
            let names: Vec<&str> = subjects.iter().map(Subject::name).collect();
            return Err(Error::usage(format!(
                "--order: {} claims no order of entries that could be checked; in a registry, a lock of your own claims one \
                 with `order(Order::Fifo)`",
                names.join(" or ")
            )));
        }
        for subject in subjects {
            let mut found = false;
            for configuration in self.configurations(&subject) {
                let mut check = configuration.check(&subject);
                check.mutant = mutant;
                check.home = self.home;
                if let Some(nodes) = self.nodes {
                    check.scenario = check.scenario.placed(nodes).map_err(Error::usage)?;
                }
                if self.locks.is_empty() && check.validate().is_err() {
                    continue;
                }
                check.validate().map_err(failed)?;
                bounded(&check)?;
                found = true;
                for &engine in engines {
                    // By default, each engine gets only the configurations that it supports.
                    let is_default =
                        self.scenarios.is_empty() || self.networks.is_empty() && check.network != Network::Sc;
                    if is_default && !engine.takes(&check) {
                        continue;
                    }
                    let mut options = options.clone();
                    let usual = if configuration.long { Search::DepthFirst } else { Search::BreadthFirst };
                    options.search = self.search.unwrap_or(usual);
                    options.order = engine == Engine::Explorer && (configuration.order || self.order);
                    // Configurations that differ only in the order are equal for an engine that does not check it.
                    let same = |job: &Job| {
                        let (one, other) = (&job.check, &check);
                        (job.engine, job.options.order) == (engine, options.order)
                            && one.subject.name() == other.subject.name()
                            && (&one.scenario, one.network, one.section)
                                == (&other.scenario, other.network, other.section)
                    };
                    if jobs.iter().any(same) {
                        continue;
                    }
                    let (executions, seed) = (self.executions, self.seed);
                    jobs.push(Job { engine, check: check.clone(), options, executions, seed });
                }
            }
            if !found && !self.locks.is_empty() {
                let name = subject.name();
                let such = if configurations(&subject).is_empty() { "" } else { " that fits the other options" };
                return Err(Error::usage(format!(
                    "{name} has no standard configuration{such}; name a scenario with --scenario"
                )));
            }
        }
        if jobs.is_empty() {
            return Err(Error::usage(
                "no lock has a standard configuration that fits the other options, or supports such a scenario",
            ));
        }
        if self.locks.is_empty() && self.networks.is_empty() && mutant.is_none() {
            leave_out_included(&mut jobs);
        }
        Ok(jobs)
    }

    fn subjects(&self, registry: &Registry, mutant: Option<&'static Mutant>) -> Result<Vec<Subject>> {
        if let Some(inner) = &self.nested {
            let inner = subject(registry, inner)?;
            let with_inner = |name: &String| nested(&subject(registry, name)?, &inner, self.opposite);
            return self.locks.iter().map(with_inner).collect();
        }
        if !self.locks.is_empty() {
            return self.locks.iter().map(|name| subject(registry, name)).collect();
        }
        let promises = |subject: &Subject| !configurations(subject).is_empty();
        let suits = |subject: &Subject| mutant.is_none_or(|mutant| mutant.suits(subject.name()));
        Ok(all(registry).filter(|subject| promises(subject) && suits(subject)).collect())
    }

    fn configurations(&self, subject: &Subject) -> Vec<Configuration> {
        if self.scenarios.is_empty() {
            let among = |configuration: &Configuration| {
                (self.networks.is_empty() || self.networks.contains(&configuration.network))
                    && (self.sections.is_empty() || self.sections.contains(&configuration.section))
                    && self.crashes.is_none_or(|crashes| configuration.scenario.crashes() == crashes)
                    && (self.long || !configuration.long)
            };
            return configurations(subject).into_iter().filter(among).collect();
        }
        let networks = if self.networks.is_empty() { &[Network::Sc, Network::LatePuts][..] } else { &self.networks };
        let sections = if self.sections.is_empty() { &[Section::Empty][..] } else { &self.sections };
        let mut all = Vec::new();
        for scenario in &self.scenarios {
            for &network in networks {
                for &section in sections {
                    let scenario = scenario.clone();
                    let scenario = match self.crashes {
                        Some(crashes) => scenario.with_crashes(crashes),
                        None => scenario,
                    };
                    all.push(Configuration { scenario, network, section, order: false, long: false });
                }
            }
        }
        all
    }
}

/// Leaves out each search under `sc` that a search of the same scenario under `late-puts` includes: its schedules are
/// those in which each put arrives at once. Locks outside of this workspace are still searched under both, since their
/// counterexamples are simpler under `sc`.
fn leave_out_included(jobs: &mut Vec<Job>) {
    let is_searched =
        |job: &Job| job.engine == Engine::Explorer && !job.options.order && job.options.preemptions.is_none();
    let key = |job: &Job| {
        let Check { subject, scenario, section, .. } = &job.check;
        (subject.name(), scenario.to_string(), *section, job.options.search)
    };
    let late = |job: &&Job| is_searched(job) && job.check.network == Network::LatePuts;
    let late: HashSet<_> = jobs.iter().filter(late).map(key).collect();
    let of_workspace: HashSet<_> = subjects().iter().map(Subject::name).collect();
    jobs.retain(|job| {
        let is_included = is_searched(job) && job.check.network == Network::Sc && late.contains(&key(job));
        !(is_included && of_workspace.contains(job.check.subject.name()))
    });
}

/// The most ranks of a check. Engines keep a state of each, and could not finish with this many.
const MAX_RANKS: u32 = 512;

/// The most acquisitions of a rank of a check.
const MAX_ACQUISITIONS: u32 = 65_535;

/// Refuses a check that is too large for any engine, and a home outside its ranks.
fn bounded(check: &Check) -> Result<()> {
    let scenario = &check.scenario;
    if scenario.ranks() > MAX_RANKS || scenario.targets() > MAX_RANKS {
        return Err(Error::usage(format!("scenario {scenario}: a check has at most {MAX_RANKS} ranks and targets")));
    }
    let is_too_many = |times| times > MAX_ACQUISITIONS && times != Group::ENDLESS;
    if scenario.groups().iter().any(|group| is_too_many(group.acquisitions)) {
        return Err(Error::usage(format!("scenario {scenario}: a rank makes at most {MAX_ACQUISITIONS} acquisitions")));
    }
    // One more rank than take part or are targets: the extra rank is the default home of the words.
    let last = Check { home: None, ..check.clone() }.home();
    if check.home.is_some_and(|home| home > last) {
        return Err(Error::usage(format!(
            "--home: scenario {scenario} has no {}; name one of the ranks 0 to {}",
            check.home(),
            last.0
        )));
    }
    Ok(())
}

/// One check, by one engine.
#[derive(Clone, Debug)]
pub struct Job {
    /// The engine.
    pub engine: Engine,
    /// The check.
    pub check: Check,
    /// The limits.
    pub options: Options,
    /// The number of executions, see [`Selection::executions`].
    pub executions: Option<u64>,
    /// The seed of random schedules.
    pub seed: u64,
}

impl Job {
    /// Makes the check.
    pub fn run(&self, watch: Watch<'_>) -> Checked {
        let start = Instant::now();
        let found = self.engine.run(self, watch).and_then(|found| {
            self.confirm(&found)?;
            Ok(found)
        });
        Checked::new(self, found, start.elapsed())
    }

    /// Refuses a counterexample that the lock itself does not follow: the engine is wrong then.
    ///
    /// A replay does not know which rank came first, so only the search can check an order. A race under loom can look
    /// right in the order in which it ran.
    fn confirm(&self, found: &rmalab_verify::Outcome) -> rmalab_verify::Result<()> {
        let counterexample = match found.violation() {
            Some(counterexample) if self.engine != Engine::Loom => counterexample,
            _ => return Ok(()),
        };
        if counterexample.violation.property == Property::Order || again(&self.check, counterexample)?.is_some() {
            return Ok(());
        }
        Err(rmalab_verify::Error::Unsound(format!(
            "{} found a violation that a replay does not confirm: {}",
            self.engine.name(),
            counterexample.violation
        )))
    }
}

/// Returns a line about checks whose search may not end: a lock that counts in a scenario without end has no last state.
pub fn without_end(jobs: &[Job]) -> Option<String> {
    let may_not_end = |job: &&Job| {
        let has_limit = job.options.max_time.is_some() || job.options.max_states.is_some();
        let is_endless = job.check.scenario.is_endless() && !job.check.subject.words_rest();
        job.engine == Engine::Explorer && is_endless && !has_limit
    };
    let job = jobs.iter().find(may_not_end)?;
    Some(format!(
        "note: {}, {}: the search may not end, since the lock keeps values at rest, which may grow; --max-time ends it, or a scenario \
         without inf",
        job.check.subject.name(),
        job.check.scenario
    ))
}

impl std::fmt::Display for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Check { subject, scenario, network, section, mutant, .. } = &self.check;
        write!(f, "{}, {scenario}, {network}, {}", subject.name(), section_name(*section))?;
        if let Some(mutant) = mutant {
            write!(f, ", mutant {}", mutant.name)?;
        }
        if self.options.order {
            f.write_str(", order")?;
        }
        if self.engine == Engine::Explorer { Ok(()) } else { write!(f, ", {}", self.engine.name()) }
    }
}

/// The section's name, on the command line and in tables.
pub const fn section_name(section: Section) -> &'static str {
    match section {
        Section::Empty => "empty",
        Section::Data => "data",
    }
}

/// The check of a saved counterexample to a lock of `registry`.
///
/// # Errors
///
/// [`Error::Usage`] and [`Error::Check`] when a name does not exist, or names contradict each other.
pub fn check_of(registry: &Registry, counterexample: &Counterexample) -> Result<Check> {
    let scenario = counterexample.scenario.parse::<Scenario>().map_err(|error| Error::usage(error.to_string()))?;
    let mut check = Check::new(subject(registry, &counterexample.lock)?, scenario);
    check.section = counterexample.section;
    check.network = counterexample.network;
    check.mutant = counterexample.mutant.as_deref().map(mutant).transpose()?;
    check.home = counterexample.home;
    check.validate().map_err(failed)?;
    bounded(&check)?;
    Ok(check)
}

/// Converts the error of a check to one of this crate.
pub fn failed(error: rmalab_verify::Error) -> Error {
    use rmalab_verify::Error as Verify;

    let usage = matches!(
        error,
        Verify::Scenario { .. }
            | Verify::Form { .. }
            | Verify::Crashes { .. }
            | Verify::Mutant { .. }
            | Verify::File { .. }
            | Verify::Format { .. }
            | Verify::Schedule { .. }
    );
    Error::Check { source: error.into(), usage }
}

/// Repeats the steps of a counterexample to `check`, and returns the property that they still break.
///
/// # Errors
///
/// [`rmalab_verify::Error::Schedule`] when a step is not possible: the counterexample is for another lock.
pub fn again(check: &Check, counterexample: &Counterexample) -> rmalab_verify::Result<Option<Violation>> {
    counterexample.suits(check)?;
    let Some(first) = counterexample.cycle else {
        return Ok(replay(check, &counterexample.schedule)?.1);
    };
    let mut live = Live::new(check)?;
    let (before, cycle) = counterexample.schedule.split_at(first);
    for (i, &choice) in before.iter().enumerate() {
        if let Some(violation) = take(&mut live, i, choice)?.violation {
            return Ok(Some(violation));
        }
    }
    let begins = visible(&mut live);
    // The cycle runs twice: the local state of a rank is invisible here, but would show in its next round.
    for _ in 0..2 {
        for (i, &choice) in (first..).zip(cycle) {
            let step = take(&mut live, i, choice)?;
            if step.violation.is_some() {
                return Ok(step.violation);
            }
            if step.events.iter().any(|event| matches!(event, Event::Entered | Event::Left)) {
                return Ok(None);
            }
        }
        if visible(&mut live) != begins {
            return Ok(None);
        }
    }
    Ok(Some(counterexample.violation.clone()))
}

fn take(live: &mut Live, step: usize, choice: Choice) -> rmalab_verify::Result<Step> {
    live.take(choice).map_err(|why| rmalab_verify::Error::Schedule { step, why })
}

/// The visible part of a state: statuses and calls of the ranks, the words that are not zero, and the possible steps.
fn visible(live: &mut Live) -> impl PartialEq + use<> {
    let mut words: Vec<_> = live.words().filter(|&(_, value)| value != 0).collect();
    words.sort_unstable();
    (live.statuses(), live.calls().collect::<Vec<_>>(), words, live.choices())
}

/// All subjects of checks: the workspace's own, with the names of their words, and the subjects that only `registry`
/// has.
fn all(registry: &Registry) -> impl Iterator<Item = Subject> {
    subjects().into_iter().chain(registry.outside().map(|subject| subject.check.clone()))
}

fn subject(registry: &Registry, name: &str) -> Result<Subject> {
    if let Some((outer, inner, opposite)) = Subject::names_of_nested(name) {
        return nested(&subject(registry, outer)?, &subject(registry, inner)?, opposite);
    }
    all(registry).find(|subject| subject.name() == name).ok_or_else(|| {
        let all: Vec<Subject> = all(registry).collect();
        Error::usage(names::unknown("lock", name, all.iter().map(Subject::name)))
    })
}

fn nested(outer: &Subject, inner: &Subject, opposite: bool) -> Result<Subject> {
    Subject::nested(outer, inner, opposite).ok_or_else(|| {
        let (outer, inner) = (outer.name(), inner.name());
        Error::usage(format!("{outer} and {inner} cannot be nested: name two locks, and no policy of a window"))
    })
}

fn mutant(name: &str) -> Result<&'static Mutant> {
    rmalab_verify::mutant(name).ok_or_else(|| {
        let all = rmalab_verify::mutants().map(|mutant| mutant.name);
        Error::usage(names::unknown("mutant", name, all))
    })
}
