//! What stands open on a window beside its locks.

use std::cell::{Cell, RefCell};

use rmalab_atomics::Rank;

use crate::{Error, Open};

/// An access epoch by start, or an exposure epoch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Side {
    #[default]
    Closed,
    Open,
    /// A panic has left it, and the next call ends it.
    Abandoned,
}

/// The last fence allows operations after it.
const FENCED: u8 = 1;
/// An operation was called after the fence: its epoch is open.
const FENCE: u8 = 2;
/// An access epoch by start is open, or abandoned.
const ACCESS: u8 = 4;
/// An exposure epoch is open, or abandoned.
const EXPOSURE: u8 = 8;
/// An epoch ended by being dropped, with an error.
const FAILED: u8 = 16;
/// Locks of this window are more than the policy's and a flush of the target, whatever is open.
const SPECIAL: u8 = 32;

/// What stands open on a window beside locks, which [`WindowLocks`](rmalab_locks::WindowLocks) keeps.
#[derive(Debug)]
pub(crate) struct Epochs {
    /// All that a lock has to look at: nothing, for most locks.
    flags: Cell<u8>,
    access: Cell<Side>,
    exposure: Cell<Side>,
    /// The group of the access epoch.
    pub(crate) group: RefCell<Vec<Rank>>,
    /// Whether a target of the access epoch was asked for, and so something may have been issued.
    pub(crate) used: Cell<bool>,
    failed: RefCell<Option<Error>>,
    /// How many locks this rank holds that keep others from theirs, of those that [`Team::enter`](crate::Team) knows.
    pub(crate) inside: Cell<u32>,
}

impl Epochs {
    /// Nothing is open on a new window.
    pub(crate) fn new(special: bool) -> Epochs {
        Epochs {
            flags: Cell::new(if special { SPECIAL } else { 0 }),
            access: Cell::default(),
            exposure: Cell::default(),
            group: RefCell::default(),
            used: Cell::default(),
            failed: RefCell::default(),
            inside: Cell::default(),
        }
    }

    /// Returns whether nothing is open or failed, and locks need nothing but the policy and a flush of the target.
    #[inline(always)]
    pub(crate) fn are_plain(&self) -> bool {
        self.flags.get() == 0
    }

    #[inline(always)]
    fn has(&self, flag: u8) -> bool {
        self.flags.get() & flag != 0
    }

    #[inline(always)]
    fn set(&self, flag: u8, on: bool) {
        let others = self.flags.get() & !flag;
        self.flags.set(if on { others | flag } else { others });
    }

    /// Returns whether operations may follow the last fence.
    #[inline(always)]
    pub(crate) fn is_fenced(&self) -> bool {
        self.has(FENCED)
    }

    /// A fence is called, and allows operations after it or not. Returns whether the one before did.
    pub(crate) fn fence(&self, fenced: bool) -> bool {
        let before = self.is_fenced();
        self.set(FENCE, false);
        self.set(FENCED, fenced);
        before
    }

    /// An operation is called after a fence.
    #[inline(always)]
    pub(crate) fn use_fence(&self) {
        self.set(FENCE, true);
    }

    /// An epoch of another kind opens: no operations follow the last fence.
    pub(crate) fn leave_fence(&self) {
        self.set(FENCED, false);
    }

    pub(crate) fn access(&self) -> Side {
        self.access.get()
    }

    pub(crate) fn set_access(&self, side: Side) {
        self.access.set(side);
        self.set(ACCESS, side != Side::Closed);
    }

    pub(crate) fn exposure(&self) -> Side {
        self.exposure.get()
    }

    pub(crate) fn set_exposure(&self, side: Side) {
        self.exposure.set(side);
        self.set(EXPOSURE, side != Side::Closed);
    }

    /// What stands open beside locks.
    pub(crate) fn open(&self) -> Option<Open> {
        if self.has(FENCE) {
            Some(Open::Fence)
        } else if self.has(ACCESS) {
            Some(Open::Access)
        } else {
            self.has(EXPOSURE).then_some(Open::Exposure)
        }
    }

    /// The error of an epoch that ended by being dropped, once.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.set(FAILED, false);
        self.failed.take()
    }

    /// Keeps the error of an epoch that ended by being dropped.
    pub(crate) fn keep_failure(&self, error: Error) {
        self.set(FAILED, true);
        self.failed.replace(Some(error));
    }
}
