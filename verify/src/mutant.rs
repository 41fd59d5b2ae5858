//! Locks broken on purpose. A mutant changes calls or answers; the lock's code stays as it is.
//!
//! A [`Mutant`] is a name, a sentence and a few [`Rule`]s, each about some of the lock's [`Calls`]. [`Deviating`] is a
//! layer between a lock and its player, and applies the rules. It drops a call, changes it, delays it, or changes its
//! answer. Its behaviour is a function of the rank's calls and answers since its current acquire or release began. So
//! every engine can run it like the lock itself.
//!
//! A mutant shows that a property can fail, and in how small a check. A mutant that survives all checks must come with
//! an argument for its equivalence to the lock. There is one table per lock; [`mutants`] has all of them.

/// Makes a table of mutants.
///
/// `of` precedes the locks of the mutants below it. A mutant is its name, its description, its rules in brackets, and
/// calls of [`Mutant`]'s functions.
macro_rules! table {
    ($(
        of $locks:tt
        $($name:literal $description:literal [$($rule:expr),* $(,)?] $(. $further:ident ($($with:expr),*))* ;)*
    )*) => {
        &[$($(
            $crate::mutant::Mutant::new(&$locks, $name, $description, &[$($rule),*])
                $(.$further($($with),*))*,
        )*)*]
    };
}
pub(crate) use table;

mod alock;
mod any;
mod big_reader;
mod bravo;
mod brlock;
mod calls;
mod clh;
mod cna;
mod cohort;
mod declock;
mod deviating;
mod dslr_wide;
mod gcr;
mod hapax;
mod hierarchical;
mod lease;
mod malthusian;
mod mcs_rw_neutral;
mod mcs_rw_rp;
mod mcs_rw_wp;
mod mpi4py_mcs;
mod mutexes;
mod oshmem_mcs;
mod reciprocating;
mod rma_mcs;
mod rma_rw;
mod rme_mcs;
mod robust;
mod robust_hierarchical;
mod sherman;
mod shiftlock;
mod tas_rw;
mod windows;

pub use calls::{
    Calls, any_call, bulk_get, bulk_put, compare_and_swap, failed, fence_everywhere, fetch_add, fetch_store, flush,
    get, now, put, silence, wait_until,
};
pub use deviating::Deviating;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;

use crate::Form;
use crate::network::Network;
use crate::play::Section;

/// A deviation from one or several locks.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Its name, on the command line and in the kill matrix.
    pub name: &'static str,
    /// The defect, in one line.
    pub description: &'static str,
    /// The locks or programs that it suits.
    pub locks: &'static [&'static str],
    /// The changes of calls and answers; the first rule about a call applies.
    pub rules: &'static [Rule],
    /// The mutation of the published algorithm that this one represents, where our form of the lock differs from it.
    pub stands_for: Option<&'static str>,
    /// The words that this defect leaves nonzero at rest. These alone do not count as a violation.
    pub leaves: &'static [&'static str],
    /// The reason why no engine can distinguish it from the lock.
    pub equivalent: Option<&'static str>,
    /// The network of its checks. It shows the defect; for an equivalent mutant, it has many interleavings.
    pub network: Network,
    /// The form of acquisition that it needs to show.
    pub form: Form,
    /// The number of ranks that have to fail for it to show.
    pub crashes: u32,
    /// The number of times that a rank has to fail and come back for it to show.
    pub restarts: u32,
    /// The number of times that time has to pass for it to show.
    pub lapses: u32,
    /// The section that it needs to show.
    pub section: Section,
    /// The home that it needs to show.
    pub home: Option<Rank>,
    /// True if it breaks the lock's order, and nothing else.
    pub order: bool,
}

/// A change of calls.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// They are not made. If the lock needs an answer, it gets the present word.
    Skip(Calls),
    /// They are not made, and the answer is this.
    Answer(Calls, u64),
    /// They are not made, and the answer is the desired one: success of a compare-and-swap, or the end of a wait.
    Pretend(Calls),
    /// They are not made, and the answer is that their deadline has passed, if they have one.
    TimesOut(Calls),
    /// They are made, and the lock gets this function of the answer.
    See(Calls, fn(u64) -> u64),
    /// They are made, and the lock gets this function of the answer and of the answer to a get directly after them.
    LookAgain(Calls, fn(u64, u64) -> u64),
    /// They are made with this function of the value that they add or store.
    Value(Calls, fn(u64) -> u64),
    /// They are made as gets.
    AsGet(Calls),
    /// They are made as swaps that store this.
    AsSwap(Calls, u64),
    /// Swaps are made as posted puts, and the answer is this.
    Posted(Calls, u64),
    /// This is made instead.
    Change(Calls, fn(Call) -> Call),
    /// The first is made instead, and the lock gets the second function of its answer.
    Instead(Calls, fn(Call) -> Call, fn(u64) -> u64),
    /// They are made twice.
    Twice(Calls),
    /// Atomic operations are made as a get and a put, so that other calls can occur in between.
    Split(Calls),
    /// Compare-and-swaps are made, and always report success.
    ClaimSuccess(Calls),
    /// Compare-and-swaps are made as stores without a comparison, and report success.
    AsStore(Calls),
    /// Compare-and-swaps are made as additions of their difference. If one of these bits was set, the addition is taken
    /// back; otherwise the operation has succeeded.
    AsAttempt(Calls, u64),
    /// Their word is set to zero directly before them.
    ZeroFirst(Calls),
    /// Their word is set to zero directly after them.
    ZeroAfter(Calls),
    /// The first calls are delayed until after the second ones: until the next call that is neither, or the end of
    /// acquire or release. If the lock needs an answer, it gets the word's value at the original time.
    Late(&'static [Calls], &'static [Calls]),
    /// The rank publishes its identity with these bits cleared, and recognizes itself by the other bits.
    Unmarked(u64),
    /// The lock does not say that a rank has failed inside.
    Untold,
}

impl Mutant {
    /// A mutant that shows on any network, with nothing done inside.
    pub(crate) const fn new(
        locks: &'static [&'static str],
        name: &'static str,
        description: &'static str,
        rules: &'static [Rule],
    ) -> Mutant {
        Mutant {
            name,
            description,
            locks,
            rules,
            stands_for: None,
            leaves: &[],
            equivalent: None,
            network: Network::Sc,
            form: Form::Wait,
            crashes: 0,
            restarts: 0,
            lapses: 0,
            section: Section::Empty,
            home: None,
            order: false,
        }
    }

    const fn stands_for(self, published: &'static str) -> Mutant {
        Mutant { stands_for: Some(published), ..self }
    }

    const fn leaves(self, words: &'static [&'static str]) -> Mutant {
        Mutant { leaves: words, ..self }
    }

    const fn equivalent(self, argument: &'static str) -> Mutant {
        Mutant { equivalent: Some(argument), ..self }
    }

    pub(crate) const fn on(self, network: Network) -> Mutant {
        Mutant { network, ..self }
    }

    const fn when(self, form: Form) -> Mutant {
        Mutant { form, ..self }
    }

    const fn after(self, crashes: u32) -> Mutant {
        Mutant { crashes, ..self }
    }

    const fn returning(self, restarts: u32) -> Mutant {
        Mutant { restarts, ..self }
    }

    const fn lapsing(self, lapses: u32) -> Mutant {
        Mutant { lapses, ..self }
    }

    const fn with_data(self) -> Mutant {
        Mutant { section: Section::Data, ..self }
    }

    const fn home(self, home: Rank) -> Mutant {
        Mutant { home: Some(home), ..self }
    }

    const fn of_order(self) -> Mutant {
        Mutant { order: true, ..self }
    }

    /// Returns whether it suits the lock called `name`.
    pub fn suits(&self, name: &str) -> bool {
        self.locks.contains(&name)
    }
}

/// All mutants, lock by lock.
pub fn mutants() -> impl Iterator<Item = &'static Mutant> {
    [
        mutexes::MUTANTS,
        robust::MUTANTS,
        oshmem_mcs::MUTANTS,
        mpi4py_mcs::MUTANTS,
        reciprocating::MUTANTS,
        cna::MUTANTS,
        malthusian::MUTANTS,
        hapax::MUTANTS,
        clh::MUTANTS,
        cohort::MUTANTS,
        alock::MUTANTS,
        sherman::MUTANTS,
        gcr::MUTANTS,
        rma_mcs::MUTANTS,
        rme_mcs::MUTANTS,
        lease::MUTANTS,
        tas_rw::MUTANTS,
        mcs_rw_rp::MUTANTS,
        mcs_rw_wp::MUTANTS,
        mcs_rw_neutral::MUTANTS,
        big_reader::MUTANTS,
        brlock::MUTANTS,
        bravo::MUTANTS,
        rma_rw::MUTANTS,
        declock::MUTANTS,
        dslr_wide::MUTANTS,
        shiftlock::MUTANTS,
        windows::MUTANTS,
        hierarchical::MUTANTS,
        robust_hierarchical::MUTANTS,
        any::MUTANTS,
    ]
    .into_iter()
    .flatten()
}

/// The mutant called `name`.
pub fn mutant(name: &str) -> Option<&'static Mutant> {
    mutants().find(|mutant| mutant.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_locks_exist() {
        let mut names: Vec<&str> = mutants().map(|mutant| mutant.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        for mutant in mutants() {
            assert!(!mutant.locks.is_empty(), "{}", mutant.name);
            for lock in mutant.locks {
                let subject = crate::subject(lock).unwrap_or_else(|| panic!("{}: no lock {lock}", mutant.name));
                let named: Vec<&str> = subject.named_words().iter().map(|word| word.name).collect();
                let words = mutant.rules.iter().flat_map(|rule| rule.calls()).filter_map(|calls| calls.word);
                for word in words.chain(mutant.leaves.iter().copied()) {
                    assert!(named.contains(&word), "{}: {lock} has no word {word}", mutant.name);
                }
            }
        }
    }
}
