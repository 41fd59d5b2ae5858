//! Locks whose behaviour depends on things that the explorer does not see, or whose searches have no end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rmalab_atomics::{Rank, Result, Until};
use rmalab_locks::qnode::{NIL, rank_of};
use rmalab_verify::subject::Holds::{Number, Pointer};

use crate::protocol::{Protocol, Side, Words, lock};
use crate::{EXCLUSION, Entry, Expected, LATE, LIVELOCK, Property, SC, breaks};

/// A rank that makes no call but pauses.
const ENDLESS: &[Property] = &[Property::Invariant, Property::NoLivelock];

pub(super) fn entries() -> Vec<Entry> {
    use Source::{Counter, Generator};
    let endless = |name, subject| Entry {
        scenarios: &["2Wx1"],
        ..Entry::new(name, subject, Expected::Limit).on(LATE).limits(64 << 20, 20)
    };
    let alone = |name| Entry { scenarios: &["1Wx1"], ..endless(name, || lock("hundreds", PutsByHundreds)) };
    let mut unreduced = endless("puts-without-end-unreduced", || lock("endless", PutsWithoutEnd { looks: false }));
    unreduced.options.partial_order = false;
    vec![
        breaks("fence-before-its-put", &["2Wx1"], EXCLUSION, || lock("fence", FenceFirst)).on(LATE),
        breaks("fence-before-its-put-twice", &["2Wx2"], EXCLUSION, || lock("fence", FenceFirst)).on(LATE),
        breaks("fence-between-two-puts", &["2Wx1"], EXCLUSION, || lock("fence", FenceBetween)).on(LATE),
        breaks("clock", &["2Wx1"], EXCLUSION, || lock("clock", Clock)).beyond_replays().today("holds"),
        breaks("deadline", &["2Wx1"], EXCLUSION, || lock("deadline", Deadline)).beyond_replays().today("holds"),
        breaks("static-counter-of-3", &["2Wx2"], EXCLUSION, || lock("process", Process(Counter, 3))),
        breaks("static-counter-of-a-million", &["2Wx2"], EXCLUSION, || lock("process", Process(Counter, 1_000_000)))
            .beyond_replays()
            .today("holds"),
        breaks("random-1-of-8", &["2Wx2"], EXCLUSION, || lock("process", Process(Generator, 8))),
        breaks("random-1-of-a-million", &["2Wx2"], EXCLUSION, || lock("process", Process(Generator, 1_000_000)))
            .beyond_replays()
            .today("holds"),
        endless("puts-without-end", || lock("endless", PutsWithoutEnd { looks: false })),
        unreduced,
        endless("puts-and-looks-without-end", || lock("endless", PutsWithoutEnd { looks: true })),
        alone("puts-without-end-by-hundreds"),
        alone("puts-without-end-into-4-gib").limits(4 << 30, 5),
        breaks("pauses-without-end", &["2Wx1"], ENDLESS, || lock("pauses", PausesWithoutEnd)),
        breaks("puts-without-end-sc", &["2Wx1"], LIVELOCK, || lock("endless", PutsWithoutEnd { looks: false })).on(SC),
    ]
}

/// Wrong: rank 1 fences before its put, not after it. So a put that rank 0 posts in between may be late.
#[derive(Clone, Copy, Default, Debug)]
struct FenceFirst;

impl Protocol for FenceFirst {
    const EACH: Words = &[("flag", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let theirs = side.of(side.other(), 0);
        if side.rank() == Rank(1) {
            side.fence_everywhere()?;
            side.write(side.own(0), 1)?;
            return side.poll_zero(theirs);
        }
        loop {
            side.put(side.own(0), 1)?;
            side.fence_light();
            if side.get(theirs)? == 0 {
                return Ok(());
            }
            side.put(side.own(0), 0)?;
            side.poll_zero(theirs)?;
            side.pause(1)?;
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// Rank 0 asks, looks at rank 1's flag, and posts that it enters. Wrong: rank 1 takes it for withdrawn if that put is
/// not there after a fence, but the fence may come before the post.
#[derive(Clone, Copy, Default, Debug)]
struct FenceBetween;

impl Protocol for FenceBetween {
    const EACH: Words = &[("asks", Number), ("enters", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let other = side.other();
        if side.rank() == Rank(1) {
            side.write(side.own(0), 1)?;
            if side.get(side.of(other, 0))? == 0 {
                return Ok(());
            }
            side.fence_everywhere()?;
            return side.poll_zero(side.of(other, 1));
        }
        loop {
            side.write(side.own(0), 1)?;
            if side.get(side.of(other, 0))? == 0 {
                return side.write(side.own(1), 1);
            }
            side.write(side.own(0), 0)?;
            side.poll_zero(side.of(other, 0))?;
            side.pause(1)?;
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        if side.rank() == Rank(0) {
            side.put(side.own(1), 0)?;
        }
        side.put(side.own(0), 0)
    }
}

/// Wrong: a waiter enters without permission once some time has passed.
#[derive(Clone, Copy, Default, Debug)]
struct Clock;

impl Protocol for Clock {
    const HOME: Words = &[("owner", Pointer)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let begun = side.now();
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            if side.now().since(begun) > Duration::from_millis(1) {
                return Ok(());
            }
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// A queue lock. Wrong: a waiter enters without permission after a deadline.
#[derive(Clone, Copy, Default, Debug)]
struct Deadline;

impl Protocol for Deadline {
    const HOME: Words = &[("tail", Pointer)];
    const EACH: Words = &[("next", Pointer), ("unblocked", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let before = side.fetch_store(side.home(0), side.me())?;
        if before != NIL {
            side.put(side.of(rank_of(before), 0), side.me())?;
            let deadline = side.now().after(Duration::from_millis(1));
            side.wait_until_deadline(side.own(1).disp, Until::Ne(0), deadline)?;
            side.write(side.own(1), 0)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        if side.compare_and_swap(side.home(0), side.me(), NIL)? != side.me() {
            let next = side.wait_until(side.own(0).disp, Until::Ne(NIL))?;
            side.write(side.own(0), NIL)?;
            side.put(side.of(rank_of(next), 1), 1)?;
        }
        Ok(())
    }
}

/// A number that all ranks of a process share.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Source {
    #[default]
    Counter,
    Generator,
}

/// Wrong: one of N acquisitions enters without permission. The number that decides it is not an answer.
#[derive(Clone, Copy, Default, Debug)]
struct Process(Source, u64);

impl Process {
    fn draw(self) -> u64 {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        static GENERATOR: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);
        match self.0 {
            Source::Counter => COUNTER.fetch_add(1, Ordering::Relaxed),
            Source::Generator => {
                let mut x = GENERATOR.load(Ordering::Relaxed);
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                GENERATOR.store(x, Ordering::Relaxed);
                x >> 20
            }
        }
    }
}

impl Protocol for Process {
    const HOME: Words = &[("owner", Pointer)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let impatient = self.draw() % self.1 == self.1 - 1;
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            if impatient {
                return Ok(());
            }
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// Wrong: it puts again and again, so that on a late network any number of puts is under way. With `looks`, it also
/// gets a word that no rank writes.
#[derive(Clone, Copy, Default, Debug)]
struct PutsWithoutEnd {
    looks: bool,
}

impl Protocol for PutsWithoutEnd {
    const HOME: Words = &[("asked", Number), ("answered", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        loop {
            side.put(side.home(0), 1)?;
            if self.looks && side.get(side.home(1))? != 0 {
                return Ok(());
            }
            side.pause(1)?;
        }
    }

    fn release(self, _side: &mut Side<'_, ()>) -> Result<()> {
        Ok(())
    }
}

/// Wrong: it puts a hundred words between two looks at a word that no rank writes.
#[derive(Clone, Copy, Default, Debug)]
struct PutsByHundreds;

impl Protocol for PutsByHundreds {
    const HOME: Words = &[("asked", Number), ("answered", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        while side.get(side.home(1))? == 0 {
            for _ in 0..100 {
                side.put(side.home(0), 1)?;
            }
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, _side: &mut Side<'_, ()>) -> Result<()> {
        Ok(())
    }
}

/// Wrong: a waiter pauses and never looks again.
#[derive(Clone, Copy, Default, Debug)]
struct PausesWithoutEnd;

impl Protocol for PausesWithoutEnd {
    const HOME: Words = &[("owner", Pointer)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        if side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            loop {
                side.pause(1)?;
            }
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}
