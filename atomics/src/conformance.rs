//! One suite of checks for every backend.
//!
//! A check is a function that all ranks of a world run, each on its own [`RemoteAtomics`]; it needs nothing else, so it
//! runs on threads, in processes, on a network and in virtual time alike. A backend of threads is tested by one line:
//!
//! ```
//! use rmalab_atomics::{Mapped, World};
//!
//! rmalab_atomics::conformance!(local, Mapped, |ranks, check| {
//!     World::threads(ranks).run(|ra| check(ra).unwrap_or_else(|failure| panic!("{failure}"))).expect("a world");
//! });
//! ```
//!
//! Processes cannot be handed a function, but they have the same table: each goes through [`checks`] in its order and
//! runs those that [`suit`](Check::suits) the number of ranks. Checks may follow each other in one world, since
//! each gives back the symmetric memory that it took.
//!
//! # What a backend owes the suite
//!
//! * The symmetric heap ends where the segment ends: displacements up to [`end`](crate::SymmetricHeap::end) exist, others
//!   do not. (So the arena of a [`Subset`](crate::Subset) is the last part of its parent's heap.)
//! * Segments of at least 256 KiB.
//! * A rank whose check fails leaves the world as failed (it panics, or its process exits with an error), so that the
//!   others, which may wait for it, end with [`PeerFailed`](crate::Error::PeerFailed).
//!
//! # Slow backends
//!
//! The numbers of rounds are made for memory, where an operation takes some 20 ns. Where it takes a thousand times as long,
//! `RMALAB_CONFORMANCE_SHARE=n` has every check run the n-th part of its rounds, and no check is left out. Less is
//! tested then, of rare interleavings above all.
//!
//! Where puts are not atomic with atomics ([`Capabilities::atomic_puts`](crate::Capabilities::atomic_puts)), no put may be lost
//! to a comparison that fails. `RMALAB_CONFORMANCE_PUTS=1` checks that there, too. Soft-RoCE of Linux 6.1 does lose such puts.
//!
//! [`peer_death`] stands apart, since how a rank dies is the backend's affair. [`litmus()`] gives the ordering tests with
//! their histograms, for a command to print.

mod addresses;
mod bulk;
mod collective;
mod death;
mod litmus;
mod started;
mod waits;
mod words;

use std::cell::RefCell;
use std::fmt;

pub use death::peer_death;
pub use litmus::{Litmus, LitmusOutcome, LitmusTest, litmus};

use crate::random::Random;
use crate::{Address, Collectives, Disp, Error, Rank, RemoteAtomics, WORD};

/// A check that failed: where, and what it saw.
#[derive(Debug)]
pub struct Failure {
    /// The check's name in the table.
    pub check: &'static str,
    /// The rank that saw it.
    pub rank: Rank,
    /// How many ranks the world has.
    pub size: u32,
    /// What was seen, and what should have been.
    pub saw: String,
    /// The error of an operation that should have succeeded, if that is what was seen.
    pub source: Option<Error>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} of {}: {}", self.check, self.rank, self.size, self.saw)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

/// One check: all ranks of a world call `run`.
#[derive(Debug)]
pub struct Check<A: ?Sized> {
    /// What it is called, in tests and failures.
    pub name: &'static str,
    /// The sizes of worlds to run it in.
    pub ranks: &'static [u32],
    /// What each rank calls.
    pub run: fn(&A) -> Result<(), Failure>,
}

impl<A: ?Sized> Check<A> {
    /// Whether a world of `size` ranks is large enough for it.
    pub fn suits(&self, size: u32) -> bool {
        self.ranks.iter().min().is_some_and(|&least| least <= size)
    }
}

/// The names of all checks with the sizes of their worlds, handed to another macro: the one list of them.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    ([$($then:tt)*] $($given:tt)*) => {
        $($then)*! {
            [$($given)*]
            words fresh_memory_is_zero [1, 2, 3, 8],
            words return_values [1, 2, 3, 8],
            words fetch_add_loses_nothing [1, 2, 3, 8],
            words fetch_add_returns_each_value_once [2, 3, 4, 8],
            words compare_and_swap_increments [1, 2, 3, 8],
            words compare_and_swap_stores_only_on_equality [2, 4],
            words fetch_store_returns_each_token_once [2, 3, 4, 8],
            words kinds_are_atomic_with_each_other [2, 3, 4, 8],
            words no_put_is_lost_to_atomics [2, 3, 4, 8],
            words no_put_is_lost_to_a_failed_comparison [2, 3, 4, 8],
            words words_do_not_tear [2, 3, 8],
            words puts_of_one_rank_arrive_in_order [2, 3, 4],
            addresses word_operations_refuse_bad_addresses [1, 2, 3],
            addresses bulk_operations_refuse_bad_addresses [1, 2, 3],
            addresses waits_and_flushes_refuse_bad_addresses [1, 3],
            addresses the_whole_segment_exists [1, 3],
            bulk bulk_agrees_with_a_model [1, 2, 3, 8],
            bulk bulk_puts_touch_only_their_bytes [2, 3, 4],
            bulk bulk_and_words_see_each_other [1, 2, 3],
            bulk bulk_scope_completes_before_the_flag [2, 3, 8],
            bulk puts_keep_their_order_where_it_is_promised [2, 3],
            bulk long_transfers [1, 2, 3],
            bulk buffers_come_and_go [1, 2, 3],
            bulk clears_zero_just_their_range [1, 2, 3],
            bulk shared_words_are_the_words [1, 2, 3],
            bulk local_words_are_the_words [1, 2, 3],
            started started_operations_agree_with_a_model [1, 2, 3, 8],
            started started_operations_are_atomic_with_all_others [1, 2, 3, 8],
            started started_operations_refuse_bad_addresses [1, 2],
            waits every_condition [1, 2, 3, 8],
            waits token_ring [1, 2, 3, 4, 8],
            waits all_to_one [2, 3, 8],
            waits bulk_puts_wake [2, 3, 8],
            waits neighbouring_words_do_not_satisfy [1, 2, 3],
            waits deadlines [1, 2, 3],
            waits deadlines_in_the_middle_of_wake_ups [2, 3, 8],
            waits pauses_return [1, 2, 8],
            collective barriers_separate [1, 2, 3, 4, 8],
            collective collectives_agree_with_a_sequential_run [1, 2, 3, 4, 8],
            litmus store_buffering_fetch_store [2, 3],
            litmus store_buffering_flushed_put [2, 3],
            litmus store_buffering_stored [2, 3],
            litmus store_buffering_put [2, 3],
            litmus store_buffering_bulk [2, 3],
            litmus store_buffering_asymmetric [2, 3],
            litmus message_passing_put_same_target [2, 3],
            litmus message_passing_put_two_targets [2, 3],
            litmus message_passing_flushed_put [2, 3],
            litmus message_passing_fetch_add [2, 3],
            litmus message_passing_bulk [2, 3],
            litmus load_buffering [2, 3],
            litmus two_plus_two_writes_fetch_store [2, 3],
            litmus two_plus_two_writes_put_same_target [2, 3],
            litmus read_to_write_causality [3],
            litmus independent_reads_of_independent_writes [4, 5],
            litmus coherent_reads [2, 3],
            litmus own_put_then_get [2, 3],
        }
    };
}

macro_rules! table {
    ([] $($group:ident $name:ident $ranks:expr,)*) => {
        /// All checks, in the order in which every rank of a world runs them.
        pub fn checks<A: RemoteAtomics + ?Sized>() -> Vec<Check<A>> {
            vec![$(Check {
                name: stringify!($name),
                ranks: &$ranks,
                run: |ra| run(stringify!($name), ra, |lab| $group::$name(lab)),
            }),*]
        }
    };
}

__conformance_list!([table]);

/// Defines a module with one test for each check.
///
/// `conformance!(name, Backend, runner)`: the runner is called with a number of ranks and a check,
/// `fn(&Backend) -> Result<(), Failure>`; it makes a world of so many ranks, runs the check on each, and panics if
/// one fails. See [the module](mod@crate::conformance).
#[macro_export]
macro_rules! conformance {
    ($name:ident, $backend:ty, $runner:expr $(,)?) => {
        mod $name {
            #[allow(unused_imports)] // the runner may need nothing of what surrounds it
            use super::*;
            $crate::__conformance_list!([$crate::__conformance_tests] $backend, $runner);
        }
    };
}

/// The callback of [`conformance!`](crate::conformance!).
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ([$backend:ty, $runner:expr] $($group:ident $name:ident $ranks:expr,)*) => {
        $(#[test]
        fn $name() {
            $crate::conformance::run_named::<$backend>(stringify!($name), $runner);
        })*
    };
}

/// Calls `runner` for the check `name` with each number of ranks that it is meant for; see [`conformance!`](crate::conformance!).
///
/// # Panics
///
/// When there is no such check, and when the runner does.
pub fn run_named<A: RemoteAtomics + ?Sized>(name: &str, runner: impl Fn(u32, fn(&A) -> Result<(), Failure>)) {
    let check = checks::<A>().into_iter().find(|check| check.name == name);
    let check = check.unwrap_or_else(|| panic!("there is no check called {name}"));
    for &ranks in check.ranks {
        runner(ranks, check.run);
    }
}

/// Why a check ends early.
enum Stop {
    /// It saw something that must not be.
    Saw(String),
    /// An operation failed that should not have.
    Operation(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Operation(error)
    }
}

impl Stop {
    fn explain<A: RemoteAtomics + ?Sized>(self, check: &'static str, ra: &A) -> Failure {
        let (saw, source) = match self {
            Stop::Saw(saw) => (saw, None),
            Stop::Operation(error) => (format!("an operation failed: {error}"), Some(error)),
        };
        Failure { check, rank: ra.rank(), size: ra.size(), saw, source }
    }
}

/// How a check, or a part of one, ends.
type Outcome<T = ()> = Result<T, Stop>;

/// Ends the check with a description of what was seen, unless the condition holds.
macro_rules! require {
    ($condition:expr, $($saw:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Stop::Saw(format!($($saw)+)));
        }
    };
}
use require;

/// Runs the body of a check and says where it failed, if it does.
fn run<A: RemoteAtomics + ?Sized, T>(
    check: &'static str,
    ra: &A,
    body: impl FnOnce(&Lab<'_, A>) -> Outcome<T>,
) -> Result<T, Failure> {
    let outcome = Lab::new(check, ra).and_then(|lab| {
        let value = body(&lab)?;
        lab.close()?;
        Ok(value)
    });
    outcome.map_err(|stop| stop.explain(check, ra))
}

/// The variable that says which part of the usual rounds is run.
const SHARE: &str = "RMALAB_CONFORMANCE_SHARE";

/// The variable that has `no_put_is_lost_to_a_failed_comparison` run where puts are not atomic with atomics.
const PUTS: &str = "RMALAB_CONFORMANCE_PUTS";

fn share() -> Outcome<u64> {
    let Some(text) = std::env::var_os(SHARE) else { return Ok(1) };
    let share = text.to_str().and_then(|text| text.parse().ok()).filter(|&share| share > 0);
    share.ok_or_else(|| Stop::Saw(format!("{SHARE}={} is not a number from 1 on", text.display())))
}

/// What one rank has at hand during a check.
struct Lab<'a, A: RemoteAtomics + ?Sized> {
    ra: &'a A,
    collectives: Collectives<'a, A>,
    check: &'static str,
    /// Which part of the usual rounds is run.
    share: u64,
    allocated: RefCell<Vec<Disp>>,
}

impl<'a, A: RemoteAtomics + ?Sized> Lab<'a, A> {
    /// Bytes of a chunk of the collectives: few enough for a suite in one world, whose collectives are never freed, and
    /// enough for messages to take the bulk way too.
    const CHUNK: u64 = 128;

    fn new(check: &'static str, ra: &'a A) -> Outcome<Lab<'a, A>> {
        let collectives = Collectives::with_chunk(ra, Self::CHUNK)?;
        Ok(Lab { ra, collectives, check, share: share()?, allocated: RefCell::default() })
    }

    /// How many rounds to run where `usual` are usual: a share of them, and one at least.
    fn rounds(&self, usual: u64) -> u64 {
        usual.div_ceil(self.share)
    }

    /// Zeroed symmetric words, given back at the end of the check.
    fn alloc(&self, words: u64) -> Outcome<Disp> {
        let disp = self.ra.heap().alloc(words * WORD, 64)?;
        self.allocated.borrow_mut().push(disp);
        Ok(disp)
    }

    fn close(self) -> Outcome {
        for disp in self.allocated.take() {
            self.collectives.free(disp)?;
        }
        // The next check may come along with other words; nobody is still busy with this one's.
        Ok(self.collectives.barrier()?)
    }

    fn me(&self) -> u64 {
        u64::from(self.ra.rank().0)
    }

    fn size(&self) -> u64 {
        u64::from(self.ra.size())
    }

    /// The rank `steps` further on, around the ring.
    fn neighbour(&self, steps: u64) -> Rank {
        Rank(((self.me() + steps) % self.size()) as u32)
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> + use<A> {
        (0..self.ra.size()).map(Rank)
    }

    fn own(&self, disp: Disp) -> Address {
        self.ra.rank().at(disp)
    }

    /// Any rank, this one included.
    fn any_rank(&self, random: &mut Random) -> Rank {
        Rank(random.below(self.size()) as u32)
    }

    /// Numbers that differ from rank to rank.
    fn random(&self) -> Random {
        Random::new(self.seed(), self.me())
    }

    /// Numbers that all ranks draw alike.
    fn common_random(&self) -> Random {
        Random::new(self.seed(), u64::MAX)
    }

    fn seed(&self) -> u64 {
        self.check.bytes().fold(0, |seed, byte| seed * 31 % (1 << 32) + u64::from(byte))
    }

    fn barrier(&self) -> Outcome {
        Ok(self.collectives.barrier()?)
    }

    /// Flushes everything, then the barrier: what was issued before it is visible behind it.
    fn complete_barrier(&self) -> Outcome {
        self.ra.flush_all()?;
        self.barrier()
    }

    /// The sum (modulo 2^64) of one number of each rank, on all ranks.
    fn sum(&self, value: u64) -> Outcome<u64> {
        Ok(self.collectives.allgather(&[value])?.into_iter().fold(0, u64::wrapping_add))
    }

    /// Sometimes a short pause, to vary who meets whom.
    fn dawdle(&self, random: &mut Random) -> Outcome {
        if random.below(4) == 0 {
            self.ra.pause(random.below(16) as u32)?;
        }
        Ok(())
    }
}
