//! One rank of a check as a coroutine, for the explorer and the replay.

use std::cell::{Cell, Ref, RefCell};
use std::fmt::{Debug, Write};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;

use rmalab_atomics::controlled::{Answer, Call, Executor, RankTask, RankTurn};
use rmalab_atomics::coroutine::{Port, Task, Turn};
use rmalab_atomics::{Rank, Until};

use crate::Result;
use crate::check::Check;
use crate::play::{Event, Player};

/// The answer by which a rank fails and comes back. No rank has this number.
pub(crate) const RESTART: Answer = Answer::PeerFailed(Rank(u32::MAX));

/// The word that encodes the answer by which a rank fails and comes back. It stands for nothing else.
pub(crate) const RESTARTS: u64 = 0xfa11_ed01_0000_0000;

/// The upper half of a word that encodes the failure of a rank, whose number is the lower half.
const FAILURE: u64 = 0xfa11_ed00;

/// Returns whether the answer to `call` has a word, or may report a failure.
pub(crate) fn tells(call: &Call) -> bool {
    call.answers_a_word() || matches!(call, Call::Pause { .. })
}

/// The word that encodes the answer to `call`. A wait that timed out has a word that does not end it, and that
/// permutations of ranks leave as it is.
pub(crate) fn word_of(call: &Call, answer: Answer) -> u64 {
    match (answer, call) {
        (Answer::Word(word), Call::WaitUntil { .. }) => {
            assert!(word >> 32 != FAILURE, "{word:#x} stands for the failure of a rank, and for nothing else");
            word
        }
        (Answer::Word(word), _) => {
            assert!(word != RESTARTS, "{word:#x} stands for the return of a rank, and for nothing else");
            word
        }
        (Answer::PeerFailed(rank), _) => FAILURE << 32 | u64::from(rank.0),
        (Answer::TimedOut, Call::WaitUntil { until: Until::Ne(word), .. }) => *word,
        (Answer::TimedOut, Call::WaitUntil { until, .. }) if until.holds(0) => u64::MAX,
        _ => 0,
    }
}

/// The answer to `call` that `word` encodes.
pub(crate) fn answer_to(call: &Call, word: u64) -> Answer {
    match call {
        _ if word == RESTARTS => RESTART,
        Call::WaitUntil { .. } | Call::Pause { .. } if word >> 32 == FAILURE => Answer::PeerFailed(Rank(word as u32)),
        Call::WaitUntil { until, deadline: Some(_), .. } if !until.holds(word) => Answer::TimedOut,
        _ if call.answers_a_word() => Answer::Word(word),
        _ => Answer::Done,
    }
}

/// The payload of the panic that unwinds the lock's code on a rank that fails and comes back.
pub(crate) struct Restarted;

/// The actions of a rank until it stopped.
#[derive(Debug)]
pub struct Move {
    /// The events that it reported.
    pub events: Vec<Event>,
    /// The reason why it stopped.
    pub turn: RankTurn<Result<()>>,
}

/// Answers a rank's first calls within its coroutine, which is much faster than [`Actor::resume`].
pub(crate) trait Prompt {
    /// The word of the answer to the rank's next call, see [`answer_to`]. `None` if `resume` has to return that call.
    fn answer(&mut self, call: &Call) -> Option<u64>;

    /// Takes an event. Returns false if `resume` has to return it.
    fn takes(&mut self, event: Event) -> bool;
}

/// The number of calls of an abandoned rank before it is unwound. Code that ignores errors may not end by itself.
const LAST_CALLS: u32 = 64;

/// One rank of a check.
#[derive(Debug)]
pub struct Actor {
    task: RankTask<Result<()>>,
    events: Rc<RefCell<Vec<Event>>>,
    /// The handle at the last event, in its `Debug` form.
    handle: Rc<RefCell<String>>,
    terse: Rc<Cell<bool>>,
    /// The number of calls that still fail at once, if the rank is abandoned.
    given_up: Rc<Cell<Option<u32>>>,
    /// The call whose answer it waits for.
    call: Option<Call>,
    /// True if its clock moves.
    is_timed: bool,
}

impl Actor {
    /// Creates the rank, which has not begun.
    ///
    /// # Errors
    ///
    /// [`rmalab_atomics::Error::System`] when the system has no memory for its stack.
    pub fn new(check: &Arc<Check>, rank: Rank) -> Result<Actor> {
        Actor::with(check, rank, None)
    }

    /// Like [`new`](Self::new); its first calls and events go to `prompt`.
    pub(crate) fn prompted(check: &Arc<Check>, rank: Rank, prompt: Rc<RefCell<dyn Prompt>>) -> Result<Actor> {
        Actor::with(check, rank, Some(prompt))
    }

    fn with(check: &Arc<Check>, rank: Rank, prompt: Option<Rc<RefCell<dyn Prompt>>>) -> Result<Actor> {
        let events = Rc::new(RefCell::new(Vec::new()));
        let handle = Rc::new(RefCell::new(String::new()));
        let terse = Rc::new(Cell::new(false));
        let is_timed = check.has_clock(rank);
        let given_up = Rc::new(Cell::new(None));
        let check = Arc::clone(check);
        let (log, text, is_terse) = (Rc::clone(&events), Rc::clone(&handle), Rc::clone(&terse));
        let ends = Rc::clone(&given_up);
        let task = Task::new(move |port| {
            check.play(rank, &Watched { port, events: log, handle: text, terse: is_terse, given_up: ends, prompt })
        })?;
        Ok(Actor { task, events, handle, terse, given_up, call: None, is_timed })
    }

    /// Returns whether its clock moves.
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// The call whose answer it waits for.
    pub(crate) fn last_call(&self) -> Option<Call> {
        self.call
    }

    /// The handle at the last event between two calls of acquire and release, in its `Debug` form. It is older if the
    /// actor was terse then.
    pub fn handle(&self) -> Ref<'_, str> {
        Ref::map(self.handle.borrow(), String::as_str)
    }

    /// Does not keep the handle of its events from now on, or keeps it again.
    pub fn be_terse(&self, terse: bool) {
        self.terse.set(terse);
    }

    /// Passes the rank the answer to its last call, and runs it until its next call. The first call of `resume` ignores
    /// the answer.
    pub fn resume(&mut self, answer: Answer) -> Move {
        let turn = self.task.resume(answer);
        self.call = match turn {
            Turn::Calls(call) => Some(call),
            _ => None,
        };
        Move { events: self.events.take(), turn }
    }

    /// Ends the rank before its code has returned.
    pub fn stop(mut self) {
        // Code that returns an error ends sooner than code that is unwound.
        if self.call.is_some() {
            self.be_terse(true);
            self.given_up.set(Some(LAST_CALLS));
            self.resume(Answer::GivenUp);
        }
        self.task.stop();
    }
}

/// A rank's coroutine, and the events that the rank has reported.
struct Watched<'t> {
    port: &'t Port<'t, Answer, Call>,
    events: Rc<RefCell<Vec<Event>>>,
    handle: Rc<RefCell<String>>,
    terse: Rc<Cell<bool>>,
    given_up: Rc<Cell<Option<u32>>>,
    prompt: Option<Rc<RefCell<dyn Prompt>>>,
}

impl Executor for Watched<'_> {
    fn call(&self, call: Call) -> Answer {
        if let Some(left) = self.given_up.get()
            && left > 0
        {
            self.given_up.set(Some(left - 1));
            return Answer::GivenUp;
        }
        if let Some(word) = self.repeats(&call) {
            return answer_to(&call, word);
        }
        let answer = self.port.call(call);
        if answer == RESTART {
            resume_unwind(Box::new(Restarted));
        }
        answer
    }
}

impl Player for Watched<'_> {
    fn repeats(&self, call: &Call) -> Option<u64> {
        let word = self.prompt.as_ref()?.borrow_mut().answer(call)?;
        if word == RESTARTS {
            resume_unwind(Box::new(Restarted));
        }
        Some(word)
    }

    fn event(&self, event: Event, handle: &dyn Debug) {
        if self.prompt.as_ref().is_some_and(|prompt| prompt.borrow_mut().takes(event)) {
            return;
        }
        let mut events = self.events.borrow_mut();
        // A rank begins or leaves directly after its last event, unless a call comes between them.
        let is_same = matches!(event, Event::Begins(_) | Event::Leaves)
            && events.last().is_some_and(|last| !matches!(last, Event::Saw { .. }));
        if !is_same && !self.terse.get() && !matches!(event, Event::Saw { .. }) {
            let mut text = self.handle.borrow_mut();
            text.clear();
            write!(text, "{handle:?}").expect("a text takes every handle");
        }
        events.push(event);
    }
}
