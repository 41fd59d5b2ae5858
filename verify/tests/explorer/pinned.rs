//! Pinned results: verdicts, numbers of states and transitions, and lengths of counterexamples.

use rmalab_verify::explorer::Options;
use rmalab_verify::{Check, Network, Property, Subject};

use crate::protocols::{Bakery, GetThenPut, Handover, LateWaiter, OneBit, Peterson, lock};
use crate::{check, counterexample, plain, replayed, run, verdict};

use Network::{LatePuts, Sc};

/// The numbers of states and transitions.
type Size = (u64, u64);

/// The result of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Is {
    /// Sizes without and with symmetry.
    Right(Size, Size),
    Broken(Property, usize),
}

fn row(subject: Subject, scenario: &str, network: Network) -> Is {
    let check = Check { network, ..check(subject, scenario) };
    let mut sizes = [None; 2];
    let mut broken = None;
    for (threads, symmetry) in [(1, false), (2, false), (1, true), (2, true)] {
        let outcome = run(&check, &Options { threads, symmetry, ..plain() });
        match verdict(&outcome) {
            None => {
                let size = (outcome.progress.states, outcome.progress.transitions);
                let first = *sizes[usize::from(symmetry)].get_or_insert(size);
                assert_eq!(size, first, "{threads} threads");
            }
            Some(property) => {
                let steps = replayed(&check, counterexample(&outcome));
                // The length of a cycle is not deterministic.
                let found = (property, if property == Property::NoLivelock { 0 } else { steps });
                assert_eq!(found, *broken.get_or_insert(found), "{threads} threads, symmetry {symmetry}");
            }
        }
    }
    match (broken, sizes) {
        (Some((property, steps)), [None, None]) => Is::Broken(property, steps),
        (None, [Some(without), Some(with)]) => Is::Right(without, with),
        other => panic!("verdicts differ: {other:?}"),
    }
}

#[test]
fn small_protocols() {
    type Row = (&'static str, fn() -> Subject, &'static str, Network, Is);
    let rows: [Row; 22] = [
        ("Peterson", lock::<Peterson<false, true>>, "2Wx1", Sc, Is::Right((108, 188), (108, 188))),
        ("Peterson", lock::<Peterson<false, true>>, "2Wx2", Sc, Is::Right((429, 804), (429, 804))),
        ("Peterson", lock::<Peterson<false, true>>, "2Wx1", LatePuts, Is::Broken(Property::MutualExclusion, 6)),
        ("Peterson, flushed", lock::<Peterson<true, true>>, "2Wx1", LatePuts, Is::Right((309, 572), (309, 572))),
        ("Peterson, flushed", lock::<Peterson<true, true>>, "2Wx2", LatePuts, Is::Right((1392, 2776), (1392, 2776))),
        ("Peterson, untidy", lock::<Peterson<true, false>>, "2Wx1", Sc, Is::Broken(Property::CleanRest, 8)),
        ("one bit", lock::<OneBit<false>>, "2Wx1", Sc, Is::Right((28, 43), (28, 43))),
        ("one bit", lock::<OneBit<false>>, "2Wx2", Sc, Is::Right((115, 204), (115, 204))),
        ("one bit", lock::<OneBit<false>>, "3Wx1", Sc, Is::Right((504, 1197), (504, 1197))),
        ("one bit", lock::<OneBit<false>>, "2Wx1", LatePuts, Is::Broken(Property::MutualExclusion, 4)),
        ("one bit, flushed", lock::<OneBit<true>>, "2Wx1", LatePuts, Is::Right((74, 131), (74, 131))),
        ("one bit, flushed", lock::<OneBit<true>>, "3Wx1", LatePuts, Is::Right((1575, 4253), (1575, 4253))),
        ("bakery", lock::<Bakery>, "2Wx1", Sc, Is::Right((171, 304), (171, 304))),
        ("bakery", lock::<Bakery>, "3Wx1", Sc, Is::Right((27462, 73495), (27462, 73495))),
        ("bakery", lock::<Bakery>, "2Wx1", LatePuts, Is::Broken(Property::MutualExclusion, 12)),
        ("handover", lock::<Handover>, "2Wx1", Sc, Is::Right((16, 18), (9, 10))),
        ("handover", lock::<Handover>, "2Wx3", Sc, Is::Right((136, 186), (70, 96))),
        ("handover", lock::<Handover>, "2Wx2", LatePuts, Is::Broken(Property::MutualExclusion, 12)),
        ("get, then put", lock::<GetThenPut>, "2Wx1", Sc, Is::Broken(Property::MutualExclusion, 4)),
        ("get, then put", lock::<GetThenPut>, "3Wx2", Sc, Is::Broken(Property::MutualExclusion, 4)),
        ("late waiter", lock::<LateWaiter>, "2Wx1", Sc, Is::Broken(Property::NoLostWakeUp, 5)),
        ("late waiter", lock::<LateWaiter>, "3Wx1", Sc, Is::Broken(Property::NoDeadlock, 7)),
    ];
    let mut wrong = Vec::new();
    for (name, subject, scenario, network, expected) in rows {
        let is = row(subject(), scenario, network);
        if is != expected {
            wrong.push(format!("{name} {scenario} {network}: {is:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
