//! What the explorer takes for granted of a lock's code, and finds out if it is not so: a handle's `Debug` shows all that
//! it remembers, and a polling loop remembers nothing of past rounds.

use rmalab_atomics::{RemoteAtomics, Result};
use rmalab_locks::qnode::NIL;
use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::{Error, Finding, Limit, Property};

use crate::oracle::compare;
use crate::protocols::{Bakery, Protocol, Side, hand, lock, take};
use crate::{check, plain, run, verdict};

/// Keeps in its handle whether it had to wait, and then hands the lock to nobody.
struct Remembers<const SHOWS: bool>;

impl<const SHOWS: bool> Protocol for Remembers<SHOWS> {
    const NAME: &'static str = "remembers";
    const SHOWS_MEMO: bool = SHOWS;

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        *side.memo = side.get(side.home(0))?;
        take(side, 0)
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        if *side.memo == 0 {
            return hand(side, 0);
        }
        side.fetch_add(side.home(0), 1_u64.wrapping_neg())?;
        Ok(())
    }
}

#[test]
fn handles_that_hide_what_they_remember_are_found_out() {
    assert_eq!(compare(&check(lock::<Remembers<true>>(), "2Wx2"), 0), Some(Property::NoDeadlock));
    for threads in [1, 2] {
        let options = Options { threads, ..plain() };
        match explore(&check(lock::<Remembers<false>>(), "2Wx2"), &options, &|_| true) {
            Err(Error::Unsound(why)) => assert!(why.contains("its handle's Debug"), "{why}"),
            Ok(outcome) => assert_eq!(verdict(&outcome), Some(Property::NoDeadlock)),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Polls, and comes in uninvited the `K`th time that the lock is taken.
struct Impatient<const K: u32>;

impl<const K: u32> Protocol for Impatient<K> {
    const NAME: &'static str = "impatient";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let mut polls = 0;
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            polls += 1;
            if polls == K {
                return Ok(());
            }
            side.pause(1)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

#[test]
fn loops_that_count_their_rounds_are_found_out() {
    fn of<const K: u32>() {
        assert_eq!(compare(&check(lock::<Impatient<K>>(), "2Wx1"), K as usize), Some(Property::MutualExclusion), "{K}");
    }
    of::<1>();
    of::<2>();
    of::<3>();
    of::<4>();
    of::<7>();
    of::<20>();
    of::<60>();
}

/// Waits for a release after one that it has seen. `BEFORE` tells whether it looks at the number of releases before it
/// looks at the lock, as is right.
struct NextRelease<const BEFORE: bool>;

impl<const BEFORE: bool> Protocol for NextRelease<BEFORE> {
    const NAME: &'static str = "next-release";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let mut seen = side.get(side.home(1))?;
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            if !BEFORE {
                seen = side.get(side.home(1))?;
            }
            loop {
                let releases = side.get(side.home(1))?;
                if releases != seen {
                    seen = releases;
                    break;
                }
                side.pause(1)?;
            }
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.home(0), NIL)?;
        // Two releases are enough to tell one from the next, and zero at rest.
        let releases = side.fetch_add(side.home(1), 1)?;
        if releases == 1 {
            side.fetch_add(side.home(1), 2_u64.wrapping_neg())?;
        }
        Ok(())
    }
}

#[test]
fn what_was_seen_before_a_pause_is_not_forgotten() {
    // The bakery's numbers are drawn before the first poll.
    assert_eq!(compare(&check(lock::<Bakery>(), "2Wx1"), 2), None);
    assert_eq!(compare(&check(lock::<Bakery>(), "2Wx2"), 1), None);
    assert_eq!(compare(&check(lock::<NextRelease<true>>(), "2Wx1"), 2), None);
    // No rule for merging histories suits this one, as each round of its outer loop looks again; and one of its ranks can
    // poll for ever.
    let options = Options { max_states: Some(1_000), ..plain() };
    let outcome = run(&check(lock::<NextRelease<false>>(), "2Wx1"), &options);
    match &outcome.finding {
        Finding::Incomplete(limit) => assert_eq!(*limit, Limit::States),
        Finding::Violated(found) => assert_eq!(found.violation.property, Property::NoLivelock),
        Finding::Holds => panic!("a rank polls for ever, and nobody has seen it: {:?}", outcome.progress),
    }
}
