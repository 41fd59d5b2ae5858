//! Network atomics behind one trait.
//!
//! [`RemoteAtomics`] is one rank's view of everybody's memory: fetch-and-add, compare-and-swap, fetch-and-store, get and
//! put on 64-bit words of any rank, bulk transfers, and waiting as an operation of its own. Locks, windows and checkers
//! are written on it once and run on every backend.

mod address;
pub mod bulk;
mod collectives;
mod counted;
mod error;
mod heap;
mod local;
pub mod mapped;
#[cfg(test)]
mod random;
mod remote;
mod topology;
mod world;

pub use address::{Address, Disp, Rank};
pub use collectives::{CHUNK_BYTES, Collectives};
pub use counted::{ByDistance, Counted, Counts};
pub use error::{Error, Operation, Result};
pub use heap::SymmetricHeap;
pub use local::Threads;
pub use mapped::Mapped;
pub use remote::{Atomicity, Capabilities, RemoteAtomics, Request, Time, Until, WORD};
pub use topology::{Distance, Topology};
pub use world::{SEGMENT_BYTES, World};
