//! Litmus tests of the network models: the set of all outcomes of a small program on a [`Network`].
//!
//! A program is a list of [`Call`]s for each rank, without branches. [`Litmus::outcomes`] tries every order of the
//! calls, and of the arrivals of posted puts and started operations. It uses the same [`Memory`] as the checks of
//! locks. [`rmalab_atomics::conformance::litmus()`] samples the outcomes of a backend on a machine; this module finds
//! all outcomes of a model.

use std::collections::{BTreeSet, HashSet};

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_atomics::{Address, Rank};

use crate::live::Slots;
use crate::network::{Issued, Memory, Network};

/// One step of a rank's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The call.
    pub call: Call,
    /// True if the word of its answer belongs to the outcome.
    pub shown: bool,
}

/// Gets, waits and results of started operations are shown. Atomic operations are shown only through
/// [`shown`](Step::shown).
impl From<Call> for Step {
    fn from(call: Call) -> Step {
        let shown = matches!(
            call,
            Call::Get { .. } | Call::Load { .. } | Call::BulkGet { .. } | Call::WaitUntil { .. } | Call::Finish { .. }
        );
        Step { call, shown }
    }
}

impl Step {
    /// Returns the step with its answer shown.
    #[must_use]
    pub fn shown(self) -> Step {
        Step { shown: true, ..self }
    }
}

/// A litmus test: the program of each rank, from rank 0 on, and the words to read at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Litmus {
    /// The programs.
    pub programs: Vec<Vec<Step>>,
    /// The words whose final values belong to the outcome.
    pub ends: Vec<Address>,
}

/// A program under way.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    memory: Memory,
    /// The number of steps of each rank so far, and the answers of its shown steps.
    ranks: Vec<(usize, Vec<u64>)>,
}

impl Litmus {
    /// All outcomes on `network`.
    ///
    /// An outcome consists of the shown answers, rank by rank in the order of their programs, and the final values of
    /// the [`ends`]. A call without an answer, because its rank waits forever, is `-`.
    ///
    /// [`ends`]: Litmus::ends
    ///
    /// # Panics
    ///
    /// When the programs use more than 65,536 words.
    pub fn outcomes(&self, network: Network) -> BTreeSet<String> {
        let mut slots = Slots::default();
        let ends: Vec<u16> = self.ends.iter().map(|&at| slots.of(at)).collect();
        let issued: Vec<Vec<Issued>> = (0..)
            .zip(&self.programs)
            .map(|(rank, program)| {
                let issue = |step: &Step| Issued::new(network, Rank(rank), step.call, |at| slots.of(at));
                program.iter().map(issue).collect()
            })
            .collect();
        let start =
            State { memory: Memory::new(self.programs.len()), ranks: vec![(0, Vec::new()); self.programs.len()] };
        let mut outcomes = BTreeSet::new();
        let mut known = HashSet::from([start.clone()]);
        let mut open = vec![start];
        while let Some(state) = open.pop() {
            let next = self.successors(network, &issued, &state);
            if next.is_empty() {
                outcomes.insert(self.outcome(&state, &ends));
            }
            open.extend(next.into_iter().filter(|next| known.insert(next.clone())));
        }
        outcomes
    }

    /// All states that are one step further.
    fn successors(&self, network: Network, issued: &[Vec<Issued>], state: &State) -> Vec<State> {
        let mut next = Vec::new();
        for (rank, program) in issued.iter().enumerate() {
            for index in 0..state.memory.posts[rank].len() {
                if state.memory.may_arrive(rank, index) {
                    let mut after = state.clone();
                    after.memory.arrive(rank, index);
                    next.push(after);
                }
            }
            let done = state.ranks[rank].0;
            if let Some(call) = program.get(done).filter(|call| state.memory.ready(rank, call)) {
                let mut after = state.clone();
                if let Some(answer) = after.memory.carry_out(network, rank, call) {
                    let (steps, seen) = &mut after.ranks[rank];
                    *steps += 1;
                    match answer {
                        Answer::Word(word) if self.programs[rank][done].shown => seen.push(word),
                        _ => {}
                    }
                }
                next.push(after);
            }
        }
        next
    }

    fn outcome(&self, state: &State, ends: &[u16]) -> String {
        let answers = self.programs.iter().zip(&state.ranks).flat_map(|(program, (_, seen))| {
            let shown = program.iter().filter(|step| step.shown).count();
            (0..shown).map(|i| seen.get(i).copied())
        });
        let words = answers.chain(ends.iter().map(|&slot| Some(state.memory.word(slot))));
        words.map(|word| word.map_or("-".to_owned(), |word| word.to_string())).collect::<Vec<_>>().join(" ")
    }
}
