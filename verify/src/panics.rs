//! Panics that the engines catch. A rank's panic is a finding; a model checker's panic ends an execution.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::Property;

/// Keeps the panic by which a model checker ends a rank, since the rank's code may catch panics.
///
/// The rank's code is unwound by a different panic. If the code catches this panic, its result is ignored. The code
/// makes no further call, and its thread finally resumes the model checker's panic.
#[derive(Default)]
pub(crate) struct Exit {
    payload: Cell<Option<Box<dyn Any + Send>>>,
    over: Cell<bool>,
}

impl Exit {
    /// Runs `body`, which is code of the engine, and returns its value to the rank's code.
    pub(crate) fn guard<T>(&self, body: impl FnOnce() -> T) -> T {
        if self.over.get() {
            panic::resume_unwind(Box::new(GivenUp));
        }
        panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
            self.payload.set(Some(payload));
            self.over.set(true);
            panic::resume_unwind(Box::new(GivenUp))
        })
    }

    /// Resumes the model checker's panic, if there was one. The caller is the end of the rank's code.
    pub(crate) fn leave(&self) {
        if let Some(payload) = self.payload.take() {
            panic::resume_unwind(payload);
        }
    }
}

/// The panic that unwinds the code of a rank that the model checker has ended.
struct GivenUp;

thread_local! {
    /// True if a panic of this thread is a finding, so that nothing is printed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A caught panic: its message, with its source position if [`quietly`] was the first to catch it.
pub(crate) struct Panicked {
    pub(crate) text: String,
}

/// Returns the value of `body`, or its panic, without printing the panic.
pub(crate) fn quietly<T>(body: impl FnOnce() -> T) -> Result<T, Panicked> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        use_up_shuttles_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                let place = info.location().map_or(String::new(), |at| format!(" ({}:{})", at.file(), at.line()));
                PANIC.set(Some(format!("{}{place}", text_of(info.payload()))));
            } else {
                before(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    QUIET.set(outer);
    result.map_err(|payload| Panicked { text: PANIC.take().unwrap_or_else(|| text_of(&*payload)) })
}

/// Makes shuttle set its panic hook, and removes the hook.
///
/// Shuttle sets the hook at its first run, and never again. The hook would print every panic of the process as a panic
/// of shuttle.
fn use_up_shuttles_hook() {
    let mut config = shuttle::Config::new();
    config.failure_persistence = shuttle::FailurePersistence::None;
    shuttle::Runner::new(shuttle::scheduler::DfsScheduler::new(Some(1), false), config).run(|| ());
    drop(panic::take_hook());
}

/// The property that a rank's panic breaks, and the text for the report.
pub(crate) fn panicked(text: &str) -> (Property, String) {
    (Property::Invariant, format!("panicked: {text}"))
}

/// Locks a mutex, even after a panic: no code of the engines panics between two related writes to the same mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The message of a panic.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}
