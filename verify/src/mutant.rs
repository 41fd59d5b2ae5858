//! Locks broken on purpose: what a mutant deviates in is a call or an answer, and no lock is touched.
//!
//! A [`Mutant`] is a name, a sentence and a few [`Rule`]s, each about some of the lock's [`Calls`]. [`Deviating`]
//! stands between a lock and whatever carries out its calls, and applies the rules: it drops a call, changes it, holds
//! it back, or changes its answer. What it does is a function of the rank's calls and answers since its current acquire
//! or release began, so that every engine can run it as it runs the lock.
//!
//! A mutant shows that a property can fail, and in how small a check; one that survives everything, by an argument that
//! comes with it, is equivalent to the lock. The tables are by lock: [`mutants`] is all of them.

/// Makes a table of mutants.
///
/// `of` is followed by the locks of the mutants below it. A mutant is its name, its description, its rules in brackets,
/// and calls of [`Mutant`]'s functions.
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

mod any;
mod calls;
mod cohort;
mod deviating;
mod hierarchical;
mod mcs_rw_neutral;
mod mcs_rw_rp;
mod mcs_rw_wp;
mod mutexes;
mod rma_mcs;
mod rma_rw;
mod tas_rw;
mod windows;

pub use calls::{
    Calls, any_call, bulk_put, compare_and_swap, fence_everywhere, fetch_add, fetch_store, flush, get, put, wait_until,
};
pub use deviating::Deviating;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;

use crate::network::Network;
use crate::play::Section;

/// A deviation from one or several locks.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Its name, on the command line and in the kill matrix.
    pub name: &'static str,
    /// What is broken, in one line.
    pub description: &'static str,
    /// The locks, or the programs, that it suits.
    pub locks: &'static [&'static str],
    /// What is done to calls and answers; the first rule about a call holds.
    pub rules: &'static [Rule],
    /// The mutation of the published algorithm that this one stands for, where our form of the lock differs from it.
    pub stands_for: Option<&'static str>,
    /// The words that it leaves as they are at rest by what it is: that alone is not held against it.
    pub leaves: &'static [&'static str],
    /// Why no engine can distinguish it from the lock.
    pub equivalent: Option<&'static str>,
    /// The network that it is searched on: one that shows it, or, if it is equivalent, one that leaves most to happen.
    pub network: Network,
    /// What has to be done inside, for it to show.
    pub section: Section,
    /// Where the lock's words have to be, for it to show.
    pub home: Option<Rank>,
    /// Whether it breaks the lock's order, and nothing else.
    pub order: bool,
}

/// What is done to calls.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// They are not made. Where the lock needs an answer it is what the word is then.
    Skip(Calls),
    /// They are not made, and this is the answer.
    Answer(Calls, u64),
    /// They are not made, and the answer is the one that they are made for: success of a compare-and-swap, the end of a
    /// wait.
    Pretend(Calls),
    /// They are made, and the lock sees this of the answer.
    See(Calls, fn(u64) -> u64),
    /// They are made with this in place of the value that they add or store.
    Value(Calls, fn(u64) -> u64),
    /// They are made as gets.
    AsGet(Calls),
    /// They are made as swaps that store this.
    AsSwap(Calls, u64),
    /// Swaps are made as posted puts, and this is the answer.
    Posted(Calls, u64),
    /// This is made in their place.
    Change(Calls, fn(Call) -> Call),
    /// The one is made in their place, and the lock sees the other of its answer.
    Instead(Calls, fn(Call) -> Call, fn(u64) -> u64),
    /// They are made twice.
    Twice(Calls),
    /// Atomic operations are made as a get and a put, so that other calls can come in between.
    Split(Calls),
    /// Compare-and-swaps are made, and claim that they have succeeded.
    ClaimSuccess(Calls),
    /// Compare-and-swaps are made as stores that do not compare, and claim that they have succeeded.
    AsStore(Calls),
    /// Compare-and-swaps are made as additions of what they would have added, which are taken back if one of these bits
    /// was set, and which have succeeded otherwise.
    AsAttempt(Calls, u64),
    /// Their word is set to zero right before they are made.
    ZeroFirst(Calls),
    /// Their word is set to zero right after they were made.
    ZeroAfter(Calls),
    /// The first calls are made after the second ones that follow them: right before the next call that is neither, or
    /// at the end of acquire or release. Where the lock needs an answer it is what the word was in the lock's order.
    Late(&'static [Calls], &'static [Calls]),
    /// These bits are zero in all that the rank hands out of its identity, and it knows itself by the rest.
    Unmarked(u64),
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

    const fn with_data(self) -> Mutant {
        Mutant { section: Section::Data, ..self }
    }

    const fn home(self, home: Rank) -> Mutant {
        Mutant { home: Some(home), ..self }
    }

    const fn of_order(self) -> Mutant {
        Mutant { order: true, ..self }
    }

    /// Returns whether it can be put on the lock called `name`.
    pub fn suits(&self, name: &str) -> bool {
        self.locks.contains(&name)
    }
}

/// All mutants, lock by lock.
pub fn mutants() -> impl Iterator<Item = &'static Mutant> {
    [
        mutexes::MUTANTS,
        cohort::MUTANTS,
        rma_mcs::MUTANTS,
        tas_rw::MUTANTS,
        mcs_rw_rp::MUTANTS,
        mcs_rw_wp::MUTANTS,
        mcs_rw_neutral::MUTANTS,
        rma_rw::MUTANTS,
        windows::MUTANTS,
        hierarchical::MUTANTS,
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
