//! The explorer assumes that a handle's `Debug` shows everything that it remembers, and that a polling loop remembers
//! nothing of past rounds. These tests show that it detects code that breaks the assumptions.

use rmalab_atomics::{RemoteAtomics, Result};
use rmalab_locks::qnode::NIL;
use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::{Error, Finding, Limit, Property};

use crate::oracle::compare;
use crate::protocols::{Bakery, Protocol, Side, hand, lock, take};
use crate::{check, plain, run, verdict};

/// Its handle remembers that it had to wait. After that, its release wakes no rank.
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
fn handles_that_hide_their_memory_are_detected() {
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

/// Polls, and enters without permission the `K`th time that it finds the lock taken.
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
fn loops_that_count_their_rounds_are_detected() {
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

/// Waits for the next release after the last one that it has seen. With `BEFORE`, it reads the number of releases
/// before it reads the lock, which is the right order.
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
        // Two values distinguish a release from the next one, and leave zero at rest.
        let releases = side.fetch_add(side.home(1), 1)?;
        if releases == 1 {
            side.fetch_add(side.home(1), 2_u64.wrapping_neg())?;
        }
        Ok(())
    }
}

#[test]
fn values_read_before_a_pause_are_not_forgotten() {
    // The bakery draws its numbers before the first poll.
    assert_eq!(compare(&check(lock::<Bakery>(), "2Wx1"), 2), None);
    assert_eq!(compare(&check(lock::<Bakery>(), "2Wx2"), 1), None);
    assert_eq!(compare(&check(lock::<NextRelease<true>>(), "2Wx1"), 2), None);
    // No rule for merging histories suits this lock, because each round of its outer loop reads again. Moreover, one of
    // its ranks can poll forever.
    let options = Options { max_states: Some(1_000), ..plain() };
    let outcome = run(&check(lock::<NextRelease<false>>(), "2Wx1"), &options);
    match &outcome.finding {
        Finding::Incomplete(limit) => assert_eq!(*limit, Limit::States),
        Finding::Violated(found) => assert_eq!(found.violation.property, Property::NoLivelock),
        Finding::Holds => panic!("the explorer missed that a rank polls forever: {:?}", outcome.progress),
    }
}
