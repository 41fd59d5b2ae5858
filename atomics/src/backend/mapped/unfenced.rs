//! The puts that no fence has followed yet, which decide whether a flush has to fence.
//!
//! A word put is a store with release, a bulk put on an unwatched address plain relaxed stores. A flush makes them complete: a rank that acts on a
//! later operation must not miss them, even with the store buffer's reordering (put x, read y). That takes a sequentially consistent fence, one
//! locked instruction on x86-64, between the stores and the operations after the flush. One fence serves all puts before it, and a flush without
//! puts before it needs none.
//!
//! # State
//!
//! | field | values |
//! | --- | --- |
//! | `thread` | `NONE`; the number of the one thread that has put through this handle; `MANY`. Changes in this order only |
//! | `dirty` | whether that thread has put since its last flush; only that thread accesses it |
//!
//! # Why it is right
//!
//! Let a put P happen before a flush F (if it does not, F owes it nothing). Then a fence happens after P and before
//! what follows F:
//!
//! * Both by one thread t. After P `thread` is t or `MANY`, and F reads one of them, since it comes later and the word
//!   never goes back. `MANY`: F fences. t: `dirty` was set by P, and either F finds it set and fences, or an earlier
//!   flush by t, after P, has cleared it and fenced.
//! * By threads t and u. P has read or written `thread` as t or `MANY`. That happens before F's look, which hence
//!   (coherence) sees t or `MANY`, and neither u nor `NONE`: F fences, and touches nothing.
//!
//! So no thread relies on another thread's fence, and no flag is set by one thread and cleared by another at the same
//! time. Numbers are never reused, so a thread is not mistaken for one that has ended. On x86-64 with its ordered
//! stores less would be enough; this is the argument in the C11 model, which the other processors need.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

thread_local! {
    /// The number of this thread; 0 until it has one.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// No thread has put.
const NONE: u64 = u64::MAX;
/// Several threads have put.
const MANY: u64 = u64::MAX - 1;

/// The puts of a handle, as far as its flushes have to know of them.
pub(super) struct Unfenced {
    thread: AtomicU64,
    dirty: AtomicBool,
}

impl Unfenced {
    pub(super) fn new() -> Unfenced {
        Unfenced { thread: AtomicU64::new(NONE), dirty: AtomicBool::new(false) }
    }

    /// Says that this thread has put.
    #[inline(always)]
    pub(super) fn put(&self) {
        let thread = self.thread.load(Ordering::Relaxed);
        if thread == THREAD.get() {
            self.dirty.store(true, Ordering::Relaxed);
        } else if thread != MANY {
            self.first_put();
        }
    }

    /// The first put of this thread through this handle.
    #[cold]
    fn first_put(&self) {
        static GIVEN: AtomicU64 = AtomicU64::new(0);
        if THREAD.get() == 0 {
            THREAD.set(GIVEN.fetch_add(1, Ordering::Relaxed) + 1);
        }
        let first = self.thread.compare_exchange(NONE, THREAD.get(), Ordering::Relaxed, Ordering::Relaxed);
        match first {
            Ok(_) => self.dirty.store(true, Ordering::Relaxed),
            Err(_) => self.thread.store(MANY, Ordering::Relaxed),
        }
    }

    /// Fences if a put may have come before without a fence; whether it has fenced.
    #[inline(always)]
    pub(super) fn flush(&self) -> bool {
        let thread = self.thread.load(Ordering::Relaxed);
        if thread == THREAD.get() {
            if !self.dirty.load(Ordering::Relaxed) {
                return false;
            }
            fence(Ordering::SeqCst);
            // After the fence, which so has one store less to wait for; no other thread reads it.
            self.dirty.store(false, Ordering::Relaxed);
            return true;
        }
        if thread == NONE {
            return false;
        }
        fence(Ordering::SeqCst);
        true
    }
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
