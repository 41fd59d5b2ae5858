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
pub struct Told {
    /// The event.
    pub event: Event,
    /// The handle, in its `Debug` form.
    pub handle: String,
}

/// What a rank did until it stopped.
#[derive(Debug)]
pub struct Move {
    /// The events that it reported.
    pub told: Vec<Told>,
    /// Why it stopped.
    pub turn: RankTurn<Result<()>>,
}

/// One rank of a check.
#[derive(Debug)]
pub struct Actor {
    task: RankTask<Result<()>>,
    told: Rc<RefCell<Vec<Told>>>,
}

impl Actor {
    /// Creates the rank, which has not begun.
    ///
    /// # Errors
    ///
    /// [`rmalab_atomics::Error::System`] when the system has no memory for its stack.
    pub fn new(check: &Arc<Check>, rank: Rank) -> Result<Actor> {
        let told = Rc::new(RefCell::new(Vec::new()));
        let (check, tells) = (Arc::clone(check), Rc::clone(&told));
        let task = Task::new(move |port| check.play(rank, &Watched { port, tells }))?;
        Ok(Actor { task, told })
    }

    /// Passes the rank the answer to its last call, and runs it until its next call. The first call of `resume` ignores
    /// the answer.
    pub fn resume(&mut self, answer: Answer) -> Move {
        let turn = self.task.resume(answer);
        Move { told: self.told.take(), turn }
    }

    /// Ends the rank before its code has returned.
    pub fn stop(self) {
        self.task.stop();
    }
}

/// A rank's coroutine, and the events that the rank has reported.
struct Watched<'t> {
    port: &'t Port<'t, Answer, Call>,
    tells: Rc<RefCell<Vec<Told>>>,
}

impl Executor for Watched<'_> {
    fn call(&self, call: Call) -> Answer {
        self.port.call(call)
    }
}

impl Player for Watched<'_> {
    fn event(&self, event: Event, handle: &dyn Debug) {
        self.tells.borrow_mut().push(Told { event, handle: format!("{handle:?}") });
    }
}
