//! The managed windows of this rank, by their handles.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use crate::boundary::host::Win;
use crate::policy::Managed;

struct Table {
    /// The window of the last call, which is mostly that of the next one.
    last: Option<Rc<Managed>>,
    /// All windows, in the order in which they were made, which is the same at all ranks of a communicator.
    all: Vec<Rc<Managed>>,
}

thread_local! {
    /// The windows of the thread that makes the calls. A program with calls of several threads has none.
    ///
    /// They are not dropped with the thread, since MPI may be gone by then.
    static TABLE: ManuallyDrop<RefCell<Table>> =
        const { ManuallyDrop::new(RefCell::new(Table { last: None, all: Vec::new() })) };
}

/// Returns the window with this handle, if it is managed.
#[inline]
pub(crate) fn find(win: Win) -> Option<Rc<Managed>> {
    TABLE.with(|table| {
        let mut table = table.borrow_mut();
        match &table.last {
            Some(last) if last.win == win => Some(Rc::clone(last)),
            _ => {
                let found = table.all.iter().find(|window| window.win == win).cloned()?;
                table.last = Some(Rc::clone(&found));
                Some(found)
            }
        }
    })
}

/// Adds a window.
pub(crate) fn add(window: Managed) {
    TABLE.with(|table| table.borrow_mut().all.push(Rc::new(window)));
}

/// Takes out the window with this handle. No call on it is under way, since it is being freed.
pub(crate) fn take(win: Win) -> Option<Managed> {
    let found = TABLE.with(|table| {
        let mut table = table.borrow_mut();
        table.last = None;
        let at = table.all.iter().position(|window| window.win == win)?;
        Some(table.all.remove(at))
    });
    found.and_then(Rc::into_inner)
}

/// Takes out the oldest window.
pub(crate) fn take_oldest() -> Option<Managed> {
    let oldest = TABLE.with(|table| table.borrow().all.first().map(|window| window.win))?;
    take(oldest)
}
