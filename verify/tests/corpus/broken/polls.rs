//! Locks whose behaviour depends on past polls, or on values read before them.

use rmalab_atomics::{Result, Until};
use rmalab_locks::qnode::NIL;
use rmalab_verify::subject::Holds::{Number, Pointer};

use crate::protocol::{Memory, Protocol, Side, Words, lock};
use crate::{EXCLUSION, Entry, REST, STUCK, breaks};

pub(super) fn entries() -> Vec<Entry> {
    use Then::{EntersAnyway, PutsPlainly, Sleeps, Trace};
    vec![
        breaks("plain-put-after-2-polls", &["2Wx2"], EXCLUSION, || lock("polls", AfterPolls(2, PutsPlainly))),
        breaks("plain-put-after-5-polls", &["2Wx2"], EXCLUSION, || lock("polls", AfterPolls(5, PutsPlainly))),
        breaks("plain-put-after-20-polls", &["2Wx2"], EXCLUSION, || lock("polls", AfterPolls(20, PutsPlainly))),
        breaks("plain-put-after-128-polls", &["2Wx2"], EXCLUSION, || lock("polls", AfterPolls(128, PutsPlainly)))
            .script(vec![(0, 1), (1, 256), (0, 1), (1, 1), (0, 1), (1, 1)]),
        breaks("enters-after-20-polls", &["2Wx1"], EXCLUSION, || lock("polls", AfterPolls(20, EntersAnyway))),
        breaks("enters-after-128-polls", &["2Wx1"], EXCLUSION, || lock("polls", AfterPolls(128, EntersAnyway))),
        breaks("trace-after-1-poll", &["2Wx1"], REST, || lock("polls", AfterPolls(1, Trace))),
        breaks("trace-after-3-polls", &["2Wx1"], REST, || lock("polls", AfterPolls(3, Trace))),
        breaks("trace-after-128-polls", &["2Wx1"], REST, || lock("polls", AfterPolls(128, Trace))),
        breaks("sleeps-after-128-polls", &["2Wx1"], STUCK, || lock("polls", AfterPolls(128, Sleeps))),
        breaks("no-release-after-2-polls-shown", &["2Wx1"], REST, || lock("keeps", KeepsAfter::<true>(2))),
        breaks("no-release-after-2-polls-hidden", &["2Wx1"], REST, || lock("keeps", KeepsAfter::<false>(2))),
        breaks("no-release-after-wait-shown", &["2Wx1"], REST, || lock("keeps", KeepsAfter::<true>(1))),
        breaks("no-release-after-wait-hidden", &["2Wx1"], REST, || lock("keeps", KeepsAfter::<false>(1))),
        breaks("enters-next-after-wait-shown", &["2Wx2"], EXCLUSION, || lock("later", EntersLater::<true>(1))),
        breaks("enters-next-after-wait-hidden", &["2Wx2"], EXCLUSION, || lock("later", EntersLater::<false>(1))),
        breaks("enters-second-after-wait-shown", &["2Wx3"], EXCLUSION, || lock("later", EntersLater::<true>(2))),
        breaks("enters-second-after-wait-hidden", &["2Wx3"], EXCLUSION, || lock("later", EntersLater::<false>(2))),
        breaks("enters-third-after-wait-hidden", &["2Wx4"], EXCLUSION, || lock("later", EntersLater::<false>(3))),
        breaks("enters-after-1-new-holder", &["3Wx1"], EXCLUSION, || lock("holders", CountsHolders(1))),
        breaks("enters-after-2-new-holders", &["3Wx2"], EXCLUSION, || lock("holders", CountsHolders(2))),
        breaks("4-words-before-a-poll", &["2Wx2"], EXCLUSION, || lock("words", ReadsFirst(4, 0b1111))),
        breaks("5-words-before-a-poll", &["2Wx2"], EXCLUSION, || lock("words", ReadsFirst(5, 0b1_1111))),
        breaks("5-words-before-a-poll-mixed", &["2Wx2"], EXCLUSION, || lock("words", ReadsFirst(5, 0b1_0101))),
        breaks("6-words-before-a-poll", &["2Wx2"], EXCLUSION, || lock("words", ReadsFirst(6, 0b11_1111)))
            .script(reads(6, 0b11_1111)),
        breaks("6-words-before-a-poll-mixed", &["2Wx2"], EXCLUSION, || lock("words", ReadsFirst(6, 0b10_1101)))
            .script(reads(6, 0b10_1101)),
        // More patterns than a node has witnesses.
        breaks("8-words-before-a-poll", &["2Wx2"], EXCLUSION, || lock("words", ReadsFirst(8, 0b1011_0110))),
    ]
}

/// A schedule in which rank 1 reads this pattern during rank 0's release, and breaks exclusion.
fn reads(words: u32, pattern: u32) -> Vec<(u32, u32)> {
    let mut script = vec![(0, words + 1)];
    for word in 0..words {
        // A word is set by a put and a flush, and cleared by the next two calls.
        let before = if pattern >> word & 1 == 1 { 2 } else { 4 };
        script.extend([(0, before), (1, 1), (0, 4 - before)]);
    }
    // It finds the lock taken, then free, and rank 0 is faster.
    script.extend([(1, 2), (0, 1), (1, 1), (0, words + 1), (1, 1)]);
    script
}

/// The behaviour of a waiter after a number of polls.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Then {
    /// It gets the owner until there is none, and then puts its own pointer. The two steps are not atomic.
    #[default]
    PutsPlainly,
    /// It enters without permission.
    EntersAnyway,
    /// It waits for a wake-up that no rank sends.
    Sleeps,
    /// It waits on, but leaves a nonzero word when it enters.
    Trace,
}

/// Wrong: after a number of polls that find the lock taken, the waiter does something else.
#[derive(Clone, Copy, Default, Debug)]
struct AfterPolls(u32, Then);

impl Protocol for AfterPolls {
    const HOME: Words = &[("owner", Pointer), ("trace", Number)];
    const EACH: Words = &[("woken", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let AfterPolls(most, then) = self;
        let mut polls = 0;
        loop {
            match then {
                Then::PutsPlainly if polls >= most => {
                    if side.get(side.home(0))? == NIL {
                        return side.put(side.home(0), side.me());
                    }
                }
                Then::EntersAnyway if polls >= most => return Ok(()),
                Then::Sleeps if polls >= most => drop(side.wait_until(side.own(0).disp, Until::Ne(0))?),
                _ => {
                    if side.compare_and_swap(side.home(0), NIL, side.me())? == NIL {
                        break;
                    }
                }
            }
            polls += 1;
            side.pause(1)?;
        }
        if then == Then::Trace && polls >= most {
            side.put(side.home(1), 1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// Wrong: after exactly this number of polls that found the lock taken, the release clears another word.
#[derive(Clone, Copy, Default, Debug)]
struct KeepsAfter<const SHOWN: bool>(u32);

impl<const SHOWN: bool> Protocol for KeepsAfter<SHOWN> {
    const HOME: Words = &[("owner", Pointer), ("other", Number)];
    type Memo = Memory<SHOWN, bool>;

    fn acquire(self, side: &mut Side<'_, Self::Memo>) -> Result<()> {
        let mut polls = 0;
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            polls += 1;
            side.pause(1)?;
        }
        side.memo.0 = polls == self.0;
        Ok(())
    }

    fn release(self, side: &mut Side<'_, Self::Memo>) -> Result<()> {
        let wrong = std::mem::take(&mut side.memo.0);
        side.put(side.home(u64::from(wrong)), NIL)
    }
}

/// Wrong: a rank that had to wait enters this number of acquisitions later without permission.
#[derive(Clone, Copy, Default, Debug)]
struct EntersLater<const SHOWN: bool>(u32);

impl<const SHOWN: bool> Protocol for EntersLater<SHOWN> {
    const HOME: Words = &[("owner", Pointer)];
    /// The number of acquisitions until then, 0 for none.
    type Memo = Memory<SHOWN, u32>;

    fn acquire(self, side: &mut Side<'_, Self::Memo>) -> Result<()> {
        let due = side.memo.0 == 1;
        side.memo.0 = side.memo.0.saturating_sub(1);
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            if due {
                return Ok(());
            }
            side.memo.0 = self.0;
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, Self::Memo>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// Wrong: a waiter that has seen this number of changes of the holder enters without permission.
#[derive(Clone, Copy, Default, Debug)]
struct CountsHolders(u32);

impl Protocol for CountsHolders {
    const HOME: Words = &[("owner", Pointer)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let (mut last, mut changes) = (NIL, 0);
        loop {
            let holder = side.compare_and_swap(side.home(0), NIL, side.me())?;
            if holder == NIL {
                return Ok(());
            }
            changes += u32::from(last != NIL && holder != last);
            if changes == self.0 {
                return Ok(());
            }
            last = holder;
            side.pause(1)?;
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// Wrong: a rank reads a number of words, and polls after that. If they had a certain pattern, it puts plainly when a
/// poll finds the lock free.
#[derive(Clone, Copy, Default, Debug)]
struct ReadsFirst(u64, u64);

impl Protocol for ReadsFirst {
    const HOME: Words = &[
        ("owner", Pointer),
        ("word0", Number),
        ("word1", Number),
        ("word2", Number),
        ("word3", Number),
        ("word4", Number),
        ("word5", Number),
        ("word6", Number),
        ("word7", Number),
    ];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let ReadsFirst(words, pattern) = self;
        let mut seen = 0;
        for word in 0..words {
            seen |= side.get(side.home(1 + word))? << word;
        }
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            side.pause(1)?;
            side.poll_zero(side.home(0))?;
            if seen == pattern {
                return side.put(side.home(0), side.me());
            }
        }
        Ok(())
    }

    /// Each word is set for a while, so that other ranks can read every pattern.
    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        for word in 1..=self.0 {
            side.write(side.home(word), 1)?;
            side.write(side.home(word), 0)?;
        }
        side.put(side.home(0), NIL)
    }
}
