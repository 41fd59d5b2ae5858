//! Small protocols as locks: a short trait, and protocols with well-known verdicts.
//!
//! Peterson: G. L. Peterson, "Myths about the Mutual Exclusion Problem", IPL 12(3), 1981. Bakery: L. Lamport, "A New
//! Solution of Dijkstra's Concurrent Programming Problem", CACM 17(8), 1974. One bit: L. Lamport, "The Mutual Exclusion
//! Problem: Part II", JACM 33(2), 1986, section 3.

use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::ops::Deref;

use rmalab_atomics::{Address, Rank, RemoteAtomics, Result, WORD};
use rmalab_locks::qnode::{NIL, pointer};
use rmalab_locks::{LINE, Place, RawRwLock};
use rmalab_verify::Subject;
use rmalab_verify::subject::{At, Holds, WORDS};

/// A lock in two functions.
pub(crate) trait Protocol: 'static {
    const NAME: &'static str;
    /// Words at the home, if the explorer is to name them.
    const HOME: &'static [(&'static str, Holds)] = &[];
    /// Words of each rank, if the explorer is to name them.
    const EACH: &'static [(&'static str, Holds)] = &[];
    /// True if the handle's `Debug` shows its memo.
    const SHOWS_MEMO: bool = true;

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()>;
    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()>;
}

/// One rank's side of a protocol.
pub(crate) struct Side<'s, A: ?Sized> {
    ra: &'s A,
    place: Place,
    /// The rank's memory between its calls of acquire and release.
    pub(crate) memo: &'s mut u64,
}

impl<A: RemoteAtomics + ?Sized> Side<'_, A> {
    /// A word at the home.
    pub(crate) fn home(&self, index: u64) -> Address {
        self.place.word(index)
    }

    /// A word of `rank`.
    pub(crate) fn of(&self, rank: Rank, index: u64) -> Address {
        rank.at(self.place.node.word(index))
    }

    /// A word of this rank.
    pub(crate) fn own(&self, index: u64) -> Address {
        self.of(self.rank(), index)
    }

    /// Rank 1 for rank 0, and rank 0 for rank 1.
    pub(crate) fn other(&self) -> Rank {
        Rank(1 - self.rank().0)
    }

    /// All other ranks that take part, which excludes the home, the last rank.
    pub(crate) fn others(&self) -> impl Iterator<Item = Rank> + use<A> {
        let me = self.rank();
        (0..self.size() - 1).map(Rank).filter(move |&rank| rank != me)
    }

    /// The pointer to this rank.
    pub(crate) fn me(&self) -> u64 {
        pointer(self.rank())
    }

    /// Polls until a word is zero.
    pub(crate) fn poll_zero(&self, at: Address) -> Result<()> {
        while self.get(at)? != 0 {
            self.pause(1)?;
        }
        Ok(())
    }
}

impl<A: ?Sized> Deref for Side<'_, A> {
    type Target = A;

    fn deref(&self) -> &A {
        self.ra
    }
}

/// A protocol as a lock.
pub(crate) struct Lock<P> {
    place: Place,
    memo: u64,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Debug for Lock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(P::NAME).field("memo", if P::SHOWS_MEMO { &self.memo } else { &"" }).finish()
    }
}

impl<P: Protocol> Lock<P> {
    pub(crate) fn side<'s, A: RemoteAtomics + ?Sized>(&'s mut self, ra: &'s A) -> Side<'s, A> {
        Side { ra, place: self.place, memo: &mut self.memo }
    }
}

impl<P: Protocol> RawRwLock for Lock<P> {
    const NAME: &'static str = P::NAME;
    const WORDS: u64 = 4 * WORD;
    const NODE: u64 = 4 * WORD;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_ra: &A, place: Place, (): ()) -> rmalab_locks::Result<Lock<P>> {
        Ok(Lock { place, memo: 0, protocol: PhantomData })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(P::acquire(&mut self.side(ra))?)
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(P::release(&mut self.side(ra))?)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(P::acquire(&mut self.side(ra))?)
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(P::release(&mut self.side(ra))?)
    }
}

/// The protocol as a subject.
pub(crate) fn lock<P: Protocol>() -> Subject {
    Subject::lock::<Lock<P>>(()).words(At::Home, WORDS, P::HOME).words(At::Each, WORDS.plus(LINE), P::EACH)
}

/// Peterson's lock for two ranks, with each flag at its rank. `FLUSH` completes each put before the next step. `TIDY`
/// resets the victim on release, unlike the paper.
pub(crate) struct Peterson<const FLUSH: bool, const TIDY: bool>;

impl<const FLUSH: bool, const TIDY: bool> Protocol for Peterson<FLUSH, TIDY> {
    const NAME: &'static str = "peterson";
    const HOME: &'static [(&'static str, Holds)] = &[("victim", Holds::Pointer)];
    const EACH: &'static [(&'static str, Holds)] = &[("flag", Holds::Number)];

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.own(0), 1)?;
        if FLUSH {
            side.flush_all()?;
        }
        side.put(side.home(0), side.me())?;
        if FLUSH {
            side.flush_all()?;
        }
        while side.get(side.of(side.other(), 0))? != 0 && side.get(side.home(0))? == side.me() {
            side.pause(1)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        if TIDY {
            side.put(side.home(0), NIL)?;
            if FLUSH {
                side.flush_all()?;
            }
        }
        side.put(side.own(0), 0)
    }
}

/// Dekker's entry: put the local flag, then read the other ranks' flags. The lower rank insists, the higher rank
/// yields (Lamport's one-bit algorithm). `FLUSH` completes the put before the read.
pub(crate) struct OneBit<const FLUSH: bool>;

impl<const FLUSH: bool> Protocol for OneBit<FLUSH> {
    const NAME: &'static str = "one-bit";
    const EACH: &'static [(&'static str, Holds)] = &[("flag", Holds::Number)];

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let me = side.rank();
        'again: loop {
            side.put(side.own(0), 1)?;
            if FLUSH {
                side.flush(me)?;
            }
            for lower in side.others().filter(|&rank| rank < me) {
                if side.get(side.of(lower, 0))? != 0 {
                    side.put(side.own(0), 0)?;
                    side.pause(1)?;
                    side.poll_zero(side.of(lower, 0))?;
                    continue 'again;
                }
            }
            for higher in side.others().filter(|&rank| rank > me) {
                side.poll_zero(side.of(higher, 0))?;
            }
            return Ok(());
        }
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// Lamport's bakery: after a poll, a rank still knows its number from before.
pub(crate) struct Bakery;

impl Protocol for Bakery {
    const NAME: &'static str = "bakery";
    const EACH: &'static [(&'static str, Holds)] = &[("choosing", Holds::Number), ("number", Holds::Number)];

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.own(0), 1)?;
        let mut number = 0;
        for other in side.others() {
            number = number.max(side.get(side.of(other, 1))?);
        }
        number += 1;
        side.put(side.own(1), number)?;
        side.put(side.own(0), 0)?;
        for other in side.others() {
            side.poll_zero(side.of(other, 0))?;
            loop {
                let theirs = side.get(side.of(other, 1))?;
                if theirs == 0 || (theirs, other) > (number, side.rank()) {
                    break;
                }
                side.pause(1)?;
            }
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.own(1), 0)
    }
}

/// Test-and-set as a get and a put, which is not atomic.
pub(crate) struct GetThenPut;

impl Protocol for GetThenPut {
    const NAME: &'static str = "get-then-put";
    const HOME: &'static [(&'static str, Holds)] = &[("owner", Holds::Pointer)];

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.poll_zero(side.home(0))?;
        side.put(side.home(0), side.me())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// A waiter announces itself after it has found the lock taken, and sleeps. The lock may have been released before the
/// announcement.
pub(crate) struct LateWaiter;

impl Protocol for LateWaiter {
    const NAME: &'static str = "late-waiter";
    const HOME: &'static [(&'static str, Holds)] = &[("owner", Holds::Pointer), ("waiter", Holds::Pointer)];
    const EACH: &'static [(&'static str, Holds)] = &[("woken", Holds::Number)];

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        if side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            side.put(side.home(1), side.me())?;
            side.wait_until(side.own(0).disp, rmalab_atomics::Until::Ne(0))?;
            side.put(side.own(0), 0)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let waiter = side.fetch_store(side.home(1), NIL)?;
        if waiter == NIL {
            return side.put(side.home(0), NIL);
        }
        // The release handed the lock over: the owner's word only shows that the lock is taken.
        side.put(side.of(rmalab_locks::qnode::rank_of(waiter), 0), 1)
    }
}

/// A counter and a flag for each rank, for two ranks: a rank that is not the first waits for the handover.
pub(crate) struct Handover;

/// Takes lock `index` of a side that has several of [`Handover`]'s kind.
pub(crate) fn take<A: RemoteAtomics + ?Sized>(side: &Side<'_, A>, index: u64) -> Result<()> {
    if side.fetch_add(side.home(index), 1)? != 0 {
        side.wait_until(side.own(index).disp, rmalab_atomics::Until::Ne(0))?;
        side.put(side.own(index), 0)?;
    }
    Ok(())
}

/// Hands lock `index` over, if the other rank waits for it.
pub(crate) fn hand<A: RemoteAtomics + ?Sized>(side: &Side<'_, A>, index: u64) -> Result<()> {
    if side.fetch_add(side.home(index), 1_u64.wrapping_neg())? != 1 {
        side.put(side.of(side.other(), index), 1)?;
    }
    Ok(())
}

impl Protocol for Handover {
    const NAME: &'static str = "handover";
    const HOME: &'static [(&'static str, Holds)] = &[("count", Holds::Number)];
    const EACH: &'static [(&'static str, Holds)] = &[("handed", Holds::Number)];

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        take(side, 0)
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        hand(side, 0)
    }
}
