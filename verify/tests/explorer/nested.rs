//! Two locks, one inside the other.

use rmalab_verify::explorer::Options;
use rmalab_verify::{Check, Network, Property, Subject, diagram, subject};

use crate::oracle::compare;
use crate::{check, counterexample, plain, run, verdict};

fn nested(outer: &str, inner: &str, opposite: bool) -> Subject {
    Subject::nested(&subject(outer).unwrap(), &subject(inner).unwrap(), opposite).unwrap()
}

const PAIRS: [(&str, &str); 6] = [
    ("mcs", "mcs"),
    ("mcs", "ticket"),
    ("tas", "mcs"),
    ("tas-rw", "mcs-rw-wp"),
    ("mcs-rw-neutral", "tas-rw"),
    ("rma-mcs", "cohort"),
];

#[test]
fn locks_nested_in_one_order_hold() {
    for (outer, inner) in PAIRS {
        for network in [Network::Sc, Network::LatePuts] {
            for scenario in ["1R1W", "2W", "2Wx2"] {
                let check = Check { network, ..check(nested(outer, inner, false), scenario) };
                let found = verdict(&run(&check, &Options::default()));
                assert_eq!(found, None, "{outer} {inner} {scenario} {network}");
            }
        }
    }
    assert_eq!(compare(&check(nested("mcs", "mcs", false), "2W"), 0), None);
}

#[test]
fn locks_nested_in_opposite_orders_deadlock() {
    for (outer, inner) in PAIRS {
        for scenario in ["1R1W", "2W", "2Wx2"] {
            let check = check(nested(outer, inner, true), scenario);
            for options in [plain(), Options::default()] {
                let found = verdict(&run(&check, &options));
                // Ranks that poll go on for ever.
                let both = [Some(Property::NoDeadlock), Some(Property::NoLivelock)];
                assert!(both.contains(&found), "{outer} {inner} {scenario}: {found:?}");
            }
        }
        // Readers that share do not wait for each other.
        let readers = check(nested(outer, inner, true), "2R");
        let shares = subject(outer).unwrap().shares() && subject(inner).unwrap().shares();
        assert_eq!(verdict(&run(&readers, &plain())).is_none(), shares, "{outer} {inner}");
    }
    assert_eq!(compare(&check(nested("mcs", "mcs", true), "2W"), 0), Some(Property::NoDeadlock));
}

/// A rank that gives up the second lock releases the first. A deadline need not pass, so it saves no rank.
#[test]
fn tries_in_opposite_orders_do_not_deadlock() {
    for (outer, inner) in [("tas", "tas"), ("mcs", "ticket"), ("tas-rw", "tas")] {
        let subject = nested(outer, inner, true);
        assert_eq!(verdict(&run(&check(subject.clone(), "2Wtry x2"), &plain())), None, "{outer} {inner}");
        assert_eq!(verdict(&run(&check(subject, "1W1Wtry x2"), &plain())), None, "{outer} {inner}");
    }
    let timed = check(nested("tas", "tas", true), "2Wtimed");
    assert_eq!(verdict(&run(&timed, &plain())), Some(Property::NoLivelock));
}

#[test]
fn the_words_of_both_locks_have_names() {
    let check = check(nested("mcs", "mcs", true), "2W");
    let drawn = diagram::text(&check, counterexample(&run(&check, &plain()))).unwrap();
    for name in ["mcs+mcs (opposite)", "swap tail", "swap inner tail", "local unblocked", "local inner unblocked"] {
        assert!(drawn.contains(name), "{name}: {drawn}");
    }
    // Without names, no ranks would be interchangeable.
    let same = crate::check(nested("mcs", "mcs", false), "2W");
    let states = |symmetry| run(&same, &Options { symmetry, ..plain() }).progress.states;
    assert!(states(true) < states(false));
}

#[test]
fn the_names_of_two_locks_are_found_again() {
    for opposite in [false, true] {
        let subject = nested("mcs", "rma-mcs-1", opposite);
        assert_eq!(Subject::names_of_nested(subject.name()), Some(("mcs", "rma-mcs-1", opposite)));
        assert!(Subject::nested(&subject, &subject, false).is_none());
    }
    assert_eq!(Subject::names_of_nested("mcs"), None);
    assert_eq!(Subject::names_of_nested("mcs+mcs+mcs"), None);
    let window = subject("two-level").unwrap();
    assert!(Subject::nested(&subject("mcs").unwrap(), &window, false).is_none());
}
