//! From states back to a schedule that a person can follow.

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;

use super::learned::{Failure, SILENT};
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
    let mut state = walker.start()?;
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
    let begin = with_silent_steps(space, &steps, false)?.len();
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
    let ends = matches!(last, Last::Ends);
    Ok((with_silent_steps(space, &steps, ends)?, violation, begin))
}

/// The schedule as [`Live`] takes it: with the local steps that were taken at once, and with pauses and flushes. To the
/// search those are part of the step before them, or of a rank's first step; with `ends`, all ranks take them in the end.
pub(super) fn with_silent_steps(space: &Space, steps: &[Choice], ends: bool) -> Result<Vec<Choice>, Failure> {
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
    let mut replay = Replay { live: Live::new(&space.check)?, schedule: Vec::new(), broken: false };
    for step in all {
        match step {
            Choice::Step(rank) => {
                replay.be_silent(space, rank)?;
                replay.take(step)?;
                replay.be_silent(space, rank)?;
            }
            Choice::Arrive { .. } => replay.take(step)?,
        }
    }
    if ends {
        (0..space.parts.ranks as u32).map(Rank).try_for_each(|rank| replay.be_silent(space, rank))?;
    }
    Ok(replay.schedule)
}

struct Replay {
    live: Live,
    schedule: Vec<Choice>,
    broken: bool,
}

impl Replay {
    fn be_silent(&mut self, space: &Space, rank: Rank) -> Result<(), Error> {
        let late = matches!(space.check.network, Network::LatePuts | Network::UnorderedBulk);
        for _ in 0..SILENT {
            let silent = match self.live.calls().nth(rank.index()).flatten() {
                Some(Call::Pause { .. } | Call::Now) => true,
                Some(Call::Flush { .. }) => !late,
                _ => false,
            };
            if !silent || self.broken {
                break;
            }
            self.take(Choice::Step(rank))?;
        }
        Ok(())
    }

    fn take(&mut self, choice: Choice) -> Result<(), Error> {
        let follow = |why| Error::Unsound(format!("the replay does not follow the search: {why}"));
        self.broken |= self.live.take(choice).map_err(follow)?.violation.is_some();
        self.schedule.push(choice);
        Ok(())
    }
}
