//! Fences, and post, start, complete and wait: the calls that begin and end their epochs.

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_locks::WindowLock;

use crate::raw::RawWindow;
use crate::raw::epochs::Side;
use crate::raw::matching::check_group;
use crate::trace::recorder::{Event, Kind};
use crate::two_sided::{self, attended};
use crate::{Active, Call, Error, FenceAssert, Open, PostAssert, Result, StartAssert, Target, WindowCore};

impl<A: RemoteAtomics + ?Sized, W: WindowLock> RawWindow<'_, A, W> {
    /// Synchronizes all ranks of the team (`MPI_Win_fence`). Collective.
    ///
    /// It closes the epoch of the previous fence. The next operation opens a new epoch, unless `nosucceed` is asserted.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when another epoch is open, the error of an earlier epoch that was dropped, and
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn fence(&self, assert: FenceAssert) -> Result<()> {
        self.check_open(Call::Fence, Some(Open::Fence))?;
        self.core.synchronize(assert)
    }

    /// Waits until all ranks of `group` have posted to this one, and opens an access epoch to them (`MPI_Win_start`).
    /// The group may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Group`], [`Error::NoSuchTarget`], [`Error::Conflict`] when an epoch other than an exposure epoch is open,
    /// and [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn start(&self, group: &[Rank], assert: StartAssert) -> Result<()> {
        self.check_open(Call::Start, Some(Open::Exposure))?;
        let core = &self.core;
        check_group(core.ra, Call::Start, group).map_err(|error| core.hear(error))?;
        let started = core.start_record();
        match &core.two_sided {
            Some(requests) => requests.start(group, assert.nocheck),
            None => {
                let met = if two_sided::is_needed() {
                    attended(core.ra, |ra| core.matching.start(ra, group, !assert.nocheck))
                } else {
                    core.matching.start(core.ra, group, !assert.nocheck)
                };
                met.map_err(|error| core.hear(error))?;
            }
        }
        core.record_group(started, Event::of(Kind::Start).asserting(assert.bits()), group);
        core.epochs.leave_fence();
        core.epochs.set_access(Side::Open);
        core.epochs.used.set(false);
        let mut members = core.epochs.group.borrow_mut();
        members.clear();
        members.extend_from_slice(group);
        Ok(())
    }

    /// Completes the operations of the access epoch, and notifies the group's ranks (`MPI_Win_complete`).
    ///
    /// # Errors
    ///
    /// [`Error::NotOpen`], and the errors of the network.
    pub fn complete(&self) -> Result<()> {
        match self.core.epochs.access() {
            Side::Open => self.core.end_access().map_err(|error| self.core.hear(error)),
            Side::Closed | Side::Abandoned => Err(self.core.not_open(Call::Complete, None)),
        }
    }

    /// Opens an exposure epoch to the ranks of `group`, and notifies them (`MPI_Win_post`). The group may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Group`], [`Error::NoSuchTarget`], [`Error::Conflict`] when an epoch other than an access epoch is open,
    /// and the errors of the network. After an error no epoch is open, but ranks of the group that were notified before
    /// may access the window.
    pub fn post(&self, group: &[Rank], assert: PostAssert) -> Result<()> {
        self.check_open(Call::Post, Some(Open::Access))?;
        let core = &self.core;
        if core.epochs.exposure() != Side::Closed {
            return Err(core.refuse(Call::Post, Open::Exposure));
        }
        check_group(core.ra, Call::Post, group).map_err(|error| core.hear(error))?;
        let started = core.start_record();
        let posted = match &core.two_sided {
            Some(requests) => requests.post(group, assert.nocheck),
            None => attended(core.ra, |ra| core.matching.post(ra, group, !assert.nocheck)),
        };
        posted.map_err(|error| core.hear(error))?;
        core.epochs.leave_fence();
        core.epochs.set_exposure(Side::Open);
        core.record_group(started, Event::of(Kind::Post).asserting(assert.bits()), group);
        Ok(())
    }

    /// Waits until all ranks of the exposure's group have completed (`MPI_Win_wait`).
    ///
    /// # Errors
    ///
    /// [`Error::NotOpen`], and [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn wait(&self) -> Result<()> {
        match self.core.epochs.exposure() {
            Side::Open => self.core.end_exposure().map_err(|error| self.core.hear(error)),
            Side::Closed | Side::Abandoned => Err(self.core.not_open(Call::Wait, None)),
        }
    }

    /// Returns whether all ranks of the exposure's group have completed; if so, the epoch ends (`MPI_Win_test`).
    ///
    /// # Errors
    ///
    /// [`Error::NotOpen`], and the errors of the network.
    pub fn test(&self) -> Result<bool> {
        match self.core.epochs.exposure() {
            Side::Open => self.core.test_exposure(),
            Side::Closed | Side::Abandoned => Err(self.core.not_open(Call::Wait, None)),
        }
    }

    /// Checks that an epoch may begin: no epoch is open, except one of the kind `beside`.
    pub(crate) fn check_open(&self, call: Call, beside: Option<Open>) -> Result<()> {
        self.core.check()?;
        self.core.settle()?;
        match self.open() {
            Some(open) if beside != Some(open) => Err(self.core.refuse(call, open)),
            _ => Ok(()),
        }
    }

    /// Returns the kind of the open epoch, including locks.
    pub(crate) fn open(&self) -> Option<Open> {
        self.core.epochs.open().or_else(|| {
            let locks = self.locks.borrow();
            if locks.is_idle() {
                None
            } else if locks.holds_all() {
                Some(Open::LockAll)
            } else {
                Some(Open::Lock)
            }
        })
    }
}

impl<A: RemoteAtomics + ?Sized> WindowCore<'_, A> {
    /// Returns a target of the open access epoch, or the null target.
    #[inline]
    pub(crate) fn member_of_access(&self, target: Option<Rank>) -> Result<Target<'_, A, Active>> {
        if let Some(target) = target
            && !self.epochs.group.borrow().contains(&target)
        {
            let group = self.epochs.group.borrow().iter().map(|rank| rank.0).collect();
            return Err(self.hear(Error::NotInGroup { rank: self.ra.rank(), target, group }));
        }
        self.epochs.used.set(true);
        self.target(Call::At, Call::Start, target, false)
    }

    pub(crate) fn end_access(&self) -> Result<()> {
        self.epochs.set_access(Side::Closed);
        let started = self.start_record();
        if let Some(requests) = &self.two_sided {
            requests.complete()?;
        } else {
            let group = self.epochs.group.borrow();
            // Where puts keep their order, a put that reports the end follows the data.
            let follows = self.ra.capabilities().ordered_puts && self.matching.completes_by_put();
            let used = self.epochs.used.get();
            let to_flush = |&target: &&Rank| used && !(follows && self.keeps_memory_of(*target));
            let flushes = group.iter().filter(to_flush).map(|&target| self.flush_target(target));
            let flushed = flushes.fold(Ok(()), Result::and);
            // This is called even after a failure, since the targets wait for it. The error warns that data may be
            // missing.
            self.matching.complete(self.ra, &group)?;
            flushed?;
        }
        self.record(started, Event::of(Kind::Complete));
        Ok(())
    }

    pub(crate) fn end_exposure(&self) -> Result<()> {
        self.epochs.set_exposure(Side::Closed);
        let started = self.start_record();
        match &self.two_sided {
            Some(requests) => requests.wait_exposure()?,
            None if two_sided::is_needed() => attended(self.ra, |ra| self.matching.wait(ra))?,
            None => self.matching.wait(self.ra)?,
        }
        self.record(started, Event::of(Kind::Wait));
        Ok(())
    }

    pub(crate) fn test_exposure(&self) -> Result<bool> {
        let started = self.start_record();
        let over = match &self.two_sided {
            None => self.matching.test(self.ra),
            Some(requests) => requests.progress().map(|()| requests.exposure_is_over()),
        };
        let over = over.map_err(|error| self.hear(error))?;
        self.record(started, Event::of(if over { Kind::TestOver } else { Kind::TestOpen }));
        if over {
            self.epochs.set_exposure(Side::Closed);
        }
        Ok(over)
    }

    /// Returns the error of an epoch that ended by being dropped, once.
    pub(crate) fn check(&self) -> Result<()> {
        self.epochs.take_failure().map_or(Ok(()), Err)
    }

    /// Ends the epochs that a panic of this rank has left open.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.epochs.access() == Side::Abandoned {
            self.epochs.set_access(Side::Closed);
            let started = self.start_record();
            if let Some(requests) = &self.two_sided {
                requests.complete()?;
            }
            self.record(started, Event::of(Kind::Complete));
        }
        if self.epochs.exposure() == Side::Abandoned {
            self.end_exposure()?;
        }
        Ok(())
    }
}
