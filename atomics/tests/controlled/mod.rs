//! The controlled backend under the conformance suite, with a small random engine: on memory without delays, and on
//! memory as weak as the trait allows.

mod world;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rmalab_atomics::conformance::{Failure, checks, litmus, peer_death, survivors_go_on};
use rmalab_atomics::controlled::{Answer, Shape, spawn};
use rmalab_atomics::coroutine::Turn;
use rmalab_atomics::{Collectives, Disp, Error, Rank, RemoteAtomics, Until, WORD, bulk};
use world::{Puts, Ra, run};

/// The smallest segment that the suite requires.
const SEGMENT: u64 = 256 << 10;

/// Runs the check `name` in worlds of its sizes.
fn conforms(puts: Puts, name: &'static str, sizes: &[u32]) {
    for &ranks in sizes {
        let run = run(ranks, SEGMENT, puts, u64::from(ranks), move |ra: &Ra<'_>| {
            let check = checks().into_iter().find(|check| check.name == name).expect("a check of that name");
            (check.run)(ra).map_err(|failure| failure.to_string())
        });
        assert_eq!(run.ends, vec![Ok(()); ranks as usize]);
    }
}

/// Defines a module with one test for each check: `conformance!` needs a backend without a lifetime.
macro_rules! suite {
    ([$module:ident $puts:expr] $($group:ident $name:ident $ranks:expr,)*) => {
        mod $module {
            use super::{Puts, conforms};
            $(#[test]
            fn $name() {
                conforms($puts, stringify!($name), &$ranks);
            })*
        }
    };
}

rmalab_atomics::__conformance_list!([suite] puts_at_once Puts::AtOnce);
rmalab_atomics::__conformance_list!([suite] late_puts Puts::Late);

#[test]
fn all_checks_follow_each_other_in_one_world() {
    for puts in [Puts::AtOnce, Puts::Late] {
        let run = run(3, SEGMENT, puts, 7, |ra: &Ra<'_>| {
            let mut suitable = checks::<Ra<'_>>().into_iter().filter(|check| check.suits(ra.size()));
            suitable.try_for_each(|check| (check.run)(ra).map_err(|failure| failure.to_string()))
        });
        assert_eq!(run.ends, vec![Ok(()); 3]);
    }
}

#[test]
fn after_a_caught_panic_the_engine_uses_no_memory_of_the_rank() {
    for puts in [Puts::AtOnce, Puts::Late] {
        let run = run(2, SEGMENT, puts, 1, |ra: &Ra<'_>| {
            let at = Rank(1 - ra.rank().0).at(Disp(64));
            let (mut sent, mut got) = ([1_u8; 20], [2_u8; 20]);
            let panics = || {
                bulk::scope(ra, |bulk| -> rmalab_atomics::Result<()> {
                    bulk.get(ra.rank().at(Disp(0)), &mut got)?;
                    bulk.put(at, &sent)?;
                    panic!("this rank panics while operations are under way")
                })
            };
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
            // The borrows are over: only this rank reads and writes here.
            sent.fill(7);
            got.fill(7);
            ra.flush_all().map_err(|error| error.to_string())?;
            let mut there = [0; 20];
            ra.get_bytes(at, &mut there).map_err(|error| error.to_string())?;
            Ok((got, there))
        });
        assert_eq!(run.ends, vec![Ok(([7; 20], [1; 20])); 2], "{puts:?}");
    }
}

/// A check with one rank's death.
type Deadly = fn(&Ra<'_>, fn()) -> Result<(), Failure>;

fn with_a_death(check: Deadly) {
    for ranks in [3, 4, 8] {
        for puts in [Puts::AtOnce, Puts::Late] {
            let run = run(ranks, SEGMENT, puts, 1, move |ra: &Ra<'_>| {
                check(ra, || panic!("rank 1 dies")).map_err(|failure| failure.to_string())
            });
            for (rank, end) in run.ends.iter().enumerate() {
                match end {
                    Err(text) if rank == 1 => assert!(text.starts_with("rank 1 dies ("), "{text}"),
                    end => assert_eq!(end, &Ok(()), "rank {rank}"),
                }
            }
        }
    }
}

#[test]
fn all_ranks_get_the_death_of_a_rank() {
    with_a_death(|ra, die| peer_death(ra, die));
}

#[test]
fn all_other_ranks_go_on_after_a_death() {
    with_a_death(|ra, die| survivors_go_on(ra, die));
}

#[test]
fn waiting_ranks_get_the_failure_of_a_rank() {
    let run = run(3, SEGMENT, Puts::Late, 1, |ra: &Ra<'_>| {
        let word = ra.heap().alloc(WORD, WORD).map_err(|error| error.to_string())?;
        if ra.rank() == Rank(2) {
            return Err("that was nothing".to_owned());
        }
        ra.wait_until(word, Until::Ne(0)).map_err(|error| error.to_string())
    });
    let failed = || Err("rank 2 has failed".to_owned());
    assert_eq!(run.ends, [failed(), failed(), Err("that was nothing".to_owned())]);
}

#[test]
#[should_panic(expected = "nothing can happen any more: rank 0 in wait_until(own 0x0 ≠ 0x0)")]
fn a_wait_without_a_writer_is_detected() {
    run(2, SEGMENT, Puts::Late, 1, |ra: &Ra<'_>| {
        if ra.rank() == Rank(0) {
            let word = ra.heap().alloc(WORD, WORD).map_err(|error| error.to_string())?;
            ra.wait_until(word, Until::Ne(0)).map_err(|error| error.to_string())?;
        }
        Ok(())
    });
}

/// Late puts show every outcome that the memory model allows, and none that it forbids. Without delays, outcomes of
/// late puts do not occur.
#[test]
fn every_allowed_outcome_is_seen() {
    let outcomes = |puts: Puts, test: usize, ranks: u32| -> (BTreeSet<String>, BTreeSet<String>) {
        let run = run(ranks, SEGMENT, puts, 3, move |ra: &Ra<'_>| {
            (litmus()[test].run)(ra, 40_000).map_err(|failure| failure.to_string())
        });
        let litmus = run.ends[0].as_ref().expect("a histogram");
        assert_eq!(litmus.forbidden(), 0, "{litmus}");
        let with = |seen: bool| {
            let allowed = litmus.outcomes.iter().filter(|outcome| !outcome.forbidden && (outcome.seen > 0) == seen);
            allowed.map(|outcome| outcome.reads.clone()).collect()
        };
        (with(true), with(false))
    };
    let mut only_late = Vec::new();
    for (i, test) in litmus::<Ra<'_>>().into_iter().enumerate() {
        let (seen, unseen) = outcomes(Puts::Late, i, test.roles.max(2));
        assert_eq!(unseen, BTreeSet::new(), "{}", test.name);
        let (at_once, _) = outcomes(Puts::AtOnce, i, test.roles.max(2));
        only_late.extend(seen.difference(&at_once).map(|reads| format!("{}: {reads}", test.name)));
    }
    let expected = [
        "store_buffering_ordered_put: r0:y=0 r1:x=0",
        "store_buffering_put: r0:y=0 r1:x=0",
        "message_passing_put_two_targets: r1:y=1 r1:x=0",
        "own_put_then_get: r0:x=0",
    ];
    assert_eq!(only_late, expected);
}

/// Every run of a barrier, a broadcast and another barrier has the same calls in the same order.
#[test]
fn thousands_of_ranks_run_alike_under_one_seed() {
    const RANKS: u32 = 5_000;
    let collective = |seed: u64| {
        let run = run(RANKS, SEGMENT, Puts::Late, seed, |ra: &Ra<'_>| {
            let body = || -> Result<u64, Error> {
                let collectives = Collectives::with_chunk(ra, 64)?;
                let arrivals = Rank(RANKS - 1).at(ra.heap().alloc(WORD, WORD)?);
                ra.fetch_add(arrivals, 1)?;
                collectives.barrier()?;
                let mut words = [if ra.rank() == Rank(7) { ra.get(arrivals)? } else { 0 }];
                collectives.broadcast(Rank(7), &mut words)?;
                collectives.barrier()?;
                Ok(words[0])
            };
            body().map_err(|error| error.to_string())
        });
        assert!(run.ends.iter().all(|end| end == &Ok(u64::from(RANKS))));
        (run.calls, run.hash)
    };
    let (calls, hash) = collective(1);
    // A fetch-and-add, and 13 rounds of a put and a wait in each of the barriers.
    assert!(calls > u64::from(RANKS) * (1 + 2 * 2 * 13), "{calls} calls");
    assert_eq!(collective(1), (calls, hash), "the same seed");
    assert_ne!(collective(2).1, hash, "another seed");
}

/// A value that makes a call when it is dropped, like the guard of a lock.
struct Releases<'a, A: RemoteAtomics>(&'a A);

impl<A: RemoteAtomics> Drop for Releases<'_, A> {
    fn drop(&mut self) {
        let released = self.0.fetch_store(Rank(0).at(Disp(0)), 0);
        assert!(matches!(released, Err(Error::PeerFailed { rank: Rank(0) })), "{released:?}");
        let _ = self.0.now();
    }
}

#[test]
fn a_rank_that_unwinds_makes_no_more_calls() {
    let guarded = |panics: bool| {
        let body = move |ra: &Ra<'_>| {
            let _guard = Releases(ra);
            ra.flush_all().expect("the engine answers");
            assert!(!panics, "the rank's own panic");
            ra.flush_all().expect("the engine answers");
        };
        spawn(&Shape::new(1), Rank(0), body).expect("a stack")
    };
    // The task is given up in the middle of a call, with `stop` and with drop.
    let mut task = guarded(false);
    assert!(matches!(task.resume(Answer::Done), Turn::Calls(_)));
    task.stop();
    let mut task = guarded(false);
    assert!(matches!(task.resume(Answer::Done), Turn::Calls(_)));
    drop(task);
    // The task panics: the next turn is its end, and not a call of a destructor.
    let mut task = guarded(true);
    assert!(matches!(task.resume(Answer::Done), Turn::Calls(_)));
    match task.resume(Answer::Done) {
        Turn::Panicked(text) => assert!(text.starts_with("the rank's own panic"), "{text}"),
        other => panic!("{other:?}"),
    }
    task.stop();
}
