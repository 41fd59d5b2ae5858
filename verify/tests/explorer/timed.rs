//! Acquisitions that try, and acquisitions with deadlines.

use std::time::Duration;

use rmalab_atomics::{RemoteAtomics, Result, Time, Until};
use rmalab_locks::RawRwLockTimed;
use rmalab_locks::qnode::NIL;
use rmalab_verify::configurations::configurations;
use rmalab_verify::explorer::Options;
use rmalab_verify::play::Section;
use rmalab_verify::subject::Order;
use rmalab_verify::{
    CLOCK, Check, Choice, Counterexample, DEADLINE, Error, Form, GAVE_UP, Network, Property, Subject, diagram,
    loom_engine, subject, subjects,
};

use crate::oracle::compare;
use crate::protocols::{Lock, Protocol, Side};
use crate::{check, counterexample, plain, replayed, run, verdict};

/// A protocol whose acquisitions may fail: a try if there is no deadline.
trait Attempts: Protocol {
    fn attempt<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>, deadline: Option<Time>) -> Result<bool>;
}

impl<P: Attempts> RawRwLockTimed for Lock<P> {
    fn try_acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<bool> {
        self.try_acquire_write(ra)
    }

    fn try_acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<bool> {
        Ok(P::attempt(&mut self.side(ra), None)?)
    }

    fn acquire_read_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, until: Time) -> rmalab_locks::Result<bool> {
        self.acquire_write_until(ra, until)
    }

    fn acquire_write_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, until: Time) -> rmalab_locks::Result<bool> {
        Ok(P::attempt(&mut self.side(ra), Some(until))?)
    }
}

fn timed<P: Attempts>() -> Subject {
    Subject::timed_lock::<Lock<P>>(()).exclusive()
}

/// A queue in one word: its octal digits are the ranks, the last digit is the holder. A waiter polls.
struct Queue<const DEFECT: u32>;

const NONE: u32 = 0;
/// A rank that gives up stays in the queue.
const STAYS: u32 = 1;
/// A rank that gives up removes the holder from the queue.
const DROPS: u32 = 2;
/// A rank gives up at its first poll.
const HURRIES: u32 = 3;
/// A try always fails.
const REFUSES: u32 = 4;
/// A rank enters at its deadline.
const INTRUDES: u32 = 5;
/// A rank that gives up leaves the lock if it holds it by then, but only in its second acquisition.
const LEAKS: u32 = 6;

impl<const DEFECT: u32> Queue<DEFECT> {
    fn change<A: RemoteAtomics + ?Sized>(side: &Side<'_, A>, by: impl Fn(u64) -> u64) -> Result<u64> {
        let mut guess = 0;
        loop {
            let old = side.compare_and_swap(side.home(0), guess, by(guess))?;
            if old == guess {
                return Ok(by(old));
            }
            guess = old;
        }
    }

    fn enqueue<A: RemoteAtomics + ?Sized>(side: &Side<'_, A>) -> Result<u64> {
        Self::change(side, |queue| {
            let bits = u64::BITS - queue.leading_zeros();
            queue | side.me() << bits.next_multiple_of(3)
        })
    }

    fn remove<A: RemoteAtomics + ?Sized>(side: &Side<'_, A>, rank: u64) -> Result<u64> {
        Self::change(side, |queue| {
            let digits = (0..21).map(|at| queue >> (3 * at) & 7).filter(|&digit| digit != 0 && digit != rank);
            digits.enumerate().fold(0, |queue, (at, digit)| queue | digit << (3 * at))
        })
    }
}

impl<const DEFECT: u32> Protocol for Queue<DEFECT> {
    const NAME: &'static str = "queue";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let mut queue = Self::enqueue(side)?;
        while queue & 7 != side.me() {
            side.pause(1)?;
            queue = side.get(side.home(0))?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        Self::remove(side, side.me()).map(drop)
    }
}

impl<const DEFECT: u32> Attempts for Queue<DEFECT> {
    fn attempt<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>, deadline: Option<Time>) -> Result<bool> {
        *side.memo += 1;
        if DEFECT == REFUSES && deadline.is_none() {
            return Ok(side.get(side.home(0))? == 8);
        }
        let mut queue = Self::enqueue(side)?;
        while queue & 7 != side.me() {
            if DEFECT == HURRIES || deadline.is_none_or(|deadline| side.now() >= deadline) {
                match DEFECT {
                    INTRUDES if deadline.is_some() => return Ok(true),
                    STAYS => {}
                    DROPS => _ = Self::remove(side, queue & 7)?,
                    LEAKS if *side.memo == 2 && side.get(side.home(0))? & 7 == side.me() => {}
                    _ => _ = Self::remove(side, side.me())?,
                }
                return Ok(false);
            }
            side.pause(1)?;
            queue = side.get(side.home(0))?;
        }
        Ok(true)
    }
}

/// For two ranks: a count of both, and a flag of each rank that hands the lock over. A rank that gives up takes its count
/// back, unless the lock is on its way to it. With `WAKES` false, no rank is woken.
///
/// The count does not show that the holder has left and come back. So a rank that gives up can take back the other
/// rank's count, although that rank is handing the lock over to it.
struct Handed<const WAKES: bool>;

impl<const WAKES: bool> Protocol for Handed<WAKES> {
    const NAME: &'static str = "handed";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        if side.fetch_add(side.home(0), 1)? != 0 {
            Self::wait(side, None)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        if side.fetch_add(side.home(0), 1_u64.wrapping_neg())? == 2 && WAKES {
            side.put(side.of(side.other(), 0), 1)?;
        }
        Ok(())
    }
}

impl<const WAKES: bool> Handed<WAKES> {
    fn wait<A: RemoteAtomics + ?Sized>(side: &Side<'_, A>, deadline: Option<Time>) -> Result<bool> {
        let flag = side.own(0);
        let mut seen = None;
        if let Some(deadline) = deadline {
            seen = side.wait_until_deadline(flag.disp, Until::Ne(0), deadline)?;
            if seen.is_none() && side.compare_and_swap(side.home(0), 2, 1)? == 2 {
                return Ok(false);
            }
        }
        if seen.is_none() {
            side.wait_until(flag.disp, Until::Ne(0))?;
        }
        side.put(flag, 0)?;
        Ok(true)
    }
}

impl<const WAKES: bool> Attempts for Handed<WAKES> {
    fn attempt<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>, deadline: Option<Time>) -> Result<bool> {
        if deadline.is_none() {
            return Ok(side.compare_and_swap(side.home(0), 0, 1)? == 0);
        }
        if side.fetch_add(side.home(0), 1)? == 0 { Ok(true) } else { Self::wait(side, deadline) }
    }
}

/// Scenarios of two ranks in which some may give up.
fn of_two(subject: &Subject) -> impl Iterator<Item = &'static str> {
    let all: &[&str] = if subject.is_window() {
        &["1Atry 1E@0", "1A1E@0try", "2E@0timed", "1S@0timed 1E@0timed", "1A1E@1timed", "1Atimed 1E@0"]
    } else {
        &["1R1Wtry", "2Wtry", "1Rtry 1W", "2Wtimed", "1Rtimed 1W", "1R1Wtimed"]
    };
    all.iter().copied().filter(|text| check(subject.clone(), text).validate().is_ok())
}

#[test]
fn standard_locks_of_two_ranks_agree_with_the_oracle() {
    let mut count = 0;
    for subject in subjects() {
        for scenario in of_two(&subject) {
            for (network, section) in [
                (Network::Sc, Section::Empty),
                (Network::Sc, Section::Data),
                (Network::LatePuts, Section::Data),
                (Network::Hca, Section::Empty),
            ] {
                let check = Check { network, section, ..check(subject.clone(), scenario) };
                assert_eq!(compare(&check, 2), None, "{} {scenario} {network}", subject.name());
                count += 1;
            }
        }
    }
    assert!(count > 80, "{count}");
}

#[test]
fn a_deadline_that_passes_where_it_is_seen_gives_the_same_verdict() {
    let mut fewer = 0;
    for subject in subjects().into_iter().filter(|subject| subject.supports(Form::Timed)) {
        let scenario = if subject.is_window() { "1S@0timed 1E@0timed 1A" } else { "1R1W1Wtimed" };
        for network in [Network::Sc, Network::LatePuts] {
            let check = Check { network, ..check(subject.clone(), scenario) };
            let all = run(&check, &plain());
            let lazy = run(&check, &Options { partial_order: true, ..plain() });
            assert_eq!((verdict(&all), verdict(&lazy)), (None, None), "{}", subject.name());
            assert_eq!(all.sometimes, lazy.sometimes, "{}", subject.name());
            assert!(lazy.progress.states <= all.progress.states);
            fewer += u32::from(lazy.progress.states < all.progress.states);
        }
    }
    assert!(fewer > 0);
}

/// The property that is broken, by all kinds of search and, for two ranks, by the oracle.
fn broken(subject: Subject, scenario: &str) -> Option<Property> {
    let check = check(subject, scenario);
    let few = Options { max_states: Some(200_000), max_time: Some(Duration::from_secs(60)), ..plain() };
    let found = verdict(&run(&check, &Options { merging: true, ..few.clone() }));
    for (symmetry, merging, partial_order) in [(true, true, true), (false, true, false), (false, false, true)] {
        if !merging && check.active() > 2 {
            continue;
        }
        let outcome = run(&check, &Options { symmetry, merging, partial_order, ..few.clone() });
        assert_eq!(verdict(&outcome), found, "{scenario}");
        if found.is_some() {
            replayed(&check, counterexample(&outcome));
        }
    }
    if check.active() == 2 {
        assert_eq!(compare(&check, 2), found, "{scenario}");
    }
    found
}

#[test]
fn defects_of_ranks_that_give_up_are_found() {
    assert_eq!(broken(timed::<Queue<NONE>>(), "1W2Wtimed"), None);
    assert_eq!(broken(timed::<Queue<NONE>>(), "2Wtimed x2"), None);
    assert_eq!(broken(timed::<Queue<NONE>>(), "1W2Wtry"), None);
    assert_eq!(broken(timed::<Queue<STAYS>>(), "1W1Wtimed"), Some(Property::CleanRest));
    assert_eq!(broken(timed::<Queue<STAYS>>(), "1W1Wtry"), Some(Property::CleanRest));
    assert_eq!(broken(timed::<Queue<DROPS>>(), "2W1Wtimed"), Some(Property::MutualExclusion));
    assert_eq!(broken(timed::<Queue<INTRUDES>>(), "1W1Wtimed"), Some(Property::MutualExclusion));
    assert_eq!(broken(timed::<Queue<HURRIES>>(), "1W1Wtimed"), Some(Property::NoEarlyFailure));
    assert_eq!(broken(timed::<Queue<HURRIES>>(), "1W1Wtry"), None);
    assert_eq!(broken(timed::<Queue<REFUSES>>(), "1W1Wtry"), Some(Property::NoEarlyFailure));
    assert_eq!(broken(timed::<Queue<LEAKS>>(), "1W1Wtimed"), None);
    assert_eq!(broken(timed::<Queue<LEAKS>>(), "1W+1Wtimed x2"), Some(Property::CleanRest));
}

#[test]
fn a_deadline_may_pass_while_the_lock_is_on_its_way() {
    assert_eq!(broken(timed::<Handed<true>>(), "2Wtimed"), None);
    assert_eq!(broken(timed::<Handed<true>>(), "1W1Wtry"), None);
    assert_eq!(broken(timed::<Handed<true>>(), "1Wtimed+1Wx2"), Some(Property::NoLostWakeUp));
}

/// A deadline need not pass.
#[test]
fn a_lost_wake_up_shows_although_a_deadline_would_end_the_wait() {
    assert_eq!(broken(timed::<Handed<false>>(), "1W1Wtimed"), Some(Property::NoLostWakeUp));
    let outcome = run(&check(timed::<Handed<false>>(), "1W1Wtimed"), &plain());
    let seen = &counterexample(&outcome).violation.seen;
    assert!(seen.starts_with("no step is possible any more, unless a deadline passes"), "{seen}");
}

#[test]
fn a_rank_that_gave_up_does_not_wait_any_more() {
    let subject = timed::<Queue<NONE>>().order(Order::Fifo);
    let options = Options { order: true, merging: true, max_states: Some(200_000), ..plain() };
    for scenario in ["2W+1Wtimed x2", "2Wtry 1W"] {
        assert_eq!(verdict(&run(&check(subject.clone(), scenario), &options)), None, "{scenario}");
    }
}

/// Records its clock, which must not go back, and is ahead of each deadline at its start.
struct Clocked;

impl Protocol for Clocked {
    const NAME: &'static str = "clocked";

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        assert!(side.now().0 >= *side.memo);
        *side.memo = side.now().0;
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            side.pause(1)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        assert!(side.now().0 >= *side.memo);
        *side.memo = side.now().0;
        side.put(side.home(0), NIL)
    }
}

impl Attempts for Clocked {
    fn attempt<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>, deadline: Option<Time>) -> Result<bool> {
        let deadline = deadline.expect("a deadline");
        assert!(side.now().0 >= *side.memo);
        assert!(Time(*side.memo) < deadline, "the deadline is that of the last acquisition");
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            if side.now() >= deadline {
                *side.memo = side.now().0;
                return Ok(false);
            }
            side.pause(1)?;
        }
        Ok(true)
    }
}

#[test]
fn clocks_never_go_back() {
    assert_eq!(broken(timed::<Clocked>(), "2Wtimed x2"), None);
    assert_eq!(broken(timed::<Clocked>(), "1W1Wtimed x2"), None);
}

#[test]
fn time_is_explored_in_timed_acquisitions_only() {
    let unexplored = |subject, scenario| run(&check(subject, scenario), &plain()).unexplored;
    assert_eq!(unexplored(timed::<Queue<NONE>>(), "2Wtimed"), [""; 0]);
    assert_eq!(unexplored(timed::<Handed<true>>(), "2Wtimed"), [""; 0]);
    /// Gives up at its own time, whatever its deadline is.
    struct Impatient;
    impl Protocol for Impatient {
        const NAME: &'static str = "impatient";
        fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
            while !Self::attempt(side, Some(Time(1)))? {}
            Ok(())
        }
        fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
            Handed::<true>::release(side)
        }
    }
    impl Attempts for Impatient {
        fn attempt<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>, deadline: Option<Time>) -> Result<bool> {
            side.now();
            Handed::<true>::attempt(side, deadline)
        }
    }
    assert_eq!(unexplored(timed::<Impatient>(), "1W1Wtimed"), [DEADLINE]);
    assert_eq!(unexplored(timed::<Clocked>(), "1W1Wtimed"), [CLOCK]);
}

#[test]
fn a_rank_gives_up_in_some_schedule() {
    let gives_up = |name, scenario| {
        let outcome = run(&check(subject(name).unwrap(), scenario), &plain());
        assert_eq!(verdict(&outcome), None);
        outcome.sometimes.into_iter().find(|(event, _)| *event == GAVE_UP).map(|(_, happened)| happened)
    };
    assert_eq!(gives_up("tas", "1W1Wtimed"), Some(true));
    assert_eq!(gives_up("mcs", "2Wtry"), Some(true));
    assert_eq!(gives_up("tas-rw", "2Rtimed"), None);
    assert_eq!(gives_up("mcs", "2W"), None);
}

#[test]
fn forms_that_a_lock_or_an_engine_lacks_are_refused() {
    let why = |name, scenario: &str| match check(subject(name).unwrap(), scenario).validate() {
        Err(error @ Error::Form { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        why("mcs", "2W1Wtimed"),
        "scenario 2W1Wtimed x1: mcs has no acquisitions of the form timed; use try, or no form"
    );
    assert_eq!(
        why("mcs-rw-rp", "2Wtry"),
        "scenario 2Wtry x1: mcs-rw-rp has no acquisitions of the form try; name no form"
    );
    let timed = check(subject("tas").unwrap(), "2Wtimed");
    let refused = loom_engine::run(&timed, &loom_engine::Options::default(), &|_| true);
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    let tried = check(subject("tas").unwrap(), "2Wtry");
    let outcome = loom_engine::run(&tried, &loom_engine::Options::default(), &|_| true).unwrap();
    assert_eq!(verdict(&outcome), None);
}

#[test]
fn a_counterexample_shows_that_a_deadline_passes() {
    let check = check(timed::<Queue<INTRUDES>>(), "1W1Wtimed");
    let outcome = run(&check, &Options::default());
    let found = counterexample(&outcome);
    let passes = found.schedule.iter().filter(|choice| matches!(choice, Choice::Deadline(_))).count();
    assert_eq!(passes, 1, "{:?}", found.schedule);
    let drawn = diagram::text(&check, found).unwrap();
    assert!(drawn.contains("its deadline passes") && drawn.contains("(Wtimed)"), "{drawn}");
    let file = tempfile::NamedTempFile::new().unwrap();
    found.save(file.path()).unwrap();
    let loaded = Counterexample::load(file.path()).unwrap();
    assert_eq!(&loaded, found);
    replayed(&check, &loaded);

    let check = crate::check(timed::<Queue<STAYS>>(), "1W1Wtimed");
    let outcome = run(&check, &Options::default());
    let drawn = diagram::text(&check, counterexample(&outcome)).unwrap();
    assert!(drawn.contains("GIVES UP"), "{drawn}");
}

#[test]
#[ignore = "eight seconds; .ci/run longer"]
fn longer_standard_configurations_in_which_ranks_may_give_up_hold() {
    let mut count = 0;
    for subject in subjects() {
        for one in configurations(&subject) {
            let check = one.check(&subject);
            if check.has_attempts() {
                let name = format!("{} {} {}", subject.name(), check.scenario, check.network);
                let outcome = run(&check, &Options::default());
                assert_eq!(verdict(&outcome), None, "{name}");
                assert!(outcome.sometimes.iter().all(|(_, happened)| *happened), "{name}: {:?}", outcome.sometimes);
                assert_eq!(outcome.unexplored, [""; 0], "{name}");
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count}");
}
