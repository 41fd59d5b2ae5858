//! The open epochs of a window, without its locks.

use std::cell::{Cell, RefCell};

use rmalab_atomics::Rank;

use crate::{Error, Open};

/// An access epoch by start, or an exposure epoch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Side {
    #[default]
    Closed,
    Open,
    /// A panic has left the epoch open, and the next call ends it.
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
/// A lock of this window always needs more than the policy and a flush of the target.
const SPECIAL: u8 = 32;

/// The open epochs of a window. [`WindowLocks`](rmalab_locks::WindowLocks) has the locks.
#[derive(Debug)]
pub(crate) struct Epochs {
    /// The flags that a lock has to test; they are 0 for most locks.
    flags: Cell<u8>,
    access: Cell<Side>,
    exposure: Cell<Side>,
    /// The group of the access epoch.
    pub(crate) group: RefCell<Vec<Rank>>,
    /// True if a target of the access epoch was requested, so that operations may have been issued.
    pub(crate) used: Cell<bool>,
    failed: RefCell<Option<Error>>,
    /// The number of excluding locks that this rank holds, as [`Team::enter`](crate::Team) counts them.
    pub(crate) inside: Cell<u32>,
}

impl Epochs {
    /// Makes the state of a new window, without open epochs.
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

    /// Returns whether nothing is open or failed, and locks need only the policy and a flush of the target.
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

    /// Notes a fence, which allows operations after it if `fenced`. Returns whether the previous fence allowed
    /// operations.
    pub(crate) fn fence(&self, fenced: bool) -> bool {
        let before = self.is_fenced();
        self.set(FENCE, false);
        self.set(FENCED, fenced);
        before
    }

    /// Notes an operation after a fence.
    #[inline(always)]
    pub(crate) fn use_fence(&self) {
        self.set(FENCE, true);
    }

    /// Notes that an epoch of another kind opens, so that no operations follow the last fence.
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

    /// Returns the kind of the open epoch, without locks.
    pub(crate) fn open(&self) -> Option<Open> {
        if self.has(FENCE) {
            Some(Open::Fence)
        } else if self.has(ACCESS) {
            Some(Open::Access)
        } else {
            self.has(EXPOSURE).then_some(Open::Exposure)
        }
    }

    /// Returns the error of an epoch that ended by being dropped, once.
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
