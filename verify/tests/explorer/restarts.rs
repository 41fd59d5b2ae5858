//! Ranks that fail at any step and come back: locks that resume, and an engine's steps for a rank between its failure and its return.

use rmalab_atomics::{Address, Rank, RemoteAtomics};
use rmalab_locks::recoverable::Stage;
use rmalab_locks::{Backoff, Mcs, Place, RawMutex, Result, Resumable, Tas};
use rmalab_verify::explorer::Options;
use rmalab_verify::play::Event;
use rmalab_verify::{
    Check, Choice, Effect, Error, Finding, Live, Livelocks, Network, Property, RE_ENTERED, Step, Subject, diagram,
    mutant, subject,
};

use Network::{LatePuts, Sc};

use crate::{check, counterexample, plain, replayed, run, saved, verdict};

fn rme(scenario: &str, network: Network) -> Check {
    Check { network, ..check(subject("rme-mcs").unwrap(), scenario) }
}

fn broken(name: &str, scenario: &str) -> Check {
    let mutant = mutant(name).unwrap();
    Check { mutant: Some(mutant), ..rme(scenario, mutant.network) }
}

#[track_caller]
fn holds(scenario: &str, network: Network) {
    let outcome = run(&rme(scenario, network), &Options { max_bytes: 8 << 30, ..Options::default() });
    assert_eq!(outcome.finding, Finding::Holds, "{scenario} {network}: {:?}", outcome.progress);
    assert_ne!(outcome.livelocks, Livelocks::NotSearched, "{scenario} {network}");
    assert!(outcome.sometimes.iter().all(|&(_, happened)| happened), "{:?}", outcome.sometimes);
}

#[test]
#[ignore = "takes a minute"]
fn longer_ranks_come_back() {
    holds("2Wx2 restart1", LatePuts);
    holds("2Wx1 restart2", Sc);
    holds("2Wx1 restart2", LatePuts);
    holds("3Wx1 restart1", Sc);
}

#[test]
fn reductions_do_not_change_the_verdict() {
    for network in [Sc, LatePuts] {
        let check = rme("2Wx1 restart1", network);
        for partial_order in [false, true] {
            let outcome = run(&check, &Options { partial_order, ..plain() });
            assert_eq!(verdict(&outcome), None, "{network}: {partial_order}");
            assert!(outcome.sometimes.contains(&(RE_ENTERED, true)), "{:?}", outcome.sometimes);
        }
    }
}

#[test]
fn defects_of_a_return_are_found_with_and_without_reductions() {
    for (name, property) in [
        ("rme-mcs-leaves-unsaid", Property::MutualExclusion),
        ("rme-mcs-takes-unsaid", Property::NoDeadlock),
        ("rme-mcs-has-unsaid", Property::NoLivelock),
    ] {
        let check = broken(name, "2Wx1 restart1");
        let mut lengths = Vec::new();
        for partial_order in [false, true] {
            let outcome = run(&check, &Options { partial_order, ..plain() });
            assert_eq!(verdict(&outcome), Some(property), "{name}");
            lengths.push(replayed(&check, counterexample(&outcome)));
        }
        if property != Property::NoLivelock {
            assert_eq!(lengths[0], lengths[1], "{name}: both are shortest");
        }
    }
}

#[test]
fn without_a_failure_these_defects_do_not_show() {
    for name in ["rme-mcs-leaves-unsaid", "rme-mcs-takes-unsaid", "rme-mcs-has-unsaid"] {
        assert_eq!(verdict(&run(&broken(name, "2Wx1"), &plain())), None, "{name}");
    }
}

const BACKOFF: Backoff = Backoff { min: 1, max: 1 };

/// A lock that forgets a rank's interrupted call: each rank that comes back is inside, or idle.
#[derive(Debug)]
struct Forgetful<M, const INSIDE: bool>(M);

impl<M: RawMutex, const INSIDE: bool> RawMutex for Forgetful<M, INSIDE> {
    const NAME: &'static str = "forgetful";
    const WORDS: u64 = M::WORDS;
    const NODE: u64 = M::NODE;
    type Params = M::Params;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: M::Params) -> Result<Self> {
        M::bind(ra, place, params).map(Forgetful)
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.acquire(ra)
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.release(ra)
    }
}

impl<M: RawMutex, const INSIDE: bool> Resumable for Forgetful<M, INSIDE> {
    fn resume<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: M::Params) -> Result<(Self, Stage)> {
        let stage = if INSIDE { Stage::Inside } else { Stage::Idle };
        Ok((Forgetful(M::bind(ra, place, params)?), stage))
    }
}

/// The property that a lock breaks in which every rank that comes back is idle, or inside.
fn forgetful<M: RawMutex + std::fmt::Debug + 'static, const INSIDE: bool>(params: M::Params) -> Option<Property> {
    let subject = Subject::resumable_mutex::<Forgetful<M, INSIDE>>(params);
    let outcome = run(&check(subject.clone(), "2Wx1 restart1"), &plain());
    assert_eq!(verdict(&run(&check(subject, "2Wx1"), &plain())), None, "without failures");
    verdict(&outcome)
}

#[test]
fn a_rank_that_comes_back_is_where_it_was() {
    // The first finding is a rank that fails inside, and comes back without the lock.
    assert_eq!(forgetful::<Tas, false>(BACKOFF), Some(Property::ReEntry));
    assert_eq!(forgetful::<Mcs, false>(()), Some(Property::ReEntry));
    // Here a rank fails while it acquires.
    assert_eq!(forgetful::<Tas, true>(BACKOFF), Some(Property::MutualExclusion));
}

#[test]
fn checks_of_locks_that_do_not_resume_are_refused() {
    for (lock, scenario, why) in [
        ("mcs", "2Wx1 restart1", "cannot come back"),
        ("robust-tas", "2Wx1 restart1", "cannot come back"),
        ("rme-mcs", "2Wx1 crash1", "does not recover"),
    ] {
        let error = check(subject(lock).unwrap(), scenario).validate().unwrap_err();
        assert!(matches!(error, Error::Crashes { .. }) && error.to_string().contains(why), "{error}");
    }
    assert!(rme("2Wx1 restart1", Network::Hca).validate().is_err());
    rme("2Wx1 restart1", Sc).validate().unwrap();
}

#[track_caller]
fn take(live: &mut Live, choice: Choice) -> Step {
    live.take(choice).unwrap_or_else(|why| panic!("{why}; possible are {:?}", live.choices()))
}

#[test]
fn what_a_rank_has_posted_ahead_of_its_failure_arrives_before_its_return_or_never() {
    let zero = Rank(0);
    let mut live = Live::new(&rme("2Wx1 restart1", LatePuts)).unwrap();
    // It posts `next`, `grant` and its announcement, of which the first arrives.
    for _ in ["next", "grant", "announced"] {
        take(&mut live, Choice::Step(zero));
    }
    take(&mut live, Choice::Arrive { from: zero, index: 0 });
    let step = take(&mut live, Choice::Restart(zero));
    assert_eq!((step.effect, step.events), (Effect::Restarted(2), vec![Event::CameBack]));
    assert!(!live.choices().iter().any(|choice| matches!(choice, Choice::Arrive { .. } | Choice::Restart(_))));
    let node = |(at, value): (Address, u64)| (at.rank == zero).then_some(value);
    assert_eq!(live.words().filter_map(node).collect::<Vec<_>>(), [1 << 32, 0, 0], "only `next` has arrived");
    // The announcement has not: the rank has no place, and acquires anew.
    take(&mut live, Choice::Step(zero));
    assert!(take(&mut live, Choice::Step(zero)).events.contains(&Event::Idle));
    while let Some(&choice) = live.choices().iter().find(|choice| !matches!(choice, Choice::Restart(_))) {
        assert_eq!(take(&mut live, choice).violation, None);
    }
    assert_eq!(live.end(), None);
}

#[test]
fn a_counterexample_with_a_return_is_saved_replayed_and_drawn() {
    let check = broken("rme-mcs-late-leaves", "2Wx1 restart1");
    let outcome = run(&check, &Options::default());
    let loaded = saved(&check, &outcome);
    assert_eq!(loaded.scenario, "2Wx1 restart1");
    assert!(loaded.schedule.iter().any(|choice| matches!(choice, Choice::Restart(_))));
    let text = diagram::text(&check, &loaded).unwrap();
    for part in ["crashes and comes back", "never arrive", "RESTARTS"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(diagram::svg(&check, &loaded).unwrap().contains("RESTARTS"));
}
