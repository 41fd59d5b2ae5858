//! The managed windows of this rank, by their handles.

use std::cell::RefCell;
use std::rc::Rc;

use crate::boundary::host::Win;
use crate::boundary::native::{self, Native};
use crate::boundary::one_thread::OneThread;
use crate::policy::Managed;

/// A managed window.
pub(crate) enum Window {
    Policy(Managed),
    Native(Native),
}

impl Window {
    #[inline(always)]
    pub(crate) fn win(&self) -> Win {
        match self {
            Window::Policy(window) => window.win,
            Window::Native(window) => window.win,
        }
    }

    /// Returns the choices in force, as info keys.
    pub(crate) fn in_force(&self) -> Vec<(&'static str, String)> {
        match self {
            Window::Policy(window) => window.in_force(),
            Window::Native(window) => window.in_force(),
        }
    }
}

struct Table {
    /// The window of the last call, which is mostly that of the next one.
    last: Option<Rc<Window>>,
    /// All windows, in the order in which they were made, which is the same at all ranks of a communicator.
    all: Vec<Rc<Window>>,
}

static TABLE: OneThread<RefCell<Table>> = OneThread::new(RefCell::new(Table { last: None, all: Vec::new() }));

/// Returns the window with this handle, if it is managed.
#[inline(always)]
pub(crate) fn find(win: Win) -> Option<Rc<Window>> {
    let table = TABLE.get()?;
    match &table.borrow().last {
        Some(last) if last.win() == win => return Some(Rc::clone(last)),
        _ => {}
    }
    search(win)
}

#[cold]
#[inline(never)]
fn search(win: Win) -> Option<Rc<Window>> {
    let mut table = TABLE.get()?.borrow_mut();
    let found = table.all.iter().find(|window| window.win() == win).cloned()?;
    table.last = Some(Rc::clone(&found));
    native::set_last(&found);
    Some(found)
}

/// Adds a window.
pub(crate) fn add(window: Window) {
    TABLE.enter().borrow_mut().all.push(Rc::new(window));
}

/// Takes out the window with this handle. No call on it is under way, since it is being freed.
pub(crate) fn take(win: Win) -> Option<Window> {
    let found = {
        let mut table = TABLE.get()?.borrow_mut();
        table.last = None;
        native::forget_last();
        let at = table.all.iter().position(|window| window.win() == win)?;
        table.all.remove(at)
    };
    Rc::into_inner(found)
}

/// Takes out the oldest window.
pub(crate) fn take_oldest() -> Option<Window> {
    let oldest = TABLE.get()?.borrow().all.first().map(|window| window.win())?;
    take(oldest)
}
