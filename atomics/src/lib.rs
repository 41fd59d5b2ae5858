//! Network atomics behind one trait.
//!
//! [`RemoteAtomics`] is one rank's view of the memory of all ranks: fetch-and-add, compare-and-swap, fetch-and-store, get and put on
//! 64-bit words of any rank, bulk transfers, and waiting as an operation. Locks, windows and checkers are written on it once and run on
//! every backend.
//!
//! | backend | ranks | made by |
//! | --- | --- | --- |
//! | `local` | threads of one process | [`World::threads`] |
//! | `shm` | processes of one host | [`World::processes`] |
//! | `verbs` | processes of any hosts, through RDMA network adapters; a feature | [`World::processes`] over `Verbs` |
//! | `mpi` | processes of an MPI job, through its remote memory access; a feature | [`World::processes`] over `Mpi` |
//! | `sim` | coroutines in virtual time, over a model of a machine | [`sim::Simulator`] |
//! | `controlled` | coroutines; an engine executes each of their calls at a time that it chooses | [`controlled::spawn`] |
//!
//! The folders, from the bottom up: `model` (the operations and the traits), `over` (code that runs on every backend), `join` (how a
//! process finds its world), `backend` and `engine` (code that executes operations), and `job` (the start of ranks).
//!
//! [`Counted`], [`Attended`], [`Probed`] and [`Crashing`] wrap any backend. [`conformance`](mod@conformance) is the suite that every backend passes.

#![warn(unnameable_types)]

mod backend;
pub mod conformance;
mod engine;
mod job;
mod join;
mod model;
mod over;
mod random;

#[cfg(feature = "mpi")]
pub use backend::mpi::{self, Mpi};
#[cfg(feature = "verbs")]
pub use backend::verbs::{self, Verbs};
pub use backend::{
    mapped::{self, Mapped},
    shm,
};
pub use engine::{controlled, coroutine, sim};
pub use job::dynamic::{Backend, Member, started_as};
pub use job::launch::{Host, Hosts, Job, Launcher, Line, Outcome, Output, Stream, part};
pub use job::local::Threads;
pub use job::processes::Processes;
pub use join::bootstrap;
pub use join::joined::{Joined, Wishes};
pub use model::address::{Address, Disp, Rank};
pub use model::error::{Error, Operation, Result};
pub use model::fabric::{self, Fabric};
pub use model::failed::Failed;
pub use model::heap::SymmetricHeap;
pub use model::registered;
pub use model::remote::{Atomicity, Capabilities, RemoteAtomics, Request, Time, Until, WORD, WholeWorld};
pub use model::topology::{Distance, Topology};
pub use model::words;
pub use model::world::{SEGMENT_BYTES, SHARED_SEGMENT_BYTES, World, bind_to_core};
pub use over::attended::{Attended, Served};
pub use over::bulk;
pub use over::collectives::{CHUNK_BYTES, Collectives};
pub use over::counted::{ByDistance, Counted, Counts};
pub use over::crashing::{Crashing, Unwound};
pub use over::probed::Probed;
pub use over::region::Region;
pub use over::subset::{self, Subset};
pub use over::survivors::Survivors;

/// The signals of [`Job::signal`].
pub use rustix::process::Signal;

/// The example of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
