//! Backends whose ranks run on the machine: over shared memory, over RDMA adapters, and over an MPI.

pub mod mapped;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod shm;
#[cfg(feature = "verbs")]
pub mod verbs;
