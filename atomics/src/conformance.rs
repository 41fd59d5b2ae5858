//! One suite of checks for every backend.
//!
//! A check is a function that all ranks of a world run, each on its own [`RemoteAtomics`]. It needs nothing else, so it
//! runs on threads, in processes, on a network and in virtual time. One line tests a backend of threads:
//!
//! ```
//! use rmalab_atomics::{Mapped, World};
//!
//! rmalab_atomics::conformance!(local, Mapped, |ranks, check| {
//!     World::threads(ranks).run(|ra| check(ra).unwrap_or_else(|failure| panic!("{failure}"))).expect("a world");
//! });
//! ```
//!
//! A process cannot receive a function, but has the same table: each process goes through [`checks`] in order and runs
//! those that [`suit`](Check::suits) the number of ranks. Checks may follow each other in one world, since each frees
//! the symmetric memory that it allocated.
//!
//! # Requirements on a backend
//!
//! * The symmetric heap ends where the segment ends: displacements up to [`end`](crate::SymmetricHeap::end) exist, and no
//!   others. (So the arena of a [`Subset`](crate::Subset) is the last part of its parent's heap.)
//! * Segments have at least 256 KiB.
//! * A rank whose check fails leaves the world as failed: it panics, or its process exits with an error. So ranks that
//!   wait for it end with [`PeerFailed`](crate::Error::PeerFailed).
//!
//! # Slow backends
//!
//! The numbers of rounds are chosen for memory, where an operation takes some 20 ns. For slower backends,
//! `RMALAB_CONFORMANCE_SHARE=n` makes every check run the n-th part of its rounds. No check is left out, but fewer rare
//! interleavings are tested.
//!
//! Where puts are not atomic with atomics ([`Capabilities::atomic_puts`](crate::Capabilities::atomic_puts)), no put may be lost
//! to a comparison that fails. `RMALAB_CONFORMANCE_PUTS=1` checks this on such backends, too. Soft-RoCE of Linux 6.1 does
//! lose such puts; the machines of scripts/soft-roce have a later kernel.
//!
//! [`peer_death`] is separate, since each backend kills a rank in its own way. [`litmus()`] returns the ordering tests
//! with their histograms, for a command to print.

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

pub use death::{expelled_rank_has_no_effect, peer_death, revocation_ends_waits, survivors_go_on};
pub use litmus::{Litmus, LitmusOutcome, LitmusTest, litmus};

use crate::random::Random;
use crate::{Address, Collectives, Disp, Error, Rank, RemoteAtomics, WORD};

/// A failed check: the place of the failure, and the observation.
#[derive(Debug)]
pub struct Failure {
    /// The check's name in the table.
    pub check: &'static str,
    /// The rank that observed the failure.
    pub rank: Rank,
    /// The number of ranks of the world.
    pub size: u32,
    /// The observation, and the expected result.
    pub saw: String,
    /// The error of an operation that should have succeeded, if there was one.
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
    /// Its name in tests and failures.
    pub name: &'static str,
    /// The sizes of the worlds that run it.
    pub ranks: &'static [u32],
    /// The function that each rank calls.
    pub run: fn(&A) -> Result<(), Failure>,
}

impl<A: ?Sized> Check<A> {
    /// Returns whether a world of `size` ranks is large enough for it.
    pub fn suits(&self, size: u32) -> bool {
        self.ranks.iter().min().is_some_and(|&least| least <= size)
    }
}

/// The single list of all checks with the sizes of their worlds, passed to another macro.
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
            litmus store_buffering_ordered_put [2, 3],
            litmus store_buffering_put [2, 3],
            litmus store_buffering_bulk [2, 3],
            litmus store_buffering_asymmetric [2, 3],
            litmus message_passing_put_same_target [2, 3],
            litmus message_passing_put_two_targets [2, 3],
            litmus message_passing_flushed_put [2, 3],
            litmus message_passing_ordered_put [2, 3],
            litmus message_passing_ordered_put_then_atomic [2, 3],
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
/// `conformance!(name, Backend, runner)`: the macro calls the runner with a number of ranks and a check,
/// `fn(&Backend) -> Result<(), Failure>`. It makes a world of this many ranks, runs the check on each, and panics if one fails. See
/// [the module](mod@crate::conformance).
#[macro_export]
macro_rules! conformance {
    ($name:ident, $backend:ty, $runner:expr $(,)?) => {
        mod $name {
            #[allow(unused_imports)] // the runner may need no name of its surroundings
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

/// Calls `runner` for the check `name` with each of its numbers of ranks; see [`conformance!`](crate::conformance!).
///
/// # Panics
///
/// If there is no such check, or if the runner panics.
pub fn run_named<A: RemoteAtomics + ?Sized>(name: &str, runner: impl Fn(u32, fn(&A) -> Result<(), Failure>)) {
    let check = checks::<A>().into_iter().find(|check| check.name == name);
    let check = check.unwrap_or_else(|| panic!("there is no check called {name}"));
    for &ranks in check.ranks {
        runner(ranks, check.run);
    }
}

/// The reason why a check ends early.
enum Stop {
    /// It observed a forbidden result.
    Saw(String),
    /// An operation failed that should have succeeded.
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

/// The outcome of a check, or of a part of one.
type Outcome<T = ()> = Result<T, Stop>;

/// Ends the check with a description of the observation, unless the condition holds.
macro_rules! require {
    ($condition:expr, $($saw:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Stop::Saw(format!($($saw)+)));
        }
    };
}
use require;

/// Runs the body of a check, and adds the check's name and rank to its failure.
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

/// The variable for the part of the usual rounds to run.
const SHARE: &str = "RMALAB_CONFORMANCE_SHARE";

/// The variable that enables `no_put_is_lost_to_a_failed_comparison` where puts are not atomic with atomics.
const PUTS: &str = "RMALAB_CONFORMANCE_PUTS";

fn share() -> Outcome<u64> {
    let Some(text) = std::env::var_os(SHARE) else { return Ok(1) };
    let share = text.to_str().and_then(|text| text.parse().ok()).filter(|&share| share > 0);
    share.ok_or_else(|| Stop::Saw(format!("{SHARE}={} is not a number of at least 1", text.display())))
}

/// The tools of one rank during a check.
struct Lab<'a, A: RemoteAtomics + ?Sized> {
    ra: &'a A,
    collectives: Collectives<'a, A>,
    check: &'static str,
    /// The divisor of the usual number of rounds.
    share: u64,
    allocated: RefCell<Vec<Disp>>,
}

impl<'a, A: RemoteAtomics + ?Sized> Lab<'a, A> {
    /// Bytes of a chunk of the collectives. A suite in one world, which never frees its collectives, needs small
    /// chunks. Chunks are large enough for messages to use bulk operations, too.
    const CHUNK: u64 = 128;

    fn new(check: &'static str, ra: &'a A) -> Outcome<Lab<'a, A>> {
        let collectives = Collectives::with_chunk(ra, Self::CHUNK)?;
        Ok(Lab { ra, collectives, check, share: share()?, allocated: RefCell::default() })
    }

    /// Returns the number of rounds to run: a share of `usual`, and at least one.
    fn rounds(&self, usual: u64) -> u64 {
        usual.div_ceil(self.share)
    }

    /// Allocates zeroed symmetric words, which are freed at the end of the check.
    fn alloc(&self, words: u64) -> Outcome<Disp> {
        let disp = self.ra.heap().alloc(words * WORD, 64)?;
        self.allocated.borrow_mut().push(disp);
        Ok(disp)
    }

    fn close(self) -> Outcome {
        for disp in self.allocated.take() {
            self.collectives.free(disp)?;
        }
        // The next check may reuse the words. After the barrier no rank uses the words of this check.
        Ok(self.collectives.barrier()?)
    }

    fn me(&self) -> u64 {
        u64::from(self.ra.rank().0)
    }

    fn size(&self) -> u64 {
        u64::from(self.ra.size())
    }

    /// Returns the rank `steps` further on, around the ring.
    fn neighbour(&self, steps: u64) -> Rank {
        Rank(((self.me() + steps) % self.size()) as u32)
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> + use<A> {
        (0..self.ra.size()).map(Rank)
    }

    fn own(&self, disp: Disp) -> Address {
        self.ra.rank().at(disp)
    }

    /// Returns a random rank, which may be this one.
    fn any_rank(&self, random: &mut Random) -> Rank {
        Rank(random.below(self.size()) as u32)
    }

    /// Returns random numbers that differ from rank to rank.
    fn random(&self) -> Random {
        Random::new(self.seed(), self.me())
    }

    /// Returns random numbers that are the same on all ranks.
    fn common_random(&self) -> Random {
        Random::new(self.seed(), u64::MAX)
    }

    fn seed(&self) -> u64 {
        self.check.bytes().fold(0, |seed, byte| seed * 31 % (1 << 32) + u64::from(byte))
    }

    fn barrier(&self) -> Outcome {
        Ok(self.collectives.barrier()?)
    }

    /// Flushes all targets, then calls the barrier: operations issued before it are visible after it.
    fn complete_barrier(&self) -> Outcome {
        self.ra.flush_all()?;
        self.barrier()
    }

    /// Returns the sum (modulo 2^64) of one number of each rank, on all ranks.
    fn sum(&self, value: u64) -> Outcome<u64> {
        Ok(self.collectives.allgather(&[value])?.into_iter().fold(0, u64::wrapping_add))
    }

    /// Sometimes pauses for a short time, to vary which ranks meet.
    fn dawdle(&self, random: &mut Random) -> Outcome {
        if random.below(4) == 0 {
            self.ra.pause(random.below(16) as u32)?;
        }
        Ok(())
    }
}
