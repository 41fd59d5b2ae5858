//! The transitions of a breadth-first search, for analyses that need the graph of states as a whole.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rmalab_atomics::Rank;
use rustc_hash::FxBuildHasher;

use super::permutation::Permutation;
use super::store::{SHARDS, StateId, Store};
use crate::counterexample::Choice;
use crate::panics::lock;

/// A transition of a representative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Move {
    pub(super) choice: Choice,
    /// True if the rank of the choice enters.
    pub(super) enters: bool,
    /// The representative of the resulting state.
    pub(super) to: StateId,
    /// The permutation that maps the resulting state to that representative.
    pub(super) by: Permutation,
}

/// A transition in eight bytes.
#[derive(Clone, Copy)]
struct Packed {
    to: StateId,
    /// The number of the permutation.
    by: u16,
    /// From the lowest bit on: two bits for the kind of choice, one for an entry, six for the rank, seven for the index.
    how: u16,
}

const STEP: u16 = 0;
const DEADLINE: u16 = 1;
const ARRIVE: u16 = 2;
/// A failure, the news of a failure, a return, or a lapse.
const FAILURE: u16 = 3;
/// With [`FAILURE`], the index of the failure itself, of a lapse, and of a return. The other indices are ranks that have failed.
const CRASH: u16 = (1 << 7) - 1;
const LAPSE: u16 = CRASH - 1;
const RESTART: u16 = CRASH - 2;
const CRASH_AMID: u16 = CRASH - 3;

impl Packed {
    /// `None` if the numbers are too large.
    fn new(one: &Move, by: u16) -> Option<Packed> {
        let (kind, rank, index) = match one.choice {
            Choice::Step(rank) => (STEP, rank, 0),
            Choice::Deadline(rank) => (DEADLINE, rank, 0),
            Choice::Arrive { from, index } => (ARRIVE, from, index),
            Choice::Crash(rank) => (FAILURE, rank, CRASH),
            Choice::CrashAmid(rank) => (FAILURE, rank, CRASH_AMID),
            Choice::Lapse(rank) => (FAILURE, rank, LAPSE),
            Choice::Restart(rank) => (FAILURE, rank, RESTART),
            // Ranks of a search are fewer than 64.
            Choice::Notice { rank, of } => (FAILURE, rank, of.0 as u16),
        };
        let fits = rank.0 < 1 << 6 && index < 1 << 7;
        fits.then(|| Packed {
            to: one.to,
            by,
            how: kind | u16::from(one.enters) << 2 | (rank.0 as u16) << 3 | index << 9,
        })
    }

    fn choice(self) -> Choice {
        let rank = Rank(u32::from(self.how >> 3 & 63));
        let index = self.how >> 9;
        match self.how & 3 {
            STEP => Choice::Step(rank),
            DEADLINE => Choice::Deadline(rank),
            ARRIVE => Choice::Arrive { from: rank, index },
            _ if index == CRASH => Choice::Crash(rank),
            _ if index == CRASH_AMID => Choice::CrashAmid(rank),
            _ if index == LAPSE => Choice::Lapse(rank),
            _ if index == RESTART => Choice::Restart(rank),
            _ => Choice::Notice { rank, of: Rank(index.into()) },
        }
    }
}

/// The permutations, by their numbers.
#[derive(Default)]
struct Numbers {
    all: Vec<Permutation>,
    of: HashMap<Permutation, u16, FxBuildHasher>,
}

/// The part of a search that records its transitions.
pub(super) struct Recorder {
    numbers: Mutex<Numbers>,
    /// The bytes of the transitions so far.
    bytes: AtomicU64,
    /// The largest number of bytes. The search goes on without a record when there are more, or when one does not fit.
    most: AtomicU64,
}

/// The transitions that one thread has recorded.
#[derive(Default)]
pub(super) struct Recorded {
    of: HashMap<Permutation, u16, FxBuildHasher>,
    /// The states, and the number of transitions of each.
    states: Vec<(StateId, u16)>,
    moves: Vec<Packed>,
    /// The bytes that the recorder has counted.
    told: u64,
}

impl Recorder {
    pub(super) fn new(most: u64) -> Recorder {
        Recorder { numbers: Mutex::default(), bytes: AtomicU64::new(0), most: AtomicU64::new(most) }
    }

    /// The memory of the transitions, in bytes.
    pub(super) fn memory(&self) -> u64 {
        if self.records() { self.bytes.load(Ordering::Relaxed) } else { 0 }
    }

    fn records(&self) -> bool {
        self.most.load(Ordering::Relaxed) > 0
    }

    fn give_up(&self) {
        self.most.store(0, Ordering::Relaxed);
    }

    /// The number of `by`.
    fn number(&self, by: &Permutation) -> Option<u16> {
        let mut numbers = lock(&self.numbers);
        if let Some(&known) = numbers.of.get(by) {
            return Some(known);
        }
        let next = u16::try_from(numbers.all.len()).ok()?;
        numbers.all.push(*by);
        numbers.of.insert(*by, next);
        Some(next)
    }

    /// The transitions of all states of `store`; `None` if some are missing.
    pub(super) fn finish(self, store: &Store, all: Vec<Recorded>) -> Option<Transitions> {
        if !self.records() {
            return None;
        }
        let mut graph = Transitions::without_moves(store);
        graph.permutations = lock(&self.numbers).all.clone();
        let states = graph.len();
        let mut ranges = vec![(0_u32, 0_u16); states];
        let mut moves = Vec::with_capacity(all.iter().map(|one| one.moves.len()).sum());
        for one in all {
            let mut at = u32::try_from(moves.len()).ok()?;
            for (id, count) in one.states {
                ranges[graph.dense(id)] = (at, count);
                at += u32::from(count);
            }
            moves.extend_from_slice(&one.moves);
        }
        (graph.ranges, graph.moves) = (ranges, moves);
        Some(graph)
    }
}

impl Recorded {
    /// Records that these are the next transitions of state `id`.
    pub(super) fn add(&mut self, recorder: &Recorder, id: StateId, moves: &[Move]) {
        if !recorder.records() {
            (self.states, self.moves) = (Vec::new(), Vec::new());
            return;
        }
        for one in moves {
            let number = self.of.get(&one.by).copied().or_else(|| {
                let number = recorder.number(&one.by)?;
                self.of.insert(one.by, number);
                Some(number)
            });
            match number.and_then(|number| Packed::new(one, number)) {
                Some(packed) => self.moves.push(packed),
                None => return recorder.give_up(),
            }
        }
        let Ok(count) = u16::try_from(moves.len()) else { return recorder.give_up() };
        self.states.push((id, count));
        let bytes = (self.moves.capacity() * size_of::<Packed>() + self.states.capacity() * 8) as u64;
        if bytes > self.told {
            let before = recorder.bytes.fetch_add(bytes - self.told, Ordering::Relaxed);
            if before + bytes - self.told > recorder.most.load(Ordering::Relaxed) {
                recorder.give_up();
            }
            self.told = bytes;
        }
    }
}

/// The graph of representatives.
pub(super) struct Transitions {
    /// For each shard, the number of states in the shards before it, and the number of all states.
    offsets: Vec<usize>,
    permutations: Vec<Permutation>,
    /// The first transition of each state, and the number of them.
    ranges: Vec<(u32, u16)>,
    moves: Vec<Packed>,
}

impl Transitions {
    /// The numbers of the states of `store`, which are complete.
    pub(super) fn without_moves(store: &Store) -> Transitions {
        let mut offsets = vec![0];
        for len in store.lens() {
            offsets.push(offsets[offsets.len() - 1] + len as usize);
        }
        Transitions { offsets, permutations: Vec::new(), ranges: Vec::new(), moves: Vec::new() }
    }

    /// The memory of the transitions, in bytes.
    pub(super) fn memory(&self) -> u64 {
        (self.ranges.len() * size_of::<(u32, u16)>() + self.moves.len() * size_of::<Packed>()) as u64
    }

    /// The number of states.
    pub(super) fn len(&self) -> usize {
        self.offsets[SHARDS]
    }

    /// The number of a state, counted without gaps.
    pub(super) fn dense(&self, id: StateId) -> usize {
        self.offsets[id as usize % SHARDS] + id as usize / SHARDS
    }

    /// Transition number `i` of the state with this dense number, if there is one.
    pub(super) fn get(&self, dense: usize, i: usize) -> Option<Move> {
        let (first, count) = self.ranges[dense];
        let packed = (i < usize::from(count)).then(|| self.moves[first as usize + i])?;
        Some(Move {
            choice: packed.choice(),
            enters: packed.how & 4 != 0,
            to: packed.to,
            by: self.permutations[usize::from(packed.by)],
        })
    }

    /// The transitions of the state with this dense number.
    pub(super) fn of(&self, dense: usize) -> impl Iterator<Item = Move> {
        (0..).map_while(move |i| self.get(dense, i))
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::{Added, NOWHERE};
    use super::*;

    #[test]
    fn transitions_come_back_as_they_were() {
        let store = Store::new();
        let ids: Vec<StateId> = (0..9)
            .map(|i| match store.add(&[i], NOWHERE) {
                Added::New(id) => id,
                other => panic!("{other:?}"),
            })
            .collect();
        let swapped = Permutation([1, 0, 2, 3, 4, 5, 6, 7]);
        let moves = |i: usize| {
            let arrives = Choice::Arrive { from: Rank(63), index: 127 };
            let choices = [Choice::Lapse(Rank(5)), Choice::Deadline(Rank(0)), arrives];
            let to = |k| ids[(i + k) % ids.len()];
            let by = |k: usize| if (i + k).is_multiple_of(2) { swapped } else { Permutation::IDENTITY };
            let one = |k| Move { choice: choices[k], enters: k == i % 3, to: to(k), by: by(k) };
            (0..i % 4).map(one).collect::<Vec<_>>()
        };
        let recorder = Recorder::new(1 << 20);
        let mut threads = [Recorded::default(), Recorded::default()];
        for (i, &id) in ids.iter().enumerate() {
            threads[i % 2].add(&recorder, id, &moves(i));
        }
        let graph = recorder.finish(&store, threads.into()).unwrap();
        for (i, &id) in ids.iter().enumerate() {
            assert_eq!(graph.of(graph.dense(id)).collect::<Vec<_>>(), moves(i));
        }
    }

    #[test]
    fn what_is_too_large_ends_the_record() {
        let one = Move { choice: Choice::Step(Rank(64)), enters: false, to: 0, by: Permutation::IDENTITY };
        for (most, rank) in [(1 << 20, Rank(64)), (8, Rank(0))] {
            let recorder = Recorder::new(most);
            let mut thread = Recorded::default();
            thread.add(&recorder, 0, &[Move { choice: Choice::Step(rank), ..one }]);
            assert!(recorder.finish(&Store::new(), vec![thread]).is_none());
        }
    }
}
