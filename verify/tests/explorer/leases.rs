//! Leases that pass at any step: the lease mutex, and the means to refuse late writes.

use std::time::Duration;

use rmalab_locks::LeaseParams;
use rmalab_verify::explorer::Options;
use rmalab_verify::{Check, Choice, Effect, Error, Live, Network, Property, TOOK_OVER, diagram, mutant, subject};

use Network::{LatePuts, Sc};

use crate::{check, drawn, plain, run, saved, verdict};

fn lease(scenario: &str, network: Network) -> Check {
    Check { network, ..check(subject("lease").unwrap(), scenario) }
}

fn broken(name: &str, scenario: &str) -> Check {
    Check { mutant: Some(mutant(name).unwrap()), ..lease(scenario, Sc) }
}

fn holds(scenario: &str) {
    for network in [Sc, LatePuts] {
        let outcome = run(&lease(scenario, network), &Options::default());
        assert_eq!(verdict(&outcome), None, "{scenario} {network}");
        assert!(outcome.sometimes.contains(&(TOOK_OVER, true)), "{scenario}: {:?}", outcome.sometimes);
    }
}

#[test]
fn with_tokens_no_late_write_is_accepted() {
    holds("2Wx1 lapse1");
}

#[test]
#[ignore = "takes some ten seconds"]
fn longer_with_tokens_no_late_write_of_three_ranks_is_accepted() {
    holds("2Wx2 lapse1");
    holds("3Wx1 lapse1");
}

#[test]
fn reductions_do_not_change_the_verdict() {
    for network in [Sc, LatePuts] {
        for (name, scenario) in [(None, "2Wx1 lapse1"), (Some("lease-unfenced"), "2Wx1 lapse1")] {
            let check = Check { mutant: name.map(|name| mutant(name).unwrap()), ..lease(scenario, network) };
            for merging in [false, true] {
                for partial_order in [false, true] {
                    let outcome = run(&check, &Options { merging, partial_order, ..plain() });
                    let expected = name.map(|_| Property::Fenced);
                    assert_eq!(verdict(&outcome), expected, "{name:?} {network}: {merging} {partial_order}");
                }
            }
        }
    }
}

#[test]
fn without_a_lapse_no_token_is_needed() {
    let check = broken("lease-unfenced", "2Wx1");
    assert_eq!(verdict(&run(&check, &plain())), None);
}

#[test]
fn a_waiter_that_waits_for_less_than_the_lease_enters_beside_its_holder() {
    let hasty = |lapses, term: fn(Duration) -> Duration| {
        let params = move |whole| LeaseParams { term: term(whole), ..LeaseParams::default() };
        check(rmalab_verify::Subject::lease(lapses, params).keeps("lock", u64::MAX), "2Wx1 lapse1")
    };
    assert_eq!(verdict(&run(&hasty(1, |_| Duration::ZERO), &plain())), Some(Property::MutualExclusion));
    assert_eq!(verdict(&run(&hasty(2, |whole| whole / 2), &plain())), Some(Property::MutualExclusion));
}

/// The book has a drawing of a holder without tokens.
#[test]
fn the_book_draws_a_late_write() {
    assert_eq!(drawn(&broken("lease-unfenced", "2Wx1 lapse1"), "lease-late-write"), Property::Fenced);
}

#[test]
fn a_counterexample_with_a_lapse_is_saved_replayed_and_drawn() {
    let check = broken("lease-release-store", "3Wx1 lapse1");
    let outcome = run(&check, &Options::default());
    let loaded = saved(&check, &outcome);
    assert_eq!(loaded.scenario, "3Wx1 lapse1");
    let text = diagram::text(&check, &loaded).unwrap();
    assert!(text.contains("time passes, longer than a lease"), "{text}");
}

#[test]
fn time_passes_as_often_as_the_scenario_says() {
    let mut live = Live::new(&lease("2Wx1 lapse1", Sc)).unwrap();
    let lapse = Choice::Lapse(rmalab_atomics::Rank(0));
    assert!(live.choices().contains(&lapse));
    assert_eq!(live.take(lapse).unwrap().effect, Effect::Lapsed);
    assert!(!live.choices().contains(&lapse), "it passes once");
}

#[test]
fn checks_with_lapses_of_other_locks_are_refused() {
    for (lock, scenario, why) in [("mcs", "2Wx1 lapse1", "no leases"), ("lease", "2Wx1 crash1", "does not recover")] {
        let error = Check { network: Sc, ..check(subject(lock).unwrap(), scenario) }.validate().unwrap_err();
        assert!(matches!(error, Error::Crashes { .. }) && error.to_string().contains(why), "{error}");
    }
}
