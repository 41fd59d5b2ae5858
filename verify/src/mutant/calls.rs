//! Which of a lock's calls a rule is about.

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;

use super::Rule;
use crate::Access;
use crate::status::Phase;
use crate::subject::Subject;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Any,
    FetchAdd,
    CompareAndSwap,
    FetchStore,
    Get,
    Put,
    Flush,
    WaitUntil,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    Anybody,
    Own,
    Another,
    NotOf(Rank),
}

/// Some of the calls of a lock's acquire and release: those that everything which is said of them fits.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    operation: Operation,
    pub(super) word: Option<&'static str>,
    whose: Whose,
    value: Option<u64>,
    expected: Option<u64>,
    phase: Option<Phase>,
    writing: Option<bool>,
    all: bool,
    waited: Option<bool>,
}

/// When a rank makes a call, as far as that decides what a mutant does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub rank: Rank,
    /// Where the lock's global words are.
    pub home: Rank,
    pub phase: Phase,
    pub access: Access,
    /// Whether it has waited already in this acquire or release.
    pub waited: bool,
}

const fn calls(operation: Operation, word: Option<&'static str>) -> Calls {
    Calls {
        operation,
        word,
        whose: Whose::Anybody,
        value: None,
        expected: None,
        phase: None,
        writing: None,
        all: false,
        waited: None,
    }
}

/// All calls.
pub const fn any_call() -> Calls {
    calls(Operation::Any, None)
}

/// Fetch-and-adds to the word of this name.
pub const fn fetch_add(word: &'static str) -> Calls {
    calls(Operation::FetchAdd, Some(word))
}

/// Compare-and-swaps of the word of this name.
pub const fn compare_and_swap(word: &'static str) -> Calls {
    calls(Operation::CompareAndSwap, Some(word))
}

/// Swaps of the word of this name.
pub const fn fetch_store(word: &'static str) -> Calls {
    calls(Operation::FetchStore, Some(word))
}

/// Gets of the word of this name.
pub const fn get(word: &'static str) -> Calls {
    calls(Operation::Get, Some(word))
}

/// Posted puts of the word of this name.
pub const fn put(word: &'static str) -> Calls {
    calls(Operation::Put, Some(word))
}

/// Flushes of any target.
pub const fn flush() -> Calls {
    calls(Operation::Flush, None)
}

/// Waits for the own word of this name.
pub const fn wait_until(word: &'static str) -> Calls {
    calls(Operation::WaitUntil, Some(word))
}

impl Calls {
    /// To the rank's own memory.
    pub const fn own(mut self) -> Calls {
        self.whose = Whose::Own;
        self
    }

    /// To the memory of another rank.
    pub const fn another(mut self) -> Calls {
        self.whose = Whose::Another;
        self
    }

    /// To the memory of any other rank than this one.
    pub const fn not_of(mut self, rank: Rank) -> Calls {
        self.whose = Whose::NotOf(rank);
        self
    }

    /// Of which this is what is added or stored.
    pub const fn of(mut self, value: u64) -> Calls {
        self.value = Some(value);
        self
    }

    /// Of compare-and-swaps: those that expect this.
    pub const fn expecting(mut self, value: u64) -> Calls {
        self.expected = Some(value);
        self
    }

    /// In acquire.
    pub const fn acquiring(mut self) -> Calls {
        self.phase = Some(Phase::Acquiring);
        self
    }

    /// Inside, between acquire and release.
    pub const fn inside(mut self) -> Calls {
        self.phase = Some(Phase::Inside);
        self
    }

    /// In release.
    pub const fn releasing(mut self) -> Calls {
        self.phase = Some(Phase::Releasing);
        self
    }

    /// Of readers; of a window: of shared locks and of lock_all.
    pub const fn reading(mut self) -> Calls {
        self.writing = Some(false);
        self
    }

    /// Of writers; of a window: of exclusive locks.
    pub const fn writing(mut self) -> Calls {
        self.writing = Some(true);
        self
    }

    /// Of a window: of lock_all.
    pub const fn of_all(mut self) -> Calls {
        self.all = true;
        self
    }

    /// After a wait in the same acquire or release.
    pub const fn after_wait(mut self) -> Calls {
        self.waited = Some(true);
        self
    }

    /// Whether `call`, made now, is one of them.
    pub(super) fn fit(&self, call: &Call, now: Moment, subject: &Subject) -> bool {
        let (operation, value, expected) = match *call {
            Call::FetchAdd { value, .. } => (Operation::FetchAdd, Some(value), None),
            Call::CompareAndSwap { expected, desired, .. } => {
                (Operation::CompareAndSwap, Some(desired), Some(expected))
            }
            Call::FetchStore { value, .. } => (Operation::FetchStore, Some(value), None),
            Call::Get { .. } => (Operation::Get, None, None),
            Call::Put { value, .. } => (Operation::Put, Some(value), None),
            Call::Flush { .. } => (Operation::Flush, None, None),
            Call::WaitUntil { .. } => (Operation::WaitUntil, None, None),
            Call::BulkPut { .. }
            | Call::BulkGet { .. }
            | Call::Start { .. }
            | Call::Finish { .. }
            | Call::Test { .. }
            | Call::Load { .. }
            | Call::Store { .. }
            | Call::Stored
            | Call::FenceEverywhere
            | Call::Pause { .. }
            | Call::Now => (Operation::Any, None, None),
        };
        let word = || call.address(now.rank).and_then(|at| subject.word_at(at, now.home));
        let target = match *call {
            Call::Flush { target } => target,
            _ => call.address(now.rank).map(|at| at.rank),
        };
        let in_phase = match self.phase {
            Some(phase) => now.phase == phase,
            None => matches!(now.phase, Phase::Acquiring | Phase::Releasing),
        };
        in_phase
            && (self.operation == Operation::Any || self.operation == operation)
            && self.word.is_none_or(|name| word().is_some_and(|word| word.name == name))
            && match self.whose {
                Whose::Anybody => true,
                Whose::Own => target == Some(now.rank),
                Whose::Another => target.is_some_and(|target| target != now.rank),
                Whose::NotOf(rank) => target.is_some_and(|target| target != rank),
            }
            && (self.value.is_none() || self.value == value)
            && (self.expected.is_none() || self.expected == expected)
            && self.writing.is_none_or(|writing| writing == now.access.writes())
            && (!self.all || matches!(now.access, Access::All | Access::Read))
            && self.waited.is_none_or(|waited| waited == now.waited)
    }
}

impl Rule {
    /// The calls that it is about.
    pub(super) fn calls(&self) -> Vec<&Calls> {
        match self {
            Rule::Skip(calls)
            | Rule::Answer(calls, _)
            | Rule::See(calls, _)
            | Rule::Change(calls, _)
            | Rule::Instead(calls, ..)
            | Rule::Twice(calls)
            | Rule::Split(calls)
            | Rule::ClaimSuccess(calls)
            | Rule::AsStore(calls)
            | Rule::AsAttempt(calls, _)
            | Rule::ZeroFirst(calls) => vec![calls],
            Rule::Late(late, past) => late.iter().chain(*past).collect(),
            Rule::Unmarked(_) => Vec::new(),
        }
    }
}
