//! Fence epochs.
//!
//! # Sources
//!
//! * MPI-4.1, section 12.5.1 (fence) and section 12.5.5 (its asserts).
//! * [`FenceStrategy::Naive`]: two barriers, one before and one after everything is complete, as the papers describe what
//!   implementations did first (W. Gropp, R. Thakur, An evaluation of implementation options for MPI one-sided
//!   communication, EuroPVM/MPI 2005).
//! * [`FenceStrategy::Dissemination`]: flush, then a dissemination barrier (foMPI: R. Gerstenberger, M. Besta, T. Hoefler,
//!   SC'13, section 2.3).
//! * [`FenceStrategy::Deferred`]: see [`two_sided`](crate::two_sided).
//!
//! # Why one barrier is enough
//!
//! Operations of this layer are done at the target as soon as they are flushed, without its help. A rank that has left
//! the barrier knows that every rank has come to it, and had flushed before: so all operations of the epoch before are
//! complete everywhere (what a closing fence promises), and no rank is still in front of its fence, storing to memory that
//! operations of the epoch after it may now access (what an opening fence promises).
//!
//! # Asserts
//!
//! NOPRECEDE spares the flush; NOPRECEDE and NOSUCCEED together are no fence at all, and synchronize nothing. NOSTORE and
//! NOPUT are for caches that are not coherent, and change nothing.
//!
//! # When an epoch is open
//!
//! A fence without NOSUCCEED opens an epoch once an operation is called after it. Without one, the next call of any kind
//! of synchronization is legal, and finds nothing open. Ranks need not agree on that: what they do together, in two-sided
//! windows too, depends on the asserts alone.
//!
//! # Cost
//!
//! One flush of all targets, ⌈log₂ p⌉ word puts and as many waits; twice the puts and waits for the naive one.

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Policy, WindowLock};

use crate::trace::recorder::{Event, Kind};
use crate::{Active, Call, Error, FenceStrategy, Local, Result, Target, Window, WindowCore};

/// What the callers of a fence assert; all ranks alike for `noprecede` and `nosucceed`.
///
/// A wrong assertion is the caller's fault.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FenceAssert {
    /// This rank's part was not stored to since the last synchronization (`MPI_MODE_NOSTORE`).
    pub nostore: bool,
    /// No rank puts or accumulates to this rank's part until the next fence (`MPI_MODE_NOPUT`).
    pub noput: bool,
    /// No rank has issued operations since the last fence (`MPI_MODE_NOPRECEDE`).
    pub noprecede: bool,
    /// No rank will issue operations until the next fence (`MPI_MODE_NOSUCCEED`).
    pub nosucceed: bool,
}

impl FenceAssert {
    /// Returns whether ranks wait for each other in a fence with these assertions.
    pub(crate) fn is_synchronization(self) -> bool {
        !(self.noprecede && self.nosucceed)
    }

    /// The assertions as a trace has them.
    pub(crate) fn bits(self) -> u8 {
        let FenceAssert { nostore, noput, noprecede, nosucceed } = self;
        u8::from(nostore) | u8::from(noput) << 1 | u8::from(noprecede) << 2 | u8::from(nosucceed) << 3
    }

    pub(crate) fn from_bits(bits: u8) -> FenceAssert {
        let bit = |at: u8| bits >> at & 1 != 0;
        FenceAssert { nostore: bit(0), noput: bit(1), noprecede: bit(2), nosucceed: bit(3) }
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'t, A, W> {
    /// Synchronizes all ranks of the team, and opens an epoch of access to all of them (`MPI_Win_fence`). Collective.
    ///
    /// The epoch is open once a [target](Fence::at) was asked for. If its value is dropped then, it stays open until the
    /// next fence, which closes it; if none was asked for, any epoch may follow.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`](crate::Error::Conflict) when another epoch stands open, the error of an earlier epoch that was
    /// dropped, and [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn fence(&mut self) -> Result<Fence<'_, 't, A, W>> {
        self.fence_assert(FenceAssert::default())
    }

    /// Like [`fence`](Self::fence), with assertions.
    ///
    /// # Errors
    ///
    /// Those of [`fence`](Self::fence).
    pub fn fence_assert(&mut self, assert: FenceAssert) -> Result<Fence<'_, 't, A, W>> {
        self.raw.fence(assert)?;
        Ok(Fence { window: self })
    }
}

impl<A: RemoteAtomics + ?Sized> WindowCore<'_, A> {
    /// Calls a fence, whatever is open.
    pub(crate) fn synchronize(&self, assert: FenceAssert) -> Result<()> {
        let open = self.epochs.fence(!assert.nosucceed);
        let started = self.start_record();
        if assert.is_synchronization() {
            self.meet(assert, open).map_err(|error| self.hear(error))?;
        }
        self.record(started, Event::of(Kind::Fence).asserting(assert.bits()));
        Ok(())
    }

    fn meet(&self, assert: FenceAssert, open: bool) -> Result<()> {
        if let Some(requests) = &self.two_sided {
            return requests.fence(open && !assert.noprecede);
        }
        let barrier = || self.team.collectives().barrier();
        if self.fence == FenceStrategy::Naive {
            barrier()?;
        }
        if !assert.noprecede {
            self.ra.flush_all()?;
        }
        Ok(barrier()?)
    }
}

/// An epoch between two fences: access to all ranks of the team, and exposure to all of them.
///
/// Dropping it closes nothing, since that takes all ranks. If a target was asked for, the epoch stays open until the next
/// [`Window::fence`], and until then the window refuses every other epoch.
#[derive(Debug)]
#[must_use = "a fence epoch is closed by `next` or `close`"]
pub struct Fence<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w mut Window<'t, A, W>,
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Fence<'_, '_, A, W> {
    /// One target, or the null target.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTarget`], and [`Error::NoEpoch`] when the fence was asserted to have no operations after it.
    #[inline]
    pub fn at(&self, target: impl Into<Option<Rank>>) -> Result<Target<'_, A, Active>> {
        let core = &self.window.raw;
        if !core.epochs.is_fenced() {
            return Err(core.hear(Error::NoEpoch { rank: core.ra.rank(), call: Call::Fence }));
        }
        core.epochs.use_fence();
        core.target(Call::Fence, target.into(), false)
    }

    /// This rank's own part, as by [`WindowCore::local`](crate::WindowCore::local).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn local(&self) -> Result<Local<'_, A>> {
        self.window.local()
    }

    /// Like [`WindowCore::progress`](crate::WindowCore::progress).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn progress(&self) -> Result<()> {
        self.window.progress()
    }

    /// Closes this epoch and opens the next one: one fence. Collective.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed), and those of the network.
    pub fn next(self) -> Result<Self> {
        self.next_assert(FenceAssert::default())
    }

    /// Like [`next`](Self::next), with assertions.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next).
    pub fn next_assert(self, assert: FenceAssert) -> Result<Self> {
        self.window.raw.synchronize(assert)?;
        Ok(self)
    }

    /// Closes this epoch and opens none: a fence with NOSUCCEED. Collective.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next).
    pub fn close(self) -> Result<()> {
        self.window.raw.synchronize(FenceAssert { nosucceed: true, ..FenceAssert::default() })
    }
}
