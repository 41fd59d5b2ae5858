//! Permutations of ranks, applied to addresses, words and calls.

use rmalab_atomics::controlled::Call;
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Rank, Until};

use crate::check::Check;
use crate::choice::Choice;
use crate::play::DATA;
use crate::subject::Holds;

/// The largest number of ranks that are permuted.
pub(super) const RANKS: usize = 8;

/// A permutation of ranks: the image of each rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Permutation(pub(super) [u8; RANKS]);

impl Permutation {
    pub(super) const IDENTITY: Permutation = Permutation([0, 1, 2, 3, 4, 5, 6, 7]);

    #[inline]
    pub(super) fn rank(&self, rank: usize) -> usize {
        self.0.get(rank).map_or(rank, |&to| usize::from(to))
    }

    /// The permutation that undoes this one.
    pub(super) fn inverse(&self) -> Permutation {
        let mut inverse = Permutation::IDENTITY;
        for (rank, &to) in (0..).zip(&self.0) {
            inverse.0[usize::from(to)] = rank;
        }
        inverse
    }

    /// The permutation that does `first`, and then this one.
    pub(super) fn after(&self, first: &Permutation) -> Permutation {
        Permutation(first.0.map(|rank| self.0[usize::from(rank)]))
    }

    /// The choice of the permuted rank.
    pub(super) fn choice(&self, choice: Choice) -> Choice {
        let image = |rank: Rank| Rank(self.rank(rank.index()) as u32);
        match choice {
            Choice::Step(rank) => Choice::Step(image(rank)),
            Choice::Deadline(rank) => Choice::Deadline(image(rank)),
            Choice::Arrive { from, index } => Choice::Arrive { from: image(from), index },
            Choice::Crash(rank) => Choice::Crash(image(rank)),
            Choice::CrashAmid(rank) => Choice::CrashAmid(image(rank)),
            Choice::Restart(rank) => Choice::Restart(image(rank)),
            Choice::Lapse(rank) => Choice::Lapse(image(rank)),
            Choice::Notice { rank, of } => Choice::Notice { rank: image(rank), of: image(of) },
        }
    }

    pub(super) fn word(&self, holds: Holds, word: u64) -> u64 {
        let bits = holds.pointer_bits().unwrap_or(0);
        match word & bits {
            0 => word,
            plus_one => word & !bits | (self.rank(plus_one as usize - 1) as u64 + 1),
        }
    }

    pub(super) fn operation(&self, holds: Holds, op: WordOp) -> WordOp {
        let word = |value| self.word(holds, value);
        match op {
            WordOp::CompareAndSwap { expected, desired } => {
                WordOp::CompareAndSwap { expected: word(expected), desired: word(desired) }
            }
            WordOp::FetchStore(value) => WordOp::FetchStore(word(value)),
            WordOp::Put(value) => WordOp::Put(word(value)),
            WordOp::FetchAdd(_) | WordOp::Get => op,
        }
    }

    pub(super) fn address(&self, at: Address) -> Address {
        Address { rank: Rank(self.rank(at.rank.index()) as u32), ..at }
    }

    /// The call of the permuted rank for `call`, on a word that holds `holds`.
    pub(super) fn call(&self, call: Call, holds: Holds) -> Call {
        let word = |value| self.word(holds, value);
        match call {
            Call::FetchAdd { at, value } => Call::FetchAdd { at: self.address(at), value },
            Call::CompareAndSwap { at, expected, desired } => {
                Call::CompareAndSwap { at: self.address(at), expected: word(expected), desired: word(desired) }
            }
            Call::FetchStore { at, value } => Call::FetchStore { at: self.address(at), value: word(value) },
            Call::Get { at } => Call::Get { at: self.address(at) },
            Call::Put { at, value } => Call::Put { at: self.address(at), value: word(value) },
            Call::BulkPut { at, mask, value, first } => Call::BulkPut { at: self.address(at), mask, value, first },
            Call::BulkGet { at } => Call::BulkGet { at: self.address(at) },
            Call::Start { request, at, op } => {
                Call::Start { request, at: self.address(at), op: self.operation(holds, op) }
            }
            Call::Finish { request, at } => Call::Finish { request, at: self.address(at) },
            Call::Load { at } => Call::Load { at: self.address(at) },
            Call::Store { at, value } => Call::Store { at: self.address(at), value: word(value) },
            Call::Flush { target } => Call::Flush { target: target.map(|rank| Rank(self.rank(rank.index()) as u32)) },
            Call::Order { target } => Call::Order { target: Rank(self.rank(target.index()) as u32) },
            Call::WaitUntil { own, until, deadline } => {
                let until = match until {
                    Until::Eq(value) => Until::Eq(word(value)),
                    Until::Ne(value) => Until::Ne(word(value)),
                    other => other,
                };
                Call::WaitUntil { own, until, deadline }
            }
            Call::Test { .. } | Call::Stored | Call::FenceEverywhere | Call::Pause { .. } | Call::Now => call,
            // Ranks that may fail are not exchanged.
            Call::Failed | Call::Acknowledge { .. } | Call::Silence { .. } => call,
        }
    }
}

/// The kind of value in a word, if the word has a name. Data are numbers.
pub(super) fn holds(check: &Check, at: Address) -> Option<Holds> {
    if at.disp == DATA {
        return Some(Holds::Number);
    }
    check.word_at(at).map(|word| word.holds)
}
