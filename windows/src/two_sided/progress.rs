//! The progress of a rank: whatever it waits for in a call of this crate, it serves all of its two-sided windows.
//!
//! # State
//!
//! Each thread has a table of the hubs of its ranks, under the rank's heap: all handles of a rank, subsets and counts
//! included, lead to one handle of the world and so to one heap. A hub is not [`Send`], so its thread is the one that waits.
//! On a simulated machine many ranks share a thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use rmalab_atomics::{Attended, RemoteAtomics, Result, Served};

/// What a rank serves while it waits: a [`Hub`](super::ends::Hub).
pub(super) trait Serves {
    /// Serves up to one packet of each end-point; returns whether there was one.
    ///
    /// # Errors
    ///
    /// Those of the network; a damaged packet is kept for the next call on a window.
    fn serve(&self, world: &dyn RemoteAtomics) -> Result<bool>;
}

thread_local! {
    /// How many hubs there are, of any rank.
    static OPEN: Cell<usize> = const { Cell::new(0) };
    static HUBS: RefCell<HashMap<usize, Vec<Weak<dyn Serves>>>> = RefCell::default();
}

/// What a rank's hubs are found by.
pub(super) fn key(world: &dyn RemoteAtomics) -> usize {
    std::ptr::from_ref(world.heap()).addr()
}

/// A rank has one more hub.
pub(super) fn register(key: usize, hub: &Rc<impl Serves + 'static>) {
    OPEN.set(OPEN.get() + 1);
    HUBS.with_borrow_mut(|hubs| hubs.entry(key).or_default().push(Rc::downgrade(hub) as Weak<dyn Serves>));
}

/// A rank has one hub less.
pub(super) fn forget(key: usize) {
    // When the thread ends, there may be no table any more.
    let _ = OPEN.try_with(|open| open.set(open.get() - 1));
    let _ = HUBS.try_with(|hubs| {
        let mut hubs = hubs.borrow_mut();
        if let Some(of_rank) = hubs.get_mut(&key) {
            of_rank.retain(|hub| hub.strong_count() > 0);
            if of_rank.is_empty() {
                hubs.remove(&key);
            }
        }
    });
}

/// Whether a rank of this thread may have something to serve.
#[inline(always)]
pub(crate) fn is_needed() -> bool {
    OPEN.get() > 0
}

/// The rank's hub number `index`.
fn hub(key: usize, index: usize) -> Option<Rc<dyn Serves>> {
    HUBS.with_borrow(|hubs| hubs.get(&key)?.get(index)?.upgrade())
}

/// Returns whether the rank of `world` has no hub to serve but the one that asks.
pub(super) fn is_only(world: &dyn RemoteAtomics) -> bool {
    let others = || HUBS.with_borrow(|hubs| hubs.get(&key(world)).is_some_and(|hubs| hubs.len() > 1));
    OPEN.get() == 1 || !others()
}

/// Serves up to one packet of each ring of the rank of `world`; waits for nothing.
///
/// # Errors
///
/// Those of the network. A damaged packet is an error of the next call on a window of its team.
pub(crate) fn serve(world: &dyn RemoteAtomics) -> Result<Served> {
    if !is_needed() {
        return Ok(Served::Never);
    }
    let key = key(world);
    let mut served = Served::Never;
    for index in 0.. {
        let Some(hub) = hub(key, index) else { break };
        if hub.serve(world)? {
            served = Served::Something;
        } else if served == Served::Never {
            served = Served::Nothing;
        }
    }
    Ok(served)
}

/// The handle `ra`, in whose waits its rank serves.
pub(crate) fn attended<A: RemoteAtomics + ?Sized>(ra: &A) -> Attended<'_, A, impl Fn() -> Result<Served>> {
    let world = ra.whole_world();
    Attended::new(ra, move || serve(world))
}
