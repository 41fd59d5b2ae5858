//! The explorer: every order of the ranks' calls, and of the network's doings, exhaustively.
//!
//! # States
//! A state is the words of memory, for each rank how far it is (its phase, and the answers that it has got since the phase
//! began), and the puts that are under way. A step is one call of one rank, carried out by the
//! [network's model](crate::network), or the arrival of one put. A wait that is not over is no step: a rank that waits
//! blocks. Deadlines never pass, since time stands still.
//!
//! The lock's code is the real one. It runs as a coroutine whenever an answer comes that has not come there before, and
//! is remembered as an automaton (`learned`), so that searching is looking up: some hundred thousand states a second
//! come from a few thousand runs of the code.
//!
//! # What is left out, and why that is sound
//! - Pauses, flushes of nothing and questions for the time touch no memory and are joined to the step before them.
//! - Posting a put, and a flush of what has arrived, are taken at once: nobody else can notice when (`space`). That is
//!   the only reduction of partial orders that is sound without knowing what a rank will do later.
//! - Ranks with one part are interchangeable (`symmetry`); that the code treats them alike is tested wherever it is used.
//! - After a pause, a polling loop has forgotten what it polled (`learned`); tested, and given up where it is not so.
//!
//! # What is assumed
//! - A rank's code is a function of its answers: no clock, no randomness but one that starts anew in each run, nothing
//!   shared. The second run of the same answers tells.
//! - A handle's `Debug` shows all that it remembers between acquire and release. Several histories are kept of each
//!   handle, and a difference between them is an error; one that none of them shows stays hidden.
//! - The bound is the scenario: so many ranks, so many acquisitions.

mod breadth;
mod depth;
mod learned;
mod liveness;
mod node;
mod order;
mod path;
mod permutation;
mod space;
mod state;
mod store;
mod symmetry;

use std::sync::Arc;
use std::time::{Duration, Instant};

use breadth::{End, Shared};
use depth::Seen;
use learned::Forget;
use liveness::Livelock;
use node::Failure;
use path::{Last, Then};
use space::{Sometimes, Space, Walker};
use store::Store;

use crate::{Check, Counterexample, Error, Property, Result, replay};

/// In which order states are visited.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Search {
    /// By their distance from the start: the first counterexample is a shortest one.
    #[default]
    BreadthFirst,
    /// Along one schedule after the other, with 64 bits kept of each state: for what memory bounds. A counterexample is
    /// none of the shortest, a state is missed with [a small probability](Outcome::missed), and livelocks are not
    /// searched for.
    DepthFirst,
}

/// How far a search goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The order of states.
    pub search: Search,
    /// The most states.
    pub max_states: Option<u64>,
    /// The most memory for them, in bytes.
    pub max_bytes: u64,
    /// The longest time.
    pub max_time: Option<Duration>,
    /// The most preemptions of a schedule: switches from a rank that could go on; any number if nothing is said.
    pub preemptions: Option<u32>,
    /// How many threads search.
    pub threads: usize,
    /// Whether states that differ in nothing but the numbers of ranks with one role count as one.
    pub symmetry: bool,
    /// Whether steps that no other rank can notice are taken at once, in one order instead of all.
    pub partial_order: bool,
    /// Whether the lock's order is checked, too, which needs more states.
    pub order: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            search: Search::BreadthFirst,
            max_states: None,
            max_bytes: 8 << 30,
            max_time: None,
            preemptions: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            symmetry: true,
            partial_order: true,
            order: false,
        }
    }
}

/// What has ended a search before it was complete.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Limit {
    /// [`Options::max_states`].
    States,
    /// [`Options::max_bytes`].
    Memory,
    /// [`Options::max_time`].
    Time,
    /// Whoever watched its progress.
    Interrupted,
}

impl Limit {
    /// The limit in words.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::States => "state limit",
            Limit::Memory => "memory limit",
            Limit::Time => "time limit",
            Limit::Interrupted => "interrupted",
        }
    }
}

/// How far a search has come.
#[derive(Clone, Copy, PartialEq, Debug)]
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
    /// Time since the start.
    pub elapsed: Duration,
}

/// What a search found.
#[derive(Clone, PartialEq, Debug)]
pub enum Finding {
    /// Every state was visited, and nothing is broken.
    Holds,
    /// A property is broken.
    Violated(Counterexample),
    /// Nothing is broken in the states that were visited before a limit was reached.
    Incomplete(Limit),
}

/// What a search did about livelocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Livelocks {
    /// No rank's code has a loop: every schedule ends.
    Impossible,
    /// The states were searched for weakly fair cycles.
    Searched,
    /// The states were not searched: a search that is incomplete, bounded or depth-first does not.
    NotSearched,
}

/// The result of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What it found.
    pub finding: Finding,
    /// How far it came.
    pub progress: Progress,
    /// Whether a preemption bound kept schedules out, so that `Holds` holds within the bound only.
    pub bounded: bool,
    /// The most that the probability can be that a state was taken for another one: 0 unless depth-first.
    pub missed: f64,
    /// What was done about livelocks.
    pub livelocks: Livelocks,
    /// What happened at least once, so that nothing was held vacuously: name, and whether it did.
    pub sometimes: Vec<(&'static str, bool)>,
}

/// Searches all that `check` can do.
///
/// `watch` is told of the progress some times a second, and ends the search by returning `false`.
///
/// # Errors
///
/// When the check makes no sense, or the explorer cannot vouch for its result.
pub fn explore(check: &Check, options: &Options, watch: &(dyn Fn(&Progress) -> bool + Sync)) -> Result<Outcome> {
    check.validate()?;
    let check = Arc::new(check.clone());
    let (mut forget, mut symmetry) = (Forget::Phase, options.symmetry);
    let begun = Instant::now();
    loop {
        // A search that starts again has only the time that is left.
        let max_time = options.max_time.map(|most| most.saturating_sub(begun.elapsed()));
        let options = &Options { max_time, ..options.clone() };
        match explore_by(&check, options, watch, forget, symmetry).and_then(|outcome| confirmed(&check, outcome)) {
            Ok(outcome) => return Ok(outcome),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::Asymmetric) => symmetry = false,
            Err(Failure::Differ(why)) => forget = forget.stricter().ok_or(Error::Unsound(why))?,
        }
    }
}

/// The outcome, if the replay of its counterexample shows what it says; an order and a cycle no replay can show.
fn confirmed(check: &Check, outcome: Outcome) -> Result<Outcome, Failure> {
    if let Finding::Violated(found) = &outcome.finding
        && !matches!(found.violation.property, Property::Order | Property::NoLivelock)
    {
        let (_, seen) = replay(check, &found.schedule)?;
        if seen.is_none_or(|seen| seen.property != found.violation.property) {
            return Err(Failure::Differ(format!(
                "the replay does not show what the search has found: {}",
                found.violation
            )));
        }
    }
    Ok(outcome)
}

fn explore_by(
    check: &Arc<Check>,
    options: &Options,
    watch: &(dyn Fn(&Progress) -> bool + Sync),
    forget: Forget,
    symmetry: bool,
) -> Result<Outcome, Failure> {
    let space = Space::new(check, options, forget, symmetry)?;
    let shared = Shared::new(options, watch);
    if let Some(violation) = Walker::new(&space).at_once()? {
        let schedule = path::with_silent_steps(&space, &[], Then::Shows(violation.rank))?;
        return Ok(Outcome {
            finding: Finding::Violated(Counterexample::new(check, violation, schedule, None)),
            progress: shared.progress(0),
            bounded: false,
            missed: 0.0,
            livelocks: Livelocks::NotSearched,
            sometimes: space::sometimes(&space, &Sometimes::default()),
        });
    }
    if options.search == Search::DepthFirst {
        let seen = Seen::new();
        let (finding, sometimes) = depth::search(&space, &seen, &shared)?;
        polls_are_told_apart(&space)?;
        let progress = shared.progress(seen.memory());
        // What was not visited may have loops.
        let all = finding == Finding::Holds && !sometimes.bounded;
        let livelocks = if all && !space.has_loops() { Livelocks::Impossible } else { Livelocks::NotSearched };
        return Ok(Outcome {
            finding,
            progress,
            bounded: sometimes.bounded,
            missed: depth::missed(progress.states),
            livelocks,
            sometimes: space::sometimes(&space, &sometimes),
        });
    }
    let store = Store::new();
    let (end, sometimes) = breadth::search(&space, &store, &shared)?;
    polls_are_told_apart(&space)?;
    let mut livelocks = Livelocks::NotSearched;
    let finding = match end {
        End::Limit(limit) => Finding::Incomplete(limit),
        End::Violation(state, choice, violation) => {
            let last = if choice.is_some() { Last::Breaks } else { Last::Ends };
            let (schedule, seen, _) = path::schedule(&space, &store, state, &last)?;
            let violation = seen.unwrap_or(violation);
            Finding::Violated(Counterexample::new(check, violation, schedule, None))
        }
        // What was not visited may have loops.
        End::Complete if sometimes.bounded => Finding::Holds,
        End::Complete if !space.has_loops() => {
            livelocks = Livelocks::Impossible;
            Finding::Holds
        }
        End::Complete => match liveness::search(&space, &store, &mut || shared.goes_on(&|| store.memory()))? {
            Some(livelock) => {
                livelocks = Livelocks::Searched;
                let Livelock { state, cycle, violation } = livelock;
                let (schedule, _, from) = path::schedule(&space, &store, state, &Last::Repeats(&cycle))?;
                Finding::Violated(Counterexample::new(check, violation, schedule, Some(from)))
            }
            None => match shared.limit_reached() {
                Some(limit) => Finding::Incomplete(limit),
                None => {
                    livelocks = Livelocks::Searched;
                    Finding::Holds
                }
            },
        },
    };
    Ok(Outcome {
        finding,
        progress: shared.progress(store.memory()),
        bounded: sometimes.bounded,
        missed: 0.0,
        livelocks,
        sometimes: space::sometimes(&space, &sometimes),
    })
}

/// Refuses a search with symmetry where ranks poll.
///
/// A node that polls stands for several histories, and only the first of them is permuted, so that nobody tests whether
/// the image stands for the others as well. Nor need a cycle of representatives be one of states.
fn polls_are_told_apart(space: &Space) -> Result<(), Failure> {
    if space.is_symmetric() && space.has_loops() { Err(Failure::Asymmetric) } else { Ok(()) }
}
