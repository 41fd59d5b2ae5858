//! Subsets: some of a world's ranks, used as a world.
//!
//! A [`Subset`] is a [`RemoteAtomics`] over another one, its *parent*. It has the same memory and the same operations, and numbers its
//! members from 0. Locks, collectives and windows work on it unchanged. A subset can have subsets, too.
//!
//! # Source
//!
//! Groups and communicators of MPI-4.1, sections 7.3 and 7.4: [`Subset::split`] is `MPI_Comm_split`, [`Subset::by_node`]
//! `MPI_Comm_split_type` with `MPI_COMM_TYPE_SHARED`, [`Subset::of`] `MPI_Comm_create`.
//!
//! # State
//!
//! * The members: a number, three numbers, or a list with an index, whichever is sufficient.
//! * The *arena*: a range of the parent's symmetric heap that all ranks of the parent reserve when the subset is made.
//!   The subset's own heap is over the arena. Displacements name the same memory in the subset and in the parent.
//! * The members' topology: 3 numbers where they form blocks, 4 bytes for each member where they do not.
//!
//! # Invariants
//!
//! * I1. All ranks of the parent, members or not, reserve and free arenas in the same order and of the same sizes. So
//!   their heaps agree before and after.
//! * I2. Subsets that share an arena (the subsets of one split) have no member in common. So no word has two owners: a
//!   displacement in the arena of a rank belongs to the one subset with that rank.
//! * I3. An arena is zero when it is allocated, like all memory of a heap.
//!
//! # Cost
//!
//! An operation costs a comparison and the translation of its rank: nothing for a subset of all ranks, a multiplication
//! for strided ranks, and a load for listed ranks. Only `split` and `free` communicate.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::model::fabric::{
    Bytes, Completion, Delay, Extras, Fabric, Failures, Leaving, LocalMemory, OuterWorld, Registration, Span, Word,
    WordOp, WorldView,
};
use crate::model::registered::{Pinned, Refused, RegisteredKey, UserMemory};
use crate::model::remote::survival;
use crate::model::words::LocalWords;
use crate::{
    Address, Collectives, Disp, Error, Failed, Rank, RemoteAtomics, Request, Result, SymmetricHeap, Time, Until,
};

/// A default arena is the parent's free memory divided by this number.
///
/// So several splits leave room for each other, and for the parent's own windows: four arenas take 41 % together.
const ARENA_SHARE: u64 = 8;

/// The smallest size of a default arena in bytes, unless it is more than half of the free memory.
///
/// Collectives take 4 KiB for each of ⌈log₂ p⌉ links. Such an arena has room for them and for some locks.
const ARENA_LEAST: u64 = 64 << 10;

/// The size of a default arena is a multiple of this number.
const ARENA_UNIT: u64 = 4096;

/// The alignment of an arena: two cache lines, which locks require.
const ARENA_ALIGN: u64 = 128;

/// A number that no rank has, since the largest world ends before it.
const NOWHERE: Rank = Rank(u32::MAX);

/// The ranks of the parent that are members, in the order of their numbers here.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Members {
    /// All `count` ranks, in their own order.
    All { count: u32 },
    /// first, first + stride, and so on; `stride` ≥ 1.
    Strided { first: u32, stride: u32, count: u32 },
    /// Any.
    List {
        /// The parent's numbers, by number in the subset.
        outer: Arc<[u32]>,
        /// The parent's numbers with the numbers here, in ascending order.
        index: Arc<[(u32, u32)]>,
    },
}

impl Members {
    /// Makes the set of the ranks `members`, which are different ranks of a parent of `size` ranks.
    fn new(members: &[Rank], size: u32) -> Members {
        let count = members.len() as u32;
        let first = members.first().map_or(0, |first| first.0);
        let stride = match members {
            [first, second, ..] => second.0.saturating_sub(first.0),
            _ => 1,
        };
        let strided = (0..)
            .zip(members)
            .all(|(i, member)| stride > 0 && u64::from(member.0) == u64::from(first) + u64::from(stride) * i);
        if strided && (first, stride, count) == (0, 1, size) {
            Members::All { count }
        } else if strided {
            Members::Strided { first, stride, count }
        } else {
            let mut index: Vec<(u32, u32)> = members.iter().map(|member| member.0).zip(0..).collect();
            index.sort_unstable();
            Members::List { outer: members.iter().map(|member| member.0).collect(), index: index.into() }
        }
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        match self {
            Members::All { count } | Members::Strided { count, .. } => *count,
            Members::List { outer, .. } => outer.len() as u32,
        }
    }

    /// Returns the parent's number of a member.
    #[inline(always)]
    fn outer(&self, rank: Rank) -> Option<Rank> {
        match self {
            Members::All { count } => (rank.0 < *count).then_some(rank),
            // This does not overflow, since the product ends at a rank of the parent.
            Members::Strided { first, stride, count } => (rank.0 < *count).then(|| Rank(first + stride * rank.0)),
            Members::List { outer, .. } => outer.get(rank.index()).map(|&outer| Rank(outer)),
        }
    }

    /// Returns the number here of a rank of the parent.
    fn inner(&self, outer: Rank) -> Option<Rank> {
        match self {
            Members::All { count } => (outer.0 < *count).then_some(outer),
            Members::Strided { first, stride, count } => {
                let distance = outer.0.checked_sub(*first)?;
                let rank = distance / stride;
                (distance % stride == 0 && rank < *count).then_some(Rank(rank))
            }
            Members::List { index, .. } => {
                let at = index.binary_search_by_key(&outer.0, |&(outer, _)| outer).ok()?;
                Some(Rank(index[at].1))
            }
        }
    }
}

/// Some of the ranks of a parent, numbered from 0, used as a world.
///
/// Displacements are the same as in the parent. So members also reach memory of the parent through the subset, by their numbers in it. The
/// subset's [`heap`](RemoteAtomics::heap) allocates in its arena.
///
/// Dropping a subset leaves its arena reserved. [`free`](Self::free) returns it.
///
/// # Errors
///
/// Errors name ranks by their numbers in the subset. There are two exceptions: [`PeerFailed`](Error::PeerFailed) may concern a rank that is
/// not a member, and so names its number in the whole world. Errors of an existing [pin](RemoteAtomics::pin) are the parent's errors.
///
/// ```
/// use rmalab_atomics::{Collectives, RemoteAtomics, Subset, World};
///
/// let sums = World::threads(5).try_run(|ra| {
///     let world = Collectives::new(ra)?;
///     // The even ranks and the odd ones, in their old order.
///     let part = Subset::split(&world, Some(ra.rank().0 % 2), 0)?.expect("every rank has a colour");
///     let mut sum = [u64::from(ra.rank().0)];
///     Collectives::new(&part)?.allreduce(&mut sum, u64::wrapping_add)?;
///     Subset::free(Some(part), &world)?;
///     Ok::<u64, rmalab_atomics::Error>(sum[0])
/// })?;
/// assert_eq!(sums, [6, 4, 6, 4, 6]);
/// # Ok::<(), rmalab_atomics::Error>(())
/// ```
pub struct Subset<'a, A: RemoteAtomics + ?Sized> {
    parent: &'a A,
    members: Members,
    view: WorldView,
    arena: Disp,
    /// The same subset over the parent's handle for threads. It is made at once, since a cell for making it later would
    /// make the type invariant in `'a`.
    shared: Option<Box<Subset<'a, dyn RemoteAtomics + Sync + 'a>>>,
}

impl<A: RemoteAtomics + ?Sized> fmt::Debug for Subset<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subset")
            .field("rank", &self.view.rank())
            .field("members", &self.members)
            .field("arena", &self.arena)
            .finish_non_exhaustive()
    }
}

impl<'a, A: RemoteAtomics + ?Sized> Subset<'a, A> {
    /// Returns the default size of an arena of `parent`, in bytes. It is an eighth of the free memory there, but at
    /// least 64 KiB or, if that is less, a half. It is a whole number of pages of 4 KiB, and at least one.
    pub fn default_arena_bytes(parent: &A) -> u64 {
        let free = parent.heap().free_bytes();
        let share = (free / ARENA_SHARE).max(ARENA_LEAST.min(free / 2));
        (share / ARENA_UNIT).max(1) * ARENA_UNIT
    }

    /// Makes the subset of the ranks with the same `colour` as this rank, ordered by `key` and, where keys are equal, by
    /// their old number (`MPI_Comm_split`).
    ///
    /// Collective over the parent: all its ranks call it. A rank that gives no colour is in no subset, and gets `None`.
    ///
    /// It makes an allgather of two words. The time and the temporary memory grow with the number of the parent's
    /// ranks.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](Error::OutOfMemory) on all ranks alike, and [`PeerFailed`](Error::PeerFailed).
    pub fn split(parent: &Collectives<'a, A>, colour: Option<u32>, key: u32) -> Result<Option<Subset<'a, A>>> {
        let arena_bytes = Subset::default_arena_bytes(parent.ra());
        Subset::split_with_arena(parent, colour, key, arena_bytes)
    }

    /// Like [`split`](Self::split), with arenas of `arena_bytes` bytes. All ranks of the parent pass the same value.
    ///
    /// # Errors
    ///
    /// The errors of [`split`](Self::split).
    pub fn split_with_arena(
        parent: &Collectives<'a, A>,
        colour: Option<u32>,
        key: u32,
        arena_bytes: u64,
    ) -> Result<Option<Subset<'a, A>>> {
        const NONE: u64 = u64::MAX;
        let mine = colour.map_or(NONE, u64::from);
        let all = parent.allgather(&[mine, u64::from(key)])?;
        if all.as_chunks().0.iter().all(|&[colour, _]| colour == NONE) {
            return Ok(None);
        }
        let same_colour = |(rank, &[colour, key]): (u32, &[u64; 2])| (colour == mine).then_some((key, Rank(rank)));
        let mut members: Vec<(u64, Rank)> = (0..).zip(all.as_chunks().0).filter_map(same_colour).collect();
        members.sort_unstable();
        let members: Vec<Rank> = members.into_iter().map(|(_, rank)| rank).collect();
        Subset::make(parent.ra(), if mine == NONE { &[] } else { &members }, arena_bytes)
    }

    /// Makes the subset of the ranks of this rank's node, in their old order (`MPI_Comm_split_type` with
    /// `MPI_COMM_TYPE_SHARED`).
    ///
    /// All ranks of the parent call it at the same point of their sequences of allocations; nothing is communicated.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](Error::OutOfMemory) on all ranks alike.
    pub fn by_node(parent: &'a A) -> Result<Subset<'a, A>> {
        Subset::by_node_with_arena(parent, Subset::default_arena_bytes(parent))
    }

    /// Like [`by_node`](Self::by_node), with arenas of `arena_bytes` bytes. All ranks of the parent pass the same
    /// value.
    ///
    /// # Errors
    ///
    /// The errors of [`by_node`](Self::by_node).
    pub fn by_node_with_arena(parent: &'a A, arena_bytes: u64) -> Result<Subset<'a, A>> {
        let topology = parent.topology();
        let node = topology.node_of(parent.rank());
        let members: Vec<Rank> = (0..parent.size()).map(Rank).filter(|&rank| topology.node_of(rank) == node).collect();
        let subset = Subset::make(parent, &members, arena_bytes)?;
        Ok(subset.expect("a rank is on its own node"))
    }

    /// Makes the subset of the ranks `members`, numbered in this order. Returns `None` on the other ranks
    /// (`MPI_Comm_create`).
    ///
    /// All ranks of the parent call it at the same point of their sequences of allocations, with the same list; nothing
    /// is communicated. An empty list reserves nothing.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when a rank does not exist or is listed twice, and [`OutOfMemory`](Error::OutOfMemory); all ranks
    /// get the same error.
    pub fn of(parent: &'a A, members: &[Rank]) -> Result<Option<Subset<'a, A>>> {
        Subset::of_with_arena(parent, members, Subset::default_arena_bytes(parent))
    }

    /// Like [`of`](Self::of), with an arena of `arena_bytes` bytes. All ranks of the parent pass the same value.
    ///
    /// # Errors
    ///
    /// The errors of [`of`](Self::of).
    pub fn of_with_arena(parent: &'a A, members: &[Rank], arena_bytes: u64) -> Result<Option<Subset<'a, A>>> {
        let size = parent.size();
        if let Some(unknown) = members.iter().find(|member| member.0 >= size) {
            let plural = if size == 1 { "" } else { "s" };
            return Err(Error::world(format!(
                "subset: {unknown} is listed as a member and does not exist in a world of {size} rank{plural}"
            )));
        }
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::world(format!("subset: {} is listed as a member twice", twice[0])));
        }
        if members.is_empty() {
            return Ok(None);
        }
        Subset::make(parent, members, arena_bytes)
    }

    /// Reserves the arena (I1), and makes the subset of different ranks if this rank is one of them.
    fn make(parent: &'a A, members: &[Rank], arena_bytes: u64) -> Result<Option<Subset<'a, A>>> {
        let arena = Subset::reserve_arena(parent, arena_bytes)?;
        Subset::over(parent, members, arena, arena_bytes)
    }

    /// Allocates an arena of the parent's heap.
    pub(super) fn reserve_arena(parent: &A, arena_bytes: u64) -> Result<Disp> {
        parent.heap().alloc(arena_bytes, ARENA_ALIGN)
    }

    /// Makes the subset of different ranks over an arena that is reserved, if this rank is one of them.
    pub(super) fn over(
        parent: &'a A,
        members: &[Rank],
        arena: Disp,
        arena_bytes: u64,
    ) -> Result<Option<Subset<'a, A>>> {
        let members = Members::new(members, parent.size());
        let Some(rank) = members.inner(parent.rank()) else { return Ok(None) };
        let topology = match &members {
            Members::All { .. } => parent.topology().clone(),
            _ => parent.topology().of_subset((0..members.count()).filter_map(|rank| members.outer(Rank(rank)))),
        };
        let heap = SymmetricHeap::over(arena, arena_bytes);
        let view = WorldView::new(rank, parent.view().segment(), parent.capabilities(), topology, heap)?;
        let shared = parent.shared().map(|parent| {
            Box::new(Subset { parent, members: members.clone(), view: view.clone(), arena, shared: None })
        });
        Ok(Some(Subset { parent, members, view, arena, shared }))
    }

    /// Gives the arena back, zeroed, with everything in it. Collective over the parent.
    ///
    /// All ranks of the parent call it: members with their subset (members of one split in one call), the others with
    /// `None`. If there is no member at all, nothing is done.
    ///
    /// It makes an allreduce of two words, and calls [`Collectives::free`].
    ///
    /// # Errors
    ///
    /// [`Error::World`] on all ranks alike, before anything is freed, when the subsets were not made in one call, or
    /// not of this parent. [`PeerFailed`](Error::PeerFailed). The arena stays reserved then.
    pub fn free(subset: Option<Subset<'a, A>>, parent: &Collectives<'_, A>) -> Result<()> {
        // The largest and the smallest displacement. Ranks that are not members know no displacement.
        let mut arena = match subset {
            Some(subset) if std::ptr::addr_eq(subset.parent, parent.ra()) => [subset.arena.0 + 1, !subset.arena.0],
            // A subset of another parent. The numbers disagree, on all ranks.
            Some(_) => [u64::MAX; 2],
            None => [0; 2],
        };
        parent.allreduce(&mut arena, u64::max)?;
        match arena {
            [0, _] => Ok(()),
            [largest, smallest] if largest - 1 == !smallest => parent.free(Disp(!smallest)),
            _ => Err(Error::world(
                "subset: the ranks free subsets that were not made in one call; every rank passes its subset from the same call, and the parent's collectives",
            )),
        }
    }

    /// Returns the parent.
    pub fn parent(&self) -> &'a A {
        self.parent
    }

    /// Returns the parent's number of `rank`. If the subset has no such rank, it is a number that no rank has.
    #[inline(always)]
    pub fn outer(&self, rank: Rank) -> Rank {
        self.members.outer(rank).unwrap_or(NOWHERE)
    }

    /// Returns the number here of the parent's rank `outer`, if it is a member.
    pub fn inner(&self, outer: Rank) -> Option<Rank> {
        self.members.inner(outer)
    }

    /// Returns an error of the parent, with the numbers that its ranks have here.
    #[cold]
    fn renamed(&self, mut error: Error) -> Error {
        match &mut error {
            Error::NotRegistered { rank, .. }
            | Error::PeerLeft { rank }
            | Error::NotFailed { rank }
            | Error::OutOfRegistered { rank, .. } => {
                *rank = self.inner(*rank).unwrap_or(*rank);
            }
            _ => {}
        }
        error
    }
}

impl<A: RemoteAtomics + ?Sized> Fabric for Subset<'_, A> {
    #[inline(always)]
    fn view(&self) -> &WorldView {
        &self.view
    }

    #[inline(always)]
    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        self.parent.word(at.renumbered(self.outer(at.rank())), op)
    }

    #[inline]
    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        // SAFETY: the caller's promise, passed on; requests and flushes of this subset are the parent's.
        unsafe { self.parent.start_word(at.renumbered(self.outer(at.rank())), op, result) }
    }

    #[inline]
    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        // SAFETY: the caller's promise, passed on: a member's number becomes the number of a rank of the parent, whose
        // segments have the same length. Requests and flushes of this subset are the parent's.
        unsafe { self.parent.transfer(at.renumbered(self.outer(at.rank())), bytes, until) }
    }

    #[inline]
    fn done(&self, request: &Request) -> Result<bool> {
        self.parent.done(request)
    }

    #[inline]
    fn finish(&self, request: Request) -> Result<()> {
        self.parent.finish(request)
    }

    #[inline]
    fn complete(&self, target: Option<Rank>) -> Result<()> {
        self.parent.complete(target.map(|target| self.outer(target)))
    }

    #[inline]
    fn keep_order(&self, target: Rank) -> Result<()> {
        self.parent.keep_order(self.outer(target))
    }

    #[inline]
    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.parent.wait_on(own.renumbered(self.outer(own.rank())), until, deadline)
    }

    #[inline]
    fn delay(&self, delay: Delay) -> Result<()> {
        self.parent.delay(delay)
    }

    #[inline]
    fn clock(&self) -> Time {
        self.parent.clock()
    }

    #[inline(always)]
    fn extras(&self) -> Extras<'_> {
        let parent = self.parent.extras();
        Extras {
            shared: self.shared.as_ref().map(|shared| &**shared as &(dyn RemoteAtomics + Sync)),
            memory: parent.memory.is_some().then_some(self as &dyn LocalMemory),
            registration: parent.registration.is_some().then_some(self as &dyn Registration),
            leaving: parent.leaving.is_some().then_some(self as &dyn Leaving),
            failures: parent.failures.is_some().then_some(self as &dyn Failures),
            outer: Some(self),
            ..parent
        }
    }
}

impl<A: RemoteAtomics + ?Sized> LocalMemory for Subset<'_, A> {
    #[inline]
    fn shared_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        let rank = self.members.outer(at.rank)?;
        self.parent.shared_words(Address { rank, ..at }, words)
    }

    #[inline]
    fn direct_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        let rank = self.members.outer(at.rank)?;
        self.parent.direct_words(Address { rank, ..at }, words)
    }

    #[inline]
    fn own_words(&self, at: Disp, words: u64) -> Option<&[AtomicU64]> {
        self.parent.own_words(at, words)
    }

    #[inline]
    fn local_words(&self, at: Address, words: u64) -> Option<LocalWords<'_>> {
        let rank = self.members.outer(at.rank)?;
        self.parent.local_words(Address { rank, ..at }, words)
    }

    #[inline]
    fn stored(&self) {
        self.parent.stored();
    }
}

impl<A: RemoteAtomics + ?Sized> Leaving for Subset<'_, A> {
    #[inline]
    fn wait_on_writer(&self, own: Word, until: Until, writer: Rank) -> Result<u64> {
        let value = self.parent.wait_until_from(own.disp(), until, self.outer(writer));
        value.map_err(|error| self.renamed(error))
    }

    fn forsake(&self, what: &'static str) {
        self.parent.forsake(what);
    }

    fn forsaken(&self) -> Option<&'static str> {
        self.parent.forsaken()
    }
}

/// The failures of members. Failures of other ranks end waits here, too, and are acknowledged through the parent.
impl<A: RemoteAtomics + ?Sized> Failures for Subset<'_, A> {
    fn failed(&self) -> Result<Failed> {
        Ok(self.parent.failed()?.iter().filter_map(|rank| self.inner(rank)).collect())
    }

    fn acknowledge(&self, failed: &Failed) -> Result<()> {
        let outer = failed.iter().map(|rank| self.outer(rank)).collect();
        self.parent.acknowledge(&outer).map_err(|error| self.renamed(error))
    }

    fn silence(&self, failed: &Failed) -> Result<()> {
        let outer = failed.iter().map(|rank| self.outer(rank)).collect();
        self.parent.silence(&outer).map_err(|error| self.renamed(error))
    }

    fn expel(&self, rank: Rank) -> Result<()> {
        self.parent.expel(self.outer(rank)).map_err(|error| self.renamed(error))
    }

    fn generation(&self) -> u32 {
        survival(self.parent.extras()).map_or(0, |parent| parent.generation())
    }

    fn enter(&self, generation: u32) {
        if let Ok(parent) = survival(self.parent.extras()) {
            parent.enter(generation);
        }
    }

    fn revoke(&self, generation: u32) -> Result<()> {
        survival(self.parent.extras())?.revoke(generation)
    }
}

impl<A: RemoteAtomics + ?Sized> Registration for Subset<'_, A> {
    fn register(&self, memory: UserMemory) -> Result<RegisteredKey, Refused> {
        self.parent.register(memory)
    }

    fn deregister(&self, key: RegisteredKey) -> Result<UserMemory> {
        self.parent.deregister(key).map_err(|error| self.renamed(error))
    }

    fn pin(&self, rank: Rank, key: RegisteredKey) -> Result<Box<dyn Pinned + '_>> {
        let Some(outer) = self.members.outer(rank) else { return Err(Error::NotRegistered { rank, key }) };
        self.parent.pin(outer, key).map_err(|error| self.renamed(error))
    }
}

impl<A: RemoteAtomics + ?Sized> OuterWorld for Subset<'_, A> {
    /// Returns the number in the whole world, through all levels. If the subset has no such rank, it is a number that no
    /// rank has.
    fn number_of(&self, rank: Rank) -> Rank {
        self.members.outer(rank).map_or(NOWHERE, |rank| self.parent.world_rank(rank))
    }

    fn handle(&self) -> &dyn RemoteAtomics {
        self.parent.whole_world()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::random::Random;
    use crate::{Counted, Mapped, Operation, Topology, World};

    #[test]
    fn members_take_the_least_room() {
        let of = |ranks: &[u32]| Members::new(&ranks.iter().map(|&rank| Rank(rank)).collect::<Vec<_>>(), 6);
        assert_eq!(of(&[0, 1, 2, 3, 4, 5]), Members::All { count: 6 });
        assert_eq!(of(&[0, 1, 2, 3, 4]), Members::Strided { first: 0, stride: 1, count: 5 });
        assert_eq!(of(&[1, 3, 5]), Members::Strided { first: 1, stride: 2, count: 3 });
        assert_eq!(of(&[4]), Members::Strided { first: 4, stride: 1, count: 1 });
        assert_eq!(of(&[]).count(), 0);
        for ranks in [&[5, 4, 3][..], &[0, 1, 3], &[2, 4, 0]] {
            assert!(matches!(of(ranks), Members::List { .. }), "{ranks:?}");
        }
    }

    #[test]
    fn translations_are_inverse() {
        let mut random = Random::new(11, 0);
        for round in 0..2_000 {
            let size = 1 + random.below(12) as u32;
            let (first, step) = (random.below(4) as usize, 1 + random.below(3) as usize);
            let mut ranks: Vec<Rank> = (0..size).map(Rank).skip(first).step_by(step).collect();
            if round % 2 == 0 {
                for i in 0..ranks.len() {
                    ranks.swap(i, random.below(1 + i as u64) as usize);
                }
                ranks.truncate(random.below(1 + ranks.len() as u64) as usize);
            }
            let members = Members::new(&ranks, size);
            assert_eq!(members.count() as usize, ranks.len());
            for rank in (0..size + 3).chain([u32::MAX]).map(Rank) {
                assert_eq!(members.outer(rank), ranks.get(rank.index()).copied(), "{ranks:?} {rank}");
                let position = ranks.iter().position(|&outer| outer == rank).map(|at| Rank(at as u32));
                assert_eq!(members.inner(rank), position, "{ranks:?} {rank}");
            }
        }
    }

    /// Returns each rank's arguments of a split, which all ranks draw alike.
    fn choices(random: &mut Random, size: u32) -> Vec<(Option<u32>, u32)> {
        let colours = 1 + random.below(4);
        let keys = 1 + random.below(u64::from(size));
        let colour = |colour| if colour == 0 { None } else { Some(u32::MAX - colour as u32) };
        (0..size).map(|_| (colour(random.below(1 + colours)), random.below(keys) as u32)).collect()
    }

    /// Computes `MPI_Comm_split` in one thread: the members of the subset of `me`, in order.
    fn model(choices: &[(Option<u32>, u32)], me: Rank) -> Option<Vec<Rank>> {
        let (mine, _) = choices[me.index()];
        mine?;
        let mut members: Vec<Rank> = (0..).map(Rank).take(choices.len()).collect();
        members.retain(|rank| choices[rank.index()].0 == mine);
        members.sort_by_key(|rank| choices[rank.index()].1); // stable
        Some(members)
    }

    /// Checks that the subset equals the model, and that operations of its members reach only its members.
    fn compare<A: RemoteAtomics>(subset: Option<&Subset<'_, A>>, expected: Option<&[Rank]>) {
        let (Some(subset), Some(expected)) = (subset, expected) else {
            return assert_eq!(subset.is_some(), expected.is_some());
        };
        let parent = subset.parent();
        assert_eq!(subset.size() as usize, expected.len());
        assert_eq!(subset.outer(subset.rank()), parent.rank());
        for outer in (0..parent.size()).map(Rank) {
            let inner = expected.iter().position(|&member| member == outer).map(|at| Rank(at as u32));
            assert_eq!(subset.inner(outer), inner);
        }
        for (rank, &outer) in (0..).map(Rank).zip(expected) {
            assert_eq!((subset.outer(rank), subset.world_rank(rank)), (outer, parent.world_rank(outer)));
            assert_eq!(
                subset.topology().distance(subset.rank(), rank),
                parent.topology().distance(parent.rank(), outer),
            );
        }
        let missing = Rank(subset.size());
        assert_eq!((subset.outer(missing), subset.world_rank(missing)), (NOWHERE, NOWHERE));
        let collectives = Collectives::with_chunk(subset, 64).unwrap();
        let numbers = collectives.allgather(&[u64::from(parent.rank().0)]).unwrap();
        assert!(numbers.iter().copied().eq(expected.iter().map(|member| u64::from(member.0))));
        let words = subset.heap().alloc(8 * u64::from(subset.size()), 8).unwrap();
        for target in (0..subset.size()).map(Rank) {
            subset.fetch_add(target.at(words.word(u64::from(subset.rank().0))), 1).unwrap();
        }
        collectives.barrier().unwrap();
        for i in 0..u64::from(subset.size()) {
            assert_eq!(subset.get(subset.rank().at(words.word(i))).unwrap(), 1, "one member wrote it, once");
            assert_eq!(parent.get(parent.rank().at(words.word(i))).unwrap(), 1, "the same word");
        }
    }

    #[test]
    fn random_splits_agree_with_a_sequential_model() {
        for size in 1..=9 {
            let topology = Topology::blocks(size, 2, 2).unwrap();
            World::threads(size)
                .topology(topology)
                .run(|ra| {
                    let world = Collectives::new(ra).unwrap();
                    let free = ra.heap().free_bytes();
                    let mut random = Random::new(u64::from(size), 0);
                    for _ in 0..40 {
                        let asked = choices(&mut random, size);
                        let (colour, key) = asked[ra.rank().index()];
                        let subset = Subset::split(&world, colour, key).unwrap();
                        let expected = model(&asked, ra.rank());
                        compare(subset.as_ref(), expected.as_deref());
                        // A split of the first split, with random numbers that all ranks draw, so that the streams stay
                        // equal.
                        let asked = choices(&mut random, size);
                        if let Some(subset) = &subset {
                            let collectives = Collectives::new(subset).unwrap();
                            let asked = &asked[..subset.size() as usize];
                            let (colour, key) = asked[subset.rank().index()];
                            let inner = Subset::split(&collectives, colour, key).unwrap();
                            let expected = model(asked, subset.rank());
                            compare(inner.as_ref(), expected.as_deref());
                            Subset::free(inner, &collectives).unwrap();
                        }
                        Subset::free(subset, &world).unwrap();
                        assert_eq!(ra.heap().free_bytes(), free);
                    }
                })
                .unwrap();
        }
    }

    #[test]
    fn a_thousand_subsets_are_given_back_zeroed() {
        const ARENA: u64 = 64 << 10;
        World::threads(3)
            .segment_bytes(128 << 10)
            .run(|ra| {
                let world = Collectives::new(ra).unwrap();
                for round in 0..1_000 {
                    let colour = (round % 4 != u64::from(ra.rank().0)).then_some(1);
                    let subset = Subset::split_with_arena(&world, colour, 0, ARENA).unwrap();
                    if let Some(subset) = &subset {
                        let at = Rank((subset.rank().0 + 1) % subset.size()).at(subset.heap().alloc(ARENA, 8).unwrap());
                        assert_eq!(subset.fetch_add(at, round).unwrap(), 0);
                    }
                    Subset::free(subset, &world).unwrap();
                }
                // The arena of a dropped subset stays reserved.
                drop(Subset::split_with_arena(&world, Some(0), 0, ARENA).unwrap());
                let refused = Subset::split_with_arena(&world, Some(0), 0, ARENA).unwrap_err();
                assert!(matches!(refused, Error::OutOfMemory { requested: ARENA, .. }), "{refused}");
            })
            .unwrap();
    }

    #[test]
    fn nodes_are_subsets() {
        let world = World::threads(8).topology(Topology::blocks(8, 3, 1).unwrap()).run(|ra| {
            let free = ra.heap().free_bytes();
            let node = Subset::by_node(ra).unwrap();
            let arena = node.heap().capacity();
            assert!(arena.is_multiple_of(4096) && (free / 8 - 4095..=free / 8).contains(&arena), "{arena} of {free}");
            assert_eq!(node.topology(), &Topology::one_node(node.size()));
            let numbers = (node.rank().0, node.size(), node.world_rank(Rank(0)).0);
            let sum = Collectives::new(&node).unwrap().allgather(&[u64::from(ra.rank().0)]).unwrap();
            assert_eq!(sum[0], u64::from(numbers.2));
            numbers
        });
        assert_eq!(
            world.unwrap(),
            [(0, 3, 0), (1, 3, 0), (2, 3, 0), (0, 3, 3), (1, 3, 3), (2, 3, 3), (0, 2, 6), (1, 2, 6)]
        );
    }

    #[test]
    fn the_default_arena_depends_on_the_free_memory() {
        let arena = |free| World::threads(1).segment_bytes(free).run(Subset::default_arena_bytes).unwrap()[0];
        assert_eq!([8 << 20, 1 << 20, 256 << 10, 100 << 10].map(arena), [1 << 20, 128 << 10, 64 << 10, 48 << 10]);
        assert_eq!(arena(4096), 4096);
        // Splits into halves, as long as there are pages.
        World::threads(1)
            .segment_bytes(64 << 10)
            .run(|ra| {
                let first = Subset::by_node(ra).unwrap();
                let second = Subset::by_node(&first).unwrap();
                let third = Subset::by_node(&second).unwrap();
                assert_eq!(
                    [first.heap(), second.heap(), third.heap()].map(SymmetricHeap::capacity),
                    [32, 16, 8].map(|kib| kib << 10)
                );
            })
            .unwrap();
    }

    #[test]
    fn subsets_of_a_list_need_no_communication() {
        World::threads(5)
            .run(|ra| {
                let ra = Counted::new(ra);
                let world = Collectives::new(&ra).unwrap();
                let free = ra.heap().free_bytes();
                for wrong in [&[Rank(1), Rank(5)][..], &[Rank(u32::MAX)], &[Rank(2), Rank(4), Rank(2)]] {
                    let error = Subset::of(&ra, wrong).unwrap_err().to_string();
                    assert!(error.starts_with("subset: rank"), "{error}");
                }
                assert!(Subset::of(&ra, &[]).unwrap().is_none());
                assert_eq!(ra.heap().free_bytes(), free, "nothing was reserved");
                let subset = Subset::of_with_arena(&ra, &[4, 0, 1].map(Rank), 8192).unwrap();
                assert_eq!(ra.heap().free_bytes(), free - 8192);
                assert_eq!(ra.take(), crate::Counts::default());
                assert_eq!(
                    subset.as_ref().map(|subset| subset.rank().0),
                    [Some(1), Some(2), None, None, Some(0)][ra.rank().index()]
                );
                if let Some(subset) = &subset {
                    // An operation is a single operation of the parent.
                    let word = subset.heap().alloc(8, 8).unwrap();
                    subset.fetch_add(Rank(0).at(word), 1).unwrap();
                    assert_eq!(ra.counts().fetch_add.total(), 1);
                    assert_eq!(ra.counts().fetch_add.own, u64::from(ra.rank() == Rank(4)));
                }
                Subset::free(subset, &world).unwrap();
                Subset::free(None, &world).unwrap();
                assert_eq!(ra.heap().free_bytes(), free);
            })
            .unwrap();
    }

    #[test]
    fn only_subsets_of_one_call_are_freed_together() {
        World::threads(4)
            .run(|ra| {
                let world = Collectives::new(ra).unwrap();
                let first = Subset::split(&world, Some(0), 0).unwrap();
                let second = Subset::split(&world, Some(0), 0).unwrap();
                let mine = if ra.rank() == Rank(2) { first } else { second };
                let free = ra.heap().free_bytes();
                let error = Subset::free(mine, &world).unwrap_err();
                assert!(error.to_string().contains("were not made in one call"), "{error}");
                assert_eq!(ra.heap().free_bytes(), free);
                // The parent has the right type, but is not the right parent.
                let [right, wrong] = [0; 2].map(|_| Subset::by_node(ra).unwrap());
                let inner = Subset::by_node(&right).unwrap();
                let error = Subset::free(Some(inner), &Collectives::new(&wrong).unwrap()).unwrap_err();
                assert!(error.to_string().contains("were not made in one call"), "{error}");
                world.barrier().unwrap();
            })
            .unwrap();
    }

    #[test]
    fn errors_name_the_ranks_of_the_subset() {
        World::threads(4)
            .run(|ra| {
                let subset = Subset::of(ra, &[3, 1].map(Rank)).unwrap();
                let Some(subset) = &subset else { return };
                let subset: &dyn RemoteAtomics = subset;
                let missing = Rank(2).at(Disp(0));
                let refused = subset.get(missing).unwrap_err();
                assert!(matches!(refused, Error::RankOutOfRange { operation: Operation::Get, rank: Rank(2), size: 2 }));
                assert!(matches!(subset.flush(Rank(3)), Err(Error::RankOutOfRange { rank: Rank(3), size: 2, .. })));
                assert!(subset.shared_words(missing, 1).is_none());
                let odd = Rank(0).at(Disp(4));
                assert!(matches!(subset.put(odd, 1), Err(Error::Misaligned { at, .. }) if at == odd));
                let far = Rank(1).at(Disp(1 << 60));
                assert!(matches!(subset.put_bytes(far, &[1]), Err(Error::OutOfSegment { at, .. }) if at == far));
                let me = subset.rank();
                let odd = subset.wait_until(Disp(4), Until::Ge(0)).unwrap_err();
                assert!(matches!(odd, Error::Misaligned { at, .. } if at == me.at(Disp(4))), "{odd}");
                let clear = subset.clear(Disp(1 << 60), 8).unwrap_err();
                assert!(matches!(clear, Error::OutOfSegment { at, .. } if at.rank == me), "{clear}");
                let key = RegisteredKey(u64::MAX);
                for rank in [0, 1, 2].map(Rank) {
                    let refused = subset.pin(rank, key).unwrap_err();
                    assert!(matches!(refused, Error::NotRegistered { rank: named, .. } if named == rank), "{refused}");
                }
                let refused = subset.deregister(key).unwrap_err();
                assert!(matches!(refused, Error::NotRegistered { rank, .. } if rank == me), "{refused}");
            })
            .unwrap();
    }

    #[test]
    fn the_death_of_a_rank_that_is_no_member_ends_waits() {
        let run = |ra: &Mapped| {
            let subset = Subset::of(ra, &[2, 0].map(Rank)).unwrap();
            assert_ne!(ra.rank(), Rank(1), "rank 1 dies");
            let Some(subset) = subset else { return };
            let never = subset.heap().alloc(8, 8).unwrap();
            let error = subset.wait_until(never, Until::Eq(1)).unwrap_err();
            assert!(matches!(error, Error::PeerFailed { rank: Rank(1) }), "{error}");
        };
        let panic = catch_unwind(AssertUnwindSafe(|| World::threads(4).run(run))).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("rank 1 dies"));
    }
}
