//! Started operations: locks and a program that use them, and a defective backend that does not wait for their results.

use std::fmt::Debug;

use rmalab_atomics::controlled::{Answer, Call, Executor, Shape};
use rmalab_atomics::{Disp, Rank, RemoteAtomics, Result, Until, bulk};
use rmalab_locks::qnode::{NIL, rank_of};
use rmalab_verify::explorer::{Options, Search};
use rmalab_verify::play::{Event, Player, Stage};
use rmalab_verify::subject::Holds;
use rmalab_verify::window_programs::sees;
use rmalab_verify::{Check, Network, Program, Property};

use crate::oracle::compare;
use crate::protocols::{Protocol, Side, lock};
use crate::{check, counterexample, plain, replayed, run, verdict};

/// A queue lock whose swap of the tail is under way at the same time as an unneeded swap of a hint.
struct StartedQueue;

impl Protocol for StartedQueue {
    const NAME: &'static str = "started-queue";
    const HOME: &'static [(&'static str, Holds)] = &[("tail", Holds::Pointer), ("hint", Holds::Pointer)];
    const EACH: &'static [(&'static str, Holds)] = &[("next", Holds::Pointer), ("go", Holds::Number)];

    fn acquire<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let (tail, hint, me) = (side.home(0), side.home(1), side.me());
        let (mut before, mut last) = (NIL, NIL);
        bulk::scope(&**side, |scope| {
            scope.fetch_store(tail, me, &mut before)?;
            scope.fetch_store(hint, me, &mut last)
        })?;
        if before != NIL {
            side.put(side.of(rank_of(before), 0), me)?;
            side.wait_until(side.own(1).disp, Until::Ne(0))?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(side: &mut Side<'_, A>) -> Result<()> {
        let (tail, hint, me) = (side.home(0), side.home(1), side.me());
        side.put(side.own(1), 0)?;
        side.flush(side.rank())?;
        side.compare_and_swap(hint, me, NIL)?;
        if side.compare_and_swap(tail, me, NIL)? != me {
            let next = side.wait_until(side.own(0).disp, Until::Ne(NIL))?;
            side.put(side.own(0), NIL)?;
            side.flush(side.rank())?;
            side.put(side.of(rank_of(next), 1), 1)?;
        }
        side.flush_all()
    }
}

const ALL: [Network; 5] = [Network::Sc, Network::LatePuts, Network::UnorderedBulk, Network::OrderedBulk, Network::Hca];

#[test]
fn a_lock_on_started_operations_holds_and_the_oracle_agrees() {
    for network in ALL {
        let subject = lock::<StartedQueue>().keeps("hint", u64::MAX);
        let check = Check { network, ..check(subject, "2Wx1") };
        assert_eq!(compare(&check, 0), None, "{network}");
        let states = |threads, fast| {
            let options = Options { threads, symmetry: fast, partial_order: fast, ..plain() };
            let outcome = run(&check, &options);
            assert_eq!(verdict(&outcome), None, "{network}: {options:?}");
            outcome.progress.states
        };
        let (all, least) = (states(1, false), states(1, true));
        assert!(least < all, "{network}: {least} states, of {all} without symmetry");
        assert_eq!((states(2, false), states(2, true)), (all, least), "{network}");
    }
}

/// The words of the program: a counter, and one claim per ticket.
const COUNTER: Disp = Disp(0);
const CLAIMS: Disp = Disp(64);

/// Two ranks draw two tickets each by simultaneous additions, and claim the words of their tickets.
fn tickets(rank: Rank, player: &dyn Player) -> rmalab_verify::Result<()> {
    let ra = Stage::new(player, &Shape::new(2), rank);
    let counter = Rank(0).at(COUNTER);
    let (mut first, mut second) = (0, 0);
    bulk::scope(&ra, |scope| {
        scope.fetch_add(counter, 1, &mut first)?;
        scope.fetch_add(counter, 1, &mut second)
    })?;
    let claims = [first, second].map(|ticket| Rank(1).at(CLAIMS.word(ticket)));
    for claim in claims {
        sees(Property::MutualExclusion, "the claim of a ticket", ra.fetch_store(claim, 1)?, &[0])?;
    }
    Ok(())
}

/// A defective backend that reads the results of started operations without waiting.
struct Hasty<'p>(&'p dyn Player);

impl Executor for Hasty<'_> {
    fn call(&self, call: Call) -> Answer {
        match call {
            // The result is the old content of its memory, unless the operation happens to be complete.
            Call::Finish { request, .. } if self.0.call(Call::Test { request }) == Answer::Word(0) => Answer::Word(0),
            Call::Flush { .. } => Answer::Done,
            call => self.0.call(call),
        }
    }
}

impl Player for Hasty<'_> {
    fn event(&self, event: Event, handle: &dyn Debug) {
        self.0.event(event, handle);
    }
}

fn program(hasty: bool, network: Network) -> Check {
    let body = move |rank, player: &dyn Player| match hasty {
        true => tickets(rank, &Hasty(player)),
        false => tickets(rank, player),
    };
    Check { network, ..Check::program("tickets", Program::new(2, body)) }
}

#[test]
fn tickets_drawn_by_simultaneous_operations_are_different() {
    for network in ALL {
        for partial_order in [false, true] {
            let options = Options { partial_order, ..plain() };
            assert_eq!(verdict(&run(&program(false, network), &options)), None, "{network}");
        }
        let deep = run(&program(false, network), &Options { search: Search::DepthFirst, ..plain() });
        assert_eq!(verdict(&deep), None, "{network}");
    }
}

#[test]
fn reading_results_without_waiting_is_detected() {
    for network in [Network::LatePuts, Network::UnorderedBulk, Network::OrderedBulk] {
        let check = program(true, network);
        let outcome = run(&check, &plain());
        assert_eq!(verdict(&outcome), Some(Property::MutualExclusion), "{network}");
        replayed(&check, counterexample(&outcome));
        let drawn = rmalab_verify::diagram::text(&check, counterexample(&outcome)).unwrap();
        assert!(drawn.contains("start #0 fetch_add") && drawn.contains("posted"), "{drawn}");
    }
    // If operations take effect when they start, no wait is needed.
    for network in [Network::Sc, Network::Hca] {
        assert_eq!(verdict(&run(&program(true, network), &plain())), None, "{network}");
    }
}
