//! Descriptions of workloads: what a program's ranks do on a window, as far as a lock policy can depend on it.
//!
//! A description is a TOML file. Every time and every size in it is a string with its unit (see [`units`](rmalab_atomics::sim::units)); keys that are
//! not known, and values that cannot be, are errors that name file, line and key. `bench/workloads` has examples.
//!
//! ```toml
//! ranks = 64
//! ranks_per_node = 8
//! acquisitions = 1000          # of each rank
//! objective = "throughput"     # or "p99", "fairness": what a policy is chosen by
//!
//! [[class]]                    # one class of acquisitions; there may be several
//! share = 1.0                  # of all acquisitions, or "100%"; the shares sum to 1
//! lock = "exclusive"           # or "shared", "lock_all"
//! targets = { zipf = 0.99 }    # or "uniform", "own", "neighbours", { single = 3 }
//! between = { mean = "5us" }   # before the lock: exponential; "5us" is constant, { min = "1us", max = "9us" } uniform
//! inside = "200ns"             # while it is held, beside the operations
//!
//! [[class.operation]]          # while it is held, one kind after the other; none is legal
//! kind = "put"                 # or "get", "update" (atomic updates of 8-byte words)
//! count = 2                    # 1 if not given
//! bytes = "64B"                # of each; updates have 8B if not given
//! target = "same"              # the locked one, or one for all of the acquisition; "any", with lock_all: each its own
//! ```
//!
//! # What a rank does
//!
//! For each acquisition it draws a class by the shares and a target by the class's `targets`, computes for `between`, locks
//! the target (all targets under `lock_all`), does the operations, computes for `inside`, and unlocks. Neighbours are the
//! ranks one below and one above its own, around the end. Under `zipf` the k-th of n targets is drawn in proportion to k to
//! the power of minus the exponent; the order of the targets scatters them over the nodes and is the same for all ranks.
//!
//! Transfers go to a window of [`window_bytes`](Workload::window_bytes) bytes at each rank. Each starts where the one before
//! ended, and wraps around at the window's end; where a rank begins follows from its number, so that ranks are not at one
//! place together. One that is longer than the window is made as several. An update is a fetch-and-add for each word.
//!
//! The steps follow from the workload, the seed and the rank alone, and take no memory beyond the iterator's own.

mod read;
mod steps;

use std::fmt;
use std::path::{Path, PathBuf};

use rmalab_atomics::{Rank, WORD};

pub use steps::Steps;

/// Bytes of a rank's part of the window: at least, a page, and at most.
const WINDOW: (u64, u64) = (4096, 64 << 10);

/// The longest description that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// What is wrong with a workload's description: one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadError {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; `None` if the file cannot be read.
    pub line: Option<usize>,
    /// The key, with the tables that it is in; empty where there is none.
    pub key: String,
    /// What is wrong with it, and what to write.
    pub what: String,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.what)
    }
}

impl std::error::Error for WorkloadError {}

/// What a policy is chosen by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Objective {
    /// Acquisitions in a second, of all ranks together.
    Throughput,
    /// The 99th percentile of the time that an acquisition takes.
    P99,
    /// How evenly the ranks come to their acquisitions.
    Fairness,
}

/// What is locked, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Acquire {
    /// All targets, shared.
    LockAll,
    /// One target, shared.
    Shared,
    /// One target, exclusive.
    Exclusive,
}

/// How a target is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Targets {
    /// All ranks alike.
    Uniform,
    /// By Zipf's law with this exponent.
    Zipf(f64),
    /// Always this one.
    Single(Rank),
    /// The rank below or the rank above the local one.
    Neighbours,
    /// The local rank.
    Own,
}

/// A time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// Always the same.
    Constant(u64),
    /// From the first to the second, all alike.
    Uniform(u64, u64),
    /// Exponential, with this mean.
    Exponential(u64),
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperationKind {
    /// Writes.
    Put,
    /// Reads.
    Get,
    /// Updates words atomically.
    Update,
}

/// Operations in an acquisition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// What they do.
    pub kind: OperationKind,
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub bytes: u64,
    /// Whether each of them has a target of its own.
    pub any: bool,
}

/// A class of acquisitions.
#[derive(Clone, PartialEq, Debug)]
pub struct Class {
    /// Its share of all acquisitions.
    pub share: f64,
    /// What is locked.
    pub lock: Acquire,
    /// How targets are drawn.
    pub targets: Targets,
    /// The time before the lock.
    pub between: Span,
    /// The time while it is held.
    pub inside: Span,
    /// The operations while it is held.
    pub operations: Vec<Operation>,
}

/// A workload; see the [module's text](self).
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name: that of the file, without `.toml`.
    pub name: String,
    /// How many ranks there are.
    pub ranks: u32,
    /// How many of them are on one node.
    pub ranks_per_node: u32,
    /// How many acquisitions each rank makes.
    pub acquisitions: u64,
    /// What a policy is chosen by.
    pub objective: Objective,
    /// The classes of acquisitions.
    pub classes: Vec<Class>,
}

impl Workload {
    /// Reads a description from a file.
    ///
    /// # Errors
    ///
    /// What the operating system says, and as [`parse`](Self::parse).
    pub fn read(file: impl AsRef<Path>) -> Result<Workload, WorkloadError> {
        let file = file.as_ref();
        let failed = |what: String| WorkloadError { file: file.to_owned(), line: None, key: String::new(), what };
        let bytes = rmalab_job::file::read(file, LONGEST).map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| failed("this is no text (UTF-8)".to_owned()))?;
        Workload::parse(file, &text)
    }

    /// Reads a description from `text`, which errors call `file`.
    ///
    /// # Errors
    ///
    /// What is no TOML, and every key that is missing, unknown, or has a value that cannot be: the first of them.
    pub fn parse(file: &Path, text: &str) -> Result<Workload, WorkloadError> {
        read::workload(file, text)
    }

    /// The same workload with another number of ranks.
    ///
    /// A single target that such a world does not have becomes its last rank; a node has no more ranks than there are.
    pub fn with_ranks(mut self, ranks: u32) -> Workload {
        self.ranks = ranks.max(1);
        self.ranks_per_node = self.ranks_per_node.min(self.ranks);
        for class in &mut self.classes {
            if let Targets::Single(target) = &mut class.targets {
                target.0 = target.0.min(self.ranks - 1);
            }
        }
        self
    }

    /// The steps of `rank`.
    pub fn steps(&self, seed: u64, rank: Rank) -> Steps<'_> {
        Steps::new(self, seed, rank)
    }

    /// Bytes of each rank's part of the window: room for the largest transfer, up to 64 KiB.
    pub fn window_bytes(&self) -> u64 {
        self.largest().clamp(WINDOW.0, WINDOW.1).next_multiple_of(WORD)
    }

    /// Bytes of the largest transfer.
    pub fn largest(&self) -> u64 {
        let operations = self.classes.iter().flat_map(|class| &class.operations);
        operations.map(|operation| operation.bytes).max().unwrap_or(0)
    }
}
