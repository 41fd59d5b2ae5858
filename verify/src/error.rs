//! Errors of a check itself, as opposed to its findings.

use rmalab_atomics::Rank;

use crate::{Form, Property};

/// The result of running a check.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A check that could not be run. Its *findings* are in its verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario has more ranks than the world.
    #[error("{rank}: scenario {scenario} needs {needed} ranks, but the world has {size}")]
    TooFewRanks {
        /// The rank that called.
        rank: Rank,
        /// The scenario.
        scenario: String,
        /// The number of ranks of the scenario.
        needed: u32,
        /// The number of ranks of the world.
        size: u32,
    },
    /// A lock got a role that only windows have.
    #[error("scenario {scenario}: {lock} is not a window, so it has no role {role}; use R, W or M")]
    Scenario {
        /// The scenario.
        scenario: String,
        /// The lock.
        lock: &'static str,
        /// The role.
        role: String,
    },
    /// The lock does not support a form of acquisition.
    #[error(
        "scenario {scenario}: {lock} has no acquisitions of the form {form}; {instead}",
        form = form.name(),
        instead = if *tries { "use try, or no form" } else { "name no form" }
    )]
    Form {
        /// The scenario.
        scenario: String,
        /// The lock.
        lock: &'static str,
        /// The form.
        form: Form,
        /// True if it can be tried.
        tries: bool,
    },
    /// The world of the check has more ranks than the lock can count.
    #[error("scenario {scenario}: {source}{home}", home = if *home { "; one rank more than the scenario has holds the lock's words" } else { "" })]
    TooManyRanks {
        /// The scenario.
        scenario: String,
        /// The lock's error.
        source: rmalab_locks::Error,
        /// True if a rank that takes no part has the lock's words.
        home: bool,
    },
    /// Ranks fail in a check that has no failures.
    #[error("scenario {scenario}: {lock}: {why}")]
    Crashes {
        /// The scenario.
        scenario: String,
        /// The lock.
        lock: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The mutant does not suit the lock.
    #[error("mutant {mutant} does not suit {lock}; it suits {of}")]
    Mutant {
        /// The mutant.
        mutant: &'static str,
        /// The lock.
        lock: &'static str,
        /// The locks that it suits.
        of: String,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file that is not a counterexample.
    #[error("{path} is not a counterexample: {why}", path = path.display())]
    Format {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        why: String,
    },
    /// A schedule that does not fit the lock, for example because the lock has changed.
    #[error(
        "step {step} of the schedule is not possible: {why}; the schedule belongs to another lock, mutant or version"
    )]
    Schedule {
        /// The number of the step, counted from 0.
        step: usize,
        /// The reason why the step is not possible.
        why: String,
    },
    /// The engine does not support this check.
    #[error("{engine}: {why}")]
    Unsupported {
        /// The engine.
        engine: &'static str,
        /// The unsupported feature.
        why: String,
    },
    /// The engine cannot guarantee its result.
    #[error("{0}")]
    Unsound(String),
    /// The lock under test returned an error.
    #[error(transparent)]
    Locks(#[from] rmalab_locks::Error),
    /// The network operations of the check failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
    /// The window under test returned an error.
    #[error(transparent)]
    Windows(#[from] rmalab_windows::Error),
    /// A program has seen a value that it must not see.
    #[error("{property}: {seen}")]
    Seen {
        /// The violated property.
        property: Property,
        /// The observation, with its values.
        seen: String,
    },
}

impl Error {
    /// The property that a rank's code breaks by this error, and the text for the report.
    pub(crate) fn breaks(&self) -> (Property, String) {
        match self {
            Error::Seen { property, seen } => (*property, seen.clone()),
            error => (Property::Invariant, format!("a call failed: {error}")),
        }
    }
}
