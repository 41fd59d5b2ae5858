//! Parallel breadth-first search, level by level, so that the first counterexample is a shortest one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::node::Failure;
use super::options::Options;
use super::space::{Sometimes, Space, Walker};
use super::store::{Added, NOWHERE, SHARDS, StateId, Store};
use super::transitions::{Move, Recorded, Recorder, Transitions};
use crate::Violation;
use crate::counterexample::Choice;
use crate::outcome::{Limit, Progress, Watch};
use crate::panics::lock;

/// The end of a search.
pub(super) enum End {
    Complete,
    Limit(Limit),
    /// The state, the transition from it if there is one, and the violation.
    Violation(StateId, Option<Choice>, Violation),
}

/// The data that the threads of a search share.
pub(super) struct Shared<'o> {
    options: &'o Options,
    watch: Watch<'o>,
    begun: Instant,
    stop: AtomicBool,
    end: Mutex<Option<Result<End, Failure>>>,
    watched: Mutex<Instant>,
    states: AtomicU64,
    transitions: AtomicU64,
    /// The number of expanded states of this level.
    expanded: AtomicU64,
    level: AtomicU64,
    level_size: AtomicU64,
}

/// The time between two reports of progress, and between two checks of the limits.
const TICK: Duration = Duration::from_millis(100);

/// The number of states that a thread takes at a time.
const UNIT: u32 = 128;

impl<'o> Shared<'o> {
    pub(super) fn new(options: &'o Options, watch: Watch<'o>) -> Shared<'o> {
        let now = Instant::now();
        Shared {
            options,
            watch,
            begun: now,
            stop: AtomicBool::new(false),
            end: Mutex::new(None),
            watched: Mutex::new(now),
            states: AtomicU64::new(0),
            transitions: AtomicU64::new(0),
            expanded: AtomicU64::new(0),
            level: AtomicU64::new(0),
            level_size: AtomicU64::new(0),
        }
    }

    /// Ends the search. The first end counts.
    fn end(&self, end: Result<End, Failure>) {
        let end = match end {
            Err(Failure::Limit(limit)) => Ok(End::Limit(limit)),
            end => end,
        };
        lock(&self.end).get_or_insert(end);
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn progress(&self, bytes: u64) -> Progress {
        Progress {
            states: self.states.load(Ordering::Relaxed),
            transitions: self.transitions.load(Ordering::Relaxed),
            frontier: self.level_size.load(Ordering::Relaxed).saturating_sub(self.expanded.load(Ordering::Relaxed)),
            depth: self.level.load(Ordering::Relaxed) as u32,
            bytes,
            executions: 0,
            elapsed: self.begun.elapsed(),
        }
    }

    /// The number of threads that search.
    pub(super) fn threads(&self) -> usize {
        self.options.threads.max(1)
    }

    /// Counts new states and transitions.
    pub(super) fn count(&self, new: u64, transitions: u64) {
        self.transitions.fetch_add(transitions, Ordering::Relaxed);
        let states = self.states.fetch_add(new, Ordering::Relaxed) + new;
        if self.options.max_states.is_some_and(|most| states >= most) {
            self.end(Ok(End::Limit(Limit::States)));
        }
    }

    /// Records the length of a path.
    pub(super) fn deepest(&self, steps: usize) {
        self.level.fetch_max(steps as u64, Ordering::Relaxed);
    }

    /// Ends the search without a reason.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether the search has ended.
    pub(super) fn has_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns whether the search may continue. `bytes` returns its use of memory.
    pub(super) fn goes_on(&self, bytes: &dyn Fn() -> u64) -> bool {
        self.tick(bytes);
        !self.has_stopped()
    }

    /// Takes the limit that has ended the search, if any.
    pub(super) fn limit_reached(&self) -> Option<Limit> {
        match lock(&self.end).take() {
            Some(Ok(End::Limit(limit))) => Some(limit),
            _ => None,
        }
    }

    /// Checks the limits and reports the progress, once per [`TICK`].
    fn tick(&self, bytes: &dyn Fn() -> u64) {
        let Ok(mut watched) = self.watched.try_lock() else { return };
        // Another thread may have ended the search since this one was last scheduled.
        if watched.elapsed() < TICK || self.has_stopped() {
            return;
        }
        let progress = self.progress(bytes());
        if let Some(limit) = self.limit(&progress) {
            self.end(Ok(End::Limit(limit)));
        }
        *watched = Instant::now();
    }

    fn limit(&self, progress: &Progress) -> Option<Limit> {
        if !(self.watch)(progress) {
            Some(Limit::Interrupted)
        } else if progress.bytes > self.options.max_bytes {
            Some(Limit::Memory)
        } else if self.options.max_time.is_some_and(|most| progress.elapsed > most) {
            Some(Limit::Time)
        } else {
            None
        }
    }
}

/// The part of the memory of a search that its transitions may take.
const OF_MEMORY: u64 = 4;

/// Visits every state, and adds it to `store`. Returns all transitions, if there is memory for them.
pub(super) fn search(
    space: &Space,
    store: &Store,
    shared: &Shared<'_>,
) -> Result<(End, Sometimes, Option<Transitions>), Failure> {
    let threads = shared.threads();
    let recorder = Recorder::new(if space.bound.is_none() { shared.options.max_bytes / OF_MEMORY } else { 0 });
    let worker = |_| Worker { walker: Walker::new(space), recorded: Recorded::default() };
    let mut workers: Vec<Worker<'_>> = (0..threads).map(worker).collect();
    let start = workers[0].walker.start()?;
    let mut bytes = Vec::new();
    workers[0].walker.encode(&start, &mut bytes)?;
    store.add(&bytes, NOWHERE);
    shared.count(1, 0);
    let mut begins = vec![0; SHARDS];
    loop {
        let ends = store.lens();
        let mut units = Vec::new();
        for shard in 0..SHARDS {
            let mut begin = begins[shard];
            while begin < ends[shard] {
                let end = ends[shard].min(begin + UNIT);
                units.push((shard, begin, end));
                begin = end;
            }
        }
        if units.is_empty() {
            break;
        }
        let size: u64 = units.iter().map(|(_, begin, end)| u64::from(end - begin)).sum();
        shared.level_size.store(size, Ordering::Relaxed);
        shared.expanded.store(0, Ordering::Relaxed);
        let taken = AtomicUsize::new(0);
        // Starting a thread costs as much as expanding some hundred states.
        if threads == 1 || size < 4 * u64::from(UNIT) {
            expand(&mut workers[0], store, shared, &recorder, &units, &taken);
        } else {
            std::thread::scope(|scope| {
                let (recorder, units, taken) = (&recorder, &units, &taken);
                let (own, others) = workers.split_first_mut().expect("there is a worker for each thread");
                // If the system refuses a thread, this thread does its work.
                for worker in others {
                    let work = move || expand(worker, store, shared, recorder, units, taken);
                    let _ = std::thread::Builder::new().spawn_scoped(scope, work);
                }
                expand(own, store, shared, recorder, units, taken);
            });
        }
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        shared.level.fetch_add(1, Ordering::Relaxed);
        begins = ends;
    }
    let mut sometimes = Sometimes::default();
    for worker in &workers {
        sometimes.merge(worker.walker.sometimes);
    }
    let end = lock(&shared.end).take().unwrap_or(Ok(End::Complete))?;
    let recorded = workers.into_iter().map(|worker| worker.recorded).collect();
    let transitions = if let End::Complete = end { recorder.finish(store, recorded) } else { None };
    Ok((end, sometimes, transitions))
}

/// One thread of a search.
struct Worker<'s> {
    walker: Walker<'s>,
    recorded: Recorded,
}

/// Expands the states of one level that no other thread has taken.
fn expand(
    worker: &mut Worker<'_>,
    store: &Store,
    shared: &Shared<'_>,
    recorder: &Recorder,
    units: &[(usize, u32, u32)],
    taken: &AtomicUsize,
) {
    let Worker { walker, recorded } = worker;
    let mut state = walker.space.blank();
    let (mut copied, mut ends, mut bytes, mut choices) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut moves = Vec::new();
    while let Some(&(shard, begin, end)) = units.get(taken.fetch_add(1, Ordering::Relaxed)) {
        store.copy(shard, begin..end, &mut copied, &mut ends);
        let (mut at, mut transitions, mut new) = (0, 0, 0);
        for (index, &upto) in (begin..).zip(&ends) {
            let id = Store::id(shard, index);
            walker.decode(&copied[at..upto], &mut state);
            at = upto;
            walker.choices(&state, &mut choices);
            if choices.iter().all(|choice| choice.is_optional(|_| true))
                && walker.is_end(&state)
                && let Some(violation) = walker.end(&state)
            {
                shared.end(Ok(End::Violation(id, None, violation)));
            }
            moves.clear();
            for &choice in &choices {
                transitions += 1;
                match walker.step(&state, choice) {
                    Ok(None) => {}
                    Ok(Some(violation)) => shared.end(Ok(End::Violation(id, Some(choice), violation))),
                    Err(failure) => shared.end(Err(failure)),
                }
                let by = match walker.encode_next(&mut bytes) {
                    Ok(by) => by,
                    Err(failure) => return shared.end(Err(failure)),
                };
                let to = match store.add(&bytes, id) {
                    Added::New(to) => {
                        new += 1;
                        to
                    }
                    Added::Known(to) => to,
                    Added::Full => return shared.end(Ok(End::Limit(Limit::Memory))),
                };
                moves.push(Move { choice, enters: walker.entered, to, by });
            }
            recorded.add(recorder, id, &moves);
            if shared.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        shared.count(new, transitions);
        shared.expanded.fetch_add(u64::from(end - begin), Ordering::Relaxed);
        if !shared.goes_on(&|| store.memory() + walker.space.memory() + recorder.memory()) {
            return;
        }
    }
}
