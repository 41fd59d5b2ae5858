//! State of programs whose calls of MPI come from one thread, without the cost of a thread's own variables.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a window is, or was, managed, which happens only in such programs.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// A value that only calls of MPI use. It is not dropped at the program's end, since MPI may be gone by then.
pub(crate) struct OneThread<T>(ManuallyDrop<T>);

// SAFETY: the value is reached by `get` and `enter` only. Before the first `enter`, `get` returns nothing. `enter` is called when a window
// becomes managed, so never in a program that has asked MPI for calls from several threads (`host::has_one_thread`). A program that
// calls MPI from several threads without asking breaks MPI's rules, and has undefined behaviour without this library, too.
unsafe impl<T> Sync for OneThread<T> {}

impl<T> OneThread<T> {
    pub(crate) const fn new(value: T) -> OneThread<T> {
        OneThread(ManuallyDrop::new(value))
    }

    /// Returns the value, unless no window was ever managed.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        IN_USE.load(Ordering::Relaxed).then_some(&*self.0)
    }

    /// Returns the value, for a window that becomes managed.
    pub(crate) fn enter(&self) -> &T {
        assert!(super::host::has_one_thread(), "a window is managed in a program with calls of several threads");
        IN_USE.store(true, Ordering::Relaxed);
        &self.0
    }
}
