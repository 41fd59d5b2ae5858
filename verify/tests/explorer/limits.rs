//! Limits end a search cleanly, and so does a bound on preemptions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rmalab_atomics::{RemoteAtomics, Result};
use rmalab_verify::explorer::{Options, Search, explore};
use rmalab_verify::{DATA, Finding, Limit, Livelocks, Network, Property, subject, subjects};

use crate::protocols::{GetThenPut, LateWaiter, OneBit, Peterson, Protocol, Side, lock};
use crate::{check, counterexample, plain, replayed, run, verdict};

/// A search that is too long for these tests: 1.5 million states.
const LARGE: &str = "2R2Wx2";

const SEARCHES: [Search; 2] = [Search::BreadthFirst, Search::DepthFirst];

#[test]
fn limits_end_a_search() {
    let check = check(subject("mcs-rw-rp").unwrap(), LARGE);
    for search in SEARCHES {
        for threads in [1, 2] {
            let options = Options { search, threads, ..plain() };
            let ends = |options: &Options, limit| {
                let outcome = run(&check, options);
                assert_eq!(outcome.finding, Finding::Incomplete(limit), "{options:?}");
                assert_eq!(outcome.livelocks, Livelocks::NotSearched, "{options:?}");
                outcome.progress
            };
            let progress = ends(&Options { max_states: Some(5_000), ..options.clone() }, Limit::States);
            assert!((5_000..20_000).contains(&progress.states), "{progress:?}");
            ends(&Options { max_bytes: 1 << 20, ..options.clone() }, Limit::Memory);
            ends(&Options { max_time: Some(Duration::ZERO), ..options.clone() }, Limit::Time);
        }
    }
}

#[test]
fn the_watch_can_end_a_search() {
    let check = check(subject("mcs-rw-rp").unwrap(), LARGE);
    for search in SEARCHES {
        for threads in [1, 2] {
            let options = Options { search, threads, ..plain() };
            let (calls, last) = (AtomicU64::new(0), AtomicU64::new(0));
            let outcome = explore(&check, &options, &|progress| {
                assert!(progress.states >= last.swap(progress.states, Ordering::Relaxed));
                calls.fetch_add(1, Ordering::Relaxed) < 2
            })
            .unwrap();
            assert_eq!(outcome.finding, Finding::Incomplete(Limit::Interrupted), "{options:?}");
            // The watch continues twice. After it has returned false, it is not called again.
            assert_eq!(calls.load(Ordering::Relaxed), 3, "{options:?}");
            assert!(outcome.progress.states >= last.load(Ordering::Relaxed));
        }
    }
}

#[test]
fn a_search_for_livelocks_can_be_ended_too() {
    // The search for states takes no time. The search for cycles checks its limits from time to time.
    let check = check(subject("tas-rw").unwrap(), "2R2Wx2");
    let whole = run(&check, &plain()).progress.states;
    let states = AtomicU64::new(0);
    let outcome = explore(&check, &plain(), &|progress| {
        states.store(progress.states, Ordering::Relaxed);
        progress.states < whole
    })
    .unwrap();
    match outcome.finding {
        Finding::Incomplete(limit) => assert_eq!(limit, Limit::Interrupted),
        // It ended before the first call of the watch.
        Finding::Holds => assert!(states.load(Ordering::Relaxed) < whole),
        Finding::Violated(other) => panic!("{other:?}"),
    }
}

/// Checks that the search finds the violation with `preemptions` preemptions and no fewer.
fn needs(check: &rmalab_verify::Check, property: Property, preemptions: u32) {
    for search in SEARCHES {
        for (threads, symmetry) in [(1, false), (1, true), (2, true)] {
            let options = Options { search, threads, symmetry, ..plain() };
            for bound in 0..preemptions {
                let outcome = run(check, &Options { preemptions: Some(bound), ..options.clone() });
                assert_eq!(outcome.finding, Finding::Holds, "within {bound}: {options:?}");
                assert!(outcome.bounded, "within {bound}: {options:?}");
            }
            for bound in preemptions..preemptions + 2 {
                let outcome = run(check, &Options { preemptions: Some(bound), ..options.clone() });
                assert_eq!(verdict(&outcome), Some(property), "within {bound}: {options:?}");
                let found = counterexample(&outcome);
                replayed(check, found);
                let preempted = found.preemptions(check).unwrap();
                assert!(preempted.len() <= bound as usize, "within {bound}: {preempted:?} in {found:?}");
                assert!(bound > preemptions || preempted.len() == bound as usize, "within {bound}: {found:?}");
            }
        }
    }
}

/// Panics if `N` steps of other ranks occur between its own steps. Its words need not be zero at rest.
struct Between<const N: u64>;

impl<const N: u64> Protocol for Between<N> {
    const NAME: &'static str = "between";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        // Each read must find one more step of another rank.
        if side.rank().0 == 0 {
            for step in 0..N {
                if side.get(side.home(0).rank.at(DATA))? != step + 1 {
                    return Ok(());
                }
            }
            panic!("{N} steps in between");
        }
        for _ in 0..N {
            side.fetch_add(side.home(0).rank.at(DATA), 1)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.get(side.home(1))?;
        Ok(())
    }
}

#[test]
fn a_bound_on_preemptions_is_one() {
    needs(&check(lock::<GetThenPut>(), "2Wx1"), Property::MutualExclusion, 2);
    needs(&check(lock::<LateWaiter>(), "2Wx1"), Property::NoLostWakeUp, 1);
    // Readers exclude nothing, so that only this property can break. The violation needs one switch away from each rank
    // between two of its steps.
    needs(&check(lock::<Between<1>>(), "2Rx1"), Property::Invariant, 0);
    needs(&check(lock::<Between<2>>(), "2Rx1"), Property::Invariant, 2);
    needs(&check(lock::<Between<3>>(), "2Rx1"), Property::Invariant, 4);
    let late = |subject| rmalab_verify::Check { network: Network::LatePuts, ..check(subject, "2Wx1") };
    needs(&late(lock::<OneBit<false>>()), Property::MutualExclusion, 1);
    needs(&late(lock::<Peterson<false, true>>()), Property::MutualExclusion, 1);
}

#[test]
fn a_bound_that_excludes_nothing_is_reported() {
    for name in ["mcs", "mcs-rw-rp", "mcs-rw-wp", "mcs-rw-neutral"] {
        let check = check(subject(name).unwrap(), "1R1Wx1");
        let free = run(&check, &plain());
        let wide = run(&check, &Options { preemptions: Some(50), ..plain() });
        assert_eq!((free.bounded, wide.bounded), (false, false), "{name}");
        assert_eq!(verdict(&wide), None);
        // The same schedules, but states that also count preemptions.
        assert!(wide.progress.states > free.progress.states, "{name}");
        let tight = run(&check, &Options { preemptions: Some(0), ..plain() });
        assert!(tight.bounded && tight.progress.states < wide.progress.states, "{name}");
    }
}

#[test]
fn one_thread_and_one_state_are_enough() {
    for subject in subjects() {
        let scenario = if subject.is_window() { "1Ax1" } else { "1Wx1" };
        let outcome = run(&check(subject, scenario), &Options { threads: 0, ..plain() });
        assert_eq!(outcome.finding, Finding::Holds);
    }
}

#[test]
fn a_lock_that_cannot_count_the_ranks_is_not_broken() {
    let refused = |scenario: &str| {
        let error = explore(&check(subject("robust-rw").unwrap(), scenario), &plain(), &|_| true).unwrap_err();
        assert!(matches!(error, rmalab_verify::Error::TooManyRanks { .. }), "{error:?}");
        error.to_string()
    };
    let expected = "scenario 58Wx1: robust-rw: 59 ranks are more than its words can count, which is 58; one rank more than the \
                    scenario has holds the lock's words";
    assert_eq!(refused("58Wx1"), expected);
    refused("59Wx1");
}
