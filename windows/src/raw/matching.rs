//! Post, start, complete, wait: the protocols by which the ranks of an epoch meet.
//!
//! # Sources
//!
//! * MPI-4.1, section 12.5.2 (general active target synchronization) and section 12.5.5 (asserts).
//! * [`PscwStrategy::Flags`]: a flag for each rank, written by the target in the origin's memory: W. Jiang, J. Liu,
//!   H.-W. Jin, D. K. Panda, D. Buntinas, R. Thakur, W. D. Gropp, Efficient implementation of MPI-2 passive one-sided
//!   communication and of active synchronization over InfiniBand, 2004. Here a flag is a word, since one writer can put
//!   a word without an atomic operation. It has the number of the epoch, so no rank resets it.
//! * [`PscwStrategy::Matching`]: lists of announcements, as foMPI's (R. Gerstenberger, M. Besta, T. Hoefler, SC'13, section
//!   2.3), here a ring of slots with a ticket counter instead of a list with a free list.
//! * [`PscwStrategy::Deferred`]: see [`two_sided`](crate::two_sided).
//!
//! # State
//!
//! | word, of each rank | written by | value |
//! | --- | --- | --- |
//! | flags: posts (p words) | target t puts its own | the number of exposure epochs of t with this rank in their groups |
//! | flags: completions (p words) | origin o puts its own | the number of access epochs of o with this rank in their groups |
//! | matching: completions | origins: + 1 each, when they complete | the number of all completes that have arrived |
//! | matching: tail | targets: + 1 each, for a ticket | the number of all posts that have arrived |
//! | matching: slots (S = min(p, 64)) | targets, from 0 to the rank + 1; this rank, back to 0 | posts that are not taken |
//!
//! With flags each rank also counts, in private memory, its epochs of either kind with each other rank.
//!
//! # Invariants
//!
//! * I1. A target and an origin count their common epochs alike: the target's n-th exposure epoch with the origin in its
//!   group is the origin's n-th access epoch with the target in its group. Neither begins the next epoch before it has
//!   ended this one. So a flag at n or more means that the n-th post, or complete, has arrived. Posts with `nocheck` are
//!   counted but not put, and the next post that is put also counts for them.
//! * I2. Completions that have arrived belong to this exposure epoch or to earlier ones, since an origin's next complete
//!   needs this rank's next post. So an epoch is over as soon as their number has reached the sum of the groups' sizes so
//!   far.
//! * I3. The number of posts that are in slots, or will soon be, is the tail minus the number that this rank has taken. A
//!   poster that finds its slot full waits for it. A poster with a later ticket may be first. The slots are a set, so their
//!   order does not matter.
//! * I4. No rank waits forever for a full ring. A rank that waits for another rank's slot empties its own ring, and so
//!   does a rank that waits in start. A rank that computes will reach start. A rank that waits for a slot takes only
//!   the posts that are there, and waits for no other. Suppose that it waited for a post whose slot is still empty. The
//!   poster of that post might wait for a slot that has just become empty, and so on in a circle.
//!
//! # Cost
//!
//! For each pair of a target and an origin, in remote operations: flags take 1 put for the post and 1 for the complete,
//! like MPICH-2's messages. Matching takes 2 for the post and 1 for the complete. Start and wait are local. Each target
//! takes a flush, unless nothing was done, or the network keeps puts in their order ([`Capabilities::ordered_puts`])
//! and the complete is a put, by flags. In the latter case the complete follows the data, as in MVAPICH2, and no rank waits
//! for an acknowledgement. The complete of matching is an atomic, which waits for no put. The memory of each rank is 2 p
//! words and as many counts, or min(p, 64) + 2 words.
//!
//! [`Capabilities::ordered_puts`]: rmalab_atomics::Capabilities::ordered_puts

use std::cell::{Cell, RefCell};

use rmalab_atomics::{Disp, Rank, RemoteAtomics, Until, WORD};
use rmalab_locks::LINE;

use crate::{Call, Error, PscwStrategy, Result};

/// The largest number of slots of a ring.
pub(crate) const SLOTS: u32 = 64;

/// The largest group that is checked for duplicates without extra memory, by a search for each member.
const SHORT: usize = 16;

/// The pause between two looks at a full ring, in word operations.
const FULL: u32 = 16;

/// One rank's part of matching posts with starts, and completes with waits.
#[derive(Debug)]
pub(crate) struct Matching {
    /// The flags of the completions, or their counter.
    completions: Disp,
    /// The flags of the posts, or the tail and the slots.
    posts: Disp,
    state: MatchingState,
}

#[derive(Debug)]
enum MatchingState {
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
    /// The number of tickets whose posts this rank has taken out of its slots.
    head: Cell<u64>,
    /// Posts that were taken out of slots, and that no start has matched yet.
    taken: RefCell<Vec<Rank>>,
}

impl Matching {
    pub(crate) fn new<A: RemoteAtomics + ?Sized>(ra: &A, strategy: PscwStrategy, slots: u32) -> Result<Matching> {
        let size = ra.size();
        let counts = || (0..size).map(|_| Cell::new(0)).collect();
        let (state, posts, completions) = if strategy.for_ranks(size) == PscwStrategy::Matching {
            let slots = u64::from(size.min(slots));
            let ring = Ring { slots, expected: Cell::new(0), head: Cell::new(0), taken: RefCell::default() };
            (MatchingState::Ring(ring), 1 + slots, 1)
        } else {
            let (exposures, accesses) = (counts(), counts());
            (
                MatchingState::Flags { exposures, accesses, exposed_to: RefCell::default() },
                u64::from(size),
                u64::from(size),
            )
        };
        // Posts have separate cache lines: one side of a rank polls them while other ranks write to the other side's
        // words.
        let first = (completions * WORD).next_multiple_of(LINE);
        let completions = ra.heap().alloc(first + posts * WORD, LINE)?;
        Ok(Matching { completions, posts: completions.plus(first), state })
    }

    pub(crate) fn allocation(&self) -> Disp {
        self.completions
    }

    /// Returns the bytes of the counts for each other rank.
    pub(crate) fn remembered_bytes(&self) -> usize {
        match &self.state {
            MatchingState::Flags { exposures, accesses, .. } => {
                size_of_val(&exposures[..]) + size_of_val(&accesses[..])
            }
            MatchingState::Ring(_) => 0,
        }
    }

    /// Begins an exposure epoch with `group`, and notifies its ranks if `notify`.
    pub(super) fn post<A: RemoteAtomics + ?Sized>(&self, ra: &A, group: &[Rank], notify: bool) -> Result<()> {
        let me = u64::from(ra.rank().0);
        match &self.state {
            MatchingState::Flags { exposures, exposed_to, .. } => {
                let mut members = exposed_to.borrow_mut();
                members.clear();
                members.extend_from_slice(group);
                let count = |by: u64| {
                    let epochs = group.iter().map(|origin| &exposures[origin.index()]);
                    epochs.for_each(|epoch| epoch.set(epoch.get().wrapping_add(by)));
                };
                count(1);
                let mut to_notify = group.iter().filter(|_| notify);
                let put = |&origin: &Rank| ra.put(origin.at(self.posts.word(me)), exposures[origin.index()].get());
                if let Err(error) = to_notify.try_for_each(put) {
                    // The epoch has not begun, so the next post has this number again.
                    count(1_u64.wrapping_neg());
                    return Err(error.into());
                }
            }
            MatchingState::Ring(ring) => {
                for &origin in group {
                    if notify {
                        let ticket = ra.fetch_add(origin.at(self.posts), 1)?;
                        let slot = origin.at(self.posts.word(1 + ticket % ring.slots));
                        while ra.compare_and_swap(slot, 0, me + 1)? != 0 {
                            self.empty(ra, ring, false)?; // I4
                            ra.pause(FULL)?;
                        }
                    }
                    // This rank is counted even after an error, since a rank that was notified completes.
                    ring.expected.set(ring.expected.get() + 1);
                }
            }
        }
        Ok(())
    }

    /// Begins an access epoch with `group`. If the ranks notify, waits until all of them have posted, and takes the
    /// posts.
    pub(super) fn start<A: RemoteAtomics + ?Sized>(&self, ra: &A, group: &[Rank], notify: bool) -> Result<()> {
        match &self.state {
            MatchingState::Flags { accesses, .. } => {
                for &target in group {
                    let epoch = &accesses[target.index()];
                    epoch.set(epoch.get() + 1);
                    if notify {
                        ra.wait_until_from(self.posts.word(u64::from(target.0)), Until::Ge(epoch.get()), target)?; // I1
                    }
                }
            }
            MatchingState::Ring(ring) => {
                for &target in group.iter().filter(|_| notify) {
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

    /// Returns whether [`complete`](Self::complete) notifies by puts. An atomic does not follow the rank's puts.
    pub(super) fn completes_by_put(&self) -> bool {
        matches!(self.state, MatchingState::Flags { .. })
    }

    /// Notifies the ranks of `group` that this rank has completed its access epoch.
    pub(super) fn complete<A: RemoteAtomics + ?Sized>(&self, ra: &A, group: &[Rank]) -> Result<()> {
        let me = u64::from(ra.rank().0);
        for &target in group {
            match &self.state {
                MatchingState::Flags { accesses, .. } => {
                    ra.put(target.at(self.completions.word(me)), accesses[target.index()].get())?;
                }
                MatchingState::Ring(_) => {
                    ra.fetch_add(target.at(self.completions), 1)?;
                }
            }
        }
        Ok(())
    }

    /// Waits until all ranks of the exposure epoch's group have completed.
    pub(super) fn wait<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<()> {
        match &self.state {
            MatchingState::Flags { exposures, exposed_to, .. } => {
                for &origin in &*exposed_to.borrow() {
                    let epoch = exposures[origin.index()].get();
                    ra.wait_until_from(self.completions.word(u64::from(origin.0)), Until::Ge(epoch), origin)?; // I1
                }
            }
            MatchingState::Ring(ring) => {
                ra.wait_until(self.completions, Until::Ge(ring.expected.get()))?; // I2
            }
        }
        Ok(())
    }

    /// Returns whether all ranks of the exposure epoch's group have completed.
    pub(super) fn test<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<bool> {
        let own = |disp| ra.get(ra.rank().at(disp));
        match &self.state {
            MatchingState::Flags { exposures, exposed_to, .. } => {
                for &origin in &*exposed_to.borrow() {
                    if own(self.completions.word(u64::from(origin.0)))? < exposures[origin.index()].get() {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            MatchingState::Ring(ring) => Ok(own(self.completions)? >= ring.expected.get()),
        }
    }

    /// Takes the posts out of this rank's slots: all posts with a ticket, or those up to the first empty slot.
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

/// Checks that `group` names ranks of the world, each of them once.
pub(crate) fn check_group<A: RemoteAtomics + ?Sized>(ra: &A, call: Call, group: &[Rank]) -> Result<()> {
    let (rank, size) = (ra.rank(), ra.size());
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
