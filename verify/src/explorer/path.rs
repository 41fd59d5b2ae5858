//! From states back to a schedule that a person can follow.

use rmalab_atomics::Rank;

use super::learned::{Failure, silent};
use super::space::{Space, Walker};
use super::state::State;
use super::store::{NOWHERE, StateId, Store};
use crate::counterexample::Choice;
use crate::monitor::Status;
use crate::{Live, Violation};

/// What happens after the last state on the way.
pub(super) enum Last<'c> {
    /// A step that breaks something.
    Breaks,
    /// Nothing: that it is the end breaks something.
    Ends,
    /// These steps, again and again.
    Repeats(&'c [Choice]),
}

/// The schedule that leads to state `id` and beyond; what is broken there, if that can be told from the last step; and
/// where the last steps begin.
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
    let mut state = walker.start();
    let (mut bytes, mut choices) = (Vec::new(), Vec::new());
    for encoding in encodings.iter().rev().skip(1) {
        walker.choices(&state, &mut choices);
        let mut found = false;
        for &choice in &choices {
            walker.step(&state, choice)?;
            let next: State = walker.next.clone();
            walker.encode(&next, &mut bytes)?;
            if bytes == *encoding {
                steps.push(choice);
                state = next;
                found = true;
                break;
            }
        }
        assert!(found, "each stored state is one step from the one that it was reached from");
    }
    let begin = with_silent_steps(space, &steps, Then::GoesOn)?.len();
    let mut violation = None;
    let mut then = Then::Ends;
    match *last {
        Last::Repeats(cycle) => {
            steps.extend(cycle);
            then = Then::GoesOn;
        }
        Last::Ends => violation = walker.end(&state),
        Last::Breaks => {
            // The state is one of those that its representative stands for, and so its ranks have other numbers.
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

/// What follows the last step of a schedule as [`Live`] takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// What shows what this rank has broken.
    Shows(Rank),
    /// All that can.
    Ends,
    /// Something else.
    GoesOn,
}

/// The schedule as [`Live`] takes it, which knows pauses and flushes as steps of their own: they are taken when their rank
/// goes on, and in the end as far as they bring ranks to where the search has them.
pub(super) fn with_silent_steps(space: &Space, steps: &[Choice], then: Then) -> Result<Vec<Choice>, Failure> {
    let mut live = Live::new(&space.check)?;
    let mut walker = Walker::new(space);
    let mut state = walker.start();
    let mut schedule = Vec::new();
    for &step in steps {
        if let Choice::Step(rank) = step {
            let call = walker.node(&state, rank.index()).issued.map(|issued| issued.call);
            while live.calls().nth(rank.index()).flatten() != call {
                take_silently(space, &mut live, &mut schedule, rank)?;
            }
        }
        take(&mut live, &mut schedule, step)?;
        walker.step(&state, step)?;
        state = walker.next.clone();
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
        let progress = |status: Status| (status.acquisition, status.phase);
        loop {
            let lags = progress(live.statuses()[rank.index()]) < progress(node.status);
            let all = breaks(rank) || then == Then::Ends;
            let now = live.calls().nth(rank.index()).flatten();
            if now.is_none() || !lags && (!all || now == call) {
                break;
            }
            take_silently(space, &mut live, &mut schedule, rank)?;
        }
    }
    Ok(schedule)
}

/// Takes a step of `rank` that is none for the search.
fn take_silently(space: &Space, live: &mut Live, schedule: &mut Vec<Choice>, rank: Rank) -> Result<(), Failure> {
    let next = live.calls().nth(rank.index()).flatten();
    match next {
        Some(call) if silent(space.check.network, call).is_some() => take(live, schedule, Choice::Step(rank)),
        other => {
            let call = other.map_or("has ended".to_owned(), |call| format!("makes {call}"));
            Err(Failure::Differ(format!("the replay does not follow the search: {rank} {call}")))
        }
    }
}

/// Two histories that were taken for one state can lead a search where the code does not go.
fn take(live: &mut Live, schedule: &mut Vec<Choice>, choice: Choice) -> Result<(), Failure> {
    live.take(choice).map_err(|why| Failure::Differ(format!("the replay does not follow the search: {why}")))?;
    schedule.push(choice);
    Ok(())
}
