//! The managed windows of this rank, by their handles.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use crate::boundary::host::Win;
use crate::boundary::native::{self, Native};
use crate::boundary::threads::{self, Guarded, Pass};
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

/// A window, and the mark of the call that uses it.
struct Entry {
    window: Window,
    /// The number of the thread whose call is on its way, where there may be several, or 0.
    mark: Cell<u64>,
}

struct Table {
    /// The window of the last call, which is mostly the window of the next call, too.
    last: Option<Rc<Entry>>,
    /// All windows, in the order in which they were made, which is the same at all ranks of a communicator.
    all: Vec<Rc<Entry>>,
}

static TABLE: Guarded<RefCell<Table>> = Guarded::new(RefCell::new(Table { last: None, all: Vec::new() }));

/// The window of a call, which no other thread's call uses meanwhile.
pub(crate) struct Entered {
    // Dropped in this order: the count of the entry belongs to the shared state.
    entry: Rc<Entry>,
    /// True if this call has marked the window. A call that an error handler makes finds the mark of its own thread.
    is_marked: bool,
    _pass: Pass,
}

impl Deref for Entered {
    type Target = Window;

    #[inline(always)]
    fn deref(&self) -> &Window {
        &self.entry.window
    }
}

impl Drop for Entered {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_marked {
            self.entry.mark.set(0);
            threads::notify_unmarked();
        }
    }
}

/// Returns the window with this handle, if it is managed.
#[inline(always)]
pub(crate) fn find(win: Win) -> Option<Entered> {
    let pass = threads::pass();
    let entry = find_entry(win)?;
    if threads::are_many() {
        return enter(win, entry, pass);
    }
    Some(Entered { entry, is_marked: false, _pass: pass })
}

/// Marks the window, once no other thread's call uses it.
#[cold]
#[inline(never)]
fn enter(win: Win, mut entry: Rc<Entry>, pass: Pass) -> Option<Entered> {
    let number = threads::number();
    loop {
        let mark = entry.mark.get();
        if mark == 0 || mark == number {
            entry.mark.set(number);
            return Some(Entered { entry, is_marked: mark == 0, _pass: pass });
        }
        drop(entry);
        threads::wait_for_mark();
        // Another thread may have freed it.
        entry = find_entry(win)?;
    }
}

#[inline(always)]
fn find_entry(win: Win) -> Option<Rc<Entry>> {
    let table = TABLE.get()?;
    match &table.borrow().last {
        Some(last) if last.window.win() == win => return Some(Rc::clone(last)),
        _ => {}
    }
    search(win)
}

#[cold]
#[inline(never)]
fn search(win: Win) -> Option<Rc<Entry>> {
    let mut table = TABLE.get()?.borrow_mut();
    let found = table.all.iter().find(|entry| entry.window.win() == win).cloned()?;
    table.last = Some(Rc::clone(&found));
    native::set_last(&found.window);
    Some(found)
}

/// Adds a window.
pub(crate) fn add(window: Window) {
    TABLE.enter().borrow_mut().all.push(Rc::new(Entry { window, mark: Cell::new(0) }));
}

/// Takes out the window with this handle. The caller is inside the gate. No call on the window is under way, since it is being freed.
pub(crate) fn take(win: Win) -> Option<Window> {
    let found = {
        let mut table = TABLE.get()?.borrow_mut();
        table.last = None;
        native::forget_last();
        let at = table.all.iter().position(|entry| entry.window.win() == win)?;
        table.all.remove(at)
    };
    Rc::into_inner(found).map(|entry| entry.window)
}

/// Takes out the oldest window.
pub(crate) fn take_oldest() -> Option<Window> {
    let oldest = TABLE.get()?.borrow().all.first().map(|entry| entry.window.win())?;
    take(oldest)
}
