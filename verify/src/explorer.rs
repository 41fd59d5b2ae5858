//! The explorer: an exhaustive search of all interleavings of the ranks' calls and the network's steps.
//!
//! # States
//! A state consists of the words of memory, each rank's phase with its answers since the phase began, and the puts
//! under way. A transition is one call of one rank, carried out by the [network model](crate::network), or the arrival
//! of one put. A wait whose condition does not hold is not enabled: the rank blocks.
//!
//! The clock of a rank stands still, except that the deadline of a timed acquisition may pass, once, at any time or
//! never. That is one more transition. A read of the clock and a wait with a deadline then have two outcomes. Only the
//! rank itself sees the deadline pass, so the search takes this transition where the rank looks. In a state in which
//! only deadlines could still pass, ranks that wait do so forever.
//!
//! The search runs the real code of the lock. Each new answer runs the code once, as a coroutine, and the result
//! extends an automaton (`learned`). All further uses of that answer are table look-ups. So a few thousand runs of the
//! code are enough for some hundred thousand states a second.
//!
//! # Failures
//! In a scenario with failures, a rank may fail in each state. Then it makes no further call, and its local state does not
//! matter any more. Its posted puts may arrive at any later time until a live rank has silenced it, or never. Where puts are
//! late, it may also fail amid an atomic operation, which then arrives in the same way. A live rank
//! learns of a failure at any time, or when a rank silences the one that has failed. Only calls that look for failures
//! depend on it: questions, pauses and waits. So the search lets a rank learn of a failure there. In a livelock, no rank
//! looks again and again without learning of a failure. Ranks that may fail are not exchanged by symmetry.
//!
//! # Reductions, and why they are sound
//! - Pauses, flushes of nothing, and reads of a clock that stands still touch no memory. The search joins them to the
//!   step before them. Where ranks fail, a pause is a step, until its rank has acknowledged all failures that can
//!   happen.
//! - The search takes at once each post of a put, and each flush of puts that have arrived. No other rank can observe
//!   their time (`space`), unless the code fences everywhere. This is the only partial-order reduction that is sound
//!   without knowledge of a rank's later calls.
//! - Ranks with equal parts of the scenario are interchangeable (`symmetry`). Each use of this tests that the code
//!   treats them alike.
//! - A rank's local state forgets each answer that its code does not use any more (`experiments`). The search runs and
//!   compares every history that the merged states allow. Where two differ, it starts again and distinguishes them.
//! - In programs, and where the last reduction is off, a polling loop forgets its earlier polls after a pause
//!   (`learned`). The search tests this, and starts again without it where the test fails.
//!
//! # Assumptions
//! - A rank's code is a function of its answers. It uses nothing shared, and no random numbers except from a generator
//!   that each run seeds alike. A second run with the same answers detects a violation. A lock may act on the clock, or
//!   wait until a deadline, in an acquisition that has none. It is searched as if time stood still, and
//!   [`Outcome::unexplored`](crate::Outcome::unexplored) says so.
//! - A handle's `Debug` shows everything that the handle remembers between acquire and release. The search keeps
//!   several histories of each handle. It distinguishes or reports histories that differ. A difference that none of
//!   them shows stays hidden.
//! - The scenario bounds the search: its numbers of ranks and of acquisitions.

mod breadth;
mod bypass;
mod depth;
mod experiments;
mod learned;
mod liveness;
mod node;
mod options;
mod order;
mod path;
mod permutation;
mod runs;
mod space;
mod state;
mod store;
mod symmetry;
mod transitions;

use std::sync::Arc;
use std::time::Instant;

use breadth::{End, Shared};
use depth::Seen;
use experiments::{Effort, Experiments};
use learned::Forget;
use node::Failure;
pub use options::{Options, Search};
use path::{Last, Then};
use runs::Runs;
use space::{Assumed, Sometimes, Space, Walker};
use store::Store;

use crate::outcome::{Finding, Limit, Livelocks, Outcome, Progress, Watch};
use crate::play::Section;
use crate::workload::Workload;
use crate::{Check, Counterexample, Error, Form, Property, Result, replay};

/// Searches all behaviours of `check`.
///
/// # Errors
///
/// Returns an error if the check is invalid, or if the explorer cannot guarantee its result.
pub fn explore(check: &Check, options: &Options, watch: Watch<'_>) -> Result<Outcome> {
    check.validate()?;
    if check.scenario.is_endless() && (check.section == Section::Data || check.scenario.has(Form::Timed)) {
        let why = format!("{}: acquisitions without end have no deadlines and count no writes of data", check.scenario);
        return Err(Error::Unsupported { engine: "explorer", why });
    }
    let check = Arc::new(check.clone());
    // A program remembers what it has read, and compares it at its end. A rank that comes back reads many words, and the
    // histories of all these answers cost more than the states that merging leaves out.
    let is_program = matches!(check.subject.workload(), Workload::Program(_));
    let merging = options.merging && !is_program && check.scenario.restarts() == 0;
    let mut assumed = Assumed {
        forget: if merging { Forget::Unused } else { Forget::Phase },
        experiments: Experiments::default(),
        symmetry: options.symmetry,
        no_fences: !check.subject.fences(),
    };
    let begun = Instant::now();
    let mut runs = None;
    loop {
        // A search that starts again gets the remaining time.
        let max_time = options.max_time.map(|most| most.saturating_sub(begun.elapsed()));
        let most_states = assumed.most_states(options);
        let tried = &Options { max_time, max_states: most_states, ..options.clone() };
        match explore_by(&check, tried, watch, &assumed, &mut runs).and_then(|outcome| confirmed(&check, outcome)) {
            Ok(outcome)
                if most_states != options.max_states && outcome.finding == Finding::Incomplete(Limit::States) =>
            {
                assumed.experiments.spend(Effort::All);
            }
            Ok(outcome) => return Ok(outcome),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::Limit(limit)) => {
                let progress = Progress { elapsed: begun.elapsed(), ..Progress::default() };
                return Ok(Outcome::new(Finding::Incomplete(limit), progress, Vec::new()));
            }
            Err(Failure::Asymmetric) => assumed.symmetry = false,
            Err(Failure::Uses(experiments)) => {
                if !assumed.experiments.add(experiments) {
                    assumed.forget = Forget::Phase;
                }
            }
            Err(Failure::Keeps(answers)) => assumed.experiments.keep(answers),
            Err(Failure::Slow) => assumed.experiments.spend(Effort::Few),
            Err(Failure::Fences) => assumed.no_fences = false,
            Err(Failure::Differ(why)) => assumed.forget = assumed.forget.stricter().ok_or(Error::Unsound(why))?,
        }
    }
}

/// Returns the outcome if a replay of its counterexample shows the same property. A replay cannot show an order or a
/// cycle.
fn confirmed(check: &Check, outcome: Outcome) -> Result<Outcome, Failure> {
    if let Finding::Violated(found) = &outcome.finding
        && !matches!(found.violation.property, Property::Order | Property::NoLivelock)
    {
        let (_, seen) = replay(check, &found.schedule)?;
        if seen.is_none_or(|seen| seen.property != found.violation.property) {
            return Err(Failure::Differ(format!(
                "the replay does not show the violation of the search: {}",
                found.violation
            )));
        }
    }
    Ok(outcome)
}

/// Searches once. It takes the runs of earlier searches from `runs`, and leaves all there.
fn explore_by(
    check: &Arc<Check>,
    options: &Options,
    watch: Watch<'_>,
    assumed: &Assumed,
    runs: &mut Option<Runs>,
) -> Result<Outcome, Failure> {
    let mut known = match runs.take() {
        Some(known) => known,
        None => Runs::new(check)?,
    };
    known.limits = (options.max_time.map(|most| Instant::now() + most), options.max_bytes);
    let space = Space::new(check, options, assumed, known)?;
    let outcome = search(&space, check, options, watch, assumed);
    let unexplored = space.unexplored();
    *runs = Some(space.into_runs());
    Ok(Outcome { unexplored, ..outcome? })
}

fn search(
    space: &Space,
    check: &Arc<Check>,
    options: &Options,
    watch: Watch<'_>,
    assumed: &Assumed,
) -> Result<Outcome, Failure> {
    let shared = Shared::new(options, watch);
    if let Some(violation) = Walker::new(space).at_once()? {
        let schedule = path::with_silent_steps(space, &[], Then::Shows(violation.rank))?;
        let finding = Finding::Violated(Counterexample::new(check, violation, schedule, None));
        return Ok(Outcome::new(finding, shared.progress(0), space::sometimes(space, &Sometimes::default())));
    }
    if options.search == Search::DepthFirst {
        let seen = Seen::new();
        let (finding, sometimes) = depth::search(space, &seen, &shared)?;
        polls_are_told_apart(space, assumed)?;
        let (progress, bounded) = (shared.progress(seen.memory()), sometimes.bounded);
        // The states that were not visited may have loops.
        let all = finding == Finding::Holds && !bounded;
        let livelocks = if all && !space.has_loops() { Livelocks::Impossible } else { Livelocks::NotSearched };
        let (missed, sometimes) = (depth::missed(progress.states), space::sometimes(space, &sometimes));
        return Ok(Outcome { bounded, missed, livelocks, ..Outcome::new(finding, progress, sometimes) });
    }
    let store = Store::new();
    let (end, sometimes, transitions) = breadth::search(space, &store, &shared)?;
    polls_are_told_apart(space, assumed)?;
    let mut livelocks = Livelocks::NotSearched;
    let finding = match end {
        End::Limit(limit) => Finding::Incomplete(limit),
        End::Violation(state, choice, violation) => {
            let last = if choice.is_some() { Last::Breaks } else { Last::Ends };
            let (schedule, seen, _) = path::schedule(space, &store, state, &last)?;
            let violation = seen.unwrap_or(violation);
            Finding::Violated(Counterexample::new(check, violation, schedule, None))
        }
        // The states that were not visited may have loops.
        End::Complete if sometimes.bounded => Finding::Holds,
        End::Complete if !space.has_loops() => {
            livelocks = Livelocks::Impossible;
            Finding::Holds
        }
        End::Complete => {
            let mut go_on = || shared.goes_on(&|| store.memory() + space.memory());
            match liveness::search(space, &store, transitions.as_ref(), &mut go_on)? {
                Some(livelock) => {
                    livelocks = Livelocks::Searched;
                    let last = Last::Repeats(&livelock);
                    let (schedule, violation, from) = path::schedule(space, &store, livelock.state, &last)?;
                    let violation = violation.expect("a livelock is a violation");
                    Finding::Violated(Counterexample::new(check, violation, schedule, Some(from)))
                }
                None => match shared.limit_reached() {
                    Some(limit) => Finding::Incomplete(limit),
                    None => {
                        livelocks = Livelocks::Searched;
                        Finding::Holds
                    }
                },
            }
        }
    };
    let mut bypass = Vec::new();
    if let (Finding::Holds, Some(transitions)) = (&finding, &transitions) {
        let memory = store.memory() + space.memory() + transitions.memory();
        bypass = bypass::measure(space, &store, transitions, options.max_bytes.saturating_sub(memory));
    }
    let (bounded, sometimes) = (sometimes.bounded, space::sometimes(space, &sometimes));
    Ok(Outcome { bounded, livelocks, bypass, ..Outcome::new(finding, shared.progress(store.memory()), sometimes) })
}

/// Rejects a search that uses symmetry although ranks poll, if it merges polls by a rule and not by experiments.
///
/// A node that polls stands for several histories, but only the first of them is permuted. So no run tests whether the
/// image also stands for the other histories.
fn polls_are_told_apart(space: &Space, assumed: &Assumed) -> Result<(), Failure> {
    let rule = assumed.forget != Forget::Unused;
    if rule && space.is_symmetric() && space.has_loops() { Err(Failure::Asymmetric) } else { Ok(()) }
}
