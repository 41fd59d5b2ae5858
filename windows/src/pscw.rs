//! Epochs by post, start, complete and wait, as values. raw/matching.rs has the protocols with which the ranks meet.

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::{Policy, WindowLock};

use crate::raw::RawWindow;
use crate::raw::epochs::Side;
use crate::{Active, Call, Local, Result, Target, Window};

/// Assertions of start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StartAssert {
    /// The targets have posted already, and each of them with `nocheck` (`MPI_MODE_NOCHECK`).
    pub nocheck: bool,
}

/// Assertions of post.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PostAssert {
    /// The origins have not started yet, and each of them will start with `nocheck` (`MPI_MODE_NOCHECK`).
    pub nocheck: bool,
    /// This rank has not stored to its part since the last synchronization (`MPI_MODE_NOSTORE`).
    pub nostore: bool,
    /// No rank puts or accumulates to this rank's part in this epoch (`MPI_MODE_NOPUT`).
    pub noput: bool,
}

impl StartAssert {
    /// Returns the assertions in the form of a trace.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.nocheck)
    }

    pub(crate) fn from_bits(bits: u8) -> StartAssert {
        StartAssert { nocheck: bits & 1 != 0 }
    }
}

impl PostAssert {
    /// Returns the assertions in the form of a trace.
    pub(crate) fn bits(self) -> u8 {
        let PostAssert { nocheck, nostore, noput } = self;
        u8::from(nocheck) | u8::from(nostore) << 1 | u8::from(noput) << 2
    }

    pub(crate) fn from_bits(bits: u8) -> PostAssert {
        let bit = |at: u8| bits >> at & 1 != 0;
        PostAssert { nocheck: bit(0), nostore: bit(1), noput: bit(2) }
    }
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'t, A, W> {
    /// Returns the two sides of post, start, complete and wait. An access epoch and an exposure epoch may be open together, but not two
    /// epochs of one kind.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`](crate::Error::Conflict) when another epoch is open, and the error of an earlier epoch that was dropped.
    pub fn pscw(&mut self) -> Result<(AccessSide<'_, 't, A, W>, ExposureSide<'_, 't, A, W>)> {
        self.raw.check_open(Call::Start, None)?;
        Ok((AccessSide { window: &self.raw }, ExposureSide { window: &self.raw }))
    }
}

/// The side of start and complete, from [`Window::pscw`].
#[derive(Debug)]
pub struct AccessSide<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w RawWindow<'t, A, W>,
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> AccessSide<'_, 't, A, W> {
    /// Waits until all ranks of `group` have posted to this rank, and opens an access epoch to them (`MPI_Win_start`). The group may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Group`](crate::Error::Group), [`Error::NoSuchTarget`](crate::Error::NoSuchTarget),
    /// [`Error::Conflict`](crate::Error::Conflict) when an access epoch was forgotten, and
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn start(&mut self, group: &[Rank]) -> Result<Access<'_, 't, A, W>> {
        self.start_assert(group, StartAssert::default())
    }

    /// Does what [`start`](Self::start) does, with assertions.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start).
    pub fn start_assert(&mut self, group: &[Rank], assert: StartAssert) -> Result<Access<'_, 't, A, W>> {
        self.window.start(group, assert)?;
        Ok(Access { window: self.window, over: false })
    }
}

/// An access epoch to a group of ranks, from [`AccessSide::start`].
///
/// It ends by [`complete`](Self::complete), or when it is dropped, even by a panic. [`Lock`](crate::Lock) describes what happens to errors
/// of a drop. So no target waits for a rank that catches its panic. On a two-sided window, complete may have to wait for the targets,
/// which a panic must not do. There the rank's next call that opens an epoch or frees the window completes it.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which is at once if it is not bound to a name"]
pub struct Access<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w RawWindow<'t, A, W>,
    over: bool,
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Access<'_, '_, A, W> {
    /// Returns one target of the group, or the null target.
    ///
    /// # Errors
    ///
    /// [`Error::NotInGroup`](crate::Error::NotInGroup).
    #[inline(always)] // a target that a call returns is copied through memory
    pub fn at(&self, target: impl Into<Option<Rank>>) -> Result<Target<'_, A, Active>> {
        self.window.member_of_access(target.into())
    }

    /// Returns access to this rank's part, like [`WindowCore::local`](crate::WindowCore::local).
    ///
    /// # Errors
    ///
    /// See [`WindowCore::local`](crate::WindowCore::local).
    pub fn local(&self) -> Result<Local<'_, A>> {
        self.window.local()
    }

    /// Completes all operations, and notifies the group's ranks (`MPI_Win_complete`).
    ///
    /// # Errors
    ///
    /// The errors of the network.
    pub fn complete(mut self) -> Result<()> {
        self.over = true;
        self.window.end_access().map_err(|error| self.window.hear(error))
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for Access<'_, '_, A, W> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if std::thread::panicking() && self.window.two_sided.is_some() {
            self.window.epochs.set_access(Side::Abandoned);
        } else if let Err(error) = self.window.end_access() {
            self.window.keep(error);
        }
    }
}

/// The side of post and wait, from [`Window::pscw`].
#[derive(Debug)]
pub struct ExposureSide<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w RawWindow<'t, A, W>,
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> ExposureSide<'_, 't, A, W> {
    /// Opens an exposure epoch to the ranks of `group`, and notifies them (`MPI_Win_post`). The group may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Group`](crate::Error::Group), [`Error::NoSuchTarget`](crate::Error::NoSuchTarget), [`Error::Conflict`](crate::Error::Conflict)
    /// when an exposure epoch was forgotten, and the errors of the network. After an error no epoch is open. But ranks of the group that were
    /// notified before may access the window.
    pub fn post(&mut self, group: &[Rank]) -> Result<Exposure<'_, 't, A, W>> {
        self.post_assert(group, PostAssert::default())
    }

    /// Does what [`post`](Self::post) does, with assertions.
    ///
    /// # Errors
    ///
    /// The errors of [`post`](Self::post).
    pub fn post_assert(&mut self, group: &[Rank], assert: PostAssert) -> Result<Exposure<'_, 't, A, W>> {
        self.window.post(group, assert)?;
        Ok(Exposure { window: self.window, over: false })
    }
}

/// An exposure epoch to a group of ranks, from [`ExposureSide::post`].
///
/// It ends by [`wait`](Self::wait), by a [`test`](Self::test) that returns true, or when it is dropped, which waits. A panic does not wait,
/// since other ranks may wait for this one. Then the rank's next call that opens an epoch or frees the window waits.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which waits"]
pub struct Exposure<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w RawWindow<'t, A, W>,
    over: bool,
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Exposure<'_, '_, A, W> {
    /// Returns access to this rank's part, like [`WindowCore::local`](crate::WindowCore::local).
    ///
    /// # Errors
    ///
    /// See [`WindowCore::local`](crate::WindowCore::local).
    pub fn local(&self) -> Result<Local<'_, A>> {
        self.window.local()
    }

    /// Waits until all ranks of the group have completed, and their writes have arrived (`MPI_Win_wait`).
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn wait(mut self) -> Result<()> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        self.window.end_exposure().map_err(|error| self.window.hear(error))
    }

    /// Returns whether all ranks of the group have completed (`MPI_Win_test`). If so, the epoch is over.
    ///
    /// # Errors
    ///
    /// The errors of the network.
    pub fn test(&mut self) -> Result<bool> {
        self.over = self.over || self.window.test_exposure()?;
        Ok(self.over)
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for Exposure<'_, '_, A, W> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if std::thread::panicking() {
            self.window.epochs.set_exposure(Side::Abandoned);
        } else if let Err(error) = self.window.end_exposure() {
            self.window.keep(error);
        }
    }
}
