//! Ranks as stackful coroutines: blocking code that stops at every call and continues with the answer.
//!
//! They run single-threaded and deterministically: a task runs only inside [`Task::resume`], and its calls are a
//! function of its body and of the answers alone.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::{Error, Result};

/// The next stop of a task.
#[derive(Debug)]
pub enum Turn<C, R> {
    /// The task makes a call, and waits for the answer.
    Calls(C),
    /// Its body has returned.
    Finished(R),
    /// Its body has panicked, with this message and place.
    Panicked(String),
}

/// A body that runs as a coroutine: it makes calls of type `C`, gets answers of type `A`, and returns an `R`.
///
/// Dropping an unfinished task unwinds its stack.
pub struct Task<A, C, R, S: Stack = DefaultStack> {
    /// `None` only after [`stop`](Task::stop) has taken the stack.
    coroutine: Option<Coroutine<A, C, R, S>>,
}

/// The port through which a task's body makes its calls.
pub struct Port<'t, A, C> {
    yielder: &'t Yielder<A, C>,
}

impl<A, C> Port<'_, A, C> {
    /// Hands `call` to the engine that runs the task, and returns the answer.
    ///
    /// Destructors that may run while the task unwinds must not call it: a task that is given up there aborts the
    /// process.
    #[inline]
    pub fn call(&self, call: C) -> A {
        self.yielder.suspend(call)
    }
}

/// The number of bytes of a task's stack. It is address space, of which only touched pages take memory. Unwinding with
/// a message needs some tens of KiB.
const STACK_BYTES: usize = 256 << 10;

/// The number of stacks that are kept for the next tasks on this thread.
const KEPT: usize = 64;

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    /// True if a task is running on this thread, so that its panic is caught and returned as a value.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

impl<A: 'static, C: 'static, R: 'static> Task<A, C, R> {
    /// Makes a task that has not begun. The answer of its first [`resume`](Task::resume) is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when there is no memory, or no mapping, left for its stack.
    pub fn new(body: impl for<'t> FnOnce(&Port<'t, A, C>) -> R + 'static) -> Result<Task<A, C, R>> {
        let stack = match STACKS.with_borrow_mut(Vec::pop) {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_BYTES)
                .map_err(|source| Error::system("mapping the stack of a coroutine (see vm.max_map_count)", source))?,
        };
        Ok(Task::on(stack, body))
    }

    /// Gives up the task, and keeps its stack for the next one.
    pub fn stop(mut self) {
        self.unwind();
        if let Some(coroutine) = self.coroutine.take_if(|coroutine| coroutine.done()) {
            let stack = coroutine.into_stack();
            STACKS.with_borrow_mut(|stacks| {
                if stacks.len() < KEPT {
                    stacks.push(stack);
                }
            });
        }
    }
}

impl<A: 'static, C: 'static, R: 'static, S: Stack + 'static> Task<A, C, R, S> {
    /// Like [`new`](Task::new), on that stack.
    pub(crate) fn on(stack: S, body: impl for<'t> FnOnce(&Port<'t, A, C>) -> R + 'static) -> Task<A, C, R, S> {
        static HOOK: Once = Once::new();
        HOOK.call_once(quiet_hook);
        Task { coroutine: Some(Coroutine::with_stack(stack, move |yielder, _first| body(&Port { yielder }))) }
    }

    /// Continues the task with `answer` until it makes its next call or ends.
    ///
    /// # Panics
    ///
    /// When it has ended.
    #[inline]
    pub fn resume(&mut self, answer: A) -> Turn<C, R> {
        let coroutine = self.coroutine.as_mut().expect("a task that was stopped is gone");
        let outer = RUNNING.replace(true);
        let turn = panic::catch_unwind(AssertUnwindSafe(|| coroutine.resume(answer)));
        RUNNING.set(outer);
        match turn {
            Ok(CoroutineResult::Yield(call)) => Turn::Calls(call),
            Ok(CoroutineResult::Return(value)) => Turn::Finished(value),
            Err(payload) => Turn::Panicked(PANIC.take().unwrap_or_else(|| text_of(&*payload))),
        }
    }
}

impl<A, C, R, S: Stack> Task<A, C, R, S> {
    /// Unwinds the task's stack, if it has begun and not ended.
    pub(crate) fn unwind(&mut self) {
        if let Some(coroutine) = &mut self.coroutine
            && coroutine.started()
            && !coroutine.done()
        {
            let outer = RUNNING.replace(true);
            // A body may catch the unwinding and panic for another reason, which can be ignored.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| coroutine.force_unwind()));
            RUNNING.set(outer);
        }
    }
}

impl<A, C, R, S: Stack> Drop for Task<A, C, R, S> {
    fn drop(&mut self) {
        self.unwind();
    }
}

impl<A, C, R, S: Stack> std::fmt::Debug for Task<A, C, R, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

impl<A, C> std::fmt::Debug for Port<'_, A, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").finish_non_exhaustive()
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// Installs a hook for panics. A task's panic becomes [`Turn::Panicked`]; all others go to the previous hook.
fn quiet_hook() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if RUNNING.get() {
            let place = info.location().map_or(String::new(), |at| format!(" ({}:{})", at.file(), at.line()));
            PANIC.set(Some(format!("{}{place}", text_of(info.payload()))));
        } else {
            before(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_task_depend_on_its_answers_only() {
        let mut task = Task::new(|port: &Port<'_, u32, u32>| port.call(1) + port.call(2)).unwrap();
        assert!(matches!(task.resume(0), Turn::Calls(1)));
        assert!(matches!(task.resume(10), Turn::Calls(2)));
        assert!(matches!(task.resume(20), Turn::Finished(30)));
    }

    #[test]
    fn a_panic_is_returned_with_its_place() {
        let mut task: Task<(), (), ()> = Task::new(|_| panic!("of {}", 7)).unwrap();
        match task.resume(()) {
            Turn::Panicked(text) => assert!(text.starts_with("of 7 (") && text.contains("coroutine.rs:"), "{text}"),
            other => panic!("{other:?}"),
        }
        task.stop();
    }

    #[test]
    fn stopping_a_task_drops_its_values() {
        let held = std::rc::Rc::new(());
        let inside = held.clone();
        let mut task: Task<(), (), ()> = Task::new(move |port| {
            let _inside = inside;
            port.call(());
        })
        .unwrap();
        assert!(matches!(task.resume(()), Turn::Calls(())));
        assert_eq!(std::rc::Rc::strong_count(&held), 2);
        task.stop();
        assert_eq!(std::rc::Rc::strong_count(&held), 1);
    }

    /// Returns a task that catches the unwinding when it is given up, and then panics for another reason.
    fn stubborn() -> Task<(), (), ()> {
        let mut task = Task::new(|port: &Port<'_, (), ()>| {
            panic::catch_unwind(AssertUnwindSafe(|| port.call(()))).expect("an answer");
        })
        .unwrap();
        assert!(matches!(task.resume(()), Turn::Calls(())));
        task
    }

    #[test]
    fn a_task_that_panics_while_it_is_given_up_does_no_harm() {
        stubborn().stop();
        drop(stubborn());
    }

    #[test]
    fn thousands_fit() {
        let mut tasks: Vec<Task<u32, u32, u32>> =
            (0..4096).map(|i| Task::new(move |port| i + port.call(i)).unwrap()).collect();
        for (i, task) in (0_u32..).zip(&mut tasks) {
            assert!(matches!(task.resume(0), Turn::Calls(call) if call == i));
        }
        for (i, mut task) in (0_u32..4096).rev().zip(tasks.into_iter().rev()) {
            assert!(matches!(task.resume(1), Turn::Finished(end) if end == i + 1));
        }
    }
}
