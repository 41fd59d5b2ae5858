//! The path from a state back to a schedule that a person can follow.

use rmalab_atomics::Rank;

use super::liveness::Livelock;
use super::node::Failure;
use super::runs::SILENT;
use super::space::{Space, Walker};
use super::state::State;
use super::store::{NOWHERE, StateId, Store};
use crate::counterexample::Choice;
use crate::play::Event;
use crate::status::{Phase, Status};
use crate::{Live, Violation};

/// The step after the last state of the path.
pub(super) enum Last<'c> {
    /// A step that breaks a property.
    Breaks,
    /// No step: the end itself breaks a property.
    Ends,
    /// The steps of the livelock, repeated forever.
    Repeats(&'c Livelock),
}

/// The schedule that leads to state `id` and through the last steps. Also returns the violation, if the last step shows
/// it, and the index at which the last steps begin.
pub(super) fn schedule(
    space: &Space,
    store: &Store,
    id: StateId,
    last: &Last<'_>,
) -> Result<(Vec<Choice>, Option<Violation>, usize), Failure> {
    let mut encodings = Vec::new();
    let mut at = id;
    while at != NOWHERE {
        let (bytes, parent) = store.get(at);
        encodings.push(bytes);
        at = parent;
    }
    let mut walker = Walker::new(space);
    let mut steps = Vec::new();
    let mut state = walker.start()?;
    let (mut bytes, mut choices) = (Vec::new(), Vec::new());
    let mut from_representative = walker.encode(&state, &mut bytes)?.inverse();
    for encoding in encodings.iter().rev().skip(1) {
        walker.choices(&state, &mut choices);
        let mut found = false;
        for &choice in &choices {
            walker.step(&state, choice)?;
            let to_representative = walker.encode_next(&mut bytes)?;
            if bytes == *encoding {
                steps.push(choice);
                from_representative = to_representative.inverse();
                state.copy_from(&walker.next);
                found = true;
                break;
            }
        }
        assert!(found, "each stored state is one step from the one that its parent");
    }
    let mut begin = with_silent_steps(space, &steps, Then::GoesOn)?.len();
    let mut violation = None;
    let mut then = Then::Ends;
    match *last {
        Last::Repeats(livelock) => {
            // The state is one of several with this representative, so that its ranks have other numbers.
            let cycle: Vec<Choice> = livelock.cycle.iter().map(|&choice| from_representative.choice(choice)).collect();
            repeats(space, &steps, &cycle)?;
            violation = Some(livelock.violation(&from_representative));
            steps.extend(&cycle);
            // A rank that comes to its loop takes no pause ahead of its first round. Then the second round repeats.
            let first = with_silent_steps(space, &steps, Then::GoesOn)?;
            let both = with_silent_steps(space, &[&steps, cycle.as_slice()].concat(), Then::GoesOn)?;
            if first[begin..] != both[first.len()..] {
                begin = first.len();
                steps.extend(cycle);
            }
            then = Then::GoesOn;
        }
        Last::Ends => violation = walker.end(&state),
        Last::Breaks => {
            // The state is one of several with this representative, so that its ranks have other numbers.
            walker.choices(&state, &mut choices);
            for &choice in &choices {
                violation = walker.step(&state, choice)?;
                if let Some(violation) = &violation {
                    then = Then::Shows(violation.rank);
                    steps.push(choice);
                    break;
                }
            }
        }
    }
    Ok((with_silent_steps(space, &steps, then)?, violation, begin))
}

/// The number of rounds of a livelock that the lock's own code has to take.
const REPEATS: usize = 2_000;

/// Repeats the cycle with the lock's own code, which may leave it in the end.
fn repeats(space: &Space, steps: &[Choice], cycle: &[Choice]) -> Result<(), Failure> {
    let steps = [steps, &cycle.repeat(REPEATS)].concat();
    let Played { live, walker, state, .. } = play(space, &steps)?;
    for (rank, status) in live.statuses().into_iter().enumerate() {
        if progress(status) != progress(walker.node(&state, rank).status) {
            return Err(Failure::Differ(format!(
                "rank {rank} does not repeat the cycle of the search {REPEATS} times"
            )));
        }
    }
    Ok(())
}

/// The progress of a rank so far.
fn progress(status: Status) -> (u32, Phase) {
    (status.acquisition, status.phase)
}

/// The silent steps that a schedule needs after its last step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// The steps that show what this rank has broken.
    Shows(Rank),
    /// All that are possible.
    Ends,
    /// None.
    GoesOn,
}

/// Steps of the search that the lock has taken.
struct Played<'s> {
    walker: Walker<'s>,
    /// The state of the search.
    state: State,
    live: Live,
    schedule: Vec<Choice>,
    /// True if a step has broken a property, so that it was the last one.
    broken: bool,
}

/// Takes `steps`, with the local steps, pauses and flushes between them.
fn play<'s>(space: &'s Space, steps: &[Choice]) -> Result<Played<'s>, Failure> {
    let mut walker = Walker::new(space);
    let mut state = walker.start()?;
    let local = |walker: &Walker<'_>| walker.settled.iter().map(|&rank| Choice::Step(rank)).collect::<Vec<_>>();
    let mut all = local(&walker);
    for &step in steps {
        walker.step(&state, step)?;
        state = walker.next.clone();
        all.push(step);
        all.extend(local(&walker));
    }
    let mut live = Live::new(&space.check)?;
    // The ranks that entered with their last step. Their next call is a step in any case.
    let mut entered: Vec<bool> = live.statuses().iter().map(|status| status.phase == Phase::Inside).collect();
    let mut schedule = Vec::new();
    for step in all {
        if let Choice::Step(rank) | Choice::Deadline(rank) | Choice::Restart(rank) | Choice::Notice { rank, .. } = step
        {
            let mut silent = 0;
            while !entered[rank.index()] && is_silent(space, &live, rank) {
                let taken = take_silent(&mut live, &mut schedule, rank, &mut silent)?;
                if taken.breaks {
                    return Ok(Played { walker, state, live, schedule, broken: true });
                }
                entered[rank.index()] = taken.enters;
            }
        }
        let taken = take(&mut live, &mut schedule, step)?;
        if taken.breaks {
            return Ok(Played { walker, state, live, schedule, broken: true });
        }
        if let Choice::Step(rank) | Choice::Restart(rank) = step {
            entered[rank.index()] = taken.enters;
            // Other ranks may see that this one is outside again.
            let mut silent = 0;
            while space.parts.alone
                && !entered[rank.index()]
                && live.statuses()[rank.index()].phase != Phase::Outside
                && is_silent(space, &live, rank)
            {
                let taken = take_silent(&mut live, &mut schedule, rank, &mut silent)?;
                if taken.breaks {
                    return Ok(Played { walker, state, live, schedule, broken: true });
                }
                entered[rank.index()] = taken.enters;
            }
        }
    }
    Ok(Played { walker, state, live, schedule, broken: false })
}

/// The schedule as [`Live`] takes it, which includes the local steps, pauses and flushes.
pub(super) fn with_silent_steps(space: &Space, steps: &[Choice], then: Then) -> Result<Vec<Choice>, Failure> {
    let Played { walker, state, mut live, mut schedule, broken } = play(space, steps)?;
    if broken {
        return Ok(schedule);
    }
    if then == Then::GoesOn {
        return Ok(schedule);
    }
    let breaks = |rank: Rank| then == Then::Shows(rank);
    let mut ranks: Vec<Rank> = (0..space.check.active()).map(Rank).collect();
    ranks.sort_by_key(|&rank| breaks(rank));
    for rank in ranks {
        let node = walker.node(&state, rank.index()).clone();
        let call = node.issued.map(|issued| issued.call);
        let mut silent = 0;
        loop {
            let (is, wanted) = (progress(live.statuses()[rank.index()]), progress(node.status));
            // Acquisitions without end are not counted.
            let lags = if space.check.scenario.is_endless() { is != wanted } else { is < wanted };
            let all = breaks(rank) || then == Then::Ends;
            let now = live.calls().nth(rank.index()).flatten();
            if now.is_none() || !lags && (!all || now == call) {
                break;
            }
            if !is_silent(space, &live, rank) {
                return Err(Failure::Differ(format!("the replay does not follow the search: {rank} is elsewhere")));
            }
            if take_silent(&mut live, &mut schedule, rank, &mut silent)?.breaks {
                return Ok(schedule);
            }
        }
    }
    Ok(schedule)
}

/// Returns whether the next step of `rank` is silent for the search.
fn is_silent(space: &Space, live: &Live, rank: Rank) -> bool {
    let call = live.calls().nth(rank.index()).flatten();
    call.is_some_and(|call| space.check.silent(space.check.has_clock(rank), &call).is_some())
}

/// The result of a step.
struct Taken {
    /// True if the rank entered by it.
    enters: bool,
    /// True if it breaks a property, so that the schedule ends with it.
    breaks: bool,
}

/// Takes a silent step; `silent` counts silent steps in a row.
fn take_silent(live: &mut Live, schedule: &mut Vec<Choice>, rank: Rank, silent: &mut usize) -> Result<Taken, Failure> {
    *silent += 1;
    if *silent > SILENT {
        return Err(Failure::Differ(format!(
            "{rank} made {SILENT} pauses and flushes in a row, and no other call; a wait for the clock does not end, \
             since time stands still in a search"
        )));
    }
    take(live, schedule, Choice::Step(rank))
}

/// Takes the step.
///
/// If two histories wrongly count as one state, the search can take steps that the code does not take.
fn take(live: &mut Live, schedule: &mut Vec<Choice>, choice: Choice) -> Result<Taken, Failure> {
    let step =
        live.take(choice).map_err(|why| Failure::Differ(format!("the replay does not follow the search: {why}")))?;
    schedule.push(choice);
    let last = step.events.iter().rev().find(|event| matches!(event, Event::Entered | Event::Left));
    Ok(Taken { enters: last == Some(&Event::Entered), breaks: step.violation.is_some() })
}
