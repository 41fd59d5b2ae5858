//! The runs of the code: a rank's calls after each sequence of answers that was tried.
//!
//! Between two calls, a rank's code is a function of its answers so far. So the runs of a rank form a tree: from each
//! [`Run`], one branch leads on for each answer. No sequence of answers runs twice, not even in a search that starts
//! again. The code of a new branch runs from its beginning. On the way, its moves are compared with the known ones.
//!
//! # Silent steps
//! A pause, a read of a clock that stands still, and a flush where nothing can be under way are answered at once. They touch
//! no memory, so that no rank can observe when they happen. Leaving them out of the interleavings loses no behaviour. The
//! same holds for questions about failures where no rank fails. Where ranks fail, a pause is a step, too. A silent call
//! directly after an entry is also a step. Otherwise no search would see a rank inside whose release consists of such
//! calls only.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::{Answer, Call, RankTurn};
use rmalab_atomics::coroutine::Turn;
use rustc_hash::FxBuildHasher;

use super::node::Failure;
pub(super) use crate::actor::RESTARTS;
use crate::actor::{Actor, Move, Prompt, answer_to, tells, word_of};
use crate::check::Check;
use crate::outcome::Limit;
use crate::panics::panicked;
use crate::play::Event;
use crate::{Error, Property, Result};

/// The number of a run: one rank's code with one sequence of answers. The first runs have no answers yet: one for each
/// rank, by number.
pub(super) type Run = u32;

/// The limit for silent steps in a row. Code that exceeds it makes no other call.
pub(super) const SILENT: usize = 1 << 16;

/// The number of moves without an answer after the requested moves.
const WORDLESS: usize = 16;

/// The nanoseconds between two reads of the clock in the test of its effect: half an hour, so that every deadline passes.
const LATE: u64 = 1 << 41;

/// A move up to the next call that is a step, without the silent steps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Stop {
    pub(super) events: Vec<Event>,
    pub(super) paused: bool,
    pub(super) call: Option<Call>,
    pub(super) broken: Option<(Property, String)>,
}

impl Stop {
    /// Returns whether the rank has entered in this move, and has not left.
    fn is_inside(&self) -> bool {
        let last = self.events.iter().rev().find(|event| matches!(event, Event::Entered | Event::Left));
        last.is_some_and(|event| *event == Event::Entered)
    }

    /// Returns whether a phase begins or ends in this move.
    pub(super) fn is_boundary(&self) -> bool {
        self.events.iter().any(|event| !matches!(event, Event::Saw { .. }))
    }
}

/// The last answer of a run, and the move that it leads to.
#[derive(Clone, Copy)]
struct Last {
    before: Option<Run>,
    answer: u64,
    stop: u32,
    /// The number of the handle's text after the last event, or [`UNKNOWN`].
    handle: u32,
    /// The first run that continues this one, or [`UNKNOWN`]. Most runs have no other.
    first: Run,
    kind: Kind,
}

/// The facts about a move that a walk along known runs needs. They are beside the run, since most moves are elsewhere
/// in memory.
#[derive(Clone, Copy)]
struct Kind {
    is_boundary: bool,
    answers: Answers,
}

/// The answers to the call of a move.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// There is no call.
    None,
    /// One, which has no word.
    One,
    /// One, which has a word elsewhere: no rank fails here.
    OneTold,
    /// Several.
    Several,
}

/// The number of a text that no search has asked for, and of a run that does not exist.
const UNKNOWN: u32 = u32::MAX;

/// Calls of the code that need special care.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// A fence for all ranks.
    pub(super) fences: bool,
    /// A wait with a deadline.
    pub(super) deadline: bool,
    /// A read of the clock.
    pub(super) clock: bool,
}

/// All runs of one check's code.
pub(super) struct Runs {
    check: Arc<Check>,
    last: Vec<Last>,
    /// The runs that continue another run, except for the first continuation of each run.
    others: HashMap<(Run, u64), Run, FxBuildHasher>,
    stops: Vec<Arc<Stop>>,
    numbers: HashMap<Arc<Stop>, u32, FxBuildHasher>,
    handles: HashMap<String, u32, FxBuildHasher>,
    /// The special calls that the code has made.
    pub(super) seen: Seen,
    /// The number of times that the code has run.
    pub(super) count: u64,
    /// The end of the time, and the largest memory in bytes.
    pub(super) limits: (Option<Instant>, u64),
    /// The answer to the next read of the clock, and the time until the read after it.
    clock: (u64, u64),
    /// The moves of the last script, whose memory the next one takes.
    moves: Vec<(u32, u64)>,
}

impl Runs {
    pub(super) fn new(check: &Arc<Check>) -> Result<Runs, Failure> {
        let mut runs = Runs {
            check: Arc::clone(check),
            last: Vec::new(),
            others: HashMap::default(),
            stops: Vec::new(),
            numbers: HashMap::default(),
            handles: HashMap::default(),
            seen: Seen::default(),
            count: 0,
            limits: (None, u64::MAX),
            clock: (0, 0),
            moves: Vec::new(),
        };
        for rank in (0..check.active()).map(Rank) {
            let mut actor = Actor::new(check, rank)?;
            actor.be_terse(true);
            let stop = runs.resume(&mut actor, Answer::Done);
            actor.stop();
            runs.add(None, 0, stop, None);
        }
        Ok(runs)
    }

    /// The last move of `run`.
    pub(super) fn stop(&self, run: Run) -> &Arc<Stop> {
        &self.stops[self.stop_number(run) as usize]
    }

    /// A number that is equal for runs with equal last moves.
    pub(super) fn stop_number(&self, run: Run) -> u32 {
        self.last[run as usize].stop
    }

    /// A number that is equal for runs with the same text of the handle after the last event.
    pub(super) fn handle(&mut self, run: Run) -> Result<u32, Failure> {
        let Last { before, answer, handle, .. } = self.last[run as usize];
        if handle != UNKNOWN {
            return Ok(handle);
        }
        let mut actor = match before {
            Some(before) => self.replay(before)?,
            None => Actor::new(&self.check, Rank(run))?,
        };
        actor.be_terse(false);
        let answer =
            before.and_then(|before| self.stop(before).call).map_or(Answer::Done, |call| answer_to(&call, answer));
        self.resume(&mut actor, answer);
        let handle = self.number(&actor.handle());
        actor.stop();
        self.last[run as usize].handle = handle;
        Ok(handle)
    }

    fn number(&mut self, text: &str) -> u32 {
        if let Some(&known) = self.handles.get(text) {
            return known;
        }
        let number = self.handles.len() as u32;
        self.handles.insert(text.to_owned(), number);
        number
    }

    /// The calls and the answers of `run`.
    pub(super) fn path(&self, run: Run) -> Vec<(Call, u64)> {
        let mut path = Vec::new();
        let mut at = run;
        while let Last { before: Some(before), answer, .. } = self.last[at as usize] {
            path.push((self.stop(before).call.expect("a run with an answer has made a call"), answer));
            at = before;
        }
        path.reverse();
        path
    }

    /// The memory of the runs, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let of_others = 2 * size_of::<((Run, u64), Run)>();
        (self.last.len() * size_of::<Last>() + self.others.len() * of_others) as u64
    }

    /// The known run that continues `run` by `answer`.
    fn next(&self, run: Run, answer: u64) -> Option<Run> {
        let first = self.last[run as usize].first;
        match self.last.get(first as usize) {
            Some(last) if last.answer != answer => self.others.get(&(run, answer)).copied(),
            known => known.map(|_| first),
        }
    }

    /// Returns whether there are several answers to `call`.
    fn may_tell(&self, call: Call) -> bool {
        call.answers_a_word() || tells(&call) && self.check.scenario.crashes() > 0
    }

    /// Learning may take long between two states of the search, so it also checks the limits.
    fn limit(&self) -> Result<(), Failure> {
        let (end, most) = self.limits;
        if self.memory() > most {
            return Err(Failure::Limit(Limit::Memory));
        }
        let is_over = self.count.is_multiple_of(64) && end.is_some_and(|end| Instant::now() > end);
        if is_over { Err(Failure::Limit(Limit::Time)) } else { Ok(()) }
    }

    /// `run`, continued by `answer`.
    pub(super) fn answered(&mut self, run: Run, answer: u64) -> Result<Run, Failure> {
        let mut all = self.go(run, &[answer], 0)?;
        Ok(all.pop().expect("a run that is answered has made a call"))
    }

    /// `run`, continued by each of these answers, and by the answers without a word that follow. It ends early if the code
    /// does.
    pub(super) fn observe(&mut self, run: Run, answers: &[u64]) -> Result<Vec<Run>, Failure> {
        self.go(run, answers, WORDLESS)
    }

    fn go(&mut self, run: Run, answers: &[u64], most_wordless: usize) -> Result<Vec<Run>, Failure> {
        let mut all = Vec::with_capacity(answers.len() + most_wordless);
        let (mut at, mut left, mut wordless) = (run, answers.iter(), 0);
        let mut actor: Option<Actor> = None;
        // The next phase begins where the history of some node may end. Few walks look at later phases.
        let mut shows = true;
        loop {
            let answers = self.last[at as usize].kind.answers;
            if answers == Answers::None {
                break;
            }
            let answer = match left.next() {
                Some(&answer) if answers != Answers::One || answer == RESTARTS => answer,
                Some(_) => 0,
                None if answers == Answers::Several || wordless == most_wordless => break,
                None => {
                    wordless += 1;
                    0
                }
            };
            // No run is known after a new one.
            let known = if actor.is_none() { self.next(at, answer) } else { None };
            at = match (known, &mut actor) {
                (Some(known), _) => known,
                (None, Some(actor)) => self.extend(actor, at, answer, shows),
                (None, none) => {
                    let replayed = none.insert(self.replay(at)?);
                    self.extend(replayed, at, answer, shows)
                }
            };
            shows &= !self.last[at as usize].kind.is_boundary;
            all.push(at);
        }
        if let Some(actor) = actor {
            actor.stop();
        }
        Ok(all)
    }

    fn extend(&mut self, actor: &mut Actor, at: Run, answer: u64, shows: bool) -> Run {
        let call = self.stop(at).call.expect("a run that is continued has made a call");
        actor.be_terse(!shows);
        let stop = self.resume(actor, answer_to(&call, answer));
        let text = (shows && stop.is_boundary()).then(|| actor.handle());
        let run = self.add(Some(at), answer, stop, text.as_deref());
        match &mut self.last[at as usize].first {
            first if *first == UNKNOWN => *first = run,
            _ => _ = self.others.insert((at, answer), run),
        }
        run
    }

    fn add(&mut self, before: Option<Run>, answer: u64, stop: Stop, handle: Option<&str>) -> Run {
        let answers = match stop.call {
            None => Answers::None,
            Some(call) if self.may_tell(call) => Answers::Several,
            Some(call) if tells(&call) => Answers::OneTold,
            Some(_) => Answers::One,
        };
        let kind = Kind { is_boundary: stop.is_boundary(), answers };
        let stop = match self.numbers.get(&stop) {
            Some(&known) => known,
            None => {
                let (number, stop) = (self.stops.len() as u32, Arc::new(stop));
                self.stops.push(Arc::clone(&stop));
                self.numbers.insert(stop, number);
                number
            }
        };
        let handle = handle.map_or(UNKNOWN, |text| self.number(text));
        self.last.push(Last { before, answer, stop, handle, first: UNKNOWN, kind });
        (self.last.len() - 1) as Run
    }

    /// Runs the code from its beginning to the end of `run`, and compares its moves with the known ones.
    fn replay(&mut self, run: Run) -> Result<Actor, Failure> {
        let mut moves = std::mem::take(&mut self.moves);
        moves.clear();
        let (mut at, mut answer) = (run, 0);
        loop {
            let last = self.last[at as usize];
            moves.push((last.stop, answer));
            let Some(before) = last.before else { break };
            (at, answer) = (before, last.answer);
        }
        moves.reverse();
        // The first runs have the numbers of their ranks.
        let rank = Rank(at);
        self.count += 1;
        self.limit()?;
        let check = Arc::clone(&self.check);
        let script = Rc::new(RefCell::new(Script::new(check, rank, moves, self.clock)));
        let prompt: Rc<RefCell<dyn Prompt>> = Rc::<RefCell<Script>>::clone(&script);
        let mut actor = Actor::prompted(&self.check, rank, prompt)?;
        actor.be_terse(true);
        script.borrow_mut().stops = std::mem::take(&mut self.stops);
        let turn = actor.resume(Answer::Done).turn;
        let (made, broken) = match turn {
            Turn::Calls(call) => (Some(call), None),
            ended => (None, broken_by(ended)),
        };
        let mut script = script.borrow_mut();
        let (is_followed, known) = (script.is_followed(made, broken.as_ref()), script.stop().call);
        // The rank's calls from here on are no part of the script.
        script.over = true;
        self.stops = std::mem::take(&mut script.stops);
        self.moves = std::mem::take(&mut script.moves);
        if is_followed {
            return Ok(actor);
        }
        let text = |call: Option<Call>| call.map_or("no call".to_owned(), |call| format!("the call {call}"));
        Err(Failure::Error(Error::Unsound(format!(
            "{}: the code of {rank} is not a function of its answers: it made {} where it had made {}",
            self.check.subject.name(),
            text(made),
            text(known),
        ))))
    }

    /// Returns whether the code makes a different move, on the way to `run` or at its end, when time does not stand
    /// still.
    pub(super) fn acts_on_clock(&mut self, run: Run) -> Result<bool, Failure> {
        self.clock = (0, LATE);
        let late = self.replay(run);
        self.clock = (0, 0);
        match late {
            Ok(actor) => {
                actor.stop();
                Ok(false)
            }
            Err(Failure::Error(Error::Unsound(_))) => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    /// `run` without its last `answers`.
    pub(super) fn before(&self, run: Run, answers: usize) -> Run {
        (0..answers).fold(run, |at, _| self.last[at as usize].before.expect("a run has at least these answers"))
    }

    /// `run`, continued by these calls with their answers; or the index of the first call that the code does not make.
    pub(super) fn along(&mut self, run: Run, path: &[(Call, u64)]) -> Result<Result<Run, usize>, Failure> {
        let answers: Vec<u64> = path.iter().map(|&(_, answer)| answer).collect();
        let all = self.go(run, &answers, 0)?;
        let before = std::iter::once(run).chain(all.iter().copied());
        let left = before.zip(path).position(|(at, &(call, _))| self.stop(at).call != Some(call));
        Ok(match (left, all.last()) {
            (Some(left), _) => Err(left),
            (None, last) => Ok(last.copied().unwrap_or(run)),
        })
    }

    /// The index of the first call of `path`, after `run`, that the code does not make in the same phase. These
    /// moves are not kept.
    pub(super) fn leaves(&mut self, run: Run, path: &[(Call, u64)]) -> Result<Option<usize>, Failure> {
        let mut actor = self.replay(run)?;
        let mut next = self.stop(run).call;
        let mut left = None;
        for (i, &(call, answer)) in path.iter().enumerate() {
            if next != Some(call) {
                left = Some(i);
                break;
            }
            let stop = self.resume(&mut actor, answer_to(&call, answer));
            next = stop.call.filter(|_| !stop.is_boundary());
        }
        actor.stop();
        Ok(left)
    }

    /// Runs the actor to the next call that is a step.
    fn resume(&mut self, actor: &mut Actor, answer: Answer) -> Stop {
        // Where ranks fail, a pause is a step.
        let paused = matches!(actor.last_call(), Some(Call::Pause { .. }));
        let mut stop = Stop { events: Vec::new(), paused, call: None, broken: None };
        let mut answer = answer;
        for _ in 0..SILENT {
            let Move { events, turn } = actor.resume(answer);
            if stop.events.is_empty() {
                stop.events = events;
            } else {
                stop.events.extend(events);
            }
            match turn {
                Turn::Calls(call) => {
                    self.seen.fences |= call == Call::FenceEverywhere;
                    let time_stands = !actor.is_timed();
                    self.seen.deadline |= time_stands && matches!(call, Call::WaitUntil { deadline: Some(_), .. });
                    self.seen.clock |= time_stands && call == Call::Now;
                    match self.check.silent(actor.is_timed(), &call) {
                        Some(silent) if !stop.is_inside() => {
                            stop.paused |= matches!(call, Call::Pause { .. });
                            answer = silent;
                            if call == Call::Now {
                                let (now, step) = self.clock;
                                self.clock = (now + step, step);
                                answer = Answer::Word(now);
                            }
                        }
                        _ => {
                            let broken = at_once(&stop.events);
                            return Stop { call: Some(call), broken, ..stop };
                        }
                    }
                }
                ended => {
                    let broken = broken_by(ended).or_else(|| at_once(&stop.events));
                    return Stop { broken, ..stop };
                }
            }
        }
        let seen = format!("made {SILENT} pauses and flushes in a row, and no other call");
        Stop { broken: Some((Property::Invariant, seen)), ..stop }
    }
}

/// The violation by a rank that gives up without a call other than silent steps, if `events` have one.
fn at_once(events: &[Event]) -> Option<(Property, String)> {
    let gives_up = |pair: &[Event]| matches!(pair, [Event::Begins(_), Event::GaveUp { .. }]);
    events.windows(2).any(gives_up).then(Check::gives_up_at_once)
}

/// The violation by which a rank's code has ended, if any.
fn broken_by(ended: RankTurn<Result<()>>) -> Option<(Property, String)> {
    match ended {
        Turn::Calls(_) | Turn::Finished(Ok(())) => None,
        Turn::Finished(Err(error)) => Some(error.breaks()),
        Turn::Panicked(text) => Some(panicked(&text)),
    }
}

/// A known run that a rank repeats. Its calls are answered within the coroutine, up to the last one.
struct Script {
    check: Arc<Check>,
    is_timed: bool,
    /// All known stops.
    stops: Vec<Arc<Stop>>,
    /// The numbers of the run's stops, and the answer to the call of each except the last one.
    moves: Vec<(u32, u64)>,
    /// The stop that the rank is on its way to.
    at: usize,
    /// The numbers of its events and of its silent steps so far.
    events: usize,
    silent: usize,
    /// True if the rank has entered since the last stop, and has not left.
    is_inside: bool,
    paused: bool,
    /// True once the rank has reported an event that the stop does not have.
    deviates: bool,
    /// True once the rank has made a call that `resume` returns.
    over: bool,
    /// The answer to the next read of the clock, and the time until the read after it.
    clock: (u64, u64),
}

impl Script {
    fn new(check: Arc<Check>, rank: Rank, moves: Vec<(u32, u64)>, clock: (u64, u64)) -> Script {
        Script {
            is_timed: check.has_clock(rank),
            check,
            stops: Vec::new(),
            moves,
            at: 0,
            events: 0,
            silent: 0,
            is_inside: false,
            paused: false,
            deviates: false,
            over: false,
            clock,
        }
    }

    /// The stop that the rank is on its way to.
    fn stop(&self) -> &Stop {
        &self.stops[self.moves[self.at].0 as usize]
    }

    /// Returns whether the rank, which has made `call` or has ended, is at the last stop.
    fn is_followed(&self, call: Option<Call>, broken: Option<&(Property, String)>) -> bool {
        let stop = self.stop();
        let broken = broken.cloned().or_else(|| at_once(&stop.events));
        self.at + 1 == self.moves.len() && self.is_at(call.as_ref()) && stop.broken == broken
    }

    /// Returns whether the rank, which makes `call` or ends, is at its next stop.
    fn is_at(&self, call: Option<&Call>) -> bool {
        let stop = self.stop();
        !self.deviates && self.events == stop.events.len() && self.paused == stop.paused && call == stop.call.as_ref()
    }
}

impl Prompt for Script {
    fn answer(&mut self, call: &Call) -> Option<u64> {
        if self.over {
            return None;
        }
        if !self.is_inside
            && self.silent < SILENT
            && let Some(silent) = self.check.silent(self.is_timed, call)
        {
            self.silent += 1;
            self.paused |= matches!(call, Call::Pause { .. });
            if *call == Call::Now {
                let (now, step) = self.clock;
                self.clock.0 += step;
                return Some(now);
            }
            return Some(word_of(call, silent));
        }
        let answer = self.moves[self.at].1;
        if self.at + 1 == self.moves.len() || !self.is_at(Some(call)) {
            self.over = true;
            return None;
        }
        self.at += 1;
        (self.events, self.silent, self.is_inside) = (0, 0, false);
        // Where ranks fail, a pause is a step.
        self.paused = matches!(call, Call::Pause { .. });
        Some(answer)
    }

    fn takes(&mut self, event: Event) -> bool {
        if self.over {
            return false;
        }
        self.deviates |= self.stop().events.get(self.events) != Some(&event);
        self.events += 1;
        match event {
            Event::Entered => self.is_inside = true,
            Event::Left => self.is_inside = false,
            _ => {}
        }
        true
    }
}
