//! The puts that no fence has followed yet, which decide whether a flush has to fence.
//!
//! A word put is a store with release, and a bulk put on an unwatched address is plain relaxed stores. A flush makes them complete: a rank
//! that acts on a later operation must see them, even with the store buffer's reordering (put x, read y). That takes a sequentially
//! consistent fence, one locked instruction on x86-64, between the stores and the operations after the flush. One fence serves all puts
//! before it, and a flush without puts before it needs none.
//!
//! # State
//!
//! | field | values |
//! | --- | --- |
//! | `UNFENCED`, of each thread | the handle through which the thread has put since its last fence; none: the thread's own number, which is 0 before its first put |
//! | `handle` | the number of the handle, which never changes |
//! | `thread` | `NONE`; the number of the one thread that has put through this handle; `MANY`. Changes in this order only |
//!
//! No handle has a thread's number. A put through the same handle as the one before it compares two numbers, and writes nothing. So does a
//! flush without a put before it: the thread's own number is in both words. A thread that puts through another handle fences first.
//!
//! # Why it is right
//!
//! Let a put P happen before a flush F (otherwise F need not complete it). Then a fence happens after P and before what
//! follows F:
//!
//! * Both by one thread t. P leaves the handle in `UNFENCED` of t. F finds it there and fences, or t has fenced after P: by a flush,
//!   or by a put through another handle.
//! * By threads t and u. P, or an earlier put of t that has left the handle in `UNFENCED`, has read or written `thread` as t or `MANY`.
//!   That happens before F's look. So by coherence the look sees t or `MANY`, and neither u nor `NONE`: F fences.
//!
//! So no thread relies on another thread's fence, and no flag is set by one thread and cleared by another. Numbers are never reused, so
//! neither a thread nor a handle is mistaken for one that has ended. On x86-64, with its ordered stores, less would be enough. This is
//! the argument in the C11 model, which the other processors need.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, fence};

thread_local! {
    /// The number of this thread; 0 until it has one.
    static THREAD: Cell<u64> = const { Cell::new(0) };
    /// The number of the handle through which this thread has put since its last fence, or this thread's own number.
    static UNFENCED: Cell<u64> = const { Cell::new(0) };
}

/// No thread has put.
const NONE: u64 = u64::MAX;
/// Several threads have put through the handle.
const MANY: u64 = u64::MAX - 1;

/// A number that no thread and no handle has had.
fn number() -> u64 {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    GIVEN.fetch_add(1, Ordering::Relaxed) + 1
}

/// The state of a handle's puts that its flushes need.
pub(super) struct Unfenced {
    handle: u64,
    thread: AtomicU64,
}

impl Unfenced {
    pub(super) fn new() -> Unfenced {
        Unfenced { handle: number(), thread: AtomicU64::new(NONE) }
    }

    /// Notes that this thread has put.
    #[inline(always)]
    pub(super) fn put(&self) {
        let of = UNFENCED.get();
        if of != self.handle {
            if of == self.thread.load(Ordering::Relaxed) {
                // This thread's number is in both: nothing else has to be noted.
                UNFENCED.set(self.handle);
            } else {
                self.first_since_fence();
            }
        }
    }

    /// Notes a put of this thread after puts through another handle, and the first put of a thread.
    #[inline(never)]
    fn first_since_fence(&self) {
        if UNFENCED.get() != THREAD.get() {
            // It completes the puts through the other handle, which `UNFENCED` then no longer names.
            fence(Ordering::SeqCst);
        }
        let thread = self.thread.load(Ordering::Relaxed);
        if thread != THREAD.get() && thread != MANY {
            self.first_put();
        }
        UNFENCED.set(self.handle);
    }

    /// Notes the first put of this thread through this handle.
    #[cold]
    fn first_put(&self) {
        if THREAD.get() == 0 {
            THREAD.set(number());
        }
        let first = self.thread.compare_exchange(NONE, THREAD.get(), Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err() {
            self.thread.store(MANY, Ordering::Relaxed);
        }
    }

    /// Fences if an earlier put may not have been fenced. Returns whether it has fenced.
    #[inline(always)]
    pub(super) fn flush(&self) -> bool {
        let of = UNFENCED.get();
        let thread = self.thread.load(Ordering::Relaxed);
        // The usual case of a flush without a put comes first, so that it takes no other branch.
        if of == thread {
            return false;
        }
        if of != self.handle {
            return thread != NONE && flush_for_others(thread);
        }
        // This thread has put, so its number is in `thread`, unless others have put, too. The look at `THREAD` is ahead of
        // the fence, since a load after it would wait for it.
        let own = if thread == MANY { THREAD.get() } else { thread };
        fence(Ordering::SeqCst);
        // After the fence, which then waits for one store less.
        UNFENCED.set(own);
        true
    }
}

/// Fences unless `thread`, through which all puts of a handle have come, is this thread. Its own puts through that handle are complete.
#[inline(never)]
fn flush_for_others(thread: u64) -> bool {
    if thread == THREAD.get() {
        return false;
    }
    fence(Ordering::SeqCst);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_fences_once_after_its_puts() {
        let unfenced = Unfenced::new();
        assert!(!unfenced.flush(), "nothing was put");
        for _ in 0..2 {
            unfenced.put();
            unfenced.put();
            assert!(unfenced.flush());
            assert!(!unfenced.flush(), "nothing was put since");
        }
    }

    #[test]
    fn a_thread_fences_for_the_puts_of_others_without_keeping_them_from_it() {
        let unfenced = Unfenced::new();
        unfenced.put();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(unfenced.flush());
                assert!(unfenced.flush(), "it cannot know whether the other thread has put since");
            });
        });
        assert!(unfenced.flush(), "another thread's fence is not this one's");
        assert!(!unfenced.flush());
        std::thread::scope(|scope| {
            scope.spawn(|| unfenced.put());
        });
        assert!(unfenced.flush() && unfenced.flush(), "with several that put, every flush fences");
    }

    #[test]
    fn a_thread_may_put_through_several_handles() {
        let handles = [Unfenced::new(), Unfenced::new()];
        for unfenced in &handles {
            unfenced.put();
        }
        assert!(!handles[0].flush(), "the put through the other handle has fenced");
        assert!(handles[1].flush());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(handles.iter().all(Unfenced::flush), "each has puts of another thread"));
        });
    }

    #[test]
    fn a_later_thread_is_not_taken_for_an_earlier_one() {
        let unfenced = Unfenced::new();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                scope.spawn(|| unfenced.put());
            });
        }
        assert!(unfenced.flush());
    }
}
