//! The progress of a rank: it serves all of its two-sided windows while a call of this crate waits.
//!
//! # State
//!
//! Each thread has a table of the hubs of its ranks, indexed by the rank's heap. All handles of a rank, including subsets
//! and counting wrappers, lead to one handle of the world and so to one heap. A hub is not [`Send`], so only its own
//! thread waits for it. On a simulated machine many ranks share a thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use rmalab_atomics::{Attended, RemoteAtomics, Result, Served};

/// A [`Hub`](super::endpoints::Hub), which a rank serves while it waits.
pub(super) trait Serves {
    /// Serves up to one packet of each end-point. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// The errors of the network. The error of a damaged packet is kept for the next call on a window.
    fn serve(&self, world: &dyn RemoteAtomics) -> Result<bool>;
}

thread_local! {
    /// The number of hubs of all ranks.
    static OPEN: Cell<usize> = const { Cell::new(0) };
    static HUBS: RefCell<HashMap<usize, Vec<Weak<dyn Serves>>>> = RefCell::default();
}

/// Returns the key of a rank's hubs in the table.
pub(super) fn key(world: &dyn RemoteAtomics) -> usize {
    std::ptr::from_ref(world.heap()).addr()
}

/// Adds a hub of a rank.
pub(super) fn register(key: usize, hub: &Rc<impl Serves + 'static>) {
    OPEN.set(OPEN.get() + 1);
    HUBS.with_borrow_mut(|hubs| hubs.entry(key).or_default().push(Rc::downgrade(hub) as Weak<dyn Serves>));
}

/// Removes a hub of a rank.
pub(super) fn forget(key: usize) {
    // When the thread ends, the table may be gone.
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

/// Returns whether a rank of this thread may have requests to serve.
#[inline(always)]
pub(crate) fn is_needed() -> bool {
    OPEN.get() > 0
}

/// Returns the rank's hub number `index`.
fn hub(key: usize, index: usize) -> Option<Rc<dyn Serves>> {
    HUBS.with_borrow(|hubs| hubs.get(&key)?.get(index)?.upgrade())
}

/// Returns whether the caller's hub is the only one of the rank of `world`.
pub(super) fn is_only(world: &dyn RemoteAtomics) -> bool {
    let others = || HUBS.with_borrow(|hubs| hubs.get(&key(world)).is_some_and(|hubs| hubs.len() > 1));
    OPEN.get() == 1 || !others()
}

/// Serves up to one packet of each ring of the rank of `world`, without waiting.
///
/// # Errors
///
/// The errors of the network. The next call on a window of the team returns the error of a damaged packet.
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

/// Calls `body` with the handle `ra`, whose rank serves while it waits.
///
/// The handle is a trait object. Otherwise every lock would be compiled again for another type, although waits here are waits
/// for messages.
pub(crate) fn attended<A: RemoteAtomics + ?Sized, R>(ra: &A, body: impl FnOnce(&dyn RemoteAtomics) -> R) -> R {
    let world = ra.whole_world();
    body(&Attended::new(ra, move || serve(world)))
}
