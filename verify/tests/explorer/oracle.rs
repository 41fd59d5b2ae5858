//! The oracle: all schedules, without any reduction.
//!
//! Its state is the memory and, for each rank, the complete history of answers. It merges only equal histories: it
//! knows no phases, no rounds of polling loops and no interchangeable ranks, and each call is a step. It runs the
//! locks' code by [`Actor`]. It shares only the network's semantics and the properties with the explorer.
//!
//! Histories of polling loops have no end, so the oracle stops ranks after a number of pauses.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_atomics::coroutine::Turn;
use rmalab_atomics::{Rank, Time};
use rmalab_verify::explorer::Options;
use rmalab_verify::network::{Issued, Memory};
use rmalab_verify::play::{Event, Section};
use rmalab_verify::{
    Actor, Check, Form, Livelocks, Network, Phase, Property, Slots, Status, Subject, Workload, deadline, subject,
    subjects,
};

use crate::protocols::{Bakery, GetThenPut, Handover, LateWaiter, OneBit, Peterson, lock};
use crate::{check, counterexample, is_silent, plain, replayed, run, verdict};

/// A rank's complete history.
struct History {
    /// The parent and the last answer.
    before: Option<(usize, Answer)>,
    /// The events since the last answer.
    events: Vec<Event>,
    /// The reason why the code ended too early.
    broken: bool,
    call: Option<(Call, Issued)>,
    status: Status,
    pauses: usize,
    /// The explorer's equivalence class of it. `None` if the next step is silent for the explorer.
    merged: Option<usize>,
    /// The last history on the path with a class, its answer, and the last event since then with the handle.
    since: (usize, Answer, Option<(Event, String)>),
}

/// The identity of a local state at a boundary, where only a handle is left of the past: the answers since the last
/// boundary.
#[derive(PartialEq, Eq, Hash)]
enum Merged {
    Start(Rank),
    Boundary(Rank, u32, Event, String, Option<Call>),
    Answered(usize, Answer),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    histories: Vec<usize>,
    memory: Memory,
    /// The rank that has had the lock to itself since its acquisition began.
    alone: Option<Rank>,
}

/// The oracle.
pub(crate) struct Oracle {
    check: Arc<Check>,
    slots: Slots,
    histories: Vec<History>,
    next: HashMap<(usize, Answer), usize>,
    merged: HashMap<Merged, usize>,
    pauses: usize,
}

/// The oracle's result.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The properties broken with the fewest steps, and that number of steps.
    pub(crate) broken: BTreeSet<Property>,
    pub(crate) steps: usize,
    /// All visited histories, with their memories.
    pub(crate) states: usize,
    /// The numbers of states and transitions that the explorer should have, if no rank polls.
    pub(crate) merged: (u64, u64),
    /// True if the oracle stopped some rank.
    pub(crate) held_back: bool,
    /// The final words.
    pub(crate) ends: BTreeSet<Vec<u64>>,
}

impl Oracle {
    /// An oracle for `check`, in which ranks pause at most `pauses` times.
    pub(crate) fn new(check: &Check, pauses: usize) -> Oracle {
        Oracle {
            check: Arc::new(check.clone()),
            slots: Slots::default(),
            histories: Vec::new(),
            next: HashMap::new(),
            merged: HashMap::new(),
            pauses,
        }
    }

    /// Runs `rank` from its beginning through the answers on the path, and adds the resulting history.
    fn add(&mut self, rank: Rank, before: Option<(usize, Answer)>) -> usize {
        let mut answers = Vec::new();
        let mut at = before;
        while let Some((history, answer)) = at {
            answers.push(answer);
            at = self.histories[history].before;
        }
        let mut actor = Actor::new(&self.check, rank).unwrap();
        let mut moved = actor.resume(Answer::Done);
        for &answer in answers.iter().rev() {
            moved = actor.resume(answer);
        }
        let handle = actor.handle().to_owned();
        actor.stop();
        let (call, broken) = match moved.turn {
            Turn::Calls(call) => (Some(call), false),
            Turn::Finished(Ok(())) => (None, false),
            Turn::Finished(Err(_)) | Turn::Panicked(_) => (None, true),
        };
        let network = self.check.network;
        let call = call.map(|call| (call, Issued::new(network, rank, call, |at| self.slots.of(at))));
        let (mut status, mut pauses, mut since) = (Status::default(), 0, None);
        if let Some((parent, answer)) = before {
            let parent_is = &self.histories[parent];
            status = parent_is.status;
            status.answered();
            let paused = matches!(parent_is.call, Some((Call::Pause { .. }, _)));
            pauses = parent_is.pauses + usize::from(paused);
            since = Some(match parent_is.merged {
                Some(merged) => (merged, answer, None),
                None => parent_is.since.clone(),
            });
        }
        for &event in &moved.events {
            status.record(event);
        }
        let last = moved.events.iter().rev().find(|event| !matches!(event, Event::Saw { .. }));
        let mut since = since.unwrap_or((usize::MAX, Answer::Done, None));
        if let Some(&event) = last {
            since.2 = Some((event, handle));
        }
        let mut merged = None;
        if call.is_none_or(|(call, _)| !is_silent(&self.check, rank, call)) {
            let key = match &since {
                (usize::MAX, ..) => Merged::Start(rank),
                (_, _, Some((event, handle))) => Merged::Boundary(
                    rank,
                    status.acquisition,
                    // Only its handle distinguishes a rank that left from a rank that gave up.
                    if matches!(event, Event::GaveUp { .. }) { Event::Left } else { *event },
                    handle.clone(),
                    call.map(|(call, _)| call),
                ),
                (parent, answer, None) => Merged::Answered(*parent, *answer),
            };
            let new = self.merged.len();
            merged = Some(*self.merged.entry(key).or_insert(new));
        }
        self.histories.push(History { before, events: moved.events, broken, call, status, pauses, merged, since });
        self.histories.len() - 1
    }

    fn ready(&self, state: &State, rank: usize) -> bool {
        self.histories[state.histories[rank]].call.is_some_and(|(_, issued)| state.memory.ready(rank, &issued))
    }

    /// Returns whether `rank`, which begins an acquisition, has the lock to itself.
    fn is_alone(&self, state: &State, rank: Rank) -> bool {
        let is_outside = |history: &usize| self.histories[*history].status.phase == Phase::Outside;
        let mut others = state.histories.iter().enumerate().filter(|&(other, _)| other != rank.index());
        others.all(|(_, history)| is_outside(history)) && state.memory.is_quiet()
    }

    /// Returns whether it is too early for `rank` to give up, at the time before its clock goes on.
    fn is_early(&self, state: &State, rank: Rank, acquisition: u32, now: Time) -> bool {
        let alone = state.alone == Some(rank);
        match self.check.scenario.form(rank) {
            Form::Timed if now < deadline(acquisition) => true,
            Form::Timed => alone && self.check.subject.is_window(),
            _ => alone,
        }
    }

    /// The properties that the rank's last answer breaks; `before` is its clock at that time.
    fn judge(&self, state: &State, rank: Rank, before: Time) -> Option<Property> {
        let history = &self.histories[state.histories[rank.index()]];
        let mut statuses: Vec<Status> = state.histories.iter().map(|&history| self.histories[history].status).collect();
        if let Some((before, _)) = history.before {
            statuses[rank.index()] = self.histories[before].status;
            statuses[rank.index()].answered();
        }
        for &event in &history.events {
            let acquisition = statuses[rank.index()].acquisition;
            statuses[rank.index()].record(event);
            if matches!(event, Event::GaveUp { .. }) && self.is_early(state, rank, acquisition, before) {
                return Some(Property::NoEarlyFailure);
            }
            let broken = match event {
                Event::Entered => self.check.exclusion(rank, &statuses),
                Event::Saw { target, writes } => self.check.visibility(rank, &statuses, target, writes),
                _ => None,
            };
            if let Some(broken) = broken {
                return Some(broken.property);
            }
        }
        history.broken.then_some(Property::Invariant)
    }

    /// Lets the clock of `rank` go on to the start of its acquisition, and returns whether its deadline may pass.
    fn times(&self, state: &mut State, rank: Rank) -> bool {
        let history = &self.histories[state.histories[rank.index()]];
        let acquisition = history.status.acquisition;
        if !self.check.is_timed(rank) {
            return false;
        }
        if let Some(last) = acquisition.checked_sub(1) {
            state.memory.pass(rank.index(), deadline(last));
        }
        history.call.is_some() && state.memory.clocks[rank.index()] < deadline(acquisition)
    }

    /// Visits all states by their distance, up to the first that break a property.
    pub(crate) fn search(mut self) -> Found {
        let ranks = self.check.active();
        let start = State {
            histories: (0..ranks).map(|rank| self.add(Rank(rank), None)).collect(),
            memory: Memory::new(ranks as usize),
            alone: None,
        };
        let mut found = Found { steps: usize::MAX, ..Found::default() };
        for rank in (0..ranks).map(Rank) {
            if let Some(property) = self.judge(&start, rank, Time(0)) {
                found.break_at(0, property);
            }
        }
        let mut best = HashMap::from([(start.clone(), 0)]);
        let mut open = VecDeque::from([(0, start)]);
        let mut merged_states = HashMap::new();
        while let Some((steps, state)) = open.pop_front() {
            if best[&state] < steps || steps > found.steps {
                continue;
            }
            let mut next = Vec::new();
            let (mut choices, mut deadlines) = (0, 0);
            let mut ended = true;
            for rank in 0..ranks as usize {
                for index in (0..state.memory.posts[rank].len()).filter(|&i| state.memory.may_arrive(rank, i)) {
                    let mut after = state.clone();
                    after.memory.arrive(rank, index);
                    choices += 1;
                    next.push((steps + 1, after, None));
                }
                let mut after = state.clone();
                if self.times(&mut after, Rank(rank as u32)) {
                    let acquisition = self.histories[state.histories[rank]].status.acquisition;
                    after.memory.pass(rank, deadline(acquisition));
                    choices += 1;
                    deadlines += 1;
                    next.push((steps + 1, after, None));
                }
                if !self.ready(&state, rank) {
                    continue;
                }
                let at = state.histories[rank];
                let (call, issued) = self.histories[at].call.unwrap();
                choices += 1;
                ended = false;
                if matches!(call, Call::Pause { .. }) && self.histories[at].pauses == self.pauses {
                    found.held_back = true;
                    continue;
                }
                let mut after = state.clone();
                let begins = self.histories[at].status.phase == Phase::Outside;
                if begins && state.memory.halfway[rank].is_none() {
                    after.alone = self.is_alone(&state, Rank(rank as u32)).then_some(Rank(rank as u32));
                }
                let answer = after.memory.carry_out(self.check.network, rank, &issued);
                let cost = usize::from(!is_silent(&self.check, Rank(rank as u32), call));
                let judged = answer.map(|answer| {
                    let known = self.next.get(&(at, answer)).copied();
                    let to = known.unwrap_or_else(|| self.add(Rank(rank as u32), Some((at, answer))));
                    self.next.insert((at, answer), to);
                    after.histories[rank] = to;
                    self.times(&mut after, Rank(rank as u32));
                    (Rank(rank as u32), state.memory.clocks[rank])
                });
                next.push((steps + cost, after, judged));
            }
            let merged: Option<Vec<usize>> = state.histories.iter().map(|&at| self.histories[at].merged).collect();
            if let Some(merged) = merged {
                merged_states.insert((merged, trimmed(&state.memory)), choices);
            }
            if ended && next.len() == deadlines {
                let statuses: Vec<Status> = state.histories.iter().map(|&at| self.histories[at].status).collect();
                let waits: Vec<Option<Call>> =
                    state.histories.iter().map(|&at| self.histories[at].call.map(|(call, _)| call)).collect();
                let words: Vec<_> = (0..self.slots.len() as u16)
                    .map(|slot| (self.slots.address(slot), state.memory.word(slot)))
                    .collect();
                if waits.iter().all(Option::is_none) {
                    found.ends.insert(trimmed(&state.memory).words);
                }
                if let Some(broken) = self.check.end(&statuses, &waits, 0, words) {
                    found.break_at(steps, broken.property);
                }
            }
            for (steps, after, judged) in next {
                if let Some((rank, now)) = judged
                    && let Some(property) = self.judge(&after, rank, now)
                {
                    found.break_at(steps, property);
                    continue;
                }
                match best.entry(after.clone()) {
                    Entry::Occupied(known) if *known.get() <= steps => continue,
                    Entry::Occupied(mut known) => _ = known.insert(steps),
                    Entry::Vacant(vacant) => _ = vacant.insert(steps),
                }
                // Silent steps come first, so that states come in the order of their distance.
                if open.front().is_none_or(|&(first, _)| steps <= first) {
                    open.push_front((steps, after));
                } else {
                    open.push_back((steps, after));
                }
            }
        }
        found.states = best.len();
        found.merged = (merged_states.len() as u64, merged_states.values().sum());
        found
    }
}

impl Found {
    fn break_at(&mut self, steps: usize, property: Property) {
        if steps < self.steps {
            self.steps = steps;
            self.broken.clear();
        }
        if steps == self.steps {
            self.broken.insert(property);
        }
    }
}

/// The memory without the zeros at its end, which are words that no call has written.
fn trimmed(memory: &Memory) -> Memory {
    let mut memory = memory.clone();
    while memory.words.last() == Some(&0) {
        memory.words.pop();
    }
    memory
}

/// Compares the explorer with the oracle, whose ranks pause up to `pauses` times. Returns the violated property.
pub(crate) fn compare(check: &Check, pauses: usize) -> Option<Property> {
    let name = format!("{} {} {} {:?}", check.subject.name(), check.scenario, check.network, check.section);
    let outcome = run(check, &plain());
    let found = Oracle::new(check, pauses).search();
    let seen = verdict(&outcome);
    match seen {
        Some(Property::NoLivelock) => {
            // The oracle finds no cycles. It finds the loop, and no other violation.
            assert!(found.held_back, "{name}");
            assert_eq!(found.broken, BTreeSet::new(), "{name}");
        }
        Some(property) => {
            let steps = replayed(check, counterexample(&outcome));
            assert!(found.broken.contains(&property), "{name}: {property}, and {found:?}");
            assert_eq!(steps, found.steps, "{name}: length of the shortest counterexample");
        }
        None => {
            assert_eq!(found.broken, BTreeSet::new(), "{name}: {} steps", found.steps);
            // The remaining values may depend on the last rank.
            let keeps =
                check.subject.named_words().iter().any(|word| check.subject.kept(Some(word.name), word.disp, 2) != 0);
            if check.section == Section::Empty && !keeps {
                assert_eq!(found.ends, BTreeSet::from([Vec::new()]), "{name}: the final words");
            }
            let progress = outcome.progress;
            if outcome.livelocks == Livelocks::Impossible && check.has_attempts() {
                // The explorer also remembers which rank is alone.
                assert!(!found.held_back, "{name}: a loop that the explorer has missed");
                assert!(found.merged.0 <= progress.states, "{name}: {found:?}, {progress:?}");
            } else if outcome.livelocks == Livelocks::Impossible {
                assert!(!found.held_back, "{name}: a loop that the explorer has missed");
                assert_eq!(found.merged, (progress.states, progress.transitions), "{name}");
                assert!(found.states as u64 >= progress.states, "{name}");
            }
        }
    }
    for (threads, symmetry, merging) in [(1, true, false), (2, false, false), (1, false, true), (2, true, true)] {
        let other = run(check, &Options { threads, symmetry, merging, ..plain() });
        match seen {
            Some(_) => assert!(verdict(&other).is_some(), "{name}"),
            None => {
                assert_eq!(verdict(&other), None, "{name}");
                assert!(other.progress.states <= outcome.progress.states, "{name}, {symmetry} {merging}");
                if !symmetry {
                    assert_eq!(other.sometimes, outcome.sometimes, "{name}, {merging}");
                }
            }
        }
        if !matches!(seen, None | Some(Property::NoLivelock)) {
            assert_eq!(replayed(check, counterexample(&other)), found.steps, "{name}, {threads} {symmetry} {merging}");
        }
    }
    seen
}

/// Every scenario of two ranks that this subject supports.
fn of_two(subject: &Subject) -> &'static [&'static str] {
    match subject.workload() {
        Workload::Lock(_) => &["1R1Wx1", "2Wx1", "2Rx1"],
        Workload::Window(_) => &["1A1E@0x1", "1E@0 1S@0x1", "2E@0x1", "1E@0 1E@1x1"],
        Workload::Program(_) => &[],
    }
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_all_standard_locks_of_two_ranks_whose_sections_use_data() {
    all_standard_locks_of_two_ranks(Section::Data);
}

#[test]
#[ignore = "a quarter of a minute; .ci/run longer"]
fn longer_all_standard_locks_of_two_ranks_whose_sections_are_empty() {
    all_standard_locks_of_two_ranks(Section::Empty);
}

fn all_standard_locks_of_two_ranks(section: Section) {
    // Locks that recover have many more schedules. The tests of failures compare them with and without reductions.
    for subject in subjects().into_iter().filter(|subject| !subject.recovers()) {
        for &scenario in of_two(&subject) {
            for network in Network::ALL {
                let check = Check { network, section, ..check(subject.clone(), scenario) };
                compare(&check, 2);
            }
        }
    }
}

#[test]
fn standard_locks_of_three_ranks() {
    for (name, scenario) in [
        ("tas", "3Wx1"),
        ("ticket", "3Wx1"),
        ("mcs", "3Wx1"),
        ("tas-rw", "2R1Wx1"),
        ("mcs-rw-rp", "2R1Wx1"),
        ("mcs-rw-rp", "1R2Wx1"),
        ("mcs-rw-wp", "2R1Wx1"),
        ("mcs-rw-wp", "1R2Wx1"),
        ("mcs-rw-neutral", "2R1Wx1"),
        ("mcs-rw-neutral", "1R2Wx1"),
        ("two-level", "2A1E@0x1"),
    ] {
        compare(&check(subject(name).unwrap(), scenario), 1);
    }
}

#[test]
fn standard_locks_with_two_acquisitions() {
    for (name, scenario) in
        [("mcs", "2Wx2"), ("mcs-rw-rp", "1R1Wx2"), ("mcs-rw-wp", "1R1Wx2"), ("mcs-rw-neutral", "1R1Wx2")]
    {
        compare(&check(subject(name).unwrap(), scenario), 1);
    }
}

#[test]
fn small_protocols() {
    let of = |subject, scenario, network, pauses| compare(&Check { network, ..check(subject, scenario) }, pauses);
    for network in [Network::Sc, Network::LatePuts] {
        of(lock::<Peterson<true, true>>(), "2Wx1", network, 2);
        of(lock::<Peterson<true, false>>(), "2Wx1", network, 2);
        of(lock::<Peterson<false, true>>(), "2Wx1", network, 2);
        of(lock::<OneBit<true>>(), "2Wx1", network, 2);
        of(lock::<OneBit<false>>(), "2Wx1", network, 2);
        of(lock::<GetThenPut>(), "2Wx1", network, 2);
        of(lock::<LateWaiter>(), "2Wx1", network, 0);
        of(lock::<Handover>(), "2Wx2", network, 0);
        of(lock::<Bakery>(), "2Wx1", network, 1);
    }
    of(lock::<OneBit<true>>(), "3Wx1", Network::Sc, 1);
    of(lock::<GetThenPut>(), "3Wx1", Network::Sc, 1);
    of(lock::<LateWaiter>(), "3Wx1", Network::Sc, 0);
}
