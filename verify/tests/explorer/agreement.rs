//! All search options give the same verdict.

use rmalab_verify::configurations::configurations;
use rmalab_verify::explorer::{Options, Search};
use rmalab_verify::play::Section;
use rmalab_verify::{Check, Choice, Live, Livelocks, Network, Property, subject, subjects};

use crate::bypass::random;
use crate::{check, plain, run, verdict};

/// A lock, a scenario, and the number of permutations of ranks that preserve the scenario.
const CONFIGURATIONS: [(&str, &str, u64); 15] = [
    ("tas", "3Wx1", 6),
    ("ticket", "3Wx1", 6),
    ("ticket", "2Wx2", 2),
    ("mcs", "3Wx1", 6),
    ("tas-rw", "2R1Wx1", 2),
    ("mcs-rw-rp", "2R1Wx1", 2),
    ("mcs-rw-rp", "3Rx1", 6),
    ("mcs-rw-wp", "2R1Wx1", 2),
    ("mcs-rw-wp", "1R2Wx1", 2),
    ("mcs-rw-neutral", "1R2Wx1", 2),
    ("mcs-rw-neutral", "2Rx1", 2),
    ("global", "2A1E@0x1", 1),
    ("per-target", "2A1E@0x1", 1),
    ("two-level", "2A1E@0x1", 1),
    ("nocheck", "2A1S@0x1", 1),
];

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_all_search_options_agree() {
    for (name, scenario, group) in CONFIGURATIONS {
        for section in [Section::Empty, Section::Data] {
            for network in [Network::Sc, Network::LatePuts] {
                let check = Check { section, network, ..check(subject(name).unwrap(), scenario) };
                let name = format!("{name} {scenario} {section:?} {network}");
                let first = run(&check, &plain());
                let broken = verdict(&first);
                let (states, transitions) = (first.progress.states, first.progress.transitions);
                for (threads, symmetry) in [(2, false), (1, true), (2, true)] {
                    let other = run(&check, &Options { threads, symmetry, ..plain() });
                    assert_eq!(verdict(&other), broken, "{name}, {threads} threads, symmetry {symmetry}");
                    if broken.is_some() {
                        continue;
                    }
                    assert_eq!(other.sometimes, first.sometimes, "{name}, {threads} threads, symmetry {symmetry}");
                    assert_eq!(other.livelocks, first.livelocks, "{name}");
                    if !symmetry || first.livelocks == Livelocks::Searched {
                        assert_eq!(
                            (other.progress.states, other.progress.transitions),
                            (states, transitions),
                            "{name}"
                        );
                    } else {
                        assert!(other.progress.states * group >= states, "{name}: {}", other.progress.states);
                        assert!(other.progress.states <= states, "{name}: {}", other.progress.states);
                        assert!(group == 1 || other.progress.states < states, "{name}: symmetry removed no states");
                    }
                }
                for (search, partial_order, merging) in [
                    (Search::BreadthFirst, true, false),
                    (Search::DepthFirst, true, false),
                    (Search::BreadthFirst, false, true),
                    (Search::DepthFirst, true, true),
                ] {
                    let other = run(&check, &Options { search, partial_order, merging, ..plain() });
                    let livelock = broken == Some(Property::NoLivelock) && search == Search::DepthFirst;
                    let name = format!("{name}, {search:?}, partial order {partial_order}, merging {merging}");
                    assert!(livelock || verdict(&other).is_some() == broken.is_some(), "{name}");
                    assert!(broken.is_some() || other.progress.states <= states, "{name}");
                }
                for (threads, symmetry) in [(1, false), (2, false), (2, true)] {
                    let depth = Options { search: Search::DepthFirst, threads, symmetry, ..plain() };
                    let other = run(&check, &depth);
                    if first.livelocks == Livelocks::Searched && broken.is_some() {
                        continue;
                    }
                    assert_eq!(verdict(&other).is_some(), broken.is_some(), "{name}, {depth:?}");
                    if broken.is_none() && !symmetry {
                        assert_eq!(
                            (other.progress.states, other.progress.transitions),
                            (states, transitions),
                            "{name}"
                        );
                        assert_eq!(other.sometimes, first.sometimes, "{name}, {depth:?}");
                        assert!(other.missed < 1e-9, "{name}: {}", other.missed);
                    }
                }
            }
        }
    }
}

/// A schedule under `sc` is one under `late-puts` in which each put arrives at once: the same choices, words and progress. Only under
/// `late-puts`, a rank also fails amid a call.
#[test]
fn every_schedule_of_sc_is_one_of_late_puts() {
    let mut seed = 1;
    let mut deepest = 0;
    for subject in subjects() {
        let scenarios: Vec<_> = configurations(&subject).into_iter().filter(|one| one.network == Network::Sc).collect();
        for one in scenarios {
            let of = |network| Live::new(&Check { network, ..one.check(&subject) }).unwrap();
            let name = format!("{} {}", subject.name(), one.scenario);
            for _ in 0..4 {
                let (mut sc, mut late) = (of(Network::Sc), of(Network::LatePuts));
                for step in 0..200 {
                    let choices = sc.choices();
                    let mut of_late = late.choices();
                    of_late.retain(|choice| !matches!(choice, Choice::CrashAmid(_)));
                    assert_eq!(choices, of_late, "{name}, step {step}");
                    if choices.is_empty() {
                        break;
                    }
                    let choice = choices[random(&mut seed, choices.len())];
                    let (one, other) = (sc.take(choice).unwrap(), late.take(choice).unwrap());
                    assert_eq!((one.events, one.status, one.violation), (other.events, other.status, other.violation));
                    while let Some(arrival) = late.choices().into_iter().find(is_arrival) {
                        late.take(arrival).unwrap();
                        deepest = deepest.max(step);
                    }
                    assert_eq!(words(&sc), words(&late), "{name}, step {step}");
                    assert!(sc.calls().eq(late.calls()), "{name}, step {step}");
                }
            }
        }
    }
    assert!(deepest > 50, "puts were posted: {deepest}");
}

/// The words that are not zero, in the order of their addresses.
fn words(live: &Live) -> Vec<(u32, u64, u64)> {
    let of = live.words().filter(|(_, word)| *word != 0);
    let mut words: Vec<_> = of.map(|(at, word)| (at.rank.0, at.disp.0, word)).collect();
    words.sort_unstable();
    words
}

fn is_arrival(choice: &Choice) -> bool {
    matches!(choice, Choice::Arrive { .. })
}
