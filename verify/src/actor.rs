//! One rank of a check as a coroutine, for the explorer and the replay.

use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::{Answer, Call, Executor, RankTask, RankTurn};
use rmalab_atomics::coroutine::{Port, Task};

use crate::Result;
use crate::check::Check;
use crate::play::{Event, Player};

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
    /// Why it stopped.
    pub turn: RankTurn<Result<()>>,
}

/// One rank of a check.
#[derive(Debug)]
pub struct Actor {
    task: RankTask<Result<()>>,
    events: Rc<RefCell<Vec<Reported>>>,
}

impl Actor {
    /// Creates the rank, which has not begun.
    ///
    /// # Errors
    ///
    /// [`rmalab_atomics::Error::System`] when the system has no memory for its stack.
    pub fn new(check: &Arc<Check>, rank: Rank) -> Result<Actor> {
        let events = Rc::new(RefCell::new(Vec::new()));
        let (check, log) = (Arc::clone(check), Rc::clone(&events));
        let task = Task::new(move |port| check.play(rank, &Watched { port, events: log }))?;
        Ok(Actor { task, events })
    }

    /// Passes the rank the answer to its last call, and runs it until its next call. The first call of `resume` ignores
    /// the answer.
    pub fn resume(&mut self, answer: Answer) -> Move {
        let turn = self.task.resume(answer);
        Move { events: self.events.take(), turn }
    }

    /// Ends the rank before its code has returned.
    pub fn stop(self) {
        self.task.stop();
    }
}

/// A rank's coroutine, and the events that the rank has reported.
struct Watched<'t> {
    port: &'t Port<'t, Answer, Call>,
    events: Rc<RefCell<Vec<Reported>>>,
}

impl Executor for Watched<'_> {
    fn call(&self, call: Call) -> Answer {
        self.port.call(call)
    }
}

impl Player for Watched<'_> {
    fn event(&self, event: Event, handle: &dyn Debug) {
        self.events.borrow_mut().push(Reported { event, handle: format!("{handle:?}") });
    }
}
