//! Teams: groups of ranks that make windows together.
//!
//! # Source
//!
//! Groups and communicators of MPI-4.1, chapter 7: a [`Team`] is the communicator of windows.
//!
//! | MPI | here |
//! | --- | --- |
//! | `MPI_COMM_WORLD`, `MPI_Comm_dup` | [`Team::new`] |
//! | `MPI_Comm_rank`, `MPI_Comm_size` | [`Team::rank`], [`Team::size`] |
//! | `MPI_Comm_split` | [`Team::split`] |
//! | `MPI_Comm_split_type`, `MPI_COMM_TYPE_SHARED` | [`Team::split_by_node`] |
//! | `MPI_Comm_create`, `MPI_Group_incl` | [`Team::subset`] |
//! | `MPI_Group_translate_ranks` | [`Team::translate`] |
//! | `MPI_Comm_free` | [`Subset::free`], with the collectives of the team that was split |
//! | `MPI_Comm_set_name`, `MPI_Comm_get_name` | [`Team::set_name`], [`Team::name`] |
//!
//! # State
//!
//! A team borrows its ranks, which are a world or a [`Subset`], and has their [`Collectives`] and a name. A split makes a subset. The caller
//! keeps it in a variable, like a world, and makes a team over it. So a window's type names its ranks' type, and nothing is counted or
//! shared without the caller's knowledge.
//!
//! # Cost
//!
//! Making a team needs no communication. A team takes the memory of its collectives, 4 KiB for each of ⌈log₂ p⌉ links.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::{Rc, Weak};

use rmalab_atomics::{Collectives, Rank, RemoteAtomics, Subset};

use crate::trace::recorder::{Event, Kind, Recorder};
use crate::two_sided::{self, Endpoints};
use crate::{Error, Open, Result};

/// One rank's handle of a group of ranks: all ranks of a world or of a [`Subset`].
///
/// A team dereferences to its [`Collectives`], which have the other collective operations (broadcast, allgather, alltoall,
/// reduce_scatter, allreduce).
///
/// ```
/// use rmalab_atomics::{RemoteAtomics, Subset, World};
/// use rmalab_windows::{Op, Team, Window, WindowDisp};
///
/// World::threads(4).try_run(|ra| {
///     let world = Team::new(ra)?;
///     let half = world.split(Some(ra.rank().0 / 2), 0)?.expect("every rank has a colour");
///     let team = Team::new(&half)?;
///     let mut window = Window::allocate(&team, 8)?;
///     let all = window.lock_all()?;
///     for target in (0..team.size()).map(rmalab_atomics::Rank) {
///         all.at(target)?.fetch_and_op(WindowDisp(0), Op::Sum, 1_u64)?;
///     }
///     all.unlock_all()?;
///     team.barrier()?;
///     assert_eq!(window.local()?.load::<u64>(WindowDisp(0))?, 2, "from the two ranks of this half");
///     window.free()?;
///     // Freeing the half frees the words of its team, too.
///     drop(team);
///     Subset::free(Some(half), &world)?;
///     Ok::<(), rmalab_windows::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Team<'a, A: RemoteAtomics + ?Sized> {
    collectives: Collectives<'a, A>,
    /// The end-points that the team's two-sided windows share.
    endpoints: Endpoints<'a>,
    /// The recorders of the team's windows, which also record barriers.
    recorders: RefCell<Vec<Weak<Recorder>>>,
    /// The number of locks of this rank that admit one rank at a time.
    inside: Cell<u32>,
    /// The kind of the first of them.
    entered: Cell<Open>,
    name: String,
}

impl<'a, A: RemoteAtomics + ?Sized> Team<'a, A> {
    /// Makes the team of all ranks of `ra`, a world or a [`Subset`] (`MPI_COMM_WORLD`, and `MPI_Comm_dup` for further teams).
    ///
    /// All ranks call it at the same point of their sequences of allocations, without communication. Its words stay allocated as long as the
    /// world lives, or the subset's arena.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), on all ranks.
    pub fn new(ra: &'a A) -> Result<Team<'a, A>> {
        Ok(Team {
            collectives: Collectives::new(ra)?.attended(two_sided::is_needed, two_sided::serve_all),
            endpoints: Endpoints::new(ra),
            recorders: RefCell::default(),
            inside: Cell::new(0),
            entered: Cell::new(Open::Lock),
            name: String::new(),
        })
    }

    /// Returns the team's world or subset.
    pub fn ra(&self) -> &'a A {
        self.collectives.ra()
    }

    /// Returns this rank's number in the team (`MPI_Comm_rank`).
    pub fn rank(&self) -> Rank {
        self.ra().rank()
    }

    /// Returns the number of ranks of the team (`MPI_Comm_size`).
    pub fn size(&self) -> u32 {
        self.ra().size()
    }

    /// Returns the team's collective operations.
    pub fn collectives(&self) -> &Collectives<'a, A> {
        &self.collectives
    }

    /// Waits until all ranks have called it; see [`Collectives::barrier`].
    ///
    /// Ranks that have [two-sided](crate::two_sided) windows serve requests while they wait. If the team has such a window, the requests that
    /// its ranks sent before their calls are done when this returns.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed), and [`Error::Mutex`] when this rank holds a lock of a window of
    /// the team whose policy admits one rank at a time.
    pub fn barrier(&self) -> Result<()> {
        self.check_outside()?;
        self.barrier_anywhere()
    }

    /// Like [`barrier`](Self::barrier), with any locks held.
    pub(crate) fn barrier_anywhere(&self) -> Result<()> {
        self.check_whole()?;
        let recorders: Vec<_> = self.recorders.borrow().iter().filter_map(Weak::upgrade).collect();
        let started: Vec<_> = recorders.iter().map(|recorder| recorder.start(self.ra())).collect();
        if self.endpoints.is_open() {
            self.endpoints.barrier()?;
        } else {
            self.collectives.barrier()?;
        }
        for started in started {
            started.end(self.ra(), Event::of(Kind::Barrier), &[]);
        }
        Ok(())
    }

    /// Checks that no rank of the team is known to have failed. After the failure was acknowledged, a wait for that rank would
    /// never end.
    pub(crate) fn check_whole(&self) -> Result<()> {
        // A backend that cannot report failures ends with the failure.
        let failed = self.ra().failed().unwrap_or_default();
        match failed.iter().next() {
            Some(rank) => Err(rmalab_atomics::Error::PeerFailed { rank }.into()),
            None => Ok(()),
        }
    }

    /// Notes that this rank has acquired a lock that admits one rank at a time.
    #[cold]
    pub(crate) fn enter(&self, open: Open) {
        if self.inside.replace(self.inside.get() + 1) == 0 {
            self.entered.set(open);
        }
    }

    /// Notes that this rank has released this many of those locks.
    #[cold]
    pub(crate) fn leave(&self, locks: u32) {
        self.inside.set(self.inside.get() - locks);
    }

    /// Checks that this rank holds no lock that keeps other ranks from a call that all ranks have to reach.
    pub(crate) fn check_outside(&self) -> Result<()> {
        if self.inside.get() == 0 || self.size() == 1 {
            return Ok(());
        }
        Err(Error::Mutex { rank: self.rank(), open: self.entered.get() })
    }

    /// Notes that a window of the team is recorded from now on.
    pub(crate) fn recorded(&self, recorder: &Rc<Recorder>) {
        let mut recorders = self.recorders.borrow_mut();
        recorders.retain(|recorder| recorder.strong_count() > 0);
        recorders.push(Rc::downgrade(recorder));
    }

    /// Serves requests of other ranks that have arrived, on all two-sided windows of this rank, for all teams. Never
    /// waits.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn progress(&self) -> Result<()> {
        self.endpoints.progress()
    }

    pub(crate) fn endpoints(&self) -> &Endpoints<'a> {
        &self.endpoints
    }

    /// Makes a subset of the ranks that pass the same `colour`, ordered by `key` and then by their numbers in this team (`MPI_Comm_split`).
    ///
    /// Collective. A rank without a colour (`MPI_UNDEFINED`) gets `None`.
    ///
    /// # Errors
    ///
    /// The errors of [`Subset::split`], which also documents the size of the subset's memory.
    pub fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Subset<'a, A>>> {
        Ok(Subset::split(&self.collectives, colour, key)?)
    }

    /// Makes a subset of the ranks of this rank's node (`MPI_Comm_split_type` with `MPI_COMM_TYPE_SHARED`).
    ///
    /// All ranks call it at the same point of their sequences of allocations, without communication.
    ///
    /// # Errors
    ///
    /// The errors of [`Subset::by_node`].
    pub fn split_by_node(&self) -> Result<Subset<'a, A>> {
        Ok(Subset::by_node(self.ra())?)
    }

    /// Makes a subset of the ranks `members`, numbered in this order; `None` on other ranks (`MPI_Comm_create`).
    ///
    /// All ranks call it at the same point of their sequences of allocations, with the same list and without communication.
    ///
    /// # Errors
    ///
    /// The errors of [`Subset::of`].
    pub fn subset(&self, members: &[Rank]) -> Result<Option<Subset<'a, A>>> {
        Ok(Subset::of(self.ra(), members)?)
    }

    /// Returns the number that this team's `rank` has in `other`, a team of the same world (`MPI_Group_translate_ranks`). Returns `None` if
    /// there is no such rank, or if it is not in `other`.
    ///
    /// If `other` numbers its ranks as the world does, this takes constant time. Otherwise it searches the ranks of `other`.
    pub fn translate<B: RemoteAtomics + ?Sized>(&self, rank: Rank, other: &Team<'_, B>) -> Option<Rank> {
        if rank.0 >= self.size() || !self.is_of_world_of(other) {
            return None;
        }
        let wanted = self.ra().world_rank(rank);
        let there = |&rank: &Rank| rank.0 < other.size() && other.ra().world_rank(rank) == wanted;
        Some(wanted).filter(there).or_else(|| (0..other.size()).map(Rank).find(there))
    }

    /// Returns whether both teams belong to one world.
    pub(crate) fn is_of_world_of<B: RemoteAtomics + ?Sized>(&self, other: &Team<'_, B>) -> bool {
        // A rank has one heap for each world that it is in.
        std::ptr::addr_eq(self.ra().whole_world().heap(), other.ra().whole_world().heap())
    }

    /// Returns the team's name, for messages and traces (`MPI_Comm_get_name`). It is empty until it is [set](Self::set_name).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names the team on this rank (`MPI_Comm_set_name`).
    pub fn set_name(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }
}

impl<'a, A: RemoteAtomics + ?Sized> Deref for Team<'a, A> {
    type Target = Collectives<'a, A>;

    fn deref(&self) -> &Collectives<'a, A> {
        &self.collectives
    }
}
