//! Bounded bypass, and acquisitions without end.

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;
use rmalab_verify::explorer::{Options, Search};
use rmalab_verify::{
    Access, Check, Choice, Effect, Finding, Live, Livelocks, Network, Phase, Property, Subject, mutant, subject,
};

use crate::protocols::{GetThenPut, Peterson, lock};
use crate::{check, counterexample, replayed, run, verdict};

use Network::{LatePuts, Sc};

/// A number of entries; `None` is unbounded.
type Most = Option<u32>;

fn of(name: &str) -> Subject {
    subject(name).unwrap()
}

/// The bypass of each group of the scenario.
fn bypass(check: &Check, options: &Options) -> Vec<Most> {
    let outcome = run(check, options);
    assert_eq!(outcome.finding, Finding::Holds, "{} {}", check.subject.name(), check.scenario);
    outcome.bypass.iter().map(|group| group.most).collect()
}

#[test]
fn locks_without_an_order_are_unbounded() {
    for network in [Sc, LatePuts] {
        let check = Check { network, ..check(of("tas"), "3Wxinf") };
        assert_eq!(bypass(&check, &Options::default()), [None]);
    }
    // A writer waits while readers come and go.
    assert_eq!(bypass(&check(of("mcs-rw-rp"), "2R1Wxinf"), &Options::default()), [Some(1), None]);
}

#[test]
fn queues_let_each_other_rank_enter_once() {
    for network in [Sc, LatePuts] {
        for (name, scenario, most) in [
            ("mcs", "2Wxinf", 1),
            ("mcs", "3Wxinf", 2),
            ("mcs", "4Wxinf", 3),
            ("oshmem-mcs", "3Wxinf", 2),
            // Its tickets grow without end, so the scenario must end.
            ("ticket", "2Wx3", 1),
            ("ticket", "3Wx2", 2),
        ] {
            let check = Check { network, ..check(of(name), scenario) };
            assert_eq!(bypass(&check, &Options::default()), [Some(most)], "{name} {scenario} {network}");
        }
    }
}

#[test]
fn a_mutant_without_tickets_is_unbounded() {
    let right = check(of("ticket"), "3Wx2");
    let unfair = Check { mutant: mutant("ticket-unfair"), ..right.clone() };
    assert_eq!(bypass(&right, &Options::default()), [Some(2)]);
    // In a scenario with an end, the difference is a number.
    assert_eq!(bypass(&unfair, &Options::default()), [Some(3)]);
    let endless = Check { scenario: "3Wxinf".parse().unwrap(), ..unfair };
    assert_eq!(bypass(&endless, &Options::default()), [None]);
}

/// No state without steps shows this lost wake-up: the other rank goes on.
#[test]
fn a_lost_wake_up_beside_ranks_that_go_on_is_unbounded() {
    let lost = Check { mutant: mutant("mcs-tail-store"), ..check(of("mcs"), "2Wxinf") };
    assert_eq!(bypass(&lost, &Options::default()), [None]);
}

/// The reductions change no number.
#[test]
fn the_bypass_does_not_depend_on_reductions() {
    for (name, scenario, network) in [
        ("tas", "3Wx2", Sc),
        ("tas", "3Wx1", LatePuts),
        ("ticket", "3Wx2", Sc),
        ("mcs", "3Wx1", LatePuts),
        ("tas-rw", "1R2Wx1", Sc),
        ("mcs-rw-neutral", "2R1Wx1", Sc),
        ("mcs-rw-wp", "1R2Wx1", Sc),
        ("mcs-rw-rp", "1R1Wx2", LatePuts),
    ] {
        let check = Check { network, ..check(of(name), scenario) };
        let expected = bypass(&check, &Options::default());
        for reduced in [false, true] {
            let options =
                |symmetry, partial_order| Options { symmetry, partial_order, merging: reduced, ..Options::default() };
            for options in [options(reduced, !reduced), options(!reduced, reduced), options(false, false)] {
                assert_eq!(bypass(&check, &options), expected, "{name} {scenario} {network} {options:?}");
            }
        }
    }
}

/// Random numbers (G. Marsaglia, "Xorshift RNGs", 2003).
pub(crate) fn random(seed: &mut u64, below: usize) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed % below as u64) as usize
}

/// The most entries ahead of a waiting rank of each group in one random schedule, counted on the lock itself.
fn counted(check: &Check, seed: &mut u64) -> Vec<u32> {
    let mut live = Live::new(check).unwrap();
    let ranks = check.active() as usize;
    let access = |rank: usize, live: &Live| -> Option<Access> {
        check.access(Rank(rank as u32), live.statuses()[rank].acquisition)
    };
    let mut waits = vec![None; ranks];
    let mut most = vec![0; ranks];
    loop {
        let choices = live.choices();
        if choices.is_empty() {
            break;
        }
        let step = live.take(choices[random(seed, choices.len())]).unwrap();
        let Choice::Step(rank) = step.choice else { continue };
        let me = rank.index();
        if step.events.contains(&rmalab_verify::play::Event::Entered) {
            waits[me] = None;
            let mine = access(me, &live).unwrap();
            for other in 0..ranks {
                let excludes = access(other, &live).is_some_and(|theirs| check.subject.excludes(mine, theirs));
                if let Some(count) = &mut waits[other]
                    && excludes
                {
                    *count += 1;
                    most[other] = most[other].max(*count);
                }
            }
        }
        let paused = matches!(step.effect, Effect::Answered(Call::Pause { .. }, _));
        let parked = matches!(live.calls().nth(me).unwrap(), Some(Call::WaitUntil { .. }));
        if live.statuses()[me].phase == Phase::Acquiring && (paused || parked) {
            waits[me].get_or_insert(0);
        }
    }
    let mut all = most.into_iter();
    let of_group = |group: &rmalab_verify::Group| all.by_ref().take(group.ranks as usize).max().unwrap();
    check.scenario.groups().iter().map(of_group).collect()
}

/// Random schedules of the lock itself reach the number, and none exceeds it.
#[test]
fn random_schedules_reach_the_bypass_and_do_not_exceed_it() {
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    for (name, scenario, network) in [
        ("tas", "2Wx3", Sc),
        ("ticket", "3Wx2", Sc),
        ("mcs", "3Wx2", LatePuts),
        ("tas-rw", "1R1Wx2", Sc),
        ("mcs-rw-neutral", "2R1Wx1", Sc),
        ("mcs-rw-rp", "2R1Wx1", Sc),
        ("mcs-rw-wp", "1R2Wx1", LatePuts),
    ] {
        let check = Check { network, ..check(of(name), scenario) };
        let expected = bypass(&check, &Options::default());
        let mut most = vec![0; expected.len()];
        for _ in 0..3_000 {
            let seen = counted(&check, &mut seed);
            most = most.into_iter().zip(seen).map(|(one, other)| one.max(other)).collect();
        }
        let most: Vec<Most> = most.into_iter().map(Some).collect();
        assert_eq!(most, expected, "{name} {scenario} {network}");
    }
}

#[test]
fn a_search_that_is_not_complete_has_no_bypass() {
    let tas = check(of("tas"), "3Wxinf");
    let depth = Options { search: Search::DepthFirst, ..Options::default() };
    let few = Options { max_states: Some(10), ..Options::default() };
    let bound = Options { preemptions: Some(1), ..Options::default() };
    for options in [depth, few, bound] {
        assert_eq!(run(&tas, &options).bypass, []);
    }
}

#[test]
fn acquisitions_without_end_have_all_states_of_those_with_one() {
    for (subject, network) in
        [(lock::<Peterson<false, true>>(), Sc), (lock::<Peterson<true, true>>(), LatePuts), (of("mcs"), LatePuts)]
    {
        let outcome = run(&Check { network, ..check(subject, "2Wxinf") }, &Options::default());
        assert_eq!((outcome.finding, outcome.livelocks), (Finding::Holds, Livelocks::Searched));
        assert_eq!(outcome.sometimes.iter().filter(|(_, happened)| !happened).count(), 0);
    }
}

#[test]
fn what_breaks_late_breaks_without_end() {
    let check = check(lock::<GetThenPut>(), "2Wxinf");
    let outcome = run(&check, &Options::default());
    assert_eq!(verdict(&outcome), Some(Property::MutualExclusion));
    replayed(&check, counterexample(&outcome));
    let mutants = [
        ("tas-split", "2Wxinf", Property::MutualExclusion),
        ("ticket-unfair", "3Wxinf", Property::Order),
        ("mcs-no-reset", "2Wxinf", Property::MutualExclusion),
        ("mcs-no-link", "2Wxinf", Property::NoDeadlock),
        ("mcs-two-wake-ups", "3Wxinf", Property::MutualExclusion),
        ("rp-writer-store", "2R1Wxinf", Property::MutualExclusion),
    ];
    for (name, scenario, property) in mutants {
        let mutant = mutant(name).unwrap_or_else(|| panic!("{name}"));
        let check = Check { mutant: Some(mutant), ..crate::check(of(mutant.locks[0]), scenario) };
        for options in [Options::default(), Options { symmetry: false, merging: false, ..Options::default() }] {
            let outcome = run(&check, &Options { order: property == Property::Order, ..options });
            assert_eq!(verdict(&outcome), Some(property), "{name}");
            replayed(&check, counterexample(&outcome));
        }
    }
}

#[test]
fn deadlines_and_data_need_an_end() {
    let refused = |check: &Check| {
        let outcome = rmalab_verify::explorer::explore(check, &Options::default(), &|_| true);
        outcome.unwrap_err().to_string()
    };
    let why = "explorer: 2Wtimed xinf: acquisitions without end have no deadlines and count no writes of data";
    assert_eq!(refused(&check(of("tas"), "2Wtimed xinf")), why);
    let data = Check { section: rmalab_verify::play::Section::Data, ..check(of("tas"), "2Wxinf") };
    assert!(refused(&data).contains("2Wxinf"));
}
