//! Locks in which one rank of three is wrong, searched with and without symmetry.

use rmalab_atomics::{Result, Until};
use rmalab_locks::qnode::{NIL, rank_of};
use rmalab_verify::subject::Holds::{Number, Pointer};

use crate::protocol::{Protocol, Side, Words, lock};
use crate::{EXCLUSION, Entry, LIVELOCK, Property, REST, STUCK, breaks};

pub(super) fn entries() -> Vec<Entry> {
    use How::{GetThenPut, NoRelease, WrongLink, WrongWord};
    let one = |name, properties: &'static [Property], subject| {
        breaks(name, &["3Wx1"], properties, subject).with_and_without_symmetry()
    };
    vec![
        one("rank-0-gets-then-puts", EXCLUSION, || lock("queue", Queue(0, GetThenPut))),
        one("rank-1-gets-then-puts", EXCLUSION, || lock("queue", Queue(1, GetThenPut))),
        one("rank-2-gets-then-puts", EXCLUSION, || lock("queue", Queue(2, GetThenPut))),
        one("rank-0-wakes-no-rank", STUCK, || lock("queue", Queue(0, NoRelease))),
        one("rank-1-wakes-no-rank", STUCK, || lock("queue", Queue(1, NoRelease))),
        one("rank-2-wakes-no-rank", STUCK, || lock("queue", Queue(2, NoRelease))),
        one("rank-0-wakes-by-a-wrong-word", STUCK, || lock("queue", Queue(0, WrongWord))),
        one("rank-1-wakes-by-a-wrong-word", STUCK, || lock("queue", Queue(1, WrongWord))),
        one("rank-2-wakes-by-a-wrong-word", STUCK, || lock("queue", Queue(2, WrongWord))),
        one("rank-0-links-by-a-wrong-word", STUCK, || lock("queue", Queue(0, WrongLink))),
        one("rank-1-links-by-a-wrong-word", STUCK, || lock("queue", Queue(1, WrongLink))),
        one("rank-2-links-by-a-wrong-word", STUCK, || lock("queue", Queue(2, WrongLink))),
        one("polling-rank-0-gets-then-puts", EXCLUSION, || lock("tas", Tas(0, GetThenPut))),
        one("polling-rank-1-gets-then-puts", EXCLUSION, || lock("tas", Tas(1, GetThenPut))),
        one("polling-rank-2-gets-then-puts", EXCLUSION, || lock("tas", Tas(2, GetThenPut))),
        one("polling-rank-0-keeps-the-lock", REST_OR_LIVELOCK, || lock("tas", Tas(0, NoRelease))),
        one("polling-rank-1-keeps-the-lock", REST_OR_LIVELOCK, || lock("tas", Tas(1, NoRelease))),
        one("polling-rank-2-keeps-the-lock", REST_OR_LIVELOCK, || lock("tas", Tas(2, NoRelease))),
        one("polling-rank-0-clears-a-wrong-word", REST_OR_LIVELOCK, || lock("tas", Tas(0, WrongWord))),
        one("polling-rank-1-clears-a-wrong-word", REST_OR_LIVELOCK, || lock("tas", Tas(1, WrongWord))),
        one("polling-rank-2-clears-a-wrong-word", REST_OR_LIVELOCK, || lock("tas", Tas(2, WrongWord))),
    ]
}

/// The last rank leaves the lock taken, or the next rank polls forever.
const REST_OR_LIVELOCK: &[Property] = &[REST[0], LIVELOCK[0]];

/// The deviation of the wrong rank.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum How {
    /// It takes the lock by two operations.
    #[default]
    GetThenPut,
    /// Its release lets no rank in.
    NoRelease,
    /// Its release puts to a wrong word.
    WrongWord,
    /// It announces itself to its predecessor by a wrong word.
    WrongLink,
}

/// A queue lock without polls, so that symmetry stays in use. Wrong: this rank deviates.
#[derive(Clone, Copy, Default, Debug)]
struct Queue(u32, How);

impl Protocol for Queue {
    const HOME: Words = &[("tail", Pointer)];
    const EACH: Words = &[("next", Pointer), ("unblocked", Number), ("unused", Pointer)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let tail = side.home(0);
        let before = if self.is(side, How::GetThenPut) {
            let before = side.get(tail)?;
            side.put(tail, side.me())?;
            before
        } else {
            side.fetch_store(tail, side.me())?
        };
        if before != NIL {
            let word = if self.is(side, How::WrongLink) { 2 } else { 0 };
            side.put(side.of(rank_of(before), word), side.me())?;
            side.wait_until(side.own(1).disp, Until::Ne(0))?;
            side.write(side.own(1), 0)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        if side.compare_and_swap(side.home(0), side.me(), NIL)? == side.me() {
            return Ok(());
        }
        let next = rank_of(side.wait_until(side.own(0).disp, Until::Ne(NIL))?);
        side.write(side.own(0), NIL)?;
        if self.is(side, How::NoRelease) {
            return Ok(());
        }
        let word = if self.is(side, How::WrongWord) { 2 } else { 1 };
        side.put(side.of(next, word), 1)
    }
}

impl Queue {
    fn is(self, side: &Side<'_, ()>, how: How) -> bool {
        self.0 == side.rank().0 && self.1 == how
    }
}

/// Test-and-set, with polls. Wrong: this rank deviates.
#[derive(Clone, Copy, Default, Debug)]
struct Tas(u32, How);

impl Protocol for Tas {
    const HOME: Words = &[("owner", Pointer), ("unused", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        if Queue(self.0, self.1).is(side, How::GetThenPut) {
            side.poll_zero(side.home(0))?;
            return side.put(side.home(0), side.me());
        }
        side.take(side.home(0))
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        let this = Queue(self.0, self.1);
        if this.is(side, How::NoRelease) {
            return Ok(());
        }
        side.put(side.home(u64::from(this.is(side, How::WrongWord))), NIL)
    }
}
