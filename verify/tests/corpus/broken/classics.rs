//! Locks with a well-known error: a published one, or a correct lock without one of its parts.

use rmalab_atomics::{Result, Until};
use rmalab_locks::qnode::{NIL, rank_of};
use rmalab_verify::subject::Holds::{Number, Pointer};

use crate::correct::{Bakery, FreeList, GraunkeThakkar};
use crate::protocol::{Protocol, Side, Words, lock};
use crate::{BOTH, EXCLUSION, Entry, LATE, LIVELOCK, STUCK, breaks};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        breaks("two-polite-ranks", &["2Wx1", "2Wx2"], LIVELOCK, || lock("flags", Flags::Polite)).on(BOTH),
        breaks("two-insisting-ranks", &["2Wx1", "2Wx2"], LIVELOCK, || lock("flags", Flags::Insists)).on(BOTH),
        breaks("one-check-too-few", &["2Wx1"], EXCLUSION, || lock("flags", Flags::ChecksOnce)).on(BOTH),
        breaks("lost-wake-up", &["2Wx1"], STUCK, || lock("lost-wake-up", LostWakeUp)).on(BOTH),
        breaks("hyman", &["2Wx1"], EXCLUSION, || lock("hyman", Hyman)).on(BOTH),
        breaks("peterson-turn-first", &["2Wx1"], EXCLUSION, || lock("peterson", TurnFirst)).on(BOTH),
        breaks("bakery-without-choosing", &["2Wx1"], EXCLUSION, || lock("bakery", NoChoosing)).on(BOTH),
        // A rank may read before its own number is visible.
        breaks("bakery-without-flushes", &["2Wx1"], EXCLUSION, || lock("bakery", Bakery { flushes: false })).on(LATE),
        breaks("lamport-fast-without-delay", &["2Wx1"], EXCLUSION, || lock("fast", NoDelay)).on(BOTH),
        breaks("filter-of-one-level", &["3Wx1"], EXCLUSION, || lock("filter", OneLevel)).on(BOTH),
        breaks("clh-keeps-its-node", &["2Wx2"], LIVELOCK, || lock("clh", KeepsItsNode)).on(BOTH),
        // A rank may come again before its last bit has arrived. The bit before it looks like the next one.
        breaks("graunke-thakkar-without-flush", &["2Wx2"], EXCLUSION, || {
            lock("graunke-thakkar", GraunkeThakkar { flushes: false })
        })
        .on(LATE),
        breaks("hemlock-without-answer", &["1Wx2+2Wx1"], EXCLUSION, || lock("hemlock", NoAnswer)),
        breaks("queue-with-late-reset", &["2Wx2"], EXCLUSION, || lock("queue", LateReset)).on(LATE),
        // A rank that has read the first free node and its link may find the same node again, but with another link.
        breaks("free-list-without-tag", &["1Wx2+2Wx1"], EXCLUSION, || lock("free-list", FreeList { tag: 0 })),
        breaks("ticket-of-one-bit", &["3Wx1"], EXCLUSION, || lock("ticket", OneBitTicket)).on(BOTH),
        breaks("seqlock-looks-once", &["1R1Wx1", "2R1Wx1"], EXCLUSION, || lock("seqlock", LooksOnce)).on(BOTH),
        breaks("bitmap-put-at-release", &["1R1Wx1"], LIVELOCK, || lock("bitmap", PutAtRelease)).on(BOTH),
    ]
}

/// Locks of a flag for each of two ranks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Flags {
    /// Wrong: each rank yields to the other rank.
    #[default]
    Polite,
    /// Wrong: neither rank yields.
    Insists,
    /// Wrong: rank 1 checks that rank 0 does not want to enter, and does not check again after its own put.
    ChecksOnce,
}

impl Protocol for Flags {
    const EACH: Words = &[("flag", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let theirs = side.of(side.other(), 0);
        match self {
            Flags::Polite => loop {
                side.write(side.own(0), 1)?;
                if side.get(theirs)? == 0 {
                    return Ok(());
                }
                side.write(side.own(0), 0)?;
                side.pause(1)?;
            },
            Flags::ChecksOnce if side.rank().0 == 1 => {
                side.poll_zero(theirs)?;
                side.write(side.own(0), 1)
            }
            Flags::Insists | Flags::ChecksOnce => {
                side.write(side.own(0), 1)?;
                side.poll_zero(theirs)
            }
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// Wrong: the release takes the waiter before it frees the lock, and a rank may announce itself in between.
#[derive(Clone, Copy, Default, Debug)]
struct LostWakeUp;

impl Protocol for LostWakeUp {
    const HOME: Words = &[("owner", Pointer), ("waiter", Pointer)];
    const EACH: Words = &[("woken", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            side.fetch_store(side.home(1), side.me())?;
            side.wait_until(side.own(0).disp, Until::Ne(0))?;
            side.write(side.own(0), 0)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        let waiter = side.fetch_store(side.home(1), NIL)?;
        side.write(side.home(0), NIL)?;
        if waiter == NIL { Ok(()) } else { side.put(side.of(rank_of(waiter), 0), 1) }
    }
}

/// H. Hyman, "Comments on a Problem in Concurrent Programming Control", CACM 9(1), 1966. Wrong: the other rank may have
/// looked at the turn before it changes.
#[derive(Clone, Copy, Default, Debug)]
struct Hyman;

impl Protocol for Hyman {
    const HOME: Words = &[("turn", Number)];
    const EACH: Words = &[("flag", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("turn", 1)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let (me, turn) = (u64::from(side.rank().0), side.home(0));
        side.write(side.own(0), 1)?;
        while side.get(turn)? != me {
            side.poll_zero(side.of(side.other(), 0))?;
            side.write(turn, me)?;
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// Wrong: Peterson's lock with the two puts of the entry exchanged.
#[derive(Clone, Copy, Default, Debug)]
struct TurnFirst;

impl Protocol for TurnFirst {
    const HOME: Words = &[("victim", Pointer)];
    const EACH: Words = &[("flag", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("victim", u64::MAX)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.write(side.home(0), side.me())?;
        side.write(side.own(0), 1)?;
        while side.get(side.of(side.other(), 0))? != 0 && side.get(side.home(0))? == side.me() {
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// Wrong: the bakery, in which no rank waits for another rank that draws its number.
#[derive(Clone, Copy, Default, Debug)]
struct NoChoosing;

impl Protocol for NoChoosing {
    const EACH: Words = &[("number", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let mut number = 1;
        for other in side.others() {
            number = number.max(side.get(side.of(other, 0))? + 1);
        }
        side.write(side.own(0), number)?;
        for other in side.others() {
            side.poll(side.of(other, 0), |theirs| theirs == 0 || (theirs, other) > (number, side.rank()))?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// Wrong: Lamport's fast lock, in which a rank that has lost the race for x does not wait for the other ranks' flags.
#[derive(Clone, Copy, Default, Debug)]
struct NoDelay;

impl Protocol for NoDelay {
    const HOME: Words = &[("x", Pointer), ("y", Pointer)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let (x, y) = (side.home(0), side.home(1));
        loop {
            side.write(x, side.me())?;
            if side.get(y)? == NIL {
                side.write(y, side.me())?;
                if side.get(x)? == side.me() || side.get(y)? == side.me() {
                    return Ok(());
                }
            }
            side.poll_zero(y)?;
            side.pause(1)?;
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.compare_and_swap(side.home(0), side.me(), NIL)?;
        side.put(side.home(1), NIL)
    }
}

/// Wrong: the filter lock with one level for three ranks, which holds back only one of them.
#[derive(Clone, Copy, Default, Debug)]
struct OneLevel;

impl Protocol for OneLevel {
    const HOME: Words = &[("victim", Pointer)];
    const EACH: Words = &[("level", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.write(side.own(0), 1)?;
        side.write(side.home(0), side.me())?;
        'wait: while side.get(side.home(0))? == side.me() {
            for other in side.others() {
                if side.get(side.of(other, 0))? != 0 {
                    side.pause(1)?;
                    continue 'wait;
                }
            }
            break;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.compare_and_swap(side.home(0), side.me(), NIL)?;
        side.put(side.own(0), 0)
    }
}

/// Wrong: the CLH lock, in which a rank uses its own node again. Its successor may still poll that node.
#[derive(Clone, Copy, Default, Debug)]
struct KeepsItsNode;

impl Protocol for KeepsItsNode {
    const HOME: Words = &[("tail", Pointer)];
    const EACH: Words = &[("pending", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("tail", u64::MAX)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.write(side.own(0), 1)?;
        let before = side.fetch_store(side.home(0), side.me())?;
        // Its own node has no holder.
        if before == NIL || before == side.me() { Ok(()) } else { side.poll_zero(side.of(rank_of(before), 0)) }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// Wrong: Hemlock, in which the release does not wait until the successor has seen the grant. The next successor takes
/// the grant for its own.
#[derive(Clone, Copy, Default, Debug)]
struct NoAnswer;

impl Protocol for NoAnswer {
    const HOME: Words = &[("tail", Pointer)];
    const EACH: Words = &[("grant", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let before = side.fetch_store(side.home(0), side.me())?;
        if before != NIL {
            let grant = side.of(rank_of(before), 0);
            side.poll(grant, |word| word != 0)?;
            side.put(grant, 0)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        if side.compare_and_swap(side.home(0), side.me(), NIL)? != side.me() {
            side.write(side.own(0), 1)?;
        }
        Ok(())
    }
}

/// Wrong: a queue lock whose ranks do not flush the reset of their flag. A stale flag ends the next wait too early.
#[derive(Clone, Copy, Default, Debug)]
struct LateReset;

impl Protocol for LateReset {
    const HOME: Words = &[("tail", Pointer)];
    const EACH: Words = &[("next", Pointer), ("unblocked", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let before = side.fetch_store(side.home(0), side.me())?;
        if before != NIL {
            side.put(side.of(rank_of(before), 0), side.me())?;
            side.wait_until(side.own(1).disp, Until::Ne(0))?;
            side.put(side.own(1), 0)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        if side.compare_and_swap(side.home(0), side.me(), NIL)? != side.me() {
            let next = side.wait_until(side.own(0).disp, Until::Ne(NIL))?;
            side.put(side.own(0), NIL)?;
            side.put(side.of(rank_of(next), 1), 1)?;
        }
        Ok(())
    }
}

/// Wrong: tickets of one bit, which are too few for three ranks.
#[derive(Clone, Copy, Default, Debug)]
struct OneBitTicket;

impl Protocol for OneBitTicket {
    const HOME: Words = &[("next", Number), ("serving", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("next", u64::MAX), ("serving", 1)];
    /// The ticket.
    type Memo = u64;

    fn acquire(self, side: &mut Side<'_, u64>) -> Result<()> {
        let ticket = side.fetch_add(side.home(0), 1)? & 1;
        *side.memo = ticket;
        side.poll(side.home(1), |serving| serving == ticket).map(drop)
    }

    fn release(self, side: &mut Side<'_, u64>) -> Result<()> {
        side.put(side.home(1), *side.memo ^ 1)
    }
}

/// Wrong: a reader looks at the sequence number before it counts itself, and not again after that.
#[derive(Clone, Copy, Default, Debug)]
struct LooksOnce;

impl Protocol for LooksOnce {
    const HOME: Words = &[("writer", Number), ("readers", Number)];
    const READERS_SHARE: bool = true;
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.take(side.home(0))?;
        side.poll_zero(side.home(1))
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), 0)
    }

    fn acquire_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.poll_zero(side.home(0))?;
        side.fetch_add(side.home(1), 1).map(drop)
    }

    fn release_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.fetch_add(side.home(1), 1_u64.wrapping_neg()).map(drop)
    }
}

/// Wrong: the writer's release puts zero, and erases the bit of a reader that is about to withdraw.
#[derive(Clone, Copy, Default, Debug)]
struct PutAtRelease;

const WRITER: u64 = 1 << 63;

impl Protocol for PutAtRelease {
    const HOME: Words = &[("bits", Number)];
    const READERS_SHARE: bool = true;
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        while side.compare_and_swap(side.home(0), 0, WRITER)? != 0 {
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), 0)
    }

    fn acquire_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        let mine = 1_u64 << side.rank().0;
        while side.fetch_add(side.home(0), mine)? & WRITER != 0 {
            side.fetch_add(side.home(0), mine.wrapping_neg())?;
            side.poll(side.home(0), |bits| bits & WRITER == 0)?;
            side.pause(1)?;
        }
        Ok(())
    }

    fn release_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.fetch_add(side.home(0), (1_u64 << side.rank().0).wrapping_neg()).map(drop)
    }
}
