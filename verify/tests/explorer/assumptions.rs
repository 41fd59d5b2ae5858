//! The explorer assumes that a handle's `Debug` shows everything that it remembers, and that a polling loop remembers
//! nothing of past rounds. These tests show that it detects code that breaks the assumptions.

use std::sync::atomic::{AtomicU64, Ordering};

use rmalab_atomics::{Rank, RemoteAtomics, Result, Time, Until};
use rmalab_locks::qnode::{NIL, rank_of};
use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::subject::Holds;
use rmalab_verify::{CLOCK, Check, DEADLINE, Error, Finding, Limit, Network, Property};

use crate::oracle::compare;
use crate::protocols::{Bakery, Protocol, Side, hand, lock, take};
use crate::{both, check, plain, run, verdict};

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
    for options in both().into_iter().flat_map(|one| [Options { threads: 2, ..one.clone() }, one]) {
        match explore(&check(lock::<Remembers<false>>(), "2Wx2"), &options, &|_| true) {
            Err(Error::Unsound(why)) => assert!(why.contains("its handle's Debug"), "{why}"),
            Ok(outcome) => assert_eq!(verdict(&outcome), Some(Property::NoDeadlock)),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Its code counts its runs, and makes a different call in every second run.
struct CountsRuns;

impl Protocol for CountsRuns {
    const NAME: &'static str = "counts-runs";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        if RUNS.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            side.get(side.home(1))?;
        }
        take(side, 0)
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        hand(side, 0)
    }
}

#[test]
fn code_that_is_no_function_of_its_answers_is_detected() {
    for options in both() {
        match explore(&check(lock::<CountsRuns>(), "2Wx2"), &options, &|_| true) {
            Err(Error::Unsound(why)) => assert!(why.contains("not a function of its answers"), "{why}"),
            other => panic!("{other:?}"),
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
    for options in both() {
        let options = Options { max_states: Some(1_000), ..options };
        let outcome = run(&check(lock::<NextRelease<false>>(), "2Wx1"), &options);
        match &outcome.finding {
            Finding::Incomplete(limit) => assert_eq!(*limit, Limit::States),
            Finding::Violated(found) => assert_eq!(found.violation.property, Property::NoLivelock),
            Finding::Holds => panic!("the explorer missed that a rank polls forever: {:?}", outcome.progress),
        }
    }
}

/// A test-and-set lock whose waiters take it by a get and a put, once they have found it taken `K` times.
struct PutAfterPolls<const K: u32>;

impl<const K: u32> Protocol for PutAfterPolls<K> {
    const NAME: &'static str = "put-after-polls";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let mut polls = 0;
        loop {
            if side.get(side.home(0))? != NIL {
                polls += 1;
                side.pause(1)?;
            } else if polls >= K {
                return side.put(side.home(0), side.me());
            } else if side.compare_and_swap(side.home(0), NIL, side.me())? == NIL {
                return Ok(());
            }
        }
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// A rank that has polled remembers it, and takes the lock by a get and a put the next time. `SHOWS` by its `Debug`.
struct FlagAfterPolls<const SHOWS: bool>;

impl<const SHOWS: bool> Protocol for FlagAfterPolls<SHOWS> {
    const NAME: &'static str = "flag-after-polls";
    const SHOWS_MEMO: bool = SHOWS;

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        loop {
            if side.get(side.home(0))? != NIL {
                *side.memo = 1;
                side.pause(1)?;
            } else if *side.memo == 1 {
                return side.put(side.home(0), side.me());
            } else if side.compare_and_swap(side.home(0), NIL, side.me())? == NIL {
                return Ok(());
            }
        }
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// Counts the changes of the holder while it polls, and takes the lock by a get and a put after the first one.
struct CountsHolders;

impl Protocol for CountsHolders {
    const NAME: &'static str = "counts-holders";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let (mut last, mut changes) = (NIL, 0);
        loop {
            let holder = side.get(side.home(0))?;
            if holder != NIL {
                changes += u32::from(last != NIL && last != holder);
                last = holder;
                side.pause(1)?;
            } else if changes >= 1 {
                return side.put(side.home(0), side.me());
            } else if side.compare_and_swap(side.home(0), NIL, side.me())? == NIL {
                return Ok(());
            }
        }
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

#[test]
fn loops_whose_ways_out_depend_on_their_rounds_are_detected() {
    fn put_after<const K: u32>(options: &Options) {
        let outcome = run(&check(lock::<PutAfterPolls<K>>(), "2Wx2"), options);
        assert_eq!(verdict(&outcome), Some(Property::MutualExclusion), "{K}, {options:?}");
    }
    for options in &both() {
        put_after::<1>(options);
        put_after::<2>(options);
        put_after::<5>(options);
        put_after::<20>(options);
        for subject in [lock::<FlagAfterPolls<true>>(), lock::<FlagAfterPolls<false>>()] {
            let outcome = explore(&check(subject, "2Wx2"), options, &|_| true);
            assert!(
                matches!(&outcome, Err(Error::Unsound(_)))
                    || outcome.as_ref().is_ok_and(|outcome| verdict(outcome) == Some(Property::MutualExclusion)),
                "{outcome:?}"
            );
        }
        let outcome = run(&check(lock::<CountsHolders>(), "3Wx2"), options);
        assert_eq!(verdict(&outcome), Some(Property::MutualExclusion), "{options:?}");
    }
}

/// Forces its way in after 128 polls.
#[test]
fn loops_that_count_to_many_are_detected() {
    for options in both() {
        let outcome = run(&check(lock::<Impatient<128>>(), "2Wx1"), &options);
        assert_eq!(verdict(&outcome), Some(Property::MutualExclusion), "{options:?}");
    }
}

/// The MCS lock, except that one of its ranks has a defect. Each wait is on a separate word, so that its ranks are
/// interchangeable otherwise.
struct OneDiffers<const RANK: u32, const DEFECT: u32>;

/// It does not wait for its predecessor.
const RUSHES: u32 = 0;
/// It does not wake its successor.
const FORGETS: u32 = 1;
/// It leaves a word of its node.
const LITTERS: u32 = 2;

impl<const RANK: u32, const DEFECT: u32> OneDiffers<RANK, DEFECT> {
    fn has<A: RemoteAtomics + ?Sized>(side: &Side<'_, A>, defect: u32) -> bool {
        side.rank().0 == RANK && DEFECT == defect
    }
}

impl<const RANK: u32, const DEFECT: u32> Protocol for OneDiffers<RANK, DEFECT> {
    const NAME: &'static str = "one-differs";
    const HOME: &'static [(&'static str, Holds)] = &[("tail", Holds::Pointer)];
    const EACH: &'static [(&'static str, Holds)] = &[("next", Holds::Pointer), ("granted", Holds::Number)];

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let before = side.fetch_store(side.home(0), side.me())?;
        if before != NIL {
            side.put(side.of(rank_of(before), 0), side.me())?;
            if !Self::has(side, RUSHES) {
                side.wait_until(side.own(1).disp, Until::Ne(0))?;
                side.put(side.own(1), 0)?;
            }
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        if side.compare_and_swap(side.home(0), side.me(), NIL)? != side.me() {
            let next = side.wait_until(side.own(0).disp, Until::Ne(0))?;
            if !Self::has(side, LITTERS) {
                side.put(side.own(0), NIL)?;
            }
            if !Self::has(side, FORGETS) {
                side.put(side.of(rank_of(next), 1), 1)?;
            }
        }
        Ok(())
    }
}

#[test]
fn a_rank_that_differs_from_the_others_is_found_under_symmetry() {
    fn of<const RANK: u32>() {
        let symmetric = both().map(|options| Options { symmetry: true, ..options });
        for (subject, property) in [
            (lock::<OneDiffers<RANK, RUSHES>>(), Property::MutualExclusion),
            (lock::<OneDiffers<RANK, FORGETS>>(), Property::NoLostWakeUp),
            (lock::<OneDiffers<RANK, LITTERS>>(), Property::CleanRest),
        ] {
            for scenario in ["3Wx1", "3Wx2", "4Wx1"] {
                let check = check(subject.clone(), scenario);
                for options in &symmetric {
                    let broken = verdict(&run(&check, options));
                    assert!(broken.is_some(), "{RANK} {scenario}: {property}");
                    // Merged histories change which of two shortest counterexamples is the first.
                    let first = verdict(&run(&check, &plain()));
                    assert!(options.merging || broken == first, "{RANK} {scenario}: {broken:?}, {first:?}");
                }
            }
        }
    }
    of::<0>();
    of::<1>();
    of::<2>();
    assert_eq!(verdict(&run(&check(lock::<OneDiffers<9, RUSHES>>(), "3Wx2"), &Options::default())), None);
}

/// Rank 0 looks at rank 1's flag and then raises its own. Meanwhile, rank 1 completes the puts of all ranks ahead of
/// its look. Rank 0 may raise its flag only after that.
struct LooksBeforeTheFence;

impl Protocol for LooksBeforeTheFence {
    const NAME: &'static str = "looks-before-the-fence";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        if side.rank() == Rank(0) {
            side.poll_zero(side.of(side.other(), 0))?;
            side.put(side.own(0), 1)?;
            return side.get(side.home(0)).map(drop);
        }
        side.put(side.own(0), 1)?;
        side.flush_all()?;
        side.fence_everywhere()?;
        side.poll_zero(side.of(side.other(), 0))
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

#[test]
fn a_fence_observes_when_others_post_their_puts() {
    let check = Check { network: Network::LatePuts, ..check(lock::<LooksBeforeTheFence>(), "2Wx1") };
    assert_eq!(verdict(&run(&check, &Options::default())), Some(Property::MutualExclusion));
}

/// Gives up waiting after some time, and enters all the same: with `DEADLINE`, by a wait, otherwise by the clock.
struct LosesPatience<const DEADLINE: bool>;

impl<const DEADLINE: bool> Protocol for LosesPatience<DEADLINE> {
    const NAME: &'static str = "loses-patience";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        if DEADLINE {
            if side.fetch_add(side.home(0), 1)? != 0 {
                side.wait_until_deadline(side.own(0).disp, Until::Ne(0), Time(1_000_000))?;
                side.put(side.own(0), 0)?;
            }
            return Ok(());
        }
        let begin = side.now();
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            if side.now().0 > begin.0 + 1_000_000 {
                break;
            }
            side.pause(1)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        if DEADLINE { hand(side, 0) } else { side.put(side.home(0), NIL) }
    }
}

#[test]
fn what_time_would_change_is_reported_as_not_explored() {
    for options in both() {
        let of = |subject| run(&check(subject, "2Wx1"), &options).unexplored;
        assert_eq!(of(lock::<LosesPatience<true>>()), [DEADLINE]);
        assert_eq!(of(lock::<LosesPatience<false>>()), [CLOCK]);
        assert_eq!(of(lock::<PutAfterPolls<9>>()), [""; 0]);
    }
}
