//! The locks that a rank holds, with the caller's assertions.

use std::num::NonZeroU64;

use rmalab_atomics::Rank;

use crate::LockKind;

/// An assertion of the caller of lock or lock_all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Assert {
    /// Nothing.
    #[default]
    None,
    /// No rank holds or attempts a conflicting lock meanwhile (`MPI_MODE_NOCHECK`). The assertion skips the acquisition and the matching
    /// release, and nothing else. A wrong assertion is not detected.
    NoCheck,
}

/// The bits of a [`Held`] below the target: always set, not checked, exclusive.
const HELD: NonZeroU64 = NonZeroU64::MIN;
const NO_CHECK: u64 = 2;
const EXCLUSIVE: u64 = 4;

/// A lock that this rank holds, in one word: a lock is stored and soon read again, and a read of a whole that was stored in parts waits for
/// all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held(NonZeroU64);

impl Held {
    #[inline(always)]
    pub(super) fn new(target: Rank, kind: LockKind, assert: Assert) -> Held {
        let exclusive = if kind == LockKind::Exclusive { EXCLUSIVE } else { 0 };
        let no_check = if assert == Assert::NoCheck { NO_CHECK } else { 0 };
        Held(HELD | u64::from(target.0) << 3 | exclusive | no_check)
    }

    #[inline(always)]
    pub(super) fn target(self) -> Rank {
        Rank((self.0.get() >> 3) as u32)
    }

    #[inline(always)]
    pub(super) fn kind(self) -> LockKind {
        if self.0.get() & EXCLUSIVE != 0 { LockKind::Exclusive } else { LockKind::Shared }
    }

    #[inline(always)]
    pub(super) fn assert(self) -> Assert {
        if self.0.get() & NO_CHECK != 0 { Assert::NoCheck } else { Assert::None }
    }
}

/// The locks that a rank holds, the latest apart, since most ranks hold one lock at a time.
#[derive(Debug)]
pub(super) struct Holdings {
    pub(super) latest: Option<Held>,
    /// Those before, in any order.
    pub(super) earlier: Vec<Held>,
}

impl Holdings {
    pub(super) fn new() -> Holdings {
        // Room for a stencil's neighbours. More locks cost an allocation.
        Holdings { latest: None, earlier: Vec::with_capacity(8) }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.latest.is_none() && self.earlier.is_empty()
    }

    #[inline(always)]
    pub(super) fn of(&self, target: Rank) -> Option<Held> {
        match self.latest {
            Some(held) if held.target() == target => Some(held),
            _ => self.earlier.iter().rev().find(|held| held.target() == target).copied(),
        }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, held: Held) {
        if let Some(before) = self.latest {
            self.earlier.push(before);
        }
        self.latest = Some(held);
    }

    /// Removes the lock of `target`, and returns it.
    #[inline(always)]
    pub(super) fn remove(&mut self, target: Rank) -> Option<Held> {
        match self.latest {
            Some(held) if held.target() == target => {
                self.latest = self.earlier.pop();
                Some(held)
            }
            _ => {
                let at = self.earlier.iter().rposition(|held| held.target() == target)?;
                Some(self.earlier.swap_remove(at))
            }
        }
    }

    /// Returns the locks, the latest last.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.earlier.iter().chain(&self.latest)
    }
}
