//! The calls that a rule is about.

use rmalab_atomics::controlled::Call;
use rmalab_atomics::{Rank, Until};

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
    BulkPut,
    BulkGet,
    FenceEverywhere,
    Now,
    Failed,
    Silence,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    Anybody,
    Own,
    Another,
    NotOf(Rank),
    Everybody,
}

/// A selection of calls of a lock's acquire and release: the calls that meet all conditions.
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

/// The time of a call, as far as a mutant depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub rank: Rank,
    /// The rank that holds the lock's global words.
    pub home: Rank,
    /// Its phase; `None` in a program, which has no acquisitions.
    pub phase: Option<Phase>,
    pub access: Access,
    /// True if it has waited in this acquire or release.
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

macro_rules! constructors {
    ($($name:ident $operation:ident $what:literal)*; $($of_any_word:ident $any_word:ident $which:literal)*) => {
        $(
            #[doc = $what]
            pub const fn $name(word: &'static str) -> Calls {
                calls(Operation::$operation, Some(word))
            }
        )*
        $(
            #[doc = $which]
            pub const fn $of_any_word() -> Calls {
                calls(Operation::$any_word, None)
            }
        )*
    };
}

constructors! {
    fetch_add FetchAdd "Fetch-and-adds to the word of this name."
    compare_and_swap CompareAndSwap "Compare-and-swaps of the word of this name."
    fetch_store FetchStore "Swaps of the word of this name."
    get Get "Gets of the word of this name."
    put Put "Posted puts of the word of this name."
    wait_until WaitUntil "Waits for the local word of this name."
    bulk_get BulkGet "Bulk gets of the word of this name.";
    any_call Any "All calls."
    flush Flush "Flushes and orders of any target."
    fence_everywhere FenceEverywhere "Fences for all ranks."
    bulk_put BulkPut "Bulk puts of any word."
    now Now "Reads of the clock."
    failed Failed "Questions for the ranks that have failed."
    silence Silence "Waits for the silence of ranks that have failed."
}

impl Calls {
    /// To the local memory.
    pub const fn own(self) -> Calls {
        Calls { whose: Whose::Own, ..self }
    }

    /// To the memory of another rank.
    pub const fn another(self) -> Calls {
        Calls { whose: Whose::Another, ..self }
    }

    /// To the memory of any rank except this one.
    pub const fn not_of(self, rank: Rank) -> Calls {
        Calls { whose: Whose::NotOf(rank), ..self }
    }

    /// Of flushes: flushes of all ranks together.
    pub const fn everybody(self) -> Calls {
        Calls { whose: Whose::Everybody, ..self }
    }

    /// With this value to add, to store or to wait for.
    pub const fn of(self, value: u64) -> Calls {
        Calls { value: Some(value), ..self }
    }

    /// Of compare-and-swaps: only operations that expect this value.
    pub const fn expecting(self, value: u64) -> Calls {
        Calls { expected: Some(value), ..self }
    }

    /// In acquire.
    pub const fn acquiring(self) -> Calls {
        Calls { phase: Some(Phase::Acquiring), ..self }
    }

    /// Inside, between acquire and release.
    pub const fn inside(self) -> Calls {
        Calls { phase: Some(Phase::Inside), ..self }
    }

    /// In release.
    pub const fn releasing(self) -> Calls {
        Calls { phase: Some(Phase::Releasing), ..self }
    }

    /// By readers; on a window, by shared locks and lock_all.
    pub const fn reading(self) -> Calls {
        Calls { writing: Some(false), ..self }
    }

    /// By writers; on a window, by exclusive locks.
    pub const fn writing(self) -> Calls {
        Calls { writing: Some(true), ..self }
    }

    /// On a window: by lock_all.
    pub const fn of_all(self) -> Calls {
        Calls { all: true, ..self }
    }

    /// After a wait in the same acquire or release.
    pub const fn after_wait(self) -> Calls {
        Calls { waited: Some(true), ..self }
    }

    /// Returns whether `call`, made now, meets all conditions.
    pub(super) fn fit(&self, call: &Call, now: Moment, subject: &Subject) -> bool {
        let (operation, value, expected) = match *call {
            Call::FetchAdd { value, .. } => (Operation::FetchAdd, Some(value), None),
            Call::CompareAndSwap { expected, desired, .. } => {
                (Operation::CompareAndSwap, Some(desired), Some(expected))
            }
            Call::FetchStore { value, .. } => (Operation::FetchStore, Some(value), None),
            Call::Get { .. } => (Operation::Get, None, None),
            Call::Put { value, .. } => (Operation::Put, Some(value), None),
            Call::Flush { .. } | Call::Order { .. } => (Operation::Flush, None, None),
            Call::WaitUntil { until: Until::Eq(word) | Until::Ge(word), .. } => {
                (Operation::WaitUntil, Some(word), None)
            }
            Call::WaitUntil { .. } => (Operation::WaitUntil, None, None),
            Call::BulkPut { value, .. } => (Operation::BulkPut, Some(value), None),
            Call::BulkGet { .. } => (Operation::BulkGet, None, None),
            Call::FenceEverywhere => (Operation::FenceEverywhere, None, None),
            Call::Now => (Operation::Now, None, None),
            Call::Failed => (Operation::Failed, None, None),
            Call::Silence { .. } => (Operation::Silence, None, None),
            // No rule is about any of these alone.
            _ => (Operation::Any, None, None),
        };
        let word = || call.address(now.rank).and_then(|at| subject.word_at(at, now.home));
        let target = match *call {
            Call::Flush { target } => target,
            Call::Order { target } => Some(target),
            _ => call.address(now.rank).map(|at| at.rank),
        };
        let in_phase = match (self.phase, now.phase) {
            (None, None | Some(Phase::Acquiring | Phase::Releasing)) => true,
            (one, other) => one.is_some() && one == other,
        };
        in_phase
            && (self.operation == Operation::Any || self.operation == operation)
            && self.word.is_none_or(|name| word().is_some_and(|word| word.name == name))
            && match self.whose {
                Whose::Anybody => true,
                Whose::Own => target == Some(now.rank),
                Whose::Another => target.is_some_and(|target| target != now.rank),
                Whose::NotOf(rank) => target.is_some_and(|target| target != rank),
                Whose::Everybody => matches!(call, Call::Flush { target: None }),
            }
            && (self.value.is_none() || self.value == value)
            && (self.expected.is_none() || self.expected == expected)
            && self.writing.is_none_or(|writing| writing == now.access.writes())
            && (!self.all || matches!(now.access, Access::All | Access::Read))
            && self.waited.is_none_or(|waited| waited == now.waited)
    }
}

impl Rule {
    /// The selections of calls of this rule.
    pub(super) fn calls(&self) -> Vec<&Calls> {
        match self {
            Rule::Skip(calls)
            | Rule::Answer(calls, _)
            | Rule::See(calls, _)
            | Rule::LookAgain(calls, _)
            | Rule::Change(calls, _)
            | Rule::Value(calls, _)
            | Rule::AsGet(calls)
            | Rule::AsSwap(calls, _)
            | Rule::Posted(calls, _)
            | Rule::Pretend(calls)
            | Rule::TimesOut(calls)
            | Rule::ZeroAfter(calls)
            | Rule::Instead(calls, ..)
            | Rule::Twice(calls)
            | Rule::Split(calls)
            | Rule::ClaimSuccess(calls)
            | Rule::AsStore(calls)
            | Rule::AsAttempt(calls, _)
            | Rule::ZeroFirst(calls) => vec![calls],
            Rule::Late(late, past) => late.iter().chain(*past).collect(),
            Rule::Unmarked(_) | Rule::Untold => Vec::new(),
        }
    }
}
