//! From states back to a schedule that a person can follow.

use rmalab_atomics::controlled::Call;

use super::learned::Failure;
use super::space::{Space, Walker};
use super::state::State;
use super::store::{NOWHERE, StateId, Store};
use crate::counterexample::Choice;
use crate::network::Network;
use crate::{Error, Live, Violation};

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
    let begin = with_silent_steps(space, &steps)?.len();
    let mut violation = None;
    match *last {
        Last::Repeats(cycle) => steps.extend(cycle),
        Last::Ends => violation = walker.end(&state),
        Last::Breaks => {
            // The state is one of those that its representative stands for, and so its ranks have other numbers.
            walker.choices(&state, &mut choices);
            for &choice in &choices {
                violation = walker.step(&state, choice)?;
                if violation.is_some() {
                    steps.push(choice);
                    break;
                }
            }
        }
    }
    Ok((with_silent_steps(space, &steps)?, violation, begin))
}

/// The schedule as [`Live`] takes it, which knows pauses and flushes as steps of their own.
pub(super) fn with_silent_steps(space: &Space, steps: &[Choice]) -> Result<Vec<Choice>, Error> {
    let mut live = Live::new(&space.check)?;
    let late = matches!(space.check.network, Network::LatePuts | Network::UnorderedBulk);
    let mut schedule = Vec::new();
    for &step in steps {
        if let Choice::Step(rank) = step {
            loop {
                let call = live.calls().nth(rank.index()).flatten();
                let silent = match call {
                    Some(Call::Pause { .. } | Call::Now) => true,
                    Some(Call::Flush { .. }) => !late,
                    _ => false,
                };
                if !silent {
                    break;
                }
                take(&mut live, &mut schedule, step)?;
            }
        }
        take(&mut live, &mut schedule, step)?;
    }
    Ok(schedule)
}

fn take(live: &mut Live, schedule: &mut Vec<Choice>, choice: Choice) -> Result<(), Error> {
    live.take(choice).map_err(|why| Error::Unsound(format!("the replay does not follow the search: {why}")))?;
    schedule.push(choice);
    Ok(())
}
