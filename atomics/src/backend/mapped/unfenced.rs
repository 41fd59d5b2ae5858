//! The puts that no fence has followed yet, which decide whether a flush has to fence.
//!
//! A word put is a store with release, and a bulk put on an unwatched address is plain relaxed stores. A flush makes them complete: a rank
//! that acts on a later operation must see them, even with the store buffer's reordering (put x, read y). That takes a sequentially
//! consistent fence, one locked instruction on x86-64, between the stores and the operations after the flush. One fence serves all puts of
//! a thread, through any handle, and a flush without puts before it needs none. So each thread has one flag: a put sets it, and a flush that
//! finds it set fences and clears it.
//!
//! # Why it is right
//!
//! Let a put P happen before a flush F (otherwise F need not complete it).
//!
//! * Both by one thread. P sets the flag. F finds it set and fences, or an earlier flush of the thread, after P, has cleared it and fenced.
//! * By threads t and u. Then t has stored something after P, with release, that u has read before F, with acquire. The processors of
//!   [`MULTI_COPY_ATOMIC`] show a store of one core to all other cores at once, in the order of that release. So whatever u does after F, all
//!   ranks see P ahead of it, without a fence. On any other processor, each flush fences.
//!
//! No thread sets, clears or reads the flag of another. A flag is left set by a thread that ends; nothing depends on it.

use std::cell::Cell;
use std::sync::atomic::{Ordering, fence};

thread_local! {
    /// True if this thread may have put since its last fence.
    static UNFENCED: Cell<bool> = const { Cell::new(false) };
}

/// True if no core sees another core's store before a third core can see it.
const MULTI_COPY_ATOMIC: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64", target_arch = "s390x"));

/// Notes that this thread has put.
#[inline(always)]
pub(super) fn put() {
    // Without a look: the branch would cost as much as the store.
    UNFENCED.set(true);
}

/// Fences if an earlier put may not have been fenced. Returns whether it has fenced.
#[inline(always)]
pub(super) fn flush() -> bool {
    if MULTI_COPY_ATOMIC && !UNFENCED.get() {
        return false;
    }
    fence(Ordering::SeqCst);
    // After the fence, which then waits for one store less.
    UNFENCED.set(false);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_fences_once_after_its_puts() {
        let unneeded = !MULTI_COPY_ATOMIC;
        assert_eq!(flush(), unneeded, "nothing was put");
        for _ in 0..2 {
            put();
            put();
            assert!(flush());
            assert_eq!(flush(), unneeded, "nothing was put since");
        }
    }

    #[test]
    fn a_thread_leaves_the_fence_after_its_puts_to_no_other() {
        put();
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(flush(), !MULTI_COPY_ATOMIC, "another thread's put"));
        });
        assert!(flush(), "another thread's flush is not this one's");
        std::thread::scope(|scope| {
            scope.spawn(put);
        });
        assert_eq!(flush(), !MULTI_COPY_ATOMIC, "another thread's put");
    }
}
