//! The common part of loom and shuttle, which run the ranks as threads of a model checker.
//!
//! In both engines, one thread runs at a time, from one call to the next. An observer beside the model checker's memory
//! sees all calls in the order of their execution. It keeps the progress of each rank, and the values of the words in a
//! sequentially consistent memory. The properties depend only on that. The order of the calls is the schedule of a
//! counterexample. [`replay`](crate::replay) follows that schedule call by call, whichever engine found it.
//!
//! # Waiting
//! A wait is enabled once its comparison holds, as in the explorer. A pause ends a failed poll, which would fail again
//! if the words were unchanged. So the rank continues only after another rank has changed a word that this poll used.
//! There is one exception: the poll itself may count the rank in and out again, so that a word has its old value back.
//! Then any call of another rank also lets it continue, because that rank may see the poll's temporary value at another
//! moment. `polls` bounds how often. If no rank can continue, that is a deadlock, or a livelock if one of the ranks
//! polls. Two changes to a new value each, such as two announcements ahead of the first poll, are no such poll. If they
//! were, a rank could repeat a poll that must fail. That adds behaviours under shuttle only: loom does not branch on
//! calls to unrelated words.
//!
//! # Store buffers
//! If the engine asks for it, the memory has store buffers. A put of a word then waits in its rank's buffer until the
//! engine delivers it, in order. The rank itself reads its own buffered puts.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_atomics::{Address, Rank};

use crate::check::Check;
use crate::counterexample::Choice;
use crate::live::Slots;
use crate::network::{Change, Issued, Memory, Network};
use crate::outcome::{Finding, Limit, Outcome, Progress, TOGETHER, WAITED, Watch};
use crate::panics::{Exit, lock, panicked, quietly, text_of};
use crate::play::Event;
use crate::status::{Phase, Status};
use crate::{Counterexample, Error, Form, Property, Result, Violation};

/// One rank, as the observer sees it.
#[derive(Debug, Default)]
struct Watched {
    status: Status,
    /// Its next call, or the one that it waits in.
    call: Option<Call>,
    finished: bool,
    /// The words used since its last pause.
    round: Vec<Used>,
    /// True if it has changed a word and changed it back since its last pause.
    passing: bool,
    /// The number of calls carried out before it began to pause.
    paused: usize,
    /// The number of pauses in this acquisition that followed such writes.
    polls: u32,
    /// The number of pauses in this acquisition that ended only since no rank could continue.
    retries: u32,
    /// A hash of its calls and their answers, without pauses.
    behaviour: DefaultHasher,
}

/// A word that a rank has used since its last pause.
#[derive(Clone, Debug)]
struct Used {
    slot: u16,
    /// The version of the word, unless another rank has changed it since this rank first used it.
    version: u64,
    /// The values that this rank has replaced.
    replaced: Vec<u64>,
}

#[derive(Debug, Default)]
struct State {
    ranks: Vec<Watched>,
    memory: Memory,
    slots: Slots,
    /// The number of changes of each word, by slot.
    versions: Vec<u64>,
    schedule: Vec<Choice>,
    /// The steps of the schedule, counted from 0, that posted a put to a store buffer.
    posting: Vec<usize>,
    /// True if a rank has made another call while its own put was in its store buffer.
    late: bool,
    violation: Option<Violation>,
    unsound: Option<String>,
    cut: bool,
    waited: bool,
    together: bool,
}

/// The observer of one execution.
#[derive(Debug)]
pub(crate) struct Observer {
    check: Arc<Check>,
    /// The number of polls by writes that a rank may make in one acquisition.
    polls: Option<u32>,
    /// The number of times that a paused rank may poll again in one acquisition once no rank can continue.
    retries: u32,
    /// Decides when a put of a word takes effect.
    network: Network,
    state: Mutex<State>,
}

impl Observer {
    /// An observer of `check`. On [`Network::LatePuts`] it has store buffers, whose puts take effect when the engine
    /// calls [`arrives`](Self::arrives).
    pub(crate) fn new(check: &Arc<Check>, polls: Option<u32>, retries: u32, network: Network) -> Observer {
        let ranks = check.active() as usize;
        Observer {
            check: Arc::clone(check),
            polls,
            retries,
            network,
            state: Mutex::new(State {
                ranks: (0..ranks).map(|_| Watched::default()).collect(),
                memory: Memory::new(ranks),
                ..State::default()
            }),
        }
    }

    /// The oldest put in the store buffer of `rank`: its word and value.
    pub(crate) fn oldest_put(&self, rank: Rank) -> Option<(Address, u64)> {
        let state = lock(&self.state);
        let post = state.memory.posts[rank.index()].first()?;
        match post.change {
            Change::Put { value, .. } | Change::Store { value, .. } => Some((state.slots.address(post.slot), value)),
            Change::Start { .. } => None,
        }
    }

    /// The value of the newest put to `at` in the store buffer of `rank`. `rank` reads this value.
    pub(crate) fn buffered(&self, rank: Rank, at: Address) -> Option<u64> {
        let state = lock(&self.state);
        state.buffered(rank, state.slots.find(at)?)
    }

    /// Delivers the oldest put in the store buffer of `rank`.
    pub(crate) fn arrives(&self, rank: Rank) {
        let mut state = lock(&self.state);
        let slot = state.memory.posts[rank.index()][0].slot;
        let before = state.memory.word(slot);
        state.memory.arrive(rank.index(), 0);
        state.schedule.push(Choice::Arrive { from: rank, index: 0 });
        state.uses(rank, slot, before);
    }

    /// Records that `rank` is about to make `call`, or waits in it.
    pub(crate) fn issues(&self, rank: Rank, call: Call) {
        let mut state = lock(&self.state);
        let steps = state.schedule.len();
        let watched = &mut state.ranks[rank.index()];
        watched.call = Some(call);
        if let Call::Pause { .. } = call {
            watched.polls += u32::from(watched.passing);
            watched.paused = steps;
            let cut = self.polls.is_some_and(|most| watched.polls > most);
            state.cut |= cut;
            state.waited = true;
        } else {
            state.waited |= !state.enabled(rank);
        }
        self.settle(&mut state);
    }

    /// Returns whether the call that `rank` has issued is enabled.
    pub(crate) fn ready(&self, rank: Rank) -> bool {
        lock(&self.state).ready(rank, self.retries)
    }

    /// The number of changes of the word that the issued call of `rank` is about.
    pub(crate) fn awaited_version(&self, rank: Rank) -> u64 {
        let state = lock(&self.state);
        let address = state.ranks[rank.index()].call.and_then(|call| call.address(rank));
        address.and_then(|address| state.slots.find(address)).map_or(0, |slot| state.version(slot))
    }

    /// Records that the engine has carried out the call by `rank` with this answer. `consistent` states that the
    /// engine's memory is sequentially consistent, so that exactly one answer is right.
    pub(crate) fn answered(&self, rank: Rank, call: Call, answer: Answer, consistent: bool) {
        let expected = self.carry_out(rank, call);
        if consistent && expected != answer {
            let text = format!("{call} by {rank} returned {answer:?}, but a consistent memory returns {expected:?}");
            lock(&self.state).unsound.get_or_insert(text);
        }
    }

    /// Carries out the call of `rank` on the observer's own words, and returns the answer.
    pub(crate) fn carry_out(&self, rank: Rank, call: Call) -> Answer {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let issued = Issued::new(self.network, rank, call, |address| state.slots.of(address));
        let before = state.memory.word(issued.slot);
        let retried = !state.enabled(rank);
        let posts = self.network.is_late(&call);
        state.late |= !posts && !state.memory.posts[rank.index()].is_empty();
        let buffered = match call {
            Call::Get { .. } | Call::Load { .. } | Call::BulkGet { .. } | Call::WaitUntil { .. } => {
                state.buffered(rank, issued.slot)
            }
            _ => None,
        };
        let answer = state.memory.carry_out(self.network, rank.index(), &issued);
        let answer = answer.expect("this memory carries out every call in one step");
        if let Call::Start { .. } = call
            && posts
        {
            // These engines carry out a started operation at its start, after the puts in the store buffer.
            state.posting.push(state.schedule.len());
            state.schedule.push(Choice::Step(rank));
            let index = state.memory.posts[rank.index()].len() - 1;
            state.memory.arrive(rank.index(), index);
            state.schedule.push(Choice::Arrive { from: rank, index: index as u16 });
        } else {
            if posts {
                state.posting.push(state.schedule.len());
            }
            state.schedule.push(Choice::Step(rank));
        }
        let answer = buffered.map_or(answer, Answer::Word);
        let watched = &mut state.ranks[rank.index()];
        watched.call = None;
        watched.status.answered();
        if !matches!(call, Call::Pause { .. }) {
            (call, answer).hash(&mut watched.behaviour);
        }
        if let Call::Pause { .. } = call {
            watched.round.clear();
            watched.passing = false;
            watched.retries += u32::from(retried);
        } else if call.address(rank).is_some() {
            state.uses(rank, issued.slot, before);
        }
        answer
    }

    /// Records `event` of `rank`.
    pub(crate) fn event(&self, rank: Rank, event: Event) {
        let mut state = lock(&self.state);
        let watched = &mut state.ranks[rank.index()];
        watched.status.record(event);
        if let Event::Entered | Event::GaveUp { .. } | Event::Left = event {
            (watched.polls, watched.retries) = (0, 0);
            watched.round.clear();
            watched.passing = false;
        }
        let statuses = state.statuses();
        state.together |= statuses.iter().filter(|status| status.phase == Phase::Inside).count() > 1;
        if let Some(violation) = self.check.breaks(rank, event, &statuses) {
            state.violation.get_or_insert(violation);
        }
    }

    /// Runs the code of `rank`, `play`, to its end or until the rank takes its `exit`.
    pub(crate) fn plays(&self, rank: Rank, exit: &Exit, play: impl FnOnce() -> Result<()>) {
        let ended = quietly(play);
        // When the execution is over, the stack of an unfinished rank is unwound.
        exit.leave();
        let wrong = match ended {
            Ok(result) => result.err().map(|error| error.breaks()),
            Err(caught) => Some(panicked(&caught.text)),
        };
        self.ended(rank, wrong);
    }

    /// Records that the code of `rank` has ended, and the violation if it ended wrongly.
    fn ended(&self, rank: Rank, wrong: Option<(Property, String)>) {
        let mut state = lock(&self.state);
        let watched = &mut state.ranks[rank.index()];
        watched.finished = true;
        watched.call = None;
        let acquisition = Some(watched.status.acquisition);
        match wrong {
            Some((property, seen)) => {
                state.violation.get_or_insert(Violation { property, rank, acquisition, seen });
            }
            None => self.settle(&mut state),
        }
    }

    /// Records a violation that the engine itself has found at the last step of `rank`.
    pub(crate) fn broken(&self, rank: Rank, property: Property, seen: String) {
        let mut state = lock(&self.state);
        let acquisition = Some(state.ranks[rank.index()].status.acquisition);
        state.violation.get_or_insert(Violation { property, rank, acquisition, seen });
    }

    /// Checks the final state if no step is possible any more.
    fn settle(&self, state: &mut State) {
        let over =
            (0..).zip(&state.ranks).all(|(rank, watched)| watched.finished || !state.ready(Rank(rank), self.retries));
        if !over || state.violation.is_some() {
            return;
        }
        let waits: Vec<Option<Call>> = state.ranks.iter().map(|watched| watched.call).collect();
        let words: Vec<_> =
            (0..state.slots.len() as u16).map(|slot| (state.slots.address(slot), state.memory.word(slot))).collect();
        state.violation = self.check.end(&state.statuses(), &waits, 0, words);
        if let Some(violation) = &mut state.violation
            && waits.iter().any(|call| matches!(call, Some(Call::Pause { .. })))
        {
            violation.property = Property::NoLivelock;
        }
    }

    /// Returns whether a violation has ended the execution.
    pub(crate) fn stopped(&self) -> bool {
        let state = lock(&self.state);
        state.violation.is_some() || state.unsound.is_some()
    }

    /// Returns whether every rank has ended.
    pub(crate) fn finished(&self) -> bool {
        lock(&self.state).ranks.iter().all(|watched| watched.finished)
    }

    /// The current value of the word at `address`.
    pub(crate) fn word(&self, address: Address) -> u64 {
        let state = lock(&self.state);
        state.slots.find(address).map_or(0, |slot| state.memory.word(slot))
    }

    /// Returns whether a rank has polled more often than `polls` allows.
    pub(crate) fn cut(&self) -> bool {
        lock(&self.state).cut
    }
}

impl State {
    fn statuses(&self) -> Vec<Status> {
        self.ranks.iter().map(|watched| watched.status).collect()
    }

    /// Records that `rank` has used the word in `slot`, which had the value `before`.
    fn uses(&mut self, rank: Rank, slot: u16, before: u64) {
        let (index, word) = (usize::from(slot), self.memory.word(slot));
        if index >= self.versions.len() {
            self.versions.resize(index + 1, 0);
        }
        let changed = word != before;
        self.versions[index] += u64::from(changed);
        let version = self.versions[index];
        let watched = &mut self.ranks[rank.index()];
        let used = match watched.round.iter().position(|used| used.slot == slot) {
            Some(known) => {
                let used = &mut watched.round[known];
                used.version += u64::from(changed);
                used
            }
            None => {
                watched.round.push(Used { slot, version, replaced: Vec::new() });
                watched.round.last_mut().expect("it was added above")
            }
        };
        if changed {
            watched.passing |= used.replaced.contains(&word);
            used.replaced.push(before);
        }
    }

    fn buffered(&self, rank: Rank, slot: u16) -> Option<u64> {
        self.memory.posts[rank.index()].iter().rev().find_map(|post| match post.change {
            Change::Put { value, .. } | Change::Store { value, .. } if post.slot == slot => Some(value),
            _ => None,
        })
    }

    /// The schedule for a replay, and its network.
    ///
    /// A put that takes effect before its rank's next call could also have taken effect at once. Such a schedule
    /// belongs to a consistent memory. Any other schedule needs a network of late puts.
    fn replayable(&self) -> (Network, Vec<Choice>) {
        if self.late {
            return (Network::LatePuts, self.schedule.clone());
        }
        let taken = |(step, choice): (usize, &Choice)| match *choice {
            Choice::Arrive { from, .. } => Some(Choice::Step(from)),
            Choice::Step(_)
            | Choice::Deadline(_)
            | Choice::Crash(_)
            | Choice::CrashAmid(_)
            | Choice::Restart(_)
            | Choice::Lapse(_)
            | Choice::Notice { .. } => self.posting.binary_search(&step).is_err().then_some(*choice),
        };
        let mut schedule: Vec<Choice> = self.schedule.iter().enumerate().filter_map(taken).collect();
        for (rank, posts) in (0..).map(Rank).zip(&self.memory.posts) {
            schedule.extend(posts.iter().map(|_| Choice::Step(rank)));
        }
        (Network::Sc, schedule)
    }

    fn version(&self, slot: u16) -> u64 {
        self.versions.get(usize::from(slot)).copied().unwrap_or(0)
    }

    /// Returns whether `rank` can continue.
    ///
    /// A paused rank may wait for something else than the words that it used since its last pause: for a word that it
    /// read earlier, or for a number of rounds. So once no rank can continue, paused ranks poll again, at most `retries`
    /// times in an acquisition.
    fn ready(&self, rank: Rank, retries: u32) -> bool {
        let watched = &self.ranks[rank.index()];
        let may_retry = watched.retries < retries && matches!(watched.call, Some(Call::Pause { .. }));
        let stuck = || (0..).zip(&self.ranks).all(|(other, watched)| watched.finished || !self.enabled(Rank(other)));
        self.enabled(rank) || may_retry && stuck()
    }

    /// Returns whether `rank` can continue, where a paused rank can if a word has changed that it used since its last
    /// pause.
    fn enabled(&self, rank: Rank) -> bool {
        let watched = &self.ranks[rank.index()];
        match watched.call {
            Some(Call::Pause { .. }) => {
                let changed = |used: &Used| self.version(used.slot) != used.version;
                let others_moved = self.schedule.len() > watched.paused;
                watched.round.is_empty() || watched.round.iter().any(changed) || watched.passing && others_moved
            }
            Some(Call::WaitUntil { own, until, .. }) => {
                until.holds(self.slots.find(rank.at(own)).map_or(0, |slot| self.memory.word(slot)))
            }
            Some(Call::FenceEverywhere) => self.memory.posts.iter().all(Vec::is_empty),
            _ => true,
        }
    }
}

/// One run of an engine, shared by its threads.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) check: Arc<Check>,
    start: Instant,
    results: Mutex<Results>,
}

/// The results of all executions so far.
#[derive(Debug, Default)]
struct Results {
    executions: u64,
    cut: u64,
    waited: bool,
    together: bool,
    behaviours: HashSet<u64>,
    limit: Option<Limit>,
    found: Option<Counterexample>,
    unsound: Option<String>,
}

impl Results {
    fn over(&self) -> bool {
        self.limit.is_some() || self.found.is_some() || self.unsound.is_some()
    }
}

impl Run {
    /// Creates a run.
    ///
    /// # Errors
    ///
    /// The errors of [`Check::validate`], and [`Error::Unsupported`] for any network except [`Network::Sc`], for
    /// deadlines, for acquisitions without end and for failures of ranks.
    pub(crate) fn new(engine: &'static str, check: &Check) -> Result<Arc<Run>> {
        check.validate()?;
        if check.network != Network::Sc {
            let why = format!("this engine supports only the network sc, not {}; use the explorer", check.network);
            return Err(Error::Unsupported { engine, why });
        }
        if check.scenario.is_endless() {
            let why = format!("an execution has an end, but {} has none; use the explorer", check.scenario);
            return Err(Error::Unsupported { engine, why });
        }
        if check.scenario.has(Form::Timed) {
            let why =
                format!("time stands still in this engine, but {} has deadlines; use the explorer", check.scenario);
            return Err(Error::Unsupported { engine, why });
        }
        if check.scenario.lapses() > 0 {
            let why =
                format!("time stands still in this engine, but it passes in {}; use the explorer", check.scenario);
            return Err(Error::Unsupported { engine, why });
        }
        if check.scenario.crashes() + check.scenario.restarts() > 0 {
            let why = format!("no rank fails in this engine, but {} has failures; use the explorer", check.scenario);
            return Err(Error::Unsupported { engine, why });
        }
        Ok(Arc::new(Run { check: Arc::new(check.clone()), start: Instant::now(), results: Mutex::default() }))
    }

    pub(crate) fn progress(&self) -> Progress {
        let executions = lock(&self.results).executions;
        Progress { executions, elapsed: self.start.elapsed(), ..Progress::default() }
    }

    /// Counts a new execution, and returns whether the limits allow it.
    pub(crate) fn begins(&self, most: Option<u64>) -> bool {
        let mut results = lock(&self.results);
        if most.is_some_and(|most| results.executions >= most) {
            results.limit.get_or_insert(Limit::Executions);
        }
        let begins = !results.over();
        results.executions += u64::from(begins);
        begins
    }

    /// Adds an execution to the results. The first of several counterexamples counts.
    pub(crate) fn ends(&self, observer: &Observer, cut: bool) {
        let state = lock(&observer.state);
        let mut results = lock(&self.results);
        results.waited |= state.waited;
        results.together |= state.together;
        results.cut += u64::from(cut || state.cut);
        let mut behaviour = DefaultHasher::new();
        for watched in &state.ranks {
            behaviour.write_u64(watched.behaviour.finish());
        }
        results.behaviours.insert(behaviour.finish());
        if let Some(text) = &state.unsound {
            results.unsound.get_or_insert_with(|| text.clone());
        }
        if let Some(violation) = state.violation.clone() {
            let (network, schedule) = state.replayable();
            let check = Check { network, ..Check::clone(&self.check) };
            results.found.get_or_insert(Counterexample::new(&check, violation, schedule, None));
        }
    }

    pub(crate) fn reaches(&self, limit: Limit) {
        lock(&self.results).limit.get_or_insert(limit);
    }

    /// Returns whether the run makes no more executions.
    pub(crate) fn over(&self) -> bool {
        lock(&self.results).over()
    }

    /// Discards all results, and starts again.
    pub(crate) fn again(&self) {
        let mut results = lock(&self.results);
        (results.executions, results.cut) = (0, 0);
        results.behaviours.clear();
    }

    /// Runs `model` on a thread of its own, and reports its progress to `watch`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsound`] when the model checker itself failed, and the errors of `model`.
    pub(crate) fn conduct(
        &self,
        max_time: Option<Duration>,
        bounded: bool,
        watch: Watch<'_>,
        model: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<Outcome> {
        let (ends, ended) = channel();
        let thread = std::thread::Builder::new().spawn(move || {
            let result = quietly(model);
            // The receiver is gone only if the caller panicked.
            let _ = ends.send(());
            result
        });
        let thread =
            thread.map_err(|error| Error::Unsound(format!("the system refused a thread for the engine: {error}")))?;
        loop {
            match ended.recv_timeout(PERIOD) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if max_time.is_some_and(|most| self.start.elapsed() >= most) {
                self.reaches(Limit::Time);
            }
            if !watch(&self.progress()) {
                self.reaches(Limit::Interrupted);
            }
        }
        let unsound = |text: String| Error::Unsound(text);
        match thread.join() {
            Ok(Ok(result)) => result?,
            Ok(Err(panicked)) => return Err(unsound(format!("the model checker failed: {}", panicked.text))),
            Err(payload) => return Err(unsound(format!("the model checker failed: {}", text_of(&*payload)))),
        }
        let progress = self.progress();
        let mut results = lock(&self.results);
        if let Some(text) = results.unsound.take() {
            return Err(unsound(text));
        }
        let finding = match (results.found.take(), results.limit) {
            (Some(counterexample), _) => Finding::Violated(counterexample),
            (None, Some(limit)) => Finding::Incomplete(limit),
            (None, None) => Finding::Holds,
        };
        let (cut, behaviours) = (results.cut, results.behaviours.len() as u64);
        let bounded = bounded || cut > 0;
        let sometimes = vec![(WAITED, results.waited), (TOGETHER, results.together)];
        Ok(Outcome { bounded, cut, behaviours, ..Outcome::new(finding, progress, sometimes) })
    }
}

/// The time between two reports of progress.
const PERIOD: Duration = Duration::from_millis(50);
