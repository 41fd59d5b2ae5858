//! Network atomics behind one trait.
//!
//! [`RemoteAtomics`] is one rank's view of everybody's memory: fetch-and-add, compare-and-swap, fetch-and-store, get and
//! put on 64-bit words of any rank, bulk transfers, and waiting as an operation of its own. Locks, windows and checkers
//! are written on it once and run on every backend.
//!
//! | backend | ranks | made by |
//! | --- | --- | --- |
//! | `local` | threads of one process | [`World::threads`] |
//! | `shm` | processes of one host | [`World::processes`] |
//! | `verbs` | processes of any hosts, through RDMA network adapters; a feature | [`World::processes`] over `Verbs` |
//! | `mpi` | processes of an MPI job, through its remote memory access; a feature | [`World::processes`] over `Mpi` |
//! | `controlled` | coroutines, each call of which an engine carries out when it pleases | [`controlled::spawn`] |
//!
//! [`Counted`] and [`Attended`] wrap any of them; [`conformance`](mod@conformance) is the suite that all of them pass.

#![warn(unnameable_types)]

mod address;
mod attended;
pub mod bootstrap;
pub mod bulk;
mod collectives;
pub mod conformance;
pub mod controlled;
pub mod coroutine;
mod counted;
mod dynamic;
mod error;
pub mod fabric;
mod heap;
mod launch;
mod local;
pub mod mapped;
#[cfg(feature = "mpi")]
pub mod mpi;
mod processes;
mod random;
pub mod registered;
mod remote;
pub mod shm;
pub mod sim;
pub mod subset;
mod topology;
#[cfg(feature = "verbs")]
pub mod verbs;
mod word;
pub mod words;
mod world;

pub use address::{Address, Disp, Rank};
pub use attended::{Attended, Served};
pub use collectives::{CHUNK_BYTES, Collectives};
pub use counted::{ByDistance, Counted, Counts};
pub use dynamic::{Backend, Member, started_as};
pub use error::{Error, Operation, Result};
pub use fabric::Fabric;
pub use heap::SymmetricHeap;
pub use launch::{Host, Hosts, Job, Launcher, Line, Outcome, Output, Stream, part};
pub use local::Threads;
pub use mapped::Mapped;
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
pub use processes::{Joined, Processes, Wishes};
pub use remote::{Atomicity, Capabilities, RemoteAtomics, Request, Time, Until, WORD, WholeWorld};
pub use subset::Subset;
pub use topology::{Distance, Topology};
#[cfg(feature = "verbs")]
pub use verbs::Verbs;
pub use world::{SEGMENT_BYTES, World, bind_to_core};

/// The signals of [`Job::signal`].
pub use rustix::process::Signal;
