//! Parallel depth-first search that keeps 64 bits per state, for searches that are limited by memory.
//!
//! The search knows a state by a fingerprint of its encoding (SipHash, 64 bits), and each thread keeps the path to its
//! present state. Two states with one fingerprint count as one, so the search may not visit the successors of the
//! second one. Among n states, the probability of that is at most n²/2^65, which [`missed`] returns. P. Wolper and D.
//! Leroy introduced hash compaction in "Reliable Hashing without Collision Detection", CAV 1993.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hashbrown::HashTable;

use super::breadth::Shared;
use super::node::Failure;
use super::path::{Then, with_silent_steps};
use super::space::{Sometimes, Space, Walker};
use super::state::State;
use crate::counterexample::Choice;
use crate::panics::lock;
use crate::{Counterexample, Finding};

/// The fingerprints of the visited states, in parts with one lock each.
pub(super) struct Seen {
    parts: Vec<Mutex<HashTable<u64>>>,
}

const PARTS: usize = 256;

impl Seen {
    pub(super) fn new() -> Seen {
        Seen { parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }

    /// Adds the state with this encoding, and returns whether it is new.
    fn add(&self, bytes: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        let print = hasher.finish();
        let mut part = lock(&self.parts[print as usize % PARTS]);
        // The low bits choose the part, the other bits the position in it.
        let hash = |print: &u64| print.rotate_right(8);
        if part.find(hash(&print), |&known| known == print).is_some() {
            return false;
        }
        part.insert_unique(hash(&print), print, hash);
        true
    }

    /// The memory of the set, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let bytes = |part: &Mutex<HashTable<u64>>| lock(part).allocation_size();
        self.parts.iter().map(|part| bytes(part) as u64).sum()
    }
}

/// An upper bound of the probability that one of `states` states counted as another.
pub(super) fn missed(states: u64) -> f64 {
    (states as f64).powi(2) / 2_f64.powi(65)
}

/// A state on a path, with its remaining transitions.
struct Frame {
    state: State,
    choices: Vec<Choice>,
}

/// A part of the search that any thread may take: a state, the path to it, and the transitions to try from it.
struct Task {
    path: Vec<Choice>,
    frame: Frame,
}

/// The data that the threads share besides the set.
struct Pool {
    tasks: Mutex<VecDeque<Task>>,
    /// The number of threads without work.
    idle: AtomicUsize,
    found: Mutex<Option<Result<Counterexample, Failure>>>,
    sometimes: Mutex<Sometimes>,
}

/// The time that an idle thread waits before it looks for work again.
const NAP: Duration = Duration::from_micros(200);
/// The number of steps between two looks at the limits and at idle threads.
const STRIDE: u64 = 512;

/// Visits every state.
pub(super) fn search(space: &Space, seen: &Seen, shared: &Shared<'_>) -> Result<(Finding, Sometimes), Failure> {
    let mut walker = Walker::new(space);
    let state = walker.start()?;
    let (mut bytes, mut choices) = (Vec::new(), Vec::new());
    walker.encode(&state, &mut bytes)?;
    seen.add(&bytes);
    shared.count(1, 0);
    walker.choices(&state, &mut choices);
    let broken = if choices.iter().all(|choice| choice.is_optional(|_| true)) && walker.is_end(&state) {
        walker.end(&state)
    } else {
        None
    };
    if let Some(violation) = broken {
        let schedule = with_silent_steps(space, &[], Then::Ends)?;
        let found = Counterexample::new(&space.check, violation, schedule, None);
        return Ok((Finding::Violated(found), walker.sometimes));
    }
    let pool = Pool {
        tasks: Mutex::new(VecDeque::from([Task { path: Vec::new(), frame: Frame { state, choices } }])),
        idle: AtomicUsize::new(0),
        found: Mutex::new(None),
        sometimes: Mutex::new(walker.sometimes),
    };
    let threads = shared.threads();
    std::thread::scope(|scope| {
        let search = || {
            // Ends the other threads if this one panics. Otherwise they would wait for its work.
            let _guard = StopOnPanic(shared);
            let mut walker = Walker::new(space);
            if let Err(failure) = work(&mut walker, seen, shared, &pool, threads) {
                pool.end(shared, Err(failure));
            }
            lock(&pool.sometimes).merge(walker.sometimes);
        };
        for _ in 1..threads {
            if std::thread::Builder::new().spawn_scoped(scope, search).is_err() {
                // If the system refuses a thread, the other threads do its work and do not wait for it.
                pool.idle.fetch_add(1, Ordering::Relaxed);
            }
        }
        search();
    });
    let sometimes = pool.sometimes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let found = pool.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let finding = match (found, shared.limit_reached()) {
        (Some(found), _) => Finding::Violated(found?),
        (None, Some(limit)) => Finding::Incomplete(limit),
        (None, None) => Finding::Holds,
    };
    Ok((finding, sometimes))
}

/// Ends the search for all threads if this one panics.
struct StopOnPanic<'s, 'o>(&'s Shared<'o>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

impl Pool {
    fn end(&self, shared: &Shared<'_>, found: Result<Counterexample, Failure>) {
        lock(&self.found).get_or_insert(found);
        shared.stop();
    }

    fn take(&self) -> Option<Task> {
        lock(&self.tasks).pop_front()
    }
}

/// Takes tasks until none is left and no thread can add one.
fn work(walker: &mut Walker<'_>, seen: &Seen, shared: &Shared<'_>, pool: &Pool, threads: usize) -> Result<(), Failure> {
    loop {
        if let Some(task) = pool.take() {
            walker.learn_of(&task.frame.state);
            dive(walker, seen, shared, pool, task)?;
            continue;
        }
        pool.idle.fetch_add(1, Ordering::SeqCst);
        loop {
            if pool.idle.load(Ordering::SeqCst) == threads || shared.has_stopped() {
                return Ok(());
            }
            if !lock(&pool.tasks).is_empty() {
                break;
            }
            std::thread::sleep(NAP);
        }
        pool.idle.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Searches all states that are reachable from the task.
fn dive(walker: &mut Walker<'_>, seen: &Seen, shared: &Shared<'_>, pool: &Pool, task: Task) -> Result<(), Failure> {
    let Task { mut path, frame } = task;
    let mut frames = vec![frame];
    let mut spare: Vec<Frame> = Vec::new();
    let mut bytes = Vec::new();
    let (mut new, mut steps) = (0, 0);
    while let Some(frame) = frames.last_mut() {
        let Some(choice) = frame.choices.pop() else {
            spare.extend(frames.pop());
            path.pop();
            continue;
        };
        let violation = walker.step(&frame.state, choice)?;
        steps += 1;
        walker.encode_next(&mut bytes)?;
        let mut broken = violation;
        let is_new = broken.is_none() && seen.add(&bytes);
        if is_new || broken.is_some() {
            path.push(choice);
        }
        if is_new {
            new += 1;
            let mut below = spare.pop().unwrap_or_else(|| Frame { state: State::nothing(), choices: Vec::new() });
            below.state.copy_from(&walker.next);
            let mut choices = std::mem::take(&mut below.choices);
            walker.choices(&below.state, &mut choices);
            if choices.iter().all(|choice| choice.is_optional(|_| true)) && walker.is_end(&below.state) {
                broken = walker.end(&below.state);
            }
            below.choices = choices;
            frames.push(below);
        }
        if let Some(violation) = broken {
            let then = if is_new { Then::Ends } else { Then::Shows(violation.rank) };
            let schedule = with_silent_steps(walker.space, &path, then)?;
            pool.end(shared, Ok(Counterexample::new(&walker.space.check, violation, schedule, None)));
            return Ok(());
        }
        if steps == STRIDE {
            shared.count(new, steps);
            shared.deepest(path.len());
            (new, steps) = (0, 0);
            if !shared.goes_on(&|| seen.memory() + walker.space.memory()) {
                return Ok(());
            }
            if pool.idle.load(Ordering::Relaxed) > 0 {
                give_away(&mut frames, &path, pool);
            }
        }
    }
    shared.count(new, steps);
    Ok(())
}

/// Gives the remaining transitions nearest to the start to an idle thread, since they lead to the largest part of the
/// search.
fn give_away(frames: &mut [Frame], path: &[Choice], pool: &Pool) {
    let Some(at) = frames.iter().position(|frame| !frame.choices.is_empty()) else { return };
    let choices = std::mem::take(&mut frames[at].choices);
    // A task begins with one frame, at the end of its path. Each further frame is one step longer.
    let upto = path.len() + 1 - frames.len() + at;
    let frame = Frame { state: frames[at].state.clone(), choices };
    let task = Task { path: path[..upto].to_vec(), frame };
    lock(&pool.tasks).push_back(task);
}
