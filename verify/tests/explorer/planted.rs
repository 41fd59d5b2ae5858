//! One planted defect for each property: the explorer reports exactly that property, and the replay shows it.

use rmalab_atomics::{RemoteAtomics, Result, Time, WORD};
use rmalab_locks::qnode::NIL;
use rmalab_locks::{Backoff, Mcs, Place, RawMutex, RawMutexTimed, RawMutexTry, Tas};
use rmalab_verify::explorer::{Options, Search};
use rmalab_verify::play::Section;
use rmalab_verify::subject::{At, Holds, Order, WORDS};
use rmalab_verify::{Check, DATA, Live, Livelocks, Network, Property, Subject, subject};

use crate::protocols::{GetThenPut, Handover, LateWaiter, OneBit, Peterson, Protocol, Side, hand, lock, take};
use crate::{check, counterexample, plain, replayed, run, verdict};

/// Searches `check` with several options, all of which must find `property`, `steps` from the start.
fn finds(check: &Check, property: Property, steps: usize) {
    for (threads, symmetry) in [(1, false), (1, true), (2, false), (2, true)] {
        let options = Options { threads, symmetry, order: property == Property::Order, ..plain() };
        let outcome = run(check, &options);
        assert_eq!(verdict(&outcome), Some(property), "{options:?}: {:?}", outcome.finding);
        let found = counterexample(&outcome);
        found.suits(check).unwrap();
        let taken = replayed(check, found);
        if property != Property::NoLivelock {
            assert_eq!(taken, steps, "{options:?}: {found:?}");
            let depth = run(check, &Options { search: Search::DepthFirst, ..options });
            assert!(verdict(&depth).is_some());
            replayed(check, counterexample(&depth));
        }
    }
}

#[test]
fn mutual_exclusion() {
    finds(&check(lock::<GetThenPut>(), "2Wx1"), Property::MutualExclusion, 4);
    // A reader beside a writer counts, too.
    finds(&check(lock::<GetThenPut>(), "1R1Wx1"), Property::MutualExclusion, 4);
    // Two readers may be inside together.
    assert_eq!(verdict(&run(&check(lock::<GetThenPut>(), "2Rx1"), &plain())), None);
    assert_eq!(
        verdict(&run(&check(lock::<GetThenPut>().exclusive(), "2Rx1"), &plain())),
        Some(Property::MutualExclusion)
    );
    // A late put is as bad as a missing put.
    let late = |subject| Check { network: Network::LatePuts, ..check(subject, "2Wx1") };
    finds(&late(lock::<OneBit<false>>()), Property::MutualExclusion, 4);
    finds(&late(lock::<Peterson<false, true>>()), Property::MutualExclusion, 6);
}

/// Enters with a flush, which is silent for the explorer where nothing can be late.
struct EntersByFlush;

impl Protocol for EntersByFlush {
    const NAME: &'static str = "enters-by-flush";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        GetThenPut::acquire(side)?;
        side.flush_all()
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        GetThenPut::release(side)
    }
}

/// Leaves only with a flush: no word shows that a rank is inside, so every rank enters.
struct LeavesByFlush;

impl Protocol for LeavesByFlush {
    const NAME: &'static str = "leaves-by-flush";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.poll_zero(side.home(0))
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.flush_all()
    }
}

/// Releases with a flush ahead of its put.
struct FlushesFirst;

impl Protocol for FlushesFirst {
    const NAME: &'static str = "flushes-first";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        GetThenPut::acquire(side)
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.flush_all()?;
        GetThenPut::release(side)
    }
}

#[test]
fn mutual_exclusion_next_to_silent_steps() {
    finds(&check(lock::<EntersByFlush>(), "2Wx1"), Property::MutualExclusion, 4);
    finds(&check(lock::<FlushesFirst>(), "2Wx1"), Property::MutualExclusion, 4);
    finds(&check(lock::<LeavesByFlush>(), "2Wx1"), Property::MutualExclusion, 2);
}

/// A test-and-set lock whose word overlaps the data.
struct OverTheData;

impl Protocol for OverTheData {
    const NAME: &'static str = "over-the-data";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        while side.compare_and_swap(side.home(0).rank.at(DATA), 0, 7)? != 0 {
            side.pause(1)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.home(0).rank.at(DATA), 0)
    }
}

#[test]
fn visibility() {
    let data = |subject| Check { section: Section::Data, ..check(subject, "2Wx1") };
    finds(&data(lock::<OverTheData>()), Property::Visibility, 2);
    // Without data, there is nothing to read.
    assert_eq!(verdict(&run(&check(lock::<OverTheData>(), "2Wx1"), &plain())), None);
}

/// Two locks of [`Handover`]'s kind, which the two ranks take in opposite orders.
struct OppositeOrders;

impl Protocol for OppositeOrders {
    const NAME: &'static str = "opposite-orders";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let first = u64::from(side.rank().0);
        take(side, first)?;
        take(side, 1 - first)
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        hand(side, 0)?;
        hand(side, 1)
    }
}

/// Every rank waits for permission.
struct CalledIn;

impl Protocol for CalledIn {
    const NAME: &'static str = "called-in";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.wait_until(side.own(0).disp, rmalab_atomics::Until::Ne(0))?;
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(_side: &mut Side<'_, A>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn deadlock() {
    finds(&check(lock::<CalledIn>(), "2Wx1"), Property::NoDeadlock, 0);
    finds(&check(lock::<CalledIn>(), "1Wx1"), Property::NoLostWakeUp, 0);
    finds(&check(lock::<OppositeOrders>(), "2Wx1"), Property::NoDeadlock, 4);
}

#[test]
fn lost_wake_up() {
    // One rank acquires and releases between another rank's read and its announcement.
    finds(&check(lock::<LateWaiter>(), "2Wx1"), Property::NoLostWakeUp, 5);
}

/// Each of two ranks yields to the other.
struct AfterYou;

impl Protocol for AfterYou {
    const NAME: &'static str = "after-you";
    const EACH: &'static [(&'static str, Holds)] = &[("flag", Holds::Number)];

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        loop {
            side.put(side.own(0), 1)?;
            side.flush_all()?;
            if side.get(side.of(side.other(), 0))? == 0 {
                return Ok(());
            }
            side.put(side.own(0), 0)?;
            side.pause(1)?;
        }
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// A rank polls a word that no rank ever writes.
struct PollsForEver;

impl Protocol for PollsForEver {
    const NAME: &'static str = "polls-for-ever";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        while side.get(side.own(0))? == 0 {
            side.pause(1)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(_side: &mut Side<'_, A>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn livelock() {
    for (check, ranks) in [
        (check(lock::<AfterYou>(), "2Wx1"), 2),
        (check(lock::<AfterYou>(), "2Wx2"), 2),
        (check(lock::<PollsForEver>(), "1Wx1"), 1),
        (check(lock::<PollsForEver>(), "3Wx1"), 3),
        (Check { network: Network::LatePuts, ..check(lock::<AfterYou>(), "2Wx1") }, 2),
    ] {
        finds(&check, Property::NoLivelock, 0);
        let outcome = run(&check, &plain());
        assert_eq!(outcome.livelocks, Livelocks::Searched);
        let found = counterexample(&outcome);
        let cycle = found.cycle.unwrap();
        // After one cycle, the words, the calls and the ranks' progress are the same as before. Each rank takes a step.
        let mut live = Live::new(&check).unwrap();
        for &choice in &found.schedule[..cycle] {
            live.take(choice).unwrap();
        }
        let now = |live: &mut Live| {
            let words: Vec<_> = live.words().filter(|&(_, word)| word != 0).collect();
            (words, live.calls().collect::<Vec<_>>(), live.statuses(), live.choices())
        };
        for _ in 0..3 {
            let before = now(&mut live);
            let mut turns = std::collections::BTreeSet::new();
            for &choice in &found.schedule[cycle..] {
                let step = live.take(choice).unwrap();
                assert_eq!((step.events.as_slice(), step.violation), (&[][..], None));
                if let rmalab_verify::Choice::Step(rank) = choice {
                    turns.insert(rank);
                }
            }
            assert_eq!(now(&mut live), before);
            assert_eq!(turns.len(), ranks);
        }
    }
}

#[test]
fn order() {
    // Test-and-set has no order.
    finds(&check(subject("tas").unwrap().order(Order::Fifo), "2Wx2"), Property::Order, 4);
    // Readers pass waiting writers, and writers pass readers if none waits longer.
    finds(&check(subject("mcs-rw-rp").unwrap().order(Order::Fifo), "2R1Wx1"), Property::Order, 6);
    finds(&check(subject("mcs-rw-rp").unwrap().order(Order::WritersFirst), "1R2Wx1"), Property::Order, 12);
    finds(&check(subject("mcs-rw-wp").unwrap().order(Order::ReadersFirst), "1R2Wx2"), Property::Order, 10);
    // The order is not requested.
    assert_eq!(verdict(&run(&check(subject("tas").unwrap().order(Order::Fifo), "2Wx2"), &plain())), None);
}

#[test]
fn clean_rest() {
    // The paper's Peterson leaves the last victim.
    finds(&check(lock::<Peterson<true, false>>(), "2Wx1"), Property::CleanRest, 8);
    finds(&check(lock::<Peterson<true, false>>(), "1Wx1"), Property::CleanRest, 4);
}

/// A ticket lock whose counters are never zero again. Each rank counts its acquisitions, too.
#[derive(Debug)]
struct Counts<const WORDS_REST: bool, const NODE_RESTS: bool> {
    place: Place,
    ticket: u64,
}

impl<const WORDS_REST: bool, const NODE_RESTS: bool> RawMutex for Counts<WORDS_REST, NODE_RESTS> {
    const NAME: &'static str = "counts";
    const WORDS: u64 = 2 * WORD;
    const NODE: u64 = 2 * WORD;
    const RESTS_AT_ZERO: bool = WORDS_REST;
    const NODE_AT_REST: u64 = if NODE_RESTS { 2 * WORD } else { WORD };
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> rmalab_locks::Result<Self> {
        Ok(Counts { place, ticket: 0 })
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.ticket = ra.fetch_add(self.place.word(0), 1)?;
        ra.fetch_add(ra.rank().at(self.place.node.word(1)), 1)?;
        while ra.get(self.place.word(1))? != self.ticket {
            ra.pause(1)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.ticket = 0;
        ra.fetch_add(self.place.word(1), 1)?;
        Ok(())
    }
}

#[test]
fn a_lock_that_counts_on_says_which_words_are_not_zero_at_rest() {
    let holds = |subject| assert_eq!(verdict(&run(&check(subject, "2Wx2"), &plain())), None);
    let breaks = |subject, place: &str| {
        let outcome = run(&check(subject, "2Wx2"), &plain());
        let violation = &counterexample(&outcome).violation;
        assert_eq!(violation.property, Property::CleanRest);
        assert!(violation.seen.contains(place) && violation.seen.contains("RESTS_AT_ZERO"), "{violation}");
    };
    holds(Subject::mutex::<Counts<false, false>>(()));
    breaks(Subject::mutex::<Counts<true, false>>(()), "0x80");
    breaks(Subject::mutex::<Counts<false, true>>(()), "0x108");
    let both = (Subject::mutex::<Counts<false, false>>(()), Subject::mutex::<Counts<false, true>>(()));
    holds(Subject::nested(&both.0, &both.0, false).unwrap());
    breaks(Subject::nested(&both.0, &both.1, false).unwrap(), "0x208");
    // With names, the words say for themselves what they keep.
    let named = Subject::mutex::<Counts<false, false>>(()).words(
        At::Home,
        WORDS,
        &[("next", Holds::Number), ("served", Holds::Number)],
    );
    let outcome = run(&check(named.clone(), "2Wx2"), &plain());
    assert_eq!(verdict(&outcome), Some(Property::CleanRest));
    holds(named.keeps("next", u64::MAX).keeps("served", u64::MAX));
    // With all names at once, the lock's constants go on to say it.
    holds(with_names(Subject::mutex::<Counts<false, false>>(())));
    breaks(with_names(Subject::mutex::<Counts<true, false>>(())), "next");
    breaks(with_names(Subject::mutex::<Counts<false, true>>(())), "acquired");
}

fn with_names(subject: Subject) -> Subject {
    use Holds::Number;
    subject.lock_words(&[("next", Number), ("served", Number)], &[("free", Number), ("acquired", Number)])
}

fn symmetric() -> Options {
    Options { symmetry: true, ..plain() }
}

/// The search finds out, and takes no two states for one.
#[test]
fn a_pointer_that_is_declared_a_number_costs_states_only() {
    use Holds::{Number, Pointer};
    let states = |tail, next| {
        let words = [("next", next), ("unblocked", Number)];
        let outcome =
            run(&check(Subject::mutex::<Mcs>(()).lock_words(&[("tail", tail)], &words), "3Wx1"), &symmetric());
        assert_eq!(verdict(&outcome), None);
        outcome.progress.states
    };
    let without_names = run(&check(Subject::mutex::<Mcs>(()), "3Wx1"), &symmetric()).progress.states;
    assert!(states(Pointer, Pointer) * 3 < without_names);
    assert_eq!(states(Number, Number), without_names);
}

#[test]
#[should_panic(expected = "'tas' has 1 words there, and 2 names")]
fn a_lock_has_no_more_names_than_words() {
    let _ = Subject::mutex::<Tas>(Backoff::default()).lock_words(&[("a", Holds::Number), ("b", Holds::Number)], &[]);
}

/// For at most two ranks, which it asserts.
struct AtMostTwo;

impl Protocol for AtMostTwo {
    const NAME: &'static str = "at-most-two";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let before = side.fetch_add(side.home(1), 1)?;
        assert!(before < 2, "a third rank");
        take(side, 0)
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        hand(side, 0)?;
        side.fetch_add(side.home(1), 1_u64.wrapping_neg())?;
        Ok(())
    }
}

/// The last rank that takes part puts outside of the world.
struct OutOfTheWorld;

impl Protocol for OutOfTheWorld {
    const NAME: &'static str = "out-of-the-world";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let before = side.fetch_store(side.home(0), side.me())?;
        if before != NIL {
            side.get(side.of(rmalab_atomics::Rank(side.rank().0 + 2), 0))?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        side.fetch_store(side.home(0), NIL)?;
        Ok(())
    }
}

#[test]
fn invariant() {
    finds(&check(lock::<AtMostTwo>(), "3Wx1"), Property::Invariant, 3);
    assert_eq!(verdict(&run(&check(lock::<AtMostTwo>(), "2Wx2"), &plain())), None);
    let outcome = run(&check(lock::<AtMostTwo>(), "3Wx1"), &plain());
    assert!(counterexample(&outcome).violation.seen.starts_with("panicked: a third rank ("));

    // Rank 1 reads past the end of the world; rank 0 would only read at the home.
    finds(&check(lock::<OutOfTheWorld>(), "2Wx1"), Property::Invariant, 2);
    let outcome = run(&check(lock::<OutOfTheWorld>(), "2Wx1"), &plain());
    assert!(counterexample(&outcome).violation.seen.starts_with("a call failed: "));
}

/// The events that a search has seen at least once.
fn sometimes(check: &Check) -> Vec<(&'static str, bool)> {
    let outcome = run(check, &plain());
    assert_eq!(verdict(&outcome), None);
    outcome.sometimes
}

#[test]
fn events_that_should_happen_are_reported() {
    let seen = |seen: &[(&'static str, bool)], name| seen.iter().find(|(known, _)| *known == name).map(|&(_, it)| it);
    // A mutex used as a reader-writer lock.
    let alone = sometimes(&check(lock::<Handover>(), "2Rx1"));
    assert_eq!(seen(&alone, "two ranks are inside together"), Some(false));
    assert_eq!(seen(&alone, "every rank enters in its last acquisition"), Some(true));
    assert_eq!(seen(&alone, "all ranks end"), Some(true));
    assert_eq!(seen(&alone, "a rank has to wait"), None, "readers need not wait");
    // As a mutex, it does not promise that.
    let mutex = sometimes(&check(lock::<Handover>().exclusive(), "2Rx1"));
    assert_eq!(seen(&mutex, "two ranks are inside together"), None);
    assert_eq!(seen(&mutex, "a rank has to wait"), Some(true));
    let shared = sometimes(&check(subject("mcs-rw-rp").unwrap(), "2Rx1"));
    assert_eq!(seen(&shared, "two ranks are inside together"), Some(true));
    // A lock without code satisfies everything, and is never entered.
    let nothing = sometimes(&check(subject("nocheck").unwrap(), "2Ax1"));
    assert_eq!(seen(&nothing, "every rank enters in its last acquisition"), Some(false));
    // One rank never waits for another rank.
    let one = sometimes(&check(lock::<Handover>(), "1Wx1"));
    assert_eq!(seen(&one, "a rank has to wait"), None);
}

/// Uses the word after its last one.
#[derive(Debug)]
struct TooSmall(Tas);

impl RawMutex for TooSmall {
    const NAME: &'static str = "too-small";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = Backoff;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, backoff: Backoff) -> rmalab_locks::Result<TooSmall> {
        Ok(TooSmall(Tas::bind(ra, Place { words: place.words.word(1), ..place }, backoff)?))
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.0.acquire(ra)
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.0.release(ra)
    }
}

#[test]
fn a_word_that_is_not_the_locks() {
    let outcome = run(&check(Subject::mutex::<TooSmall>(Backoff::default()), "1Wx1"), &plain());
    let violation = &counterexample(&outcome).violation;
    assert_eq!(violation.property, Property::Invariant);
    assert!(violation.seen.contains("outside of the lock's memory"), "{violation}");
}

/// Gives up at once, whether the lock is free or not.
#[derive(Debug)]
struct NeverTries(Tas);

impl RawMutex for NeverTries {
    const NAME: &'static str = "never-tries";
    const WORDS: u64 = Tas::WORDS;
    const NODE: u64 = Tas::NODE;
    type Params = Backoff;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, backoff: Backoff) -> rmalab_locks::Result<NeverTries> {
        Ok(NeverTries(Tas::bind(ra, place, backoff)?))
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.0.acquire(ra)
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.0.release(ra)
    }
}

impl RawMutexTry for NeverTries {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<bool> {
        ra.flush_all()?;
        Ok(false)
    }
}

impl RawMutexTimed for NeverTries {
    fn acquire_until<A: RemoteAtomics + ?Sized>(&mut self, _: &A, _: Time) -> rmalab_locks::Result<bool> {
        Ok(false)
    }
}

#[test]
fn a_rank_that_gives_up_without_a_look() {
    let lock = || Subject::timed_mutex::<NeverTries>(Backoff::default());
    for scenario in ["1Wtry x1", "1W1Wtry x2", "1Wtimed x1", "1W1Wtimed x2"] {
        let outcome = run(&check(lock(), scenario), &plain());
        assert_eq!(counterexample(&outcome).violation.property, Property::NoEarlyFailure, "{scenario}");
        replayed(&check(lock(), scenario), counterexample(&outcome));
    }
}
