//! Litmus tests of the network models: a small program, and the set of all its outcomes on a [`Network`].
//!
//! A program is a list of [`Call`]s for each rank, without branches. [`Litmus::outcomes`] tries every order in which
//! calls can be carried out, and in which posted puts and started operations can arrive. It runs on the [`Memory`] that
//! checks of locks run on. [`rmalab_atomics::conformance::litmus()`] samples what a backend does on a machine; this
//! counts what a model can do.

use std::collections::{BTreeSet, HashSet};

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_atomics::{Address, Rank};

use crate::live::Slots;
use crate::network::{Issued, Memory, Network};

/// One step of a rank's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is called.
    pub call: Call,
    /// Whether the word that it is answered with belongs to the outcome.
    pub shown: bool,
}

/// Gets, waits and the results of started operations are shown, and atomic operations only if [`shown`](Step::shown)
/// says so.
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
    /// The step with its answer shown.
    #[must_use]
    pub fn shown(self) -> Step {
        Step { shown: true, ..self }
    }
}

/// A litmus test: what each rank does, from rank 0 on, and which words are looked at in the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Litmus {
    /// The programs.
    pub programs: Vec<Vec<Step>>,
    /// Words whose last value belongs to the outcome.
    pub ends: Vec<Address>,
}

/// A program under way.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    memory: Memory,
    /// How many steps each rank has made, and what its shown ones were answered.
    ranks: Vec<(usize, Vec<u64>)>,
}

impl Litmus {
    /// All outcomes on `network`.
    ///
    /// An outcome is the shown answers, rank by rank in the order of their programs, then the last values of the
    /// [`ends`]. A call that is never answered, because its rank waits for ever, is `-`.
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

    /// Every state that is one step further.
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
