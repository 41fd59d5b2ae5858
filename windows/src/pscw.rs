//! Post, start, complete, wait: synchronization among the ranks that have to do with each other.
//!
//! # Sources
//!
//! * MPI-4.1, section 12.5.2 (general active target synchronization) and section 12.5.5 (asserts).
//! * [`PscwStrategy::Flags`]: a flag for each rank, written by the target in the origin's memory: W. Jiang, J. Liu,
//!   H.-W. Jin, D. K. Panda, D. Buntinas, R. Thakur, W. D. Gropp, Efficient implementation of MPI-2 passive one-sided
//!   communication and of active synchronization over InfiniBand, 2004. A flag here is a word, since a word is what one
//!   writer can put without an atomic operation, and it holds the number of the epoch, so that nobody resets it.
//! * [`PscwStrategy::Matching`]: lists of announcements, as foMPI's (R. Gerstenberger, M. Besta, T. Hoefler, SC'13, section
//!   2.3), here a ring of slots with a ticket counter instead of a list with a free list.
//! * [`PscwStrategy::Deferred`]: see [`two_sided`](crate::two_sided).
//!
//! # State
//!
//! | word, of each rank | written by | value |
//! | --- | --- | --- |
//! | flags: posts (p of them) | target t puts t's | how many exposure epochs of t's had this rank in their groups |
//! | flags: completions (p of them) | origin o puts o's | how many access epochs of o's had this rank in their groups |
//! | matching: completions | origins: + 1 each, when they complete | how many completes have come, since ever |
//! | matching: tail | targets: + 1 each, for a ticket | how many posts have come, since ever |
//! | matching: slots (S = min(p, 64)) | targets, from 0 to the rank + 1; this rank, back to 0 | posts that are not taken |
//!
//! With flags each rank also counts, for itself, its epochs of either kind with each other rank.
//!
//! # Invariants
//!
//! * I1. A target and an origin count their epochs with each other alike: the n-th exposure epoch of the one that has the
//!   other in its group is the n-th access epoch of the other that has the one in its group, and neither begins the next
//!   before it has ended this one. So a flag at n or more tells that the n-th post, or complete, has come; posts with
//!   `nocheck` are counted and not put, and the next one that is put tells of them, too.
//! * I2. Completions that have come belong to this exposure epoch or to earlier ones: an origin's next complete needs this
//!   rank's next post. So an epoch is over as soon as their number has reached the sum of the groups' sizes so far.
//! * I3. As many posts are in slots, or about to be, as the tail is ahead of what this rank has taken. A poster that
//!   finds its slot full waits for it; another one with a later ticket may be first, and what is in slots is a set, so that
//!   it does not matter in which order.
//! * I4. Nobody waits for a full ring for ever: a rank that waits for somebody's slot empties its own ring meanwhile,
//!   and so does one that waits in start; a rank that computes will come to start. The one that waits for a slot takes
//!   what is there, and waits for nothing else: for a post whose slot is empty yet, its poster may wait for a slot that
//!   has become empty only now, and so on in a circle.
//!
//! # Cost
//!
//! For each pair of a target and an origin, in remote operations: flags 1 put for the post and 1 for the complete, as
//! MPICH-2's messages; matching 2 for the post and 1 for the complete. Start and wait are local. A flush for each target,
//! unless nothing was done, or the network keeps puts in their order ([`Capabilities::ordered_puts`]): then the complete
//! follows the data, as MVAPICH2's does, and nobody waits for an acknowledgement.
//! Memory: 2 p words and as many counts, or min(p, 64) + 2 words a rank.
//!
//! [`Capabilities::ordered_puts`]: rmalab_atomics::Capabilities::ordered_puts

use std::cell::{Cell, RefCell};

use rmalab_atomics::{Disp, Rank, RemoteAtomics, Until, WORD};
use rmalab_locks::{LINE, Policy, WindowLock};

use crate::raw::core::{Core, Side};
use crate::trace::recorder::Kind;
use crate::two_sided::attended;
use crate::{Active, Call, Error, Local, Open, PscwStrategy, Result, Target, Window};

/// Most slots of a ring.
pub(crate) const SLOTS: u32 = 64;

/// Ranks up to which a group is searched for each of its members, without memory of its own.
const SHORT: usize = 16;

/// Word operations' worth of pause between two looks at a full ring.
const FULL: u32 = 16;

/// How posts are matched with starts, and completes with waits: one rank's part.
#[derive(Debug)]
pub(crate) struct Matching {
    /// The completions' flags, or their counter.
    completions: Disp,
    /// The posts' flags, or the tail and the slots.
    posts: Disp,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Flags {
        /// This rank's exposure epochs with each rank.
        exposures: Box<[Cell<u64>]>,
        /// This rank's access epochs with each rank.
        accesses: Box<[Cell<u64>]>,
        /// The group of the exposure epoch.
        exposed_to: RefCell<Vec<Rank>>,
    },
    Ring(Ring),
}

#[derive(Debug)]
struct Ring {
    slots: u64,
    /// The sum of the groups' sizes of all exposure epochs so far.
    expected: Cell<u64>,
    /// Tickets whose posts this rank has taken out of its slots.
    head: Cell<u64>,
    /// Posts that were taken out of slots, and not matched by a start.
    taken: RefCell<Vec<Rank>>,
}

impl Matching {
    pub(crate) fn new<A: RemoteAtomics + ?Sized>(ra: &A, strategy: PscwStrategy, slots: u32) -> Result<Matching> {
        let size = ra.size();
        let counts = || (0..size).map(|_| Cell::new(0)).collect();
        let (way, posts, completions) = if strategy.for_ranks(size) == PscwStrategy::Matching {
            let slots = u64::from(size.min(slots));
            let ring = Ring { slots, expected: Cell::new(0), head: Cell::new(0), taken: RefCell::default() };
            (Way::Ring(ring), 1 + slots, 1)
        } else {
            let (exposures, accesses) = (counts(), counts());
            (Way::Flags { exposures, accesses, exposed_to: RefCell::default() }, u64::from(size), u64::from(size))
        };
        // Posts on lines of their own: one side of a rank polls them while the other side's words are written to.
        let first = (completions * WORD).next_multiple_of(LINE);
        let completions = ra.heap().alloc(first + posts * WORD, LINE)?;
        Ok(Matching { completions, posts: completions.plus(first), way })
    }

    pub(crate) fn allocation(&self) -> Disp {
        self.completions
    }

    /// Bytes of what is counted for each other rank.
    pub(crate) fn remembered_bytes(&self) -> usize {
        match &self.way {
            Way::Flags { exposures, accesses, .. } => size_of_val(&exposures[..]) + size_of_val(&accesses[..]),
            Way::Ring(_) => 0,
        }
    }

    /// Begins an exposure epoch with `group`, and tells its ranks, unless it is not to be `told`.
    fn post<A: RemoteAtomics + ?Sized>(&self, ra: &A, group: &[Rank], told: bool) -> Result<()> {
        let me = u64::from(ra.rank().0);
        match &self.way {
            Way::Flags { exposures, exposed_to, .. } => {
                let mut members = exposed_to.borrow_mut();
                members.clear();
                members.extend_from_slice(group);
                let count = |by: u64| {
                    let epochs = group.iter().map(|origin| &exposures[origin.index()]);
                    epochs.for_each(|epoch| epoch.set(epoch.get().wrapping_add(by)));
                };
                count(1);
                let mut to_tell = group.iter().filter(|_| told);
                let put = |&origin: &Rank| ra.put(origin.at(self.posts.word(me)), exposures[origin.index()].get());
                if let Err(error) = to_tell.try_for_each(put) {
                    // The epoch has not begun: the next post has this number again.
                    count(1_u64.wrapping_neg());
                    return Err(error.into());
                }
            }
            Way::Ring(ring) => {
                for &origin in group {
                    if told {
                        let ticket = ra.fetch_add(origin.at(self.posts), 1)?;
                        let slot = origin.at(self.posts.word(1 + ticket % ring.slots));
                        while ra.compare_and_swap(slot, 0, me + 1)? != 0 {
                            self.empty(ra, ring, false)?; // I4
                            ra.pause(FULL)?;
                        }
                    }
                    // After an error too: a rank that was told completes.
                    ring.expected.set(ring.expected.get() + 1);
                }
            }
        }
        Ok(())
    }

    /// Begins an access epoch with `group`: waits until all of its ranks have posted, if they tell, and takes the posts.
    fn start<A: RemoteAtomics + ?Sized>(&self, ra: &A, group: &[Rank], told: bool) -> Result<()> {
        match &self.way {
            Way::Flags { accesses, .. } => {
                for &target in group {
                    let epoch = &accesses[target.index()];
                    epoch.set(epoch.get() + 1);
                    if told {
                        ra.wait_until(self.posts.word(u64::from(target.0)), Until::Ge(epoch.get()))?; // I1
                    }
                }
            }
            Way::Ring(ring) => {
                for &target in group.iter().filter(|_| told) {
                    loop {
                        self.empty(ra, ring, true)?;
                        let mut taken = ring.taken.borrow_mut();
                        if let Some(at) = taken.iter().position(|&rank| rank == target) {
                            taken.swap_remove(at);
                            break;
                        }
                        drop(taken);
                        ra.wait_until(self.posts, Until::Ge(ring.head.get() + 1))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells the ranks of `group` that this one has completed its access epoch.
    fn complete<A: RemoteAtomics + ?Sized>(&self, ra: &A, group: &[Rank]) -> Result<()> {
        let me = u64::from(ra.rank().0);
        for &target in group {
            match &self.way {
                Way::Flags { accesses, .. } => {
                    ra.put(target.at(self.completions.word(me)), accesses[target.index()].get())?;
                }
                Way::Ring(_) => {
                    ra.fetch_add(target.at(self.completions), 1)?;
                }
            }
        }
        Ok(())
    }

    /// Waits until all ranks of the exposure epoch's group have completed.
    fn wait<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        match &self.way {
            Way::Flags { exposures, exposed_to, .. } => {
                for &origin in &*exposed_to.borrow() {
                    let epoch = exposures[origin.index()].get();
                    ra.wait_until(self.completions.word(u64::from(origin.0)), Until::Ge(epoch))?; // I1
                }
            }
            Way::Ring(ring) => {
                ra.wait_until(self.completions, Until::Ge(ring.expected.get()))?; // I2
            }
        }
        Ok(())
    }

    /// Whether all ranks of the exposure epoch's group have completed.
    fn test<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<bool> {
        let own = |disp| ra.get(ra.rank().at(disp));
        match &self.way {
            Way::Flags { exposures, exposed_to, .. } => {
                for &origin in &*exposed_to.borrow() {
                    if own(self.completions.word(u64::from(origin.0)))? < exposures[origin.index()].get() {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Way::Ring(ring) => Ok(own(self.completions)? >= ring.expected.get()),
        }
    }

    /// Takes the posts out of this rank's slots: all that have a ticket, or those up to the first that is not there.
    fn empty<A: RemoteAtomics + ?Sized>(&self, ra: &A, ring: &Ring, all: bool) -> Result<()> {
        let tail = ra.get(ra.rank().at(self.posts))?;
        while ring.head.get() < tail {
            let slot = self.posts.word(1 + ring.head.get() % ring.slots);
            let post = if all { ra.wait_until(slot, Until::Ne(0))? } else { ra.get(ra.rank().at(slot))? }; // I3
            if post == 0 {
                break;
            }
            ra.fetch_store(ra.rank().at(slot).unwatched(), 0)?;
            ring.taken.borrow_mut().push(Rank(post as u32 - 1));
            ring.head.set(ring.head.get() + 1);
        }
        Ok(())
    }
}

/// What the caller of start asserts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StartAssert {
    /// The targets have posted already, each of them with `nocheck` as well (`MPI_MODE_NOCHECK`).
    pub nocheck: bool,
}

/// What the caller of post asserts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PostAssert {
    /// The origins have not started yet, and each of them will with `nocheck` as well (`MPI_MODE_NOCHECK`).
    pub nocheck: bool,
    /// This rank's part was not stored to since the last synchronization (`MPI_MODE_NOSTORE`).
    pub nostore: bool,
    /// Nobody puts or accumulates to this rank's part in this epoch (`MPI_MODE_NOPUT`).
    pub noput: bool,
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Window<'t, A, W> {
    /// The two sides of post, start, complete and wait: an access epoch and an exposure epoch may be open together, two
    /// of a kind may not.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when another epoch stands open, and the error of an earlier epoch that was dropped.
    pub fn pscw(&mut self) -> Result<(AccessSide<'_, 't, A, W>, ExposureSide<'_, 't, A, W>)> {
        self.core.check()?;
        match self.settle()? {
            None => Ok((AccessSide { window: self }, ExposureSide { window: self })),
            Some(open) => Err(self.core.refuse(Call::Start, open)),
        }
    }

    fn check_group(&self, call: Call, group: &[Rank]) -> Result<()> {
        let (rank, size) = (self.core.ra.rank(), self.core.ra.size());
        if let Some(&target) = group.iter().find(|target| target.0 >= size) {
            return Err(Error::NoSuchTarget { call, target, size });
        }
        let twice = if group.len() <= SHORT {
            (1..group.len()).find(|&i| group[..i].contains(&group[i])).map(|i| group[i])
        } else {
            let mut sorted = group.to_vec();
            sorted.sort_unstable();
            sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
        };
        twice.map_or(Ok(()), |twice| Err(Error::Group { rank, call, twice }))
    }
}

/// The side of start and complete, from [`Window::pscw`].
#[derive(Debug)]
pub struct AccessSide<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w Window<'t, A, W>,
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> AccessSide<'_, 't, A, W> {
    /// Waits until all ranks of `group` have posted to this one, and opens an epoch of access to them
    /// (`MPI_Win_start`). The group may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Group`], [`Error::NoSuchTarget`], [`Error::Conflict`] when an access epoch was forgotten, and
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn start(&mut self, group: &[Rank]) -> Result<Access<'_, 't, A, W>> {
        self.start_assert(group, StartAssert::default())
    }

    /// As [`start`](Self::start), with assertions.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_assert(&mut self, group: &[Rank], assert: StartAssert) -> Result<Access<'_, 't, A, W>> {
        let (window, core) = (self.window, &self.window.core);
        core.check()?;
        core.settle()?;
        if core.state.access.get() != Side::Closed {
            return Err(core.refuse(Call::Start, Open::Access));
        }
        window.check_group(Call::Start, group).map_err(|error| core.hear(error))?;
        let started = core.start();
        if let Some(requests) = &core.two_sided {
            requests.start(group, assert.nocheck);
        } else {
            core.matching.start(&attended(core.ra), group, !assert.nocheck).map_err(|error| core.hear(error))?;
        }
        core.record(started, Kind::Pscw, Rank(0), 0);
        core.state.access.set(Side::Open);
        let mut members = core.state.group.take();
        members.clear();
        members.extend_from_slice(group);
        Ok(Access { window, group: members, used: Cell::new(false), over: false })
    }
}

/// An epoch of access to a group of ranks, from [`AccessSide::start`].
///
/// It ends by [`complete`](Self::complete), or when it is dropped, in a panic too; see [`Lock`](crate::Lock) for errors
/// then. So no target waits for a rank that catches its panic. On a two-sided window a complete may have to wait for the
/// targets, which a panic must not do: there the rank's next call that opens an epoch, or frees the window, completes.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which is at once if it is not bound to a name"]
pub struct Access<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w Window<'t, A, W>,
    group: Vec<Rank>,
    /// Whether a target was asked for, and so something may have been issued.
    used: Cell<bool>,
    over: bool,
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Access<'_, '_, A, W> {
    /// One target of the group, or the null target.
    ///
    /// # Errors
    ///
    /// [`Error::NotInGroup`].
    #[inline]
    pub fn at(&self, target: impl Into<Option<Rank>>) -> Result<Target<'_, A, Active>> {
        let (core, target) = (&self.window.core, target.into());
        if let Some(target) = target
            && !self.group.contains(&target)
        {
            let group = self.group.iter().map(|rank| rank.0).collect();
            return Err(core.hear(Error::NotInGroup { rank: core.ra.rank(), target, group }));
        }
        self.used.set(true);
        core.target(Call::Start, target, false)
    }

    /// This rank's own part, as by [`Window::local`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn local(&self) -> Result<Local<'_, A>> {
        self.window.local()
    }

    /// Completes everything, and tells the group's ranks (`MPI_Win_complete`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    pub fn complete(mut self) -> Result<()> {
        self.end().map_err(|error| self.window.core.hear(error))
    }

    fn end(&mut self) -> Result<()> {
        self.over = true;
        let core = &self.window.core;
        core.state.access.set(Side::Closed);
        let started = core.start();
        if let Some(requests) = &core.two_sided {
            requests.complete()?;
        } else {
            // What is complete here is told behind itself where puts keep their order.
            let unordered = self.used.get() && !core.ra.capabilities().ordered_puts;
            let flushes = self.group.iter().filter(|_| unordered).map(|&target| core.flush(target));
            let flushed = flushes.fold(Ok(()), Result::and);
            // After a failure too, since the targets wait for it; the error tells that data may be missing.
            core.matching.complete(core.ra, &self.group)?;
            core.state.group.replace(std::mem::take(&mut self.group));
            flushed?;
        }
        core.record(started, Kind::Pscw, Rank(0), 0);
        Ok(())
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for Access<'_, '_, A, W> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if std::thread::panicking() && self.window.core.two_sided.is_some() {
            self.window.core.state.access.set(Side::Abandoned);
        } else if let Err(error) = self.end() {
            self.window.core.keep(error);
        }
    }
}

/// The side of post and wait, from [`Window::pscw`].
#[derive(Debug)]
pub struct ExposureSide<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w Window<'t, A, W>,
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> ExposureSide<'_, 't, A, W> {
    /// Opens an epoch of exposure to the ranks of `group`, and tells them (`MPI_Win_post`). The group may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Group`], [`Error::NoSuchTarget`], [`Error::Conflict`] when an exposure epoch was forgotten, and those of
    /// the network. No epoch is open then; ranks of the group that were told before may access the window all the same.
    pub fn post(&mut self, group: &[Rank]) -> Result<Exposure<'_, 't, A, W>> {
        self.post_assert(group, PostAssert::default())
    }

    /// As [`post`](Self::post), with assertions.
    ///
    /// # Errors
    ///
    /// As [`post`](Self::post).
    pub fn post_assert(&mut self, group: &[Rank], assert: PostAssert) -> Result<Exposure<'_, 't, A, W>> {
        let (window, core) = (self.window, &self.window.core);
        core.check()?;
        core.settle()?;
        if core.state.exposure.get() != Side::Closed {
            return Err(core.refuse(Call::Post, Open::Exposure));
        }
        window.check_group(Call::Post, group).map_err(|error| core.hear(error))?;
        let started = core.start();
        let posted = match &core.two_sided {
            Some(requests) => requests.post(group, assert.nocheck),
            None => core.matching.post(&attended(core.ra), group, !assert.nocheck),
        };
        posted.map_err(|error| core.hear(error))?;
        core.state.exposure.set(Side::Open);
        core.record(started, Kind::Pscw, Rank(0), 0);
        Ok(Exposure { window, over: false })
    }
}

/// An epoch of exposure to a group of ranks, from [`ExposureSide::post`].
///
/// It ends by [`wait`](Self::wait), by a [`test`](Self::test) that says so, or when it is dropped, which waits. A panic
/// waits for no other rank, which may itself wait for this one: then the rank's next call that opens an epoch, or frees
/// the window, waits.
#[derive(Debug)]
#[must_use = "the epoch ends when it is dropped, which waits"]
pub struct Exposure<'w, 't, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: &'w Window<'t, A, W>,
    over: bool,
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Exposure<'_, '_, A, W> {
    /// This rank's own part, as by [`Window::local`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn local(&self) -> Result<Local<'_, A>> {
        self.window.local()
    }

    /// Waits until all ranks of the group have completed (`MPI_Win_wait`): what they have written is here.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn wait(mut self) -> Result<()> {
        self.end().map_err(|error| self.window.core.hear(error))
    }

    /// Whether all ranks of the group have completed; if so the epoch is over (`MPI_Win_test`).
    ///
    /// # Errors
    ///
    /// Those of the network.
    pub fn test(&mut self) -> Result<bool> {
        let core = &self.window.core;
        if self.over {
            return Ok(true);
        }
        let started = core.start();
        let over = match &core.two_sided {
            None => core.matching.test(core.ra),
            Some(requests) => requests.progress().map(|()| requests.exposure_is_over()),
        };
        let over = over.map_err(|error| core.hear(error))?;
        core.record(started, Kind::Pscw, Rank(0), 0);
        if over {
            self.over = true;
            core.state.exposure.set(Side::Closed);
        }
        Ok(self.over)
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.over, true) { Ok(()) } else { self.window.core.end_exposure() }
    }
}

impl<A: RemoteAtomics + ?Sized> Core<'_, A> {
    fn end_exposure(&self) -> Result<()> {
        self.state.exposure.set(Side::Closed);
        let started = self.start();
        match &self.two_sided {
            Some(requests) => requests.wait_exposure()?,
            None => self.matching.wait(&attended(self.ra))?,
        }
        self.record(started, Kind::Pscw, Rank(0), 0);
        Ok(())
    }

    /// As [`settle`](Self::settle), for a window that is freed: what waits for a post may wait for ever.
    pub(crate) fn settle_last(&self) -> Result<()> {
        if let (Side::Abandoned, Some(requests)) = (self.state.access.get(), &self.two_sided) {
            requests.give_up_unposted()?;
        }
        self.settle()
    }

    /// Ends the epochs that panics of this rank have left to its next call.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.state.access.get() == Side::Abandoned {
            self.state.access.set(Side::Closed);
            if let Some(requests) = &self.two_sided {
                requests.complete()?;
            }
        }
        if self.state.exposure.get() == Side::Abandoned {
            self.end_exposure()?;
        }
        Ok(())
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Drop for Exposure<'_, '_, A, W> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if std::thread::panicking() {
            self.window.core.state.exposure.set(Side::Abandoned);
        } else if let Err(error) = self.end() {
            self.window.core.keep(error);
        }
    }
}
