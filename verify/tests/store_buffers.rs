//! Loom's handling of puts, against a model of store buffers: each program's exact set of outcomes.
//!
//! A put of the backends over shared memory is a plain store of the processor. The processor may delay it while it
//! reads other words, until a flush or an atomic operation. The model here is x86-TSO, written as a separate search.
//! Every rank has a queue of stores, reads the newest of them itself, and empties it in order.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use rmalab_atomics::controlled::Shape;
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until, bulk};
use rmalab_verify::loom_engine::{self, Options};
use rmalab_verify::play::Stage;
use rmalab_verify::{Check, Error, Finding, Network, Program, Property, replay};

/// One step of a rank's program. Words have numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    Put(usize, u64),
    /// Its answer belongs to the outcome, like the answers of the atomic operations.
    Get(usize),
    FetchAdd(usize, u64),
    /// The same, started and then waited for.
    StartedAdd(usize, u64),
    CompareAndSwap(usize, u64, u64),
    Flush,
    /// Store buffers keep the order of puts and atomic operations anyway.
    Order,
}

use Step::{CompareAndSwap, FetchAdd, Flush, Get, Order, Put, StartedAdd};

const X: usize = 0;
const Y: usize = 1;
const WORDS: usize = 2;

/// The answers, rank by rank in the order of their programs, then the final values of the words.
type Outcome = Vec<u64>;

/// The model.
mod model {
    use super::*;

    /// The number of steps of a rank, its buffered stores, and its answers.
    type Part = (usize, VecDeque<(usize, u64)>, Vec<u64>);

    #[derive(Clone, PartialEq, Eq, Hash, Default)]
    struct State {
        words: [u64; WORDS],
        ranks: Vec<Part>,
    }

    pub(super) fn outcomes(programs: &[Vec<Step>]) -> BTreeSet<Outcome> {
        let start = State { words: [0; WORDS], ranks: vec![Default::default(); programs.len()] };
        let (mut known, mut open, mut outcomes) = (HashSet::from([start.clone()]), vec![start], BTreeSet::new());
        while let Some(state) = open.pop() {
            let mut next = Vec::new();
            for (rank, program) in programs.iter().enumerate() {
                let (done, stores, _) = &state.ranks[rank];
                if let Some(&(word, value)) = stores.front() {
                    let mut written = state.clone();
                    written.ranks[rank].1.pop_front();
                    written.words[word] = value;
                    next.push(written);
                }
                let Some(&step) = program.get(*done) else { continue };
                let mut after = state.clone();
                let words = &mut after.words;
                let (done, stores, answers) = &mut after.ranks[rank];
                *done += 1;
                match step {
                    Put(word, value) => stores.push_back((word, value)),
                    Get(word) => {
                        let own = stores.iter().rev().find(|store| store.0 == word);
                        answers.push(own.map_or(words[word], |store| store.1));
                    }
                    Order => {}
                    _ if !stores.is_empty() => continue,
                    Flush => {}
                    FetchAdd(word, value) | StartedAdd(word, value) => {
                        answers.push(words[word]);
                        words[word] += value;
                    }
                    CompareAndSwap(word, expected, desired) => {
                        answers.push(words[word]);
                        if words[word] == expected {
                            words[word] = desired;
                        }
                    }
                }
                next.push(after);
            }
            if next.is_empty() {
                let answers = state.ranks.iter().flat_map(|(_, _, answers)| answers.iter().copied());
                outcomes.insert(answers.chain(state.words).collect());
            }
            open.extend(next.into_iter().filter(|next| known.insert(next.clone())));
        }
        outcomes
    }
}

fn at(word: usize) -> Address {
    // Words of two ranks: the order of puts here does not depend on the targets.
    Rank(word as u32).at(Disp(64))
}

/// Runs one rank's program, and returns the answers.
fn run(stage: &Stage<'_>, program: &[Step]) -> rmalab_atomics::Result<Vec<u64>> {
    let mut answers = Vec::new();
    for &step in program {
        match step {
            Put(word, value) => stage.put(at(word), value)?,
            Get(word) => answers.push(stage.get(at(word))?),
            FetchAdd(word, value) => answers.push(stage.fetch_add(at(word), value)?),
            StartedAdd(word, value) => {
                let mut old = 0;
                bulk::scope(stage, |scope| scope.fetch_add(at(word), value, &mut old))?;
                answers.push(old);
            }
            CompareAndSwap(word, expected, desired) => {
                answers.push(stage.compare_and_swap(at(word), expected, desired)?);
            }
            // Any target will do: the fence is for all targets.
            Flush => stage.flush(Rank(0))?,
            Order => stage.order(Rank(0))?,
        }
    }
    Ok(answers)
}

/// The answers of the ranks of one execution; cleared when an execution is abandoned.
struct Answers(Mutex<Vec<Option<Vec<u64>>>>);

struct EmptiedByPanic<'a>(&'a Answers);

impl Drop for EmptiedByPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.lock().unwrap().fill(None);
        }
    }
}

/// The outcomes under loom. The last rank that ends reads the words by atomic operations, since all other ranks have
/// ended.
fn under_loom(programs: &[Vec<Step>]) -> BTreeSet<Outcome> {
    let ranks = programs.len();
    let outcomes = Arc::new(Mutex::new(BTreeSet::new()));
    let (found, programs) = (Arc::clone(&outcomes), programs.to_vec());
    let answers = Answers(Mutex::new(vec![None; ranks]));
    let program = Program::new(programs.len() as u32, move |rank, player| {
        let stage = Stage::new(player, &Shape::new(ranks as u32), rank);
        let _emptied = EmptiedByPanic(&answers);
        let own = run(&stage, &programs[rank.index()])?;
        // The end of the rank, as other ranks see it: after its puts.
        let ended = stage.fetch_add(Rank(0).at(Disp(0)), 1)?;
        answers.0.lock().unwrap()[rank.index()] = Some(own);
        if ended + 1 == ranks as u64 {
            let words = [stage.fetch_add(at(X), 0)?, stage.fetch_add(at(Y), 0)?];
            let all: Vec<Option<Vec<u64>>> = std::mem::replace(&mut *answers.0.lock().unwrap(), vec![None; ranks]);
            let all = all.into_iter().flat_map(|answers| answers.unwrap());
            found.lock().unwrap().insert(all.chain(words).collect());
        }
        Ok(())
    });
    let check = Check::program("litmus", program);
    let outcome = loom_engine::run(&check, &Options::default(), &|_| true).unwrap();
    assert_eq!((outcome.finding, outcome.bounded), (Finding::Holds, false));
    std::mem::take(&mut outcomes.lock().unwrap())
}

#[track_caller]
fn agree(name: &str, programs: &[Vec<Step>]) -> BTreeSet<Outcome> {
    let (seen, allowed) = (under_loom(programs), model::outcomes(programs));
    assert_eq!(seen, allowed, "{name}: {programs:?}");
    seen
}

#[test]
fn a_get_overtakes_a_put_unless_a_flush_or_an_atomic_operation_is_between() {
    let both_old = |between: [&[Step]; 2]| {
        let rank = |mine, other, between: &[Step]| [&[Put(mine, 1)], between, &[Get(other)]].concat();
        let programs = [rank(X, Y, between[0]), rank(Y, X, between[1])];
        let outcomes = agree("store buffering", &programs);
        outcomes.iter().any(|outcome| {
            let gets = between.map(|steps| usize::from(!steps.is_empty() && !matches!(steps[0], Flush | Order)));
            outcome[gets[0]] == 0 && outcome[gets[0] + 1 + gets[1]] == 0
        })
    };
    assert!(both_old([&[], &[]]));
    assert!(both_old([&[Flush], &[]]), "one flush is not enough");
    assert!(both_old([&[Order], &[Order]]), "a get may come ahead of an ordered put");
    assert!(!both_old([&[Flush], &[Flush]]));
    assert!(!both_old([&[FetchAdd(X, 0)], &[FetchAdd(Y, 0)]]));
    assert!(!both_old([&[CompareAndSwap(X, 7, 8)], &[CompareAndSwap(Y, 7, 8)]]));
    assert!(!both_old([&[StartedAdd(X, 0)], &[StartedAdd(Y, 0)]]));
}

#[test]
fn named_programs_have_exactly_the_outcomes_of_store_buffers() {
    let message = [vec![Put(X, 1), Put(Y, 1)], vec![Get(Y), Get(X)]];
    assert!(!agree("message passing", &message).contains(&vec![1, 0, 1, 1]));
    let load_buffering = [vec![Get(X), Put(Y, 1)], vec![Get(Y), Put(X, 1)]];
    assert!(!agree("load buffering", &load_buffering).iter().any(|outcome| outcome[..2] == [1, 1]));
    let own = [vec![Put(X, 1), Get(X), Get(Y)], vec![Put(Y, 1), Get(Y), Get(X)]];
    assert!(agree("own puts are read early", &own).iter().any(|outcome| outcome[..4] == [1, 0, 1, 0]));
    agree("R", &[vec![Put(X, 1), Put(Y, 1)], vec![Put(Y, 2), Get(X)]]);
    agree("S", &[vec![Put(X, 2), Put(Y, 1)], vec![Get(Y), Put(X, 1)]]);
    let twice = [vec![Put(X, 1), Put(Y, 2)], vec![Put(Y, 1), Put(X, 2)]];
    assert!(!agree("2+2W", &twice).iter().any(|outcome| outcome[..] == [1, 1]));
    agree("coherence", &[vec![Put(X, 1), Put(X, 2)], vec![Get(X), Get(X)]]);
    agree("an atomic operation after a put", &[vec![Put(X, 1), Get(Y)], vec![FetchAdd(Y, 1), Get(X)]]);
    let causality = [vec![Put(X, 1)], vec![Get(X), Put(Y, 1)], vec![Get(Y), Get(X)]];
    assert!(!agree("write to read causality", &causality).iter().any(|outcome| outcome[..3] == [1, 1, 0]));
}

#[test]
#[ignore = "a quarter of a minute"]
fn independent_reads_have_exactly_the_outcomes_of_store_buffers() {
    let independent = [vec![Put(X, 1)], vec![Put(Y, 1)], vec![Get(X), Get(Y)], vec![Get(Y), Get(X)]];
    assert!(!agree("independent reads", &independent).iter().any(|outcome| outcome[..4] == [1, 0, 1, 0]));
}

#[test]
fn programs_at_random_have_exactly_the_outcomes_of_store_buffers() {
    agree_at_random(1, 9);
}

#[test]
#[ignore = "a quarter of a minute"]
fn more_programs_at_random_have_exactly_the_outcomes_of_store_buffers() {
    agree_at_random(2, 45);
}

fn agree_at_random(seed: u64, count: usize) {
    let mut state = seed;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut value = 0;
    let mut step = || {
        let word = below(2) as usize;
        value += 1;
        match below(9) {
            0..=3 => Put(word, value),
            4..=6 => Get(word),
            7 => [FetchAdd(word, 16), CompareAndSwap(word, 0, value)][below(2) as usize],
            _ => [Flush, Order][below(2) as usize],
        }
    };
    for program in 0..count {
        let (ranks, steps) = [(2, 3), (2, 4), (3, 2)][program % 3];
        let programs: Vec<Vec<Step>> = (0..ranks).map(|_| (0..steps).map(|_| step()).collect()).collect();
        agree(&format!("program {program}"), &programs);
    }
}

/// A mutex of two ranks (Dekker's first step): each sets its flag, and reads the other flag.
fn says_then_looks(flushes: bool) -> Check {
    let body = move |rank: Rank, player: &dyn rmalab_verify::play::Player| {
        let stage = Stage::new(player, &Shape::new(2), rank);
        let other = Rank(1 - rank.0);
        stage.put(rank.at(Disp(64)), 1)?;
        if flushes {
            stage.flush(rank)?;
        }
        if stage.get(other.at(Disp(64)))? == 0 {
            // Started, so that the replay covers that, too.
            let mut inside = 0;
            bulk::scope(&stage, |scope| scope.fetch_add(Rank(0).at(Disp(0)), 1, &mut inside))?;
            if inside > 0 {
                let seen = "both ranks have missed the other one's flag".to_owned();
                return Err(Error::Seen { property: Property::MutualExclusion, seen });
            }
        }
        Ok(())
    };
    Check::program("says-then-looks", Program::new(2, body))
}

#[test]
fn a_put_that_is_not_flushed_breaks_a_mutex_and_the_counterexample_replays() {
    let run = |flushes| {
        let check = says_then_looks(flushes);
        (loom_engine::run(&check, &Options::default(), &|_| true).unwrap(), check)
    };
    assert_eq!(run(true).0.finding, Finding::Holds);
    let (outcome, check) = run(false);
    let found = outcome.violation().expect("both enter where both puts are late");
    assert_eq!((found.violation.property, found.network), (Property::MutualExclusion, Network::LatePuts));
    let (_, replayed) = replay(&Check { network: found.network, ..check }, &found.schedule).unwrap();
    assert_eq!(replayed.as_ref(), Some(&found.violation));
}

#[test]
fn bytes_that_are_written_after_the_flag_that_announces_them_are_a_race() {
    let run = |flag_first: bool| {
        let body = move |rank: Rank, player: &dyn rmalab_verify::play::Player| {
            let stage = Stage::new(player, &Shape::new(2), rank);
            let (flag, data) = (Rank(1).at(Disp(0)), Rank(1).at(Disp(64)));
            if rank == Rank(0) {
                if flag_first {
                    stage.put(flag, 1)?;
                }
                stage.post_bytes(data, &[7; 8])?;
                if !flag_first {
                    stage.put(flag, 1)?;
                }
                stage.flush(Rank(1))?;
            } else {
                stage.wait_until(flag.disp, Until::Eq(1))?;
                stage.get_bytes(data, &mut [0; 8])?;
            }
            Ok(())
        };
        let check = Check::program("announces", Program::new(2, body));
        loom_engine::run(&check, &Options::default(), &|_| true).unwrap()
    };
    assert_eq!(run(false).finding, Finding::Holds);
    let outcome = run(true);
    let found = outcome.violation().expect("the flag can be seen before the bytes");
    assert_eq!(found.violation.property, Property::Visibility);
}

#[test]
fn a_fence_for_all_ranks_replaces_a_flush() {
    let body = |rank: Rank, player: &dyn rmalab_verify::play::Player| {
        let stage = Stage::new(player, &Shape::new(2), rank);
        let (own, other, inside) = (rank.at(Disp(64)), Rank(1 - rank.0).at(Disp(64)), Rank(0).at(Disp(0)));
        stage.put(own, 1)?;
        if rank == Rank(0) {
            stage.fence_light();
        } else {
            stage.flush(rank)?;
            stage.fence_everywhere()?;
        }
        if stage.get(other)? == 0 && stage.fetch_add(inside, 1)? > 0 {
            let seen = "both ranks have missed the other one's put".to_owned();
            return Err(Error::Seen { property: Property::MutualExclusion, seen });
        }
        Ok(())
    };
    // Loom finds out that a rank fences, if the program does not declare it.
    for program in [Program::new(2, body).fencing(), Program::new(2, body)] {
        let check = Check::program("asymmetric", program);
        let outcome = loom_engine::run(&check, &Options::default(), &|_| true).unwrap();
        assert_eq!((&outcome.finding, outcome.bounded), (&Finding::Holds, false));
        // Either rank may miss the other's put, or neither.
        assert_eq!(outcome.behaviours, 3);
    }
}
