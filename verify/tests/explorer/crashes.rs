//! Ranks that fail at any step: locks that recover, and an engine's steps for a rank that has failed.

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_verify::explorer::{Options, Search};
use rmalab_verify::play::Event;
use rmalab_verify::{Check, Choice, Effect, Error, Finding, Live, Network, Property, TOLD, diagram, mutant, subject};

use Network::{LatePuts, Sc, UnorderedBulk};

use crate::{check, counterexample, plain, replayed, run, saved, verdict};

fn robust(lock: &str, scenario: &str, network: Network) -> Check {
    Check { network, ..check(subject(lock).unwrap(), scenario) }
}

fn broken(name: &str, lock: &str, scenario: &str) -> Check {
    let mutant = mutant(name).unwrap();
    Check { mutant: Some(mutant), ..robust(lock, scenario, mutant.network) }
}

#[test]
fn reductions_do_not_change_the_verdict() {
    for (lock, scenario) in
        [("robust-tas", "2Wx1 crash1"), ("robust-ticket", "2Wx1 crash1"), ("robust-rw", "1R1Wx2 crash1")]
    {
        for network in [Sc, LatePuts] {
            let check = robust(lock, scenario, network);
            for merging in [false, true] {
                for partial_order in [false, true] {
                    let outcome = run(&check, &Options { merging, partial_order, ..plain() });
                    assert_eq!(verdict(&outcome), None, "{lock} {network}: {merging} {partial_order}");
                    assert!(outcome.sometimes.contains(&(TOLD, true)), "{lock}: {:?}", outcome.sometimes);
                }
            }
        }
    }
}

/// The rounds of a repair have no bound. Without a flush in each round, the number of puts under way has no bound either, and
/// the search has no end.
#[test]
#[ignore = "a minute"]
fn a_repair_has_a_bounded_number_of_puts_under_way() {
    let check = robust("robust-mcs", "3Wx1 crash1", LatePuts);
    let outcome = run(&check, &Options { max_states: Some(1_200_000), max_bytes: 2 << 30, ..Options::default() });
    assert_eq!(outcome.finding, Finding::Holds, "{:?}", outcome.progress);
    assert!(outcome.sometimes.contains(&(TOLD, true)), "{:?}", outcome.sometimes);
}

/// A rank that links itself to a rank in a repair, and then fails, is no longer its successor.
#[test]
#[ignore = "takes a minute"]
fn longer_two_failures_leave_no_link_to_a_failed_rank() {
    let check = robust("robust-mcs", "3Wx1 crash2", Sc);
    let outcome = run(&check, &Options { search: Search::DepthFirst, ..Options::default() });
    assert_eq!(outcome.finding, Finding::Holds, "{:?}", outcome.progress);
}

#[test]
fn defects_of_a_repair_are_found_with_and_without_reductions() {
    for (name, lock, property) in [
        ("robust-tas-no-silence", "robust-tas", Property::MutualExclusion),
        ("robust-tas-untold", "robust-tas", Property::Told),
        ("robust-tas-unasked", "robust-tas", Property::NoLivelock),
    ] {
        let scenario = if property == Property::MutualExclusion { "3Wx1 crash1" } else { "2Wx1 crash1" };
        let check = broken(name, lock, scenario);
        let mut lengths = Vec::new();
        for partial_order in [false, true] {
            let outcome = run(&check, &Options { partial_order, merging: true, ..plain() });
            assert_eq!(verdict(&outcome), Some(property), "{name}");
            lengths.push(replayed(&check, counterexample(&outcome)));
        }
        if property != Property::NoLivelock {
            assert_eq!(lengths[0], lengths[1], "{name}: both are shortest");
        }
    }
}

#[test]
fn only_a_rank_that_may_write_leaves_data_half_written() {
    let fails_inside = |scenario: &str, rank| {
        let mut live = Live::new(&robust("robust-rw", scenario, Sc)).unwrap();
        take(&mut live, Choice::Step(rank));
        take(&mut live, Choice::Crash(rank));
        let mut told = 0;
        while !live.is_over() {
            // A rank learns of the failure as soon as it can, or it would poll on.
            let choices = live.choices();
            let notice = choices.iter().find(|choice| matches!(choice, Choice::Notice { .. }));
            let step_of = choices.iter().find(|choice| matches!(choice, Choice::Step(_)));
            let choice = *notice.or(step_of).unwrap();
            let step = live.take(choice).unwrap();
            assert_eq!(step.violation, None, "{scenario}");
            told += step.events.iter().filter(|&&event| event == Event::Told).count();
        }
        assert_eq!(live.end(), None, "{scenario}");
        told
    };
    // Rank 0 reads and rank 1 writes.
    assert_eq!(fails_inside("1R1Wx1 crash1", rmalab_atomics::Rank(0)), 0);
    assert_eq!(fails_inside("1R1Wx1 crash1", rmalab_atomics::Rank(1)), 1);
}

#[test]
fn without_a_failure_a_repair_is_never_needed() {
    // The defects of the repair do not show.
    for (name, lock) in [("robust-tas-no-silence", "robust-tas"), ("robust-tas-unasked", "robust-tas")] {
        let check = broken(name, lock, "3Wx1");
        assert_eq!(verdict(&run(&check, &plain())), None, "{name}");
    }
}

#[test]
fn checks_without_failures_of_locks_that_do_not_recover_are_refused() {
    for (lock, scenario, why) in
        [("mcs", "2Wx1 crash1", "does not recover"), ("robust-tas", "65Wx1 crash1", "at most 64 ranks")]
    {
        let error = robust(lock, scenario, Sc).validate().unwrap_err();
        assert!(matches!(error, Error::Crashes { .. }) && error.to_string().contains(why), "{error}");
    }
    assert!(robust("robust-tas", "2Wx1 crash1", Network::Hca).validate().is_err());
    robust("mcs", "2Wx1", Sc).validate().unwrap();
}

/// Takes the first of the steps that are possible.
fn take(live: &mut Live, choice: Choice) -> Effect {
    live.take(choice).unwrap_or_else(|why| panic!("{why}; possible are {:?}", live.choices())).effect
}

#[test]
fn what_a_failed_rank_has_posted_arrives_late_or_never() {
    let (zero, one) = (rmalab_atomics::Rank(0), rmalab_atomics::Rank(1));
    let arrives = Choice::Arrive { from: zero, index: 0 };
    let begin = || {
        let mut live = Live::new(&robust("robust-tas", "2Wx1 crash1", LatePuts)).unwrap();
        // Rank 0 acquires, posts its release, and fails.
        take(&mut live, Choice::Step(zero));
        take(&mut live, Choice::Step(zero));
        assert_eq!(take(&mut live, Choice::Crash(zero)), Effect::Crashed(1));
        assert!(!live.choices().contains(&Choice::Step(zero)), "a failed rank makes no step");
        assert!(!live.choices().contains(&Choice::Crash(one)), "one rank fails");
        // Rank 1 finds the lock held, and asks.
        take(&mut live, Choice::Step(one));
        live
    };
    // It arrives.
    let mut live = begin();
    assert!(matches!(take(&mut live, arrives), Effect::Arrived(..)));
    // It never does: rank 1 learns of the failure, acknowledges it, and silences rank 0.
    let mut live = begin();
    assert_eq!(take(&mut live, Choice::Notice { rank: one, of: zero }), Effect::Noticed(zero));
    for _ in ["failed", "acknowledge", "silence"] {
        assert!(live.choices().contains(&arrives));
        take(&mut live, Choice::Step(one));
    }
    assert!(!live.choices().contains(&arrives), "rank 0 is silent");
    let goes_on = |choice: &Choice| matches!(choice, Choice::Step(_) | Choice::Arrive { .. });
    while let Some(choice) = live.choices().into_iter().find(goes_on) {
        take(&mut live, choice);
    }
    assert!(live.is_over());
    assert_eq!(live.end(), None);
}

/// Its adapter carries out the operation, even after another rank has entered.
#[test]
fn an_atomic_operation_of_a_failed_rank_takes_effect_late_or_never() {
    let (zero, one) = (rmalab_atomics::Rank(0), rmalab_atomics::Rank(1));
    let arrives = Choice::Arrive { from: zero, index: 0 };
    // Rank 0 reads, and fails amid the addition of its bit. Rank 1 writes.
    let begin = || {
        let mut live = Live::new(&robust("robust-rw", "1R1Wx1 crash1", LatePuts)).unwrap();
        let effect = take(&mut live, Choice::CrashAmid(zero));
        assert!(matches!(effect, Effect::CrashedAmid(Call::FetchAdd { .. }, 0)), "{effect:?}");
        let effect = take(&mut live, Choice::Step(one));
        assert!(matches!(effect, Effect::Answered(Call::CompareAndSwap { .. }, Answer::Word(0))), "{effect:?}");
        live
    };
    let ends = |mut live: Live| {
        while live.choices().contains(&Choice::Step(one)) {
            take(&mut live, Choice::Step(one));
        }
        assert!(live.is_over());
        assert_eq!(live.end(), None);
    };
    let mut live = begin();
    let effect = take(&mut live, arrives);
    assert!(matches!(effect, Effect::Arrived(_, _, 2)), "the word names rank 1: {effect:?}");
    ends(live);
    let mut live = begin();
    assert!(live.choices().contains(&arrives));
    ends(live);
}

/// Where every operation takes effect at once, a rank fails ahead of it or after it.
#[test]
fn a_rank_fails_amid_an_operation_only_where_operations_are_late() {
    let amid = |network| {
        let mut live = Live::new(&robust("robust-rw", "1R1Wx1 crash1", network)).unwrap();
        live.choices().iter().any(|choice| matches!(choice, Choice::CrashAmid(_)))
    };
    assert!(!amid(Sc));
    assert!(amid(LatePuts) && amid(UnorderedBulk));
}

/// The reader-writer lock and the window lock write their words by atomic operations only. So without failures amid these, no search
/// could tell whether a repair waits for silence.
#[test]
fn repairs_that_do_not_wait_for_operations_of_the_failed_rank_are_found() {
    for (name, lock, scenario) in [
        ("robust-rw-no-silence", "robust-rw", "1R2Wx1 crash1"),
        ("robust-two-level-no-silence", "robust-two-level", "2E@0x1 crash1"),
    ] {
        let check = broken(name, lock, scenario);
        let outcome = run(&check, &Options::default());
        let text = diagram::text(&check, &saved(&check, &outcome)).unwrap();
        assert!(text.contains("crashes amid"), "{text}");
    }
}

#[test]
fn a_counterexample_with_a_failure_is_saved_replayed_and_drawn() {
    let check = broken("robust-tas-no-silence", "robust-tas", "3Wx1 crash1");
    let outcome = run(&check, &Options::default());
    let loaded = saved(&check, &outcome);
    assert_eq!(loaded.scenario, "3Wx1 crash1");
    let text = diagram::text(&check, &loaded).unwrap();
    for part in [
        "crashes, with 1 operation under way",
        "CRASHES",
        "learns that rank",
        "gets OwnerDead",
        "arrives: owner := nil",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let svg = diagram::svg(&check, &loaded).unwrap();
    assert!(svg.contains("CRASHES"));
}
