//! The expected verdicts of marked locks, from runs of their code that share nothing with a search.

use std::fmt::Write as _;

use rmalab_atomics::Rank;
use rmalab_verify::{Check, Choice, Live, Property};

use crate::{Expected, Today, broken, correct};

/// The steps after which a run at random is given up: ranks may poll forever.
const STEPS: u32 = 3_000;

/// The property that a schedule breaks. `choose` gets the possible choices, and returns nothing at the end of a script.
fn broken_by(check: &Check, mut choose: impl FnMut(&[Choice]) -> Option<Choice>) -> Option<Property> {
    let mut live = Live::new(check).unwrap();
    for _ in 0..STEPS {
        let choices = live.choices();
        if choices.is_empty() {
            return live.end().map(|violation| violation.property);
        }
        let step = live.take(choose(&choices)?).unwrap();
        if let Some(violation) = step.violation {
            return Some(violation.property);
        }
    }
    None
}

/// A run at random, in which ranks make up to `burst` steps in a row.
fn by_chance(check: &Check, burst: u64, random: &mut impl FnMut(u64) -> u64) -> Option<Property> {
    let (mut last, mut left) = (None, 0);
    broken_by(check, |choices| {
        if left == 0 || last.is_none_or(|last| !choices.contains(&last)) {
            last = Some(choices[random(choices.len() as u64) as usize]);
            left = if random(2) == 0 { 1 } else { 1 + random(burst) };
        }
        left -= 1;
        last
    })
}

fn by_script(check: &Check, script: &[(u32, u32)]) -> Option<Property> {
    let mut steps = script.iter().flat_map(|&(rank, steps)| (0..steps).map(move |_| Choice::Step(Rank(rank))));
    broken_by(check, |_| steps.next())
}

#[test]
fn marked_locks_are_as_expected() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) % below
    };
    let mut failures = String::new();
    for entry in [correct::entries(), broken::entries()].into_iter().flatten() {
        if !entry.replays || entry.expected == Expected::Limit || !matches!(entry.today, Today::Wrong(_)) {
            continue;
        }
        for check in entry.checks() {
            let found = if entry.script.is_empty() {
                let runs = if entry.expected == Expected::Holds { 2_000 } else { 100_000 };
                (0..runs).find_map(|run| by_chance(&check, 1 << (run % 11), &mut random))
            } else {
                by_script(&check, &entry.script)
            };
            let agrees = match (entry.expected, found) {
                (Expected::Holds, found) => found.is_none(),
                (Expected::Breaks(properties), Some(found)) => properties.contains(&found),
                _ => false,
            };
            if !agrees {
                let (name, scenario, network) = (entry.name, &check.scenario, check.network);
                writeln!(failures, "{name} {scenario} {network}: expected {:?}, is {found:?}", entry.expected).unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "wrong expectations:\n{failures}");
}
