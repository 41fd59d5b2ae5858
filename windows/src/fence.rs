//! Fence epochs.
//!
//! # Sources
//!
//! * MPI-4.1, section 12.5.1 (fence) and section 12.5.5 (its asserts).
//! * [`FenceStrategy::Naive`]: two barriers, one before and one after all operations are complete. The papers describe early
//!   implementations like this (W. Gropp, R. Thakur, An evaluation of implementation options for MPI one-sided
//!   communication, EuroPVM/MPI 2005).
//! * [`FenceStrategy::Dissemination`]: flush, then a dissemination barrier (foMPI: R. Gerstenberger, M. Besta, T. Hoefler,
//!   SC'13, section 2.3); where ranks share processors, another barrier.
//! * [`FenceStrategy::Deferred`]: see [`two_sided`](crate::two_sided).
//!
//! # Why one barrier is enough
//!
//! Operations of this layer are complete at the target when they are flushed, without the target's help. When a rank leaves the barrier,
//! every rank has reached it, and has flushed before. So all operations of the previous epoch are complete everywhere, as a closing fence
//! promises. And no rank is still before its fence, storing to memory that operations of the next epoch may now access, as an opening
//! fence promises.
//!
//! # Asserts
//!
//! NOPRECEDE saves the flush. NOPRECEDE and NOSUCCEED together are no fence at all, and synchronize nothing. NOSTORE and NOPUT concern
//! caches that are not coherent, and change nothing.
//!
//! # When an epoch is open
//!
//! A fence without NOSUCCEED opens an epoch when an operation follows it. Without an operation, no epoch is open, and any synchronization
//! call may follow. Ranks need not agree on that: their common steps depend only on the asserts, even in two-sided windows.
//!
//! # Cost
//!
//! One flush of all targets and a [barrier](rmalab_atomics::Collectives::barrier): ⌈log₂ p⌉ word puts and the same number of waits, or,
//! where ranks share processors, an addition and a wait. The naive fence has two barriers.

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Policy, WindowLock};

use crate::trace::recorder::{Event, Kind};
use crate::{Active, Call, Error, FenceStrategy, Local, Result, Target, Window, WindowCore};

/// Assertions of a fence. All ranks pass the same values of `noprecede` and `nosucceed`.
///
/// The program is responsible for their truth.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FenceAssert {
    /// This rank has not stored to its part since the last synchronization (`MPI_MODE_NOSTORE`).
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

    /// Returns the assertions in the form of a trace.
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
    /// The epoch is open once the program takes a [target](Fence::at) from it. If the value is dropped then, the epoch stays open until the
    /// next fence, which closes it. If the program took no target, any epoch may follow.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`](crate::Error::Conflict) when another epoch is open, the error of an earlier epoch that was dropped, and
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn fence(&mut self) -> Result<Fence<'_, 't, A, W>> {
        self.fence_assert(FenceAssert::default())
    }

    /// Does what [`fence`](Self::fence) does, with assertions.
    ///
    /// # Errors
    ///
    /// The errors of [`fence`](Self::fence).
    pub fn fence_assert(&mut self, assert: FenceAssert) -> Result<Fence<'_, 't, A, W>> {
        self.raw.fence(assert)?;
        Ok(Fence { window: self })
    }
}

impl<A: RemoteAtomics + ?Sized> WindowCore<'_, A> {
    /// Calls a fence, with any epoch open.
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
/// Dropping it closes nothing, since closing needs all ranks. If the program took a target from it, the epoch stays open until the next
/// [`Window::fence`]. Until then the window refuses every other epoch.
#[derive(Debug)]
#[must_use = "a fence epoch is closed by `next` or `close`"]
pub struct Fence<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w mut Window<'t, A, W>,
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Fence<'_, '_, A, W> {
    /// Returns one target, or the null target.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTarget`], and [`Error::NoEpoch`] when the fence was asserted to have no operations after it.
    #[inline(always)] // a target that a call returns is copied through memory
    pub fn at(&self, target: impl Into<Option<Rank>>) -> Result<Target<'_, A, Active>> {
        let core = &self.window.raw;
        if !core.epochs.is_fenced() {
            return Err(core.hear(Error::NoEpoch { rank: core.ra.rank(), call: Call::Fence }));
        }
        core.epochs.use_fence();
        core.target(Call::At, Call::Fence, target.into(), false)
    }

    /// Returns access to this rank's part, like [`WindowCore::local`](crate::WindowCore::local).
    ///
    /// # Errors
    ///
    /// See [`WindowCore::local`](crate::WindowCore::local).
    pub fn local(&self) -> Result<Local<'_, A>> {
        self.window.local()
    }

    /// Does what [`WindowCore::progress`](crate::WindowCore::progress) does.
    ///
    /// # Errors
    ///
    /// See [`WindowCore::progress`](crate::WindowCore::progress).
    pub fn progress(&self) -> Result<()> {
        self.window.progress()
    }

    /// Closes this epoch and opens the next one with one fence. Collective.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed), and the errors of the network.
    pub fn next(self) -> Result<Self> {
        self.next_assert(FenceAssert::default())
    }

    /// Does what [`next`](Self::next) does, with assertions.
    ///
    /// # Errors
    ///
    /// The errors of [`next`](Self::next).
    pub fn next_assert(self, assert: FenceAssert) -> Result<Self> {
        self.window.raw.synchronize(assert)?;
        Ok(self)
    }

    /// Closes this epoch without opening another one: a fence with NOSUCCEED. Collective.
    ///
    /// # Errors
    ///
    /// The errors of [`next`](Self::next).
    pub fn close(self) -> Result<()> {
        self.window.raw.synchronize(FenceAssert { nosucceed: true, ..FenceAssert::default() })
    }
}
