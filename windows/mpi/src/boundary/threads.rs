//! State that calls of MPI share, and the order of calls from several threads.
//!
//! A program that asks for less than `MPI_THREAD_MULTIPLE` makes one call at a time, and orders its calls (MPI-4.1, section 11.6.2). With
//! `MPI_THREAD_MULTIPLE`, calls that need the state pass a *gate*, one thread at a time. A thread leaves the gate while it waits for
//! other ranks, since these may wait for another thread of its process. So three rules hold:
//!
//! * The state is used inside the gate only.
//! * A call that blocks in the host does so [`outside`].
//! * A wait of the engine lets other threads pass now and then ([`breathe`]). A window whose call waits is marked, and other threads' calls
//!   on it wait until that call ends (`table`). No borrow of shared state lasts over a wait.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};

use rmalab_atomics::Served;

/// True once a window has been managed.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// True if several threads of this process may call MPI at a time.
static MANY: AtomicBool = AtomicBool::new(false);

/// A value that only calls of MPI use. It is not dropped at the program's end, since MPI may be gone by then.
pub(crate) struct Guarded<T>(ManuallyDrop<T>);

// SAFETY: the value is reached by `get` and `enter` only, in calls of MPI. No two calls use it at a time: the program orders them, or the
// gate does (see the module). A program that makes simultaneous calls without asking for that level breaks MPI's rules. It has
// undefined behaviour without this library, too.
unsafe impl<T> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Guarded<T> {
        Guarded(ManuallyDrop::new(value))
    }

    /// Returns the value, unless no window was ever managed.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        if !IN_USE.load(Ordering::Relaxed) {
            return None;
        }
        debug_assert!(!are_many() || HOLDS.get(), "the state is used outside the gate");
        Some(&self.0)
    }

    /// Returns the value, for a window that becomes managed.
    pub(crate) fn enter(&self) -> &T {
        assert!(!are_many() || HOLDS.get(), "the state is used outside the gate");
        IN_USE.store(true, Ordering::Relaxed);
        &self.0
    }
}

/// Asks the host once, ahead of the first managed window, whether several threads may call MPI at a time.
pub(crate) fn learn(are_many: fn() -> bool) {
    static ASKED: Once = Once::new();
    ASKED.call_once(|| MANY.store(are_many(), Ordering::Relaxed));
}

/// Returns whether several threads may call MPI at a time.
#[inline(always)]
pub(crate) fn are_many() -> bool {
    MANY.load(Ordering::Relaxed)
}

/// The gate: true while a thread is inside, and the number of threads that wait for it.
struct Gate {
    is_taken: bool,
    waiting: u32,
}

static GATE: Mutex<Gate> = Mutex::new(Gate { is_taken: false, waiting: 0 });
/// The gate is free.
static FREE: Condvar = Condvar::new();
/// The mark of a window is gone.
static UNMARKED: Condvar = Condvar::new();

thread_local! {
    /// True if this thread is inside the gate.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
    /// The number of this thread, from 1; 0 until it has one.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of this thread, which no other thread has.
pub(crate) fn number() -> u64 {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    if NUMBER.get() == 0 {
        NUMBER.set(GIVEN.fetch_add(1, Ordering::Relaxed) + 1);
    }
    NUMBER.get()
}

fn gate() -> MutexGuard<'static, Gate> {
    // The two fields are right after a panic, too.
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(mut gate: MutexGuard<'static, Gate>) {
    gate.waiting += 1;
    while gate.is_taken {
        gate = FREE.wait(gate).unwrap_or_else(PoisonError::into_inner);
    }
    gate.waiting -= 1;
    gate.is_taken = true;
    HOLDS.set(true);
}

fn leave() -> MutexGuard<'static, Gate> {
    HOLDS.set(false);
    let mut gate = gate();
    gate.is_taken = false;
    FREE.notify_one();
    gate
}

/// A thread inside the gate, which leaves it when this is dropped.
pub(crate) struct Pass {
    /// True if the thread was outside before.
    is_outer: bool,
}

/// Lets this thread pass the gate, if it is not inside. In a program whose calls are ordered there is no gate.
#[inline(always)]
pub(crate) fn pass() -> Pass {
    Pass { is_outer: are_many() && wait_for_gate() }
}

#[cold]
fn wait_for_gate() -> bool {
    if HOLDS.get() {
        return false;
    }
    take(gate());
    true
}

impl Drop for Pass {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_outer {
            drop(leave());
        }
    }
}

/// Leaves the gate for a call of the host that may wait for other ranks, or that calls the program.
pub(crate) fn outside<R>(call: impl FnOnce() -> R) -> R {
    if !are_many() || !HOLDS.get() {
        return call();
    }
    drop(leave());
    let done = call();
    take(gate());
    done
}

/// Leaves the gate for a moment of a wait. Returns what `serve` does; or [`Served::Something`] if other threads want to pass, so that the
/// next moment comes soon.
pub(crate) fn breathe(serve: impl FnOnce() -> Served) -> Served {
    if !are_many() || !HOLDS.get() {
        return serve();
    }
    drop(leave());
    let served = serve();
    let gate = gate();
    let others = gate.waiting > 0;
    take(gate);
    if others { Served::Something } else { served }
}

/// Leaves the gate until the mark of some window is gone.
pub(crate) fn wait_for_mark() {
    let mut gate = leave();
    gate = UNMARKED.wait(gate).unwrap_or_else(PoisonError::into_inner);
    take(gate);
}

/// A mark of a window is gone. The thread is inside the gate.
pub(crate) fn notify_unmarked() {
    UNMARKED.notify_all();
}
