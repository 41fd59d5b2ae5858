//! One rank of a check as a coroutine, for the explorer and the replay.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::{Answer, Call, Executor, RankTask, RankTurn};
use rmalab_atomics::coroutine::{Port, Task, Turn};

use crate::Result;
use crate::check::Check;
use crate::play::{Event, Player};

/// The answer by which a rank fails and comes back. No rank has this number.
pub(crate) const RESTART: Answer = Answer::PeerFailed(Rank(u32::MAX));

/// The payload of the panic that unwinds the lock's code on a rank that fails and comes back.
pub(crate) struct Restarted;

/// An event, and the handle at that moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reported {
    /// The event.
    pub event: Event,
    /// The handle, in its `Debug` form.
    pub handle: String,
}

/// The actions of a rank until it stopped.
#[derive(Debug)]
pub struct Move {
    /// The events that it reported.
    pub events: Vec<Reported>,
    /// The reason why it stopped.
    pub turn: RankTurn<Result<()>>,
}

/// Answers a rank's first calls within its coroutine, which is much faster than [`Actor::resume`].
pub(crate) trait Prompt {
    /// The answer to the rank's next call; `None` if `resume` has to return that call.
    fn answer(&mut self, call: Call) -> Option<Answer>;

    /// Takes an event. Returns false if `resume` has to return it.
    fn takes(&mut self, event: Event) -> bool;
}

/// The number of calls of an abandoned rank before it is unwound. Code that ignores errors may not end by itself.
const LAST_CALLS: u32 = 64;

/// One rank of a check.
#[derive(Debug)]
pub struct Actor {
    task: RankTask<Result<()>>,
    events: Rc<RefCell<Vec<Reported>>>,
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
        let terse = Rc::new(Cell::new(false));
        let is_timed = check.has_clock(rank);
        let given_up = Rc::new(Cell::new(None));
        let (check, log, is_terse, ends) =
            (Arc::clone(check), Rc::clone(&events), Rc::clone(&terse), Rc::clone(&given_up));
        let task = Task::new(move |port| {
            check.play(rank, &Watched { port, events: log, terse: is_terse, given_up: ends, prompt })
        })?;
        Ok(Actor { task, events, terse, given_up, call: None, is_timed })
    }

    /// Returns whether its clock moves.
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// The call whose answer it waits for.
    pub(crate) fn last_call(&self) -> Option<Call> {
        self.call
    }

    /// Leaves the handle out of its events from now on, or no longer.
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
    events: Rc<RefCell<Vec<Reported>>>,
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
        let prompted = self.prompt.as_ref().and_then(|prompt| prompt.borrow_mut().answer(call));
        let answer = prompted.unwrap_or_else(|| self.port.call(call));
        if answer == RESTART {
            resume_unwind(Box::new(Restarted));
        }
        answer
    }
}

impl Player for Watched<'_> {
    fn event(&self, event: Event, handle: &dyn Debug) {
        if self.prompt.as_ref().is_some_and(|prompt| prompt.borrow_mut().takes(event)) {
            return;
        }
        let handle = if self.terse.get() { String::new() } else { format!("{handle:?}") };
        self.events.borrow_mut().push(Reported { event, handle });
    }
}
