//! The robust two-level window lock: survivors recount the words of `two-level`, and take over targets from failed holders.
//!
//! # Paper
//!
//! The policy is [`two-level`](crate::two_level): R. Gerstenberger, M. Besta, T. Hoefler: Enabling Highly-Scalable Remote Memory
//! Access Programming with MPI-3 One Sided. SC'13, 2013. DOI 10.1145/2503210.2503286. The repair is new here. An owner word that
//! survivors compare is the idea of robust futexes (Linux, `Documentation/locking/robust-futexes.rst`).
//!
//! # Properties
//!
//! * Exclusion among the live ranks, order and cost are as in `two-level`: exclusive locks of different targets do not exclude
//!   each other, and starve while lock_alls overlap.
//! * [`lock`](WindowLock::lock) and [`lock_all`](WindowLock::lock_all) end with the failure of a rank.
//!   [`recoverable_lock`](WindowLock::recoverable_lock) and [`recoverable_lock_all`](WindowLock::recoverable_lock_all) go on.
//! * The rank that locks a target after the holder of its exclusive lock has failed gets
//!   [`Entry::OwnerDead`]. It is alone at that target, also under a shared lock. A lock_all gets it for
//!   all such targets at once, when no live rank holds an exclusive lock. Other targets are not affected.
//! * Until that rank declares the data [consistent](WindowLock::consistent), it gets no further lock. If it unlocks before, no rank
//!   can lock that target any more, or all targets ([`Error::NotRecoverable`]). If it fails before, the next rank gets `OwnerDead`.
//!   While a panic unwinds, an unlock keeps the lock.
//! * Any number of ranks may fail. On a backend where a rank's words end with it, the exceptions are the master's rank, and a
//!   target in use. No rank reads the announcements of a failed rank.
//! * Waiters poll a remote word.
//! * The explorer (`rmalab verify`) has checked this code itself exhaustively, livelocks included. With bits, under sequential
//!   consistency and with posted puts that arrive late, with one failure at any step: a lock_all and an exclusive lock, and a shared
//!   and an exclusive lock of one target, twice each; two exclusive locks; a lock_all, an exclusive lock and a shared lock of another
//!   target. On request (`--long`): three exclusive locks, and two twice; two lock_alls and an exclusive lock. Under sequential
//!   consistency, also these twice, or once with two failures; a lock_all and two exclusive locks of one target; a lock_all, an exclusive
//!   and a shared lock of one target.
//! * With announcements (`robust-two-level-announced`), it has checked the first two pairs twice each and two exclusive locks. On
//!   request: a lock_all, an exclusive lock and a shared lock of another target, also with two failures; two lock_alls and an exclusive
//!   lock. Searches of three ranks with more locks of one target did not end, and found nothing.
//!
//! # State
//!
//! | word | displacement | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | master, bit 63 | `words` | 1 bit | [`RobustTwoLevelParams::master`] | 1 only under [`robust-hierarchical`](crate::robust_hierarchical): its gates may be open |
//! | master, bits 62–32 | `words` | 31 bits | [`RobustTwoLevelParams::master`] | the ranks that hold, or wait in, lock_all |
//! | master, bit 31 | `words` | 1 bit | [`RobustTwoLevelParams::master`] | 1 when some target is not recoverable |
//! | master, the rest | `words` | 31 bits | [`RobustTwoLevelParams::master`] | the ranks that hold, or attempt, an exclusive lock |
//! | repairer | `words` + 8 | 64 bits | [`RobustTwoLevelParams::master`] | as in [`robust-tas`](crate::robust_tas): the rank that repairs |
//! | target, low half | `words` + [`LINE`] | 32 bits | every rank | nil, or the holder of the exclusive lock; 2^32 - 1: not recoverable |
//! | target, high half | `words` + [`LINE`] | 32 bits | every rank | the ranks that hold, or wait for, it in shared mode |
//! | announced | `words` + 2 [`LINE`] | 64 bits | every rank | bit 0: a count is about to change; bits 1, 2: counted as lock_all, as exclusive; above: number of changes |
//! | shared | `words` + 2 [`LINE`] + 8 | a bit for each rank | every rank | the targets in whose high half this rank is counted |
//!
//! In a world of at most [`BITS`] ranks, each rank has a bit in a set of ranks, and the last two rows do not exist. More ranks count
//! themselves: a set is a number, and each rank announces its part of the numbers in the last two rows. Both are its own: no other rank
//! writes them. `announced` keeps its number at rest.
//!
//! # Invariants
//!
//! * I1 to I4 of [`two-level`](crate::two_level), for live ranks. A rank that owns a target is counted in the master, also after
//!   it has failed.
//! * I5: only a live rank itself, or the rank that repairs after its failure, changes its bits. If ranks announce: while a live rank's
//!   counts differ from its announcement, bit 0 is set. The number grows with each change of a count. So if all announcements are the
//!   same before and after a look at a word, and no bit 0 is set, they were right at that look.
//! * I6: only the rank that holds `repairer` removes the bits or counts of failed ranks and replaces failed owners, after it has
//!   silenced those ranks. It adds differences, so live ranks may change the same words meanwhile. Every step can be repeated after
//!   a failure.
//! * I7: a rank that takes over a target counts itself in the master first. It removes the failed owner's count only when that
//!   owner owns nothing. So the counts keep lock_alls out without a gap, and no lock_all is inside.
//! * I8: a lock_all takes over while it is counted, and after a look at which no live rank was counted as exclusive. From then on
//!   no rank begins an exclusive lock (I2), except for a rank that takes over, which holds `repairer` (I6).
//!
//! # Memory ordering
//!
//! Bit 0 is ordered ahead of the change of the count (I5). A rank posts the end of the announcement, after the bits of `shared`. If it
//! is late, a recount waits for it.
//!
//! # Deviations from the paper
//!
//! * The deviations of `two-level`, with waiting. [`Contended::Retract`](crate::Contended::Retract) is left out, since a recount would
//!   have to wait for each retreat of a waiter.
//! * The owner replaces bit 0, since a waiter has to know which rank holds the lock.
//! * Small worlds have bits in place of counts, as [`robust-rw`](crate::robust_rw) has. These say whose share a failed rank's is, so
//!   ranks announce nothing. More ranks than fit into the master count and announce, as in [`robust-ticket`](crate::robust_ticket).
//! * A rank announces its shared locks by a bit for each target, since it may hold all of them. So each rank of a large world has one
//!   more word for each 64 ranks.
//! * A retry looks at the target and the master before it announces an attempt. So the announcements of waiting ranks end, and
//!   recounts do not wait forever.
//! * A rank polls its own target, too, since the failure of an owner that it has acknowledged does not end a wait.
//!
//! # Cost
//!
//! Remote operations, uncontended, as in `two-level`: shared 1 / 1, lock_all 1 / 1, the first exclusive lock of a rank 2 / 2,
//! each further one 1 / 1. A retry of an exclusive lock adds 2 gets. If ranks announce, each change of a count also writes the rank's
//! own words, and a repair on p ranks reads at most 3p - 1 words in each round. Otherwise it reads 2, or for a lock_all p + 1.

use std::thread::panicking;

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::qnode::NIL;
use crate::recoverable::{Entry, by_value};
use crate::robust_tas::RobustTas;
use crate::{Error, LINE, LockKind, Place, RawMutex, Result, WindowLock};

mod announced;
mod exclusive;
mod repair;

use exclusive::Attempt;

/// In the master: gates may be open. Like a lock_all, that keeps out exclusive locks. It belongs to no rank.
pub(crate) const GATES: u64 = 1 << 63;
/// The unit of the master's high half: ranks in lock_all.
pub(crate) const ALL: u64 = 1 << 32;
/// The unit of the master's low half: ranks in an exclusive lock.
pub(crate) const EXCLUSIVE: u64 = 1;
/// In the master: some target is not recoverable.
const SOME_LOST: u64 = 1 << 31;
/// The unit of the target's high half: ranks in a shared lock.
const SHARED: u64 = 1 << 32;
/// The low half of a word.
pub(crate) const LOW: u64 = u32::MAX as u64;
/// The owner of a target that no rank can lock any more.
const NOT_RECOVERABLE: u64 = LOW;

/// The parts of an announcement.
const CHANGES: u64 = 1;
pub(crate) const IN_ALL: u64 = 2;
pub(crate) const IN_EXCLUSIVES: u64 = 4;
const NUMBER: u64 = 8;

/// The most ranks of which each has a bit in each half of a word.
pub const BITS: u32 = 31;

/// The parameters of [`RobustTwoLevel`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RobustTwoLevelParams {
    /// The rank whose segment holds the master word.
    pub master: Rank,
    /// If true, ranks count and announce in a world of at most [`BITS`] ranks, too. More ranks always do.
    pub announces: bool,
    /// The pauses between two attempts, and between two polls.
    pub backoff: Backoff,
}

/// One rank's part of a robust two-level window lock; see the [module's text](self) for the protocol.
#[derive(Debug)]
pub struct RobustTwoLevel {
    master: Address,
    /// The displacement of the target word, in every rank's segment.
    target: Disp,
    /// The displacement of a rank's announcements, in its segment.
    own: Disp,
    me: Rank,
    /// This rank's part of a count: its bit, or 1 if it announces.
    share: u64,
    announces: bool,
    /// True if this rank announces nothing, and has no target to declare consistent. Then a shared lock or a lock_all, and its unlock, asks
    /// nothing else. All that follows a locked instruction waits for it.
    is_simple: bool,
    announced: u64,
    shared: Vec<u64>,
    /// The number of targets that this rank owns.
    exclusives: u32,
    /// The targets that this rank has taken over, and not declared consistent.
    told: Vec<Rank>,
    /// True if it owns them only until then: under a shared lock or a lock_all.
    gives_back: bool,
    /// True if this rank has locked by the calls that go on after failures.
    pub(crate) recovers: bool,
    backoff: BackoffState,
    repairs: RobustTas,
}

impl WindowLock for RobustTwoLevel {
    const NAME: &'static str = "robust-two-level";
    type Params = RobustTwoLevelParams;

    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), and [`Error::NoSuchTarget`] when the master is not a rank.
    fn new<A: RemoteAtomics + ?Sized>(ra: &A, params: RobustTwoLevelParams) -> Result<RobustTwoLevel> {
        let (me, size) = (ra.rank(), ra.size());
        if params.master.0 >= size {
            return Err(Error::NoSuchTarget { rank: me, target: params.master, size });
        }
        let announces = params.announces || size > BITS;
        let shared = if announces { size.div_ceil(u64::BITS) } else { 0 };
        let own = if announces { WORD + u64::from(shared) * WORD } else { 0 };
        let words = ra.heap().alloc(2 * LINE + own, LINE)?;
        let repairer = Place { home: params.master, words: words.word(1), node: words };
        Ok(RobustTwoLevel {
            master: params.master.at(words).unwatched(),
            target: words.plus(LINE),
            own: words.plus(2 * LINE),
            me,
            share: if announces { 1 } else { 1 << me.0 },
            announces,
            is_simple: !announces,
            announced: 0,
            shared: vec![0; shared as usize],
            exclusives: 0,
            told: Vec::new(),
            gives_back: false,
            recovers: false,
            backoff: BackoffState::new(params.backoff, me),
            repairs: RobustTas::bind(ra, repairer, Backoff { min: 1, max: 1 })?,
        })
    }

    #[inline(always)]
    fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        self.lock_one(ra, kind, target, false, no_gates).map(drop)
    }

    #[inline(always)]
    fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
        if panicking() && self.recovers {
            return Ok(());
        }
        if kind == LockKind::Shared && self.is_simple {
            return self.count_shared(ra, target, false).map(drop);
        }
        let is_lost = self.told.contains(&target);
        if is_lost {
            self.give_up(ra)?;
        }
        match kind {
            LockKind::Shared => self.count_shared(ra, target, false).map(drop),
            LockKind::Exclusive if is_lost => Ok(()),
            LockKind::Exclusive => self.disown(ra, target, NIL),
        }
    }

    #[inline(always)]
    fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.lock_every(ra, false).map(drop)
    }

    #[inline(always)]
    fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if panicking() && self.recovers {
            return Ok(());
        }
        if !self.is_simple && !self.told.is_empty() {
            self.give_up(ra)?;
        }
        self.count(ra, self.share(ALL).wrapping_neg(), IN_ALL).map(drop)
    }

    #[inline(always)]
    fn recoverable_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<Entry> {
        self.recover();
        self.lock_one(ra, kind, target, true, no_gates)
    }

    #[inline(always)]
    fn recoverable_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
        self.recover();
        self.lock_every(ra, true)
    }

    fn consistent<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.told.is_empty() {
            return Err(Error::NothingToDeclare { rank: ra.rank() });
        }
        // After an error, the data are not declared consistent.
        while let Some(&target) = self.told.last() {
            if self.gives_back {
                self.disown(ra, target, NIL)?;
            }
            self.told.pop();
        }
        self.is_simple = !self.announces;
        Ok(())
    }

    fn allocations(&self) -> Vec<Disp> {
        // The master word is the allocation's first one.
        vec![self.master.disp]
    }
}

/// Closes no gates: none is ever open.
fn no_gates<A: ?Sized>(_: &mut RobustTwoLevel, _: &A) -> Result<()> {
    Ok(())
}

impl RobustTwoLevel {
    fn word_of(&self, target: Rank) -> Address {
        target.at(self.target).unwatched()
    }

    /// Locks a target. `close` closes all gates, and counts this rank as exclusive.
    #[inline(always)]
    pub(crate) fn lock_one<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        kind: LockKind,
        target: Rank,
        recovers: bool,
        close: impl FnMut(&mut RobustTwoLevel, &A) -> Result<()>,
    ) -> Result<Entry> {
        match kind {
            LockKind::Shared if self.is_simple => self.share_target(ra, target, recovers),
            _ if !self.told.is_empty() => Err(Error::Inconsistent { rank: self.me, target }),
            LockKind::Shared => self.share_target(ra, target, recovers),
            LockKind::Exclusive => match self.attempt(ra, target)? {
                Attempt::Success => Ok(Entry::Clean),
                Attempt::Refused(master) => by_value(self.retry(ra, target, master, recovers, close)),
            },
        }
    }

    #[inline(always)]
    fn share_target<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, target: Rank, recovers: bool) -> Result<Entry> {
        let word = self.count_shared(ra, target, true)?;
        if word & LOW == NIL { Ok(Entry::Clean) } else { by_value(self.wait_for_owner(ra, target, word, recovers)) }
    }

    /// Notes that this rank goes on after failures.
    #[inline(always)]
    pub(crate) fn recover(&mut self) {
        // The first locked instruction would wait for a store.
        if !self.recovers {
            self.recovers = true;
        }
    }

    /// Returns the address of the master.
    #[cfg(test)]
    pub(crate) fn word_of_master(&self) -> Address {
        self.master
    }

    /// Returns the master's word.
    pub(crate) fn master_word<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<u64> {
        Ok(ra.get(self.master)?)
    }

    #[inline(always)]
    fn lock_every<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, recovers: bool) -> Result<Entry> {
        let master = self.count(ra, self.share(ALL), IN_ALL)?;
        if master & LOW == 0 { Ok(Entry::Clean) } else { by_value(self.wait_for_exclusives(ra, master, recovers)) }
    }
}

#[cfg(test)]
mod tests;
