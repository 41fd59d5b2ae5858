//! Descriptions of workloads: the work of a program's ranks on a window, as far as a lock policy can depend on it.
//!
//! A description is a TOML file. Every time and every size in it is a string with its unit (see
//! [`units`](rmalab_atomics::sim::units)). Unknown keys and invalid values are errors that name file, line and key.
//! `bench/workloads` has examples.
//!
//! ```toml
//! ranks = 64
//! ranks_per_node = 8
//! acquisitions = 1000          # of each rank
//! objective = "throughput"     # or "p99", "fairness": the objective in the choice of a policy
//!
//! [[class]]                    # one class of acquisitions; there may be several
//! share = 1.0                  # of all acquisitions, or "100%"; the shares sum to 1
//! lock = "exclusive"           # or "shared", "lock_all"
//! targets = { zipf = 0.99 }    # or "uniform", "own", "neighbours", { single = 3 }
//! between = { mean = "5us" }   # before the lock: exponential; "5us" is constant, { min = "1us", max = "9us" } uniform
//! inside = "200ns"             # while the lock is held, beside the operations
//!
//! [[class.operation]]          # while the lock is held, one kind after the other; may be left out
//! kind = "put"                 # or "get", "update" (atomic updates of 8-byte words)
//! count = 2                    # 1 if not given
//! bytes = "64B"                # of each; updates have 8B if not given
//! target = "same"              # the locked one, or one for all of the acquisition; "any", with lock_all: each its own
//! ```
//!
//! # What a rank does
//!
//! For each acquisition it draws a class by the shares and a target by the class's `targets`. It computes for
//! `between`, locks the target (all targets under `lock_all`), does the operations, computes for `inside`, and unlocks.
//! Neighbours are the ranks one below and one above its own, around the end. Under `zipf`, the k-th of n targets is
//! drawn in proportion to k to the power of minus the exponent. The order of the targets scatters them over the nodes,
//! and is the same for all ranks.
//!
//! Transfers go to a window of [`window_bytes`](Workload::window_bytes) bytes at each rank. Each starts at the end of
//! the previous one, and wraps around at the window's end. The rank's number determines its first position, so that
//! ranks start at different ones. A transfer longer than the window becomes several. An update is a fetch-and-add for
//! each word.
//!
//! # Tables of locks
//!
//! With a table `[table]`, there are further locks besides the ranks' own. Each is at a rank, its home. `locks` is their number. `homes` is
//! the number of ranks that have them, evenly spread (all if not given). `local` is the share of requests for locks on the rank's own node.
//! The `targets` of the classes then choose among locks (`"uniform"` or `zipf`). A window has one lock for each target. So a lock of the
//! table stands for its home there: all locks of one home are one lock.
//!
//! Instead of `locks`, a table may have a `trace`, the file of a [`LockTrace`], beside the description. The classes then have no `lock` and
//! no `targets`, and an acquisition is a transaction of the trace. A rank locks its targets by rising ranks, does the operations of the
//! class at each of them, and unlocks all. So `acquisitions` are the transactions of each rank. A transaction that needs shared and
//! exclusive locks takes the first one exclusively. The reason is that a policy with one lock for the window cannot upgrade it.
//!
//! The steps depend on the workload, the seed and the rank alone. They take only the memory of the iterator and of one transaction's
//! targets.

mod benchmarks;
mod lock_trace;
mod read;
mod steps;
mod table;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rmalab_atomics::{Rank, Topology, WORD};

pub use benchmarks::Benchmark;
pub use lock_trace::{LockTrace, MAX_REQUESTS};
pub use steps::Steps;
pub(crate) use table::{Layout, Requests};
pub use table::{MAX_LOCKS, Popularity, Table};

/// Bytes of a rank's part of the window: at least, a page, and at most.
const WINDOW: (u64, u64) = (4096, 64 << 10);

/// The longest description that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// An error in a workload's description: one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadError {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; `None` if the file cannot be read.
    pub line: Option<usize>,
    /// The key, with its tables; empty if there is none.
    pub key: String,
    /// The error, and its correction.
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

/// Objectives in the choice of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Objective {
    /// Acquisitions per second, of all ranks together.
    Throughput,
    /// The 99th percentile of the time of an acquisition.
    P99,
    /// The fairness of the ranks' rates.
    Fairness,
}

/// Kinds of locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Acquire {
    /// All targets, shared.
    LockAll,
    /// One target, shared.
    Shared,
    /// One target, exclusive.
    Exclusive,
}

/// Distributions of targets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Targets {
    /// All ranks with equal probability.
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
    /// Uniform from the first to the second.
    Uniform(u64, u64),
    /// Exponential, with this mean.
    Exponential(u64),
}

/// Kinds of operations.
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
    /// Their kind.
    pub kind: OperationKind,
    /// Their number.
    pub count: u32,
    /// Bytes of each.
    pub bytes: u64,
    /// True if each of them has its own target.
    pub any: bool,
}

/// A class of acquisitions.
#[derive(Clone, PartialEq, Debug)]
pub struct Class {
    /// Its share of all acquisitions.
    pub share: f64,
    /// The kind of the lock; means nothing with a trace.
    pub lock: Acquire,
    /// The distribution of targets; means nothing with a trace.
    pub targets: Targets,
    /// The time ahead of the lock.
    pub between: Span,
    /// The time while the lock is held.
    pub inside: Span,
    /// The operations while the lock is held.
    pub operations: Vec<Operation>,
}

/// A workload; see the [module's text](self).
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name: the file's, without `.toml`.
    pub name: String,
    /// The number of ranks.
    pub ranks: u32,
    /// The number of ranks on a node.
    pub ranks_per_node: u32,
    /// The number of acquisitions of each rank; with a trace, of transactions.
    pub acquisitions: u64,
    /// The objective in the choice of a policy.
    pub objective: Objective,
    /// The classes of acquisitions.
    pub classes: Vec<Class>,
    /// The table of locks from which acquisitions draw, if there is one.
    layout: Option<Arc<Layout>>,
}

impl Workload {
    /// Reads a description from a file.
    ///
    /// # Errors
    ///
    /// Errors of the operating system, and errors of [`parse`](Self::parse).
    pub fn read(file: impl AsRef<Path>) -> Result<Workload, WorkloadError> {
        let file = file.as_ref();
        let failed = |what: String| WorkloadError { file: file.to_owned(), line: None, key: String::new(), what };
        let bytes = rmalab_job::file::read(file, LONGEST).map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| failed("this is not text in UTF-8".to_owned()))?;
        Workload::parse(file, &text)
    }

    /// Reads a description from `text`; errors name it `file`.
    ///
    /// # Errors
    ///
    /// The first error: invalid TOML, or a key that is missing, unknown, or has an invalid value.
    pub fn parse(file: &Path, text: &str) -> Result<Workload, WorkloadError> {
        read::workload(file, text)
    }

    /// The same workload with another number of ranks.
    ///
    /// A single target beyond the new ranks becomes the last rank; a node has at most all ranks.
    pub fn with_ranks(mut self, ranks: u32) -> Workload {
        self.ranks = ranks.max(1);
        self.ranks_per_node = self.ranks_per_node.min(self.ranks);
        for class in &mut self.classes {
            if let Targets::Single(target) = &mut class.targets {
                target.0 = target.0.min(self.ranks - 1);
            }
        }
        if let Some(table) = self.table().cloned() {
            let homes = table.homes.map(|homes| homes.min(self.ranks));
            self = self.with_table(Table { homes, ..table });
        }
        self
    }

    /// The table of locks, if there is one.
    pub fn table(&self) -> Option<&Table> {
        self.layout.as_ref().map(|layout| layout.table())
    }

    /// The trace of the transactions, if the locks come from one.
    pub fn trace(&self) -> Option<&LockTrace> {
        self.table()?.trace.as_deref()
    }

    /// The same workload over a table of locks. Its ranks fill one node after the other.
    fn with_table(self, table: Table) -> Workload {
        let topology = match Topology::blocks(self.ranks, self.ranks_per_node, 1) {
            Ok(topology) => topology,
            Err(_) => Topology::one_node(self.ranks),
        };
        Workload { layout: Some(Arc::new(Layout::new(table, &topology))), ..self }
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
